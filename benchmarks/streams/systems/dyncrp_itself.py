"""dyncrp, given nothing.

Row by row, a label is what ``partial_fit`` says when the row comes: during the first 1,000 rows it is provisional,
since settings are still being learned. ``fit`` learns settings from the first 1,000 rows, without labels, before it
labels them; from then on the two are the same model.
"""

from __future__ import annotations

from benchmarks.data import Float
from benchmarks.streams.base import FIRST, Labels, Names, Rows, System
from dyncrp import DynamicalMixture

WARM = "nothing; labels from the end of the warm-up on"


def row_by_row(stream: Rows, seed: int) -> System:
    """Return ``DynamicalMixture()``, asked for the label of each row before the next is there."""
    model, names, seen = DynamicalMixture(), Names(), 0

    def step(X: Float) -> Labels:
        nonlocal seen
        labels, seen = model.partial_fit(X).labels_.tolist(), seen + 1
        if seen <= FIRST:  # settings are learned from the first 1, 2, 4, 8, … rows, which are then seated again
            renamed = seen & (seen - 1) == 0 or seen == FIRST
            names.update(model.table_ids_.tolist(), model.centers_, renamed=renamed)
        names.add(labels)
        return names.of(labels)

    return System("dyncrp, row by row", "nothing", step, None, model.to_bytes)


def dyncrp(stream: Rows, seed: int) -> System:
    """Return ``DynamicalMixture()``. Labels on arrival are tables; at the end they are joined into clusters."""
    model = DynamicalMixture()

    def step(X: Float) -> Labels:
        return model.fit(X).labels_

    def relabel(X: Float) -> Labels:
        return model.clusters().labels(model.labels_)

    return System("dyncrp", WARM, step, relabel, model.to_bytes, chunk=0)


def dyncrp_clusters(stream: Rows, seed: int) -> System:
    """Return ``DynamicalMixture(keep_clusters=True)``: labels on arrival are clusters as known then."""
    model = DynamicalMixture(keep_clusters=True)

    def step(X: Float) -> Labels:
        batch = model.fit(X).stream_.batch
        assert batch is not None
        return batch.clusters

    def relabel(X: Float) -> Labels:
        return model.resolve(model.labels_, level="cluster")

    return System("dyncrp, clusters kept", WARM, step, relabel, model.to_bytes, chunk=0)


SYSTEMS = (row_by_row, dyncrp, dyncrp_clusters)

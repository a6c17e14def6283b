"""dyncrp, given nothing. Labels on arrival are tables; at the end they are joined into clusters.

One pass in which no label depends on later rows; only hyperparameters are learned from the first 1,000 rows, without
labels, before it begins.
"""

from __future__ import annotations

from benchmarks.data import Float
from benchmarks.streams.base import Labels, Rows, System
from dyncrp import DynamicalMixture


def dyncrp(stream: Rows, seed: int) -> System:
    """Return ``DynamicalMixture()``."""
    model = DynamicalMixture()

    def step(X: Float) -> Labels:
        return model.fit(X).labels_

    def relabel(X: Float) -> Labels:
        return model.clusters().labels(model.labels_)

    return System("dyncrp", "nothing", step, relabel, model.to_bytes, chunk=0)


def dyncrp_clusters(stream: Rows, seed: int) -> System:
    """Return ``DynamicalMixture(keep_clusters=True)``: labels on arrival are clusters as known then."""
    model = DynamicalMixture(keep_clusters=True)

    def step(X: Float) -> Labels:
        batch = model.fit(X).stream_.batch
        assert batch is not None
        return batch.clusters

    def relabel(X: Float) -> Labels:
        return model.resolve(model.labels_, level="cluster")

    return System("dyncrp, clusters kept", "nothing", step, relabel, model.to_bytes, chunk=0)


SYSTEMS = (dyncrp, dyncrp_clusters)

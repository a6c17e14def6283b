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


SYSTEMS = (dyncrp,)

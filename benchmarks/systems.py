"""The systems that are compared: how each is made, what it is told, how it learns, labels and counts."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import SPREAD, Float
from dyncrp import DynamicalMixture, Exponential, Gaussian

ALPHA = 0.01
TIMESCALE = 1e5
MOST_ENTRIES = 2_000_000  # of rows turned into dictionaries
MOST_DICTS = 20_000


@dataclass
class System:
    """One contender. ``slow`` ones learn row by row and get a time limit instead of a number of rows."""

    name: str
    told: str
    model: Any
    batch: int
    learn: Callable[[Any], object]
    label: Callable[[Any], Sequence[int] | NDArray[Any]]
    count: Callable[[], int]
    first: int = 0  # rows of the first call, where they are more than a batch
    slow: bool = False
    least: int = 0  # rows that a slow one gathers before it starts to cluster


def ours(batch: int, name: str) -> System:
    """Return dyncrp, which labels every row as it arrives."""
    model = DynamicalMixture(Gaussian(1.0, SPREAD**2), Exponential(TIMESCALE), alpha=ALPHA)
    return System(
        name,
        "variances of clusters and centres",
        model,
        batch,
        model.partial_fit,
        lambda X: model.partial_fit(X).labels_,
        lambda: model.n_tables_,
    )


def mini_batch_k_means(K: int, batch: int) -> System:
    """scikit-learn's streaming k-means; its centres start from max(3K, 1024) rows, whatever the batch."""
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(K, batch_size=batch, random_state=0)
    name = f"MiniBatchKMeans, batch {batch}"
    first = max(3 * K, 1024)
    return System(name, "K", model, batch, model.partial_fit, model.predict, lambda: K, first=first)


def birch(D: int) -> System:
    """scikit-learn's Birch; a cluster's radius is √D."""
    from sklearn.cluster import Birch

    model = Birch(threshold=1.5 * np.sqrt(D), n_clusters=None)
    count = lambda: len(model.subcluster_centers_)  # noqa: E731
    return System("Birch, batch 256", "radius 1.5 √D", model, 256, model.partial_fit, model.predict, count)


def has_river() -> bool:
    """Whether river is installed."""
    return importlib.util.find_spec("river") is not None


def rivers(K: int, D: int) -> list[System]:
    """river's four stream clusterers, which learn one dictionary at a time."""
    from river import cluster

    radius = float(np.sqrt(2 * D) + 1)  # two rows of a cluster lie √(2D) apart
    fading = 0.1 / K  # the default, 0.01, at K = 10; otherwise a cluster is forgotten between two visits
    dbstream = cluster.DBSTREAM(clustering_threshold=radius, fading_factor=fading, cleanup_interval=20 * K)
    denstream = cluster.DenStream(epsilon=float(1.5 * np.sqrt(D)), decaying_factor=fading, stream_speed=1)
    clustream = cluster.CluStream(n_macro_clusters=K, max_micro_clusters=max(100, K), seed=0)
    streamkmeans = cluster.STREAMKMeans(chunk_size=max(100, K), n_clusters=K, sigma=SPREAD, seed=0)
    return [
        _river("DBSTREAM", f"radius √(2D) + 1, fading {fading:g}", dbstream, lambda: int(dbstream.n_clusters), 0),
        _river("DenStream", f"radius 1.5 √D, decay {fading:g}", denstream, lambda: int(denstream.n_clusters), 1000),
        _river("CluStream", "K", clustream, lambda: len(clustream.centers), max(100, K) + 100),
        _river("STREAMKMeans", "K, spread", streamkmeans, lambda: len(streamkmeans.centers), max(100, K)),
    ]


def _river(name: str, told: str, model: Any, count: Callable[[], int], least: int) -> System:
    def learn(rows: list[dict[int, float]]) -> None:
        for row in rows:
            model.learn_one(row)

    def label(rows: list[dict[int, float]]) -> list[int]:
        return [model.predict_one(row) for row in rows]

    return System(f"river {name}", told, model, 1, learn, label, count, slow=True, least=least)


def as_dicts(X: Float) -> list[dict[int, float]]:
    """Return the first rows as river wants them; no system is charged for it."""
    return dicts(X[: min(MOST_DICTS, max(100, MOST_ENTRIES // X.shape[1]))])


def dicts(X: Float) -> list[dict[int, float]]:
    """Return each row as a dictionary from the feature's index."""
    return [dict(enumerate(row)) for row in X.tolist()]


def contenders(K: int, D: int, big: int) -> list[System]:
    """Return everyone, ourselves first; ``big`` rows make the one big call."""
    systems = [ours(1024, "dyncrp, batch 1024"), ours(big, "dyncrp, one call")]
    systems += [mini_batch_k_means(K, batch) for batch in (1024, 256, 1)]
    systems.append(birch(D))
    if has_river():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            systems += rivers(K, D)
    return systems

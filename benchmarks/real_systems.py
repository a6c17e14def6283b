"""Who clusters the real streams, what each is told, and how. None sees a label; "K" is the true number of classes.

Ours is scored by its labels on arrival, in one pass in which no label depends on later rows; only its hyperparameters
are learned, without labels, from the first 1,000 rows before it begins. The peers learn the whole stream and label all
of it afterwards, by what they know in the end, which is kinder to them. They are told the length N of the stream where
they can forget, so that they need not. Two of river's clusterers do not apply: TextClust wants raw text, ODAC clusters
variables instead of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import Birch, KMeans, MiniBatchKMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors

from benchmarks.data import Float
from benchmarks.systems import dicts, has_river
from dyncrp import DynamicalMixture, VonMisesFisher

Labels = NDArray[Any]
BATCH = 100  # rows of one call of partial_fit
SEEN = 1000  # first rows, from which radii and scales are set
RADIUS = 0.95  # the quantile that is DBSTREAM's and DenStream's radius
CLEAN_UPS = 30  # of DBSTREAM in a stream
MICRO = 100  # CluStream's default


@dataclass(frozen=True)
class Contender:
    """``run`` makes the model, learns the stream and returns a label for each row; ``warm`` is not timed."""

    name: str
    told: str
    run: Callable[[], Labels]
    warm: Callable[[], object] = lambda: None


def neighbour_distance(X: Float, quantile: float) -> float:
    """Return a quantile of the distances from each of the first rows of X (n, D) to its nearest neighbour among them.

    It sets a radius without labels. Copies of a row count as one row, since their distance says nothing.

    >>> neighbour_distance(np.array([[0.0], [1.0], [1.0], [4.0]]), 0.5)
    1.0
    """
    first = np.unique(X[:SEEN], axis=0)
    distances = NearestNeighbors(n_neighbors=2).fit(first).kneighbors(first)[0][:, 1]
    return float(np.quantile(distances, quantile))


def contenders(X: Float, K: int, seed: int) -> Iterator[Contender]:
    """Yield everyone for the rows X (N, D) of K classes, ourselves first."""
    yield ours("dyncrp", "nothing", DynamicalMixture, X)
    if np.allclose(np.linalg.norm(X, axis=1), 1.0, atol=1e-2):
        yield ours("dyncrp, directions", "that rows are directions", _of_directions, X)
    if has_river():
        yield from _rivers(X, K, seed)
    threshold = neighbour_distance(X, 0.5) / 2
    told = f"K; threshold half the median neighbour distance, {threshold:.2g}"
    yield Contender("Birch", told, lambda: _birch(X, K, threshold))
    yield Contender("MiniBatchKMeans", f"K; one pass, batches of {BATCH}", lambda: _mini_batch_k_means(X, K, seed))
    told = "K; all rows at once, n_init=10"
    yield Contender("KMeans, offline", told, lambda: KMeans(K, n_init=10, random_state=seed).fit_predict(X))


def ours(name: str, told: str, make: Callable[[], Any], X: Float) -> Contender:
    """Return dyncrp as ``make`` makes it, labelling every row of X (N, D) as it arrives."""

    def run() -> Labels:
        return np.asarray(make().fit(X).labels_)  # one pass: a label does not depend on the rows after it

    return Contender(name, told, run, warm=lambda: make().fit(X[:BATCH]))  # loads its code


def _of_directions() -> DynamicalMixture:
    return DynamicalMixture(VonMisesFisher())


def _mini_batch_k_means(X: Float, K: int, seed: int) -> Labels:
    """One pass; the centres start (k-means++) from the first max(3K, 1024) rows; ``n_init`` counts only in ``fit``."""
    model = MiniBatchKMeans(K, random_state=seed)
    edges = [0, *range(max(3 * K, model.batch_size), len(X), BATCH), len(X)]
    for start, stop in pairwise(edges):
        model.partial_fit(X[start:stop])
    return np.asarray(model.predict(X))


def _birch(X: Float, K: int, threshold: float) -> Labels:
    """One pass into a tree of subclusters, which are merged into K in the end."""
    return np.asarray(Birch(threshold=threshold, n_clusters=K).fit(X).predict(X))


def _rivers(X: Float, K: int, seed: int) -> Iterator[Contender]:
    """Yield river's clusterers; the settings beside the defaults were chosen, once for all streams, in their favour."""
    from river import cluster as clusterers

    cluster: Any = clusterers  # only half of it has types
    N = len(X)
    rows = dicts(X)
    radius = neighbour_distance(X, RADIUS)
    told_radius = f"radius the {100 * RADIUS:.0f} % quantile of neighbour distances, {radius:.2g}; N"
    # Starting centres drawn as wide as the data lie so far out, in many dimensions, that one of them takes every row.
    # The default halflife is better with many classes, the smaller one with few.
    scale: dict[str, Any] = {"mu": float(X[:SEEN].mean()), "sigma": 0.1 * float(X[:SEEN].std()), "seed": seed}
    scale["halflife"] = 0.5 if K >= 10 else 0.1

    def dbstream() -> Labels:
        model = cluster.DBSTREAM(
            clustering_threshold=radius, fading_factor=1 / N, cleanup_interval=max(2, N // CLEAN_UPS), minimum_weight=2
        )
        return nearest_center(_learn(model, rows), X)

    def denstream() -> Labels:
        model = cluster.DenStream(
            epsilon=radius, decaying_factor=1 / N, n_samples_init=min(1000, N // 4), stream_speed=1
        )
        _learn(model, rows).predict_one(rows[0])  # which is when it clusters
        return nearest_center(model, X)

    def clustream() -> Labels:
        micro = max(K, min(MICRO, N // 4))
        model = cluster.CluStream(K, micro, time_window=N, time_gap=N, **scale)  # clusters once, after the last row
        _learn(model, rows)
        return np.array([model.predict_one(row) for row in rows])

    def stream_k_means() -> Labels:
        return nearest_center(_learn(cluster.STREAMKMeans(chunk_size=10 * K, n_clusters=K, **scale), rows), X)

    def k_means() -> Labels:
        return nearest_center(_learn(cluster.KMeans(n_clusters=K, **scale), rows), X)

    yield Contender("river DBSTREAM", told_radius, dbstream)
    yield Contender("river DenStream", told_radius, denstream)
    yield Contender("river CluStream", "K; N; mean and scale of the entries", clustream)
    yield Contender("river STREAMKMeans", "K; mean and scale of the entries", stream_k_means)
    yield Contender("river KMeans", "K; mean and scale of the entries", k_means)


def _learn(model: Any, rows: list[dict[int, float]]) -> Any:
    for row in rows:
        model.learn_one(row)
    return model


def nearest_center(model: Any, X: Float) -> Labels:
    """Return what river's ``predict_one`` says of each row of X (n, D), all at once.

    It names the nearest centre; asking it row by row would measure Python's patience, and DenStream's would cluster
    anew for each.
    """
    if not model.centers:
        return np.zeros(len(X), dtype=np.int64)
    names = np.array(list(model.centers))
    centers = np.array([[center[i] for i in range(X.shape[1])] for center in model.centers.values()])
    labels: Labels = names[pairwise_distances_argmin(X, centers)]
    return labels

"""river's clusterers of rows. TextClust wants texts, and ODAC clusters variables.

Settings beside the defaults were chosen, once for all streams, in their favour; see docs/streams.md. They are asked
for labels every ten rows, since DBSTREAM and DenStream cluster anew whenever they are asked; and clusters keep their
names when they do, which river does not see to.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_mutual_info_score, pairwise_distances_argmin

from benchmarks.data import Float
from benchmarks.streams.base import FIRST, Labels, Names, Rows, System, follow, neighbour_distance
from benchmarks.systems import dicts

EVERY = 10  # rows between two questions
RADIUS = 0.95  # a quantile of the distances of neighbours
RADII = (0.75, 1.0, 1.5, 2.0, 3.0)  # times that quantile
CLEAN_UPS = 30  # of DBSTREAM in a stream
MICRO = 100  # CluStream's default
TUNED = 500  # first rows, with whose classes a radius is chosen
TOLD = f"N, classes of {TUNED} rows, to choose of five radii"


def dbstream(stream: Rows, seed: int) -> System:
    """Return DBSTREAM, told a radius, and not to forget within the stream."""
    return _of_best_radius(stream, _dbstream)


def denstream(stream: Rows, seed: int) -> System:
    """Return DenStream, told a radius, and not to forget within the stream."""
    return _of_best_radius(stream, _denstream)


def _dbstream(N: int, radius: float) -> System:
    from river import cluster

    model = cluster.DBSTREAM(
        clustering_threshold=radius, fading_factor=1 / N, cleanup_interval=max(2, N // CLEAN_UPS), minimum_weight=2
    )
    return _system("river DBSTREAM", TOLD, model)


def _denstream(N: int, radius: float) -> System:
    from river import cluster

    model = cluster.DenStream(epsilon=radius, decaying_factor=1 / N, n_samples_init=min(1000, N // 4), stream_speed=1)
    return _system("river DenStream", TOLD, model)


def _of_best_radius(stream: Rows, make: Callable[[int, float], System]) -> System:
    """Return the system with the radius of five that agrees best with the classes of the first rows."""
    X, truth, unit = stream.X[:TUNED], stream.truth[:TUNED], neighbour_distance(stream.X, RADIUS)
    radii = [unit * times for times in RADII]
    best = max(radii, key=lambda radius: adjusted_mutual_info_score(truth, follow(make(len(X), radius), X)))
    return make(len(stream.X), best)


def clustream(stream: Rows, seed: int) -> System:
    """Return CluStream, told K."""
    from river import cluster

    N, K = len(stream.X), stream.n_classes
    micro = max(K, min(MICRO, N // 4))
    model = cluster.CluStream(K, micro, time_window=N, time_gap=max(1, N // 20), **_scale(stream, seed))
    return _system("river CluStream", "K, N, mean and scale", model, row_by_row=True)


def stream_k_means(stream: Rows, seed: int) -> System:
    """Return STREAMKMeans, told K."""
    from river import cluster

    K = stream.n_classes
    model = cluster.STREAMKMeans(chunk_size=10 * K, n_clusters=K, **_scale(stream, seed))
    return _system("river STREAMKMeans", "K, mean and scale", model)


def k_means(stream: Rows, seed: int) -> System:
    """Return river's KMeans, told K."""
    from river import cluster

    model = cluster.KMeans(n_clusters=stream.n_classes, **_scale(stream, seed))
    return _system("river KMeans", "K, mean and scale", model, renames=False)


def _scale(stream: Rows, seed: int) -> dict[str, Any]:
    """Return where centres start, and the half-life.

    Centres drawn as wide as the data lie so far out, in many dimensions, that one of them takes every row. The default
    half-life is better with many classes, the smaller one with few.
    """
    first = stream.X[:FIRST]
    halflife = 0.5 if stream.n_classes >= 10 else 0.1
    return {"mu": float(first.mean()), "sigma": 0.1 * float(first.std()), "seed": seed, "halflife": halflife}


def _system(name: str, told: str, model: Any, *, row_by_row: bool = False, renames: bool = True) -> System:
    """``row_by_row``: its label is not that of the nearest centre. ``renames``: it numbers its clusters anew."""
    names = Names()

    def label(X: Float, rows: list[dict[int, float]]) -> Labels:
        try:
            model.predict_one(rows[0])  # which is when some cluster
        except Exception:  # some cannot answer before they have learned enough
            return np.full(len(X), -1)
        return np.array([model.predict_one(row) for row in rows]) if row_by_row else nearest_center(model, X)

    def step(X: Float) -> Labels:
        rows = dicts(X)
        found = label(X, rows)
        if renames:
            D, centers = X.shape[1], model.centers
            names.update(list(centers), np.array([[center[i] for i in range(D)] for center in centers.values()]))
        for row in rows:
            model.learn_one(row)
        return names.of(found.tolist()) if renames else found

    return System(name, told, step, lambda X: label(X, dicts(X)), lambda: model, chunk=EVERY)


def nearest_center(model: Any, X: Float) -> Labels:
    """Return what river's ``predict_one`` says of each row of X (n, D), all at once.

    It names the nearest centre. Asked row by row it is slow, and DenStream's clusters anew for each.
    """
    if not model.centers:
        return np.zeros(len(X), dtype=np.int64)
    names = np.array(list(model.centers))
    centers = np.array([[center[i] for i in range(X.shape[1])] for center in model.centers.values()])
    labels: Labels = names[pairwise_distances_argmin(X, centers)]
    return labels


SYSTEMS = (dbstream, denstream, clustream, stream_k_means, k_means) if importlib.util.find_spec("river") else ()

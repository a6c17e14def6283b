"""river's clusterers of rows. TextClust wants texts, and ODAC clusters variables.

Settings beside the defaults were chosen, once for all streams, in their favour; see docs/real-data.md.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from benchmarks.data import Float
from benchmarks.real_systems import CLEAN_UPS, MICRO, RADIUS, nearest_center, neighbour_distance
from benchmarks.streams.base import FIRST, Labels, Rows, System
from benchmarks.systems import dicts


def dbstream(stream: Rows, seed: int) -> System:
    """Return DBSTREAM, told a radius, and not to forget within the stream."""
    from river import cluster

    N, radius = len(stream.X), neighbour_distance(stream.X, RADIUS)
    model = cluster.DBSTREAM(
        clustering_threshold=radius, fading_factor=1 / N, cleanup_interval=max(2, N // CLEAN_UPS), minimum_weight=2
    )
    return _system("river DBSTREAM", "a radius, N", model)


def denstream(stream: Rows, seed: int) -> System:
    """Return DenStream, told a radius, and not to forget within the stream."""
    from river import cluster

    N, radius = len(stream.X), neighbour_distance(stream.X, RADIUS)
    model = cluster.DenStream(epsilon=radius, decaying_factor=1 / N, n_samples_init=min(1000, N // 4), stream_speed=1)

    def relabel(X: Float) -> Labels:
        model.predict_one(dicts(X[:1])[0])  # which is when it clusters
        return nearest_center(model, X)

    return _system("river DenStream", "a radius, N", model, relabel)


def clustream(stream: Rows, seed: int) -> System:
    """Return CluStream, told K."""
    from river import cluster

    N, K = len(stream.X), stream.n_classes
    micro = max(K, min(MICRO, N // 4))
    model = cluster.CluStream(K, micro, time_window=N, time_gap=max(1, N // 20), **_scale(stream, seed))

    def relabel(X: Float) -> Labels:
        return np.array([model.predict_one(row) for row in dicts(X)])

    return _system("river CluStream", "K, N, mean and scale", model, relabel)


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
    return _system("river KMeans", "K, mean and scale", model)


def _scale(stream: Rows, seed: int) -> dict[str, Any]:
    first = stream.X[:FIRST]
    halflife = 0.5 if stream.n_classes >= 10 else 0.1
    return {"mu": float(first.mean()), "sigma": 0.1 * float(first.std()), "seed": seed, "halflife": halflife}


def _system(name: str, told: str, model: Any, relabel: Any = None) -> System:
    def step(X: Float) -> Labels:
        labels = []
        for row in dicts(X):
            try:
                labels.append(int(model.predict_one(row)))
            except Exception:  # some cannot answer before they have learned enough
                labels.append(-1)
            model.learn_one(row)
        return np.array(labels)

    return System(name, told, step, relabel or (lambda X: nearest_center(model, X)), lambda: model, chunk=100)


SYSTEMS = (dbstream, denstream, clustream, stream_k_means, k_means) if importlib.util.find_spec("river") else ()

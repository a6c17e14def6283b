"""scikit-learn's clusterers that learn in batches. The first batch is labelled after it is learned, in their favour."""

from __future__ import annotations

from typing import Any

from sklearn.cluster import Birch, MiniBatchKMeans

from benchmarks.data import Float
from benchmarks.real_systems import neighbour_distance
from benchmarks.streams.base import Labels, Rows, System

BATCH = 100


def mini_batch_k_means(stream: Rows, seed: int) -> System:
    """Return MiniBatchKMeans, told K. Its centres start (k-means++) from the first max(3 K, 100) rows."""
    K = stream.n_classes
    model = MiniBatchKMeans(K, random_state=seed)

    def step(X: Float) -> Labels:
        return _label(model, X, "cluster_centers_")

    told = f"K; batches of {max(3 * K, BATCH)}"
    return System("MiniBatchKMeans", told, step, model.predict, lambda: model, max(3 * K, BATCH))


def birch(stream: Rows, seed: int) -> System:
    """Return Birch, told K and a threshold: half the median distance of neighbours in the first 1,000 rows."""
    threshold = neighbour_distance(stream.X, 0.5) / 2
    model = Birch(threshold=threshold, n_clusters=stream.n_classes)

    def step(X: Float) -> Labels:
        return _label(model, X, "subcluster_centers_")

    told = f"K; threshold half the median neighbour distance; batches of {BATCH}"
    return System("Birch", told, step, model.predict, lambda: model, BATCH)


def _label(model: Any, X: Float, fitted: str) -> Labels:
    labels = model.predict(X) if hasattr(model, fitted) else None
    model.partial_fit(X)
    return model.predict(X) if labels is None else labels


SYSTEMS = (mini_batch_k_means, birch)

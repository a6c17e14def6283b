"""scikit-learn's clusterers that learn in batches. The first batch is labelled after it is learned, in their favour."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import Birch, MiniBatchKMeans

from benchmarks.data import Float
from benchmarks.streams.base import Labels, Names, Rows, System, neighbour_distance

BATCH = 100


def mini_batch_k_means(stream: Rows, seed: int) -> System:
    """Return MiniBatchKMeans, told K. Its centres start (k-means++) from the first max(3 K, 100) rows."""
    K = stream.n_classes
    model = MiniBatchKMeans(K, random_state=seed)

    def step(X: Float) -> Labels:
        labels = model.predict(X) if hasattr(model, "cluster_centers_") else None
        model.partial_fit(X)
        return model.predict(X) if labels is None else labels

    return System("MiniBatchKMeans", "K", step, model.predict, lambda: model, BATCH, first=3 * K)


def birch(stream: Rows, seed: int) -> System:
    """Return Birch, told K and a threshold: half the median distance of neighbours in the first 1,000 rows."""
    model = Birch(threshold=neighbour_distance(stream.X, 0.5) / 2, n_clusters=stream.n_classes)
    names = Names()

    def learn(X: Float) -> None:
        model.partial_fit(X)  # which clusters its subclusters anew
        ids = np.unique(model.subcluster_labels_)
        names.update(
            ids.tolist(), np.array([model.subcluster_centers_[model.subcluster_labels_ == k].mean(axis=0) for k in ids])
        )

    def step(X: Float) -> Labels:
        labels = names.of(model.predict(X).tolist()) if hasattr(model, "subcluster_centers_") else None
        learn(X)
        return names.of(model.predict(X).tolist()) if labels is None else labels

    return System("Birch", "K, a radius", step, model.predict, lambda: model, BATCH, first=3 * stream.n_classes)


SYSTEMS = (mini_batch_k_means, birch)

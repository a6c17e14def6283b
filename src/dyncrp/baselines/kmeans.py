"""K-means with a given number of clusters: offline (Lloyd 1982) and online (Sculley 2010), by scikit-learn.

For unit vectors, spherical k-means (Dhillon and Modha 2001): centres are unit vectors too, and a row belongs to the
centre with the largest cosine.
"""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from dyncrp.arrays.checks import integer
from dyncrp.baselines.base import LARGEST_SEED, Baseline, Float, Labels, StreamingBaseline


class OfflineKMeans(Baseline):
    """K-means on all rows at once: the best of ``n_init`` starts.

    Args:
        n_clusters: K, the number of clusters.
        spherical: whether rows are unit vectors.
        n_init: the number of k-means++ starts.
        max_iter: the largest number of steps from each start.
        seed: an integer.

    Attributes:
        centers_: (K, D).
        inertia_: Σ |x − its centre|².

    >>> sorted(OfflineKMeans(2).fit([[0.0], [9.0], [0.5], [9.5]]).centers_.tolist())
    [[0.25], [9.25]]
    """

    centers_: Float
    inertia_: float

    def __init__(
        self, n_clusters: int, *, spherical: bool = False, n_init: int = 10, max_iter: int = 300, seed: int = 0
    ) -> None:
        self.n_clusters = n_clusters
        self.spherical = spherical
        self.n_init = n_init
        self.max_iter = max_iter
        self.seed = seed

    def _cluster(self, X: Float, t: Float) -> Labels:
        K = integer("n_clusters", self.n_clusters, 1, len(X))
        n_init, max_iter = integer("n_init", self.n_init, 1), integer("max_iter", self.max_iter, 1)
        seed = integer("seed", self.seed, 0, LARGEST_SEED)
        if self.spherical:
            rng = np.random.RandomState(seed)  # scikit-learn needs this kind
            rows = to_unit_length(X)
            runs = [_spherical(rows, K, max_iter, rng) for _ in range(n_init)]
            self.inertia_, labels, self.centers_ = min(runs, key=lambda run: run[0])
            return labels
        model = KMeans(K, n_init=n_init, max_iter=max_iter, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
            model.fit(X)
        self.inertia_, self.centers_ = float(model.inertia_), model.cluster_centers_
        return model.labels_.astype(np.int64)


class OnlineKMeans(StreamingBaseline):
    """Mini-batch k-means in one pass: centres move to the running means of their rows.

    ``fit`` goes through the rows in mini-batches. A row is labelled when its batch is learned, and never relabelled.
    Each call of ``partial_fit`` is one mini-batch, as in scikit-learn. The first batch, which chooses the centres, must
    have at least K rows; ``fit`` ensures this.

    Args:
        n_clusters: K, the number of clusters.
        spherical: whether rows are unit vectors; if so, centres are scaled to unit length after each batch.
        batch_size: rows in a mini-batch of ``fit``.
        seed: an integer.

    Attributes:
        centers_: (K, D).

    >>> model = OnlineKMeans(2).fit([[0.0], [9.0], [0.5], [9.5]])
    >>> model.partial_fit([[0.25]]).labels_ == model.partial_fit([[0.0]]).labels_
    array([ True])
    """

    _model: MiniBatchKMeans

    def __init__(self, n_clusters: int, *, spherical: bool = False, batch_size: int = 100, seed: int = 0) -> None:
        self.n_clusters = n_clusters
        self.spherical = spherical
        self.batch_size = batch_size
        self.seed = seed

    @property
    def centers_(self) -> Float:
        """Centres of the clusters, (K, D)."""
        return self._model.cluster_centers_

    def _cluster(self, X: Float, t: Float) -> Labels:
        K = integer("n_clusters", self.n_clusters, 1, len(X))
        size = integer("batch_size", self.batch_size, 1)
        seed = integer("seed", self.seed, 0, LARGEST_SEED)
        rows = to_unit_length(X) if self.spherical else X
        self._model = MiniBatchKMeans(K, n_init=3, random_state=seed)
        cuts = [0, *range(max(size, K), len(rows), size), len(rows)]
        return np.concatenate([self._learn(rows[a:b]) for a, b in pairwise(cuts)])

    def _go_on(self, X: Float) -> Labels:
        return self._learn(to_unit_length(X) if self.spherical else X)

    def _learn(self, rows: Float) -> Labels:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._model.partial_fit(rows)
        if self.spherical:
            self._model.cluster_centers_ = _unit(self._model.cluster_centers_, self._model.cluster_centers_)
        return self._model.labels_.astype(np.int64)


def to_unit_length(X: Float) -> Float:
    """Return the rows of X (n, D) scaled to unit length.

    >>> to_unit_length(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    lengths = np.linalg.norm(X, axis=1)
    bad = np.flatnonzero(~((lengths > 0) & (lengths < np.inf)))
    if bad.size:
        raise ValueError(f"a direction must have a positive finite length, got {lengths[bad[0]]} at row {bad[0]}")
    return X / lengths[:, None]


def _unit(sums: Float, otherwise: Float) -> Float:
    """Return sums (K, D) scaled to unit length, or rows of ``otherwise`` (K, D) where they are 0."""
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.where(lengths > 0, sums / np.where(lengths > 0, lengths, 1.0), otherwise)


def _spherical(rows: Float, K: int, max_iter: int, rng: np.random.RandomState) -> tuple[float, Labels, Float]:
    """Return Σ |x − its centre|², the labels and the centres, from one start, for unit vectors."""
    centers, _ = kmeans_plusplus(rows, K, random_state=rng)
    labels = np.full(len(rows), -1)
    for _ in range(max_iter):
        cosines = rows @ centers.T
        before, labels = labels, np.argmax(cosines, axis=1)
        if np.array_equal(before, labels):
            break
        sums = np.zeros_like(centers)
        np.add.at(sums, labels, rows)
        centers = _unit(sums, centers)
    return float(np.sum((rows - centers[labels]) ** 2)), labels, centers

"""Systems that see all rows at once: bounds for what a stream clusterer can reach."""

from __future__ import annotations

from sklearn.cluster import HDBSCAN, KMeans
from sklearn.mixture import BayesianGaussianMixture

from benchmarks.streams.base import Rows, System

MOST_COMPONENTS = 30
MOST_FULL = 64  # features of a mixture with full covariances


def bayesian_mixture(stream: Rows, seed: int) -> System:
    """Return BayesianGaussianMixture with up to 30 components, told nothing."""
    model = BayesianGaussianMixture(
        n_components=min(MOST_COMPONENTS, len(stream.X) // 10),
        covariance_type="full" if stream.X.shape[1] <= MOST_FULL else "diag",
        max_iter=300,
        random_state=seed,
    )
    return System("BayesianGaussianMixture", "nothing; all rows at once", None, model.fit_predict, lambda: model)


def hdbscan(stream: Rows, seed: int) -> System:
    """Return HDBSCAN, told nothing; noise counts as a cluster."""
    model = HDBSCAN(min_cluster_size=10, copy=True)
    return System("HDBSCAN", "nothing; all rows at once", None, model.fit_predict, lambda: model)


def k_means(stream: Rows, seed: int) -> System:
    """Return KMeans, told K."""
    model = KMeans(stream.n_classes, n_init=10, random_state=seed)
    return System("KMeans", "K; all rows at once", None, model.fit_predict, lambda: model)


SYSTEMS = (bayesian_mixture, hdbscan, k_means)

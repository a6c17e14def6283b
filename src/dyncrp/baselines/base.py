"""What all baselines have in common: they check their input, and return labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dyncrp.arrays.checks import as_observations, as_times
from dyncrp.families import Family

Float = NDArray[np.float64]
Labels = NDArray[np.int64]
F = TypeVar("F", bound=Family)

LARGEST_SEED = 2**32 - 1  # the largest that scikit-learn takes


class Baseline(ClusterMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A clusterer with the interface of ``DynamicalMixture``.

    Attributes:
        labels_: (n,) cluster of each row of the last batch.
        n_clusters_: how many clusters there are.
        n_features_in_: D.
    """

    labels_: Labels
    n_features_in_: int

    @property
    def n_clusters_(self) -> int:
        """How many clusters the rows were assigned to."""
        check_is_fitted(self)
        return len(np.unique(self.labels_))

    def fit(self, X: ArrayLike, y: object = None, *, times: ArrayLike | None = None) -> Self:
        """Cluster X (n, D), in order of arrival at ``times`` (n,), by default 0, 1, 2, …; y is ignored."""
        rows = as_observations(X)
        t = np.arange(len(rows), dtype=np.float64) if times is None else as_times(times, n=len(rows))
        labels = self._cluster(rows, t)
        self.labels_, self.n_features_in_ = labels, rows.shape[1]
        return self

    @abstractmethod
    def _cluster(self, X: Float, t: Float) -> Labels:
        """Check the parameters, forget everything, and return the cluster of each row."""


class StreamingBaseline(Baseline):
    """A baseline that sees each row once, in order, and can continue. It takes times, but ignores them."""

    def partial_fit(self, X: ArrayLike, y: object = None, *, times: ArrayLike | None = None) -> Self:
        """Continue with X (n, D); y is ignored."""
        if not hasattr(self, "labels_"):
            return self.fit(X, times=times)
        rows = as_observations(X)
        if times is not None:
            as_times(times, n=len(rows))
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_}"
            )
        self.labels_ = self._go_on(rows)
        return self

    @abstractmethod
    def _go_on(self, X: Float) -> Labels:
        """Learn from more rows, and return the cluster of each."""


def known_family(name: str, family: Any, kinds: tuple[type[F], ...]) -> F:
    """Return the family, if it has no unknown hyperparameters and the algorithm ``name`` supports it.

    >>> from dyncrp import Bernoulli, Gaussian
    >>> known_family("DP-means", Bernoulli(1.0, 1.0), (Gaussian,))
    Traceback (most recent call last):
        ...
    ValueError: DP-means needs a Gaussian, got Bernoulli(a=1.0, b=1.0)
    """
    if not isinstance(family, kinds):
        raise ValueError(f"{name} needs a {' or '.join(kind.__name__ for kind in kinds)}, got {family!r}")
    family.require_known()
    return family


def in_order(labels: Labels) -> Labels:
    """Return labels (n,) renamed 0, 1, 2, … in order of appearance.

    >>> in_order(np.array([7, 3, 7, 9]))
    array([0, 1, 0, 2])
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]

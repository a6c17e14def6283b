"""Binary observations: a product of Bernoullis with a Beta prior in every dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma

from dyncrp.arrays.checks import BadRow, Seed
from dyncrp.families.base import Family, Float, Hyperparameter, check_width, common_width, mean_of, scalar_or_vector
from dyncrp.families.cells import Codes
from dyncrp.families.protocols import (
    SCALES,
    Compiled,
    HasCodes,
    HasShape,
    PredictsCell,
    Proposes,
    Settings,
    Shapes,
    Sharpens,
    by_feature,
)

STRENGTHS = (10.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.03)  # candidates for a + b
ROUNDING = 1e-9  # of a count, as a share of the rows


@dataclass(frozen=True, eq=False)
class Bernoulli(Family, Proposes, Sharpens, HasShape, HasCodes, PredictsCell, Compiled):
    """x_d ~ Bernoulli(φ_d) with φ_d ~ Beta(a, b).

    T(x) = (1, x). With n and s the two parts of ``stats``, the posterior of φ_d is Beta(a + s_d, b + n − s_d), the
    paper's coordinate update, and the predictive probability of a one is (a + s_d)/(a + b + n).

    Parameters
    ----------
    a, b : float, array-like of shape (D,), or None
        The parameters of the prior. None to learn them.

    Examples
    --------
    >>> family = Bernoulli(a=1.0, b=1.0)
    >>> stats = family.statistics(np.array([[1.0, 0.0]]))
    >>> family.centers(stats)
    array([[0.66666667, 0.33333333]])
    """

    a: Hyperparameter = None
    b: Hyperparameter = None

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, scalar_or_vector(name, getattr(self, name)))
        common_width(self)

    extra: ClassVar[str | None] = "misses"

    def sharpen(self, resolution: float) -> Bernoulli:
        """Return the family with a and b divided by the resolution, so that a table's ones are more certain."""
        self.require_known()
        return Bernoulli(np.asarray(self.a) / resolution, np.asarray(self.b) / resolution)

    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return candidates for a and b: the mean a/(a + b) is the share of ones, overall or by feature; a + b varies.

        Labels are not used: the posterior describes the probabilities within clusters.
        """
        if self.known:
            return [self]
        if labels is not None:
            return []
        often = float(np.clip(np.mean(X), 0.5 / X.size, 1.0 - 0.5 / X.size))
        each = (np.sum(X, axis=0) + often) / (len(X) + 1.0)  # no feature is assumed to be certain
        found: list[Family] = []
        for mean in (often, each) if X.shape[1] > 1 else (often,):
            for strength in STRENGTHS:
                a = strength * mean if self.a is None else self.a
                b = strength * (1.0 - mean) if self.b is None else self.b
                found.append(Bernoulli(a, b))
        return found

    @property
    def independent(self) -> bool:
        """True."""
        return True

    def continuous(self, n_features: int) -> NDArray[np.bool_]:
        """Return False for every feature."""
        return np.zeros(n_features, dtype=bool)

    def check(self, X: Float) -> Float:
        """Check for zeros and ones. NaN is a missing cell."""
        for name in ("a", "b"):
            check_width(name, getattr(self, name), X.shape[1])
        bad = np.argwhere((X != 0) & (X != 1) & ~np.isnan(X))
        if bad.size:
            row, column = bad[0]
            raise BadRow(f"Bernoulli takes 0 and 1 only, got {X[row, column]}", row, column)
        return X

    def _posterior(self, stats: Float) -> tuple[Float, Float]:
        """Return the Beta parameters of each table: (K, D) both."""
        n, s = stats[:, :1], stats[:, 1:]
        return self.a + s, self.b + np.maximum(n - s, 0.0)

    def log_base_measure(self, X: Float) -> Float:
        """Return 0."""
        return np.zeros(len(X))

    def log_partition(self, stats: Float) -> Float:
        """Return Σ_d log B(a + s_d, b + n − s_d) − log B(a, b); NaN if no rows have such counts."""
        (a, b), (n, s) = self._posterior(stats), (stats[:, :1], stats[:, 1:])
        possible = (a > 0.0) & (n - s > -self.b - ROUNDING * n)  # elsewhere the log of |B| may be a number, too
        return np.sum(np.where(possible, betaln(a, b), np.nan) - betaln(self.a, self.b), axis=1)

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return Σ_d log p_d where x_d = 1 and log(1 − p_d) where x_d = 0, with p_d = (a + s_d)/(a + b + n)."""
        a, b = self._posterior(stats)
        return _log_bernoulli(X, np.log(a), np.log(b), np.log(a + b))

    def cell(self, stats: Float) -> Codes:
        """Return the probabilities of 0 and 1."""
        a, b = self._posterior(stats)
        return Codes(np.hstack([b, a]) / (a + b), np.zeros(len(stats)))

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return the same with the digamma function ψ in place of log."""
        a, b = self._posterior(stats)
        return _log_bernoulli(X, digamma(a), digamma(b), digamma(a + b))

    def centers(self, stats: Float) -> Float:
        """Return the posterior probabilities of a one."""
        a, b = self._posterior(stats)
        return a / (a + b)

    def means(self, stats: Float) -> Float:
        """Return s/n."""
        return mean_of(stats)

    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return shapes in 2 arcsin √p, in which a feature of any probability has about unit variance."""
        a, b = self._posterior(stats)
        center = 2.0 * np.arcsin(np.sqrt(a / (a + b)))
        return Shapes(stats[:, 0], center, np.ones(len(stats)), 1.0, np.ones(1))

    def settings(self, n_features: int) -> Settings:
        """Return the settings of ``Bernoulli`` in C++."""
        return Settings("Bernoulli", {"a": by_feature(self.a, n_features), "b": by_feature(self.b, n_features)}, {})

    def widen_extra(self, stats: Float, n_added: int) -> Float:
        """Return Σ r (1 − x) of new features, where every x is 0."""
        return np.tile(stats[:, :1], n_added)

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw φ_d ~ Beta(a, b)."""
        self.require_known()
        return np.random.default_rng(seed).beta(self.a, self.b, size=(n_tables, n_features))

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw x_d ~ Bernoulli(φ_d) for each row φ."""
        self.require_known()
        return (np.random.default_rng(seed).random(np.shape(parameters)) < parameters).astype(np.float64)


def _log_bernoulli(X: Float, one: Float, zero: Float, total: Float) -> Float:
    """Return Σ_d x_d one_d + (1 − x_d) zero_d − total_d as matrix products: (n, D) and (K, D) to (n, K)."""
    return X @ one.T + (1.0 - X) @ zero.T - np.sum(total, axis=1)

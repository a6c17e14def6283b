"""Gaussian clusters of known spread with a Gaussian prior over their means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dyncrp.checks import Seed
from dyncrp.families.base import Family, Float, Hyperparameter, check_width, common_width, scalar_or_vector

LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class Gaussian(Family):
    """x ~ N(φ, σ² I) with φ ~ N(m₀, ρ² I); each of σ², ρ², m₀ a number or one for each feature.

    Statistics are taken about the prior mean, T(x) = (1, x − m₀), so that data far from the origin lose no digits.
    With n and s the two parts of ``stats``, the posterior of φ is Gaussian with

        mean      μ = m₀ + ρ² s / (σ² + n ρ²)
        variance  v = ρ² σ² / (σ² + n ρ²),

    the paper's coordinate update in closed form, and the predictive is N(μ, σ² + v).

    Args:
        variance: σ², of an observation about its cluster's mean.
        prior_variance: ρ², of the means about ``prior_mean``.
        prior_mean: m₀.

    >>> family = Gaussian(variance=1.0, prior_variance=3.0)
    >>> stats = family.statistics(np.array([[2.0]]))
    >>> family.centers(stats)
    array([[1.5]])
    >>> family.log_predictive(np.array([[1.5]]), stats) + 0.5 * np.log(2 * np.pi * 1.75)
    array([[0.]])
    """

    variance: Hyperparameter
    prior_variance: Hyperparameter
    prior_mean: Hyperparameter = 0.0

    # Derived once: the width of the vectors among them, how far an observation may lie, and a quick bound of that.
    _width: ClassVar[int | None]
    _furthest: ClassVar[Hyperparameter]
    _safe: ClassVar[float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", scalar_or_vector("variance", self.variance))
        object.__setattr__(self, "prior_variance", scalar_or_vector("prior_variance", self.prior_variance))
        object.__setattr__(self, "prior_mean", scalar_or_vector("prior_mean", self.prior_mean, positive=False))
        furthest = 1e140 * np.minimum(1.0, np.sqrt(self.variance))
        object.__setattr__(self, "_width", common_width(self))
        object.__setattr__(self, "_furthest", furthest)
        object.__setattr__(self, "_safe", float(np.min(furthest) - np.max(np.abs(self.prior_mean))))

    def check(self, X: Float) -> Float:
        """Any finite numbers whose squares are finite too."""
        if self._width in (None, X.shape[1]) and np.vdot(X, X) <= self._safe * abs(self._safe):
            return X
        for name in ("variance", "prior_variance", "prior_mean"):
            check_width(name, getattr(self, name), X.shape[1])
        with np.errstate(over="ignore"):
            bad = np.argwhere(np.abs(X - self.prior_mean) > self._furthest)
        if bad.size:
            row, column = bad[0]
            limit = np.broadcast_to(self._furthest, X.shape)[row, column]
            raise ValueError(
                f"X must lie within {limit:.3g} of the prior mean, got {X[row, column]} at row {row}, column {column}"
            )
        return X

    def statistics(self, X: Float) -> Float:
        """Return T(x) = (1, x − m₀): (n, D) to (n, 1 + D)."""
        return np.hstack([np.ones((len(X), 1)), X - self.prior_mean])

    def _posterior(self, stats: Float) -> tuple[Float, Float]:
        """Return the mean about m₀ and the variance of each table's φ: (K, D) both."""
        n, s = stats[:, :1], stats[:, 1:]
        shrink = self.prior_variance / (self.variance + n * self.prior_variance)
        return shrink * s, np.broadcast_to(shrink * self.variance, s.shape)

    def log_base_measure(self, X: Float) -> Float:
        """Return log N(x; m₀, σ² I)."""
        return _log_normal(X - self.prior_mean, np.broadcast_to(np.asarray(self.variance), X.shape))

    def log_partition(self, stats: Float) -> Float:
        """Return Σ_d ½ log(σ²/(σ² + nρ²)) + ρ² s²/(2σ²(σ² + nρ²))."""
        mean, variance = self._posterior(stats)
        return np.sum(0.5 * np.log(variance / self.prior_variance) + mean**2 / (2.0 * variance), axis=1)

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return log N(x; μ, σ² + v)."""
        mean, variance = self._posterior(stats)
        return _log_normal((X - self.prior_mean)[:, None, :] - mean, self.variance + variance)

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return log N(x; μ, σ²) − Σ_d v/(2σ²)."""
        mean, variance = self._posterior(stats)
        spread = np.broadcast_to(np.asarray(self.variance), mean.shape)
        penalty = np.sum(variance / (2.0 * spread), axis=1)
        return _log_normal((X - self.prior_mean)[:, None, :] - mean, spread) - penalty

    def centers(self, stats: Float) -> Float:
        """Return the posterior means μ."""
        return self.prior_mean + self._posterior(stats)[0]

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw φ ~ N(m₀, ρ² I)."""
        noise = np.random.default_rng(seed).standard_normal((n_tables, n_features))
        return self.prior_mean + np.sqrt(self.prior_variance) * noise

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw x ~ N(φ, σ² I) for each row φ."""
        noise = np.random.default_rng(seed).standard_normal(np.shape(parameters))
        return parameters + np.sqrt(self.variance) * noise


def _log_normal(residual: Float, variance: Float) -> Float:
    """Return Σ_d log N(residual_d; 0, variance_d), summed over the last axis."""
    return -0.5 * np.sum(LOG_2PI + np.log(variance) + residual**2 / variance, axis=-1)

"""Gaussian clusters that each have a spread of their own, learned with the mean: the Normal-Gamma family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from dyncrp.arrays.checks import Seed, positive
from dyncrp.families.base import LARGEST_POSITIVE, Family, Float, Hyperparameter, Tables, mean_of
from dyncrp.families.cells import Student
from dyncrp.families.gamma import log_gamma_half, stirling_remainder
from dyncrp.families.gaussian import LOG_2PI, Gaussian
from dyncrp.families.protocols import (
    SCALES,
    Compiled,
    HasShape,
    PredictsCell,
    Proposes,
    Settings,
    Shapes,
    Sharpens,
    by_feature,
    unless,
)

# With fewer degrees, samples of the variance leave the range of floats.
FEWEST_DEGREES = 0.1


@dataclass(frozen=True, eq=False)
class NormalGamma(Family, Proposes, Sharpens, HasShape, PredictsCell, Compiled):
    """x ~ N(φ, σ²) in every dimension separately, where each table has its own mean φ and variance σ².

    The prior is 1/σ² ~ Gamma(ν/2, rate ν σ₀²/2) and φ | σ² ~ N(m₀, σ² ρ²/σ₀²). So σ₀² is a guess of the variance, and
    ν, the degrees of freedom, is how many observations the guess is worth. As ν → ∞, the family becomes
    ``Gaussian(variance, prior_variance, prior_mean)``.

    T(x) = (1, x − m₀, (x − m₀)²). With n, s, w the three parts of ``stats``, and in each dimension

        p = σ₀²/ρ²,  q = p + n,  μ = s/q,  B = ν + (w − s²/q)/σ₀²,

    the posterior is 1/σ² ~ Gamma((ν + n)/2, σ₀² B/2) and φ | σ² ~ N(m₀ + μ, σ²/q), and the predictive is Student's t
    with ν + n degrees of freedom about m₀ + μ and squared scale σ₀² B (1 + 1/q)/(ν + n).

    Accuracy: w − s²/q is a difference of sums of squares about m₀. For a table of n rows whose mean lies z standard
    deviations from m₀, rounding gives the variance a relative error of about 1e-16 z² √n: 1e-7 at z = 1e4 and n = 100,
    and no correct digit from z = 1e8 on. It never makes w − s²/q smaller than the part due to the mean. The native
    engine sums squares about the running mean instead, with an error of 1e-16 z √n. For more digits, put ``prior_mean``
    near the data.

    A hyperparameter of None is learned from data.

    Parameters
    ----------
    variance : float, array-like of shape (D,), or None
        σ₀², the guess of a cluster's variance.
    prior_variance : float, array-like of shape (D,), or None
        ρ², the variance of the means about ``prior_mean`` if the guess is right. A table k times as wide as the guess
        is expected k times as far out.
    degrees : float or None
        ν, from 0.1 to 1e100.
    prior_mean : float, array-like of shape (D,), or None
        m₀.

    Examples
    --------
    >>> family = NormalGamma(variance=1.0, prior_variance=100.0, degrees=2.0)
    >>> X = np.array([[4.9], [5.0], [5.1]])
    >>> stats = family.statistics(X).sum(axis=0, keepdims=True)
    >>> family.centers(stats).round(2), family.variances(stats).round(2)
    (array([[4.98]]), array([[0.45]]))
    >>> family.log_predictive(np.array([[5.0], [8.0]]), stats).round(2)
    array([[-0.72],
           [-4.88]])
    """

    variance: Hyperparameter = None
    prior_variance: Hyperparameter = None
    degrees: float = 5.0
    prior_mean: Hyperparameter = None

    extra: ClassVar[str | None] = "scatter"
    shared: ClassVar[tuple[str, ...]] = ("degrees",)
    _limit: ClassVar[Gaussian]  # the limit of infinite degrees of freedom; it takes the same data

    def __post_init__(self) -> None:
        limit = Gaussian(self.variance, self.prior_variance, self.prior_mean)
        for name in ("variance", "prior_variance", "prior_mean"):
            object.__setattr__(self, name, getattr(limit, name))
        object.__setattr__(self, "_limit", limit)
        degrees = positive("degrees", self.degrees)
        if not FEWEST_DEGREES <= degrees <= LARGEST_POSITIVE:
            raise ValueError(f"degrees must be from {FEWEST_DEGREES:g} to {LARGEST_POSITIVE:g}, got {self.degrees!r}")
        object.__setattr__(self, "degrees", degrees)

    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return candidates: those of the Gaussian that have a variance for each feature."""
        found = self._limit.proposals(X, labels, scales)
        return [self._guess(family) for family in found if isinstance(family, Gaussian) and family.directions is None]

    def for_one_cluster(self, found: Family) -> Family:
        """Return the found family with centres far apart, as for the Gaussian."""
        if not isinstance(found, NormalGamma):
            return found
        wider = self._limit.for_one_cluster(Gaussian(found.variance, found.prior_variance, found.prior_mean))
        return found._guess(wider) if isinstance(wider, Gaussian) else found

    def _guess(self, family: Gaussian) -> NormalGamma:
        return NormalGamma(family.variance, family.prior_variance, self.degrees, family.prior_mean)

    def sharpen(self, resolution: float) -> NormalGamma:
        """Return the family with σ₀² divided by the resolution."""
        return self._guess(self._limit.sharpen(resolution))

    @property
    def safe_norm(self) -> float:
        """The safe norm of the limiting Gaussian."""
        return self._limit.safe_norm

    @property
    def independent(self) -> bool:
        """True."""
        return True

    def check(self, X: Float) -> Float:
        """Check for finite numbers whose squares are finite too. NaN is a missing cell."""
        return self._limit.check(X)

    def statistics(self, X: Float) -> Float:
        """Return T(x) = (1, x − m₀, (x − m₀)²): (n, D) to (n, 1 + 2D)."""
        gap = X - self.prior_mean
        return np.hstack([np.ones((len(X), 1)), gap, gap**2])

    def n_statistics(self, n_features: int) -> int:
        """Return 1 + 2D."""
        return 1 + 2 * n_features

    def _posterior(self, stats: Float) -> tuple[Float, Float, Float, Float]:
        """Return n (K, 1), and in units of σ₀ each table's q, μ and w − s²/q, all (K, D)."""
        D = (stats.shape[1] - 1) // 2
        n = stats[:, :1]
        s, w = stats[:, 1 : 1 + D] / np.sqrt(self.variance), stats[:, 1 + D :] / self.variance
        p = np.broadcast_to(np.asarray(self.variance / self.prior_variance), s.shape)
        q = p + n
        # Two parts that cannot be negative: the scatter about the table's own mean, and that mean's distance from m₀.
        mean = np.divide(s, n, out=np.zeros_like(s), where=n > 0)
        return n, q, s / q, np.maximum(w - s * mean, 0.0) + n * (p / q) * mean**2

    def log_base_measure(self, X: Float) -> Float:
        """Return −½ Σ_d log 2πσ₀²."""
        return np.broadcast_to(-0.5 * np.sum(LOG_2PI + np.log(self.variance) + np.zeros(X.shape[1])), len(X))

    def log_partition(self, stats: Float) -> Float:
        """Return Σ_d log Γ(ν/2 + n/2) − log Γ(ν/2) + ν/2 log ν/2 − (ν + n)/2 log B/2 + ½ log p/q.

        Written so that nothing grows with ν, by log Γ(z) = (z − ½) log z − z + ½ log 2π + remainder(z).
        """
        n, _, _, scatter = self._posterior(stats)
        return self._log_partition(n, scatter)

    def _log_partition(self, n: Float, scatter: Float) -> Float:
        degrees = self.degrees + n
        remainders = stirling_remainder(degrees / 2.0) - stirling_remainder(self.degrees / 2.0)
        common = remainders - 0.5 * np.log1p(n / self.degrees) - 0.5 * n
        shrink = -0.5 * np.log1p(n * (self.prior_variance / self.variance))
        return np.sum(common + shrink - 0.5 * degrees * self._log_excess(n, scatter), axis=1)

    def add(self, first: Tables, second: Tables) -> dict[str, Float]:
        """Return the sums, except that ``scatter``, an engine's w − s²/q, is computed for both tables together."""
        total = super().add(first, second)
        if "scatter" in total:
            total["scatter"] = self._joint_scatter(first, second) * self.variance
        return total

    def log_bayes_factor(self, first: Tables, second: Tables) -> Float:
        """Return the log Bayes factor, using the engine's scatter if there is one: it has more digits than the sums."""
        n1, n2 = first["stats"][:, :1], second["stats"][:, :1]
        alone = self._log_partition(n1, self._scatter(first)) + self._log_partition(n2, self._scatter(second))
        return self._log_partition(n1 + n2, self._joint_scatter(first, second)) - alone

    def _scatter(self, tables: Tables) -> Float:
        """Return w − s²/q in units of σ₀: (K, D)."""
        return tables["scatter"] / self.variance if "scatter" in tables else self._posterior(tables["stats"])[3]

    def _joint_scatter(self, first: Tables, second: Tables) -> Float:
        """Return the scatter of both: the sum of that of the first, of the second about its mean, and of the means."""
        _, q1, mean1, _ = self._posterior(first["stats"])
        stats = second["stats"]
        n2, p = stats[:, :1], self.variance / self.prior_variance
        mean2 = stats[:, 1 : 1 + mean1.shape[1]] / n2 / np.sqrt(self.variance)
        own = np.maximum(self._scatter(second) - n2 * (p / (p + n2)) * mean2**2, 0.0)
        return self._scatter(first) + own + n2 * (q1 / (q1 + n2)) * (mean2 - mean1) ** 2

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return Σ_d log t(x_d), Student's t as above."""
        n, q, mean, scatter = self._posterior(stats)
        degrees = self.degrees + n
        gap = ((X - self.prior_mean) / np.sqrt(self.variance))[:, None, :] - mean
        constant = log_gamma_half(degrees / 2.0) - 0.5 * (
            LOG_2PI + np.log(self.variance) + np.log1p(1.0 / q) + self._log_excess(n, scatter)
        )
        tail = 0.5 * (degrees + 1.0) * np.log1p(gap**2 * (q / (q + 1.0)) / (self.degrees + scatter))
        return np.sum(constant - tail, axis=-1)

    def cell(self, stats: Float) -> Student:
        """Return Student's t as above."""
        n, q, mean, scatter = self._posterior(stats)
        scale = np.sqrt(self.variance * ((self.degrees + scatter) / (self.degrees + n)) * (1.0 + 1.0 / q))
        center = self.prior_mean + np.sqrt(self.variance) * mean
        return Student(center.T, scale.T, (self.degrees + n).T)

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return −½ Σ_d log 2πσ₀² − ψ((ν+n)/2) + log B/2 + (ν+n)/B (x_d − m₀ − μ)²/σ₀² + 1/q."""
        n, q, mean, scatter = self._posterior(stats)
        degrees = self.degrees + n
        gap = ((X - self.prior_mean) / np.sqrt(self.variance))[:, None, :] - mean
        constant = LOG_2PI + np.log(self.variance) + self._log_excess(n, scatter) + 1.0 / q
        constant = constant - (digamma(degrees / 2.0) - np.log(degrees / 2.0))
        return -0.5 * np.sum(constant + gap**2 * (degrees / (self.degrees + scatter)), axis=-1)

    def _log_excess(self, n: Float, scatter: Float) -> Float:
        """Return log B/(ν + n), the log ratio of a table's variance to the guess: (K, D)."""
        excess = (scatter - n) / (self.degrees + n)
        narrow = excess < -0.5
        return np.where(
            narrow, np.log((self.degrees + scatter) / (self.degrees + n)), np.log1p(np.where(narrow, 0.0, excess))
        )

    def centers(self, stats: Float) -> Float:
        """Return the posterior means m₀ + μ."""
        return self.prior_mean + np.sqrt(self.variance) * self._posterior(stats)[2]

    def means(self, stats: Float) -> Float:
        """Return m₀ + s/n."""
        return self.prior_mean + mean_of(stats[:, : 1 + (stats.shape[1] - 1) // 2])

    def variances(self, stats: Float) -> Float:
        """Return σ₀² B/(ν + n) for each table, the inverse of the posterior mean of 1/σ²: (K, S) to (K, D).

        >>> family = NormalGamma(variance=4.0, prior_variance=100.0)
        >>> family.variances(np.zeros((1, 3)))
        array([[4.]])
        """
        n, _, _, scatter = self._posterior(stats)
        return self.variance * ((self.degrees + scatter) / (self.degrees + n))

    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return shapes in units of σ₀, with the observed variance of each table in each dimension, (K, D)."""
        D = (stats.shape[1] - 1) // 2
        n, s, w = stats[:, 0], stats[:, 1 : 1 + D] / np.sqrt(self.variance), stats[:, 1 + D :] / self.variance
        mean = s / n[:, None]
        between = np.atleast_1d(self.prior_variance / self.variance)
        return Shapes(n, mean, np.maximum(w / n[:, None] - mean**2, 0.0), 0.0, between)

    def settings(self, n_features: int) -> Settings:
        """Return the settings of ``NormalGamma`` in C++."""
        variance = by_feature(self.variance, n_features)
        scale = np.sqrt(variance)
        values = {
            "precision": by_feature(self.variance / self.prior_variance, n_features),
            "variance": variance,
            "degrees": self.degrees,
            "log_normalizer": -0.5 * n_features * LOG_2PI - float(np.sum(np.log(scale))),
        }
        shift = unless(0.0, by_feature(self.prior_mean, n_features))
        return Settings("NormalGamma", values, {"shift": shift, "scale": unless(1.0, scale)})

    def widen_extra(self, stats: Float, n_added: int) -> Float:
        """Return Σ r z² − s²/q of new features, where every z is the same."""
        zero = np.full(n_added, -float(self.prior_mean))
        n, p = stats[:, :1], float(self.variance / self.prior_variance)
        return n * (p / (p + n)) * zero**2

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw σ² and φ from the prior: (n_tables, 2 n_features), the means φ first, then the variances σ²."""
        self.require_known()
        rng = np.random.default_rng(seed)
        shape = (n_tables, n_features)
        variances = self.variance * (0.5 * self.degrees / rng.standard_gamma(0.5 * self.degrees, shape))
        spread = np.sqrt(variances) * np.sqrt(self.prior_variance / self.variance)
        return np.hstack([self.prior_mean + spread * rng.standard_normal(shape), variances])

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw x ~ N(φ, σ²) for each row (φ, σ²): (n, 2D) to (n, D)."""
        self.require_known()
        means, variances = np.split(np.asarray(parameters), 2, axis=1)
        return means + np.sqrt(variances) * np.random.default_rng(seed).standard_normal(means.shape)

"""Counts: a product of Poisson distributions with a Gamma prior in every dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from dyncrp.arrays.checks import BadRow, Seed
from dyncrp.families.base import Family, Float, Hyperparameter, check_width, common_width, mean_of, scalar_or_vector
from dyncrp.families.cells import Count
from dyncrp.families.gamma import log_rising, stirling_remainder
from dyncrp.families.gaussian import LOG_2PI
from dyncrp.families.protocols import SCALES, Compiled, HasShape, PredictsCell, Proposes, Settings, Shapes, by_feature

LARGEST_COUNT = 2.0**53  # beyond it, neighbouring floats are more than 1 apart
SHAPES = (30.0, 10.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1)  # candidates for the shape


@dataclass(frozen=True, eq=False)
class Poisson(Family, Proposes, HasShape, PredictsCell, Compiled):
    """x_d ~ Poisson(φ_d) with φ_d ~ Gamma(shape, rate), whose mean is shape/rate and whose variance is shape/rate².

    T(x) = (1, x). With n and s the two parts of ``stats``, the posterior of φ_d is Gamma(A, B) with A = shape + s_d
    and B = rate + n, and the predictive is negative binomial:

        p(x_d) = Γ(A + x_d)/(Γ(A) x_d!) (B/(B + 1))^A (1/(B + 1))^x_d.

    Rows hold integers from 0 to 2⁵³.

    Parameters
    ----------
    shape : float, array-like of shape (D,), or None
        How similar clusters are: their means have a coefficient of variation of 1/√shape. None to learn it.
    rate : float, array-like of shape (D,), or None
        How many observations the prior is worth. None to learn it.

    Examples
    --------
    >>> family = Poisson(shape=1.0, rate=0.5)
    >>> stats = family.statistics(np.array([[3.0, 0.0], [5.0, 1.0]])).sum(axis=0, keepdims=True)
    >>> family.centers(stats)
    array([[3.6, 0.8]])
    >>> family.log_predictive(np.array([[4.0, 0.0], [0.0, 9.0]]), stats).round(2)
    array([[ -2.51],
           [-12.67]])
    """

    shape: Hyperparameter = None
    rate: Hyperparameter = None

    def __post_init__(self) -> None:
        for name in ("shape", "rate"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, scalar_or_vector(name, getattr(self, name)))
        common_width(self)

    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return candidates: shape/rate is the mean of the data, overall or by feature, and the shape varies.

        Labels are not used: the posterior describes the means of clusters.
        """
        if self.known:
            return [self]
        if labels is not None:
            return []
        often = max(float(np.mean(X)), 0.5 / X.size)
        each = (np.sum(X, axis=0) + often) / (len(X) + 1.0)  # no feature is assumed to be always 0
        found: list[Family] = []
        for mean in (often, each) if X.shape[1] > 1 else (often,):
            if self.shape is not None:
                found.append(Poisson(self.shape, self.shape / mean))
            elif self.rate is not None:
                found.append(Poisson(self.rate * mean, self.rate))
            else:
                found += [Poisson(shape, shape / mean) for shape in SHAPES]
        # Either vague or narrow priors may open more tables, depending on the data.
        return sorted(found, key=lambda family: -_reason_to_share(family, X))

    @property
    def independent(self) -> bool:
        """True."""
        return True

    def check(self, X: Float) -> Float:
        """Check for integers from 0 to 2⁵³. NaN is a missing cell."""
        for name in ("shape", "rate"):
            check_width(name, getattr(self, name), X.shape[1])
        bad = np.argwhere(~((X >= 0) & (X <= LARGEST_COUNT) & (np.floor(X) == X) | np.isnan(X)))
        if bad.size:
            row, column = bad[0]
            raise BadRow(f"Poisson takes integers from 0 to 2**53, got {X[row, column]}", row, column)
        return X

    def _posterior(self, stats: Float) -> tuple[Float, Float]:
        """Return the Gamma parameters of each table: (K, D) both."""
        s = stats[:, 1:]
        return self.shape + s, np.broadcast_to(self.rate + stats[:, :1], s.shape)

    def log_base_measure(self, X: Float) -> Float:
        """Return −Σ_d log x_d!."""
        return -np.sum(gammaln(X + 1.0), axis=1)

    def log_partition(self, stats: Float) -> Float:
        """Return Σ_d log Γ(A)/Γ(shape) + shape log rate − A log B."""
        _, B = self._posterior(stats)
        n, s = stats[:, :1], stats[:, 1:]
        return np.sum(log_rising(self.shape, s) - self.shape * np.log1p(n / self.rate) - s * np.log(B), axis=1)

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return the log density above, as Loader's (2000) sum of deviances, whose terms are of similar size.

        With N = A + x and R Stirling's remainder, this is for x > 0 the sum over features of

            x log N/(x(B + 1)) + A log NB/(A(B + 1)) − ½ log N/A − ½ log 2πx + R(N) − R(A) − R(x).
        """
        A, B = self._posterior(stats)
        x = X[:, None, :]
        seen = np.where(x > 0, x, 1.0)
        gap = seen * B - A
        several = (
            seen * _log_ratio(-gap / (seen * (B + 1.0)), (A + seen) / (seen * (B + 1.0)))
            + A * _log_ratio(gap / (A * (B + 1.0)), (A + seen) / A * (B / (B + 1.0)))
            - 0.5 * (np.log1p(seen / A) + np.log(seen) + LOG_2PI)
            + stirling_remainder(A + seen)
            - stirling_remainder(A)
            - stirling_remainder(seen)
        )
        return np.sum(np.where(x > 0, several, -A * np.log1p(1.0 / B)), axis=-1)

    def cell(self, stats: Float) -> Count:
        """Return the negative binomial as above."""
        A, B = self._posterior(stats)
        return Count(A.T, B.T)

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return Σ_d x_d (ψ(A) − log B) − A/B − log x_d!."""
        A, B = self._posterior(stats)
        return X @ (digamma(A) - np.log(B)).T - np.sum(A / B, axis=1) + self.log_base_measure(X)[:, None]

    def centers(self, stats: Float) -> Float:
        """Return the posterior means A/B."""
        A, B = self._posterior(stats)
        return A / B

    def means(self, stats: Float) -> Float:
        """Return s/n."""
        return mean_of(stats)

    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return shapes in 2√x, in which a count of any mean has about unit variance."""
        between = np.atleast_1d(1.0 / np.asarray(self.rate))
        return Shapes(stats[:, 0], 2.0 * np.sqrt(self.centers(stats)), np.ones(len(stats)), 1.0, between)

    def settings(self, n_features: int) -> Settings:
        """Return the settings of ``Poisson`` in C++."""
        values = {"shape": by_feature(self.shape, n_features), "rate": by_feature(self.rate, n_features)}
        return Settings("Poisson", values, {})

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw φ_d ~ Gamma(shape, rate)."""
        self.require_known()
        return np.random.default_rng(seed).gamma(self.shape, 1.0 / np.asarray(self.rate), size=(n_tables, n_features))

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw x_d ~ Poisson(φ_d) for each row φ."""
        self.require_known()
        return np.random.default_rng(seed).poisson(parameters).astype(np.float64)


def _reason_to_share(family: Family, X: Float) -> float:
    """Return the log odds of one table for all rows of X against one table for each row."""
    empty = np.zeros((1, 1 + X.shape[1]))
    return family.log_marginal(X) - float(np.sum(family.log_predictive(X, empty)))


def _log_ratio(excess: Float, ratio: Float) -> Float:
    """Return log ratio, where ratio = 1 + excess and both are accurate."""
    near = excess > -0.5
    return np.where(near, np.log1p(np.where(near, excess, 0.0)), np.log(ratio))

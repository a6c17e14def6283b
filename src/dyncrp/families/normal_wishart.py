"""Gaussian clusters that each have a covariance of their own: the family of the normal–inverse–Wishart prior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import isqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from dyncrp.arrays.checks import BadRow, Seed
from dyncrp.families.base import Family, Float, Hyperparameter, Tables, mean_of
from dyncrp.families.cells import Joint
from dyncrp.families.gamma import log_gamma_half, stirling_remainder
from dyncrp.families.gaussian import LOG_2PI, Gaussian
from dyncrp.families.gaussian_proposals import MOST_DIRECTIONS
from dyncrp.families.normal_gamma import NormalGamma
from dyncrp.families.protocols import (
    SCALES,
    Compiled,
    Explains,
    HasJoint,
    HasShape,
    Proposes,
    Settings,
    Shapes,
    Sharpens,
    View,
    by_feature,
    unless,
)
from dyncrp.families.triangles import Factor, bounded, factor, fold, unfold

# Further from the prior mean, in standard deviations, a row would have a Mahalanobis distance beyond the range of
# floats from some tables.
FURTHEST = 1e70
# By how much the ratio of the two variances may differ between features, relative to the largest.
RATIO_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class NormalWishart(Family, Proposes, Sharpens, HasShape, Explains, HasJoint, Compiled):
    """x ~ N(φ, Σ), where each table has its own mean φ and its own full covariance matrix Σ.

    The prior is Σ ~ inverse Wishart with ν + D − 1 degrees of freedom and scale matrix ν diag(σ₀²), and
    φ | Σ ~ N(m₀, Σ ρ²/σ₀²). So each feature alone, and each subset of them, has the prior of a ``NormalGamma`` or
    ``NormalWishart`` with the same hyperparameters; with one feature, the two families are equal. ν is how many
    observations the guess σ₀² is worth. As ν → ∞, the family becomes
    ``Gaussian(variance, prior_variance, prior_mean)``.

    T(x) = (1, z, z zᵀ) with z = x − m₀, of the products the lower triangle row by row. With n, s, w the three parts of
    ``stats`` in units of σ₀, and

        p = σ₀²/ρ²,  q = p + n,  μ = s/q,  Ψ = ν I + w − s sᵀ/q,

    the posterior is Σ ~ inverse Wishart with ν + D − 1 + n degrees of freedom and scale matrix Ψ, and
    φ | Σ ~ N(m₀ + μ, Σ/q). The predictive is the multivariate Student's t with ν + n degrees of freedom about m₀ + μ
    and scale matrix Ψ (1 + 1/q)/(ν + n).

    Accuracy: w − s sᵀ/q is a difference, with errors as described for ``NormalGamma``. The native engine sums products
    about the running mean instead. Scores of a table have a relative error of about 1e-16 times the condition number of
    Ψ: a few equal rows z standard deviations from m₀ have one of z², so that no digit is left at z = 1e8.

    Args:
        variance: σ₀², the guess of a cluster's variance in each feature.
        prior_variance: ρ², the variance of the means about ``prior_mean`` if the guess is right. It must be the same
            multiple of ``variance`` in every feature.
        degrees: ν, one number from 0.1 to 1e100.
        prior_mean: m₀. Each of these except ``degrees`` is a number, one for each feature, or None to learn it.

    >>> family = NormalWishart(variance=1.0, prior_variance=100.0, degrees=2.0)
    >>> X = np.array([[4.0, 4.1], [5.0, 4.9], [6.0, 6.0]])
    >>> stats = family.statistics(X).sum(axis=0, keepdims=True)
    >>> family.centers(stats).round(2), family.covariances(stats).round(2)
    (array([[4.98, 4.98]]), array([[[0.85, 0.43], [0.43, 0.81]]]))
    >>> family.log_predictive(np.array([[6.0, 6.0], [6.0, 4.0]]), stats).round(2)
    array([[-2.56],
           [-3.74]])
    """

    variance: Hyperparameter = None
    prior_variance: Hyperparameter = None
    degrees: float = 5.0
    prior_mean: Hyperparameter = None

    extra: ClassVar[str | None] = "scatter"
    shared: ClassVar[tuple[str, ...]] = ("degrees",)
    # Computed once: the family whose features are independent, and σ₀²/ρ².
    _diagonal: ClassVar[NormalGamma]
    precision: ClassVar[float]

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        diagonal = NormalGamma(self.variance, self.prior_variance, self.degrees, self.prior_mean)
        for field in fields(diagonal):
            set_(self, field.name, getattr(diagonal, field.name))
        set_(self, "_diagonal", diagonal)
        if self.variance is None or self.prior_variance is None:
            return
        ratios = np.atleast_1d(self.variance / self.prior_variance)
        if not _agree(ratios):
            raise ValueError(
                "prior_variance must be the same multiple of variance in every feature, got multiples from "
                f"{1.0 / np.max(ratios):g} to {1.0 / np.min(ratios):g}"
            )
        set_(self, "precision", float(ratios[0]))

    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return candidates: those of ``NormalGamma``, with the mean of the ratios of ρ² to σ₀² in all features."""
        if self.known:
            return [self]
        return [self._guess(found) for found in self._diagonal.proposals(X, labels, scales)]

    def _guess(self, found: Family) -> NormalWishart:
        if not isinstance(found, NormalGamma):
            raise TypeError(f"expected a NormalGamma, got {found!r}")
        variance, prior_variance = found.variance, found.prior_variance
        ratio = np.mean(prior_variance / variance)
        if not _agree(prior_variance / variance):
            if self.variance is None and self.prior_variance is not None:
                variance = prior_variance / ratio
            else:
                prior_variance = variance * ratio
        return NormalWishart(variance, prior_variance, self.degrees, found.prior_mean)

    def views(self, X: Float) -> list[View]:
        """Return the features as they are, and each in its own unit."""
        plain = super().views(X)
        if self.known or X.shape[1] > MOST_DIRECTIONS:
            return plain
        limit = Gaussian(self.variance, self.prior_variance, self.prior_mean)
        there = replace(self, prior_mean=None if self.prior_mean is None else 0.0)
        return plain + [view._replace(lift=_lift(view), family=there) for view in limit.views(X)[1:]]

    def for_one_cluster(self, found: Family) -> Family:
        """Return the found family with centres far apart, as for the Gaussian."""
        if not isinstance(found, NormalWishart):
            return found
        return found._guess(self._diagonal.for_one_cluster(found._diagonal))

    def sharpen(self, resolution: float) -> NormalWishart:
        """Return the family with σ₀² divided by the resolution."""
        return self._guess(self._diagonal.sharpen(resolution))

    @property
    def safe_norm(self) -> float:
        """A length well within the bound of every feature."""
        if not self.known:
            return self._diagonal.safe_norm
        return 0.5 * float(np.min(self._furthest) - np.max(np.abs(self.prior_mean)))

    @property
    def _furthest(self) -> Float:
        return FURTHEST * np.minimum(1.0, np.sqrt(self.variance))

    def check(self, X: Float) -> Float:
        """Check for finite numbers not too far from the prior mean."""
        X = self._diagonal.check(X)
        if self.known:
            bad = np.argwhere(np.abs(X - self.prior_mean) > self._furthest)
            if bad.size:
                row, column = bad[0]
                limit = np.broadcast_to(self._furthest, X.shape)[row, column]
                raise BadRow(f"X must lie within {limit:.3g} of the prior mean, got {X[row, column]}", row, column)
        return X

    def statistics(self, X: Float) -> Float:
        """Return T(x) = (1, z, z_i z_j for i ≥ j), z = x − m₀: (n, D) to (n, (D + 1)(D + 2)/2)."""
        z = X - self.prior_mean
        rows, columns = np.tril_indices(X.shape[1])
        return np.hstack([np.ones((len(X), 1)), z, z[:, rows] * z[:, columns]])

    def n_statistics(self, n_features: int) -> int:
        """Return (D + 1)(D + 2)/2; no array of that size is made."""
        return (n_features + 1) * (n_features + 2) // 2

    def _posterior(self, stats: Float) -> tuple[Float, Float, Float, Float]:
        """Return n and q (K,), and in units of σ₀ each table's μ (K, D) and w − s sᵀ/q (K, D, D)."""
        n, mean, products = self._moments(stats)
        q = self.precision + n
        # Two parts that are positive semi-definite: the scatter about the table's own mean, and that mean's.
        own = bounded(products - n[:, None, None] * _outer(mean))
        return n, q, (n / q)[:, None] * mean, own + (n * (self.precision / q))[:, None, None] * _outer(mean)

    def _moments(self, stats: Float) -> tuple[Float, Float, Float]:
        """Return n (K,), and in units of σ₀ the mean of the observations (K, D) and w (K, D, D)."""
        D = _n_features(stats)
        n, units = stats[:, 0], np.broadcast_to(np.sqrt(self.variance), D)
        s = stats[:, 1 : 1 + D] / units
        mean = np.divide(s, n[:, None], out=np.zeros_like(s), where=n[:, None] > 0)
        return n, mean, unfold(stats[:, 1 + D :], D) / units[:, None] / units

    def _factor(self, n: Float, scatter: Float) -> Factor:
        """Return the factor of Ψ/(ν + n), which is the guess's identity for an empty table."""
        return factor(self.degrees, n, scatter)

    def log_base_measure(self, X: Float) -> Float:
        """Return −½ Σ_d log 2πσ₀²."""
        return np.full(len(X), self._log_unit(X.shape[1]))

    def _log_unit(self, D: int) -> float:
        return -0.5 * float(np.sum(LOG_2PI + np.log(self.variance) + np.zeros(D)))

    def log_partition(self, stats: Float) -> Float:
        """Return log Γ_D((N + n)/2)/Γ_D(N/2) + ½ n D log 2 + ½ N D log ν − ½ (N + n) log |Ψ| + ½ D log p/q.

        Here N = ν + D − 1. It is written so that nothing grows with ν, by log Γ(z) = (z − ½) log z − z + ½ log 2π +
        remainder(z) in each of the D factors of Γ_D.
        """
        n, _, _, scatter = self._posterior(stats)
        return self._log_partition(n, scatter)

    def _log_partition(self, n: Float, scatter: Float) -> Float:
        D, nu = scatter.shape[1], self.degrees
        i, many = np.arange(D), (nu + n)[:, None]
        remainders = stirling_remainder((many + i) / 2.0) - stirling_remainder((nu + i) / 2.0)
        common = (many + i - 1.0) * np.log1p(i / many) - (nu + i - 1.0) * np.log1p(i / nu)
        common = common - (D - i) * np.log1p(n / nu)[:, None] - n[:, None]
        shrink = -0.5 * D * np.log1p(n / self.precision)
        log_determinant = self._factor(n, scatter).log_determinant
        return np.sum(remainders + 0.5 * common, axis=1) + shrink - 0.5 * (nu + n + (D - 1.0)) * log_determinant

    def add(self, first: Tables, second: Tables) -> dict[str, Float]:
        """Return the sums, except that ``scatter``, an engine's w − s sᵀ/q, is computed for both tables together."""
        total = super().add(first, second)
        if "scatter" in total:
            joint = self._joint_scatter(first, second)
            units = np.broadcast_to(np.sqrt(self.variance), joint.shape[1])
            total["scatter"] = fold(joint * units[:, None] * units)
        return total

    def log_bayes_factor(self, first: Tables, second: Tables) -> Float:
        """Return the log Bayes factor, using the engine's scatter if there is one: it has more digits than the sums."""
        n1, n2 = first["stats"][:, 0], second["stats"][:, 0]
        alone = self._log_partition(n1, self._scatter(first)) + self._log_partition(n2, self._scatter(second))
        return self._log_partition(n1 + n2, self._joint_scatter(first, second)) - alone

    def _scatter(self, tables: Tables) -> Float:
        """Return w − s sᵀ/q in units of σ₀: (K, D, D)."""
        if "scatter" not in tables:
            return self._posterior(tables["stats"])[3]
        D = _n_features(tables["stats"])
        units = np.broadcast_to(np.sqrt(self.variance), D)
        return unfold(tables["scatter"], D) / units[:, None] / units

    def _joint_scatter(self, first: Tables, second: Tables) -> Float:
        """Return the scatter of both: the sum of that of the first, of the second about its mean, and of the means."""
        _, q1, mean1, _ = self._posterior(first["stats"])
        n2, mean2, _ = self._moments(second["stats"])
        p = self.precision
        own = bounded(self._scatter(second) - (n2 * (p / (p + n2)))[:, None, None] * _outer(mean2))
        return self._scatter(first) + own + (n2 * (q1 / (q1 + n2)))[:, None, None] * _outer(mean2 - mean1)

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return log t(x), the multivariate Student's t as above."""
        constant, power, gap, found = self._student(X, stats)
        return constant - power * np.log1p(np.sum(found.solve(gap) ** 2 / found.pivots, axis=2))

    def _student(self, X: Float, stats: Float) -> tuple[Float, Float, Float, Factor]:
        """Return constant, power (K,), gaps g (n, K, D) and a factor A: log t(x) = constant − power log(1 + gᵀA⁻¹g)."""
        n, q, mean, scatter = self._posterior(stats)
        D, nu = X.shape[1], self.degrees + n
        i, found = np.arange(D), self._factor(n, scatter)
        gammas = np.sum(log_gamma_half((nu[:, None] + i) / 2.0) + 0.5 * np.log1p(i / nu[:, None]), axis=1)
        constant = self._log_unit(D) + gammas - 0.5 * (D * np.log1p(1.0 / q) + found.log_determinant)
        gap = self._gaps(X, mean) * np.sqrt(q / (q + 1.0) / nu)[:, None]
        return constant, 0.5 * (nu + D), gap, found

    def _gaps(self, X: Float, mean: Float) -> Float:
        """Return (x − m₀)/σ₀ − μ: (n, K, D)."""
        return ((X - self.prior_mean) / np.sqrt(self.variance))[:, None, :] - mean

    def joint(self, stats: Float, n_features: int) -> Joint:
        """Return the multivariate Student's t as above."""
        n, q = stats[:, 0], self.precision + stats[:, 0]
        return Joint(self.degrees + n, self.centers(stats), self.covariances(stats) * (1.0 + 1.0 / q)[:, None, None])

    def log_predictive_terms(self, X: Float, stats: Float) -> Float:
        """Return terms by feature that sum to ``log_predictive``: (n, K, D).

        log t(x) = constant − ½ log |A| − power log(1 + Q), with Q = gᵀ A⁻¹ g for the gap g of x from the table's mean.
        Feature d has the share g_d (A⁻¹ g)_d / Q of the last part. Of log |A| it has the logarithm of its variance A_dd
        and the d-th diagonal entry of log C, where C is the correlation matrix of A. It also has the logarithm of its
        unit σ₀, and an equal share of the rest of the constant. The order of the features does not matter, and as
        ν → ∞ these become the terms of a ``Gaussian``. A term can be positive: a feature may be where the others
        predict it.
        """
        constant, power, gap, found = self._student(X, stats)
        K, D = len(stats), X.shape[1]
        A = (found.lower * found.pivots[:, None, :]) @ found.lower.transpose(0, 2, 1)
        units = np.sqrt(np.diagonal(A, axis1=1, axis2=2))
        values, vectors = np.linalg.eigh(A / units[:, :, None] / units[:, None, :])
        logs = np.log(np.maximum(values, np.finfo(np.float64).tiny))
        widths = np.log(self.variance) + 2.0 * np.log(units) + np.sum(vectors**2 * logs[:, None, :], axis=2)
        pull = found.solve(gap) / found.pivots
        square = np.sum(found.solve(gap) * pull, axis=2)
        for j in range(D - 1, 0, -1):  # A⁻¹ g = L⁻ᵀ (D⁻¹ L⁻¹ g)
            pull[:, :, :j] -= found.lower[:, j, :j] * pull[:, :, j : j + 1]
        # log(1 + Q)/Q is 1 at Q = 0.
        slope = np.divide(np.log1p(square), square, out=np.ones_like(square), where=square > 0.0)
        terms = -0.5 * widths.reshape(1, K, D) - (power * slope)[:, :, None] * gap * pull
        whole = constant - power * np.log1p(square)
        return terms + (whole - np.sum(terms, axis=2))[:, :, None] / D

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return −½ (D log 2π + E log |Σ| + (N + n) gᵀ Ψ⁻¹ g + D/q), g = x − m₀ − μ, in units of σ₀."""
        n, q, mean, scatter = self._posterior(stats)
        D, nu = X.shape[1], self.degrees + n
        i, found = np.arange(D), self._factor(n, scatter)
        half = (nu[:, None] + i) / 2.0
        logs = found.log_determinant - np.sum(digamma(half) - np.log(half) + np.log1p(i / nu[:, None]), axis=1)
        square = np.sum(found.solve(self._gaps(X, mean)) ** 2 / found.pivots, axis=2)
        return self._log_unit(D) - 0.5 * (logs + D / q + (1.0 + (D - 1.0) / nu) * square)

    def centers(self, stats: Float) -> Float:
        """Return the posterior means m₀ + μ."""
        return self.prior_mean + np.sqrt(self.variance) * self._posterior(stats)[2]

    def means(self, stats: Float) -> Float:
        """Return m₀ + s/n."""
        D = _n_features(stats)
        return self.prior_mean + mean_of(stats[:, : 1 + D])

    def covariances(self, stats: Float) -> Float:
        """Return Ψ/(ν + n) for each table in the units of the features, a covariance matrix: (K, S) to (K, D, D).

        Its diagonal is what ``NormalGamma.variances`` returns for each feature alone.

        >>> family = NormalWishart(variance=[4.0, 1.0], prior_variance=[400.0, 100.0])
        >>> family.covariances(np.zeros((1, 6)))
        array([[[4., 0.], [0., 1.]]])
        """
        n, _, _, scatter = self._posterior(stats)
        D = scatter.shape[1]
        units = np.broadcast_to(np.sqrt(self.variance), D)
        found = (self.degrees * np.eye(D) + scatter) / (self.degrees + n)[:, None, None]
        return found * units[:, None] * units

    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return shapes in units of σ₀, with the observed covariance of each table, (K, D, D)."""
        n, mean, products = self._moments(stats)
        spread = bounded(products / n[:, None, None] - _outer(mean))
        return Shapes(n, mean, spread, 0.0, np.atleast_1d(1.0 / self.precision))

    def settings(self, n_features: int) -> Settings:
        """Return the settings of ``NormalWishart`` in C++."""
        variance = by_feature(self.variance, n_features)
        scale = np.sqrt(variance)
        values = {
            "precision": self.precision,
            "variance": variance,
            "degrees": self.degrees,
            "log_normalizer": self._log_unit(n_features),
        }
        shift = unless(0.0, by_feature(self.prior_mean, n_features))
        return Settings("NormalWishart", values, {"shift": shift, "scale": unless(1.0, scale)})

    def extra_width(self, n_features: int) -> int:
        """Return the size of a lower triangle."""
        return n_features * (n_features + 1) // 2

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw Σ and φ from the prior: (n_tables, D + D(D + 1)/2), the means φ first, then factors of covariances.

        Σ = F Fᵀ with a lower triangular F, given row by row. By Bartlett's decomposition F⁻ᵀ, in units of σ₀/√ν, is an
        upper triangle of standard normals, whose d-th diagonal entry is the root of a χ² with ν + d degrees of freedom.
        """
        self.require_known()
        D, rng = n_features, np.random.default_rng(seed)
        triangle = np.triu(rng.standard_normal((n_tables, D, D)), 1) / np.sqrt(self.degrees)
        chi = np.sqrt(rng.standard_gamma(0.5 * (self.degrees + np.arange(D)), (n_tables, D)) / (0.5 * self.degrees))
        F = np.zeros((n_tables, D, D))
        for d in range(D):  # F Uᵀ = I, a column of Uᵀ at a time
            F[:, d, d] = 1.0 / chi[:, d]
            for j in range(d):
                F[:, d, j] = -np.sum(triangle[:, j:d, d] * F[:, j:d, j], axis=1) / chi[:, d]
        F *= np.broadcast_to(np.sqrt(self.variance), D)[:, None]
        noise = rng.standard_normal((n_tables, D))
        means = self.prior_mean + np.sum(F * noise[:, None, :], axis=2) / np.sqrt(self.precision)
        return np.hstack([means, fold(F)])

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw x ~ N(φ, F Fᵀ) for each row (φ, F): (n, D + D(D + 1)/2) to (n, D)."""
        self.require_known()
        parameters = np.asarray(parameters)
        D = (isqrt(8 * parameters.shape[1] + 9) - 3) // 2
        F = np.tril(unfold(parameters[:, D:], D))
        noise = np.random.default_rng(seed).standard_normal((len(parameters), D))
        return parameters[:, :D] + np.sum(F * noise[:, None, :], axis=2)


def _lift(view: View) -> Callable[[Family], Family]:
    """Return how a view of a Gaussian turns a NormalWishart of its coordinates into one of the features."""

    def lift(found: Family) -> Family:
        if not isinstance(found, NormalWishart):
            raise TypeError(f"expected a NormalWishart, got {found!r}")
        there = view.lift(Gaussian(found.variance, found.prior_variance, found.prior_mean))
        if not isinstance(there, Gaussian):
            raise TypeError(f"expected a Gaussian, got {there!r}")
        return found._guess(NormalGamma(there.variance, there.prior_variance, found.degrees, there.prior_mean))

    return lift


def _agree(ratios: Hyperparameter) -> bool:
    """Return whether ratios are the same in all features, up to rounding."""
    return bool(np.ptp(ratios) <= RATIO_TOLERANCE * np.max(ratios))


def _n_features(stats: Float) -> int:
    """Return D, where stats are (K, (D + 1)(D + 2)/2)."""
    return (isqrt(8 * stats.shape[1] + 1) - 3) // 2


def _outer(vectors: Float) -> Float:
    """Return v vᵀ for each row v: (K, D) to (K, D, D)."""
    return vectors[:, :, None] * vectors[:, None, :]

"""Gaussian clusters that share a spread, with a Gaussian prior over their means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.checks import BadRow, Seed
from dyncrp.families import directions
from dyncrp.families.base import (
    SMALLEST_POSITIVE,
    Family,
    Float,
    Hyperparameter,
    Tables,
    check_width,
    mean_of,
    scalar_or_vector,
)
from dyncrp.families.cells import Joint, Student
from dyncrp.families.gaussian_shape import GaussianShape
from dyncrp.families.protocols import (
    SCALES,
    Compiled,
    Explains,
    HasJoint,
    PredictsCell,
    Proposes,
    Settings,
    Sharpens,
    View,
    by_feature,
    terms_of_independent,
    unless,
)

LOG_2PI = float(np.log(2.0 * np.pi))

# The least ratio of the variance of means to that within clusters, for directions in which clusters hardly differ.
LEAST_RATIO = 1e-3
# Rows further out would have variances beyond the range of a hyperparameter.
FURTHEST_TO_LEARN_FROM = 1e45
# The variance of centres, in units of a cluster's variance, if all rows so far are one cluster.
PRIOR_OF_ONE_CLUSTER = 100.0


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(GaussianShape, Family, Proposes, Sharpens, Explains, PredictsCell, HasJoint, Compiled):
    """x ~ N(φ, σ² I) with φ ~ N(m₀, ρ² I). Each of σ², ρ² and m₀ is a number, or one for each feature.

    Statistics are taken about the prior mean, T(x) = (1, x − m₀), so that data far from the origin lose no digits.
    With n and s the two parts of ``stats``, the posterior of φ is Gaussian with

        mean      μ = m₀ + ρ² s / (σ² + n ρ²)
        variance  v = ρ² σ² / (σ² + n ρ²),

    the paper's coordinate update in closed form, and the predictive is N(μ, σ² + v).

    With ``directions`` W (Q, D), all this happens in the coordinates z = W (x − m₀), each with its own σ² and ρ², so
    that clusters may share any covariance. The rest of x − m₀, orthogonal to the rows of W, is N(0, τ² I) in all
    clusters, where τ² is the ``residual_variance``. ``from_covariances`` makes W from two matrices.

    A hyperparameter of None is learned from data. But ``prior_mean`` is 0 by default if both variances are given.

    Parameters
    ----------
    variance : float, array-like of shape (D,), or None
        σ², of an observation about its cluster's mean.
    prior_variance : float, array-like of shape (D,), or None
        ρ², of the means about ``prior_mean``.
    prior_mean : float, array-like of shape (D,), or None
        m₀.
    directions : array-like of shape (Q, D), optional
        W, with linearly independent rows.
    residual_variance : float, optional
        τ². Required if there are fewer directions than features.

    Examples
    --------
    >>> family = Gaussian(variance=1.0, prior_variance=3.0)
    >>> stats = family.statistics(np.array([[2.0]]))
    >>> family.centers(stats)
    array([[1.5]])
    >>> family.log_predictive(np.array([[1.5]]), stats) + 0.5 * np.log(2 * np.pi * 1.75)
    array([[0.]])
    """

    variance: Hyperparameter = None
    prior_variance: Hyperparameter = None
    prior_mean: Hyperparameter = None
    directions: Any = None
    residual_variance: Hyperparameter = None

    # Computed once: the lengths of the vectors, how far out an observation may lie, a quick bound on that, and for
    # directions W⁺ᵀ (Q, D) and ½ log det W Wᵀ.
    _widths: ClassVar[dict[str, int]]
    _furthest: ClassVar[Hyperparameter]
    _safe: ClassVar[float]
    inverse: ClassVar[Float]
    log_scale: ClassVar[float]

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for name in ("variance", "prior_variance"):
            if getattr(self, name) is not None:
                set_(self, name, scalar_or_vector(name, getattr(self, name)))
        if self.prior_mean is None and self.variance is not None and self.prior_variance is not None:
            set_(self, "prior_mean", 0.0)
        if self.prior_mean is not None:
            set_(self, "prior_mean", scalar_or_vector("prior_mean", self.prior_mean, positive=False))
        if self.directions is not None:
            self._prepare_directions()
        elif self.residual_variance is not None:
            raise ValueError("residual_variance is for Gaussians with directions")
        set_(self, "_widths", self._agreed_widths())
        furthest = FURTHEST_TO_LEARN_FROM
        if self.known:
            furthest = 1e140 * np.minimum(1.0, np.sqrt(self.variance if self.directions is None else SMALLEST_POSITIVE))
        set_(self, "_furthest", furthest)
        set_(self, "_safe", float(np.min(furthest) - np.max(np.abs(self._mean))))

    @property
    def known(self) -> bool:
        """Whether variance, prior variance and prior mean have values."""
        return not any(value is None for value in (self.variance, self.prior_variance, self.prior_mean))

    @property
    def _mean(self) -> Hyperparameter:
        """The prior mean, 0 if it is unknown."""
        return 0.0 if self.prior_mean is None else self.prior_mean

    @property
    def width(self) -> int | None:
        """How many features the hyperparameters have entries for; None if any number of features is allowed."""
        return self._widths.get("features")

    def _prepare_directions(self) -> None:
        if self.variance is None or self.prior_variance is None:
            raise ValueError("a Gaussian with directions needs its variance and prior_variance")
        found = directions.prepare(self.directions, self.residual_variance)
        for name, value in zip(("directions", "residual_variance", "inverse", "log_scale"), found, strict=True):
            object.__setattr__(self, name, value)

    def _agreed_widths(self) -> dict[str, int]:
        """Return how many entries the vectors of coordinates and the vectors of features have."""
        of_coordinates = ("variance", "prior_variance") if self.directions is not None else ()
        widths: dict[str, dict[str, int]] = {"coordinates": {}, "features": {}}
        for name in ("variance", "prior_variance", "prior_mean"):
            if np.ndim(getattr(self, name)) == 1:
                kind = "coordinates" if name in of_coordinates else "features"
                widths[kind][name] = len(getattr(self, name))
        if self.directions is not None:
            widths["coordinates"]["directions"], widths["features"]["directions"] = self.directions.shape
        for lengths in widths.values():
            if len(set(lengths.values())) > 1:
                raise ValueError(f"Gaussian has hyperparameters of different lengths: {lengths}")
        return {kind: next(iter(lengths.values())) for kind, lengths in widths.items() if lengths}

    @classmethod
    def from_covariances(cls, within: ArrayLike, between: ArrayLike, prior_mean: ArrayLike = 0.0) -> Self:
        """Return clusters N(φ, within) with means φ ~ N(prior_mean, between), two (D, D) covariance matrices.

        W diagonalises both: W within Wᵀ = I, and W between Wᵀ is diagonal. In directions in which ``between`` vanishes,
        it is set to a thousandth of the variance within.

        >>> family = Gaussian.from_covariances([[2.0, 1.0], [1.0, 2.0]], [[9.0, 0.0], [0.0, 9.0]])
        >>> family.within_covariance(2).round(6), family.between_covariance(2).round(6)
        (array([[2., 1.], [1., 2.]]), array([[9., 0.], [0., 9.]]))
        """
        W, ratios = directions.diagonalize(within, between)
        return cls(1.0, np.maximum(ratios, LEAST_RATIO), prior_mean, W)

    def within_covariance(self, n_features: int) -> Float:
        """Return the covariance (D, D) of an observation about its cluster's mean."""
        within = self._in_features(self.variance, n_features)
        if self.directions is not None and self.residual_variance is not None:
            within += self.residual_variance * (np.eye(n_features) - self.inverse.T @ self.directions)
        return within

    def between_covariance(self, n_features: int) -> Float:
        """Return the covariance (D, D) of the clusters' means about ``prior_mean``."""
        return self._in_features(self.prior_variance, n_features)

    def _in_features(self, variance: Hyperparameter, n_features: int) -> Float:
        self.require_known()
        if self.width not in (None, n_features):
            raise ValueError(f"{self!r} has {self.width} features, not {n_features}")
        if self.directions is None:
            return np.diag(np.broadcast_to(np.asarray(variance), n_features).astype(np.float64))
        return (self.inverse.T * variance) @ self.inverse

    @property
    def safe_norm(self) -> float:
        """A length well within every feature's bound; −1 for a subclass with its own ``check``."""
        return 0.5 * self._safe if self._safe > 0 and type(self).check is Gaussian.check else -1.0

    @property
    def independent(self) -> bool:
        """True without directions."""
        return self.directions is None

    def check(self, X: Float) -> Float:
        """Check for finite numbers whose squares are finite too. Without directions, NaN is a missing cell."""
        width = self._widths.get("features", X.shape[1])
        if width == X.shape[1] and np.vdot(X, X) <= self._safe * abs(self._safe):
            return X
        if self.directions is not None and width != X.shape[1]:
            raise ValueError(f"directions have {width} entries each, but X has {X.shape[1]} features")
        if self.directions is None:
            check_width("variance", self.variance, X.shape[1])
            check_width("prior_variance", self.prior_variance, X.shape[1])
        check_width("prior_mean", self.prior_mean, X.shape[1])
        with np.errstate(over="ignore"):
            bad = np.argwhere(np.abs(X - self._mean) > self._furthest)
        if bad.size:
            row, column = bad[0]
            limit = np.broadcast_to(self._furthest, X.shape)[row, column]
            raise BadRow(f"X must lie within {limit:.3g} of the prior mean, got {X[row, column]}", row, column)
        return X

    def coordinates(self, X: Float) -> Float:
        """Return x − m₀, or z = W (x − m₀) if there are directions: (n, D) to (n, Q)."""
        about = X - self.prior_mean
        return about if self.directions is None else about @ self.directions.T

    def log_residual(self, X: Float) -> Float:
        """Return the log density of what the coordinates leave out, plus the log Jacobian of the coordinates: (n,)."""
        if self.directions is None:
            return np.zeros(len(X))
        Q, D = self.directions.shape
        if self.residual_variance is None:
            return np.full(len(X), self.log_scale)
        rest = X - self.prior_mean - self.coordinates(X) @ self.inverse
        square = np.sum(rest**2, axis=1) / self.residual_variance
        return self.log_scale - 0.5 * ((D - Q) * (LOG_2PI + np.log(self.residual_variance)) + square)

    def statistics(self, X: Float) -> Float:
        """Return T(x) = (1, z): (n, D) to (n, 1 + D), or (n, 1 + Q) with directions."""
        return np.hstack([np.ones((len(X), 1)), self.coordinates(X)])

    def n_statistics(self, n_features: int) -> int:
        """Return 1 + D, or 1 + Q with directions."""
        return 1 + (n_features if self.directions is None else self.directions.shape[0])

    def _posterior(self, stats: Float) -> tuple[Float, Float]:
        """Return the mean about m₀ and the variance of each table's φ, in the coordinates: both (K, Q)."""
        n, s = stats[:, :1], stats[:, 1:]
        shrink = self.prior_variance / (self.variance + n * self.prior_variance)
        return shrink * s, np.broadcast_to(shrink * self.variance, s.shape)

    def log_base_measure(self, X: Float) -> Float:
        """Return log N(x; m₀, σ² I)."""
        z = self.coordinates(X)
        return _log_normal(z, np.broadcast_to(np.asarray(self.variance), z.shape)) + self.log_residual(X)

    def log_partition(self, stats: Float) -> Float:
        """Return Σ_d ½ log(σ²/(σ² + nρ²)) + ρ² s²/(2σ²(σ² + nρ²))."""
        mean, variance = self._posterior(stats)
        return np.sum(0.5 * np.log(variance / self.prior_variance) + mean**2 / (2.0 * variance), axis=1)

    def log_bayes_factor(self, first: Tables, second: Tables) -> Float:
        """Return log p(mean of the second | first) − log p(mean of the second), in y = z/σ with p = σ²/ρ², q = n + p.

        That is ½ Σ_d n₂p/q₂ ȳ₂² − n₂q₁/(n₂ + q₁) (ȳ₂ − s₁/q₁)² + log q₁q₂/(p (n₂ + q₁)). Its terms do not grow with the
        distance from the prior mean, so tables far out are compared as accurately as others.
        """
        p = np.atleast_1d(self.variance / self.prior_variance)
        n2, mean2 = self.means_in_units(second["stats"])
        n2 = n2[:, None]
        q1, q2 = first["stats"][:, :1] + p, n2 + p
        gap = mean2 - first["stats"][:, 1:] / q1 / np.sqrt(self.variance)
        constant = np.sum(np.log(q1 / (q1 + n2)) + np.log(q2 / p), axis=1) * (gap.shape[1] / len(p))
        return 0.5 * (np.sum(n2 * p / q2 * mean2**2, axis=1) - np.sum(n2 * q1 / (n2 + q1) * gap**2, axis=1) + constant)

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return log N(x; μ, σ² + v)."""
        mean, variance = self._posterior(stats)
        density = _log_normal(self.coordinates(X)[:, None, :] - mean, self.variance + variance)
        return density + self.log_residual(X)[:, None]

    def cell(self, stats: Float) -> Student:
        """Return N(μ, σ² + v)."""
        mean, variance = self._posterior(stats)
        scale = np.sqrt(self.variance + variance)
        return Student((self.prior_mean + mean).T, scale.T, np.full((1, len(stats)), np.inf))

    def joint(self, stats: Float, n_features: int) -> Joint:
        """Return N(μ, W⁺ diag(σ² + v) W⁺ᵀ), and what the directions leave out."""
        mean, variance = self._posterior(stats)
        variance = self.variance + variance
        if self.directions is None:
            scales = variance[:, :, None] * np.eye(n_features)
        else:
            scales = np.einsum("kq,qd,qe->kde", variance, self.inverse, self.inverse)
            if self.residual_variance is not None:
                scales += self.residual_variance * (np.eye(n_features) - self.inverse.T @ self.directions)
        return Joint(np.full(len(stats), np.inf), self._from_coordinates(mean), scales)

    def log_predictive_terms(self, X: Float, stats: Float) -> Float:
        """Return terms by feature that sum to ``log_predictive``; those of directions are mapped back to features.

        Let a = W (A − m₀) be the coordinates of the centre A of a table, and v = σ² + v_c its variances there. Since
        z_q − a_q = Σ_d W_qd (x_d − A_d), the square (z_q − a_q)²/v_q is a sum over features. The term of feature d is

            −½ Σ_q (z_q − a_q)/v_q · W_qd (x_d − A_d)  −  ½ Σ_q W_qd W⁺_dq log 2πv_q,

        plus a term that all tables share. The normaliser of a direction is divided among features by W_qd W⁺_dq, which
        sum to 1 over d and are the mean shares of features in the square. With one feature in each direction, these are
        the terms of independent features. Where features are correlated within clusters, a term can be positive: a
        feature may be where another one predicts it. All tables share the log density of what the coordinates leave
        out. It has a square for each feature and is otherwise divided evenly; it does not change log odds.
        """
        if self.directions is None:
            return terms_of_independent(self, X, stats)
        mean, variance = self._posterior(stats)
        variance = self.variance + variance
        D, W = X.shape[1], self.directions
        z = self.coordinates(X)
        pull = ((z[:, None, :] - mean) / variance) @ W
        terms = -0.5 * (pull * (X[:, None, :] - self._from_coordinates(mean)))
        terms -= 0.5 * ((LOG_2PI + np.log(variance)) @ (W * self.inverse))
        common = np.full(X.shape, self.log_scale / D)
        if self.residual_variance is not None:
            rest = X - self.prior_mean - z @ self.inverse
            left = (D - len(W)) * (LOG_2PI + np.log(self.residual_variance))
            common -= 0.5 * (rest**2 / self.residual_variance + left / D)
        return terms + common[:, None, :]

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return log N(x; μ, σ²) − Σ_d v/(2σ²)."""
        mean, variance = self._posterior(stats)
        spread = np.broadcast_to(np.asarray(self.variance), mean.shape)
        penalty = np.sum(variance / (2.0 * spread), axis=1)
        density = _log_normal(self.coordinates(X)[:, None, :] - mean, spread)
        return density - penalty + self.log_residual(X)[:, None]

    def centers(self, stats: Float) -> Float:
        """Return the posterior means μ."""
        return self._from_coordinates(self._posterior(stats)[0])

    def means(self, stats: Float) -> Float:
        """Return m₀ + s/n; with directions, in the span of the directions."""
        return self._from_coordinates(mean_of(stats))

    def _from_coordinates(self, z: Float) -> Float:
        """Return the x nearest to m₀ with these coordinates: (K, Q) to (K, D)."""
        return self.prior_mean + (z if self.directions is None else z @ self.inverse)

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw φ ~ N(m₀, ρ² I)."""
        self.require_known()
        width = n_features if self.directions is None else len(self.directions)
        noise = np.random.default_rng(seed).standard_normal((n_tables, width))
        return self._from_coordinates(np.sqrt(self.prior_variance) * noise)

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw x ~ N(φ, σ² I) for each row φ."""
        self.require_known()
        rng = np.random.default_rng(seed)
        if self.directions is None:
            return parameters + np.sqrt(self.variance) * rng.standard_normal(np.shape(parameters))
        noise = rng.standard_normal((len(parameters), len(self.directions)))
        X = parameters + (np.sqrt(self.variance) * noise) @ self.inverse
        if self.residual_variance is not None:
            rest = np.sqrt(self.residual_variance) * rng.standard_normal(np.shape(parameters))
            X += rest - (rest @ self.directions.T) @ self.inverse
        return X

    def sharpen(self, resolution: float) -> Gaussian:
        """Return the family with σ² divided by the resolution."""
        self.require_known()
        return replace(self, variance=np.asarray(self.variance) / resolution)

    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return candidates for X (n, D). labels: (n,) those of a clustering of X, or None."""
        from dyncrp.families import gaussian_proposals  # it makes Gaussians

        return [self] if self.known else gaussian_proposals.propose(self, X, labels, scales)

    def for_one_cluster(self, found: Family) -> Family:
        """Return the found family with centres about ten standard deviations apart, unless prior_variance is given."""
        if self.prior_variance is not None or not isinstance(found, Gaussian):
            return found
        return replace(found, prior_variance=np.maximum(found.prior_variance, PRIOR_OF_ONE_CLUSTER * found.variance))

    def views(self, X: Float) -> list[View]:
        """Return the features as they are, and each in its own unit; for many features, principal coordinates."""
        from dyncrp.families import gaussian_proposals  # it makes Gaussians

        return [*super().views(X)] if self.known else gaussian_proposals.views(self, X, super().views(X))

    def settings(self, n_features: int) -> Settings:
        """Return the settings of ``Gaussian`` in C++, or of ``GaussianDiagonal`` if variances are not proportional."""
        width, projection = n_features, {}
        if self.directions is not None:
            width, projection = len(self.directions), self._projection()
        scale = np.sqrt(by_feature(self.variance, width))
        precision = by_feature(self.variance / self.prior_variance, width)
        shift = unless(0.0, by_feature(self.prior_mean, n_features))
        values = {
            "log_normalizer": -0.5 * width * LOG_2PI - float(np.sum(np.log(scale))),
            "scale": unless(1.0, scale),
        }
        coordinates = {"shift": shift, "scale": values["scale"]} | projection
        if np.all(precision == precision[0]):
            return Settings("Gaussian", values | {"width": width, "precision": float(precision[0])}, coordinates)
        return Settings(
            "GaussianDiagonal", values | {"precision": precision, "leading": self.leading.tolist()}, coordinates
        )

    def _projection(self) -> dict[str, Any]:
        """Return z = W (x − m₀) and the log density of what z leaves out, for the loop."""
        Q, D = self.directions.shape
        constant, half = self.log_scale, 0.0
        if self.residual_variance is not None:
            constant -= 0.5 * (D - Q) * (LOG_2PI + math.log(self.residual_variance))
            half = 0.5 / self.residual_variance
        return {
            "directions": np.ascontiguousarray(self.directions.T).ravel(),
            "inverse": np.ascontiguousarray(self.inverse).ravel(),
            "log_scale": constant,
            "half_precision": half,
        }

    def __repr__(self) -> str:
        shown = ((f.name, getattr(self, f.name)) for f in fields(self))
        return f"Gaussian({', '.join(f'{name}={_short(value)}' for name, value in shown if value is not None)})"


def _short(value: Any) -> str:
    """Return the repr of a value, or only the shape of a matrix or long vector."""
    return f"<array {value.shape}>" if np.ndim(value) == 2 or np.size(value) > 8 else repr(value)


def _log_normal(residual: Float, variance: Float) -> Float:
    """Return Σ_d log N(residual_d; 0, variance_d), summed over the last axis."""
    return -0.5 * np.sum(LOG_2PI + np.log(variance) + residual**2 / variance, axis=-1)

"""Unit vectors: von Mises–Fisher clusters on the unit sphere with a uniform prior over their means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadRow, Seed, positive
from dyncrp.families.base import Family, Float, Hyperparameter
from dyncrp.families.bessel import bessel_constants, bessel_ratio, excess_and_ratio, log_normalizer, log_uniform
from dyncrp.families.protocols import (
    SCALES,
    SHARES,
    Compiled,
    Explains,
    HasShape,
    Proposes,
    Settings,
    Shapes,
    Sharpens,
    Widens,
)

# float16 embeddings are unit vectors to about 1e-4.
NORM_TOLERANCE = 5e-4
UNIT_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)  # by how much the length of a normalised vector may differ from 1
# Beyond this, the rounding of a unit vector alone changes densities by more than one part in a million.
LARGEST_CONCENTRATION = 1e9
NODES, WEIGHTS = np.polynomial.legendre.leggauss(100)  # for log_predictive_terms


@dataclass(frozen=True, eq=False)
class VonMisesFisher(Family, Proposes, Sharpens, HasShape, Widens, Explains, Compiled):
    """x ~ vMF(φ, κ), density C_D(κ) exp(κ φ·x) on the unit sphere, with φ uniform on it.

    T(x) = (1, x). With s the second part of ``stats`` and h = κ s, the posterior of φ is vMF(h/|h|, |h|), the
    paper's coordinate update, and the predictive is C(κ) C(|h|) / C(|h + κx|).

    Rows must have unit length within 5e-4, and are then scaled to it exactly.

    Parameters
    ----------
    concentration : float or None
        κ ≥ 0. None to learn it.

    Examples
    --------
    >>> family = VonMisesFisher(concentration=10.0)
    >>> stats = family.statistics(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])).sum(0, keepdims=True)
    >>> family.centers(stats).round(3)
    array([[0.707, 0.707, 0.   ]])
    """

    concentration: Hyperparameter = None

    def __post_init__(self) -> None:
        if self.concentration is None:
            return
        kappa = self.concentration
        is_number = isinstance(kappa, (int, float, np.integer, np.floating)) and not isinstance(kappa, bool)
        kappa = 0.0 if is_number and kappa == 0 else positive("concentration", kappa)
        if kappa > LARGEST_CONCENTRATION:
            raise ValueError(f"concentration must be at most {LARGEST_CONCENTRATION:g}, got {kappa!r}")
        object.__setattr__(self, "concentration", kappa)

    @property
    def can_widen(self) -> bool:
        """True if κ is known."""
        return self.known

    def widen(self, stats: Float, n_features: int) -> Float:
        """Return stats (K, 1 + D) with zeros for new features: a unit vector stays one when zeros are added."""
        return np.pad(stats, ((0, 0), (0, 1 + n_features - stats.shape[1])))

    def check(self, X: Float) -> Float:
        """Check for unit vectors in at least two dimensions."""
        if X.shape[1] < 2:
            raise ValueError("von Mises–Fisher needs at least 2 features, got 1")
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(X, axis=1)
        bad = np.flatnonzero(np.abs(norms - 1.0) > NORM_TOLERANCE)
        if bad.size:
            length = f"{norms[bad[0]]:.6g}"
            raise BadRow(
                f"von Mises–Fisher takes unit vectors (divide rows by their length), got one of length {length}", bad[0]
            )
        # A row of unit length up to rounding is not changed, so that a second check changes nothing.
        off = np.abs(norms - 1.0) > UNIT_ROUNDING
        return np.where(off[:, None], X / norms[:, None], X) if np.any(off) else X

    def sharpen(self, resolution: float) -> VonMisesFisher:
        """Return the family with κ multiplied by the resolution."""
        self.require_known()
        return VonMisesFisher(resolution * self.concentration)

    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return candidates for κ ≈ R̄(D − R̄²)/(1 − R̄²), where R̄ is the length of the mean of a cluster's rows.

        Without labels, R̄ lies between its value for all rows and 1. With labels (n,), it is that of their clusters.
        """
        if self.known:
            return [self]
        D = X.shape[1]
        if labels is None:
            spread = max(1.0 - float(np.sum(np.mean(X, axis=0) ** 2)), 1e-9)  # 1 − R̄² of all rows together
            squares, factors = [1.0 - share * spread for share in SHARES], np.ones(1)
        else:
            _, labels = np.unique(labels, return_inverse=True)
            counts = np.bincount(labels).astype(np.float64)
            if len(counts) == len(X):
                return []
            sums = np.zeros((len(counts), D))
            np.add.at(sums, labels, X)
            # Σ |sum_c|² − n_c over pairs within clusters: the mean of x·x' there, which is R̄² without bias.
            pairs = float(np.sum(counts * (counts - 1.0)))
            square = float(np.sum(np.sum(sums**2, axis=1) - counts)) / pairs
            squares, factors = [square], 1.0 / np.array(scales)
        lengths = np.sqrt(np.clip(squares, 1e-6, 1.0 - 1e-9))
        kappas = factors * lengths * (D - lengths**2) / (1.0 - lengths**2)
        return [VonMisesFisher(float(kappa)) for kappa in np.unique(np.minimum(kappas, LARGEST_CONCENTRATION))]

    def log_base_measure(self, X: Float) -> Float:
        """Return log C(κ)."""
        return np.full(len(X), log_normalizer(X.shape[1], self.concentration))

    def log_partition(self, stats: Float) -> Float:
        """Return log C(0) − log C(κ|s|)."""
        D = stats.shape[1] - 1
        lengths = self.concentration * np.linalg.norm(stats[:, 1:], axis=1)
        return log_normalizer(D, 0.0) - log_normalizer(D, lengths)

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return log C(κ) + log C(|h|) − log C(|h + κx|).

        The three logarithms grow with κ and with the size of the table, but their sum does not. So it is computed with
        log C(κ) = log C(0) − κ − excess(κ), and |s + x| − |s| − 1 separately.
        """
        D, kappa = X.shape[1], self.concentration
        s = stats[:, 1:]
        before = np.linalg.norm(s, axis=1)
        after = np.linalg.norm(X[:, None, :] + s, axis=2)
        growth = kappa * ((2.0 * (X @ s.T) + 1.0) / (after + before) - 1.0)
        excess = [excess_and_ratio(D, kappa * length)[0] for length in (after, before, 1.0)]
        return log_uniform(D) + excess[0] - excess[1] - excess[2] + growth

    def log_predictive_terms(self, X: Float, stats: Float) -> Float:
        """Return integrated gradients by feature, along the line from 0 to x: (n, K, D).

        f(x) = log C(|h|) − log C(|h + κx|) is 0 at x = 0, and its gradient is κ A(|y|) y/|y| at y = h + κx. So

            x_d ∫₀¹ ∂f/∂x_d (s x) ds = κ x_d (h_d I₀ + κ x_d I₁),   I_k = ∫₀¹ s^k A(|y_s|)/|y_s| ds,  y_s = h + κ s x,

        sum to f(x). Divide log C(κ), which all tables share, in proportion to x_d², whose sum is 1. Then I₁, which
        follows from I₀ and the sum, drops out. The terms are x_d² log p(x | stats) + κ I₀ x_d (h − (x·h) x)_d, and
        their sum is exact even if I₀ is not.
        """
        kappa, h = self.concentration, self.concentration * stats[:, 1:]
        along = X @ h.T
        across = h - along[:, :, None] * X[:, None, :]  # the part of h that is orthogonal to x
        weight = kappa * self._mean_pull(X.shape[1], along, np.linalg.norm(across, axis=2))
        x = X[:, None, :]
        return x**2 * self.log_predictive(X, stats)[:, :, None] + weight[:, :, None] * x * across

    def _mean_pull(self, D: int, along: Float, across: Float) -> Float:
        """Return I₀ = ∫₀¹ A(r)/r ds, r² = across² + (along + κs)², elementwise, by Gauss–Legendre.

        A(r)/r is about 1/(ν + ½ + √(r² + (ν + 3/2)²)), ν = D/2 − 1. As a function of w, with along + κs = sinh(w)
        √(across² + (ν + 3/2)²), it is smooth over steps of 1, however narrow it is in s.
        """
        if self.concentration == 0.0:
            return np.zeros_like(along)  # it is multiplied by κ = 0
        width = np.hypot(across, 0.5 * D + 0.5)
        first, last = np.arcsinh(along / width), np.arcsinh((along + self.concentration) / width)
        half = 0.5 * (last - first)[..., None]
        w = first[..., None] + half * (NODES + 1.0)
        r = np.hypot(across[..., None], width[..., None] * np.sinh(w))
        ratio = bessel_ratio(D, r)
        pull = np.divide(ratio, r, out=np.full_like(r, 1.0 / D), where=r > 0.0)
        return np.sum(half * WEIGHTS * pull * width[..., None] * np.cosh(w), axis=-1) / self.concentration

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return log C(κ) + κ A(|h|) (h/|h|)·x."""
        D = X.shape[1]
        lengths = self.concentration * np.linalg.norm(stats[:, 1:], axis=1)
        pull = self.concentration * bessel_ratio(D, lengths)
        return log_normalizer(D, self.concentration) + pull * (X @ self.centers(stats).T)

    def centers(self, stats: Float) -> Float:
        """Return the mean directions h/|h|, unit vectors (zeros for a table without a direction)."""
        s = stats[:, 1:]
        norms = np.linalg.norm(s, axis=1, keepdims=True)
        return np.divide(s, norms, out=np.zeros_like(s), where=norms > 0)

    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return shapes in √κ x, in which clusters have unit variance in each of the D − 1 directions of the sphere.

        The total variance of unit vectors whose mean has length R is 1 − R².
        """
        n, mean = stats[:, 0], stats[:, 1:] / stats[:, :1]
        rest = np.maximum(1.0 - np.sum(mean**2, axis=1), 0.0)
        spread = self.concentration * rest / max(mean.shape[1] - 1, 1)
        return Shapes(n, np.sqrt(self.concentration) * self.centers(stats), spread, 1.0, np.ones(1))

    def settings(self, n_features: int) -> Settings:
        """Return the settings of ``VonMisesFisher`` in C++."""
        values = {
            "width": n_features,
            "concentration": float(self.concentration),
            "log_normalizer": float(log_normalizer(n_features, self.concentration)),
            "log_uniform": log_uniform(n_features),
            "bessel": bessel_constants(n_features),
        }
        return Settings("VonMisesFisher", values, {})

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw φ uniformly from the sphere."""
        self.require_known()
        gaussian = np.random.default_rng(seed).standard_normal((n_tables, n_features))
        return gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True)

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw x ~ vMF(φ, κ) for each row φ: first the depth q below the pole φ, then a direction orthogonal to φ."""
        self.require_known()
        n, D = np.shape(parameters)
        rng = np.random.default_rng(seed)
        q = self._sample_depth(n, D, rng)
        across = rng.standard_normal((n, D))
        across -= np.sum(across * parameters, axis=1, keepdims=True) * parameters
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        X = (1.0 - q) * parameters + np.sqrt(q * (2.0 - q)) * across
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    def _sample_depth(self, n: int, D: int, rng: np.random.Generator) -> Float:
        """Draw q = 1 − φ·x, shape (n, 1), by Wood's (1994) rejection from a transformed Beta variable.

        Written in q and 1 − x₀ rather than in φ·x and x₀, which both round to 1 for large κ.
        """
        kappa = self.concentration
        b = (D - 1) / (2.0 * kappa + np.hypot(2.0 * kappa, D - 1))
        gap = 2.0 * b / (1.0 + b)  # 1 − x₀
        depth = np.empty(n)
        waiting = np.arange(n)
        while waiting.size:
            z = rng.beta((D - 1) / 2.0, (D - 1) / 2.0, size=waiting.size)
            q = np.minimum(2.0 * b * z / (1.0 - (1.0 - b) * z), 2.0)  # z = 1 may round beyond the far pole
            log_ratio = kappa * (gap - q) + (D - 1) * np.log((gap + (1.0 - gap) * q) / (gap * (2.0 - gap)))
            accepted = log_ratio >= -rng.exponential(size=waiting.size)
            depth[waiting[accepted]] = q[accepted]
            waiting = waiting[~accepted]
        return depth[:, None]

"""Categories: in every dimension a distribution over integers of any size, with a Dirichlet process prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from dyncrp.arrays.checks import BadRow, Seed, integer
from dyncrp.families.base import Family, Float, Hyperparameter, check_width, scalar_or_vector
from dyncrp.families.cells import Codes
from dyncrp.families.gamma import log_rising
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

LARGEST_CODE = 2.0**53  # beyond it, neighbouring floats are more than 1 apart
MOST_COUNTS = 1 << 20  # of a table, 8 MiB; the engine makes room for many tables at once
STRENGTHS = (10.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.03)  # candidates for the concentration


@dataclass(frozen=True, eq=False)
class Categorical(Family, Proposes, Sharpens, HasShape, HasCodes, PredictsCell, Compiled):
    """x_d is a category, coded by an integer, whose probabilities have a Dirichlet process prior.

    Its base is

        H(k) = 1/((k + 1)(k + 2)),  k = 0, 1, 2, …,  so that Σ_k H(k) = 1 and Σ_{k ≥ C} H(k) = 1/(C + 1).

    Any code may come at any time. The first C codes have a count each. All other codes share one count, which H divides
    among them. With n the count of a table, s_k the count of code k in feature d, o the count of all codes from C on,
    and κ the concentration, the predictive is

        p(x_d = k) = (κ H(k) + s_k)/(κ + n) for k < C,   H(k) (κ + o/Σ_{j ≥ C} H(j))/(κ + n) for k ≥ C,

    which sums to 1 over all codes. T(x) = (1, [x_d = k] for k < C and each d, [x_d ≥ C] for each d), of length
    1 + (C + 1) D: first code 0 of all features, then code 1 of all, and so on. Give the lowest codes to the categories
    expected most often, or number categories in order of appearance.

    Parameters
    ----------
    concentration : float, array-like of shape (D,), or None
        κ, how many observations the prior is worth. None to learn it. With a small κ, a table has few categories.
    n_codes : int
        C, from 2 to 10,000: how many codes have their own counts. It is not learned.

    Examples
    --------
    >>> family = Categorical(concentration=1.0, n_codes=4)
    >>> stats = family.statistics(np.array([[2.0], [2.0], [9.0]])).sum(axis=0, keepdims=True)
    >>> np.exp(family.log_predictive(np.array([[2.0], [0.0], [9.0]]), stats)).round(3)
    array([[0.521],
           [0.125],
           [0.014]])
    >>> family.centers(stats)
    array([[2.]])
    """

    concentration: Hyperparameter = None
    n_codes: int = 32

    def __post_init__(self) -> None:
        if self.concentration is not None:
            object.__setattr__(self, "concentration", scalar_or_vector("concentration", self.concentration))
        n_codes = integer("n_codes", self.n_codes, 2)
        if n_codes > 10_000:
            raise ValueError(f"n_codes must be at most 10000, got {self.n_codes!r}")
        object.__setattr__(self, "n_codes", n_codes)

    shared: ClassVar[tuple[str, ...]] = ("n_codes",)

    def sharpen(self, resolution: float) -> Categorical:
        """Return the family with the concentration divided by the resolution, so that tables keep to fewer codes."""
        self.require_known()
        return Categorical(np.asarray(self.concentration) / resolution, self.n_codes)

    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return candidates for the concentration. Labels are not used."""
        if self.known:
            return [self]
        return [] if labels is not None else [Categorical(strength, self.n_codes) for strength in STRENGTHS]

    @property
    def independent(self) -> bool:
        """True."""
        return True

    def continuous(self, n_features: int) -> NDArray[np.bool_]:
        """Return False for every feature."""
        return np.zeros(n_features, dtype=bool)

    def check(self, X: Float) -> Float:
        """Check for integers from 0 to 2⁵³. NaN is a missing cell."""
        self._check_size(X.shape[1])
        check_width("concentration", self.concentration, X.shape[1])
        bad = np.argwhere(~((X >= 0) & (X <= LARGEST_CODE) & (np.floor(X) == X) | np.isnan(X)))
        if bad.size:
            row, column = bad[0]
            raise BadRow(f"Categorical takes codes, integers from 0 to 2**53, got {X[row, column]}", row, column)
        return X

    def _check_size(self, n_features: int) -> None:
        """Raise ``ValueError`` if a table would have so many counts that a few rows fill the memory."""
        n_counts = (self.n_codes + 1) * n_features
        if n_counts > MOST_COUNTS:
            raise ValueError(
                f"Categorical with n_codes={self.n_codes} would keep {n_counts:,} counts for each table of "
                f"{n_features:,} features, but at most {MOST_COUNTS:,} are allowed: lower n_codes, or choose "
                "fewer columns"
            )

    def statistics(self, X: Float) -> Float:
        """Return (1, [x_d = k] for k < C, [x_d ≥ C]): (n, D) to (n, 1 + (C + 1) D)."""
        is_code = np.minimum(X, self.n_codes)[:, None, :] == np.arange(self.n_codes + 1)[:, None]
        return np.hstack([np.ones((len(X), 1)), is_code.reshape(len(X), (self.n_codes + 1) * X.shape[1])])

    def n_statistics(self, n_features: int) -> int:
        """Return 1 + (C + 1) D; no array of that size is made."""
        return 1 + (self.n_codes + 1) * n_features

    def prior_counts(self) -> Float:
        """Return κ H of each of the C codes, then of all others: (C + 1, D), or (C + 1, 1) if κ is a number."""
        k = np.arange(self.n_codes)
        base = np.append(1.0 / ((k + 1.0) * (k + 2.0)), 1.0 / (self.n_codes + 1.0))
        return base[:, None] * np.atleast_1d(self.concentration)

    def _counts(self, stats: Float) -> Float:
        """Return how often each table has seen each code, with all others together last: (K, C + 1, D)."""
        return stats[:, 1:].reshape(len(stats), self.n_codes + 1, (stats.shape[1] - 1) // (self.n_codes + 1))

    def log_base_measure(self, X: Float) -> Float:
        """Return Σ_d log H(x_d)/Σ_{k ≥ C} H(k) over the features with x_d ≥ C."""
        log_share = np.log(self.n_codes + 1.0) - np.log1p(X) - np.log(X + 2.0)
        return np.sum(np.where(self.n_codes <= X, log_share, 0.0), axis=1)

    def log_partition(self, stats: Float) -> Float:
        """Return Σ_d Σ_k log Γ(κ H(k) + s_k)/Γ(κ H(k)) − log Γ(κ + n)/Γ(κ), the codes from C on taken as one."""
        each = np.sum(log_rising(self.prior_counts(), self._counts(stats)), axis=1)
        return np.sum(each - log_rising(self.concentration, stats[:, :1]), axis=1)

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return Σ_d log p(x_d), as above."""
        total = np.log(self.concentration + stats[:, :1])
        return self._sum_over_features(X, np.log(self.prior_counts() + self._counts(stats)) - total[:, None, :])

    def cell(self, stats: Float) -> Codes:
        """Return the probabilities of the first C codes, and of all others."""
        found = self.code_probabilities(stats, 0)
        return Codes(found[:, :-1], found[:, -1])

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return the same with the digamma function ψ in place of log, except in log H."""
        total = digamma(self.concentration + stats[:, :1])
        return self._sum_over_features(X, digamma(self.prior_counts() + self._counts(stats)) - total[:, None, :])

    def _sum_over_features(self, X: Float, logs: Float) -> Float:
        """Return the sum over d of the logs (K, C + 1, D) at each row's codes, and log h(x): (n, K)."""
        cells = np.minimum(X, self.n_codes).astype(np.int64)
        at_codes = logs[:, cells, np.arange(X.shape[1])]
        return np.sum(at_codes, axis=2).T + self.log_base_measure(X)[:, None]

    def centers(self, stats: Float) -> Float:
        """Return the most probable code in each feature; C stands for all codes from C on."""
        return np.argmax(self.prior_counts() + self._counts(stats), axis=1).astype(np.float64)

    def code_probabilities(self, stats: Float, d: int) -> Float:
        """Return p(x_d = k) for k < C, and p(x_d ≥ C): (K, C + 1)."""
        counts = self._counts(stats)
        posterior = np.broadcast_to(self.prior_counts(), counts.shape[1:])[:, d] + counts[:, :, d]
        return posterior / np.sum(posterior, axis=1, keepdims=True)

    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return shapes in 2√p of every code, in which codes of any probability have about unit variance."""
        total = (self.concentration + stats[:, :1])[:, None, :]
        center = 2.0 * np.sqrt((self.prior_counts() + self._counts(stats)) / total)
        return Shapes(stats[:, 0], center.reshape(len(stats), -1), np.ones(len(stats)), 1.0, np.ones(1))

    def settings(self, n_features: int) -> Settings:
        """Return the settings of ``Categorical`` in C++."""
        self._check_size(n_features)
        prior = self.prior_counts() + np.zeros(n_features)
        values = {"concentration": by_feature(self.concentration, n_features), "prior": prior.ravel()}
        return Settings("Categorical", values, {})

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw the probabilities of the C codes, then of all others together: (n_tables, (C + 1) n_features)."""
        self.require_known()
        prior = np.broadcast_to(self.prior_counts(), (self.n_codes + 1, n_features))
        rng = np.random.default_rng(seed)
        # The gammas of a Dirichlet, as logarithms: with a small concentration, all of them would underflow.
        logs = np.log(rng.standard_gamma(prior + 1.0, (n_tables, *prior.shape)))
        logs += np.log1p(-rng.random(logs.shape)) / prior
        draws = np.exp(logs - np.max(logs, axis=1, keepdims=True, initial=-np.inf))
        return (draws / np.sum(draws, axis=1, keepdims=True)).reshape(n_tables, prior.size)

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw a code in each feature for each row of probabilities: (n, (C + 1) D) to (n, D)."""
        self.require_known()
        rng = np.random.default_rng(seed)
        n, P = np.shape(parameters)
        cumulative = np.cumsum(np.reshape(parameters, (n, self.n_codes + 1, P // (self.n_codes + 1))), axis=1)
        chance = rng.random(cumulative[:, 0].shape)
        cells = np.sum(cumulative[:, :-1] <= chance[:, None], axis=1).astype(np.float64)
        others = np.floor((self.n_codes + 1.0) / (1.0 - rng.random(cells.shape))) - 1.0  # P(k ≥ j) = (C + 1)/(j + 1)
        return np.where(cells < self.n_codes, cells, np.minimum(others, LARGEST_CODE))

"""What a family must provide: a conjugate exponential family, written once for every engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.checks import BadRow, Seed
from dyncrp.arrays.counts import Counts, as_counts
from dyncrp.arrays.rows import Dense, RowType

Float = NDArray[np.float64]
Tables = Mapping[str, Float]  # the arrays of a state that have a row for each table, by name: see docs/files.md
Hyperparameter = Any  # a float, or a read-only (D,) array: see scalar_or_vector
# The range of a positive hyperparameter, in which no product or ratio of two overflows.
SMALLEST_POSITIVE, LARGEST_POSITIVE = 1e-100, 1e100
# The largest share of rows that may have the same value of a feature; see repeats.
LARGEST_REPEATED_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Family(ABC):
    """A prior over a table's parameters φ, a likelihood p(x | φ), and sufficient statistics that add up.

    With natural statistics T(x) and base measure h(x), p(x | φ) = h(x) exp⟨η(φ), T(x)⟩. A table that has
    observations x_i with responsibilities r_i is described by ``stats`` = Σ_i r_i T(x_i), shape (S,). K tables are
    an array (K, S), and an empty table is zeros. Everything below follows from

        log_partition(stats) = log ∫ exp⟨η(φ), stats⟩ p(φ) dφ,

    which is zero for an empty table. Every density is fully normalised. Subclasses are frozen dataclasses whose fields
    are the hyperparameters, checked when the object is made. A hyperparameter of None is to be learned: see
    ``Proposes``. This and what else a family may offer is in ``protocols.py``.
    """

    @property
    def known(self) -> bool:
        """Whether every hyperparameter has a value."""
        return all(getattr(self, f.name) is not None for f in fields(self))

    def require_known(self) -> None:
        """Raise if a hyperparameter is unknown."""
        if not self.known:
            raise ValueError(
                f"{self!r} has unknown hyperparameters: give them, or learn them with DynamicalMixture or dyncrp.tune"
            )

    @property
    def width(self) -> int | None:
        """How many features the hyperparameters have entries for; None if any number of features is allowed."""
        return common_width(self)

    @property
    def independent(self) -> bool:
        """Whether features are independent given φ, and T(x) is a 1 followed by equally many numbers for each feature.

        If so, cells may be missing: see ``Columns``. Otherwise every row must be complete.
        """
        return False

    @property
    def sparse(self) -> bool:
        """Whether rows are counts of words: most are 0, and every new word adds a column.

        Such a row is seated wholly at its most probable table, which may be a new one, so that tables stay sparse too.
        """
        return False

    @property
    def rows(self) -> RowType:
        """The type of its rows, which says how they are read, joined and kept."""
        return Counts if self.sparse else Dense

    def given(self, stats: Float, columns: NDArray[np.int64] | None = None) -> Family:
        """Return the family for the next row, given the open tables (K, S): the same family, unless its prior adapts.

        columns: (m,) the columns in use, if the family is ``sparse``; one more column after them stands for all others.
        """
        return self

    def statistics(self, X: Float) -> Float:
        """Return T(x) for each row: (n, D) to (n, S). By default, T(x) = (1, x)."""
        return np.hstack([np.ones((len(X), 1)), X])

    def empty(self, n_features: int) -> Float:
        """Return the stats of zero tables, (0, S). A row of zeros would be a table at its prior."""
        return np.empty((0, self.n_statistics(n_features)))

    def n_statistics(self, n_features: int) -> int:
        """Return S, how many numbers T(x) has; hyperparameters may be unknown."""
        return self.statistics(np.zeros((1, n_features))).shape[1]

    def observed(self, X: Float) -> tuple[Float, Float]:
        """Return 1 for the statistics and squares that a row informs, 0 for the others: (n, S) and (n, P).

        Tables do not forget the others. Arrays that broadcast to these shapes are allowed.
        """
        return np.ones((len(X), 1)), np.ones((len(X), 1))

    @property
    def can_widen(self) -> bool:
        """Whether features may be added in the course of a stream; see ``Widens``."""
        return self.independent and self.known and self.width is None

    @property
    def safe_norm(self) -> float:
        """The length up to which a finite row passes ``check`` unchanged; −1 if every row must be checked."""
        return -1.0

    @abstractmethod
    def check(self, X: Float) -> Float:
        """Return X (n, D) in the form that the family needs, or raise ``BadRow`` for the first invalid row.

        X is finite except for missing cells, which are NaN. Only ``independent`` families receive missing cells.
        """

    @abstractmethod
    def log_base_measure(self, X: Float) -> Float:
        """Return log h(x) for each row: (n,)."""

    @abstractmethod
    def log_partition(self, stats: Float) -> Float:
        """Return log ∫ exp⟨η(φ), stats⟩ p(φ) dφ for each table: (K, S) to (K,)."""

    @abstractmethod
    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return log p(x | stats) = log ∫ p(x | φ) p(φ | stats) dφ: (n, D) and (K, S) to (n, K)."""

    @abstractmethod
    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return E_{p(φ | stats)}[log p(x | φ)]: (n, D) and (K, S) to (n, K)."""

    @abstractmethod
    def centers(self, stats: Float) -> Float:
        """Return where each table lies in the space of the observations: (K, S) to (K, D)."""

    def means(self, stats: Float) -> Float:
        """Return the mean of the observations of each table, which no prior pulls: (K, S) to (K, D).

        Observations count by their responsibilities. This default, the centres, is for families whose observations have
        no mean, such as codes.
        """
        return self.centers(stats)

    @abstractmethod
    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw φ from the prior: (n_tables, P). By default, P is n_features."""

    @abstractmethod
    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw one observation from each row of parameters: (n, P) to (n, D)."""

    def log_marginal(self, X: Float) -> float:
        """Return log ∫ Π_i p(x_i | φ) p(φ) dφ, the log probability that the rows of X share one table."""
        stats = np.sum(self.statistics(X), axis=0, keepdims=True)
        return float(self.log_partition(stats)[0] + np.sum(self.log_base_measure(X)))

    def add(self, first: Tables, second: Tables) -> dict[str, Float]:
        """Return tables with the observations of the first (K) and the second (K, or 1): the sum of each array."""
        return {name: first[name] + second[name] for name in first}

    def log_bayes_factor(self, first: Tables, second: Tables) -> Float:
        """Return log p(data of both | one table) − log p(data of both | two), for K tables and K, or 1: (K,).

        This is log_partition(s₁ + s₂) − log_partition(s₁) − log_partition(s₂). A family may override it with a form in
        which no large numbers cancel.
        """
        s1, s2 = first["stats"], second["stats"]
        return self.log_partition(s1 + s2) - self.log_partition(s1) - self.log_partition(s2)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies and pickles with the constructor, so that their arrays are read-only too."""
        return type(self), tuple(getattr(self, f.name) for f in fields(self))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), *(np.asarray(getattr(self, f.name)).tobytes() for f in fields(self))))


def mean_of(stats: Float) -> Float:
    """Return s/n of tables with stats (n, s, …), as many s as the rest has columns; 0 for a table without rows."""
    n = stats[:, :1]
    return np.divide(stats[:, 1:], n, out=np.zeros_like(stats[:, 1:]), where=n > 0.0)


def missing_cell(family: Family, row: int, column: int) -> BadRow:
    """Return the error for a missing cell in a family that needs complete rows."""
    return BadRow(
        f"the cell is missing, and {type(family).__name__} takes whole rows only: use a family of independent "
        "features, such as NormalGamma or a Gaussian without directions, or leave out such rows",
        row,
        column,
    )


def first_missing(X: Float | Counts) -> int:
    """Return the index of the first row of X (n, D) with a missing cell, or n if there is none."""
    if isinstance(X, Counts):
        return len(X)
    if not np.isnan(np.vdot(X, X)):
        return len(X)
    missing = np.any(np.isnan(X), axis=1)
    return int(np.argmax(missing)) if np.any(missing) else len(X)


def check_rows(family: Family, X: Any) -> Any:
    """Return X (n, D) in the form that the family needs. NaN, a missing cell, is an error unless it is independent.

    If rows are Counts, X may be anything that ``as_counts`` takes.
    """
    if family.rows is Counts:
        return as_counts(X)
    if not family.independent:
        row = first_missing(X)
        if row < len(X):
            raise missing_cell(family, row, int(np.argmax(np.isnan(X[row]))))
    return family.check(X)


def repeats(X: Float) -> bool:
    """Return whether more than one row in ten has the same value of some feature. NaN does not count as a value.

    A table of such rows has no width there, so the evidence for narrow tables would grow without bound.
    """
    ordered, n = np.sort(X, axis=0), max(1, int(LARGEST_REPEATED_SHARE * len(X)))  # NaN differs from itself
    return bool(np.any(ordered[n:] == ordered[:-n]))


def scalar_or_vector(name: str, value: ArrayLike, *, positive: bool = True) -> Hyperparameter:
    """Return a hyperparameter as a float or a read-only (D,) array of finite numbers; positive ones lie in 1e±100."""
    wanted = (
        f"a positive finite number from {SMALLEST_POSITIVE:g} to {LARGEST_POSITIVE:g}"
        if positive
        else "a finite number"
    )
    matrices = ""
    try:
        array = np.array(value)
        legal = array.dtype.kind in "iuf" and array.ndim <= 1 and array.size > 0
        matrices = "; for covariance matrices there is Gaussian.from_covariances" if array.ndim > 1 else ""
    except ValueError:
        legal = False
    if legal:
        with np.errstate(over="ignore"):  # of a longdouble
            array = array.astype(np.float64) + 0.0  # −0 becomes 0: equal values must hash alike
        legal = bool(
            np.all(np.isfinite(array) if not positive else (array >= SMALLEST_POSITIVE) & (array <= LARGEST_POSITIVE))
        )
    if not legal:
        raise ValueError(f"{name} must be {wanted}, or one for each feature, got {value!r}{matrices}")
    if array.ndim == 0:
        return float(array)
    array.flags.writeable = False
    return array


def common_width(family: Family) -> int | None:
    """Return how many features the hyperparameters have entries for, or None if all are scalars. They must agree."""
    vectors = {f.name: len(getattr(family, f.name)) for f in fields(family) if np.ndim(getattr(family, f.name)) == 1}
    if len(set(vectors.values())) > 1:
        raise ValueError(f"{type(family).__name__} has hyperparameters of different lengths: {vectors}")
    return next(iter(vectors.values()), None)


def check_width(name: str, value: Hyperparameter, n_features: int) -> None:
    """Raise if a hyperparameter is a vector whose length is not n_features."""
    if np.ndim(value) == 1 and len(value) != n_features:
        raise ValueError(f"{name} has {len(value)} entries, but X has {n_features} features")


def matrix(name: str, value: ArrayLike) -> Float:
    """Return a hyperparameter as a read-only (rows, columns) array of finite numbers."""
    try:
        array = np.array(value)
    except ValueError:
        array = np.empty(0)
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be a matrix of finite numbers, got {value!r}")
    array = np.ascontiguousarray(array, dtype=np.float64) + 0.0  # −0 becomes 0: equal values must hash alike
    array.flags.writeable = False
    return array

"""What a family may offer besides inference, each in a small base class; and what holds for a family that does not.

Code outside this folder calls the functions at the end. They return a default if there is one, and otherwise raise an
error that says what is missing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dyncrp.families.base import Family, Float

if TYPE_CHECKING:
    from dyncrp.families.cells import Cell, Joint

F = TypeVar("F", bound=Family)
# SHARES: candidate variances within clusters, as shares of the whole variance. SCALES: factors by which to scale the
# variance measured in a clustering; a clustering that splits too finely measures too little.
SHARES = (0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.42, 0.35, 0.3, 0.25, 0.2, 0.14, 0.1, 0.05, 0.02, 0.005, 0.001)
SCALES = (2.8, 2.4, 2.0, 1.7, 1.4, 1.2, 1.0, 0.84, 0.7)
# Coordinates that the loop uses as they are; see Settings.
PLAIN: dict[str, Any] = {"shift": np.zeros(0), "scale": np.zeros(0), "directions": np.zeros(0), "inverse": np.zeros(0)}
PLAIN |= {"log_scale": 0.0, "half_precision": 0.0}


class Shapes(NamedTuple):
    """Where K tables lie and how wide they are, in Q coordinates in which a cluster is round.

    counts: (K,) how many observations each table has.
    centers: (K, Q).
    spread: the variance of those observations about the centre: (K,) if it is the same in all coordinates, (K, Q) if
        each has its own, (K, Q, Q) for a covariance, (K, 0) if it is not known. The family expects about 1.
    least: a spread below this is attributed to chance; 1 if all clusters of the family have the same spread.
    between: (Q,) or (1,) the variance of centres that the family expects.
    """

    counts: Float
    centers: Float
    spread: Float
    least: float
    between: Float

    def with_memory(self, memory: float) -> Shapes:
        """Return shapes whose counts are all rows that tables took in, of which they remember the last ``memory``.

        A table that took in k rows counts n = M (1 − (1 − 1/M)^k), so k is known from n.
        """
        if memory == math.inf:
            return self
        left = np.maximum(1.0 - self.counts / memory, np.finfo(np.float64).eps)
        return self._replace(counts=np.log(left) / np.log1p(-1.0 / memory))


class Scatter(NamedTuple):
    """How the observations of K tables scatter, in Q coordinates in units of the standard deviation within tables.

    counts: (K,). means: (K, Q). scatter: (K, Q (Q + 1)/2), Σ (y − mean)(y − mean)ᵀ, the lower triangle row by row.
    kappa: the variance within clusters as a share of that of their centres. other_means: (K, R), the means in other
    coordinates. other_scatter: (K,), Σ |y − mean|² in those.
    """

    counts: Float
    means: Float
    scatter: Float
    kappa: float
    other_means: Float
    other_scatter: Float


class View(NamedTuple):
    """Coordinates (n, Q) of rows, how to turn a family of them into one of the features, and the log density left out.

    family: the family to make proposals with in these coordinates, if not the same.
    """

    rows: Float
    lift: Callable[[Family], Family]
    log_density: float
    family: Family | None = None


class Settings(NamedTuple):
    """What the loop in C++ is told of a family: plain values, so that no family needs the extension.

    kind: the class in C++. values: the fields of its ``Settings``. coordinates: those fields of ``Coordinates`` in
    ``cpp/coordinates.hpp`` that are not as in ``PLAIN``.
    """

    kind: str
    values: dict[str, Any]
    coordinates: dict[str, Any]


class Proposes(ABC):
    """A family that proposes values for its unknown hyperparameters."""

    @abstractmethod
    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return families without unknowns to try on X (n, D), ordered from few tables to many; itself if it is known.

        Without labels, this is a coarse grid over the unknown hyperparameters. With the labels (n,) of a clustering of
        X, it is the spread measured there, times each of the scales.
        """

    def for_one_cluster(self, found: Family) -> Family:
        """Return the found family, adjusted for data in which all rows were one cluster.

        Such data say nothing about where other clusters may lie, so the prior should not rule out any place.
        """
        return found

    def views(self, X: Float) -> list[View]:
        """Return the coordinates of X (n, D) in which to make proposals: by default, the features."""
        return [View(X, lambda family: family, 0.0)]


class Sharpens(ABC):
    """A family whose clusters can be made narrower."""

    @abstractmethod
    def sharpen(self, resolution: float) -> Self:
        """Return the family with clusters that are narrower by this factor (in variance), so that more are found."""


class HasShape(ABC):
    """A family whose tables have a width, so that they can be joined into clusters."""

    @abstractmethod
    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return where tables (K, S) with squares (K, P) lie and how wide they are."""

    def squares(self, X: Float) -> Float:
        """Return for each row the products of coordinates that ``shapes`` needs beyond T(x): (n, D) to (n, P).

        Tables sum them as they sum T(x). Inference does not use them. By default, P is 0.
        """
        return np.zeros((len(X), 0))

    def expected_squares(self, stats: Float, n_features: int) -> Float:
        """Return the squares to expect of tables (K, S) for which none were recorded: (K, P)."""
        return np.zeros((len(stats), 0))

    def widen_squares(self, stats: Float, squares: Float, n_features: int) -> Float:
        """Return squares (K, P) for more features, as ``widen`` does for stats. ``stats`` (K, S) are those before."""
        return squares

    def squares_of_features(self, stats: Float, squares: Float) -> list[Float]:
        """Return the squares of tables for each feature alone, if features are independent: D arrays (K, P)."""
        return []


class HasScatter(HasShape):
    """A family whose tables share a covariance, but clusters may have their own: see ``joining/components.py``."""

    @abstractmethod
    def scatter(self, stats: Float, squares: Float) -> Scatter | None:
        """Return how the observations of tables (K, S) with squares (K, P) scatter; None if it is not known."""


class Widens(ABC):
    """A family that takes more features in the course of a stream, though they are not independent: ``can_widen``."""

    @abstractmethod
    def widen(self, stats: Float, n_features: int) -> Float:
        """Return stats (K, S) of tables as if all their observations had had 0 in features added at the end."""


class Explains(ABC):
    """A family that says how much of log p(x) is due to each feature, though they are not independent."""

    @abstractmethod
    def log_predictive_terms(self, X: Float, stats: Float) -> Float:
        """Return terms by feature that sum to ``log_predictive``: (n, D) and (K, S) to (n, K, D)."""


class HasCodes(ABC):
    """A family with features that are not continuous, such as codes of categories."""

    @abstractmethod
    def continuous(self, n_features: int) -> NDArray[np.bool_]:
        """Return which features are continuous, so that values rarely repeat: (D,)."""

    def code_probabilities(self, stats: Float, d: int) -> Float | None:
        """Return the probabilities of the codes of feature d in each table, with codes from C on as one: (K, C + 1).

        Return None if the feature is a number; ``means`` describes it.
        """
        return None

    def counts(self, stats: Float, d: int) -> Float:
        """Return how many observations of feature d each table has, (K,)."""
        return stats[:, 0]


class PredictsCell(ABC):
    """A family of independent features that says how a missing cell is distributed: see ``conditional.py``."""

    @abstractmethod
    def cell(self, stats: Float) -> Cell:
        """Return how a cell is distributed at each table, for a family of one feature: (K, S)."""


class HasJoint(ABC):
    """A family whose predictive is a Gaussian or Student's t in all features, so that any of them may be missing."""

    @abstractmethod
    def joint(self, stats: Float, n_features: int) -> Joint:
        """Return the predictive distribution of each table: (K, S)."""


class Compiled(ABC):
    """A family that the loop in C++ has code for: see docs/engine.md.

    extra: the name of an array (K, R) that the loop keeps beside ``stats``, if it does. shared: the hyperparameters
    that are the same for all features.
    """

    extra: ClassVar[str | None] = None
    shared: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def settings(self, n_features: int) -> Settings:
        """Return what the loop is told for rows of n_features."""

    def extra_width(self, n_features: int) -> int:
        """Return R, how many numbers the extra array has for each table: by default, one for each feature."""
        return n_features

    def widen_extra(self, stats: Float, n_added: int) -> Float:
        """Return the extra array (K, n_added) of features that were 0 in all rows so far of tables (K, S)."""
        raise NotImplementedError


def by_feature(value: Any, n_features: int) -> Float:
    """Return a hyperparameter as one number for each feature, (D,)."""
    return np.broadcast_to(np.asarray(value, dtype=np.float64), n_features).copy()


def unless(plain: float, values: Float) -> Float:
    """Return values for the loop, or none if all of them are the plain one."""
    return values if np.any(values != plain) else np.zeros(0)


def settings(family: Family, n_features: int) -> Settings:
    """Return ``Compiled.settings`` with all coordinates."""
    if not isinstance(family, Compiled):
        raise ValueError(f"there is no code in C++ for {family!r}")
    kind, values, coordinates = family.settings(n_features)
    return Settings(kind, values, PLAIN | {"n_features": n_features} | coordinates)


def is_compiled(family: Family) -> bool:
    """Whether the loop has code for the family. A class derived from ours may have another density."""
    return isinstance(family, Compiled) and "settings" in vars(type(family))


def proposals(
    family: Family, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
) -> list[Family]:
    """Return ``Proposes.proposals``; of a family that makes none, itself."""
    if isinstance(family, Proposes):
        return family.proposals(X, labels, scales)
    family.require_known()
    return [family]


def views(family: Family, X: Float) -> list[View]:
    """Return ``Proposes.views``; of a family that makes no proposals, the features."""
    return family.views(X) if isinstance(family, Proposes) else [View(X, lambda family: family, 0.0)]


def for_one_cluster(family: Family, found: Family) -> Family:
    """Return ``Proposes.for_one_cluster``; of a family that makes no proposals, the found family."""
    return family.for_one_cluster(found) if isinstance(family, Proposes) else found


def sharpen(family: F, resolution: float) -> F:
    """Return ``Sharpens.sharpen``."""
    if isinstance(family, Sharpens):
        return family.sharpen(resolution)
    raise ValueError(f"{type(family).__name__} has no resolution to change")


def squares(family: Family, X: Float) -> Float:
    """Return ``HasShape.squares``; of a family without a shape, none."""
    return family.squares(X) if isinstance(family, HasShape) else np.zeros((len(X), 0))


def shapes(family: Family, stats: Float, squares: Float) -> Shapes:
    """Return ``HasShape.shapes``; of a family without one, centres of no known width, if T(x) begins with a 1."""
    if isinstance(family, HasShape):
        return family.shapes(stats, squares)
    return Shapes(stats[:, 0], family.centers(stats), np.zeros((len(stats), 0)), 0.0, np.ones(1))


def scatter(family: Family, stats: Float, squares: Float) -> Scatter | None:
    """Return ``HasScatter.scatter``; None for a family without one."""
    return family.scatter(stats, squares) if isinstance(family, HasScatter) else None


def widen(family: Family, stats: Float, n_features: int) -> Float:
    """Return ``Widens.widen``; of independent features, stats (K, S) with those of zeros for the new ones."""
    if not family.can_widen:
        raise ValueError(f"{family!r} is for a fixed number of features")
    if isinstance(family, Widens):
        return family.widen(stats, n_features)
    K, S = stats.shape
    zeros = family.statistics(np.zeros((1, n_features)))[:, 1:].reshape(1, -1, n_features)
    wider = stats[:, :1, None] * zeros
    each = (S - 1) // wider.shape[1]
    wider[:, :, :each] = stats[:, 1:].reshape(K, wider.shape[1], each)
    return np.hstack([stats[:, :1], wider.reshape(K, zeros.size)])


def widen_squares(family: Family, stats: Float, squares: Float, n_features: int) -> Float:
    """Return ``HasShape.widen_squares``; of a family without a shape, none."""
    return family.widen_squares(stats, squares, n_features) if isinstance(family, HasShape) else squares


def log_predictive_terms(family: Family, X: Float, stats: Float) -> Float:
    """Return terms by feature that sum to ``log_predictive``: (n, D) and (K, S) to (n, K, D).

    If features are independent, the term of a feature is the log density of that feature alone. Other families say how
    much of log p(x | stats) is due to each feature by ``Explains``, or raise an error.

    >>> from dyncrp import Gaussian
    >>> family, X = Gaussian(1.0, 3.0), np.array([[2.0, -1.0]])
    >>> terms = log_predictive_terms(family, X, family.statistics(X))
    >>> terms.shape, bool(np.allclose(terms.sum(axis=2), family.log_predictive(X, family.statistics(X))))
    ((1, 1, 2), True)
    """
    if isinstance(family, Explains):
        return family.log_predictive_terms(X, stats)
    return terms_of_independent(family, X, stats)


def terms_of_independent(family: Family, X: Float, stats: Float) -> Float:
    """Return ``log_predictive_terms`` of a family of one feature, or of independent ones."""
    K, D = len(stats), X.shape[1]
    if D == 1:
        return family.log_predictive(X, stats)[:, :, None]
    if not family.independent:
        raise ValueError(
            f"{type(family).__name__} does not say how much of log p(x) is due to each feature: give it the "
            "method log_predictive_terms, or declare its features independent (docs/extending.md)"
        )
    each = stats[:, 1:].reshape(K, -1, D)
    terms = np.empty((len(X), K, D))
    for d in range(D):
        alone = np.hstack([stats[:, :1], each[:, :, d]])
        terms[:, :, d] = feature(family, d).log_predictive(X[:, d : d + 1], alone)
    return terms


def continuous(family: Family, n_features: int) -> NDArray[np.bool_]:
    """Return ``HasCodes.continuous``; of a family without codes, all."""
    return family.continuous(n_features) if isinstance(family, HasCodes) else np.ones(n_features, dtype=bool)


def feature(family: F, d: int) -> F:
    """Return the family of feature d alone."""
    values = ((f.name, getattr(family, f.name)) for f in fields(family))
    return replace(family, **{name: value[d] if np.ndim(value) == 1 else value for name, value in values})


def join(families: Sequence[F]) -> F:
    """Return one family for several features, each of which has a family of one kind."""
    if len(families) == 1:
        return families[0]
    found = {f.name: [getattr(one, f.name) for one in families] for f in fields(families[0])}
    return replace(families[0], **{name: some[0] if len(set(some)) == 1 else some for name, some in found.items()})

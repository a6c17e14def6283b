"""Rows with missing cells: the density of the cells that are there, and how a missing one is distributed given them.

For independent features both are matters of single columns; see ``PredictsCell``. For a family whose predictive is a
Gaussian or Student's t in all features, see ``HasJoint``, they follow from its conditional distributions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dyncrp.families.base import Family, Float, check_rows, first_missing
from dyncrp.families.cells import Cell, Joint, Student, log_student
from dyncrp.families.columns import Columns
from dyncrp.families.protocols import HasJoint, PredictsCell

Int = NDArray[np.int64]
# Added to correlation matrices that are singular up to rounding.
RIDGE = 1e-10


def takes_cells(family: Family) -> bool:
    """Return whether a family says how single cells of whole rows are distributed, given the others."""
    return isinstance(family, HasJoint) and not family.independent


def check_present(family: Family, X: Float) -> Float:
    """Return rows X (n, D) with missing cells, NaN, in the form that the family needs, or raise ``BadRow``.

    Unlike ``check_rows``, this allows missing cells in families that learn from whole rows only but have a ``joint``.
    """
    if first_missing(X) == len(X):
        return check_rows(family, X)
    if takes_cells(family):
        return family.check(X)
    if not isinstance(family, Columns):
        return check_rows(family, X)
    whole = X.copy()
    for part, one in family.parts:
        at = list(part)
        if takes_cells(one):
            one.check(np.ascontiguousarray(X[:, at]))
            whole[np.ix_(np.any(np.isnan(X[:, at]), axis=1), at)] = np.nan
    checked = np.array(family.check(whole))
    changed = np.isnan(whole) & ~np.isnan(X)
    checked[changed] = X[changed]
    return checked


def log_present(family: Family, X: Float, stats: Float) -> Float:
    """Return the log density of the cells that are there, at each table: (n, D) and (K, S) to (n, K).

    >>> from dyncrp import Gaussian
    >>> family = Gaussian.from_covariances([[2.0, 1.0], [1.0, 2.0]], [[9.0, 0.0], [0.0, 9.0]])
    >>> found = log_present(family, np.array([[4.0, np.nan]]), np.zeros((1, 3)))
    >>> bool(np.isclose(found[0, 0], -0.5 * np.log(2 * np.pi * 11) - 16 / 22))
    True
    """
    if isinstance(family, Columns):
        total = np.zeros((len(X), len(stats)))
        for piece in family.pieces:
            total += log_present(piece.family, X[:, piece.at], stats[:, piece.stats])
        return total
    found = np.zeros((len(X), len(stats)))
    missing = np.isnan(X)
    whole = ~np.any(missing, axis=1)
    if np.any(whole):
        found[whole] = family.log_predictive(X[whole], stats)
    partly = np.flatnonzero(~whole & ~np.all(missing, axis=1))
    if len(partly):
        joint = _joint(family, stats, X.shape[1])
        for rows, there in _patterns(X, partly):
            found[rows] = _Given(joint, X[rows], there).log_density()
    return found


def cells_given(family: Family, X: Float, stats: Float, columns: Sequence[int]) -> dict[int, Cell]:
    """Return how cells of some columns are distributed at each table, given the cells of each row that are there.

    X: (n, D), NaN in missing cells. stats: (K, S). What is returned for a cell that is there has no meaning.

    >>> from dyncrp import NormalGamma
    >>> family = Columns.of(NormalGamma(1.0, 100.0), 2)
    >>> stats = family.statistics(np.array([[4.0, 1.0], [6.0, 3.0]])).sum(axis=0, keepdims=True)
    >>> cells_given(family, np.array([[5.0, np.nan]]), stats, [1])[1].center.round(2)
    array([[1.99]])
    """
    if isinstance(family, Columns):
        found: dict[int, Cell] = {}
        for piece in family.pieces:
            places = {piece.at.index(d): d for d in columns if d in piece.at}
            if places:
                own = cells_given(piece.family, X[:, piece.at], stats[:, piece.stats], list(places))
                found |= {places[place]: cell for place, cell in own.items()}
        return found
    if X.shape[1] == 1 and isinstance(family, PredictsCell) and family.independent:
        return dict.fromkeys(columns, family.cell(stats))
    joint, shape = _joint(family, stats, X.shape[1]), (len(X), len(stats))
    cells = {d: Student(*np.full((3, *shape), np.nan)) for d in columns}
    for rows, there in _patterns(X, np.arange(len(X))):
        given = _Given(joint, X[rows], there, [d for d in columns if d not in there])
        for d, cell in given.cells().items():
            for whole, part in zip(vars(cells[d]).values(), vars(cell).values(), strict=True):
                whole[rows] = part
    return dict(cells)


class _Given:
    """Rows X (n, D) in which the same cells are there, at K tables, and how some others are distributed given these.

    Features are taken in units of the roots of the scale matrices' diagonals, so that those of any unit are alike. With
    g the gaps of the q cells that are there from the centre, in these units, and C the correlations, C_oo = L Lᵀ: what
    is needed are L⁻¹ g and L⁻¹ C_om.
    """

    def __init__(self, joint: Joint, X: Float, there: Int, columns: Sequence[int] = ()) -> None:
        self.joint, self.columns, self.n_there = joint, list(columns), len(there)
        self.units = units = np.sqrt(np.diagonal(joint.scales, axis1=1, axis2=2))
        correlations = joint.scales / units[:, :, None] / units[:, None, :]
        own = correlations[:, there[:, None], there]
        try:
            root = np.linalg.cholesky(own)
        except np.linalg.LinAlgError:  # a feature that the others determine, up to rounding
            root = np.linalg.cholesky(own + RIDGE * len(there) * np.eye(len(there)))
        gap = ((X[:, None, there] - joint.centers[:, there]) / units[:, there]).transpose(1, 2, 0)
        solved = np.linalg.solve(root, np.concatenate([gap, correlations[:, there][:, :, self.columns]], axis=2))
        self.gap, self.slope = solved[:, :, : len(X)], solved[:, :, len(X) :]
        logs = np.log(np.diagonal(root, axis1=1, axis2=2)) + np.log(units[:, there])
        self.log_scale: Float = np.sum(logs, axis=1)
        self.square: Float = np.sum(self.gap**2, axis=1).T

    def log_density(self) -> Float:
        """Return the log density of the cells that are there: (n, K)."""
        return log_student(self.square, self.log_scale, self.joint.degrees, self.n_there)

    def cells(self) -> dict[int, Student]:
        """Return how each of the columns is distributed: Student's t with ν + q degrees of freedom.

        With ν degrees, the squared scale is (ν + |L⁻¹ g|²)/(ν + q) times that of a Gaussian.
        """
        degrees = np.broadcast_to(self.joint.degrees, self.square.shape)
        finite = np.isfinite(degrees)
        nu = np.where(finite, degrees, 1.0)
        wider = np.where(finite, (nu + self.square) / (nu + self.n_there), 1.0)
        found = {}
        for i, d in enumerate(self.columns):
            unit, slope = self.units[:, d], self.slope[:, :, i]
            location = self.joint.centers[:, d] + unit * np.sum(slope[:, :, None] * self.gap, axis=1).T
            left = np.maximum(1.0 - np.sum(slope**2, axis=1), RIDGE)
            found[d] = Student(location, unit * np.sqrt(left * wider), degrees + self.n_there)
        return found


def _joint(family: Family, stats: Float, n_features: int) -> Joint:
    if isinstance(family, HasJoint) and takes_cells(family):
        return family.joint(stats, n_features)
    raise ValueError(
        f"{type(family).__name__} does not say how a cell is distributed given the others of its row: use a family of "
        "independent features, such as NormalGamma, or a Gaussian; or give it the method cell of PredictsCell or joint "
        "of HasJoint (docs/extending.md)"
    )


def _patterns(X: Float, rows: Int) -> Iterator[tuple[Int, Int]]:
    """Return rows that have the same cells, and the columns of these cells."""
    patterns, which = np.unique(~np.isnan(X[rows]), axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        yield rows[np.ravel(which) == i], np.flatnonzero(pattern)

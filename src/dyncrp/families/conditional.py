"""Rows with missing cells: the density of the cells that are there, and how a missing one is distributed given them.

For independent features both are matters of single columns; see ``PredictsCell``. For a family whose predictive is a
Gaussian or Student's t in all features, see ``HasJoint``, they follow from its conditional distributions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dyncrp.families.base import Family, Float, check_rows, first_missing
from dyncrp.families.cells import Cell, Joint, Student, log_student
from dyncrp.families.columns import Columns
from dyncrp.families.protocols import HasJoint, PredictsCell

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
            root, gap, units = _whitened(joint, X[rows], there)
            log_scale = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)) + np.log(units[:, there]), axis=1)
            found[rows] = log_student(np.sum(gap**2, axis=1).T, log_scale, joint.degrees, len(there))
    return found


def cell_given(family: Family, X: Float, stats: Float, d: int) -> Cell:
    """Return how cell d is distributed at each table, given the other cells of each row that are there.

    X: (n, D), NaN in column d and in other missing cells. stats: (K, S).
    """
    if isinstance(family, Columns):
        piece = next(piece for piece in family.pieces if d in piece.at)
        return cell_given(piece.family, X[:, piece.at], stats[:, piece.stats], piece.at.index(d))
    if X.shape[1] == 1 and isinstance(family, PredictsCell) and family.independent:
        return family.cell(stats)
    n, K = len(X), len(stats)
    joint = _joint(family, stats, X.shape[1])
    location, scale = np.empty((n, K)), np.empty((n, K))
    degrees = np.empty((n, K))
    for rows, there in _patterns(X, np.arange(n)):
        root, gap, units = _whitened(joint, X[rows], there)
        across = joint.scales[:, there, d] / units[:, there] / units[:, d : d + 1]
        slope = np.linalg.solve(root, across[:, :, None])  # L⁻¹ S_od, so that S_do S_oo⁻¹ g is its product with L⁻¹ g
        left = np.maximum(1.0 - np.sum(slope[:, :, 0] ** 2, axis=1), RIDGE)
        finite = np.isfinite(joint.degrees)
        nu = np.where(finite, joint.degrees, 1.0)
        wider = np.where(finite, (nu + np.sum(gap**2, axis=1).T) / (nu + len(there)), 1.0)
        location[rows] = joint.centers[:, d] + units[:, d] * np.sum(slope * gap, axis=1).T
        scale[rows] = units[:, d] * np.sqrt(left * wider)
        degrees[rows] = joint.degrees + len(there)
    return Student(location, scale, degrees)


def _joint(family: Family, stats: Float, n_features: int) -> Joint:
    if isinstance(family, HasJoint) and takes_cells(family):
        return family.joint(stats, n_features)
    raise ValueError(
        f"{type(family).__name__} does not say how a cell is distributed given the others of its row: use a family of "
        "independent features, such as NormalGamma, or a Gaussian; or give it the method cell of PredictsCell or joint "
        "of HasJoint (docs/extending.md)"
    )


def _patterns(X: Float, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return rows that have the same cells, and the columns of these cells."""
    patterns, which = np.unique(~np.isnan(X[rows]), axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        yield rows[np.ravel(which) == i], np.flatnonzero(pattern)


def _whitened(joint: Joint, X: Float, there: NDArray[np.int64]) -> tuple[Float, Float, Float]:
    """Return L with L Lᵀ = the correlations of the cells that are there, L⁻¹ g of the gaps, and the units.

    Shapes are (K, q, q), (K, q, n) and (K, D): g = (x − center)/unit, and the unit is the root of the scale matrix's
    diagonal, so that features of any unit are alike.
    """
    units = np.sqrt(np.diagonal(joint.scales, axis1=1, axis2=2))
    correlations = joint.scales / units[:, :, None] / units[:, None, :]
    some = correlations[:, there[:, None], there]
    try:
        root = np.linalg.cholesky(some).astype(np.float64)
    except np.linalg.LinAlgError:  # a feature that the others determine, up to rounding
        root = np.linalg.cholesky(some + RIDGE * len(there) * np.eye(len(there))).astype(np.float64)
    gap = ((X[:, None, there] - joint.centers[:, there]) / units[:, there]).transpose(1, 2, 0)
    return root, np.linalg.solve(root, gap).astype(np.float64), units

"""Symmetric matrices as lower triangles, and their factors, for many tables at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dyncrp.families.base import Float


def fold(matrices: Float) -> Float:
    """Return the lower triangles of symmetric matrices, row by row: (K, Q, Q) to (K, Q(Q + 1)/2).

    >>> fold(np.array([[[1.0, 2.0], [2.0, 3.0]]]))
    array([[1., 2., 3.]])
    """
    return matrices[:, *np.tril_indices(matrices.shape[1])]


def unfold(triangles: Float, Q: int) -> Float:
    """Return the symmetric matrices with these lower triangles: (K, Q(Q + 1)/2) to (K, Q, Q)."""
    matrices = np.empty((len(triangles), Q, Q))
    rows, columns = np.tril_indices(Q)
    matrices[:, rows, columns] = matrices[:, columns, rows] = triangles
    return matrices


def bounded(matrices: Float) -> Float:
    """Return matrices (K, Q, Q) that rounding may have made indefinite, with each 2 × 2 minor from 0 on.

    Of positive semi-definite matrices nothing is changed.
    """
    diagonal = np.maximum(np.diagonal(matrices, axis1=1, axis2=2), 0.0)
    root = np.sqrt(diagonal)
    most = root[:, :, None] * root[:, None, :]
    found = np.clip(matrices, -most, most)
    at = np.arange(diagonal.shape[1])
    found[:, at, at] = diagonal
    return found


class Factor(NamedTuple):
    """L D Lᵀ = A for matrices A, with ones on the diagonal of the triangular L.

    lower: (K, Q, Q) L. pivots: (K, Q) the diagonal of D. log_determinant: (K,) of A.
    """

    lower: Float
    pivots: Float
    log_determinant: Float

    def solve(self, gaps: Float) -> Float:
        """Return L⁻¹ g for gaps g from each of K tables: (n, K, Q) to (n, K, Q)."""
        found = np.array(gaps)
        for j in range(found.shape[2] - 1):
            found[:, :, j + 1 :] -= self.lower[:, j + 1 :, j] * found[:, :, j : j + 1]
        return found


def factor(prior: float, count: Float, scatter: Float) -> Factor:
    """Return the factor of A = (ν I + S)/(ν + n) for tables with ν = prior, n = count (K,) and scatter S (K, Q, Q).

    A tends to I for large ν and to 0 for narrow tables. The logarithms of its pivots are accurate at both ends, since
    what is carried along is S. Rounding may have made S indefinite: no pivot is below ν/(ν + n), as if it had not.
    """
    K, Q, _ = scatter.shape
    total = prior + count
    left = scatter / total[:, None, None]
    own = np.array(np.diagonal(left, axis1=1, axis2=2))  # of what is left, the part on the diagonal due to S
    lower, pivots, logs = np.zeros((K, Q, Q)), np.empty((K, Q)), np.zeros(K)
    for j in range(Q):
        part = np.maximum(own[:, j], 0.0)
        pivots[:, j] = pivot = prior / total + part
        excess = part - count / total
        narrow = excess < -0.5
        logs += np.where(narrow, np.log(pivot), np.log1p(np.where(narrow, 0.0, excess)))
        rest = np.maximum(own[:, j + 1 :], 0.0)
        most = np.sqrt(part)[:, None] * np.sqrt(rest)
        column = np.clip(left[:, j + 1 :, j], -most, most)
        slope = column / pivot[:, None]
        lower[:, j, j] = 1.0
        lower[:, j + 1 :, j] = slope
        own[:, j + 1 :] = rest - column * slope
        left[:, j + 1 :, j + 1 :] -= column[:, :, None] * slope[:, None, :]
    return Factor(lower, pivots, logs)

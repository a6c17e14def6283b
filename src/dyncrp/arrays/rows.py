"""Rows: the two types that there are, with the same methods. A family says by ``Family.rows`` which one it takes.

``Dense`` rows are plain arrays (n, D) of floats, in which NaN is a missing cell. ``Counts`` are sparse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import as_observations
from dyncrp.arrays.counts import Counts
from dyncrp.arrays.exchange import readable

Float = NDArray[np.float64]


class Dense:
    """What ``Counts`` has as methods, for plain arrays.

    >>> Dense.join([Dense.read([[1, 2]]), Dense.one([3.0, 4.0])])
    array([[1., 2.],
           [3., 4.]])
    """

    grows = False  # whether there may be more columns at any time

    @staticmethod
    def read(X: Any) -> Float:
        """Return rows (n, D) from anything array-like."""
        return as_observations(X, missing=True)

    @staticmethod
    def one(x: Any) -> NDArray[Any]:
        """Return a single row (D,) as rows, not checked."""
        return np.asarray(readable(x))[None, ...]

    @staticmethod
    def none() -> Float:
        """Return no rows, of no columns."""
        return np.empty((0, 0))

    @staticmethod
    def join(parts: Sequence[Float]) -> Float:
        """Return the rows of all parts, one after the other."""
        return np.concatenate(parts)

    @staticmethod
    def take(rows: Float, at: NDArray[Any]) -> Float:
        """Return some of the rows as a copy; at: indices or booleans."""
        return np.array(rows[at])

    @staticmethod
    def widen(rows: Float, n_columns: int, absent: float) -> Float:
        """Return rows with more columns, which hold ``absent``."""
        return np.pad(rows, ((0, 0), (0, n_columns - rows.shape[1])), constant_values=absent)

    @staticmethod
    def arrays(rows: Float) -> tuple[NDArray[Any], ...]:
        """Return the arrays that a file has of rows."""
        return (rows,)

    @staticmethod
    def checked(arrays: Iterable[NDArray[Any]], n: int) -> Float:
        """Return the n rows that ``arrays`` described; a reader has checked them."""
        (rows,) = arrays
        return rows


RowType = type[Dense] | type[Counts]


def type_of(rows: Any) -> RowType:
    """Return the type of some rows."""
    return Counts if isinstance(rows, Counts) else Dense

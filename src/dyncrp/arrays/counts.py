"""Counts: sparse rows of integers, such as how often a document has each word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadRow, as_observations

Float = NDArray[np.float64]
Int = NDArray[np.int64]
LARGEST_COUNT = 2.0**31  # beyond it, log x! is too large to leave digits for the differences between tables


class Counts:
    """n rows of counts, of which only the nonzero ones are stored.

    indptr: (n + 1,) starting at 0. indices: the columns, ascending within a row. data: the counts, integers ≥ 1. Row
    i has the entries from indptr[i] to indptr[i + 1]. n_columns: how many columns there are.

    >>> rows = as_counts([[0, 2, 1], [0, 0, 0], [3, 0, 0]])
    >>> len(rows), rows.shape, rows[1:].toarray()
    (3, (3, 3), array([[0., 0., 0.],
           [3., 0., 0.]]))
    """

    __slots__ = ("data", "indices", "indptr", "n_columns")
    grows = True  # whether there may be more columns at any time

    def __init__(self, indptr: Int, indices: Int, data: Float, n_columns: int) -> None:
        self.indptr, self.indices, self.data, self.n_columns = indptr, indices, data, n_columns

    @property
    def shape(self) -> tuple[int, int]:
        """(n, D)."""
        return len(self), self.n_columns

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, rows: slice | NDArray[Any]) -> Counts:
        """Return some rows: those of a slice, as a view, or those of an array of indices or booleans, as a copy."""
        if not isinstance(rows, slice):
            at = np.arange(len(self))[rows]
            lengths = np.diff(self.indptr)[at]
            indptr = np.concatenate([[0], np.cumsum(lengths)])
            cells = np.repeat(self.indptr[at] - indptr[:-1], lengths) + np.arange(indptr[-1])
            return Counts(indptr, self.indices[cells], self.data[cells], self.n_columns)
        begin, end, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"a slice of rows of counts must have no step, got {rows!r}")
        end = max(begin, end)
        indptr = self.indptr[begin : end + 1]
        part = slice(indptr[0], indptr[-1])
        return Counts(indptr - indptr[0], self.indices[part], self.data[part], self.n_columns)

    @property
    def csr(self) -> tuple[Int, Int, Float]:
        """indptr, indices and data."""
        return self.indptr, self.indices, self.data

    @staticmethod
    def read(X: Any) -> Counts:
        """Return rows from anything that ``as_counts`` takes."""
        return as_counts(X)

    @staticmethod
    def one(x: Any) -> Counts:
        """Return one row: of a dense row (D,), a sparse matrix of one row, or Counts."""
        row = as_counts(x if isinstance(x, Counts) or hasattr(x, "tocsr") else np.asarray(x)[None, ...])
        if len(row) != 1:
            raise ValueError(f"expected one row, got {len(row)}")
        return row

    @staticmethod
    def none() -> Counts:
        """Return no rows, of no columns."""
        return Counts(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0), 0)

    @staticmethod
    def take(rows: Counts, at: NDArray[Any]) -> Counts:
        """Return some of the rows as a copy; at: indices or booleans."""
        return rows[at]

    @staticmethod
    def widen(rows: Counts, n_columns: int, absent: float) -> Counts:
        """Return the rows: more columns make no difference."""
        return rows

    @staticmethod
    def arrays(rows: Counts) -> tuple[NDArray[Any], ...]:
        """Return the arrays that a file has of rows."""
        return rows.csr

    @classmethod
    def checked(cls, csr: Iterable[NDArray[Any]], n: int, grain: float = 1.0) -> Counts:
        """Return the n rows of arrays such as ``csr`` returns; raise ``ValueError`` if they are not rows of counts.

        grain: counts are multiples of this power of two; less than 1 for sums over rows that have weights.
        """
        indptr, indices, data = csr
        legal = len(indptr) == n + 1 and indptr[0] == 0 and bool(np.all(np.diff(indptr) >= 0))
        legal = legal and indptr[-1] == len(indices) == len(data)
        if legal:
            follows = np.ones(len(indices), dtype=bool)
            follows[indptr[:-1][indptr[:-1] < len(indices)]] = False
            legal = bool(np.all(indices >= 0) and np.all((np.diff(indices, prepend=-1) > 0) | ~follows))
        units = data / grain
        if not legal or not np.all((units >= 1) & (np.floor(units) == units) & (data <= 2.0**53 / grain)):
            raise ValueError("its words must be counts, with ascending columns for each table")
        return cls(indptr, indices, data, int(indices.max(initial=-1)) + 1)

    @classmethod
    def join(cls, parts: Sequence[Counts]) -> Counts:
        """Return the rows of all parts, one after the other.

        >>> Counts.join([as_counts([[1, 0]]), as_counts([[0, 0, 2]])]).toarray()
        array([[1., 0., 0.],
               [0., 0., 2.]])
        """
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices, data = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "data"))
        return cls(indptr, indices, data, max(part.n_columns for part in parts))

    def copy(self) -> Counts:
        """Return a copy that shares no memory."""
        return Counts(self.indptr.copy(), self.indices.copy(), self.data.copy(), self.n_columns)

    def toarray(self, n_columns: int | None = None) -> Float:
        """Return all counts as a dense array, (n, D) or (n, n_columns)."""
        dense = np.zeros((len(self), self.n_columns if n_columns is None else n_columns))
        dense[np.repeat(np.arange(len(self)), np.diff(self.indptr)), self.indices] = self.data
        return dense


class WordCounts(NamedTuple):
    """The columns of words, ascending, and the count of each: both (m,)."""

    columns: Int
    counts: Float


def as_counts(X: Any, name: str = "X") -> Counts:
    """Return rows of counts from a SciPy sparse matrix or array, or from anything array-like. Counts stay as they are.

    >>> as_counts([[1.0, -2.0]])
    Traceback (most recent call last):
        ...
    dyncrp.arrays.checks.BadRow: X must hold counts, integers from 0 to 2**31, got -2.0, at row 0, column 1
    """
    if isinstance(X, Counts):
        return X
    if not hasattr(X, "tocsr"):
        dense = as_observations(X, name)
        rows, columns = np.nonzero(dense)
        counts = np.bincount(rows, minlength=len(dense))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return _checked(Counts(indptr, columns.astype(np.int64), dense[rows, columns], dense.shape[1]), name)
    if X.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional (documents, words), got shape {X.shape}")
    if 0 in X.shape:
        what = "0 sample(s)" if X.shape[0] == 0 else "0 feature(s)"
        raise ValueError(f"{name} must not be empty: found array with {what} (shape={X.shape}).")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold counts, got dtype {X.dtype}")
    csr = X.tocsr()
    found = _from_csr(csr, name)
    if csr.has_canonical_format and np.all(found.data):
        return found
    csr = csr.astype(np.float64, copy=True)  # leaves the caller's data alone, and small integers do not overflow
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return _from_csr(csr, name)


def _from_csr(csr: Any, name: str) -> Counts:
    indptr, indices, data = (getattr(csr, part) for part in ("indptr", "indices", "data"))
    D = int(csr.shape[1])
    if np.min(indices, initial=0) < 0 or np.max(indices, initial=0) >= D:
        raise ValueError(f"{name} must have columns from 0 to {D - 1}, got one outside this range")
    return _checked(Counts(indptr.astype(np.int64), indices.astype(np.int64), data.astype(np.float64), D), name)


def _checked(rows: Counts, name: str) -> Counts:
    data = rows.data
    bad = ~((data >= 0) & (data <= LARGEST_COUNT) & (np.floor(data) == data))
    if bad.any():
        first = int(np.argmax(bad))
        row = int(np.searchsorted(rows.indptr, first, side="right")) - 1
        reason = f"{name} must hold counts, integers from 0 to 2**31, got {data[first]}"
        raise BadRow(reason, row, rows.indices[first])
    return rows

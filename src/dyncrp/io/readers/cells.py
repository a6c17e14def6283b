"""Cells of a column as numbers, vectors and times, and messages about invalid ones."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.dates import parse_date as parse_date
from dyncrp.input.entries import is_empty, quote

Column = Any  # a list of cells, or an array of NumPy or Arrow


class TimeFormat(StrEnum):
    """How the times of a column are written, judging by the first one."""

    NUMBERS = "numbers"
    DATES = "dates"
    ZONED_DATES = "zoned dates"

    @classmethod
    def of_date(cls, cell: object) -> TimeFormat | None:
        """Return the format of a date, None if the cell is not a date.

        >>> TimeFormat.of_date("2024-01-01T12:00Z"), TimeFormat.of_date("soon")
        (<TimeFormat.ZONED_DATES: 'zoned dates'>, None)
        """
        date = parse_date(cell)
        return None if date is None else cls.DATES if date.tzinfo is None else cls.ZONED_DATES

    @property
    def description(self) -> str:
        """The format, in words for messages."""
        return {"dates": "dates without a time zone", "zoned dates": "dates with a time zone"}.get(self, self)


def as_numbers(column: Column) -> NDArray[np.float64]:
    """Return a column as float64 (n,), with NaN for cells that are not numbers.

    >>> as_numbers(["1.5", " 2 ", "", "1_0", 3, True, None])
    array([1.5, 2. , nan, nan, 3. , nan, nan])
    """
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "biuf":
            return np.full(len(column), np.nan)
        with np.errstate(over="ignore", invalid="ignore"):  # longdouble; signalling NaN
            numbers = column.astype(np.float64)
        numbers[np.isnan(numbers)] = np.nan  # signalling NaNs would raise a warning in every sum
        return numbers
    return np.fromiter(map(_number, column), np.float64, len(column))


def as_vectors(column: Column, width: int | None) -> NDArray[np.float64]:
    """Return a column of lists as float64 (n, width), with NaN for non-numbers and for lists of another length.

    A width of None stands for a column of numbers, (n, 1).

    >>> as_vectors([[1, 2], [3], [4, None]], 2)
    array([[ 1.,  2.],
           [nan, nan],
           [ 4., nan]])
    """
    if width is None:
        return as_numbers(column)[:, None]
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return column
    vectors = np.full((len(column), width), np.nan)
    for i, cell in enumerate(column):
        if isinstance(cell, list) and len(cell) == width:
            vectors[i] = as_numbers(cell)
    return vectors


def is_number(cell: object) -> bool:
    """Return whether a cell holds a number, which may be infinite."""
    return _number(cell) == _number(cell)


def says_nothing(cell: object) -> bool:
    """Return whether a cell of a file is missing, or holds a word for a missing cell."""
    return is_empty(cell)


class MissingCells:
    """Tells whether a cell is missing, also by additional words. numbers: those of the words that are numbers.

    >>> is_missing = MissingCells(("*", "-999"))
    >>> is_missing("N/A"), is_missing(" * "), is_missing(-999.0), is_missing("-9")
    (True, True, True, False)
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.numbers = [float(word) for word in words if is_number(word)]

    def __call__(self, cell: object) -> bool:
        """Return whether a cell is missing."""
        plain = cell.item() if isinstance(cell, np.generic) else cell
        if says_nothing(plain) or (isinstance(plain, str) and plain.strip() in self.words):
            return True
        return bool(self.numbers) and as_numbers([plain])[0] in self.numbers


def is_text(cell: str) -> bool:
    """Return whether all bytes of a cell were valid UTF-8."""
    return not any("\udc80" <= character <= "\udcff" for character in cell)


def holds_text(cell: object) -> bool:
    """Return whether a cell holds a text of valid characters."""
    if not isinstance(cell, str):
        return False
    try:
        return cell.isascii() or bool(cell.encode())
    except UnicodeEncodeError:
        return False


def as_words(column: Column) -> list[Any]:
    """Return the cells of a column of categories: other objects as text; None and floats unchanged."""
    listed = column.tolist() if isinstance(column, np.ndarray) else column
    return [cell if cell is None or isinstance(cell, (str, float)) else str(cell) for cell in listed]


def _number(cell: object) -> float:
    if isinstance(cell, (str, int, float, Decimal)) and not isinstance(cell, bool):
        try:
            if not isinstance(cell, str) or "_" not in cell:
                return float(cell)
        except (OverflowError, ValueError):
            pass
    return np.nan


def is_time(cell: object) -> bool:
    """Return whether a cell holds a number or an ISO 8601 date, so that its format is clear without other cells."""
    return is_number(cell) or parse_date(cell) is not None


def describe_fault(cell: object, width: int | None = None) -> str:
    """Return why a cell is not a finite number, or not a list of ``width`` finite numbers."""
    if width is not None:
        entries = cell.tolist() if isinstance(cell, np.ndarray) else cell
        if not isinstance(entries, list) or len(entries) != width:
            return f"{quote(entries)} is not a list of {width} numbers, as in the first row"
        cell = next(
            (entry for entry in entries if not np.isfinite(_number(entry))), None
        )  # None: it stands for missing
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return "the cell is empty"
    if is_number(cell) or str(cell).strip().lower().lstrip("+-") == "nan":
        return f"{quote(cell)} is not a finite number"
    return f"{quote(cell)} is not a number"


def join(columns: Sequence[Column]) -> Column:
    """Return the cells of several columns as one."""
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate(columns)
    if not any(isinstance(column, (list, np.ndarray)) for column in columns):
        import pyarrow as pa

        return pa.concat_arrays(columns)
    return [cell for column in columns for cell in (column if isinstance(column, list) else column.tolist())]


def take(column: Column, places: NDArray[np.int64]) -> Column:
    """Return the cells at some places, in their order."""
    if isinstance(column, list):
        return [column[place] for place in places.tolist()]
    return column[places] if isinstance(column, np.ndarray) else column.take(places)


def select(column: Column, mask: NDArray[np.bool_]) -> Column:
    """Return the cells that a mask (n,) selects."""
    if isinstance(column, list):
        return [cell for cell, selected in zip(column, mask.tolist(), strict=True) if selected]
    if isinstance(column, np.ndarray):
        return column[mask]
    import pyarrow as pa

    return column.filter(pa.array(mask))

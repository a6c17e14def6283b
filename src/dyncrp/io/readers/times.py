"""The times of rows, in order. The first one decides how they are written."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import LATEST_TIME, microseconds
from dyncrp.arrays.dates import AmbiguousDateError, add_years
from dyncrp.input.infer import ROWS_TO_INFER
from dyncrp.input.left_out import find_epoch
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column, TimeFormat
from dyncrp.io.readers.dates import DateFormat, find_dates
from dyncrp.io.readers.formats import AmbiguousError, Format, NumberFormat, find_format

LATER = "; they are in order in the first {:,} rows: if not later, add --sort-by-time"


class Times:
    """The format of a column of times, and its latest time.

    format: None before the first time. last: a number, or microseconds of a date; None before the first time.
    """

    def __init__(self, format: str | None = None, last: Any = None) -> None:
        self.format = None if format is None else TimeFormat(format)
        self.last = last

    def read(
        self, column: Column, bad: NDArray[np.bool_], written: Format | None = None
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return a column as times (n,), and which are invalid.

        bad: (n,) rows that must not decide the format. written: how the times are written, None if they are plain
        numbers or ISO 8601.
        """
        if written is not None:
            column = written.read(column)
        if isinstance(column, np.ndarray) and column.dtype.kind == "M":
            self.format = TimeFormat.DATES
            missing = np.isnat(column)
            if isinstance(written, DateFormat) and written.yearless:
                good = ~(bad | missing)
                column[good] = add_years(column[good], self.last)
            return column, missing
        numbers = cells.as_numbers(column)
        fine = np.abs(numbers) <= LATEST_TIME
        if self.format is None:
            candidates = np.flatnonzero(~bad).tolist()
            formats = (TimeFormat.NUMBERS if fine[i] else TimeFormat.of_date(column[i]) for i in candidates)
            self.format = next((format for format in formats if format), None)
        if self.format in (TimeFormat.NUMBERS, None):
            return numbers, ~fine
        ticks = np.zeros(len(numbers), dtype=np.int64)
        untimely = np.ones(len(numbers), dtype=bool)
        for i, cell in enumerate(column):
            date = cells.parse_date(cell)
            if date is not None and (date.tzinfo is not None) == (self.format is TimeFormat.ZONED_DATES):
                ticks[i], untimely[i] = microseconds(date), False
        return ticks.view("M8[us]"), untimely

    def find_backward(self, times: NDArray[Any]) -> tuple[int, Any] | None:
        """Return the first place where a time is earlier than the one before, and the time before it.

        Returns None if times are in order, and then keeps the last of them, of which there must be at least one.
        """
        ticks = times.view(np.int64) if times.dtype.kind == "M" else times
        before = np.concatenate([ticks[:1] if self.last is None else [self.last], ticks[:-1]])
        back = np.flatnonzero(ticks < before)
        if back.size:
            at = int(back[0])
            return at, np.array([before[at]], dtype=ticks.dtype).view(times.dtype)[0]
        self.last = ticks[-1].item()
        return None


def find_time_format(column: Sequence[Any], decimal: str | None, *, epochs: bool = True) -> Format | None:
    """Return how times are written; None for plain numbers and ISO 8601.

    column: the first cells that are not missing. decimal: the mark, if it is known. epochs: whether large numbers are
    seconds since 1970, or milliseconds and so on. Raises ``AmbiguousError`` or ``AmbiguousDateError``.

    >>> find_time_format(["2012/01/05", "2012/01/06"], None), find_time_format(["12.5", "13"], None)
    (DateFormat(pattern='%Y/%m/%d'), None)
    """
    found: Format | None = find_format(column, decimal)
    if found is None:
        return find_dates(column)
    if found != NumberFormat(decimal or "."):
        return found
    unit = find_epoch(cells.as_numbers(column)) if epochs else None
    return None if unit is None else DateFormat(unit)


def suggest_times(columns: dict[str, Any], is_missing: Callable[[object], bool], decimal: str | None) -> list[str]:
    """Return a note about the first of some columns whose times are valid, best if they are in order; none if none is.

    The cells are read as those of a time column are.

    columns: the cells of the first rows, including missing ones. decimal: the mark of numbers, if it is known.

    >>> suggest_times({"a": ["2024-01-02", None], "b": ["2024-01-02", "2024-01-03"]}, cells.says_nothing, None)
    ['b holds times: --time-column b uses them']
    """
    sortable = []
    for name, column in columns.items():
        try:
            if any(map(is_missing, column)) or not len(column):
                continue
            column = _as_dates(column)
            written = None if isinstance(column, np.ndarray) else find_time_format(column, decimal)
        except (AmbiguousDateError, AmbiguousError, ValueError):
            continue
        order = Times()
        times, untimely = order.read(column, np.zeros(len(column), dtype=bool), written)
        if untimely.any():
            continue
        quoted, shown = shlex.quote(name), name or repr("")
        yearless = isinstance(written, DateFormat) and written.yearless
        if order.find_backward(times) is None:
            order_known = len(column) < ROWS_TO_INFER or yearless
            later = "" if order_known else LATER.format(len(column))
            return [f"{shown} holds times: --time-column {quoted} uses them{later}"]
        if not yearless:  # their years are known only if they are in order
            sortable.append(
                f"{shown} holds times, but not in order: --time-column {quoted} --sort-by-time sorts the rows by them"
            )
    return sortable[:1]


def _as_dates(column: Any) -> Any:
    """Return objects that are dates, as Arrow gives them, as datetime64 (n,); anything else unchanged."""
    if isinstance(column[0], (str, int, float)):
        return column
    return np.array([microseconds(cell) for cell in column]).view("M8[us]")

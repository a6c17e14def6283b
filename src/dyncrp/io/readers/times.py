"""The times of rows, in order. The first one decides how they are written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import LATEST_TIME, microseconds
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column, TimeFormat


class Times:
    """The format of a column of times, and its latest time.

    format: None before the first time. last: a number, or microseconds of a date; None before the first time.
    """

    def __init__(self, format: str | None = None, last: Any = None) -> None:
        self.format = None if format is None else TimeFormat(format)
        self.last = last

    def read(self, column: Column, bad: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return a column as times (n,), and which are invalid. bad: (n,) rows that must not decide the format."""
        if isinstance(column, np.ndarray) and column.dtype.kind == "M":
            self.format = TimeFormat.DATES
            return column, np.isnat(column)
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

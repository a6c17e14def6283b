"""How the times of a column are written: dates in other formats than ISO 8601, and numbers since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import LATEST_TIME, microseconds
from dyncrp.arrays.dates import ASSUMED_YEAR, find_pattern, has_year, parse, parse_date
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column

EPOCHS = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}  # microseconds in each unit; ns are divided below
LONGEST = {"s": 6e10, "ms": 6e13, "us": 9e15}  # counts that NumPy can convert together, up to the year 3800
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
NUMBERS = "number"  # times are numbers, even if they look like dates
FIRST, LAST = datetime.min, datetime.max


@dataclass(frozen=True)
class DateFormat:
    """Dates in a pattern of ``strptime``, or numbers of s, ms, us or ns since 1970. Time zones are converted to UTC.

    >>> DateFormat("%d.%m.%Y %H:%M").read(["31.12.2025 14:05", "soon"])
    array(['2025-12-31T14:05:00.000000', 'NaT'], dtype='datetime64[us]')
    >>> DateFormat("ms").read(["1500", 0])
    array(['1970-01-01T00:00:01.500000', '1970-01-01T00:00:00.000000'], dtype='datetime64[us]')
    """

    pattern: str

    def read(self, column: Column) -> NDArray[Any]:
        """Return a column as datetime64 (n,), with NaT for cells that are not dates."""
        ticks = np.full(len(column), np.iinfo(np.int64).min)  # NaT
        numbers = cells.as_numbers(column) if self.pattern in EPOCHS else np.empty(0)
        if len(numbers) and self.pattern != "ns" and np.all(np.abs(numbers) < LONGEST[self.pattern]):
            whole = numbers == np.floor(numbers)  # those are exact
            counts = np.where(whole, numbers, 0.0).astype(np.int64) * EPOCHS[self.pattern]
            ticks = np.where(whole, counts, np.rint(numbers * EPOCHS[self.pattern]).astype(np.int64))
            return ticks.view("M8[us]")
        for i, cell in enumerate(column):
            tick = self._tick(cell)
            ticks[i] = ticks[i] if tick is None else tick
        return ticks.view("M8[us]")

    def _tick(self, cell: object) -> int | None:
        """Return a date as microseconds since 1970, None if it is invalid or outside the years 1 to 9999."""
        if self.pattern not in EPOCHS:
            date = parse(cell, self.pattern) if isinstance(cell, str) else None
            return None if date is None else microseconds(date)
        number = float(cells.as_numbers([cell.item() if isinstance(cell, np.generic) else cell])[0])
        if not abs(number) <= LATEST_TIME:  # whatever the unit
            return None
        text = str(cell).strip()
        exact = int(text) if text.removeprefix("-").isdecimal() else None
        if self.pattern == "ns":
            tick = round(number / 1000) if exact is None else exact // 1000
        else:
            tick = round(number * EPOCHS[self.pattern]) if exact is None else exact * EPOCHS[self.pattern]
        return tick if microseconds(FIRST) <= tick <= microseconds(LAST) else None

    @property
    def description(self) -> str:
        """The format, in words for messages."""
        return f"{UNIT_NAMES[self.pattern]} since 1970" if self.pattern in EPOCHS else f"dates as {self.pattern}"

    @property
    def yearless(self) -> bool:
        """Whether the dates have no year, so that it is assumed."""
        return self.pattern not in EPOCHS and not has_year(self.pattern)


@cache
def is_pattern(pattern: str) -> bool:
    """Return whether a text is a pattern of ``strptime``, or one of s, ms, us, ns and number."""
    if pattern in EPOCHS or pattern == NUMBERS:
        return True
    try:
        return "%" in pattern and bool(datetime.strptime(datetime(2025, 12, 31).strftime(pattern), pattern))
    except ValueError:
        return False


def find_dates(column: Sequence[object]) -> DateFormat | None:
    """Return the format of at least half of the cells of a column; None if they are not dates, or ISO 8601.

    >>> find_dates(["03/04/2025", "31/12/2025"])
    DateFormat(pattern='%d/%m/%Y')
    """
    texts = [cell for cell in column if isinstance(cell, str)]
    if 2 * len(texts) < len(column) or any(parse_date(cell) or cells.is_number(cell) for cell in texts[:1]):
        return None
    pattern = find_pattern(texts)
    return None if pattern is None else DateFormat(pattern)


def describe_assumption(format: object) -> str:
    """Return what was assumed about times, and which option says otherwise."""
    if not isinstance(format, DateFormat):
        return ""
    if format.yearless:
        return f"; there is no year: it is taken to be {ASSUMED_YEAR}, and the next one from December to January"
    unit = UNIT_NAMES.get(format.pattern)
    return "" if unit is None else f", {unit} since 1970; --time-format number keeps numbers"

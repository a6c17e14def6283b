"""Dates in other formats than ISO 8601, such as 31/12/2025 14:05 or Nov 16 2026, and numbers since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import LATEST_TIME, microseconds
from dyncrp.input.entries import quote
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column

EPOCHS = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}  # microseconds in each unit; ns are divided below
LONGEST = {"s": 6e10, "ms": 6e13, "us": 9e15}  # counts that NumPy can convert together, up to the year 3800
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
# Only with slashes and dashes may the month come before the day.
DAYS = ["%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y"]
DAYS += ["%Y/%m/%d", "%Y.%m.%d", "%b %d %Y", "%b %d, %Y", "%B %d %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y"]
HOURS = ["", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %H:%M:%S"]
PATTERNS = [day + hour for day in DAYS for hour in HOURS] + ["%d/%b/%Y:%H:%M:%S %z", "%d/%b/%Y:%H:%M:%S"]
NUMBERS = "number"  # times are numbers, even if they look like dates
FIRST, LAST = datetime.min, datetime.max


class AmbiguousDateError(ValueError):
    """The dates of a column can be read in two ways."""


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


def parse(cell: str, pattern: str) -> datetime | None:
    """Return a date in a pattern, in UTC if it has a time zone; None if the cell does not match."""
    try:
        date = datetime.strptime(cell.strip(), pattern)
        return date if date.tzinfo is None else date.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


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
    >>> find_dates(["03/04/2025"])
    Traceback (most recent call last):
        ...
    dyncrp.io.readers.dates.AmbiguousDateError: '03/04/2025' may be 2025-04-03 or 2025-03-04: --time-format '%d/%m/%Y'
    or '%m/%d/%Y' says which
    """
    texts = [cell for cell in column if isinstance(cell, str)]
    if not texts or any(cells.parse_date(cell) or cells.is_number(cell) for cell in texts[:1]):
        return None
    fitting = [pattern for pattern in PATTERNS if any(parse(cell, pattern) for cell in texts[:5])]
    counts = {pattern: sum(parse(cell, pattern) is not None for cell in texts) for pattern in fitting}
    most = max(counts.values(), default=0)
    if not most or 2 * most < len(column):
        return None
    first, *others = (pattern for pattern, n in counts.items() if n == most)
    for other in others:
        for cell in texts:
            dates = parse(cell, first), parse(cell, other)
            if dates[0] != dates[1] and dates[0] is not None and dates[1] is not None:
                readings = f"{dates[0]:%Y-%m-%d} or {dates[1]:%Y-%m-%d}"
                choice = f"--time-format {first!r} or {other!r} says which"
                raise AmbiguousDateError(f"{quote(cell)} may be {readings}: {choice}")
    return DateFormat(first)

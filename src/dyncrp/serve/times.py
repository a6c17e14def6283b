"""Read the times of a request: numbers, or dates as files may have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import Clock
from dyncrp.arrays.dates import (
    AmbiguousDateError,
    DateError,
    add_years,
    find_pattern,
    has_year,
    parse_date,
    parse_times,
    read_dates,
)
from dyncrp.input.entries import quote
from dyncrp.input.left_out import find_epoch
from dyncrp.io.readers.cells import as_numbers, says_nothing
from dyncrp.io.readers.dates import DateFormat
from dyncrp.serve.bodies import Cells
from dyncrp.serve.limits import RequestError

TIMES = "times"


def read_times(
    cells: Cells, clock: Clock | None = None, pattern: str | None = None, latest: int | None = None
) -> tuple[NDArray[Any], str | None]:
    """Return times as float64 or datetime64[us], (n,), and the pattern of dates that are not ISO 8601.

    Numbers that are seconds since 1970 in the years 2001 to 2064, or milliseconds and so on, are dates, unless the
    times of the stream are numbers. A date or a number that is missing or wrong raises ``RequestError``.

    clock: the kind of times of the stream, None before its first row. pattern: that of its dates, if one is known: a
    request may then hold such dates and ISO 8601. latest: its latest time in microseconds since 1970, from which dates
    without a year, as in syslog, go on.

    >>> times, pattern = read_times(["31/12/2025 23:50"])
    >>> read_times(["01/02/2026 00:10"], Clock.DATES, pattern)
    (array(['2026-02-01T00:10:00.000000'], dtype='datetime64[us]'), '%d/%m/%Y %H:%M')
    """
    missing = np.isnat(cells) if _holds_dates(cells) else np.fromiter(map(says_nothing, cells), bool, len(cells))
    if missing.any():
        raise RequestError.at(int(np.argmax(missing)), "the time is missing", TIMES)
    if _holds_dates(cells):
        return np.asarray(cells), pattern
    numbers = as_numbers(cells)
    infinite = np.isinf(numbers)
    if infinite.any():
        raise RequestError.at(int(np.argmax(infinite)), "a time must be finite", TIMES)
    if not np.isnan(numbers).any():
        unit = None if clock is Clock.NUMBERS else find_epoch(numbers)
        if unit is not None:
            return DateFormat(unit).read(cells), pattern
        if clock is not Clock.DATES or not any(isinstance(cell, str) for cell in cells):
            return numbers, pattern  # else digits such as 20240101, which are ISO 8601
    return _read_dates(list(cells), pattern, latest)


def _holds_dates(cells: Cells) -> bool:
    return isinstance(cells, np.ndarray) and cells.dtype.kind == "M"


def _read_dates(cells: list[Any], pattern: str | None, latest: int | None) -> tuple[NDArray[np.datetime64], str | None]:
    """Return texts as datetime64[us], and their pattern."""
    try:
        if pattern is None:
            pattern = None if parse_date(cells[0]) else find_pattern([cell for cell in cells if isinstance(cell, str)])
            times = parse_times(cells)
        elif all(map(parse_date, cells)):
            return parse_times(cells), pattern
        else:
            times = read_dates(cells, pattern)
            if np.isnat(times).any():
                raise DateError("", int(np.argmax(np.isnat(times))))
    except DateError as bad:
        wanted = "a number or a date, and all of one kind" if pattern is None else f"a date as {pattern}, or ISO 8601"
        raise RequestError.at(bad.row, f"a time must be {wanted}, got {quote(cells[bad.row])}", TIMES) from None
    except AmbiguousDateError as error:
        told = f"{error}: send dates as ISO 8601, such as {error.readings[0]}"
        raise RequestError.at(cells.index(error.cell), told, TIMES) from None
    if not has_year(pattern):
        times = add_years(read_dates(cells, pattern), latest)
    return times, pattern

"""Dates as people and programs write them: ISO 8601, 31/12/2025 14:05, Nov 16 2026, and the times of logs.

This is the one place where texts become dates: for files, for data frames and for the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Only with slashes and dashes may the month come before the day.
DAYS = ["%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y"]
DAYS += ["%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d", "%b %d %Y", "%b %d, %Y", "%B %d %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y"]
DAYS += ["%d-%b-%Y", "%d-%b-%y", "%d/%b/%Y", "%Y-%m", "%Y/%m", "%b %Y", "%B %Y", "%b %d"]
NO_YEAR = "%b %d"  # as syslog writes it
ASSUMED_YEAR = 2000  # of dates without a year: it has a 29th of February
# A clock after a day: what is between them, hours, minutes, seconds, their fraction, AM or PM, and the zone.
CLOCK = re.compile(
    r"(?P<between>,? +|T|:)(?P<hours>[0-9]{1,2}):[0-9]{2}(?P<seconds>:[0-9]{2}(?P<fraction>[.,][0-9]{1,9})?)?"
    r"(?P<half>(?P<gap> ?)[AaPp][Mm])?(?P<year> [0-9]{4})?(?P<zone> ?(?:Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}))?$"
)
WEEKDAY = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,? +", re.IGNORECASE)
UTC_NAME = re.compile(r" ?(?:UTC|GMT)$")
LONGEST_DATE = 50  # characters
HALF_A_YEAR = np.timedelta64(183, "D")
EPOCH, MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
NAT = np.iinfo(np.int64).min
FEW = 5  # the first cells that decide which formats are tried


class AmbiguousDateError(ValueError):
    """The dates of a column can be read in two ways. cell: such a date. patterns, readings: the two, as texts."""

    def __init__(self, cell: str, patterns: tuple[str, str], readings: tuple[str, str]) -> None:
        self.cell, self.patterns, self.readings = cell, patterns, readings
        super().__init__(f"{cell!r} may be {readings[0]} or {readings[1]}")


class DateError(ValueError):
    """A text is not a date. row: its index."""

    def __init__(self, message: str, row: int) -> None:
        self.row = row
        super().__init__(message)


def parse_times(values: Sequence[Any] | NDArray[Any]) -> NDArray[np.datetime64]:
    """Return texts as datetime64[us] of shape (n,). Dates with a time zone are converted to UTC.

    The first texts decide how all of them are written: as ISO 8601, or in one of the formats above. Dates without a
    year, as in syslog, are in the year 2000, and in the next one from a December to a January.

    values: (n,) texts. One that is missing, or is not a date in the format of the others, raises ``DateError``, with
    its index as ``row``; dates that can be read in two ways raise ``AmbiguousDateError``.

    >>> parse_times(["[01/Mar/2026:00:00:06 +0100]", "[01/Mar/2026:00:00:07 +0100]"])
    array(['2026-02-28T23:00:06.000000', '2026-02-28T23:00:07.000000'], dtype='datetime64[us]')
    >>> parse_times(["Dec 31 23:59:59", "Jan  1 00:00:02"])
    array(['2000-12-31T23:59:59.000000', '2001-01-01T00:00:02.000000'], dtype='datetime64[us]')
    """
    cells = list(values)
    pattern = None
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    if texts and parse_date(texts[0]) is None:
        pattern = find_pattern(texts)
    dates = [None if not isinstance(cell, str) else parse(cell, pattern) for cell in cells]
    zoned = next((date.tzinfo is not None for date in dates if date is not None), False)
    for row, (cell, date) in enumerate(zip(cells, dates, strict=True)):
        if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):
            raise DateError("the time is missing", row)
        if date is None:
            wanted = "an ISO 8601 date" if pattern is None else f"a date as {pattern}"
            raise DateError(f"{cell!r} is not {wanted}", row)
        if (date.tzinfo is not None) != zoned:
            raise DateError(f"{cell!r} has {'no' if zoned else 'a'} time zone, unlike the first time", row)
    times = np.array([ticks(date) for date in dates if date is not None], dtype=np.int64).view("M8[us]")
    return times if has_year(pattern) else add_years(times)


def parse_date(cell: object) -> datetime | None:
    """Return an ISO 8601 date, in UTC if it has a time zone; None if it is invalid or outside the years 1 to 9999.

    >>> parse_date("2024-01-01 12:00 UTC")
    datetime.datetime(2024, 1, 1, 12, 0, tzinfo=datetime.timezone.utc)
    """
    if not isinstance(cell, str):
        return None
    text = cell.strip()
    if text.endswith(("UTC", "GMT")):
        text = UTC_NAME.sub("Z", text)
    try:
        date = datetime.fromisoformat(text)
        return date if date.tzinfo is None else date.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def parse(cell: str, pattern: str | None) -> datetime | None:
    """Return a date in a pattern of ``strptime``, in UTC if it has a time zone; None if the cell does not match.

    A weekday before the date and brackets around it are ignored, unless they are in the pattern. None stands for ISO
    8601. A date without a year is in the year 2000.

    >>> parse("Sun, 01 Mar 2026 00:00:06 GMT", "%d %b %Y %H:%M:%S %z")
    datetime.datetime(2026, 3, 1, 0, 0, 6, tzinfo=datetime.timezone.utc)
    """
    if pattern is None:
        return parse_date(cell)
    texts = [cell.strip()]
    bare = strip(cell, zone="%z" in pattern)
    if bare != texts[0]:
        texts.append(bare)
    if not has_year(pattern):
        texts, pattern = [f"{ASSUMED_YEAR} {text}" for text in texts], f"%Y {pattern}"
    for text in texts:
        try:
            date = datetime.strptime(text, pattern)
            return date if date.tzinfo is None else date.astimezone(UTC)
        except (OverflowError, ValueError):
            continue
    return None


def strip(cell: str, *, zone: bool = False) -> str:
    """Return a date without a weekday before it and brackets around it. zone: whether to write UTC as +0000."""
    text = cell.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1].strip()
    text = WEEKDAY.sub("", text, count=1) if text[:1].isalpha() else text
    return UTC_NAME.sub(" +0000", text) if zone and text.endswith(("UTC", "GMT")) else text


def has_year(pattern: str | None) -> bool:
    """Return whether dates in a pattern have a year. None stands for ISO 8601."""
    return pattern is None or any(code in pattern for code in ("%Y", "%y", "%G", "%c", "%x", "%D"))


def find_pattern(texts: Sequence[str]) -> str | None:
    """Return the pattern of ``strptime`` of at least half of the texts, None if they are not dates, or ISO 8601.

    >>> find_pattern(["03/04/2025", "31/12/2025"])
    '%d/%m/%Y'
    >>> find_pattern(["03/04/2025"])
    Traceback (most recent call last):
        ...
    dyncrp.arrays.dates.AmbiguousDateError: '03/04/2025' may be 2025-04-03 or 2025-03-04
    """
    if not texts or parse_date(texts[0]) is not None:
        return None
    tried = dict.fromkeys(pattern for text in texts[:FEW] for pattern in fitting(text))
    counts = {pattern: sum(parse(text, pattern) is not None for text in texts) for pattern in tried}
    most = max(counts.values(), default=0)
    if not most or 2 * most < len(texts):
        return None
    first, *others = (pattern for pattern, n in counts.items() if n == most)
    for other in others:
        for text in texts:
            dates = parse(text, first), parse(text, other)
            if dates[0] is not None and dates[1] is not None and dates[0] != dates[1]:
                readings = f"{dates[0]:%Y-%m-%d}", f"{dates[1]:%Y-%m-%d}"
                raise AmbiguousDateError(text, (first, other), readings)
    return first


def fitting(text: str) -> Iterator[str]:
    """Yield the patterns in which a text is a date that is not ISO 8601.

    >>> list(fitting("2012/01/05 10:00")), list(fitting("seldom"))
    (['%Y/%m/%d %H:%M'], [])
    """
    bare = strip(text)
    if len(bare) > LONGEST_DATE or not any(map(str.isdigit, bare)):
        return
    clock = CLOCK.search(bare)
    days, hours = DAYS, ""
    if clock is None:
        days = [day for day in DAYS if day != NO_YEAR]  # by itself, it may as well be a month and a year
    else:
        between = clock["between"] if clock["between"] in ("T", ":") else "," * ("," in clock["between"]) + " "
        hours = f"{between}%{'I' if clock['half'] else 'H'}:%M" + ":%S" * bool(clock["seconds"])
        hours += f"{clock['fraction'][0]}%f" if clock["fraction"] else ""
        hours += f"{clock['gap']}%p" if clock["half"] else ""
        if clock["year"]:
            days, hours = [NO_YEAR], hours + " %Y"
        if clock["zone"]:
            hours += " " * (clock["zone"].startswith(" ") or clock["zone"] in ("UTC", "GMT")) + "%z"
    for day in days:
        if parse(text, day + hours) is not None:
            yield day + hours


def is_date(text: str) -> bool:
    """Return whether a text is a date, as ISO 8601 or in another of the formats. Digits only may be anything.

    >>> is_date("2012/01/05 10:00"), is_date("2012-01-05"), is_date("seldom")
    (True, True, False)
    """
    return not text.strip().isdigit() and (parse_date(text) is not None or any(fitting(text)))


def ticks(date: datetime) -> int:
    """Return microseconds since 1970, of a date in UTC or without a time zone."""
    return (date.replace(tzinfo=None) - EPOCH) // MICROSECOND


def read_dates(cells: Sequence[Any], pattern: str | None) -> NDArray[np.datetime64]:
    """Return cells as datetime64[us] (n,), with NaT for those that are not dates in a pattern."""
    found = (parse(cell, pattern) if isinstance(cell, str) else None for cell in cells)
    return np.fromiter((NAT if date is None else ticks(date) for date in found), np.int64, len(cells)).view("M8[us]")


def add_years(times: NDArray[np.datetime64], last: int | None = None) -> NDArray[np.datetime64]:
    """Return times of the assumed year, in the year after the one before where they jump back by half a year.

    times: (n,) datetime64[us], with no NaT. last: microseconds of the time before them, with its year, if there is one.

    >>> add_years(np.array(["2000-12-31", "2000-01-01"], dtype="M8[us]")).astype("M8[D]")
    array(['2000-12-31', '2001-01-01'], dtype='datetime64[D]')
    """
    if not len(times):
        return times
    before = times[:1]
    year = 0
    if last is not None:
        latest = np.array([last]).view("M8[us]")
        year = int(latest.astype("M8[Y]").astype(int)[0]) + 1970 - ASSUMED_YEAR
        before = _shift(latest, np.array([-year]))
    jumps = np.diff(np.concatenate([before, times])) < -HALF_A_YEAR
    return _shift(times, year + np.cumsum(jumps))


def _shift(times: NDArray[np.datetime64], years: NDArray[np.int64]) -> NDArray[np.datetime64]:
    """Return the same days and hours so many years later."""
    months = times.astype("M8[M]")
    return (months + 12 * years).astype("M8[us]") + (times - months)

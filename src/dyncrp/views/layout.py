"""Tables of text: cells, columns that are aligned, and times, for terminals and for ``print``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

GAP = "  "
LONGEST_NAME = 24  # characters of a feature's name
HOUR, MONTH = np.timedelta64(1, "h"), np.timedelta64(30, "D")


def aligned(title: str, values: Sequence[Any], *, right: bool = True) -> list[str]:
    """Return a title and values as texts of equal length. Numbers are right-aligned, and texts too if ``right``.

    >>> aligned("rows", [5, 12345])
    ['  rows', '     5', '12,345']
    """
    right = right or not any(isinstance(value, str) for value in values)
    cells = [title, *map(as_cell, values)]
    length = max(map(len, cells))
    return [cell.rjust(length) if right else cell.ljust(length) for cell in cells]


def total_width(columns: Sequence[list[str]]) -> int:
    """Return the length of a line of these columns."""
    return sum(len(cells[0]) + len(GAP) for cells in columns) - len(GAP)


def as_cell(value: Any) -> str:
    """Return a text as it is, an integer in full, and any other number with four digits.

    >>> [as_cell(value) for value in (12345, 12345.6, 0.123456, -0.0, 1.5e-7, 4.1e22, "3 93 %")]
    ['12,345', '12,346', '0.1235', '0', '1.5e-07', '4.1e+22', '3 93 %']
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value + 0.0:.4g}"


def percent(share: float) -> str:
    """Return a share as a percentage; one that would be rounded to 0 is shown as <1 %.

    >>> percent(0.5), percent(0.006), percent(0.005), percent(0.0)
    ('50 %', '1 %', '<1 %', '0 %')
    """
    return "<1 %" if 0.0 < share <= 0.005 else f"{100.0 * share:.0f} %"


def dates(first: Any, last: Any, *, days: bool = False) -> tuple[list[str], list[str]]:
    """Return first and last dates as texts, with minutes, or with seconds if all are within an hour.

    days: whether to leave out the time of day if they span a month.

    >>> first, last = np.array(["2026-01-01T10:00:20", "2026-01-02T00:00:00"], "M8[s]")[:, None]
    >>> dates(first, last)
    (['2026-01-01 10:00'], ['2026-01-02 00:00'])
    """
    span = np.max(last) - np.min(first)
    unit = "M8[D]" if days and span >= MONTH else "M8[m]" if span >= HOUR else "M8[s]"
    start, end = ([str(t).replace("T", " ") for t in times.astype(unit)] for times in (first, last))
    return start, end


def short_name(name: str, most: int = LONGEST_NAME) -> str:
    """Return a name, shortened to one line."""
    plain = "".join(letter if letter.isprintable() else " " for letter in name)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def first_parts(text: str, room: int) -> str:
    """Return as much of a list as fits, and at least its first part.

    >>> first_parts("storm (lift 3.1), coast (3), the (1)", 30)
    'storm (lift 3.1), coast (3), …'
    """
    if len(text) <= room:
        return text
    first, *others = text.split(", ")
    while others and len(", ".join([first, *others, "…"])) > room:
        others.pop()
    return ", ".join([first, *others, "…"])

"""Which columns are clustered, and what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from dyncrp.input.entries import BOOLEAN, CATEGORY, NUMBER, TIMES, Entry
from dyncrp.input.infer import infer_entry
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import parse_date
from dyncrp.io.readers.dates import PATTERNS, parse
from dyncrp.io.readers.formats import Format, NumberFormat, YesNo


def choose_columns(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the selected names, each once. Select by name, position (#3), range (x1-x20) or pattern (x_*).

    Raises ``LookupError``, with the text as its argument, if a text matches no column.

    >>> choose_columns(["t", "x1", "x2", "x3", "y-z"], ["y-z", "x1-x2", "#4", "x*"])
    ['y-z', 'x1', 'x2', 'x3']
    """
    places = {f"#{at + 1}": at for at in range(len(names))} | {name: at for at, name in enumerate(names)}
    found: list[str] = []
    for text in wanted:
        if text in places:
            found.append(names[places[text]])
            continue
        ends = [(text[:at], text[at + 1 :]) for at, mark in enumerate(text) if mark == "-"]
        between = [(places[first], places[last]) for first, last in ends if first in places and last in places]
        if len(between) == 1 and between[0][0] <= between[0][1]:
            found += names[between[0][0] : between[0][1] + 1]
            continue
        fitting = [name for name in names if fnmatchcase(name, text)]
        if not fitting:
            raise LookupError(text)
        found += fitting
    return list(dict.fromkeys(found))


def infer_column(name: str, format: Format | None, column: Sequence[object], *, keep: bool = False) -> Entry:
    """Return what a column holds, given its first cells that are not missing.

    format: how they are written, None for text. keep: whether the column must not be left out.

    >>> infer_column("protocol", None, ["tcp", "udp", "tcp"]).kind
    'category'
    """
    if isinstance(format, YesNo):
        return infer_entry(name, BOOLEAN, [str(cell).lower() for cell in column], (format.yes, format.no), keep=keep)
    if isinstance(format, NumberFormat):
        numbers = cells.as_numbers(format.read(column))
        return infer_entry(name, NUMBER, numbers[np.isfinite(numbers)], keep=keep)
    dates = column and any(parse_date(column[0]) or parse(str(column[0]), pattern) for pattern in PATTERNS)
    return infer_entry(name, TIMES if dates else CATEGORY, [str(cell).strip() for cell in column], keep=keep)


def name_repeated(names: Sequence[str]) -> list[str]:
    """Return the names of columns, with positions in place of repeated names.

    >>> name_repeated(["x", "y", "x"])
    ['#1', 'y', '#3']
    """
    counts = Counter(names)
    return [name if counts[name] == 1 else f"#{at}" for at, name in enumerate(names, 1)]

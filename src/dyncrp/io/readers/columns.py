"""Which columns are clustered: those that are named, or those that hold numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import parse_date
from dyncrp.io.readers.dates import PATTERNS, parse
from dyncrp.io.readers.formats import Format, NumberFormat, YesNo

FEW_ROWS = 20  # too few to tell from them that a column is constant, or counts the rows
MOST_NAMED = 20  # columns in a list of a message
CATEGORY, TIMES, COUNTER = "category", "times", "counts the rows"


def choose_columns(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the names that are wanted, each once: by name, by position (#3), in a range (x1-x20), or as x_*.

    What fits nothing is a ``LookupError`` whose argument it is.

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


def judge_column(format: Format | None, column: Sequence[object]) -> str | None:
    """Return why a column of a file that has more than plain numbers is left out, None if it is clustered.

    column: its first cells, without those that are missing; format: how they are written, None for text.

    >>> judge_column(None, ["tcp", "udp", "tcp"]), judge_column(NumberFormat(), ["0"] * 50)
    ('category', 'constant')
    """
    if not column:
        return "empty"
    different = {str(cell) for cell in column}
    if format is None and any(parse_date(column[0]) or parse(str(column[0]), pattern) for pattern in PATTERNS):
        return TIMES
    if len(column) >= FEW_ROWS and len(different) == 1:
        return "constant"
    if format is None:
        return "every row differs" if len(different) == len(column) >= FEW_ROWS else CATEGORY
    return COUNTER if counts_rows(format, column) else None


def counts_rows(format: Format | None, column: Sequence[object]) -> bool:
    """Tell whether each number of a column is the one before plus 1, as those of an id or an index are."""
    if not isinstance(format, NumberFormat) or len(column) < FEW_ROWS:
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.diff(cells.as_numbers(format.read(column))) == 1.0))


def describe_columns(formats: dict[str, Format | None], reasons: dict[str, str | None]) -> str:
    """Return one line: how many columns hold numbers and yes or no, and which are left out, and why.

    formats: of all columns. reasons: why a column is left out, None if it is not.

    >>> describe_columns({"x": NumberFormat(), "p": None, "id": None}, {"p": "category", "id": "every row differs"})
    'numbers: 1; categories: p; left out: id (every row differs)'
    """
    clustered = [format for name, format in formats.items() if reasons.get(name) is None]
    n_yes_no = sum(isinstance(format, YesNo) for format in clustered)
    others = [f"{name} ({reason})" for name, reason in reasons.items() if reason not in (None, CATEGORY)]
    parts = {
        "numbers": str(len(clustered) - n_yes_no or ""),
        "categories": join_columns([name for name, reason in reasons.items() if reason == CATEGORY]),
        "yes/no": str(n_yes_no or ""),
        "left out": join_columns(others),
    }
    return "; ".join(f"{name}: {text}" for name, text in parts.items() if text)


def join_columns(names: Sequence[str]) -> str:
    """Return names between commas, the first 20 of many."""
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def name_repeated(names: Sequence[str]) -> list[str]:
    """Return the names, with positions in place of those that several columns have.

    >>> name_repeated(["x", "y", "x"])
    ['#1', 'y', '#3']
    """
    counts = Counter(names)
    return [name if counts[name] == 1 else f"#{at}" for at, name in enumerate(names, 1)]

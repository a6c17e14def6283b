"""How the numbers of a column are written, inferred from its first cells: 1.234,56 €, 12 %, 1 000, yes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyncrp.input.entries import quote
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column
from dyncrp.io.readers.dates import DateFormat

UNIT = "[€$£¥₹₽₩%‰]|EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|kr|zł"
SIGN = r"[+\-−]?"
NUMBER = re.compile(
    rf"(?P<sign>{SIGN})\s*(?P<before>{UNIT})?\s*(?P<inner>{SIGN})\s*"
    rf"(?P<digits>(?:[0-9][0-9.,'’\s]*|[.,])?[0-9])(?P<power>e[+-]?[0-9]+)?\s*(?P<after>{UNIT})?",
    re.IGNORECASE,
)
ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")  # an IP address is not a number with thousands
PAIRS = (("yes", "no"), ("true", "false"), ("y", "n"), ("t", "f"), ("on", "off"))


@dataclass(frozen=True)
class NumberFormat:
    """Numbers with a decimal mark, a mark between thousands (" " is any space), and a unit before or after them.

    >>> NumberFormat(",", ".", "€").read(["1.234,56 €", "-€ 5", "n/a"])
    [1234.56, -5.0, 'n/a']
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""

    def read(self, column: Column) -> list[Any]:
        """Return the numbers of a column; cells that are not numbers stay unchanged."""
        return [cell if (number := self.number(cell)) is None else number for cell in column]

    def number(self, cell: object) -> float | None:
        """Return the number in a cell, None if it is not a number."""
        if not isinstance(cell, str):
            return cell if cells.is_number(cell) else None  # type: ignore[return-value]
        parts = _split(cell)
        if parts is None or parts[2] not in ("", self.unit):
            return None
        negative, digits, _, power = parts
        grouped = rf"[1-9][0-9]{{0,2}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|" if self.thousands else ""
        if not re.fullmatch(rf"(?:{grouped}[0-9]*)(?:{re.escape(self.decimal)}[0-9]+)?", digits):
            return None
        if self.thousands:
            digits = digits.replace(self.thousands, "")
        value = float(digits.replace(self.decimal, ".") + power)
        return -value if negative else value


@dataclass(frozen=True)
class YesNo:
    """Two words, one for 1 and one for 0. The words "true" and "false" also stand for the booleans of JSON.

    >>> YesNo("true", "false").read(["True", "false", True, "?"])
    [1.0, 0.0, 1.0, '?']
    """

    yes: str
    no: str

    def read(self, column: Column) -> list[Any]:
        """Return 1 and 0 for the words of a column; other cells stay unchanged."""
        values = {self.yes: 1.0, self.no: 0.0}
        return [values.get(str(cell).strip().lower(), cell) for cell in column]


Format = NumberFormat | YesNo | DateFormat
MARKS = [(decimal, thousands) for decimal in ".," for thousands in ("", ",", ".", " ", "'") if decimal != thousands]


def restore_format(values: dict[str, str]) -> Format:
    """Return a format from its fields."""
    kind = YesNo if "yes" in values else DateFormat if "pattern" in values else NumberFormat
    return kind(**values)


def describe_format(format: Format, column: Sequence[object]) -> str:
    """Describe a format by an example from the column: the longest number.

    >>> describe_format(NumberFormat(",", "."), ["5", "1.234,56"])
    "'1.234,56' is read as 1234.56"
    """
    if isinstance(format, YesNo):
        return f"{format.yes} is read as 1, {format.no} as 0"
    if isinstance(format, DateFormat):
        date = next(cell for cell in column if not np.isnat(format.read([cell])[0]))
        return f"{quote(date)} is read as {format.read([date])[0].astype('M8[s]')}"
    longest = max((cell for cell in column if format.number(cell) is not None), key=lambda cell: len(str(cell)))
    return f"{quote(longest)} is read as {format.number(longest):.15g}"


class AmbiguousError(ValueError):
    """The numbers of a column can be read in two ways."""


def find_format(column: Sequence[object], decimal: str | None) -> NumberFormat | YesNo | None:
    """Return how the cells of a column are written; None if they are not numbers.

    No cell may be missing, and at least half of them must be numbers. decimal: the mark, if it is known. Numbers that
    consist of digits and this mark, or a point, have a ``NumberFormat`` with only the mark.

    >>> find_format(["12.5", "1,250.0"], None)
    NumberFormat(decimal='.', thousands=',', unit='')
    >>> find_format(["$1,250", "$980"], None)
    Traceback (most recent call last):
        ...
    dyncrp.io.readers.formats.AmbiguousError: '$1,250' may be 1250 or 1.25: --decimal . or --decimal , says which
    """
    if not column:
        return None
    plain = NumberFormat(decimal or ".")
    simple = [cell.replace(",", ".") if decimal == "," and isinstance(cell, str) else cell for cell in column]
    n_plain = int(np.isfinite(cells.as_numbers(simple)).sum())
    if n_plain == len(column):  # where commas are decimal, a point is an error then, not a mark between thousands
        return plain
    if all(isinstance(cell, bool) for cell in column):
        return YesNo("true", "false")
    words = {str(cell).strip().lower() for cell in column}
    for pair in PAIRS:
        if words == set(pair):  # one of them alone would not be enough
            return YesNo(*pair)
    # If numbers are mostly plain, another format must match every cell.
    mostly_plain = 2 * n_plain >= len(column)
    found = _find_marks(column, decimal, n_least=len(column) if mostly_plain else len(column) / 2)
    return plain if mostly_plain and (found is None or found.unit) else found


def find_formats(columns: dict[str, list[Any]], decimal: str | None) -> dict[str, Format | None]:
    """Return ``find_format`` of each column, None for text.

    A column that can be read in two ways is read like the others; if they do not decide, this raises
    ``AmbiguousError``.
    """
    found: dict[str, Format | None] = {}
    unclear = {}
    marks = set[str]()
    for name, column in columns.items():
        try:
            found[name] = format = find_format(column, decimal)
        except AmbiguousError as error:
            found[name], unclear[name] = None, error
            continue
        if isinstance(format, NumberFormat) and any(isinstance(c, str) and format.decimal in c for c in column):
            marks.add(format.decimal)
    for name, fault in unclear.items():
        if len(marks) != 1:
            raise AmbiguousError(f"column {name!r}: {fault}")
        found[name] = find_format(columns[name], min(marks))
    return found


def _find_marks(column: Sequence[object], decimal: str | None, n_least: float) -> NumberFormat | None:
    """Return the marks and the unit with which the most cells are numbers, if these are at least n_least."""
    texts = [cell.strip() for cell in column if isinstance(cell, str)]
    parts = [split for cell in texts if (split := _split(cell))]
    units = {unit for _, _, unit, _ in parts} - {""}
    if len(parts) < n_least or len(units) > 1 or all(map(ADDRESS.fullmatch, texts)):
        return None
    unit = min(units, default="")
    choices = [NumberFormat(*marks, unit) for marks in MARKS if decimal in (None, marks[0])]
    counts = [sum(choice.number(cell) is not None for cell in column) for choice in choices]
    if max(counts) < n_least:
        return None
    best = [choice for choice, n in zip(choices, counts, strict=True) if n == max(counts)]
    for cell in column:
        first, *others = (choice.number(cell) for choice in best)
        other = next((value for value in others if value != first), None)
        if first is not None and other is not None:
            readings = f"{quote(cell)} may be {first:.15g} or {other:.15g}"
            raise AmbiguousError(f"{readings}: --decimal . or --decimal , says which")
    # If no cell has thousands, the other mark may still come between thousands in later rows.
    seen = {choice.decimal for choice in best} == {best[0].decimal}
    return best[1] if seen and len(best) > 1 and best[1].thousands in (",", ".") else best[0]


def _split(cell: str) -> tuple[bool, str, str, str] | None:
    """Return whether a number is negative, its digits with marks, its unit and its power of ten."""
    found = NUMBER.fullmatch(cell.strip())
    if found is None or (found["before"] and found["after"]) or (found["sign"] and found["inner"]):
        return None
    negative = (found["sign"] or found["inner"]) in ("-", "−")
    digits = re.sub(r"\s", " ", found["digits"]).replace("’", "'")
    return negative, digits, found["before"] or found["after"] or "", found["power"] or ""

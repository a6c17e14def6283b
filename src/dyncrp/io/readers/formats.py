"""How the numbers of a column are written, inferred from its first cells: 1.234,56 €, 12 %, 1 000, yes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dyncrp.input.entries import PAIRS, quote
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column
from dyncrp.io.readers.dates import DateFormat

UNIT = "[€$£¥₹₽₩%‰]|EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|kr|zł"
SIGN = r"[+\-−]?"
NUMBER = re.compile(
    rf"(?P<sign>{SIGN})\s*(?P<before>{UNIT})?\s*(?P<inner>{SIGN})\s*"
    rf"(?P<digits>(?:[0-9][0-9.,'’\s]*|[.,][0-9]*)?[0-9])(?P<power>e[+-]?[0-9]+)?\s*(?P<after>{UNIT})?",
    re.IGNORECASE,
)
GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")  # points may be between thousands
WHOLE = re.compile(r"[+-]?[0-9]+")
PADDED = re.compile(r"[+-]?0[0-9]")
VERSION = re.compile(r"[0-9]\.[0-9]")
ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")  # an IP address is not a number with thousands
LEAST_POINTED = 20  # numbers with three decimals beside whole ones, which are then taken to have thousands


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
        """Return the numbers of a column; cells that are not numbers stay unchanged, None if they have other marks."""
        return [self._as_plain(cell) if (number := self.number(cell)) is None else number for cell in column]

    def _as_plain(self, cell: object) -> object:
        """Return a cell that is not a number in this format, None if it would be one in plain writing."""
        return None if isinstance(cell, str) and np.isfinite(cells.as_numbers([cell])[0]) else cell

    def number(self, cell: object) -> float | None:
        """Return the number in a cell, None if it is not a number."""
        if not isinstance(cell, str):
            return cell if cells.is_number(cell) else None  # type: ignore[return-value]
        if self == PLAIN and np.isfinite(plain := cells.as_numbers([cell])[0]):
            return float(plain)  # whatever Python takes, such as 5.
        parts = _split(cell)
        if parts is None or parts[2] not in ("", self.unit):
            return None
        negative, digits, _, power = parts
        if not _pattern(self.decimal, self.thousands).fullmatch(digits):
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


PLAIN, GERMAN = NumberFormat(), NumberFormat(",", ".")


@cache
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    """Return the pattern of digits with these marks. With commas, groups may also be Indian: 12,34,567."""
    mark = re.escape(thousands)
    grouped = rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+|" if thousands else ""
    grouped += rf"[1-9][0-9]?(?:{mark}[0-9]{{2}})+{mark}[0-9]{{3}}|" if thousands == "," else ""
    return re.compile(rf"(?:{grouped}[0-9]*)(?:{re.escape(decimal)}[0-9]+)?")


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


def reads_plainly(format: Format, column: Sequence[object]) -> bool:
    """Return whether all cells of a column would be the same numbers if they were plain."""
    return isinstance(format, NumberFormat) and all(
        format.number(cell) in (None, value) for cell, value in zip(column, cells.as_numbers(column), strict=True)
    )


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
    if n_plain == len(column):
        pointed = decimal == "," and any(isinstance(cell, str) and "." in cell for cell in column)
        # Points are then between thousands in all cells; if they are not, those cells are errors.
        return (_find_marks(column, decimal, n_least=len(column)) if pointed else None) or plain
    if all(isinstance(cell, bool) for cell in column):
        return YesNo("true", "false")
    words = {str(cell).strip().lower() for cell in column}
    for pair in PAIRS:
        if words == set(pair):  # one of them alone would not be enough
            return YesNo(*pair)
    # If numbers are mostly plain, another format must match every cell.
    mostly_plain = 2 * n_plain >= len(column)
    n_numbers = sum(isinstance(cell, str) and _split(cell) is not None for cell in column) if mostly_plain else 0
    found = _find_marks(column, decimal, n_least=max(n_numbers, n_plain + 1) if mostly_plain else len(column) / 2)
    return plain if mostly_plain and (found is None or found.unit) else found


def find_formats(
    columns: dict[str, list[Any]], decimal: str | None, *, commas: bool = False
) -> dict[str, Format | None]:
    """Return ``find_format`` of each column, None for text.

    A column that can be read in two ways is read like the others; if they do not decide, this raises
    ``AmbiguousError``. If the others have decimal commas, points are between thousands where whole numbers are beside
    them. commas: whether cells are
    separated as they are where commas are decimal, by semicolons.

    >>> find_formats({"price": ["0,99", "1,50"], "sold": ["6.424", "688"]}, None)["sold"]
    NumberFormat(decimal=',', thousands='.', unit='')
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
        if isinstance(format, NumberFormat) and _shows_mark(column, format, commas=commas):
            marks.add(format.decimal)
    for name, fault in unclear.items():
        # Between semicolons, a comma may be decimal even if another column has points.
        if len(marks) != 1 or (commas and marks == {"."} and any("," in str(cell) for cell in columns[name])):
            raise AmbiguousError(f"column {name!r}: {fault}")
        found[name] = find_format(columns[name], min(marks))
    for name, column in columns.items():
        if decimal is None and found[name] == PLAIN and all(isinstance(cell, str) for cell in column):
            found[name] = _find_points(name, column, marks, commas=commas)
    return found


def _shows_mark(column: Sequence[object], format: NumberFormat, *, commas: bool) -> bool:
    """Return whether a column shows which mark is decimal.

    Days and hours such as 01.02 do not. Between semicolons, numbers such as 1.0 do not either: they may be versions.
    """
    certain = [cell.strip() for cell in column if isinstance(cell, str) and _is_decimal(cell, format)]
    if any(map(PADDED.match, certain)):
        return False
    return bool(certain) and not (commas and all(map(VERSION.fullmatch, certain)))


def _is_decimal(cell: str, format: NumberFormat) -> bool:
    """Return whether a cell has a decimal mark for certain: in plain numbers, a point may be between thousands."""
    if format.decimal not in cell or format.number(cell) is None:
        return format != PLAIN and format.decimal in cell
    return format != PLAIN or GROUPED.fullmatch(cell.strip()) is None


def _find_points(name: str, column: Sequence[str], marks: set[str], *, commas: bool) -> NumberFormat:
    """Return the format of a column of plain numbers, in which points may be between thousands: 6.424 beside 688.

    Raises ``AmbiguousError`` if they may be, and the other columns do not decide. Numbers whose last zeros are cut off
    rarely have three decimals each; between semicolons, one such number is enough.

    marks: the decimal marks of the other columns. commas: whether cells are separated by semicolons.
    """
    texts = [cell.strip() for cell in column if cells.is_number(cell)]
    pointed = [cell for cell in texts if "." in cell]
    whole = [cell for cell in texts if "." not in cell]
    if any(GROUPED.fullmatch(cell) is None for cell in pointed) or any(WHOLE.fullmatch(cell) is None for cell in whole):
        return PLAIN
    if not pointed:
        return GERMAN if marks == {","} else PLAIN
    short = all(len(cell.lstrip("+-")) <= 3 for cell in whole)  # none lacks a mark that it would have
    if whole and short and marks == {","}:
        return GERMAN
    if whole and short:
        doubtful = "," in marks or len(pointed) >= (1 if commas else LEAST_POINTED)
    else:
        doubtful = "," in marks or (commas and not whole and "." not in marks)
    if doubtful:
        raise AmbiguousError(f"column {name!r}: {_readings(pointed[0], PLAIN, GERMAN)}")
    return PLAIN


def may_get_thousands(column: Sequence[object]) -> bool:
    """Return whether numbers are whole and short, so that a later 1.000 may be one or a thousand.

    >>> may_get_thousands(["5", "688"]), may_get_thousands(["5", "1688"]), may_get_thousands(["0.5"])
    (True, False, False)
    """
    parts = (_split(cell) for cell in column if isinstance(cell, str))
    return all(split is None or (split[1].isdigit() and len(split[1]) <= 3) for split in parts)


def why_unclear(cell: object) -> str:
    """Return why a cell may be two numbers, since a point may be between thousands; "" if it is clear.

    >>> why_unclear("1.000"), why_unclear("0.5")
    ("'1.000' may be 1 or 1000; --decimal . or --decimal , says which", '')
    """
    split = _split(cell) if isinstance(cell, str) else None
    if split is None or split[3] or GROUPED.fullmatch(split[1]) is None or split[1].count(".") > 1:
        return ""
    format = NumberFormat(".", "", split[2])
    return _readings(cell, format, NumberFormat(",", ".", split[2])).replace(": ", "; ")


def _readings(cell: object, first: NumberFormat, other: NumberFormat) -> str:
    """Return the two ways in which a cell can be read, and which option decides."""
    readings = f"{quote(cell)} may be {first.number(cell):.15g} or {other.number(cell):.15g}"
    return f"{readings}: --decimal {first.decimal} or --decimal {other.decimal} says which"


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
        first = best[0].number(cell)
        other = next((choice for choice in best if choice.number(cell) not in (first, None)), None)
        if first is not None and other is not None:
            raise AmbiguousError(_readings(cell, best[0], other))
    # If no cell has thousands, the other mark may still come between thousands in later rows.
    seen = {choice.decimal for choice in best} == {best[0].decimal}
    return best[1] if seen and len(best) > 1 and best[1].thousands in (",", ".") else best[0]


def _split(cell: str) -> tuple[bool, str, str, str] | None:
    """Return whether a number is negative, its digits with marks, its unit and its power of ten."""
    text = cell.strip()
    in_brackets = text.startswith("(") and text.endswith(")")  # negative, as accountants write it
    found = NUMBER.fullmatch(text[1:-1].strip() if in_brackets else text)
    if found is None or (found["before"] and found["after"]) or (found["sign"] and found["inner"]):
        return None
    sign = found["sign"] or found["inner"]
    if in_brackets and sign:
        return None
    negative = in_brackets or sign in ("-", "−")
    digits = re.sub(r"\s", " ", found["digits"]).replace("’", "'")
    return negative, digits, found["before"] or found["after"] or "", found["power"] or ""

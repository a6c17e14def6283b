"""Cells in quotes and between blanks: where they end, and what is wrong with them."""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from dyncrp.io.readers.cells import is_number
from dyncrp.io.readers.header import FIRST, find_unnamed
from dyncrp.io.readers.lines import BOM

WHITESPACE = "whitespace"  # as a delimiter: any number of blanks and tabs
BRACKETS = re.compile(r'(?<!\S)\[([^\]"]*)\](?!\S)')  # as around the times of logs
MOSTLY = 0.9  # of the lines have equally many cells if white space separates them


@lru_cache
def cells_in_quotes(delimiter: str) -> re.Pattern[bytes]:
    r"""Return what matches cells in quotes, up to the end if the last one does not end.

    A quote within a cell that does not begin with one is a character like others, as in 5" pipe.

    >>> cells_in_quotes(",").findall(b'1,5" pipe,"a, b",2')
    [b'"a, b"']
    """
    marks = " \t" if delimiter == WHITESPACE else delimiter
    before = b"|".join(b"(?<=%b)" % re.escape(mark.encode()) for mark in f"{marks}\n")
    return re.compile(rb'(?:%b|\A|(?<=\A%b))"(?:[^"]++|"")*+(?:"|\Z)' % (before, BOM))


def join_by_blanks(line: str) -> str:
    """Return a line with single blanks as delimiters, for ``csv``. Cells in brackets are put in quotes.

    >>> join_by_blanks("a\t b  [c d] \\n")
    'a  b  "[c d]"'
    """
    return BRACKETS.sub(r'"[\1]"', line.replace("\t", " ").rstrip())


def escapes_quotes(text: str, dialect: dict[str, Any]) -> bool:
    """Return whether quotes within cells have a backslash before them, as MySQL and Spark write them.

    It must be so for all cells to be valid: in "C:\\", the backslash is one of the cell.

    >>> escapes_quotes('"a \\\\"b\\\\" c",1', {}), escapes_quotes('"C:\\\\",1', {})
    (True, False)
    """
    if '\\"' not in text:
        return False
    for escape in (None, "\\"):
        with suppress(csv.Error):
            deque(csv.reader(io.StringIO(text, newline="\n"), strict=True, escapechar=escape, **dialect), maxlen=0)
            return escape is not None
    return False


def describe_fault(fault: str) -> str:
    """Return an error of ``csv`` in words that tell what to change."""
    if "new-line character" in fault:
        return "a carriage return without a line feed; lines must end in a line feed"
    if "expected after" in fault:
        return (
            "after the quotation mark that ends a cell there must be a delimiter; within quotes, a quotation mark "
            'is written twice, ""'
        )
    return fault


def cells_between_blanks(line: str) -> list[str]:
    """Return the cells of a line, which may be in quotes.

    >>> cells_between_blanks('1  "a b"\t2')
    ['1', 'a b', '2']
    """
    with suppress(csv.Error):  # raised again when the cells are read
        return next(csv.reader([join_by_blanks(line)], delimiter=" ", skipinitialspace=True), [])
    return line.split()


def aligns(lines: Sequence[str]) -> bool:
    """Return whether lines have equally many cells between blanks, more than one, and the second has numbers.

    A few may have another number of cells. They are errors of their own. The first may have one cell less than all
    others, which then begin with the name of the row.
    """
    rows = [cells_between_blanks(line) for line in lines if line.strip()]
    n_alike = sum(len(row) == len(rows[0]) for row in rows)
    several = len(rows) > 1 and len(rows[0]) > 1 and n_alike >= MOSTLY * len(rows)
    several = several or (len(rows) > 1 and len(rows[0]) > 1 and find_unnamed(rows[0], rows[1:]) == FIRST)
    return several and any(is_number(cell.replace(",", ".")) for cell in rows[1])

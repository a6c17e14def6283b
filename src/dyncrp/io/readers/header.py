"""Whether the first line of CSV names the columns, and all of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise

from dyncrp.arrays.dates import is_date
from dyncrp.io.readers.cells import is_number, parse_date
from dyncrp.io.readers.formats import AmbiguousError, NumberFormat, find_format

LEAST_ROWS = 3  # fewer do not show that the first line differs from all others
LEAST_WORDS = 4  # in a first line that is a text, not the name of one
MOST_COMMENTS = 1000  # lines before the first row
YEAR = re.compile(r"(1[89]|20)[0-9]{2}")
FIRST, LAST = "first", "last"  # where the cell without a name is
NAMED_ROWS = "the rows have one cell more than the first line: the first cell is taken for the name of the row"
FIXED_WIDTH = (
    "columns of fixed width are not read: save them as CSV, with pandas.read_fwf(path).to_csv('rows.csv', index=False)"
)
HEADER_HINT = "the first line is taken for the names of the columns: if it is a row, use --no-header"


def find_unnamed(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str | None:
    """Return where the rows have one cell more than the header; None if they have not, or it is not clear.

    R writes the names of rows first, without a name for their column; they all differ. A delimiter at the end of each
    row is followed by an empty cell.

    >>> find_unnamed(["x", "y"], [["a", "1", "2"], ["b", "3", "4"], ["c", "5", "6"]])
    'first'
    >>> find_unnamed(["x", "y"], [["1", "2", ""], ["3", "4", ""], ["5", "6", ""]])
    'last'
    """
    if len(rows) < LEAST_ROWS or any(len(row) != len(header) + 1 for row in rows):
        return None
    if not any(row[-1].strip() for row in rows):
        return LAST
    return FIRST if len({row[0] for row in rows}) == len(rows) else None


def find_start(rows: Sequence[tuple[int, Sequence[str]]]) -> tuple[int, bool] | None:
    """Return the line at which a table begins that is not at the first line, and whether it begins without names.

    rows: the number of the line and the cells of each, from the first line on. From the beginning of the table on, all
    of them have equally many cells, and the first line has another number of cells. None if it is not so.

    >>> find_start([(1, ["150", "setosa"]), (2, ["5.1", "3.5", "0"]), (3, ["4.9", "3", "0"]), (4, ["4.7", "3", "0"])])
    (2, True)
    """
    width = len(rows[-1][1])
    start = len(rows)
    while start and len(rows[start - 1][1]) == width:
        start -= 1
    if not start or len(rows) - start < LEAST_ROWS or width < 2 or len(rows[0][1]) == width:
        return None
    line, cells = rows[start]
    return line, any(map(is_number, cells))


def count_comments(lines: Sequence[str]) -> int | None:
    """Return how many of the first lines begin with # and are comments; None if more lines must be known.

    The last of them names the columns if a delimiter splits it and the line after it, which has numbers, into equally
    many cells.

    >>> count_comments(["# by a program", "", "# 2026", "x,y", "1,2"]), count_comments(["#id,x", "a,1"])
    (3, 0)
    """
    marked = [line.startswith("#") for line in lines]
    if not any(marked[:1]):
        return 0
    n = next((i for i, line in enumerate(lines) if line.strip() and not marked[i]), None)
    if n is None:
        several = len(lines) > 1 and len(lines) <= MOST_COMMENTS and not _split_alike(*lines[-2:])
        return None if several or len(lines) == 1 else 0
    last = max(i for i in range(n) if marked[i])
    numbers = any(map(is_number, re.split(r"[,\t;|]", lines[n])))
    return last if numbers and _split_alike(lines[last], lines[n]) else n


def _split_alike(first: str, second: str) -> bool:
    """Return whether a delimiter splits two lines into equally many cells, and more than one."""
    return any(first.count(mark) == second.count(mark) > 0 for mark in ",\t;|")


def what_is_row(header: Sequence[str], row: Sequence[str]) -> str:
    """Return what shows that a first line is a row: a time, or numbers, above such in the next row; "" if nothing does.

    Several times, and numbers that rise, may be the names of columns.

    >>> what_is_row(["a", "2026-03-01"], ["b", "2026-03-02"]), what_is_row(["a", "7", "0.5"], ["b", "2", "1"])
    ('a time', 'numbers')
    >>> what_is_row(["day", "2026-03-01"], ["a", "17"]), what_is_row(["country", "1952", "1957"], ["a", "1", "2"])
    ('', '')
    """
    if len(row) != len(header):
        return ""
    numbers = {at: number for at, cell in enumerate(header) if (number := _number(cell)) is not None}
    times = [at for at, cell in enumerate(header) if at not in numbers and is_date(cell)]
    if len(times) == 1 and is_date(row[times[0]]):
        return "a time"
    rise = all(first < second for first, second in pairwise(numbers.values()))
    return "" if rise or any(_number(row[at]) is None for at in numbers) else "numbers"


def looks_like_row(header: Sequence[str]) -> bool:
    """Return whether a first line may be a row: it has numbers or a date, or is a text.

    Numbers that rise from column to column are names, such as years, and so is one year.

    >>> looks_like_row(["Adelie", "39.1", "18.7"]), looks_like_row(["country", "1952", "1957"])
    (True, False)
    >>> looks_like_row(["x", "y"]), looks_like_row(["Mar 01 00:00:12 host cron: session opened"])
    (False, True)
    """
    if len(header) == 1 and len(header[0].split()) >= LEAST_WORDS:
        return True
    numbers = [number for cell in header if (number := _number(cell)) is not None]
    if any(not first < second for first, second in pairwise(numbers)):
        return True
    if len(numbers) == 1:
        return not any(map(YEAR.fullmatch, header))
    return not numbers and sum(parse_date(cell) is not None for cell in header) == 1


def _number(cell: str) -> float | None:
    """Return the number that a cell may be, in any writing."""
    if is_number(cell):
        return float(cell)
    try:
        format = find_format([cell], None)
    except AmbiguousError:
        format = NumberFormat(".", ",")
    return format.number(cell) if isinstance(format, NumberFormat) else None


def suggest_columns(lines: Sequence[str], header: Sequence[str]) -> str:
    """Return how lines that were read as one column, and cannot be clustered, may be read.

    header: the name of the column, empty if it has none.

    >>> suggest_columns(["root:x:0:/root", "bin:x:2:/bin", "sys:x:3:/dev"], ["root:x:0:/root"])
    '; --delimiter : makes 4 columns of it'
    """
    lines = [line.strip("\r\n") for line in lines if line.strip()]
    for mark, least in (":", 3), ("~", 1), ("^", 1), (" ", 2):  # a time has two colons
        counts = {line.count(mark) for line in lines}
        if len(lines) >= LEAST_ROWS and len(counts) == 1 and min(counts) >= least:
            return f"; --delimiter {shlex.quote(mark)} makes {min(counts) + 1} columns of it"
    if 2 * sum("  " in line.strip() for line in lines) > len(lines):
        return f"; {FIXED_WIDTH}"
    option = "--no-header --text 0" if not header or looks_like_row(header) else f"--text {shlex.quote(header[0])}"
    return f"; --delimiter sets the character between cells, or {option} clusters the lines by their words"

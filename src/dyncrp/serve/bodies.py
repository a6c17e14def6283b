"""Read the body of a request: JSON, NDJSON, CSV or Arrow become columns of cells."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import real
from dyncrp.input.entries import quote
from dyncrp.serve.arrow import read_arrow
from dyncrp.serve.limits import LONGEST_NAME, Limits, RequestError

Float = NDArray[np.float64]
Cells = list[Any] | NDArray[Any]  # of a column: Python's values, or an array of float64 or datetime64
JSON, NDJSON, CSV, ARROW = "application/json", "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream"
BESIDE = ("times", "labels", "cannot_link", "sample_weight")  # what may come with the rows
KINDS = {JSON: JSON, "text/json": JSON, NDJSON: NDJSON, "application/ndjson": NDJSON, "application/jsonl": NDJSON}
KINDS |= {"application/json-lines": NDJSON, CSV: CSV, "application/csv": CSV, ARROW: ARROW}
CONSTANTS = {"NaN": None, "Infinity": math.inf, "-Infinity": -math.inf}  # what Python writes, and JSON does not have
BESIDE_ROWS = 32  # lists, objects and values of a request beside its rows
LONG_LINE = 2**16  # characters of a line of CSV; a shorter one has few cells
CELL = re.compile(r'(?:"[^"]*+(?:""[^"]*+)*+"?|(?!")[^,]*+),')  # with the comma after it
END_OF_CELL = re.compile(r'[^"]*+(?:""[^"]*+)*+"?,?')
NEITHER = bytes(set(range(256)) - set(b'"[{,'))  # what is not counted
NUMBERS, NUMBERS_OR_NONE = {int, float}, {int, float, type(None)}


@dataclass(frozen=True)
class Batch:
    """The rows of a request as they came.

    names: the names of the columns, None if rows are lists. numbers: (n, D) if rows are lists of numbers only. columns:
    otherwise, D columns of n cells each. times, labels, cannot_link, sample_weight: (n,) each, or None. text: whether
    every cell is a text that may stand for a number, as in CSV.
    """

    n: int
    names: tuple[str, ...] | None = None
    numbers: Float | None = None
    columns: tuple[Cells, ...] = ()
    times: Cells | None = None
    labels: Cells | None = None
    cannot_link: Cells | None = None
    sample_weight: Cells | None = None
    text: bool = False

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns) if self.numbers is None else self.numbers.shape[1]


class Roles(NamedTuple):
    """The names of the columns that hold something other than a feature."""

    times: str | None = None
    labels: str | None = None
    cannot_link: str | None = None
    sample_weight: str | None = None


def read_batch(content: bytes, media_type: str, roles: Roles, limits: Limits) -> Batch:
    """Return the rows of a body, whose Content-Type is ``media_type``; a bad body raises ``RequestError``.

    >>> batch = read_batch(b'{"rows": [{"x": 1, "y": 2}, {"x": 3}], "times": [0.5, 1]}', JSON, Roles(), Limits())
    >>> batch.names, batch.columns, batch.times
    (('x', 'y'), ([1, 3], [2, None]), [0.5, 1])
    """
    kind = KINDS.get(media_type.partition(";")[0].strip().lower())
    if kind is None:
        raise RequestError(415, f"rows come as {JSON}, {NDJSON}, {CSV} or {ARROW} (Content-Type), got {media_type!r}")
    read = {JSON: _read_json, NDJSON: _read_ndjson, CSV: _read_csv, ARROW: _read_arrow}[kind]
    return _take_roles(read(content, limits), roles)


def read_json(content: bytes, *, cells: bool = False) -> Any:
    """Return the value of a JSON text.

    Duplicate keys, deep nesting, and lone surrogates, which no answer could repeat, are refused. So are NaN and
    infinity, unless it holds cells: there NaN, as Python writes it, is a missing cell, and infinity is refused by name.

    >>> read_json(b'[NaN, 1]', cells=True)
    [None, 1]
    >>> read_json(b'{"a": NaN}')
    Traceback (most recent call last):
        ...
    dyncrp.serve.limits.RequestError: this is not JSON: it has no number NaN
    """
    try:
        text = content.decode("utf-8-sig")  # strictly, unlike json.loads
        if cells:
            value = json.loads(text, parse_constant=CONSTANTS.__getitem__, object_pairs_hook=_object)
        else:
            value = json.loads(
                text, parse_constant=_refuse_constant, parse_float=_finite_float, object_pairs_hook=_object
            )
        if "\\u" in text:  # which may be a lone surrogate
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RecursionError:
        raise RequestError(400, "this JSON is nested too deeply") from None
    except ValueError as error:  # bad syntax or encoding, or a number with more digits than Python reads
        raise RequestError(400, f"this is not JSON: {error}") from None


def read_object(content: bytes, allowed: Sequence[str], *, cells: bool = False) -> dict[str, Any]:
    """Return a JSON object; raise if it has other keys than the allowed ones. cells: as ``read_json`` has it."""
    value = read_json(content, cells=cells)
    if not isinstance(value, dict):
        raise RequestError(400, f"the body must be a JSON object, got {quote(value)}")
    unknown = next((name for name in value if name not in allowed), None)
    if unknown is not None:
        raise RequestError(400, f"unknown key {quote(unknown)}; the keys are {', '.join(allowed)}")
    return value


def as_floats(cells: Cells) -> Float | None:
    """Return a column of numbers as float64, with NaN for None; return None if it holds anything else.

    >>> as_floats([1, None, 2.5]), as_floats([1, True])
    (array([1. , nan, 2.5]), None)
    """
    if isinstance(cells, np.ndarray):
        return cells if cells.dtype == np.float64 else None
    if not set(map(type, cells)) <= NUMBERS_OR_NONE:
        return None
    try:
        return np.array(cells, dtype=np.float64)
    except OverflowError:  # an integer that is too large becomes infinite, which is refused later
        return np.array([np.nan if cell is None else real(cell) for cell in cells])


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"it has no number {name}")


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {quote(text)} is too large")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def check_json(content: bytes, limits: Limits) -> None:
    """Refuse a JSON text that has more lists, objects and values than the rows of a request, before it is read.

    Python's values take up to a hundred times as much memory as their text.

    >>> check_json(b'{"rows": [' + b"[]," * 50 + b'[]]}', Limits(rows=10))
    Traceback (most recent call last):
        ...
    dyncrp.serve.limits.RequestError: a request may have 10 rows, got 53 lists and objects: send several
    """
    most_lists, most_values = limits.rows + BESIDE_ROWS, limits.cells + len(BESIDE) * limits.rows + BESIDE_ROWS
    if content.count(b"[") + content.count(b"{") <= most_lists and content.count(b",") < most_values:
        return
    # Those in texts do not count.
    marks = np.frombuffer(content.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, NEITHER), dtype=np.uint8)
    quotes = marks == ord('"')
    marks = marks[~(np.logical_xor.accumulate(quotes) | quotes)]
    n_values = 1 + np.count_nonzero(marks == ord(","))
    n_lists = len(marks) - n_values + 1
    if n_lists > most_lists:
        told = f"{n_lists:,} lists and objects: send several"
        raise RequestError(413, f"a request may have {limits.rows:,} rows, got {told}")
    if n_values > most_values:
        raise RequestError(413, f"a request may have {limits.cells:,} cells, got {n_values:,}: send several")


def _read_json(content: bytes, limits: Limits) -> Batch:
    check_json(content, limits)
    told = read_object(content, ("rows", *BESIDE), cells=True)
    if not isinstance(told.get("rows"), list):
        raise RequestError(400, 'the body must have "rows", a list of lists or of objects')
    batch = as_batch(told["rows"], limits)
    for name in BESIDE:
        cells = told.get(name)
        if cells is not None and (not isinstance(cells, list) or len(cells) != batch.n):
            got = f"{len(cells)} entries" if isinstance(cells, list) else quote(cells)
            raise RequestError(400, f"{name} must be a list with one entry for each of the {batch.n} rows, got {got}")
    times, labels, cannot_link, sample_weight = map(told.get, BESIDE)
    return replace(batch, times=times, labels=labels, cannot_link=cannot_link, sample_weight=sample_weight)


def _read_ndjson(content: bytes, limits: Limits) -> Batch:
    check_json(content, limits)
    rows: list[Any] = []
    for line in io.BytesIO(content):
        if line.strip():
            _check_size(len(rows) + 1, 1, limits)
            try:
                rows.append(read_json(line, cells=True))
            except RequestError as refused:
                raise RequestError(400, f"row {len(rows)}: {refused.error}", row=len(rows)) from None
    return as_batch(rows, limits)


def as_batch(rows: list[Any], limits: Limits) -> Batch:
    """Return a batch of rows that are lists of one length, or objects."""
    n = len(rows)
    _check_size(n, 1, limits)
    kind = type(rows[0])
    if kind not in (list, dict):
        raise RequestError.at(0, f"a row must be a list or an object, got {quote(rows[0])}")
    odd = next((at for at, row in enumerate(rows) if type(row) is not kind), None)
    if odd is not None:
        what = "a list" if kind is list else "an object"
        raise RequestError.at(odd, f"a row must be {what}, as row 0 is, got {quote(rows[odd])}")
    if kind is dict:
        names = _distinct(list(dict.fromkeys(chain.from_iterable(rows))))
        _check_size(n, len(names), limits)
        return Batch(n, names, columns=tuple([row.get(name) for row in rows] for name in names))
    width = len(rows[0])
    _check_size(n, width, limits)
    odd = next((at for at, row in enumerate(rows) if len(row) != width), None)
    if odd is not None:
        raise RequestError(400, f"row {odd} has {len(rows[odd])} cells, and row 0 has {width}", row=odd)
    if set(map(type, chain.from_iterable(rows))) <= NUMBERS:
        try:
            numbers = np.array(rows, dtype=np.float64)
            if not np.isinf(numbers).any():
                return Batch(n, numbers=numbers)
        except OverflowError:
            pass
    # A cell that is infinite is named later.
    return Batch(n, columns=tuple(map(list, zip(*rows, strict=True))))


class _Lines:
    """The lines of a CSV text. One with too many cells is refused before it is read: each takes much memory and time.

    in_quotes: whether the next line begins within a cell, since the row before it has not ended.
    """

    def __init__(self, text: str, limits: Limits) -> None:
        self._lines, self._limits, self.in_quotes = io.StringIO(text, newline=""), limits, False

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if len(line) > LONG_LINE:
            cell, width = (END_OF_CELL if self.in_quotes else CELL).match(line), 0
            while cell and width <= self._limits.features:
                cell, width = CELL.match(line, cell.end()), width + 1
            _check_size(1, max(width, 1), self._limits)
        self.in_quotes = True
        return line


def _read_csv(content: bytes, limits: Limits) -> Batch:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(400, f"this CSV is not UTF-8: {error}") from None
    lines = _Lines(text, limits)
    reader = csv.reader(lines, strict=True)
    rows: list[list[str]] = []
    try:
        names = next(reader, [])
        lines.in_quotes = False
        for row in reader:
            lines.in_quotes = False
            if row:
                if len(row) != len(names):
                    at, told = len(rows), f"{len(row)} cells, and the header has {len(names)}"
                    raise RequestError(400, f"row {at} has {told}", row=at)
                rows.append(row)
                if len(rows) > limits.rows or len(rows) * len(names) > limits.cells:
                    break  # _check_size refuses it
    except csv.Error as error:
        raise RequestError.at(len(rows), f"this is not CSV: {error}") from None
    _check_size(len(rows), len(names), limits)
    return Batch(len(rows), _distinct(names), columns=tuple(map(list, zip(*rows, strict=True))), text=True)


def _read_arrow(content: bytes, limits: Limits) -> Batch:
    names, columns, n = read_arrow(content, limits.body, lambda n, names: _check_size(n, len(_distinct(names)), limits))
    return Batch(n, tuple(names), columns=columns)


def _check_size(n: int, width: int, limits: Limits) -> None:
    if not n or not width:
        raise RequestError(400, "there are no rows" if not n else "rows must have at least one column")
    if n > limits.rows:
        raise RequestError(413, f"a request may have {limits.rows:,} rows, got {n:,}: send several, or see --max-rows")
    if width > limits.features:
        raise RequestError(413, f"rows may have {limits.features:,} columns, got {width:,}: see --max-features")
    if n * width > limits.cells:
        raise RequestError(413, f"a request may have {limits.cells:,} cells, got {n * width:,}: send several")


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise RequestError(400, f"there are two columns {quote(twice)}", column=twice)
    if max(map(len, names), default=0) > LONGEST_NAME:
        raise RequestError(
            400, f"the name of a column has at most {LONGEST_NAME} characters, got {quote(max(names, key=len))}"
        )
    return tuple(names)


def _take_roles(batch: Batch, roles: Roles) -> Batch:
    """Return the batch with the columns of times, labels, marks and weights apart from the features."""
    taken: dict[str, Cells | None] = {name: getattr(batch, name) for name in BESIDE}
    columns = dict(zip(batch.names or (), batch.columns, strict=batch.names is not None))
    for role, name in zip(BESIDE, roles, strict=True):
        if name is not None:
            if name not in columns:
                raise RequestError(400, f"there is no column {quote(name)}, which should hold the {role}", column=name)
            if taken[role] is not None:
                raise RequestError(400, f"the {role} come twice: in the body, and as the column {quote(name)}")
            taken[role] = columns.pop(name)
    if batch.names is None:
        return batch
    if not columns:
        raise RequestError(400, "rows must have at least one column to cluster")
    return Batch(batch.n, tuple(columns), None, tuple(columns.values()), **taken, text=batch.text)

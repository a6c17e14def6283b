"""Turn the rows of a request into rows of its stream, and these into bytes for the journal."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import Clock
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import BOOLEAN, CATEGORY, LOG, NUMBER, quote
from dyncrp.input.input import NamedRows
from dyncrp.input.weights import MOST_WEIGHT
from dyncrp.io.packed import pack, unpack
from dyncrp.io.readers.cells import as_numbers, says_nothing
from dyncrp.serve.bodies import Batch, Cells, Float, as_floats
from dyncrp.serve.limits import LONGEST_TEXT, RequestError
from dyncrp.serve.plain import as_number
from dyncrp.serve.times import TIMES, read_times

HEAD = struct.Struct("<I")  # the length of the JSON before the arrays
LARGEST_ID = 2**62
MOST_CELLS, MOST_LETTERS, LONGEST_CELL = 40, 2_000, 400  # of a row that is shown
NUMBERS, WEIGHTS = "numbers", "sample_weight"
KINDS = {bool: "booleans", float: "numbers", str: "texts"}


@dataclass(frozen=True, eq=False)
class Rows:
    """The arguments of one call of ``Stream.learn``, so that it can be repeated to the bit.

    names: the names of the columns, if they have any. numbers: (n, D), or None if some column holds more than numbers.
    columns: arrays of float64 or lists of cells, if there are no numbers. times: (n,) float64 or datetime64[us].
    labels, cannot_link: (n,) lists of integers, texts and None. pattern: of dates that were not ISO 8601, for the rows
    that come later. weights: (n,) float64.
    """

    names: tuple[str, ...] | None
    numbers: Float | None
    columns: tuple[Cells, ...] = ()
    times: NDArray[Any] | None = None
    labels: list[Any] | None = None
    cannot_link: list[Any] | None = None
    pattern: str | None = None
    weights: Float | None = None

    @property
    def X(self) -> Any:
        """The rows as an array, with the names of the columns if there are any, or as a DataFrame."""
        if self.numbers is not None:
            return self.numbers if self.names is None else NamedRows(self.numbers, self.names)
        import pandas as pd

        kinds = (None if isinstance(cells, np.ndarray) else object for cells in self.columns)
        series = (pd.Series(cells, dtype=kind) for cells, kind in zip(self.columns, kinds, strict=True))
        return pd.DataFrame(dict(zip(self.names or (), series, strict=True)))

    def row(self, at: int) -> dict[str, Any]:
        """Return the cells of a row by name, at most ``MOST_CELLS``; long texts are cut, and shorter if they are many.

        >>> Rows(("x", "door"), None, (np.array([np.nan, 0.5]), ["left", "right"])).row(1)
        {'x': 0.5, 'door': 'right'}
        """
        cells = self.columns if self.numbers is None else tuple(self.numbers.T)
        names = self.names or tuple(f"x{d}" for d in range(len(cells)))
        found = {name: column[at] for name, column in zip(names[:MOST_CELLS], cells[:MOST_CELLS], strict=False)}
        n_texts = sum(isinstance(value, str) for value in found.values())
        longest = min(LONGEST_CELL, MOST_LETTERS // max(n_texts, 1))
        return {name: value[:longest] if isinstance(value, str) else as_number(value) for name, value in found.items()}

    def to_bytes(self) -> bytes:
        """Return the rows as bytes.

        >>> rows = Rows(("x", "door"), None, (np.array([0.5]), ["left"]), np.array(["2024-01-01"], "M8[us]"))
        >>> again = Rows.from_bytes(rows.to_bytes())
        >>> again.names, again.columns, again.times
        (('x', 'door'), (array([0.5]), ['left']), array(['2024-01-01T00:00:00.000000'], dtype='datetime64[us]'))
        """
        arrays = {} if self.numbers is None else {NUMBERS: self.numbers}
        arrays |= {str(at): cells for at, cells in enumerate(self.columns) if isinstance(cells, np.ndarray)}
        lists = [None if isinstance(cells, np.ndarray) else cells for cells in self.columns]
        if self.times is not None:
            arrays[TIMES] = self.times.view(np.int64) if self.times.dtype.kind == "M" else self.times
        if self.weights is not None:
            arrays[WEIGHTS] = self.weights
        return pack_with([self.names, lists, self.labels, self.cannot_link, self.pattern], arrays)

    @classmethod
    def from_bytes(cls, content: bytes) -> Rows:
        """Return the rows that ``to_bytes`` wrote."""
        (names, lists, labels, cannot_link, *patterns), arrays = unpack_with(content)  # older journals have none
        columns = tuple(arrays[str(at)] if cells is None else cells for at, cells in enumerate(lists))
        times = arrays.get(TIMES)
        if times is not None and times.dtype == np.int64:
            times = times.view("M8[us]")
        names = None if names is None else tuple(names)
        told = {"labels": labels, "cannot_link": cannot_link, "weights": arrays.get(WEIGHTS)}
        return cls(names, arrays.get(NUMBERS), columns, times, **told, pattern=patterns[0] if patterns else None)


def pack_with(plain: Any, arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return plain values and arrays as bytes."""
    head = json.dumps(plain, separators=(",", ":")).encode()
    return HEAD.pack(len(head)) + head + pack(arrays)


def unpack_with(content: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return what ``pack_with`` packed."""
    (length,) = HEAD.unpack_from(content)
    return json.loads(content[HEAD.size : HEAD.size + length]), unpack(content, HEAD.size + length)


@dataclass(frozen=True)
class Form:
    """What is known of the rows of a stream.

    features: the names of the columns, if they have any. encoding: of columns that hold more than numbers. width: the
    number of columns, None before the first row. clock: the kind of times, None before the first row. selects: whether
    the settings name the features, so that other columns of a request are ignored. text: the column of texts, if rows
    are texts. latest: the latest time, in microseconds since 1970, if times are dates. pattern: of dates that are
    not ISO 8601.
    """

    features: tuple[str, ...] | None = None
    encoding: Encoding | None = None
    width: int | None = None
    clock: Clock | None = None
    selects: bool = False
    text: str | None = None
    latest: int | None = None
    pattern: str | None = None

    def name(self, column: int) -> str:
        """Return the name of a column."""
        return f"x{column}" if self.features is None else self.features[column]

    def resolve(self, batch: Batch) -> Rows:
        """Return rows for the stream; rows that do not fit raise ``RequestError``."""
        features = self.features
        if features is None and self.width is None:
            features = batch.names
        columns: list[Cells]
        numbers = batch.numbers
        if self.text is not None:
            numbers, features, columns = None, (self.text,), [self._texts(batch, self.text)]
        else:
            columns = self._arrange(batch, features)
        if numbers is None and self.text is None:
            columns = [self._read(at, cells, features, text=batch.text) for at, cells in enumerate(columns)]
            plain = all(isinstance(cells, np.ndarray) and cells.dtype == np.float64 for cells in columns)
            if plain and self.encoding is None:
                numbers = np.column_stack(columns)
            elif self.width is None and features is None:
                features = tuple(f"x{at}" for at in range(len(columns)))
        if numbers is not None and self.encoding is not None:
            columns, numbers = [np.ascontiguousarray(column) for column in numbers.T], None
        times, pattern = None, self.pattern
        if batch.times is not None:
            times, pattern = read_times(batch.times, self.clock, self.pattern, self.latest)
        labels = _read_marks("labels", batch.labels, text=batch.text)
        cannot_link = _read_marks("cannot_link", batch.cannot_link, text=batch.text)
        cells = () if numbers is not None else tuple(columns)
        return Rows(features, numbers, cells, times, labels, cannot_link, pattern, _read_weights(batch))

    def _texts(self, batch: Batch, name: str) -> list[Any]:
        """Return the column of texts of a batch. Rows may be lists with this one cell."""
        found: Cells | None = None
        if batch.names is not None:
            found = dict(zip(batch.names, batch.columns, strict=True)).get(name)
        elif batch.width == 1:
            found = batch.columns[0] if batch.numbers is None else batch.numbers[:, 0]
        if found is None:
            raise RequestError(400, f"the rows have no column {quote(name)}, which should hold the texts", column=name)
        texts = list(found)
        bad = next((row for row, cell in enumerate(texts) if not isinstance(cell, str)), None)
        if bad is not None:
            raise RequestError.at(bad, f"column {name!r} must hold texts, got {quote(texts[bad])}", name)
        _check_lengths(texts, name)
        return texts

    def _arrange(self, batch: Batch, features: tuple[str, ...] | None) -> list[Cells]:
        """Return the columns of a batch in the order of the features."""
        if batch.names is None or features is None:
            if batch.names is not None:
                wanted = f"the rows of this stream are lists of {self.width} cells without names"
                raise RequestError(400, f"{wanted}, got columns {', '.join(batch.names[:10])}", column=batch.names[0])
            width = self.width if features is None else len(features)
            if width is not None and batch.width != width:
                named = f" ({', '.join(features[:20])})" if features else ""
                raise RequestError.at(0, f"rows must have {width} cells{named}, got {batch.width}")
            return list(batch.columns)
        found = dict(zip(batch.names, batch.columns, strict=True))
        known = set(features)
        unknown = next((name for name in batch.names if name not in known), None)
        absent = next((name for name in features if name not in found), None)
        if unknown is not None and not self.selects:
            choose = 'a stream made with {"features": […]} ignores other columns'
            known_ones = f"the columns are {', '.join(features[:20])}"
            raise RequestError(400, f"unknown column {quote(unknown)}; {known_ones}; {choose}", column=unknown)
        if known.isdisjoint(found):
            raise RequestError(400, f"the rows have none of the columns {', '.join(features[:20])}", column=absent)
        missing: list[Any] = [None] * batch.n
        return [found.get(name, missing) for name in features]

    def _read(self, at: int, cells: Cells, features: tuple[str, ...] | None, *, text: bool) -> Cells:
        """Return the cells of a column, as float64 if it holds numbers. A missing cell is NaN or None."""
        kind = None if self.encoding is None else self.encoding.entries[at].kind
        name = f"x{at}" if features is None else features[at]
        if text:
            cells = [None if says_nothing(cell) else cell for cell in cells]
            if kind == CATEGORY or (kind == BOOLEAN and self.encoding is not None and _has_words(self.encoding, at)):
                return cells
            numbers = as_numbers(cells)
            if all(found == found or cell is None for found, cell in zip(numbers.tolist(), cells, strict=True)):
                return self._finite(numbers, name)
        else:
            _check_cells(cells, name)
            _check_lengths(cells, name)
            if not isinstance(cells, np.ndarray):
                cells = [None if isinstance(cell, str) and says_nothing(cell) else cell for cell in cells]
            found = as_floats(cells)
            if found is not None:
                return self._finite(found, name)
        if kind in (NUMBER, LOG) or (self.encoding is None and self.width is not None):
            row, cell = _first_without_number(cells)
            raise RequestError.at(row, f"column {name!r} must hold numbers, got {quote(cell)}", name)
        if isinstance(cells, np.ndarray):  # dates, which are not features
            return [None if np.isnat(cell) else str(cell) for cell in cells]
        if self.width is None:
            _check_one_kind(cells, name)
        return cells

    def _finite(self, numbers: Float, name: str) -> Float:
        bad = np.flatnonzero(np.isinf(numbers))
        if bad.size:
            raise RequestError.at(int(bad[0]), f"column {name!r} must hold finite numbers", name)
        return numbers


def _has_words(encoding: Encoding, at: int) -> bool:
    return encoding.entries[at].words != ("1", "0")


def _check_cells(cells: Cells, name: str) -> None:
    """Refuse cells that are lists or objects."""
    if isinstance(cells, np.ndarray) or set(map(type, cells)) <= {int, float, str, bool, type(None)}:
        return
    row = next(row for row, cell in enumerate(cells) if isinstance(cell, (list, dict)))
    wanted = "a number, a text, true, false or null"
    error = f"a cell must be {wanted}, got {quote(cells[row])}, at row {row}, column {name!r}"
    raise RequestError(400, error, row=row, column=name)


def _check_lengths(cells: Cells, name: str) -> None:
    """Refuse texts that are too long."""
    if isinstance(cells, np.ndarray):
        return
    row = next((row for row, cell in enumerate(cells) if isinstance(cell, str) and len(cell) > LONGEST_TEXT), None)
    if row is not None:
        told = f"column {name!r} may hold texts of {LONGEST_TEXT:,} characters, got one of {len(cells[row]):,}"
        raise RequestError(413, f"{told}, at row {row}", row, name)


def _check_one_kind(cells: Sequence[Any], name: str) -> None:
    """Refuse the first cells of a column if some are numbers and others texts or booleans."""
    first: Any = None
    for row, cell in enumerate(cells):
        kind = bool if isinstance(cell, bool) else float if isinstance(cell, (int, float)) else type(cell)
        if cell is None or cell != cell or kind is first:
            continue
        if first is not None:
            error = f"column {name!r} must hold numbers, texts or booleans, and one of these only, got {quote(cell)}"
            raise RequestError.at(row, f"{error} after {KINDS[first]}", name)
        first = kind


def _first_without_number(cells: Sequence[Any] | NDArray[Any]) -> tuple[int, Any]:
    """Return the first cell that is neither missing nor a finite number, and its row."""
    for row, cell in enumerate(cells):
        number = as_numbers([cell])[0]
        if not says_nothing(cell) and not np.isfinite(number):
            return row, cell
    return 0, cells[0]


def _read_marks(name: str, cells: Cells | None, *, text: bool) -> list[Any] | None:
    """Return labels or marks, if there are any, as integers, texts and None."""
    if cells is None:
        return None
    marks = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    for row, mark in enumerate(marks):
        if isinstance(mark, str) and text:
            stripped = mark.strip()
            whole = stripped.removeprefix("-").isdecimal() and len(stripped) < 19
            marks[row] = int(stripped) if whole else mark if stripped else None
        elif isinstance(mark, float):
            marks[row] = None if mark != mark else int(mark) if mark.is_integer() else mark
        mark = marks[row]
        if mark is not None and not isinstance(mark, str) and (type(mark) is not int or abs(mark) > LARGEST_ID):
            raise RequestError.at(row, f"{name} must hold an integer, a text or null, got {quote(mark)}", name)
    return marks


def _read_weights(batch: Batch) -> Float | None:
    """Return the weights of the rows, if there are any."""
    cells = batch.sample_weight
    if cells is None:
        return None
    weights = as_numbers(cells)
    if not batch.text:
        weights[[isinstance(cell, str) for cell in cells]] = np.nan
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~((weights >= 0.0) & (weights <= MOST_WEIGHT)))
    if bad.size:
        row = int(bad[0])
        raise RequestError.at(
            row, f"{WEIGHTS} must hold numbers from 0 to {MOST_WEIGHT:g}, got {quote(cells[row])}", WEIGHTS
        )
    return weights

"""What a table is to those who read it: chunks of checked numbers, times, and columns to copy."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dyncrp.checks import LATEST, microseconds

BLOCK = 1 << 20  # bytes to read at a time
NUMBERS, DATES, ZONED = "numbers", "dates without a time zone", "dates with a time zone"

Place = dict[str, Any]  # where to go on: plain values, "row" among them
Column = Any  # a list of cells, or an array of NumPy or Arrow


class TableError(ValueError):
    """A table is not what it should be; the message names the file and the place."""


@dataclass(frozen=True)
class Selection:
    """Which columns to read, by name, and how.

    columns: the features, None for all but the time column. time_column: where the times are, if anywhere. keep: what
    to copy, None for all but the time column. skip_bad: whether to drop rows with bad cells. delimiter, header,
    decimal: of CSV.
    """

    columns: tuple[str, ...] | None = None
    time_column: str | None = None
    keep: tuple[str, ...] | None = ()
    skip_bad: bool = False
    delimiter: str = ","
    header: bool = True
    decimal: str = "."


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table, n of them, and where the next chunk begins.

    rows: (n,) their indices. X: (n, D) finite. times: (n,) numbers or datetime64, if there is a time column. kept: the
    columns to copy, as they were. where: says where the row of an index is. bad: what was wrong with rows left out.
    """

    rows: NDArray[np.int64]
    X: NDArray[np.float64]
    times: NDArray[Any] | None
    kept: dict[str, Column]
    where: Callable[[int], str]
    place: Place
    bad: list[str] = field(default_factory=list)

    def after(self, row: int) -> Chunk:
        """Return the rows from this index on; what was wrong before is counted already."""
        return self.taken(self.rows >= row, self.bad if not len(self.rows) or self.rows[0] >= row else [])

    def taken(self, mask: NDArray[np.bool_], bad: list[str]) -> Chunk:
        """Return the rows of a mask (n,)."""
        return replace(
            self,
            rows=self.rows[mask],
            X=self.X[mask],
            times=None if self.times is None else self.times[mask],
            kept={name: _taken(column, mask) for name, column in self.kept.items()},
            bad=bad,
        )


class Rows(NamedTuple):
    """Rows as a reader finds them: features and columns to copy by name, and what is wrong with whole rows."""

    n: int
    features: dict[str, Column]
    times: Column | None
    kept: dict[str, Column]
    where: Callable[[int], str]  # of the i-th of these
    broken: dict[int, str] = {}  # noqa: RUF012 - never changed


class Table(ABC):
    """A table in a file or a pipe; ``features`` are the names of its features, ``kept`` of what is copied.

    ``columns`` are those that hold the features. One of lists, such as embeddings, holds several: e[0], e[1], …

    A reader resolves the selection with ``_resolve`` when it is made, and gives ``_rows``.
    """

    columns: tuple[str, ...]
    features: tuple[str, ...]
    kept: tuple[str, ...]
    unit = "line"  # what its places are called

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        self.file, self.name, self.selection, self.most_rows = file, name, selection, most_rows
        self.clock: str | None = None
        self.last: Any = None
        # Standard input may be a file, but then it need not begin where we do.
        self.seekable = file is not getattr(sys.stdin, "buffer", None) and file.seekable()

    @abstractmethod
    def _rows(self, place: Place | None) -> Iterator[tuple[Rows, Place]]:
        """Yield rows from the place on, or from the beginning; the place after them has "row" filled in later."""

    @abstractmethod
    def progress(self, place: Place) -> float | None:
        """Return which share of the table lies before the place, if it can be told."""

    def kept_type(self, name: str) -> Any:
        """Return the Arrow type of a column to copy, None for text."""
        return None

    def chunks(self, place: Place | None = None) -> Iterator[Chunk]:
        """Yield the rows from a place on that a chunk gave (of a file), or from the beginning."""
        row, self.clock, self.last = (0, None, None) if place is None else (place[k] for k in ("row", "clock", "last"))
        for rows, after in self._rows(place):
            chunk = self._chunk(rows, row)
            row += rows.n
            chunk.place.update(after | {"row": row, "clock": self.clock, "last": self.last})
            yield chunk

    def error(self, message: str) -> TableError:
        """Return an error that names the file."""
        return TableError(f"{self.name}{message}")

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _resolve(self, names: Sequence[str], width: Callable[[str], int | None] = lambda name: None) -> None:
        """Find the columns that were asked for among the names that there are.

        width: tells how long the lists of a column are, None if it has none.
        """
        wanted = self.selection
        rest = [name for name in names if name != wanted.time_column]
        self.columns = tuple(rest) if wanted.columns is None else wanted.columns
        kept = rest if wanted.keep is None else [name for name in wanted.keep if name != wanted.time_column]
        self.kept = (() if wanted.time_column is None else (wanted.time_column,)) + tuple(kept)
        counts = Counter(names)
        for name in self._needed:
            if not counts[name]:
                shown = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
                raise self.error(f" has no column {name!r}; it has {shown}")
            if counts[name] > 1:
                raise self.error(f" has {counts[name]} columns called {name!r}")
        if not self.columns:
            raise self.error(" has no columns to cluster")
        self.widths = {name: width(name) for name in self.columns}
        self.features = tuple(
            name if width is None else f"{name}[{at}]"
            for name, width in self.widths.items()
            for at in range(width or 1)
        )

    @property
    def _needed(self) -> tuple[str, ...]:
        """Every column that is read, once."""
        return tuple(dict.fromkeys(self.columns + self.kept))

    def _chunk(self, rows: Rows, first: int) -> Chunk:
        """Turn cells into numbers and times; bad rows are left out or an error."""
        bad = np.zeros(rows.n, dtype=bool)
        bad[list(rows.broken)] = True
        X = np.empty((rows.n, len(self.features)))
        at = 0
        for name, width in self.widths.items():
            column = rows.features[name]
            X[:, at : at + (width or 1)] = as_numbers(column)[:, None] if width is None else as_vectors(column, width)
            at += width or 1
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(np.sum(X)):
                bad |= ~np.all(np.isfinite(X), axis=1)
        times = None
        if rows.times is not None:
            times, untimely = self._times(rows.times, bad)
            bad |= untimely

        def where(row: int) -> str:
            return rows.where(row - first)

        chunk = Chunk(np.arange(first, first + rows.n), X, times, rows.kept, where, {})
        if np.any(bad):
            at_fault = np.flatnonzero(bad)
            if not self.selection.skip_bad:
                raise self.error(", " + self._fault(rows, X, first, int(at_fault[0])))
            chunk = chunk.taken(~bad, [self._fault(rows, X, first, int(i)) for i in at_fault])
        if chunk.times is not None and len(chunk.times):
            self._check_order(chunk)
        return chunk

    def _fault(self, rows: Rows, X: NDArray[np.float64], first: int, i: int) -> str:
        """Say what is wrong with the i-th of rows that begin with the row ``first``, and where."""
        where = rows.where(i)
        if i in rows.broken:
            return f"{where}: {rows.broken[i]}"
        at = 0
        for name, width in self.widths.items():
            if not np.all(np.isfinite(X[i, at : at + (width or 1)])):
                cell = rows.features[name][i]
                return f"{where}, column {name!r}: {_fault(cell, width)}{self._hint(cell, first + i)}"
            at += width or 1
        wanted = self.clock or "numbers or ISO 8601 dates"
        cell = "" if rows.times is None else _cell(rows.times[i])
        return f"{where}, column {self.selection.time_column!r}: {cell} is no time; times here are {wanted}"

    def _hint(self, cell: object, row: int) -> str:
        """Say what may be missing, if a cell in this row is no number."""
        text = isinstance(cell, str) and bool(cell.strip()) and not np.isfinite(_number(cell))
        return "; --columns names those to cluster" if text and row == 0 and self.selection.columns is None else ""

    def _times(self, column: Column, bad: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return a column as times (n,), and which of them are bad. The first time decides what times are."""
        if isinstance(column, np.ndarray) and column.dtype.kind == "M":
            self.clock = DATES
            return column, np.isnat(column)
        numbers = as_numbers(column)
        fine = np.abs(numbers) <= LATEST
        if self.clock is None:
            for i in np.flatnonzero(~bad).tolist():
                self.clock = NUMBERS if fine[i] else _clock(column[i])
                if self.clock:
                    break
        if self.clock in (NUMBERS, None):
            return numbers, ~fine
        ticks = np.zeros(len(numbers), dtype=np.int64)
        untimely = np.ones(len(numbers), dtype=bool)
        for i, cell in enumerate(column):
            moment = _moment(cell)
            if moment is not None and (moment.tzinfo is not None) == (self.clock == ZONED):
                ticks[i], untimely[i] = microseconds(moment), False
        return ticks.view("M8[us]"), untimely

    def _check_order(self, chunk: Chunk) -> None:
        """Refuse a time before the one in front of it."""
        times = chunk.times
        assert times is not None
        ticks = times.view(np.int64) if times.dtype.kind == "M" else times
        before = np.concatenate([ticks[:1] if self.last is None else [self.last], ticks[:-1]])
        back = np.flatnonzero(ticks < before)
        if back.size:
            at = int(back[0])
            earlier = np.array([before[at]], dtype=ticks.dtype).view(times.dtype)[0]
            raise self.error(
                f", {chunk.where(int(chunk.rows[at]))}, column {self.selection.time_column!r}: time runs backwards: "
                f"{times[at]} comes after {earlier}"
            )
        self.last = ticks[-1].item()


def as_numbers(column: Column) -> NDArray[np.float64]:
    """Return a column as float64 (n,), NaN for what is no number.

    >>> as_numbers(["1.5", " 2 ", "", "1_0", 3, True, None])
    array([1.5, 2. , nan, nan, 3. , nan, nan])
    """
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "biuf":
            return np.full(len(column), np.nan)
        with np.errstate(over="ignore"):  # of a longdouble
            return column.astype(np.float64)
    return np.fromiter(map(_number, column), np.float64, len(column))


def as_vectors(column: Column, width: int) -> NDArray[np.float64]:
    """Return a column of lists as float64 (n, width), NaN for what is no number and for lists of another length.

    >>> as_vectors([[1, 2], [3], [4, None]], 2)
    array([[ 1.,  2.],
           [nan, nan],
           [ 4., nan]])
    """
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return column
    vectors = np.full((len(column), width), np.nan)
    for i, cell in enumerate(column):
        if isinstance(cell, list) and len(cell) == width:
            vectors[i] = as_numbers(cell)
    return vectors


def _number(cell: object) -> float:
    if isinstance(cell, (str, int, float)) and not isinstance(cell, bool):
        try:
            if not isinstance(cell, str) or "_" not in cell:
                return float(cell)
        except (OverflowError, ValueError):
            pass
    return np.nan


def _fault(cell: object, width: int | None = None) -> str:
    if width is not None:
        listed = cell.tolist() if isinstance(cell, np.ndarray) else cell
        if not isinstance(listed, list) or len(listed) != width:
            return f"{_cell(listed)} is not a list of {width} numbers, as in the first row"
        cell = next(entry for entry in listed if not np.isfinite(_number(entry)))
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return "the cell is empty"
    if _number(cell) == _number(cell) or str(cell).strip().lower().lstrip("+-") == "nan":
        return f"{_cell(cell)} is not a finite number"
    return f"{_cell(cell)} is not a number"


def _cell(cell: object) -> str:
    """Return a cell as it may stand in a message: on one line, and not too long."""
    shown = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return shown if len(shown) <= 60 else shown[:57] + "…" + shown[-1]


def _moment(cell: object) -> datetime | None:
    """Return an ISO 8601 date, in UTC if it names a time zone; None if it is none, or not in the years 1 to 9999."""
    try:
        moment = datetime.fromisoformat(cell.strip()) if isinstance(cell, str) else None
        return moment if moment is None or moment.tzinfo is None else moment.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def _clock(cell: object) -> str | None:
    moment = _moment(cell)
    return None if moment is None else ZONED if moment.tzinfo is not None else DATES


def _taken(column: Column, mask: NDArray[np.bool_]) -> Column:
    if isinstance(column, list):
        return [cell for cell, taken in zip(column, mask.tolist(), strict=True) if taken]
    if isinstance(column, np.ndarray):
        return column[mask]
    import pyarrow as pa

    return column.filter(pa.array(mask))

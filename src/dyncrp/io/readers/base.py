"""What a reader is: chunks of checked numbers, times, and columns to copy, from a file or a pipe."""

from __future__ import annotations

import shlex
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dyncrp.checks import LATEST_TIME, microseconds
from dyncrp.io.files import FileError
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column, TimeFormat
from dyncrp.io.readers.columns import (
    CATEGORY,
    COUNTER,
    TIMES,
    choose_columns,
    describe_columns,
    join_columns,
    judge_column,
)
from dyncrp.io.readers.dates import UNIT_NAMES, AmbiguousDateError, DateFormat, find_dates, find_epoch
from dyncrp.io.readers.formats import (
    AmbiguousError,
    Format,
    NumberFormat,
    describe_format,
    find_format,
    restore_format,
)
from dyncrp.io.readers.source import ENCODING_HINT

MOST_ROWS_IN_SAMPLE, MOST_CELLS_IN_SAMPLE = 1000, 200_000  # what is looked at before anything is read
NOTES = {
    CATEGORY: "categories are left out: the model takes numbers only",
    TIMES: "{0} holds times: --time-column {0} uses them",
    COUNTER: "to cluster {0} all the same, name the columns with --columns",
}

Place = dict[str, Any]  # where to continue reading: plain values, "row" among them


@dataclass(frozen=True)
class Selection:
    """Which columns to read, by name, and how.

    columns: the features, as ``choose_columns`` takes them, None for all that hold numbers but the time column.
    time_column: where the times are, if anywhere. keep: what to copy, None for all but the time column. skip_bad:
    whether to drop rows with bad cells. header: whether CSV has one. delimiter, decimal: of CSV, None to find them from
    the first rows. encoding: of text, None for UTF-8, or UTF-16 with a byte-order mark. exclude: what is no feature, as
    in columns. missing: what stands for a missing cell, beside "NA" and the like. time_format: of the times, as
    ``DateFormat`` takes it, None to find it from the first rows. findings: what a reader of the same input found
    before, as its places say, so that an input that has grown is read as it was.
    """

    columns: tuple[str, ...] | None = None
    time_column: str | None = None
    keep: tuple[str, ...] | None = ()
    skip_bad: bool = False
    delimiter: str | None = None
    header: bool = True
    decimal: str | None = None
    encoding: str | None = None
    exclude: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    time_format: str | None = None
    findings: dict[str, Any] | None = None


@dataclass(frozen=True)
class Chunk:
    """Some rows, n of them, and where the next chunk begins.

    rows: (n,) their indices. X: (n, D) finite. times: (n,) numbers or datetime64, if there is a time column. kept: the
    columns to copy, as they were. where: says where the row of an index is. bad: what is wrong with rows left out.
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
        return self.select(self.rows >= row, self.bad if not len(self.rows) or self.rows[0] >= row else [])

    def select(self, mask: NDArray[np.bool_], bad: list[str]) -> Chunk:
        """Return the rows that a mask (n,) selects."""
        return replace(
            self,
            rows=self.rows[mask],
            X=self.X[mask],
            times=None if self.times is None else self.times[mask],
            kept={name: cells.select(column, mask) for name, column in self.kept.items()},
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


class Reader(ABC):
    """Reads rows from a file or a pipe; ``features`` are the names of the features, ``kept`` of what is copied.

    ``live`` tells whether it is a pipe, whose rows may have to be waited for; ``seekable`` whether reading can continue
    at a place without the rows before it.

    ``columns`` are those that hold the features. One of lists, such as embeddings, holds several: e[0], e[1], …
    ``formats`` says how numbers are written in columns where they are not plain, and ``notes`` are sentences about what
    was found in the first rows. ``findings`` is the same as plain values.

    A format resolves the selection with ``_resolve`` when it is made, shows its first rows to ``_look``, and gives
    ``_rows``.
    """

    columns: tuple[str, ...]
    features: tuple[str, ...]
    kept: tuple[str, ...]

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        self.file, self.name, self.selection, self.most_rows = file, name, selection, most_rows
        self.time_format: TimeFormat | None = None
        self.last: Any = None  # time
        self.formats: dict[str, Format] = {}
        self.notes: list[str] = []
        self.findings: dict[str, Any] = {}
        self._missing_numbers = [float(text) for text in selection.missing if cells.is_number(text)]
        # Standard input may be a file, but then it need not begin where we do.
        self.seekable = file is not getattr(sys.stdin, "buffer", None) and file.seekable()
        self.live = not self.seekable

    @abstractmethod
    def _rows(self, place: Place | None) -> Iterator[tuple[Rows, Place]]:
        """Yield rows from the place on, or from the beginning; the place after them has "row" filled in later."""

    @abstractmethod
    def progress(self, place: Place) -> float | None:
        """Return which share of the input lies before the place, None if that is unknown."""

    def kept_type(self, name: str) -> Any:
        """Return the Arrow type of a column to copy, None for text."""
        return None

    def chunks(self, place: Place | None = None) -> Iterator[Chunk]:
        """Yield the rows from a place on that a chunk gave (of a file), or from the beginning."""
        row, format, self.last = (0, None, None) if place is None else (place[k] for k in ("row", "times", "last"))
        self.time_format = None if format is None else TimeFormat(format)
        for rows, after in self._rows(place):
            chunk = self._chunk(rows, row)
            row += rows.n
            chunk.place.update(after | {"row": row, "times": self.time_format, "last": self.last})
            chunk.place["findings"] = self.findings
            yield chunk

    def error(self, message: str) -> FileError:
        """Return an error that names the file."""
        return FileError(f"{self.name}{message}")

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
        try:
            columns = rest if wanted.columns is None else choose_columns(names, wanted.columns)
            left_out = {wanted.time_column, *choose_columns(names, wanted.exclude)}
        except LookupError as error:
            raise self._no_column(error.args[0], names) from None
        kept = rest if wanted.keep is None else [name for name in wanted.keep if name != wanted.time_column]
        self.kept = (() if wanted.time_column is None else (wanted.time_column,)) + tuple(kept)
        self.columns = tuple(name for name in columns if name not in left_out)
        counts = Counter(names)
        for name in self._columns_read:
            if not counts[name]:
                raise self._no_column(name, names)
            if counts[name] > 1:
                raise self.error(f" has {counts[name]} columns called {name!r}")
        self._width = width
        self._set_columns(self.columns)
        if wanted.time_column is not None and wanted.time_format is not None:
            self.formats[wanted.time_column] = DateFormat(wanted.time_format)

    def _no_column(self, name: str, names: Sequence[str]) -> FileError:
        """Return the error for a column that there is not."""
        hint = "" if all(map(cells.is_text, names)) else f"; it is not in UTF-8: {ENCODING_HINT}"
        return self.error(f" has no column {name!r}; it has {join_columns(list(map(repr, names)))}{hint}")

    def _set_columns(self, columns: Sequence[str], why: str = "") -> None:
        """Take these columns for the features. why: says why there may be none."""
        if not columns:
            raise self.error(f" has no columns to cluster{why}")
        self.columns = tuple(columns)
        self.widths = {name: self._width(name) for name in self.columns}
        places = [(name, at) for name in self.columns for at in range(self.widths[name] or 1)]
        self.features = tuple(name if self.widths[name] is None else f"{name}[{at}]" for name, at in places)
        self._sources = [name for name, _ in places]  # the column of each feature

    def _look(self, sample: Callable[[int], dict[str, list[Any]]]) -> None:
        """Find out how numbers are written in the columns to cluster, and which hold numbers if none were chosen.

        A file of plain numbers is taken as it is: none of its columns are left out.

        sample: returns the first cells of each column, from so many rows. A pipe is not kept waiting for rows if the
        first one has plain numbers only.
        """
        before = self.selection.findings
        if before is not None:
            self.findings = before
            self.formats = {name: restore_format(format) for name, format in before["formats"].items()}
            self._set_columns(before.get("columns", self.columns))
            return
        plain = NumberFormat(self.selection.decimal or ".")
        names = [name for name in self.columns if self.widths[name] is None]
        time = self.selection.time_column
        counts = [1] * self.live + [max(1, min(MOST_ROWS_IN_SAMPLE, MOST_CELLS_IN_SAMPLE // max(len(names), 1)))]
        for n in counts:
            first = {name: [cell for cell in some if not self._is_missing(cell)] for name, some in sample(n).items()}
            found = {name: self._find_format(name, first[name]) for name in names}
            known = time is None or time in self.formats or any(map(cells.is_time, first[time][:1]))
            if known and all(format == plain for format in found.values()):
                break
        if not any(first.values()):  # there is nothing to look at
            found = {}
        if self.selection.columns is None:
            self._leave_out(found, {name: judge_column(format, first[name]) for name, format in found.items()})
        if time is not None and time not in self.formats:
            found[time] = self._find_format(time, first[time]) or self._find_dates(time, first[time])
        for name, format in found.items():
            if format is not None and format != plain and name in (*self.columns, time):
                self.formats[name] = format
                self.notes.append(f"{name}: {describe_format(format, first[name])}")
        unit = find_epoch(first[time]) if time is not None and time not in self.formats else None
        if unit is not None:
            kind = f"{UNIT_NAMES[unit]} since 1970"
            self.notes.append(f"{time}: numbers, perhaps {kind}; --time-format {unit} takes them for dates")
        self.findings["formats"] = {name: vars(format) for name, format in self.formats.items()}

    def _find_dates(self, name: str, column: list[Any]) -> Format | None:
        try:
            return find_dates(column)
        except AmbiguousDateError as error:
            raise self.error(f", column {name!r}: {error}") from None

    def _leave_out(self, found: dict[str, Format | None], reasons: dict[str, str | None]) -> None:
        """Leave out columns for which there is a reason, unless all hold plain numbers, and say so."""
        plain = NumberFormat(self.selection.decimal or ".")
        counters = [name for name, reason in reasons.items() if reason == COUNTER]
        if all(format == plain for format in found.values()):
            if counters:
                self.notes.append(f"{counters[0]} counts the rows: --exclude {shlex.quote(counters[0])} leaves it out")
            return
        line = describe_columns(found, reasons)
        self._set_columns([name for name in self.columns if reasons.get(name) is None], f": {line}")
        self.findings["columns"] = list(self.columns)
        self.notes.append(line)
        for reason, note in NOTES.items():
            names = [name for name, found in reasons.items() if found == reason]
            if names:
                self.notes.append(note.format(shlex.quote(names[0])))

    def _is_missing(self, cell: object) -> bool:
        """Tell whether a cell is missing, by itself or because the selection says so."""
        plain = cell.item() if isinstance(cell, np.generic) else cell
        if cells.is_missing(plain) or (isinstance(plain, str) and plain.strip() in self.selection.missing):
            return True
        return bool(self._missing_numbers) and cells.as_numbers([plain])[0] in self._missing_numbers

    def _find_format(self, name: str, column: list[Any]) -> Format | None:
        try:
            return find_format(column, self.selection.decimal)
        except AmbiguousError as error:
            raise self.error(f", column {name!r}: {error}") from None

    @property
    def _columns_read(self) -> tuple[str, ...]:
        """Every column that is read, once."""
        return tuple(dict.fromkeys(self.columns + self.kept))

    def _chunk(self, rows: Rows, first: int) -> Chunk:
        """Turn cells into numbers and times; bad rows are skipped or an error."""
        bad = np.zeros(rows.n, dtype=bool)
        bad[list(rows.broken)] = True
        X = np.empty((rows.n, len(self.features)))
        at = 0
        for name, width in self.widths.items():
            column = rows.features[name]
            part = cells.as_vectors(self.formats[name].read(column) if name in self.formats else column, width)
            X[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        if self._missing_numbers:
            X[np.isin(X, self._missing_numbers)] = np.nan
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(np.sum(X)):
                bad |= ~np.all(np.isfinite(X), axis=1)
        times = None
        if rows.times is not None:
            format = self.formats.get(str(self.selection.time_column))
            times, untimely = self._times(rows.times if format is None else format.read(rows.times), bad)
            bad |= untimely

        def where(row: int) -> str:
            return rows.where(row - first)

        chunk = Chunk(np.arange(first, first + rows.n), X, times, rows.kept, where, {})
        if np.any(bad):
            faulty = np.flatnonzero(bad)
            if not self.selection.skip_bad:
                raise self.error(", " + self._fault(rows, X, first, int(faulty[0])))
            chunk = chunk.select(~bad, [self._fault(rows, X, first, int(i)) for i in faulty])
        if chunk.times is not None and len(chunk.times):
            self._check_order(chunk)
        return chunk

    def _fault(self, rows: Rows, X: NDArray[np.float64], first: int, i: int) -> str:
        """Say what is wrong with the i-th of rows that begin with the row ``first``, and where."""
        where = rows.where(i)
        if i in rows.broken:
            return f"{where}: {rows.broken[i]}"
        bad = np.flatnonzero(~np.isfinite(X[i]))
        if bad.size:
            name = self._sources[bad[0]]
            cell = rows.features[name][i]
            fault = cells.describe_fault(cell, self.widths[name])
            if self.widths[name] is None and (
                self._is_missing(cell) or cells.as_numbers([cell])[0] in self._missing_numbers
            ):
                fault = f"{cells.quote(cell)} stands for a missing cell" if cells.is_word(cell) else fault
                remedy = f"; --skip-bad skips such rows, --exclude {shlex.quote(name)} leaves the column out"
                return f"{where}, column {name!r}: {fault}{'' if self.selection.skip_bad else remedy}"
            return f"{where}, column {name!r}: {fault}{self._hint(cell)}"
        format = self.formats.get(str(self.selection.time_column))
        wanted = (
            self.time_format.description if self.time_format else "numbers or ISO 8601 dates; --time-format says which"
        )
        wanted = format.description if isinstance(format, DateFormat) else wanted
        cell = "" if rows.times is None else cells.quote(rows.times[i])
        return f"{where}, column {self.selection.time_column!r}: {cell} is not a time; the times are {wanted}"

    def _hint(self, cell: object) -> str:
        """Say which option may be missing, if a cell is no number."""
        unknown = isinstance(cell, str) and not cells.is_text(cell)
        return f"; it is not in UTF-8: {ENCODING_HINT}" if unknown else ""

    def _times(self, column: Column, bad: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return a column as times (n,), and which of them are bad. The first time decides the format."""
        if isinstance(column, np.ndarray) and column.dtype.kind == "M":
            self.time_format = TimeFormat.DATES
            return column, np.isnat(column)
        numbers = cells.as_numbers(column)
        fine = np.abs(numbers) <= LATEST_TIME
        if self.time_format is None:
            candidates = np.flatnonzero(~bad).tolist()
            formats = (TimeFormat.NUMBERS if fine[i] else TimeFormat.of_date(column[i]) for i in candidates)
            self.time_format = next((format for format in formats if format), None)
        if self.time_format in (TimeFormat.NUMBERS, None):
            return numbers, ~fine
        ticks = np.zeros(len(numbers), dtype=np.int64)
        untimely = np.ones(len(numbers), dtype=bool)
        for i, cell in enumerate(column):
            date = cells.parse_date(cell)
            if date is not None and (date.tzinfo is not None) == (self.time_format is TimeFormat.ZONED_DATES):
                ticks[i], untimely[i] = microseconds(date), False
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
                f", {chunk.where(int(chunk.rows[at]))}, column {self.selection.time_column!r}: times must not run "
                f"backwards: {times[at]} is earlier than {earlier}, the time before it"
            )
        self.last = ticks[-1].item()

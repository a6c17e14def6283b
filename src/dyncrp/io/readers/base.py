"""The base class of readers: chunks of checked numbers, times, and columns to copy, from a file or a pipe."""

from __future__ import annotations

import shlex
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dyncrp.input.constraints import as_table
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import BOOLEAN, CATEGORY, COUNTER, LEFT_OUT, LOG, NUMBER, TIMES, Entry, join_columns, quote
from dyncrp.input.infer import ROWS_TO_INFER, find_epoch
from dyncrp.io.files import FileError
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column, MissingCells
from dyncrp.io.readers.chunk import Chunk, Place, Rows
from dyncrp.io.readers.columns import choose_columns, infer_column
from dyncrp.io.readers.dates import NUMBERS, UNIT_NAMES, AmbiguousDateError, DateFormat, find_dates
from dyncrp.io.readers.formats import (
    AmbiguousError,
    Format,
    NumberFormat,
    YesNo,
    describe_format,
    find_formats,
    restore_format,
)
from dyncrp.io.readers.selection import Selection
from dyncrp.io.readers.source import ENCODING_HINT
from dyncrp.io.readers.times import Times

MOST_CELLS_IN_SAMPLE = 200_000  # from which the contents of columns are inferred
NO_MARK = ("-1", "-1.0")  # stand for no mark, as missing cells do
NOTES = {
    CATEGORY: "categories are left out: the family takes numbers only",
    TIMES: "{0} holds times: --time-column {0} uses them",
    COUNTER: "to cluster {0} all the same, name the columns with --columns",
}


class Reader(ABC):
    """Reads rows from a file or a pipe.

    ``features`` are the names of the features, ``kept`` those of the columns to copy. ``live`` is true for a pipe,
    which may have to be waited for. ``seekable`` tells whether reading can continue at a place without reading the
    rows before it.

    ``columns`` are the columns that hold the features. A column of lists, such as embeddings, holds several features:
    e[0], e[1], … ``formats`` says how numbers are written in columns where they are not plain. ``notes`` are sentences
    about what was found in the first rows, and ``findings`` are the same as plain values. ``encoding`` says how the
    columns become numbers, None if they are plain numbers; new categories are added to it.

    A subclass calls ``_resolve`` and ``_infer`` in its constructor, and defines ``_rows``.
    """

    columns: tuple[str, ...]
    features: tuple[str, ...]
    kept: tuple[str, ...]
    place_keys: ClassVar[frozenset[str]] = frozenset({"row", "times", "last"})

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        self.file, self.name, self.selection, self.most_rows = file, name, selection, most_rows
        self.times = Times()
        self.formats: dict[str, Format] = {}
        self.notes: list[str] = []
        self.findings: dict[str, Any] = {}
        self.encoding: Encoding | None = selection.learned
        self._is_missing = MissingCells(selection.missing)
        # Standard input may be a file that was partly read already.
        self.seekable = file is not getattr(sys.stdin, "buffer", None) and file.seekable()
        self.live = not self.seekable

    @abstractmethod
    def _rows(self, place: Place | None) -> Iterator[tuple[Rows, Place]]:
        """Yield rows, each time with the place after them, from a place on. ``chunks`` completes the places."""

    @abstractmethod
    def progress(self, place: Place) -> float | None:
        """Return the share of the input before a place, None if it is unknown."""

    def kept_type(self, name: str) -> Any:
        """Return the Arrow type of a column to copy, None for text."""
        return None

    def chunks(self, place: Place | None = None) -> Iterator[Chunk]:
        """Yield chunks from the beginning, or from the place of an earlier chunk."""
        if place is not None and not self.place_keys <= place.keys():
            raise self.error(" cannot be continued: the place to continue from is damaged")
        row = 0 if place is None else place["row"]
        self.times = Times() if place is None else Times(place["times"], place["last"])
        for rows, after in self._rows(place):
            chunk = self._chunk(rows, row)
            row += rows.n
            chunk.place.update(after | {"row": row, "times": self.times.format, "last": self.times.last})
            chunk.place["findings"] = self.findings | {"encoding": self.encoding and self.encoding.to_plain()}
            yield chunk

    def error(self, message: str) -> FileError:
        """Return a ``FileError`` that begins with the name of the file."""
        return FileError(f"{self.name}{message}")

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _resolve(self, names: Sequence[str], width: Callable[[str], int | None] = lambda name: None) -> None:
        """Find the selected columns among the names in the file.

        width: returns the length of the lists of a column, None if it has no lists.
        """
        wanted = self.selection
        rest = [name for name in names if name != wanted.time_column]
        try:
            columns = rest if wanted.columns is None else choose_columns(names, wanted.columns)
            columns = columns if wanted.text is None else [wanted.text]
            left_out = {wanted.time_column, *wanted.told.values(), *choose_columns(names, wanted.exclude)}
            said = (wanted.categorical, wanted.numeric, wanted.log or ())
            self._categorical, self._numeric, self._log = (set(choose_columns(names, some)) for some in said)
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
        self._width = width if wanted.text is None else lambda name: None
        self._set_columns(self.columns)
        if wanted.time_column is not None and wanted.time_format not in (None, NUMBERS):
            self.formats[wanted.time_column] = DateFormat(str(wanted.time_format))

    def _no_column(self, name: str, names: Sequence[str]) -> FileError:
        """Return the error for a column that does not exist."""
        hint = "" if all(map(cells.is_text, names)) else f"; it is not in UTF-8: {ENCODING_HINT}"
        return self.error(f" has no column {name!r}; it has {join_columns(list(map(repr, names)))}{hint}")

    def _set_columns(self, columns: Sequence[str], why: str = "") -> None:
        """Set the columns that hold the features. why: the reason if there are none, for the error."""
        if not columns:
            raise self.error(f" has no columns to cluster{why}")
        self.columns = tuple(columns)
        self.widths = {name: self._width(name) for name in self.columns}
        places = [(name, at) for name in self.columns for at in range(self.widths[name] or 1)]
        self.features = tuple(name if self.widths[name] is None else f"{name}[{at}]" for name, at in places)
        self._sources = [name for name, _ in places]  # the column of each feature

    def _infer(self, sample: Callable[[int], dict[str, list[Any]]]) -> None:
        """Infer from the first rows what the columns hold, and how it is written.

        If all columns hold plain numbers, none is left out.

        sample: returns the cells of each column in the first n rows. If the first row of a pipe has only plain numbers,
        no more rows are waited for.
        """
        if self._remember():
            return
        plain = NumberFormat(self.selection.decimal or ".")
        names = [] if self.selection.text is not None else [n for n in self.columns if self.widths[n] is None]
        time = self.selection.time_column
        counts = [1] * self.live + [max(1, min(ROWS_TO_INFER, MOST_CELLS_IN_SAMPLE // max(len(names), 1)))]
        for n in counts:
            first = {name: [cell for cell in some if not self._is_missing(cell)] for name, some in sample(n).items()}
            found = self._find_formats({name: first[name] for name in names})
            known = time is None or time in self.formats or any(map(cells.is_time, first[time][:1]))
            if known and all(format == plain for format in found.values()):
                break
        if not any(first.values()):
            found = {}
        strings = (cell for name, column in first.items() for cell in (name, *column) if isinstance(cell, str))
        if not all(map(cells.is_text, strings)):
            self.notes.append(f"the input is not in UTF-8: {ENCODING_HINT}")
        keep = self.selection.columns is not None
        entries = {name: infer_column(name, format, first[name], keep=keep) for name, format in found.items()}
        self._decide(entries, plain=all(format == plain for format in found.values()))
        categories = {
            entry.name for entry in (self.encoding.entries if self.encoding else ()) if entry.kind == CATEGORY
        }
        if time is not None and time not in self.formats:
            found |= self._find_formats({time: first[time]})
            found[time] = found[time] or self._find_dates(time, first[time])
        for name, format in found.items():
            if format is not None and format != plain and name in {*self.columns, time} - categories:
                self.formats[name] = format
                self.notes.append(f"{name}: {describe_format(format, first[name])}")
        for entry in self.selection.learned.entries if self.selection.learned is not None else ():
            if entry.kind == BOOLEAN and entry.name in self.columns and entry.words != ("1", "0"):
                self.formats[entry.name] = YesNo(*entry.words)  # these rows may have only one of the words
        if time is not None and time not in self.formats and self.selection.time_format != NUMBERS:
            unit = find_epoch(cells.as_numbers(first[time]))
            if unit is not None:
                self.formats[time] = DateFormat(unit)
                described = describe_format(self.formats[time], first[time])
                self.notes.append(
                    f"{time}: {described}, {UNIT_NAMES[unit]} since 1970; --time-format number keeps numbers"
                )
        self.findings["formats"] = {name: vars(format) for name, format in self.formats.items()}

    def _remember(self) -> bool:
        """Use the findings of an earlier reader of the same input, if there are any; return whether there are."""
        before = self.selection.findings
        if before is None:
            return False
        self.findings = {name: value for name, value in before.items() if name != "encoding"}
        try:
            self.formats = {name: restore_format(format) for name, format in before.get("formats", {}).items()}
            plain = before.get("encoding")
            self.encoding = None if plain is None else Encoding.from_plain(plain)
            columns = tuple(before.get("columns", self.columns))
            absent = next((name for name in (*columns, *self.formats) if name not in self._columns_read), None)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self.error(f" cannot be read as before: the earlier findings are damaged: {error}") from error
        if absent is not None:
            raise self.error(f" is not the same as before: it has no column {absent!r}")
        self._set_columns(columns)
        return True

    def _decide(self, entries: dict[str, Entry], *, plain: bool) -> None:
        """Decide what columns hold, from their first rows and the options, and add notes about it.

        plain: whether all of them hold plain numbers.
        """
        wanted = self.selection
        said = bool(self._categorical or wanted.log)
        counters = [name for name, entry in entries.items() if entry.reason in (COUNTER, TIMES)]
        if wanted.learned is None and plain and not said:
            for name in counters[:1]:
                reason, quoted = entries[name].reason, shlex.quote(name)
                self.notes.append(
                    f"{name} holds times: --time-column {quoted} uses them"
                    if reason == TIMES
                    else f"{name} counts the rows: --exclude {quoted} leaves it out"
                )
            return
        if wanted.learned is None:
            chosen = []
            for name in self.columns:
                if self.widths[name] is None:
                    entry = entries.get(name, Entry(name, NUMBER))
                    if plain and entry.kind != NUMBER:
                        entry = Entry(name, NUMBER)
                    chosen.append(self._choose(name, entry))
                else:
                    chosen += [Entry(f"{name}[{at}]", NUMBER) for at in range(self.widths[name] or 1)]
            self.encoding = Encoding(tuple(chosen))
        assert self.encoding is not None
        if wanted.learned is not None and wanted.columns is None:
            absent = next((name for name in self.encoding.features if name not in self.features), None)
            if absent is not None:
                raise self._no_column(absent, self.columns)
        line = self.encoding.describe()
        clustered = set(self.encoding.features)
        left = [name for name in self.columns if self.widths[name] is not None or name in clustered]
        if set(left) == clustered:
            left = list(self.encoding.features)  # in the order of the model
        self._set_columns(left, f": {line}")
        self.findings["columns"] = list(self.columns)
        self.notes.append(line)
        for reason, note in NOTES.items():
            names = [entry.name for entry in self.encoding.entries if entry.reason == reason]
            if names and wanted.learned is None:
                self.notes.append(note.format(shlex.quote(names[0])))

    def _choose(self, name: str, entry: Entry) -> Entry:
        """Return what a column holds, given the options and what the family takes."""
        wanted = self.selection
        if name in self._categorical:
            return Entry(name, CATEGORY)
        if name in self._numeric and entry.kind != LOG:
            entry = Entry(name, NUMBER)
        if name in self._log and entry.kind in (CATEGORY, BOOLEAN):
            raise self.error(f", column {name!r}: --log is for numbers, and it holds {entry.kind}")
        if wanted.log is not None and entry.kind in (NUMBER, LOG):
            return Entry(name, LOG if name in self._log else NUMBER)
        if entry.kind == LEFT_OUT and wanted.columns is not None:
            return Entry(name, NUMBER)  # a column of dates: its cells raise errors
        if entry.kind == CATEGORY and CATEGORY not in wanted.takes and wanted.columns is None:
            return Entry(name, LEFT_OUT, (), CATEGORY)
        return entry if entry.kind in (*wanted.takes, LEFT_OUT) else Entry(name, NUMBER)

    def _find_dates(self, name: str, column: list[Any]) -> Format | None:
        try:
            return find_dates(column)
        except AmbiguousDateError as error:
            raise self.error(f", column {name!r}: {error}") from None

    def _find_formats(self, columns: dict[str, list[Any]]) -> dict[str, Format | None]:
        try:
            return find_formats(columns, self.selection.decimal)
        except AmbiguousError as error:
            raise self.error(f", {error}") from None

    @property
    def _columns_read(self) -> tuple[str, ...]:
        """The names of all columns that are read, each once."""
        return tuple(dict.fromkeys((*self.columns, *self.kept, *self.selection.told.values())))

    def _chunk(self, rows: Rows, first: int) -> Chunk:
        """Turn cells into numbers and times. Bad rows are skipped, or raise ``FileError``."""
        bad = np.zeros(rows.n, dtype=bool)
        bad[list(rows.broken)] = True
        numbers = np.zeros((rows.n, len(self.features)))
        words: dict[str, Column] = {}
        at = 0
        for name, width in self.widths.items():
            column, format, end = rows.features[name], self.formats.get(name), at + (width or 1)
            if name == self.selection.text:
                texts = np.array([None, *column], dtype=object)[1:]  # one-dimensional even if cells are lists
                bad |= ~np.fromiter(map(cells.holds_text, texts), bool, rows.n)
            elif self._is_category(name):
                words[name] = cells.as_words(column)
            else:
                part = cells.as_vectors(column if format is None else format.read(column), width)
                if isinstance(format, YesNo):
                    part = np.where((part == 0.0) | (part == 1.0), part, np.nan)
                if self._is_missing.numbers:
                    part = np.where(np.isin(part, self._is_missing.numbers), np.nan, part)
                bad |= self._faulty(column, part, width)
                numbers[:, at:end] = part
            at = end
        X: NDArray[Any] = numbers if self.selection.text is None else texts
        if self.encoding is not None:
            finite = np.where(np.isinf(numbers), np.nan, numbers)
            columns = dict(zip(self.features, finite.T, strict=True)) | words
            X, self.encoding = self.encoding.encode(columns, self._is_missing)
        times = None
        if rows.times is not None:
            format = self.formats.get(str(self.selection.time_column))
            times, untimely = self.times.read(rows.times if format is None else format.read(rows.times), bad)
            bad |= untimely
        told = {name: self._read_told(name, column, bad) for name, column in rows.told.items()}

        def where(row: int) -> str:
            return rows.where(row - first)

        chunk = Chunk(np.arange(first, first + rows.n), X, times, rows.kept, where, {}, told=told)
        if np.any(bad):
            faulty = np.flatnonzero(bad)
            if not self.selection.skip_bad:
                raise self.error(", " + self._fault(rows, numbers, int(faulty[0])))
            chunk = chunk.select(~bad, [self._fault(rows, numbers, int(i)) for i in faulty])
        if chunk.times is not None and len(chunk.times):
            self._check_order(chunk.times, chunk)
        return chunk

    def _is_category(self, name: str) -> bool:
        """Return whether a column holds categories."""
        return self.encoding is not None and self.widths[name] is None and self.encoding[name].kind == CATEGORY

    def _faulty(self, column: Column, part: NDArray[np.float64], width: int | None) -> NDArray[np.bool_]:
        """Return which cells are neither numbers nor missing, (n,). Lists must not have missing entries."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(np.sum(part)):
                return np.zeros(len(part), dtype=bool)
        faulty: NDArray[np.bool_] = ~np.all(np.isfinite(part), axis=1)
        if width is None:
            for i in np.flatnonzero(np.isnan(part[:, 0])).tolist():
                faulty[i] = not self._is_missing(column[i])
        return faulty

    def _fault(self, rows: Rows, numbers: NDArray[np.float64], i: int) -> str:
        """Return what is wrong with the i-th of the rows, and where. numbers: (n, D) before encoding."""
        where = rows.where(i)
        if i in rows.broken:
            return f"{where}: {rows.broken[i]}"
        text = self.selection.text
        if text is not None and not cells.holds_text(rows.features[text][i]):
            cell = rows.features[text][i]
            fault = f"not in UTF-8: {ENCODING_HINT}" if isinstance(cell, str) else "not a text"
            return f"{where}, column {text!r}: {quote(cell)} is {fault}"
        for at in np.flatnonzero(~np.isfinite(numbers[i])).tolist():
            name = self._sources[at]
            cell = rows.features[name][i]
            if self.widths[name] is None and not np.isinf(numbers[i, at]) and self._is_missing(cell):
                continue
            format = self.formats.get(name)
            if isinstance(format, YesNo):
                words = f"{quote(cell)} is neither {format.yes!r} nor {format.no!r}"
                return f"{where}, column {name!r}: {words}; --categorical {shlex.quote(name)} takes it for a category"
            fault = cells.describe_fault(cell, self.widths[name])
            return f"{where}, column {name!r}: {fault}{self._hint(cell)}"
        if "labels" in rows.told:
            try:
                self._read_label(rows.told["labels"][i])
            except ValueError as error:
                return f"{where}, column {self.selection.label_column!r}: {error}"
        format = self.formats.get(str(self.selection.time_column))
        wanted = (
            self.times.format.description
            if self.times.format
            else "numbers or ISO 8601 dates; --time-format says which"
        )
        wanted = format.description if isinstance(format, DateFormat) else wanted
        cell = "" if rows.times is None else quote(rows.times[i])
        return f"{where}, column {self.selection.time_column!r}: {cell} is not a time; the times are {wanted}"

    def _read_told(self, name: str, column: Column, bad: NDArray[np.bool_]) -> list[Any]:
        """Return labels or marks as ``partial_fit`` takes them, None if unknown; mark invalid rows in ``bad``."""
        found: list[Any] = []
        for i, cell in enumerate(column.tolist() if isinstance(column, np.ndarray) else column):
            if name == "cannot_link":
                mark = None if self._is_missing(cell) else str(cell).strip()
                found.append(None if mark in NO_MARK else mark)
                continue
            try:
                found.append(self._read_label(cell))
            except ValueError:
                found.append(None)
                bad[i] = True
        return found

    def _read_label(self, cell: object) -> int | str | None:
        return None if self._is_missing(cell) else as_table(cell)

    def _hint(self, cell: object) -> str:
        """Return which option may help with a cell that is not a number, "" if none."""
        if not isinstance(cell, str):
            return ""
        if not cells.is_text(cell):
            return f"; it is not in UTF-8: {ENCODING_HINT}"
        mark = cell.strip()
        is_mark = mark and not mark.isalpha() and not any(map(str.isdigit, mark))  # such as ? or k.A., but not a word
        return f"; --missing {shlex.quote(mark)} takes it for a missing cell" if is_mark else ""

    def _check_order(self, times: NDArray[Any], chunk: Chunk) -> None:
        """Raise ``FileError`` if a time is before the previous one."""
        found = self.times.find_backward(times)
        if found is not None:
            at, earlier = found
            raise self.error(
                f", {chunk.where(int(chunk.rows[at]))}, column {self.selection.time_column!r}: times must not run "
                f"backwards: {times[at]} is earlier than {earlier}, the time before it"
            )

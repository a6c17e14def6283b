"""The base class of readers: chunks of checked numbers, times, and columns to copy, from a file or a pipe."""

from __future__ import annotations

import shlex
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.dates import AmbiguousDateError
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import BOOLEAN, CATEGORY, COUNTER, LEFT_OUT, LOG, NUMBER, TIMES, Entry, join_columns, quote
from dyncrp.input.infer import Content, infer_entries
from dyncrp.input.left_out import why_left_out
from dyncrp.io.files import FileError
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column, MissingCells
from dyncrp.io.readers.chunk import Chunk, Place, Rows
from dyncrp.io.readers.columns import (
    OnlyTextError,
    as_argument,
    choose_columns,
    find_only_text,
    holds_words,
    read_cells,
    suggest_booleans,
    suggest_categories,
    suggest_options,
    tell_constants,
    tell_others,
)
from dyncrp.io.readers.dates import NUMBERS, DateFormat, describe_assumption
from dyncrp.io.readers.formats import (
    AmbiguousError,
    Format,
    NumberFormat,
    YesNo,
    describe_format,
    find_formats,
    reads_plainly,
    restore_format,
)
from dyncrp.io.readers.selection import Selection
from dyncrp.io.readers.sorting import SortedRows, name_remedy
from dyncrp.io.readers.source import ENCODING_HINT
from dyncrp.io.readers.times import Times, find_time_format, suggest_times
from dyncrp.io.readers.told import Told

MOST_CELLS_IN_SAMPLE = 200_000  # from which the contents of columns are inferred
SKIP = "--skip-bad skips such rows"
SORTED_PLACE = frozenset({"row", "times", "last", "order"})  # the keys of a place among sorted rows
COUNTS = "{0} counts the rows: --exclude {0} leaves it out"  # if none is left out


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
    text_only = False  # whether each row is one text, as the lines of a log are
    place_keys: ClassVar[frozenset[str]] = frozenset({"row", "times", "last"})

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        self.file, self.name, self.selection, self.most_rows = file, name, selection, most_rows
        self.times = Times()
        self.formats: dict[str, Format] = {}
        self.notes: list[str] = []
        self._sorted: SortedRows | None = None
        self._first: dict[str, Any] = {}  # the cells of each column in the first rows
        self.findings: dict[str, Any] = {}
        self.encoding: Encoding | None = selection.learned
        self._is_missing = MissingCells(selection.missing)
        self._told = Told(self._is_missing, selection.decimal or ".")
        # Standard input may be a file that was partly read already.
        self.seekable = file is not getattr(sys.stdin, "buffer", None) and file.seekable()
        self.live = not self.seekable

    @abstractmethod
    def _rows(self, place: Place | None) -> Iterator[tuple[Rows, Place]]:
        """Yield rows, each time with the place after them, from a place on. ``chunks`` completes the places."""

    @abstractmethod
    def _progress(self, place: Place) -> float | None:
        """Return the share of the input before a place, None if it is unknown."""

    def progress(self, place: Place) -> float | None:
        """Return the share of the input that is done at a place, None if it is unknown."""
        if self.selection.sort_by_time:
            return None if self._sorted is None else place["row"] / max(len(self._sorted.order), 1)
        return self._progress(place)

    def kept_type(self, name: str) -> Any:
        """Return the Arrow type of a column to copy, None for text."""
        return None

    def chunks(self, place: Place | None = None) -> Iterator[Chunk]:
        """Yield chunks from the beginning, or from the place of an earlier chunk."""
        keys = SORTED_PLACE if self.selection.sort_by_time else self.place_keys
        if place is not None and not keys <= place.keys():
            raise self.error(" cannot be continued: the place to continue from is damaged")
        row = 0 if place is None else place["row"]
        self.times = Times() if place is None else Times(place["times"], place["last"])
        for rows, after in self._sorted_rows(place) if self.selection.sort_by_time else self._rows(place):
            chunk = self._chunk(rows, row)
            row += rows.n
            chunk.place.update(after | {"row": row, "times": self.times.format, "last": self.times.last})
            chunk.place["findings"] = self.findings | {"encoding": self.encoding and self.encoding.to_plain()}
            yield chunk

    def _sorted_rows(self, place: Place | None) -> Iterator[tuple[Rows, Place]]:
        """Yield all rows in the order of their times. They are read once, and kept."""
        if self._sorted is None:
            written = self.formats.get(str(self.selection.time_column))
            self._sorted = SortedRows.read((rows for rows, _ in self._rows(None)), written, self.error)
            self.seekable, self.live = True, False
        yield from self._sorted.rows(self.most_rows, place, self.error)

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

        sample: returns the cells of each column in the first n rows. If the first row of a pipe has only plain numbers,
        and it is known which columns are clustered, no more rows are waited for.
        """
        if self._remember():
            return
        plain = NumberFormat(self.selection.decimal or ".")
        names = [] if self.selection.text is not None else [n for n in self.columns if self.widths[n] is None]
        time = self.selection.time_column
        known_columns = self.live and not self.selection.decides
        most = MOST_CELLS_IN_SAMPLE // max(len(names), 1)
        counts = [1] * known_columns + [max(1, min(self.selection.n_first, most))]
        for n in counts:
            self._first = sample(n)
            first = {name: [cell for cell in some if not self._is_missing(cell)] for name, some in self._first.items()}
            found = self._find_formats({name: first[name] for name in names})
            known = time is None or time in self.formats or any(map(cells.is_time, first[time][:1]))
            if known and all(format == plain for format in found.values()):
                break
        if not any(first.values()):
            found = {}
        strings = (cell for name, column in first.items() for cell in (name, *column) if isinstance(cell, str))
        if not all(map(cells.is_text, strings)):
            self.notes.append(f"the input is not in UTF-8: {ENCODING_HINT}")
        found |= {n: None for n in found.keys() - self._numeric if holds_words(found[n], first[n])}
        contents = [read_cells(name, format, first[name]) for name, format in found.items()]
        self._decide(contents, plain=all(format == plain or not first[name] for name, format in found.items()))
        categories = {
            entry.name for entry in (self.encoding.entries if self.encoding else ()) if entry.kind == CATEGORY
        }
        if time is not None and time not in self.formats:
            found[time] = self._find_time_format(time, first[time])
        alike: dict[Format, list[str]] = {}  # columns to say something about, by their format
        for name, format in found.items():
            if format is not None and format != plain and name in {*self.columns, time} - categories:
                self.formats[name] = format
                if not reads_plainly(format, first[name]):
                    alike.setdefault(format, []).append(name)
        for format, named in alike.items():
            said = describe_format(format, [cell for name in named for cell in first[name]])
            self.notes.append(f"{join_columns(named)}: {said}{describe_assumption(format)}")
        for entry in self.selection.learned.entries if self.selection.learned is not None else ():
            if entry.kind == BOOLEAN and entry.name in self.columns and entry.words != ("1", "0"):
                self.formats[entry.name] = YesNo(*entry.words)  # these rows may have only one of the words
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

    def _decide(self, contents: Sequence[Content], *, plain: bool, others: dict[str, Entry] | None = None) -> None:
        """Decide what columns hold, from their first rows and the options, and add notes about it.

        plain: whether all of them hold plain numbers. others: of columns that cannot be clustered.
        """
        wanted = self.selection
        keep = wanted.columns is not None or (plain and not wanted.decides)
        entries = {entry.name: entry for entry in infer_entries(contents, plain=plain, keep=keep)} | (others or {})
        codes: list[str] = []
        if wanted.decides:
            codes = suggest_categories([one for one in contents if one.name not in self._categorical | self._numeric])
            codes += suggest_booleans(contents)
        left_out = any(entry.kind == LEFT_OUT for entry in entries.values())
        if wanted.learned is None and plain and not (self._categorical or wanted.log or left_out):
            self._advise(contents)
            self.notes += codes
            return
        if wanted.learned is None:
            chosen = []
            for name in self.columns:
                if self.widths[name] is None:
                    chosen.append(self._choose(name, entries.get(name, Entry(name, NUMBER))))
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
        text = self.columns[0] if self.text_only else find_only_text(self.encoding)
        if wanted.decides and text is not None:
            raise OnlyTextError(self.name, self.encoding, text)
        self._set_columns(left, f": {line}")
        self.findings["columns"] = list(self.columns)
        self.notes.append(line)
        self._suggest_times(entry.name for entry in self.encoding.entries if entry.reason == TIMES)
        if wanted.learned is None:
            many = tell_others(self.encoding, contents) if wanted.takes_all else []
            constants = tell_constants(self.encoding, self._first)
            self.notes += [*suggest_options(self.encoding), *codes, *many, *constants]

    def _advise(self, contents: Sequence[Content]) -> None:
        """Add a note about a column that is no feature, but is not left out since a family was given."""
        if self.selection.columns is None and not self.selection.decides:
            reasons = {content.name: why_left_out(*content[:3]) for content in contents}
            counters = [name for name, reason in reasons.items() if reason == COUNTER]
            self.notes += [COUNTS.format(as_argument(name)) for name in counters[:1]]
            self._suggest_times(name for name, reason in reasons.items() if reason == TIMES)

    def _suggest_times(self, names: Iterable[str]) -> None:
        """Add a note about a column of times, if the first rows show that --time-column would work."""
        wanted = self.selection
        if wanted.time_column is None and wanted.learned is None:
            found = {name: self._first[name] for name in names}
            self.notes += suggest_times(found, self._is_missing, wanted.decimal)

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

    def _find_time_format(self, name: str, column: list[Any]) -> Format | None:
        try:
            return find_time_format(column, self.selection.decimal, epochs=self.selection.time_format != NUMBERS)
        except AmbiguousDateError as error:
            choice = "--time-format {!r} or {!r} says which".format(*error.patterns)
            raise self.error(f", column {name!r}: {error}: {choice}") from None
        except AmbiguousError as error:
            raise self.error(f", column {name!r}: {error}") from None

    def _find_formats(self, columns: dict[str, list[Any]]) -> dict[str, Format | None]:
        try:
            return find_formats(columns, self.selection.decimal, commas=getattr(self, "delimiter", "") == ";")
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
        told = {name: self._told.read(name, column, bad) for name, column in rows.told.items()}
        times = None
        if rows.times is not None:
            times, untimely = self.times.read(rows.times, bad, self.formats.get(str(self.selection.time_column)))
            bad |= untimely

        indices = np.arange(first, first + rows.n) if rows.indices is None else rows.indices

        def where(row: int) -> str:
            return rows.where(row - first if rows.indices is None else int(np.flatnonzero(indices == row)[0]))

        chunk = Chunk(indices, X, times, rows.kept, where, {}, told=told)
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
            fault = rows.broken[i]
            return f"{where}: {fault}" + ("" if self.selection.skip_bad or ";" in fault else f"; {SKIP}")
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
            if isinstance(format, NumberFormat) and isinstance(cell, str) and np.isfinite(cells.as_numbers([cell])[0]):
                written = f"{quote(cell)} is not written as the other numbers, which have a decimal {format.decimal!r}"
                return f"{where}, column {name!r}: {written}; --decimal says which mark is decimal"
            fault = cells.describe_fault(cell, self.widths[name])
            return f"{where}, column {name!r}: {fault}{self._hint(cell) or self._remedies(cell, name)}"
        for name, column in rows.told.items():
            if (wrong := self._told.fault(name, column[i])) is not None:
                remedy = "" if self.selection.skip_bad else f"; {SKIP}"
                return f"{where}, column {self.selection.told[name]!r}: {wrong}{remedy}"
        if rows.times is not None and self._is_missing(rows.times[i]):
            remedy = "" if self.selection.skip_bad else "; --skip-bad skips such rows"
            return f"{where}, column {self.selection.time_column!r}: the time is missing{remedy}"
        format = self.formats.get(str(self.selection.time_column))
        wanted = (
            self.times.format.description
            if self.times.format
            else "numbers or ISO 8601 dates; --time-format says which"
        )
        wanted = format.description if isinstance(format, DateFormat) else wanted
        cell = "" if rows.times is None else quote(rows.times[i])
        return f"{where}, column {self.selection.time_column!r}: {cell} is not a time; the times are {wanted}"

    def _hint(self, cell: object) -> str:
        """Return what a cell that is not a number shows of the whole file, and which option helps; "" if nothing."""
        return f"; it is not in UTF-8: {ENCODING_HINT}" if isinstance(cell, str) and not cells.is_text(cell) else ""

    def _remedies(self, cell: object, name: str) -> str:
        """Return which options help with a cell that is not a number."""
        wanted, found = self.selection, list[str]()
        if wanted.skip_bad:
            return ""
        mark = cell.strip() if isinstance(cell, str) else ""
        if mark:
            found.append(f"--missing {as_argument(mark)} takes it for a missing cell")
        is_word = any(map(str.isalnum, mark)) and not cells.is_number(mark)
        if is_word and CATEGORY in wanted.takes and wanted.learned is None:
            found.append(f"--categorical {as_argument(name)} takes the column for categories")
        return "; " + ", ".join([*found, SKIP])

    def _check_order(self, times: NDArray[Any], chunk: Chunk) -> None:
        """Raise ``FileError`` if a time is before the previous one."""
        found = self.times.find_backward(times)
        if found is not None:
            at, earlier = found
            remedy = name_remedy(self.formats.get(str(self.selection.time_column)))
            raise self.error(
                f", {chunk.where(int(chunk.rows[at]))}, column {self.selection.time_column!r}: times must not run "
                f"backwards: {times[at]} is earlier than {earlier}, the time before it; {remedy}"
            )

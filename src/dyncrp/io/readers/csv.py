"""CSV (RFC 4180): cells between delimiters, in double quotes where needed, after a line of names."""

from __future__ import annotations

import csv
import functools
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, pairwise
from typing import Any, BinaryIO

import numpy as np

from dyncrp.input.entries import CATEGORY, MISSING
from dyncrp.io.files import FileError
from dyncrp.io.readers.cells import is_number
from dyncrp.io.readers.chunk import Rows
from dyncrp.io.readers.columns import name_repeated
from dyncrp.io.readers.formats import NumberFormat, may_get_thousands, why_unclear
from dyncrp.io.readers.header import (
    FIRST,
    HEADER_HINT,
    LAST,
    LEAST_ROWS,
    NAMED_ROWS,
    count_comments,
    find_start,
    find_unnamed,
    looks_like_row,
    suggest_columns,
    what_is_row,
)
from dyncrp.io.readers.lines import BREAKS, LONGEST_GAP, LONGEST_LINE, LinesReader, Piece
from dyncrp.io.readers.quotes import (
    WHITESPACE,
    aligns,
    cells_between_blanks,
    cells_in_quotes,
    describe_fault,
    escapes_quotes,
    join_by_blanks,
)
from dyncrp.io.readers.selection import Selection

MOST_COLUMNS_FOR_ARROW = 1000  # each takes some time
LONGEST_HEADER = 1 << 16  # bytes in which the delimiter is looked for
DELIMITER_NAMES = {",": "a comma", "\t": "a tab", ";": "a semicolon", "|": "a bar |"}
FEW_LINES = 20  # that must have equally many cells between blanks
LOG_FILE = re.compile(r"(?i:\.log(\.[a-z0-9]+)*$)")
WHOLE_LINES = "\x1f"  # as a delimiter: no text has it, so that each line is one cell
DELIMITER_HINT = "; --delimiter sets the character between cells"


class CsvReader(LinesReader):
    """CSV with a header, or with columns called 0, 1, 2, … Blank lines are skipped.

    Arrow reads the pieces in which every cell is valid, ten times as fast as Python, which reads the others and finds
    out what is wrong with them.
    """

    quoted = True

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        super().__init__(file, name, selection, most_rows)
        csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST_LINE))  # the default is 128 KiB
        self._counts = Counter[str]()  # of names in the header
        self._unnamed: str | None = (selection.findings or {}).get("unnamed")  # where a cell has no name in the header
        self.delimiter = selection.delimiter or ""  # not known yet
        self.pieces, self._held, self._n_held = self._pieces(), list[Piece](), 0
        self._hold(2)
        self._leave_comments()
        if not self._held:
            raise self.error(" is empty")
        found = (selection.findings or {}).get("delimiter")
        if found is not None and (not isinstance(found, str) or (len(found) != 1 and found != WHITESPACE)):
            raise self.error(f" cannot be read as before: its delimiter cannot be {found!r}")
        self.delimiter = selection.delimiter or found or self._find_delimiter()
        self._lines = list(islice(chain.from_iterable(io.StringIO(piece.text) for piece in self._held), FEW_LINES))
        piece = self._held[0]
        lines = io.StringIO(piece.text, newline="\n")
        line, header = next(self._read(lines, piece.line))
        given = [cell.strip() for cell in header]
        numbers = [cell.replace(selection.decimal or ".", ".") for cell in given]
        has_header, self.text_only = selection.header, self.delimiter == WHOLE_LINES
        if self.text_only:
            has_header = False
        elif has_header and all(map(is_number, numbers)):
            if all(map(str.isdigit, numbers)) and all(int(a) < int(b) for a, b in pairwise(numbers)):  # such as years
                if len(numbers) < LEAST_ROWS or numbers != [str(at) for at in range(len(numbers))]:
                    raise self.error(f", line {line}: the header has only numbers; use --no-header if there is none")
                self.notes.append(HEADER_HINT)  # as pandas numbers columns
            else:
                has_header = False
                self.notes.append("the first line holds numbers, so there is no header")
        elif has_header and (what := what_is_row(given, self._second_row())):
            has_header = False
            self.notes.append(f"the first line holds {what}, so there is no header")
        if has_header:
            given = self._complete(given)
            self._counts, names = Counter(given), name_repeated(given)
            rest = lines.read().encode("utf-8", "surrogateescape")
            n_lines = piece.content.count(b"\n") - rest.count(b"\n")
            self._held[0] = Piece(rest, piece.line + n_lines, piece.place)
            self._n_held -= 1
        else:
            names = [str(at) for at in range(len(header))]
        self.width, self._header = len(names), given if has_header else []
        self._resolve(names)
        places = {name: at for at, name in enumerate(names)}
        self._at = {name: places[name] for name in self._columns_read}
        self._infer(self._sample)
        self._at = {name: places[name] for name in self._columns_read}
        self.findings["delimiter"] = self.delimiter
        if self._unnamed is not None:
            self.findings["unnamed"] = self._unnamed
        if has_header and self._unnamed is None and looks_like_row(given):
            self.notes.append(HEADER_HINT)
        if self.delimiter == ";" and selection.decimal is None and selection.findings is None:
            numbers = [name for name in self.columns if self._may_be_plain(name) and name not in self._words]
            self.findings["whole"] = [name for name in numbers if may_get_thousands(self._first[name])]
        self._fast: Any = self._arrow(len(names))

    def _complete(self, header: list[str]) -> list[str]:
        """Return the names of the columns, also if one has none. Raise an error if the first line does not name them.

        Only the rows that were read already are looked at: a pipe is not waited for.
        """
        if self.selection.findings is None:
            rows: list[tuple[int, list[str]]] = []
            with suppress(FileError):  # raised again when the cells are read
                for piece in self._held:
                    rows += islice(self._read(io.StringIO(piece.text, newline="\n"), piece.line), FEW_LINES - len(rows))
            self._unnamed = find_unnamed(header, [cells for _, cells in rows[1:]])
            start = find_start(rows) if self._unnamed is None and rows else None
            if start is not None:
                raise self.error(self._describe_start(len(header), len(rows[-1][1]), *start))
        if self._unnamed == FIRST:
            if self.selection.findings is None:
                self.notes.append(NAMED_ROWS)
            return ["", *header]
        return [*header, ""] if self._unnamed == LAST else header

    def _describe_start(self, n_first: int, n: int, line: int, unnamed: bool) -> str:
        """Return that the table begins at a line, and how to leave out what is before it."""
        fault = f", line {line}: the rows have {n} cells from here on, but the first line has {n_first}"
        path = shlex.quote(self.name)
        command = f" with: tail -n +{line} {path} > rows.csv" if self.seekable else ""
        names = f"; then use --no-header, since line {line} holds numbers" if unnamed else ""
        return f"{fault}; leave out the lines before it{command}{names}"

    def _set_columns(self, columns: Sequence[str], why: str = "") -> None:
        hint = ""
        if not columns and self.width == 1 and self.selection.delimiter is None:
            hint = suggest_columns(self._lines, self._header)
        super()._set_columns(columns, f"{why}{hint}")

    def _cells_in_quotes(self) -> re.Pattern[bytes]:
        return cells_in_quotes(self.delimiter)

    def _end(self, data: bytes) -> int:
        if not self.delimiter:  # not looked for yet: the most frequent one in the first line will do here
            first = data.lstrip()[:LONGEST_HEADER].partition(b"\n")[0].decode("utf-8", "replace")
            mark = max(DELIMITER_NAMES, key=first.count)
            self.delimiter = mark if mark in first else WHITESPACE
        return super()._end(data)

    def _may_be_plain(self, name: str) -> bool:
        """Return whether points are decimal in a column, and nothing is between thousands."""
        format = self.formats.get(name, NumberFormat())
        return isinstance(format, NumberFormat) and (format.decimal, format.thousands) == (".", "")

    def _hold(self, n: int) -> None:
        """Read pieces until they have n rows, or the input ends, or for long has no row. Blank pieces are not kept."""
        n_blank = 0
        while self._n_held < n and n_blank < LONGEST_GAP:
            piece = next(self.pieces, None)
            if piece is None:
                return
            if not piece.content.strip(BREAKS if self._held else None):
                n_blank += len(piece.content) if self._held else 0
            else:
                self._held.append(piece)
                with suppress(csv.Error):  # raised again when the cells are read
                    rows = csv.reader(io.StringIO(piece.text, newline="\n"), delimiter="\x1f")
                    self._n_held += sum(1 for row in islice(filter(None, rows), n))

    def _second_row(self) -> list[str]:
        """Return the cells below the first line, none if there are none."""
        with suppress(FileError):  # raised again when the cells are read
            rows = (self._read(io.StringIO(piece.text, newline="\n"), piece.line) for piece in self._held)
            for _, cells in islice(chain.from_iterable(rows), 1, 2):
                return cells
        return []

    def _leave_comments(self) -> None:
        """Leave out the first lines if they begin with #, as programs write them, and are no names of columns."""
        while True:
            lines = list(chain.from_iterable(io.StringIO(piece.text, newline="\n") for piece in self._held))
            n, n_pieces = count_comments(lines), len(self._held)
            if n is None:
                self._held += islice(self.pieces, 1)
            if n is not None or len(self._held) == n_pieces:
                break
        if not n:
            return
        left = n
        while left and self._held:
            piece = self._held.pop(0)
            some = piece.content.splitlines(keepends=True)
            if left < len(some):
                self._held.insert(0, Piece(b"".join(some[left:]), piece.line + left, piece.place))
            left -= min(left, len(some))
        held, self._held, self._n_held = self._held, [], 0
        self.pieces = chain(held, self.pieces)
        self.delimiter = self.selection.delimiter or ""
        self._hold(2)
        begin = "line begins with #, and is" if n == 1 else f"{n} lines begin with #, and are"
        self.notes.append(f"the first {begin} left out")

    def _sample(self, n: int) -> dict[str, list[Any]]:
        """Return the cells of each column in the first n rows."""
        self._hold(n)
        rows = chain.from_iterable(
            self._read(io.StringIO(piece.text, newline="\n"), piece.line) for piece in self._held
        )
        whole = [cells for _, cells in islice(rows, n) if len(cells) == self.width]
        return {name: [cells[at] for cells in whole] for name, at in self._at.items()}

    def _find_delimiter(self) -> str:
        """Return the delimiter that splits the first two rows into equally many cells, best if some are numbers.

        A comma need not split anything, since there may be only one column.
        """
        lines = list(chain.from_iterable(io.StringIO(piece.text, newline="\n") for piece in self._held))
        scores = {}
        for delimiter in DELIMITER_NAMES:
            with suppress(csv.Error):
                first, *others = islice(filter(None, csv.reader(lines, delimiter=delimiter, strict=True)), 2)
                row = others[0] if others else first
                n_numbers = sum(is_number(cell if delimiter == "," else cell.replace(",", ".")) for cell in row)
                alike, several = len(row) == len(first), len(first) > 1
                if several or delimiter == ",":
                    scores[delimiter] = alike and n_numbers > 0, several, alike, n_numbers / len(row), len(row)
        found = max(scores, key=scores.__getitem__, default=",")
        numbers, several, alike, _, n_cells = scores.get(found, (False, False, False, 0.0, 0))
        # The text of a log may have as many semicolons in each line.
        blanks = not (several and alike) or (not numbers and len(cells_between_blanks(lines[0])) > n_cells)
        if blanks and aligns(lines[:FEW_LINES]):
            self.notes.append("the delimiter is white space")
            return WHITESPACE
        if LOG_FILE.search(self.name) and not self._splits(lines, found):
            self.notes.append("the lines are not split into cells")
            return WHOLE_LINES
        if found != ",":
            self.notes.append(f"the delimiter is {DELIMITER_NAMES[found]}")
        return found

    def _splits(self, lines: Sequence[str], delimiter: str) -> bool:
        """Return whether a delimiter splits lines into equally many cells, and more than one."""
        with suppress(csv.Error):
            widths = {len(row) for row in csv.reader(lines, delimiter=delimiter) if row}
            return len(widths) == 1 and widths != {1}
        return False

    def _warmup(self) -> Iterator[Piece]:
        return (piece for piece in chain(self._held, self.pieces) if piece.content)

    def _parse(self, piece: Piece) -> Rows:
        rows = (self._fast and self._arrow_rows(piece)) or self._plain_rows(piece)
        decimal = self.selection.decimal
        if self._whole:
            rows = self._check_points(rows)
        return rows if decimal is None else self._replace_marks(rows, decimal)

    @property
    def _whole(self) -> set[str]:
        """The columns whose first numbers are whole, where points may still come between thousands."""
        return set(self.findings.get("whole", ()))

    def _check_points(self, rows: Rows) -> Rows:
        """Return the rows, with those marked as broken where a point may be between thousands."""
        broken = dict(rows.broken)
        for name in self._whole.intersection(rows.features):
            if isinstance(rows.features[name], list):  # Arrow reads whole numbers only
                for i, cell in enumerate(rows.features[name]):
                    if "." in cell and (why := why_unclear(cell)):
                        broken.setdefault(i, f"column {name!r}: {why}")
        return rows._replace(broken=broken)

    def _replace_marks(self, rows: Rows, decimal: str) -> Rows:
        """Return the rows with plain numbers, if the decimal mark is given: the other mark is between thousands."""
        broken = dict(rows.broken)
        format = NumberFormat(decimal, "," if decimal == "." else ".")

        def replace(name: str, column: Any) -> Any:
            if not isinstance(column, list) or name in self.formats or name in self._words:  # of numbers
                return column
            column = list(column)
            for i, cell in enumerate(column):
                if decimal == "." and is_number(cell):
                    continue
                number = format.number(cell)
                if number is not None:
                    column[i] = number
                elif "." in cell and is_number(cell):
                    broken.setdefault(i, f"column {name!r}: {cell!r} has a decimal point, but --decimal is a comma")
            return column

        features = {name: replace(name, column) for name, column in rows.features.items()}
        times = None if rows.times is None else replace(str(self.selection.time_column), rows.times)
        return rows._replace(features=features, times=times, broken=broken)

    def _no_column(self, name: str, names: Sequence[str]) -> FileError:
        n = self._counts[name]
        if n > 1:
            places = " and ".join(at for at in names if at.startswith("#"))
            return self.error(f" has {n} columns called {name!r}: choose them by position, such as {places}")
        return super()._no_column(name, names)

    def _hint(self, cell: object) -> str:
        if isinstance(cell, str) and "," in cell and is_number(cell.replace(",", ".")):
            if NumberFormat(".", ",").number(cell) is None:
                return "; use --decimal , for decimal commas"
            return "; --decimal . takes the comma for thousands, --decimal , for decimals"
        if isinstance(cell, str) and self.width == 1 and not set(";|\t,").isdisjoint(cell):
            return DELIMITER_HINT
        return super()._hint(cell)

    def _read(self, lines: Iterator[str], line: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows that are not blank, each with the number of its first line."""
        blanks = self.delimiter == WHITESPACE
        dialect: dict[str, Any] = {"delimiter": " " if blanks else self.delimiter, "skipinitialspace": blanks}
        if isinstance(lines, io.StringIO) and not blanks and escapes_quotes(lines.getvalue()[lines.tell() :], dialect):
            dialect["escapechar"] = "\\"
        latest = ""

        def read_lines() -> Iterator[str]:
            nonlocal latest
            for latest in lines:
                yield join_by_blanks(latest) if blanks else latest

        reader = csv.reader(read_lines(), strict=True, **dialect)
        first = line
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                in_one_line = line + reader.line_num == first + 1 and not blanks
                if not (in_one_line and isinstance(lines, io.StringIO) and "expected after" in str(error)):
                    raise self.error(f", line {first}: {describe_fault(str(error))}") from None
                cells = latest.rstrip("\r\n").split(
                    self.delimiter
                )  # its quotes are characters like others, as in "a" b
            if cells is None:
                return
            if cells:
                yield first, cells
            first = line + reader.line_num

    def _plain_rows(self, piece: Piece) -> Rows:
        lines, broken = [], {}
        rows: list[list[str]] = []
        for line, cells in self._read(io.StringIO(piece.text, newline="\n"), piece.line):
            if len(cells) != self.width:
                hint = DELIMITER_HINT if self.width == 1 else ""
                n = f"{len(cells)} cell" + "s" * (len(cells) > 1)
                broken[len(rows)] = f"the row has {n}, but the first line has {self.width}{hint}"
                cells = [""] * self.width
            rows.append(cells)
            lines.append(line)
        columns = {name: [cells[at] for cells in rows] for name, at in self._at.items()}
        return self._rows_of(columns, len(rows), lambda i: f"line {lines[i]}", broken)

    @property
    def _words(self) -> set[str]:
        """The columns of texts and of categories."""
        entries = () if self.encoding is None else self.encoding.entries
        text = [] if self.selection.text is None else [self.selection.text]
        return {*(entry.name for entry in entries if entry.kind == CATEGORY), *text}

    @property
    def _texts(self) -> set[str]:
        """The columns whose cells are needed as text: texts, other formats, categories and constraints."""
        return {*self.formats, *self._words, *self.selection.told.values()}

    def _arrow(self, width: int) -> Any:
        """Return a function that reads a piece with Arrow, None if Arrow cannot be used."""
        if width > MOST_COLUMNS_FOR_ARROW or self.delimiter == WHITESPACE or self.delimiter == self.selection.decimal:
            return None
        if self.selection.decimal == "," and not set(self.columns).isdisjoint(self.kept):
            return None  # Arrow would copy them with a decimal point
        try:
            import pyarrow as pa
            from pyarrow import csv as reader
        except ModuleNotFoundError:
            return None
        pa.enable_signal_handlers(False)  # Arrow would swallow the signals that stop a run
        whole = self._whole
        types = {str(self._at[name]): pa.int64() if name in whole else pa.float64() for name in self.columns}
        types |= {str(self._at[name]): pa.string() for name in (*self.kept, *self._texts)}
        names = [str(at) for at in range(width)]
        options = {
            "parse_options": reader.ParseOptions(delimiter=self.delimiter, quote_char=False),
            "convert_options": reader.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[spelt for word in MISSING for spelt in (word, word.upper(), word.title())],
                strings_can_be_null=False,
                decimal_point=self.selection.decimal or ".",
            ),
        }

        def read(content: bytes) -> Any:
            whole = reader.ReadOptions(use_threads=False, column_names=names, block_size=len(content) + 1)
            return reader.read_csv(pa.BufferReader(content), read_options=whole, **options)

        return read

    def _arrow_rows(self, piece: Piece) -> Rows | None:
        """Return the rows as read by Arrow, None if Python must read them.

        Python is stricter about quotes and line ends.
        """
        if b'"' in piece.content or piece.content.count(b"\r") != piece.content.count(b"\r\n"):
            return None
        if self._whole and (b"0x" in piece.content or b"0X" in piece.content):
            return None  # Arrow would take them for whole numbers
        try:
            cells = self._fast(piece.content)
            columns = {name: cells.column(str(at)) for name, at in self._at.items()}
            found = {name: columns[name].cast("double") for name in self.columns if name not in self._texts}
        except ValueError:
            return None
        numbers = {name: column.to_numpy() for name, column in found.items()}
        # Arrow has other words for NaN, such as -nan, than those for a missing cell: a cell that is NaN, and not null.
        if any(np.any(np.isinf(numbers[name])) for name in found):
            return None
        if any(np.count_nonzero(np.isnan(numbers[name])) != column.null_count for name, column in found.items()):
            return None
        texts = {name: columns[name].to_pylist() for name in {*self.kept, *self._texts}}
        lines = functools.cache(lambda: self._plain_rows(piece).where)  # read again by Python, if asked for, and once
        rows = self._rows_of(texts, cells.num_rows, lambda i: lines()(i), {})
        return rows._replace(features={name: numbers.get(name, texts.get(name)) for name in self.columns})

"""CSV: cells between delimiters, in double quotes where needed (RFC 4180), under a line of names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

import numpy as np

from dyncrp.tables.base import Rows, Selection, as_numbers
from dyncrp.tables.lines import LONGEST, LinesTable, Piece

MOST_FOR_ARROW = 1000  # columns, of which each costs it some time
HINT = "; --delimiter says what stands between cells"


class CsvTable(LinesTable):
    """CSV with a header, or with columns called 0, 1, 2, …; blank lines are passed over.

    Arrow's reader takes the pieces in which every cell is as it should be, ten times as fast; Python's takes the rest,
    and says what is wrong with them.
    """

    quoted = True

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        super().__init__(file, name, selection, most_rows)
        csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST))  # or a cell of 128 KiB were too long for it
        pieces = self._pieces()
        piece = next(pieces, None)
        while piece is not None and not piece.content.strip():
            piece = next(pieces, None)
        if piece is None:
            raise self.error(" is empty")
        lines = io.StringIO(piece.text, newline="\n")
        line, header = next(self._read(lines, piece.line))
        if selection.header:
            names = [cell.strip() for cell in header]
            if all(_is_number(cell.replace(selection.decimal, ".")) for cell in names):
                raise self.error(f", line {line}: the header has numbers only; say --no-header if there is none")
            rest = lines.read().encode("utf-8", "surrogateescape")
            piece = Piece(rest, piece.line + piece.content.count(b"\n") - rest.count(b"\n"), piece.place)
        else:
            names = [str(at) for at in range(len(header))]
        self.width = len(names)
        self._resolve(names)
        places = {name: at for at, name in enumerate(names)}
        self._at = {name: places[name] for name in self._needed}
        self._first = chain([piece], pieces)
        self._fast: Any = self._arrow(len(names))

    def _beginning(self) -> Iterator[Piece]:
        return (piece for piece in self._first if piece.content)

    def _parsed(self, piece: Piece) -> Rows:
        rows = (self._fast and self._arrow_rows(piece)) or self._plain_rows(piece)
        return rows if self.selection.decimal == "." else self._pointed(rows)

    def _pointed(self, rows: Rows) -> Rows:
        """Return the rows with a point in place of the decimal comma of each number; a point there was is a fault."""
        broken = dict(rows.broken)

        def pointed(name: str, column: Any) -> Any:
            if not isinstance(column, list):  # of numbers
                return column
            column = list(column)
            for i, cell in enumerate(column):
                if "." in cell and _is_number(cell):
                    broken.setdefault(i, f"column {name!r}: {cell!r} has a point, and --decimal is a comma")
                elif "," in cell and _is_number(cell.replace(",", ".")):
                    column[i] = cell.replace(",", ".")
            return column

        features = {name: pointed(name, column) for name, column in rows.features.items()}
        times = None if rows.times is None else pointed(str(self.selection.time_column), rows.times)
        return rows._replace(features=features, times=times, broken=broken)

    def _hint(self, cell: object, row: int) -> str:
        if isinstance(cell, str) and "," in cell and _is_number(cell.replace(",", ".")):
            return "; --decimal , reads decimal commas"
        if isinstance(cell, str) and self.width == 1 and not set(";|\t,").isdisjoint(cell):
            return HINT
        return super()._hint(cell, row)

    def _read(self, lines: Iterator[str], line: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows that are not blank, and the line that each begins on."""
        reader = csv.reader(lines, delimiter=self.selection.delimiter, strict=True)
        first = line
        try:
            for cells in reader:
                if cells:
                    yield first, cells
                first = line + reader.line_num
        except csv.Error as error:
            alone = "new-line character" in str(error)
            said = "a carriage return stands alone; a line must end in a line feed" if alone else error
            raise self.error(f", line {first}: {said}") from None

    def _plain_rows(self, piece: Piece) -> Rows:
        lines, broken = [], {}
        rows: list[list[str]] = []
        for line, cells in self._read(io.StringIO(piece.text, newline="\n"), piece.line):
            if len(cells) != self.width:
                hint = HINT if self.width == 1 else ""
                broken[len(rows)] = f"the row has {len(cells)} cells, the first line {self.width}{hint}"
                cells = [""] * self.width
            rows.append(cells)
            lines.append(line)
        columns = {name: [cells[at] for cells in rows] for name, at in self._at.items()}
        return self._rows_of(columns, len(rows), lambda i: f"line {lines[i]}", broken)

    def _arrow(self, width: int) -> Any:
        """Return what Arrow reads a piece with, None without Arrow."""
        if width > MOST_FOR_ARROW:
            return None
        if self.selection.decimal != "." and not set(self.columns).isdisjoint(self.kept):
            return None  # it would read them as text, and text with a decimal point
        try:
            import pyarrow as pa
            from pyarrow import csv as reader
        except ModuleNotFoundError:
            return None
        types = {str(self._at[name]): pa.float64() for name in self.columns}
        types |= {str(self._at[name]): pa.string() for name in self.kept}
        names = [str(at) for at in range(width)]
        options = {
            "parse_options": reader.ParseOptions(delimiter=self.selection.delimiter, quote_char=False),
            "convert_options": reader.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[],
                strings_can_be_null=False,
                decimal_point=self.selection.decimal,
            ),
        }

        def read(content: bytes) -> Any:
            whole = reader.ReadOptions(use_threads=False, column_names=names, block_size=len(content) + 1)
            return reader.read_csv(pa.BufferReader(content), read_options=whole, **options)

        return read

    def _arrow_rows(self, piece: Piece) -> Rows | None:
        """Return the rows as Arrow reads them, None if there is anything that Python's reader should look at.

        Arrow is not as strict about quotes and line ends.
        """
        if b'"' in piece.content or piece.content.count(b"\r") != piece.content.count(b"\r\n"):
            return None
        try:
            table = self._fast(piece.content)
            features = {name: table.column(str(self._at[name])).cast("double").to_numpy() for name in self.columns}
        except ValueError:
            return None
        if not all(np.all(np.isfinite(column)) for column in features.values()):
            return None
        kept = {name: table.column(str(self._at[name])).to_pylist() for name in self.kept}
        rows = self._rows_of(kept, table.num_rows, lambda i: self._plain_rows(piece).where(i), {})
        return rows._replace(features=features)


def _is_number(cell: str) -> bool:
    number = as_numbers([cell])[0]
    return bool(number == number)

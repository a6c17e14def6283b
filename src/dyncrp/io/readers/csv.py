"""CSV: cells between delimiters, in double quotes where needed (RFC 4180), under a line of names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

import numpy as np

from dyncrp.io.readers.base import Rows, Selection
from dyncrp.io.readers.cells import is_number
from dyncrp.io.readers.lines import LONGEST_LINE, LinesReader, Piece

MOST_COLUMNS_FOR_ARROW = 1000  # each costs it some time
DELIMITER_HINT = "; --delimiter sets the character between cells"


class CsvReader(LinesReader):
    """CSV with a header, or with columns called 0, 1, 2, …; blank lines are skipped.

    Arrow's reader takes the pieces in which every cell is as it should be, ten times as fast; Python's takes the rest,
    and says what is wrong with them.
    """

    quoted = True

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        super().__init__(file, name, selection, most_rows)
        csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST_LINE))  # or a cell of 128 KiB were too long for it
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
            if all(is_number(cell.replace(selection.decimal, ".")) for cell in names):
                raise self.error(f", line {line}: the header has only numbers; use --no-header if there is none")
            rest = lines.read().encode("utf-8", "surrogateescape")
            piece = Piece(rest, piece.line + piece.content.count(b"\n") - rest.count(b"\n"), piece.place)
        else:
            names = [str(at) for at in range(len(header))]
        self.width = len(names)
        self._resolve(names)
        places = {name: at for at, name in enumerate(names)}
        self._at = {name: places[name] for name in self._columns_read}
        self._first = chain([piece], pieces)
        self._fast: Any = self._arrow(len(names))

    def _beginning(self) -> Iterator[Piece]:
        return (piece for piece in self._first if piece.content)

    def _parse(self, piece: Piece) -> Rows:
        rows = (self._fast and self._arrow_rows(piece)) or self._plain_rows(piece)
        return rows if self.selection.decimal == "." else self._replace_commas(rows)

    def _replace_commas(self, rows: Rows) -> Rows:
        """Return the rows with a decimal point in place of each decimal comma; a point in the file is a fault."""
        broken = dict(rows.broken)

        def replace(name: str, column: Any) -> Any:
            if not isinstance(column, list):  # of numbers
                return column
            column = list(column)
            for i, cell in enumerate(column):
                if "." in cell and is_number(cell):
                    broken.setdefault(i, f"column {name!r}: {cell!r} has a decimal point, but --decimal is a comma")
                elif "," in cell and is_number(cell.replace(",", ".")):
                    column[i] = cell.replace(",", ".")
            return column

        features = {name: replace(name, column) for name, column in rows.features.items()}
        times = None if rows.times is None else replace(str(self.selection.time_column), rows.times)
        return rows._replace(features=features, times=times, broken=broken)

    def _hint(self, cell: object, row: int) -> str:
        if isinstance(cell, str) and "," in cell and is_number(cell.replace(",", ".")):
            return "; use --decimal , for decimal commas"
        if isinstance(cell, str) and self.width == 1 and not set(";|\t,").isdisjoint(cell):
            return DELIMITER_HINT
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
            fault = "a carriage return without a line feed; lines must end in a line feed" if alone else error
            raise self.error(f", line {first}: {fault}") from None

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

    def _arrow(self, width: int) -> Any:
        """Return what Arrow reads a piece with, None without Arrow."""
        if width > MOST_COLUMNS_FOR_ARROW:
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
            cells = self._fast(piece.content)
            features = {name: cells.column(str(self._at[name])).cast("double").to_numpy() for name in self.columns}
        except ValueError:
            return None
        if not all(np.all(np.isfinite(column)) for column in features.values()):
            return None
        kept = {name: cells.column(str(self._at[name])).to_pylist() for name in self.kept}
        rows = self._rows_of(kept, cells.num_rows, lambda i: self._plain_rows(piece).where(i), {})
        return rows._replace(features=features)

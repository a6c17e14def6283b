"""JSON: an object on each line, or an array of objects."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import chain, count, islice
from typing import Any, BinaryIO

from dyncrp.io.readers.chunk import Rows
from dyncrp.io.readers.json_values import JsonSource, rows_within, why_not_rows
from dyncrp.io.readers.lines import LONGEST_GAP, LinesReader, Piece
from dyncrp.io.readers.selection import Selection


class JsonLinesReader(LinesReader):
    """An object on each line, or an array of objects. The first one decides the columns, and the lengths of lists.

    Blank lines are skipped.
    """

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        super().__init__(file, name, selection, most_rows)
        self.source = source = JsonSource(self.source)
        self.seekable = self.seekable and source.plain
        self._unit, self._first_number = ("line", 0) if source.in_lines else ("row", 1)  # lines count from 1
        pieces = self._pieces()
        held: list[Piece] = []
        first: dict[str, Any] | None = None
        for piece in pieces:
            if not piece.content.strip():
                continue
            held.append(piece)
            first = next((row for _, row in _read(piece) if isinstance(row, dict)), None)
            if first is not None or not selection.skip_bad or piece.place["offset"] > LONGEST_GAP:
                break
        if not held:
            raise self.error(" is empty")
        if first is None:
            line, fault = next((row for piece in held for row in _read(piece)), (0, "blank"))
            raise self.error(f", {self._where(line)}: {fault}" if line else " is empty")
        several = len(held) > 1 or len(list(islice(_read(held[0]), 2))) > 1
        if not several and (why := why_not_rows(first)):
            within = rows_within(first)
            if within is None:
                raise self.error(f": {why}")
            rows, note = within
            self.notes.append(note)
            self.source, self.seekable = io.BytesIO(b"".join(json.dumps(row).encode() + b"\n" for row in rows)), False
            self._unit, self._first_number = "row", 1
            pieces, held = self._pieces(), []
            held += islice(pieces, 1)
            first = next((row for piece in held for _, row in _read(piece) if isinstance(row, dict)), {})
        vectors = {name: cell for name, cell in first.items() if isinstance(cell, list) and cell}
        lists = {name: len(cell) for name, cell in vectors.items() if not any(isinstance(part, str) for part in cell)}
        self._resolve(list(first), lists.get)
        self.pieces, self._held = pieces, held
        self._infer(self._sample)

    def _where(self, line: int) -> str:
        """Return the place of a row, by the number of its line."""
        return f"{self._unit} {line - self._first_number}"

    def _sample(self, n: int) -> dict[str, list[Any]]:
        """Return the cells of each column in the first n rows, including rows that are not objects."""
        rows: list[dict[str, Any] | str] = []
        for at in count():
            if at == len(self._held):
                self._held += islice((piece for piece in self.pieces if piece.content.strip()), 1)
            if at == len(self._held) or len(rows) >= n:
                break
            rows += [row for _, row in islice(_read(self._held[at]), n - len(rows))]
        objects = [row for row in rows if isinstance(row, dict)]
        return {name: [row.get(name) for row in objects] for name in self._columns_read}

    def _warmup(self) -> Iterator[Piece]:
        return chain(self._held, self.pieces)

    def _parse(self, piece: Piece) -> Rows:
        lines, broken = [], {}
        objects: list[dict[str, Any]] = []
        for line, row in _read(piece):
            if isinstance(row, str):
                broken[len(objects)] = row
                row = {}
            lines.append(line)
            objects.append(row)
        columns = {name: [row.get(name) for row in objects] for name in self._columns_read}
        return self._rows_of(columns, len(objects), lambda i: self._where(lines[i]), broken)


def _read(piece: Piece) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the line number and the object of each row, or a text that says what is wrong with it."""
    for at, line in enumerate(io.StringIO(piece.text, newline="\n")):
        if line.isspace():
            continue
        row: dict[str, Any] | str
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                row = 'a row must be an object, such as {"x": 1.5}'
        except (ValueError, RecursionError) as error:
            row = f"not JSON: {getattr(error, 'msg', error)}"
        yield piece.line + at, row

"""Text a few lines at a time: complete ones, however the bytes come, and where they are."""

from __future__ import annotations

import hashlib
import io
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from dyncrp.io.readers.base import Reader
from dyncrp.io.readers.chunk import Place, Rows
from dyncrp.io.readers.selection import Selection
from dyncrp.io.readers.source import Source

LONGEST_LINE = 1 << 26  # bytes in a line, or in a cell of several lines
TAIL = 4096  # bytes before a place that are compared when reading continues there
BOM = b"\xef\xbb\xbf"


class Piece(NamedTuple):
    """Complete lines, the number of the first (from 1), and the place after them."""

    content: bytes
    line: int
    place: Place

    @property
    def text(self) -> str:
        """The lines as text; bytes that are no UTF-8 pass through unharmed."""
        return self.content.decode("utf-8", "surrogateescape")


class LinesReader(Reader):
    """Reads rows that are lines. ``quoted`` tells whether a cell in double quotes may hold line ends.

    A place counts the bytes of the text. A file that is compressed or in another encoding is read
    again up to a place, as a pipe is.
    """

    quoted = False
    place_keys = Reader.place_keys | {"offset", "line", "tail"}

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        super().__init__(file, name, selection, most_rows)
        self.source = Source(file, name, selection.encoding, live=self.live)
        self.seekable = self.seekable and self.source.plain

    def progress(self, place: Place) -> float | None:
        """Bytes read, of all bytes in the file."""
        if self.live:
            return None
        done = place["offset"] if self.seekable else self.file.tell()
        return done / max(os.fstat(self.file.fileno()).st_size, 1)

    def _rows_of(
        self, columns: dict[str, list[Any]], n: int, where: Callable[[int], str], broken: dict[int, str]
    ) -> Rows:
        """Return n rows of cells by the name of their column."""
        features = {name: columns[name] for name in self.columns if name in columns}
        time = self.selection.time_column
        kept = {name: columns[name] for name in self.kept}
        told = {name: columns[column] for name, column in self.selection.told.items()}
        return Rows(n, features, None if time is None else columns[time], kept, where, broken, told)

    @abstractmethod
    def _parse(self, piece: Piece) -> Rows:
        """Return the rows in a piece."""

    def _rows(self, place: Place | None) -> Iterator[tuple[Rows, Place]]:
        for piece in self._warmup() if place is None else self._pieces(place):
            yield self._parse(piece), piece.place

    @abstractmethod
    def _warmup(self) -> Iterator[Piece]:
        """Return the pieces with rows in them, from the first."""

    def _pieces(self, place: Place | None = None) -> Iterator[Piece]:
        """Yield pieces of at most ``most_rows`` lines, or a row more, from the place on."""
        offset, line, tail = 0, 1, b""
        if place is not None:
            tail, passed = self._seek(place)
            offset, line = place["offset"] + passed, place["line"] + bool(passed)
        rest = b""
        while True:
            block = self.source.read()
            data = rest + block
            end = self._end(data) if block else len(data)
            if end == 0:
                if not block:
                    return
                if len(data) > LONGEST_LINE:
                    what = "line, or a cell in quotes," if self.quoted else "line"
                    raise self.error(f", line {line}: a {what} is longer than {LONGEST_LINE >> 20} MiB")
                rest = data
                continue
            rest = data[end:]
            for content in self._split(data[:end]):
                offset += len(content)
                n_lines = content.count(b"\n")
                tail = (tail[-TAIL:] + content)[-TAIL:]
                after: Place = {"offset": offset, "line": line + n_lines, "tail": [len(tail), _digest(tail)]}
                yield Piece(content.removeprefix(BOM) if offset == len(content) else content, line, after)
                line += n_lines

    def _end(self, data: bytes) -> int:
        """Return where the last complete row ends."""
        end = data.rfind(b"\n") + 1
        while self.quoted and end and data.count(b'"', 0, end) % 2:
            # Within quotes; the row began before the last quote that opened.
            end = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
        return end

    def _split(self, content: bytes) -> Iterator[bytes]:
        if content.count(b"\n") <= self.most_rows:
            yield content
            return
        lines: list[bytes] = []
        quotes = 0
        for line in io.BytesIO(content):
            lines.append(line)
            quotes += line.count(b'"') if self.quoted else 0
            if len(lines) >= self.most_rows and quotes % 2 == 0:
                yield b"".join(lines)
                lines = []
        if lines:
            yield b"".join(lines)

    def _seek(self, place: Place) -> tuple[bytes, int]:
        """Go to a place if the bytes before it are unchanged; return them.

        The last line may have had no end. If it has one now, it is skipped; how many bytes is returned, too.
        """
        length, digest = place["tail"]
        changed = self.error(f" is not the same as before: it differs before byte {place['offset']}")
        self.file.seek(place["offset"] - length)
        tail = self.file.read(length)
        if len(tail) < length or _digest(tail) != digest:
            raise changed
        if tail.endswith(b"\n"):
            return tail, 0
        rest = self.file.read(2)
        end = 2 if rest == b"\r\n" else 1 if rest[:1] == b"\n" else 0
        if rest and not end:
            raise self.error(f", line {place['line']}: the line has been continued since it was read")
        self.file.seek(place["offset"] + end)
        return tail + rest[:end], end


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

"""Readers of text: complete lines, in pieces of a few lines, with their places."""

from __future__ import annotations

import hashlib
import os
import re
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from dyncrp.io.readers.base import Reader
from dyncrp.io.readers.chunk import Place, Rows
from dyncrp.io.readers.selection import Selection
from dyncrp.io.readers.source import Source

LONGEST_LINE = 1 << 26  # bytes, also of a cell of several lines
TAIL = 4096  # how many bytes before a place are compared when reading continues there
MUCH = 1 << 20  # bytes of a row that is not complete: more are looked at only a few times
BOM = b"\xef\xbb\xbf"
NEW_LINE = ord("\n")
BREAKS = b"\r\n"
LONGEST_GAP = 1 << 26  # bytes without a row, in which those that decide what columns hold are looked for


class Piece(NamedTuple):
    """Complete lines, the number of the first one (from 1), and the place after them."""

    content: bytes
    line: int
    place: Place

    @property
    def text(self) -> str:
        """The lines as text. Bytes that are not valid UTF-8 are kept as surrogates."""
        return self.content.decode("utf-8", "surrogateescape")


class LinesReader(Reader):
    """Reads rows that are lines. ``quoted`` tells whether cells in double quotes may contain line ends; for messages.

    A place counts the bytes of the text. To continue at a place of a file that is compressed or in another encoding, it
    is read from the beginning, as a pipe is.
    """

    quoted = False
    place_keys = Reader.place_keys | {"offset", "line", "tail"}

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        super().__init__(file, name, selection, most_rows)
        self.source: Any = Source(file, name, selection.encoding, live=self.live)
        self.seekable = self.seekable and self.source.plain

    def _progress(self, place: Place) -> float | None:
        """Return the share of the bytes before a place."""
        if self.live:
            return None
        done = place["offset"] if self.seekable else self.file.tell()
        return done / max(os.fstat(self.file.fileno()).st_size, 1)

    def _rows_of(
        self, columns: dict[str, list[Any]], n: int, where: Callable[[int], str], broken: dict[int, str]
    ) -> Rows:
        """Return n rows, given their cells by the names of the columns."""
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
        """Return the pieces with rows, from the first one on."""

    def _pieces(self, place: Place | None = None) -> Iterator[Piece]:
        """Yield pieces of at most ``most_rows`` lines from a place on; more only to complete a row."""
        offset, line, tail = 0, 1, b""
        if place is not None:
            tail, passed = self._seek(place)
            offset, line = place["offset"] + passed, place["line"] + bool(passed)
        rest = b""
        while True:
            block = self._next_block(len(rest))
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

    def _next_block(self, n_waiting: int) -> bytes:
        """Return the next bytes: so many that a row which is not complete yet is not looked at again and again."""
        block: bytes = self.source.read()
        if n_waiting <= MUCH:
            return block
        blocks, n = [block], len(block)
        while blocks[-1] and n < n_waiting // 2:
            blocks.append(self.source.read())
            n += len(blocks[-1])
        return b"".join(blocks)

    def _cells_in_quotes(self) -> re.Pattern[bytes] | None:
        """Return what matches cells in quotes, also the last one if it does not end; None if there are none."""
        return None

    def _end(self, data: bytes) -> int:
        """Return where the last complete row ends."""
        end = data.rfind(b"\n") + 1
        pattern = self._cells_in_quotes()
        if pattern is None or not end or b'"' not in data:
            return end
        for last in deque(pattern.finditer(data), maxlen=1):
            if last.end() >= end:  # the last line end is within quotes, and the row began before them
                end = data.rfind(b"\n", 0, last.start()) + 1
        return end

    def _split(self, content: bytes) -> Iterator[bytes]:
        if content.count(b"\n") <= self.most_rows:
            yield content
            return
        pattern, plain = self._cells_in_quotes(), content
        if pattern is not None and b'"' in content:
            plain = pattern.sub(lambda cell: cell[0].replace(b"\n", b" "), content)
        lines, rows = (1 + np.flatnonzero(np.frombuffer(text, np.uint8) == NEW_LINE) for text in (content, plain))
        begin = n_lines = 0
        while n_lines + self.most_rows <= len(lines):
            row = int(np.searchsorted(rows, lines[n_lines + self.most_rows - 1]))
            if row == len(rows):
                break
            end = int(rows[row])
            yield content[begin:end]
            begin, n_lines = end, int(np.searchsorted(lines, end, side="right"))
        if begin < len(content):
            yield content[begin:]

    def _seek(self, place: Place) -> tuple[bytes, int]:
        """Go to a place, and return the bytes before it, which must be unchanged.

        If the last line had no line end then, and has one now, this is skipped. Its length is returned as well.
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

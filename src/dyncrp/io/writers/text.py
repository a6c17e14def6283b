"""Labelled rows as CSV and JSON lines."""

from __future__ import annotations

import csv
import json
import os
import re
import stat
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from dyncrp.io.files import FileError, sync_folder
from dyncrp.io.growing import GrowingFile, held, tail_of
from dyncrp.io.readers import Reader
from dyncrp.io.readers.cells import Column
from dyncrp.io.writers.base import CLUSTER, ClusterOf, Writer, plain_values

QUOTED = frozenset(',"\r\n')  # characters for which a cell of CSV needs quotes
BLOCK = 1 << 22  # bytes that are read at a time when a column is added or dropped
LONGEST_HEADER = 1 << 26  # bytes; another kind of file may have no line ends
LAST_NAME = re.compile(rb'"(?:""|[^"])*"(?!"),(\d+-?),')  # a name in quotes and the table before it, read backwards


class TextWriter(Writer):
    """A record of text for each row. At the end, all records are copied beside with their cluster, and renamed."""

    def __init__(self, path: str, reader: Reader, *, joined: bool = False, more: Collection[str] = ()) -> None:
        super().__init__(path, reader, joined=joined, more=more)
        self.joined = joined
        self._next: GrowingFile | None = None  # what takes the place of the file

    @abstractmethod
    def _records(self, lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Return the whole records in lines, without line ends, and the lines of an unfinished one."""

    @abstractmethod
    def _table(self, record: bytes) -> bytes:
        """Return the id of the table of a record, in digits."""

    @abstractmethod
    def _with_cluster(self, record: bytes, cluster: int) -> bytes:
        """Return a record with its cluster, and a line end."""

    @abstractmethod
    def _without_cluster(self, record: bytes) -> bytes:
        """Return a record without its cluster, with a line end; as it was if it has none."""

    @abstractmethod
    def _head_with_cluster(self) -> bytes:
        """Return the bytes before the first row if there is a column of clusters."""

    @classmethod
    def files(cls, path: str) -> tuple[str, ...]:
        """Return the paths of the output, and of what is made beside it."""
        return path, _beside(path)

    @property
    def length(self) -> int:
        """The number of bytes of complete rows, or of the finished output once it is made."""
        return (self._next or self.file).length

    def tail(self) -> str:
        """Return a digest of the last bytes."""
        return (self._next or self.file).tail()

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        (self._next or self.file).sync()

    def finish(self, cluster_of: ClusterOf | None = None) -> None:
        """Copy all rows beside, with their clusters."""
        if cluster_of is None or not self.joined:
            return

        def clustered() -> Iterator[bytes]:
            yield self._head_with_cluster()
            for records in self._blocks(self.path, self.file.length, len(self._head())):
                tables = np.array(list(map(self._table, records))).astype(np.int64)
                yield b"".join(map(self._with_cluster, records, cluster_of(tables).tolist()))

        self._make(clustered())

    def resume(self, length: int, tail: str, finished: bool) -> None:
        """Continue after this many bytes. If the output was finished, its rows are copied beside without clusters."""
        if not finished or not self._has_clusters():
            super().resume(length, tail, finished)
            return
        with held(self.path):
            if os.path.getsize(self.path) < length or tail_of(self.path, length) != tail:
                raise FileError(f"{self.path} has changed since the checkpoint, so it cannot be continued")

            def stripped() -> Iterator[bytes]:
                yield self._head()
                for records in self._blocks(self.path, length, len(self._head_with_cluster())):
                    yield b"".join(map(self._without_cluster, records))

            self._make(stripped())

    def settle(self) -> None:
        """Put what was made beside the output in its place."""
        if self._next is None:
            return
        length, tail, made = self._next.length, self._next.tail(), self._next.path
        self.close()  # Windows renames no open file
        self._next = None
        _replace(made, self.path)
        self.file = GrowingFile(self.path)
        self.file.resume(length, tail)

    def recover(self, length: int, tail: str) -> None:
        """Put what a killed run made in its place, if that is what its checkpoint refers to."""
        beside = _beside(self.path)
        if os.path.isfile(beside) and not _has_tail(self.path, length, tail) and _has_tail(beside, length, tail):
            with held(self.path, beside):
                _replace(beside, self.path)

    def close(self) -> None:
        """Close the files; standard output stays open."""
        super().close()
        if self._next is not None:
            self._next.close()

    def _make(self, contents: Iterable[bytes]) -> None:
        """Write contents beside the output."""
        made = GrowingFile(_beside(self.path))
        made.start()
        try:
            for content in contents:
                made.append(content)
            made.sync()
        except BaseException:
            made.close()
            with suppress(OSError):
                os.unlink(made.path)
            raise
        self._next = made

    def _has_clusters(self) -> bool:
        """Return whether the file has a column of clusters that was added at the end."""
        return CLUSTER not in self.results and self.columns_of(self.path)[-1:] == [CLUSTER]

    def _blocks(self, path: str, length: int, start: int) -> Iterator[list[bytes]]:
        """Yield the records of a file from one byte to another, many at a time."""
        with open(path, "rb") as file:
            file.seek(start)
            left, unfinished, rest = length - start, list[bytes](), b""
            while left > 0:
                content = file.read(min(BLOCK, left))
                if not content:
                    raise FileError(f"{path} has changed while it was read")
                left -= len(content)
                *lines, rest = (rest + content).split(b"\n")
                records, unfinished = self._records(unfinished + lines)
                if records:
                    yield records


def _beside(path: str) -> str:
    return path if path == "-" else os.path.realpath(path) + ".new"


def _has_tail(path: str, length: int, tail: str) -> bool:
    try:
        return os.path.getsize(path) >= length and tail_of(path, length) == tail
    except FileNotFoundError:
        return False


def _replace(made: str, path: str) -> None:
    """Put a file in the place of another, or of the one that it links to."""
    target = os.path.realpath(path)
    with suppress(FileNotFoundError):
        os.chmod(made, stat.S_IMODE(os.stat(target).st_mode))
    os.replace(made, target)
    sync_folder(target)


class CsvWriter(TextWriter):
    """CSV with a header."""

    def _head(self) -> bytes:
        return _header(self.names)

    def _head_with_cluster(self) -> bytes:
        return _header((*self.names, CLUSTER))

    def _encode(self, columns: list[Column]) -> bytes:
        return _format_rows(",".join(["%s"] * len(columns)) + "\n", columns, _format_cell)

    @classmethod
    def columns_of(cls, path: str) -> list[str]:
        """Return the names in the header."""
        try:
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                return next(csv.reader(iter(lambda: file.readline(LONGEST_HEADER), ""), strict=True), [])
        except (OSError, csv.Error):
            return []

    def _records(self, lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        records, held_back, n_quotes = list[bytes](), list[bytes](), 0
        for line in lines:
            n_quotes += line.count(b'"')
            if n_quotes % 2:  # the line end is in a cell
                held_back.append(line)
            elif held_back:
                records.append(b"\n".join([*held_back, line]))
                held_back = []
            else:
                records.append(line)
        return records, held_back

    def _table(self, record: bytes) -> bytes:
        """Return the table, counted from the end: cells before it may hold commas in quotes, and so may a name."""
        after = len(self.results) - 1
        if "name" not in self.results:
            return record.rsplit(b",", after + 1)[1]
        cells = record.rsplit(b",", after - 1)[0]
        if not cells.endswith(b'"'):
            return cells.rsplit(b",", 2)[1]
        found = LAST_NAME.match(cells[::-1])
        assert found is not None
        return found.group(1)[::-1]

    def _with_cluster(self, record: bytes, cluster: int) -> bytes:
        return b"%b,%d\n" % (record, cluster)

    def _without_cluster(self, record: bytes) -> bytes:
        return record[: record.rindex(b",")] + b"\n"


class JsonLinesWriter(TextWriter):
    """An object on each line."""

    def _head(self) -> bytes:
        return b""

    def _head_with_cluster(self) -> bytes:
        return b""

    def _encode(self, columns: list[Column]) -> bytes:
        entries = ", ".join(json.dumps(name).replace("%", "%%") + ": %s" for name in self.names)
        return _format_rows("{" + entries + "}\n", columns, _format_json)

    @classmethod
    def columns_of(cls, path: str) -> list[str]:
        """Return the keys on the first line."""
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                first = json.loads(file.readline(LONGEST_HEADER))
            return list(first) if isinstance(first, dict) else []
        except (OSError, ValueError):
            return []

    def _records(self, lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        return lines, []

    def _table(self, record: bytes) -> bytes:
        """Return the table. A text after it cannot hold these bytes: JSON has a backslash before a quote in texts."""
        start = record.rindex(b'"table": ') + len(b'"table": ')
        return record[start : record.index(b",", start)]

    def _with_cluster(self, record: bytes, cluster: int) -> bytes:
        return b'%b, "cluster": %d}\n' % (record[:-1], cluster)

    def _without_cluster(self, record: bytes) -> bytes:
        return record[: record.rindex(b', "cluster": ')] + b"}\n"


def _header(names: Iterable[str]) -> bytes:
    return _to_bytes(",".join(map(_format_cell, names)) + "\n")


def _format_rows(template: str, columns: list[Column], format: Callable[[Any], str]) -> bytes:
    """Return a line for each row. Finite numbers are formatted by ``repr``, other values by ``format``."""
    texts = [map(repr if _is_numeric(column) else format, plain_values(column)) for column in columns]
    return _to_bytes("".join([template % values for values in zip(*texts, strict=True)]))


def _is_numeric(column: Column) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "iuf" and bool(np.all(np.isfinite(column)))


def _format_json(value: Any) -> str:
    """Return a value as JSON, with null for NaN and inf."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value))


def _finite(value: Any) -> Any:
    """Return a value with None in place of NaN and inf."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list) else value


def _format_cell(value: Any) -> str:
    """Return a value as a cell of CSV, in quotes if it needs them."""
    if not isinstance(value, str):
        value = "" if value is None else json.dumps(value)
    if not QUOTED.isdisjoint(value):
        return '"' + value.replace('"', '""') + '"'
    return value


def _to_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # restores bytes that were not valid UTF-8
    except UnicodeEncodeError:  # a lone surrogate, which JSON allows
        return text.encode("utf-8", "replace")

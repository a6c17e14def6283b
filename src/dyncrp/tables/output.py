"""Labelled rows as CSV, JSON lines or Parquet, written as they come and cut back to any length they had."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from io import BufferedWriter, FileIO
from typing import Any, BinaryIO

import numpy as np

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

from dyncrp.persistence import sync_folder
from dyncrp.tables.base import Column, Table, TableError

ROW_GROUP = 1 << 16  # rows, in Parquet
TAIL = 1 << 16  # bytes of what was written that are compared when going on
QUOTED = frozenset(',"\r\n')  # what a cell of CSV needs quotes for
OWN = ("row", "table", "probability", "novelty")


class Output(ABC):
    """A file, or standard output for "-", that grows; ``length`` is how many bytes of it hold whole rows.

    A format gives the bytes before the first row, and those of some rows.
    """

    def __init__(self, path: str, table: Table) -> None:
        clash = next((name for name in table.kept if name in OWN), None)
        if clash is not None:
            remedy = "rename it" if clash == table.selection.time_column else "do not keep it"
            raise table.error(f" has a column {clash!r}, which is also one of the result: {remedy}")
        self.path, self.table = path, table
        self.names = ("row", *table.kept, "table", "probability", "novelty")
        self.length = 0
        self._file: BinaryIO | None = None
        self._named = False  # whether the disk knows the file by its name

    @abstractmethod
    def _head(self) -> bytes:
        """Return what comes before the first row."""

    @abstractmethod
    def _encoded(self, columns: list[Column]) -> bytes:
        """Return rows, given as a column for each name."""

    @property
    def growing(self) -> str:
        """The file that grows."""
        return self.path

    @classmethod
    def files(cls, path: str) -> tuple[str, ...]:
        """Return every file that an output of this path writes."""
        return (path,)

    def start(self) -> None:
        """Begin an empty output, in place of any that is there."""
        if self.path == "-" and sys.stdout is None:
            raise TableError("standard output is closed")
        self._file = sys.stdout.buffer if self.path == "-" else self._emptied()
        self._append(self._head())

    def resume(self, length: int, tail: str, finished: bool) -> None:
        """Go on after this many bytes, which must be the same as then."""
        try:
            self._file = open(self.growing, "r+b", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            raise TableError(f"{self.growing} is missing: the checkpoint goes on from it") from None
        self._lock(self._file)
        self.length = length
        if os.fstat(self._file.fileno()).st_size < length or self.tail() != tail:
            self.close()
            raise TableError(f"{self.growing} has changed since the checkpoint, and cannot be gone on from")
        self._file.truncate(length)
        self._file.seek(length)

    def _emptied(self) -> FileIO:
        """Return the file that grows, empty; not before it is certain that no other run writes it."""
        file = open(  # noqa: SIM115
            self.growing, "wb", buffering=0, opener=lambda path, flags: os.open(path, flags & ~os.O_TRUNC, 0o666)
        )
        self._lock(file)
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.truncate(0)
        return file

    def _lock(self, file: BinaryIO | FileIO) -> None:
        """Refuse a file that another run writes; the lock ends when the file is closed."""
        try:
            if fcntl is not None:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise TableError(f"{self.growing} is being written by another run") from None
        except OSError:  # some file systems have no locks
            pass

    def write(self, kept: dict[str, Column], rows: Any, tables: Any, probability: Any, novelty: Any) -> None:
        """Add rows."""
        self._append(self._encoded([rows, *(kept[name] for name in self.table.kept), tables, probability, novelty]))

    def sync(self) -> None:
        """Have all on the disk."""
        assert self._file is not None
        os.fsync(self._file.fileno())
        if not self._named:
            sync_folder(self.growing)
            self._named = True

    def tail(self) -> str:
        """Return a digest of the last bytes."""
        with open(self.growing, "rb") as file:
            file.seek(max(self.length - TAIL, 0))
            return hashlib.sha256(file.read(min(self.length, TAIL))).hexdigest()

    def finish(self) -> None:  # noqa: B027 - most formats need nothing
        """Make the result of what was written."""

    def clean(self) -> None:  # noqa: B027
        """Remove what the finished result does not need."""

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._file is not None and self.path != "-":
            self._file.close()

    def _append(self, content: bytes) -> None:
        assert self._file is not None
        view = memoryview(content)
        try:
            while view:
                view = view[self._file.write(view) :]
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.path != "-":
                with suppress(OSError):  # whole rows only
                    self._file.truncate(self.length)
            name = "standard output" if self.path == "-" else self.growing
            raise OSError(error.errno, error.strerror, name) from None
        self.length += len(content)


class CsvOutput(Output):
    """CSV with a header."""

    def _head(self) -> bytes:
        return _encode(",".join(map(_cell, self.names)) + "\n")

    def _encoded(self, columns: list[Column]) -> bytes:
        return _lines(",".join(["%s"] * len(columns)) + "\n", columns, _cell)


class JsonLinesOutput(Output):
    """An object on each line."""

    def _head(self) -> bytes:
        return b""

    def _encoded(self, columns: list[Column]) -> bytes:
        entries = ", ".join(json.dumps(name).replace("%", "%%") + ": %s" for name in self.names)
        return _lines("{" + entries + "}\n", columns, _json)


class ParquetOutput(Output):
    """Parquet: Arrow batches in a file beside it, which become the Parquet file in the end."""

    def __init__(self, path: str, table: Table) -> None:
        super().__init__(path, table)
        try:
            import pyarrow as pa
        except ModuleNotFoundError:
            raise TableError("Parquet needs pyarrow: pip install 'dyncrp[cli]'") from None

        kinds = {"row": pa.int64(), "table": pa.int64(), "probability": pa.float64(), "novelty": pa.float64()}
        kinds |= {name: table.kept_type(name) or pa.string() for name in table.kept}
        self.schema = pa.schema([(_utf8(name), kinds[name]) for name in self.names])
        self._finished = False

    @classmethod
    def files(cls, path: str) -> tuple[str, ...]:
        """Return the result, the batches, and what becomes the result."""
        return path, path + ".part", path + ".whole"

    @property
    def growing(self) -> str:
        """The file of batches; once it is finished, the result."""
        return self.path if self._finished else self.path + ".part"

    def _head(self) -> bytes:
        return self.schema.serialize().to_pybytes()

    def _encoded(self, columns: list[Column]) -> bytes:
        import pyarrow as pa

        arrays = [
            column
            if isinstance(column, pa.Array)
            else pa.array(_texts(column) if kind == pa.string() else column, kind)
            for column, kind in zip(columns, self.schema.types, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema).serialize().to_pybytes()

    def resume(self, length: int, tail: str, finished: bool) -> None:
        """Go on after this many bytes; of a finished output, the batches are made again from the Parquet file."""
        if finished:
            self._unfinish(length, tail)
            length, tail = self.length, self.tail()
        super().resume(length, tail, finished)

    def _unfinish(self, length: int, tail: str) -> None:
        """Make the batches from the Parquet file if it is as it was; its last bytes tell of all its groups of rows."""
        from pyarrow import parquet

        self._finished, self.length = True, length
        try:
            same = os.path.getsize(self.path) == length and self.tail() == tail
        except FileNotFoundError:
            raise TableError(f"{self.path} is missing: the checkpoint goes on from it") from None
        if not same:
            raise TableError(f"{self.path} has changed since the checkpoint, and cannot be gone on from")
        self._finished = False
        try:
            with parquet.ParquetFile(self.path) as whole, BufferedWriter(self._emptied()) as file:
                file.write(self._head())
                for batch in whole.iter_batches(ROW_GROUP, use_threads=False):
                    file.write(batch.cast(self.schema).serialize())
                self.length = file.tell()
        except TableError:
            raise
        except (OSError, ValueError) as error:
            raise TableError(f"{self.path} cannot be gone on from: {error}") from None

    def finish(self) -> None:
        """Write the Parquet file beside its place, sync it and rename it; groups of rows have a fixed size."""
        import pyarrow as pa
        from pyarrow import parquet

        beside = self.path + ".whole"
        try:
            with open(beside, "wb") as file:
                with open(self.growing, "rb") as batches, parquet.ParquetWriter(file, self.schema) as writer:
                    held: list[Any] = []
                    for batch in pa.ipc.open_stream(batches):
                        held.append(batch)
                        while sum(len(batch) for batch in held) >= ROW_GROUP:
                            whole = pa.Table.from_batches(held)
                            writer.write_table(whole.slice(0, ROW_GROUP).combine_chunks(), ROW_GROUP)
                            held = whole.slice(ROW_GROUP).to_batches()
                    if held:
                        writer.write_table(pa.Table.from_batches(held).combine_chunks(), ROW_GROUP)
                os.fsync(file.fileno())
            os.replace(beside, self.path)
            sync_folder(self.path)
            self._finished, self.length = True, os.path.getsize(self.path)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(beside)
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, self.path) from None
            raise

    def clean(self) -> None:
        """Remove the batches."""
        with suppress(FileNotFoundError):
            os.unlink(self.path + ".part")


OUTPUTS: dict[str, type[Output]] = {"csv": CsvOutput, "jsonl": JsonLinesOutput, "parquet": ParquetOutput}


def _lines(template: str, columns: list[Column], written: Callable[[Any], str]) -> bytes:
    """Return a line for each row; numbers as Python writes them, the rest as ``written`` does."""
    numeric = [
        isinstance(column, np.ndarray) and column.dtype.kind in "iuf" and bool(np.all(np.isfinite(column)))
        for column in columns
    ]
    texts = [map(repr if plain else written, _plain(column)) for column, plain in zip(columns, numeric, strict=True)]
    return _encode("".join([template % values for values in zip(*texts, strict=True)]))


def _plain(column: Column) -> list[Any]:
    """Return a column as Python values; dates of Arrow as ISO 8601."""
    if isinstance(column, list):
        return column
    if isinstance(column, np.ndarray):
        return column.tolist()
    from pyarrow import types

    if types.is_timestamp(column.type):
        dates = column.cast("int64").fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
        zone = "Z" if column.type.tz else ""
        texts = np.datetime_as_string(dates.view(f"M8[{column.type.unit}]")).tolist()
        return [None if text == "NaT" else text + zone for text in texts]
    values = column.to_pylist()
    numeric = types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)
    return values if numeric else [None if value is None else _text(value) for value in values]


def _text(value: Any) -> Any:
    """Return a value that JSON can say, or its text."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return str(value)
    return value


def _json(value: Any) -> str:
    """Return a value as JSON, in which NaN and inf are null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value))


def _finite(value: Any) -> Any:
    """Return a value with None for every NaN and inf in it."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list) else value


def _cell(value: Any) -> str:
    """Return a value as a cell of CSV, in quotes if it needs them."""
    if not isinstance(value, str):
        value = "" if value is None else json.dumps(value)
    if not QUOTED.isdisjoint(value):
        return '"' + value.replace('"', '""') + '"'
    return value


def _texts(column: Column) -> list[str | None]:
    """Return a column for Arrow as text."""
    cells = (value if isinstance(value, str) or value is None else json.dumps(value) for value in _plain(column))
    return [None if cell is None else _utf8(cell) for cell in cells]


def _utf8(text: str) -> str:
    """Return text that Arrow takes: question marks for what is no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # bytes that were no UTF-8, as they were
    except UnicodeEncodeError:  # half a character, which JSON can say
        return text.encode("utf-8", "replace")

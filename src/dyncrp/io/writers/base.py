"""What a writer is: a file that grows, row by row, and can be cut back to any length it had."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

from dyncrp.io.files import FileError, sync_folder
from dyncrp.io.readers import Reader
from dyncrp.io.readers.cells import Column

TAIL = 1 << 16  # bytes of what was written that are compared when a run is resumed
RESULTS = ("table", "probability", "novelty")  # the columns of the result, after the row and what is copied
GROUP = "group"  # the column after them, where it can be known
GroupOf = Callable[[NDArray[np.int64]], NDArray[np.int64]]  # the groups of tables


class Writer(ABC):
    """A file, or standard output for "-", that grows; ``length`` is how many bytes of it hold whole rows.

    A format gives the bytes before the first row, and those of some rows. grouped: whether tables are joined into
    groups at the end.
    """

    def __init__(self, path: str, reader: Reader, *, grouped: bool = False) -> None:
        own = ("row", *RESULTS, *[GROUP] * (grouped and self.groups_file(path) is None))
        clash = next((name for name in reader.kept if name in own), None)
        if clash is not None:
            remedy = "rename it" if clash == reader.selection.time_column else "do not keep it"
            raise reader.error(f" has a column {clash!r}, which is also a column of the output: {remedy}")
        self.path, self.kept = path, reader.kept
        self.names = ("row", *reader.kept, *RESULTS)
        self.length = 0
        self._file: BinaryIO | None = None
        self._name_synced = False  # whether the disk knows the file by its name

    @abstractmethod
    def _head(self) -> bytes:
        """Return what comes before the first row."""

    @abstractmethod
    def _encode(self, columns: list[Column]) -> bytes:
        """Return rows, given as a column for each name."""

    @property
    def growing(self) -> str:
        """The file that grows."""
        return self.path

    @classmethod
    def files(cls, path: str) -> tuple[str, ...]:
        """Return every file that is written for an output of this path."""
        return (path,)

    @classmethod
    def groups_file(cls, path: str) -> str | None:
        """Return the file beside an output that says which group each table is in; None if the output says it.

        Rows are written as they come, when no one knows yet which tables will be in one group.
        """
        return os.path.splitext(path)[0] + ".groups.csv"

    def start(self) -> None:
        """Start an empty file, in place of any that exists."""
        if self.path == "-" and sys.stdout is None:
            raise FileError("standard output is closed")
        self._file = sys.stdout.buffer if self.path == "-" else self._open_empty()
        self._append(self._head())

    def resume(self, length: int, tail: str, finished: bool) -> None:
        """Continue after this many bytes, whose last ones must have the digest ``tail``."""
        try:
            self._file = open(self.growing, "r+b", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            raise FileError(f"{self.growing} is missing, and the checkpoint continues it") from None
        self._lock(self._file)
        self.length = length
        if os.fstat(self._file.fileno()).st_size < length or self.tail() != tail:
            self.close()
            raise FileError(f"{self.growing} has changed since the checkpoint, so it cannot be continued")
        self._file.truncate(length)
        self._file.seek(length)

    def _open_empty(self) -> FileIO:
        """Return the file that grows, empty; not before it is certain that no other run is writing it."""
        file = open(  # noqa: SIM115
            self.growing, "wb", buffering=0, opener=lambda path, flags: os.open(path, flags & ~os.O_TRUNC, 0o666)
        )
        self._lock(file)
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.truncate(0)
        return file

    def _lock(self, file: BinaryIO | FileIO) -> None:
        """Refuse a file that another run is writing; the lock ends when the file is closed."""
        try:
            if fcntl is not None:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise FileError(f"{self.growing} is being written by another run") from None
        except OSError:  # some file systems have no locks
            pass

    def write(self, kept: dict[str, Column], rows: Any, tables: Any, probability: Any, novelty: Any) -> None:
        """Add rows."""
        self._append(self._encode([rows, *(kept[name] for name in self.kept), tables, probability, novelty]))

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        assert self._file is not None
        os.fsync(self._file.fileno())
        if not self._name_synced:
            sync_folder(self.growing)
            self._name_synced = True

    def tail(self) -> str:
        """Return a digest of the last bytes."""
        with open(self.growing, "rb") as file:
            file.seek(max(self.length - TAIL, 0))
            return hashlib.sha256(file.read(min(self.length, TAIL))).hexdigest()

    def finish(self, group_of: GroupOf | None = None) -> None:  # noqa: B027 - most formats need nothing
        """Make the result from what was written. group_of: the groups of tables, if they are known."""

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


def plain_values(column: Column) -> list[Any]:
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

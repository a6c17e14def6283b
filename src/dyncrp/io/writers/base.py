"""The base class of writers of labelled rows, in a file that grows and can be cut back."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dyncrp.io.growing import GrowingFile
from dyncrp.io.readers import Reader
from dyncrp.io.readers.cells import Column

RESULTS = ("table", "name", "probability", "novelty", "novelty_p")  # columns after the index and the copied columns
ON_REQUEST = ("name", "novelty_p")  # columns that are written only on request
GROUP = "group"  # the last column, in formats that are completed at the end
GroupOf = Callable[[NDArray[np.int64]], NDArray[np.int64]]  # the groups of tables


class Writer(ABC):
    """Writes labelled rows to a file, or to standard output for "-".

    A subclass defines the bytes before the first row, and those of rows. grouped: whether tables are joined into groups
    at the end. more: the columns of ``ON_REQUEST`` to write.
    """

    pipes: ClassVar[bool] = True  # whether it can write to a pipe

    def __init__(self, path: str, reader: Reader, *, grouped: bool = False, more: Collection[str] = ()) -> None:
        self.results = tuple(name for name in RESULTS if name in more or name not in ON_REQUEST)
        own = ("row", *self.results, *[GROUP] * (grouped and self.groups_file(path) is None))
        clash = next((name for name in reader.kept if name in own), None)
        if clash is not None:
            remedy = "rename it" if clash == reader.selection.time_column else "do not keep it"
            raise reader.error(f" has a column {clash!r}, which is also a column of the output: {remedy}")
        self.path, self.kept = path, reader.kept
        self.names = ("row", *reader.kept, *self.results)
        self.file = GrowingFile(path)

    @abstractmethod
    def _head(self) -> bytes:
        """Return the bytes before the first row."""

    @abstractmethod
    def _encode(self, columns: list[Column]) -> bytes:
        """Return the bytes of rows, given a column for each of ``names``."""

    @property
    def length(self) -> int:
        """The number of bytes of complete rows."""
        return self.file.length

    @classmethod
    def files(cls, path: str) -> tuple[str, ...]:
        """Return all files that are written for an output at this path."""
        return (path,)

    @classmethod
    def groups_file(cls, path: str) -> str | None:
        """Return the path of the file with the group of each table; None if the output has a column of groups.

        Groups are known only at the end, when most formats have written their rows already.
        """
        return os.path.splitext(path)[0] + ".groups.csv"

    def start(self) -> None:
        """Start an empty file, and replace any that exists."""
        self.file.start()
        self.file.append(self._head())

    def resume(self, length: int, tail: str, finished: bool) -> None:
        """Continue after this many bytes, whose last ones must have the digest ``tail``."""
        self.file.resume(length, tail)

    def write(
        self, kept: dict[str, Column], rows: Any, tables: Any, probability: Any, novelty: Any, **more: Column
    ) -> None:
        """Write rows. more: the requested columns, by name."""
        found = {"table": tables, "probability": probability, "novelty": novelty, **more}
        columns = [*(kept[name] for name in self.kept), *(found[name] for name in self.results)]
        self.file.append(self._encode([rows, *columns]))

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        self.file.sync()

    def tail(self) -> str:
        """Return a digest of the last bytes."""
        return self.file.tail()

    def finish(self, group_of: GroupOf | None = None) -> None:  # noqa: B027 - most formats need nothing
        """Complete the output. group_of: returns the groups of tables, if there are any."""

    def clean(self) -> None:  # noqa: B027
        """Remove temporary files."""

    def close(self) -> None:
        """Close the file; standard output stays open."""
        self.file.close()


def plain_values(column: Column) -> list[Any]:
    """Return a column as Python values, with dates of Arrow as texts in ISO 8601."""
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
    """Return a value if it can be written as JSON, its text otherwise."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return str(value)
    return value

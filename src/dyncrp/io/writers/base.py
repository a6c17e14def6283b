"""The base class of writers of labelled rows, in a file that grows and can be cut back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dyncrp.io.growing import GrowingFile
from dyncrp.io.readers import Reader
from dyncrp.io.readers.cells import Column

CLUSTER = "cluster"  # the last column, which is added at the end, or written with the row if that is requested
# Columns after the index and the copied columns, and those of them that are written only on request.
RESULTS = ("table", "name", "probability", "novelty", "novelty_p", CLUSTER)
ON_REQUEST = ("name", "novelty_p", CLUSTER)
ClusterOf = Callable[[NDArray[np.int64]], NDArray[np.int64]]  # the clusters of tables


class Writer(ABC):
    """Writes labelled rows to a file, or to standard output for "-".

    A subclass defines the bytes before the first row, and those of rows. joined: whether the output gets a column of
    clusters at the end. more: the columns of ``ON_REQUEST`` to write.

    Clusters are known only at the end. Then ``finish`` makes the finished output beside the rows, and ``settle`` puts
    it in their place. In between, a checkpoint is saved that refers to the finished output, so that a run that is
    killed at any moment can be resumed: ``recover`` does what ``settle`` could not. To continue a finished output,
    ``resume`` makes the rows without clusters beside it, in the same way.
    """

    pipes: ClassVar[bool] = True  # whether it can write to a pipe

    def __init__(self, path: str, reader: Reader, *, joined: bool = False, more: Collection[str] = ()) -> None:
        self.results = tuple(name for name in RESULTS if name in more or name not in ON_REQUEST)
        own = ("row", *self.results, *[CLUSTER] * joined)
        clashes = [name for name in reader.kept if name in own]
        if clashes:
            remedy = "rename them" if reader.selection.time_column in clashes else "do not keep them"
            remedy += ", or use --clusters none" if clashes == [CLUSTER] else ""
            columns = " and ".join(map(repr, clashes))
            raise reader.error(f" has {columns} among its columns, as the output has: {remedy}")
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
    @abstractmethod
    def columns_of(cls, path: str) -> list[str]:
        """Return the names of the columns of a file in this format; none if it is not one."""

    @classmethod
    def wrote(cls, path: str) -> bool:
        """Return whether a file has the columns of an output: the index first, the results and clusters last."""
        columns, usual = cls.columns_of(path), [name for name in RESULTS if name not in ON_REQUEST]
        last = columns[columns.index("table") :] if "table" in columns else []
        return columns[:1] == ["row"] and [name for name in last if name not in ON_REQUEST] == usual

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

    def finish(self, cluster_of: ClusterOf | None = None) -> None:  # noqa: B027 - a pipe needs nothing
        """Make the finished output. cluster_of: returns the clusters of tables, if there are any."""

    def settle(self) -> None:  # noqa: B027
        """Put what was made beside the output in its place, and remove temporary files."""

    def recover(self, length: int, tail: str) -> None:  # noqa: B027
        """Settle what a run made that was killed before it could; length, tail: of the output, by its checkpoint."""

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

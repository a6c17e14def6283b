"""Labelled rows as Parquet, written with Arrow."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from dyncrp.io.files import FileError, sync_folder
from dyncrp.io.growing import GrowingFile, tail_of
from dyncrp.io.readers import Reader
from dyncrp.io.readers.cells import Column
from dyncrp.io.writers.base import CLUSTER, ClusterOf, Writer, plain_values

ROWS_IN_GROUP = 1 << 16


class ParquetWriter(Writer):
    """Parquet. Rows are written to another file as Arrow batches, which become the Parquet file at the end."""

    pipes = False

    def __init__(self, path: str, reader: Reader, *, joined: bool = False, more: Collection[str] = ()) -> None:
        super().__init__(path, reader, joined=joined, more=more)
        try:
            import pyarrow as pa
        except ModuleNotFoundError:
            raise FileError("Parquet needs pyarrow: pip install 'dyncrp[cli]'") from None

        kinds = dict.fromkeys(self.results, pa.float64())
        kinds |= {"row": pa.int64(), "table": pa.int64(), "name": pa.string(), CLUSTER: pa.int64()}
        kinds |= {name: reader.kept_type(name) or pa.string() for name in reader.kept}
        self.schema = pa.schema([(_utf8(name), kinds[name]) for name in self.names])
        self.file = GrowingFile(path + ".part")
        self._finished: int | None = None  # the length of the Parquet file, once it is there

    @classmethod
    def files(cls, path: str) -> tuple[str, ...]:
        """Return the paths of the Parquet file, the batches, and the unfinished Parquet file."""
        return path, path + ".part", path + ".whole"

    @classmethod
    def columns_of(cls, path: str) -> list[str]:
        """Return the names of the columns of a Parquet file."""
        from pyarrow import parquet

        try:
            return list(parquet.read_schema(path).names)
        except (OSError, ValueError):
            return []

    @property
    def length(self) -> int:
        """The number of bytes of the batches, or of the Parquet file once it is there."""
        return self.file.length if self._finished is None else self._finished

    def tail(self) -> str:
        """Return a digest of the last bytes of the batches, or of the Parquet file once it is there."""
        return self.file.tail() if self._finished is None else tail_of(self.path, self._finished)

    def _head(self) -> bytes:
        return self.schema.serialize().to_pybytes()

    def _encode(self, columns: list[Column]) -> bytes:
        import pyarrow as pa

        arrays = [
            column
            if isinstance(column, pa.Array)
            else pa.array(_texts(column) if kind == pa.string() else column, kind)
            for column, kind in zip(columns, self.schema.types, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema).serialize().to_pybytes()

    def resume(self, length: int, tail: str, finished: bool) -> None:
        """Continue after this many bytes. If the Parquet file was finished, batches are made from it again."""
        if finished:
            self._unfinish(length, tail)
        else:
            super().resume(length, tail, finished)

    def _unfinish(self, length: int, tail: str) -> None:
        """Make batches from the Parquet file. Its last bytes, an index of all rows, must be unchanged."""
        from pyarrow import parquet

        try:
            same = os.path.getsize(self.path) == length and tail_of(self.path, length) == tail
        except FileNotFoundError:
            raise FileError(f"{self.path} is missing, but the checkpoint continues it") from None
        if not same:
            raise FileError(f"{self.path} has changed since the checkpoint, so it cannot be continued")
        self.file.start()
        self._finished = None
        try:
            with parquet.ParquetFile(self.path) as whole:
                self.file.append(self._head())
                for batch in whole.iter_batches(ROWS_IN_GROUP, use_threads=False):
                    columns = batch.select(
                        range(len(self.schema))
                    )  # without the last column, clusters, which may change
                    self.file.append(columns.cast(self.schema).serialize().to_pybytes())
        except (OSError, ValueError) as error:
            self.file.close()
            raise FileError(f"{self.path} cannot be continued: {error}") from None

    def finish(self, cluster_of: ClusterOf | None = None) -> None:
        """Make the Parquet file atomically, with row groups of a fixed size."""
        import pyarrow as pa
        from pyarrow import parquet

        def finished(rows: Any) -> Any:
            if cluster_of is None:
                return rows.combine_chunks()
            clusters = pa.array(cluster_of(rows["table"].to_numpy()), pa.int64())
            return rows.combine_chunks().append_column(CLUSTER, clusters)

        schema = self.schema if cluster_of is None else self.schema.append(pa.field(CLUSTER, pa.int64()))
        beside = self.path + ".whole"
        try:
            with open(beside, "wb") as file:
                with open(self.file.path, "rb") as batches, parquet.ParquetWriter(file, schema) as writer:
                    held: list[Any] = []
                    for batch in pa.ipc.open_stream(batches):
                        held.append(batch)
                        while sum(len(batch) for batch in held) >= ROWS_IN_GROUP:
                            whole = pa.Table.from_batches(held)
                            writer.write_table(finished(whole.slice(0, ROWS_IN_GROUP)), ROWS_IN_GROUP)
                            held = whole.slice(ROWS_IN_GROUP).to_batches()
                    if held:
                        writer.write_table(finished(pa.Table.from_batches(held)), ROWS_IN_GROUP)
                os.fsync(file.fileno())
            os.replace(beside, self.path)
            sync_folder(self.path)
            self._finished = os.path.getsize(self.path)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(beside)
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, self.path) from None
            raise

    def settle(self) -> None:
        """Remove the batches, once the Parquet file is there."""
        if self._finished is None:
            return
        with suppress(FileNotFoundError):
            os.unlink(self.file.path)


def _texts(column: Column) -> list[str | None]:
    """Return a column as texts for Arrow."""
    cells = (value if isinstance(value, str) or value is None else json.dumps(value) for value in plain_values(column))
    return [None if cell is None else _utf8(cell) for cell in cells]


def _utf8(text: str) -> str:
    """Return valid UTF-8 for Arrow, with question marks for other characters."""
    return text.encode("utf-8", "replace").decode()

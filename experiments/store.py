"""Result tables: Parquet files that a run adds to a part at a time, and that no interruption can spoil."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dyncrp.io.files import sync_folder

Row = dict[str, Any]


class Table:
    """Rows with a key. New rows are parts in a folder beside the file; ``compact`` makes one file of all.

    Args:
        path: the file, ``NAME.parquet``; the parts are in ``NAME.parts``.
        schema: columns and types.
        key: columns that tell rows apart; a row whose key is there already does not count.
    """

    def __init__(self, path: Path, schema: pa.Schema, key: Sequence[str]) -> None:
        self.path, self.schema, self.key = path, schema, list(key)
        self.parts = path.with_suffix(".parts")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other runs from writing to the same table, as long as this one lives; in the end, compact it."""
        self.parts.mkdir(parents=True, exist_ok=True)
        with (self.parts / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SystemExit(
                    f"another run is writing to {self.path}; wait for it, or choose another --output"
                ) from None
            for torn in self.parts.glob("*.tmp"):
                torn.unlink()
            yield
            self._compact()

    def read(self) -> pd.DataFrame:
        """Return all rows, in the order of their keys."""
        files = [self.path, *sorted(self.parts.glob("*.parquet"))]
        tables = [pq.ParquetFile(file).read().cast(self.schema) for file in files if file.exists()]
        frame = pa.concat_tables([*tables, self.schema.empty_table()]).to_pandas()
        return frame.drop_duplicates(self.key).sort_values(self.key, kind="stable", ignore_index=True)

    def append(self, rows: Sequence[Row]) -> None:
        """Add a part; once this returns, it is on the disk."""
        number = 1 + max((int(file.stem) for file in self.parts.glob("*.parquet")), default=-1)
        self._write(pa.Table.from_pylist(list(rows), self.schema), self.parts / f"{number:06}.parquet")

    def _compact(self) -> None:
        old = sorted(self.parts.glob("*.parquet"))
        if old:
            self._write(pa.Table.from_pandas(self.read(), self.schema, preserve_index=False), self.path)
        for part in old:
            part.unlink()

    def _write(self, table: pa.Table, path: Path) -> None:
        """Write beside, sync and rename: at any moment the file is as it was or as it will be."""
        beside = path.with_name(path.name + ".tmp")
        texts = [field.name for field in self.schema if pa.types.is_string(field.type)]  # numbers compress better plain
        with beside.open("wb") as file:
            pq.write_table(
                table.replace_schema_metadata(None),
                file,
                use_dictionary=texts,
                compression="zstd",
                compression_level=19,
            )
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
        sync_folder(path)

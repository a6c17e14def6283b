"""Rows as bytes, one value for each bucket of keys.

Spark passes rows to a stateful step in Python one by one, and each value of state that is read or written has a cost.
So rows are packed by bucket before Spark sorts them by bucket. Some workers import only this file, which needs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

GUARD = -1  # a bucket that is in every batch and has no rows; see ``worker.Processor``


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn rows into one value of bytes for each bucket, and an empty one for the guard."""
    for batch in batches:
        if not batch.num_rows:
            continue
        buckets = np.asarray(batch["bucket"])
        order = np.argsort(buckets, kind="stable")
        rows = batch.select([name for name in batch.schema.names if name != "bucket"]).take(order)
        found, begins = np.unique(buckets[order], return_index=True)
        ends = [*begins[1:], len(order)]
        parts = [to_bytes(rows.slice(begin, end - begin)) for begin, end in zip(begins, ends, strict=True)]
        columns = {"bucket": pa.array([*found, GUARD], pa.int32()), "rows": pa.array([*parts, b""], pa.binary())}
        yield pa.record_batch(columns)


def to_bytes(table: pa.Table | pa.RecordBatch) -> bytes:
    """Return a table as a stream of Arrow's format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue().to_pybytes()


def from_bytes(contents: Iterable[bytes]) -> pa.Table:
    """Return as one table what ``to_bytes`` made of several."""
    return pa.concat_tables([pa.ipc.open_stream(content).read_all() for content in contents])

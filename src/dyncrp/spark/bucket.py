"""The models of a bucket of keys: rows of many keys in, labels out, and all states as one value of bytes.

In a stream processor, each value of state that is read or written has a cost, so keys share one. This file uses Arrow
tables and bytes, and does not depend on Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadRow, Clock, as_observations, as_times
from dyncrp.engine.types import Float
from dyncrp.families.base import check_rows
from dyncrp.input.weights import as_weights
from dyncrp.search.spec import ModelSpec
from dyncrp.spark.packing import to_bytes
from dyncrp.stream.events import as_time
from dyncrp.stream.stream import Stream

LATE = ("mark", "now", "raise")
VERSION = b"1"  # version of the bytes of a bucket


class Kept(NamedTuple):
    """The state of a key.

    state: of its stream. last: its last row, if rows are ordered by row. seen: when it was last seen, in milliseconds.
    """

    state: bytes
    last: Any
    seen: int


@dataclass(frozen=True)
class Bucket:
    """The settings that all buckets share.

    spec: the parameters of the models, all of them known. clock: the kind of times. late: what to do with a row that is
    earlier than the latest of its key, one of ``LATE``. ttl: milliseconds after which a key without rows is forgotten,
    or None for never.
    """

    spec: ModelSpec
    clock: Clock
    late: str
    ttl: int | None

    def learn(self, kept: bytes | None, rows: pa.Table, now: int) -> tuple[bytes, pa.Table]:
        """Learn rows of some keys. Return the new state and the labels.

        rows: columns ``key``, ``features`` (lists of equal length), ``row`` or ``time`` or both, and perhaps
        ``weight``. kept: the state from the last call, None at first. now: milliseconds. The labels have the columns
        ``key``, ``row`` and ``time`` as given, and ``table``, ``probability`` and ``novelty``.
        """
        models = self._read(kept, now)
        X, weights = _matrix(rows), None
        if "weight" in rows.column_names:
            weights, rows = _weights(rows), rows.drop_columns("weight")
        order, begins = _order(X if weights is None else np.column_stack([X, weights]), rows)
        rows, X = rows.drop_columns("features").take(order), X[order]
        weights = None if weights is None else weights[order]
        X, times, sequence = self._check(X, rows)
        known = Stream(self.spec)  # one for all keys with a state
        n = len(rows)
        table, probability, novelty = np.full(n, -1), np.full(n, np.nan), np.full(n, np.nan)
        marked = np.ones(n, dtype=bool)
        keys = rows["key"].take(begins).to_pylist()
        for key, begin, end in zip(keys, begins.tolist(), [*begins[1:].tolist(), n], strict=True):
            before = models.get(key)
            if before is None:
                stream, latest = Stream(self.spec), None
            else:
                known.set_state(before.state)
                stream, latest = known, before.last if times is None else known.engine.time
            first = begin
            if latest is not None:
                own = sequence[begin:end]  # times may repeat, rows may not
                first += int(np.count_nonzero(own <= latest if times is None else own < latest))
                if first > begin and self.late == "raise":
                    raise ValueError(_too_late(rows, begin))
                first = begin if self.late == "now" else first
            if before is None and weights is not None:  # there is no table yet that rows of weight 0 could be given
                heavy = np.flatnonzero(weights[begin:end])
                first = begin + int(heavy[0]) if len(heavy) else end
                if first == end:
                    continue
            if first < end:
                done = slice(first, end)
                t = None if times is None else times[done]
                if t is not None and latest is not None and self.late == "now":
                    t = np.maximum(t, as_time(latest, self.clock))
                trace = stream.learn(X[done], t, sample_weight=None if weights is None else weights[done]).trace
                table[done], probability[done], novelty[done] = trace.labels, trace.probability, -trace.log_evidence
                marked[done] = False
            last = None
            if times is None:
                last = sequence[end - 1] if latest is None else max(latest, sequence[end - 1])
            models[key] = Kept(stream.to_state(), last, now)
        for name, values in (("table", table), ("probability", probability), ("novelty", novelty)):
            rows = rows.append_column(name, pa.array(values, mask=marked if name != "table" else None))
        return self._write(models, rows), rows

    def _check(self, X: Float, rows: pa.Table) -> tuple[Float, NDArray[Any] | None, NDArray[Any]]:
        """Return the rows in the form that the family needs, their times if any, and the values that show late rows."""
        try:
            X = check_rows(self.spec.family, as_observations(X, "features", missing=True))
            if self.clock is Clock.INDEX:
                return X, None, _values(rows["row"])
            times = _readings(rows["time"])
            return X, times, as_times(times, ordered=False)
        except BadRow as error:
            raise _refuse(rows, error.row, error.reason) from error

    def _read(self, kept: bytes | None, now: int) -> dict[Any, Kept]:
        if kept is None:
            return {}
        try:
            table = pa.ipc.open_stream(kept).read_all()
            table.validate(full=True)
            version = (table.schema.metadata or {})[b"version"]
            columns = [table[name].to_pylist() for name in ("key", *Kept._fields)] if version == VERSION else []
        except (pa.ArrowException, LookupError, OSError, SystemError, ValueError) as error:
            raise ValueError(f"the checkpoint has a state that is damaged: {error}") from error
        if version != VERSION:
            raise ValueError(f"the checkpoint has states of version {version!r}, but this reads {VERSION!r}")
        models = dict(zip(columns[0], map(Kept, *columns[1:]), strict=True))
        if self.ttl is None:
            return models
        return {key: entry for key, entry in models.items() if now - entry.seen <= self.ttl}

    def _write(self, models: dict[Any, Kept], rows: pa.Table) -> bytes:
        columns = {name: [getattr(entry, name) for entry in models.values()] for name in Kept._fields}
        last = rows.schema.field("row").type if self.clock is Clock.INDEX else pa.null()
        table = pa.table(
            {
                "key": pa.array(list(models), rows.schema.field("key").type),
                "state": pa.array(columns["state"], pa.binary()),
                "last": pa.array(columns["last"], last),
                "seen": pa.array(columns["seen"], pa.int64()),
            }
        )
        return to_bytes(table.replace_schema_metadata({"version": VERSION}))


def _matrix(rows: pa.Table) -> Float:
    """Return the features as (n, D)."""
    array = rows["features"].combine_chunks()
    lengths = np.asarray(pc.list_value_length(array).fill_null(0))
    other = np.flatnonzero(lengths != np.max(lengths))
    if other.size or not lengths[0]:
        n = int(np.max(lengths))
        raise _refuse(
            rows, other[0] if other.size else 0, f"it has {lengths[other[:1]].sum()} features, others have {n}"
        )
    return np.asarray(array.flatten().fill_null(np.nan)).reshape(len(array), -1)


def _weights(rows: pa.Table) -> Float:
    """Return the weights (n,)."""
    column = rows["weight"]
    if column.null_count:
        raise _refuse(rows, int(np.argmax(np.asarray(column.is_null()))), "its weight is null")
    given = np.asarray(column, dtype=np.float64)
    try:
        weights = as_weights(given, len(rows))
    except BadRow as error:
        raise _refuse(rows, error.row, error.reason.replace("sample_weight", "weights")) from error
    return np.ones(len(rows)) if weights is None else weights


def _order(X: Float, rows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of learning, and where each key begins in it.

    Rows are ordered by key, time and row. Ties are ordered by a hash of their features, so that the order does not
    depend on how a shuffle delivered the rows.
    """
    mixed = (np.ascontiguousarray(X).view(np.uint64) * (2 * np.arange(X.shape[1], dtype=np.uint64) + 1)).sum(axis=1)
    ranks = [mixed]
    for name in ("row", "time", "key"):
        if name in rows.column_names:
            column = rows[name]
            if column.null_count:
                raise _refuse(rows, int(np.argmax(np.asarray(column.is_null()))), f"its {name} is null")
            ranks.append(np.asarray(pc.rank(column, tiebreaker="dense")))
    order = np.lexsort(ranks)
    keys = ranks[-1][order]
    return order, np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))


def _readings(times: pa.ChunkedArray) -> NDArray[Any]:
    """Return times as numbers or as NumPy dates in UTC."""
    if pa.types.is_timestamp(times.type):
        return np.asarray(times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())).view("M8[us]")
    if pa.types.is_date(times.type):
        return np.asarray(times.cast(pa.timestamp("us")))
    return np.asarray(times)


def _values(rows: pa.ChunkedArray) -> NDArray[Any]:
    """Return row numbers or names as values that compare as in Python."""
    return np.array(rows.to_pylist(), dtype=None if pa.types.is_integer(rows.type) else object)


def _describe(rows: pa.Table, at: int) -> str:
    """Describe a row by its columns other than features."""
    names = [name for name in ("key", "row", "time") if name in rows.column_names]
    return ", ".join(f"{name} {rows[name][at].as_py()!r}" for name in names)


def _refuse(rows: pa.Table, at: int, reason: str) -> ValueError:
    return ValueError(f"the row with {_describe(rows, at)} cannot be learned: {reason}; filter out such rows first")


def _too_late(rows: pa.Table, at: int) -> str:
    return (
        f"the row with {_describe(rows, at)} is earlier than the latest of its key; late='mark' leaves such rows out, "
        "late='now' learns them as if they had come on time"
    )

"""Read an Arrow stream: numbers, texts, booleans and times. What it stands for is counted before it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.serve.limits import RequestError

COMPRESSED = "the Arrow stream is compressed, which a server does not open: write it without compression"


def read_arrow(
    content: bytes, most_text: int, check: Callable[[int, list[str]], None]
) -> tuple[list[str], tuple[list[Any] | NDArray[Any], ...], int]:
    """Return the names of the columns, their cells, and the number of rows.

    check: raises if there are too many rows or columns; it is called before they are made. most_text: how many bytes
    all texts may have: a dictionary, or a buffer that columns share, stands for more than the stream holds.
    """
    import pyarrow as pa

    try:
        batches, n = [], 0
        for message in pa.ipc.MessageReader.open_stream(content):
            if _is_compressed(message.metadata.to_pybytes()):
                raise RequestError(400, COMPRESSED)
        with pa.ipc.open_stream(content) as reader:
            names = reader.schema.names
            check(1, names)
            for batch in reader:
                n += batch.num_rows
                check(max(n, 1), names)
                if batch.num_rows:
                    batch.validate(full=True)  # offsets may point anywhere
                    batches.append(batch)
        check(n, names)
        columns = pa.Table.from_batches(batches).columns
        n_text = sum(_text_bytes(column) for column in columns)
        if n_text > most_text:
            raise RequestError(
                413, f"the texts of a request may have {most_text:,} bytes, got {n_text:,}: send several"
            )
        return names, tuple(map(_cells, names, columns)), n
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        raise RequestError(400, f"this is not an Arrow stream that can be read: {error}") from None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _text_bytes(column: Any) -> int:
    """Return how many bytes the texts of a column have, each counted as often as it comes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        if not _is_text(column.type.value_type):
            return 0
        lengths = (pc.take(pc.binary_length(part.dictionary), part.indices) for part in column.chunks)
    elif _is_text(column.type):
        lengths = (pc.binary_length(part) for part in column.chunks)
    else:
        return 0
    return sum(pc.sum(part.cast(pa.int64())).as_py() or 0 for part in lengths)


def _cells(name: str, column: Any) -> list[Any] | NDArray[Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        found: NDArray[np.float64] = np.array(column.cast(pa.float64(), safe=False).to_numpy())
        found[np.isnan(found)] = np.nan  # no signalling NaN
        return found
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return np.asarray(column.cast(pa.timestamp("us"), safe=False).to_numpy())
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not _is_text(value) and not pa.types.is_boolean(value):
        raise RequestError(400, f"column {name!r} must hold numbers, text, booleans or times, got {kind}", column=name)
    if not pa.types.is_dictionary(kind):
        return list(column.to_pylist())
    cells: list[Any] = []
    for part in column.chunks:
        words = part.dictionary.to_pylist()
        cells += [None if at is None else words[at] for at in part.indices.to_pylist()]
    return cells


def _is_compressed(message: bytes) -> bool:
    """Return whether an Arrow message, a flatbuffer, has a compressed body, which may stand for gigabytes.

    A table of a flatbuffer begins with the distance to a list of the offsets of its fields. A message has its kind in
    field 1 and its header in field 2. A batch of rows (kind 3) has its compression in field 3. A batch of a dictionary
    (kind 2) has a batch of rows in field 1.
    """

    def number(at: int, size: int, *, signed: bool = False) -> int:
        if not 0 <= at <= len(message) - size:
            raise ValueError("its metadata points outside of itself")
        return int.from_bytes(message[at : at + size], "little", signed=signed)

    def field(table: int, index: int) -> int | None:
        """Return the position of a field, None if the table does not have it."""
        fields = table - number(table, 4, signed=True)
        offset = 4 + 2 * index
        found = number(fields + offset, 2) if offset < number(fields, 2) else 0
        return table + found if found else None

    def follow(at: int | None) -> int:
        if at is None:
            raise ValueError("its metadata has no header")
        return at + number(at, 4)

    root = number(0, 4)
    at = field(root, 1)
    kind = 0 if at is None else number(at, 1)
    if kind not in (2, 3):
        return False
    header = follow(field(root, 2))
    return field(follow(field(header, 1)) if kind == 2 else header, 3) is not None

"""Arrays as bytes and back, in microseconds, for stream processors that keep thousands of states.

There is no header and no checksum: the store is trusted, as a database is. For files, use ``model_file.py``. Reading
executes no code, and invalid bytes raise ``ValueError``.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = {code: np.dtype(name) for code, name in enumerate(("<f8", "<c16", "<i8"))}
CODES = {dtype: code for code, dtype in DTYPES.items()}
HEAD = struct.Struct("<BBB")  # the head of an array: the length of its name, its dtype, its number of dimensions


def pack(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return arrays of float64, complex128 and int64 as bytes.

    >>> content = pack({"n": np.array(3), "x": np.array([[0.5, 1.5]])})
    >>> len(content), unpack(content)
    (40, {'n': array(3), 'x': array([[0.5, 1.5]])})
    """
    parts = []
    for name, array in arrays.items():
        label = name.encode()
        parts.append(HEAD.pack(len(label), CODES[array.dtype], array.ndim) + label)
        parts.append(struct.pack(f"<{array.ndim}I", *array.shape))
        parts.append(array.tobytes())
    return b"".join(parts)


def unpack(content: bytes, begin: int = 0) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``pack`` packed, from byte ``begin`` on, as views of the content."""
    arrays = {}
    try:
        while begin < len(content):
            length, code, n_dimensions = HEAD.unpack_from(content, begin)
            begin += HEAD.size
            name = content[begin : begin + length].decode()
            shape = struct.unpack_from(f"<{n_dimensions}I", content, begin + length)
            begin += length + 4 * n_dimensions
            dtype, size = DTYPES[code], math.prod(shape)
            arrays[name] = np.frombuffer(content, dtype, size, begin).reshape(shape)
            begin += size * dtype.itemsize
    except (LookupError, OverflowError, ValueError, struct.error) as error:
        raise ValueError("this is not the state of a model, or it is damaged") from error
    return arrays

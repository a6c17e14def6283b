"""States: what a learner has learned, as bytes without its parameters. Their head, and what is checked of files too."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from dyncrp.arrays.checks import LATEST_TIME, Clock
from dyncrp.dynamics import Dynamics, Modes
from dyncrp.dynamics.base import MOST_MODES
from dyncrp.engine import schema
from dyncrp.engine.types import Arrays

HEAD = struct.Struct("<8sBId")  # the head of a state: fingerprint, clock, number of features, present alpha
CLOCKS = tuple(Clock)
SAME_KERNEL = 0.02  # how far a kernel in a file may be from that of its dynamics: two fits to 1 % may differ by this


def digest(*values: Any) -> bytes:
    """Return eight bytes for families, dynamics and plain values, the same only for equal values.

    >>> from dyncrp import Exponential, Gaussian
    >>> digest(Gaussian(1.0, [2.0, 3.0]), Exponential(5.0)) == digest(Gaussian(1.0, [2.0, 3.0]), Exponential(6.0))
    False
    """
    hashed = hashlib.sha256()

    def add(value: Any) -> None:
        if is_dataclass(value):
            hashed.update(type(value).__name__.encode())
            for field in fields(value):
                hashed.update(field.name.encode())
                add(getattr(value, field.name))
        elif isinstance(value, (tuple, list)):
            hashed.update(f"({len(value)}".encode())
            for entry in value:
                add(entry)
        elif isinstance(value, np.ndarray):
            hashed.update(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
        else:
            hashed.update(repr(value).encode() + b";")

    add(values)
    return hashed.digest()[:8]


def as_bytes(content: Any) -> bytes:
    """Return bytes, from any of the types that databases use for them."""
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise ValueError(f"a state must be bytes, got {type(content).__name__}")
    return bytes(content)


def read_head(content: bytes) -> tuple[bytes, int, int, float]:
    """Return the fingerprint of a state, the place of its clock in ``CLOCKS``, its number of features, and alpha."""
    if len(content) < HEAD.size:
        raise ValueError(f"this is not the state of a model: {len(content)} bytes are too few")
    fingerprint, clock, n_features, alpha = HEAD.unpack_from(content)
    return fingerprint, clock, n_features, alpha


def modes_of(dynamics: Dynamics, arrays: Arrays) -> Modes:
    """Return the modes of a file, after checking that they give the kernel of its dynamics.

    They are in the file because they cannot always be computed again to the bit: those of ``Hyperbolic`` and
    ``LinearODE`` come from least squares and roots, which differ between versions of SciPy and LAPACK.
    """
    found, expected = Modes(*schema.check(arrays, schema.MODES).values()), dynamics.modes()
    if not 0 < len(found.rates) <= MOST_MODES or np.any(found.rates.real < 0.0):
        raise ValueError(f"its {len(found.rates)} modes do not make a kernel")
    if all(np.array_equal(mine, its) for mine, its in zip(expected, found, strict=True)):
        return found
    sizes = np.abs(np.concatenate([found.rates, expected.rates]))
    lengths = 1.0 / sizes[sizes > 1.0 / LATEST_TIME]
    delays = [0.0, *(np.geomspace(0.01 * lengths.min(), 3.0 * lengths.max(), 300) if len(lengths) else ())]
    with np.errstate(all="ignore"):  # NaN fails the comparison below
        mine, its = (
            (np.exp(-np.multiply.outer(delays, rates)) @ amplitudes).real for amplitudes, rates in (expected, found)
        )
    if not np.max(np.abs(mine - its)) <= SAME_KERNEL * np.max(np.abs(mine)):
        raise ValueError(f"its modes are not those of {dynamics!r}")
    return found

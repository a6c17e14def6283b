"""Partitions: which rows are together, given by any labels. And sums over the rows before each row of its block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadLabel, is_missing
from dyncrp.arrays.exchange import readable

Float = NDArray[np.float64]
Int = NDArray[np.int64]


def as_partition(labels: Any, n: int, name: str = "labels") -> Int:
    """Return the blocks of n rows as numbers from 0, in order of appearance: (n,). Errors call the labels ``name``.

    Labels may be integers or texts, or anything else that can be compared. −1 and None, which mean "unknown" elsewhere,
    are errors.

    >>> as_partition(["b", "a", "b"], 3)
    array([0, 1, 0])
    """
    labels = readable(labels, name)
    if not hasattr(labels, "__array__") and not hasattr(labels, "__iter__"):
        raise ValueError(f"{name} must have one entry for each of {n} rows, got {labels!r}")
    given = np.asarray(labels) if hasattr(labels, "__array__") else list(labels)
    if np.shape(given) != (n,):
        raise ValueError(f"{name} must have one entry for each of {n} rows, got shape {np.shape(given)}")
    array = np.asarray(given)
    if array.dtype.kind not in "biu":
        return _by_value(given, name)
    unknown = np.flatnonzero(array == -1)
    if unknown.size:
        raise BadLabel(_NO_LABEL.format(name=name, value=-1), unknown[0])
    _, first, which = np.unique(array, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[which]


_NO_LABEL = "{name} must name a block for each row, got {value!r}"


def _by_value(labels: Any, name: str) -> Int:
    """Number labels that are not integers."""
    numbers: dict[Any, int] = {}
    found = []
    for row, value in enumerate(labels.tolist() if hasattr(labels, "tolist") else labels):
        if is_missing(value) or (value == -1 and not isinstance(value, str)):
            raise BadLabel(_NO_LABEL.format(name=name, value=value), row)
        try:
            found.append(numbers.setdefault(value, len(numbers)))
        except TypeError:
            raise BadLabel(f"{name} must be numbers or texts, got {value!r}", row) from None
    return np.array(found, dtype=np.int64)


def is_first(blocks: Int) -> NDArray[np.bool_]:
    """Return which rows begin a block, (n,); blocks (n,) are numbers from 0.

    >>> is_first(np.array([0, 1, 0, 2]))
    array([ True,  True, False,  True])
    """
    found = np.zeros(len(blocks), dtype=bool)
    found[np.unique(blocks, return_index=True)[1]] = True
    return found


def scan(factors: NDArray[Any], added: NDArray[Any]) -> NDArray[Any]:
    """Return y with y_i = f_i y_{i−1} + a_i along the first axis, y_{−1} = 0; |f| ≤ 1, of the shape of a.

    Where f is 0, a new block begins. The sums of 1, 2, 4, … rows are built from each other, so that a block of m rows
    takes log₂ m passes over the arrays and no loop over rows.

    >>> scan(np.array([0.0, 1.0, 0.5, 0.0]), np.ones(4))
    array([1., 2., 2., 1.])
    """
    f, y, reach = factors.copy(), added.copy(), 1
    while reach < len(y) and np.any(f[reach:]):
        y[reach:] += f[reach:] * y[:-reach]
        f[reach:] = f[reach:] * f[:-reach]
        reach *= 2
    return y


def log_scan(log_factors: Float, log_added: Float) -> Float:
    """Return the logarithm of ``scan`` for positive numbers, given by their logarithms. Nothing underflows.

    >>> log_scan(np.array([-np.inf, -1000.0]), np.array([0.0, -np.inf]))
    array([    0., -1000.])
    """
    f, y, reach = log_factors.copy(), log_added.copy(), 1
    while reach < len(y) and np.any(f[reach:] > -np.inf):
        y[reach:] = np.logaddexp(y[reach:], f[reach:] + y[:-reach])
        f[reach:] = f[reach:] + f[:-reach]
        reach *= 2
    return y

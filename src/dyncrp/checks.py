"""What a number, a duration, a clock reading and a table of observations may be: the one place that says no."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Duration = float | timedelta | np.timedelta64
Seed = int | np.random.Generator | None


def positive(name: str, value: object) -> float:
    """Return ``value`` as a float if it is a positive finite number.

    >>> positive("alpha", 5)
    5.0
    >>> positive("alpha", -1)
    Traceback (most recent call last):
        ...
    ValueError: alpha must be a positive finite number, got -1
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    number = float(value)
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return number


def duration(name: str, value: object) -> float:
    """Return a positive duration as a float: a number as it is, a ``timedelta`` in seconds.

    >>> duration("timescale", timedelta(minutes=2))
    120.0
    >>> duration("timescale", np.timedelta64(500, "ms"))
    0.5
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    elif isinstance(value, np.timedelta64):
        value = float(value / np.timedelta64(1, "s"))
    try:
        return positive(name, value)
    except ValueError:
        raise ValueError(f"{name} must be a positive finite number or timedelta, got {value!r}") from None


def as_times(times: ArrayLike, n: int | None = None, last: float = -np.inf) -> NDArray[np.float64]:
    """Return ``times`` as finite, non-decreasing float64 of shape (N,); ``datetime64`` becomes seconds.

    n: how many are expected, if known. last: the time of the stream so far, before which none may lie.

    >>> as_times([0, 1, 1, 3.5])
    array([0. , 1. , 1. , 3.5])
    >>> as_times([0, 2, 1])
    Traceback (most recent call last):
        ...
    ValueError: times must not run backwards: times[2] = 1.0 comes after 2.0
    """
    array = np.asarray(times)
    if array.ndim != 1:
        raise ValueError(f"times must be one-dimensional, got shape {array.shape}")
    if n is not None and len(array) != n:
        raise ValueError(f"times must have one entry per observation: got {len(array)} times for {n} rows")
    if array.dtype.kind == "M":
        missing = np.flatnonzero(np.isnat(array))
        if missing.size:
            raise ValueError(f"times must be finite, got NaT at times[{missing[0]}]")
        array = (array - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    elif array.dtype.kind not in "iuf":
        raise ValueError(f"times must be numbers or datetime64, got dtype {array.dtype}")
    array = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise ValueError(f"times must be finite, got times[{bad[0]}] = {array[bad[0]]}")
    backwards = np.flatnonzero(np.diff(array, prepend=last) < 0)
    if backwards.size:
        first = backwards[0]
        before = array[first - 1] if first else last
        raise ValueError(f"times must not run backwards: times[{first}] = {array[first]} comes after {before}")
    return array


def as_observations(X: Any) -> NDArray[np.float64]:
    """Return ``X`` as a finite float64 table of shape (N, D), N, D ≥ 1, that shares no memory with the input.

    >>> as_observations([[1, 2], [3, float("nan")]])
    Traceback (most recent call last):
        ...
    ValueError: X must be finite, got nan at row 1, column 1
    """
    if hasattr(X, "toarray") and not isinstance(X, np.ndarray):
        raise TypeError("X is sparse; dyncrp needs a dense array: pass X.toarray()")
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"X must be two-dimensional (observations, features), got shape {array.shape}. "
            "Reshape your data: X.reshape(1, -1) for one observation, X.reshape(-1, 1) for one feature"
        )
    if 0 in array.shape:
        what = "0 sample(s)" if array.shape[0] == 0 else "0 feature(s)"
        raise ValueError(f"X must not be empty: found array with {what} (shape={array.shape})")
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X has dtype {array.dtype}")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"X must hold numbers, got dtype {array.dtype}")
    if array.dtype.kind == "O":
        array = _numbers(array)
    # Huge float64 values are legal input but overflow when squared; the families bound what they accept.
    array = np.array(array, dtype=np.float64, order="C")
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        row, column = bad[0]
        raise ValueError(f"X must be finite, got {array[row, column]} at row {row}, column {column}")
    return array


def _numbers(array: NDArray[Any]) -> NDArray[np.float64]:
    """Convert an object array element by element, naming the first one that is not a number."""
    numbers = np.empty(array.shape)
    for (row, column), value in np.ndenumerate(array):
        if isinstance(value, (str, bytes)) or not np.isscalar(value) or np.iscomplexobj(value):
            raise ValueError(f"X must hold numbers, got {value!r} at row {row}, column {column}")
        numbers[row, column] = float(value)  # type: ignore[arg-type]
    return numbers

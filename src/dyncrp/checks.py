"""What a number, a duration, a clock reading and a table of observations may be: the one place that says no."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Duration = float | timedelta | np.timedelta64
Seed = int | np.random.Generator | None
SHORTEST = 1e-300
LATEST = 1e300  # times beyond it could overflow when subtracted


def positive(name: str, value: object) -> float:
    """Return ``value`` as a float if it is a positive finite number.

    >>> positive("alpha", 5)
    5.0
    >>> positive("alpha", -1)
    Traceback (most recent call last):
        ...
    ValueError: alpha must be a positive finite number, got -1
    """
    number = np.nan
    # NumPy counts a timedelta64 among its integers.
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.timedelta64)):
        with suppress(OverflowError):
            number = float(value)
    if not 0 < number < np.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return number


def duration(name: str, value: object) -> float:
    """Return a positive duration as a float: a number as it is, a ``timedelta`` in seconds.

    >>> duration("timescale", timedelta(minutes=2))
    120.0
    >>> duration("timescale", np.timedelta64(500, "ms"))
    0.5
    """
    number = value
    try:
        if isinstance(value, timedelta):
            number = value.total_seconds()
        elif isinstance(value, np.timedelta64):
            number = float(value / np.timedelta64(1, "s"))
        number = positive(name, number)
    except (TypeError, ValueError):  # a TypeError: NumPy's months and years have no length in seconds
        raise ValueError(f"{name} must be a positive finite number or timedelta, got {value!r}") from None
    if number < SHORTEST:
        raise ValueError(f"{name} must be at least {SHORTEST}, or its rate overflows, got {value!r}")
    return number


def as_times(
    times: ArrayLike, n: int | None = None, last: float = -np.inf, *, ordered: bool = True
) -> NDArray[np.float64]:
    """Return ``times`` as finite, non-decreasing float64 of shape (N,); ``datetime64`` becomes seconds.

    n: how many are expected, if known. last: the time of the stream so far, before which none may lie. ordered:
    whether each must also not lie before the one in front of it.

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
    bad = np.flatnonzero(~(np.abs(array) <= LATEST))
    if bad.size:
        raise ValueError(f"times must be finite, within ±{LATEST:g}, got times[{bad[0]}] = {array[bad[0]]}")
    before = np.append(last, array[:-1]) if ordered else np.full(len(array), last)
    backwards = np.flatnonzero(array < before[: len(array)])
    if backwards.size:
        first = backwards[0]
        raise ValueError(f"times must not run backwards: times[{first}] = {array[first]} comes after {before[first]}")
    return array


def as_observations(X: Any) -> NDArray[np.float64]:
    """Return ``X`` as a finite float64 table of shape (N, D), N, D ≥ 1, C-ordered.

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
    array = np.ascontiguousarray(array, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(np.sum(array))  # cheaper than looking at every entry
    bad = np.argwhere(~np.isfinite(array)) if suspicious else np.empty(0)
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
        try:
            numbers[row, column] = float(value)  # type: ignore[arg-type]
        except (OverflowError, TypeError, ValueError):
            raise ValueError(f"X must hold float64 numbers, got {value!r} at row {row}, column {column}") from None
    return numbers

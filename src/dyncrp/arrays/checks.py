"""Checks of input: numbers, durations, times and arrays of observations, and the errors for invalid rows."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, NoReturn, SupportsInt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.dates import AmbiguousDateError, DateError, parse_times
from dyncrp.arrays.exchange import readable

Duration = float | timedelta | np.timedelta64
Seed = int | np.random.Generator | None
SMALLEST_PARAMETER, LARGEST_PARAMETER = 1e-250, 1e250  # the range of a positive parameter
SHORTEST_DURATION, LATEST_TIME = 1e-150, 1e150  # a time divided by a duration stays finite
# Seconds in each unit of datetime64, as a fraction. Years and months have their average length.
UNITS = {"Y": (31_556_952, 1), "M": (2_629_746, 1), "W": (604_800, 1), "D": (86_400, 1), "h": (3600, 1), "m": (60, 1)}
UNITS |= {"s": (1, 1), "ms": (1, 10**3), "us": (1, 10**6), "ns": (1, 10**9)}
EPOCH, MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
NOT_A_NUMBER = (
    "{name} must hold numbers (no argument must be a string or anything else that is not a number), got {value!r}"
)
HOW_TO_SORT = 'to sort the rows: order = np.argsort(times, kind="stable"), then X[order] and times[order]'
LATEST_DATE = 9e12  # seconds from 1970 that fit into int64 as microseconds
FURTHEST_DATE = 1e15  # seconds: some 30 million years, far within int64


class Clock(StrEnum):
    """The kind of times of a stream. A stream has one kind."""

    INDEX = "index"
    NUMBERS = "numbers"
    DATES = "dates"

    @classmethod
    def of(cls, times: Any) -> Clock:
        """Return the kind of the times of a call. None means the index of arrival.

        >>> Clock.of(None), Clock.of([1.5]), Clock.of([datetime(2024, 1, 1)])
        (<Clock.INDEX: 'index'>, <Clock.NUMBERS: 'numbers'>, <Clock.DATES: 'dates'>)
        """
        if times is None:
            return cls.INDEX
        return cls.DATES if are_dates(times) else cls.NUMBERS

    def check(self, other: Clock) -> None:
        """Raise if the times of a later call are of another kind."""
        if other is not self:
            names = {Clock.INDEX: "the index of arrival", Clock.NUMBERS: "numbers", Clock.DATES: "dates"}
            raise ValueError(
                f"this call's times are {names[other]}, earlier ones were {names[self]}: a stream has one clock"
            )


class Seconds(float):
    """A duration in seconds that was given as a timedelta. It has no meaning if times count observations."""


class BadRow(ValueError):
    """A row of the input is invalid.

    row: its index in the call. column: the index of the invalid feature, or None for the whole row. reason: what is
    wrong, and what is allowed.

    >>> BadRow("X must be finite, got nan", 3, 1)
    BadRow('X must be finite, got nan, at row 3, column 1')
    """

    def __init__(self, reason: str, row: SupportsInt, column: SupportsInt | None = None) -> None:
        self.reason, self.row, self.column = reason, int(row), None if column is None else int(column)
        place = f"row {self.row}" if self.column is None else f"row {self.row}, column {self.column}"
        super().__init__(f"{reason}, at {place}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the fields in pickles."""
        return type(self), (self.reason, self.row, self.column)


class BadTime(BadRow):
    """The time of a row is invalid: it is missing, is not finite, or runs backwards. hint: what helps in Python."""

    def __init__(
        self, reason: str, row: SupportsInt, column: SupportsInt | None = None, hint: str | None = None
    ) -> None:
        super().__init__(reason, row, column)
        self.hint = hint
        if hint is not None:
            self.args = (f"{self.args[0]}; {hint}",)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the fields in pickles."""
        return type(self), (self.reason, self.row, self.column, self.hint)


class BadLabel(BadRow):
    """The label of a row is invalid: it is not a name or an id of a table, or contradicts another constraint."""


class SparseInput(TypeError, ValueError):
    """A sparse matrix. scikit-learn promises a TypeError for it; dyncrp promises a ValueError for invalid input."""


class NotANumber(BadRow, TypeError):
    """A cell does not hold a number. scikit-learn promises a TypeError for it."""


def real(value: object) -> float | None:
    """Return a real number as a float, or ±inf if it is too large; return None for anything else.

    >>> real(3), real("3"), real(True), real(np.timedelta64(3))
    (3.0, None, None, None)
    """
    # To NumPy, a timedelta64 is an integer; to Python, a bool is.
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, (bool, np.timedelta64)):
        return None
    with suppress(OverflowError):
        return float(value)
    return np.inf if value > 0 else -np.inf


def positive(name: str, value: object) -> float:
    """Return ``value`` as a float if it is a positive finite number, from 1e-250 to 1e250.

    >>> positive("alpha", 5)
    5.0
    >>> positive("alpha", -1)
    Traceback (most recent call last):
        ...
    ValueError: alpha must be a positive finite number, got -1
    """
    number = real(value)
    if number is None or not 0 < number < np.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    if not SMALLEST_PARAMETER <= number <= LARGEST_PARAMETER:
        raise ValueError(f"{name} must be a number from {SMALLEST_PARAMETER:g} to {LARGEST_PARAMETER:g}, got {value!r}")
    return number


def integer(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return ``value`` as an int if it is an integer (of an integer type) from ``least`` to ``most``.

    >>> integer("n_samples", 0, 1)
    Traceback (most recent call last):
        ...
    ValueError: n_samples must be an integer ≥ 1, got 0
    """
    if isinstance(value, (int, np.integer)) and real(value) is not None:
        number = int(value)
        if least <= number and (most is None or number <= most):
            return number
    allowed = f"≥ {least}" if most is None else f"from {least} to {most}"
    raise ValueError(f"{name} must be an integer {allowed}, got {value!r}")


def duration(name: str, value: object) -> float:
    """Return a positive duration as a float: a number as it is, a ``timedelta`` as ``Seconds``.

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
    except (TypeError, ValueError):  # TypeError: NumPy's months and years have no length in seconds
        raise ValueError(f"{name} must be a positive finite number or timedelta, got {value!r}") from None
    if number < SHORTEST_DURATION:
        raise ValueError(f"{name} must be at least {SHORTEST_DURATION:g}, or its rate overflows, got {value!r}")
    return Seconds(number) if isinstance(value, (Seconds, timedelta, np.timedelta64)) else number


def as_times(
    times: ArrayLike, n: int | None = None, last: float = -np.inf, *, ordered: bool = True
) -> NDArray[np.float64]:
    """Return ``times`` as finite, non-decreasing float64 of shape (N,).

    Dates (``datetime64``, timestamps of pandas or polars, ``datetime`` objects, and texts as ``parse_times`` reads
    them) become seconds since 1970, rounded to float64, which today means to 0.24 µs. Dates with a time zone are
    converted to UTC; others are assumed to be UTC. Order is checked before rounding, which preserves it.

    n: how many times are expected, if known. last: the latest time of the stream; no time may be earlier. ordered:
    whether times must also not decrease among themselves.

    >>> as_times([0, 1, 1, 3.5])
    array([0. , 1. , 1. , 3.5])
    >>> as_times([0, 2, 1])
    Traceback (most recent call last):
        ...
    dyncrp.arrays.checks.BadTime: times must not run backwards: 1 is earlier than 2, the time before it, at row 2; to
    sort the rows: order = np.argsort(times, kind="stable"), then X[order] and times[order]
    """
    array = _readings(times)
    if array.ndim == 1 and _are_texts(array) and not np.ma.is_masked(times):
        array = _parse(array)
    if array.ndim != 1:
        raise ValueError(
            f"times must be one-dimensional, one for each observation, got shape {array.shape}; "
            "for ten a unit apart, pass range(10)"
        )
    if n is not None and len(array) != n:
        raise ValueError(f"times must have one entry per observation: got {len(array)} times for {n} rows")
    if np.ma.is_masked(times):
        raise BadTime("times must not be masked", np.argmax(np.ma.getmask(times)))
    if array.dtype.kind == "O":
        array = _same_kind(array)
    if array.dtype.kind == "M":
        seconds = _seconds(array)
    elif array.dtype.kind in "iuf":
        with np.errstate(over="ignore"):  # a longdouble that is too large raises below
            seconds = array.astype(np.float64)
    else:
        raise ValueError(f"times must be numbers or dates, got dtype {array.dtype}")
    bad = np.flatnonzero(~(np.abs(seconds) <= LATEST_TIME))
    if bad.size:
        raise BadTime(f"times must be finite, within ±{LATEST_TIME:g}, got {array[bad[0]]}", bad[0])
    early = np.flatnonzero(seconds < last) if not ordered else np.flatnonzero(seconds[:1] < last)
    if early.size:
        latest = as_date(last) if array.dtype.kind == "M" and abs(last) < LATEST_DATE else last
        raise BadTime(
            f"times must not run backwards: {array[early[0]]} is earlier than {latest}, the latest time of the stream",
            early[0],
        )
    backwards = np.flatnonzero(array[1:] < array[:-1]) if ordered else early
    if backwards.size:
        i = backwards[0]
        raise BadTime(
            f"times must not run backwards: {array[i + 1]} is earlier than {array[i]}, the time before it",
            i + 1,
            hint=HOW_TO_SORT,
        )
    return seconds


def as_date(seconds: float) -> np.datetime64:
    """Return seconds since 1970 as a date with microseconds, or with seconds if that would overflow.

    >>> as_date(86400.0)
    np.datetime64('1970-01-02T00:00:00.000000')
    """
    if abs(seconds) >= LATEST_DATE:
        return np.datetime64(round(float(seconds)), "s")
    return np.datetime64(round(float(seconds) * 1e6), "us")


def are_dates(times: ArrayLike) -> bool:
    """Return whether ``times`` are dates rather than numbers, judging by the first one.

    >>> are_dates([datetime(2024, 1, 1)]), are_dates([1.5])
    (True, False)
    """
    array = _readings(times)
    dates = array.dtype.kind == "O" and array.size > 0 and isinstance(array.flat[0], date)
    return array.dtype.kind == "M" or dates or _are_texts(array)


def _are_texts(array: NDArray[Any]) -> bool:
    """Return whether an array holds texts, judging by the first cell that is not missing."""
    if array.dtype.kind != "O":
        return array.dtype.kind in "UT" and array.size > 0
    return isinstance(next((cell for cell in array.flat if not is_missing(cell)), None), str)


def _parse(texts: NDArray[Any]) -> NDArray[np.datetime64]:
    """Return texts as dates."""
    try:
        return parse_times(texts.tolist())
    except DateError as error:
        raise BadTime(f"times must be numbers or dates: {error}", error.row) from None
    except AmbiguousDateError as error:
        choice = " or ".join(f"pandas.to_datetime(times, format={pattern!r})" for pattern in error.patterns)
        raise ValueError(f"times must be dates of one meaning: {error}; pass {choice}") from None


def _readings(times: Any) -> NDArray[Any]:
    """Return ``times`` as an array, and timestamps of pandas with a time zone as datetime64 in UTC, not as objects."""
    dtype = getattr(times, "dtype", None)
    zoned = getattr(dtype, "tz", None) is not None and hasattr(dtype, "unit")
    return np.asarray(readable(times, "times"), dtype=f"M8[{dtype.unit}]" if zoned else None)  # type: ignore[union-attr]


def _same_kind(array: NDArray[Any]) -> NDArray[Any]:
    """Turn objects that are all dates, or all numbers, into an array of that type; leave others as objects."""
    if len(array) and all(isinstance(value, date) for value in array):
        zones = {getattr(value, "tzinfo", None) is not None: i for i, value in enumerate(array) if value == value}
        if len(zones) == 2:
            raise ValueError(
                f"either all times or none must have a time zone: times[{zones[True]}] = {array[zones[True]]} has one, "
                f"times[{zones[False]}] = {array[zones[False]]} has none"
            )
        return np.array([_utc(value) for value in array], dtype="M8[us]")
    if len(array) and all(real(value) is not None for value in array):
        return np.array([real(value) for value in array])
    return array


def microseconds(moment: date | np.datetime64) -> int:
    """Return a date as microseconds since 1970, exactly; one that names a time zone is brought to UTC.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 2)), microseconds(np.datetime64("1970-01-02"))
    (2000000, 86400000000)
    """
    if type(moment) is not datetime:
        if abs(as_times(np.array([moment]))[0]) > LATEST_DATE:
            raise ValueError(f"the time must lie within 285,000 years of 1970, got {moment!r}")
        if isinstance(moment, np.datetime64):
            return int(moment.astype("M8[us]").astype(np.int64))
        if isinstance(moment, datetime):  # that of pandas has nanoseconds
            moment = datetime.fromisoformat(moment.isoformat(timespec="microseconds"))
        else:
            moment = datetime(moment.year, moment.month, moment.day)
    return (_utc(moment, "the time") - EPOCH) // MICROSECOND


def _utc(value: date, name: str = "times") -> date | np.datetime64:
    """Return a date as a naive one in UTC, for NumPy. A date without a time zone is assumed to be UTC."""
    if value != value:  # the missing date of pandas
        return np.datetime64("NaT")
    if isinstance(value, datetime) and value.tzinfo is not None:
        try:
            return value.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            raise ValueError(f"{name} must lie in the years 1 to 9999 of UTC, got {value}") from None
    return value


def _seconds(dates: NDArray[np.datetime64]) -> NDArray[np.float64]:
    """Return datetime64 as seconds since 1970; raise for missing dates and those that do not fit into int64."""
    missing = np.flatnonzero(np.isnat(dates))
    if missing.size:
        raise BadTime("times must be finite, but this one is missing: NaT", missing[0])
    unit, count = np.datetime_data(dates.dtype)
    if unit not in UNITS:  # finer units only reach a few months from 1970, and NumPy wraps around silently
        raise ValueError(f"times must be dates in years to nanoseconds, got dtype {dates.dtype}")
    numerator, denominator = UNITS[unit]
    ticks = dates.astype(np.int64)
    seconds = ticks * float(count * numerator) / denominator
    bad = np.flatnonzero(np.abs(seconds) > FURTHEST_DATE)
    if bad.size:
        i = bad[0]
        raise BadTime(f"times must lie within 30 million years of 1970, got {ticks[i]} of {dates.dtype}", i)
    return dates.astype("M8[s]").astype(np.float64) if unit in ("Y", "M") else seconds


def as_observations(X: Any, name: str = "X", *, missing: bool = False) -> NDArray[np.float64]:
    """Return ``X`` as a finite, C-ordered float64 array of observations (N, D), N, D ≥ 1. Errors call it ``name``.

    missing: whether cells may be missing; they are then NaN.

    >>> as_observations([[1, 2], [3, float("nan")]])
    Traceback (most recent call last):
        ...
    dyncrp.arrays.checks.BadRow: X must be finite, without NaN or inf, got nan, at row 1, column 1
    """
    plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size and X.flags.c_contiguous
    if plain and np.vdot(X, X) < np.inf:  # one quick pass; anything that fails it is examined below
        return X
    if hasattr(X, "toarray") and not isinstance(X, np.ndarray):
        raise SparseInput(
            f"{name} is sparse; dyncrp needs a dense array, except for counts of words (Multinomial): "
            f"pass {name}.toarray()"
        )
    array = np.asarray(readable(X, name))
    if array.ndim == 0 and hasattr(X, "collect"):
        raise ValueError(f"{name} is a {type(X).__name__}, whose rows are not loaded yet: pass {name}.collect()")
    if array.ndim == 1 and array.size and isinstance(array[0], str):
        raise ValueError(
            f"{name} must be two-dimensional (observations, features), got texts such as {array[0][:40]!r}. "
            "To cluster texts by their words, give the family: DynamicalMixture(Multinomial())"
        )
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be two-dimensional (observations, features), got shape {array.shape}. Reshape your data: "
            f"{name}.reshape(1, -1) for one observation, {name}.reshape(-1, 1) for one feature"
        )
    if 0 in array.shape:
        what = "0 sample(s)" if array.shape[0] == 0 else "0 feature(s)"
        raise ValueError(
            f"{name} must not be empty: found array with {what} (shape={array.shape}) while a minimum of 1 is required."
        )
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.dtype.kind in "US":
        _refuse_text(array, name)
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}")
    if missing and np.ma.is_masked(X):
        array = np.ma.filled(np.ma.asarray(X, dtype=np.float64), np.nan)
    elif np.ma.is_masked(X):
        row, column = np.argwhere(np.ma.getmaskarray(X))[0]
        raise BadRow(f"{name} must not be masked", row, column)
    if array.dtype.kind == "O":
        array = _numbers(array, name, missing=missing)
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float64)
        suspicious = not np.isfinite(np.sum(array))  # cheaper than checking every entry
    bad = np.argwhere(np.isinf(array) if missing else ~np.isfinite(array)) if suspicious else np.empty(0)
    if bad.size:
        row, column = bad[0]
        none = "inf" if missing else "NaN or inf"
        raise BadRow(f"{name} must be finite, without {none}, got {array[row, column]}", row, column)
    return array


def _refuse_text(array: NDArray[Any], name: str) -> NoReturn:
    """Raise an error that names the first cell of a text array that is not a number, if there is one."""
    for (row, column), value in np.ndenumerate(array):
        try:
            float(value)
        except ValueError:
            raise NotANumber(NOT_A_NUMBER.format(name=name, value=value.item()), row, column) from None
    raise ValueError(f"{name} must hold numbers, got text of dtype {array.dtype}: pass {name}.astype(float)")


def is_missing(value: object, words: Collection[str] = ()) -> bool:
    """Tell whether a value stands for a missing cell: None, NaN, NaT, pandas.NA, or a masked one of NumPy.

    words: the text that stands for one too, stripped and in lower case. Where text comes from decides what that is: a
    label may be any text, a blank cell of a DataFrame is missing, and in a file many words say so.

    >>> is_missing(float("nan")), is_missing("NA"), is_missing("NA", {"", "na"}), is_missing(0.0)
    (True, False, True, False)
    """
    if value is None or isinstance(value, str):
        return value is None or (bool(words) and value.strip().lower() in words)
    try:
        same = value == value  # of NaN and NaT that is False; of pandas.NA and a masked value it is they themselves
    except (ArithmeticError, TypeError, ValueError):  # such as a NaN that signals
        return False
    return not same if isinstance(same, (bool, np.bool_)) else same is value


def _numbers(array: NDArray[Any], name: str, *, missing: bool) -> NDArray[np.float64]:
    """Convert an object array element by element; the error names the first one that is not a number."""
    numbers = np.empty(array.shape)
    for (row, column), value in np.ndenumerate(array):
        if missing and is_missing(value) and not np.iscomplexobj(value):
            numbers[row, column] = np.nan
            continue
        if isinstance(value, (str, bytes)) or not np.isscalar(value) or np.iscomplexobj(value):
            raise NotANumber(NOT_A_NUMBER.format(name=name, value=value), row, column)
        try:
            numbers[row, column] = float(value)  # type: ignore[arg-type]
        except (OverflowError, TypeError, ValueError):
            raise BadRow(f"{name} must hold float64 numbers, got {value!r}", row, column) from None
    return numbers

"""Dictionaries of features, one at a time, as rows: their names, their times, and what their cells may hold."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import date
from math import isfinite, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import LATEST_TIME, BadRow, Clock, is_missing, microseconds, real
from dyncrp.families import Family
from dyncrp.families.base import check_rows
from dyncrp.input.entries import BOOLEAN, CATEGORY
from dyncrp.input.input import Input, NamedRows

Names = tuple[Hashable, ...]
Float = NDArray[np.float64]


def holds_texts(x: Mapping[Any, Any], features: Collection[Hashable] | None = None) -> bool:
    """Return whether a feature holds a text. features: the names that count, None for all.

    >>> holds_texts({"size": 2.5, "colour": "red"}), holds_texts({"size": 2.5, "colour": "red"}, ["size"])
    (True, False)
    """
    return any(isinstance(value, str) and (features is None or name in features) for name, value in x.items())


def as_frame(rows: Sequence[Mapping[Any, Any]], names: Names) -> Any:
    """Return dictionaries as a DataFrame of pandas. What one does not have is missing.

    >>> as_frame([{"size": 2.5, "colour": "red"}, {"colour": "blue"}], ("size", "colour"))["colour"].tolist()
    ['red', 'blue']
    """
    import pandas as pd

    found = {}
    for name in names:
        cells = [row.get(name) for row in rows]
        for cell in cells:
            _check_cell(name, cell)
        plain = not any(isinstance(cell, (str, bool, np.bool_)) for cell in cells)
        found[str(name)] = pd.Series(cells, dtype=np.float64 if plain else object)
    if len(found) < len(names):
        raise ValueError(f"features must have names that differ as texts, got {list(names)!r}")
    return pd.DataFrame(found)


def as_rows(x: Mapping[Any, Any], names: Names, input: Input, family: Family) -> NamedRows:
    """Return a dictionary as one row of a stream whose columns are known, with the new categories of it."""
    if input.encoding is None:
        rows, _ = input.read(as_frame([x], names), family)
        return NamedRows(rows, input.names)
    for name in names:
        _check_cell(name, x.get(name))
    rows, encoding = input.encoding.encode({str(name): [x.get(name)] for name in names})
    return NamedRows(check_rows(family, rows), encoding.names, encoding)


def named_centers(engine: Any, names: Names, input: Input) -> dict[int, dict[Any, Any]]:
    """Return the centre of each table by feature: words of categories and booleans, and shares of words of texts."""
    ids, encoding = engine.ids.tolist(), input.encoding
    if input.vocabulary is not None:
        found = {table: engine.word_counts(table) for table in ids}
        return {
            table: dict(zip([names[word] for word in words], counts / max(np.sum(counts), 1.0), strict=True))
            for table, (words, counts) in found.items()
        }
    rows = engine.model.family.centers(engine.state.stats)
    if encoding is None:
        return {table: dict(zip(names, row, strict=True)) for table, row in zip(ids, rows.tolist(), strict=True)}
    kinds = {name: encoding[str(name)].kind for name in names if str(name) in encoding.features}
    numbers = encoding.decode(rows)
    return {
        table: {
            name: encoding.label(str(name), rows[k, d]) if kind in (CATEGORY, BOOLEAN) else float(numbers[k, d])
            for d, (name, kind) in enumerate(kinds.items())
        }
        for k, table in enumerate(ids)
    }


def _check_cell(name: Hashable, cell: Any) -> None:
    if isinstance(cell, (str, bool, np.bool_)) or is_missing(cell):
        return
    number = real(cell)
    if number is None or not isfinite(number):
        raise ValueError(f"feature {name!r} must be a finite number, a text, true or false, got {cell!r}")


def check_numbers(names: Names, values: Sequence[Any], *, missing: bool) -> None:
    """Raise ``ValueError`` unless all values are finite numbers, or NaN if cells may be missing."""
    for name, value in zip(names, values, strict=True):
        try:
            legal = isfinite(value) or (missing and isnan(value))
        except (TypeError, OverflowError):
            legal = False
        if not legal:
            raise ValueError(f"feature {name!r} must be a finite number, got {value!r}")


def check_row(names: Names, values: Sequence[float], family: Family) -> None:
    """Raise ``ValueError`` with the name of a feature unless a family takes a row."""
    try:
        check_rows(family, np.array([values], dtype=np.float64))
    except BadRow as error:
        where = "" if error.column is None else f" for feature {names[error.column]!r}"
        raise ValueError(error.reason + where) from None


def feature_names(features: Sequence[Hashable] | None, width: int | None, time_key: Hashable) -> Names:
    """Return the names of the features as far as they are given. width: how many a family is for, None for any.

    >>> feature_names(["height", "width"], 2, "at"), feature_names(None, None, None)
    (('height', 'width'), ())
    """
    if features is None:
        if width is not None:
            raise ValueError(
                f"the family has hyperparameters for {width} features: give their names, in order, as features"
            )
        return ()
    names = tuple(features)
    if not names or len(set(names)) < len(names) or time_key in names:
        raise ValueError(f"features must be different names, the time_key not among them, got {features!r}")
    if width not in (None, len(names)):
        raise ValueError(f"the family has hyperparameters for {width} features, and features names {len(names)}")
    return names


def read_time(t: Any, clock: Clock | None, last: float) -> tuple[Clock, float]:
    """Return what kind of time t is, and t as a number that is not before ``last``, the latest of the stream.

    clock: the kind of times of the stream, None before the first. Dates are microseconds.

    >>> read_time(2.5, None, float("-inf"))
    (<Clock.NUMBERS: 'numbers'>, 2.5)
    """
    kind, time = Clock.INDEX, -np.inf
    if isinstance(t, (date, np.datetime64)):
        kind, time = Clock.DATES, microseconds(t)
    elif t is not None:
        number = real(t)
        if number is None or not abs(number) <= LATEST_TIME:
            raise ValueError(f"the time must be a finite number, within ±{LATEST_TIME:g}, or a date, got {t!r}")
        kind, time = Clock.NUMBERS, number
    if clock is not None:
        clock.check(kind)
    if time < last:
        latest = np.datetime64(int(last), "us") if kind is Clock.DATES else last
        raise ValueError(f"times must not run backwards: {t} is earlier than {latest}, the latest time of the stream")
    return kind, time

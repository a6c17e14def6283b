"""Cells put into copies of arrays and data frames, in the types that these have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import as_observations
from dyncrp.input.entries import LEFT_OUT, PAIRS, as_cells, as_word, is_empty
from dyncrp.input.input import Input

Cells = Mapping[int, NDArray[Any]]  # for some features, a cell for each row; only the missing ones are used


def put_into_array(X: Any, missing: NDArray[np.bool_], cells: Cells, input: Input) -> NDArray[Any]:
    """Return a copy of an array (n, D) with the missing cells of features filled in; floats keep their type.

    >>> X = np.array([[1.0, np.nan]], dtype=np.float32)
    >>> put_into_array(X, np.isnan(X), {1: np.array([0.5])}, Input())
    array([[1. , 0.5]], dtype=float32)
    """
    plain = isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray) and X.dtype.kind == "f"
    found: NDArray[Any] = np.array(X) if plain else np.array(as_observations(X, missing=True))
    for d, column in cells.items():
        at = _places(input)[d] if found.shape[1] != missing.shape[1] else d
        found[missing[:, d], at] = column[missing[:, d]].astype(found.dtype)
    return found


def _places(input: Input) -> list[int]:
    """Return where the features are among all columns, if some are left out."""
    assert input.encoding is not None
    return [at for at, kind in enumerate(input.encoding.kinds) if kind != LEFT_OUT]


def put_into_frame(X: Any, missing: NDArray[np.bool_], cells: Cells, input: Input) -> Any:
    """Return a copy of a DataFrame of pandas or polars with the missing cells of features filled in.

    Numbers become floats where they were integers. Words are written as in the other cells of the column.
    """
    names = list(X.columns) if input.encoding is None else list(input.encoding.features)
    of_polars = hasattr(X, "to_dicts")
    found = X.clone() if of_polars else X.copy()
    for d, column in cells.items():
        at = missing[:, d]
        numeric = _is_numeric(X, names[d], d, of_polars) and not _has_words(column[at])
        if numeric or column.dtype != object:
            values = [_as_number(value) for value in column[at]]
        else:
            given = _column(X, names[d], d, of_polars)
            others = [] if of_polars else list(getattr(given.dtype, "categories", ()))  # some may be in no cell
            values = _as_written(as_cells(given) + others, column[at])
        put = _into_polars if of_polars else _into_pandas
        found = put(found, names[d], d, at, values)
    return found


def _column(X: Any, name: Any, d: int, of_polars: bool) -> Any:
    """Return a column by its name; by its place if names are not texts, which may repeat."""
    return X[name] if of_polars or isinstance(name, str) else X.iloc[:, d]


def _is_numeric(X: Any, name: Any, d: int, of_polars: bool) -> bool:
    kind = str(_column(X, name, d, of_polars).dtype).lower()
    return kind.startswith(("int", "uint", "float", "double", "decimal"))


def _has_words(column: NDArray[Any]) -> bool:
    """Return whether some are no numbers. If all cells are missing, a column of categories has the type of numbers."""
    try:
        for value in column:
            _as_number(value)
    except ValueError:
        return True
    return False


def _as_number(value: Any) -> float:
    """Return a number, or that of a word: 1 or 0 of yes and no."""
    if isinstance(value, str):
        for yes, no in PAIRS:
            if value in (yes, no):
                return float(value == yes)
    return float(value)


def _as_written(cells: list[Any], words: NDArray[Any]) -> list[Any]:
    """Return words as the cells of a column have them, such as "Yes" for "yes", or the integer 3 for "3"."""
    written: dict[str, Any] = {}
    for cell in cells:
        if not is_empty(cell):
            word = as_word(cell)
            written.setdefault(word, cell)
            written.setdefault(word.lower(), cell)
    booleans = [cell for cell in written.values() if isinstance(cell, (bool, np.bool_))]
    if booleans or not written:
        written |= {yes: True for yes, _ in PAIRS[1:2]} | {no: False for _, no in PAIRS[1:2]}
    return [written.get(word, word) for word in words]


def _takes(kind: Any, values: list[Any]) -> bool:
    """Return whether a column of pandas of this type takes values."""
    import pandas as pd

    if isinstance(values[0], float):
        return pd.api.types.is_float_dtype(kind)
    types = pd.api.types.is_object_dtype, pd.api.types.is_string_dtype
    return any(is_one(kind) for is_one in types) or not any(isinstance(value, str) for value in values)


def _into_pandas(X: Any, name: Any, d: int, at: NDArray[np.bool_], values: list[Any]) -> Any:
    import pandas as pd

    column = _column(X, name, d, False)
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        new = [value for value in dict.fromkeys(values) if value not in kind.categories]
        column = column.cat.add_categories(new) if new else column.copy()
    elif isinstance(values[0], float) and str(kind).lower().startswith(("int", "uint")):
        column = column.astype("Float64" if str(kind)[0].isupper() else np.float64)
    elif not _takes(kind, values):
        column = column.astype(object)
    else:
        column = column.copy()
    column[at] = values
    if isinstance(name, str):
        X[name] = column
    else:
        X.isetitem(d, column)
    return X


def _into_polars(X: Any, name: str, d: int, at: NDArray[np.bool_], values: list[Any]) -> Any:
    import polars as pl

    column = X[name]
    cells = np.array(column.to_list(), dtype=object)
    cells[at] = values
    kind = column.dtype
    if isinstance(values[0], float):
        kind = kind if kind.is_float() else pl.Float64
        return X.with_columns(pl.Series(name, cells.astype(np.float64), dtype=kind))
    if kind.is_numeric() and any(isinstance(value, str) for value in values):
        words = [None if cell is None else as_word(cell) for cell in cells]
        return X.with_columns(pl.Series(name, words, dtype=pl.String))
    return X.with_columns(pl.Series(name, cells.tolist(), dtype=None if kind == pl.Null else kind, strict=False))

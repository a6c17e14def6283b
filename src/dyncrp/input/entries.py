"""What one column holds, and its cells as they come: of Python, NumPy, pandas or polars."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import is_missing

Float = NDArray[np.float64]
NUMBER, LOG, BOOLEAN, CATEGORY, LEFT_OUT = KINDS = "number", "log", "boolean", "category", "left out"
TIMES, COUNTER, CONSTANT, DIFFERS, EMPTY = "times", "counts the rows", "constant", "every row differs", "empty"
MOST_NAMED = 20  # columns in a list of a message
BLANK = frozenset(("",))
LONGEST_QUOTE = 60  # characters of a cell in a message


class Entry(NamedTuple):
    """What one column holds.

    words: of a boolean, the word for 1 and the one for 0; of a category, its categories in order of their codes.
    reason: why a column is left out.
    """

    name: str
    kind: str
    words: tuple[str, ...] = ()
    reason: str = ""


def is_empty(cell: object) -> bool:
    """Tell whether a cell is missing, or blank text, which is no category."""
    return is_missing(cell, BLANK)


def kind_of(cell: object) -> str | None:
    """Return what a cell that is not missing holds, None if that is nothing that we know."""
    if isinstance(cell, (bool, np.bool_)):
        return BOOLEAN
    if isinstance(cell, str):
        return CATEGORY
    if isinstance(cell, (date, np.datetime64)):
        return TIMES
    return NUMBER if isinstance(cell, (int, float, np.integer, np.floating, Decimal)) else None


def as_cells(column: Any) -> list[Any]:
    """Return a column as a list of Python's own objects."""
    if hasattr(column, "to_list"):
        return list(column.to_list())
    return list(column.tolist() if isinstance(column, np.ndarray) else column)


def plain_numbers(column: Any) -> Float | None:
    """Return a column of numbers by its type as float64, NaN for what is missing; None if its type is another."""
    array = column if isinstance(column, np.ndarray) else None
    if array is None and hasattr(column, "to_numpy") and hasattr(column, "dtype"):
        kind = str(column.dtype).lower()
        if not kind.startswith(("int", "uint", "float", "double")):
            return None
        # Nullable types of pandas would become objects; polars has NaN for what is missing by itself.
        array = column.to_numpy(np.float64, na_value=np.nan) if hasattr(column, "iloc") else column.to_numpy()
    if array is None or array.dtype.kind not in "iuf":
        return None
    with np.errstate(over="ignore"):  # of a longdouble
        numbers: Float = np.ma.filled(array.astype(np.float64), np.nan)
    return numbers


def as_word(cell: object) -> str:
    """Return the category that a cell names: 3.0 is the same as 3, since missing cells turn integers to floats."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def join_columns(names: Sequence[str]) -> str:
    """Return names between commas, the first 20 of many."""
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def quote(cell: object) -> str:
    """Return a cell as a message shows it: on one line, and not too long."""
    text = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "…" + text[-1]

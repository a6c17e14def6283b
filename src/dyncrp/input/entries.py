"""What one column holds, and its cells, from Python, NumPy, pandas or polars."""

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
NEARLY, SENTENCES = "nearly all different", "sentences"
MOST_NAMED = 20  # columns listed in a message
# Words for a missing cell, in lower case. Spreadsheets write the last ones.
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "-", "--", "?", "<na>"))
MISSING |= {"#n/a", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"}
PAIRS = (("yes", "no"), ("true", "false"), ("y", "n"), ("t", "f"), ("on", "off"))  # words for 1 and 0
LONGEST_QUOTE = 60  # characters of a cell in a message


class Entry(NamedTuple):
    """What one column holds.

    words: for a boolean, the words for 1 and for 0; for categories, the categories in order of their codes. reason: why
    a column is left out.
    """

    name: str
    kind: str
    words: tuple[str, ...] = ()
    reason: str = ""


def is_empty(cell: object) -> bool:
    """Return whether a cell is missing, or holds a word for a missing cell.

    >>> is_empty(" NA "), is_empty(None), is_empty(0)
    (True, True, False)
    """
    return is_missing(cell, MISSING)


def kind_of(cell: object) -> str | None:
    """Return the kind of a cell that is not missing, None if it is none of the known kinds."""
    if isinstance(cell, (bool, np.bool_)):
        return BOOLEAN
    if isinstance(cell, str):
        return CATEGORY
    if isinstance(cell, (date, np.datetime64)):
        return TIMES
    return NUMBER if isinstance(cell, (int, float, np.integer, np.floating, Decimal)) else None


def as_cells(column: Any) -> list[Any]:
    """Return a column as a list of Python objects."""
    if hasattr(column, "to_list"):
        return list(column.to_list())
    return list(column.tolist() if isinstance(column, np.ndarray) else column)


def plain_numbers(column: Any) -> Float | None:
    """Return a column as float64, with NaN for missing cells, if its type is numeric; None otherwise."""
    array = column if isinstance(column, np.ndarray) else None
    if array is None and hasattr(column, "to_numpy") and hasattr(column, "dtype"):
        kind = str(column.dtype).lower()
        if not kind.startswith(("int", "uint", "float", "double")):
            return None
        # Nullable types of pandas would become objects; polars converts missing cells to NaN by itself.
        array = column.to_numpy(np.float64, na_value=np.nan) if hasattr(column, "iloc") else column.to_numpy()
    if array is None or array.dtype.kind not in "iuf":
        return None
    with np.errstate(over="ignore"):  # longdouble
        numbers: Float = np.ma.filled(array.astype(np.float64), np.nan)
    return numbers


def as_number(text: str) -> float | None:
    """Return the finite number that a text says, None if it says none.

    >>> as_number(" 1.5 "), as_number("1_0"), as_number("inf")
    (1.5, None, None)
    """
    try:
        number = float(text) if "_" not in text else np.nan
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def as_word(cell: object) -> str:
    """Return a cell as a category. 3.0 is the same as 3, since missing cells turn integers into floats."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def join_columns(names: Sequence[str]) -> str:
    """Return the names, separated by commas, at most 20 of them."""
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def quote(cell: object) -> str:
    """Return a cell for a message, on one line, shortened if it is long."""
    text = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "…" + text[-1]

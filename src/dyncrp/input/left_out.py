"""Which columns are no features, judging by their first cells: counters, ids, constants, names and sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.input.entries import (
    CATEGORY,
    CONSTANT,
    COUNTER,
    DIFFERS,
    EMPTY,
    NEARLY,
    NUMBER,
    SENTENCES,
    TIMES,
    Float,
)

FEW_ROWS = 20  # fewer rows cannot show that a column is constant or counts the rows
EPOCHS = {"s": 1e0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # how many make a second
FIRST_SECOND, LAST_SECOND = 1e9, 3e9  # since 1970: the years 2001 to 2064
# The next two were set on the files of R (pydataset), of vega_datasets and of statsmodels. Columns of words that differ
# in more than half of the rows are names, places and dates there; the 50 states, twice each, are just not left out. Of
# integers that rise in every row, ids step by 1 in 43 % of the rows or more, and populations, positions and speeds in
# 4 % or fewer.
MOST_DIFFERENT = 0.5
LEAST_STEPS_OF_1 = 1 / 3
LEAST_WORDS = 5  # in the mean sentence
ID_NAME = re.compile(r"(?i:(^|[^a-z])(id|ids|identifier|idx|index|row_?names?|row_?id|seq_?no|uuid)$)|[a-z]I[dD]$")
NO_NAME = re.compile(r"(Unnamed: [0-9]+(_level_[0-9]+)?)?")  # the first is what pandas calls a column without a name


def why_left_out(name: str, kind: str, column: Sequence[Any] | NDArray[Any]) -> str:
    """Return why a column is no feature, given its first cells that are not missing; "" if it is one.

    kind: "number" (the column is float64), "boolean", "category" or "times".

    >>> why_left_out("zero", "number", np.zeros(50)), why_left_out("x", "number", np.arange(50.0) ** 2)
    ('constant', '')
    """
    n = len(column)
    if not n:
        return EMPTY
    if kind == TIMES:
        return TIMES
    if n < FEW_ROWS:
        return ""
    different = len(np.unique(column)) if kind == NUMBER else len(set(column))
    if different == 1:
        return CONSTANT
    if kind == NUMBER:
        numbers = np.asarray(column)
        if find_epoch(numbers) and np.all(np.diff(numbers) >= 0):
            return TIMES  # since 1970, in order
        if counts_rows(numbers):
            return COUNTER
        if not np.array_equal(numbers, np.rint(numbers)):
            return ""
        if different == n:
            return DIFFERS if ID_NAME.search(name) or NO_NAME.fullmatch(name) else ""
        return NEARLY if different > MOST_DIFFERENT * n and ID_NAME.search(name) else ""  # some came twice
    if kind == CATEGORY and different > MOST_DIFFERENT * n:
        return SENTENCES if holds_sentences(column) else DIFFERS if different == n else NEARLY
    return ""


def counts_rows(column: Sequence[float] | Float) -> bool:
    """Return whether the numbers of a column rise or fall by one step, as in an index, or by whole steps, often 1.

    >>> counts_rows(np.arange(7.0, 47.0)), counts_rows(np.delete(np.arange(50.0), [8, 9, 30]))
    (True, True)
    """
    if len(column) < FEW_ROWS:
        return False
    numbers = np.asarray(column)
    with np.errstate(over="ignore", invalid="ignore"):  # differences of numbers near 1e308
        steps = np.diff(numbers)
        if not np.all(np.isfinite(steps)) or not (np.all(steps > 0) or np.all(steps < 0)):
            return False
        error = 4.0 * np.finfo(float).eps * np.max(np.abs(numbers))
        if np.ptp(steps) <= 2.0 * error:
            return True
    whole = np.array_equal(numbers, np.rint(numbers))
    return bool(whole and np.mean(np.abs(steps) == 1.0) >= LEAST_STEPS_OF_1)


def find_epoch(column: Sequence[float] | Float) -> str | None:
    """Return the unit in which all numbers would be times since 1970 in the years 2001 to 2064, None if there is none.

    >>> find_epoch(np.array([1763287200000.0])), find_epoch(np.array([12.0, 13.0]))
    ('ms', None)
    """
    numbers = np.asarray(column)
    for unit, scale in EPOCHS.items():
        if len(numbers) and np.all((numbers >= FIRST_SECOND * scale) & (numbers < LAST_SECOND * scale)):
            return unit
    return None


def holds_sentences(column: Sequence[Any] | NDArray[Any]) -> bool:
    """Return whether the texts of a column have five words or more, on average.

    >>> holds_sentences(["the door does not close any more", "it is too loud"]), holds_sentences(["12 Bank St"])
    (True, False)
    """
    n_words = sum(sum(map(_has_letter, str(cell).split())) for cell in column)
    return n_words >= LEAST_WORDS * len(column)


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))

"""What columns hold, inferred from their types and their first cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.input.entries import (
    BOOLEAN,
    CATEGORY,
    CONSTANT,
    COUNTER,
    DIFFERS,
    EMPTY,
    LEFT_OUT,
    LOG,
    NUMBER,
    TIMES,
    Entry,
    Float,
    as_cells,
    as_word,
    is_empty,
    kind_of,
    plain_numbers,
    quote,
)

ROWS_TO_INFER = 1000  # the first ones decide what a column holds
FEW_ROWS = 20  # fewer rows cannot show that a column is constant or counts the rows
EPOCHS = {"s": 1e0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # how many make a second
FIRST_SECOND, LAST_SECOND = 1e9, 3e9  # since 1970: the years 2001 to 2064
# log1p(x) is learned in place of x if it gains this many nats per row, and x has this skewness; see prefers_log.
LEAST_GAIN, LEAST_SKEW, MOST_CLUSTERS = 0.3, 1.0, 4
FEWEST_VALUES = 10  # positive values; a column with fewer is discrete, and has no density
NARROWEST = 0.05  # the least width of a cluster, in standard deviations: values may be rounded
N_STEPS = 30  # of expectation and maximisation


def infer(name: str, column: Any, by_type: bool) -> Entry:
    """Return the entry of a column, inferred from its type, or from its cells if the type is not enough."""
    first = column[:ROWS_TO_INFER]
    numbers = plain_numbers(first)
    if numbers is not None:
        return Entry(name, NUMBER) if by_type else infer_entry(name, NUMBER, numbers[~np.isnan(numbers)])
    cells = [cell for cell in as_cells(first) if not is_empty(cell)]
    kind = str(getattr(column, "dtype", "")).lower()
    holds = {kind_of(cell) for cell in cells}
    if kind.startswith(("category", "categorical", "enum")) and holds <= {CATEGORY, NUMBER, BOOLEAN}:
        holds = {CATEGORY}
    if holds == {BOOLEAN} or (not holds and kind.startswith("bool")):
        return infer_entry(name, BOOLEAN, cells, ("true", "false"), keep=by_type)
    if not holds and kind.startswith(("str", "object", "utf8", "category", "categorical", "enum")):
        return infer_entry(name, CATEGORY, [], keep=by_type)
    if holds <= {NUMBER}:
        numbers = np.array([float(cell) for cell in cells])
        return Entry(name, NUMBER) if by_type else infer_entry(name, NUMBER, numbers)
    if holds == {CATEGORY}:
        return infer_entry(name, CATEGORY, [as_word(cell) for cell in cells], keep=by_type)
    if holds == {TIMES}:
        return infer_entry(name, TIMES, cells)
    different = {type(cell).__name__: cell for cell in cells}
    examples = " and ".join(f"{quote(cell)} ({kind})" for kind, cell in list(different.items())[:2])
    raise ValueError(
        f"column {name!r} must hold numbers, text, booleans or dates, and one of these only; it holds {examples}"
    )


def infer_entry(
    name: str, kind: str, column: Sequence[Any] | NDArray[Any], words: tuple[str, ...] = (), *, keep: bool = False
) -> Entry:
    """Return the entry of a column of a certain kind, given its first cells that are not missing.

    kind: "number" (the column is float64), "boolean", "category" or "times". An uninformative column is left out,
    unless ``keep`` is true. Numbers that are all 0 or 1 are booleans.

    >>> infer_entry("protocol", "category", ["tcp", "udp", "tcp"]).kind
    'category'
    >>> infer_entry("zero", "number", np.zeros(50)).reason
    'constant'
    """
    n = len(column)
    different = len(np.unique(column)) if kind == NUMBER else len(set(column))
    reason = ""
    if not n:
        reason = EMPTY
    elif kind == TIMES or (kind == NUMBER and n >= FEW_ROWS and find_epoch(column) and np.all(np.diff(column) >= 0)):
        reason = TIMES  # since 1970, in order
    elif kind != CATEGORY and n >= FEW_ROWS and different == 1:
        reason = CONSTANT  # more categories may come
    elif kind == CATEGORY and n >= FEW_ROWS and different == n:
        reason = DIFFERS
    elif kind == NUMBER and counts_rows(column):
        reason = COUNTER
    if reason and (not keep or kind == TIMES):
        return Entry(name, LEFT_OUT, (), reason)
    if kind == NUMBER:
        if n >= FEW_ROWS and different == 2 and np.isin(column, (0.0, 1.0)).all():
            return Entry(name, BOOLEAN, ("1", "0"))
        return Entry(name, LOG if prefers_log(np.asarray(column)) else NUMBER)
    return Entry(name, kind, words)


def counts_rows(column: Sequence[float] | Float) -> bool:
    """Return whether each number of a column is the one before plus 1, as in an index."""
    with np.errstate(over="ignore"):  # differences of numbers near 1e308
        return len(column) >= FEW_ROWS and bool(np.all(np.diff(column) == 1.0))


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


def prefers_log(column: Float) -> bool:
    """Return whether a model would learn log1p of a column better than the column itself.

    The column must not be negative. Its skewness must exceed 1 and be twice that of log1p, and log1p must gain 0.3 nats
    per row: in the mean log density of the positive values under a mixture of up to four normal clusters of one width,
    including the Jacobian −log(1 + x).

    >>> rng = np.random.default_rng(0)
    >>> prefers_log(rng.lognormal(5.0, 2.0, 500)), prefers_log(rng.normal(100.0, 15.0, 500))
    (True, False)
    """
    x = column[column > 0]
    if len(x) < FEW_ROWS or np.any(column < 0) or len(np.unique(x)) < FEWEST_VALUES:
        return False
    y = np.log1p(x)
    with np.errstate(over="ignore", invalid="ignore"):  # very large numbers have skewness NaN
        skew, skew_of_log = _skewness(x), _skewness(y)
    if not skew > LEAST_SKEW or not 2.0 * abs(skew_of_log) < skew:
        return False
    return bool(_log_density(y) - np.mean(y) - _log_density(x) >= LEAST_GAIN)


def _skewness(x: Float) -> float:
    """Return the mean cube of standardised x, 0 if x is constant."""
    scale = float(np.std(x))
    return float(np.mean(((x - np.mean(x)) / scale) ** 3)) if scale else 0.0


def _log_density(x: Float) -> float:
    """Return the mean log density of x under the mixture of normal clusters of one width with the best BIC."""
    scale = float(np.std(x))
    if not scale:
        return np.inf
    z, n = (x - np.mean(x)) / scale, len(x)
    best = -np.inf
    for k in range(1, MOST_CLUSTERS + 1):
        means, variance, shares = np.quantile(z, (np.arange(k) + 0.5) / k), 1.0 / k**2, np.full(k, 1.0 / k)
        for _ in range(N_STEPS):
            logs = np.log(shares) - 0.5 * (z[:, None] - means) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
            most = np.max(logs, axis=1, keepdims=True)
            weights = np.exp(logs - most)
            total = np.sum(weights, axis=1, keepdims=True)
            evidence = float(np.mean(most + np.log(total)))
            weights /= total
            counts = np.maximum(np.sum(weights, axis=0), 1e-9)
            means = weights.T @ z / counts
            variance = max(float(np.sum(weights * (z[:, None] - means) ** 2)) / n, NARROWEST**2)
            shares = counts / np.sum(counts)
        best = max(best, evidence - k * np.log(n) / n)  # 2k parameters
    return best - np.log(scale)

"""What columns hold, inferred from their types and their first cells."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.dates import is_date
from dyncrp.input.entries import (
    BOOLEAN,
    CATEGORY,
    LEFT_OUT,
    LOG,
    NUMBER,
    PAIRS,
    TIMES,
    Entry,
    Float,
    as_cells,
    as_number,
    as_word,
    is_empty,
    kind_of,
    plain_numbers,
    quote,
)
from dyncrp.input.left_out import FEW_ROWS, why_left_out

ROWS_TO_INFER = 1000  # the first ones decide what a column holds
FEW_NUMBERS = 20  # a column with more different ones is none of categories
# log1p(x) is learned in place of x if it gains this many nats per row, and x has this skewness; see prefers_log.
LEAST_GAIN, LEAST_SKEW, MOST_CLUSTERS = 0.3, 1.0, 4
FEWEST_VALUES = 10  # positive values; a column with fewer is discrete, and has no density
NARROWEST = 0.05  # the least width of a cluster, in standard deviations: values may be rounded
WITH_COMMA = re.compile(r"[-+−]?\d+,\d+")  # a number with a decimal comma
LEAST_WITH_COMMA = 0.9  # of the cells; then the column is likely one of numbers
N_STEPS = 30  # of expectation and maximisation


class Content(NamedTuple):
    """What the first cells of a column are.

    kind: "number", "boolean", "category" or "times". cells: those that are not missing, as float64 for numbers and as
    texts for categories. words: for booleans, those for 1 and for 0. said: whether the type says what the column
    holds, as that of categories does, so that it is not left out.
    """

    name: str
    kind: str
    cells: Sequence[Any] | NDArray[Any]
    words: tuple[str, ...] = ()
    said: bool = False


def infer_entries(contents: Sequence[Content], *, plain: bool | None = None, keep: bool = False) -> tuple[Entry, ...]:
    """Return the entries of columns. Files and data frames meet here.

    Plain numbers are not transformed, and at least one of them is not left out.

    plain: whether all columns hold plain numbers, where the cells do not tell. keep: whether no column is left out but
    dates.

    >>> id, bytes = Content("id", "number", np.arange(50.0)), Content("bytes", "number", np.exp(np.arange(50.0) % 13))
    >>> [entry.kind for entry in infer_entries([id, bytes])]
    ['left out', 'number']
    >>> [entry.kind for entry in infer_entries([id, bytes, Content("kind", "category", ["a", "b"])])]
    ['left out', 'log', 'category']
    """
    if plain is None:
        plain = all(content.kind == NUMBER for content in contents)
    if not plain:
        return tuple(infer_entry(*content[:-1], keep=keep or content.said) for content in contents)
    reasons = {content.name: "" if keep else why_left_out(*content[:3]) for content in contents}
    if all(reasons.values()):
        reasons = dict.fromkeys(reasons, "")  # there must be something to cluster
    return tuple(Entry(name, LEFT_OUT if reason else NUMBER, (), reason) for name, reason in reasons.items())


def read_content(name: str, column: Any, *, by_type: bool = False) -> Content:
    """Return what the first cells of a column of a data frame are.

    by_type: whether text is text, even if all of it is numbers or yes and no.

    >>> read_content("on", ["yes", "no", None, "yes"])[1:4]
    ('boolean', ['yes', 'no', 'yes'], ('yes', 'no'))
    """
    first = column[:ROWS_TO_INFER]
    numbers = plain_numbers(first)
    if numbers is not None:
        return Content(name, NUMBER, numbers[~np.isnan(numbers)])
    given = as_cells(first)
    cells = [cell for cell in given if not is_empty(cell)]
    kind = str(getattr(column, "dtype", "")).lower()
    holds = {kind_of(cell) for cell in cells}
    if kind.startswith(("category", "categorical", "enum")) and holds <= {CATEGORY, NUMBER, BOOLEAN}:
        return Content(name, CATEGORY, [as_word(cell) for cell in cells], said=bool(cells))
    if holds == {BOOLEAN} or (not holds and kind.startswith("bool")):
        return Content(name, BOOLEAN, cells, PAIRS[1])
    if not holds and kind.startswith(("str", "object", "utf8")):
        return Content(name, CATEGORY, [])
    if holds <= {NUMBER}:
        return Content(name, NUMBER, np.array([float(cell) for cell in cells]))
    if holds == {TIMES}:
        return Content(name, TIMES, cells)
    if CATEGORY in holds and holds <= {CATEGORY, NUMBER, BOOLEAN}:
        texts = [as_word(cell) for cell in cells]
        if by_type:
            return Content(name, CATEGORY, texts)
        # pandas reads a column of numbers as text if a word for a missing cell, such as -, is among them.
        blanks = NUMBER in holds or any(isinstance(cell, str) and is_empty(cell) for cell in given)
        return _read_texts(name, texts, numbers=blanks)
    different = {type(cell).__name__: cell for cell in cells}
    examples = " and ".join(f"{quote(cell)} ({kind})" for kind, cell in list(different.items())[:2])
    raise ValueError(
        f"column {name!r} must hold numbers, text, booleans or dates, and one of these only; it holds {examples}"
    )


def _read_texts(name: str, texts: list[str], *, numbers: bool) -> Content:
    """Return what the texts of a column are. numbers: whether texts that are all numbers stand for them."""
    words = {text.lower() for text in texts}
    for pair in PAIRS:
        if words == set(pair):  # one of them alone would not be enough
            return Content(name, BOOLEAN, [text.lower() for text in texts], pair)
    values = [as_number(text) for text in texts]
    found = np.array([value for value in values if value is not None])
    odd = [text for text, value in zip(texts, values, strict=True) if value is None]
    if not odd and numbers:
        return Content(name, NUMBER, found)
    if odd and 2 * len(odd) <= len(texts) and not (are_codes(texts) or shows_words(found, odd)):
        raise ValueError(
            f"column {name!r} must hold numbers or categories: it holds numbers and {quote(odd[0])}; "
            f"pd.to_numeric(X[{name!r}], errors='coerce') takes it for a missing cell, and "
            f"X[{name!r}].astype('category') takes the column for categories"
        )
    with_comma = [text for text in texts if WITH_COMMA.fullmatch(text)]
    if len(with_comma) >= LEAST_WITH_COMMA * len(texts) and len(set(with_comma)) > FEW_NUMBERS:
        warnings.warn(
            f"column {name!r} is text, such as {quote(with_comma[0])}: "
            f"pd.to_numeric(X[{name!r}].str.replace(',', '.'), errors='coerce') takes it for numbers, and "
            f"X[{name!r}].astype('category') for categories",
            stacklevel=2,
        )
    return read_words(name, texts)


def read_words(name: str, texts: list[str]) -> Content:
    """Return what the texts of a column are that are no numbers, and no yes and no: dates if the first is one."""
    return Content(name, TIMES if texts and is_date(texts[0]) else CATEGORY, texts)


def are_codes(texts: Sequence[str]) -> bool:
    """Return whether numbers among texts are codes, since some have zeros before them.

    >>> are_codes(["001", "136A"]), are_codes(["0.5", "0", "10"])
    (True, False)
    """
    return any(len(text) > 1 and text[0] == "0" and text.isdigit() for text in texts)


def shows_words(numbers: Float, odd: Sequence[str]) -> bool:
    """Return whether a column that is mostly numbers holds categories, judging by the words among its first cells.

    If the numbers have few values, which repeat, one word is enough. If they have many, the words must be a tenth of
    the cells, and at least two must differ: one that repeats may say that a number is missing.

    odd: the cells that are no numbers. One without letters and digits, such as *, is no word.

    >>> shows_words(np.array([4.0, 6.0] * 9), ["rotary"]), shows_words(np.arange(99.0), ["free"] * 20)
    (True, False)
    """
    words = [text for text in odd if any(map(str.isalnum, text))]
    n_values = len(np.unique(numbers))
    if n_values <= FEW_NUMBERS and len(numbers) >= 4 * n_values:
        return bool(words)
    return len(set(words)) >= 2 and 10 * len(words) >= len(numbers) + len(odd)


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
    reason = why_left_out(name, kind, column)
    if reason and (not keep or kind == TIMES):
        return Entry(name, LEFT_OUT, (), reason)
    if kind == NUMBER:
        values = np.unique(column)
        if len(column) >= FEW_ROWS and np.array_equal(values, (0.0, 1.0)):
            return Entry(name, BOOLEAN, ("1", "0"))
        return Entry(name, LOG if prefers_log(np.asarray(column)) else NUMBER)
    return Entry(name, kind, words)


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

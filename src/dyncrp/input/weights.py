"""Weights of rows, as people give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadRow, is_missing
from dyncrp.arrays.exchange import readable
from dyncrp.engine.types import GRAIN, Float

MOST_WEIGHT = 1e9
LEAST_WEIGHT = 1e-100  # of those above 0: sums, ratios and products of these are neither 0 nor infinite
ALLOWED = f"must be numbers from 0 to {MOST_WEIGHT:g}"


class BadWeight(BadRow):
    """The weight of a row is invalid."""


def as_weights(given: Any, n: int, *, words: bool = False) -> Float | None:
    """Return the weights of n rows as numbers (n,), a copy; None if every row counts as one.

    Those above 0 count as at least ``LEAST_WEIGHT``. words: whether rows are counts of words. Then weights are rounded
    to multiples of 1/1024, those above 0 to at least that, so that sums of counts are exact.

    >>> as_weights([1, 0.5, 3], 3)
    array([1. , 0.5, 3. ])
    >>> as_weights([1, -2.0], 2)
    Traceback (most recent call last):
        ...
    dyncrp.input.weights.BadWeight: sample_weight must be numbers from 0 to 1e+09, got -2.0, at row 1
    """
    if given is None:
        return None
    weights = _numbers(given, n)
    with np.errstate(invalid="ignore"):
        least, most = (weights.min(), weights.max()) if n else (1.0, 1.0)
    if not (least >= 0.0 and most <= MOST_WEIGHT):  # both are NaN if a weight is
        bad = np.flatnonzero(~((weights >= 0.0) & (weights <= MOST_WEIGHT)))
        raise BadWeight(f"sample_weight {ALLOWED}, got {weights[bad[0]].item()!r}", bad[0])
    if words:
        weights = np.where(weights > 0.0, np.maximum(np.rint(weights / GRAIN), 1.0) * GRAIN, 0.0)
    elif least < LEAST_WEIGHT:
        weights = np.where(weights > 0.0, np.maximum(weights, LEAST_WEIGHT), 0.0)
    return None if (words or least == most) and np.all(weights == 1.0) else weights


def require_some(given: Any) -> None:
    """Raise ``ValueError`` if there are weights and all are zero: nothing could be learned from the rows.

    >>> require_some([0, 0.5])
    """
    weights = np.asarray(readable(given, "sample_weight"))
    if weights.size and weights.dtype.kind in "biuf" and not weights.any():
        raise ValueError(
            f"sample_weight must have a number above 0, got {weights.size} zeros: a row of weight zero teaches nothing"
        )


def _numbers(given: Any, n: int) -> Float:
    """Return one number for each of n rows, (n,)."""
    given = readable(given, "sample_weight")
    array: NDArray[Any] = np.asarray(given)
    if array.dtype.kind in "US" and array.ndim == 1:  # NumPy turns a list of texts and numbers into texts
        array = np.array(list(given), dtype=object)
    if array.shape != (n,):
        raise ValueError(f"sample_weight must have a number for each of the {n} rows, got shape {array.shape}")
    if np.ma.is_masked(given):
        raise BadWeight(f"sample_weight {ALLOWED}, got a masked one", np.flatnonzero(np.ma.getmaskarray(given))[0])
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    found = np.empty(n)
    for row, value in enumerate(array.tolist()):
        try:
            found[row] = np.nan if is_missing(value) or isinstance(value, str) else float(value)
        except (OverflowError, TypeError, ValueError):  # of which the first is an integer beyond 1e308
            found[row] = np.nan
        if np.isnan(found[row]):
            raise BadWeight(f"sample_weight {ALLOWED}, got {value!r}", row)
    return found

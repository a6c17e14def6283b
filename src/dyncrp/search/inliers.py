"""Rows that are not extreme outliers, from which hyperparameters are learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

OUTLIER_DISTANCE = 30.0  # an outlier is further from the median, in interquartile ranges; see find_inliers


def find_inliers(X: Float) -> NDArray[np.bool_]:
    """Return a mask (n,) of the rows that are not outliers.

    An outlier is further than OUTLIER_DISTANCE interquartile ranges from the median in some feature, such as −9999 for
    a missing number; a few of them would widen all clusters into one. If more than one row in a hundred is that far
    out, such values are part of the data, and no row is an outlier.
    """
    X = X[:, np.any(~np.isnan(X), axis=0)]
    if not X.shape[1]:
        return np.ones(len(X), dtype=bool)
    low, middle, high = np.nanquantile(X, (0.25, 0.5, 0.75), axis=0, method="nearest")
    with np.errstate(over="ignore"):
        reach = np.where(high > low, OUTLIER_DISTANCE * (high - low), np.inf)
        inliers: NDArray[np.bool_] = np.all(~(np.abs(X - middle) > reach), axis=1)  # NaN is not an outlier
    return inliers if np.mean(inliers) >= 0.99 else np.ones(len(X), dtype=bool)

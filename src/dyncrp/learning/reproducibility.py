"""Whether clusters reproduce: the tables of one half of the rows must label the other half as its own tables do.

This is the prediction strength of Tibshirani and Walther (2005), as adjusted mutual information.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dyncrp.dynamics import Stationary
from dyncrp.engine import make_engine
from dyncrp.engine.types import Float, Int, Model, Rules
from dyncrp.families import Family

HALVINGS = 3


def split(Z: Float) -> list[Float]:
    """Return random halves of the rows Z (n, Q), each in order, two after two; always the same ones."""
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(Z)) for _ in range(HALVINGS)]
    middle = len(Z) // 2
    return [Z[np.sort(part)] for order in orders for part in (order[:middle], order[middle:])]


def reproducibility(family: Family, alpha: float, halves: list[Float]) -> float:
    """Return the mean agreement, over all halves, of labels by their own tables and by those of the other half."""
    model = Model(family, Stationary().modes(), alpha, Rules(), clip=False)
    rows = [family.check(half) for half in halves]
    engines = [make_engine(model, half.shape[1]) for half in rows]
    labels = [
        engine.run(half, np.arange(len(half), dtype=np.float64)).labels
        for engine, half in zip(engines, rows, strict=True)
    ]
    agreement = []
    for i, (mine, half) in enumerate(zip(labels, rows, strict=True)):
        other = engines[i ^ 1]
        agreement.append(adjusted_mutual_information(mine, other.labels(half, np.full(len(half), other.time))))
    return float(np.mean(agreement))


def adjusted_mutual_information(left: Int, right: Int) -> float:
    """Return (I − E[I]) / (½ (H + H') − E[I]) of two labellings (n,), as scikit-learn does, without its checks.

    >>> adjusted_mutual_information(np.array([0, 0, 1, 1]), np.array([5, 5, 2, 2]))
    1.0
    """
    from sklearn.metrics.cluster import expected_mutual_information

    n = len(left)
    _, rows = np.unique(left, return_inverse=True)
    _, columns = np.unique(right, return_inverse=True)
    R, C = int(rows.max()) + 1, int(columns.max()) + 1
    if R == C == 1:
        return 1.0
    counts = np.bincount(rows * C + columns, minlength=R * C).reshape(R, C)
    of_rows, of_columns = counts.sum(axis=1), counts.sum(axis=0)
    joint = counts[counts > 0] / n
    information = _entropy(of_rows / n) + _entropy(of_columns / n) - _entropy(joint)
    expected = expected_mutual_information(counts, n)
    gap = 0.5 * (_entropy(of_rows / n) + _entropy(of_columns / n)) - expected
    least = float(np.finfo(np.float64).eps)
    return float((information - expected) / (min(gap, -least) if gap < 0 else max(gap, least)))


def _entropy(shares: NDArray[np.float64]) -> float:
    return -float(np.sum(shares * np.log(shares)))

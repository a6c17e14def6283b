"""Reproducibility of clusters: do the tables of one half of the rows label the other half as its own tables do?

This is the prediction strength of Tibshirani and Walther (2005), measured by adjusted mutual information.
"""

from __future__ import annotations

import numpy as np

from dyncrp.dynamics import Stationary
from dyncrp.engine import trials
from dyncrp.engine.types import Float, Model
from dyncrp.families import Family

HALVINGS = 3


def split(Z: Float) -> list[Float]:
    """Return pairs of random halves of the rows Z (n, Q), each in order. They are always the same."""
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(Z)) for _ in range(HALVINGS)]
    middle = len(Z) // 2
    return [Z[np.sort(part)] for order in orders for part in (order[:middle], order[middle:])]


def reproducibility(family: Family, alpha: float, halves: list[Float]) -> float:
    """Return the agreement of labels by a half's own tables and by those of the other half, averaged over halves.

    It is nan if every half is one cluster by both.
    """
    model = Model(family, Stationary(), alpha)
    return trials.reproducibility(model, [family.check(half) for half in halves])

"""Whether clusters reproduce: the tables of one half of the rows must label the other half as its own tables do.

This is the prediction strength of Tibshirani and Walther (2005), as adjusted mutual information.
"""

from __future__ import annotations

import numpy as np

from dyncrp.dynamics import Stationary
from dyncrp.engine import trials
from dyncrp.engine.types import Float, Model, Rules
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
    return trials.reproducibility(model, [family.check(half) for half in halves])

"""Tables to be joined."""

import numpy as np

from dyncrp import Gaussian


def tables(K, D, seed, scale=4.0):
    """Stats and squares of K tables under Gaussian(1, 25), and the rows that made them."""
    rng = np.random.default_rng(seed)
    family = Gaussian(1.0, 25.0)
    rows = [rng.normal(size=D) * scale + rng.normal(size=(rng.integers(1, 12), D)) for _ in range(K)]
    stats = np.array([family.statistics(X).sum(axis=0) for X in rows])
    squares = np.array([family.squares(X).sum(axis=0) for X in rows])
    return family, stats, squares, rows

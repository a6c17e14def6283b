"""Halves that are the same whoever asks, and clusters that reproduce on them or do not."""

import numpy as np

from dyncrp import Gaussian
from dyncrp.search.reproducibility import reproducibility, split


def test_halves_are_disjoint_in_order_and_always_the_same():
    Z = np.arange(21.0)[:, None]
    halves = split(Z)
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        assert sorted(np.concatenate([first, second]).ravel()) == Z.ravel().tolist()
        assert all(np.all(np.diff(half.ravel()) > 0) for half in (first, second))
    assert not np.array_equal(halves[0], halves[2])
    assert all(np.array_equal(a, b) for a, b in zip(halves, split(Z), strict=True))


def test_clear_clusters_reproduce_and_tiles_of_a_cloud_do_not():
    rng = np.random.default_rng(0)
    clear = rng.normal(20.0 * rng.integers(4, size=(300, 1)), 1.0, size=(300, 2))
    assert reproducibility(Gaussian(1.0, 400.0), 1.0, split(clear)) > 0.99
    assert reproducibility(Gaussian(0.05, 1.0), 1.0, split(rng.normal(size=(300, 2)))) < 0.6

"""Data sets of known shape: the six of scikit-learn, Gaussian blobs, and clouds without clusters; in random order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

Float = NDArray[np.float64]
Labelled = tuple[Float, NDArray[np.int64]]
Maker = Callable[[int, int], Labelled]  # of the number of rows and the seed

WIDTHS = (1.0, 2.5, 0.5)
SHEAR = np.array([[0.6, -0.6], [-0.4, 0.8]])
CLOUDS = ("uniform", "student", "lognormal", "cauchy")


def six() -> dict[str, Maker]:
    """Return the data sets of scikit-learn's comparison of clusterings, standardised as there."""
    return {
        "circles": lambda n, seed: _ready(datasets.make_circles(n, factor=0.5, noise=0.05, random_state=seed), seed),
        "moons": lambda n, seed: _ready(datasets.make_moons(n, noise=0.05, random_state=seed), seed),
        "varied widths": lambda n, seed: _ready(_blobs(170, n, seed, WIDTHS), seed),
        "anisotropic": lambda n, seed: _ready(_shear(_blobs(170, n, seed)), seed),
        "blobs": lambda n, seed: _ready(_blobs(30, n, seed), seed),
        "no structure": lambda n, seed: _ready(cloud("uniform", 2, n, seed), seed),
    }


def blobs() -> dict[str, Maker]:
    """Return blobs in a box of side 20: K = 3, 10, 30 of spread 0.5, 1, 2 in D = 2, 10, 50 features."""

    def maker(K: int, spread: float, D: int) -> Maker:
        return lambda n, seed: datasets.make_blobs(n, D, centers=K, cluster_std=spread, random_state=seed)

    return {
        f"{K} blobs, spread {spread:g}, D = {D}": maker(K, spread, D)
        for K in (3, 10, 30)
        for spread in (0.5, 1.0, 2.0)
        for D in (2, 10, 50)
    }


def clouds() -> dict[str, Maker]:
    """Return clouds without clusters, in 2 and 5 features."""
    return {
        f"{kind}, D = {D}": lambda n, seed, kind=kind, D=D: cloud(kind, D, n, seed)  # type: ignore[misc]
        for kind in CLOUDS
        for D in (2, 5)
    }


def cloud(kind: str, D: int, n: int, seed: int) -> Labelled:
    """Return n independent rows of one distribution, all of one class."""
    rng = np.random.default_rng(seed)
    draw = {
        "uniform": lambda shape: rng.uniform(size=shape),
        "student": lambda shape: rng.standard_t(2, size=shape),
        "lognormal": lambda shape: rng.lognormal(size=shape),
        "cauchy": lambda shape: rng.standard_cauchy(size=shape),
    }
    return draw[kind]((n, D)), np.zeros(n, dtype=np.int64)


def _blobs(place: int, n: int, seed: int, widths: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Labelled:
    """Return three blobs whose centres scikit-learn's own seed ``place`` draws."""
    centers = datasets.make_blobs(3, random_state=place, return_centers=True)[2]
    X, y = datasets.make_blobs(n, centers=centers, cluster_std=widths, random_state=seed)
    return X, y


def _shear(rows: Labelled) -> Labelled:
    return rows[0] @ SHEAR, rows[1]


def _ready(rows: Labelled, seed: int) -> Labelled:
    X, y = rows
    order = np.random.default_rng(seed).permutation(len(X))
    return ((X - X.mean(axis=0)) / X.std(axis=0))[order], y[order]

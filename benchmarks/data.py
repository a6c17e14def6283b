"""Streams whose truth is known: K well-separated clusters, uniformly mixed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
SPREAD = 10.0  # standard deviation of the centres; that of a cluster is 1
APART = 6.0  # least distance between centres


class Stream(NamedTuple):
    """Rows to learn from and, after them, a labelled stretch."""

    pool: Float
    rows: Float
    truth: NDArray[np.int64]


def pool_size(D: int, pool_rows: int, pool_bytes: int) -> int:
    """Return how many rows of D features fit into ``pool_bytes``, a multiple of 1024 and at most ``pool_rows``."""
    return max(1024, min(pool_rows, pool_bytes // (8 * D)) // 1024 * 1024)


def centers(K: int, D: int, rng: np.random.Generator) -> Float:
    """Draw K centres from N(0, 10²), none within 6 of another."""
    drawn = np.empty((K, D))
    n = 0
    while n < K:
        drawn[n] = rng.normal(0.0, SPREAD, D)
        if n == 0 or np.min(np.sum((drawn[:n] - drawn[n]) ** 2, axis=1)) >= APART**2:
            n += 1
    return drawn


def gaussian(K: int, D: int, pool: int, labelled: int, seed: int = 0) -> Stream:
    """K clusters of unit variance about such centres."""
    rng = np.random.default_rng(seed)
    means = centers(K, D, rng)
    truth = rng.integers(K, size=pool + labelled)
    return _split(means[truth] + rng.standard_normal((len(truth), D)), truth, pool)


def directions(K: int, D: int, pool: int, labelled: int, seed: int = 0, noise: float = 0.5) -> tuple[Stream, float]:
    """K clusters of unit vectors about random directions, and their concentration."""
    rng = np.random.default_rng(seed)
    means = _unit(rng.standard_normal((K, D)))
    truth = rng.integers(K, size=pool + labelled)
    X = _unit(means[truth] + noise / np.sqrt(D) * rng.standard_normal((len(truth), D)))
    resultant = 1.0 / np.sqrt(1.0 + noise**2)
    return _split(X, truth, pool), float(D * resultant / (1.0 - resultant**2))


def bits(K: int, D: int, pool: int, labelled: int, seed: int = 0) -> Stream:
    """K clusters of binary rows, each feature with a probability of its own in each cluster, from Beta(0.2, 0.2)."""
    rng = np.random.default_rng(seed)
    chances = rng.beta(0.2, 0.2, (K, D))
    truth = rng.integers(K, size=pool + labelled)
    return _split((rng.random((len(truth), D)) < chances[truth]).astype(np.float64), truth, pool)


def _unit(X: Float) -> Float:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _split(X: Float, truth: NDArray[np.int64], pool: int) -> Stream:
    return Stream(X[:pool], X[pool:], truth[pool:])

"""Made streams, each a kind of change: clusters that return, walk, turn, appear, come in bursts, and outliers."""

from __future__ import annotations

import numpy as np

from benchmarks.data import Float, centers
from benchmarks.streams.base import Rows

N = 2000  # rows
K = 10  # clusters
D = 4  # features
VISIT = 40  # rows, on average


def visits(seed: int) -> Rows:
    """Return rows that stay with a cluster for a while, leave it, and come back."""
    rng = np.random.default_rng(seed)
    truth = _visits(rng, K)
    return _about(rng, centers(K, D, rng)[truth], truth)


def walking(seed: int) -> Rows:
    """Return clusters that each walk by a few of their own widths in the course of the stream."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=N)
    steps = rng.normal(0.0, 1.0, (K, D))
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    share = np.linspace(0.0, 1.0, N)[:, None]
    return _about(rng, centers(K, D, rng)[truth] + 6.0 * share * steps[truth], truth)


def rotating(seed: int) -> Rows:
    """Return clusters on a ring that turns by a sixth of a circle."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=N)
    angle = 2.0 * np.pi * (truth / K + np.linspace(0.0, 1.0 / 6.0, N))
    return _about(rng, 20.0 * np.column_stack([np.cos(angle), np.sin(angle)]), truth)


def appearing(seed: int) -> Rows:
    """Return clusters that begin one after another; half of them end again."""
    rng = np.random.default_rng(seed)
    begin = np.linspace(0, 0.8 * N, K).astype(int)
    end = np.where(np.arange(K) % 2 == 0, N, begin + N // 3)
    truth = np.array([rng.choice(np.flatnonzero((begin <= row) & (row < end))) for row in range(N)])
    return _about(rng, centers(K, D, rng)[truth], truth)


def bursts(seed: int) -> Rows:
    """Return one common cluster, interrupted by bursts of others, some of which come back."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(N, dtype=np.int64)
    at = 0
    while at < N:
        at += int(rng.geometric(1.0 / 80.0))
        length = int(rng.geometric(1.0 / 20.0))
        truth[at : at + length] = rng.integers(1, K)
        at += length
    return _about(rng, centers(K, D, rng)[truth], truth)


def outliers(seed: int) -> Rows:
    """Return visits in which one row in twenty lies anywhere; those rows are a class of their own."""
    rng = np.random.default_rng(seed)
    truth = _visits(rng, K)
    X = centers(K, D, rng)[truth] + rng.normal(size=(N, D))
    odd = rng.random(N) < 0.05
    X[odd] = rng.uniform(-30.0, 30.0, (int(odd.sum()), D))
    return Rows(X, np.where(odd, K, truth))


MADE = {function.__name__: function for function in (visits, walking, rotating, appearing, bursts, outliers)}


def _visits(rng: np.random.Generator, n: int) -> np.ndarray:
    found: list[int] = []
    while len(found) < N:
        found += [int(rng.integers(n))] * int(rng.geometric(1.0 / VISIT))
    return np.array(found[:N])


def _about(rng: np.random.Generator, middle: Float, truth: np.ndarray) -> Rows:
    return Rows(middle + rng.normal(size=middle.shape), np.asarray(truth, dtype=np.int64))

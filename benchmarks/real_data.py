"""Real streams: labelled data sets in an order of arrival. The labels, the truth, are for the score only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from benchmarks.data import Float

STAY = 0.95  # probability that the next row of a sticky stream is of the same class
BANKING_ROWS = 6000  # of 13,083, so that the slow systems come to an end
BANKING_VARIABLE = "DYNCRP_BANKING77"
BANKING_PLACES = (Path(__file__).parents[2] / "shared" / "data" / "banking77.npz",)
Order = NDArray[np.int64]


class Arrivals(NamedTuple):
    """Rows (n, D) in order of arrival and the class of each (n,)."""

    X: Float
    truth: NDArray[np.int64]


def shuffled_order(y: ArrayLike, seed: int) -> Order:
    """Return a random permutation of the rows: no class comes in runs."""
    return np.random.default_rng(seed).permutation(len(np.asarray(y)))


def sticky_order(y: ArrayLike, stay: float, seed: int) -> Order:
    """Return a permutation of the rows whose classes y (n,) come in runs, as in a stream that changes with time.

    A Markov chain over classes: the next row is of the same class with probability ``stay``, otherwise of another,
    uniformly chosen among those that have rows left. Runs have mean length 1 / (1 - stay) while the classes last; a
    class that runs out ends its run early, and the last class left has no other to jump to. The rows of a class come
    in random order.

    >>> y = [0, 0, 0, 1, 1, 1]
    >>> [y[i] for i in sticky_order(y, stay=1.0, seed=0)]
    [1, 1, 1, 0, 0, 0]
    """
    rng = np.random.default_rng(seed)
    classes, members = np.unique(np.asarray(y), return_inverse=True)
    left = [rng.permutation(np.flatnonzero(members == k)).tolist() for k in range(len(classes))]
    order: list[int] = []
    current = int(rng.integers(len(classes)))
    while len(order) < len(members):
        others = [k for k, rows in enumerate(left) if rows and k != current]
        if others and (not left[current] or (order and rng.random() >= stay)):
            current = others[rng.integers(len(others))]
        order.append(left[current].pop())
    return np.array(order, dtype=np.int64)


def streams(banking: Path | None, most: int | None = None) -> dict[str, Callable[[int], Arrivals]]:
    """Return the streams by name, each a function of the seed; at most ``most`` rows of each.

    The features of wine and breast cancer have units of their own, so they are standardised beforehand, by the whole
    data set and for everyone. The digits stay pixels (0 to 16), the questions unit vectors. Without a file of
    banking questions there are no such streams.
    """
    digits, wine, cancer = (load(return_X_y=True) for load in (load_digits, load_wine, load_breast_cancer))
    found = {
        "digits-shuffled": _stream(*digits, sticky=False, most=most),
        "digits-sticky": _stream(*digits, sticky=True, most=most),
        "wine": _stream(_standardise(wine[0]), wine[1], sticky=False, most=most),
        "breast-cancer": _stream(_standardise(cancer[0]), cancer[1], sticky=False, most=most),
    }
    if banking is not None:
        with np.load(banking) as questions:
            X, y = questions["X"].astype(np.float64), questions["y"].astype(np.int64)
        most = min(most or BANKING_ROWS, BANKING_ROWS)
        found["banking-shuffled"] = _stream(X, y, sticky=False, most=most)
        found["banking-sticky"] = _stream(X, y, sticky=True, most=most)
    return found


def find_banking(given: Path | None) -> Path | None:
    """Return the file of banking questions: the given one, the environment's, or one beside the repository."""
    if given is not None:
        return given
    return next((path for path in _places() if path.is_file()), None)


def _places() -> Iterator[Path]:
    if BANKING_VARIABLE in os.environ:
        yield Path(os.environ[BANKING_VARIABLE])
    yield from BANKING_PLACES


def _stream(X: Float, y: NDArray[np.int64], *, sticky: bool, most: int | None) -> Callable[[int], Arrivals]:
    def arrive(seed: int) -> Arrivals:
        order = (sticky_order(y, STAY, seed) if sticky else shuffled_order(y, seed))[:most]
        return Arrivals(np.ascontiguousarray(X[order], dtype=np.float64), y[order])

    return arrive


def _standardise(X: Float) -> Float:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))

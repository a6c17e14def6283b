"""What a stream and a system are, and how one is scored on the other."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, pairwise_distances
from sklearn.metrics.cluster import contingency_matrix
from sklearn.neighbors import NearestNeighbors

from benchmarks.data import Float
from benchmarks.timing import TooLong, limit

Labels = NDArray[Any]
Row = dict[str, Any]
FIRST = 1000  # rows from which a system may be set up, without labels
LATER = 500  # least rows after these for a score of their own
LEAST_SECONDS, MOST_RUNS = 0.1, 5  # of what a rate is measured on


class Rows(NamedTuple):
    """A stream: rows (n, D) in order of arrival, and the true cluster of each, (n,), for the score only."""

    X: Float
    truth: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """How many true clusters there are: what a system is told that is told K."""
        return len(np.unique(self.truth))


@dataclass
class System:
    """A system under test.

    name, told: what the table says of it. step: takes the next rows (m, D), returns their labels (m,) by what is known
    before them, and then learns them; None for a system that needs all rows at once. chunk: rows in a call of ``step``,
    0 for all. first: rows in the first call, if that needs more. relabel: returns labels (n,) of all rows by what is
    known after the last; None if it has no such answer. state: what is measured as its memory, by pickling it.
    """

    name: str
    told: str
    step: Callable[[Float], ArrayLike] | None
    relabel: Callable[[Float], ArrayLike] | None
    state: Callable[[], Any]
    chunk: int = 1
    first: int = 0


class Names:
    """Names of clusters that stay when a system numbers its clusters anew.

    Some systems cluster their summaries of the stream anew from time to time. A cluster gets the name of the earlier
    cluster with the nearest centre, if no other is nearer to that centre, and a new name otherwise.

    >>> names = Names()
    >>> names.update([0, 1], np.array([[0.0], [9.0]]))
    >>> names.update([0, 1, 2], np.array([[9.2], [4.0], [0.1]]))
    >>> names.of([0, 1, 2, 7]).tolist()
    [1, 2, 0, -1]
    """

    def __init__(self) -> None:
        self._names: dict[int, int] = {}
        self._of_center: list[int] = []
        self._centers: Float | None = None
        self._n = 0

    def update(self, ids: Sequence[int], centers: Float, *, renamed: bool = True) -> None:
        """Take the present ids of the clusters, and their centres (k, D); not ``renamed``: ids mean what they did."""
        if not len(centers):
            return
        found: dict[int, int] = {}
        if not renamed:
            found = {at: self._names[one] for at, one in enumerate(ids) if one in self._names}
        elif self._centers is not None:
            distances = pairwise_distances(centers, self._centers)
            of_new, of_old = distances.argmin(axis=1), distances.argmin(axis=0)
            found = {new: self._of_center[old] for new, old in enumerate(of_new) if of_old[old] == new}
        self._names = {one: found[at] for at, one in enumerate(ids) if at in found}
        self.add(ids)
        self._of_center, self._centers = [self._names[one] for one in ids], np.array(centers)

    def add(self, ids: Iterable[int]) -> None:
        """Name clusters that are new, while the others stay as they are."""
        for one in ids:
            if one not in self._names:
                self._names[one], self._n = self._n, self._n + 1

    def of(self, labels: Iterable[int]) -> Labels:
        """Return the names of labels (n,), -1 where there is no such cluster."""
        return np.array([self._names.get(label, -1) for label in labels])


def measure(make: Callable[[Rows, int], System], stream: Rows, seed: int, seconds: float) -> Row:
    """Run one system on one stream; one that fails or takes more than ``seconds`` of CPU time gets no score."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        system = make(stream, seed)
        row: Row = {"system": system.name, "told": system.told, "stopped": None}
        try:
            with limit(seconds, cpu=True):
                start = process_time()
                arrival = None if system.step is None else follow(system, stream.X)
                elapsed = process_time() - start
                end = None if system.relabel is None else np.asarray(system.relabel(stream.X))
        except TooLong:
            return row | {"stopped": f"over {seconds:g} s"}
        except Exception as problem:  # one that breaks must not cost the others their figures
            return row | {"stopped": "failed", "problem": f"{type(problem).__name__}: {problem}"}
        row["rate"] = None if arrival is None else _rate(lambda: make(stream, seed), stream.X, elapsed)
        row["kilobytes"] = len(pickle.dumps(system.state())) / 1e3
    row["arrival"] = None if arrival is None else scores(stream.truth, arrival)
    long = arrival is not None and len(stream.X) >= FIRST + LATER
    row["later"] = scores(stream.truth[FIRST:], arrival[FIRST:]) if long else None
    row["end"] = None if end is None else scores(stream.truth, end)
    return row


def _rate(make: Callable[[], System], X: Float, elapsed: float) -> float:
    """Return rows a second of CPU time; a short run is repeated, since some clocks count hundredths of a second."""
    runs = 1
    while elapsed < LEAST_SECONDS and runs < MOST_RUNS:
        system, start = make(), process_time()
        follow(system, X)
        elapsed, runs = elapsed + process_time() - start, runs + 1
    return runs * len(X) / max(elapsed, 1e-9)


def follow(system: System, X: Float) -> Labels:
    """Return the label that each row got when it came."""
    assert system.step is not None
    chunk = system.chunk or len(X)
    edges = [0, *range(max(system.first, chunk), len(X), chunk), len(X)]
    return np.concatenate([np.asarray(system.step(X[start:stop])) for start, stop in pairwise(edges)])


def scores(truth: ArrayLike, labels: ArrayLike) -> dict[str, float]:
    """Return AMI, ARI, purity, B³-F1 and the number of clusters of labels (n,).

    Purity is the share of rows whose class is the commonest in their cluster. B³ is the mean over rows of precision,
    the share of a row's cluster that is of its class, and of recall, the share of its class that is in its cluster; F1
    is their harmonic mean.

    >>> found = scores([0, 0, 1, 1], [5, 5, 5, 7])
    >>> {name: round(value, 3) for name, value in found.items()}
    {'ami': 0.0, 'ari': 0.0, 'purity': 0.75, 'b3': 0.706, 'clusters': 2}
    """
    counts = contingency_matrix(truth, labels).astype(float)
    n = counts.sum()
    precision = float(np.sum(counts**2 / counts.sum(axis=0)) / n)
    recall = float(np.sum(counts**2 / counts.sum(axis=1, keepdims=True)) / n)
    return {
        "ami": float(adjusted_mutual_info_score(truth, labels)),
        "ari": float(adjusted_rand_score(truth, labels)),
        "purity": float(np.sum(counts.max(axis=0)) / n),
        "b3": 2.0 * precision * recall / (precision + recall),
        "clusters": counts.shape[1],
    }


def neighbour_distance(X: Float, quantile: float) -> float:
    """Return a quantile of the distances from each of the first rows of X (n, D) to its nearest neighbour among them.

    It sets a radius without labels. Copies of a row count as one row, since their distance says nothing.

    >>> neighbour_distance(np.array([[0.0], [1.0], [1.0], [4.0]]), 0.5)
    1.0
    """
    first = np.unique(X[:FIRST], axis=0)
    distances = NearestNeighbors(n_neighbors=2).fit(first).kneighbors(first)[0][:, 1]
    return float(np.quantile(distances, quantile))

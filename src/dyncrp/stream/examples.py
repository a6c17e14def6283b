"""Rows of each table that are kept as examples: the latest, and a fair sample from which typical ones are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import integer
from dyncrp.arrays.counts import Counts
from dyncrp.arrays.rows import Dense, RowType, type_of
from dyncrp.engine.schema import EXAMPLE_ROWS, EXAMPLES, check
from dyncrp.families import Family

Float = NDArray[np.float64]
Int = NDArray[np.int64]
SAMPLES = 4  # sampled rows of a table for each typical one
BLOCK = 4096  # rows that are sorted in together
FEW = 64  # fewer rows than this are all kept until they are sorted in, which is faster than choosing
MOST = 10_000  # examples of a table
CELLS = 1 << 20  # the largest dense array for documents


class Rows(NamedTuple):
    """Some rows of a stream: X (m, D) as the family sees them, their numbers from 0 (m,), and their times (m,).

    Documents are Counts. ``DynamicalMixture.examples`` turns them into dictionaries from words to counts, or into a
    scipy.sparse CSR array if words have no names.
    """

    X: Any
    numbers: Int
    times: Float


class Kept(NamedTuple):
    """What is kept of a table: a fair sample of up to ``4 size`` rows, in order, and its latest rows, newest first."""

    sample: Rows
    latest: Rows
    size: int


class Examples(NamedTuple):
    """Examples of a table: typical rows, the likeliest first, and its latest rows, the newest first."""

    typical: Rows
    latest: Rows


class Reservoir:
    """Keeps a few rows of each table: the latest ``size``, and a fair sample of ``4 size`` of all its rows.

    The sample has the rows with the lowest priorities. The priority of a row is a hash of its number, so that all
    samples are equally likely. What is kept depends only on the rows, their numbers and their tables: not on how the
    stream is divided into calls, and not on whether tables were merged before or after their rows came. There are up
    to ``5 size`` rows of each table, and at most as many again that are not sorted in yet.

    Args:
        size: how many of the latest rows to keep, and how many typical rows to choose.
        kind: the type of the rows.

    >>> kept = Reservoir(2)
    >>> kept.add(0, np.array([[0.1], [9.0], [0.2], [0.3]]), np.arange(4.0), np.array([0, 1, 0, 0]))
    >>> kept.of(0).latest.X.tolist(), kept.of(0).sample.numbers.tolist()
    ([[0.3], [0.2]], [0, 2, 3])
    """

    def __init__(self, size: int, kind: RowType = Dense) -> None:
        self.size, self.kind = integer("size", size, 1, MOST), kind
        none = np.empty(0, np.int64)
        self._kept = _Store(none, none, np.empty(0), kind.none())  # by number
        self._waiting: list[_Store] = []  # later rows, in order
        self._gone: list[int] = []  # tables to drop when these are sorted in
        self._n_waiting = 0
        # The tables with a full sample, and the highest priority in each sample.
        self._full, self._worst = np.empty(0, np.int64), np.empty(0, np.uint64)

    def add(self, first_row: int, X: Float | Counts, times: Float, labels: Int, weights: Float | None = None) -> None:
        """Add rows X (n, D) at times (n,) with labels (n,); their numbers are first_row, first_row + 1, …

        Rows must be added in the order of their numbers. Rows that are kept are copied. weights: (n,) of the rows, if
        they have any; those of weight 0 are left out.
        """
        for begin in range(0, len(X), BLOCK):
            part = slice(begin, min(begin + BLOCK, len(X)))
            numbers = np.arange(first_row + begin, first_row + part.stop)
            block = _Store(labels[part], numbers, times[part], X[part])
            if weights is not None:
                block = block.take(weights[part] > 0.0)
            if len(numbers) < FEW:
                block = _Store(block.ids.copy(), block.numbers, block.times.copy(), block.X.copy())
            else:
                block = block.take(self._might_stay(block))
            self._waiting.append(block)
            self._n_waiting += len(block.ids)
            self._sort_in_if_many()

    def copy(self) -> Self:
        """Return an independent copy, which shares the rows."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _waiting=self._waiting.copy(), _gone=self._gone.copy())
        return other

    def merge(self, into: int, old: int) -> None:
        """Give the rows of table ``old`` to table ``into``."""
        self.sort_in()
        self._keep(self._kept._replace(ids=np.where(self._kept.ids == old, into, self._kept.ids)))

    def forget(self, ids: Iterable[int]) -> None:
        """Drop the rows of tables that have closed."""
        self._gone += map(int, ids)
        self._sort_in_if_many()

    def widen(self, n_features: int, absent: float = 0.0) -> None:
        """Add features, which have the value ``absent`` in all rows so far."""
        self.sort_in()
        self._kept = self._kept._replace(X=self.kind.widen(self._kept.X, n_features, absent))

    def of(self, table: int) -> Kept:
        """Return what is kept of a table, perhaps no rows."""
        self.sort_in()
        own = self._kept.take(self._kept.ids == table)
        sample = np.sort(np.argsort(priorities(own.numbers))[: SAMPLES * self.size])
        newest = np.arange(len(own.ids))[::-1][: self.size]
        sampled, latest = (Rows(own.X[at], own.numbers[at], own.times[at]) for at in (sample, newest))
        return Kept(sampled, latest, self.size)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is kept as arrays, in order of the rows; see ``restore``."""
        self.sort_in()
        *others, X = self._kept
        return dict(zip(EXAMPLES | EXAMPLE_ROWS[self.kind], (*others, *self.kind.arrays(X)), strict=True))

    @classmethod
    def restore(cls, size: int, n_features: int, kind: RowType, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the reservoir that ``arrays`` described; raise ``ValueError`` if they are not of this size."""
        ids, numbers, times, *rows = check(arrays, EXAMPLES | EXAMPLE_ROWS[kind]).values()
        X = kind.checked(rows, len(ids))
        if X.shape[1] > n_features or (len(ids) and not kind.grows and X.shape[1] < n_features):  # none: (0, 0)
            raise ValueError(f"its examples have {X.shape[1]} features, but it has {n_features}")
        store, found = _Store(ids, numbers, times, X), cls(size, kind)
        found._keep(store)
        if len(found._kept.ids) < len(store.ids):
            raise ValueError(f"it has more examples of a table than a size of {size} allows")
        return found

    def _sort_in_if_many(self) -> None:
        # Wait for as many rows as are kept, so that each row is sorted only a few times.
        if self._n_waiting + len(self._gone) > max(BLOCK, len(self._kept.ids)):
            self.sort_in()

    def sort_in(self) -> None:
        """Sort in the rows that wait. Needed before rows can come to a table that was forgotten and opens again."""
        if not self._waiting and not self._gone:
            return
        stores = [store for store in (self._kept, *self._waiting) if len(store.ids)] or [self._kept]
        ids, numbers, times, X = (list(some) for some in zip(*stores, strict=True))
        store = _Store(np.concatenate(ids), np.concatenate(numbers), np.concatenate(times), self.kind.join(X))
        if self._gone:
            store = store.take(~np.isin(store.ids, self._gone))
        self._waiting, self._n_waiting, self._gone = [], 0, []
        self._keep(store)

    def _keep(self, store: _Store) -> None:
        """Keep the latest rows and the sample of each table, out of rows that are in order."""
        places, priority = self._candidates(store)
        order = np.lexsort((priority, store.ids[places]))
        places, priority = places[order], priority[order]
        ids = store.ids[places]
        rank = _ranks(ids)
        worst = np.flatnonzero(rank == SAMPLES * self.size - 1)
        self._full, self._worst = ids[worst], priority[worst]
        stays = self._latest(store)
        stays[places[rank < SAMPLES * self.size]] = True
        self._kept = store.take(stays)

    def _might_stay(self, block: _Store) -> NDArray[np.bool_]:
        """Return which rows of a block, (n,), are the latest in it or may belong to a sample."""
        stays = self._latest(block)
        stays[self._candidates(block)[0]] = True
        return stays

    def _latest(self, store: _Store) -> NDArray[np.bool_]:
        """Return which rows (n,), which are in order, are the latest of their tables."""
        least = np.min(store.ids, initial=0)
        near = store.ids - least
        # NumPy sorts numbers of 16 bits in linear time.
        order = np.argsort((near.astype(np.uint16) if np.max(near, initial=0) < 2**16 else near)[::-1], kind="stable")
        stays = np.zeros(len(near), dtype=bool)
        stays[len(near) - 1 - order[_ranks(near[::-1][order]) < self.size]] = True
        return stays

    def _candidates(self, store: _Store) -> tuple[Int, NDArray[np.uint64]]:
        """Return the places of the rows that may be in a sample, and their priorities."""
        priority = priorities(store.numbers)
        if not len(self._full):
            return np.arange(len(priority)), priority
        at = np.minimum(np.searchsorted(self._full, store.ids), len(self._full) - 1)
        places = np.flatnonzero((priority <= self._worst[at]) | (self._full[at] != store.ids))
        return places, priority[places]


class _Store(NamedTuple):
    """Rows with the tables that they have."""

    ids: Int
    numbers: Int
    times: Float
    X: Any

    def take(self, at: NDArray[Any]) -> _Store:
        """Return some of the rows as a copy."""
        ids, numbers, times = (np.array(array[at]) for array in (self.ids, self.numbers, self.times))
        return _Store(ids, numbers, times, type_of(self.X).take(self.X, at))


def choose(family: Family, stats: Float, kept: Kept, columns: Int | None = None) -> Examples:
    """Return the examples of a table with stats (S,) or (1, S): the likeliest of its sample, and its latest rows.

    A row with missing cells has fewer terms in its log density, which cannot be compared. So rows with the fewest
    missing cells come first, then the likeliest, then the earliest.

    Of documents, the shortest would be the likeliest. So they are sorted by their log odds against a new table over √L,
    for L words. columns: (m,) the words in the sample, ascending; the family and the stats are over these words and one
    more for all others.

    >>> from dyncrp import Gaussian
    >>> family, X, kept = Gaussian(1.0, 100.0), np.array([[0.0], [3.0], [1.4], [1.5]]), Reservoir(1)
    >>> kept.add(0, X, np.arange(4.0), np.zeros(4, dtype=np.int64))
    >>> choose(family, family.statistics(X).sum(axis=0), kept.of(0))[0]
    Rows(X=array([[1.5]]), numbers=array([3]), times=array([3.]))
    """
    X, numbers, times = kept.sample
    own = np.reshape(stats, (1, -1))
    if isinstance(X, Counts):
        compact = Counts(X.indptr, np.searchsorted(columns, X.indices), X.data, own.shape[1] - 1)  # type: ignore[arg-type]
        likely = _odds_by_length(family, compact, np.vstack([own, np.zeros_like(own)]))
        order = np.argsort(-likely, kind="stable")[: kept.size]
    else:
        likely = family.log_predictive(X, own)[:, 0] if len(X) else np.zeros(0)
        order = np.lexsort((-likely, np.sum(np.isnan(X), axis=1)))[: kept.size]
    return Examples(Rows(X[order], numbers[order], times[order]), kept.latest)


def _odds_by_length(family: Family, X: Counts, tables: Float) -> Float:
    """Return the log odds of documents at the first of two tables against the second, over √L, (n,)."""
    found = np.zeros(len(X))
    step = max(1, CELLS // X.n_columns)
    for begin in range(0, len(X), step):
        rows = X[begin : begin + step].toarray()
        logs = family.log_predictive(rows, tables)
        found[begin : begin + step] = (logs[:, 0] - logs[:, 1]) / np.sqrt(np.maximum(np.sum(rows, axis=1), 1.0))
    return found


def priorities(numbers: Int) -> NDArray[np.uint64]:
    """Return splitmix64 of numbers (n,): distinct numbers that look random, the same at every call.

    >>> [int(number) for number in priorities(np.arange(2))]
    [16294208416658607535, 7960286522194355700]
    """
    with np.errstate(over="ignore"):  # arithmetic is modulo 2⁶⁴
        z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return found


def _ranks(ids: Int) -> Int:
    """Return the rank, from 0, of each id among those equal to it, which must be consecutive: (n,).

    >>> _ranks(np.array([4, 4, 4, 7, 7]))
    array([0, 1, 2, 0, 1])
    """
    begins = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
    return np.arange(len(ids)) - np.repeat(begins, np.diff(np.append(begins, len(ids))))

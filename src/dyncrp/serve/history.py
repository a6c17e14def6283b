"""What came to a stream over time, thinned: how many rows joined which table, the highest novelty, and alarms.

Time is cut into buckets. The last 15 minutes have buckets of 5 seconds, the last hour of 20 seconds, the last day of 8
minutes, the last week of 56 minutes, and everything has buckets whose width doubles whenever they become too many. So
memory is bounded however long a stream runs: some 1,000 buckets of at most 32 tables.

Times are those of the rows if they are dates, otherwise when the rows came by the clock of the server.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import Clock
from dyncrp.serve.segments import Segment

N_BUCKETS = 180  # of a span
SPANS = (900.0, 3_600.0, 86_400.0, 604_800.0)  # seconds
MOST_TABLES = 32  # of a bucket; others are counted together
OTHERS = -1
MOST_WAITING = 10_000  # rows
FIRST_WIDTH = 1.0  # seconds, of the buckets of everything


@dataclass
class Bucket:
    """The rows of a stretch of time. tables: how many rows joined each. novelty: the highest, −inf if none has any."""

    rows: int = 0
    alarms: int = 0
    novelty: float = -math.inf
    tables: dict[int, int] = field(default_factory=dict)

    def add(self, other: Bucket) -> None:
        """Add the rows of another bucket."""
        self.rows += other.rows
        self.alarms += other.alarms
        self.novelty = max(self.novelty, other.novelty)
        tables = self.tables
        for table, n in other.tables.items():
            key = table if table in tables or len(tables) < MOST_TABLES else OTHERS
            tables[key] = tables.get(key, 0) + n


def _count(tables: NDArray[np.int64], novelty: NDArray[np.float64], alarmed: NDArray[np.bool_]) -> Bucket:
    if len(tables) == 1:  # so that single rows cost little
        found = Bucket(1, int(alarmed[0]), tables={int(tables[0]): 1})
    else:
        ids, counts = np.unique(tables, return_counts=True)
        largest = np.argsort(-counts, kind="stable")
        found = Bucket(len(tables), int(np.count_nonzero(alarmed)))
        found.tables = dict(zip(ids[largest].tolist(), counts[largest].tolist(), strict=True))
    highest = float(np.fmax.reduce(novelty, initial=-math.inf))
    found.novelty = highest if highest < math.inf else -math.inf
    return found


class Level:
    """Buckets of one width. span: how many seconds to keep, inf to keep all and double the width instead."""

    def __init__(self, width: float, span: float) -> None:
        self.width, self.span = width, span
        self.buckets: deque[tuple[int, Bucket]] = deque()  # each with its number: it begins at number · width

    def make_room(self, begin: float, end: float) -> None:
        """Double the width, if everything is kept, until there are few enough buckets from a time, or the first, on."""
        while self.span == math.inf:
            first = self.buckets[0][0] if self.buckets else math.floor(begin / self.width)
            if math.floor(end / self.width) - first < 2 * N_BUCKETS:
                return
            self._double()

    def bucket(self, number: int) -> Bucket:
        """Return a bucket, which is the last one or comes after it."""
        buckets = self.buckets
        if not buckets or buckets[-1][0] < number:
            buckets.append((number, Bucket()))
            while buckets[0][0] < number - self.span / self.width:
                buckets.popleft()
        return buckets[-1][1]

    def _double(self) -> None:
        self.width *= 2.0
        joined: deque[tuple[int, Bucket]] = deque()
        for number, bucket in self.buckets:
            if joined and joined[-1][0] == number // 2:
                joined[-1][1].add(bucket)
            else:
                joined.append((number // 2, bucket))
        self.buckets = joined

    def reaches(self, begin: float) -> bool:
        """Return whether nothing since a time has been forgotten."""
        return bool(self.buckets) and self.buckets[-1][0] * self.width - begin <= self.span


class History:
    """The history of one stream. alarm_rate: the p from which a row is an alarm. clock: gives seconds since 1970.
    steady: gives seconds since any time, and is never set.

    >>> history = History(0.01, "dates")
    >>> p = np.array([0.5, 0.5, 0.001])
    >>> history.add(Segment(0, np.array([0.0, 1.0, 60.0]), np.array([0, 0, 1]), np.array([1.0, 2.0, 9.0]), p, "dates"))
    >>> told = history.tell()
    >>> told["begins"], told["rows"], told["alarms"], told["novelty"], told["tables"]
    ([0.0, 1.0, 60.0], [1, 1, 1], [0, 0, 1], [1.0, 2.0, 9.0], {0: [[0, 1], [1, 1]], 1: [[2, 1]]})
    >>> history.tell(begin=0.0, end=10.0)["rows"], history.tell(begin=0.0, end=10.0)["width"]
    ([2], 5.0)
    """

    def __init__(
        self,
        alarm_rate: float | None,
        kind: str,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dated, self._rate, self._clock, self._steady = kind == Clock.DATES, alarm_rate, clock, steady
        self.levels = [Level(span / N_BUCKETS, span) for span in SPANS] + [Level(FIRST_WIDTH, math.inf)]
        self.latest = -math.inf
        self._since = 0.0  # when that was, by a clock that nobody sets
        self._waiting: list[tuple[float, Segment]] = []
        self._n_waiting = 0

    def now(self) -> float:
        """Return the time at which the history ends: that of the last row, or of the server's clock.

        If the clock is set back, time goes on from where it was, until the clock gets there.
        """
        if self.dated:
            return self.latest
        now = self._clock()
        return now if now >= self.latest else self.latest + (self._steady() - self._since)

    def add(self, segment: Segment, earlier: Iterable[tuple[float, int]] = ()) -> None:
        """Add the results of rows. They wait until there are many or somebody looks, so that learning waits little.

        earlier: of rows without dates that did not come just now, when they came and how many, in order. They are the
        first ones of the segment.
        """
        for came, n in () if self.dated else earlier:
            first, segment = segment.part(n)
            self.latest = max(self.latest, came)
            self._waiting.append((self.latest, first))
            self._n_waiting += n
        if len(segment):
            self._waiting.append((self.now(), segment))
            self._n_waiting += len(segment)
            self.latest = max(self.latest, float(segment.times[-1]) if self.dated else self._waiting[-1][0])
            self._since = self._steady()
            if self._n_waiting >= MOST_WAITING or len(self._waiting) >= MOST_WAITING // 10:
                self._sort_in()

    def _sort_in(self) -> None:
        """Put the rows that wait into buckets."""
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        if not waiting:
            return
        segments = [segment for _, segment in waiting]
        if self.dated:
            times = np.concatenate([segment.times for segment in segments])
        else:
            times = np.repeat([came for came, _ in waiting], [len(segment) for segment in segments])
        tables, novelty, p = (
            np.concatenate([getattr(segment, name) for segment in segments]) for name in ("tables", "novelty", "p")
        )
        alarmed = p <= (-1.0 if self._rate is None else self._rate)
        for level in self.levels:
            level.make_room(float(times[0]), float(times[-1]))
            oldest = -math.inf if level.span == math.inf else level.width * ((times[-1] - level.span) // level.width)
            since = int(np.searchsorted(times, oldest))
            numbers = np.floor(times[since:] / level.width).astype(np.int64)
            cuts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
            for begin, end in zip(cuts.tolist(), [*cuts[1:].tolist(), len(numbers)], strict=True):
                some = slice(since + begin, since + end)
                level.bucket(int(numbers[begin])).add(_count(tables[some], novelty[some], alarmed[some]))

    def tell(self, begin: float = -math.inf, end: float = math.inf) -> dict[str, Any]:
        """Return the buckets from a time to another, in the finest width that is kept of all of them.

        begins: (n,) seconds since 1970. tables: for each, pairs of the index of a bucket and the rows in it.
        """
        self._sort_in()
        levels = (level for level in self.levels if level.reaches(begin))
        level = next(levels, self.levels[-1])
        width = level.width
        found = [(n, one) for n, one in level.buckets if (n + 1) * width > begin and n * width < end]
        tables: dict[int, list[list[int]]] = {}
        for at, (_, bucket) in enumerate(found):
            for table, n in bucket.tables.items():
                tables.setdefault(table, []).append([at, n])
        return {
            "dated": self.dated,
            "width": width,
            "now": None if self.latest == -math.inf else self.now(),
            "begins": [n * width for n, _ in found],
            "rows": [bucket.rows for _, bucket in found],
            "alarms": [bucket.alarms for _, bucket in found],
            "novelty": [bucket.novelty if bucket.novelty > -math.inf else None for _, bucket in found],
            "tables": tables,
        }

"""Surges: clusters that come more often than they did, grow, or fade, at a rate of false events that is chosen.

Rows are counted in windows of 512, 4,096 and 32,768 rows, which end at fixed row numbers. In each, the count of a
cluster is compared with its own past, see ``dyncrp.stream.counts``:

* surge: the count of the latest window is surprisingly high, and the one before was not;
* growing: the counts of three windows are all high; the least of their three surprises counts;
* fading: the counts of three windows are all low, likewise.

What is surprising is found by ranks, as for alarms: the surprise of a cluster in a window has the p-value that the
sketch of the past surprises of all clusters gives it, see ``dyncrp.stream.novelty``. There is a sketch for each kind
and length of window. An event has p ≤ a, such that rate/3 of the rows bring an event of the kind: if lately c_j
clusters were looked at in a window of L_j rows, a Σ_j c_j/L_j = rate/3. (For runs of three windows, a third of them.)
This holds whatever the distribution of counts is, as long as it does not change.

Longer windows see again what shorter ones have told. A cluster is not looked at in a window, nor enters its sketch, if
the same was told of it in a shorter one since then; nor for a surge, if it was told to grow.

Real time does not matter: a cluster grows if a larger share of the rows is its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.engine import schema
from dyncrp.engine.types import Arrays, Float, Int
from dyncrp.stream.counts import EXPOSURES, NOT_SEEN, RUN, Past, Seen, count_rows, follow
from dyncrp.stream.novelty import NoveltySketch

BASE, STEP, N_LENGTHS = 512, 8, 3
LENGTHS = tuple(BASE * STEP**j for j in range(N_LENGTHS))  # rows
HIGHEST_LEVEL, SMALLEST = 0.5, 1e-300
MOST_WAITING = 65_536  # rows that wait until they are counted
MOST_TOLD = 65_536  # events that are remembered
SURGE, GROWING, FADING = range(3)
KINDS = ("surge", "growing", "fading")
OFTEN = np.array([1, RUN, RUN])  # a kind is looked at in one of so many windows
SPANS = np.array([1, RUN + 1, RUN + 1])  # windows in which shorter ones may have told the same
NEVER, LATEST = -1, 1 << 62  # a row before all others, and one after them
MIX = (0.6180339887498949, 0.41421356237309515, 0.7320508075688772)  # their multiples are spread evenly
PER_TABLE = ("sums", "windows", "errors", "recent")  # of a past


@dataclass(frozen=True, slots=True)
class Surge:
    """An event: its kind, the row that ended the window, the oldest table of the cluster, and details.

    length: of the window, in rows. count, expected: how many rows of the cluster it had, and should have had. p: how
    likely a past window was as surprising.
    """

    kind: str
    row: int
    table: int
    length: int
    count: int
    expected: float
    p: float


class Surges:
    """Counts the rows of clusters, and finds those that surge, grow or fade; see the module for the definition.

    The result does not depend on how the rows are divided into calls.

    Parameters
    ----------
    rate : float
        The share of rows that may bring an event while nothing changes.
    since : int, default=0
        The number of the first row that is counted.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(10, size=40_000)
    >>> labels[30_000:30_300] = 4
    >>> surges = Surges(0.0001)
    >>> surges.add(labels)
    >>> surges.told(30_000, 30_500)
    [Surge(kind='surge', row=30207, table=4, length=512, count=245, expected=53.4..., p=...)]
    """

    def __init__(self, rate: float, since: int = 0) -> None:
        self.rate = rate
        self._n = self._since = since  # rows counted so far; windows that began before ``since`` do not count
        self._waiting: list[_Part] = []
        self._ones: list[int] = []  # labels that came one by one
        self._end = since  # the row after the last one that came
        self._ids: Int = np.zeros(0, dtype=np.int64)  # increasing
        self._opened: Int = np.zeros(0, dtype=np.int64)  # the first row of each table
        self._open: Int = np.zeros((N_LENGTHS, 0), dtype=np.int64)  # rows in the windows that have not ended
        self._last: Int = np.zeros((3, N_LENGTHS, 0), dtype=np.int64)  # the row of the last event of each kind
        self._looked: Int = np.zeros((3, N_LENGTHS, 2), dtype=np.int64)  # how many clusters in how many windows, lately
        self._cells: Float = np.zeros((3, N_LENGTHS))  # how many clusters in a window, before that
        self._pasts = [Past.none(0) for _ in LENGTHS]
        self._sketches = [[NoveltySketch() for _ in KINDS] for _ in LENGTHS]
        self._cluster_of: Mapping[int, int] = {}
        self._together: Int = np.zeros(0, dtype=np.int64)  # tables that share their cluster with others
        self._groups: list[tuple[int, Mapping[int, int]]] = []  # clusters of later, and from which row on
        self._told: list[Surge] = []

    # Rows

    def add(self, labels: Int, closed: ArrayLike = (), closed_rows: ArrayLike = ()) -> None:
        """Add the labels of the next rows, (n,). They are counted later.

        closed: the tables that closed meanwhile. closed_rows: the rows of this call when they did, from 0.
        """
        if self._ones:
            self._waiting.append(_Part(self._end - len(self._ones), np.array(self._ones, dtype=np.int64)))
            self._ones = []
        if not len(labels):
            return
        ids, rows = np.asarray(closed, dtype=np.int64), np.asarray(closed_rows, dtype=np.int64)
        self._waiting.append(_Part(self._end, np.array(labels, dtype=np.int64), ids, self._end + rows))
        self._end += len(labels)
        if self._end - self._n >= MOST_WAITING:
            self._read(whole=False)

    def add_one(self, label: int) -> bool:
        """Add the label of one row; return whether ``settle`` must be called now, as a window ends."""
        self._ones.append(label)
        self._end += 1
        return self._end % BASE == 0

    def settle(self, ids: Int) -> None:
        """Note which tables are open now, if rows came one by one; all others have closed."""
        if self._ones:
            labels = np.array(self._ones, dtype=np.int64)
            self._waiting.append(_Part(self._end - len(labels), labels, open_now=np.array(ids, dtype=np.int64)))
            self._ones = []
        if self._end - self._n >= MOST_WAITING:
            self._read(whole=False)

    def skip_to(self, row: int) -> None:
        """Note that rows came whose labels are unknown, up to ``row``. Windows that have some of them do not count."""
        if row > self._end:
            self.read()
            self._n = self._end = self._since = row
            self._open[:] = 0

    def told(self, begin: int, end: int) -> list[Surge]:
        """Return the events of rows from ``begin`` to ``end``, exclusive, in order."""
        self.read()
        first = bisect_left(self._told, begin, key=_row)
        return self._told[first : bisect_left(self._told, end, key=_row)]

    # Tables

    def group(self, cluster_of: Mapping[int, int], row: int) -> None:
        """Look at clusters from a row on: those of tables by id. A table without one is a cluster of its own.

        Rows before it may still be added.
        """
        self._groups.append((row, cluster_of))

    def merge(self, kept: int, gone: int) -> None:
        """Count table ``gone`` as ``kept`` from now on, and its past as well."""
        self.read()
        at = np.searchsorted(self._ids, [kept, gone])
        if not np.array_equal(self._ids[np.minimum(at, len(self._ids) - 1)] if len(self._ids) else [], [kept, gone]):
            self._ids[self._ids == gone] = kept  # at most one of them has come
            self._keep(np.argsort(self._ids))
            return
        one, other = at.tolist()
        self._opened[one] = min(self._opened[one], self._opened[other])
        self._open[:, one] += self._open[:, other]
        for past in self._pasts:
            past.sums[one] += past.sums[other]
            past.windows[one] = max(past.windows[one], past.windows[other])
        self._keep(np.flatnonzero(self._ids != gone))

    def forget(self, table: int) -> None:
        """Forget the past of a table from which rows were moved."""
        self.read()
        self._keep(np.flatnonzero(self._ids != table))

    def _keep(self, at: Int) -> None:
        """Keep the tables at these places, in this order."""
        self._ids, self._opened, self._open = self._ids[at], self._opened[at], self._open[:, at]
        self._last = self._last[:, :, at]
        for past in self._pasts:
            for name in PER_TABLE:
                setattr(past, name, getattr(past, name)[..., at])

    def _add_tables(self, ids: Int, rows: Int) -> None:
        """Add tables that came first in these rows."""
        K = len(ids)
        self._ids, self._opened = np.append(self._ids, ids), np.append(self._opened, rows)
        self._open = np.concatenate([self._open, np.zeros((N_LENGTHS, K), dtype=np.int64)], axis=1)
        self._last = np.concatenate([self._last, np.full((3, N_LENGTHS, K), NEVER)], axis=2)
        new = Past.none(K)
        for past in self._pasts:
            for name in PER_TABLE:
                setattr(past, name, np.concatenate([getattr(past, name), getattr(new, name)], axis=-1))
        if np.any(np.diff(self._ids) < 0):
            self._keep(np.argsort(self._ids))

    # Windows

    def read(self) -> None:
        """Count all rows so far."""
        self.add(np.zeros(0, dtype=np.int64))
        self._read(whole=True)

    def _read(self, *, whole: bool) -> None:
        """Count the rows that wait. whole: all of them; otherwise only as far as the levels change, which is faster."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        labels = np.concatenate([part.labels for part in waiting])
        closed = np.concatenate([part.closed for part in waiting])
        rows = np.concatenate([part.closed_rows for part in waiting])
        open_now = [(part.end - 1, part.open_now) for part in waiting if part.open_now is not None]
        while len(labels):
            while self._groups and self._groups[0][0] <= self._n:
                self._set_clusters(self._groups.pop(0)[1])
            n = min(_unit(self._n) - self._n % _unit(self._n), self._until_closing(closed, rows, open_now))
            if self._groups:
                n = min(n, self._groups[0][0] - self._n)
            if n > len(labels) and not whole:
                self._waiting = [part.rest(self._n) for part in waiting if part.end > self._n]
                break
            end = self._n + min(n, len(labels))
            here = (rows >= self._n) & (rows < end)
            seen = [(row, ids) for row, ids in open_now if self._n <= row < end]
            self._count(labels[:n], closed[here], rows[here], seen)
            labels = labels[n:]
        del self._told[:-MOST_TOLD]

    def _set_clusters(self, cluster_of: Mapping[int, int]) -> None:
        tables, clusters = (np.array([*ids], dtype=np.int64) for ids in (cluster_of, cluster_of.values()))
        _, which, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
        self._cluster_of, self._together = cluster_of, tables[sizes[which] > 1]

    def _until_closing(self, closed: Int, closed_rows: Int, open_now: list[tuple[int, Int]]) -> int:
        """Return after how many rows to stop: where the window begins or ends in which a cluster next loses a table.

        Then what is known of the cluster is handed on before that window is looked at, however rows are divided.
        """
        row = LATEST
        if len(closed):
            row = int(np.min(closed_rows[np.isin(closed, self._together) & (closed_rows >= self._n)], initial=LATEST))
        if open_now:
            there = self._ids[np.isin(self._ids, self._together)]
            for end, ids in open_now:
                if self._n <= end < row and not np.all(np.isin(there, ids)):
                    row = end
        begin = row // BASE * BASE
        return (begin if begin > self._n else begin + BASE) - self._n

    def _count(self, labels: Int, closed: Int, closed_rows: Int, open_now: list[tuple[int, Int]]) -> None:
        """Count rows, and look at the windows that they end."""
        first, end = self._n, self._n + len(labels)
        counts = count_rows(labels, self._ids, first % BASE, BASE)
        if counts is None:
            unknown = np.flatnonzero((labels >= 0) & ~np.isin(labels, self._ids))  # a row of weight 0 may have no table
            ids, firsts = np.unique(labels[unknown], return_index=True)
            self._add_tables(ids, first + unknown[firsts])
            counts = count_rows(labels, self._ids, first % BASE, BASE)
            assert counts is not None
        K = len(self._ids)
        if not K:
            self._n = end
            return
        closes = np.full(K, end + 1)
        if len(closed):
            at = np.minimum(np.searchsorted(self._ids, closed), K - 1)
            known = self._ids[at] == closed
            closes[at[known]] = closed_rows[known]
        for row, ids in open_now:
            closes[~np.isin(self._ids, ids) & (closes > end) & (self._opened <= row)] = row
        edges = np.append(np.arange(first // BASE * BASE, end, BASE), end)  # where windows begin
        edges[0] = first
        self._n = end
        if len(counts) == 1 and np.any(closes <= end):
            stays = np.flatnonzero(closes > end)
            self._hand_on(stays)
            self._keep(stays)
            counts, closes = counts[:, stays], closes[stays]
        news: list[_Found] = []
        clusters = self._clusters()
        for j in range(N_LENGTHS):
            self._look(j, counts, edges, closes, clusters, news)
        for row, j, kind, place, numbers in sorted(news, key=_row):
            self._last[kind, j, place] = row
            self._told.append(Surge(KINDS[kind], row, int(self._ids[place]), LENGTHS[j], *numbers))
        if end % _unit(first) == 0:
            some = self._looked[:, :, 1] > 0
            self._cells[some] = self._looked[some, 0] / self._looked[some, 1]
            self._looked[:] = 0
        if np.any(closes <= end):
            self._keep(np.flatnonzero(closes > end))

    def _hand_on(self, stays: Int) -> None:
        """Let what is known of clusters whose oldest tables close be known of the next oldest, of those that stay."""
        lead, heads = self._clusters()
        if lead is None:
            return
        found, first = np.unique(lead[stays], return_index=True)
        olds, news = heads[found], stays[first]
        self._last[:, :, news] = self._last[:, :, olds]
        for past in self._pasts:
            past.errors[:, :, news], past.recent[:, :, news] = past.errors[:, :, olds], past.recent[:, :, olds]

    def _look(
        self, j: int, counts: Int, edges: Int, closes: Int, clusters: tuple[Int | None, Int], news: list[_Found]
    ) -> None:
        """Look at the windows of one length that end among these, and add what is found to ``news``.

        counts: rows of tables in windows of 512 rows. edges: where these begin, and where the last ends. clusters: see
        ``_clusters``.
        """
        length, n_opened = LENGTHS[j], self._open[j]
        ends = np.arange(edges[0] // length + 1, edges[-1] // length + 1) * length
        if not len(ends):
            self._open[j] = n_opened + counts.sum(axis=0)
            return
        at = np.searchsorted(edges, ends)
        sums = np.add.reduceat(counts, np.append(0, at[at < len(counts)]), axis=0)
        sums[0] += n_opened
        self._open[j] = sums[len(ends)] if len(sums) > len(ends) else 0
        begins = ends - length
        whole = begins >= self._since
        sums, begins, ends = sums[: len(ends)][whole], begins[whole], ends[whole]
        if not len(ends):
            return
        full = (self._opened < begins[:, None]) & (closes >= ends[:, None])
        lead, heads = clusters
        past, ids = self._pasts[j], self._ids[heads]
        shift = (MIX[0] * ids + MIX[1] * (ends // length)[:, None] + MIX[2] * j) % 1.0
        if lead is not None:
            past = Past(past.sums, past.windows, past.errors[:, :, heads], past.recent[:, :, heads])
        ends_run = ends // length % RUN == 0
        seen = follow(past, sums.astype(np.float64), full, ends_run, shift, lead)
        if lead is not None:
            kept = self._pasts[j]
            kept.sums, kept.windows = past.sums, past.windows
            kept.errors[:, :, heads], kept.recent[:, :, heads] = past.errors, past.recent
        news += self._rank(j, seen, heads, ends, int(ends_run.sum()), news)

    def _rank(self, j: int, seen: Seen, heads: Int, ends: Int, n_runs: int, news: list[_Found]) -> list[_Found]:
        """Return the events in windows of one length, except where shorter ones have told them. n_runs: that end."""
        looked, rows = seen.looked, ends - 1
        if j:
            begins = rows - LENGTHS[j] * SPANS[:, None]
            last = self._last[:, :j, heads].max(axis=1)
            np.maximum(last[SURGE], last[GROWING], out=last[SURGE])
            looked &= last[:, None] <= begins[:, :, None]
            for one in news:  # all are of shorter windows
                for kind in (SURGE, GROWING) if one.kind == GROWING else (one.kind,):
                    looked[kind, (begins[kind] < one.row) & (one.row <= rows), heads == one.place] = False
        n_looked = looked.sum(axis=2)
        totals = n_looked.sum(axis=1)
        self._looked[:, j, 0] += totals
        self._looked[:, j, 1] += (len(ends), n_runs, n_runs)
        found = list[_Found]()
        if not totals.any():
            return found
        of_kinds = self._levels(j, n_looked)
        # Times three, so that their tail falls by the factor e in a nat, as the sketch expects.
        for kind, scores, times in zip(range(3), (seen.surprises[0], *seen.runs), (1, RUN, RUN), strict=True):
            if not totals[kind]:
                continue
            levels = np.repeat(of_kinds[kind], n_looked[kind])
            p = self._sketches[j][kind].add_with_p(times * scores[looked[kind]], float(levels.max()))
            few = np.flatnonzero(p <= levels)
            if len(few):
                found += [
                    _Found(
                        int(rows[i]), j, kind, int(heads[c]), (int(seen.counts[i, c]), float(seen.expected[i, c]), one)
                    )
                    for (i, c), one in zip(np.argwhere(looked[kind])[few].tolist(), p[few].tolist(), strict=True)
                ]
        return found

    def _levels(self, j: int, n_looked: Int) -> Float:
        """Return the p of events (3, w) in windows of a length in which so many clusters are looked at, (3, w).

        Windows of other lengths are taken to look at as many clusters as they did before.
        """
        others = [self._cells[:, i] / LENGTHS[i] for i in range(N_LENGTHS) if i != j]
        often = sum(others, start=np.zeros(3))[:, None] + n_looked / LENGTHS[j]
        return np.minimum((OFTEN * self.rate / 3.0)[:, None] / np.maximum(often, SMALLEST), HIGHEST_LEVEL)

    def _clusters(self) -> tuple[Int | None, Int]:
        """Return the cluster of each table, 0 to C − 1, None if each is its own, and the place of its oldest table."""
        K, cluster_of = len(self._ids), self._cluster_of
        if not len(self._together):
            return None, np.arange(K)
        keys = [(0, cluster_of[table]) if table in cluster_of else (1, table) for table in self._ids.tolist()]
        first: dict[tuple[int, int], int] = {}
        lead = np.array([first.setdefault(key, len(first)) for key in keys], dtype=np.int64)
        return lead, np.unique(lead, return_index=True)[1]

    # Files

    def arrays(self, ids: Int) -> Arrays:
        """Return the arrays of a file, from which this continues to the bit. ids: the tables that are open."""
        self.settle(ids)
        self.read()
        sketches = [sketch.arrays() for of_length in self._sketches for sketch in of_length]
        counts, *parts = ([sketch[name] for sketch in sketches] for name in schema.NOVELTY)
        sizes = [[*n, *map(len, three)] for n, *three in zip(counts, *parts[1:], strict=True)]
        each = (np.stack([getattr(past, name) for past in self._pasts]) for name in PER_TABLE)
        found = (
            np.array([self._n, self._since]),
            *(self._ids, self._opened, self._open, *each, self._last, self._looked, self._cells),
            np.array(sizes, dtype=np.int64),
            *map(np.concatenate, parts),
        )
        return {name: np.array(array) for name, array in zip(schema.SURGES, found, strict=True)}

    @classmethod
    def restore(cls, rate: float, arrays: Mapping[str, NDArray[Any]], n_rows: int) -> Surges:
        """Return what ``arrays`` of a stream of so many rows described; raise ``ValueError`` if they are invalid."""
        found = schema.check(arrays, schema.SURGES)
        rows, ids, opened, counts, *pasts, last, looked, cells, sizes, values, weights, high, low = found.values()
        n, since = rows.tolist()
        if not since <= n <= n_rows:
            raise ValueError(f"it counted surges in rows {since} to {n} of {n_rows}")
        sums, windows, errors, recent = pasts
        if any(array.size and array.min() < 0.0 for array in (sums, errors, cells)):
            raise ValueError("its counts of surges must not be negative")
        late = max((int(array.max()) for array in (opened, last) if array.size), default=0) >= max(n, 1)
        if late or windows.max(initial=0) >= len(EXPOSURES) or recent.min(initial=0.0) < NOT_SEEN:
            raise ValueError("its counts of surges are not those of its rows")
        surges = cls(rate, since)
        surges._n = surges._end = n
        surges._ids, surges._opened, surges._open, surges._last = ids.copy(), opened.copy(), counts.copy(), last.copy()
        surges._looked, surges._cells = looked.copy(), cells.copy()
        surges._pasts = [Past(*(array.copy() for array in one)) for one in zip(*pasts, strict=True)]
        ends = np.cumsum(sizes[:, 2:], axis=0)
        if not np.array_equal(ends[-1], [len(values), len(high), len(low)]):
            raise ValueError("its sketches of past surprises have other sizes than it says")
        for k, (size, end) in enumerate(zip(sizes, ends, strict=True)):
            bins, top, rest = (slice(stop - length, stop) for stop, length in zip(end, size[2:], strict=True))
            parts = size[:2], values[bins], weights[bins], high[top], low[rest]
            surges._sketches[k // 3][k % 3] = NoveltySketch.restore(dict(zip(schema.NOVELTY, parts, strict=True)))
        return surges


class _Found(NamedTuple):
    """An event: its row, the index of the length of the window, the kind, the place of the table, and its numbers."""

    row: int
    j: int
    kind: int
    place: int
    numbers: tuple[int, float, float]


class _Part(NamedTuple):
    """Rows that wait: the number of the first, their labels, and which tables closed when, or are open after them."""

    first: int
    labels: Int
    closed: Int = np.zeros(0, dtype=np.int64)
    closed_rows: Int = np.zeros(0, dtype=np.int64)
    open_now: Int | None = None

    @property
    def end(self) -> int:
        """The row after the last."""
        return self.first + len(self.labels)

    def rest(self, row: int) -> _Part:
        """Return the part from a row on."""
        k, late = max(row - self.first, 0), self.closed_rows >= row
        return _Part(self.first + k, self.labels[k:], self.closed[late], self.closed_rows[late], self.open_now)


def _unit(row: int) -> int:
    """Return after how many rows the levels change, around this row."""
    return min(max(1 << row.bit_length(), LENGTHS[1]), MOST_WAITING)


def _row(event: Surge | _Found) -> int:
    return event.row

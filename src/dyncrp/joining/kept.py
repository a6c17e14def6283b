"""KeptClusters: clusters that a stream keeps by itself, joined anew as rows come.

When. After 16 rows, and after an eighth more each time, up to 65,536 more, one looks whether a table has opened or
closed since the last look, or twice as many rows have come since that last happened. These moments depend on the
rows alone, not on how they are divided into calls.

What. Only then are tables joined, by evidence (``components.py``): by likelihood until the evidence is clearly against
any more, or under the prior that was best last time. Among the first rows, the best prior is chosen again where there
are twice as many rows as at the last look. These ellipses are the clusters, unless there are curves or a cloud. Whether
there are, ``join`` finds out, which looks at everything, also for the best prior: at twice the rows of last time if it
can be paid for, and among the first rows at eight times if tables or ellipses have changed. If there are, the clusters
of ``join`` stay until ellipses of last time have joined or parted; meanwhile a new table joins the cluster of its
ellipse.

What it costs. The price of joining K tables is counted in rows that could be learned in the meantime. Beyond a fixed
sum for the first rows, a tenth of the rows may be spent. What cannot be paid for waits, at most until there are twice
as many rows as last time if tables or ellipses have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from dyncrp.engine.schema import KEPT, check
from dyncrp.engine.types import Arrays, Engine, Int, Model, State, WordEngine
from dyncrp.families import protocols
from dyncrp.joining.clusters import join
from dyncrp.joining.components import CANDIDATES, PRIORS, Join, join_by_likelihood, join_under_best
from dyncrp.joining.linkage import Merge, apply

FIRST_LOOK, LOOKS, MOST_ROWS_APART = 16, 8, 65_536  # a look comes after 1/8 more rows, up to so many
TWICE, MUCH_LATER = 2, 8  # as many rows as last time
SLACK = 100.0  # nats by which the evidence against any more joins must be clear
SHARE = 10  # one row in so many may be spent
FIRST_ROWS = 65_536
ALLOWANCE = 50_000  # rows that may be spent in addition
LOOK_PRICE, JOIN_PRICE = (2_000, 60), (5_000, 1_500)  # in rows: for any number of tables, and for each
# Of tables that are joined, and of numbers in their statistics; with more, clusters stay as they are.
MOST_TABLES, MOST_CELLS = 2_000, 1 << 24
# Numbers of pairs of tables that a look may compare: some microseconds each where rows are categories.
COMPARED_FIRST, COMPARED_PER_ROW = 1 << 22, 1 << 14
MOST_CLOSED = 5_000  # closed tables whose clusters are known


class Move(NamedTuple):
    """Tables that were in cluster ``before`` and are in cluster ``after`` now."""

    before: int
    after: int
    tables: tuple[int, ...]

    @property
    def parted(self) -> bool:
        """Whether they have become a cluster, which goes by the oldest of them; otherwise they have joined another."""
        return self.after in self.tables

    @property
    def what(self) -> dict[str, Any]:
        """The details of the event."""
        return {"before": self.before, "tables": list(self.tables)}


class Joining(NamedTuple):
    """Clusters (K,) of tables (K,) from a row on, and what moved. A table that is not listed is its own cluster."""

    row: int
    tables: Int
    clusters: Int
    moves: tuple[Move, ...]

    def of(self, tables: Int) -> Int:
        """Return the clusters of tables.

        >>> Joining(9, np.array([0, 3]), np.array([0, 0]), ()).of(np.array([0, 3, 4, -1]))
        array([ 0,  0,  4, -1])
        """
        if not len(self.tables):
            return tables
        places = np.minimum(np.searchsorted(self.tables, tables), len(self.tables) - 1)
        return np.where(self.tables[places] == tables, self.clusters[places], tables)


NOTHING = np.zeros(0, dtype=np.int64)


class KeptClusters:
    """The clusters of the tables of one stream, as known after its latest row.

    latest: the clusters. due: after how many rows to look next.
    """

    def __init__(self) -> None:
        self.latest = Joining(-1, NOTHING, NOTHING, ())
        self.due = FIRST_LOOK
        self._ellipses = NOTHING  # of the tables of ``latest``
        self._n_opened = 0  # tables, at the last look
        self._changed = self._looked = self._joined = 0  # rows when tables last changed, at the last look and ``join``
        self._spent = self._prior = 0
        self._elliptical = True  # whether the ellipses are the clusters
        self._past: dict[int, int] = {}  # closed tables, and a table that was in the same cluster

    def __len__(self) -> int:
        return len(np.unique(self.latest.clusters))

    def resolve(self, tables: Iterable[int]) -> Int:
        """Return the present clusters of tables, also of those that have closed not long ago."""
        ids, which = np.unique(np.asarray(tables, dtype=np.int64), return_inverse=True)
        return self.latest.of(np.array([self._heir(table) for table in ids.tolist()], dtype=np.int64))[which]

    def _heir(self, table: int) -> int:
        """Return an open table that was in the cluster of a closed one, or the cluster itself."""
        for _ in range(len(self._past)):  # a chain is no longer than this, whatever a file says
            if table not in self._past:
                break
            table = self._past[table]
        return table

    def look(self, engine: Engine, *, edited: bool = False) -> Joining | None:
        """Join tables anew if that is due; return the clusters if any changed. edited: whether tables were edited."""
        n, K, now = engine.n_observations, engine.n_tables, self.latest
        if not edited:
            self.due = n + min(max(n // LOOKS, 1), MOST_ROWS_APART)
        same = (engine.n_opened, K) == (self._n_opened, len(now.tables)) and not edited
        if same and n - self._changed < TWICE * (self._looked - self._changed):
            return None
        words = cast(WordEngine, engine).word_totals().columns if engine.model.family.sparse else None
        size = engine.model.family.n_statistics(engine.n_features) if words is None else 1 + len(words)
        if K > MOST_TABLES or K * size > MOST_CELLS:
            return None
        if K * min(K, CANDIDATES) * size > COMPARED_FIRST + COMPARED_PER_ROW * n:
            return None
        if not edited and n < TWICE * self._looked and not self._can_pay(LOOK_PRICE, K, n):
            return None
        self._pay(LOOK_PRICE, K)
        chooses = TWICE * self._looked <= n <= FIRST_ROWS
        self._looked, self._n_opened = n, engine.n_opened
        if not same:
            self._changed = n
        state = engine.state if words is None else _of_words(engine, words)
        before = now.of(state.ids)
        found = self._join(engine.model, state, before, n, edited=edited, chooses=chooses) if K else (NOTHING, NOTHING)
        clusters, self._ellipses = found
        return self._take(n - 1, state.ids.copy(), before, clusters)

    def _join(self, model: Model, state: State, before: Int, n: int, *, edited: bool, chooses: bool) -> tuple[Int, Int]:
        """Return clusters and ellipses (K,) by the ids of their oldest tables.

        before: the clusters so far. chooses: whether to choose the prior anew.
        """
        ids, joins = state.ids, None
        rows = protocols.scatter(model.family, state.stats, state.squares)
        if rows is None:
            shapes = protocols.shapes(model.family, state.stats, state.squares).with_memory(model.memory)
            found = _best(ids, join_by_likelihood(model.family, state.stats, shapes, SLACK))
            if not model.cloud:
                return found, found
        else:
            joins, self._prior = join_under_best(rows, range(len(PRIORS)) if chooses else [self._prior], SLACK)
            found = _best(ids, joins)
        known = Joining(0, self.latest.tables, self._ellipses, ()).of(ids)
        old = np.isin(ids, self.latest.tables)
        differs = not np.array_equal(_oldest(ids[old], found[old]), _oldest(ids[old], known[old]))
        changed = differs and not self._elliptical
        twice, can_pay = n >= TWICE * self._joined, self._can_pay(JOIN_PRICE, len(ids), n)
        early = MUCH_LATER * self._joined <= n <= FIRST_ROWS and (differs or self._changed > self._joined)
        if edited or early or (twice and can_pay) or (changed and (twice or can_pay)):
            self._pay(JOIN_PRICE, len(ids))
            self._joined = n
            if rows is not None and not chooses:
                joins, self._prior = join_under_best(rows, slack=SLACK)
                found = _best(ids, joins)
            made = join(model, state, joins=joins)
            self._elliptical = made.shape == "elliptical"
            return made.cluster_of, found
        if self._elliptical:
            return found, found
        if changed:  # it waits
            return _oldest(ids, before), _oldest(ids, known)
        return _oldest(ids, _extended(before, found, old)), found

    def _take(self, row: int, ids: Int, before: Int, clusters: Int) -> Joining | None:
        """Make these the clusters of tables, given those before; return them if any are others."""
        self._remember_closed(ids)
        groups: dict[tuple[int, int], list[int]] = {}
        for i in np.flatnonzero(before != clusters).tolist():
            groups.setdefault((int(before[i]), int(clusters[i])), []).append(int(ids[i]))
        moves = tuple(Move(*pair, tuple(tables)) for pair, tables in sorted(groups.items()))
        self.latest = Joining(row, ids, clusters, moves)
        return self.latest if moves else None

    def _remember_closed(self, ids: Int) -> None:
        """Note, for each table that has closed, another one of its cluster that is open, or the id of the cluster."""
        now = self.latest
        is_open = np.isin(now.tables, ids)
        if np.all(is_open):
            return
        heirs: dict[int, int] = {}
        for table, cluster in zip(now.tables[is_open].tolist(), now.clusters[is_open].tolist(), strict=True):
            heirs.setdefault(cluster, table)
        for table, cluster in zip(now.tables[~is_open].tolist(), now.clusters[~is_open].tolist(), strict=True):
            heir = heirs.get(cluster, cluster)
            if heir != table:
                self._past[table] = heir
        for table in sorted(self._past)[:-MOST_CLOSED]:
            del self._past[table]

    def _can_pay(self, price: tuple[int, int], K: int, n: int) -> bool:
        return self._spent + price[0] + price[1] * K <= ALLOWANCE + n // SHARE

    def _pay(self, price: tuple[int, int], K: int) -> None:
        self._spent += price[0] + price[1] * K

    # Files

    def arrays(self) -> Arrays:
        """Return the arrays of a file."""
        counts = [self.due, self.latest.row, self._n_opened, self._changed, self._looked, self._joined, self._spent]
        counts += [self._prior, int(self._elliptical)]
        closed = np.array(sorted(self._past.items()), dtype=np.int64).reshape(-1, 2)
        return {
            "kept_counts": np.array(counts, dtype=np.int64),
            "kept_tables": self.latest.tables,
            "kept_clusters": self.latest.clusters,
            "kept_ellipses": self._ellipses,
            "kept_closed": closed,
        }

    @classmethod
    def restore(cls, arrays: Arrays) -> Self:
        """Return the clusters that ``arrays`` described; raise ``ValueError`` if they are inconsistent."""
        found = check(arrays, KEPT)
        due, row, *counts, prior, elliptical = found["kept_counts"].tolist()
        tables, closed = found["kept_tables"], found["kept_closed"]
        for name in ("kept_clusters", "kept_ellipses"):
            if not np.all(np.isin(found[name], tables) & (found[name] <= tables)):
                raise ValueError(f"its array {name!r} does not go by the oldest tables")
        past = dict(closed.tolist())
        counts_fit = due > 0 and row >= -1 and min(counts) >= 0 and 0 <= prior < len(PRIORS)
        if not counts_fit or len(past) != len(closed) or not past.keys().isdisjoint(tables.tolist()):
            raise ValueError("its arrays 'kept_counts' and 'kept_closed' do not describe clusters that are kept")
        kept = cls()
        kept.latest, kept.due = Joining(row, tables, found["kept_clusters"], ()), due
        kept._n_opened, kept._changed, kept._looked, kept._joined, kept._spent = counts
        kept._ellipses, kept._prior, kept._elliptical, kept._past = found["kept_ellipses"], prior, elliptical == 1, past
        return kept


def _of_words(engine: Engine, words: Int) -> State:
    """Return the state with columns for these words only. The engine may have others, those of later rows of a call."""
    return replace(engine.seating, stats=cast(WordEngine, engine).word_stats(words)[:, :-1])


def _best(ids: Int, joins: list[Join]) -> Int:
    """Return the cluster of each table (K,) after the joins up to the largest sum of gains, by its oldest table."""
    n_joins = int(np.argmax(np.cumsum([0.0, *(join.gain for join in joins)])))
    return _oldest(ids, apply([Merge(0.0, join.kept, join.gone) for join in joins[:n_joins]], len(ids)))


def _extended(before: Int, ellipses: Int, old: NDArray[np.bool_]) -> Int:
    """Return the clusters of tables (K,): of old ones as before, of others that of the first old one of their ellipse.

    >>> _extended(np.array([0, 0, 2, 3, 4]), np.array([0, 1, 1, 3, 3]), np.array([True, True, False, False, False]))
    array([0, 0, 0, 3, 3])
    """
    of = ellipses.copy()
    of[old] = before[old]
    found, first = np.unique(ellipses[old], return_index=True)
    if len(found):
        places = np.minimum(np.searchsorted(found, ellipses), len(found) - 1)
        follows = ~old & (found[places] == ellipses)
        of[follows] = before[old][first[places[follows]]]
    return of


def _oldest(ids: Int, clusters: Int) -> Int:
    """Return clusters (K,) of open tables by the ids of their oldest ones.

    >>> _oldest(np.array([1, 4, 6]), np.array([0, 2, 0]))
    array([1, 4, 1])
    """
    _, first, which = np.unique(clusters, return_index=True, return_inverse=True)
    return ids[first[which]]


def clusters_on_arrival(labels: Int, first_row: int, joinings: tuple[Joining, ...]) -> Int:
    """Return the cluster of each row as known when it came, (n,).

    labels: (n,) the tables of rows from number ``first_row`` on. joinings: the one in force before them, and those made
    at these rows.
    """
    found = np.asarray(labels).copy()
    begins = [0, *(max(joining.row - first_row, 0) for joining in joinings[1:]), len(found)]
    for joining, begin, end in zip(joinings, begins[:-1], begins[1:], strict=True):
        found[begin:end] = joining.of(found[begin:end])
    return found

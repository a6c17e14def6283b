"""Events: what happened to the tables of a stream, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dyncrp.arrays.checks import Clock, as_date
from dyncrp.dynamics import Modes
from dyncrp.engine.types import Float, Int, Trace, concatenate
from dyncrp.joining.kept import Joining, clusters_on_arrival
from dyncrp.stream.novelty import NoveltySketch
from dyncrp.stream.surges import Surge, Surges

# A table returns if a row joins it after an absence Δ with kernel(Δ) below this.
FAINT = 0.1
# The order of the events of one row.
KINDS = (
    *("opened", "returned", "alarm", "surge", "growing", "fading", "closed", "merged", "renamed"),
    *("joined", "parted"),
)
NO_ROWS = np.zeros(0, dtype=np.int64)
ORDER = {kind: place for place, kind in enumerate(KINDS)}


class Event(NamedTuple):
    """Something that happened to a table.

    kind: "opened", "returned" (a row joined it after a long absence), "closed", "merged", "renamed"; "alarm" (a row was
    so unexpected that its p is at most ``alarm_rate``); with a ``surge_rate`` "surge" (it suddenly came more often than
    before), "growing" or "fading" (it came more or less often than before for three windows of rows); with
    ``keep_clusters`` "joined" (a cluster is now part of another one) or "parted" (it no longer is). row: the number of
    the row in the stream, from 0; for an edit, that of the latest row. time: the time of that row, datetime64 if times
    are dates. table: its id. name: the name of the table, or None. cluster: that of the table as known then, with
    ``keep_clusters``; otherwise that of the latest call of ``clusters``, if there was one since it opened. what:
    details by name. "returned" has ``absence``, the time since its last row; "alarm" has ``novelty`` and ``p``;
    "surge", "growing" and "fading" have ``rows``, the length of the window that the row ended, ``count``, how many rows
    in it were of the table, ``expected``, how many would have been by its past, and ``p``; "merged" has ``merged``, the
    id that now stands for this table, and ``far_apart`` if one table cannot cover both; "renamed" has the name
    ``before``; "opened" by a split has ``split_from``, the id of the other table; "joined" and "parted" have
    ``before``, the cluster that it was or was in, and ``tables``, all that moved with it.
    """

    kind: str
    row: int
    time: Any
    table: int
    name: str | None
    cluster: int | None
    what: dict[str, Any]


@dataclass(eq=False)
class Batch:
    """What a segment of n rows did, and what is needed to compute p-values and events on demand.

    trace: the trace of the engine. times: (n,). first_row: the number of the first row in the stream. n_opened: how
    many tables were opened before it. sketch: the novelty of the rows before it. renamed: what labels did to names: the
    number of a row in the stream, a table, and the name that it had before that row, or None. surges: counts of rows,
    if they are asked for. joinings: if clusters are kept, the clusters before these rows, and as they became from some
    of them on.
    """

    trace: Trace
    times: Float
    first_row: int
    n_opened: int
    sketch: NoveltySketch
    renamed: tuple[tuple[int, int, str | None], ...] = ()
    surges: Surges | None = None
    joinings: tuple[Joining, ...] = ()

    @cached_property
    def novelty_p(self) -> Float:
        """The probability that an earlier row was as unexpected as each of these rows, (n,)."""
        return self.sketch.p_values(-self.trace.log_evidence)

    def p_up_to(self, most: float) -> Float:
        """Return ``novelty_p``, or if it is not known yet, an array in which what is above ``most`` may be 1."""
        known: Float | None = vars(self).get("novelty_p")
        return self.sketch.p_values(-self.trace.log_evidence, most) if known is None else known

    @property
    def clusters(self) -> Int:
        """The cluster of each row as known when it came, (n,), if clusters are kept."""
        return clusters_on_arrival(self.trace.labels, self.first_row, self.joinings)

    def clusters_of(self, tables: Int, rows: Int) -> Int:
        """Return the clusters of tables (n,) as known at these rows (n,), which increase, if clusters are kept."""
        begins = [joining.row - self.first_row for joining in self.joinings[1:]]
        ends = [0, *np.searchsorted(rows, begins).tolist(), len(rows)]
        parts = zip(self.joinings, pairwise(ends), strict=True)
        return np.concatenate([joining.of(tables[begin:end]) for joining, (begin, end) in parts])

    @cached_property
    def surged(self) -> list[Surge]:
        """The surges of these rows, in order."""
        return [] if self.surges is None else self.surges.told(self.first_row, self.first_row + len(self.times))

    @classmethod
    def of_parts(cls, parts: Sequence[Batch]) -> Batch:
        """Return what consecutive segments did as one."""
        return cls(
            trace=concatenate([one.trace for one in parts]),
            times=np.concatenate([one.times for one in parts]),
            first_row=parts[0].first_row,
            n_opened=parts[0].n_opened,
            sketch=parts[0].sketch,
            renamed=tuple(change for one in parts for change in one.renamed),
            surges=parts[0].surges,
            joinings=(*parts[0].joinings, *(joining for one in parts[1:] for joining in one.joinings[1:])),
        )

    def opening_rows(self) -> Iterator[tuple[int, int]]:
        """Yield the tables that opened, each with the index of its row, which may have got another label."""
        ids = np.arange(self.n_opened, self.trace.n_columns)
        if len(ids):
            first = np.searchsorted(np.maximum.accumulate(self.trace.indices), ids)  # responsibility of each table
            rows = np.searchsorted(self.trace.indptr, first, side="right") - 1
            yield from zip(ids.tolist(), rows.tolist(), strict=True)


def events_of(
    batch: Batch,
    modes: Modes,
    clock: Clock,
    names: Mapping[int, str],
    clusters: Mapping[int, int],
    alarm_rate: float | None,
) -> list[Event]:
    """Return the events of a batch, in order. modes: of the kernel. names, clusters: of tables by id.

    A table returns when a row joins it after a long absence: kernel(absence) < 0.1, so that its last row counts less
    than a tenth of a new one. With ``Stationary`` no absence is long.
    """
    trace = batch.trace
    before: dict[int, list[tuple[int, str | None]]] = {}
    for row, table, name in batch.renamed:
        before.setdefault(table, []).append((row, name))

    def name_at(row: int, table: int) -> str | None:
        """Return the name that a table had just after a row."""
        return next((name for later, name in before.get(table, ()) if later > row), names.get(table))

    found: list[tuple[int, str, int, dict[str, Any]]] = []  # row, kind, table, what
    found += [(row, "opened", table, {}) for table, row in batch.opening_rows()]
    away = np.flatnonzero(trace.absences > 0.0) if np.any(modes.rates) else NO_ROWS
    if len(away):
        counts = (np.exp(-np.multiply.outer(trace.absences[away], modes.rates)) @ modes.amplitudes).real
        away = away[counts < FAINT]
    found += [
        (row, "returned", int(trace.labels[row]), {"absence": float(trace.absences[row])}) for row in away.tolist()
    ]
    if alarm_rate is not None:
        p = batch.p_up_to(alarm_rate)
        at = np.flatnonzero(p <= alarm_rate)
        rare = zip(at.tolist(), trace.labels[at].tolist(), trace.log_evidence[at].tolist(), p[at].tolist(), strict=True)
        found += [(row, "alarm", table, {"novelty": -evidence, "p": one}) for row, table, evidence, one in rare]
    for one in batch.surged:
        what = {"rows": one.length, "count": one.count, "expected": one.expected, "p": one.p}
        found.append((one.row - batch.first_row, one.kind, one.table, what))
    pairs = zip(trace.closed.tolist(), trace.closed_rows.tolist(), strict=True)
    found += [(row, "closed", table, {}) for table, row in pairs]
    for joining in batch.joinings[1:]:
        row = max(joining.row - batch.first_row, 0)
        moves = ((move, "parted" if move.parted else "joined") for move in joining.moves)
        found += [(row, kind, move.tables[0], move.what) for move, kind in moves]
    found.sort(key=lambda one: (one[0], ORDER[one[1]]))
    of: Iterable[int | None] = (clusters.get(table) for _, _, table, _ in found)
    if batch.joinings:
        rows, _, tables, _ = zip(*found, strict=True) if found else ((), (), (), ())
        of = batch.clusters_of(np.array(tables, dtype=np.int64), np.array(rows, dtype=np.int64)).tolist()
    return [
        Event(
            kind,
            batch.first_row + row,
            as_time(batch.times[row], clock),
            table,
            name_at(batch.first_row + row, table),
            cluster,
            what,
        )
        for (row, kind, table, what), cluster in zip(found, of, strict=True)
    ]


def as_time(t: float, clock: Clock) -> Any:
    """Return a time as datetime64 in UTC if times are dates, as a number otherwise.

    >>> as_time(86400.0, Clock.DATES)
    np.datetime64('1970-01-02T00:00:00.000000')
    """
    return as_date(t) if clock is Clock.DATES else float(t)


def as_plain(event: Event) -> dict[str, Any]:
    """Return an event as values for JSON. Dates become texts in ISO 8601.

    >>> as_plain(Event("alarm", 3, 3.0, 1, None, None, {"novelty": 11.3, "p": 0.0004}))
    {'kind': 'alarm', 'row': 3, 'time': 3.0, 'table': 1, 'name': None, 'cluster': None,
     'what': {'novelty': 11.3, 'p': 0.0004}}
    """
    return event._asdict() | {"time": event.time if isinstance(event.time, float) else f"{event.time}Z"}

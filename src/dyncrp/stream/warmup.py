"""Warmup: the first rows of a stream, which are kept until unknown hyperparameters have been learned from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np

from dyncrp.arrays.checks import Clock, as_times
from dyncrp.arrays.rows import type_of
from dyncrp.engine.schema import WARMUP, WARMUP_ROWS, check
from dyncrp.engine.types import UNKNOWN, Arrays, Float, Model, Rows
from dyncrp.families.base import check_rows, first_missing
from dyncrp.input.constraints import Constraints, check_name
from dyncrp.input.weights import as_weights
from dyncrp.search import Candidate, Found, Search, learn
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.events import Batch
from dyncrp.stream.keeping import type_of_learner
from dyncrp.stream.learner import Learner

# A piece of a search has as many runs of candidates as fit into this many rows, at least one; and what a run costs
# in addition to its rows, in rows.
ROWS_PER_PIECE, ROWS_PER_RUN = 3000, 150


class Searching(Enum):
    """When a search is done: in the call of ``learn`` that makes it due, a piece in each call, or by ``carry_on``."""

    AT_ONCE = "at once"
    IN_CALLS = "in calls"
    ASIDE = "aside"


class Warmup:
    """Learns the first rows of a stream, and its unknown hyperparameters from them.

    After n rows, the hyperparameters are those learned from the first m rows, where m is the largest power of two up to
    n, or ``warmup`` once n has reached it. Whenever they change, all rows are seated again. So the state after n rows
    depends on these rows only, not on how they were divided into calls.

    learner: has the rows so far, seated with the present hyperparameters; it exists from the first row on.
    n_learned_from: from how many rows the hyperparameters were learned. candidates: those of the latest search, None
    before it, and after loading. over: whether the warm-up has ended; then no rows are kept. batch: what the last batch
    did, None if there was none. history: the batches of all rows so far, as they are seated now, or since loading.
    searching: when a search is done. Unless at once, the hyperparameters change some calls later. missing: whether
    cells may be missing in later rows. needed: after how many rows the last search is due, ``warmup`` or fewer.
    """

    learner: Learner

    def __init__(
        self, spec: ModelSpec, clock: Clock, searching: Searching = Searching.AT_ONCE, *, missing: bool = False
    ) -> None:
        self.spec, self.clock, self.searching, self.missing = spec, clock, searching, missing
        self.n_learned_from, self.needed = 0, spec.warmup
        self.candidates: list[Candidate] | None = None
        self.over = spec.given is not None
        self.batch: Batch | None = None
        self.history: list[Batch] = []
        self._batch = (0, 0)  # the first row of the last batch, and the one after its last
        self._kept: list[tuple[Rows, Float, Constraints]] = []  # rows, times and constraints, in order of arrival
        self._search: Search | None = None
        self._goal = 0  # the number of rows of the search
        self._gaps = False  # whether cells were missing in rows that came while it may have been under way

    @property
    def n_rows(self) -> int:
        """The number of rows learned."""
        return self.learner.engine.n_observations if hasattr(self, "learner") else 0

    @property
    def times(self) -> Float:
        """The times of the rows that are kept, (n,)."""
        return np.concatenate([np.zeros(0), *(times for _, times, _ in self._kept)])

    @property
    def constraints(self) -> Constraints:
        """The constraints on the rows that are kept."""
        return Constraints.join([Constraints.nothing(0), *(known for _, _, known in self._kept)])

    def learn(
        self, X: Rows, times: Float, constraints: Constraints | None = None, *, whole: bool = False, batch: bool = True
    ) -> Batch:
        """Learn from the next rows (n, D), checked by the family, and return what they did.

        constraints: by names only, since ids are provisional. whole: whether to learn unknown hyperparameters from all
        of these rows, up to ``warmup``. batch: whether these rows become the last batch. An interrupted call has
        learned some of the rows, from the first one on, or none.
        """
        begin, end = self.n_rows, self.n_rows + len(X)
        known = Constraints.nothing(len(X)) if constraints is None else constraints
        goal = min(end, self.needed) if whole else self._due(end)
        at_once = begin == 0 or (goal > self.n_learned_from and self.searching is Searching.AT_ONCE)
        if not at_once and not self.over and first_missing(X) < len(X):
            if not self._gaps:  # a search under way may find a family that does not take them
                self._gaps, self._search = True, None
            if not self.learner.family.independent:
                goal, at_once, self._search = self.n_learned_from, True, None
        if at_once:
            rows, t, known = self._rows((X, times, known))
            whole = whole or self.over
            found = self._learn(rows, t, known) if whole else self._find(goal, rows, t, known)
            return self._seat(goal, *found, rows, t, known, (begin, end) if batch else self._batch)
        try:
            done = self.learner.run(X, times, known)
        finally:
            n = self.n_rows - begin
            self._kept.append((X[:n].copy(), times[:n].copy(), known.part(slice(0, n))))
            if self.learner.interrupted is not None:
                self.history.append(self.learner.interrupted)
        self.history.append(done)
        if batch:
            self.batch, self._batch = done, (begin, end)
        if self.searching is Searching.IN_CALLS:
            self.carry_on()
        return done

    def check(self, X: Rows) -> Rows:
        """Return rows as checked by the family that was given, and by the one in use."""
        rows = check_rows(self.spec.family, X)
        if not self.over and not self.learner.family.independent and first_missing(rows) < len(rows):
            return rows  # another family will be learned
        return check_rows(self.learner.family, rows)

    @property
    def is_due(self) -> bool:
        """Whether there is a search to begin or to carry on."""
        return not self.over and self._due(self.n_rows) > self.n_learned_from

    def carry_on(self) -> None:
        """Do a piece of the search that is due, if there is one."""
        self._carry_on(max(1, ROWS_PER_PIECE // (self._due(self.n_rows) + ROWS_PER_RUN)))

    def finish(self) -> None:
        """Finish the search that is due, if there is one."""
        self._carry_on(None)

    def shorten(self, n_rows: int) -> None:
        """Let the warm-up end with the search that is due after so many rows, at least 2, if that is sooner."""
        self.needed = min(self.needed, max(2, n_rows))

    def again(self, spec: ModelSpec) -> Warmup:
        """Return a warm-up without rows, for another family."""
        found = Warmup(spec, self.clock, self.searching, missing=self.missing)
        found.shorten(self.needed)
        return found

    def end(self) -> None:
        """End the warm-up: learn unknown hyperparameters from the rows so far, at least 2, up to ``warmup``."""
        if self.n_rows >= self.needed:
            self.finish()
        elif not self.over and self.n_learned_from < max(2, self.n_rows):
            rows, times, known = self._rows()
            found = self._learn(rows, times, known)
            self._seat(len(rows), *found, rows, times, known, self._batch)
        self.over, self._kept, self._search = True, [], None

    def widen(self, n_features: int, absent: float = 0.0) -> None:
        """Add features, which have the value ``absent`` in all rows so far: 0, or NaN for a missing cell."""
        if self.n_rows >= self.needed:
            self.finish()
            self.learner.widen(n_features, absent)
            return
        rows, times, known = self._rows()
        rows = check_rows(self.spec.family, type_of(rows).widen(rows, n_features, absent))
        goal = (
            self.n_learned_from if self.searching is Searching.AT_ONCE else 1
        )  # from 1 row now, and from more in pieces
        self._search = None
        self._seat(goal, *self._find(goal, rows, times, known), rows, times, known, self._batch)

    def arrays(self) -> Arrays:
        """Return the arrays of a file, in addition to those of the learner; none if the warm-up is over."""
        if self.over:
            return {}
        rows, times, known = self._rows()
        kind = type_of(rows)
        kept: Arrays = dict(zip(WARMUP_ROWS[kind], kind.arrays(rows), strict=True))
        kept |= {"warmup_times": times, "warmup_learnt_from": np.array(self.n_learned_from)}
        if known.weights is not None:
            kept["warmup_weights"] = known.weights
        return kept if known.free else kept | {"warmup_tables": known.tables, "warmup_marks": known.marks}

    def config(self) -> dict[str, Any]:
        """Return the header entries of a file, in addition to those of the learner: names in constraints."""
        names = self.constraints.names
        return {"told_names": list(names)} if names else {}

    @classmethod
    def restore(cls, spec: ModelSpec, config: Mapping[str, Any], arrays: Arrays) -> Warmup:
        """Return a warm-up with its learner, as ``config`` and the arrays of both describe them.

        If there are no arrays of a warm-up, it is over.
        """
        group = WARMUP | WARMUP_ROWS[spec.family.rows]
        learner = type_of_learner(spec).restore(spec, config, {name: arrays[name] for name in arrays.keys() - group})
        warmup = cls(spec, learner.clock)
        warmup.learner, warmup.over = learner, arrays.keys().isdisjoint(group)
        if not warmup.over:
            n, D = warmup.n_rows, learner.engine.n_features
            if spec.given is not None or n >= spec.warmup:
                raise ValueError(f"it keeps rows of a warm-up that ended, after {n} observations")
            warmup._restore(check(arrays, group, {"n": n, "D": D}), config.get("told_names", []), D)
        return warmup

    def _restore(self, found: Arrays, names: Any, D: int) -> None:
        """Take over rows and constraints from arrays that follow the schema."""
        times, learned_from, n = found["warmup_times"], int(found["warmup_learnt_from"]), self.n_rows
        kind = self.spec.family.rows
        rows: Rows = kind.checked((found[name] for name in WARMUP_ROWS[kind]), n)
        if rows.shape[1] > D:
            raise ValueError(f"its kept rows have {rows.shape[1]} words, but it has {D}")
        check_rows(self.spec.family, kind.read(rows))
        if as_times(times, n=n)[-1] != self.learner.engine.time or not 1 <= learned_from <= n:
            raise ValueError("its kept rows are not the rows that it has learned")
        known = Constraints.nothing(n)
        if "warmup_tables" in found:
            known = Constraints(found["warmup_tables"], found["warmup_marks"], tuple(map(check_name, names)))
            least = min(known.tables.min() + len(names), known.marks.min())
            if known.tables.max() > UNKNOWN or least < UNKNOWN:
                raise ValueError("its constraints on the kept rows are not names and marks")
        weights = as_weights(found.get("warmup_weights"), n, words=self.spec.family.sparse)
        known = known._replace(weights=weights)
        self.n_learned_from, self._kept = learned_from, [(rows, times, known)]

    def _due(self, n: int) -> int:
        """Return from how many rows to learn hyperparameters once there are n."""
        return self.needed if n >= self.needed else 1 << (n.bit_length() - 1)

    def _rows(self, next_: tuple[Rows, Float, Constraints] | None = None) -> tuple[Rows, Float, Constraints]:
        """Return all kept rows, their times and their constraints, followed by the next ones if they are given."""
        parts = self._kept if next_ is None else [*self._kept, next_]
        if len(parts) == 1:
            return parts[0]
        rows, times, known = zip(*parts, strict=True)
        return type_of(rows[0]).join(rows), np.concatenate(times), Constraints.join(known)

    def _learn(self, rows: Rows, times: Float, known: Constraints) -> Found:
        """Return what is learned from all rows, up to ``warmup``."""
        missing = self.missing or (known.weights is not None and first_missing(rows) < len(rows))
        return learn(self.spec, *_teaching(self.spec.warmup, rows, times, known), missing=missing)

    def _start(self, goal: int, rows: Rows, times: Float, known: Constraints) -> Search:
        """Return a search on the first rows, for a family that takes missing cells if any of the rows needs it."""
        missing = self.missing or first_missing(rows) < len(rows)
        return Search(self.spec, *_teaching(goal, rows[:goal], times[:goal], known), missing=missing)

    def _find(self, goal: int, rows: Rows, times: Float, known: Constraints) -> Found:
        """Return what a whole search on the first rows finds."""
        return self._sharpen(goal, *self._start(goal, rows, times, known).finish())

    def _sharpen(self, goal: int, known: Model, candidates: list[Candidate]) -> Found:
        """Return what a search found, at the resolution of the spec."""
        try:
            return replace(known, family=self.spec.sharpen(known.family)), candidates
        except ValueError:
            if goal == self.needed:
                raise
            return known, candidates  # few rows may be so similar that the variance cannot be divided further

    def _carry_on(self, n_runs: int | None) -> None:
        """Do some runs of the search that is due, or all if n_runs is None. At its end, seat all rows again."""
        if not self.is_due:
            return
        goal = self._due(self.n_rows)
        search = self._search
        if search is None or self._goal != goal:
            search = self._start(goal, *self._rows())
        self._search, self._goal = None, goal  # if it is interrupted, it begins again
        found = search.finish() if n_runs is None else search.advance(n_runs)
        if found is None:
            self._search = search
        else:
            rows, times, known = self._rows()
            self._seat(goal, *self._sharpen(goal, *found), rows, times, known, self._batch)

    def _seat(
        self,
        goal: int,
        known: Model,
        candidates: list[Candidate],
        rows: Rows,
        times: Float,
        known_of_rows: Constraints,
        batch: tuple[int, int],
    ) -> Batch:
        """Seat all rows with new hyperparameters, and return what the last part of them did.

        goal: from how many rows the hyperparameters were learned. batch: the first and last row of the new last batch.
        If this is interrupted, nothing changes.
        """
        learner = type_of_learner(self.spec)(self.spec, known, self.clock, rows.shape[1])
        done = {}
        for begin, end in pairwise(sorted({0, *batch, self.n_rows, len(rows)})):
            part = check_rows(learner.family, rows[begin:end])
            done[begin, end] = learner.run(part, times[begin:end], known_of_rows.part(slice(begin, end)))
        over = self.over or goal >= self.needed
        fresh = not self._kept  # then the rows belong to the caller
        kept = (rows.copy(), times.copy(), known_of_rows) if fresh else (rows, times, known_of_rows)
        self._kept = [] if over else [kept]
        self.learner, self.n_learned_from, self.candidates, self.over = learner, goal, candidates, over
        self.batch, self._batch, self.history = done.get(batch), batch, list(done.values())
        return done[begin, end]


def _teaching(n: int, rows: Rows, times: Float, known: Constraints) -> tuple[Rows, Float]:
    """Return the rows to search by: all, or if some of the first n rows have weights above 0, these.

    A search counts each of them as one row. Otherwise a single heavy row would decide which clusters reproduce. Where
    no row has a weight yet, there must be hyperparameters all the same, so that the rows can be labelled.
    """
    if known.weights is None or not np.any(known.weights[:n] > 0.0):
        return rows, times
    at = np.flatnonzero(known.weights[:n] > 0.0)
    return type_of(rows).take(rows, at), times[at]

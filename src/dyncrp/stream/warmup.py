"""Warmup: the first rows of a stream, kept until what is unknown has been learned from as many as that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from dyncrp.arrays.checks import Clock, as_observations, as_times
from dyncrp.arrays.counts import Counts
from dyncrp.engine.schema import WARMUP, WARMUP_ROWS, WARMUP_WORDS, check
from dyncrp.engine.types import UNKNOWN, Arrays, Float, Model, Rows
from dyncrp.families.base import check_rows, first_missing
from dyncrp.input.constraints import Constraints, check_name
from dyncrp.search import Candidate, Found, Search, learn
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.events import Batch
from dyncrp.stream.learner import Learner

# A piece of a search is as many runs of candidates as take this many rows, and at least one. What a run takes beside
# its rows is as much as so many rows take.
ROWS_PER_PIECE, ROWS_PER_RUN = 3000, 150


class Warmup:
    """Learns a stream from its first row on, and what is unknown as rows come.

    After n rows, the hyperparameters are those that the evidence of the first 1, 2, 4, 8, … rows chose: of the largest
    power of two up to n, or of ``warmup`` once that many have come. Whenever they change, all rows are seated anew. So
    the state after n rows is a function of these rows, however they were divided into calls.

    learner: the rows so far, seated by the present hyperparameters; from the first row on. n_learned_from: how many
    rows those were learned from. candidates: what was tried then, None if that is not known. over: whether nothing is
    provisional any more; then no row is kept. batch: what the last batch did, None if there was none. history: what all
    rows so far did, as they are seated now; since it was read from a file, if it was. piecewise: whether a call of
    ``learn`` carries a search on by one piece only, so that the hyperparameters change some calls later; ``finish``
    does the rest. missing: whether cells may be missing in rows to come.
    """

    learner: Learner

    def __init__(self, spec: ModelSpec, clock: Clock, *, piecewise: bool = False, missing: bool = False) -> None:
        self.spec, self.clock, self.piecewise, self.missing = spec, clock, piecewise, missing
        self.n_learned_from = 0
        self.candidates: list[Candidate] | None = None
        self.over = spec.given is not None
        self.batch: Batch | None = None
        self.history: list[Batch] = []
        self._batch = (0, 0)  # which rows that is of
        self._kept: list[tuple[Rows, Float, Constraints]] = []  # rows, times, and what is known of them, as they came
        self._search: Search | None = None
        self._goal = 0  # how many rows that is on

    @property
    def n_rows(self) -> int:
        """How many rows were learned."""
        return self.learner.engine.n_observations if hasattr(self, "learner") else 0

    @property
    def times(self) -> Float:
        """The times of the rows so far, (n,); none once it is over."""
        return np.concatenate([np.zeros(0), *(times for _, times, _ in self._kept)])

    @property
    def constraints(self) -> Constraints:
        """What is known of the rows so far; nothing of none once it is over."""
        return Constraints.join([Constraints.nothing(0), *(known for _, _, known in self._kept)])

    def learn(
        self, X: Rows, times: Float, constraints: Constraints | None = None, *, whole: bool = False, batch: bool = True
    ) -> Batch:
        """Learn from the next rows (n, D), which the family has checked, and return what they did.

        constraints: what is known of them, by names, as ids are provisional. whole: whether these are all rows for now,
        so that what is unknown is learned from them all, up to ``warmup``. batch: whether they are the last batch from
        now on. If a call is interrupted, the rows that it came to are learned, or none.
        """
        begin, end = self.n_rows, self.n_rows + len(X)
        known = Constraints.nothing(len(X)) if constraints is None else constraints
        goal = min(end, self.spec.warmup) if whole else self._due(end)
        at_once = begin == 0 or (goal > self.n_learned_from and not self.piecewise)
        if not at_once and not self.over and first_missing(X) < len(X) and not self.learner.family.independent:
            goal, at_once, self._search = self.n_learned_from, True, None
        if at_once:
            rows, t, known = self._rows((X, times, known))
            whole = whole or self.over
            found = learn(self.spec, rows, t, missing=self.missing) if whole else self._find(goal, rows, t)
            return self._seat(goal, *found, rows, t, known, (begin, end) if batch else self._batch)
        try:
            done = self.learner.run(X, times, known)
        finally:
            n = self.n_rows - begin
            self._kept.append((X[:n].copy(), times[:n].copy(), known.part(slice(0, n))))
        self.history.append(done)
        if batch:
            self.batch, self._batch = done, (begin, end)
        if self.piecewise:
            self._carry_on(max(1, ROWS_PER_PIECE // (goal + ROWS_PER_RUN)))
        return done

    def check(self, X: Rows) -> Rows:
        """Return rows as the family wants them, the one that was asked for and the one that was found."""
        rows = check_rows(self.spec.family, X)
        if not self.over and not self.learner.family.independent and first_missing(rows) < len(rows):
            return rows  # then another is found
        return check_rows(self.learner.family, rows)

    def finish(self) -> None:
        """End the search that is under way in pieces, if there is one."""
        self._carry_on(None)

    def end(self) -> None:
        """Learn what is unknown from all rows so far, at least 2, up to ``warmup``; then nothing is provisional."""
        if self.n_rows >= self.spec.warmup:
            self.finish()
        elif not self.over and self.n_learned_from < max(2, self.n_rows):
            rows, times, known = self._rows()
            found = learn(self.spec, rows, times, missing=self.missing)
            self._seat(len(rows), *found, rows, times, known, self._batch)
        self.over, self._kept, self._search = True, [], None

    def widen(self, n_features: int, absent: float = 0.0) -> None:
        """Let there be more features from now on, in which all rows so far had 0; or NaN, which is nothing."""
        if self.n_rows >= self.spec.warmup:
            self.finish()
            self.learner.widen(n_features, absent)
            return
        rows, times, known = self._rows()
        rows = check_rows(
            self.spec.family, np.pad(rows, ((0, 0), (0, n_features - rows.shape[1])), constant_values=absent)
        )
        goal = 1 if self.piecewise else self.n_learned_from  # from 1 row at once, and then again from more in pieces
        self._search = None
        self._seat(goal, *self._find(goal, rows, times), rows, times, known, self._batch)

    def arrays(self) -> Arrays:
        """Return what is needed to go on beside the learner; nothing, if it is over."""
        if self.over:
            return {}
        rows, times, known = self._rows()
        kept: Arrays = {"warmup_rows": rows}
        if isinstance(rows, Counts):
            kept = dict(zip(WARMUP_WORDS, rows.csr, strict=True))
        kept |= {"warmup_times": times, "warmup_learnt_from": np.array(self.n_learned_from)}
        return kept if known.empty else kept | {"warmup_tables": known.tables, "warmup_marks": known.marks}

    def config(self) -> dict[str, Any]:
        """Return what a file must say beside ``arrays`` and what the learner says: the names that rows were told."""
        names = self.constraints.names
        return {"told_names": list(names)} if names else {}

    @classmethod
    def restore(cls, spec: ModelSpec, config: Mapping[str, Any], arrays: Arrays) -> Warmup:
        """Return a warm-up with its learner, as ``config`` and the arrays of both describe them.

        Without arrays of its own it is over, as it was when the file was written, or had nothing unknown.
        """
        group = WARMUP | (WARMUP_WORDS if spec.family.sparse else WARMUP_ROWS)
        learner = Learner.restore(spec, config, {name: arrays[name] for name in arrays.keys() - group})
        warmup = cls(spec, learner.clock)
        warmup.learner, warmup.over = learner, arrays.keys().isdisjoint(group)
        if not warmup.over:
            n, D = warmup.n_rows, learner.engine.n_features
            if spec.given is not None or n >= spec.warmup:
                raise ValueError(f"it keeps rows of a warm-up, after {n} observations")
            warmup._restore(check(arrays, group, {"n": n, "D": D}), config.get("told_names", []), D)
        return warmup

    def _restore(self, found: Arrays, names: Any, D: int) -> None:
        """Keep the rows that arrays of the schema describe, and what is known of them."""
        times, learned_from, n = found["warmup_times"], int(found["warmup_learnt_from"]), self.n_rows
        if self.spec.family.sparse:
            rows: Rows = Counts.checked((found[name] for name in WARMUP_WORDS), n)
            if rows.n_columns > D:
                raise ValueError(f"it keeps rows of {rows.n_columns} words, and has {D}")
        else:
            rows = found["warmup_rows"]
            check_rows(self.spec.family, as_observations(rows, "its kept rows", missing=True))
        if as_times(times, n=n)[-1] != self.learner.engine.time or not 1 <= learned_from <= n:
            raise ValueError("the rows that it keeps are not those that it has learned")
        known = Constraints.nothing(n)
        if "warmup_tables" in found:
            known = Constraints(found["warmup_tables"], found["warmup_marks"], tuple(map(check_name, names)))
            least = min(known.tables.min() + len(names), known.marks.min())
            if known.tables.max() > UNKNOWN or least < UNKNOWN:
                raise ValueError("what it knows of the rows that it keeps are not names and marks")
        self.n_learned_from, self._kept = learned_from, [(rows, times, known)]

    def _due(self, n: int) -> int:
        """Return how many rows to learn from when n have come."""
        return self.spec.warmup if n >= self.spec.warmup else 1 << (n.bit_length() - 1)

    def _rows(self, next_: tuple[Rows, Float, Constraints] | None = None) -> tuple[Rows, Float, Constraints]:
        """Return the rows so far, their times, and what is known of them; of the next ones too, if they are given."""
        parts = self._kept if next_ is None else [*self._kept, next_]
        if len(parts) == 1:
            return parts[0]
        rows, times, known = zip(*parts, strict=True)
        join = Counts.join if isinstance(rows[0], Counts) else np.concatenate
        return join(rows), np.concatenate(times), Constraints.join(known)

    def _start(self, goal: int, rows: Rows, times: Float) -> Search:
        """Return a search on the first so many rows; if cells of others are missing, for a family that takes that."""
        return Search(self.spec, rows[:goal], times[:goal], missing=self.missing or first_missing(rows) < len(rows))

    def _find(self, goal: int, rows: Rows, times: Float) -> Found:
        """Return what the first so many rows say, by a search to its end."""
        return self._sharpen(goal, *self._start(goal, rows, times).finish())

    def _sharpen(self, goal: int, known: Model, candidates: list[Candidate]) -> Found:
        """Return what a search found at the resolution that is asked for."""
        try:
            return replace(known, family=self.spec.sharpen(known.family)), candidates
        except ValueError:
            if goal == self.spec.warmup:
                raise
            return known, candidates  # the first rows may be so much alike that there is nothing to sharpen

    def _carry_on(self, n_runs: int | None) -> None:
        """Carry the search that is due on by so many runs, None: to its end; at its end, seat all rows anew."""
        goal = self._due(self.n_rows)
        if self.over or goal <= self.n_learned_from:
            return
        search = self._search
        if search is None or self._goal != goal:
            search = self._start(goal, *self._rows()[:2])
        self._search, self._goal = None, goal  # what is interrupted begins again
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
        """Seat all rows by hyperparameters that were learned from the first so many; return what the new ones did.

        batch: which of the rows are the last batch from now on. All is done, or nothing.
        """
        learner = Learner(self.spec, known, self.clock, rows.shape[1])
        done = {}
        for begin, end in pairwise(sorted({0, *batch, self.n_rows, len(rows)})):
            part = check_rows(learner.family, rows[begin:end])
            done[begin, end] = learner.run(part, times[begin:end], known_of_rows.part(slice(begin, end)))
        over = self.over or goal >= self.spec.warmup
        fresh = not self._kept  # the rows are the caller's own
        kept = (rows.copy(), times.copy(), known_of_rows) if fresh else (rows, times, known_of_rows)
        self._kept = [] if over else [kept]
        self.learner, self.n_learned_from, self.candidates, self.over = learner, goal, candidates, over
        self.batch, self._batch, self.history = done.get(batch), batch, list(done.values())
        return done[begin, end]

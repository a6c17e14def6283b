"""Learner: a model with known hyperparameters, at work on one stream.

It owns the engine, the clock, the posterior of alpha, the names of tables, a sketch of past novelty, examples, and
counts of rows for surges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dyncrp.arrays.checks import LARGEST_PARAMETER, LATEST_TIME, SMALLEST_PARAMETER, Clock, as_times, positive
from dyncrp.engine import edit, make_engine, missing, schema
from dyncrp.engine.types import (
    NEW,
    UNKNOWN,
    Arrays,
    Engine,
    Float,
    Int,
    Model,
    Rows,
    TableConstraints,
    Trace,
    concatenate,
)
from dyncrp.families import Family
from dyncrp.families.base import first_missing
from dyncrp.input.constraints import Constraints, Names, no_such_table
from dyncrp.io.packed import pack, unpack
from dyncrp.joining.kept import Joining, KeptClusters
from dyncrp.search.alpha import AlphaPosterior
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.events import Batch
from dyncrp.stream.examples import Reservoir
from dyncrp.stream.novelty import NoveltySketch
from dyncrp.stream.states import CLOCKS, HEAD, as_bytes, digest, modes_of, read_head
from dyncrp.stream.surges import Surges

ROWS_PER_ALPHA = 100  # with learn_alpha, alpha changes after every so many rows
NOT_OPEN = 1 << 62  # stands for the id of a table that is not open yet
FEWEST_AHEAD = 64  # rows that the engine is given at once, or twice as many as it took before


class Learner:
    """Learns a stream with known hyperparameters.

    family: the family, given or learned. From the first missing cell on, the engine has another one, see
    ``engine.missing``. wants_p: whether p-values of the next rows will be read.
    """

    family: Family
    engine: Engine
    kept: KeptClusters | None = None  # see ``keeping.py``
    joinings: Sequence[Joining] = ()

    def __init__(self, spec: ModelSpec, model: Model, clock: Clock, n_features: int) -> None:
        self.family, self.dynamics, self.clock = model.family, model.dynamics, clock
        self.engine = make_engine(model, n_features)
        self.alpha_posterior = AlphaPosterior(model.alpha, model.modes) if spec.learn_alpha else None
        self._latest_times: Float = np.zeros(0)  # of the rows from which alpha is learned next,
        self._latest_weights: Float | None = None
        self.names, self.sketch = Names(), NoveltySketch()
        self._sketch_before = self.sketch  # as it was before the latest call of ``run``
        self.examples = Reservoir(spec.n_examples, model.family.rows) if spec.n_examples else None
        self.surges = None if spec.surge_rate is None else Surges(spec.surge_rate)
        self._saves_sketch = spec.alarm_rate is not None  # without alarms, files and states stay small
        # Whether the learner itself needs the rows; and whether it does not, and times are the index of arrival.
        self._looks_at_rows = self.alpha_posterior is not None or self.examples is not None
        self._counts_rows = clock is Clock.INDEX and not self._looks_at_rows
        self.wants_p = self._saves_sketch
        self.interrupted: Batch | None = None  # what the latest call of ``run`` did, if it was interrupted
        self._done: list[Trace] = []  # by the parts of the latest call so far
        self._renamed: list[tuple[int, int, str | None]] = []  # see ``Batch.renamed``
        self._n_unscored = 0  # rows that the sketch has not seen, since a file had none

    def keep_sketch(self) -> None:
        """Save the sketch of past novelty in files and states from now on, as alarms need it."""
        self._saves_sketch = self.wants_p = True

    def set_surge_rate(self, rate: float) -> None:
        """Tell surges at this rate from now on."""
        if self.surges is None:
            self.surges = Surges(rate)
        self.surges.read()
        self.surges.rate = rate

    @property
    def alpha(self) -> float:
        """The present alpha."""
        return self.engine.model.alpha

    def times(self, given: ArrayLike | None, n: int) -> Float:
        """Return the times of the next n rows as numbers (n,): those given, or the index of arrival."""
        if given is None:
            begin = self.engine.n_observations
            return np.arange(begin, begin + n, dtype=np.float64)
        return as_times(given, n=n, last=self.engine.time)

    def run(self, X: Rows, times: Float, constraints: Constraints | None = None, *, whole: bool = False) -> Batch:
        """Learn from rows (n, D). whole: whether it is known that no cell is missing."""
        if self.wants_p:
            self._read_sketch()
        self._done, self.interrupted, self._renamed = [], None, []
        engine, kept = self.engine, self.examples
        sketch = self._sketch_before = self.sketch.copy()
        first_row, n_opened = engine.n_observations, engine.n_opened
        if self.surges is not None:
            self.surges.settle(engine.ids)
            self.surges.skip_to(first_row)  # if a call was interrupted, or what was learned came from elsewhere
        if constraints is not None and constraints.empty:
            constraints = None
        weights = None if constraints is None else constraints.weights
        first = len(X) if whole or missing.takes_missing(engine) else first_missing(X)
        try:
            if first == len(X):
                trace = self._run(X, times, constraints)
            else:
                trace = self._run_parts(first, X, times, constraints)
            if kept is not None:
                self._keep_examples(kept, first_row, X, times, trace, weights)
        except BaseException:  # the rows learned so far count
            self._mend()
            if sum(len(trace.labels) for trace in self._done) < self.engine.n_observations - first_row:
                self._done.append(self.engine.latest)
            if self._done:
                trace = concatenate(self._done)
                if kept is not None:
                    self._keep_examples(kept, first_row, X, times, trace, weights)
                if self.surges is not None:
                    self.surges.add(trace.labels, trace.closed, trace.closed_rows)
                t, renamed = times[: len(trace.labels)], tuple(self._renamed)
                self.interrupted = Batch(trace, t, first_row, n_opened, sketch, renamed, self.surges)
            raise
        self._done = []
        if self.surges is not None:
            self.surges.add(trace.labels, trace.closed, trace.closed_rows)
        return Batch(trace, times, first_row, n_opened, sketch, tuple(self._renamed), self.surges)

    def _run_parts(self, first: int, X: Rows, times: Float, constraints: Constraints | None) -> Trace:
        """Learn from rows, with another engine from ``first`` on, the first row with a missing cell."""
        before, rest = slice(0, first), slice(first, None)
        traces = [self._run(X[before], times[before], _part(constraints, before))] if first else []
        self.engine = missing.for_missing(self.engine)
        traces.append(self._run(X[rest], times[rest], _part(constraints, rest)))
        return concatenate(traces)

    def _keep_examples(
        self, kept: Reservoir, first_row: int, X: Rows, times: Float, trace: Trace, weights: Float | None
    ) -> None:
        """Add the rows of a trace to what was kept before. If this is interrupted, it can be done again."""
        n, examples = len(trace.labels), kept.copy()
        examples.add(first_row, X[:n], times[:n], trace.labels, None if weights is None else weights[:n])
        examples.forget(trace.closed)
        self.examples = examples

    def _read_sketch(self) -> None:
        """Let the sketch process all scores: once here, and not in each copy of it, nor again if a copy has done so."""
        ahead = self._sketch_before.ahead
        if ahead is not None and ahead.n == self.sketch.n:
            self.sketch = ahead
        else:
            self.sketch.read()

    def _mend(self) -> None:
        """Let the sketch and alpha catch up with the engine after an interruption."""
        behind = self.engine.n_observations - self._n_unscored - self.sketch.n
        if behind > 0:
            self.sketch.add_evidence(self.engine.latest_evidence[-8 * behind :])
        self._catch_up()

    def run_plain(self, x: Any, t: Any) -> int | None:
        """Learn from one row x (D,) at time t and return its label; return None if x or t must be checked first."""
        time = None
        if t is not None or not self._counts_rows:
            time = self.plain_time(t)
            if time is None:
                return None
        try:
            done = self.engine.run_safe_one(x, time)
            if done is None:
                return None
            self.sketch.add_one(-done[1])
            if self.surges is not None:
                self._count_one(self.surges, done[0])
        except BaseException:
            self._mend()
            raise
        return done[0]

    def plain_time(self, t: Any) -> float | None:
        """Return the time t of the next row as a number; None if t must be checked, or the learner needs the row."""
        if self._looks_at_rows:
            return None
        if t is None:
            return self.engine.n_observations if self.clock is Clock.INDEX else None
        plain = (isinstance(t, float) or type(t) is int) and self.clock is Clock.NUMBERS
        return float(t) if plain and self.engine.time <= t <= LATEST_TIME else None

    def run_one(self, x: Rows, t: float) -> int:
        """Learn from one row x (D,), checked by the family, and return its label."""
        try:
            label, log_evidence = self.engine.run_one(x, t)
            self.sketch.add_one(-log_evidence)
            if self.surges is not None:
                self._count_one(self.surges, label)
        except BaseException:
            self._mend()
            raise
        return label

    def _count_one(self, surges: Surges, label: int) -> None:
        """Count the row that was just learned by itself."""
        surges.skip_to(self.engine.n_observations - 1)
        if surges.add_one(label):
            surges.settle(self.engine.ids)

    def _run(self, X: Rows, times: Float, constraints: Constraints | None) -> Trace:
        """Learn from rows. With ``learn_alpha``, update alpha after every hundredth row."""
        engine = self.engine
        if self.alpha_posterior is None:
            return self._take_in(X, times, None) if constraints is None else self._seat(X, times, constraints)
        self._catch_up()
        traces = []
        begin = 0
        while begin < len(X):
            end = min(begin + ROWS_PER_ALPHA - engine.n_observations % ROWS_PER_ALPHA, len(X))
            some = _part(constraints, slice(begin, end))
            self._latest_times, self._latest_weights = times[begin:end], None if some is None else some.weights
            x, t = X[begin:end], self._latest_times
            traces.append(self._take_in(x, t, None) if some is None else self._seat(x, t, some))
            self._catch_up()
            begin = end
        return concatenate(traces)

    def _seat(self, X: Rows, times: Float, constraints: Constraints) -> Trace:
        """Seat rows under constraints. A table that is not open, or no longer, opens with its first row."""
        tables, traces, begin, ahead = constraints.tables, list[Trace](), 0, len(X)
        if np.any(tables != UNKNOWN):  # the engine stops where one of them is not open
            tables, ahead = self._ids(constraints), FEWEST_AHEAD
        told_all = TableConstraints(tables, constraints.marks, constraints.weights)
        while begin < len(X):
            some = slice(begin, begin + ahead)  # the engine makes room for the rows that it is given
            trace = self._take_in(X[some], times[some], told_all.part(some))
            ahead = max(FEWEST_AHEAD, 2 * len(trace.labels))
            if not len(trace.labels):
                one, told, closed = slice(begin, begin + 1), int(constraints.tables[begin]), int(tables[begin])
                row, n_opened = self.engine.n_observations, self.engine.n_opened
                if n_opened <= closed < NOT_OPEN:
                    raise no_such_table(closed, n_opened, row)
                trace = self._take_in(X[one], times[one], told_all.part(one)._replace(tables=np.array([NEW])))
                opened = int(trace.labels[0])
                if opened >= 0:
                    self._renamed += [(row, table, self.names.of.get(table)) for table in (opened, closed)]
                if opened < 0:  # a row of weight 0, which opens no table
                    pass
                elif closed == NOT_OPEN:
                    self.names.give(opened, constraints.names[NEW - told])
                    tables[constraints.tables == told] = opened
                else:  # the new table takes over the ids and the name of the closed one
                    self.names.forward(closed, opened)
                    tables[tables == closed] = opened
            traces.append(trace)
            begin += len(trace.labels)
        return concatenate(traces)

    def _take_in(self, X: Rows, times: Float, told: TableConstraints | None) -> Trace:
        """Let the engine learn rows, and the sketch their novelty; see ``_mend`` for interruptions."""
        if told is None:
            trace = self.engine.run(X, times)
            n = len(X)  # labels become an array when they are read, which takes longer than to learn a row
        else:
            trace = self.engine.run(X, times, told)
            n = len(trace.labels)
        if n:
            self._done.append(trace)
        self.sketch.add_evidence(self.engine.latest_evidence, wait=self.wants_p)  # see ``_read_sketch``
        return trace

    def _ids(self, constraints: Constraints) -> Int:
        """Return the present ids of the tables of rows, ``NOT_OPEN`` for a name that no table has yet."""
        tables = self.names.find_all(constraints.tables)
        named = np.flatnonzero(tables <= NEW)
        codes, which = np.unique(tables[named], return_inverse=True)
        found = (self.names.find(constraints.names[NEW - code]) for code in codes.tolist())
        tables[named] = np.array([NOT_OPEN if table is None else table for table in found], dtype=np.int64)[which]
        return tables

    def merge(self, a: int, b: int) -> int:
        """Merge two open tables; return the older id. The other id stands for it from now on."""
        kept, gone = min(a, b), max(a, b)
        if self.surges is not None:
            self.surges.settle(self.engine.ids)
        edit.merge(self.engine, kept, gone)
        if a == gone and gone in self.names.of:  # the name of a stays
            name = self.names.of[gone]
            self.names.give(gone, "")
            self.names.give(kept, name)
        self.names.forward(gone, kept)
        if self.examples is not None:
            self.examples.merge(kept, gone)
        if self.surges is not None:
            self.surges.merge(kept, gone)
        return kept

    def split(self, table: int, X: Rows, times: Float) -> int:
        """Move rows X (n, D), learned at times (n,), from an open table to a new one; return its id."""
        engine = self.engine if first_missing(X) == len(X) else missing.for_missing(self.engine)
        new = edit.split(engine, table, X, times)
        self.engine = engine
        if self.examples is not None:
            self.examples.forget([table])  # some of them may have moved
            self.examples.sort_in()
        if self.surges is not None:
            self.surges.settle(engine.ids)
            self.surges.forget(table)
        return new

    def _catch_up(self) -> None:
        """Update alpha with the rows that the engine has learned, also after an interruption."""
        engine, posterior = self.engine, self.alpha_posterior
        if posterior is None or not engine.n_observations:
            return
        n, weights = engine.n_observations - posterior.n_observations, self._latest_weights
        posterior.update(self._latest_times[:n], None if weights is None else weights[:n])
        if engine.n_observations % ROWS_PER_ALPHA == 0:
            learned = posterior.mean(engine.n_opened)
            engine.set_alpha(min(max(learned, SMALLEST_PARAMETER), LARGEST_PARAMETER))

    def widen(self, n_features: int, absent: float = 0.0) -> None:
        """Add features, which have the value ``absent`` in all rows so far: 0, or NaN for a missing cell."""
        self.__dict__.pop("fingerprint", None)
        if self.examples is not None:
            self.examples.widen(n_features, absent)
        if not math.isnan(absent):
            self.engine = self.engine.widen(n_features)
            return
        self.engine = missing.widen_by_missing(self.engine, self.family, n_features)

    def config(self) -> dict[str, Any]:
        """Return what a file needs in addition to ``arrays``: plain values, families and dynamics."""
        self._catch_up()
        config = {
            "hyperparameters": {
                "family": self.family,
                "dynamics": self.dynamics,
                "alpha": self.alpha,
                "memory": self.engine.model.memory,
            }
            | ({"cloud": True} if self.engine.model.cloud else {}),
            "n_features": self.engine.n_features,
            "clock": self.clock.value,
        }
        if self.alpha_posterior is not None:
            config["prior_alpha"] = self.alpha_posterior.prior_mean
        return config | self.names.to_plain()

    def arrays(self) -> Arrays:
        """Return the arrays of a file, from which the learner continues to the bit."""
        modes = self.engine.model.modes
        return self._state() | dict(zip(schema.MODES, modes, strict=True))

    def _state(self) -> Arrays:
        """Return the arrays of a state: all except the modes."""
        self._catch_up()
        arrays = self.engine.arrays()
        if self._saves_sketch:
            arrays |= self.sketch.arrays()
        if self.examples is not None:
            arrays |= self.examples.arrays()
        if self.surges is not None:
            arrays |= self.surges.arrays(self.engine.ids)
        if self.alpha_posterior is not None:
            arrays |= self.alpha_posterior.arrays()
        return arrays

    @classmethod
    def restore(cls, spec: ModelSpec, config: Mapping[str, Any], arrays: Arrays) -> Learner:
        """Return the learner that ``config`` and ``arrays`` describe; raise ``ValueError`` if they are inconsistent."""
        n_features, clock = config["n_features"], Clock(config["clock"])
        if n_features < 1:
            raise ValueError(f"its n_features is {n_features!r}")
        known = spec.model(**config["hyperparameters"])
        if spec.family.known and type(known.family) is not type(spec.family):
            raise ValueError(f"its family was given as {spec.family!r}, and is {known.family!r}")
        if known.family.width not in (None, n_features):
            raise ValueError(f"its family is for {known.family.width} features, and it has {n_features}")
        if spec.learn_alpha and not known.dynamics.nonnegative:
            raise ValueError("learn_alpha needs a kernel that is never negative")
        modes = modes_of(known.dynamics, arrays)
        arrays = {name: array for name, array in arrays.items() if name not in schema.MODES}
        widest = max(array.shape[-1] for array in arrays.values() if array.ndim)
        # Before memory is allocated.
        if n_features > max(widest, known.family.width or 0) and not known.family.rows.grows:
            raise ValueError(f"it promises {n_features} features, and its widest array has {widest}")
        learner = cls(spec, replace(known, modes=modes), clock, n_features)
        if spec.learn_alpha:
            prior_mean = positive("prior alpha", config["prior_alpha"])
            learner.alpha_posterior = AlphaPosterior(prior_mean, learner.engine.model.modes)
        learner.set_arrays(arrays)
        learner.names = Names.from_plain(config, learner.engine.n_opened)
        return learner

    @classmethod
    def of_arrays(cls, spec: ModelSpec, clock: Clock, engine: Engine, arrays: Arrays) -> Learner:
        """Return a learner whose engine is like the given one, and has these arrays."""
        known = spec.given
        assert known is not None
        told = replace(known, modes=engine.model.modes, cloud=engine.model.cloud)
        learner = cls(spec, told, clock, engine.n_features)
        learner.engine = missing.with_family(learner.engine, engine.model.family)
        learner.engine.restore(arrays)
        learner._n_unscored = learner.engine.n_observations
        return learner

    def set_arrays(self, arrays: Arrays) -> None:
        """Replace what was learned by the arrays of a learner of the same model; raise ``ValueError`` for others."""
        posterior = self.alpha_posterior
        of_alpha = {} if posterior is None else schema.ALPHA
        known = schema.OF_ENGINES | schema.NOVELTY | schema.SURGES | schema.OF_EXAMPLES | schema.KEPT | of_alpha
        unknown = sorted(arrays.keys() - known)
        if unknown:
            raise ValueError(f"it has arrays that this dyncrp does not know, {unknown}: a newer one wrote it")
        kept = NoveltySketch() if arrays.keys().isdisjoint(schema.NOVELTY) else NoveltySketch.restore(arrays)
        reservoir = self.examples
        if reservoir is not None:
            size, kind, D = reservoir.size, reservoir.kind, self.engine.n_features
            none = arrays.keys().isdisjoint(schema.OF_EXAMPLES)
            reservoir = Reservoir(size, kind) if none else Reservoir.restore(size, D, kind, arrays)
        surges = self.surges and Surges(self.surges.rate)
        if surges is not None and not arrays.keys().isdisjoint(schema.SURGES):
            surges = Surges.restore(surges.rate, arrays, int(np.max(arrays.get("n_observations", 0))))
        schema.check(arrays, of_alpha, {"M": len(self.engine.model.modes.rates)})
        engine = missing.engine_for_arrays(self.engine, self.family, arrays)
        engine.restore(arrays)  # the last call that can fail, so that an error changes nothing
        self.engine, self.sketch, self.examples, self.surges = engine, kept, reservoir, surges
        self._sketch_before, self._n_unscored = kept, engine.n_observations - kept.n
        if posterior is not None:
            posterior.restore(arrays, engine.n_observations)
            self._latest_times, self._latest_weights = np.zeros(0), None

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that are the same for learners of the same model, features and kind of times."""
        engine, posterior = self.engine, self.alpha_posterior
        alpha = engine.model.alpha if posterior is None else posterior.prior_mean
        told = self.family, self.dynamics, alpha, engine.model.memory, engine.model.rules, posterior is None
        n_features = 0 if self.family.rows.grows else engine.n_features  # it grows with the vocabulary
        return digest(*told, n_features, self.clock.value)

    def to_state(self) -> bytes:
        """Return what was learned as bytes, for another learner of the same model."""
        clock, n_features = CLOCKS.index(self.clock), self.engine.n_features
        if self.names.to_plain():
            raise ValueError("a state does not hold names or merged ids: keep the model with to_bytes")
        return HEAD.pack(self.fingerprint, clock, n_features, self.alpha) + pack(self._state())

    def set_state(self, content: bytes) -> None:
        """Replace what was learned by a state of a learner of the same model; raise ``ValueError`` for others."""
        content = as_bytes(content)
        fingerprint, clock, n_features, alpha = read_head(content)
        if fingerprint != self.fingerprint:
            told = {"features": (n_features, self.engine.n_features), "times": (clock, CLOCKS.index(self.clock))}
            other = [name for name, (its, mine) in told.items() if its != mine]
            what = {
                "features": f"{n_features} features, not {self.engine.n_features}",
                "times": "another kind of times",
            }
            found = " and ".join(what[name] for name in other) or "other parameters than this one"
            raise ValueError(f"this state is of a model with {found}")
        self.set_arrays(unpack(content, HEAD.size))
        self.names = Names()  # a state has none
        if self.alpha_posterior is not None:
            self.engine.set_alpha(alpha)

    @classmethod
    def from_state(cls, spec: ModelSpec, model: Model, content: bytes) -> Learner:
        """Return a learner of this model that continues from a state, see ``to_state``."""
        content = as_bytes(content)
        _, clock, n_features, _ = read_head(content)
        if not 0 < n_features <= len(content) or clock >= len(CLOCKS):
            raise ValueError("this is not the state of a model")
        learner = cls(spec, model, CLOCKS[clock], n_features)
        learner.set_state(content)
        return learner


def _part(constraints: Constraints | None, rows: slice) -> Constraints | None:
    return None if constraints is None else constraints.part(rows)

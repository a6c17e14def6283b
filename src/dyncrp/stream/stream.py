"""Stream: a model at work on one stream. The estimator, river, Spark and the others each hold one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from dyncrp.arrays.checks import BadLabel, Clock, as_observations, as_times
from dyncrp.arrays.exchange import readable
from dyncrp.engine.missing import takes_missing
from dyncrp.engine.schema import check_config, check_numbers
from dyncrp.engine.types import Arrays, Engine, Float, Rows, WordEngine
from dyncrp.families.base import check_rows, first_missing
from dyncrp.input.constraints import Constraints
from dyncrp.input.input import Input, require_width
from dyncrp.input.weights import as_weights
from dyncrp.input.words import forgets_after, pieces
from dyncrp.io import files, model_file
from dyncrp.search import Candidate
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.events import Batch
from dyncrp.stream.keeping import type_of_learner
from dyncrp.stream.learner import Learner
from dyncrp.stream.predictions import PredictingTables
from dyncrp.stream.tables import LEVELS, no_edits
from dyncrp.stream.turn import Turn, change, changing, whole
from dyncrp.stream.warmup import Searching, Warmup

Told = tuple[Any, Any, Any] | None  # labels, cannot_link and weights of rows, if any were given


class Stream(PredictingTables):
    """A model at work on one stream: it learns rows, predicts, and can be edited, saved and loaded.

    If hyperparameters are unknown, a stream begins with a warm-up, see ``Warmup``. Until it is over, tables and ids are
    provisional. The result does not depend on how the rows are divided into calls.

    Parameters
    ----------
    spec : ModelSpec
        The checked parameters; see ``ModelSpec.resolve``.
    input : Input, optional
        How rows are read. By default, the first rows decide.
    expects_missing : bool, default=False
        Whether to learn a family that takes missing cells even if no cell of the first rows is missing.

    Attributes
    ----------
    spec : ModelSpec
        The parameters.
    input : Input
        How rows are read, with the categories and words that have come so far.
    warmup : Warmup or None
        The warm-up, None once it is over, and before the first row.
    searching : Searching
        When a search for unknown hyperparameters is done; it may be set before the first row.
    candidates : list of Candidate or None
        The candidates of the search for unknown hyperparameters. None before the search, and after loading.
    batch : Batch or None
        What the rows of the last call of ``learn`` with ``remember`` did.
    cluster_of : mapping from int to int
        The clusters of tables by id, for events.
    on_event : callable or None
        A function that is called with each event, once ids are final.

    Examples
    --------
    >>> from dyncrp import Gaussian
    >>> from dyncrp.search.spec import ModelSpec
    >>> stream = Stream(ModelSpec.resolve(Gaussian(1.0, 100.0)))
    >>> stream.learn([[0.0], [9.0], [0.2]]).trace.labels
    array([0, 1, 0])
    >>> stream.predict([[8.8], [-40.0]])
    array([ 1, -1])
    """

    def __init__(self, spec: ModelSpec, input: Input | None = None, *, expects_missing: bool = False) -> None:
        super().__init__(spec, Input() if input is None else input)
        self.candidates: list[Candidate] | None = None
        self.searching, self._expects_missing = Searching.AT_ONCE, expects_missing
        self.warmup: Warmup | None = None
        self._learner: Learner | None = None  # after it

    # Properties

    @property
    def started(self) -> bool:
        """Whether any row was learned."""
        return self._learner is not None or self.warmup is not None

    @property
    def learned(self) -> bool:
        """Whether the warm-up is over: hyperparameters, tables and ids are final."""
        return self._learner is not None

    @property
    def learner(self) -> Learner:
        """The learner, which has the hyperparameters in use."""
        if self._learner is not None:
            return self._learner
        if self.warmup is None:
            raise ValueError("this stream has learned no rows yet")
        return self.warmup.learner

    @property
    def n_rows(self) -> int:
        """The number of rows learned."""
        return self.engine.n_observations if self.started else 0

    # Learning

    def learn(
        self,
        X: Any,
        times: Any = None,
        *,
        labels: Iterable[Any] | None = None,
        cannot_link: Iterable[Any] | None = None,
        sample_weight: Any = None,
        whole: bool = False,
        remember: bool = True,
    ) -> Batch:
        """Learn from the next rows. All of them are checked first; if one is invalid, none is learned.

        Parameters
        ----------
        X : array-like of shape (n, D), DataFrame, list of documents, or NamedRows
            The rows.
        times : array-like of shape (n,), optional
            Their times. By default, the index of arrival.
        labels, cannot_link : iterable of length n, optional
            Constraints, see ``DynamicalMixture.partial_fit``.
        sample_weight : array-like of shape (n,), optional
            How many rows each counts as, see ``DynamicalMixture.partial_fit``.
        whole : bool, default=False
            Whether to learn unknown hyperparameters from all of these rows, up to ``warmup``, if they are the first.
        remember : bool, default=True
            Whether ``batch`` and ``events`` describe these rows afterwards.

        Returns
        -------
        Batch
            What the rows did, such as ``batch.trace.labels``.
        """
        told = None
        if labels is not None or cannot_link is not None or sample_weight is not None:
            told = labels, cannot_link, sample_weight
        return change(self, self._learn, X, times, told, whole, remember)

    def _learn(self, X: Any, times: Any, told: Told, whole: bool, remember: bool, /) -> Batch:
        learner = self._learner if self.warmup is None else self.warmup.learner
        if learner is not None and self.input.names is None and learner.engine.accepts(X, 2):
            done = self._continue(X, self.input, times, told, remember=remember, plain=True)
        elif self.input.holds_words(X, self.spec.family):
            done = self._learn_documents(X, times, told, whole=whole, remember=remember)
        elif learner is not None:
            rows, input = self.input.read(X, learner.family)
            require_width(rows, learner.engine.n_features)
            done = self._continue(rows, input, times, told, remember=remember, given=X)
        else:
            input, spec = self.input.begin(X, self.spec)
            rows, input = input.read(X, spec.family)
            done = self._start(rows, input, spec, times, told, whole=whole, remember=remember)
        if remember:
            self._edits = no_edits()
        return done

    def _learn_documents(self, X: Any, times: Any, told: Told, *, whole: bool, remember: bool) -> Batch:
        """Learn from documents. Words are forgotten at fixed rows, however a stream is divided into calls."""
        input, spec = self.input, self.spec
        if not self.started:
            input, spec = input.begin(X, spec)
        documents = input.read_documents(X)
        vocabulary = input.vocabulary
        assert vocabulary is not None
        edges = self._pieces(documents.n)
        if len(edges) > 2:  # check everything before the first piece is learned
            if told is not None:
                labels, cannot_link, weights = (None if one is None else list(one) for one in told)
                told = labels, cannot_link, weights
                _, ahead = self._constraints(told, documents.n)
                if ahead:
                    raise ValueError(
                        f"{documents.n} documents are learned in {len(edges) - 1} parts: labels cannot say ids "
                        "of tables that open among them; use names, or learn the documents in several calls"
                    )
            if times is not None:
                as_times(times, n=documents.n, last=self.engine.time if self.started else -math.inf)
                times = list(times)
        done: list[Batch] = []
        for begin, end in pairwise(edges):
            rows, added = vocabulary.encode(documents.part(begin, end))
            t, *some = (one if one is None or len(edges) == 2 else one[begin:end] for one in (times, *(told or ())))
            known: Told = (some[0], some[1], some[2]) if some else None
            n_before = self.n_rows
            try:
                if self.started:
                    now = self._continue(rows, input, t, known, remember=remember)
                else:
                    now = self._start(rows, input, spec, t, known, whole=whole, remember=remember)
            finally:  # an interrupted call may have learned some of the rows
                if self.n_rows > n_before:
                    vocabulary.add(added)
            done.append(now)
            if self.learned and forgets_after(self.engine.n_observations):
                vocabulary.forget(cast(WordEngine, self.engine).word_totals().columns)
        if len(done) == 1:
            return done[0]
        joined = Batch.of_parts(done)
        if remember:
            self.batch = joined
        return joined

    def _pieces(self, n: int) -> list[int]:
        """Return where to divide n documents, so that words can be forgotten there. Not during the warm-up."""
        before = self.n_rows
        least = 0 if self.learned or self.spec.given else self.spec.warmup
        return [edge for edge in pieces(before, n) if edge in (0, n) or before + edge >= least]

    def _start(
        self, rows: Rows, input: Input, spec: ModelSpec, times: Any, told: Told, *, whole: bool, remember: bool
    ) -> Batch:
        clock = Clock.of(times)
        spec.check_clock(clock)
        rows = check_rows(spec.family, rows)
        t = np.arange(len(rows), dtype=np.float64) if times is None else as_times(times, n=len(rows))
        constraints, _ = (None, False) if told is None else self._constraints(told, len(rows))
        warmup = Warmup(spec, clock, self.searching, missing=self._expects_missing)
        done = warmup.learn(rows, t, constraints, whole=whole, batch=remember)
        self.input = input
        self._take(warmup)  # last, since ``on_event`` may read the stream
        return done

    def _continue(
        self,
        rows: Rows,
        input: Input,
        times: Any,
        told: Told,
        *,
        remember: bool,
        plain: bool = False,
        given: Any = None,
    ) -> Batch:
        """Learn from more rows. plain: whether they need no check. given: the input from which they were read."""
        learner = self._learner
        if learner is None or times is not None or learner.clock is not Clock.INDEX:
            learner = self.learner
            learner.clock.check(Clock.of(times))
        constraints, ahead = (None, False) if told is None else self._constraints(told, len(rows))
        if self.warmup is None:
            rows, n_before = rows if plain else check_rows(learner.family, rows), learner.engine.n_observations
            if ahead:  # it may be refused in the midst
                learner = deepcopy(learner)
            try:
                done = learner.run(rows, learner.times(times, len(rows)), constraints, whole=plain)
            except BadLabel as error:
                raise BadLabel(error.reason, error.row - n_before) from None
            except BaseException:  # an interrupted call may have learned some of the rows
                self._learner = learner
                if learner.engine.n_observations > n_before:
                    self.input = input
                if learner.interrupted is not None:
                    self.batch = learner.interrupted if remember else self.batch
                    self._report(learner.interrupted)
                raise
            self._learner, self.input = learner, input
            if remember:
                self.batch = done
            if self.on_event is not None:
                self._report(done)
            return done
        t = learner.times(times, len(rows))
        if self.input.looks_different(given, self.spec):
            return self._start_again(given, t, constraints, remember=remember)
        rows, n_before = self.warmup.check(rows), self.n_rows
        try:
            done = self.warmup.learn(rows, t, constraints, batch=remember)
        except BadLabel as error:
            raise BadLabel(error.reason, error.row - n_before) from None
        finally:
            if self.n_rows > n_before:
                self.input = input.with_frame(given)
        self._take(self.warmup)
        return done

    def _start_again(self, X: Any, t: Float, constraints: Constraints | None, *, remember: bool) -> Batch:
        """Begin again with the rows so far and X (n, D) at times t (n,): X shows that columns hold something else."""
        before, frame = self.warmup, self.input.stack(X)
        assert before is not None
        input, spec = Input().begin(frame, self.spec)
        rows, input = input.read(frame, spec.family)
        rows, times = check_rows(spec.family, rows), np.concatenate([before.times, t])
        warmup = before.again(spec)
        warmup.learn(rows[: -len(t)], times[: -len(t)], before.constraints, batch=not remember)
        done = warmup.learn(rows[-len(t) :], t, constraints, batch=remember)
        self.input = input
        self._take(warmup)
        return done

    def _constraints(self, told: tuple[Any, Any, Any], n: int) -> tuple[Constraints | None, bool]:
        """Return what labels, cannot_link and weights say of n rows, and whether some of it may still turn out wrong.

        An id may be that of a table that opens with an earlier one of these rows.
        """
        labels, cannot_link, given = told
        constraints, ahead = Constraints.read(labels, cannot_link, n), False
        if constraints is not None:
            self._require_map("what labels and cannot_link say")
            provisional = 0
            if not self.learned and self.spec.given is None:
                needed = self.spec.warmup if self.warmup is None else self.warmup.needed
                provisional = max(needed - self.n_rows, 0) if self.searching is Searching.AT_ONCE else n
            n_opened = self.engine.n_opened if self.learned else self.n_rows
            ahead = constraints.check_ids(n_opened, provisional)
        family = self.family if self.started else self.spec.family
        weights = as_weights(given, n, words=family.sparse)
        if weights is not None:
            constraints = (constraints or Constraints.nothing(n))._replace(weights=weights)
        return constraints, ahead

    def _take(self, warmup: Warmup) -> None:
        """Take over the results of a warm-up. Once it is over, only its learner is kept."""
        if warmup.batch is not None:
            self.batch = warmup.batch
        if warmup.candidates is not None:
            self.candidates = warmup.candidates
        if warmup.over:
            self._learner, self.warmup, self.input = warmup.learner, None, self.input.without_frames()
            self._report(*warmup.history)  # of all rows, since ids are final only now
        else:
            self.warmup = warmup

    @changing
    def end_warmup(self) -> None:
        """Learn unknown hyperparameters from the rows so far, at least 2. Then tables and ids are final."""
        if self.warmup is not None:
            self.warmup.end()
            self._take(self.warmup)

    @changing
    def finish_search(self, *, piece: bool = False) -> None:
        """Finish the search for unknown hyperparameters, if one is due, or do a piece of it."""
        if self.warmup is not None:
            self.warmup.carry_on() if piece else self.warmup.finish()
            self._take(self.warmup)

    def learn_one(self, x: Any, t: Any = None) -> int:
        """Learn from one row x (D,) at time t and return the id of its table. ``batch`` does not change."""
        learner, turn = self._learner, self.turn
        if learner is not None and self.on_event is None and turn.changer is None:
            with turn.lock:
                label = learner.run_plain(x, t)
                if label is None and learner.plain_time(t) is not None:
                    label = self._learn_checked(learner, x, t)
            if label is not None:
                return label
        family = self.spec.family if learner is None else learner.family
        X: Any = [x]
        if type(x) is np.ndarray or not self.input.holds_words(X, family):
            X = family.rows.one(x)
        return int(self.learn(X, None if t is None else [t], remember=False).trace.labels[0])

    def learn_one_in_cluster(self, x: Any, t: Any, level: str) -> int:
        """Learn from one row as ``learn_one`` does; return its cluster as known now, or its table. level: which."""
        if level not in LEVELS or not self.spec.keep_clusters:
            raise ValueError(
                f"level must be one of {LEVELS}, and 'cluster' needs keep_clusters=True; got {level!r} and "
                f"keep_clusters={self.spec.keep_clusters}"
            )
        label = self.learn_one(x, t)
        return label if level == LEVELS[0] else int(self.kept_clusters().latest.of(np.array([label]))[0])

    def _learn_checked(self, learner: Learner, x: Any, t: Any) -> int | None:
        """Learn from one row that only needs to be checked; return None if it needs more, as documents do."""
        family = learner.family
        if family.sparse:
            if self.input.vocabulary is not None or self.input.holds_words([x], family):
                return None
            row: Rows = family.rows.one(x)
        else:
            x = np.asarray(readable(x))
            label = learner.run_plain(x, t)
            if label is not None:
                return label
            X = as_observations(x[None, ...], missing=True)
            require_width(X, learner.engine.n_features)
            if not takes_missing(learner.engine) and first_missing(X) == 0:
                return None
            row = check_rows(learner.engine.model.family, X)[0]
        time = learner.plain_time(t)
        assert time is not None
        return learner.run_one(row, time)

    @changing
    def widen(self, n_features: int, absent: float = 0.0) -> None:
        """Add features, which have the value ``absent`` in all rows so far: 0, or NaN for a missing cell."""
        if self._learner is not None:
            self._learner.widen(n_features, absent)
        elif self.warmup is not None:
            self.warmup.widen(n_features, absent)
            self._take(self.warmup)

    # Bytes

    @whole
    def to_bytes(self) -> bytes:
        """Return the content of a model file, from which the stream continues to the bit. It has no last batch."""
        self.finish_search()
        learner, warmup = self.learner, self.warmup
        config = {"params": dict(self.spec.params), **self.input.to_plain(), **learner.config()}
        arrays = learner.arrays()
        if warmup is not None:
            config, arrays = config | warmup.config(), arrays | warmup.arrays()
        check_numbers(arrays)
        return model_file.dumps(config, arrays)

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "this") -> Self:
        """Return the stream whose ``to_bytes`` returned ``content``. name: the name of the file, for errors."""
        config, arrays = model_file.loads(content, name)
        try:
            check_config(config)
            spec, input = ModelSpec.resolve(**config["params"]), Input.from_plain(config)
            warmup = Warmup.restore(input.in_columns(spec), config, arrays)
            input.check_features(warmup.learner.engine.n_features)
            stream = cls(spec, input)
            stream._take(warmup)
            return stream
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"{error}{model_file.writer(content)}"
            raise ValueError(f"{name} does not hold a DynamicalMixture: {reason}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file, see ``to_bytes``; an existing one is replaced in one step."""
        files.write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the stream that ``save`` wrote, which continues where it stopped."""
        return cls.from_bytes(Path(path).read_bytes(), os.fspath(path))

    @whole
    def to_state(self) -> bytes:
        """Return what was learned, without the parameters; see ``DynamicalMixture.to_state``."""
        if not self.learned:
            raise ValueError("this model still learns its hyperparameters: give them, or keep it with to_bytes")
        if self.input.encoding is not None or self.input.vocabulary is not None:
            raise ValueError("a state does not hold words, of columns or of texts: keep the model with to_bytes")
        return self.learner.to_state()

    @changing
    def set_state(self, content: bytes) -> None:
        """Replace what was learned by a state, which ``to_state`` of a stream with the same parameters returned."""
        if self._learner is not None:
            self._learner.set_state(content)
        else:
            if self.spec.given is None:
                raise ValueError(
                    "a state does not hold hyperparameters, and those of this model are unknown: learn them with "
                    "dyncrp.tune and give them, or use to_bytes and from_bytes"
                )
            learner = type_of_learner(self.spec).from_state(self.spec, self.spec.given, content)
            self._learner, self.warmup = learner, None
        self.batch, self._edits = None, no_edits()

    @classmethod
    def from_state(cls, spec: ModelSpec, content: bytes) -> Self:
        """Return a stream with known hyperparameters that continues from a state, see ``to_state``."""
        stream = cls(spec)
        stream.set_state(content)
        return stream

    @classmethod
    def of_arrays(cls, like: Stream, engine: Engine, arrays: Arrays) -> Self:
        """Return a stream with the hyperparameters, rules, input and clock of another, and the arrays of an engine."""
        model = engine.model
        known = {"family": like.family, "dynamics": like.dynamics, "alpha": model.alpha, "memory": model.memory}
        spec = ModelSpec.resolve(**{**like.spec.params, **known, "resolution": 1.0})
        stream = cls(spec, like.input)
        stream.candidates = []  # nothing was unknown
        stream._learner = type_of_learner(spec).of_arrays(spec, like.clock, engine, arrays)
        return stream

    @whole
    def __getstate__(self) -> dict[str, Any]:
        self.finish_search()
        state = {**self.__dict__, "on_event": None}  # the user's function may not be picklable
        del state["turn"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, turn=Turn())

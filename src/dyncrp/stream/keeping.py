"""A learner that keeps clusters: at rows that ``KeptClusters`` names, it looks whether to join tables anew."""

from __future__ import annotations

from typing import Any

from dyncrp.arrays.checks import Clock
from dyncrp.engine import schema
from dyncrp.engine.types import Arrays, Engine, Float, Model, Rows, Trace, concatenate
from dyncrp.input.constraints import Constraints
from dyncrp.joining.kept import Joining, KeptClusters
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.events import Batch
from dyncrp.stream.learner import Learner


class KeepingLearner(Learner):
    """Learns a stream, and keeps its clusters. What is learned is the same.

    kept: the clusters. joinings: those that the latest call or edit has made.
    """

    kept: KeptClusters
    joinings: list[Joining]

    def __init__(self, spec: ModelSpec, model: Model, clock: Clock, n_features: int) -> None:
        super().__init__(spec, model, clock, n_features)
        self.kept, self.joinings = KeptClusters(), []

    @classmethod
    def of_arrays(cls, spec: ModelSpec, clock: Clock, engine: Engine, arrays: Arrays) -> KeepingLearner:
        """Return a learner whose engine is like the given one, and has these arrays. Its tables are joined at once."""
        learner = super().of_arrays(spec, clock, engine, arrays)
        assert isinstance(learner, KeepingLearner)
        learner._join_edited()
        return learner

    def run(self, X: Rows, times: Float, constraints: Constraints | None = None, *, whole: bool = False) -> Batch:
        """Learn from rows (n, D). whole: whether it is known that no cell is missing."""
        before, self.joinings = self.kept.latest, []
        try:
            done = super().run(X, times, constraints, whole=whole)
        except BaseException:
            if self.interrupted is not None:
                self.interrupted.joinings = (before, *self.joinings)
            raise
        done.joinings = (before, *self.joinings)
        return done

    def _run(self, X: Rows, times: Float, constraints: Constraints | None) -> Trace:
        """Learn from rows, and stop where one is to look at the tables."""
        self._look()  # after an interruption
        traces, begin = [], 0
        while begin < len(X):
            part = slice(begin, min(begin + self.kept.due - self.engine.n_observations, len(X)))
            told = None if constraints is None else constraints.part(part)
            traces.append(super()._run(X[part], times[part], told))
            self._look()
            begin = part.stop
        return concatenate(traces) if traces else super()._run(X, times, constraints)

    def run_plain(self, x: Any, t: Any) -> int | None:
        """Learn from one row x (D,) at time t and return its label; return None if x or t must be checked first."""
        label = super().run_plain(x, t)
        self._look()
        return label

    def run_one(self, x: Rows, t: float) -> int:
        """Learn from one row x (D,), checked by the family, and return its label."""
        label = super().run_one(x, t)
        self._look()
        return label

    def _look(self) -> None:
        if self.engine.n_observations >= self.kept.due:
            self._join(edited=False)

    def _join(self, *, edited: bool) -> None:
        joining = self.kept.look(self.engine, edited=edited)
        if joining is not None:
            self.joinings.append(joining)
            self._group()

    def _join_edited(self) -> None:
        self.joinings = []
        self._join(edited=True)

    def _group(self) -> None:
        """Let surges be those of the clusters, from the next row on."""
        if self.surges is not None:
            now = self.kept.latest
            self.surges.group(
                dict(zip(now.tables.tolist(), now.clusters.tolist(), strict=True)), self.engine.n_observations
            )

    def merge(self, a: int, b: int) -> int:
        """Merge two open tables; return the older id. The other id stands for it from now on."""
        kept = super().merge(a, b)
        self._join_edited()
        return kept

    def split(self, table: int, X: Rows, times: Float) -> int:
        """Move rows X (n, D), learned at times (n,), from an open table to a new one; return its id."""
        new = super().split(table, X, times)
        self._join_edited()
        return new

    def _state(self) -> Arrays:
        """Return the arrays of a state: all except the modes."""
        return super()._state() | self.kept.arrays()

    def set_arrays(self, arrays: Arrays) -> None:
        """Replace what was learned by the arrays of a learner of the same model; raise ``ValueError`` for others."""
        none = arrays.keys().isdisjoint(schema.KEPT)
        kept = KeptClusters() if none else KeptClusters.restore(arrays)
        super().set_arrays(arrays)
        self.kept, self.joinings = kept, []
        self._group()


def type_of_learner(spec: ModelSpec) -> type[Learner]:
    """Return the type of the learner that a model needs."""
    return KeepingLearner if spec.keep_clusters else Learner

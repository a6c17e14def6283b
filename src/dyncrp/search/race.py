"""Hyperparameters of counts of words: many candidates learn the first documents, and the worst are dropped.

Candidates are rated by the prequential log evidence Σ log p(x_n | x_<n). How a stream forgets shows only late, when the
first topics have gone: in a stream that forgets, the first thousand documents may suggest that it does not. So the race
uses ten times as many, and keeps a candidate of each dynamics for a long time.

Among concentrations and alphas of similar evidence, smaller tables have slightly more evidence, as with other families,
but are no better. So the dynamics are those of the candidate with the most evidence. Among the candidates with these
dynamics and similar evidence, the one with the fewest tables is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, TypeVar

from dyncrp.arrays.counts import Counts
from dyncrp.dynamics import Dynamics
from dyncrp.engine import make_engine
from dyncrp.engine.types import Engine, Float, Model
from dyncrp.families import Family, protocols
from dyncrp.search.candidate import Candidate, Found, Steps, durations
from dyncrp.search.spec import ModelSpec

T = TypeVar("T")

ALPHAS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
FIRST_LOOK = 250  # documents before candidates are dropped for the first time; this doubles each time
KEPT = 3  # one candidate in this many is kept,
FEWEST_KEPT = 24  # but at least this many,
LAST_QUOTA = 4000  # and the best of each dynamics until this many documents have come
MOST_STARTED = 3000  # candidates per kind of dynamics; with two unknown durations there would be many more
HARDLY_TOLD_APART = 0.1  # nats per document


class _Runner(NamedTuple):
    """A candidate in the race.

    place: in the grid: its kind of dynamics, and the indices of its durations, family and alpha. price: the penalty
    for its unknown durations.
    """

    family: Family
    dynamics: Dynamics
    alpha: float
    engine: Engine
    place: tuple[int, ...]
    price: float

    @property
    def score(self) -> tuple[bool, float]:
        """The rank: candidates with clusters first, then by evidence."""
        engine = self.engine
        return engine.n_opened <= max(1, engine.n_observations // 2), engine.log_evidence - self.price

    def is_next_to(self, other: _Runner) -> bool:
        """Whether the two are neighbours in the grid: of one kind, and at most one step apart in each direction."""
        (kind, *here), (other_kind, *there) = self.place, other.place
        return kind == other_kind and all(abs(a - b) <= 1 for a, b in zip(here, there, strict=True))


def race(spec: ModelSpec, X: Counts, times: Float) -> Steps[Found]:
    """Choose the unknowns by the evidence of n documents X at times (n,)."""
    runners, dropped = _start(spec, X, times), list[_Runner]()
    n, end = len(X), 0
    while end < n:
        end = min(n, max(FIRST_LOOK, 2 * end))
        runners = yield from _run(runners, X[:end], times[:end])
        if end < n:
            runners, others = _part(runners, quota=end < LAST_QUOTA)
            dropped += others
    # A dropped candidate may be better than the best after all, so the neighbours of the best are tried again.
    while True:
        again = [runner for runner in dropped if runner.is_next_to(runners[0])]
        if not again:
            break
        dropped = [runner for runner in dropped if not runner.is_next_to(runners[0])]
        runners = yield from _run([*runners, *again], X, times)
    best = runners[0]
    least = best.engine.log_evidence - HARDLY_TOLD_APART * n
    near = [runner for runner in runners if runner.dynamics is best.dynamics and runner.score[0] == best.score[0]]
    near = [runner for runner in near if runner.engine.log_evidence >= least]  # the best is one of them
    chosen = min(near, key=lambda runner: (runner.engine.n_opened, -runner.engine.log_evidence))
    candidates = [_as_candidate(runner, runner.engine.log_evidence, runner is chosen) for runner in runners]
    candidates += [_as_candidate(runner, -math.inf, False) for runner in dropped]
    return spec.model(chosen.family, chosen.dynamics, chosen.alpha), candidates


def _start(spec: ModelSpec, X: Counts, times: Float) -> list[_Runner]:
    """Return all candidates, before they have learned anything."""
    runners = []
    for at, kind in enumerate(spec.dynamics):
        lengths, price = durations(kind, times), math.log(len(X)) * kind.n_unknown
        families: Sequence[Family] = protocols.proposals(spec.family, X)  # type: ignore[arg-type]
        alphas: Sequence[float] = ALPHAS if spec.alpha is None else (spec.alpha,)
        room = MOST_STARTED // len(lengths) ** kind.n_unknown
        while 1 < len(families) * len(alphas) > room:  # take every other one, except for periods
            families, alphas = (_thin(families), alphas) if len(families) > len(alphas) else (families, _thin(alphas))
        for which in product(range(len(lengths)), repeat=kind.n_unknown):
            dynamics = kind.with_durations([lengths[i] for i in which])
            modes = dynamics.modes()
            for (i, family), (j, alpha) in product(enumerate(families), enumerate(alphas)):
                engine = make_engine(Model(family, dynamics, alpha, modes=modes), X.n_columns)
                runners.append(_Runner(family, dynamics, alpha, engine, (at, *which, i, j), price))
    return runners


def _run(runners: list[_Runner], X: Counts, times: Float) -> Steps[list[_Runner]]:
    """Let runners continue to the end of documents X at times, and return them, the best first."""
    parts = {begin: (X[begin:], times[begin:]) for begin in {runner.engine.n_observations for runner in runners}}
    behind = [runner for runner in runners if runner.engine.n_observations < len(X)]
    there = [runner for runner in runners if runner.engine.n_observations == len(X)]
    engines = yield [(_carry_on, (runner.engine, *parts[runner.engine.n_observations])) for runner in behind]
    moved = [runner._replace(engine=engine) for runner, engine in zip(behind, engines, strict=True)]
    return sorted([*there, *moved], key=lambda runner: (runner.score, [-i for i in runner.place]), reverse=True)


def _thin(values: Sequence[T]) -> Sequence[T]:
    """Return every other value, including the middle one.

    >>> _thin((1, 2, 3, 4, 5)), _thin((1, 2, 3))
    ((1, 3, 5), (2,))
    """
    return values[len(values) // 2 % 2 :: 2]


def _carry_on(engine: Engine, X: Counts, times: Float) -> Engine:
    engine.run(X, times)
    return engine


def _part(ranked: list[_Runner], *, quota: bool) -> tuple[list[_Runner], list[_Runner]]:
    """Return the runners that stay and those that are dropped, the best first."""
    most = max(FEWEST_KEPT, len(ranked) // KEPT)
    kept, dropped, seen = ranked[:most], list[_Runner](), {runner.place[:-2] for runner in ranked[:most]}
    for runner in ranked[most:]:
        stays = quota and runner.place[:-2] not in seen
        seen.add(runner.place[:-2])
        (kept if stays else dropped).append(runner)
    return kept, dropped


def _as_candidate(runner: _Runner, log_evidence: float, chosen: bool) -> Candidate:
    told = runner.family, runner.dynamics, runner.alpha
    return Candidate(*told, log_evidence, runner.engine.n_opened, math.nan, math.isfinite(log_evidence), chosen)

"""Hyperparameters of counts of words: many candidates learn the first documents, and the worst are dropped.

Candidates are rated by the prequential log evidence Σ log p(x_n | x_<n). How a stream forgets shows only late, when the
first topics have gone: in a stream that forgets, the first thousand documents may suggest that it does not. So the race
uses ten times as many, and keeps a candidate of each dynamics for a long time.

Among concentrations and alphas of similar evidence, smaller tables have slightly more evidence, as with other families,
but are no better. So the dynamics are those of the candidate with the most evidence. Among the candidates with these
dynamics and similar evidence, the one with the fewest tables is chosen.

Hundreds of candidates that each know all words of long texts would need gigabytes. So such candidates are put away as
bytes between their turns. Those that there is no room for start again from the first document; the bits are the same.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, TypeVar

from dyncrp.arrays.counts import Counts
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
MOST_WORDS = 1 << 22  # words that all candidates learn before the next look; with more, they are put away,
MOST_BYTES = 1 << 26  # in at most so many bytes
BYTES_OF_WORD = 16  # of each word of a table, at most so many in all as there are words of documents


class _Runner(NamedTuple):
    """A candidate in the race.

    place: in the grid: its kind of dynamics, and the indices of its durations, family and alpha. price: the penalty
    for its unknown durations. n_rows: how many documents it has learned, n_opened and log_evidence: with what result.
    state: its engine, as such or as bytes, or None if it must start again.
    """

    model: Model
    place: tuple[int, ...]
    price: float
    n_rows: int = 0
    n_opened: int = 0
    log_evidence: float = 0.0
    state: Engine | bytes | None = None

    @property
    def score(self) -> tuple[bool, float]:
        """The rank: candidates with clusters first, then by evidence."""
        return self.n_opened <= max(1, self.n_rows // 2), self.log_evidence - self.price

    @property
    def goes_on_from(self) -> int:
        """The document that it learns next."""
        return 0 if self.state is None else self.n_rows

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
        runners = yield from _run(runners, X[:end], times[:end], spec.n_jobs, keep=end < n)
        if end < n:
            runners, others = _part(runners, quota=end < LAST_QUOTA)
            dropped += [runner._replace(state=None) for runner in others]
    # A dropped candidate may be better than the best after all, so the neighbours of the best are tried again.
    while True:
        again = [runner for runner in dropped if runner.is_next_to(runners[0])]
        if not again:
            break
        dropped = [runner for runner in dropped if not runner.is_next_to(runners[0])]
        runners = yield from _run([*runners, *again], X, times, spec.n_jobs)
    best = runners[0]
    least = best.log_evidence - HARDLY_TOLD_APART * n
    near = [runner for runner in runners if runner.place[:-2] == best.place[:-2]]  # of the same dynamics
    near = [runner for runner in near if runner.score[0] == best.score[0]]
    near = [runner for runner in near if runner.log_evidence >= least]  # the best is one of them
    chosen = min(near, key=lambda runner: (runner.n_opened, -runner.log_evidence))
    candidates = [_as_candidate(runner, runner.log_evidence, runner is chosen) for runner in runners]
    candidates += [_as_candidate(runner, -math.inf, False) for runner in dropped]
    return spec.model(chosen.model.family, chosen.model.dynamics, chosen.model.alpha), candidates


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
                model = Model(family, dynamics, alpha, modes=modes)
                runners.append(_Runner(model, (at, *which, i, j), price))
    return runners


def _run(
    runners: list[_Runner], X: Counts, times: Float, n_jobs: int | None, *, keep: bool = False
) -> Steps[list[_Runner]]:
    """Let runners continue to the end of documents X at times, and return them, the best first.

    keep: whether they will continue after that. Only the best of them are kept as bytes, as long as there is room.
    """
    from joblib import effective_n_jobs

    done = [runner for runner in runners if runner.n_rows == len(X)]
    behind = [runner for runner in runners if runner.n_rows < len(X)]
    at_once, pack = len(behind), len(behind) * len(X.data) > MOST_WORDS
    if pack:
        at_once = max(effective_n_jobs(n_jobs), MOST_BYTES // (BYTES_OF_WORD * len(X.data)))
    while behind:
        some, behind = behind[:at_once], behind[at_once:]
        parts = {start: (X[start:], times[start:]) for start in {one.goes_on_from for one in some}}
        jobs = [(_carry_on, (one, *parts[one.goes_on_from], keep, pack)) for one in some]
        done = _ranked(done + (yield jobs))
        room = MOST_BYTES
        for i, runner in enumerate(done):
            room -= len(runner.state) if isinstance(runner.state, bytes) else 0
            if room < 0:
                done[i] = runner._replace(state=None)
    return _ranked(done)


def _ranked(runners: list[_Runner]) -> list[_Runner]:
    return sorted(runners, key=lambda runner: (runner.score, [-i for i in runner.place]), reverse=True)


def _thin(values: Sequence[T]) -> Sequence[T]:
    """Return every other value, including the middle one.

    >>> _thin((1, 2, 3, 4, 5)), _thin((1, 2, 3))
    ((1, 3, 5), (2,))
    """
    return values[len(values) // 2 % 2 :: 2]


def _carry_on(runner: _Runner, X: Counts, times: Float, keep: bool, pack: bool) -> _Runner:
    """Return a runner that has learned documents X at times: from the first one on, if it has no state."""
    engine = runner.state
    if engine is None:
        engine = make_engine(runner.model, X.n_columns)
    elif isinstance(engine, bytes):
        engine = pickle.loads(engine)
    engine.run(X, times)
    state = None if not keep else pickle.dumps(engine) if pack else engine
    return runner._replace(
        n_rows=engine.n_observations, n_opened=engine.n_opened, log_evidence=engine.log_evidence, state=state
    )


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
    told = runner.model.family, runner.model.dynamics, runner.model.alpha
    return Candidate(*told, log_evidence, runner.n_opened, math.nan, math.isfinite(log_evidence), chosen)

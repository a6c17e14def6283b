"""Hyperparameters by the evidence of the first rows of a stream. No labels are needed.

The prequential log evidence Σ log p(x_n | x_<n) rates a model as a density. Real clusters are not quite Gaussian, and
many narrow tables that tile them make a better density, so evidence alone finds far too many. But the places of such
tiles are accidents of the data. So each candidate also clusters both halves of the rows separately, and labels each
half by the other's tables; the agreement is its reproducibility (``reproducibility.py``). The evidence chooses among
the candidates that are nearly as reproducible as the best, or less so if they are far better densities.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.counts import Counts
from dyncrp.dynamics import Dynamics, Stationary
from dyncrp.engine.trials import Trial, try_out
from dyncrp.engine.types import Model, Rows
from dyncrp.families import Columns, Family, protocols
from dyncrp.families.base import first_missing, repeats
from dyncrp.families.protocols import View
from dyncrp.search.candidate import Candidate, Found, Job, Steps, durations, usual_gap
from dyncrp.search.cloud import is_cloud
from dyncrp.search.inliers import find_inliers
from dyncrp.search.race import race
from dyncrp.search.reproducibility import reproducibility, split
from dyncrp.search.spec import ModelSpec

Float = NDArray[np.float64]
Point = tuple[float, ...]  # alpha and the durations

ALPHAS = (0.3, 3.0, 30.0)  # the coarse grid
MEMORIES = (math.inf, 300.0, 100.0, 30.0, 15.0)  # candidates for an unknown memory
STEP_FACTORS = (10.0**0.5, 10.0**0.25, 10.0**0.125)  # steps of alpha and durations after that, up and down
SPREAD_ROUNDS = 8  # how many times the spread of the clusters is estimated again from one start
LEAST_GROWTH = 0.002  # nats per number in the data; a round that gains less is the last
STARTS_STRIDE = 3  # every third run of the coarse grid is a start of such rounds
LEAST_GAIN = 0.05  # nats per number in the data; a smaller gain only makes clusters narrower, not better
RUNS_OF_REPRODUCING = 6  # the cost of a reproducibility, in runs of a candidate
LARGE_GAIN = 0.25  # likewise; coarse clusters that cut through shapes lose this much
FEWEST_TO_SPLIT = 40  # rows; with fewer, all candidates count as reproducible
ONE_TABLE_ALPHA = 1e-6  # so small that a second table opens only if it must
MOST_IN_ONE_TABLE = 0.99  # if one table has a larger share of the rows, there is nothing to reproduce
LEAST_REPRODUCED = 0.4  # narrow tables that tile a cloud without clusters stay below this reproducibility
MOST_TABLES_RATIO = 1.5  # dynamics that open more than this many tables per cluster forget clusters that come back
LEAST_SHARE_OF_BEST = 0.92  # a candidate must reach this share of the best reproducibility
LEAST_SHARE_IF_LARGE_GAIN = 0.75  # or this, if its evidence is higher by a LARGE_GAIN
LEAST_GAIN_OF_FORGETTING = 0.1  # nats per row; see best_dynamics
MOST_REFINED = 0.05  # nats per row; a kind of dynamics further behind on the coarse grid is not refined
REPRODUCED_IF_NO_CLOUD = 0.9  # tables that tile a cloud are less reproducible
ENOUGH_REPRODUCED = 0.98  # no other family is tried if clusters are this reproducible,
MOST_FEATURES = 48  # or if there are more features
OTHER_SCALES = (1.0, 0.3, 0.1)  # scales of the spread of clusters, for another family of independent features,
FULL_SCALES = (1.0, 0.3)  # and for one with covariances,
FEWEST_FEATURES = 3  # which is only tried with so many features: in the plane, tables often follow curves,
LEAST_ROWS_PER_FEATURE = 100  # and with so many rows

_Case = tuple[Family, Dynamics, float]  # a candidate; the search adds its memory and rows


class _Run(NamedTuple):
    """One candidate's run over the rows."""

    family: Family
    dynamics: Dynamics
    alpha: float
    log_evidence: float
    labels: NDArray[np.int64]
    n_tables: int
    reproducibility: float = np.nan
    memory: float = math.inf


def learn(spec: ModelSpec, X: Rows, times: Float, *, missing: bool = False) -> Found:
    """Choose the unknowns by the evidence of the first rows of X (n, D), checked by the family, at times (n,).

    missing: whether the family must take missing cells, even if there are none in X. Returns the hyperparameters at
    the requested resolution, and all candidates in the order in which they were tried. There are none if nothing is
    unknown.
    """
    if spec.given is not None:
        return spec.given, []
    n = spec.warmup
    if len(X) < 2:
        raise ValueError(
            f"1 sample is too few to learn the hyperparameters: pass at least 2 rows ({n:,} is better), or set them all"
        )
    missing = missing or first_missing(X) < len(X)  # rows after the warm-up count too
    found, candidates = Search(spec, X[:n], times[:n], missing=missing).finish()
    return replace(found, family=spec.sharpen(found.family)), candidates


class Search:
    """A search for the unknowns by the evidence of all rows of X (n, D), checked by the family, at times (n,).

    missing: whether the family must take missing cells, in these rows or others. The search can be run piece by piece,
    and the result does not depend on how it is divided. It finds the hyperparameters, without the resolution, and
    returns all candidates. A search that is interrupted within a piece cannot be continued: start another one.
    """

    def __init__(self, spec: ModelSpec, X: Rows, times: Float, *, missing: bool = False) -> None:
        from threadpoolctl import ThreadpoolController

        self._n_jobs = spec.n_jobs
        self._blas = ThreadpoolController()
        if isinstance(X, Counts):
            self._steps = race(spec, X, times)
        else:
            self._steps = _learn_with_missing(spec, X, times) if missing else _learn(spec, X, times)
        self._jobs: list[Job] = []
        self._results: list[Any] | None = None  # of the jobs done so far; None before there are any
        self._found: Found | None = None

    def finish(self) -> Found:
        """Continue the search to its end, and return what it found."""
        found = None
        while found is None:
            found = self.advance(sys.maxsize)
        return found

    def advance(self, n_runs: int) -> Found | None:
        """Continue the search by about n_runs runs of candidates. Return what it found if it has ended, else None."""
        with self._blas.limit(limits=1, user_api="blas"):  # for the same bits on any number of cores
            while self._found is None and n_runs > 0:
                part = []
                for job in self._jobs[len(self._results or ()) :]:
                    if n_runs > 0:
                        part.append(job)
                        n_runs -= RUNS_OF_REPRODUCING if job[0] is _reproduce else 1
                if self._results is not None:
                    self._results += self._run(part)
                if self._results is None or len(self._results) == len(self._jobs):
                    self._step()
        return self._found

    def _run(self, jobs: list[Job]) -> list[Any]:
        """Run jobs, in parallel if n_jobs or joblib asks for it, and return their results in order."""
        from joblib import Parallel, delayed, effective_n_jobs

        if effective_n_jobs(self._n_jobs) == 1:
            return [run(*arguments) for run, arguments in jobs]
        return list(Parallel(n_jobs=self._n_jobs)(delayed(run)(*arguments) for run, arguments in jobs))

    def _step(self) -> None:
        """Send the results, and get the next jobs or the final result."""
        try:
            self._jobs, self._results = self._steps.send(self._results), []  # type: ignore[arg-type]
        except StopIteration as end:
            self._found = end.value


def _learn(spec: ModelSpec, X: Float, times: Float) -> Steps[Found]:
    """Choose the family and a rough alpha, then the dynamics and alpha, then the memory.

    The family comes from a coarse grid, and then from the clusters found. If they are not fully reproducible and the
    family was left open, other families are tried. Dynamics and alpha come from a coarse grid, and then from ever
    smaller steps around its best point. An unknown memory is infinite until then. If a finite memory is better, the
    dynamics are chosen again, since tables that follow their clusters need not be forgotten. A few extreme outliers
    are ignored.
    """
    family, dynamics, alpha = spec.family, spec.dynamics, spec.alpha
    numbers = family.continuous(X.shape[1]) if isinstance(family, Columns) else np.ones(X.shape[1], dtype=bool)
    inliers = find_inliers(X[:, numbers])
    X, times = X[inliers], times[inliers]
    first_memory = MEMORIES[0] if spec.memory is None else spec.memory
    trusted = not repeats(X[:, numbers])
    others = spec.other_families
    if others and not trusted and isinstance(family, Columns) and not np.all(numbers):
        # Repeated numbers beside categories: counts, zeros, marks. Their clusters differ in width, and some have none.
        (family,), others = others, ()
    searches = [_Search(view, times, first_memory, trusted) for view in protocols.views(family, X)]
    search, chosen = searches[0], family
    if not family.known:
        first = next((kind for kind in dynamics if not kind.n_unknown), Stationary())
        kinds = [search.view.family or family for search in searches]
        alphas = ALPHAS if alpha is None else (alpha,)
        starts = []
        for search, kind in zip(searches, kinds, strict=True):
            starts.append((yield from search.best_family(protocols.proposals(kind, search.Z), first, alphas)))
        at = max(range(len(starts)), key=lambda i: starts[i].log_evidence + searches[i].view.log_density)
        search, best = searches[at], (yield from searches[at].refine(kinds[at], starts[at]))
        for other in others if trusted and X.shape[1] <= MOST_FEATURES else ():
            if best.n_tables == 1 or not best.reproducibility < ENOUGH_REPRODUCED:
                break
            if not other.independent and not _can_have_covariances(X):
                continue
            searches.append(_Search(protocols.views(other, X)[0], times, first_memory, trusted))
            some = (best.alpha / 10.0, best.alpha) if alpha is None else (alpha,)
            found = yield from searches[-1].surpass(best, best.log_evidence + search.view.log_density, other, some)
            search, best = (search, best) if found is None else (searches[-1], found)
        if best.n_tables == 1:
            some = (best.alpha, best.alpha / 100.0) if alpha is None else (alpha,)
            best = yield from search.open_up(family, best, some)
        chosen, search.most_tables = best.family, 1 + int(MOST_TABLES_RATIO * best.n_tables)
        if best.n_tables == 1 and first in dynamics:  # one table says nothing about dynamics
            dynamics = (first,)
        if all(kind == first for kind in dynamics) and alpha is not None:
            dynamics = ()
    if dynamics:
        best = yield from search.best_dynamics(chosen, dynamics, alpha)
    if spec.memory is None:
        best = yield from search.best_memory(best)
        open_choice = alpha is None or len(dynamics) > 1 or any(kind.n_unknown for kind in dynamics)
        if best.memory < math.inf and dynamics and open_choice:
            best = yield from search.best_dynamics(best.family, dynamics, alpha)
            best = yield from search.best_memory(best)
    candidates = [c for one in searches for c in one.candidates(best)]
    cloud = trusted and best.n_tables > 1 and search.is_cloud(best)
    return spec.model(search.view.lift(best.family), best.dynamics, best.alpha, best.memory, cloud), candidates


def _can_have_covariances(X: Float) -> bool:
    """Return whether X (n, D) has enough rows to learn a covariance for each of a few tables."""
    n, D = X.shape
    return D >= FEWEST_FEATURES and n >= LEAST_ROWS_PER_FEATURE * D


def _learn_with_missing(spec: ModelSpec, X: Float, times: Float) -> Steps[Found]:
    """Learn with the family as ``Columns``, and return the family that was its only part."""
    if isinstance(spec.family, Columns):
        return (yield from _learn(spec, X, times))
    D = X.shape[1]
    others = [family for family in spec.other_families if family.independent]
    families = [Columns.of(family, D) for family in (spec.family, *others)]
    found, candidates = yield from _learn(
        replace(spec, family=families[0], other_families=tuple(families[1:])), X, times
    )
    candidates = [candidate._replace(family=_only_part(candidate.family)) for candidate in candidates]
    return replace(found, family=_only_part(found.family)), candidates


def _only_part(family: Family) -> Family:
    """Return the family that was passed to ``Columns.of``."""
    return family.parts[0][1] if isinstance(family, Columns) else family


class _Search:
    """Try candidates on the rows of a view at times (n,), and remember them.

    trusted: whether a large gain in evidence makes up for a lower reproducibility.
    """

    def __init__(self, view: View, times: Float, memory: float, trusted: bool) -> None:
        self.view, self.Z, self.times, self.memory, self.trusted = view, view.rows, times, memory, trusted
        self.halves = split(view.rows)
        self.tried: list[tuple[_Run, bool]] = []
        self._known: dict[tuple[Any, ...], _Run] = {}  # by case and memory
        self.most_tables = len(self.Z)  # how many tables dynamics may open, once the clusters are known

    def refine(self, family: Family, best: _Run) -> Steps[_Run]:
        """Estimate the shape of the clusters that were found, cluster with that shape, and return the best run.

        The clusters are those of the best run so far. Round tables cut a long thin cluster into pieces, so the shape is
        also estimated from other runs, with tables of several sizes, and re-estimated as the pieces merge. Such a
        result is kept only if its evidence is much higher and it is as reproducible as the others.
        """
        starts = [run for run, _ in self.tried if 1 < run.n_tables <= len(self.Z) // 4][::STARTS_STRIDE]
        best = yield from self._rescale(family, best)
        for start in starts:
            end = yield from self._grow(family, start)
            least = LEAST_SHARE_OF_BEST * self._most_reproducible()
            end, better = yield from self._is_better(end, end.log_evidence - best.log_evidence, least)
            large = self.trusted and end.log_evidence >= best.log_evidence + LARGE_GAIN * self.Z.size
            if not (better or large):
                continue
            wider = yield from self._rescale(family, end)
            if not better:  # the shape may be right, but the scale too small to be reproducible
                wider, better = yield from self._is_better(wider, wider.log_evidence - best.log_evidence, least)
            if better:
                self.tried.append((end, True))
                best = max(best, wider, key=lambda run: run.log_evidence)
        finer = self._finer(best)
        return best if finer is None else (yield from self._rescale(family, finer))

    def _finer(self, best: _Run) -> _Run | None:
        """Return a run with a far better density than the best so far and acceptable reproducibility, if there is one.

        Coarse clusters that cut through shapes are reproducible. If clusters share a shape and it has been found, no
        such gain is left.
        """
        least = max(LEAST_SHARE_IF_LARGE_GAIN * self._most_reproducible(), LEAST_REPRODUCED)
        runs = [run for run, _ in self.tried if self._clusters(run) and run.reproducibility >= least]
        finer = max(runs, key=lambda run: run.log_evidence, default=best)
        if not self.trusted or finer.log_evidence < best.log_evidence + LARGE_GAIN * self.Z.size:
            return None
        self.tried = [(run, admitted or run is finer) for run, admitted in self.tried]
        return finer

    def surpass(self, best: _Run, log_evidence: float, family: Family, alphas: Sequence[float]) -> Steps[_Run | None]:
        """Return the best run with another family that is clearly better than the best so far and as reproducible.

        It starts from the spread of the clusters of the best run. log_evidence: that of the best run in the features.
        """
        scales = OTHER_SCALES if family.independent else FULL_SCALES
        proposals = protocols.proposals(family, self.Z, best.labels, scales)
        cases = [(one, best.dynamics, a) for one in proposals for a in alphas]
        runs = yield from self._run_all(cases)
        for run in sorted(filter(self._clusters, runs), key=lambda run: -run.log_evidence):
            gain = run.log_evidence + self.view.log_density - log_evidence
            measured, better = yield from self._is_better(run, gain, LEAST_SHARE_OF_BEST * best.reproducibility)
            self.tried.append((measured, better))
            if better:
                return measured
        return None

    def open_up(self, family: Family, best: _Run, alphas: Sequence[float]) -> Steps[_Run]:
        """Return a run with a family that does not rule out other clusters, at the alpha that opens fewest tables."""
        wider = protocols.for_one_cluster(family, best.family)
        runs = yield from self._run_all([(wider, best.dynamics, one) for one in alphas])
        run = min(runs, key=lambda run: run.n_tables)
        self.tried.append((run, True))
        return run

    def is_cloud(self, run: _Run) -> bool:
        """Return whether rows are one cloud, which the tables of a run tile; not if tables are reproducible."""
        reproduced = max((one.reproducibility for one, _ in self.tried if one.family is run.family), default=np.nan)
        return not reproduced >= REPRODUCED_IF_NO_CLOUD and is_cloud(run.family, run.alpha, self.halves)

    def _is_better(self, run: _Run, gain: float, least: float) -> Steps[tuple[_Run, bool]]:
        """Return the run, and whether it gains enough evidence and its reproducibility is at least ``least``."""
        if gain < LEAST_GAIN * self.Z.size or len(self.Z) < FEWEST_TO_SPLIT:
            return run, gain >= LEAST_GAIN * self.Z.size
        (agreement,) = yield [(_reproduce, (run, self.halves))]
        return run._replace(reproducibility=agreement), agreement >= least

    def _rescale(self, family: Family, run: _Run) -> Steps[_Run]:
        """Return the best run with the spread of a run's clusters at all scales, or that run if it is better."""
        proposals = protocols.proposals(family, self.Z, run.labels)
        if not proposals:
            return run
        rescaled = yield from self.best_family(proposals, run.dynamics, (run.alpha,))
        return max(run, rescaled, key=lambda run: run.log_evidence)

    def _grow(self, family: Family, run: _Run) -> Steps[_Run]:
        """Return the run that results from estimating the spread of the clusters again and again."""
        for _ in range(SPREAD_ROUNDS):
            proposals = protocols.proposals(family, self.Z, run.labels, (1.0,))
            runs = yield from self._run_all([(proposal, run.dynamics, run.alpha) for proposal in proposals])
            better = max(runs, key=lambda run: run.log_evidence, default=run)
            gain = better.log_evidence - run.log_evidence
            run = better if gain > 0.0 else run
            if gain <= LEAST_GROWTH * self.Z.size:
                break
        return run

    def _most_reproducible(self) -> float:
        return float(np.nanmax([0.0, *(run.reproducibility for run, _ in self.tried)]))

    def best_family(self, families: Sequence[Family], dynamics: Dynamics, alphas: Sequence[float]) -> Steps[_Run]:
        """Return the best run among the reproducible ones, each with its best alpha."""
        runs = yield from self._run_all([(family, dynamics, alpha) for family in families for alpha in alphas])
        n = len(alphas)
        groups = [runs[i : i + n] for i in range(0, len(runs), n)]
        if n > 1:  # one table for all, which is right for rows without clusters
            groups.append((yield from self._run_all([(families[0], dynamics, ONE_TABLE_ALPHA)])))
        leading = [group[self._best(group, [self._clusters(run) for run in group])] for group in groups]
        if len(self.Z) >= FEWEST_TO_SPLIT and len(leading) > 1:
            agreement = yield [(_reproduce, (run, self.halves)) for run in leading]
            leading = [run._replace(reproducibility=a) for run, a in zip(leading, agreement, strict=True)]
        least = max(LEAST_SHARE_OF_BEST * np.nanmax([0.0, *(run.reproducibility for run in leading)]), LEAST_REPRODUCED)
        admitted = [self._clusters(run) and not run.reproducibility < least for run in leading]
        self.tried += zip(leading, admitted, strict=True)
        return leading[self._best(leading, admitted)]

    def _best(self, runs: Sequence[_Run], admitted: Sequence[bool]) -> int:
        """Return the index of the run with the fewest tables among the admitted runs of nearly the best evidence."""
        allowed = [i for i in range(len(runs)) if admitted[i]] or list(range(len(runs)))
        top = max(runs[i].log_evidence for i in allowed) - np.log(len(self.Z))
        close = [i for i in allowed if runs[i].log_evidence >= top]
        return min(close, key=lambda i: (runs[i].n_tables, -runs[i].log_evidence))

    def _most_tables(self) -> int:
        """Return how many tables a candidate may open: at most one for two rows.

        If no rows share a table, the density is that of one wide table, and there is no clustering.
        """
        return min(max(1, len(self.Z) // 2), self.most_tables)

    def _clusters(self, run: _Run) -> bool:
        return run.n_tables <= self._most_tables()

    def best_dynamics(self, family: Family, dynamics: Sequence[Dynamics], alpha: float | None) -> Steps[_Run]:
        """Return the best dynamics and alpha for a family. Each unknown duration must gain log n in evidence.

        Dynamics that forget everything must gain LEAST_GAIN_OF_FORGETTING a row over those that do not: they would
        disown a cluster that returns late. Each kind that is not too far behind is refined before they are compared.
        """
        alphas = ALPHAS if alpha is None else (alpha,)
        n, price = len(self.Z), np.log(len(self.Z))
        best: dict[Dynamics, tuple[Point, _Run]] = {}
        lasts = {kind: kind.lasts for kind in dynamics}

        def score(kind: Dynamics) -> float:
            lost = 0.0 if lasts[kind] or not any(lasts.values()) else LEAST_GAIN_OF_FORGETTING * n
            return best[kind][1].log_evidence - price * kind.n_unknown - lost

        for kind in dynamics:
            points = list(product(alphas, *[durations(kind, self.times)] * kind.n_unknown))
            best[kind] = yield from self._best_point(family, kind, points)
        top = max(map(score, best))
        for kind in [kind for kind in best if score(kind) >= top - MOST_REFINED * n]:
            best[kind] = yield from self._refine_dynamics(family, kind, *best[kind], alpha is None)
        return best[max(best, key=score)][1]

    def _refine_dynamics(
        self, family: Family, kind: Dynamics, centre: Point, run: _Run, with_alpha: bool
    ) -> Steps[tuple[Point, _Run]]:
        """Return the best durations, and alpha if it is unknown, by ever smaller steps from a point."""
        free, gap = len(centre) if with_alpha else len(centre) - 1, usual_gap(self.times)
        for factor in STEP_FACTORS if free else ():
            moves = product((1.0 / factor, 1.0, factor), repeat=free)  # corners too: alpha and durations trade off
            points = [tuple(np.multiply(centre, (1.0,) * (len(centre) - free) + move)) for move in moves]
            points = [point for point in points if all(gap <= duration for duration in point[1:])]
            centre, run = yield from self._best_point(family, kind, points)
        return centre, run

    def best_memory(self, best: _Run) -> Steps[_Run]:
        """Return the best run among this one and those with other memories. A finite memory must gain log n."""
        runs = []
        for self.memory in MEMORIES:
            if self.memory != best.memory:
                runs += yield from self._run_all([(best.family, best.dynamics, best.alpha)])
        self.tried += [(run, self._clusters(run)) for run in runs]
        price = np.log(len(self.Z))
        rivals = [best, *(run for run in runs if self._clusters(run))]
        best = max(rivals, key=lambda run: run.log_evidence - price * (run.memory < math.inf))
        self.memory = best.memory
        return best

    def _best_point(self, family: Family, kind: Dynamics, points: list[Point]) -> Steps[tuple[Point, _Run]]:
        made = {lengths: kind.with_durations(lengths) for lengths in {point[1:] for point in points}}
        runs = yield from self._run_all([(family, made[point[1:]], float(point[0])) for point in points])
        admitted = [self._clusters(run) for run in runs]
        self.tried += zip(runs, admitted, strict=True)
        at = self._best(runs, admitted)
        return points[at], runs[at]

    def _run_all(self, cases: list[_Case]) -> Steps[list[_Run]]:
        """Run candidates, each once in a search. Drop those that open too many tables, unless all do."""
        modes = {dynamics: dynamics.modes() for dynamics in {case[1] for case in cases}}
        for most_tables in (self._most_tables(), len(self.Z)):
            new = [case for case in dict.fromkeys(cases) if not self._is_known(case, most_tables)]
            models = [
                Model(family, dynamics, alpha, self.memory, modes=modes[dynamics]) for family, dynamics, alpha in new
            ]
            done = yield [(_run, (model, self.Z, self.times, most_tables)) for model in models]
            for case, (labels, log_evidence, n_tables) in zip(new, done, strict=True):
                evidence = log_evidence if n_tables <= most_tables else -np.inf
                self._known[*case, self.memory] = _Run(*case, evidence, labels, n_tables, memory=self.memory)
            # Each attempt has its own copy, since one of them may be chosen.
            runs = [self._known[*case, self.memory]._replace() for case in cases]
            if any(run.log_evidence > -np.inf for run in runs):
                break
        return runs

    def _is_known(self, case: _Case, most_tables: int) -> bool:
        """Whether a candidate has been run to its end and opened at most this many tables."""
        run = self._known.get((*case, self.memory))
        return run is not None and run.log_evidence > -np.inf and run.n_tables <= most_tables

    def candidates(self, chosen: _Run) -> list[Candidate]:
        """Return all candidates that were tried, in terms of the features."""
        families = {id(run.family): run.family for run, _ in self.tried}
        lifted = {key: self.view.lift(family) for key, family in families.items()}
        return [
            Candidate(
                lifted[id(run.family)],
                run.dynamics,
                run.alpha,
                run.log_evidence + self.view.log_density,
                run.n_tables,
                run.reproducibility,
                admitted,
                run is chosen,
                run.memory,
            )
            for run, admitted in self.tried
        ]


def _run(model: Model, Z: Float, times: Float, most_tables: int) -> Trial:
    """Run a candidate until it has opened too many tables."""
    return try_out(model, model.family.check(Z), times, most_tables)


def _reproduce(run: _Run, halves: list[Float]) -> float:
    """Return the reproducibility of a run's clusters: nan for a single cluster, 0 if there are far too many."""
    n = len(run.labels)
    if np.max(np.bincount(run.labels)) >= MOST_IN_ONE_TABLE * n:  # an outlier and the rest reproduce trivially
        return np.nan
    if run.n_tables > n // 2:  # hardly a clustering
        return 0.0
    return reproducibility(run.family, run.alpha, halves)

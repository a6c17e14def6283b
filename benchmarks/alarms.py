"""``python -m benchmarks.alarms``: is the alarm rate kept where nothing happens, and how soon is a new cluster found?

Prints alarms raised over alarms expected at a rate of one in a thousand, and the rows of a new cluster up to its first
alarm, beside river's ``QuantileFilter`` about ``HalfSpaceTrees``, told the same rate. The rules of the sketch were
chosen on streams with seeds below 100, which ``--quick`` takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.speed import HERE, on_one_thread

if TYPE_CHECKING:
    from benchmarks.data import Float

RATE = 0.001
FIRST = 2000  # row from which the rate should hold
K = 12  # clusters
SPREAD = {2: 10.0, 8: 4.0}  # of their centres, by dimension; clusters have unit variance, or that of Student's t
FREEDOM = 3.0  # degrees of it, of heavy tails
STAY = 50.0  # rows on average in one cluster of a sticky stream
KINDS = ("stationary", "sticky", "heavy-tailed")
DISTANCES = (6.0, 10.0, 20.0)  # of a new cluster from the nearest
AFTER = 1500  # rows in which it should be found
WITHIN = 5  # of its rows
BATCH = 10_000
Table = tuple[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Size:
    """How long a run is."""

    rows: int = 1_000_000
    early: int = 20_000
    long_seeds: range = range(110, 112)
    early_seeds: range = range(112, 122)
    river_seeds: range = range(112, 115)
    begins: tuple[int, ...] = (3000, 10_000)
    delay_seeds: range = range(130, 140)


FULL = Size()
QUICK = Size(100_000, 10_000, range(1), range(2), range(1), (3000,), range(2))
TOY = Size(4000, 3000, range(1), range(1), range(1), (2500,), range(1))


class Case(NamedTuple):
    """A stream of n rows in D dimensions; from row ``begin`` on, if it is given, with a new cluster."""

    kind: str
    D: int
    n: int
    seed: int
    begin: int | None = None
    distance: float = 0.0


def stream(case: Case) -> tuple[Float, Any]:
    """Return rows (n, D) of clusters, and whether each is of the new one.

    Clusters are in random order, or one row in 50 changes to another. From its beginning, the new one is as frequent as
    the others.
    """
    import numpy as np

    kind, D, n, seed, begin, distance = case
    rng = np.random.default_rng([seed, D, KINDS.index(kind), begin or 0, int(distance)])
    centers = rng.normal(0.0, SPREAD[D], (K, D))
    row, labels = np.arange(n), rng.integers(K, size=n)
    starts = [0] if begin is None else [0, begin]
    if begin is not None:
        centers = np.vstack([centers, _new_center(centers, distance, rng)])
        labels = np.where(row < begin, labels, rng.integers(K + 1, size=n))
        labels[begin] = K
    if kind == "sticky":
        change = rng.random(n) < 1.0 / STAY
        change[starts] = True
        labels = labels[np.maximum.accumulate(np.where(change, row, 0))]
    noise = rng.standard_t(FREEDOM, (n, D)) if kind == "heavy-tailed" else rng.normal(size=(n, D))
    return centers[labels] + noise, labels == K


def _new_center(centers: Float, distance: float, rng: Any) -> Float:
    """Return a point at this distance from one of the centres, and no nearer to others."""
    import numpy as np

    while True:
        way = rng.normal(size=centers.shape[1])
        found = centers[rng.integers(len(centers))] + distance * way / np.linalg.norm(way)
        if np.min(np.linalg.norm(centers - found, axis=1)) > 0.999 * distance:
            return found


def systems() -> dict[str, Callable[[Case], Any]]:
    """Return who raises alarms: each tells which rows (n,) of a stream are alarms."""
    return {
        "dyncrp, told nothing": lambda case: _by_sketch(_novelty(case, told=False)),
        "dyncrp, told variances and dynamics": lambda case: _by_sketch(_novelty(case, told=True)),
        "dyncrp's novelty, QuantileFilter": lambda case: _by_quantile(_novelty(case, told=False)),
        "HalfSpaceTrees, QuantileFilter": lambda case: _by_trees(stream(case)[0]),
    }


@lru_cache(maxsize=2)
def _novelty(case: Case, *, told: bool) -> Float:
    """Return −log p(x_n | x_<n) by a model that is told nothing, or the variances, and the dynamics."""
    import numpy as np

    from dyncrp import DynamicalMixture, Exponential, Gaussian, Stationary

    model = DynamicalMixture()
    if told:
        variance = FREEDOM / (FREEDOM - 2.0) if case.kind == "heavy-tailed" else 1.0
        dynamics = Exponential(STAY) if case.kind == "sticky" else Stationary()
        model = DynamicalMixture(Gaussian(variance, SPREAD[case.D] ** 2), dynamics, max_tables=200)
    X, _ = stream(case)
    parts = [X[begin : begin + BATCH] for begin in range(0, len(X), BATCH)]
    return np.concatenate([model.partial_fit(part).novelty_ for part in parts])


def _by_sketch(scores: Float) -> Any:
    from dyncrp.stream.novelty import NoveltySketch

    return NoveltySketch().p_values(scores) <= RATE


def _by_quantile(scores: Float) -> Any:
    """Judge given scores as ``QuantileFilter`` does."""
    import numpy as np
    from river import anomaly

    predict = anomaly.QuantileFilter(anomaly.HalfSpaceTrees(seed=0), q=1.0 - RATE)
    alarms = np.zeros(len(scores), dtype=bool)
    for i, score in enumerate(scores.tolist()):
        alarms[i] = predict.classify(score)
        predict.quantile.update(score)
    return alarms


def _by_trees(X: Float) -> Any:
    """Judge rows by river's trees, scaled and asked as its documentation does."""
    import numpy as np
    from river import anomaly, compose, preprocessing

    predict = anomaly.QuantileFilter(anomaly.HalfSpaceTrees(seed=0), q=1.0 - RATE)
    model = compose.Pipeline(preprocessing.MinMaxScaler(), predict)
    alarms = np.zeros(len(X), dtype=bool)
    for i, row in enumerate(X.tolist()):
        x = dict(enumerate(row))
        alarms[i] = predict.classify(model.score_one(x))
        model.learn_one(x)
    return alarms


def rates(size: Size, names: Sequence[str], n: int, seeds: range, cases: Sequence[tuple[str, int]]) -> list[Table]:
    """Return for streams where nothing happens the alarms raised over those expected, by system."""
    import numpy as np

    tables = []
    for kind, D in cases:
        found: dict[str, list[Any]] = {name: [] for name in names}
        for seed in seeds:
            for name in names:
                found[name].append(systems()[name](Case(kind, D, n, seed)))
        rows = []
        for name, alarms in found.items():
            ratios = [float(np.mean(each[FIRST:]) / RATE) for each in alarms]
            rows.append({"system": name, "ratio": float(np.mean(ratios)), "ratios": ratios})
            if n > size.early:
                rows[-1]["early"] = float(np.mean([each[FIRST : size.early] for each in alarms]) / RATE)
        tables.append((f"{kind}, D = {D}: {len(seeds)} of {n:,} rows", rows))
    return tables


def delays(size: Size, kind: str, D: int) -> Table:
    """Return how many rows of a new cluster come up to the first alarm on one of them, by system."""
    import numpy as np

    found: dict[str, list[Any]] = {name: [] for name in systems()}
    for begin in size.begins:
        for distance in DISTANCES:
            for seed in size.delay_seeds:
                case = Case(kind, D, begin + AFTER, seed, begin, distance)
                _, new = stream(case)
                for name, system in systems().items():
                    alarms = system(case)
                    at = np.flatnonzero(alarms[new])
                    delay = int(at[0]) + 1 if len(at) else None
                    quiet = float(np.sum(alarms[FIRST:begin]))
                    found[name].append({"begin": begin, "distance": distance, "rows": delay, "before": quiet})
    rows = []
    for name, runs in found.items():
        row: dict[str, Any] = {"system": name, "runs": runs}
        expected = RATE * sum(run["begin"] - FIRST for run in runs)
        row["ratio"] = sum(run["before"] for run in runs) / expected
        row["first"] = _share(runs, 1)
        for distance in DISTANCES:
            row[f"at {distance:g}"] = _share([run for run in runs if run["distance"] == distance], WITHIN)
        for begin in size.begins:
            row[f"from {begin}"] = _share([run for run in runs if run["begin"] == begin], WITHIN)
        rows.append(row)
    return f"new cluster, {kind}, D = {D}: {len(runs)} streams", rows


def _share(runs: list[dict[str, Any]], most: int) -> float:
    """Return the share of runs in which an alarm came within so many rows of the new cluster."""
    return sum(run["rows"] is not None and run["rows"] <= most for run in runs) / len(runs)


def costs(rows: int) -> list[dict[str, Any]]:
    """Return how long the sketch takes for a row, in batches and one at a time, and how large it becomes."""
    import numpy as np

    from dyncrp.stream.novelty import NoveltySketch

    scores = np.random.default_rng(0).exponential(size=rows)
    found = []
    for batch in (1, 1000, 100_000):
        for what in ("add", "p_values"):
            sketch = NoveltySketch()
            sketch.add(scores)
            n = min(rows, 2000 if batch == 1 else rows)
            best = np.inf
            for _ in range(3):
                start = process_time()
                for begin in range(0, n, batch):
                    if batch == 1 and what == "add":
                        sketch.add_one(float(scores[begin]))
                    else:
                        getattr(sketch, what)(scores[begin : begin + batch])
                best = min(best, (process_time() - start) / n)
            size = sum(array.nbytes for array in sketch.arrays().values())
            found.append({"system": f"{what}, {batch:,} at once", "ns": 1e9 * best, "bytes": size})
    return found


def main() -> None:
    """Parse, run, print, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alarms", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short streams, few of them")
    parser.add_argument("--only", choices=("rates", "delays", "costs"))
    parser.add_argument("--results", type=Path, default=HERE / "results" / "alarms.json")
    options = parser.parse_args()
    run(QUICK if options.quick else FULL, options.only, options.results, quick=options.quick)


def run(size: Size, only: str | None, path: Path, *, quick: bool) -> None:
    """Run all sections, or one, print their tables and save them."""
    from rich.console import Console

    from benchmarks import report

    def share(value: float) -> str:
        return f"{100 * value:.0f} %"

    def times(value: float) -> str:
        return f"{value:.2f}"

    columns: report.Columns = {
        "ratio": ("alarms / expected", times),
        "early": (f"rows {FIRST:,} to {size.early:,}", times),
        "first": ("by its row 1", share),
        **{f"at {distance:g}": (f"by {WITHIN}, {distance:g} away", share) for distance in DISTANCES},
        **{f"from {begin}": (f"by {WITHIN}, from {begin:,}", share) for begin in size.begins},
        "ns": ("ns/row", report.count),
        "bytes": ("size", report.size),
    }
    console = Console(width=None if sys.stdout.isatty() else 160)
    results: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def show(section: str, tables: list[Table]) -> None:
        for title, rows in tables:
            results.setdefault(section, {})[title] = rows
            console.print(report.table(title, rows, columns))
        report.write(path, {section: results[section]}, quick=quick)

    cases = [(kind, D) for kind in KINDS for D in SPREAD]
    names = list(systems())
    for case in cases if only in (None, "rates") else []:
        show("rates", rates(size, names[:3], size.rows, size.long_seeds, [case]))
        show("early rates", rates(size, names[:3], size.early, size.early_seeds, [case]))
        show("early rates, with river's trees", rates(size, names, size.early, size.river_seeds, [case]))
    for case in cases if only in (None, "delays") else []:
        show("delays", [delays(size, *case)])
    if only in (None, "costs"):
        show("costs", [("cost of the sketch", costs(max(size.rows, 200_000)))])


if __name__ == "__main__":
    on_one_thread("benchmarks.alarms")
    main()

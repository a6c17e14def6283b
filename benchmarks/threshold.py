"""``python -m benchmarks.threshold [--quick] [--data FOLDER]``: embeddings of questions, beside a cosine threshold.

The threshold system is the usual one: a row joins the cluster whose mean direction has the highest cosine with it, if
that is at least the threshold, and opens a cluster otherwise. A cluster is wrongly opened if its first row is of a
class that had come before.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import speed
from benchmarks.data import Float
from benchmarks.streams.shipped import STAY, sticky_order

SETS = {"clinc150": "banking77", "banking77": "clinc150"}  # the questions, and those that its threshold is tuned on
PLACE = Path(__file__).parents[2] / "shared" / "data"
THRESHOLDS = tuple(round(0.02 * k, 2) for k in range(15, 36))
SEEDS, FIRST_ROWS, QUICK_ROWS = 2, 1000, 600
Labels = NDArray[np.int64]
Row = dict[str, Any]
COLUMNS = {
    "ami": ("AMI", lambda v: f"{v:.3f}"),
    "clusters": ("clusters", lambda v: f"{v:.0f}"),
    "wrong": ("wrongly opened", lambda v: f"{v:.0f}"),
    "ami_first": (f"AMI, first {FIRST_ROWS:,}", lambda v: f"{v:.3f}"),
    "wrong_first": (f"wrongly opened, first {FIRST_ROWS:,}", lambda v: f"{v:.0f}"),
    "told": ("given", str),
}


def main(arguments: list[str] | None = None) -> None:
    """Parse, run and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threshold", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows of each set in one order")
    parser.add_argument("--data", type=Path, default=PLACE, help="the folder of clinc150.npz and banking77.npz")
    parser.add_argument("--results", type=Path, default=speed.HERE / "results" / "threshold.json")
    options = parser.parse_args(arguments)
    absent = [name for name in SETS if not (options.data / f"{name}.npz").is_file()]
    if absent:
        parser.error(f"there is no {absent[0]}.npz in {options.data}: X (n, D) unit vectors, y (n,) classes")
    from benchmarks import report

    every = {name: lambda options, name=name: _section(options, name) for name in SETS}
    for name, tables in speed.run(every, list(every), options, COLUMNS):
        report.write(options.results, {name: tables}, quick=options.quick)


def by_threshold(X: Float, threshold: float) -> Labels:
    """Cluster unit vectors X (n, D) by the cosine with running means; return their labels (n,).

    >>> by_threshold(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), 0.7).tolist()
    [0, 0, 1]
    """
    sums, directions = np.zeros((64, X.shape[1]), np.float32), np.zeros((64, X.shape[1]), np.float32)
    labels, K = np.empty(len(X), dtype=np.int64), 0
    for n, x in enumerate(X.astype(np.float32)):
        cosines = directions[:K] @ x
        best = int(np.argmax(cosines)) if K else 0
        if not K or cosines[best] < threshold:
            if len(sums) == K:
                sums, directions = (np.concatenate([each, np.zeros_like(each)]) for each in (sums, directions))
            best, K = K, K + 1
        sums[best] += x
        directions[best] = sums[best] / np.linalg.norm(sums[best])
        labels[n] = best
    return labels


def wrongly_opened(labels: Labels, truth: Labels) -> int:
    """Return how many clusters begin with a row of a class that had come before.

    >>> wrongly_opened(np.array([0, 1, 0, 2]), np.array([5, 5, 6, 7]))
    1
    """
    opens = np.unique(labels, return_index=True)[1]
    return int(np.sum(~np.isin(opens, np.unique(truth, return_index=True)[1])))


def _section(options: Any, name: str) -> Iterator[tuple[str, list[Row]]]:
    for order in ("shuffled", "sticky"):
        seeds = range(1 if options.quick else SEEDS)
        runs = [_scores(str(options.data), name, order, seed, options.quick) for seed in seeds]
        others = [_scores(str(options.data), SETS[name], order, seed, options.quick) for seed in seeds]
        best = _best(runs)
        tuned = _best(others)
        yield (
            f"{name}, {order}",
            [
                _row("dyncrp, tables", "nothing", runs, "tables"),
                _row("dyncrp, clusters", "nothing", runs, "clusters"),
                _row("cosine threshold", f"the best for these classes, {best:.2f}", runs, best),
                _row("cosine threshold", f"the best for the classes of {SETS[name]}, {tuned:.2f}", runs, tuned),
            ],
        )


def _best(runs: list[dict[Any, Row]]) -> float:
    """Return the threshold with the highest mean AMI."""
    return max(THRESHOLDS, key=lambda threshold: float(np.mean([run[threshold]["ami"] for run in runs])))


def _row(system: str, told: str, runs: list[dict[Any, Row]], key: Any) -> Row:
    means = {column: float(np.mean([run[key][column] for run in runs])) for column in runs[0][key]}
    return {"system": system, "told": told, **means}


@cache
def _scores(data: str, name: str, order: str, seed: int, quick: bool) -> dict[Any, Row]:
    """Return the scores of each system on one stream: "tables", "clusters", and by threshold."""
    from dyncrp import DynamicalMixture

    with np.load(Path(data) / f"{name}.npz") as questions:
        X, y = questions["X"].astype(np.float64), questions["y"].astype(np.int64)
    shuffled = np.random.default_rng(seed).permutation(len(y))
    at = shuffled if order == "shuffled" else sticky_order(y, STAY, seed)
    at = at[:QUICK_ROWS] if quick else at
    X, y = np.ascontiguousarray(X[at]), y[at]
    model = DynamicalMixture().fit(X)
    early = DynamicalMixture().fit(X[:FIRST_ROWS])
    found = {
        "tables": _score(model.labels_, early.labels_, y),
        "clusters": _score(model.clusters().labels(model.labels_), early.clusters().labels(early.labels_), y),
    }
    for threshold in THRESHOLDS:
        labels = by_threshold(X, threshold)
        found[threshold] = _score(labels, labels[:FIRST_ROWS], y)
    return found


def _score(labels: Labels, first: Labels, truth: Labels) -> Row:
    from sklearn.metrics import adjusted_mutual_info_score

    begin = truth[: len(first)]
    return {
        "ami": float(adjusted_mutual_info_score(truth, labels)),
        "clusters": len(np.unique(labels)),
        "wrong": wrongly_opened(labels, truth),
        "ami_first": float(adjusted_mutual_info_score(begin, first)),
        "wrong_first": wrongly_opened(first, begin),
    }


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.threshold")
    main()

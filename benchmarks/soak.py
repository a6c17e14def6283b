"""``python -m benchmarks.soak [--n N]``: an endless stream whose clusters come and go, in bounded memory.

Prints, for each tenth of the stream, what an observation cost and how much memory the process held. Then the readable
law takes over twice, on the last stretch: from the engine's own state, where both must decide alike, and from nothing
far enough back that everything before is forgotten, where both must find the same clusters. Exits with 1 if anything
grew or drifted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.speed import HERE, on_one_thread

ACTIVE = 20  # clusters at any time
LIFE = 3000  # observations for which a cluster stays, on average
D = 8
BATCH = 1000
TIMESCALE = 500.0
LIMITS = {"max_tables": 60, "prune_below": 1e-3}
TENTHS = 10
LAW_FROM_STATE = 5_000  # rows
LAW_FROM_NOTHING = 20_000  # rows: exp(−40) is left of what was before


def stream(n: int, seed: int) -> Iterator[tuple[Any, Any]]:
    """Yield batches of rows (BATCH, D) and their clusters, of which every one in LIFE makes way for a new one."""
    import numpy as np

    rng = np.random.default_rng(seed)
    centers = rng.normal(0.0, 10.0, (ACTIVE, D))
    names = np.arange(ACTIVE)
    for _ in range(n // BATCH):
        for place in np.flatnonzero(rng.random(ACTIVE) < BATCH / LIFE):
            centers[place] = rng.normal(0.0, 10.0, D)
            names[place] = names.max() + 1
        which = rng.integers(ACTIVE, size=BATCH)
        yield centers[which] + rng.normal(size=(BATCH, D)), names[which]


def run(n: int, seed: int, advance: Any) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Return a row for each tenth, and how far the law is from the engine on the last stretch."""
    import numpy as np
    from sklearn.base import clone

    from benchmarks.growth import resident
    from dyncrp import DynamicalMixture, Exponential, Gaussian
    from dyncrp.engine import law
    from dyncrp.metrics import agreement

    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(TIMESCALE), alpha=0.01, **LIMITS)
    clone(model).fit(next(stream(BATCH, seed))[0])  # so that no compilation is timed
    rows: list[dict[str, Any]] = []
    seconds, scores, opened = 0.0, [], 0
    kept: list[tuple[Any, Any, Any]] = []  # rows, labels and evidence of the last stretch
    before = None
    for i, (X, truth) in enumerate(stream(n, seed)):
        if (n // BATCH - i) * BATCH == LAW_FROM_STATE:
            before = model.engine_.state
        start = process_time()
        model.partial_fit(X)
        seconds += process_time() - start
        scores.append(agreement(truth, model.labels_).ami)
        opened = max(opened, int(model.table_ids_[-1]) + 1)
        kept = [*kept[-(LAW_FROM_NOTHING // BATCH - 1) :], (X, model.labels_, model.novelty_)]
        if (i + 1) % (n // BATCH // TENTHS) == 0:
            rows.append(
                {
                    "system": f"observations to {(i + 1) * BATCH:,}",
                    "ns": 1e9 * seconds / (n // TENTHS),
                    "rss": resident(),
                    "clusters": model.n_tables_,
                    "opened": opened,
                    "ami": float(np.mean(scores)),
                }
            )
            seconds, scores = 0.0, []
        advance(BATCH)
    X, labels, novelty = (np.concatenate(part) for part in zip(*kept, strict=True))
    times = np.arange(n - len(X), n, dtype=np.float64)
    told = model.engine_.model
    assert before is not None
    end, trace = law.run(before, X[-LAW_FROM_STATE:], times[-LAW_FROM_STATE:], told)
    advance(LAW_FROM_STATE)
    state = model.engine_.state
    afresh = law.LawEngine(told, D)
    for begin in range(0, len(X), BATCH):
        found = afresh.run(X[begin : begin + BATCH], times[begin : begin + BATCH])
        advance(BATCH)
    return rows, {
        "labels that differ from the law's, from the same state": float(
            np.sum(trace.labels != labels[-LAW_FROM_STATE:])
        ),
        "largest difference of log evidence": float(np.max(np.abs(trace.log_evidence + novelty[-LAW_FROM_STATE:]))),
        "largest difference of a centre": float(
            np.max(np.abs(told.family.centers(end.stats) - told.family.centers(state.stats)))
        ),
        f"AMI with the law begun {len(X):,} rows ago": agreement(found.labels, labels[-BATCH:]).ami,
    }


def main() -> None:
    """Parse, run, print, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--n", type=int, default=10_000_000, help="observations, at least 100,000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=HERE / "results" / "soak.json")
    options = parser.parse_args()
    n = max(options.n, 100_000) // (TENTHS * BATCH) * TENTHS * BATCH

    from rich.console import Console
    from rich.progress import Progress

    from benchmarks import report

    console = Console(width=None if sys.stdout.isatty() else 140)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("soaking", total=n + LAW_FROM_STATE + LAW_FROM_NOTHING)
        rows, drift = run(n, options.seed, lambda done: progress.advance(bar, done))
    for row in rows:
        row["relative"] = row["ns"] / rows[0]["ns"]
    title = f"{n:,} observations, {ACTIVE} clusters at a time, {LIMITS}"
    console.print(report.table(title, rows, report.COLUMNS | {"opened": ("ever opened", report.count)}))
    for what, value in drift.items():
        console.print(f"{what}: {value:g}")
    report.write(options.results, {"soak": {title: rows, "drift": [drift]}}, quick=n < 10_000_000)
    differ, evidence, centre, ami = drift.values()
    if differ or evidence > 1e-9 or centre > 1e-9 or ami < 1.0:
        sys.exit("the engine has drifted from the law")
    if rows[0]["rss"] is not None and rows[-1]["rss"] > rows[0]["rss"] + 20e6:
        sys.exit("memory has grown")


if __name__ == "__main__":
    on_one_thread("benchmarks.soak")
    main()

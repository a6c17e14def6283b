"""``python -m benchmarks.soak [--n N] [--minutes M]``: an endless stream whose clusters come and go, in bounded memory.

Prints, for each tenth of the stream, what an observation cost, how well the labels agree with the truth, and how much
memory the process held. In the middle of each tenth the model is saved and loaded, and what was loaded must continue as
the model does. At the end the readable reference takes over twice, on the last stretch: from the engine's own state,
where both must decide alike, and from nothing far enough back that everything before is forgotten, where both must find
the same clusters. Exits with 1 if anything grew or drifted.

After M minutes, or an interrupt, the stream ends where it is, and the end is checked all the same.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from benchmarks.speed import HERE, on_one_thread

ACTIVE = 20  # clusters at any time
LIFE = 3000  # observations for which a cluster stays, on average
D = 8
BATCH = 1000
TIMESCALE = 500.0
LIMITS = {"max_tables": 60, "prune_below": 1e-3}
TENTHS = 10
SCORED = 100  # one batch in so many is compared with the truth, which takes longer than to learn it
RELOADED = 20  # batches that a loaded model learns beside the one that was saved
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


def run(
    n: int, seed: int, advance: Callable[[int], object], stop: Callable[[], bool] = lambda: False
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Return a row for each tenth, and what has drifted, each of which should be 0, or 1 for an AMI.

    advance: called with how many rows were done; stop: asked after each batch whether to come to the end.
    """
    import numpy as np
    from sklearn.base import clone

    from benchmarks.growth import resident
    from dyncrp import DynamicalMixture, Exponential, Gaussian
    from dyncrp.engine import reference
    from dyncrp.metrics import agreement

    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(TIMESCALE), alpha=0.01, **LIMITS)
    clone(model).fit(next(stream(BATCH, seed))[0])  # so that no first call is timed
    rows: list[dict[str, Any]] = []
    seconds, scores, done, tenth, end = 0.0, [], 0, n // TENTHS, n
    kept: list[tuple[Any, Any, Any]] = []  # rows, labels and evidence of the last stretch
    before = None
    loaded, beside, differ = None, 0, 0
    for i, (X, truth) in enumerate(stream(n, seed)):
        if end - done == LAW_FROM_STATE:
            before = model.engine_.state
        if i % (tenth // BATCH) == tenth // BATCH // 2:
            loaded, beside = _reloaded(model), 0
        start = process_time()
        model.partial_fit(X)
        seconds += process_time() - start
        done += BATCH
        if loaded is not None:
            loaded.partial_fit(X)
            differ += int(np.sum((loaded.labels_ != model.labels_) | (loaded.novelty_ != model.novelty_)))
            beside += 1
            loaded = loaded if beside < RELOADED else None
        if i % SCORED == 0 or done % tenth == 0 or done == end:
            scores.append(agreement(truth, model.labels_).ami)
        kept = [*kept[-(LAW_FROM_NOTHING // BATCH - 1) :], (X, model.labels_, model.novelty_)]
        if done % tenth == 0 or done == end:
            rows.append(
                {
                    "system": f"observations to {done:,}",
                    "ns": 1e9 * seconds / (done - (len(rows) * tenth)),
                    "rss": resident(),
                    "clusters": model.n_tables_,
                    "opened": model.n_opened_,
                    "ami": float(np.mean(scores)),
                }
            )
            seconds, scores = 0.0, []
        advance(BATCH)
        if done == end:
            break
        if end == n and stop():
            end = min(n, done + LAW_FROM_NOTHING)
    X, labels, novelty = (np.concatenate(part) for part in zip(*kept, strict=True))
    times = np.arange(done - len(X), done, dtype=np.float64)
    told = model.engine_.model
    assert before is not None
    last, trace = reference.run(before, X[-LAW_FROM_STATE:], times[-LAW_FROM_STATE:], told)
    state = model.engine_.state
    afresh = reference.ReferenceEngine(told, D)
    for begin in range(0, len(X), BATCH):
        found = afresh.run(X[begin : begin + BATCH], times[begin : begin + BATCH])
    return rows, {
        "rows that a loaded model labelled otherwise, or found otherwise novel": float(differ),
        "labels that differ from the reference's, from the same state": float(
            np.sum(trace.labels != labels[-LAW_FROM_STATE:])
        ),
        "largest difference of log evidence": float(np.max(np.abs(trace.log_evidence + novelty[-LAW_FROM_STATE:]))),
        "largest difference of a centre": float(
            np.max(np.abs(told.family.centers(last.stats) - told.family.centers(state.stats)))
        ),
        f"AMI with the reference begun {len(X):,} rows ago": agreement(found.labels, labels[-BATCH:]).ami,
    }


def _reloaded(model: Any) -> Any:
    """Return a model as it comes back from a file."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.npz")
        return type(model).load(Path(folder) / "model.npz")


def faults(rows: list[dict[str, Any]], drift: dict[str, float]) -> list[str]:
    """Return what has grown or drifted, in words."""
    reloaded, differ, evidence, centre, ami = drift.values()
    found = []
    if reloaded:
        found.append("a model that was loaded went its own way")
    if differ or evidence > 1e-9 or centre > 1e-9 or ami < 1.0:
        found.append("the engine has drifted from the reference")
    if min(row["ami"] for row in rows) < 0.999:
        found.append("the labels no longer agree with the truth")
    if rows[0]["rss"] is not None and max(row["rss"] for row in rows) > rows[0]["rss"] + 20e6:
        found.append("memory has grown")
    return found


class Log:
    """How far a run has come, a line of JSON for each hundredth of it; and when it is to stop."""

    def __init__(self, path: Path | None, n: int, minutes: float) -> None:
        self.path, self.each = path, max(n // 100, BATCH)
        self.begin, self.minutes, self.minutes_taken = monotonic(), minutes, 0.0
        self.done, self.stopped = 0, False
        signal.signal(signal.SIGTERM, self.interrupt)
        signal.signal(signal.SIGINT, self.interrupt)

    def interrupt(self, *_: object) -> None:
        """Come to the end; a second interrupt does not wait for it."""
        self.stopped = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def stop(self) -> bool:
        """Return whether it was interrupted, or its time is over."""
        return self.stopped or monotonic() - self.begin > 60 * self.minutes

    def advance(self, rows: int) -> None:
        """Count rows, and write a line now and then."""
        from benchmarks.growth import resident

        self.done += rows
        self.minutes_taken = (monotonic() - self.begin) / 60
        if self.path is not None and self.done % self.each == 0:
            line = {"rows": self.done, "minutes": round(self.minutes_taken, 2), "rss": resident()}
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def main() -> None:
    """Parse, run, print, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--n", type=int, default=10_000_000, help="observations, at least 400,000")
    parser.add_argument("--minutes", type=float, default=170.0, help="after which the stream ends, however far it came")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="a file to which to write, now and then, how far it has come")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "soak.json")
    options = parser.parse_args()
    n = max(options.n, 400_000) // (TENTHS * BATCH) * TENTHS * BATCH

    from rich.console import Console
    from rich.progress import Progress

    from benchmarks import report

    console = Console(width=None if sys.stdout.isatty() else 140)
    log = Log(options.log, n, options.minutes)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("soaking", total=n)
        rows, drift = run(n, options.seed, lambda done: (log.advance(done), progress.advance(bar, done)), log.stop)
    for row in rows:
        row["relative"] = row["ns"] / rows[0]["ns"]
    title = f"{log.done:,} observations, {ACTIVE} clusters at a time, {LIMITS}"
    if log.done < n:
        console.print(f"ended early, {log.done:,} of {n:,} observations")
    console.print(report.table(title, rows, report.COLUMNS | {"opened": ("ever opened", report.count)}))
    for what, value in drift.items():
        console.print(f"{what}: {value:g}")
    rate = log.done / log.minutes_taken / 60
    console.print(f"{log.minutes_taken:.1f} minutes, {rate:,.0f} observations a second with drawing and checking them")
    taken = {"minutes": log.minutes_taken, "rate": rate}
    report.write(options.results, {"soak": {title: rows, "drift": [drift | taken]}}, quick=n < 10_000_000)
    if found := faults(rows, drift):
        sys.exit("; ".join(found))


if __name__ == "__main__":
    on_one_thread("benchmarks.soak")
    main()

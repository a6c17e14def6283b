"""``python -m benchmarks.kept [ROWS]``: what keeping clusters costs, as a share of the CPU time of learning.

And what weights, alarms, surges and kept clusters together cost: of ``dyncrp run`` with a file, and of ``partial_fit``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dyncrp import DynamicalMixture, Gaussian, NormalGamma, Stationary
from dyncrp.families import Family

CASES: tuple[tuple[int, int, type[Family]], ...] = (
    (10, 2, Gaussian),
    (100, 2, Gaussian),
    (100, 8, Gaussian),
    (100, 16, Gaussian),
    (100, 16, NormalGamma),
    (1000, 16, Gaussian),
)
ROWS_AT_ONCE = 50_000
TRIALS = 3


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each case: clusters, features, family, and the share after some numbers of rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kept", description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    n_rows = parser.parse_args(arguments).rows
    marks = [n for n in (n_rows // 10, n_rows) if n]
    for n_clusters, n_features, family in CASES:
        off, on = (
            np.min([_seconds(n_clusters, n_features, family, marks, keep=keep) for _ in range(TRIALS)], axis=0)
            for keep in (False, True)
        )
        shares = ", ".join(f"{n:,} rows: {share:+.0%}" for n, share in zip(marks, on / off - 1.0, strict=True))
        print(f"{n_clusters} clusters of {n_features} features, {family.__name__}: {shares}", flush=True)
    print(f"all of it, dyncrp run of {n_rows:,} rows: {_run(n_rows) - 1.0:+.0%}", flush=True)
    for n_clusters, n_features, family in (CASES[0], *CASES[3:5]):
        off, on = (
            min(_seconds(n_clusters, n_features, family, [n_rows], **given)[0] for _ in range(TRIALS))
            for given in ({}, {"weighs": True, "keep": True, "alarm_rate": 0.001, "surge_rate": 0.0001})
        )
        name = f"{n_clusters} clusters of {n_features} features, {family.__name__}"
        print(f"all of it, partial_fit, {name}: {on / off - 1.0:+.0%}", flush=True)


def _run(n_rows: int) -> float:
    """Return how many times as much CPU time ``dyncrp run`` takes with all of it as without."""
    with TemporaryDirectory() as folder:
        path, rng = Path(folder) / "rows.csv", np.random.default_rng(0)
        centers = rng.normal(0.0, 10.0, (20, 4))
        X = rng.normal(centers[rng.integers(20, size=n_rows)], 1.0)
        weights = rng.choice([0.5, 1.0, 2.0], n_rows)
        np.savetxt(path, np.column_stack([X, weights]), "%.3f", ",", header="a,b,c,d,weight", comments="")
        off = ["--exclude", "weight", "--set", "keep_clusters=false"]
        on = ["--weight-column", "weight", "--set", "keep_clusters=true", "--alarm-rate", "0.001"]
        on += ["--surge-rate", "0.0001", "--events", str(Path(folder) / "events.jsonl")]
        each = [min(_seconds_of_run(path, options) for _ in range(TRIALS)) for options in (off, on)]
    return each[1] / each[0]


def _seconds_of_run(path: Path, options: list[str]) -> float:
    from resource import RUSAGE_CHILDREN, getrusage

    before = getrusage(RUSAGE_CHILDREN).ru_utime
    command = [sys.executable, "-m", "dyncrp", "run", str(path), "-o", f"{path}.out.csv", "--force", *options]
    subprocess.run(command, check=True, capture_output=True)
    return getrusage(RUSAGE_CHILDREN).ru_utime - before


def _seconds(
    n_clusters: int,
    n_features: int,
    family: type[Family],
    marks: list[int],
    *,
    keep: bool = False,
    weighs: bool = False,
    **options: Any,
) -> list[float]:
    """Return the CPU time of learning the first rows of a stream, for each number of rows.

    With ``options``, events are read after each call. weighs: whether rows have weights.
    """
    rng = np.random.default_rng(0)
    spread = 40.0 if n_features == 2 else 10.0
    centers = rng.normal(0.0, spread, (n_clusters, n_features))
    known = family(1.0, spread**2)  # type: ignore[call-arg]
    model = DynamicalMixture(known, Stationary(), 1.0, keep_clusters=keep, **options)
    seconds, done, found = 0.0, 0, list[float]()
    for mark in marks:
        while done < mark:
            n = min(ROWS_AT_ONCE, mark - done)
            X = rng.normal(centers[rng.integers(n_clusters, size=n)], 1.0)
            weights = rng.choice([0.5, 1.0, 2.0], n) if weighs else None
            begin = time.process_time()
            model.partial_fit(X, sample_weight=weights)
            if options:
                model.events_  # noqa: B018
            seconds += time.process_time() - begin
            done += n
        found.append(seconds)
    return found


if __name__ == "__main__":
    main()

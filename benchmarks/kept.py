"""``python -m benchmarks.kept [ROWS]``: what keeping clusters costs, as a share of the CPU time of learning."""

from __future__ import annotations

import argparse
import time

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


def _seconds(n_clusters: int, n_features: int, family: type[Family], marks: list[int], *, keep: bool) -> list[float]:
    """Return the CPU time of learning the first rows of a stream, for each number of rows."""
    rng = np.random.default_rng(0)
    spread = 40.0 if n_features == 2 else 10.0
    centers = rng.normal(0.0, spread, (n_clusters, n_features))
    model = DynamicalMixture(family(1.0, spread**2), Stationary(), 1.0, keep_clusters=keep)  # type: ignore[call-arg]
    seconds, done, found = 0.0, 0, list[float]()
    for mark in marks:
        while done < mark:
            n = min(ROWS_AT_ONCE, mark - done)
            X = rng.normal(centers[rng.integers(n_clusters, size=n)], 1.0)
            begin = time.process_time()
            model.partial_fit(X)
            seconds += time.process_time() - begin
            done += n
        found.append(seconds)
    return found


if __name__ == "__main__":
    main()

"""Very many tables, as docs/benchmarks.md has them: ``python -m benchmarks.many [--quick] [--embeddings FILE.npz]``.

Every table has taken in 20 rows when it is measured. Rows are learned in batches of 1,024, from random tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.data import Float
from benchmarks.growth import resident
from benchmarks.speed import on_one_thread
from benchmarks.timing import Feeder
from dyncrp import Exponential, Gaussian
from dyncrp.engine import Model, make_engine
from dyncrp.engine.types import Engine

Row = dict[str, Any]
SPREADS = {"separated": 10.0, "overlapping": 2.0}  # standard deviations of the centres; that of a cluster is 1
COUNTS = {16: (100, 1000, 10_000, 100_000, 1_000_000), 128: (100, 1000, 10_000, 100_000)}
QUICK = {16: (1000, 10_000, 100_000), 128: (1000, 10_000)}
VISITS = 20
POOL = 1 << 14


def engine_with(centers: Float, spread: float) -> Engine:
    """Return an engine whose tables are at these centres, (K, D), each with 20 rows."""
    K, D = centers.shape
    model = Model(Gaussian(1.0, spread**2), Exponential(1e9), 0.01)
    one = make_engine(model, D)
    one.run(centers[:1], np.zeros(1))
    arrays = {
        name: np.repeat(array, K, axis=0) if array.shape[:1] == (1,) else array for name, array in one.arrays().items()
    }
    arrays["stats"] = VISITS * np.column_stack([np.ones(K), centers])
    arrays["mode_states"] = VISITS * arrays["mode_states"]
    arrays["mode_total"] = arrays["mode_states"].sum(axis=0)
    arrays["n_tables_posterior"] = np.append(np.zeros(K), 1.0)
    arrays["table_ids"], arrays["sizes"] = np.arange(K), np.full(K, VISITS)
    arrays["n_opened"], arrays["n_observations"] = np.array(K), np.array(VISITS * K)
    del arrays["squares"]
    engine = make_engine(model, D)
    engine.restore(arrays)
    return engine


def measure(centers: Float, spread: float, seconds: float, rounds: int) -> Row:
    """Return rows learned a second at these centres, the best of several rounds."""
    rng, engine = np.random.default_rng(1), engine_with(centers, spread)

    def learn(X: Float) -> None:
        engine.run(X, np.full(len(X), engine.time + 1.0))

    rows = centers[rng.integers(len(centers), size=POOL)] + rng.standard_normal((POOL, centers.shape[1]))
    feeder = Feeder(learn, rows, 1024)
    feeder.once(seconds)
    for _ in range(rounds):
        feeder.measure(seconds)
    return {"rate": feeder.rate, "ns": 1e9 / feeder.rate, "clusters": engine.n_tables, "rss": resident()}


def run(
    counts: dict[int, tuple[int, ...]], seconds: float, rounds: int, embeddings: Path | None = None
) -> Iterator[tuple[str, list[Row]]]:
    """Yield a table for every number of features and kind of centres."""
    for D, Ks in counts.items():
        for kind, spread in SPREADS.items():
            rng = np.random.default_rng(0)
            rows = []
            for K in Ks:
                centers = rng.normal(0.0, spread, (K, D))
                rows.append({"system": f"K = {K:,}"} | measure(centers, spread, seconds, rounds))
            yield f"D = {D}, {kind} centres (standard deviation {spread:g})", rows
    if embeddings is not None:
        with np.load(embeddings) as file:
            X, y = np.asarray(file["X"], dtype=np.float64), file["y"]
        within = np.mean([X[y == label].var(axis=0).mean() for label in np.unique(y)])
        X /= np.sqrt(within)
        rows = [
            {"system": f"K = {K:,}"} | measure(X[:K], float(X.std()), seconds, rounds)
            for K in (1000, 5000, len(X))
            if len(X) >= K
        ]
        yield f"every row of {embeddings.name} a table, D = {X.shape[1]}", rows


def main() -> None:
    """Parse, run, print and save."""
    from rich.console import Console

    parser = argparse.ArgumentParser(prog="python -m benchmarks.many", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one or two minutes, and fewer tables")
    parser.add_argument(
        "--embeddings", type=Path, help="vectors X (n, D) and their classes y (n,): each row is a table"
    )
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "many.json")
    options = parser.parse_args()
    settings = (QUICK, 0.3, 2) if options.quick else (COUNTS, 1.0, 3)
    tables = {}
    for title, rows in run(*settings, options.embeddings):
        tables[title] = rows
        Console(width=120).print(report.table(title, rows))
    if not options.quick:
        report.write(options.results, {"many": tables}, quick=False)


if __name__ == "__main__":
    on_one_thread("benchmarks.many")
    main()

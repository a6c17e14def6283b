"""``python -m benchmarks.shards [--quick] [--only SECTION]``: models of shards combined, beside a single pass."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import speed

SPREADS = (10.0, 2.0, 1.3)  # standard deviation of the centres; that of a cluster is 1
CLUSTERS, FEATURES, SHARDS, ROWS = 100, 16, 16, 200_000
SEEDS, FIRST_SEED = 5, 1000  # the rules of combining were chosen on seeds below 10
FORGETTING_ROWS, FORGETTING_SHARDS = 6000, 6
TABLES = ((100, "Gaussian"), (1000, "Gaussian"), (100, "NormalGamma"), (100, "VonMisesFisher"))
SECTIONS = ("overlap", "forgetting", "tables")
COLUMNS = {
    "ami": ("AMI", lambda v: f"{v:.3f}"),
    "clusters": ("clusters", lambda v: f"{v:.1f}"),
    "seconds": ("seconds", lambda v: f"{v:.2f}"),
}
Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    """Parse, run and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, fewer rows")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="run this section (may be repeated)")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--results", type=Path, default=speed.HERE / "results" / "shards.json")
    options = parser.parse_args(arguments)
    from benchmarks import report

    every = dict(zip(SECTIONS, (overlap, forgetting, tables), strict=True))
    for name, found in speed.run(every, options.only or list(every), options, COLUMNS):
        report.write(options.results, {name: found}, quick=options.quick)


def overlap(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield a table for each spread of the centres: clusters that stand apart, touch, and overlap."""
    import numpy as np

    from dyncrp import DynamicalMixture, Gaussian

    n = ROWS // 10 if options.quick else ROWS
    for spread in SPREADS:
        runs = []
        for seed in _seeds(options):
            rng = np.random.default_rng(seed)
            centers, y = rng.normal(0.0, spread, (CLUSTERS, FEATURES)), rng.integers(CLUSTERS, size=n)
            X = centers[y] + rng.standard_normal((n, FEATURES))
            model = DynamicalMixture(Gaussian(1.0, spread**2))
            runs.append(_compare(model, X, y, np.array_split(np.arange(n), SHARDS), relabel=True))
        yield (
            f"spread {spread:g}: {n:,} rows, {CLUSTERS} clusters in {FEATURES} dimensions, {SHARDS} shards",
            _mean(runs),
        )


def forgetting(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield a table for streams that forget, cut into stretches, and dealt out row by row."""
    import numpy as np

    from dyncrp import DynamicalCRP, DynamicalMixture, Exponential, Gaussian, Hyperbolic, Oscillatory, Stationary
    from dyncrp.datasets import sample_mixture

    n, m = FORGETTING_ROWS, FORGETTING_SHARDS
    kernels = [Exponential(50.0), Exponential(500.0), Hyperbolic(20.0), Oscillatory(1000.0)]
    kernels.append(0.99 * Exponential(20.0) + 0.01 * Stationary())
    cuts = {
        "consecutive stretches": np.array_split(np.arange(n), m),
        "every sixth row": [np.arange(at, n, m) for at in range(m)],
    }
    for cut, parts in cuts.items():
        runs = []
        for dynamics in kernels[:1] if options.quick else kernels:
            for D, spread in ((2, 10.0), (2, 4.0), (8, 2.0)):
                for seed in _seeds(options):
                    family, times = Gaussian(1.0, spread**2), np.arange(float(n))
                    X, y, _ = sample_mixture(DynamicalCRP(1.0, dynamics), family, times, seed, n_features=D)
                    runs.append(_compare(DynamicalMixture(family, dynamics, 1.0), X, y, parts, times))
        yield f"{len(runs)} streams that forget, {n:,} rows, {m} shards: {cut}", _mean(runs)


def tables(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield one table: the time it takes to combine so many tables, each of 50 rows."""
    import numpy as np

    import dyncrp

    families = {
        "Gaussian": dyncrp.Gaussian(1.0, 100.0),
        "NormalGamma": dyncrp.NormalGamma(1.0, 100.0, prior_mean=0.0),
        "VonMisesFisher": dyncrp.VonMisesFisher(200.0),
    }
    rows = []
    for K, name in TABLES[:1] if options.quick else TABLES:
        family, rng = families[name], np.random.default_rng(options.first)
        parameters = family.sample_parameters(K, FEATURES, rng)
        draws = [family.sample(np.repeat(parameters, 50, axis=0), rng) for _ in range(SHARDS)]
        models = [dyncrp.DynamicalMixture(family).fit(X) for X in draws]
        dyncrp.combine(models[:2])
        combined, seconds = _timed(lambda models=models: dyncrp.combine(models))
        found = sum(model.n_tables_ for model in models)
        rows.append({"system": f"{name}, {found:,} tables", "seconds": seconds, "clusters": combined.model.n_tables_})
    yield f"{SHARDS} shards combined, {FEATURES} dimensions", rows


def _compare(model: Any, X: Any, y: Any, parts: Any, times: Any = None, *, relabel: bool = False) -> list[Row]:
    """Return how a single pass does, and models of parts of the rows, combined."""
    import numpy as np
    from sklearn.base import clone

    import dyncrp

    one = clone(model).fit(X, times=times)
    models = [clone(model).fit(X[part], times=None if times is None else times[part]) for part in parts]
    combined, seconds = _timed(lambda: dyncrp.combine(models))
    mapped = np.empty(len(X), dtype=np.int64)
    for part, each, ids in zip(parts, models, combined.id_maps, strict=True):
        mapped[part] = ids[each.labels_]
    K = combined.model.n_tables_
    rows = [_row("single pass", y, one.labels_, one.n_tables_), _row("shards, ids mapped", y, mapped, K)]
    if relabel:
        rows.insert(1, _row("single pass, relabelled", y, one.predict(X), one.n_tables_))
        rows.append(_row("shards, relabelled", y, combined.model.predict(X), K) | {"seconds": seconds})
    return rows


def _row(system: str, y: Any, labels: Any, clusters: int) -> Row:
    from sklearn.metrics import adjusted_mutual_info_score

    return {"system": system, "ami": adjusted_mutual_info_score(y, labels), "clusters": clusters}


def _timed(run: Any) -> tuple[Any, float]:
    from time import perf_counter

    begin = perf_counter()
    return run(), perf_counter() - begin


def _mean(runs: list[list[Row]]) -> list[Row]:
    """Return the mean of every system over several runs, with the standard error of its AMI."""
    import numpy as np

    means = []
    for rows in zip(*runs, strict=True):
        row = {"system": rows[0]["system"]}
        row |= {key: float(np.mean([each[key] for each in rows])) for key in rows[0] if key != "system"}
        if len(rows) > 1:
            row["ami_error"] = float(np.std([each["ami"] for each in rows], ddof=1) / np.sqrt(len(rows)))
        means.append(row)
    return means


def _seeds(options: Any) -> range:
    return range(options.first, options.first + (1 if options.quick else SEEDS))


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.shards")
    main()

"""``python -m benchmarks.mixed [--quick] [--only SECTION] [--data FOLDER]``: mixed columns and missing cells."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import speed

# Of the clusters: prior variance over variance of numbers, concentration of categories, a = b of booleans.
SETTINGS = ((25.0, 1.0, 0.5), (9.0, 1.0, 0.5), (4.0, 2.0, 0.3), (4.0, 0.5, 0.3), (100.0, 5.0, 1.0), (1.0, 0.3, 0.2))
NUMBERS, CATEGORIES, BOOLEAN = (0, 1, 2, 3, 4), (5, 6, 7), (8, 9, 10, 11)  # the columns
CLUSTERS, ROWS = 20, 3000
SEEDS, FIRST_SEED = 5, 1000  # the rules were chosen on seeds 0 to 2
HOLES = 0.3  # the share of cells that are missing
CONNECTIONS, CLASS, CLASSES, FROM_ROW = "connections.csv.gz", "class", 14, 30_000
SPEED_TABLES, SPEED_COLUMNS = 100, (10, 5, 5)  # numbers, booleans, categories
SPEED_CODES = 8
SECTIONS = ("synthetic", "missing", "connections", "speed")
Row = dict[str, Any]
Labels = Callable[["Draw"], Any]


def _score(value: float) -> str:
    return f"{value:.3f}"


def columns() -> dict[str, Any]:
    """Return the columns of the tables that are printed."""
    from benchmarks import report

    systems = {name: (name, _score) for name in every_system()}
    return systems | {key: report.COLUMNS[key] for key in ("rate", "relative", "ami", "clusters")}


def main(arguments: list[str] | None = None) -> None:
    """Parse, run and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, shorter timings")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="run this section (may be repeated)")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--data", type=Path, help=f"a folder with {CONNECTIONS}, see docs/columns.md")
    parser.add_argument("--results", type=Path, default=speed.HERE / "results" / "mixed.json")
    options = parser.parse_args(arguments)
    from benchmarks import report

    every = dict(zip(SECTIONS, (synthetic, missing, connections, rates), strict=True))
    for name, found in speed.run(every, options.only or list(every), options, columns()):
        if found:
            report.write(options.results, {name: found}, quick=options.quick)


class Draw:
    """Rows of a mixture of ``Columns``, X (n, 12), the true clusters y (n,), and the family they are from.

    Numbers have units of 0.01 to 1000, the same for all clusters. Codes that the family counts as one are one category.
    holes: the share of cells that are missing, any cell as likely as another.
    """

    def __init__(self, setting: tuple[float, float, float], seed: int, n: int = ROWS, holes: float = 0.0) -> None:
        import numpy as np

        from dyncrp import Bernoulli, Categorical, Columns, Gaussian

        ratio, concentration, a = setting
        rng = np.random.default_rng(seed)
        unit = 10.0 ** rng.uniform(-2.0, 3.0, len(NUMBERS))
        numbers = Gaussian(unit**2, ratio * unit**2, 3.0 * unit)
        categories = Categorical(concentration)
        self.family = Columns({NUMBERS: numbers, CATEGORIES: categories, BOOLEAN: Bernoulli(a, a)})
        parameters = self.family.sample_parameters(CLUSTERS, self.family.width, rng)
        self.y = rng.integers(CLUSTERS, size=n)
        self.X = self.family.sample(parameters[self.y], rng)
        self.X[:, CATEGORIES] = np.minimum(self.X[:, CATEGORIES], categories.n_codes)
        self.X[rng.random(self.X.shape) < holes] = np.nan

    def frame(self) -> Any:
        """Return the rows as people have them: a DataFrame of numbers, words, and true and false."""
        import numpy as np
        import pandas as pd

        cells: dict[str, Any] = {f"number{at}": self.X[:, at] for at in NUMBERS}
        for at in CATEGORIES:
            cells[f"category{at}"] = [None if np.isnan(code) else f"word{code:.0f}" for code in self.X[:, at]]
        for at in BOOLEAN:
            flags = pd.array([None if np.isnan(cell) else bool(cell) for cell in self.X[:, at]], dtype="boolean")
            cells[f"flag{at}"] = flags if flags.isna().any() else flags.astype(bool)
        return pd.DataFrame(cells)

    def imputed(self) -> Any:
        """Return the rows with the mean of its column in place of a missing number, and its most frequent cell else."""
        import numpy as np

        found = self.X.copy()
        for at, column in enumerate(found.T):
            present = column[~np.isnan(column)]
            values, counts = np.unique(present, return_counts=True)
            column[np.isnan(column)] = np.mean(present) if at in NUMBERS else values[np.argmax(counts)]
        return found


def every_system() -> dict[str, Labels]:
    """Return what gives the rows of a draw their labels, by name."""
    import numpy as np

    from dyncrp import Bernoulli, Categorical, Columns, DynamicalMixture, Gaussian, NormalGamma, Stationary

    def unknown(numbers: Any) -> DynamicalMixture:
        return DynamicalMixture(Columns({NUMBERS: numbers, CATEGORIES: Categorical(), BOOLEAN: Bernoulli()}))

    def dropped(draw: Draw) -> Any:
        whole = draw.X[~np.isnan(draw.X).any(axis=1)]
        return unknown(NormalGamma(degrees=1.0)).fit(whole).predict(draw.X)

    return {
        "given the truth": lambda draw: DynamicalMixture(draw.family, Stationary(), None).fit(draw.X).labels_,
        "Gaussian": lambda draw: unknown(Gaussian()).fit(draw.X).labels_,
        "NormalGamma": lambda draw: unknown(NormalGamma(degrees=1.0)).fit(draw.X).labels_,
        "DataFrame": lambda draw: DynamicalMixture().fit(draw.frame()).labels_,
        "imputed, Gaussian": lambda draw: unknown(Gaussian()).fit(draw.imputed()).labels_,
        "imputed, NormalGamma": lambda draw: unknown(NormalGamma(degrees=1.0)).fit(draw.imputed()).labels_,
        "whole rows only": dropped,
    }


def synthetic(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield one table: every setting, nothing missing. The truth is the family; alpha is learned by all."""
    names = ("given the truth", "Gaussian", "NormalGamma", "DataFrame")
    yield (
        f"AMI, {ROWS:,} rows of {CLUSTERS} clusters, by variance ratio, concentration, a = b",
        _compare(names, options, 0.0),
    )


def missing(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield one table: every setting with cells missing, also filled in, and learned from whole rows only.

    The latter learns from the few rows with nothing missing, and then predicts the table of every row.
    """
    yield (
        f"AMI, the same with {100 * HOLES:.0f} % of all cells missing",
        _compare(tuple(every_system()), options, HOLES),
    )


def _compare(names: tuple[str, ...], options: Any, holes: float) -> list[Row]:
    """Return for each setting the AMI of these systems, means over the seeds, and the mean of all in the end."""
    import numpy as np

    seeds = range(options.first, options.first + (1 if options.quick else SEEDS))
    rows = []
    for setting in SETTINGS:
        amis = compare([Draw(setting, seed, holes=holes) for seed in seeds], names)
        name = "{:g}, {:g}, {:g}".format(*setting)
        rows.append({"system": name, "amis": amis} | {key: float(np.mean(some)) for key, some in amis.items()})
    return [*rows, {"system": "mean"} | {name: float(np.mean([row[name] for row in rows])) for name in names}]


def compare(draws: list[Draw], names: tuple[str, ...]) -> dict[str, list[float]]:
    """Return the AMI of the named systems on each draw."""
    from sklearn.metrics import adjusted_mutual_info_score

    systems = every_system()
    return {name: [adjusted_mutual_info_score(draw.y, systems[name](draw)) for draw in draws] for name in names}


def connections(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield one table, if the file is there: ``dyncrp run`` on it, from its start to its end."""
    if options.data is None or not (options.data / CONNECTIONS).exists():
        print(f"connections: left out, since --data names no folder with {CONNECTIONS}")
        return
    yield f"{CONNECTIONS}, {CLASSES} clusters", [run_file(options.data / CONNECTIONS, 1 if options.quick else 5)]


def run_file(path: Path, rounds: int, first: int = FROM_ROW) -> Row:
    """Return the AMI of clusters and classes from row ``first`` on, and rows a second, the best of some rounds.

    Seconds are the CPU time of the whole command on one thread, with starting Python and learning hyperparameters.
    """
    import os
    import subprocess
    import sys
    import tempfile

    import pandas as pd
    from sklearn.metrics import adjusted_mutual_info_score

    with tempfile.TemporaryDirectory() as folder:
        labels = Path(folder) / "labels.csv"
        options = ["--exclude", CLASS, "--clusters", str(CLASSES), "--keep", CLASS, "--quiet", "--force"]
        command = [sys.executable, "-m", "dyncrp", "run", str(path), *options, "--output", str(labels)]
        seconds = float("inf")
        for _ in range(rounds):
            before = os.times()
            subprocess.run(command, check=True)
            after = os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            seconds = min(seconds, used)
        found = pd.read_csv(labels)
    ami = adjusted_mutual_info_score(found[CLASS][first:], found["cluster"][first:])
    tables = found["table"].nunique()
    return {"system": "dyncrp run", "rate": len(found) / seconds, "ami": float(ami), "clusters": tables}


def rates(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield one table: rows a second of mixed columns, whole and with cells missing, beside a plain Gaussian."""
    from benchmarks.settings import FULL, QUICK

    title = f"K = {SPEED_TABLES}, D = {sum(SPEED_COLUMNS)}"
    yield title, compare_rates(QUICK if options.quick else FULL)


def compare_rates(settings: Any) -> list[Row]:
    """Return the rows a second of each, and as a share of the Gaussian's."""
    import numpy as np

    from benchmarks import data, systems, variants
    from dyncrp import Bernoulli, Categorical, Columns, DynamicalMixture, Exponential, Gaussian, NormalGamma

    K, D = SPEED_TABLES, sum(SPEED_COLUMNS)
    n = data.pool_size(D, settings.pool_rows, settings.pool_bytes)
    rng = np.random.default_rng(0)
    numbers, flags, codes = np.split(np.arange(D), np.cumsum(SPEED_COLUMNS)[:-1])
    y = rng.integers(K, size=n)
    X = np.empty((n, D))
    X[:, numbers] = data.centers(K, len(numbers), rng)[y] + rng.standard_normal((n, len(numbers)))
    X[:, flags] = rng.random((n, len(flags))) < rng.beta(0.2, 0.2, (K, len(flags)))[y]
    up_to = np.cumsum(rng.dirichlet(np.full(SPEED_CODES, 0.3), (K, len(codes))), axis=2)
    for at, column in enumerate(codes):
        X[:, column] = np.minimum((rng.random(n)[:, None] > up_to[y, at]).sum(axis=1), SPEED_CODES - 1)
    holed = np.where(rng.random(X.shape) < HOLES, np.nan, X)
    family = Columns(
        {
            tuple(numbers): NormalGamma(1.0, data.SPREAD**2, degrees=20.0, prior_mean=0.0),
            tuple(flags): Bernoulli(0.2, 0.2),
            tuple(codes): Categorical(2.0, n_codes=SPEED_CODES),
        }
    )
    plain = Gaussian(1.0, data.SPREAD**2), data.gaussian(K, D, n, 0).pool
    contestants = [("Gaussian", *plain), ("mixed", family, X), (f"mixed, {100 * HOLES:.0f} % missing", family, holed)]
    dynamics = Exponential(systems.TIMESCALE)
    models = [(name, DynamicalMixture(one, dynamics, systems.ALPHA), rows) for name, one, rows in contestants]
    return variants.compare(models, settings)


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.mixed")
    main()

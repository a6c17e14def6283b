"""``python -m benchmarks.fill [--quick]``: missing cells filled in, beside the imputers of scikit-learn.

Rows come in random order, in units of the standard deviation of each column, and cells are hidden at random. Those in
the second half of the rows are scored: the root mean square error, 1 for the mean of a column. The imputers see all
rows at once. dyncrp takes ten rows at a time, fills them in, and only then learns them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import TYPE_CHECKING, Any

from benchmarks.speed import HERE, on_one_thread

if TYPE_CHECKING:
    from benchmarks.data import Float

SHARES = (0.1, 0.3)  # of cells that are hidden
SEEDS = range(10, 20)
BATCH = 10  # rows
FIRST = 20  # rows that are not filled by dyncrp
REAL = ("iris", "wine", "breast_cancer", "diabetes")
MADE = "clusters, made"
MEAN = "mean of the real files"
ROWS, COLUMNS, ALPHA = 600, 6, 1.0  # of the stream that is made
Fill = Callable[["Float"], "Float"]


def rows_of(name: str, seed: int) -> Float:
    """Return whole rows in random order, each column in units of its standard deviation about its mean.

    The stream that is made has round clusters in six columns, which come and go, in their own order.
    """
    import numpy as np
    from sklearn import datasets

    from dyncrp import DynamicalCRP, Exponential, Gaussian
    from dyncrp.datasets import sample_mixture

    if name == MADE:
        process, family = DynamicalCRP(ALPHA, Exponential(50.0)), Gaussian(1.0, 9.0)
        X = sample_mixture(process, family, range(ROWS), n_features=COLUMNS, seed=seed).observations
    else:
        X = getattr(datasets, f"load_{name}")(return_X_y=True)[0]
        X = X[np.random.default_rng(seed).permutation(len(X))]
    scaled: Float = (X - X.mean(axis=0)) / X.std(axis=0)
    return scaled


def hide(X: Float, share: float, seed: int) -> Any:
    """Return which cells are hidden, (n, D); at least one of each row is there."""
    import numpy as np

    rng = np.random.default_rng([seed, 1])
    hidden = rng.random(X.shape) < share
    hidden[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    return hidden


def stream(make: Callable[[], Any], *, as_filled: bool) -> Fill:
    """Return how dyncrp fills rows in one pass.

    as_filled: learn rows as they were filled in, which a family for whole rows needs; the first ones with the means of
    their columns so far. Otherwise missing cells are integrated out.
    """
    import numpy as np

    def fill(X: Float) -> Float:
        model, found = make(), X.copy()
        with np.errstate(invalid="ignore"):
            usual = np.where(np.isnan(X[:FIRST]).all(axis=0), 0.0, np.nanmean(X[:FIRST], axis=0))
        found[:FIRST] = np.where(np.isnan(X[:FIRST]), usual, X[:FIRST])
        model.partial_fit(found[:FIRST] if as_filled else X[:FIRST])
        for start in range(FIRST, len(X), BATCH):
            some = slice(start, start + BATCH)
            found[some] = model.fill(X[some])
            model.partial_fit(found[some] if as_filled else X[some])
        return found

    return fill


def systems() -> dict[str, Fill]:
    """Return what fills rows (n, D), by name."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    from dyncrp import DynamicalMixture, NormalWishart

    return {
        "mean of the column": lambda X: SimpleImputer().fit_transform(X),
        "KNNImputer()": lambda X: KNNImputer().fit_transform(X),
        "IterativeImputer()": lambda X: IterativeImputer(random_state=0).fit_transform(X),
        "dyncrp, one pass": stream(DynamicalMixture, as_filled=False),
        "dyncrp NormalWishart(), one pass": stream(lambda: DynamicalMixture(NormalWishart()), as_filled=True),
    }


def measure(name: str, share: float, seeds: range) -> list[dict[str, Any]]:
    """Return for each system the mean error over the seeds, its standard error, and seconds of CPU for a seed."""
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning

    errors: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}
    for seed in seeds:
        X = rows_of(name, seed)
        hidden = hide(X, share, seed)
        scored = hidden & (np.arange(len(X)) >= len(X) // 2)[:, None]
        for system, fill in systems().items():
            began = process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                found = fill(np.where(hidden, np.nan, X))
            seconds[system] = seconds.get(system, 0.0) + (process_time() - began) / len(seeds)
            errors.setdefault(system, []).append(float(np.sqrt(np.mean((found - X)[scored] ** 2))))
    return [
        {
            "system": system,
            "error": float(np.mean(each)),
            "standard_error": float(np.std(each, ddof=1) / np.sqrt(len(each))) if len(each) > 1 else None,
            "seconds": seconds[system],
        }
        for system, each in errors.items()
    ]


def means(found: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the mean error of each system on the real files that were measured."""
    real = [rows for title, rows in found.items() if not title.startswith((MADE, MEAN))]
    return [
        {"system": rows[0]["system"], "error": fmean(row["error"] for row in rows)} for rows in zip(*real, strict=True)
    ]


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fill", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two seeds, and two of the data sets")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "fill.json")
    options = parser.parse_args(arguments)
    from rich.console import Console

    from benchmarks import report

    columns: report.Columns = {
        "error": ("error", lambda v: f"{v:.3f}"),
        "standard_error": ("±", lambda v: f"{v:.3f}"),
        "seconds": ("seconds", lambda v: f"{v:.2f}"),
    }
    found: dict[str, Any] = {}
    for name in (*REAL, MADE) if not options.quick else ("wine", MADE):
        for share in SHARES:
            title = f"{name}, {share:.0%} hidden"
            found[title] = measure(name, share, SEEDS[:2] if options.quick else SEEDS)
            Console().print(report.table(title, found[title], columns))
            report.write(options.results, {"fill": found}, quick=options.quick)
    found[MEAN] = means(found)
    Console().print(report.table(MEAN, found[MEAN], columns))
    report.write(options.results, {"fill": found}, quick=options.quick)


if __name__ == "__main__":
    on_one_thread("benchmarks.fill")
    main()

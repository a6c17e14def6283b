"""The prior: seatings drawn by Monte Carlo against the exact recursion (the paper's first two figures)."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dyncrp import DynamicalCRP
from experiments import figures, summary, sweep
from experiments.store import Row, Table
from experiments.streams import DYNAMICS, seeds

ALPHAS = (1.1, 10.78, 15.37, 30.91)
N = 100  # customers, at times 0, 1, 2, …


@dataclass(frozen=True)
class Draws:
    """So many seatings of N customers; every field is a column of the results."""

    dynamics: str
    alpha: float
    repetition: int
    n_samples: int

    @property
    def process(self) -> DynamicalCRP:
        """What they are drawn from."""
        return DynamicalCRP(self.alpha, DYNAMICS[self.dynamics])


FULL = [Draws(*draws, n_samples=5000) for draws in product(DYNAMICS, ALPHAS, range(20))]
QUICK = [Draws(*draws, n_samples=1000) for draws in product(DYNAMICS, ALPHAS, range(4))]
SCHEMA = pa.schema(
    {
        "dynamics": pa.string(),
        "alpha": pa.float64(),
        "repetition": pa.int16(),
        "n_samples": pa.int32(),
        "counts": pa.list_(pa.int16(), N * (N + 1) // 2),  # how often n sat at table k ≤ n; of the first repetition
        "samples": pa.list_(pa.int32()),  # of the first so many seatings,
        "errors": pa.list_(pa.float64()),  # the mean squared error against the recursion,
        "expected": pa.list_(pa.float64()),  # and its expectation if the recursion is exact
    }
)
TRIANGLE = np.tril_indices(N)


def compare(draws: Draws) -> list[Row]:
    """Draw seatings and compare the frequencies of the first 10, …, all of them with the exact marginals.

    The frequency of a cell with probability p in S seatings has the variance p(1 − p)/S, whose mean over the cells is
    what to expect of the mean squared error.
    """
    exact = draws.process.marginals(range(N)).assignments[TRIANGLE]
    seatings = draws.process.sample(range(N), draws.n_samples, seed=np.random.default_rng(seeds(*astuple(draws))))
    samples = np.unique(np.geomspace(10, draws.n_samples, 12).round().astype(int))
    counts = np.zeros((N, N), dtype=np.int64)
    errors, before = [], 0
    for n_samples in samples:
        np.add.at(counts, (np.arange(N), seatings[before:n_samples]), 1)
        errors.append(np.mean((counts[TRIANGLE] / n_samples - exact) ** 2))
        before = n_samples
    expected = np.mean(exact * (1.0 - exact)) / samples
    return [
        asdict(draws)
        | {"counts": None if draws.repetition else counts[TRIANGLE]}
        | {"samples": samples, "errors": np.array(errors), "expected": expected}
    ]


def slopes(frame: pd.DataFrame) -> pd.DataFrame:
    """Add, for every row, the slope of log error against log number of samples, and the ratio of errors to expected."""
    fits = [np.polyfit(np.log(row.samples), np.log(row.errors), 1)[0] for row in frame.itertuples()]
    ratios = [np.mean(row.errors / row.expected) for row in frame.itertuples()]
    return frame.assign(slope=fits, ratio=ratios)


def convergence(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return means of slopes and ratios over repetitions as text: a row for each alpha, a column for each dynamics."""
    titles = {"slope": "slope of the mean squared error (perfect: −1)", "ratio": "error / expected (perfect: 1)"}
    return {
        title: summary.mean_and_error(frame, ["alpha", "dynamics"], column)
        .apply(summary.plus_minus, axis=1)
        .unstack()[list(DYNAMICS)]
        .rename(index="α = {:g}".format)
        for column, title in titles.items()
    }


def table(folder: Path = sweep.HERE) -> Table:
    """Return the results kept in a folder; by default, of the full run."""
    return Table(folder / "results" / "prior.parquet", SCHEMA, list(Draws.__dataclass_fields__))


def square(triangle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a row for each customer and a column for each table, 0 above the diagonal."""
    full = np.zeros((N, N))
    full[TRIANGLE] = triangle
    return full


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, draw, print."""
    options = sweep.parser("prior", __doc__).parse_args(arguments)
    folder = sweep.output(options)
    results = table(folder)
    have = set(results.read()[results.key].itertuples(index=False, name=None))
    tasks = [(draws,) for draws in (QUICK if options.quick else FULL) if astuple(draws) not in have]
    frame = slopes(sweep.run(compare, tasks, results, options))

    marginals = {}
    for (dynamics, alpha), repetitions in frame.groupby(["dynamics", "alpha"]):
        counts, n_samples = repetitions["counts"].iloc[0], repetitions["n_samples"].iloc[0]
        exact = DynamicalCRP(alpha, DYNAMICS[dynamics]).marginals(range(N)).assignments
        marginals[dynamics, alpha] = square(counts / n_samples), exact
    figures.prior_marginals(marginals, folder / "figures")
    figures.prior_errors(frame, folder / "figures")
    for title, values in convergence(frame).items():
        summary.show(title, values)


if __name__ == "__main__":
    main()

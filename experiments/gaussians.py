"""Mixtures of Gaussians: 3,600 streams, every system (the paper's figures on synthetic mixtures of Gaussians)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments import figures, streams, summary, sweep
from experiments.store import Table
from experiments.streams import GaussianStream

FULL = streams.grid(
    GaussianStream,
    seeds=3,
    alpha=(5.0, 10.0, 15.0, 20.0, 25.0),
    n_features=(3, 6, 9, 12, 15),
    prior_variance=(25.0, 50.0, 100.0, 250.0, 500.0, 1000.0),
    variance=(5.0, 10.0),
)
QUICK = streams.grid(
    GaussianStream,
    seeds=1,
    alpha=(5.0, 15.0, 25.0),
    n_features=(3, 9),
    prior_variance=(25.0, 100.0, 1000.0),
    variance=(10.0,),
    n=(200,),
)

SEEDS = {"dd-CRP": 1, "variational": 1}  # the slowest have a part of the streams, evenly spread


def table(folder: Path = sweep.HERE) -> Table:
    """Return the results kept in a folder; by default, of the full run."""
    return Table(folder / "results" / "gaussians.parquet", streams.schema(GaussianStream), streams.key(GaussianStream))


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, draw, print."""
    usual = streams.systems(GaussianStream)
    options = sweep.parser("gaussians", __doc__, usual).parse_args(arguments)
    folder = sweep.output(options)
    results = table(folder)
    tasks = sweep.pending(QUICK if options.quick else FULL, sweep.chosen(options, usual), results, SEEDS)
    frame = sweep.run(streams.compare_systems, tasks, results, options)
    frame["signal"] = np.sqrt(frame["prior_variance"] / frame["variance"])
    figures.comparison(frame, "Mixtures of Gaussians", "signal to noise ρ/σ", folder / "figures", "gaussians")
    for title, values in summary.comparison(frame).items():
        summary.show(title, values)


if __name__ == "__main__":
    main()

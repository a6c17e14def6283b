"""Mixtures of Gaussians: 3,600 streams, every system (the paper's figures on synthetic mixtures of Gaussians)."""

from __future__ import annotations

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


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, draw, print."""
    usual = streams.systems(GaussianStream)
    options = sweep.parser("gaussians", __doc__, usual).parse_args(arguments)
    folder = sweep.output(options)
    table = Table(folder / "results" / "gaussians.parquet", streams.schema(GaussianStream), streams.key(GaussianStream))
    tasks = sweep.pending(QUICK if options.quick else FULL, sweep.chosen(options, usual), table)
    frame = sweep.run(streams.compare_systems, tasks, table, options)
    frame["signal"] = np.sqrt(frame["prior_variance"] / frame["variance"])
    figures.comparison(frame, "Mixtures of Gaussians", "signal to noise ρ/σ", folder / "figures", "gaussians")
    summary.show_comparison(frame)


if __name__ == "__main__":
    main()

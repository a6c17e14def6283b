"""Mixtures of von Mises–Fisher distributions: 3,600 streams (the paper's figures on the sphere)."""

from __future__ import annotations

from pathlib import Path

from experiments import figures, streams, summary, sweep
from experiments.store import Table
from experiments.streams import DirectionStream

FULL = streams.grid(
    DirectionStream,
    seeds=6,
    alpha=(2.5, 5.0, 7.5, 10.0, 15.0),
    n_features=(3, 5, 10, 20, 30),
    concentration=(25.0, 50.0, 100.0, 250.0, 500.0, 1000.0),
)
QUICK = streams.grid(
    DirectionStream,
    seeds=1,
    alpha=(2.5, 7.5, 15.0),
    n_features=(3, 10),
    concentration=(25.0, 100.0, 1000.0),
    n=(200,),
)
SEEDS = {"Gibbs": 1, "dd-CRP": 1}  # the slowest have a part of the streams, evenly spread
TOO_SLOW = "dd-CRP"  # for all: it takes longer than all others together, and no part in the paper's figure


def table(folder: Path = sweep.HERE) -> Table:
    """Return the results kept in a folder; by default, of the full run."""
    path = folder / "results" / "sphere.parquet"
    return Table(path, streams.schema(DirectionStream), streams.key(DirectionStream))


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, draw, print."""
    every = streams.systems(DirectionStream)
    options = sweep.parser("sphere", __doc__, every).parse_args(arguments)
    folder = sweep.output(options)
    results = table(folder)
    names = sweep.chosen(options, [name for name in every if name != TOO_SLOW])
    tasks = sweep.pending(QUICK if options.quick else FULL, names, results, SEEDS)
    frame = sweep.run(streams.compare_systems, tasks, results, options)
    frame["signal"] = frame["concentration"]
    figures.comparison(frame, "Mixtures of von Mises–Fisher", "concentration κ", folder / "figures", "sphere")
    for title, values in summary.comparison(frame).items():
        summary.show(title, values)


if __name__ == "__main__":
    main()

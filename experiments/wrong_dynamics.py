"""The wrong dynamics: what the D-CRP loses when told other dynamics than made the data, and whether the evidence tells.

Every stream of ``experiments.gaussians`` is clustered four times. The dynamics that the D-CRP is told is ``system``.
"""

from __future__ import annotations

from pathlib import Path

from experiments import figures, gaussians, streams, summary, sweep
from experiments.store import Table
from experiments.streams import DYNAMICS, GaussianStream


def table(folder: Path = sweep.HERE) -> Table:
    """Return the results kept in a folder; by default, of the full run."""
    path = folder / "results" / "wrong_dynamics.parquet"
    return Table(path, streams.schema(GaussianStream), streams.key(GaussianStream))


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, draw, print."""
    options = sweep.parser("wrong_dynamics", __doc__).parse_args(arguments)
    folder = sweep.output(options)
    results = table(folder)
    tasks = sweep.pending(gaussians.QUICK if options.quick else gaussians.FULL, list(DYNAMICS), results)
    frame = sweep.run(streams.compare_dynamics, tasks, results, options)
    figures.wrong_dynamics(summary.wrong_dynamics(frame), folder / "figures")
    for title, values in summary.told(frame).items():
        summary.show(f"{title} (rows: the data; columns: the inference)", values)


if __name__ == "__main__":
    main()

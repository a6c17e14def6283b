"""The wrong dynamics: what the D-CRP loses when told other dynamics than made the data, and whether the evidence tells.

Every stream of ``experiments.gaussians`` is clustered four times. The dynamics that the D-CRP is told is ``system``.
"""

from __future__ import annotations

from experiments import figures, gaussians, streams, sweep
from experiments.store import Table
from experiments.streams import DYNAMICS, GaussianStream


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, draw."""
    options = sweep.parser("wrong_dynamics", __doc__).parse_args(arguments)
    folder = sweep.output(options)
    table = Table(
        folder / "results" / "wrong_dynamics.parquet", streams.schema(GaussianStream), streams.key(GaussianStream)
    )
    tasks = sweep.pending(gaussians.QUICK if options.quick else gaussians.FULL, list(DYNAMICS), table)
    frame = sweep.run(streams.compare_dynamics, tasks, table, options)
    figures.wrong_dynamics(frame, folder / "figures")


if __name__ == "__main__":
    main()

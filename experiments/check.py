"""``python -m experiments.check [--streams N]``: some of the stored results, computed again: are they still the same?

Draws N streams of each experiment, with all systems that have results for them. Labels, scores and counts must be
equal; log evidence and mean errors, sums whose last digits depend on the processor, up to 1e-9 of themselves. CPU time
does not count. Exits with 1 if a row differs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from experiments import gaussians, prior, rooms, sphere, streams, sweep, wrong_dynamics
from experiments.store import Row, Table

SUMS, CLOSE = ("log_evidence", "errors", "expected"), 1e-9


class Experiment(NamedTuple):
    """What there is, where the results are, and what computes the rows of one stream."""

    streams: Sequence[Any]
    table: Table
    compute: sweep.Work


EXPERIMENTS = {
    "prior": Experiment(prior.FULL, prior.table(), prior.compare),
    "gaussians": Experiment(gaussians.FULL, gaussians.table(), streams.compare_systems),
    "sphere": Experiment(sphere.FULL, sphere.table(), streams.compare_systems),
    "wrong_dynamics": Experiment(gaussians.FULL, wrong_dynamics.table(), streams.compare_dynamics),
    "rooms": Experiment(rooms.FULL, rooms.table(), rooms.compare),
}


def pairs(experiment: Experiment, n: int) -> Iterator[tuple[Row, Row]]:
    """Yield stored rows and the same rows computed now."""
    table = experiment.table
    stored = {tuple(row[name] for name in table.key): row for row in table.read().to_dict("records")}
    some = np.random.default_rng(0).permutation(len(experiment.streams))[:n]
    for stream in (experiment.streams[i] for i in np.sort(some)):
        at = astuple(stream)
        names = [key[-1] for key in stored if key[:-1] == at] if "system" in table.key else None
        for row in experiment.compute(stream) if names is None else experiment.compute(stream, names):
            yield stored[tuple(row[name] for name in table.key)], row


def differences(stored: Row, row: Row) -> list[str]:
    """Return the columns in which a row differs.

    >>> differences({"ami": 0.5, "cpu_seconds": 1.0}, {"ami": 0.25, "cpu_seconds": 2.0})
    ['ami']
    """
    return [name for name in stored if name != "cpu_seconds" and not _same(name, stored[name], row[name])]


def _same(name: str, stored: Any, value: Any) -> bool:
    if isinstance(stored, str):
        return bool(stored == value)
    numbers = (np.array(np.nan if given is None else given, dtype=float) for given in (stored, value))
    return np.allclose(*numbers, rtol=CLOSE if name in SUMS else 0.0, atol=0.0, equal_nan=True)


def main(arguments: list[str] | None = None) -> None:
    """Print how many rows of each experiment are the same, and which are not."""
    parser = argparse.ArgumentParser(prog="python -m experiments.check", description=__doc__)
    parser.add_argument("--streams", type=int, default=40, help="of each experiment (default: %(default)s)")
    parser.add_argument("--only", action="append", choices=EXPERIMENTS, help="this experiment (may be repeated)")
    options = parser.parse_args(arguments)
    threadpool_limits(1)  # as when they were stored
    n_others = 0
    for name in options.only or EXPERIMENTS:
        experiment, n_rows, others = EXPERIMENTS[name], 0, list[str]()
        for stored, row in pairs(experiment, options.streams):
            n_rows += 1
            if found := differences(stored, row):
                key = ", ".join(str(row[field]) for field in experiment.table.key)
                others.append(f"  {key}: {', '.join(found)}")
        print(f"{name}: {n_rows - len(others):,} of {n_rows:,} rows are as stored", *others, sep="\n", flush=True)
        n_others += len(others)
    if n_others:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

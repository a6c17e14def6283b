"""Many small tasks on the cores of this machine, or on a cluster: batched, resumable, the same wherever they run."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from experiments.store import Row, Table
from experiments.streams import SLOW

HERE = Path(__file__).parent
BACKENDS = ("loky", "threading", "multiprocessing", "ray", "dask")
BATCH = 4  # tasks at a time: a part of the results, and a step of the progress bar
ROUND = 4  # batches for each worker before results are collected, where a backend cannot hand them over one by one

Task = tuple[Any, ...]  # the arguments of one call
Work = Callable[..., list[Row]]


def parser(name: str, description: str | None, systems: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return what every experiment understands; those with systems to choose from, also which."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{name}", description=description)
    parser.add_argument("--quick", action="store_true", help="a minute's worth, into a folder of its own")
    parser.add_argument("--backend", choices=BACKENDS, default="loky", help="who does the work (default: %(default)s)")
    parser.add_argument("--n-jobs", type=int, default=-1, help="how many workers; -1, the default: one for each core")
    parser.add_argument("--output", type=Path, help=f"where results/ and figures/ go (default: {HERE.name}/)")
    if systems:
        parser.add_argument(
            "--systems", choices=("fast", "all"), default="all", help=f"fast: without {', '.join(SLOW)}"
        )
        parser.add_argument("--only", action="append", choices=systems, metavar="SYSTEM", help="this one (repeatable)")
    return parser


def output(options: argparse.Namespace) -> Path:
    """Return the folder of results and figures; quick ones do not mix with the full ones."""
    return options.output or (HERE / "quick" if options.quick else HERE)


def chosen(options: argparse.Namespace, usual: Sequence[str]) -> list[str]:
    """Return the systems asked for; ``usual`` are all that are meant by ``all``."""
    return options.only or [name for name in usual if options.systems == "all" or name not in SLOW]


def pending(
    streams: Sequence[Any], names: Sequence[str], table: Table, seeds: Mapping[str, int] | None = None
) -> list[Task]:
    """Return (stream, names of systems) for what the table does not have yet; of some systems, so many seeds only."""
    limits = seeds or {}
    have = set(table.read()[table.key].itertuples(index=False, name=None))

    def missing(stream: Any) -> tuple[str, ...]:
        asked = (name for name in names if stream.seed < limits.get(name, math.inf))
        return tuple(name for name in asked if (*astuple(stream), name) not in have)

    return [(stream, left) for stream in streams if (left := missing(stream))]


def run(work: Work, tasks: Sequence[Task], table: Table, options: argparse.Namespace) -> pd.DataFrame:
    """Call ``work`` on the arguments of every task, keep the rows in the table, and return all that it then has.

    Results are stored as they come, by this process alone: workers need no common disk.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    start = time.monotonic()
    with table.writing():
        if tasks:
            with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
                bar = progress.add_task(table.path.stem, total=len(tasks))
                for n_tasks, rows in _results(work, tasks, options.backend, options.n_jobs):
                    table.append(rows)
                    progress.advance(bar, n_tasks)
    minutes = (time.monotonic() - start) / 60
    console.print(f"{len(tasks)} tasks in {minutes:.1f} minutes ({options.backend}); results in {table.path}")
    return table.read()


def _results(work: Work, tasks: Sequence[Task], backend: str, n_jobs: int) -> Iterator[tuple[int, list[Row]]]:
    """Yield the number of tasks of each batch, and their rows, as they come."""
    calls = [joblib.delayed(_batch)(work, tasks[i : i + BATCH]) for i in range(0, len(tasks), BATCH)]
    with _cluster(backend, n_jobs), joblib.parallel_config(backend, n_jobs=n_jobs):
        if backend in ("ray", "multiprocessing"):  # which hand over nothing until all is done
            size = ROUND * joblib.effective_n_jobs(n_jobs)
            for i in range(0, len(calls), size):
                yield from joblib.Parallel(batch_size=1)(calls[i : i + size])
        else:
            yield from joblib.Parallel(batch_size=1, return_as="generator_unordered")(calls)


def _batch(work: Work, batch: Sequence[Task]) -> tuple[int, list[Row]]:
    threadpool_limits(1)  # results and CPU seconds are then the same, however many cores a worker has
    return len(batch), [row for task in batch for row in work(*task)]


@contextmanager
def _cluster(backend: str, n_jobs: int) -> Iterator[None]:
    """Join the cluster that RAY_ADDRESS or DASK_SCHEDULER_ADDRESS names, or start one on this machine."""
    workers = joblib.cpu_count() if n_jobs < 0 else n_jobs
    if backend == "ray":
        import ray
        from ray.util.joblib import register_ray

        register_ray()
        with ray.init(num_cpus=None if "RAY_ADDRESS" in os.environ else workers):
            yield
    elif backend == "dask":
        from dask import config
        from distributed import Client

        local = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        with Client(**({} if config.get("scheduler-address", None) else local)):
            yield
    else:
        yield

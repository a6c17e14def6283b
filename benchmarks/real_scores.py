"""Run the contenders on real streams, under a time limit, and score their labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from benchmarks.real_data import Arrivals
from benchmarks.real_systems import Contender, contenders
from benchmarks.timing import TooLong, limit
from dyncrp.metrics import agreement

Row = dict[str, Any]
Make = Callable[[Arrivals, int], Sequence[Contender]]


@dataclass(frozen=True)
class Settings:
    """Each of ``seeds`` is an order of arrival and a start for those that draw one."""

    seeds: int = 3
    most: int | None = None  # rows of a stream
    seconds: float = 120.0  # CPU time of one system on one stream, learning and labelling


FULL = Settings()
QUICK = Settings(seeds=1, most=400, seconds=20.0)


def everyone(arrivals: Arrivals, seed: int) -> list[Contender]:
    """Return the contenders for these arrivals."""
    return list(contenders(arrivals.X, len(np.unique(arrivals.truth)), seed))


def run(
    name: str, stream: Callable[[int], Arrivals], settings: Settings, make: Make = everyone
) -> Iterator[tuple[str, list[Row]]]:
    """Yield a title and a row for each system: means over the seeds, and their standard errors."""
    measured: dict[str, list[Row]] = {}
    for seed in range(settings.seeds):
        arrivals = stream(seed)
        for contender in make(arrivals, seed):
            rows = measured.setdefault(contender.name, [])
            if not any(row["stopped"] for row in rows):  # it would only be too slow again
                rows.append(measure(contender, arrivals.truth, settings.seconds))
    N, D = arrivals.X.shape
    orders = f"{settings.seeds} order{'s' * (settings.seeds > 1)} of arrival"
    yield f"{name}: {N} × {D}, {len(np.unique(arrivals.truth))} classes, {orders}", [*map(summary, measured.values())]


def measure(contender: Contender, truth: Any, seconds: float) -> Row:
    """Run once and score. A system that fails, or outlasts ``seconds``, gets a row that says so and no score."""
    row: Row = {"system": contender.name, "told": contender.told, "stopped": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            contender.warm()
            start = process_time()
            with limit(seconds, cpu=True):
                labels = contender.run()
            row["seconds"] = process_time() - start
        except TooLong:
            return row | {"stopped": f"over {seconds:g}"}
        except Exception as problem:  # one that breaks must not cost the others their figures
            return row | {"stopped": "failed", "problem": f"{type(problem).__name__}: {problem}"}
    found = agreement(truth, labels)
    return row | {"ami": found.ami, "clusters": found.n_clusters}


def summary(rows: list[Row]) -> Row:
    """Return the means over the seeds, or the row that was stopped."""
    stopped = next((row for row in rows if row["stopped"]), None)
    if stopped is not None:
        return stopped
    amis = [row["ami"] for row in rows]
    return {
        "system": rows[0]["system"],
        "told": rows[0]["told"],
        "stopped": None,
        "ami": float(np.mean(amis)),
        "ami_error": standard_error(amis),
        "clusters": float(np.mean([row["clusters"] for row in rows])),
        "seconds": float(np.mean([row["seconds"] for row in rows])),
        "amis": amis,
    }


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean; one value has none.

    >>> standard_error([1.0, 3.0]), standard_error([1.0])
    (1.0, None)
    """
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None

"""What each option costs a row, as docs/engine.md has it: ``python -m benchmarks.options [--quick]``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import data, report
from benchmarks.settings import FULL, QUICK, Settings
from benchmarks.speed import on_one_thread
from benchmarks.systems import ALPHA, TIMESCALE
from benchmarks.timing import Feeder, interleave
from dyncrp import DynamicalMixture, Exponential, Gaussian

Row = dict[str, Any]
BATCH = 1024
SIZES = ((10, 2), (100, 16))
MISSING = 0.01  # the share of cells that are
PARAMETERS: dict[str, dict[str, Any]] = {
    "alarm_rate=0.001": {"alarm_rate": 0.001},
    "surge_rate=0.0001": {"surge_rate": 0.0001},
    "keep_clusters=True": {"keep_clusters": True},
    "n_examples=3": {"n_examples": 3},
    "learn_alpha=True": {"learn_alpha": True},
    "memory=1000": {"memory": 1000.0},
    "max_tables=1000": {"max_tables": 1000},
    "prune_below=1e-6": {"prune_below": 1e-6},
    "assignment='variational'": {"assignment": "variational"},
    "table_count='posterior'": {"table_count": "posterior"},
}
WATCHED = {"alarm_rate": 0.001, "surge_rate": 0.0001, "keep_clusters": True}
ATTRIBUTES = ("labels_", "responsibilities_", "novelty_", "novelty_p_", "events_")


def feeders(K: int, D: int, n: int) -> dict[str, Feeder]:
    """Return what is measured by name, each with n rows of K clusters in D dimensions; the first is a plain model."""
    X = data.gaussian(K, D, n, 0).pool
    cells = np.where(np.random.default_rng(0).random(X.shape) < MISSING, np.nan, X)
    found = {"nothing": Feeder(_model().partial_fit, X, BATCH)}
    found |= {f"{name} read": Feeder(_reader(name), X, BATCH) for name in ATTRIBUTES}
    heard = _model()
    heard.on_event = lambda event: None
    found["on_event set"] = Feeder(heard.partial_fit, X, BATCH)
    found |= {name: Feeder(_model(**given).partial_fit, X, BATCH) for name, given in PARAMETERS.items()}
    found["times given"] = Feeder(_timed(_model()), X, BATCH)
    found["weights given"] = Feeder(_weighed(_model()), X, BATCH)
    found["weights, alarms, surges and kept clusters"] = Feeder(_weighed(_model(**WATCHED)), X, BATCH)
    found["a list of lists"] = Feeder(_model().partial_fit, X[: 16 * BATCH].tolist(), BATCH)
    found["a DataFrame"] = Feeder(_model().partial_fit, pd.DataFrame(X).add_prefix("x"), BATCH)
    found["float32"] = Feeder(_model().partial_fit, X.astype(np.float32), BATCH)
    found[f"{100 * MISSING:g} % of the cells missing"] = Feeder(_model().partial_fit, cells, BATCH)
    return found


def run(settings: Settings, sizes: tuple[tuple[int, int], ...] = SIZES) -> Iterator[tuple[str, list[Row]]]:
    """Yield, for each size, what a row takes, and how many times as long as with nothing asked for."""
    for K, D in sizes:
        measured = feeders(K, D, data.pool_size(D, settings.pool_rows, settings.pool_bytes))
        for feeder in measured.values():
            feeder.once(settings.warm_up_seconds)
        interleave(list(measured.values()), settings.rounds, settings.seconds)
        plain = measured["nothing"].rate
        yield (
            f"what an option costs, K = {K}, D = {D}, batches of {BATCH:,}",
            [{"system": name, "ns": 1e9 / one.rate, "times": plain / one.rate} for name, one in measured.items()],
        )


def _model(**params: Any) -> DynamicalMixture:
    return DynamicalMixture(Gaussian(1.0, data.SPREAD**2), Exponential(TIMESCALE), alpha=ALPHA, **params)


def _reader(name: str) -> Callable[[data.Float], object]:
    model = _model()
    return lambda X: getattr(model.partial_fit(X), name)


def _weighed(model: DynamicalMixture) -> Callable[[data.Float], object]:
    """Return ``partial_fit`` with weights."""
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], BATCH)
    return lambda X: model.partial_fit(X, sample_weight=weights[: len(X)])


def _timed(model: DynamicalMixture) -> Callable[[data.Float], object]:
    """Return ``partial_fit`` with the times that it would give the rows by itself."""
    begin = 0

    def take(X: data.Float) -> object:
        nonlocal begin
        begin += len(X)
        return model.partial_fit(X, times=np.arange(begin - len(X), begin, dtype=np.float64))

    return take


def main() -> None:
    """Parse, run and print."""
    from rich.console import Console

    parser = argparse.ArgumentParser(prog="python -m benchmarks.options", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half a minute, rougher figures")
    columns = report.COLUMNS | {"times": ("times as long", lambda value: f"{value:.2f}")}
    for title, rows in run(QUICK if parser.parse_args().quick else FULL):
        Console(width=120).print(report.table(title, rows, columns))


if __name__ == "__main__":
    on_one_thread("benchmarks.options")
    main()

"""Against the others, size by size: speed, quality, clusters found, size of the model, share of numpy.dot's rate."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import process_time
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_mutual_info_score

from benchmarks import data
from benchmarks.settings import Settings
from benchmarks.systems import System, as_dicts, contenders
from benchmarks.timing import Feeder, TooLong, interleave, limit

Row = dict[str, Any]
SQUARE = 1500
FEWEST_LABELS = 50  # below which an AMI says nothing
PATIENCE = 3.0  # a call may last this many times its limit before it is stopped


def run(settings: Settings) -> Iterator[tuple[str, list[Row]]]:
    """Yield the name and the rows of each size as it is done."""
    for K, D in settings.sizes:
        yield f"K = {K}, D = {D}", measure_size(K, D, settings)


def measure_size(K: int, D: int, settings: Settings) -> list[Row]:
    """Measure everyone at one size, in one run."""
    pool = data.pool_size(D, settings.pool_rows, settings.pool_bytes)
    stream = data.gaussian(K, D, pool, settings.labelled)
    dicts, labelled_dicts = as_dicts(stream.pool), as_dicts(stream.rows)
    entries = [(s, Feeder(s.learn, dicts if s.slow else stream.pool, s.batch)) for s in contenders(K, D, pool)]
    fast = [(s, f) for s, f in entries if not s.slow]
    for system, feeder in fast:
        _warm_up(system, feeder, settings)
    dots = _dots(K, D)
    interleave([*(f for _, f in fast), *dots], settings.rounds, settings.seconds)
    rows = [_row(s, f, stream.rows, stream.truth, settings) for s, f in fast]
    for system, feeder in entries[len(fast) :]:
        rows.append(_slow_row(system, feeder, labelled_dicts, stream.truth, settings))
    _compare(rows, 2 * K * D, max(dot.rate for dot in dots))
    return rows


def _compare(rows: list[Row], flops: int, peak: float) -> None:
    """Add ratios to the first row's rate; ``flops`` are those of the products that an observation needs."""
    for row in rows:
        fastest = row["rate"] or row["below"]
        row["ratio"] = rows[0]["rate"] / fastest
        row["share_of_dot"] = flops * row["rate"] / peak if row["system"].startswith("dyncrp") else None
        row["dot_gflops"] = peak / 1e9


def _dots(K: int, D: int) -> list[Feeder]:
    """Return feeders whose rate is numpy.dot's in float64: a square product, and that of a batch with the tables."""
    feeders = []
    for n, inner, m in ((SQUARE, SQUARE, SQUARE), (1024, D, K)):
        a, b = np.random.default_rng(0).random((n, inner)), np.random.default_rng(1).random((inner, m))
        out = np.empty((n, m))
        flops = range(2 * n * inner * m)  # counts the operations as if they were rows
        feeders.append(Feeder(lambda _, a=a, b=b, out=out: np.dot(a, b, out=out), flops, len(flops)))
    return feeders


def _warm_up(system: System, feeder: Feeder, settings: Settings) -> None:
    """Let the system see every cluster."""
    if system.first:
        feeder.take(feeder.pool[: system.first])
        feeder.fed += system.first
    feeder.once(settings.warm_up_seconds, system.least)


def _slow_row(system: System, feeder: Feeder, rows: Sequence[Any], truth: Any, settings: Settings) -> Row:
    """Warm up and measure under a time limit; a system stopped in the middle of a call has but an upper bound."""
    start = process_time()
    try:
        with limit(PATIENCE * settings.warm_up_seconds):
            _warm_up(system, feeder, settings)
        for _ in range(settings.slow_rounds):
            with limit(PATIENCE * settings.slow_seconds):
                feeder.measure(settings.slow_seconds)
    except TooLong:
        if not feeder.rate:
            below = (feeder.fed + 1) / (process_time() - start)
            return _figures(system, feeder) | {"rate": None, "below": below}
    return _row(system, feeder, rows, truth, settings)


def _row(system: System, feeder: Feeder, rows: Sequence[Any], truth: Any, settings: Settings) -> Row:
    """Label the labelled stretch and gather the figures."""
    row = _figures(system, feeder)
    labels = _labels(system, rows, settings)
    clusters = system.count()
    row |= {"labelled": len(labels), "clusters": clusters, "bytes": len(pickle.dumps(system.model))}
    if clusters and len(labels) >= FEWEST_LABELS:
        row["ami"] = float(adjusted_mutual_info_score(truth[: len(labels)], labels))
    return row


def _figures(system: System, feeder: Feeder) -> Row:
    row: Row = {"system": system.name, "told": system.told, "rate": feeder.rate, "fed": feeder.fed, "below": None}
    return row | {"ami": None, "clusters": None, "labelled": 0, "bytes": None}


def _labels(system: System, rows: Sequence[Any], settings: Settings) -> list[int]:
    if not system.slow:
        return np.asarray(system.label(rows)).tolist()
    labels: list[int] = []
    with suppress(TooLong), limit(settings.label_seconds):
        for row in rows:
            labels += system.label([row])
    return labels

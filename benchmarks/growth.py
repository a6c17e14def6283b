"""Growth of the cost of an observation: with how many came before, and with the number of tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.settings import Settings
from benchmarks.systems import ours
from benchmarks.timing import Feeder, interleave

Row = dict[str, Any]
PARTS = 10  # of a stretch; the median over them is its cost


def resident() -> int | None:
    """Return the resident memory of this process in bytes, or None where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def with_observations(settings: Settings) -> Iterator[tuple[str, list[Row]]]:
    """An old model and a young one take turns: the last stretch of one against the first of the other."""
    K, D = 100, 16
    X = data.gaussian(K, D, settings.stretch, 0).pool
    old = ours(1024, "old")
    old.learn(X[: 64 * K])
    rows: list[Row] = []
    for i in range(settings.stretches - 1):
        cost = [_nanoseconds(old.learn, part) for part in np.array_split(X, PARTS)]
        rows.append({"system": f"stretch {i + 1}", "ns": float(np.median(cost)), "rss": resident()})
    young = ours(1024, "young")
    young.learn(X[: 64 * K])
    first, last = [], []
    for part in np.array_split(X, PARTS):
        first.append(_nanoseconds(young.learn, part))
        last.append(_nanoseconds(old.learn, part))
    rows.append({"system": f"stretch {settings.stretches}", "ns": float(np.median(last)), "rss": resident()})
    young_ns = float(np.median(first))
    rows.append({"system": "stretch 1 of a new model, in turns with it", "ns": young_ns, "rss": None})
    for row in rows:
        row["relative"] = row["ns"] / young_ns
    yield f"stretches of {settings.stretch:,} observations, K = {K}, D = {D}", rows


def with_tables(settings: Settings) -> Iterator[tuple[str, list[Row]]]:
    """From few tables to many, interleaved."""
    D = 16
    feeders, systems = [], []
    for K in settings.table_counts:
        system = ours(1024, f"K = {K}")
        n = max(16 * K, 1 << 16) if settings.stretch > 10_000 else 1024
        feeders.append(Feeder(system.learn, data.gaussian(K, D, n, 0).pool, system.batch))
        feeders[-1].once(settings.warm_up_seconds)
        systems.append(system)
    interleave(feeders, settings.rounds, settings.seconds)
    rows = [
        {
            "system": system.name,
            "rate": feeder.rate,
            "ns": 1e9 / feeder.rate,
            "ns_per_table": 1e9 / feeder.rate / K,
            "clusters": system.count(),
        }
        for system, feeder, K in zip(systems, feeders, settings.table_counts, strict=True)
    ]
    yield f"number of tables, D = {D}", rows


def _nanoseconds(learn: Any, rows: data.Float) -> float:
    """Cost of an observation, in batches of 1024."""
    start = process_time()
    for begin in range(0, len(rows), 1024):
        learn(rows[begin : begin + 1024])
    return 1e9 * (process_time() - start) / len(rows)

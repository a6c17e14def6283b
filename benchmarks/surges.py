"""``python -m benchmarks.surges``: is the rate of surges kept where nothing changes, and how soon is a change found?

Prints events told over events expected, for labels in random order, in runs, and with bursts; and after how many rows a
cluster is told that comes twice or five times as often, half as often, or not at all. The rules were chosen on streams
with seeds below 100, which ``--quick`` takes.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.speed import HERE, on_one_thread

RATES = (0.001, 0.0001)
FIRST = 20_000  # row from which the rate should hold
KINDS = ("stationary", "sticky", "bursty")
SHARES = {"equal": 0.0, "1/k": 1.0}  # of clusters: 1/k to this power
CLUSTERS = (12, 100)
STAY = 50.0  # rows on average in one cluster of a sticky stream
BETWEEN = 4000.0  # rows on average from one burst to the next
CHANGES = {"twice": 2.0, "five times": 5.0, "half": 0.5, "none": 0.0}
AFTER = 100_000  # rows in which a change should be found
Table = tuple[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Size:
    """How long a run is."""

    rows: int = 1_000_000
    seeds: range = range(110, 113)
    model_seeds: range = range(120, 121)
    begin: int = 400_000
    delay_seeds: range = range(130, 150)


FULL = Size()
QUICK = Size(200_000, range(1), range(1), 40_000, range(3))
TOY = Size(30_000, range(1), range(1), 22_000, range(1))


def labels(kind: str, n: int, K: int, power: float, seed: int, begin: int = 0, times: float = 1.0) -> Any:
    """Return the clusters of n rows, (n,). From row ``begin`` on, cluster 2 comes ``times`` as often.

    They are in random order; or one row in 50 goes over to another; or, in random order, bursts of 50 rows and more
    (Pareto with exponent 1.5, up to 5,000), in which one cluster takes 20 to 80 % of the rows.
    """
    import numpy as np

    rng = np.random.default_rng([seed, K, KINDS.index(kind), int(10 * power), int(10 * times)])
    weights = np.arange(1.0, K + 1) ** -power
    found = rng.choice(K, size=n, p=weights / weights.sum())
    weights[2] *= times
    found[begin:] = rng.choice(K, size=n - begin, p=weights / weights.sum())
    row = np.arange(n)
    if kind == "sticky":
        change = rng.random(n) < 1.0 / STAY
        change[0] = True
        return found[np.maximum.accumulate(np.where(change, row, 0))]
    at = 0.0
    while kind == "bursty" and (at := at + rng.exponential(BETWEEN)) < n:
        part = found[int(at) : int(at) + min(int(50 * (1.0 + rng.pareto(1.5))), 5000)]
        part[rng.random(len(part)) < rng.uniform(0.2, 0.8)] = rng.integers(K)
    return found


def rates(size: Size, kind: str) -> Table:
    """Return events told over events expected for one kind of stream, whole and by their kinds; and the cost."""
    from dyncrp.stream.surges import KINDS as EVENTS
    from dyncrp.stream.surges import Surges

    rows = []
    for K in CLUSTERS:
        for name, power in SHARES.items():
            streams = [labels(kind, size.rows, K, power, seed) for seed in size.seeds]
            for rate in RATES:
                told, seconds = [], 0.0
                for one in streams:
                    surges, start = Surges(rate), process_time()
                    surges.add(one)
                    told.append(surges.told(FIRST, size.rows))
                    seconds += process_time() - start
                expected = rate * (size.rows - FIRST)
                each = [len(events) / expected for events in told]
                by_kind = {
                    event: sum(one.kind == event for events in told for one in events)
                    / (len(told) * expected / len(EVENTS))
                    for event in EVENTS
                }
                found = {"system": f"{K} clusters, shares {name}, rate {rate:g}", "ratio": sum(each) / len(each)}
                found |= {"least": min(each), "most": max(each), **by_kind}
                rows.append(found | {"ns": 1e9 * seconds / size.rows / len(streams)})
    return f"surges, {kind}", rows


def through_the_model(size: Size) -> Table:
    """Return the same for a whole model, which finds 12 clusters by itself in 2 dimensions."""
    import numpy as np

    from dyncrp import DynamicalMixture, Gaussian

    rows = []
    for kind in KINDS:
        for seed in size.model_seeds:
            there = labels(kind, size.rows, 12, 0.0, seed)
            rng = np.random.default_rng(seed)
            X = 12.0 * np.array([(k % 4, k // 4) for k in range(12)])[there] + rng.normal(size=(size.rows, 2))
            model, told = DynamicalMixture(Gaussian(1.0, 400.0), surge_rate=RATES[0]), 0
            for begin in range(0, size.rows, 10_000):
                events = model.partial_fit(X[begin : begin + 10_000]).events_
                told += sum(e.kind in ("surge", "growing", "fading") and e.row >= FIRST for e in events)
            ratio = told / (RATES[0] * (size.rows - FIRST))
            rows.append({"system": f"{kind}, {model.n_tables_} tables", "ratio": ratio})
    return f"surges of a model, rate {RATES[0]:g}", rows


def delays(size: Size, kind: str) -> Table:
    """Return after how many rows a change is told: the median, and the share of streams in which it is."""
    import numpy as np

    from dyncrp.stream.surges import Surges

    rows = []
    for name, times in CHANGES.items():
        after = []
        for seed in size.delay_seeds:
            surges, n = Surges(RATES[1]), size.begin + AFTER
            surges.add(labels(kind, n, 12, 0.0, seed, size.begin + 97 * seed % 4096, times))
            begin = size.begin + 97 * seed % 4096
            kinds = ("surge", "growing") if times > 1.0 else ("fading",)
            found = [one.row for one in surges.told(begin, n) if one.table == 2 and one.kind in kinds]
            after.append(found[0] - begin + 1 if found else np.inf)
        median = float(np.median(after))
        told = {"system": f"cluster comes {name} as often" if times else "cluster stops coming"}
        rows.append(told | {"found": float(np.isfinite(after).mean()), "after": median if median < np.inf else None})
    return f"rows until a change is told, {kind}, 12 clusters, rate {RATES[1]:g}", rows


def main() -> None:
    """Parse, run, print, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.surges", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short streams, few of them")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "surges.json")
    options = parser.parse_args()
    run(QUICK if options.quick else FULL, options.results, quick=options.quick)


def run(size: Size, path: Path, *, quick: bool) -> None:
    """Run all sections, print their tables and save them."""
    from rich.console import Console

    from benchmarks import report

    def times(value: float) -> str:
        return f"{value:.2f}"

    columns: report.Columns = {"ratio": ("told / expected", times), "least": ("least", times), "most": ("most", times)}
    columns |= {name: (name, times) for name in ("surge", "growing", "fading")}
    columns |= {"found": ("found", lambda value: f"{100 * value:.0f} %"), "after": ("rows", report.count)}
    columns |= {"ns": ("ns/row", report.count)}
    console = Console(width=None if sys.stdout.isatty() else 160)
    sections = {"rates": [rates(size, kind) for kind in KINDS], "model": [through_the_model(size)]}
    sections["delays"] = [delays(size, kind) for kind in KINDS]
    for section, tables in sections.items():
        for title, rows in tables:
            console.print(report.table(title, rows, columns))
        report.write(path, {section: dict(tables)}, quick=quick)


if __name__ == "__main__":
    on_one_thread("benchmarks.surges")
    main()

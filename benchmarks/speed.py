"""``python -m benchmarks.speed [--quick] [--only SECTION]``: print ratios measured in one run, on one thread."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
HERE = Path(__file__).parent
SECTIONS = ("peers", "families", "dynamics", "methods", "rows", "river", "growth", "tables", "startup")
Rows = list[dict[str, Any]]
Sections = Mapping[str, Callable[[Any], Iterator[tuple[str, Rows]]]]


def sections() -> Sections:
    """Return the sections by name; imports numpy, so one thread must be set before."""
    from benchmarks import dictionaries, growth, peers, startup, variants

    return dict(
        zip(
            SECTIONS,
            (
                peers.run,
                variants.families,
                variants.dynamics,
                variants.methods,
                variants.single_rows,
                dictionaries.run,
                growth.with_observations,
                growth.with_tables,
                startup.run,
            ),
            strict=True,
        )
    )


def run(
    every: Sections, names: list[str], settings: Any, columns: dict[str, Any] | None = None
) -> Iterator[tuple[str, dict[str, Rows]]]:
    """Run the named sections, printing each table as it is done, and yield each section with its tables."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from benchmarks import report

    console = Console(width=None if sys.stdout.isatty() else 140)
    bars = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*bars, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(names))
        for name in names:
            progress.update(bar, description=name)
            tables = {}
            for title, rows in every[name](settings):
                tables[title] = rows
                console.print(report.table(title, rows, columns or report.COLUMNS))
            progress.advance(bar)
            yield name, tables


def main(arguments: list[str] | None = None) -> None:
    """Parse, set one thread, run, save, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one or two minutes, rougher figures")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="run this section (may be repeated)")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "speed.json")
    parser.add_argument("--chart", type=Path, default=HERE.parent / "docs" / "images" / "benchmark.png")
    options = parser.parse_args(arguments)

    from benchmarks import chart, report
    from benchmarks.settings import FULL, QUICK

    for name, tables in run(sections(), options.only or list(SECTIONS), QUICK if options.quick else FULL):
        report.write(options.results, {name: tables}, quick=options.quick)
        if name == "peers":
            chart.draw(tables, options.chart)


def on_one_thread(module: str) -> None:
    """Start again with every thread pool at 1, which only counts before numpy is imported."""
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], os.environ | ONE_THREAD)


if __name__ == "__main__":
    on_one_thread("benchmarks.speed")
    main()

"""``python -m benchmarks.real [--quick] [--only STREAM] [--data FILE]``: agreement with the classes of real data."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import speed

STREAMS = ("digits-shuffled", "digits-sticky", "wine", "breast-cancer", "banking-shuffled", "banking-sticky")


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, save, draw; ends in an error if a system failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="400 rows of each stream in one order")
    parser.add_argument("--only", action="append", choices=STREAMS, help="run this stream (may be repeated)")
    parser.add_argument("--data", type=Path, help="banking77.npz: X (n, D) unit vectors, y (n,) classes")
    parser.add_argument("--seconds", type=float, help="CPU time of one system on one stream")
    parser.add_argument("--results", type=Path, default=speed.HERE / "results" / "real.json")
    parser.add_argument("--chart", type=Path, default=speed.HERE.parent / "docs" / "images" / "real.png")
    options = parser.parse_args(arguments)

    from benchmarks import real_chart, real_data, real_scores, report

    settings = real_scores.QUICK if options.quick else real_scores.FULL
    if options.seconds is not None:
        settings = replace(settings, seconds=options.seconds)
    streams = real_data.streams(real_data.find_banking(options.data), settings.most)
    names = options.only or list(streams)
    if missing := [name for name in names if name not in streams]:
        parser.error(f"{' and '.join(missing)} needs the banking questions: give --data FILE")
    runs = {name: partial(real_scores.run, name, stream) for name, stream in streams.items()}
    problems = []
    for name, tables in speed.run(runs, names, settings, report.MEANS):
        saved = report.write(options.results, {name: tables}, quick=options.quick)
        real_chart.draw({key: saved[key] for key in STREAMS if key in saved}, options.chart)
        problems += [f"{name}, {row['system']}: {row['problem']}" for row in _rows(tables) if "problem" in row]
    if problems:
        sys.exit("\n".join(problems))


def _rows(tables: dict[str, speed.Rows]) -> speed.Rows:
    return [row for rows in tables.values() for row in rows]


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.real")
    main()

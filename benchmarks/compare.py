"""``python -m benchmarks.compare BASE [NEW]``: the speed of two commits, measured in turns on one machine.

NEW is the working tree, with what is not committed, unless it is given. Both are installed in folders of their own
under build/compare, which takes a minute or two for a commit that has not been there yet. Then a process of each
measures the same figure in turns, one thread each, and the CPU time counts. The ratio is that of the best rounds,
old/new: above 1, the new one is faster. The interval is that of the ratios of the rounds; a figure is called faster or
slower if all of the interval is, by more than 3 %. Exits with 1 if something is slower, with 0 otherwise.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed import HERE, ONE_THREAD

ROOT = HERE.parent
FOLDER = ROOT / "build" / "compare"
LEAST = 1.03  # by how much a figure must differ
IMPORTS = {"import dyncrp": "import dyncrp", "import DynamicalMixture": "from dyncrp import DynamicalMixture"}
FASTER, SAME, SLOWER, ABSENT = "faster", "the same", "slower", "-"
Row = dict[str, Any]
Side = Callable[[float], float]  # seconds to spend on a round; nanoseconds a unit


# What is measured


def rounds_of(old: Side, new: Side, rounds: int, seconds: float) -> tuple[list[float], list[float]]:
    """Return the times of both sides, a round of each after the other, and the other one first in every second."""
    times: tuple[list[float], list[float]] = ([], [])
    for at in range(rounds):
        for side in (0, 1) if at % 2 == 0 else (1, 0):
            times[side].append((old, new)[side](seconds))
    return times


def predict(old: Sequence[float], new: Sequence[float]) -> Row:
    """Return the ratio of the best times, the interval of the ratios of the rounds, and the verdict.

    The interval leaves out the lowest and the highest ratio: of nine rounds, it holds the median with 96 %.

    >>> predict([2.0] * 9, [1.0] * 9)["verdict"], predict([1.0] * 9, [1.0] * 9)["verdict"]
    ('faster', 'the same')
    >>> predict([1.0, 1.1, 1.0, 1.3, 1.0], [1.2, 1.0, 1.1, 1.2, 1.0])["verdict"]
    'the same'
    """
    ratios = sorted(a / b for a, b in zip(old, new, strict=True))
    low, high = (ratios[1], ratios[-2]) if len(ratios) > 3 else (ratios[0], ratios[-1])
    ratio = min(old) / min(new)
    verdict = FASTER if min(low, ratio) > LEAST else SLOWER if max(high, ratio) < 1 / LEAST else SAME
    return {"old": min(old), "new": min(new), "speedup": ratio, "low": low, "high": high, "verdict": verdict}


def compare(sides: dict[str, tuple[str, Side, Side]], rounds: int, seconds: float) -> list[Row]:
    """Return a row for each figure, given its unit and its sides, old and new."""
    rows: list[Row] = []
    for name, (unit, old, new) in sides.items():
        row: Row = {"system": name, "unit": unit}
        try:
            rows.append(row | predict(*rounds_of(old, new, rounds, seconds)))
        except LookupError as error:
            rows.append(row | {"verdict": ABSENT, "why": str(error)})
    return rows


# What measures it


class Worker:
    """A process with one version of dyncrp."""

    def __init__(self, site: Path) -> None:
        command = [sys.executable, "-S", "-m", "benchmarks.figures"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment(site), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def measure(self, figure: str, seconds: float) -> float:
        """Return the nanoseconds a unit; a ``LookupError`` if this version does not have it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"figure": figure, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        if "error" in told:
            raise LookupError(told["error"])
        return float(told["ns"])

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def environment(site: Path) -> dict[str, str]:
    """Return the variables of a process that finds dyncrp in a folder.

    It does without ``site`` (-S), which would lead to the version that is installed here, and borrows its packages.
    """
    import numpy as np

    packages = Path(np.__file__).parents[1]
    return os.environ | ONE_THREAD | {"PYTHONPATH": os.pathsep.join(map(str, (site, ROOT, packages)))}


def starting(code: str, site: Path) -> Side:
    """Return what measures the CPU time of a fresh process that runs some code, less that of one that does nothing."""
    variables = environment(site)

    def run(program: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-S", "-c", program], env=variables, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return lambda seconds: 1e9 * max(run(code) - run("pass"), 1e-4)


# Both versions


def git(*arguments: str) -> str:
    """Return what git says in this repository."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def find_commit(name: str | None) -> str:
    """Return the commit of a name; of None that of the working tree, with what is not committed."""
    found = git("stash", "create") or "HEAD" if name is None else name
    return git("rev-parse", "--verify", f"{found}^{{commit}}")


def install(commit: str) -> Path:
    """Return a folder with dyncrp as of a commit, installed there if it was not."""
    tree = git("rev-parse", f"{commit}^{{tree}}")  # the same for the same files
    site = FOLDER / tree[:12]
    if not (site / "done").exists():
        print(f"installing {git('log', '-1', '--format=%h %s', commit)[:100]}", file=sys.stderr, flush=True)
        source = FOLDER / f"{tree[:12]}-source"
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(source, filter="data")
        options = ("--quiet", "--no-build-isolation", "--no-deps", "--upgrade", "--target", str(site))
        subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
        (site / "done").touch()
    return site


def main(arguments: list[str] | None = None) -> int:
    """Parse, install, measure, print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", help="the old commit")
    parser.add_argument("new", nargs="?", help="the new commit; the working tree if it is not given")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a round, for each side")
    parser.add_argument("--only", action="append", help="figures whose names begin like this (may be repeated)")
    parser.add_argument("--results", type=Path, help="a JSON file to save to")
    options = parser.parse_args(arguments)

    from rich.console import Console

    from benchmarks import report
    from benchmarks.figures import figures

    old, new = find_commit(options.base), find_commit(options.new)
    sites = install(old), install(new)
    workers = [Worker(site) for site in sites]
    sides: dict[str, tuple[str, Side, Side]] = {}
    for name, figure in figures().items():
        pair = [lambda seconds, w=worker, name=name: w.measure(name, seconds) for worker in workers]  # type: ignore[misc]
        sides[name] = figure.unit, pair[0], pair[1]
    for name, code in IMPORTS.items():
        sides[name] = "time", starting(code, sites[0]), starting(code, sites[1])
    if options.only:
        sides = {name: side for name, side in sides.items() if name.startswith(tuple(options.only))}
    rows = compare(sides, options.rounds, options.seconds)
    for worker in workers:
        worker.close()
    title = f"{old[:10]} (old) and {new[:10]} (new), best of {options.rounds} rounds"
    Console(width=None if sys.stdout.isatty() else 120).print(report.table(title, shown(rows), COLUMNS))
    if options.results is not None:
        report.write(options.results, {"compare": {title: rows}}, quick=False)
    return 1 if any(row["verdict"] == SLOWER for row in rows) else 0


COLUMNS: dict[str, Any] = {
    "old": ("old", str),
    "new": ("new", str),
    "speedup": ("old/new", lambda v: f"{v:.2f}"),
    "between": ("rounds", str),
    "verdict": ("", str),
}


def shown(rows: list[Row]) -> list[Row]:
    """Return rows as they are printed: times with their units."""
    found = []
    for row in rows:
        told = {"system": row["system"], "verdict": row["verdict"]}
        if "old" in row:
            told |= {side: duration(row[side], row["unit"]) for side in ("old", "new")}
            told |= {"speedup": row["speedup"], "between": f"{row['low']:.2f} to {row['high']:.2f}"}
        found.append(told)
    return found


def duration(ns: float, unit: str) -> str:
    """Return a time with three digits.

    >>> duration(1234.5, "row"), duration(2.5e8, "time")
    ('1.23 µs/row', '250 ms')
    """
    scale, name = next((s, n) for s, n in ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")) if ns >= s or s == 1.0)
    return f"{ns / scale:.3g} {name}" + ("" if unit == "time" else f"/{unit}")


if __name__ == "__main__":
    sys.exit(main())

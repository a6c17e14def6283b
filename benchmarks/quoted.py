"""Figures quoted in the README and the docs: which command prints them, and whether the stored results have them.

``python -m benchmarks.quoted`` lists every section that quotes figures in a table, with the command that prints them
and the number of figures checked; it fails if a figure is not in the results that the command stored. A figure is a
number with a decimal point. Results may have it in another unit: a share for a percentage, or thousands.
"""

from __future__ import annotations

import bisect
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
NOT_MEASURED = ("commit", "commits", "machine")  # entries of results
UNITS = (1.0, 100.0, 1e3, 1e-3, 1e-6, 1e-9)
NUMBER = re.compile(r"(?<![\w.`/])-?\d[\d,]*\.\d+")


class Source(NamedTuple):
    """Where the figures of a section come from. results: names of stored results. why: if nothing is compared, why."""

    command: str
    results: tuple[str, ...] = ()
    why: str = ""


# By page and heading; a heading covers those below it.
EXAMPLE = Source("–", why="parameters and examples, not measured")
EXPERIMENTS = Source("python -m experiments.report", why="written by that command; a test compares")
SOURCES = {
    ("README.md", "How well it works"): Source("python -m benchmarks.answers", ("answers", "speed")),
    ("docs/alarms.md", "Figures"): Source("python -m benchmarks.alarms", ("alarms",)),
    ("docs/alarms.md", "Surges"): Source("python -m benchmarks.surges", ("surges",)),
    ("docs/benchmarks.md", "Benchmarks"): Source("make bench", ("speed",)),
    ("docs/benchmarks.md", "What each system is given"): EXAMPLE,
    ("docs/benchmarks.md", "Two commits"): Source("make bench-compare", why="an example of what it prints"),
    ("docs/columns.md", "How good"): Source("python -m benchmarks.mixed", ("mixed",)),
    ("docs/endless.md", "Ten million observations"): Source("make soak", ("soak",)),
    ("docs/engine.md", "What an option costs"): Source("python -m benchmarks.options", why="ratios, not stored"),
    ("docs/missing.md", "How good"): Source("python -m benchmarks.fill", ("fill",)),
    ("docs/moving-clusters.md", "What it gains"): Source("python -m benchmarks.moving", ("moving",)),
    ("docs/moving-clusters.md", "On real streams"): Source("python -m benchmarks.moving --real", ("moving", "real")),
    ("docs/paper.md", "Results of the paper's synthetic experiments"): EXPERIMENTS,
    ("docs/proofs.md", "A billion observations"): Source("make soak-billion", ("soak-billion",)),
    ("docs/real-data.md", "Real data"): Source("python -m benchmarks.answers", ("answers",)),
    ("docs/real-data.md", "A cosine threshold"): Source("python -m benchmarks.threshold", ("threshold",)),
    ("docs/real-data.md", "Streaming systems"): Source("make bench-real", ("real",)),
    ("docs/river.md", "Speed"): Source("python -m benchmarks.speed --only river", ("speed",)),
    ("docs/rooms.md", "Results on thirty buildings"): EXPERIMENTS,
    ("docs/scaling.md", "How fast"): Source("python -m benchmarks.spark", ("spark",)),
    ("docs/scaling.md", "On paper: a thousand workers and a hundred million keys"): Source("–", why="an estimate"),
    ("docs/serve.md", "How fast it is"): Source("python -m benchmarks.serve", ("serve",)),
    ("docs/shards.md", "How good"): Source("python -m benchmarks.shards", ("shards",)),
    ("docs/shards.md", "On many processors"): Source("python -m benchmarks.shards", ("shards",)),
    ("docs/text.md", "How good, how fast"): Source("python -m benchmarks.text", ("text",)),
    **dict.fromkeys(
        [
            ("docs/automatic-hyperparameters.md", "What can be left out"),
            ("docs/baselines.md", "Baselines"),
            ("docs/choose.md", "What is in a row: the family"),
            ("docs/choose.md", "Does the past fade: the dynamics"),
            ("docs/constraints.md", "Tell it what you know"),
            ("docs/endless.md", "Bounded memory on long streams"),
            ("docs/serve.md", "Events in Python"),
            ("docs/serve.md", "What can be asked"),
            ("docs/start.md", "Automatic hyperparameters"),
        ],
        EXAMPLE,
    ),
}


class Section(NamedTuple):
    """A part of a page up to the next heading, and the headings above it, the innermost last."""

    page: str
    headings: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def figures(self) -> list[str]:
        """The numbers with a decimal point in the tables of the section, without the heads of tables."""
        lines = (line for line, after in pairwise([*self.lines, ""]) if not after.startswith("|---"))
        return [number for line in lines if line.startswith("|") for number in NUMBER.findall(line)]

    @property
    def source(self) -> Source | None:
        """Where its figures come from, None if nobody has said so."""
        found = (SOURCES.get((self.page, heading)) for heading in reversed(self.headings))
        return next((source for source in found if source is not None), None)


def sections(root: Path = ROOT) -> Iterator[Section]:
    """Yield the parts of all pages, without their code."""
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        headings: list[str] = []
        lines: list[str] = []
        for line in [*text.splitlines(), "# "]:
            mark = re.match(r"(#+) (.*)", line)
            if mark is None:
                lines.append(line)
                continue
            if lines:
                yield Section(path.relative_to(root).as_posix(), tuple(headings), tuple(lines))
            headings, lines = [*headings[: len(mark[1]) - 1], mark[2]], []


def numbers_in(content: Any) -> Iterator[float]:
    """Yield all numbers in the values of a JSON document, also those within texts."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name not in NOT_MEASURED:
                yield from numbers_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from numbers_in(value)
    elif isinstance(content, str):
        yield from (float(number.replace(",", "")) for number in re.findall(r"-?\d[\d,]*(?:\.\d+)?", content))
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield float(content)


@cache
def stored(names: tuple[str, ...]) -> list[float]:
    """Return all numbers of stored results, in every unit, sorted."""
    documents = (json.loads((RESULTS / f"{name}.json").read_text()) for name in names)
    return sorted(number * unit for one in documents for number in numbers_in(one) for unit in UNITS)


def is_stored(figure: str, names: tuple[str, ...]) -> bool:
    """Return whether a figure is a rounded number of stored results.

    >>> is_stored("0.677", ("answers",)), is_stored("0.123456", ("answers",))
    (True, False)
    """
    value, digits = float(figure.replace(",", "")), len(figure.rpartition(".")[2])
    off = 0.5 * 10.0**-digits * (1.0 + 1e-6)
    numbers = stored(names)
    at = bisect.bisect_left(numbers, value - off)
    return at < len(numbers) and numbers[at] <= value + off


def missing(section: Section) -> list[str]:
    """Return the figures of a section that its results do not have."""
    source = section.source
    return (
        [] if source is None or not source.results else [f for f in section.figures if not is_stored(f, source.results)]
    )


def main() -> int:
    """List the figures; return 1 if one has no source, or is not in its results."""
    failed = 0
    for section in sections():
        if not section.figures:
            continue
        source, wrong = section.source, missing(section)
        where = f"{section.page}, {section.headings[-1] if section.headings else ''}"
        if source is None:
            print(f"{where}: {len(section.figures)} figures, no command: {', '.join(section.figures[:5])}")
        else:
            how = source.why or f"in {', '.join(f'{name}.json' for name in source.results)}"
            print(f"{where}: {len(section.figures)} figures, {source.command} ({how})")
        if wrong:
            print(f"  not in the results: {', '.join(wrong)}")
        failed += source is None or bool(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

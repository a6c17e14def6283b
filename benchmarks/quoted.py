"""Figures quoted in the README and the docs: which command prints them, and whether the stored results have them.

``python -m benchmarks.quoted`` lists every section that quotes figures in a table, with the command that prints them
and the number of figures checked; it fails if a figure is not in the results that the command stored. A figure is a
number with a decimal point. Results may have it in another unit: a share for a percentage, or thousands. Where there
are results, sentences are checked too, apart from code and from numbers that are no results, which ``given`` names.
At the end it lists the results that do not say at which commit they were measured.
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
NUMBER = re.compile(r"(?<![\w.`/])-?\d[\d,]*\.\d+(?!\.?\d)")  # not a version, 1.2.3
CODE = re.compile(r"`[^`]*`")


class Source(NamedTuple):
    """Where the figures of a section come from.

    results: names of stored results, or of an entry. why: if nothing is compared, why. given: numbers that say what was
    measured.
    """

    command: str
    results: tuple[str, ...] = ()
    why: str = ""
    given: tuple[str, ...] = ()


# By page and heading; a heading covers those below it.
EXAMPLE = Source("–", why="parameters and examples, not measured")
STAY = ("0.95",)  # probability that the next row is of the same class
EXPERIMENTS = Source("python -m experiments.report", why="written by that command; a test compares")
SOURCES = {
    ("README.md", "How well it works"): Source("python -m benchmarks.answers", ("answers", "speed")),
    ("docs/alarms.md", "How well it works"): Source("python -m benchmarks.alarms", ("alarms",)),
    ("docs/alarms.md", "Surges"): Source("python -m benchmarks.surges", ("surges",), given=("1.5",)),
    ("docs/benchmarks.md", "Benchmarks"): Source("make bench", ("speed",)),
    ("docs/benchmarks.md", "What each system is given"): EXAMPLE,
    ("docs/benchmarks.md", "Two commits"): Source("make bench-compare", why="an example of what it prints"),
    ("docs/columns.md", "How well it works"): Source("python -m benchmarks.mixed", ("mixed",), given=("1.4",)),
    ("docs/endless.md", "Ten million observations"): Source("make soak", ("soak",)),
    ("docs/engine.md", "What an option costs"): Source("python -m benchmarks.options", why="ratios, not stored"),
    ("docs/missing.md", "How well it works"): Source("python -m benchmarks.fill", ("fill",)),
    ("docs/moving-clusters.md", "What it gains"): Source("python -m benchmarks.moving", ("moving",)),
    ("docs/moving-clusters.md", "On real streams"): Source("python -m benchmarks.moving --real", ("moving",)),
    ("docs/paper.md", "Results of the paper's synthetic experiments"): EXPERIMENTS,
    ("docs/proofs.md", "A billion observations"): Source("make soak-billion", ("soak-billion",)),
    ("docs/real-data.md", "Real data"): Source("python -m benchmarks.answers", ("answers",), given=(*STAY, "4.0")),
    ("docs/real-data.md", "A cosine threshold"): Source("python -m benchmarks.threshold", ("threshold",)),
    ("docs/streams.md", "A benchmark of stream clustering"): Source(
        "python -m benchmarks.streams", ("streams/means",), given=STAY
    ),
    ("docs/river.md", "Speed"): Source("python -m benchmarks.speed --only river", ("speed",)),
    ("docs/rooms.md", "Results on thirty buildings"): EXPERIMENTS,
    ("docs/scaling.md", "How fast"): Source("python -m benchmarks.spark", ("spark",)),
    ("docs/scaling.md", "An estimate: a thousand workers and a hundred million keys"): Source("–", why="an estimate"),
    ("docs/serve.md", "How fast it is"): Source("python -m benchmarks.serve", ("serve",)),
    ("docs/shards.md", "How well it works"): Source("python -m benchmarks.shards", ("shards",)),
    ("docs/shards.md", "On many processors"): Source(
        "python examples/scaling/joblib_shards.py --gigabytes 4", why="printed by the examples, not stored"
    ),
    ("docs/text.md", "How well it works, and how fast"): Source("python -m benchmarks.text", ("text",)),
    **dict.fromkeys(
        [
            ("docs/automatic-hyperparameters.md", "What can be left out"),
            ("docs/baselines.md", "Baselines"),
            ("docs/choose.md", "What is in a row: the family"),
            ("docs/choose.md", "Does the past fade: the dynamics"),
            ("docs/constraints.md", "Tell it what you know"),
            ("docs/endless.md", "Bounded memory on long streams"),
            ("docs/serve.md", "Events in Python"),
            ("docs/serve.md", "Requests"),
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
    def in_sentences(self) -> list[str]:
        """The numbers with a decimal point outside tables and code."""
        lines = [line for line in self.lines if not line.startswith("|")]
        return NUMBER.findall(CODE.sub("", "\n".join(lines)))

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
    """Yield all numbers in a JSON document, also those within texts and names, which say what was measured."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name not in NOT_MEASURED:
                yield from numbers_in(name)
                yield from numbers_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from numbers_in(value)
    elif isinstance(content, str):
        yield from (float(number.replace(",", "")) for number in re.findall(r"-?\d[\d,]*(?:\.\d+)?", content))
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield float(content)


def load(name: str) -> Any:
    """Return stored results, or one entry of them: "streams/means". Among very many numbers any figure is found."""
    file, _, entry = name.partition("/")
    content = json.loads((RESULTS / f"{file}.json").read_text())
    return content[entry] if entry else content


@cache
def stored(names: tuple[str, ...]) -> list[float]:
    """Return all numbers of stored results, in every unit, sorted."""
    return sorted(number * unit for name in names for number in numbers_in(load(name)) for unit in UNITS)


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
    if source is None or not source.results:
        return []
    figures = [figure for figure in section.figures + section.in_sentences if figure not in source.given]
    return [figure for figure in figures if not is_stored(figure, source.results)]


def faults(section: Section) -> list[str]:
    """Return what is wrong with the figures of a section: nobody says where they are from, or results have others."""
    if section.figures and section.source is None:
        return [f"no command: {', '.join(section.figures[:5])}"]
    wrong = missing(section)
    return [f"not in the results: {', '.join(wrong)}"] if wrong else []


def without_commit() -> list[str]:
    """Return the stored results, or sections of them, that do not say at which commit they were measured."""
    found = []
    for path in sorted(RESULTS.glob("*.json")):
        content = json.loads(path.read_text())
        if isinstance(content, list):
            found += [path.name] * (not all("commit" in entry for entry in content))
        elif "commit" not in content:
            unknown = [name for name in content.get("sections", {}) if name not in content.get("commits", {})]
            found += [f"{path.name} ({', '.join(unknown)})"] if "commits" in content and unknown else []
            found += [path.name] * ("commits" not in content)
    return found


def main(root: Path = ROOT) -> int:
    """List the figures; return 1 if one has no source, or is not in its results."""
    failed = False
    for section in sections(root):
        source, wrong = section.source, faults(section)
        compared = section.in_sentences if source is not None and source.results else []
        if not (section.figures or compared):
            continue
        where = f"{section.page}, {section.headings[-1] if section.headings else ''}"
        how = "" if source is None else source.why or f"in {', '.join(source.results)}"
        said = "" if source is None else f", {source.command} ({how})"
        print(f"{where}: {len(section.figures)} figures, and {len(compared)} in sentences{said}")
        print("".join(f"  {fault}\n" for fault in wrong), end="")
        failed = failed or bool(wrong)
    old = without_commit()
    print(f"Results that do not say their commit: {', '.join(old) or 'none'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Speed by commit: ``python -m benchmarks.history`` measures this one, adds it to the table, and draws it.

The figures are ratios to scikit-learn's ``MiniBatchKMeans`` in batches of 1,024, given K, in one run. Only runs on one
machine compare.
"""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.chart import STYLES
from benchmarks.speed import HERE, on_one_thread

SIZES = ((10, 2), (100, 16), (100, 128), (1000, 128))
ROUNDS, SECONDS = 9, 0.3
RESULTS, PICTURE = HERE / "results" / "history.json", HERE.parent / "docs" / "images" / "history.png"
Entry = dict[str, Any]


def measure(
    sizes: tuple[tuple[int, int], ...] = SIZES, rounds: int = ROUNDS, seconds: float = SECONDS
) -> dict[str, float]:
    """Return the ratio to MiniBatchKMeans at each size."""
    from benchmarks.systems import mini_batch_k_means, ours
    from benchmarks.timing import Feeder, interleave

    ratios = {}
    for K, D in sizes:
        pool = data.gaussian(K, D, data.pool_size(D, 1 << 17, 64 << 20), 0).pool
        pair = [Feeder(system.learn, pool, 1024) for system in (ours(1024, "dyncrp"), mini_batch_k_means(K, 1024))]
        for feeder in pair:
            feeder.take(pool[: max(3 * K, 1024)])
            feeder.once(5.0)
        interleave(pair, rounds, seconds)
        ratios[f"K = {K}, D = {D}"] = pair[0].rate / pair[1].rate
    return ratios


def remember(path: Path, entry: Entry) -> list[Entry]:
    """Add an entry to those of a file, in place of an older one of the same commit; return all, oldest first."""
    old = json.loads(path.read_text()) if path.exists() else []
    entries = [other for other in old if other["commit"] != entry["commit"]] + [entry]
    path.write_text(json.dumps(entries, indent=1) + "\n")
    return entries


def draw(entries: list[Entry], path: Path) -> None:
    """Draw the ratios of all commits, a line for each size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axis = figure.subplots()
    styles = list({color: (color, marker) for color, marker in STYLES.values()}.values())  # each colour once
    for (color, marker), name in zip(styles, entries[-1]["ratios"], strict=False):
        points = [(i, entry["ratios"][name]) for i, entry in enumerate(entries) if name in entry["ratios"]]
        axis.plot(*zip(*points, strict=True), color=color, marker=marker, lw=2)
        axis.annotate(name, points[-1], (8, 0), textcoords="offset points", color=color, va="center")
    axis.axhline(1.0, color="#777777", lw=0.8, ls="--")
    axis.set_xticks(range(len(entries)), [f"{entry['commit']}\n{entry['date']}" for entry in entries])
    axis.set_xlim(-0.3, len(entries) - 0.2 + 0.3 * len(entries) / 2)
    axis.set_ylim(0.0, None)
    axis.set_ylabel("times as fast as MiniBatchKMeans")
    axis.set_title("Speed by commit, one thread", loc="left", fontweight="bold")
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160)


def main() -> None:
    """Measure the commit that is checked out, and draw all."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True, cwd=HERE
    )
    today = datetime.now(UTC).date().isoformat()
    entry = {"commit": commit.stdout.strip(), "date": today, "ratios": measure()}
    print(json.dumps(entry, indent=1))
    draw(remember(RESULTS, entry), PICTURE)


if __name__ == "__main__":
    on_one_thread("benchmarks.history")
    main()

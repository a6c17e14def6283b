"""``python -m benchmarks.headlines``: make up the headlines of docs/headlines.csv, and draw docs/images/text.png.

Every headline is put together from the phrases below by a random number generator with a fixed seed.
"""

from __future__ import annotations

import argparse
import csv
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
START, DAYS, ROWS, SEED = datetime(2031, 3, 1), 60, 720, 0
CONCENTRATION, TIMESCALE, ALPHA = 100.0, timedelta(days=10), 0.3  # of the model that draws
COLUMNS = ("when", "headline", "topic")
# When each topic is in the news: its peak, its width in days, and its weight; then the phrases, one of each slot.
TOPICS: dict[str, tuple[list[tuple[float, float, float]], list[str]]] = {
    "storm": (
        [(8.0, 2.5, 3.0), (44.0, 2.5, 3.0)],
        [
            "Storm|Gale|Hurricane winds|Storm surge|Heavy storm",
            "batters|hits|nears|floods|lashes",
            "northern coast|harbour towns|coast road|island villages|fishing harbour",
            "ferries cancelled|homes without power|flood warning issued|residents evacuated|sea walls breached",
        ],
    ),
    "election": (
        [(24.0, 7.0, 2.0), (31.0, 1.5, 5.0)],
        [
            "Voters|Candidates|Polls|Prime minister|Opposition",
            "debate|clash over|split on|campaign on|turn to",
            "tax plan|pensions|coalition deal|ballot rules|school budget",
            "ahead of election|before Sunday's vote|as election nears|in tight election|on polling day",
        ],
    ),
    "football": (
        [(14.0, 1.2, 3.0), (21.0, 1.2, 3.0), (28.0, 1.2, 3.0), (35.0, 1.2, 4.0)],
        [
            "United|Rovers|City|Wanderers|Late penalty",
            "beat|draw with|stun|hold|knock out",
            "league leaders|cup holders|rivals|champions|bottom club",
            "in cup semi-final|after extra time|with late goal|as keeper saves penalty|to reach final",
        ],
    ),
    "comet": (
        [(51.0, 3.0, 3.5)],
        [
            "Comet|Bright comet|Astronomers|Telescope|Night sky",
            "visible|watch|photograph|brightens|track",
            "icy tail|comet core|comet after sunset|rare comet|glowing tail",
            "as comet passes sun|with naked eye|from observatory|on clear nights|this week",
        ],
    ),
    "strike": (
        [(18.0, 4.0, 2.0)],
        [
            "Train drivers|Rail union|Railway staff|Unions|Commuters",
            "walk out|strike|stop work|demand|wait",
            "over pay|at main stations|on commuter lines|in pay dispute|as trains stand still",
            "talks with railway fail|no trains until Friday|union rejects offer|buses packed|timetable cut",
        ],
    ),
    "bank": (
        [(40.0, 4.0, 2.5)],
        [
            "Central bank|Bank|Regulator|Shares|Investors",
            "raises|freezes|warns on|sell|cut",
            "interest rates|bank merger|bad loans|mortgage costs|bonds",
            "as inflation climbs|after profit warning|markets fall|to calm markets|in surprise move",
        ],
    ),
}


def make() -> list[tuple[str, str, str]]:
    """Return the rows: when, the headline, and its topic."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    names = list(TOPICS)
    rows = []
    for t in np.sort(rng.uniform(0.0, DAYS, ROWS)).tolist():
        peaks = [TOPICS[name][0] for name in names]
        weights = np.array([sum(w * np.exp(-0.5 * ((t - at) / width) ** 2) for at, width, w in each) for each in peaks])
        topic = names[int(rng.choice(len(names), p=(weights + 1e-3) / np.sum(weights + 1e-3)))]
        slots = [slot.split("|") for slot in TOPICS[topic][1]]
        subject, verb, thing, end = (slot[int(rng.integers(len(slot)))] for slot in slots)
        when = START + timedelta(days=t)
        rows.append((when.isoformat(timespec="minutes"), f"{subject} {verb} {thing}, {end}", topic))
    return rows


def write(path: Path) -> None:
    """Write the headlines as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(make())


def read(path: Path) -> dict[str, list[Any]]:
    """Return the columns of the file."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in COLUMNS}


def draw(path: Path) -> Any:
    """Return the figure of the topics of a file over time, as docs/text.md finds them."""
    import numpy as np

    from dyncrp import DynamicalMixture, Exponential, Multinomial, plots

    columns = read(path)
    times = np.array(columns["when"], dtype="M8[s]")
    model = DynamicalMixture(Multinomial(CONCENTRATION), Exponential(TIMESCALE), alpha=ALPHA)
    labels = model.fit(columns["headline"], times=times).labels_
    return plots.topics(times, labels, model.describe()["words"], name="when")


def main(arguments: list[str] | None = None) -> None:
    """Parse, write and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.headlines", description=__doc__)
    parser.add_argument("--file", type=Path, default=DOCS / "headlines.csv")
    parser.add_argument("--picture", type=Path, default=DOCS / "images" / "text.png")
    options = parser.parse_args(arguments)
    write(options.file)
    draw(options.file).savefig(options.picture, dpi=150)


if __name__ == "__main__":
    main()

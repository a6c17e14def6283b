"""The chart: observations a second by size, ours and the peers', on a log axis, labelled directly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]
# Okabe and Ito's palette, told apart by the colour-blind; the markers tell the lines apart in greyscale.
STYLES: dict[str, tuple[str, str]] = {
    "dyncrp, batch 1024": ("#D55E00", "o"),
    "MiniBatchKMeans, batch 1024": ("#0072B2", "s"),
    "MiniBatchKMeans, batch 256": ("#56B4E9", "s"),
    "MiniBatchKMeans, batch 1": ("#56B4E9", "D"),
    "Birch, batch 256": ("#009E73", "^"),
    "river DBSTREAM": ("#CC79A7", "v"),
    "river DenStream": ("#B8A900", "<"),
    "river CluStream": ("#777777", "P"),
    "river STREAMKMeans": ("#000000", ">"),
}
GAP = 1.5  # least ratio between two labels


def draw(sizes: dict[str, list[Row]], path: Path) -> None:
    """Draw the section "peers" to ``path``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 5.6), layout="constrained")
    axis = figure.subplots()
    ends: dict[str, tuple[int, float]] = {}
    for name, (color, marker) in STYLES.items():
        points = [(i, _rate(rows, name)) for i, rows in enumerate(sizes.values())]
        drawn = [(i, rate) for i, rate in points if rate]
        if not drawn:
            continue
        own = name.startswith("dyncrp")
        axis.plot(*zip(*drawn, strict=True), color=color, marker=marker, lw=3 if own else 1.5, ms=8 if own else 6)
        ends[name] = drawn[-1]
    axis.set_yscale("log")
    axis.set_xlim(-0.25, len(sizes) + 0.55)
    _label(axis, ends, len(sizes) - 1)
    axis.set_xticks(range(len(sizes)), [title.replace(", ", "\n") for title in sizes])
    axis.set_ylabel("observations learned a second")
    axis.set_title("Streaming clustering, one thread", loc="left", fontweight="bold")
    axis.grid(axis="y", color="#dddddd", lw=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def _label(axis: Any, ends: dict[str, tuple[int, float]], last: int) -> None:
    """Name each line at its end: beside the last size, or where a system became too slow to be measured."""
    from matplotlib.patheffects import withStroke

    outline = [withStroke(linewidth=4, foreground="white")]  # so that lines do not cross out a name
    whole = _spread({name: rate for name, (i, rate) in ends.items() if i == last})
    for name, (i, rate) in ends.items():
        color = STYLES[name][0]
        height = whole.get(name, rate)
        if i == last:
            axis.plot([i + 0.06, i + 0.15], [rate, height], color=color, lw=0.6, alpha=0.6)
        weight = "bold" if name.startswith("dyncrp") else "normal"
        text = axis.text(i + (0.18 if i == last else 0.1), height, _label_of(name), color=color, va="center", zorder=5)
        text.set(fontweight=weight, path_effects=outline)


def _label_of(name: str) -> str:
    """Return the label: those that must be given K say so."""
    if name.startswith(("MiniBatchKMeans", "river CluStream", "river STREAMKMeans")):
        return f"{name} (given K)"
    return name.replace(", batch 1024", "")


def _rate(rows: list[Row], name: str) -> float | None:
    return next((row["rate"] for row in rows if row["system"] == name), None)


def _spread(heights: dict[str, float]) -> dict[str, float]:
    """Move labels apart, from the top down, until each is ``GAP`` times the next."""
    placed: dict[str, float] = {}
    above = float("inf")
    for name, height in sorted(heights.items(), key=lambda item: -item[1]):
        above = min(height, above / GAP)
        placed[name] = above
    return placed


def main() -> None:
    """Draw again from the saved results."""
    here = Path(__file__).parent
    saved = json.loads((here / "results" / "speed.json").read_text())
    draw(saved["sections"]["peers"], here.parent / "docs" / "images" / "benchmark.png")


if __name__ == "__main__":
    main()

"""The chart of the real streams: a panel for each, a line for each system, AMI along it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.speed import HERE

Row = dict[str, Any]
OWN, PEER = "#D55E00", "#0072B2"  # of Okabe and Ito's palette; size and fill tell them apart in greyscale
ACROSS = 2  # panels


def draw(streams: dict[str, dict[str, list[Row]]], path: Path) -> None:
    """Draw the saved ``streams`` (name, then title, then rows) to ``path``."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    panels = [(title, rows) for tables in streams.values() for title, rows in tables.items()]
    systems = _systems([rows for _, rows in panels])
    down = -(-len(panels) // ACROSS)
    figure = Figure(
        figsize=(10.5, 0.9 + down * (0.85 + 0.235 * len(systems))), layout=ConstrainedLayoutEngine(w_pad=0.1)
    )
    axes = figure.subplots(down, ACROSS, sharex=True, sharey=True, squeeze=False).ravel()
    for axis, (title, rows) in zip(axes, panels, strict=False):
        _panel(axis, title, {row["system"]: row for row in rows}, systems)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[max(0, len(panels) - ACROSS) : len(panels)]:
        axis.set_xlabel("AMI with the true classes")
        axis.tick_params(labelbottom=True)
    figure.suptitle("Real streams: agreement with classes that nobody was shown", x=0.01, ha="left", fontweight="bold")
    figure.legend(handles=_key(), loc="outside lower left", ncols=4, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def _key() -> list[Any]:
    from matplotlib.lines import Line2D

    ours = Line2D([], [], **_style(ours=True, told_k=False), label="dyncrp: labels on arrival, not given K")
    free = Line2D([], [], **_style(ours=False, told_k=False), label="not given K")
    told = Line2D([], [], **_style(ours=False, told_k=True), label="given K, the number of classes")
    error = Line2D([], [], color="#444444", lw=1.5, label="± standard error over orders of arrival")
    return [ours, free, told, error]


def _style(*, ours: bool, told_k: bool) -> Row:
    color = OWN if ours else PEER
    shape = {"marker": "D" if ours else "o", "ms": 8 if ours else 6, "mew": 1.5, "mfc": "white" if told_k else color}
    return shape | {"color": color, "ls": "none"}


def _systems(panels: list[list[Row]]) -> list[str]:
    """Return every system once, those that are not told K first, otherwise in the order of the longest panel."""
    rows = max(panels, key=len)
    return [row["system"] for row in sorted(rows, key=_told_k)]


def _told_k(row: Row) -> bool:
    return str(row["told"]).startswith("K")


def _panel(axis: Any, title: str, rows: dict[str, Row], systems: list[str]) -> None:
    own = rows[systems[0]].get("ami")
    if own is not None:
        axis.axvline(own, color=OWN, lw=1, ls=(0, (4, 3)), zorder=1)
    for height, name in enumerate(systems):
        axis.axhline(height, color="#e4e4e4", lw=0.8, zorder=0)
        row = rows.get(name, {"stopped": "not unit vectors"})
        if row["stopped"]:
            text = f"{row['stopped']} s" if row["stopped"].startswith("over") else row["stopped"]
            axis.text(0.0, height, text, va="center", fontsize=8, style="italic", color="#555555", backgroundcolor="w")
        else:
            style = _style(ours=name.startswith("dyncrp"), told_k=_told_k(row))
            axis.errorbar(row["ami"], height, xerr=row["ami_error"], elinewidth=1.5, **style)
    heading = title.rsplit(",", 1)[0].replace("-s", ", s")  # digits-sticky: digits, sticky
    axis.set_title(heading, loc="left", fontsize=10)
    axis.set_yticks(range(len(systems)), systems, fontsize=9)
    for label in axis.get_yticklabels()[: sum(name.startswith("dyncrp") for name in systems)]:
        label.set(color=OWN, fontweight="bold")
    axis.set_ylim(len(systems) - 0.5, -0.5)
    axis.set_xlim(-0.04, 1.0)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)


def main() -> None:
    """Draw again from the saved results."""
    saved = json.loads((HERE / "results" / "real.json").read_text())
    draw(saved["sections"], HERE.parent / "docs" / "images" / "real.png")


if __name__ == "__main__":
    main()

"""The pictures of rooms: buildings with their walks, scores by noise, and a robot that discovers a building."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from numpy.typing import NDArray

from dyncrp import plots
from dyncrp.datasets import Rooms
from experiments.figures import pixels, save, save_animation, style
from experiments.summary import mean_and_error

LOOKS = {"D-CRP, sticky": "D-CRP", "D-CRP, exponential": "ts-CRP", "R-CRP": "R-CRP", "Gibbs": "Gibbs"}
FRAMES = 100


def buildings(houses: Sequence[Rooms], rows: Sequence[pd.Series], folder: Path) -> None:
    """Draw buildings side by side, the true rooms above, the inferred places below."""
    figure = Figure(figsize=(15, 6.6), layout="constrained")
    axes = figure.subplots(2, len(houses))
    for (above, below), house, row in zip(axes.T, houses, rows, strict=True):
        plots.building(house, axis=above)
        plots.building(house, np.asarray(row["labels"]), axis=below)
        above.set_title(f"{row['n_true'] - 1} rooms and their hallways", fontsize=10)
        below.set_title(f"{row['n_clusters']} tables, AMI {row['ami']:.2f}", fontsize=10)
    for axis, name in zip(axes[:, 0], ("true rooms", "found by the sticky D-CRP"), strict=True):
        axis.text(-0.04, 0.5, name, transform=axis.transAxes, rotation=90, va="center", ha="right", fontweight="bold")
    save(figure, folder, "rooms")


def scores(frame: pd.DataFrame, noises: Sequence[str], folder: Path) -> None:
    """Draw agreement, clusters, and recognition for each level of noise, mean ± standard error over buildings."""
    frame = frame.assign(
        extra=frame["n_clusters"] - frame["n_true"],
        share=frame["recognised"] / frame["returns"],
        wait=[np.mean(steps) if len(steps) else np.nan for steps in frame["steps"]],
    )
    panels = {
        "ami": "AMI with the true rooms",
        "extra": "tables more than places",
        "share": "returns to a room recognised",
        "wait": "steps until recognised",
    }
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels))
    for axis, (column, label) in zip(axes, panels.items(), strict=True):
        values = mean_and_error(frame.dropna(subset=column), ["system", "noise"], column)
        for i, (system, like) in enumerate(LOOKS.items()):
            if system in values.index.get_level_values(0):
                line = values.loc[system].reindex(list(noises))
                x = np.arange(len(noises)) + 0.04 * (i - 1.5)
                axis.errorbar(x, line["mean"], yerr=line["error"], elinewidth=0.8, **(style(like) | {"label": system}))
        axis.set_xticks(range(len(noises)), noises)
        axis.set_xlabel("noise")
        axis.set_title(label, fontsize=11)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.5)
    axes[1].axhline(0.0, color="0.7", linewidth=3, zorder=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    save(figure, folder, "rooms_scores")


def discovery(house: Rooms, labels: NDArray[np.int64], sight: float, field_of_view: float, path: Path) -> None:
    """Write an animation of the walk: what the robot sees, and the places it has found so far."""
    frames = []
    for n in np.linspace(2, len(labels), FRAMES).round().astype(int):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axis = figure.add_subplot()
        plots.building(house, labels, n=n, axis=axis)
        here = house.positions[n - 1]
        heading = np.degrees(np.arctan2(*(here - house.positions[n - 2])[::-1]))
        sides = heading - field_of_view / 2, heading + field_of_view / 2
        axis.add_patch(Wedge((here[0], here[1]), sight, *sides, color="#F0E442", alpha=0.25, linewidth=0))
        seen = house.landmarks[house.visibility[n - 1] == 1]
        axis.scatter(*seen.T, marker="D", s=34, facecolor="none", edgecolor="black", zorder=4)
        axis.scatter(*here, s=60, color="black", edgecolor="white", zorder=6)
        places = len(np.unique(labels[:n]))
        axis.set_title(f"step {n:,}: {places} place{'s' if places > 1 else ''}", fontsize=11, loc="left")
        frames.append(pixels(figure, 80))
    save_animation(frames, frames[-1].quantize(48), path)

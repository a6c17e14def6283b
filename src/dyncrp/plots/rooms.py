"""A building of ``dyncrp.datasets.rooms``, and the walk through it."""

from __future__ import annotations

from itertools import count, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.checks import integer
from dyncrp.datasets import Rooms
from dyncrp.plots.figures import new_figure
from dyncrp.plots.style import COLORS, Color, check_labels, match, table_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLACE_COLORS = (1, 0, 2, 3, 4, 6, 7, 5)  # hallways are orange, and similar colours come last


def building(
    house: Rooms, labels: ArrayLike | None = None, *, n: int | None = None, axis: Axes | None = None
) -> Figure:
    """Draw a building of ``dyncrp.datasets.rooms`` and the walk through it, coloured by true room or inferred table.

    The number of a room or table is at the middle of its steps. Hallways are orange. Tables are matched to rooms, one
    to one, and have the colours of their rooms; tables without a room have other colours, and the label −1 is grey.

    Parameters
    ----------
    house : Rooms
        The building.
    labels : array-like of shape (N,), optional
        Tables. By default, the true rooms.
    n : int, optional
        Draw only the first n steps.
    axis : Axes, optional
        Where to draw. By default, in a new figure.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    shown = house.rooms if labels is None else check_labels("labels", labels, len(house.rooms))
    colors = _building_colors(house.rooms, shown)
    last = len(shown) if n is None else integer("n", n, 0)
    if axis is None:
        width, depth = np.ptp(house.walls, axis=(0, 1))
        axis = new_figure(6.0, 6.0 * depth / width).add_subplot()
    shown, positions = shown[:last], house.positions[:last]
    axis.add_collection(LineCollection(list(house.walls), colors="0.25", linewidths=2.2, capstyle="projecting"))
    edges = [1, *(np.flatnonzero(np.diff(shown[1:])) + 2), len(shown)] if len(shown) > 1 else []
    runs = [positions[begin - 1 : end] for begin, end in pairwise(edges)]  # with the step before
    of_runs = [colors[int(shown[begin])] for begin in edges[:-1]]
    axis.add_collection(LineCollection(runs, colors=of_runs, linewidths=1.8, capstyle="round", joinstyle="round"))
    x, y = house.landmarks.T
    axis.scatter(x, y, marker="D", s=9, color="black", zorder=3, linewidths=0)
    box = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "0.5", "alpha": 0.85, "linewidth": 0.6}
    for label in np.unique(shown).tolist():
        at = positions[shown == label]
        x, y = at[np.argmin(np.sum((at - np.median(at, axis=0)) ** 2, axis=1))]
        axis.text(x, y, str(label), ha="center", va="center", fontsize=7, bbox=box, zorder=4)
    (left, lower), (right, upper) = np.min(house.walls, axis=(0, 1)), np.max(house.walls, axis=(0, 1))
    axis.set(xlim=(left - 0.3, right + 0.3), ylim=(lower - 0.3, upper + 0.3), aspect="equal")
    axis.set_axis_off()
    figure = axis.figure
    while not isinstance(figure, Figure):  # a subfigure
        figure = figure.figure
    return figure


def buildings(house: Rooms, labels: ArrayLike) -> Figure:
    """Draw a building twice: with its true rooms, and with tables (N,)."""
    width, depth = np.ptp(house.walls, axis=(0, 1))
    figure = new_figure(12.0, 6.0 * depth / width + 0.4)
    left, right = figure.subplots(1, 2)
    building(house, axis=left)
    building(house, labels, axis=right)
    left.set_title("true rooms (0: hallways)")
    right.set_title("tables found")
    return figure


def _building_colors(rooms: NDArray[np.int64], labels: NDArray[np.int64]) -> dict[int, Color]:
    """Return the colour of each label: that of its matched room, or one that no room has; −1 is grey."""
    found = labels >= 0
    matched = match(rooms[found], labels[found])
    spare = count(int(np.max(rooms, initial=0)) + 1)
    colors = {}
    for label in np.unique(labels).tolist():
        turn, place = divmod(matched[label] if label in matched else next(spare), len(PLACE_COLORS))
        rank = len(COLORS) * turn + PLACE_COLORS[place]
        colors[label] = table_style(rank if label >= 0 else -1)[0]
    return colors

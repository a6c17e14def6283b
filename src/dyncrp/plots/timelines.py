"""The tables of rows over time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.checks import Clock, as_times, integer
from dyncrp.plots.figures import new_figure
from dyncrp.plots.style import check_labels, cluster_styles, show_dates, table_style
from dyncrp.views.clusters import Clusters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TIMELINE_ROWS = 40  # lines of tables
TIMELINE_POINTS = 430.0  # the width of a timeline, approximately
TOPIC_BINS, WORDS_OF_TOPIC = 80, 3


def timeline(
    times: ArrayLike,
    tables: ArrayLike,
    novelty: ArrayLike,
    *,
    step: int = 1,
    dated: bool = False,
    name: str = "time",
    clusters: Clusters | None = None,
) -> Figure:
    """Draw the tables of rows over time, and their novelty.

    Each table has a line, in order of opening from bottom to top. If there are more than 40 tables, the largest have
    lines, and the others share one.

    Parameters
    ----------
    times : array-like of shape (n,)
        Numbers or dates, of every ``step``-th row of a stream.
    tables : array-like of shape (n,)
        The tables of these rows.
    novelty : array-like of shape (n,)
        The highest novelty from each of these rows to the next.
    step : int, default=1
        How many rows of the stream there are for each one that is drawn.
    dated : bool, default=False
        Whether times that are numbers are seconds since 1970.
    name : str, default="time"
        The label of the time axis.
    clusters : Clusters, optional
        By which tables are coloured and ordered. Closed tables have no cluster, and are grey.
    """
    x = as_times(times, ordered=False)
    labels = check_labels("tables", tables, len(x))
    surprise = np.asarray(novelty, dtype=np.float64)
    if not len(x) or surprise.shape != x.shape:
        raise ValueError(f"novelty must be one number for each of {len(x)} rows, at least one, got {surprise.shape}")
    dated = dated or Clock.of(times) is Clock.DATES
    x = x / 86_400 if dated else x
    ids, line, counts = np.unique(labels, return_inverse=True, return_counts=True)
    most = len(ids) if len(ids) <= MOST_TIMELINE_ROWS else MOST_TIMELINE_ROWS - 1
    largest = np.sort(np.argsort(-counts, kind="stable")[:most])
    if clusters is not None:
        of_cluster = clusters.labels(ids[largest])
        largest = largest[np.lexsort((ids[largest], of_cluster, of_cluster < 0))]
    position = np.full(len(ids), most)
    position[largest] = np.arange(most)
    line, names = position[line], [str(table) for table in ids[largest]]
    shown = ids[largest] if clusters is None else clusters.labels(ids[largest])  # by which lines are coloured
    if most < len(ids):
        names, shown = [*names, f"{len(ids) - most} others"], np.append(shown, -1)
    height = 0.2 * max(len(names), 4)
    figure = new_figure(7.0, height + 2.6)
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [height + 0.3, 1.4]})
    width = float(np.clip(400.0 / len(x), 0.6, 2.5))
    styles = {int(table): table_style(int(table)) for table in shown} if clusters is None else cluster_styles(clusters)
    for at, table in enumerate(shown.tolist()):
        color = styles[table][0] if table >= 0 else (0.4, 0.4, 0.4)
        above.broken_barh(bars(x, line == at, width), (at - 0.38, 0.76), color=color, linewidth=0, rasterized=True)
    above.set_yticks(range(len(names)), names, fontsize="small")
    above.set_ylim(-0.6, len(names) - 0.4)
    above.set_ylabel("table")
    if clusters is not None:
        _draw_cluster_names(above, shown)
    above.grid(axis="y", color="0.9", linewidth=0.5)
    above.set_axisbelow(True)
    below.plot(x, surprise, linestyle="", marker=".", markersize=2.0 + width, color="0.35", rasterized=True)
    below.set_ylabel("novelty")
    notes = (["UTC"] if dated else []) + ([f"1 row in {step:,} is drawn"] if step > 1 else [])
    below.set_xlabel(name + (f" ({'; '.join(notes)})" if notes else ""))
    if dated:
        show_dates(below)
    for axis in (above, below):
        axis.spines[["top", "right"]].set_visible(False)
    figure.align_ylabels()
    return figure


def _draw_cluster_names(axis: Axes, of_cluster: NDArray[np.int64]) -> None:
    """Write the ids of clusters (n,), from bottom to top, to the right of their lines, with lines between them."""
    edges = [0, *(np.flatnonzero(np.diff(of_cluster)) + 1), len(of_cluster)]
    right = axis.secondary_yaxis("right")
    named = [(begin, end) for begin, end in pairwise(edges) if of_cluster[begin] >= 0]
    right.set_yticks(
        [(begin + end - 1) / 2 for begin, end in named],
        [str(of_cluster[begin]) for begin, _ in named],
        fontsize="small",
    )
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    right.set_ylabel("cluster")
    for edge in edges[1:-1]:
        axis.axhline(edge - 0.5, color="0.5", linewidth=0.6)


def bars(
    x: NDArray[np.float64], joined: NDArray[np.bool_], width: float, points: float = TIMELINE_POINTS
) -> list[tuple[float, float]]:
    """Return the begins and lengths of bars for the rows (n,) that joined a table, each ``width`` points wide.

    points: the width of the axis.

    Rows that would touch, or that follow each other at the usual pace, share a bar without gaps.
    """
    order = np.argsort(x, kind="stable")
    x, places = x[order], np.flatnonzero(joined[order])
    point = (x[-1] - x[0]) / points or 1.0
    at, pace = x[places], 3.0 * np.median(np.diff(x)) if len(x) > 1 else 0.0
    gaps = np.diff(at)
    parted = (gaps > width * point) & ((np.diff(places) > 1) | (gaps > pace))
    begins, ends = at[np.append(True, parted)], at[np.append(parted, True)]
    return list(zip(begins - width * point / 2.0, ends - begins + width * point, strict=True))


def topics(
    times: ArrayLike, tables: ArrayLike, words: Mapping[int, str], *, most: int = 8, name: str = "time"
) -> Figure:
    """Draw how many rows joined each of the largest tables over time, with the words of each table.

    Tables are in the order of their median times. All have the same scale. The other tables are drawn together, below.

    Parameters
    ----------
    times : array-like of shape (n,)
        The times of rows, numbers or dates.
    tables : array-like of shape (n,)
        The tables of rows.
    words : mapping from int to str
        The words of tables, such as ``model.describe()["words"]``, of which the first three are shown. A table without
        words is shown by its id.
    most : int, default=8
        How many tables to draw.
    name : str, default="time"
        The label of the time axis.
    """
    x = as_times(times, ordered=False)
    dated = Clock.of(times) is Clock.DATES
    labels = check_labels("tables", tables, len(x))
    if not len(x):
        raise ValueError("there are no rows to draw")
    x = x / 86_400 if dated else x
    ids, counts = np.unique(labels, return_counts=True)
    largest = ids[np.argsort(-counts, kind="stable")[: integer("most", most, 1)]]
    shown = sorted(largest.tolist(), key=lambda table: float(np.median(x[labels == table])))
    lines = [(labels == table, table_style(at)[0], _headline(words, table)) for at, table in enumerate(shown)]
    if len(shown) < len(ids):
        rest = ~np.isin(labels, largest)
        n = len(ids) - len(shown)
        lines.append((rest, (0.6, 0.6, 0.6), f"{n:,} other table" + "s" * (n > 1)))
    edges = np.linspace(np.min(x), np.max(x) if np.ptp(x) > 0 else np.min(x) + 1.0, TOPIC_BINS + 1)
    heights = [np.histogram(x[mask], edges)[0] for mask, _, _ in lines]
    tallest = max(1, int(np.max(heights)))
    figure = new_figure(8.0, 0.42 * len(lines) + 1.0)
    axis = figure.subplots()
    for at, (height, (_, color, _)) in enumerate(zip(heights, lines, strict=True)):
        floor = -float(at)
        axis.stairs(floor + 0.9 * height / tallest, edges, baseline=floor, fill=True, color=color)
        axis.axhline(floor, color="0.8", linewidth=0.6, zorder=0)
    axis.set_yticks([0.3 - at for at in range(len(lines))], [text for _, _, text in lines], fontsize="small")
    for label, (_, color, _) in zip(axis.get_yticklabels(), lines, strict=True):
        label.set_color((0.75 * color[0], 0.75 * color[1], 0.75 * color[2]))
    axis.set_ylim(-len(lines) + 0.9, 1.0)
    axis.set_xlim(edges[0], edges[-1])
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.set_xlabel(f"{name}{' (UTC)' if dated else ''}; the tallest bar has {tallest:,} row{'s' * (tallest > 1)}")
    if dated:
        show_dates(axis)
    return figure


def _headline(words: Mapping[int, str], table: int) -> str:
    """Return the first words of a table, without their lift, or its id."""
    listed = [entry.split(" (")[0] for entry in str(words.get(table, "")).split(", ")]
    return ", ".join(listed[:WORDS_OF_TOPIC]) or f"table {table}"

"""Figures. Needs matplotlib: ``pip install 'dyncrp[cli]'``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import issparse

from dyncrp.arrays.checks import Clock, as_observations, as_times, integer
from dyncrp.datasets import Rooms
from dyncrp.dynamics import Dynamics
from dyncrp.estimator import DynamicalMixture
from dyncrp.process import occupancy_path
from dyncrp.search import Candidate
from dyncrp.views.explain import Explanation, signed
from dyncrp.views.groups import Groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Color = tuple[float, float, float]
# Okabe and Ito's palette with a dark purple for black, told apart by the colour-blind; the markers tell tables apart
# in greyscale.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#4B1D5C", "#B8A900")
MARKERS = "os^Dv<>P"
NEW_TABLE_COLOR = (0.85, 0.85, 0.85)  # the label −1
PLACE_COLORS = (1, 0, 2, 3, 4, 6, 7, 5)  # of a building: hallways orange, and what resembles it last
UNMATCHED = (0.25, 0.6, 0.4, 0.72)  # greys of true clusters without a table of their own
MOST_TIMELINE_ROWS = 40  # of a timeline
MOST_TREE_ROWS = 60  # of a tree of tables
MOST_IN_LEGEND = 24  # tables or groups
FAR = 30.0  # times the usual height, from where heights are drawn as logarithms
BETWEEN_GROUPS = "0.55"  # the colour of what no group or table has for itself
TOPIC_BINS, WORDS_OF_TOPIC = 80, 3
TIMELINE_POINTS = 430.0  # how wide a timeline is, nearly
LEAST_OCCUPANCY = 1e-5  # occupancies below are not shown


def table_style(table: int) -> tuple[Color, str]:
    """Return the colour and marker of a table: the palette, then tints and shades of it; −1, a new one, is grey."""
    from matplotlib.colors import to_rgb

    if table < 0:
        return NEW_TABLE_COLOR, "x"
    turn, color = divmod(table, len(COLORS))
    base = np.array(to_rgb(COLORS[color]))
    mixed = (base, 0.5 * base + 0.5, 0.55 * base + 0.15)[turn % 3]
    return (float(mixed[0]), float(mixed[1]), float(mixed[2])), MARKERS[(table + 3 * turn) % len(MARKERS)]


def stream(
    X: ArrayLike,
    labels: ArrayLike,
    dynamics: Dynamics,
    *,
    times: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    responsibilities: Any = None,
    title: str = "",
) -> Figure:
    """Draw a stream over time, coloured by table, with the occupancy of every table below.

    X: (N, D), of which up to two features are drawn; labels: (N,) inferred tables, −1 for none of them; truth: (N,)
    true ones, if known, drawn as a strip above the inferred ones: a true cluster has the colour of the table that it
    is matched to, one to one, and is grey without. responsibilities: (N, K), dense or sparse, whose occupancies are
    shown; by default each observation counts for its label alone.
    """
    from matplotlib.figure import Figure

    rows = as_observations(X)
    tables = _labels("labels", labels, len(rows))
    t = np.arange(len(rows), dtype=np.float64) if times is None else as_times(times, n=len(rows))
    dated = times is not None and np.asarray(times).dtype.kind not in "iuf"
    x = t / 86_400 if dated else t  # matplotlib counts dates in days since 1970
    seated = _seat(tables, responsibilities)
    n_tables = seated.shape[1]
    shown = min(rows.shape[1], 2)
    figure = Figure(figsize=(10, 2.0 * shown + 3.6), layout="constrained")
    heights = [1.0] * shown + [0.34] + [1.15]
    axes = figure.subplots(shown + 2, 1, sharex=True, gridspec_kw={"height_ratios": heights})
    styles = {table: table_style(table) for table in range(-1 if np.any(tables < 0) else 0, n_tables)}
    for d in range(shown):
        for table, (color, marker) in styles.items():
            at = tables == table
            edge = 1.0 if marker == "x" else 0.0
            axes[d].scatter(x[at], rows[at, d], s=15, color=color, marker=marker, linewidths=edge, alpha=0.85)
        axes[d].set_ylabel(f"feature {d + 1}")
    strips = {"inferred": [styles[table][0] for table in tables]}
    if truth is not None:
        strips["true"] = _true_colors(_labels("truth", truth, len(rows)), tables)
    _draw_strips(axes[shown], x, strips)

    occupancy = occupancy_path(seated, t, dynamics)
    for table, (color, marker) in styles.items():
        if table >= 0:
            axes[-1].plot(x, np.maximum(occupancy[:, table], LEAST_OCCUPANCY / 10), color=color, linewidth=1.0)
        name = f"{table}" if table >= 0 else "new"
        axes[-1].plot([], [], color=color, linestyle="", marker=marker, markersize=6, label=name)
    axes[-1].set_ylabel("occupancy")
    axes[-1].set_xlabel("time (observations)" if times is None else "time")
    axes[-1].set_yscale("log")
    axes[-1].set_ylim(LEAST_OCCUPANCY, 2.0 * max(float(np.max(occupancy)), 1.0))
    if dated:
        axes[-1].xaxis_date()
    if len(styles) <= MOST_IN_LEGEND:
        figure.legend(title="table", loc="outside right upper", frameon=False, ncols=1 + len(styles) // 16)
    if x[0] < x[-1]:
        axes[0].set_xlim(x[0], x[-1])
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def building(
    house: Rooms, labels: ArrayLike | None = None, *, n: int | None = None, axis: Axes | None = None
) -> Figure:
    """Draw a building of ``dyncrp.datasets.rooms`` and the walk through it, coloured by true room or inferred table.

    labels: (N,) tables; by default the true rooms. n: draw the first so many steps only. axis: where to draw; by
    default a figure of its own.
    The number of a room or table is at the middle of its steps. Hallways are orange; a table has the colour of the room
    that it is matched to, one to one, and a colour of its own without; the label −1 is grey.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    if axis is None:
        width, depth = np.ptp(house.walls, axis=(0, 1))
        axis = Figure(figsize=(6.0, 6.0 * depth / width), layout="constrained").add_subplot()
    shown = house.rooms if labels is None else _labels("labels", labels, len(house.rooms))
    colors = _building_colors(house.rooms, shown)
    last = len(shown) if n is None else integer("n", n, 0)
    shown, positions = shown[:last], house.positions[:last]
    axis.add_collection(LineCollection(list(house.walls), colors="0.25", linewidths=2.2, capstyle="projecting"))
    edges = [1, *(np.flatnonzero(np.diff(shown[1:])) + 2), len(shown)] if len(shown) > 1 else []
    runs = [positions[begin - 1 : end] for begin, end in pairwise(edges)]  # with the step that leads to it
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
    """Draw a building twice: with its rooms, and with the tables (N,) that were found."""
    from matplotlib.figure import Figure

    width, depth = np.ptp(house.walls, axis=(0, 1))
    figure = Figure(figsize=(12.0, 6.0 * depth / width + 0.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    building(house, axis=left)
    building(house, labels, axis=right)
    left.set_title("true rooms (0: hallways)")
    right.set_title("tables found")
    return figure


def _building_colors(rooms: NDArray[np.int64], labels: NDArray[np.int64]) -> dict[int, Color]:
    """Return the colour of every label: that of the room it is matched to, or one that no room has; −1 is grey."""
    found = labels >= 0
    matched = _match(rooms[found], labels[found])
    spare = count(int(np.max(rooms, initial=0)) + 1)
    colors = {}
    for label in np.unique(labels).tolist():
        turn, place = divmod(matched[label] if label in matched else next(spare), len(PLACE_COLORS))
        rank = len(COLORS) * turn + PLACE_COLORS[place]
        colors[label] = table_style(rank if label >= 0 else -1)[0]
    return colors


def _match(truth: NDArray[np.int64], labels: NDArray[np.int64]) -> dict[int, int]:
    """Return the true cluster of labels, matched one to one so that as many observations as possible agree."""
    clusters, cluster = np.unique(truth, return_inverse=True)
    tables, table = np.unique(labels, return_inverse=True)
    overlap = np.zeros((len(clusters), len(tables)))
    np.add.at(overlap, (cluster, table), 1)
    pairs = zip(*linear_sum_assignment(-overlap), strict=True)
    return {int(tables[k]): int(clusters[c]) for c, k in pairs if overlap[c, k]}


def _labels(name: str, labels: ArrayLike, n: int) -> NDArray[np.int64]:
    array = np.asarray(labels)
    if array.shape != (n,) or array.dtype.kind not in "iu" or np.any(array < -1):
        raise ValueError(
            f"{name} must be one integer ≥ -1 for each of {n} observations, got shape {array.shape} of "
            f"{array.dtype}" + (f" with {np.min(array)}" if array.size and array.dtype.kind in "iu" else "")
        )
    return array.astype(np.int64)


def _seat(tables: NDArray[np.int64], responsibilities: Any) -> NDArray[np.float64]:
    """Return how much of each observation sits at each table, (N, K)."""
    n_tables = max(int(np.max(tables)) + 1, 1)
    if responsibilities is None:
        return (tables[:, None] == np.arange(n_tables)).astype(np.float64)
    seated = as_observations(
        responsibilities.toarray() if issparse(responsibilities) else responsibilities, "responsibilities"
    )
    if len(seated) != len(tables) or seated.shape[1] < n_tables:
        raise ValueError(
            f"responsibilities must have a row for each of {len(tables)} observations and a column for each of "
            f"{n_tables} tables, got shape {seated.shape}"
        )
    return seated


def _true_colors(truth: NDArray[np.int64], tables: NDArray[np.int64]) -> list[Color]:
    """Match true clusters to tables, one to one, so that as many observations as possible agree; the rest are grey."""
    found = tables >= 0
    matched = {cluster: table for table, cluster in _match(truth[found], tables[found]).items()}
    greys = iter(np.resize(UNMATCHED, len(truth)).tolist())
    clusters = np.unique(truth).tolist()
    colors = {c: table_style(matched[c])[0] if c in matched else (next(greys),) * 3 for c in clusters}
    return [colors[c] for c in truth.tolist()]


def _draw_strips(axis: Axes, x: NDArray[np.float64], strips: dict[str, list[Color]]) -> None:
    """Draw a strip for each labeling, the first lowest; an observation's colour reaches halfway to its neighbours."""
    edges = np.concatenate([x[:1], (x[1:] + x[:-1]) / 2, x[-1:]])
    for height, colors in enumerate(strips.values()):
        axis.pcolormesh(edges, [height - 0.4, height + 0.4], np.array([colors]), rasterized=True)
    axis.set_yticks(range(len(strips)), list(strips))
    axis.set_ylim(-0.5, len(strips) - 0.5)
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(left=False, bottom=False)


def timeline(
    times: ArrayLike,
    tables: ArrayLike,
    novelty: ArrayLike,
    *,
    step: int = 1,
    dated: bool = False,
    name: str = "time",
    groups: Groups | None = None,
) -> Figure:
    """Draw which table each row joined, over time, and how novel it was.

    times, tables, novelty: (n,) of every ``step``-th row of a stream; novelty: the highest from it to the next.
    times are numbers or dates; dated: whether numbers are seconds since 1970. groups: of the tables, by which they are
    coloured and ordered; the name of a group stands at the right. Tables that are not open any more have none, and are
    grey. Tables are in the order of opening, the first lowest; of more than 40, the largest, and the rest on one line.
    """
    from matplotlib.figure import Figure

    x = as_times(times, ordered=False)
    labels = _labels("tables", tables, len(x))
    surprise = np.asarray(novelty, dtype=np.float64)
    if not len(x) or surprise.shape != x.shape:
        raise ValueError(f"novelty must be one number for each of {len(x)} rows, at least one, got {surprise.shape}")
    dated = dated or Clock.of(times) is Clock.DATES
    x = x / 86_400 if dated else x
    ids, line, counts = np.unique(labels, return_inverse=True, return_counts=True)
    most = len(ids) if len(ids) <= MOST_TIMELINE_ROWS else MOST_TIMELINE_ROWS - 1
    largest = np.sort(np.argsort(-counts, kind="stable")[:most])
    if groups is not None:
        of_group = groups.labels(ids[largest])
        largest = largest[np.lexsort((ids[largest], of_group, of_group < 0))]
    position = np.full(len(ids), most)
    position[largest] = np.arange(most)
    line, names = position[line], [str(table) for table in ids[largest]]
    shown = ids[largest] if groups is None else groups.labels(ids[largest])  # what is coloured
    if most < len(ids):
        names, shown = [*names, f"{len(ids) - most} others"], np.append(shown, -1)
    height = 0.2 * max(len(names), 4)
    figure = Figure(figsize=(7.0, height + 2.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [height + 0.3, 1.4]})
    width = float(np.clip(400.0 / len(x), 0.6, 2.5))
    styles = {int(table): table_style(int(table)) for table in shown} if groups is None else _group_styles(groups)
    for at, table in enumerate(shown.tolist()):
        color = styles[table][0] if table >= 0 else (0.4, 0.4, 0.4)
        above.broken_barh(_bars(x, line == at, width), (at - 0.38, 0.76), color=color, linewidth=0, rasterized=True)
    above.set_yticks(range(len(names)), names, fontsize="small")
    above.set_ylim(-0.6, len(names) - 0.4)
    above.set_ylabel("table")
    if groups is not None:
        _draw_group_names(above, shown)
    above.grid(axis="y", color="0.9", linewidth=0.5)
    above.set_axisbelow(True)
    below.plot(x, surprise, linestyle="", marker=".", markersize=2.0 + width, color="0.35", rasterized=True)
    below.set_ylabel("novelty")
    notes = (["UTC"] if dated else []) + ([f"1 row in {step:,} is drawn"] if step > 1 else [])
    below.set_xlabel(name + (f" ({'; '.join(notes)})" if notes else ""))
    if dated:
        _show_dates(below)
    for axis in (above, below):
        axis.spines[["top", "right"]].set_visible(False)
    figure.align_ylabels()
    return figure


def _show_dates(axis: Axes) -> None:
    """Label the days of the x axis, which counts them from 1970."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def topics(
    times: ArrayLike, tables: ArrayLike, words: Mapping[int, str], *, most: int = 8, name: str = "time"
) -> Figure:
    """Draw how many rows joined each of the largest tables over time, with the words that tell what it is about.

    times, tables: (n,) of the rows; times are numbers or dates. words: by table, such as
    ``model.describe()["words"]``; the first three are shown, and the table's number if there are none. most: how many
    tables to draw, in order of their middle rows. Each has its own line, and all have the same height for as many rows;
    those of the other tables are drawn together, below.
    """
    from matplotlib.figure import Figure

    x = as_times(times, ordered=False)
    dated = Clock.of(times) is Clock.DATES
    labels = _labels("tables", tables, len(x))
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
    figure = Figure(figsize=(8.0, 0.42 * len(lines) + 1.0), layout="constrained")
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
        _show_dates(axis)
    return figure


def _headline(words: Mapping[int, str], table: int) -> str:
    """Return the first words of a table, without their lift."""
    listed = [entry.split(" (")[0] for entry in str(words.get(table, "")).split(", ")]
    return ", ".join(listed[:WORDS_OF_TOPIC]) or f"table {table}"


def _draw_group_names(axis: Axes, of_group: NDArray[np.int64]) -> None:
    """Write the name of each group at the right of its lines, (n,) from the lowest, and draw a line between groups."""
    edges = [0, *(np.flatnonzero(np.diff(of_group)) + 1), len(of_group)]
    right = axis.secondary_yaxis("right")
    named = [(begin, end) for begin, end in pairwise(edges) if of_group[begin] >= 0]
    right.set_yticks(
        [(begin + end - 1) / 2 for begin, end in named], [str(of_group[begin]) for begin, _ in named], fontsize="small"
    )
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    right.set_ylabel("group")
    for edge in edges[1:-1]:
        axis.axhline(edge - 0.5, color="0.5", linewidth=0.6)


def groups(joined: DynamicalMixture | Groups) -> Figure:
    """Draw how tables join into groups: their tree, and a bar for the rows of each table, coloured by group.

    joined: a model, whose tables are joined as by ``DynamicalMixture.groups()``, or what that returned.
    A branch has the colour of a group if all tables below it are in that group. Of more than 60 tables, only the
    largest are drawn, and how those join; the figure says so.

    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0], [5.0], [50.0], [55.0], [1.0]])
    >>> groups(model.groups(2)).savefig("groups.png")  # doctest: +SKIP
    """
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    found = joined.groups() if isinstance(joined, DynamicalMixture) else joined
    if not isinstance(found, Groups):
        raise ValueError(f"joined must be a DynamicalMixture or what its groups() returns, got {type(joined).__name__}")
    styles = _group_styles(found)
    kept = np.sort(np.argsort(-found.table_sizes, kind="stable")[:MOST_TREE_ROWS])
    leaves, corners, colors = _branches(_prune(found.tree, kept), found.group_of[kept], styles)
    order = kept[leaves]
    figure = Figure(figsize=(8.0, 0.17 * max(len(order), 10) + 1.0), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    left.add_collection(LineCollection(list(corners), colors=colors, linewidths=1.4, capstyle="projecting"))
    left.set(ylim=(-0.7, len(order) - 0.3), xlabel="height at which they join")
    _scale_heights(left, np.max(corners[:, :, 0], axis=1))
    left.tick_params(axis="y", left=False, labelleft=False)
    right.set_yticks(range(len(order)), [str(table) for table in found.table_ids[order]], fontsize=7)
    right.tick_params(axis="y", length=0, labelleft=True)
    right.set(xlabel="rows", ylabel="table")
    edge = {"markeredgecolor": "0.2", "markeredgewidth": 0.5, "markersize": 5.0, "clip_on": False}
    for (group, (color, marker)), size in zip(styles.items(), found.sizes.tolist(), strict=True):
        at = np.flatnonzero(found.group_of[order] == group)
        rows = found.table_sizes[order[at]]
        right.barh(at, rows, 0.6, color=color)
        right.plot(rows, at, linestyle="", color=color, marker=marker, label=f"{group} ({size:,.0f})", **edge)
    right.set_xlim(left=0.0)
    for axis in (left, right):
        axis.spines[["top", "right", "left"]].set_visible(False)
    if len(styles) <= MOST_IN_LEGEND:
        figure.legend(title="group (rows)", loc="outside right upper", frameon=False, alignment="left")
    if len(order) < len(found.table_ids):
        share = float(np.sum(found.table_sizes[order]) / np.sum(found.table_sizes))
        drawn = f"{found}; the {len(order)} largest tables are drawn, with {share:.0%} of the rows"
        figure.suptitle(drawn, x=0.01, ha="left", fontsize="medium")
    return figure


def _scale_heights(axis: Axes, heights: NDArray[np.float64]) -> None:
    """Scale the axis of a tree, 0 at the right; far groups may join a thousand times higher than near tables do."""
    highest, usual = np.max(heights, initial=0.0), np.median(heights) if len(heights) else 0.0
    if usual and highest > FAR * usual:
        axis.set_xscale("asinh", linear_width=float(usual))
        axis.set_xticks([0.0, *10.0 ** np.arange(np.ceil(np.log10(usual)), np.log10(highest))])
        axis.set_xticks([], minor=True)
    axis.set_xlim(1.05 * highest or 1.0, 0.0)


def _group_styles(groups: Groups) -> dict[int, tuple[Color, str]]:
    """Return the colour and marker of every group, by its name."""
    return {group: table_style(i) for i, group in enumerate(groups.ids.tolist())}


def _prune(tree: NDArray[np.float64], kept: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a linkage matrix of K tables, (K − 1, 4), for some of them only: how they join."""
    place: dict[int, int] = {table: i for i, table in enumerate(kept.tolist())}  # of the clusters that have any
    size = [1] * len(kept)
    pruned: list[tuple[float, ...]] = []
    for i, (left, right, height, _) in enumerate(tree.tolist()):
        parts = [place[part] for part in (int(left), int(right)) if part in place]
        if len(parts) == 2:
            pruned.append((*sorted(parts), height, size[parts[0]] + size[parts[1]]))
            size.append(size[parts[0]] + size[parts[1]])
            parts = [len(size) - 1]
        if parts:
            place[len(tree) + 1 + i] = parts[0]
    return np.array(pruned).reshape(-1, 4)


def _branches(
    tree: NDArray[np.float64], group_of: NDArray[np.int64], styles: dict[int, tuple[Color, str]]
) -> tuple[list[int], NDArray[np.float64], list[Any]]:
    """Lay out a tree of K tables: return its leaves from the lowest, corners (K − 1, 4, 2) of branches, and colours."""
    from scipy.cluster.hierarchy import dendrogram

    if not len(tree):
        return [0], np.empty((0, 4, 2)), []
    below = group_of.tolist()  # the group that all tables below are in; −1 if they are in several
    for left, right, _, _ in tree.tolist():
        a, b = below[int(left)], below[int(right)]
        below.append(a if a == b else -1)
    drawn = dendrogram(tree, no_plot=True, link_color_func=str)  # the number of the cluster in place of its colour
    corners = np.stack([drawn["dcoord"], (np.array(drawn["icoord"]) - 5.0) / 10.0], axis=2)  # a leaf is 10 wide
    of_branch = [below[int(cluster)] for cluster in drawn["color_list"]]
    return drawn["leaves"], corners, [styles[group][0] if group >= 0 else BETWEEN_GROUPS for group in of_branch]


def _bars(x: NDArray[np.float64], joined: NDArray[np.bool_], width: float) -> list[tuple[float, float]]:
    """Return where bars begin, and how long they are, for the rows (n,) that joined a table; each is ``width`` points.

    Rows that would touch, or that follow each other at the usual pace, share a bar, so that there is no seam between.
    """
    order = np.argsort(x, kind="stable")
    x, places = x[order], np.flatnonzero(joined[order])
    point = (x[-1] - x[0]) / TIMELINE_POINTS or 1.0
    at, pace = x[places], 3.0 * np.median(np.diff(x)) if len(x) > 1 else 0.0
    gaps = np.diff(at)
    parted = (gaps > width * point) & ((np.diff(places) > 1) | (gaps > pace))
    begins, ends = at[np.append(True, parted)], at[np.append(parted, True)]
    return list(zip(begins - width * point / 2.0, ends - begins + width * point, strict=True))


def explain(explanation: Explanation) -> Figure:
    """Draw why a row is at its table: a bar for the prior weights and for each feature, in nats.

    explanation: what ``DynamicalMixture.explain`` returned. There is a panel against the runner-up and one against a
    new table, as far as there are any. Bars to the right speak for the table, those to the left, hatched, for the
    other; they add up to the total below, in grey. Of many features the 15 with the largest bars are drawn, and the
    rest as one.

    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.1], [9.0, 0.2], [0.2, 0.0]])
    >>> explain(model.explain([6.0, 0.0])).savefig("explain.png")  # doctest: +SKIP
    """
    from matplotlib.figure import Figure

    if not isinstance(explanation, Explanation):
        raise ValueError(f"explanation must be what explain() returns, got {type(explanation).__name__}")
    if not explanation.odds:
        raise ValueError(f"there is nothing to draw: {explanation}")
    first, others = explanation.ranked()
    labels = ["prior weight", *map(explanation.label, first)]
    labels += [explanation.label_rest(len(others))] if others else []
    n_panels, n_bars = len(explanation.odds), len(labels) + 1
    figure = Figure(figsize=(1.6 + 3.4 * n_panels + 0.05 * max(map(len, labels)), 0.27 * n_bars + 1.3))
    figure.set_layout_engine("constrained")
    axes = figure.subplots(1, n_panels, sharey=True, squeeze=False)[0]
    for axis, odds in zip(axes, explanation.odds, strict=True):
        parts = [odds.prior, *odds.features[first].tolist()]
        parts += [float(np.sum(odds.features[others]))] if others else []
        _draw_terms(axis, np.array([*parts, odds.total]))
        axis.set_title(f"against {explanation.call(odds.rival)}", fontsize="medium")
    axes[0].set_yticks(range(n_bars), [*labels, "total"], fontsize="small")
    axes[0].set_ylim(n_bars - 0.4, -0.6)
    figure.suptitle(f"why {explanation.call(explanation.table)}", x=0.01, ha="left", fontsize=11)
    figure.supxlabel("log odds (nats)", fontsize="medium")
    return figure


def _draw_terms(axis: Axes, values: NDArray[np.float64]) -> None:
    """Draw terms (n,) as bars from the highest, the last of them their total below a line."""
    places = np.arange(len(values))
    bars = axis.barh(places, values, 0.66, edgecolor="0.2", linewidth=0.6)
    for bar, value in zip(bars, values.tolist(), strict=True):
        bar.set_facecolor(COLORS[0] if value >= 0 else COLORS[1])
        bar.set_hatch("" if value >= 0 else "////")
    bars[-1].set_facecolor("0.6")
    reach = float(np.max(np.abs(values))) or 1.0
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        beyond = 0.02 * reach if value >= 0 else -0.02 * reach
        side = "left" if value >= 0 else "right"
        axis.text(value + beyond, place, signed(value), ha=side, va="center", fontsize="x-small")
    # Room for the numbers at the ends of the bars.
    left, right = min(0.0, float(np.min(values))), max(0.0, float(np.max(values)))
    room = 0.24 * (right - left or 1.0)
    axis.set_xlim(left - (room if left < 0.0 else 0.25 * room), right + (room if right > 0.0 else 0.25 * room))
    axis.axvline(0.0, color="0.2", linewidth=0.8)
    axis.axhline(len(values) - 1.5, color="0.6", linewidth=0.6)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize="small")
    axis.spines[["top", "right", "left"]].set_visible(False)


def evidence(candidates: Sequence[Candidate]) -> Figure:
    """Draw what ``dyncrp.tune`` tried: the families by their tables, and the dynamics by their durations.

    Left, log evidence against the number of tables while the family was sought: filled if the clusters reproduced well
    enough, hollow if not. Right, the candidates for dynamics and alpha, each
    dynamics with its best alpha; those without an unknown duration as lines. What was chosen is ringed. Of several
    memories that were tried, only the chosen one is on the right.
    """
    from matplotlib.figure import Figure

    if not len(candidates):
        raise ValueError(
            "there are no candidates to draw: nothing was unknown, or the model comes from a file, which keeps none"
        )
    chosen = next(c for c in candidates if c.chosen)
    sought = [c for c in candidates if c.reproducibility == c.reproducibility or c.family != chosen.family]
    weighed = [c for c in candidates if c.family == chosen.family and c.memory == chosen.memory]
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_families(left, sought or weighed, chosen)
    _draw_dynamics(right, weighed, chosen)
    return figure


def _draw_families(axis: Axes, sought: Sequence[Candidate], chosen: Candidate) -> None:
    from matplotlib.ticker import LogLocator

    sought = [c for c in sought if np.isfinite(c.log_evidence)]  # those dropped have no evidence
    best = max(c.log_evidence for c in sought)
    for admitted, face, marker, label in (
        (True, COLORS[0], "o", "reproduces well enough"),
        (False, "none", "s", "does not"),
    ):
        shown = [c for c in sought if c.admitted == admitted]
        x, y = [c.n_tables for c in shown], [c.log_evidence - best for c in shown]
        axis.scatter(x, y, facecolors=face, edgecolors="0.3", linewidths=0.7, marker=marker, label=label)
    ring = min(sought, key=lambda c: (c.family != chosen.family, -c.log_evidence))
    axis.scatter(ring.n_tables, ring.log_evidence - best, s=160, facecolors="none", edgecolors="#D55E00", linewidths=2)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("")
    axis.set_xlabel("tables found")
    axis.set_ylabel("log evidence, below the best")
    axis.set_title("families tried; ringed: chosen")
    if any(c.reproducibility == c.reproducibility for c in sought):  # nobody asked for that of counts of words
        axis.legend()


def _draw_dynamics(axis: Axes, weighed: Sequence[Candidate], chosen: Candidate) -> None:
    weighed = [c for c in weighed if np.isfinite(c.log_evidence)]
    best = max(c.log_evidence for c in weighed)
    lines: dict[str, dict[float | None, float]] = {}
    for c in weighed:
        lengths = c.dynamics.durations()
        name = repr(c.dynamics)
        for length in lengths:
            name = name.replace(f"={length!r}", "=τ")
        key = lengths[0] if len(lengths) == 1 else None
        line = lines.setdefault(name if key is not None else repr(c.dynamics), {})
        line[key] = max(line.get(key, -np.inf), c.log_evidence - best)
    for i, (name, line) in enumerate(lines.items()):
        color, marker = COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]
        if None in line:
            axis.axhline(line[None], color=color, linestyle=("--", ":", "-.")[i % 3], label=name)
        else:
            x = sorted(line)  # type: ignore[type-var]
            axis.plot(x, [line[length] for length in x], color=color, marker=marker, markersize=4, label=name)  # type: ignore[arg-type]
    at = chosen.dynamics.durations()
    if len(at) == 1 and at[0] is not None:
        axis.scatter(
            at[0], chosen.log_evidence - best, s=160, facecolors="none", edgecolors="#D55E00", linewidths=2, zorder=3
        )
        axis.set_xscale("log")
    axis.set_xlabel("duration τ")
    axis.set_ylabel("log evidence, below the best")
    memory = "" if chosen.memory == np.inf else f", memory {chosen.memory:g}"
    axis.set_title(f"dynamics tried; chosen alpha {chosen.alpha:.3g}{memory}")
    axis.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)

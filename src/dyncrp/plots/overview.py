"""Clusters at a glance: where their rows lie, what is typical of each, and when they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dyncrp.arrays.checks import Clock, as_times
from dyncrp.engine.types import Float, Int
from dyncrp.estimator import DynamicalMixture
from dyncrp.plots.figures import new_figure
from dyncrp.plots.planes import Plane, plane_of, thin
from dyncrp.plots.profiles import Panel
from dyncrp.plots.style import check_labels, show_dates
from dyncrp.plots.timelines import bars
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters, clusters_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 4000  # rows that are drawn
SCATTER_WIDTH, TIMELINE_WIDTH = 4.6, 3.2  # inches
BOX = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "0.4", "linewidth": 0.6, "alpha": 0.8}
OTHERS, NONE = (0.62, 0.62, 0.62), (0.8, 0.8, 0.8)  # small clusters, and rows that are unlike all of them


def clusters(
    model: DynamicalMixture,
    X: Any,
    *,
    times: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: Clusters | None = None,
    name: str = "time",
) -> Figure:
    """Draw the clusters of rows: where they lie, what is typical of each, and when they came.

    Left: the rows, on the two columns that tell the clusters apart, or, if no two columns do, on two directions in all
    columns. A single column is drawn over time. Middle: the clusters, the largest first, with their rows and share,
    and the columns that tell most: means with ↑ and ↓ where they are high or low, by at least half a standard
    deviation of all rows; the likeliest category; or the words of texts. Right: when rows of each cluster came.
    Sixteen clusters have a line; the others share one, and are grey.

    Parameters
    ----------
    model : dyncrp.DynamicalMixture
        The model.
    X : array-like of shape (n, D), DataFrame, sparse matrix or list of documents
        Rows, such as ``fit`` takes, of which some thousand are drawn.
    times : array-like of shape (n,), optional
        The times of the rows, numbers or dates. By default, their numbers.
    labels : array-like of shape (n,), optional
        The table of each row, such as ``labels_``. By default, what ``predict`` returns.
    clusters : Clusters, optional
        What ``model.clusters`` returned, which it does by default.
    name : str, default="time"
        The label of the time axis, if there are times.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dyncrp import DynamicalMixture
    >>> X = load_iris(as_frame=True).data
    >>> clusters(DynamicalMixture().fit(X), X).savefig("clusters.png")  # doctest: +SKIP
    """
    if not isinstance(model, DynamicalMixture):
        raise ValueError(f"model must be a DynamicalMixture, got {type(model).__name__}")
    stream, n = model.stream_, X.shape[0] if hasattr(X, "shape") else len(X)
    found = _checked(stream, clusters)
    step = max(1, -(-n // MOST_POINTS))
    x, dated = np.arange(n, dtype=np.float64), False
    if times is not None:
        x, dated = as_times(times, n=n, ordered=False), Clock.of(times) is Clock.DATES
    drawn = thin(X, step)
    tables = model.predict(drawn) if labels is None else check_labels("labels", labels, n)[::step]
    of_rows = found.labels(stream.resolve(tables))
    x, name = (x / 86_400 if dated else x)[::step], name if times is not None else "row"
    plane = plane_of(stream, stream.read(drawn)[1], of_rows, x, name)
    panel = Panel.of(stream, found)
    widths = SCATTER_WIDTH, panel.width, TIMELINE_WIDTH
    figure = new_figure(sum(widths) + panel.margin, max(panel.height, 4.2))
    left, middle, right = figure.subplots(1, 3, width_ratios=widths)
    _draw_rows(left, plane, panel, of_rows, dated=dated and plane.labels[0] == name)
    panel.draw(middle)
    _draw_times(right, x, of_rows, panel)
    _label_times(right, name, dated, step)
    return figure


def report(
    model: DynamicalMixture | Stream,
    times: ArrayLike,
    tables: ArrayLike,
    novelty: ArrayLike,
    *,
    step: int = 1,
    dated: bool = False,
    name: str = "time",
    clusters: Clusters | None = None,
) -> Figure:
    """Draw what is typical of each cluster, when its rows came, and how novel rows were; no rows are needed.

    Parameters
    ----------
    model : dyncrp.DynamicalMixture or Stream
        The model.
    times, tables, novelty, step, dated, name
        As in ``timeline``.
    clusters : Clusters, optional
        What ``model.clusters`` returned. By default, the clusters as they are now.
    """
    stream = model.stream_ if isinstance(model, DynamicalMixture) else model
    found = _checked(stream, clusters)
    x = as_times(times, ordered=False)
    of_rows = found.labels(check_labels("tables", tables, len(x)))
    surprise = np.asarray(novelty, dtype=np.float64)
    if not len(x) or surprise.shape != x.shape:
        raise ValueError(f"novelty must be one number for each of {len(x)} rows, at least one, got {surprise.shape}")
    dated = dated or Clock.of(times) is Clock.DATES
    x = x / 86_400 if dated else x
    panel = Panel.of(stream, found)
    widths = panel.width, 1.5 * TIMELINE_WIDTH
    figure = new_figure(sum(widths) + panel.margin, panel.height + 1.3)
    axes = figure.subplots(2, 2, width_ratios=widths, height_ratios=[panel.height, 1.3], sharex="col")
    (left, right), (empty, below) = axes
    empty.remove()
    panel.draw(left)
    _draw_times(right, x, of_rows, panel)
    below.plot(x, surprise, linestyle="", marker=".", markersize=3.0, color="0.35", rasterized=True)
    below.set_ylabel("novelty")
    below.spines[["top", "right"]].set_visible(False)
    _label_times(below, name, dated, step)
    return figure


def _checked(stream: Stream, given: Clusters | None) -> Clusters:
    found = clusters_of(stream) if given is None else given
    if not isinstance(found, Clusters):
        raise ValueError(f"clusters must be what clusters() returns, got {type(found).__name__}")
    return found


def _draw_rows(axis: Axes, plane: Plane, panel: Panel, of_rows: Int, *, dated: bool) -> None:
    """Draw rows as points, with the id of each cluster at the median of its points."""
    shown = [cluster.id for cluster in panel.shown]
    x, y = plane.points.T
    size = float(np.clip(6000.0 / max(len(x), 1), 9.0, 28.0))
    rest = (of_rows >= 0) & ~np.isin(of_rows, shown)
    axis.scatter(x[of_rows < 0], y[of_rows < 0], size, color=[NONE], marker="x", linewidths=0.7, rasterized=True)
    axis.scatter(x[rest], y[rest], size, color=[OTHERS], marker=".", rasterized=True)
    for cluster in shown:
        own, (color, marker) = of_rows == cluster, panel.styles[cluster]
        axis.scatter(
            x[own], y[own], size, color=[color], marker=marker, alpha=0.75, edgecolors="white", linewidths=0.25,
            rasterized=True,
        )  # fmt: skip
    for cluster in shown if len(shown) > 1 else []:
        own = of_rows == cluster
        own &= np.all(np.isfinite(plane.points), axis=1)
        if np.any(own):
            points = plane.points[own]
            gaps = (points - np.median(points, axis=0)) / np.maximum(np.ptp(points, axis=0), 1e-300)
            middle = points[np.argmin(np.sum(gaps**2, axis=1))]  # one of its rows: a cluster may be a ring
            axis.text(middle[0], middle[1], str(cluster), ha="center", va="center", fontsize=7, bbox=BOX, zorder=4)
    for log, direction in zip(plane.logs, "xy", strict=True):
        if log:
            getattr(axis, f"set_{direction}scale")("symlog", linthresh=1.0)
    axis.set(xlabel=plane.labels[0], ylabel=plane.labels[1])
    axis.spines[["top", "right"]].set_visible(False)
    if dated:
        show_dates(axis)


def _draw_times(axis: Axes, x: Float, of_rows: Int, panel: Panel) -> None:
    """Draw when rows of each cluster came, on the lines of the panel."""
    width = float(np.clip(400.0 / len(x), 0.6, 2.5))
    shown = [cluster.id for cluster in panel.shown]
    lines = [(of_rows == cluster, panel.styles[cluster][0]) for cluster in shown]
    if panel.n_others:
        lines.append(((of_rows >= 0) & ~np.isin(of_rows, shown), OTHERS))
    for at, (own, color) in enumerate(lines):
        if np.any(own):
            places = bars(x, own, width, 72.0 * TIMELINE_WIDTH)
            axis.broken_barh(places, (at - 0.32, 0.64), color=color, linewidth=0, rasterized=True)
    panel.set_lines(axis)
    axis.set_yticks(range(len(lines)), [""] * len(lines))
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", color="0.9", linewidth=0.5)
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)


def _label_times(axis: Axes, name: str, dated: bool, step: int) -> None:
    notes = (["UTC"] if dated else []) + ([f"1 row in {step:,} is drawn"] if step > 1 else [])
    axis.set_xlabel(name + (f" ({'; '.join(notes)})" if notes else ""))
    if dated:
        show_dates(axis)

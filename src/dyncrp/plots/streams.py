"""A stream over time, coloured by table, and the occupancies of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from dyncrp.arrays.checks import as_observations, as_times
from dyncrp.dynamics import Dynamics
from dyncrp.plots.figures import new_figure
from dyncrp.plots.style import MOST_IN_LEGEND, Color, check_labels, match, table_style
from dyncrp.process import occupancy_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNMATCHED = (0.25, 0.6, 0.4, 0.72)  # greys of true clusters without a table of their own
LEAST_OCCUPANCY = 1e-5  # lower occupancies are not shown
MARKS_PER_LINE = 12  # markers of a table on the line of its occupancy, which tell lines apart without colour


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
    """Draw a stream over time, coloured by table, with the occupancies of the tables below.

    Parameters
    ----------
    X : array-like of shape (N, D)
        The rows, of which up to two features are drawn.
    labels : array-like of shape (N,)
        Inferred tables, −1 for none.
    dynamics : Dynamics
        From which occupancies follow.
    times : array-like of shape (N,), optional
        Numbers or dates. By default, the index of arrival.
    truth : array-like of shape (N,), optional
        True clusters, drawn as a strip above the inferred tables. They are matched to tables, one to one, and have
        their colours; others are grey.
    responsibilities : array-like or sparse array of shape (N, K), optional
        For the occupancies. By default, each row counts only for its label.
    title : str, optional
        The title of the figure.
    """
    rows = as_observations(X)
    tables = check_labels("labels", labels, len(rows))
    t = np.arange(len(rows), dtype=np.float64) if times is None else as_times(times, n=len(rows))
    dated = times is not None and np.asarray(times).dtype.kind not in "iuf"
    x = t / 86_400 if dated else t  # matplotlib counts dates in days since 1970
    seated = _seat(tables, responsibilities)
    n_tables = seated.shape[1]
    shown = min(rows.shape[1], 2)
    figure = new_figure(10, 2.0 * shown + 3.6)
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
        strips["true"] = _true_colors(check_labels("truth", truth, len(rows)), tables)
    _draw_strips(axes[shown], x, strips)

    occupancy = occupancy_path(seated, t, dynamics)
    every = max(len(rows) // MARKS_PER_LINE, 1)
    for table, (color, marker) in styles.items():
        if table >= 0:
            marks = {"marker": marker, "markersize": 4, "markevery": (table * every // n_tables, every)}
            height = np.maximum(occupancy[:, table], LEAST_OCCUPANCY / 10)
            axes[-1].plot(x, height, color=color, linewidth=1.0, **marks)
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


def _seat(tables: NDArray[np.int64], responsibilities: Any) -> NDArray[np.float64]:
    """Return the responsibilities, (N, K)."""
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
    """Return the colour of each true cluster: that of its matched table, or grey."""
    found = tables >= 0
    matched = {cluster: table for table, cluster in match(truth[found], tables[found]).items()}
    greys = iter(np.resize(UNMATCHED, len(truth)).tolist())
    clusters = np.unique(truth).tolist()
    colors = {c: table_style(matched[c])[0] if c in matched else (next(greys),) * 3 for c in clusters}
    return [colors[c] for c in truth.tolist()]


def _draw_strips(axis: Axes, x: NDArray[np.float64], strips: dict[str, list[Color]]) -> None:
    """Draw a strip for each labeling, from bottom to top; colours change halfway between observations."""
    edges = np.concatenate([x[:1], (x[1:] + x[:-1]) / 2, x[-1:]])
    for height, colors in enumerate(strips.values()):
        axis.pcolormesh(edges, [height - 0.4, height + 0.4], np.array([colors]), rasterized=True)
    axis.set_yticks(range(len(strips)), list(strips))
    axis.set_ylim(-0.5, len(strips) - 0.5)
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(left=False, bottom=False)

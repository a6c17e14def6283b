"""Figures. Needs matplotlib: ``pip install 'dyncrp[cli]'``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dyncrp.dynamics import Dynamics
from dyncrp.process import occupancy_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by the colour-blind; the markers tell tables apart in greyscale.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#B8A900")
MARKERS = "os^Dv<>P"


def table_style(table: int) -> tuple[tuple[float, float, float], str]:
    """Return the colour and marker of a table: the palette, then tints and shades of it with other markers."""
    from matplotlib.colors import to_rgb

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
    title: str = "",
) -> Figure:
    """Draw a stream over time, coloured by table, with the occupancy of every table below.

    X: (N, D), of which up to two features are drawn; labels: (N,) inferred tables; truth: (N,) true ones, if known,
    drawn as a strip above the inferred ones.
    """
    from matplotlib.figure import Figure

    rows = np.asarray(X, dtype=np.float64)
    tables = np.asarray(labels)
    t = np.arange(len(rows), dtype=np.float64) if times is None else np.asarray(times)
    shown = min(rows.shape[1], 2)
    n_tables = int(tables.max()) + 1
    figure = Figure(figsize=(10, 2.0 * shown + 3.6), layout="constrained")
    heights = [1.0] * shown + [0.34] + [1.15]
    axes = figure.subplots(shown + 2, 1, sharex=True, gridspec_kw={"height_ratios": heights})
    for d in range(shown):
        for table in range(n_tables):
            color, marker = table_style(table)
            at = tables == table
            axes[d].scatter(t[at], rows[at, d], s=9, color=color, marker=marker, linewidths=0, alpha=0.85)
        axes[d].set_ylabel(f"feature {d + 1}")
    _strips(axes[shown], t, {"true": truth, "inferred": tables} if truth is not None else {"inferred": tables})

    occupancy = occupancy_path(np.eye(n_tables)[tables], t, dynamics)
    for table in range(n_tables):
        color, marker = table_style(table)
        axes[-1].fill_between(t, occupancy[:, table], color=color, alpha=0.25, linewidth=0)
        axes[-1].plot(t, occupancy[:, table], color=color, linewidth=1.0)
        axes[-1].plot([], [], color=color, linestyle="", marker=marker, markersize=6, label=f"{table}")
    axes[-1].set_ylabel("occupancy")
    axes[-1].set_xlabel("time (observations)" if times is None else "time")
    axes[-1].set_ylim(bottom=0)
    if n_tables <= 24:
        figure.legend(title="table", loc="outside right upper", frameon=False, ncols=1 + n_tables // 16)
    axes[0].set_xlim(t[0], t[-1])
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def _strips(axis: Axes, t: np.ndarray, rows: dict[str, ArrayLike | None]) -> None:
    """Draw one coloured strip per labeling; true tables take the colour of the inferred one they overlap most."""
    inferred = np.asarray(rows["inferred"])
    for height, (_, labels) in enumerate(reversed(rows.items())):
        tables = np.asarray(labels)
        for table in np.unique(tables):
            at = tables == table
            color = table_style(int(np.bincount(inferred[at]).argmax()))[0]
            axis.scatter(t[at], np.full(at.sum(), height), s=110, color=color, marker="|", linewidths=1.1)
    axis.set_yticks(range(len(rows)), list(rows)[::-1])
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(left=False, bottom=False)

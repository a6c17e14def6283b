"""The figures, as PNG and SVG. Colours are told apart by the colour-blind; markers and dashes, in greyscale."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray
from PIL import Image

from dyncrp import baselines
from experiments.streams import CHECKPOINTS, DYNAMICS
from experiments.summary import ahead, mean_and_error, signed, stream_columns

Float = NDArray[np.float64]

# Okabe and Ito's palette. An algorithm that comes online and offline has one colour.
STYLES: dict[str, dict[str, Any]] = {
    "D-CRP": {"color": "#D55E00", "marker": "o"},
    "D-CRP (paper)": {"color": "#E69F00", "marker": "s"},
    "R-CRP": {"color": "#0072B2", "marker": "^"},
    "ts-CRP": {"color": "#56B4E9", "marker": "v"},
    "DP-means, online": {"color": "#CC79A7", "marker": "D"},
    "k-means, online": {"color": "#009E73", "marker": "P"},
    "dd-CRP": {"color": "#4B1D5C", "marker": "X"},
    "Gibbs": {"color": "#000000", "marker": "<"},
    "variational": {"color": "#7F7F7F", "marker": ">"},
    "DP-means": {"color": "#CC79A7", "marker": "d"},
    "k-means": {"color": "#009E73", "marker": "p"},
}
OFFLINE = {"linestyle": (0, (4, 2)), "markerfacecolor": "white", "linewidth": 1.1}
STREAMING = {"linestyle": "-", "linewidth": 1.3}
FIRST = {"linewidth": 2.4, "markersize": 7, "zorder": 5}  # our own
LEAST = 1e-3  # probability in sight
FRAME_SECONDS, LAST_SECONDS = 0.12, 3.0  # of an animation
LONG_NUMBER = re.compile(r"(\d\.\d\d)\d+")  # a hundredth of a point is enough
LOWEST = -0.2  # what falls further behind than this is out of sight: the others are told apart better


def style(system: str) -> dict[str, Any]:
    """Return how to draw a system: offline ones dashed and hollow, ours thick."""
    usual = STREAMING if baselines.SYSTEMS[system].streaming else OFFLINE
    return {"markersize": 5, "label": system} | STYLES[system] | usual | (FIRST if system == "D-CRP" else {})


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure twice, in few bytes; the same figure gives the same ones."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # it is laid out now; again for each file would take as long again
    few = pixels(figure, 150).quantize(256, dither=Image.Dither.NONE)
    few.save(folder / f"{name}.png", optimize=True, dpi=(150, 150))
    drawn = StringIO()
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    (folder / f"{name}.svg").write_text(LONG_NUMBER.sub(r"\1", drawn.getvalue()), encoding="utf-8")


def pixels(figure: Figure, dpi: int) -> Image.Image:
    """Return a figure as an image."""
    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(dpi)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])


def save_animation(frames: Sequence[Image.Image], palette: Image.Image, path: Path) -> None:
    """Write images as a GIF in the colours of ``palette``; the last one stays for a while."""
    few = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    seconds = [FRAME_SECONDS] * (len(few) - 1) + [LAST_SECONDS]
    path.parent.mkdir(parents=True, exist_ok=True)
    few[0].save(path, save_all=True, append_images=few[1:], duration=[int(1000 * s) for s in seconds], loop=0)


def comparison(frame: pd.DataFrame, title: str, signal: str, folder: Path, name: str) -> None:
    """Draw all that is measured of systems on streams; ``signal`` is the label of the column of that name."""
    if frame.empty:
        return
    save(_agreement(frame, "alpha", "concentration α", title), folder, f"{name}_by_alpha")
    save(_agreement(frame, "signal", signal, title), folder, f"{name}_by_signal")
    save(_clusters(frame, title), folder, f"{name}_clusters")
    save(_creation(frame, title), folder, f"{name}_creation")


def _panels(rows: int, height: float, title: str, what: str = " data", **shared: Any) -> tuple[Figure, NDArray[Any]]:
    """Return a row of panels for each measure, a column for each dynamics."""
    figure = Figure(figsize=(12, height), layout="constrained")
    axes = figure.subplots(rows, len(DYNAMICS), squeeze=False, **shared)
    for axis, dynamics in zip(axes[0], DYNAMICS, strict=True):
        axis.set_title(f"{dynamics}{what}")
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.5)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure, axes


def _legend(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, handlelength=3.2, labelspacing=0.8)


def _in_order(frame: pd.DataFrame) -> list[str]:
    """Return the systems that the frame has, in the order of the legend."""
    present = set(frame["system"])
    return [name for name in baselines.SYSTEMS if name in present]


def _log_scale(*scales: Axis) -> None:
    """Make axes logarithmic, with plain numbers at 1, 2, 5, 10, …"""
    for scale in scales:
        (scale.axes.set_xscale if scale.axis_name == "x" else scale.axes.set_yscale)("log")
        scale.set_major_locator(LogLocator(subs=(1, 2, 5)))
        scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        scale.set_minor_formatter(NullFormatter())


def _agreement(frame: pd.DataFrame, column: str, label: str, title: str) -> Figure:
    """Three rows of panels: NMI, AMI, and by how much AMI is above that of the D-CRP on the same streams."""
    title = f"{title}: agreement with the truth, mean ± standard error over streams"
    figure, axes = _panels(3, 8.6, title, sharex=True, sharey="row")
    rows = {"nmi": "NMI", "ami": "AMI", "ahead": "AMI − AMI of the D-CRP"}
    frame = frame.assign(ahead=ahead(frame))
    for row, (measure, name) in zip(axes, rows.items(), strict=True):
        values = mean_and_error(frame.dropna(subset=measure), ["system", "dynamics", column], measure)
        for axis, dynamics in zip(row, DYNAMICS, strict=True):
            for system in _in_order(frame):
                if (system, dynamics) in values.index.droplevel(2):
                    line = values.loc[(system, dynamics)]
                    axis.errorbar(line.index, line["mean"], yerr=line["error"], elinewidth=0.8, **style(system))
        row[0].set_ylabel(name)
    axes[-1, 0].set_ylim(bottom=max(axes[-1, 0].get_ylim()[0], LOWEST))
    for axis in axes[-1]:
        axis.set_xlabel(label)
        if column == "signal":
            _log_scale(axis.xaxis)
        else:
            axis.set_xticks(sorted(frame[column].unique()))
    _legend(figure, axes[0, 0])
    return figure


def _clusters(frame: pd.DataFrame, title: str) -> Figure:
    """A point is the mean over the streams of one alpha, in both directions."""
    title = f"{title}: clusters inferred and true, geometric mean over the streams of each α"
    figure, axes = _panels(2, 6.2, title, sharex="col", sharey="row")
    logs = frame.assign(n_clusters=np.log(frame["n_clusters"]), n_true=np.log(frame["n_true"]))
    means = np.exp(logs.groupby(["system", "dynamics", "alpha"])[["n_true", "n_clusters"]].mean())
    for (above, below), dynamics in zip(axes.T, DYNAMICS, strict=True):
        there = means.xs(dynamics, level="dynamics")
        ends = np.array([there["n_true"].min() / 1.2, there["n_true"].max() * 1.2])
        for axis, least in ((above, ends), (below, np.ones(2))):
            axis.plot(ends, least, color="0.7", linewidth=4, zorder=0, label="as many as true")
        for system in _in_order(frame):
            if system in there.index:
                true, inferred = (there.loc[system, column].to_numpy() for column in ("n_true", "n_clusters"))
                above.plot(true, inferred, **style(system))
                below.plot(true, inferred / true, **style(system))
        _log_scale(above.xaxis, above.yaxis)
        below.set_xlabel("true clusters")
    axes[0, 0].set_ylabel("inferred clusters")
    axes[1, 0].set_ylabel("inferred / true")
    _legend(figure, axes[0, 0])
    return figure


def _creation(frame: pd.DataFrame, title: str) -> Figure:
    figure, axes = _panels(
        1, 4.0, f"{title}: clusters created as observations arrive / all true clusters, mean over streams", sharey=True
    )
    x = np.arange(1, CHECKPOINTS + 1) * frame["n"].max() / CHECKPOINTS
    for axis, dynamics in zip(axes[0], DYNAMICS, strict=True):
        there = frame[frame["dynamics"] == dynamics]
        if there.empty:
            continue
        truth = there.drop_duplicates(stream_columns(there))
        axis.plot(x, _mean_share(truth, "created_truly"), color="0.6", linewidth=5, zorder=0, label="truth")
        for i, system in enumerate(_in_order(there)):
            share = _mean_share(there[there["system"] == system], "created")
            axis.plot(x, share, markevery=(i % 10, 10), **style(system))
        axis.set_xlabel("observations")
    axes[0, 0].set_ylabel("clusters created / all true ones")
    _legend(figure, axes[0, 0])
    return figure


def _mean_share(frame: pd.DataFrame, column: str) -> Float:
    return np.mean(np.stack(frame[column]) / frame["n_true"].to_numpy()[:, None], axis=0)


def wrong_dynamics(cells: pd.DataFrame, folder: Path) -> None:
    """Draw ``summary.wrong_dynamics``: data in rows, inference in columns; AMI, clusters, and evidence."""
    figure = Figure(figsize=(13, 5.0), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    notes = cells["gain"].map(lambda gain: signed(f"{gain:+.3f}")) + "\n± " + cells["error"].map("{:.3f}".format)
    _matrix(left, "mean AMI\nand its gain on the same streams", cells["ami"], notes, cells["gain"])
    _matrix(middle, "inferred / true clusters,\nmedian", cells["ratio"], None, -np.abs(np.log(cells["ratio"])))
    _matrix(right, "share of streams on which\nit has the highest evidence", cells["won"], None, cells["won"])
    figure.suptitle("The D-CRP told the wrong dynamics, on mixtures of Gaussians", x=0.01, ha="left", fontweight="bold")
    save(figure, folder, "wrong_dynamics")


def _matrix(axis: Axes, title: str, values: pd.Series, notes: pd.Series | None, shade: pd.Series) -> None:
    """Draw values, and perhaps notes under them, with an index of true and told dynamics; a larger shade is darker."""
    names = list(DYNAMICS)
    grey = shade.unstack().reindex(index=names, columns=names).fillna(shade.min()).to_numpy()
    span = np.ptp(grey) or 1.0
    axis.imshow(grey, cmap="Greys", vmin=np.min(grey), vmax=np.max(grey) + span, aspect="auto")
    for (i, truth), (j, told) in product(enumerate(names), enumerate(names)):
        text = f"{values.get((truth, told), 0.0):.3f}"
        if notes is not None and truth != told:
            text += f"\n{notes[truth, told]}"
        axis.text(j, i, text, ha="center", va="center", fontweight="bold" if i == j else "normal", fontsize=9)
    axis.set_xticks(range(len(names)), names, rotation=20, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(names)), names)
    axis.set_xlabel("inference told")
    axis.set_ylabel("data are")
    axis.set_title(title, fontsize=11)
    axis.tick_params(length=0)


def prior_marginals(marginals: Mapping[tuple[str, float], tuple[Float, Float]], folder: Path) -> None:
    """Draw P(customer n sits at table k) by Monte Carlo, and beside it by the recursion; a row for each dynamics."""
    alphas = sorted({alpha for _, alpha in marginals})
    figure = Figure(figsize=(2.0 * 2 * len(alphas), 9.0), layout="constrained")
    axes = figure.subplots(len(DYNAMICS), 2 * len(alphas), sharex="col", sharey=True, squeeze=False)
    for row, dynamics in zip(axes, DYNAMICS, strict=True):
        for i, alpha in enumerate(alphas):
            reached = max(np.max(np.nonzero(marginals[other, alpha][1] > LEAST)[1]) for other in DYNAMICS)
            for axis, values, name in zip(
                row[2 * i : 2 * i + 2], marginals[dynamics, alpha], ("Monte Carlo", "recursion"), strict=True
            ):
                image = axis.imshow(values, cmap="cividis", norm=LogNorm(LEAST, 1.0, clip=True), aspect="auto")
                axis.set_xlim(-0.5, reached + 3.5)
                if dynamics == next(iter(DYNAMICS)):
                    axis.set_title(f"{name}\nα = {alpha:g}", fontsize=10)
        row[0].set_ylabel(f"{dynamics}\ncustomer")
    for axis in axes[-1]:
        axis.set_xlabel("table")
    figure.colorbar(image, ax=axes, label="probability (0.001 and below: darkest)", shrink=0.5, aspect=30)
    figure.suptitle("The Dynamical CRP: drawn seatings and the exact recursion", x=0.01, ha="left", fontweight="bold")
    save(figure, folder, "prior_marginals")


def prior_errors(frame: pd.DataFrame, folder: Path) -> None:
    """Draw mean squared error against the number of samples, and what to expect of it if the recursion is exact."""
    figure, axes = _panels(
        1, 4.8, "Monte Carlo against the recursion: mean squared error", "", sharex=True, sharey=True
    )
    looks = (("#0072B2", "o", 4), ("#E69F00", "s", 9), ("#009E73", "^", 7), ("#000000", "x", 5))  # they overlap
    slopes = mean_and_error(frame, ["dynamics", "alpha"], "slope")
    for axis, dynamics in zip(axes[0], DYNAMICS, strict=True):
        there = frame[frame["dynamics"] == dynamics]
        for (alpha, runs), (color, marker, size) in zip(there.groupby("alpha"), looks, strict=True):
            x = runs["samples"].iloc[0]
            slope, error = slopes.loc[(dynamics, alpha)]
            label = signed(f"α = {alpha:g}: slope {slope:.3f} ± {error:.3f}")
            errors = np.mean(np.stack(runs["errors"]), axis=0)
            axis.plot(x, errors, marker, color=color, markersize=size, markerfacecolor="none", label=label)
            axis.plot(x, runs["expected"].iloc[0], color=color, linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("seatings drawn")
        axis.legend(fontsize=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    axes[0, 0].set_ylabel("mean squared error\n(lines: expected if exact)")
    save(figure, folder, "prior_errors")

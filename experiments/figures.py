"""The figures, as PNG and SVG. Colours are told apart by the colour-blind; markers and dashes, in greyscale."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dyncrp import baselines

from experiments.streams import CHECKPOINTS, DYNAMICS
from experiments.summary import mean_and_error

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
MEASURES = {"nmi": "NMI", "ami": "AMI"}


def style(system: str) -> dict[str, Any]:
    """Return how to draw a system: offline ones dashed and hollow, ours thick."""
    usual = STREAMING if baselines.SYSTEMS[system].streaming else OFFLINE
    return {"markersize": 5, "label": system} | STYLES[system] | usual | (FIRST if system == "D-CRP" else {})


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure twice; the same figure gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=150)
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


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
    """Return the systems that the frame has, ours last, so that it lies on top."""
    present = set(frame["system"])
    return [name for name in baselines.SYSTEMS if name in present]


def _agreement(frame: pd.DataFrame, column: str, label: str, title: str) -> Figure:
    figure, axes = _panels(
        2, 6.2, f"{title}: agreement with the truth, mean ± standard error over streams", sharex=True, sharey="row"
    )
    for row, (measure, name) in zip(axes, MEASURES.items(), strict=True):
        values = mean_and_error(frame, ["system", "dynamics", column], measure)
        for axis, dynamics in zip(row, DYNAMICS, strict=True):
            for system in _in_order(frame):
                if (system, dynamics) in values.index.droplevel(2):
                    line = values.loc[(system, dynamics)]
                    axis.errorbar(line.index, line["mean"], yerr=line["error"], elinewidth=0.8, **style(system))
        row[0].set_ylabel(name)
    for axis in axes[-1]:
        axis.set_xlabel(label)
        if column == "signal":
            axis.set_xscale("log")
        else:
            axis.set_xticks(sorted(frame[column].unique()))
    _legend(figure, axes[0, 0])
    return figure


def _clusters(frame: pd.DataFrame, title: str) -> Figure:
    """A point is the mean over the streams of one alpha, in both directions."""
    figure, axes = _panels(1, 4.0, f"{title}: clusters inferred and true, geometric mean over the streams of each α")
    logs = frame.assign(n_clusters=np.log(frame["n_clusters"]), n_true=np.log(frame["n_true"]))
    means = np.exp(logs.groupby(["system", "dynamics", "alpha"])[["n_true", "n_clusters"]].mean())
    for axis, dynamics in zip(axes[0], DYNAMICS, strict=True):
        there = means.xs(dynamics, level="dynamics")
        ends = [there["n_true"].min() / 1.2, there["n_true"].max() * 1.2]
        axis.plot(ends, ends, color="0.6", linewidth=3, zorder=0, label="as many as true")
        for system in _in_order(frame):
            if system in there.index:
                axis.plot(there.loc[system, "n_true"], there.loc[system, "n_clusters"], **style(system))
        axis.set_xscale("log")
        axis.set_yscale("log")
        for ticks in (axis.xaxis, axis.yaxis):
            ticks.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
            ticks.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
            ticks.set_minor_formatter(mpl.ticker.NullFormatter())
        axis.set_xlabel("true clusters")
    axes[0, 0].set_ylabel("inferred clusters")
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
        truth = there.drop_duplicates(list(_stream_columns(there)))
        axis.plot(x, _mean_share(truth, "created_truly"), color="0.6", linewidth=5, zorder=0, label="truth")
        for i, system in enumerate(_in_order(there)):
            share = _mean_share(there[there["system"] == system], "created")
            axis.plot(x, share, markevery=(i % 10, 10), **style(system))
        axis.set_xlabel("observations")
    axes[0, 0].set_ylabel("clusters created / all true ones")
    _legend(figure, axes[0, 0])
    return figure


def _stream_columns(frame: pd.DataFrame) -> list[str]:
    return list(frame.columns[: frame.columns.get_loc("system")])


def _mean_share(frame: pd.DataFrame, column: str) -> Float:
    return np.mean(np.stack(frame[column]) / frame["n_true"].to_numpy()[:, None], axis=0)


def wrong_dynamics(frame: pd.DataFrame, folder: Path) -> None:
    """Draw, for each dynamics of the data (rows) and of the inference (columns): AMI, clusters, and evidence."""
    means = mean_and_error(frame, ["dynamics", "system"], "ami")
    ratio = (frame["n_clusters"] / frame["n_true"]).groupby([frame["dynamics"], frame["system"]]).median()
    best = frame.loc[frame.groupby(_stream_columns(frame))["log_evidence"].idxmax()]
    won = best.groupby(["dynamics", "system"]).size() / best.groupby("dynamics").size()
    figure = Figure(figsize=(12.5, 4.6), layout="constrained")
    for axis, (title, values, errors) in zip(
        figure.subplots(1, 3),
        (
            ("mean AMI (± standard error)", means["mean"], means["error"]),
            ("inferred / true clusters, median", ratio, None),
            ("share of streams with the highest evidence", won, None),
        ),
        strict=True,
    ):
        _matrix(axis, title, _square(values), None if errors is None else _square(errors))
    figure.suptitle("The D-CRP told the wrong dynamics, on mixtures of Gaussians", x=0.01, ha="left", fontweight="bold")
    save(figure, folder, "wrong_dynamics")


def _square(values: pd.Series) -> Float:
    return values.unstack().reindex(index=list(DYNAMICS), columns=list(DYNAMICS)).fillna(0.0).to_numpy()


def _matrix(axis: Axes, title: str, values: Float, errors: Float | None) -> None:
    axis.imshow(values, cmap="Greys", vmin=2 * np.min(values) - np.max(values), vmax=2 * np.max(values))
    for (i, j), value in np.ndenumerate(values):
        text = f"{value:.3f}" if errors is None else f"{value:.3f}\n± {errors[i, j]:.3f}"
        axis.text(j, i, text, ha="center", va="center", fontweight="bold" if i == j else "normal", fontsize=10)
    axis.set_xticks(range(len(DYNAMICS)), list(DYNAMICS), rotation=20, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(DYNAMICS)), list(DYNAMICS))
    axis.set_xlabel("inference told")
    axis.set_ylabel("data are")
    axis.set_title(title)
    axis.tick_params(length=0)


def prior_marginals(marginals: Mapping[tuple[str, float], tuple[Float, Float]], folder: Path) -> None:
    """Draw P(customer n sits at table k) by Monte Carlo beside the recursion: a row for each dynamics, pairs by alpha."""
    alphas = sorted({alpha for _, alpha in marginals})
    figure = Figure(figsize=(2.0 * 2 * len(alphas), 9.0), layout="constrained")
    axes = figure.subplots(len(DYNAMICS), 2 * len(alphas), sharex=True, sharey=True, squeeze=False)
    for row, dynamics in zip(axes, DYNAMICS, strict=True):
        for i, alpha in enumerate(alphas):
            for axis, values, name in zip(
                row[2 * i : 2 * i + 2], marginals[dynamics, alpha], ("Monte Carlo", "recursion"), strict=True
            ):
                image = axis.imshow(values, cmap="cividis", norm=LogNorm(1e-3, 1.0, clip=True), aspect="auto")
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
        1, 4.0, "Monte Carlo against the recursion: mean squared error", "", sharex=True, sharey=True
    )
    looks = (("#0072B2", "o", 4), ("#E69F00", "s", 9), ("#009E73", "^", 7), ("#000000", "x", 5))  # they overlap
    slopes = mean_and_error(frame, ["dynamics", "alpha"], "slope")
    for axis, dynamics in zip(axes[0], DYNAMICS, strict=True):
        there = frame[frame["dynamics"] == dynamics]
        for (alpha, runs), (color, marker, size) in zip(there.groupby("alpha"), looks, strict=True):
            x = runs["samples"].iloc[0]
            slope, error = slopes.loc[(dynamics, alpha)]
            label = f"α = {alpha:g}: slope {slope:.3f} ± {error:.3f}"
            errors = np.mean(np.stack(runs["errors"]), axis=0)
            axis.plot(x, errors, marker, color=color, markersize=size, markerfacecolor="none", label=label)
            axis.plot(x, runs["expected"].iloc[0], color=color, linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("seatings drawn")
        axis.legend(fontsize=8, frameon=False, loc="lower left")
    axes[0, 0].set_ylabel("mean squared error\n(lines: expected if exact)")
    save(figure, folder, "prior_errors")

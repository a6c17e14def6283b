"""The readings of a pump, docs/pump.csv, and the pictures of the README and of the tutorial that are drawn from them.

``python -m benchmarks.pump`` writes the file and draws the pictures.
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from matplotlib.dates import DateFormatter, HourLocator
from matplotlib.figure import Figure

from benchmarks.speed import HERE
from dyncrp import DynamicalMixture, plots

DOCS = HERE.parent / "docs"
# What the pump does in two days: the minute at which it begins, and the state.
DAYS = (
    *((0, "idle"), (370, "normal"), (485, "full"), (600, "normal"), (720, "full"), (790, "normal"), (900, "full")),
    *((1010, "normal"), (1120, "idle"), (1440 + 365, "normal"), (1440 + 460, "full"), (1440 + 540, "rinse")),
    *((1440 + 560, "normal"), (1440 + 650, "full"), (1440 + 740, "rinse"), (1440 + 760, "normal")),
    *((1440 + 1015, "full"), (1440 + 1110, "idle")),
)
STATES = {"idle": (21.0, 0.3, 0.2), "normal": (46.0, 2.6, 1.6), "full": (61.0, 4.4, 3.4), "rinse": (34.0, 5.6, 1.0)}
SPREAD = (1.2, 0.12, 0.15)  # °C, bar, mm/s
UNITS = {"temperature": "°C", "pressure": "bar", "vibration": "mm/s"}
NAMES = [*UNITS]
GLITCH = 1440 + 907  # vibration only


def readings() -> list[str]:
    """Return the lines of the file: the time, the temperature, the pressure and the vibration, every minute."""
    rng = np.random.default_rng(7)
    minutes = np.arange(2 * 1440)
    begins = np.array([minute for minute, _ in DAYS])
    states = [DAYS[at][1] for at in np.searchsorted(begins, minutes, side="right") - 1]
    X = np.array([STATES[state] for state in states]) + rng.normal(size=(len(minutes), 3)) * SPREAD
    X[GLITCH, 2] += 3.0
    X[:, 1:] = np.maximum(X[:, 1:], 0.0)
    times = np.datetime64("2026-03-02T00:00") + minutes.astype("timedelta64[m]")
    rows = [f"{time},{a:.1f},{b:.2f},{c:.2f}" for time, (a, b, c) in zip(times, X, strict=True)]
    return [",".join(["time", *NAMES]), *rows]


def fitted(lines: list[str]) -> tuple[Any, Any]:
    """Return the readings as a frame, and a model that has learned them."""
    frame = pandas.read_csv(StringIO("\n".join(lines)), parse_dates=["time"])
    return frame, DynamicalMixture(alarm_rate=0.001).fit(frame[NAMES], times=frame["time"])


def timeline(frame: Any, model: Any, path: Path) -> None:
    """Draw the second day, coloured by cluster, and write beside three readings what happened."""
    rows = slice(1440 + 330, 1440 + 1170)
    figure = Figure(figsize=(10.0, 5.0), layout="constrained")
    axes = figure.subplots(3, 1, sharex=True)
    clusters = model.clusters().labels(model.labels_)
    day = frame["time"].to_numpy()
    for axis, name in zip(axes, NAMES, strict=True):
        for cluster in range(clusters.max() + 1):
            at = np.flatnonzero(clusters == cluster)
            at = at[(at >= rows.start) & (at < rows.stop)]
            color, marker = plots.table_style(cluster)
            size = 7 if len(at) > 1 else 40
            axis.scatter(day[at], frame[name].to_numpy()[at], s=size, color=color, marker=marker, linewidths=0)
        rare = [row for row, text in _notes(model) if text == "alarm"]
        axis.plot(day[rare], frame[name].to_numpy()[rare], "o", color="#c00000", markerfacecolor="none", markersize=10)
        axis.set_ylabel(f"{name}\n({UNITS[name]})", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(y=0.15)
    for cluster, row in ((0, rows.start), (1, 1440 + 370), (2, 1440 + 465), (3, 1440 + 540)):
        # Above its rows, or below them if another cluster is there.
        place = {"xytext": (4, -22 if cluster == 3 else 13), "textcoords": "offset points"}
        place["color"] = plots.table_style(cluster)[0]
        axes[0].annotate(f"cluster {cluster}", (day[row], frame["temperature"][row]), fontsize=9, **place)
    for row, text in _notes(model):
        for axis in axes:
            axis.axvline(day[row], color="0.45", lw=0.8, ls=":")
        place = {"xytext": (4, 2), "textcoords": "offset points", "annotation_clip": False}
        axes[0].annotate(text, (day[row], 1.0), xycoords=("data", "axes fraction"), fontweight="bold", **place)
    axes[0].set_xlim(day[rows.start], day[rows.stop])
    axes[-1].xaxis.set_major_locator(HourLocator(interval=2))
    axes[-1].xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes[-1].set_xlabel(f"time, {frame['time'][rows.start]:%Y-%m-%d}")
    figure.savefig(path, dpi=150)


def _notes(model: Any) -> list[tuple[int, str]]:
    """Return the rows at which something happened on the second day that is not routine, and what it was."""
    rinse = next(event.table for event in model.events_ if event.kind == "opened" and event.row > 1440)
    found = []
    for event in model.events_:
        if event.kind == "opened" and event.table == rinse:
            found.append((event.row, "new"))
        elif event.kind == "returned" and event.table == rinse:
            found.append((event.row, f"back after {event.what['absence'] / 3600:.0f} h"))
        elif event.kind == "alarm" and event.row > 1440 + 600:
            found.append((event.row, "alarm"))
    return found


def scatter(frame: Any, model: Any, path: Path) -> None:
    """Draw all readings by temperature and pressure, coloured by cluster."""
    figure = Figure(figsize=(7.0, 4.6), layout="constrained")
    axis = figure.subplots()
    clusters = model.clusters().labels(model.labels_)
    for cluster in range(clusters.max() + 1):
        color, marker = plots.table_style(cluster)
        at = clusters == cluster
        name = f"{cluster}: {at.sum():,} {'rows' if at.sum() > 1 else 'row'}"
        axis.scatter(
            *frame.loc[at, ["temperature", "pressure"]].to_numpy().T,
            s=14 if at.sum() > 1 else 60,
            color=color,
            marker=marker,
            linewidths=0,
            label=name,
        )
    axis.set(xlabel="temperature (°C)", ylabel="pressure (bar)")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(title="cluster", frameon=False, loc="upper left")
    figure.savefig(path, dpi=130)


def raw(frame: Any, path: Path) -> None:
    """Draw the readings as they are in the file."""
    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    for axis, name in zip(figure.subplots(3, 1, sharex=True), NAMES, strict=True):
        axis.plot(frame["time"].to_numpy(), frame[name].to_numpy(), ".", color="0.45", markersize=1.8)
        axis.set_ylabel(f"{name}\n({UNITS[name]})", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.xaxis.set_major_locator(HourLocator(range(0, 24, 6)))
        axis.xaxis.set_major_formatter(DateFormatter("%d %b %H:%M"))
    figure.savefig(path, dpi=130)


def main(folder: Path = DOCS) -> None:
    """Write the file, draw the pictures, and say what they show."""
    lines = readings()
    (folder / "pump.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    frame, model = fitted(lines)
    images = folder / "images"
    images.mkdir(exist_ok=True)
    raw(frame, images / "pump-file.png")
    timeline(frame, model, images / "pump.png")
    scatter(frame, model, images / "pump-clusters.png")
    for row, text in _notes(model):
        print(lines[row + 1].split(",")[0], text)


if __name__ == "__main__":
    main()

"""``python -m benchmarks.streams [--data FOLDER] [--quick]``: stream clusterers, scored on labels given on arrival.

Prints a table in Markdown for each stream and one of means, saves the results, and draws a picture. ``--data`` is a
folder with further streams as .npz files, each with X (n, D) and y (n,). ``--only`` and ``--system`` select. A part of
the benchmark is only printed, unless ``--keep`` puts it among what was saved, or ``--results`` or ``--chart`` is given.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report, speed
from benchmarks.streams.base import Row, measure
from benchmarks.streams.made import MADE
from benchmarks.streams.shipped import Load, in_folder, shipped
from benchmarks.streams.systems import all_systems

RESULTS = speed.HERE / "results" / "streams.json"
CHART = speed.HERE.parent / "docs" / "images" / "streams.png"
MOMENTS = ("arrival", "later", "end")  # later: on arrival, but without the first 1,000 rows
SCORES = ("ami", "ari", "purity", "b3")
SECONDS = 30.0  # CPU time of a system on a stream
ORDERS = 2  # of arrival
HEADS = ("AMI", "ARI", "purity", "B³-F1", "clusters", "AMI, later", "AMI at the end", "clusters", "rows/s", "kB")
MEAN_HEADS = (
    "AMI",
    "ARI",
    "purity",
    "B³-F1",
    "AMI, later",
    "AMI at the end",
    "rows/s",
    "kB",
    "AMI, all",
    "at the end, all",
)


def streams(folder: Path | None) -> dict[str, Load]:
    """Return all streams by name."""
    return {**shipped(), **(in_folder(folder) if folder else {}), **MADE}


def mean_row(rows: list[Row]) -> Row:
    """Return the means of a system over seeds, or the row that was stopped."""
    stopped = next((row for row in rows if row["stopped"]), None)
    if stopped is not None:
        return stopped
    mean: Row = {name: rows[0][name] for name in ("system", "told", "stopped")}
    for name in ("rate", "kilobytes"):
        mean[name] = None if rows[0][name] is None else float(np.mean([row[name] for row in rows]))
    for name in MOMENTS:
        one = rows[0][name]
        mean[name] = one and {key: float(np.mean([row[name][key] for row in rows])) for key in one}
    return mean


def cells(row: Row) -> list[str]:
    """Return a row of the table, after the name of the system."""
    if row["stopped"]:
        return [row["stopped"], *[""] * (len(HEADS) - 1)]
    arrival, later, end = (row[name] for name in MOMENTS)
    found = ["–"] * 5 if arrival is None else [f"{arrival[name]:.3f}" for name in SCORES]
    if arrival is not None:
        found.append(f"{arrival['clusters']:.0f}")
    found.append("–" if later is None else f"{later['ami']:.3f}")
    found += ["–", "–"] if end is None else [f"{end['ami']:.3f}", f"{end['clusters']:.0f}"]
    return [*found, "–" if row["rate"] is None else f"{row['rate']:,.0f}", f"{row['kilobytes']:,.0f}"]


def summary(results: dict[str, list[Row]]) -> list[tuple[str, str, list[float | None]]]:
    """Return for each system its means over the streams that all systems finished, and its AMI over all streams.

    They are AMI, ARI, purity and B³-F1 of labels on arrival, AMI of these without the first 1,000 rows (of streams that
    are long enough) and at the end, the median rate and kilobytes, and then AMI on arrival and at the end over all
    streams; None where it has none, or was stopped.
    """
    names = list(dict.fromkeys(row["system"] for rows in results.values() for row in rows))
    common = finished(results)
    found = []
    for name in names:
        of_stream = {stream: next(row for row in rows if row["system"] == name) for stream, rows in results.items()}
        some, every = [of_stream[stream] for stream in common], list(of_stream.values())
        means = [_mean(some, "arrival", score) for score in SCORES]
        long = [of_stream[stream] for stream in common if any(row["later"] for row in results[stream])]
        means += [_mean(long, "later", "ami"), _mean(some, "end", "ami")]
        for what in ("rate", "kilobytes"):
            found_of = [row[what] for row in some if row[what] is not None]
            means.append(float(np.median(found_of)) if found_of else None)
        means += [_mean(every, "arrival", "ami"), _mean(every, "end", "ami")]
        found.append((name, every[0]["told"], means))
    return found


def finished(results: dict[str, list[Row]]) -> list[str]:
    """Return the names of the streams on which no system was stopped."""
    return [stream for stream, rows in results.items() if not any(row["stopped"] for row in rows)]


def _mean(rows: list[Row], moment: str, score: str) -> float | None:
    if not rows or any(row["stopped"] or row[moment] is None for row in rows):
        return None
    return float(np.mean([row[moment][score] for row in rows]))


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, print, save and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of .npz files with X (n, D) and y (n,)")
    parser.add_argument("--quick", action="store_true", help="one order of arrival of each stream")
    parser.add_argument("--only", action="append", help="run this stream (may be repeated)")
    parser.add_argument("--system", action="append", help="run this system, such as dyncrp_itself.dyncrp")
    parser.add_argument("--most", type=int, help="rows of a stream")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU time of a system on a stream")
    parser.add_argument("--results", type=Path, help="where to save; a part of the benchmark only if this is given")
    parser.add_argument("--chart", type=Path, help="where to draw; the same")
    parser.add_argument("--saved", action="store_true", help="print the means and draw what was saved, and run nothing")
    parser.add_argument("--keep", action="store_true", help="keep what was saved of all that does not run now")
    options = parser.parse_args(arguments)
    part = bool(options.quick or options.only or options.system or options.most) and not (options.keep or options.saved)
    path, chart = options.results or (None if part else RESULTS), options.chart or (None if part else CHART)
    before = json.loads(path.read_text()) if options.saved or options.keep else {"streams": {}}
    saved: dict[str, list[Row]] = before["streams"]
    if options.saved:
        print_means(saved)
        draw(saved, chart)
        return
    commit, systems, loads = report.commit(), all_systems(), streams(options.data)
    for option, given, known in (("--only", options.only, loads), ("--system", options.system, systems)):
        for name in given or ():
            if name not in known:
                parser.error(f"{option} {name}: choose from {', '.join(known)}")
    makers = {name: make for name, make in systems.items() if not options.system or name in options.system}
    results = saved
    for name, load in loads.items():
        if options.only and name not in options.only:
            continue
        given = [load(seed) for seed in range(1 if options.quick else ORDERS)]
        if options.most:
            given = [type(one)(one.X[: options.most], one.truth[: options.most]) for one in given]
        n, D = given[0].X.shape
        print(f"\n{name}: {n:,} × {D}, {given[0].n_classes} classes\n")
        print(f"| system | given | {' | '.join(HEADS)} |\n|---|---{'|---' * len(HEADS)}|")
        found: list[Row] = []
        for make in makers.values():
            rows: list[Row] = []
            for seed, stream in enumerate(given):
                if not any(row["stopped"] for row in rows):  # it would only be too slow again
                    rows.append(measure(make, stream, seed, options.seconds))
            row = mean_row(rows) | ({"commit": commit} if options.keep else {})
            found.append(row)
            print(f"| {row['system']} | {row['told']} | {' | '.join(cells(row))} |", flush=True)
        results[name] = put(results.get(name, []), found)
        if path:
            save(path, results, before.get("commit", commit))
    print_means(results)
    if chart:
        draw(results, chart)


def put(before: list[Row], rows: list[Row]) -> list[Row]:
    """Return the rows of systems before, those that ran replaced by what was found now.

    >>> put([{"system": "a", "rate": 1}, {"system": "b"}], [{"system": "a", "rate": 2}, {"system": "c"}])
    [{'system': 'a', 'rate': 2}, {'system': 'b'}, {'system': 'c'}]
    """
    now = {row["system"]: row for row in rows}
    return [now.pop(row["system"], row) for row in before] + list(now.values())


def save(path: Path, results: dict[str, list[Row]], commit: str) -> None:
    """Save the rows of every stream and the means, with the commit and the machine.

    With ``--keep`` the commit is that of what was saved before, and rows that ran have their own.
    """
    means = {name: dict(zip(MEAN_HEADS, values, strict=True)) for name, _, values in summary(results)}
    content = {"commit": commit, "machine": report.machine(), "streams": results, "means": means}
    path.write_text(json.dumps(content, indent=1) + "\n")


def print_means(results: dict[str, list[Row]]) -> None:
    """Print the means of every system over the streams."""
    of = f"{len(finished(results))} of {len(results)}"
    print(f"\nMeans over the streams that every system finished, {of}, and over all\n")
    print(f"| system | given | {' | '.join(MEAN_HEADS)} |\n|---|---{'|---' * len(MEAN_HEADS)}|")
    for name, told, means in summary(results):
        text = ["–" if one is None else f"{one:,.0f}" if one > 2.0 else f"{one:.3f}" for one in means]
        print(f"| {name} | {told} | {' | '.join(text)} |")


def draw(results: dict[str, list[Row]], path: Path) -> None:
    """Draw AMI of every system on every stream, as cells shaded by it, with the number in each."""
    from matplotlib.figure import Figure

    names = [name for name, _, _ in summary(results)]
    online = [name for name in names if any(_row(rows, name).get("arrival") for rows in results.values())]
    panels = {"labels on arrival": ("arrival", online)}
    if len(online) < len(names):
        panels["all rows at once"] = ("end", [name for name in names if name not in online])
    sizes = [len(systems) for _, systems in panels.values()]
    figure = Figure(figsize=(0.72 * sum(sizes) + 2.6, 0.32 * len(results) + 2.4), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, width_ratios=sizes, squeeze=False)[0]
    for axis, (title, (moment, systems)) in zip(axes, panels.items(), strict=True):
        _cells(axis, [[_row(rows, name) for name in systems] for rows in results.values()], moment)
        axis.set_xticks(range(len(systems)), systems, rotation=60, ha="right", rotation_mode="anchor")
        axis.set_title(title, fontsize=10)
    axes[0].set_yticks(range(len(results)), list(results))
    figure.suptitle(
        "AMI with the true clusters: 1 is perfect, 0 is chance; the best of each stream and part in bold", fontsize=11
    )
    figure.savefig(path, dpi=130)


def _cells(axis: Any, rows: list[list[Row]], moment: str) -> None:
    """Draw one panel: a cell for each stream and system."""
    table = np.array([[np.nan if not row.get(moment) else row[moment]["ami"] for row in line] for line in rows])
    axis.imshow(np.nan_to_num(table), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for (i, j), value in np.ndenumerate(table):
        text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
        best = np.isfinite(value) and round(value, 2) == round(np.nanmax(table[i]), 2)
        text |= {"color": "white" if value > 0.6 else "black", "fontweight": "bold" if best else "normal"}
        said = "too slow" if str(rows[i][j]["stopped"]).startswith("over") else "–"
        axis.text(j, i, f"{value:.2f}".replace("-0.00", "0.00") if np.isfinite(value) else said, **text)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _row(rows: list[Row], system: str) -> Row:
    return next(row for row in rows if row["system"] == system)


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.streams")
    main()

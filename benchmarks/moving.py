"""``python -m benchmarks.moving``: clusters that walk, drift, rotate or stand still, with and without a memory.

Prints the AMI with the true clusters and the number of tables, as means over streams. Everyone labels each row as it
comes. dyncrp is told nothing, or to learn how long a table remembers; k-means is told the number of clusters. The rules
of learning were chosen on streams with other seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.speed import HERE, on_one_thread

if TYPE_CHECKING:
    from benchmarks.data import Float

Show = Callable[[str, list[dict[str, Any]]], None]

N, K = 4000, 12
SEEDS = range(100, 120)  # those below 100 chose the rules
SPREAD = {2: 12.0, 16: 3.0}  # of the centres; clusters have unit variance
# How far a cluster comes during the stream, in its own standard deviations; radians, if all rotate.
SPEED = {
    ("walk", 2): 7.0,
    ("drift", 2): 12.0,
    ("rotate", 2): 1.2,
    ("still", 2): 0.0,
    ("walk", 16): 4.0,
    ("drift", 16): 14.0,
    ("rotate", 16): 1.2,
    ("still", 16): 0.0,
}
MOVING = ("walk", "drift", "rotate")
BATCH = 100  # of k-means
CONNECTIONS = 20_000  # rows
COLUMNS = {
    "ami": ("AMI", lambda v: f"{v:.3f}"),
    "clusters": ("clusters", lambda v: f"{v:.1f}"),
    "finite": ("forgets", str),
}
PICTURE = HERE.parent / "docs" / "images" / "moving.gif"
FRAMES, RECENT, TRACK = 40, 120, 3  # of the picture; rows that each shows large; of those before, it shows every third


def stream(
    kind: str, D: int, seed: int, n: int = N, n_clusters: int = K, speed: float | None = None
) -> tuple[Float, Any]:
    """Return rows (n, D) of clusters in random order, and the cluster of each.

    Each centre walks at random, drifts its own way, or all rotate about the origin in D/2 planes; or they stand still.
    """
    import numpy as np

    rng = np.random.default_rng([seed, D, list(MOVING).index(kind) if kind in MOVING else len(MOVING)])
    start = rng.normal(0.0, SPREAD[D], (n_clusters, D))
    labels = rng.integers(n_clusters, size=n)
    speed, done = SPEED[kind, D] if speed is None else speed, np.linspace(0.0, 1.0, n)[:, None, None]
    path = np.broadcast_to(start, (n, n_clusters, D))
    if kind == "walk":
        path = start + np.cumsum(rng.normal(0.0, speed / np.sqrt(n), path.shape), axis=0)
    elif kind == "drift":
        ways = rng.normal(size=start.shape)
        path = start + speed * done * ways / np.linalg.norm(ways, axis=1, keepdims=True)
    elif kind == "rotate":
        turn = np.exp(1j * speed * done) * (start[:, ::2] + 1j * start[:, 1::2])
        path = np.stack([turn.real, turn.imag], axis=-1).reshape(path.shape)
    return path[np.arange(n), labels] + rng.normal(size=(n, D)), labels


def systems() -> dict[str, Callable[[Float], tuple[Any, int, float | None]]]:
    """Return who is compared: each gives rows labels (n,), a number of clusters, and says its memory if it has one."""
    from dyncrp import DynamicalMixture

    def dyncrp(memory: float | None) -> Callable[[Float], tuple[Any, int, float | None]]:
        def fit(X: Float) -> tuple[Any, int, float | None]:
            model = DynamicalMixture(memory=memory).fit(X)
            return model.labels_, model.n_tables_, model.memory_

        return fit

    return {"dyncrp": dyncrp(inf), "dyncrp, memory learned": dyncrp(None), "MiniBatchKMeans, told K": _kmeans}


def _kmeans(X: Float) -> tuple[Any, int, float | None]:
    import numpy as np
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(K, random_state=0, n_init=3)
    parts = [X[begin : begin + BATCH] for begin in range(0, len(X), BATCH)]
    labels = [model.partial_fit(part).predict(part) for part in parts]
    return np.concatenate(labels), K, None


def measure(streams: Sequence[tuple[Float, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    """Return a row for each of these systems: means over the streams, and the standard error of AMI."""
    import numpy as np
    from sklearn.metrics import adjusted_mutual_info_score

    rows = []
    for name in names:
        found = [systems()[name](X) for X, _ in streams]
        pairs = zip(found, streams, strict=True)
        scores = [adjusted_mutual_info_score(truth, labels) for (labels, _, _), (_, truth) in pairs]
        memories = [memory for _, _, memory in found if memory is not None]
        row = {"system": name, "ami": float(np.mean(scores)), "clusters": float(np.mean([k for _, k, _ in found]))}
        if len(scores) > 1:
            row["ami_error"] = float(np.std(scores, ddof=1) / np.sqrt(len(scores)))
        row["finite"] = f"{sum(memory < inf for memory in memories)} of {len(scores)}" if memories else None
        rows.append(row)
    return rows


def artificial(seeds: range, show: Show) -> None:
    """Measure everyone on streams of each kind, and their means over those that move."""
    import numpy as np

    results = {}
    for kind, D in SPEED:
        results[kind, D] = measure([stream(kind, D, seed) for seed in seeds], systems())
        show(f"{kind}, D = {D}", results[kind, D])
    for D in SPREAD:
        means = []
        for of_all in zip(*(results[kind, D] for kind in MOVING), strict=True):
            means.append({key: float(np.mean([row[key] for row in of_all])) for key in ("ami", "clusters")})
            means[-1]["system"] = of_all[0]["system"]
        show(f"walk, drift and rotate, D = {D}", means)


def real(connections: Path | None, show: Show) -> None:
    """Measure dyncrp on real data, three orders of each set, and on network connections in order of time."""
    from benchmarks.streams.shipped import of_scikit_learn

    names = list(systems())[:2]
    for title, load in of_scikit_learn().items():
        show(title, measure([load(seed) for seed in range(3)], names))
    if connections is not None:
        show("connections", measure([_read_connections(connections)], names))


def _read_connections(path: Path) -> tuple[Float, Any]:
    """Return the logarithms of the numbers in the first rows of KDD Cup 1999, and the classes."""
    import numpy as np
    import pandas as pd

    frame = pd.read_csv(path, nrows=CONNECTIONS)
    X = np.log1p(frame.drop(columns="class").select_dtypes("number").to_numpy(np.float64))
    return X[:, np.std(X[:1000], axis=0) > 0], frame["class"].to_numpy()


def draw(path: Path, n: int = 4000, seed: int = 21) -> None:
    """Write the picture: clusters that walk, each row in the colour of its table, without a finite memory and with."""
    import numpy as np
    from experiments.figures import pixels, save_animation
    from matplotlib.figure import Figure
    from PIL import Image

    from dyncrp import DynamicalMixture, plots

    X, truth = stream("walk", 2, seed, n, n_clusters=5, speed=16.0)
    labels = {"nothing is forgotten": DynamicalMixture().fit(X).labels_}
    labels["memory=None"] = DynamicalMixture(memory=None).fit(X).labels_
    limits = dict(zip(("xlim", "ylim"), zip(X.min(axis=0) - 1.0, X.max(axis=0) + 1.0, strict=True), strict=True))
    frames = []
    for end in np.linspace(RECENT, n, FRAMES).round().astype(int):
        figure = Figure(figsize=(8.4, 4.5), layout="constrained")
        for axis, (title, tables) in zip(figure.subplots(1, 2), labels.items(), strict=True):
            for table in np.unique(tables[:end]):
                color, marker = plots.table_style(int(table))
                rows = np.flatnonzero(tables[:end] == table)
                recent = rows[rows >= end - RECENT]
                axis.scatter(*X[rows[::TRACK]].T, s=4, color=color, alpha=0.4, linewidths=0)
                axis.scatter(*X[recent].T, s=22, color=color, marker=marker, linewidths=0)
            axis.set(**limits, xticks=[], yticks=[])
            opened = len(np.unique(tables[:end]))
            axis.set_title(f"{title}: {opened} tables for {len(np.unique(truth))} clusters", fontsize=11, loc="left")
        frames.append(pixels(figure, 80))
    some = Image.fromarray(np.vstack([np.asarray(frame) for frame in frames[:: FRAMES // 8]]))  # tables of all times
    save_animation(frames, some.quantize(96), path)


def main() -> None:
    """Parse, run, print, save; or draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.moving", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(SEEDS.start, SEEDS.stop), metavar=("FROM", "TO"))
    parser.add_argument("--results", type=Path, default=HERE / "results" / "moving.json")
    parser.add_argument("--real", action="store_true", help="real data instead")
    parser.add_argument("--connections", type=Path, help="a file of KDD Cup 1999 as CSV with names, for --real")
    parser.add_argument("--picture", action="store_true", help="only draw the picture of the docs")
    options = parser.parse_args()
    if options.picture:
        draw(PICTURE)
        return

    from rich.console import Console

    from benchmarks import report

    console = Console(width=None if sys.stdout.isatty() else 140)
    results: dict[str, list[dict[str, Any]]] = {}

    def show(title: str, rows: list[dict[str, Any]]) -> None:
        results[title] = rows
        console.print(report.table(title, rows, COLUMNS))

    seeds = range(*options.seeds)
    if options.real:
        real(options.connections, show)
    else:
        artificial(seeds, show)
    section = "real" if options.real else "moving"
    report.write(options.results, {section: results}, quick=seeds != SEEDS)


if __name__ == "__main__":
    on_one_thread("benchmarks.moving")
    main()

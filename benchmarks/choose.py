"""The pictures of docs/choose.md, docs/images/choose-*.png, and those of programs in the gallery, program-*.png.

``python -m benchmarks.choose`` draws them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.datasets import make_blobs, make_moons

from benchmarks.speed import HERE
from dyncrp import (
    DynamicalMixture,
    Exponential,
    Gaussian,
    Hyperbolic,
    NormalGamma,
    Oscillatory,
    Stationary,
    VonMisesFisher,
    plots,
)
from dyncrp.process import occupancy_path

GREY = "0.85"
Float = NDArray[np.float64]


def families(path: Path) -> list[int]:
    """Draw clusters of equal and of unequal width, and directions, as families see them; return the tables."""
    equal, _ = make_blobs(600, centers=[[-5.0, -3.0], [5.0, -3.0], [0.0, 5.0]], random_state=2)
    equal = equal @ np.array([[1.0, 0.6], [0.0, 0.8]])
    widths = [0.6, 1.5, 2.5]
    unequal, _ = make_blobs(600, centers=[[-9.0, -6.0], [6.0, -3.0], [-6.0, 8.0]], cluster_std=widths, random_state=2)
    rng = np.random.default_rng(1)
    angles = np.array([0.2, 1.9, 4.0])[rng.integers(3, size=600)] + rng.normal(scale=0.22, size=600)
    lengths = rng.uniform(0.3, 1.0, size=600)
    unit = np.column_stack([np.cos(angles), np.sin(angles)])
    panels = [
        ("Gaussian()", "one shape for all", equal, equal, Gaussian()),
        ("Gaussian()", "widths differ", unequal, unequal, Gaussian()),
        ("NormalGamma(degrees=1.0)", "widths differ", unequal, unequal, NormalGamma(degrees=1.0)),
        ("VonMisesFisher()", "only the direction counts", unit * lengths[:, None], unit, VonMisesFisher()),
    ]
    figure, axes = _figure(7.0, 6.6, 2, 2)
    tables = []
    for axis, (name, what, shown, X, family) in zip(axes.flat, panels, strict=True):
        model = DynamicalMixture(family).fit(X)
        tables.append(model.n_tables_)
        _scatter(axis, shown, model.labels_)
        axis.set_title(f"{name}\n{what}: {model.n_tables_} tables", fontsize=10)
        axis.set(xticks=[], yticks=[], aspect="equal", anchor="N")
    _save(figure, path)
    return tables


def dynamics(path: Path) -> None:
    """Draw the occupancy of a table that is visited in two spells, under five dynamics."""
    day = np.arange(0.0, 240.0, 0.5)
    visited = ((day >= 20) & (day < 40)) | ((day >= 150) & (day < 155))
    kinds = [
        ("Stationary()", "never forgets", Stationary()),
        ("Exponential(10.0)", "forgets at a steady rate", Exponential(10.0)),
        ("Hyperbolic(10.0)", "fast at first, then slowly", Hyperbolic(10.0)),
        ("0.9 * Exponential(10.0) + 0.1 * Stationary()", "a trace stays for ever", None),
        ("Oscillatory(100.0)", "returns every period", Oscillatory(100.0)),
    ]
    figure, axes = _figure(8.0, 7.0, len(kinds), 1)
    for axis, (name, what, given) in zip(axes, kinds, strict=True):
        kind = 0.9 * Exponential(10.0) + 0.1 * Stationary() if given is None else given
        path_of = occupancy_path(visited[:, None].astype(float), day, kind)[:, 0]
        for begin, end in ((20, 40), (150, 155)):
            axis.axvspan(begin, end, color=GREY, lw=0)
        axis.plot(day, np.maximum(path_of, 1e-9), color=plots.COLORS[0], lw=1.8)
        axis.axhline(1.0, color="0.3", lw=1.0, ls="--")
        axis.set_title(f"{name}: {what}", fontsize=10, loc="left")
        axis.set_yscale("log")
        axis.set(ylim=(0.02, 90.0), yticks=[0.1, 1, 10], yticklabels=["0.1", "1", "10"], xlim=(0.0, 240.0))
        axis.spines[["top", "right"]].set_visible(False)
        axis.label_outer()
    axes[0].annotate("alpha = 1", (239.0, 1.0), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=9)
    axes[0].annotate("visits", (19.0, 0.05), ha="right", fontsize=9)
    figure.supylabel("occupancy", fontsize=10)
    axes[-1].set_xlabel("time")
    _save(figure, path)


def clusters(path: Path) -> tuple[int, int]:
    """Draw two moons by table and by cluster; return how many of each there are."""
    X, _ = make_moons(800, noise=0.06, random_state=0)
    model = DynamicalMixture().fit(X)
    joined = model.clusters()
    figure, axes = _figure(8.0, 2.35, 1, 2)
    for axis, labels, what in (
        (axes[0], model.labels_, f"{model.n_tables_} tables: labels_"),
        (axes[1], joined.labels(model.labels_), f"{len(joined)} clusters: clusters().labels(labels_)"),
    ):
        _scatter(axis, X, labels)
        axis.set_title(what, fontsize=10)
        axis.set(xticks=[], yticks=[], aspect="equal", anchor="N")
    _save(figure, path)
    return model.n_tables_, len(joined)


def memory(path: Path) -> list[int]:
    """Draw clusters that drift, by tables that forget nothing and by tables that follow; return the tables."""
    rng = np.random.default_rng(0)
    clusters = rng.integers(3, size=1000)
    time = np.arange(1000)
    centers = np.array([0.0, 25.0, 60.0])[clusters] + np.array([0.020, 0.012, -0.008])[clusters] * time
    X = (centers + rng.normal(size=1000))[:, None]
    figure, axes = _figure(8.0, 3.2, 1, 2)
    tables = []
    for axis, given, name in zip(axes, (np.inf, None), ("math.inf, the default", "None, learned"), strict=True):
        model = DynamicalMixture(Gaussian(1.0, 400.0), Stationary(), 1.0, memory=given).fit(X)
        tables.append(model.n_tables_)
        _scatter(axis, np.column_stack([time, X[:, 0]]), model.labels_, size=9)
        found = "" if given else f" as {model.memory_:g}"
        axis.set_title(f"memory={name}{found}: {model.n_tables_} tables", fontsize=10)
        axis.set(xlabel="time", yticks=[])
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("feature")
    _save(figure, path)
    return tables


PROGRAMS = {"joblib_shards": "all processors", "ray_shards": "Ray", "spark_shards": "Spark", "spark_sensors": "Spark"}


def program(path: Path, where: str, *, one: bool) -> None:
    """Draw what stands for a program on many machines: shards become one model, or each sensor has a model."""
    rng = np.random.default_rng(0)
    figure, axis = _figure(4.0, 2.8, 1, 1)
    for i, y in enumerate((0, 1, 2, 3)):
        axis.add_patch(_box(0.0, y, 1.0, 0.8))
        at = (2.2, 1.9 if one else y + 0.4)
        axis.annotate("", at, (1.05, y + 0.4), arrowprops={"arrowstyle": "->", "color": "0.4"})
        if one:
            axis.scatter(0.12 + 0.76 * rng.random(9), y + 0.12 + 0.56 * rng.random(9), s=22, color=plots.COLORS[i])
            continue
        axis.plot(np.linspace(0.1, 0.9, 40), y + 0.4 + 0.2 * np.repeat(rng.uniform(-1, 1, 5), 8), color="0.4")
        axis.add_patch(_box(2.3, y, 1.6, 0.8))
        for j, x in enumerate((2.6, 3.1, 3.6)[: 2 + i % 2]):
            axis.scatter(*rng.normal((x, y + 0.4), 0.07, (9, 2)).T, s=16, color=plots.COLORS[j])
    if one:
        axis.add_patch(_box(2.3, 1.0, 1.6, 1.8))
        for i, (x, y) in enumerate(((2.7, 1.4), (3.5, 1.5), (2.8, 2.4), (3.5, 2.35))):
            axis.scatter(*rng.normal((x, y), 0.09, (9, 2)).T, s=22, color=plots.COLORS[i])
    axis.text(1.95, 4.0, where, ha="center", va="bottom", fontsize=16)
    axis.set(xlim=(-0.1, 4.0), ylim=(-0.2, 4.5))
    axis.set_axis_off()
    _save(figure, path)


def _box(x: float, y: float, width: float, height: float) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.1", fc="white", ec="0.4")


def _figure(width: float, height: float, rows: int, columns: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns)


def _scatter(axis: Any, X: Float, labels: ArrayLike, size: float = 12) -> None:
    """Draw rows with the colour and marker of their cluster, the largest first in the palette."""
    ids, counts = np.unique(labels, return_counts=True)
    for rank, at in enumerate(np.argsort(-counts, kind="stable")):
        color, marker = plots.table_style(rank)
        axis.scatter(*X[labels == ids[at]].T, s=size, color=color, marker=marker, linewidths=0.0)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(folder: Path = HERE.parent / "docs" / "images") -> None:
    """Draw all."""
    for name, where in PROGRAMS.items():
        program(folder / f"program-{name}.png", where, one=name != "spark_sensors")
    print("tables by family:", families(folder / "choose-family.png"))
    dynamics(folder / "choose-dynamics.png")
    print("tables and clusters of two moons:", clusters(folder / "choose-clusters.png"))
    print("tables of drifting clusters, memory infinite and learned:", memory(folder / "choose-memory.png"))


if __name__ == "__main__":
    main()

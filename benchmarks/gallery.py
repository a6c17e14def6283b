"""The six data sets of scikit-learn's comparison of clusterings, by clusters and four peers.

``python -m benchmarks.gallery`` clusters them and draws docs/images/gallery.png.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.cluster import HDBSCAN, Birch, KMeans, MiniBatchKMeans
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.preprocessing import StandardScaler

from benchmarks.shapes import SHEAR, WIDTHS
from benchmarks.speed import HERE
from dyncrp import DynamicalMixture, plots

ROWS = 500
SEED, SECOND_SEED = 30, 170  # those of scikit-learn's gallery
SMALLEST_CLUSTER = 10  # of HDBSCAN


class Cloud(NamedTuple):
    """Rows (n, 2), standardised; the true clusters (n,); and K, which some systems are given."""

    X: NDArray[np.float64]
    truth: NDArray[np.int64]
    K: int


def clouds() -> dict[str, Cloud]:
    """Return the data sets, as scikit-learn's gallery makes them. The last has no clusters; K is 3 there, too."""
    blobs = datasets.make_blobs(ROWS, random_state=SECOND_SEED)
    made = {
        "circles": (*datasets.make_circles(ROWS, factor=0.5, noise=0.05, random_state=SEED), 2),
        "moons": (*datasets.make_moons(ROWS, noise=0.05, random_state=SEED), 2),
        "varied widths": (*datasets.make_blobs(ROWS, cluster_std=WIDTHS, random_state=SECOND_SEED), 3),
        "anisotropic": (blobs[0] @ SHEAR, blobs[1], 3),
        "blobs": (*datasets.make_blobs(ROWS, random_state=SEED), 3),
        "no structure": (np.random.RandomState(SEED).rand(ROWS, 2), np.zeros(ROWS, dtype=np.int64), 3),
    }
    return {name: Cloud(StandardScaler().fit_transform(X), truth, K) for name, (X, truth, K) in made.items()}


def cluster(cloud: Cloud) -> NDArray[np.int64]:
    """Return the cluster of each row, (n,): learn the rows as they come, then join the tables."""
    model = DynamicalMixture().fit(cloud.X)
    return model.clusters().labels(model.labels_)


# What each is called, what it is given, and the labels that it finds.
SYSTEMS: list[tuple[str, str, Callable[[Cloud], NDArray[np.int64]]]] = [
    ("dyncrp, clusters", "given nothing", cluster),
    (
        "HDBSCAN",
        f"min_cluster_size={SMALLEST_CLUSTER}",
        lambda cloud: HDBSCAN(min_cluster_size=SMALLEST_CLUSTER, copy=True).fit_predict(cloud.X),
    ),
    ("KMeans", "given K", lambda cloud: KMeans(cloud.K, n_init=10, random_state=0).fit_predict(cloud.X)),
    (
        "MiniBatchKMeans",
        "given K",
        lambda cloud: MiniBatchKMeans(cloud.K, n_init=3, random_state=0).fit_predict(cloud.X),
    ),
    ("Birch", "given K", lambda cloud: Birch(n_clusters=cloud.K).fit_predict(cloud.X)),
]


def draw(path: Path) -> dict[str, list[float]]:
    """Draw a row for each data set and a column for each system; return the AMI of the panels of each row."""
    from matplotlib.figure import Figure

    found = clouds()
    figure = Figure(figsize=(2.0 * len(SYSTEMS), 1.9 * len(found) + 0.5), layout="constrained")
    axes = figure.subplots(len(found), len(SYSTEMS))
    scores: dict[str, list[float]] = {name: [] for name in found}
    for row, (name, cloud) in zip(axes, found.items(), strict=True):
        for axis, (_, _, cluster) in zip(row, SYSTEMS, strict=True):
            labels = cluster(cloud)
            scores[name].append(float(adjusted_mutual_info_score(cloud.truth, labels)))
            _panel(axis, cloud.X, labels, scores[name][-1])
        row[0].set_ylabel(name, fontsize=10)
    for axis, (system, given, _) in zip(axes[0], SYSTEMS, strict=True):
        axis.set_title(f"{system}\n{given}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    return scores


def _panel(axis: Any, X: NDArray[np.float64], labels: NDArray[np.int64], score: float) -> None:
    """Draw rows with the colour and marker of their cluster, the largest first in the palette; noise is grey."""
    ids, counts = np.unique(labels, return_counts=True)
    ranks = np.where(ids < 0, -1, np.argsort(np.argsort(np.where(ids < 0, 1, -counts), kind="stable")))
    for label, rank in zip(ids.tolist(), ranks.tolist(), strict=True):
        color, marker = plots.table_style(rank)
        at = labels == label
        edge = 0.8 if marker == "x" else 0.0  # a cross is all edge
        axis.scatter(*X[at].T, s=11, color=color, marker=marker, linewidths=edge)
    box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    text = f"{abs(score) if abs(score) < 0.005 else score:.2f}"  # never −0.00
    axis.text(0.97, 0.97, text, transform=axis.transAxes, ha="right", va="top", fontsize=10, bbox=box)
    reach = max(3.0, 1.05 * float(np.max(np.abs(X))))
    axis.set(xticks=[], yticks=[], xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")


def main() -> None:
    """Draw it and print the scores."""
    for name, scores in draw(HERE.parent / "docs" / "images" / "gallery.png").items():
        named = (f"{system} {score:.2f}" for (system, _, _), score in zip(SYSTEMS, scores, strict=True))
        print(f"{name}: {', '.join(named)}")


if __name__ == "__main__":
    main()

"""The tree by which tables join into clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.estimator import DynamicalMixture
from dyncrp.plots.figures import new_figure
from dyncrp.plots.style import MOST_IN_LEGEND, Color, cluster_styles
from dyncrp.views.clusters import Clusters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TREE_ROWS = 60  # tables in a tree
FAR = 30.0  # if the highest is so many times the median height, heights are drawn as logarithms
BETWEEN_CLUSTERS = "0.55"  # the colour of branches between clusters


def tree(joined: DynamicalMixture | Clusters) -> Figure:
    """Draw how tables join into clusters: their tree, and a bar for the rows of each table, coloured by cluster.

    A branch has the colour of a cluster if all tables below it are in that cluster. If there are more than 60 tables,
    only the largest are drawn, with a note.

    Parameters
    ----------
    joined : model or Clusters
        A ``DynamicalMixture``, or what its ``clusters`` returned.

    Examples
    --------
    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0], [5.0], [50.0], [55.0], [1.0]])
    >>> tree(model.clusters(2)).savefig("tree.png")  # doctest: +SKIP
    """
    from matplotlib.collections import LineCollection

    found = joined.clusters() if isinstance(joined, DynamicalMixture) else joined
    if not isinstance(found, Clusters):
        raise ValueError(
            f"joined must be a DynamicalMixture or what its clusters() returns, got {type(joined).__name__}"
        )
    styles = cluster_styles(found)
    kept = np.sort(np.argsort(-found.table_sizes, kind="stable")[:MOST_TREE_ROWS])
    leaves, corners, colors = _branches(prune(found.tree, kept), found.cluster_of[kept], styles)
    order = kept[leaves]
    figure = new_figure(8.0, 0.17 * max(len(order), 10) + 1.0)
    left, right = figure.subplots(1, 2, sharey=True)
    left.add_collection(LineCollection(list(corners), colors=colors, linewidths=1.4, capstyle="projecting"))
    left.set(ylim=(-0.7, len(order) - 0.3), xlabel="height at which they join")
    _scale_heights(left, np.max(corners[:, :, 0], axis=1))
    left.tick_params(axis="y", left=False, labelleft=False)
    right.set_yticks(range(len(order)), [str(table) for table in found.table_ids[order]], fontsize=7)
    right.tick_params(axis="y", length=0, labelleft=True)
    right.set(xlabel="rows", ylabel="table")
    edge = {"markeredgecolor": "0.2", "markeredgewidth": 0.5, "markersize": 5.0, "clip_on": False}
    for (cluster, (color, marker)), size in zip(styles.items(), found.sizes.tolist(), strict=True):
        at = np.flatnonzero(found.cluster_of[order] == cluster)
        rows = found.table_sizes[order[at]]
        right.barh(at, rows, 0.6, color=color)
        right.plot(rows, at, linestyle="", color=color, marker=marker, label=f"{cluster} ({size:,.0f})", **edge)
    right.set_xlim(left=0.0)
    for axis in (left, right):
        axis.spines[["top", "right", "left"]].set_visible(False)
    if len(styles) <= MOST_IN_LEGEND:
        figure.legend(title="cluster (rows)", loc="outside right upper", frameon=False, alignment="left")
    if len(order) < len(found.table_ids):
        share = float(np.sum(found.table_sizes[order]) / np.sum(found.table_sizes))
        drawn = f"{found.headline}; the {len(order)} largest tables are drawn, with {share:.0%} of the rows"
        figure.suptitle(drawn, x=0.01, ha="left", fontsize="medium")
    return figure


def _scale_heights(axis: Axes, heights: NDArray[np.float64]) -> None:
    """Scale the axis of a tree, with 0 at the right. Distant clusters may join a thousand times higher than others."""
    highest, usual = np.max(heights, initial=0.0), np.median(heights) if len(heights) else 0.0
    if usual and highest > FAR * usual:
        axis.set_xscale("asinh", linear_width=float(usual))
        axis.set_xticks([0.0, *10.0 ** np.arange(np.ceil(np.log10(usual)), np.log10(highest))])
        axis.set_xticks([], minor=True)
    axis.set_xlim(1.05 * highest or 1.0, 0.0)


def prune(tree: NDArray[np.float64], kept: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a linkage matrix of K tables, (K − 1, 4), for some of them only: how they join."""
    place: dict[int, int] = {table: i for i, table in enumerate(kept.tolist())}  # of the nodes that have any
    size = [1] * len(kept)
    pruned: list[tuple[float, ...]] = []
    for i, (left, right, height, _) in enumerate(tree.tolist()):
        parts = [place[part] for part in (int(left), int(right)) if part in place]
        if len(parts) == 2:
            pruned.append((*sorted(parts), height, size[parts[0]] + size[parts[1]]))
            size.append(size[parts[0]] + size[parts[1]])
            parts = [len(size) - 1]
        if parts:
            place[len(tree) + 1 + i] = parts[0]
    return np.array(pruned).reshape(-1, 4)


def _branches(
    tree: NDArray[np.float64], cluster_of: NDArray[np.int64], styles: dict[int, tuple[Color, str]]
) -> tuple[list[int], NDArray[np.float64], list[Any]]:
    """Lay out a tree of K tables: return its leaves from the lowest, corners (K − 1, 4, 2) of branches, and colours."""
    from scipy.cluster.hierarchy import dendrogram

    if not len(tree):
        return [0], np.empty((0, 4, 2)), []
    below = cluster_of.tolist()  # the cluster that all tables below are in; −1 if they are in several
    for left, right, _, _ in tree.tolist():
        a, b = below[int(left)], below[int(right)]
        below.append(a if a == b else -1)
    drawn = dendrogram(tree, no_plot=True, link_color_func=str)  # the number of the node in place of its colour
    corners = np.stack([drawn["dcoord"], (np.array(drawn["icoord"]) - 5.0) / 10.0], axis=2)  # a leaf is 10 wide
    of_branch = [below[int(node)] for node in drawn["color_list"]]
    return drawn["leaves"], corners, [styles[cluster][0] if cluster >= 0 else BETWEEN_CLUSTERS for cluster in of_branch]

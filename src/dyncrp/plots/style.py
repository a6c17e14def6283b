"""Colours and markers of tables and groups, checks of labels, and axes of dates, for all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from dyncrp.views.groups import Groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Color = tuple[float, float, float]
# The palette of Okabe and Ito for the colour-blind, with dark purple for black. Markers differ in greyscale too.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#4B1D5C", "#B8A900")
MARKERS = "os^Dv<>P"
NEW_TABLE_COLOR = (0.85, 0.85, 0.85)  # the label −1
MOST_IN_LEGEND = 24  # tables or groups


def table_style(table: int) -> tuple[Color, str]:
    """Return the colour and marker of a table: from the palette, then tints and shades of it; grey for −1."""
    from matplotlib.colors import to_rgb

    if table < 0:
        return NEW_TABLE_COLOR, "x"
    turn, color = divmod(table, len(COLORS))
    base = np.array(to_rgb(COLORS[color]))
    mixed = (base, 0.5 * base + 0.5, 0.55 * base + 0.15)[turn % 3]
    return (float(mixed[0]), float(mixed[1]), float(mixed[2])), MARKERS[(table + 3 * turn) % len(MARKERS)]


def group_styles(groups: Groups) -> dict[int, tuple[Color, str]]:
    """Return the colour and marker of each group, by id."""
    return {group: table_style(i) for i, group in enumerate(groups.ids.tolist())}


def check_labels(name: str, labels: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return labels as integers (n,), −1 for none; raise ``ValueError`` if they are invalid."""
    array = np.asarray(labels)
    if array.shape != (n,) or array.dtype.kind not in "iu" or np.any(array < -1):
        raise ValueError(
            f"{name} must be one integer ≥ -1 for each of {n} observations, got shape {array.shape} of "
            f"{array.dtype}" + (f" with {np.min(array)}" if array.size and array.dtype.kind in "iu" else "")
        )
    return array.astype(np.int64)


def match(truth: NDArray[np.int64], labels: NDArray[np.int64]) -> dict[int, int]:
    """Return a true cluster for each label, matched one to one so that the most observations agree."""
    clusters, cluster = np.unique(truth, return_inverse=True)
    tables, table = np.unique(labels, return_inverse=True)
    overlap = np.zeros((len(clusters), len(tables)))
    np.add.at(overlap, (cluster, table), 1)
    pairs = zip(*linear_sum_assignment(-overlap), strict=True)
    return {int(tables[k]): int(clusters[c]) for c, k in pairs if overlap[c, k]}


def show_dates(axis: Axes) -> None:
    """Label an x axis in days since 1970 with dates."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]

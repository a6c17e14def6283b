"""Clusters: what people look at. Open tables are joined, at any moment, from their statistics alone.

``shape="elliptical"`` joins tables by evidence, see ``components.py``; ``shape="any"`` joins those with no valley
between them, see ``valleys.py``. ``shape="auto"`` is elliptical unless that cuts through curves. Where a curve is cut
into ellipses, there are more rows on the border of two neighbours than two ellipses would have there; where clusters
overlap, there are as many. And rows that are a cloud, without clusters, are one cluster: see ``search/cloud.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from dyncrp.arrays.checks import integer
from dyncrp.arrays.exchange import readable
from dyncrp.engine.types import Float, Int, Model, State
from dyncrp.families import protocols
from dyncrp.families.protocols import Scatter
from dyncrp.joining.components import Join, join_by_likelihood, join_by_scatter
from dyncrp.joining.linkage import Merge, apply, join_by_ward, linkage
from dyncrp.joining.valleys import join_by_valleys

SHAPES = ("auto", "elliptical", "any")
MOST_TABLES = 5_000  # all pairs must fit into memory
MOST_ON_BORDERS = 1.13  # rows on the borders of ellipses, over those that ellipses have there, if no curve is cut
BORDER = 0.15  # half the width of a border, as a share of the distance between two centres
FEWEST_ROWS = 15.0  # of an ellipse whose borders are looked at
NEIGHBOURS = 2  # of an ellipse, whose borders with it are looked at; they are among CANDIDATES with near centres
CANDIDATES = 9
CELLS_AT_ONCE, TABLES_AT_ONCE = 1 << 18, 1 << 15  # distances and covariances in memory
PRIOR_ROWS = 5.0  # of unit variance, by which the covariance of an ellipse is shrunk


@dataclass(frozen=True, eq=False)
class Clusters:
    """Open tables, joined into clusters; see ``DynamicalMixture.clusters``.

    Attributes
    ----------
    table_ids : (K,) the ids of the tables, increasing.
    cluster_of : (K,) the cluster of each, which goes by the id of its oldest table.
    ids : (C,) the ids of the clusters, increasing.
    sizes : (C,) the rows in each cluster.
    table_sizes : (K,) the rows in each table.
    tree : (K − 1, 4) how tables join, as a SciPy linkage matrix.
    shape : "elliptical" or "any".

    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0], [5.0], [50.0], [55.0], [1.0]])
    >>> model.labels_
    array([0, 1, 2, 3, 0])
    >>> clusters = model.clusters(2)
    >>> clusters.cluster_of, clusters.ids, clusters.sizes.round(2)
    (array([0, 0, 2, 2]), array([0, 2]), array([3., 2.]))
    >>> clusters.labels(model.labels_)
    array([0, 0, 2, 2, 0])
    """

    table_ids: Int
    cluster_of: Int
    table_sizes: Float
    tree: Float
    shape: str

    @property
    def ids(self) -> Int:
        """Ids of the clusters, (C,)."""
        return np.unique(self.cluster_of)

    @property
    def sizes(self) -> Float:
        """Rows in each cluster, (C,)."""
        sizes = np.zeros(len(self.ids))
        np.add.at(sizes, np.searchsorted(self.ids, self.cluster_of), self.table_sizes)
        return sizes

    def __len__(self) -> int:
        return len(self.ids)

    def labels(self, table_labels: ArrayLike) -> Int:
        """Return the cluster of each table id, such as ``labels_``; −1 for a table that is not open."""
        labels = np.asarray(readable(table_labels, "table_labels"))
        if labels.dtype.kind not in "iu" and labels.size:
            raise ValueError(f"table_labels must be integers, ids of tables, got an array of {labels.dtype}")
        if not len(self.table_ids):
            return np.full(labels.shape, -1)
        places = np.clip(np.searchsorted(self.table_ids, labels), 0, len(self.table_ids) - 1)
        return np.where(self.table_ids[places] == labels, self.cluster_of[places], -1)

    @property
    def headline(self) -> str:
        """How many tables and clusters there are, in words."""
        K, C = len(self.table_ids), len(self)
        tables, clusters = f"{K:,} table{'s' * (K != 1)}", f"{C:,} cluster{'s' * (C != 1)}"
        return f"{tables} in {clusters}" + (": no clusters stand out" if C == 1 < K else "")

    def __str__(self) -> str:
        return self.headline


def join(
    model: Model, state: State, n: int | None = None, shape: str = "auto", joins: list[Join] | None = None
) -> Clusters:
    """Join the tables of a state. joins: those by evidence, if they are known already."""
    K = len(state.ids)
    if isinstance(n, str):
        raise ValueError(f"n must be an integer, or None for as many clusters as there are, got {n!r}")
    if n is not None and integer("n", n, 1) > K:
        raise ValueError(f"n must be at most the number of open tables, {K:,}, got {n!r}")
    if shape not in SHAPES:
        raise ValueError(f"shape must be one of {SHAPES}, got {shape!r}")
    if K > MOST_TABLES:
        raise ValueError(
            f"clusters are found among up to {MOST_TABLES:,} tables, and {K:,} are open: set max_tables or "
            "prune_below, or a lower resolution"
        )
    if not K:
        return Clusters(state.ids, state.ids, np.zeros(0), linkage([], 1), "elliptical")
    family = model.family
    shapes = protocols.shapes(family, state.stats, state.squares).with_memory(model.memory)
    rows = protocols.scatter(family, state.stats, state.squares)
    if shape == "any" and n is not None:
        merges = join_by_ward(shapes)
        return _made(state.ids, shapes.counts, merges, apply(merges[: K - n], K), "any")
    valleys: tuple[list[Merge], Int] | None = None  # merges, and tables without a valley between them
    is_cloud = shape == "auto" and n is None and model.cloud and shapes.spread.size > 0
    if shape == "any" or is_cloud:
        valleys = _valleys(family, shapes)
        if shape == "any" or np.all(valleys[1] == valleys[1][0]):
            return _made(state.ids, shapes.counts, *valleys, "any")
    if joins is None:
        joins = join_by_likelihood(family, state.stats, shapes) if rows is None else join_by_scatter(rows)
    n_joins = int(np.argmax(np.cumsum([0.0, *(join.gain for join in joins)])))
    elliptical = _merges(joins)
    roots = apply(elliptical[:n_joins], K)
    # In more than 8 features, valleys follow no curves: tables keep one variance for all.
    sees_curves = rows is not None and shapes.spread.ndim == 3
    if shape == "auto" and rows is not None and sees_curves and _may_cut_curves(rows, roots):
        merges, basins = valleys or _valleys(family, shapes)
        if n in (None, len(np.unique(basins))) and _cuts_curves(rows, roots, basins):
            return _made(state.ids, shapes.counts, merges, basins, "any")
    if n is not None and n < K - n_joins:
        elliptical = _go_on_by_ward(elliptical[:n_joins], shapes)
    roots = apply(elliptical[: n_joins if n is None else K - n], K)
    return _made(state.ids, shapes.counts, elliptical, roots, "elliptical")


def _valleys(family: object, shapes: protocols.Shapes) -> tuple[list[Merge], Int]:
    if not shapes.spread.size:
        raise ValueError(
            f"{type(family).__name__} does not say how wide its tables are, so valleys between them cannot be seen: "
            "use shape='elliptical', or give the number of clusters"
        )
    return join_by_valleys(shapes)


def _merges(joins: list[Join]) -> list[Merge]:
    """Return joins with heights that rise: by how much less each gains than the first, or one before it."""
    losses: list[float] = np.maximum.accumulate([joins[0].gain - join.gain for join in joins]).tolist() if joins else []
    return [Merge(loss, join.kept, join.gone) for join, loss in zip(joins, losses, strict=True)]


def _go_on_by_ward(merges: list[Merge], shapes: protocols.Shapes) -> list[Merge]:
    """Return merges down to one cluster: those given, and from there on by Ward's criterion.

    Where evidence is against any join, it would join large clusters first, and leave the outliers.
    """
    roots = apply(merges, len(shapes.counts))
    tables, at = np.unique(roots, return_inverse=True)
    counts, sums = np.zeros(len(tables)), np.zeros((len(tables), shapes.centers.shape[1]))
    np.add.at(counts, at, shapes.counts)
    np.add.at(sums, at, shapes.counts[:, None] * shapes.centers)
    base = merges[-1].height if merges else 0.0
    rest = join_by_ward(shapes._replace(counts=counts, centers=sums / counts[:, None]))
    return merges + [Merge(base + m.height, int(tables[m.left]), int(tables[m.right])) for m in rest]


def _made(ids: Int, counts: Float, merges: list[Merge], roots: Int, shape: str) -> Clusters:
    """Return clusters that go by their oldest tables."""
    K = len(ids)
    oldest = np.full(K, K)
    np.minimum.at(oldest, roots, np.arange(K))
    return Clusters(ids, ids[oldest[roots]], counts, linkage(merges, K), shape)


def _may_cut_curves(rows: Scatter, roots: Int) -> bool:
    """Return whether there are two ellipses of enough rows to have a border that is looked at, and one of two tables.

    Where each ellipse is one table, as many rows lie on borders as ellipses have there.
    """
    enough = np.bincount(roots, rows.counts) >= FEWEST_ROWS
    return int(np.count_nonzero(enough)) > 1 and len(np.unique(roots)) < len(roots)


def _cuts_curves(rows: Scatter, roots: Int, basins: Int) -> bool:
    """Return whether ellipses cut through curves: more rows lie on their borders than ellipses have there.

    roots: (K,) the ellipse of each table; basins: (K,) tables with no valley between them. An ellipse has borders with
    its neighbours within a basin. Rows are counted as tables have them, along the line from one centre to the other.
    """
    tables, ellipse_of = _Ellipses.of(rows, np.arange(len(roots))), np.unique(roots, return_inverse=True)[1]
    ellipses, order = _Ellipses.of(rows, ellipse_of), np.lexsort((-rows.counts, ellipse_of))
    sizes = np.bincount(ellipse_of)
    begins = np.cumsum(sizes) - sizes
    basin = basins[order[begins]]  # that of its largest table
    found = expected = 0.0
    step = max(1, CELLS_AT_ONCE // len(sizes))
    for begin in range(0, len(sizes), step):
        borders = ellipses.borders(np.arange(begin, min(begin + step, len(sizes))), basin)
        for side in (borders.one, borders.other):
            expected += float(np.sum(ellipses.rows_between(side, borders)))
            each = np.repeat(np.arange(len(side)), sizes[side])  # the border of each table of an ellipse that has it
            place = np.arange(len(each)) - np.repeat(np.cumsum(sizes[side]) - sizes[side], sizes[side])
            which = order[begins[side[each]] + place]
            for first in range(0, len(each), TABLES_AT_ONCE):
                some = slice(first, first + TABLES_AT_ONCE)
                found += float(np.sum(tables.rows_between(which[some], borders.at(each[some]))))
    return found > MOST_ON_BORDERS * expected > 0.0


class _Borders(NamedTuple):
    """Borders of m pairs of ellipses: where a projection on a direction (m, Q) lies between two values (m,)."""

    one: Int
    other: Int
    directions: Float
    low: Float
    high: Float

    def at(self, places: Int) -> _Borders:
        """Return those at some places."""
        return _Borders(self.one[places], self.other[places], *(numbers[places] for numbers in self[2:]))


class _Ellipses(NamedTuple):
    """Rows of E sets of tables: how many (E,), their means (E, Q) and covariances (E, Q, Q)."""

    counts: Float
    means: Float
    covariances: Float

    @classmethod
    def of(cls, rows: Scatter, set_of: Int) -> _Ellipses:
        """Return the ellipses of sets of tables, given the set of each, (K,)."""
        n, Q = rows.counts, rows.means.shape[1]
        counts: Float = np.bincount(set_of, n).astype(np.float64)
        means = np.zeros((len(counts), Q))
        np.add.at(means, set_of, n[:, None] * rows.means)
        means /= counts[:, None]
        gaps = rows.means - means[set_of]
        total, lower = np.zeros((len(n), Q, Q)), np.tril_indices(Q)
        total[:, lower[0], lower[1]] = total[:, lower[1], lower[0]] = rows.scatter
        covariances = np.repeat(PRIOR_ROWS * np.eye(Q)[None], len(counts), axis=0)
        np.add.at(covariances, set_of, total + n[:, None, None] * gaps[:, :, None] * gaps[:, None, :])
        return cls(counts, means, covariances / (counts + PRIOR_ROWS)[:, None, None])

    def borders(self, some: Int, basin: Int) -> _Borders:
        """Return the borders of some ellipses with their nearest neighbours in their basins, (E,)."""
        apart = np.sum((self.means[some, None] - self.means) ** 2, axis=2)
        apart[basin[some, None] != basin] = np.inf
        apart[np.arange(len(some)), some] = -1.0
        near = np.argsort(apart, axis=1, kind="stable")[:, 1:CANDIDATES]
        there = np.isfinite(np.take_along_axis(apart, near, axis=1))
        at, other = np.nonzero(there)[0], near[there]
        one = some[at]
        gaps = self.means[other] - self.means[one]
        directions = np.linalg.solve(self.covariances[one] + self.covariances[other], gaps[:, :, None])[:, :, 0]
        lengths = np.sum(directions * gaps, axis=1)  # the squared distance in units of both covariances
        order = np.lexsort((lengths, at))
        rank = np.arange(len(at)) - np.searchsorted(at, at)
        enough = np.minimum(self.counts[one], self.counts[other]) >= FEWEST_ROWS
        kept = order[(rank < NEIGHBOURS) & enough[order]]
        one, other, directions, lengths = one[kept], other[kept], directions[kept], lengths[kept]
        here, away = (self._scales(side, directions) for side in (one, other))
        middle = np.sum(directions * self.means[one], axis=1) + lengths * here / (here + away)
        return _Borders(one, other, directions, middle - BORDER * lengths, middle + BORDER * lengths)

    def rows_between(self, which: Int, borders: _Borders) -> Float:
        """Return how many rows of a Gaussian lie on a border, (m,), for m ellipses and borders."""
        centers = np.sum(borders.directions * self.means[which], axis=1)
        scales = self._scales(which, borders.directions)
        return self.counts[which] * (ndtr((borders.high - centers) / scales) - ndtr((borders.low - centers) / scales))

    def _scales(self, which: Int, directions: Float) -> Float:
        """Return the standard deviations of projections on directions, (m,)."""
        squares = np.einsum("mi,mij,mj->m", directions, self.covariances[which], directions)
        return np.sqrt(np.maximum(squares, 1e-12))

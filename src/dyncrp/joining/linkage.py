"""How tables join: trees of joins, sets that only join, and joining by Ward's criterion.

Ward joins the two clusters of n and m rows for which nm/(n + m) times the squared distance of their centres is least.
The unit of a coordinate is √(σ² + ρ²/5), with σ² the variance within clusters and ρ² that of their centres: between
the unit that suits clear clusters and the one that suits noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dyncrp.engine.types import Float, Int
from dyncrp.families.protocols import Shapes

BETWEEN = 0.2  # the share of the variance of centres that counts for the unit of Ward's distances
FURTHEST = 1e100  # squared distances count as at most this


class Merge(NamedTuple):
    """Two tables whose clusters are joined, and at which height."""

    height: float
    left: int
    right: int


class Union:
    """Sets of the numbers 0 to K − 1 that only join."""

    def __init__(self, K: int) -> None:
        self.parents = list(range(K))

    def find(self, a: int) -> int:
        """Return the root of a number."""
        parents = self.parents
        while parents[a] != a:
            parents[a] = parents[parents[a]]
            a = parents[a]
        return a

    def roots(self) -> Int:
        """Return the root of each number, (K,)."""
        return np.array([self.find(a) for a in range(len(self.parents))])


def apply(merges: list[Merge], K: int) -> Int:
    """Return a root for each table, (K,), the same for those that the merges join."""
    union = Union(K)
    for _, left, right in merges:
        union.parents[union.find(left)] = union.find(right)
    return union.roots()


def join_by_ward(shapes: Shapes) -> list[Merge]:
    """Return all merges in order of height √(2 n m/(n + m)) |c − d|, by chains of nearest neighbours."""
    n = shapes.counts.astype(np.float64)
    K = len(n)
    cost = squared_distances(shapes.centers / np.sqrt(1.0 + BETWEEN * shapes.between))
    cost *= 2.0 * n[:, None] * n / (n[:, None] + n)
    np.fill_diagonal(cost, np.inf)
    merges: list[Merge] = []
    chain: list[int] = []
    alive = np.ones(K, dtype=bool)
    while len(merges) < K - 1:
        if not chain:
            chain = [int(np.argmax(alive))]
        a = chain[-1]
        b = int(np.argmin(cost[a]))
        if len(chain) == 1 or cost[a, b] < cost[a, chain[-2]]:
            chain.append(b)
            continue
        b = chain[-2]
        del chain[-2:]
        merges.append(Merge(float(np.sqrt(cost[a, b])), a, b))
        joint = ((n[a] + n) * cost[a] + (n[b] + n) * cost[b] - n * cost[a, b]) / (n[a] + n[b] + n)
        joint[b] = np.inf
        cost[b] = cost[:, b] = joint
        cost[a] = cost[:, a] = np.inf
        alive[a] = False
        n[b] += n[a]
    return sorted(merges, key=lambda merge: merge.height)


def linkage(merges: list[Merge], K: int) -> Float:
    """Return K − 1 merges of rising height as SciPy has them: two clusters, the height, how many tables."""
    union = Union(K)
    cluster, size = list(range(K)), [1] * K
    tree = np.empty((K - 1, 4))
    for i, (height, left, right) in enumerate(merges):
        a, b = union.find(left), union.find(right)
        first, second = sorted((cluster[a], cluster[b]))
        union.parents[a] = b
        cluster[b], size[b] = K + i, size[a] + size[b]
        tree[i] = first, second, height, size[b]
    return tree


def is_compact(about: Float) -> bool:
    """Whether squared distances of points (K, Q) about their median may be expanded: it costs no more than 1e-6."""
    return bool(np.max(np.abs(about)) < 1e4)


def squared_distances(points: Float) -> Float:
    """Return |a − b|² of all pairs (K, K); if one lies far out, from differences: the others keep their digits."""
    from scipy.spatial.distance import cdist

    about = points - np.median(points, axis=0)
    if is_compact(about):
        square = np.sum(about**2, axis=1)
        found = about @ (-2.0 * about.T)
        found += square[:, None]
        found += square
        np.fill_diagonal(found, 0.0)
        return np.maximum(found, 0.0, out=found)
    return np.minimum(cdist(points, points, "sqeuclidean"), FURTHEST)

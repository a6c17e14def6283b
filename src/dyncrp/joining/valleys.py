"""Clusters of any shape: tables are joined unless a valley of the density that they describe lies between them.

In coordinates in which a cluster is round, a table of n_c rows about μ_c with covariance Σ_c lies
d_c(x)² = (x − μ_c)ᵀ (s Σ_c)⁻¹ (x − μ_c) from x, where s = 1.25^min(1, 2/Q) smooths in few coordinates Q. The density
is, up to a factor,

    f(x) = Σ_c n_c/w_c exp(−(d_c(x)²/Γ(⅓))^1.5),   w_c = |Σ_c|^(min(Q, 2)/2Q)  the size of table c.

The kernel has the variance of a Gaussian, along a line, and is flatter: tables that tile a curve or a cloud have sharp
borders, and Gaussians that stand side by side would show valleys between them.

The peak of a table is f(μ_c). The saddle between neighbours is the least f on the segment between their centres. From
the highest saddle to the lowest, the cluster with the lower peak joins the other, unless the valley is significant. In
a window of size w there are P = w f(μ_c) rows at its peak and S = w f at the saddle, and

    2 [P ln(P/m) + S ln(S/m)] > 3.5²,   m = (P + S)/2,

is the likelihood ratio for two Poisson counts of different means. The size w is 1 if all clusters have one width, and
that of the lower table if each has its own. P counts as at most 250 rows, and S in proportion: the shallow valleys that
are left between tiles do not become real by more rows. Where the valley is empty, S below a thousandth of P, all rows
of the lower cluster count.
"""

from __future__ import annotations

import math

import numpy as np

from dyncrp.engine.types import Float, Int
from dyncrp.families.protocols import Shapes
from dyncrp.joining.linkage import FURTHEST, Merge, Union, is_compact, squared_distances

SMOOTHING = 1.25  # s in up to two coordinates
SIGNIFICANCE = 3.5  # standard deviations
MOST_ROWS = 250.0  # that a peak counts as
EMPTY = 1e-3  # a valley is empty whose saddle is a smaller share of the peak
GAMMA_OF_A_THIRD = math.gamma(1.0 / 3.0)
PRIOR_ROWS = 5.0  # of unit variance, by which a table's spread is shrunk
NEIGHBOURS = 15  # of a table, to which the saddles are looked at
POINTS = 15  # of a segment at which the density is looked at
NEAR = 32  # tables that count for the density about a table
ROWS_AT_ONCE = 256  # of a matrix of all pairs, when the least of each row are looked for
CHUNK = 1 << 21  # numbers in one array of a chunk of segments


def join_by_valleys(shapes: Shapes) -> tuple[list[Merge], Int]:
    """Return all merges by falling saddle, and the root of each table where only insignificant valleys are crossed."""
    K = len(shapes.counts)
    if K == 1:
        return [], np.zeros(1, dtype=np.int64)
    apart = squared_distances(shapes.centers)
    pairs = _neighbours(apart)
    kernels = _Kernels(shapes, apart)
    log_peaks = kernels.log_peaks()
    log_saddles = np.minimum(kernels.log_saddles(pairs), np.min(log_peaks[pairs], axis=1))  # the ends belong to it
    top = float(np.max(log_peaks))
    tree, clusters = Union(K), Union(K)
    n_rows = np.exp(kernels.log_weights + kernels.log_windows)
    merges: list[Merge] = []
    order = np.lexsort((apart[pairs[:, 0], pairs[:, 1]], -log_saddles))  # of equal saddles the shortest first
    for i in order.tolist():
        left, right = pairs[i].tolist()
        a, b = tree.find(left), tree.find(right)
        if a != b:
            tree.parents[a] = b
            merges.append(Merge(max(top - float(log_saddles[i]), 0.0), left, right))
        high, low = clusters.find(left), clusters.find(right)
        if log_peaks[high] < log_peaks[low]:
            high, low = low, high
        if high == low:
            continue
        ratio = float(np.exp(log_saddles[i] - log_peaks[low]))
        rows = float(np.exp(log_peaks[low] + kernels.log_windows[low]))
        if not _is_significant(max(rows, float(n_rows[low])) if ratio < EMPTY else rows, ratio):
            clusters.parents[low] = high
            n_rows[high] += n_rows[low]
    return merges, clusters.roots()


def _is_significant(peak: float, ratio: float) -> bool:
    """Whether a saddle that is this ratio of a peak of so many rows is lower by more than chance."""
    if ratio >= 1.0:
        return False
    log_mean = math.log((1.0 + ratio) / 2.0)
    log_likelihood = (ratio * math.log(ratio) if ratio > 0.0 else 0.0) - ratio * log_mean - log_mean
    return 2.0 * min(peak, MOST_ROWS) * log_likelihood > SIGNIFICANCE**2


class _Kernels:
    """The density that tables describe: quadratic forms d_c(x)² = (x − μ_c)ᵀ Λ_c (x − μ_c) and log weights.

    Λ_c is kept as the numbers (K, P) that stand before the products of coordinates: 1, Q or Q² of them.
    """

    def __init__(self, shapes: Shapes, apart: Float) -> None:
        n, self.centers = shapes.counts, shapes.centers
        Q = self.centers.shape[1]
        spread = shapes.spread.reshape(len(n), -1)
        full = shapes.spread.ndim == 3
        unit = np.eye(Q).ravel() if full else 1.0
        known = (n * n / np.maximum(n - 1.0, 1.0))[:, None]  # rows, each worth a little more as the mean is theirs too
        spread = (known * spread + PRIOR_ROWS * unit) / (n[:, None] + PRIOR_ROWS)
        smooth = SMOOTHING ** min(1.0, 2.0 / Q)
        if full:
            values, vectors = np.linalg.eigh(spread.reshape(-1, Q, Q))
            values = np.maximum(values, max(shapes.least, 1e-12))
            self.forms = ((vectors / (smooth * values)[:, None, :]) @ vectors.transpose(0, 2, 1)).reshape(len(n), -1)
            log_size = np.mean(np.log(values), axis=1)
        else:
            spread = np.maximum(spread, shapes.least)
            self.forms = 1.0 / (smooth * spread)
            log_size = np.mean(np.log(spread), axis=1)
        exponent = 0.5 * min(Q, 2)
        self.log_weights = np.log(n) - exponent * log_size
        # If all clusters have the same width, a table that is wider is stragglers, and few of them are in a window.
        self.log_windows = np.zeros_like(log_size) if shapes.least > 0.0 else exponent * log_size
        self.distances = self._distances(apart)  # (K, K): d_c² (column) at each centre (row)
        self.log_terms = self.log_weights - _fall(self.distances.copy())
        # The tables that count about each: of very many, those that add most there.
        K = len(n)
        self.near = np.broadcast_to(np.arange(K), (K, K))
        if K > NEAR:
            self.near = _first(-self.log_terms, NEAR)

    def _products(self, x: Float) -> Float:
        """Return the products of coordinates (m, Q) that the forms stand before: (m, P)."""
        if self.forms.shape[1] == 1:
            return np.sum(x * x, axis=1)[:, None]
        return x * x if self.forms.shape[1] == x.shape[1] else (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)

    def _distances(self, apart: Float) -> Float:
        """Return d_c(μ_b)² for all tables b and c, (K, K), given their squared distances."""
        K = len(self.centers)
        if self.forms.shape[1] == 1:
            return apart * self.forms[:, 0]
        about = self.centers - np.median(self.centers, axis=0)
        if is_compact(about):
            Q = about.shape[1]
            diagonal = self.forms.shape[1] == Q
            pull = self.forms * about if diagonal else np.einsum("kij,kj->ki", self.forms.reshape(K, Q, Q), about)
            found = self._products(about) @ self.forms.T
            found -= about @ (2.0 * pull.T)
            found += np.sum(pull * about, axis=1)
        else:
            found = np.empty((K, K))
            for c in range(K):
                found[:, c] = self._products(self.centers - self.centers[c]) @ self.forms[c]
        return np.clip(found, 0.0, FURTHEST, out=found)

    def log_peaks(self) -> Float:
        """Return log f(μ_c), (K,)."""
        return _log_sum(np.take_along_axis(self.log_terms, self.near, axis=1))

    def log_saddles(self, pairs: Int) -> Float:
        """Return the least log f at points of the segments between the centres of pairs (E, 2): (E,)."""
        step = max(1, CHUNK // (self.near.shape[1] * self.forms.shape[1]))
        halves = [
            np.concatenate([self._half_saddles(ends[i : i + step]) for i in range(0, len(ends), step)])
            for ends in (pairs, pairs[:, ::-1])
        ]
        return np.minimum(*halves)

    def _half_saddles(self, ends: Int) -> Float:
        """Return the least log f from the first of two ends half way to the second, of the tables near the first."""
        first, second = ends.T
        tables = self.near[first]
        here, there = self.distances[first[:, None], tables], self.distances[second[:, None], tables]
        between = self._products(self.centers[first] - self.centers[second])
        bulge = np.einsum("ep,ecp->ec", between, self.forms[tables])
        lowest = np.full(len(ends), np.inf)
        for t in np.linspace(0.0, 1.0, POINTS + 2)[1 : POINTS // 2 + 2]:
            distances = np.maximum((1.0 - t) * here + t * there - t * (1.0 - t) * bulge, 0.0)
            lowest = np.minimum(lowest, _log_sum(self.log_weights[tables] - _fall(distances)))
        return lowest


def _fall(squares: Float) -> Float:
    """Return −log of the kernel at squared distances: (d²/Γ(⅓))^1.5; the distances are used up."""
    squares /= GAMMA_OF_A_THIRD
    squares *= np.sqrt(squares)
    return squares


def _log_sum(values: Float) -> Float:
    """Return log Σ exp along the last axis; the values are used up."""
    top = np.max(values, axis=-1)
    values -= top[..., None]
    return np.log(np.sum(np.exp(values, out=values), axis=-1)) + top


def _first(values: Float, n: int) -> Int:
    """Return where the n least values of each row are, (K, n)."""
    rows = [
        np.argpartition(values[i : i + ROWS_AT_ONCE], n - 1, axis=1)[:, :n] for i in range(0, len(values), ROWS_AT_ONCE)
    ]
    return np.concatenate(rows)


def _neighbours(apart: Float) -> Int:
    """Return pairs (E, 2) of near tables, given all squared distances (K, K), such that all tables are connected."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    K = len(apart)
    if K <= NEIGHBOURS + 1:
        return np.argwhere(np.tri(K, k=-1, dtype=bool))[:, ::-1]
    nearest = _first(apart, NEIGHBOURS + 1)  # itself among them
    pairs = np.stack([np.repeat(np.arange(K), NEIGHBOURS + 1), nearest.ravel()], axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    n_parts, part = connected_components(coo_array((np.ones(len(pairs)), pairs.T), shape=(K, K)), directed=False)
    if n_parts > 1:
        order = np.argsort(part, kind="stable")
        starts = np.searchsorted(part[order], np.arange(n_parts))
        gaps = np.minimum.reduceat(apart[np.ix_(order, order)], starts, axis=0)
        gaps = np.minimum.reduceat(gaps, starts, axis=1)
        bridges = np.argwhere(minimum_spanning_tree(np.triu(1.0 + gaps, k=1)).toarray())
        for a, b in bridges:
            left, right = np.flatnonzero(part == a), np.flatnonzero(part == b)
            i, j = np.unravel_index(np.argmin(apart[np.ix_(left, right)]), (len(left), len(right)))
            pairs = np.vstack([pairs, [left[i], right[j]]])
    return np.stack(np.divmod(np.unique(np.min(pairs, axis=1) * K + np.max(pairs, axis=1)), K), axis=1)

"""DP-means: k-means that opens clusters at a price, offline (Kulis and Jordan 2012) or online (Broderick et al. 2013).

The price is as follows. Consider a row at distance d from a table with known mean and a count of 1 (in the limit of
small variance, counts do not matter). It has the same weight there as at a new table of the DP mixture if

    exp(−d²/2σ²)/(2πσ²)^(D/2) = α exp(−|x − m₀|²/2(σ² + ρ²))/(2π(σ² + ρ²))^(D/2).

|x − m₀|² is D(σ² + ρ²) on average over the model. So the squared distance at which a cluster opens is

    λ = σ² (D log(1 + ρ²/σ²) + D − 2 log α),

which is Kulis and Jordan's α = (1 + ρ²/σ²)^(D/2) exp(−λ/2σ²) solved for λ, except for the term D: they drop |x − m₀|²,
which vanishes with σ². Without it, there would be no price for small D and large α. For unit vectors, a new table has
the uniform density C(0). With |x − μ|² = 2 − 2 μ·x, no average is needed:

    C(κ) exp(κ μ·x) = α C(0),    λ = 2 + (2/κ) (log C(κ) − log C(0) − log α).

If this is negative, λ is 0, and every row that is not on a centre is a cluster.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dyncrp.arrays.checks import integer, positive
from dyncrp.baselines.base import Baseline, Float, Labels, StreamingBaseline, known_family
from dyncrp.baselines.sweeps import assign_to_nearest, stream_means
from dyncrp.families import Family, Gaussian, VonMisesFisher
from dyncrp.families.bessel import excess_and_ratio

FAMILIES: tuple[type[Gaussian | VonMisesFisher], ...] = (Gaussian, VonMisesFisher)


class ScaledRows(NamedTuple):
    """Rows (n, Q) in units of σ or 1/√κ; λ in these units; and the radius of their sphere, or 0 if there is none."""

    rows: Float
    penalty: float
    radius: float


def scale_rows(family: Family, alpha: float, X: Float) -> ScaledRows:
    """Check X (n, D), and measure it and λ in units of the spread of clusters.

    >>> scale_rows(Gaussian(4.0, 12.0), 1.0, np.array([[6.0]])).rows
    array([[3.]])
    """
    known = known_family("DP-means", family, FAMILIES)
    X = known.check(X)
    log_alpha = math.log(positive("alpha", alpha))
    if isinstance(known, Gaussian):
        rows = known.coordinates(X) / np.sqrt(known.variance)
        ratios = np.broadcast_to(known.prior_variance / np.asarray(known.variance), rows.shape[1])
        return ScaledRows(rows, max(float(np.sum(np.log1p(ratios) + 1.0)) - 2.0 * log_alpha, 0.0), 0.0)
    excess, _ = excess_and_ratio(X.shape[1], known.concentration)  # log C(0) − log C(κ) − κ
    radius = math.sqrt(known.concentration)
    return ScaledRows(radius * X, max(-2.0 * (float(excess) + log_alpha), 0.0), radius)


class DPMeans(Baseline):
    """DP-means on all rows at once: a local minimum of Σ |x − its centre|² + λ K.

    It begins with one cluster. A pass assigns each row to the nearest centre, or opens a cluster if its squared
    distance exceeds λ. Then centres move to the means, scaled to unit length for unit vectors. It ends when nothing
    changes.

    Args:
        family: a Gaussian or VonMisesFisher, from which λ follows.
        alpha: α, likewise.
        max_iter: the largest number of passes.

    Attributes:
        penalty_: λ in units of σ², or of 1/κ.
        objective_: Σ |x − its centre|² + λ K after each pass, in the same units; it never rises.

    >>> from dyncrp import Gaussian
    >>> DPMeans(Gaussian(1.0, 100.0)).fit([[0.0], [9.0], [0.5], [9.5]]).labels_
    array([0, 1, 0, 1])
    """

    penalty_: float
    objective_: Float

    def __init__(self, family: Family, alpha: float = 1.0, *, max_iter: int = 300) -> None:
        self.family = family
        self.alpha = alpha
        self.max_iter = max_iter

    def _cluster(self, X: Float, t: Float) -> Labels:
        max_iter = integer("max_iter", self.max_iter, 1)
        rows, penalty, radius = scale_rows(self.family, self.alpha, X)
        labels = np.zeros(len(rows), dtype=np.int64)
        centers = _centers(rows, labels, radius)
        objective: list[float] = []
        for _ in range(max_iter):
            before = labels
            labels = np.empty(len(rows), dtype=np.int64)
            assign_to_nearest(rows, centers, penalty, labels)
            centers = _centers(rows, labels, radius)
            objective.append(float(np.sum((rows - centers[labels]) ** 2)) + penalty * len(centers))
            if np.array_equal(labels, before):
                break
        self.penalty_, self.objective_ = penalty, np.array(objective)
        return labels


class OnlineDPMeans(StreamingBaseline):
    """DP-means in one pass: each row joins the nearest centre, which moves to its new mean, or opens a cluster.

    The result does not depend on how the stream is divided into calls.

    Args:
        family: a Gaussian or VonMisesFisher, from which λ follows.
        alpha: α, likewise.

    Attributes:
        penalty_: λ in units of σ², or of 1/κ.

    >>> from dyncrp import Gaussian
    >>> model = OnlineDPMeans(Gaussian(1.0, 100.0)).fit([[0.0], [9.0], [0.5]])
    >>> model.partial_fit([[9.5], [-40.0]]).labels_
    array([1, 2])
    """

    penalty_: float
    _sums: Float  # (K, Q) of the rows of each cluster
    _centers: Float  # (K, Q)
    _counts: Labels  # (K,)

    def __init__(self, family: Family, alpha: float = 1.0) -> None:
        self.family = family
        self.alpha = alpha

    @property
    def n_clusters_(self) -> int:
        """How many clusters have opened so far."""
        return len(self._counts)

    def _cluster(self, X: Float, t: Float) -> Labels:
        rows, penalty, radius = scale_rows(self.family, self.alpha, X)
        self.penalty_ = penalty
        self._sums, self._centers = np.zeros((0, rows.shape[1])), np.zeros((0, rows.shape[1]))
        self._counts = np.zeros(0, dtype=np.int64)
        return self._learn(rows, radius)

    def _go_on(self, X: Float) -> Labels:
        rows, _, radius = scale_rows(self.family, self.alpha, X)
        return self._learn(rows, radius)

    def _learn(self, rows: Float, radius: float) -> Labels:
        room = np.zeros_like(rows)
        sums, centers = np.vstack([self._sums, room]), np.vstack([self._centers, room])
        counts = np.concatenate([self._counts, np.zeros(len(rows), dtype=np.int64)])
        labels = np.empty(len(rows), dtype=np.int64)
        K = stream_means(rows, sums, centers, counts, len(self._counts), self.penalty_, radius, labels)
        self._sums, self._centers, self._counts = sums[:K].copy(), centers[:K].copy(), counts[:K].copy()
        return labels


def _centers(rows: Float, labels: Labels, radius: float) -> Float:
    """Return the centres (K, Q) of clusters 0 … K−1, none of them empty."""
    counts = np.bincount(labels)
    sums = np.zeros((len(counts), rows.shape[1]))
    np.add.at(sums, labels, rows)
    if radius == 0:
        return sums / counts[:, None]
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    first = rows[np.unique(labels, return_index=True)[1]]  # rows that cancel have no mean direction
    return np.where(lengths > 0, radius * sums / np.where(lengths > 0, lengths, 1.0), first)

"""Components: tables joined by evidence, as long as one cluster explains their rows better than two.

Tables tile a cluster that is not as the family wants it. Two sets of n and m rows are joined if that gains

    log p(rows of both) − log p(rows of the first) − log p(rows of the second) + n ln(1 + m/n) + m ln(1 + n/m),

where the last two terms are what the Chinese Restaurant's probability of the partition gains. Tables of a ``Gaussian``
share a covariance, but a cluster may have its own: p is then a normal–inverse–Wishart marginal of the rows in up to
eight coordinates. In units of the standard deviation within tables, with Q coordinates, n rows of mean m and scatter S,

    ln p = −nQ/2 ln π + ln Γ_Q((ν+n)/2) − ln Γ_Q(ν/2) + ν/2 ln|Ψ₀| − (ν+n)/2 ln|Ψₙ| + Q/2 ln(κ/(κ+n)),
    Ψ₀ = (ν−Q−1) s I,   Ψₙ = Ψ₀ + S + κn/(κ+n) m mᵀ,   κ = 1/mean(ρ²/σ²).

Joining goes on from the largest gain to the smallest, among near tables by Ward's distance, down to one cluster; the
joins up to the largest sum of gains are kept. This is done for each (ν, s) of ``PRIORS``, and the prior with the most
evidence in all is kept. Tables of other families are joined by their own marginal likelihood.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import multigammaln

from dyncrp.engine import has_extension
from dyncrp.engine.types import Float, Int
from dyncrp.families import Family
from dyncrp.families.protocols import Scatter, Shapes

NEAR = 20  # tables that a cluster may join next
# Degrees of freedom ν = a Q + b, and the variance s that they are about, in units of the variance within tables.
PRIORS = (
    *((1.0, 3.0, s) for s in (1.0, 4.0)),
    *((a, b, s) for a, b in ((1.5, 6.0), (2.0, 10.0), (4.0, 20.0)) for s in (1.0, 2.0)),
    (30.0, 200.0, 1.0),
)
Gains = Callable[[int, Int], Float]  # what joining a cluster to each of some others gains


class Join(NamedTuple):
    """Two clusters, each given by its first table, that become one; and what that gains in log evidence."""

    kept: int
    gone: int
    gain: float


def join_by_scatter(rows: Scatter) -> list[Join]:
    """Return all joins, in order, under the prior with the most evidence."""
    best: tuple[float, list[Join]] = -np.inf, []
    Q = rows.means.shape[1]
    for a, b, spread in PRIORS:
        joins, evidence = _join_under(rows, a * Q + b, spread)
        total = evidence + np.max(np.cumsum([0.0, *(join.gain for join in joins)]))
        if total > best[0]:
            best = total, joins
    return best[1]


def _join_under(rows: Scatter, degrees: float, spread: float) -> tuple[list[Join], float]:
    """Return all joins under one prior, and the log evidence of the tables before the first."""
    if not has_extension():
        return join_slowly(rows, degrees, spread)
    from dyncrp.engine import loop

    arrays = (np.ascontiguousarray(array, dtype=np.float64) for array in rows[:3])
    joins, evidence = loop.join_tables(*arrays, degrees=degrees, spread=spread, kappa=rows.kappa, near=NEAR)
    return [Join(*join) for join in joins], evidence


def join_slowly(rows: Scatter, degrees: float, spread: float) -> tuple[list[Join], float]:
    """Return what the loop in C++ returns, in NumPy."""
    n, means, scatter = (np.array(array, dtype=np.float64) for array in rows[:3])
    Q = means.shape[1]
    lower = np.tril_indices(Q)
    full = np.zeros((len(n), Q, Q))
    full[:, lower[0], lower[1]] = full[:, lower[1], lower[0]] = scatter

    def log_marginal(n: Float, mean: Float, S: Float) -> Float:
        kappa, psi = rows.kappa, (degrees - Q - 1.0) * spread
        psi_n = S + (kappa * n / (kappa + n))[:, None, None] * mean[:, :, None] * mean[:, None, :] + psi * np.eye(Q)
        return (
            -0.5 * n * Q * np.log(np.pi)
            + np.array([multigammaln((degrees + one) / 2.0, Q) for one in n])
            - multigammaln(degrees / 2.0, Q)
            + 0.5 * degrees * Q * np.log(psi)
            - 0.5 * (degrees + n) * np.sum(np.log(np.maximum(np.linalg.eigvalsh(psi_n), psi)), axis=1)
            + 0.5 * Q * np.log(kappa / (kappa + n))
        )

    def union(a: int, others: Int) -> tuple[Float, Float, Float]:
        both = n[a] + n[others]
        gap = means[others] - means[a]
        S = full[a] + full[others] + (n[a] * n[others] / both)[:, None, None] * gap[:, :, None] * gap[:, None, :]
        return both, means[a] + (n[others] / both)[:, None] * gap, S

    known = log_marginal(n, means, full)

    def gains(a: int, others: Int) -> Float:
        return log_marginal(*union(a, others)) - known[a] - known[others] + _seats(n[a], n[others])

    def join(a: int, b: int) -> None:
        n[[a]], means[[a]], full[[a]] = union(a, np.array([b]))
        known[[a]] = log_marginal(n[[a]], means[[a]], full[[a]])

    evidence = float(np.sum(known))
    return join_greedily(n, means, gains, join), evidence


def join_by_likelihood(family: Family, stats: Float, shapes: Shapes) -> list[Join]:
    """Return all joins of tables (K, S) by the marginal likelihood of their family."""
    tables, counts, centers = stats.copy(), shapes.counts.copy(), shapes.centers.copy()

    def gains(a: int, others: Int) -> Float:
        factors = family.log_bayes_factor({"stats": tables[others]}, {"stats": tables[[a]]})
        return factors + _seats(counts[a], counts[others])

    def join(a: int, b: int) -> None:
        share = counts[b] / (counts[a] + counts[b])
        centers[a] += share * (centers[b] - centers[a])
        counts[a] += counts[b]
        tables[a] += tables[b]

    return join_greedily(counts, centers, gains, join)


def _seats(n: float, m: Float) -> Float:
    """Return what joining tables of n and m rows gains in the log probability of the partition."""
    return n * np.log1p(m / n) + m * np.log1p(n / m)


def join_greedily(n: Float, means: Float, gains: Gains, join: Callable[[int, int], None]) -> list[Join]:
    """Return all joins by falling gain. join: makes one cluster of two, and changes n (K,) and means (K, Q) itself."""
    alive, stamps = np.ones(len(n), dtype=bool), [0] * len(n)  # a stamp counts the joins of a cluster
    waiting: list[tuple[float, int, int, int, int]] = []

    def look_around(a: int) -> None:
        others = np.flatnonzero(alive)
        others = others[others != a]
        apart = np.sum((means[others] - means[a]) ** 2, axis=1) * n[others] * n[a] / (n[others] + n[a])
        near = others[np.lexsort((others, apart))[:NEAR]]
        for other, gain in zip(near.tolist(), gains(a, near).tolist() if len(near) else (), strict=True):
            first, second = min(a, other), max(a, other)
            heapq.heappush(waiting, (-gain, first, second, stamps[first], stamps[second]))

    for a in range(len(n)):
        look_around(a)
    joins = []
    while waiting:
        loss, a, b, *seen = heapq.heappop(waiting)
        if seen == [stamps[a], stamps[b]]:
            joins.append(Join(a, b, -loss))
            join(a, b)
            alive[b] = False
            stamps[a] += 1
            stamps[b] += 1
            look_around(a)
    return joins

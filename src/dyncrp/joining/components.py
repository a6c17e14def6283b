"""Components: tables joined by evidence, as long as one cluster explains their rows better than two.

Tables tile a cluster that is not as the family wants it. Two sets of n and m rows are joined if that gains

    log p(rows of both) − log p(rows of the first) − log p(rows of the second) + n ln(1 + m/n) + m ln(1 + n/m),

where the last two terms are what the Chinese Restaurant's probability of the partition gains. Tables of a ``Gaussian``
share a covariance, but a cluster may have its own: p is then a normal–inverse–Wishart marginal of the rows in up to
eight coordinates. In units of the standard deviation within tables, with Q coordinates, n rows of mean m and scatter S,

    ln p = −nQ/2 ln π + ln Γ_Q((ν+n)/2) − ln Γ_Q(ν/2) + ν/2 ln|Ψ₀| − (ν+n)/2 ln|Ψₙ| + Q/2 ln(κ/(κ+n)),
    Ψ₀ = (ν−Q−1) s I,   Ψₙ = Ψ₀ + S + κn/(κ+n) m mᵀ,   κ = 1/mean(ρ²/σ²).

Of more coordinates, the R others share one variance, of which only the sum of squares is kept. With mean r and
scatter t in those, they add w ln p', a normal–inverse–gamma marginal to the power w = min(1, max(8, d)/R):

    ln p' = −nR/2 ln 2π + ln Γ(aₙ) − ln Γ(a) + a ln b − aₙ ln bₙ + R/2 ln(κ/(κ+n)),
    a = ν/2,   b = (a−1) s,   aₙ = a + nR/2,   bₙ = b + t/2 + κn/(κ+n) |r|²/2,
    d = 1/tr(C²),   C = Σ n u uᵀ/Σ n over tables, with the direction u = g/|g| of their gap g from the median of all r.

They count as much as d, in how many directions tables differ there, since real clusters depart from one variance in
all coordinates at once, each a little: tables that tile one cluster differ in few directions, many clusters in many.

Joining goes on from the largest gain to the smallest, among near tables by Ward's distance, down to one cluster; the
joins up to the largest sum of gains are kept. This is done for each (ν, s) of ``PRIORS``, and the prior with the most
evidence in all is kept.

Tables of other families are joined by their own marginal likelihood. Where features are taken as independent within a
table, they are not quite so in a cluster, and the evidence of enough rows is against any join: a large stream would
have a hundred clusters that nobody tells apart. So n rows count as if they were at most N = 5,000: the likelihood is
raised to the power min(1, N/n) ("coarsened", Miller and Dunson, 2019). A difference then counts if N rows show it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, multigammaln

from dyncrp.engine import has_extension
from dyncrp.engine.types import Float, Int
from dyncrp.families import Family
from dyncrp.families.protocols import Scatter, Shapes

OTHERS_COUNT_AS = 8.0  # coordinates at least: as much as those whose products are kept
NEAR = 20  # tables that a cluster may join next
CANDIDATES = 3 * NEAR  # they are among so many that are found by a faster formula
MOST_ROWS = 5_000.0  # rows that count, if features are independent
MOST_AT_ONCE = 100  # one join in so many clusters is made before the next are looked for; from 200 on, several are
CELLS_AT_ONCE = 1 << 21  # numbers in memory
# Degrees of freedom ν = a Q + b, and the variance s that they are about, in units of the variance within tables.
PRIORS = (
    *((1.0, 3.0, s) for s in (1.0, 4.0)),
    *((a, b, s) for a, b in ((1.5, 6.0), (2.0, 10.0), (4.0, 20.0)) for s in (1.0, 2.0)),
    (30.0, 200.0, 1.0),
)
Gains = Callable[[Int, Int], Float]  # what joining each of m clusters to another gains: (m,) and (m,) to (m,)


class Join(NamedTuple):
    """Two clusters, each given by its first table, that become one; and what that gains in log evidence."""

    kept: int
    gone: int
    gain: float


def join_by_scatter(rows: Scatter) -> list[Join]:
    """Return all joins, in order, under the prior with the most evidence."""
    return join_under_best(rows)[0]


def join_under_best(
    rows: Scatter, among: Sequence[int] = range(len(PRIORS)), slack: float = np.inf
) -> tuple[list[Join], int]:
    """Return all joins, in order, and the number of their prior: among some of ``PRIORS``, that of most evidence.

    slack: the joins end where the sum of gains is lower than its maximum by more than this.
    """
    best: tuple[float, list[Join], int] = -np.inf, [], among[0]
    Q = rows.means.shape[1]
    priors = [(a * Q + b, spread) for a, b, spread in (PRIORS[prior] for prior in among)]
    for prior, (joins, evidence) in zip(among, _join_under(rows, priors, slack), strict=True):
        total = evidence + np.max(np.cumsum([0.0, *(join.gain for join in joins)]))
        if total > best[0]:
            best = total, joins, prior
    return best[1:]


def _join_under(rows: Scatter, priors: list[tuple[float, float]], slack: float) -> list[tuple[list[Join], float]]:
    """Return the joins under each prior (ν, s), and the log evidence of the tables before the first."""
    if not has_extension():
        return [join_slowly(rows, degrees, spread, slack) for degrees, spread in priors]
    from dyncrp.engine import loop

    parts = rows.counts, rows.means, rows.scatter, rows.other_means, rows.other_scatter
    arrays = (np.ascontiguousarray(array, dtype=np.float64) for array in parts)
    share = share_of_others(rows)
    found = loop.join_tables(*arrays, share=share, priors=priors, kappa=rows.kappa, near=NEAR, slack=slack)
    return [([Join(*join) for join in joins], evidence) for joins, evidence in found]


def share_of_others(rows: Scatter) -> float:
    """Return the power to which the likelihood of the other coordinates is raised."""
    n, R = rows.counts, rows.other_means.shape[1]
    if R <= OTHERS_COUNT_AS:
        return 1.0
    gaps = rows.other_means - np.median(rows.other_means, axis=0)
    lengths = np.linalg.norm(gaps, axis=1)
    somewhere = lengths > 0.0
    if not np.any(somewhere):
        return OTHERS_COUNT_AS / R
    directions, weights = gaps[somewhere] / lengths[somewhere, None], n[somewhere] / np.sum(n[somewhere])
    differ_in = 1.0 / np.sum(((directions.T * weights) @ directions) ** 2)
    return float(min(1.0, max(OTHERS_COUNT_AS, differ_in) / R))


def join_slowly(rows: Scatter, degrees: float, spread: float, slack: float = np.inf) -> tuple[list[Join], float]:
    """Return what the loop in C++ returns, in NumPy."""
    parts = rows.counts, rows.means, rows.scatter, rows.other_means, rows.other_scatter
    n, means, scatter, others, rest = (np.array(array, dtype=np.float64) for array in parts)
    Q, R, w = means.shape[1], others.shape[1], share_of_others(rows)
    lower = np.tril_indices(Q)
    full = np.zeros((len(n), Q, Q))
    full[:, lower[0], lower[1]] = full[:, lower[1], lower[0]] = scatter

    def log_marginal(n: Float, mean: Float, S: Float, other: Float, rest: Float) -> Float:
        kappa, psi = rows.kappa, (degrees - Q - 1.0) * spread
        pull = kappa * n / (kappa + n)
        psi_n = S + pull[:, None, None] * mean[:, :, None] * mean[:, None, :] + psi * np.eye(Q)
        a, b = degrees / 2.0, (degrees / 2.0 - 1.0) * spread
        a_n, b_n = a + n * R / 2.0, b + rest / 2.0 + pull * np.sum(other**2, axis=1) / 2.0
        of_others = gammaln(a_n) - gammaln(a) + a * np.log(b) - a_n * np.log(b_n) - n * R / 2.0 * np.log(2.0 * np.pi)
        of_others += R / 2.0 * np.log(kappa / (kappa + n))
        return (
            -0.5 * n * Q * np.log(np.pi)
            + np.array([multigammaln((degrees + one) / 2.0, Q) for one in n])
            - multigammaln(degrees / 2.0, Q)
            + 0.5 * degrees * Q * np.log(psi)
            - 0.5 * (degrees + n) * np.sum(np.log(np.maximum(np.linalg.eigvalsh(psi_n), psi)), axis=1)
            + 0.5 * Q * np.log(kappa / (kappa + n))
            + (w * of_others if R else 0.0)
        )

    def union(a: Int, b: Int) -> tuple[Float, Float, Float, Float, Float]:
        both = n[a] + n[b]
        cross, gap, apart = n[a] * n[b] / both, means[b] - means[a], others[b] - others[a]
        S = full[a] + full[b] + cross[:, None, None] * gap[:, :, None] * gap[:, None, :]
        share = (n[b] / both)[:, None]
        total = rest[a] + rest[b] + cross * np.sum(apart**2, axis=1)
        return both, means[a] + share * gap, S, others[a] + share * apart, total

    known = log_marginal(n, means, full, others, rest)

    def gains(a: Int, b: Int) -> Float:
        return log_marginal(*union(a, b)) - known[a] - known[b] + _seats(n[a], n[b])

    def join(a: int, b: int) -> None:
        at = np.array([a])
        n[at], means[at], full[at], others[at], rest[at] = union(at, np.array([b]))
        known[at] = log_marginal(n[at], means[at], full[at], others[at], rest[at])

    evidence = float(np.sum(known))
    return join_greedily(n, means, gains, join, slack), evidence


def join_by_likelihood(family: Family, stats: Float, shapes: Shapes, slack: float = np.inf) -> list[Join]:
    """Return all joins of tables (K, S) by the marginal likelihood of their family, coarsened as above.

    slack: the joins end where the sum of gains is lower than its maximum by more than this.
    """
    share = min(1.0, MOST_ROWS / max(float(np.sum(shapes.counts)), 1e-300)) if family.independent else 1.0
    tables, counts, centers = share * stats, share * shapes.counts, shapes.centers.copy()

    def gains(a: Int, others: Int) -> Float:
        at_once = max(1, CELLS_AT_ONCE // tables.shape[1])
        parts = [slice(begin, begin + at_once) for begin in range(0, len(a), at_once)]
        factors = [
            family.log_bayes_factor({"stats": tables[others[part]]}, {"stats": tables[a[part]]}) for part in parts
        ]
        return np.concatenate(factors) + _seats(counts[a], counts[others])

    def join(a: int, b: int) -> None:
        share = counts[b] / (counts[a] + counts[b])
        centers[a] += share * (centers[b] - centers[a])
        counts[a] += counts[b]
        tables[a] += tables[b]

    return join_greedily(counts, centers, gains, join, slack)


def _seats(n: Float, m: Float) -> Float:
    """Return what joining tables of n and m rows gains in the log probability of the partition."""
    return n * np.log1p(m / n) + m * np.log1p(n / m)


def join_greedily(
    n: Float, means: Float, gains: Gains, join: Callable[[int, int], None], slack: float = np.inf
) -> list[Join]:
    """Return all joins by falling gain. join: makes one cluster of two, and changes n (K,) and means (K, Q) itself.

    slack: the joins end where the sum of gains is lower than its maximum by more than this.

    Among many clusters, several pairs are joined before the new clusters are looked at, all at once.
    """
    alive, stamps = np.ones(len(n), dtype=bool), [0] * len(n)  # a stamp counts the joins of a cluster
    waiting: list[tuple[float, int, int, int, int]] = []

    def look_around(some: Int) -> None:
        others = np.flatnonzero(alive)
        at_once = max(1, CELLS_AT_ONCE // (len(others) + CANDIDATES * means.shape[1]))
        for begin in range(0, len(some), at_once):
            here, there = _near(n, means, some[begin : begin + at_once], others)
            gained = gains(here, there)
            gained[np.isnan(gained)] = -np.inf  # of statistics that overflow, which only a forged file has
            may_matter = gained >= -slack  # any other would be the last join, and not be kept
            pairs = here[may_matter].tolist(), there[may_matter].tolist(), gained[may_matter].tolist()
            for a, other, gain in zip(*pairs, strict=True):
                first, second = min(a, other), max(a, other)
                heapq.heappush(waiting, (-gain, first, second, stamps[first], stamps[second]))

    if len(n) > 1:
        look_around(np.arange(len(n)))
    joins: list[Join] = []
    total = most_gained = 0.0
    while waiting and total >= most_gained - slack:
        made: list[int] = []
        most = max(1, (len(n) - len(joins)) // MOST_AT_ONCE)
        while waiting and len(made) < most:
            loss, a, b, *seen = heapq.heappop(waiting)
            if seen == [stamps[a], stamps[b]]:
                joins.append(Join(a, b, -loss))
                total -= loss
                most_gained = max(most_gained, total)
                join(a, b)
                alive[b] = False
                stamps[a] += 1
                stamps[b] += 1
                made.append(a)
        if made and len(joins) < len(n) - 1:
            look_around(np.array(made))
    return joins


def _near(n: Float, means: Float, some: Int, others: Int) -> tuple[Int, Int]:
    """Return pairs (m,) of each of some clusters and the ``NEAR`` others nearest to it by Ward's distance."""
    at = np.broadcast_to(np.arange(len(others)), (len(some), len(others)))
    if len(others) > CANDIDATES:
        about = means[others] - np.mean(means[others], axis=0)
        here = about[np.searchsorted(others, some)]
        apart = np.sum(here**2, axis=1)[:, None] + np.sum(about**2, axis=1) - 2.0 * (here @ about.T)
        apart *= n[others] * n[some, None] / (n[others] + n[some, None])
        at = np.sort(np.argpartition(apart, CANDIDATES, axis=1)[:, : CANDIDATES + 1], axis=1)
    there = others[at]
    gaps = np.sum((means[there] - means[some, None]) ** 2, axis=2)
    gaps = gaps * n[there] * n[some, None] / (n[there] + n[some, None])
    gaps[np.isnan(gaps)] = np.inf
    gaps[there == some[:, None]] = np.nan  # which comes last, after gaps that overflow
    nearest = np.argsort(gaps, axis=1, kind="stable")[:, : min(NEAR, len(others) - 1)]
    return np.repeat(some, nearest.shape[1]), np.take_along_axis(there, nearest, axis=1).ravel()

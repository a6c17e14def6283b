"""The distance-dependent CRP (Blei and Frazier 2011), sequential: samplers of the prior, and of links given data.

Each customer links to an earlier one or to itself; who is linked, directly or through others, shares a table:

    P(link_n = n') ∝ kernel(t_n − t_n') for n' < n,    P(link_n = n) ∝ α.

Summed over the customers of a table, that is its occupancy. So for a kernel that is never negative, the tables are
distributed as those of the Dynamical CRP, and the Gibbs sampler draws from the very posterior that ``DynamicalMixture``
approximates in one pass: the difference is what streaming gives up. A sweep takes N² steps, and N² numbers of memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dyncrp.baselines.base import LARGEST_SEED, Baseline, Float, Labels, in_order
from dyncrp.baselines.gibbs import Sample
from dyncrp.baselines.partition import Partition, add, log_partition, prepare
from dyncrp.checks import Seed, as_times, positive, whole
from dyncrp.dynamics import Dynamics, Stationary
from dyncrp.engine.jit import cached
from dyncrp.families import Family


@dataclass(frozen=True)
class DistanceDependentCRP:
    """The prior over links and tables.

    Args:
        alpha: α, positive.
        dynamics: whose kernel is the decay with distance in time; it must not be negative.

    >>> process = DistanceDependentCRP(alpha=1.0)
    >>> links = process.sample_links([0, 1, 2, 3], seed=1)
    >>> links
    array([[0, 1, 0, 3]])
    >>> tables(links)
    array([[0, 1, 0, 2]])
    """

    alpha: float
    dynamics: Dynamics = field(default_factory=Stationary)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        if not isinstance(self.dynamics, Dynamics):
            raise ValueError(f"dynamics must be a Dynamics such as Exponential(20.0), got {self.dynamics!r}")

    def weights(self, times: ArrayLike) -> Float:
        """Return kernel(t_n − t_n') for n' < n, α for n' = n, and 0 else: (N, N), for ``times`` (N,) in order."""
        t = as_times(times)
        weights = np.diag(np.full(len(t), self.alpha))
        for n in range(1, len(t)):
            row = self.dynamics.kernel(t[n] - t[:n])
            if np.min(row) < -1e-12:
                raise ValueError(
                    f"the distance-dependent CRP needs a kernel that is never negative, got {np.min(row):.3g} from "
                    f"{self.dynamics!r}"
                )
            weights[n, :n] = np.maximum(row, 0.0)
        return weights

    def sample_links(self, times: ArrayLike, n_samples: int = 1, seed: Seed = None) -> Labels:
        """Draw whom each customer links to: (n_samples, N)."""
        rng = np.random.default_rng(seed)
        n_samples = whole("n_samples", n_samples, 1)
        cumulative = np.cumsum(self.weights(times), axis=1)
        draws = [np.searchsorted(row, row[-1] * rng.random(n_samples), side="right") for row in cumulative]
        return np.array(draws, dtype=np.int64).reshape(len(cumulative), n_samples).T.copy()


def tables(links: Labels) -> Labels:
    """Return the table of each customer (n_samples, N), in order of opening, given whom each links to, likewise."""
    roots = links.copy()
    rows = np.arange(len(links))
    for n in range(links.shape[1]):
        roots[:, n] = np.where(links[:, n] < n, roots[rows, links[:, n]], n)
    opened = np.cumsum(links == np.arange(links.shape[1]), axis=1) - 1
    return np.take_along_axis(opened, roots, axis=1)


class DistanceDependentMixture(Baseline):
    """Sample links from the posterior of the distance-dependent CRP mixture, and keep the most probable partition.

    Each customer in turn drops its link, and with it the customers that hang on it leave the table. It links again with
    probability proportional to the prior of the link, times the ratio by which the rows of the two tables that it joins
    are more probable as one. At first, everyone links to itself. ``labels_`` is the partition with the highest
    joint log probability log p(X, labels), summed over links, of all that were visited.

    Args:
        family: a Gaussian, Bernoulli or VonMisesFisher.
        dynamics: whose kernel is the decay with distance in time.
        alpha: α.
        n_sweeps: how often every customer links anew.
        seed: an integer.

    Attributes:
        log_joint_: (n_sweeps,) trace of log p(X, labels) after each sweep.

    >>> from dyncrp import Exponential, Gaussian
    >>> model = DistanceDependentMixture(Gaussian(1.0, 100.0), Exponential(20.0))
    >>> model.fit([[0.0], [9.0], [0.3], [9.5]]).labels_
    array([0, 1, 0, 1])
    """

    log_joint_: Float

    def __init__(
        self,
        family: Family,
        dynamics: Dynamics | None = None,
        alpha: float = 1.0,
        *,
        n_sweeps: int = 100,
        seed: int = 0,
    ) -> None:
        self.family = family
        self.dynamics = dynamics
        self.alpha = alpha
        self.n_sweeps = n_sweeps
        self.seed = seed

    def _cluster(self, X: Float, t: Float) -> Labels:
        seed = whole("seed", self.seed, 0, LARGEST_SEED)
        trace = np.empty(whole("n_sweeps", self.n_sweeps, 1))
        process = DistanceDependentCRP(self.alpha, Stationary() if self.dynamics is None else self.dynamics)
        best = Sample(np.empty(0, dtype=np.int64), -np.inf)
        for sweep, sample in enumerate(samples(self.family, process, X, t, len(trace), seed)):
            trace[sweep] = sample.log_joint
            best = max(best, sample, key=lambda state: state.log_joint)
        self.log_joint_ = trace
        return in_order(best.labels)


def samples(
    family: Family, process: DistanceDependentCRP, X: Float, t: Float, n_sweeps: int, seed: Seed = None
) -> Iterator[Sample]:
    """Yield the state of the chain after each sweep over X (N, D) at t (N,); a table is known by its first row."""
    rows, partition, log_base = prepare("Gibbs sampling", family, X)
    weights = process.weights(t)
    constant = log_base - float(np.sum(np.log(np.sum(weights, axis=1))))
    rng = np.random.default_rng(seed)
    N = len(rows)
    links, roots = np.arange(N), np.arange(N)
    for _ in range(n_sweeps):
        joint = _sweep(rows, weights, links, roots, rng.random(N), partition)
        yield Sample(roots.copy(), constant + joint)


@cached
def _sweep(rows: Float, weights: Float, links: Labels, roots: Labels, uniforms: Float, partition: Partition) -> float:
    """Let every customer link anew; a table is called by its root, who links to itself and is the first there.

    IN rows (N, Q), weights (N, N), uniforms (N,), partition; INOUT links (N,), roots (N,).
    Returns log p(tables) + Σ_c log_partition, but for a constant.
    """
    N, Q = rows.shape
    counts = np.zeros(N, dtype=np.int64)
    sums = np.zeros((N, Q))
    parts = np.zeros(N)
    occupancy = np.empty(N)
    scores = np.empty(N)
    hanging = np.zeros(N, dtype=np.bool_)
    moved, joined = np.empty(Q), np.empty(Q)
    for i in range(N):  # anew in every sweep, so that rounding does not add up
        roots[i] = roots[links[i]] if links[i] < i else i
        counts[roots[i]] += 1
        add(sums[roots[i]], rows[i], 1.0)
    for r in range(N):
        parts[r] = log_partition(counts[r], sums[r], partition)

    for i in range(N):
        n_moved = 0
        for d in range(Q):
            moved[d] = 0.0
        for j in range(i, N):  # links lead back, so one pass finds all who hang on i
            hanging[j] = j == i or (links[j] != j and links[j] >= i and hanging[links[j]])
            if hanging[j]:
                n_moved += 1
                add(moved, rows[j], 1.0)
        if links[i] != i:
            r = roots[i]
            counts[r] -= n_moved
            add(sums[r], moved, -1.0)
            parts[r] = log_partition(counts[r], sums[r], partition)
        part_moved = log_partition(n_moved, moved, partition)

        for j in range(i):
            occupancy[j] = 0.0
        for j in range(i):
            occupancy[roots[j]] += weights[i, j]
        scores[i] = math.log(weights[i, i])
        best = scores[i]
        for r in range(i):
            scores[r] = -np.inf
            if occupancy[r] > 0.0:
                for d in range(Q):
                    joined[d] = sums[r, d] + moved[d]
                part = log_partition(counts[r] + n_moved, joined, partition)
                scores[r] = math.log(occupancy[r]) + part - parts[r] - part_moved
                best = max(best, scores[r])
        total = 0.0
        for r in range(i + 1):
            total += math.exp(scores[r] - best)
        drawn = uniforms[i] * total
        chosen = i
        for r in range(i):
            weight = math.exp(scores[r] - best)
            if drawn < weight:
                chosen = r
                drawn *= occupancy[r] / weight
                break
            drawn -= weight

        links[i] = i
        if chosen < i:  # what is left of the random number chooses among the customers of the table
            for j in range(i):
                if roots[j] == chosen and weights[i, j] > 0.0:
                    links[i] = j
                    drawn -= weights[i, j]
                    if drawn < 0.0:
                        break
            counts[chosen] += n_moved
            add(sums[chosen], moved, 1.0)
        else:
            counts[i] = n_moved
            for d in range(Q):
                sums[i, d] = moved[d]
        parts[chosen] = log_partition(counts[chosen], sums[chosen], partition)
        for j in range(i, N):
            if hanging[j]:
                roots[j] = chosen

    joint = 0.0
    for i in range(N):
        if links[i] == i:
            joint += math.log(weights[i, i]) + parts[i]
        else:
            present = 0.0
            for j in range(i):
                if roots[j] == roots[i]:
                    present += weights[i, j]
            joint += math.log(present)
    return joint

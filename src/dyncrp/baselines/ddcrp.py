"""The distance-dependent CRP (Blei and Frazier 2011), sequential: samplers of the prior, and of links given data.

Each customer links to an earlier one or to itself. Customers linked directly or through others share a table:

    P(link_n = n') ∝ kernel(t_n − t_n') for n' < n,    P(link_n = n) ∝ α.

Summed over the customers of a table, the kernel is its occupancy. So if the kernel is never negative, the tables have
the distribution of the Dynamical CRP, and the Gibbs sampler draws from the same posterior that ``DynamicalMixture``
approximates in one pass. The difference is the cost of streaming. A sweep takes N² steps and memory for N² numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dyncrp.arrays.checks import Seed, as_times, integer, positive
from dyncrp.baselines.base import Float, Labels
from dyncrp.baselines.gibbs import Sample, SampledMixture
from dyncrp.baselines.partition import prepare
from dyncrp.baselines.sweeps import link_sweep
from dyncrp.dynamics import Dynamics, Stationary
from dyncrp.families import Family


@dataclass(frozen=True)
class DistanceDependentCRP:
    """The prior over links and tables.

    Args:
        alpha: α, positive.
        dynamics: its kernel is the decay with distance in time, and must not be negative.

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
        """Return kernel(t_n − t_n') for n' < n, α for n' = n, and 0 otherwise: (N, N), for ordered ``times`` (N,)."""
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
        """Draw the customer that each customer links to: (n_samples, N)."""
        rng = np.random.default_rng(seed)
        n_samples = integer("n_samples", n_samples, 1)
        cumulative = np.cumsum(self.weights(times), axis=1)
        draws = [np.searchsorted(row, row[-1] * rng.random(n_samples), side="right") for row in cumulative]
        return np.array(draws, dtype=np.int64).reshape(len(cumulative), n_samples).T.copy()


def tables(links: Labels) -> Labels:
    """Return the table of each customer (n_samples, N), in order of opening, given the links (n_samples, N)."""
    roots = links.copy()
    rows = np.arange(len(links))
    for n in range(links.shape[1]):
        roots[:, n] = np.where(links[:, n] < n, roots[rows, links[:, n]], n)
    opened = np.cumsum(links == np.arange(links.shape[1]), axis=1) - 1
    return np.take_along_axis(opened, roots, axis=1)


class DistanceDependentMixture(SampledMixture):
    """Sample links from the posterior of the distance-dependent CRP mixture, and keep the most probable partition.

    Each customer in turn drops its link, and leaves its table together with the customers that link to it. It links
    again with a probability proportional to the prior of the link, times the factor by which the rows of the two tables
    it joins are more probable as one table. At first, every customer links to itself. ``labels_`` is the visited
    partition with the highest joint log probability log p(X, labels), summed over links.

    Args:
        family: a Gaussian, Bernoulli or VonMisesFisher.
        dynamics: its kernel is the decay with distance in time.
        alpha: α.
        n_sweeps: how often every customer links again.
        seed: an integer.

    >>> from dyncrp import Exponential, Gaussian
    >>> model = DistanceDependentMixture(Gaussian(1.0, 100.0), Exponential(20.0))
    >>> model.fit([[0.0], [9.0], [0.3], [9.5]]).labels_
    array([0, 1, 0, 1])
    """

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

    def _samples(self, X: Float, t: Float, n_sweeps: int, seed: int) -> Iterator[Sample]:
        process = DistanceDependentCRP(self.alpha, Stationary() if self.dynamics is None else self.dynamics)
        return samples(self.family, process, X, t, n_sweeps, seed)


def samples(
    family: Family, process: DistanceDependentCRP, X: Float, t: Float, n_sweeps: int, seed: Seed = None
) -> Iterator[Sample]:
    """Yield the state of the chain after each sweep over X (N, D) at t (N,). A table is identified by its first row."""
    rows, partition, log_base = prepare("Gibbs sampling", family, X)
    weights = process.weights(t)
    constant = log_base - float(np.sum(np.log(np.sum(weights, axis=1))))
    rng = np.random.default_rng(seed)
    N = len(rows)
    links, roots = np.arange(N), np.arange(N)
    for _ in range(n_sweeps):
        joint = link_sweep(rows, weights, links, roots, rng.random(N), partition)
        yield Sample(roots.copy(), constant + joint)

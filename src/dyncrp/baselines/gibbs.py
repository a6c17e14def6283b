"""Collapsed Gibbs sampling for the Dirichlet process mixture (Neal 2000, algorithm 3), offline."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dyncrp.arrays.checks import Seed, integer, positive
from dyncrp.baselines.base import LARGEST_SEED, Baseline, Float, Labels, in_order
from dyncrp.baselines.partition import prepare
from dyncrp.baselines.sweeps import gibbs_sweep
from dyncrp.families import Family


class Sample(NamedTuple):
    """A state of the chain: the table of each row (N,), numbered in order of appearance, and log p(X, labels)."""

    labels: Labels
    log_joint: float


class SampledMixture(Baseline):
    """A baseline that samples partitions from a posterior, and keeps the most probable one.

    Attributes:
        log_joint_: (n_sweeps,) trace of log p(X, labels) after each sweep.
    """

    log_joint_: Float
    n_sweeps: int
    seed: int

    @abstractmethod
    def _samples(self, X: Float, t: Float, n_sweeps: int, seed: int) -> Iterator[Sample]:
        """Yield the state of the chain after each sweep."""

    def _cluster(self, X: Float, t: Float) -> Labels:
        seed = integer("seed", self.seed, 0, LARGEST_SEED)
        trace = np.empty(integer("n_sweeps", self.n_sweeps, 1))
        best = Sample(np.empty(0, dtype=np.int64), -np.inf)
        for sweep, sample in enumerate(self._samples(X, t, len(trace), seed)):
            trace[sweep] = sample.log_joint
            best = max(best, sample, key=lambda state: state.log_joint)
        self.log_joint_ = trace
        return in_order(best.labels)


class GibbsMixture(SampledMixture):
    """Sample partitions from the posterior of the CRP mixture, and keep the most probable one.

    Each row in turn leaves its table and is seated again, with

        P(c_i = c | the others) ∝ n_c p(x_i | the rows of c)    for a table of n_c others
        P(c_i = new | the others) ∝ α p(x_i).

    The first sweep seats the rows one after the other. ``labels_`` is the visited state with the highest joint log
    probability log p(X, labels), not the last one.

    Args:
        family: a Gaussian, Bernoulli or VonMisesFisher.
        alpha: α.
        n_sweeps: how often every row is seated, including the first time.
        seed: an integer.

    >>> from dyncrp import Gaussian
    >>> model = GibbsMixture(Gaussian(1.0, 100.0), alpha=1.0).fit(
    ...     [[0.0], [9.0], [0.3], [9.5]]
    ... )
    >>> model.labels_, model.log_joint_.shape
    (array([0, 1, 0, 1]), (100,))
    """

    def __init__(self, family: Family, alpha: float = 1.0, *, n_sweeps: int = 100, seed: int = 0) -> None:
        self.family = family
        self.alpha = alpha
        self.n_sweeps = n_sweeps
        self.seed = seed

    def _samples(self, X: Float, t: Float, n_sweeps: int, seed: int) -> Iterator[Sample]:
        return samples(self.family, self.alpha, X, n_sweeps, seed)


def samples(family: Family, alpha: float, X: Float, n_sweeps: int, seed: Seed = None) -> Iterator[Sample]:
    """Yield the state of the chain after each of ``n_sweeps`` sweeps over X (N, D)."""
    alpha = positive("alpha", alpha)
    rows, partition, log_base = prepare("Gibbs sampling", family, X)
    rng = np.random.default_rng(seed)
    N = len(rows)
    labels = np.full(N, -1)
    constant = log_base + math.lgamma(alpha) - math.lgamma(alpha + N)
    for _ in range(n_sweeps):
        joint = gibbs_sweep(rows, labels, math.log(alpha), rng.random(N), partition)
        yield Sample(labels.copy(), constant + joint)

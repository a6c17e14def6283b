"""Collapsed Gibbs sampling for the Dirichlet process mixture (Neal 2000, algorithm 3), offline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dyncrp.baselines.base import LARGEST_SEED, Baseline, Float, Labels
from dyncrp.baselines.partition import Partition, add, log_partition, most_gained, prepare
from dyncrp.checks import Seed, positive, whole
from dyncrp.engine.jit import cached
from dyncrp.families import Family

NEVER = 40.0  # exp(−40) is less than a uniform random number can tell from 0


class Sample(NamedTuple):
    """A state of the chain: table of each row (N,), counted in order of appearance, and log p(X, labels)."""

    labels: Labels
    log_joint: float


class GibbsMixture(Baseline):
    """Sample partitions from the posterior of the CRP mixture, and keep the most probable one.

    Each row in turn leaves its table and sits down again, by

        P(c_i = c | the others) ∝ n_c p(x_i | the rows of c)    for a table of n_c others
        P(c_i = new | the others) ∝ α p(x_i).

    The first sweep seats the rows one after the other. ``labels_`` is the state with the highest joint log probability
    log p(X, labels) of all that were visited, not the last.

    Args:
        family: a Gaussian, Bernoulli or VonMisesFisher.
        alpha: α.
        n_sweeps: how often every row is seated, the first time included.
        seed: an integer.

    Attributes:
        log_joint_: (n_sweeps,) trace of log p(X, labels) after each sweep.

    >>> from dyncrp import Gaussian
    >>> model = GibbsMixture(Gaussian(1.0, 100.0), alpha=1.0).fit([[0.0], [9.0], [0.3], [9.5]])
    >>> model.labels_, model.log_joint_.shape
    (array([0, 1, 0, 1]), (100,))
    """

    log_joint_: Float

    def __init__(self, family: Family, alpha: float = 1.0, *, n_sweeps: int = 100, seed: int = 0) -> None:
        self.family = family
        self.alpha = alpha
        self.n_sweeps = n_sweeps
        self.seed = seed

    def _cluster(self, X: Float, t: Float) -> Labels:
        seed = whole("seed", self.seed, 0, LARGEST_SEED)
        trace = np.empty(whole("n_sweeps", self.n_sweeps, 1))
        best = Sample(np.empty(0, dtype=np.int64), -np.inf)
        for sweep, sample in enumerate(samples(self.family, self.alpha, X, len(trace), seed)):
            trace[sweep] = sample.log_joint
            best = max(best, sample, key=lambda state: state.log_joint)
        self.log_joint_ = trace
        return best.labels


def samples(family: Family, alpha: float, X: Float, n_sweeps: int, seed: Seed = None) -> Iterator[Sample]:
    """Yield the state of the chain after each of ``n_sweeps`` sweeps over X (N, D)."""
    alpha = positive("alpha", alpha)
    rows, partition, log_base = prepare("Gibbs sampling", family, X)
    rng = np.random.default_rng(seed)
    N = len(rows)
    labels = np.full(N, -1)
    constant = log_base + math.lgamma(alpha) - math.lgamma(alpha + N)
    for _ in range(n_sweeps):
        joint = _sweep(rows, labels, math.log(alpha), rng.random(N), partition)
        yield Sample(labels.copy(), constant + joint)


@cached
def _sweep(rows: Float, labels: Labels, log_alpha: float, uniforms: Float, partition: Partition) -> float:
    """Seat every row once more.

    IN rows (N, Q), log α, uniforms (N,), partition; INOUT labels (N,), −1 for a row that sits nowhere yet.
    Returns log p(labels) + Σ_c log_partition, but for a constant.
    """
    N, Q = rows.shape
    counts = np.zeros(N + 1, dtype=np.int64)
    sums = np.zeros((N + 1, Q))
    parts = np.zeros(N + 1)
    scores = np.empty(N + 1)
    joined = np.empty(Q)
    K = 0
    for i in range(N):  # anew in every sweep, so that rounding does not add up
        c = labels[i]
        if c >= 0:
            counts[c] += 1
            add(sums[c], rows[i], 1.0)
            K = max(K, c + 1)
    for c in range(K):
        parts[c] = log_partition(counts[c], sums[c], partition)

    for i in range(N):
        x = rows[i]
        c = labels[i]
        if c >= 0:
            counts[c] -= 1
            add(sums[c], x, -1.0)
            if counts[c] == 0:  # the last table takes its place
                K -= 1
                counts[c], parts[c] = counts[K], parts[K]
                for d in range(Q):
                    sums[c, d], sums[K, d] = sums[K, d], 0.0
                for j in range(N):
                    if labels[j] == K:
                        labels[j] = c
                counts[K], parts[K] = 0, 0.0
            else:
                parts[c] = log_partition(counts[c], sums[c], partition)
        best = log_alpha + log_partition(1, x, partition)
        scores[K] = best
        for c in range(K):
            for d in range(Q):
                joined[d] = sums[c, d] + x[d]
            weight = math.log(counts[c])
            if weight + most_gained(sums[c], joined, partition) < best - NEVER:
                scores[c] = -np.inf
                continue
            scores[c] = weight + log_partition(counts[c] + 1, joined, partition) - parts[c]
            best = max(best, scores[c])
        total = 0.0
        for c in range(K + 1):
            total += math.exp(scores[c] - best)
            scores[c] = total
        chosen = 0
        while chosen < K and scores[chosen] <= uniforms[i] * total:
            chosen += 1
        labels[i] = chosen
        counts[chosen] += 1
        add(sums[chosen], x, 1.0)
        parts[chosen] = log_partition(counts[chosen], sums[chosen], partition)
        K = max(K, chosen + 1)

    joint = 0.0
    for c in range(K):
        joint += log_alpha + math.lgamma(counts[c]) + parts[c]
    names = np.full(K, -1)
    K = 0
    for i in range(N):
        if names[labels[i]] < 0:
            names[labels[i]] = K
            K += 1
        labels[i] = names[labels[i]]
    return joint

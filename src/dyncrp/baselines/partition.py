"""The families' log_partition for compiled code: how well a table's observations go together, and with others.

For a table of n whole observations that add up to s, log_partition(n, s) = log ∫ exp⟨η(φ), (n, s)⟩ p(φ) dφ is

    Gaussian         offset[n] + Σ_d first[n, d] s_d²
    Bernoulli        offset[n] + Σ_d first[s_d, d] + second[n − s_d, d]
    von Mises–Fisher log F(κ|s|), F the scaled Bessel function of ``families/bessel.py``,

where what depends on whole numbers only is looked up. It is zero for an empty table, and the log predictive of a row,
but for its base measure, is the difference that it makes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dyncrp.baselines.base import Float, known_family
from dyncrp.engine.jit import cached
from dyncrp.engine.special import bessel_constants, bessel_excess
from dyncrp.families import Bernoulli, Family, Gaussian, VonMisesFisher

FAMILIES: tuple[type[Gaussian | Bernoulli | VonMisesFisher], ...] = (Gaussian, Bernoulli, VonMisesFisher)
GAUSSIAN, BERNOULLI, VON_MISES_FISHER = range(3)


class Partition(NamedTuple):
    """What ``log_partition`` looks up."""

    kind: int
    offset: Float  # (N + 1,)
    first: Float  # (N + 1, Q)
    second: Float  # (N + 1, Q)
    kappa: float
    bessel: Float


class Prepared(NamedTuple):
    """Rows (N, Q) whose sums are a table's s, the lookup, and Σ log h(x) over all rows."""

    rows: Float
    partition: Partition
    log_base: float


def prepare(name: str, family: Family, X: Float) -> Prepared:
    """Check X (N, D), and tabulate what a table of up to N of its rows may need; ``name`` is whom it is for."""
    known = known_family(name, family, FAMILIES)
    X = known.check(X)
    counts = np.arange(len(X) + 1.0)[:, None]
    none = np.zeros((0, 0))
    log_base = float(np.sum(known.log_base_measure(X)))
    if isinstance(known, Gaussian):
        rows = np.ascontiguousarray(known.coordinates(X))
        variance, prior = (np.broadcast_to(v, rows.shape[1]) for v in (known.variance, known.prior_variance))
        total = variance + counts * prior
        offset = 0.5 * np.sum(np.log(variance / total), axis=1)
        return Prepared(
            rows, Partition(GAUSSIAN, offset, prior / variance / total / 2.0, none, 0.0, np.zeros(0)), log_base
        )
    if isinstance(known, Bernoulli):
        a, b = (np.broadcast_to(v, X.shape[1]) for v in (known.a, known.b))
        ones, zeros, both = (gammaln(v + counts) - gammaln(v) for v in (a, b, a + b))
        return Prepared(X, Partition(BERNOULLI, -np.sum(both, axis=1), ones, zeros, 0.0, np.zeros(0)), log_base)
    kappa = float(known.concentration)
    constants = bessel_constants(X.shape[1])
    return Prepared(X, Partition(VON_MISES_FISHER, np.zeros(0), none, none, kappa, constants), log_base)


@cached
def add(total: Float, row: Float, times: float) -> None:
    """Add so many times a row to a total, both (Q,): a loop compiles ten times faster than an array expression."""
    for d in range(total.shape[0]):
        total[d] += times * row[d]


@cached
def log_partition(n: int, s: Float, partition: Partition) -> float:
    """Return log ∫ exp⟨η(φ), (n, s)⟩ p(φ) dφ for a table of n observations with sum s (Q,)."""
    if partition.kind == GAUSSIAN:
        total = partition.offset[n]
        for d in range(s.shape[0]):
            total += partition.first[n, d] * s[d] * s[d]
        return total
    if partition.kind == BERNOULLI:
        total = partition.offset[n]
        for d in range(s.shape[0]):
            ones = int(s[d])  # sums of zeros and ones are exact
            total += partition.first[ones, d] + partition.second[n - ones, d]
        return total
    square = 0.0
    for d in range(s.shape[0]):
        square += s[d] * s[d]
    length = partition.kappa * math.sqrt(square)
    return length + bessel_excess(length, partition.bessel)


@cached
def most_gained(s: Float, joined: Float, partition: Partition) -> float:
    """Return a bound of log_partition at ``joined`` less that at s, without a Bessel function; inf if it needs none.

    log F rises, and nowhere faster than its argument.
    """
    if partition.kind != VON_MISES_FISHER:
        return np.inf
    before, after = 0.0, 0.0
    for d in range(s.shape[0]):
        before += s[d] * s[d]
        after += joined[d] * joined[d]
    return max(partition.kappa * (math.sqrt(after) - math.sqrt(before)), 0.0)

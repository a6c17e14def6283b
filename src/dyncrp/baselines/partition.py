"""The log_partition of families for compiled code.

For a table of n whole observations with the sum s, log_partition(n, s) = log ∫ exp⟨η(φ), (n, s)⟩ p(φ) dφ is

    Gaussian         offset[n] + Σ_d first[n, d] s_d²
    Bernoulli        offset[n] + Σ_d first[s_d, d] + second[n − s_d, d]
    von Mises–Fisher log F(κ|s|), F the scaled Bessel function of ``families/bessel.py``,

where everything that depends only on integers is looked up. It is zero for an empty table. The log predictive of a
row, without its base measure, is the difference that the row makes. ``sweeps.cpp`` computes it. Its
``most_gained(s, joined)`` bounds log_partition at ``joined`` minus that at s without a Bessel function, and is inf
where no bound is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dyncrp.baselines.base import Float, known_family
from dyncrp.baselines.sweeps import BernoulliPartition, GaussianPartition, Partition, VonMisesFisherPartition
from dyncrp.families import Bernoulli, Family, Gaussian, VonMisesFisher
from dyncrp.families.bessel import bessel_constants

FAMILIES: tuple[type[Gaussian | Bernoulli | VonMisesFisher], ...] = (Gaussian, Bernoulli, VonMisesFisher)


class Prepared(NamedTuple):
    """Rows (N, Q) whose sum over a table is s, the lookup tables, and Σ log h(x) over all rows."""

    rows: Float
    partition: Partition
    log_base: float


def prepare(name: str, family: Family, X: Float) -> Prepared:
    """Check X (N, D), and tabulate what tables of up to N of its rows may need. Errors call the algorithm ``name``."""
    known = known_family(name, family, FAMILIES)
    X = known.check(X)
    counts = np.arange(len(X) + 1.0)[:, None]
    log_base = float(np.sum(known.log_base_measure(X)))
    if isinstance(known, Gaussian):
        rows = np.ascontiguousarray(known.coordinates(X))
        variance, prior = (np.broadcast_to(v, rows.shape[1]) for v in (known.variance, known.prior_variance))
        total = variance + counts * prior
        offset = 0.5 * np.sum(np.log(variance / total), axis=1)
        return Prepared(rows, GaussianPartition(offset, prior / variance / total / 2.0), log_base)
    if isinstance(known, Bernoulli):
        a, b = (np.broadcast_to(v, X.shape[1]) for v in (known.a, known.b))
        ones, zeros, both = (gammaln(v + counts) - gammaln(v) for v in (a, b, a + b))
        return Prepared(X, BernoulliPartition(-np.sum(both, axis=1), ones, zeros), log_base)
    constants = bessel_constants(X.shape[1]).values()
    return Prepared(X, VonMisesFisherPartition(float(known.concentration), *constants), log_base)

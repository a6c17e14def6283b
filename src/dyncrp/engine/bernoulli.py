"""The compiled Bernoulli family.

A table keeps the logarithms (for "variational", digammas) of its two Beta parameters in every dimension up to date;
an observation that joins it changes one of the two in each. The score is linear in x: Σ_d x_d (one − zero)_d plus a
constant. A table that the block has touched is screened by itself for the rest of it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dyncrp.engine import stream
from dyncrp.engine.jit import Box, borrowed, cached
from dyncrp.engine.special import digamma
from dyncrp.engine.stream import FAST, UNIT, Float, Work, best_of_chunks, remember_touched
from dyncrp.families import Bernoulli

STATISTICS = ("sums", "counts", "misses")  # what a file keeps
RECENTRES = False  # whether screening has a reference point


class Tables(NamedTuple):
    """The tables' statistics and what is derived from them; the last two are common to all tables."""

    sums: Float  # (capacity, D) Σ r x
    counts: Float  # (capacity,) Σ r
    misses: Float  # (capacity, D) Σ r (1 − x)
    one: Float  # (capacity, D) log(a + s)
    zero: Float  # (capacity, D) log(b + misses)
    odds: NDArray[np.float32]  # (capacity, D) one − zero
    screen_constant: NDArray[np.float32]  # (capacity,)
    constant: Float  # (capacity,) Σ_d zero − log(a + b + n)
    reference: Float  # unused
    hyper: Float  # variational, whether a + b is the same in every dimension, a_0, …, b_0, …, and an empty table's logs


def make_tables(family: Bernoulli, D: int, capacity: int, variational: bool) -> Tables:
    """Return room for ``capacity`` tables of D features."""
    a, b = np.broadcast_to(family.a, D), np.broadcast_to(family.b, D)
    return Tables(
        sums=np.zeros((capacity, D)),
        counts=np.zeros(capacity),
        misses=np.zeros((capacity, D)),
        one=np.zeros((capacity, D)),
        zero=np.zeros((capacity, D)),
        odds=np.zeros((capacity, D), dtype=np.float32),
        screen_constant=np.zeros(capacity, dtype=np.float32),
        constant=np.zeros(capacity),
        reference=np.zeros(D),
        hyper=np.concatenate(
            [[variational, np.ptp(a + b) == 0], a, b, np.log(a / (a + b)), np.log(b / (a + b))], dtype=np.float64
        ),
    )


def screen_width(D: int) -> int:
    """Return how many numbers a row is screened by."""
    return D


def coordinates(family: Bernoulli, D: int) -> tuple[Float, Float]:
    """Return the shift 0 and the scale 1: rows are in the user's coordinates."""
    return np.zeros(D), np.ones(D)


@njit(forceinline=True)
def _log_or_digamma(value: float, tables: Tables) -> float:
    return digamma(value) if tables.hyper[0] > 0 else math.log(value)


@njit(fastmath=FAST, forceinline=True)
def _refresh_constant(c: int, tables: Tables) -> None:
    D = tables.sums.shape[1]
    total = 0.0
    size = 0.0
    for d in range(D):
        total += tables.zero[c, d]
        odds = tables.one[c, d] - tables.zero[c, d]
        size += abs(odds)
        tables.odds[c, d] = odds
    if tables.hyper[1] > 0:
        total -= D * _log_or_digamma(tables.hyper[2] + tables.hyper[2 + D] + tables.counts[c], tables)
    else:
        for d in range(D):
            total -= _log_or_digamma(tables.hyper[2 + d] + tables.hyper[2 + D + d] + tables.counts[c], tables)
    tables.constant[c] = total
    tables.screen_constant[c] = total + UNIT * ((D + 8) * size + 4.0 * abs(total))


@njit(forceinline=True)
def _refresh(c: int, tables: Tables) -> None:
    D = tables.sums.shape[1]
    for d in range(D):
        tables.one[c, d] = _log_or_digamma(tables.hyper[2 + d] + tables.sums[c, d], tables)
        tables.zero[c, d] = _log_or_digamma(tables.hyper[2 + D + d] + tables.misses[c, d], tables)
    _refresh_constant(c, tables)


@njit(forceinline=True)
def _prepare(Y: Float, i: int, b: int, K: int, learn: bool, tables: Tables, work: Work) -> None:
    for m in range(b):
        for d in range(Y.shape[1]):
            work.rows[m, d] = Y[i + m, d]
    if K > 0:
        np.dot(work.rows[:b], tables.odds[:K].T, work.flat[: b * K].reshape(b, K))


@njit(fastmath=FAST, forceinline=True)
def _screen(y: Float, m: int, b: int, K0: int, K: int, tables: Tables, work: Work) -> float:
    for c in range(K0):
        work.screened[c] = tables.screen_constant[c] + work.flat[m * K0 + c]
    for j in range(work.touched[0]):
        c = work.touched[1 + j]
        product = np.float32(0.0)
        for d in range(y.shape[0]):
            product += work.rows[m, d] * tables.odds[c, d]
        work.screened[c] = tables.screen_constant[c] + product
    best_of_chunks(K, work)
    return 1e-4


@njit(fastmath=FAST, forceinline=True)
def _score(y: Float, c: int, tables: Tables, fresh: bool) -> tuple[float, float]:
    D = y.shape[0]
    total = 0.0
    if fresh:
        for d in range(D):
            total += y[d] * tables.hyper[2 + 2 * D + d] + (1.0 - y[d]) * tables.hyper[2 + 3 * D + d]
        return total, 0.0
    for d in range(D):
        total += y[d] * (tables.one[c, d] - tables.zero[c, d])
    return tables.constant[c] + total, 0.0


@njit(forceinline=True)
def _rescore(y: Float, c: int, aux: float, r: float, tables: Tables) -> float:
    D = y.shape[0]
    total = 0.0
    for d in range(D):
        if y[d] > 0.5:
            total += digamma(tables.hyper[2 + d] + tables.sums[c, d] + r)
        else:
            total += digamma(tables.hyper[2 + D + d] + tables.misses[c, d] + r)
        total -= digamma(tables.hyper[2 + d] + tables.hyper[2 + D + d] + tables.counts[c] + r)
    return total


@njit(forceinline=True)
def _open_table(m: int, b: int, c: int, K0: int, tables: Tables, work: Work) -> None:
    tables.sums[c] = 0.0
    tables.misses[c] = 0.0
    tables.counts[c] = 0.0
    _refresh(c, tables)


@njit(forceinline=True)
def _touch(y: Float, m: int, b: int, c: int, w: float, K0: int, tables: Tables, work: Work) -> None:
    tables.counts[c] += w
    D = y.shape[0]
    for d in range(D):
        if y[d] > 0.5:
            tables.sums[c, d] += w
            tables.one[c, d] = _log_or_digamma(tables.hyper[2 + d] + tables.sums[c, d], tables)
        else:
            tables.misses[c, d] += w
            tables.zero[c, d] = _log_or_digamma(tables.hyper[2 + D + d] + tables.misses[c, d], tables)
    _refresh_constant(c, tables)
    remember_touched(c, work)


@cached
def refresh_all(K: int, tables: Tables) -> None:
    """Recompute everything derived from the statistics of the first K tables."""
    for c in range(K):
        _refresh(c, tables)


@cached
def run(job: Box, B: int, start: int) -> int:
    """See ``stream.run``."""
    return stream.run(_prepare, _screen, _score, _rescore, _open_table, _touch, borrowed(job.content), B, start)

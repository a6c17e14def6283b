"""The compiled von Mises–Fisher family.

A table with s = Σ r x has h = κ s, a = |h|; with b = |h + κx| and F the scaled Bessel function of ``special``,

    predictive:   log C(κ) + log F(b) − log F(a) = log C(0) + e(b) − e(a) − e(κ) + (b − a − κ),  e = log F − identity
    variational:  log C(κ) + κ A(a) (h·x)/a,     A = F'/F, the Bessel ratio.

log F is convex, so that log F(b) − log F(a) ≤ A(b) (b − a) whichever is larger. Screening bounds A(b) from the right
side by Amos's (1974) x/(ν + ½ + √(x² + (ν + ½)²)) ≥ A(x) ≥ x/(ν + ½ + √(x² + (ν + 3/2)²)), so it takes square roots
only, and needs a Bessel function only for the tables that are left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dyncrp.engine import stream
from dyncrp.engine.jit import Box, borrowed, cached
from dyncrp.engine.special import bessel_constants, bessel_excess, bessel_ratio
from dyncrp.engine.stream import FAST, LARGEST_BLOCK, UNIT, Float, Work, best_of_chunks
from dyncrp.families import VonMisesFisher
from dyncrp.families.bessel import log_normalizer, log_uniform

STATISTICS = ("sums", "counts")  # what a file keeps
RECENTRES = False  # whether screening has a reference point


class Tables(NamedTuple):
    """The tables' statistics and what is derived from them; the last three are common to all tables."""

    sums: Float  # (capacity, D) Σ r x
    counts: Float  # (capacity,) Σ r
    natural: NDArray[np.float32]  # (capacity, D) h = κ Σ r x
    length: NDArray[np.float32]  # (capacity,) a = |h|
    pull: NDArray[np.float32]  # (capacity,) κ A(a)/a
    norm: Float  # (capacity,) |s|
    excess: Float  # (capacity,) log F(a) − a
    exact_pull: Float  # (capacity,) κ A(a)/a
    reference: Float  # unused: the sphere has its own origin
    hyper: Float  # κ, log C(κ), variational, log C(0), log C(0) − e(κ)
    bessel: Float  # see special.bessel_constants


def make_tables(family: VonMisesFisher, D: int, capacity: int, variational: bool) -> Tables:
    """Return room for ``capacity`` tables of D features."""
    kappa = family.concentration
    log_c = float(log_normalizer(D, kappa))
    return Tables(
        sums=np.zeros((capacity, D)),
        counts=np.zeros(capacity),
        natural=np.zeros((capacity, D), dtype=np.float32),
        length=np.zeros(capacity, dtype=np.float32),
        pull=np.zeros(capacity, dtype=np.float32),
        norm=np.zeros(capacity),
        excess=np.zeros(capacity),
        exact_pull=np.zeros(capacity),
        reference=np.zeros(D),
        hyper=np.array([kappa, log_c, variational, log_uniform(D), log_c + kappa]),
        bessel=bessel_constants(D),
    )


def screen_width(D: int) -> int:
    """Return how many numbers a row is screened by."""
    return D


def coordinates(family: VonMisesFisher, D: int) -> tuple[Float, Float]:
    """Return the shift 0 and the scale 1: rows are in the user's coordinates."""
    return np.zeros(D), np.ones(D)


@njit(fastmath=FAST, forceinline=True)
def _refresh(c: int, tables: Tables) -> None:
    kappa = tables.hyper[0]
    square = 0.0
    for d in range(tables.sums.shape[1]):
        square += tables.sums[c, d] * tables.sums[c, d]
        tables.natural[c, d] = kappa * tables.sums[c, d]
    tables.norm[c] = math.sqrt(square)
    length = kappa * tables.norm[c]
    tables.length[c] = length
    if tables.hyper[2] > 0:
        tables.exact_pull[c] = kappa * _ratio_over(length, tables)
        tables.pull[c] = tables.exact_pull[c]
    else:
        tables.excess[c] = bessel_excess(length, tables.bessel)


@njit(forceinline=True)
def _ratio_over(length: float, tables: Tables) -> float:
    """Return A(a)/a, which is 1/D at a = 0."""
    if length < 1e-8:
        return 1.0 / tables.sums.shape[1]
    return bessel_ratio(length, tables.bessel) / length


@njit(forceinline=True)
def _prepare(Y: Float, i: int, b: int, K: int, learn: bool, tables: Tables, work: Work) -> None:
    for m in range(b):
        for d in range(Y.shape[1]):
            work.rows[m, d] = Y[i + m, d]
    rows = work.rows[:b]
    if K > 0:
        np.dot(rows, tables.natural[:K].T, work.flat[: b * K].reshape(b, K))
    if learn:
        np.dot(rows, rows.T, work.gram[: b * b].reshape(b, b))


@njit(fastmath=FAST, forceinline=True)
def _bound(product: np.float32, c: int, tables: Tables, kappa: np.float32, low: np.float32, high: np.float32) -> float:
    """Return an upper bound of log F(b) − log F(a), given h·x."""
    two = np.float32(2.0)
    a = tables.length[c]
    rise = kappa * (two * product + kappa)  # b² − a²
    b = math.sqrt(max(a * a + rise, np.float32(0.0)))
    step = rise / (a + b + np.float32(1e-30))
    edge = low if step >= np.float32(0.0) else high
    return step * b / (low + math.sqrt(b * b + edge * edge))


@njit(fastmath=FAST, forceinline=True)
def _screen(y: Float, m: int, b: int, K0: int, K: int, tables: Tables, work: Work) -> float:
    kappa = np.float32(tables.hyper[0])
    log_c = np.float32(tables.hyper[1])
    low = np.float32(tables.bessel[0] + 0.5)
    high = np.float32(tables.bessel[0] + 1.5)
    if tables.hyper[2] > 0:
        for c in range(K0):
            work.screened[c] = log_c + tables.pull[c] * work.flat[m * K0 + c]
        for c in range(K0, K):
            work.screened[c] = log_c + tables.pull[c] * work.opened[m, c - K0]
    else:
        for c in range(K0):
            work.screened[c] = log_c + _bound(work.flat[m * K0 + c], c, tables, kappa, low, high)
        for c in range(K0, K):
            work.screened[c] = log_c + _bound(work.opened[m, c - K0], c, tables, kappa, low, high)
    best_of_chunks(K, work)
    D = y.shape[0]
    worst = max(2.0, 2.0 * tables.hyper[0] / D)
    return (D + LARGEST_BLOCK + 16) * UNIT * tables.hyper[0] * worst + 1e-6 * (1.0 + abs(tables.hyper[1]))


@njit(fastmath=FAST, forceinline=True)
def _score(y: Float, c: int, tables: Tables, fresh: bool) -> tuple[float, float]:
    """Return the score of table c, or of an empty one, and s·x."""
    if fresh:
        return tables.hyper[3], 0.0
    kappa = tables.hyper[0]
    if tables.hyper[2] > 0:
        product = 0.0
        for d in range(y.shape[0]):
            product += tables.sums[c, d] * y[d]
        return tables.hyper[1] + tables.exact_pull[c] * kappa * product, product
    square = 0.0
    product = 0.0
    for d in range(y.shape[0]):
        total = tables.sums[c, d] + y[d]
        square += total * total
        product += tables.sums[c, d] * y[d]
    norm = math.sqrt(square)
    growth = kappa * ((2.0 * product + 1.0) / (norm + tables.norm[c]) - 1.0)
    return tables.hyper[4] + bessel_excess(kappa * norm, tables.bessel) - tables.excess[c] + growth, 0.0


@njit(forceinline=True)
def _rescore(y: Float, c: int, product: float, r: float, tables: Tables) -> float:
    kappa = tables.hyper[0]
    square = 0.0
    for d in range(y.shape[0]):
        total = tables.sums[c, d] + r * y[d]
        square += total * total
    return tables.hyper[1] + kappa * _ratio_over(kappa * math.sqrt(square), tables) * kappa * (product + r)


@njit(forceinline=True)
def _open_table(m: int, b: int, c: int, K0: int, tables: Tables, work: Work) -> None:
    tables.sums[c] = 0.0
    tables.counts[c] = 0.0
    for later in range(m + 1, b):
        work.opened[later, c - K0] = 0.0


@njit(fastmath=FAST, forceinline=True)
def _touch(y: Float, m: int, b: int, c: int, w: float, K0: int, tables: Tables, work: Work) -> None:
    tables.counts[c] += w
    for d in range(y.shape[0]):
        tables.sums[c, d] += w * y[d]
    _refresh(c, tables)
    move = np.float32(w * tables.hyper[0])
    if c < K0:
        for later in range(m + 1, b):
            work.flat[later * K0 + c] += move * work.gram[m * b + later]
    else:
        for later in range(m + 1, b):
            work.opened[later, c - K0] += move * work.gram[m * b + later]


@cached
def refresh_all(K: int, tables: Tables) -> None:
    """Recompute everything derived from the statistics of the first K tables."""
    for c in range(K):
        _refresh(c, tables)


@cached
def run(job: Box, B: int, start: int) -> int:
    """See ``stream.run``."""
    return stream.run(_prepare, _screen, _score, _rescore, _open_table, _touch, borrowed(job.content), B, start)

"""The compiled Gaussian family with a prior variance of its own for each direction (in units of the variance).

Rows are y = (x − m₀)/σ; direction d has prior precision p_d = σ_d²/ρ_d², and a table that took in n observations has
precision q_d = p_d + n and mean μ_d = Σ r y_d / q_d there. Its scores are

    predictive:   −½ Σ_d log 2π(1 + 1/q_d) + q_d/(q_d+1) (y_d − μ_d)²
    variational:  −½ Σ_d log 2π + (y_d − μ_d)² + 1/q_d

Screening is one product of (y, y²) with the tables' (a μ, −½a), a = q/(q+1). A table that the block has touched is
screened by itself for the rest of it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dyncrp.engine import stream
from dyncrp.engine.gaussian import HUGE, coordinates
from dyncrp.engine.jit import Box, borrowed, cached
from dyncrp.engine.stream import FAST, UNIT, Float, Work, best_of_chunks, remember_touched
from dyncrp.families.gaussian import LOG_2PI, Gaussian

__all__ = ["RECENTRES", "STATISTICS", "Tables", "coordinates", "make_tables", "refresh_all", "run", "screen_width"]


STATISTICS = ("sums", "counts")  # what a file keeps
RECENTRES = True  # whether screening has a reference point


class Tables(NamedTuple):
    """The tables' statistics and what is derived from them; the last two are common to all tables."""

    sums: Float  # (capacity, D) Σ r y
    counts: Float  # (capacity,) Σ r
    weights: NDArray[np.float32]  # (capacity, 2D): a (μ − reference), −½ a
    screen_constant: NDArray[np.float32]  # (capacity,)
    constant: Float  # (capacity,)
    reference: Float  # (D,)
    hyper: Float  # log normaliser, variational, that of an empty table, p_0, …, p_0/(p_0+1), …


def make_tables(family: Gaussian, D: int, capacity: int, variational: bool) -> Tables:
    """Return room for ``capacity`` tables of D features."""
    precision = np.broadcast_to(np.asarray(family.variance / family.prior_variance), D)
    log_normalizer = -0.5 * D * LOG_2PI - float(np.sum(np.log(coordinates(family, D)[1])))
    empty = log_normalizer - 0.5 * np.sum(np.log1p(1.0 / precision))
    return Tables(
        sums=np.zeros((capacity, D)),
        counts=np.zeros(capacity),
        weights=np.zeros((capacity, 2 * D), dtype=np.float32),
        screen_constant=np.zeros(capacity, dtype=np.float32),
        constant=np.zeros(capacity),
        reference=np.zeros(D),
        hyper=np.concatenate([[log_normalizer, variational, empty], precision, precision / (precision + 1.0)]),
    )


def screen_width(D: int) -> int:
    """Return how many numbers a row is screened by."""
    return 2 * D


@njit(fastmath=FAST, forceinline=True)
def _refresh(c: int, tables: Tables) -> None:
    D = tables.sums.shape[1]
    n = tables.counts[c]
    variational = tables.hyper[1] > 0
    norm = 0.0
    square = 0.0
    constant = 0.0
    product = 1.0
    for d in range(D):
        q = tables.hyper[3 + d] + n
        center = tables.sums[c, d] / q - tables.reference[d]
        if variational:
            a = 1.0
            constant += 1.0 / q
        else:
            a = q / (q + 1.0)
            product *= a
            if d % 8 == 7:  # a logarithm for eight directions at a time
                constant -= math.log(product)
                product = 1.0
        norm += center * center
        square += a * center * center
        tables.weights[c, d] = a * center
        tables.weights[c, D + d] = -0.5 * a
    constant -= math.log(product)
    tables.constant[c] = tables.hyper[0] - 0.5 * constant
    if norm > HUGE:
        tables.screen_constant[c] = np.inf
        for d in range(2 * D):
            tables.weights[c, d] = 0.0
    else:
        tables.screen_constant[c] = tables.constant[c] - 0.5 * square + (2 * D + 8) * UNIT * norm


@njit(fastmath=FAST, forceinline=True)
def _prepare(Y: Float, i: int, b: int, K: int, learn: bool, tables: Tables, work: Work) -> None:
    D = Y.shape[1]
    for m in range(b):
        norm = 0.0
        for d in range(D):
            value = Y[i + m, d] - tables.reference[d]
            norm += value * value
            work.rows[m, d] = value
            work.rows[m, D + d] = value * value
        work.origin[m, 0] = norm
        if norm > HUGE:
            for d in range(2 * D):
                work.rows[m, d] = 0.0
    if K > 0:
        np.dot(work.rows[:b], tables.weights[:K].T, work.flat[: b * K].reshape(b, K))


@njit(fastmath=FAST, forceinline=True)
def _screen(y: Float, m: int, b: int, K0: int, K: int, tables: Tables, work: Work) -> float:
    for c in range(K0):
        work.screened[c] = tables.screen_constant[c] + work.flat[m * K0 + c]
    for j in range(work.touched[0]):
        c = work.touched[1 + j]
        product = np.float32(0.0)
        for d in range(tables.weights.shape[1]):
            product += work.rows[m, d] * tables.weights[c, d]
        work.screened[c] = tables.screen_constant[c] + product
    best_of_chunks(K, work)
    if work.origin[m, 0] > HUGE:
        return math.inf
    D = y.shape[0]
    return (2 * D + 8) * UNIT * work.origin[m, 0] + 1e-6 * (1.0 + abs(tables.hyper[0]) + abs(tables.hyper[2]))


@njit(fastmath=FAST, forceinline=True)
def _score(y: Float, c: int, tables: Tables, fresh: bool) -> tuple[float, float]:
    n = 0.0 if fresh else tables.counts[c]
    square = 0.0
    if fresh:
        for d in range(y.shape[0]):
            square += tables.hyper[3 + y.shape[0] + d] * y[d] * y[d]
        return tables.hyper[2] - 0.5 * square, 0.0
    if tables.hyper[1] > 0:
        for d in range(y.shape[0]):
            gap = y[d] - tables.sums[c, d] / (tables.hyper[3 + d] + n)
            square += gap * gap
    else:
        for d in range(y.shape[0]):
            q = tables.hyper[3 + d] + n
            gap = y[d] - tables.sums[c, d] / q
            square += gap * gap * (q / (q + 1.0))
    return tables.constant[c] - 0.5 * square, 0.0


@njit(fastmath=FAST, forceinline=True)
def _rescore(y: Float, c: int, aux: float, r: float, tables: Tables) -> float:
    total = 0.0
    for d in range(y.shape[0]):
        q = tables.hyper[3 + d] + tables.counts[c]
        gap = (q * y[d] - tables.sums[c, d]) / (q + r)
        total += gap * gap + 1.0 / (q + r)
    return tables.hyper[0] - 0.5 * total


@njit(forceinline=True)
def _open_table(m: int, b: int, c: int, K0: int, tables: Tables, work: Work) -> None:
    tables.sums[c] = 0.0
    tables.counts[c] = 0.0


@njit(fastmath=FAST, forceinline=True)
def _touch(y: Float, m: int, b: int, c: int, w: float, K0: int, tables: Tables, work: Work) -> None:
    tables.counts[c] += w
    for d in range(y.shape[0]):
        tables.sums[c, d] += w * y[d]
    _refresh(c, tables)
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

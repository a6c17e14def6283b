"""The compiled Gaussian family with one prior variance for all directions (in units of the variance).

Rows are y = (x − m₀)/σ, so that clusters have unit variance, means have prior precision p = σ²/ρ², and a table that
took in n observations has precision q = p + n and mean μ = Σ r y / q. Its scores are

    predictive:   −½ D log 2π(1 + 1/q) − ½ q/(q+1) |y − μ|²
    variational:  −½ D log 2π − ½ |y − μ|² − ½ D/q

Screening expands |y − μ|² about a reference point near the data, where single precision loses little; when table c
takes in w of row n, its mean moves by λ = w/q towards y_n, and so do its inner products with the rest of the block.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dyncrp.engine import stream
from dyncrp.engine.jit import Box, borrowed, cached
from dyncrp.engine.stream import CHUNK, FAST, LARGEST_BLOCK, NO_NAN, UNIT, Float, Work, best_of_chunks
from dyncrp.families.gaussian import LOG_2PI, Gaussian

HUGE = 1e30  # squares beyond this do not fit single precision


STATISTICS = ("sums", "counts")  # what a file keeps
RECENTRES = True  # whether screening has a reference point


class Tables(NamedTuple):
    """The tables' statistics and what is derived from them; the last two are common to all tables."""

    sums: Float  # (capacity, D) Σ r y
    counts: Float  # (capacity,) Σ r
    centers: NDArray[np.float32]  # (capacity, D) μ − reference
    screen_constant: NDArray[np.float32]  # (capacity,)
    screen_half: NDArray[np.float32]  # (capacity,) ½ weight of the squared distance
    constant: Float  # (capacity,) the same two for scoring, without the reference point
    half: Float
    reference: Float  # (D,)
    hyper: Float  # p, log normaliser, variational, log normaliser of an empty table, ½ p/(p+1)


def make_tables(family: Gaussian, D: int, capacity: int, variational: bool) -> Tables:
    """Return room for ``capacity`` tables of D features."""
    precision = np.broadcast_to(np.asarray(family.variance / family.prior_variance), D)[0]
    log_normalizer = -0.5 * D * LOG_2PI - float(np.sum(np.log(coordinates(family, D)[1])))
    return Tables(
        sums=np.zeros((capacity, D)),
        counts=np.zeros(capacity),
        centers=np.zeros((capacity, D), dtype=np.float32),
        screen_constant=np.zeros(capacity, dtype=np.float32),
        screen_half=np.zeros(capacity, dtype=np.float32),
        constant=np.zeros(capacity),
        half=np.zeros(capacity),
        reference=np.zeros(D),
        hyper=np.array(
            [
                precision,
                log_normalizer,
                variational,
                log_normalizer - 0.5 * D * np.log1p(1.0 / precision),
                0.5 * precision / (precision + 1.0),
            ]
        ),
    )


def screen_width(D: int) -> int:
    """Return how many numbers a row is screened by."""
    return D


def coordinates(family: Gaussian, D: int) -> tuple[Float, Float]:
    """Return the shift m₀ and the scale σ of y = (x − shift)/scale, (D,) both; with directions, of their z."""
    shift = np.asarray(family.prior_mean if family.directions is None else 0.0)
    return np.broadcast_to(shift, D), np.broadcast_to(np.sqrt(family.variance), D)


@njit(fastmath=FAST, forceinline=True)
def _refresh(c: int, tables: Tables) -> None:
    """Recompute what is derived from the statistics of table c."""
    D = tables.sums.shape[1]
    p = tables.hyper[0]
    q = p + tables.counts[c]
    norm = 0.0
    scale = 1.0 / q
    for d in range(D):
        center = scale * tables.sums[c, d] - tables.reference[d]
        norm += center * center
        tables.centers[c, d] = center
    if tables.hyper[2] > 0:
        constant, half = -0.5 * D / q, 0.5
    else:
        constant, half = -0.5 * D * math.log1p(1.0 / q), 0.5 * q / (q + 1.0)
    tables.constant[c] = constant + tables.hyper[1]
    tables.half[c] = half
    if norm > HUGE:
        tables.screen_constant[c] = np.inf
        tables.screen_half[c] = 0.0
        for d in range(D):
            tables.centers[c, d] = 0.0
    else:
        tables.screen_constant[c] = tables.constant[c] - half * norm + (D + LARGEST_BLOCK + 8) * UNIT * norm
        tables.screen_half[c] = half


@njit(forceinline=True)
def _directly(b: int, D: int) -> bool:
    """Tell whether inner products are cheaper one by one than as a matrix product with its corrections."""
    return b == 1 or D <= 4


@njit(fastmath=FAST, forceinline=True)
def _prepare(Y: Float, i: int, b: int, K: int, learn: bool, tables: Tables, work: Work) -> None:
    D = Y.shape[1]
    for m in range(b):
        norm = 0.0
        prior = 0.0
        for d in range(D):
            value = Y[i + m, d] - tables.reference[d]
            norm += value * value
            prior -= value * tables.reference[d]
            work.rows[m, d] = value
        work.origin[m, 0] = norm
        work.origin[m, 1] = prior
        if norm > HUGE:
            for d in range(D):
                work.rows[m, d] = 0.0
    if _directly(b, D):
        return
    rows = work.rows[:b]
    if K > 0:
        np.dot(rows, tables.centers[:K].T, work.flat[: b * K].reshape(b, K))
    if learn:
        np.dot(rows, rows.T, work.gram[: b * b].reshape(b, b))


@njit(fastmath=NO_NAN, forceinline=True)
def _screen(y: Float, m: int, b: int, K0: int, K: int, tables: Tables, work: Work) -> float:
    norm = work.origin[m, 0]
    n = np.float32(norm) if norm < HUGE else np.float32(0.0)
    two = np.float32(2.0)
    if _directly(b, y.shape[0]):
        for c in range(K):
            product = np.float32(0.0)
            for d in range(y.shape[0]):
                product += work.rows[m, d] * tables.centers[c, d]
            work.screened[c] = tables.screen_constant[c] + tables.screen_half[c] * (two * product - n)
        best_of_chunks(K, work)
    else:
        _screen_from_products(m, K0, K, n, tables, work)
    if norm > HUGE:
        return math.inf
    return (y.shape[0] + LARGEST_BLOCK + 8) * UNIT * norm + 1e-6 * (1.0 + abs(tables.hyper[1]) + abs(tables.hyper[3]))


@njit(fastmath=NO_NAN, forceinline=True)
def _screen_from_products(m: int, K0: int, K: int, n: np.float32, tables: Tables, work: Work) -> None:
    two = np.float32(2.0)
    for j in range((K + CHUNK - 1) // CHUNK):
        best = -np.float32(np.inf)
        for c in range(j * CHUNK, min(K0, (j + 1) * CHUNK)):
            value = tables.screen_constant[c] + tables.screen_half[c] * (two * work.flat[m * K0 + c] - n)
            work.screened[c] = value
            best = max(best, value)
        for c in range(max(K0, j * CHUNK), min(K, (j + 1) * CHUNK)):
            value = tables.screen_constant[c] + tables.screen_half[c] * (two * work.opened[m, c - K0] - n)
            work.screened[c] = value
            best = max(best, value)
        work.best[j] = best


@njit(fastmath=FAST, forceinline=True)
def _score(y: Float, c: int, tables: Tables, fresh: bool) -> tuple[float, float]:
    """Return the score of table c, or of an empty one, and |y − μ|²."""
    D = y.shape[0]
    p = tables.hyper[0]
    square = 0.0
    if fresh:
        for d in range(D):
            square += y[d] * y[d]
        return tables.hyper[3] - tables.hyper[4] * square, square
    scale = 1.0 / (p + tables.counts[c])
    for d in range(D):
        gap = y[d] - scale * tables.sums[c, d]
        square += gap * gap
    return tables.constant[c] - tables.half[c] * square, square


@njit(forceinline=True)
def _rescore(y: Float, c: int, square: float, r: float, tables: Tables) -> float:
    q = tables.hyper[0] + tables.counts[c]
    shrink = q / (q + r)
    return tables.hyper[1] - 0.5 * y.shape[0] / (q + r) - 0.5 * shrink * shrink * square


@njit(forceinline=True)
def _open_table(m: int, b: int, c: int, K0: int, tables: Tables, work: Work) -> None:
    tables.sums[c] = 0.0
    tables.counts[c] = 0.0
    if not _directly(b, tables.sums.shape[1]):
        for later in range(m + 1, b):
            prior = work.origin[later, 1]
            work.opened[later, c - K0] = prior if abs(prior) < HUGE else 0.0  # then the table is never screened out


@njit(fastmath=FAST, forceinline=True)
def _touch(y: Float, m: int, b: int, c: int, w: float, K0: int, tables: Tables, work: Work) -> None:
    tables.counts[c] += w
    for d in range(y.shape[0]):
        tables.sums[c, d] += w * y[d]
    _refresh(c, tables)
    if _directly(b, y.shape[0]):
        return
    move = np.float32(w / (tables.hyper[0] + tables.counts[c]))
    keep = np.float32(1.0) - move
    if c < K0:
        for later in range(m + 1, b):
            work.flat[later * K0 + c] = keep * work.flat[later * K0 + c] + move * work.gram[m * b + later]
    else:
        for later in range(m + 1, b):
            work.opened[later, c - K0] = keep * work.opened[later, c - K0] + move * work.gram[m * b + later]


@cached
def refresh_all(K: int, tables: Tables) -> None:
    """Recompute everything derived from the statistics of the first K tables."""
    for c in range(K):
        _refresh(c, tables)


@cached
def run(job: Box, B: int, start: int) -> int:
    """See ``stream.run``."""
    return stream.run(_prepare, _screen, _score, _rescore, _open_table, _touch, borrowed(job.content), B, start)

"""The compiled Gaussian family whose tables have a variance of their own in each direction.

Rows are y = (x − m₀)/σ₀; direction d has prior precision p_d = σ₀²/ρ² there, and a table that took in n observations has
ν + n degrees of freedom, precision q_d = p_d + n, mean μ_d = Σ r y_d / q_d and sum of squares B_d = ν + scatter_d. With
a = (ν + n)/2 its scores are

    predictive:   Σ_d log Γ(a+½) − log Γ(a) − ½ log πB_d(1 + 1/q_d) − (a + ½) log(1 + q_d/(q_d+1) (y_d − μ_d)²/B_d)
    variational:  −½ Σ_d log π + log B_d − ψ(a) + 2a/B_d (y_d − μ_d)² + 1/q_d

The scatter is not a difference of sums of squares but a sum of its own, which loses no digits far from m₀: an
observation of weight r adds r q/(q + r) (y − μ)² to it, with q and μ as they were before.

Screening uses that Π(1 + z_d) ≥ 1 + Σ z_d. That leaves one sum of squares, a product of (y, y²) with the tables' weights as
for a known variance, and one logarithm from below. A table that the block has touched is screened by itself for the rest
of it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dyncrp.engine import stream
from dyncrp.engine.jit import borrowed, cached
from dyncrp.engine.special import digamma, log_gamma_half
from dyncrp.engine.stream import BLUNT, FAST, NO_NAN, UNIT, Float, Job, Work, best_of_chunks, remember_touched
from dyncrp.families.gaussian import LOG_2PI
from dyncrp.families.gaussian_unknown_variance import GaussianUnknownVariance

STATISTICS = ("sums", "counts", "scatter")  # what a file keeps
RECENTRES = True  # whether screening has a reference point

FAR = 1e20  # squares beyond this, and
STEEP = 1e16  # weights beyond this, are not screened: their product would not fit single precision
LARGEST_POWER = np.float32(1e30)
BEND = np.float32(0.27)  # log₂(1 + f) ≥ f + BEND f(1 − f) for 0 ≤ f ≤ 1
LOG_2 = np.float32(0.6931471)  # rounded down


class Tables(NamedTuple):
    """The tables' statistics and what is derived from them; the last two are common to all tables."""

    sums: Float  # (capacity, D) Σ r y
    counts: Float  # (capacity,) Σ r
    scatter: Float  # (capacity, D) B − ν
    centers: Float  # (capacity, D) μ
    gains: Float  # (capacity, D) q/(q+1)/B; variational: (ν+n)/B
    constant: Float  # (capacity,)
    power: Float  # (capacity,) a + ½
    weights: NDArray[np.float32]  # (capacity, 2D): v (μ − reference), −½ v, where v is power · gain; variational: ½ gain
    screen_constant: NDArray[np.float32]  # (capacity,)
    screen_offset: NDArray[np.float32]  # (capacity,) Σ_d v (μ − reference)², less rounding
    screen_slack: NDArray[np.float32]  # (capacity,) rounding for each unit of |y − reference|²
    screen_power: NDArray[np.float32]  # (capacity,) power, rounded down
    reference: Float  # (D,)
    hyper: Float  # log normaliser, variational, that of an empty table, ν, p_0, …, an empty table's gains


def make_tables(family: GaussianUnknownVariance, D: int, capacity: int, variational: bool) -> Tables:
    """Return room for ``capacity`` tables of D features."""
    p = np.broadcast_to(np.asarray(family.variance / family.prior_variance), D)
    log_normalizer = -0.5 * D * LOG_2PI - float(np.sum(np.log(coordinates(family, D)[1])))
    empty = log_normalizer + D * log_gamma_half(0.5 * family.degrees) - 0.5 * np.sum(np.log1p(1.0 / p))
    gains = p / (p + 1.0) / family.degrees
    single = np.float32
    return Tables(
        sums=np.zeros((capacity, D)),
        counts=np.zeros(capacity),
        scatter=np.zeros((capacity, D)),
        centers=np.zeros((capacity, D)),
        gains=np.zeros((capacity, D)),
        constant=np.zeros(capacity),
        power=np.zeros(capacity),
        weights=np.zeros((capacity, 2 * D), single),
        screen_constant=np.zeros(capacity, single),
        screen_offset=np.zeros(capacity, single),
        screen_slack=np.zeros(capacity, single),
        screen_power=np.zeros(capacity, single),
        reference=np.zeros(D),
        hyper=np.concatenate([[log_normalizer, variational, empty, family.degrees], p, gains]),
    )


def screen_width(D: int) -> int:
    """Return how many numbers a row is screened by."""
    return 2 * D


def coordinates(family: GaussianUnknownVariance, D: int) -> tuple[Float, Float]:
    """Return the shift m₀ and the scale σ₀ of y = (x − shift)/scale, (D,) both."""
    return np.broadcast_to(np.asarray(family.prior_mean), D), np.broadcast_to(np.sqrt(family.variance), D)


def squares(tables: Tables, K: int) -> Float:
    """Return Σ r y² of the first K tables, (K, D): the law's statistic, from which the scatter could not be had back."""
    D = tables.sums.shape[1]
    q = tables.hyper[4 : 4 + D] + tables.counts[:K, None]
    return tables.scatter[:K] + tables.sums[:K] * (tables.sums[:K] / q)


@njit(forceinline=True)
def _drained(product: float, logs: float) -> tuple[float, float]:
    """Take the logarithm of a product before another factor can make it overflow."""
    if product > 1e20 or product < 1e-20:
        return 1.0, logs + math.log(product)
    return product, logs


@njit(fastmath=FAST, forceinline=True)
def _refresh(c: int, tables: Tables) -> None:
    D = tables.sums.shape[1]
    n = tables.counts[c]
    nu = tables.hyper[3]
    degrees = nu + n
    power = 0.5 * (degrees + 1.0)
    variational = tables.hyper[1] > 0
    logs, product = 0.0, 1.0  # a logarithm for many directions at a time
    uncertainty = 0.0
    norm = 0.0
    square = 0.0
    steepest = 0.0
    for d in range(D):
        q = tables.hyper[4 + d] + n
        B = nu + tables.scatter[c, d]
        mean = tables.sums[c, d] / q
        product, logs = _drained(product * (B / degrees), logs)
        if variational:
            gain = degrees / B
            v = 0.5 * gain
            uncertainty += 1.0 / q
        else:
            gain = q / (q + 1.0) / B
            v = power * gain
            product, logs = _drained(product * (1.0 + 1.0 / q), logs)
        tables.centers[c, d] = mean
        tables.gains[c, d] = gain
        center = mean - tables.reference[d]
        norm += center * center
        square += v * center * center
        steepest = max(steepest, v)
        tables.weights[c, d] = v * center
        tables.weights[c, D + d] = -0.5 * v
    logs += math.log(product)
    half = 0.5 * degrees
    excess = 0.5 * (digamma(half) - math.log(half)) if variational else log_gamma_half(half)
    tables.constant[c] = tables.hyper[0] + D * excess - 0.5 * (logs + uncertainty)
    tables.power[c] = power
    if norm > FAR or steepest > STEEP:
        tables.screen_constant[c] = np.inf
        tables.screen_offset[c] = 0.0
        tables.screen_slack[c] = 0.0
        tables.screen_power[c] = 1.0
        for d in range(2 * D):
            tables.weights[c, d] = 0.0
    else:
        rounding = (2 * D + 16) * UNIT * steepest
        tables.screen_constant[c] = tables.constant[c] + 4.0 * UNIT * abs(tables.constant[c])
        tables.screen_offset[c] = square - rounding * norm
        tables.screen_slack[c] = 2.0 * rounding
        tables.screen_power[c] = min(power * (1.0 - 1e-6), LARGEST_POWER)


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
        if norm > FAR:
            for d in range(2 * D):
                work.rows[m, d] = 0.0
    if K > 0:
        np.dot(work.rows[:b], tables.weights[:K].T, work.flat[: b * K].reshape(b, K))


@njit(fastmath=NO_NAN, forceinline=True)
def _bound(c: int, product: Any, norm: Any, linear: bool, tables: Tables) -> Any:
    """Return the most that the score of table c can be, from its product with the row, in single precision.

    With S ≥ 0 no more than the power times Σ z_d, the score is the constant less power · log(1 + S/power). From below, the
    logarithm is log 2 times exponent and mantissa of its argument, which are the chords of log₂, with a parabola added;
    and log(1 + t) ≥ t − t²/2, which is the better one for small t.
    """
    S = tables.screen_offset[c] - np.float32(2.0) * product - tables.screen_slack[c] * norm
    S = max(S, np.float32(0.0))
    fall = S
    if not linear:
        power = tables.screen_power[c]
        t = S / power
        bits = np.float32(np.float32(1.0 - 3e-7) + t).view(np.int32) - np.int32(0x3F800000)
        f = np.float32(bits & np.int32(0x7FFFFF)) * np.float32(2.0**-23)
        chord = np.float32(bits) * np.float32(2.0**-23)
        log = LOG_2 * (chord + BEND * f * (np.float32(1.0) - f))
        fall = max(power * log, S * (np.float32(1.0) - np.float32(0.5) * t))
    return tables.screen_constant[c] - np.float32(1.0 - 1e-6) * fall


@njit(fastmath=NO_NAN, forceinline=True)
def _screen(y: Float, m: int, b: int, K0: int, K: int, tables: Tables, work: Work) -> float:
    seen = work.origin[m, 0] <= FAR
    norm = np.float32(work.origin[m, 0]) if seen else np.float32(0.0)
    steepest = np.float32(0.0)
    if tables.hyper[1] > 0:
        for c in range(K0):
            work.screened[c] = _bound(c, work.flat[m * K0 + c], norm, True, tables)
            steepest = max(steepest, tables.screen_slack[c])
    else:
        for c in range(K0):
            work.screened[c] = _bound(c, work.flat[m * K0 + c], norm, False, tables)
            steepest = max(steepest, tables.screen_slack[c])
    for j in range(work.touched[0]):
        c = work.touched[1 + j]
        product = np.float32(0.0)
        for d in range(tables.weights.shape[1]):
            product += work.rows[m, d] * tables.weights[c, d]
        work.screened[c] = _bound(c, product, norm, tables.hyper[1] > 0, tables)
    best_of_chunks(K, work)
    if not seen:
        return math.inf
    # The slack is in the bounds already; a nearer reference point is asked for where it takes the edge off them.
    if norm * steepest > BLUNT:
        return 1.001 * BLUNT
    return 1e-6 * (1.0 + abs(tables.hyper[0]) + abs(tables.hyper[2]))


@njit(fastmath=FAST, forceinline=True)
def _with_factor(product: float, z: float) -> float:
    """Return (1 + product)(1 + z) − 1, to which small z add up without loss."""
    return product + (z + z * product)


@njit(fastmath=FAST, forceinline=True)
def _log_of_product(y: Float, c: int, tables: Tables) -> float:
    """Return Σ_d log(1 + gain_d (y_d − μ_d)²) by one logarithm; four products go on side by side."""
    D = y.shape[0]
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = D - D % 4
    for d in range(0, whole, 4):
        one = _with_factor(one, tables.gains[c, d] * (y[d] - tables.centers[c, d]) ** 2)
        two = _with_factor(two, tables.gains[c, d + 1] * (y[d + 1] - tables.centers[c, d + 1]) ** 2)
        three = _with_factor(three, tables.gains[c, d + 2] * (y[d + 2] - tables.centers[c, d + 2]) ** 2)
        four = _with_factor(four, tables.gains[c, d + 3] * (y[d + 3] - tables.centers[c, d + 3]) ** 2)
    for d in range(whole, D):
        one = _with_factor(one, tables.gains[c, d] * (y[d] - tables.centers[c, d]) ** 2)
    product = _with_factor(_with_factor(one, two), _with_factor(three, four))
    if product < 1e300:
        return math.log1p(product)
    total = 0.0
    for d in range(D):
        total += math.log1p(tables.gains[c, d] * (y[d] - tables.centers[c, d]) ** 2)
    return total


@njit(fastmath=FAST, forceinline=True)
def _log_of_empty_product(y: Float, tables: Tables) -> float:
    """Return the same of an empty table."""
    D = y.shape[0]
    one, two = 0.0, 0.0
    whole = D - D % 2
    for d in range(0, whole, 2):
        one = _with_factor(one, tables.hyper[4 + D + d] * y[d] ** 2)
        two = _with_factor(two, tables.hyper[5 + D + d] * y[d + 1] ** 2)
    if whole < D:
        one = _with_factor(one, tables.hyper[4 + D + whole] * y[whole] ** 2)
    product = _with_factor(one, two)
    if product < 1e300:
        return math.log1p(product)
    total = 0.0
    for d in range(D):
        total += math.log1p(tables.hyper[4 + D + d] * y[d] ** 2)
    return total


@njit(fastmath=FAST, forceinline=True)
def _score(y: Float, c: int, tables: Tables, fresh: bool) -> tuple[float, float]:
    if fresh:
        return tables.hyper[2] - 0.5 * (tables.hyper[3] + 1.0) * _log_of_empty_product(y, tables), 0.0
    if tables.hyper[1] > 0:
        square = 0.0
        for d in range(y.shape[0]):
            square += tables.gains[c, d] * (y[d] - tables.centers[c, d]) ** 2
        return tables.constant[c] - 0.5 * square, 0.0
    return tables.constant[c] - tables.power[c] * _log_of_product(y, c, tables), 0.0


@njit(fastmath=FAST, forceinline=True)
def _rescore(y: Float, c: int, aux: float, r: float, tables: Tables) -> float:
    nu = tables.hyper[3]
    degrees = nu + tables.counts[c] + r
    logs, product = 0.0, 1.0
    total = 0.0
    for d in range(y.shape[0]):
        q = tables.hyper[4 + d] + tables.counts[c]
        shrink = q / (q + r)
        gap = y[d] - tables.centers[c, d]
        B = nu + (tables.scatter[c, d] + r * shrink * gap * gap)
        product, logs = _drained(product * (B / degrees), logs)
        total += degrees / B * (shrink * gap) ** 2 + 1.0 / (q + r)
    total += logs + math.log(product)
    half = 0.5 * degrees
    return tables.hyper[0] + 0.5 * y.shape[0] * (digamma(half) - math.log(half)) - 0.5 * total


@njit(forceinline=True)
def _open_table(m: int, b: int, c: int, K0: int, tables: Tables, work: Work) -> None:
    tables.sums[c] = 0.0
    tables.counts[c] = 0.0
    tables.scatter[c] = 0.0


@njit(fastmath=FAST, forceinline=True)
def _touch(y: Float, m: int, b: int, c: int, w: float, K0: int, tables: Tables, work: Work) -> None:
    n = tables.counts[c]
    tables.counts[c] += w
    for d in range(y.shape[0]):
        q = tables.hyper[4 + d] + n
        gap = y[d] - tables.sums[c, d] / q
        tables.scatter[c, d] += w * (q / (q + w)) * gap * gap
        tables.sums[c, d] += w * y[d]
    _refresh(c, tables)
    remember_touched(c, work)


@cached
def refresh_all(K: int, tables: Tables) -> None:
    """Recompute everything derived from the statistics of the first K tables."""
    for c in range(K):
        _refresh(c, tables)


@cached
def run(job: Job, B: int, start: int) -> int:
    """See ``stream.run``."""
    return stream.run(_prepare, _screen, _score, _rescore, _open_table, _touch, borrowed(job), B, start)

"""The compiled Gaussian family whose tables have a variance of their own in each direction.

Rows are y = (x − m₀)/σ₀; direction d has prior precision p_d = σ₀²/ρ², and a table of n observations has ν + n
degrees of freedom, precision q_d = p_d + n, mean μ_d = Σ r y_d / q_d and sum of squares B_d = ν + scatter_d. With
a = (ν + n)/2 its scores are

    predictive:   Σ_d log Γ(a+½) − log Γ(a) − ½ log πB_d(1 + 1/q_d) − (a + ½) log(1 + q_d/(q_d+1) (y_d − μ_d)²/B_d)
    variational:  −½ Σ_d log π + log B_d − ψ(a) + 2a/B_d (y_d − μ_d)² + 1/q_d

The scatter is not a difference of sums of squares but a sum of its own, which loses no digits far from m₀: an
observation of weight r adds r q/(q + r) (y − μ)² to it, with q and μ as they were before.

Screening uses that Π_d (1 + z_d) ≥ Π_g (1 + Σ_{d in g} z_d) for groups g of directions. That leaves one sum of squares
a group, a product of (1, y, y²) with the tables' weights as for a known variance, and one logarithm in all, from below.
The smaller the groups, the sooner small tables are ruled out; where few tables are small, one group will do. A table
that the block has touched is screened by itself for the rest of it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dyncrp.engine import stream
from dyncrp.engine.jit import Box, borrowed, cached
from dyncrp.engine.special import digamma, log_gamma_half
from dyncrp.engine.stream import BLUNT, FAST, NO_NAN, UNIT, Float, Work, best_of_chunks, remember_touched
from dyncrp.families.gaussian import LOG_2PI
from dyncrp.families.normal_gamma import NormalGamma

STATISTICS = ("sums", "counts", "scatter")  # what a file keeps
RECENTRES = True  # whether screening has a reference point

FAR = 1e20  # squares beyond this, and
STEEP = 1e14  # weights beyond this, are not screened: their product would not fit single precision
GROUP = 16  # directions that are screened as one, while there are
MOST_GROUPS = 8  # at most
FEW = 0.1  # share of small tables that is cheaper to score than to screen by groups
LARGEST_SUM = np.float32(1e4)  # of a group among several, whose product must fit single precision,
LARGEST_LONE_SUM = np.float32(1e32)  # and of one that is alone
LARGEST_POWER = 1e30
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
    weights: NDArray[np.float32]  # (capacity, 2D + G): −½ Σ v (μ − reference)², v (μ − reference), −½ v of each group,
    # less rounding, where v is power · gain; variational: ½ gain
    screen_constant: NDArray[np.float32]  # (capacity,)
    screen_power: NDArray[np.float32]  # (capacity,) power, rounded down
    screen_scale: NDArray[np.float32]  # (capacity,) −2/power, rounded towards 0
    steepest: NDArray[np.float32]  # (capacity,) the largest v
    reference: Float  # (D,)
    hyper: Float  # log normaliser, variational, that of an empty table, ν, p_0, …, an empty table's gains


def make_tables(family: NormalGamma, D: int, capacity: int, variational: bool) -> Tables:
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
        weights=np.zeros((capacity, screen_width(D)), single),
        screen_constant=np.zeros(capacity, single),
        screen_power=np.zeros(capacity, single),
        screen_scale=np.zeros(capacity, single),
        steepest=np.zeros(capacity, single),
        reference=np.zeros(D),
        hyper=np.concatenate([[log_normalizer, variational, empty, family.degrees], p, gains]),
    )


@njit(forceinline=True)
def _n_groups(D: int) -> int:
    return min(MOST_GROUPS, max(1, D // GROUP))


def screen_width(D: int) -> int:
    """Return how many numbers a row is screened by: 1, y and y² of each group."""
    return 2 * D + int(_n_groups(D))


def coordinates(family: NormalGamma, D: int) -> tuple[Float, Float]:
    """Return the shift m₀ and the scale σ₀ of y = (x − shift)/scale, (D,) both."""
    return np.broadcast_to(np.asarray(family.prior_mean), D), np.broadcast_to(np.sqrt(family.variance), D)


def squares(tables: Tables, K: int) -> Float:
    """Return Σ r y² of the first K tables, (K, D): the law's statistic, which may have lost the scatter's digits."""
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
    steepest = 0.0
    for d in range(D):
        q = tables.hyper[4 + d] + n
        B = nu + tables.scatter[c, d]
        product, logs = _drained(product * (B / degrees), logs)
        if variational:
            gain = degrees / B
            uncertainty += 1.0 / q
        else:
            gain = q / (q + 1.0) / B
            product, logs = _drained(product * (1.0 + 1.0 / q), logs)
        center = tables.sums[c, d] / q
        tables.centers[c, d] = center
        tables.gains[c, d] = gain
        norm += (center - tables.reference[d]) ** 2
        steepest = max(steepest, gain)
    scale = 0.5 if variational else power
    steepest *= scale
    G = _n_groups(D)
    kept = 1.0 - 2.0 * (2 * D + G + 20) * UNIT  # what rounding leaves of a sum of squares
    column = 0
    for g in range(G):
        first, last = g * D // G, (g + 1) * D // G
        size = last - first
        gains, centers, near = tables.gains[c, first:last], tables.centers[c, first:last], tables.reference[first:last]
        linear = tables.weights[c, column + 1 : column + 1 + size]
        quadratic = tables.weights[c, column + 1 + size : column + 1 + 2 * size]
        square = 0.0
        for j in range(size):
            v = scale * gains[j]
            center = centers[j] - near[j]
            square += v * center * center
            linear[j] = v * center
            quadratic[j] = -0.5 * kept * v
        tables.weights[c, column] = -0.5 * kept * square
        column += 1 + 2 * size
    logs += math.log(product)
    half = 0.5 * degrees
    excess = 0.5 * (digamma(half) - math.log(half)) if variational else log_gamma_half(half)
    tables.constant[c] = tables.hyper[0] + D * excess - 0.5 * (logs + uncertainty)
    tables.power[c] = power
    coarse = min(power, LARGEST_POWER)
    tables.screen_power[c] = (1.0 - 1e-6) * coarse
    tables.screen_scale[c] = -2.0 * (1.0 - 4e-6) / coarse
    if norm > FAR or steepest > STEEP:
        tables.screen_constant[c] = np.inf
        tables.steepest[c] = 0.0
        for j in range(tables.weights.shape[1]):
            tables.weights[c, j] = 0.0
    else:
        tables.screen_constant[c] = tables.constant[c] + 4.0 * UNIT * abs(tables.constant[c])
        tables.steepest[c] = steepest


@njit(fastmath=FAST, forceinline=True)
def _prepare(Y: Float, i: int, b: int, K: int, learn: bool, tables: Tables, work: Work) -> None:
    D = Y.shape[1]
    G = _n_groups(D)
    for m in range(b):
        norm = 0.0
        column = 0
        for g in range(G):
            first, last = g * D // G, (g + 1) * D // G
            size = last - first
            work.rows[m, column] = 1.0
            # Slices, here and below: Numba looks at the sign of any other index, and then uses no vector instructions.
            row, near = Y[i + m, first:last], tables.reference[first:last]
            linear = work.rows[m, column + 1 : column + 1 + size]
            quadratic = work.rows[m, column + 1 + size : column + 1 + 2 * size]
            for j in range(size):
                value = row[j] - near[j]
                norm += value * value
                linear[j] = value
                quadratic[j] = value * value
            column += 1 + 2 * size
        work.origin[m, 0] = norm
        if norm > FAR:
            for j in range(work.rows.shape[1]):
                work.rows[m, j] = 0.0
    if K == 0:
        return
    n_small = 0
    for c in range(K):
        n_small += tables.power[c] < D
    work.origin[0, 1] = G > 1 and tables.hyper[1] == 0 and n_small > FEW * K
    if work.origin[0, 1] == 0:
        np.dot(work.rows[:b], tables.weights[:K].T, work.flat[: b * K].reshape(b, K))
        return
    part = np.empty(b * K, np.float32)
    column = 0
    for g in range(G):
        end = column + 1 + 2 * ((g + 1) * D // G - g * D // G)
        rows = np.ascontiguousarray(work.rows[:b, column:end])
        np.dot(rows, np.ascontiguousarray(tables.weights[:K, column:end]).T, part.reshape(b, K))
        column = end
        for m in range(b):
            _multiply(part[m * K : (m + 1) * K], work.flat[m * K : (m + 1) * K], g == 0, tables.screen_scale[:K])


@njit(fastmath=NO_NAN, forceinline=True)
def _sum(dot: Any, scale: Any, largest: Any) -> Any:
    """Return a lower bound of a group's Σ z_d from the product of its weights with the row."""
    return min(max(scale * dot, np.float32(0.0)), largest)


@njit(fastmath=NO_NAN, forceinline=True)
def _multiply(dots: Any, products: Any, first: bool, scales: Any) -> None:
    """Let the product of each table, less 1, take in another group."""
    if first:
        for c in range(len(dots)):
            products[c] = _sum(dots[c], scales[c], LARGEST_SUM)
    else:
        for c in range(len(dots)):
            t = _sum(dots[c], scales[c], LARGEST_SUM)
            products[c] += t + t * products[c]


@njit(fastmath=NO_NAN, forceinline=True)
def _bound(c: int, product: Any, tables: Tables) -> Any:
    """Return the most that the score of table c can be, from Π_g (1 + Σ z_d) − 1, in single precision.

    From below, a logarithm is log 2 times exponent and mantissa of its argument, which are the chords of log₂, with a
    parabola added; and log(1 + t) ≥ t − t²/2, which is the better one for small t.
    """
    bits = np.float32(np.float32(1.0 - 3e-7) + product).view(np.int32) - np.int32(0x3F800000)
    f = np.float32(bits & np.int32(0x7FFFFF)) * np.float32(2.0**-23)
    log = LOG_2 * (np.float32(bits) * np.float32(2.0**-23) + BEND * f * (np.float32(1.0) - f))
    log = max(log, product * (np.float32(1.0) - np.float32(0.5) * product))
    return tables.screen_constant[c] - tables.screen_power[c] * log


@njit(fastmath=NO_NAN, forceinline=True)
def _linear_bound(c: int, dot: Any, tables: Tables) -> Any:
    """Return the same for "variational"."""
    return tables.screen_constant[c] + np.float32(2.0 * (1.0 - 1e-6)) * min(dot, np.float32(0.0))


@njit(fastmath=NO_NAN, forceinline=True)
def _dot(left: Any, right: Any) -> Any:
    total = np.float32(0.0)
    for j in range(len(left)):
        total += left[j] * right[j]
    return total


@njit(fastmath=NO_NAN, forceinline=True)
def _screen(y: Float, m: int, b: int, K0: int, K: int, tables: Tables, work: Work) -> float:
    D = y.shape[0]
    G = _n_groups(D)
    variational = tables.hyper[1] > 0
    steepest = np.float32(0.0)
    for c in range(K):
        steepest = max(steepest, tables.steepest[c])
    products = work.flat[m * K0 : (m + 1) * K0]
    if variational:
        for c in range(K0):
            work.screened[c] = _linear_bound(c, products[c], tables)
    elif work.origin[0, 1] == 0:  # one group
        for c in range(K0):
            work.screened[c] = _bound(c, _sum(products[c], tables.screen_scale[c], LARGEST_LONE_SUM), tables)
    else:
        for c in range(K0):
            work.screened[c] = _bound(c, products[c], tables)
    for j in range(work.touched[0]):
        c = work.touched[1 + j]
        if variational:
            work.screened[c] = _linear_bound(c, _dot(work.rows[m], tables.weights[c]), tables)
            continue
        product = np.float32(0.0)
        column = 0
        for g in range(G):
            end = column + 1 + 2 * ((g + 1) * D // G - g * D // G)
            dot = _dot(work.rows[m, column:end], tables.weights[c, column:end])
            t = _sum(dot, tables.screen_scale[c], LARGEST_LONE_SUM if G == 1 else LARGEST_SUM)
            product += t + t * product
            column = end
        work.screened[c] = _bound(c, product, tables)
    best_of_chunks(K, work)
    if work.origin[m, 0] > FAR:
        return math.inf
    # Rounding is in the bounds already. A nearer reference point is asked for where it takes the edge off them.
    if 4.0 * (2 * D + G + 20) * UNIT * work.origin[m, 0] * steepest > BLUNT:
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
def run(job: Box, B: int, start: int) -> int:
    """See ``stream.run``."""
    return stream.run(_prepare, _screen, _score, _rescore, _open_table, _touch, borrowed(job.content), B, start)

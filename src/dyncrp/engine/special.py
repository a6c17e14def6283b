"""Digamma, a step of log-gamma, log-Bessel and Bessel ratio for compiled code: arithmetic that Numba can cache on disk.

The same algorithms as in ``families/``, one number at a time.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dyncrp.engine.jit import cached
from dyncrp.families.bessel import DEBYE_ORDER, DEBYE_TERMS, DEBYE_U, DEBYE_V, FRACTION_STEPS, SMALL_Z, STIRLING
from dyncrp.families.normal_gamma import HALF_STEP, SHIFT

Float = NDArray[np.float64]


def bessel_constants(n_features: int) -> Float:
    """Gather what ``bessel_excess`` needs for ν = n_features/2 − 1: [ν, steps, Stirling's remainder, u …, v …].

    u and v are Debye's sums over k at the order μ = ν + steps, as polynomials in p.
    """
    nu = n_features / 2.0 - 1.0
    steps = max(0, math.ceil(DEBYE_ORDER - nu))
    mu = nu + steps
    powers = mu ** -np.arange(DEBYE_TERMS, dtype=np.float64)
    stirling = np.sum(STIRLING * mu ** (1.0 - 2.0 * np.arange(1, len(STIRLING) + 1)))
    return np.concatenate([[nu, steps, stirling], powers @ DEBYE_U, powers @ DEBYE_V])


@cached
def _debye_sum(constants: Float, start: int, p: float) -> float:
    size = (constants.shape[0] - 3) // 2
    total = 0.0
    for power in range(size - 1, -1, -1):
        total = total * p + constants[start + power]
    return total


@cached
def _ratio_at(constants: Float, mu: float, kappa: float, p: float, u: float) -> float:
    """I_{μ+1}(κ)/I_μ(κ): the continued fraction for small κ/μ, Debye's expansions for the rest."""
    z = kappa / mu
    if z < SMALL_Z:
        top = mu + FRACTION_STEPS
        ratio = kappa / (top + math.sqrt(top * top + kappa * kappa))
        for j in range(FRACTION_STEPS, 0, -1):
            ratio = kappa / (2.0 * (mu + j) + kappa * ratio)
        return ratio
    v = _debye_sum(constants, 3 + (constants.shape[0] - 3) // 2, p)
    return (v / (u * p) - 1.0) / z


@cached
def bessel_excess(kappa: float, constants: Float) -> float:
    """Return log F_ν(κ) − κ, where F_ν(κ) = Γ(ν+1) (2/κ)^ν I_ν(κ)."""
    nu, steps = constants[0], int(constants[1])
    mu = nu + steps
    z = kappa / mu
    root = math.sqrt(1.0 + z * z)
    p = 1.0 / root
    u = _debye_sum(constants, 3, p)
    half = 0.5 * z * z / (1.0 + root)
    leading = -mu * (2.0 * mu * half + kappa) / (mu * root + kappa)
    value = leading - mu * math.log1p(half) + constants[2] - 0.5 * math.log(root) + math.log(u)
    if steps > 0:
        ratio = _ratio_at(constants, mu, kappa, p, u)
        product = 1.0
        for j in range(steps, 0, -1):
            product *= 1.0 + kappa * ratio / (2.0 * (nu + j))
            ratio = kappa / (2.0 * (nu + j) + kappa * ratio)
        value += math.log(product)
    return value


@cached
def bessel_ratio(kappa: float, constants: Float) -> float:
    """Return I_{ν+1}(κ)/I_ν(κ)."""
    nu, steps = constants[0], int(constants[1])
    mu = nu + steps
    z = kappa / mu
    p = 1.0 / math.sqrt(1.0 + z * z)
    ratio = _ratio_at(constants, mu, kappa, p, _debye_sum(constants, 3, p))
    for j in range(steps, 0, -1):
        ratio = kappa / (2.0 * (nu + j) + kappa * ratio)
    return ratio


@cached
def digamma(x: float) -> float:
    """Return ψ(x) for x > 0: up by ψ(x) = ψ(x+1) − 1/x to x ≥ 10, then the asymptotic series; NaN for others."""
    if not x > 0.0:
        return math.nan  # and no endless climb from a number far below 0
    shift = 0.0
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * (691 / 32760 - y / 12))))))
    return shift + math.log(x) - 0.5 / x - series


@cached
def log_gamma_half(z: float) -> float:
    """Return log Γ(z + ½) − log Γ(z) − ½ log z for z > 0."""
    rise = 1.0
    for j in range(SHIFT):
        rise *= 1.0 + 0.5 / (z + j)
    top = z + SHIFT
    series = 0.0
    for k in range(HALF_STEP.shape[0] - 1, -1, -1):
        series = series / (top * top) + HALF_STEP[k]
    return series / top + 0.5 * math.log1p(SHIFT / z) - math.log(rise)

"""The gamma function in forms that stay accurate where log Γ itself is huge."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from dyncrp.families.base import Float
from dyncrp.families.bessel import STIRLING
from dyncrp.families.gaussian import LOG_2PI

# log Γ(z + ½) − log Γ(z) − ½ log z ~ −Σ_k (1 − 4⁻ᵏ) B_2k / (k (2k − 1)) z^(1 − 2k), B_2k the Bernoulli numbers; at
# z ≥ SHIFT the first term left out is below 2e-15.
HALF_STEP = np.array([-1 / 8, 1 / 192, -1 / 640, 17 / 14336, -31 / 18432, 691 / 180224])
SHIFT = 10


def log_gamma_half(z: ArrayLike) -> Float:
    """Return log Γ(z + ½) − log Γ(z) − ½ log z for z > 0, to 1e-14, also where the two log Γ are huge.

    Γ(z + 1) = z Γ(z) raises z by 10; the asymptotic series does the rest.

    >>> log_gamma_half([0.5, 1e5]).round(12)  # ½ log 2/π, and −1/(8z) for large z
    array([-2.25791353e-01, -1.25000000e-06])
    """
    z = np.asarray(z, dtype=np.float64)
    rise = np.ones_like(z)
    for j in range(SHIFT):
        rise = rise * (1.0 + 0.5 / (z + j))
    top = z + SHIFT
    series = np.polynomial.polynomial.polyval(1.0 / (top * top), HALF_STEP) / top
    return series + 0.5 * np.log1p(SHIFT / z) - np.log(rise)


def stirling_remainder(z: ArrayLike) -> Float:
    """Return log Γ(z) − (z − ½) log z + z − ½ log 2π for z > 0.

    >>> stirling_remainder([1.0, 1e6]).round(12)  # 1 − ½ log 2π, and 1/(12z) for large z
    array([8.10614668e-02, 8.33330000e-08])
    """
    z = np.asarray(z, dtype=np.float64)
    top = np.maximum(z, SHIFT)
    series = np.polynomial.polynomial.polyval(1.0 / (top * top), STIRLING) / top
    low = np.minimum(z, SHIFT)
    return np.where(z < SHIFT, gammaln(low) - (low - 0.5) * np.log(low) + low - 0.5 * LOG_2PI, series)


def log_rising(a: ArrayLike, s: ArrayLike) -> Float:
    """Return log Γ(a + s) − log Γ(a) for a > 0 and s ≥ 0, also where the two log Γ are huge.

    >>> np.exp(log_rising(3.0, [0.0, 1.0, 2.0])).round(12)
    array([ 1.,  3., 12.])
    """
    a, s = np.asarray(a, dtype=np.float64), np.asarray(s, dtype=np.float64)
    remainders = stirling_remainder(a + s) - stirling_remainder(a)
    return (a - 0.5) * np.log1p(s / a) + s * (np.log(a + s) - 1.0) + remainders

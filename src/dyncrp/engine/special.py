"""What compiled code needs of the Bessel functions of ``families/bessel.py``, for one number of features."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dyncrp.engine.types import Float
from dyncrp.families.bessel import DEBYE_ORDER, DEBYE_TERMS, DEBYE_U, DEBYE_V, STIRLING


class BesselConstants(NamedTuple):
    """Of I_ν: its order ν, steps up to the order μ = ν + steps at which Debye's expansions hold, and these there.

    stirling: Stirling's remainder. u, v: Debye's sums over k, as polynomials in p, lowest power first.
    """

    order: float
    steps: int
    stirling: float
    u: Float
    v: Float


def bessel_constants(n_features: int) -> BesselConstants:
    """Gather what I_ν needs for ν = n_features/2 − 1."""
    order = n_features / 2.0 - 1.0
    steps = max(0, math.ceil(DEBYE_ORDER - order))
    mu = order + steps
    powers = mu ** -np.arange(DEBYE_TERMS, dtype=np.float64)
    stirling = float(np.sum(STIRLING * mu ** (1.0 - 2.0 * np.arange(1, len(STIRLING) + 1))))
    return BesselConstants(order, steps, stirling, powers @ DEBYE_U, powers @ DEBYE_V)

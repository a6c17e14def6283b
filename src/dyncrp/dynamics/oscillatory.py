"""The past returns every period."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dyncrp.arrays.checks import Duration
from dyncrp.dynamics.base import Modes, Timed, combine_modes


@dataclass(frozen=True)
class Oscillatory(Timed):
    """kernel(Δ) = (1 + cos(2πΔ/P))/2: tables come back every period P, and never count negatively.

    Parameters
    ----------
    period : float, timedelta, or None
        P, a positive number in the unit of the times, or a timedelta (then times are seconds). None to learn it.
    """

    period: Duration | None = None

    duration_field = "period"
    periodic = True
    nonnegative = True

    def modes(self) -> Modes:
        """Rates 0 and 2πi/P, one half each."""
        return combine_modes([0.5, 0.5], [0.0, 2j * np.pi / self.duration()])

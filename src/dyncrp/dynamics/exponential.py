"""The past fades at a constant rate."""

from __future__ import annotations

from dataclasses import dataclass

from dyncrp.arrays.checks import Duration
from dyncrp.dynamics.base import Modes, Timed, combine_modes


@dataclass(frozen=True)
class Exponential(Timed):
    """kernel(Δ) = exp(−Δ/τ): the time-sensitive CRP (ℓ = τ ∂N + N).

    Parameters
    ----------
    timescale : float, timedelta, or None
        τ, a positive number in the unit of the times, or a timedelta (then times are seconds). None to learn it.
    """

    timescale: Duration | None = None

    duration_field = "timescale"
    nonnegative = True

    def modes(self) -> Modes:
        """One mode of rate 1/τ."""
        return combine_modes([1.0], [1.0 / self.duration()])

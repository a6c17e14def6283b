"""The past never fades."""

from __future__ import annotations

from dataclasses import dataclass

from dyncrp.dynamics.base import Dynamics, Modes, combine_modes


@dataclass(frozen=True)
class Stationary(Dynamics):
    """kernel(Δ) = 1: nothing is forgotten. This is the Chinese Restaurant Process (ℓ = ∂N)."""

    nonnegative = True

    def modes(self) -> Modes:
        """One mode of rate 0."""
        return combine_modes([1.0], [0.0])

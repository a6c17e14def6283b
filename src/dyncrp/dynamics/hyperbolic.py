"""The past fades quickly, then slowly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from dyncrp.arrays.checks import Duration, integer, positive
from dyncrp.dynamics.base import Modes, Timed, combine_modes


@dataclass(frozen=True)
class Hyperbolic(Timed):
    """kernel(Δ) = 1/(1 + Δ/τ), as a sum of real exponentials.

    1/(1+x) = ∫ exp(−s) exp(−s x) ds is a mixture of exponentials. We take rates in geometric progression and
    the non-negative amplitudes that minimise the relative error on 0 ≤ x ≤ horizon. The default stays within
    2e-6 of the hyperbola up to x = 1e4; ``Hyperbolic(τ, n_modes=48, horizon=1e6)`` within 2e-9 up to 1e6. Past
    the horizon, the kernel falls exponentially, and old tables are forgotten for good.

    Parameters
    ----------
    timescale : float, timedelta, or None
        τ, a positive number in the unit of the times, or a timedelta (then times are seconds). None to learn it.
    n_modes : int
        The largest number of exponentials, 2 to 100. More are more accurate and slower.
    horizon : float
        Up to how many timescales the kernel must be accurate, at most 1e12. An error of more than 1 % up to there
        raises ``ValueError``.
    """

    timescale: Duration | None = None
    n_modes: int = 24
    horizon: float = 1e4

    duration_field = "timescale"
    nonnegative = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "horizon", positive("horizon", self.horizon))
        if self.horizon > 1e12:
            raise ValueError(f"horizon must be at most 1e12 timescales, got {self.horizon}")
        object.__setattr__(self, "n_modes", integer("n_modes", self.n_modes, 2, 100))
        _, error = _hyperbola(self.n_modes, self.horizon)
        if error > 0.01:
            raise ValueError(
                f"n_modes = {self.n_modes} exponentials miss 1/(1 + x) by {100 * error:.2g} % up to the horizon "
                f"{self.horizon:g}, but at most 1 % is allowed; raise n_modes or lower the horizon"
            )

    def modes(self) -> Modes:
        """Real rates; the amplitudes sum to 1, so that kernel(0) = 1."""
        (amplitudes, rates), _ = _hyperbola(self.n_modes, self.horizon)
        return Modes(amplitudes.copy(), rates / self.duration())


@cache
def _hyperbola(n_modes: int, horizon: float) -> tuple[Modes, float]:
    """Fit 1/(1+x) on [0, horizon] by exponentials: geometric rates, non-negative least squares in relative error.

    Returns the modes and the largest relative error.
    """
    from scipy.optimize import nnls  # slow to import, and only needed here

    horizon = max(horizon, 1.0)
    rates = np.geomspace(1.0 / (6.0 * horizon), 12.0, n_modes)
    x = np.concatenate([[0.0], np.geomspace(1e-3, horizon, 20 * n_modes)])
    relative = np.exp(-np.multiply.outer(x, rates)) * (1.0 + x)[:, None]
    amplitudes, _ = nnls(relative, np.ones(len(x)), maxiter=100 * n_modes)
    amplitudes /= np.sum(amplitudes)
    error = float(np.max(np.abs(relative @ amplitudes - 1.0)))
    return combine_modes(amplitudes[amplitudes > 0], rates[amplitudes > 0]), error

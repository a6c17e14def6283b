"""Any linear differential equation, by its coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dyncrp.dynamics.base import Dynamics, Modes, combine_modes

HIGHEST_ORDER = 50  # finding the roots takes the cube of it, and they get inaccurate


@dataclass(frozen=True)
class LinearODE(Dynamics):
    """The solution of Σ_k a_k N^(k) = 0 from N(0) = 1: the paper's ℓ, given by its coefficients.

    The modes are the roots λ of Σ_k a_k λ^k, with rate −λ. The kernel may go negative; occupancies are clipped
    at 0. Repeated roots (whose solutions have powers of Δ) and solutions that grow without bound raise ``ValueError``.

    Parameters
    ----------
    coefficients : sequence of float
        a_0 … a_p, lowest order first, p ≥ 1, a_p ≠ 0.
    derivatives : sequence of float, optional
        N'(0), …, N^(p−1)(0). By default, zeros.

    Examples
    --------
    >>> from dyncrp import Exponential
    >>> LinearODE([1.0, 20.0]).kernel(20.0) - Exponential(20.0).kernel(20.0)
    np.float64(0.0)
    >>> LinearODE([1.0, 0.0, 1.0]).kernel(np.pi).round(12)
    np.float64(-1.0)
    """

    coefficients: Sequence[float]
    derivatives: Sequence[float] | None = None

    def __post_init__(self) -> None:
        coefficients = _reals("coefficients", self.coefficients)
        if len(coefficients) < 2:
            raise ValueError(f"coefficients must be a_0 … a_p with p ≥ 1, got {list(coefficients)}")
        if len(coefficients) > HIGHEST_ORDER + 1:
            raise ValueError(f"coefficients may be a_0 … a_p with p ≤ {HIGHEST_ORDER}, got {len(coefficients)} of them")
        if coefficients[-1] == 0:
            raise ValueError("the highest coefficient a_p must not be 0; leave it out instead")
        extreme = [a for a in coefficients if a and not 1e-70 <= abs(a) <= 1e70]
        if extreme:
            raise ValueError(f"coefficients must be 0 or from 1e-70 to 1e70 in magnitude, got {extreme[0]}")
        order = len(coefficients) - 1
        derivatives = (0.0,) * (order - 1) if self.derivatives is None else _reals("derivatives", self.derivatives)
        if len(derivatives) != order - 1:
            raise ValueError(f"an equation of order {order} takes {order - 1} derivatives at 0, got {len(derivatives)}")
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "derivatives", derivatives)
        self.modes()

    def modes(self) -> Modes:
        """Solve for the amplitudes that give the initial derivatives."""
        polynomial, unit = _balance(np.array(self.coefficients))
        too_different = ValueError(f"LinearODE({list(self.coefficients)}) has roots of too different sizes to be found")
        if np.max(np.abs(polynomial)) > 1e30:
            raise too_different
        roots = np.roots(polynomial).astype(np.complex128)
        slope = np.polyder(polynomial)
        with np.errstate(all="ignore"):
            for _ in range(3):  # Newton steps: small roots have only the accuracy of the largest
                step = np.polyval(polynomial, roots) / np.polyval(slope, roots)
                roots -= np.where(np.isfinite(step), step, 0.0)
        gaps = np.abs(roots[:, None] - roots) - 1e-4 * np.maximum(np.abs(roots[:, None]), np.abs(roots))
        np.fill_diagonal(gaps, np.inf)
        # Rounding scatters a root of multiplicity k by ε^(1/k), which may exceed that gap; a small p'(λ) reveals it.
        steepness = np.abs(np.polyval(slope, roots))
        rounding = np.finfo(float).eps * np.polyval(np.abs(polynomial), np.abs(roots))
        multiple = (np.min(gaps, axis=0) <= 0) | (rounding > 1e-6 * np.abs(roots) * steepness)
        if np.any(multiple):
            repeated = roots[np.argmax(multiple)] * unit
            raise ValueError(
                f"LinearODE({list(self.coefficients)}) has a repeated root ({repeated:.6g}), "
                "whose solution is not a sum of exponentials; change a coefficient slightly"
            )
        if np.any(np.abs(step) > 1e-6 * np.abs(roots)):
            raise too_different
        # Rounding must not damp or inflate an undamped oscillation.
        order = len(roots)
        undamped = (roots.imag != 0) & (np.abs(roots.real) * steepness < 4 * order * rounding)
        roots.real[undamped] = 0.0
        size = max(np.max(np.abs(roots)), np.finfo(float).tiny)
        start = np.array([1.0, *(self.derivatives or ())])
        for k in range(1, order):
            start[k:] /= size * unit
        try:
            amplitudes = np.linalg.solve(np.vander(roots / size, increasing=True).T, start)
        except np.linalg.LinAlgError:
            raise too_different from None
        kept = np.abs(amplitudes) > 1e-13 * np.max(np.abs(amplitudes))
        if np.any(roots[kept].real > 0):
            worst = roots[kept][np.argmax(roots[kept].real)] * unit
            raise ValueError(
                f"LinearODE({list(self.coefficients)}) grows without bound (root {worst:.6g}); "
                "every root in use must have a real part ≤ 0"
            )
        return combine_modes(amplitudes[kept], -roots[kept] * unit)


def _reals(name: str, values: object) -> tuple[float, ...]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be a sequence of finite real numbers, got {values!r}")
    return tuple(array.astype(float).tolist())


def _balance(coefficients: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the polynomial, highest order first, in a unit of λ in which its outermost coefficients are ±1."""
    lowest, order = int(np.flatnonzero(coefficients)[0]), len(coefficients) - 1
    ratio = abs(coefficients[lowest] / coefficients[order])
    powers = (np.arange(order + 1) - order) / max(order - lowest, 1)
    return (coefficients / coefficients[order] * ratio**powers)[::-1], ratio ** (1.0 / max(order - lowest, 1))

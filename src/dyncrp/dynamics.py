"""Dynamics: how much an earlier customer still counts today (the paper's linear operator ℓ).

Every dynamics is a short sum of complex exponentials, ℓ in its eigenbasis:

    kernel(Δ) = Re Σ_m amplitude_m · exp(−rate_m · Δ),    Δ ≥ 0.

A table's occupancy state is one complex number per mode, s_m. Time multiplies it by exp(−rate_m Δ), a customer
adds its responsibility, and the occupancy reads out as Re Σ_m amplitude_m s_m. Nothing else in the library
knows more about a dynamics than its modes.

To add a dynamics: subclass :class:`Dynamics` with one method, ``modes``, and add a line to ``DYNAMICS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from dyncrp.checks import Duration, duration, positive

Complex = NDArray[np.complex128]


class Modes(NamedTuple):
    """The modes of a dynamics: ``amplitudes`` a_m and ``rates``, both complex of shape (M,), Re rate ≥ 0."""

    amplitudes: Complex
    rates: Complex


class Dynamics(ABC):
    """A kernel as a sum of modes, with the algebra ``a + b``, ``0.3 * a`` and ``a * b``.

    >>> sticky = 0.999 * Exponential(2.0) + 0.001 * Stationary()
    >>> sticky
    0.999 * Exponential(timescale=2.0) + 0.001 * Stationary()
    >>> sticky.kernel([0.0, 100.0])
    array([1.   , 0.001])
    """

    @abstractmethod
    def modes(self) -> Modes:
        """Return the modes of the kernel."""

    @property
    def nonnegative(self) -> bool:
        """Whether the kernel is known never to be negative, so that occupancies need no clipping."""
        return False

    def kernel(self, delta: ArrayLike) -> Any:
        """Return Re Σ_m a_m exp(−rate_m Δ), elementwise, for delays Δ ≥ 0 of any shape.

        >>> Exponential(20.0).kernel(20.0)
        np.float64(0.36787944117144233)
        """
        delays = np.asarray(delta.total_seconds() if isinstance(delta, timedelta) else delta)
        if delays.dtype.kind == "m":
            delays = delays / np.timedelta64(1, "s")
        if delays.dtype.kind not in "iuf":
            raise ValueError(f"delta must be a number or a timedelta, got {delta!r}")
        delays = delays.astype(np.float64)
        if not np.all(np.isfinite(delays)) or np.any(delays < 0):
            raise ValueError(f"delta must be finite and not negative, got {delta!r}")
        amplitudes, rates = self.modes()
        return (np.exp(-np.multiply.outer(delays, rates)) @ amplitudes).real

    def __add__(self, other: object) -> Dynamics:
        if not isinstance(other, Dynamics):
            return NotImplemented
        return Sum(_terms(self) + _terms(other))

    def __mul__(self, other: object) -> Dynamics:
        if isinstance(other, Dynamics):
            return Product(self, other)
        if isinstance(other, (bool, np.bool_)) or not isinstance(other, (int, float, np.integer, np.floating)):
            return NotImplemented
        if isinstance(self, Scaled):
            return Scaled(float(other) * self.weight, self.dynamics)
        return Scaled(float(other), self)

    __rmul__ = __mul__


@dataclass(frozen=True)
class Stationary(Dynamics):
    """kernel(Δ) = 1: nobody is ever forgotten; the Chinese Restaurant Process (ℓ = ∂N)."""

    @property
    def nonnegative(self) -> bool:
        """True."""
        return True

    def modes(self) -> Modes:
        """One mode of rate 0."""
        return _modes([1.0], [0.0])


@dataclass(frozen=True)
class Exponential(Dynamics):
    """kernel(Δ) = exp(−Δ/τ): the time-sensitive CRP (ℓ = τ ∂N + N).

    Args:
        timescale: τ, a positive number in the unit of the times, or a timedelta (then times are seconds).
    """

    timescale: Duration

    def __post_init__(self) -> None:
        object.__setattr__(self, "timescale", duration("timescale", self.timescale))

    @property
    def nonnegative(self) -> bool:
        """True."""
        return True

    def modes(self) -> Modes:
        """One mode of rate 1/τ."""
        return _modes([1.0], [1.0 / float(self.timescale)])  # type: ignore[arg-type]


@dataclass(frozen=True)
class Oscillatory(Dynamics):
    """kernel(Δ) = (1 + cos(2πΔ/P))/2: tables come back every period P, and never count negatively.

    Args:
        period: P, a positive number in the unit of the times, or a timedelta (then times are seconds).
    """

    period: Duration

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", duration("period", self.period))

    @property
    def nonnegative(self) -> bool:
        """True."""
        return True

    def modes(self) -> Modes:
        """Rates 0 and 2πi/P, one half each."""
        return _modes([0.5, 0.5], [0.0, 2j * np.pi / float(self.period)])  # type: ignore[arg-type]


@dataclass(frozen=True)
class Hyperbolic(Dynamics):
    """kernel(Δ) = 1/(1 + Δ/τ), as a sum of real exponentials.

    1/(1+x) = ∫ exp(−s) exp(−s x) ds is a mixture of exponentials; we take rates in geometric progression and
    the non-negative amplitudes that minimise the relative error on 0 ≤ x ≤ horizon. The default stays within
    2e-6 of the hyperbola up to x = 1e4; ``Hyperbolic(τ, n_modes=48, horizon=1e6)`` within 2e-9 up to 1e6. Past
    the horizon the kernel falls exponentially, so old tables are forgotten there for good.

    Args:
        timescale: τ, a positive number in the unit of the times, or a timedelta (then times are seconds).
        n_modes: at most how many exponentials, at least 2: more are more accurate and slower.
        horizon: up to how many timescales the kernel must be accurate.
    """

    timescale: Duration
    n_modes: int = 24
    horizon: float = 1e4

    def __post_init__(self) -> None:
        object.__setattr__(self, "timescale", duration("timescale", self.timescale))
        object.__setattr__(self, "horizon", positive("horizon", self.horizon))
        whole = isinstance(self.n_modes, (int, np.integer)) and not isinstance(self.n_modes, np.timedelta64)
        if not whole or not 2 <= self.n_modes <= 500:
            raise ValueError(f"n_modes must be a whole number from 2 to 500, got {self.n_modes!r}")
        object.__setattr__(self, "n_modes", int(self.n_modes))

    @property
    def nonnegative(self) -> bool:
        """True."""
        return True

    def modes(self) -> Modes:
        """Real rates; the amplitudes sum to 1, so that kernel(0) = 1."""
        amplitudes, rates = _hyperbola(self.n_modes, self.horizon)
        return Modes(amplitudes.copy(), rates / float(self.timescale))  # type: ignore[arg-type]


@dataclass(frozen=True)
class LinearODE(Dynamics):
    """The solution of Σ_k a_k N^(k) = 0 from N(0) = 1: the paper's ℓ, given by its coefficients.

    The modes are the roots λ of Σ_k a_k λ^k, with rate −λ. The kernel may go negative; occupancies are clipped
    at 0. Repeated roots (whose solutions carry powers of Δ) and solutions that grow without bound are refused.

    Args:
        coefficients: a_0 … a_p, lowest order first, p ≥ 1, a_p ≠ 0.
        derivatives: N'(0), …, N^(p−1)(0); zeros unless given.

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
        if coefficients[-1] == 0:
            raise ValueError("the highest coefficient a_p must not be 0; leave it out instead")
        order = len(coefficients) - 1
        derivatives = (0.0,) * (order - 1) if self.derivatives is None else _reals("derivatives", self.derivatives)
        if len(derivatives) != order - 1:
            raise ValueError(f"an equation of order {order} takes {order - 1} derivatives at 0, got {len(derivatives)}")
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "derivatives", derivatives)
        self.modes()

    def modes(self) -> Modes:
        """Solve for the amplitudes that start the roots' exponentials from the given derivatives."""
        roots = np.roots(np.array(self.coefficients)[::-1]).astype(np.complex128)
        size = max(np.max(np.abs(roots)), np.finfo(float).tiny)
        roots = roots / size
        gaps = np.abs(roots[:, None] - roots) - 1e-4 * np.maximum(np.abs(roots[:, None]), np.abs(roots))
        np.fill_diagonal(gaps, np.inf)
        # Rounding scatters a root of multiplicity k by ε^(1/k), maybe past that gap; a small p'(λ) gives it away.
        polynomial = (np.array(self.coefficients) * size ** np.arange(len(roots) + 1))[::-1]
        error = np.finfo(float).eps * np.polyval(np.abs(polynomial), np.abs(roots))
        scattered = error > 1e-6 * np.abs(roots * np.polyval(np.polyder(polynomial), roots))
        multiple = (np.min(gaps, axis=0) <= 0) | scattered
        if np.any(multiple):
            repeated = roots[np.argmax(multiple)] * size
            raise ValueError(
                f"LinearODE({list(self.coefficients)}) has a repeated root ({repeated:.6g}), "
                "whose solution is no sum of exponentials; change a coefficient slightly"
            )
        # Rounding must not damp or inflate an undamped oscillation.
        roots.real[np.abs(roots.real) < 1e-12] = 0.0
        order = len(roots)
        start = np.array([1.0, *(self.derivatives or ())]) / size ** np.arange(order)
        amplitudes = np.linalg.solve(np.vander(roots, increasing=True).T, start)
        kept = np.abs(amplitudes) > 1e-13 * np.max(np.abs(amplitudes))
        if np.any(roots[kept].real > 0):
            worst = roots[kept][np.argmax(roots[kept].real)] * size
            raise ValueError(
                f"LinearODE({list(self.coefficients)}) grows without bound (root {worst:.6g}); "
                "every root in use must have a real part ≤ 0"
            )
        return _modes(amplitudes[kept], -roots[kept] * size)


@dataclass(frozen=True)
class Scaled(Dynamics):
    """``weight * dynamics``."""

    weight: float
    dynamics: Dynamics

    def __post_init__(self) -> None:
        if not np.isfinite(self.weight) or self.weight == 0:
            raise ValueError(f"a dynamics can be scaled by a finite number other than 0, got {self.weight}")

    @property
    def nonnegative(self) -> bool:
        """True for a positive weight on a kernel that is."""
        return self.weight > 0 and self.dynamics.nonnegative

    def modes(self) -> Modes:
        """The amplitudes times the weight."""
        amplitudes, rates = self.dynamics.modes()
        return Modes(self.weight * amplitudes, rates)

    def __repr__(self) -> str:
        return f"{self.weight!r} * {_bracketed(self.dynamics)}"


@dataclass(frozen=True)
class Sum(Dynamics):
    """``a + b``: the kernels add."""

    terms: tuple[Dynamics, ...]

    @property
    def nonnegative(self) -> bool:
        """True if every term is."""
        return all(term.nonnegative for term in self.terms)

    def modes(self) -> Modes:
        """The modes of all terms."""
        parts = [term.modes() for term in self.terms]
        return _modes(np.concatenate([p.amplitudes for p in parts]), np.concatenate([p.rates for p in parts]))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


@dataclass(frozen=True)
class Product(Dynamics):
    """``a * b``: the kernels multiply.

    >>> (Exponential(10.0) * Oscillatory(7.0)).kernel([0.0, 3.5, 7.0]).round(6)
    array([1.      , 0.      , 0.496585])
    """

    left: Dynamics
    right: Dynamics

    @property
    def nonnegative(self) -> bool:
        """True if both are."""
        return self.left.nonnegative and self.right.nonnegative

    def modes(self) -> Modes:
        """Pairwise: Re z · Re w = Re(z w)/2 + Re(z w*)/2, so each pair gives the rates r + s and r + s*."""
        (a, r), (b, s) = self.left.modes(), self.right.modes()
        amplitudes = [np.multiply.outer(a, b), np.multiply.outer(a, b.conj())]
        rates = [np.add.outer(r, s), np.add.outer(r, s.conj())]
        return _modes(np.ravel(amplitudes) / 2, np.ravel(rates))

    def __repr__(self) -> str:
        return f"{_bracketed(self.left)} * {_bracketed(self.right)}"


DYNAMICS: dict[str, type[Dynamics]] = {
    kind.__name__: kind for kind in (Stationary, Exponential, Oscillatory, Hyperbolic, LinearODE, Scaled, Sum, Product)
}


def _terms(dynamics: Dynamics) -> tuple[Dynamics, ...]:
    return dynamics.terms if isinstance(dynamics, Sum) else (dynamics,)


def _bracketed(dynamics: Dynamics) -> str:
    return f"({dynamics!r})" if isinstance(dynamics, (Sum, Scaled, Product)) else repr(dynamics)


def _reals(name: str, values: object) -> tuple[float, ...]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be a sequence of finite real numbers, got {values!r}")
    return tuple(array.astype(float).tolist())


def _modes(amplitudes: ArrayLike, rates: ArrayLike) -> Modes:
    """Fold conjugate rates together (only the real part is ever read) and merge equal ones."""
    amplitudes = np.array(amplitudes, dtype=np.complex128)
    rates = np.array(rates, dtype=np.complex128)
    below = rates.imag < 0
    amplitudes[below], rates[below] = amplitudes[below].conj(), rates[below].conj()
    amplitudes[rates.imag == 0] = amplitudes[rates.imag == 0].real
    merged: list[tuple[complex, complex]] = []
    for amplitude, rate in zip(amplitudes.tolist(), rates.tolist(), strict=True):
        for index, (total, known) in enumerate(merged):
            if abs(rate - known) <= 1e-14 * abs(rate):
                merged[index] = (total + amplitude, known)
                break
        else:
            merged.append((amplitude, rate))
    table = np.array(merged, dtype=np.complex128)
    return Modes(table[:, 0].copy(), table[:, 1].copy())


@cache
def _hyperbola(n_modes: int, horizon: float) -> Modes:
    """Fit 1/(1+x) on [0, horizon] by exponentials: geometric rates, non-negative least squares in relative error."""
    horizon = max(horizon, 1.0)
    rates = np.geomspace(1.0 / (6.0 * horizon), 12.0, n_modes)
    x = np.concatenate([[0.0], np.geomspace(1e-3, horizon, 20 * n_modes)])
    relative = np.exp(-np.multiply.outer(x, rates)) * (1.0 + x)[:, None]
    amplitudes, _ = nnls(relative, np.ones(len(x)), maxiter=100 * n_modes)
    amplitudes /= np.sum(amplitudes)
    return _modes(amplitudes[amplitudes > 0], rates[amplitudes > 0])

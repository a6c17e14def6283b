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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.checks import LATEST, Duration, duration, positive, real, whole

Complex = NDArray[np.complex128]
LARGEST_AMPLITUDE = 1e100
MOST_MODES = 4096


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

    @property
    def n_unknown(self) -> int:
        """How many durations in it are unknown, such as the timescale of ``Exponential()``."""
        return 0

    def settled(self, durations: Iterable[float]) -> Dynamics:
        """Return the same with the unknown durations given, in the order in which they are written.

        >>> (0.9 * Exponential() + 0.1 * Stationary()).settled([5.0])
        0.9 * Exponential(timescale=5.0) + 0.1 * Stationary()
        """
        return self

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
        if not np.all((delays >= 0) & (delays <= 2 * LATEST)):  # then no phase overflows
            raise ValueError(f"delta must be finite and not negative, at most {2 * LATEST:g}, got {delta!r}")
        amplitudes, rates = self.modes()
        return (np.exp(-np.multiply.outer(delays, rates)) @ amplitudes).real

    def __add__(self, other: object) -> Dynamics:
        if not isinstance(other, Dynamics):
            return NotImplemented
        return Sum(_terms(self) + _terms(other))

    def __radd__(self, other: object) -> Dynamics:
        """``0 + dynamics``, with which ``sum`` starts."""
        return self if type(other) is int and other == 0 else NotImplemented

    def __mul__(self, other: object) -> Dynamics:
        if isinstance(other, Dynamics):
            return Product(self, other)
        weight = real(other)
        if weight is None:
            return NotImplemented
        if isinstance(self, Scaled):
            return Scaled(weight * self.weight, self.dynamics)
        return Scaled(weight, self)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Dynamics:
        divisor = real(other)
        if divisor is None:
            return NotImplemented
        return self * (1.0 / divisor if divisor else np.inf)


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
        timescale: τ, a positive number in the unit of the times, or a timedelta (then times are seconds); None is
            unknown, to be learnt from data.
    """

    timescale: Duration | None = None

    def __post_init__(self) -> None:
        if self.timescale is not None:
            object.__setattr__(self, "timescale", duration("timescale", self.timescale))

    @property
    def nonnegative(self) -> bool:
        """True."""
        return True

    @property
    def n_unknown(self) -> int:
        """1 without a timescale."""
        return int(self.timescale is None)

    def settled(self, durations: Iterable[float]) -> Dynamics:
        """Take the timescale, if it is unknown."""
        return Exponential(_next(durations, self)) if self.timescale is None else self

    def modes(self) -> Modes:
        """One mode of rate 1/τ."""
        return _modes([1.0], [1.0 / _known(self, self.timescale)])


@dataclass(frozen=True)
class Oscillatory(Dynamics):
    """kernel(Δ) = (1 + cos(2πΔ/P))/2: tables come back every period P, and never count negatively.

    Args:
        period: P, a positive number in the unit of the times, or a timedelta (then times are seconds); None is
            unknown, to be learnt from data.
    """

    period: Duration | None = None

    def __post_init__(self) -> None:
        if self.period is not None:
            object.__setattr__(self, "period", duration("period", self.period))

    @property
    def nonnegative(self) -> bool:
        """True."""
        return True

    @property
    def n_unknown(self) -> int:
        """1 without a period."""
        return int(self.period is None)

    def settled(self, durations: Iterable[float]) -> Dynamics:
        """Take the period, if it is unknown."""
        return Oscillatory(_next(durations, self)) if self.period is None else self

    def modes(self) -> Modes:
        """Rates 0 and 2πi/P, one half each."""
        return _modes([0.5, 0.5], [0.0, 2j * np.pi / _known(self, self.period)])


@dataclass(frozen=True)
class Hyperbolic(Dynamics):
    """kernel(Δ) = 1/(1 + Δ/τ), as a sum of real exponentials.

    1/(1+x) = ∫ exp(−s) exp(−s x) ds is a mixture of exponentials; we take rates in geometric progression and
    the non-negative amplitudes that minimise the relative error on 0 ≤ x ≤ horizon. The default stays within
    2e-6 of the hyperbola up to x = 1e4; ``Hyperbolic(τ, n_modes=48, horizon=1e6)`` within 2e-9 up to 1e6. Past
    the horizon the kernel falls exponentially, so old tables are forgotten there for good.

    Args:
        timescale: τ, a positive number in the unit of the times, or a timedelta (then times are seconds); None is
            unknown, to be learnt from data.
        n_modes: at most how many exponentials, 2 to 100: more are more accurate and slower.
        horizon: up to how many timescales the kernel must be accurate, at most 1e12. If it then misses the hyperbola
            by more than 1 % anywhere, it is refused.
    """

    timescale: Duration | None = None
    n_modes: int = 24
    horizon: float = 1e4

    def __post_init__(self) -> None:
        if self.timescale is not None:
            object.__setattr__(self, "timescale", duration("timescale", self.timescale))
        object.__setattr__(self, "horizon", positive("horizon", self.horizon))
        if self.horizon > 1e12:
            raise ValueError(f"horizon must be at most 1e12 timescales, got {self.horizon}")
        object.__setattr__(self, "n_modes", whole("n_modes", self.n_modes, 2, 100))
        _, error = _hyperbola(self.n_modes, self.horizon)
        if error > 0.01:
            raise ValueError(
                f"n_modes = {self.n_modes} exponentials miss 1/(1 + x) by {100 * error:.2g} % up to the horizon "
                f"{self.horizon:g}, and 1 % is allowed; raise n_modes or lower the horizon"
            )

    @property
    def nonnegative(self) -> bool:
        """True."""
        return True

    @property
    def n_unknown(self) -> int:
        """1 without a timescale."""
        return int(self.timescale is None)

    def settled(self, durations: Iterable[float]) -> Dynamics:
        """Take the timescale, if it is unknown."""
        return Hyperbolic(_next(durations, self), self.n_modes, self.horizon) if self.timescale is None else self

    def modes(self) -> Modes:
        """Real rates; the amplitudes sum to 1, so that kernel(0) = 1."""
        (amplitudes, rates), _ = _hyperbola(self.n_modes, self.horizon)
        return Modes(amplitudes.copy(), rates / _known(self, self.timescale))


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
        """Solve for the amplitudes that start the roots' exponentials from the given derivatives."""
        polynomial, unit = _balanced(np.array(self.coefficients))
        too_different = ValueError(f"LinearODE({list(self.coefficients)}) has roots of sizes too different to be found")
        if np.max(np.abs(polynomial)) > 1e30:
            raise too_different
        roots = np.roots(polynomial).astype(np.complex128)
        slope = np.polyder(polynomial)
        with np.errstate(all="ignore"):
            for _ in range(3):  # by Newton, since a small root is found no better than the largest one allows
                step = np.polyval(polynomial, roots) / np.polyval(slope, roots)
                roots -= np.where(np.isfinite(step), step, 0.0)
        gaps = np.abs(roots[:, None] - roots) - 1e-4 * np.maximum(np.abs(roots[:, None]), np.abs(roots))
        np.fill_diagonal(gaps, np.inf)
        # Rounding scatters a root of multiplicity k by ε^(1/k), maybe past that gap; a small p'(λ) gives it away.
        steepness = np.abs(np.polyval(slope, roots))
        rounding = np.finfo(float).eps * np.polyval(np.abs(polynomial), np.abs(roots))
        multiple = (np.min(gaps, axis=0) <= 0) | (rounding > 1e-6 * np.abs(roots) * steepness)
        if np.any(multiple):
            repeated = roots[np.argmax(multiple)] * unit
            raise ValueError(
                f"LinearODE({list(self.coefficients)}) has a repeated root ({repeated:.6g}), "
                "whose solution is no sum of exponentials; change a coefficient slightly"
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
        return _modes(amplitudes[kept], -roots[kept] * unit)


@dataclass(frozen=True)
class Scaled(Dynamics):
    """``weight * dynamics``."""

    weight: float
    dynamics: Dynamics

    def __post_init__(self) -> None:
        weight = real(self.weight)
        if weight is None or not 1.0 / LARGEST_AMPLITUDE <= abs(weight) <= LARGEST_AMPLITUDE:
            raise ValueError(
                f"a dynamics can be scaled by a finite number from 1e-100 to 1e100 in magnitude, got {self.weight!r}"
            )
        object.__setattr__(self, "weight", weight)
        if not self.n_unknown:
            self.modes()

    @property
    def nonnegative(self) -> bool:
        """True for a positive weight on a kernel that is."""
        return self.weight > 0 and self.dynamics.nonnegative

    @property
    def n_unknown(self) -> int:
        """As many as its parts have."""
        return self.dynamics.n_unknown

    def settled(self, durations: Iterable[float]) -> Dynamics:
        """Settle the parts, from left to right."""
        durations = iter(durations)
        return Scaled(self.weight, self.dynamics.settled(durations))

    def modes(self) -> Modes:
        """The amplitudes times the weight."""
        amplitudes, rates = self.dynamics.modes()
        return _modes(self.weight * amplitudes, rates)

    def __repr__(self) -> str:
        return f"{self.weight!r} * {_bracketed(self.dynamics)}"


@dataclass(frozen=True)
class Sum(Dynamics):
    """``a + b``: the kernels add."""

    terms: tuple[Dynamics, ...]

    def __post_init__(self) -> None:
        if not self.n_unknown:
            self.modes()

    @property
    def nonnegative(self) -> bool:
        """True if every term is."""
        return all(term.nonnegative for term in self.terms)

    @property
    def n_unknown(self) -> int:
        """As many as its parts have."""
        return sum(term.n_unknown for term in self.terms)

    def settled(self, durations: Iterable[float]) -> Dynamics:
        """Settle the parts, from left to right."""
        durations = iter(durations)
        return Sum(tuple(term.settled(durations) for term in self.terms))

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

    def __post_init__(self) -> None:
        if not self.n_unknown:
            self.modes()

    @property
    def nonnegative(self) -> bool:
        """True if both are."""
        return self.left.nonnegative and self.right.nonnegative

    @property
    def n_unknown(self) -> int:
        """As many as its parts have."""
        return self.left.n_unknown + self.right.n_unknown

    def settled(self, durations: Iterable[float]) -> Dynamics:
        """Settle the parts, from left to right."""
        durations = iter(durations)
        return Product(self.left.settled(durations), self.right.settled(durations))

    def modes(self) -> Modes:
        """Pairwise: Re z · Re w = Re(z w)/2 + Re(z w*)/2, so each pair gives the rates r + s and r + s*."""
        (a, r), (b, s) = self.left.modes(), self.right.modes()
        _check_count(len(a) * len(b))
        amplitudes = [np.multiply.outer(a, b), np.multiply.outer(a, b.conj())]
        rates = [np.add.outer(r, s), np.add.outer(r, s.conj())]
        return _modes(np.ravel(amplitudes) / 2, np.ravel(rates))

    def __repr__(self) -> str:
        return f"{_bracketed(self.left)} * {_bracketed(self.right)}"


DYNAMICS: dict[str, type[Dynamics]] = {
    kind.__name__: kind for kind in (Stationary, Exponential, Oscillatory, Hyperbolic, LinearODE, Scaled, Sum, Product)
}


def durations(dynamics: Dynamics) -> list[float]:
    """Return the timescales and periods in a dynamics, from left to right.

    >>> durations(0.9 * Exponential(3.0) + 0.1 * Stationary())
    [3.0]
    """
    if isinstance(dynamics, (Exponential, Hyperbolic)):
        return [dynamics.timescale] if dynamics.timescale is not None else []  # type: ignore[list-item]
    if isinstance(dynamics, Oscillatory):
        return [dynamics.period] if dynamics.period is not None else []  # type: ignore[list-item]
    parts: tuple[Dynamics, ...] = ()
    if isinstance(dynamics, Scaled):
        parts = (dynamics.dynamics,)
    elif isinstance(dynamics, Sum):
        parts = dynamics.terms
    elif isinstance(dynamics, Product):
        parts = (dynamics.left, dynamics.right)
    return [length for part in parts for length in durations(part)]


def _next(durations: Iterable[float], dynamics: Dynamics) -> float:
    """Return the duration that is due."""
    for length in durations:
        return length
    raise ValueError(f"there is no duration left for {dynamics!r}; n_unknown says how many are needed")


def _known(dynamics: Dynamics, value: Duration | None) -> float:
    """Return a duration that the modes need."""
    if value is None:
        raise ValueError(
            f"{dynamics!r} has an unknown duration, which DynamicalMixture or dyncrp.tune can learn from data; "
            "give it here"
        )
    return float(value)  # type: ignore[arg-type]


def _terms(dynamics: Dynamics) -> tuple[Dynamics, ...]:
    return dynamics.terms if isinstance(dynamics, Sum) else (dynamics,)


def _bracketed(dynamics: Dynamics) -> str:
    return f"({dynamics!r})" if isinstance(dynamics, (Sum, Scaled, Product)) else repr(dynamics)


def _reals(name: str, values: object) -> tuple[float, ...]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be a sequence of finite real numbers, got {values!r}")
    return tuple(array.astype(float).tolist())


def _balanced(coefficients: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the polynomial, highest order first, in a unit of λ in which its outermost coefficients are ±1."""
    lowest, order = int(np.flatnonzero(coefficients)[0]), len(coefficients) - 1
    ratio = abs(coefficients[lowest] / coefficients[order])
    powers = (np.arange(order + 1) - order) / max(order - lowest, 1)
    return (coefficients / coefficients[order] * ratio**powers)[::-1], ratio ** (1.0 / max(order - lowest, 1))


def _check_count(n_modes: int) -> None:
    if n_modes > MOST_MODES:
        raise ValueError(
            f"this dynamics would have {n_modes:,} modes, and at most {MOST_MODES} are allowed; "
            "combine fewer, or lower n_modes of Hyperbolic"
        )


def _modes(amplitudes: ArrayLike, rates: ArrayLike) -> Modes:
    """Fold conjugate rates together (only the real part is ever read) and merge equal ones."""
    amplitudes = np.array(amplitudes, dtype=np.complex128)
    rates = np.array(rates, dtype=np.complex128)
    if not np.all(np.abs(amplitudes) <= LARGEST_AMPLITUDE):
        raise ValueError(f"the amplitudes of a kernel must be finite, at most {LARGEST_AMPLITUDE:g}")
    below = rates.imag < 0
    amplitudes[below], rates[below] = amplitudes[below].conj(), rates[below].conj()
    amplitudes[rates.imag == 0] = amplitudes[rates.imag == 0].real
    order = np.lexsort((rates.real, rates.imag))
    ranked = rates[order]
    new = np.append(True, np.abs(np.diff(ranked)) > 1e-14 * np.abs(ranked[1:]))
    starts = np.flatnonzero(new)
    _check_count(len(starts))
    totals = np.add.reduceat(amplitudes[order], starts)
    shown = np.argsort(np.minimum.reduceat(order, starts))  # in the order in which they were given
    return Modes(totals[shown], ranked[starts][shown])


@cache
def _hyperbola(n_modes: int, horizon: float) -> tuple[Modes, float]:
    """Fit 1/(1+x) on [0, horizon] by exponentials: geometric rates, non-negative least squares in relative error.

    Returns the modes and the largest relative error.
    """
    from scipy.optimize import nnls  # slow to import, and only this needs it

    horizon = max(horizon, 1.0)
    rates = np.geomspace(1.0 / (6.0 * horizon), 12.0, n_modes)
    x = np.concatenate([[0.0], np.geomspace(1e-3, horizon, 20 * n_modes)])
    relative = np.exp(-np.multiply.outer(x, rates)) * (1.0 + x)[:, None]
    amplitudes, _ = nnls(relative, np.ones(len(x)), maxiter=100 * n_modes)
    amplitudes /= np.sum(amplitudes)
    return _modes(amplitudes[amplitudes > 0], rates[amplitudes > 0]), float(np.max(np.abs(relative @ amplitudes - 1.0)))

"""Dynamics: kernels as sums of modes, with an algebra.

Every dynamics (the paper's linear operator ℓ) is a short sum of complex exponentials, ℓ in its eigenbasis:

    kernel(Δ) = Re Σ_m amplitude_m · exp(−rate_m · Δ),    Δ ≥ 0.

A table's occupancy state is one complex number per mode, s_m. Time multiplies it by exp(−rate_m Δ), a customer
adds its responsibility, and the occupancy is Re Σ_m amplitude_m s_m. The rest of the library uses only the
modes of a dynamics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.checks import LATEST_TIME, duration, real

Complex = NDArray[np.complex128]
LARGEST_AMPLITUDE = 1e100
MOST_MODES = 4096
MOST_PARTS = 300  # of a sum or product, with the parts of its parts


class Modes(NamedTuple):
    """The modes of a dynamics: ``amplitudes`` a_m and ``rates``, both complex of shape (M,), with Re rate ≥ 0."""

    amplitudes: Complex
    rates: Complex


class Dynamics(ABC):
    """A kernel as a sum of modes, with the algebra ``a + b``, ``0.3 * a`` and ``a * b``.

    A subclass defines ``modes`` and whether its kernel is ``nonnegative``. See ``Timed`` for one with a duration.

    >>> from dyncrp import Exponential, Stationary
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

    def durations(self) -> list[float | None]:
        """Return the timescales and periods, from left to right, with None for each unknown one.

        >>> from dyncrp import Exponential, Oscillatory
        >>> (0.9 * Exponential(3.0) + 0.1 * Oscillatory()).durations()
        [3.0, None]
        """
        return []

    @property
    def n_unknown(self) -> int:
        """How many durations are unknown, such as the timescale of ``Exponential()``."""
        return self.durations().count(None)

    @property
    def seeks_period(self) -> bool:
        """Whether an unknown duration is a period, which must be searched on a fine grid."""
        return False

    @property
    def lasts(self) -> bool:
        """Whether an observation never stops counting: the kernel does not fall to 0.

        >>> from dyncrp import Exponential, Stationary
        >>> Exponential(5.0).lasts, (0.99 * Exponential(5.0) + 0.01 * Stationary()).lasts
        (False, True)
        """
        return bool(np.any(self.with_durations([1.0] * self.n_unknown).modes().rates.real == 0.0))

    def with_durations(self, durations: Iterable[float]) -> Dynamics:
        """Return the same dynamics with its unknown durations filled in, from left to right.

        >>> from dyncrp import Exponential, Stationary
        >>> (0.9 * Exponential() + 0.1 * Stationary()).with_durations([5.0])
        0.9 * Exponential(timescale=5.0) + 0.1 * Stationary()
        """
        return self

    def kernel(self, delta: ArrayLike) -> Any:
        """Return Re Σ_m a_m exp(−rate_m Δ), elementwise, for delays Δ ≥ 0 of any shape.

        >>> from dyncrp import Exponential
        >>> Exponential(20.0).kernel(20.0)
        np.float64(0.36787944117144233)
        """
        delays = np.asarray(delta.total_seconds() if isinstance(delta, timedelta) else delta)
        if delays.dtype.kind == "m":
            delays = delays / np.timedelta64(1, "s")
        if delays.dtype.kind not in "iuf":
            raise ValueError(f"delta must be a number or a timedelta, got {delta!r}")
        delays = delays.astype(np.float64)
        if not np.all((delays >= 0) & (delays <= 2 * LATEST_TIME)):  # so that no phase overflows
            raise ValueError(f"delta must be finite and not negative, at most {2 * LATEST_TIME:g}, got {delta!r}")
        amplitudes, rates = self.modes()
        return (np.exp(-np.multiply.outer(delays, rates)) @ amplitudes).real

    def __add__(self, other: object) -> Dynamics:
        if not isinstance(other, Dynamics):
            return NotImplemented
        return Sum(_terms(self) + _terms(other))

    def __radd__(self, other: object) -> Dynamics:
        """``0 + dynamics``, so that ``sum`` works."""
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


class Timed(Dynamics):
    """A dynamics with one duration, in the field ``duration_field``; None there means that it is learned from data."""

    duration_field: ClassVar[str]
    periodic: ClassVar[bool] = False  # whether the kernel repeats after that duration

    def __post_init__(self) -> None:
        (length,) = self.durations()
        if length is not None:
            object.__setattr__(self, self.duration_field, duration(self.duration_field, length))

    def durations(self) -> list[float | None]:
        """The only duration."""
        return [getattr(self, self.duration_field)]

    @property
    def seeks_period(self) -> bool:
        """True for an unknown period."""
        return self.periodic and self.n_unknown > 0

    def with_durations(self, durations: Iterable[float]) -> Dynamics:
        """Take the first one if the duration is unknown."""
        if not self.n_unknown:
            return self
        for length in durations:
            return replace(self, **{self.duration_field: length})  # type: ignore[type-var]
        raise ValueError(f"too few durations: there is none for {self!r}; n_unknown is the number needed")

    def duration(self) -> float:
        """Return the duration; raise ``ValueError`` if it is unknown."""
        (length,) = self.durations()
        if length is None:
            raise ValueError(
                f"{self!r} has an unknown duration: give it, or learn it with DynamicalMixture or dyncrp.tune"
            )
        return float(length)


class Composition(Dynamics):
    """A dynamics made of ``parts``, from which it takes its durations and its sign."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Dynamics, ...]:
        """The parts, from left to right."""

    @abstractmethod
    def with_parts(self, parts: Iterable[Dynamics]) -> Dynamics:
        """Return the same composition of other parts."""

    def __post_init__(self) -> None:
        n_parts = sum(getattr(part, "n_parts", 1) for part in self.parts)
        if n_parts > MOST_PARTS:
            raise ValueError(f"a dynamics may be made of at most {MOST_PARTS} others, got {n_parts:,}")
        object.__setattr__(self, "n_parts", n_parts + 1)  # all within it, at every depth, and itself
        if not self.n_unknown:
            self.modes()  # raises if there are too many

    @property
    def nonnegative(self) -> bool:
        """True if every part is nonnegative."""
        return all(part.nonnegative for part in self.parts)

    def durations(self) -> list[float | None]:
        """The durations of the parts."""
        return [length for part in self.parts for length in part.durations()]

    @property
    def seeks_period(self) -> bool:
        """Whether a part seeks a period."""
        return any(part.seeks_period for part in self.parts)

    def with_durations(self, durations: Iterable[float]) -> Dynamics:
        """Pass them on to the parts."""
        left = iter(durations)
        return self.with_parts([part.with_durations(left) for part in self.parts])


@dataclass(frozen=True)
class Scaled(Composition):
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
        super().__post_init__()

    @property
    def parts(self) -> tuple[Dynamics, ...]:
        """The dynamics that is scaled."""
        return (self.dynamics,)

    def with_parts(self, parts: Iterable[Dynamics]) -> Dynamics:
        """The same weight on another dynamics."""
        return Scaled(self.weight, *parts)

    @property
    def nonnegative(self) -> bool:
        """True for a positive weight and a nonnegative kernel."""
        return self.weight > 0 and self.dynamics.nonnegative

    def modes(self) -> Modes:
        """The amplitudes times the weight."""
        amplitudes, rates = self.dynamics.modes()
        return combine_modes(self.weight * amplitudes, rates)

    def __repr__(self) -> str:
        return f"{self.weight!r} * {_bracket(self.dynamics)}"


@dataclass(frozen=True)
class Sum(Composition):
    """``a + b``: the kernels add."""

    terms: tuple[Dynamics, ...]

    @property
    def parts(self) -> tuple[Dynamics, ...]:
        """The terms."""
        return self.terms

    def with_parts(self, parts: Iterable[Dynamics]) -> Dynamics:
        """The sum of other terms."""
        return Sum(tuple(parts))

    def modes(self) -> Modes:
        """The modes of all terms."""
        parts = [term.modes() for term in self.terms]
        return combine_modes(np.concatenate([p.amplitudes for p in parts]), np.concatenate([p.rates for p in parts]))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


@dataclass(frozen=True)
class Product(Composition):
    """``a * b``: the kernels multiply.

    >>> from dyncrp import Exponential, Oscillatory
    >>> (Exponential(10.0) * Oscillatory(7.0)).kernel([0.0, 3.5, 7.0]).round(6)
    array([1.      , 0.      , 0.496585])
    """

    left: Dynamics
    right: Dynamics

    @property
    def parts(self) -> tuple[Dynamics, ...]:
        """Both factors."""
        return self.left, self.right

    def with_parts(self, parts: Iterable[Dynamics]) -> Dynamics:
        """The product of other factors."""
        return Product(*parts)

    def modes(self) -> Modes:
        """Pairwise: Re z · Re w = Re(z w)/2 + Re(z w*)/2, so each pair gives the rates r + s and r + s*."""
        (a, r), (b, s) = self.left.modes(), self.right.modes()
        _check_count(len(a) * len(b))
        amplitudes = [np.multiply.outer(a, b), np.multiply.outer(a, b.conj())]
        rates = [np.add.outer(r, s), np.add.outer(r, s.conj())]
        return combine_modes(np.ravel(amplitudes) / 2, np.ravel(rates))

    def __repr__(self) -> str:
        return f"{_bracket(self.left)} * {_bracket(self.right)}"


def _terms(dynamics: Dynamics) -> tuple[Dynamics, ...]:
    return dynamics.terms if isinstance(dynamics, Sum) else (dynamics,)


def _bracket(dynamics: Dynamics) -> str:
    return f"({dynamics!r})" if isinstance(dynamics, Composition) else repr(dynamics)


def _check_count(n_modes: int) -> None:
    if n_modes > MOST_MODES:
        raise ValueError(
            f"this dynamics would have {n_modes:,} modes, but at most {MOST_MODES} are allowed; "
            "combine fewer, or lower n_modes of Hyperbolic"
        )


def combine_modes(amplitudes: ArrayLike, rates: ArrayLike) -> Modes:
    """Return modes with conjugate and equal rates merged; only the real part of a kernel is used."""
    amplitudes = np.array(amplitudes, dtype=np.complex128)
    rates = np.array(rates, dtype=np.complex128)
    if not np.all(np.abs(amplitudes) <= LARGEST_AMPLITUDE):
        raise ValueError(f"the amplitudes of a kernel must be finite, at most {LARGEST_AMPLITUDE:g}")
    below = rates.imag < 0
    amplitudes[below], rates[below] = amplitudes[below].conj(), rates[below].conj()
    amplitudes[rates.imag == 0] = amplitudes[rates.imag == 0].real
    if len(rates) == 1:
        return Modes(amplitudes, rates)
    order = np.lexsort((rates.real, rates.imag))
    ranked = rates[order]
    new = np.append(True, np.abs(np.diff(ranked)) > 1e-14 * np.abs(ranked[1:]))
    starts = np.flatnonzero(new)
    _check_count(len(starts))
    totals = np.add.reduceat(amplitudes[order], starts)
    shown = np.argsort(np.minimum.reduceat(order, starts))  # in the order in which they were given
    return Modes(totals[shown], ranked[starts][shown])

"""How one cell of a row is distributed at each of K tables: what a family says of a cell that is missing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, gammaln, ndtr, ndtri, stdtr, stdtrit

from dyncrp.families.base import Float

LOG_2PI = float(np.log(2.0 * np.pi))
MOST_HALVINGS = 200  # of an interval of floats


class Joint(NamedTuple):
    """The predictive of K tables as Student's t in all D features: Gaussian where the degrees are infinite.

    degrees: (K,). centers: (K, D). scales: (K, D, D), the scale matrices; covariances if Gaussian.
    """

    degrees: Float
    centers: Float
    scales: Float


@dataclass(frozen=True, eq=False)
class Codes:
    """A code 0, 1, 2, …, at each of K tables.

    probabilities: (K, C) of the first C codes. rest: (K,) of all others together, of which code k has the share
    (C + 1)/((k + 1)(k + 2)), as in ``Categorical``.
    """

    probabilities: Float
    rest: Float

    def first(self, n: int) -> Float:
        """Return the probabilities of the codes 0 to n − 1: (K, n).

        >>> Codes(np.array([[0.5, 0.2]]), np.array([0.3])).first(3)
        array([[0.5 , 0.2 , 0.075]])
        """
        C = self.probabilities.shape[1]
        if n <= C:
            return self.probabilities[:, :n]
        k = np.arange(C, n)
        return np.hstack([self.probabilities, self.rest[:, None] * ((C + 1.0) / ((k + 1.0) * (k + 2.0)))])


class Number(ABC):
    """A number at each of K tables; arrays are (n, K), or (1, K) if it is the same for all n rows."""

    discrete: bool = False  # whether it is an integer from 0 on

    @property
    @abstractmethod
    def center(self) -> Float:
        """The mean, or the median of a distribution that has no mean."""

    @property
    @abstractmethod
    def variance(self) -> Float:
        """The variance, infinite if there is none."""

    @abstractmethod
    def log_density(self, values: Float) -> Float:
        """Return log p of the value of each row: (n,) to (n, K). Of integers, it is the log probability."""

    @abstractmethod
    def below(self, values: Float) -> Float:
        """Return the probability of a number up to the value of each row: (n,) to (n, K)."""

    @abstractmethod
    def bounds(self, q: float) -> tuple[Float, Float]:
        """Return numbers between which the q-quantiles of all K tables lie: both (n,) or (1,)."""


Cell = Codes | Number


@dataclass(frozen=True, eq=False)
class Student(Number):
    """Student's t about a center, with its scale; Gaussian where the degrees of freedom are infinite."""

    location: Float
    scale: Float
    degrees: Float

    @property
    def center(self) -> Float:
        """The location: of one degree of freedom or less there is no mean."""
        return self.location

    @property
    def variance(self) -> Float:
        """ν/(ν − 2) scale² if ν > 2, infinite otherwise."""
        excess = np.divide(2.0, self.degrees - 2.0, out=np.full_like(self.degrees, np.inf), where=self.degrees > 2.0)
        return self.scale**2 * (1.0 + excess)

    def log_density(self, values: Float) -> Float:
        """Return the log density."""
        gap = (values[:, None] - self.location) / self.scale
        return log_student(gap**2, np.log(self.scale), self.degrees, 1)

    def below(self, values: Float) -> Float:
        """Return the distribution function."""
        gap = (values[:, None] - self.location) / self.scale
        degrees = np.broadcast_to(self.degrees, gap.shape)
        finite = np.isfinite(degrees)
        return np.where(finite, stdtr(np.where(finite, degrees, 1.0), gap), ndtr(gap))

    def bounds(self, q: float) -> tuple[Float, Float]:
        """Return the least and the largest of the quantiles of tables."""
        finite = np.isfinite(self.degrees)
        unit = np.where(finite, stdtrit(np.where(finite, self.degrees, 1.0), q), ndtri(q))
        each = self.location + self.scale * unit
        return np.min(each, axis=1), np.max(each, axis=1)


@dataclass(frozen=True, eq=False)
class Count(Number):
    """A negative binomial count, the predictive of ``Poisson`` with the Gamma posterior (shape A, rate B)."""

    shape: Float
    rate: Float

    discrete = True

    @property
    def center(self) -> Float:
        """A/B."""
        return self.shape / self.rate

    @property
    def variance(self) -> Float:
        """A/B (1 + 1/B)."""
        return self.center * (1.0 + 1.0 / self.rate)

    def log_density(self, values: Float) -> Float:
        """Return log Γ(A + x)/(Γ(A) x!) + A log B/(B + 1) − x log(B + 1); −∞ unless x is an integer from 0 on."""
        legal = (values >= 0.0) & (np.floor(values) == values)
        x, A, B = np.where(legal, values, 0.0)[:, None], self.shape, self.rate
        found = gammaln(A + x) - gammaln(A) - gammaln(x + 1.0) - A * np.log1p(1.0 / B) - x * np.log1p(B)
        return np.where(legal[:, None], found, -np.inf)

    def below(self, values: Float) -> Float:
        """Return I_{B/(B + 1)}(A, x + 1), the regularised beta function."""
        x = np.floor(values)[:, None]
        found = betainc(self.shape, np.maximum(x, 0.0) + 1.0, self.rate / (self.rate + 1.0))
        return np.where(x >= 0.0, found, 0.0)

    def bounds(self, q: float) -> tuple[Float, Float]:
        """Return −1, and a power of 2 that is large enough for all tables."""
        most = np.ones(len(self.shape))
        while np.any(low := np.min(self.below(most), axis=1) < q) and np.max(most) < 2.0**60:
            most[low] *= 2.0
        return np.full_like(most, -1.0), most


def log_student(square: Float, log_scale: Float, degrees: Float, n_features: int) -> Float:
    """Return the log density of Student's t in q features at Mahalanobis distance² ``square`` from its centre.

    log_scale: ½ log of the determinant of the scale matrix. With ν degrees of freedom this is

        log Γ((ν + q)/2) − log Γ(ν/2) − q/2 log πν − log_scale − (ν + q)/2 log(1 + square/ν),

    in a form in which nothing grows with ν, so that it may be infinite.
    """
    from dyncrp.families.gamma import log_gamma_half  # which imports the Gaussian

    finite = np.isfinite(degrees)
    nu = np.where(finite, degrees, 1.0)
    gammas = sum(log_gamma_half((nu + i) / 2.0) + 0.5 * np.log1p(i / nu) for i in range(n_features))
    tail = np.where(finite, gammas - 0.5 * (nu + n_features) * np.log1p(square / nu), -0.5 * square)
    return tail - log_scale - 0.5 * n_features * LOG_2PI


def mixture_quantile(cell: Number, weights: Float, q: float) -> Float:
    """Return the q-quantile of the mixture of K tables with weights (n, K): (n,), by bisection.

    It is the smallest x for which at least q lies up to x.

    >>> cell = Student(np.array([[0.0, 10.0]]), np.ones((1, 2)), np.full((1, 2), np.inf))
    >>> mixture_quantile(cell, np.array([[0.5, 0.5], [0.0, 1.0]]), 0.5).round(6)
    array([ 5., 10.])
    """
    low, high = (np.broadcast_to(end, len(weights)).copy() for end in cell.bounds(q))
    if not cell.discrete:  # rounding may put the quantile of a mixture of equals outside
        width = np.spacing(np.maximum(np.abs(low), np.abs(high)))
        low, high = low - 4.0 * width, high + 4.0 * width
    for _ in range(MOST_HALVINGS):
        middle = 0.5 * (low + high)
        if cell.discrete:
            middle = np.floor(middle)
        if np.all((middle <= low) | (middle >= high)):
            break
        enough = np.sum(weights * cell.below(middle), axis=1) >= q
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high

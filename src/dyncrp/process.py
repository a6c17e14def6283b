"""The Dynamical Chinese Restaurant Process itself: samples, exact marginals, and the probability of a seating."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.checks import Seed, as_observations, as_times, integer, positive
from dyncrp.arrays.partitions import Int, as_partition, is_first
from dyncrp.dynamics import Dynamics, Modes, Stationary
from dyncrp.dynamics.occupancies import clipped_totals, log_occupancies, totals

Float = NDArray[np.float64]
CELLS = 1 << 20  # customers of several seatings that are scored together


class Marginals(NamedTuple):
    """Exact marginals of the process for N customers; row n is customer n.

    assignments: (N, N), column k is P(customer n sits at table k).
    n_tables: (N, N), column k is P(k + 1 tables are open once customer n sits).
    """

    assignments: Float
    n_tables: Float


@dataclass(frozen=True)
class DynamicalCRP:
    """The Dynamical Chinese Restaurant Process D-CRP(ℓ, α), 'DCRP_definition' in the paper.

        P(c_n = c | c_<n) ∝ occupancy_c(t_n) = max(0, Σ_{n'<n, c_n'=c} kernel(t_n − t_n'))   for an open table
        P(c_n = new | c_<n) ∝ alpha

    Earlier means earlier in the stream, so ties in time are legal. Tables count from 0 in order of opening.

    Parameters
    ----------
    alpha : float
        α, positive.
    dynamics : Dynamics, default=Stationary()
        ℓ. The default is the plain CRP.

    Examples
    --------
    >>> process = DynamicalCRP(alpha=1.0)
    >>> process.sample([0, 1, 2, 3], seed=1)
    array([[0, 1, 0, 2]])
    >>> process.marginals([0, 1, 2]).n_tables[2]
    array([0.33333333, 0.5       , 0.16666667])
    """

    alpha: float
    dynamics: Dynamics = field(default_factory=Stationary)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        if not isinstance(self.dynamics, Dynamics):
            raise ValueError(f"dynamics must be a Dynamics such as Exponential(20.0), got {self.dynamics!r}")

    def sample(self, times: ArrayLike, n_samples: int = 1, seed: Seed = None) -> NDArray[np.int64]:
        """Draw seatings.

        Customer n's weights kernel(t_n − t_n') are the same in every sample. If none is negative, joining an earlier
        customer chosen in proportion to them is the same as choosing a table by occupancy.

        Parameters
        ----------
        times : array-like of shape (N,)
            The times of the customers, which must not decrease.
        n_samples : int, default=1
            The number of independent seatings.
        seed : int or numpy.random.Generator, optional
            For the random numbers.

        Returns
        -------
        ndarray of shape (n_samples, N)
            The table of each customer.
        """
        t = as_times(times)
        n_samples = integer("n_samples", n_samples, 1)
        rng = np.random.default_rng(seed)
        choose = _choose_customer if self.dynamics.nonnegative else _choose_table
        tables = np.zeros((len(t), n_samples), dtype=np.int64)
        n_tables = np.zeros(n_samples, dtype=np.int64)
        for n, weights in enumerate(_kernel_rows(self.dynamics.modes(), t)):
            tables[n] = n_tables  # a new table, unless another is chosen
            tables[n] = choose(weights, self.alpha, tables[: n + 1], rng.random(n_samples))
            n_tables += tables[n] == n_tables
        return np.ascontiguousarray(tables.T)

    def marginals(self, times: ArrayLike) -> Marginals:
        """Return the exact marginals by the recursion, Eq. 'dynamical_crp_recursion' of the paper.

        W_n = Σ_{n'<n} kernel(t_n − t_n') does not depend on the seating, so no Taylor step is needed:

            P(C_n = k) = P(C_{n-1} = k) W_n/(α + W_n) + P(C_{n-1} = k−1) α/(α + W_n)
            P(c_n = c) = (E[occupancy_c(t_n)] + α P(C_{n-1} = c−1)) / (α + W_n)

        This holds as long as no occupancy needs clipping. A kernel that is negative at one of the delays between
        these times raises ``ValueError``; ``sample`` allows it.

        Parameters
        ----------
        times : array-like of shape (N,)
            The times of the customers, which must not decrease.

        Returns
        -------
        Marginals
            The marginals of the assignments and of the number of tables, both (N, N).
        """
        t = as_times(times)
        N = len(t)
        modes = self.dynamics.modes()
        assignments = np.zeros((N, N))
        n_tables = np.zeros((N, N))
        expected = np.zeros((len(modes.rates), N), dtype=np.complex128)  # the expected mode states of each table
        opened = np.zeros(N + 1)  # opened[k] = P(C_{n-1} = k)
        opened[0] = 1.0
        rounding = 1e-12 * np.sum(np.abs(modes.amplitudes))
        for n, weights in enumerate(_kernel_rows(modes, t)):
            if n and np.min(weights) < -rounding:
                lag = t[n] - t[np.argmin(weights)]
                raise ValueError(
                    f"marginals are exact only for a kernel that is never negative, but kernel({lag}) = "
                    f"{np.min(weights):.3g} for {self.dynamics!r}; use sample instead"
                )
            if n:
                expected *= np.exp(-modes.rates * (t[n] - t[n - 1]))[:, None]
            occupancy = np.maximum((modes.amplitudes @ expected).real, 0.0)
            total = self.alpha + np.sum(np.maximum(weights, 0.0))
            assignments[n] = (occupancy + self.alpha * opened[:N]) / total
            expected += assignments[n]
            opened[1:] = (opened[1:] * (total - self.alpha) + opened[:-1] * self.alpha) / total
            opened[0] = 0.0
            n_tables[n] = opened[1:]
        return Marginals(assignments, n_tables)

    def log_prob(self, seating: ArrayLike, times: ArrayLike) -> Any:
        """Return log P(c_1, …, c_N) = Σ_n log P(c_n | c_<n), the exact log probability of a seating.

        With an optimiser, this fits alpha and the dynamics to seatings that were observed; see docs/fitting.md.

        Parameters
        ----------
        seating : array-like of shape (N,) or (n_samples, N)
            The table of each customer, any integers or texts: only who sits together counts. Several seatings of the
            same customers are what ``sample`` returns.
        times : array-like of shape (N,)
            The times of the customers, which must not decrease.

        Returns
        -------
        float, or ndarray of shape (n_samples,)
            The log probability of each seating; −inf if it is impossible, which needs a kernel that reaches 0.

        Examples
        --------
        >>> process = DynamicalCRP(alpha=1.0)
        >>> process.log_prob(["a", "b", "a"], times=[0, 1, 2])  # 1 · 1/2 · 1/3
        -1.791759469228055
        >>> process.log_prob([[0, 0], [0, 1]], times=[0, 1])
        array([-0.69314718, -0.69314718])
        """
        t = as_times(times)
        try:
            one = np.ndim(seating) < 2
        except ValueError:  # several, of different lengths, which are refused below
            one = False
        several: Any = [seating] if one else seating
        tables = np.array([as_partition(row, len(t), "seating") for row in several]).reshape(len(several), len(t))
        step = max(1, CELLS // max(len(t), 1))
        parts = [self._log_probs(tables[begin : begin + step], t) for begin in range(0, len(tables), step)]
        found = np.concatenate(parts) if parts else np.zeros(0)
        return float(found[0]) if one else found

    def _log_probs(self, tables: Int, t: Float) -> Float:
        """Return the log probabilities of seatings (n, N), whose tables count from 0, at checked times (N,)."""
        modes = self.dynamics.modes()
        if self.dynamics.nonnegative:  # nothing is clipped: the sum over tables is that over customers
            total = totals(modes, t)
        else:
            total = np.array([clipped_totals(modes, t, row) for row in tables])
        apart = (tables + len(t) * np.arange(len(tables))[:, None]).ravel()  # no table is in two seatings
        log_weights = log_occupancies(modes, np.tile(t, len(tables)), apart)
        log_weights = np.where(is_first(apart), np.log(self.alpha), log_weights).reshape(tables.shape)
        return np.asarray(np.sum(log_weights - np.log(self.alpha + total), axis=1))


def occupancy_path(weights: ArrayLike, times: ArrayLike, dynamics: Dynamics) -> Float:
    """Return the occupancy of each table just after each customer sat down.

    weights: (N, K), the responsibilities of the tables for the customers. Returns (N, K).

    >>> occupancy_path([[1, 0], [0, 1], [1, 0]], [0, 1, 2], Stationary())
    array([[1., 0.],
           [1., 1.],
           [2., 1.]])
    """
    seated = as_observations(weights, "weights")
    t = as_times(times, n=len(seated))
    amplitudes, rates = dynamics.modes()
    states = np.zeros((len(rates), seated.shape[1]), dtype=np.complex128)
    path = np.empty_like(seated)
    for n in range(len(t)):
        if n:
            states *= np.exp(-rates * (t[n] - t[n - 1]))[:, None]
        states += seated[n]
        path[n] = np.maximum((amplitudes @ states).real, 0.0)
    return path


def _choose_customer(weights: Float, alpha: float, tables: NDArray[np.int64], uniform: Float) -> NDArray[np.int64]:
    """Seat a customer in each sample beside an earlier one, chosen by ``weights`` ≥ 0 (n,), or at a new table.

    tables: (n + 1, n_samples), the tables of the customers, and the new table of each sample last. uniform:
    (n_samples,) from [0, 1). Returns the tables chosen, (n_samples,).
    """
    cumulative = np.cumsum(np.append(np.maximum(weights, 0.0), alpha))
    beside = np.searchsorted(cumulative[:-1], uniform * cumulative[-1], side="right")
    return tables[beside, np.arange(len(uniform))]


def _choose_table(weights: Float, alpha: float, tables: NDArray[np.int64], uniform: Float) -> NDArray[np.int64]:
    """Do the same for weights of either sign: sum them by table, and clip the sums at 0."""
    new, rows = tables[-1], np.arange(len(uniform))
    width = int(new.max()) + 1
    cells = (tables[:-1] + width * rows).ravel()
    occupancy = np.bincount(cells, np.repeat(weights, len(rows)), minlength=width * len(rows))
    occupancy = np.maximum(occupancy.reshape(-1, width), 0.0)
    occupancy[rows, new] = alpha
    cumulative = np.cumsum(occupancy, axis=1)
    drawn = uniform * cumulative[:, -1]
    return np.minimum(np.sum(cumulative <= drawn[:, None], axis=1), new)  # rounding may overshoot


def _kernel_rows(modes: Modes, t: Float, block: int = 64) -> Iterator[Float]:
    """Yield kernel(t_n − t_<n), shape (n,), for n = 0, 1, …

    A block of rows is one matrix product for the customers before its first time t_0: exp(−r(t_n − t_n')) =
    exp(−r(t_n − t_0)) exp(−r(t_0 − t_n')), where both factors are at most 1. Within the block, it is computed directly.
    """
    amplitudes, rates = modes
    for start in range(0, len(t), block):
        rows = t[start : start + block]
        ahead = amplitudes * np.exp(-np.multiply.outer(rows - rows[0], rates))
        behind = np.exp(-np.multiply.outer(rates, rows[0] - t[:start]))
        before = _real_product(ahead, behind)
        within = (np.exp(-np.multiply.outer(np.abs(rows[:, None] - rows), rates)) @ amplitudes).real
        for i in range(len(rows)):
            yield np.concatenate([before[i], within[i, :i]])


def _real_product(left: NDArray[np.complex128], right: NDArray[np.complex128]) -> Float:
    product: Float = left.real @ right.real
    if np.any(right.imag):
        product -= left.imag @ right.imag
    return product

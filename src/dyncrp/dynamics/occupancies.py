"""The occupancies that the customers of a given seating find, without a loop over customers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.partitions import Float, Int, log_scan, scan
from dyncrp.dynamics.base import Modes

BLOCK = 64  # customers whose occupancies are computed together
# An occupancy smaller than this, relative to the modes that it is the sum of, cannot be told from 0.
ROUNDING = 1e-14


def log_occupancies(modes: Modes, t: Float, tables: Int) -> Float:
    """Return the log of the occupancy of the table that each customer joins, just before: (N,), −inf for none.

    t: (N,) times; tables: (N,) numbers. A negative occupancy is clipped at 0. If all modes are positive and decay, as
    those of ``Exponential`` and ``Hyperbolic``, sums are computed as logarithms, so that a table that was last seen
    thousands of timescales ago still has a finite one.
    """
    order = np.argsort(tables, kind="stable")
    joins = np.append(False, tables[order][1:] == tables[order][:-1])[: len(t)]
    delays = np.where(joins, np.append(0.0, np.diff(t[order]))[: len(t)], 0.0)
    amplitudes, rates = modes
    found = np.empty(len(t))
    if np.any(amplitudes.imag) or np.any(rates.imag) or np.any(amplitudes.real <= 0.0):
        with np.errstate(divide="ignore"):
            found[order] = np.log(_sums(modes, delays, joins))
        return found
    logs = np.full(len(t), -np.inf)
    for amplitude, rate in zip(amplitudes.real, rates.real, strict=True):
        factors = np.where(joins, -delays * rate, -np.inf)
        after = log_scan(factors, np.zeros_like(factors))
        logs = np.logaddexp(logs, np.log(amplitude) + factors + np.roll(after, 1))
    found[order] = logs
    return found


def totals(modes: Modes, t: Float) -> Float:
    """Return Σ_{n'<n} kernel(t_n − t_n') of each customer, clipped at 0: (N,)."""
    return _sums(modes, np.append(0.0, np.diff(t))[: len(t)], np.arange(len(t)) > 0)


def _sums(modes: Modes, delays: Float, joins: NDArray[np.bool_]) -> Float:
    """Return max(0, Re Σ_m a_m s_m) before each row, (N,), for customers sorted by table.

    delays: (N,) since the customer before. joins: (N,) whether that one is at the same table.
    """
    value, size = np.zeros(len(delays)), np.zeros(len(delays))
    for amplitude, rate in zip(*modes, strict=True):
        decay = np.where(joins, np.exp(-delays * (rate if rate.imag else rate.real)), 0.0)
        terms = amplitude * (decay * np.roll(scan(decay, np.ones_like(decay)), 1))
        value += terms.real
        size += np.abs(terms)
    return np.where(value > ROUNDING * size, value, 0.0)


def clipped_totals(modes: Modes, t: Float, tables: Int) -> Float:
    """Return Σ_c max(0, occupancy_c(t_n)) just before each customer: (N,). Tables (N,) are numbers from 0.

    A block of customers is one matrix product for those before it, and one for those within it.
    """
    amplitudes, rates = modes
    n_open = np.maximum.accumulate(tables) + 1
    states = np.zeros((len(rates), int(np.max(n_open, initial=0))), dtype=np.complex128)  # at the block's first time
    found = np.empty(len(t))
    for begin in range(0, len(t), BLOCK):
        block = slice(begin, begin + BLOCK)
        rows, seen, here = t[block], states[:, : int(n_open[block][-1])], np.unique(tables[block])
        ahead = np.exp(-np.multiply.outer(rows - rows[0], rates))
        occupancy = ((amplitudes * ahead) @ seen).real
        lags = np.tril(rows[:, None] - rows, -1)
        within = np.tril((np.exp(-np.multiply.outer(lags, rates)) @ amplitudes).real, -1)
        one_hot = (tables[block, None] == here).astype(np.float64)
        occupancy[:, here] += within @ one_hot
        found[block] = np.sum(np.maximum(occupancy, 0.0), axis=1)
        after = float(t[begin + BLOCK]) if begin + BLOCK < len(t) else float(rows[-1])
        seen *= np.exp(-rates * (after - rows[0]))[:, None]
        seen[:, here] += np.exp(-np.multiply.outer(rates, after - rows)) @ one_hot
    return found

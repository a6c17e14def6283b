"""The posterior of alpha, given the tables opened so far.

Given the total weight W_n = Σ_{n'<n} kernel(t_n − t_n') of the customers before it, customer n opens a table with
probability α/(α + W_n). So the likelihood of α is the product of α/(α + W_n) over the customers who opened a table and
W_n/(α + W_n) over the others. It is concave in log α, and depends only on the times and the number of tables opened.
The posterior, with a Gamma prior, is computed exactly on a grid of α. The kernel must never be negative, since only
then W_n does not depend on the seating.

A customer of weight w is w customers at one time: in place of α + W_n comes the product of α + W_n + j kernel(0) over
j = 0, …, w − 1. For fractions, that product is the ratio of Gamma functions which it is for integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from dyncrp.arrays.checks import LARGEST_PARAMETER, SMALLEST_PARAMETER
from dyncrp.dynamics import Modes
from dyncrp.engine import schema

Float = NDArray[np.float64]

ALPHA_GRID = np.geomspace(1e-3, 1e3, 181)  # values of alpha, in units of the prior's mean
PRIOR_SHAPE = 1.0  # shape of the Gamma prior; at 1, its standard deviation equals its mean


class AlphaPosterior:
    """The posterior of α after some observations, which needs only their times and the number of tables they opened.

    >>> from dyncrp import Stationary
    >>> posterior = AlphaPosterior(1.0, Stationary().modes())
    >>> posterior.update(np.arange(100.0))
    >>> round(posterior.mean(n_opened=10), 1)
    2.2
    """

    def __init__(self, prior_mean: float, modes: Modes) -> None:
        self.prior_mean = prior_mean
        self._modes = modes
        self._grid = prior_mean * ALPHA_GRID
        # Σ log(α + W_n) on the grid; the mode state of all customers, as for one table; the latest time; their number.
        self._state = np.zeros(len(self._grid)), np.zeros(len(modes.rates), dtype=np.complex128), -np.inf, 0

    @property
    def n_observations(self) -> int:
        """How many observations it has seen."""
        return self._state[3]

    def update(self, times: Float, weights: Float | None = None) -> None:
        """Add customers at these times, (n,), and with these weights, (n,), if they are not 1.

        If this is interrupted, none of them are added.
        """
        log_sum, total, time, n = self._state
        log_sum, total = log_sum.copy(), total.copy()
        alone = float(np.sum(self._modes.amplitudes).real)
        for i, t in enumerate(times.tolist()):
            if time > -np.inf:
                total *= np.exp(-self._modes.rates * (t - time))
            weight = 1.0 if weights is None else float(weights[i])
            among = self._grid + max(float((total @ self._modes.amplitudes).real), 0.0)
            log_sum += np.log(among) if weight == 1.0 else _log_rising(among, weight, alone)
            total += weight
            time = t
        self._state = log_sum, total, time, n + len(times)

    def mean(self, n_opened: int) -> float:
        """Return the posterior mean of α if the observations have opened this many tables.

        It stays in the range of a parameter, since a model file with any other is refused.
        """
        # The grid is even in log α, so this is the density of log α: hence α^PRIOR_SHAPE, not α^(PRIOR_SHAPE − 1).
        log_prior = PRIOR_SHAPE * np.log(self._grid) - PRIOR_SHAPE * self._grid / self.prior_mean
        log_posterior = log_prior + n_opened * np.log(self._grid) - self._state[0]
        share = np.exp(log_posterior - np.max(log_posterior))
        mean = float(self._grid @ share / np.sum(share))
        return min(max(mean, SMALLEST_PARAMETER), LARGEST_PARAMETER)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state that the next update needs, by its names in a file."""
        log_sum, total, time, _ = self._state
        return dict(zip(schema.ALPHA, (log_sum, total, np.array(time)), strict=True))

    def restore(self, arrays: dict[str, NDArray[Any]], n_observations: int) -> None:
        """Continue from what ``arrays`` returned after n_observations, once a schema has checked it."""
        log_sum, total, time = (arrays[name] for name in schema.ALPHA)
        self._state = log_sum.copy(), total.copy(), float(time), n_observations


def _log_rising(a: Float, weight: float, step: float) -> Float:
    """Return Σ log(a + j step) over j = 0, …, weight − 1 for a > 0 (n,), also for fractions: (n,).

    >>> _log_rising(np.array([2.0]), 3.0, 0.5) == np.log(2.0 * 2.5 * 3.0)
    array([ True])
    """
    if weight == 0.0 or step <= 0.0:
        return weight * np.log(a)
    # log Γ(z + w)/Γ(z) as a Beta function, which leaves digits where z is large.
    rising: Float = weight * np.log(step) + gammaln(weight) - betaln(a / step, weight)
    return rising

"""What the tables opened so far say about alpha.

Given the total weight W_n = Σ_{n'<n} kernel(t_n − t_n') of the customers before it, customer n opens a table with
probability α/(α + W_n). So the likelihood of α is the product of α/(α + W_n) over those who did and W_n/(α + W_n) over
those who did not, concave in log α. With a Gamma prior, the posterior is kept on a grid of α, exactly, one observation
at a time; it holds for kernels that are never negative, since only then W_n does not depend on who sits where.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.dynamics import Modes

Float = NDArray[np.float64]

ALPHA_GRID = np.geomspace(1e-3, 1e3, 181)  # values of alpha, in units of the prior's mean
PRIOR_SHAPE = 1.0  # shape of the Gamma prior; at 1, its standard deviation equals its mean


class AlphaPosterior:
    """The posterior of α after some observations.

    >>> from dyncrp import Stationary
    >>> posterior = AlphaPosterior(1.0, Stationary().modes())
    >>> for n in range(100):
    ...     posterior.update(float(n), opened=n % 10 == 0)
    >>> round(posterior.mean, 1)
    2.2
    """

    def __init__(self, prior_mean: float, modes: Modes) -> None:
        self.prior_mean = prior_mean
        self._modes = modes
        self._grid = prior_mean * ALPHA_GRID
        # The density of log α, in which the grid is even: hence α^PRIOR_SHAPE and not α^(PRIOR_SHAPE − 1).
        self.log_posterior = PRIOR_SHAPE * np.log(self._grid) - PRIOR_SHAPE * self._grid / prior_mean
        self.total = np.zeros(len(modes.rates), dtype=np.complex128)  # one number a mode, as for a table
        self.time = -np.inf

    def update(self, t: float, *, opened: bool) -> None:
        """Take in that the customer at time t opened a table, or did not."""
        if self.time > -np.inf:
            self.total *= np.exp(-self._modes.rates * (t - self.time))
        weight = max(float((self.total @ self._modes.amplitudes).real), 0.0)
        self.log_posterior -= np.log(self._grid + weight)
        if opened:
            self.log_posterior += np.log(self._grid)
        self.log_posterior -= np.max(self.log_posterior)
        self.total += 1.0
        self.time = t

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that the next update needs."""
        return {"log_posterior": self.log_posterior, "total": self.total, "time": np.array(self.time)}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from what ``arrays`` returned."""
        for name, mine in self.arrays().items():
            if arrays[name].shape != mine.shape or arrays[name].dtype != mine.dtype:
                raise ValueError(f"its {name} of alpha is {arrays[name].dtype} of shape {arrays[name].shape}")
            if not np.all(np.isfinite(arrays[name])):
                raise ValueError(f"its {name} of alpha is not finite")
        self.log_posterior, self.total = arrays["log_posterior"].copy(), arrays["total"].copy()
        self.time = float(arrays["time"])

    @property
    def mean(self) -> float:
        """The posterior mean of α."""
        share = np.exp(self.log_posterior)
        return float(self._grid @ share / np.sum(share))

"""The streaming systems of the paper, which the engine of this library runs with different settings."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from dyncrp.dynamics import Dynamics, Exponential, Stationary
from dyncrp.estimator import DynamicalMixture


class StreamingMixture(DynamicalMixture):
    """``DynamicalMixture`` with the attribute ``n_clusters_`` of baselines."""

    @property
    def n_clusters_(self) -> int:
        """How many tables are open."""
        return self.n_tables_


def nearest_exponential(dynamics: Dynamics) -> Dynamics:
    """Return the exponential dynamics that falls to 1/e when these first do, or ``Stationary()`` if they never do.

    The time-sensitive CRP (Zhu, Ghahramani and Lafferty 2005) forgets exponentially; this gives it its timescale.

    >>> nearest_exponential(Exponential(20.0)), nearest_exponential(Stationary())
    (Exponential(timescale=20.0), Stationary())
    """
    if isinstance(dynamics, Exponential):
        return dynamics
    rates = np.abs(dynamics.modes().rates)
    rates = rates[rates > 0]
    if not rates.size:
        return Stationary()
    delays = np.geomspace(1e-3 / np.max(rates), 1e3 / np.min(rates), 10_000)
    above = np.exp(-1.0)
    fallen = np.flatnonzero(dynamics.kernel(delays) <= above)
    if not fallen.size:
        return Stationary()
    before = delays[fallen[0] - 1] if fallen[0] else 0.0
    return Exponential(float(brentq(lambda delay: dynamics.kernel(delay) - above, before, delays[fallen[0]])))

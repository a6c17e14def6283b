"""The paper's streaming systems, run by our own engine with different settings."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from dyncrp.dynamics import Dynamics, Exponential, Stationary
from dyncrp.estimator import DynamicalMixture
from dyncrp.families import Family


class StreamingMixture(DynamicalMixture):
    """``DynamicalMixture`` with the attribute ``n_clusters_`` of baselines."""

    @property
    def n_clusters_(self) -> int:
        """How many tables are open."""
        return self.n_tables_


def dynamical_crp(family: Family, dynamics: Dynamics, alpha: float) -> StreamingMixture:
    """Return the D-CRP with our defaults."""
    return StreamingMixture(family, dynamics, alpha)


def paper_crp(family: Family, dynamics: Dynamics, alpha: float) -> StreamingMixture:
    """Return the D-CRP in the paper's form: coordinate ascent, and alpha spread over the number of tables."""
    return StreamingMixture(family, dynamics, alpha, assignment="variational", table_count="posterior")


def recursive_crp(family: Family, alpha: float) -> StreamingMixture:
    """Return the Recursive CRP (Schaeffer et al. 2021), which forgets nothing."""
    return StreamingMixture(family, Stationary(), alpha)


def time_sensitive_crp(family: Family, dynamics: Dynamics, alpha: float) -> StreamingMixture:
    """Return the time-sensitive CRP (Zhu, Ghahramani and Lafferty 2005): the past fades exponentially.

    Its timescale is the delay at which the kernel of ``dynamics`` first falls to 1/e.

    >>> from dyncrp import Gaussian, Hyperbolic
    >>> time_sensitive_crp(Gaussian(1.0, 100.0), Hyperbolic(20.0), 1.0).dynamics  # (e − 1) · 20
    Exponential(timescale=34.36...)
    """
    return StreamingMixture(family, nearest_exponential(dynamics), alpha)


def nearest_exponential(dynamics: Dynamics) -> Dynamics:
    """Return the exponential dynamics that falls to 1/e when these first do, or ``Stationary()`` if they never do.

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

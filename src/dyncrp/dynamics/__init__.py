"""Dynamics: how much an earlier customer still counts today. One file each; to add one, add a line here."""

from dyncrp.dynamics.base import Dynamics, Modes, Product, Scaled, Sum
from dyncrp.dynamics.exponential import Exponential
from dyncrp.dynamics.hyperbolic import Hyperbolic
from dyncrp.dynamics.linear_ode import LinearODE
from dyncrp.dynamics.oscillatory import Oscillatory
from dyncrp.dynamics.stationary import Stationary

#: Dynamics by the names that files and the command line use; ``+`` and ``*`` make the last three.
DYNAMICS: dict[str, type[Dynamics]] = {
    kind.__name__: kind for kind in (Stationary, Exponential, Oscillatory, Hyperbolic, LinearODE, Scaled, Sum, Product)
}

__all__ = [
    "DYNAMICS",
    "Dynamics",
    "Exponential",
    "Hyperbolic",
    "LinearODE",
    "Modes",
    "Oscillatory",
    "Product",
    "Scaled",
    "Stationary",
    "Sum",
]

"""Cluster streams whose number of clusters is unknown and changes with time.

``DynamicalMixture`` is the estimator. Without arguments, it learns its hyperparameters from the first rows.

>>> from sklearn.datasets import make_blobs
>>> from dyncrp import DynamicalMixture
>>> X, _ = make_blobs(300, centers=4, random_state=3)
>>> DynamicalMixture().fit(X).n_tables_
4

The model is a mixture under the Dynamical Chinese Restaurant Process (Schaeffer et al. 2022).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dyncrp.version import __version__

if TYPE_CHECKING:
    from dyncrp import datasets
    from dyncrp.arrays.checks import BadRow
    from dyncrp.combining import combine
    from dyncrp.dynamics import Exponential, Hyperbolic, LinearODE, Oscillatory, Stationary
    from dyncrp.estimator import DynamicalMixture
    from dyncrp.families import (
        Bernoulli,
        Categorical,
        Columns,
        Gaussian,
        Multinomial,
        NormalGamma,
        NormalWishart,
        Poisson,
        VonMisesFisher,
    )
    from dyncrp.process import DynamicalCRP
    from dyncrp.tuning import tune

__all__ = [
    "BadRow",
    "Bernoulli",
    "Categorical",
    "Columns",
    "DynamicalCRP",
    "DynamicalMixture",
    "Exponential",
    "Gaussian",
    "Hyperbolic",
    "LinearODE",
    "Multinomial",
    "NormalGamma",
    "NormalWishart",
    "Oscillatory",
    "Poisson",
    "Stationary",
    "VonMisesFisher",
    "__version__",
    "combine",
    "datasets",
    "tune",
]

# Where the public names live, other than families. They are imported when they are first used, so that importing the
# package takes no time.
_MODULES = {
    "arrays.checks": ["BadRow"],
    "dynamics": ["Exponential", "Hyperbolic", "LinearODE", "Oscillatory", "Stationary"],
    "estimator": ["DynamicalMixture"],
    "process": ["DynamicalCRP"],
    "combining": ["combine"],
    "tuning": ["tune"],
}


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("dyncrp.datasets")
    if name not in __all__:
        raise AttributeError(f"module 'dyncrp' has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "families")
    value = globals()[name] = getattr(import_module(f"dyncrp.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

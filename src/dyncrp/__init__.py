"""Cluster streams whose number of clusters is unknown and changes with time.

``DynamicalMixture`` is the estimator. Without arguments, it learns its hyperparameters from the first rows.

>>> from sklearn.datasets import make_blobs
>>> from dyncrp import DynamicalMixture
>>> X, _ = make_blobs(300, centers=4, random_state=3)
>>> DynamicalMixture().fit(X).n_tables_
4

The model is a mixture under the Dynamical Chinese Restaurant Process (Schaeffer et al. 2022).
"""

from dyncrp import datasets
from dyncrp.checks import BadRow
from dyncrp.dynamics import Exponential, Hyperbolic, LinearODE, Oscillatory, Stationary
from dyncrp.families import Bernoulli, Gaussian, NormalGamma, VonMisesFisher
from dyncrp.mixture import DynamicalMixture
from dyncrp.process import DynamicalCRP
from dyncrp.tuning import tune

__version__ = "0.1.0"

__all__ = [
    "BadRow",
    "Bernoulli",
    "DynamicalCRP",
    "DynamicalMixture",
    "Exponential",
    "Gaussian",
    "Hyperbolic",
    "LinearODE",
    "NormalGamma",
    "Oscillatory",
    "Stationary",
    "VonMisesFisher",
    "datasets",
    "tune",
]

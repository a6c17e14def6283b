"""dyncrp: streaming, infinite, non-stationary clustering with the Dynamical Chinese Restaurant Process.

>>> from dyncrp import DynamicalMixture, Exponential, Gaussian
>>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0), Exponential(20.0), alpha=5.0)
>>> model.fit([[0.0], [10.0], [0.1]]).labels_
array([0, 1, 0])
"""

from dyncrp import datasets
from dyncrp.dynamics import Exponential, Hyperbolic, LinearODE, Oscillatory, Stationary
from dyncrp.families import Bernoulli, Gaussian, GaussianUnknownVariance, VonMisesFisher
from dyncrp.mixture import DynamicalMixture, tune
from dyncrp.process import DynamicalCRP

__version__ = "0.1.0"

__all__ = [
    "Bernoulli",
    "DynamicalCRP",
    "DynamicalMixture",
    "Exponential",
    "Gaussian",
    "GaussianUnknownVariance",
    "Hyperbolic",
    "LinearODE",
    "Oscillatory",
    "Stationary",
    "VonMisesFisher",
    "datasets",
    "tune",
]

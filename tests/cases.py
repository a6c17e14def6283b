"""The families, dynamics and rules that tests run over: one line here, and a new one is tested throughout.

Import as ``from cases import FAMILIES``: pytest has this folder on its path.
"""

from typing import NamedTuple

import numpy as np

from dyncrp import (
    Bernoulli,
    Categorical,
    Columns,
    Exponential,
    Gaussian,
    Hyperbolic,
    LinearODE,
    NormalGamma,
    Oscillatory,
    Poisson,
    Stationary,
    VonMisesFisher,
)
from dyncrp.dynamics import Dynamics
from dyncrp.families import Family

TWO_DIRECTIONS = [[1.0, 0.4], [-0.3, 2.0]]
TWO_OF_THREE = [[0.6, -1.2, 1.0], [0.5, 0.1, 0.8]]


class FamilyCase(NamedTuple):
    """A family and how many features its observations have."""

    family: Family
    n_features: int


# Every family in each of its shapes, its tables near enough to overlap: for formulas, and for engines that must agree.
FAMILIES: dict[str, FamilyCase] = {
    "gaussian": FamilyCase(Gaussian(2.0, 3.0, 1.5), 3),
    "gaussian-of-one-feature": FamilyCase(Gaussian(0.7, 3.0), 1),
    "gaussian-proportional": FamilyCase(Gaussian([0.5, 2.0], [1.5, 6.0], 1.0), 2),
    "gaussian-diagonal": FamilyCase(Gaussian([0.5, 2.0], [3.0, 1.0], [4.0, -2.0]), 2),
    "gaussian-directions": FamilyCase(Gaussian([0.5, 2.0], [3.0, 1.0], [4.0, -2.0], TWO_DIRECTIONS), 2),
    "gaussian-few-directions": FamilyCase(Gaussian([0.7, 2.0], 3.0, 0.5, TWO_OF_THREE, 0.4), 3),
    "normal-gamma": FamilyCase(NormalGamma(2.0, 3.0, 12.0, 1.5), 3),
    "normal-gamma-of-one-feature": FamilyCase(NormalGamma(0.7, 3.0), 1),
    "normal-gamma-diagonal": FamilyCase(NormalGamma([0.5, 2.0], [3.0, 1.0], 7.0, [4.0, -2.0]), 2),
    "bernoulli": FamilyCase(Bernoulli(0.5, 0.7), 3),
    "bernoulli-of-one-feature": FamilyCase(Bernoulli(0.5, 2.0), 1),
    "bernoulli-by-feature": FamilyCase(Bernoulli([0.6, 1.0, 3.0], 1.5), 3),
    "poisson": FamilyCase(Poisson(2.0, 0.4), 3),
    "poisson-of-one-feature": FamilyCase(Poisson(0.8, 0.3), 1),
    "poisson-by-feature": FamilyCase(Poisson([0.6, 2.0, 3.0], [0.5, 0.2, 1.5]), 3),
    "categorical": FamilyCase(Categorical(1.5, 4), 3),
    "categorical-of-one-feature": FamilyCase(Categorical(0.8, 3), 1),
    "categorical-by-feature": FamilyCase(Categorical([0.6, 2.0, 5.0], 6), 3),
    "circle": FamilyCase(VonMisesFisher(3.0), 2),
    "sphere": FamilyCase(VonMisesFisher(1.0), 3),
    "sphere-of-five-features": FamilyCase(VonMisesFisher(8.0), 5),
    "columns": FamilyCase(Columns({(0, 2): Gaussian([0.5, 2.0], [3.0, 1.0], [4.0, -2.0]), 1: Bernoulli(0.5, 0.7)}), 3),
    "columns-of-all-kinds": FamilyCase(
        Columns(
            {
                (6, 0): NormalGamma([0.5, 2.0], [3.0, 1.0], 7.0, [4.0, -2.0]),
                2: Poisson(2.0, 0.4),
                (1, 3): Categorical([0.6, 2.0], 4),
                (4, 5): VonMisesFisher(3.0),
                (7, 8): Gaussian([0.5, 2.0], [3.0, 1.0], [4.0, -2.0], TWO_DIRECTIONS),
            }
        ),
        9,
    ),
}

# Those of three features, for tests that share their rows.
THREE_FEATURES: dict[str, Family] = {name: case.family for name, case in FAMILIES.items() if case.n_features == 3}

# One of each whose tables lie far apart: for tests that must find them.
SEPARATED: dict[str, FamilyCase] = {
    "gaussian": FamilyCase(Gaussian(1.0, 100.0), 8),
    "normal-gamma": FamilyCase(NormalGamma(1.0, 100.0), 8),
    "bernoulli": FamilyCase(Bernoulli(0.1, 0.1), 8),
    "poisson": FamilyCase(Poisson(0.5, 0.01), 8),
    "categorical": FamilyCase(Categorical(0.2), 12),
    "sphere": FamilyCase(VonMisesFisher(200.0), 8),
    "columns": FamilyCase(Columns({(0, 1, 2, 3, 4, 5): Gaussian(1.0, 400.0), (6, 7): Bernoulli(0.1, 0.1)}), 8),
}

# With hyperparameters to be learned; those that have an entry for each feature have three.
UNKNOWN_FAMILIES: dict[str, Family] = {
    "gaussian": Gaussian(),
    "gaussian-of-known-variance": Gaussian(variance=1.0),
    "gaussian-of-known-prior-variance": Gaussian(prior_variance=[1.0, 2.0, 3.0]),
    "gaussian-of-known-mean": Gaussian(prior_mean=4.0),
    "normal-gamma": NormalGamma(),
    "normal-gamma-of-known-degrees": NormalGamma(degrees=3.0),
    "normal-gamma-of-known-variance": NormalGamma(variance=[1.0, 2.0, 3.0], prior_mean=4.0),
    "bernoulli": Bernoulli(),
    "bernoulli-of-known-a": Bernoulli(a=0.5),
    "bernoulli-of-known-b": Bernoulli(b=[1.0, 2.0, 3.0]),
    "poisson": Poisson(),
    "poisson-of-known-shape": Poisson(shape=0.5),
    "poisson-of-known-rate": Poisson(rate=[1.0, 2.0, 3.0]),
    "categorical": Categorical(),
    "categorical-of-known-codes": Categorical(n_codes=5),
    "sphere": VonMisesFisher(),
    "columns": Columns({(0, 2): Gaussian(), 1: NormalGamma(degrees=1.0)}),
}

# Every dynamics and the algebra. kernel(0) = 1 for all; those of SIGNED go below 0.
DYNAMICS: dict[str, Dynamics] = {
    "stationary": Stationary(),
    "exponential": Exponential(3.0),
    "oscillatory": Oscillatory(7.0),
    "hyperbolic": Hyperbolic(2.0),
    "equation": LinearODE([2.0, 3.0, 1.0]),
    "equation-that-oscillates": LinearODE([0.0, 4.0, 0.0, 1.0], derivatives=[0.0, -2.0]),
    "ringing": LinearODE([1.04, 0.4, 1.0]),  # roots −0.2 ± i
    "sticky": 0.999 * Exponential(2.0) + 0.001 * Stationary(),
    "product": Exponential(10.0) * Oscillatory(7.0),
    "beat": Oscillatory(7.0) * Oscillatory(5.0),
    "square": Oscillatory(7.0) * Oscillatory(7.0),
    "sum-of-products": 0.6 * Exponential(4.0) * Oscillatory(9.0) + 0.4 * Hyperbolic(3.0),
    "product-of-sums": 0.5 * (Hyperbolic(2.0, n_modes=8, horizon=100.0) + Exponential(1.0)) * Oscillatory(3.0),
    "product-of-ringing": LinearODE([1.04, 0.4, 1.0]) * LinearODE([1.04, 0.4, 1.0], derivatives=[0.7]),
    "difference": 1.5 * Exponential(20.0) + -0.5 * Exponential(2.0),
}
SIGNED = ("ringing", "product-of-ringing")

# With durations to be learned.
UNKNOWN_DYNAMICS: dict[str, Dynamics] = {
    "exponential": Exponential(),
    "oscillatory": Oscillatory(),
    "hyperbolic": Hyperbolic(n_modes=16),
    "scaled": 0.9 * Exponential(),
    "sum": Exponential() + Stationary(),
    "sum-with-a-known-one": Exponential(3.0) + Exponential(),
    "product": Exponential() * Oscillatory(),
    "three": 0.5 * (Exponential() + 2.0 * Oscillatory(7.0)) * Hyperbolic() + Oscillatory(),
}

# Keywords of Rules, and of DynamicalMixture.
RULES: dict[str, dict] = {
    "default": {},
    "variational": {"assignment": "variational", "n_iter": 2},
    "posterior": {"table_count": "posterior", "new_table_threshold": 0.1},
    "paper": {"assignment": "variational", "table_count": "posterior", "new_table_threshold": 0.01},
    "closing": {"max_tables": 4, "prune_below": 0.01},
}


def draw(case, n=40, seed=0, n_tables=5):
    """Return observations of a few tables, (n, D), as ``check`` returns them, and times (n,), half of them tied."""
    rng = np.random.default_rng(seed)
    parameters = case.family.sample_parameters(n_tables, case.n_features, rng)
    X = case.family.sample(parameters[rng.integers(n_tables, size=n)], rng)
    return case.family.check(X), np.cumsum(rng.exponential(1.0, n) * rng.integers(0, 2, n))

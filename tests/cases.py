"""The families, dynamics and rules that tests run over: one line here, and a new one is tested throughout.

Import as ``from cases import FAMILIES``: pytest has this folder on its path. Where a test has several of them, it takes
``pairwise`` of them rather than every combination.
"""

from collections import Counter
from itertools import combinations, product
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
    NormalWishart,
    Oscillatory,
    Poisson,
    Stationary,
    VonMisesFisher,
)
from dyncrp.dynamics import Dynamics
from dyncrp.families import Family

# Seconds after which a test takes another process to hang: on a busy machine, too, all of them take far fewer.
PATIENCE = 900.0

TWO_DIRECTIONS = [[1.0, 0.4], [-0.3, 2.0]]
TWO_OF_THREE = [[0.6, -1.2, 1.0], [0.5, 0.1, 0.8]]
VARIANCE = np.array([0.5, 1.0, 2.0, 4.0, 1.0, 0.25])
PRIOR_MEAN = np.array([0.0, 5.0, -2.0, 0.0, 1.0, 0.0])
DIRECTIONS = np.eye(6) + 0.3 * np.random.default_rng(0).normal(size=(6, 6))  # of any length and angle


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
    "normal-wishart": FamilyCase(NormalWishart(2.0, 3.0, 12.0, 1.5), 3),
    "normal-wishart-of-one-feature": FamilyCase(NormalWishart(0.6, 3.0), 1),
    "normal-wishart-by-feature": FamilyCase(NormalWishart([0.5, 2.0], [1.5, 6.0], 7.0, [4.0, -2.0]), 2),
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
    "columns-with-covariance": FamilyCase(
        Columns({(0, 2): NormalWishart([0.5, 2.0], [1.5, 6.0], 7.0, [4.0, -2.0]), 1: NormalGamma(2.0, 3.0, 12.0, 1.5)}),
        3,
    ),
}

# Those of three features, for tests that share their rows.
THREE_FEATURES: dict[str, Family] = {name: case.family for name, case in FAMILIES.items() if case.n_features == 3}

# One of each whose tables lie far apart: for tests that must find them.
SEPARATED: dict[str, FamilyCase] = {
    "gaussian": FamilyCase(Gaussian(1.0, 100.0), 8),
    "normal-gamma": FamilyCase(NormalGamma(1.0, 100.0), 8),
    "normal-wishart": FamilyCase(NormalWishart(1.0, 1000.0, 50.0), 8),
    "bernoulli": FamilyCase(Bernoulli(0.1, 0.1), 8),
    "poisson": FamilyCase(Poisson(0.5, 0.01), 8),
    "categorical": FamilyCase(Categorical(0.2), 12),
    "sphere": FamilyCase(VonMisesFisher(200.0), 8),
    "columns": FamilyCase(Columns({(0, 1, 2, 3, 4, 5): Gaussian(1.0, 400.0), (6, 7): Bernoulli(0.1, 0.1)}), 8),
}

# Of more features, and wider than FAMILIES: for engines that must agree over longer streams.
ENGINE_FAMILIES: dict[str, FamilyCase] = {
    "gaussian": FamilyCase(Gaussian(1.3, 40.0, 0.5), 3),
    "gaussian-proportional": FamilyCase(Gaussian(VARIANCE, 40.0 * VARIANCE, PRIOR_MEAN), 6),
    "gaussian-diagonal": FamilyCase(Gaussian(VARIANCE, np.linspace(4.0, 60.0, 6), PRIOR_MEAN), 6),
    "gaussian-directions": FamilyCase(Gaussian(VARIANCE, np.linspace(4.0, 60.0, 6), PRIOR_MEAN, DIRECTIONS), 6),
    "gaussian-few-directions": FamilyCase(Gaussian(1.3, 40.0, PRIOR_MEAN, DIRECTIONS[:4], 0.7), 6),
    "unknown-variance": FamilyCase(NormalGamma(1.3, 40.0, 6.0, 0.5), 3),
    "unknown-variance-by-dimension": FamilyCase(NormalGamma(VARIANCE, np.linspace(4.0, 60.0, 6), 2.5, PRIOR_MEAN), 6),
    "unknown-covariance": FamilyCase(NormalWishart(1.3, 40.0, 6.0, 0.5), 3),
    "unknown-covariance-by-dimension": FamilyCase(NormalWishart(VARIANCE, 30.0 * VARIANCE, 2.5, PRIOR_MEAN), 6),
    "bernoulli": FamilyCase(Bernoulli(0.3, 0.45), 12),
    "bernoulli-by-dimension": FamilyCase(Bernoulli(np.linspace(0.2, 0.9, 12), np.linspace(1.1, 0.3, 12)), 12),
    "poisson": FamilyCase(Poisson(0.5, 0.02), 4),
    "poisson-by-dimension": FamilyCase(Poisson(np.geomspace(0.2, 9.0, 9), np.geomspace(0.001, 4.0, 9)), 9),
    "categorical": FamilyCase(Categorical(0.6, 5), 9),
    "categorical-by-dimension": FamilyCase(Categorical(np.geomspace(0.1, 5.0, 8), 3), 8),
    "von-mises-fisher": FamilyCase(VonMisesFisher(40.0), 4),
    "columns": FamilyCase(
        Columns({(3, 0, 1): NormalGamma(1.3, 40.0, 6.0, 0.5), (2, 5): Bernoulli(0.3, 0.45), 4: Categorical(0.6, 5)}), 6
    ),
    "columns-of-all-kinds": FamilyCase(
        Columns(
            {
                (0, 9): NormalGamma([0.5, 2.0], [30.0, 10.0], 2.5, [4.0, -2.0]),
                (1, 2): Gaussian([0.5, 2.0], [30.0, 10.0], [4.0, -2.0]),
                4: Gaussian(1.3, 40.0),
                (3, 10): Bernoulli([0.2, 0.9], [1.1, 0.3]),
                (5, 11): Poisson([0.5, 2.0], [0.02, 0.4]),
                (6, 13): Categorical([0.1, 5.0], 3),
                (8, 7): VonMisesFisher(40.0),
                (12, 14, 15): Gaussian(1.3, 40.0, PRIOR_MEAN[:3], DIRECTIONS[:3, :3]),
                (16, 17, 18): Gaussian([1.3, 0.4], [40.0, 3.0], PRIOR_MEAN[:3], DIRECTIONS[:2, :3], 0.7),
                (19, 20): NormalWishart([0.5, 2.0], [15.0, 60.0], 2.5, [4.0, -2.0]),
            }
        ),
        21,
    ),
}

# In which rows that are far apart are tables of their own.
MANY: dict[str, FamilyCase] = {
    "gaussian": FamilyCase(Gaussian(1.0, 1e6), 5),
    "gaussian-diagonal": FamilyCase(Gaussian(1.0, np.linspace(0.9e6, 1.1e6, 5)), 5),
    "gaussian-directions": FamilyCase(Gaussian(1.0, np.linspace(0.9e6, 1.1e6, 3), 5.0, DIRECTIONS[:3, :5], 1e6), 5),
    "unknown-variance": FamilyCase(NormalGamma(1.0, 1e6, 30.0), 5),
    "unknown-covariance": FamilyCase(NormalWishart(1.0, 1e6, 30.0), 5),
    "bernoulli": FamilyCase(Bernoulli(0.01, 0.01), 40),
    "poisson": FamilyCase(Poisson(0.3, 0.001), 5),
    "categorical": FamilyCase(Categorical(0.02, 4), 20),
    "von-mises-fisher": FamilyCase(VonMisesFisher(2000.0), 8),
    "columns": FamilyCase(
        Columns(
            {
                (0, 4): NormalGamma(1.0, 1e6, 30.0),
                1: Gaussian(1.0, 1e6),
                (2, 3, 5): Gaussian(1.0, np.linspace(0.9e6, 1.1e6, 3), 5.0, DIRECTIONS[:3, :3]),
                (6, 7): Gaussian(1.0, 1e6, 5.0, DIRECTIONS[:2, :2]),
            }
        ),
        8,
    ),
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
    "normal-wishart": NormalWishart(),
    "normal-wishart-of-known-degrees": NormalWishart(degrees=3.0),
    "normal-wishart-of-known-variance": NormalWishart(variance=[1.0, 2.0, 3.0], prior_mean=4.0),
    "normal-wishart-of-known-prior-variance": NormalWishart(prior_variance=[1.0, 2.0, 3.0]),
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

# Slower, for longer streams.
ENGINE_DYNAMICS: dict[str, Dynamics] = {
    "stationary": Stationary(),
    "exponential": Exponential(9.0),
    "oscillatory": Oscillatory(23.0),
    "hyperbolic": Hyperbolic(5.0),
    "goes-negative": LinearODE([0.2, 0.1, 1.0]),
    "sticky": 0.99 * Exponential(4.0) + 0.01 * Stationary(),
    "product": Exponential(30.0) * Oscillatory(17.0),
    "sum-of-products": 0.6 * Exponential(20.0) * Oscillatory(11.0) + 0.4 * Hyperbolic(3.0),
    # The fast mode moves the origin of the frame every 25 units of time; the slow waves remember what was before.
    "fast-and-slow": 0.3 * Exponential(0.05) + 0.7 * Exponential(60.0) * Oscillatory(11.0),
    "difference": 1.5 * Exponential(20.0) + (-0.5) * Exponential(2.0),
}

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


def pairwise(*axes, apart=()):
    """Return combinations of a value of each axis, in which every two values of two axes meet at least once.

    apart: two axes, by their numbers, whose values need not meet each other, as they do elsewhere.

    An error mostly shows where two values meet, whatever the third; and so few combinations have them all that a test
    can afford them: of 16 families, 10 dynamics, and 3 rules of 2 values each, 160 of 1,280. Each combination is begun
    with the first pair that has not met yet, and takes for each other axis the value that has most pairs left to meet
    in it, of equals the one least used. The same axes give the same combinations.
    """
    values = [list(axis) for axis in axes]
    if len(values) < 2:
        raise ValueError(f"pairs need two axes or more, got {len(values)}")
    numbered = [[(i, k) for k in range(len(axis))] for i, axis in enumerate(values)]
    meet = [(one, other) for one, other in combinations(range(len(values)), 2) if (one, other) != tuple(apart)]
    left = dict.fromkeys((a, b) for one, other in meet for a in numbered[one] for b in numbered[other])
    used: Counter = Counter()
    found = []
    while left:
        row = dict(next(iter(left)))
        for i, axis in enumerate(numbered):
            if i not in row:
                new = [sum(tuple(sorted((one, other))) in left for other in row.items()) for one in axis]
                row[i] = min(range(len(axis)), key=lambda k, new=new, i=i: (-new[k], used[i, k]))
        places = sorted(row.items())
        used.update(places)
        for pair in combinations(places, 2):
            left.pop(pair, None)
        found.append(tuple(values[i][k] for i, k in places))
    return found


def in_turn(first, *others):
    """Return each value of the first axis once, with values of the others in turn, of which all combinations occur.

    For what takes long, where the values of the other axes make no difference to those of the first, or are tried with
    each of them elsewhere.
    """
    combined = list(product(*others))
    return [(one, *combined[i % len(combined)]) for i, one in enumerate(first)]

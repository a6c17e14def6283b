"""The densities of a family are those of its samplers, by Monte Carlo with fixed seeds."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln

from dyncrp.families import Family
from dyncrp.testing.asserts import require, require_agreement
from dyncrp.testing.families.material import N_DRAWS, FamilyCheck, empty_table, sample_rows


def seeds_repeat_the_draws(family: Family, n_features: int) -> None:
    """A seed repeats ``sample_parameters`` and ``sample``; a generator moves on."""
    parameters = family.sample_parameters(4, n_features, seed=1)
    require(
        np.array_equal(parameters, family.sample_parameters(4, n_features, seed=1)), "a seed draws other parameters"
    )
    many = np.repeat(parameters, 25, axis=0)
    require(np.array_equal(family.sample(many, seed=2), family.sample(many, seed=2)), "a seed draws other observations")
    rng = np.random.default_rng(3)
    first = family.sample_parameters(25, n_features, rng)
    require(not np.array_equal(first, family.sample_parameters(25, n_features, rng)), "parameters repeat themselves")
    require(not np.array_equal(family.sample(many, rng), family.sample(many, rng)), "observations repeat themselves")


def predictive_of_an_empty_table_is_that_of_the_sampler(family: Family, n_features: int) -> None:
    """The density of an empty table, integrated over a region, is how often draws fall there: no constant is missing.

    A feature whose draws repeat is discrete, and the region is one value of it; of any other it is an interval. If all
    draws are unit vectors, the region is the sphere.
    """
    X = family.sample(family.sample_parameters(N_DRAWS, n_features, seed=21), seed=22)
    empty = empty_table(family, n_features)
    rng = np.random.default_rng(23)
    if n_features > 1 and np.allclose(np.linalg.norm(X, axis=1), 1.0, rtol=0.0, atol=1e-9):
        U = rng.standard_normal((N_DRAWS, n_features))
        U /= np.linalg.norm(U, axis=1, keepdims=True)
        log_area = np.log(2.0) + 0.5 * n_features * np.log(np.pi) - gammaln(0.5 * n_features)
        shares = np.exp(family.log_predictive(family.check(U), empty)[:, 0] + log_area)
        require_agreement(shares, np.ones(1), "its integral over the sphere, and 1")
        return
    discrete = np.array([len(np.unique(column)) < N_DRAWS // 2 for column in X.T])
    for corner in X[:: N_DRAWS // 4]:
        low, high = np.where(discrete, corner, np.quantile(X, 0.1, axis=0)), corner.copy()
        high[~discrete] = np.quantile(X, 0.9, axis=0)[~discrete]
        inside = np.all((low <= X) & (high >= X), axis=1).astype(np.float64)
        U = low + (high - low) * rng.random((N_DRAWS if not np.all(discrete) else 1, n_features))
        volume = np.prod((high - low)[~discrete])
        shares = volume * np.exp(family.log_predictive(family.check(U), empty)[:, 0])
        require_agreement(shares, inside, f"its integral from {low} to {high}, and the share of draws there")


def predictive_of_a_table_is_that_of_the_sampler(family: Family, n_features: int) -> None:
    """Draws that share a table have the density of the predictive, those that do not that of an empty table.

    With p the predictive after some draws of the table, and m that of an empty one, E_p[m/(p + m)] = E_m[p/(p + m)]
    = ∫ p m/(p + m), where both sides average numbers from 0 to 1. So p has its constant if m has.
    """
    empty = empty_table(family, n_features)
    for n_before in (1, 4):
        rng = np.random.default_rng(31)
        parameters = family.sample_parameters(N_DRAWS, n_features, rng)
        stats = np.sum([family.statistics(family.sample(parameters, rng)) for _ in range(n_before)], axis=0)
        own = family.sample(parameters, rng)
        other = family.sample(family.sample_parameters(N_DRAWS, n_features, rng), rng)
        own_gain, other_gain = (
            family.log_partition(stats + family.statistics(X))
            - family.log_partition(stats)
            + family.log_base_measure(X)
            - family.log_predictive(X, empty)[:, 0]
            for X in (own, other)
        )
        require_agreement(
            expit(-own_gain), expit(other_gain), f"E_p[m/(p + m)] and E_m[p/(p + m)] after {n_before} draws"
        )


def predictive_of_part_of_a_row_is_normalised(family: Family, n_features: int) -> None:
    """E_m[p/m] = 1 for the predictive p of a table with responsibilities that are fractions, m that of an empty one."""
    X = family.sample(family.sample_parameters(N_DRAWS, n_features, seed=41), seed=42)
    part = 0.3 * family.statistics(sample_rows(family, n_features)[:2])
    stats = np.vstack([part, np.sum(part, axis=0)])
    ratios = np.exp(family.log_predictive(X, stats) - family.log_predictive(X, empty_table(family, n_features)))
    for ratio in ratios.T:
        require_agreement(ratio, np.ones(1), "E_m[p/m], and 1")


CHECKS: tuple[FamilyCheck, ...] = (
    seeds_repeat_the_draws,
    predictive_of_an_empty_table_is_that_of_the_sampler,
    predictive_of_a_table_is_that_of_the_sampler,
    predictive_of_part_of_a_row_is_normalised,
)

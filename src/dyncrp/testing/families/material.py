"""Rows, tables and streams of a family, for its checks to work on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dyncrp.families import Family
from dyncrp.testing.asserts import Float

FamilyCheck = Callable[[Family, int], None]
N_DRAWS = 40_000


def sample_rows(family: Family, n_features: int) -> Float:
    """Return five observations of one table, (5, D)."""
    rng = np.random.default_rng(3)
    return family.sample(np.repeat(family.sample_parameters(1, n_features, rng), 5, axis=0), rng)


def sample_tables(family: Family, n_features: int) -> Float:
    """Return the stats of an empty table, of three rows, and of fractions of five, (3, S)."""
    responsibilities = np.array([[0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0, 0.0], [0.2, 0.9, 0.0, 1.0, 0.35]])
    return responsibilities @ family.statistics(sample_rows(family, n_features))


def empty_table(family: Family, n_features: int) -> Float:
    """Return the stats of a table without rows, (1, S)."""
    return np.zeros((1, family.empty(n_features).shape[1]))


def sample_stream(family: Family, n_features: int, n: int = 24) -> tuple[Float, Float]:
    """Return observations of five tables and their times, some of them tied."""
    rng = np.random.default_rng(9)
    X = family.sample(family.sample_parameters(5, n_features, rng)[rng.integers(5, size=n)], rng)
    return family.check(X), np.cumsum(rng.exponential(1.0, n) * rng.integers(0, 2, n))


def reason_to_share(family: Family, X: Float) -> float:
    """Return the log odds of one table for all rows against one for each."""
    X = family.check(X)
    return family.log_marginal(X) - sum(family.log_marginal(x[None]) for x in X)


def without_hyperparameters(family: Family) -> Family | None:
    """Return the family without hyperparameters, if there is such a thing."""
    try:
        unknown = type(family)()
    except (TypeError, ValueError):
        return None
    return None if unknown.known else unknown

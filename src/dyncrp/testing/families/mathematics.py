"""What the densities of a family must satisfy, whatever they are."""

from __future__ import annotations

import numpy as np

from dyncrp.families import Family
from dyncrp.testing.asserts import Float, require, require_close
from dyncrp.testing.families.material import FamilyCheck, empty_table, sample_rows, sample_tables


def log_partition_of_an_empty_table_is_zero(family: Family, n_features: int) -> None:
    """The prior integrates to 1."""
    require_close(family.log_partition(empty_table(family, n_features)), 0.0, "log_partition of zeros", atol=1e-12)


def log_predictive_is_a_difference_of_log_partitions(family: Family, n_features: int) -> None:
    """log p(x | stats) = log_partition(stats + T(x)) − log_partition(stats) + log h(x)."""
    X, stats = sample_rows(family, n_features), sample_tables(family, n_features)
    after = np.array([family.log_partition(stats + T) for T in family.statistics(X)])
    expected = after - family.log_partition(stats) + family.log_base_measure(X)[:, None]
    require_close(
        family.log_predictive(X, stats), expected, "log_predictive, and the difference,", rtol=1e-9, atol=1e-9
    )


def log_marginal_is_a_chain_of_predictives(family: Family, n_features: int) -> None:
    """log p(x_1, …, x_n) = Σ_i log p(x_i | x_<i), in whatever order."""
    X = sample_rows(family, n_features)
    marginal = family.log_marginal(X)
    T = family.statistics(X)
    chain = float(np.trace(family.log_predictive(X, np.cumsum(T, axis=0) - T)))
    require_close(marginal, chain, "log_marginal, and the chain of log_predictive,", rtol=1e-9, atol=1e-9)
    for order in (slice(None, None, -1), [2, 0, 4, 1, 3]):
        require_close(family.log_marginal(X[order]), marginal, "log_marginal in two orders", rtol=1e-9, atol=1e-9)


def log_bayes_factor_is_a_difference_of_log_partitions(family: Family, n_features: int) -> None:
    """log p(two tables' data | one table) − log p(… | two) = log_partition(s₁ + s₂) − log_partition(s₁) − …(s₂)."""
    stats = sample_tables(family, n_features)[1:]
    for first, second in ((stats, stats[::-1]), (stats, stats[:1])):
        total = family.add({"stats": first}, {"stats": second})["stats"]
        require_close(total, first + second, "add, and the sum,", rtol=1e-12, atol=1e-12)
        expected = family.log_partition(total) - family.log_partition(first) - family.log_partition(second)
        found = family.log_bayes_factor({"stats": first}, {"stats": second})
        require_close(found, expected, "log_bayes_factor, and the difference,", rtol=1e-9, atol=1e-9)


def expected_log_likelihood_is_below_log_predictive(family: Family, n_features: int) -> None:
    """E[log p(x | φ)] ≤ log E[p(x | φ)], by Jensen's inequality."""
    X, stats = sample_rows(family, n_features), sample_tables(family, n_features)
    gap = family.log_predictive(X, stats) - family.expected_log_likelihood(X, stats)
    require(bool(np.all(gap >= -1e-9)), f"it exceeds log_predictive by {-np.min(gap):.3g}")


def expected_log_likelihood_is_a_gradient(family: Family, n_features: int) -> None:
    """E[log p(x | φ)] = log h(x) + d/dε log_partition(stats + ε T(x)), and has no jump at an empty table.

    By central differences, with an extrapolation that leaves an error of the fourth order of the step. Each table has
    taken in half of x, so that stats − ε T(x) are stats as well.
    """
    X, stats = sample_rows(family, n_features), sample_tables(family, n_features)
    for x, T in zip(X, family.statistics(X), strict=True):
        tables = stats + 0.5 * T

        def slope(step: float, tables: Float = tables, T: Float = T) -> Float:
            return (family.log_partition(tables + step * T) - family.log_partition(tables - step * T)) / (2.0 * step)

        gradient = (4.0 * slope(0.5e-3) - slope(1e-3)) / 3.0
        expected = gradient + family.log_base_measure(x[None])
        require_close(family.expected_log_likelihood(x[None], tables)[0], expected, "it, and the gradient,", 1e-7, 1e-7)
    crumb = empty_table(family, n_features) + 1e-9 * family.statistics(X[:1])
    empty = family.expected_log_likelihood(X, empty_table(family, n_features))
    require_close(empty, family.expected_log_likelihood(X, crumb), "it of an empty table, and of a crumb,", 1e-5, 1e-5)


def centers_follow_the_data(family: Family, n_features: int) -> None:
    """A table with a thousand times a row lies nearer to it than an empty one does."""
    for x in sample_rows(family, n_features):
        T = family.statistics(x[None])
        full, empty = (np.linalg.norm(family.centers(stats)[0] - x) for stats in (1000.0 * T, 0.0 * T))
        require(full <= empty + 1e-12, f"a table full of {x} lies {full:.3g} from it, an empty one {empty:.3g}")


CHECKS: tuple[FamilyCheck, ...] = (
    log_partition_of_an_empty_table_is_zero,
    log_predictive_is_a_difference_of_log_partitions,
    log_marginal_is_a_chain_of_predictives,
    log_bayes_factor_is_a_difference_of_log_partitions,
    expected_log_likelihood_is_below_log_predictive,
    expected_log_likelihood_is_a_gradient,
    centers_follow_the_data,
)

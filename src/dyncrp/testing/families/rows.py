"""What a family takes for a row, and the shapes of what it returns."""

from __future__ import annotations

import numpy as np

from dyncrp.arrays.checks import BadRow
from dyncrp.families import Family, protocols
from dyncrp.testing.asserts import Float, require, require_close, require_finite
from dyncrp.testing.families.material import FamilyCheck, empty_table, sample_rows, sample_tables

# What check may be given beside legal rows: each is refused with its row, or taken and then scored.
ODD_VALUES = (0.0, 1.0, -1.0, 0.5, 2.0, 3.7, 1e6, -1e6, 1e300, -1e300)


def shapes_are_as_documented(family: Family, n_features: int) -> None:
    """(n, D) rows, (K, S) stats and (n, K) scores, float64 and finite, also for no rows drawn and no table."""
    X, stats = sample_rows(family, n_features), sample_tables(family, n_features)
    n, K, S = len(X), len(stats), stats.shape[1]
    results: dict[str, tuple[Float, tuple[int, ...]]] = {
        "check": (family.check(X), (n, n_features)),
        "statistics": (family.statistics(X), (n, S)),
        "empty": (family.empty(n_features), (0, S)),
        "log_base_measure": (family.log_base_measure(X), (n,)),
        "log_partition": (family.log_partition(stats), (K,)),
        "log_predictive": (family.log_predictive(X, stats), (n, K)),
        "expected_log_likelihood": (family.expected_log_likelihood(X, stats), (n, K)),
        "centers": (family.centers(stats), (K, n_features)),
        "centers of no table": (family.centers(family.empty(n_features)), (0, n_features)),
    }
    for n_tables in (0, 1, 3):
        parameters = family.sample_parameters(n_tables, n_features, seed=0)
        require(len(parameters) == n_tables, f"sample_parameters({n_tables}, …) returned {len(parameters)} rows")
        results[f"sample of {n_tables}"] = (family.sample(parameters, seed=0), (n_tables, n_features))
    for name, (array, shape) in results.items():
        require(np.shape(array) == shape, f"{name} has shape {np.shape(array)}, expected {shape}")
        require(np.asarray(array).dtype == np.float64, f"{name} has dtype {np.asarray(array).dtype}, expected float64")
        require_finite(array, name)
    require(isinstance(family.log_marginal(X), float), "log_marginal is not a float")


def input_is_not_modified(family: Family, n_features: int) -> None:
    """No method writes into the rows, the stats or the parameters that it is given."""
    X, stats = sample_rows(family, n_features), sample_tables(family, n_features)
    parameters = family.sample_parameters(4, n_features, seed=0)
    kept = [array.copy() for array in (X, stats, parameters)]
    for array in (X, stats, parameters):
        array.flags.writeable = False
    for name in ("check", "statistics", "log_base_measure", "log_marginal"):
        getattr(family, name)(X)
    protocols.proposals(family, X)
    protocols.views(family, X)
    for name in ("log_partition", "centers"):
        getattr(family, name)(stats)
    for name in ("log_predictive", "expected_log_likelihood"):
        getattr(family, name)(X, stats)
    family.sample(parameters, seed=0)
    if family.can_widen:
        protocols.widen(family, stats, n_features + 1)
    for array, before in zip((X, stats, parameters), kept, strict=True):
        require(np.array_equal(array, before), "a method changed its input")


def check_takes_samples(family: Family, n_features: int) -> None:
    """Draws are legal rows, and what ``check`` returned is legal once more."""
    X = family.sample(family.sample_parameters(50, n_features, seed=1), seed=2)
    checked = family.check(X)
    require_close(checked, X, "check(X) of draws X", atol=1e-12, rtol=1e-12)
    require_close(family.check(checked), checked, "check(check(X))", atol=1e-12, rtol=1e-12)


def check_refuses_with_the_row(family: Family, n_features: int) -> None:
    """A row that ``check`` refuses raises ``BadRow`` with its index; one that it takes has a finite density."""
    X = sample_rows(family, n_features)
    refused = []
    for value in ODD_VALUES:
        odd = X.copy()
        odd[3] = value
        try:
            checked = family.check(odd)
        except BadRow as error:
            refused.append(value)
            require(error.row == 3, f"row 3 is full of {value}, and BadRow names row {error.row}")
            fits = error.column is None or 0 <= error.column < n_features
            require(fits, f"BadRow names column {error.column} of {n_features}")
        except Exception as error:
            raise AssertionError(
                f"check raised {error!r} for a row full of {value}: raise BadRow(reason, row)"
            ) from error
        else:
            require(checked.shape == odd.shape, f"check returned shape {checked.shape} for {odd.shape}")
            require_finite(family.statistics(checked), f"the statistics of a row full of {value}, which check takes,")
            density = family.log_predictive(checked, empty_table(family, n_features))
            require_finite(density, f"log_predictive of a row full of {value}, which check takes,")
    if refused:
        odd = X.copy()
        odd[[1, 3]] = refused[-1]
        try:
            family.check(odd)
        except BadRow as error:
            require(error.row == 1, f"rows 1 and 3 are bad, and BadRow names row {error.row}, not the first")


def check_knows_its_width(family: Family, n_features: int) -> None:
    """With hyperparameters for each feature, rows of another width are a ``ValueError``."""
    if family.width is None:
        return
    X = np.hstack([sample_rows(family, n_features), np.zeros((5, 1))])
    try:
        family.check(X)
    except ValueError:
        return
    raise AssertionError(f"check takes {n_features + 1} features, and its width is {family.width}")


def safe_norm_is_safe(family: Family, n_features: int) -> None:
    """Rows no longer than ``safe_norm`` pass ``check`` unchanged."""
    if family.safe_norm < 0:
        return
    rng = np.random.default_rng(0)
    directions = np.vstack([np.eye(n_features), -np.eye(n_features), rng.standard_normal((20, n_features))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for share in (0.0, 1e-9, 0.5, 1.0 - 1e-9):
        X = share * family.safe_norm * directions
        try:
            checked = family.check(X)
        except ValueError as error:
            raise AssertionError(f"check refuses a row of {share} times the safe_norm: {error}") from error
        require(np.array_equal(checked, X), f"check changes rows of {share} times the safe_norm")


def rows_do_not_depend_on_each_other(family: Family, n_features: int) -> None:
    """Each row is checked, summed up and scored as if it were the only one, at each table as if it were alone."""
    X, stats = sample_rows(family, n_features), sample_tables(family, n_features)
    for name in ("check", "statistics", "log_base_measure"):
        method = getattr(family, name)
        require_close(
            method(X), np.concatenate([method(x[None]) for x in X]), f"{name}(X), and row by row,", rtol=1e-12
        )
    for name in ("log_partition", "centers"):
        method = getattr(family, name)
        one_by_one = np.concatenate([method(table[None]) for table in stats])
        require_close(method(stats), one_by_one, f"{name}(stats), and table by table,", rtol=1e-12)
    for name in ("log_predictive", "expected_log_likelihood"):
        method = getattr(family, name)
        alone = np.array([[method(x[None], table[None])[0, 0] for table in stats] for x in X])
        require_close(method(X, stats), alone, f"{name}(X, stats), and pair by pair,", rtol=1e-12)


def statistics_start_with_one(family: Family, n_features: int) -> None:
    """The first of T(x) counts the observation."""
    T = family.statistics(sample_rows(family, n_features))
    require(bool(np.all(T[:, 0] == 1.0)), f"the first of T(x) is {T[:, 0]}, not 1 for each row")


CHECKS: tuple[FamilyCheck, ...] = (
    shapes_are_as_documented,
    input_is_not_modified,
    check_takes_samples,
    check_refuses_with_the_row,
    check_knows_its_width,
    safe_norm_is_safe,
    rows_do_not_depend_on_each_other,
    statistics_start_with_one,
)

"""Checks for those who write a family or a dynamics of their own: ``check_family`` and ``check_dynamics``.

Each is a list of small checks, one property each, and raises ``AssertionError`` for the first that fails, naming it.
The library's own families and dynamics pass the same ones. Nothing here is told a likelihood or a closed form: all that
can be checked is that what the methods return fits together, and fits the samplers. Checks by Monte Carlo fix their
seeds and allow five standard errors. Choose hyperparameters of moderate size, so that the draws of a table overlap
with those of another.
"""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, gammaln

from dyncrp.arrays.checks import BadRow
from dyncrp.dynamics import Dynamics, Exponential, Oscillatory, Stationary
from dyncrp.engine import reference
from dyncrp.engine.types import ASSIGNMENTS, TABLE_COUNTS, Model, Rules, State
from dyncrp.estimator import DynamicalMixture
from dyncrp.families import Family, Gaussian
from dyncrp.process import DynamicalCRP

Float = NDArray[np.float64]
FamilyCheck = Callable[[Family, int], None]
DynamicsCheck = Callable[[Dynamics], None]

SIGMAS = 5.0
N_DRAWS = 40_000
N_SEATINGS = 20_000
# What check may be given beside legal rows: each is refused with its row, or taken and then scored.
ODD_VALUES = (0.0, 1.0, -1.0, 0.5, 2.0, 3.7, 1e6, -1e6, 1e300, -1e300)


def check_family(family: Family, n_features: int = 2) -> None:
    """Raise ``AssertionError`` unless a family keeps the promises of ``dyncrp.families.Family``.

    If its class can be made without arguments, and is unknown then, what it proposes is checked too. See
    ``family_checks`` for the properties one by one.

    Args:
        family: with every hyperparameter given, and of moderate size.
        n_features: how many columns the rows have.

    >>> from dyncrp import Bernoulli
    >>> check_family(Bernoulli(0.5, 2.0), n_features=3)
    """
    for check in family_checks():
        _run(check, family, n_features)


def check_dynamics(dynamics: Dynamics, *, scaled: bool = False) -> None:
    """Raise ``AssertionError`` unless a dynamics keeps the promises of ``dyncrp.dynamics.Dynamics``.

    If durations are unknown, what can be said without them is checked, and then the rest with some. See
    ``dynamics_checks`` for the properties one by one.

    Args:
        dynamics: any size of timescale will do.
        scaled: whether its kernel may start at another number than 1, as that of ``2.0 * Exponential(3.0)`` does.

    >>> from dyncrp import Exponential, Stationary
    >>> check_dynamics(0.99 * Exponential(2.0) + 0.01 * Stationary())
    >>> check_dynamics(2.0 * Exponential())
    Traceback (most recent call last):
        ...
    AssertionError: 2.0 * Exponential(timescale=None) fails kernel_starts_at_one: kernel(0) is 2.0; ...
    """
    for check in dynamics_checks():
        if not (scaled and check is kernel_starts_at_one):
            _run(check, dynamics)


def family_checks() -> list[FamilyCheck]:
    """Return the checks of ``check_family``, to call each on its own with a family and a number of features.

    >>> from dyncrp import Gaussian
    >>> for check in family_checks():
    ...     check(Gaussian(1.0, 4.0), 1)
    """
    return list(FAMILY_CHECKS)


def dynamics_checks() -> list[DynamicsCheck]:
    """Return the checks of ``check_dynamics``, to call each on its own with a dynamics."""
    return list(DYNAMICS_CHECKS)


# --- families: objects ----------------------------------------------------------------------------------------------


def is_a_frozen_dataclass(family: Family, n_features: int) -> None:
    """Its fields cannot be set, nor written into."""
    _require(is_dataclass(family), "it is not a dataclass")
    for field in fields(family):
        try:
            setattr(family, field.name, getattr(family, field.name))
        except FrozenInstanceError:
            pass
        else:
            raise AssertionError(f"its field {field.name} can be set: decorate the class with dataclass(frozen=True)")
        value = getattr(family, field.name)
        if isinstance(value, np.ndarray):
            _require(not value.flags.writeable, f"its array {field.name} can be written into; see scalar_or_vector")


def is_equal_by_value(family: Family, n_features: int) -> None:
    """Copies, deep copies and pickles are equal to it and hash alike; it is equal to nothing else."""
    _equal_by_value(family)
    _require(family != "a family", "it is equal to a string")
    for name, twin in {"replace": replace(family), **_copies(family)}.items():
        for field in fields(twin):
            value = getattr(twin, field.name)
            writable = isinstance(value, np.ndarray) and value.flags.writeable
            _require(not writable, f"the array {field.name} can be written into after {name}")


def is_known(family: Family, n_features: int) -> None:
    """Every hyperparameter has a value, for as many features as asked for, so that it proposes itself alone."""
    _require(family.known, "it has unknown hyperparameters: give a value for each")
    family.require_known()
    _require(family.width in (None, n_features), f"its width is {family.width}, and n_features is {n_features}")
    X = _rows(family, n_features)
    _require(family.proposals(X) == [family], "its proposals are not [family], though it is known")
    for view in family.views(X):
        _require(view.lift(family) == family, "a view lifts it to another family, though it is known")


def input_is_not_modified(family: Family, n_features: int) -> None:
    """No method writes into the rows, the stats or the parameters that it is given."""
    X, stats = _rows(family, n_features), _tables(family, n_features)
    parameters = family.sample_parameters(4, n_features, seed=0)
    kept = [array.copy() for array in (X, stats, parameters)]
    for array in (X, stats, parameters):
        array.flags.writeable = False
    for name in ("check", "statistics", "log_base_measure", "log_marginal", "proposals", "views"):
        getattr(family, name)(X)
    for name in ("log_partition", "centers"):
        getattr(family, name)(stats)
    for name in ("log_predictive", "expected_log_likelihood"):
        getattr(family, name)(X, stats)
    family.sample(parameters, seed=0)
    if family.can_widen:
        family.widen(stats, n_features + 1)
    for array, before in zip((X, stats, parameters), kept, strict=True):
        _require(np.array_equal(array, before), "a method changed its input")


# --- families: rows -------------------------------------------------------------------------------------------------


def check_takes_samples(family: Family, n_features: int) -> None:
    """Draws are legal rows, and what ``check`` returned is legal once more."""
    X = family.sample(family.sample_parameters(50, n_features, seed=1), seed=2)
    checked = family.check(X)
    _close(checked, X, "check(X) of draws X", atol=1e-12, rtol=1e-12)
    _close(family.check(checked), checked, "check(check(X))", atol=1e-12, rtol=1e-12)


def check_refuses_with_the_row(family: Family, n_features: int) -> None:
    """A row that ``check`` refuses raises ``BadRow`` with its index; one that it takes has a finite density."""
    X = _rows(family, n_features)
    refused = []
    for value in ODD_VALUES:
        odd = X.copy()
        odd[3] = value
        try:
            checked = family.check(odd)
        except BadRow as error:
            refused.append(value)
            _require(error.row == 3, f"row 3 is full of {value}, and BadRow names row {error.row}")
            fits = error.column is None or 0 <= error.column < n_features
            _require(fits, f"BadRow names column {error.column} of {n_features}")
        except Exception as error:
            raise AssertionError(
                f"check raised {error!r} for a row full of {value}: raise BadRow(reason, row)"
            ) from error
        else:
            _require(checked.shape == odd.shape, f"check returned shape {checked.shape} for {odd.shape}")
            _finite(family.statistics(checked), f"the statistics of a row full of {value}, which check takes,")
            density = family.log_predictive(checked, _empty_table(family, n_features))
            _finite(density, f"log_predictive of a row full of {value}, which check takes,")
    if refused:
        odd = X.copy()
        odd[[1, 3]] = refused[-1]
        try:
            family.check(odd)
        except BadRow as error:
            _require(error.row == 1, f"rows 1 and 3 are bad, and BadRow names row {error.row}, not the first")


def check_knows_its_width(family: Family, n_features: int) -> None:
    """With hyperparameters for each feature, rows of another width are a ``ValueError``."""
    if family.width is None:
        return
    X = np.hstack([_rows(family, n_features), np.zeros((5, 1))])
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
        _require(np.array_equal(checked, X), f"check changes rows of {share} times the safe_norm")


def rows_do_not_depend_on_each_other(family: Family, n_features: int) -> None:
    """Each row is checked, summed up and scored as if it were the only one, at each table as if it were alone."""
    X, stats = _rows(family, n_features), _tables(family, n_features)
    for name in ("check", "statistics", "log_base_measure"):
        method = getattr(family, name)
        _close(method(X), np.concatenate([method(x[None]) for x in X]), f"{name}(X), and row by row,", rtol=1e-12)
    for name in ("log_partition", "centers"):
        method = getattr(family, name)
        one_by_one = np.concatenate([method(table[None]) for table in stats])
        _close(method(stats), one_by_one, f"{name}(stats), and table by table,", rtol=1e-12)
    for name in ("log_predictive", "expected_log_likelihood"):
        method = getattr(family, name)
        alone = np.array([[method(x[None], table[None])[0, 0] for table in stats] for x in X])
        _close(method(X, stats), alone, f"{name}(X, stats), and pair by pair,", rtol=1e-12)


def shapes_are_as_documented(family: Family, n_features: int) -> None:
    """(n, D) rows, (K, S) stats and (n, K) scores, float64 and finite, also for no rows drawn and no table."""
    X, stats = _rows(family, n_features), _tables(family, n_features)
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
        _require(len(parameters) == n_tables, f"sample_parameters({n_tables}, …) returned {len(parameters)} rows")
        results[f"sample of {n_tables}"] = (family.sample(parameters, seed=0), (n_tables, n_features))
    for name, (array, shape) in results.items():
        _require(np.shape(array) == shape, f"{name} has shape {np.shape(array)}, expected {shape}")
        _require(np.asarray(array).dtype == np.float64, f"{name} has dtype {np.asarray(array).dtype}, expected float64")
        _finite(array, name)
    _require(isinstance(family.log_marginal(X), float), "log_marginal is not a float")


def statistics_start_with_one(family: Family, n_features: int) -> None:
    """The first of T(x) counts the observation."""
    T = family.statistics(_rows(family, n_features))
    _require(bool(np.all(T[:, 0] == 1.0)), f"the first of T(x) is {T[:, 0]}, not 1 for each row")


# --- families: mathematics ------------------------------------------------------------------------------------------


def log_partition_of_an_empty_table_is_zero(family: Family, n_features: int) -> None:
    """The prior integrates to 1."""
    _close(family.log_partition(_empty_table(family, n_features)), 0.0, "log_partition of zeros", atol=1e-12)


def log_predictive_is_a_difference_of_log_partitions(family: Family, n_features: int) -> None:
    """log p(x | stats) = log_partition(stats + T(x)) − log_partition(stats) + log h(x)."""
    X, stats = _rows(family, n_features), _tables(family, n_features)
    after = np.array([family.log_partition(stats + T) for T in family.statistics(X)])
    expected = after - family.log_partition(stats) + family.log_base_measure(X)[:, None]
    _close(family.log_predictive(X, stats), expected, "log_predictive, and the difference,", rtol=1e-9, atol=1e-9)


def log_marginal_is_a_chain_of_predictives(family: Family, n_features: int) -> None:
    """log p(x_1, …, x_n) = Σ_i log p(x_i | x_<i), in whatever order."""
    X = _rows(family, n_features)
    marginal = family.log_marginal(X)
    T = family.statistics(X)
    chain = float(np.trace(family.log_predictive(X, np.cumsum(T, axis=0) - T)))
    _close(marginal, chain, "log_marginal, and the chain of log_predictive,", rtol=1e-9, atol=1e-9)
    for order in (slice(None, None, -1), [2, 0, 4, 1, 3]):
        _close(family.log_marginal(X[order]), marginal, "log_marginal in two orders", rtol=1e-9, atol=1e-9)


def log_bayes_factor_is_a_difference_of_log_partitions(family: Family, n_features: int) -> None:
    """log p(two tables' data | one table) − log p(… | two) = log_partition(s₁ + s₂) − log_partition(s₁) − …(s₂)."""
    stats = _tables(family, n_features)[1:]
    for first, second in ((stats, stats[::-1]), (stats, stats[:1])):
        total = family.add({"stats": first}, {"stats": second})["stats"]
        _close(total, first + second, "add, and the sum,", rtol=1e-12, atol=1e-12)
        expected = family.log_partition(total) - family.log_partition(first) - family.log_partition(second)
        found = family.log_bayes_factor({"stats": first}, {"stats": second})
        _close(found, expected, "log_bayes_factor, and the difference,", rtol=1e-9, atol=1e-9)


def expected_log_likelihood_is_below_log_predictive(family: Family, n_features: int) -> None:
    """E[log p(x | φ)] ≤ log E[p(x | φ)], by Jensen's inequality."""
    X, stats = _rows(family, n_features), _tables(family, n_features)
    gap = family.log_predictive(X, stats) - family.expected_log_likelihood(X, stats)
    _require(bool(np.all(gap >= -1e-9)), f"it exceeds log_predictive by {-np.min(gap):.3g}")


def expected_log_likelihood_is_a_gradient(family: Family, n_features: int) -> None:
    """E[log p(x | φ)] = log h(x) + d/dε log_partition(stats + ε T(x)), and has no jump at an empty table.

    By central differences, with an extrapolation that leaves an error of the fourth order of the step. Each table has
    taken in half of x, so that stats − ε T(x) are stats as well.
    """
    X, stats = _rows(family, n_features), _tables(family, n_features)
    for x, T in zip(X, family.statistics(X), strict=True):
        tables = stats + 0.5 * T

        def slope(step: float, tables: Float = tables, T: Float = T) -> Float:
            return (family.log_partition(tables + step * T) - family.log_partition(tables - step * T)) / (2.0 * step)

        gradient = (4.0 * slope(0.5e-3) - slope(1e-3)) / 3.0
        expected = gradient + family.log_base_measure(x[None])
        _close(family.expected_log_likelihood(x[None], tables)[0], expected, "it, and the gradient,", 1e-7, 1e-7)
    crumb = _empty_table(family, n_features) + 1e-9 * family.statistics(X[:1])
    empty = family.expected_log_likelihood(X, _empty_table(family, n_features))
    _close(empty, family.expected_log_likelihood(X, crumb), "it of an empty table, and of a crumb,", 1e-5, 1e-5)


def centers_follow_the_data(family: Family, n_features: int) -> None:
    """A table with a thousand times a row lies nearer to it than an empty one does."""
    for x in _rows(family, n_features):
        T = family.statistics(x[None])
        full, empty = (np.linalg.norm(family.centers(stats)[0] - x) for stats in (1000.0 * T, 0.0 * T))
        _require(full <= empty + 1e-12, f"a table full of {x} lies {full:.3g} from it, an empty one {empty:.3g}")


# --- families: Monte Carlo ------------------------------------------------------------------------------------------


def seeds_repeat_the_draws(family: Family, n_features: int) -> None:
    """A seed repeats ``sample_parameters`` and ``sample``; a generator moves on."""
    parameters = family.sample_parameters(4, n_features, seed=1)
    _require(
        np.array_equal(parameters, family.sample_parameters(4, n_features, seed=1)), "a seed draws other parameters"
    )
    many = np.repeat(parameters, 25, axis=0)
    _require(
        np.array_equal(family.sample(many, seed=2), family.sample(many, seed=2)), "a seed draws other observations"
    )
    rng = np.random.default_rng(3)
    first = family.sample_parameters(25, n_features, rng)
    _require(not np.array_equal(first, family.sample_parameters(25, n_features, rng)), "parameters repeat themselves")
    _require(not np.array_equal(family.sample(many, rng), family.sample(many, rng)), "observations repeat themselves")


def predictive_of_an_empty_table_is_that_of_the_sampler(family: Family, n_features: int) -> None:
    """The density of an empty table, integrated over a region, is how often draws fall there: no constant is missing.

    A feature whose draws repeat is discrete, and the region is one value of it; of any other it is an interval. If all
    draws are unit vectors, the region is the sphere.
    """
    X = family.sample(family.sample_parameters(N_DRAWS, n_features, seed=21), seed=22)
    empty = _empty_table(family, n_features)
    rng = np.random.default_rng(23)
    if n_features > 1 and np.allclose(np.linalg.norm(X, axis=1), 1.0, rtol=0.0, atol=1e-9):
        U = rng.standard_normal((N_DRAWS, n_features))
        U /= np.linalg.norm(U, axis=1, keepdims=True)
        log_area = np.log(2.0) + 0.5 * n_features * np.log(np.pi) - gammaln(0.5 * n_features)
        shares = np.exp(family.log_predictive(family.check(U), empty)[:, 0] + log_area)
        _agree(shares, np.ones(1), "its integral over the sphere, and 1")
        return
    discrete = np.array([len(np.unique(column)) < N_DRAWS // 2 for column in X.T])
    for corner in X[:: N_DRAWS // 4]:
        low, high = np.where(discrete, corner, np.quantile(X, 0.1, axis=0)), corner.copy()
        high[~discrete] = np.quantile(X, 0.9, axis=0)[~discrete]
        inside = np.all((low <= X) & (high >= X), axis=1).astype(np.float64)
        U = low + (high - low) * rng.random((N_DRAWS if not np.all(discrete) else 1, n_features))
        volume = np.prod((high - low)[~discrete])
        shares = volume * np.exp(family.log_predictive(family.check(U), empty)[:, 0])
        _agree(shares, inside, f"its integral from {low} to {high}, and the share of draws there")


def predictive_of_a_table_is_that_of_the_sampler(family: Family, n_features: int) -> None:
    """Draws that share a table have the density of the predictive, those that do not that of an empty table.

    With p the predictive after some draws of the table, and m that of an empty one, E_p[m/(p + m)] = E_m[p/(p + m)]
    = ∫ p m/(p + m), where both sides average numbers from 0 to 1. So p has its constant if m has.
    """
    empty = _empty_table(family, n_features)
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
        _agree(expit(-own_gain), expit(other_gain), f"E_p[m/(p + m)] and E_m[p/(p + m)] after {n_before} draws")


def predictive_of_part_of_a_row_is_normalised(family: Family, n_features: int) -> None:
    """E_m[p/m] = 1 for the predictive p of a table with responsibilities that are fractions, m that of an empty one."""
    X = family.sample(family.sample_parameters(N_DRAWS, n_features, seed=41), seed=42)
    part = 0.3 * family.statistics(_rows(family, n_features)[:2])
    stats = np.vstack([part, np.sum(part, axis=0)])
    ratios = np.exp(family.log_predictive(X, stats) - family.log_predictive(X, _empty_table(family, n_features)))
    for ratio in ratios.T:
        _agree(ratio, np.ones(1), "E_m[p/m], and 1")


# --- families: what is optional -------------------------------------------------------------------------------------


def widen_is_to_add_zeros(family: Family, n_features: int) -> None:
    """``widen`` gives the stats of rows with zeros at the end, if ``can_widen``; otherwise it is a ``ValueError``."""
    X, wider = _rows(family, n_features), n_features + 2
    if not family.can_widen:
        try:
            family.widen(family.statistics(X), wider)
        except ValueError:
            return
        raise AssertionError("can_widen is False, and widen raises no ValueError")
    _require(family.width is None, f"can_widen is True, and its width is {family.width}")
    padded = np.hstack([X, np.zeros((len(X), 2))])
    responsibilities = np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.2, 0.9, 0.0, 1.0, 0.35]])
    stats = responsibilities @ family.statistics(X)
    expected = responsibilities @ family.statistics(padded)
    _close(family.widen(stats, wider), expected, "widened stats, and those of rows with zeros,", 1e-12, 1e-12)


def terms_add_up_to_log_predictive(family: Family, n_features: int) -> None:
    """``log_predictive_terms`` has a term for each feature, and their sum is ``log_predictive``.

    A family that says neither what is due to a feature nor that features are independent passes.
    """
    if type(family).log_predictive_terms is Family.log_predictive_terms and not family.independent:
        return
    X, stats = _rows(family, n_features), _tables(family, n_features)
    terms = family.log_predictive_terms(X, stats)
    _require(terms.shape == (len(X), len(stats), n_features), f"the terms have shape {terms.shape}")
    whole = family.log_predictive(X, stats)
    _close(np.sum(terms, axis=2), whole, "the sum of the terms, and log_predictive,", rtol=1e-9, atol=1e-9)


def sharpen_keeps_strangers_apart(family: Family, n_features: int) -> None:
    """A sharper family has less reason to let rows of five tables share one; or ``sharpen`` is a ``ValueError``."""
    try:
        same = family.sharpen(1.0)
    except ValueError:
        return
    _require(same == family, f"sharpen(1) returns {same!r}")
    X = family.sample(family.sample_parameters(5, n_features, seed=4), seed=5)
    sharper, blunter = family.sharpen(3.0), family.sharpen(1.0 / 3.0)
    _require(type(sharper) is type(family), f"sharpen returns a {type(sharper).__name__}")
    _require(sharper.known, "sharpen returns a family with unknown hyperparameters")
    reasons = [_reason_to_share(kind, X) for kind in (blunter, family, sharper)]
    _require(reasons[0] > reasons[1] > reasons[2], f"log odds to share a table at 1/3, 1 and 3 are {reasons}")


def proposals_are_known(family: Family, n_features: int) -> None:
    """If the class can be made without arguments and is unknown then, it proposes known families for any legal rows.

    Those least willing to open tables come first; each view lifts them to families of the features, whose evidence
    is that of the coordinates, and the log density that these leave out.
    """
    unknown = _unknown(family)
    if unknown is None:
        return
    for use in (unknown.require_known, lambda: Model(unknown, Stationary().modes(), 1.0, Rules())):
        try:
            use()
        except ValueError:
            continue
        raise AssertionError(f"{unknown!r} can be used as if it were known")
    labels = np.repeat(np.arange(6), 10)
    X = family.sample(family.sample_parameters(6, n_features, seed=6)[labels], seed=7)
    X = unknown.check(X)
    one = X[:1]  # a stream begins with one row
    _require(len(unknown.proposals(one)) > 0 < len(unknown.views(one)), "there are no proposals for one row")
    for view in unknown.views(X):
        there = view.family or unknown
        proposals = there.proposals(view.rows)
        _require(len(proposals) > 0, "there are no proposals without labels")
        for found in (proposals, there.proposals(view.rows, labels)):
            for proposal in found:
                lifted = view.lift(proposal)
                _require(isinstance(lifted, Family) and lifted.known, f"it proposes {lifted!r}, which is not known")
                here = lifted.log_marginal(lifted.check(X))
                _require(bool(np.isfinite(here)), f"rows have log marginal {here} for its proposal {lifted!r}")
                evidence = proposal.log_marginal(proposal.check(view.rows)) + view.log_density
                _close(here, evidence, "the log marginal in the features, and in the view,", rtol=1e-8, atol=1e-6)
            if len(found) > 1:
                first, last = (_reason_to_share(proposal, view.rows) for proposal in (found[0], found[-1]))
                _require(
                    first >= last, f"log odds to share a table: {first:.3g} for the first, {last:.3g} for the last"
                )


# --- families: in use -----------------------------------------------------------------------------------------------


def engine_learns_a_stream(family: Family, n_features: int) -> None:
    """The reference learns a stream by every rule, the same however it is cut, and never makes the lower bound fall."""
    X, times = _stream(family, n_features)
    for assignment in ASSIGNMENTS[:1] if family.sparse else ASSIGNMENTS:  # of a sparse one, by its first rule only
        for table_count in TABLE_COUNTS:
            rules = Rules(assignment, table_count, new_table_threshold=0.5 if table_count == "map" else 0.05)
            model = Model(family, Exponential(15.0).modes(), 0.8, rules, clip=False)
            state, places = reference.initial_state(model, n_features), []
            for x, t in zip(X, times, strict=True):
                state, done = reference.step(state, x, float(t), model)
                places.append(done.label)  # nothing closes, so that places are ids
                _finite(done.log_evidence, f"the evidence for {rules}")
                falls = np.diff(done.lower_bounds)
                slack = 1e-9 * (1.0 + np.max(np.abs(done.lower_bounds), initial=0.0))
                _require(bool(np.all(falls >= -slack)), f"the lower bound falls by {-np.min(falls, initial=0.0):.3g}")
            engine = reference.ReferenceEngine(model, n_features)
            cut = [engine.run(X[a:b], times[a:b]).labels for a, b in ((0, 1), (1, 8), (8, len(X)))]
            _require(np.array_equal(places, np.concatenate(cut)), f"labels depend on the cut, for {rules}")


def mixture_fits(family: Family, n_features: int) -> None:
    """``DynamicalMixture`` learns the stream as the reference does, continues, and predicts."""
    X, times = _stream(family, n_features)
    model = DynamicalMixture(family, Exponential(15.0), alpha=0.8).fit(X, times=times)
    engine = reference.ReferenceEngine(Model(family, Exponential(15.0).modes(), 0.8, Rules(), clip=False), n_features)
    _require(
        np.array_equal(model.labels_, engine.run(family.check(X), times).labels), "its labels are not the reference's"
    )
    _close(model.log_evidence_, engine.log_evidence, "its evidence, and the reference's,", rtol=1e-8, atol=1e-8)
    again = DynamicalMixture(family, Exponential(15.0), alpha=0.8)
    labels = [again.partial_fit(X[a:b], times=times[a:b]).labels_ for a, b in ((0, 3), (3, len(X)))]
    _require(np.array_equal(np.concatenate(labels), model.labels_), "partial_fit gives other labels than fit")
    _require(model.centers_.shape == (model.n_tables_, n_features), f"centers_ have shape {model.centers_.shape}")
    shares = model.predict_proba(X)
    _require(shares.shape == (len(X), model.n_tables_ + 1), f"predict_proba has shape {shares.shape}")
    _close(np.sum(shares, axis=1), 1.0, "the sum of predict_proba, and 1,", atol=1e-9)
    _finite(model.score_samples(X), "score_samples")


FAMILY_CHECKS: tuple[FamilyCheck, ...] = (
    is_a_frozen_dataclass,
    is_equal_by_value,
    is_known,
    shapes_are_as_documented,
    input_is_not_modified,
    check_takes_samples,
    check_refuses_with_the_row,
    check_knows_its_width,
    safe_norm_is_safe,
    rows_do_not_depend_on_each_other,
    statistics_start_with_one,
    log_partition_of_an_empty_table_is_zero,
    log_predictive_is_a_difference_of_log_partitions,
    log_marginal_is_a_chain_of_predictives,
    log_bayes_factor_is_a_difference_of_log_partitions,
    expected_log_likelihood_is_below_log_predictive,
    expected_log_likelihood_is_a_gradient,
    centers_follow_the_data,
    seeds_repeat_the_draws,
    predictive_of_an_empty_table_is_that_of_the_sampler,
    predictive_of_a_table_is_that_of_the_sampler,
    predictive_of_part_of_a_row_is_normalised,
    widen_is_to_add_zeros,
    sharpen_keeps_strangers_apart,
    proposals_are_known,
    terms_add_up_to_log_predictive,
    engine_learns_a_stream,
    mixture_fits,
)


# --- dynamics -------------------------------------------------------------------------------------------------------


def dynamics_is_a_value(dynamics: Dynamics) -> None:
    """Copies, deep copies and pickles are equal to it and hash alike; it is equal to nothing else."""
    _equal_by_value(dynamics)
    _require(dynamics != dynamics + Stationary(), "it is equal to another dynamics")
    _require(type(dynamics).__repr__ is not object.__repr__, "it has no repr: make it a dataclass")


def durations_are_written_in(dynamics: Dynamics) -> None:
    """``durations``, ``n_unknown`` and ``with_durations`` agree; without all durations, there is no kernel."""
    durations, n = dynamics.durations(), dynamics.n_unknown
    _require(isinstance(durations, list), f"durations() is {durations!r}, not a list")
    _require(all(length is None or 0 < length < np.inf for length in durations), f"durations() are {durations}")
    _require(n == durations.count(None), f"n_unknown is {n}, and durations() are {durations}")
    _require(n > 0 or not dynamics.seeks_period, "it seeks a period, and no duration is unknown")
    known = _known(dynamics)
    given = iter(_durations(n))
    expected = [next(given) if length is None else length for length in durations]
    _require(known.durations() == expected, f"with_durations wrote in {known.durations()}, expected {expected}")
    _require(known.n_unknown == 0, f"{known.n_unknown} durations are unknown after with_durations")
    _require(known.with_durations([]) == known, "with_durations([]) changes what is known")
    _require(dynamics.durations() == durations, "with_durations changed the dynamics itself")
    _require(known.nonnegative == dynamics.nonnegative, "nonnegative depends on the durations")
    if n == 0:
        return
    uses: dict[str, Callable[[], object]] = {
        "modes()": dynamics.modes,
        "with_durations of one too few": lambda: dynamics.with_durations(_durations(n - 1)),
    }
    for name, use in uses.items():
        try:
            use()
        except ValueError:
            continue
        raise AssertionError(f"{name} raises no ValueError, though a duration is unknown")


def modes_never_grow(dynamics: Dynamics) -> None:
    """``modes`` are two complex arrays of one length, finite, with Re rate ≥ 0, new ones at each call."""
    dynamics = _known(dynamics)
    amplitudes, rates = dynamics.modes()
    for name, array in (("amplitudes", amplitudes), ("rates", rates)):
        _require(isinstance(array, np.ndarray) and array.dtype == np.complex128, f"{name} are no complex128 array")
        _require(array.shape == (len(rates),) and len(rates) > 0, f"{name} have shape {array.shape}")
        _finite(array, name)
    _require(bool(np.all(rates.real >= 0)), f"a rate has a negative real part, so that the kernel grows: {rates}")
    before = dynamics.kernel(1.0)
    amplitudes *= 2.0
    rates += 1.0
    _require(dynamics.kernel(1.0) == before, "changing the arrays that modes() returned changes the kernel")


def kernel_starts_at_one(dynamics: Dynamics) -> None:
    """A customer who has just come counts 1, unless the dynamics is scaled."""
    start = float(_known(dynamics).kernel(0.0))
    message = f"kernel(0) is {start}; pass scaled=True if that is meant"
    _require(abs(start - 1.0) <= 1e-12, message)


def kernel_is_the_sum_of_its_modes(dynamics: Dynamics) -> None:
    """kernel(Δ) = Re Σ a_m exp(−rate_m Δ), for Δ of any shape."""
    dynamics = _known(dynamics)
    amplitudes, rates = dynamics.modes()
    delays = _delays(dynamics)[:600]
    total = sum(np.real(a * np.exp(-rate * delays)) for a, rate in zip(amplitudes, rates, strict=True))
    _close(dynamics.kernel(delays), total, "the kernel, and the sum of its modes,", atol=1e-12 * _size(dynamics))
    grid = dynamics.kernel(delays.reshape(2, 3, 100))
    _require(np.array_equal(grid, dynamics.kernel(delays).reshape(2, 3, 100)), "the kernel of a grid is another")
    _require(np.ndim(dynamics.kernel(1.0)) == 0, "the kernel of a number is no number")


def time_passes_in_steps(dynamics: Dynamics) -> None:
    """To advance a table by a and then by b is to advance it by a + b, and gives kernel(a + b)."""
    dynamics = _known(dynamics)
    modes = dynamics.modes()
    count = np.ones(1)
    states = np.ones((1, len(modes.rates)), complex)
    none = np.zeros(1, np.int64)
    start = State(np.ones((1, 1)), np.ones((1, 0)), states, 0.0, count, none, 1, none, np.zeros(1), np.zeros(1))
    for a, b in np.random.default_rng(0).permutation(_delays(dynamics)[:200]).reshape(-1, 2):
        twice = reference.advance(reference.advance(start, a, modes), a + b, modes)
        value = (twice.mode_states @ modes.amplitudes).real[0]
        phase = np.max(np.abs(modes.rates)) * (a + b)  # rounding a time of many periods turns the phase
        slack = 1e-12 * _size(dynamics) * max(1.0, phase)
        _close(value, dynamics.kernel(a + b), f"advancing by {a} and {b}, and kernel({a + b}),", atol=slack)


def nonnegative_kernels_are(dynamics: Dynamics) -> None:
    """A kernel that is said to be ``nonnegative`` is, on a dense grid of delays."""
    if not dynamics.nonnegative:
        return
    dynamics = _known(dynamics)
    delays = _delays(dynamics)
    values = dynamics.kernel(delays)
    worst = int(np.argmin(values))
    claim = f"it is said to be nonnegative, and kernel({delays[worst]}) = {values[worst]:.3g}"
    _require(bool(values[worst] >= -1e-12 * _size(dynamics)), claim)


def algebra_is_pointwise(dynamics: Dynamics) -> None:
    """Kernels of sums, products and multiples are those of the parts; so are their signs."""
    dynamics = _known(dynamics)
    delays = _delays(dynamics)[:600]
    kernel, size = dynamics.kernel(delays), 4.0 * _size(dynamics)
    unit = float(np.median(delays)) or 1.0
    for other in (Stationary(), Exponential(unit), Oscillatory(1.3 * unit)):
        values = other.kernel(delays)
        slack = 1e-12 * size * (1.0 + np.max(np.abs(other.modes().rates)) * delays)
        for name, combined, expected in (
            ("the sum", dynamics + other, kernel + values),
            ("the sum", other + dynamics, kernel + values),
            ("the product", dynamics * other, kernel * values),
            ("the product", other * dynamics, kernel * values),
        ):
            gap = np.abs(combined.kernel(delays) - expected) - slack
            _require(bool(np.all(gap <= 0)), f"{name} with {other!r} is off by {np.max(gap):.3g}")
            _require(combined.nonnegative == dynamics.nonnegative, f"the sign of {name} with {other!r} is another")
    for weight in (0.3, -2.0):
        _close(
            (weight * dynamics).kernel(delays),
            weight * kernel,
            f"{weight} times it, and that kernel,",
            atol=1e-12 * size,
        )
        _require((weight * dynamics).nonnegative == (weight > 0 and dynamics.nonnegative), f"sign of {weight} times it")
    _close((dynamics / 2).kernel(delays), kernel / 2.0, "half of it, and half its kernel,", atol=1e-12 * size)


def seatings_are_as_likely_as_defined(dynamics: Dynamics) -> None:
    """Seatings that ``DynamicalCRP`` samples, and its marginals where no kernel is negative, agree with enumeration."""
    dynamics = _known(dynamics)
    unit = float(np.median(_delays(dynamics)[:600])) or 1.0
    times = unit * np.array([0.0, 0.3, 0.3, 0.9, 1.4, 2.0])
    process = DynamicalCRP(0.9, dynamics)
    exact = _seatings(dynamics, times, 0.9)
    tables, counts = np.unique(process.sample(times, N_SEATINGS, seed=5), axis=0, return_counts=True)
    found = dict(zip(map(tuple, tables.tolist()), counts / N_SEATINGS, strict=True))
    for seating, probability in exact.items():
        error = np.sqrt(max(probability * (1.0 - probability), 10.0 / N_SEATINGS) / N_SEATINGS)
        gap = abs(found.pop(seating, 0.0) - probability)
        _require(gap <= SIGMAS * error, f"seating {seating} is off its probability {probability:.4g} by {gap:.2g}")
    _require(not found, f"seatings were drawn that cannot be: {list(found)}")
    if np.min(dynamics.kernel(np.abs(np.subtract.outer(times, times)))) < 0:
        return
    marginals = process.marginals(times)
    assignments, n_tables = np.zeros((6, 6)), np.zeros((6, 6))
    for seating, probability in exact.items():
        for n, table in enumerate(seating):
            assignments[n, table] += probability
            n_tables[n, max(seating[: n + 1])] += probability
    _close(marginals.assignments, assignments, "marginals, and the sum over seatings,", atol=1e-12)
    _close(marginals.n_tables, n_tables, "marginal numbers of tables, and the sum over seatings,", atol=1e-12)


def mixture_fits_with_the_dynamics(dynamics: Dynamics) -> None:
    """``DynamicalMixture`` learns a stream with it, the same however it is cut, and as the reference does."""
    dynamics = _known(dynamics)
    rng = np.random.default_rng(0)
    X = 10.0 * rng.standard_normal((4, 2))[rng.integers(4, size=40)] + rng.standard_normal((40, 2))
    times = float(np.median(_delays(dynamics)[:600])) * np.cumsum(rng.exponential(0.1, 40))
    family = Gaussian(1.0, 100.0)
    model = DynamicalMixture(family, dynamics, alpha=0.7).fit(X, times=times)
    told = Model(family, dynamics.modes(), 0.7, Rules(), clip=not dynamics.nonnegative)
    engine = reference.ReferenceEngine(told, 2)
    _require(np.array_equal(model.labels_, engine.run(X, times).labels), "its labels are not the reference's")
    _close(model.log_evidence_, engine.log_evidence, "its evidence, and the reference's,", rtol=1e-8, atol=1e-8)
    again = DynamicalMixture(family, dynamics, alpha=0.7)
    labels = [again.partial_fit(X[a:b], times=times[a:b]).labels_ for a, b in ((0, 7), (7, 40))]
    _require(np.array_equal(np.concatenate(labels), model.labels_), "partial_fit gives other labels than fit")


DYNAMICS_CHECKS: tuple[DynamicsCheck, ...] = (
    dynamics_is_a_value,
    durations_are_written_in,
    modes_never_grow,
    kernel_starts_at_one,
    kernel_is_the_sum_of_its_modes,
    time_passes_in_steps,
    nonnegative_kernels_are,
    algebra_is_pointwise,
    seatings_are_as_likely_as_defined,
    mixture_fits_with_the_dynamics,
)


# --- what the checks share ------------------------------------------------------------------------------------------


def _run(check: Callable[..., None], subject: object, *args: object) -> None:
    """Run a check; whatever it raises becomes an ``AssertionError`` with the check's name and what it promises."""
    try:
        check(subject, *args)
    except Exception as error:
        said = str(error).strip() if isinstance(error, AssertionError) else repr(error)
        promise = (check.__doc__ or "").splitlines()[0]
        raise AssertionError(f"{subject!r} fails {check.__name__}: {said} (promised: {promise})") from error


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _finite(values: ArrayLike, name: str) -> None:
    _require(bool(np.all(np.isfinite(values))), f"{name} is not finite")


def _close(actual: ArrayLike, expected: ArrayLike, what: str, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raise unless two arrays agree to ``atol + rtol |expected|``."""
    actual, expected = np.broadcast_arrays(np.asarray(actual), np.asarray(expected))
    gap = np.abs(actual - expected) - (atol + rtol * np.abs(expected))
    if not np.all(gap <= 0):  # a nan does not agree
        worst = np.unravel_index(int(np.argmax(np.where(np.isnan(gap), np.inf, gap))), gap.shape)
        raise AssertionError(f"{what} differ: {actual[worst]!r} and {expected[worst]!r}")


def _agree(some: Float, others: Float, what: str) -> None:
    """Raise unless the means of two independent samples agree within five standard errors."""
    error = 0.0
    for values in (some, others):
        error += float(np.var(values)) / len(values)
    gap, error = abs(float(np.mean(some) - np.mean(others))), float(np.sqrt(error))
    message = f"{what} are {np.mean(some):.6g} and {np.mean(others):.6g}, with a standard error of {error:.2g}"
    _require(gap <= SIGMAS * error + 1e-9, message)


def _equal_by_value(value: Any) -> None:
    _require(value == copy.copy(value), "it is not equal to a copy of itself")
    for name, twin in _copies(value).items():
        _require(type(twin) is type(value) and twin == value, f"it is not equal to itself after {name}")
        _require(hash(twin) == hash(value), f"it does not hash as it did after {name}")


def _copies(value: Any) -> dict[str, Any]:
    """Return copies; a pickle only if the class can be imported, as one made inside a function cannot."""
    found = {"copy": copy.copy(value), "deepcopy": copy.deepcopy(value)}
    kind = type(value)
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind:
        found["pickle"] = pickle.loads(pickle.dumps(value))
    return found


def _rows(family: Family, n_features: int) -> Float:
    """Return five observations of one table, (5, D)."""
    rng = np.random.default_rng(3)
    return family.sample(np.repeat(family.sample_parameters(1, n_features, rng), 5, axis=0), rng)


def _tables(family: Family, n_features: int) -> Float:
    """Return the stats of an empty table, of three rows, and of fractions of five, (3, S)."""
    responsibilities = np.array([[0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0, 0.0], [0.2, 0.9, 0.0, 1.0, 0.35]])
    return responsibilities @ family.statistics(_rows(family, n_features))


def _empty_table(family: Family, n_features: int) -> Float:
    return np.zeros((1, family.empty(n_features).shape[1]))


def _stream(family: Family, n_features: int, n: int = 24) -> tuple[Float, Float]:
    """Return observations of five tables and their times, some of them tied."""
    rng = np.random.default_rng(9)
    X = family.sample(family.sample_parameters(5, n_features, rng)[rng.integers(5, size=n)], rng)
    return family.check(X), np.cumsum(rng.exponential(1.0, n) * rng.integers(0, 2, n))


def _reason_to_share(family: Family, X: Float) -> float:
    """Return the log odds of one table for all rows against one for each."""
    X = family.check(X)
    return family.log_marginal(X) - sum(family.log_marginal(x[None]) for x in X)


def _unknown(family: Family) -> Family | None:
    """Return the family without hyperparameters, if there is such a thing."""
    try:
        unknown = type(family)()
    except (TypeError, ValueError):
        return None
    return None if unknown.known else unknown


def _known(dynamics: Dynamics) -> Dynamics:
    """Return the dynamics with all its durations."""
    return dynamics.with_durations(_durations(dynamics.n_unknown)) if dynamics.n_unknown else dynamics


def _durations(n: int) -> list[float]:
    return [1.7 * 1.9**i for i in range(n)]


def _size(dynamics: Dynamics) -> float:
    return float(np.sum(np.abs(dynamics.modes().amplitudes)))


def _delays(dynamics: Dynamics) -> Float:
    """Return delays from nothing to far beyond the slowest mode, dense in between; the first 600 are its own size."""
    rates = np.abs(dynamics.modes().rates)
    rates = rates[rates > 0]
    fast, slow = (1.0 / np.max(rates), 1.0 / np.min(rates)) if rates.size else (1.0, 1.0)
    middle = np.exp(np.mean(np.log([fast, slow])))
    own = np.append(0.0, np.random.default_rng(1).exponential(3.0 * middle, 599))
    dense = [np.linspace(0.0, 20.0 * scale, 4001) for scale in (fast, middle, slow)]
    return np.concatenate([own, *dense, np.geomspace(1e-6 * fast, 1e3 * slow, 4001)])


def _seatings(dynamics: Dynamics, times: Float, alpha: float) -> dict[tuple[int, ...], float]:
    """Return every seating of the customers with its probability, straight from the definition."""
    kernel = dynamics.kernel(np.abs(np.subtract.outer(times, times)))
    seated: dict[tuple[int, ...], float] = {(): 1.0}
    for n in range(len(times)):
        longer = {}
        for tables, probability in seated.items():
            occupancy = np.zeros(max(tables, default=-1) + 1)
            np.add.at(occupancy, list(tables), kernel[n, :n])
            weights = np.append(np.maximum(occupancy, 0.0), alpha)
            for table, weight in enumerate(weights / np.sum(weights)):
                longer[(*tables, table)] = probability * float(weight)
        seated = longer
    return seated

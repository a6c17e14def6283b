"""What every family must satisfy. A new family gets all of it by adding a line to CASES.

Monte Carlo tests fix their seed and allow five standard errors.
"""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from scipy import special, stats

from dyncrp import Stationary
from dyncrp.engine.reference import Model, Rules
from dyncrp.families import FAMILIES, Bernoulli, Family, Gaussian, GaussianUnknownVariance, VonMisesFisher
from dyncrp.families.base import SCALES

SIGMAS = 5.0
N_DRAWS = 100_000


def log_gaussian(family, X, parameters):
    return stats.norm.logpdf(X[:, None], parameters, np.sqrt(family.variance)).sum(-1)


def log_gaussian_with_directions(family, X, parameters):
    """Densities across the directions, and along them: W⁺ diag(σ²) W⁺ᵀ + τ² (I − W⁺ W) has this inverse."""
    W = family.directions
    Q, D = W.shape
    variance = np.broadcast_to(family.variance, Q)
    across = np.eye(D) - np.linalg.pinv(W) @ W
    precision = W.T @ np.diag(1.0 / variance) @ W + across / (family.residual_variance or 1.0)
    gap = X[:, None] - parameters
    square = np.einsum("nmd,de,nme->nm", gap, precision, gap, optimize=True)
    return 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * D * np.log(2 * np.pi) - 0.5 * square


def log_gaussian_unknown_variance(family, X, parameters):
    means, variances = np.split(parameters, 2, axis=1)
    return stats.norm.logpdf(X[:, None], means, np.sqrt(variances)).sum(-1)


def mean_of_mean_and_variance(family, parameters):
    return parameters[:, : parameters.shape[1] // 2]


def with_variances(family, centers):
    """Append a variance to each mean, the second larger than the first but not twice as large."""
    return np.hstack([centers, family.variance * np.linspace(1.0, 1.3, len(centers))[:, None] + np.zeros_like(centers)])


def log_bernoulli(family, X, parameters):
    return stats.bernoulli.logpmf(X[:, None], parameters).sum(-1)


def log_von_mises_fisher(family, X, parameters):
    pole = np.eye(X.shape[1])[0]
    log_height = stats.vonmises_fisher(pole, family.concentration).logpdf(pole)
    return log_height + family.concentration * (X @ parameters.T - 1.0)


def resultant(family, parameters):
    order, kappa = parameters.shape[1] / 2, family.concentration
    return special.ive(order, kappa) / special.ive(order - 1, kappa) * parameters


class Case(NamedTuple):
    """A family, how many features, log p(x | φ) as (n, D), (m, P) to (n, m), E[x | φ], and some φ with given centers.

    The last two are (m, P) to (m, D) and back; where φ is where a table lies, neither needs to be given.
    """

    family: Family
    n_features: int
    log_likelihood: Callable[..., np.ndarray]
    mean: Callable[..., np.ndarray] = lambda family, parameters: parameters
    parameters_at: Callable[..., np.ndarray] = lambda family, centers: centers


UNKNOWN_VARIANCE = (log_gaussian_unknown_variance, mean_of_mean_and_variance, with_variances)
CASES = [
    Case(Gaussian(0.7, 3.0), 1, log_gaussian),
    Case(Gaussian(2.0, 3.0, 1.5), 3, log_gaussian),
    Case(Gaussian([0.5, 2.0], [3.0, 1.0], [4.0, -2.0]), 2, log_gaussian),
    Case(Gaussian([0.5, 2.0], [3.0, 1.0], [4.0, -2.0], [[1.0, 0.4], [-0.3, 2.0]]), 2, log_gaussian_with_directions),
    Case(Gaussian([0.7, 2.0], 3.0, 0.5, [[0.6, -1.2, 1.0], [0.5, 0.1, 0.8]], 0.4), 3, log_gaussian_with_directions),
    Case(GaussianUnknownVariance(0.7, 3.0), 1, *UNKNOWN_VARIANCE),
    Case(GaussianUnknownVariance(2.0, 3.0, 12.0, 1.5), 3, *UNKNOWN_VARIANCE),
    Case(GaussianUnknownVariance([0.5, 2.0], [3.0, 1.0], 7.0, [4.0, -2.0]), 2, *UNKNOWN_VARIANCE),
    Case(Bernoulli(0.5, 2.0), 1, log_bernoulli),
    Case(Bernoulli([0.6, 1.0, 3.0], 1.5), 3, log_bernoulli),
    Case(VonMisesFisher(3.0), 2, log_von_mises_fisher, resultant),
    Case(VonMisesFisher(1.0), 3, log_von_mises_fisher, resultant),
    Case(VonMisesFisher(8.0), 5, log_von_mises_fisher, resultant),
]


@pytest.fixture(params=CASES, ids=[f"{case.family!r}-{case.n_features}" for case in CASES])
def case(request):
    return request.param


@pytest.fixture
def family(case):
    return case.family


@pytest.fixture
def X(case):
    """Five observations of one table, read-only: no method may write into its input."""
    rng = np.random.default_rng(3)
    X = case.family.sample(np.repeat(case.family.sample_parameters(1, case.n_features, rng), 5, axis=0), rng)
    X.flags.writeable = False
    return X


@pytest.fixture
def stats_of_tables(family, X):
    """Read-only stats of an empty table, of the first three rows, and of fractional responsibilities for all."""
    responsibilities = np.array([[0, 0, 0, 0, 0], [1, 1, 1, 0, 0], [0.2, 0.9, 0.0, 1.0, 0.35]])
    tables = responsibilities @ family.statistics(X)
    tables.flags.writeable = False
    return responsibilities, tables


@pytest.fixture
def prior_draws(case):
    return case.family.sample_parameters(N_DRAWS, case.n_features, seed=11)


def mean_and_error(values, axis=0):
    return values.mean(axis), values.std(axis, ddof=1) / np.sqrt(values.shape[axis])


def weighted_mean_and_error(values, weights):
    """The self-normalised importance estimate of E[values] and its standard error by the delta method."""
    share = weights / weights.sum()
    mean = values @ share
    return mean, np.sqrt(((values - mean[:, None]) ** 2) @ share**2)


def assert_within(estimate, error, exact):
    __tracebackhide__ = True
    assert np.all(np.abs(estimate - exact) <= SIGMAS * error + 1e-12), (estimate, error, exact)


def test_every_family_has_a_case():
    assert {type(case.family) for case in CASES} == set(FAMILIES.values())


# Statistics


def test_statistics_start_with_a_one(family, X):
    assert np.array_equal(family.statistics(X)[:, 0], np.ones(len(X)))


def test_statistics_of_a_row_do_not_depend_on_the_other_rows(family, X):
    one_by_one = np.vstack([family.statistics(x[None]) for x in X])
    if getattr(family, "directions", None) is None:
        assert np.array_equal(family.statistics(X), one_by_one)
    else:  # BLAS rounds a product of matrices in another order than one with a row
        np.testing.assert_allclose(family.statistics(X), one_by_one, rtol=1e-13, atol=1e-15)


def test_no_table_has_no_rows_and_the_width_of_the_statistics(case, family, X):
    assert family.empty(case.n_features).shape == (0, family.statistics(X).shape[1])


def test_updating_with_the_sum_equals_updating_one_by_one(family, X):
    at_once = family.statistics(X).sum(axis=0, keepdims=True)
    step_by_step = np.zeros_like(at_once)
    for x in X:
        step_by_step += family.statistics(x[None])
    for method in (family.log_predictive, family.expected_log_likelihood):
        np.testing.assert_allclose(method(X, at_once), method(X, step_by_step), rtol=1e-13)
    np.testing.assert_allclose(family.centers(at_once), family.centers(step_by_step), rtol=1e-12)


# Identities


def test_log_partition_of_an_empty_table_is_zero(family, X):
    np.testing.assert_allclose(family.log_partition(np.zeros_like(family.statistics(X))), 0.0, atol=1e-15)


def test_log_predictive_is_a_difference_of_log_partitions(family, X, stats_of_tables):
    _, tables = stats_of_tables
    joint = tables + family.statistics(X)[:, None]
    after = np.array([family.log_partition(row) for row in joint])
    expected = after - family.log_partition(tables) + family.log_base_measure(X)[:, None]
    np.testing.assert_allclose(family.log_predictive(X, tables), expected, rtol=0, atol=1e-12)


def test_chain_rule_of_log_predictive_gives_log_marginal(family, X):
    before = np.vstack([np.zeros_like(family.statistics(X[:1])), np.cumsum(family.statistics(X), axis=0)])[:-1]
    chain = np.trace(family.log_predictive(X, before))
    assert family.log_marginal(X) == pytest.approx(chain, abs=1e-12)


def test_log_marginal_does_not_depend_on_the_order(family, X):
    assert family.log_marginal(X[::-1]) == pytest.approx(family.log_marginal(X), abs=1e-12)


def test_expected_log_likelihood_is_below_log_predictive(family, X, stats_of_tables):
    _, tables = stats_of_tables
    assert np.all(family.expected_log_likelihood(X, tables) < family.log_predictive(X, tables))


def test_shapes_are_observations_by_tables(case, family, X, stats_of_tables):
    _, tables = stats_of_tables
    assert family.log_predictive(X, tables).shape == (len(X), len(tables))
    assert family.expected_log_likelihood(X, tables).shape == (len(X), len(tables))
    assert family.log_base_measure(X).shape == (len(X),)
    assert family.log_partition(tables).shape == (len(tables),)
    assert family.centers(tables).shape == (len(tables), case.n_features)


def test_each_pair_is_scored_on_its_own(family, X, stats_of_tables):
    _, tables = stats_of_tables
    for method in (family.log_predictive, family.expected_log_likelihood):
        alone = [[method(x[None], table[None])[0, 0] for table in tables] for x in X]
        np.testing.assert_allclose(method(X, tables), alone, rtol=1e-13)


# Monte Carlo over the prior


def test_log_base_measure_and_log_partition_average_the_likelihood(case, family, X, stats_of_tables, prior_draws):
    responsibilities, tables = stats_of_tables
    exponents = case.log_likelihood(family, X, prior_draws) - family.log_base_measure(X)[:, None]
    estimate, error = mean_and_error(np.exp(responsibilities @ exponents), axis=1)
    assert_within(estimate, error, np.exp(family.log_partition(tables)))


def test_predictive_of_an_empty_table_averages_the_likelihood_over_the_prior(case, family, X, prior_draws):
    estimate, error = mean_and_error(np.exp(case.log_likelihood(family, X, prior_draws)), axis=1)
    empty = np.zeros_like(family.statistics(X[:1]))
    assert_within(estimate, error, np.exp(family.log_predictive(X, empty)[:, 0]))


def test_posterior_expectations_by_importance_weighted_prior_draws(case, family, X, stats_of_tables, prior_draws):
    responsibilities, tables = stats_of_tables
    log_likelihood = case.log_likelihood(family, X, prior_draws)
    predictive, expected = np.exp(family.log_predictive(X, tables)), family.expected_log_likelihood(X, tables)
    for table, weights in enumerate(np.exp(responsibilities @ log_likelihood)):
        assert_within(*weighted_mean_and_error(np.exp(log_likelihood), weights), predictive[:, table])
        assert_within(*weighted_mean_and_error(log_likelihood, weights), expected[:, table])


# Samplers


def test_center_of_an_empty_table_is_the_mean_of_the_prior(case, family, X, prior_draws):
    empty = np.zeros_like(family.statistics(X[:1]))
    assert_within(*mean_and_error(prior_draws[:, : case.n_features]), family.centers(empty)[0])


def test_first_moment_of_the_observations_of_a_table(case, family):
    parameters = family.sample_parameters(1, case.n_features, seed=5)
    draws = family.sample(np.repeat(parameters, N_DRAWS, axis=0), seed=6)
    assert_within(*mean_and_error(draws), case.mean(family, parameters)[0])


def test_observations_have_the_density_of_the_likelihood(case, family, stats_of_tables):
    """E[p(x | φ')/p(x | φ)] = 1 for x ~ p(x | φ): the sampler and the density agree."""
    parameters = case.parameters_at(family, family.centers(stats_of_tables[1][1:]))
    draws = family.sample(np.repeat(parameters[:1], N_DRAWS, axis=0), seed=8)
    log_p = case.log_likelihood(family, draws, parameters)
    assert_within(*mean_and_error(np.exp(log_p[:, 1] - log_p[:, 0])), 1.0)


def test_samples_are_legal_data(case, family):
    draws = family.sample(family.sample_parameters(50, case.n_features, seed=1), seed=2)
    np.testing.assert_allclose(family.check(draws), draws, rtol=0, atol=1e-15)


def test_a_seed_repeats_the_draws_and_a_generator_moves_on(case, family):
    parameters = family.sample_parameters(4, case.n_features, seed=1)
    assert np.array_equal(parameters, family.sample_parameters(4, case.n_features, seed=1))
    many = np.repeat(parameters, 10, axis=0)
    assert np.array_equal(family.sample(many, seed=2), family.sample(many, seed=2))
    rng = np.random.default_rng(2)
    assert not np.array_equal(family.sample(many, rng), family.sample(many, rng))


@pytest.mark.parametrize("n", [0, 1])
def test_none_and_one_can_be_drawn(case, family, n):
    parameters = family.sample_parameters(n, case.n_features, seed=0)
    assert len(parameters) == n
    assert family.sample(parameters, seed=0).shape == case.mean(family, parameters).shape == (n, case.n_features)


# Objects


def test_equal_by_value(family):
    twin = replace(family)
    assert twin is not family
    assert twin == family
    assert hash(twin) == hash(family)


def test_repr_rebuilds_the_family(family):
    if getattr(family, "directions", None) is not None:
        pytest.skip("matrices are shown as their shapes")
    assert eval(repr(family), {"array": np.array, **FAMILIES}) == family


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda family: pickle.loads(pickle.dumps(family))])
def test_copies_are_equal_and_as_read_only(family, duplicate):
    again = duplicate(family)
    assert again == family
    for field in fields(again):
        value = getattr(again, field.name)
        assert not isinstance(value, np.ndarray) or not value.flags.writeable


def test_different_families_differ():
    distinct = [case.family for case in CASES]
    assert all(one != other for one, other in combinations(distinct, 2))
    assert distinct[0] != "Gaussian"


def test_frozen(family):
    for field in fields(family):
        with pytest.raises(FrozenInstanceError):
            setattr(family, field.name, 1.0)
        assert not np.ndim(getattr(family, field.name)) or not getattr(family, field.name).flags.writeable


def test_input_is_not_modified(family, X, stats_of_tables):
    """X and stats are read-only, so that a write raises; the copies catch a write that gets around that."""
    _, tables = stats_of_tables
    X_before, tables_before = X.copy(), tables.copy()
    family.check(X)
    family.statistics(X)
    family.log_base_measure(X)
    family.log_marginal(X)
    family.log_partition(tables)
    family.centers(tables)
    family.log_predictive(X, tables)
    family.expected_log_likelihood(X, tables)
    assert np.array_equal(X, X_before)
    assert np.array_equal(tables, tables_before)


def test_sampling_does_not_modify_the_parameters(case, family):
    parameters = family.sample_parameters(3, case.n_features, seed=0)
    before = parameters.copy()
    parameters.flags.writeable = False
    family.sample(parameters, seed=0)
    assert np.array_equal(parameters, before)


# Unknown hyperparameters

UNKNOWN = [
    Gaussian(),
    Gaussian(variance=1.0),
    Gaussian(prior_variance=[1.0, 2.0, 3.0]),
    Gaussian(prior_mean=4.0),
    GaussianUnknownVariance(),
    GaussianUnknownVariance(degrees=3.0),
    GaussianUnknownVariance(variance=[1.0, 2.0, 3.0], prior_mean=4.0),
    Bernoulli(),
    Bernoulli(a=0.5),
    Bernoulli(b=[1.0, 2.0, 3.0]),
    VonMisesFisher(),
]
unknown = pytest.mark.parametrize("family", UNKNOWN, ids=repr)


def test_a_family_with_all_its_hyperparameters_is_known(family):
    assert family.known
    family.require_known()


@unknown
def test_what_is_unknown_is_said_to_be(family):
    assert not family.known
    model = (Stationary().modes(), 1.0, Rules())
    for use in (family.require_known, lambda: family.sharpened(2.0), lambda: Model(family, *model)):
        with pytest.raises(
            ValueError, match=r"has unknown hyperparameters, which DynamicalMixture or dyncrp\.tune can"
        ):
            use()


@unknown
def test_unknown_families_are_values_too(family):
    assert eval(repr(family), {"array": np.array, **FAMILIES}) == family
    for twin in (replace(family), copy.deepcopy(family), pickle.loads(pickle.dumps(family))):
        assert twin == family
        assert hash(twin) == hash(family)
    assert sum(family == other for other in UNKNOWN) == 1
    assert all(family != case.family for case in CASES)


@unknown
def test_the_width_that_is_known(family):
    assert family.width == (3 if any(np.ndim(getattr(family, field.name)) for field in fields(family)) else None)


def test_resolution_keeps_strangers_apart(case, family):
    """Rows of five tables have less reason to share one."""
    X = family.sample(family.sample_parameters(5, case.n_features, seed=4), seed=5)

    def reason_to_share(family):
        return family.log_marginal(X) - sum(family.log_marginal(x[None]) for x in X)

    sharper = family.sharpened(3.0)
    assert type(sharper) is type(family)
    assert sharper.known
    assert reason_to_share(sharper) < reason_to_share(family)
    assert family.sharpened(1.0) == family


ROWS = {
    "plain": np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 5.0, 0.2],
    "constant-column": np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 0.0, 0.2] + [0.0, 3.0, 0.0],
    "two-columns-alike": np.random.default_rng(0).normal(size=(40, 1)) * [1.0, 1.0, -2.0],
    "two-rows": np.random.default_rng(0).normal(size=(2, 3)),
    "one-row": np.ones((1, 3)),
    "all-equal": np.full((10, 3), 2.5),
    "all-zero": np.zeros((10, 3)),
    "few-rows": np.random.default_rng(0).normal(size=(4, 12)),
    "two-values": np.repeat([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], 20, axis=0),
    "far-away": 1e8 + np.random.default_rng(0).normal(size=(40, 3)),
    "huge": 1e44 * np.random.default_rng(0).normal(size=(40, 3)),
    "tiny": 1e-49 * np.random.default_rng(0).normal(size=(40, 3)),
    "very-tiny": 1e-170 * np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 5.0, 0.2],
    "units": np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 1e13, 1e-5],
    "tiny-and-many-columns": 1e-49 * np.random.default_rng(0).normal(size=(30, 60)),
    "many-columns": np.random.default_rng(0).normal(size=(30, 60)),
    "many-equal-columns": np.full((30, 60), 2.5),
    "many-columns-on-a-line": np.random.default_rng(0).normal(size=(30, 1)) * np.ones(60),
    "outlier": np.vstack([np.random.default_rng(0).normal(size=(40, 3)), [[1e12, 0.0, 0.0]]]),
}
ROWS["one-column"] = ROWS["plain"][:, :1]
ROWS["one-equal-column"] = ROWS["all-equal"][:, :1]


def data_for(family, X):
    """The same rows, or what is nearest to them of the family's kind."""
    if isinstance(family, Bernoulli):
        return np.greater(X, np.median(X)).astype(float)
    if isinstance(family, VonMisesFisher):
        X = np.hstack([X / max(np.max(np.abs(X)), 1e-300), np.full((len(X), 1), 0.1)])
        return X / np.linalg.norm(X, axis=1, keepdims=True)
    return X


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", FAMILIES.values(), ids=FAMILIES)
def test_proposals_are_known_and_valid(kind, rows):
    family = kind()
    X = family.check(data_for(family, ROWS[rows]))
    n = len(X)
    for frame in family.frames(X):
        Z = frame.rows
        first = family.proposals(Z)
        assert first
        for labels in (np.zeros(n, dtype=np.int64), np.arange(n) // 2, np.arange(n) % 3, np.arange(n)):
            for proposal in first + family.proposals(Z, labels):
                assert type(proposal) is kind
                assert proposal.known
                lifted = frame.lift(proposal)
                assert np.isfinite(proposal.log_marginal(proposal.check(Z)))
                assert np.isfinite(lifted.log_marginal(lifted.check(X)))


@unknown
def test_proposals_keep_what_is_known(family):
    X = family.check(data_for(family, ROWS["plain"]))
    if isinstance(family, VonMisesFisher):
        pytest.skip("it has one hyperparameter")
    for labels in (None, np.arange(len(X)) % 4):
        for proposal in family.proposals(X, labels):
            for field in fields(family):
                value = getattr(family, field.name)
                assert value is None or np.array_equal(getattr(proposal, field.name), value)


def test_a_known_family_proposes_itself(case, family, X):
    assert family.proposals(X) == family.proposals(X, np.array([0, 0, 1, 1, 1])) == [family]
    (frame,) = family.frames(X)
    assert np.array_equal(frame.rows, X)
    assert frame.lift(family) is family
    assert frame.log_density == 0.0


def test_guesses_of_variances_are_those_of_the_features():
    """Variances of 20,000 normals have a relative standard error of √(2/n); five, and the shrinking, are allowed."""
    rng, n = np.random.default_rng(0), 20_000
    labels = np.arange(n) % 40
    X = rng.normal(0.0, 10.0, (40, 3))[labels] + rng.normal(size=(n, 3)) * [1.0, 2.0, 0.5]
    found = GaussianUnknownVariance(degrees=9.0).proposals(X, labels)
    assert len(found) == len(SCALES)
    guess = found[SCALES.index(1.0)]
    assert GaussianUnknownVariance(degrees=9.0).proposals(X, labels, (1.0,)) == [guess]
    np.testing.assert_allclose(guess.variance, [1.0, 4.0, 0.25], rtol=5 * np.sqrt(2 / n) + 0.02)
    np.testing.assert_allclose(guess.variance + guess.prior_variance, np.var(X, axis=0), rtol=1e-9)
    np.testing.assert_allclose(guess.prior_mean, X.mean(axis=0))
    assert all(family.degrees == 9.0 for family in found)

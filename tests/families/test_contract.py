"""What every family must satisfy. A new family gets all of it by a line in ``cases.FAMILIES`` and one in LIKELIHOODS.

The checks of ``dyncrp.testing`` do without a likelihood; here it is written out once more, independently. Monte Carlo
tests fix their seed and allow five standard errors.
"""

import copy
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from scipy import special, stats

from cases import FAMILIES, UNKNOWN_FAMILIES
from dyncrp import families
from dyncrp.dynamics import Stationary
from dyncrp.engine.types import Model
from dyncrp.families import (
    Bernoulli,
    Categorical,
    Columns,
    Gaussian,
    Multinomial,
    NormalGamma,
    NormalWishart,
    Poisson,
    VonMisesFisher,
)
from dyncrp.families.protocols import SCALES, Sharpens
from dyncrp.testing import family_checks

SIGMAS = 5.0
N_DRAWS = 100_000
NAMES = {"array": np.array, **families.FAMILIES}  # what a repr is made of

unknown = pytest.mark.parametrize("family", UNKNOWN_FAMILIES.values(), ids=UNKNOWN_FAMILIES)


# One shape of each family learns a stream in the reference, which takes long; it learns all shapes in tests/engine.
LEARN = (
    *("gaussian", "gaussian-few-directions", "normal-gamma", "normal-wishart", "bernoulli", "poisson", "categorical"),
    *("sphere", "columns-of-all-kinds"),
)


def test_a_shape_of_every_family_learns():
    assert {type(FAMILIES[name].family) for name in LEARN} == {type(case.family) for case in FAMILIES.values()}


def checks_of(name, takes_long):
    """The checks of a family that take long, or the others."""
    for check in family_checks():
        if check.__name__ == "engine_learns_a_stream" and name not in LEARN:
            continue
        long = check.__name__ in ("engine_learns_a_stream", "predictive_of_a_table_is_that_of_the_sampler")
        # A sphere among other columns is no region that the check of an empty table knows; see test_columns.py.
        unknown = check.__name__ == "predictive_of_an_empty_table_is_that_of_the_sampler"
        if long == takes_long and not (unknown and name == "columns-of-all-kinds"):
            yield check


@pytest.mark.parametrize("name", FAMILIES)
def test_checks(name):
    for check in checks_of(name, takes_long=False):
        check(*FAMILIES[name])


QUICK = ("gaussian", "normal-gamma", "bernoulli", "poisson", "categorical", "circle", "columns")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in FAMILIES]
)
def test_checks_that_take_long(name):
    for check in checks_of(name, takes_long=True):
        check(*FAMILIES[name])


# Counts of words, whose prior changes with the stream, have tests of their own: test_multinomial.py.
KINDS = {name: kind for name, kind in families.FAMILIES.items() if kind is not Multinomial}


def test_every_family_has_a_case():
    kinds = set(KINDS.values())
    assert {type(case.family) for case in FAMILIES.values()} == kinds
    assert {type(family) for family in UNKNOWN_FAMILIES.values()} == kinds
    assert set(LIKELIHOODS) == kinds


def test_different_families_differ():
    everything = [case.family for case in FAMILIES.values()] + list(UNKNOWN_FAMILIES.values())
    assert all(one != other for one, other in combinations(everything, 2))


def test_repr_rebuilds_the_family():
    for family, _ in FAMILIES.values():
        if "<array" not in repr(family):  # matrices are shown as their shapes
            assert eval(repr(family), NAMES) == family


# --- against the likelihood -----------------------------------------------------------------------------------------


def log_gaussian(family, X, parameters):
    if family.directions is None:
        return stats.norm.logpdf(X[:, None], parameters, np.sqrt(family.variance)).sum(-1)
    # Densities across the directions, and along them: W⁺ diag(σ²) W⁺ᵀ + τ² (I − W⁺ W) has this inverse.
    W = family.directions
    Q, D = W.shape
    variance = np.broadcast_to(family.variance, Q)
    across = np.eye(D) - np.linalg.pinv(W) @ W
    precision = W.T @ np.diag(1.0 / variance) @ W + across / (family.residual_variance or 1.0)
    gap = X[:, None] - parameters
    square = np.einsum("nmd,de,nme->nm", gap, precision, gap, optimize=True)
    return 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * D * np.log(2 * np.pi) - 0.5 * square


def log_normal_gamma(family, X, parameters):
    means, variances = np.split(parameters, 2, axis=1)
    return stats.norm.logpdf(X[:, None], means, np.sqrt(variances)).sum(-1)


def mean_of_mean_and_variance(family, parameters):
    return parameters[:, : parameters.shape[1] // 2]


def with_variances(family, centers):
    """Append a variance to each mean, the second larger than the first but not twice as large."""
    return np.hstack([centers, family.variance * np.linspace(1.0, 1.3, len(centers))[:, None] + np.zeros_like(centers)])


def log_normal_wishart(family, X, parameters):
    means, F = factors_of_covariances(X.shape[1], parameters)
    gap = np.linalg.solve(F, (X[:, None] - means)[..., None])[..., 0]
    logs = np.sum(np.log(np.diagonal(F, axis1=1, axis2=2)), axis=1)
    return stats.norm.logpdf(gap).sum(-1) - logs


def factors_of_covariances(D, parameters):
    F = np.zeros((len(parameters), D, D))
    F[:, *np.tril_indices(D)] = parameters[:, D:]
    return parameters[:, :D], F


def mean_of_mean_and_covariance(family, parameters):
    D = (int(np.sqrt(8 * parameters.shape[1] + 9)) - 3) // 2
    return parameters[:, :D]


def with_covariances(family, centers):
    """Append a factor of a covariance to each mean, the second wider than the first but not twice as wide."""
    D = centers.shape[1]
    F = np.sqrt(np.broadcast_to(family.variance, D))[:, None] * (np.eye(D) + 0.2 * np.tri(D, k=-1))
    return np.hstack([centers, np.linspace(1.0, 1.15, len(centers))[:, None] * F[np.tril_indices(D)]])


def log_bernoulli(family, X, parameters):
    return stats.bernoulli.logpmf(X[:, None], parameters).sum(-1)


def log_poisson(family, X, parameters):
    return stats.poisson.logpmf(X[:, None], parameters).sum(-1)


def log_categorical(family, X, parameters):
    C = family.n_codes
    probabilities = parameters.reshape(len(parameters), C + 1, -1)[
        :, np.minimum(X, C).astype(int), np.arange(X.shape[1])
    ]
    share = np.where(X < C, 1.0, (C + 1) / ((X + 1) * (X + 2)))
    with np.errstate(divide="ignore"):  # a probability may underflow
        return np.log(probabilities * share).sum(-1).T


def mostly_these_codes(family, centers):
    """Give the code of each center half of the probability."""
    is_code = centers[:, None, :] == np.arange(family.n_codes + 1)[:, None]
    return (0.5 * is_code + 0.5 / (family.n_codes + 1)).reshape(len(centers), -1)


def log_von_mises_fisher(family, X, parameters):
    pole = np.eye(X.shape[1])[0]
    log_height = stats.vonmises_fisher(pole, family.concentration).logpdf(pole)
    return log_height + family.concentration * (X @ parameters.T - 1.0)


def resultant(family, parameters):
    order, kappa = parameters.shape[1] / 2, family.concentration
    return special.ive(order, kappa) / special.ive(order - 1, kappa) * parameters


def by_parts(family, parameters):
    """Each part's columns and family, and its parameters."""
    widths = [one.sample_parameters(1, len(part), 0).shape[1] for part, one in family.parts]
    some = np.split(parameters, np.cumsum(widths)[:-1], axis=1)
    return [(list(part), one, mine) for (part, one), mine in zip(family.parts, some, strict=True)]


def log_columns(family, X, parameters):
    parts = by_parts(family, parameters)
    return sum(LIKELIHOODS[type(one)].log_density(one, X[:, part], mine) for part, one, mine in parts)


def parameters_of_columns_at(family, centers):
    return np.hstack([LIKELIHOODS[type(one)].parameters_at(one, centers[:, list(part)]) for part, one in family.parts])


class Likelihood(NamedTuple):
    """log p(x | φ) as (n, D), (m, P) to (n, m), E[x | φ], and some φ with given centers.

    The last two are (m, P) to (m, D) and back; where φ is where a table lies, neither needs to be given.
    """

    log_density: Callable[..., np.ndarray]
    mean: Callable[..., np.ndarray] | None = lambda family, parameters: parameters
    parameters_at: Callable[..., np.ndarray] = lambda family, centers: centers


LIKELIHOODS = {
    Gaussian: Likelihood(log_gaussian),
    NormalGamma: Likelihood(log_normal_gamma, mean_of_mean_and_variance, with_variances),
    NormalWishart: Likelihood(log_normal_wishart, mean_of_mean_and_covariance, with_covariances),
    Bernoulli: Likelihood(log_bernoulli),
    Poisson: Likelihood(log_poisson),
    Categorical: Likelihood(log_categorical, None, mostly_these_codes),
    VonMisesFisher: Likelihood(log_von_mises_fisher, resultant),
    Columns: Likelihood(log_columns, None, parameters_of_columns_at),
}


@pytest.fixture(scope="module", params=FAMILIES.values(), ids=FAMILIES)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def family(case):
    return case.family


@pytest.fixture(scope="module")
def likelihood(family):
    return LIKELIHOODS[type(family)]


@pytest.fixture(scope="module")
def X(case):
    """Five observations of one table."""
    rng = np.random.default_rng(3)
    return case.family.sample(np.repeat(case.family.sample_parameters(1, case.n_features, rng), 5, axis=0), rng)


@pytest.fixture(scope="module")
def tables(family, X):
    """Responsibilities of an empty table, of one of the first three rows, of fractions of all; and their stats."""
    responsibilities = np.array([[0, 0, 0, 0, 0], [1, 1, 1, 0, 0], [0.2, 0.9, 0.0, 1.0, 0.35]])
    return responsibilities, responsibilities @ family.statistics(X)


@pytest.fixture(scope="module")
def prior_draws(case):
    return case.family.sample_parameters(N_DRAWS, case.n_features, seed=11)


@pytest.fixture(scope="module")
def log_density(likelihood, family, X, prior_draws):
    """The likelihood of the observations at each draw of the prior, (5, N_DRAWS)."""
    return likelihood.log_density(family, X, prior_draws)


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


@pytest.mark.slow
def test_log_base_measure_and_log_partition_average_the_likelihood(log_density, family, X, tables):
    responsibilities, stats = tables
    exponents = log_density - family.log_base_measure(X)[:, None]
    estimate, error = mean_and_error(np.exp(responsibilities @ exponents), axis=1)
    assert_within(estimate, error, np.exp(family.log_partition(stats)))


@pytest.mark.slow
def test_predictive_of_an_empty_table_averages_the_likelihood_over_the_prior(log_density, family, X):
    estimate, error = mean_and_error(np.exp(log_density), axis=1)
    empty = np.zeros_like(family.statistics(X[:1]))
    assert_within(estimate, error, np.exp(family.log_predictive(X, empty)[:, 0]))


@pytest.mark.slow
def test_posterior_expectations_by_importance_weighted_prior_draws(log_density, family, X, tables):
    if len(X[0]) > 5:
        pytest.skip("in so many dimensions few draws of the prior have any weight")
    responsibilities, stats = tables
    predictive, expected = np.exp(family.log_predictive(X, stats)), family.expected_log_likelihood(X, stats)
    for table, weights in enumerate(np.exp(responsibilities @ log_density)):
        assert_within(*weighted_mean_and_error(np.exp(log_density), weights), predictive[:, table])
        assert_within(*weighted_mean_and_error(log_density, weights), expected[:, table])


@pytest.mark.slow
def test_center_of_an_empty_table_is_the_mean_of_the_prior(case, family, likelihood, X, prior_draws):
    if likelihood.mean is None:
        pytest.skip("codes have no mean")
    empty = np.zeros_like(family.statistics(X[:1]))
    assert_within(*mean_and_error(prior_draws[:, : case.n_features]), family.centers(empty)[0])


@pytest.mark.slow
def test_first_moment_of_the_observations_of_a_table(case, family, likelihood):
    if likelihood.mean is None:
        pytest.skip("codes have no mean")
    parameters = family.sample_parameters(1, case.n_features, seed=5)
    draws = family.sample(np.repeat(parameters, N_DRAWS, axis=0), seed=6)
    assert_within(*mean_and_error(draws), likelihood.mean(family, parameters)[0])


@pytest.mark.slow
def test_observations_have_the_density_of_the_likelihood(family, likelihood, tables):
    """E[p(x | φ')/p(x | φ)] = 1 for x ~ p(x | φ): the sampler and the density agree."""
    parameters = likelihood.parameters_at(family, family.centers(tables[1][1:]))
    draws = family.sample(np.repeat(parameters[:1], N_DRAWS, axis=0), seed=8)
    log_p = likelihood.log_density(family, draws, parameters)
    assert_within(*mean_and_error(np.exp(log_p[:, 1] - log_p[:, 0])), 1.0)


# --- to the last digits ---------------------------------------------------------------------------------------------
#
# The checks of dyncrp.testing leave room for the rounding of any family; ours have less of it.


def test_identities_to_the_last_digits(family, X, tables):
    T, stats = family.statistics(X), tables[1]
    after = np.array([family.log_partition(stats + t) for t in T])
    difference = after - family.log_partition(stats) + family.log_base_measure(X)[:, None]
    np.testing.assert_allclose(family.log_predictive(X, stats), difference, rtol=0, atol=1e-12)
    chain = np.trace(family.log_predictive(X, np.vstack([np.zeros_like(T[:1]), np.cumsum(T, axis=0)])[:-1]))
    assert family.log_marginal(X) == pytest.approx(chain, abs=1e-12)
    assert family.log_marginal(X[::-1]) == pytest.approx(family.log_marginal(X), abs=1e-12)
    np.testing.assert_allclose(family.log_partition(np.zeros_like(T)), 0.0, atol=1e-15)
    assert np.all(family.expected_log_likelihood(X, stats) < family.log_predictive(X, stats))
    np.testing.assert_allclose(family.check(X), X, rtol=0, atol=1e-15)


def test_rows_and_tables_on_their_own_to_the_last_digits(family, X, tables):
    stats = tables[1]
    one_by_one = np.vstack([family.statistics(x[None]) for x in X])
    if getattr(family, "directions", None) is None:
        assert np.array_equal(family.statistics(X), one_by_one)
    else:  # BLAS rounds a product of matrices in another order than one with a row
        np.testing.assert_allclose(family.statistics(X), one_by_one, rtol=1e-13, atol=1e-15)
    summed = np.sum(family.statistics(X), axis=0, keepdims=True)
    in_steps = np.zeros_like(summed)
    for row in one_by_one:
        in_steps += row
    for method in (family.log_predictive, family.expected_log_likelihood):
        alone = [[method(x[None], table[None])[0, 0] for table in stats] for x in X]
        np.testing.assert_allclose(method(X, stats), alone, rtol=1e-13)
        np.testing.assert_allclose(method(X, summed), method(X, in_steps), rtol=1e-13)
    np.testing.assert_allclose(family.centers(summed), family.centers(in_steps), rtol=1e-12)


# --- unknown hyperparameters ----------------------------------------------------------------------------------------


@unknown
def test_what_is_unknown_is_said_to_be(family):
    assert not family.known
    model = (Stationary(), 1.0)
    uses = [family.require_known, lambda: Model(family, *model)]
    if isinstance(family, Sharpens):
        uses.append(lambda: family.sharpen(2.0))
    for use in uses:
        with pytest.raises(
            ValueError, match=r"has unknown hyperparameters: give them, or learn them with DynamicalMixture"
        ):
            use()


@unknown
def test_unknown_families_are_values_too(family):
    assert eval(repr(family), NAMES) == family
    for twin in (replace(family), copy.deepcopy(family), pickle.loads(pickle.dumps(family))):
        assert twin == family
        assert hash(twin) == hash(family)


@unknown
def test_the_width_that_is_known(family):
    assert family.width == (
        3 if type(family) is Columns or any(np.ndim(getattr(family, field.name)) for field in fields(family)) else None
    )


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
    if isinstance(family, Poisson | Categorical):
        return np.minimum(np.floor(np.abs(X)), 2.0**53)
    if isinstance(family, VonMisesFisher):
        X = np.hstack([X / max(np.max(np.abs(X)), 1e-300), np.full((len(X), 1), 0.1)])
        return X / np.linalg.norm(X, axis=1, keepdims=True)
    return X


@pytest.mark.slow
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_proposals_are_known_and_valid(kind, rows):
    family = Columns.of(Gaussian(), ROWS[rows].shape[1]) if kind is Columns else kind()
    X = family.check(data_for(family, ROWS[rows]))
    n = len(X)
    for view in family.views(X):
        Z = view.rows
        first = family.proposals(Z)
        assert first
        for labels in (np.zeros(n, dtype=np.int64), np.arange(n) // 2, np.arange(n) % 3, np.arange(n)):
            for proposal in first + family.proposals(Z, labels):
                assert type(proposal) is kind
                assert proposal.known
                lifted = view.lift(proposal)
                assert np.isfinite(proposal.log_marginal(proposal.check(Z)))
                assert np.isfinite(lifted.log_marginal(lifted.check(X)))


@unknown
def test_proposals_keep_what_is_known(family):
    X = family.check(data_for(family, ROWS["plain"]))
    if isinstance(family, (VonMisesFisher, Columns)):
        pytest.skip("it has one hyperparameter, or none of its own")
    for labels in (None, np.arange(len(X)) % 4):
        for proposal in family.proposals(X, labels):
            for field in fields(family):
                value = getattr(family, field.name)
                assert value is None or np.array_equal(getattr(proposal, field.name), value)


def test_guesses_of_variances_are_those_of_the_features():
    """Variances of 20,000 normals have a relative standard error of √(2/n); five, and the shrinking, are allowed."""
    rng, n = np.random.default_rng(0), 20_000
    labels = np.arange(n) % 40
    X = rng.normal(0.0, 10.0, (40, 3))[labels] + rng.normal(size=(n, 3)) * [1.0, 2.0, 0.5]
    found = NormalGamma(degrees=9.0).proposals(X, labels)
    assert len(found) == len(SCALES)
    guess = found[SCALES.index(1.0)]
    assert NormalGamma(degrees=9.0).proposals(X, labels, (1.0,)) == [guess]
    np.testing.assert_allclose(guess.variance, [1.0, 4.0, 0.25], rtol=5 * np.sqrt(2 / n) + 0.02)
    np.testing.assert_allclose(guess.variance + guess.prior_variance, np.var(X, axis=0), rtol=1e-9)
    np.testing.assert_allclose(guess.prior_mean, X.mean(axis=0))
    assert all(family.degrees == 9.0 for family in found)

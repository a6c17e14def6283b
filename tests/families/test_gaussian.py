"""Gaussian clusters against quadrature of likelihood × prior over the mean."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from dyncrp.families import Gaussian

ONE_DIMENSIONAL = [Gaussian(1.0, 1.0), Gaussian(0.3, 8.0), Gaussian(4.0, 0.5, -2.0), Gaussian([0.5], [2.0], [1.0])]
TWO_DIMENSIONAL = [
    Gaussian(1.0, 4.0),
    Gaussian([0.5, 3.0], 2.0),
    Gaussian(1.5, [0.4, 6.0]),
    Gaussian(1.0, 2.0, [3.0, -1.0]),
    Gaussian([0.5, 3.0], [2.0, 0.7], [-1.0, 2.5]),
]
X1 = np.array([[0.4], [-1.3], [2.2]])
X2 = np.array([[0.4, 1.0], [-1.3, 0.2], [2.2, -0.9]])
RESPONSIBILITIES = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.3, 0.0, 0.8]])


def log_normal(x, mean, variance):
    return -0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance)


def integral_1d(family, integrand):
    """∫ integrand(φ) p(φ) dφ, with integrand from (m, 1) to (m,)."""
    mean, scale = np.ravel(family.prior_mean)[0], np.sqrt(np.ravel(family.prior_variance)[0])

    def weighted(phi):
        return integrand(np.array([[phi]]))[0] * np.exp(log_normal(phi, mean, scale**2))

    return quad(weighted, mean - 12 * scale, mean + 12 * scale, epsabs=0, epsrel=1e-11, limit=200)[0]


def integral_2d(family, integrand):
    """The same in the plane, by the trapezoid rule, which is spectrally accurate for Gaussians."""
    z = np.linspace(-9, 9, 241)
    grid = np.stack(np.meshgrid(z, z), axis=-1).reshape(-1, 2)
    weights = np.exp(-0.5 * np.sum(grid**2, axis=1)) * (z[1] - z[0]) ** 2 / (2 * np.pi)
    return weights @ integrand(family.prior_mean + np.sqrt(family.prior_variance) * grid)


QUADRATURES = [(family, X1, integral_1d) for family in ONE_DIMENSIONAL] + [
    (family, X2, integral_2d) for family in TWO_DIMENSIONAL
]


@pytest.fixture(params=QUADRATURES, ids=[repr(family) for family, *_ in QUADRATURES])
def problem(request):
    return request.param


def log_likelihood(family, x, phi):
    return np.sum(log_normal(x, phi, np.asarray(family.variance)), axis=-1)


def log_weight(family, X, responsibilities, phi):
    """Σ_i r_i log p(x_i | φ): the posterior of a table, up to its prior and a constant."""
    return sum(r * log_likelihood(family, x, phi) for r, x in zip(responsibilities, X, strict=True))


def test_log_marginal(problem):
    family, X, integral = problem
    exact = np.log(integral(family, lambda phi: np.exp(log_weight(family, X, np.ones(len(X)), phi))))
    assert family.log_marginal(X) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("responsibilities", RESPONSIBILITIES, ids=["empty", "whole", "fractional"])
def test_log_predictive_and_expected_log_likelihood(problem, responsibilities):
    family, X, integral = problem

    def posterior(phi):
        return np.exp(log_weight(family, X, responsibilities, phi))

    evidence = integral(family, posterior)
    table = (responsibilities @ family.statistics(X))[None]
    for x in X + 0.5:
        predictive = integral(family, lambda phi, x=x: posterior(phi) * np.exp(log_likelihood(family, x, phi)))
        expected = integral(family, lambda phi, x=x: posterior(phi) * log_likelihood(family, x, phi))
        assert family.log_predictive(x[None], table)[0, 0] == pytest.approx(np.log(predictive / evidence), abs=1e-9)
        assert family.expected_log_likelihood(x[None], table)[0, 0] == pytest.approx(expected / evidence, abs=1e-9)


def test_centers_are_posterior_means(problem):
    family, X, integral = problem
    responsibilities = RESPONSIBILITIES[2]

    def posterior(phi):
        return np.exp(log_weight(family, X, responsibilities, phi))

    evidence = integral(family, posterior)
    table = (responsibilities @ family.statistics(X))[None]
    for d in range(X.shape[1]):
        mean = integral(family, lambda phi, d=d: posterior(phi) * phi[:, d]) / evidence
        assert family.centers(table)[0, d] == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("family", ONE_DIMENSIONAL, ids=repr)
def test_predictive_integrates_to_one(family):
    tables = RESPONSIBILITIES @ family.statistics(X1)
    for table in tables:
        total = quad(lambda x, table=table: np.exp(family.log_predictive(np.array([[x]]), table[None])[0, 0]), -60, 60)
        assert total[0] == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("family", TWO_DIMENSIONAL, ids=repr)
def test_predictive_integrates_to_one_in_the_plane(family):
    axis = np.linspace(-30, 30, 301)
    plane = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    tables = RESPONSIBILITIES @ family.statistics(X2)
    totals = np.exp(family.log_predictive(plane, tables)).sum(axis=0) * (axis[1] - axis[0]) ** 2
    np.testing.assert_allclose(totals, 1.0, rtol=0, atol=1e-9)


def test_marginal_of_many_against_the_full_joint_gaussian():
    family = Gaussian([0.5, 3.0], [2.0, 0.7], [-1.0, 2.5])
    X = np.random.default_rng(0).normal(size=(6, 2))
    joint = sum(
        stats.multivariate_normal.logpdf(
            X[:, d], np.full(6, family.prior_mean[d]), family.variance[d] * np.eye(6) + family.prior_variance[d]
        )
        for d in range(2)
    )
    assert family.log_marginal(X) == pytest.approx(joint, abs=1e-11)


def test_translating_data_and_prior_mean_changes_nothing():
    near, far = Gaussian(1.0, 4.0, 0.5), Gaussian(1.0, 4.0, 0.5 + 2.0**30)
    X = np.round(X2 * 64) / 64
    tables = near.statistics(X)
    assert np.array_equal(far.statistics(X + 2.0**30), tables)
    assert np.array_equal(far.log_predictive(X + 2.0**30, tables), near.log_predictive(X, tables))
    assert np.array_equal(far.expected_log_likelihood(X + 2.0**30, tables), near.expected_log_likelihood(X, tables))


def test_a_scalar_is_the_same_as_one_for_each_feature():
    scalar, vector = Gaussian(2.0, 3.0, 1.0), Gaussian([2.0, 2.0], [3.0, 3.0], [1.0, 1.0])
    tables = scalar.statistics(X2)
    assert np.array_equal(scalar.log_predictive(X2, tables), vector.log_predictive(X2, tables))
    assert scalar != vector


def test_second_moments_of_the_samplers():
    """Variances of 100,000 normals have a relative standard error of √(2/n); five are allowed."""
    family, n = Gaussian([0.5, 4.0], [3.0, 0.2], [10.0, -10.0]), 100_000
    parameters = family.sample_parameters(n, 2, seed=0)
    noise = family.sample(parameters, seed=1) - parameters
    tolerance = 5 * np.sqrt(2 / n)
    np.testing.assert_allclose(parameters.var(axis=0), family.prior_variance, rtol=tolerance)
    np.testing.assert_allclose(noise.var(axis=0), family.variance, rtol=tolerance)
    correlations = np.corrcoef(np.hstack([parameters, noise]).T)[np.triu_indices(4, 1)]
    assert np.all(np.abs(correlations) < 5 / np.sqrt(n))


BAD = [np.nan, np.inf, "1", None, [[1.0, 2.0]], [], [1.0, np.nan], [1.0, [2.0]], True, 1j]


@pytest.mark.parametrize("name", ["variance", "prior_variance"])
@pytest.mark.parametrize("value", [*BAD, 0, -1.0, [1.0, 0.0]], ids=repr)
def test_bad_variances(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be a positive finite number"):
        Gaussian(**{"variance": 1.0, "prior_variance": 1.0, name: value})


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_bad_prior_means(value):
    with pytest.raises(ValueError, match=r"^prior_mean must be a finite number"):
        Gaussian(1.0, 1.0, value)


def test_hyperparameters_are_copied():
    variance = np.array([1.0, 2.0])
    family = Gaussian(variance, 1.0)
    variance[0] = 99.0
    assert family == Gaussian([1.0, 2.0], 1.0)


def test_minus_zero_equals_and_hashes_like_zero():
    minus, plus = Gaussian(1.0, 1.0, [-0.0, 1.0]), Gaussian(1.0, 1.0, [0.0, 1.0])
    assert minus == plus
    assert hash(minus) == hash(plus)


@pytest.mark.parametrize("name", ["variance", "prior_variance", "prior_mean"])
def test_wrong_width(name):
    family = Gaussian(**{"variance": 1.0, "prior_variance": 1.0, name: [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=f"^{name} has 3 entries, but X has 2 features"):
        family.check(np.zeros((4, 2)))
    assert family.check(np.zeros((4, 3))).shape == (4, 3)


@pytest.mark.parametrize(("value", "prior_mean"), [(1e200, 0.0), (-1e151, 0.0), (1e308, -1e308)])
def test_data_too_far_from_the_prior_mean_name_the_first_row_and_column(value, prior_mean):
    X = np.full((4, 3), prior_mean)
    X[2, 1] = X[3, 0] = value
    with pytest.raises(ValueError, match=r"row 2, column 1$"):
        Gaussian(1.0, 1.0, prior_mean).check(X)


@pytest.mark.parametrize("variance", [1e-101, 1e101, 5e307, [1.0, 1e101]])
def test_extreme_variances_are_refused(variance):
    for values in ((variance, 1.0), (1.0, variance)):
        with pytest.raises(ValueError, match=r"from 1e-100 to 1e\+100"):
            Gaussian(*values)


@pytest.mark.parametrize(("variance", "prior_variance"), [(1e-100, 1e100), (1e100, 1e-100), (1e100, 1e100)])
def test_the_most_extreme_variances_stay_finite(variance, prior_variance):
    family = Gaussian(variance, prior_variance)
    X = np.array([[1.0], [2.0]])
    stats_ = np.array([[0.0, 0.0], [2.0, 3.0]])
    for values in (family.log_predictive(X, stats_), family.expected_log_likelihood(X, stats_), family.centers(stats_)):
        assert np.all(np.isfinite(values))
    if prior_variance > variance:
        assert family.centers(stats_)[1, 0] == 1.5


def test_the_distance_limit_is_each_features_own():
    family = Gaussian([1.0, 1e-100], 1.0)
    assert family.check(np.array([[1e100, 1.0]])).shape == (1, 2)
    with pytest.raises(ValueError, match="within 1e\\+90 of the prior mean, got 1e\\+91 at row 0, column 1"):
        family.check(np.array([[1e100, 1e91]]))


def test_vectors_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="different lengths"):
        Gaussian([1.0, 2.0], 1.0, [1.0, 2.0, 3.0])


def test_a_full_covariance_is_said_to_be_unsupported():
    with pytest.raises(ValueError, match=r"full covariance, are not supported"):
        Gaussian(np.eye(2), 1.0)


@pytest.mark.parametrize("value", [np.timedelta64(1, "s"), np.array([1], dtype="m8[s]"), [1j, 2j]])
def test_other_kinds_of_numbers_are_refused(value):
    with pytest.raises(ValueError, match="variance must be"):
        Gaussian(value, 1.0)


def test_longdoubles_are_numbers():
    assert Gaussian(np.longdouble(1), np.array([2, 3], dtype=np.longdouble)) == Gaussian(1.0, [2.0, 3.0])
    with pytest.raises(ValueError, match="variance must be"):
        Gaussian(np.longdouble("1e400"), 1.0)

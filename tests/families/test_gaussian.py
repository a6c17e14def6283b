"""Gaussian clusters against quadrature of likelihood × prior over the mean, and full covariances against matrices."""

import copy
import pickle
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.linalg import block_diag, eigh

from dyncrp.families import Bernoulli, Gaussian
from dyncrp.families.protocols import SCALES, SHARES

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


@pytest.mark.slow
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


BAD = [np.nan, np.inf, "1", [[1.0, 2.0]], [], [1.0, np.nan], [1.0, [2.0]], True, 1j]


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
    with pytest.raises(ValueError, match="within 1e\\+90 of the prior mean, got 1e\\+91, at row 0, column 1"):
        family.check(np.array([[1e100, 1e91]]))


def test_vectors_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="different lengths"):
        Gaussian([1.0, 2.0], 1.0, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("name", ["variance", "prior_variance"])
def test_a_covariance_matrix_is_told_where_to_go(name):
    with pytest.raises(ValueError, match=rf"^{name} must be (.|\n)* there is Gaussian.from_covariances$"):
        Gaussian(**{"variance": 1.0, "prior_variance": 1.0, name: np.eye(2)})


@pytest.mark.parametrize("value", [np.timedelta64(1, "s"), np.array([1], dtype="m8[s]"), [1j, 2j]])
def test_other_kinds_of_numbers_are_refused(value):
    with pytest.raises(ValueError, match="variance must be"):
        Gaussian(value, 1.0)


def test_longdoubles_are_numbers():
    assert Gaussian(np.longdouble(1), np.array([2, 3], dtype=np.longdouble)) == Gaussian(1.0, [2.0, 3.0])
    with pytest.raises(ValueError, match="variance must be"):
        Gaussian(np.longdouble("1e400"), 1.0)


# --- a covariance of any shape, shared by all clusters --------------------------------------------------------------

W3 = np.array([[1.0, 0.4, -0.2], [-0.3, 2.0, 0.5], [0.1, -0.7, 0.6]])
W4 = np.array([[0.6, -1.2, 2.0, 0.3], [0.5, 0.1, -0.4, 1.5]])
WITHIN = np.array([[2.0, 1.1, -0.3], [1.1, 1.5, 0.2], [-0.3, 0.2, 0.4]])
BETWEEN = np.array([[9.0, -2.0, 1.0], [-2.0, 4.0, 0.5], [1.0, 0.5, 2.5]])
DIRECTED = {
    "plane": Gaussian([0.5, 3.0], [2.0, 0.7], [-1.0, 2.5], W3[:2, :2]),
    "scalars": Gaussian(1.5, 4.0, 0.5, W3),
    "reflected": Gaussian([1.0, 2.0, 0.5], 4.0, 0.0, W3[[1, 0, 2]]),  # a negative determinant
    "one-of-three": Gaussian(0.5, 6.0, [1.0, -2.0, 0.5], W4[:1, :3], 0.3),
    "two-of-four": Gaussian([0.5, 2.0], [9.0, 1.0], 0.0, W4, 1.7),
    "two-of-four-alike": Gaussian(0.5, 3.0, [1.0, 0.0, 2.0, -1.0], W4, 0.2),
    "from-covariances": Gaussian.from_covariances(WITHIN, BETWEEN, [1.0, -1.0, 3.0]),
}
directed = pytest.mark.parametrize("family", DIRECTED.values(), ids=DIRECTED)


def covariances(family):
    """Within and between clusters, from the definition: z = W (x − m₀), and N(0, τ² I) across the rows of W."""
    W = family.directions
    Q, D = W.shape
    back = np.linalg.pinv(W)
    within = back @ np.diag(np.broadcast_to(family.variance, Q)) @ back.T
    between = back @ np.diag(np.broadcast_to(family.prior_variance, Q)) @ back.T
    return within + (family.residual_variance or 0.0) * (np.eye(D) - back @ W), between


def rows_of(family, n, seed=0):
    """Rows that have nothing to do with the clusters."""
    D = family.directions.shape[1]
    return family.prior_mean + 1.5 * np.random.default_rng(seed).normal(size=(n, D))


def joint_moments(family, X, responsibilities):
    """The rows one after another, with the mean and covariance that they have if they share a table.

    A row that is taken r times over, 0 < r, is one that was seen with r times less noise.
    """
    within, between = covariances(family)
    noise = block_diag(*(within / r for r in responsibilities))
    mean = np.tile(np.broadcast_to(family.prior_mean, X.shape[1]), len(X))
    return X.ravel(), mean, noise + np.kron(np.ones((len(X), len(X))), between)


def full_posterior(family, X, responsibilities):
    """Mean and covariance of φ, by conditioning the joint Gaussian of φ and of all rows with a share."""
    _, between = covariances(family)
    mean = np.broadcast_to(family.prior_mean, X.shape[1])
    kept = responsibilities > 0
    if not np.any(kept):
        return mean, between
    y, expected, covariance = joint_moments(family, X[kept], responsibilities[kept])
    gain = np.kron(np.ones((1, np.sum(kept))), between) @ np.linalg.inv(covariance)
    return mean + gain @ (y - expected), between - gain @ np.kron(np.ones((np.sum(kept), 1)), between)


@directed
def test_covariances_in_the_features(family):
    within, between = covariances(family)
    D = family.directions.shape[1]
    np.testing.assert_allclose(family.within_covariance(D), within, atol=1e-13)
    np.testing.assert_allclose(family.between_covariance(D), between, atol=1e-13)


@pytest.mark.parametrize("family", TWO_DIMENSIONAL, ids=repr)
def test_covariances_without_directions_are_diagonal(family):
    assert np.array_equal(family.within_covariance(2), np.diag(np.broadcast_to(family.variance, 2)))
    assert np.array_equal(family.between_covariance(2), np.diag(np.broadcast_to(family.prior_variance, 2)))


@pytest.mark.parametrize("responsibilities", RESPONSIBILITIES, ids=["empty", "whole", "fractional"])
@directed
def test_posterior_by_matrices(family, responsibilities):
    X, queries = rows_of(family, 3), rows_of(family, 4, seed=1)
    table = (responsibilities @ family.statistics(X))[None]
    mean, covariance = full_posterior(family, X, responsibilities)
    within, _ = covariances(family)
    np.testing.assert_allclose(family.centers(table)[0], mean, atol=1e-12)
    predictive = stats.multivariate_normal.logpdf(queries, mean, within + covariance)
    np.testing.assert_allclose(family.log_predictive(queries, table)[:, 0], predictive, atol=1e-11)
    expected = stats.multivariate_normal.logpdf(queries, mean, within)
    expected = expected - 0.5 * np.trace(np.linalg.inv(within) @ covariance)
    np.testing.assert_allclose(family.expected_log_likelihood(queries, table)[:, 0], expected, atol=1e-11)


@directed
def test_log_marginal_by_the_full_joint(family):
    X = rows_of(family, 6)
    joint = stats.multivariate_normal.logpdf(*joint_moments(family, X, np.ones(6)))
    assert family.log_marginal(X) == pytest.approx(joint, abs=1e-10)


@directed
def test_log_base_measure_is_a_cluster_at_the_prior_mean(family):
    X = rows_of(family, 5)
    mean = np.broadcast_to(family.prior_mean, X.shape[1])
    expected = stats.multivariate_normal.logpdf(X, mean, covariances(family)[0])
    np.testing.assert_allclose(family.log_base_measure(X), expected, atol=1e-12)


@pytest.mark.parametrize("family", [DIRECTED["plane"], Gaussian(0.5, 6.0, [1.0, -2.0], [[0.6, -1.2]], 0.3)], ids=repr)
def test_directed_predictive_integrates_to_one_in_the_plane(family):
    axis = np.linspace(-30, 30, 601)
    plane = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    tables = RESPONSIBILITIES @ family.statistics(X2)
    totals = np.exp(family.log_predictive(plane, tables)).sum(axis=0) * (axis[1] - axis[0]) ** 2
    np.testing.assert_allclose(totals, 1.0, rtol=0, atol=1e-9)


@directed
def test_covariances_of_the_samplers(family):
    """Entry ij of a covariance of n normals has a standard error of √((Σ_ii Σ_jj + Σ_ij²)/n); five are allowed."""
    n, D = 40_000, family.directions.shape[1]
    within, between = covariances(family)
    parameters = family.sample_parameters(n, D, seed=0)
    noise = family.sample(parameters, seed=1) - parameters
    whole = block_diag(between, within)
    error = np.sqrt((np.outer(np.diag(whole), np.diag(whole)) + whole**2) / n)
    both = np.hstack([parameters - family.prior_mean, noise])
    assert np.all(np.abs(both.T @ both / n - whole) < 5 * error)
    assert np.all(np.abs(both.mean(axis=0)) < 5 * np.sqrt(np.diag(whole) / n))


def test_means_lie_where_the_directions_lead():
    family = DIRECTED["two-of-four"]
    parameters = family.sample_parameters(50, 4, seed=0)
    across = np.eye(4) - np.linalg.pinv(W4) @ W4
    np.testing.assert_allclose(parameters @ across, 0.0, atol=1e-13)
    centers = family.centers(family.statistics(rows_of(family, 5)))
    np.testing.assert_allclose(centers @ across, 0.0, atol=1e-13)


def assert_same_densities(one, other, X, tolerance=1e-11):
    """The same distribution of the rows of X, whatever the coordinates."""
    for responsibilities in np.eye(len(X))[:3], np.full((1, len(X)), 0.4), np.zeros((1, len(X))):
        a, b = (responsibilities @ family.statistics(X) for family in (one, other))
        np.testing.assert_allclose(one.log_predictive(X, a), other.log_predictive(X, b), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(one.centers(a), other.centers(b), rtol=tolerance, atol=tolerance)
        left, right = one.expected_log_likelihood(X, a), other.expected_log_likelihood(X, b)
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)
    assert one.log_marginal(X) == pytest.approx(other.log_marginal(X), rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("family", TWO_DIMENSIONAL, ids=repr)
def test_directions_that_change_nothing(family):
    assert_same_densities(family, replace(family, directions=np.eye(2)), X2)
    assert_same_densities(family, replace(family, directions=[[-1.0, 0.0], [0.0, 1.0]]), X2)
    unit = np.array([3.0, 0.01])
    scaled = replace(
        family,
        variance=family.variance * unit**2,
        prior_variance=family.prior_variance * unit**2,
        directions=np.diag(unit),
    )
    assert_same_densities(family, scaled, X2)


def test_round_clusters_look_the_same_from_everywhere():
    rotation = stats.ortho_group.rvs(4, random_state=0)
    plain = Gaussian(1.5, 4.0, [1.0, 2.0, 3.0, 4.0])
    assert_same_densities(plain, replace(plain, directions=rotation), rows_of(DIRECTED["two-of-four"], 6))


def test_coordinates_left_out_could_as_well_be_in_with_nothing_between():
    """A direction of variance τ² in which the means hardly vary."""
    lower = DIRECTED["two-of-four"]
    across = np.linalg.svd(W4)[2][2:]
    variance, prior_variance = [0.5, 2.0, 1.7, 1.7], [9.0, 1.0, 1e-14, 1e-14]
    assert_same_densities(lower, Gaussian(variance, prior_variance, 0.0, np.vstack([W4, across])), rows_of(lower, 6))


def test_a_far_row_keeps_what_the_coordinates_leave_out():
    """A hundred million from the prior mean, eight digits of x are left for what lies across the directions."""
    family = Gaussian(1.0, 1e16, 0.0, np.full((1, 3), 1.0 / np.sqrt(3.0)), 1.0)
    X = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.0], [2.0, -1.0, -1.0]])
    np.testing.assert_allclose(family.log_residual(X + 1e8), family.log_residual(X), atol=1e-6)


def test_a_small_feature_keeps_its_digits_beside_a_large_one():
    family = Gaussian(1.0, 4.0, 0.0, [[1e-8, 1e-8], [0.0, 1.0]])
    X = np.array([[3e8, 0.25], [-1e9, 0.1], [2e8, 0.3]])
    np.testing.assert_allclose(family.coordinates(X)[:, 1], X[:, 1], rtol=1e-14)


def test_from_covariances_and_back():
    family = DIRECTED["from-covariances"]
    np.testing.assert_allclose(family.within_covariance(3), WITHIN, atol=1e-12)
    np.testing.assert_allclose(family.between_covariance(3), BETWEEN, atol=1e-12)
    assert family.prior_mean.tolist() == [1.0, -1.0, 3.0]
    assert family.residual_variance is None


def test_from_covariances_of_diagonal_matrices_is_the_plain_family():
    plain = Gaussian([0.5, 3.0], [2.0, 0.7], [-1.0, 2.5])
    made = Gaussian.from_covariances(np.diag(plain.variance), np.diag(plain.prior_variance), plain.prior_mean)
    assert_same_densities(plain, made, X2)


@pytest.mark.parametrize("units", [[1e-9, 1.0, 1e9], [1e-20, 1.0, 1e20], [1e-30, 1e-30, 1e-30], [1e30, 1e30, 1e30]])
def test_from_covariances_takes_features_of_any_unit(units):
    family, scale = Gaussian.from_covariances(WITHIN, BETWEEN), np.outer(units, units)
    other = Gaussian.from_covariances(scale * WITHIN, scale * BETWEEN)
    np.testing.assert_allclose(other.within_covariance(3) / scale, WITHIN, atol=1e-11)
    X = rows_of(DIRECTED["scalars"], 5)
    gap = other.log_marginal(X * units) - family.log_marginal(X)
    assert gap == pytest.approx(-5 * np.sum(np.log(units)), rel=1e-9, abs=1e-9)


def test_from_covariances_takes_what_matrix_products_round():
    """Products of matrices are symmetric but for rounding, which is all there is of a covariance of 0."""
    for seed in range(20):
        rotation = stats.ortho_group.rvs(6, random_state=seed)
        family = Gaussian.from_covariances(2.0 * rotation @ rotation.T, 3.0 * rotation @ rotation.T)
        np.testing.assert_allclose(family.within_covariance(6), 2.0 * np.eye(6), atol=1e-12)
        np.testing.assert_allclose(family.between_covariance(6), 3.0 * np.eye(6), atol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_means_that_do_not_vary_keep_a_thousandth_of_the_variance_within(rank):
    vectors = np.random.default_rng(0).normal(size=(3, rank))
    between = vectors @ vectors.T
    family = Gaussian.from_covariances(WITHIN, between)
    ratios = eigh(family.between_covariance(3), WITHIN, eigvals_only=True)
    expected = np.maximum(eigh(between, WITHIN, eigvals_only=True), 1e-3)
    np.testing.assert_allclose(ratios, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("within", "between", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], np.eye(2), "^within must be positive definite"),
        (np.ones((2, 2)), np.eye(2), "^within must be positive definite"),
        (np.eye(2), [[1.0, 2.0], [2.0, 1.0]], "^between must be positive semi-definite"),
        (np.eye(2), -np.eye(2), "^between must be positive semi-definite"),
        ([[1.0, 0.5], [0.2, 1.0]], np.eye(2), "^within must be a symmetric"),
        (np.eye(2), [[1.0, 0.5], [0.2, 1.0]], "^between must be a symmetric"),
        (np.eye(2), np.eye(3), "^between must be a symmetric"),
        (np.ones((2, 3)), np.eye(2), "^within must be a symmetric"),
        (np.ones(2), np.eye(2), "^within must be a matrix of finite numbers"),
        (1.0, np.eye(1), "^within must be a matrix of finite numbers"),
        (np.eye(2), [[1.0, np.nan], [np.nan, 1.0]], "^between must be a matrix of finite numbers"),
        (np.eye(2), None, "^between must be a matrix of finite numbers"),
    ],
)
def test_matrices_that_are_no_covariances(within, between, message):
    with pytest.raises(ValueError, match=message):
        Gaussian.from_covariances(within, between)


def test_from_covariances_wants_a_prior_mean_of_the_same_width():
    with pytest.raises(ValueError, match="different lengths"):
        Gaussian.from_covariances(WITHIN, BETWEEN, [1.0, 2.0])


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        ([[1.0, 2.0], [2.0, 4.0]], "linearly independent rows"),
        ([[1.0, 2.0], [0.0, 0.0]], "linearly independent rows"),
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "linearly independent rows, got 3 dependent rows of 2 features"),
        ([1.0, 2.0], "^directions must be a matrix"),
        (1.0, "^directions must be a matrix"),
        (np.ones((1, 2, 2)), "^directions must be a matrix"),
        ([[1.0, np.nan], [0.0, 1.0]], "^directions must be a matrix of finite numbers"),
        ([[1.0, np.inf], [0.0, 1.0]], "^directions must be a matrix of finite numbers"),
        ([[1.0], [1.0, 2.0]], "^directions must be a matrix"),
        ([["1", "2"], ["3", "4"]], "^directions must be a matrix"),
        ([[1j, 0.0], [0.0, 1.0]], "^directions must be a matrix"),
        ([[True, False], [False, True]], "^directions must be a matrix"),
        (np.empty((0, 2)), "^directions must be a matrix"),
        ([[1e200, 0.0], [0.0, 1.0]], "^directions must"),  # its square is no number
    ],
    ids=repr,
)
def test_bad_directions(directions, message):
    with pytest.raises(ValueError, match=message):
        Gaussian(1.0, 1.0, 0.0, directions)


@pytest.mark.parametrize("value", [None, 0.0, -1.0, np.nan, np.inf, "1", [1.0, 2.0], [1.0], [[1.0]], True], ids=repr)
def test_fewer_directions_than_features_need_a_residual_variance(value):
    with pytest.raises(ValueError, match=r"^residual_variance must be a positive"):
        Gaussian(1.0, 1.0, 0.0, W4, value)


def test_a_residual_variance_is_for_fewer_directions_than_features():
    with pytest.raises(ValueError, match="as many directions as features, 3"):
        Gaussian(1.0, 1.0, 0.0, W3, 1.0)
    with pytest.raises(ValueError, match="for Gaussians with directions"):
        Gaussian(1.0, 1.0, 0.0, residual_variance=1.0)


@pytest.mark.parametrize(
    "values", [{"variance": None}, {"prior_variance": None}, {"variance": None, "prior_mean": None}]
)
def test_directions_of_unknown_variances_are_refused(values):
    with pytest.raises(ValueError, match="with directions needs its variance and prior_variance"):
        Gaussian(**({"variance": 1.0, "prior_variance": 1.0, "prior_mean": 0.0, "directions": W3} | values))


@pytest.mark.parametrize(
    "values",
    [
        {"variance": np.ones(4)},  # of the features, not of the coordinates
        {"prior_variance": np.ones(3)},
        {"prior_mean": np.ones(2)},  # of the coordinates, not of the features
    ],
)
def test_vectors_that_do_not_fit_the_directions_are_refused(values):
    with pytest.raises(ValueError, match="different lengths"):
        Gaussian(**({"variance": 1.0, "prior_variance": 1.0, "directions": W4, "residual_variance": 1.0} | values))


@directed
def test_rows_of_another_width_than_the_directions(family):
    D = family.directions.shape[1]
    assert family.width == D
    assert family.check(np.zeros((2, D))).shape == (2, D)
    for width in (D - 1, D + 1, len(family.directions) + 7):
        with pytest.raises(ValueError, match=f"^directions have {D} entries each, but X has {width} features"):
            family.check(np.zeros((2, width)))


@directed
def test_directed_rows_too_far_away_are_named(family):
    X = np.zeros((3, family.directions.shape[1]))
    X[1, 0] = 1e80
    assert np.all(np.isfinite(family.log_predictive(family.check(X), family.statistics(X))))
    X[1, 0] = 1e145
    with pytest.raises(ValueError, match=r"row 1, column 0$"):
        family.check(X)


def test_directed_families_are_values():
    for name, family in DIRECTED.items():
        twin = replace(family, directions=family.directions.copy())
        for other in (twin, copy.copy(family), copy.deepcopy(family), pickle.loads(pickle.dumps(family))):
            assert other == family, name
            assert hash(other) == hash(family)
            assert not other.directions.flags.writeable
            X = rows_of(family, 3)
            assert np.array_equal(
                other.log_predictive(X, other.statistics(X)), family.log_predictive(X, family.statistics(X))
            )
    assert all(one != other for one, other in combinations(DIRECTED.values(), 2))
    assert Gaussian(1.0, 1.0, 0.0, np.eye(2)) != Gaussian(1.0, 1.0)
    assert Gaussian(1.0, 1.0, 0.0, W4, 1.0) != Gaussian(1.0, 1.0, 0.0, W4, 2.0)


def test_directions_are_copied():
    W = W3.copy()
    family = Gaussian(1.0, 1.0, 0.0, W)
    W[:] = 99.0
    assert family == Gaussian(1.0, 1.0, 0.0, W3)


def test_minus_zero_in_directions_hashes_like_zero():
    minus, plus = (Gaussian(1.0, 1.0, 0.0, [[zero, 1.0], [1.0, zero]]) for zero in (-0.0, 0.0))
    assert minus == plus
    assert hash(minus) == hash(plus)


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (Gaussian(), "Gaussian()"),
        (Gaussian(variance=2), "Gaussian(variance=2.0)"),
        (Gaussian(prior_mean=[1, 2]), "Gaussian(prior_mean=array([1., 2.]))"),
        (Gaussian(1, 2), "Gaussian(variance=1.0, prior_variance=2.0, prior_mean=0.0)"),
        (Gaussian(np.ones(9), 2), "Gaussian(variance=<array (9,)>, prior_variance=2.0, prior_mean=0.0)"),
        (
            Gaussian(1, [2, 3], 0, W4, 0.5),
            "Gaussian(variance=1.0, prior_variance=array([2., 3.]), prior_mean=0.0, directions=<array (2, 4)>, "
            "residual_variance=0.5)",
        ),
    ],
    ids=str,
)
def test_repr(family, text):
    assert repr(family) == text


@directed
def test_sharper_clusters_have_less_variance_and_means_that_vary_as_much(family):
    D = family.directions.shape[1]
    sharper = family.sharpen(4.0)
    rest = (family.residual_variance or 0.0) * (np.eye(D) - np.linalg.pinv(family.directions) @ family.directions)
    np.testing.assert_allclose(sharper.within_covariance(D) - rest, (covariances(family)[0] - rest) / 4.0, atol=1e-13)
    np.testing.assert_allclose(sharper.between_covariance(D), covariances(family)[1], atol=1e-13)


# --- what data suggest ----------------------------------------------------------------------------------------------


def clusters_of(family, D, n, n_clusters, seed=0):
    """Rows of clusters that are all of the same size, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % n_clusters)
    return family.sample(family.sample_parameters(n_clusters, D, rng)[labels], rng), labels


def pooled_covariance(X, labels):
    """Of the rows about their cluster's mean, one cluster at a time."""
    squares = [np.sum(labels == c) * np.cov(X[labels == c].T, bias=True) for c in np.unique(labels)]
    return np.sum(squares, axis=0) / (len(X) - len(squares))


def test_without_labels_a_share_of_the_variance_lies_within():
    X = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 2.0, 3.0] + 50.0
    found = Gaussian().proposals(X)
    whole = np.mean(np.var(X, axis=0))
    assert [family.variance for family in found] == pytest.approx([share * whole for share in SHARES])
    assert [family.variance + family.prior_variance for family in found] == pytest.approx([whole] * len(SHARES))
    assert all(np.allclose(family.prior_mean, X.mean(axis=0)) for family in found)
    assert np.all(np.diff([family.variance for family in found]) < 0)  # those that open few tables first


@pytest.mark.parametrize("name", ["from-covariances", "two-of-four-alike", "scalars"])
def test_the_true_labels_give_the_true_covariance(name):
    """Shrinking towards a sphere moves it by 10 D/n of the difference; five standard errors are allowed besides."""
    truth, n = DIRECTED[name], 20_000
    D = truth.directions.shape[1]
    X, labels = clusters_of(truth, D, n, 50)
    found = Gaussian().proposals(X, labels)
    assert len(found) == 2 * len(SCALES)
    plain, full = Gaussian().proposals(X, labels, (1.0,))
    assert [plain, full] == found[2 * SCALES.index(1.0) :][:2]
    within = covariances(truth)[0]
    spread = np.diag(within)
    shrink = 10 * D / n * np.abs(within - np.mean(spread) * np.eye(D))
    error = np.sqrt((np.outer(spread, spread) + within**2) / n)
    assert np.all(np.abs(plain.variance - spread) < np.diag(5 * error + shrink))
    assert np.all(np.abs(full.within_covariance(D) - within) < 5 * error + shrink)
    pooled = pooled_covariance(X, labels)
    weight = 10 * D / (n - 50 + 10 * D)
    exact = (1.0 - weight) * pooled + weight * np.trace(pooled) / D * np.eye(D)
    np.testing.assert_allclose(full.within_covariance(D), exact, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plain.variance, np.diag(exact), rtol=1e-9)


def test_proposals_scale_what_is_within_and_keep_the_whole():
    X, labels = clusters_of(DIRECTED["from-covariances"], 3, 3000, 30)
    found = Gaussian().proposals(X, labels)
    at = SCALES.index(1.0)
    for scale, plain, full in zip(SCALES, found[0::2], found[1::2], strict=True):
        np.testing.assert_allclose(plain.variance, scale * found[2 * at].variance, rtol=1e-12)
        np.testing.assert_allclose(plain.variance + plain.prior_variance, np.var(X, axis=0), rtol=1e-12)
        within = found[2 * at + 1].within_covariance(3)
        np.testing.assert_allclose(full.within_covariance(3), scale * within, rtol=1e-9, atol=1e-12)
        if scale > 1.0:  # more than there is, in some direction
            continue
        # Between, all is shrunk towards a sphere by D/(K + D), which keeps the trace.
        rest = np.cov(X.T, bias=True) - scale * within
        expected = (30 * rest + 3 * np.trace(rest) / 3 * np.eye(3)) / 33
        np.testing.assert_allclose(full.between_covariance(3), expected, rtol=1e-6, atol=1e-6)


def test_labels_are_only_names():
    X, labels = clusters_of(Gaussian(1.0, 9.0), 2, 60, 5)
    assert Gaussian().proposals(X, labels) == Gaussian().proposals(X, 7 * labels + 3)


def test_rows_too_few_for_a_full_covariance_get_none():
    X, labels = clusters_of(Gaussian(1.0, 9.0), 10, 39, 5)
    assert all(family.directions is None for family in Gaussian().proposals(X, labels))
    X, labels = clusters_of(Gaussian(1.0, 9.0), 10, 40, 5)
    assert sum(family.directions is not None for family in Gaussian().proposals(X, labels)) == len(SCALES)


def test_a_clustering_without_clusters_suggests_nothing():
    X = np.random.default_rng(0).normal(size=(10, 2))
    assert Gaussian().proposals(X, np.arange(10)) == []


@pytest.mark.parametrize("labels", [None, np.arange(60) % 4], ids=["first", "again"])
def test_what_is_known_is_kept(labels):
    X, _ = clusters_of(Gaussian(1.0, 9.0), 3, 60, 4)
    mean = [1.0, 2.0, 3.0]
    for name, value in [("variance", 2.0), ("prior_variance", [7.0, 8.0, 9.0]), ("prior_mean", mean)]:
        found = Gaussian(**{name: value}).proposals(X, labels)
        assert len(found) >= 5
        assert all(np.array_equal(getattr(family, name), value) for family in found)
        assert all(np.allclose(f.prior_mean, X.mean(axis=0)) for f in found) == (name != "prior_mean")
    both = Gaussian(variance=2.0, prior_mean=mean).proposals(X, labels)
    assert all(family.variance == 2.0 and family.prior_mean.tolist() == mean for family in both)
    assert Gaussian(1.0, 2.0).proposals(X, labels) == [Gaussian(1.0, 2.0)]
    assert DIRECTED["scalars"].proposals(X, labels) == [DIRECTED["scalars"]]


def test_about_a_known_mean_variances_are_taken():
    X = np.random.default_rng(0).normal(size=(500, 2)) + 3.0
    whole = np.mean((X - 1.0) ** 2)
    assert Gaussian(prior_mean=1.0).proposals(X)[0].variance == pytest.approx(SHARES[0] * whole)
    assert Gaussian(prior_variance=5.0, prior_mean=1.0).proposals(X)[-1].variance == pytest.approx(SHARES[-1] * whole)


# --- coordinates to look for proposals in ---------------------------------------------------------------------------


def assert_views_keep_the_evidence(family, X, labels):
    """Evidence in the coordinates of a view, plus its log density, is that of the lifted family in the features."""
    clusters = [labels == c for c in np.unique(labels)]
    views = family.views(X)
    for view in views:
        for proposal in family.proposals(view.rows) + family.proposals(view.rows, labels):
            lifted = view.lift(proposal)
            assert lifted.known
            expected = sum(proposal.log_marginal(view.rows[c]) for c in clusters) + view.log_density
            assert sum(lifted.log_marginal(X[c]) for c in clusters) == pytest.approx(expected, rel=1e-10, abs=1e-7)
    return views


@pytest.mark.parametrize("prior_mean", [None, 2.0], ids=["unknown", "known"])
@pytest.mark.parametrize("D", [1, 2, 3, 48])
def test_views_of_few_features(D, prior_mean):
    X, labels = clusters_of(Gaussian(1.0, 9.0), D, 250, 5)
    X *= np.geomspace(0.1, 30.0, D)
    views = assert_views_keep_the_evidence(Gaussian(prior_mean=prior_mean), X, labels)
    assert np.array_equal(views[0].rows, X)
    assert views[0].log_density == 0.0
    assert len(views) == (1 if D == 1 else 2)
    if D > 1:
        np.testing.assert_allclose(np.mean(views[1].rows ** 2, axis=0), 1.0, rtol=1e-9)
        assert all(views[1].lift(family).directions is None for family in Gaussian().proposals(views[1].rows))


@pytest.mark.parametrize("prior_mean", [None, 2.0], ids=["unknown", "known"])
@pytest.mark.parametrize(("D", "n"), [(49, 250), (60, 250), (60, 20), (200, 5)])
def test_views_of_many_features(D, n, prior_mean):
    X, labels = clusters_of(Gaussian(1.0, 9.0), D, n, 3)
    (view,) = assert_views_keep_the_evidence(Gaussian(prior_mean=prior_mean), X, labels)
    Q = min(48, n - 1 if prior_mean is None else n)
    assert view.rows.shape == (n, Q)
    about = X - (X.mean(axis=0) if prior_mean is None else prior_mean)
    largest = np.sort(np.linalg.eigvalsh(about @ about.T))[::-1][:Q]  # principal coordinates
    np.testing.assert_allclose(np.sort(np.sum(view.rows**2, axis=0))[::-1], largest, rtol=1e-8)
    assert view.lift(Gaussian(1.0, 1.0)).directions.shape == (Q, D)


def test_features_alike_have_one_view():
    X = np.random.default_rng(0).normal(size=(5000, 4))
    assert len(Gaussian().views(X)) == 1


@pytest.mark.parametrize("family", [Gaussian(variance=1.0), Gaussian(prior_variance=1.0), Gaussian(1.0, 1.0)], ids=repr)
def test_what_is_known_in_the_features_is_looked_for_there(family):
    X = np.random.default_rng(0).normal(size=(100, 60)) * np.geomspace(0.1, 10.0, 60)
    (view,) = family.views(X)
    assert np.array_equal(view.rows, X)
    assert view.lift(family) is family


def test_only_gaussians_are_lifted():
    X = np.random.default_rng(0).normal(size=(100, 2)) * [1.0, 5.0]
    with pytest.raises(TypeError, match="expected a Gaussian"):
        Gaussian().views(X)[1].lift(Bernoulli(1.0, 1.0))


def test_centres_are_spread_as_widely_as_the_rows_reach():
    X = np.random.default_rng(0).normal(size=(500, 2))
    near = Gaussian().proposals(X)
    total = near[0].variance + near[0].prior_variance
    np.testing.assert_allclose([f.variance + f.prior_variance for f in near], total)
    X[7] = [30.0, -20.0]
    far = Gaussian().proposals(X)
    np.testing.assert_allclose([f.prior_variance for f in far], np.mean((np.ptp(X, axis=0) / 8.0) ** 2))
    np.testing.assert_allclose(far[0].variance, 0.99 * np.mean(np.var(X, axis=0)))

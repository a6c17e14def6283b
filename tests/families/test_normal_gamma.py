"""Gaussian clusters of unknown variance against quadrature over mean and variance, Student's t, and their limit."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from dyncrp.families import Gaussian, NormalGamma
from dyncrp.families.gamma import log_gamma_half

ONE_DIMENSIONAL = [
    NormalGamma(1.0, 1.0),
    NormalGamma(0.3, 2.0, 3.0),
    NormalGamma(4.0, 0.5, 1.5, -2.0),
    NormalGamma([0.5], [2.0], 20.0, [1.0]),
]
PLANE = NormalGamma([0.5, 3.0], [2.0, 0.7], 4.0, [-1.0, 2.5])
X1 = np.array([[0.4], [-1.3], [2.2]])
X2 = np.array([[0.4, 1.0], [-1.3, 0.2], [2.2, -0.9]])
RESPONSIBILITIES = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.3, 0.0, 0.8]])
one_dimensional = pytest.mark.parametrize("family", ONE_DIMENSIONAL, ids=repr)
tables = pytest.mark.parametrize("responsibilities", RESPONSIBILITIES, ids=["empty", "whole", "fractional"])


def grid(family):
    """Nodes (φ, σ²) and weights that integrate over the prior, written down from its definition.

    In log 1/σ² and in the standardised mean the integrands are smooth and fall off exponentially at least, where the
    trapezoid rule is spectrally accurate.
    """
    variance, prior_variance, prior_mean = (
        float(np.ravel(value)[0]) for value in (family.variance, family.prior_variance, family.prior_mean)
    )
    t, z = np.linspace(-80.0 / family.degrees, 5.0, 900), np.linspace(-11.0, 11.0, 500)
    precision = np.exp(t) / variance
    gamma = stats.gamma(family.degrees / 2, scale=2 / (family.degrees * variance))
    weights = np.outer(gamma.pdf(precision) * precision * (t[1] - t[0]), stats.norm.pdf(z) * (z[1] - z[0]))
    variances = np.broadcast_to(1 / precision[:, None], weights.shape)
    means = prior_mean + np.sqrt(variances * prior_variance / variance) * z
    return means, variances, weights


def log_normal(x, mean, variance):
    return -0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance)


def posterior_grid(family, responsibilities):
    """The same with the weights of the posterior, and the log of their sum before they were normalised."""
    means, variances, weights = grid(family)
    weights = weights * np.exp(
        sum(r * log_normal(x, means, variances) for r, x in zip(responsibilities, X1[:, 0], strict=True))
    )
    return means, variances, weights / weights.sum(), np.log(weights.sum())


@one_dimensional
def test_the_grid_integrates_the_prior(family):
    assert grid(family)[2].sum() == pytest.approx(1.0, abs=1e-11)


@one_dimensional
def test_log_marginal_by_quadrature(family):
    assert family.log_marginal(X1) == pytest.approx(posterior_grid(family, np.ones(3))[3], abs=1e-9)


@tables
@one_dimensional
def test_log_partition_by_quadrature(family, responsibilities):
    _, _, _, log_sum = posterior_grid(family, responsibilities)
    table = (responsibilities @ family.statistics(X1))[None]
    base = responsibilities @ family.log_base_measure(X1)
    assert family.log_partition(table)[0] + base == pytest.approx(log_sum, abs=1e-9)


@tables
@one_dimensional
def test_posterior_expectations_by_quadrature(family, responsibilities):
    means, variances, weights, _ = posterior_grid(family, responsibilities)
    table = (responsibilities @ family.statistics(X1))[None]
    for x in X1 + 0.5:
        log_likelihood = log_normal(x[0], means, variances)
        predictive, expected = np.log(np.sum(weights * np.exp(log_likelihood))), np.sum(weights * log_likelihood)
        assert family.log_predictive(x[None], table)[0, 0] == pytest.approx(predictive, abs=1e-9)
        assert family.expected_log_likelihood(x[None], table)[0, 0] == pytest.approx(expected, abs=1e-9)
    assert family.centers(table)[0, 0] == pytest.approx(np.sum(weights * means), abs=1e-9)
    assert family.variances(table)[0, 0] == pytest.approx(1 / np.sum(weights / variances), rel=1e-9)


def textbook(family, X):
    """Degrees of freedom, location and scale of the predictive after the rows of X, as textbooks give them."""
    n, mean, scatter = len(X), X.mean(axis=0), np.sum((X - X.mean(axis=0)) ** 2, axis=0)
    p = family.variance / family.prior_variance
    rate = 0.5 * (family.degrees * family.variance + scatter + p * n / (p + n) * (mean - family.prior_mean) ** 2)
    shape = (family.degrees + n) / 2
    location = (p * family.prior_mean + n * mean) / (p + n)
    return 2 * shape, location, np.sqrt(rate * (p + n + 1) / (shape * (p + n)))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_predictive_is_students_t(n):
    table = PLANE.statistics(X2[:n]).sum(axis=0, keepdims=True)
    queries = np.vstack([X2 + 0.5, [[1e3, -1e5]]])
    expected = stats.t.logpdf(queries, *textbook(PLANE, X2[:n])).sum(axis=1)
    np.testing.assert_allclose(PLANE.log_predictive(queries, table)[:, 0], expected, rtol=1e-13)


@one_dimensional
def test_predictive_integrates_to_one(family):
    # Over the whole line, folded into (−1, 1): Student's t has heavy tails.
    for table in RESPONSIBILITIES @ family.statistics(X1):

        def density(u, table=table):
            x, slope = u / (1 - u * u), (1 + u * u) / (1 - u * u) ** 2
            return slope * np.exp(family.log_predictive(np.array([[x]]), table[None])[0, 0])

        assert quad(density, -1, 1, points=[0.0], epsabs=1e-10, limit=400)[0] == pytest.approx(1.0, abs=1e-8)


def test_dimensions_are_independent():
    alone = [
        NormalGamma(PLANE.variance[d], PLANE.prior_variance[d], PLANE.degrees, PLANE.prior_mean[d]) for d in range(2)
    ]
    marginals = [family.log_marginal(X2[:, [d]]) for d, family in enumerate(alone)]
    assert PLANE.log_marginal(X2) == pytest.approx(sum(marginals), abs=1e-12)


@pytest.mark.parametrize(("degrees", "tolerance"), [(1e6, 1e-4), (1e9, 1e-7), (1e13, 1e-11), (1e100, 1e-11)])
def test_many_degrees_of_freedom_are_a_known_variance(degrees, tolerance):
    # The difference falls as 1/degrees, until only rounding is left.
    family = NormalGamma(PLANE.variance, PLANE.prior_variance, degrees, PLANE.prior_mean)
    limit = Gaussian(PLANE.variance, PLANE.prior_variance, PLANE.prior_mean)
    ours, theirs = RESPONSIBILITIES @ family.statistics(X2), RESPONSIBILITIES @ limit.statistics(X2)
    X = X2 + 0.5
    for method in ("log_predictive", "expected_log_likelihood"):
        np.testing.assert_allclose(getattr(family, method)(X, ours), getattr(limit, method)(X, theirs), atol=tolerance)
    assert family.log_marginal(X2) == pytest.approx(limit.log_marginal(X2), abs=tolerance)
    np.testing.assert_allclose(family.centers(ours), limit.centers(theirs), rtol=1e-13)
    np.testing.assert_allclose(family.variances(ours), np.broadcast_to(family.variance, (3, 2)), rtol=tolerance)
    np.testing.assert_allclose(
        family.sample_parameters(100, 2, seed=0)[:, 2:] - family.variance, 0.0, atol=20 / np.sqrt(degrees) + 1e-14
    )


def test_a_table_learns_its_variance():
    """The variance of n = 100,000 normals has a relative standard error of √(2/n); five are allowed."""
    X = np.random.default_rng(0).normal(7.0, [0.1, 3.0], (100_000, 2))
    family = NormalGamma(1.0, 100.0)
    table = family.statistics(X).sum(axis=0, keepdims=True)
    np.testing.assert_allclose(family.variances(table)[0], [0.01, 9.0], rtol=5 * np.sqrt(2 / 100_000))


# Rounding


@pytest.mark.parametrize("distance", [0.0, 1e2, 1e4, 1e6])
def test_accuracy_far_from_the_prior_mean(distance):
    # Against sums of squares in fractions, which are exact: the relative error that the class owns up to.
    X = distance + np.random.default_rng(1).normal(size=(200, 1))
    family = NormalGamma(1.0, 1.0 + distance**2, 5.0)
    exact = [Fraction(x) for x in X[:, 0]]
    p, n, s, w = Fraction(1 / (1.0 + distance**2)), len(X), sum(exact), sum(x * x for x in exact)
    variance = float((5 + w - s * s / (p + n)) / (5 + n))
    table = family.statistics(X).sum(axis=0, keepdims=True)
    assert family.variances(table)[0, 0] == pytest.approx(variance, rel=3e-16 * np.sqrt(n) * (1.0 + distance**2))


@pytest.mark.parametrize("distance", [1e6, 1e8, 1e12, 1e100])
def test_equal_observations_never_have_a_negative_scatter(distance):
    # A sum of squares minus a square of sums, both 1e-16 wrong: without the guard the scatter is −1e-4 and worse.
    family = NormalGamma(1.0, distance**2 if distance < 1e50 else 1e100)
    rows = np.full((1, 1), distance / 3.0)
    for n in range(1, 40):
        table = np.zeros((1, 3))
        for _ in range(n):
            table += 0.7 * family.statistics(rows)
        q = family.variance / family.prior_variance + 0.7 * n
        least = family.degrees + 0.7 * n * (family.variance / family.prior_variance) / q * rows[0, 0] ** 2
        assert family.variances(table)[0, 0] >= (1 - 1e-12) * least / (family.degrees + 0.7 * n)
        assert np.isfinite(family.log_predictive(rows, table)).all()
        assert np.isfinite(family.expected_log_likelihood(rows, table)).all()


def test_a_feature_that_never_changes():
    # Ten million rows at the prior mean: B/(ν + n) is 1e-8, and its logarithm needs all its digits.
    family = NormalGamma(1.0, 1.0, 0.1)
    scale = np.sqrt(0.1 * (1 + 1 / (1e7 + 1)) / (1e7 + 0.1))
    expected = stats.t.logpdf([[1e-4], [1.0]], 1e7 + 0.1, scale=scale)
    values = family.log_predictive(np.array([[1e-4], [1.0]]), np.array([[1e7, 0.0, 0.0]]))
    assert values[0, 0] == pytest.approx(expected[0, 0], abs=1e-11)
    assert values[1, 0] == pytest.approx(expected[1, 0], rel=1e-12)


def test_translating_data_and_prior_mean_changes_nothing():
    near, far = NormalGamma(1.0, 4.0, 3.0, 0.5), NormalGamma(1.0, 4.0, 3.0, 0.5 + 2.0**30)
    X = np.round(X2 * 64) / 64
    table = near.statistics(X)
    assert np.array_equal(far.statistics(X + 2.0**30), table)
    assert np.array_equal(far.log_predictive(X + 2.0**30, table), near.log_predictive(X, table))
    assert np.array_equal(far.expected_log_likelihood(X + 2.0**30, table), near.expected_log_likelihood(X, table))


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**33])
def test_units_only_shift_the_densities(scale):
    small = NormalGamma(1.5, 4.0, 3.0, 0.5)
    large = NormalGamma(1.5 * scale**2, 4.0 * scale**2, 3.0, 0.5 * scale)
    ours, theirs = RESPONSIBILITIES @ small.statistics(X2), RESPONSIBILITIES @ large.statistics(scale * X2)
    for method in ("log_predictive", "expected_log_likelihood"):
        expected = getattr(small, method)(X2, ours) - 2 * np.log(scale)
        np.testing.assert_allclose(getattr(large, method)(scale * X2, theirs), expected, rtol=1e-13)
    np.testing.assert_allclose(large.variances(theirs), scale**2 * small.variances(ours), rtol=1e-13)


@pytest.mark.parametrize(("variance", "prior_variance"), [(1e-100, 1e100), (1e100, 1e-100), (1e100, 1e100)])
@pytest.mark.parametrize("degrees", [0.1, 1e100])
def test_the_most_extreme_hyperparameters_stay_finite(variance, prior_variance, degrees):
    family = NormalGamma(variance, prior_variance, degrees)
    X = np.array([[1e40], [2e40]])
    family.check(X)
    table = np.vstack([np.zeros((1, 3)), family.statistics(X).sum(axis=0)])
    for values in (
        family.log_predictive(X, table),
        family.expected_log_likelihood(X, table),
        family.log_partition(table),
        family.centers(table),
        family.variances(table),
    ):
        assert np.all(np.isfinite(values))


def test_log_gamma_half_against_mpmath():
    z = np.concatenate([np.geomspace(0.05, 1e12, 200), np.arange(0.5, 20.0, 0.5)])
    with mpmath.workdps(60):
        exact = [float(mpmath.loggamma(v + 0.5) - mpmath.loggamma(v) - mpmath.log(v) / 2) for v in map(mpmath.mpf, z)]
    np.testing.assert_allclose(log_gamma_half(z), exact, rtol=0, atol=1e-14)


# Sampling


def test_moments_of_the_samplers():
    """Five standard errors, each from the draws' own theory: τ = σ₀²/σ² has mean 1 and variance 2/ν."""
    family, n = NormalGamma([0.5, 4.0], [3.0, 0.2], 6.0, [10.0, -10.0]), 100_000
    parameters = family.sample_parameters(n, 2, seed=0)
    means, variances = parameters[:, :2], parameters[:, 2:]
    assert np.all(np.abs((family.variance / variances).mean(axis=0) - 1) < 5 * np.sqrt(2 / 6 / n))
    ks = [
        stats.kstest(family.variance[d] / variances[:, d], stats.gamma(3.0, scale=1 / 3.0).cdf).pvalue for d in range(2)
    ]
    assert min(ks) > 1e-4
    standard = (means - family.prior_mean) / np.sqrt(variances * family.prior_variance / family.variance)
    noise = (family.sample(parameters, seed=1) - means) / np.sqrt(variances)
    assert min(stats.kstest(standard[:, d], stats.norm.cdf).pvalue for d in range(2)) > 1e-4
    for z in (standard, noise):
        assert np.all(np.abs(z.mean(axis=0)) < 5 / np.sqrt(n))
        assert np.all(np.abs(z.var(axis=0) - 1) < 5 * np.sqrt(2 / n))
    correlations = np.corrcoef(np.hstack([standard, noise, np.log(variances)]).T)[np.triu_indices(6, 1)]
    assert np.all(np.abs(correlations) < 5 / np.sqrt(n))


# Bad input


BAD = [np.nan, np.inf, "1", [[1.0, 2.0]], [], [1.0, np.nan], True, 1j, 0, -1.0]


@pytest.mark.parametrize("name", ["variance", "prior_variance", "degrees"])
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_bad_hyperparameters(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be a positive finite number"):
        NormalGamma(**{"variance": 1.0, "prior_variance": 1.0, name: value})


@pytest.mark.parametrize("value", [0.09, 1e-20, 1.1e100, 1e200])
def test_degrees_out_of_range(value):
    with pytest.raises(ValueError, match=r"^degrees must be from 0\.1 to 1e\+100, got"):
        NormalGamma(1.0, 1.0, value)


def test_degrees_are_one_number():
    with pytest.raises(ValueError, match=r"^degrees must be a positive finite number, got \[1\.0, 2\.0\]"):
        NormalGamma(1.0, 1.0, [1.0, 2.0])


@pytest.mark.parametrize("value", [np.nan, np.inf, "1", [[1.0, 2.0]], []], ids=repr)
def test_bad_prior_means(value):
    with pytest.raises(ValueError, match=r"^prior_mean must be a finite number"):
        NormalGamma(1.0, 1.0, prior_mean=value)


@pytest.mark.parametrize("name", ["variance", "prior_variance", "prior_mean"])
def test_wrong_width(name):
    family = NormalGamma(**{"variance": 1.0, "prior_variance": 1.0, name: [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=f"^{name} has 3 entries, but X has 2 features"):
        family.check(np.zeros((4, 2)))
    assert family.check(np.zeros((4, 3))).shape == (4, 3)


def test_vectors_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"^Gaussian has hyperparameters of different lengths"):
        NormalGamma([1.0, 2.0], 1.0, prior_mean=[1.0, 2.0, 3.0])


def test_data_too_far_from_the_prior_mean_name_the_first_row_and_column():
    X = np.zeros((4, 3))
    X[2, 1] = X[3, 0] = 1e200
    with pytest.raises(ValueError, match=r"row 2, column 1$"):
        NormalGamma(1.0, 1.0).check(X)

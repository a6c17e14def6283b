"""Gaussian clusters of unknown covariance against quadrature, mpmath, Student's t, NormalGamma and their limit."""

from fractions import Fraction
from itertools import combinations

import mpmath
import numpy as np
import pytest
from scipy import stats

from dyncrp.families import Gaussian, NormalGamma, NormalWishart
from dyncrp.families.triangles import bounded, factor, fold, unfold

PLANES = [
    NormalWishart(1.0, 1.0, 3.0),
    NormalWishart(0.3, 2.0, 6.0, [1.0, -1.0]),
    NormalWishart([0.5, 3.0], [2.0, 12.0], 4.0, [-1.0, 2.5]),
]
SPACE = NormalWishart([0.5, 3.0, 1.2], [2.0, 12.0, 4.8], 4.0, [-1.0, 2.5, 0.3])
X2 = np.array([[0.4, 1.0], [-1.3, 0.2], [1.2, -0.9]])
X3 = np.array([[0.4, 1.0, 0.1], [-1.3, 0.2, 0.9], [2.2, -0.9, -0.4], [0.6, 1.9, 2.0]])
RESPONSIBILITIES = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.3, 0.0, 0.8]])
planes = pytest.mark.parametrize("family", PLANES, ids=repr)
tables = pytest.mark.parametrize("responsibilities", RESPONSIBILITIES, ids=["empty", "whole", "fractional"])


# --- quadrature -----------------------------------------------------------------------------------------------------


def log_density_of_covariances(family, S11, S12, S22):
    """The log density of the inverse Wishart prior in the plane, from its definition (scipy's parameters)."""
    variance = np.broadcast_to(family.variance, 2)
    nu, psi = family.degrees + 1.0, family.degrees * variance
    determinant = S11 * S22 - S12**2
    trace = (psi[0] * S22 + psi[1] * S11) / determinant
    log_gamma_2 = 0.5 * np.log(np.pi) + mpmath.loggamma(nu / 2) + mpmath.loggamma((nu - 1) / 2)
    constant = 0.5 * nu * np.log(psi[0] * psi[1]) - nu * np.log(2.0) - float(log_gamma_2)
    return constant - 0.5 * (nu + 3.0) * np.log(determinant) - 0.5 * trace


def grid(family):
    """Covariances (m, 3) as S11, S12, S22 and weights (m,) that integrate over their prior.

    In log S11, log S22 and the Fisher transform of the correlation, the integrand falls off exponentially, where the
    trapezoid rule is spectrally accurate.
    """
    variance = np.broadcast_to(family.variance, 2)
    t = np.linspace(-4.5, 70.0 / family.degrees, 230)
    u = np.linspace(-7.0, 7.0, 120)
    a, b, c = np.meshgrid(t, t, u, indexing="ij")
    S11, S22, rho = variance[0] * np.exp(a), variance[1] * np.exp(b), np.tanh(c)
    S12 = rho * np.sqrt(S11 * S22)
    jacobian = np.log(S11) + np.log(S22) + 0.5 * np.log(S11 * S22) - 2.0 * np.log(np.cosh(c))
    steps = (t[1] - t[0]) ** 2 * (u[1] - u[0])
    with np.errstate(all="ignore"):
        weights = steps * np.exp(log_density_of_covariances(family, S11, S12, S22) + jacobian)
    keep = weights > 1e-18
    return np.stack([S11[keep], S12[keep], S22[keep]], axis=1), weights[keep]


def log_marginal_given_covariance(family, S, responsibilities, X):
    """log ∫ Π N(x_i; φ, Σ)^r_i N(φ; m₀, cΣ) dφ for each covariance (m,): a Gaussian integral.

    Given Σ it is Σ_i r_i log N(x_i; m₀, Σ) + ½ c/(1 + nc) sᵀΣ⁻¹s − log(1 + nc) for two features, with s = Σ r (x − m₀).
    """
    ratio = float(np.ravel(family.prior_variance / family.variance)[0])
    z = X - family.prior_mean
    determinant = S[:, 0] * S[:, 2] - S[:, 1] ** 2

    def square(v):
        return (S[:, 2] * v[0] ** 2 - 2 * S[:, 1] * v[0] * v[1] + S[:, 0] * v[1] ** 2) / determinant

    n, s = np.sum(responsibilities), responsibilities @ z
    total = 0.5 * ratio / (1 + n * ratio) * square(s) - np.log(1 + n * ratio)
    for r, row in zip(responsibilities, z, strict=True):
        total = total - 0.5 * r * (2 * np.log(2 * np.pi) + np.log(determinant) + square(row))
    return total


@pytest.fixture(scope="module")
def grids():
    return {repr(family): grid(family) for family in PLANES}


@planes
def test_the_grid_integrates_the_prior(family, grids):
    assert grids[repr(family)][1].sum() == pytest.approx(1.0, abs=1e-8)


@tables
@planes
def test_marginal_and_predictive_by_quadrature(family, responsibilities, grids):
    S, weights = grids[repr(family)]
    table = (responsibilities @ family.statistics(X2))[None]
    before = np.sum(weights * np.exp(log_marginal_given_covariance(family, S, responsibilities, X2)))
    base = responsibilities @ family.log_base_measure(X2)
    assert family.log_partition(table)[0] + base == pytest.approx(np.log(before), abs=1e-7)
    for x in X2 + 0.5:
        both = log_marginal_given_covariance(family, S, np.append(responsibilities, 1.0), np.vstack([X2, x]))
        predictive = np.log(np.sum(weights * np.exp(both)) / before)
        assert family.log_predictive(x[None], table)[0, 0] == pytest.approx(predictive, abs=1e-7)


@tables
@planes
def test_expected_log_likelihood_by_quadrature(family, responsibilities, grids):
    S, weights = grids[repr(family)]
    table = (responsibilities @ family.statistics(X2))[None]
    posterior = weights * np.exp(log_marginal_given_covariance(family, S, responsibilities, X2))
    posterior /= posterior.sum()
    ratio = float(np.ravel(family.prior_variance / family.variance)[0])
    n, s = np.sum(responsibilities), responsibilities @ (X2 - family.prior_mean)
    mean = family.prior_mean + ratio / (1 + n * ratio) * s  # of φ, whatever Σ is; its covariance is Σ c/(1 + nc)
    determinant = S[:, 0] * S[:, 2] - S[:, 1] ** 2
    np.testing.assert_allclose(family.centers(table)[0], mean, rtol=1e-12)
    for x in X2 + 0.5:
        gap = x - mean
        square = (S[:, 2] * gap[0] ** 2 - 2 * S[:, 1] * gap[0] * gap[1] + S[:, 0] * gap[1] ** 2) / determinant
        spread = 2 * ratio / (1 + n * ratio)
        expected = np.sum(posterior * -0.5 * (2 * np.log(2 * np.pi) + np.log(determinant) + square + spread))
        assert family.expected_log_likelihood(x[None], table)[0, 0] == pytest.approx(expected, abs=1e-7)


# --- closed forms ---------------------------------------------------------------------------------------------------


def textbook(family, X):
    """Degrees of freedom, location and shape of the predictive after the rows of X, as textbooks give them."""
    n, D = X.shape
    kappa = float(np.ravel(family.variance / family.prior_variance)[0])
    mean = X.mean(axis=0)
    scatter = (X - mean).T @ (X - mean)
    gap = mean - family.prior_mean
    psi = family.degrees * np.diag(np.broadcast_to(family.variance, D)) + scatter
    psi += kappa * n / (kappa + n) * np.outer(gap, gap)
    freedom = family.degrees + D - 1 + n - D + 1
    location = (kappa * np.asarray(family.prior_mean) + n * mean) / (kappa + n)
    return location, psi * (kappa + n + 1) / ((kappa + n) * freedom), freedom


@pytest.mark.parametrize("n", [1, 2, 4])
def test_predictive_is_the_multivariate_t(n):
    table = SPACE.statistics(X3[:n]).sum(axis=0, keepdims=True)
    queries = np.vstack([X3 + 0.5, [[1e3, -1e5, 30.0]]])
    location, shape, freedom = textbook(SPACE, X3[:n])
    expected = stats.multivariate_t(location, shape, freedom).logpdf(queries)
    np.testing.assert_allclose(SPACE.log_predictive(queries, table)[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(
        SPACE.covariances(table)[0], shape * n_share(SPACE, n), rtol=1e-12
    )  # without the uncertainty of the mean


def n_share(family, n):
    q = float(np.ravel(family.variance / family.prior_variance)[0]) + n
    return q / (q + 1)


def test_the_chain_of_predictives_is_the_marginal():
    chain, table = 0.0, np.zeros((1, SPACE.statistics(X3).shape[1]))
    for x in X3:
        chain += SPACE.log_predictive(x[None], table)[0, 0]
        table += SPACE.statistics(x[None])
    assert SPACE.log_marginal(X3) == pytest.approx(chain, abs=1e-12)


@pytest.mark.parametrize("degrees", [0.1, 1.0, 7.3, 1e6, 1e100])
def test_one_feature_is_normal_gamma(degrees):
    one = NormalWishart(0.7, 3.0, degrees, -2.0), NormalGamma(0.7, 3.0, degrees, -2.0)
    X = X3[:, :1]
    R = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.3, 0.0, 0.8, 0.1]])
    ours, theirs = (R @ family.statistics(X) for family in one)
    np.testing.assert_array_equal(ours, theirs)
    for method in ("log_predictive", "expected_log_likelihood"):
        left, right = (getattr(family, method)(X + 0.5, ours) for family in one)
        np.testing.assert_allclose(left, right, rtol=1e-13, atol=1e-13)
    for method in ("log_partition", "centers"):
        left, right = (getattr(family, method)(ours) for family in one)
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(one[0].covariances(ours)[:, 0], one[1].variances(ours), rtol=1e-13)
    pairs = ({"stats": ours[1:]}, {"stats": ours[:0:-1]})
    np.testing.assert_allclose(*(family.log_bayes_factor(*pairs) for family in one), atol=1e-12)


def test_every_feature_alone_is_normal_gamma():
    """The marginal of a multivariate t is a t with the same degrees of freedom: so are the moments of tables."""
    alone = [NormalGamma(*(np.broadcast_to(v, 3)[d] for v in (SPACE.variance, SPACE.prior_variance)), 4.0,
                         SPACE.prior_mean[d]) for d in range(3)]  # fmt: skip
    table = SPACE.statistics(X3).sum(axis=0, keepdims=True)
    for d, family in enumerate(alone):
        own = family.statistics(X3[:, [d]]).sum(axis=0, keepdims=True)
        np.testing.assert_allclose(SPACE.covariances(table)[0, d, d], family.variances(own)[0, 0], rtol=1e-12)
        np.testing.assert_allclose(SPACE.centers(table)[0, d], family.centers(own)[0, 0], rtol=1e-12)
    for one, other in combinations(range(3), 2):
        pair = [one, other]
        family = NormalWishart(SPACE.variance[pair], SPACE.prior_variance[pair], 4.0, SPACE.prior_mean[pair])
        own = family.statistics(X3[:, pair]).sum(axis=0, keepdims=True)
        np.testing.assert_allclose(SPACE.covariances(table)[0][np.ix_(pair, pair)], family.covariances(own)[0])


def test_a_rotation_changes_nothing_where_the_guess_is_round():
    family = NormalWishart(1.3, 5.0, 3.0)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    assert family.log_marginal(X3 @ rotation) == pytest.approx(family.log_marginal(X3), abs=1e-12)


@pytest.mark.parametrize(("degrees", "tolerance"), [(1e6, 1e-4), (1e9, 1e-7), (1e13, 1e-11), (1e100, 1e-11)])
def test_many_degrees_of_freedom_are_a_known_variance(degrees, tolerance):
    # The difference falls as 1/degrees, until only rounding is left.
    family = NormalWishart(SPACE.variance, SPACE.prior_variance, degrees, SPACE.prior_mean)
    limit = Gaussian(SPACE.variance, SPACE.prior_variance, SPACE.prior_mean)
    R = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.3, 0.0, 0.8, 0.1]])
    ours, theirs = R @ family.statistics(X3), R @ limit.statistics(X3)
    for method in ("log_predictive", "expected_log_likelihood"):
        found, known = getattr(family, method)(X3 + 0.5, ours), getattr(limit, method)(X3 + 0.5, theirs)
        np.testing.assert_allclose(found, known, atol=tolerance)
    assert family.log_marginal(X3) == pytest.approx(limit.log_marginal(X3), abs=tolerance)
    np.testing.assert_allclose(family.centers(ours), limit.centers(theirs), rtol=1e-13)
    terms, known = (one.log_predictive_terms(X3, table) for one, table in ((family, ours), (limit, theirs)))
    np.testing.assert_allclose(terms, known, atol=3 * tolerance)


def test_a_table_learns_its_covariance():
    """A covariance of n = 100,000 normals has a standard error of √(2/n) of the variances; five are allowed."""
    truth = np.array([[1.0, 1.8, 0.0], [1.8, 4.0, 0.3], [0.0, 0.3, 0.25]])
    X = np.random.default_rng(0).multivariate_normal([3.0, -1.0, 7.0], truth, 100_000)
    family = NormalWishart(1.0, 100.0)
    found = family.covariances(family.statistics(X).sum(axis=0, keepdims=True))[0]
    root = np.sqrt(np.diag(truth))
    np.testing.assert_allclose(found / np.outer(root, root), truth / np.outer(root, root), atol=5 * np.sqrt(2 / 1e5))


# --- rounding -------------------------------------------------------------------------------------------------------


def in_many_digits(family, X, query):
    """The predictive of a row after those of X, in 60 digits."""
    with mpmath.workdps(60):
        D, n = X.shape[1], len(X)
        variance = [mpmath.mpf(float(v)) for v in np.broadcast_to(family.variance, D)]
        p = mpmath.mpf(family.precision)
        rows = [[(mpmath.mpf(float(x[d])) - family.prior_mean) / mpmath.sqrt(variance[d]) for d in range(D)] for x in X]
        y = [(mpmath.mpf(float(query[d])) - family.prior_mean) / mpmath.sqrt(variance[d]) for d in range(D)]
        q, nu = p + n, mpmath.mpf(family.degrees) + n
        sums = [mpmath.fsum(row[d] for row in rows) for d in range(D)]
        psi = mpmath.matrix(D, D)
        for i in range(D):
            for j in range(D):
                psi[i, j] = mpmath.fsum(row[i] * row[j] for row in rows) - sums[i] * sums[j] / q
            psi[i, i] += family.degrees
        gap = mpmath.matrix([y[d] - sums[d] / q for d in range(D)])
        square = (gap.T * mpmath.lu_solve(psi, gap))[0] * q / (q + 1)
        value = mpmath.loggamma((nu + D) / 2) - mpmath.loggamma(nu / 2) - D * mpmath.log(mpmath.pi) / 2
        value -= (mpmath.log(mpmath.det(psi)) + D * mpmath.log(1 + 1 / q) + mpmath.log(mpmath.fprod(variance))) / 2
        return float(value - (nu + D) / 2 * mpmath.log(1 + square))


@pytest.mark.parametrize("degrees", [0.1, 3.0, 1e10])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_extreme_values_against_mpmath(degrees, scale):
    family = NormalWishart(1.0, 1e4, degrees, 0.5)
    rng = np.random.default_rng(2)
    X = 0.5 + scale * rng.normal(size=(9, 3)) @ [[1.0, 0.9, 0.0], [0.0, 0.1, 2.0], [0.0, 0.0, 0.3]]
    table = family.statistics(X).sum(axis=0, keepdims=True)
    for query in (X[0], 0.5 + scale * np.array([30.0, -2.0, 1.0]), np.array([1e6, -1e3, 1.0])):
        expected = in_many_digits(family, X, query)
        assert family.log_predictive(query[None], table)[0, 0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("distance", [0.0, 1e2, 1e4, 1e6])
def test_accuracy_far_from_the_prior_mean(distance):
    # Against sums of products in fractions, which are exact: the relative error that the class owns up to.
    X = distance + np.random.default_rng(1).normal(size=(200, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    family = NormalWishart(1.0, 1.0 + distance**2, 5.0)
    exact = [[Fraction(v) for v in column] for column in X.T]
    q, n, s = Fraction(family.precision) + len(X), len(X), [sum(column) for column in exact]
    table = family.statistics(X).sum(axis=0, keepdims=True)
    for i, j in ((0, 0), (1, 0), (1, 1)):
        products = sum(a * b for a, b in zip(exact[i], exact[j], strict=True))
        truth = float(((5 if i == j else 0) + products - s[i] * s[j] / q) / (5 + n))
        error = 6e-16 * np.sqrt(n) * (1.0 + distance**2)
        assert family.covariances(table)[0, i, j] == pytest.approx(truth, abs=error)


@pytest.mark.parametrize("distance", [1e6, 1e8, 1e12, 1e60])
def test_equal_observations_keep_the_covariance_positive(distance):
    family = NormalWishart(1.0, distance**2 if distance < 1e50 else 1e100)
    rows = distance * np.array([[1.0 / 3.0, -1.7, 0.6]])
    table = np.zeros((1, family.statistics(rows).shape[1]))
    for n in range(1, 40):
        table = table + 0.7 * family.statistics(rows)
        least = (1 - 1e-9) * family.degrees / (family.degrees + 0.7 * n)
        pivots = factor(family.degrees, table[:, 0], family._posterior(table)[3]).pivots
        assert np.all(pivots >= least)
        for query in (rows, -rows, 0.0 * rows):
            assert np.isfinite(family.log_predictive(query, table)).all()
            assert np.isfinite(family.expected_log_likelihood(query, table)).all()
            assert np.isfinite(family.log_predictive_terms(query, table)).all()


def test_a_feature_that_never_changes():
    # Ten million rows at the prior mean: Ψ/(ν + n) is 1e-8, and its logarithm needs all its digits.
    family = NormalWishart(1.0, 1.0, 0.1)
    shape = np.eye(2) * 0.1 * (1 + 1 / (1e7 + 1)) / (1e7 + 0.1)
    table = np.array([[1e7, 0.0, 0.0, 0.0, 0.0, 0.0]])
    X = np.array([[1e-4, 0.0], [1.0, 2.0]])
    nu = mpmath.mpf(1e7) + mpmath.mpf(0.1)
    with mpmath.workdps(40):
        for x, value in zip(X, family.log_predictive(X, table)[:, 0], strict=True):
            square = mpmath.fsum(v * v for v in map(mpmath.mpf, x)) / shape[0, 0] / nu
            constant = mpmath.loggamma(nu / 2 + 1) - mpmath.loggamma(nu / 2) - mpmath.log(mpmath.pi * nu * shape[0, 0])
            assert value == pytest.approx(float(constant - (nu / 2 + 1) * mpmath.log1p(square)), rel=1e-11)


@pytest.mark.parametrize(("variance", "prior_variance"), [(1e-40, 1e100), (1e100, 1e-100), (1e100, 1e100)])
@pytest.mark.parametrize("degrees", [0.1, 1e100])
def test_the_most_extreme_hyperparameters_stay_finite(variance, prior_variance, degrees):
    family = NormalWishart(variance, prior_variance, degrees)
    X = 1e40 * np.array([[1.0, -1.0], [2.0, 1e-30]])
    family.check(X)
    T = family.statistics(X)
    table = np.vstack([np.zeros((1, T.shape[1])), T, T.sum(axis=0)])
    for values in (
        family.log_predictive(X, table),
        family.log_predictive_terms(X, table),
        family.expected_log_likelihood(X, table),
        family.log_partition(table),
        family.centers(table),
        family.covariances(table),
    ):
        assert np.all(np.isfinite(values))


def test_translating_data_and_prior_mean_changes_nothing():
    near, far = NormalWishart(1.0, 4.0, 3.0, 0.5), NormalWishart(1.0, 4.0, 3.0, 0.5 + 2.0**30)
    X = np.round(X3 * 64) / 64
    table = near.statistics(X)
    assert np.array_equal(far.statistics(X + 2.0**30), table)
    assert np.array_equal(far.log_predictive(X + 2.0**30, table), near.log_predictive(X, table))
    assert np.array_equal(far.expected_log_likelihood(X + 2.0**30, table), near.expected_log_likelihood(X, table))


@pytest.mark.parametrize("scale", [[2.0**-40, 1.0, 2.0**33], [2.0**20, 2.0**20, 2.0**20]])
def test_units_only_shift_the_densities(scale):
    scale = np.array(scale)
    large = NormalWishart(SPACE.variance * scale**2, SPACE.prior_variance * scale**2, 4.0, SPACE.prior_mean * scale)
    ours, theirs = SPACE.statistics(X3), large.statistics(scale * X3)
    for method in ("log_predictive", "expected_log_likelihood"):
        expected = getattr(SPACE, method)(X3, ours) - np.sum(np.log(scale))
        np.testing.assert_allclose(getattr(large, method)(scale * X3, theirs), expected, rtol=1e-12)


# --- terms, combining, samples --------------------------------------------------------------------------------------


def test_terms_do_not_depend_on_the_order_of_features():
    order = [2, 0, 1]
    turned = NormalWishart(SPACE.variance[order], SPACE.prior_variance[order], 4.0, SPACE.prior_mean[order])
    terms = SPACE.log_predictive_terms(X3, SPACE.statistics(X3))
    again = turned.log_predictive_terms(X3[:, order], turned.statistics(X3[:, order]))
    np.testing.assert_allclose(again, terms[:, :, order], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(terms.sum(axis=2), SPACE.log_predictive(X3, SPACE.statistics(X3)), rtol=1e-13)


def test_the_feature_that_is_far_out_has_the_lowest_term():
    family = NormalWishart(1.0, 100.0, 4.0)
    X = np.random.default_rng(0).normal(size=(200, 3))
    table = family.statistics(X).sum(axis=0, keepdims=True)
    terms = family.log_predictive_terms(np.array([[0.0, 8.0, 0.0]]), table)[0, 0]
    assert np.argmin(terms) == 1
    assert terms[1] < np.delete(terms, 1).min() - 5.0


def test_tables_are_added_and_compared_by_their_scatter():
    X = 1e5 + np.random.default_rng(3).normal(size=(40, 3))
    family = NormalWishart([1.0, 2.0, 0.5], [1e10, 2e10, 5e9], 4.0)
    T = family.statistics(X)

    def of(rows):
        table = T[rows].sum(axis=0, keepdims=True)
        about = X[rows] - X[rows].mean(axis=0)
        n, mean, p = len(about), X[rows].mean(axis=0), family.precision
        return {"stats": table, "scatter": fold((about.T @ about + n * p / (p + n) * np.outer(mean, mean))[None])}

    first, second, both = of(slice(0, 15)), of(slice(15, 40)), of(slice(0, 40))
    total = family.add(first, second)
    np.testing.assert_allclose(total["stats"], both["stats"], rtol=1e-13)
    np.testing.assert_allclose(total["scatter"], both["scatter"], rtol=1e-8, atol=1e-6)
    one = (family.log_bayes_factor(first, second) + family.log_bayes_factor(total, second))[0]
    other = (family.log_bayes_factor(second, first) + family.log_bayes_factor(both, second))[0]
    assert one == pytest.approx(other, abs=1e-5)


def test_folding_and_bounding():
    matrices = np.random.default_rng(0).normal(size=(4, 3, 5))
    matrices = matrices @ matrices.transpose(0, 2, 1)
    assert np.array_equal(unfold(fold(matrices), 3), matrices)
    np.testing.assert_array_equal(bounded(matrices), matrices)
    assert np.array_equal(bounded(np.array([[[1.0, 7.0], [7.0, -1e-9]]])), [[[1.0, 0.0], [0.0, 0.0]]])


def test_moments_of_the_samplers():
    """Five standard errors; Σ⁻¹ has a Wishart distribution with ν + 1 degrees of freedom and mean (ν + 1)/ν Ψ₀⁻¹."""
    family, n = NormalWishart([0.5, 4.0], [3.0, 24.0], 6.0, [10.0, -10.0]), 100_000
    parameters = family.sample_parameters(n, 2, seed=0)
    means, F = parameters[:, :2], np.tril(unfold(parameters[:, 2:], 2))
    covariances = F @ F.transpose(0, 2, 1)
    precision = np.linalg.inv(covariances)
    scaled = precision * np.sqrt(np.outer(family.variance, family.variance)) * 6.0
    exact = stats.wishart(7.0, np.eye(2))
    np.testing.assert_allclose(scaled.mean(axis=0), exact.mean(), atol=5 * np.sqrt(np.max(exact.var()) / n))
    np.testing.assert_allclose(scaled.var(axis=0), exact.var(), rtol=0.1)
    for d in range(2):
        ks = stats.kstest(family.variance[d] / covariances[:, d, d], stats.gamma(3.0, scale=1 / 3.0).cdf)
        assert ks.pvalue > 1e-4
    standard = np.linalg.solve(F, (means - family.prior_mean)[:, :, None])[:, :, 0] * np.sqrt(family.precision)
    noise = np.linalg.solve(F, (family.sample(parameters, seed=1) - means)[:, :, None])[:, :, 0]
    for z in (standard, noise):
        assert min(stats.kstest(z[:, d], stats.norm.cdf).pvalue for d in range(2)) > 1e-4
    correlations = np.corrcoef(np.hstack([standard, noise]).T)[np.triu_indices(4, 1)]
    assert np.all(np.abs(correlations) < 5 / np.sqrt(n))


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["variance", "prior_variance", "degrees"])
@pytest.mark.parametrize("value", [np.nan, np.inf, "1", [[1.0, 2.0]], [], True, 1j, 0, -1.0], ids=repr)
def test_bad_hyperparameters(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be a positive finite number"):
        NormalWishart(**{"variance": 1.0, "prior_variance": 1.0, name: value})


def test_means_spread_in_the_shape_of_clusters():
    with pytest.raises(ValueError, match=r"same multiple of variance in every feature, got multiples from 25 to 100"):
        NormalWishart([1.0, 4.0], 100.0)
    with pytest.raises(ValueError, match=r"same multiple of variance"):
        NormalWishart(1.0, [1.0, 2.0])


def test_proposals_have_the_mean_ratio():
    rng = np.random.default_rng(0)
    labels = np.arange(3000) % 40
    X = rng.normal(0.0, [10.0, 4.0, 1.0], (40, 3))[labels] + rng.normal(size=(3000, 3)) * [1.0, 2.0, 0.5]
    (found,) = NormalWishart(degrees=9.0).proposals(X, labels, (1.0,))
    (diagonal,) = NormalGamma(degrees=9.0).proposals(X, labels, (1.0,))
    assert found.degrees == 9.0
    np.testing.assert_array_equal(found.variance, diagonal.variance)
    np.testing.assert_allclose(found.precision, 1 / np.mean(diagonal.prior_variance / diagonal.variance))


def test_data_too_far_from_the_prior_mean_name_the_first_row_and_column():
    X = np.zeros((4, 3))
    X[2, 1] = X[3, 0] = 1e80
    with pytest.raises(ValueError, match=r"row 2, column 1$"):
        NormalWishart(1.0, 1.0).check(X)

"""Counts against quadrature over the Gamma prior, sums over all counts, and mpmath."""

from itertools import product

import mpmath
import numpy as np
import pytest
from scipy import stats

from dyncrp import DynamicalMixture
from dyncrp.families import Poisson
from dyncrp.families.gamma import log_rising
from dyncrp.families.poisson import SHAPES

FAMILIES = [
    Poisson(1.0, 1.0),
    Poisson(2.5, 0.3),
    Poisson([1.5, 2.0, 4.0], 0.8),
    Poisson([1.2, 3.0, 6.0], [0.2, 1.0, 3.0]),
]
X = np.array([[0.0, 3.0, 1.0], [2.0, 0.0, 7.0], [1.0, 5.0, 0.0], [4.0, 2.0, 30.0]])
RESPONSIBILITIES = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.3, 0.0, 0.8, 0.45]])
responsibilities = pytest.mark.parametrize("share", RESPONSIBILITIES, ids=["empty", "whole", "fractional"])


@pytest.fixture(params=FAMILIES, ids=repr)
def family(request):
    return request.param


def prior(family, d):
    return stats.gamma(np.broadcast_to(family.shape, 3)[d], scale=1.0 / np.broadcast_to(family.rate, 3)[d])


PHI, STEP = np.exp(np.linspace(-40.0, 8.0, 4801)), 0.01


def integral(integrand):
    """∫ integrand(φ) dφ over φ > 0, as one over log φ by the trapezoidal rule: the integrand vanishes at both ends."""
    return STEP * np.sum(integrand(PHI) * PHI)


def expectation(family, d, share, function):
    """The posterior mean of function(φ_d) after likelihood^share of each row of X."""

    def posterior(phi):
        return np.exp(prior(family, d).logpdf(phi) + share @ stats.poisson.logpmf(X[:, [d]], phi))

    return integral(lambda phi: posterior(phi) * function(phi)) / integral(posterior)


def test_log_marginal(family):
    exact = sum(
        np.log(integral(lambda phi, d=d: prior(family, d).pdf(phi) * np.prod(stats.poisson.pmf(X[:, [d]], phi), 0)))
        for d in range(3)
    )
    assert family.log_marginal(X) == pytest.approx(exact, abs=1e-8)


@responsibilities
def test_densities_and_centers(family, share):
    table = (share @ family.statistics(X))[None]
    mean = [expectation(family, d, share, lambda phi: phi) for d in range(3)]
    np.testing.assert_allclose(family.centers(table)[0], mean, rtol=1e-8)
    for x in X:
        density, expected = 0.0, 0.0
        for d in range(3):
            density += np.log(expectation(family, d, share, lambda phi, d=d, x=x: stats.poisson.pmf(x[d], phi)))
            expected += expectation(family, d, share, lambda phi, d=d, x=x: stats.poisson.logpmf(x[d], phi))
        assert family.log_predictive(x[None], table)[0, 0] == pytest.approx(density, abs=1e-8)
        assert family.expected_log_likelihood(x[None], table)[0, 0] == pytest.approx(expected, abs=1e-8)


def test_probabilities_of_all_counts_sum_to_one():
    family = Poisson(2.5, 0.3)
    tables = RESPONSIBILITIES @ family.statistics(X[:, :1])
    counts = np.arange(3000.0)[:, None]
    np.testing.assert_allclose(np.exp(family.log_predictive(counts, tables)).sum(axis=0), 1.0, rtol=1e-13)


def test_predictive_is_negative_binomial():
    family, x = Poisson(2.5, 0.3), np.arange(60.0)[:, None]
    exact = stats.nbinom.logpmf(x[:, 0], 2.5, 0.3 / 1.3)
    np.testing.assert_allclose(family.log_predictive(x, np.zeros((1, 2)))[:, 0], exact, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [1.0, 1e3, 1e9])
@pytest.mark.parametrize("count", [1.0, 40.0, 1e6, 1e12])
def test_large_tables_and_counts_lose_no_digits(n, count):
    """Statistics are known to 16 digits, and so is the mean: the density, to about 1e-16 |x − mean|."""
    family = Poisson(0.5, 0.25)
    table = np.array([[n, np.floor(n * count)]])
    for x in (count, np.ceil(count + 3 * np.sqrt(count))):
        with mpmath.workdps(60):
            A, B = mpmath.mpf(0.5) + table[0, 1], mpmath.mpf(0.25) + n
            exact = mpmath.loggamma(A + x) - mpmath.loggamma(A) - mpmath.loggamma(x + mpmath.mpf(1))
            exact += A * mpmath.log(B / (B + 1)) - x * mpmath.log(B + 1)
            rising = mpmath.loggamma(mpmath.mpf(0.5) + table[0, 1]) - mpmath.loggamma(mpmath.mpf(0.5))
        error = 1e-13 + 4e-16 * abs(x - float(A / B))
        assert family.log_predictive(np.array([[x]]), table)[0, 0] == pytest.approx(float(exact), abs=error)
        assert log_rising(0.5, table[0, 1]) == pytest.approx(float(rising), rel=4e-16)


def test_second_moments_of_the_samplers():
    """Five standard errors, from the spread of the squares."""
    family, n = Poisson([0.5, 3.0], [2.0, 0.5]), 100_000
    parameters = family.sample_parameters(n, 2, seed=0)
    squares = (parameters - [0.25, 6.0]) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - [0.125, 12.0]) < 5 * squares.std(axis=0) / np.sqrt(n))
    draws = family.sample(np.tile([0.3, 80.0], (n, 1)), seed=1)
    squares = (draws - [0.3, 80.0]) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - [0.3, 80.0]) < 5 * squares.std(axis=0) / np.sqrt(n))


@pytest.mark.parametrize("name", ["shape", "rate"])
@pytest.mark.parametrize(
    "value", [0, -1.0, np.nan, np.inf, "1", [[1.0]], [], [1.0, 0.0], True, 1e-101, 1e101], ids=repr
)
def test_bad_hyperparameters(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be a positive finite number"):
        Poisson(**{"shape": 1.0, "rate": 1.0, name: value})


@pytest.mark.parametrize("name", ["shape", "rate"])
def test_wrong_width(name):
    family = Poisson(**{"shape": 1.0, "rate": 1.0, name: [1.0, 2.0]})
    with pytest.raises(ValueError, match=f"^{name} has 2 entries, but X has 3 features"):
        family.check(X)


@pytest.mark.parametrize("value", [0.5, -1.0, 1 + 1e-12, 2.0**53 + 2, 1e300, np.inf])
def test_bad_data_name_the_first_row_and_column(value):
    bad = X.copy()
    bad[2, 1] = bad[3, 0] = value
    with pytest.raises(ValueError, match=r"Poisson takes integers from 0 to 2\*\*53, got .*row 2, column 1$"):
        Poisson(1.0, 1.0).check(bad)


def test_counts_pass():
    rows = np.array([[0.0, 1.0, 2.0**53]])
    assert np.array_equal(Poisson(1.0, 1.0).check(rows), rows)


def test_the_most_extreme_hyperparameters_stay_finite():
    rows = np.vstack([X, np.full(3, 2.0**53)])
    for shape, rate in product([1e-100, 1.0, 1e100], repeat=2):
        family = Poisson(shape, rate)
        for table in (np.zeros((1, 4)), family.statistics(rows)):
            assert np.all(np.isfinite(family.log_predictive(rows, table)))
            assert np.all(np.isfinite(family.expected_log_likelihood(rows, table)))
            assert np.all(np.isfinite(family.log_partition(table)))


# What data suggest


def test_proposals_have_the_mean_of_the_data():
    rows = np.random.default_rng(0).poisson([0.1, 5.0, 80.0], (200, 3)).astype(float)
    found = Poisson().proposals(rows)
    assert len(found) == 2 * len(SHAPES)
    common = [family for family in found if np.ndim(family.rate) == 0]
    assert sorted(family.shape for family in common) == sorted(SHAPES)
    for family in found:
        mean = rows.mean() if family in common else (rows.sum(axis=0) + rows.mean()) / 201
        np.testing.assert_allclose(family.shape / family.rate, mean)
    assert Poisson().proposals(rows, np.arange(200) % 5) == []


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
def test_of_the_proposals_the_true_one_has_the_evidence(shape):
    """400 means tell the shape to about 10 %; the grid has factors of 2 and more."""
    truth = Poisson(shape, shape / 12.0)
    labels = np.repeat(np.arange(40), 50)
    rows = truth.sample(truth.sample_parameters(40, 10, seed=0)[labels], seed=1)
    found = [family for family in Poisson().proposals(rows) if np.ndim(family.rate) == 0]
    best = max(found, key=lambda family: sum(family.log_marginal(rows[labels == c]) for c in range(40)))
    assert best.shape == shape
    assert abs(best.shape / best.rate - 12.0) < 5 * np.sqrt(144.0 / shape / 400 + 12.0 / rows.size)


def test_features_that_are_always_0_are_not_taken_to_be_certain():
    for family in Poisson().proposals(np.zeros((20, 3))):
        assert np.all(np.isfinite(family.rate))
        assert np.isfinite(family.log_predictive(np.array([[1.0, 0.0, 9.0]]), np.zeros((1, 4))))


def test_there_is_no_resolution():
    for family in (Poisson(), Poisson(1.0, 1.0)):
        with pytest.raises(ValueError, match="Poisson has no resolution to change"):
            DynamicalMixture(family, resolution=2.0).fit(X)


def test_tables_lie_at_twice_the_roots_of_their_means():
    """There counts of any mean have unit variance, to a part in their mean; five standard errors."""
    family = Poisson(1.0, 0.01)
    rows = family.sample(np.full((20_000, 1), 400.0), seed=0)
    shapes = family.shapes(np.sum(family.statistics(rows), axis=0, keepdims=True), np.zeros((1, 0)))
    assert shapes.centers == pytest.approx(np.array([[40.0]]), abs=0.1)
    assert np.var(2.0 * np.sqrt(rows)) == pytest.approx(1.0, abs=5 * np.sqrt(2 / 20_000) + 1 / 400)
    assert shapes.spread.tolist() == [1.0]
    assert shapes.between.tolist() == [100.0]

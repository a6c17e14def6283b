"""``log_predictive_terms``: what is due to each feature, against formulas written out and against quadrature."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as distributions
from scipy.integrate import quad_vec

from cases import FAMILIES, TWO_DIRECTIONS, TWO_OF_THREE, draw, pairwise
from dyncrp import Bernoulli, Columns, Gaussian, VonMisesFisher
from dyncrp.families.bessel import bessel_ratio, log_normalizer
from dyncrp.families.protocols import feature, log_predictive_terms

EACH = pytest.mark.parametrize("name", FAMILIES)
INDEPENDENT = [name for name, case in FAMILIES.items() if case.family.independent and not name.startswith("columns")]


def tables(family, X):
    """Return the stats of three tables of fractions of the rows, and of an empty one: (4, S)."""
    responsibilities = np.random.default_rng(5).random((3, len(X)))
    return np.vstack([responsibilities @ family.statistics(X), np.zeros((1, family.statistics(X).shape[1]))])


@EACH
@given(seed=st.integers(0, 2**32 - 1))
def test_terms_add_up(name, seed):
    case = FAMILIES[name]
    X, _ = draw(case, n=6, seed=seed)
    stats = tables(case.family, X)
    terms = log_predictive_terms(case.family, X, stats)
    assert terms.shape == (6, 4, case.n_features)
    error = np.abs(np.sum(terms, axis=2) - case.family.log_predictive(X, stats))
    assert np.all(error <= 1e-12 * (1.0 + np.sum(np.abs(terms), axis=2)))


@pytest.mark.parametrize("name", INDEPENDENT)
def test_a_feature_that_changes_moves_its_own_term_only(name):
    case = FAMILIES[name]
    X, _ = draw(case)
    stats, changed = tables(case.family, X), X.copy()
    changed[:, 0] = changed[::-1, 0]
    before, after = (log_predictive_terms(case.family, rows, stats) for rows in (X, changed))
    np.testing.assert_array_equal(before[:, :, 1:], after[:, :, 1:])
    assert np.all((before[:, :, 0] != after[:, :, 0]).any(axis=0))


@pytest.mark.parametrize("name", INDEPENDENT)
def test_the_term_of_an_independent_feature_is_the_density_of_that_feature(name):
    case = FAMILIES[name]
    X, _ = draw(case)
    terms = log_predictive_terms(case.family, X, tables(case.family, X))
    for d in range(case.n_features):
        one = feature(case.family, d)
        expected = one.log_predictive(X[:, [d]], tables(one, X[:, [d]]))
        np.testing.assert_allclose(terms[:, :, d], expected, rtol=1e-12, atol=1e-12)


def test_a_gaussian_written_out():
    X = np.array([[1.0, -2.0], [0.5, 3.0]])
    family = Gaussian([0.5, 2.0], [3.0, 1.0], [4.0, -2.0])
    n, sums = 3.0, np.array([2.0, -1.0])  # about the prior mean
    posterior = 1.0 / (1.0 / np.array([3.0, 1.0]) + n / np.array([0.5, 2.0]))
    mean = np.array([4.0, -2.0]) + posterior * sums / np.array([0.5, 2.0])
    expected = distributions.norm.logpdf(X, mean, np.sqrt(np.array([0.5, 2.0]) + posterior))
    terms = log_predictive_terms(family, X, np.array([[n, *sums]]))
    np.testing.assert_allclose(terms[:, 0], expected, rtol=1e-12)


# --- missing cells --------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1))
def test_a_missing_cell_has_no_term_and_the_others_keep_theirs(seed):
    case = FAMILIES["columns-of-all-kinds"]
    rng = np.random.default_rng(seed)
    X, _ = draw(case, n=8, seed=seed)
    stats = tables(case.family, X)
    missing = rng.random(X.shape) < 0.4
    missing[:, 5], missing[:, 8] = missing[:, 4], missing[:, 7]  # whole parts
    holed = np.where(missing, np.nan, X)
    whole, terms = (log_predictive_terms(case.family, rows, stats) for rows in (X, holed))
    np.testing.assert_allclose(terms, np.where(missing[:, None], 0.0, whole), rtol=1e-11, atol=0.0)
    np.testing.assert_allclose(np.sum(terms, axis=2), case.family.log_predictive(holed, stats), rtol=1e-11, atol=1e-11)


# --- directions -----------------------------------------------------------------------------------------------------


def by_hand(family, x, table):
    """Return the terms of one row at one table, feature by feature and direction by direction."""
    W, inverse = family.directions, np.linalg.pinv(family.directions)
    Q, D = W.shape
    sigma, rho = np.broadcast_to(family.variance, Q), np.broadcast_to(family.prior_variance, Q)
    m0 = np.broadcast_to(family.prior_mean, D)
    v = 1.0 / (1.0 / rho + table[0] / sigma)
    a = v * table[1:] / sigma
    center = m0 + inverse @ a
    rest = (np.eye(D) - inverse @ W) @ (x - m0)
    terms = np.zeros(D)
    for d in range(D):
        for q in range(Q):
            z = W[q] @ (x - m0)
            terms[d] -= 0.5 * (z - a[q]) * W[q, d] * (x[d] - center[d]) / (sigma[q] + v[q])
            terms[d] -= 0.5 * W[q, d] * inverse[d, q] * np.log(2 * np.pi * (sigma[q] + v[q]))
        terms[d] += 0.5 * np.linalg.slogdet(W @ W.T)[1] / D
        if Q < D:
            tau = family.residual_variance
            terms[d] -= 0.5 * (rest[d] ** 2 / tau + (D - Q) / D * np.log(2 * np.pi * tau))
    return terms


@pytest.mark.parametrize("name", ["gaussian-directions", "gaussian-few-directions"])
def test_directions_against_loops(name):
    case = FAMILIES[name]
    X, _ = draw(case, n=6)
    stats = tables(case.family, X)
    expected = [[by_hand(case.family, x, table) for table in stats] for x in X]
    np.testing.assert_allclose(log_predictive_terms(case.family, X, stats), expected, rtol=1e-10, atol=1e-10)


def test_the_squares_of_directions_lead_back_through_the_centre():
    # What the mapping stands on: W (A − m₀) are the coordinates of a table whose centre is A.
    for family in (Gaussian(0.5, 3.0, 1.0, TWO_DIRECTIONS), Gaussian(0.5, 3.0, 1.0, TWO_OF_THREE, 0.4)):
        stats = np.array([[4.0, 1.5, -2.5]])
        at = family.coordinates(family.centers(stats))
        shrink = 3.0 / (0.5 + 4.0 * 3.0)
        np.testing.assert_allclose(at, shrink * stats[:, 1:], rtol=1e-12)


def test_with_a_feature_in_each_direction_they_are_independent():
    variance, prior = np.array([0.5, 2.0, 1.0]), np.array([3.0, 1.0, 7.0])
    plain = Gaussian(variance, prior, [4.0, -2.0, 0.0])
    X, stats = np.array([[1.0, 2.0, 3.0]]), np.array([[3.0, 1.0, -2.0, 0.5], [0.0, 0.0, 0.0, 0.0]])
    order, scale = [2, 0, 1], np.array([3.0, -0.5, 2.0])  # of the rows of W
    W = scale[:, None] * np.eye(3)[order]
    turned = Gaussian(variance[order] * scale**2, prior[order] * scale**2, [4.0, -2.0, 0.0], W)
    turned_stats = np.hstack([stats[:, :1], stats[:, 1:] @ W.T])
    expected = np.diff(log_predictive_terms(plain, X, stats), axis=1)
    np.testing.assert_allclose(np.diff(log_predictive_terms(turned, X, turned_stats), axis=1), expected, rtol=1e-12)


# --- von Mises–Fisher -----------------------------------------------------------------------------------------------


def integrated_gradients(kappa, x, s):
    """Return ∫₀¹ x_d ∂f/∂x_d(q x) dq for each feature by adaptive quadrature, and x_d² log C(κ)."""
    h, D = kappa * s, len(x)

    def slopes(q):
        y = h + kappa * q * x
        length = np.linalg.norm(y)
        return kappa * x * float(bessel_ratio(D, length)) * y / length if length else np.zeros(D)

    closest = float(np.clip(-(x @ h) / kappa, 0.0, 1.0))
    points = [closest + side * 10.0**power for side in (-1, 1) for power in range(-5, 0)]
    terms, _ = quad_vec(slopes, 0.0, 1.0, epsabs=1e-13, epsrel=1e-13, norm="max", points=[closest, *points])
    return terms + x**2 * log_normalizer(D, kappa)


@pytest.mark.parametrize(
    ("D", "kappa", "length", "side"),
    pairwise([2, 3, 20], [1e-3, 2.0, 300.0, 1e4], [0.0, 0.6, 1.0, 1000.0], [-1.0, 0.0, 1.0]),
)
def test_spheres_against_quadrature(D, kappa, length, side):
    rng = np.random.default_rng(D)
    x, other = (vector / np.linalg.norm(vector) for vector in rng.standard_normal((2, D)))
    s = length * (side * x + (0.1 if side else 1.0) * other)  # near x, across it, or near its opposite
    terms = log_predictive_terms(VonMisesFisher(kappa), x[None], np.array([[max(length, 1.0), *s]]))[0, 0]
    scale = 1.0 + kappa
    np.testing.assert_allclose(terms, integrated_gradients(kappa, x, s), rtol=1e-9, atol=1e-12 * scale)


@pytest.mark.parametrize("kappa", [0.0, 1e-6, 1.0, 1e5, 1e9])
@pytest.mark.parametrize("D", [2, 3, 400])
def test_spheres_of_any_concentration_add_up(D, kappa):
    rng = np.random.default_rng(1)
    family = VonMisesFisher(kappa)
    X = rng.standard_normal((4, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    stats = np.vstack([[0.0, *np.zeros(D)], [1.0, *-X[0]], [7.0, *(7.0 * X[1])], [1e6, *(1e5 * X[2])]])
    terms = log_predictive_terms(family, X, stats)
    error = np.abs(np.sum(terms, axis=2) - family.log_predictive(X, stats))
    assert np.all(error <= 1e-13 * (1.0 + kappa + np.sum(np.abs(terms), axis=2)))


# --- families of others ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Silent(Bernoulli):
    """Bernoulli that does not say that its features are independent."""

    independent = property(lambda self: False)


def test_a_family_that_does_not_say_is_refused_unless_it_has_one_feature():
    family = Silent(0.5, 0.7)
    with pytest.raises(ValueError, match=r"Silent does not say how much of log p.*log_predictive_terms.*independent"):
        log_predictive_terms(family, np.zeros((1, 2)), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="Silent does not say"):
        Columns({(0, 1): family, 2: Gaussian(1.0, 2.0)}).log_predictive_terms(np.zeros((1, 3)), np.zeros((1, 6)))
    assert log_predictive_terms(family, np.zeros((1, 1)), np.zeros((1, 2))).shape == (1, 1, 1)

"""Directions against quadrature over the circle and the sphere, and the sampler against its closed forms."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from dyncrp.arrays.checks import BadRow
from dyncrp.families import VonMisesFisher
from dyncrp.families.bessel import bessel_ratio
from dyncrp.families.protocols import SCALES, SHARES

KAPPAS = [0.0, 0.7, 4.0, 25.0]


def circle(n=240):
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return np.column_stack([np.cos(angle), np.sin(angle)]), np.full(n, 2 * np.pi / n)


def sphere():
    """Gauss–Legendre in the height, the trapezoid rule around it: exact for polynomials of degree 119."""
    height, weight = np.polynomial.legendre.leggauss(60)
    around, share = circle(120)
    ring = np.sqrt(1 - height**2)[:, None, None] * around
    points = np.concatenate([ring, np.broadcast_to(height[:, None, None], (*ring.shape[:2], 1))], axis=2)
    return points.reshape(-1, 3), np.outer(weight, share).ravel()


QUADRATURE = {2: circle(), 3: sphere()}
DATA = {
    2: np.array([[1.0, 0.0], [0.6, 0.8], [0.8, -0.6]]),
    3: np.array([[1.0, 0.0, 0.0], [0.6, 0.0, 0.8], [0.36, 0.48, -0.8]]),
}
RESPONSIBILITIES = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.3, 0.0, 0.8]])


@pytest.fixture(params=[2, 3])
def n_features(request):
    return request.param


@pytest.fixture(params=KAPPAS)
def family(request):
    return VonMisesFisher(request.param)


def log_likelihood(family, X, parameters, weights):
    """log p(x | φ), (n, m), its normaliser by quadrature as well."""
    area = weights @ np.exp(family.concentration * (parameters @ parameters[0] - 1.0))
    return family.concentration * (X @ parameters.T - 1.0) - np.log(area)


def test_quadrature_has_the_area_of_the_sphere(n_features):
    assert QUADRATURE[n_features][1].sum() == pytest.approx({2: 2 * np.pi, 3: 4 * np.pi}[n_features])


def test_log_marginal(family, n_features):
    points, weights = QUADRATURE[n_features]
    X = DATA[n_features]
    likelihood = np.exp(log_likelihood(family, X, points, weights).sum(axis=0))
    assert family.log_marginal(X) == pytest.approx(np.log(weights @ likelihood / weights.sum()), abs=1e-11)


def test_log_predictive_and_expected_log_likelihood(family, n_features):
    points, weights = QUADRATURE[n_features]
    X = DATA[n_features]
    tables = RESPONSIBILITIES @ family.statistics(X)
    log_p = log_likelihood(family, X, points, weights)
    posteriors = weights * np.exp(RESPONSIBILITIES @ log_p)
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(family.log_predictive(X, tables), np.log(np.exp(log_p) @ posteriors.T), atol=1e-11)
    np.testing.assert_allclose(family.expected_log_likelihood(X, tables), log_p @ posteriors.T, atol=1e-11)


def test_predictive_integrates_to_one(family, n_features):
    points, weights = QUADRATURE[n_features]
    tables = RESPONSIBILITIES @ family.statistics(DATA[n_features])
    np.testing.assert_allclose(weights @ np.exp(family.log_predictive(points, tables)), 1.0, rtol=1e-11)


def test_centers_are_posterior_mean_directions(n_features):
    family = VonMisesFisher(4.0)
    points, weights = QUADRATURE[n_features]
    X = DATA[n_features]
    posterior = weights * np.exp(RESPONSIBILITIES[2] @ log_likelihood(family, X, points, weights))
    mean = posterior @ points
    center = family.centers((RESPONSIBILITIES[2] @ family.statistics(X))[None])[0]
    np.testing.assert_allclose(center, mean / np.linalg.norm(mean), atol=1e-12)


@pytest.mark.parametrize("n_features", [2, 3, 10, 512])
def test_concentration_zero_is_uniform(n_features):
    family = VonMisesFisher(0.0)
    X = family.sample_parameters(4, n_features, seed=0)
    log_density = gammaln(n_features / 2) - np.log(2) - n_features / 2 * np.log(np.pi)
    for method in (family.log_predictive, family.expected_log_likelihood):
        np.testing.assert_allclose(method(X, family.statistics(X)), log_density, rtol=1e-14)
    assert family.log_marginal(X) == pytest.approx(4 * log_density, rel=1e-14)


def test_centers_of_a_small_share_are_unit_vectors():
    table = 1e-9 * VonMisesFisher(5.0).statistics(DATA[3])
    np.testing.assert_allclose(VonMisesFisher(5.0).centers(table), DATA[3], atol=1e-15)


def test_opposite_observations_leave_no_direction():
    family = VonMisesFisher(5.0)
    table = family.statistics(np.array([[1.0, 0.0], [-1.0, 0.0]])).sum(axis=0, keepdims=True)
    assert family.centers(table).tolist() == [[0.0, 0.0]]
    X = DATA[2]
    assert np.array_equal(family.expected_log_likelihood(X, table), family.expected_log_likelihood(X, 0 * table))


@pytest.mark.parametrize("n_features", [384, 4096])
@pytest.mark.parametrize("kappa", [5.0, 1e3, 1e6])
def test_embedding_dimensions_stay_finite(n_features, kappa):
    family = VonMisesFisher(kappa)
    X = family.sample_parameters(5, n_features, seed=0)
    tables = np.cumsum(family.statistics(X), axis=0)
    predictive, expected = family.log_predictive(X, tables), family.expected_log_likelihood(X, tables)
    assert np.isfinite(predictive).all()
    assert np.all(expected < predictive)


def test_rotating_everything_changes_nothing():
    family = VonMisesFisher(7.0)
    X = family.sample_parameters(6, 5, seed=0)
    rotation = stats.ortho_group.rvs(5, random_state=1)
    rotated = family.log_predictive(X @ rotation, family.statistics(X @ rotation))
    np.testing.assert_allclose(rotated, family.log_predictive(X, family.statistics(X)), atol=1e-12)


# Sampling: seeds are fixed, five standard errors are allowed.

SAMPLED = [(D, kappa) for D in (2, 3, 10, 512) for kappa in (0.0, 1e-6, 1.0, 50.0, 1e6)]


def draw(n_features, kappa, n, seed=0):
    """Return a pole φ, and n draws about it."""
    family = VonMisesFisher(kappa)
    pole = family.sample_parameters(1, n_features, seed=seed)
    return pole[0], family.sample(np.repeat(pole, n, axis=0), seed=seed + 1)


def depth(pole, X):
    """1 − φ·x without cancellation."""
    return 0.5 * np.sum((X - pole) ** 2, axis=1)


@pytest.mark.parametrize(("n_features", "kappa"), SAMPLED)
def test_sampled_cosines(n_features, kappa):
    n = 40_000 if n_features < 100 else 4_000
    pole, X = draw(n_features, kappa, n)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=0, atol=1e-14)
    q = depth(pole, X)
    expected = 1.0 - bessel_ratio(n_features, kappa)
    assert abs(q.mean() - expected) < 5 * q.std() / np.sqrt(n)


@pytest.mark.parametrize(("n_features", "kappa"), [(D, kappa) for D, kappa in SAMPLED if kappa >= 1.0])
def test_spread_of_sampled_cosines(n_features, kappa):
    """Var φ·x = 1 − A² − (D−1) A/κ, here about a mean known exactly."""
    n = 40_000 if n_features < 100 else 4_000
    pole, X = draw(n_features, kappa, n, seed=20)
    if kappa == 1e6:  # the closed form cancels: the depth is then Gamma((D−1)/2)/κ up to 1/κ
        variance = (n_features - 1) / 2 / kappa**2
    else:
        A = bessel_ratio(n_features, kappa)
        variance = 1 - A**2 - (n_features - 1) * A / kappa
    squares = (depth(pole, X) - (1 - bessel_ratio(n_features, kappa))) ** 2
    assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(n) + 1e-3 * variance


@pytest.mark.parametrize("kappa", [0.0, 1e-6, 1.0, 50.0, 1e6])
def test_cosines_on_the_sphere_have_their_closed_form(kappa):
    """D = 3: P(1 − φ·x ≤ q) = (1 − exp(−κq))/(1 − exp(−2κ)), q/2 for κ = 0."""
    pole, X = draw(3, kappa, 20_000)
    q = depth(pole, X)
    assert stats.kstest(np.expm1(-kappa * q) / np.expm1(-2 * kappa) if kappa else q / 2, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("kappa", [1e-6, 1.0, 50.0, 1e6])
def test_angles_on_the_circle_are_von_mises(kappa):
    pole, X = draw(2, kappa, 20_000)
    angle = np.arctan2(X @ [-pole[1], pole[0]], X @ pole)
    assert stats.kstest(angle, stats.vonmises(kappa).cdf).pvalue > 1e-3


@pytest.mark.parametrize("kappa", [0.0, 1.0, 1e6])
def test_directions_across_the_pole_are_uniform_on_the_sphere(kappa):
    pole, X = draw(3, kappa, 20_000)
    first, second = np.linalg.svd(pole[None])[2][1:]
    turn = np.arctan2(X @ first, X @ second) / (2 * np.pi) + 0.5
    assert stats.kstest(turn, "uniform").pvalue > 1e-3
    n = len(X)
    assert abs(np.corrcoef(turn, depth(pole, X))[0, 1]) < 5 / np.sqrt(n)


@pytest.mark.parametrize("kappa", [1.0, 1e6])
def test_directions_across_the_pole_have_no_preference_in_ten_dimensions(kappa):
    """Tangents u are uniform on a sphere in D−1 dimensions: E u = 0, E uuᵀ = I/(D−1)."""
    n, D = 40_000, 10
    pole, X = draw(D, kappa, n)
    basis = np.linalg.svd(pole[None])[2][1:]
    tangent = X @ basis.T
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    products = tangent[:, :, None] * tangent[:, None, :]
    assert np.all(np.abs(tangent.mean(axis=0)) < 5 * tangent.std(axis=0) / np.sqrt(n))
    assert np.all(np.abs(products.mean(axis=0) - np.eye(D - 1) / (D - 1)) < 5 * products.std(axis=0) / np.sqrt(n))


def test_prior_is_uniform_on_the_sphere():
    """By Archimedes, each coordinate of a uniform direction in D = 3 is uniform."""
    parameters = VonMisesFisher(1.0).sample_parameters(20_000, 3, seed=4)
    for coordinate in parameters.T:
        assert stats.kstest(coordinate, stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_each_row_is_drawn_about_its_own_pole():
    poles = VonMisesFisher(1.0).sample_parameters(200, 4, seed=0)
    assert depth(poles, VonMisesFisher(1e6).sample(poles, seed=1)).max() < 1e-4


class FarPole:
    """A generator whose Beta draws all round to 1, as about one in 10⁸ does on the circle."""

    def beta(self, a, b, size):
        return np.ones(size)

    def exponential(self, size):
        return np.full(size, np.inf)


@pytest.mark.parametrize("kappa", [0.0, 1.2, 2.1, 3.8])
def test_a_draw_at_the_far_pole_is_not_beyond_it(kappa):
    assert VonMisesFisher(kappa)._sample_depth(1, 2, FarPole()).max() <= 2.0


# Bad input


@pytest.mark.parametrize("value", [-1, -1e-9, np.nan, np.inf, "1", [1.0], np.ones((2, 2)), False, True, 0j], ids=repr)
def test_bad_concentrations(value):
    with pytest.raises(ValueError, match=r"^concentration must be"):
        VonMisesFisher(value)


@pytest.mark.parametrize("value", [0, 0.0, -0.0, np.float32(0), np.int64(0)], ids=repr)
def test_concentration_may_be_zero(value):
    assert repr(VonMisesFisher(value)) == "VonMisesFisher(concentration=0.0)"


@pytest.mark.parametrize("row", [[0.0, 0.0], [1.0, 0.1], [0.5, 0.5], [0.0, 0.999], [1e200, 0.0]], ids=repr)
def test_rows_off_the_sphere_are_named(row):
    X = np.array([[1.0, 0.0], [0.0, -1.0], row, row])
    with pytest.raises(BadRow, match=r"takes unit vectors .*, got one of length .*, at row 2") as raised:
        VonMisesFisher(1.0).check(X)
    assert (raised.value.row, raised.value.column) == (2, None)


def test_one_feature_is_too_few():
    with pytest.raises(ValueError, match=r"at least 2 features, got 1"):
        VonMisesFisher(1.0).check(np.ones((3, 1)))


def test_rows_of_low_precision_are_scaled_to_unit_length():
    X = VonMisesFisher(1.0).sample_parameters(100, 384, seed=0).astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(VonMisesFisher(1.0).check(X), axis=1), 1.0, rtol=1e-15)


@pytest.mark.parametrize(("kappa", "n"), [(1e6, 1e3), (1e6, 1e5), (1e8, 1e5)])
def test_a_large_table_of_great_concentration_loses_no_digits(kappa, n):
    """In D = 3, log C(κ) = −log 4π − log(sinh κ/κ), and sinh κ is exp(κ)/2 to the last digit here."""
    x = np.array([[0.0, 0.0, 1.0]])
    stats = np.array([[n, 0.0, 0.0, n]])
    expected = -np.log(4 * np.pi) + np.log(2 * kappa) + np.log(n) - np.log(n + 1)
    np.testing.assert_allclose(VonMisesFisher(kappa).log_predictive(x, stats), expected, rtol=1e-13)


# What data suggest


def clusters_of(n_features, kappa, n, n_clusters, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % n_clusters)
    family = VonMisesFisher(kappa)
    return family.sample(family.sample_parameters(n_clusters, n_features, rng)[labels], rng), labels


def concentration_of(square, D):
    """The concentration of rows whose mean has length √square, by the formula of Banerjee et al. (2005)."""
    length = np.sqrt(square)
    return length * (D - square) / (1.0 - square)


@pytest.mark.parametrize(("D", "kappa"), [(2, 20.0), (3, 10.0), (10, 60.0), (100, 40.0), (300, 500.0)])
def test_the_true_labels_give_the_true_concentration(D, kappa):
    """The formula is good to 4 %. With A the length of the mean, a cosine has variance 1 − A² − (D−1) A/κ."""
    n = 4000
    X, labels = clusters_of(D, kappa, n, 20)
    (found,) = VonMisesFisher().proposals(X, labels, (1.0,))
    A = float(bessel_ratio(D, kappa))
    slope = 1.0 - A**2 - (D - 1) * A / kappa  # dA/dκ is the variance of a cosine
    error = 1.0 / np.sqrt(slope * n)  # of the κ of n cosines
    assert abs(found.concentration - kappa) < 0.04 * kappa + 5 * error


def test_concentrations_by_all_pairs_within_clusters():
    X, labels = clusters_of(5, 30.0, 60, 7)
    pairs = [x @ y for i, x in enumerate(X) for j, y in enumerate(X) if i != j and labels[i] == labels[j]]
    expected = [concentration_of(np.mean(pairs), 5) / scale for scale in SCALES]
    found = [family.concentration for family in VonMisesFisher().proposals(X, labels)]
    assert found == pytest.approx(expected)
    assert found == sorted(found)  # those that open few tables first
    (one,) = VonMisesFisher().proposals(X, labels, (1.0,))
    assert one.concentration == pytest.approx(concentration_of(np.mean(pairs), 5))
    assert VonMisesFisher().proposals(X, 3 * labels + 2) == VonMisesFisher().proposals(X, labels)


def test_concentrations_without_labels_lie_between_that_of_all_rows_and_that_of_equal_ones():
    X, _ = clusters_of(5, 30.0, 300, 7)
    spread = 1.0 - np.sum(X.mean(axis=0) ** 2)
    found = [family.concentration for family in VonMisesFisher().proposals(X)]
    assert found == pytest.approx([concentration_of(1.0 - share * spread, 5) for share in SHARES])


def test_a_clustering_without_clusters_suggests_no_concentration():
    X, _ = clusters_of(5, 30.0, 10, 2)
    assert VonMisesFisher().proposals(X, np.arange(10)) == []


def test_sharper_directions():
    assert VonMisesFisher(8.0).sharpen(2.5) == VonMisesFisher(20.0)


@pytest.mark.parametrize("D", [2, 3, 17, 384, 4096])
def test_to_check_twice_is_to_check_once(D):
    X = np.random.default_rng(D).normal(size=(300, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    family = VonMisesFisher(20.0)
    for rows in (X, X * (1.0 + 1e-5), X.astype(np.float32).astype(np.float64)):
        once = family.check(rows)
        assert np.array_equal(family.check(once), once)
        np.testing.assert_allclose(np.linalg.norm(once, axis=1), 1.0, rtol=0, atol=2e-15)

"""The von Mises–Fisher normaliser and the Bessel ratio against mpmath with 40 digits."""

import mpmath
import numpy as np
import pytest
from scipy.special import i0e, i1e

from dyncrp.families.bessel import DEBYE_ORDER, SMALL_Z, bessel_ratio, excess_and_ratio, log_normalizer

# The package promises 1e-9; it reaches 1e-14, and a lost digit is a broken expansion.
TOLERANCE = 1e-13


def mpmath_log_normalizer_and_ratio(n_features, kappa):
    with mpmath.workdps(40):
        nu, kappa = mpmath.mpf(n_features) / 2 - 1, mpmath.mpf(kappa)
        if kappa == 0:
            return mpmath.loggamma(nu + 1) - mpmath.log(2) - (nu + 1) * mpmath.log(mpmath.pi), mpmath.mpf(0)
        bessel, above = (mpmath.besseli(order, kappa, maxterms=10**6) for order in (nu, nu + 1))
        if bessel == 0 or above == 0:  # mpmath rounds I(κ) to 0 for κ = 1e-300: take the first term of its series
            return mpmath_log_normalizer_and_ratio(n_features, 0)[0], kappa / n_features
        return nu * mpmath.log(kappa) - (nu + 1) * mpmath.log(2 * mpmath.pi) - mpmath.log(bessel), above / bessel


def grid():
    return [
        (n_features, kappa)
        for n_features in (2, 3, 4, 10, 50, 384, 768, 4096)
        for kappa in (0.0, 1e-300, 1e-9, 0.1, 5.0, 50.0, 1e3, 1e5, 1e6)
    ]


def seams():
    """Both sides of z = κ/μ = 0.5 and of order 30, where one expansion hands over to another."""
    points = []
    for n_features in (2, 3, 59, 60, 61, 62, 63, 64, 1000):
        nu = n_features / 2 - 1
        mu = nu + max(0, np.ceil(DEBYE_ORDER - nu))
        points += [(n_features, float(SMALL_Z * mu * side)) for side in (1 - 1e-9, 1.0, 1 + 1e-9)]
    return points


def random_points(n=60):
    rng = np.random.default_rng(0)
    dimensions = np.exp(rng.uniform(np.log(2), np.log(4097), n)).astype(int)
    return list(zip(dimensions.tolist(), (10 ** rng.uniform(-4, 6, n)).tolist(), strict=True))


@pytest.mark.parametrize("points", [grid(), seams(), random_points()], ids=["grid", "seams", "random"])
def test_against_mpmath(points):
    for n_features, kappa in points:
        log_C, ratio = mpmath_log_normalizer_and_ratio(n_features, kappa)
        error_C = abs(log_C - float(log_normalizer(n_features, kappa))) / max(1, abs(log_C))
        error_ratio = abs(ratio - float(bessel_ratio(n_features, kappa))) / (ratio or 1)
        assert error_C < TOLERANCE, (n_features, kappa)
        assert error_ratio < TOLERANCE, (n_features, kappa)


def test_one_over_the_ratio_is_the_recurrence_of_orders():
    kappa = np.geomspace(1e-3, 1e6, 40)
    for n_features in (2, 3, 60, 61, 512):
        low, high = bessel_ratio(n_features, kappa), bessel_ratio(n_features + 2, kappa)
        np.testing.assert_allclose(1 / low, n_features / kappa + high, rtol=TOLERANCE)


def test_the_ratio_is_the_slope_of_the_log_normalizer():
    kappa, step = np.array([0.3, 4.0, 40.0, 300.0]), 1e-4
    for n_features in (2, 3, 70, 512):
        slope = (log_normalizer(n_features, kappa - step) - log_normalizer(n_features, kappa + step)) / (2 * step)
        np.testing.assert_allclose(slope, bessel_ratio(n_features, kappa), rtol=0, atol=1e-7)


def test_on_the_circle_against_scipy():
    kappa = np.geomspace(1e-2, 1e4, 50)
    np.testing.assert_allclose(log_normalizer(2, kappa), -np.log(2 * np.pi * i0e(kappa)) - kappa, rtol=TOLERANCE)
    np.testing.assert_allclose(bessel_ratio(2, kappa), i1e(kappa) / i0e(kappa), rtol=TOLERANCE)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_elementwise_in_any_shape(shape):
    kappa = np.linspace(0.0, 90.0, int(np.prod(shape))).reshape(shape)
    excess, ratio = excess_and_ratio(5, kappa)
    assert excess.shape == ratio.shape == log_normalizer(5, kappa).shape == shape
    one_by_one = [float(bessel_ratio(5, k)) for k in kappa.ravel()]
    np.testing.assert_allclose(ratio.ravel(), one_by_one, rtol=1e-15)


def test_concentration_is_not_modified():
    kappa = np.array([0.0, 1.0, 100.0])
    before = kappa.copy()
    kappa.flags.writeable = False
    excess_and_ratio(3, kappa)
    assert np.array_equal(kappa, before)

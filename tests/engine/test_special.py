"""Special functions of compiled code against scipy, against their NumPy twins, and against mpmath."""

import mpmath
import numpy as np
import pytest
import scipy.special

from dyncrp.engine.loop import (
    bessel_excess,
    bessel_ratio,
    digamma,
    log_factorial,
    log_gamma_half,
    log_negative_binomial,
    stirling_remainder,
)
from dyncrp.families import gamma
from dyncrp.families.bessel import DEBYE_ORDER, SMALL_Z, bessel_constants, excess_and_ratio

KAPPAS = [0.0, 1e-300, 1e-9, 1e-3, 0.1, 1.0, 5.0, 14.9, 15.1, 50.0, 500.0, 1e4, 1e6, 1e9]


def test_digamma_against_scipy():
    x = np.concatenate([np.geomspace(1e-12, 1e12, 500), np.arange(1.0, 30.0), [10.0 - 1e-12, 10.0 + 1e-12]])
    expected = scipy.special.digamma(x)
    error = np.abs([digamma(value) for value in x] - expected) / np.maximum(1.0, np.abs(expected))
    assert np.max(error) < 1e-14


@pytest.mark.parametrize("x", [0.0, -0.5, -4.6e18, np.nan])
def test_digamma_of_what_has_none(x):
    assert np.isnan(digamma(x))


def test_digamma_near_its_root():
    root = 1.4616321449683623
    assert abs(digamma(root)) < 1e-14


def test_log_gamma_half_against_its_twin():
    z = np.concatenate([np.geomspace(0.05, 1e100, 300), np.arange(0.5, 20.0, 0.5)])
    expected = gamma.log_gamma_half(z)
    np.testing.assert_allclose([log_gamma_half(value) for value in z], expected, rtol=0, atol=4e-15)


def test_stirling_remainder_against_its_twin():
    z = np.concatenate([np.geomspace(1e-100, 1e100, 300), np.arange(0.5, 20.0, 0.5)])
    np.testing.assert_allclose([stirling_remainder(value) for value in z], gamma.stirling_remainder(z), 1e-15, 1e-14)


def test_log_factorial_against_scipy():
    x = np.concatenate([np.arange(300.0), np.floor(np.geomspace(300.0, 2.0**53, 200))])
    np.testing.assert_allclose([log_factorial(value) for value in x], scipy.special.gammaln(x + 1.0), 4e-15, 1e-15)


def test_log_negative_binomial_against_mpmath():
    """Far from its mean the density is small, and has as many digits; the mean A/B itself is known to 16."""
    rng = np.random.default_rng(0)
    with mpmath.workdps(60):
        for _ in range(300):
            x, A, B = np.ceil(10.0 ** rng.uniform(0, 12)), *10.0 ** rng.uniform([-3, -8], [14, 8])
            a, b = mpmath.mpf(float(A)), mpmath.mpf(float(B))
            exact = mpmath.loggamma(a + x) - mpmath.loggamma(a) - mpmath.loggamma(x + mpmath.mpf(1))
            exact = float(exact + a * mpmath.log(b / (b + 1)) - x * mpmath.log(b + 1))
            error = 1e-14 + 4e-16 * (abs(exact) + abs(x - A / B))
            assert abs(log_negative_binomial(x, A, B) - exact) < 10 * error


@pytest.mark.parametrize("D", [2, 3, 8, 59, 60, 61, 62, 63, 384, 4096])
def test_bessel_functions_against_their_twins(D):
    mu = max(D / 2 - 1, DEBYE_ORDER)
    settings = bessel_constants(D)
    for kappa in [*KAPPAS, *(SMALL_Z * mu * side for side in (1 - 1e-9, 1.0, 1 + 1e-9))]:
        excess, ratio = excess_and_ratio(D, kappa)
        assert bessel_excess(settings, kappa) == pytest.approx(float(excess), rel=1e-13, abs=1e-13)
        assert bessel_ratio(settings, kappa) == pytest.approx(float(ratio), rel=1e-13, abs=1e-300)


@pytest.mark.parametrize(("D", "kappa"), [(2, 0.5), (3, 500.0), (8, 30.0), (70, 5.0), (70, 1e4), (768, 900.0)])
def test_bessel_functions_against_mpmath(D, kappa):
    with mpmath.workdps(40):
        nu = mpmath.mpf(D) / 2 - 1
        bessel, above = (mpmath.besseli(order, kappa, maxterms=10**6) for order in (nu, nu + 1))
        log_F = mpmath.loggamma(nu + 1) + nu * mpmath.log(2 / mpmath.mpf(kappa)) + mpmath.log(bessel)
        excess = float(log_F - kappa)
        ratio = float(above / bessel)
    settings = bessel_constants(D)
    assert bessel_excess(settings, kappa) == pytest.approx(excess, rel=1e-12)
    assert bessel_ratio(settings, kappa) == pytest.approx(ratio, rel=1e-12)

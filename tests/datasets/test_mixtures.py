"""Sampled mixtures: shapes, seeds, and moments within stated standard errors."""

import numpy as np
import pytest

from cases import SEPARATED, UNKNOWN_FAMILIES
from dyncrp import (
    Bernoulli,
    Categorical,
    DynamicalCRP,
    Exponential,
    Gaussian,
    NormalGamma,
    NormalWishart,
    VonMisesFisher,
)
from dyncrp.datasets import sample_mixture

PROCESS = DynamicalCRP(alpha=5.0, dynamics=Exponential(20.0))
GAUSSIAN = SEPARATED["gaussian"].family
every_family = pytest.mark.parametrize("family", [case.family for case in SEPARATED.values()], ids=SEPARATED)


@every_family
@pytest.mark.parametrize("n_features", [2, 5])
def test_shapes(family, n_features):
    if family.width is not None:
        pytest.skip("it has a width of its own")
    X, labels, parameters = sample_mixture(PROCESS, family, np.arange(60), seed=0, n_features=n_features)
    assert X.shape == (60, n_features)
    assert labels.shape == (60,)
    # A mean and a variance, or a factor of a covariance; probabilities of the 32 codes and of the others.
    triangle = n_features * (n_features + 1) // 2
    widths = {NormalGamma: 2 * n_features, NormalWishart: n_features + triangle, Categorical: 33 * n_features}
    assert parameters.shape == (labels.max() + 1, widths.get(type(family), n_features))
    family.check(X)


def test_every_table_is_used_and_tables_count_in_order_of_opening():
    labels = sample_mixture(PROCESS, GAUSSIAN, np.arange(200), seed=1).labels
    _, first = np.unique(labels, return_index=True)
    assert labels[first].tolist() == list(range(labels.max() + 1))
    assert np.all(np.diff(first) > 0)


@every_family
def test_a_seed_is_a_stream(family):
    once, again = (sample_mixture(PROCESS, family, np.arange(50), seed=3) for _ in range(2))
    other = sample_mixture(PROCESS, family, np.arange(50), seed=4)
    generator = sample_mixture(PROCESS, family, np.arange(50), seed=np.random.default_rng(3))
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(once, generator, strict=True))
    assert not np.array_equal(once.observations, other.observations)


def test_a_generator_moves_on():
    rng = np.random.default_rng(0)
    first, second = (sample_mixture(PROCESS, GAUSSIAN, np.arange(50), rng) for _ in range(2))
    assert not np.array_equal(first.observations, second.observations)


def test_the_width_comes_from_the_hyperparameters():
    family = Gaussian([1.0, 2.0, 3.0, 4.0], 100.0)
    assert sample_mixture(PROCESS, family, [0, 1], seed=0).observations.shape == (2, 4)
    assert sample_mixture(PROCESS, GAUSSIAN, [0, 1], seed=0).observations.shape == (2, 2)


@pytest.mark.parametrize("family", UNKNOWN_FAMILIES.values(), ids=UNKNOWN_FAMILIES)
def test_nothing_is_drawn_from_what_is_unknown(family):
    with pytest.raises(ValueError, match=r"has unknown hyperparameters: give them"):
        sample_mixture(PROCESS, family, [0, 1], seed=0)
    with pytest.raises(ValueError, match=r"Exponential\(timescale=None\) has an unknown duration: give it"):
        sample_mixture(DynamicalCRP(1.0, 0.5 * Exponential()), GAUSSIAN, [0, 1], seed=0)


DIRECTED = Gaussian([1.0, 4.0], [100.0, 30.0], 1.0, [[1.0, 0.5, 0.0], [0.0, -1.0, 2.0]], 0.5)


def test_the_width_comes_from_the_directions():
    X, labels, means = sample_mixture(PROCESS, DIRECTED, np.arange(50), seed=0)
    assert X.shape == (50, 3)
    assert means.shape == (labels.max() + 1, 3)


@pytest.mark.parametrize(
    ("family", "n_features"),
    [
        (Gaussian([1.0, 2.0], 100.0), 3),
        (DIRECTED, 2),
        *((GAUSSIAN, n_features) for n_features in (0, 2.0, "2", True, 2j, np.timedelta64(2))),
    ],
)
def test_a_width_that_does_not_fit_is_refused(family, n_features):
    with pytest.raises(ValueError, match="n_features"):
        sample_mixture(PROCESS, family, [0, 1], seed=0, n_features=n_features)


def test_times_running_backwards_are_refused():
    with pytest.raises(ValueError, match=r"times must not run backwards: .*, at row 1"):
        sample_mixture(PROCESS, GAUSSIAN, [1, 0], seed=0)


def test_gaussian_moments():
    family = Gaussian(variance=[1.0, 4.0], prior_variance=[100.0, 9.0], prior_mean=[5.0, -5.0])
    process = DynamicalCRP(alpha=1e3, dynamics=Exponential(100.0))
    X, labels, means = sample_mixture(process, family, np.arange(4000), seed=0)
    K, residual = len(means), X - means[labels]
    assert K > 3000
    # A mean of K draws has standard error ρ/√K, a variance ρ²√(2/K); four of them are hardly ever exceeded.
    assert np.all(np.abs(means.mean(axis=0) - [5, -5]) < 4 * np.sqrt(np.array([100, 9]) / K))
    assert np.all(np.abs(means.var(axis=0) / [100, 9] - 1) < 4 * np.sqrt(2 / K))
    assert np.all(np.abs(residual.mean(axis=0)) < 4 * np.sqrt(np.array([1, 4]) / 4000))
    assert np.all(np.abs(residual.var(axis=0) / [1, 4] - 1) < 4 * np.sqrt(2 / 4000))


def test_covariances_with_directions():
    process = DynamicalCRP(alpha=1e3, dynamics=Exponential(100.0))
    X, labels, means = sample_mixture(process, DIRECTED, np.arange(4000), seed=0)
    # An entry of a covariance of n normals has a standard error of √((Σ_ii Σ_jj + Σ_ij²)/n); five are allowed.
    for rows, expected in [
        (means - 1.0, DIRECTED.between_covariance(3)),
        (X - means[labels], DIRECTED.within_covariance(3)),
    ]:
        spread = np.diag(expected)
        error = np.sqrt((np.outer(spread, spread) + expected**2) / len(rows))
        assert np.all(np.abs(rows.T @ rows / len(rows) - expected) < 5 * error)


def test_bernoulli_frequencies_follow_the_parameters():
    X, labels, p = sample_mixture(DynamicalCRP(3.0), Bernoulli(2.0, 3.0), np.arange(4000), seed=0)
    table = np.argmax(np.bincount(labels))
    n = np.sum(labels == table)
    error = np.sqrt(p[table] * (1 - p[table]) / n)
    assert n > 500
    assert np.all(np.abs(X[labels == table].mean(axis=0) - p[table]) < 4 * error)


def test_directions_lean_towards_their_parameters_by_the_bessel_ratio():
    X, labels, mu = sample_mixture(PROCESS, VonMisesFisher(5.0), np.arange(4000), seed=0, n_features=3)
    cosines = np.sum(X * mu[labels], axis=1)
    expected = 1 / np.tanh(5.0) - 1 / 5.0  # A_3(κ) = coth κ − 1/κ
    assert abs(cosines.mean() - expected) < 4 * cosines.std() / np.sqrt(len(cosines))


@pytest.mark.slow
def test_seats_follow_the_process():
    # P(two customers share a table) = kernel(1) / (alpha + kernel(1)), at every draw.
    process = DynamicalCRP(alpha=1.0, dynamics=Exponential(2.0))
    rng = np.random.default_rng(0)
    together = [np.ptp(sample_mixture(process, GAUSSIAN, [0, 1], rng).labels) == 0 for _ in range(2000)]
    p = np.exp(-0.5) / (1 + np.exp(-0.5))
    assert abs(np.mean(together) - p) < 4 * np.sqrt(p * (1 - p) / 2000)

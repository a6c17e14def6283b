"""scikit-learn's mixture, told what it can be told."""

import numpy as np
import pytest

from dyncrp import DynamicalCRP, Gaussian
from dyncrp.baselines import VariationalMixture, make
from dyncrp.baselines.variational import LEAST_COMPONENTS
from dyncrp.datasets import sample_mixture
from dyncrp.metrics import agreement

FAMILY = Gaussian([1.0, 4.0], 400.0, [100.0, 0.0])
X, TRUTH, _ = sample_mixture(DynamicalCRP(1.0), FAMILY, range(200), seed=1)


def test_is_told_variance_and_means():
    model = VariationalMixture(FAMILY).fit(X)
    mixture = model.mixture_
    np.testing.assert_allclose(mixture.covariances_, 1.0, rtol=0.1)  # in units of σ², for every component
    assert mixture.mean_precision_prior_ == pytest.approx(1.0 / np.mean([400.0, 100.0]))
    assert mixture.weight_concentration_prior_ == 1.0
    full = np.flatnonzero(np.bincount(mixture.predict((X - FAMILY.prior_mean) / np.sqrt(FAMILY.variance))) > 20)
    for c in full:  # a mean is the posterior mean of the model, but for a few rows that two clusters share
        rows = mixture.predict((X - FAMILY.prior_mean) / np.sqrt(FAMILY.variance)) == c
        mean = ((X[rows] - FAMILY.prior_mean) / np.sqrt(FAMILY.variance)).mean(axis=0)
        np.testing.assert_allclose(mixture.means_[c], mean, atol=0.1)
    assert agreement(TRUTH, model.labels_).ami > 0.9


def test_truncation():
    expected = sum(30.0 / (30.0 + n) for n in range(200))
    assert VariationalMixture(FAMILY, 30.0).fit(X).mixture_.n_components == int(np.ceil(2 * expected))
    assert VariationalMixture(FAMILY, 1e-3).fit(X).mixture_.n_components == LEAST_COMPONENTS
    assert VariationalMixture(FAMILY, n_components=4).fit(X).n_clusters_ <= 4
    assert VariationalMixture(FAMILY).fit(X[:3]).mixture_.n_components == 3
    assert VariationalMixture(FAMILY, n_components=9).fit(X[:3]).mixture_.n_components == 3
    assert make("variational", family=FAMILY, n_clusters=7).fit(X).mixture_.n_components == 11
    with pytest.raises(ValueError, match="n_components"):
        VariationalMixture(FAMILY, n_components=0).fit(X)

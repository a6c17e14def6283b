"""Whether rows are a cloud: the densities against numerical integrals, and what is told apart."""

import numpy as np
import pytest
from scipy.integrate import quad, trapezoid
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import DynamicalMixture
from dyncrp.search.cloud import copula, ellipse, kernel


def grid(n, reach):
    at = np.linspace(-reach, reach, n)
    return at, np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("log_density", [copula, ellipse])
def test_densities_are_normalised(log_density):
    fit = np.random.default_rng(0).normal(size=(200, 2)) @ [[1.0, 0.6], [0.0, 0.5]]
    at, points = grid(121, 8.0)
    values = np.exp(log_density(fit, points)).reshape(121, 121)
    assert trapezoid(trapezoid(values, at), at) == pytest.approx(1.0, abs=0.02)


def test_a_kernel_estimate_is_the_derivative_of_its_distribution():
    fit = np.random.default_rng(1).standard_t(3, size=100)
    total, _ = quad(lambda x: np.exp(kernel(fit, np.array([x]))[0][0]), -50.0, 1.3, limit=300)
    low, high = kernel(fit, np.array([-50.0, 1.3]))[1]
    assert total == pytest.approx(high - low, abs=1e-6)


@pytest.mark.parametrize(("D", "seed"), [(2, 0), (2, 1), (5, 0)])
def test_clouds_are_one_cluster(D, seed):
    rng = np.random.default_rng(100 + seed)
    clouds = {
        "uniform": rng.uniform(size=(1000, D)),
        "student": rng.standard_t(2, size=(1000, D)),
        "lognormal": np.exp(rng.normal(size=(1000, D))),
        "gamma": rng.gamma(1.0, size=(1000, D)),
        "gaussian": rng.normal(size=(1000, D)),
    }
    models = {name: DynamicalMixture().fit(X) for name, X in clouds.items()}
    for asked in ({}, {"shape": "any"}):
        assert {name: len(model.clusters(**asked)) for name, model in models.items()} == dict.fromkeys(clouds, 1)


def test_overlapping_clusters_are_no_cloud():
    X, y = make_blobs(1000, centers=4, cluster_std=2.0, random_state=3)
    model = DynamicalMixture().fit(X)
    assert len(model.clusters(shape="any")) == 1  # there is no valley
    assert not model.engine_.model.cloud
    clusters = model.clusters()
    assert len(clusters) in (3, 4, 5)
    assert adjusted_mutual_info_score(y, clusters.labels(model.labels_)) > 0.6


def test_a_file_keeps_that_rows_were_a_cloud(tmp_path):
    model = DynamicalMixture().fit(np.exp(np.random.default_rng(5).normal(size=(1000, 2))))
    assert model.engine_.model.cloud
    model.save(tmp_path / "cloud.npz")
    assert DynamicalMixture.load(tmp_path / "cloud.npz").engine_.model.cloud

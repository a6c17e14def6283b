"""DP-means: the price against the model's own indifference, and the algorithms against their plain twins."""

import numpy as np
import pytest

from dyncrp import Bernoulli, DynamicalCRP, Gaussian, VonMisesFisher
from dyncrp.baselines import DPMeans, OnlineDPMeans
from dyncrp.baselines.dp_means import scale_rows
from dyncrp.datasets import sample_mixture

MODELS = [(Gaussian([1.0, 3.0, 2.0], 30.0, [5.0, 0.0, -2.0]), 2.0), (VonMisesFisher(30.0), 2.0)]


def test_the_price_is_where_the_mixture_is_indifferent():
    D, alpha, sigma, rho = 4, 3.0, 1.5, 4.0
    family = Gaussian(sigma**2, rho**2)
    penalty = sigma**2 * scale_rows(family, alpha, np.zeros((1, D))).penalty
    x = np.full((1, D), np.sqrt(sigma**2 + rho**2))  # as far from the prior mean as a row is on average
    mean = x + np.array([[np.sqrt(penalty), 0.0, 0.0, 0.0]])
    many = 1e14 * family.statistics(mean)  # a table whose mean is known; counted as one customer
    at_table, at_new = family.log_predictive(x, np.vstack([many, 0.0 * many]))[0]
    assert at_table == pytest.approx(np.log(alpha) + at_new, abs=1e-6)


def test_the_price_of_directions_is_where_the_mixture_is_indifferent():
    kappa, alpha = 20.0, 3.0
    family = VonMisesFisher(kappa)
    penalty = scale_rows(family, alpha, np.array([[1.0, 0.0, 0.0]])).penalty / kappa
    cosine = 1.0 - penalty / 2.0
    assert -1.0 < cosine < 1.0
    x = np.array([[cosine, np.sqrt(1.0 - cosine**2), 0.0]])
    many = 1e9 * family.statistics(np.array([[1.0, 0.0, 0.0]]))
    at_table, at_new = family.log_predictive(x, np.vstack([many, 0.0 * many]))[0]
    assert at_table == pytest.approx(np.log(alpha) + at_new, abs=1e-5)


def test_no_price_is_left_when_alpha_is_huge():
    assert DPMeans(Gaussian(1.0, 1.0), alpha=1e6).fit([[0.0], [0.1], [0.1]]).labels_.tolist() == [0, 1, 1]


@pytest.mark.parametrize(("family", "alpha"), MODELS, ids=["Gaussian", "directions"])
def test_the_objective_never_rises_and_ends_where_no_row_would_move(family, alpha):
    X, _, _ = sample_mixture(DynamicalCRP(5.0), family, range(400), seed=0, n_features=3)
    model = DPMeans(family, alpha).fit(X)
    assert len(model.objective_) > 2
    assert np.all(np.diff(model.objective_) <= 1e-9 * model.objective_[0])
    rows, penalty, radius = scale_rows(family, alpha, X)
    centers = np.array([rows[model.labels_ == c].mean(axis=0) for c in range(model.n_clusters_)])
    if radius:
        centers *= radius / np.linalg.norm(centers, axis=1, keepdims=True)
    squares = np.sum((rows[:, None] - centers) ** 2, axis=2)
    np.testing.assert_array_equal(squares.argmin(axis=1), model.labels_)
    assert squares.min(axis=1).max() <= penalty == model.penalty_
    assert model.objective_[-1] == pytest.approx(squares.min(axis=1).sum() + penalty * len(centers))


@pytest.mark.parametrize(("family", "alpha"), MODELS, ids=["Gaussian", "directions"])
def test_online_is_its_plain_twin_however_the_stream_is_cut(family, alpha):
    X, _, _ = sample_mixture(DynamicalCRP(5.0), family, range(200), seed=1, n_features=3)
    rows, penalty, radius = scale_rows(family, alpha, X)
    clusters, expected = [], []
    for x in rows:
        centers = [np.mean(members, axis=0) for members in clusters]
        if radius:
            centers = [radius * center / np.linalg.norm(center) for center in centers]
        squares = [np.sum((x - center) ** 2) for center in centers]
        if not squares or min(squares) > penalty:
            clusters.append([x])
            expected.append(len(clusters) - 1)
        else:
            expected.append(int(np.argmin(squares)))
            clusters[expected[-1]].append(x)
    whole = OnlineDPMeans(family, alpha).fit(X)
    np.testing.assert_array_equal(whole.labels_, expected)
    assert whole.n_clusters_ == len(clusters) > 3
    if radius:
        np.testing.assert_allclose(np.linalg.norm(whole._centers, axis=1), radius)
    cut = OnlineDPMeans(family, alpha)
    parts = [cut.partial_fit(part).labels_ for part in np.split(X, [1, 50, 120])]
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="DP-means needs a Gaussian or VonMisesFisher, got Bernoulli"):
        DPMeans(Bernoulli(1.0, 1.0)).fit([[0.0], [1.0]])

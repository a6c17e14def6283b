"""K-means: the spherical one by its own optimality, the online one by what it promises."""

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans

from dyncrp import DynamicalCRP, VonMisesFisher
from dyncrp.baselines import OfflineKMeans, OnlineKMeans
from dyncrp.datasets import sample_mixture

X, TRUTH, _ = sample_mixture(DynamicalCRP(2.0), VonMisesFisher(200.0), range(300), seed=0, n_features=4)
K = len(np.unique(TRUTH))


def test_spherical_ends_where_no_row_would_move():
    model = OfflineKMeans(K, spherical=True).fit(5.0 * X)  # rows need not have unit length
    np.testing.assert_allclose(np.linalg.norm(model.centers_, axis=1), 1.0)
    np.testing.assert_array_equal(np.argmax(X @ model.centers_.T, axis=1), model.labels_)
    for c in range(K):
        mean = X[model.labels_ == c].mean(axis=0)
        np.testing.assert_allclose(model.centers_[c], mean / np.linalg.norm(mean), atol=1e-12)
    assert model.inertia_ == pytest.approx(np.sum((X - model.centers_[model.labels_]) ** 2))


def test_spherical_takes_the_best_of_its_starts():
    many, one = (OfflineKMeans(K, spherical=True, n_init=n, seed=4).fit(X).inertia_ for n in (10, 1))
    assert many < one  # with this seed, the first start is not the best


def test_online_gives_scikit_learns_labels_batch_by_batch():
    rows = 10.0 * X
    ours = OnlineKMeans(K, batch_size=64, seed=3).fit(rows)
    theirs = MiniBatchKMeans(K, n_init=3, random_state=3)
    expected = [theirs.partial_fit(rows[i : i + 64]).labels_ for i in range(0, 300, 64)]
    np.testing.assert_array_equal(ours.labels_, np.concatenate(expected))
    np.testing.assert_array_equal(ours.partial_fit(rows[:7]).labels_, theirs.partial_fit(rows[:7]).labels_)
    np.testing.assert_array_equal(ours.centers_, theirs.cluster_centers_)


def test_online_begins_with_enough_rows_and_keeps_centres_on_the_sphere():
    model = OnlineKMeans(40, spherical=True, batch_size=10).fit(X)
    assert len(model.labels_) == 300
    np.testing.assert_allclose(np.linalg.norm(model.centers_, axis=1), 1.0)


def test_says_what_is_wrong():
    with pytest.raises(ValueError, match="n_clusters"):
        OfflineKMeans(3).fit([[0.0], [1.0]])
    with pytest.raises(ValueError, match=r"got 0\.0 at row 1"):
        OfflineKMeans(1, spherical=True).fit([[1.0, 0.0], [0.0, 0.0]])

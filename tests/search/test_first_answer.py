"""The first answer, given nothing: clusters that return are recognised, and centres are where the rows are."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import DynamicalMixture, Exponential, Stationary


def visits(seed, n=2000):
    """Rows of clusters eight standard deviations apart that are visited for 25 to 400 rows: rows, clusters, centres."""
    rng = np.random.default_rng(seed)
    K, D = int(rng.integers(3, 7)), int(rng.choice([2, 3, 5, 10]))
    centers = []
    while len(centers) < K:
        center = 12.0 * rng.normal(size=D)
        if all(np.linalg.norm(center - other) >= 8.0 for other in centers):
            centers.append(center)
    labels = []
    while len(labels) < n:
        labels += [int(rng.choice([k for k in range(K) if k not in labels[-1:]]))] * int(rng.integers(25, 401))
    labels = np.array(labels)
    return np.array(centers)[labels] + rng.normal(size=(len(labels), D)), labels, np.array(centers)[np.unique(labels)]


def test_clusters_that_return_are_recognised():
    ratios = []
    for seed in range(1000, 1008):
        X, labels, centers = visits(seed)
        model = DynamicalMixture().fit(X)
        ratios.append(model.n_tables_ / len(centers))
        assert model.dynamics_.lasts
        assert adjusted_mutual_info_score(labels, model.labels_) > 0.98
        assert np.all(model.predict(centers) >= 0)
    assert np.mean(ratios) <= 1.2


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_no_row_of_a_sorted_file_is_disowned(load):
    X = load().data
    assert np.mean(DynamicalMixture().fit(X).predict(X) < 0) <= 0.01


def test_a_file_sorted_by_class_is_not_one_cluster():
    X, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    order = order[np.argsort(classes[order], kind="stable")]
    model = DynamicalMixture().fit(X[order])
    labels = model.clusters().labels(model.labels_)
    assert adjusted_mutual_info_score(classes[order], labels) > 0.7


def test_dynamics_that_forget_everything_must_gain_much():
    X, _, _ = visits(1)
    both = DynamicalMixture(dynamics=[Exponential(), 0.999 * Exponential() + 0.001 * Stationary()]).fit(X)
    assert both.dynamics_.lasts
    assert not DynamicalMixture(dynamics=Exponential()).fit(X).dynamics_.lasts  # as asked for


def test_centres_of_mixed_columns_are_where_the_rows_are():
    data = load_iris(as_frame=True)
    frame = data.data.assign(place=pd.Categorical(np.where(data.target == 0, "north", "south")))
    model = DynamicalMixture().fit(frame)
    numbers, described = frame.columns[:4], model.describe()
    for table in model.table_ids_[described["rows"] >= 30]:
        rows = frame.loc[model.labels_ == table, numbers]
        far = np.abs(described.loc[table, numbers].astype(float) - rows.mean()) / frame[numbers].std()
        assert far.max() < 0.1
        center = pd.Series(model.centers_[model.table_ids_.tolist().index(table)][:4], numbers)
        assert (np.abs(center - rows.mean()) / frame[numbers].std()).max() < 0.3

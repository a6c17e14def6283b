"""Prediction of rows like tables that have not been seen for long."""

import numpy as np
import pytest

from cases import THREE_FEATURES
from dyncrp import DynamicalMixture, Exponential, Gaussian, Multinomial, Oscillatory, Stationary
from dyncrp.engine.recall import answering, predict, recall
from dyncrp.engine.reference import occupancy

VISITS = np.repeat([0.0, 50.0, 100.0, 50.0], 40)[:, None] + np.random.default_rng(0).normal(size=(160, 1))


def visited(dynamics, **options):
    return DynamicalMixture(Gaussian(1.0, 2500.0), dynamics, alpha=1.0, **options).fit(VISITS)


@pytest.mark.parametrize(
    "dynamics", [Exponential(2.0), Oscillatory(16.0), 0.999 * Exponential(2.0) + 0.001 * Stationary()]
)
def test_no_row_that_was_learned_is_disowned(dynamics):
    model = visited(dynamics)
    assert np.array_equal(np.unique(model.predict(VISITS)), np.unique(model.predict([[0.0], [50.0], [100.0]])))
    assert np.all(model.predict(VISITS, np.full(160, 1e6)) >= 0)
    assert model.predict([[25.0], [-50.0]]).tolist() == [-1, -1]


def test_rows_that_would_join_a_table_are_not_asked_again():
    engine = visited(Exponential(20.0)).engine_
    X, times = np.linspace(-30.0, 130.0, 400)[:, None], np.full(400, engine.time)
    plain, found = engine.predict(X, times), predict(engine, X, times)
    assert np.array_equal(found[plain >= 0], plain[plain >= 0])
    assert np.any(found != plain)


def test_each_table_weighs_one():
    awake = recall(visited(Exponential(20.0)).engine_)
    assert occupancy(awake.seating, awake.model.modes).tolist() == [1.0] * awake.n_tables
    assert recall(awake) is None
    assert recall(visited(Stationary()).engine_) is None


@pytest.mark.parametrize("name", THREE_FEATURES)
def test_every_family_recalls(name):
    family = THREE_FEATURES[name]
    X = family.check(family.sample(family.sample_parameters(30, 3, 1), 2))
    model = DynamicalMixture(family, Exponential(1.0), alpha=0.1).fit(X)
    labels = model.predict(X, np.full(30, 1e5))
    assert np.all(labels >= 0)
    assert answering(model.engine_, X[0], 1e5).predict_one(X[0], 1e5)[0] == labels[0]


def test_texts_recall():
    texts = ["red green blue", "cat dog cow", "one two three", "one two four"]
    model = DynamicalMixture(Multinomial(concentration=10.0), Exponential(0.1), alpha=0.1).fit(texts)
    assert model.predict(["blue red", "dog cow"]).tolist() == [0, 1]

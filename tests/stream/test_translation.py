"""A change of encoder: the tables of a model in another space, with their ids."""

import math

import numpy as np
import pandas as pd
import pytest

from dyncrp import (
    Bernoulli,
    Columns,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Multinomial,
    NormalGamma,
    NormalWishart,
    VonMisesFisher,
)

D = 6
FAMILY = Gaussian(1.0, 60.0)


def rows(n, seed=0):
    """Rows of five clusters that are apart, and their clusters."""
    rng = np.random.default_rng(seed)
    centers = 9.0 * np.random.default_rng(99).normal(size=(5, D))
    which = rng.integers(5, size=n)
    return centers[which] + rng.normal(size=(n, D)), which


def rotation():
    return np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0]


def kept(model):
    """The numbers of the examples that a model has."""
    examples = [model.examples(table) for table in model.table_ids_]
    return np.unique(np.concatenate([np.append(one.typical.numbers, one.latest.numbers) for one in examples]))


@pytest.mark.parametrize("memory", [math.inf, 30.0])
def test_a_rotation_of_all_rows_is_the_model_that_was_rotated_from_the_start(memory):
    (X, _), (more, _), turn = rows(300), rows(200, seed=2), rotation()
    settings = {"family": FAMILY, "dynamics": Exponential(40.0), "alpha": 0.5, "memory": memory}
    model = DynamicalMixture(**settings).fit(X)
    rotated = DynamicalMixture(**settings).fit(X @ turn)
    after = model.translate(X, X @ turn, family=FAMILY)
    np.testing.assert_allclose(after.centers_, rotated.centers_, atol=1e-6)
    np.testing.assert_array_equal(after.table_ids_, rotated.table_ids_)
    np.testing.assert_allclose(after.occupancies_, model.occupancies_, rtol=1e-12)
    pd.testing.assert_frame_equal(after.describe(), rotated.describe(), atol=1e-6)
    assert after.clusters().labels(model.table_ids_).tolist() == rotated.clusters().labels(model.table_ids_).tolist()
    np.testing.assert_array_equal(
        after.partial_fit(more @ turn).labels_,
        rotated.partial_fit(more @ turn).labels_,
    )


@pytest.mark.parametrize("family", [None, Gaussian(), NormalGamma(degrees=1.0), NormalWishart(degrees=12.0)])
def test_a_projection_learned_from_kept_examples(family):
    (X, _), (more, _) = rows(400), rows(200, seed=3)
    project = np.random.default_rng(4).normal(size=(D, 3))
    model = DynamicalMixture(FAMILY, n_examples=4).fit(X)
    model.rename(2, "third")
    before = model.to_bytes()
    some = kept(model)
    assert len(some) < 60
    after = model.translate(X[some], X[some] @ project, family=family)
    assert after.n_features_in_ == 3
    assert after.names_ == {2: "third"}
    assert after.describe()["rows"].tolist() == model.describe()["rows"].tolist()
    np.testing.assert_array_equal(after.table_ids_, model.table_ids_)
    assert np.mean(after.predict(more @ project) == model.predict(more)) > 0.97
    assert type(after.family_) is type(FAMILY if family is None else family)
    assert model.to_bytes() == before


def test_ids_that_were_merged_and_files():
    (X, _), (more, _), turn = rows(300), rows(100, seed=5), rotation()
    model = DynamicalMixture(FAMILY, alarm_rate=0.05, n_examples=3, learn_alpha=True).fit(X)
    model.merge(1, 3)
    after = model.translate(X, X @ turn)
    assert after.resolve([3, 1, 0]).tolist() == [1, 1, 0]
    assert after.alpha_ == model.alpha_
    assert after.stream_.n_rows == 300
    again = DynamicalMixture.from_bytes(after.to_bytes())
    np.testing.assert_array_equal(again.partial_fit(more @ turn).labels_, after.partial_fit(more @ turn).labels_)
    assert again.to_bytes() == after.to_bytes()


def test_novelty_in_the_new_space_begins_anew():
    (X, _), (more, _) = rows(300), rows(2, seed=6)
    fresh = DynamicalMixture(FAMILY, alarm_rate=0.05).fit(more[:1])
    model = DynamicalMixture(FAMILY, alarm_rate=0.05).fit(X)
    after = model.translate(X, X[:, :2]).partial_fit(more[:, :2])
    assert after.novelty_p_[0] == fresh.novelty_p_[0] != model.partial_fit(more).novelty_p_[0]


def test_examples_stay_with_their_numbers():
    X, _ = rows(200)
    model = DynamicalMixture(FAMILY, n_examples=2).fit(X)
    some = kept(model)
    after = model.translate(X[some], X[some][:, ::-1])
    for table in model.table_ids_:
        before, now = model.examples(table).latest, after.examples(table).latest
        np.testing.assert_array_equal(now.numbers, before.numbers)
        np.testing.assert_array_equal(now.X, before.X[:, ::-1])
    again = DynamicalMixture.from_bytes(after.to_bytes())
    assert again.examples(table).latest.numbers.tolist() == now.numbers.tolist()


def test_a_kept_example_belongs_to_its_own_table():
    model = DynamicalMixture(Gaussian(1.0, 100.0), n_examples=2)
    model.partial_fit([[0.0], [9.0], [8.5], [0.5]], labels=["left", "right", "left", "left"])
    assert model.predict([[8.5]]).tolist() == [1]
    after = model.translate([[0.0], [9.0], [8.5]], [[0.0], [1.0], [5.0]], family=FAMILY)
    assert after.describe()["x0"].tolist() == pytest.approx([2.5, 1.0])


def test_labels_in_place_of_old_rows():
    X, which = rows(100)
    model = DynamicalMixture(FAMILY).fit(X, labels=[f"c{k}" for k in which])
    Y = -X[:, :2]
    expected = model.translate(X, Y, family=FAMILY)
    for labels in (model.labels_, [f"c{k}" for k in which]):
        assert model.translate(None, Y, labels=labels, family=FAMILY).to_bytes() == expected.to_bytes()
    labels = [None] * 100
    labels[7] = other = (int(model.labels_[7]) + 1) % 5
    moved = model.translate(X, Y, labels=labels, family=FAMILY)
    assert moved.centers_[other] != pytest.approx(expected.centers_[other])


def test_texts_become_vectors():
    texts = ["red green", "blue sky", "green red red", "sky blue blue"]
    model = DynamicalMixture(Multinomial(4.0, 5.0), alpha=0.1).fit(texts, labels=["a", "b", "a", "b"])
    vectors = [[1.0, 0.0], [0.0, 1.0], [0.8, -0.6], [-0.6, 0.8]]
    with pytest.raises(ValueError, match="Multinomial counts words: give another family"):
        model.translate(texts, vectors)
    after = model.translate(texts, vectors, family=VonMisesFisher(), labels=["a", "b", "a", "b"])
    assert after.predict([[1.0, 0.0], [0.0, 1.0]]).tolist() == [0, 1]
    assert after.names_ == {0: "a", 1: "b"}


def test_names_of_columns_and_dates():
    X, _ = rows(60)
    dates = pd.date_range("2026-01-01", periods=60, freq="h")
    model = DynamicalMixture(FAMILY, Exponential(pd.Timedelta(hours=9).to_pytimedelta())).fit(
        pd.DataFrame(X).add_prefix("f"), times=dates
    )
    frame = pd.DataFrame(X[:, :2], columns=["east", "north"])
    after = model.translate(pd.DataFrame(X).add_prefix("f"), frame, family=FAMILY)
    assert list(after.feature_names_in_) == ["east", "north"]
    assert after.describe()["last_seen"].tolist() == model.describe()["last_seen"].tolist()
    assert len(after.partial_fit(frame, times=dates + pd.Timedelta(days=3)).labels_) == 60


def test_tables_without_rows():
    X, which = rows(200)
    model = DynamicalMixture(FAMILY).fit(X)
    some = np.flatnonzero(which != which[0])
    with pytest.raises(ValueError, match="no row belongs to table 0 of 5 tables"):
        model.translate(X[some], X[some])
    after = model.translate(X[some], X[some], unmatched="close")
    assert after.table_ids_.tolist() == [1, 2, 3, 4]
    assert after.partial_fit(X[:1]).labels_.tolist() == [5]  # an id is never used again


def test_the_family_of_the_new_space_is_learned_by_evidence():
    (X, _), scale = rows(300), np.array([0.1, 10.0])
    model = DynamicalMixture(FAMILY).fit(X)
    family = model.translate(X, X[:, :2] * scale).family_
    spread = family.variance if family.directions is None else np.linalg.norm(family.inverse, axis=0) ** 2
    assert spread[1] / spread[0] == pytest.approx(1e4, rel=0.3)
    assert np.mean(model.translate(X, X[:, :2] * scale).predict(X[:, :2] * scale) == model.labels_) > 0.95


@pytest.mark.parametrize(
    ("old", "new", "more", "message"),
    [
        (np.zeros((3, D)), np.zeros((2, 2)), {}, "the same rows in both spaces, got 3 and 2 rows"),
        (np.zeros((2, 5)), np.zeros((2, 2)), {}, "X has 5 features, but DynamicalMixture is expecting 6"),
        (None, np.zeros((2, 2)), {}, "needs the rows in the old space, or labels"),
        (None, [[0.0, math.nan]], {"labels": [0]}, "new must be finite"),
        (None, np.zeros((2, 2)), {"labels": [0, 9]}, "ids of tables are below 5"),
        (None, np.zeros((1, 2)), {"labels": ["nobody"]}, "no table is called 'nobody'"),
        (None, np.zeros((1, 2)), {"labels": [0], "unmatched": "drop"}, r"unmatched must be one of"),
        (None, np.zeros((1, 2)), {"labels": [0]}, "no row belongs to tables 1, 2, 3, 4 of 5 tables"),
        (None, np.zeros((1, 2)), {"labels": [-1], "unmatched": "close"}, "no row belongs to tables 0, 1, 2, 3, 4"),
        (None, np.full((5, 2), 7.0), {"labels": range(5), "family": Bernoulli(1.0, 1.0)}, "Bernoulli"),
        (None, np.zeros((5, 2)), {"labels": range(5), "family": "gaussian"}, "family must be a Family such as"),
        (None, np.zeros((5, 2)), {"labels": range(5), "family": Bernoulli}, r"did you mean Bernoulli\(\)\?"),
    ],
)
def test_bad_input_changes_nothing(old, new, more, message):
    model = DynamicalMixture(FAMILY).fit(rows(60)[0])
    before = model.to_bytes()
    with pytest.raises(ValueError, match=message):
        model.translate(old, new, **more)
    assert model.to_bytes() == before


def test_a_family_without_a_default_and_a_model_that_still_learns():
    model = DynamicalMixture(Columns({0: Gaussian(1.0, 9.0), 1: Bernoulli(1.0, 1.0)})).fit([[0.0, 1.0], [9.0, 0.0]])
    with pytest.raises(ValueError, match="give the family of the new space: Columns has no default"):
        model.translate([[0.0, 1.0], [9.0, 0.0]], [[0.0], [1.0]])
    with pytest.raises(ValueError, match="call learn_unknown first"):
        DynamicalMixture().partial_fit([[0.0], [1.0]]).translate([[0.0]], [[1.0]])

"""Weights of rows in estimators and streams: what they mean, what is refused, and that cuts change nothing."""

import numpy as np
import pandas as pd
import pytest

from dyncrp import (
    Bernoulli,
    Categorical,
    Columns,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Multinomial,
    NormalGamma,
    NormalWishart,
    Poisson,
    Stationary,
    VonMisesFisher,
)
from dyncrp.input.weights import as_weights
from dyncrp.search.alpha import AlphaPosterior

GAUSSIAN = Gaussian(1.0, 100.0)


def rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = 9.0 * rng.integers(0, 4, (n, 1)) + rng.normal(size=(n, 2))
    weights = np.append(2.0, rng.choice([0.0, 0.25, 1.0, 3.0], n - 1))
    return X, np.cumsum(rng.exponential(1.0, n)), weights


def same(one, other):
    return one.to_bytes() == other.to_bytes()


def test_weights_of_1_are_no_weights():
    X, times, _ = rows()
    for given in (np.ones(120), [1] * 120, pd.Series(np.ones(120)), np.ones(120, dtype=bool)):
        plain, weighed = (DynamicalMixture(GAUSSIAN, Exponential(50.0), n_examples=2) for _ in range(2))
        assert same(plain.fit(X, times=times), weighed.fit(X, times=times, sample_weight=given))


def test_an_integer_weight_is_that_many_equal_rows():
    X, times, _ = rows()
    weights = np.random.default_rng(1).integers(1, 5, 120)
    at = np.repeat(np.arange(120), weights)
    far = Gaussian(0.1, 1e4)  # its clusters are so far apart that no row is shared
    one = DynamicalMixture(far, Exponential(50.0)).fit(X * 100.0, times=times, sample_weight=weights)
    other = DynamicalMixture(far, Exponential(50.0)).fit(X[at] * 100.0, times=times[at])
    assert one.labels_[at].tolist() == other.labels_.tolist()
    np.testing.assert_allclose(one.occupancies_, other.occupancies_, rtol=1e-12)
    np.testing.assert_allclose(one.centers_, other.centers_, rtol=1e-12)
    assert one.clusters()["rows"].sum() == 120  # rows are counted as rows


MODELS = {
    "known": {"family": GAUSSIAN, "dynamics": Exponential(50.0), "n_examples": 2, "alarm_rate": 0.01},
    "learns-alpha": {"family": GAUSSIAN, "dynamics": Exponential(50.0), "learn_alpha": True, "memory": 30.0},
    "warms-up": {"family": Gaussian(), "warmup": 100},
    "still-warms-up": {"family": Gaussian(), "warmup": 1000, "dynamics": Stationary()},
    "columns": {"family": Columns({0: GAUSSIAN, 1: NormalGamma(1.0, 100.0, 4.0)}), "max_tables": 3},
}


@pytest.mark.parametrize("name", MODELS)
def test_cuts_and_files_change_nothing(name):
    X, times, weights = rows()
    if name == "columns":
        X[::7, 1] = np.nan
    labels = ["left" if i % 10 == 3 else None for i in range(120)]
    whole = DynamicalMixture(**MODELS[name]).partial_fit(X, times=times, sample_weight=weights, labels=labels)
    pieces = DynamicalMixture(**MODELS[name])
    for begin, end in ((0, 1), (1, 7), (7, 8), (8, 101), (101, 120)):
        some = slice(begin, end)
        pieces.partial_fit(X[some], times=times[some], sample_weight=weights[some], labels=labels[some])
        pieces = DynamicalMixture.from_bytes(pieces.to_bytes())
    assert same(whole, pieces)
    assert np.any(whole.labels_ < 0) or whole.n_tables_ < 4


def test_rows_of_weight_0_get_labels_and_nothing_else():
    X, times, weights = rows()
    learns = weights > 0
    one, other = (
        DynamicalMixture(GAUSSIAN, Exponential(50.0), n_examples=2).fit(
            X[some], times=times[some], sample_weight=weights[some]
        )
        for some in (np.full(120, True), learns)
    )
    assert one.labels_[learns].tolist() == other.labels_.tolist()
    np.testing.assert_allclose(one.centers_, other.centers_, rtol=1e-12)
    assert one.clusters()["rows"].tolist() == other.clusters()["rows"].tolist()
    kept = one.examples(0).latest.numbers
    assert np.all(learns[kept])
    again = DynamicalMixture(GAUSSIAN).fit([[0.0, 0.0]])
    again.partial_fit([[0.1, 0.0], [70.0, 0.0]], sample_weight=[0, 0])
    assert again.labels_.tolist() == [0, -1]
    assert again.novelty_[1] > again.novelty_[0]
    assert [event.kind for event in again.events_] == []
    assert again.n_tables_ == 1
    assert again.stream_.batch.trace.probability.round(3).tolist() == [1.0, 1.0]


def test_a_search_does_not_see_rows_of_weight_0():
    X, times, weights = rows(60)
    X[weights == 0.0] += 1000.0 * np.random.default_rng(3).normal(size=(int(np.sum(weights == 0.0)), 2))
    learns = weights > 0
    one = DynamicalMixture(warmup=60).fit(X, times=times, sample_weight=weights)
    other = DynamicalMixture(warmup=60).fit(X[learns], times=times[learns])
    assert repr(one.family_) == repr(other.family_)
    assert (one.dynamics_, one.alpha_) == (other.dynamics_, other.alpha_)


def test_a_name_opens_a_table_with_its_first_row_that_has_a_weight():
    model = DynamicalMixture(GAUSSIAN).fit([[0.0]])
    model.partial_fit([[0.1], [0.2], [0.3]], labels=["b", "b", "b"], sample_weight=[0, 2, 0])
    assert model.labels_.tolist() == [-1, 1, 1]
    assert model.names_ == {1: "b"}


@pytest.mark.parametrize("step", [1.0, 0.4])
def test_the_posterior_of_alpha_counts_weights(step):
    modes = (step * Exponential(7.0)).modes()
    times, weights = np.array([0.0, 1.0, 1.5, 4.0]), np.array([3, 1, 0, 2])
    one, other, none = (AlphaPosterior(1.0, modes) for _ in range(3))
    one.update(times, weights.astype(float))
    other.update(np.repeat(times, weights))
    none.update(np.repeat(times, weights), np.ones(6))
    assert one.mean(2) == pytest.approx(other.mean(2), rel=1e-12)
    assert none.mean(2) == other.mean(2)


def test_documents_have_weights_in_steps():
    texts = ["storm hits the coast", "polls open in the city", "storm off the coast", "polls close in the city"]
    family = Multinomial(3.0)
    one = DynamicalMixture(family, Stationary(), alpha=0.3).fit(texts, sample_weight=[3, 1, 0.3, 1e-9])
    table = one.engine_.word_counts(0)
    words = dict(zip([one.vocabulary_.words[c] for c in table.columns], table.counts.tolist(), strict=True))
    assert words["storm"] == 3 + round(0.3 * 1024) / 1024
    again = DynamicalMixture.from_bytes(one.to_bytes())
    assert same(
        one.partial_fit(texts[:2], sample_weight=[0.5, 2]), again.partial_fit(texts[:2], sample_weight=[0.5, 2])
    )
    assert as_weights([0.0, 1e-9, 2.0], 3, words=True).tolist() == [0.0, 1 / 1024, 2.0]


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([1.0, -1.0], r"from 0 to 1e\+09, got -1.0, at row 1"),
        ([1.0, np.nan], "got nan, at row 1"),
        ([1.0, np.inf], "got inf, at row 1"),
        ([1.0, 2e9], "got 2000000000.0, at row 1"),
        ([1.0, "heavy"], "got 'heavy', at row 1"),
        ([1.0, None], "got None, at row 1"),
        ([1.0, 10**400], r"from 0 to 1e\+09, got 1000.*, at row 1"),
        ([[1.0], [1.0]], r"a number for each of the 2 rows, got shape \(2, 1\)"),
        ([1.0], r"a number for each of the 2 rows, got shape \(1,\)"),
        (3.0, r"a number for each of the 2 rows, got shape \(\)"),
    ],
)
def test_bad_weights_change_nothing(weights, match):
    model = DynamicalMixture(GAUSSIAN).fit([[0.0], [9.0]])
    before = model.to_bytes()
    with pytest.raises(ValueError, match=match):
        model.partial_fit([[0.0], [1.0]], sample_weight=weights)
    assert model.to_bytes() == before


@pytest.mark.parametrize("options", [{}, {"keep_clusters": True, "surge_rate": 0.001, "alarm_rate": 0.01}])
def test_rows_before_the_first_that_has_a_weight_are_unlike_all(options):
    X = np.linspace(0.0, 1.0, 40)[:, None]
    model = DynamicalMixture(GAUSSIAN, **options).partial_fit(X[:20], sample_weight=np.zeros(20))
    assert model.labels_.tolist() == [-1] * 20
    assert (model.n_tables_, model.n_clusters_, len(model.describe())) == (0, 0, 0)
    assert model.predict(X[:2]).tolist() == model.predict_clusters(X[:2]).tolist() == [-1, -1]
    np.testing.assert_array_equal(model.predict_proba(X[:2]), np.ones((2, 1)))
    assert np.isfinite(model.fill([[np.nan]])).all()
    again = DynamicalMixture.from_bytes(model.to_bytes())
    for one in (model, again):
        one.partial_fit(X[20:])
    assert model.labels_.tolist() == [0] * 20
    assert model.to_bytes() == again.to_bytes()
    assert model.describe().loc[0, "rows"] == 20


COUNTS = np.random.default_rng(5).integers(0, 4, (24, 2)).astype(float)
NUMBERS = np.random.default_rng(6).uniform(0.5, 2.0, (24, 2))
UNKNOWN = {
    "nothing given": (None, NUMBERS),
    "NormalGamma": (NormalGamma(), NUMBERS),
    "NormalWishart": (NormalWishart(), NUMBERS),
    "Poisson": (Poisson(), COUNTS),
    "Bernoulli": (Bernoulli(), COUNTS > 1),
    "Categorical": (Categorical(), COUNTS),
    "VonMisesFisher": (VonMisesFisher(), NUMBERS / np.linalg.norm(NUMBERS, axis=1, keepdims=True)),
    "Multinomial": (Multinomial(), ["storm hits the coast", "polls open", "storm off the coast"] * 8),
    "missing cells": (None, np.where(NUMBERS > 1.8, np.nan, NUMBERS)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_warm_up_may_begin_with_rows_without_a_weight(name):
    family, X = UNKNOWN[name]
    weights = np.repeat([0.0, 1.0], [9, 15])
    whole = DynamicalMixture(family, warmup=20).partial_fit(X, sample_weight=weights)
    pieces = DynamicalMixture(family, warmup=20)
    for begin, end in ((0, 1), (1, 7), (7, 11), (11, 24)):
        pieces.partial_fit(X[begin:end], sample_weight=weights[begin:end])
        if end < 9:
            assert pieces.labels_.tolist() == [-1] * (end - begin)
        pieces = DynamicalMixture.from_bytes(pieces.to_bytes())
    assert same(whole, pieces)
    assert whole.labels_[:9].tolist() == [-1] * 9
    # those that have no weight did not count
    assert whole.learned_
    assert repr(whole.family_) == repr(DynamicalMixture(family, warmup=11).fit(X[9:20]).family_)


@pytest.mark.parametrize("zeros", [np.zeros(3), [0, 0, 0], np.zeros(3, dtype=bool)])
def test_fit_needs_a_weight(zeros):
    model = DynamicalMixture(GAUSSIAN).fit([[0.0]])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="sample_weight must have a number above 0, got 3 zeros"):
        model.fit(np.ones((3, 1)), sample_weight=zeros)
    assert model.to_bytes() == before
    model.fit(np.ones((3, 1)), sample_weight=[0, 0, 1])


def test_a_row_without_a_weight_may_be_like_no_table():
    """It has no responsibility then; the rows about it keep theirs."""
    model = DynamicalMixture(GAUSSIAN, Stationary(), 1.0)
    model.fit([[-900.0], [0.0], [900.0], [500.0], [500.1], [-900.0]], sample_weight=[0, 1, 0, 1, 1, 0])
    assert model.labels_.tolist() == [-1, 0, -1, 1, 1, -1]
    np.testing.assert_allclose(model.stream_.batch.trace.probability, 1.0, atol=1e-6)
    assert [(event.row, event.kind, event.table) for event in model.events_] == [(1, "opened", 0), (3, "opened", 1)]


def test_weights_of_the_caller_are_not_kept():
    X, _, weights = rows(40)
    one, other = DynamicalMixture(Gaussian(), warmup=50), DynamicalMixture(Gaussian(), warmup=50)
    mine = weights.copy()
    one.partial_fit(X, sample_weight=mine)
    other.partial_fit(X, sample_weight=weights)
    mine[:] = 7.0
    assert same(one.partial_fit(X), other.partial_fit(X))


@pytest.mark.parametrize("least", [5e-324, 1e-310])
@pytest.mark.parametrize("family", [GAUSSIAN, NormalGamma(1.0, 100.0), Poisson(1.0, 0.1)])
def test_tables_of_the_least_weights_are_tables(family, least):
    """Their means do not get lost in the smallest floats, nor do they join others for a gain that is infinite."""
    X = np.repeat([[0.0], [40.0], [99.0]], 20, axis=0)
    model = DynamicalMixture(family, alpha=1.0, keep_clusters=True)
    model.fit(X, labels=[str(x) for x in X[:, 0]], sample_weight=np.where(X[:, 0] == 40.0, least, 1.0))
    assert model.table_ids_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(model.describe()["x0"], [0.0, 40.0, 99.0], rtol=1e-9)
    assert np.all(np.isfinite(model.clusters().tree))

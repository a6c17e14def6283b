"""Trials in C++ beside engines that learn the same rows, and agreement of labellings beside scikit-learn's."""

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, mutual_info_score

from dyncrp import Bernoulli, Exponential, Gaussian, Stationary
from dyncrp.engine import Model, ReferenceEngine, loop, make_engine, native, trials
from dyncrp.families.protocols import settings
from dyncrp.search.reproducibility import split


@pytest.fixture(params=["C++", "reference"])
def without_code(request, monkeypatch):
    """Once as it is, and once as for a family that only the reference knows."""
    if request.param == "reference":
        monkeypatch.setattr(trials, "has_code_for", lambda family: False)
        monkeypatch.setattr(trials, "make_engine", ReferenceEngine)


def stream(n=350, D=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(6.0 * rng.normal(size=(8, D))[rng.integers(8, size=n)])
    return X, np.cumsum(rng.exponential(size=n))


MODELS = [
    Model(Gaussian(1.0, 36.0), Stationary(), 1.0),
    Model(Gaussian([0.5, 1.0, 2.0], 36.0), 0.9 * Exponential(20.0) + 0.1 * Stationary(), 3.0),
    Model(Gaussian(1.0, 36.0), Exponential(9.0), 3.0, memory=20.0),
]


@pytest.mark.usefixtures("without_code")
@pytest.mark.parametrize("model", MODELS, ids=["round", "sticky", "forgetful"])
def test_a_trial_is_what_an_engine_does(model):
    X, times = stream()
    engine = make_engine(model, 3)
    labels = engine.run(X, times).labels
    trial = trials.try_out(model, X, times)
    assert trial.labels.tolist() == labels.tolist()
    assert trial.n_tables == engine.n_tables
    assert trial.log_evidence == pytest.approx(engine.log_evidence, rel=1e-12)


@pytest.mark.usefixtures("without_code")
def test_a_trial_with_too_many_tables_is_given_up_after_some_rows():
    X, times = stream()
    model = Model(Gaussian(0.01, 36.0), Stationary(), 1.0)
    engine = make_engine(model, 3)
    labels = engine.run(X[:200], times[:200]).labels
    n_tables = engine.n_tables
    assert np.max(labels[:100]) + 1 < 90 < n_tables  # at the first look it was still within bounds
    given_up = trials.try_out(model, X, times, 90)
    assert given_up.labels.tolist() == labels.tolist()
    assert given_up.n_tables == n_tables
    just_enough = trials.try_out(model, X, times, n_tables)  # is not too many yet
    assert len(just_enough.labels) == 300
    assert just_enough.n_tables > n_tables


@pytest.mark.parametrize("n", [80, 81])
@pytest.mark.parametrize("family", [Gaussian(0.5, 36.0), Gaussian([0.1, 1.0, 3.0], 9.0)], ids=["round", "diagonal"])
def test_reproducibility_is_what_engines_find_one_by_one(family, n):
    halves = split(stream(n)[0])
    model = Model(family, Stationary(), 2.0)
    agreement = []
    for i, half in enumerate(halves):
        mine, other = ReferenceEngine(model, 3), ReferenceEngine(model, 3)
        labels = mine.run(half, np.arange(float(len(half)))).labels
        other.run(halves[i ^ 1], np.arange(float(len(halves[i ^ 1]))))
        agreement.append(adjusted_mutual_info_score(labels, other.predict(half, np.full(len(half), other.time))))
    assert np.ptp(agreement) > 0.01
    assert trials.reproducibility(model, halves) == pytest.approx(np.mean(agreement), abs=1e-12)


@pytest.mark.usefixtures("without_code")
def test_halves_of_one_cluster_by_both_labellings_say_nothing():
    model = Model(Gaussian(1.0, 36.0), Stationary(), 1e-6)
    one = list(np.random.default_rng(0).normal(size=(4, 40, 2)))
    assert np.isnan(trials.reproducibility(model, one))
    wide = Model(Gaussian(9.0, 36.0), Stationary(), 0.3)  # by which some rows of other halves change sides
    other = split(stream(160, D=2)[0])[:2]
    alone = trials.reproducibility(wide, other)
    assert 0.0 < alone < 1.0
    assert trials.reproducibility(wide, [*one, *other]) == pytest.approx(alone, abs=1e-12)


def test_reproducibility_without_code(monkeypatch):
    halves = split((stream(60)[0] > 0).astype(float))
    model = Model(Bernoulli(0.5, 0.5), Stationary(), 1.0)
    expected = trials.reproducibility(model, halves)
    monkeypatch.setattr(trials, "has_code_for", lambda family: False)
    assert trials.reproducibility(model, halves) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("width", "n_times"), [(2, 4), (3, 5)])
def test_trials_refuse_what_does_not_fit(width, n_times):
    recipe, model = loop.Recipe(*settings(Gaussian(1.0, 4.0), 3)), MODELS[0]
    told = native.modes_of(model), native.rules_of(model)
    with pytest.raises(ValueError, match="number of features" if width == 2 else "a time for every row"):
        recipe.try_out(*told, np.zeros((4, width)), np.zeros(n_times), most_tables=9, rows_per_look=100)


@pytest.mark.parametrize("n_labels", [1, 2, 7, 60, 200])
@pytest.mark.parametrize("noise", [0.0, 0.4, 1.0])
def test_agreement_is_scikit_learns(n_labels, noise):
    rng = np.random.default_rng(n_labels)
    left = rng.integers(n_labels, size=200)
    right = np.where(rng.random(200) < noise, rng.integers(5, size=200), left) - 3
    expected = adjusted_mutual_info_score(left, right)
    assert loop.adjusted_mutual_information(left, right) == pytest.approx(expected, abs=1e-12)


def test_agreement_of_many_rows():
    """Where the probability of most overlaps is too small for a float."""
    rng = np.random.default_rng(0)
    left = rng.integers(2, size=20_000)
    right = np.where(rng.random(20_000) < 0.5, left, rng.integers(3, size=20_000))
    expected = adjusted_mutual_info_score(left, right)
    assert loop.adjusted_mutual_information(left, right) == pytest.approx(expected, abs=1e-9)


def test_the_expected_agreement_is_the_mean_over_all_labellings():
    left, right = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 2, 2])
    expected = np.mean([mutual_info_score(left, order) for order in permutations(right)])
    entropies = mutual_info_score(left, left) + mutual_info_score(right, right)
    adjusted = (mutual_info_score(left, right) - expected) / (entropies / 2 - expected)
    assert loop.adjusted_mutual_information(left, right) == pytest.approx(adjusted, abs=1e-13)


@pytest.mark.parametrize("left", [[0, 0, 0], [0, 1, 2], [4, 4, -1]])
def test_a_partition_agrees_with_itself(left):
    left = np.array(left)
    assert loop.adjusted_mutual_information(left, 7 - left) == 1.0


def test_agreement_needs_labels_of_the_same_rows():
    with pytest.raises(ValueError, match="the same rows"):
        loop.adjusted_mutual_information(np.zeros(2, dtype=np.int64), np.zeros(3, dtype=np.int64))

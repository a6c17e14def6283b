"""The river adapter: the same model as the estimator, behind dictionaries that come one at a time."""

import copy
import datetime as dt
import pickle
import random
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

pytest.importorskip("river")

from river import checks, compose, evaluate, metrics, preprocessing, stream
from river.checks import common

from dyncrp import (
    BadRow,
    Bernoulli,
    Exponential,
    Gaussian,
    Multinomial,
    NormalGamma,
    Poisson,
    Stationary,
    VonMisesFisher,
)
from dyncrp import DynamicalMixture as Mixture
from dyncrp.engine import ReferenceEngine
from dyncrp.river import MOST_ROWS_WAITING, DynamicalMixture
from dyncrp.search import search
from dyncrp.stream import Stream

PLAIN = Gaussian(variance=1.0, prior_variance=100.0)
NAMES = ("a", "b", "c", "d")


def blobs(n, D=4, seed=0, spread=10.0):
    """Return rows (n, D) of four clusters that lie far apart, and which each is of."""
    rng = np.random.default_rng(seed)
    means = spread * rng.standard_normal((4, D))
    truth = rng.integers(4, size=n)
    return means[truth] + rng.standard_normal((n, D)), truth


def dicts(X, names=NAMES):
    return [dict(zip(names, row, strict=False)) for row in np.asarray(X).tolist()]


def learned(model, rows, **keywords):
    for x in rows:
        model.learn_one(x, **keywords)
    return model


def same(left, right):
    """Whether two estimators are in the same state, to the bit."""
    ours, theirs = left.engine_.arrays(), right.engine_.arrays()
    assert set(ours) == set(theirs)
    return all(np.array_equal(ours[name], theirs[name]) for name in ours)


# river's checks


@pytest.fixture(autouse=True)
def _seeded():
    random.seed(0)  # river's checks shuffle


MODELS = {
    "known": DynamicalMixture(PLAIN, Exponential(50.0)),
    "unknown": DynamicalMixture(dynamics=Stationary(), warmup=50),
    "features": DynamicalMixture(Gaussian([1.0, 1.0, 2.0, 2.0], 100.0), features=list(NAMES)),
}
# river feeds none of its checks to clusterers that need data, for want of a data set: here is one.
FED = (
    common.check_learn_one,
    common.check_pickling,
    common.check_shuffle_features_no_impact,
    common.check_emerging_features,
    common.check_disappearing_features,
    common.check_radically_disappearing_features,
    common.check_no_state_aliasing_with_input,
    common.check_clone_is_independent,
    common.check_bounded_memory_growth,
)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_river_finds_nothing_to_complain_of(model):
    assert len(list(checks.yield_checks(model))) >= 14
    checks.check_estimator(model)


@pytest.mark.parametrize("check", FED, ids=lambda check: check.__name__)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_river_checks_that_need_a_stream(model, check):
    X, truth = blobs(300)
    check(model.clone(), dataset=list(zip(dicts(X), truth.tolist(), strict=True)))


# The same as the estimator


@pytest.mark.parametrize("family", [PLAIN, NormalGamma(1.0, 100.0)], ids=lambda f: type(f).__name__)
def test_learning_is_that_of_the_estimator_to_the_bit(family):
    X, _ = blobs(2 * MOST_ROWS_WAITING + 100)
    model = learned(DynamicalMixture(family, Exponential(50.0)), dicts(X))
    expected = Mixture(family, Exponential(50.0)).partial_fit(X)
    assert same(model.mixture, expected)
    assert model.n_tables == expected.n_tables_
    assert model.occupancies == dict(enumerate(expected.occupancies_))
    assert model.centers == dict(enumerate(dicts(expected.centers_)))


@pytest.mark.parametrize("asks", [0, 7])
@pytest.mark.parametrize("params", [{"family": Gaussian(1.0, 100.0)}, {"family": Gaussian(), "warmup": 40}], ids=str)
def test_weights_are_those_of_the_estimator(params, asks):
    X, _ = blobs(90)
    weights = np.append(2.0, np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], 89))
    model, estimator = DynamicalMixture(**params), Mixture(**params)
    for i, (x, w) in enumerate(zip(dicts(X), weights.tolist(), strict=True)):
        if w == 1.0 and i % 2:
            model.learn_one(x)
        else:
            model.learn_one(x, w=w)
        if asks and i % asks == 0:
            model.predict_one(x)
    model.learn_unknown()
    estimator.partial_fit(X, sample_weight=weights).learn_unknown()
    assert model.mixture.to_bytes() == estimator.to_bytes()


@pytest.mark.parametrize(
    "family", [Gaussian(1.0, 100.0), NormalGamma(1.0, 100.0), Bernoulli(0.5, 0.5), Poisson(1.0, 0.1)]
)
def test_features_may_come_while_no_table_is_open(family):
    """A first row of weight 0 opens none."""
    model = DynamicalMixture(family)
    model.learn_one({"a": 1.0}, w=0.0)
    model.learn_one({"a": 1.0, "b": 0.0})
    model.learn_one({"a": 1.0, "b": 0.0, "c": 1.0})
    estimator = Mixture(family).partial_fit(
        [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]], sample_weight=[0, 1, 1]
    )
    assert list(model.occupancies.values()) == estimator.occupancies_.tolist()
    np.testing.assert_allclose([list(center.values()) for center in model.centers.values()], estimator.centers_)


def test_bad_weights_are_refused_by_their_own_call():
    model = DynamicalMixture(Gaussian(1.0, 100.0))
    model.learn_one({"a": 1.0}, w=0.0)
    assert (model.n_tables, model.predict_one({"a": 1.0}), model.occupancies) == (0, -1, {})
    model.learn_one({"a": 1.0})
    for bad in (-1.0, float("nan"), "2", 1e10):
        with pytest.raises(ValueError, match="must be numbers from 0 to"):
            model.learn_one({"a": 1.0}, w=bad)
    model.learn_one({"a": 1.0}, w=2.5)
    assert model.occupancies == {0: 3.5}
    words = DynamicalMixture(Multinomial(5.0), Stationary(), 0.1)
    words.learn_one({"storm": 1, "coast": 2})
    words.learn_one({"storm": 2}, w=0.5)
    assert words.occupancies == {0: 1.5}
    assert words.centers == {0: {"storm": 0.5, "coast": 0.5}}


def test_asking_in_between_changes_nothing_and_gets_the_estimators_answers():
    X, _ = blobs(60)
    model, expected = DynamicalMixture(PLAIN), Mixture(PLAIN)
    for i, x in enumerate(dicts(X)):
        if i > 0 and i % 7 != 3:  # one row waits, sometimes two
            assert model.predict_one(x) == expected.predict(X[i : i + 1])[0]
            assert list(model.predict_proba_one(x)) == [*range(expected.n_tables_), -1]
            assert list(model.predict_proba_one(x).values()) == expected.predict_proba(X[i : i + 1])[0].tolist()
            assert model.score_one(x) == -expected.score_samples(X[i : i + 1])[0]
        assert model.learn_one(x) is None
        expected.partial_fit(X[i : i + 1])
    assert same(model.mixture, expected)


def test_alpha_goes_on_learning():
    X, _ = blobs(250)
    model = learned(DynamicalMixture(PLAIN, learn_alpha=True), dicts(X))
    expected = Mixture(PLAIN, learn_alpha=True).fit(X).alpha_
    assert model.mixture.alpha_ == expected != 1.0
    asked = DynamicalMixture(PLAIN, learn_alpha=True)
    for x in dicts(X):
        asked.learn_one(x)
        asked.predict_one(x)
    assert asked.mixture.alpha_ == expected


def test_tables_close_and_keep_their_ids():
    X, _ = blobs(200)
    limits = {"max_tables": 3, "prune_below": 1e-3}
    model = learned(DynamicalMixture(PLAIN, Exponential(20.0), **limits), dicts(X))
    expected = Mixture(PLAIN, Exponential(20.0), **limits).fit(X)
    assert model.n_tables == 3
    assert list(model.centers) == expected.table_ids_.tolist() != [0, 1, 2]
    assert list(model.predict_proba_one(dicts(X)[0])) == [*expected.table_ids_, -1]
    assert [model.predict_one(x) for x in dicts(X)] == expected.predict(X).tolist()
    learned(model, dicts(np.column_stack([X, X[:, 0]]), (*NAMES, "e")))  # a wider engine knows the ids too
    assert model.n_tables == 3
    assert min(model.centers) > max(expected.table_ids_)


def test_the_resolution_is_that_of_the_estimator():
    X, _ = blobs(100, spread=2.0)
    model = learned(DynamicalMixture(PLAIN, resolution=4.0), dicts(X))
    assert same(model.mixture, Mixture(PLAIN, resolution=4.0).fit(X))
    with pytest.raises(ValueError, match="concentration must be at most"):
        DynamicalMixture(VonMisesFisher(1e9), resolution=2.0)


def test_before_anything_is_learned_there_are_no_tables():
    model = DynamicalMixture(PLAIN)
    x = {"a": 1.0}
    assert (model.predict_one(x), model.predict_proba_one(x), model.score_one(x)) == (-1, {-1: 1.0}, 0.0)
    assert (model.n_tables, model.centers, model.occupancies, model.feature_names) == (0, {}, {}, ())


@pytest.mark.parametrize("n", [3, 100])
def test_rows_that_an_interruption_kept_waiting_are_learned_later(monkeypatch, n):
    X, _ = blobs(200)
    model = learned(DynamicalMixture(PLAIN), dicts(X[:50]))
    assert model.n_tables > 1
    owner = Stream if n > 3 else type(model.mixture.engine_)
    learned(model, dicts(X[50 : 50 + n]))
    plain = owner.learn if n > 3 else owner.run_one

    def interrupted(self, rows, *arguments, **keywords):
        plain(self, rows[:40] if n > 3 else rows, *arguments, **keywords)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, plain.__name__, interrupted)
        with pytest.raises(KeyboardInterrupt):
            _ = model.n_tables
    learned(model, dicts(X[50 + n :]))
    assert same(model.mixture, Mixture(PLAIN).fit(X))


def test_an_error_of_the_model_is_not_taken_for_one_of_the_row(monkeypatch):
    X, _ = blobs(MOST_ROWS_WAITING)
    model = learned(DynamicalMixture(PLAIN), dicts(X[:-1]))

    def broken(*arguments, **keywords):
        raise TypeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(Stream, "learn", broken)
        with pytest.raises(TypeError, match="broken"):
            model.learn_one(dicts(X)[-1])
    assert same(model.mixture, Mixture(PLAIN).fit(X))


@pytest.mark.parametrize(("D", "most"), [(2, 4096), (30_000, 5)])
def test_few_rows_wait(D, most):
    model = learned(DynamicalMixture(PLAIN), 3 * most * [dict.fromkeys(range(D), 1.0)])
    assert model._stream.engine.n_observations == 3 * most


# Features


def test_an_absent_feature_is_zero_and_order_does_not_matter():
    X, _ = blobs(40)
    X[::3, 1] = 0.0
    model = DynamicalMixture(PLAIN)
    for i, x in enumerate(dicts(X)):
        if i % 3 == 0 and i > 0:
            del x["b"]
        model.learn_one(dict(reversed(x.items())) if i % 2 else x)
    assert model.feature_names == NAMES
    assert same(model.mixture, Mixture(PLAIN).fit(X))
    assert model.predict_one({}) == model.predict_one(dict.fromkeys(NAMES, 0.0))


def far_apart(family, n, seed=0):
    """Return rows of 3 features of clusters so far apart that each row is wholly its own table's, and one to append."""
    rng = np.random.default_rng(seed)
    truth = np.append([0, 1, 2, 3, 4], rng.integers(5, size=n - 5))
    if isinstance(family, Bernoulli):
        return np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1]], dtype=float)[truth], 1.0
    if isinstance(family, Poisson):
        return np.array([[0, 0, 0], [0, 0, 900], [0, 900, 0], [900, 0, 0], [900, 900, 900]], dtype=float)[truth], 0.0
    if isinstance(family, VonMisesFisher):
        return np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0], [0, -1, 0]], dtype=float)[truth], 0.0
    return 1000.0 * rng.standard_normal((5, 3))[truth] + rng.standard_normal((n, 3)), 2.0


FAMILIES = {
    "Gaussian": Gaussian(1.0, 1e6),
    "Gaussian about 3": Gaussian(4.0, 1e6, prior_mean=3.0),
    "NormalGamma": NormalGamma(1.0, 1e6),
    "NormalGamma about 3": NormalGamma(4.0, 1e6, prior_mean=3.0),
    "Bernoulli": Bernoulli(1e-30, 1e-30),
    "Poisson": Poisson(1.0, 0.001),
    "VonMisesFisher": VonMisesFisher(1e5),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_feature_that_comes_later_was_zero_before(name):
    family = FAMILIES[name]
    X, later = far_apart(family, 60)
    padded = np.column_stack([X, np.zeros(60), np.zeros(60)])
    after = padded[20:50].copy()
    after[:, 3] = later
    model = learned(DynamicalMixture(family), dicts(X))
    learned(model, dicts(after, (*NAMES, "e")))
    expected = Mixture(family).fit(padded)
    ours, theirs = model.mixture.engine_.state, expected.partial_fit(after).engine_.state
    assert model.feature_names == (*NAMES, "e")
    assert ours.ids.tolist() == theirs.ids.tolist()
    close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
    compare = close if "about" in name else np.testing.assert_array_equal
    compare(ours.stats, theirs.stats)
    close(model.mixture.centers_, expected.centers_)
    assert [model.predict_one(x) for x in dicts(after, (*NAMES, "e"))] == expected.predict(after).tolist()


def test_rows_that_wait_are_learned_with_the_features_of_their_time():
    X, _ = blobs(60, spread=2.0)
    waited, asked = DynamicalMixture(PLAIN), DynamicalMixture(PLAIN)
    for model in (waited, asked):
        learned(model, dicts(X[:30, :3]))
        if model is asked:
            assert model.n_tables > 1
        learned(model, dicts(X[30:]))
    assert same(waited.mixture, asked.mixture)


@pytest.mark.parametrize("name", FAMILIES)
def test_widening_the_fast_engine_is_widening_the_reference(name):
    family = FAMILIES[name]
    X, _ = far_apart(family, 40)
    expected = Mixture(family).fit(X)
    reference = ReferenceEngine(expected.engine_.model, 3)
    reference.run(X, np.arange(40.0))
    assert not isinstance(expected.engine_, ReferenceEngine)
    wide, reference = expected.engine_.widen(5), reference.widen(5)
    np.testing.assert_allclose(wide.state.stats, reference.state.stats, rtol=1e-9, atol=1e-9)
    more = np.column_stack([X, np.zeros((40, 2))])
    times = np.arange(40.0, 80.0)
    np.testing.assert_allclose(wide.log_density(more, times), reference.log_density(more, times), rtol=1e-9)
    np.testing.assert_array_equal(wide.run(more, times).labels, reference.run(more, times).labels)
    assert expected.engine_.n_features == 3  # the old one is as it was


def test_a_row_is_judged_by_the_features_it_brings_and_the_model_stays_as_it_was():
    model = learned(DynamicalMixture(PLAIN), [{"a": 0.0}, {"a": 20.0}, {"a": 0.5}])
    before = pickle.dumps(model)
    assert model.predict_one({"a": 0.0}) == 0
    assert model.predict_one({"a": 0.0, "new": 0.1}) == 0
    assert model.predict_one({"a": 0.0, "new": 30.0}) == -1
    assert model.score_one({"a": 0.0, "new": 30.0}) > model.score_one({"a": 0.0, "new": 0.1}) + 8.0
    assert pickle.dumps(model) == before
    model.learn_one({"a": 0.0, "new": 30.0})
    assert model.n_tables == 3


def test_features_that_are_given_are_all_there_are():
    family = Gaussian([1.0, 4.0], [100.0, 400.0])
    X, _ = blobs(50, D=3)
    model = learned(DynamicalMixture(family, features=["b", "a"]), dicts(X, ("a", "b", "ignored")))
    assert model.feature_names == ("b", "a")
    assert same(model.mixture, Mixture(family).fit(X[:, [1, 0]]))


@pytest.mark.slow
def test_features_after_the_warm_up_are_ignored_with_one_warning():
    X, _ = blobs(120)
    model = DynamicalMixture(warmup=50)
    learned(model, dicts(X[:20, :2]))
    learned(model, dicts(X[20:50, :3]))
    with pytest.warns(UserWarning, match="feature 'd' came after the features were fixed") as record:
        model.learn_one(dicts(X)[50])
    learned(model, dicts(X[51:]))  # another warning would be an error
    model.predict_one({"e": 1.0})
    assert record[0].filename == __file__
    assert model.feature_names == ("a", "b", "c")
    X[:20, 2] = np.nan
    assert same(model.mixture, Mixture(warmup=50).fit(X[:, :3]))


@pytest.mark.parametrize("widens", [True, False])
def test_a_family_of_ones_own_checks_rows_and_says_whether_it_widens(widens):
    class Mine(Gaussian):
        can_widen = widens

        def check(self, X):
            if np.any(X == 5.0):
                raise BadRow("Mine takes no fives", 0, int(np.argmax(X[0] == 5.0)))
            return X

    model = learned(DynamicalMixture(Mine(1.0, 100.0)), [{"a": 0.0}, {"a": 9.0}])
    with nullcontext() if widens else pytest.warns(UserWarning, match="'b'"):
        model.learn_one({"a": 0.1, "b": 50.0})
    with pytest.raises(ValueError, match=r"^Mine takes no fives for feature 'a'$"):
        model.learn_one({"a": 5.0})
    rows = np.array([[0.0, 0.0], [9.0, 0.0], [0.1, 50.0]])
    D = 2 if widens else 1
    assert model.feature_names == ("a", "b")[:D]
    expected = Mixture(Mine(1.0, 100.0)).fit(rows[:, :D])
    for a in (0.2, 8.8, 90.0):
        assert model.predict_one({"a": a}) == expected.predict([[a, 0.0][:D]])[0]
        assert widens or model.score_one({"a": a}) == -expected.score_samples([[a]])[0]


# Bad input


BAD = {
    "nan": ({"a": float("nan"), "b": 1.0}, "feature 'a' must be a finite number, got nan"),
    "inf": ({"a": 1.0, "b": float("inf")}, "feature 'b' must be a finite number, got inf"),
    "inf that cancels": ({"a": float("-inf"), "b": float("inf")}, "feature 'a'"),
    "text": ({"a": "1.0", "b": 1.0}, "feature 'a' must be a finite number, got '1.0'"),
    "nothing": ({"a": None, "b": 1.0}, "feature 'a'"),
    "complex": ({"a": 1j, "b": 1.0}, "feature 'a'"),
    "too large": ({"a": 0.0, "b": 10**400}, "feature 'b'"),
    "too far": ({"a": 0.0, "b": 1e200}, r"X must lie within 1e\+140 of the prior mean, got 1e\+200 for feature 'b'"),
    "too far, cancelling": ({"a": -1e200, "b": 1e200}, "feature 'a'"),
    "bad and new": ({"a": 0.0, "b": 0.0, "c": float("nan")}, "feature 'c'"),
    "bad and absent": ({"b": float("nan")}, "feature 'b'"),
}


@pytest.mark.parametrize(("x", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("n", [0, 1, 3, MOST_ROWS_WAITING - 1])
def test_a_bad_value_is_refused_by_its_own_call_and_changes_nothing(x, message, n):
    X, _ = blobs(MOST_ROWS_WAITING + 10, D=2)
    model = learned(DynamicalMixture(PLAIN), dicts(X[:n]))
    for method in (model.learn_one, model.predict_one, model.predict_proba_one, model.score_one):
        with pytest.raises(ValueError, match=message):
            method(x)
    learned(model, dicts(X[n:]))
    assert same(model.mixture, Mixture(PLAIN).fit(X))
    assert model.feature_names == ("a", "b")


@pytest.mark.parametrize(
    ("family", "x", "message"),
    [
        (Bernoulli(1.0, 1.0), {"a": 0, "b": 0.5}, "Bernoulli takes 0 and 1 only, got 0.5 for feature 'b'$"),
        (VonMisesFisher(10.0), {"a": 0.9, "b": 0.0}, "takes unit vectors .*, got one of length 0.9$"),
        (VonMisesFisher(10.0), {"a": 1.0006, "b": 0.0}, "takes unit vectors"),
    ],
)
def test_a_family_may_refuse_a_row(family, x, message):
    model = learned(DynamicalMixture(family), [{"a": 1, "b": 0}, {"a": True, "b": False}])
    with pytest.raises(ValueError, match=message):
        model.learn_one(x)
    assert same(model.mixture, Mixture(family).fit([[1.0, 0.0], [1.0, 0.0]]))


def test_a_lone_direction_and_an_empty_row_are_refused():
    with pytest.raises(ValueError, match="at least 2 features"):
        DynamicalMixture(VonMisesFisher(10.0)).learn_one({"a": 1.0})
    with pytest.raises(ValueError, match="at least one feature"):
        DynamicalMixture(PLAIN).learn_one({})


def test_rows_near_the_edges_of_what_is_looked_at_quickly_are_learned():
    family = VonMisesFisher(10.0)
    X = np.array([[1.0, 0.0], [1.00049, 0.0], [0.0, 0.99951]])
    assert same(learned(DynamicalMixture(family), dicts(X)).mixture, Mixture(family).fit(X))
    asked = DynamicalMixture(family)
    for x, row in zip(dicts(X), X, strict=True):
        asked.learn_one(x)
        assert asked.score_one(x) == -asked.mixture.score_samples([row])[0]
    assert same(asked.mixture, Mixture(family).fit(X))
    for family in (PLAIN, Gaussian(1.0, 100.0, prior_mean=1e200)):
        X = np.array([[1e31, 0.0], [-1e100, 3.0]]) + family.prior_mean
        assert same(learned(DynamicalMixture(family), dicts(X)).mixture, Mixture(family).fit(X))


def test_a_row_of_zeros_may_lie_too_far_from_the_prior_mean():
    model = learned(DynamicalMixture(Gaussian(1.0, 100.0, prior_mean=1e200)), [{"a": 1e200}, {"a": 1e200}])
    with pytest.raises(ValueError, match=r"got 0\.0 for feature 'a'"):
        model.learn_one({"a": 0.0})


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"family": Gaussian([1.0, 2.0], 9.0)}, "hyperparameters for 2 features: give their names"),
        ({"family": Gaussian([1.0, 2.0], 9.0), "features": ["a"]}, "for 2 features, and features names 1"),
        ({"features": []}, "features must be different names"),
        ({"features": ["a", "a"]}, "features must be different names"),
        ({"features": ["a", "t"], "time_key": "t"}, "time_key not among them"),
        ({"alpha": -1.0}, "alpha"),
        ({"warmup": 1}, "warmup"),
        ({"family": "Gaussian"}, "family must be a Family"),
        ({"family": Gaussian}, r"family must be a Family .*; did you mean Gaussian\(\)\?"),
    ],
)
def test_bad_parameters_are_refused_at_once(keywords, message):
    with pytest.raises(ValueError, match=message):
        DynamicalMixture(**keywords)


# Time

HOURS = [dt.datetime(2024, 3, 1) + i * dt.timedelta(hours=i % 5, microseconds=i) for i in range(60)]
HOURS.sort()


def test_times_are_those_of_the_estimator():
    X, _ = blobs(60)
    times = np.sort(np.random.default_rng(1).uniform(0.0, 100.0, size=60))
    kinds = (PLAIN, Exponential(5.0))
    expected = Mixture(*kinds).fit(X, times=times)
    by_key = DynamicalMixture(*kinds, time_key="t")
    by_argument = DynamicalMixture(*kinds)
    for x, t in zip(dicts(X), times, strict=True):
        stamped = {"t": t, **x}
        by_key.learn_one(stamped)
        assert by_key.predict_one(stamped) >= 0
        assert stamped == {"t": t, **x}
        by_argument.learn_one(x, t=float(t))
    assert same(by_key.mixture, expected)
    assert same(by_argument.mixture, expected)
    assert by_key.feature_names == NAMES
    x = dicts(X)[0]
    for model in (by_key, by_argument):
        assert model.score_one(x) == -expected.score_samples(X[:1])[0]  # now
    assert by_key.score_one(x | {"t": 150}) == -expected.score_samples(X[:1], [150])[0] > by_key.score_one(x)
    assert by_argument.predict_proba_one(x, t=150)[-1] == expected.predict_proba(X[:1], [150])[0, -1]
    assert by_argument.predict_one(x, t=1e9) == expected.predict(X[:1], [1e9])[0] == expected.labels_[0]
    with pytest.raises(ValueError, match="times must not run backwards: 3 is earlier"):
        by_argument.predict_one(x, t=3)


def _stamps(kind):
    pandas = pytest.importorskip("pandas")
    zone = dt.timezone(dt.timedelta(hours=5))
    return {
        "naive": HOURS,
        "aware": [hour.replace(tzinfo=dt.UTC).astimezone(zone) for hour in HOURS],
        "pandas": [pandas.Timestamp(hour) for hour in HOURS],
        "pandas aware": [pandas.Timestamp(hour, tz="Europe/Berlin") for hour in HOURS],
        "datetime64": [np.datetime64(hour) for hour in HOURS],
        "days": [dt.date(2024, 1, 1) + dt.timedelta(days=i // 2) for i in range(60)],
    }[kind]


@pytest.mark.parametrize("kind", ["naive", "aware", "pandas", "pandas aware", "datetime64", "days"])
def test_dates_are_those_of_the_estimator(kind):
    X, _ = blobs(60)
    stamps = _stamps(kind)
    kinds = (PLAIN, Exponential(dt.timedelta(hours=6)))
    model = DynamicalMixture(*kinds, time_key="at")
    for i, (x, stamp) in enumerate(zip(dicts(X), stamps, strict=True)):
        model.learn_one(x | {"at": stamp})
        if i % 10 == 0:
            assert model.predict_one(x | {"at": stamp}) >= 0
    assert same(model.mixture, Mixture(*kinds).fit(X, times=stamps))
    with pytest.raises(ValueError, match=r"times must not run backwards: .* is earlier than .*2024"):
        model.learn_one(dicts(X)[0] | {"at": stamps[3]})


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (1.0, 0.5, "times must not run backwards: 0.5 is earlier than 1.0, the latest time of the stream"),
        (1.0, None, "this call's times are the index of arrival, earlier ones were numbers"),
        (None, 1.0, "this call's times are numbers, earlier ones were the index of arrival"),
        (1.0, HOURS[0], "this call's times are dates, earlier ones were numbers"),
        (HOURS[0], 1.0, "this call's times are numbers, earlier ones were dates"),
        (HOURS[0], None, "this call's times are the index of arrival, earlier ones were dates"),
        (
            HOURS[0],
            dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))),
            "the time must lie in the years 1 to 9999 of UTC",
        ),
        (1.0, float("nan"), "time must be a finite number, within ±1e\\+150, or a date, got nan"),
        (1.0, 1e200, "time must be a finite number"),
        (1.0, "2024-03-01", "time must be a finite number"),
        (HOURS[0], np.datetime64("NaT"), "NaT"),
        (HOURS[0], np.datetime64(2**60, "s"), "30 million years"),
        (HOURS[0], np.datetime64(10**13, "s"), "285,000 years"),
    ],
)
@pytest.mark.parametrize("keywords", [{}, {"features": NAMES}], ids=["features found", "features given"])
def test_a_bad_time_is_refused_and_changes_nothing(first, then, message, keywords):
    x = dict.fromkeys(NAMES, 1.0)
    model = learned(DynamicalMixture(PLAIN, **keywords), [x, x], t=first)
    before = pickle.dumps(model)
    for row in (x, x | {"new": 1.0}):
        with pytest.raises(ValueError, match=message):
            model.learn_one(row, t=then)
        if then is not None:  # without a time, a question is about now
            with pytest.raises(ValueError, match=message):
                model.score_one(row, t=then)
    assert pickle.dumps(model) == before
    model.learn_one(x, t=first)
    assert model.mixture.n_observations_ == 3


def test_a_time_key_wants_its_time_in_x_and_nowhere_else():
    model = DynamicalMixture(PLAIN, time_key="t")
    with pytest.raises(ValueError, match="x must hold its time as 't', got the keys \\['a'\\]"):
        model.learn_one({"a": 1.0})
    with pytest.raises(ValueError, match="t must be left out, got 3"):
        model.learn_one({"a": 1.0, "t": 3}, t=3)
    with pytest.raises(ValueError, match="at least one feature"):
        model.learn_one({"t": 3})


# The warm-up


@pytest.mark.parametrize("n", [1, 7, 64, 149, 150, 170])
def test_the_mixture_is_the_estimators_after_any_number_of_rows(n):
    X, _ = blobs(400)
    model = learned(DynamicalMixture(warmup=150), dicts(X[:n]))
    expected = Mixture(warmup=150).partial_fit(X[:n])
    assert same(model.mixture, expected)
    assert model.mixture.learned_ == expected.learned_ == (n >= 150)
    assert model.mixture.family_ == expected.family_
    learned(model, dicts(X[n:]))
    assert same(model.mixture, Mixture(warmup=150).fit(X))


def test_a_warm_up_ends_by_itself_and_is_learned_in_order():
    X, truth = blobs(400)
    model, n_labelled = DynamicalMixture(warmup=150), 0
    for i, x in enumerate(dicts(X)):
        n_labelled += model.predict_one(x) >= 0
        model.learn_one(x)
        assert 1 <= model.n_tables == len(model.centers)  # of the provisional model
        if i == 40:
            assert model.n_tables == 4  # which is a good one soon
    assert n_labelled > 350
    assert model.n_tables == len(set(truth))
    assert same(
        Mixture.from_stream(model._stream), Mixture(warmup=150).fit(X)
    )  # no search was ended by asking for the mixture


@pytest.mark.parametrize("asked", ["mixture", "pickle", "copy"])
def test_a_search_under_way_is_finished_for_those_who_want_the_model(asked):
    X, _ = blobs(400)
    model = learned(DynamicalMixture(warmup=150), dicts(X[:160]))
    assert not model._stream.learned
    if asked == "mixture":
        twin = model
        assert model.mixture.learned_
    else:
        twin = pickle.loads(pickle.dumps(model)) if asked == "pickle" else copy.deepcopy(model)
    assert twin._stream.learned
    for each in {id(model): model, id(twin): twin}.values():
        learned(each, dicts(X[160:]))
    assert same(model.mixture, Mixture(warmup=150).fit(X))
    assert same(twin.mixture, Mixture(warmup=150).fit(X))


def test_no_call_does_more_than_a_piece_of_a_search(monkeypatch):
    X, _ = blobs(400)
    calls, plain = [], search._run

    def counted(*arguments):
        calls.append(len(arguments[1]))
        return plain(*arguments)

    monkeypatch.setattr(search, "_run", counted)
    model, rows = DynamicalMixture(warmup=300), []
    for x in dicts(X):
        calls.clear()
        model.learn_one(x)
        rows.append(sum(calls))
    assert max(rows) <= 3000
    assert sum(rows) > 50_000
    assert rows[-1] == 0
    assert same(model.mixture, Mixture(warmup=300).fit(X))


@pytest.mark.parametrize("n", [150, 160])
def test_an_interrupted_piece_of_a_search_begins_again(n, monkeypatch):
    X, _ = blobs(400)
    model = learned(DynamicalMixture(warmup=150), dicts(X[:n]))

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(search, "_run", interrupted)
        patch.setattr(search._Search, "_best", interrupted)  # between the runs
        with pytest.raises(KeyboardInterrupt):
            learned(model, dicts(X[n:]))
        n_learned = model._stream.engine.n_observations
        assert n < n_learned < 200  # each row was learned before the search went on
        with pytest.raises(KeyboardInterrupt):
            _ = model.mixture
    learned(model, dicts(X[n_learned:]))
    assert model.n_tables == 4  # which learns the rows that wait, and ends no search
    assert same(Mixture.from_stream(model._stream), Mixture(warmup=150).fit(X))


@pytest.mark.parametrize("n", [1, 15, 16, 39])
def test_bad_values_in_the_warm_up_are_refused_and_change_nothing(n):
    X, _ = blobs(60, D=2)
    model = learned(DynamicalMixture(warmup=40), dicts(X[:n]))
    for name in BAD.keys() - {"nan", "text", "nothing", "bad and new", "bad and absent"}:  # which are fine here
        x, message = BAD[name]
        far = message.startswith("X must lie")
        for method in (model.learn_one, model.predict_one, model.predict_proba_one, model.score_one):
            with pytest.raises(ValueError, match=r"X must lie within 1e\+45" if far else message):
                method(x)
    learned(model, dicts(X[n:]))
    assert model.feature_names == ("a", "b")
    assert same(model.mixture, Mixture(warmup=40).fit(X))


@pytest.mark.parametrize(
    ("family", "absent"), [(None, np.nan), (PLAIN, 0.0)], ids=["unknown family, missing", "known family, zero"]
)
def test_features_that_come_in_the_warm_up_were_absent_before(family, absent):
    X, _ = blobs(120)
    model = DynamicalMixture(family, alpha=None, warmup=100)
    learned(model, dicts(X[:40, :2]))
    assert model.predict_one(dicts(X)[40]) >= -1  # with features that nothing had so far
    assert model.feature_names == NAMES[:2]
    learned(model, dicts(X[40:70, :3]))
    assert len(model.centers[0]) == 3
    learned(model, dicts(X[70:]))
    X[:40, 2], X[:70, 3] = absent, absent
    assert same(model.mixture, Mixture(family, alpha=None, warmup=100).fit(X))


def test_directions_may_get_longer_in_the_warm_up():
    rows = [{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}, {"a": 0.6, "c": 0.8}, {"c": 1.0}] * 10
    model = DynamicalMixture(VonMisesFisher(), warmup=30)
    for x in rows:
        assert model.predict_one(x) >= -1
        model.learn_one(x)
    X = [[x.get(name, 0.0) for name in "abc"] for x in rows]
    assert same(model.mixture, Mixture(VonMisesFisher(), warmup=30).fit(X))


@pytest.mark.parametrize("kind", ["numbers", "dates"])
def test_times_are_kept_in_the_warm_up(kind):
    X, _ = blobs(60)
    stamps = HOURS if kind == "dates" else [float(i) ** 1.5 for i in range(60)]
    kinds = {"dynamics": [Stationary(), Exponential()], "warmup": 40}
    model = DynamicalMixture(time_key="at", **kinds)
    for x, stamp in zip(dicts(X), stamps, strict=True):
        model.predict_one(x | {"at": stamp})
        model.learn_one(x | {"at": stamp})
    assert same(model.mixture, Mixture(**kinds).fit(X, times=stamps))


@pytest.mark.slow
def test_a_warm_up_can_be_ended_early():
    X, _ = blobs(150)
    model = learned(DynamicalMixture(), dicts(X[:1]))
    with pytest.raises(ValueError, match=r"1 sample is too few to learn .*\(1,000 is better\)"):
        model.learn_unknown()
    learned(model, dicts(X[1:]))
    model.learn_unknown()
    model.learn_unknown()
    assert same(model.mixture, Mixture().fit(X))


def test_with_a_known_family_features_come_after_the_warm_up_too():
    X, _ = blobs(150)
    model = learned(DynamicalMixture(PLAIN, None, None, warmup=100), dicts(X[:102, :3]))
    assert not model._stream.learned
    learned(model, dicts(X[102:]))
    assert model.feature_names == NAMES
    expected = Mixture(PLAIN, None, None, warmup=100).fit(X[:102, :3])
    expected.stream_.widen(4)
    assert same(model.mixture, expected.partial_fit(X[102:]))


# In river's company


def test_copies_go_their_own_ways():
    X, _ = blobs(80)
    model = learned(DynamicalMixture(PLAIN), dicts(X[:40]))
    twins = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.clone(include_attributes=True)]
    for twin in twins:
        learned(twin, dicts(X[40:]))
        assert same(twin.mixture, Mixture(PLAIN).fit(X))
    assert same(model.mixture, Mixture(PLAIN).fit(X[:40]))
    assert model.clone().n_tables == 0


def test_in_a_pipeline_with_rivers_evaluation():
    X, truth = blobs(300)
    model = preprocessing.StandardScaler() | DynamicalMixture(Gaussian(0.02, 1.0), alpha=0.1)
    metric = evaluate.progressive_val_score(stream.iter_array(X, truth), model, metrics.AdjustedRand())
    assert metric.get() > 0.8
    assert model["DynamicalMixture"].mixture.n_observations_ == 300
    assert model.score_one(dict.fromkeys(range(4), 100.0)) > 300.0


def test_a_pipeline_hands_the_time_over_in_x():
    X, _ = blobs(60)
    scaled = compose.Discard("t") | preprocessing.StandardScaler()
    pipeline = (scaled + compose.Select("t")) | DynamicalMixture(PLAIN, Exponential(5.0), time_key="t")
    by_hand, model = preprocessing.StandardScaler(), DynamicalMixture(PLAIN, Exponential(5.0))
    for i, x in enumerate(dicts(X)):
        t = i**1.5
        pipeline.learn_one({"t": t, **x})
        by_hand.learn_one(x)
        model.learn_one(by_hand.transform_one(x), t)
    assert set(pipeline["DynamicalMixture"].feature_names) == set(NAMES)
    order = [model.feature_names.index(name) for name in pipeline["DynamicalMixture"].feature_names]
    np.testing.assert_allclose(
        pipeline["DynamicalMixture"].mixture.centers_, model.mixture.centers_[:, order], rtol=1e-12
    )


@pytest.mark.parametrize("limits", [{"max_tables": 2}, {"prune_below": 0.05}])
def test_tables_close_as_the_estimator_closes_them(limits):
    X = np.repeat(100.0 * np.arange(30.0), 7)[:, None] + np.zeros(4)
    model = learned(DynamicalMixture(Gaussian(1.0, 1e6), Exponential(3.0), **limits), dicts(X))
    inner = Mixture(Gaussian(1.0, 1e6), Exponential(3.0), **limits).fit(X)
    assert same(model.mixture, inner)
    assert list(model.centers) == list(model.occupancies) == inner.table_ids_.tolist()
    assert 1 <= model.n_tables < 5
    assert model.predict_one(dicts(X)[0]) == -1
    assert model.predict_one(dicts(X)[-1]) == 29


def test_a_timescale_of_hours_needs_times():
    model = DynamicalMixture(PLAIN, Exponential(dt.timedelta(hours=1)))
    with pytest.raises(ValueError, match="there are no times"):
        model.learn_one({"a": 1.0})
    learned(model, [{"a": 1.0}], t=dt.datetime(2026, 1, 1))
    assert model.n_tables == 1


# --- missing features -----------------------------------------------------------------------------------------------


def with_holes(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(0.0, 8.0, (5, 3))[rng.integers(0, 5, n)] + rng.normal(size=(n, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    X[0] = 1.0, 2.0, 3.0  # so that all features are there from the first row on
    return X


@pytest.mark.parametrize("family", [Gaussian(1.0, 60.0), None], ids=["given", "learned"])
def test_absent_features_are_missing_if_asked_for(family):
    X = with_holes()
    rows = [{name: value for name, value in zip("abc", row, strict=True) if value == value} for row in X.tolist()]
    model = DynamicalMixture(family, alpha=1.0, dynamics=Stationary(), absent=np.nan, warmup=100)
    plain = Mixture(family, alpha=1.0, dynamics=Stationary(), warmup=100)
    for x in rows:
        model.learn_one(x)
    plain.expects_missing = True
    plain.partial_fit(X)
    assert model.mixture.log_evidence_ == plain.log_evidence_
    assert [model.predict_one(x) for x in rows[-9:]] == plain.predict(X[-9:]).tolist()
    assert -model.score_one(rows[-1]) == pytest.approx(plain.score_samples(X[-1:])[0])
    assert model.predict_one({"a": None, "b": np.nan}) == plain.predict(np.full((1, 3), np.nan))[0]
    assert pickle.loads(pickle.dumps(model)).predict_one(rows[-1]) == model.predict_one(rows[-1])


def test_a_feature_that_comes_later_was_missing_before():
    X = with_holes()
    X[:50, 2] = np.nan
    model, plain = DynamicalMixture(Gaussian(1.0, 60.0), absent=np.nan), Mixture(Gaussian(1.0, 60.0))

    for row in X.tolist():
        x = {name: value for name, value in zip("abc", row, strict=True) if value == value}
        model.predict_one(x)
        model.learn_one(x)
    plain.fit(X)
    assert model.feature_names == ("a", "b", "c")
    assert model.mixture.n_tables_ == plain.n_tables_
    np.testing.assert_allclose(model.mixture.centers_, plain.centers_, rtol=1e-9)


def test_absent_is_zero_or_nan():
    with pytest.raises(ValueError, match="absent must be 0 or NaN, got 1"):
        DynamicalMixture(absent=1.0)
    with pytest.raises(ValueError, match="absent must be 0 for VonMisesFisher"):
        DynamicalMixture(VonMisesFisher(1.0), absent=np.nan)


# --- texts ----------------------------------------------------------------------------------------------------------


def doors(n=80, seed=0):
    """Dictionaries of three kinds; some features are absent, or None."""
    rng = np.random.default_rng(seed)
    rows = []
    for i, kind in enumerate((np.arange(n) // 10 % 3).tolist()):
        x = {"size": rng.normal(10.0 * kind, 1.0), "colour": ["red", "green", "blue"][kind], "open": kind == 1}
        if i % 7 == 3:
            del x["size"]
        if i % 11 == 4:
            x["colour"] = None
        rows.append(x)
    return rows


@pytest.mark.parametrize("first", [0, 1, 12], ids=["at once", "from the second row on", "late"])
def test_texts_are_categories_and_what_is_absent_is_missing(first):
    pd = pytest.importorskip("pandas")
    rows = doors()
    for x in rows[:first]:
        del x["colour"]
    model = DynamicalMixture(warmup=30)
    for x in rows:
        assert model.predict_one(x) >= -1
        model.learn_one(x)
    frame = pd.DataFrame(rows)
    plain = Mixture(warmup=30).fit(frame[list(model.feature_names)])
    assert model.mixture.encoding_ == plain.encoding_
    assert same(model.mixture, plain)
    assert [model.predict_one(x) for x in rows[-9:]] == plain.predict(frame[list(model.feature_names)][-9:]).tolist()
    assert {(center["colour"], center["open"]) for center in model.centers.values()} >= {
        ("red", "false"),
        ("green", "true"),
        ("blue", "false"),
    }
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba_one({"colour": "red"}) == model.predict_proba_one({"colour": "red"})
    assert model.predict_one({"colour": "red"}) == plain.predict(frame[list(model.feature_names)][:1])[0]


def test_texts_that_are_bad_change_nothing():
    rows = doors()
    model = learned(DynamicalMixture(warmup=30), rows[:60])
    before = model.mixture.to_bytes()
    for x, message in (
        ({"colour": ["red"]}, "feature 'colour' must be a finite number, a text, true or false"),
        ({"size": "tall"}, "column 'size' must hold numbers, got 'tall'"),
        ({"size": float("inf")}, "feature 'size' must be a finite number"),
    ):
        for method in (model.learn_one, model.predict_one, model.score_one):
            with pytest.raises(ValueError, match=message):
                method(x)
    assert model.mixture.to_bytes() == before
    with pytest.warns(UserWarning, match="feature 'weight' came after the features were fixed"):
        model.learn_one(rows[60] | {"weight": 3.0})
    learned(model, rows[61:])
    assert same(model.mixture, learned(DynamicalMixture(warmup=30), rows).mixture)


def test_texts_have_times_and_weights():
    pd = pytest.importorskip("pandas")
    rows, weights = doors(), (1.0 + np.arange(80) % 3).tolist()
    times = [dt.datetime(2026, 1, 1) + dt.timedelta(minutes=i) for i in range(80)]
    model = DynamicalMixture(warmup=30, time_key="at")
    for x, t, w in zip(rows, times, weights, strict=True):
        model.learn_one(x | {"at": t}, w=w)
    plain = Mixture(warmup=30).fit(pd.DataFrame(rows), times=times, sample_weight=weights)
    assert same(model.mixture, plain)


def test_a_family_for_whole_rows_gets_what_is_expected_of_a_cell_that_is_absent():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(300, 1))
    X = np.hstack([u, 2.0 * u]) + 0.05 * rng.normal(size=(300, 2)) + 30.0 * (np.arange(300) % 2)[:, None]
    model = learned(DynamicalMixture(warmup=200), dicts(X[:250]))
    plain = Mixture(warmup=200).fit(X[:250])
    assert not plain.family_.independent
    gap = np.array([[X[250, 0], np.nan]])
    assert model.score_one({"a": gap[0, 0]}) == pytest.approx(-plain.score_samples(plain.fill(gap))[0])
    model.learn_one({"a": gap[0, 0]})
    assert same(model.mixture, plain.partial_fit(plain.fill(gap)))


@pytest.mark.parametrize("first", [7, 8, 11, 14])
def test_cells_that_are_missing_while_a_search_is_under_way_are_taken(first):
    rng = np.random.default_rng(0)
    u = rng.normal(size=(60, 1))
    X = np.hstack([u, 2.0 * u]) + 0.05 * rng.normal(size=(60, 2))
    model = learned(DynamicalMixture(warmup=40), dicts(X[:first]))
    model.learn_one({"a": 1.0})
    learned(model, dicts(X[first + 1 :]))
    X[first] = 1.0, np.nan
    assert same(model.mixture, Mixture(warmup=40).fit(X))

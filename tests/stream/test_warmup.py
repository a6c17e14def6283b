"""The beginning of a stream with unknown hyperparameters: what it comes to does not depend on how it is cut."""

import copy
import math
import pickle
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import dyncrp
from dyncrp import (
    BadRow,
    Bernoulli,
    DynamicalMixture,
    Exponential,
    Gaussian,
    NormalGamma,
    Poisson,
    Stationary,
    VonMisesFisher,
)
from dyncrp.io import model_file
from dyncrp.search import Search, search

FAMILIES = {
    "nothing known": {},
    "alpha unknown": {"family": Gaussian(1.0, 100.0), "alpha": None},
    "a list": {"family": Gaussian(1.0, 100.0), "dynamics": [Stationary(), Exponential()]},
    "NormalGamma": {"family": NormalGamma()},
    "Bernoulli": {"family": Bernoulli(), "dynamics": Stationary()},
    "Poisson": {"family": Poisson(), "dynamics": Stationary()},
    "VonMisesFisher": {"family": VonMisesFisher(), "resolution": 2.0},
    "alpha that learns": {"learn_alpha": True, "dynamics": Stationary()},
    "few tables": {"max_tables": 2},
}


def blobs(n, D=2, K=5, seed=3):
    """Return rows (n, D) of K clusters that lie far apart."""
    rng = np.random.default_rng(seed)
    means = 30.0 * rng.standard_normal((K, D))
    return means[rng.integers(K, size=n)] + rng.standard_normal((n, D))


def rows_for(family, n):
    if isinstance(family, Bernoulli):
        return (blobs(n) > 0.0).astype(float)
    if isinstance(family, Poisson):
        return np.floor(np.abs(blobs(n)))
    X = blobs(n)
    return X / np.linalg.norm(X, axis=1)[:, None] if isinstance(family, VonMisesFisher) else X


def arrays(model):
    """Return all that a file says of a model, as bytes for each name."""
    config, found = model_file.loads(model.to_bytes())
    return {name: array.tobytes() for name, array in found.items()} | {"config": repr(config)}


def cut(model, X, size, times=None):
    for begin in range(0, len(X), size):
        part = slice(begin, begin + size)
        model.partial_fit(X[part], times=None if times is None else times[part])
    return model


def known_to_have_learned(n, warmup):
    """Return from how many of n rows the hyperparameters are to be learned."""
    return warmup if n >= warmup else 2 ** int(math.log2(n))


@pytest.fixture
def searches(monkeypatch):
    """Return a list to which every search adds the number of its rows."""
    sizes, plain = [], Search.__init__

    def counting(self, spec, X, times, **options):
        sizes.append(len(X))
        plain(self, spec, X, times, **options)

    monkeypatch.setattr(Search, "__init__", counting)
    return sizes


# The reference


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 33, 63, 64, 65, 79, 80, 81, 200])
def test_after_n_rows_the_model_is_the_one_learned_from_a_power_of_two_or_the_warm_up(n):
    X = blobs(200)
    p = known_to_have_learned(n, 80)
    expected = dyncrp.tune(X[:p]).model.fit(X[:n])
    model = cut(DynamicalMixture(warmup=80), X[:n], 9)
    assert (model.family_, model.dynamics_, model.alpha_) == (expected.family_, expected.dynamics_, expected.alpha_)
    ours, theirs = model.engine_.arrays(), expected.engine_.arrays()
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    assert model.learned_ == (n >= 80)
    (chosen,) = (c for c in model.evidence_ if c.chosen)
    assert (chosen.family, chosen.alpha) == (model.family_, model.alpha_)


@pytest.mark.parametrize("options", FAMILIES.values(), ids=FAMILIES)
def test_the_state_after_any_number_of_rows_does_not_depend_on_the_cut(options):
    X = rows_for(options.get("family"), 60)
    five, ones = (DynamicalMixture(warmup=40, **options) for _ in range(2))
    for n in range(1, 61):
        ones.learn_one(X[n - 1])
        if n % 5 == 0:
            five.partial_fit(X[n - 5 : n])
        if n in (1, 2, 3, 5, 20, 35, 40, 60):
            at_once = arrays(DynamicalMixture(warmup=40, **options).partial_fit(X[:n]))
            assert arrays(ones) == at_once
            assert n % 5 or arrays(five) == at_once
    assert arrays(ones) == arrays(DynamicalMixture(warmup=40, **options).fit(X))
    assert ones.learned_


@pytest.mark.slow
def test_five_blobs_are_five_tables_however_they_come():
    X = blobs(1400)
    whole = DynamicalMixture().fit(X[:1300])
    before, labels = arrays(whole), whole.partial_fit(X[1300:]).labels_
    for size in (1, 50, 333):
        model = cut(DynamicalMixture(), X[:1300], size)
        assert arrays(model) == before
        np.testing.assert_array_equal(model.partial_fit(X[1300:]).labels_, labels)
        assert model.n_tables_ == 5
        assert model.log_evidence_ == whole.log_evidence_


@pytest.mark.parametrize("dated", [False, True])
def test_times_are_kept_with_the_rows(dated):
    X = blobs(60)
    times = np.cumsum(np.random.default_rng(0).exponential(5.0, size=60))
    times = (1e6 * times).astype("M8[us]") if dated else times
    options = {"dynamics": [Stationary(), Exponential()], "warmup": 50}
    model = cut(DynamicalMixture(**options), X, 7, times)
    assert arrays(model) == arrays(DynamicalMixture(**options).fit(X, times=times))


def test_only_searches_whose_result_is_used_are_run(searches):
    X = blobs(500)
    DynamicalMixture(warmup=40).partial_fit(X)
    assert searches == [40]
    searches.clear()
    model = DynamicalMixture(warmup=40).partial_fit(X[:39])
    model.partial_fit(X[39:300])
    model.partial_fit(X[300:])
    assert searches == [32, 40]
    searches.clear()
    cut(DynamicalMixture(warmup=40), X, 3)
    assert searches == [2, 4, 8, 16, 32, 40]
    searches.clear()
    cut(DynamicalMixture(Gaussian(1.0, 100.0)), X, 3)
    assert searches == []


# fit


def test_fit_learns_from_all_rows_and_partial_fit_goes_on_from_them(searches):
    X = blobs(70)
    model = DynamicalMixture(warmup=60).fit(X[:23])
    family, candidates = model.family_, dyncrp.tune(X[:23]).candidates
    assert len(model.evidence_) == len(candidates)
    assert not model.learned_
    searches.clear()
    assert copy.deepcopy(model).learn_unknown().learned_
    assert searches == []
    model.partial_fit(X[23:30])  # 16 is less than 23
    assert model.family_ == family
    model.partial_fit(X[30:35])
    assert arrays(model) == arrays(DynamicalMixture(warmup=60).partial_fit(X[:35]))
    model.partial_fit(X[35:])
    assert searches == [32, 32, 60]
    assert arrays(model) == arrays(DynamicalMixture(warmup=60).fit(X))
    assert model.learned_


def test_fit_forgets_what_was_kept():
    X = blobs(80)
    model = DynamicalMixture(warmup=60).fit(X[:50]).fit(X[50:])
    assert arrays(model) == arrays(DynamicalMixture(warmup=60).fit(X[50:]))
    assert model.n_observations_ == 30
    learned = DynamicalMixture(warmup=20).fit(X)
    assert learned.learned_
    assert not learned.fit(X[:10]).learned_


def test_what_is_known_is_learned_from_the_start():
    model = DynamicalMixture(Gaussian(1.0, 100.0))
    with pytest.raises(AttributeError, match="not fitted"):
        _ = model.learned_
    assert model.partial_fit([[0.0]]).learned_
    assert not any(name.startswith("warmup") for name in arrays(model))


def test_the_warm_up_can_be_ended():
    X = blobs(100)
    model = cut(DynamicalMixture(), X[:50], 7).learn_unknown()
    expected = DynamicalMixture(warmup=50).fit(X[:50])
    assert model.learned_
    np.testing.assert_array_equal(model.labels_, expected.labels_[49:])  # the last batch, as it is seated now
    assert model.engine_.log_evidence == expected.engine_.log_evidence
    model.learn_unknown().partial_fit(X[50:])
    assert model.log_evidence_ == expected.partial_fit(X[50:]).log_evidence_
    with pytest.raises(ValueError, match="not fitted"):
        DynamicalMixture().learn_unknown()


# One at a time, and the last batch


def test_learn_one_begins_with_nothing_and_returns_the_present_label():
    X = blobs(50)
    model, beside = DynamicalMixture(warmup=40), DynamicalMixture(warmup=40)
    for x in X:
        assert model.learn_one(x) == beside.partial_fit([x]).labels_[0]
    with pytest.raises(AttributeError, match="no labels_, which describes the last batch"):
        _ = model.labels_


def test_the_last_batch_is_described_as_it_is_seated_now():
    X = blobs(50)
    model = DynamicalMixture(warmup=40).partial_fit(X[:25])
    model.partial_fit(X[25:30])
    for x in X[30:]:
        model.learn_one(x)  # at 32 and 40 rows, all are seated again
        n = model.n_observations_
        expected = DynamicalMixture(model.family_, model.dynamics_, model.alpha_).fit(X[:n])
        np.testing.assert_array_equal(model.labels_, expected.labels_[25:30])
        np.testing.assert_array_equal(model.novelty_, expected.novelty_[25:30])
        assert model.responsibilities_.shape[0] == 5


# Files and copies


@pytest.mark.parametrize("n", [1, 5, 31, 39, 40])
def test_a_copy_goes_on_to_the_bit(n, tmp_path):
    X = blobs(60)
    model = cut(DynamicalMixture(warmup=40, learn_alpha=True), X[:n], 3)
    model.save(tmp_path / "model")
    others = {
        "file": DynamicalMixture.load(tmp_path / "model"),
        "pickle": pickle.loads(pickle.dumps(model)),
        "copy": copy.deepcopy(model),
    }
    assert model.learned_ == (n >= 40)
    for again, other in others.items():
        assert other.learned_ == model.learned_, again
        assert arrays(other) == arrays(model), again
    for begin in range(n, 60, 8):
        part = X[begin : min(begin + 8, 60)]
        labels = model.partial_fit(part).labels_
        for again, other in others.items():
            np.testing.assert_array_equal(other.partial_fit(part).labels_, labels, err_msg=again)
            assert arrays(other) == arrays(model), again


def test_a_file_of_a_fit_knows_from_how_many_rows_it_learned(searches):
    X = blobs(30)
    model = DynamicalMixture.from_bytes(DynamicalMixture(warmup=60).fit(X[:20]).to_bytes())
    searches.clear()
    model.partial_fit(X[20:])
    assert searches == []


def test_a_file_without_kept_rows_is_of_a_model_that_has_learned():
    model = DynamicalMixture(warmup=40).fit(blobs(20))
    config, found = model_file.loads(model.to_bytes())
    old = {name: array for name, array in found.items() if not name.startswith("warmup_")}
    assert len(old) == len(found) - 3
    loaded = DynamicalMixture.from_bytes(model_file.dumps(config, old))
    assert loaded.learned_
    family = loaded.family_
    assert loaded.partial_fit(blobs(60)).family_ == family == model.family_


DAMAGES = {
    "a row too few": {"warmup_rows": lambda a: a[:-1]},
    "a feature too few": {"warmup_rows": lambda a: a[:, :1].copy()},
    "a time too few": {"warmup_times": lambda a: a[1:]},
    "another time": {"warmup_times": lambda a: a + 1.0},
    "times that run backwards": {"warmup_times": lambda a: np.append(a[-2::-1], a[-1])},
    "from more rows than there are": {"warmup_learnt_from": lambda a: a + 100},
    "from none": {"warmup_learnt_from": lambda a: 0 * a},
    "of another type": {"warmup_rows": lambda a: a.astype(np.int64)},
    "a number that is none": {"warmup_learnt_from": lambda a: a.astype(np.float64)},
    "too far out": {"warmup_rows": lambda a: 1e60 * a},
    "rows missing": {"warmup_rows": lambda a: None},
    "times missing": {"warmup_times": lambda a: None},
    "more than there is": {"warmup_rows": lambda a: a, "warmup_more": lambda a: np.zeros(1)},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_kept_rows_that_do_not_fit_are_refused(damage):
    config, found = model_file.loads(DynamicalMixture(warmup=40).partial_fit(blobs(20)).to_bytes())
    changed = {**found, **{name: change(found.get(name)) for name, change in damage.items()}}
    content = model_file.dumps(config, {name: array for name, array in changed.items() if array is not None})
    with pytest.raises(ValueError, match="does not hold a DynamicalMixture"):
        DynamicalMixture.from_bytes(content)


@pytest.mark.parametrize(
    "params", [{"warmup": 20}, {"family": Gaussian(1.0, 100.0), "dynamics": Stationary(), "alpha": 1.0}]
)
def test_rows_kept_for_nothing_are_refused(params):
    config, found = model_file.loads(DynamicalMixture(warmup=40).partial_fit(blobs(20)).to_bytes())
    config["params"] |= params
    with pytest.raises(ValueError, match="it keeps rows of a warm-up"):
        DynamicalMixture.from_bytes(model_file.dumps(config, found))


# Interruptions


def interrupt(monkeypatch, owner, name, after):
    """Let the call of a method that comes after so many raise KeyboardInterrupt."""
    plain, calls = getattr(owner, name), []

    def interrupted(*arguments, **keywords):
        calls.append(name)
        if len(calls) > after:
            raise KeyboardInterrupt
        return plain(*arguments, **keywords)

    monkeypatch.setattr(owner, name, interrupted)


@cache
def arrays_of_fifty():
    return arrays(DynamicalMixture(warmup=50).fit(blobs(60)))


@pytest.mark.parametrize(
    ("begin", "after"), [(0, 0), (0, 30), (1, 1), (13, 0), (13, 2), (39, 1), (39, 30), (45, 0), (45, 2)]
)
def test_an_interrupted_search_leaves_the_model_as_it_was(begin, after, monkeypatch):
    X = blobs(60)
    model = DynamicalMixture(warmup=50)
    if begin:
        cut(model, X[:begin], 5)
        before = arrays(model)
    with monkeypatch.context() as patch:
        interrupt(patch, search, "_run", after)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[begin:])
    assert hasattr(model, "engine_") == (begin > 0)
    if begin:
        assert arrays(model) == before
    assert arrays(cut(model, X[begin:], 4)) == arrays_of_fifty()


def test_an_interrupted_seating_leaves_the_model_as_it_was(monkeypatch):
    X = blobs(60)
    model = cut(DynamicalMixture(warmup=50), X[:45], 5)
    before = arrays(model)
    with monkeypatch.context() as patch:
        interrupt(patch, dyncrp.stream.learner.Learner, "run", 1)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[45:])
    assert arrays(model) == before
    assert arrays(model.partial_fit(X[45:])) == arrays(DynamicalMixture(warmup=50).fit(X))


@pytest.mark.parametrize("learn_alpha", [False, True])
def test_rows_that_an_interrupted_call_came_to_are_kept(learn_alpha, monkeypatch):
    X = blobs(60)
    model = DynamicalMixture(warmup=50, learn_alpha=learn_alpha).partial_fit(X[:33])
    engine = type(model.engine_)
    run = engine.run

    def interrupted(self, X, times):
        run(self, X[:4], times[:4])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[33:45])
    assert model.n_observations_ == 37
    assert arrays(model) == arrays(DynamicalMixture(warmup=50, learn_alpha=learn_alpha).partial_fit(X[:37]))
    model.partial_fit(X[37:])
    assert arrays(model) == arrays(DynamicalMixture(warmup=50, learn_alpha=learn_alpha).fit(X))


# Bad input


BAD = {
    "inf": ([[0.0, 0.0], [np.inf, 0.0]], None, "at row 1, column 0"),
    "too far": ([[0.0, 0.0], [0.0, 1e50]], None, r"within 1e\+45 .* at row 1, column 1"),
    "too wide": ([[0.0, 0.0, 0.0]], None, "X has 3 features, but DynamicalMixture is expecting 2"),
    "text": ([["a", 0.0]], None, "number"),
    "empty": (np.zeros((0, 2)), None, "empty"),
    "another clock": ([[0.0, 0.0]], [3.0], "a stream has one clock"),
}


@pytest.mark.parametrize("n", [1, 7, 31, 39])  # before a search, and not
def test_bad_rows_in_the_warm_up_change_nothing(n):
    rows = blobs(60)
    model = cut(DynamicalMixture(warmup=40), rows[:n], 5)
    before, labels = arrays(model), model.labels_.tolist()
    for X, times, message in BAD.values():
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X, times=times)
        if len(X) == 1:
            with pytest.raises(ValueError, match=message):
                model.learn_one(X[0], None if times is None else times[0])
        assert arrays(model) == before
        assert model.labels_.tolist() == labels
    assert arrays(model.partial_fit(rows[n:])) == arrays(DynamicalMixture(warmup=40).fit(rows))


def test_times_that_run_backwards_change_nothing():
    X, times = blobs(60), np.arange(60.0)
    model = DynamicalMixture(warmup=40).partial_fit(X[:20], times=times[:20])
    before = arrays(model)
    for bad in ([5.0], [np.inf]):
        with pytest.raises(BadRow):
            model.partial_fit(X[20:21], times=bad)
    assert arrays(model) == before
    model.partial_fit(X[20:], times=times[20:])
    assert arrays(model) == arrays(DynamicalMixture(warmup=40).fit(X, times=times))


def test_the_row_that_is_refused_is_named_by_its_place_in_the_call():
    model = DynamicalMixture(VonMisesFisher(), warmup=40).partial_fit(np.eye(3))
    with pytest.raises(BadRow) as refused:
        model.partial_fit([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    assert refused.value.row == 1
    assert model.n_observations_ == 3


def test_rows_that_do_not_vary_are_a_beginning_too():
    for options in FAMILIES.values():
        family = options.get("family")
        X = np.tile([1.0, 0.0], (50, 1))
        model = cut(DynamicalMixture(warmup=40, **(options | {"resolution": 1.0})), X, 1)
        assert model.n_tables_ == 1, family
        assert model.learned_


def test_a_resolution_that_does_not_suit_the_first_rows_waits():
    X = np.vstack([np.tile([1.0, 0.0], (3, 1)), rows_for(VonMisesFisher(), 57)])
    model = cut(DynamicalMixture(VonMisesFisher(), resolution=2.0, warmup=50), X, 1)
    assert arrays(model) == arrays(DynamicalMixture(VonMisesFisher(), resolution=2.0, warmup=50).fit(X))


# Everything else goes on


def test_rows_are_copied_when_they_are_kept():
    X = blobs(60)
    model = DynamicalMixture(warmup=50)
    for begin in range(0, 60, 6):
        part, times = X[begin : begin + 6].copy(), np.arange(begin, begin + 6, dtype=float)
        model.partial_fit(part, times=times)
        part[:], times[:] = 7.0, -1.0
    assert arrays(model) == arrays(DynamicalMixture(warmup=50).fit(X, times=np.arange(60.0)))


def test_parameters_set_in_the_warm_up_count_from_the_next_fit():
    X = blobs(60)
    model = DynamicalMixture(warmup=50).partial_fit(X[:20])
    model.set_params(warmup=30, family=NormalGamma(), alpha=3.0)
    model.partial_fit(X[20:])
    assert arrays(model) == arrays(DynamicalMixture(warmup=50).fit(X))
    assert isinstance(model.fit(X).family_, NormalGamma)
    assert not hasattr(clone(model.fit(X[:5])), "engine_")


def test_a_feature_that_comes_in_the_warm_up_was_zero_before():
    X = blobs(60, D=3)
    X[:20, 2] = 0.0
    for options in ({}, FAMILIES["alpha unknown"]):
        model = DynamicalMixture(warmup=50, **options).partial_fit(X[:20, :2])
        model.stream_.widen(3)
        assert model.n_features_in_ == 3
        assert model.family_ == DynamicalMixture(warmup=50, **options).partial_fit(X[:20]).family_
        assert arrays(model) == arrays(DynamicalMixture(warmup=50, **options).partial_fit(X[:20]))
        model.partial_fit(X[20:])
        assert arrays(model) == arrays(DynamicalMixture(warmup=50, **options).fit(X))
    model = DynamicalMixture(Gaussian(variance=[1.0, 1.0]), warmup=50).partial_fit(X[:20, :2])
    before = arrays(model)
    with pytest.raises(ValueError, match="variance has 2 entries, but X has 3 features"):
        model.stream_.widen(3)
    assert arrays(model) == before
    assert model.n_features_in_ == 2


def test_names_of_features_are_those_of_the_first_call():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(blobs(60), columns=["x", "y"])
    model = cut(DynamicalMixture(warmup=50), X, 9)
    assert model.feature_names_in_.tolist() == ["x", "y"]
    model = DynamicalMixture(warmup=50).fit(X[:10])
    before = arrays(model)
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(X[10:][["y", "x"]])
    assert arrays(model) == before


def test_prediction_is_by_the_present_tables_and_changes_nothing():
    X = blobs(60)
    model = DynamicalMixture(warmup=50).partial_fit(X[:20])
    before = arrays(model)
    assert model.predict(X).shape == (60,)
    assert model.predict_proba(X).shape == (60, model.n_tables_ + 1)
    assert np.isfinite(model.score_samples(X)).all()
    assert arrays(model) == before

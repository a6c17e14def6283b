"""Plain arrays take a short way into the model; whatever takes the long way, such as lists, ends up the same."""

import copy
import pickle

import numpy as np
import pytest

from cases import pairwise
from dyncrp import BadRow, Bernoulli, DynamicalMixture, Exponential, Gaussian, NormalGamma, Stationary
from dyncrp.engine import Model, ReferenceEngine, Rules, make_engine
from dyncrp.engine.types import PARTS, concatenate

D = 3
FAMILY = Gaussian(1.0, 100.0)
OPTIONS = {
    "nothing": {},
    "alarms": {"alarm_rate": 0.05},
    "examples": {"n_examples": 2},
    "alpha": {"learn_alpha": True},
    "memory": {"memory": 20.0},
    "few tables": {"max_tables": 4},
    "pruned": {"prune_below": 0.05},
    "variational": {"assignment": "variational"},
    "posterior": {"table_count": "posterior"},
    "own variances": {"family": NormalGamma(1.0, 100.0)},
    "a line": {"family": Gaussian(1.0, 100.0, 0.0, np.full((1, D), 1.0 / np.sqrt(D)), 1.0)},
    "booleans": {"family": Bernoulli(0.5, 0.5)},  # of which every row is checked
    "unknown": {"family": None, "dynamics": None, "alpha": None, "warmup": 150},
}


def make(option):
    return DynamicalMixture(**{"family": FAMILY, "dynamics": Exponential(30.0), "alpha": 1.0} | OPTIONS[option])


def rows(option, n, seed):
    rng = np.random.default_rng(seed)
    if option == "booleans":
        return np.round(rng.random((n, D)))
    return rng.normal(0.0, 10.0, (8, D))[rng.integers(8, size=n)] + rng.normal(size=(n, D))


def pieces(n, seed):
    """Yield slices that make up n rows; of single rows also None for ``learn_one``, if the dice say so."""
    rng, begin = np.random.default_rng(seed), 0
    while begin < n:
        size = int(rng.choice([1, 1, 2, 30]))
        yield slice(begin, min(begin + size, n)), size == 1 and rng.random() < 0.5
        begin += size


def feed(model, X, times, seed, given=np.asarray, look=False):
    """Let a model learn a stream in pieces, as ``given`` has rows; look: at all there is to see, after some."""
    labels = []
    for part, alone in pieces(len(X), seed):
        when = None if times is None else times[part]
        if alone:
            labels.append(model.learn_one(given(X[part][0]), None if when is None else float(when[0])))
        else:
            labels += model.partial_fit(given(X[part]), times=when).labels_.tolist()
        if look and part.start % 3 == 0:
            model.predict(given(X[:2]))
            model.to_bytes()
            if hasattr(model, "_batch"):
                assert len(model.novelty_p_) == len(model.labels_) == model.responsibilities_.shape[0]
                assert isinstance(model.events_, list)
    return labels


def same(model, other, labels, others):
    assert labels == others
    assert model.to_bytes() == other.to_bytes()
    assert model.log_evidence_ == other.log_evidence_
    for name in ("labels_", "novelty_", "novelty_p_", "closed_ids_"):
        assert getattr(model, name).tobytes() == getattr(other, name).tobytes(), name
    assert model.events_ == other.events_
    np.testing.assert_array_equal(model.responsibilities_.toarray(), other.responsibilities_.toarray())


@pytest.mark.parametrize(("option", "timed", "seed"), pairwise(OPTIONS, [False, True], range(2)))
def test_the_short_way_and_the_long_way_are_the_same(option, timed, seed):
    X = rows(option, 260, seed)
    times = np.cumsum(np.random.default_rng(seed).exponential(size=260)) if timed else None
    short, long, seen, whole = (make(option) for _ in range(4))
    labels = feed(short, X, times, seed)
    same(short, long, labels, feed(long, X, times, seed, np.ndarray.tolist))
    assert feed(seen, X, times, seed, look=True) == labels
    last = X[:40]
    when = None if times is None else times[-1] + np.arange(40.0)
    whole.partial_fit(X, times=times)
    for model in (short, seen, whole):
        model.partial_fit(last, times=when)
    same(short, seen, [], [])
    if option != "unknown":  # whose provisional labels depend on calls
        same(short, whole, [], [])
    long.partial_fit(last.tolist(), times=when)
    for name in ("predict", "predict_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(short, name)(last), getattr(long, name)(last.tolist()))


@pytest.mark.parametrize("option", ["nothing", "alarms", "a line"])
@pytest.mark.parametrize(
    ("value", "reason"), [(np.inf, "finite"), (-np.inf, "finite"), (1e200, "within"), (np.nan, "whole rows|missing")]
)
def test_a_bad_cell_is_named_and_changes_nothing(option, value, reason):
    if np.isnan(value) and option != "a line":
        pytest.skip("a missing cell")
    X = rows(option, 50, 0)
    model = make(option).partial_fit(X)
    before, batch = model.to_bytes(), model.novelty_p_.tobytes()
    for n in (1, 50):
        bad = X[:n].copy()
        bad[-1, 1] = value
        asked = [model.partial_fit, model.predict, model.predict_proba, model.score_samples]
        for ask in [*asked, lambda bad: model.learn_one(bad[-1])]:
            with pytest.raises(BadRow, match=reason) as error:
                ask(bad)
            assert error.value.column == 1
            assert error.value.row == (0 if ask not in asked else n - 1)
    assert model.to_bytes() == before
    assert model.novelty_p_.tobytes() == batch


def test_a_bad_time_of_one_row_is_refused():
    X = rows("nothing", 50, 0)
    model = make("nothing").partial_fit(X, times=np.arange(50.0))
    before = model.to_bytes()
    for bad in (48.9, 48, -np.inf, np.nan, np.inf, 10**400, 2e150, "later", True, np.datetime64("2024-01-01")):
        with pytest.raises(ValueError, match="time"):
            model.learn_one(X[0], bad)
    with pytest.raises(ValueError, match="one clock"):
        model.learn_one(X[0])
    assert model.to_bytes() == before
    other = copy.deepcopy(model)
    labels = [model.learn_one(x, t) for x, t in zip(X, (49, 49.0, np.float64(49.5), np.int64(50), 51), strict=False)]
    assert other.partial_fit(X[:5], times=[49.0, 49.0, 49.5, 50.0, 51.0]).labels_.tolist() == labels
    assert other.to_bytes() == model.to_bytes()


def test_arrays_of_another_shape_are_refused():
    X = rows("nothing", 50, 0)
    model = make("nothing").partial_fit(X)
    before = model.to_bytes()
    for bad in (X[0], X[None], X[:, :2], np.zeros((0, D)), np.zeros(()), None):
        for ask in (model.partial_fit, model.predict, model.predict_proba, model.score_samples):
            with pytest.raises(ValueError):  # noqa: PT011
                ask(bad)
    for bad in (X[:1], X, X[0, :2], np.zeros(0), np.zeros(())):
        with pytest.raises(ValueError):  # noqa: PT011
            model.learn_one(bad)
    assert model.to_bytes() == before


def test_what_the_engine_accepts():
    X = rows("nothing", 6, 0)
    accepts = make("nothing").partial_fit(X).engine_.accepts
    backwards = X[::-1]
    read_only = X.copy()
    read_only.flags.writeable = False
    assert accepts(X, 2)
    assert accepts(X[0], 1)
    assert accepts(read_only, 2)
    assert accepts(np.zeros((100_000, D)), 2)  # for which the interpreter's lock is let go
    refused = [X[0], X[None], X[:, :2], X[:0], X.tolist(), None, "x", X.astype(np.float32), X.astype(">f8"), backwards]
    refused += [np.asfortranarray(X), np.ma.masked_array(X, X > 0), X.view(np.matrix), np.full((2, D), 1e200)]
    refused += [np.where(X[3, 1] == X, value, X) for value in (np.nan, np.inf, -np.inf)]
    assert not any(accepts(one, 2) for one in refused)
    assert not any(accepts(one, 1) for one in (X, X[:1], X[0, :2], X[:0, 0], [0.0] * D, np.zeros(()), X[::2, 0]))
    assert not make("booleans").partial_fit(np.ones((3, D))).engine_.accepts(np.ones((3, D)), 2)
    assert not ReferenceEngine(Model(FAMILY, Stationary(), 1.0), D).accepts(X, 2)


def test_names_of_columns_are_still_looked_for():
    pd = pytest.importorskip("pandas")
    X = rows("nothing", 20, 0)
    model = make("nothing").partial_fit(pd.DataFrame(X, columns=list("abc")))
    for ask in (model.partial_fit, model.predict):
        with pytest.warns(UserWarning, match="feature names"):
            ask(X)


def test_a_trace_is_computed_as_far_as_it_is_read():
    X, times = rows("nothing", 90, 1), np.arange(90.0)
    model = Model(FAMILY, Exponential(10.0), 1.0, rules=Rules(max_tables=3))
    engine, parts, reference = make_engine(model, D), make_engine(model, D), ReferenceEngine(model, D)
    trace, expected = engine.run(X, times), reference.run(X, times)
    joined = concatenate([parts.run(X[a:b], times[a:b]) for a, b in ((0, 20), (20, 21), (21, 90))])
    assert not PARTS & trace.__dict__.keys()
    assert trace.labels is trace.labels
    for found in (trace, joined, pickle.loads(pickle.dumps(trace)), copy.deepcopy(joined)):
        for name in PARTS:
            np.testing.assert_array_equal(getattr(found, name), getattr(trace, name), name)
        for name in ("labels", "n_columns", "closed", "closed_rows", "absences"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    with pytest.raises(AttributeError):
        _ = trace.nothing
    assert len(trace.closed)
    assert engine.latest_evidence == trace.log_evidence.tobytes()


def test_what_an_interrupted_call_came_to_counts_for_novelty(monkeypatch):
    X = rows("alarms", 400, 2)
    model, straight = make("alarms").partial_fit(X[:200]), make("alarms").partial_fit(X[:240])
    engine = type(model.engine_)
    run = engine.run

    def interrupted(self, X, times):
        run(self, X[:40], times[:40])
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[200:])
    monkeypatch.setattr(engine, "run", lambda self, X, times: 1 / 0)  # stopped before the first row
    with pytest.raises(ZeroDivisionError):
        model.partial_fit(X[200:])
    monkeypatch.undo()
    same(model.partial_fit(X[240:]), straight.partial_fit(X[240:]), [], [])

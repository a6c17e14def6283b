"""Events against a slow oracle: the stream row by row, with a look at the model before and after each."""

import numpy as np
import pandas as pd
import pytest

from dyncrp import DynamicalMixture, Exponential, Gaussian, Oscillatory, Stationary
from dyncrp.stream.events import FAINT, as_plain

STICKY = 0.99 * Exponential(4.0) + 0.01 * Stationary()


def stream(n=300, seed=0):
    """Clusters that stay a while; some come back after long, and one row in fifty is from nowhere."""
    rng = np.random.default_rng(seed)
    centers = 10.0 * rng.normal(size=(6, 2))
    at = np.repeat(rng.integers(0, 6, n // 10), 10)
    X = centers[at] + rng.normal(size=(n, 2))
    far = rng.random(n) < 0.02
    X[far] += 40.0 * rng.normal(size=(far.sum(), 2))
    return X, np.cumsum(rng.exponential(1.0, n))


def expected_events(model, X, times, rate):
    """Yield (row, kind, table) of each row in turn."""
    for i in range(len(X)):
        fitted = i > 0
        opened = model.n_opened_ if fitted else 0
        before = dict(zip(model.table_ids_.tolist(), model.engine_.state.last_times, strict=True)) if fitted else {}
        sizes = dict(zip(model.table_ids_.tolist(), model.engine_.state.sizes, strict=True)) if fitted else {}
        model.partial_fit(X[i : i + 1], times=times[i : i + 1])
        label = int(model.labels_[0])
        for table in range(opened, model.n_opened_):
            yield i, "opened", table
        if sizes.get(label) and max(float(model.dynamics_.kernel(times[i] - before[label])), 0.0) < FAINT:
            yield i, "returned", label
        if rate is not None and model.novelty_p_[0] <= rate:
            yield i, "alarm", label
        now = set(model.table_ids_.tolist())
        for table in sorted(({*before} | {*range(opened, model.n_opened_)}) - now):
            yield i, "closed", table


@pytest.mark.parametrize("dynamics", [Stationary(), Exponential(8.0), STICKY, Oscillatory(30.0)], ids=repr)
@pytest.mark.parametrize("params", [{}, {"max_tables": 4, "prune_below": 1e-4}], ids=["all", "closing"])
@pytest.mark.parametrize("rate", [None, 0.02])
def test_events_are_what_a_look_at_every_row_shows(dynamics, params, rate):
    X, times = stream()
    made = lambda: DynamicalMixture(Gaussian(1.0, 100.0), dynamics, 0.1, alarm_rate=rate, **params)  # noqa: E731
    expected = list(expected_events(made(), X, times, rate))
    model = made().fit(X, times=times)
    assert [(event.row, event.kind, event.table) for event in model.events_] == expected
    assert [event.time for event in model.events_] == [times[row] for row, _, _ in expected]
    kinds = {kind for _, kind, _ in expected}
    assert kinds >= {"opened"} | ({"alarm"} if rate else set()) | ({"closed"} if params else set())
    assert ("returned" in kinds) == (dynamics != Stationary())


def test_what_changed_is_said():
    X, times = stream()
    model = DynamicalMixture(Gaussian(1.0, 100.0), STICKY, 0.1, alarm_rate=0.02).fit(X, times=times)
    for event in model.events_:
        if event.kind == "returned":
            earlier = times[: event.row][model.labels_[: event.row] == event.table]
            assert event.what == {"absence": times[event.row] - earlier[-1]}
        if event.kind == "alarm":
            p = float(model.novelty_p_[event.row])
            assert event.what == {"novelty": float(model.novelty_[event.row]), "p": p}
            assert p <= 0.02
        if event.kind == "opened":
            assert event.what == {}
    first, second = model.table_ids_[:2].tolist()
    model.rename(second, "b")
    model.merge(first, second)
    new = model.split(first, X[:1], times=times[:1])
    n = len(X) - 1
    assert [(e.kind, e.row, e.time, e.table, e.name, e.what) for e in model.events_[-3:]] == [
        ("renamed", n, times[-1], second, None, {"before": None}),
        ("merged", n, times[-1], first, "b", {"merged": second, "far_apart": True}),
        ("opened", n, times[-1], new, None, {"split_from": first}),
    ]
    model.partial_fit(X[-1:], times=times[-1:])
    assert not any(event.kind in ("renamed", "merged") for event in model.events_)


def test_events_name_the_clusters_that_were_found_last():
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0], [50.0]])
    assert {event.cluster for event in model.events_} == {None}
    of_table = dict(zip(model.table_ids_.tolist(), model.clusters(2).labels(model.table_ids_).tolist(), strict=True))
    assert [event.cluster for event in model.events_] == [of_table[event.table] for event in model.events_] == [0, 0, 2]
    model.rename(1, "a")
    assert model.partial_fit([[99.0]]).events_[0].cluster is None


def cut(model, X, times, at):
    for begin, end in zip([0, *at], [*at, len(X)], strict=True):
        model.partial_fit(X[begin:end], times=times[begin:end])
    return model


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("at", [[], [1, 2, 50, 51, 200], list(range(1, 300))], ids=["whole", "some", "each"])
def test_a_function_is_called_with_each_event_once_ids_are_final(unknown, at):
    X, times = stream()
    params = {"alarm_rate": 0.02, "warmup": 40}
    if not unknown:
        params |= {"family": Gaussian(1.0, 100.0), "dynamics": STICKY, "alpha": 0.1}
    expected = DynamicalMixture(**params).fit(X, times=times).events_
    model, called = DynamicalMixture(**params), []
    model.on_event = called.append
    cut(model, X, times, at)
    assert called == expected
    model.rename(0, "a")
    assert called[-1] == model.events_[-1]


def test_learn_one_calls_too():
    X, times = stream(60)
    model = DynamicalMixture(Gaussian(1.0, 100.0), alarm_rate=0.02)
    expected, called = [], []
    model.on_event = called.append
    for x, t in zip(X, times, strict=True):
        model.learn_one(x, t)
        assert len(model.events_) <= 1  # of the last batch, which was none
    expected = DynamicalMixture(Gaussian(1.0, 100.0), alarm_rate=0.02).fit(X, times=times).events_
    assert called == expected


def test_times_are_dates_if_they_were():
    dates = pd.date_range("2024-03-01", periods=3, freq="h")
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [0.1], [50.0]], times=dates)
    assert [event.time for event in model.events_] == [
        np.datetime64("2024-03-01T00", "us"),
        np.datetime64("2024-03-01T02", "us"),
    ]
    assert as_plain(model.events_[0])["time"] == "2024-03-01T00:00:00.000000Z"


def test_novelty_p_goes_on_after_a_file_if_alarms_are_wanted():
    X, times = stream(280)
    model = DynamicalMixture(Gaussian(1.0, 100.0), alarm_rate=0.02).fit(X[:200], times=times[:200])
    one_by_one = DynamicalMixture(Gaussian(1.0, 100.0), alarm_rate=0.02)
    for x, t in zip(X[:200], times[:200], strict=True):
        one_by_one.learn_one(x, t)
    state = DynamicalMixture(Gaussian(1.0, 100.0), alarm_rate=0.02).set_state(model.to_state())
    others = [DynamicalMixture.from_bytes(model.to_bytes()), one_by_one, state]
    whole = DynamicalMixture(Gaussian(1.0, 100.0), alarm_rate=0.02).fit(X, times=times)
    for one in [model, *others]:
        one.partial_fit(X[200:], times=times[200:])
        np.testing.assert_array_equal(one.novelty_p_, whole.novelty_p_[200:])
    assert np.all((whole.novelty_p_ > 0.0) & (whole.novelty_p_ <= 1.0))


def test_a_model_from_a_file_has_no_events_yet():
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0]])
    loaded = DynamicalMixture.from_bytes(model.to_bytes())
    assert loaded.events_ == []
    loaded.rename(0, "a")
    assert [event.kind for event in loaded.events_] == ["renamed"]
    assert not hasattr(loaded, "novelty_p_")


@pytest.mark.parametrize("rate", [0, 0.6, -1, "x", True, np.nan])
def test_a_rate_is_a_share_of_rows(rate):
    with pytest.raises(ValueError, match="alarm_rate must be None or a number"):
        DynamicalMixture(alarm_rate=rate).fit([[0.0]])


@pytest.mark.parametrize("n", [-1, 1001, 2.5, None])
def test_a_number_of_examples_is_whole(n):
    with pytest.raises(ValueError, match="n_examples must be an integer"):
        DynamicalMixture(n_examples=n).fit([[0.0]])


def test_examples_are_rows_of_the_table():
    X, times = stream()
    model = DynamicalMixture(Gaussian(1.0, 100.0), STICKY, 0.1, n_examples=3)
    cut(model, X[:200], times[:200], [7, 50])
    one_by_one = DynamicalMixture(Gaussian(1.0, 100.0), STICKY, 0.1, n_examples=3)
    for x, t in zip(X[:200], times[:200], strict=True):
        one_by_one.learn_one(x, t)
    model = DynamicalMixture.from_bytes(model.to_bytes())
    assert model.to_bytes() == one_by_one.to_bytes()
    cut(model, X[200:], times[200:], [1])
    labels = DynamicalMixture(Gaussian(1.0, 100.0), STICKY, 0.1).fit(X, times=times).labels_
    for table in model.table_ids_.tolist():
        typical, latest = model.examples(table)
        own = np.flatnonzero(labels == table)
        assert latest.numbers.tolist() == own[::-1][:3].tolist()
        assert set(typical.numbers) <= set(own)
        np.testing.assert_array_equal(typical.X, X[typical.numbers])
    a, b = model.table_ids_[:2].tolist()
    model.merge(a, b)
    both = np.flatnonzero(np.isin(labels, [a, b]))
    assert model.examples(b).latest.numbers.tolist() == both[::-1][:3].tolist()
    model.split(a, X[both[:1]], times=times[both[:1]])
    assert len(model.examples(a).latest.numbers) == 0
    with pytest.raises(ValueError, match="give n_examples"):
        DynamicalMixture(Gaussian(1.0, 100.0)).fit(X).examples(0)


def test_dates_that_microseconds_do_not_reach():
    times = np.array(["2024-01-01", "290000-01-01", "300000-01-01"], dtype="M8[s]")
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0], [-9.0]], times=times)
    assert [event.time for event in model.events_] == list(times)
    assert as_plain(model.events_[-1])["time"] == "300000-01-01T00:00:00Z"

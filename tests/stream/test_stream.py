"""Stream: what is refused changes nothing, and what is interrupted keeps what was learned."""

import tracemalloc

import numpy as np
import pytest

from dyncrp import DynamicalMixture, Gaussian, Multinomial, Stationary, combine
from dyncrp.input.input import Input, NamedRows
from dyncrp.search.spec import ModelSpec
from dyncrp.stream import Stream
from dyncrp.stream.learner import Learner

KNOWN = {"family": Gaussian(1.0, 100.0), "dynamics": Stationary(), "alpha": 1.0}
ROWS = np.random.default_rng(0).normal(size=(40, 2))


def stream(**params):
    return Stream(ModelSpec.resolve(**KNOWN | params))


def texts(n):
    words = ["storm coast rain", "vote house poll", "goal match cup"]
    return [f"{words[i % 3]} {i % 7}x" for i in range(n)]


def cut_short(monkeypatch, n):
    """Let learners be interrupted after n rows of their next call."""
    plain = Learner.run

    def run(self, X, times, *arguments, **keywords):
        plain(self, X[:n], times[:n], *arguments, **keywords)
        raise KeyboardInterrupt

    monkeypatch.setattr(Learner, "run", run)


def test_a_stream_says_what_the_estimator_says():
    one, model = stream(), DynamicalMixture(**KNOWN).fit(ROWS)
    batch = one.learn(ROWS)
    np.testing.assert_array_equal(batch.trace.labels, model.labels_)
    assert one.to_bytes() == model.to_bytes()
    np.testing.assert_array_equal(one.predict(ROWS), model.predict(ROWS))
    np.testing.assert_array_equal(one.responsibilities(ROWS), model.predict_proba(ROWS))
    np.testing.assert_array_equal(one.log_density(ROWS), model.score_samples(ROWS))
    again = Stream.from_state(one.spec, one.to_state())
    assert again.learn(ROWS).trace.labels.tolist() == one.learn(ROWS).trace.labels.tolist()


def test_a_stream_without_rows_says_so():
    with pytest.raises(ValueError, match="no rows yet"):
        stream().predict(ROWS)


@pytest.mark.parametrize(
    ("X", "times"),
    [([[1.0, np.inf]], None), ([[1.0]], None), ([[1.0, 2.0]], [3.0]), ([["a", "b"]], None), (np.zeros((0, 2)), None)],
)
def test_rows_that_are_refused_change_nothing(X, times):
    one = stream()
    one.learn(ROWS)
    before = one.to_bytes()
    with pytest.raises(ValueError, match=r"\w"):
        one.learn(X, times)
    assert one.to_bytes() == before


def test_a_frame_that_is_refused_leaves_no_category_behind():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": np.arange(30) % 7 * 1.5, "kind": ["a", "b", "c"] * 10})
    model = DynamicalMixture().fit(frame).learn_unknown()
    before = model.to_bytes()
    with pytest.raises(ValueError, match="x"):
        model.partial_fit(pd.DataFrame({"x": [1.0, "!"], "kind": ["new", "a"]}))
    assert model.to_bytes() == before


def test_an_interrupted_call_knows_the_words_and_categories_of_the_rows_that_it_learned(monkeypatch):
    pd = pytest.importorskip("pandas")
    words = Stream(ModelSpec.resolve(Multinomial(10.0), Stationary(), 0.5))
    words.learn(texts(30))
    frame = pd.DataFrame({"x": np.arange(40) % 7 * 1.5, "kind": ["a", "b", "c", "d"] * 10})
    columns = DynamicalMixture().fit(frame).learn_unknown().stream_
    with monkeypatch.context() as patch:
        cut_short(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            words.learn(["storm flood", "flood tide", "poll tax"])
        with pytest.raises(KeyboardInterrupt):
            columns.learn(pd.DataFrame({"x": [1.0] * 3, "kind": ["new", "a", "newer"]}))
    assert words.n_rows == 32
    assert "flood" in words.input.vocabulary
    assert "new" in columns.input.encoding["kind"].words


def test_rows_that_a_reader_has_encoded_bring_their_names():
    one = stream()
    one.learn(NamedRows(ROWS, ["a", "b"]))
    assert one.input.names == ("a", "b")
    plain = stream()
    plain.learn(ROWS)
    np.testing.assert_array_equal(one.predict(NamedRows(ROWS, ["a", "b"])), plain.predict(ROWS))
    assert Stream.from_bytes(one.to_bytes()).input == Input(("a", "b"))


def test_a_combined_model_has_all_parameters_and_no_row_that_nobody_sent():
    models = [DynamicalMixture(**KNOWN, alarm_rate=0.01, n_examples=2).fit(part) for part in (ROWS[:20], ROWS[20:])]
    combined = combine(models).model
    assert (combined.alarm_rate, combined.n_examples) == (0.01, 2)
    assert combined.stream_.learner.sketch.n == 0
    assert combined.n_observations_ == 40


def test_an_alarm_rate_can_be_set_and_is_saved():
    one = stream()
    one.learn(ROWS)
    one.set_alarm_rate(0.02)
    again = Stream.from_bytes(one.to_bytes())
    assert again.spec.alarm_rate == 0.02
    assert again.learner.sketch.n == 40
    with pytest.raises(ValueError, match="alarm_rate"):
        one.set_alarm_rate(2.0)


def test_rows_that_are_no_frame_may_come_between_frames_of_a_warm_up():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame({"x": np.arange(60) % 7 * 1.5, "kind": ["a", "b", "c"] * 20})
    model = DynamicalMixture(warmup=100).partial_fit(frame[:20])
    model.partial_fit([[0.5, 1.0]]).partial_fit(frame[20:40]).partial_fit(pl.DataFrame(frame[40:].to_dict("list")))
    assert model.n_observations_ == 61


def test_a_cell_that_is_a_list_is_named():
    pd = pytest.importorskip("pandas")
    model = DynamicalMixture().fit(pd.DataFrame({"x": np.arange(30.0) % 7, "kind": ["a", "b", "c"] * 10}))
    with pytest.raises(ValueError, match=r"column 'kind' must hold categories, got .* at row 1"):
        model.predict(pd.DataFrame({"x": [1.0, 2.0], "kind": ["a", ["b"]]}))


def test_constraints_that_are_no_list_are_refused():
    with pytest.raises(ValueError, match="labels must have an entry for each of the 40 rows, got 5"):
        stream().learn(ROWS, labels=5)


def test_parameters_that_change_before_the_first_row_count():
    model = DynamicalMixture.from_stream(stream())
    assert model.set_params(alpha=50.0, max_tables=2).fit(ROWS * 50.0).n_tables_ == 2
    assert model.alpha_ == 50.0


def test_a_stream_that_was_replaced_does_not_come_back():
    model = DynamicalMixture(**KNOWN)
    model.on_event = lambda event: None
    before = model.fit(ROWS).stream_
    model.fit(ROWS[:5])
    before.learn(ROWS + 500.0)
    assert model.n_observations_ == 5


def test_the_cost_of_an_edit_does_not_depend_on_how_many_came_before():
    model = DynamicalMixture(Gaussian(1.0, 9.0)).fit([[0.0]])
    for at in range(5_000):
        model.rename(0, f"door {at}")
    tracemalloc.start()
    model.rename(0, "window")
    assert tracemalloc.get_traced_memory()[1] < 20_000  # a copy of all events would take twice as much
    tracemalloc.stop()
    assert len(model.events_) == 5_002
    assert model.partial_fit([[0.1]]).events_ == []

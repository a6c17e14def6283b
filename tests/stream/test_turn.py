"""Several threads, signals and forks at one stream."""

import contextlib
import os
import pickle
import sys
import threading

import numpy as np
import pytest

from dyncrp import DynamicalMixture, Exponential, Gaussian
from dyncrp.engine.native import NativeEngine
from dyncrp.stream.novelty import NoveltySketch
from dyncrp.stream.stream import Stream

X = np.random.default_rng(0).normal(size=(3000, 2)) + 10.0 * np.random.default_rng(1).integers(0, 6, (3000, 1))


def make(**params):
    told = {"alarm_rate": 0.01, "n_examples": 2} | params
    return DynamicalMixture(Gaussian(1.0, 100.0), Exponential(200.0), alpha=1.0, **told)


@pytest.fixture
def quick_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def all_at_once(*targets):
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("quick_switches")
def test_of_two_threads_that_learn_at_once_one_waits_or_is_refused():
    model, refused, learned = make().partial_fit(X[:10]), [], []

    def learn():
        for begin in range(0, 2000, 50):
            try:
                learned.append(len(model.partial_fit(X[begin : begin + 50]).labels_))
            except RuntimeError as error:
                refused.append(str(error))

    def learn_one():
        for x in X[:300]:
            try:
                model.learn_one(x)
                learned.append(1)
            except RuntimeError as error:
                refused.append(str(error))

    all_at_once(learn, learn, learn_one)
    assert set(refused) <= {"this model is learning in another thread"}
    again = DynamicalMixture.from_bytes(model.to_bytes())
    assert again.n_observations_ == 10 + sum(learned)
    assert again.stream_.learner.sketch.n == again.n_observations_


@pytest.mark.usefixtures("quick_switches")
def test_those_who_ask_while_another_thread_learns_change_nothing():
    model, alone, done, files = make(), make(), threading.Event(), []
    for one in (model, alone):
        one.partial_fit(X[:10])

    def learn():
        for begin in range(10, 1500, 100):
            model.partial_fit(X[begin : begin + 100])
        for x in X[1510:2000]:
            model.learn_one(x)
        done.set()

    def ask():
        while not done.is_set():
            files.append(model.to_bytes())
            model.examples(0)
            _ = model.events_, model.novelty_p_, model.alpha_

    all_at_once(learn, ask, ask)
    for begin in range(10, 1500, 100):
        alone.partial_fit(X[begin : begin + 100])
    for x in X[1510:2000]:
        alone.learn_one(x)
    assert model.to_bytes() == alone.to_bytes()
    for content in files[:: max(1, len(files) // 5)]:
        DynamicalMixture.from_bytes(content)


class Stopped(BaseException):
    """As KeyboardInterrupt."""


def interrupt(patch, owner, name, *, call, before):
    """Let a call of a method be interrupted, before or after it has done its work."""
    method, calls = getattr(owner, name), []

    def stop(self, *args, **kwargs):
        calls.append(name)
        if before and len(calls) == call:
            raise Stopped
        result = method(self, *args, **kwargs)
        if len(calls) == call:
            raise Stopped
        return result

    patch.setattr(owner, name, stop)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("params", [{}, {"learn_alpha": True}, {"surge_rate": 0.002}])
@pytest.mark.parametrize(
    ("owner", "name"), [(NativeEngine, "run"), (NoveltySketch, "add_evidence"), (NoveltySketch, "_take")]
)
def test_an_interrupted_call_is_as_if_it_had_ended_with_the_rows_that_it_learned(
    monkeypatch, owner, name, params, before
):
    model, heard = make(**params).partial_fit(X[:50]), []
    model.on_event = heard.append
    with monkeypatch.context() as patch:
        interrupt(patch, owner, name, call=2, before=before)
        try:
            model.partial_fit(X[50:900])
            model.partial_fit(X[900:950])
        except Stopped:
            pass
        else:
            pytest.fail("it was not interrupted")
    n = model.n_observations_
    whole, told = make(**params).partial_fit(X[:50]), []
    whole.on_event = told.append
    whole.partial_fit(X[50 : min(n, 900)])
    if n > 900:
        whole.partial_fit(X[900:n])
    assert model.to_bytes() == whole.to_bytes()
    if name != "_take":  # which may be the computation of p-values for the events
        assert heard == told
        assert model.labels_.tolist() == whole.labels_.tolist()


@pytest.mark.parametrize("before", [False, True])
def test_a_single_row_is_counted_once_whenever_it_is_interrupted(monkeypatch, before):
    model = make(n_examples=0).partial_fit(X[:50])
    with monkeypatch.context() as patch:
        interrupt(patch, NoveltySketch, "add_one", call=3, before=before)
        for x in X[50:60]:
            with contextlib.suppress(Stopped):
                model.learn_one(x)
    whole = make(n_examples=0).partial_fit(X[:60])
    assert model.n_observations_ == 60
    assert model.to_bytes() == whole.to_bytes()


def test_a_handler_in_the_midst_of_learning_can_neither_learn_nor_copy(monkeypatch):
    model = make().partial_fit(X[:50])
    refused = []

    def ask(sketch, evidence, *, wait):
        for call in (model.to_bytes, lambda: model.partial_fit(X[:1]), lambda: model.learn_one(X[0])):
            with pytest.raises(RuntimeError, match=r"cannot be (asked|changed) before that ends"):
                call()
            refused.append(call)

    with monkeypatch.context() as patch:
        patch.setattr(NoveltySketch, "add_evidence", ask)
        model.partial_fit(X[50:60])
    assert len(refused) == 3


def test_a_function_that_is_told_of_events_may_ask_and_edit():
    model, saved = make(alarm_rate=None), []

    def hear(event):
        saved.append(model.to_bytes())
        if event.kind == "opened":
            model.rename(event.table, f"table {event.table}")

    model.on_event = hear
    model.partial_fit(X[:100])
    assert set(model.names_) == set(range(model.n_opened_))
    assert all(DynamicalMixture.from_bytes(one).n_observations_ == 100 for one in saved)


def in_child(do):
    """Return what a forked process says of ``do()``."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover
        try:
            answer = str(do())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_process_forked_while_the_engine_learns_does_not_wait_for_it():
    rows, model = np.tile(X, (50, 1)), make().partial_fit(X[:50])
    thread = threading.Thread(target=lambda: model.partial_fit(rows))
    thread.start()
    while model.n_observations_ < 100:
        pass
    answer = in_child(lambda: model.predict(X[:2]))
    thread.join()
    assert answer.startswith(("RuntimeError: this process was forked", "["))  # the thread may have ended before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("ask", ["to_bytes", "partial_fit"])
def test_a_process_forked_while_another_thread_learns_is_refused(monkeypatch, ask):
    model, begun, go_on = make().partial_fit(X[:50]), threading.Event(), threading.Event()
    run = NativeEngine.run

    def learn(engine, *args):  # a call that takes long in the engine
        begun.set()
        go_on.wait()
        return run(engine, *args)

    monkeypatch.setattr(NativeEngine, "run", learn)
    thread = threading.Thread(target=lambda: model.partial_fit(X[50:100]))
    thread.start()
    begun.wait()
    do = {"to_bytes": model.to_bytes}.get(ask, lambda: getattr(model, ask)(X[:2]))
    answer = in_child(do)
    go_on.set()
    thread.join()
    assert answer == "RuntimeError: this process was forked while another thread used this model: load it from a file"
    assert in_child(lambda: model.partial_fit(X[100:110]).n_observations_) == "110"
    assert model.n_observations_ == 100


def test_a_copy_of_a_stream_has_a_turn_of_its_own():
    stream = make().partial_fit(X[:20]).stream_
    copy = pickle.loads(pickle.dumps(stream))
    with stream.turn.lock:
        assert isinstance(copy, Stream)
        done = []
        thread = threading.Thread(target=lambda: done.append(copy.learn(X[20:30])))
        thread.start()
        thread.join()
    assert len(done) == 1

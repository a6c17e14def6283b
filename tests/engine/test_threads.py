"""The compiled engine interrupted, and asked by several threads at once."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from cases import ENGINE_FAMILIES, PATIENCE
from dyncrp import Exponential, Gaussian, VonMisesFisher
from dyncrp.engine.native import NativeEngine
from engines import assert_same_bits, make_model, make_stream, parts_of, run_in_pieces

pytestmark = pytest.mark.usefixtures("no_lower_bounds")


def test_threads_may_judge_single_rows_at_once():
    X = np.array([[0.0, 0.0], [50.0, 50.0]] * 5)
    engine = NativeEngine(make_model(Gaussian(1.0, 100.0), Exponential(20.0)), 2)
    engine.run(X, np.arange(10.0))
    wrong = []

    def ask(i):
        wrong.extend(1 for _ in range(4000) if engine.predict_one(X[i], 10.0)[0] != i)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask, args=(i,)) for i in (0, 1, 0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def long_stream(name, repeats=100):
    """A model whose tables close, and rows: by default for minutes."""
    family, D = ENGINE_FAMILIES[name]
    X, _ = make_stream(family, D, 20_000, seed=30, n_clusters=400)
    return make_model(family, Exponential(200.0), 5.0, max_tables=300, prune_below=1e-3), np.tile(X, (repeats, 1))


class Interrupted(Exception):
    """What the handler of these tests raises."""


def interrupt_once(begun, after=0.1):
    """Send SIGINT to this thread so many seconds after ``begun()`` is true; return the thread that does."""

    def wait():
        while not begun():
            time.sleep(0.01)
        time.sleep(after)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def sent():
    """Let SIGINT raise ``Interrupted`` in this thread, and say what time of a processor it had taken by then."""
    when = []

    def handler(*_):
        when.append(time.thread_time())
        raise Interrupted

    before = signal.signal(signal.SIGINT, handler)
    yield when
    signal.signal(signal.SIGINT, before)


each_header = pytest.mark.parametrize(
    "name",
    [
        "gaussian",
        "gaussian-diagonal",
        "unknown-variance",
        "unknown-covariance",
        "bernoulli",
        "poisson",
        "categorical",
        "von-mises-fisher",
        "columns-of-all-kinds",
    ],
)


@pytest.mark.slow
@each_header
def test_an_interrupted_call_has_learned_the_rows_it_came_to_and_no_other(name, sent):
    model, X = long_stream(name, repeats=20 if name == "columns-of-all-kinds" else 100)
    engine = NativeEngine(model, X.shape[1])
    times = np.arange(float(len(X)))
    interrupt_once(lambda: engine.n_observations > 0, after=0.02)
    with pytest.raises(Interrupted):
        engine.run(X, times)
    n = engine.n_observations
    assert 0 < n < len(X)
    assert engine.time == n - 1
    whole = NativeEngine(model, X.shape[1])
    whole.run(X[:n], times[:n])
    assert_same_bits(whole.arrays(), engine.arrays())
    trace, again = whole.run(X[n : n + 200], times[n : n + 200]), engine.run(X[n : n + 200], times[n : n + 200])
    assert_same_bits(parts_of(trace), parts_of(again))


def test_judging_can_be_interrupted_too(sent):
    model, X = long_stream("gaussian")
    engine = NativeEngine(model, X.shape[1])
    engine.run(X[:5000], np.arange(5000.0))
    before, times = engine.arrays(), np.full(len(X), 5000.0)
    interrupt_once(lambda: True)
    with pytest.raises(Interrupted):
        engine.predict(X, times)
    assert time.thread_time() - sent[0] < 0.5  # of a processor, where all the rows take 2 seconds
    assert_same_bits(before, engine.arrays())


def test_a_handler_that_asks_the_model_in_the_midst_of_learning_is_refused():
    model, X = long_stream("gaussian")
    engine = NativeEngine(model, X.shape[1])
    refused = []

    def handler(*_):
        for ask in (lambda: engine.predict_one(X[0], 1e9), engine.arrays, lambda: engine.run_one(X[0], 1e9)):
            with pytest.raises(RuntimeError, match="learning"):
                ask()
            refused.append(ask)
        raise Interrupted

    before = signal.signal(signal.SIGINT, handler)
    interrupt_once(lambda: engine.n_observations > 0)
    try:
        with pytest.raises(Interrupted):
            engine.run(X, np.arange(float(len(X))))
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(refused) == 3
    assert engine.predict_one(X[0], 1e9)[0] in [-1, *engine.ids]


@pytest.mark.slow
@each_header
def test_those_who_ask_while_another_thread_learns_wait_and_get_one_state(name):
    model, X = long_stream(name, repeats=1)
    engine = NativeEngine(model, X.shape[1])
    n, chunk = 3000, 750
    answers, refused, done = [], [], threading.Event()

    def learn():
        for begin in range(0, n, chunk):
            engine.run(X[begin : begin + chunk], np.arange(begin, begin + chunk, dtype=float))
        done.set()

    def ask():
        while not done.is_set():
            arrays, labels = engine.arrays(), engine.predict(X[:5], np.full(5, 1e6))
            answers.append((int(arrays["n_observations"]), len(labels)))
            engine.predict_one(X[0], 1e6)
            engine.responsibilities(X[:3], np.full(3, 1e6))
            engine.log_density(X[:3], np.full(3, 1e6))

    def intrude():
        while not done.is_set():
            try:
                engine.set_alpha(5.0)
            except RuntimeError as error:
                refused.append(str(error))
            time.sleep(0.001)

    threads = [threading.Thread(target=target) for target in (ask, ask, intrude)]
    for thread in threads:
        thread.start()
    while True:
        try:
            learn()
            break
        except RuntimeError:  # the intruder was quicker; what was not learned is learned again from the start
            engine = NativeEngine(model, X.shape[1])
    for thread in threads:
        thread.join()
    assert all(count % chunk == 0 for count, _ in answers)
    assert all(message == "this model is learning in another thread" for message in refused)
    alone = NativeEngine(model, X.shape[1])
    alone.run(X[:n], np.arange(float(n)))
    assert_same_bits(alone.arrays(), engine.arrays())


def test_single_numbers_can_be_read_while_another_thread_learns():
    model, X = long_stream("gaussian")
    engine = NativeEngine(model, X.shape[1])
    learning = threading.Thread(target=lambda: engine.run(X[:200_000], np.arange(200_000.0)))
    learning.start()
    seen = [engine.n_observations]
    while learning.is_alive():
        seen.append(engine.n_observations)
        time.sleep(0.01)
    learning.join()
    assert seen == sorted(seen)
    assert engine.n_observations == 200_000
    assert len(set(seen)) > 2


def test_a_handler_may_ask_but_not_teach_while_the_model_is_asked(sent):
    model, X = long_stream("gaussian")
    engine = NativeEngine(model, X.shape[1])
    engine.run(X[:5000], np.arange(5000.0))
    answers = []

    def handler(*_):
        answers.append(len(engine.arrays()))
        with pytest.raises(RuntimeError, match="being asked in this thread"):
            engine.run_one(X[0], 1e9)
        raise Interrupted

    signal.signal(signal.SIGINT, handler)
    learner = threading.Thread(target=lambda: engine.run(X[5000:5100], np.arange(5000.0, 5100.0)))
    interrupt_once(lambda: True)
    timer = threading.Timer(0.05, learner.start)
    timer.start()
    with pytest.raises(Interrupted):
        engine.predict(X, np.full(len(X), 5000.0))
    timer.join()
    learner.join()
    assert answers
    assert engine.n_observations == 5100


@pytest.mark.slow
@pytest.mark.parametrize("call", ["partial_fit", "predict"])
def test_a_thread_at_work_does_not_hinder_the_end_of_the_program(call):
    code = f"""
import threading, time, numpy as np
from dyncrp import DynamicalMixture, Gaussian, Stationary
X = np.random.default_rng(0).normal(size=(100_000, 64)) * 100
model = DynamicalMixture(Gaussian(1.0, 1e4), Stationary(), 1.0).fit(X[:2000])
threading.Thread(target=lambda: model.{call}(X), daemon=True).start()
time.sleep(0.2)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["gaussian", "von-mises-fisher"])
def test_bits_do_not_depend_on_the_number_of_threads(name):
    D = 300
    family = {"gaussian": Gaussian(1.0, 4.0), "von-mises-fisher": VonMisesFisher(300.0)}[name]
    X, times = make_stream(family, D, 900, seed=13, n_clusters=300)
    model = make_model(family, Exponential(1e4))
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            engine, report = run_in_pieces(model, X, times, [])
            shares = {"shares": engine.responsibilities(X, times + times[-1])}
        assert engine.n_tables > 200
        results.append(report | engine.arrays() | shares)
    assert_same_bits(*results)

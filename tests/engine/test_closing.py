"""Tables that close: which, when, and that the compiled engine and the reference agree on it."""

import math
import pickle

import numpy as np
import pytest

from cases import ENGINE_DYNAMICS, ENGINE_FAMILIES, MANY, in_turn, pairwise
from dyncrp import Exponential, Gaussian, LinearODE
from dyncrp.engine import ReferenceEngine
from dyncrp.engine.native import NativeEngine
from engines import (
    ASSIGNMENTS,
    FIRST_CAPACITY,
    MEMORIES,
    assert_agrees,
    assert_same_bits,
    distinct_rows,
    make_model,
    make_stream,
    run_in_pieces,
)

pytestmark = pytest.mark.usefixtures("no_lower_bounds")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "name", "dynamics", "assignment", "max_tables", "prune_below", "memory"),
    [
        (seed, *case)
        for seed, case in enumerate(
            pairwise(
                ENGINE_FAMILIES,
                ENGINE_DYNAMICS,
                ASSIGNMENTS,
                [None, 1, 2, 5, 40],
                [0.0, 1e-3, 0.2, 3.0],
                [math.inf, 5.0],
                apart=(0, 1),
            )
        )
    ],
)
def test_generated_streams_of_tables_that_close(seed, name, dynamics, assignment, max_tables, prune_below, memory):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 90, seed, n_clusters=12)
    rng = np.random.default_rng(seed)
    alpha, threshold = 10.0 ** rng.uniform(-1.3, 1.5), rng.uniform(0.3, 0.9)
    rules = {"new_table_threshold": threshold, "max_tables": max_tables, "prune_below": prune_below}
    model = make_model(family, ENGINE_DYNAMICS[dynamics], alpha, memory, assignment=assignment, **rules)
    _, engine = assert_agrees(model, X, times)
    assert max_tables is None or engine.n_tables <= max_tables


CLOSING = {"max_tables": 70, "prune_below": 0.004}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "assignment", "memory"), in_turn(MANY, ASSIGNMENTS, MEMORIES))
def test_many_tables_close_in_order_and_however_the_stream_is_cut(name, assignment, memory):
    family, D = MANY[name]
    rng = np.random.default_rng(3)
    # Visits wander through 160 places: some close at the limit, others for want of visits, some come back as new.
    X = distinct_rows(name, D, 160, seed=0)[(np.arange(500) // 2 + rng.integers(0, 60, 500)) % 160]
    times = np.arange(500.0)
    model = make_model(family, Exponential(20.0), memory=memory, assignment=assignment, **CLOSING)
    _, engine = assert_agrees(model, X, times)
    assert engine.n_opened > 200  # of 160 places
    whole, report = run_in_pieces(model, X, times, [])
    assert len(report["closed"]) == whole.n_opened - whole.n_tables
    for cuts in ([370], [1, 2, 3, 50, 51, 400, 499]):
        pieces, again = run_in_pieces(model, X, times, cuts)
        assert_same_bits(report, again)
        assert_same_bits(whole.arrays(), pieces.arrays())
    one = NativeEngine(model, D)
    assert [one.run_one(x, t)[0] for x, t in zip(X, times, strict=True)] == report["labels"].tolist()
    assert_same_bits(whole.arrays(), one.arrays())


@pytest.mark.parametrize("seed", range(12))
def test_occupancies_that_are_0_on_paper_tie(seed):
    # An undamped wave at its zeros: what is left there is rounding, which differs between engines.
    rng = np.random.default_rng(seed)
    X = 1000.0 * rng.integers(0, 6, (120, 1))
    model = make_model(Gaussian(1.0, 1e7), LinearODE([1.0, 0.0, 1.0]), max_tables=3)
    assert_agrees(model, X, np.cumsum(rng.integers(0, 3, 120)) * np.pi / 2)


def test_too_many_tables_close_at_once():
    # A state that holds more than it may, as a file may be edited to say.
    rows = distinct_rows("gaussian", 5, 12, seed=0)
    reference, engine = (
        kind(make_model(Gaussian(1.0, 1e6), Exponential(9.0)), 5) for kind in (ReferenceEngine, NativeEngine)
    )
    for one in (reference, engine):
        one.run(rows[:10], np.arange(10.0))
        one.model = make_model(Gaussian(1.0, 1e6), Exponential(9.0), max_tables=4)
        one.set_alpha(0.83)
        trace = one.run(rows[10:11], np.array([10.0]))
        assert sorted(trace.closed.tolist()) == [0, 1, 2, 3, 4, 5, 6]
        assert one.ids.tolist() == [7, 8, 9, 10]


def test_closing_frees_the_room():
    rows = distinct_rows("gaussian", 5, 5000, seed=0)
    engine = NativeEngine(make_model(Gaussian(1.0, 1e6), Exponential(50.0), max_tables=20), 5)
    engine.run(rows, np.arange(5000.0))
    assert engine.ids.tolist() == list(range(4980, 5000))
    assert engine._capacity == 2 * FIRST_CAPACITY  # 20 tables, and those that close within a block


def test_a_table_that_opens_when_another_closes_may_be_the_next_to_close():
    X = np.array([[0.0]] * 50 + [[50.0]] * 100 + [[100.0]] + [[50.0]] * 100)
    model = make_model(Gaussian(1.0, 1e4), Exponential(100.0), 1.0, max_tables=2, prune_below=0.5)
    times = np.arange(float(len(X)))
    whole, reference = NativeEngine(model, 1), ReferenceEngine(model, 1)
    trace, expected = whole.run(X, times), reference.run(X, times)
    assert whole.ids.tolist() == reference.ids.tolist() == [1]
    assert trace.closed.tolist() == expected.closed.tolist()
    begun = NativeEngine(model, 1)
    begun.run(X[:160], times[:160])
    again = pickle.loads(pickle.dumps(begun))
    again.run(X[160:], times[160:])
    assert_same_bits(whole.arrays(), again.arrays())

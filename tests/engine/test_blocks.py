"""No bit depends on blocks or cuts, and tables may open, grow and turn within a block."""

import weakref

import numpy as np
import pytest

from cases import ENGINE_DYNAMICS, ENGINE_FAMILIES, MANY, in_turn, pairwise
from dyncrp import Exponential, Gaussian, VonMisesFisher
from dyncrp.engine.native import NativeEngine
from engines import (
    ASSIGNMENTS,
    FIRST_CAPACITY,
    MEMORIES,
    RECENTRED,
    assert_agrees,
    assert_same_bits,
    assignments,
    crowded,
    distinct_rows,
    make_model,
    make_stream,
    memories,
    recentred,
    run_in_pieces,
    table_counts,
)

pytestmark = pytest.mark.usefixtures("no_lower_bounds")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "assignment", "memory"), in_turn(MANY, ASSIGNMENTS, MEMORIES))
def test_tables_open_inside_a_block_and_past_the_first_capacity(name, assignment, memory):
    family, D = MANY[name]
    rows = distinct_rows(name, D, 150, seed=0)
    order = np.concatenate([np.arange(150), np.random.default_rng(1).integers(150, size=100)])
    model = make_model(family, Exponential(1e4), memory=memory, assignment=assignment)
    _, engine = assert_agrees(model, rows[order], np.arange(250.0))
    assert engine.n_tables > 2 * FIRST_CAPACITY


@pytest.mark.parametrize(("name", "assignment", "memory"), pairwise(MANY, ASSIGNMENTS, MEMORIES))
def test_a_table_that_grows_fast_within_a_block(name, assignment, memory):
    # It opens in the last row of a block of 32 and takes in all of the next: the screening must follow it.
    family, D = MANY[name]
    one, other = distinct_rows(name, D, 2, seed=0)
    X = np.array([one] * 31 + [other] * 33)
    _, engine = assert_agrees(make_model(family, memory=memory, assignment=assignment), X, np.arange(64.0))
    assert engine.n_tables == 2


@assignments
def test_a_direction_that_turns_round_within_a_block(assignment):
    # A table follows it, and points the other way in the end: so must its screening.
    angles = 0.1 * np.arange(64)
    X = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(64)])
    model = make_model(VonMisesFisher(500.0), alpha=1e-6, memory=2.0, assignment=assignment)
    _, engine = assert_agrees(model, X, np.arange(64.0))
    assert engine.n_tables == 1


def test_more_tables_than_a_block_of_the_largest_size():
    rows = distinct_rows("gaussian", 5, 600, seed=0)
    order = np.concatenate([np.arange(600), np.random.default_rng(1).integers(600, size=400)])
    X = rows[order] + np.random.default_rng(2).normal(size=(1000, 5))
    _, engine = assert_agrees(make_model(Gaussian(1.0, 1e6)), X, np.arange(1000.0))
    assert engine.n_tables >= 590


def test_room_doubles_and_is_then_enough():
    rows = distinct_rows("gaussian", 5, 300, seed=0)
    engine = NativeEngine(make_model(Gaussian(1.0, 1e6)), 5)
    rooms = []
    for n, row in enumerate(rows):
        engine.run(row[None, :], np.array([float(n)]))
        rooms.append(engine._capacity)
    assert engine.n_tables == 300
    assert sorted(set(rooms)) == [64, 128, 256, 512]
    engine.run(np.tile(rows, (5, 1)), np.arange(300.0, 1800.0))
    assert engine.n_tables == 300
    assert engine._capacity == 512


@pytest.mark.parametrize(("name", "assignment", "memory"), pairwise(ENGINE_FAMILIES, ASSIGNMENTS, MEMORIES))
def test_bits_do_not_depend_on_how_a_stream_is_cut(name, assignment, memory):
    family, X, times = crowded(name)
    model = make_model(
        family, ENGINE_DYNAMICS["sum-of-products"], 3.1, memory, assignment=assignment, new_table_threshold=0.23
    )
    whole, report = run_in_pieces(model, X, times, [])
    assert whole.n_tables > 20

    def check(cuts, **tuning):
        engine, other = run_in_pieces(model, X, times, cuts, **tuning)
        assert_same_bits(other, report)
        assert_same_bits(engine.arrays(), whole.arrays())

    check(np.arange(1, len(X)))
    check([1, 2, 3, 40, 41, 200])
    for size in (1, 3, 17, 128):
        check([], block=size)
        check([7], block=size)


@memories
@recentred
def test_bits_do_not_depend_on_the_reference_point(name, memory):
    # The first row lies so far out that screening about it is blunt, until the reference point moves.
    family, D = RECENTRED[name]
    X, times = make_stream(family, D, 200, seed=20)
    X[0] += 1e4
    model = make_model(family, Exponential(60.0), memory=memory)
    results = []
    for patience in (10, 10**9):
        for cuts in ([], np.arange(1, 200)):
            engine, report = run_in_pieces(model, X, times, cuts, blunt_rows=patience)
            results.append(report | engine.arrays())
    for other in results[1:]:
        assert_same_bits(results[0], other)
    assert_agrees(model, X, times)


@memories
@pytest.mark.parametrize("name", MANY)
def test_one_observation_at_a_time_gives_the_same_bits(name, memory):
    family, D = MANY[name]
    X = np.repeat(distinct_rows(name, D, 150, seed=0), 2, axis=0)
    model = make_model(family, Exponential(100.0), memory=memory)
    whole, report = run_in_pieces(model, X, np.arange(300.0), [])
    engine = NativeEngine(model, D)
    steps = [engine.run_one(x, float(t)) for t, x in enumerate(X)]
    assert [label for label, _ in steps] == report["labels"].tolist()
    assert [evidence for _, evidence in steps] == report["log_evidence"].tolist()
    assert_same_bits(engine.arrays(), whole.arrays())


@table_counts
@pytest.mark.parametrize("dynamics", ENGINE_DYNAMICS)
def test_bits_do_not_depend_on_cuts_for_any_dynamics(dynamics, table_count):
    # Long enough for the frame of every decaying dynamics to move several times.
    family, X, times = crowded("gaussian")
    model = make_model(family, ENGINE_DYNAMICS[dynamics], table_count=table_count, new_table_threshold=0.17)
    whole, report = run_in_pieces(model, X, 100.0 * times, [])
    engine, other = run_in_pieces(model, X, 100.0 * times, [1, 50, 51, 52, 53, 200])
    assert_same_bits(other, report)
    assert_same_bits(engine.arrays(), whole.arrays())


@pytest.mark.parametrize("name", MANY)
def test_asking_changes_nothing_about_what_is_learned_next(name):
    family, D = MANY[name]
    X, times = make_stream(family, D, 120, seed=19, n_clusters=20)
    model = make_model(family, Exponential(30.0), assignment="variational")
    curious, quiet = NativeEngine(model, D), NativeEngine(model, D)
    for part in np.array_split(np.arange(120), 4):
        quiet.run(X[part], times[part])
        curious.run(X[part], times[part])
        curious.responsibilities(X, times + times[-1])
        curious.log_density(X, times + times[-1])
    assert_same_bits(curious.arrays(), quiet.arrays())


def test_engines_are_freed():
    family, D = ENGINE_FAMILIES["gaussian"]
    engine = NativeEngine(make_model(family), D)
    watch = weakref.ref(engine)
    del engine
    assert watch() is None


def test_the_stream_is_not_modified():
    for family, D in ENGINE_FAMILIES.values():
        X, times = make_stream(family, D, 50, seed=15)
        before = X.copy(), times.copy()
        engine, _ = run_in_pieces(make_model(family), X, times, [20])
        engine.responsibilities(X, times + times[-1])
        assert X.tobytes() == before[0].tobytes()
        assert np.array_equal(times, before[1])

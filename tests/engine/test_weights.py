"""Rows that count as several, as a fraction of one, or not at all: the reference, then the native engines."""

import math

import numpy as np
import pytest

from cases import ENGINE_DYNAMICS, ENGINE_FAMILIES, pairwise
from dyncrp import Exponential, Gaussian, Multinomial, NormalGamma, Stationary
from dyncrp.arrays.counts import as_counts
from dyncrp.engine import Model, ReferenceEngine, Rules, reference
from dyncrp.engine.native import NativeEngine, TextEngine
from dyncrp.engine.types import GRAIN, NEW, UNKNOWN, TableConstraints
from engines import (
    ASSIGNMENTS,
    MEMORIES,
    assert_agrees,
    assert_same_bits,
    families,
    make_model,
    make_stream,
    parts_of,
    restored,
)

pytestmark = pytest.mark.usefixtures("no_lower_bounds")

kinds = pytest.mark.parametrize("kind", [ReferenceEngine, NativeEngine])
DYNAMICS = ("stationary", "exponential", "sticky")


def weigh(weights, tables=None, marks=None):
    unknown = np.full(len(weights), UNKNOWN)
    tables, marks = (unknown if told is None else np.asarray(told) for told in (tables, marks))
    return TableConstraints(tables, marks, np.asarray(weights, dtype=np.float64))


def repeated(weights, X, times, tables):
    """The same stream with each row as often as its weight says; of the copies of a row that opens, one does."""
    at = np.repeat(np.arange(len(X)), weights)
    first = np.append(True, at[1:] != at[:-1])
    opened = np.cumsum(tables == NEW) - 1
    return X[at], times[at], np.where((tables[at] == NEW) & ~first, opened[at], tables[at])


def assert_same_tables(mine, its):
    """Compare what tables have learned; how many rows they have differs."""
    assert mine.ids.tolist() == its.ids.tolist()
    for name in ("stats", "squares", "mode_states"):
        ours, theirs = getattr(mine, name), getattr(its, name)
        size = np.max(np.abs(theirs), initial=1.0)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12 * size, err_msg=name)
    np.testing.assert_array_equal(mine.first_times, its.first_times)
    np.testing.assert_array_equal(mine.last_times, its.last_times)


@kinds
@pytest.mark.parametrize(("name", "dynamics", "memory"), pairwise(ENGINE_FAMILIES, DYNAMICS, [math.inf, 2.0]))
def test_an_integer_weight_is_that_many_equal_rows_at_given_tables(kind, name, dynamics, memory):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 24, seed=1)
    rng = np.random.default_rng(1)
    weights, tables = rng.integers(1, 5, 24), rng.integers(0, 3, 24)
    tables[:3] = NEW
    model = make_model(family, ENGINE_DYNAMICS[dynamics], memory=memory)
    one, other = kind(model, D), kind(model, D)
    one.run(X, times, weigh(weights, tables))
    X, times, tables = repeated(weights, X, times, tables)
    other.run(X, times, TableConstraints(tables, np.full(len(X), UNKNOWN)))
    assert_same_tables(one.state, other.state)
    assert one.state.sizes.sum() == 24  # sizes count rows


@kinds
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("family", [Gaussian(1.0, 1e6), NormalGamma(1.0, 1e6, 8.0)], ids=["gaussian", "gamma"])
def test_an_integer_weight_is_that_many_equal_rows_of_clusters_that_are_far_apart(kind, assignment, memory, family):
    rng = np.random.default_rng(2)
    X = 1000.0 * rng.integers(-3, 4, (60, 2)) + rng.normal(size=(60, 2))
    times, weights = np.sort(rng.uniform(0.0, 30.0, 60)), rng.integers(1, 5, 60)
    model = make_model(family, Exponential(40.0), memory=memory, assignment=assignment)
    one, other = kind(model, 2), kind(model, 2)
    at = np.repeat(np.arange(60), weights)
    labels, each = one.run(X, times, weigh(weights)).labels, other.run(X[at], times[at]).labels
    assert labels[at].tolist() == each.tolist()
    assert_same_tables(one.state, other.state)


@kinds
@pytest.mark.parametrize("memory", [math.inf, 3.0])
def test_fractions_of_a_row_at_one_table_add_up(kind, memory):
    model = make_model(Gaussian(1.0, 50.0), memory=memory)
    X, times = np.array([[0.3, 1.0], [0.7, 0.2], [0.7, 0.2], [0.7, 0.2]]), np.zeros(4)
    whole, parts = kind(model, 2), kind(model, 2)
    whole.run(X[:2], times[:2], weigh([1.0, 1.0], [NEW, 0]))
    parts.run(X, times, weigh([1.0, 0.5, 0.375, 0.125], [NEW, 0, 0, 0]))
    assert_same_tables(parts.state, whole.state)


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_row_that_tables_share_is_shared_as_without_a_weight(memory):
    model = make_model(Gaussian(1.0, 50.0), memory=memory)
    engine = ReferenceEngine(model, 1)
    engine.run(np.array([[0.0], [4.0]]), np.zeros(2), TableConstraints(np.array([NEW, NEW]), np.full(2, UNKNOWN)))
    before, x = engine.state, np.array([2.1])
    after, done = reference.step(before, x, 0.0, model, weight=3.0)
    once, plain = reference.step(before, x, 0.0, model)
    assert done.responsibilities.tolist() == plain.responsibilities.tolist()
    assert 0.1 < done.responsibilities[0] < 0.9
    assert done.log_evidence == plain.log_evidence
    stats = before.stats
    for _ in range(3):
        stats = reference.update(stats, done.responsibilities, model.family.statistics(x[None]), memory)
    np.testing.assert_allclose(after.stats, stats, rtol=1e-13)
    added = (after.mode_states - before.mode_states) / (once.mode_states - before.mode_states)
    np.testing.assert_allclose(added, 3.0)


@pytest.mark.parametrize(
    ("seed", "name", "dynamics", "assignment", "memory", "rules"),
    [
        (seed, *case)
        for seed, case in enumerate(
            pairwise(
                ENGINE_FAMILIES,
                ["exponential", "oscillatory", "goes-negative", "fast-and-slow"],
                ASSIGNMENTS,
                [math.inf, 2.0, 7.5],
                ["plain", "closing", "posterior"],
            )
        )
    ],
)
def test_generated_streams(seed, name, dynamics, assignment, memory, rules):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 40, seed)
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.0, 1e-3, 0.5, 1.0, 2.0, 37.5], len(X))
    weights[: rng.integers(4)] = 0.0  # before any table opens
    closing = {"max_tables": 4, "prune_below": 0.3}
    more = {"plain": {}, "closing": closing, "posterior": {"table_count": "posterior"}}[rules]
    rules = {"assignment": assignment, "new_table_threshold": rng.uniform(0.05, 0.99), **more}
    marks = np.where(rng.random(len(X)) < 0.3, np.arange(len(X)) // 3, UNKNOWN)
    told = weigh(weights, marks=None if "table_count" in more else marks)
    model = make_model(family, ENGINE_DYNAMICS[dynamics], 10.0 ** rng.uniform(-2.0, 1.5), memory, **rules)
    one, other = assert_agrees(model, X, times, told=told)
    for name in ("sizes", "first_times", "last_times", "mark", "taken"):
        np.testing.assert_array_equal(getattr(one.state, name), getattr(other.state, name))


def test_weights_that_are_large_or_small():
    rng = np.random.default_rng(4)
    for name in ("gaussian", "unknown-variance", "poisson", "von-mises-fisher", "columns"):
        family, D = ENGINE_FAMILIES[name]
        X, times = make_stream(family, D, 40, seed=4)
        assert_agrees(make_model(family, Exponential(9.0)), X, times, told=weigh(10.0 ** rng.uniform(-9.0, 9.0, 40)))
        told = weigh(rng.choice([1e-9, 1e9], 40))
        assert_agrees(make_model(family, Exponential(9.0), memory=5.0), X, times, told=told)


@families
def test_a_weight_of_1_is_no_weight_and_cuts_change_no_bit(name):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 90, seed=3)
    model = make_model(family, Exponential(9.0), memory=7.0)
    plain, ones = NativeEngine(model, D), NativeEngine(model, D)
    assert_same_bits(parts_of(plain.run(X, times)), parts_of(ones.run(X, times, weigh(np.ones(90)))))
    assert_same_bits(plain.arrays(), ones.arrays())

    told = weigh(np.append(1.0, np.random.default_rng(0).choice([0.0, 0.3, 1.0, 4.0], 89)))
    whole, pieces = NativeEngine(model, D), NativeEngine(model, D)
    expected = parts_of(whole.run(X, times, told))
    labels = []
    for begin, end in ((0, 1), (1, 40), (40, 41), (41, 90)):
        some = slice(begin, end)
        labels.append(pieces.run(X[some], times[some], told.part(some)).labels)
        pieces = restored(pieces)
    assert np.concatenate(labels).tolist() == expected["labels"].tolist()
    assert_same_bits(pieces.arrays(), whole.arrays())


@kinds
@pytest.mark.parametrize("rules", [{}, {"max_tables": 3}, {"prune_below": 0.3}, {"table_count": "posterior"}], ids=str)
def test_rows_of_weight_0_are_predicted_and_change_nothing(kind, rules):
    rng = np.random.default_rng(5)
    X, times = 5.0 * rng.integers(0, 5, (80, 2)) + rng.normal(size=(80, 2)), np.sort(rng.uniform(0.0, 60.0, 80))
    weights = np.append(2.0, rng.choice([0.0, 1.0, 2.5], 79))
    marks = np.full(80, UNKNOWN) if "table_count" in rules else np.arange(80) // 4
    model = make_model(Gaussian(1.0, 50.0), Exponential(9.0), **rules)
    learns = weights > 0
    one, other = kind(model, 2), kind(model, 2)
    trace = one.run(X, times, weigh(weights, marks=marks))
    kept = other.run(X[learns], times[learns], weigh(weights[learns], marks=marks[learns]))
    assert trace.labels[learns].tolist() == kept.labels.tolist()
    assert trace.n_columns == one.n_opened == other.n_opened
    assert_same_tables(one.state, other.state)
    assert one.state.sizes.tolist() == other.state.sizes.tolist()
    assert one.n_observations == 80
    np.testing.assert_allclose(one.log_evidence, np.sum(trace.log_evidence))  # each row counts once

    found, alone = kind(model, 2), np.full(80, UNKNOWN)
    for row in range(80):
        predicted = found.predict_one(X[row], times[row]) if row else (UNKNOWN, 0.0)
        some, told = slice(row, row + 1), weigh(weights[[row]], marks=alone[[row]])
        done = found.run(X[some], times[some], told)
        if weights[row] == 0.0:
            assert (done.labels[0], done.log_evidence[0]) == pytest.approx(predicted)
            assert found.time == times[row]
    assert np.any(trace.labels < 0)
    assert np.any(trace.labels[~learns] >= 0)
    at_new = np.flatnonzero(trace.labels < 0)
    left = 1.0 - np.sum(trace.responsibilities.toarray()[at_new], axis=1)
    np.testing.assert_allclose(trace.probability[at_new], left)


@kinds
def test_a_row_of_weight_0_at_a_given_table(kind):
    engine = kind(make_model(Gaussian(1.0, 50.0)), 1)
    engine.run(np.array([[0.0], [9.0]]), np.zeros(2))
    before = engine.state
    trace = engine.run(np.array([[0.1], [0.2]]), np.ones(2), weigh([0.0, 0.0], [1, NEW]))
    assert trace.labels.tolist() == [1, UNKNOWN]
    assert engine.n_tables == 2
    np.testing.assert_array_equal(engine.state.stats, before.stats)


def documents(n, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(25, 0.1), 8)
    X = np.array([rng.multinomial(rng.poisson(5.0), topics[k]) for k in rng.integers(8, size=n)], dtype=np.float64)
    return X, np.cumsum(rng.exponential(size=n))


def assert_same_words(mine, its):
    for one, other in (
        (mine.word_totals(), its.word_totals()),
        *((mine.word_counts(i), its.word_counts(i)) for i in its.ids),
    ):
        assert one.columns.tolist() == other.columns.tolist()
        assert one.counts.tolist() == other.counts.tolist()


@pytest.mark.parametrize("rules", [{}, {"max_tables": 5}, {"table_count": "posterior"}], ids=str)
@pytest.mark.parametrize("dynamics", ["exponential", "goes-negative"])
@pytest.mark.parametrize("background", [None, 3.0])
def test_documents_of_any_weight(background, dynamics, rules):
    X, times = documents(100)
    weights = np.append(1.0, np.random.default_rng(1).choice([0.0, GRAIN, 0.5, 1.0, 2.25, 70.0], 99))
    model = Model(Multinomial(20.0, background), ENGINE_DYNAMICS[dynamics], 1.0, rules=Rules(**rules))
    slow, fast = ReferenceEngine(model, 25), TextEngine(model, 1)
    expected, found = slow.run(X, times, weigh(weights)), fast.run(as_counts(X), times, weigh(weights))
    assert found.labels.tolist() == expected.labels.tolist()
    assert np.any(found.labels < 0)
    np.testing.assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        found.responsibilities.toarray(), expected.responsibilities.toarray(), rtol=1e-8, atol=1e-9
    )
    np.testing.assert_array_equal(fast.state.stats, slow.state.stats)
    np.testing.assert_allclose(fast.state.mode_states, slow.state.mode_states, rtol=1e-8, atol=1e-11)
    assert_same_words(fast, slow)

    rows, pieces = as_counts(X), TextEngine(model, 1)
    for begin, end in ((0, 30), (30, 31), (31, 100)):
        some = slice(begin, end)
        pieces.run(rows[some], times[some], weigh(weights[some]))
        other = TextEngine(model, 1)
        other.restore(pieces.arrays())
        pieces = other
    assert_same_bits(pieces.arrays(), fast.arrays())
    again = TextEngine(model, 1)
    again.restore(slow.arrays())
    assert_same_words(again, fast)


def test_an_integer_weight_is_that_many_equal_documents():
    X, times = documents(60)
    X, times = X[X.sum(axis=1) > 0], times[X.sum(axis=1) > 0]
    weights = np.random.default_rng(2).integers(1, 5, len(X))
    model = Model(Multinomial(20.0), Stationary(), 1.0)
    one, other = TextEngine(model, 1), TextEngine(model, 1)
    at, rows = np.repeat(np.arange(len(X)), weights), as_counts(X)
    labels, each = one.run(rows, times, weigh(weights)).labels, other.run(rows[at], times[at]).labels
    assert labels[at].tolist() == each.tolist()
    assert_same_words(one, other)
    np.testing.assert_allclose(one.state.mode_states, other.state.mode_states)

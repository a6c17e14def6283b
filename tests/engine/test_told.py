"""Rows with constraints, and tables merged and split: the reference, then the native engine."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from cases import ENGINE_DYNAMICS, FAMILIES, draw, pairwise
from dyncrp import Bernoulli, Exponential, Gaussian, NormalGamma, Stationary
from dyncrp.engine import Model, ReferenceEngine, Rules, edit, reference
from dyncrp.engine.native import NativeEngine
from dyncrp.engine.types import NEW, UNKNOWN, TableConstraints

STICKY = ENGINE_DYNAMICS["sticky"]
DYNAMICS = ("stationary", "exponential", "sticky", "goes-negative")
RULES = {
    "default": {},
    "variational": {"assignment": "variational"},
    "closing": {"max_tables": 4, "prune_below": 0.01},
    "rarely-opens": {"new_table_threshold": 0.99},
}
families = pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())
kinds = pytest.mark.parametrize("kind", [ReferenceEngine, NativeEngine])


def make_model(family=None, dynamics=None, memory=math.inf, **rules):
    family, dynamics = family or Gaussian(1.0, 50.0), dynamics or Exponential(9.0)
    return Model(family, dynamics, 0.8, memory, Rules(**rules))


def make_stream(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = 4.0 * rng.integers(0, 4, (n, 1)) + rng.normal(size=(n, 2))
    return X, np.cumsum(rng.exponential(1.0, n) * rng.integers(0, 2, n))


def learn(engine, X, times, tables, marks=None):
    """Run as a learner does: a table that is not open when its row comes opens then. Tables are codes, −1 unknown."""
    marks = np.full(len(X), UNKNOWN) if marks is None else marks
    ids, traces, begin = {}, [], 0
    while begin < len(X):
        told = np.array([code if code < 0 else ids.get(code, 1 << 40) for code in tables[begin:].tolist()])
        trace = engine.run(X[begin:], times[begin:], TableConstraints(told, marks[begin:]))
        if not len(trace.labels):
            one = slice(begin, begin + 1)
            trace = engine.run(X[one], times[one], TableConstraints(np.array([NEW]), marks[one]))
            ids[int(tables[begin])] = int(trace.labels[0])
        traces.append(trace)
        begin += len(trace.labels)
    return np.concatenate([trace.labels for trace in traces]), traces


def what_is_told(n, seed):
    """A third of the rows know their table, of 3; half come in moments of up to 3 rows."""
    rng = np.random.default_rng(seed)
    tables = np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), UNKNOWN)
    return tables, np.where(rng.random(n) < 0.5, np.arange(n) // 3, UNKNOWN)


def assert_same_arrays(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)


def test_a_row_that_is_told_its_table_is_wholly_there():
    model = make_model()
    X, times = make_stream(30)
    engine = ReferenceEngine(model, 2)
    engine.run(X[:20], times[:20])
    before = engine.state
    for table in [*before.ids.tolist(), NEW]:
        after, done = reference.step(before, X[20], times[20], model, table)
        plain = reference.step(before, X[20], times[20], model)[1]
        place = len(before.ids) if table == NEW else before.ids.tolist().index(table)
        assert done.label == place
        assert done.responsibilities.tolist() == [float(c == place) for c in range(len(after.ids))]
        assert done.log_evidence == plain.log_evidence  # the row is as unexpected as if nobody knew
        old = before.stats[place] if table != NEW else 0.0
        np.testing.assert_array_equal(after.stats[place], old + model.family.statistics(X[20:21])[0])
        others = np.arange(len(before.ids)) != place
        np.testing.assert_array_equal(after.stats[: len(before.ids)][others], before.stats[others])


def test_tables_add_up_what_they_were_told():
    X, times = make_stream(60)
    tables = np.random.default_rng(1).integers(0, 5, 60)
    engine = ReferenceEngine(make_model(dynamics=Exponential(7.0)), 2)
    labels, _ = learn(engine, X, times, tables)
    for code in range(5):
        own = tables == code
        (table,) = set(labels[own])
        place = engine.ids.tolist().index(table)
        np.testing.assert_allclose(engine.state.stats[place, 1:], np.sum(X[own], axis=0), rtol=1e-12)
        occupancy = np.sum(np.exp(-(times[-1] - times[own]) / 7.0))
        np.testing.assert_allclose(reference.occupancy(engine.state, engine.model.modes)[place], occupancy, rtol=1e-10)


def test_a_table_that_is_taken_has_no_weight():
    """The oracle scores all tables by hand, without those that rows with the same mark have."""
    model = make_model()
    X, times = make_stream(40, seed=3)
    engine = ReferenceEngine(model, 2)
    engine.run(X[:30], times[:30])
    state, taken = engine.state, []
    for x in (X[30], X[30], X[30], X[31]):  # the same row must go elsewhere each time
        now = reference.advance(state, times[31], model.modes)
        weights = reference.prior_weights(now, model)
        weights[[c for c, table in enumerate(now.ids) if table in taken]] = 0.0
        log_p = model.family.log_predictive(x[None], np.vstack([now.stats, np.zeros(now.stats.shape[1])]))[0]
        with np.errstate(divide="ignore"):
            scores = np.log(weights) + log_p
        state, done = reference.step(state, x, times[31], model, UNKNOWN, 7)
        assert done.log_evidence == pytest.approx(logsumexp(scores) - np.log(weights.sum()), rel=1e-12)
        label = int(state.ids[done.label])
        assert label not in taken
        assert label == np.append(now.ids, now.n_opened)[np.argmax(scores)]
        taken.append(label)
    assert (state.mark, list(state.taken)) == (7, taken)
    after, done = reference.step(state, X[30], times[31], model, UNKNOWN, 8)  # another moment
    assert after.ids[done.label] in taken
    assert after.taken == (after.ids[done.label],)
    assert reference.step(state, X[30], times[31], model)[0].taken == ()


@kinds
def test_a_run_ends_before_a_table_that_is_not_open(kind):
    X, times = make_stream(20)
    engine, plain = (kind(make_model(), 2) for _ in "ab")
    told = np.full(20, UNKNOWN)
    told[[7, 9]] = 99
    trace = engine.run(X, times, TableConstraints(told, np.full(20, UNKNOWN)))
    assert len(trace.labels) == len(trace.absences) == len(trace.indptr) - 1 == engine.n_observations == 7
    assert trace.indptr[-1] == len(trace.indices)
    plain.run(X[:7], times[:7])
    assert_same_arrays(engine.arrays(), plain.arrays())


def compare(model, X, times, tables, marks):
    lawful, native = ReferenceEngine(model, X.shape[1]), NativeEngine(model, X.shape[1])
    (ours, mine), (theirs, others) = (learn(engine, X, times, tables, marks) for engine in (native, lawful))
    np.testing.assert_array_equal(ours, theirs)
    for one, other in zip(mine, others, strict=True):
        np.testing.assert_array_equal(one.closed, other.closed)
        np.testing.assert_array_equal(one.closed_rows, other.closed_rows)
        np.testing.assert_array_equal(one.absences, other.absences)
        np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(one.responsibilities.toarray(), other.responsibilities.toarray(), atol=1e-8)
    left, right = native.state, lawful.state
    assert (left.mark, left.taken) == (right.mark, right.taken)
    for name in ("stats", "mode_states", "ids", "sizes", "first_times", "last_times"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-7, atol=1e-7, err_msg=name)


@families
@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_native_is_the_reference_for_every_family(case, dynamics):
    X, times = draw(case)
    compare(make_model(case.family, ENGINE_DYNAMICS[dynamics]), X, times, *what_is_told(len(X), 2))


@pytest.mark.parametrize(("rules", "dynamics", "memory", "seed"), pairwise(RULES, DYNAMICS, [math.inf, 6.5], range(3)))
def test_native_is_the_reference_for_every_rule(rules, dynamics, memory, seed):
    X, times = make_stream(90, seed)
    compare(make_model(None, ENGINE_DYNAMICS[dynamics], memory, **RULES[rules]), X, times, *what_is_told(90, seed))


@kinds
def test_what_is_told_does_not_depend_on_the_cuts(kind):
    X, times = make_stream(60, seed=5)
    tables, marks = what_is_told(60, 5)
    told = TableConstraints(np.where((tables == UNKNOWN) | (np.arange(60) == 0), UNKNOWN, 0), marks)
    whole, cut = kind(make_model(), 2), kind(make_model(), 2)
    whole.run(X, times, told)
    for begin in range(0, 60, 7):
        part = slice(begin, begin + 7)
        cut.run(X[part], times[part], told.part(part))
        again = kind(make_model(), 2)  # and by way of a file
        again.restore(cut.arrays())
        cut = again
    assert_same_arrays(cut.arrays(), whole.arrays())


def test_absences_are_the_times_since_the_last_row_of_the_label():
    X, times = make_stream(200, seed=8)
    trace = NativeEngine(make_model(), 2).run(X, times)
    last = {}
    for label, t, absence in zip(trace.labels.tolist(), times.tolist(), trace.absences.tolist(), strict=True):
        assert absence == t - last.get(label, t)
        last[label] = t


@families
@kinds
def test_a_merged_table_is_what_all_rows_at_one_table_make_it(case, kind):
    """One engine is told of two tables, which are merged; another is told that they are one."""
    X, _ = draw(case)
    times, codes = np.arange(float(len(X))), np.random.default_rng(0).integers(0, 3, len(X))
    merged, one = (kind(make_model(case.family, STICKY), X.shape[1]) for _ in "ab")
    labels = learn(merged, X, times, codes)[0]
    a, b = sorted({int(labels[codes == 1][0]), int(labels[codes == 2][0])})
    edit.merge(merged, a, b)
    learn(one, X, times, np.where(codes == 2, 1, codes))
    assert b not in merged.ids
    assert merged.n_tables == one.n_tables == 2
    for name in ("sizes", "first_times", "last_times", "stats", "mode_states"):
        ours, theirs = (getattr(engine.state, name)[np.argsort(engine.state.sizes)] for engine in (merged, one))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-9, err_msg=name)
    after = X[:20], times[-1] + np.arange(1.0, 21.0)  # it goes on as that one does
    ours, theirs = (engine.run(*after).log_evidence for engine in (merged, one))
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)


@families
@kinds
def test_a_split_undoes_a_merge(case, kind):
    X, _ = draw(case)
    times, codes = np.arange(float(len(X))), np.random.default_rng(0).integers(0, 2, len(X))
    engine = kind(make_model(case.family, Exponential(20.0)), X.shape[1])
    learn(engine, X, times, codes)
    before, (a, b) = engine.state, engine.ids.tolist()
    edit.merge(engine, a, b)
    second = codes != codes[0]
    new = edit.split(engine, a, X[second], times[second])
    after = engine.state
    assert after.ids.tolist() == [a, new] == [0, 2]
    np.testing.assert_allclose(after.stats, before.stats, rtol=1e-8, atol=1e-7)
    np.testing.assert_allclose(after.mode_states, before.mode_states, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(after.sizes, before.sizes)
    assert np.all(np.isfinite(engine.run(X[:20], times[-1] + np.arange(20.0)).log_evidence))


def test_rows_that_were_not_at_a_table_cannot_be_split_off():
    engine = NativeEngine(make_model(NormalGamma(1.0, 50.0, 3.0), Stationary()), 2)
    X, times = make_stream(40)
    engine.run(X, times)
    before, sizes = engine.arrays(), engine.state.sizes
    table, n = int(engine.ids[np.argmin(sizes)]), int(sizes.min())
    for rows in (np.tile(X, (2, 1)), X[: n + 1], X[:n]):  # nothing may be left, nor less than that
        with pytest.raises(ValueError, match=f"table {table} has .* rows"):
            edit.split(engine, table, rows, np.zeros(len(rows)))
    assert_same_arrays(engine.arrays(), before)


@kinds
@pytest.mark.parametrize("parameter", [0.5, 1.5])
@pytest.mark.parametrize("bit", [0.0, 1.0])
def test_more_ones_or_zeros_than_a_table_has_cannot_be_split_off(kind, parameter, bit):
    engine = kind(make_model(Bernoulli(parameter, parameter), Stationary()), 1)
    told = TableConstraints(np.array([NEW, 0, 0, 0, 0]), np.full(5, UNKNOWN))
    engine.run(np.abs(bit - np.array([[1.0], [1.0], [1.0], [1.0], [0.0]])), np.zeros(5), told)
    before = engine.arrays()
    with pytest.raises(ValueError, match="table 0 has 5 rows, and the rest without these 3 is not a table"):
        edit.split(engine, 0, np.full((3, 1), bit), np.zeros(3))
    assert_same_arrays(engine.arrays(), before)


def test_what_was_taken_follows_a_merge():
    engine = NativeEngine(make_model(), 2)
    X, times = make_stream(40)
    engine.run(X, times)
    moment = X[-1:], times[-1:], TableConstraints(np.array([UNKNOWN]), np.array([5]))
    first, second = (int(engine.run(*moment).labels[0]) for _ in range(2))
    edit.merge(engine, min(first, second), max(first, second))
    assert set(engine.state.taken) == {min(first, second)}
    assert int(engine.run(*moment).labels[0]) not in (first, second)


@pytest.mark.parametrize(
    ("name", "value"), [("mark", None), ("taken", None), ("mark", np.array(1.0)), ("taken", np.array([[1]]))]
)
@kinds
def test_a_state_with_half_a_moment_is_refused(kind, name, value):
    engine = kind(make_model(), 2)
    X, times = make_stream(5)
    engine.run(X, times, TableConstraints(np.full(5, UNKNOWN), np.full(5, 3)))
    arrays = engine.arrays()
    arrays.pop(name)
    if value is not None:
        arrays[name] = value
    with pytest.raises(ValueError, match=r"its arrays? '(mark|taken)'"):
        kind(make_model(), 2).restore(arrays)

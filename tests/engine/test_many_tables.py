"""What makes many tables and features fast changes no bit: the index, fewer coordinates, tables that have closed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dyncrp import Exponential, Gaussian, Hyperbolic, LinearODE, Stationary
from dyncrp.engine import Model, ReferenceEngine, Rules
from dyncrp.engine.native import NativeEngine
from dyncrp.engine.types import TableConstraints
from engines import assert_same_bits

DYNAMICS = {
    "stationary": Stationary(),
    "exponential": Exponential(20.0),
    "short": Exponential(0.5),  # tables of which time leaves nothing, and bounds that are taken anew
    "floor": 0.9 * Exponential(5.0) + 0.1 * Stationary(),
    "hyperbolic": Hyperbolic(10.0),
    "wave": LinearODE([1.0, 0.02, 0.05]),  # negative at times
}
INDEXED = {"index_from": 2, "keeps_index": True}


def make_model(variance, prior_variance, dynamics, alpha=1.0, memory=math.inf, **rules):
    return Model(Gaussian(variance, prior_variance), dynamics, alpha, memory, Rules(**rules))


def stream(D, n, seed, spread, silence):
    rng = np.random.default_rng(seed)
    X = rng.normal(0.0, spread, (25, D))[rng.integers(25, size=n)] + rng.normal(size=(n, D))
    times = np.cumsum(rng.exponential(1.0, n))
    times[n // 2 :] += silence
    return X, times


def learn(model, X, times, cuts=(), **tuning):
    """Return the engine, what it reported of all rows, and what it saves."""
    engine = NativeEngine(model, X.shape[1])
    engine._tune(**tuning)
    traces = [engine.run(x, t) for x, t in zip(np.split(X, cuts), np.split(times, cuts), strict=True)]
    report = [getattr(trace, name) for trace in traces for name in ("labels", "log_evidence", "data", "closed")]
    return engine, np.concatenate(report).tobytes() if not cuts else traces, engine.arrays()


limits = st.sampled_from([{}, {"max_tables": 9}, {"prune_below": 0.02}, {"max_tables": 12, "prune_below": 0.005}])


@pytest.mark.parametrize("dynamics", DYNAMICS)
@settings(max_examples=12)
@given(
    D=st.sampled_from([1, 2, 7, 8, 9, 17, 40]),
    seed=st.integers(0, 10_000),
    spread=st.sampled_from([0.5, 3.0, 10.0]),
    silence=st.sampled_from([0.0, 2000.0]),
    alpha=st.sampled_from([0.1, 5.0]),
    assignment=st.sampled_from(["predictive", "variational"]),
    memory=st.sampled_from([math.inf, 20.0]),
    limit=limits,
    block=st.sampled_from([0, 1, 7]),
)
def test_with_an_index_all_is_the_same_to_the_bit(
    dynamics, D, seed, spread, silence, alpha, assignment, memory, limit, block
):
    X, times = stream(D, 300, seed, spread, silence)
    kernel = DYNAMICS[dynamics]
    if dynamics == "stationary":
        limit = {name: value for name, value in limit.items() if name == "max_tables"}
    model = make_model(1.0, spread**2, kernel, alpha, memory, assignment=assignment, **limit)
    plain, told, state = learn(model, X, times, index_from=10**9)
    tuning = INDEXED if block != 1 else INDEXED | {"blunt_rows": 10**9}  # a new reference point drops the index
    indexed, told_by_index, state_of_indexed = learn(model, X, times, block=block, **tuning)
    assert indexed._is_indexed or indexed.n_tables < 3 or block != 1  # tables may all open in the last block
    assert told_by_index == told
    assert_same_bits(state, state_of_indexed)
    later = np.full(len(X), times[-1] + 3.0)
    for name in ("predict", "log_density"):
        assert getattr(plain, name)(X, later).tobytes() == getattr(indexed, name)(X, later).tobytes()


def test_the_index_is_dropped_where_it_does_not_pay_and_kept_where_it_does():
    rng = np.random.default_rng(0)
    for spread, pays in ((30.0, True), (0.3, False)):
        centers = rng.normal(0.0, spread, (600, 8))
        # of small variance, so that tables open although they overlap
        engine = NativeEngine(make_model(1e-6, 1.0, Stationary(), 1e6), 8)
        engine.run(centers, np.arange(600.0))
        assert engine.n_tables == 600
        wide = NativeEngine(make_model(1.0, spread**2, Stationary()), 8)
        wide.restore(engine.arrays())
        wide._tune(index_from=500)
        wide.run(centers[rng.integers(600, size=3000)] + rng.normal(size=(3000, 8)), np.arange(600.0, 3600.0))
        assert wide._is_indexed == pays


def test_a_table_beyond_single_precision_ends_the_index():
    X, times = stream(3, 200, 0, 10.0, 0.0)
    X[120] = 1e20
    model = make_model(1.0, 100.0, Exponential(50.0))
    _, told, state = learn(model, X, times, index_from=10**9)
    indexed, told_by_index, state_of_indexed = learn(model, X, times, **INDEXED)
    assert not indexed._is_indexed
    assert told_by_index == told
    assert_same_bits(state, state_of_indexed)


@pytest.mark.parametrize("telling", ["first", "last", "one", "none"])
@pytest.mark.parametrize("block", [0, 1, 16])
def test_features_that_are_not_looked_at_change_no_bit(telling, block):
    # Screening looks at 15 of 60 features, and more of them where these do not tell tables apart.
    rng = np.random.default_rng(3)
    D, n = 60, 3000
    spread = np.full(D, 0.2)
    spread[{"first": slice(0, 10), "last": slice(50, 60), "one": slice(30, 31), "none": slice(0, 0)}[telling]] = 8.0
    centers = rng.normal(size=(40, D)) * spread
    X = centers[rng.integers(40, size=n)] + rng.normal(size=(n, D))
    times = np.arange(float(n))
    model = make_model(1.0, 4.0, Exponential(500.0), 0.5)
    whole, _, state = learn(model, X, times, block=block)
    reference = ReferenceEngine(model, D)
    expected = reference.run(X[:150], times[:150])
    engine = NativeEngine(model, D)
    assert engine.run(X[:150], times[:150]).labels.tolist() == expected.labels.tolist()
    rows = [engine.run_one(x, t) for x, t in zip(X[150:], times[150:], strict=True)]
    assert_same_bits(state, engine.arrays())
    assert np.array_equal(engine.predict(X, np.full(n, float(n))), whole.predict(X, np.full(n, float(n))))
    assert len(rows) == n - 150
    screened, scores, slack = engine._compare(X[:200])
    assert np.all(screened + slack[:, None] >= scores)


@pytest.mark.parametrize("limit", [{"max_tables": 6}, {"prune_below": 0.3}])
def test_tables_that_close_within_a_call_are_as_those_that_close_one_by_one(limit):
    X, times = stream(4, 400, 1, 10.0, 0.0)
    model = make_model(1.0, 100.0, Exponential(4.0), **limit)
    engine, _, state = learn(model, X, times)
    single = NativeEngine(model, 4)
    labels = [single.run_one(x, t)[0] for x, t in zip(X, times, strict=True)]
    assert_same_bits(state, single.arrays())
    assert engine.n_opened > 3 * engine.n_tables
    reference = ReferenceEngine(model, 4)
    assert reference.run(X, times).labels.tolist() == labels
    assert reference.ids.tolist() == engine.ids.tolist()


def test_a_table_that_closed_in_this_call_cannot_be_told():
    # Rows that are told to be at it wait for whoever called: it does not open again by itself.
    model = make_model(1.0, 100.0, Exponential(4.0), max_tables=2)
    X = np.array([[0.0], [50.0], [100.0], [0.0], [0.0]])
    engine = NativeEngine(model, 1)

    told = TableConstraints(np.array([-1, -1, -1, 0, -1]), np.full(5, -1))
    trace = engine.run(X, np.arange(5.0), told)
    assert trace.closed.tolist() == [0]
    assert len(trace.labels) == 3


def test_a_weight_that_is_next_to_nothing_beside_a_likelihood_that_is_not():
    # exp(log likelihood − that of the best) overflows on its way to a responsibility that is small.
    model = make_model(1.0, 1.0, Exponential(1.0), 1e-3)
    X = np.array([[0.0], [40.0], [40.0], [40.0], [0.0]])
    times = np.array([0.0, 680.0, 681.0, 682.0, 682.5])
    reference, engine = ReferenceEngine(model, 1), NativeEngine(model, 1)
    expected, trace = reference.run(X, times), engine.run(X, times)
    assert trace.labels.tolist() == expected.labels.tolist()
    np.testing.assert_allclose(trace.log_evidence, expected.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(trace.responsibilities.toarray(), expected.responsibilities.toarray(), atol=1e-9)

"""What tests of the compiled engine share: models, streams, and the comparison with the reference."""

import math

import numpy as np
import pytest

from cases import DIRECTIONS, ENGINE_FAMILIES
from dyncrp import Columns, Gaussian, NormalGamma, Stationary, VonMisesFisher
from dyncrp.engine import Model, ReferenceEngine, Rules
from dyncrp.engine.native import NativeEngine

TOLERANCE = 1e-8
FIRST_CAPACITY = 64
ASSIGNMENTS = ("predictive", "variational")
TABLE_COUNTS = ("map", "posterior")
MEMORIES = (math.inf, 6.5)

# A Gaussian of few dimensions is screened without matrix products.
WIDE = {
    "few": (Gaussian(1.0, 30.0), 2),
    "more": (Gaussian(1.0, 30.0), 6),
    "diagonal": (Gaussian(1.0, np.linspace(20.0, 30.0, 6)), 6),
}
RECENTRED = {
    **WIDE,
    "directions": (Gaussian(1.0, np.linspace(20.0, 30.0, 6), 0.0, DIRECTIONS), 6),
    "unknown-variance": (NormalGamma(1.0, 30.0, 8.0), 6),
}

families = pytest.mark.parametrize("name", ENGINE_FAMILIES)
assignments = pytest.mark.parametrize("assignment", ASSIGNMENTS)
table_counts = pytest.mark.parametrize("table_count", TABLE_COUNTS)
memories = pytest.mark.parametrize("memory", MEMORIES, ids=["remembers", "forgets"])
recentred = pytest.mark.parametrize("name", RECENTRED)


def make_model(family, dynamics=None, alpha=0.83, memory=math.inf, **rules):
    dynamics = dynamics or Stationary()
    return Model(family, dynamics, alpha, memory, Rules(**rules))


def make_stream(family, D, n, seed, n_clusters=6):
    """Clusters at irregular times, half of them tied; of columns, cells are missing."""
    rng = np.random.default_rng(seed)
    X = family.sample(family.sample_parameters(n_clusters, D, rng)[rng.integers(n_clusters, size=n)], rng)
    if isinstance(family, Columns):
        X = with_holes(family, X, rng)
    return X, np.cumsum(rng.exponential(1.0, n) * rng.integers(0, 2, n))


def with_holes(family, X, seed, share=0.3):
    """Leave out so many of the cells, or of the parts that are whole, in three rows of four; in some all."""
    rng = np.random.default_rng(seed)
    X, has_holes = X.copy(), rng.random(len(X)) < 0.75
    for piece in family.pieces:
        X[np.ix_(has_holes & (rng.random(len(X)) < share), piece.at)] = np.nan
    X[has_holes & (rng.random(len(X)) < 0.05)] = np.nan
    return X


def directions(n, D, seed):
    return VonMisesFisher(1.0).sample_parameters(n, D, seed)


def assert_same_state(reference, engine, tolerance=TOLERANCE):
    expected, state = reference.state, engine.state
    assert engine.time == reference.time
    np.testing.assert_allclose(state.stats, expected.stats, rtol=tolerance, atol=tolerance * len(expected.stats))
    np.testing.assert_allclose(state.squares, expected.squares, rtol=tolerance, atol=tolerance * len(expected.stats))
    size = np.max(np.abs(expected.mode_states))
    np.testing.assert_allclose(state.mode_states, expected.mode_states, rtol=tolerance, atol=tolerance * size)
    np.testing.assert_allclose(state.n_tables_posterior, expected.n_tables_posterior, atol=tolerance)


def assert_agrees(model, X, times, tolerance=TOLERANCE, told=None):
    """Run both engines over the stream, compare all they report, and return them."""
    reference, engine = ReferenceEngine(model, X.shape[1]), NativeEngine(model, X.shape[1])
    expected, trace = reference.run(X, times, told), engine.run(X, times, told)
    assert trace.labels.tolist() == expected.labels.tolist()
    assert engine.n_tables == reference.n_tables
    assert engine.ids.tolist() == reference.ids.tolist()
    assert engine.n_opened == reference.n_opened
    assert trace.closed.tolist() == expected.closed.tolist()
    np.testing.assert_allclose(trace.responsibilities.toarray(), expected.responsibilities.toarray(), atol=tolerance)
    np.testing.assert_allclose(trace.log_evidence, expected.log_evidence, rtol=tolerance, atol=tolerance)
    assert engine.n_observations == reference.n_observations
    np.testing.assert_allclose(engine.log_evidence, reference.log_evidence, rtol=tolerance, atol=tolerance * len(X))
    assert_same_state(reference, engine, tolerance)
    return reference, engine


def assert_same_bits(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), name


def parts_of(trace):
    """Return what a trace tells of rows and tables, by name."""
    return {name: getattr(trace, name) for name in ("labels", "log_evidence", "indptr", "indices", "data")}


def run_in_pieces(model, X, times, cuts, **tuning):
    """Return the engine after the stream was fed to it in pieces, and all it reported, as arrays."""
    engine = NativeEngine(model, X.shape[1])
    engine._tune(**tuning)
    traces = [engine.run(x, t) for x, t in zip(np.split(X, cuts), np.split(times, cuts), strict=True) if len(x)]
    names = ("labels", "log_evidence", "indices", "data", "closed")
    report = {name: np.concatenate([getattr(trace, name) for trace in traces]) for name in names}
    return engine, report | {"sizes": np.concatenate([np.diff(trace.indptr) for trace in traces])}


def crowded(name):
    """A model and a stream with many tables close to each other, so that who is scored first varies."""
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 260, seed=12, n_clusters=40)
    return family, X, times


def distinct_rows(name, D, n, seed):
    """Rows so far apart that each is a table of its own."""
    rng = np.random.default_rng(seed)
    if name.startswith(("gaussian", "unknown", "columns")):
        return rng.uniform(-2000.0, 2000.0, (n, D))
    if name.startswith("bernoulli"):
        return rng.integers(0, 2, (n, D)).astype(float)
    if name.startswith("categorical"):
        return rng.integers(0, 6, (n, D)).astype(float)
    if name.startswith("poisson"):
        return np.floor(10.0 ** rng.uniform(0.0, 4.0, (n, D)))
    return directions(n, D, rng)


def restored(engine):
    other = NativeEngine(engine.model, engine.n_features)
    other.restore(engine.arrays())
    return other

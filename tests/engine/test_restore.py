"""States of the compiled engine: copied, restored, exchanged with the reference, widened, and refused."""

import copy
import pickle

import numpy as np
import pytest

from cases import ENGINE_DYNAMICS, ENGINE_FAMILIES, in_turn, pairwise
from dyncrp import Bernoulli, Categorical, Exponential, Gaussian, NormalGamma, Poisson
from dyncrp.engine import ReferenceEngine
from dyncrp.engine.native import NativeEngine
from engines import (
    ASSIGNMENTS,
    MEMORIES,
    TABLE_COUNTS,
    TOLERANCE,
    assert_agrees,
    assert_same_bits,
    assert_same_state,
    crowded,
    make_model,
    make_stream,
    parts_of,
    restored,
    run_in_pieces,
)

pytestmark = pytest.mark.usefixtures("no_lower_bounds")


def unpickled(engine):
    return pickle.loads(pickle.dumps(engine))


@pytest.mark.parametrize(
    ("name", "assignment", "twin"), pairwise(ENGINE_FAMILIES, ASSIGNMENTS, [restored, unpickled, copy.deepcopy])
)
def test_a_copy_goes_on_bit_for_bit(name, assignment, twin):
    family, X, times = crowded(name)
    model = make_model(family, ENGINE_DYNAMICS["product"], 0.83, 20.0, assignment=assignment, table_count="posterior")
    engine, _ = run_in_pieces(model, X[:130], times[:130], [])
    other = twin(engine)
    at_the_cut = engine.arrays()
    trace, again = engine.run(X[130:], times[130:]), other.run(X[130:], times[130:])
    assert_same_bits(parts_of(trace), parts_of(again))
    assert_same_bits(engine.arrays(), other.arrays())
    assert not np.array_equal(at_the_cut["stats"], engine.arrays()["stats"])


def test_a_copy_of_an_engine_without_tables():
    family, D = ENGINE_FAMILIES["gaussian"]
    X, times = make_stream(family, D, 30, seed=14)
    engine = NativeEngine(make_model(family), D)
    trace, again = copy.deepcopy(engine).run(X, times), engine.run(X, times)
    assert_same_bits(parts_of(trace), parts_of(again))


def test_restore_refuses_what_is_not_a_state():
    family, X, times = crowded("bernoulli")
    engine, _ = run_in_pieces(make_model(family), X, times, [])
    arrays = engine.arrays()
    for name, wrong in [
        ("stats", arrays["stats"][:, :-1]),
        ("mode_states", arrays["mode_states"] * np.nan),
        ("mode_total", arrays["mode_total"][:-1]),
        ("table_ids", arrays["table_ids"] + 1),
        ("n_observations", np.array(1)),
        ("log_evidence", arrays["log_evidence"].astype(np.float32)),
    ]:
        with pytest.raises(ValueError, match=r"its array|its ids|its sizes|tables"):
            NativeEngine(engine.model, engine.n_features).restore(arrays | {name: wrong})


def continued(source, kind):
    """Return an engine of the other kind that goes on from where ``source`` is."""
    other = kind(source.model, source.n_features)
    other.restore(source.arrays())
    return other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "assignment", "table_count", "memory"), pairwise(ENGINE_FAMILIES, ASSIGNMENTS, TABLE_COUNTS, MEMORIES)
)
def test_what_one_engine_wrote_the_other_reads(name, assignment, table_count, memory):
    family, X, times = crowded(name)
    X, times = X[:120], times[:120]
    model = make_model(
        family, ENGINE_DYNAMICS["fast-and-slow"], 0.83, memory, assignment=assignment, table_count=table_count
    )
    reference, engine = ReferenceEngine(model, X.shape[1]), NativeEngine(model, X.shape[1])
    for begin, kinds in (
        (0, (ReferenceEngine, NativeEngine)),
        (40, (NativeEngine, ReferenceEngine)),
        (80, (ReferenceEngine, NativeEngine)),
    ):
        part = slice(begin, begin + 40)
        if begin:  # each goes on as the other
            reference, engine = (continued(one, kind) for one, kind in zip((reference, engine), kinds, strict=True))
        expected, trace = reference.run(X[part], times[part]), engine.run(X[part], times[part])
        assert trace.labels.tolist() == expected.labels.tolist()
        np.testing.assert_allclose(trace.log_evidence, expected.log_evidence, rtol=1e-9, atol=1e-9)
    assert_same_state(reference, engine)
    assert engine.n_observations == reference.n_observations == 120
    assert engine.log_evidence == pytest.approx(reference.log_evidence, rel=1e-12)


@pytest.mark.parametrize(("name", "memory"), in_turn(ENGINE_FAMILIES, MEMORIES))
def test_the_arrays_have_the_references_names_and_meaning(name, memory):
    family, X, times = crowded(name)
    reference, engine = assert_agrees(
        make_model(family, ENGINE_DYNAMICS["product"], memory=memory, max_tables=12), X[:100], times[:100]
    )
    expected, arrays = reference.arrays(), engine.arrays()
    assert arrays.keys() - expected.keys() <= {"mode_total", "scatter", "misses", "cells"}
    for key in expected.keys() - {"mode_states", "mode_time"}:
        np.testing.assert_allclose(arrays[key], expected[key], rtol=TOLERANCE, atol=TOLERANCE * len(expected["stats"]))
        assert arrays[key].dtype == expected[key].dtype
        assert arrays[key].shape == expected[key].shape


GROWING = {
    "gaussian": Gaussian(1.3, 40.0, 0.5),
    "unknown-variance": NormalGamma(1.3, 40.0, 6.0, 0.5),
    "bernoulli": Bernoulli(0.3, 0.45),
    "poisson": Poisson(0.5, 0.1),
    "categorical": Categorical(0.5, 4),
}


@pytest.mark.parametrize(("name", "assignment", "memory"), pairwise(GROWING, ASSIGNMENTS, MEMORIES))
def test_more_features_are_as_the_reference_has_them(name, assignment, memory):
    family = GROWING[name]
    X, times = make_stream(family, 5, 80, seed=31)
    X[:50, 3:] = 0.0
    model = make_model(family, Exponential(40.0), memory=memory, assignment=assignment)
    reference, engine, whole = ReferenceEngine(model, 3), NativeEngine(model, 3), NativeEngine(model, 5)
    for one in (reference, engine):
        one.run(np.ascontiguousarray(X[:50, :3]), times[:50])
    reference, engine = reference.widen(5), engine.widen(5)
    assert_same_state(reference, engine)
    expected, trace = reference.run(X[50:], times[50:]), engine.run(X[50:], times[50:])
    assert trace.labels.tolist() == expected.labels.tolist()
    np.testing.assert_allclose(trace.log_evidence, expected.log_evidence, rtol=TOLERANCE, atol=TOLERANCE)
    whole.run(X, times)
    assert whole.n_observations == engine.n_observations


@pytest.mark.parametrize("engine", [NativeEngine, ReferenceEngine])
def test_restore_refuses_arrays_of_another_type_or_time(engine):
    X = np.random.default_rng(0).normal(size=(30, 2)) * 5.0
    model = make_model(Gaussian(1.0, 25.0), Exponential(9.0))
    begun = engine(model, 2)
    begun.run(X, np.arange(30.0))
    arrays = begun.arrays()
    spoilt = [
        {"stats": arrays["stats"].astype(complex)},
        {"time": np.array(1j)},
        {"n_observations": np.array(1e308)},
        {"mode_time": np.array(1e308)},
        {"mode_states": arrays["mode_states"].real},
    ]
    for part in spoilt:
        with pytest.raises(ValueError, match=f"its .*{next(iter(part))}"):
            engine(model, 2).restore(arrays | part)
    for name in ("stats", "mode_states", "time"):
        with pytest.raises(ValueError, match=f"its array '{name}' (is missing|has shape)"):
            engine(model, 2).restore({other: array for other, array in arrays.items() if other != name})

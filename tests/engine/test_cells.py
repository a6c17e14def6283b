"""Columns of several families in the compiled engine, with cells missing."""

import numpy as np
import pytest

from cases import DIRECTIONS, ENGINE_FAMILIES, pairwise
from dyncrp import Bernoulli, Categorical, Columns, Exponential, Gaussian, NormalGamma, Poisson
from dyncrp.engine.native import NativeEngine, has_code_for
from engines import (
    ASSIGNMENTS,
    MEMORIES,
    TOLERANCE,
    assert_agrees,
    assert_same_bits,
    assignments,
    crowded,
    make_model,
    make_stream,
    restored,
)

pytestmark = pytest.mark.usefixtures("no_lower_bounds")


COLUMNS = {name: case for name, case in ENGINE_FAMILIES.items() if name.startswith("columns")}
columns = pytest.mark.parametrize("name", COLUMNS)


@pytest.mark.parametrize(("name", "assignment", "memory"), pairwise(COLUMNS, ASSIGNMENTS, MEMORIES))
def test_complete_rows_of_columns(name, assignment, memory):
    family, D = COLUMNS[name]
    rng = np.random.default_rng(1)
    X = family.sample(family.sample_parameters(8, D, rng)[rng.integers(8, size=120)], rng)
    assert_agrees(make_model(family, Exponential(40.0), memory=memory, assignment=assignment), X, np.arange(120.0))


@pytest.mark.parametrize(("name", "assignment", "memory"), pairwise(COLUMNS, ASSIGNMENTS, MEMORIES))
def test_columns_that_some_tables_have_never_seen(name, assignment, memory):
    # Each has its first rows without half of the columns, then rows with these alone, then complete ones.
    family, D = COLUMNS[name]
    rng = np.random.default_rng(2)
    X = family.sample(family.sample_parameters(6, D, rng)[np.arange(150) % 6], rng)
    half = [piece.at for piece in family.pieces[::2]]
    other = [piece.at for piece in family.pieces[1::2]]
    for rows, parts in ((slice(0, 60), half), (slice(60, 110), other)):
        for at in parts:
            X[rows, list(at)] = np.nan
    model = make_model(family, Exponential(60.0), memory=memory, assignment=assignment)
    reference, engine = assert_agrees(model, X, np.arange(150.0))
    counts = [piece.stats.start for piece in family.pieces]
    before = NativeEngine(model, D)
    before.run(X[:60], np.arange(60.0))
    assert np.all(before.state.stats[:, counts[::2]] == 0.0)
    assert np.all(before.state.stats[:, [0, *counts[1::2]]] > 0.0)
    when = np.full(150, 150.0)
    np.testing.assert_allclose(
        engine.log_density(X, when), reference.log_density(X, when), rtol=TOLERANCE, atol=TOLERANCE
    )


@columns
def test_rows_with_nothing_in_them_are_judged_by_weight_alone(name):
    family, D = COLUMNS[name]
    X, times = make_stream(family, D, 40, seed=3)
    X[[0, 1, 20, 39]] = np.nan
    _, engine = assert_agrees(make_model(family, Exponential(20.0), memory=7.0), X, times)
    before = engine.arrays()
    engine.run(np.full((5, D), np.nan), times[-1] + np.arange(5.0))
    after = engine.arrays()
    K = len(before["stats"])
    assert after["stats"][:K, 1:].tobytes() == before["stats"][:, 1:].tobytes()
    assert np.any(after["stats"][:K, 0] != before["stats"][:, 0])
    assert engine.log_density(np.full((1, D), np.nan), times[-1:] + 9.0) == pytest.approx(0.0, abs=1e-12)


@assignments
@columns
def test_columns_go_on_from_the_references_arrays_alone(name, assignment):
    family, X, times = crowded(name)
    reference, engine = assert_agrees(
        make_model(family, Exponential(50.0), assignment=assignment), X[:100], times[:100]
    )
    arrays = engine.arrays()
    expected_labels = reference.run(X[100:180], times[100:180]).labels.tolist()
    P = family.squares(X[:1]).shape[1]
    for left_out in (["cells"], ["cells", "squares"]):
        other = NativeEngine(engine.model, X.shape[1])
        other.restore({key: array for key, array in arrays.items() if key not in left_out})
        again = other.arrays()
        np.testing.assert_allclose(again["stats"], arrays["stats"], rtol=1e-12, atol=1e-12)
        if left_out == ["cells"]:
            np.testing.assert_allclose(again["cells"], arrays["cells"], rtol=1e-6, atol=1e-8)
        elif P:
            expected = family.expected_squares(arrays["stats"], X.shape[1])
            np.testing.assert_allclose(again["squares"], expected, rtol=1e-12)
        assert other.run(X[100:180], times[100:180]).labels.tolist() == expected_labels


def test_columns_of_families_without_numbers_of_their_own_have_no_cells():
    family = Columns({0: Poisson(0.5, 0.02), (1, 2): Categorical(0.6, 5)})
    X, times = make_stream(family, 3, 80, seed=6)
    _, engine = assert_agrees(make_model(family), X, times)
    assert engine.arrays().keys() & {"cells", "squares"} == set()
    assert_same_bits(restored(engine).arrays(), engine.arrays())


def test_a_part_without_code_leaves_columns_to_the_reference():
    class Own(Bernoulli):
        pass

    parts = {0: Gaussian(1.0, 10.0), 1: Own(1.0, 1.0)}
    assert not has_code_for(Columns(parts))
    assert has_code_for(Columns(parts | {1: Bernoulli(1.0, 1.0)}))


@assignments
@pytest.mark.parametrize("far", [1e3, 1e8, 1e20, 1e100])
def test_cells_far_away(far, assignment):
    family = Columns({(0, 1): NormalGamma(1.0, 30.0), 2: Gaussian(1.0, 30.0)})
    X, times = make_stream(family, 3, 80, seed=7)
    X[20:23] += far
    X[50] -= far
    assert_agrees(make_model(family, assignment=assignment), X, times)


@assignments
def test_many_codes_and_large_counts(assignment):
    family = Columns({0: Categorical(0.5, 10_000), 1: Poisson(0.5, 1e-15)})
    X = np.array([[9999.0, 2.0**53], [7.0, 0.0], [2.0**53, np.nan], [9999.0, 2.0**53], [np.nan, 5.0], [12345.0, 0.0]])
    _, engine = assert_agrees(make_model(family, alpha=1e-3, assignment=assignment), X, np.arange(6.0))
    assert engine.n_tables > 1


def test_a_part_that_is_missing_when_its_table_opens_in_the_place_of_one_that_closed():
    # The next row of the block has it: what screening knew of the table that closed must not count.
    family = Columns({0: Gaussian(1.0, 1e6), (1, 2, 3): Gaussian(1.0, [0.9e6, 1e6, 1.1e6], 0.0, DIRECTIONS[:3, :3])})
    near, far = [0.0, 0.0, 0.0, 0.0], [0.0, 500.0, 500.0, 500.0]
    X = np.array([near, far, *[near] * 20, [1000.0, np.nan, np.nan, np.nan], [1000.0, 0.0, 0.0, 0.0]])
    model = make_model(family, Exponential(1.0), 0.01, prune_below=0.1)
    _, engine = assert_agrees(model, X, np.arange(24.0))
    assert engine.ids.tolist() == [0, 2]

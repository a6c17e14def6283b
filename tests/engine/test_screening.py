"""Screening never rules out a table that scores higher, and rules out most others."""

import numpy as np
import pytest

from cases import ENGINE_FAMILIES
from dyncrp import NormalGamma, NormalWishart, Poisson
from dyncrp.engine.native import NativeEngine
from engines import assignments, make_model, make_stream, with_holes

pytestmark = pytest.mark.usefixtures("no_lower_bounds")


@assignments
@pytest.mark.parametrize("width", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("degrees", [0.5, 5.0, 1e4, 1e9])
@pytest.mark.parametrize("D", [1, 6, 40])
def test_screening_never_promises_too_little(D, degrees, width, assignment):
    # Clusters narrower and wider than guessed; rows in, between and far from them, and far from the reference point.
    rng = np.random.default_rng(D)
    family = NormalGamma(1.0, 1e4, degrees, 3.0)
    X = rng.normal(0.0, 100.0, (8, D))[rng.integers(8, size=160)] + width * rng.normal(size=(160, D))
    engine = NativeEngine(make_model(family, alpha=0.1, assignment=assignment), D)
    engine.run(X, np.arange(160.0))
    far = np.geomspace(100.0, 1e6, 40)[:, None] * rng.normal(size=(40, D))
    queries = np.vstack([X[:30], X[:20] + 10.0 * width, far])
    screened, scores, slack = engine._compare(queries)
    assert np.all(scores <= screened + slack[:, None])
    informed = slack < 1e-3
    if assignment == "variational" or D == 1:  # nor the moon: of one square, it says most
        constant = np.diag(engine._compare(family.centers(engine.state.stats))[1])
        assert np.all((constant - screened >= 0.85 * (constant - scores) - 8.0)[informed])
    assert np.any(informed) or width < 1


@assignments
@pytest.mark.parametrize("width", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("degrees", [0.5, 1e4])
@pytest.mark.parametrize("D", [2, 6, 20])
def test_screening_of_correlated_features_never_promises_too_little(D, degrees, width, assignment):
    rng = np.random.default_rng(D)
    family = NormalWishart(1.0, 1e4, degrees, 3.0)
    mix = rng.normal(size=(D, D)) @ np.diag(np.geomspace(0.01, 1.0, D))
    X = rng.normal(0.0, 100.0, (8, D))[rng.integers(8, size=160)] + width * rng.normal(size=(160, D)) @ mix
    engine = NativeEngine(make_model(family, alpha=0.1, assignment=assignment), D)
    engine.run(X, np.arange(160.0))
    far = np.geomspace(100.0, 1e6, 40)[:, None] * rng.normal(size=(40, D))
    screened, scores, slack = engine._compare(np.vstack([X[:30], X[:20] + 10.0 * width, far]))
    assert np.all(scores <= screened + slack[:, None])
    assert np.any(slack < 1e-3) or width < 1


@pytest.mark.parametrize("name", [name for name in ENGINE_FAMILIES if name.startswith("gaussian")])
@pytest.mark.parametrize("far", [1e2, 1e4, 1e6])
def test_screening_bounds_tables_far_from_the_reference_point(name, far):
    family, D = ENGINE_FAMILIES[name]
    rng = np.random.default_rng(7)
    centers = np.vstack([np.zeros((1, D)), rng.normal(size=(40, D)) * far * rng.random((40, 1))])
    engine = NativeEngine(make_model(family, alpha=1e-3), D)
    engine.run(np.repeat(centers, 3, axis=0), np.arange(3.0 * len(centers)))  # the reference point is the first row
    screened, scores, slack = engine._compare(rng.normal(size=(60, D)) + centers[rng.integers(8, size=60)])
    assert engine.n_tables > 20
    assert np.all(screened + slack[:, None] >= scores)


@assignments
@pytest.mark.parametrize("rate", [0.01, np.geomspace(0.001, 1.0, 6)], ids=["alike", "by-dimension"])
@pytest.mark.parametrize("mean", [0.3, 20.0, 1e5])
def test_no_table_of_counts_is_screened_out_that_scores_higher(mean, rate, assignment):
    rng = np.random.default_rng(0)
    family = Poisson(0.4, rate)
    centers = rng.gamma(0.4, mean / 0.4, (30, 6))
    engine = NativeEngine(make_model(family, assignment=assignment), 6)
    engine.run(rng.poisson(centers[rng.integers(30, size=400)]).astype(float), np.arange(400.0))
    queries = rng.poisson(centers[rng.integers(30, size=200)] * rng.choice([0.1, 1.0, 10.0], (200, 1))).astype(float)
    screened, scores, slack = engine._compare(queries)
    np.testing.assert_array_less(scores, screened + slack[:, None])
    assert np.median(slack) < 0.01 or mean > 1e3
    if mean < 1.0 and assignment == "predictive":  # counts up to 3 are bounded exactly
        small = np.max(queries, axis=1) <= 3
        assert np.sum(small) > 50
        np.testing.assert_allclose(scores[small], screened[small], rtol=0, atol=1e-3)


COLUMNS = {name: case for name, case in ENGINE_FAMILIES.items() if name.startswith("columns")}
columns = pytest.mark.parametrize("name", COLUMNS)


@assignments
@columns
def test_no_table_of_columns_is_screened_out_that_scores_higher(name, assignment):
    family, D = COLUMNS[name]
    X, times = make_stream(family, D, 500, seed=4, n_clusters=40)
    engine = NativeEngine(make_model(family, alpha=3.0, assignment=assignment), D)
    engine.run(X, times)
    rng = np.random.default_rng(5)
    complete = family.sample(family.sample_parameters(60, D, rng), rng)
    screened, scores, slack = engine._compare(np.vstack([X[:60], complete, with_holes(family, complete, rng)]))
    assert engine.n_tables > 20
    assert np.all(screened + slack[:, None] >= scores)
    assert np.max(slack) < 0.1
    near = scores > np.max(scores, axis=1, keepdims=True) - 10.0
    assert np.median((screened - scores)[near]) < 0.3

"""Gaussians of a shared covariance, which the compiled engine judges along directions."""

from dataclasses import replace

import numpy as np
import pytest

from cases import ENGINE_FAMILIES
from dyncrp import Exponential, Gaussian
from dyncrp.engine.native import NativeEngine
from engines import assert_agrees, assert_same_bits, crowded, make_model, make_stream, run_in_pieces

pytestmark = pytest.mark.usefixtures("no_lower_bounds")


DIRECTED = ["gaussian-directions", "gaussian-few-directions"]


@pytest.mark.parametrize("name", DIRECTED)
def test_the_projection_of_a_row_is_the_familys_to_the_same_bits_in_any_company(name):
    family, D = ENGINE_FAMILIES[name]
    X, _ = make_stream(family, D, 100, seed=25)
    model = make_model(family)
    for x, z in zip(X, family.coordinates(X), strict=True):
        engine = NativeEngine(model, D)
        engine.run_one(x, 0.0)
        np.testing.assert_allclose(engine.arrays()["stats"][0, 1:], z, rtol=1e-12, atol=1e-12)
    empty = NativeEngine(model, D)
    density = empty.log_density(X, np.zeros(100))
    prior = family.log_predictive(X, np.zeros((1, 1 + len(family.directions))))[:, 0]
    np.testing.assert_allclose(density, prior, rtol=1e-12, atol=1e-12)
    for size in (1, 7, 64):
        pieces = [empty.log_density(X[i : i + size], np.zeros(len(X[i : i + size]))) for i in range(0, 100, size)]
        assert np.concatenate(pieces).tobytes() == density.tobytes()


@pytest.mark.parametrize("name", DIRECTED)
def test_one_table_has_the_evidence_of_its_rows_together(name):
    # With alpha next to nothing; log p(x_1, …, x_n) by the family, whose tests have it from full matrices.
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 50, seed=26, n_clusters=1)
    engine = NativeEngine(make_model(family, alpha=1e-250), D)
    engine.run(X, times)
    assert engine.n_tables == 1
    assert engine.log_evidence == pytest.approx(family.log_marginal(X), rel=1e-10)


@pytest.mark.parametrize("name", DIRECTED)
def test_one_directed_observation_at_a_time_gives_the_same_bits(name):
    family, X, times = crowded(name)
    model = make_model(family, Exponential(100.0))
    whole, report = run_in_pieces(model, X, times, [])
    engine = NativeEngine(model, X.shape[1])
    steps = [engine.run_one(x, t) for x, t in zip(X, times, strict=True)]
    assert [label for label, _ in steps] == report["labels"].tolist()
    assert [evidence for _, evidence in steps] == report["log_evidence"].tolist()
    assert_same_bits(engine.arrays(), whole.arrays())


def test_directions_along_the_features_are_the_plain_family():
    plain, D = ENGINE_FAMILIES["gaussian-diagonal"]
    X, times = make_stream(plain, D, 200, seed=27)
    results = []
    for family in (plain, replace(plain, directions=np.eye(D))):
        engine = NativeEngine(make_model(family, Exponential(50.0)), D)
        results.append((engine.run(X, times), engine.state.stats))
    assert results[0][0].labels.tolist() == results[1][0].labels.tolist()
    np.testing.assert_allclose(results[0][0].log_evidence, results[1][0].log_evidence, rtol=1e-10)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-10, atol=1e-10)


def test_evidence_far_from_the_prior_mean_along_the_directions():
    # Far along the directions, and as near as ever across them.
    family = Gaussian(1.0, 1e16, 0.0, np.full((1, 3), 1.0 / np.sqrt(3.0)), 1.0)
    X = 1e8 + np.random.default_rng(0).normal(size=(60, 3))
    assert_agrees(make_model(family), X, np.arange(60.0), tolerance=1e-5)
    near = replace(family, prior_mean=1e8)
    far, close = (NativeEngine(make_model(f, alpha=1e-200), 3).run(X, np.arange(60.0)) for f in (family, near))
    np.testing.assert_allclose(far.log_evidence[1:], close.log_evidence[1:], atol=1e-5)

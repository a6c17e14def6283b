"""The compiled engine far from the origin, at extreme variances and settings, at ties and after silences."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import t as student

from cases import ENGINE_FAMILIES, pairwise
from dyncrp import (
    Bernoulli,
    Columns,
    Exponential,
    Gaussian,
    NormalGamma,
    NormalWishart,
    Oscillatory,
    Poisson,
    VonMisesFisher,
)
from dyncrp.engine.native import NativeEngine
from engines import (
    ASSIGNMENTS,
    MEMORIES,
    RECENTRED,
    TOLERANCE,
    WIDE,
    assert_agrees,
    assert_same_bits,
    assignments,
    families,
    make_model,
    make_stream,
    parts_of,
    restored,
    run_in_pieces,
    table_counts,
)

pytestmark = pytest.mark.usefixtures("no_lower_bounds")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "threshold", "assignment"), pairwise(ENGINE_FAMILIES, [1e-9, 1e-6, 0.013, 1.0], ASSIGNMENTS)
)
def test_extreme_thresholds(name, threshold, assignment):
    # At the smallest, tables open whose first responsibility is too small to be passed on.
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 45, seed=3)
    model = make_model(family, Exponential(30.0), assignment=assignment, new_table_threshold=threshold)
    assert_agrees(model, X, times)


@pytest.mark.parametrize("alpha", [1e-300, 1e-30, 1e12, 1e300])
@families
def test_tiny_and_huge_alpha(name, alpha):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 60, seed=4)
    assert_agrees(make_model(family, Exponential(30.0), alpha), X, times)


@families
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_refused_and_changes_nothing(name, bad):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 40, seed=3)
    engine = NativeEngine(make_model(family, Exponential(9.0), max_tables=3, prune_below=0.1), D)
    engine.run(X, times)
    before = engine.arrays()
    row = np.full(D, bad)
    if isinstance(family, Columns) and np.isnan(bad):  # a missing cell, but not of a part that is whole
        if name == "columns":
            return
        row = np.append(X[0, :-1], bad)
        row[-3:-1] = 0.0
    for ask in (lambda: engine.predict_one(row, times[-1]), lambda: engine.predict(row[None], times[-1:])):
        with pytest.raises(ValueError, match="finite"):
            ask()
    for learn in (lambda: engine.run_one(row, times[-1]), lambda: engine.run(row[None], times[-1:])):
        with pytest.raises(ValueError, match="finite"):
            learn()
    after = engine.arrays()
    assert engine.n_observations == 40
    for array in ("stats", "table_ids", "log_evidence"):
        assert np.array_equal(before[array], after[array])


def test_counts_too_large_to_screen():
    X = np.array([[2.0**53, 0.0], [0.0, 2.0**52], [2.0**53, 3.0], [5.0, 2.0**52], [1.0, 1.0]])
    _, engine = assert_agrees(make_model(Poisson(0.5, 1e-15), alpha=1e-9), X, np.arange(5.0))
    assert engine.n_tables == 3


# --- far away -------------------------------------------------------------------------------------------------------

gaussians = pytest.mark.parametrize("name", WIDE)
recentred = pytest.mark.parametrize("name", RECENTRED)


@assignments
@recentred
def test_far_from_the_origin_about_a_far_prior_mean(name, assignment):
    narrow, D = RECENTRED[name]
    family = replace(narrow, prior_mean=1e8)
    X, times = make_stream(family, D, 200, seed=8)
    assert_agrees(make_model(family, Exponential(50.0), assignment=assignment), X, times)


@gaussians
def test_far_from_the_origin_and_from_the_prior_mean(name):
    # Statistics are sums about the prior mean: at 1e8 they have 8 digits behind the point, and so have the scores.
    narrow, D = WIDE[name]
    family = Gaussian(1.0, 1e16 * np.asarray(narrow.prior_variance))
    X, times = make_stream(narrow, D, 200, seed=8)
    assert_agrees(make_model(family, Exponential(50.0)), X + 1e8, times, tolerance=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first", "outlier", "memory"), pairwise(RECENTRED, [0, 20], [1e6, 1e16, 1e21, 1e100], MEMORIES)
)
def test_isolated_outliers(name, first, outlier, memory):
    family, D = RECENTRED[name]
    X, times = make_stream(family, D, 80, seed=9)
    X[[first, first + 1, 50]] = outlier
    X[60, 0] = -outlier
    assert_agrees(make_model(family, Exponential(50.0), memory=memory), X, times)


@pytest.mark.slow
@pytest.mark.parametrize(("outlier", "memory"), pairwise([1e2, 1e4, 1e8, 1e21, 1e60], MEMORIES))
def test_isolated_outliers_of_unknown_covariance(outlier, memory):
    # The square of an outlier is the condition number of its table's covariance: of 1e16, no digit is left.
    family, D = NormalWishart(1.0, 30.0, 8.0), 6
    X, times = make_stream(family, D, 80, seed=9)
    X[[0, 1, 50]] = outlier
    X[60, 0] = -outlier
    model = make_model(family, Exponential(50.0), memory=memory)
    if outlier <= 1e4:
        assert_agrees(model, X, times)
        return
    engine = NativeEngine(model, D)
    assert np.all(np.isfinite(engine.run(X[:60], times[:60]).log_evidence))
    twin = restored(engine)
    assert_same_bits(parts_of(engine.run(X[60:], times[60:])), parts_of(twin.run(X[60:], times[60:])))
    assert_same_bits(engine.arrays(), twin.arrays())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "prior_variance", "distance", "memory"),
    pairwise(RECENTRED, [0.01, 3.0, 1e6], [1e5, 1e10, 1e15, 1e16], MEMORIES),
)
def test_a_wide_cluster_far_away(name, prior_variance, distance, memory):
    # Tables and rows on both sides of the largest square that single precision is trusted with.
    narrow, D = RECENTRED[name]
    family = replace(narrow, prior_variance=prior_variance * np.asarray(narrow.prior_variance))
    X = distance / np.sqrt(D) * (1.0 + 0.01 * np.random.default_rng(0).normal(size=(60, D)))
    X[0] = 0.0
    assert_agrees(make_model(family, memory=memory), X, np.arange(60.0))


EXTREME = {
    "narrow-means": Gaussian([1e100, 1.0], [1e-100, 1.0]),
    "wide-means": Gaussian([1e-100, 1.0], [1e100, 1.0]),
    "both": Gaussian([1e100, 1e-100], [1e-100, 1e100]),
    "alike": Gaussian(1e100, 1e-100),
    "alike-and-wide": Gaussian(1e-100, 1e100),
    "directions": Gaussian([1e100, 1.0], [1e-100, 1.0], 0.0, [[1.0, 0.1], [0.0, 1.0]]),
}


@pytest.mark.parametrize(
    ("name", "far", "assignment", "memory"), pairwise(EXTREME, [1.0, 1e5, 1e40], ASSIGNMENTS, MEMORIES)
)
def test_extreme_variances(name, far, assignment, memory):
    # The square of a precision of 1e200 is no number.
    family = EXTREME[name]
    X = np.array([[0.0, 0.0], [1.0, 0.1], [0.0, 0.2], [far, 0.1], [-far, 0.1], [far, 0.3], [0.0, -0.2]])
    X *= np.sqrt(family.variance)
    assert_agrees(make_model(family, memory=memory, assignment=assignment), family.check(X), np.arange(7.0))


def test_a_mean_that_hardly_varies_in_one_feature():
    X = np.array([[0.0, 0.0], [1e50, 0.1], [0.0, 0.2]])
    reference, _ = assert_agrees(make_model(EXTREME["narrow-means"]), X, np.arange(3.0))
    assert reference.n_tables == 1


@pytest.mark.parametrize("distance", [0.0, 1e3, 1e6, 1e8])
def test_variances_far_from_the_prior_mean_have_the_digits_they_are_promised(distance):
    # One table, against fractions, which are exact. At 1e8 standard deviations the reference has no digit right.
    X = distance + 0.25 * np.random.default_rng(0).normal(size=(100, 1))
    model = make_model(NormalGamma(1.0, 1.0 + distance**2, 4.0), alpha=1e-200)
    engine = NativeEngine(model, 1)
    evidence = engine.run(X, np.arange(100.0)).log_evidence
    assert engine.n_tables == 1
    p, n, s, w = Fraction(1.0 / (1.0 + distance**2)), 0, Fraction(0), Fraction(0)
    expected = []
    for x in map(Fraction, X[:, 0]):
        q, B = p + n, 4 + w - s * s / (p + n)
        expected.append(student.logpdf(float(x - s / q), 4 + n, scale=np.sqrt(float(B * (1 + 1 / q) / (4 + n)))))
        n, s, w = n + 1, s + x, w + x * x
    tolerance = 1e-15 * (10.0 + 4.0 * distance) * 10.0
    np.testing.assert_allclose(engine.arrays()["scatter"][0, 0], float(w - s * s / (p + n)), rtol=tolerance)
    np.testing.assert_allclose(evidence[1:], expected[1:], atol=10.0 * tolerance)


# --- ties -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@assignments
@recentred
@pytest.mark.parametrize("seed", [0, 1])
def test_duplicates_and_whole_numbers(name, assignment, seed):
    family, D = RECENTRED[name]
    rng = np.random.default_rng([seed, D, assignment == "variational"])
    X = rng.integers(-6, 7, (120, D)).astype(float)
    times = np.arange(120) // 7.0
    rules = {"assignment": assignment, "new_table_threshold": rng.uniform(0.05, 0.99)}
    assert_agrees(make_model(family, Exponential(8.0), 10.0 ** rng.uniform(-2.0, 1.5), **rules), X, times)


NORTH, EAST = np.eye(6)[:2]
MIRRORED = {
    "gaussian": (Gaussian(1.0, 1e4), 40.0 * NORTH, -40.0 * NORTH, [EAST, -EAST, 0.0 * EAST]),
    "gaussian-diagonal": (Gaussian(1.0, np.geomspace(1e4, 2e4, 6)), 40.0 * NORTH, -40.0 * NORTH, [EAST, 0.0 * EAST]),
    "unknown-variance": (NormalGamma(1.0, 1e4, 4e3), 40.0 * NORTH, -40.0 * NORTH, [EAST, 0.0 * EAST]),
    "unknown-covariance": (NormalWishart(1.0, 1e4, 4e3), 40.0 * NORTH, -40.0 * NORTH, [EAST, 0.0 * EAST]),
    "bernoulli": (Bernoulli(1e-9, 1e-9), np.zeros(40), np.ones(40), np.tile([[0.0, 1.0], [1.0, 0.0]], 20)),
    "poisson": (Poisson(1.0, 0.01), 1500.0 * NORTH, 1500.0 * EAST, [700.0 * (NORTH + EAST)] * 2),
    "von-mises-fisher": (VonMisesFisher(900.0), NORTH, -NORTH, [EAST, EAST]),
}


@pytest.mark.parametrize("name", MIRRORED)
def test_of_equal_tables_the_first_gets_the_label(name):
    family, one, other, between = MIRRORED[name]
    X = np.array([one, other, *between])
    model = make_model(family, alpha=1e-290)
    assert_agrees(model, X, np.zeros(len(X)))
    assert run_in_pieces(model, X, np.zeros(len(X)), [])[1]["labels"].tolist() == [0, 1] + [0] * len(between)


ROUNDED = {"gaussian": (Gaussian(1.0, 1e4), 32.0, 0.0), "von-mises-fisher": (VonMisesFisher(900.0), 1.0, 0.25)}


@pytest.mark.parametrize("name", ROUNDED)
def test_rounding_breaks_no_tie(name):
    # Four tables have the same numbers in other places: they are equally far from their middle, but for rounding.
    family, length, middle = ROUNDED[name]
    model = make_model(family, alpha=1e-150)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        values = rng.uniform(1.0, 2.0, 4)
        X = np.zeros((5, 16))
        for row, places in zip(X, rng.permutation(16).reshape(4, 4), strict=False):
            row[places] = values * length / np.linalg.norm(values)
        X[4] = middle
        assert_agrees(model, X, np.zeros(5))
        assert run_in_pieces(model, X, np.zeros(5), [])[1]["labels"].tolist() == [0, 1, 2, 3, 0]


# --- silence --------------------------------------------------------------------------------------------------------

# The occupancy of e customers falls below 1e-300 after 692 timescales, and exp underflows after 745.
SILENCES = [400.0, 680.0, 700.0, 740.0, 1e4, 1e200]


WAVES = Exponential(1.0) * Oscillatory(7.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "waves", "silence"),
    pairwise(["gaussian", "bernoulli", "poisson", "von-mises-fisher"], [False, True], SILENCES),
)
def test_long_silences(name, waves, silence):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 60, seed=10)
    times[30:] += silence
    assert_agrees(make_model(family, WAVES if waves else Exponential(1.0)), X, times)


@table_counts
@pytest.mark.parametrize("silence", [600.0, 760.0, 1e5])
def test_silence_and_the_number_of_tables(silence, table_count):
    family, D = ENGINE_FAMILIES["gaussian"]
    X, times = make_stream(family, D, 45, seed=11)
    times[20:] += silence
    times[40:] += silence
    model = make_model(family, Exponential(1.0), table_count=table_count, new_table_threshold=0.31)
    assert_agrees(model, X, times)


@pytest.mark.parametrize("before", [0.0, 300.0, 499.0])
@pytest.mark.parametrize("silence", [550.0, 600.0, 650.0])
def test_a_silence_that_a_table_survives(silence, before):
    # In 128 dimensions a new table costs 1200 nats: the old one is preferred at an occupancy of exp(−650), however
    # long the stream was when the silence began.
    X = np.random.default_rng(0).normal(size=(60, 128))
    times = np.append(np.linspace(0.0, before, 59), before + silence)
    model = make_model(Gaussian(1.0, 1e8), Exponential(1.0))
    reference, engine = assert_agrees(model, X, times)
    assert engine.n_tables == 1
    queries = times[-1] + np.array([0.0, 0.5 * silence, silence])
    np.testing.assert_allclose(
        engine.responsibilities(X[:3], queries), reference.responsibilities(X[:3], queries), atol=TOLERANCE
    )


@pytest.mark.parametrize("before", [0.0, 499.0])
def test_a_silence_that_no_table_survives(before):
    # At an occupancy of 1e-302 the old table would still be preferred by far; but less than 1e-300 is nothing.
    X = np.random.default_rng(0).normal(size=(60, 128))
    times = np.append(np.linspace(0.0, before, 59), before + 700.0)
    _, engine = assert_agrees(make_model(Gaussian(1.0, 1e8), Exponential(1.0)), X, times)
    assert engine.n_tables == 2


@pytest.mark.parametrize("dynamics", [Exponential(1.0), Exponential(1.0) * Oscillatory(7.3)], ids=["plain", "waves"])
def test_asking_about_times_that_the_frame_cannot_reach(dynamics):
    # The frame still begins at 0, and exp(−799) is 0; but the table, last seen at 499, has only lost 300 nats by then.
    X = np.random.default_rng(0).normal(size=(60, 128))
    reference, engine = assert_agrees(make_model(Gaussian(1.0, 1e8), dynamics), X, np.linspace(0.0, 499.0, 60))
    when = 499.0 + np.array([0.0, 100.0, 300.0, 500.0])
    shares = engine.responsibilities(X[:4], when)
    assert np.all(shares[:, 0] > 0.99)
    np.testing.assert_allclose(shares, reference.responsibilities(X[:4], when), atol=TOLERANCE)
    np.testing.assert_allclose(engine.log_density(X[:4], when), reference.log_density(X[:4], when), rtol=TOLERANCE)

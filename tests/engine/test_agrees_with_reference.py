"""The compiled engine does what the reference says: every family, every dynamics, every rule."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from cases import ENGINE_DYNAMICS, ENGINE_FAMILIES, in_turn, pairwise
from dyncrp import Bernoulli, Categorical, Exponential, Gaussian, NormalGamma, NormalWishart, Poisson, VonMisesFisher
from dyncrp.dynamics import Dynamics
from dyncrp.engine import ReferenceEngine
from dyncrp.engine.native import NativeEngine
from dyncrp.families.protocols import settings
from engines import (
    ASSIGNMENTS,
    MEMORIES,
    TABLE_COUNTS,
    TOLERANCE,
    assert_agrees,
    assert_same_bits,
    assert_same_state,
    assignments,
    directions,
    families,
    make_model,
    make_stream,
    run_in_pieces,
)

pytestmark = pytest.mark.usefixtures("no_lower_bounds")


HEADERS = {
    "gaussian": "Gaussian",
    "gaussian-proportional": "Gaussian",
    "gaussian-diagonal": "GaussianDiagonal",
    "gaussian-directions": "GaussianDiagonal",
    "gaussian-few-directions": "Gaussian",
    "unknown-variance": "NormalGamma",
    "unknown-variance-by-dimension": "NormalGamma",
    "unknown-covariance": "NormalWishart",
    "unknown-covariance-by-dimension": "NormalWishart",
    "bernoulli": "Bernoulli",
    "bernoulli-by-dimension": "Bernoulli",
    "poisson": "Poisson",
    "poisson-by-dimension": "Poisson",
    "categorical": "Categorical",
    "categorical-by-dimension": "Categorical",
    "von-mises-fisher": "VonMisesFisher",
    "columns": "Columns",
    "columns-of-all-kinds": "Columns",
}


def test_which_code_computes_which_family():
    found = {name: settings(*case).kind for name, case in ENGINE_FAMILIES.items()}
    assert found == HEADERS


@pytest.mark.parametrize(
    ("seed", "name", "dynamics", "assignment", "table_count", "memory"),
    [
        (seed, *case)
        for seed, case in enumerate(
            pairwise(ENGINE_FAMILIES, ENGINE_DYNAMICS, ASSIGNMENTS, TABLE_COUNTS, [math.inf, 2.0, 7.5, 40.0])
        )
    ],
)
def test_generated_streams(seed, name, dynamics, assignment, table_count, memory):
    # The posterior over table counts at a low threshold is chaotic: moving the input of the reference by 1e-14 moves
    # its labels within 200 rows. Engines can only be compared before that.
    n = 40 if table_count == "posterior" else 70
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, n, seed)
    rng = np.random.default_rng(seed)
    alpha, threshold, n_iter = 10.0 ** rng.uniform(-2.0, 1.5), rng.uniform(0.05, 0.99), int(rng.integers(1, 5))
    rules = {"assignment": assignment, "table_count": table_count, "n_iter": n_iter, "new_table_threshold": threshold}
    assert_agrees(make_model(family, ENGINE_DYNAMICS[dynamics], alpha, memory, **rules), X, times)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("D", "kappa", "assignment", "memory"), pairwise([2, 3, 8, 70], [0.0, 5.0, 500.0], ASSIGNMENTS, MEMORIES)
)
def test_directions_of_any_dimension_and_concentration(D, kappa, assignment, memory):
    family = VonMisesFisher(kappa)
    X, times = make_stream(VonMisesFisher(max(kappa, 1.0)), D, 100, seed=D)
    X[60:] = directions(40, D, seed=1)  # not of the clusters: opposite to some, between others
    model = make_model(family, Exponential(40.0), 0.37, memory, assignment=assignment, new_table_threshold=0.21)
    assert_agrees(model, X, times)


@pytest.mark.parametrize(
    ("name", "D", "assignment", "memory"),
    pairwise(
        [
            "gaussian",
            "gaussian-diagonal",
            "unknown-variance",
            "unknown-covariance",
            "bernoulli",
            "poisson",
            "categorical",
        ],
        [1, 7, 8, 9, 33],
        ASSIGNMENTS,
        MEMORIES,
    ),
)
def test_any_number_of_features(name, D, assignment, memory):
    family = {
        "gaussian": Gaussian(1.3, 40.0),
        "gaussian-diagonal": Gaussian(1.3, np.linspace(10.0, 60.0, D) if D > 1 else 40.0),
        "unknown-variance": NormalGamma(1.3, 40.0, 4.0),
        "unknown-covariance": NormalWishart(1.3, 40.0, 4.0),
        "bernoulli": Bernoulli(0.3, 0.4),
        "poisson": Poisson(0.7, 0.05),
        "categorical": Categorical(0.4),
    }[name]
    X, times = make_stream(family, D, 80, seed=D)
    assert_agrees(make_model(family, Exponential(50.0), memory=memory, assignment=assignment), X, times)


def test_so_many_directions_that_the_product_of_their_gains_is_0():
    family = Gaussian(1.3, np.linspace(10.0, 60.0, 1500))
    X, times = make_stream(family, 1500, 30, seed=5)
    assert_agrees(make_model(family, Exponential(50.0)), X, times)


@dataclass(frozen=True)
class Unsigned(Dynamics):
    """A dynamics that does not say that its kernel is never negative."""

    inner: Dynamics

    def modes(self):
        return self.inner.modes()


@families
def test_clipping_what_is_never_negative_changes_nothing(name):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 200, seed=5)
    model = make_model(family, ENGINE_DYNAMICS["sum-of-products"])
    _, trusting = run_in_pieces(model, X, times, [])
    _, clipping = run_in_pieces(replace(model, dynamics=Unsigned(model.dynamics)), X, times, [])
    assert trusting["labels"].tolist() == clipping["labels"].tolist()
    # A row with nothing in it has log evidence 0, of which rounding leaves no digits.
    np.testing.assert_allclose(trusting["log_evidence"], clipping["log_evidence"], rtol=TOLERANCE, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "memory"), in_turn(ENGINE_FAMILIES, MEMORIES))
def test_long_streams(name, memory):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 400, seed=7, n_clusters=12)
    assert_agrees(make_model(family, ENGINE_DYNAMICS["sticky"], memory=memory), X, times)


@families
def test_many_responsibilities_a_row(name):
    # Some 200 tables on top of each other, all with a share in every row: the record outgrows its first size.
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 200, seed=6, n_clusters=1)
    model = make_model(family, alpha=1e9)
    reference, engine = assert_agrees(model, X, times)
    if name != "columns-of-all-kinds":  # where a row tells more than alpha
        assert engine.n_tables == 200
        assert np.sum(run_in_pieces(model, X, times, [])[1]["sizes"]) > 10 * len(X)
    X, when = X[::2], np.full(100, times[-1])
    np.testing.assert_allclose(engine.responsibilities(X, when), reference.responsibilities(X, when), atol=TOLERANCE)


@families
def test_a_new_alpha_counts_from_the_next_observation_on(name):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 80, seed=28, n_clusters=20)
    reference, engine = (kind(make_model(family, alpha=1e-3), D) for kind in (ReferenceEngine, NativeEngine))
    for alpha, part in [(1e-3, slice(0, 30)), (1e8, slice(30, 60)), (0.5, slice(60, 80))]:
        for one in (reference, engine):
            one.set_alpha(alpha)
        expected, trace = reference.run(X[part], times[part]), engine.run(X[part], times[part])
        assert trace.labels.tolist() == expected.labels.tolist()
        np.testing.assert_allclose(trace.log_evidence, expected.log_evidence, rtol=TOLERANCE, atol=TOLERANCE)
    assert_same_state(reference, engine)


@assignments
@pytest.mark.parametrize("degrees", [0.1, 1.0, 1e3, 1e7, 1e12, 1e100])
def test_any_degrees_of_freedom(degrees, assignment):
    family = NormalGamma(1.3, 40.0, degrees)
    X, times = make_stream(Gaussian(1.3, 40.0), 5, 150, seed=23)
    assert_agrees(make_model(family, Exponential(50.0), assignment=assignment), X, times)


@assignments
def test_many_degrees_of_freedom_are_a_known_variance(assignment):
    X, times = make_stream(Gaussian(1.3, 40.0), 5, 300, seed=24)
    known = NativeEngine(make_model(Gaussian(1.3, 40.0), Exponential(50.0), assignment=assignment), 5)
    unknown = NativeEngine(make_model(NormalGamma(1.3, 40.0, 1e14), Exponential(50.0), assignment=assignment), 5)
    expected, trace = known.run(X, times), unknown.run(X, times)
    assert trace.labels.tolist() == expected.labels.tolist()
    np.testing.assert_allclose(trace.log_evidence, expected.log_evidence, atol=1e-9)


@pytest.mark.parametrize(("D", "mean", "assignment"), pairwise([1, 5, 40], [0.05, 3.0, 200.0, 1e6], ASSIGNMENTS))
def test_counts_of_any_size(D, mean, assignment):
    family = Poisson(0.4, 0.4 / mean)
    X, times = make_stream(family, D, 150, seed=D)
    assert_agrees(make_model(family, Exponential(60.0), assignment=assignment), X, times)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "assignment", "table_count"), pairwise(ENGINE_FAMILIES, ASSIGNMENTS, TABLE_COUNTS))
def test_shares_and_densities(name, assignment, table_count):
    family, D = ENGINE_FAMILIES[name]
    rules = {"assignment": assignment, "table_count": table_count, "new_table_threshold": 0.11, "n_iter": 2}
    X, times = make_stream(family, D, 50, seed=16)
    reference, engine = assert_agrees(make_model(family, ENGINE_DYNAMICS["goes-negative"], **rules), X, times)
    before = engine.arrays()
    queries = np.vstack([X[::2], make_stream(family, D, 30, seed=17)[0]])
    when = times[-1] + np.random.default_rng(0).exponential(4.0, len(queries))  # in no order
    shares, density = engine.responsibilities(queries, when), engine.log_density(queries, when)
    assert shares.shape == (len(queries), engine.n_tables + 1)
    np.testing.assert_allclose(shares, reference.responsibilities(queries, when), atol=TOLERANCE)
    np.testing.assert_allclose(density, reference.log_density(queries, when), rtol=TOLERANCE, atol=TOLERANCE)
    assert_same_bits(engine.arrays(), before)


@pytest.mark.parametrize(("name", "assignment", "threshold"), pairwise(ENGINE_FAMILIES, ASSIGNMENTS, [0.2, 0.95]))
def test_labels_of_rows_by_themselves(name, assignment, threshold):
    family, D = ENGINE_FAMILIES[name]
    X, times = make_stream(family, D, 60, seed=21)
    model = make_model(family, Exponential(20.0), 3.3, assignment=assignment, new_table_threshold=threshold)
    reference, engine = assert_agrees(model, X, times)
    before = engine.arrays()
    queries = make_stream(family, D, 40, seed=22)[0]
    when = times[-1] + np.random.default_rng(0).exponential(9.0, 40)
    assert engine.predict(queries, when).tolist() == reference.predict(queries, when).tolist()
    assert_same_bits(engine.arrays(), before)


@pytest.mark.parametrize("timescale", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tables_that_live_on_tiny_shares(timescale, seed):
    # Forgetting outruns revisits: occupancies fall to where shares of 1e-12 would be all that is left of them.
    X = 2.0 * np.random.default_rng(seed).normal(size=(300, 8))
    assert_agrees(make_model(Gaussian(1.0, 100.0), Exponential(timescale)), X, np.arange(300.0))

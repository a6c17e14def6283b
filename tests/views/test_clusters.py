"""Clusters: the shapes of tables they are made from, what people see, and the object."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.cluster.hierarchy import is_valid_linkage
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_mutual_info_score

from cases import FAMILIES, SEPARATED, FamilyCase, draw
from dyncrp import DynamicalMixture, Exponential, Gaussian, NormalGamma, Stationary, VonMisesFisher, combine
from dyncrp.engine import make_engine
from dyncrp.engine.reference import ReferenceEngine
from dyncrp.families.base import Family
from dyncrp.views.clusters import SHAPES, join

FOUR_TABLES = [[0.0], [5.0], [50.0], [55.0], [1.0]]
of_every_shape = pytest.mark.parametrize("shape", SHAPES)


def fitted(family, D, n=300, seed=0, **options):
    """A model that has learned n rows of a mixture of the family's own clusters, and those rows."""
    X, _ = draw(FamilyCase(family, D), n, seed)
    return DynamicalMixture(family, Exponential(50.0), 2.0, **options).fit(X), X


# What the shapes of tables are


@pytest.mark.parametrize(
    "name", [name for name in FAMILIES if not name.startswith(("bernoulli", "poisson", "categorical", "columns"))]
)
def test_shapes_are_the_moments_of_what_tables_took_in(name):
    family, D = FAMILIES[name]
    model, X = fitted(family, D)
    state = model.engine_.state
    shapes = family.shapes(state.stats, state.squares)
    R = model.responsibilities_.toarray()
    for c in range(len(R.T)):
        r = R[:, c]
        if isinstance(family, VonMisesFisher):
            Y = X * np.sqrt(family.concentration)
            mean = r @ Y / r.sum()
            spread = r @ np.sum((Y - mean) ** 2, axis=1) / r.sum() / (D - 1)
            mean = mean / np.linalg.norm(mean) * np.sqrt(family.concentration)
        else:
            Z = family.coordinates(X) if isinstance(family, Gaussian) else X - family.prior_mean
            Y = Z / np.sqrt(family.variance)
            mean = r @ Y / r.sum()
            spread = (Y - mean).T @ ((Y - mean) * r[:, None]) / r.sum()
            if isinstance(family, NormalGamma):
                spread = np.diag(spread)
        assert shapes.counts[c] == pytest.approx(r.sum(), rel=1e-9)
        np.testing.assert_allclose(shapes.centers[c], mean, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(shapes.spread[c], spread, rtol=1e-7, atol=1e-7)


def test_of_many_features_one_spread_serves_all():
    family = Gaussian(np.arange(1.0, 13.0), 50.0, 3.0)
    model, X = fitted(family, 12)
    state = model.engine_.state
    assert state.squares.shape == (model.n_tables_, 1 + 36)
    Y = (X - 3.0) / np.sqrt(family.variance)
    R = model.responsibilities_.toarray()
    means = R.T @ Y / R.sum(axis=0)[:, None]
    gaps = np.sum((Y[:, None, :] - means) ** 2, axis=2)
    expected = np.sum(R * gaps, axis=0) / R.sum(axis=0) / 12
    np.testing.assert_allclose(family.shapes(state.stats, state.squares).spread, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("far", [1e3, 1e5, 1e7, 1e9, 1e12])
def test_far_from_the_prior_mean_a_spread_is_right_or_that_of_the_family(far):
    X = np.random.default_rng(0).normal(far, 3.0, size=(400, 2))
    model = DynamicalMixture(Gaussian(1.0, 1e30), alpha=1e-200).fit(X)
    assert model.n_tables_ == 1
    state = model.engine_.state
    spread = model.family_.shapes(state.stats, state.squares).spread[0]
    expected = np.cov(X.T, bias=True) if far < 1e6 else np.eye(2)
    np.testing.assert_allclose(spread, expected, atol=0.01)


@pytest.mark.parametrize("features", [(1, 2), (3, 5), (7, 8), (7, 10), (8, 9), (9, 12)])
def test_widened_squares_are_those_of_zeros(features):
    D, wider = features
    family = Gaussian(2.0, 30.0, 1.5)
    X, _ = draw(FamilyCase(family, D), 100, 1)
    state = DynamicalMixture(family).fit(X).engine_.widen(wider).state
    tables = np.hstack([X, np.zeros((100, wider - D))])
    R = DynamicalMixture(family).fit(X).responsibilities_.toarray()
    np.testing.assert_allclose(state.squares, R.T @ family.squares(tables), rtol=1e-9, atol=1e-9)
    reference = ReferenceEngine(DynamicalMixture(family).fit(X).engine_.model, D)
    reference.run(X, np.arange(100.0))
    np.testing.assert_allclose(reference.widen(wider).state.squares, state.squares, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("D", [1, 4, 8, 9, 20])
def test_squares_that_were_not_recorded_are_those_of_tables_as_wide_as_the_family(D):
    family = Gaussian(2.0, 30.0, 1.5)
    model, _ = fitted(family, D)
    arrays = {name: array for name, array in model.engine_.arrays().items() if name != "squares"}
    arrays["squares"] = family.expected_squares(arrays["stats"], D)
    shapes = family.shapes(arrays["stats"], arrays["squares"])
    expected = np.ones(len(shapes.counts)) if D > 8 else np.broadcast_to(np.eye(D), (len(shapes.counts), D, D))
    np.testing.assert_allclose(shapes.spread, expected, atol=1e-9)
    model.engine_.restore({name: array for name, array in model.engine_.arrays().items() if name != "squares"})
    np.testing.assert_allclose(model.engine_.state.squares, arrays["squares"])
    assert len(model.clusters()) >= 1
    assert len(model.clusters(shape="any")) >= 1


# What people see


@pytest.mark.parametrize("n", [500, 1500])
@pytest.mark.parametrize("make", [make_moons, lambda n, **options: make_circles(n, factor=0.5, **options)])
def test_curves_are_whole(make, n):
    X, y = make(n, noise=0.05, random_state=5)
    model = DynamicalMixture().fit(X)
    assert model.n_tables_ > 10
    for clusters in (model.clusters(), model.clusters(shape="any")):
        assert clusters.shape == "any"
        assert len(clusters) == 2
        assert adjusted_mutual_info_score(y, clusters.labels(model.labels_)) > 0.99


@pytest.mark.parametrize("kind", ["uniform", "student", "lognormal", "cauchy"])
def test_a_cloud_has_no_valley(kind):  # nor in five dimensions: see tests/search/test_cloud.py
    rng = np.random.default_rng(5)
    shape = (1000, 2)
    X = {
        "uniform": rng.uniform(size=shape),
        "student": rng.standard_t(2, size=shape),
        "lognormal": rng.lognormal(size=shape),
        "cauchy": rng.standard_cauchy(size=shape),
    }[kind]
    clusters = DynamicalMixture().fit(X).clusters(shape="any")
    assert len(clusters) == 1
    assert clusters.headline.endswith(": no clusters stand out") or len(clusters.table_ids) == 1


@of_every_shape
@pytest.mark.parametrize("D", [2, 10, 50])
def test_clear_blobs_stay_apart(D, shape):
    X, y = make_blobs(600, D, centers=5, cluster_std=0.5, random_state=3)
    model = DynamicalMixture().fit(X)
    assert adjusted_mutual_info_score(y, model.clusters(shape=shape).labels(model.labels_)) > 0.99


@of_every_shape
@pytest.mark.parametrize("name", list(SEPARATED))
def test_clear_clusters_of_every_family_stay_apart(name, shape):
    family, D = SEPARATED[name]
    rng = np.random.default_rng(0)
    parameters = family.sample_parameters(4, D, rng)
    y = rng.integers(4, size=400)
    X = family.sample(parameters[y], rng)
    model = DynamicalMixture(family).fit(X)
    for clusters in (model.clusters(shape=shape), model.clusters(4, shape)):
        assert len(clusters) == 4
        assert adjusted_mutual_info_score(y, clusters.labels(model.labels_)) > 0.95


def test_two_narrow_clusters_beside_a_wide_one_stay_apart():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(0.0, 10.0, (300, 2)), rng.normal(60.0, 0.1, (300, 2)), rng.normal(90.0, 0.1, (300, 2))])
    y = np.repeat([0, 1, 2], 300)
    order = rng.permutation(900)
    model = DynamicalMixture(NormalGamma(1.0, 1000.0)).fit(X[order])
    for shape in SHAPES:
        clusters = model.clusters(shape=shape).labels(model.labels_)
        assert adjusted_mutual_info_score(y[order], clusters) > 0.95


@of_every_shape
@pytest.mark.parametrize("far", [1e9, 1e12, 9.97e36, 1e139])
@pytest.mark.parametrize("family", [Gaussian(1.0, 100.0), NormalGamma(1.0, 100.0), Gaussian(1.0, [100.0, 99.0])])
def test_a_row_however_far_does_not_blur_the_others(family, far, shape):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    X = np.vstack([np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])[y] + rng.normal(size=(600, 2)), [[far, -far]]])
    model = DynamicalMixture(family).fit(X)
    for clusters in (model.clusters(shape=shape), model.clusters(4, shape)):
        assert adjusted_mutual_info_score(y, clusters.labels(model.labels_)[:600]) > 0.95


@of_every_shape
@pytest.mark.parametrize("memory", [2.0, 8.0, 15.0, 100.0])
def test_what_a_table_has_forgotten_still_counts(memory, shape):
    rng = np.random.default_rng(0)
    X = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]])[np.arange(300) % 3] + rng.normal(size=(300, 2))
    clusters = DynamicalMixture(Gaussian(1.0, 1000.0), memory=memory).fit(X).clusters(shape=shape)
    assert len(clusters) == 3
    # As long as a part of the first row is left, all rows are known; a memory of 2 keeps 2^-52 after 52 rows.
    assert clusters.sizes == pytest.approx([52.0 if memory == 2.0 else 100.0] * 3, rel=1e-3)


# The default


@pytest.mark.parametrize(("n", "seed"), [(500, 0), (1500, 1)])
def test_by_default_curves_are_found(n, seed):
    curves = make_moons(n, noise=0.06, random_state=seed), make_circles(n, factor=0.5, noise=0.05, random_state=seed)
    for X, y in curves:
        model = DynamicalMixture().fit(X)
        assert adjusted_mutual_info_score(y, model.clusters().labels(model.labels_)) >= 0.95


def test_by_default_overlapping_ellipses_are_not_one_cluster():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=1000)
        X = np.array([[0.0, 0.0], [3.5, 0.0], [0.0, 3.5]])[y] + rng.normal(size=(1000, 2))
        model = DynamicalMixture().fit(X)
        clusters = model.clusters()
        assert clusters.shape == "elliptical"
        assert len(clusters) > 1


# The object


@of_every_shape
def test_a_cluster_goes_by_its_oldest_table(shape):
    model = DynamicalMixture(Gaussian(1.0, 400.0)).fit(FOUR_TABLES)
    clusters = model.clusters(2, shape)
    assert clusters.table_ids.tolist() == [0, 1, 2, 3]
    assert clusters.cluster_of.tolist() == [0, 0, 2, 2]
    assert clusters.ids.tolist() == [0, 2]
    assert clusters.sizes == pytest.approx([3.0, 2.0], abs=1e-3)
    assert clusters.labels([3, -1, 0, 99]).tolist() == [2, -1, 0, -1]
    assert clusters.labels(np.array([[3], [1]])).tolist() == [[2], [0]]
    assert clusters.labels([]).tolist() == []
    assert clusters.headline == "4 tables in 2 clusters"
    assert model.predict_clusters([[53.0], [-500.0]], 2).tolist() == [2, -1]


def test_the_ids_are_those_of_tables_that_are_still_open():
    model = DynamicalMixture(Gaussian(1.0, 400.0), max_tables=2).fit(FOUR_TABLES)
    assert model.table_ids_.tolist() != [0, 1]
    clusters = model.clusters(1)
    assert clusters.cluster_of.tolist() == [model.table_ids_[0]] * 2
    assert clusters.labels(model.closed_ids_).tolist() == [-1] * len(model.closed_ids_)


def test_one_table_is_one_cluster():
    model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0, 1.0]])
    for clusters in (found for shape in SHAPES for found in (model.clusters(shape=shape), model.clusters(1, shape))):
        assert (len(clusters), clusters.tree.shape, clusters.headline) == (1, (0, 4), "1 table in 1 cluster")


@of_every_shape
@pytest.mark.parametrize("n", [None, 2])
def test_scipy_draws_the_tree(n, shape):
    X, _ = make_blobs(300, centers=4, cluster_std=2.0, random_state=0)
    model = DynamicalMixture(Gaussian(1.0, 30.0)).fit(X)
    tree = model.clusters(n, shape).tree
    assert is_valid_linkage(tree)
    assert len(hierarchy.dendrogram(tree, no_plot=True)["leaves"]) == model.n_tables_ > 4


@pytest.mark.parametrize("bad", [0, -1, 5, 1.5, "2", True])
def test_a_wrong_number_is_refused(bad):
    model = DynamicalMixture(Gaussian(1.0, 400.0)).fit(FOUR_TABLES)
    with pytest.raises(ValueError, match=r"^n must be"):
        model.clusters(bad)


@pytest.mark.parametrize("bad", ["round", "", None, 2])
def test_a_wrong_shape_is_refused(bad):
    model = DynamicalMixture(Gaussian(1.0, 400.0)).fit(FOUR_TABLES)
    with pytest.raises(ValueError, match=r"^shape must be one of"):
        model.clusters(shape=bad)


def test_labels_that_are_no_ids_are_refused():
    clusters = DynamicalMixture(Gaussian(1.0, 400.0)).fit(FOUR_TABLES).clusters()
    with pytest.raises(ValueError, match="table_labels"):
        clusters.labels([0.5])


@of_every_shape
def test_clusters_change_nothing_and_do_not_depend_on_the_cuts(shape):
    X, _ = make_moons(400, noise=0.05, random_state=0)
    whole = DynamicalMixture(Gaussian(0.02, 1.0)).fit(X)
    before = whole.engine_.arrays()
    clusters = whole.clusters(shape=shape)
    for name, array in whole.engine_.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    parts = DynamicalMixture(Gaussian(0.02, 1.0))
    for part in np.array_split(X, 23):
        parts.partial_fit(part)
    np.testing.assert_array_equal(parts.clusters(shape=shape).cluster_of, clusters.cluster_of)
    np.testing.assert_array_equal(parts.clusters(shape=shape).tree, clusters.tree)


def test_both_engines_have_the_same_clusters(tmp_path):
    X, _ = make_moons(300, noise=0.05, random_state=0)
    model = DynamicalMixture(Gaussian(0.02, 1.0)).fit(X)
    reference = ReferenceEngine(model.engine_.model, 2)
    reference.run(X, np.arange(300.0))
    for shape in SHAPES:
        found = join(reference.model, reference.state, shape=shape)
        np.testing.assert_array_equal(found.cluster_of, model.clusters(shape=shape).cluster_of)
    model.save(tmp_path / "model.npz")
    loaded = DynamicalMixture.load(tmp_path / "model.npz")
    for shape in SHAPES:
        np.testing.assert_array_equal(loaded.clusters(shape=shape).tree, model.clusters(shape=shape).tree)


@of_every_shape
@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e6])
def test_clusters_do_not_depend_on_the_units(factor, shape):
    X, _ = make_blobs(300, centers=4, cluster_std=2.0, random_state=0)
    one = DynamicalMixture(Gaussian(1.0, 30.0)).fit(X)
    other = DynamicalMixture(Gaussian(factor**2, 30.0 * factor**2)).fit(factor * X)
    for n in (None, 3):
        np.testing.assert_array_equal(one.clusters(n, shape).cluster_of, other.clusters(n, shape).cluster_of)


def of_inner(name):
    return lambda self, *args: getattr(self.inner, name)(*args)


@dataclass(frozen=True, eq=False)
class Plain(Family):
    """A family of someone else's that has what inference needs, and does not say how wide its tables are."""

    inner: Gaussian

    check, log_base_measure, log_partition, centers = map(
        of_inner, ("check", "log_base_measure", "log_partition", "centers")
    )
    log_predictive, expected_log_likelihood, sample_parameters, sample = map(
        of_inner, ("log_predictive", "expected_log_likelihood", "sample_parameters", "sample")
    )


def test_a_family_that_does_not_say_how_wide_its_tables_are_has_no_valleys():
    model = DynamicalMixture(Plain(Gaussian(1.0, 400.0))).fit(FOUR_TABLES)
    assert model.clusters(2, "any").cluster_of.tolist() == model.clusters(2).cluster_of.tolist() == [0, 0, 2, 2]
    assert model.clusters().shape == "elliptical"
    with pytest.raises(ValueError, match="give the number of clusters"):
        model.clusters(shape="any")


def test_clusters_however_far_apart_stay_apart():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(100, 1)) + 1e7 * k for k in range(4)])
    clusters = DynamicalMixture(Gaussian(1.0, 1e14)).fit(rng.permutation(X)).clusters()
    assert clusters.sizes.tolist() == [100.0] * 4


def test_no_table_scatters_less_than_nothing():
    X = np.random.default_rng(0).normal(size=(120, 1)) * 3.0
    model = DynamicalMixture(Gaussian(1.0, 20.0)).fit(X)
    own = np.flatnonzero(model.labels_ == 0)
    model.split(0, X[own[np.argsort(X[own, 0])][: len(own) // 2]])  # rows that other tables share
    state = model.engine_.state
    assert np.all(model.family_.scatter(state.stats, state.squares).scatter >= 0.0)


def test_combined_models_of_a_cloud_are_one_cluster():
    X = np.exp(np.random.default_rng(5).normal(size=(1200, 2)))
    model = DynamicalMixture(dynamics=Stationary(), warmup=600).fit(X[:600])
    other = DynamicalMixture.from_bytes(model.to_bytes())
    assert model.engine_.model.cloud
    combined = combine([model, other]).model
    assert combined.engine_.model.cloud


def test_squares_of_an_earlier_file_are_completed():
    family = Gaussian(np.arange(1.0, 13.0), 50.0, 3.0)
    model, X = fitted(family, 12)
    arrays = model.engine_.arrays()
    old = make_engine(model.engine_.model, 12)
    old.restore(arrays | {"squares": arrays["squares"][:, :1]})
    found = old.arrays()["squares"]
    np.testing.assert_array_equal(found[:, 0], arrays["squares"][:, 0])
    np.testing.assert_allclose(found[:, 1:], family.expected_squares(arrays["stats"], 12)[:, 1:])
    assert np.array_equal(
        old.predict(X, np.full(len(X), old.time)), model.engine_.predict(X, np.full(len(X), old.time))
    )

"""Groups of tables: the shapes they are made from, Ward's tree and the valleys, each against a slow oracle."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.special import gamma, xlogy
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_mutual_info_score

from cases import FAMILIES, SEPARATED, FamilyCase, draw
from dyncrp import Bernoulli, DynamicalMixture, Exponential, Gaussian, NormalGamma, VonMisesFisher
from dyncrp.engine.reference import ReferenceEngine
from dyncrp.families.base import Family
from dyncrp.views.groups import join

FOUR_TABLES = [[0.0], [5.0], [50.0], [55.0], [1.0]]


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
    assert state.squares.shape == (model.n_tables_, 1)
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
    assert len(model.groups()) >= 1


# Ward


def tables(K, D, seed, scale=4.0):
    """Stats and squares of K tables under Gaussian(1, 25), and the rows that made them."""
    rng = np.random.default_rng(seed)
    family = Gaussian(1.0, 25.0)
    rows = [rng.normal(size=D) * scale + rng.normal(size=(rng.integers(1, 12), D)) for _ in range(K)]
    stats = np.array([family.statistics(X).sum(axis=0) for X in rows])
    squares = np.array([family.squares(X).sum(axis=0) for X in rows])
    return family, stats, squares, rows


@pytest.mark.parametrize("seed", range(5))
def test_wards_tree_is_that_of_scipy_with_every_row_at_its_tables_centre(seed):
    family, stats, squares, rows = tables(23, 3, seed)
    centers = family.shapes(stats, squares).centers / np.sqrt(1.0 + 0.2 * 25.0)
    points = np.repeat(centers, [len(X) for X in rows], axis=0)
    heights = hierarchy.ward(points)[-22:, 2]
    for n_groups in (1, 2, 5, 22, 23):
        groups = join(family, stats, squares, np.arange(23), n_groups)
        np.testing.assert_allclose(groups.tree[:, 2], heights, rtol=1e-9)
        expected = hierarchy.fcluster(hierarchy.ward(points), n_groups, "maxclust") if n_groups < 23 else None
        assert len(groups) == n_groups
        if expected is not None:
            found = np.repeat(groups.group_of, [len(X) for X in rows])
            assert adjusted_mutual_info_score(expected, found) == pytest.approx(1.0)


def test_tables_in_one_place_join_first():
    family = Gaussian(1.0, 25.0)
    stats = np.array([[3.0, 6.0], [5.0, 10.0], [1.0, 2.0], [2.0, 40.0]])
    groups = join(family, stats, family.expected_squares(stats, 1), np.arange(4), 2)
    assert groups.group_of.tolist() == [0, 0, 0, 3]
    assert groups.tree[:2, 2].tolist() == [0.0, 0.0]


# Valleys


def slow_groups(shapes):
    """The rule of groups.py, table by table and point by point, and the height of every pair's joining."""
    n, mu = shapes.counts, shapes.centers
    K, Q = mu.shape
    forms, weights, windows = [], [], []
    for c in range(K):
        spread = shapes.spread[c]
        cov = spread if np.ndim(spread) == 2 else np.diag(np.broadcast_to(spread, Q))
        cov = (n[c] ** 2 / max(n[c] - 1.0, 1.0) * cov + 5.0 * np.eye(Q)) / (n[c] + 5.0)
        values, vectors = np.linalg.eigh(cov)
        values = np.maximum(values, shapes.least)
        cov = vectors @ np.diag(values) @ vectors.T
        size = np.prod(values) ** (min(Q, 2) / (2.0 * Q))
        forms.append(np.linalg.inv(1.25 ** min(1.0, 2.0 / Q) * cov))
        weights.append(n[c] / size)
        windows.append(1.0 if shapes.least else size)

    forms, weights = np.array(forms), np.array(weights)

    def density(x):
        gaps = np.einsum("ci,cij,cj->c", x - mu, forms, x - mu)
        return weights @ np.exp(-((gaps / gamma(1 / 3)) ** 1.5))

    peaks = [density(m) for m in mu]
    gaps = np.sum((mu[:, None] - mu) ** 2, axis=2)
    saddles = {}
    for a in range(K):
        for b in np.argsort(gaps[a])[:16]:
            if a != b:
                points = [mu[a] + i / 16 * (mu[b] - mu[a]) for i in range(1, 16)]
                # The ends are the peaks to the bit: saddles as high as the same peak are equal, and the shortest first.
                saddles[min(a, b), max(a, b)] = min(peaks[a], peaks[b], *(density(x) for x in points))
    group = list(range(K))
    for (a, b), saddle in sorted(saddles.items(), key=lambda item: (-item[1], gaps[item[0]])):
        low, high = sorted((group[a], group[b]), key=lambda c: peaks[c])
        if low == high:
            continue
        ratio = min(saddle / peaks[low], 1.0)
        P = peaks[low] * windows[low]
        P = min(
            max(P, sum(w * v for w, v, g in zip(weights, windows, group, strict=True) if g == low))
            if ratio < 1e-3
            else P,
            250.0,
        )
        m = P * (1.0 + ratio) / 2.0
        if 2.0 * (P * np.log(P / m) + xlogy(P * ratio, P * ratio / m)) <= 3.5**2:
            group = [high if g == low else g for g in group]
    return np.array(group)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["full", "round", "diagonal", "sphere", "bits"])
def test_the_rule_is_the_one_that_the_module_states(name, seed):
    rng = np.random.default_rng(seed)
    family, D = {
        "full": (Gaussian(1.0, 25.0), 2 + seed % 3),
        "round": (Gaussian(1.0, 25.0), 10),
        "diagonal": (NormalGamma(1.0, 25.0), 2),
        "sphere": (VonMisesFisher(30.0), 3),
        "bits": (Bernoulli(0.5, 0.5), 6),
    }[name]
    K = 20
    centers = rng.normal(size=(K, D)) * {10: 2.0, 6: 1.3}.get(D, 6.0)
    rows = [center + rng.normal(size=(rng.integers(2, 40), D)) * rng.uniform(0.5, 2.0, D) for center in centers]
    if name == "sphere":
        rows = [
            family.sample(np.tile(c / np.linalg.norm(c), (len(X), 1)), rng) for c, X in zip(centers, rows, strict=True)
        ]
    if name == "bits":
        rows = [(X > 0.0).astype(float) for X in rows]
    stats = np.array([family.statistics(X).sum(axis=0) for X in rows])
    squares = np.array([family.squares(X).sum(axis=0) for X in rows])
    groups = join(family, stats, squares, np.arange(K))
    expected = slow_groups(family.shapes(stats, squares))
    assert len(groups) == len(np.unique(expected))
    assert adjusted_mutual_info_score(expected, groups.group_of) == pytest.approx(1.0)
    assert 1 < len(groups) < K or name == "bits"  # neither all nor none: the rule is at work


def test_of_many_tables_only_the_near_ones_count_and_the_result_is_the_same():
    family, stats, squares, _ = tables(70, 2, 3, scale=20.0)
    groups = join(family, stats, squares, np.arange(70))
    expected = slow_groups(family.shapes(stats, squares))
    assert adjusted_mutual_info_score(expected, groups.group_of) > 0.999
    assert 3 < len(groups) < 65


def test_the_tree_connects_tables_however_far_apart():
    family = Gaussian(1.0, 1e6)
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(place, 2.0, size=(40, 2)) for place in (0.0, 1e4, 2e4)])
    stats, squares = family.statistics(X), family.squares(X)
    groups = join(family, stats, squares, np.arange(120))
    assert is_valid_linkage(groups.tree)
    assert np.all(np.isfinite(groups.tree))
    assert groups.tree[-3, 2] < 100.0 < 1e6 < groups.tree[-2, 2]
    whole = hierarchy.fcluster(groups.tree, 3, "maxclust")
    assert adjusted_mutual_info_score(np.repeat([0, 1, 2], 40), whole) == pytest.approx(1.0)


@pytest.mark.parametrize("far", [1e9, 1e12, 9.97e36, 1e139])
@pytest.mark.parametrize("family", [Gaussian(1.0, 100.0), NormalGamma(1.0, 100.0), Gaussian(1.0, [100.0, 99.0])])
def test_a_row_however_far_does_not_blur_the_others(family, far):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    X = np.vstack([np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])[y] + rng.normal(size=(600, 2)), [[far, -far]]])
    model = DynamicalMixture(family).fit(X)
    for groups in (model.groups(), model.groups(4)):
        assert adjusted_mutual_info_score(y, groups.labels(model.labels_)[:600]) > 0.95


@pytest.mark.parametrize("memory", [2.0, 8.0, 15.0, 100.0])
def test_what_a_table_has_forgotten_still_counts(memory):
    rng = np.random.default_rng(0)
    X = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]])[np.arange(300) % 3] + rng.normal(size=(300, 2))
    groups = DynamicalMixture(Gaussian(1.0, 1000.0), memory=memory).fit(X).groups()
    assert len(groups) == 3
    # As long as a part of the first row is left, all rows are known; a memory of 2 keeps 2^-52 after 52 rows.
    assert groups.sizes == pytest.approx([52.0 if memory == 2.0 else 100.0] * 3, rel=1e-3)


# What people see


@pytest.mark.parametrize("n", [500, 1500])
@pytest.mark.parametrize("make", [make_moons, lambda n, **options: make_circles(n, factor=0.5, **options)])
def test_curves_are_whole(make, n):
    X, y = make(n, noise=0.05, random_state=5)
    model = DynamicalMixture().fit(X)
    groups = model.groups()
    assert model.n_tables_ > 10
    assert len(groups) == 2
    assert adjusted_mutual_info_score(y, groups.labels(model.labels_)) > 0.99


@pytest.mark.parametrize("kind", ["uniform", "student", "lognormal", "cauchy"])
@pytest.mark.parametrize("D", [2, 5])
def test_a_cloud_is_one_group(kind, D):
    rng = np.random.default_rng(5)
    shape = (1000, D)
    X = {
        "uniform": rng.uniform(size=shape),
        "student": rng.standard_t(2, size=shape),
        "lognormal": rng.lognormal(size=shape),
        "cauchy": rng.standard_cauchy(size=shape),
    }[kind]
    groups = DynamicalMixture().fit(X).groups()
    assert len(groups) == 1
    assert str(groups).endswith(": no clusters stand out") or len(groups.table_ids) == 1


@pytest.mark.parametrize("D", [2, 10, 50])
def test_clear_blobs_stay_apart(D):
    X, y = make_blobs(600, D, centers=5, cluster_std=0.5, random_state=3)
    model = DynamicalMixture().fit(X)
    assert adjusted_mutual_info_score(y, model.groups().labels(model.labels_)) > 0.99


@pytest.mark.parametrize("name", list(SEPARATED))
def test_clear_clusters_of_every_family_stay_apart(name):
    family, D = SEPARATED[name]
    rng = np.random.default_rng(0)
    parameters = family.sample_parameters(4, D, rng)
    y = rng.integers(4, size=400)
    X = family.sample(parameters[y], rng)
    model = DynamicalMixture(family).fit(X)
    for groups in (model.groups(), model.groups(4)):
        assert len(groups) == 4
        assert adjusted_mutual_info_score(y, groups.labels(model.labels_)) > 0.95


def test_two_narrow_clusters_beside_a_wide_one_stay_apart():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(0.0, 10.0, (300, 2)), rng.normal(60.0, 0.1, (300, 2)), rng.normal(90.0, 0.1, (300, 2))])
    y = np.repeat([0, 1, 2], 300)
    order = rng.permutation(900)
    model = DynamicalMixture(NormalGamma(1.0, 1000.0)).fit(X[order])
    groups = model.groups().labels(model.labels_)
    assert adjusted_mutual_info_score(y[order], groups) > 0.95


# The object


def test_a_group_goes_by_its_oldest_table():
    model = DynamicalMixture(Gaussian(1.0, 400.0)).fit(FOUR_TABLES)
    groups = model.groups(2)
    assert groups.table_ids.tolist() == [0, 1, 2, 3]
    assert groups.group_of.tolist() == [0, 0, 2, 2]
    assert groups.ids.tolist() == [0, 2]
    assert groups.sizes == pytest.approx([3.0, 2.0], abs=1e-3)
    assert groups.labels([3, -1, 0, 99]).tolist() == [2, -1, 0, -1]
    assert groups.labels(np.array([[3], [1]])).tolist() == [[2], [0]]
    assert groups.labels([]).tolist() == []
    assert str(groups) == "4 tables in 2 groups"
    assert model.predict_groups([[53.0], [-500.0]], 2).tolist() == [2, -1]


def test_the_ids_are_those_of_tables_that_are_still_open():
    model = DynamicalMixture(Gaussian(1.0, 400.0), max_tables=2).fit(FOUR_TABLES)
    assert model.table_ids_.tolist() != [0, 1]
    groups = model.groups(1)
    assert groups.group_of.tolist() == [model.table_ids_[0]] * 2
    assert groups.labels(model.closed_ids_).tolist() == [-1] * len(model.closed_ids_)


def test_one_table_is_one_group():
    model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0, 1.0]])
    for groups in (model.groups(), model.groups(1)):
        assert (len(groups), groups.tree.shape, str(groups)) == (1, (0, 4), "1 table in 1 group")


@pytest.mark.parametrize("n_groups", [None, 2])
def test_scipy_draws_the_tree(n_groups):
    X, _ = make_blobs(300, centers=4, cluster_std=2.0, random_state=0)
    model = DynamicalMixture(Gaussian(1.0, 30.0)).fit(X)
    tree = model.groups(n_groups).tree
    assert is_valid_linkage(tree)
    assert len(hierarchy.dendrogram(tree, no_plot=True)["leaves"]) == model.n_tables_ > 4


@pytest.mark.parametrize("bad", [0, -1, 5, 1.5, "2", True])
def test_a_wrong_number_is_refused(bad):
    model = DynamicalMixture(Gaussian(1.0, 400.0)).fit(FOUR_TABLES)
    with pytest.raises(ValueError, match="n_groups"):
        model.groups(bad)


def test_labels_that_are_no_ids_are_refused():
    groups = DynamicalMixture(Gaussian(1.0, 400.0)).fit(FOUR_TABLES).groups()
    with pytest.raises(ValueError, match="table_labels"):
        groups.labels([0.5])


def test_groups_change_nothing_and_do_not_depend_on_the_cuts():
    X, _ = make_moons(400, noise=0.05, random_state=0)
    whole = DynamicalMixture(Gaussian(0.02, 1.0)).fit(X)
    before = whole.engine_.arrays()
    groups = whole.groups()
    for name, array in whole.engine_.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    parts = DynamicalMixture(Gaussian(0.02, 1.0))
    for part in np.array_split(X, 23):
        parts.partial_fit(part)
    np.testing.assert_array_equal(parts.groups().group_of, groups.group_of)
    np.testing.assert_array_equal(parts.groups().tree, groups.tree)


def test_both_engines_have_the_same_groups(tmp_path):
    X, _ = make_moons(300, noise=0.05, random_state=0)
    model = DynamicalMixture(Gaussian(0.02, 1.0)).fit(X)
    reference = ReferenceEngine(model.engine_.model, 2)
    reference.run(X, np.arange(300.0))
    state = reference.state
    found = join(model.family_, state.stats, state.squares, state.ids)
    np.testing.assert_array_equal(found.group_of, model.groups().group_of)
    model.save(tmp_path / "model.npz")
    loaded = DynamicalMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.groups().tree, model.groups().tree)


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e6])
def test_groups_do_not_depend_on_the_units(factor):
    X, _ = make_blobs(300, centers=4, cluster_std=2.0, random_state=0)
    one = DynamicalMixture(Gaussian(1.0, 30.0)).fit(X)
    other = DynamicalMixture(Gaussian(factor**2, 30.0 * factor**2)).fit(factor * X)
    for n_groups in (None, 3):
        np.testing.assert_array_equal(one.groups(n_groups).group_of, other.groups(n_groups).group_of)


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


def test_a_family_that_does_not_say_how_wide_its_tables_are_needs_a_number():
    model = DynamicalMixture(Plain(Gaussian(1.0, 400.0))).fit(FOUR_TABLES)
    assert model.groups(2).group_of.tolist() == [0, 0, 2, 2]
    with pytest.raises(ValueError, match="give the number of groups"):
        model.groups()

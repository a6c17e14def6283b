"""Tables joined by evidence: the loop in C++ against NumPy, NumPy against sequential predictions, and what it finds."""

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_t
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import Bernoulli, Categorical, Columns, DynamicalMixture, Gaussian, NormalGamma, Poisson, Stationary
from dyncrp.engine import has_extension
from dyncrp.families import protocols
from dyncrp.families.protocols import Scatter
from dyncrp.joining import clusters, components
from dyncrp.joining.components import (
    join_by_likelihood,
    join_by_scatter,
    join_greedily,
    join_slowly,
    share_of_others,
)
from dyncrp.joining.linkage import apply


def scatter_of(rows, kappa, R=0):
    """The scatter of tables with these rows, each (n, Q + R), of which the last R are the other coordinates."""
    Q = rows[0].shape[1] - R
    lower = np.tril_indices(Q)
    means = np.array([some.mean(axis=0) for some in rows])
    about = [some - some.mean(axis=0) for some in rows]
    return Scatter(
        np.array([float(len(some)) for some in rows]),
        means[:, :Q],
        np.array([(some[:, :Q].T @ some[:, :Q])[lower] for some in about]),
        kappa,
        means[:, Q:],
        np.array([np.sum(some[:, Q:] ** 2) for some in about]),
    )


def arguments(rows):
    """What ``join_tables`` takes first."""
    return rows.counts, rows.means, rows.scatter, rows.other_means, rows.other_scatter


def tables(seed, K, Q):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=Q) * 3.0 + rng.normal(size=(rng.integers(1, 30), Q)) for _ in range(K)]


def sequential_of_others(X, degrees, spread, kappa):
    """log p(X) of one component in the other coordinates, which share a variance: likewise, one row at a time."""
    R = X.shape[1]
    total, n, mean, a, b = 0.0, 0.0, np.zeros(R), degrees / 2.0, (degrees / 2.0 - 1.0) * spread
    for x in X:
        k = kappa + n
        total += multivariate_t(loc=mean, shape=b / a * (k + 1.0) / k * np.eye(R), df=2.0 * a).logpdf(x)
        gap = x - mean
        a, b = a + R / 2.0, b + k / (k + 1.0) * gap @ gap / 2.0
        mean, n = mean + gap / (k + 1.0), n + 1.0
    return total


def sequential(X, degrees, spread, kappa):
    """log p(X) of one component as a product of Student-t predictions, one row at a time."""
    Q = X.shape[1]
    total, n, mean, psi = 0.0, 0.0, np.zeros(Q), (degrees - Q - 1.0) * spread * np.eye(Q)
    for x in X:
        k, nu = kappa + n, degrees + n - Q + 1.0
        total += multivariate_t(loc=mean, shape=psi * (k + 1.0) / (k * nu), df=nu).logpdf(x)
        gap = x - mean
        psi = psi + k / (k + 1.0) * np.outer(gap, gap)
        mean, n = mean + gap / (k + 1.0), n + 1.0
    return total


@pytest.mark.parametrize("Q", [1, 2, 5])
def test_a_gain_is_the_evidence_of_one_component_against_two(Q):
    rows = tables(Q, 2, Q)
    ((kept, gone, gain),), evidence = join_slowly(scatter_of(rows, 0.3), Q + 3.0, 2.0)
    one, two, both = (sequential(X, Q + 3.0, 2.0, 0.3) for X in (*rows, np.vstack(rows)))
    n, m = map(len, rows)
    seats = gammaln(n + m) - gammaln(n) - gammaln(m)  # of the Chinese Restaurant; ours is its leading part
    assert (kept, gone) == (0, 1)
    assert evidence == pytest.approx(one + two, rel=1e-10)
    leading = n * np.log1p(m / n) + m * np.log1p(n / m)
    assert gain == pytest.approx(both - one - two + leading, rel=1e-9)
    assert leading == pytest.approx(seats, rel=0.5)


@pytest.mark.parametrize("R", [1, 3, 12])
def test_other_coordinates_share_a_variance_and_count_as_eight_of_two_tables(R):
    rows = tables(R, 2, 2 + R)
    (join,), evidence = join_slowly(scatter_of(rows, 0.3, R), 6.0, 2.0)
    (without,), less = join_slowly(scatter_of([some[:, :2] for some in rows], 0.3), 6.0, 2.0)
    one, two, both = (sequential_of_others(X[:, 2:], 6.0, 2.0, 0.3) for X in (*rows, np.vstack(rows)))
    share = min(1.0, 8.0 / R)
    assert evidence - less == pytest.approx(share * (one + two), rel=1e-9)
    assert join.gain - without.gain == pytest.approx(share * (both - one - two), rel=1e-9)


def test_other_coordinates_count_as_much_as_the_directions_in_which_tables_differ():
    def share(means, counts):
        K = len(means)
        return share_of_others(Scatter(counts, np.zeros((K, 8)), np.zeros((K, 36)), 1.0, means, np.zeros(K)))

    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(60, 30)))[0].T
    both, even = np.vstack([directions, -directions, 0.0 * directions]), np.ones(90)
    assert share(both, even) == pytest.approx(30 / 60)
    assert share(7.0 + both, even) == pytest.approx(30 / 60)  # wherever they are, and however far one is
    assert share(np.vstack([both, 1e9 * directions[:1]]), np.append(even, 0.01)) == pytest.approx(30 / 60, rel=1e-3)
    assert share(both, np.tile([1.0] * 20 + [0.0] * 10, 3)) == pytest.approx(20 / 60)  # tables count by their rows
    assert share(both, np.tile([1.0] * 5 + [0.0] * 25, 3)) == 8 / 60  # eight at least
    assert share(np.zeros((3, 60)), np.ones(3)) == 8 / 60
    assert share(both[:3, :8], np.ones(3)) == 1.0


def test_tables_that_lie_far_out_in_other_coordinates_leave_clusters_to_the_rest():
    rng = np.random.default_rng(0)
    centers, truth = rng.normal(size=(40, 64)), rng.integers(40, size=1500)
    X, variances = centers[truth] + rng.normal(size=(1500, 64)), np.linspace(1.1, 0.9, 64).tolist()
    X = np.insert(X, 700, 0.0, axis=0)
    X[700, 63] = 1e120
    model = DynamicalMixture(Gaussian(1.0, variances), Stationary(), 1.0).fit(X)
    labels = model.clusters().labels(model.labels_)
    assert np.sum(labels == labels[700]) == 1
    assert adjusted_mutual_info_score(truth, np.delete(labels, 700)) > 0.9


@pytest.mark.skipif(not has_extension(), reason="needs the extension")
@pytest.mark.parametrize(("K", "Q", "R"), [(1, 2, 0), (2, 1, 0), (12, 3, 0), (40, 8, 0), (30, 8, 5), (50, 8, 40)])
@pytest.mark.parametrize("slack", [np.inf, 20.0])
def test_the_loop_joins_as_numpy_does(K, Q, R, slack):
    from dyncrp.engine import loop

    rows = scatter_of(tables(7, K, Q + R), 0.1, R)
    slow, expected = join_slowly(rows, 2.0 * Q + 10.0, 1.0, slack)
    told = {"priors": [(2.0 * Q + 10.0, 1.0), (Q + 3.0, 4.0)], "kappa": 0.1, "near": 20, "slack": slack}
    (joins, evidence), (_, its) = loop.join_tables(*arguments(rows), share=share_of_others(rows), **told)
    assert its == pytest.approx(join_slowly(rows, Q + 3.0, 4.0, slack)[1], rel=1e-12)
    assert [join[:2] for join in joins] == [join[:2] for join in slow]
    assert len(joins) == K - 1 or (slack < np.inf and K > 2)
    np.testing.assert_allclose([join[2] for join in joins], [join[2] for join in slow], rtol=1e-9, atol=1e-9)
    assert evidence == pytest.approx(expected, rel=1e-12)


@pytest.mark.skipif(not has_extension(), reason="needs the extension")
@pytest.mark.parametrize("seed", range(8))
def test_pairs_that_are_left_out_by_their_bound_would_not_be_kept(seed):
    """With slack, a pair whose gain is bounded by less is not looked at. The joins are the first of all joins."""
    from dyncrp.engine import loop

    rng = np.random.default_rng(seed)
    K, Q, R = int(rng.integers(5, 60)), int(rng.integers(1, 9)), seed % 2 * 5
    shapes = rng.normal(size=(K, Q + R, Q + R)) * rng.choice([0.1, 1.0, 5.0], (K, 1, 1))
    centers = rng.normal(0.0, rng.choice([0.3, 3.0, 30.0]), (K, Q + R))
    sizes = rng.integers(1, 400, K)
    rows = scatter_of([rng.normal(size=(n, Q + R)) @ shapes[c] + centers[c] for c, n in enumerate(sizes)], 0.01, R)
    priors = [(Q + 3.0, 1.0), (2.0 * Q + 10.0, 2.0), (30.0 * Q + 200.0, 1.0)]
    told = {"priors": priors, "kappa": 0.01, "near": 20, "share": 0.8}
    whole, cut = (loop.join_tables(*arguments(rows), **told, slack=slack) for slack in (np.inf, 5.0))
    for (joins, evidence), (some, its) in zip(whole, cut, strict=True):
        assert its == evidence
        sums = np.cumsum([0.0, *(join[2] for join in joins)])
        after = np.flatnonzero(sums < np.maximum.accumulate(sums) - 5.0)
        ends = int(after[0]) if len(after) else len(joins)
        assert some == joins[: len(some)]
        assert len(some) in (ends, ends - 1)  # the last one, which costs more than the slack, may be left out


@pytest.mark.parametrize("seed", range(4))
def test_clusters_that_other_coordinates_tell_apart_stay_apart(seed):
    """In the eight leading ones of 24 features, twelve clusters overlap, and would become two to four."""
    rng = np.random.default_rng(seed)
    centers, truth = rng.normal(size=(12, 24)), rng.integers(12, size=1500)
    model = DynamicalMixture(Gaussian(1.0, np.linspace(1.1, 0.9, 24).tolist()), Stationary(), 1.0)
    clusters = model.fit(centers[truth] + rng.normal(size=(1500, 24))).clusters()
    assert clusters.shape == "elliptical"
    assert len(clusters) >= 10
    assert adjusted_mutual_info_score(truth, clusters.labels(model.labels_)) > 0.8


@pytest.mark.parametrize("odd_cell", [None, 100.0, 1e9])
@pytest.mark.parametrize(("D", "copies", "noise"), [(24, 20, 0.0), (24, 20, 0.2), (24, 4, 0.0), (7, 1, 0.0)])
def test_features_that_follow_from_others_leave_clusters_apart(D, copies, noise, odd_cell):
    """Where rows have no variance, the family expects one, in coordinates that are among the eight leading ones."""
    rng = np.random.default_rng(0)
    centers, truth = 1.5 * rng.normal(size=(12, D)), rng.integers(12, size=1200)
    X = centers[truth] + rng.normal(size=(1200, D))
    X = np.hstack([X, X @ rng.normal(size=(D, copies)) + noise * rng.normal(size=(1200, copies))])
    if odd_cell is not None:
        X[1100, D] = odd_cell
    model = DynamicalMixture().fit(X)
    clusters = model.clusters(shape="elliptical")
    of_tables, of_clusters = (
        adjusted_mutual_info_score(truth, labels) for labels in (model.labels_, clusters.labels(model.labels_))
    )
    assert of_clusters > of_tables - 0.05


def test_tiles_of_an_ellipse_join_and_ellipses_do_not():
    rng = np.random.default_rng(1)
    clusters = [rng.normal(size=(300, 2)) @ [[6.0, 0.0], [5.0, 1.0]] + center for center in ([0.0, 0.0], [3.0, -12.0])]
    rows = [X[np.digitize(X[:, 0], (-6.0, 0.0, 6.0)) == i] for X in clusters for i in range(4)]
    joins = join_by_scatter(scatter_of(rows, 0.01))
    kept = int(np.argmax(np.cumsum([0.0, *(join.gain for join in joins)])))
    roots = apply([(0.0, join.kept, join.gone) for join in joins[:kept]], 8)
    assert len(set(roots[:4])) == len(set(roots[4:])) == 1
    assert roots[0] != roots[4]


@pytest.mark.parametrize(
    "family", [Bernoulli(0.5, 0.5), Poisson(1.0, 0.1), Categorical(0.5), NormalGamma(1.0, 50.0)], ids=repr
)
def test_tables_of_other_families_join_by_their_own_likelihood(family):
    parameters = np.repeat(family.sample_parameters(4, 12, 3), 3, axis=0)
    rows = [family.check(family.sample(np.tile(one, (20, 1)), seed)) for seed, one in enumerate(parameters)]
    stats = np.array([family.statistics(X).sum(axis=0) for X in rows])
    shapes = protocols.shapes(family, stats, np.array([protocols.squares(family, X).sum(axis=0) for X in rows]))
    joins = join_by_likelihood(family, stats, shapes)
    kept = int(np.argmax(np.cumsum([0.0, *(join.gain for join in joins)])))
    roots = apply([(0.0, join.kept, join.gone) for join in joins[:kept]], 12)
    assert adjusted_mutual_info_score(np.repeat(np.arange(4), 3), roots) == pytest.approx(1.0)


def tiled(n_tables, seed=0):
    """Return a family, and stats and shapes of tables of 100 rows that tile two long clusters, half of them each."""
    rng = np.random.default_rng(seed)
    family = NormalGamma(1.0, 100.0)
    along = np.linspace(-3.0, 3.0, n_tables // 2)
    centers = np.vstack([np.column_stack([along, along]), np.column_stack([along + 40.0, along])])
    rows = [center + rng.normal(size=(100, 2)) for center in centers]
    stats = np.array([family.statistics(X).sum(axis=0) for X in rows])
    return family, stats, protocols.shapes(family, stats, np.zeros((n_tables, 0)))


def roots_of(joins, n_tables):
    kept = int(np.argmax(np.cumsum([0.0, *(join.gain for join in joins)])))
    return apply([(0.0, join.kept, join.gone) for join in joins[:kept]], n_tables)


def test_more_rows_of_the_same_kind_do_not_split_clusters():
    family, stats, shapes = tiled(60)
    few = join_by_likelihood(family, stats, shapes)
    many = join_by_likelihood(family, 1000.0 * stats, shapes._replace(counts=1000.0 * shapes.counts))
    assert roots_of(many, 60).tolist() == roots_of(few, 60).tolist()
    np.testing.assert_allclose([join.gain for join in many], [join.gain for join in few], rtol=1e-6)


def test_few_calls_join_many_tables(monkeypatch):
    K, calls = 400, []
    family, stats, shapes = tiled(K)
    compute = type(family).log_bayes_factor
    monkeypatch.setattr(type(family), "log_bayes_factor", lambda *arguments: calls.append(1) or compute(*arguments))
    joins = join_by_likelihood(family, stats, shapes)
    n_calls = len(calls)
    assert n_calls < K * 3 // 4
    assert sorted(join.gone for join in joins) == list(range(1, K))
    monkeypatch.setattr(components, "MOST_AT_ONCE", 10**6)
    one_by_one = join_by_likelihood(family, stats, shapes)
    assert len(calls) - n_calls >= K - 1
    halves = np.repeat([0, 1], K // 2)
    for found in (joins, one_by_one):
        roots = roots_of(found, K)
        assert not set(roots[halves == 0]) & set(roots[halves == 1])


def test_no_valleys_are_looked_for_where_they_cannot_matter(monkeypatch):
    def fail(*arguments):
        raise AssertionError("valleys")

    monkeypatch.setattr(clusters, "join_by_valleys", fail)
    X = np.array([[0.0, 0.0], [50.0, 1.0]] * 10)
    family = Columns([([0], NormalGamma(1.0, 400.0)), ([1], Categorical(1.0))])
    assert len(DynamicalMixture(family, Stationary(), 1.0).fit(X).clusters()) == 2
    few = np.random.default_rng(0).normal(np.tile([[0.0, 0.0], [9.0, 1.0]], (10, 1)), 0.1)  # for a border to be seen
    assert len(DynamicalMixture(Gaussian(0.01, 400.0), Stationary(), 1.0).fit(few).clusters()) == 2


def test_clusters_are_better_than_tables_where_clusters_are_long():
    rng = np.random.default_rng(0)
    mixes = rng.normal(size=(4, 3, 3)) * [1.0, 1.0, 4.0]
    centers, y = rng.normal(size=(4, 3)) * 12.0, rng.integers(0, 4, 1500)
    X = centers[y] + np.einsum("nij,nj->ni", mixes[y], rng.normal(size=(1500, 3)))
    model = DynamicalMixture(Gaussian(4.0, 400.0)).fit(X)
    tables, clusters = model.labels_, model.clusters().labels(model.labels_)
    assert adjusted_mutual_info_score(y, clusters) > adjusted_mutual_info_score(y, tables) + 0.1


def test_distances_that_overflow_join_no_table_with_itself():
    means = np.array([[0.0], [1e200], [-1e200], [3e200], [1.0]])  # as only a forged file has them
    with np.errstate(over="ignore", invalid="ignore"):
        joins = join_greedily(np.ones(5), means, lambda a, others: np.full(len(a), np.nan), lambda a, b: None)
    assert len(joins) == 4
    assert all(join.kept < join.gone for join in joins)

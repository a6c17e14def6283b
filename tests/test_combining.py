"""dyncrp.combine: what is joined is what the process says, and what comes back is a model like any other."""

import re
import subprocess
import sys
from argparse import Namespace
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from sklearn.metrics import adjusted_mutual_info_score as ami

import dyncrp
from cases import DYNAMICS, FAMILIES, SEPARATED, SIGNED, draw
from dyncrp import DynamicalMixture, Exponential, Gaussian, NormalGamma, NormalWishart, Stationary
from dyncrp.combining import NEAREST, Joining
from dyncrp.engine.reference import ReferenceEngine

FAMILY = Gaussian(1.0, 1e4)


def blobs(n=600, D=2, K=5, seed=0, spread=100.0):
    rng = np.random.default_rng(seed)
    centers, y = rng.normal(0.0, spread, (K, D)), rng.integers(K, size=n)
    return centers[y] + rng.standard_normal((n, D)), y


def fitted(shards, family=FAMILY, *args, **kwargs):
    return [DynamicalMixture(family, *args, **kwargs).fit(shard) for shard in shards]


def log_joint(partition, X, family, alpha):
    """Return log p(partition, X) of the Chinese restaurant process, up to what depends on the number of rows only."""
    total = 0.0
    for table in np.unique(partition):
        rows = X[partition == table]
        total += np.log(alpha) + gammaln(len(rows)) + family.log_marginal(rows)
    return total


def every_gain(tables, X, shards, family, alpha):
    """Return by how much log p(partition, X) grows for each pair of tables, sets of rows, that may be joined."""
    gains = {}
    for one, other in combinations(tables, 2):
        if not set(shards[list(tables[one])]) & set(shards[list(tables[other])]):
            rows = [*tables[one], *tables[other]]
            apart = log_joint(np.repeat([0, 1], [len(tables[one]), len(tables[other])]), X[rows], family, alpha)
            gains[one, other] = log_joint(np.zeros(len(rows)), X[rows], family, alpha) - apart
    return gains


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=2)
@given(seed=st.integers(0, 1000), alpha=st.sampled_from([0.2, 1.0, 5.0]))
@example(seed=128, alpha=0.2)  # binary rows, whose gains tie
def test_joining_is_what_the_joint_probability_of_partition_and_data_says(name, seed, alpha):
    case = FAMILIES[name]
    rng = np.random.default_rng(seed)
    X, _ = draw(case, 30, seed)
    labels, shards = rng.integers(3, size=30), rng.integers(3, size=30)
    pairs, places = np.unique([shards, labels], axis=1, return_inverse=True)
    stats = np.zeros((pairs.shape[1], case.family.statistics(X).shape[1]))
    np.add.at(stats, places, case.family.statistics(X))
    joining = Joining(case.family, {"stats": stats}, pairs[0], alpha)
    joining.run()
    final, tables = joining.result()
    partition = final[places]
    # Replay what was joined: each time the best pair of all, until none gains. Where gains tie, either will do.
    left = {at: set(np.flatnonzero(places == at).tolist()) for at in range(len(stats))}
    gained = 0.0
    for place in range(len(stats), joining.n_made):
        one, other = np.flatnonzero(joining.joined_to[:place] == place).tolist()
        gains = every_gain(left, X, shards, case.family, alpha)
        gain = gains.get((one, other))
        assert gain == pytest.approx(max(gains.values()), rel=1e-9, abs=1e-9)
        assert gain > -1e-9
        gained += gain
        left[place] = left.pop(one) | left.pop(other)
    assert max(every_gain(left, X, shards, case.family, alpha).values(), default=0.0) <= 1e-9
    found = [set(np.flatnonzero(partition == table).tolist()) for table in np.unique(partition)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, left.values()))
    difference = log_joint(partition, X, case.family, alpha) - log_joint(places, X, case.family, alpha)
    assert difference == pytest.approx(gained, abs=1e-8)
    for table in np.unique(partition):
        np.testing.assert_allclose(tables["stats"][table], stats[final == table].sum(axis=0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_bayes_factor_is_a_difference_of_log_partitions(name):
    case = FAMILIES[name]
    statistics = case.family.statistics(draw(case, 60)[0])
    stats = (
        np.array([statistics[at : at + 1 + at % 7].sum(axis=0) for at in range(0, 50)])
        * np.linspace(0.1, 3.0, 50)[:, None]
    )
    lp = case.family.log_partition
    for first, second in ((stats[:25], stats[25:]), (stats[:25], stats[40:41])):
        found = case.family.log_bayes_factor({"stats": first}, {"stats": second})
        np.testing.assert_allclose(found, lp(first + second) - lp(first) - lp(second), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8, 1e10])
def test_gaussian_tables_far_from_the_prior_mean_are_compared_exactly(offset):
    family = Gaussian([1.0, 4.0], [1e20, 3e20])
    rng = np.random.default_rng(0)
    rows = [offset + rng.normal(size=(2000, 2)), offset + 0.1 + rng.normal(size=(1000, 2))]
    stats = [family.statistics(part).sum(axis=0, keepdims=True) for part in rows]
    with mpmath.workdps(60):

        def log_partition(stats):
            n, *sums = map(mpmath.mpf, stats.tolist())
            return sum(
                mpmath.log(v / (v + n * r)) / 2 + r * s**2 / (2 * v * (v + n * r))
                for s, v, r in zip(sums, map(mpmath.mpf, [1, 4]), map(mpmath.mpf, [1e20, 3e20]), strict=True)
            )

        exact = [[mpmath.mpf(value) for value in part[0].tolist()] for part in stats]
        both = np.array([a + b for a, b in zip(*exact, strict=True)], dtype=object)
        wanted = float(log_partition(both) - sum(log_partition(np.array(part, dtype=object)) for part in exact))
    found = family.log_bayes_factor(*({"stats": part} for part in stats))[0]
    # The means are known to 1e-16 of the offset, and a difference of 0.1 is squared and multiplied by 667.
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9 + 1e4 * 2e-16 * offset)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e7])
def test_a_combined_normal_gamma_is_as_accurate_as_a_single_pass(offset):
    X, _ = blobs(1200, 3, 4)
    family = NormalGamma(1.0, 1e14, 1000.0, 0.0)
    one = DynamicalMixture(family).fit(X + offset)
    models = fitted([X[at::4] + offset for at in range(4)], family)
    model = dyncrp.combine(models).model
    assert model.n_tables_ == one.n_tables_ == 4
    order = np.argsort(one.centers_[:, 0]), np.argsort(model.centers_[:, 0])
    wanted, found = one.engine_.arrays()["scatter"][order[0]], model.engine_.arrays()["scatter"][order[1]]
    # Squares about the running mean: 1e-16 z √n, and the prior's share of z²/1e14.
    np.testing.assert_allclose(found, wanted, rtol=1e-12 + 1e-14 * offset)
    order = np.argsort(X[:, 0])
    np.testing.assert_allclose(model.score_samples(X + offset), one.score_samples(X + offset), rtol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e7])
def test_a_combined_normal_wishart_is_as_accurate_as_a_single_pass(offset):
    X, _ = blobs(1200, 3, 4)
    family = NormalWishart(1.0, 1e14, 1000.0, 0.0)
    one = DynamicalMixture(family).fit(X + offset)
    model = dyncrp.combine(fitted([X[at::4] + offset for at in range(4)], family)).model
    assert model.n_tables_ == one.n_tables_ == 4
    order = np.argsort(one.centers_[:, 0]), np.argsort(model.centers_[:, 0])
    wanted, found = one.engine_.arrays()["scatter"][order[0]], model.engine_.arrays()["scatter"][order[1]]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=(1e-12 + 1e-14 * offset) * np.max(wanted))
    np.testing.assert_allclose(model.score_samples(X + offset), one.score_samples(X + offset), rtol=1e-6)


@pytest.mark.parametrize("name", SEPARATED)
@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_separated_clusters_are_as_in_a_single_pass(name, engine, monkeypatch):
    if engine == "reference":
        for module in ("stream.learner", "engine.missing"):
            monkeypatch.setattr(f"dyncrp.{module}.make_engine", ReferenceEngine)
    case = SEPARATED[name]
    rng = np.random.default_rng(1)
    n = 120
    D = 64 if name in ("bernoulli", "categorical") else case.n_features  # or rows of two clusters may be the same
    parameters = case.family.sample_parameters(4, D, rng)[rng.integers(4, size=n)]
    X = case.family.check(case.family.sample(parameters, rng))
    times = np.arange(float(n))
    dynamics = 0.99 * Exponential(30.0) + 0.01 * Stationary()
    one = DynamicalMixture(case.family, dynamics, 0.1).fit(X, times=times)
    models = [DynamicalMixture(case.family, dynamics, 0.1).fit(X[at::3], times=times[at::3]) for at in range(3)]
    model, id_maps = dyncrp.combine(models)
    labels = np.empty(n, dtype=np.int64)
    for at, each in enumerate(models):
        labels[at::3] = id_maps[at][each.labels_]
    pairs = set(zip(labels.tolist(), one.labels_.tolist(), strict=True))
    assert len(pairs) == len(set(labels.tolist())) == len(one.table_ids_)  # the same partition
    to = [labels[one.labels_ == table][0] for table in one.table_ids_]
    places = np.searchsorted(model.table_ids_, to)
    wanted, found = one.engine_.arrays(), model.engine_.arrays()
    assert wanted.keys() == found.keys()
    for array in {"stats", "squares", "scatter", "misses"} & wanted.keys():
        np.testing.assert_allclose(found[array][places], wanted[array], rtol=1e-9, atol=1e-9)
    for array in ("sizes", "first_times", "last_times"):
        np.testing.assert_array_equal(found[array][places], wanted[array])
    np.testing.assert_allclose(model.occupancies_[places], one.occupancies_, rtol=1e-9)
    assert (model.n_observations_, model.engine_.time) == (n, one.engine_.time)
    assert model.log_evidence_ == pytest.approx(sum(each.log_evidence_ for each in models))
    after = X[:20]
    np.testing.assert_array_equal(model.predict(after), np.array(to)[one.predict(after)])


@pytest.mark.parametrize("name", DYNAMICS)
@pytest.mark.parametrize("cut", ["interleaved", "consecutive"])
def test_occupancies_are_those_of_a_single_pass(name, cut):
    X, _ = blobs(200, seed=2, spread=1000.0)
    family = Gaussian(1.0, 1e6)
    times = np.cumsum(np.random.default_rng(0).exponential(0.1, 200))
    if name in SIGNED:
        pytest.skip("what is negative in a shard is clipped there, and so its rows are seated otherwise")
    make = partial(DynamicalMixture, family, DYNAMICS[name])
    one = make().fit(X, times=times)
    rows = [np.arange(at, 200, 4) for at in range(4)] if cut == "interleaved" else np.array_split(np.arange(200), 4)
    model, id_maps = dyncrp.combine([make().fit(X[part], times=times[part]) for part in rows])
    assert model.n_tables_ == one.n_tables_ == 5
    order = np.argsort(one.centers_[:, 0]), np.argsort(model.centers_[:, 0])
    np.testing.assert_allclose(model.occupancies_[order[1]], one.occupancies_[order[0]], rtol=1e-9, atol=1e-12)
    assert [len(ids) for ids in id_maps] == [6] * 4


def test_one_model_comes_back_to_the_bit():
    X, _ = blobs()
    times = np.arange(600.0)
    for family, options in (
        (FAMILY, {"max_tables": 3, "prune_below": 0.01}),
        (NormalGamma(1.0, 1e4, 5.0, 0.0), {"memory": 20}),
        (NormalWishart(1.0, 1e4, 5.0, 0.0), {"memory": 20}),
        (FAMILY, {"assignment": "variational", "alpha": 3.0, "new_table_threshold": 0.3}),
    ):
        before = DynamicalMixture(family, Exponential(30.0), **options).fit(X[:400], times=times[:400])
        model, (ids,) = dyncrp.combine([before])
        for name, array in before.engine_.arrays().items():
            np.testing.assert_array_equal(model.engine_.arrays()[name], array)
        np.testing.assert_array_equal(ids[before.table_ids_], before.table_ids_)
        closed = np.setdiff1d(np.arange(before.n_opened_), before.table_ids_)
        assert np.all(ids[closed] == -1)
        assert (ids[-1], len(ids), ids.dtype) == (-1, before.n_opened_ + 1, np.int64)
        np.testing.assert_array_equal(
            model.partial_fit(X[400:], times=times[400:]).labels_,
            before.partial_fit(X[400:], times=times[400:]).labels_,
        )
        assert model.log_evidence_ == before.log_evidence_


@given(seed=st.integers(0, 100), order=st.permutations(range(4)))
def test_the_order_of_models_does_not_change_the_partition(seed, order):
    X, _ = blobs(400, 3, 12, seed, spread=2.0)
    models = fitted([X[at::4] for at in range(4)], Gaussian(1.0, 4.0))

    def labels(order):
        combined = dyncrp.combine([models[at] for at in order])
        maps = dict(zip(order, combined.id_maps, strict=True))
        return np.concatenate([maps[at][models[at].labels_] for at in range(4)])

    assert ami(labels(range(4)), labels(order)) == pytest.approx(1.0)


def test_tables_of_one_model_are_never_joined_not_even_by_way_of_others():
    X, _ = blobs(2000, 2, 30, spread=1.0)  # one heap
    models = fitted([X[at::5] for at in range(5)], Gaussian(0.05, 1.0))
    model, id_maps = dyncrp.combine(models)
    for each, ids in zip(models, id_maps, strict=True):
        new = ids[each.table_ids_]
        assert len(set(new.tolist())) == len(new)
    assert model.n_tables_ < sum(each.n_tables_ for each in models) / 2
    np.testing.assert_array_equal(id_maps[0][:-1], np.arange(models[0].n_opened_))  # the first keeps its ids
    np.testing.assert_array_equal(model.table_ids_, np.arange(model.n_opened_))


def test_many_tables_are_compared_with_near_ones_first_and_joined_all_the_same():
    X, y = blobs(6000, 4, 60, spread=30.0)
    models = fitted([X[at::6] for at in range(6)], Gaussian(1.0, 900.0))
    assert sum(model.n_tables_ for model in models) > 5 * NEAREST
    model, id_maps = dyncrp.combine(models)
    assert model.n_tables_ == 60
    assert ami(model.predict(X), y) == 1.0
    labels = np.concatenate([ids[each.labels_] for ids, each in zip(id_maps, models, strict=True)])
    assert ami(labels, np.concatenate([y[at::6] for at in range(6)])) == 1.0


def crowd(n_shards=6, seed=0):
    """Return small tables of several shards, all on one line, where almost every pair gains: stats, and the shards."""
    rng = np.random.default_rng(seed)
    shards = np.repeat(np.arange(n_shards), 10)
    n = rng.integers(1, 6, len(shards))
    return np.stack([n, n * rng.normal(0.0, 1.5, len(shards))], axis=1).astype(float), shards


def test_greedy_joining_is_that_of_all_pairs_tried_each_time(monkeypatch):
    monkeypatch.setattr("dyncrp.combining.NEAREST", 10_000)
    monkeypatch.setattr("dyncrp.combining.KEPT", 2)
    monkeypatch.setattr("dyncrp.combining.BLOCK", 50)
    family, (stats, shards) = Gaussian(1.0, 4.0), crowd()
    joining = Joining(family, {"stats": stats}, shards, 1.0)
    joining.run()
    tables = [({shard}, {at}, row) for at, (shard, row) in enumerate(zip(shards.tolist(), stats, strict=True))]
    while True:
        pairs = [pair for pair in combinations(tables, 2) if pair[0][0].isdisjoint(pair[1][0])]
        one, other = (np.array([pair[side][2] for pair in pairs]) for side in (0, 1))
        lp, n1, n2 = family.log_partition, one[:, 0], other[:, 0]
        gains = lp(one + other) - lp(one) - lp(other) + gammaln(n1 + n2) - gammaln(n1) - gammaln(n2)
        if np.max(gains) <= 0.0:
            break
        best = pairs[np.argmax(gains)]
        tables = [table for table in tables if all(table is not joined for joined in best)]
        tables.append((best[0][0] | best[1][0], best[0][1] | best[1][1], best[0][2] + best[1][2]))
    final, _ = joining.result()
    found = {frozenset(np.flatnonzero(final == table).tolist()) for table in np.unique(final)}
    assert found == {frozenset(table[1]) for table in tables}
    assert 10 < len(found) < 40


def test_what_is_left_gains_nothing_however_few_neighbours_are_looked_at(monkeypatch):
    monkeypatch.setattr("dyncrp.combining.NEAREST", 2)
    stats, shards = crowd()
    joining = Joining(Gaussian(1.0, 4.0), {"stats": stats, "squares": np.ones((len(shards), 1))}, shards, 1.0)
    joining.run()
    places = joining.joined_to[: joining.n_made].copy()
    for place in range(len(places) - 1, -1, -1):
        places[place] = places[places[place]]
    for one, other in combinations(np.flatnonzero(joining.is_open).tolist(), 2):
        if not set(shards[places[:60] == one]) & set(shards[places[:60] == other]):
            assert joining.gains(one, np.array([other]))[0] <= 0.0


def test_a_table_with_less_than_a_customer_is_not_kept_for_that():
    stats = np.array([[1e-3, 1e-3 * 0.5], [100.0, 50.0]])
    joining = Joining(FAMILY, {"stats": stats}, np.array([0, 1]), 1.0)
    joining.run()
    assert len(joining.result()[1]["stats"]) == 1


def test_it_is_a_model_like_any_other(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = blobs()
    frame = pd.DataFrame(X, columns=["x", "y"])
    times = pd.date_range("2024-01-01", periods=600, freq="min")
    models = [DynamicalMixture(FAMILY, Exponential(1e6)).fit(frame[at::2], times=times[at::2]) for at in range(2)]
    before = [model.to_bytes() for model in models]
    model = dyncrp.combine(iter(models)).model
    assert [each.to_bytes() for each in models] == before
    assert (model.clock_, list(model.feature_names_in_), model.learned_) == ("dates", ["x", "y"], True)
    assert ami(model.predict(frame), y) == 1.0
    assert len(model.clusters()) == 5
    with pytest.raises(AttributeError, match="has no labels_"):
        model.labels_  # noqa: B018
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["y", "x"]])
    model.save(tmp_path / "model.npz")
    again = DynamicalMixture.load(tmp_path / "model.npz")
    later = times + pd.Timedelta(days=1)
    np.testing.assert_array_equal(
        again.partial_fit(frame, times=later).labels_, model.partial_fit(frame, times=later).labels_
    )
    assert again.log_evidence_ == model.log_evidence_
    assert dyncrp.combine([again, model]).model.n_tables_ == 5


def test_the_index_goes_on_after_all_rows():
    X, _ = blobs()
    model = dyncrp.combine(fitted([X[:200], X[200:500]])).model
    assert (model.clock_, model.n_observations_) == ("index", 500)
    assert model.partial_fit(X[500:]).n_observations_ == 600
    assert model.engine_.time == 599.0


@dataclass(frozen=True, eq=False)
class Mine(Gaussian):
    """A family of a user's, which no file and no fast engine knows."""


def test_a_family_that_cannot_be_saved_can_be_combined():
    X, y = blobs(200)
    model = dyncrp.combine(fitted([X[::2], X[1::2]], Mine(1.0, 1e4, 0.0))).model
    assert type(model.family_) is Mine
    assert ami(model.predict(X), y) == 1.0


def test_a_finite_memory_adds_what_each_remembers():
    X, _ = blobs(600, K=1)
    models = fitted([X[::2], X[1::2]], memory=20)
    model = dyncrp.combine(models).model
    stats = [each.engine_.state.stats for each in models]
    np.testing.assert_allclose(model.engine_.state.stats, stats[0] + stats[1], rtol=1e-12)
    assert model.memory_ == 20
    assert model.partial_fit(X[:200]).engine_.state.stats[0, 0] == pytest.approx(20.0, abs=0.01)  # it forgets the rest


def test_too_many_tables_close_as_they_do_in_a_stream():
    X = 50.0 * np.repeat([0, 1, 2, 3, 4], [9, 8, 7, 6, 1])[:, None]
    family = Gaussian(1.0, 1e4)
    models = fitted([X, X[:3], X[-7:]], family, max_tables=5)
    assert [model.n_tables_ for model in models] == [5, 1, 2]
    model, id_maps = dyncrp.combine(models)
    assert model.n_tables_ == 5
    models = fitted([X[:17], X[17:], X[-1:]], family, max_tables=3)
    model, id_maps = dyncrp.combine(models)
    np.testing.assert_array_equal(model.occupancies_, [9.0, 8.0, 7.0])  # 6 and 2 were less
    assert [ids.tolist() for ids in id_maps] == [[0, 1, -1], [2, -1, -1, -1], [-1, -1]]
    assert (model.n_opened_, model.n_tables_) == (5, 3)
    assert model.engine_.state.sizes.tolist() == [9, 8, 7]
    assert model.engine_.state.last_times.tolist() == [8, 16, 6]
    assert model.predict([[150.0]]) == [-1]
    left = DynamicalMixture(family).fit(X[:24])
    np.testing.assert_allclose(model.score_samples(X), left.score_samples(X), rtol=1e-9)


def test_tables_that_the_latest_time_has_emptied_close():
    X = np.zeros((20, 1))
    make = partial(DynamicalMixture, Gaussian(1.0, 1e4), Exponential(10.0), prune_below=0.01)
    models = [make().fit(X, times=np.arange(20.0)), make().fit(X + 200.0, times=1000.0 + np.arange(20.0))]
    model, id_maps = dyncrp.combine(models)
    assert [ids.tolist() for ids in id_maps] == [[-1, -1], [1, -1]]
    np.testing.assert_allclose(model.occupancies_, models[1].occupancies_)
    # Occupancies are those of the latest row, wherever an engine keeps them: here 10 exp(−4), once 10.
    models[1] = make().fit(X + 200.0, times=np.linspace(20.0, 60.0, 20))
    assert dyncrp.combine(models).model.n_tables_ == 2
    for model in models:
        model.set_params(prune_below=0.5).fit(
            X + model.centers_[0].round(), times=model.engine_.time - np.arange(20.0)[::-1]
        )
    assert dyncrp.combine(models).model.n_tables_ == 1


def test_the_latest_table_of_one_model_stays():
    model = DynamicalMixture(FAMILY, prune_below=2.0).fit([[0.0], [0.0], [0.0], [500.0]])
    assert dyncrp.combine([model]).model.n_tables_ == model.n_tables_ == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": Gaussian(2.0, 1e4)}, r"models\[2\] has family Gaussian\(variance=2.0.*dyncrp.tune"),
        ({"alpha": 2.0}, r"models\[2\] has alpha 2.0 and models\[0\] has 1.0.*alpha_"),
        ({"dynamics": Exponential(5.0)}, r"models\[2\] has dynamics Exponential\(timescale=5.0\)"),
        ({"memory": 50}, r"models\[2\] has memory 50.0 and models\[0\] has inf"),
        ({"max_tables": 7}, r"models\[2\] has max_tables 7 and models\[0\] has None: all must have the same$"),
        ({"assignment": "variational"}, r"models\[2\] has assignment 'variational'"),
        ({"table_count": "posterior"}, r"models\[2\] has table_count='posterior'"),
        ({"learn_alpha": True}, r"models\[2\] has learn_alpha=True"),
        ({"family": None}, r"models\[2\] has not learned its hyperparameters yet\..*dyncrp.tune"),
    ],
)
def test_models_that_differ_are_refused(change, message):
    X, _ = blobs(90)
    options = {"family": FAMILY, "dynamics": Stationary(), "alpha": 1.0}
    models = fitted([X[::3], X[1::3]], **options)
    models.append(DynamicalMixture(**options | change).partial_fit(X[2::3]))
    before = [model.to_bytes() for model in models]
    with pytest.raises(ValueError, match=message):
        dyncrp.combine(models)
    assert [model.to_bytes() for model in models] == before


def test_the_same_model_twice_is_refused():
    model = DynamicalMixture(FAMILY).fit(blobs(90)[0])
    with pytest.raises(ValueError, match="the same model twice"):
        dyncrp.combine([model, model])


def test_other_features_or_clocks_are_refused():
    pd = pytest.importorskip("pandas")
    X, _ = blobs(90)
    model = DynamicalMixture(FAMILY).fit(X)
    frames = [DynamicalMixture(FAMILY).fit(pd.DataFrame(X, columns=list(names))) for names in ("ab", "ba")]
    for other, message in (
        (DynamicalMixture(FAMILY).fit(X[:, :1]), r"models\[1\] has n_features_in_ 1 and models\[0\] has 2"),
        (frames[0], r"models\[1\] has feature_names_in_ \['a', 'b'\] and models\[0\] has None"),
        (
            DynamicalMixture(FAMILY).fit(X, times=np.arange(90)),
            r"models\[1\] has clock_ 'numbers' and models\[0\] has 'index'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            dyncrp.combine([model, other])
    with pytest.raises(ValueError, match=r"models\[1\] has feature_names_in_ \['b', 'a'\]"):
        dyncrp.combine(frames)


def test_forgetting_needs_times_that_compare():
    X, _ = blobs(90)
    models = fitted([X[::2], X[1::2]], FAMILY, Exponential(20.0))
    with pytest.raises(ValueError, match=r"without times.*Exponential\(timescale=20.0\) forgets with time: pass times"):
        dyncrp.combine(models)
    assert dyncrp.combine(models[:1]).model.n_tables_ == models[0].n_tables_


def test_what_is_no_list_of_fitted_models_is_refused():
    for models, message in (
        ([], "got none"),
        (DynamicalMixture(FAMILY), "must be a list of DynamicalMixture"),
        ([DynamicalMixture(FAMILY)], r"models\[0\] is not fitted"),
        ([DynamicalMixture(FAMILY).fit([[0.0]]), FAMILY], r"models\[1\] must be a DynamicalMixture, got Gaussian"),
    ):
        with pytest.raises(ValueError, match=message):
            dyncrp.combine(models)


def test_hyperparameters_of_one_model_serve_the_others():
    X, y = blobs(3000)
    first = DynamicalMixture().fit(X[::3])
    given = {"family": first.family_, "dynamics": Stationary(), "alpha": first.alpha_}
    first = DynamicalMixture(**given).fit(X[::3])
    model = dyncrp.combine([first, *fitted([X[1::3], X[2::3]], **given)]).model
    assert ami(model.predict(X), y) == 1.0


def run_example(name, folder, *arguments):
    """Run an example on a small file, and return what it printed."""
    path = Path(__file__).parents[1] / "examples" / "scaling" / name
    command = [sys.executable, str(path), "--folder", str(folder), *arguments]
    done = subprocess.run(
        [*command, "--gigabytes", "0.01", "--shards", "2"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_example(printed, folder):
    """Check the labels that an example wrote: one for each row, and the right ones."""
    parquet = pytest.importorskip("pyarrow.parquet")
    labels = parquet.read_table(folder / "labels").to_pandas()
    assert sorted(labels.columns) == ["cluster", "row", "table"]
    assert sorted(labels["row"]) == list(range(len(labels)))
    assert ami(labels["cluster"][::10], labels["table"][::10]) > 0.99
    assert float(re.search(r"true clusters ([\d.]+)", printed)[1]) > 0.99
    model = DynamicalMixture.load(folder / "model.npz")
    assert (model.n_observations_, set(labels["table"]) <= {-1, *model.table_ids_}) == (len(labels), True)


@pytest.mark.slow
def test_the_example_of_joblib(tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    check_example(run_example("joblib_shards.py", tmp_path, "--n-jobs", "1"), tmp_path)


@pytest.mark.slow
def test_the_example_of_ray(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: make test-spark installs it and runs this test")
    check_example(run_example("ray_shards.py", tmp_path), tmp_path)


@pytest.mark.slow
def test_the_example_of_spark(tmp_path):
    pytest.importorskip("pyspark", reason="Spark is not installed: make test-spark installs it and runs this test")
    check_example(run_example("spark_shards.py", tmp_path), tmp_path)


def test_the_benchmark_at_toy_size(monkeypatch):
    shards = pytest.importorskip("benchmarks.shards")
    options = Namespace(quick=True, first=0)
    monkeypatch.setattr(shards, "ROWS", 40_000)
    monkeypatch.setattr(shards, "CLUSTERS", 5)
    monkeypatch.setattr(shards, "SPREADS", (10.0,))
    monkeypatch.setattr(shards, "FORGETTING_ROWS", 300)
    ((_, rows),) = shards.overlap(options)
    assert [row["system"] for row in rows][1:] == [
        "single pass, relabelled",
        "shards, ids mapped",
        "shards, relabelled",
    ]
    assert all(row["ami"] == pytest.approx(1.0) for row in rows)
    assert [len(rows) for _, rows in shards.forgetting(options)] == [2, 2]
    monkeypatch.setattr(shards, "TABLES", ((5, "NormalGamma"),))
    ((_, (row,)),) = shards.tables(options)
    assert row["clusters"] == 5


@pytest.mark.parametrize("holed", [(True,), (True, True), (True, False), (False, True)], ids=str)
def test_models_that_have_seen_missing_cells(holed):
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0, 0.0], [30.0, 0.0, 20.0], [0.0, 30.0, -20.0]])
    models, rows = [], []
    for has_holes in holed:
        X = centers[rng.integers(0, 3, 100)] + rng.normal(size=(100, 3))
        if has_holes:
            X[20:][rng.random((80, 3)) < 0.2] = np.nan
        rows.append(X)
        models.append(DynamicalMixture(Gaussian(1.0, 900.0)).fit(X))
    before = [model.to_bytes() for model in models]
    combined, maps = dyncrp.combine(models)
    assert combined.n_tables_ == 3
    assert combined.n_observations_ == 100 * len(holed)
    for X, model, ids in zip(rows, models, maps, strict=True):
        whole = np.sum(~np.isnan(X), axis=1) > 1
        assert combined.predict(X[whole]).tolist() == ids[model.predict(X[whole])].tolist()
    assert [model.to_bytes() for model in models] == before
    assert combined.partial_fit(rows[0]).n_observations_ == 100 * (1 + len(holed))

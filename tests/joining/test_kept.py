"""Clusters that are kept: what moved, what became of closed tables, when one looks, and what it may cost."""

from types import SimpleNamespace

import numpy as np
import pytest

from dyncrp import Categorical, Gaussian, NormalGamma, Stationary
from dyncrp.engine import make_engine
from dyncrp.engine.types import Model
from dyncrp.families import protocols
from dyncrp.joining import kept as module
from dyncrp.joining.components import join_by_likelihood, join_under_best
from dyncrp.joining.kept import Joining, KeptClusters, Move, clusters_on_arrival

MODEL = SimpleNamespace(family=Gaussian(1.0, 9.0), cloud=False)


def scripted(monkeypatch, *moments):
    """Return kept clusters after moments, each a dictionary from open tables to clusters, and what was made of each."""
    kept, made = KeptClusters(), []
    monkeypatch.setattr(KeptClusters, "_join", lambda *_, **__: (clusters, clusters))
    for n, moment in enumerate(moments, 1):
        ids, clusters = np.array(list(moment)), np.array(list(moment.values()))
        told = {"n_observations": 1000 * n, "n_tables": len(ids), "n_opened": 100 * n, "n_features": 2}
        made.append(kept.look(SimpleNamespace(**told, model=MODEL, state=SimpleNamespace(ids=ids))))
    return kept, made


def test_what_moved(monkeypatch):
    kept, made = scripted(
        monkeypatch,
        {0: 0, 1: 0, 2: 2, 3: 3},
        {0: 0, 1: 0, 2: 0, 3: 3},
        {0: 0, 1: 1, 2: 0, 3: 1, 4: 1},
        {0: 0, 1: 1, 2: 0, 3: 1, 4: 1, 5: 5},
        {1: 1, 2: 2, 3: 2, 4: 1, 5: 5},
    )
    assert [None if one is None else one.moves for one in made] == [
        (Move(1, 0, (1,)),),
        (Move(2, 0, (2,)),),
        (Move(0, 1, (1,)), Move(3, 1, (3,)), Move(4, 1, (4,))),
        None,
        (Move(0, 2, (2,)), Move(1, 2, (3,))),
    ]
    parted = [[move.parted for move in one.moves] for one in made if one is not None]
    assert parted == [[False], [False], [True, False, False], [True, False]]
    assert kept.resolve([0, 1, 2, 3, 4, 5, 6, -1]).tolist() == [2, 1, 2, 2, 1, 5, 6, -1]
    assert len(kept) == 3


def test_rows_of_closed_tables_follow_a_table_of_their_cluster(monkeypatch):
    kept, _ = scripted(
        monkeypatch,
        {0: 0, 1: 0, 2: 0, 3: 3, 4: 3},
        {1: 1, 2: 1, 3: 3, 4: 3},  # the oldest of a cluster has closed
        {2: 2, 3: 3, 4: 3},
        {2: 2, 5: 2},  # all of a cluster have
        {5: 5},
    )
    assert kept.resolve([0, 1, 2, 3, 4, 5]).tolist() == [5, 5, 5, 3, 3, 5]
    again = KeptClusters.restore(kept.arrays())
    assert again.resolve([0, 1, 2, 3, 4, 5]).tolist() == [5, 5, 5, 3, 3, 5]


def test_clusters_on_arrival_are_those_in_force_at_each_row():
    one, two = np.array([0, 1]), np.array([0, 1, 2])
    joinings = Joining(3, one, np.array([0, 1]), ()), Joining(12, two, np.array([0, 0, 2]), ())
    found = clusters_on_arrival(np.array([1, 2, 1, 1, 2]), 10, joinings)
    assert found.tolist() == [1, 2, 0, 0, 2]
    late = Joining(8, two, np.array([0, 0, 0]), ())  # made after an interruption, of rows before these
    assert clusters_on_arrival(np.array([1, 2]), 10, (joinings[0], late)).tolist() == [0, 0]


def test_a_new_table_joins_the_cluster_of_its_ellipse_where_there_are_curves(monkeypatch):
    """Two ellipses are one cluster of any shape; of two new tables, one is in the second ellipse."""
    ellipses = {2: [0, 1], 4: [0, 1, 1, 3]}
    monkeypatch.setattr(protocols, "scatter", lambda *_: "rows")
    monkeypatch.setattr(module, "join_under_best", lambda rows, among=(0,), slack=0.0: (None, 0))
    monkeypatch.setattr(module, "_best", lambda ids, joins: np.array(ellipses[len(ids)]))
    made = SimpleNamespace(cluster_of=np.array([0, 0]), shape="any")
    monkeypatch.setattr(module, "join", lambda *_, **__: made)
    monkeypatch.setattr(module, "ALLOWANCE", 10**6)
    monkeypatch.setattr(module, "JOIN_PRICE", (10**6, 0))  # one, and looks
    monkeypatch.setattr(module, "LOOK_PRICE", (0, 0))
    kept = KeptClusters()
    for n, K in ((1000, 2), (1100, 4), (2100, 4)):
        state = SimpleNamespace(ids=np.arange(K), stats=None, squares=None)
        told = {"n_observations": n, "n_tables": K, "n_opened": K, "n_features": 2, "model": MODEL, "state": state}
        if n == 2100:
            made.cluster_of, ellipses[4] = np.array([0, 1, 1, 3]), [0, 0, 0, 3]  # ellipses of last time have joined
        kept.look(SimpleNamespace(**told))
        expected = {1000: [0, 0], 1100: [0, 0, 0, 3], 2100: [0, 1, 1, 3]}[n]
        assert kept.latest.clusters.tolist() == expected


def test_one_looks_at_growing_row_numbers(monkeypatch):
    kept, seen = KeptClusters(), []
    monkeypatch.setattr(KeptClusters, "_join", lambda *_, **__: (np.arange(1), np.arange(1)))
    told = {"n_tables": 1, "n_opened": 1, "n_features": 2, "model": MODEL, "state": SimpleNamespace(ids=np.arange(1))}
    while kept.due < 10**6:
        seen.append(kept.due)
        kept.look(SimpleNamespace(n_observations=kept.due, **told))
    assert seen[:10] == [16, 18, 20, 22, 24, 27, 30, 33, 37, 41]
    assert np.all(np.diff(seen) <= module.MOST_ROWS_APART)
    assert len(seen) < 100


def test_joining_costs_at_most_a_tenth_of_the_rows_and_what_the_first_need(monkeypatch):
    """Even if tables open all the time."""
    kept, looks = KeptClusters(), []
    monkeypatch.setattr(KeptClusters, "_join", lambda *_, **__: looks.append(1) or (np.arange(100), np.arange(100)))
    state, price = SimpleNamespace(ids=np.arange(100)), module.LOOK_PRICE[0] + 100 * module.LOOK_PRICE[1]
    told = {"n_tables": 100, "n_features": 2, "model": MODEL, "state": state}
    while kept.due < 10**8:
        kept.look(SimpleNamespace(n_observations=kept.due, n_opened=kept.due, **told))
    doublings = np.log2(10**8)
    assert len(looks) * price <= 10**8 / 10 + module.ALLOWANCE + doublings * price
    assert len(looks) > 500


@pytest.mark.parametrize(
    ("n_features", "n_codes", "n_tables", "n", "looks"),
    [(49, 100, 25, 25, 1), (49, 10_000, 16, 16, 0), (49, 10_000, 16, 10_000, 1), (49, 10_000, 40, 10**6, 0)],
)
def test_tables_of_many_codes_count_with_all_of_their_numbers(monkeypatch, n_features, n_codes, n_tables, n, looks):
    """Else 30 rows of 49 columns with 10,000 codes, some 7 kB, take many minutes."""
    kept, seen, ids = KeptClusters(), [], np.arange(n_tables)
    monkeypatch.setattr(KeptClusters, "_join", lambda *_, **__: seen.append(1) or (ids, ids))
    model = SimpleNamespace(family=Categorical(0.01, n_codes), cloud=False)
    told = {"n_observations": n, "n_tables": n_tables, "n_opened": n_tables, "n_features": n_features}
    kept.look(SimpleNamespace(**told, model=model, state=SimpleNamespace(ids=ids)))
    assert len(seen) == looks


@pytest.mark.parametrize("family", [Gaussian(1.0, 60.0), NormalGamma(1.0, 60.0, degrees=200.0)])
@pytest.mark.parametrize("seed", range(4))
def test_joins_that_end_early_are_those_that_count(family, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.normal(0.0, 8.0, (6, 10))[rng.integers(6, size=400)], 1.6)
    engine = make_engine(Model(family, Stationary(), 1.0), 10)
    engine.run(X, np.arange(400.0))
    state = engine.state
    shapes = protocols.shapes(family, state.stats, state.squares)
    all_, some = (join_by_likelihood(family, state.stats, shapes, slack) for slack in (np.inf, module.SLACK))
    n = int(np.argmax(np.cumsum([0.0, *(join.gain for join in all_)])))
    assert n <= len(some) < len(all_)
    assert some[:n] == all_[:n]
    assert int(np.argmax(np.cumsum([0.0, *(join.gain for join in some)]))) == n


@pytest.mark.parametrize("seed", range(3))
def test_of_a_scatter_too(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.normal(0.0, 8.0, (6, 4))[rng.integers(6, size=400)], 1.6)
    engine = make_engine(Model(Gaussian(1.0, 60.0), Stationary(), 1.0), 4)
    engine.run(X, np.arange(400.0))
    state = engine.state
    rows = protocols.scatter(engine.model.family, state.stats, state.squares)
    (all_, prior), (some, its) = (join_under_best(rows, slack=slack) for slack in (np.inf, module.SLACK))
    n = int(np.argmax(np.cumsum([0.0, *(join.gain for join in all_)])))
    assert its == prior
    assert n <= len(some) < len(all_) == len(state.ids) - 1
    assert some[:n] == all_[:n]


def test_the_best_prior_is_chosen_again_while_rows_are_few():
    rng = np.random.default_rng(1)
    X = rng.normal(rng.normal(0.0, 6.0, (40, 6))[rng.integers(40, size=3000)], 1.0)
    engine, kept, looked, found = make_engine(Model(Gaussian(1.0, 36.0), Stationary(), 1.0), 6), KeptClusters(), 0, []
    for n, x in enumerate(X, 1):
        engine.run_one(x, float(n))
        if n == kept.due:
            kept.look(engine)
            now = int(kept.arrays()["kept_counts"][4])
            if now == n >= module.TWICE * looked:
                rows = protocols.scatter(engine.model.family, engine.state.stats, engine.state.squares)
                found.append((int(kept.arrays()["kept_counts"][7]), join_under_best(rows)[1]))
            looked = now
    assert len(found) > 4
    assert [prior for prior, _ in found] == [best for _, best in found]

"""Clusters that a stream keeps: the same however it is cut, told by events, as good as those joined from scratch."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dyncrp import Bernoulli, DynamicalMixture, Exponential, Gaussian, Multinomial, NormalGamma, Stationary, combine
from dyncrp.families import protocols
from dyncrp.joining import kept as kept_module
from dyncrp.joining.clusters import join
from dyncrp.stream.stream import Stream

ROUND = Gaussian(1.0, 400.0)


def blobs(n, seed=0, D=2, spread=(3.0, 1.0), centers=((0, 0), (30, 0), (0, 40))):
    """Rows of clusters that are wider than a table of ``ROUND``, in random order."""
    rng = np.random.default_rng(seed)
    means = np.zeros((len(centers), D))
    means[:, :2] = centers
    return rng.normal(means[rng.integers(len(centers), size=n)], np.resize(spread, D))


def lively(n, seed=0):
    """Rows of clusters that come and go, so that tables close."""
    rng = np.random.default_rng(seed)
    where = np.repeat(rng.integers(5, size=n // 20 + 1), 20)[:n]
    return rng.normal(np.array([[0, 0], [25, 0], [0, 25], [25, 25], [50, 50]])[where], [3.0, 1.0])


def documents(n, seed=0):
    rng = np.random.default_rng(seed)
    words = np.array([["rain", "wind", "storm", "snow"], ["goal", "match", "team", "cup"]])
    return [" ".join(rng.choice(words[k], 5)) for k in rng.integers(2, size=n)]


def ever_new_words(n, seed=0):
    """Documents whose later ones have words that the earlier ones do not have."""
    rng = np.random.default_rng(seed)
    topics = np.repeat(rng.integers(6, size=n // 10 + 1), 10)[:n]
    return [" ".join(f"w{15 * k + rng.integers(20)}" for _ in range(rng.integers(3, 12))) for k in topics]


STREAMS = {
    "scatter": ({"family": ROUND}, blobs(900)),
    "likelihood": ({"family": NormalGamma(1.0, 400.0, degrees=50.0)}, blobs(700, 1, D=4)),
    "wide": ({"family": ROUND}, blobs(600, 2, D=12)),
    "closing": ({"family": ROUND, "dynamics": Exponential(60.0), "prune_below": 0.02}, lively(900)),
    "few tables": ({"family": ROUND, "max_tables": 4}, lively(600, 3)),
    "warm-up": ({"warmup": 100, "dynamics": Stationary()}, make_moons(250, noise=0.05, random_state=4)[0]),
    "alpha": ({"family": ROUND, "learn_alpha": True}, blobs(500, 5)),
    "missing": (
        {"family": ROUND},
        np.where(np.random.default_rng(6).random((400, 3)) < 0.1, np.nan, blobs(400, 6, D=3)),
    ),
    "bits": ({"family": Bernoulli(0.3, 0.3)}, (blobs(400, 7, D=6) > 5).astype(float)),
    "documents": ({"family": Multinomial(0.2)}, documents(300)),
}
WORDS_COME_AND_GO = {
    "new words": ({"family": Multinomial(10.0), "dynamics": Exponential(20.0)}, ever_new_words(120, 3)),
    "words that are forgotten": (
        {"family": Multinomial(1.0), "dynamics": Exponential(20.0), "max_tables": 5},
        ever_new_words(120, 4),
    ),
}


def told(model):
    """What a model says of its clusters and its last batch."""
    moves = [event for event in model.events_ if event.kind in ("joined", "parted")]
    return moves, model.stream_.batch.clusters.tolist()


def learned(params, X, edges, reload=False):
    """Learn a stream in pieces; return the model, all events, and the clusters of rows as known on arrival."""
    model, events, clusters = DynamicalMixture(**params, keep_clusters=True), [], []
    model.on_event = events.append
    for begin, end in pairwise(edges):
        model.partial_fit(X[begin:end])
        clusters += model.stream_.batch.clusters.tolist() if model.learned_ else []
        if reload and model.learned_:
            model = DynamicalMixture.from_bytes(model.to_bytes())
            model.on_event = events.append
    return model, events, clusters


@pytest.mark.parametrize("name", STREAMS | WORDS_COME_AND_GO)
def test_clusters_and_events_do_not_depend_on_cuts_or_files(name):
    params, X = (STREAMS | WORDS_COME_AND_GO)[name]
    n = len(X)
    whole, events, clusters = learned(params, X, [0, n])
    assert {event.kind for event in events} & {"joined", "parted"}
    ids = np.arange(whole.n_opened_)
    cuts = np.random.default_rng(8).choice(np.arange(1, n), 12, replace=False).tolist()
    for edges, reload in (([0, *sorted(cuts), n], False), ([0, n // 3, n // 3 + 1, n // 2, n], True)):
        model, others, on_arrival = learned(params, X, edges, reload)
        assert others == events
        assert on_arrival == clusters[len(clusters) - len(on_arrival) :]
        assert model.resolve(ids, level="cluster").tolist() == whole.resolve(ids, level="cluster").tolist()
        for key, array in whole.stream_.learner.kept.arrays().items():
            np.testing.assert_array_equal(model.stream_.learner.kept.arrays()[key], array)


@pytest.mark.parametrize("name", ["scatter", "likelihood", "closing"])
def test_row_by_row_the_clusters_are_those_known_on_arrival(name):
    params, X = STREAMS[name]
    X = X[:300]
    _, _, clusters = learned(params, X, [0, len(X)])
    model = DynamicalMixture(**params, keep_clusters=True)
    assert [model.learn_one(x, level="cluster") for x in X] == clusters
    model = DynamicalMixture(**params, keep_clusters=True)
    model.on_event = lambda event: None  # another path
    assert [model.learn_one(x.tolist(), level="cluster") for x in X] == clusters


@pytest.mark.parametrize("name", STREAMS)
def test_tables_are_the_same_and_nothing_is_kept_if_it_is_not_asked_for(name):
    params, X = STREAMS[name]
    on, off = DynamicalMixture(**params, keep_clusters=True).fit(X), DynamicalMixture(**params).fit(X)
    np.testing.assert_array_equal(on.labels_, off.labels_)
    assert on.log_evidence_ == off.log_evidence_
    assert off.stream_.learner.kept is None
    assert off.stream_.batch.joinings == ()
    assert not {event.kind for event in off.events_} & {"joined", "parted"}
    assert not any(key.startswith("kept") for key in off.stream_.learner.arrays())


@pytest.mark.parametrize("name", STREAMS)
def test_the_events_alone_tell_the_clusters_of_open_tables(name):
    params, X = STREAMS[name]
    model, events, _ = learned(params, X, [0, len(X) // 2, len(X)])
    of = {}
    for event in events:
        if event.kind in ("joined", "parted"):
            for table in event.what["tables"]:
                assert of.get(table, table) == event.what["before"] != event.cluster
                of[table] = event.cluster
            assert (event.kind == "parted") == (event.cluster in event.what["tables"])
        elif event.table in of:
            assert event.cluster is not None
    open_ = model.table_ids_
    assert [of.get(table, table) for table in open_.tolist()] == model.resolve(open_, level="cluster").tolist()


@pytest.mark.parametrize("name", STREAMS)
def test_whenever_everything_is_looked_at_clusters_are_those_joined_from_scratch(name, monkeypatch):
    params, X = STREAMS[name]
    looked, seen = kept_module.KeptClusters.look, []

    def look(self, engine, *, edited=False):
        joined, n_joined = kept_module.join, []
        monkeypatch.setattr(kept_module, "join", lambda *args, **more: n_joined.append(1) or joined(*args, **more))
        found = looked(self, engine, edited=edited)
        monkeypatch.setattr(kept_module, "join", joined)
        state = engine.state
        by_likelihood = protocols.scatter(engine.model.family, state.stats, state.squares) is None
        if n_joined or (by_likelihood and self.latest.row == engine.n_observations - 1):
            scratch = join(engine.model, engine.state)
            np.testing.assert_array_equal(self.latest.tables, scratch.table_ids)
            np.testing.assert_array_equal(self.latest.clusters, scratch.cluster_of)
            seen.append(engine.n_observations)
        return found

    monkeypatch.setattr(kept_module.KeptClusters, "look", look)
    DynamicalMixture(**params, keep_clusters=True).fit(X)
    assert len(seen) >= 2


def test_an_early_mistake_is_unmade():
    rng = np.random.default_rng(0)
    X = np.concatenate([[[0.0], [6.0]], rng.normal(3.0, 2.0, (500, 1))])  # two tables open for one cluster
    model = DynamicalMixture(Gaussian(1.0, 100.0), keep_clusters=True)
    first = [model.learn_one(x, level="cluster") for x in X[:2]]
    assert first == [0, 1]
    said = []
    model.on_event = said.append
    model.partial_fit(X[2:])
    joined = next(event for event in said if event.kind == "joined" and 1 in event.what["tables"])
    assert (joined.table, joined.cluster, joined.what["before"]) == (1, 0, 1)
    assert model.resolve(first, level="cluster").tolist() == [0, 0]
    assert model.resolve(first).tolist() == [0, 1]
    assert set(model.stream_.batch.clusters[-100:].tolist()) == {0}


def test_a_cluster_parts_when_the_rows_show_two():
    rng = np.random.default_rng(3)
    near = rng.normal([[0.0, 0.0]], [2.0, 2.0], (40, 2))
    apart = rng.normal(np.array([[-5.0, 0.0], [5.0, 0.0]])[rng.integers(2, size=4000)], 1.0)
    model = DynamicalMixture(Gaussian(1.0, 100.0), memory=50.0, keep_clusters=True)
    model.partial_fit(near)
    assert set(model.resolve(model.table_ids_, level="cluster").tolist()) == {0}
    model.partial_fit(apart)
    parted = [event for event in model.events_ if event.kind == "parted"]
    assert parted
    assert parted[0].what["before"] == 0
    assert len(set(model.resolve(model.table_ids_, level="cluster").tolist())) >= 2


def test_rows_of_a_closed_table_stay_with_its_cluster():
    params, X = STREAMS["closing"]
    model = DynamicalMixture(**params, keep_clusters=True)
    closed = []
    for begin in range(0, len(X), 10):
        closed += model.partial_fit(X[begin : begin + 10]).closed_ids_.tolist()
    clusters = model.resolve([-1, *closed], level="cluster")
    assert clusters[0] == -1
    open_clusters = set(model.resolve(model.table_ids_, level="cluster").tolist())
    assert open_clusters & set(clusters.tolist())  # some of them live on
    kept = model.stream_.learner.kept
    for table, heir in kept.arrays()["kept_closed"].tolist():
        assert model.resolve([table], "cluster") == model.resolve([heir], "cluster")


def test_closed_tables_are_forgotten_in_the_end(monkeypatch):
    monkeypatch.setattr(kept_module, "MOST_CLOSED", 1)
    params, X = STREAMS["closing"]
    model = DynamicalMixture(**params, keep_clusters=True).fit(X)
    assert len(model.stream_.learner.kept.arrays()["kept_closed"]) == 1
    assert model.resolve([0], level="cluster").tolist() == [0]


def test_tables_merged_and_split_by_hand_are_joined_at_once():
    model = DynamicalMixture(ROUND, keep_clusters=True).fit(blobs(300))
    said = []
    model.on_event = said.append
    clusters = model.resolve(model.table_ids_, level="cluster")
    one, other = (int(model.table_ids_[clusters == cluster][0]) for cluster in np.unique(clusters)[:2])
    kept = model.merge(one, other)
    assert said[0].kind == "merged"
    assert [event.kind for event in model.events_[-len(said) :]] == [event.kind for event in said]
    found = model.stream_.learner.kept.latest
    np.testing.assert_array_equal(found.tables, model.table_ids_)
    np.testing.assert_array_equal(found.clusters, join(model.engine_.model, model.engine_.state).cluster_of)
    assert model.resolve([one, other], level="cluster").tolist() == [found.clusters[0]] * 2
    assert kept == one
    again = DynamicalMixture.from_bytes(model.to_bytes())
    more = blobs(400, 9)
    model.on_event = None
    np.testing.assert_array_equal(
        again.partial_fit(more).stream_.batch.clusters, model.partial_fit(more).stream_.batch.clusters
    )

    model = DynamicalMixture(Gaussian(4.0, 400.0), keep_clusters=True).fit([[0.0], [3.0], [40.0]] * 20)
    new = model.split(0, [[3.0]] * 20)
    assert model.events_[-1].kind in ("opened", "joined")
    assert new in model.stream_.learner.kept.latest.tables


def test_a_combined_model_has_its_clusters_at_once():
    combined, _ = combine(DynamicalMixture(ROUND, keep_clusters=True).fit(blobs(300, seed)) for seed in (10, 11))
    found = join(combined.engine_.model, combined.engine_.state).cluster_of
    assert len(np.unique(found)) < combined.n_tables_
    assert combined.resolve(combined.table_ids_, level="cluster").tolist() == found.tolist()
    again = DynamicalMixture.from_bytes(combined.to_bytes())
    assert told(again.partial_fit(blobs(50, 12))) == told(combined.partial_fit(blobs(50, 12)))


def test_an_interrupted_call_is_caught_up_with(monkeypatch):
    X = blobs(400)
    model = DynamicalMixture(ROUND, keep_clusters=True).partial_fit(X[:10])
    look = kept_module.KeptClusters.look
    monkeypatch.setattr(kept_module.KeptClusters, "look", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[10:])
    monkeypatch.setattr(kept_module.KeptClusters, "look", look)
    assert model.n_observations_ == 16
    model.partial_fit(X[16:])
    whole = DynamicalMixture(ROUND, keep_clusters=True).partial_fit(X)
    assert model.stream_.to_bytes() == whole.stream_.to_bytes()
    assert min(event.row for event in model.events_) >= 15


def test_a_state_has_the_clusters():
    X = blobs(500)
    model = DynamicalMixture(ROUND, keep_clusters=True).fit(X[:300])
    other = DynamicalMixture(ROUND, keep_clusters=True).set_state(model.to_state())
    assert told(other.partial_fit(X[300:])) == told(model.partial_fit(X[300:]))
    plain = DynamicalMixture(ROUND).set_state(model.to_state())  # it does not ask for them
    with pytest.raises(ValueError, match="keep_clusters=True"):
        plain.resolve([0], level="cluster")
    late = DynamicalMixture(ROUND, keep_clusters=True).set_state(DynamicalMixture(ROUND).fit(X[:300]).to_state())
    late.partial_fit(X[300:301])
    np.testing.assert_array_equal(late.resolve(late.table_ids_, level="cluster"), late.clusters().cluster_of)


def test_there_may_be_too_many_tables_to_join(monkeypatch):
    monkeypatch.setattr(kept_module, "MOST_TABLES", 2)
    model = DynamicalMixture(ROUND, keep_clusters=True).fit(blobs(200))
    assert model.resolve(model.table_ids_, level="cluster").tolist()[3:] == model.table_ids_.tolist()[3:]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("kept_clusters", lambda array: array + 1),
        ("kept_ellipses", lambda array: np.full_like(array, 10**6)),
        ("kept_tables", lambda array: array[::-1].copy()),
        ("kept_counts", lambda array: array - 10**9),
        ("kept_counts", lambda array: array[:5]),
        ("kept_closed", lambda array: np.array([[0, 1]])),
        ("kept_clusters", lambda array: None),
    ],
)
def test_a_file_whose_clusters_make_no_sense_is_refused(name, change):
    model = DynamicalMixture(ROUND, keep_clusters=True).fit(blobs(100))
    learner = model.stream_.learner
    arrays = learner.arrays()
    arrays[name] = change(arrays[name])
    arrays = {key: array for key, array in arrays.items() if array is not None and not key.startswith("mode_a")}
    arrays.pop("mode_rates")
    before = model.stream_.to_bytes()
    with pytest.raises(ValueError, match="kept_"):
        learner.set_arrays(arrays)
    assert model.stream_.to_bytes() == before


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="keep_clusters must be True or False, got 'yes'"):
        DynamicalMixture(ROUND, keep_clusters="yes").fit([[0.0]])
    model = DynamicalMixture(ROUND).fit([[0.0]])
    for call in (lambda: model.resolve([0], level="cluster"), lambda: model.learn_one([1.0], level="cluster")):
        with pytest.raises(ValueError, match="keep_clusters"):
            call()
    for call in (lambda: model.resolve([0], level="rows"), lambda: model.learn_one([1.0], level="rows")):
        with pytest.raises(ValueError, match=r"level must be one of \('table', 'cluster'\)"):
            call()
    assert model.n_observations_ == 1
    keeping = DynamicalMixture(ROUND, keep_clusters=True)
    with pytest.raises(ValueError, match="level must be one of"):
        keeping.learn_one([1.0], level="rows")
    assert keeping.learn_one([1.0], level="cluster") == 0
    assert isinstance(keeping.stream_, Stream)

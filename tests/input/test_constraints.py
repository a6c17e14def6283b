"""What people tell a model: tables of rows, rows that stay apart, merges, names and splits."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dyncrp import Bernoulli, DynamicalMixture, Exponential, Gaussian, NormalGamma, Stationary, combine
from dyncrp.arrays.checks import BadRow
from dyncrp.input.constraints import Constraints, Names, check_name

N = 90


def stream(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = 4.0 * rng.integers(0, 4, (n, 1)) + rng.normal(size=(n, 2))
    labels = [[None, None, "left", "right", "door 3"][k] for k in rng.integers(0, 5, n)]
    cannot_link = [f"photo {i // 3}" if rng.random() < 0.4 else None for i in range(n)]
    return X, np.cumsum(rng.exponential(1.0, n)), _without_conflicts(labels, cannot_link), cannot_link


def _without_conflicts(labels, cannot_link):
    """No two rows of one photo are told to be at one table."""
    labels = labels.copy()
    for i in range(len(labels)):
        j = i
        while j and cannot_link[j - 1] is not None and cannot_link[j - 1] == cannot_link[i]:
            j -= 1
            if labels[j] == labels[i]:
                labels[i] = None
    return labels


def known_model(**params):
    return DynamicalMixture(Gaussian(1.0, 50.0), Exponential(30.0), 0.5, **params)


def learn(model, X, times, labels, cannot_link, cuts):
    for begin, end in zip([0, *cuts], [*cuts, len(X)], strict=True):
        if begin < end:
            part = slice(begin, end)
            model.partial_fit(X[part], times=times[part], labels=labels[part], cannot_link=cannot_link[part])
    return model


@pytest.mark.parametrize(
    "params",
    [{}, {"learn_alpha": True}, {"max_tables": 3}, {"alarm_rate": 0.01, "n_examples": 2}],
    ids=["plain", "learn-alpha", "closing", "watching"],
)
@given(cuts=st.lists(st.integers(0, N), max_size=5).map(sorted))
@settings(deadline=None, max_examples=20)
def test_what_is_told_does_not_depend_on_the_cuts(params, cuts):
    told = stream()
    whole, cut = learn(known_model(**params), *told, []), learn(known_model(**params), *told, cuts)
    assert cut.to_bytes() == whole.to_bytes()
    assert cut.names_ == whole.names_


@pytest.mark.parametrize("cuts", [[1, 2, 3], [40], [39, 41, 70], list(range(1, 60))], ids=str)
def test_what_is_told_in_the_warm_up_is_told_again_when_rows_are_seated_again(cuts):
    told = stream()
    params = {"warmup": 40, "dynamics": Stationary()}
    whole = DynamicalMixture(**params).fit(told[0], times=told[1], labels=told[2], cannot_link=told[3])
    cut = learn(DynamicalMixture(**params), *told, cuts)
    assert cut.to_bytes() == whole.to_bytes()
    loaded = learn(DynamicalMixture(**params), *(part[:25] for part in told), [])
    loaded = DynamicalMixture.from_bytes(loaded.to_bytes())
    assert not loaded.learned_
    assert learn(loaded, *(part[25:] for part in told), []).to_bytes() == whole.to_bytes()
    for name in ("left", "right", "door 3"):
        told_so = [row for row in range(N) if told[2][row] == name]
        assert set(whole.labels_[told_so]) == set(whole.resolve([name]))


def test_rows_that_are_told_are_there_and_rows_apart_are_not_together():
    X, times, labels, cannot_link = stream()
    model = known_model().fit(X, times=times, labels=labels, cannot_link=cannot_link)
    ids = model.labels_
    for row, label in enumerate(labels):
        if label is not None:
            assert model.names_[ids[row]] == label
            assert model.responsibilities_[[row]].toarray().max() == 1.0
    for row in range(1, N):
        if cannot_link[row] is not None and cannot_link[row] == cannot_link[row - 1] and labels[row] is None:
            assert ids[row] != ids[row - 1]
    assert np.any(model.labels_ != known_model().fit(X, times=times).labels_)


def test_whole_numbers_and_texts_are_marks_alike():
    X, times, _, cannot_link = stream()
    numbers = [-1 if mark is None else int(mark.split()[1]) for mark in cannot_link]
    left, right = (
        known_model().fit(X, times=times, cannot_link=cannot_link),
        known_model().fit(X, times=times, cannot_link=numbers),
    )
    np.testing.assert_array_equal(left.labels_, right.labels_)
    assert Constraints.read(None, [-1] * 5, 5) is None
    assert Constraints.read([None, np.nan, -1.0, ""], None, 4) is None


def test_a_closed_table_opens_again_when_a_row_is_told_to_be_there():
    model = known_model(max_tables=2).fit([[0.0, 0.0], [50.0, 0.0]], labels=["a", "b"])
    model.partial_fit([[99.0, 0.0], [99.0, 0.1]])  # the least of the others closes
    assert sorted(model.table_ids_) == [1, 2]
    model.partial_fit([[0.0, 0.0], [0.1, 0.0]], labels=["a", "a"])
    (label,) = set(model.labels_.tolist())
    assert model.names_[label] == "a"
    assert label == 3
    model.partial_fit([[0.2, 0.0]], labels=[0])  # the id of old
    assert model.resolve([0])[0] in model.table_ids_
    assert model.labels_.tolist() == model.resolve([0]).tolist()


def test_merged_tables_stay_one_when_they_close():
    model = known_model(max_tables=3).fit([[0.0, 0.0], [3.0, 0.0], [50.0, 0.0]], labels=["a", "b", None])
    model.merge("a", "b")
    model.partial_fit(np.repeat([[90.0, 0.0], [-90.0, 0.0], [90.0, 90.0]], 5, axis=0))
    assert 0 not in model.table_ids_
    model.partial_fit([[0.0, 0.0], [3.0, 0.0], [1.0, 0.0]], labels=[1, 0, "a"])
    (label,) = set(model.labels_.tolist())
    assert model.resolve([0, 1, "a"]).tolist() == [label] * 3
    assert model.names_ == {label: "a"}


@pytest.mark.parametrize(
    ("told", "match", "row"),
    [
        ({"labels": [0] * 4}, "4 rows|each of the 5 rows", None),
        ({"labels": [7, -1, -1, -1, -1]}, "ids of tables are below 3", 0),
        ({"labels": [-1, -1, -2, -1, -1]}, "−1 if unknown, got -2", 2),
        ({"labels": [None, 1.5, None, None, None]}, "got 1.5", 1),
        ({"labels": [None, True, None, None, None]}, "got True", 1),
        ({"labels": ["7", None, None, None, None]}, "not an integer", 0),
        ({"labels": [" ", None, None, None, None]}, "a name must be", 0),
        ({"labels": ["two\nlines", None, None, None, None]}, "on one line", 0),
        ({"cannot_link": [None] * 6}, "each of the 5 rows", None),
        ({"cannot_link": [None, object(), None, None, None]}, "cannot_link must be integers", 1),
        ({"labels": ["a", "a", None, None, None], "cannot_link": [4, 4, 4, None, None]}, "row 0 is at its table", 1),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(told, match, row):
    model = known_model().fit([[0.0, 0.0], [9.0, 9.0], [-9.0, 9.0]])
    before = model.to_bytes()
    with pytest.raises(ValueError, match=match) as caught:
        model.partial_fit(np.zeros((5, 2)), **told)
    assert model.to_bytes() == before
    if row is not None:
        assert isinstance(caught.value, BadRow)
        assert caught.value.row == row


def test_ids_are_not_taken_while_they_are_provisional():
    model = DynamicalMixture().partial_fit(np.zeros((3, 1)))
    for ask in (
        lambda: model.partial_fit([[0.0]], labels=[0]),
        lambda: model.merge(0, 1),
        lambda: model.rename(0, "a"),
        lambda: model.split(0, [[0.0]]),
    ):
        with pytest.raises(ValueError, match=r"provisional until|learn_unknown"):
            ask()
    with pytest.raises(ValueError, match="provisional"):
        DynamicalMixture().fit([[0.0]], labels=[0])


def test_the_posterior_of_the_number_of_tables_knows_of_no_edits():
    model = known_model(table_count="posterior")
    with pytest.raises(ValueError, match="table_count='map'"):
        model.fit([[0.0], [9.0]], labels=["a", None])
    model.fit([[0.0], [9.0]])
    for ask in (lambda: model.merge(0, 1), lambda: model.partial_fit([[0.0]], cannot_link=[1])):
        with pytest.raises(ValueError, match="table_count='map'"):
            ask()


def test_a_merged_id_answers_for_ever():
    X, times, _, _ = stream()
    model = known_model().fit(X, times=times)
    a, b, c = model.table_ids_[:3].tolist()
    labels = model.labels_
    assert model.merge(c, b) == b
    assert model.merge(b, a) == a
    assert model.resolve([a, b, c, -1]).tolist() == [a, a, a, -1]
    assert set(model.resolve(labels)) == set(model.table_ids_)
    again = DynamicalMixture.from_bytes(model.to_bytes())
    for one in (again, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert one.resolve([c]).tolist() == [a]
        assert one.partial_fit([[0.0, 0.0]], times=[99.0 + times[-1]], labels=[c]).labels_.tolist() == [a]
    assert model.n_opened_ == again.n_opened_ == labels.max() + 1  # ids are never used again
    for one in (a, b, c):
        with pytest.raises(ValueError, match="same table already"):
            model.merge(one, a)


def test_a_merge_of_tables_that_one_cannot_cover_is_said():
    model = known_model().fit([[0.0], [0.2], [1.0], [30.0], [30.1]], labels=["a", "a", "b", "c", "c"])
    model.merge("a", "b")
    assert "far_apart" not in model.events_[-1].what
    model.merge("a", "c")
    assert model.events_[-1].what["far_apart"]
    assert model.predict([[30.0]]).tolist() == [-1]  # what the event says
    yes_and_no = DynamicalMixture(Bernoulli(0.5, 0.5), alpha=0.1).fit([[0.0] * 9, [1.0] * 9])
    yes_and_no.merge(0, 1)  # whose centres are no rows


def test_a_merge_keeps_the_name_of_the_first():
    def named():
        model = known_model().fit([[0.0], [9.0], [-9.0]])
        model.rename(1, "one")
        model.rename(2, "two")
        return model

    model = named()
    assert (model.merge("two", "one"), model.names_) == (1, {1: "two"})
    model = named()
    assert (model.merge("one", "two"), model.names_) == (1, {1: "one"})
    model = named()
    assert (model.merge(0, "two"), model.names_) == (0, {0: "two", 1: "one"})
    assert model.describe()["called"].tolist() == ["two", "one"]
    assert "called" not in known_model().fit([[0.0]]).describe()


def test_names_are_of_one_table_each():
    model = known_model().fit([[0.0], [9.0]])
    model.rename(0, " door 3 ")
    with pytest.raises(ValueError, match="table 0 is called 'door 3' already: merge"):
        model.rename(1, "door 3")
    model.rename("door 3", "door 3")
    model.rename("door 3", "")
    assert model.names_ == {}
    for table, match in ((5, "an id below 2 or a name, got 5"), ("door 3", "no table is called"), (True, "got True")):
        with pytest.raises(ValueError, match=match):
            model.rename(table, "x")
    for name in ("", "  ", "7", "-7", "x" * 201, "a\nb", None, 7):
        with pytest.raises(ValueError, match="a name must be a text"):
            check_name(name)


def test_a_table_that_has_closed_is_said_to_have():
    model = known_model(max_tables=1).fit([[0.0], [50.0]])
    with pytest.raises(ValueError, match="table 0 has closed"):
        model.rename(0, "gone")
    assert model.resolve([0]).tolist() == [0]


def test_a_split_takes_rows_out_exactly():
    X, times, _, _ = stream()
    told = ["all" if x[0] > 6.0 else "rest" for x in X]
    model = known_model().fit(X, times=times, labels=told)
    own = np.flatnonzero([name == "all" for name in told])
    far = own[X[own, 0] > 10.0]
    new = model.split("all", X[far], times=times[far])
    cannot_link = ["far" if i in far else name for i, name in enumerate(told)]
    other = known_model().fit(X, times=times, labels=cannot_link)
    for name, table in (("all", "all"), (new, "far")):
        ours, theirs = (m.centers_[m.table_ids_ == m.resolve([t])[0]] for m, t in ((model, name), (other, table)))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
        ours, theirs = (m.occupancies_[m.table_ids_ == m.resolve([t])[0]] for m, t in ((model, name), (other, table)))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.parametrize(
    ("params", "times", "match"),
    [
        ({}, None, "needs the times of the rows"),
        ({"memory": 9.0}, [0.0], "needs memory=inf"),
        ({}, [3.5], "not be after 3"),
    ],
)
def test_a_split_that_cannot_be_exact_is_refused(params, times, match):
    model = known_model(**params).fit([[0.0], [0.1], [9.0], [9.1]], times=np.arange(4.0))
    before = model.to_bytes()
    with pytest.raises(ValueError, match=match):
        model.split(0, [[0.0]], times=times)
    assert model.to_bytes() == before


def test_rows_with_missing_cells_can_be_told_and_split():
    X = np.array([[0.0, np.nan], [0.2, 0.1], [9.0, 9.0], [np.nan, 9.1], [0.1, 0.0]])
    model = DynamicalMixture(NormalGamma(1.0, 50.0)).fit(X, labels=["a", "a", None, "b", None])
    assert model.resolve(["a"]) == model.labels_[4]
    assert model.split("a", X[:1]) == model.n_opened_ - 1
    assert np.all(np.isfinite(model.score_samples(X)))


def test_a_state_has_no_names():
    model = known_model().fit([[0.0], [9.0]])
    model.to_state()
    model.rename(0, "a")
    with pytest.raises(ValueError, match="names or merged ids: keep the model with to_bytes"):
        model.to_state()


@pytest.mark.parametrize(
    "plain",
    [
        {"names": [[9, "a"]]},
        {"names": [[0, "a"], [1, "a"]]},
        {"names": [[0, "7"]]},
        {"names": [["0", "a"]]},
        {"merged": [[0, 0]]},
        {"merged": [[1, 9]]},
        {"merged": [[1, 2], [2, 0]]},
        {"merged": [[1, 2], [1, 0]]},
        {"merged": [[True, 2]]},
    ],
    ids=str,
)
def test_forged_names_are_refused(plain):
    with pytest.raises(ValueError, match=r"it names|it merges|a name must"):
        Names.from_plain(plain, 3)


def test_names_go_into_a_file_and_back():
    names = Names()
    names.give(1, "a")
    names.forward(3, 1)
    names.forward(1, 0)
    assert (names.of, names.find(3), names.find("a"), names.find("b")) == ({0: "a"}, 0, 0, None)
    assert Names.from_plain(names.to_plain(), 4).to_plain() == names.to_plain()
    assert Names().to_plain() == {}


def test_each_name_is_looked_up_once(monkeypatch):
    """A call with as many names as rows would take hours otherwise, and hold up all streams of a server."""
    looked_up = []
    find = Names.find
    monkeypatch.setattr(Names, "find", lambda self, table: looked_up.append(table) or find(self, table))
    n = 300
    names = [f"name {i}" for i in range(n)]
    model = known_model().partial_fit(np.zeros((2 * n, 2)), times=np.arange(2.0 * n), labels=names + names)
    np.testing.assert_array_equal(model.labels_, [*range(n), *range(n)])
    assert len(looked_up) <= 2 * n


def test_a_state_takes_the_place_of_names_too():
    state = known_model().fit([[5.0]]).to_state()
    model = known_model().fit([[0.0], [9.0], [-9.0]])
    model.rename(0, "a")
    model.merge(1, 2)
    model.set_state(state)
    assert model.names_ == {}
    assert model.to_state() == state
    assert DynamicalMixture.from_bytes(model.to_bytes()).n_opened_ == 1


def test_a_split_of_missing_cells_that_is_refused_changes_nothing():
    model = known_model().fit([[0.0, 0.0], [0.2, 0.0], [9.0, 1.0]])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="the rest without these 3 is not a table"):
        model.split(0, [[np.nan, 0.0], [0.0, 0.0], [1.0, 1.0]], times=[0.0, 1.0, 1.0])
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    "labels",
    [
        iter(["a", "b"]),
        np.array(["a", "b"]),
        np.ma.array(["a", "b", "a"], mask=[False, False, True])[:2],
        pd.Series(["a", "b"], dtype="string"),
        pd.Series(["a", "b"], dtype="category"),
    ],
)
def test_labels_are_anything_that_can_be_listed(labels):
    assert known_model().fit([[0.0], [0.1]], labels=labels).names_ == {0: "a", 1: "b"}


@pytest.mark.parametrize(
    "labels",
    [
        np.ma.array([1, 1], mask=[False, True]),
        np.ma.array(["b", "b"], mask=[False, True]),
        pd.Series(["b", None], dtype="string"),
        pd.Series([1, None], dtype="Int64"),
        ["b", pd.NA],
        ["b", pd.NaT],
    ],
)
def test_what_is_missing_of_labels_is_unknown(labels):
    model = known_model().fit([[0.0], [9.0]], labels=["a", "b"])
    assert model.partial_fit([[9.0], [0.0]], labels=labels).labels_.tolist() == [1, 0]


@pytest.mark.parametrize("name", ["labels", "cannot_link"])
def test_whole_numbers_beyond_all_ids_are_refused(name):
    with pytest.raises(BadRow, match="got 9223372036854775808"):
        known_model().fit([[0.0], [9.0]], **{name: np.array([1, 2**63], dtype=np.uint64)})


def test_ids_and_names_are_resolved_together():
    model = known_model().fit([[0.0], [9.0]], labels=["a", "b"])
    assert model.resolve(iter(["b", "a"])).tolist() == [1, 0]
    assert model.resolve([-1, "b", 0]).tolist() == [-1, 1, 0]


def test_combined_models_keep_names_and_merged_ids():
    X = np.array([[0.0], [9.0], [0.4], [30.0]])
    models = [DynamicalMixture(Gaussian(1.0, 100.0)).fit(rows) for rows in (X, X[1:])]
    models[0].split(0, X[2:3])
    models[0].merge(3, 0)
    models[0].rename(0, "zero")
    models[1].rename(1, "other zero")
    models[1].rename(2, "far")
    combined, maps = combine(models)
    assert maps[0].tolist() == [0, 1, 2, 0, -1]
    assert combined.names_ == {0: "zero", int(maps[1][2]): "far"}


def test_a_copy_calls_nobody():
    model = known_model().fit([[0.0]])
    model.on_event = lambda event: None
    assert pickle.loads(pickle.dumps(model)).on_event is None


def test_the_first_call_tells_of_a_model_that_is_whole():
    told = []
    model = known_model()
    model.on_event = lambda event: told.append(DynamicalMixture.from_bytes(model.to_bytes()).n_features_in_)
    model.fit([[0.0, 1.0]])
    assert told == [2]

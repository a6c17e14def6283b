"""``DynamicalMixture.explain`` against the shares that ``predict_proba`` gives, and its text."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from cases import FAMILIES, RULES, draw
from dyncrp import Bernoulli, DynamicalMixture, Exponential, Gaussian, Multinomial, Stationary
from dyncrp.engine import ReferenceEngine
from dyncrp.input.words import tokenize
from dyncrp.views.explain import MISSING, explain_row

PREDICTIVE = [name for name, rules in RULES.items() if rules.get("assignment") != "variational"]


def fitted(case, rules, n=40):
    X, times = draw(case, n=n)
    return DynamicalMixture(case.family, Exponential(30.0), alpha=0.7, **rules).fit(X[:-8], times=times[:-8]), X[-8:]


@pytest.mark.parametrize("rules", PREDICTIVE)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_terms_add_up_to_the_log_odds_of_shares(name, rules):
    model, X = fitted(FAMILIES[name], RULES[rules])
    ids = [*model.table_ids_.tolist(), -1]
    for x, label, share in zip(X, model.predict(X), model.predict_proba(X), strict=True):
        found = model.explain(x)
        assert found.table == label
        logs = dict(zip(ids, np.log(share).tolist(), strict=True))
        others = {table: log for table, log in logs.items() if table not in (label, -1)}
        assert found.runner_up == max(others, key=others.get, default=None)
        if others:
            odds = logs[label] - max(others.values())
            assert found.against_runner_up.total == pytest.approx(odds, rel=1e-9, abs=1e-9)
        assert (found.against_new is None) == (label == -1)
        if label != -1:
            assert found.against_new.total == pytest.approx(logs[label] - logs[-1], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("rules", ["variational", "paper"])
def test_with_variational_it_is_the_predictive_scores_of_the_table_that_is_chosen(rules):
    model, X = fitted(FAMILIES["gaussian"], RULES[rules])
    weights = np.append(model.occupancies_, model.alpha_)
    stats = np.vstack([model.engine_.state.stats, np.zeros(4)])
    for x, label in zip(X, model.predict(X), strict=True):
        found = model.explain(x)
        assert found.table == label
        if rules == "variational" and found.against_new is not None:
            place = model.table_ids_.tolist().index(label)
            scores = np.log(weights) + model.family_.log_predictive(x[None], stats)[0]
            assert found.against_new.total == pytest.approx(scores[place] - scores[-1], rel=1e-9)


def test_the_prior_is_the_ratio_of_weights_at_its_time():
    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(10.0), alpha=0.25)
    model.fit([[0.0], [0.0], [30.0]], times=[0.0, 5.0, 6.0])
    found = model.explain([0.0], t=16.0)
    first, second = np.exp(-1.6) + np.exp(-1.1), np.exp(-1.0)
    assert (found.table, found.runner_up) == (0, 1)
    assert found.against_runner_up.prior == pytest.approx(np.log(first / second))
    assert found.against_new.prior == pytest.approx(np.log(first / 0.25))
    assert model.explain([0.0]).against_new.prior == pytest.approx(np.log(first / 0.25) + 1.0)  # at the latest time


def test_a_row_that_opens_a_table_is_told_from_the_best_of_the_others():
    model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0, 0.0], [40.0, 0.0], [0.0, 0.0]])
    found = model.explain([-40.0, 0.0])
    assert (found.table, found.runner_up, found.against_new) == (-1, 0, None)
    assert found.against_runner_up.features[0] > 100.0
    assert str(found).splitlines()[0] == "a new table"


def test_the_only_table_has_a_new_one_for_its_rival():
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [0.1]])
    found = model.explain([0.2])
    assert (found.table, found.runner_up, found.against_runner_up) == (0, None, None)
    assert found.odds == (found.against_new,)
    assert found.against_new.total == pytest.approx(float(np.diff(-np.log(model.predict_proba([[0.2]]))[0])[0]))


def test_what_has_no_weight_is_no_rival():
    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(1.0)).fit([[0.0], [0.1]], times=[0.0, 1.0])
    found = model.explain([0.0], t=1e6)
    assert (found.table, found.odds) == (-1, ())
    assert str(found) == "a new table: no other table has any weight"
    assert found.ranked() == ([0], [])


def test_it_changes_nothing():
    model, X = fitted(FAMILIES["normal-gamma"], {})
    before, row = model.to_bytes(), X[0].copy()
    model.explain(X[0])
    assert model.to_bytes() == before
    np.testing.assert_array_equal(X[0], row)


def test_a_missing_cell_says_nothing_and_the_others_what_they_did():
    model = DynamicalMixture(Bernoulli(0.3, 0.4), Stationary()).fit([[1, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 1]])
    whole, holed = model.explain([1, 1, 1]), model.explain([1, np.nan, 1])
    np.testing.assert_allclose(holed.against_new.features, whole.against_new.features * [1, 0, 1], atol=1e-12)
    assert holed.against_new.features[1] == 0.0
    assert holed.values == ("1", MISSING, "1")
    assert "x1 missing" in str(holed)


# --- rows with names ------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed():
    rng = np.random.default_rng(0)
    n = 200
    place = rng.integers(2, size=n)
    frame = pd.DataFrame(
        {
            "weight": np.where(place, 5.0, -5.0) + rng.standard_normal(n),
            "colour": np.where(place, "red", "blue"),
            "wet": rng.random(n) < 0.5,
            "same": 1.0,
        }
    )
    return DynamicalMixture().fit(frame), frame


def test_a_mapping_a_series_a_frame_and_an_encoded_row_are_one(mixed):
    model, frame = mixed
    encoded = model.encoding_.encode(frame[:1])[0]
    row = frame.iloc[0]
    shown = {str(model.explain(x)) for x in (frame[:1], row, row.to_dict(), {**row.to_dict(), "other": 1}, encoded[0])}
    assert len(shown) == 1
    found = model.explain(row)
    assert found.names == ("weight", "colour", "wet")
    assert found.values[1] in ("red", "blue")
    assert f"colour = {found.values[1]}" in shown.pop()
    assert found.table == model.predict(frame[:1])[0]


def test_a_word_that_is_new_is_called_by_its_name(mixed):
    model, frame = mixed
    found = model.explain({"weight": 5.0, "colour": "mauve", "wet": None})
    assert found.values == ("5", "mauve", MISSING)
    assert [odds.features[2] for odds in found.odds] == [0.0]
    assert "mauve" not in model.encoding_["colour"].words
    assert found.table == model.predict(frame.assign(colour="mauve", weight=5.0, wet=None)[:1])[0]


def test_names_without_an_encoding():
    X = pd.DataFrame({"height": [0.0, 9.0, 0.2], "width": [0.0, 9.0, 0.1]})
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit(X)
    found = [model.explain(x) for x in ({"width": 8.0, "height": 9.0}, pd.DataFrame({"height": [9.0], "width": [8.0]}))]
    assert str(found[0]) == str(found[1])
    assert found[0].names == ("height", "width")
    assert found[0].values == ("9", "8")
    assert str(model.explain(X.iloc[1] - [0.0, 1.0])) == str(found[0])


def test_dates():
    times = np.array(["2024-01-01", "2024-01-02"], "M8[s]")
    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(86_400.0)).fit([[0.0], [0.0]], times=times)
    later = model.explain([0.0], t=np.datetime64("2024-01-03"))
    assert later.against_new.prior == pytest.approx(model.explain([0.0]).against_new.prior - 1.0)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[0.0, 0.0], [1.0, 1.0]], "one row, got 2"),
        (np.zeros((0, 2)), "one row, got 0"),
        ([0.0], "1 features, but DynamicalMixture is expecting 2"),
        (3.0, "2D|two|dimension"),
        ({"x0": 0.0, "x1": 0.0}, "this model learned from arrays without names"),
        (["a", "b"], "number"),
        ([np.inf, 0.0], "finite|infinit"),
    ],
)
def test_what_is_no_row_is_refused(x, message):
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.0], [9.0, 9.0]])
    with pytest.raises(ValueError, match=message):
        model.explain(x)


def test_a_feature_that_is_not_there_is_named(mixed):
    with pytest.raises(ValueError, match="has no colour, wet; NaN is a missing cell"):
        mixed[0].explain({"weight": 1.0})
    with pytest.raises(ValueError, match="one row, got 2"):
        mixed[0].explain(mixed[1][:2])


def test_it_needs_a_model_that_has_learned_and_a_time_that_is_not_past():
    with pytest.raises(NotFittedError):
        DynamicalMixture().explain([0.0])
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0]], times=[5.0])
    with pytest.raises(ValueError, match="4"):
        model.explain([0.0], t=4.0)


# --- its text -------------------------------------------------------------------------------------------------------


def test_many_features_are_listed_by_size_and_the_rest_as_one():
    rng = np.random.default_rng(2)
    centers = np.outer([0.0, 1.0], np.linspace(0.0, 4.0, 20))
    X = centers[[0, 1] * 20] + 0.3 * rng.standard_normal((40, 20))
    model = DynamicalMixture(Gaussian(0.1, 4.0)).fit(X)
    found = model.explain(X[1])
    first, others = found.ranked()
    assert (len(first), len(others)) == (15, 5)
    size = np.max(np.abs([odds.features for odds in found.odds]), axis=0)
    assert np.min(size[first]) >= np.max(size[others])
    assert np.all(np.diff(size[first]) <= 0)
    lines = str(found).splitlines()
    assert len(lines) == 2 + 1 + 15 + 1 + 1
    assert lines[-2].startswith("5 other features")
    cells = np.array([[float(cell) for cell in line.split()[-2:]] for line in lines[2:]])
    np.testing.assert_allclose(np.sum(cells[:-1], axis=0), cells[-1], atol=0.005 * len(cells))
    np.testing.assert_allclose(cells[-1], [odds.total for odds in found.odds], atol=0.005)
    assert len(found.ranked(19)[0]) == 20  # one more is no longer than the line for the rest


def test_tables_go_by_their_names_and_long_cells_are_cut():
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0]])
    found = explain_row(model.engine_, np.array([8.0]), 2.0, ["n" * 80], table_names={1: "door", 0: "window"})
    lines = str(found).splitlines()
    assert lines[0] == "table 1 (door)"
    assert "against table 0 (window)" in lines[1]
    assert lines[3].split()[0] == "n" * 47 + "…"


# --- documents ------------------------------------------------------------------------------------------------------

TEXTS = ["storm hits the coast", "polls open in the city", "storm off the coast", "polls close in the city"]
DOCUMENTS = ["the storm, the coast", "polls and nothing else", "quite new words, words", "", "the the the the"]


@pytest.mark.parametrize("reference", [False, True], ids=["engine", "reference"])
@pytest.mark.parametrize("background", [None, 2.0])
def test_the_terms_of_words_add_up_to_the_log_odds_and_are_those_of_all_columns(background, reference, monkeypatch):
    if reference:
        monkeypatch.setattr("dyncrp.engine.has_extension", lambda: False)
    model = DynamicalMixture(Multinomial(3.0, background), Exponential(20.0), alpha=0.3).fit(TEXTS * 3)
    assert isinstance(model.engine_, ReferenceEngine) == reference
    before, ids = model.to_bytes(), [*model.table_ids_.tolist(), -1]
    for text, label, share in zip(DOCUMENTS, model.predict(DOCUMENTS), model.predict_proba(DOCUMENTS), strict=True):
        found = model.explain(text)
        counts = Counter(tokenize(text))
        assert dict(zip(found.names, map(int, found.values), strict=True)) == counts
        assert found.table == label
        vocabulary = model.vocabulary_
        rows = vocabulary.encode(vocabulary.read([text]), grow=False).rows
        stats = model.family_.widen(model.engine_.state.stats, rows.n_columns)
        tables = np.vstack([stats, np.zeros((1, stats.shape[1]))])
        terms = model.family_.given(stats).log_predictive_terms(rows.toarray(), tables)[0][:, rows.indices]
        for odds in found.odds:
            mine, its = ids.index(label), ids.index(odds.rival)
            assert odds.total == pytest.approx(np.log(share[mine] / share[its]), rel=1e-9, abs=1e-9)
            np.testing.assert_allclose(odds.features, terms[mine] - terms[its], rtol=1e-9, atol=1e-12)
        assert len(found.odds) == (1 if label == -1 else 2)
    assert model.to_bytes() == before


def test_a_word_tells_how_much_likelier_it_is_at_the_table():
    model = DynamicalMixture(Multinomial(4.0), Stationary(), alpha=0.1).fit(TEXTS, labels=["storm", "polls"] * 2)
    found = model.explain("storm")
    # The words of the two tables are known, and one more stands for all others: each has 4/(V + 1).
    prior = 4.0 / (len(model.vocabulary_) + 1)
    sizes = [int(model.engine_.word_counts(table).counts.sum()) for table in (0, 1)]
    expected = np.log((2.0 + prior) / (sizes[0] + 4.0)) - np.log(prior / (sizes[1] + 4.0))
    assert found.against_runner_up.features == pytest.approx([expected])
    assert found.against_new.features == pytest.approx([np.log((2.0 + prior) / (sizes[0] + 4.0)) - np.log(prior / 4.0)])


def test_a_document_may_come_in_any_form():
    model = DynamicalMixture(Multinomial(3.0), Stationary(), alpha=0.3).fit(TEXTS)
    shown = str(model.explain("storm storm quake"))
    assert shown == str(model.explain(["storm", "quake", "storm"])) == str(model.explain({"quake": 1, "storm": 2}))
    assert "storm × 2" in shown
    assert "\nquake  " in shown
    X = np.array([[2, 1, 0], [0, 0, 3], [1, 1, 0]])
    model = DynamicalMixture(Multinomial(3.0), Stationary(), alpha=0.3).fit(X)
    row = [1, 0, 0, 2]
    assert str(model.explain(row)) == str(model.explain(csr_array([row]))) == str(model.explain(np.array([row])))
    assert model.explain(row).names == ("x0", "x3")
    named = DynamicalMixture(Multinomial(3.0), Stationary(), alpha=0.3).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    assert named.explain({"c": 2, "b": 0, "a": 1}).names == ("a", "c")
    with pytest.raises(ValueError, match="expected one row, got 3"):
        model.explain(csr_array(X))
    with pytest.raises(ValueError, match="one row, got 3"):
        model.explain(X)


def test_the_runner_up_of_a_long_document_is_found_where_shares_are_0():
    topics = [["a"] * 9, ["b"] * 9, ["c"] * 8 + ["a"]]
    model = DynamicalMixture(Multinomial(1.0), Stationary(), alpha=1e-3).fit(topics * 40)
    found = model.explain({"a": 5000})
    assert (found.table, found.runner_up) == (0, 2)
    assert found.against_runner_up.total > 800.0
    assert model.predict_proba([{"a": 5000}])[0, 2] == 0.0


def test_many_words_are_listed_as_one_after_the_first():
    model = DynamicalMixture(Multinomial(3.0), Stationary(), alpha=0.3).fit(TEXTS)
    found = model.explain([f"w{i}" for i in range(20)])
    assert "5 other words" in str(found)

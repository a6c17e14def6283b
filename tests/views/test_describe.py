"""``DynamicalMixture.describe`` against what labels, times and rows say."""

import sys

import numpy as np
import pandas as pd
import pytest

from cases import THREE_FEATURES
from dyncrp import Categorical, DynamicalMixture, Exponential, Gaussian, Multinomial, Stationary
from dyncrp.views.describe import describe_features

FAMILY = Gaussian(1.0, 400.0)


def stream(family, n=200, D=3, seed=0):
    rng = np.random.default_rng(seed)
    X = family.sample(family.sample_parameters(5, D, rng)[rng.integers(5, size=n)], rng)
    return X, np.cumsum(rng.exponential(1.0, n))


@pytest.mark.parametrize("name", [name for name in THREE_FEATURES if not name.startswith("categorical")])
def test_the_columns_are_what_labels_and_times_say(name):
    family = THREE_FEATURES[name]
    X, times = stream(family)
    model = DynamicalMixture(family, Exponential(40.0)).fit(X, times=times)
    found = model.describe()
    assert found.index.name == "table"
    assert found.index.tolist() == model.table_ids_.tolist()
    assert found.columns.tolist() == ["rows", "share", "first_seen", "last_seen", "x0", "x1", "x2"]
    rows = [np.flatnonzero(model.labels_ == table) for table in model.table_ids_]
    assert found["rows"].tolist() == [len(r) for r in rows]
    np.testing.assert_allclose(found["share"], [len(r) / 200 for r in rows])
    assert found["first_seen"].tolist() == [times[r[0]] for r in rows]
    assert found["last_seen"].tolist() == [times[r[-1]] for r in rows]
    shares = model.responsibilities_[:, model.table_ids_]  # of the rows, which may be shared by tables
    if name not in ("gaussian-few-directions", "sphere"):
        means = (shares.T @ X) / shares.sum(axis=0)[:, None]
        np.testing.assert_allclose(found[["x0", "x1", "x2"]], means, rtol=1e-9)


def test_it_goes_on_however_the_stream_is_cut_and_after_a_file():
    X, times = stream(FAMILY)
    whole = DynamicalMixture(FAMILY, max_tables=3).fit(X, times=times)
    model = DynamicalMixture(FAMILY, max_tables=3).fit(X[:70], times=times[:70])
    model = DynamicalMixture.from_bytes(model.partial_fit(X[70:90], times=times[70:90]).to_bytes())
    pd.testing.assert_frame_equal(
        model.partial_fit(X[90:], times=times[90:]).describe(), whole.describe(), check_exact=True
    )
    assert whole.n_opened_ > len(whole.describe()) == 3


def test_dates_are_in_utc_and_features_have_their_names():
    X = pd.DataFrame({"height": [0.0, 9.0, 0.2], "width": [0.0, 9.0, 0.1]})
    times = pd.to_datetime(
        ["2024-01-01T02:00:00.25+02:00", "2024-01-02T00:00:00.00+02:00", "2024-01-03T00:00:00.00+02:00"]
    )
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit(X, times=times)
    found = model.describe()
    assert found.columns.tolist()[-2:] == ["height", "width"]
    assert str(found["first_seen"].dt.tz) == "UTC"
    assert found["first_seen"].tolist() == times[:2].tolist()
    assert found["last_seen"].tolist() == times[[2, 1]].tolist()


@pytest.mark.parametrize("year", ["-200000", "1000", "2024", "200000", "20000000"])
def test_dates_of_any_age(year):
    when = np.array([f"{year}-01-01", f"{year}-01-02"], "M8[s]")
    found = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [0.0]], times=when).describe()
    assert found["first_seen"].dt.tz_localize(None).to_numpy()[0] == when[0]
    assert found["last_seen"].dt.tz_localize(None).to_numpy()[0] == when[1]


def test_without_times_it_is_the_index():
    found = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [90.0], [0.0]]).describe()
    assert found["last_seen"].tolist() == [2.0, 1.0]


def test_names_that_are_taken_are_told_apart():
    X = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["share", "a", "cluster"])
    found = DynamicalMixture(Gaussian(1.0, 100.0)).fit(X).describe(1)
    assert found.columns.tolist()[4:] == ["cluster", "share (x0)", "a", "cluster (x2)"]


def test_clusters_are_given_or_a_number():
    model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0], [5.0], [50.0], [55.0], [1.0]])
    for clusters in (2, np.int64(2), model.clusters(2)):
        found = model.describe(clusters)
        assert found["cluster"].tolist() == [0, 0, 2, 2]
        assert found.columns.tolist()[4] == "cluster"
    for bad in ("2", True, 2.0, [2]):
        with pytest.raises(
            ValueError, match=r"clusters must be what clusters\(\) returns, or a number of clusters, got"
        ):
            model.describe(bad)
    with pytest.raises(ValueError, match="at most the number of open tables, 4, got 5"):
        model.describe(5)


def test_codes_have_probability_and_lift():
    family = Categorical(0.5, 3)
    X = np.array([[0.0]] * 6 + [[2.0]] * 2 + [[7.0]] * 2)
    tables = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    stats = np.array([family.statistics(X[tables == c]).sum(axis=0) for c in (0, 1)])
    # By hand: (κ H(k) + s_k)/(κ + n) with H = 1/2, 1/6, 1/12, and 1/4 for all others.
    base = 0.5 * np.array([1 / 2, 1 / 6, 1 / 12, 1 / 4])
    p = (base + np.array([[5, 0, 0, 0], [1, 0, 2, 2]])) / 5.5
    lift = p / p.mean(axis=0)
    assert describe_features(family, stats, ["kind"]) == {
        "kind": [
            f"0 {100 * p[0, 0]:.0f} % (lift {lift[0, 0]:.1f})",
            f"≥3 {100 * p[1, 3]:.0f} % (lift {lift[1, 3]:.1f}), 2 {100 * p[1, 2]:.0f} %, 0 {100 * p[1, 0]:.0f} %",
        ]
    }
    np.testing.assert_allclose(family.code_probabilities(stats, 0), p)
    codes = np.arange(3.0)[:, None]
    np.testing.assert_allclose(
        np.exp(family.log_predictive(codes, stats)).T, family.code_probabilities(stats, 0)[:, :3]
    )
    number = {"x": [1.0]}
    assert describe_features(Gaussian(1.0, 1.0), np.ones((1, 2)), ["x"]) == number


def test_the_lift_weighs_tables_by_their_counts():
    family = Categorical(1e-9, 2)
    stats = np.array([[30.0, 30.0, 0.0, 0.0], [10.0, 0.0, 10.0, 0.0]])
    assert describe_features(family, stats, ["a"]) == {"a": ["0 100 % (lift 1.3)", "1 100 % (lift 4.0)"]}


def test_a_table_without_rows_has_no_share():
    model = DynamicalMixture(Gaussian(1.0, 4.0), alpha=0.4, new_table_threshold=0.1, max_tables=1)
    model.fit([[0.0], [0.5]])
    assert (model.labels_.tolist(), model.table_ids_.tolist()) == ([0, 0], [1])
    found = model.describe()
    assert found[["rows", "share", "first_seen", "last_seen"]].to_numpy().tolist() == [[0.0, 0.0, 1.0, 1.0]]


def test_without_pandas_the_extra_is_named(monkeypatch):
    model = DynamicalMixture(Gaussian(1.0, 4.0)).fit([[0.0]])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=r"a frame of tables needs pandas: pip install pandas, or 'dyncrp\[experiments\]'"
    ):
        model.describe()


def test_tables_of_a_frame_are_described_in_its_words():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    frame = pd.DataFrame(
        {
            "id": [f"n{i}" for i in range(200)],
            "bytes": np.exp(2.0 + 6.0 * labels + rng.normal(0.0, 0.5, 200)),
            "protocol": np.where(labels == 1, "tcp", "udp"),
            "ok": labels == 0,
        }
    )
    frame.loc[3, "bytes"] = None
    told = DynamicalMixture().fit(frame).describe()
    assert list(told.columns)[4:] == ["bytes", "protocol", "ok"]
    assert told["rows"].sum() == 200
    large = told[told["protocol"].str.startswith("tcp")]
    small = told[told["protocol"].str.startswith("udp")]
    assert large["protocol"].iloc[0].startswith("tcp 100 % (lift")
    assert large["bytes"].min() > 500.0 > 50.0 > small["bytes"].max() > 2.0
    assert large["ok"].max() < 0.1 < 0.9 < small["ok"].min()


def test_of_a_feature_that_was_always_missing_nothing_is_said():
    model = DynamicalMixture(Categorical(1.0, 4)).fit([[np.nan, 1.0], [np.nan, 2.0], [np.nan, 1.0]])
    assert set(model.describe()["x0"]) == {""}
    assert all(model.describe()["x1"])


def test_masks_do_not_name_a_topic():
    tokens = [["<number>", "<url>", word] for word in ("rain", "goal") for _ in range(5)]
    words = DynamicalMixture(Multinomial(1.0), Stationary(), 1.0).fit(tokens).describe().words.tolist()
    assert all(words)
    assert not any("<" in text for text in words)


def test_masks_do_not_make_a_topic():
    words = ["rain wind cloud", "goal match team"] * 20
    texts = [f"{text} {'1 ' * (i % 3)} {'http://a.b ' * (i % 5)}" for i, text in enumerate(words)]
    plain = DynamicalMixture(Multinomial()).fit(words)
    model = DynamicalMixture(Multinomial()).fit(texts)
    assert model.labels_.tolist() == plain.labels_.tolist()
    assert model.log_evidence_ == plain.log_evidence_

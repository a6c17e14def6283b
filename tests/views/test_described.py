"""``model.clusters()`` prints what is typical of each cluster, and is a frame."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest

from dyncrp import DynamicalMixture, Gaussian, Multinomial

ROWS = [[0.0, 1.0], [5.0, 1.2], [50.0, 1.1], [0.0, 1.2], [52.0, 1.0]]


def learned(rows=ROWS, **given):
    return DynamicalMixture(Gaussian(1.0, 400.0)).fit(rows, **given)


def test_clusters_print_as_a_table_with_the_largest_first():
    assert str(learned(ROWS + 3 * [[51.0, 1.0]]).clusters(2)).splitlines() == [
        "3 tables in 2 clusters",
        "cluster  rows  share  first seen  last seen  typical",
        "      2     5   62 %           2          7  x0 51 ↑, x1 1.020",
        "      0     3   38 %           0          3  x0 2 ↓, x1 1.133 ↑",
    ]
    assert repr(learned().clusters(2)) == str(learned().clusters(2))


def test_clusters_are_a_frame_and_keep_their_own_attributes():
    clusters = learned().clusters(2)
    assert isinstance(clusters.frame, pd.DataFrame)
    assert clusters.frame.index.name == "cluster"
    assert clusters["rows"].to_dict() == {0: 3, 2: 2}
    assert list(clusters[["share", "tables"]].loc[0]) == [0.6, 2.0]
    assert list(clusters) == list(clusters.columns) == [*clusters.frame]
    assert len(clusters) == len(clusters.frame) == 2
    np.testing.assert_array_equal(clusters.labels([0, 1, 2, 9]), [0, 0, 2, -1])
    np.testing.assert_array_equal(clusters.ids, [0, 2])
    np.testing.assert_allclose(clusters.sizes, [3.0, 2.0], atol=1e-6)
    assert pickle.loads(pickle.dumps(clusters)).frame.equals(clusters.frame)


def test_dates_are_dates_and_names_are_called():
    dates = pd.date_range("2026-03-01", periods=5, freq="D", tz="UTC")
    model = learned(pd.DataFrame(ROWS, columns=["height", "width"]), times=dates)
    model.rename(2, "tall")
    clusters = model.clusters(2)
    assert clusters["last_seen"].to_dict() == {0: dates[3], 2: dates[4]}
    assert clusters["called"].to_dict() == {0: "", 2: "tall"}
    assert clusters["typical"][2].startswith("height 51 ↑")
    assert "2, tall" in clusters._repr_html_()
    assert "2026-03-05" in clusters._repr_html_()


def test_clusters_stay_as_they_were_while_the_model_goes_on_learning():
    model = learned()
    clusters = model.clusters(2)
    model.partial_fit(20 * [[51.0, 9.0]])
    assert clusters["rows"].to_dict() == {0: 3, 2: 2}
    assert str(clusters) == str(learned().clusters(2))


def test_without_pandas_clusters_still_print(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    clusters = learned().clusters(2)
    assert "x0 51 ↑" in str(clusters)
    assert "x0 51 ↑" in clusters._repr_html_()
    with pytest.raises(ImportError, match="a frame of clusters needs pandas"):
        clusters["rows"]


def test_names_do_not_become_html():
    model = DynamicalMixture(Multinomial(3.0), alpha=0.3).fit([["<b>", "storm"], ["<b>", "storm"], ["polls"]])
    assert "&lt;b&gt;" in model.clusters()._repr_html_()


def test_a_notebook_shows_the_largest_of_many_clusters():
    model = DynamicalMixture(Gaussian(1.0, 1e6)).fit([[1000.0 * k, 0.0] for k in range(40)])
    shown = model.clusters(40)._repr_html_()
    assert "the 30 largest are shown" in shown
    assert shown.count("<tr>") == 31


@pytest.mark.parametrize("seed", range(3))
def test_n_clusters_is_the_number_of_clusters(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.choice([-9.0, 0.0, 9.0], size=(60, 1)), 1.0, size=(60, 2))
    model = DynamicalMixture(Gaussian(1.0, 100.0))
    for some in (X[:20], X[20:]):
        model.partial_fit(some)
        assert model.n_clusters_ == len(model.clusters())


def test_reading_n_clusters_does_not_rename_the_clusters_of_events():
    model = learned()
    model.clusters(2)
    before = dict(model.stream_.cluster_of)
    assert model.n_clusters_ in (1, 2, 3)
    assert model.stream_.cluster_of == before


def test_what_a_data_frame_has_is_there():
    clusters = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0], [50.0], [0.5], [50.5], [0.2]]).clusters()
    assert clusters.sort_values("rows")["rows"].tolist() == [2, 3]
    assert clusters.to_csv().startswith("cluster,rows,share,")
    with pytest.raises(AttributeError, match="nothing"):
        assert clusters.nothing
    assert not hasattr(clusters, "_private")

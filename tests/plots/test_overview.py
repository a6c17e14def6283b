"""``plots.clusters`` draws any rows that a model can learn, and says what is typical of each cluster."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from dyncrp import DynamicalMixture, Gaussian, Multinomial, Stationary, plots
from dyncrp.plots.overview import MOST_POINTS
from dyncrp.plots.profiles import MOST_COLUMNS, MOST_LINES

RNG = np.random.default_rng(0)


def blobs(n_clusters, n_columns, n=300):
    rng = np.random.default_rng(0)
    centers = rng.normal(0.0, 30.0, (n_clusters, n_columns))
    return centers[np.arange(n) % n_clusters] + rng.normal(size=(n, n_columns))


def fitted(X, **given):
    return DynamicalMixture(Gaussian(1.0, 900.0), Stationary(), 1.0).fit(X, **given)


def texts_of(axis):
    return [text.get_text() for text in axis.texts]


def labels_of(axis):
    return [label.get_text() for label in axis.get_yticklabels()]


def drawn(axis):
    return sum(len(points.get_offsets()) for points in axis.collections)


def test_the_telling_columns_are_the_axes_and_come_first():
    X = pd.DataFrame(RNG.normal(size=(200, 4)), columns=["noise", "height", "more noise", "width"])
    X["height"] += np.where(np.arange(200) % 4 < 2, 30.0, 0.0)
    X["width"] += np.where(np.arange(200) % 2, 20.0, 0.0)
    rows, cells, times = plots.clusters(fitted(X), X).axes
    assert {rows.get_xlabel(), rows.get_ylabel()} == {"height", "width"}
    assert drawn(rows) == 200
    assert {label.get_text() for label in cells.get_xticklabels()[:2]} == {"height", "width"}
    assert labels_of(cells) == ["0: 50 rows, 25 %", "1: 50 rows, 25 %", "2: 50 rows, 25 %", "3: 50 rows, 25 %"]
    assert {text[-1] for text in texts_of(cells) if "↑" in text or "↓" in text} == {"↑", "↓"}
    assert times.get_xlabel() == "row"


def test_where_no_two_columns_suffice_directions_are_drawn():
    X = 8.0 * np.repeat(np.eye(9), 30, axis=0) + RNG.normal(size=(270, 9))
    rows = plots.clusters(fitted(X), X).axes[0]
    assert rows.get_xlabel().startswith("first direction")
    assert rows.get_ylabel().startswith("second direction")


def test_small_clusters_are_others_and_rows_are_thinned():
    X = blobs(40, 3, 2 * MOST_POINTS + 1)
    rows, cells, times = plots.clusters(fitted(X), X).axes
    assert len(labels_of(cells)) == MOST_LINES
    assert labels_of(cells)[-1] == "25 others: 5,000 rows, 62 %"
    assert MOST_POINTS / 2 < drawn(rows) <= MOST_POINTS
    assert times.get_xlabel() == "row (1 row in 3 is drawn)"


@pytest.mark.parametrize(("n_clusters", "n_columns"), [(1, 1), (3, 1), (1, 2), (2, 2), (4, 500)])
def test_any_number_of_clusters_and_columns(n_clusters, n_columns):
    X = blobs(n_clusters, n_columns)
    figure = plots.clusters(fitted(X), X)
    rows, cells, _ = figure.axes
    assert len(cells.get_xticklabels()) == min(n_columns, MOST_COLUMNS)
    assert drawn(rows) == 300
    if n_columns == 1:
        assert (rows.get_xlabel(), rows.get_ylabel()) == ("row", "x0")
    figure.savefig(io.BytesIO(), dpi=30)


def test_a_cell_has_the_share_of_the_likeliest_category_also_where_another_tells_more():
    kind = np.arange(200) % 2
    places = np.where(kind == 0, np.where(np.arange(200) % 20 < 12, "Bay, north", "Torgersen"), "Bay, north")
    X = pd.DataFrame({"place": places, "x": RNG.normal(30.0 * kind, 1.0)})
    shown = texts_of(plots.clusters(DynamicalMixture().fit(X), X).axes[1])
    assert any(re.fullmatch(r"Bay, no… [56]\d %", text) for text in shown), shown


def test_mixed_columns_missing_cells_and_dates():
    n, kind = 300, np.arange(300) % 3
    X = pd.DataFrame(
        {
            "colour": np.array(["red", "green", "blue"])[kind],
            "age": RNG.normal(np.array([20.0, 40.0, 60.0])[kind], 2.0),
            "paid": kind == 0,
        }
    )
    X.loc[:5, "age"] = np.nan
    dates = pd.date_range("2026-01-01", periods=n, freq="h")
    figure = plots.clusters(DynamicalMixture().fit(X, times=dates), X, times=dates, name="hour")
    _, cells, times = figure.axes
    assert any(text.startswith("red 9") or text.startswith("red 100") for text in texts_of(cells))
    assert times.get_xlabel() == "hour (UTC)"
    figure.savefig(io.BytesIO(), dpi=30)


@pytest.mark.parametrize("sparse", [False, True])
def test_texts_show_their_words(sparse):
    texts = ["storm coast wind", "polls vote party"] * 20
    X = csr_array(np.tile([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], (20, 1))) if sparse else texts
    model = DynamicalMixture(Multinomial(3.0), Stationary(), 0.3).fit(X)
    figure = plots.clusters(model, X)
    shown = " ".join(texts_of(figure.axes[1]))
    assert all(word in shown for word in (("x0", "x5") if sparse else ("storm", "party")))
    figure.savefig(io.BytesIO(), dpi=30)


def test_labels_and_clusters_may_be_given():
    X = blobs(4, 2)
    model = fitted(X)
    cells = plots.clusters(model, X, labels=model.labels_, clusters=model.clusters(2)).axes[1]
    assert len(labels_of(cells)) == 2


def test_a_report_needs_no_rows():
    X = blobs(3, 2)
    model = fitted(X)
    for given in (model, model.stream_):
        figure = plots.report(given, np.arange(300.0), model.labels_, model.novelty_, name="step")
        cells, times, novelty = figure.axes
        assert len(labels_of(cells)) == len(times.collections) == 3
        assert novelty.get_xlabel() == "step"
        np.testing.assert_array_equal(novelty.lines[0].get_ydata(), model.novelty_)
        figure.savefig(io.BytesIO(), dpi=30)


def test_invalid_input_is_refused():
    X = blobs(2, 2)
    model = fitted(X)
    with pytest.raises(ValueError, match="model must be a DynamicalMixture, got list"):
        plots.clusters([], X)
    with pytest.raises(ValueError, match=r"clusters must be what clusters\(\) returns, got int"):
        plots.clusters(model, X, clusters=2)
    with pytest.raises(ValueError, match="labels must be one integer"):
        plots.clusters(model, X, labels=[0, 1])
    with pytest.raises(ValueError, match="novelty must be one number"):
        plots.report(model, [0.0], [0], [])

"""Figures hold what they should; whether they are beautiful, somebody has to look."""

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from scipy.cluster.hierarchy import cophenet, dendrogram
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

import dyncrp
from dyncrp import DynamicalMixture, Exponential, Gaussian, Stationary, plots
from dyncrp.datasets import rooms
from dyncrp.plots.timelines import MOST_TIMELINE_ROWS
from dyncrp.plots.trees import BETWEEN_CLUSTERS, MOST_TREE_ROWS, prune
from dyncrp.views.clusters import Clusters


def test_stream_draws_every_observation_and_a_legend_entry_for_each_table():
    rng = np.random.default_rng(0)
    labels = np.array([0, 0, 1, 0, 1, 2])
    figure = plots.stream(rng.standard_normal((6, 3)), labels, Exponential(2.0), truth=labels)
    first, second, strips, occupancy = figure.axes
    assert sum(len(points.get_offsets()) for points in first.collections) == 6
    assert second.get_ylabel() == "feature 2"
    assert [tick.get_text() for tick in strips.get_yticklabels()] == ["inferred", "true"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["0", "1", "2"]
    drawn = occupancy.lines[0].get_ydata()
    assert drawn[1] == 1 + np.exp(-0.5)
    # lines are told apart without colour, by the markers of the legend
    lines = [line.get_marker() for line in occupancy.lines if len(line.get_xdata())]
    assert lines == [plots.table_style(table)[1] for table in range(3)]


def test_one_feature_without_truth():
    figure = plots.stream(np.zeros((3, 1)), [0, 1, 0], Exponential(2.0), times=[0.0, 0.5, 9.0])
    assert len(figure.axes) == 3


def test_the_first_24_tables_look_different():
    assert len({plots.table_style(table) for table in range(24)}) == 24


def strip_colors(figure, name):
    """Colours of the strip called ``name``, one for each observation."""
    axis = figure.axes[-2]
    names = [tick.get_text() for tick in axis.get_yticklabels()]
    return [tuple(color) for color in axis.collections[names.index(name)].get_array()[0]]


def test_strips_show_errors_because_true_clusters_are_matched_one_to_one():
    labels, truth = [0, 0, 0, 0, 0, 1, 1], [7, 7, 7, 8, 9, 3, 3]
    figure = plots.stream(np.zeros((7, 1)), labels, Exponential(2.0), truth=truth)
    inferred, true = strip_colors(figure, "inferred"), strip_colors(figure, "true")
    assert true[:3] == inferred[:3]
    assert true[5:] == inferred[5:]
    greys = true[3:5]
    assert greys[0] != greys[1]
    assert all(len(set(grey)) == 1 for grey in greys)


def test_occupancies_are_those_of_the_responsibilities():
    soft = np.array([[1.0, 0.0], [0.25, 0.75]])
    for responsibilities in (soft, csr_array(soft)):
        figure = plots.stream(
            np.zeros((2, 1)), [0, 1], Exponential(2.0), responsibilities=responsibilities, times=[0.0, 2.0]
        )
        drawn = [line.get_ydata()[-1] for line in figure.axes[-1].lines if len(line.get_ydata())]
        np.testing.assert_allclose(drawn, [np.exp(-1.0) + 0.25, 0.75])


def test_what_is_none_of_the_tables_is_grey():
    figure = plots.stream(np.zeros((3, 1)), [0, -1, 0], Exponential(2.0))
    assert strip_colors(figure, "inferred")[1] == plots.NEW_TABLE_COLOR
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["new", "0"]


def test_dates_are_dates():
    dates = np.datetime64("2024-01-01") + np.arange(3)
    figure = plots.stream(np.zeros((3, 1)), [0, 1, 0], Exponential(86_400.0), times=dates)
    figure.canvas.draw()
    assert figure.axes[-1].get_xticklabels()[0].get_text() == "01-01 00"


@pytest.mark.parametrize("given", [{}, {"truth": [4]}, {"times": ["2024-01-01"]}])
def test_one_observation(given):
    times = np.array(given["times"], dtype="M8[D]") if "times" in given else None
    plots.stream([[1.0]], [0], Exponential(2.0), truth=given.get("truth"), times=times)


@pytest.mark.parametrize(
    "bad",
    [
        {"X": np.zeros((0, 2)), "labels": []},
        {"labels": [0, 1]},
        {"labels": [0, 1, -2]},
        {"labels": [0.0, 1.0, 2.0]},
        {"truth": [0, 1]},
        {"truth": [0, 1, -5]},
        {"times": [0.0, 1.0]},
        {"responsibilities": np.ones((2, 2))},
        {"responsibilities": np.ones((3, 1))},
        {"responsibilities": np.full((3, 2), np.nan)},
    ],
    ids=str,
)
def test_bad_input_is_refused(bad):
    given = {"X": np.zeros((3, 2)), "labels": [0, 1, 0], "dynamics": Exponential(2.0)}
    with pytest.raises(ValueError, match="must"):
        plots.stream(**{**given, **bad})


@pytest.mark.slow
def test_evidence_shows_every_family_and_rings_what_was_chosen(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(rng.choice([-9.0, 0.0, 9.0], size=(200, 1)), 1.0, size=(200, 2))
    model, candidates = dyncrp.tune(X, dynamics=[Stationary(), Exponential()])
    figure = plots.evidence(candidates)
    figure.savefig(tmp_path / "evidence.png")
    families, dynamics = figure.axes
    drawn = sum(len(points.get_offsets()) for points in families.collections) - 1  # and the ring
    assert drawn == sum(c.reproducibility == c.reproducibility or c.family != model.family for c in candidates)
    assert {text.get_text() for text in dynamics.get_legend().get_texts()} >= {"Stationary()"}
    assert f"alpha {model.alpha:.3g}" in dynamics.get_title()


def test_evidence_of_nothing():
    with pytest.raises(ValueError, match="no candidates"):
        plots.evidence([])


def test_timeline_has_a_line_for_each_table():
    figure = plots.timeline(np.arange(6.0), [0, 2, 0, 5, 5, 0], np.linspace(1, 2, 6), name="hour")
    above, below = figure.axes
    assert [tick.get_text() for tick in above.get_yticklabels()] == ["0", "2", "5"]
    ends = [
        [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in bars.get_paths()]
        for bars in above.collections
    ]
    drawn = [[(round(begin), round(end)) for begin, end in bars] for bars in ends]
    assert drawn == [[(0, 0), (2, 2), (5, 5)], [(1, 1)], [(3, 4)]]  # rows in a row share a bar, without a seam
    assert below.get_xlabel() == "hour"
    np.testing.assert_array_equal(below.lines[0].get_ydata(), np.linspace(1, 2, 6))


def test_timeline_of_many_tables_names_the_largest():
    tables = np.concatenate([np.arange(100), np.repeat([70, 30], 5)])
    figure = plots.timeline(np.arange(110.0), tables, np.zeros(110), step=4)
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert len(names) == MOST_TIMELINE_ROWS
    assert {"30", "70"} <= set(names)
    assert names[-1] == "61 others"
    assert figure.axes[1].get_xlabel() == "time (1 row in 4 is drawn)"


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([86_400.0 * 400, 86_400.0 * 402], {"dated": True}),
        (np.array(["1971-02-05", "1971-02-07"], dtype="datetime64[D]"), {}),
    ],
)
def test_timeline_of_dates(times, told):
    figure = plots.timeline(times, [0, 0], [1.0, 1.0], **told)
    figure.savefig(io.BytesIO())
    assert figure.axes[1].get_xlabel() == "time (UTC)"
    assert len(figure.axes[0].collections[0].get_paths()) == 1
    assert "1971" in figure.axes[1].xaxis.get_offset_text().get_text()


def test_a_silence_parts_the_bars_of_a_timeline():
    x = np.concatenate([np.arange(50.0), np.arange(500.0, 550.0)])
    figure = plots.timeline(x, np.zeros(100, dtype=int), np.zeros(100))
    assert len(figure.axes[0].collections[0].get_paths()) == 2
    assert len(plots.timeline([3.0], [0], [1.0]).axes[0].collections[0].get_paths()) == 1


def test_timeline_of_clusters_has_their_order_and_colours():
    found = Clusters(np.array([0, 1, 2, 5]), np.array([0, 1, 0, 1]), np.ones(4), np.empty((3, 4)), "any")
    figure = plots.timeline(np.arange(7.0), [0, 1, 2, 3, 5, 1, 0], np.zeros(7), clusters=found)
    above = figure.axes[0]
    assert [tick.get_text() for tick in above.get_yticklabels()] == ["0", "2", "1", "5", "3"]  # table 3 is closed
    colors = [tuple(bars.get_facecolor()[0]) for bars in above.collections]
    first, second = (to_rgba(color) for color in plots.COLORS[:2])
    assert colors == [first, first, second, second, to_rgba("0.4")]
    (names,) = above.child_axes
    assert [(round(tick, 1)) for tick in names.get_yticks()] == [0.5, 2.5]
    assert [tick.get_text() for tick in names.get_yticklabels()] == ["0", "1"]
    figure.savefig(io.BytesIO())


def test_timeline_of_clusters_of_many_tables():
    ids = np.arange(100)
    found = Clusters(ids, ids % 2, np.ones(100), np.empty((99, 4)), "any")
    tables = np.concatenate([ids, ids[60:]])
    figure = plots.timeline(np.arange(140.0), tables, np.zeros(140), clusters=found)
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert names == [*map(str, range(60, 100, 2)), *map(str, range(61, 99, 2)), "61 others"]


def join(sizes, n):
    """Return the clusters of tables of these sizes, in pairs that are far from each other."""
    centers = [[100.0 * (k // 2) + 12.0 * (k % 2)] for k in range(len(sizes))]
    rows = np.repeat(centers, sizes, axis=0)
    return DynamicalMixture(Gaussian(1.0, 1e5), Stationary(), 1.0).fit(rows).clusters(n, "any")


def test_tables_are_drawn_as_a_tree_with_bars():
    found = join([9, 8, 7, 6, 5, 4], 3)
    figure = plots.tree(found)
    tree, bars = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["0 (17)", "2 (13)", "4 (9)"]
    order = [int(tick.get_text()) for tick in bars.get_yticklabels()]
    assert order == dendrogram(found.tree, no_plot=True)["leaves"]
    drawn = {round(bar.get_y() + bar.get_height() / 2): bar for bar in bars.patches}
    np.testing.assert_allclose([drawn[at].get_width() for at in range(6)], found.table_sizes[order], rtol=1e-9)
    colors = [to_rgba(color) for color in plots.COLORS[:3]]
    assert [drawn[at].get_facecolor() for at in range(6)] == [colors[table // 2] for table in order]
    assert len({line.get_marker() for line in bars.lines}) == 3  # told apart in greyscale
    (branches,) = tree.collections
    heights = [np.max(branch[:, 0]) for branch in branches.get_segments()]
    np.testing.assert_allclose(np.sort(heights), found.tree[:, 2])
    of_height = dict(zip(heights, map(tuple, branches.get_colors()), strict=True))
    near, far = sorted(of_height)[:3], sorted(of_height)[3:]
    assert {of_height[height] for height in near} == set(colors)
    assert {of_height[height] for height in far} == {to_rgba(BETWEEN_CLUSTERS)}
    assert figure.get_suptitle() == ""
    figure.savefig(io.BytesIO())


def test_tree_of_a_model_of_one_table_and_of_equal_tables():
    model = DynamicalMixture(Gaussian(1.0, 100.0), Stationary(), 1.0).fit([[0.0], [0.1]])
    figure = plots.tree(model)
    assert [tick.get_text() for tick in figure.axes[1].get_yticklabels()] == ["0"]
    figure.savefig(io.BytesIO())
    same = Clusters(np.arange(2), np.zeros(2, dtype=int), np.ones(2), np.array([[0.0, 1.0, 0.0, 2.0]]), "any")
    plots.tree(same).savefig(io.BytesIO())  # at the height 0


def test_of_many_tables_the_largest_are_drawn_and_it_is_said(monkeypatch):
    found = join([3, 9, 2, 9, 9, 8, 1, 9], 2)
    monkeypatch.setattr("dyncrp.plots.trees.MOST_TREE_ROWS", 4)
    figure = plots.tree(found)
    assert sorted(int(tick.get_text()) for tick in figure.axes[1].get_yticklabels()) == [1, 3, 4, 7]
    assert figure.get_suptitle() == "8 tables in 2 clusters; the 4 largest tables are drawn, with 72% of the rows"
    full, drawn = cophenet(found.tree), cophenet(prune(found.tree, np.array([1, 3, 4, 7])))
    kept = squareform(full)[np.ix_([1, 3, 4, 7], [1, 3, 4, 7])]
    np.testing.assert_array_equal(squareform(drawn), kept)  # they join as they do among all
    figure.savefig(io.BytesIO())


def test_thousands_of_tables_and_clusters_are_drawn():
    K = 3000
    chain = np.column_stack([[0, *range(K, 2 * K - 2)], range(1, K), np.arange(K - 1.0), range(2, K + 1)])
    figure = plots.tree(Clusters(np.arange(K), np.arange(K), np.ones(K), chain, "any"))
    assert len(figure.axes[1].get_yticklabels()) == MOST_TREE_ROWS
    assert not figure.legends
    assert "with 2% of the rows" in figure.get_suptitle()
    figure.savefig(io.BytesIO(), dpi=30)


def test_far_clusters_do_not_hide_how_near_tables_join():
    near = join([9, 8, 7, 6], 2)
    assert plots.tree(near).axes[0].get_xscale() == "linear"
    tree = near.tree.copy()
    tree[-1, 2] = 1e8
    figure = plots.tree(Clusters(near.table_ids, near.cluster_of, near.table_sizes, tree, "any"))
    axis = figure.axes[0]
    ends = axis.transData.transform([(height, 0.0) for height in (0.0, tree[0, 2], 1e8)])[:, 0]
    assert (ends[0] - ends[1]) / (ends[0] - ends[2]) > 0.02
    figure.savefig(io.BytesIO())


@pytest.mark.parametrize("bad", [None, 3, "clusters", [[0.0]], DynamicalMixture, Clusters], ids=str)
def test_tree_refuses(bad):
    with pytest.raises(ValueError, match=r"joined must be a DynamicalMixture or what its clusters\(\) returns, got "):
        plots.tree(bad)


@pytest.mark.parametrize("bad", [([], [], []), ([0.0], [0], []), ([0.0], [-2], [1.0])], ids=str)
def test_timeline_refuses(bad):
    with pytest.raises(ValueError, match="must be one"):
        plots.timeline(*bad)


def of_steps(walk):
    """Return the colour of every step of a walk that is drawn in runs."""
    return np.repeat(walk.get_colors(), [len(run) - 1 for run in walk.get_segments()], axis=0)


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_the_beginning_of_a_walk(n):
    (axis,) = plots.building(rooms(100, seed=0), np.zeros(100, dtype=int), n=n).axes
    assert sum(len(run) - 1 for run in axis.collections[1].get_segments()) == max(n - 1, 0)


def test_a_table_that_is_no_room_has_a_colour_of_its_own_even_where_there_are_only_hallways():
    house = rooms(10, seed=0)
    house = house._replace(rooms=np.zeros(10, dtype=int))
    colors = of_steps(plots.building(house, np.arange(10) // 6).axes[0].collections[1])
    assert len(np.unique(colors, axis=0)) == 2


def test_a_building_has_its_walls_landmarks_and_walk():
    house = rooms(300, n_rooms=3, seed=0)
    (axis,) = plots.building(house).axes
    walls, steps, landmarks = axis.collections
    assert len(walls.get_segments()) == len(house.walls)
    assert sum(len(run) - 1 for run in steps.get_segments()) == 299
    np.testing.assert_array_equal(landmarks.get_offsets(), house.landmarks)
    assert sorted(text.get_text() for text in axis.texts) == sorted(map(str, np.unique(house.rooms)))
    assert np.all(of_steps(steps)[house.rooms[1:] == 0] == to_rgba(plots.COLORS[1]))  # orange


def test_tables_of_a_building_have_the_colours_of_their_rooms():
    house = rooms(1500, n_rooms=3, seed=0)
    shuffled = (house.rooms + 2) % 4
    truth, found = (of_steps(plots.building(house, labels).axes[0].collections[1]) for labels in (None, shuffled))
    np.testing.assert_array_equal(truth, found)
    for label in (9, -1):
        split = np.where(np.arange(1500) == 700, label, house.rooms)
        odd = of_steps(plots.building(house, split).axes[0].collections[1])[699].tolist()
        assert odd not in truth.tolist()
        assert (odd[:3] == list(plots.NEW_TABLE_COLOR)) == (label == -1)
    beginning = of_steps(plots.building(house, shuffled, n=200).axes[0].collections[1])
    np.testing.assert_array_equal(beginning, found[:199])
    left, right = plots.buildings(house, shuffled).axes
    assert len(left.collections) == len(right.collections) == 3


def test_a_building_refuses_labels_of_another_walk():
    with pytest.raises(ValueError, match="one integer ≥ -1 for each of 100 observations"):
        plots.building(rooms(100, seed=0), np.zeros(99, dtype=int))


def terms(axis):
    """Return the lengths of the bars of a panel from the highest, and the numbers beside them."""
    return [bar.get_width() for bar in axis.patches], [text.get_text() for text in axis.texts]


def test_an_explanation_has_a_bar_for_each_term_and_a_panel_for_each_rival():
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.1], [9.0, 0.2], [0.2, 0.0]])
    found = model.explain([6.0, 0.0])
    figure = plots.explain(found)
    assert [axis.get_title() for axis in figure.axes] == ["against table 0", "against a new table"]
    for axis, odds in zip(figure.axes, (found.against_runner_up, found.against_new), strict=True):
        widths, numbers = terms(axis)
        np.testing.assert_allclose(widths, [odds.prior, *odds.features, odds.total])
        assert numbers == [f"{round(width, 2) + 0.0:+.2f}" for width in widths]
        assert [bool(bar.get_hatch()) for bar in axis.patches] == [width < 0 for width in widths]
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert labels == ["prior weight", "x0 = 6", "x1 = 0", "total"]
    top, bottom = (figure.axes[0].transData.transform((0.0, at))[1] for at in (0, 3))
    assert top > bottom
    assert figure.get_suptitle() == "why table 1"


def test_an_explanation_of_many_features_draws_the_rest_as_one():
    X = np.outer([0.0, 1.0, 0.0, 1.0], np.linspace(0.0, 4.0, 40))
    found = DynamicalMixture(Gaussian(0.1, 4.0)).fit(X).explain(X[1])
    for axis, odds in zip(plots.explain(found).axes, found.odds, strict=True):
        widths, _ = terms(axis)
        assert len(widths) == 1 + 15 + 1 + 1
        np.testing.assert_allclose(np.sum(widths[:-1]), odds.total)
        np.testing.assert_allclose(widths[-1], odds.total)
        assert widths[-2] == pytest.approx(np.sum(odds.features[found.ranked()[1]]))


@pytest.mark.parametrize("x", [0.5, 60.0])
def test_nothing_of_an_explanation_is_cut_off(x):
    model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0]])
    found = model.explain([x])._replace(names=("a name that goes on and on and will not end before the figure does",))
    figure = plots.explain(found)
    FigureCanvasAgg(figure).draw()
    (axis,) = figure.axes
    for text in (*axis.texts, *axis.get_yticklabels(), axis.title):
        box, room = text.get_window_extent(), (axis if text in axis.texts else figure).get_window_extent()
        assert room.x0 <= box.x0 < box.x1 <= room.x1


def test_what_cannot_be_explained_is_not_drawn():
    with pytest.raises(ValueError, match=r"what explain\(\) returns, got ndarray"):
        plots.explain(np.zeros(3))
    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(1.0)).fit([[0.0]], times=[0.0])
    with pytest.raises(ValueError, match="nothing to draw: a new table: no other table has any weight"):
        plots.explain(model.explain([0.0], t=1e6))


def test_topics_have_a_line_each_with_their_words_in_order_of_time():
    tables = np.array([4] * 5 + [0] * 3 + [2] * 7 + [9])
    words = {0: "storm (lift 3), coast (2)", 2: "vote (lift 4), poll (3), seat (3), tax (1)", 4: ""}
    figure = plots.topics(np.arange(16.0), tables, words, most=3, name="hour")
    (axis,) = figure.axes
    assert [tick.get_text() for tick in axis.get_yticklabels()] == [
        "table 4",
        "storm, coast",
        "vote, poll, seat",
        "1 other table",
    ]
    areas = [np.sum(patch.get_data().values - patch.get_data().baseline) for patch in axis.patches]
    np.testing.assert_allclose(np.array(areas) / areas[3], [5, 3, 7, 1])
    assert axis.get_xlabel() == "hour; the tallest bar has 1 row"
    dated = plots.topics(np.datetime64("2024-01-01") + np.arange(3), [0, 0, 1], {})
    assert [tick.get_text() for tick in dated.axes[0].get_yticklabels()] == ["table 0", "table 1"]
    assert dated.axes[0].get_xlabel() == "time (UTC); the tallest bar has 1 row"
    dated.savefig(io.BytesIO())
    assert len(plots.topics([3.0], [0], {}).axes) == 1
    with pytest.raises(ValueError, match="no rows"):
        plots.topics([], np.zeros(0, dtype=int), {})

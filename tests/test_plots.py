"""Figures hold what they should; whether they are beautiful, somebody has to look."""

import numpy as np

from dyncrp import Exponential, plots


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


def test_one_feature_without_truth():
    figure = plots.stream(np.zeros((3, 1)), [0, 1, 0], Exponential(2.0), times=[0.0, 0.5, 9.0])
    assert len(figure.axes) == 3


def test_the_first_24_tables_look_different():
    assert len({plots.table_style(table) for table in range(24)}) == 24

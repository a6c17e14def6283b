"""Figures are pyplot's too: saved by it, shown once in a notebook, and not piled up."""

import io
import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dyncrp import DynamicalMixture, Exponential, Gaussian, plots
from dyncrp.datasets import rooms
from dyncrp.plots.figures import MOST_OPEN, show_once


@pytest.fixture(autouse=True)
def no_figures():
    plt.close("all")
    yield
    plt.close("all")


def model():
    return DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0, 1.0], [5.0, 1.0], [50.0, 2.0], [52.0, 1.5]])


def timeline():
    return plots.timeline(np.arange(4.0), [0, 1, 0, 1], np.ones(4))


def pixels(save):
    image = io.BytesIO()
    save(image, format="png")
    image.seek(0)
    return plt.imread(image)


@pytest.mark.parametrize(
    "draw",
    [
        timeline,
        lambda: plots.topics(np.arange(4.0), [0, 1, 0, 1], {0: "a", 1: "b"}),
        lambda: plots.stream(np.zeros((3, 1)), [0, 1, 0], Exponential(2.0)),
        lambda: plots.tree(model()),
        lambda: plots.explain(model().explain([6.0, 0.0])),
        lambda: plots.building(rooms(3, seed=0)),
    ],
    ids=["timeline", "topics", "stream", "tree", "explain", "building"],
)
def test_pyplot_saves_what_was_drawn_last(draw):
    plt.figure()  # an empty one, which is not the current one any more
    figure = draw()
    assert plt.gcf() is figure
    saved = pixels(plt.savefig)
    assert np.min(saved) < 0.5  # not blank
    np.testing.assert_array_equal(saved, pixels(figure.savefig))


def test_a_loop_over_figures_does_not_pile_them_up():
    drawn = [timeline() for _ in range(3 * MOST_OPEN)]  # pyplot would warn from 20 on
    assert len(plt.get_fignums()) == MOST_OPEN
    assert plt.gcf() is drawn[-1]
    assert np.min(pixels(drawn[0].savefig)) < 0.5  # those that pyplot forgot can be saved too


def test_invalid_input_leaves_no_empty_figure():
    with pytest.raises(ValueError, match="labels"):
        plots.building(rooms(3, seed=0), [0])
    assert plt.get_fignums() == []


def test_a_notebook_shows_the_figure_of_a_cell_once(monkeypatch):
    figure, other = timeline(), timeline()
    with pytest.raises(NotImplementedError):
        show_once(figure)  # not a notebook
    monkeypatch.setattr(plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    assert figure._ipython_display_() is None  # left to pyplot, which shows it after the cell
    assert plt.gcf() is other
    plt.close(figure)
    with pytest.raises(NotImplementedError):  # a later cell shows it as any figure
        figure._ipython_display_()


def test_without_a_display_a_backend_with_windows_is_not_needed(monkeypatch):
    def refuse(**options):
        raise ImportError("Cannot load backend 'TkAgg' which requires the 'tk' interactive framework")

    monkeypatch.setattr(plt, "figure", refuse)
    assert np.min(pixels(timeline().savefig)) < 0.5


def test_figures_can_be_pickled():
    again = pickle.loads(pickle.dumps(timeline()))
    assert len(again.axes) == 2

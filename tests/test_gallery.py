"""Every example of the gallery runs as it stands, draws a figure, and warns of nothing."""

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

FOLDER = Path(__file__).parents[1] / "examples"
# Recipes have tests of their own.
EXAMPLES = sorted(path for path in FOLDER.rglob("plot_*.py") if path.parent.name != "recipes")


def test_there_are_a_dozen():
    assert len(EXAMPLES) >= 12


@pytest.fixture
def shown(monkeypatch):
    """Return a list that ``plt.show()`` fills with the figures that are open when it is called."""
    mpl.use("Agg")
    from matplotlib import pyplot

    figures = []
    monkeypatch.setattr(pyplot, "show", lambda: figures.extend(map(pyplot.figure, pyplot.get_fignums())))
    yield figures
    pyplot.close("all")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_draws(path, shown):
    # Warnings are errors in all tests, so that an example that warns fails.
    runpy.run_path(str(path), run_name="__main__")
    assert shown
    for figure in shown:
        figure.canvas.draw()
        assert any(axes.has_data() for axes in figure.axes)

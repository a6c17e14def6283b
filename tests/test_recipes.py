"""Every recipe runs as it stands, warns of nothing, shows a figure, and its numbers say what its text says.

``make docs`` runs them too, and draws the figures.
"""

import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "recipes"


def run(name):
    return runpy.run_path(str(FOLDER / f"plot_{name}.py"), run_name="__main__")


@pytest.fixture
def tables(monkeypatch, capsys):
    """Return a function that runs a recipe and returns the lines of its tables: cells by the first of them."""
    mpl.use("Agg")
    from matplotlib import pyplot

    figures = []
    monkeypatch.setattr(pyplot, "show", lambda: figures.extend(map(pyplot.figure, pyplot.get_fignums())))

    def tables(name):
        run(name)
        assert figures
        assert all(any(axes.has_data() for axes in figure.axes) for figure in figures)
        lines = [re.split(r"\s{2,}", line) for line in capsys.readouterr().out.splitlines()]
        return {first: cells for first, *cells in lines}

    yield tables
    pyplot.close("all")


def column(rows, names, index=0):
    return [float(rows[name][index]) for name in names]


@pytest.mark.slow
def test_pipeline(tables):
    rows = tables("pipeline")
    frozen, *others = column(
        rows,
        [
            "with a scaler and PCA, frozen",
            "logarithm only",
            "a scaler that keeps learning",
            "with IncrementalPCA",
            "MiniBatchKMeans(12), PCA frozen",
        ],
    )
    assert frozen > 0.9
    assert max(others) < frozen - 0.03


@pytest.mark.slow
def test_replace(tables):
    rows = tables("replace")
    river, ours, *others = column(rows, ["dyncrp.river", "dyncrp", "DBSTREAM", "MiniBatchKMeans"])
    assert min(river, ours) > 0.97
    assert max(others) < 0.95


@pytest.mark.slow
def test_duplicates(tables):
    rows = tables("duplicates")
    names = ["dyncrp, 1,000 tables", "brute force, all rows", "brute force, latest 1,000"]
    assert min(column(rows, names)) > 0.97
    ours, everything, latest = column(rows, names, 1)
    assert latest + 0.03 < ours < everything


@pytest.mark.slow
def test_threshold(tables):
    rows = tables("threshold")
    ours = rows["dyncrp"]
    (best,) = (cells for name, cells in rows.items() if name.endswith("the best here"))
    (elsewhere,) = (cells for name, cells in rows.items() if name.endswith("the best elsewhere"))
    assert float(ours[0]) > float(best[0]) > float(elsewhere[0]) + 0.03
    assert int(ours[2]) < int(best[2]) < int(elsewhere[2])
    assert "['alarm'] p = 0.0000" in rows


@pytest.mark.slow
def test_sensor_alarms(tables):
    rows = tables("sensor_alarms")
    (rate,) = column(rows, ["dyncrp"])
    assert 0.5 < rate < 2.0
    assert rows["dyncrp"][1] == "12 of 12"
    assert int(rows["dyncrp"][2]) >= 10  # at their first row
    assert "100% of the rows: blocked filter" in rows


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("bertopic"), reason="bertopic is not installed")
@pytest.mark.filterwarnings("default")  # of bertopic's own
def test_bertopic(tables):
    rows = tables("bertopic")
    ours, *others = column(
        rows,
        [
            "DynamicalMixture, tuned without labels",
            "MiniBatchKMeans(8)",
            "MiniBatchKMeans(8), IncrementalPCA(5)",
            next(name for name in rows if name.startswith("DBSTREAM")),
        ],
    )
    assert ours > 0.95
    assert max(others) < 0.8


def test_bertopic_is_asked_for_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "bertopic", None)
    with pytest.raises(SystemExit, match="This recipe needs BERTopic: pip install --no-deps bertopic"):
        run("bertopic")

"""The benchmarks run at toy size. Nothing here looks at a clock."""

import json

import pytest

pytest.importorskip("rich")

from benchmarks import chart, data, growth, report, speed, systems, variants
from benchmarks.peers import measure_size
from benchmarks.settings import TOY


def test_every_section_has_a_name():
    assert list(speed.sections()) == list(speed.SECTIONS)


def test_centres_lie_apart():
    stream = data.gaussian(10, 2, 5000, 100)
    assert stream.pool.shape == (5000, 2)
    assert set(stream.truth) == set(range(10))
    means = data.centers(10, 2, data.np.random.default_rng(0))
    gaps = ((means[:, None] - means) ** 2).sum(axis=2) ** 0.5 + 100 * data.np.eye(10)
    assert gaps.min() >= data.APART


def test_peers_at_toy_size(tmp_path, monkeypatch):
    monkeypatch.setattr(systems, "has_river", lambda: False)
    monkeypatch.setattr("benchmarks.peers.SQUARE", 20)
    rows = measure_size(4, 2, TOY)
    assert [row["system"] for row in rows[:2]] == ["dyncrp, batch 1024", "dyncrp, one call"]
    assert all(row["rate"] > 0 for row in rows)
    assert rows[0]["clusters"] == 4
    assert rows[0]["ami"] == pytest.approx(1.0, abs=0.05)
    assert report.table("toy", rows).row_count == len(rows)
    report.write(tmp_path / "speed.json", {"peers": {"K = 4, D = 2": rows}}, quick=True)
    saved = json.loads((tmp_path / "speed.json").read_text())
    pytest.importorskip("matplotlib")
    chart.draw(saved["sections"]["peers"], tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 1000


def test_river_learns_and_labels():
    pytest.importorskip("river")
    rows = systems.as_dicts(data.gaussian(4, 2, 1200, 0).pool)
    for system in systems.rivers(4, 2):
        system.learn(rows)
        assert len(system.label(rows[:2])) == 2
        assert system.count() > 0, system.name  # DenStream counts only once it was asked to label


def test_growth_and_variants_at_toy_size():
    (_, rows), *_ = growth.with_observations(TOY)
    assert rows[-1]["relative"] == 1.0
    (_, rows), *_ = growth.with_tables(TOY)
    assert [row["clusters"] for row in rows] == list(TOY.table_counts)
    (_, rows), *_ = variants.dynamics(TOY)
    assert [row["system"] for row in rows] == ["Exponential", "Hyperbolic"]

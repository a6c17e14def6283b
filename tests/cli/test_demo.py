"""``dyncrp demo`` as a user meets it."""

import pytest
from typer.testing import CliRunner

from dyncrp.cli.app import app
from dyncrp.jobs import demo as job

runner = CliRunner()


@pytest.mark.slow
def test_demo_prints_every_model_and_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(job, "OTHER_SEEDS", range(3))
    figure = tmp_path / "demo.png"
    done = runner.invoke(app, ["demo", "--n", "60", "--seed", "1", "--figure", str(figure)])
    assert done.exit_code == 0, done.output
    for word in (*job.SYSTEMS, "nothing", "AMI", "60 observations"):
        assert word in done.output
    assert done.output.count("±") == len(job.SYSTEMS) + 1
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_demo_of_rooms_prints_three_models_and_draws(tmp_path):
    figure = tmp_path / "rooms.png"
    done = runner.invoke(app, ["demo", "--rooms", "--n", "400", "--seed", "1", "--figure", str(figure)])
    assert done.exit_code == 0, done.output
    for word in ("sticky", "exponential", "plain CRP", "places", "400 steps"):
        assert word in done.output
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("figure", ["missing/demo.png", "demo.txt"])
def test_demo_refuses_a_figure_it_cannot_write_before_working(tmp_path, figure):
    done = runner.invoke(app, ["demo", "--n", "60", "--figure", str(tmp_path / figure)])
    assert done.exit_code == 2
    assert "--figure" in done.output


def test_demo_refuses_a_folder_as_its_figure(tmp_path):
    (tmp_path / "folder.png").mkdir()
    done = runner.invoke(app, ["demo", "--n", "60", "--figure", str(tmp_path / "folder.png")])
    assert done.exit_code == 2
    assert "observations" not in done.output


@pytest.mark.parametrize("exists", [True, False])
def test_demo_refuses_a_figure_that_is_not_writable(tmp_path, monkeypatch, exists):
    figure = tmp_path / "demo.png"
    if exists:
        figure.touch()
    refused = str(figure if exists else tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != refused)
    done = runner.invoke(app, ["demo", "--n", "60", "--figure", str(figure)])
    assert done.exit_code == 2
    assert "observations" not in done.output

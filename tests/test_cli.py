"""The command line as a user meets it: output, files, exit codes."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import dyncrp
from dyncrp.cli import app

runner = CliRunner()


def test_demo_prints_both_models_and_draws(tmp_path):
    figure = tmp_path / "demo.png"
    done = runner.invoke(app, ["demo", "--n", "60", "--seed", "1", "--figure", str(figure)])
    assert done.exit_code == 0, done.output
    for word in ("right dynamics", "plain CRP", "AMI", "NMI", "60 observations"):
        assert word in done.output
    assert "Mean AMI over 20 streams" in " ".join(done.output.split())
    assert done.output.count("±") == 3
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


def test_version():
    done = subprocess.run([sys.executable, "-m", "dyncrp", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"dyncrp {dyncrp.__version__}"


def test_a_missing_extra_is_named():
    code = "import sys; sys.modules['typer'] = None; from dyncrp.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'dyncrp[cli]'" in done.stderr

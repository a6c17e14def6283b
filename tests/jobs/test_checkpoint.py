"""A checkpoint comes back as it was, says nothing in sentences, and is refused if something is missing."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dyncrp.cli.app import app
from dyncrp.io import model_file
from dyncrp.jobs.checkpoint import Checkpoint


@pytest.fixture
def state(tmp_path):
    """The checkpoint of a run over dates with a bad row in every third place."""
    source = tmp_path / "in.csv"
    rows = [f"2024-01-01T00:00:{i:02}Z,{'?' if i % 3 == 2 else i % 2 * 9}\n" for i in range(30)]
    source.write_text("when,x\n" + "".join(rows))
    known = ["--set", "variance=1", "--set", "prior_variance=50", "--alpha", "1", "--dynamics", "stationary()"]
    kept = ["--skip-bad", "--output", str(tmp_path / "out.csv"), "--checkpoint", str(tmp_path / "state")]
    command = ["run", str(source), "--time-column", "when", *known, *kept]
    assert CliRunner().invoke(app, command).exit_code == 0
    return tmp_path / "state", command


def test_a_checkpoint_comes_back_as_it_was(state):
    path, _ = state
    checkpoint = Checkpoint.read(str(path))
    assert (checkpoint.n_rows, checkpoint.n_bad, checkpoint.finished) == (20, 10, True)
    assert checkpoint.place["row"] == 30
    content = path.read_bytes()
    checkpoint.write(str(path))
    assert path.read_bytes() == content


def test_a_checkpoint_says_nothing_that_other_words_would_change(state):
    path, _ = state
    with np.load(path) as file:
        run = json.loads(file["header"].tobytes())["config"]["run"]
    assert run["place"]["times"] == "zoned dates"
    for name in ("input", "output", "output_path", "options"):  # are the user's
        del run[name]
    words = [text for text in texts(run) if len(text.split()) > 2]
    assert words == []


def texts(value):
    """Return every text in plain values."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) else [text for entry in inner for text in texts(entry)]


def test_the_summary_after_a_resumption_counts_all_bad_rows(state):
    path, command = state
    source = path.with_name("in.csv")
    done = CliRunner().invoke(app, [*command, "--resume"])
    assert "dyncrp: 10 bad rows skipped\n" in done.stderr
    with source.open("a") as file:
        file.write("2024-01-01T00:01:00Z,?\n")
    done = CliRunner().invoke(app, [*command, "--resume"])
    fault = "line 32, column 'x': '?' is not a number; --missing '?' takes it for nothing"
    assert f"dyncrp: 11 bad rows skipped: {fault}; and 10 more\n" in done.stderr


@pytest.mark.parametrize("missing", ["place", "n_rows", "timeline_counts"])
def test_a_checkpoint_in_which_something_is_missing_is_refused(state, missing):
    path, command = state
    config, arrays = model_file.loads(path.read_bytes())
    config["run"].pop(missing, None)
    arrays.pop(missing, None)
    path.write_bytes(model_file.dumps(config, arrays))
    with pytest.raises(ValueError, match="state is not a readable checkpoint"):
        Checkpoint.read(str(path))
    assert "is not a readable checkpoint" in CliRunner().invoke(app, [*command, "--resume"]).stderr

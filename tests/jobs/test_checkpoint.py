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
    rows = [f"2024-01-01T00:00:{i:02}Z,{'*' if i % 3 == 2 else i % 2 * 9}\n" for i in range(30)]
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
        file.write("2024-01-01T00:01:00Z,*\n")
    done = CliRunner().invoke(app, [*command, "--resume"])
    fault = "line 32, column 'x': '*' is not a number"
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


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("options",), 1.5),
        (("counts",), 3),
        (("counts",), {"alarm": {"a": 1}}),
        (("counts",), {"alarm": -1}),
        (("place", "row"), 1),
        (("n_rows",), 10**6),
        (("events",), {"path": "e.jsonl", "length": 0, "tail": ""}),
        (("length",), -1),
        (("length",), 2**70),
        (("n_rows",), True),
        (("fingerprint",), [1]),
        (("events",), {"length": "3"}),
        (("place", "offset"), 3.5),
        (("place", "tail"), ["3", 3]),
        (("place", "last"), "now"),
        (("place", "findings"), True),
    ],
)
def test_a_checkpoint_that_was_made_by_hand_is_refused_in_words(state, path, value):
    file, command = state
    config, arrays = model_file.loads(file.read_bytes())
    *inner, last = path
    owner = config["run"]
    for key in inner:
        owner = owner[key]
    owner[last] = value
    file.write_bytes(model_file.dumps(config, arrays))
    done = CliRunner().invoke(app, [*command, "--resume"])
    assert (done.exit_code, "is not a readable checkpoint" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["timeline_tables", "timeline_times", "timeline_counts"])
def test_a_checkpoint_with_another_timeline_is_refused(state, name):
    file, _ = state
    config, arrays = model_file.loads(file.read_bytes())
    for wrong in (arrays[name].astype(complex), arrays[name][:-1], arrays[name][None]):
        file.write_bytes(model_file.dumps(config, arrays | {name: wrong}))
        with pytest.raises(ValueError, match="its timeline is damaged"):
            Checkpoint.read(str(file))


def test_a_place_without_what_reading_on_needs_is_refused(state):
    file, command = state
    config, arrays = model_file.loads(file.read_bytes())
    del config["run"]["place"]["tail"]
    file.write_bytes(model_file.dumps(config, arrays))
    assert "the place to continue from is damaged" in CliRunner().invoke(app, [*command, "--resume"]).stderr


@pytest.mark.parametrize(
    ("findings", "message"),
    [
        ({"formats": 3}, "the earlier findings are damaged"),
        ({"columns": ["z"]}, "no column 'z'"),
        ({"delimiter": 3}, "its delimiter cannot be 3"),
    ],
)
def test_findings_that_do_not_fit_the_input_are_refused(state, findings, message):
    file, command = state
    config, arrays = model_file.loads(file.read_bytes())
    config["run"]["place"]["findings"] |= findings
    file.write_bytes(model_file.dumps(config, arrays))
    done = CliRunner().invoke(app, [*command, "--resume"])
    assert (done.exit_code, message in done.stderr) == (1, True)


def test_a_run_is_not_resumed_if_a_column_has_another_name(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("x,y\n" + "1,red\n3,blue\n2,red\n5.5,blue\n" * 10)
    kept = ["--output", str(tmp_path / "out.csv"), "--checkpoint", str(tmp_path / "state"), "--set", "warmup=20"]
    assert CliRunner().invoke(app, ["run", str(source), *kept]).exit_code == 0
    source.write_text(source.read_text().replace("x,y", "x,z"))
    done = CliRunner().invoke(app, ["run", str(source), *kept, "--resume"])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        1,
        f"dyncrp: {source} is not the same as before: it has no column 'y'",
    )

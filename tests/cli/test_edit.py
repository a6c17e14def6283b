"""``dyncrp merge`` and ``dyncrp rename``: the file says what the model says, or is as it was."""

import json
from contextlib import contextmanager

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from dyncrp import DynamicalMixture, Gaussian
from dyncrp.cli.app import app
from dyncrp.io.growing import GrowingFile
from dyncrp.jobs import edit
from dyncrp.jobs.checkpoint import Checkpoint

KNOWN = ["--set", "variance=1", "--set", "prior_variance=100", "--alpha", "1", "--dynamics", "stationary()"]
X = np.array([[0.0], [20.0], [10.0], [30.0], [0.1], [10.1]])


def invoke(*arguments, code=0):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.npz"
    DynamicalMixture(Gaussian(1.0, 100.0)).fit(X).save(path)
    return path


def test_tables_are_merged_in_the_file(saved, tmp_path):
    wanted = DynamicalMixture.load(saved)
    wanted.merge(2, 0)
    wanted.merge(0, 3)
    content = saved.read_bytes()
    said = "tables 2, 0 and 3 are table 0 from now on, with 5 rows\n"
    assert invoke("merge", saved, "2", "0", "3", "--output", tmp_path / "other.npz").stdout == said
    assert saved.read_bytes() == content
    assert invoke("merge", saved, "2", "0", "3").stdout == said
    assert saved.read_bytes() == (tmp_path / "other.npz").read_bytes() == wanted.to_bytes()
    assert "merged:         2 into 0, 3 into 0\n" in invoke("info", saved).stdout
    assert json.loads(invoke("info", saved, "--json").stdout)["merged"] == {"2": 0, "3": 0}


def test_tables_are_renamed_in_the_file(saved):
    assert invoke("rename", saved, "1", " door 3 ").stdout == "table 1 is called 'door 3' from now on\n"
    assert DynamicalMixture.load(saved).names_ == {1: "door 3"}
    said = "table 1 is called 'hall' from now on; it was called 'door 3'\n"
    assert invoke("rename", saved, "door 3", "hall").stdout == said
    assert invoke("merge", saved, "2", "hall").stdout == "tables 2 and 1 are table 1, 'hall' from now on, with 3 rows\n"
    assert "names:          1 'hall'\n" in invoke("info", saved).stdout
    table = invoke("summary", saved, "--tables").stdout.splitlines()
    assert table[1].startswith("table  called  rows")
    assert table[2].split()[:3] == ["1", "hall", "3"]
    assert invoke("rename", saved, "2", "").stdout == "table 1 has no name from now on; it was called 'hall'\n"
    assert "names" not in invoke("info", saved).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["merge", "FILE", "0", "9"], 1, "FILE: a table must be an id below 4 or a name, got 9"),
        (["merge", "FILE", "0", "hall"], 1, "FILE: no table is called 'hall'; the names are none"),
        (["merge", "FILE", "0", "0"], 1, "FILE: 0 and 0 are the same table already, 0"),
        (["merge", "FILE", "0", "1", "1"], 1, "FILE: 0 and 1 are the same table already, 0"),
        (["merge", "FILE", "0"], 2, "merge needs at least two tables, got 1 table"),
        (["rename", "FILE", "0", "7"], 1, "FILE: a name must be a text of at most 200 characters"),
        (["rename", "FILE", "7", "hall"], 1, "FILE: a table must be an id below 4 or a name, got 7"),
        (["rename", "none.npz", "0", "hall"], 1, "none.npz: No such file or directory"),
        (["rename", "FILE", "0", "hall", "-o", "/dev/null"], 2, "--output needs a regular file"),
    ],
)
def test_what_cannot_be_done_changes_nothing(saved, arguments, code, message):
    content = saved.read_bytes()
    done = invoke(*(str(saved) if text == "FILE" else text for text in arguments), code=code)
    assert done.stderr.startswith("dyncrp: " + message.replace("FILE", str(saved)))
    assert done.stderr.count("\n") == 1
    assert saved.read_bytes() == content


@pytest.fixture
def state(tmp_path):
    """Return a function that labels the first rows, or all of them, with a checkpoint."""

    def label(rows, suffix="csv", *more, **given):
        (tmp_path / "in.csv").write_text("x\n" + "".join(f"{x}\n" for x in rows))
        kept = ["--checkpoint", tmp_path / "state", "--resume", "--events", tmp_path / "e.jsonl", "--names"]
        more = more if "--clusters" in more else (*more, "--clusters", "none")
        return invoke("run", tmp_path / "in.csv", *KNOWN, "-o", tmp_path / f"out.{suffix}", *kept, *more, **given)

    return label


def test_a_run_goes_on_with_what_its_checkpoint_was_told(state, tmp_path):
    rows = X.ravel().tolist()
    state(rows)
    before = (tmp_path / "out.csv").read_text()
    invoke("merge", tmp_path / "state", "0", "2")
    invoke("rename", tmp_path / "state", "0", "hall")
    assert (tmp_path / "out.csv").read_text() == before
    state([*rows, 5.0, 30.1])
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert "\n".join(lines[:7]) + "\n" == before  # what is written keeps its ids
    assert [line.split(",")[:3] for line in lines[7:]] == [["6", "0", "hall"], ["7", "3", ""]]
    events = list(map(json.loads, (tmp_path / "e.jsonl").read_text().splitlines()))
    by_hand = [(e["kind"], e["row"], e["table"], e["name"], e["what"]) for e in events if e["kind"] != "opened"]
    assert by_hand == [
        ("merged", 5, 0, None, {"merged": 2, "far_apart": True}),
        ("renamed", 5, 0, "hall", {"before": None}),
    ]


def test_clusters_and_timelines_follow_a_merge(state, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("dyncrp.plots.report", lambda _, times, tables, *rest, **more: drawn.append(tables) or Figure())
    rows = X.ravel().tolist()
    state(rows, "parquet", "--clusters", "3")
    invoke("merge", tmp_path / "state", "0", "2")
    state([*rows, 30.1], "parquet", "--clusters", "3", "--plot", tmp_path / "line.png")
    found = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert found["table"] == [0, 1, 2, 3, 0, 2, 3]
    assert found["cluster"] == [0, 1, 0, 3, 0, 0, 3]
    np.testing.assert_array_equal(drawn[0], [0, 1, 0, 3, 0, 0, 3])


class Figure:
    def savefig(self, *_, **__):
        pass


def test_a_copy_of_a_checkpoint_leaves_the_run_alone(state, tmp_path):
    state(X.ravel().tolist())
    names = ("state", "e.jsonl", "out.csv")
    before = [(tmp_path / name).read_bytes() for name in names]
    invoke("merge", tmp_path / "state", "0", "2", "-o", tmp_path / "copy")
    assert [(tmp_path / name).read_bytes() for name in names] == before
    assert Checkpoint.read(str(tmp_path / "copy")).stream.engine.n_tables == 3


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_run_under_way_is_not_changed_behind_its_back(state, tmp_path, suffix):
    state(X.ravel().tolist(), suffix)
    content = (tmp_path / "state").read_bytes()
    writing = GrowingFile(str(tmp_path / f"out.{suffix}") + ".part" * (suffix == "parquet"))
    writing.start()
    try:
        text = invoke("merge", tmp_path / "state", "0", "2", code=1).stderr
        assert text == f"dyncrp: {writing.path} is being written by another run\n"
    finally:
        writing.close()
    assert (tmp_path / "state").read_bytes() == content


def test_a_checkpoint_without_rows_has_no_tables(state, tmp_path):
    state([])
    assert "there are no tables yet" in invoke("merge", tmp_path / "state", "0", "1", code=1).stderr


def test_a_run_that_went_on_while_its_file_was_waited_for(tmp_path, monkeypatch):
    np.savetxt(tmp_path / "in.csv", X, delimiter=",", header="x", comments="")
    run = ["run", tmp_path / "in.csv", "--output", tmp_path / "out.csv", "--checkpoint", tmp_path / "check", *KNOWN]
    invoke(*run)
    content = (tmp_path / "check").read_bytes()
    np.savetxt(tmp_path / "in.csv", np.append(X, [[50.0]], axis=0), delimiter=",", header="x", comments="")
    invoke(*run, "--resume")
    later = (tmp_path / "check").read_bytes()
    (tmp_path / "check").write_bytes(content)

    @contextmanager
    def held(*paths):
        (tmp_path / "check").write_bytes(later)  # by a run that ends just before the lock is free
        yield

    monkeypatch.setattr(edit, "held", held)
    invoke("rename", tmp_path / "check", "0", "a")
    assert Checkpoint.read(str(tmp_path / "check")).n_rows == len(X) + 1

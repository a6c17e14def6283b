"""Every command that a message of a run proposes works when it is typed."""

import re
import shlex
import signal
import sys

import pytest
from typer.testing import CliRunner

from dyncrp.cli.app import app
from dyncrp.jobs.run import Run

KNOWN = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=100", "--alpha", "1"]
KNOWN += ["--dynamics", "stationary()"]


@pytest.fixture
def typed(monkeypatch, tmp_path):
    """Return a function that types a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(command, code=0):
        arguments = shlex.split(command) if isinstance(command, str) else ["dyncrp", "run", *command]
        monkeypatch.setattr(sys, "argv", arguments)
        done = CliRunner().invoke(app, arguments[1:])
        assert done.exit_code == code, done.output
        return done.stderr

    return run


def rows(n, *names):
    return ",".join(names) + "\n" + "".join(f"{i % 3 * 9},{i % 2}\n" for i in range(n))


def command_in(text):
    return re.search(r"resume with: (.*)", text).group(1)


@pytest.mark.parametrize("output", [[], ["-o", "my labels.csv"], ["-o", "out.parquet"]])
def test_a_run_that_was_stopped_says_how_to_resume_it(typed, tmp_path, monkeypatch, output):
    (tmp_path / "in.csv").write_text(rows(60, "x", "a b"))
    first = ["in.csv", *KNOWN, "--columns", "x,a b", "--checkpoint", "it's here", "--every", "20", *output]
    label = Run._label

    def stopped(self, chunks):
        label(self, chunks)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_label", stopped)
        told = typed(first, code=130)
    again = typed(first, code=2)  # the same command once more: the checkpoint comes before --force
    assert "it's here is the checkpoint of a run that has not finished, after row 19: add --resume" in again
    assert command_in(again) == command_in(told)
    text = typed(command_in(told))
    assert "after row 19" in text
    assert "41 rows in" in text
    name = output[-1] if output else "in.clusters.csv"
    done = (tmp_path / name).read_bytes()
    typed([*first, "--force"])
    assert (tmp_path / name).read_bytes() == done
    finished = typed(first, code=2)
    assert "of a run that has finished, after row 60" in finished
    assert "0 rows in" in typed(command_in(finished))


def test_a_file_in_the_place_of_a_checkpoint_is_not_called_one(typed, tmp_path):
    (tmp_path / "in.csv").write_text(rows(9, "x", "y"))
    (tmp_path / "state").write_text("mine")
    text = typed(["in.csv", *KNOWN, "--checkpoint", "state"], code=2)
    assert text == "dyncrp: state exists, and is not a checkpoint: use --force to replace it\n"
    assert (tmp_path / "state").read_text() == "mine"
    typed(["in.csv", *KNOWN, "--checkpoint", "state", "--force"])


@pytest.mark.parametrize("name", ["y", "a b", "Income, yearly", 'the "y"', "it's", "-y", "#1", "x*"])
def test_the_options_for_a_missing_cell_work(typed, tmp_path, name):
    quoted = '"' + name.replace('"', '""') + '"'
    (tmp_path / "in.csv").write_text(f"x,z,{quoted}\n" + "0.6,0.8,0\n0.8,0.6,0\n0.6,0.8,\n")
    sphere = ["--family", "von_mises_fisher", "--set", "concentration=20", "--alpha", "1", "--dynamics", "stationary()"]
    told = typed(["in.csv", *sphere], code=1)
    (excluded,) = re.findall(r"(--exclude .*) leaves the column out", told)
    assert "features: x, z\n" in typed(f"dyncrp run in.csv {shlex.join(sphere)} {excluded}")
    assert "--skip-bad skips such rows" in told
    assert "1 bad row skipped" in typed(["in.csv", *sphere, "--skip-bad"])


def test_columns_are_selected_as_the_message_says(typed, tmp_path):
    (tmp_path / "in.csv").write_text(rows(9, "x", "y"))
    (tmp_path / "other.csv").write_text(rows(9, "y", "x"))
    typed(["in.csv", *KNOWN, "--save", "model.npz"])
    told = typed(["other.csv", "--model", "model.npz"], code=2)
    assert "the features x, y, but those of other.csv are y, x: select them with --columns, in the same order" in told
    typed(["other.csv", "--model", "model.npz", "--columns", "x,y"])


def test_an_output_that_exists_is_replaced_by_force(typed, tmp_path):
    (tmp_path / "in.csv").write_text(rows(9, "x", "y"))
    (tmp_path / "in.clusters.csv").write_text("mine\n")
    assert "in.clusters.csv exists: use --force to replace it" in typed(["in.csv", *KNOWN], code=2)
    typed(["in.csv", *KNOWN, "--force"])
    assert "--clusters, as in --clusters 3" in typed(["in.csv", *KNOWN, "--groups", "3"], code=2)
    typed(["in.csv", *KNOWN, "--clusters", "3"])


def test_a_run_that_fails_leaves_no_file(typed, tmp_path):
    (tmp_path / "one.csv").write_text("a,b\n1,2\n")
    assert "1 sample is too few" in typed(["one.csv"], code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]


def test_a_file_without_rows_has_no_clusters(typed, tmp_path):
    (tmp_path / "head.csv").write_text("a,b\n")
    said = typed(["head.csv"])
    assert said.endswith("head.csv has no rows, so there are no clusters\n")
    assert "are in" not in said


def test_a_link_is_not_replaced(typed, tmp_path):
    (tmp_path / "in.csv").write_text(rows(60, "a", "b"))
    typed(["in.csv", *KNOWN])
    typed(["in.csv", *KNOWN])  # what an earlier run wrote is replaced
    (tmp_path / "in.clusters.csv").rename(tmp_path / "mine.csv")
    (tmp_path / "in.clusters.csv").symlink_to("mine.csv")
    assert "in.clusters.csv exists: use --force" in typed(["in.csv", *KNOWN], code=2)


def test_columns_that_the_output_has_are_all_named(typed, tmp_path):
    (tmp_path / "in.csv").write_text("cluster,row,x\n" + "1,2,3\n" * 20)
    said = typed(["in.csv", "--keep", "all", *KNOWN], code=1)
    assert "has 'cluster' and 'row' among its columns" in said
    assert "--clusters none" not in said


def test_a_device_needs_no_format(typed, tmp_path):
    (tmp_path / "in.csv").write_text(rows(60, "a", "b"))
    typed(["in.csv", *KNOWN, "-o", "/dev/null"])


SAID = ["the door does not close any more", "it is far too loud in here", "my order has not come yet again"]


def test_a_column_of_sentences_is_suggested_as_text(typed, tmp_path):
    lines = [f"{i % 5},{SAID[i % 3]} {i}" for i in range(60)]
    (tmp_path / "in.csv").write_text("\n".join(["stars,my review", *lines]))
    told = typed(["in.csv"])
    assert "features: stars" in told
    option = re.search(r"to cluster the sentences by their words: (.*)", told).group(1)
    assert "features: my review" in typed(f"dyncrp run in.csv {option} --force")


def test_the_only_column_is_clustered_by_its_words_if_it_holds_sentences(typed, tmp_path):
    (tmp_path / "in.csv").write_text("\n".join(["id,my review", *(f"v{i},{SAID[i % 3]} {i}" for i in range(60))]))
    told = typed(["in.csv", "--checkpoint", "here", "--exclude", "id"])
    option = re.search(r"my review is the only column to cluster, and holds sentences: (.*)", told).group(1)
    labels = (tmp_path / "in.clusters.csv").read_bytes()
    assert "left out: id (every row differs)" in typed("dyncrp run in.csv -o all.csv")
    assert (tmp_path / "all.csv").read_bytes() == labels
    assert typed(f"dyncrp run in.csv {option} -o other.csv")
    assert (tmp_path / "other.csv").read_bytes() == labels
    typed("dyncrp run in.csv --checkpoint here --exclude id --resume")
    assert (tmp_path / "in.clusters.csv").read_bytes() == labels


def test_a_pipe_of_sentences_is_refused_with_the_option(typed, tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_text("\n".join(["my review", *(f"{SAID[i % 3]} {i}" for i in range(60))]))
    with open(tmp_path / "in.csv", "rb") as file:
        done = CliRunner().invoke(app, ["run", "-", "--format", "csv"], input=file.read())
    assert done.exit_code == 1
    assert "--text 'my review' clusters the sentences by their words" in done.stderr


@pytest.mark.parametrize("others", [[], ["method"]])  # without words all columns hold plain numbers
def test_whole_numbers_that_are_named_as_codes_are_suggested_as_categories(typed, tmp_path, others):
    lines = [f"{i * 37 % 101},{(200, 301, 404, 500)[i * i % 7 % 4]},{i % 5},{i % 9}" for i in range(90)]
    names = ["ms,http status,rating,type", *others]
    lines = [line + ",get" * bool(others) if i % 2 else line + ",put" * bool(others) for i, line in enumerate(lines)]
    (tmp_path / "in.csv").write_text("\n".join([",".join(names), *lines]))
    told = typed(["in.csv"])
    assert "http status, type hold few whole numbers, which may be codes" in told
    option = re.search(r"may be codes: (--categorical .*) takes them for categories", told).group(1)
    told = typed(f"dyncrp run in.csv {option} --force")
    assert f"categories: http status, type{', method' * bool(others)}" in told
    assert "may be codes" not in told
    assert "may be codes" not in typed("dyncrp run in.csv --numeric 'http status,type' --force")
    assert "may be codes" not in typed(["in.csv", *KNOWN, "--force"])  # the family takes numbers


@pytest.mark.parametrize("case", [("rating", 1, 5), ("type", 0.5, 5), ("type", 1, 2), ("type", 1, 21)])
def test_other_numbers_are_not_suggested_as_categories(typed, tmp_path, case):
    name, step, n_values = case
    lines = [f"{i * 37 % 101},{i * i % 163 % n_values * step}" for i in range(200)]
    (tmp_path / "in.csv").write_text("\n".join([f"x,{name}", *lines]))
    assert "may be codes" not in typed(["in.csv"])

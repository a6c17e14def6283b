"""Runs end with the same bytes, however they are cut, stopped, killed or short of disk."""

import csv
import errno
import fcntl
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import dyncrp
from cases import PATIENCE
from dyncrp import DynamicalMixture
from dyncrp.cli.app import app
from dyncrp.io import files, growing
from dyncrp.io.writers import WRITERS
from dyncrp.jobs.checkpoint import Checkpoint
from dyncrp.jobs.run import Run
from dyncrp.jobs.stop import Stop, Stopped

runner = CliRunner()
KNOWN = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=100", "--alpha", "1"]
KNOWN += ["--dynamics", "exponential(50)"]
N = 300


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.csv"
    write(path, N)
    return path


def write(path, n):
    rng = np.random.default_rng(0)
    X = rng.normal(rng.choice([-9.0, 0.0, 9.0], size=(1000, 1)), 1.0, size=(1000, 2))[:n].tolist()
    path.write_text("t,x,y\n" + "".join(f"{t / 2},{x!r},{y!r}\n" for t, (x, y) in enumerate(X)))


def run(*arguments, code=0, **given):
    done = runner.invoke(app, ["run", *map(str, arguments)], **given)
    assert done.exit_code == code or code is None, done.output
    assert "Traceback" not in done.output
    return done


def label(path, output, *options, **given):
    return run(path, "--time-column", "t", "--output", output, *KNOWN, *options, **given)


def stopping_after(monkeypatch, n, number=signal.SIGTERM):
    """Have a signal come after the n-th chunk."""
    label_chunks, count = Run._label, []

    def stop(self, chunks):
        label_chunks(self, chunks)
        count.append(1)
        if len(count) == n:
            signal.raise_signal(number)

    monkeypatch.setattr(Run, "_label", stop)
    return lambda: monkeypatch.setattr(Run, "_label", label_chunks)


def test_the_output_says_what_the_model_does(source, tmp_path):
    label(source, tmp_path / "out.csv", "--save", tmp_path / "model.npz", "--quiet")
    table = np.genfromtxt(tmp_path / "out.csv", delimiter=",", names=True)
    data = np.genfromtxt(source, delimiter=",", skip_header=1)
    model = DynamicalMixture(dyncrp.Gaussian(1.0, 100.0), dyncrp.Exponential(50.0), 1.0).fit(
        data[:, 1:], times=data[:, 0]
    )
    np.testing.assert_array_equal(table["row"], range(N))
    np.testing.assert_array_equal(table["t"], data[:, 0])
    np.testing.assert_array_equal(table["table"], model.labels_)
    np.testing.assert_array_equal(table["novelty"], model.novelty_)
    np.testing.assert_array_equal(table["probability"], model.responsibilities_.toarray().max(axis=1))
    model.stream_.input = replace(model.stream_.input, names=("x", "y"))
    assert DynamicalMixture.load(tmp_path / "model.npz").to_bytes() == model.to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("blind", [False, True], ids=["all given", "some learned"])
def test_the_output_does_not_depend_on_cuts(source, tmp_path, suffix, blind, monkeypatch):
    options = ["--quiet", "--set", "warmup=100"]
    if blind:
        monkeypatch.setitem(
            globals(), "KNOWN", ["--family", "gaussian", "--set", "variance=1", "--dynamics", "stationary()"]
        )
    label(source, tmp_path / f"whole.{suffix}", *options)
    label(source, tmp_path / f"cut.{suffix}", *options, "--checkpoint", tmp_path / "state", "--every", "7")
    assert (tmp_path / f"cut.{suffix}").read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
    assert not (tmp_path / f"cut.{suffix}.part").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_signal_saves_and_says_how_to_resume(source, tmp_path, monkeypatch, number, suffix):
    label(source, tmp_path / f"whole.{suffix}")
    kept = ["--checkpoint", tmp_path / "state", "--every", "50"]
    again, handler = stopping_after(monkeypatch, 3, number), signal.getsignal(number)
    monkeypatch.setattr(sys, "argv", ["dyncrp", "run", "in.csv", "--columns", "a b"])
    done = label(source, tmp_path / f"out.{suffix}", *kept, code=128 + number)
    assert "stopped after 149 rows" in done.stderr
    assert "resume with: dyncrp run in.csv --columns 'a b' --resume" in done.stderr
    again()
    assert signal.getsignal(number) == handler
    done = label(source, tmp_path / f"out.{suffix}", *kept, "--resume")
    assert "after row 149" in done.stderr
    assert "151 rows in" in done.stderr
    assert (tmp_path / f"out.{suffix}").read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()


def read(path):
    """Return the columns of an output."""
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pydict()
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file)) if path.suffix == ".csv" else list(map(json.loads, file))
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


SUFFIXES = ["csv", "jsonl", "parquet"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_row_has_its_cluster_in_the_same_file(source, tmp_path, suffix):
    output = tmp_path / f"out.{suffix}"
    for asked in (["--clusters", "auto"], ["--clusters", "2"], ["--clusters", "AUTO"], []):
        done = label(source, output, *asked, "--save", tmp_path / "model.npz", "--force")
        found = DynamicalMixture.load(tmp_path / "model.npz").clusters(2 if "2" in asked else None)
        assert f"dyncrp: {len(found)} clusters, of {len(found.table_ids)} tables\n" in done.stderr
        rows = read(output)
        assert list(rows) == ["row", "t", "table", "probability", "novelty", "cluster"]
        np.testing.assert_array_equal(np.int64(rows["cluster"]), found.labels(np.int64(rows["table"])))
        assert f"the table and the cluster of each row are in {output}" in done.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "model.npz", output.name]
    plain = tmp_path / f"plain.{suffix}"
    done = label(source, plain, "--clusters", "none")
    assert "clusters, of" not in done.stderr
    assert f"the table of each row is in {plain}" in done.stderr
    assert read(plain) == {name: column for name, column in rows.items() if name != "cluster"}


def write_rooms(path):
    rows = [(30 * k, k % 2) for k in range(25) for _ in range(20 + k)]
    path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    known = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=90000", "--alpha", "1"]
    return [*known, "--dynamics", "stationary()"]


def test_a_run_ends_with_its_clusters(tmp_path, monkeypatch):
    source = tmp_path / "in.csv"
    known = write_rooms(source)
    monkeypatch.setenv("COLUMNS", "80")
    done = run(source, *known)
    lines = done.stderr.splitlines()
    at = lines.index("dyncrp: 25 clusters, of 25 tables")
    assert lines[at + 1 :][:2] == [
        "cluster  rows  share  first seen  last seen  typical",
        "     24    44    6 %         756        799  x 720 ↑, y 0 ↓",
    ]
    assert lines[at + 21 :][1:] == [
        "and 5 smaller clusters with 110 rows",
        f"dyncrp: the table and the cluster of each row are in {tmp_path / 'in.clusters.csv'}",
    ]
    assert done.stdout == ""
    assert run(source, *known, "--quiet").stderr == ""
    text = run(source, *known, "--clusters", "1").stderr
    assert "dyncrp: 1 cluster, of 25 tables\n" in text
    rng = np.random.default_rng(0)
    source.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in 9 * rng.random((400, 2))))
    assert re.search(r"dyncrp: 1 cluster, of \d+ tables: no clusters stand out\n", run(source, *known).stderr)
    source.write_text("x,y\n1,2\n")
    assert "dyncrp: 1 cluster, of 1 table\n" in run(source, *known).stderr


def test_without_an_output_labels_go_beside_the_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = write_rooms(tmp_path / "in.csv")
    content = (tmp_path / "in.csv").read_bytes()
    run("in.csv", *known)
    beside = tmp_path / "in.clusters.csv"
    wanted = beside.read_bytes()
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(content))
    run("in.csv.gz", *known)  # again: what an earlier run made is replaced
    assert beside.read_bytes() == wanted
    for options, name in ((["--output-format", "jsonl"], "in.clusters.jsonl"), (["--keep", "x"], beside.name)):
        for _ in range(2):
            run("in.csv", *known, *options)
        assert "cluster" in read(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "in.clusters.csv",
        "in.clusters.jsonl",
        "in.csv",
        "in.csv.gz",
    ]
    for mine in ("mine\n", "row,x\n1,2\n", ""):
        beside.write_text(mine)
        assert "in.clusters.csv exists: use --force to replace it" in run("in.csv", *known, code=2).stderr
        assert beside.read_text() == mine
    run("in.csv", *known, "--force")
    assert beside.read_bytes() == wanted
    named = run("in.csv", *known, "-o", "in.clusters.csv", code=2)  # who names a file means to keep it
    assert "in.clusters.csv exists: use --force" in named.stderr


def test_a_pipe_gets_rows_as_they_come_and_no_clusters(tmp_path, monkeypatch):
    known = write_rooms(tmp_path / "in.csv")
    content = (tmp_path / "in.csv").read_bytes()
    for arguments in ([tmp_path / "in.csv", "-o", "-"], ["-", "--format", "csv"], ["/dev/stdin", "--format", "csv"]):
        if arguments[0] == "/dev/stdin":  # a device has no folder for an output
            monkeypatch.setattr("dyncrp.cli.options.is_pipe", lambda path: True)
            arguments = [tmp_path / "in.csv", "--format", "csv"]
        done = run(*arguments, *known, input=content)
        assert done.stdout.startswith("row,table,probability,novelty\n0,0,")
        assert "dyncrp: 25 clusters, of 25 tables\n" in done.stderr
        assert " in -" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    monkeypatch.setattr("dyncrp.jobs.run.clusters_of", lambda *_: pytest.fail("nobody would see them"))
    run(tmp_path / "in.csv", *known, "-o", "-", "--quiet")


def test_an_input_in_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    known = write_rooms(tmp_path / "in.csv")
    monkeypatch.setattr("dyncrp.cli.run.os.access", lambda path, mode: False)
    text = run(tmp_path / "in.csv", *known, code=2).stderr
    assert "in.clusters.csv cannot be written: name another file with --output, or use -o - to print the rows" in text


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_too_many_tables_for_clusters_are_a_note(source, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("dyncrp.joining.clusters.MOST_TABLES", 2)
    output = tmp_path / f"out.{suffix}"
    done = label(source, output)
    assert "dyncrp: there are no clusters: clusters are found among up to 2 tables" in done.stderr
    assert f"the table of each row is in {output}" in done.stderr
    assert "cluster" not in read(output)
    assert "is complete, but there are no clusters" in label(source, output, "--clusters", 2, "--force", code=1).stderr


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_more_clusters_than_tables_do_not_lose_the_output(source, tmp_path, suffix):
    label(source, tmp_path / f"whole.{suffix}", "--clusters", "none")
    output = tmp_path / f"out.{suffix}"
    kept = ["--checkpoint", tmp_path / "state", "--resume"]
    made = ["--save", tmp_path / "model.npz", "--plot", tmp_path / "line.png"]
    done = label(source, output, *kept, *made, "--clusters", "99", "--force", code=1)
    K = DynamicalMixture.load(tmp_path / "model.npz").n_tables_
    assert done.stderr.splitlines()[-1] == (
        f"dyncrp: {output} is complete, but there are no clusters: --clusters must be at most the number of open "
        f"tables, {K}, got 99"
    )
    assert output.read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
    assert (tmp_path / "line.png").exists()
    for asked in ("2", "auto", "none", "2"):  # clusters are all that may be asked for anew
        label(source, output, *kept, "--clusters", asked)
        label(source, tmp_path / f"whole.{suffix}", "--clusters", asked, "--force")
        assert output.read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
    text = run(source, *KNOWN, "--clusters", "999", "-o", "-", code=1).stderr
    assert "all rows are written, but there are no clusters" in text


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_clusters_of_an_input_that_has_grown(source, tmp_path, suffix):
    kept = ["--checkpoint", tmp_path / "state", "--resume"]
    for n in (120, 120, 121, N):
        write(source, n)
        label(source, tmp_path / f"out.{suffix}", *kept)
        label(source, tmp_path / f"whole.{suffix}", "--force")
        assert (tmp_path / f"out.{suffix}").read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
        assert not list(tmp_path.glob("*.new"))


def test_tables_that_were_closed_have_no_cluster(source, tmp_path):
    for suffix in SUFFIXES:
        output = tmp_path / f"out.{suffix}"
        label(source, output, "--set", "max_tables=2")
        rows = read(output)
        of_cluster = dict(zip(rows["table"], map(int, rows["cluster"]), strict=True))
        assert sum(cluster >= 0 for cluster in of_cluster.values()) == 2
        assert set(of_cluster.values()) >= {-1}


def test_clusters_of_an_input_without_rows(tmp_path):
    (tmp_path / "in.csv").write_text("x,y\n")
    run(tmp_path / "in.csv", *KNOWN, "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "row,table,probability,novelty,cluster\n"
    run(tmp_path / "in.csv", *KNOWN, "-o", tmp_path / "out.parquet")
    assert "cluster" in parquet.read_table(tmp_path / "out.parquet").schema.names


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_disk_that_is_full_for_the_clusters_keeps_the_rows(source, tmp_path, monkeypatch, suffix):
    output = tmp_path / f"out.{suffix}"
    label(source, tmp_path / f"whole.{suffix}")
    label(source, tmp_path / f"plain.{suffix}", "--clusters", "none")
    kept = ["--checkpoint", tmp_path / "state", "--resume"]
    append = growing.GrowingFile.append

    def full(self, content):
        if self.path.endswith(".new"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        append(self, content)

    with monkeypatch.context() as patch:
        patch.setattr(growing.GrowingFile, "append", full)
        done = label(source, output, *kept, code=1)
    assert f"out.{suffix}.new: No space left on device" in done.stderr
    assert output.read_bytes() == (tmp_path / f"plain.{suffix}").read_bytes()
    label(source, output, *kept)
    assert output.read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()


@pytest.mark.parametrize("n_calls", range(6))
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_kill_at_any_step_of_the_end(source, tmp_path, monkeypatch, suffix, n_calls):
    """A kill comes before the n-th checkpoint or renaming, in the first run and when its output is continued."""
    output, kept, calls = tmp_path / f"out.{suffix}", ["--checkpoint", tmp_path / "state", "--resume"], []

    def counted(function):
        def call(*arguments):
            calls.append(function.__name__)
            if len(calls) == n_calls + 1:
                raise MemoryError
            return function(*arguments)

        return call

    for n in (120, N):
        write(source, n)
        label(source, tmp_path / f"whole.{suffix}", "--force")
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "write", counted(Checkpoint.write))
            patch.setattr(WRITERS[suffix], "settle", counted(WRITERS[suffix].settle))
            label(source, output, *kept, code=None)
        if len(calls) <= n_calls:
            assert calls == ["write", "settle"] * (n == N) + ["write"] * (1 + (n == 120)) + ["write", "settle"]
        label(source, output, *kept)
        assert output.read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
    assert not list(tmp_path.glob("*.new"))


def test_a_signal_without_a_checkpoint(source, tmp_path, monkeypatch):
    stopping_after(monkeypatch, 1)
    monkeypatch.setattr("dyncrp.cli.run.MOST_ROWS_IN_CHUNK", 50)
    done = label(source, tmp_path / "out.csv", code=143)
    assert "this run cannot be resumed: it has no --checkpoint" in done.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 50  # whole rows


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_an_input_that_has_grown(source, tmp_path, suffix, piped):
    def go(n, output, *options):
        write(source, n)
        given = {"input": source.read_bytes()} if piped else {}
        return label("-" if piped else source, output, "--format", "csv", *options, **given)

    kept = [tmp_path / f"out.{suffix}", "--checkpoint", tmp_path / "state", "--every", "64"]
    assert "starting from the first row" in go(120, *kept, "--resume").stderr
    before = (tmp_path / f"out.{suffix}").read_bytes()
    assert "0 rows in" in go(120, *kept, "--resume").stderr
    assert (tmp_path / f"out.{suffix}").read_bytes() == before
    done = go(N, *kept, "--resume")
    assert "state is finished: looking for new rows after row 120" in done.stderr
    assert "180 rows in" in done.stderr
    go(N, tmp_path / f"whole.{suffix}")
    assert (tmp_path / f"out.{suffix}").read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()


def labels(path):
    return np.genfromtxt(path, delimiter=",", names=True)["table"]


def test_what_was_written_stays_though_the_input_had_fewer_rows_than_the_warm_up(source, tmp_path):
    write(source, 45)
    kept = ["--columns", "x,y", "--output", tmp_path / "out.csv", "--checkpoint", tmp_path / "state", "--resume"]
    run(source, *kept, "--set", "warmup=60")
    before = (tmp_path / "out.csv").read_bytes()
    write(source, 120)
    run(source, *kept, "--set", "warmup=60")
    X = np.genfromtxt(source, delimiter=",", skip_header=1)[:, 1:]
    model = DynamicalMixture().fit(X[:45]).learn_unknown()  # from all the rows that there were
    expected = [*model.labels_, *model.partial_fit(X[45:]).labels_]
    assert (tmp_path / "out.csv").read_bytes().startswith(before)
    np.testing.assert_array_equal(labels(tmp_path / "out.csv"), expected)


def test_a_model_that_is_still_warming_up_ends_that_before_it_labels(source, tmp_path):
    X = np.genfromtxt(source, delimiter=",", skip_header=1)[:, 1:]
    model = DynamicalMixture().partial_fit(X[:45])
    model.save(tmp_path / "model.npz")
    saved = tmp_path / "saved.npz"
    run(
        source, "--columns", "x,y", "--model", tmp_path / "model.npz", "--output", tmp_path / "out.csv", "--save", saved
    )
    np.testing.assert_array_equal(labels(tmp_path / "out.csv"), model.learn_unknown().partial_fit(X).labels_)
    assert DynamicalMixture.load(saved).learned_


@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_another_input_is_refused(source, tmp_path, piped):
    kept = ["--checkpoint", tmp_path / "state", "--resume", "--format", "csv"]
    original = source.read_text()

    def go(code=0):
        given = {"input": source.read_bytes()} if piped else {}
        return label("-" if piped else source, tmp_path / "out.csv", *kept, code=code, **given)

    go()
    before = (tmp_path / "out.csv").read_bytes()
    lines = original.splitlines(keepends=True)
    other = ["0.0,5.0,5.0\n"]
    for changed in (lines[:1] + lines[2:], lines[:1] + other + lines[2:], lines[:-1], lines[:50]):
        source.write_text("".join(changed))
        assert "not the same as before" in go(code=1).stderr
    assert (tmp_path / "out.csv").read_bytes() == before


def test_other_options_are_refused(source, tmp_path):
    kept = ["--checkpoint", tmp_path / "state"]
    label(source, tmp_path / "out.csv", *kept)
    done = label(source, tmp_path / "out.csv", *kept, "--resume", "--set", "warmup=7", code=2)
    assert "--set was ['prior_variance=100', 'variance=1'] at the checkpoint" in done.stderr
    done = run(source, "--output", tmp_path / "out.csv", *KNOWN, *kept, "--resume", code=2)
    assert "--time-column was 't' at the checkpoint, but is None now" in done.stderr


def test_a_changed_output_is_refused(source, tmp_path):
    kept = ["--checkpoint", tmp_path / "state", "--resume"]
    label(source, tmp_path / "out.csv", *kept)
    (tmp_path / "out.csv").write_text("mine\n")
    write(source, N + 1)
    assert "has changed since the checkpoint" in label(source, tmp_path / "out.csv", *kept, code=1).stderr
    assert (tmp_path / "out.csv").read_text() == "mine\n"


def test_a_changed_parquet_output_is_refused(source, tmp_path):
    output = tmp_path / "out.parquet"
    kept = ["--checkpoint", tmp_path / "state", "--resume"]
    label(source, output, *kept)
    whole = parquet.read_table(output)
    write(source, N + 1)
    for changed in (whole.slice(0, 200), whole.set_column(2, "table", [[7] * N])):
        parquet.write_table(changed, output)
        before = output.read_bytes()
        assert "out.parquet has changed since the checkpoint" in label(source, output, *kept, code=1).stderr
        assert output.read_bytes() == before
    output.unlink()
    assert "out.parquet is missing" in label(source, output, *kept, code=1).stderr
    assert not (tmp_path / "out.parquet.part").exists()


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"text"])
def test_a_damaged_checkpoint_is_refused(source, tmp_path, damage):
    (tmp_path / "state").write_bytes(damage)
    done = label(source, tmp_path / "out.csv", "--checkpoint", tmp_path / "state", "--resume", code=2)
    assert "state is not a readable dyncrp model" in done.stderr
    assert not (tmp_path / "out.csv").exists()


def test_nothing_is_replaced_without_being_told(source, tmp_path):
    output = tmp_path / "out.csv"
    output.write_text("mine\n")
    assert "out.csv exists: use --force to replace it" in label(source, output, code=2).stderr
    assert output.read_text() == "mine\n"
    label(source, output, "--force", "--checkpoint", tmp_path / "state")
    assert output.read_text() != "mine\n"
    output.unlink()
    done = label(source, output, "--checkpoint", tmp_path / "state", code=2)
    finished = f"{tmp_path / 'state'} is the checkpoint of a run that has finished, after row {N}"
    assert f"{finished}: add --resume to continue it, or --force to start again\n" in done.stderr
    source.write_text("t,x,y\n0,1,huh\n1,2,3\n")
    label(source, output, "--checkpoint", tmp_path / "state", "--force", code=1)
    assert not (tmp_path / "state").exists()  # or --resume would continue another run


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_resume_without_its_checkpoint_cuts_no_output(source, tmp_path, suffix):
    output = tmp_path / f"out.{suffix}"
    label(source, output, "--checkpoint", tmp_path / "state")
    before = output.read_bytes()
    done = label(source, output, "--checkpoint", tmp_path / "stat", "--resume", code=2)
    assert f"there is no checkpoint {tmp_path / 'stat'}, but {output} exists: use --force" in done.stderr
    assert output.read_bytes() == before
    if suffix == "parquet":
        output.rename(f"{output}.part")
        assert "out.parquet.part exists" in label(source, output, "--checkpoint", "stat", "--resume", code=2).stderr
    label(source, output, "--checkpoint", tmp_path / "stat", "--resume", "--force")
    assert output.read_bytes() == before


def test_a_kill_before_the_first_row_can_be_resumed(source, tmp_path, monkeypatch):
    label(source, tmp_path / "whole.csv")
    output, kept = tmp_path / "out.csv", ["--checkpoint", tmp_path / "state", "--resume"]

    def killed(self, chunks):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_label", killed)
        label(source, output, *kept, code=1)
    assert output.exists()
    told = runner.invoke(app, ["info", str(tmp_path / "state")])
    assert told.exit_code == 0, told.output
    assert "checkpoint without a model" in told.stdout
    assert json.loads(runner.invoke(app, ["info", str(tmp_path / "state"), "--json"]).stdout)["rows_labelled"] == 0
    other = tmp_path / "other.csv"
    other.write_text("mine\n")
    assert "--output was" in label(source, other, *kept, code=2).stderr
    assert other.read_text() == "mine\n"
    assert "has no rows yet: starting from the first row" in label(source, output, *kept).stderr
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()


class FullDisk:
    """Lets so many bytes be written to files that grow."""

    def __init__(self, monkeypatch, room):
        self.room = room
        real_open = open

        def open_full(path, mode="r", *rest, **more):
            file = real_open(path, mode, *rest, **more)
            return _Full(file, self) if "buffering" in more else file

        monkeypatch.setattr(growing, "open", open_full, raising=False)


class _Full:
    def __init__(self, file, disk):
        self.file, self.disk = file, disk

    def write(self, content):
        if not self.disk.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        n = self.file.write(content[: self.disk.room])
        self.disk.room -= n
        return n

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_full_disk_loses_nothing(source, tmp_path, monkeypatch, suffix):
    label(source, tmp_path / f"whole.{suffix}")
    kept = ["--checkpoint", tmp_path / "state", "--every", "50", "--resume"]
    for room in (3000, 5000, 2000):
        with monkeypatch.context() as patch:
            FullDisk(patch, room)
            done = label(source, tmp_path / f"out.{suffix}", *kept, code=1)
            assert "No space left on device" in done.stderr
            assert str(tmp_path / "out") in done.stderr
    if suffix == "csv":
        assert (tmp_path / "out.csv").read_bytes().endswith(b"\n")
    label(source, tmp_path / f"out.{suffix}", *kept)
    assert (tmp_path / f"out.{suffix}").read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()


def test_a_full_disk_at_a_checkpoint_loses_nothing(source, tmp_path, monkeypatch):
    label(source, tmp_path / "whole.csv")
    kept = ["--checkpoint", tmp_path / "state", "--every", "50", "--resume"]
    write_file, count = files.write, []

    def full(path, content):
        count.append(1)
        if len(count) % 3 == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))
        write_file(path, content)

    monkeypatch.setattr(files, "write", full)
    for _ in range(3):
        assert "state: No space left on device" in label(source, tmp_path / "out.csv", *kept, code=1).stderr
    monkeypatch.setattr(files, "write", write_file)
    label(source, tmp_path / "out.csv", *kept)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_bad_rows_stop_or_are_skipped(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("x,y\n1,2\n3,huh\n4,5\n1e200,7\n8,9\n")
    done = run(source, *KNOWN, code=1)
    fault = "line 3, column 'y': 'huh' is not a number"
    remedies = "--missing huh takes it for a missing cell, --skip-bad skips such rows"
    assert done.stderr == f"dyncrp: features: x, y\ndyncrp: {source}, {fault}; {remedies}\n"
    done = run(source, "--skip-bad", *KNOWN, "-o", "-")
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["row", "0", "2", "4"]
    assert f"2 bad rows skipped: {fault}; line 5, column 'x': X must lie" in done.stderr


def test_a_missing_cell_is_taken_unless_the_family_takes_whole_rows_only(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("x,y\n0.6,0.8\n0.6,\n0.8,0.6\n")
    assert len(run(source, *KNOWN, "-o", "-").stdout.splitlines()) == 4
    sphere = ["--family", "von_mises_fisher", "--set", "concentration=20", "--alpha", "1", "--dynamics", "stationary()"]
    reason = "line 3, column 'y': the cell is missing, and VonMisesFisher takes whole rows only"
    remedies = "--skip-bad skips such rows, --exclude y leaves the column out, --missing says which cells are missing"
    assert f"{source}, {reason}; {remedies}" in run(source, *sphere, code=1).stderr
    done = run(source, *sphere, "--skip-bad", "-o", "-")
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["row", "0", "2"]
    assert f"1 bad row skipped: {reason}\n" in done.stderr


def test_all_rows_bad_is_an_error(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("x,y\n1,2,3\n4\n")
    done = run(source, "--skip-bad", *KNOWN, "--quiet", code=1)
    fault = "line 2: the row has 3 cells, but the first line has 2"
    assert done.stderr == f"dyncrp: {source}: every row is bad, 2 in all: {fault}\n"


def test_a_row_that_the_family_refuses_is_named(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("x,y\n1,0\n\n1,1\n1,0.5\n")
    done = run(source, "--family", "bernoulli", "--set", "a=1", "--set", "b=1", code=1)
    assert (
        done.stderr.splitlines()[-1] == f"dyncrp: {source}, line 5, column 'y': Bernoulli takes 0 and 1 only, got 0.5"
    )


def test_a_model_continues(source, tmp_path):
    lines = source.read_text().splitlines(keepends=True)
    (tmp_path / "a.csv").write_text("".join(lines[:100]))
    (tmp_path / "b.csv").write_text("".join(lines[:1] + lines[100:]))
    label(source, tmp_path / "whole.csv", "--save", tmp_path / "whole.npz")
    label(tmp_path / "a.csv", tmp_path / "a-out.csv", "--save", tmp_path / "model.npz")
    model = ["--model", tmp_path / "model.npz"]
    run(
        tmp_path / "b.csv", "--time-column", "t", *model, "-o", tmp_path / "b-out.csv", "--save", tmp_path / "model.npz"
    )
    whole, a, b = (
        [line.split(",", 1)[1] for line in (tmp_path / name).read_text().splitlines()[1:]]
        for name in ("whole.csv", "a-out.csv", "b-out.csv")
    )
    assert a + b == whole
    assert (tmp_path / "model.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    kept = ["--time-column", "t", "-o", tmp_path / "c.csv", "--checkpoint", tmp_path / "state"]
    done = run(tmp_path / "b.csv", "--model", tmp_path / "whole.npz", *kept, code=1)  # whose time is later
    assert "line 2, column 't': times must not run backwards: " in done.stderr
    assert ", the latest time of the stream" in done.stderr
    (tmp_path / "c.csv").unlink()
    (tmp_path / "state").unlink()
    label(tmp_path / "a.csv", tmp_path / "d.csv", "--save", tmp_path / "a.npz")
    run(tmp_path / "b.csv", "--model", tmp_path / "a.npz", *kept)
    assert "--model was" in run(tmp_path / "b.csv", *model, *kept, "--resume", code=2).stderr
    assert "--model has its own family" in run(source, *model, "--alpha", "2", code=2).stderr
    assert "learned on the features x, y, but those of" in run(source, *model, code=2).stderr


def test_a_model_knows_its_columns(source, tmp_path):
    label(source, tmp_path / "out.csv", "--columns", "x,y", "--save", tmp_path / "model.npz")
    assert DynamicalMixture.load(tmp_path / "model.npz").feature_names_in_.tolist() == ["x", "y"]
    done = run(source, "--columns", "y,x", "--model", tmp_path / "model.npz", "-o", tmp_path / "other.csv", code=2)
    assert f"learned on the features x, y, but those of {source} are y, x: select them with --columns" in done.stderr
    assert not (tmp_path / "other.csv").exists()
    X = np.array([[0.0, 0.0], [9.0, 9.0]])
    DynamicalMixture(dyncrp.Gaussian(1.0, 100.0), dyncrp.Stationary(), 1.0).fit(X).save(tmp_path / "nameless.npz")
    run(source, "--columns", "y,x", "--model", tmp_path / "nameless.npz")
    done = run(source, "--columns", "y", "--model", tmp_path / "nameless.npz", code=2)
    assert "the model has 2 features, but" in done.stderr


def test_an_input_without_rows(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("x,y\n")
    assert run(source, *KNOWN, "-o", "-").stdout == "row,table,probability,novelty\n"
    assert "has no rows" in run(source, *KNOWN, "--save", tmp_path / "model.npz", code=1).stderr
    source.write_text("x,y\n1,2\n")
    assert "1 sample is too few to learn the hyperparameters" in run(source, code=1).stderr


def test_a_century_between_rows_and_extreme_values(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("when,x\n1850-01-01,1e-300\n1950-01-01T12:00:00.5,0\n2050-01-01,-1e-300\n2050-01-01,1e100\n")
    done = run(source, "--time-column", "when", *KNOWN, "-o", "-")
    assert [line.split(",")[2] for line in done.stdout.splitlines()[1:]] == ["0", "1", "2", "3"]
    source.write_text("x\n1e300\n")
    assert (
        "line 2, column 'x': X must lie within 1e+140 of the prior mean, got 1e+300"
        in run(source, *KNOWN, code=1).stderr
    )


@pytest.mark.slow
def test_30_kills_at_random_moments():
    script = Path(__file__).parents[1] / "kill_runs.py"
    environment = os.environ | {"PYTHONPATH": str(Path(dyncrp.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, "30"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("all outputs the same\n")


class Process:
    """``dyncrp run -`` in a process of its own, fed through a pipe."""

    def __init__(self, *arguments):
        environment = os.environ | {"PYTHONPATH": str(Path(dyncrp.__file__).parents[1])}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dyncrp", "run", "-", "--format", "csv", *map(str, arguments)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def feed(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def wait_for(self, path, n_lines):
        """Wait until a file has that many lines, or the process ended."""
        deadline = time.monotonic() + PATIENCE
        while not path.exists() or path.read_bytes().count(b"\n") < n_lines:
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def end(self):
        out, err = self.process.communicate()
        return self.process.returncode, out.decode(), err.decode()


@pytest.mark.slow
def test_real_processes_interrupted_and_killed(source, tmp_path):
    lines = source.read_text().splitlines(keepends=True)
    label(source, tmp_path / "whole.csv")
    output = tmp_path / "out.csv"
    options = [
        "--time-column",
        "t",
        *KNOWN,
        "-o",
        output,
        "--checkpoint",
        tmp_path / "state",
        "--every",
        "10",
        "--resume",
    ]
    for number, upto in ((signal.SIGKILL, 200), (signal.SIGTERM, 250)):  # for SIGINT see below
        process = Process(*options)
        process.feed("".join(lines[:upto]))
        process.wait_for(output, upto)
        process.process.send_signal(number)
        code, _, err = process.end()
        assert code == (-number if number == signal.SIGKILL else 128 + number)
        if number != signal.SIGKILL:
            assert f"stopped after {upto - 1} rows" in err  # waiting for a pipe does not keep it from stopping
            assert "resume with: dyncrp run - --format csv" in err
        assert "Traceback" not in err
    label(source, output, "--format", "csv", "--checkpoint", tmp_path / "state", "--resume")
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.slow
def test_a_pipe_that_brings_nothing_can_be_interrupted(tmp_path):
    process = Process(*KNOWN)
    process.feed("t,x")
    deadline = time.monotonic() + PATIENCE
    while any(fcntl.ioctl(process.process.stdin, termios.FIONREAD, bytes(4))):  # until it has read that
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.process.send_signal(signal.SIGINT)
    code, _, err = process.end()
    assert (code, err) == (130, "dyncrp: stopped\n")


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_it_quietly(source):
    process = Process("--time-column", "t", "--columns", "x,y", *KNOWN)
    process.feed(source.read_text())
    assert process.process.stdout.readline() == b"row,t,table,probability,novelty\n"
    process.process.stdout.close()
    more = source.read_text().splitlines(keepends=True)[-1] * 50
    deadline = time.monotonic() + PATIENCE
    while process.process.poll() is None and time.monotonic() < deadline:
        try:
            process.feed(more)
        except BrokenPipeError:
            break
        time.sleep(0.05)
    with suppress(BrokenPipeError):
        process.process.stdin.close()
    process.process.wait(PATIENCE)
    err = process.process.stderr.read()
    process.process.stderr.close()
    assert process.process.returncode == 0
    assert b"Traceback" not in err
    assert b"Error" not in err
    assert b"dyncrp:" not in err


def test_info_of_a_checkpoint(source, tmp_path):
    label(source, tmp_path / "out.csv", "--checkpoint", tmp_path / "state")
    done = runner.invoke(app, ["info", str(tmp_path / "state"), "--json"])
    found = json.loads(done.stdout)
    assert (found["kind"], found["rows_labelled"], found["finished"]) == ("checkpoint", N, True)
    assert found["options"]["--time-column"] == "t"


def test_stop_takes_a_second_signal_at_once():
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGINT)
    with Stop() as stop:
        stop.waiting = True
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)


def test_a_model_that_was_saved_in_its_warm_up_learns_from_the_rows_of_a_run(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2)) + 20.0 * (np.arange(300) % 3)[:, None]
    np.savetxt(tmp_path / "in.csv", X[1:], fmt="%.17g", delimiter=",", header="x,y", comments="")
    DynamicalMixture(warmup=200).partial_fit(X[:1]).save(tmp_path / "model")
    run(tmp_path / "in.csv", "--model", tmp_path / "model", "-o", tmp_path / "out.csv", "--save", tmp_path / "after")
    after = DynamicalMixture.load(tmp_path / "after")
    assert after.log_evidence_ == pytest.approx(DynamicalMixture(warmup=200).fit(X).log_evidence_)

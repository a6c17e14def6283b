"""Events, alarms, names, and what is known of rows: written as they come, and the same after any stop."""

import csv
import json
import os
import re
import signal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from dyncrp import DynamicalMixture, Exponential, Gaussian
from dyncrp.cli.app import app
from dyncrp.io import growing, model_file
from dyncrp.io.growing import GrowingFile
from dyncrp.jobs.run import Run
from dyncrp.stream.events import as_plain

runner = CliRunner()
N = 400
KNOWN = ["--columns", "x,y", "--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=100"]
KNOWN += ["--alpha", "1", "--dynamics", "exponential(9)", "--set", "max_tables=5"]
TOLD = ["--label-column", "who", "--cannot-link-column", "frame", "--names", "--alarm-rate", "0.02"]


def columns(n=N):
    """Places that are visited in turn, with names for some rows and marks for others."""
    rng = np.random.default_rng(1)
    z = np.repeat(rng.integers(0, 4, N // 25), 25)
    X = rng.normal(np.array([-9.0, 0.0, 9.0, 18.0])[z, None], 1.0, size=(N, 2))
    found = {
        "when": [f"2024-01-01T00:{t // 60:02}:{t % 60:02}" for t in range(N)],
        "who": [f"place {z[t]}" if t % 30 == 7 else None for t in range(N)],
        "frame": [t // 2 if t % 23 < 2 else None for t in range(N)],
        "x": X[:, 0].tolist(),
        "y": X[:, 1].tolist(),
    }
    return {name: cells[:n] for name, cells in found.items()}


def write(path, found):
    rows = list(zip(*found.values(), strict=True))
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([list(found), *rows])
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(found, row, strict=True))) + "\n" for row in rows))
    else:
        parquet.write_table(pa.table(found), path)
    return path


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "in.csv", columns())


def run(*arguments, code=0):
    done = runner.invoke(app, ["run", *map(str, arguments)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


def label(path, output, *options, code=0):
    return run(path, "--time-column", "when", "-o", output, "--clusters", "none", *KNOWN, *options, code=code)


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def model_of(found, **more):
    return DynamicalMixture(Gaussian(1.0, 100.0), Exponential(9.0), 1.0, max_tables=5, alarm_rate=0.02, **more)


def test_events_are_those_of_the_model(source, tmp_path):
    found = columns()
    X, times = np.column_stack([found["x"], found["y"]]), np.array(found["when"], dtype="M8[us]")
    model = model_of(found)
    wanted = []
    model.on_event = lambda event: wanted.append(as_plain(event))
    model.fit(X, times=times, labels=found["who"], cannot_link=[None if f is None else str(f) for f in found["frame"]])
    done = label(source, tmp_path / "out.jsonl", *TOLD, "--events", tmp_path / "e.jsonl")
    events = read(tmp_path / "e.jsonl")
    without = [{name: value for name, value in event.items() if name != "name"} for event in wanted]
    assert [{name: value for name, value in event.items() if name != "name"} for event in events] == without
    assert {event["kind"] for event in events} == {"opened", "returned", "closed", "alarm"}
    assert events[0] | {"time": "2024-01-01T00:00:00.000000Z", "cluster": None, "what": {}} == events[0]
    rows = read(tmp_path / "out.jsonl")
    assert list(rows[0]) == ["row", "when", "table", "name", "probability", "novelty", "novelty_p"]
    np.testing.assert_array_equal([row["table"] for row in rows], model.labels_)
    np.testing.assert_array_equal([row["novelty_p"] for row in rows], model.novelty_p_)
    for row, name in zip(rows, found["who"], strict=True):
        assert row["name"] == (name or row["name"])
    assert all(rows[event["row"]]["when"] == event["time"][:19] for event in events)
    names = {row["table"]: row["name"] for row in rows}
    assert len(set(names.values())) < len(names)  # a name goes on to another table when its own has closed
    assert all(row["name"] == names[row["table"]] for row in rows)
    counts = {
        kind: sum(event["kind"] == kind for event in events) for kind in ("opened", "returned", "closed", "alarm")
    }
    told = "{opened} tables opened, {returned} returned, {closed} closed, {alarm} alarms".format(**counts)
    assert f"dyncrp: {told} (1 row in {N / counts['alarm']:.0f})\n" in done.stderr


def test_nothing_is_added_that_was_not_asked_for(source, tmp_path):
    done = label(source, tmp_path / "plain.csv")
    assert "opened, " not in done.stderr.replace(" opened, log", "")
    assert (tmp_path / "plain.csv").read_text().startswith("row,when,table,probability,novelty\n")
    done = label(source, tmp_path / "out.csv", "--events", tmp_path / "e.jsonl")
    assert "alarm" not in done.stderr + (tmp_path / "e.jsonl").read_text()
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("warmup", [False, True], ids=["all given", "some learned"])
def test_neither_cuts_nor_stops_nor_formats_change_what_is_written(tmp_path, monkeypatch, suffix, warmup):
    if warmup:
        learned = ["--columns", "x,y", "--family", "gaussian", "--set", "variance=1", "--set", "warmup=60"]
        monkeypatch.setitem(globals(), "KNOWN", [*learned, "--dynamics", "exponential(9)", "--set", "max_tables=5"])
    label(write(tmp_path / "whole.csv", columns()), tmp_path / "whole.jsonl", *TOLD, "--events", tmp_path / "whole.e")
    source, output = write(tmp_path / f"in.{suffix}", columns()), tmp_path / f"out.{suffix}"
    kept = [*TOLD, "--events", tmp_path / "e", "--checkpoint", tmp_path / "state", "--resume"]
    label_chunks, count = Run._label, []

    def stop(self, chunks):
        label_chunks(self, chunks)
        count.append(1)
        if len(count) % 3 == 0:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Run, "_label", stop)
    for every in (7, 20, 31, 9):
        label(source, output, *kept, "--every", every, code=143)
    monkeypatch.setattr(Run, "_label", label_chunks)
    with (tmp_path / "e").open("a") as file:
        file.write("what a kill left behind")
    done = label(source, output, *kept)
    assert (tmp_path / "e").read_bytes() == (tmp_path / "whole.e").read_bytes()
    opened = sum(event["kind"] == "opened" for event in read(tmp_path / "e"))
    assert f"dyncrp: {opened} tables opened, " in done.stderr  # of all rows
    wanted = read(tmp_path / "whole.jsonl")
    if suffix == "jsonl":
        assert output.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    elif suffix == "parquet":
        assert parquet.read_table(output).to_pylist() == wanted
    else:
        with output.open() as file:
            found = list(csv.DictReader(file))
        assert [row["name"] for row in found] == [row["name"] or "" for row in wanted]
        assert [float(row["novelty_p"]) for row in found] == [row["novelty_p"] for row in wanted]


def test_rows_are_those_of_the_file(tmp_path):
    found = columns()
    half = {name: cells[:200] for name, cells in found.items()}
    label(
        write(tmp_path / "a.csv", half),
        tmp_path / "a.out.csv",
        *TOLD,
        "--save",
        tmp_path / "model.npz",
        "--events",
        tmp_path / "a",
    )
    rest = {name: cells[200:] for name, cells in found.items()}
    rest["x"] = ["oops", *rest["x"][:3], "bad", *rest["x"][3:]]
    for name in ("when", "who", "frame", "y"):
        rest[name] = [rest[name][0], *rest[name][:3], rest[name][3], *rest[name][3:]]
    write(tmp_path / "b.csv", rest)
    timed = ["--columns", "x,y", "--time-column", "when", *TOLD[:-2], "--skip-bad"]
    run(
        tmp_path / "b.csv",
        *timed,
        "--model",
        tmp_path / "model.npz",
        "-o",
        tmp_path / "b.out.jsonl",
        "--events",
        tmp_path / "b",
    )
    label(write(tmp_path / "all.csv", found), tmp_path / "all.out.jsonl", *TOLD, "--events", tmp_path / "all")
    wanted = [event for event in read(tmp_path / "all") if event["row"] >= 200]
    moved = [event | {"row": event["row"] - 200 + 1 + (event["row"] >= 203)} for event in wanted]
    assert read(tmp_path / "b") == moved
    rows = {row["row"]: row for row in read(tmp_path / "b.out.jsonl")}
    assert all(
        rows[event["row"]]["table"] == event["table"] for event in read(tmp_path / "b") if event["kind"] == "returned"
    )


def test_a_saved_model_takes_another_rate_of_alarms(source, tmp_path):
    label(source, tmp_path / "a.csv", "--save", tmp_path / "model.npz")
    later = columns()
    later["when"] = [text.replace("01T", "02T") for text in later["when"]]
    timed = [write(tmp_path / "b.csv", later), "--columns", "x,y", "--time-column", "when", "--model"]
    for rate, more in ((0.3, ["--alarm-rate", "0.3"]), (0.05, ["--alarm-rate", "0.05"]), (0.05, [])):
        done = run(
            *timed,
            tmp_path / "model.npz",
            *more,
            "-o",
            tmp_path / "b.out.csv",
            "--save",
            tmp_path / "model.npz",
            "--force",
        )
        assert DynamicalMixture.load(tmp_path / "model.npz").alarm_rate == rate
        assert " alarms (1 row in " in done.stderr
        assert "novelty_p" in (tmp_path / "b.out.csv").read_text()
        later["when"] = [f"2{text[1:3]}{int(text[3]) + 1}{text[4:]}" for text in later["when"]]
        write(timed[0], later)


def test_a_rate_is_given_once_and_either_way(source, tmp_path):
    text = label(source, tmp_path / "out.csv", "--alarm-rate", "0.1", "--set", "alarm_rate=0.1", code=2).stderr
    assert text == "dyncrp: alarm_rate is set twice\n"
    for rate in ("0", "1.5", "nan"):
        assert "alarm_rate must be" in label(source, tmp_path / "out.csv", "--alarm-rate", rate, code=2).stderr
    kept = ["--checkpoint", tmp_path / "state", "--resume"]
    label(source, tmp_path / "out.csv", "--alarm-rate", "0.1", *kept)
    label(source, tmp_path / "out.csv", "--set", "alarm_rate=0.1", *kept)
    text = label(source, tmp_path / "out.csv", "--alarm-rate", "0.2", *kept, code=2).stderr
    assert "--alarm-rate was 0.1 at the checkpoint, but is 0.2 now" in text


def test_surges_of_a_run(tmp_path):
    rng = np.random.default_rng(0)
    x = 30.0 * rng.integers(3, size=16_000)
    x[14_400:14_800] = 30.0
    np.savetxt(tmp_path / "in.csv", x + rng.normal(size=len(x)), fmt="%.2f", header="x", comments="")
    told = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=900", "--alpha", "1"]
    kept = ["--checkpoint", tmp_path / "state", "--every", "5000", "--resume", "-o", tmp_path / "out.csv"]
    rate = ["--surge-rate", "0.001", "--events", tmp_path / "events.jsonl"]
    done = run(tmp_path / "in.csv", *told, *kept, *rate)
    assert re.search(r"3 tables opened, \d+ surges?, \d+ growing, \d+ fading", done.stderr)
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    model = DynamicalMixture(Gaussian(1.0, 900.0), alpha=1.0, surge_rate=0.001)
    events = model.fit(np.loadtxt(tmp_path / "in.csv", skiprows=1)[:, None]).events_
    assert [(line["kind"], line["row"], line["table"], line["what"]) for line in lines] == [
        (event.kind, event.row, event.table, event.what) for event in events
    ]
    assert any(line["kind"] == "surge" and 14_400 <= line["row"] < 15_400 for line in lines)
    rate[1] = "0.002"
    other = run(tmp_path / "in.csv", *told, *kept, *rate, code=2).stderr
    assert "--surge-rate was 0.001 at the checkpoint, but is 0.002 now" in other
    assert "surge_rate must be" in run(tmp_path / "in.csv", *told, "--surge-rate", "0.1", code=2).stderr


def test_a_file_of_events_that_is_not_ours_is_left_alone(source, tmp_path):
    output, events, state = tmp_path / "out.csv", tmp_path / "e.jsonl", tmp_path / "state"
    events.write_text("mine\n")
    assert f"{events} exists: use --force" in label(source, output, "--events", events, code=2).stderr
    kept = ["--checkpoint", state, "--resume"]
    assert "exists: use --force" in label(source, output, "--events", events, *kept, code=2).stderr
    assert events.read_text() == "mine\n"
    assert not output.exists()
    label(source, output, "--events", events, "--force", *kept)
    content = events.read_bytes()
    assert "--events was" in label(source, output, *kept, code=2).stderr
    write(source, columns() | {name: cells + cells[-1:] for name, cells in columns().items()})  # one more row
    for changed in (b"X" + content[1:], content[:-1]):
        events.write_bytes(changed)
        text = label(source, output, "--events", events, *kept, code=1).stderr
        assert f"{events} has changed since the checkpoint" in text
        assert events.read_bytes() == changed
    events.unlink()
    assert f"{events} is missing" in label(source, output, "--events", events, *kept, code=1).stderr
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes(content)
    label(source, output, "--events", moved, *kept)  # it may have been moved, like an output
    assert moved.read_bytes().startswith(content)
    assert len(output.read_text().splitlines()) == N + 2


def test_events_that_were_not_written_from_the_first_row_on_are_refused(source, tmp_path):
    kept = ["--checkpoint", tmp_path / "state", "--resume"]
    label(source, tmp_path / "out.csv", *kept)
    events = tmp_path / "e.jsonl"
    text = label(source, tmp_path / "out.csv", *kept, "--events", events, code=2).stderr
    assert f"--events was None at the checkpoint, but is {str(events)!r} now" in text
    assert not events.exists()


def test_a_checkpoint_before_the_first_row_owns_its_events_only(source, tmp_path, monkeypatch):
    output, events, other = tmp_path / "out.csv", tmp_path / "e.jsonl", tmp_path / "other.jsonl"
    kept = ["--checkpoint", tmp_path / "state", "--resume"]
    with monkeypatch.context() as patch:
        patch.setattr(GrowingFile, "start", lambda self: (_ for _ in ()).throw(OSError(28, "full", self.path)))
        label(source, output, "--events", events, *kept, code=1)
    other.write_text("mine\n")
    assert "--events was" in label(source, output, "--events", other, *kept, code=2).stderr
    assert other.read_text() == "mine\n"
    events.write_text("half a line")
    label(source, output, "--events", events, *kept)
    assert read(events)[0]["kind"] == "opened"


def test_a_checkpoint_from_before_events_is_resumed(source, tmp_path):
    label(source, tmp_path / "whole.csv")
    write(source, columns(150))
    kept = ["--checkpoint", tmp_path / "state", "--resume"]
    label(source, tmp_path / "out.csv", *kept)
    config, arrays = model_file.loads((tmp_path / "state").read_bytes())
    for name in ("events", "counts"):
        del config["run"][name]
    for name in ("--alarm-rate", "--names", "--label-column", "--cannot-link-column"):
        del config["run"]["options"][name]
    (tmp_path / "state").write_bytes(model_file.dumps(config, arrays))
    write(source, columns())
    label(source, tmp_path / "out.csv", *kept)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_two_runs_cannot_write_the_same_events(source, tmp_path):
    file = GrowingFile(str(tmp_path / "e.jsonl"))
    file.start()
    file.append(b"mine\n")
    try:
        text = label(source, tmp_path / "out.csv", "--events", file.path, "--force", code=1).stderr
        assert f"{file.path} is being written by another run" in text
    finally:
        file.close()
    assert (tmp_path / "e.jsonl").read_text() == "mine\n"


def test_a_full_disk_loses_no_event(source, tmp_path, monkeypatch):
    label(source, tmp_path / "whole.csv", *TOLD, "--events", tmp_path / "whole.jsonl")
    kept = [*TOLD, "--events", tmp_path / "e.jsonl", "--checkpoint", tmp_path / "state", "--every", "50", "--resume"]
    append, room = GrowingFile.append, [9]

    def full(self, content):
        room[0] -= 1
        if room[0] <= 0 and self.path.endswith("e.jsonl"):
            real, self._file = self._file, Full(self._file)
            try:
                return append(self, content)
            finally:
                self._file = real
        return append(self, content)

    monkeypatch.setattr(growing.GrowingFile, "append", full)
    text = label(source, tmp_path / "out.csv", *kept, code=1).stderr
    assert "e.jsonl: No space left on device" in text
    read(tmp_path / "e.jsonl")  # whole lines only
    room[0] = 10**9
    label(source, tmp_path / "out.csv", *kept)
    assert (tmp_path / "e.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


class Full:
    """A disk that takes three bytes more."""

    def __init__(self, file):
        self.file, self.room = file, 3

    def write(self, content):
        if not self.room:
            raise OSError(28, os.strerror(28))
        n = self.file.write(content[: self.room])
        self.room -= n
        return n

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_events_may_go_to_a_pipe(source, tmp_path):
    done = label(source, tmp_path / "out.csv", *TOLD, "--events", "-")
    label(source, tmp_path / "out.csv", *TOLD, "--events", tmp_path / "e.jsonl", "--force")
    assert done.stdout == (tmp_path / "e.jsonl").read_text()
    text = label(source, "-", "--events", "-", code=2).stderr
    assert text == "dyncrp: --output and --events are both standard output\n"
    text = label(source, tmp_path / "other.csv", "--events", "-", "--checkpoint", tmp_path / "state", code=2).stderr
    assert "--checkpoint needs --events FILE" in text
    text = label(source, tmp_path / "x.csv", "--events", tmp_path / "x.csv", code=2).stderr
    assert "--events and --output are the same file" in text


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_label_that_cannot_be_is_named_with_its_place(tmp_path, suffix):
    def fail(*options, code=1, **changed):
        path = write(tmp_path / f"in.{suffix}", columns(60) | changed)
        return label(path, tmp_path / "out.csv", "--label-column", "who", *options, "--force", code=code).stderr

    def at(row):
        return f"in.{suffix}, " + (f"row {row}" if suffix == "parquet" else f"line {row + 1 + (suffix == 'csv')}")

    who = [None] * 60
    text = fail(who=[*who[:9], "two\nlines", *who[10:]] if suffix != "csv" else [*who[:9], "a" * 201, *who[10:]])
    assert f"{at(9)}, column 'who': a name must be a text" in text
    text = fail("--skip-bad", code=0, who=[*who[:9], "a" * 201, *who[10:]])
    assert "1 bad row skipped: " + at(9).split(", ")[1] + ", column 'who': a name must be" in text
    text = fail(who=[*who[:9], "77", *who[10:]])
    assert f"{at(9)}, column 'who': labels says table 77, but ids of tables are below 0 so far" in text
    text = fail(
        "--cannot-link-column", "frame", who=[*who[:4], "a", "a", *who[6:]], frame=[None] * 4 + [1, 1] + [None] * 54
    )
    assert f"{at(5)}, column 'who': labels and cannot_link disagree" in text
    assert "has no column 'whom'" in fail("--cannot-link-column", "whom")


def test_ids_are_known_once_a_model_is_saved(tmp_path):
    path = write(tmp_path / "a.csv", {"x": [0.0, 9.0, 0.1], "y": [0.0, 9.0, 0.1]})
    known = [*KNOWN[:-2], "--names"]
    run(path, *known, "-o", tmp_path / "a.out.csv", "--save", tmp_path / "model.npz")
    invoked = runner.invoke(app, ["rename", str(tmp_path / "model.npz"), "1", "far, far"])
    assert invoked.exit_code == 0, invoked.output
    for suffix, labels in (("csv", ["1.0", "0", ""]), ("jsonl", [1, 0.0, None]), ("parquet", [1, 0, -1])):
        rows = {"x": [0.0, 9.0, 0.0], "y": [0.0, 9.0, 0.0], "who": labels}
        path, output = write(tmp_path / f"b.{suffix}", rows), tmp_path / f"b.out.{suffix}"
        told = ["--columns", "x,y", "--label-column", "who", "--names", "--model", tmp_path / "model.npz"]
        run(path, *told, "-o", output, "--clusters", "none")
        if suffix == "csv":
            lines = list(csv.reader(output.read_text().splitlines()))
            assert lines[0] == ["row", "table", "name", "probability", "novelty"]
            assert [line[1:3] for line in lines[1:3]] == [["1", "far, far"], ["0", ""]]
        else:
            found = read(output) if suffix == "jsonl" else parquet.read_table(output).to_pylist()
            assert [(row["table"], row["name"]) for row in found[:2]] == [(1, "far, far"), (0, None)]


def test_ids_are_no_labels_while_something_is_learned(tmp_path):
    source = write(tmp_path / "in.csv", columns() | {"who": ["", "0", *[""] * (N - 2)]})
    text = run(source, "--columns", "x,y", "--label-column", "who", "-o", tmp_path / "out.csv", code=1).stderr
    assert "in.csv, line 3, column 'who': labels says table 0, but ids are provisional" in text


def test_what_is_known_is_no_feature_and_is_copied_if_asked(source, tmp_path):
    told = ["--label-column", "who", "--cannot-link-column", "frame", "--exclude", "when"]
    known = KNOWN[2:]
    done = run(source, *told, *known, "-o", tmp_path / "out.csv", "--keep", "all")
    assert "features: x, y\n" in done.stderr
    assert (tmp_path / "out.csv").read_text().startswith("row,when,who,frame,x,y,table,")
    text = run(source, *told, *known, "--columns", "x,who", code=2).stderr
    assert "--columns must name each feature once, and not the columns of times, labels, marks and weights" in text
    clash = write(tmp_path / "in.jsonl", {"name": ["a"], "x": [0.0], "y": [0.0]})
    assert (
        "has 'name' among its columns, as the output has"
        in run(clash, *KNOWN, "--keep", "name", "--names", code=1).stderr
    )


def test_an_input_with_other_labels_is_not_resumed(source, tmp_path):
    kept = ["--label-column", "who", "--checkpoint", tmp_path / "state", "--resume", "--every", "50"]
    label(source, tmp_path / "out.csv", *kept)
    found = columns()
    found["who"][7] = "someone else"
    assert "it begins with other rows" in label(write(source, found), tmp_path / "out.csv", *kept, code=1).stderr

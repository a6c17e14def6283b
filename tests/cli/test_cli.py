"""The command line as a user meets it: output, files, exit codes."""

import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import dyncrp
from dyncrp import DynamicalMixture
from dyncrp.cli.app import app
from dyncrp.plots import timeline

runner = CliRunner()


def test_version():
    done = subprocess.run([sys.executable, "-m", "dyncrp", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"dyncrp {dyncrp.__version__}"


@pytest.mark.slow
def test_a_missing_extra_is_named():
    code = "import sys; sys.modules['typer'] = None; from dyncrp.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'dyncrp[cli]'" in done.stderr


@pytest.fixture
def rooms(tmp_path):
    """Three rooms that are visited in turn."""
    rng = np.random.default_rng(0)
    path = tmp_path / "rooms.csv"
    X = np.array([[-9.0, 0.0], [9.0, 9.0], [0.0, -9.0]])[np.arange(240) // 20 % 3] + rng.normal(size=(240, 2))
    stamps = np.datetime64("2024-01-01T00:00:00") + 30 * np.arange(240)
    path.write_text("when,x,y\n" + "".join(f"{t},{x:.3f},{y:.3f}\n" for t, (x, y) in zip(stamps, X, strict=True)))
    return path


def invoke(*arguments, code=0):
    done = runner.invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


TIMED = ["--columns", "x,y", "--time-column", "when"]


@pytest.mark.slow
def test_what_tune_prints_can_be_pasted(rooms, tmp_path):
    told = ["--set", "variance=1", "--dynamics", "exponential()", "--dynamics", "stationary()"]
    done = invoke("tune", rooms, *TIMED, *told, "--plot", tmp_path / "evidence.png")
    command, line = done.stdout.splitlines()
    assert " tables in 240 rows" in done.stderr
    assert (tmp_path / "evidence.png").read_bytes().startswith(b"\x89PNG")
    program, *arguments = shlex.split(command)
    assert program == "dyncrp"
    pasted = invoke(*arguments, "-o", "-").stdout
    assert pasted == invoke("run", rooms, *TIMED, *told, "-o", "-").stdout  # run learns the same
    model = eval(line, {name: getattr(dyncrp, name) for name in dyncrp.__all__})
    table = np.genfromtxt(rooms, delimiter=",", skip_header=1, dtype=str)
    model.fit(table[:, 1:].astype(float), times=table[:, 0].astype("M8[us]"))
    assert [line.split(",")[2] for line in pasted.splitlines()[1:]] == [str(label) for label in model.labels_]


def test_what_tune_prints_has_every_setting(rooms, tmp_path):
    told = ["--set", "variance=1", "--set", "prior_variance=50", "--dynamics", "stationary()", "--alpha", "1"]
    told += ["--set", "max_tables=5", "--set", "learn_alpha=true", "--set", "assignment=variational"]
    told += ["--set", "resolution=4"]  # is in the variance then
    command, line = invoke("tune", rooms, *TIMED, *told).stdout.splitlines()
    pasted = invoke(*shlex.split(command)[1:], "--save", tmp_path / "model.npz", "-o", "-").stdout
    assert pasted == invoke("run", rooms, *TIMED, *told, "-o", "-").stdout
    shown = json.loads(invoke("info", tmp_path / "model.npz", "--json").stdout)["options_to_paste"]
    for model in (
        DynamicalMixture.load(tmp_path / "model.npz"),
        eval(line, {name: getattr(dyncrp, name) for name in dyncrp.__all__}),
    ):
        assert model.max_tables == 5
        assert model.learn_alpha is True
        assert model.assignment == "variational"
        assert model.family.variance == 0.25
    assert "max_tables=5" in shown


@pytest.mark.slow
def test_tune_looks_at_the_warmup_only(rooms):
    with rooms.open("a") as file:
        file.write("later,x,y\n" * 100_000)  # which would be an error
    done = invoke(
        "tune", rooms, *TIMED, "--set", "variance=1", "--set", "warmup=100", "--dynamics", "stationary()", code=1
    )
    assert "line 242" in done.stderr  # it lies in the same chunk
    rooms.write_text("x\n1\n")
    assert "dyncrp: features: x" in invoke("tune", rooms, code=1).stderr
    assert "has 1 row, but at least 2 are needed" in invoke("tune", rooms, code=1).stderr


def test_run_draws_a_timeline(rooms, tmp_path, monkeypatch):
    known = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=50", "--alpha", "0.01"]
    known += ["--dynamics", "0.99*exponential(10m) + 0.01*stationary()"]
    done = invoke("run", rooms, *TIMED, *known, "-o", tmp_path / "out.csv", "--plot", tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
    assert "3 tables, log evidence" in done.stderr
    assert "0.99 * Exponential(timescale=600.0) + 0.01 * Stationary(), alpha 0.01" in done.stderr
    drawn = []
    monkeypatch.setattr(
        "dyncrp.plots.report", lambda _, *args, clusters, **rest: drawn.append(clusters) or timeline(*args)
    )
    again = ["-o", tmp_path / "again.csv", "--plot", tmp_path / "again.png"]
    invoke("run", rooms, *TIMED, *known, *again, "--clusters", "2")
    assert len(drawn[0]) == 2


def test_info_of_a_model(tmp_path):
    model = DynamicalMixture(dyncrp.Gaussian(1.0, 100.0), dyncrp.Exponential(50.0), 1.5).fit([[0.0], [9.0], [0.1]])
    model.save(tmp_path / "model.npz")
    text = invoke("info", tmp_path / "model.npz").stdout
    for line in ("kind:           model", "observations:   3", "tables:         2", "alpha:          1.5"):
        assert line in text.splitlines()
    assert "--dynamics 'Exponential(timescale=50.0)'" in text
    found = json.loads(invoke("info", tmp_path / "model.npz", "--json").stdout)
    assert found["log_evidence"] == model.log_evidence_
    assert [table["table"] for table in found["largest_tables"]] == [0, 1]
    clusters = model.clusters()
    assert found["clusters"] == len(clusters)
    assert [cluster["cluster"] for cluster in found["largest_clusters"]] == clusters.ids[
        np.argsort(-clusters.sizes)
    ].tolist()
    assert sum(cluster["rows"] for cluster in found["largest_clusters"]) == pytest.approx(3.0)
    assert f"clusters:       {len(clusters)}" in text.splitlines()
    assert any(line.startswith("largest clusters: 0 (") for line in text.splitlines())
    (tmp_path / "model.npz").write_bytes(b"PK")
    assert "is not a readable dyncrp model" in invoke("info", tmp_path / "model.npz", code=1).stderr
    assert "No such file" in invoke("info", tmp_path / "none", code=1).stderr


def test_info_leaves_clusters_out_where_they_take_long_or_are_unknown(tmp_path, monkeypatch):
    model = DynamicalMixture(dyncrp.Gaussian(1.0, 100.0), dyncrp.Stationary(), 1.0).fit([[0.0], [9.0]])
    model.save(tmp_path / "model.npz")
    monkeypatch.setattr("dyncrp.cli.info.MOST_TABLES_JOINED", 1)
    assert "clusters" not in invoke("info", tmp_path / "model.npz").stdout
    monkeypatch.undo()

    def unknown(stream):
        raise ValueError("the family does not say how wide tables are")

    monkeypatch.setattr("dyncrp.cli.info.clusters_of", unknown)
    assert "clusters" not in invoke("info", tmp_path / "model.npz", "--json").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "-"], "standard input needs --format"),
        (["run", "rows.xyz"], "rows.xyz has none of the suffixes .csv"),
        (["run", "rows.xls"], "rows.xls is a spreadsheet, which is not read: save the sheet as CSV"),
        (["run", "rooms.csv", "--sort-by-time"], "--sort-by-time needs --time-column"),
        (["run", "rooms.csv", "--format", "xls"], "--format must be one of csv, jsonl, json, parquet, npy"),
        (["run", "rooms.csv", "-o", "out.xls"], "the output must be csv, jsonl, parquet"),
        (["run", "rooms.csv", "-o", "-", "--output-format", "parquet"], "Parquet needs --output FILE"),
        (["run", "rooms.csv", "--resume"], "--resume needs --checkpoint FILE"),
        (["run", "rooms.csv", "-o", "-", "--checkpoint", "state"], "--checkpoint needs --output FILE"),
        (["run", "rooms.csv", "-o", "rooms.csv"], "--output and INPUT are the same file"),
        (["run", "rooms.csv", "-o", "a.csv", "--checkpoint", "./a.csv"], "--checkpoint and --output are the same file"),
        (["run", "rooms.csv", "-o", "a.pq", "--checkpoint", "a.pq.part"], "are the same file, a.pq.part"),
        (["run", "rooms.csv", "-o", "a.pq", "--save", "a.pq.whole"], "are the same file, a.pq.whole"),
        (["run", "rooms.csv", "-o", "missing/a.csv"], "there is no folder missing"),
        (["run", "rooms.csv", "--plot", "a.txt"], "must end in .png"),
        (["run", "rooms.csv", "--delimiter", "::"], "--delimiter must be one character"),
        (["run", "rooms.csv", "--delimiter", ""], "--delimiter must be one character"),
        (["run", "rooms.csv", "--decimal", ";"], "--decimal must be . or ,"),
        (["run", "rooms.csv", "--decimal", ",", "--delimiter", ","], "--decimal and --delimiter are both ','"),
        (["run", "rooms.csv", "--columns", "x,x"], "--columns must name each feature once"),
        (["run", "rooms.csv", "--keep", "x,x"], "--keep must name each column once"),
        (["run", "rooms.csv", "--dynamics", "exponential(2h)"], "without a time column, durations count rows"),
        (["run", "rooms.csv", "--columns", "x\ny"], "column names must be on one line"),
        (["run", "rooms.csv", "--dynamics", "exp(2)"], "unknown dynamics 'exp'"),
        (["run", "rooms.csv", "--alpha", "-1"], "alpha must be a positive finite number"),
        (["run", "rooms.csv", "--family", "cauchy"], "unknown family 'cauchy'"),
        (["run", "rooms.csv", "--every", "0"], "--every"),
        (["run", "rooms.csv", "--save", "rooms.clusters.csv"], "--save and --output are the same file"),
        (["run", "rooms.csv", "-o", "a.csv", "--save", "a.csv.new"], "are the same file, a.csv.new"),
        (["run", "rooms.csv", "--groups", "2"], "there is no option --groups: use --clusters, as in --clusters 3"),
        (["run", "rooms.csv", "--no-such-option"], "--no-such-option"),
        (["run"], "INPUT"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_code_2_and_does_nothing(rooms, monkeypatch, arguments, message):
    monkeypatch.chdir(rooms.parent)
    done = invoke(*arguments, code=2)
    assert message in done.stderr
    assert done.stdout == ""
    assert [path.name for path in rooms.parent.iterdir()] == ["rooms.csv"]


NO_NUMBERS = ("0", "00", "-1", "many", "", " 3", "3.0", "1e3", "1_0", "٣", "²", "nan", "inf", "no", "9" * 5000)


@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: text[:5])
def test_a_number_of_clusters_is_checked_before_anything_is_done(rooms, monkeypatch, text):
    monkeypatch.chdir(rooms.parent)
    done = invoke("run", "rooms.csv", "-o", "out.csv", "--clusters", text, code=2)
    assert done.stderr == f"dyncrp: --clusters must be auto, none or an integer ≥ 1, got {text!r}\n"
    assert [path.name for path in rooms.parent.iterdir()] == ["rooms.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "none.csv"], "dyncrp: none.csv: No such file or directory"),
        (["run", "rooms.csv", "--columns", "z"], "dyncrp: rooms.csv has no column 'z'; it has 'when', 'x', 'y'"),
        (
            ["run", "rooms.csv", "--columns", "when,x"],
            "dyncrp: rooms.csv, line 2, column 'when': '2024-01-01T00:00:00' is not a number",
        ),
        (["run", "rooms.csv", "--columns", "x", "--set", "variance=1,2"], "dyncrp: rooms.csv: variance has 2 entries"),
    ],
)
def test_bad_data_is_code_1_and_one_line(rooms, monkeypatch, arguments, message):
    monkeypatch.chdir(rooms.parent)
    done = invoke(*arguments, code=1)
    assert done.stderr.splitlines()[-1].startswith(message)


def test_what_is_clustered_is_said_unless_it_was_chosen(rooms, tmp_path):
    known = ["--set", "variance=1", "--set", "prior_variance=50", "--alpha", "1", "--dynamics", "stationary()"]
    assert "dyncrp: features: x, y\n" in invoke("run", rooms, "--time-column", "when", *known).stderr
    assert "features:" not in invoke("run", rooms, *TIMED, *known).stderr
    (tmp_path / "wide.csv").write_text(",".join(f"c{i}" for i in range(12)) + "\n" + ",".join("1" * 12) + "\n")
    assert "c8, c9, … (12 in all)\n" in invoke("run", tmp_path / "wide.csv", *known).stderr


def test_the_summary_is_short_and_exact(rooms, tmp_path):
    known = ["--set", "variance=1,2", "--set", "prior_variance=50", "--alpha", "1", "--dynamics", "stationary()"]
    done = invoke("run", rooms, *TIMED, *known, "--set", "max_tables=2", "-o", "/dev/null", "--output-format", "csv")
    assert "2 tables open, of 12 opened, log evidence" in done.stderr
    assert "Gaussian(variance=[1, 2], prior_variance=50.0, prior_mean=0.0), Stationary()" in done.stderr
    (tmp_path / "few.csv").write_text("x,y\n" + "".join(f"{i % 2 * 9},{i % 3 / 9}\n" for i in range(19)))
    some = ["--set", "variance=1", "--dynamics", "stationary()"]
    done = invoke("run", tmp_path / "few.csv", *some)
    assert "from the first 19 rows" in done.stderr
    assert re.search(r"dyncrp: 19 rows in [\d.]+ s, including learning the hyperparameters\n", done.stderr)
    done = invoke(
        "run", tmp_path / "few.csv", *some, "--set", "warmup=10", "--every", "15", "-o", tmp_path / "few-out.csv"
    )
    assert re.search(
        r"s, including learning the hyperparameters \([\d,]+ per second after the first 14\)\n", done.stderr
    )
    kept = ["-o", tmp_path / "out.csv", "--checkpoint", tmp_path / "state"]
    invoke("run", rooms, *TIMED, *known, *kept)
    names = [line.partition(":")[0] for line in invoke("info", tmp_path / "state").stdout.splitlines()]
    assert len(names) == len(set(names))


def test_a_device_is_never_replaced_by_a_file(rooms, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "null").symlink_to("/dev/null")  # the link would be replaced, should this test fail
    os.mkfifo(tmp_path / "fifo")
    known = [*TIMED, "--set", "variance=1", "--set", "prior_variance=50", "--alpha", "1", "--dynamics", "stationary()"]
    before = sorted(tmp_path.iterdir())
    for options, message in (
        (["-o", "null", "--output-format", "parquet"], "Parquet needs --output FILE"),
        (["-o", "null", "--output-format", "csv", "--checkpoint", "state"], "--checkpoint needs --output FILE"),
        (["--save", "fifo"], "--save needs a regular file, and fifo is not one"),
        (["-o", "out.csv", "--checkpoint", "fifo"], "--checkpoint needs a regular file, and fifo is not one"),
    ):
        assert message in invoke("run", rooms, *known, *options, code=2).stderr
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "null").is_symlink()
    assert (tmp_path / "fifo").is_fifo()


def test_progress_on_a_terminal_and_elsewhere(rooms, monkeypatch):
    known = ["--set", "variance=1", "--set", "prior_variance=50", "--alpha", "1", "--dynamics", "stationary()"]
    monkeypatch.setattr("dyncrp.cli.display.PLAIN_EVERY", 0.0)
    monkeypatch.setattr("dyncrp.cli.run.MOST_ROWS_IN_CHUNK", 100)
    done = invoke("run", rooms, *TIMED, *known)
    assert "dyncrp: 199 rows, " in done.stderr
    assert "3 tables, 0 s left" in done.stderr
    assert invoke("run", rooms, *TIMED, *known, "--quiet").stderr == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "━" in invoke("run", rooms, *TIMED, *known).stderr


def test_parquet_without_arrow_is_named_and_csv_needs_none(rooms, tmp_path, monkeypatch):
    known = ["--set", "variance=1", "--set", "prior_variance=50", "--alpha", "1", "--dynamics", "stationary()"]
    wanted = invoke("run", rooms, *TIMED, *known, "-o", "-").stdout
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert invoke("run", rooms, *TIMED, *known, "-o", "-").stdout == wanted
    assert (
        "pip install 'dyncrp[cli]'" in invoke("run", rooms, *TIMED, *known, "-o", tmp_path / "a.parquet", code=1).stderr
    )
    assert "pip install 'dyncrp[cli]'" in invoke("run", rooms, "--format", "parquet", code=1).stderr


SMALL = ["--columns", "x,y", "--set", "variance=1", "--set", "prior_variance=50", "--alpha", "1"]
SMALL += ["--dynamics", "stationary()"]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.npz"
    DynamicalMixture(dyncrp.Gaussian(1.0, 100.0), dyncrp.Stationary(), 1.0).fit([[0.0], [9.0]]).save(path)
    return path


def shell(command):
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    return done


def dyncrp_command(*arguments):
    return shlex.join([sys.executable, "-m", "dyncrp", *map(str, arguments)])


@pytest.mark.slow
def test_a_closed_standard_error_leaves_the_data_alone(rooms):
    done = shell(dyncrp_command("run", rooms, *SMALL, "-o", "-") + " 2>&-")
    assert done.returncode == 0
    assert "dyncrp" not in done.stdout
    assert len(done.stdout.splitlines()) == 241
    assert shell(dyncrp_command("run", rooms, "--columns", "z") + " 2>&-").stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "where"), [("run", ">&-"), ("info", ">&-"), ("run", ">/dev/full"), ("tune", ">/dev/full")]
)
def test_a_standard_output_that_takes_nothing(rooms, saved, command, where):
    arguments = [saved] if command == "info" else [rooms, *SMALL, *["-o", "-"] * (command == "run")]
    done = shell(f"{dyncrp_command(command, *arguments)} {where}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("dyncrp: standard output")


def test_files_beside_a_parquet_output_are_not_replaced(rooms, tmp_path):
    for name in ("out.parquet.whole", "out.parquet.part"):
        (tmp_path / name).write_text("mine")
        done = invoke("run", rooms, *SMALL, "-o", tmp_path / "out.parquet", code=2)
        assert f"{name} exists: use --force" in done.stderr
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()

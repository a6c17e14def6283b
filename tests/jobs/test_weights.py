"""``dyncrp run --weight-column``: rows that count as several, or as none."""

import csv
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from dyncrp import DynamicalMixture, Exponential, Gaussian, Stationary
from dyncrp.cli.app import app

runner = CliRunner()
N = 300
KNOWN = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=100", "--alpha", "1"]
KNOWN += ["--dynamics", "exponential(90)", "--clusters", "none"]


def columns():
    rng = np.random.default_rng(1)
    X = rng.normal(9.0 * rng.integers(0, 4, (N, 1)), 1.0, size=(N, 2))
    weights = np.append(1.0, rng.choice([0.0, 0.5, 1.0, 12.0], N - 1))
    return {"x": X[:, 0].tolist(), "w": weights.tolist(), "y": X[:, 1].tolist()}


def write(path, found):
    rows = list(zip(*found.values(), strict=True))
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([list(found), *rows])
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(found, row, strict=True))) + "\n" for row in rows))
    elif path.suffix == ".npy":
        np.save(path, np.array(rows))
    else:
        parquet.write_table(pa.table(found), path)
    return path


def run(*arguments, code=0):
    done = runner.invoke(app, ["run", *map(str, arguments)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


def tables(path):
    return [int(row["table"]) for row in csv.DictReader(path.read_text().splitlines())]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".npy"])
def test_the_column_is_that_of_sample_weight_and_no_feature(tmp_path, suffix):
    found = columns()
    source, output = write(tmp_path / f"in{suffix}", found), tmp_path / "out.csv"
    run(source, "--weight-column", "1" if suffix == ".npy" else "w", "-o", output, "--save", tmp_path / "m.npz", *KNOWN)
    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(90.0), 1.0)
    model.fit(np.column_stack([found["x"], found["y"]]), sample_weight=found["w"])
    assert tables(output) == model.labels_.tolist()
    assert -1 in tables(output)
    saved = DynamicalMixture.load(tmp_path / "m.npz")
    assert saved.n_features_in_ == 2
    np.testing.assert_array_equal(saved.centers_, model.centers_)


def test_a_run_is_resumed_with_the_same_column(tmp_path):
    found = columns()
    source, half = write(tmp_path / "in.csv", found), {name: cells[:170] for name, cells in found.items()}
    output, again = tmp_path / "out.csv", tmp_path / "again.csv"
    run(source, "--weight-column", "w", "-o", output, *KNOWN)
    told = ["--checkpoint", tmp_path / "c.npz", "-o", again, "--resume", *KNOWN]
    run(write(tmp_path / "in.csv", half), "--weight-column", "w", *told)
    write(tmp_path / "in.csv", found)
    done = run(source, "--columns", "x,y", *told, code=2)
    assert "--columns was None" in done.output
    done = run(source, *told, code=2)
    assert "--weight-column was 'w' at the checkpoint, but is None now" in done.output.replace("\n", " ")
    run(source, "--weight-column", "w", *told)
    assert again.read_text() == output.read_text()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("-2", "'-2' is not a weight, which is a number from 0 to 1e+09"),
        ("heavy", "'heavy' is not a weight"),
        ("inf", "'inf' is not a weight"),
        ("", "the weight is missing"),
        ("1e10", "'1e10' is not a weight"),
    ],
)
def test_a_bad_cell_is_named_or_skipped(tmp_path, cell, message):
    found = columns()
    found["w"][7] = cell
    source, output = write(tmp_path / "in.csv", found), tmp_path / "out.csv"
    done = run(source, "--weight-column", "w", "-o", output, *KNOWN, code=1)
    assert f"line 9, column 'w': {message}" in done.output
    assert "; --skip-bad skips such rows" in " ".join(done.output.split())
    run(source, "--weight-column", "w", "-o", output, "--skip-bad", "--force", *KNOWN)
    assert len(tables(output)) == N - 1


def test_weights_may_be_decimals(tmp_path):
    found = columns()
    plain, output, other = write(tmp_path / "plain.parquet", found), tmp_path / "out.csv", tmp_path / "other.csv"
    source = write(tmp_path / "in.parquet", found | {"w": [Decimal(str(weight)) for weight in found["w"]]})
    run(plain, "--weight-column", "w", "-o", output, *KNOWN)
    run(source, "--weight-column", "w", "-o", other, *KNOWN)
    assert other.read_text() == output.read_text()


def test_rows_before_the_first_that_has_a_weight_have_no_table(tmp_path):
    found = columns()
    found["w"][:2] = [0.0, 0.0]
    source, output = write(tmp_path / "in.csv", found), tmp_path / "out.csv"
    run(source, "--weight-column", "w", "-o", output, *KNOWN)
    tables = [line.split(",")[1] for line in output.read_text().splitlines()[1:]]
    assert tables[:3] == ["-1", "-1", "0"]


def test_names_do_not_depend_on_cuts(tmp_path):
    """Rows without a table have no name, whatever labels say. A name passes from table to table as they close."""
    rows = [
        (0, 1, "a"),
        (50, 1, ""),
        (0, 1, 0),
        (60, 1, ""),
        (0, 1, 0),
        (70, 1, ""),
        (90, 0, "b"),
        (95, 0, ""),
        (91, 1, "b"),
    ]
    source = write(tmp_path / "in.csv", dict(zip("xwl", zip(*rows, strict=True), strict=True)))
    told = ["--weight-column", "w", "--label-column", "l", "--names", "--set", "max_tables=1", "--alarm-rate", "0.5"]
    for name, more in (("whole", []), ("cut", ["--checkpoint", tmp_path / "state", "--every", "1"])):
        run(source, *told, *more, "-o", tmp_path / f"{name}.csv", "--events", tmp_path / f"{name}.jsonl", *KNOWN)
    found = [
        (int(row["table"]), row["name"]) for row in csv.DictReader((tmp_path / "whole.csv").read_text().splitlines())
    ]
    assert found == [(0, "a"), (1, ""), (2, "a"), (3, ""), (4, "a"), (5, ""), (-1, ""), (-1, ""), (6, "b")]
    for suffix in ("csv", "jsonl"):
        assert (tmp_path / f"cut.{suffix}").read_text() == (tmp_path / f"whole.{suffix}").read_text()


def test_options_that_do_not_fit(tmp_path):
    source = write(tmp_path / "in.csv", columns())
    done = run(source, "--weight-column", "w", "--columns", "x,w", "-o", tmp_path / "out.csv", *KNOWN, code=2)
    assert "--columns must name each feature once" in done.output
    assert "has no column 'v'" in run(source, "--weight-column", "v", "-o", tmp_path / "o.csv", *KNOWN, code=1).output


def test_weights_of_the_first_rows_are_kept_and_the_decimal_mark_is_theirs(tmp_path):
    found = columns()
    model = DynamicalMixture(Gaussian(), Stationary(), 1.0, warmup=100)
    model.fit(np.column_stack([found["x"], found["y"]]), sample_weight=found["w"])
    found["w"] = [str(weight).replace(".", ",") for weight in found["w"]]
    source, output = write(tmp_path / "in.csv", found), tmp_path / "out.csv"
    found |= {name: [str(number).replace(".", ",") for number in found[name]] for name in "xy"}
    with source.open("w", newline="") as file:
        rows = zip(*found.values(), strict=True)
        csv.writer(file, delimiter=";", lineterminator="\n").writerows([list(found), *rows])
    told = ["--family", "gaussian", "--dynamics", "stationary()", "--alpha", "1", "--set", "warmup=100"]
    run(source, "--weight-column", "w", "--decimal", ",", "-o", output, "--clusters", "none", *told)
    assert tables(output) == model.labels_.tolist()

"""``dyncrp run --as-of-arrival``: clusters as known when the rows came, however a run is stopped and resumed."""

import csv
import json

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from dyncrp import DynamicalMixture
from dyncrp.cli.app import app

KNOWN = ["--set", "variance=1", "--set", "prior_variance=400", "--alpha", "1", "--dynamics", "stationary()"]


def invoke(*arguments, code=0):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


@pytest.fixture
def source(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(np.array([[0, 0], [30, 0], [0, 40]])[rng.integers(3, size=800)], [3, 1])
    path = tmp_path / "in.csv"
    path.write_text("x,y\n" + "".join(f"{x!r},{y!r}\n" for x, y in rows.tolist()))
    return path


def clusters_of(path):
    if path.suffix == ".parquet":
        return parquet.read_table(path)["cluster"].to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line)["cluster"] for line in path.read_text().splitlines()]
    return [int(row["cluster"]) for row in csv.DictReader(path.read_text().splitlines())]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_clusters_are_those_that_were_known_when_the_rows_came(suffix, source, tmp_path):
    X = np.loadtxt(source, delimiter=",", skiprows=1)
    then, end, events = tmp_path / f"then.{suffix}", tmp_path / f"end.{suffix}", tmp_path / "events.jsonl"
    model = tmp_path / "model.npz"
    done = invoke("run", source, *KNOWN, "-o", then, "--as-of-arrival", "--events", events, "--save", model)
    assert "clusters joined" in done.stderr
    assert "the table of each row and its cluster as known when it came are in" in " ".join(done.stderr.split())
    invoke("run", source, *KNOWN, "-o", end)
    learned = DynamicalMixture(family=DynamicalMixture.load(model).family_, keep_clusters=True).fit(X)
    assert clusters_of(then) == learned.stream_.batch.clusters.tolist() != clusters_of(end)
    assert clusters_of(end) == learned.clusters().labels(learned.labels_).tolist()
    told = [json.loads(line) for line in events.read_text().splitlines()]
    assert [event["what"] for event in told] == [event.what for event in learned.events_]
    assert [event["cluster"] for event in told] == [event.cluster for event in learned.events_]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_finished_output_is_continued(suffix, source, tmp_path):
    whole, part = tmp_path / f"whole.{suffix}", tmp_path / f"part.{suffix}"
    invoke("run", source, *KNOWN, "-o", whole, "--as-of-arrival")
    text = source.read_text()
    kept = ["--checkpoint", tmp_path / "state", "--resume", "--every", 100]
    for n_lines in (101, 450, 801):
        source.write_text("".join(text.splitlines(keepends=True)[:n_lines]))
        invoke("run", source, *KNOWN, "-o", part, "--as-of-arrival", *kept)
    assert clusters_of(part) == clusters_of(whole)
    done = invoke("run", source, *KNOWN, "-o", part, *kept, code=2)
    assert "at the checkpoint, but is" in done.stderr


def test_a_pipe_gets_clusters_too(source):
    lines = invoke("run", source, *KNOWN, "-o", "-", "--as-of-arrival", "-q").stdout.splitlines()
    assert lines[0] == "row,table,probability,novelty,cluster"
    assert len({line.split(",")[-1] for line in lines[-50:]}) <= 4


def test_a_model_must_keep_its_clusters(source, tmp_path):
    plain, keeping = tmp_path / "plain.npz", tmp_path / "keeping.npz"
    invoke("run", source, *KNOWN, "-o", "-", "-q", "--save", plain)
    invoke("run", source, *KNOWN, "-o", "-", "-q", "--save", keeping, "--set", "keep_clusters=true")
    done = invoke("run", source, "--model", plain, "-o", tmp_path / "o.csv", "--as-of-arrival", code=2)
    wanted = "--as-of-arrival needs a model that keeps its clusters: plain.npz was learned without --as-of-arrival"
    assert wanted in " ".join(done.stderr.split()).replace(str(plain), plain.name)
    invoke("run", source, "--model", keeping, "-o", tmp_path / "o.csv", "--as-of-arrival")
    told = "keep_clusters=false"
    done = invoke("run", source, *KNOWN, "--set", told, "-o", tmp_path / "p.csv", "--as-of-arrival", code=2)
    assert "keep_clusters=true" in done.stderr


def test_rows_of_closed_tables_have_the_cluster_that_lives_on(source, tmp_path):
    closing = ["--set", "max_tables=6"]
    invoke("run", source, *KNOWN, *closing, "-o", tmp_path / "plain.csv")
    invoke("run", source, *KNOWN, *closing, "-o", tmp_path / "keeping.csv", "--set", "keep_clusters=true")
    plain, keeping = (np.array(clusters_of(tmp_path / f"{name}.csv")) for name in ("plain", "keeping"))
    assert np.sum(keeping < 0) < np.sum(plain < 0)
    np.testing.assert_array_equal(keeping[plain >= 0], plain[plain >= 0])

"""A sweep gives the same table whoever does the work, and goes on where it was stopped."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("rich")

from experiments.store import Table
from experiments.streams import GaussianStream

from experiments import streams, sweep

KIND = GaussianStream
STREAMS = streams.grid(KIND, seeds=2, alpha=(5.0,), n_features=(2,), prior_variance=(100.0,), variance=(5.0,), n=(60,))
NAMES = ("D-CRP", "k-means", "Gibbs")
ROOT = Path(__file__).parents[2]


def table(path):
    return Table(path / "some.parquet", streams.schema(KIND), streams.key(KIND))


def options(*arguments):
    return sweep.parser("some", None, NAMES).parse_args(["--n-jobs", "2", *arguments])


def run(path, backend):
    results = table(path)
    return sweep.run(
        streams.compare_systems, sweep.pending(STREAMS, NAMES, results), results, options("--backend", backend)
    )


@pytest.fixture(scope="module")
def sequential(tmp_path_factory):
    """The table of a plain loop."""
    results = table(tmp_path_factory.mktemp("loop"))
    with results.writing():
        for stream in STREAMS:
            results.append(streams.compare_systems(stream, NAMES))
    return results.read()


def assert_same(frame, other):
    assert len(frame) == len(STREAMS) * len(NAMES)
    for column in frame.columns.drop("cpu_seconds"):
        assert [str(value) for value in frame[column]] == [str(value) for value in other[column]], column


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_backends_agree_to_the_bit(backend, sequential, tmp_path):
    assert_same(run(tmp_path, backend), sequential)


@pytest.mark.slow
def test_ray_with_two_workers_agrees_to_the_bit(sequential, tmp_path):
    """In a process of its own, because Ray changes joblib for good."""
    pytest.importorskip("ray")
    folders = [str(ROOT), str(Path(__file__).parent)]
    call = f"import sys; sys.path[:0] = {folders}; import pathlib, test_sweep; "
    call += f"test_sweep.run(pathlib.Path({str(tmp_path)!r}), 'ray')"
    done = subprocess.run([sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(table(tmp_path).read(), sequential)


@pytest.mark.slow
def test_a_stopped_run_goes_on_with_what_is_missing(sequential, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "BATCH", 1)
    results = table(tmp_path)
    calls = []

    def fails(stream, names):
        calls.append(stream)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return streams.compare_systems(stream, names)

    alone = options("--backend", "threading", "--n-jobs", "1")
    with pytest.raises(KeyboardInterrupt):
        sweep.run(fails, sweep.pending(STREAMS, NAMES, results), results, alone)
    left = sweep.pending(STREAMS, NAMES, results)
    assert [stream for stream, _ in left] == STREAMS[3:]
    assert_same(sweep.run(streams.compare_systems, left, results, alone), sequential)
    assert sweep.pending(STREAMS, NAMES, results) == []


def test_only_the_systems_that_are_missing_run(tmp_path):
    results = table(tmp_path)
    with results.writing():
        results.append(streams.compare_systems(STREAMS[0], ["D-CRP"]))
    tasks = sweep.pending(STREAMS[:2], ("D-CRP", "k-means"), results)
    assert tasks == [(STREAMS[0], ("k-means",)), (STREAMS[1], ("D-CRP", "k-means"))]


def test_the_slowest_systems_have_the_first_seed_only(tmp_path):
    tasks = sweep.pending(STREAMS, ("D-CRP", "dd-CRP"), table(tmp_path), {"dd-CRP": 1})
    assert [names for _, names in tasks] == [("D-CRP", "dd-CRP")] * 4 + [("D-CRP",)] * 4


def test_systems_can_be_chosen():
    assert sweep.chosen(options(), NAMES) == list(NAMES)
    assert sweep.chosen(options("--systems", "fast"), NAMES) == ["D-CRP", "k-means"]
    assert sweep.chosen(options("--only", "Gibbs", "--only", "D-CRP"), NAMES) == ["Gibbs", "D-CRP"]


def test_quick_results_do_not_mix_with_full_ones(tmp_path):
    assert sweep.output(options()) == ROOT / "experiments"
    assert sweep.output(options("--quick")) == ROOT / "experiments" / "quick"
    assert sweep.output(options("--quick", "--output", str(tmp_path))) == tmp_path

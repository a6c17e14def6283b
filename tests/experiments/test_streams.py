"""What is measured on a stream depends on nothing but the stream and the system."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from experiments.streams import DirectionStream, GaussianStream

from dyncrp import DynamicalMixture
from experiments import gaussians, sphere, streams

STREAM = GaussianStream("exponential", 5.0, 3, 100.0, 5.0, seed=0, n=100)
DIRECTION = DirectionStream("oscillatory", 5.0, 3, 50.0, seed=0, n=100)


def timeless(rows):
    return [{name: np.array(value).tolist() for name, value in row.items() if name != "cpu_seconds"} for row in rows]


@pytest.mark.parametrize("module", [gaussians, sphere])
def test_the_grids_are_those_of_the_paper(module):
    assert len(set(module.FULL)) == 3600
    assert {stream.n for stream in module.FULL} == {1000}
    assert {stream.dynamics for stream in module.FULL[:4]} == set(streams.DYNAMICS)


def test_the_kernels_are_those_of_the_paper():
    kernels = [dynamics.kernel(10.0) for dynamics in streams.DYNAMICS.values()]
    np.testing.assert_allclose(kernels, [1.0, np.exp(-0.5), (1 + np.cos(1.5)) / 2, 1 / 1.5], rtol=1e-5)


def test_systems_are_those_that_can_do_it():
    assert "variational" in streams.systems(GaussianStream)
    assert "variational" not in streams.systems(DirectionStream)
    assert {"D-CRP", "R-CRP", "Gibbs", "k-means"} <= set(streams.systems(DirectionStream))


@pytest.mark.parametrize("stream", [STREAM, DIRECTION])
def test_streams_differ_by_any_field_and_are_the_same_each_time(stream):
    first = streams.draw(stream).observations
    np.testing.assert_array_equal(first, streams.draw(replace(stream)).observations)
    np.testing.assert_array_equal(first, streams.draw(replace(stream, alpha=int(stream.alpha))).observations)
    assert not np.array_equal(first, streams.draw(replace(stream, seed=1)).observations)


@pytest.mark.slow
def test_a_system_does_not_mind_its_neighbours():
    names = ["D-CRP", "k-means", "DP-means, online"]
    together = streams.compare_systems(STREAM, names)
    apart = [row for name in reversed(names) for row in streams.compare_systems(STREAM, [name])]
    assert timeless(together) == timeless(apart[::-1])
    assert [row["system"] for row in together] == names


def test_a_row_says_what_happened():
    (row,) = streams.compare_systems(STREAM, ["D-CRP"])
    X, truth, _ = streams.draw(STREAM)
    model = DynamicalMixture(STREAM.family, streams.DYNAMICS[STREAM.dynamics], STREAM.alpha).fit(X)
    assert set(row) == set(streams.schema(GaussianStream).names)
    assert row["n_clusters"] == model.n_tables_ == row["created"][-1]
    assert row["n_true"] == len(np.unique(truth)) == row["created_truly"][-1]
    assert row["log_evidence"] == model.log_evidence_
    assert row["cpu_seconds"] > 0


def test_the_dynamics_told_are_used_and_their_evidence_kept():
    rows = streams.compare_dynamics(STREAM, list(streams.DYNAMICS))
    assert len({row["log_evidence"] for row in rows}) == 4
    (truly,) = streams.compare_systems(STREAM, ["D-CRP"])
    assert rows[1]["ami"] == truly["ami"]


def test_clusters_are_counted_as_they_come():
    labels = np.repeat([3, 1, 3, 0], 25)
    curve = streams.created(labels)
    assert curve.shape == (streams.CHECKPOINTS,)
    assert curve[[11, 12, 36, 37, -1]].tolist() == [1, 2, 2, 3, 3]


def test_an_error_says_where_it_happened():
    with pytest.raises(ValueError, match="name must be one of") as caught:
        streams.compare_systems(STREAM, ["no such system"])
    assert caught.value.__notes__ == [f"no such system on {STREAM}"]

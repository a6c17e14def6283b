"""The built-in stream: visits to clusters, old and new, and the same stream for the same seed."""

import numpy as np
import pytest

from dyncrp.jobs import demo


def test_a_seed_gives_the_same_stream():
    first, second = demo.sample_stream(200, seed=3), demo.sample_stream(200, seed=3)
    assert np.array_equal(first.observations, second.observations)
    assert not np.array_equal(first.observations, demo.sample_stream(200, seed=4).observations)


def test_clusters_are_numbered_as_they_appear_and_come_back():
    labels = demo.sample_stream(1500, seed=0).labels
    opened = np.maximum.accumulate(labels)
    assert np.all(np.diff(opened) <= 1)
    assert np.any(np.diff(labels) < 0)


def test_visits_last_as_long_as_they_should():
    lengths = [1500 / (1 + np.count_nonzero(np.diff(demo.sample_stream(1500, seed).labels))) for seed in range(40)]
    error = np.std(lengths, ddof=1) / np.sqrt(len(lengths))
    assert abs(np.mean(lengths) - demo.MEAN_VISIT_LENGTH) < 4.0 * error  # a visit cut off by the end counts


@pytest.mark.slow
def test_every_system_labels_every_row():
    stream = demo.sample_stream(80, seed=1)
    for model in demo.cluster(stream).values():
        assert model.labels_.shape == (80,)

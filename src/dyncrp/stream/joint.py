"""The joint log probability of a whole stream and a given partition of it, under the hyperparameters of a stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyncrp.arrays.checks import Clock, as_times
from dyncrp.arrays.partitions import as_partition
from dyncrp.engine.joint import log_joint as joint_of_rows
from dyncrp.engine.types import Model, Rows
from dyncrp.families.base import check_rows
from dyncrp.stream.stream import Stream


def log_joint(stream: Stream, X: Any, labels: Any, times: Any = None) -> float:
    """Return log p(X, labels), as if X were a stream from its beginning; see ``DynamicalMixture.log_joint``.

    The hyperparameters are those in use, or those given if the stream has no rows yet. The stream does not change.
    """
    model, rows = _read(stream, X, Clock.of(times))
    t = np.arange(len(rows), dtype=np.float64) if times is None else as_times(times, n=len(rows))
    return joint_of_rows(model, rows, t, as_partition(labels, len(rows)))


def _read(stream: Stream, X: Any, clock: Clock) -> tuple[Model, Rows]:
    """Return the model, with nothing unknown, and the rows of X as its family takes them."""
    if stream.started:
        learner = stream.learner
        if (learner.clock, clock) != (Clock.INDEX, Clock.NUMBERS):  # an index is a number too
            learner.clock.check(clock)
        family = learner.family
        model = Model(family, learner.dynamics, learner.alpha, learner.engine.model.memory)
        return model, stream.input.read_to_predict(X, family, learner.engine.n_features)
    input, spec = stream.input.begin(X, stream.spec)
    given = spec.given
    if given is None:
        raise ValueError(
            "log_joint needs known hyperparameters: give the family, dynamics and alpha, or fit the model first, got "
            f"family={spec.params['family']!r}, dynamics={spec.params['dynamics']!r}, alpha={spec.params['alpha']!r}"
        )
    spec.check_clock(clock)
    if input.holds_words(X, given.family):
        return given, input.read_to_predict(X, given.family, 0)
    return given, check_rows(given.family, input.read(X, given.family)[0])

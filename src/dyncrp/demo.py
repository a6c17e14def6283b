"""The built-in job: a stream whose clusters come, go and come back, and what two models make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dyncrp.datasets import Mixture, sample_mixture
from dyncrp.dynamics import Dynamics, Exponential, Stationary
from dyncrp.families import Gaussian
from dyncrp.metrics import Agreement, agreement
from dyncrp.mixture import DynamicalMixture
from dyncrp.process import DynamicalCRP

ALPHA = 0.012
FAMILY = Gaussian(variance=1.0, prior_variance=6.0)
# Sticky now, but a table is never forgotten for good.
DYNAMICS: Dynamics = 0.99995 * Exponential(2.0) + 0.00005 * Stationary()
CHUNK = 25


@dataclass(frozen=True)
class Outcome:
    """What one model found: its labels (N,), how well they agree with the truth, its evidence and its speed."""

    labels: NDArray[np.int64]
    agreement: Agreement
    log_evidence: float
    rate: float


def sample_stream(n: int, seed: int) -> Mixture:
    """Draw n observations in two dimensions."""
    process = DynamicalCRP(ALPHA, DYNAMICS)
    return sample_mixture(process, FAMILY, np.arange(n), seed=seed, n_features=2)


def cluster(stream: Mixture, dynamics: Dynamics, progress: Callable[[int], object]) -> Outcome:
    """Cluster the stream chunk by chunk, calling ``progress`` with the size of each; all but the dynamics is known."""
    model = DynamicalMixture(FAMILY, dynamics, alpha=ALPHA)
    labels = []
    seconds = 0.0
    for start in range(0, len(stream.labels), CHUNK):
        chunk = stream.observations[start : start + CHUNK]
        begin = perf_counter()
        model.partial_fit(chunk)
        seconds += perf_counter() - begin
        labels.append(model.labels_)
        progress(len(chunk))
    found = np.concatenate(labels)
    return Outcome(found, agreement(stream.labels, found), model.log_evidence_, len(found) / seconds)

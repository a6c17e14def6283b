"""The built-in jobs: streams whose clusters come, go and come back, and what several models make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from dyncrp.datasets import Mixture, Rooms, rooms, sample_mixture
from dyncrp.dynamics import Dynamics, Exponential, Stationary
from dyncrp.families import Bernoulli, Gaussian
from dyncrp.metrics import Agreement, Returns, agreement, returns
from dyncrp.mixture import DynamicalMixture
from dyncrp.process import DynamicalCRP

ALPHA = 0.012
FAMILY = Gaussian(variance=1.0, prior_variance=6.0)
# Sticky now, but a table is never forgotten for good.
DYNAMICS: Dynamics = 0.99995 * Exponential(2.0) + 0.00005 * Stationary()
MODELS: dict[str, Dynamics] = {"right dynamics": DYNAMICS, "plain CRP": Stationary()}
CHUNK = 25

N_ROOMS = 6
SIGHTINGS = Bernoulli(a=0.01, b=0.3)  # most landmarks are out of sight
# Dynamics, and an alpha with which some ten places are expected of 3,000 steps.
ROOM_MODELS: dict[str, tuple[Dynamics, float]] = {
    "sticky": (0.999 * Exponential(5.0) + 0.001 * Stationary(), 0.02),
    "exponential": (Exponential(20.0), 0.07),
    "plain CRP": (Stationary(), 1.5),
}


@dataclass(frozen=True)
class Places:
    """What one model made of a building: labels (N,), agreement with the rooms, returns to them, and evidence."""

    labels: NDArray[np.int64]
    agreement: Agreement
    returns: Returns
    log_evidence: float


def sample_rooms(n: int, seed: int) -> Rooms:
    """Draw a building and n steps through it."""
    return rooms(n, n_rooms=N_ROOMS, seed=seed)


def find_rooms(house: Rooms, dynamics: Dynamics, alpha: float) -> Places:
    """Cluster what was seen on a walk."""
    model = DynamicalMixture(SIGHTINGS, dynamics, alpha).fit(house.visibility)
    back = returns(house.rooms, model.labels_, ignore=[0])
    return Places(model.labels_, agreement(house.rooms, model.labels_), back, model.log_evidence_)


@dataclass(frozen=True)
class Outcome:
    """What one model found: labels (N,), responsibilities (N, K), agreement with the truth, evidence and speed."""

    labels: NDArray[np.int64]
    responsibilities: csr_array
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
    labels, shares = [], []
    seconds = 0.0
    for start in range(0, len(stream.labels), CHUNK):
        chunk = stream.observations[start : start + CHUNK]
        begin = perf_counter()
        model.partial_fit(chunk)
        seconds += perf_counter() - begin
        labels.append(model.labels_)
        shares.append(model.responsibilities_.copy())
        progress(len(chunk))
    for share in shares:
        share.resize(share.shape[0], model.n_tables_)
    found = np.concatenate(labels)
    score = agreement(stream.labels, found)
    return Outcome(found, vstack(shares), score, model.log_evidence_, len(found) / seconds)


def mean_ami(n: int, seeds: range, dynamics: Dynamics, progress: Callable[[int], object]) -> tuple[float, float]:
    """Return the mean AMI over streams of n observations, one a seed, and its standard error."""
    scores = [cluster(sample_stream(n, seed), dynamics, progress).agreement.ami for seed in seeds]
    return float(np.mean(scores)), float(np.std(scores, ddof=1) / np.sqrt(len(scores)))

"""The built-in demonstrations: a stream and a building with known clusters, and what several models find in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from dyncrp.datasets import Mixture, Rooms, rooms
from dyncrp.dynamics import Dynamics, Exponential, Stationary
from dyncrp.estimator import DynamicalMixture
from dyncrp.families import Bernoulli, Gaussian
from dyncrp.metrics import Agreement, Returns, agreement, returns

FAMILY = Gaussian(variance=1.0, prior_variance=25.0)  # the family of the stream
MEAN_VISIT_LENGTH = 25.0  # observations
NEW_CLUSTER_PROBABILITY = 0.12  # that a visit goes to a cluster not seen before
OTHER_SEEDS = range(20)


class System(NamedTuple):
    """A model in the comparison. given: what it knows of the truth. make: returns it for a stream."""

    given: str
    make: Callable[[Mixture], Any]


GIVEN_NOTHING = "DynamicalMixture()"  # the model whose clusters are drawn
SYSTEMS = {
    GIVEN_NOTHING: System("nothing", lambda stream: DynamicalMixture()),
    "plain CRP": System("variances", lambda stream: DynamicalMixture(FAMILY, Stationary(), alpha=1.0)),
    "k-means, offline": System(
        "number of clusters", lambda stream: KMeans(len(stream.parameters), n_init=10, random_state=0)
    ),
}

N_ROOMS = 6
SIGHTINGS = Bernoulli(a=0.01, b=0.3)  # most landmarks are out of sight
# Dynamics, each with an alpha for which some ten places are expected in 3,000 steps.
ROOM_MODELS: dict[str, tuple[Dynamics, float]] = {
    "sticky": (0.999 * Exponential(5.0) + 0.001 * Stationary(), 0.02),
    "exponential": (Exponential(20.0), 0.07),
    "plain CRP": (Stationary(), 1.5),
}


@dataclass(frozen=True)
class Places:
    """The result of one model: labels (N,), agreement with the rooms, returns to them, and evidence."""

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


def sample_stream(n: int, seed: int) -> Mixture:
    """Draw n observations in two dimensions: visits to clusters, some of them new, others seen before.

    >>> X, labels, means = sample_stream(300, seed=0)
    >>> X.shape, len(np.unique(labels)) == len(means)
    ((300, 2), True)
    """
    rng = np.random.default_rng(seed)
    labels = np.zeros(n, dtype=np.int64)
    n_clusters = 1
    for i in range(1, n):
        labels[i] = labels[i - 1]
        if rng.random() < 1.0 / MEAN_VISIT_LENGTH:
            if n_clusters == 1 or rng.random() < NEW_CLUSTER_PROBABILITY:
                labels[i] = n_clusters
                n_clusters += 1
            else:
                labels[i] = (labels[i] + rng.integers(1, n_clusters)) % n_clusters
    means = FAMILY.sample_parameters(n_clusters, 2, rng)
    return Mixture(FAMILY.sample(means[labels], rng), labels, means)


def cluster(stream: Mixture) -> dict[str, Any]:
    """Return every system by its name, fitted to the stream."""
    return {name: system.make(stream).fit(stream.observations) for name, system in SYSTEMS.items()}


def other_scores(n: int) -> Iterator[list[float]]:
    """Yield the AMI of every system on a stream of n observations, seed by seed, using all cores."""
    return Parallel(n_jobs=-1, return_as="generator")(delayed(_scores)(n, seed) for seed in OTHER_SEEDS)


def _scores(n: int, seed: int) -> list[float]:
    stream = sample_stream(n, seed)
    return [agreement(stream.labels, model.labels_).ami for model in cluster(stream).values()]

"""The synthetic streams, and what is measured on each: one task is one stream, with every system that is asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dyncrp import (
    DynamicalCRP,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Hyperbolic,
    Oscillatory,
    Stationary,
    VonMisesFisher,
    baselines,
)
from dyncrp.datasets import Mixture, sample_mixture
from dyncrp.metrics import agreement
from experiments.store import Row

DYNAMICS = {
    "stationary": Stationary(),
    "exponential": Exponential(1 / 0.05),
    "oscillatory": Oscillatory(2 * math.pi / 0.15),
    "hyperbolic": Hyperbolic(1 / 0.05),
}
CHECKPOINTS = 50  # of the curve of clusters created
SLOW = ("dd-CRP", "Gibbs", "variational")  # seconds a stream; the others take a fraction of one


@dataclass(frozen=True)
class GaussianStream:
    """A mixture of Gaussians: every field is a column of the results."""

    dynamics: str
    alpha: float
    n_features: int
    prior_variance: float
    variance: float
    seed: int
    n: int = 1000

    @property
    def family(self) -> Gaussian:
        """What a cluster is."""
        return Gaussian(variance=self.variance, prior_variance=self.prior_variance)


@dataclass(frozen=True)
class DirectionStream:
    """A mixture of von Mises–Fisher distributions: every field is a column of the results."""

    dynamics: str
    alpha: float
    n_features: int
    concentration: float
    seed: int
    n: int = 1000

    @property
    def family(self) -> VonMisesFisher:
        """What a cluster is."""
        return VonMisesFisher(self.concentration)


Stream = GaussianStream | DirectionStream
STREAM_SCHEMA = {
    "dynamics": pa.string(),
    "alpha": pa.float64(),
    "n_features": pa.int16(),
    "prior_variance": pa.float64(),
    "variance": pa.float64(),
    "concentration": pa.float64(),
    "seed": pa.int16(),
    "n": pa.int32(),
}
RESULT_SCHEMA = {
    "system": pa.string(),
    "ami": pa.float64(),
    "nmi": pa.float64(),
    "n_clusters": pa.int16(),
    "n_true": pa.int16(),
    "cpu_seconds": pa.float32(),
    "log_evidence": pa.float64(),  # of our own engine; no number for the others
    "created": pa.list_(pa.int16(), CHECKPOINTS),  # clusters among the first n/50, 2n/50, … observations
    "created_truly": pa.list_(pa.int16(), CHECKPOINTS),
}


def key(kind: type[Stream]) -> list[str]:
    """Return the columns that tell the results on a kind of stream apart."""
    return [*kind.__dataclass_fields__, "system"]


def schema(kind: type[Stream]) -> pa.Schema:
    """Return the columns and types of the results on a kind of stream."""
    return pa.schema({name: STREAM_SCHEMA[name] for name in kind.__dataclass_fields__} | RESULT_SCHEMA)


def grid(kind: type[Stream], *, seeds: int, **values: Iterable[Any]) -> list[Stream]:
    """Return every combination of field values, for all dynamics, which vary fastest: work is spread evenly."""
    combinations = product(range(seeds), *values.values(), DYNAMICS)
    return [
        kind(seed=seed, dynamics=dynamics, **dict(zip(values, rest, strict=True)))
        for seed, *rest, dynamics in combinations
    ]


def seeds(*parts: Any) -> np.random.SeedSequence:
    """Return the random numbers of something, by what it is: neither order nor neighbours matter.

    >>> seeds("a", 5).generate_state(1) == seeds("a", 5.0).generate_state(1)
    array([ True])
    """
    plain = [part if isinstance(part, str) else float(part) for part in parts]
    return np.random.SeedSequence(list(repr(plain).encode()))


def draw(stream: Stream) -> Mixture:
    """Draw the observations of a stream, and their truth."""
    return sample_mixture(
        DynamicalCRP(stream.alpha, DYNAMICS[stream.dynamics]),
        stream.family,
        range(stream.n),
        seed=np.random.default_rng(seeds(type(stream).__name__, *astuple(stream))),
        n_features=stream.n_features,
    )


def systems(kind: type[Stream]) -> list[str]:
    """Return the names of the systems that can do a kind of stream."""
    family = {GaussianStream: Gaussian, DirectionStream: VonMisesFisher}[kind]
    return [name for name, system in baselines.SYSTEMS.items() if family in system.families]


def compare_systems(stream: Stream, names: Sequence[str]) -> list[Row]:
    """Cluster a stream with systems of ``baselines``, each told of the truth what it is to be told."""
    return _measure(stream, names, _system)


def compare_dynamics(stream: Stream, names: Sequence[str]) -> list[Row]:
    """Cluster a stream with the D-CRP, told the names of dynamics in turn, and all else truly."""
    return _measure(stream, names, _told)


def _system(name: str, stream: Stream, n_clusters: int) -> Any:
    seed = seeds(type(stream).__name__, *astuple(stream), name).generate_state(1)[0]
    return baselines.make(
        name,
        family=stream.family,
        dynamics=DYNAMICS[stream.dynamics],
        alpha=stream.alpha,
        n_clusters=n_clusters,
        seed=int(seed),
    )


def _told(name: str, stream: Stream, n_clusters: int) -> DynamicalMixture:
    return DynamicalMixture(stream.family, DYNAMICS[name], stream.alpha)


Make = Callable[[str, Stream, int], Any]


def _measure(stream: Stream, names: Sequence[str], make: Make) -> list[Row]:
    X, truth, _ = draw(stream)
    rows = []
    for name in names:
        try:
            _warm(make, name, type(stream))
            model = make(name, stream, len(np.unique(truth)))
            start = time.thread_time()
            model.fit(X)
            seconds = time.thread_time() - start
        except Exception as error:
            error.add_note(f"{name} on {stream}")
            raise
        rows.append(
            asdict(stream)
            | {"system": name}
            | agreement(truth, model.labels_)._asdict()
            | {
                "cpu_seconds": seconds,
                "log_evidence": getattr(model, "log_evidence_", None),
                "created": created(model.labels_),
                "created_truly": created(truth),
            }
        )
    return rows


@cache
def _warm(make: Make, name: str, kind: type[Stream]) -> None:
    """Load the code of a system once a process: it is no cost of a stream."""
    if kind is GaussianStream:
        tiny: Stream = GaussianStream("exponential", 1.0, 2, 100.0, 1.0, seed=0, n=20)
    else:
        tiny = DirectionStream("exponential", 1.0, 2, 50.0, seed=0, n=20)
    X, truth, _ = draw(tiny)
    make(name, tiny, len(np.unique(truth))).fit(X)


def created(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many clusters there are among the first n observations, for n at ``CHECKPOINTS`` steps to the last.

    >>> created(np.arange(100))[:3]
    array([2, 4, 6])
    """
    _, first = np.unique(labels, return_index=True)
    checkpoints = np.arange(1, CHECKPOINTS + 1) * len(labels) // CHECKPOINTS
    return np.searchsorted(np.sort(first), checkpoints)

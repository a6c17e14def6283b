"""Our own variants against each other: families, dynamics, methods, and one row at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.settings import Settings
from benchmarks.systems import ALPHA, TIMESCALE, as_dicts, has_river
from benchmarks.timing import Feeder, interleave
from dyncrp import Bernoulli, DynamicalMixture, Exponential, Gaussian, Hyperbolic, VonMisesFisher
from dyncrp.dynamics import Dynamics
from dyncrp.families import Family

Row = dict[str, Any]
BATCH = 1024


def families(settings: Settings) -> Iterator[tuple[str, list[Row]]]:
    """Every family against the plain Gaussian of the same size."""
    K, D = settings.embedding
    n = data.pool_size(D, settings.pool_rows, settings.pool_bytes)
    unit, concentration = data.directions(K, D, n, 0)
    plain = Gaussian(1.0, data.SPREAD**2)
    pairs = [
        ("Gaussian", plain, data.gaussian(K, D, n, 0).pool),
        ("VonMisesFisher", VonMisesFisher(concentration), unit.pool),
    ]
    yield f"families, K = {K}, D = {D}", compare([(name, _model(f), X) for name, f, X in pairs], settings)

    K, D = 100, 128
    n = data.pool_size(D, settings.pool_rows, settings.pool_bytes)
    normal = data.gaussian(K, D, n, 0).pool
    diagonal = Gaussian(1.0, np.linspace(50.0, 150.0, D))
    triples = [
        ("Gaussian", plain, normal),
        ("Gaussian, a prior variance a dimension", diagonal, normal),
        ("Bernoulli", Bernoulli(0.2, 0.2), data.bits(K, D, n, 0).pool),
    ]
    yield f"families, K = {K}, D = {D}", compare([(name, _model(f), X) for name, f, X in triples], settings)


def dynamics(settings: Settings) -> Iterator[tuple[str, list[Row]]]:
    """Hyperbolic, with its default modes, against exponential."""
    K, D = 100, 16
    X = data.gaussian(K, D, data.pool_size(D, settings.pool_rows, settings.pool_bytes), 0).pool
    plain = Gaussian(1.0, data.SPREAD**2)
    kinds: list[tuple[str, Dynamics]] = [("Exponential", Exponential(TIMESCALE)), ("Hyperbolic", Hyperbolic(TIMESCALE))]
    yield f"dynamics, K = {K}, D = {D}", compare([(name, _model(plain, d), X) for name, d in kinds], settings)


def methods(settings: Settings) -> Iterator[tuple[str, list[Row]]]:
    """``predict``, ``predict_proba`` and ``score_samples`` against ``partial_fit``."""
    for K, D in ((100, 16), settings.embedding):
        X = data.gaussian(K, D, data.pool_size(D, settings.pool_rows, settings.pool_bytes), 0).pool
        model = _model(Gaussian(1.0, data.SPREAD**2))
        names = ("partial_fit", "predict", "predict_proba", "score_samples")
        feeders = [Feeder(getattr(model, name), X, BATCH) for name in names]
        feeders[0].once(settings.warm_up_seconds)
        yield f"methods, K = {K}, D = {D}", _measure(names, feeders, settings)


def single_rows(settings: Settings) -> Iterator[tuple[str, list[Row]]]:
    """One row at a time: the engine's own step, ``learn_one``, ``partial_fit``, and river's fastest."""
    K, D = 10, 8
    X = data.gaussian(K, D, data.pool_size(D, 1 << 14, settings.pool_bytes), 0).pool
    stepped, learning, fitted = (_model(Gaussian(1.0, data.SPREAD**2)) for _ in range(3))
    for model in (stepped, learning, fitted):
        model.partial_fit(X)
    names = ["the engine's own step", "learn_one", "partial_fit of one row"]
    feeders = [
        Feeder(_stepper(stepped), X, 1),
        Feeder(lambda rows: learning.learn_one(rows[0]), X, 1),
        Feeder(fitted.partial_fit, X, 1),
    ]
    if has_river():
        from benchmarks.systems import rivers

        dbstream = rivers(K, D)[0]
        names.append("river DBSTREAM learn_one")
        feeders.append(Feeder(dbstream.learn, as_dicts(X), 1))
        feeders[-1].once(settings.slow_seconds)
    yield f"one row at a time, K = {K}, D = {D}", _measure(names, feeders, settings)


def compare(contestants: list[tuple[str, DynamicalMixture, data.Float]], settings: Settings) -> list[Row]:
    """Measure ``partial_fit`` of each model on its rows; the first is the one to compare with."""
    feeders = [Feeder(model.partial_fit, X, BATCH) for _, model, X in contestants]
    for feeder in feeders:
        feeder.once(settings.warm_up_seconds)
    rows = _measure([name for name, _, _ in contestants], feeders, settings)
    for row, (_, model, _) in zip(rows, contestants, strict=True):
        row["clusters"] = model.n_tables_
    return rows


def _measure(names: Any, feeders: list[Feeder], settings: Settings) -> list[Row]:
    interleave(feeders, settings.rounds, settings.seconds)
    return [
        {"system": name, "rate": feeder.rate, "relative": feeder.rate / feeders[0].rate}
        for name, feeder in zip(names, feeders, strict=True)
    ]


def _model(family: Family, kind: Dynamics | None = None) -> DynamicalMixture:
    return DynamicalMixture(family, kind or Exponential(TIMESCALE), alpha=ALPHA)


def _stepper(model: DynamicalMixture) -> Callable[[data.Float], object]:
    """Return a call of the engine without the estimator about it: no validation, no bookkeeping."""
    engine = model.engine_
    clock = itertools.count(engine.time + 1.0)

    def step(rows: data.Float) -> object:
        return engine.run_one(rows[0], next(clock))

    return step

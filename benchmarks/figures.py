"""What ``benchmarks.compare`` measures, in a process of one version of dyncrp; only what any version has is used.

``python -m benchmarks.figures`` takes a line of JSON for each measurement, ``{"figure": name, "seconds": s}``, and
answers with one: ``{"ns": nanoseconds of CPU time a unit}``, or ``{"error": text}``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from time import process_time
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks import data
from benchmarks.timing import Feeder

BATCH = 1024
POOL = 1 << 16  # rows that are cycled through
FAMILIES = (
    "Gaussian, a prior variance a feature",
    "NormalGamma",
    "Bernoulli",
    "Poisson",
    "Categorical",
    "VonMisesFisher",
    "Columns",
)
Measure = Callable[[float], float]  # seconds to spend; nanoseconds a unit


@dataclass(frozen=True)
class Figure:
    """A measurement. prepare: makes all that is not timed, and returns what measures. unit: what a time is of."""

    unit: str
    prepare: Callable[[], Measure]


def figures(size: int = POOL) -> dict[str, Figure]:
    """Return the figures by name. size: how many rows there are at most, fewer for a test."""
    found = {
        f"partial_fit, K = {K}, D = {D}": Figure("row", lambda K=K, D=D: _learning(K, D, size))  # type: ignore[misc]
        for K, D in ((10, 2), (100, 16), (100, 128), (1000, 128))
    }
    found |= {
        f"{name}, K = 100, D = 16": Figure("row", lambda name=name: _family(name, size))  # type: ignore[misc]
        for name in FAMILIES
    }
    return found | {
        "partial_fit, K = 100,000, D = 16": Figure("row", lambda: _many(100_000 if size == POOL else size)),
        "partial_fit of 100 rows, K = 10, D = 8": Figure("row", lambda: _small_batches(size, 100)),
        "partial_fit of one row, K = 10, D = 8": Figure("row", lambda: _small_batches(size, 1)),
        "learn_one, K = 10, D = 8": Figure("row", lambda: _one_by_one(size)),
        "river, predict_one and learn_one, K = 10, D = 8": Figure("row", lambda: _in_river(size)),
        "predict, K = 100, D = 16": Figure("row", lambda: _predicting(size)),
        "text, 20 topics": Figure("text", lambda: _texts(min(size, 4096))),
        "search, 1,000 rows, D = 2": Figure("search", lambda: _search(min(size, 1000))),
        "search, digits": Figure("search", lambda: _search_digits(size)),
        "save and load, K = 100, D = 16": Figure("time", lambda: _saving(size)),
    }


def _model() -> Any:
    from dyncrp import DynamicalMixture, Exponential, Gaussian

    return DynamicalMixture(Gaussian(1.0, data.SPREAD**2), Exponential(1e5), alpha=0.01)


def _fed(take: Callable[[Any], object], pool: Any, batch: int) -> Measure:
    feeder = Feeder(take, pool, batch)
    feeder.once(2.0)

    def measure(seconds: float) -> float:
        feeder.rate = 0.0
        feeder.measure(seconds)
        return 1e9 / feeder.rate

    return measure


def _repeated(call: Callable[[], object]) -> Measure:
    call()

    def measure(seconds: float) -> float:
        n, start = 0, process_time()
        while True:
            call()
            n += 1
            if process_time() - start >= seconds:
                return 1e9 * (process_time() - start) / n

    return measure


def _learning(K: int, D: int, size: int) -> Measure:
    X = data.gaussian(K, D, size, 0).pool
    return _fed(_model().partial_fit, X, BATCH)


def _family(name: str, size: int) -> Measure:
    import dyncrp

    kinds = {
        "Gaussian, a prior variance a feature": lambda: dyncrp.Gaussian(1.0, np.linspace(50.0, 150.0, 16)),
        "NormalGamma": lambda: dyncrp.NormalGamma(1.0, 100.0, 5.0),
        "Bernoulli": lambda: dyncrp.Bernoulli(0.2, 0.2),
        "Poisson": lambda: dyncrp.Poisson(1.0, 0.2),
        "Categorical": lambda: dyncrp.Categorical(0.3),
        "VonMisesFisher": lambda: dyncrp.VonMisesFisher(200.0),
        "Columns": lambda: dyncrp.Columns.of(dyncrp.Gaussian(1.0, 100.0), 16),
    }
    family, rng = kinds[name](), np.random.default_rng(0)
    n = min(size, 1 << 15)
    X = family.sample(family.sample_parameters(100, 16, rng)[rng.integers(100, size=n)], rng)
    model = dyncrp.DynamicalMixture(family, dyncrp.Exponential(1e5), alpha=0.01)
    return _fed(model.partial_fit, X, BATCH)


def _many(K: int) -> Measure:
    from benchmarks.many import engine_with

    rng = np.random.default_rng(0)
    centers = rng.normal(0.0, data.SPREAD, (K, 16))
    engine = engine_with(centers, data.SPREAD)
    rows = centers[rng.integers(K, size=1 << 14)] + rng.standard_normal((1 << 14, 16))
    return _fed(lambda X: engine.run(X, np.full(len(X), engine.time + 1.0)), rows, BATCH)


def _small_batches(size: int, batch: int) -> Measure:
    X = data.gaussian(10, 8, min(size, 1 << 14), 0).pool
    return _fed(_model().partial_fit(X).partial_fit, X, batch)


def _one_by_one(size: int) -> Measure:
    X = data.gaussian(10, 8, min(size, 1 << 14), 0).pool
    model = _model().partial_fit(X)
    return _fed(lambda rows: model.learn_one(rows[0]), X, 1)


def _in_river(size: int) -> Measure:
    from dyncrp import Exponential, Gaussian
    from dyncrp.river import DynamicalMixture

    model = DynamicalMixture(Gaussian(1.0, data.SPREAD**2), Exponential(1e5), alpha=0.01)
    rows = [dict(enumerate(x)) for x in data.gaussian(10, 8, min(size, 1 << 12), 0).pool.tolist()]
    turns = cycle(rows)

    def both() -> None:
        x = next(turns)
        model.predict_one(x)
        model.learn_one(x)

    return _repeated(both)


def _predicting(size: int) -> Measure:
    X = data.gaussian(100, 16, size, 0).pool
    return _fed(_model().partial_fit(X).predict, X, BATCH)


def documents(n: int, seed: int = 0, topics: int = 20, words: int = 5000, length: int = 60) -> csr_array:
    """Return n texts as counts (n, words): each of a topic, whose words have Zipf's frequencies in an order of its own.

    >>> documents(3).sum(axis=1).tolist()
    [60, 60, 60]
    """
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, words + 1)
    orders = np.array([rng.permutation(words) for _ in range(topics)])
    drawn = rng.choice(words, (n, length), p=share / share.sum())
    columns = np.take_along_axis(orders[rng.integers(topics, size=n)], drawn, axis=1)
    ends = np.arange(0, n * length + 1, length)
    counts = csr_array((np.ones(n * length, dtype=np.int64), columns.ravel(), ends), shape=(n, words))
    counts.sum_duplicates()
    return counts


def _texts(size: int) -> Measure:
    from dyncrp import DynamicalMixture, Exponential, Multinomial

    model = DynamicalMixture(Multinomial(100.0), Exponential(500.0), alpha=30.0)
    batch = min(128, size)
    counts = documents(size)
    batches = cycle([counts[begin : begin + batch] for begin in range(0, size - batch + 1, batch)])
    measure = _repeated(lambda: model.partial_fit(next(batches)))
    return lambda seconds: measure(seconds) / batch


def _search(size: int) -> Measure:
    from dyncrp import DynamicalMixture

    rng = np.random.default_rng(0)
    X = rng.normal(10.0 * rng.integers(4, size=(size, 1)), 1.0, (size, 2))
    return _repeated(lambda: DynamicalMixture().fit(X))


def _search_digits(size: int) -> Measure:
    from sklearn.datasets import load_digits

    from dyncrp import DynamicalMixture

    X = load_digits().data[:size]
    return _repeated(lambda: DynamicalMixture().fit(X))


def _saving(size: int) -> Measure:
    model = _model().partial_fit(data.gaussian(100, 16, size, 0).pool)
    return _repeated(lambda: type(model).from_bytes(model.to_bytes()))


def answer(lines: Iterator[str], every: dict[str, Figure]) -> Iterator[str]:
    """Yield the answer to each line; a figure is prepared when it is first asked for, and only the last is kept."""
    name, measure = "", None
    for line in lines:
        asked = json.loads(line)
        try:
            if asked["figure"] != name or measure is None:
                name, measure = asked["figure"], None  # which frees the one before
                measure = every[name].prepare()
            yield json.dumps({"ns": measure(asked["seconds"])})
        except Exception as error:  # such as of a version that does not have it yet
            yield json.dumps({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    for reply in answer(iter(sys.stdin.readline, ""), figures()):
        print(reply, flush=True)

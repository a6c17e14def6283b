"""Dictionaries one at a time, as river's users have them: ``dyncrp.river`` beside river's fastest clusterer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sklearn.metrics import adjusted_mutual_info_score

from benchmarks import data
from benchmarks.settings import Settings
from benchmarks.systems import ALPHA, TIMESCALE, as_dicts, has_river, rivers
from benchmarks.timing import Feeder, interleave
from dyncrp import Exponential, Gaussian

Rows = Sequence[dict[int, float]]
BATCH = 64  # rows between two looks at the clock


def run(settings: Settings) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Learn only, and predict each row before learning it, as river's progressive validation does."""
    if not has_river():
        return
    K, D = 10, 8
    stream = data.gaussian(K, D, 1 << 14, settings.labelled)
    pool, labelled = as_dicts(stream.pool), as_dicts(stream.rows)
    for title, pattern in (("learn_one", _learn), ("predict_one, then learn_one", _predict_and_learn)):
        contestants = _contestants(K, D)
        feeders = [Feeder(pattern(model), pool, BATCH) for _, model, _ in contestants]
        for feeder in feeders:
            feeder.once(settings.warm_up_seconds)
        interleave(feeders, settings.rounds, settings.seconds)
        rows = []
        for (name, model, count), feeder in zip(contestants, feeders, strict=True):
            labels = _predict_and_learn(model)(labelled)
            row = {"system": name, "rate": feeder.rate, "ratio": feeders[0].rate / feeder.rate, "ns": 1e9 / feeder.rate}
            ami = float(adjusted_mutual_info_score(stream.truth[: len(labels)], labels))
            rows.append(row | {"ami": ami, "clusters": count()})
        yield f"river: {title}, K = {K}, D = {D}", rows


def _contestants(K: int, D: int) -> list[tuple[str, Any, Callable[[], int]]]:
    from dyncrp.river import DynamicalMixture

    ours = DynamicalMixture(Gaussian(1.0, data.SPREAD**2), Exponential(TIMESCALE), alpha=ALPHA)
    theirs = rivers(K, D)[0]
    tidy = theirs.model.clone({"cleanup_interval": 2})
    return [
        ("dyncrp.river", ours, lambda: ours.n_tables),
        (theirs.name, theirs.model, theirs.count),
        (f"{theirs.name}, clean-up every 2 rows", tidy, lambda: int(tidy.n_clusters)),
    ]


def _learn(model: Any) -> Callable[[Rows], object]:
    learn_one = model.learn_one

    def take(rows: Rows) -> None:
        for row in rows:
            learn_one(row)

    return take


def _predict_and_learn(model: Any) -> Callable[[Rows], list[int]]:
    predict_one, learn_one = model.predict_one, model.learn_one

    def take(rows: Rows) -> list[int]:
        labels = []
        for row in rows:
            labels.append(predict_one(row))
            learn_one(row)
        return labels

    return take

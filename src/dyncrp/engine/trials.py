"""Trials: models learn rows only to be compared, as in a search for hyperparameters.

In C++ a trial is one call, without the interpreter's lock. No engine is kept, and no trace is recorded.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dyncrp.arrays.rows import Dense
from dyncrp.engine import has_code_for, make_engine
from dyncrp.engine.types import Float, Int, Model
from dyncrp.families import Family
from dyncrp.families.protocols import settings

if TYPE_CHECKING:
    from dyncrp.engine import loop

ROWS_PER_LOOK = 100  # how often the number of tables is checked


class Trial(NamedTuple):
    """The result of a trial: labels (n,), log evidence and number of tables, for the rows that were learned."""

    labels: Int
    log_evidence: float
    n_tables: int


def try_out(model: Model, X: Float, times: Float, most_tables: int = sys.maxsize) -> Trial:
    """Let a model learn rows X (n, D), checked by the family, at times (n,); stop if it has more than most_tables.

    >>> from dyncrp import Gaussian, Stationary
    >>> model = Model(Gaussian(1.0, 100.0), Stationary(), 1.0)
    >>> trial = try_out(model, np.array([[0.0], [20.0], [0.5]]), np.arange(3.0))
    >>> trial.labels, trial.n_tables
    (array([0, 1, 0]), 2)
    """
    if has_code_for(model.family) and model.family.rows is Dense:
        recipe, told = _recipe(model.family, X.shape[1]), _told(model)
        return Trial(*recipe.try_out(*told, X, times, most_tables=most_tables, rows_per_look=ROWS_PER_LOOK))
    engine, labels = make_engine(model, X.shape[1]), []
    for begin in range(0, len(X), ROWS_PER_LOOK):
        part = slice(begin, begin + ROWS_PER_LOOK)
        labels.append(engine.run(X[part], times[part]).labels)
        if engine.n_tables > most_tables:
            break
    return Trial(np.concatenate(labels), engine.log_evidence, engine.n_tables)


def reproducibility(model: Model, halves: list[Float]) -> float:
    """Return how well the clusters of a model reproduce on pairs of halves of rows, each (n, D).

    This is the adjusted mutual information of the labels of a half by its own tables and by those of the other half,
    averaged over the halves. Halves of one cluster by both labellings are left out, since these agree whatever the rows
    are; the result is nan if all are. Times are the index of the rows.
    """
    if has_code_for(model.family) and model.family.rows is Dense:
        return _recipe(model.family, halves[0].shape[1]).reproducibility(*_told(model), halves)
    from sklearn.metrics import adjusted_mutual_info_score

    engines = [make_engine(model, half.shape[1]) for half in halves]
    own = [engine.run(half, np.arange(float(len(half)))).labels for engine, half in zip(engines, halves, strict=True)]
    others = [engines[i ^ 1].predict(half, np.full(len(half), engines[i ^ 1].time)) for i, half in enumerate(halves)]
    pairs = [pair for pair in zip(own, others, strict=True) if any(np.ptp(labels) > 0 for labels in pair)]
    return float(np.mean([adjusted_mutual_info_score(*pair) for pair in pairs])) if pairs else np.nan


@lru_cache(maxsize=8)  # a family is tried many times in a row
def _recipe(family: Family, n_features: int) -> loop.Recipe:
    from dyncrp.engine import loop

    return loop.Recipe(*settings(family, n_features))


def _told(model: Model) -> tuple[list[loop.Mode], loop.Rules]:
    from dyncrp.engine import native

    return native.modes_of(model), native.rules_of(model)

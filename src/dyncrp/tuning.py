"""``dyncrp.tune``: what ``DynamicalMixture`` learns from its first rows, as a step of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dyncrp.arrays.checks import Clock, as_times
from dyncrp.dynamics import Dynamics
from dyncrp.engine.types import Rows
from dyncrp.estimator import DynamicalMixture
from dyncrp.families import Family
from dyncrp.families.base import check_rows
from dyncrp.input.input import Input
from dyncrp.input.words import Vocabulary
from dyncrp.search import Candidate, learn
from dyncrp.search.spec import ModelSpec


class Tuned(NamedTuple):
    """A model without unknown hyperparameters, ready to fit, and all candidates that were tried."""

    model: DynamicalMixture
    candidates: list[Candidate]


def tune(
    X: ArrayLike,
    times: ArrayLike | None = None,
    *,
    family: Family | None = None,
    dynamics: Dynamics | Sequence[Dynamics] | None = None,
    alpha: float | None = None,
    memory: float | None = math.inf,
    warmup: int | str = "auto",
    resolution: float = 1.0,
    n_jobs: int | None = None,
) -> Tuned:
    """Learn hyperparameters from the first rows of a stream, by their evidence.

    ``DynamicalMixture`` does the same by itself if it starts with unknown hyperparameters. ``dyncrp.plots.evidence``
    draws the candidates.

    Args:
        X: (n, D) rows, or documents; the first ``warmup`` of them are used.
        times: (n,) when the rows came; 0, 1, 2, … by default.
        family, dynamics, alpha, memory: what is known, as for ``DynamicalMixture``; None is learned.
        warmup, resolution, n_jobs: as for ``DynamicalMixture``.

    Returns:
        The model, ready to fit, and the candidates that were tried.

    >>> import numpy as np, dyncrp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(rng.choice([-20.0, 0.0, 20.0], size=(300, 1)), 1.0, size=(300, 2))
    >>> model, candidates = dyncrp.tune(X)
    >>> model.fit(X).n_tables_
    3
    """
    spec = ModelSpec.resolve(
        family, dynamics, alpha, memory=memory, warmup=warmup, resolution=resolution, n_jobs=n_jobs
    )
    spec.check_clock(Clock.of(times))
    rows = _as_rows(X, spec)
    t = np.arange(len(rows), dtype=np.float64) if times is None else as_times(times, n=len(rows))
    known, candidates = learn(spec, rows, t)
    return Tuned(DynamicalMixture(known.family, known.dynamics, known.alpha, memory=known.memory), candidates)


def _as_rows(X: Any, spec: ModelSpec) -> Rows:
    """Return rows as the family takes them; of documents, counts of words in order of appearance."""
    if Input.holds_words(X, spec.family):
        vocabulary = Vocabulary()
        return vocabulary.encode(vocabulary.read(X)).rows
    return check_rows(spec.family, spec.family.rows.read(X))

"""What searches for hyperparameters have in common: candidates, how they are run, and which durations to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dyncrp.dynamics import Dynamics
from dyncrp.engine.types import Model
from dyncrp.families import Family

Float = NDArray[np.float64]
T = TypeVar("T")
Job = tuple[Callable[..., Any], tuple[Any, ...]]  # a function and its arguments
Steps = Generator[list[Job], list[Any], T]  # yields independent jobs, and is sent their results


class Candidate(NamedTuple):
    """A candidate that was tried on the first rows, and its results.

    log_evidence: −inf if the candidate was dropped because it opened too many tables or fell behind early.
    reproducibility: nan if it was not computed, as for dynamics, or if all rows share a table.
    admitted: whether it was reproducible enough. chosen: whether it was chosen. memory: of a table, in members.
    """

    family: Family
    dynamics: Dynamics
    alpha: float
    log_evidence: float
    n_tables: int
    reproducibility: float
    admitted: bool
    chosen: bool
    memory: float = math.inf


Found = tuple[Model, list[Candidate]]


def durations(kind: Dynamics, times: Float) -> list[float]:
    """Return candidates for an unknown duration, from the median gap between times to their whole span.

    >>> from dyncrp import Exponential
    >>> [round(d, 1) for d in durations(Exponential(), np.arange(101.0))]
    [1.0, 3.2, 10.0, 31.6, 100.0]
    """
    span, gap = float(times[-1] - times[0]), usual_gap(times)
    if gap == 0.0:
        return [1.0]
    if kind.seeks_period:  # the grid must be fine, or the period slips out of phase
        span = min(span, gap * len(times))  # each period costs a run, so long pauses do not count
        return [float(d) for d in np.geomspace(2.0 * gap, span, 4 + int(12 * np.log10(span / gap)))]
    return [float(d) for d in np.geomspace(gap, span, 1 + max(1, round(2 * np.log10(span / gap))))]


def usual_gap(times: Float) -> float:
    """Return the median gap between distinct times. A long pause hardly changes it."""
    gaps = np.diff(times)
    return float(np.median(gaps[gaps > 0])) if times[-1] > times[0] else 0.0

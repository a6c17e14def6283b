"""What searches for hyperparameters have in common: candidates, how they are run, and which durations to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dyncrp.dynamics import Dynamics
from dyncrp.families import Family
from dyncrp.search.spec import Hyperparameters

Float = NDArray[np.float64]
T = TypeVar("T")
Job = tuple[Callable[..., Any], tuple[Any, ...]]  # a function, and what to call it with
Steps = Generator[list[Job], list[Any], T]  # hands out jobs, none of which needs another, and is sent their results


class Candidate(NamedTuple):
    """What was tried on the first rows, and how it did.

    log_evidence: −inf if the candidate was dropped: it had opened too many tables, or fell behind early.
    reproducibility: nan where it was not asked for, as for dynamics, or where all rows share a table.
    admitted: whether it reproduced well enough. chosen: whether this was it. memory: of a table, in members.
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


Found = tuple[Hyperparameters, list[Candidate]]


def durations(kind: Dynamics, times: Float) -> list[float]:
    """Return what an unknown duration may be: from the usual gap between times to all of their span.

    >>> from dyncrp import Exponential
    >>> [round(d, 1) for d in durations(Exponential(), np.arange(101.0))]
    [1.0, 3.2, 10.0, 31.6, 100.0]
    """
    span, gap = float(times[-1] - times[0]), usual_gap(times)
    if gap == 0.0:
        return [1.0]
    if kind.seeks_period:  # a period must be met closely, or it slips out of phase
        span = min(span, gap * len(times))  # however long a pause: each period costs a run
        return [float(d) for d in np.geomspace(2.0 * gap, span, 4 + int(12 * np.log10(span / gap)))]
    return [float(d) for d in np.geomspace(gap, span, 1 + max(1, round(2 * np.log10(span / gap))))]


def usual_gap(times: Float) -> float:
    """Return the median gap between times that differ: one long pause says nothing of the others."""
    gaps = np.diff(times)
    return float(np.median(gaps[gaps > 0])) if times[-1] > times[0] else 0.0

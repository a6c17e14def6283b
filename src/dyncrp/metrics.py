"""How well inferred tables agree with the truth."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score


class Agreement(NamedTuple):
    """The agreement of two labelings. NMI, the paper's measure, rewards splitting; AMI corrects for that."""

    ami: float
    nmi: float
    n_clusters: int
    n_true: int


def agreement(truth: ArrayLike, labels: ArrayLike) -> Agreement:
    """Compare inferred labels (N,) with the truth (N,).

    >>> agreement([0, 0, 1, 1], [5, 5, 7, 7])
    Agreement(ami=1.0, nmi=1.0, n_clusters=2, n_true=2)
    """
    return Agreement(
        ami=float(adjusted_mutual_info_score(truth, labels)),
        nmi=float(normalized_mutual_info_score(truth, labels)),
        n_clusters=len(np.unique(labels)),
        n_true=len(np.unique(truth)),
    )


class Returns(NamedTuple):
    """For every return to an earlier cluster: whether it was recognised (R,), and after how many steps (R,)."""

    recognised: NDArray[np.bool_]
    steps: NDArray[np.int64]  # −1 where it was not


def returns(truth: ArrayLike, labels: ArrayLike, ignore: Collection[int] = ()) -> Returns:
    """Judge whether clusters are recognised when a stream comes back to them.

    A visit is a run of one true cluster. The home of a cluster is the most frequent label of its earlier observations
    (the latest in a tie), if more than half of all earlier observations with that label are from the cluster. A return
    is recognised if no label is more frequent in the visit than the home. The steps are the observations before the
    first one with the home's label. The label −1, which means no table, is never a home.

    truth, labels: (N,); ignore: true clusters whose visits do not count, such as hallways between rooms.

    >>> returns([1, 1, 0, 2, 2, 0, 1, 1, 1], [0, 0, 1, 2, 2, 1, 1, 0, 0], ignore=[0])
    Returns(recognised=array([ True]), steps=array([1]))
    """
    true, found = np.asarray(truth), np.asarray(labels)
    if true.ndim != 1 or true.shape != found.shape:
        raise ValueError(
            f"truth and labels must have one number for each observation, got {true.shape} and {found.shape}"
        )
    edges = [0, *(np.flatnonzero(true[1:] != true[:-1]) + 1), len(true)]
    recognised, steps = [], []
    for begin, end in pairwise(edges if len(true) else []):
        before, visit = found[:begin], found[begin:end]
        own = true[:begin] == true[begin]
        if own.any() and true[begin] not in ignore:
            home = _most_frequent(before[own])
            its_own = home != -1 and 2 * np.sum(before[own] == home) > np.sum(before == home)
            known = bool(its_own and np.sum(visit == home) == np.max(np.unique(visit, return_counts=True)[1]))
            recognised.append(known)
            steps.append(int(np.argmax(visit == home)) if known else -1)
    return Returns(np.array(recognised, dtype=bool), np.array(steps, dtype=np.int64))


def _most_frequent(values: NDArray[np.int64]) -> np.int64:
    """Return the most frequent value; in a tie, the one that comes last."""
    different, at, counts = np.unique(values[::-1], return_index=True, return_counts=True)
    best = np.flatnonzero(counts == np.max(counts))
    return different[best[np.argmin(at[best])]]

"""How well inferred tables agree with the truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score


class Agreement(NamedTuple):
    """Two labelings compared. NMI, the paper's measure, rewards splitting; AMI is corrected for it."""

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

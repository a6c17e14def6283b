"""Proposals for the unknown parts of mixed columns, for the search by evidence. NaN is a missing cell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from dyncrp.families import protocols
from dyncrp.families.base import SMALLEST_POSITIVE, Family, Float, repeats
from dyncrp.families.gaussian import LEAST_RATIO, Gaussian
from dyncrp.families.gaussian_proposals import LONGEST_RANGE, ROUND_ROWS_PER_DIRECTION
from dyncrp.families.normal_gamma import NormalGamma
from dyncrp.families.protocols import SHARES

Labels = NDArray[np.int64]


def propose(family: Family, X: Float, labels: Labels | None, scales: Sequence[float]) -> list[Family]:
    """Return candidate families for one part, X (n, d). labels: (n,) those of a clustering of all columns, or None."""
    if family.known:
        return [family]
    if isinstance(family, (Gaussian, NormalGamma)) and family.variance is None and family.prior_variance is None:
        return _propose_numbers(family, X, labels, scales)
    if not family.independent:
        whole = ~np.any(np.isnan(X), axis=1)
        return protocols.proposals(family, X[whole], None if labels is None else labels[whole], scales)
    return _propose_by_column(family, X, labels)


def _propose_numbers(
    family: Gaussian | NormalGamma, X: Float, labels: Labels | None, scales: Sequence[float]
) -> list[Family]:
    """Return candidates for the variances, each in the unit of its column; gaussian_proposals does so for one unit.

    Without labels, a share of each column's variance lies within clusters. With labels, the share is measured within
    them and shrunk towards the same value in all columns.
    """
    present = ~np.isnan(X)
    count = np.maximum(np.sum(present, axis=0), 1)
    cells = np.where(present, X, 0.0)
    mean = np.sum(cells, axis=0) / count if family.prior_mean is None else np.asarray(family.prior_mean)
    about = np.where(present, X - mean, 0.0)
    whole = np.sum(about**2, axis=0) / count
    whole = np.where(whole > np.maximum(1e-24 * np.sum(cells**2, axis=0) / count, SMALLEST_POSITIVE), whole, 1.0)
    found = []
    if labels is None:
        far = np.zeros(X.shape[1])
        for d in range(X.shape[1]):
            column = X[present[:, d], d]
            if len(column) and not repeats(column[:, None]):
                far[d] = (np.ptp(column) / LONGEST_RANGE) ** 2
        for share in SHARES:
            between = np.where(far > whole, far, (1.0 - share) * whole)
            found.append(_make(family, share * whole, between, mean))
        return found
    if len(np.unique(labels)) >= len(X):
        return []
    within, freedom = _within(about, present, labels)
    D = X.shape[1]
    ratio = within / whole
    weight = ROUND_ROWS_PER_DIRECTION * D / (freedom + ROUND_ROWS_PER_DIRECTION * D)
    ratio = (1.0 - weight) * ratio + weight * max(float(np.mean(ratio)), 1e-6)
    for scale in scales:
        variance = np.minimum(scale * ratio, 0.999) * whole
        found.append(_make(family, variance, np.maximum(whole - variance, LEAST_RATIO * variance), mean))
    return found


def _make(family: Gaussian | NormalGamma, variance: Float, prior: Float, mean: Float) -> Family:
    variance, prior = np.maximum(variance, SMALLEST_POSITIVE), np.maximum(prior, SMALLEST_POSITIVE)
    if isinstance(family, NormalGamma):
        return NormalGamma(variance, prior, family.degrees, mean)
    return Gaussian(variance, prior, mean)


def _within(about: Float, present: NDArray[np.bool_], labels: Labels) -> tuple[Float, float]:
    """Return the variance within clusters of each column, and its mean degrees of freedom."""
    _, labels = np.unique(labels, return_inverse=True)
    sums, counts = _sum_by_label(labels, about), _sum_by_label(labels, present.astype(np.float64))
    gaps = np.where(present, about - (sums / np.maximum(counts, 1.0))[labels], 0.0)
    freedom = np.maximum(np.sum(present, axis=0) - np.sum(counts > 0, axis=0), 1)
    return np.sum(gaps**2, axis=0) / freedom, float(np.mean(freedom))


def _propose_by_column(family: Family, X: Float, labels: Labels | None) -> list[Family]:
    """Return combinations of the i-th candidate of each column; with labels, of the one with the most evidence."""
    columns = []
    for d in range(X.shape[1]):
        present = ~np.isnan(X[:, d])
        column = X[present, d : d + 1] if np.any(present) else np.zeros((1, 1))
        some = protocols.proposals(protocols.feature(family, d), column)
        if labels is not None:
            clusters = labels[present] if np.any(present) else np.zeros(1, dtype=np.int64)
            some = [max(some, key=lambda one: _log_evidence(one, column, clusters))]
        columns.append(some)
    return [protocols.join(each) for each in zip_longest(*columns, fillvalue=columns[0][-1])] if columns else []


def _log_evidence(family: Family, column: Float, labels: Labels) -> float:
    """Return log p(column | labels) for a column (n, 1)."""
    _, labels = np.unique(labels, return_inverse=True)
    stats = _sum_by_label(labels, family.statistics(column))
    return float(np.sum(family.log_partition(stats)) + np.sum(family.log_base_measure(column)))


def _sum_by_label(labels: Labels, values: Float) -> Float:
    """Return the sums of the rows (n, m) of each label 0, 1, …, K − 1: (K, m)."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max()) + 1))
    return np.add.reduceat(values[order], starts, axis=0)

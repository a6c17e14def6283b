"""Proposals for an unknown Gaussian, for the search by evidence, and coordinates to make them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dyncrp.families.base import SMALLEST_POSITIVE, Family, Float, repeats
from dyncrp.families.gaussian import LEAST_RATIO, Gaussian
from dyncrp.families.protocols import SHARES, View

# The covariance within clusters is shrunk as if by this many additional round observations per direction.
ROUND_ROWS_PER_DIRECTION = 10.0
# Rows closer together would have variances beyond the range of a hyperparameter.
LEAST_SPREAD = 1e-80
# Rows with a range of more standard deviations than this have a few far clusters or tails. A thousand rows of one
# Gaussian have a range of 6.5.
LONGEST_RANGE = 8.0
# A full covariance is only learned from at least this many rows per direction, and for at most this many directions.
LEAST_ROWS_PER_DIRECTION = 4
MOST_DIRECTIONS = 48


def propose(family: Gaussian, X: Float, labels: NDArray[np.int64] | None, scales: Sequence[float]) -> list[Family]:
    """Return candidates for X (n, D). labels: (n,) those of a clustering of X, or None.

    Without labels, a share of the whole variance lies within clusters and the rest between them, the same in all
    features. If a few rows lie far out, centres are spread as widely as these rows: they add little to the variance,
    but a cluster has one centre, however few its rows. With labels, the covariance within the clusters is shrunk
    towards a sphere and scaled. The rest of the whole covariance lies between clusters, shrunk towards a sphere, the
    more so the fewer clusters there are. The same follows with the variances of the features alone.
    """
    mean = np.mean(X, axis=0) if family.prior_mean is None else family.prior_mean
    about = X - mean
    whole = _spread(about, X)
    if whole is None:
        if labels is not None:
            return []
        variance, prior = (1.0 if value is None else value for value in (family.variance, family.prior_variance))
        return [Gaussian(variance, prior, mean)]  # rows that do not vary have no scale
    round_ = float(np.mean(whole))
    if family.variance is not None or family.prior_variance is not None:
        return _complete(family, mean, round_)
    found: list[Family] = []
    if labels is None:
        far = 0.0 if repeats(X) else float(np.mean((np.ptp(about, axis=0) / LONGEST_RANGE) ** 2))
        for share in SHARES:
            between = far if far > round_ else (1.0 - share) * round_
            found.append(Gaussian(max(share * round_, SMALLEST_POSITIVE), between, mean))
        return found
    if np.max(labels) + 1 >= len(X):
        return found
    gaps, freedom = _gaps(about, labels)
    full = X.shape[1] > 1 and len(X) >= LEAST_ROWS_PER_DIRECTION * X.shape[1]
    if full:
        within = _shrink(gaps.T @ gaps / freedom, about, freedom)
        total = about.T @ about / len(X)
        total[np.diag_indices_from(total)] = whole
    # With very many features, only the variances fit into memory.
    spread = np.diag(within) if full else _shrink(np.sum(gaps**2, axis=0) / freedom, about, freedom)
    for scale in scales:
        variance = np.maximum(np.minimum(scale * spread, 0.999 * whole), SMALLEST_POSITIVE)
        rest = np.maximum(np.maximum(whole - variance, LEAST_RATIO * variance), SMALLEST_POSITIVE)
        found.append(Gaussian(variance, rest, mean))
        if full:
            found += _propose_full(scale * within, total, mean, len(X) - freedom)
    return found


def _complete(family: Gaussian, mean: Float, whole: float) -> list[Family]:
    """Return Gaussians with the variance that is given, and the other from a grid."""
    if family.variance is None:
        return [replace(family, variance=share * whole, prior_mean=mean) for share in SHARES]
    rest = max(whole - float(np.mean(family.variance)), LEAST_RATIO * whole)
    return [replace(family, prior_variance=factor * rest, prior_mean=mean) for factor in (0.25, 0.5, 1.0, 2.0, 4.0)]


def views(family: Gaussian, X: Float, plain: list[View]) -> list[View]:
    """Return the features as they are, and each in its own unit; for many features, principal coordinates."""
    n, D = X.shape
    if family.variance is not None or family.prior_variance is not None or not np.any(np.ptp(X, axis=0)):
        return plain
    mean = np.mean(X, axis=0) if family.prior_mean is None else np.broadcast_to(family.prior_mean, D)
    about = X - mean
    whole = _spread(about, X)
    if whole is None:
        return plain
    if D <= MOST_DIRECTIONS:
        if np.max(whole) < 1.2 * np.min(whole):
            return plain
        return [*plain, _view(family, X, mean, np.diag(1.0 / np.sqrt(whole)), None)]
    _, lengths, basis = np.linalg.svd(about, full_matrices=False)
    kept = int(np.sum(lengths[:MOST_DIRECTIONS] > 1e-7 * lengths[0]))
    variance = float(np.sum(lengths[kept:] ** 2)) / (n * (D - kept))
    return [_view(family, X, mean, basis[:kept], max(variance, 1e-6 * float(np.mean(about**2))))]


def _view(family: Gaussian, X: Float, mean: Float, W: Float, residual_variance: float | None) -> View:
    """Return the view z = W (x − mean), in which Gaussians of z become Gaussians of x with directions.

    A given prior mean is 0 in these coordinates.
    """

    def lift(found: Family) -> Family:
        if not isinstance(found, Gaussian):
            raise TypeError(f"expected a Gaussian, got {found!r}")
        moved = mean + np.broadcast_to(found.prior_mean, len(W)) @ flat.inverse
        if residual_variance is None and found.directions is None:  # W is diagonal, and so is the result
            unit = np.diag(W) ** 2
            return Gaussian(found.variance / unit, found.prior_variance / unit, moved)
        directions = W if found.directions is None else found.directions @ W
        return Gaussian(found.variance, found.prior_variance, moved, directions, residual_variance)

    flat = Gaussian(1.0, 1.0, mean, W, residual_variance)
    there = Gaussian(prior_mean=None if family.prior_mean is None else 0.0)
    return View(flat.coordinates(X), lift, float(np.sum(flat.log_residual(X))), there)


def _spread(about: Float, X: Float) -> Float | None:
    """Return the variance of each feature, (D,); for constant features, the mean of the others, if there are any."""
    variance = np.mean(about**2, axis=0)
    varies = variance > np.maximum(1e-24 * np.mean(X**2, axis=0), LEAST_SPREAD)
    return np.where(varies, variance, np.mean(variance[varies])) if np.any(varies) else None


def _gaps(about: Float, labels: NDArray[np.int64]) -> tuple[Float, int]:
    """Return each row minus its cluster's mean, (n, D), and the remaining degrees of freedom."""
    _, labels = np.unique(labels, return_inverse=True)
    counts = np.bincount(labels).astype(np.float64)
    sums = np.zeros((len(counts), about.shape[1]))
    np.add.at(sums, labels, about)
    return about - (sums / counts[:, None])[labels], len(about) - len(counts)


def _shrink(within: Float, about: Float, freedom: int) -> Float:
    """Return a covariance (D, D) within clusters, or its diagonal (D,), shrunk towards a sphere."""
    D = len(within)
    variances = np.diag(within) if within.ndim == 2 else within
    roundness = max(float(np.mean(variances)), 1e-6 * float(np.mean(about**2)), SMALLEST_POSITIVE)
    weight = ROUND_ROWS_PER_DIRECTION * D / (freedom + ROUND_ROWS_PER_DIRECTION * D)
    sphere = np.eye(D) if within.ndim == 2 else np.ones(D)
    return (1.0 - weight) * within + weight * roundness * sphere


def _propose_full(within: Float, total: Float, mean: Float, n_clusters: int) -> list[Gaussian]:
    """Return Gaussians of covariance ``within`` whose means have the rest of ``total``, if it can be estimated."""
    from scipy.linalg import eigh

    D = len(total)
    units = np.sqrt(np.diag(within))
    try:
        ratios, vectors = eigh((total - within) / units[:, None] / units, within / units[:, None] / units)
        inverse = np.linalg.inv(vectors) * units
        between = (inverse.T * np.maximum(ratios, LEAST_RATIO)) @ inverse
        weight = D / (n_clusters + D)
        between = (1.0 - weight) * between + weight * np.trace(between) / D * np.eye(D)
        return [Gaussian.from_covariances(within, 0.5 * (between + between.T), mean)]
    except (np.linalg.LinAlgError, ValueError):  # the units of the features differ too much
        return []

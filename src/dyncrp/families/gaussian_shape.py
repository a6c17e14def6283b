"""The second moments that tables of a Gaussian keep for clusters: how wide they are, and how their rows scatter."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.families.base import Float
from dyncrp.families.protocols import HasScatter, Scatter, Shapes
from dyncrp.families.triangles import fold, unfold

# Up to this many coordinates, the squares are all products y_i y_j; beyond it, see squares. And cpp/moments.hpp.
MOST_PRODUCTS = 8
# Of more features, such as embeddings, eight coordinates say too little of how clusters differ.
MOST_FEATURES = 128
# If a centre is further from the prior mean, in standard deviations, its squares are too coarse for the spread.
FURTHEST_WITH_SPREAD = 1e6
# Where rows have less than this share of the variance that the family expects within tables, they hardly vary at all.
LEAST_WITHIN = 0.1


class GaussianShape(HasScatter):
    """What a Gaussian says of its tables beside inference, in y = z/σ."""

    variance: Any
    prior_variance: Any
    prior_mean: Any
    width: Any

    def coordinates(self, X: Float) -> Float:
        """Return z for each row of X (n, D): (n, Q)."""
        raise NotImplementedError

    @cached_property
    def leading(self) -> NDArray[np.int64]:
        """The 8 coordinates in which clusters differ most, of more; none if they differ equally in all."""
        precision = np.asarray(self.variance / self.prior_variance)
        if precision.size <= MOST_PRODUCTS or np.all(precision == precision[0]):
            return np.zeros(0, dtype=np.int64)
        return np.sort(np.argsort(precision, kind="stable")[:MOST_PRODUCTS])

    def squares(self, X: Float) -> Float:
        """Return y_i y_j for i ≥ j, where y = z/σ: (n, Q(Q + 1)/2); for more than 8 coordinates, see below.

        Of more than 8 coordinates it is |y|², followed by the products of the ``leading`` ones, if there are any:
        (n, 1) or (n, 37).
        """
        y = self.coordinates(X) / np.sqrt(self.variance)
        if y.shape[1] <= MOST_PRODUCTS:
            return fold(y[:, :, None] * y[:, None, :])
        some = y[:, self.leading]
        return np.hstack([np.sum(y**2, axis=1)[:, None], fold(some[:, :, None] * some[:, None, :])])

    def expected_squares(self, stats: Float, n_features: int) -> Float:
        """Return the squares of tables whose spread is that of the family."""
        n, mean = self.means_in_units(stats)
        Q = mean.shape[1]
        some = mean if Q <= MOST_PRODUCTS else mean[:, self.leading]
        products = fold(n[:, None, None] * (np.eye(some.shape[1]) + some[:, :, None] * some[:, None, :]))
        if Q <= MOST_PRODUCTS:
            return products
        return np.hstack([n[:, None] * (Q + np.sum(mean**2, axis=1)[:, None]), products])

    def squares_of_features(self, stats: Float, squares: Float) -> list[Float]:
        """Return Σ r y² of each feature. For more than 8, only the sum is kept, and each gets an equal share of it."""
        n, mean = self.means_in_units(stats)
        Q = mean.shape[1]
        if Q <= MOST_PRODUCTS:
            return list(np.diagonal(unfold(squares, Q), axis1=1, axis2=2).T[:, :, None])
        within = np.maximum(squares[:, :1] - n[:, None] * np.sum(mean**2, axis=1, keepdims=True), 0.0) / Q
        return list((n[:, None] * mean**2 + within).T[:, :, None])

    def widen_squares(self, stats: Float, squares: Float, n_features: int) -> Float:
        """Return squares as if all observations had had 0 in features added at the end."""
        n, mean = self.means_in_units(stats)
        K, Q = mean.shape
        zero = -float(self.prior_mean) / np.sqrt(float(self.variance))
        if n_features > MOST_PRODUCTS:
            total = np.trace(unfold(squares, Q), axis1=1, axis2=2) if Q <= MOST_PRODUCTS else squares[:, 0]
            return (total + n * (n_features - Q) * zero**2)[:, None]
        wider = np.full((K, n_features, n_features), zero**2) * n[:, None, None]
        wider[:, Q:, :Q] = n[:, None, None] * zero * mean[:, None, :]
        wider[:, :Q, :Q] = unfold(squares, Q)
        return fold(wider)

    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return shapes in y = z/σ: covariances for up to 8 coordinates, one common variance for more."""
        n, mean = self.means_in_units(stats)
        Q = mean.shape[1]
        norm = np.sum(mean**2, axis=1)
        near = norm <= FURTHEST_WITH_SPREAD**2
        between = np.atleast_1d(self.prior_variance / self.variance)
        if Q > MOST_PRODUCTS:
            spread = (squares[:, 0] / n - norm) / Q
            return Shapes(n, mean, np.where(near, np.maximum(spread, 0.0), 1.0), 1.0, between)
        spread = unfold(squares / n[:, None], Q) - mean[:, :, None] * mean[:, None, :]
        return Shapes(n, mean, np.where(near[:, None, None], spread, np.eye(Q)), 1.0, between)

    def scatter(self, stats: Float, squares: Float) -> Scatter | None:
        """Return the scatter in y = z/σ, in the coordinates whose products are kept, and how much there is in others.

        Tables that lie very far out have no digits left for their scatter, and would leave none to the others: they
        scatter as the family expects, and count as not quite as far out. Where rows hardly vary, as in the difference
        of a feature from the sum of others, tables scatter as the family expects too: any join would gain there, as
        larger tables know better how narrow they are.
        """
        n, mean = self.means_in_units(stats)
        leading, products = np.arange(mean.shape[1]), squares
        if mean.shape[1] > MOST_PRODUCTS:
            if not len(self.leading) or (self.width or 0) > MOST_FEATURES:
                return None
            leading, products = self.leading, squares[:, 1:]
        others = np.delete(np.arange(mean.shape[1]), leading)
        kappa = float(1.0 / np.mean(self.prior_variance / self.variance))
        here = mean[:, leading]
        scatter = products - n[:, None] * fold(here[:, :, None] * here[:, None, :])
        matrices = unfold(scatter, len(leading))
        if np.any(np.diagonal(matrices, axis1=1, axis2=2) < 0.0):  # rows were split off that were shared with others
            values, vectors = np.linalg.eigh(matrices)
            matrices = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)
            scatter = fold(matrices)
        other_scatter = np.zeros(len(n))
        if len(others):
            about = squares[:, 0] - n * np.sum(mean**2, axis=1) - np.trace(matrices, axis1=1, axis2=2)
            other_scatter = np.maximum(about, 0.0)
        lengths = np.linalg.norm(mean, axis=1)
        far = lengths > FURTHEST_WITH_SPREAD
        if np.any(far):
            scatter[far] = n[far, None] * fold(np.eye(len(leading))[None])
            other_scatter[far] = n[far] * len(others)
            mean = mean - np.median(mean, axis=0)
            ratio = np.maximum(np.linalg.norm(mean, axis=1) / FURTHEST_WITH_SPREAD, 1.0)
            mean = mean * ((1.0 + np.log(ratio)) / ratio)[:, None]
        freedom = np.sum(n[~far] - 1.0)
        if freedom > 0.0:
            within = np.sum(np.diagonal(unfold(scatter[~far], len(leading)), axis1=1, axis2=2), axis=0) / freedom
            scatter += n[:, None] * fold(np.diag(np.where(within < LEAST_WITHIN, 1.0 - within, 0.0))[None])
        return Scatter(n, mean[:, leading], scatter, kappa, mean[:, others], other_scatter)

    def means_in_units(self, stats: Float) -> tuple[Float, Float]:
        """Return the count (K,) of each table and the mean (K, Q) of its observations, in y = z/σ."""
        n = stats[:, 0]
        return n, stats[:, 1:] / n[:, None] / np.sqrt(self.variance)

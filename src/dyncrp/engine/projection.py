"""From features to the coordinates of a Gaussian with directions, row by row.

Not a product of matrices by BLAS, whose rounding depends on how many rows it is given: the same row must get the same
coordinates, to the bit, however the stream is cut.
"""

from __future__ import annotations

import numpy as np

from dyncrp.engine.jit import cached
from dyncrp.engine.stream import Float
from dyncrp.families.gaussian import LOG_2PI, Gaussian


@cached
def _project(X: Float, mean: Float, W: Float, inverse: Float, numbers: Float, Z: Float, offset: Float) -> None:
    """W is (D, Q) here, inverse (Q, D)."""
    n, D = X.shape
    Q = W.shape[1]
    z, rest = np.empty(Q), np.empty(D)
    for i in range(n):
        z[:] = 0.0
        for d in range(D):
            value = X[i, d] - mean[d]
            rest[d] = value
            for j in range(Q):
                z[j] += value * W[d, j]
        square = 0.0
        if numbers[1] > 0.0:
            for j in range(Q):
                value = z[j]
                for d in range(D):
                    rest[d] -= value * inverse[j, d]
            for d in range(D):
                square += rest[d] * rest[d]
        for j in range(Q):
            Z[i, j] = z[j]
        offset[i] = numbers[0] - numbers[1] * square


class Projection:
    """z = W (x − m₀) and the log density of what z leaves out, for one family."""

    def __init__(self, family: Gaussian) -> None:
        Q, D = family.directions.shape
        constant, half = family.log_scale, 0.0
        if family.residual_variance is not None:
            constant -= 0.5 * (D - Q) * (LOG_2PI + np.log(family.residual_variance))
            half = 0.5 / family.residual_variance
        self._mean = np.broadcast_to(np.asarray(family.prior_mean), D).copy()
        self._directions = np.ascontiguousarray(family.directions.T)
        self._inverse = family.inverse
        self._numbers = np.array([constant, half])

    def __call__(self, X: Float) -> tuple[Float, Float]:
        """Return the coordinates (n, Q) and the log densities (n,) of rows (n, D)."""
        Z, offset = np.empty((len(X), self._directions.shape[1])), np.empty(len(X))
        _project(X, self._mean, self._directions, self._inverse, self._numbers, Z, offset)
        return Z, offset

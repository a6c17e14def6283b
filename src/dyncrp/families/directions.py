"""The coordinates z = W (x − m₀) of Gaussians with directions W."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dyncrp.families.base import Float, Hyperparameter, matrix, scalar_or_vector

LONGEST_DIRECTION = 1e50


def prepare(directions: ArrayLike, residual_variance: Hyperparameter) -> tuple[Float, Hyperparameter, Float, float]:
    """Return W (Q, D) and the residual variance, both checked, W⁺ᵀ (Q, D) and ½ log det W Wᵀ."""
    W = matrix("directions", directions)
    Q, D = W.shape
    if np.max(np.abs(W)) > LONGEST_DIRECTION:
        raise ValueError(f"directions must have entries of at most {LONGEST_DIRECTION:g}, got {np.max(np.abs(W)):g}")
    # Scale rows and columns to similar size, so that a small diagonal entry means dependence.
    columns = np.max(np.abs(W), axis=0)
    columns = np.where(columns > 0, columns, 1.0) if Q == D else np.ones(D)  # scaling would lose orthogonality
    rows = np.linalg.norm(W / columns, axis=1)
    balanced = W / columns / np.where(rows > 0, rows, 1.0)[:, None]
    basis, triangle = np.linalg.qr(balanced.T)
    if Q > D or np.min(np.abs(np.diag(triangle))) <= 1e-10:
        raise ValueError(f"directions must be linearly independent rows, got {Q} dependent rows of {D} features")
    inverse = np.linalg.solve(triangle, basis.T) / rows[:, None] / columns
    log_scale = np.sum(np.log(np.abs(np.diag(triangle)))) + np.sum(np.log(rows)) + np.sum(np.log(columns))
    residual = residual_variance
    if Q < D:
        residual = scalar_or_vector("residual_variance", residual) if residual is not None else None
        if residual is None or np.ndim(residual):
            raise ValueError(
                f"residual_variance must be a positive number for {Q} directions, fewer than {D} features, "
                f"got {residual_variance!r}"
            )
    elif residual is not None:
        raise ValueError(f"residual_variance must be None if there are as many directions as features, {D}")
    return W, residual, np.ascontiguousarray(inverse), float(log_scale)


def diagonalize(within: ArrayLike, between: ArrayLike) -> tuple[Float, Float]:
    """Return W and the diagonal (D,) of W between Wᵀ, ascending, where W within Wᵀ = I."""
    from scipy.linalg import eigh

    W, B = matrix("within", within), matrix("between", between)
    units = np.sqrt(np.diag(W)) if len(W) == W.shape[1] and np.all(np.diag(W) > 0) else np.ones(1)
    scaled = []
    for name, value in (("within", W), ("between", B)):
        in_units = value / units[:, None] / units if value.shape == (len(W), len(W)) else value
        if in_units.shape != (len(W), len(W)) or not np.allclose(
            in_units, in_units.T, rtol=1e-8, atol=1e-12 * np.max(np.abs(in_units))
        ):
            raise ValueError(f"{name} must be a symmetric (D, D) matrix, got shape {value.shape}")
        scaled.append(0.5 * (in_units + in_units.T))
    try:
        ratios, vectors = eigh(scaled[1], scaled[0])
    except np.linalg.LinAlgError:
        raise ValueError("within must be positive definite") from None
    if ratios[0] < -1e-8 * max(ratios[-1], 1.0):
        raise ValueError("between must be positive semi-definite")
    return np.ascontiguousarray((vectors / units[:, None]).T), ratios

"""Whether rows are a cloud: one cluster of a shape that tables tile, without clusters in it.

On halves of the rows, the density of the tables of one half is compared, on the other half, with two densities that
have no clusters: a Gaussian copula with kernel estimates of its margins, and an ellipse with a kernel estimate of its
radius. If one of these is higher, the rows are a cloud. Where clusters overlap, the tables' is higher.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, ndtr, ndtri

from dyncrp.dynamics import Stationary
from dyncrp.engine import make_engine
from dyncrp.engine.types import Model
from dyncrp.families import Family

Float = NDArray[np.float64]

FEWEST_ROWS, MOST_ROWS = 250, 250  # of a half; with fewer, tables could not show what they find
MOST_FEATURES = 30
LEAST_WIDTH = 0.3  # of a kernel, as a share of the usual one; narrower ones would only find repeated values
TYLER_ROUNDS = 30
NEVER, ALWAYS = 1e-6, 1.0 - 1e-6  # probabilities of margins lie between these


def is_cloud(family: Family, alpha: float, halves: list[Float]) -> bool:
    """Return whether rows are a cloud, given two halves (n, D) of them, and a family and alpha for their tables."""
    if halves[0].shape[1] > MOST_FEATURES or len(halves[0]) < FEWEST_ROWS:
        return False
    gains = np.zeros(2)
    for fit, other in ((halves[0], halves[1]), (halves[1], halves[0])):
        fit, other = fit[:MOST_ROWS], other[:MOST_ROWS]
        if np.any(np.ptp(fit, axis=0) == 0.0):
            return False
        engine = make_engine(Model(family, Stationary(), alpha), fit.shape[1])
        engine.run(family.check(fit), np.arange(len(fit), dtype=np.float64))
        tables = engine.log_density(family.check(other), np.full(len(other), engine.time))
        try:
            with np.errstate(all="ignore"):
                gains += [np.mean(log_density(fit, other) - tables) for log_density in (copula, ellipse)]
        except np.linalg.LinAlgError:  # features depend on each other
            return False
    return bool(np.nanmax([0.0, *gains]) > 0.0)


def copula(fit: Float, at: Float) -> Float:
    """Return the log density at rows (m, D) of a Gaussian copula with kernel margins, fitted to rows (n, D): (m,)."""
    log_density, scores, own = np.zeros(len(at)), np.empty_like(at), np.empty_like(fit)
    for d in range(fit.shape[1]):
        log_margin, probability = kernel(fit[:, d], at[:, d])
        log_density += log_margin
        scores[:, d] = ndtri(np.clip(probability, NEVER, ALWAYS))
        own[:, d] = ndtri(np.clip(kernel(fit[:, d], fit[:, d])[1], NEVER, ALWAYS))
    correlation = np.atleast_2d(np.corrcoef(own.T))
    rest = np.linalg.inv(correlation) - np.eye(fit.shape[1])
    half_log_det = 0.5 * np.linalg.slogdet(correlation)[1]
    return log_density - half_log_det - 0.5 * np.einsum("ni,ij,nj->n", scores, rest, scores)


def ellipse(fit: Float, at: Float) -> Float:
    """Return the log density at rows (m, D) of an ellipse with a kernel estimate of its radius, likewise: (m,).

    Its centre is the median and its shape Tyler's (1987), which heavy tails do not change.
    """
    n, D = fit.shape
    center = np.median(fit, axis=0)
    about = fit - center
    shape = np.diag(np.maximum(np.median(np.abs(about), axis=0), 1e-9 * np.ptp(fit, axis=0)) ** 2)
    for _ in range(TYLER_ROUNDS):
        shape = D / n * (about / _squares(about, shape)[:, None]).T @ about
        shape /= np.exp(np.linalg.slogdet(shape)[1] / D)
    log_radius = 0.5 * np.log(_squares(at - center, shape))
    log_margin = kernel(0.5 * np.log(_squares(about, shape)), log_radius)[0]
    log_sphere = np.log(2.0) + 0.5 * D * np.log(np.pi) - gammaln(0.5 * D)
    return log_margin - log_sphere - D * log_radius


def _squares(about: Float, shape: Float) -> Float:
    return np.maximum(np.einsum("ni,ij,nj->n", about, np.linalg.inv(shape), about), 1e-12)


def kernel(fit: Float, at: Float) -> tuple[Float, Float]:
    """Return the log density and the distribution function at numbers (m,) of a kernel estimate from numbers (n,).

    A kernel is as wide as half the reach of its √n neighbours, so that tails are smooth.
    """
    ordered, n = np.sort(fit), len(fit)
    reach = max(4, int(np.sqrt(n)))
    low, high = np.clip(np.arange(n) - reach, 0, n - 1), np.clip(np.arange(n) + reach, 0, n - 1)
    widths = 0.5 * reach * (ordered[high] - ordered[low]) / (high - low)
    quarter, three = np.quantile(ordered, (0.25, 0.75))
    widths = np.maximum(widths, LEAST_WIDTH * (three - quarter) / 1.34 * n**-0.2)
    widths = np.maximum(widths, 1e-9 * np.ptp(fit))
    z = (at[:, None] - ordered) / widths
    log_density = logsumexp(-0.5 * z * z - np.log(widths), axis=1) - np.log(n) - 0.5 * np.log(2.0 * np.pi)
    return log_density, np.mean(ndtr(z), axis=1)

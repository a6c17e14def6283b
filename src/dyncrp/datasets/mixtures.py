"""Streams drawn from the paper's generative model, Eq. 'dcrp_generative_model'."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.checks import Seed, integer
from dyncrp.families import Family
from dyncrp.process import DynamicalCRP


class Mixture(NamedTuple):
    """A stream and its truth: observations (N, D), labels (N,), and parameters of the tables (K, P); often, P = D."""

    observations: NDArray[np.float64]
    labels: NDArray[np.int64]
    parameters: NDArray[np.float64]


def sample_mixture(
    process: DynamicalCRP,
    family: Family,
    times: ArrayLike,
    seed: Seed = None,
    *,
    n_features: int | None = None,
) -> Mixture:
    """Draw tables from the process, parameters for each table from the prior, and observations from the parameters.

    Args:
        process: the distribution of the tables.
        family: the distribution of the parameters and observations of a table.
        times: (N,) non-decreasing.
        seed: an integer or a ``numpy.random.Generator``.
        n_features: D; by default as many as the family has hyperparameters for, or 2 if those are all scalars.

    >>> from dyncrp import DynamicalCRP, Exponential, Gaussian
    >>> process = DynamicalCRP(alpha=1.0, dynamics=Exponential(20.0))
    >>> X, labels, means = sample_mixture(process, Gaussian(1.0, 100.0), range(50), seed=0)
    >>> X.shape, labels.max() + 1 == len(means)
    ((50, 2), np.True_)
    """
    rng = np.random.default_rng(seed)
    family.require_known()
    fixed = family.width
    width = fixed or 2 if n_features is None else integer("n_features", n_features, 1)
    if fixed not in (None, width):
        raise ValueError(f"n_features = {n_features} does not fit {family!r}")
    labels = process.sample(times, seed=rng)[0]
    parameters = family.sample_parameters(int(labels.max(initial=-1)) + 1, width, rng)
    return Mixture(family.sample(parameters[labels], rng), labels, parameters)

"""Variational inference for the DP mixture of Gaussians (Blei and Jordan 2006), offline, by scikit-learn."""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from dyncrp.arrays.checks import integer, positive
from dyncrp.baselines.base import LARGEST_SEED, Baseline, Float, Labels, in_order, known_family
from dyncrp.families import Family, Gaussian

# The degrees of freedom of the prior of the precision, so many that data do not change it.
CERTAINTY = 1e6
LEAST_COMPONENTS = 10


class VariationalMixture(Baseline):
    """``sklearn.mixture.BayesianGaussianMixture`` with the hyperparameters of the model, as far as possible.

    It works on (x − m₀)/σ, where σ² = 1. α is its weight concentration of a Dirichlet process. ρ² becomes a mean
    precision of σ²/ρ²; since it takes one number, this is the mean of ρ² over the features. σ² becomes a Wishart prior
    with a million degrees of freedom on spherical precisions, which practically fixes it. The mixture is truncated at
    ``n_components`` clusters, and starts from k-means with that many.

    Args:
        family: a Gaussian.
        alpha: α.
        n_components: the truncation; by default twice the expected number of tables of the CRP for as many rows,
            Σ_n α/(α + n), but at least 10. It is at most the number of rows.
        max_iter: the largest number of steps.
        seed: an integer.

    Attributes:
        mixture_: scikit-learn's estimator, fitted.

    >>> from dyncrp import Gaussian
    >>> VariationalMixture(Gaussian(1.0, 100.0)).fit(
    ...     [[0.0], [9.0], [0.3], [9.5], [9.2]]
    ... ).labels_
    array([0, 1, 0, 1, 1])
    """

    mixture_: BayesianGaussianMixture

    def __init__(
        self,
        family: Family,
        alpha: float = 1.0,
        *,
        n_components: int | None = None,
        max_iter: int = 200,
        seed: int = 0,
    ) -> None:
        self.family = family
        self.alpha = alpha
        self.n_components = n_components
        self.max_iter = max_iter
        self.seed = seed

    def _cluster(self, X: Float, t: Float) -> Labels:
        family = known_family("variational inference", self.family, (Gaussian,))
        alpha = positive("alpha", self.alpha)
        if self.n_components is None:
            expected = float(np.sum(alpha / (alpha + np.arange(len(X)))))
            truncation = min(max(math.ceil(2.0 * expected), LEAST_COMPONENTS), len(X))
        else:
            truncation = min(integer("n_components", self.n_components, 1), len(X))
        rows = family.coordinates(family.check(X)) / np.sqrt(family.variance)
        mixture = BayesianGaussianMixture(
            n_components=truncation,
            covariance_type="spherical",
            max_iter=integer("max_iter", self.max_iter, 1),
            weight_concentration_prior_type="dirichlet_process",
            weight_concentration_prior=alpha,
            mean_prior=np.zeros(rows.shape[1]),
            mean_precision_prior=1.0 / float(np.mean(family.prior_variance / np.asarray(family.variance))),
            degrees_of_freedom_prior=CERTAINTY,
            covariance_prior=CERTAINTY,  # a scale: the variance is this over the degrees of freedom
            random_state=integer("seed", self.seed, 0, LARGEST_SEED),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # see mixture_.converged_
            components = mixture.fit_predict(rows)
        self.mixture_ = mixture
        return in_order(components)

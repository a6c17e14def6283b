"""Variational inference for the DP mixture of Gaussians (Blei and Jordan 2006): scikit-learn's, offline."""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from dyncrp.arrays.checks import integer, positive
from dyncrp.baselines.base import LARGEST_SEED, Baseline, Float, Labels, in_order, known_family
from dyncrp.families import Family, Gaussian

# The degrees of freedom of the prior of the precision: so many that no data move it.
CERTAINTY = 1e6
LEAST_COMPONENTS = 10


class VariationalMixture(Baseline):
    """``sklearn.mixture.BayesianGaussianMixture``, told the model as far as it can be told.

    It works on (x − m₀)/σ, where σ² = 1. It is told α, as the weight concentration of a Dirichlet process; m₀; ρ², as
    a mean precision of σ²/ρ² (the mean of ρ² over the features: it takes one number); and σ², by a Wishart prior of a
    million degrees of freedom on spherical precisions, which is as good as knowing it. It is truncated at
    ``n_components`` clusters, and begins with k-means of that many.

    Args:
        family: a Gaussian.
        alpha: α.
        n_components: the truncation; None is twice the number of tables that the CRP expects of as many rows,
            Σ_n α/(α + n), at least 10. With fewer rows than that, it is their number.
        max_iter: at most how many steps.
        seed: an integer.

    Attributes:
        mixture_: scikit-learn's estimator, fitted.

    >>> from dyncrp import Gaussian
    >>> VariationalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0], [0.3], [9.5], [9.2]]).labels_
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
            warnings.simplefilter("ignore", ConvergenceWarning)  # mixture_.converged_ tells
            components = mixture.fit_predict(rows)
        self.mixture_ = mixture
        return in_order(components)

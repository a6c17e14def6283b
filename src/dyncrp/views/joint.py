"""The method of an estimator that scores a given partition, to fit hyperparameters to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from dyncrp.stream.joint import log_joint
from dyncrp.stream.stream import Stream


class JointMethods(ABC):
    """What an estimator says of a partition that is given."""

    _stream: Stream

    @abstractmethod
    def _new_stream(self) -> Stream:
        """Return a stream without rows, with the parameters as they are now."""

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Return whether rows were learned."""

    def log_joint(self, X: ArrayLike, labels: Iterable[Any], times: ArrayLike | None = None) -> float:
        """Return log p(X, labels), the exact joint log probability of rows and a partition of them.

            Σ_n log P(c_n | c_<n) + Σ_n log p(x_n | the earlier rows of its table)

        The first sum is that of ``DynamicalCRP.log_prob``. X is a whole stream, from its beginning: tables that this
        model has learned do not matter, and nothing is learned. With an optimiser, this fits alpha, the dynamics, the
        memory or the family to the way in which people or animals grouped things; see docs/fitting.md.

        Parameters
        ----------
        X : array-like of shape (n, D), DataFrame or list of documents
            All rows, in order. NaN is a missing cell.
        labels : iterable of length n
            The table of each row, any integers or texts: only which rows are together counts.
        times : array-like of shape (n,), optional
            The times of the rows, which must not decrease. By default, the index of arrival.

        Returns
        -------
        float
            The log probability, under the hyperparameters that were learned if this model is fitted, and those given
            otherwise; none may be unknown. It is that of the model itself: parameters of inference, such as
            ``max_tables``, do not matter.

        Examples
        --------
        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> X = [[0.0], [9.0], [0.2]]
        >>> family = Gaussian(variance=1.0, prior_variance=100.0)
        >>> model = DynamicalMixture(family, alpha=1.0)
        >>> [round(model.log_joint(X, labels), 2) for labels in ("aba", "abb", "aab")]
        [-9.92, -28.97, -29.86]
        """
        return log_joint(self._stream if self.__sklearn_is_fitted__() else self._new_stream(), X, labels, times)

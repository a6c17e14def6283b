"""DynamicalMixture: the estimator. It validates, owns the state, and calls the engine."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dyncrp import persistence
from dyncrp.checks import as_observations, as_times, positive
from dyncrp.dynamics import Dynamics, Stationary
from dyncrp.engine import reference
from dyncrp.families import Family

Float = NDArray[np.float64]


class DynamicalMixture(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster a stream, one observation at a time, into a growing number of tables that time makes come and go.

    The model: seats are taken by the Dynamical CRP with ``alpha`` and ``dynamics``; each table draws its parameters
    from ``family``'s prior, and its observations from them. Inference sees each observation once, in order. A table
    keeps its id for ever; ids count up from 0 in order of opening. The result does not depend on how the stream is
    cut into calls.

    Args:
        family: how observations are distributed about a table, such as ``Gaussian(1.0, 100.0)``.
        dynamics: how tables are forgotten; the default is the plain CRP.
        alpha: how readily new tables open.
        assignment: "predictive" scores a table by log p(x | its data); "variational" is the paper's coordinate
            ascent.
        table_count: "map" gives a new table the weight alpha; "posterior" spreads alpha over the posterior of the
            number of tables, as the paper does.
        n_iter: coordinate steps of "variational".
        new_table_threshold: the share of probability at which a new table opens.

    Attributes:
        labels_: (n,) table id of each row of the last batch.
        responsibilities_: (n, K) scipy.sparse CSR, of the last batch.
        n_tables_: number of open tables K.
        table_ids_: (K,) their ids.
        occupancies_: (K,) their occupancies at the time of the latest observation, itself included.
        centers_: (K, D) where they lie.
        log_evidence_: Σ log p(x_n | x_<n) so far: compares models on the same stream.

    >>> from dyncrp import DynamicalMixture, Exponential, Gaussian
    >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0), Exponential(20.0), alpha=1.0)
    >>> model.fit([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0], [9.1, 9.0]]).labels_
    array([0, 1, 0, 1])
    >>> model.partial_fit([[-9.0, 9.0], [9.0, 9.1]]).labels_
    array([2, 1])
    >>> model.predict([[8.8, 9.0], [40.0, -40.0]])  # -1: none of the tables, a new one
    array([ 1, -1])
    """

    _model: reference.Model
    _params: dict[str, Any]  # as _model has them; set_params counts from the next fit
    _state: reference.State
    _timed: bool
    log_evidence_: float
    n_features_in_: int
    n_observations_: int
    labels_: NDArray[np.int64]
    responsibilities_: csr_array

    def __init__(
        self,
        family: Family,
        dynamics: Dynamics = Stationary(),  # noqa: B008 - immutable
        alpha: float = 1.0,
        *,
        assignment: str = "predictive",
        table_count: str = "map",
        n_iter: int = 3,
        new_table_threshold: float = 0.5,
    ) -> None:
        self.family = family
        self.dynamics = dynamics
        self.alpha = alpha
        self.assignment = assignment
        self.table_count = table_count
        self.n_iter = n_iter
        self.new_table_threshold = new_table_threshold
        self._checked_model()

    def fit(self, X: ArrayLike, y: object = None, *, times: ArrayLike | None = None) -> Self:
        """Forget everything, then learn from X (n, D) at ``times`` (n,), by default 0, 1, 2, …; y is ignored."""
        return self._learn(X, times, start=True)

    def partial_fit(self, X: ArrayLike, y: object = None, *, times: ArrayLike | None = None) -> Self:
        """Go on learning from X (n, D) at ``times`` (n,), by default the index of arrival; y is ignored."""
        return self._learn(X, times, start=not hasattr(self, "_state"))

    def predict(self, X: ArrayLike, times: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the label that each row would get now, or −1 if that were a new table's; learns nothing.

        Each row is judged by itself under the present state, at its own time (any time not before the latest
        observation; by default, when the next observation is due).
        """
        shares = self.predict_proba(X, times)
        shares[shares[:, -1] < self._model.rules.new_table_threshold - reference.TIE, -1] = 0.0
        shares /= np.sum(shares, axis=1, keepdims=True)
        first = np.argmax(shares >= np.max(shares, axis=1, keepdims=True) - reference.TIE, axis=1)
        return np.append(self.table_ids_, -1)[first]

    def predict_proba(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return the share of each table, and of a new one in the last column, for each row: (n, K + 1)."""
        return np.array([reference.responsibilities(*case) for case in self._cases(X, times)])

    def score_samples(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return log p(x | everything so far) for each row, (n,): low means novel."""
        return np.array([reference.log_density(*case) for case in self._cases(X, times)])

    @property
    def n_tables_(self) -> int:
        """Number of open tables."""
        return len(self._fitted_state().stats)

    @property
    def table_ids_(self) -> NDArray[np.int64]:
        """Ids of the open tables, (K,)."""
        return np.arange(self.n_tables_)

    @property
    def occupancies_(self) -> Float:
        """Occupancies of the open tables at the time of the latest observation, (K,)."""
        state = self._fitted_state()
        return reference.occupancy(state, self._model.modes)

    @property
    def centers_(self) -> Float:
        """Centres of the open tables, (K, D)."""
        state = self._fitted_state()
        return self._model.family.centers(state.stats)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to ``path``: all that the next call needs, exact to the bit; not the last batch's labels."""
        state = self._fitted_state()
        config = {
            "params": self._params,
            "n_features": self.n_features_in_,
            "n_observations": self.n_observations_,
            "timed": self._timed,
        }
        arrays = {
            "stats": state.stats,
            "mode_states": state.mode_states,
            "n_tables_posterior": state.n_tables_posterior,
            "time": np.array(state.time),
            "log_evidence": np.array(self.log_evidence_),
        }
        persistence.save(path, config, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that ``save`` wrote; it goes on where that one stopped."""
        config, arrays = persistence.load(path)
        try:
            model = cls(**config["params"])
            model._model, model._params = model._checked_model(), model.get_params(deep=False)
            model.n_features_in_ = int(config["n_features"])
            model.n_observations_ = int(config["n_observations"])
            model._timed = bool(config["timed"])
            model.log_evidence_ = float(arrays["log_evidence"])
            model._state = reference.State(
                stats=arrays["stats"],
                mode_states=arrays["mode_states"],
                time=float(arrays["time"]),
                n_tables_posterior=arrays["n_tables_posterior"],
            )
            K = len(model._state.stats)
            expected = reference.initial_state(model._model, model.n_features_in_)
            shapes = (K, expected.stats.shape[1]), (K, expected.mode_states.shape[1]), (K + 1,)
            found = tuple(arrays[name].shape for name in ("stats", "mode_states", "n_tables_posterior"))
            if K == 0 or found != shapes:
                raise ValueError(f"its arrays have shapes {found}, expected {shapes}")
            for name, array in arrays.items():
                wanted = np.complex128 if name == "mode_states" else np.float64
                if array.dtype != wanted or not np.all(np.isfinite(array)):
                    raise ValueError(f"its array {name!r} must hold finite {wanted.__name__} numbers")
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)} does not hold a DynamicalMixture: {error}") from error
        return model

    def _checked_model(self) -> reference.Model:
        """Check the parameters and gather what the engine is told."""
        if not isinstance(self.family, Family):
            raise ValueError(f"family must be a Family such as Gaussian(1.0, 100.0), got {self.family!r}")
        if not isinstance(self.dynamics, Dynamics):
            raise ValueError(f"dynamics must be a Dynamics such as Exponential(20.0), got {self.dynamics!r}")
        rules = reference.Rules(self.assignment, self.table_count, self.n_iter, self.new_table_threshold)
        return reference.Model(self.family, self.dynamics.modes(), positive("alpha", self.alpha), rules)

    def _learn(self, X: ArrayLike, times: ArrayLike | None, *, start: bool) -> Self:
        """Validate everything, run the engine, and only then replace the state."""
        table = as_observations(X)
        model = self._checked_model() if start else self._model
        n_observations = 0 if start else self.n_observations_
        if not start:
            self._check_width(table)
            if self._timed != (times is not None):
                earlier, now = ("with", "without") if self._timed else ("without", "with")
                raise ValueError(f"earlier calls came {earlier} times and this one {now}; a stream has one clock")
        table = model.family.check(table)
        state = reference.initial_state(model, table.shape[1]) if start else self._state
        if times is None:
            t = np.arange(n_observations, n_observations + len(table), dtype=np.float64)
        else:
            t = as_times(times, n=len(table), last=state.time)
        state, trace = reference.run(state, table, t, model)

        if start:
            self._params = self.get_params(deep=False)
        self._model, self._state, self._timed = model, state, times is not None
        self.n_features_in_ = table.shape[1]
        self.n_observations_ = n_observations + len(table)
        # Added up in order of arrival, so that the sum does not depend on how the stream is cut.
        before = 0.0 if start else self.log_evidence_
        self.log_evidence_ = float(np.cumsum(np.append(before, trace.log_evidence))[-1])
        self.labels_ = trace.labels
        self.responsibilities_ = trace.responsibilities
        return self

    def _cases(
        self, X: ArrayLike, times: ArrayLike | None
    ) -> list[tuple[reference.State, Float, float, reference.Model]]:
        """Validate rows to be judged and pair each with its time."""
        state = self._fitted_state()
        table = as_observations(X)
        self._check_width(table)
        table = self._model.family.check(table)
        if times is None:
            t = np.full(len(table), state.time if self._timed else float(self.n_observations_))
        else:
            t = as_times(times, n=len(table), last=state.time, ordered=False)
        return [(state, x, float(at), self._model) for x, at in zip(table, t, strict=True)]

    def _check_width(self, table: Float) -> None:
        if table.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {table.shape[1]} features, but DynamicalMixture is expecting {self.n_features_in_} features "
                "as input"
            )

    def _fitted_state(self) -> reference.State:
        check_is_fitted(self, "_state")
        return self._state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

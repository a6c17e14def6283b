"""DynamicalMixture: the estimator. It validates, owns the state, and calls the engine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dyncrp import persistence
from dyncrp.checks import LATEST, as_observations, as_times, positive
from dyncrp.dynamics import Dynamics, Stationary
from dyncrp.engine import make_engine, reference
from dyncrp.families import Family

if TYPE_CHECKING:
    from dyncrp.engine.compiled import CompiledEngine

Float = NDArray[np.float64]

# What the times of a stream are; one stream keeps to one.
INDEX, NUMBERS, DATES = "the index of arrival", "numbers", "dates"


class DynamicalMixture(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster a stream, one observation at a time, into a growing number of tables that time makes come and go.

    The model: seats are taken by the Dynamical CRP with ``alpha`` and ``dynamics``; each table draws its parameters
    from ``family``'s prior, and its observations from them. Inference sees each observation once, in order. A table
    keeps its id for ever; ids count up from 0 in order of opening. The result does not depend, to the bit, on how
    the stream is cut into calls. Parameters changed by ``set_params`` count from the next ``fit``.

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
        log_evidence_: Σ log p(x_n | x_<n) so far, which compares models on the same stream. (For "variational" the
            paper's scores stand in for the density, and have seen x_n: do not compare those with others.)
        n_observations_, n_features_in_: how many rows and columns it has seen.

    >>> from dyncrp import DynamicalMixture, Exponential, Gaussian
    >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0), Exponential(20.0), alpha=1.0)
    >>> model.fit([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0], [9.1, 9.0]]).labels_
    array([0, 1, 0, 1])
    >>> model.partial_fit([[-9.0, 9.0], [9.0, 9.1]]).labels_
    array([2, 1])
    >>> model.predict([[8.8, 9.0], [40.0, -40.0]])  # -1: none of the tables, a new one
    array([ 1, -1])
    """

    _params: dict[str, Any]  # as _model has them; set_params counts from the next fit
    _engine: reference.ReferenceEngine | CompiledEngine
    _trace: reference.Trace
    _clock: str
    n_features_in_: int
    labels_: NDArray[np.int64]

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
        return self._learn(X, times, start=not hasattr(self, "_engine"))

    def learn_one(self, x: ArrayLike, t: Any = None) -> int:
        """Learn from one observation x (D,) at time t and return its table: the fast path for loops.

        The same as ``partial_fit([x], times=[t])``, except that ``labels_`` and ``responsibilities_`` stay those of
        the last batch. The time t may be a number or a date; by default, it is the index of arrival.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0))
        >>> [model.learn_one(x) for x in ([0.0, 0.1], [9.0, 9.2], [0.2, 0.0])]
        [0, 1, 0]
        """
        row = as_observations(np.asarray(x)[None, ...])
        if not hasattr(self, "_engine") or self._clock != (INDEX if t is None else _clock([t])) or self._clock == DATES:
            self.partial_fit(row, times=None if t is None else [t])
            return int(self.labels_[0])
        engine = self._engine
        self._check_width(row)
        row = engine.model.family.check(row)
        if t is None:
            t = self.n_observations_
        elif not engine.time <= t <= LATEST:
            as_times([t], n=1, last=engine.time)
        return engine.run_one(row[0], float(t))[0]

    def predict(self, X: ArrayLike, times: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the label that each row would get now, or −1 if that were a new table's; learns nothing.

        Each row is judged by itself under the present state, at its own time (any time not before the latest
        observation; by default, when the next observation is due).
        """
        ids = np.append(self.table_ids_, -1)
        return ids[np.minimum(self._fitted_engine().labels(*self._checked_rows(X, times)), len(ids) - 1)]

    def predict_proba(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return the share of each table, and of a new one in the last column, for each row: (n, K + 1)."""
        return self._fitted_engine().shares(*self._checked_rows(X, times))

    def score_samples(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return log p(x | everything so far) for each row, (n,): low means novel."""
        return self._fitted_engine().log_density(*self._checked_rows(X, times))

    @property
    def responsibilities_(self) -> csr_array:
        """Responsibilities of the tables for the rows of the last batch, (n, K), scipy.sparse CSR."""
        check_is_fitted(self)
        return self._trace.responsibilities

    @property
    def n_observations_(self) -> int:
        """Number of observations learnt."""
        return self._fitted_engine().n_observations

    @property
    def log_evidence_(self) -> float:
        """Σ log p(x_n | x_<n) so far."""
        return self._fitted_engine().log_evidence

    @property
    def n_tables_(self) -> int:
        """Number of open tables."""
        return self._fitted_engine().n_tables

    @property
    def table_ids_(self) -> NDArray[np.int64]:
        """Ids of the open tables, (K,)."""
        return np.arange(self.n_tables_)

    @property
    def occupancies_(self) -> Float:
        """Occupancies of the open tables at the time of the latest observation, (K,)."""
        engine = self._fitted_engine()
        return reference.occupancy(engine.state, engine.model.modes)

    @property
    def centers_(self) -> Float:
        """Centres of the open tables, (K, D)."""
        engine = self._fitted_engine()
        return engine.model.family.centers(engine.state.stats)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to ``path``: all that the next call needs, exact to the bit; not the last batch's labels."""
        engine = self._fitted_engine()
        config = {
            "engine": type(engine).__name__,
            "params": self._params,
            "n_features": self.n_features_in_,
            "clock": self._clock,
        }
        persistence.save(path, config, engine.arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that ``save`` wrote; it goes on where that one stopped."""
        config, arrays = persistence.load(path)
        try:
            model = cls(**config["params"])
            model._params = model.get_params(deep=False)
            model.n_features_in_ = _whole("n_features", config["n_features"])
            model._clock = config["clock"]
            if model._clock not in (INDEX, NUMBERS, DATES):
                raise ValueError(f"its clock is {model._clock!r}")
            widest = max(array.shape[-1] for array in arrays.values() if array.ndim)
            if model.n_features_in_ > widest:
                raise ValueError(f"it promises {model.n_features_in_} features, and its widest array has {widest}")
            engine = make_engine(model._checked_model(), model.n_features_in_)
            if config["engine"] != type(engine).__name__:
                raise ValueError(
                    f"it was written by a {config['engine']}, and this family has a {type(engine).__name__}"
                )
            engine.restore(arrays)
            model._engine = engine
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
        return reference.Model(
            self.family, self.dynamics.modes(), positive("alpha", self.alpha), rules, clip=not self.dynamics.nonnegative
        )

    def _learn(self, X: ArrayLike, times: ArrayLike | None, *, start: bool) -> Self:
        """Validate everything, and only then run the engine."""
        table = as_observations(X)
        clock = _clock(times)
        if start:
            model, n_observations, last = self._checked_model(), 0, -np.inf
        else:
            model, n_observations, last = self._engine.model, self.n_observations_, self._engine.time
            self._check_width(table)
            self._check_clock(clock)
        table = model.family.check(table)
        if times is None:
            t = np.arange(n_observations, n_observations + len(table), dtype=np.float64)
        else:
            t = as_times(times, n=len(table), last=last)
        engine = make_engine(model, table.shape[1]) if start else self._engine
        # The engine counts what it has taken in: interrupted, a call has learnt the rows that it came to.
        trace = engine.run(table, t)
        if start:
            self._engine, self._clock = engine, clock
            self._params = self.get_params(deep=False)
            self.n_features_in_ = table.shape[1]
        self._trace = trace
        self.labels_ = trace.labels
        return self

    def _checked_rows(self, X: ArrayLike, times: ArrayLike | None) -> tuple[Float, Float]:
        """Validate rows to be judged and give each its time."""
        engine = self._fitted_engine()
        table = as_observations(X)
        self._check_width(table)
        table = engine.model.family.check(table)
        if times is None:
            now = float(self.n_observations_) if self._clock == INDEX else engine.time
            return table, np.full(len(table), now)
        if self._clock != INDEX:
            self._check_clock(_clock(times))
        return table, as_times(times, n=len(table), last=engine.time, ordered=False)

    def _check_clock(self, clock: str) -> None:
        if clock != self._clock:
            raise ValueError(f"this call's times are {clock}, earlier ones were {self._clock}: a stream has one clock")

    def _check_width(self, table: Float) -> None:
        if table.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {table.shape[1]} features, but DynamicalMixture is expecting {self.n_features_in_} features "
                "as input"
            )

    def _fitted_engine(self) -> reference.ReferenceEngine | CompiledEngine:
        check_is_fitted(self)
        return self._engine

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_engine")


def _clock(times: ArrayLike | None) -> str:
    """Tell what kind of times a call came with."""
    if times is None:
        return INDEX
    return DATES if np.asarray(times).dtype.kind in "MO" else NUMBERS


def _whole(name: str, value: object) -> int:
    """Return a positive whole number that a file claims to hold."""
    if type(value) is not int or value < 1:
        raise ValueError(f"its {name} is {value!r}")
    return value

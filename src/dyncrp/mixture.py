"""DynamicalMixture: the estimator. It validates, owns the state, and calls the engine."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dyncrp import persistence
from dyncrp.alpha import AlphaPosterior
from dyncrp.checks import LATEST, Seconds, are_dates, as_observations, as_times, positive, real, whole
from dyncrp.dynamics import Dynamics, Stationary, durations
from dyncrp.engine import make_engine, reference
from dyncrp.families import Family, Gaussian
from dyncrp.parameters import changed, nested
from dyncrp.tuning import DYNAMICS_TO_TRY, MOST_UNKNOWN, Candidate, Settled, settle

if TYPE_CHECKING:
    from dyncrp.engine.compiled import CompiledEngine

Float = NDArray[np.float64]

LOWEST_RESOLUTION, HIGHEST_RESOLUTION = 1e-6, 1e6
ALPHA_EVERY = 100  # observations from one change of a learning alpha to the next

# What the times of a stream are; one stream keeps to one.
INDEX, NUMBERS, DATES = "the index of arrival", "numbers", "dates"


class DynamicalMixture(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster a stream, one observation at a time, into a growing number of tables that time makes come and go.

    The model: seats are taken by the Dynamical CRP with ``alpha`` and ``dynamics``; each table draws its parameters
    from ``family``'s prior, and its observations from them. Inference sees each observation once, in order. A table
    keeps its id for ever; ids count up from 0 in order of opening. The result does not depend, to the bit, on how
    the stream is cut into calls. Parameters changed by ``set_params`` count from the next ``fit``.

    What is unknown is learnt from the first call, by the evidence of its first ``warmup`` rows (see ``dyncrp.tune``),
    and stays put from then on: a family without hyperparameters, such as ``Gaussian()``; a dynamics without a
    timescale, such as ``Exponential()``, or a list of dynamics to choose from; ``alpha=None``. Without arguments,
    everything is. Then the result depends on how many rows the first call has, up to ``warmup``, but not on later cuts.

    Args:
        family: how observations are distributed about a table, such as ``Gaussian(1.0, 100.0)``; by default
            ``Gaussian()``.
        dynamics: how tables are forgotten. "auto" is the plain CRP if the family is known, otherwise learnt; None is
            always learnt, from ``Stationary()``, ``Exponential()`` and sticky sums of the two.
        alpha: how readily new tables open. "auto" is 1 if family and dynamics are known, otherwise learnt; None is
            always learnt.
        warmup: at most how many rows of the first call to learn from what is unknown.
        resolution: above 1, for more and narrower clusters than the family has, given or learnt; below 1, for fewer.
            Variances are divided by it. From 1e-6 to 1e6.
        learn_alpha: whether alpha goes on learning, from the tables that open: every 100 observations it becomes its
            posterior mean (see ``dyncrp.alpha``), under a Gamma prior of shape 1 about what it was at first.
        n_jobs: processes to learn the unknown with, as for scikit-learn.
        assignment: "predictive" scores a table by log p(x | its data); "variational" is the paper's coordinate
            ascent.
        table_count: "map" gives a new table the weight alpha; "posterior" spreads alpha over the posterior of the
            number of tables, as the paper does.
        n_iter: coordinate steps of "variational".
        new_table_threshold: the share of probability at which a new table opens.
        max_tables: how many tables may be open, for endless streams; when one more opens, the one with the least
            occupancy closes. None: any number. A table that closed is forgotten, and its id is never used again.
        prune_below: the occupancy below which a table closes, whenever an observation is learnt. Neither closes the
            table that the observation joined or opened.

    Attributes:
        family_, dynamics_, alpha_: as given or learnt; with ``learn_alpha``, what alpha is now.
        evidence_: every candidate that was tried to learn the unknown, a list of named tuples that pandas takes.
        labels_: (n,) table id of each row of the last batch.
        responsibilities_: scipy.sparse CSR, of the last batch, with a column for each id ever given: (n, K) unless
            some have closed.
        novelty_: (n,) −log p(x_n | x_<n) of each row of the last batch: how unexpected it was.
        n_tables_: number of open tables K.
        table_ids_: (K,) their ids, counting up; 0 … K−1 unless some have closed.
        closed_ids_: ids of the tables that closed in the last batch, in the order in which they did.
        occupancies_: (K,) their occupancies at the time of the latest observation, itself included.
        centers_: (K, D) where they lie.
        log_evidence_: Σ log p(x_n | x_<n) so far, which compares models on the same stream. (For "variational" the
            paper's scores stand in for the density, and have seen x_n: do not compare those with others.)
        n_observations_, n_features_in_: how many rows and columns it has seen.
        feature_names_in_: (D,) the names of the columns, if the first call's table has names.

    >>> from dyncrp import DynamicalMixture, Exponential, Gaussian
    >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0), Exponential(20.0), alpha=1.0)
    >>> model.fit([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0], [9.1, 9.0]]).labels_
    array([0, 1, 0, 1])
    >>> model.partial_fit([[-9.0, 9.0], [9.0, 9.1]]).labels_
    array([2, 1])
    >>> model.predict([[8.8, 9.0], [40.0, -40.0]])  # -1: none of the tables, a new one
    array([ 1, -1])
    """

    _params: dict[str, Any]  # as _engine has them; set_params counts from the next fit
    _engine: reference.ReferenceEngine | CompiledEngine
    _trace: reference.Trace
    _clock: str
    _alpha_posterior: AlphaPosterior | None
    _evidence: list[Candidate]
    dynamics_: Dynamics
    n_features_in_: int

    def __init__(
        self,
        family: Family | None = None,
        dynamics: Dynamics | Sequence[Dynamics] | str | None = "auto",
        alpha: float | str | None = "auto",
        *,
        warmup: int = 1000,
        resolution: float = 1.0,
        learn_alpha: bool = False,
        n_jobs: int | None = None,
        assignment: str = "predictive",
        table_count: str = "map",
        n_iter: int = 3,
        new_table_threshold: float = 0.5,
        max_tables: int | None = None,
        prune_below: float = 0.0,
    ) -> None:
        self.family = family
        self.dynamics = dynamics
        self.alpha = alpha
        self.warmup = warmup
        self.resolution = resolution
        self.learn_alpha = learn_alpha
        self.n_jobs = n_jobs
        self.assignment = assignment
        self.table_count = table_count
        self.n_iter = n_iter
        self.new_table_threshold = new_table_threshold
        self.max_tables = max_tables
        self.prune_below = prune_below

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; deep, also the fields of family and dynamics, as ``family__variance``."""
        params = super().get_params(deep=False)
        return params | nested(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by the names that ``get_params`` lists, such as ``family__variance``; all of them, or none.

        >>> from dyncrp import DynamicalMixture, Exponential, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(20.0))
        >>> model.set_params(family__variance=2.0, dynamics__timescale=5.0)
        DynamicalMixture(dynamics=Exponential(timescale=5.0),
                         family=Gaussian(variance=2.0, prior_variance=100.0, prior_mean=0.0))
        """
        for name, value in changed(type(self).__name__, self.get_params(deep=False), params).items():
            setattr(self, name, value)
        return self

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
        row = np.asarray(x)[None, ...]
        # Where the square is not finite, or something else is odd, a closer look is needed.
        if row.dtype != np.float64 or row.ndim != 2 or not math.isfinite(np.vdot(row, row)):
            row = as_observations(row)
        if t is not None and type(t) is not float and not isinstance(t, (date, np.datetime64)):
            t = float(as_times([t], n=1)[0])
        clock = INDEX if t is None else NUMBERS if type(t) is float else _clock([t])
        started = hasattr(self, "_engine") and self._clock == clock
        if not started or clock == DATES or self._alpha_posterior is not None:
            return self._learn_one(row, t)
        engine = self._engine
        self._check_width(row)
        row = engine.model.family.check(row)
        if t is None:
            t = engine.n_observations
        elif not engine.time <= t <= LATEST:
            as_times([t], n=1, last=engine.time)
        return engine.run_one(row[0], float(t))[0]

    def _learn_one(self, row: Float, t: Any) -> int:
        """Learn from one row as ``partial_fit`` does, and leave what is of the last batch as it was."""
        batch = self.__dict__.get("_trace")
        self.partial_fit(row, times=None if t is None else [t])
        label = int(self._trace.labels[0])
        if batch is not None:
            self._trace = batch
        return label

    def predict(self, X: ArrayLike, times: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the label that each row would get now, or −1 if that were a new table's; learns nothing.

        Each row is judged by itself under the present state, at its own time (any time not before the latest
        observation; by default, when the next observation is due).
        """
        engine = self._fitted_engine()
        places = engine.labels(*self._checked_rows(X, times))
        return np.append(engine.ids, -1)[np.minimum(places, engine.n_tables)]

    def predict_proba(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return the share of each table, and of a new one in the last column, for each row: (n, K + 1)."""
        return self._fitted_engine().shares(*self._checked_rows(X, times))

    def score_samples(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return log p(x | everything so far) for each row, (n,): low means novel."""
        return self._fitted_engine().log_density(*self._checked_rows(X, times))

    def score(self, X: ArrayLike, y: object = None, times: ArrayLike | None = None) -> float:
        """Return the mean of ``score_samples``, by which scikit-learn compares models; y is ignored."""
        return float(np.mean(self.score_samples(X, times)))

    @property
    def labels_(self) -> NDArray[np.int64]:
        """Table id of each row of the last batch, (n,)."""
        return self._last_batch("labels_").labels

    @property
    def responsibilities_(self) -> csr_array:
        """Responsibilities of the tables for the rows of the last batch, a column for each id, scipy.sparse CSR."""
        return self._last_batch("responsibilities_").responsibilities

    @property
    def novelty_(self) -> Float:
        """How unexpected each row of the last batch was when it came, −log p(x_n | x_<n), (n,)."""
        return -self._last_batch("novelty_").log_evidence

    def _last_batch(self, name: str) -> reference.Trace:
        check_is_fitted(self)
        if not hasattr(self, "_trace"):
            raise AttributeError(
                f"this DynamicalMixture comes from a file, which does not keep the last batch, so it has no {name} "
                "before the next call of fit or partial_fit"
            )
        return self._trace

    @property
    def evidence_(self) -> list[Candidate]:
        """Every candidate that was tried to learn the unknown."""
        check_is_fitted(self)
        if not hasattr(self, "_evidence"):
            raise AttributeError(
                "this DynamicalMixture comes from a file, which does not keep the candidates, so it has no evidence_"
            )
        return self._evidence

    @property
    def family_(self) -> Family:
        """The family, as given or learnt, at the resolution asked for."""
        return self._fitted_engine().model.family

    @property
    def alpha_(self) -> float:
        """What alpha is, as given or learnt."""
        return self._fitted_engine().model.alpha

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
        return self._fitted_engine().ids

    @property
    def closed_ids_(self) -> NDArray[np.int64]:
        """Ids of the tables that closed in the last batch."""
        return self._last_batch("closed_ids_").closed

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
        persistence.write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that ``save`` wrote; it goes on where that one stopped."""
        return cls._from_bytes(Path(path).read_bytes(), os.fspath(path))

    def to_bytes(self) -> bytes:
        """Return what ``save`` writes, for those who keep it themselves."""
        engine = self._fitted_engine()
        config = {
            "engine": type(engine).__name__,
            "params": self._params,
            "settled": {"family": self.family_, "dynamics": self.dynamics_, "alpha": self.alpha_},
            "n_features": self.n_features_in_,
            "feature_names": getattr(self, "feature_names_in_", None),
            "clock": self._clock,
        }
        arrays = engine.arrays()
        if self._alpha_posterior is not None:
            config["prior_alpha"] = self._alpha_posterior.prior_mean
            arrays |= {"alpha_" + name: array for name, array in self._alpha_posterior.arrays().items()}
        return persistence.dumps(config, arrays)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a model that ``to_bytes`` returned, or ``save`` wrote; it goes on where that one stopped."""
        return cls._from_bytes(content, "this")

    @classmethod
    def _from_bytes(cls, content: bytes, name: str) -> Self:
        config, arrays = persistence.loads(content, name)
        try:
            model = cls(**config["params"])
            model._params = model.get_params(deep=False)
            model.n_features_in_ = _whole("n_features", config["n_features"])
            model._clock = config["clock"]
            if model._clock not in (INDEX, NUMBERS, DATES):
                raise ValueError(f"its clock is {model._clock!r}")
            names = config["feature_names"]
            if names is not None:
                strings = type(names) is list and all(type(entry) is str for entry in names)
                if not strings or len(names) != model.n_features_in_:
                    raise ValueError(f"its feature_names are {names!r}, for {model.n_features_in_} features")
                model.feature_names_in_ = np.array(names, dtype=object)
            settled, wanted = config["settled"], model._checked()
            model.dynamics_ = settled["dynamics"]
            known = wanted.model(settled["family"], settled["dynamics"], settled["alpha"])
            if wanted.family.known and type(known.family) is not type(wanted.family):
                raise ValueError(f"its family was given as {wanted.family!r}, and is {known.family!r}")
            if known.family.width not in (None, model.n_features_in_):
                raise ValueError(f"its family is for {known.family.width} features, and it has {model.n_features_in_}")
            if model.learn_alpha and known.clip:
                raise ValueError("its alpha goes on learning, for which its kernel must never be negative")
            model._alpha_posterior = None
            if model.learn_alpha:
                model._alpha_posterior = AlphaPosterior(positive("prior alpha", config["prior_alpha"]), known.modes)
                keys = [key for key in arrays if key.startswith("alpha_")]
                model._alpha_posterior.restore({key[6:]: arrays.pop(key) for key in keys})
            widest = max(array.shape[-1] for array in arrays.values() if array.ndim)
            if model.n_features_in_ > max(widest, known.family.width or 0):
                raise ValueError(f"it promises {model.n_features_in_} features, and its widest array has {widest}")
            engine = make_engine(known, model.n_features_in_)
            if config["engine"] != type(engine).__name__:
                raise ValueError(
                    f"it was written by a {config['engine']}, and this family has a {type(engine).__name__}"
                )
            if arrays.keys() != engine.arrays().keys():
                raise ValueError(f"its arrays are {sorted(arrays)}, expected {sorted(engine.arrays())}")
            engine.restore(arrays)
            model._engine = engine
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{name} does not hold a DynamicalMixture: {error}") from error
        return model

    def _checked(self) -> _Wanted:
        """Check the parameters and gather what they ask for."""
        family = Gaussian() if self.family is None else self.family
        if not isinstance(family, Family):
            raise ValueError(f"family must be a Family such as Gaussian(1.0, 100.0), got {self.family!r}")
        given = self.dynamics
        if given is None or (isinstance(given, str) and given == "auto"):
            given = (Stationary(),) if given is not None and family.known else DYNAMICS_TO_TRY
        dynamics = (given,) if isinstance(given, Dynamics) else tuple(given) if isinstance(given, (list, tuple)) else ()
        if not dynamics or not all(isinstance(kind, Dynamics) for kind in dynamics):
            raise ValueError(
                "dynamics must be a Dynamics such as Exponential(20.0), a list of such, None or 'auto', "
                f"got {self.dynamics!r}"
            )
        if any(kind.n_unknown > MOST_UNKNOWN for kind in dynamics):
            raise ValueError(f"dynamics may have {MOST_UNKNOWN} unknown durations each, got {self.dynamics!r}")
        alpha: Any = self.alpha
        if isinstance(alpha, str) and alpha == "auto":
            settled = family.known and len(dynamics) == 1 and not dynamics[0].n_unknown
            alpha = 1.0 if settled else None
        rules = reference.Rules(
            self.assignment,
            self.table_count,
            self.n_iter,
            self.new_table_threshold,
            self.max_tables,
            self.prune_below,
        )
        if not isinstance(self.learn_alpha, (bool, np.bool_)):
            raise ValueError(f"learn_alpha must be True or False, got {self.learn_alpha!r}")
        if self.learn_alpha and rules.table_count != "map":
            raise ValueError("learn_alpha needs table_count='map', in which alpha is the weight of a new table")
        if self.learn_alpha and not all(kind.nonnegative for kind in dynamics):
            raise ValueError(f"learn_alpha needs a kernel that is never negative, got dynamics {self.dynamics!r}")
        if self.n_jobs is not None and not (isinstance(self.n_jobs, (int, np.integer)) and real(self.n_jobs)):
            raise ValueError(f"n_jobs must be None or a whole number other than 0, got {self.n_jobs!r}")
        resolution = positive("resolution", self.resolution)
        if not LOWEST_RESOLUTION <= resolution <= HIGHEST_RESOLUTION:
            raise ValueError(
                f"resolution must be a number from {LOWEST_RESOLUTION:g} to {HIGHEST_RESOLUTION:g}, "
                f"got {self.resolution!r}"
            )
        if family.known:
            _sharpened(family, resolution)
        return _Wanted(
            family,
            dynamics,
            None if alpha is None else positive("alpha", alpha),
            rules,
            whole("warmup", self.warmup, 2),
            resolution,
        )

    def _settle(self, wanted: _Wanted, table: Float, t: Float) -> Settled:
        """Learn what is unknown from the first rows; the resolution is not part of it."""
        n = wanted.warmup
        if len(table) < 2:
            raise ValueError(
                "there are hyperparameters to learn, and 1 sample cannot tell them: begin with at least 2 rows, "
                f"better with {n}, or give them all"
            )
        return settle(wanted.family, wanted.dynamics, wanted.alpha, table[:n], t[:n], self.n_jobs)

    def _learn(self, X: ArrayLike, times: ArrayLike | None, *, start: bool) -> Self:
        """Validate everything, and only then run the engine."""
        table = as_observations(X)
        clock = _clock(times)
        if start:
            wanted, n_observations, last = self._checked(), 0, -np.inf
            wanted.check_clock(clock)
            family = wanted.family
        else:
            n_observations, last = self.n_observations_, self._engine.time
            family = self._engine.model.family
            self._check_names(X)
            self._check_width(table)
            self._check_clock(clock)
        table = family.check(table)
        if times is None:
            t = np.arange(n_observations, n_observations + len(table), dtype=np.float64)
        else:
            t = as_times(times, n=len(table), last=last)
        if not start:
            self._trace = self._run(self._engine, self._alpha_posterior, table, t)
            return self
        settled = wanted.settled
        if settled is None:
            settled = self._settle(wanted, table, t)
        model = wanted.model(_sharpened(settled.family, wanted.resolution), settled.dynamics, settled.alpha)
        table = model.family.check(table)
        engine = make_engine(model, table.shape[1])
        posterior = AlphaPosterior(settled.alpha, model.modes) if self.learn_alpha else None
        # The engine counts what it has taken in: interrupted, a later call has learnt the rows that it came to.
        self._trace = self._run(engine, posterior, table, t)
        self._engine, self._clock, self._alpha_posterior = engine, clock, posterior
        self._params = self.get_params(deep=False)
        self.dynamics_, self._evidence = settled.dynamics, settled.candidates
        self.n_features_in_ = table.shape[1]
        self._check_names(X, reset=True)
        return self

    def _run(
        self,
        engine: reference.ReferenceEngine | CompiledEngine,
        posterior: AlphaPosterior | None,
        table: Float,
        t: Float,
    ) -> reference.Trace:
        """Hand rows to the engine; between every hundredth and the next, let alpha learn from the tables opened."""
        if posterior is None:
            return engine.run(table, t)
        traces = []
        begin = 0
        while begin < len(table):
            end = min(begin + ALPHA_EVERY - engine.n_observations % ALPHA_EVERY, len(table))
            n_opened = engine.n_opened
            trace = engine.run(table[begin:end], t[begin:end])
            latest = np.maximum.reduceat(trace.indices, trace.indptr[:-1])  # the newest table in each row's record
            for i in range(end - begin):
                opened = bool(latest[i] >= n_opened)
                n_opened += opened
                posterior.update(float(t[begin + i]), opened=opened)
            if engine.n_observations % ALPHA_EVERY == 0:
                engine.set_alpha(posterior.mean)
            traces.append(trace)
            begin = end
        return reference.joined(traces)

    def _checked_rows(self, X: ArrayLike, times: ArrayLike | None) -> tuple[Float, Float]:
        """Validate rows to be judged and give each its time."""
        engine = self._fitted_engine()
        table = as_observations(X)
        self._check_names(X)
        self._check_width(table)
        table = engine.model.family.check(table)
        if times is None:
            now = engine.n_observations if self._clock == INDEX else engine.time
            return table, np.full(len(table), now, dtype=np.float64)
        if self._clock != INDEX:
            self._check_clock(_clock(times))
        return table, as_times(times, n=len(table), last=engine.time, ordered=False)

    def _check_clock(self, clock: str) -> None:
        if clock != self._clock:
            raise ValueError(f"this call's times are {clock}, earlier ones were {self._clock}: a stream has one clock")

    def _check_names(self, X: ArrayLike, *, reset: bool = False) -> None:
        """Remember the names of the features, or hold this call to them, as scikit-learn does."""
        if type(X) is not np.ndarray or hasattr(self, "feature_names_in_"):
            validate_data(self, X, reset=reset, skip_check_array=True)

    def _check_width(self, table: Float) -> None:
        if table.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {table.shape[1]} features, but DynamicalMixture is expecting {self.n_features_in_} features "
                "as input"
            )

    def _widen(self, n_features: int) -> None:
        """Let there be more features from now on, after those there are, in which all rows so far had 0."""
        self._engine = self._engine.widened(n_features)
        self.n_features_in_ = n_features

    def _fitted_engine(self) -> reference.ReferenceEngine | CompiledEngine:
        if "_engine" not in self.__dict__:
            check_is_fitted(self)  # raises, but takes its time
        return self._engine

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_engine")


class _Wanted(NamedTuple):
    """What the parameters ask for, checked; the unknown is unknown still."""

    family: Family
    dynamics: tuple[Dynamics, ...]
    alpha: float | None
    rules: reference.Rules
    warmup: int
    resolution: float

    def check_clock(self, clock: str) -> None:
        """Refuse a duration of so many hours where times count observations: the times were forgotten."""
        for kind in self.dynamics:
            for length in durations(kind):
                if clock == INDEX and isinstance(length, Seconds):
                    raise ValueError(
                        f"{kind!r} has a timedelta of {length:g} seconds, and there are no times: pass times, or give "
                        "the duration as a number of observations"
                    )

    @property
    def settled(self) -> Settled | None:
        """The hyperparameters, if none is unknown."""
        if self.alpha is None or not self.family.known or len(self.dynamics) > 1 or self.dynamics[0].n_unknown:
            return None
        return Settled(self.family, self.dynamics[0], self.alpha, [])

    def model(self, family: Family, dynamics: Dynamics, alpha: float) -> reference.Model:
        """Return what the engine is told."""
        return reference.Model(
            family, dynamics.modes(), positive("alpha", alpha), self.rules, clip=not dynamics.nonnegative
        )


class Tuned(NamedTuple):
    """A model that is ready to fit, with no unknown left, and all candidates that were tried."""

    model: DynamicalMixture
    candidates: list[Candidate]


def tune(
    X: ArrayLike,
    times: ArrayLike | None = None,
    *,
    family: Family | None = None,
    dynamics: Dynamics | Sequence[Dynamics] | None = None,
    alpha: float | None = None,
    warmup: int = 1000,
    resolution: float = 1.0,
    n_jobs: int | None = None,
) -> Tuned:
    """Choose hyperparameters by the evidence of the first ``warmup`` rows of X (n, D), without labels.

    What ``DynamicalMixture`` does by itself when it begins with unknown hyperparameters, as a step of its own: the
    same arguments, where None is unknown. ``dyncrp.plots.evidence`` draws the candidates.

    >>> import numpy as np, dyncrp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(rng.choice([-20.0, 0.0, 20.0], size=(300, 1)), 1.0, size=(300, 2))
    >>> model, candidates = dyncrp.tune(X)
    >>> model.fit(X).n_tables_
    3
    """
    model = DynamicalMixture(family, dynamics, alpha, warmup=warmup, resolution=resolution, n_jobs=n_jobs)
    wanted = model._checked()
    wanted.check_clock(_clock(times))
    table = wanted.family.check(as_observations(X))
    t = np.arange(len(table), dtype=np.float64) if times is None else as_times(times, n=len(table))
    settled = wanted.settled or model._settle(wanted, table, t)
    family = _sharpened(settled.family, wanted.resolution)
    return Tuned(DynamicalMixture(family, settled.dynamics, settled.alpha), settled.candidates)


def _sharpened(family: Family, resolution: float) -> Family:
    try:
        return family if resolution == 1.0 else family.sharpened(resolution)
    except ValueError as error:
        raise ValueError(f"resolution = {resolution!r} does not suit {family!r}: {error}") from None


def _clock(times: ArrayLike | None) -> str:
    """Tell what kind of times a call came with."""
    if times is None:
        return INDEX
    return DATES if are_dates(times) else NUMBERS


def _whole(name: str, value: object) -> int:
    """Return a positive whole number that a file claims to hold."""
    if type(value) is not int or value < 1:
        raise ValueError(f"its {name} is {value!r}")
    return value

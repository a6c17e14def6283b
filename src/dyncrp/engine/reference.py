"""Streaming inference for the Dynamical CRP mixture, one observation at a time, in plain NumPy: the law.

State goes in and comes out; nothing is modified. Where each equation of the paper lives:

    Eq. 'DCRP_definition', occupancies           ``advance``, ``occupancy``
    approximate filtering prior q(c_n | o_<n)    ``prior_weights``
    q(C_n | o_≤n)                                ``update_n_tables_posterior``
    coordinate updates of π_n                    ``coordinate_ascent``
    coordinate updates of q(φ)                   ``stats + r T(x)``, the families' posteriors
    Eq. 'approx_lower_bound'                     ``lower_bound``

Beyond the paper, ``closing`` and ``close`` bound the number of tables of an endless stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import logsumexp

from dyncrp.checks import real, whole
from dyncrp.dynamics import Modes
from dyncrp.families import Family

Float = NDArray[np.float64]
Complex = NDArray[np.complex128]
Int = NDArray[np.int64]

ASSIGNMENTS = ("predictive", "variational")
TABLE_COUNTS = ("map", "posterior")

# Shares closer than this, in proportion, are a tie: the first table gets the label, and a new table opens. So
# rounding, which differs between engines, does not decide between tables that the mathematics finds equal.
TIE = 1e-9
# An occupancy below this is 0: near the end of the range of floats its digits mean nothing.
NEGLIGIBLE = 1e-300
# A responsibility below this is 0: no table is kept alive by observations that were not its own.
DROPPED = 1e-12


@dataclass(frozen=True)
class Rules:
    """How one observation is assigned: the choices of inference that are not part of the model.

    assignment: "predictive" scores a table by log p(x | stats), "variational" by E_q[log p(x | φ)] (the paper).
    table_count: "map" gives a new table the weight alpha, "posterior" spreads alpha over q(C_{n-1}) (the paper).
    n_iter: coordinate steps of "variational".
    new_table_threshold: the share at which a new table is opened.
    max_tables: how many tables may be open; one more closes the one with the least occupancy. None: any number.
    prune_below: the occupancy below which a table closes.
    """

    assignment: str = "predictive"
    table_count: str = "map"
    n_iter: int = 3
    new_table_threshold: float = 0.5
    max_tables: int | None = None
    prune_below: float = 0.0

    def __post_init__(self) -> None:
        if self.assignment not in ASSIGNMENTS:
            raise ValueError(f"assignment must be one of {ASSIGNMENTS}, got {self.assignment!r}")
        if self.table_count not in TABLE_COUNTS:
            raise ValueError(f"table_count must be one of {TABLE_COUNTS}, got {self.table_count!r}")
        if isinstance(self.n_iter, bool) or not isinstance(self.n_iter, (int, np.integer)) or self.n_iter < 1:
            raise ValueError(f"n_iter must be a whole number ≥ 1, got {self.n_iter!r}")
        threshold = self.new_table_threshold
        if (
            isinstance(threshold, bool)
            or not isinstance(threshold, (int, float, np.number))
            or not 1e-9 <= threshold <= 1
        ):
            raise ValueError(f"new_table_threshold must be a number from 1e-9 to 1, got {threshold!r}")
        if self.max_tables is not None:
            whole("max_tables", self.max_tables, 1)
        least = real(self.prune_below)
        if least is None or not (least == 0 or NEGLIGIBLE <= least < np.inf):
            raise ValueError(f"prune_below must be 0 or a number ≥ {NEGLIGIBLE:g}, got {self.prune_below!r}")
        if self.closes and self.table_count != "map":
            raise ValueError("max_tables and prune_below need table_count='map': q(C_n) counts every table ever opened")

    @property
    def closes(self) -> bool:
        """Whether a table can close."""
        return self.max_tables is not None or self.prune_below > 0


@dataclass(frozen=True)
class Model:
    """What inference is told: the family, the modes of the dynamics, alpha, and the rules.

    clip: whether an occupancy can be negative before it is clipped. Only engines that avoid looking at every table
    need to know.
    """

    family: Family
    modes: Modes
    alpha: float
    rules: Rules
    clip: bool = True

    def __post_init__(self) -> None:
        self.family.require_known()


@dataclass(frozen=True)
class State:
    """All that the next step needs; K tables, S statistics, M modes.

    stats: (K, S) sufficient statistics, the parameters of q(φ_c).
    mode_states: (K, M) complex; the occupancy of table c is max(0, Re Σ_m amplitude_m mode_states[c, m]).
    time: of the latest observation.
    n_tables_posterior: (K + 1,), entry k is q(C_n = k); for ``table_count="map"`` all of it is at k = K.
    ids: (K,) of the open tables, in order of opening; n_opened: how many were ever opened, and so the next id.
    """

    stats: Float
    mode_states: Complex
    time: float
    n_tables_posterior: Float
    ids: Int
    n_opened: int


class Step(NamedTuple):
    """What one observation did; K + 1 entries, the last for a new table, unless said otherwise.

    scores: log weight + log likelihood, as of the last coordinate step.
    prior_weights: q(c_n | o_<n) before normalisation.
    responsibilities: as kept, one entry per table that is open now.
    label: place of its table among those open now.
    log_evidence: logsumexp(scores) − log Σ prior_weights.
    lower_bounds: the approximate lower bound after every coordinate step (empty for "predictive").
    closed: places, among the tables open now, of those that closed thereafter.
    """

    scores: Float
    prior_weights: Float
    responsibilities: Float
    label: int
    log_evidence: float
    lower_bounds: Float
    closed: Int


class Trace(NamedTuple):
    """What a stretch of n observations did: labels (n,), log evidence (n,), responsibilities as CSR arrays.

    Tables go by their ids, and the responsibilities have a column for each that was ever opened. closed: the ids of
    the tables that closed, in the order in which they did.
    """

    labels: Int
    log_evidence: Float
    indptr: Int
    indices: Int
    data: Float
    n_columns: int
    closed: Int

    @property
    def responsibilities(self) -> csr_array:
        """The responsibilities as a scipy.sparse array (n, K)."""
        return csr_array((self.data, self.indices, self.indptr), shape=(len(self.labels), self.n_columns))


def joined(traces: Sequence[Trace]) -> Trace:
    """Return what consecutive stretches did as one."""
    if len(traces) == 1:
        return traces[0]
    ends = np.cumsum([0, *(trace.indptr[-1] for trace in traces)])
    return Trace(
        np.concatenate([trace.labels for trace in traces]),
        np.concatenate([trace.log_evidence for trace in traces]),
        np.concatenate([[0], *(trace.indptr[1:] + end for trace, end in zip(traces, ends[:-1], strict=True))]),
        np.concatenate([trace.indices for trace in traces]),
        np.concatenate([trace.data for trace in traces]),
        traces[-1].n_columns,
        np.concatenate([trace.closed for trace in traces]),
    )


def initial_state(model: Model, n_features: int) -> State:
    """Return the state before the first observation: no tables."""
    return State(
        stats=model.family.empty(n_features),
        mode_states=np.zeros((0, len(model.modes.rates)), dtype=np.complex128),
        time=-np.inf,
        n_tables_posterior=np.ones(1),
        ids=np.zeros(0, dtype=np.int64),
        n_opened=0,
    )


def advance(state: State, t: float, modes: Modes) -> State:
    """Let time pass until t ≥ state.time: every mode is multiplied by exp(−rate Δ)."""
    if len(state.stats) == 0:
        return replace(state, time=t)
    decay = np.exp(-modes.rates * (t - state.time))
    return replace(state, mode_states=state.mode_states * decay, time=t)


def occupancy(state: State, modes: Modes) -> Float:
    """Return N_c(t) = max(0, Re Σ_m a_m s_cm) at the state's time: (K,)."""
    value = (state.mode_states @ modes.amplitudes).real
    return np.where(value > NEGLIGIBLE, value, 0.0)


def prior_weights(state: State, model: Model) -> Float:
    """Return q(c_n = c | o_<n) ∝ N_c(t_n) + α q(C_{n-1} = c − 1): (K + 1,), the last for a new table."""
    return np.append(occupancy(state, model.modes), 0.0) + model.alpha * state.n_tables_posterior


def step(state: State, x: Float, t: float, model: Model) -> tuple[State, Step]:
    """Take in one observation x (D,) at time t: advance, weigh, score, assign, update, close."""
    rules = model.rules
    X = x[None, :]
    state = advance(state, t, model.modes)
    weights = prior_weights(state, model)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)

    lower_bounds = np.zeros(0)
    if rules.assignment == "predictive":
        candidates = np.vstack([state.stats, np.zeros(state.stats.shape[1])])
        scores = log_weights + model.family.log_predictive(X, candidates)[0]
    else:
        scores, lower_bounds = coordinate_ascent(state.stats, X, log_weights, model)

    log_evidence = float(logsumexp(scores) - np.log(np.sum(weights)))
    responsibilities = _softmax(scores)
    if len(state.stats) == 0 or responsibilities[-1] >= rules.new_table_threshold * (1.0 - TIE):
        stats = np.vstack([state.stats, np.zeros(state.stats.shape[1])])
        mode_states = np.vstack(
            [state.mode_states, np.zeros_like(state.mode_states, shape=(1, len(model.modes.rates)))]
        )
        count = np.append(state.n_tables_posterior, 0.0)
        ids = np.append(state.ids, state.n_opened)
    else:
        responsibilities = _softmax(scores[:-1])
        stats, mode_states, count, ids = state.stats, state.mode_states, state.n_tables_posterior, state.ids

    responsibilities = np.where(responsibilities < DROPPED, 0.0, responsibilities)
    r = responsibilities[:, None]
    after = State(
        stats=stats + r * model.family.statistics(X),
        mode_states=mode_states + r.astype(np.complex128),
        time=t,
        n_tables_posterior=update_n_tables_posterior(count, responsibilities, rules.table_count),
        ids=ids,
        n_opened=state.n_opened + len(ids) - len(state.ids),
    )
    label = int(np.argmax(responsibilities >= np.max(responsibilities) * (1.0 - TIE)))
    closed = np.zeros(0, dtype=np.int64)
    if rules.closes:
        closed = closing(after, label if len(ids) == len(state.ids) else len(ids) - 1, model)
        after = close(after, closed)
    return after, Step(scores, weights, responsibilities, label, log_evidence, lower_bounds, closed)


def closing(state: State, latest: int, model: Model) -> Int:
    """Return the places of the tables that must close: those below ``prune_below``, then the least if too many.

    latest: the table that the observation opened or joined, which stays. Of tables that tie, the oldest goes. Where
    the kernel can be negative, what is 0 on paper may be a rounding error, which must not decide.
    """
    rules = model.rules
    value = occupancy(state, model.modes)
    slack = TIE * np.max(value) if model.clip else 0.0
    value[latest] = np.inf
    stays = value >= rules.prune_below * (1.0 - TIE)
    while rules.max_tables is not None and np.sum(stays) > rules.max_tables:
        least = np.min(value[stays])
        stays[np.argmax(stays & (value <= least * (1.0 + TIE) + slack))] = False
    return np.flatnonzero(~stays)


def close(state: State, closed: Int) -> State:
    """Return the state without the tables in these places; their ids are never used again."""
    K = len(state.ids) - len(closed)
    return replace(
        state,
        stats=np.delete(state.stats, closed, axis=0),
        mode_states=np.delete(state.mode_states, closed, axis=0),
        n_tables_posterior=np.append(np.zeros(K), 1.0),
        ids=np.delete(state.ids, closed),
    )


def coordinate_ascent(stats: Float, X: Float, log_weights: Float, model: Model) -> tuple[Float, Float]:
    """Alternate the updates of π_n and q(φ) for one observation X (1, D), ``n_iter`` times.

    The first π_n uses the parameters before x, each later one stats_c + π_nc T(x). The new table is scored by its
    marginal likelihood: its q(φ) is always the posterior given x. Returns the last scores (K + 1,) and the lower
    bound after each of the 2 n_iter half-steps (π, then φ).
    """
    family = model.family
    T = family.statistics(X)
    marginal = family.log_predictive(X, np.zeros((1, stats.shape[1])))[0]
    updated = stats
    bounds = []
    for _ in range(model.rules.n_iter):
        scores = log_weights + np.append(family.expected_log_likelihood(X, updated)[0], marginal)
        responsibilities = _softmax(scores)
        bounds.append(lower_bound(responsibilities, updated, stats, X, log_weights, family))
        updated = stats + responsibilities[:-1, None] * T
        bounds.append(lower_bound(responsibilities, updated, stats, X, log_weights, family))
    return scores, np.array(bounds)


def lower_bound(
    responsibilities: Float, updated: Float, stats: Float, X: Float, log_weights: Float, family: Family
) -> float:
    """Return Eq. 'approx_lower_bound': Σ_c π_c (E_q[log p(x | φ_c)] + log q(c | o_<n) − log π_c) − Σ_c KL_c.

    KL_c is the divergence of q(φ_c), given by ``updated``, from the filtering prior, given by ``stats``. Both are
    the family's posteriors, so with A = log_partition and E[η] read off linearly from E_q[log p(x | φ)],
    KL = ⟨E_q[η], updated − stats⟩ − A(updated) + A(stats); and updated − stats is a multiple of T(x).
    """
    expected = family.expected_log_likelihood(X, updated)[0]
    T = family.statistics(X)
    moved = (updated - stats)[:, 0] / T[0, 0]  # how much of T(x) was added; T(x) starts with a 1
    natural = expected - family.log_base_measure(X)  # ⟨E_q[η], T(x)⟩
    divergence = moved * natural - family.log_partition(updated) + family.log_partition(stats)
    marginal = family.log_predictive(X, np.zeros((1, stats.shape[1])))[0]
    likelihood = np.append(expected, marginal)
    used = responsibilities > 0
    gain = likelihood[used] + log_weights[used] - np.log(responsibilities[used])
    return float(responsibilities[used] @ gain - logsumexp(log_weights) - np.sum(divergence))


def update_n_tables_posterior(count: Float, responsibilities: Float, table_count: str = "posterior") -> Float:
    """Return q_n(k) = q_{n-1}(k) Σ_{c≤k} r_c + q_{n-1}(k−1) (1 − Σ_{c≤k−1} r_c), tables counted from 1.

    count: (K + 1,), entry k is q_{n-1}(C = k); responsibilities: (K,). For "map", a point mass at K instead.

    >>> update_n_tables_posterior(np.array([0.0, 1.0, 0.0]), np.array([0.3, 0.7]))
    array([0. , 0.3, 0.7])
    """
    if table_count == "map":
        return np.append(np.zeros(len(responsibilities)), 1.0)
    seated = np.append(0.0, np.minimum(np.cumsum(responsibilities), 1.0))  # Σ_{c≤k} r_c, k = 0 … K
    seated[-1] = 1.0
    moved = count * (1.0 - seated)
    return count * seated + np.append(0.0, moved[:-1])


def run(state: State, X: Float, times: Float, model: Model) -> tuple[State, Trace]:
    """Take in a stretch of the stream: X (n, D) at times (n,), valid and in order."""
    labels = np.empty(len(X), dtype=np.int64)
    log_evidence = np.empty(len(X))
    rows, columns, closed = [], [], []
    for i in range(len(X)):
        before = state
        state, done = step(before, X[i], float(times[i]), model)
        ids = np.append(before.ids, before.n_opened)[: len(done.responsibilities)]
        labels[i], log_evidence[i] = ids[done.label], done.log_evidence
        rows.append(done.responsibilities)
        columns.append(ids)
        closed.append(ids[done.closed])
    indptr = np.cumsum([0, *map(len, rows)])
    return state, Trace(
        labels,
        log_evidence,
        indptr,
        np.concatenate(columns),
        np.concatenate(rows),
        state.n_opened,
        np.concatenate(closed),
    )


def shares(state: State, x: Float, t: float, model: Model) -> Float:
    """Return softmax(scores) of one observation, (K + 1,), the last for a new table; changes nothing."""
    return _softmax(step(state, x, t, model)[1].scores)


def log_density(state: State, x: Float, t: float, model: Model) -> float:
    """Return log p(x | everything so far), the predictive mixture over the tables and a new one at time t."""
    weights = prior_weights(advance(state, t, model.modes), model)
    candidates = np.vstack([state.stats, np.zeros(state.stats.shape[1])])
    log_likelihood = model.family.log_predictive(x[None, :], candidates)[0]
    return float(logsumexp(log_likelihood, b=weights) - np.log(np.sum(weights)))


class ReferenceEngine:
    """The law with the face of an engine: for families that have no compiled code, and to compare against."""

    def __init__(self, model: Model, n_features: int) -> None:
        self.model = model
        self.n_features = n_features
        self.state = initial_state(model, n_features)
        self.n_observations = 0
        self.log_evidence = 0.0

    @property
    def n_tables(self) -> int:
        """Number of open tables."""
        return len(self.state.stats)

    @property
    def n_opened(self) -> int:
        """Number of tables ever opened."""
        return self.state.n_opened

    @property
    def ids(self) -> Int:
        """Ids of the open tables, (K,)."""
        return self.state.ids

    @property
    def time(self) -> float:
        """Time of the latest observation."""
        return self.state.time

    def run(self, X: Float, times: Float) -> Trace:
        """Take in a stretch of the stream: X (n, D) at times (n,), valid and in order."""
        self.state, trace = run(self.state, X, times, self.model)
        self.n_observations += len(X)
        self.log_evidence = float(np.cumsum(np.append(self.log_evidence, trace.log_evidence))[-1])
        return trace

    def set_alpha(self, alpha: float) -> None:
        """Let alpha be this from the next observation on."""
        self.model = replace(self.model, alpha=alpha)

    def run_one(self, x: Float, t: float) -> tuple[int, float]:
        """Take in one valid observation x (D,) at time t; return its label and log evidence."""
        trace = self.run(x[None, :], np.array([t]))
        return int(trace.labels[0]), float(trace.log_evidence[0])

    def judge_one(self, x: Float, t: float) -> tuple[int, float]:
        """Return the place of the table that a valid x (D,) would join at time t, K for a new one, and log evidence.

        Changes nothing.
        """
        done = step(self.state, x, t, self.model)[1]
        return done.label, done.log_evidence

    def shares(self, X: Float, times: Float) -> Float:
        """Return softmax(scores) of each row by itself, (n, K + 1), the last for a new table; changes nothing."""
        cases = zip(X, times, strict=True)
        return np.array([shares(self.state, x, float(t), self.model) for x, t in cases])

    def labels(self, X: Float, times: Float) -> NDArray[np.int64]:
        """Return the place of the table that each row by itself would join, (n,), K for a new one; changes nothing."""
        cases = zip(X, times, strict=True)
        return np.array([step(self.state, x, float(t), self.model)[1].label for x, t in cases])

    def log_density(self, X: Float, times: Float) -> Float:
        """Return log p(x | everything so far) of each row by itself, (n,); changes nothing."""
        cases = zip(X, times, strict=True)
        return np.array([log_density(self.state, x, float(t), self.model) for x, t in cases])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that the next step needs, as plain arrays."""
        state = self.state
        return {
            "stats": state.stats,
            "mode_states": state.mode_states,
            "n_tables_posterior": state.n_tables_posterior,
            "time": np.array(state.time),
            "ids": state.ids,
            "n_opened": np.array(state.n_opened),
            "n_observations": np.array(self.n_observations),
            "log_evidence": np.array(self.log_evidence),
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from what ``arrays`` returned; anything of another shape or kind is a ``ValueError``."""
        K = len(arrays["stats"])
        check_arrays(
            arrays,
            {
                "stats": (K, self.state.stats.shape[1]),
                "mode_states": (K, len(self.model.modes.rates)),
                "n_tables_posterior": (K + 1,),
                "time": (),
                "ids": (K,),
                "n_opened": (),
                "n_observations": (),
                "log_evidence": (),
            },
        )
        check_ids(arrays["ids"], int(arrays["n_opened"]))
        self.n_observations, self.log_evidence = int(arrays["n_observations"]), float(arrays["log_evidence"])
        self.state = State(
            arrays["stats"],
            arrays["mode_states"],
            float(arrays["time"]),
            arrays["n_tables_posterior"],
            arrays["ids"],
            int(arrays["n_opened"]),
        )

    def widened(self, n_features: int) -> ReferenceEngine:
        """Return an engine of more features, as if every observation so far had had 0 in the new ones.

        For families whose T(x) is a 1 and then as many numbers for each feature, such as (1, x) and (1, x, x²).
        """
        wider, stats = ReferenceEngine(self.model, n_features), self.state.stats
        K, D = len(stats), self.n_features
        T = self.model.family.statistics(np.zeros((1, n_features)))[:, 1:].reshape(1, -1, n_features)
        features = stats[:, :1, None] * T
        features[:, :, :D] = stats[:, 1:].reshape(K, -1, D)
        wider.restore(self.arrays() | {"stats": np.hstack([stats[:, :1], features.reshape(K, -1)])})
        return wider


def check_arrays(arrays: dict[str, NDArray[Any]], shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise ``ValueError`` unless each array is there, of its shape, and made of finite numbers."""
    for name, shape in shapes.items():
        array = arrays[name]
        if array.shape != shape or 0 in shape:
            raise ValueError(f"its array {name!r} has shape {array.shape}, expected {shape}")
        if array.dtype not in (np.float64, np.complex128, np.int64) or not np.all(np.isfinite(array)):
            raise ValueError(f"its array {name!r} must hold finite numbers")


def check_ids(ids: Int, n_opened: int) -> None:
    """Raise ``ValueError`` unless the ids count up and stay below the number of tables ever opened."""
    if ids.dtype != np.int64 or ids[0] < 0 or np.any(np.diff(ids) <= 0) or ids[-1] >= n_opened:
        raise ValueError(f"its ids must be whole numbers that count up and stay below {n_opened}")


def _softmax(scores: Float) -> Float:
    exponentials = np.exp(scores - np.max(scores))
    return exponentials / np.sum(exponentials)

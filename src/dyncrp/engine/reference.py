"""Streaming inference for the Dynamical CRP mixture, one observation at a time, in plain NumPy: the reference.

State goes in and comes out; nothing is modified. Where each equation of the paper lives:

    Eq. 'DCRP_definition', occupancies           ``advance``, ``occupancy``
    approximate filtering prior q(c_n | o_<n)    ``prior_weights``
    q(C_n | o_≤n)                                ``update_n_tables_posterior``
    coordinate updates of π_n                    ``coordinate_ascent``
    coordinate updates of q(φ)                   ``update``, the families' posteriors
    Eq. 'approx_lower_bound'                     ``lower_bound``

Beyond the paper, ``closing`` and ``close`` bound the number of tables of an endless stream, ``update`` lets tables
forget old members, and ``step`` and ``run`` take constraints and weights.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from dyncrp.arrays.counts import Counts, WordCounts
from dyncrp.dynamics import Modes
from dyncrp.engine import schema
from dyncrp.engine.rows import absence, given_weight, seen_rows
from dyncrp.engine.types import (
    DROPPED,
    NEGLIGIBLE,
    NEW,
    REPORTED,
    TIE,
    UNKNOWN,
    Arrays,
    Float,
    Int,
    Model,
    Rows,
    State,
    Step,
    TableConstraints,
    Trace,
    state_of,
)
from dyncrp.families import Family, protocols


def initial_state(model: Model, n_features: int) -> State:
    """Return the state before the first observation: no tables."""
    return State(
        stats=model.family.empty(n_features),
        squares=protocols.squares(model.family, np.zeros((1, n_features)))[:0],
        mode_states=np.zeros((0, len(model.modes.rates)), dtype=np.complex128),
        time=-np.inf,
        n_tables_posterior=np.ones(1),
        ids=np.zeros(0, dtype=np.int64),
        n_opened=0,
        sizes=np.zeros(0, dtype=np.int64),
        first_times=np.zeros(0),
        last_times=np.zeros(0),
    )


def advance(state: State, t: float, modes: Modes) -> State:
    """Advance the state to time t ≥ state.time: every mode is multiplied by exp(−rate Δ)."""
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


def step(
    state: State, x: Float, t: float, model: Model, table: int = UNKNOWN, mark: int = UNKNOWN, weight: float = 1.0
) -> tuple[State, Step]:
    """Learn from one observation x (D,) at time t: advance, weigh, score, assign, update, close.

    table: the id of the open table of x if it is known, or ``NEW``. Then x is seated at this table only; its log
    evidence does not depend on this. mark: the tables of the rows just before x with the same mark have no weight.
    weight: x is seated as without a weight, and then teaches its tables as this many equal rows. With a weight of 0
    only time passes, and if its table would be a new one, its label is K, the number of open tables.

    If the family is sparse, x is seated only at the table of its label, which is a new one if that is the likeliest or
    reaches the threshold. Responsibilities are then reported, but not used.
    """
    rules, family = model.rules, model.family.given(state.stats)
    X = x[None, :]
    state = advance(state, t, model.modes)
    taken = state.taken if mark != UNKNOWN and mark == state.mark else ()
    weights = np.where(np.append(np.isin(state.ids, taken), False), 0.0, prior_weights(state, model))
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)

    lower_bounds = np.zeros(0)
    if rules.assignment == "predictive":
        candidates = np.vstack([state.stats, np.zeros(state.stats.shape[1])])
        scores = log_weights + family.log_predictive(X, candidates)[0]
    else:
        scores, lower_bounds = coordinate_ascent(state.stats, X, log_weights, model)

    log_evidence = float(logsumexp(scores) - np.log(np.sum(weights)))
    responsibilities = _softmax(scores)
    wholly = family.sparse
    enough = min(rules.new_table_threshold, np.max(responsibilities) if wholly else 1.0)
    opens = len(state.stats) == 0 or responsibilities[-1] >= enough * (1.0 - TIE)
    if opens if table == UNKNOWN else table == NEW:
        stats = np.vstack([state.stats, np.zeros(state.stats.shape[1])])
        squares = np.vstack([state.squares, np.zeros(state.squares.shape[1])])
        mode_states = np.vstack(
            [state.mode_states, np.zeros_like(state.mode_states, shape=(1, len(model.modes.rates)))]
        )
        count = np.append(state.n_tables_posterior, 0.0)
        ids = np.append(state.ids, state.n_opened)
    else:
        responsibilities = _softmax(scores[:-1]) if table == UNKNOWN else responsibilities[:-1]
        stats, squares, mode_states = state.stats, state.squares, state.mode_states
        count, ids = state.n_tables_posterior, state.ids
    if table != UNKNOWN:
        responsibilities = (ids == (state.n_opened if table == NEW else table)).astype(np.float64)

    label = int(np.argmax(responsibilities >= np.max(responsibilities) * (1.0 - TIE)))
    if wholly:
        label = len(ids) - 1 if len(ids) > len(state.ids) else label
        seated = (np.arange(len(ids)) == label).astype(np.float64)
        responsibilities = np.where(
            (responsibilities < REPORTED * (1.0 - TIE)) & (seated == 0.0), 0.0, responsibilities
        )
    else:
        seated = responsibilities = np.where(responsibilities < DROPPED, 0.0, responsibilities)
    closed = np.zeros(0, dtype=np.int64)
    if weight == 0.0:
        return state, Step(scores, weights, responsibilities, label, log_evidence, lower_bounds, closed)
    seen, squares_seen = family.observed(X)
    after = State(
        stats=update(stats, seated, family.statistics(X), model.memory, seen, weight),
        squares=update(squares, seated, protocols.squares(family, X), model.memory, squares_seen, weight),
        mode_states=mode_states + weight * seated[:, None].astype(np.complex128),
        time=t,
        n_tables_posterior=update_n_tables_posterior(count, seated, rules.table_count),
        ids=ids,
        n_opened=state.n_opened + len(ids) - len(state.ids),
        **seen_rows(state, label, len(ids)),
        mark=mark,
        taken=() if mark == UNKNOWN else (*taken, int(ids[label])),
    )
    if wholly and weight != 1.0:
        after.stats[:, 0] = after.sizes  # tables of words count their rows; only counts of words have weights
    if rules.closes:
        closed = closing(after, label if len(ids) == len(state.ids) else len(ids) - 1, model)
        after = close(after, closed)
    return after, Step(scores, weights, responsibilities, label, log_evidence, lower_bounds, closed)


def update(
    stats: Float, responsibilities: Float, T: Float, memory: float, seen: Float | float = 1.0, weight: float = 1.0
) -> Float:
    """Return stats_c + r_c (T(x) − seen stats_c/memory) for stats (K, S), responsibilities (K,) and T(x) (1, S).

    The count of a table, its first entry, tends to the memory and never exceeds it: a table remembers about its last
    ``memory`` members, older ones with less weight. Tables with r_c = 0 do not change. Neither do statistics of missing
    cells, where ``seen`` (1, S) is 0. With an infinite memory this is the paper's stats_c + r_c T(x).

    A row of another weight does this ``weight`` times: keep stats_c + memory (1 − keep) T(x), where keep is
    (1 − r_c seen/memory)^weight, also for fractions. With an infinite memory it is stats_c + weight r_c T(x).

    >>> stats = np.array([[10.0, 50.0], [3.0, 6.0]])
    >>> update(stats, np.array([1.0, 0.0]), np.array([[1.0, 7.0]]), memory=10.0)
    array([[10., 52.],
           [ 3.,  6.]])
    """
    r = responsibilities[:, None]
    if weight == 1.0:
        return stats * (1.0 - r * seen / memory) + r * T
    if memory == math.inf:
        return stats + weight * r * T
    log_keep = weight * np.log1p(-r * seen / memory)
    return stats * np.exp(log_keep) - memory * np.expm1(log_keep) * T


def closing(state: State, latest: int, model: Model) -> Int:
    """Return the indices of the tables that must close: those below ``prune_below``, then the lowest if too many.

    latest: the table that the observation opened or joined, which does not close. In a tie, the oldest table closes.
    If the kernel can be negative, occupancies that are 0 in exact arithmetic may differ by rounding; this is a tie.
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
    """Return the state without the tables at these indices. Their ids are never used again."""
    K = len(state.ids) - len(closed)
    return replace(
        state,
        stats=np.delete(state.stats, closed, axis=0),
        squares=np.delete(state.squares, closed, axis=0),
        mode_states=np.delete(state.mode_states, closed, axis=0),
        n_tables_posterior=np.append(np.zeros(K), 1.0),
        ids=np.delete(state.ids, closed),
        sizes=np.delete(state.sizes, closed),
        first_times=np.delete(state.first_times, closed),
        last_times=np.delete(state.last_times, closed),
    )


def coordinate_ascent(stats: Float, X: Float, log_weights: Float, model: Model) -> tuple[Float, Float]:
    """Alternate the updates of π_n and q(φ) for one observation X (1, D), ``n_iter`` times.

    The first π_n uses the parameters before x, each later one those of ``update`` with the previous π_n. The new table
    is scored by its marginal likelihood: its q(φ) is always the posterior given x. Returns the last scores (K + 1,) and
    the lower bound after each of the 2 n_iter half-steps (π, then φ); no bounds for a finite memory.
    """
    family = model.family
    T, seen = family.statistics(X), family.observed(X)[0]
    marginal = family.log_predictive(X, np.zeros((1, stats.shape[1])))[0]
    updated = stats
    bounds = []
    for _ in range(model.rules.n_iter):
        scores = log_weights + np.append(family.expected_log_likelihood(X, updated)[0], marginal)
        responsibilities = _softmax(scores)
        before, updated = updated, update(stats, responsibilities[:-1], T, model.memory, seen)
        if model.memory == math.inf:
            bounds += [
                lower_bound(responsibilities, after, stats, X, log_weights, family) for after in (before, updated)
            ]
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


def run(
    state: State, X: Float, times: Float, model: Model, told: TableConstraints | None = None
) -> tuple[State, Trace]:
    """Learn from a segment of the stream: X (n, D) at times (n,), valid and in order.

    Stops before a row whose given table is not open.
    """
    labels, log_evidence, absences = [], [], []
    rows, columns, closed, closed_rows = [], [], [], []
    for i in range(len(X)):
        before = state
        table, mark = (UNKNOWN, UNKNOWN) if told is None else (int(told.tables[i]), int(told.marks[i]))
        if table >= 0 and table not in before.ids:
            break
        weight = given_weight(told, i)
        state, done = step(before, X[i], float(times[i]), model, table, mark, weight)
        ids = np.append(before.ids, before.n_opened if weight else UNKNOWN)[: len(done.responsibilities)]
        labels.append(ids[done.label])
        log_evidence.append(done.log_evidence)
        absences.append(absence(before, done.label, float(times[i])))
        rows.append(done.responsibilities[ids >= 0])
        columns.append(ids[ids >= 0])
        closed.append(ids[done.closed])
        closed_rows.append(np.full(len(done.closed), i))
    none = [np.zeros(0, dtype=np.int64)]
    return state, Trace(
        np.array(labels, dtype=np.int64),
        np.array(log_evidence),
        np.cumsum([0, *map(len, rows)]),
        np.concatenate(columns or none),
        np.concatenate(rows or [np.zeros(0)]),
        state.n_opened,
        np.concatenate(closed or none),
        np.concatenate(closed_rows or none),
        np.array(absences, dtype=np.float64),
    )


def predict(state: State, x: Float, t: float, model: Model) -> tuple[int, float]:
    """Return the label that one observation would get, −1 for a new table, and its log evidence."""
    done = step(state, x, t, model)[1]
    return int(np.append(state.ids, -1)[done.label]), done.log_evidence


def responsibilities(state: State, x: Float, t: float, model: Model) -> Float:
    """Return softmax(scores) of one observation, (K + 1,), the last for a new table."""
    return _softmax(step(state, x, t, model)[1].scores)


def log_density(state: State, x: Float, t: float, model: Model) -> float:
    """Return log p(x | everything so far), the predictive mixture over the tables and a new one at time t."""
    weights = prior_weights(advance(state, t, model.modes), model)
    candidates = np.vstack([state.stats, np.zeros(state.stats.shape[1])])
    log_likelihood = model.family.given(state.stats).log_predictive(x[None, :], candidates)[0]
    return float(logsumexp(log_likelihood, b=weights) - np.log(np.sum(weights)))


class ReferenceEngine:
    """The reference as an ``Engine``, for tests and where there is no compiled code, or none for the family."""

    def __init__(self, model: Model, n_features: int) -> None:
        self.model = model
        self.n_features = n_features
        self.state = initial_state(model, n_features)
        self.n_observations, self.log_evidence = 0, 0.0
        self.latest_evidence = b""

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

    @property
    def seating(self) -> State:
        """The state."""
        return self.state

    def accepts(self, X: object, n_dimensions: int) -> bool:
        """Return False: all rows must be checked."""
        return False

    def run(self, X: Rows, times: Float, told: TableConstraints | None = None) -> Trace:
        """Learn from a segment of the stream: X (n, D) at times (n,), valid and in order; see ``run``."""
        state, X = self._dense(X)
        state, trace = run(state, X, times, self.model, told)
        n, total = len(trace.labels), float(np.cumsum(np.append(self.log_evidence, trace.log_evidence))[-1])
        latest = trace.log_evidence.tobytes()  # from here on all at once: an interruption finds all of it or nothing
        self.state, self.n_features, self.log_evidence, self.latest = state, X.shape[1], total, trace
        self.latest_evidence, self.n_observations = latest, self.n_observations + n
        return trace

    def set_alpha(self, alpha: float) -> None:
        """Set alpha, from the next observation on."""
        self.model = replace(self.model, alpha=alpha)

    def _dense(self, X: Rows) -> tuple[State, Float]:
        """Return the state and dense rows (n, D); if rows are Counts, both with the larger number of columns."""
        if not isinstance(X, Counts):
            return self.state, X
        D = max(self.n_features, X.n_columns)
        if self.n_features == D:
            return self.state, X.toarray(D)
        return replace(self.state, stats=protocols.widen(self.model.family, self.state.stats, D)), X.toarray(D)

    def word_counts(self, table: int) -> WordCounts:
        """Return the words of an open table, and their counts."""
        if table not in self.ids:
            raise ValueError(f"there is no open table {table!r}")
        return _words(self.state.stats[self.ids.tolist().index(table), 1:])

    def word_totals(self) -> WordCounts:
        """Return the words of all open tables, and their total counts."""
        return _words(np.sum(self.state.stats[:, 1:], axis=0))

    def word_stats(self, columns: Int) -> Float:
        """Return for each open table, (K, 2 + m): its rows, its counts in ascending columns (m,), and in all others."""
        n_features = max(self.n_features, 1 + int(np.max(columns, initial=-1)))
        stats = protocols.widen(self.model.family, self.state.stats, n_features)
        others = np.sum(np.delete(stats, 1 + columns, axis=1)[:, 1:], axis=1)
        return np.column_stack([stats[:, 0], stats[:, 1 + columns], others])

    def run_one(self, x: Rows, t: float) -> tuple[int, float]:
        """Learn from one valid observation x (D,) at time t; return its label and log evidence."""
        trace = self.run(x if isinstance(x, Counts) else x[None, :], np.array([t]))
        return int(trace.labels[0]), float(trace.log_evidence[0])

    def run_safe_one(self, x: object, t: float | None) -> None:
        """Return None: all rows must be checked."""

    def predict_one(self, x: Rows, t: float) -> tuple[int, float]:
        """Return the label that x (D,) would get at time t, −1 for a new table, and its log evidence."""
        state, X = self._dense(x if isinstance(x, Counts) else x[None, :])
        return predict(state, X[0], t, self.model)

    def responsibilities(self, X: Rows, times: Float) -> Float:
        """Return softmax(scores) of each row by itself, (n, K + 1), the last for a new table."""
        state, X = self._dense(X)
        return np.array([responsibilities(state, x, float(t), self.model) for x, t in zip(X, times, strict=True)])

    def predict(self, X: Rows, times: Float) -> Int:
        """Return the label that each row by itself would get, (n,), −1 for a new table."""
        state, X = self._dense(X)
        return np.array([predict(state, x, float(t), self.model)[0] for x, t in zip(X, times, strict=True)], np.int64)

    def log_density(self, X: Rows, times: Float) -> Float:
        """Return log p(x | everything so far) of each row by itself, (n,)."""
        state, X = self._dense(X)
        return np.array([log_density(state, x, float(t), self.model) for x, t in zip(X, times, strict=True)])

    def arrays(self) -> Arrays:
        """Return the state as arrays."""
        state = self.state
        return {
            "stats": state.stats,
            "mode_states": state.mode_states,
            "mode_time": np.array(state.time),
            "n_tables_posterior": state.n_tables_posterior,
            "time": np.array(state.time),
            "table_ids": state.ids,
            "n_opened": np.array(state.n_opened),
            "n_observations": np.array(self.n_observations),
            "log_evidence": np.array(self.log_evidence),
            "sizes": state.sizes,
            "first_times": state.first_times,
            "last_times": state.last_times,
            **({"mark": np.array(state.mark), "taken": np.array(state.taken)} if state.taken else {}),
            **({"squares": state.squares} if state.squares.shape[1] else {}),
        }

    def restore(self, arrays: Arrays) -> None:
        """Continue from the ``arrays`` of any engine; raise ``ValueError`` if they are invalid."""
        if "words_indptr" in arrays:
            arrays = self._with_stats(arrays)
        widths = {"S": self.state.stats.shape[1], "P": self.state.squares.shape[1]}
        sizes = widths | {"M": len(self.model.modes.rates), "D": self.n_features}
        arrays = schema.check_state(arrays, schema.OF_ROWS, sizes, self.model.family)
        self.n_observations, self.log_evidence = int(arrays["n_observations"]), float(arrays["log_evidence"])
        self.state = state_of(arrays, self.model.modes, arrays["stats"], arrays.get("squares"))

    def _with_stats(self, arrays: Arrays) -> Arrays:
        """Return arrays with the words of tables as ``stats``."""
        indptr, indices, data = (arrays[name] for name in ("words_indptr", "words_indices", "words_counts"))
        rows = Counts(indptr, indices, data, self.n_features).toarray()
        return arrays | {"stats": np.hstack([arrays["sizes"][:, None].astype(np.float64), rows])}

    def widen(self, n_features: int) -> ReferenceEngine:
        """Return an engine with more features, which were 0 in all observations so far."""
        family, state = self.model.family, self.state
        wider = ReferenceEngine(self.model, n_features)
        squares = protocols.widen_squares(family, state.stats, state.squares, n_features)
        wider.restore(self.arrays() | {"stats": protocols.widen(family, state.stats, n_features), "squares": squares})
        return wider


def _words(counts: Float) -> WordCounts:
    columns = np.flatnonzero(counts)
    return WordCounts(columns, counts[columns])


def _softmax(scores: Float) -> Float:
    exponentials = np.exp(scores - np.max(scores))
    return exponentials / np.sum(exponentials)

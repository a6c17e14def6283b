"""The interface of engines: their input, their output, and the protocol ``Engine``.

``reference.py`` is an engine in readable NumPy; the fast engine computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dyncrp.arrays.checks import integer, real
from dyncrp.arrays.counts import WordCounts
from dyncrp.dynamics import Dynamics, Modes
from dyncrp.families import Family

Float = NDArray[np.float64]
Complex = NDArray[np.complex128]
Int = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
Rows = Any  # (n, D) float64; or Counts, if the family is sparse

ASSIGNMENTS = ("predictive", "variational")
TABLE_COUNTS = ("map", "posterior")

# Probabilities with a smaller relative difference are a tie: the first table gets the label, and a new table opens. So
# rounding, which differs between engines, does not decide between tables that are equal in exact arithmetic.
TIE = 1e-9
# An occupancy below this is 0: near the smallest floats, digits are lost.
NEGLIGIBLE = 1e-300
# A responsibility below this is 0, so that observations of other tables do not keep a table open.
DROPPED = 1e-12
# For a row that is seated at one table only, smaller responsibilities of other tables are not reported.
REPORTED = 0.01
MOST_ITERATIONS = 1000  # for one row, during which nobody looks for Ctrl-C
# The largest size of a dense array of the word counts of all tables.
MOST_DENSE = 20_000_000
# The largest number of observations in a file, so that sums do not overflow.
MOST_OBSERVATIONS = 2**62
# Weights of rows of words are multiples of this, so that sums of counts are exact, in any order.
GRAIN = 2.0**-10
# In place of the id of a row's table: it is unknown, or a new table.
UNKNOWN, NEW = -1, -2


@dataclass(frozen=True)
class Rules:
    """How an observation is assigned to a table: choices of inference that are not part of the model.

    assignment: "predictive" scores a table by log p(x | stats), "variational" by E_q[log p(x | φ)] (the paper).
    table_count: "map" gives a new table the weight alpha, "posterior" spreads alpha over q(C_{n-1}) (the paper).
    n_iter: coordinate steps of "variational".
    new_table_threshold: the probability at which a new table opens.
    max_tables: how many tables may be open, None for any number. One more closes the one with the lowest occupancy.
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
        whole = isinstance(self.n_iter, (int, np.integer)) and not isinstance(self.n_iter, bool)
        if not whole or not 1 <= self.n_iter <= MOST_ITERATIONS:
            raise ValueError(f"n_iter must be an integer from 1 to {MOST_ITERATIONS}, got {self.n_iter!r}")
        threshold = self.new_table_threshold
        if (
            isinstance(threshold, bool)
            or not isinstance(threshold, (int, float, np.number))
            or not 1e-9 <= threshold <= 1
        ):
            raise ValueError(f"new_table_threshold must be a number from 1e-9 to 1, got {threshold!r}")
        if self.max_tables is not None:
            integer("max_tables", self.max_tables, 1)
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
    """A model with nothing unknown: all that inference needs.

    memory: how many of its members a table remembers. cloud: whether the rows that it was learned from were one cloud,
    for ``clusters``. modes: the modes of the dynamics; given only if they come from a file, and computed from the
    dynamics otherwise.
    """

    family: Family
    dynamics: Dynamics
    alpha: float
    memory: float = math.inf
    rules: Rules = Rules()
    cloud: bool = field(default=False, compare=False)
    modes: Modes = field(default=None, repr=False, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.family.require_known()
        check_words(self.family, self.rules, self.memory)
        if self.modes is None:
            object.__setattr__(self, "modes", self.dynamics.modes())

    @property
    def clip(self) -> bool:
        """Whether an occupancy can be negative before it is clipped; for engines that do not look at every table."""
        return not self.dynamics.nonnegative


def check_words(family: Family, rules: Rules, memory: float | None) -> float | None:
    """Raise ``ValueError`` if rules or memory do not suit a family of word counts, known or not.

    Return the memory. If it is unknown and only one is possible, return that one.
    """
    if not family.sparse:
        return memory
    if rules.assignment != "predictive":
        raise ValueError(
            f"{type(family).__name__} needs assignment='predictive': a word that is new has no expected log "
            f"probability, got {rules.assignment!r}"
        )
    if memory is not None and memory < math.inf:
        raise ValueError(f"{type(family).__name__} needs memory=inf: tables keep whole counts, got {memory!r}")
    return math.inf


@dataclass(frozen=True)
class State:
    """All that the next step needs; K tables, S statistics, M modes.

    stats: (K, S) sufficient statistics, the parameters of q(φ_c), less what tables have forgotten.
    squares: (K, P) sums of products of coordinates; used to join tables into clusters, not for inference.
    mode_states: (K, M) complex; the occupancy of table c is max(0, Re Σ_m amplitude_m mode_states[c, m]).
    time: of the latest observation.
    n_tables_posterior: (K + 1,), entry k is q(C_n = k); for ``table_count="map"``, 1 at k = K.
    ids: (K,) of the open tables, in order of opening. n_opened: how many were ever opened, which is the next id.
    sizes: (K,) how many rows have the label of each table; like the times, not used for inference.
    first_times, last_times: (K,) the times of the first and the last of these rows. A table can open with a row that
    gets another label; then it has size 0, and the time of its opening, until its first row.
    mark: of the latest row, see ``TableConstraints``. taken: the ids of its table and of those of the rows just before
    it with the same mark.
    """

    stats: Float
    squares: Float
    mode_states: Complex
    time: float
    n_tables_posterior: Float
    ids: Int
    n_opened: int
    sizes: Int
    first_times: Float
    last_times: Float
    mark: int = UNKNOWN
    taken: tuple[int, ...] = ()


class TableConstraints(NamedTuple):
    """Constraints on the tables of n rows.

    tables: (n,) the id of the table of each row, ``UNKNOWN``, or ``NEW`` for a new table. marks: (n,) consecutive rows
    with the same mark, other than ``UNKNOWN``, cannot share a table. weights: (n,) how many rows each counts as; None
    if each counts as one.
    """

    tables: Int
    marks: Int
    weights: Float | None = None

    def part(self, rows: slice) -> TableConstraints:
        """Return the constraints on some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return TableConstraints(self.tables[rows], self.marks[rows], weights)


class Step(NamedTuple):
    """What one observation did; arrays have K + 1 entries, the last for a new table, unless noted otherwise.

    scores: log weight + log likelihood, in the last coordinate step.
    prior_weights: q(c_n | o_<n) before normalisation.
    responsibilities: one entry for each table that is open now; for a row that is seated at one table, as reported.
    label: the index of its table among those open now.
    log_evidence: logsumexp(scores) − log Σ prior_weights.
    lower_bounds: the approximate lower bound after every coordinate step; empty for "predictive", and for a finite
    memory, which the bound does not include.
    closed: the indices, among the tables open now, of those that closed afterwards.
    """

    scores: Float
    prior_weights: Float
    responsibilities: Float
    label: int
    log_evidence: float
    lower_bounds: Float
    closed: Int


@dataclass(eq=False)
class Trace:
    """What a segment of n observations did: labels (n,), log evidence (n,), responsibilities as CSR arrays.

    Labels are ids, and the responsibilities have a column for each table ever opened. A row of weight 0 that would have
    opened a table has the label −1, and what is left of its responsibilities is that of a new table. closed: the ids of
    the tables that closed, in order. closed_rows: the index of the row with which each closed. absences: (n,) the time
    since the last row with the same label, 0 if there was none.
    """

    labels: Int
    log_evidence: Float
    indptr: Int
    indices: Int
    data: Float
    n_columns: int
    closed: Int
    closed_rows: Int
    absences: Float

    @property
    def responsibilities(self) -> csr_array:
        """The responsibilities as a scipy.sparse array (n, K)."""
        return csr_array((self.data, self.indices, self.indptr), shape=(len(self.labels), self.n_columns))

    @property
    def probability(self) -> Float:
        """The responsibility of the table of each row, which is the largest one, (n,)."""
        some = np.diff(self.indptr) > 0  # a row of weight 0 may have none
        starts, most, sums = self.indptr[:-1][some], np.zeros(len(some)), np.zeros(len(some))
        if len(starts):
            most[some] = np.maximum.reduceat(self.data, starts)
        if np.all(self.labels >= 0):
            return most
        if len(starts):
            sums[some] = np.add.reduceat(self.data, starts)
        return np.where(self.labels < 0, 1.0 - sums, most)


class LazyTrace(Trace):
    """A trace whose parts are computed when they are first read. read: returns the part of a given name."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    def __getattr__(self, name: str) -> Any:
        if name not in PARTS:
            raise AttributeError(name)
        part = self.__dict__[name] = self._read(name)
        return part

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a plain trace."""
        return Trace, tuple(getattr(self, name) for name in PARTS)


PARTS = {field.name: None for field in fields(Trace)}.keys()  # in order


def concatenate(traces: Sequence[Trace]) -> Trace:
    """Return the traces of consecutive segments as one."""
    if len(traces) == 1:
        return traces[0]

    def join(name: str) -> Any:
        parts = [getattr(trace, name) for trace in traces]
        if name == "n_columns":
            return parts[-1]
        if name == "closed_rows":
            begins = np.cumsum([0, *(len(trace.labels) for trace in traces[:-1])])
            parts = [part + begin for part, begin in zip(parts, begins, strict=True)]
        if name == "indptr":
            ends = np.cumsum([0, *(part[-1] for part in parts[:-1])])
            parts = [[0], *(part[1:] + end for part, end in zip(parts, ends, strict=True))]
        return np.concatenate(parts)

    return LazyTrace(join)


class Engine(Protocol):
    """Streaming inference for one model on one stream. An engine owns its state and changes it in place.

    Rows X (n, D), or n rows of Counts, must have been checked by the family, and their times (n,) must be valid and in
    order. A label is the id of a table; a row that is only predicted has −1 for a new table. An interrupted call has
    learned some of its rows, from the first one on.
    """

    @property
    def model(self) -> Model:
        """The model, with the present alpha."""

    @property
    def n_features(self) -> int:
        """The number of features, D."""

    @property
    def n_tables(self) -> int:
        """The number of open tables, K."""

    @property
    def n_opened(self) -> int:
        """The number of tables ever opened."""

    @property
    def ids(self) -> Int:
        """The ids of the open tables, (K,)."""

    @property
    def n_observations(self) -> int:
        """The number of observations learned."""

    @property
    def time(self) -> float:
        """The time of the latest observation."""

    @property
    def log_evidence(self) -> float:
        """Σ log p(x_n | x_<n), summed in order of arrival."""

    @property
    def latest_evidence(self) -> bytes:
        """The log evidence of the rows that the latest ``run`` or ``run_one`` learned, as the bytes of float64."""

    @property
    def latest(self) -> Trace:
        """What the rows that the latest ``run`` learned did, even if it was interrupted."""

    @property
    def state(self) -> State:
        """The state, in the form of the reference. It may be a copy."""

    @property
    def seating(self) -> State:
        """The state, without ``stats`` if the family is sparse, since they could be huge."""

    def accepts(self, X: object, n_dimensions: int) -> bool:
        """Return whether X is an array (n, D) or (D,) that needs no check, see ``Family.safe_norm``."""

    def run(self, X: Rows, times: Float, told: TableConstraints | None = None) -> Trace:
        """Learn from a segment of the stream. Stop before a row whose given table is not open."""

    def run_one(self, x: Rows, t: float) -> tuple[int, float]:
        """Learn from one observation x (D,) at time t; return its label and its log evidence."""

    def run_safe_one(self, x: object, t: float | None) -> tuple[int, float] | None:
        """Do the same for anything that ``accepts`` accepts, at the index of arrival if t is None; None for others."""

    def predict_one(self, x: Rows, t: float) -> tuple[int, float]:
        """Return the label that x (D,) would get at time t, and its log evidence."""

    def predict(self, X: Rows, times: Float) -> Int:
        """Return the label that each row by itself would get, (n,)."""

    def responsibilities(self, X: Rows, times: Float) -> Float:
        """Return softmax(scores) of each row by itself, (n, K + 1), the last for a new table."""

    def log_density(self, X: Rows, times: Float) -> Float:
        """Return log p(x | everything so far) of each row by itself, (n,)."""

    def set_alpha(self, alpha: float) -> None:
        """Set alpha, from the next observation on."""

    def widen(self, n_features: int) -> Engine:
        """Return an engine with more features, which were 0 in all observations so far."""

    def arrays(self) -> Arrays:
        """Return the state as arrays, from which an engine continues to the bit; see docs/files.md."""

    def restore(self, arrays: Arrays) -> None:
        """Continue from the ``arrays`` of any engine; raise ``ValueError`` if they are invalid."""


class WordEngine(Protocol):
    """What engines for counts of words provide in addition to other engines."""

    def word_counts(self, table: int) -> WordCounts:
        """Return the words of an open table, and their counts."""

    def word_totals(self) -> WordCounts:
        """Return the words of all open tables, and their total counts."""

    def word_stats(self, columns: Int) -> Float:
        """Return for each open table, (K, 2 + m): its rows, its counts in ascending columns (m,), and in all others."""


def state_of(arrays: Arrays, modes: Modes, stats: Float, squares: Float | None = None) -> State:
    """Return the state that the arrays of an engine describe, with the given stats (K, S) and squares (K, P)."""
    elapsed = float(arrays["time"] - arrays["mode_time"]) if len(stats) else 0.0
    return State(
        stats=stats,
        squares=np.zeros((len(stats), 0)) if squares is None else squares,
        mode_states=arrays["mode_states"] * np.exp(-modes.rates * elapsed),
        time=float(arrays["time"]),
        n_tables_posterior=arrays["n_tables_posterior"],
        ids=arrays["table_ids"],
        n_opened=int(arrays["n_opened"]),
        sizes=arrays["sizes"],
        first_times=arrays["first_times"],
        last_times=arrays["last_times"],
        mark=int(arrays.get("mark", UNKNOWN)),
        taken=tuple(arrays["taken"].tolist()) if "taken" in arrays else (),
    )

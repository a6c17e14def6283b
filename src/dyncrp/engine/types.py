"""What goes into an engine and comes out of it, and what an engine is.

``reference.py`` computes all of it in readable NumPy; a faster engine computes the same. Nothing here knows an
estimator.
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
from dyncrp.dynamics import Dynamics, Modes
from dyncrp.families import Family

Float = NDArray[np.float64]
Complex = NDArray[np.complex128]
Int = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
Rows = Any  # (n, D) float64; or Counts, if the family is sparse

ASSIGNMENTS = ("predictive", "variational")
TABLE_COUNTS = ("map", "posterior")

# Shares closer than this, in proportion, are a tie: the first table gets the label, and a new table opens. So
# rounding, which differs between engines, does not decide between tables that the mathematics finds equal.
TIE = 1e-9
# An occupancy below this is 0: near the end of the range of floats its digits mean nothing.
NEGLIGIBLE = 1e-300
# A responsibility below this is 0: no table is kept alive by observations that were not its own.
DROPPED = 1e-12
# Of a row that is seated wholly at one table, smaller shares of other tables are not reported.
REPORTED = 0.01
# So many numbers are not too many for a dense array of what tables know of words.
MOST_DENSE = 20_000_000
# So many observations a state may say it has seen: no sum of them is too large.
MOST_OBSERVATIONS = 2**62
# In place of a table that someone tells: none, and one that opens for the row.
UNKNOWN, NEW = -1, -2


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
            raise ValueError(f"n_iter must be an integer ≥ 1, got {self.n_iter!r}")
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
    """A model with nothing unknown: all that inference is told.

    memory: how many of its members a table remembers. modes: those of the dynamics, if they are to be others than it
    finds now.
    """

    family: Family
    dynamics: Dynamics
    alpha: float
    memory: float = math.inf
    rules: Rules = Rules()
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


def check_words(family: Family, rules: Rules, memory: float) -> None:
    """Refuse what does not suit a family of counts of words, even one that is not known yet."""
    if not family.sparse:
        return
    if rules.assignment != "predictive":
        raise ValueError(
            f"{type(family).__name__} needs assignment='predictive': a word that is new has no expected log "
            f"probability, got {rules.assignment!r}"
        )
    if memory < math.inf:
        raise ValueError(f"{type(family).__name__} needs memory=inf: tables keep whole counts, got {memory!r}")


@dataclass(frozen=True)
class State:
    """All that the next step needs; K tables, S statistics, M modes.

    stats: (K, S) sufficient statistics, the parameters of q(φ_c); what a table has forgotten is not in them.
    squares: (K, P) products of coordinates, added up likewise; groups of tables look at them and inference does not.
    mode_states: (K, M) complex; the occupancy of table c is max(0, Re Σ_m amplitude_m mode_states[c, m]).
    time: of the latest observation.
    n_tables_posterior: (K + 1,), entry k is q(C_n = k); for ``table_count="map"`` all of it is at k = K.
    ids: (K,) of the open tables, in order of opening; n_opened: how many were ever opened, and so the next id.
    sizes: (K,) how many rows were given the table's label; inference does not look at them, nor at the times.
    first_times, last_times: (K,) of the first and the last of these rows. A table that opened with a row that got
    another label, as it may where tables share a row, has size 0 and the time of its opening until its first one.
    mark: of the latest row, see ``TableConstraints``; taken: the ids that it and the rows before it with the same mark
    got.
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
    """What someone knows of n rows, beside what is in them.

    tables: (n,) the id of the table of each, ``UNKNOWN``, or ``NEW`` for a table that opens for it. marks: (n,) rows
    that follow each other with the same mark, other than ``UNKNOWN``, cannot share a table.
    """

    tables: Int
    marks: Int

    def part(self, rows: slice) -> TableConstraints:
        """Return what is known of some of the rows."""
        return TableConstraints(self.tables[rows], self.marks[rows])


class Step(NamedTuple):
    """What one observation did; K + 1 entries, the last for a new table, unless said otherwise.

    scores: log weight + log likelihood, as of the last coordinate step.
    prior_weights: q(c_n | o_<n) before normalisation.
    responsibilities: as kept, one entry per table that is open now; of a row that was seated wholly, as reported.
    label: place of its table among those open now.
    log_evidence: logsumexp(scores) − log Σ prior_weights.
    lower_bounds: the approximate lower bound after every coordinate step (empty for "predictive", and for a finite
    memory, which is no part of the bound).
    closed: places, among the tables open now, of those that closed thereafter.
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

    Tables go by their ids, and the responsibilities have a column for each that was ever opened. closed: the ids of
    the tables that closed, in the order in which they did; closed_rows: with which row each did, counted from the
    first of these. absences: (n,) the time since the last row with the same label, 0 if there was none.
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
        """The responsibility of the table that each row was given, the largest of the row: (n,)."""
        return np.maximum.reduceat(self.data, self.indptr[:-1])


class LazyTrace(Trace):
    """A trace that is computed as far as it is read: few are. read: returns what a trace has under a name."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    def __getattr__(self, name: str) -> Any:
        if name not in PARTS:
            raise AttributeError(name)
        part = self.__dict__[name] = self._read(name)
        return part

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are plain traces."""
        return Trace, tuple(getattr(self, name) for name in PARTS)


PARTS = {field.name: None for field in fields(Trace)}.keys()  # in order


def concatenate(traces: Sequence[Trace]) -> Trace:
    """Return what consecutive segments did as one."""
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
    """Streaming inference for one model on one stream; it owns the state and changes it in place.

    Rows X (n, D), or Counts of as many, and their times (n,) are valid, in order, and as ``family.check`` returned
    them. A label is the id of a table; that of a new one, for a row that is only predicted, is −1. An interrupted call
    has learned the rows that it came to, and no other.
    """

    @property
    def model(self) -> Model:
        """What the engine was told; alpha as it is now."""

    @property
    def n_features(self) -> int:
        """D."""

    @property
    def n_tables(self) -> int:
        """K, the number of open tables."""

    @property
    def n_opened(self) -> int:
        """Number of tables ever opened."""

    @property
    def ids(self) -> Int:
        """Ids of the open tables, (K,)."""

    @property
    def n_observations(self) -> int:
        """Number of observations learned."""

    @property
    def time(self) -> float:
        """Time of the latest observation."""

    @property
    def log_evidence(self) -> float:
        """Σ log p(x_n | x_<n), added up in order of arrival."""

    @property
    def latest_evidence(self) -> bytes:
        """Log evidence of the rows of the latest ``run``, as far as it came, if it was interrupted; as float64."""

    @property
    def state(self) -> State:
        """The state as the reference has it; a copy, if the engine keeps it otherwise."""

    @property
    def seating(self) -> State:
        """The state, without ``stats`` where a family is sparse and they would be huge."""

    def accepts(self, X: object, n_dimensions: int) -> bool:
        """Whether X is an array (n, D), or one row (D,), that needs no further check: see ``Family.safe_norm``."""

    def run(self, X: Rows, times: Float, told: TableConstraints | None = None) -> Trace:
        """Learn from a segment of the stream, up to a row that is told to be at a table that is not open."""

    def run_one(self, x: Rows, t: float) -> tuple[int, float]:
        """Learn from one observation x (D,) at time t; return its label and its log evidence."""

    def predict_one(self, x: Rows, t: float) -> tuple[int, float]:
        """Return the label that x (D,) would get at time t, and its log evidence; changes nothing."""

    def predict(self, X: Rows, times: Float) -> Int:
        """Return the label that each row by itself would get, (n,); changes nothing."""

    def responsibilities(self, X: Rows, times: Float) -> Float:
        """Return softmax(scores) of each row by itself, (n, K + 1), the last for a new table; changes nothing."""

    def log_density(self, X: Rows, times: Float) -> Float:
        """Return log p(x | everything so far) of each row by itself, (n,); changes nothing."""

    def set_alpha(self, alpha: float) -> None:
        """Let alpha be this from the next observation on."""

    def widen(self, n_features: int) -> Engine:
        """Return an engine of more features, as if every observation so far had had 0 in the new ones."""

    def arrays(self) -> Arrays:
        """Return all that the next step needs, to the bit, as the arrays that docs/files.md describes."""

    def restore(self, arrays: Arrays) -> None:
        """Continue from what ``arrays`` of any engine returned; anything of another kind is a ``ValueError``."""


def state_of(arrays: Arrays, modes: Modes, stats: Float, squares: Float | None = None) -> State:
    """Return the state that the arrays of an engine describe, with these stats (K, S) and squares (K, P), if any."""
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

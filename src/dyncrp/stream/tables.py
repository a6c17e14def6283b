"""The tables of a stream by id or name, with edits and events."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.checks import Clock, as_times
from dyncrp.arrays.exchange import readable
from dyncrp.dynamics import Dynamics
from dyncrp.engine.reference import occupancy
from dyncrp.engine.types import Engine, Float, Rows
from dyncrp.families import Family
from dyncrp.families.base import check_rows
from dyncrp.input.constraints import check_name
from dyncrp.input.input import Input
from dyncrp.joining.kept import KeptClusters
from dyncrp.search.spec import ModelSpec, check_rate
from dyncrp.stream.events import Batch, Event, as_time, events_of
from dyncrp.stream.learner import Learner
from dyncrp.stream.turn import Turn, changing

LEVELS = ("table", "cluster")
MOST_EDITS = 65_536  # whose events are kept until the next rows come
NEEDS_MAP = "{} needs table_count='map': the posterior of the number of tables does not account for edits"


def no_edits() -> deque[Event]:
    """Return where the events of edits are kept: none yet."""
    return deque(maxlen=MOST_EDITS)


class EditableTables(ABC):
    """A stream as far as its tables are concerned: names, edits and events. ``Stream`` adds learning and prediction."""

    def __init__(self, spec: ModelSpec, input: Input) -> None:
        self.spec, self.input = spec, input
        self.batch: Batch | None = None
        self.cluster_of: Mapping[int, int] = {}
        self.on_event: Callable[[Event], object] | None = None
        self._edits = no_edits()  # since the last batch
        self.untold: list[Event] = []  # for ``on_event``, when this call is over: the function may ask for more
        self.turn = Turn()

    @property
    @abstractmethod
    def learner(self) -> Learner:
        """The learner, which has the hyperparameters in use."""

    @property
    @abstractmethod
    def learned(self) -> bool:
        """Whether tables and ids are final."""

    @property
    def engine(self) -> Engine:
        """The engine that does the inference."""
        return self.learner.engine

    @property
    def family(self) -> Family:
        """The family, given or learned."""
        return self.learner.family

    @property
    def dynamics(self) -> Dynamics:
        """The dynamics, given or learned."""
        return self.learner.dynamics

    @property
    def alpha(self) -> float:
        """The present alpha."""
        return self.learner.alpha

    @property
    def memory(self) -> float:
        """The number of members that a table remembers, given or learned."""
        return self.engine.model.memory

    @property
    def clock(self) -> Clock:
        """The kind of times."""
        return self.learner.clock

    @property
    def n_columns(self) -> int:
        """The number of columns of the input, including columns of a data frame that are left out."""
        encoding = self.input.encoding
        return self.engine.n_features if encoding is None else len(encoding.entries)

    @property
    def occupancies(self) -> Float:
        """The occupancies of the open tables just after the latest observation, (K,)."""
        return occupancy(self.engine.seating, self.engine.model.modes)

    @property
    def names(self) -> dict[int, str]:
        """The names of tables by id."""
        return dict(sorted(self.learner.names.of.items()))

    def find(self, table: Any, *, closed: bool = False) -> int:
        """Return the id of the table that an id or a name stands for. closed: whether it may be closed."""
        learner = self.learner
        engine, names = learner.engine, learner.names
        if isinstance(table, str):
            found = names.find(table)
            if found is None:
                known = ", ".join(map(repr, sorted(names.of.values())[:10])) or "none"
                raise ValueError(f"no table is called {table!r}; the names are {known}")
        else:
            is_integer = isinstance(table, (int, np.integer)) and not isinstance(table, bool)
            if not is_integer or not 0 <= table < engine.n_opened:
                raise ValueError(f"a table must be an id below {engine.n_opened} or a name, got {table!r}")
            found = int(names.find(int(table)))  # type: ignore[arg-type]
        if not closed and found not in engine.ids:
            raise ValueError(f"table {table!r} has closed, and its rows are forgotten")
        return found

    def resolve(self, tables: Iterable[int | str], level: str = "table") -> NDArray[np.int64]:
        """Return the present ids (n,) of tables given by id or name, or of their clusters; −1 stays −1."""
        if level == "table":
            return self._resolve(tables)
        kept = self.kept_clusters(level)
        return kept.resolve(self._resolve(tables))

    def kept_clusters(self, level: str = "cluster") -> KeptClusters:
        """Return the clusters that are kept; raise ``ValueError`` if none are, or the level is another one."""
        if level not in LEVELS:
            raise ValueError(f"level must be one of {LEVELS}, got {level!r}")
        kept = self.learner.kept
        if kept is None:
            raise ValueError(
                "this model does not keep its clusters: give keep_clusters=True, or use clusters().labels(labels)"
            )
        return kept

    def _resolve(self, tables: Iterable[int | str]) -> NDArray[np.int64]:
        tables = readable(tables, "tables")
        given = tables if hasattr(tables, "__array__") else list(tables)
        array = np.asarray(given)
        if array.dtype.kind in "iu" or not array.size:
            return self.learner.names.find_all(array.astype(np.int64))
        listed = array.tolist() if hasattr(given, "__array__") else given
        return np.array([-1 if table == -1 else self.find(table, closed=True) for table in listed], dtype=np.int64)

    @changing
    def merge(self, a: int | str, b: int | str) -> int:
        """Merge two open tables, given by id or name; return the id of the result, which is the older one."""
        learner = self._editable("merge")
        one, other = self.find(a), self.find(b)
        if one == other:
            raise ValueError(f"{a!r} and {b!r} are the same table already, {one}")
        kept, covers = _merge(learner, one, other)
        what: dict[str, Any] = {"merged": max(one, other)}
        self._note("merged", kept, what if covers else what | {"far_apart": True})
        self._note_moves()
        return kept

    @changing
    def rename(self, table: int | str, name: str) -> None:
        """Give a table a name that no other table has; "" removes its name."""
        learner, found = self._editable("rename"), self.find(table)
        self._note("renamed", found, {"before": _rename(learner, found, name)})

    @changing
    def split(self, table: int | str, X: Any, *, times: ArrayLike | None = None) -> int:
        """Move rows X (n, D), learned at times (n,), from their table to a new one; return its id."""
        learner, found = self._editable("split"), self.find(table)
        _require_whole_tables(learner)
        rows = self.input.read_to_predict(X, learner.family, learner.engine.n_features)
        new = _split(learner, found, rows, times)
        self._note("opened", new, {"split_from": found})
        self._note_moves()
        return new

    def _editable(self, doing: str) -> Learner:
        """Return the learner if tables can be edited; raise ``ValueError`` otherwise."""
        if not self.learned:
            n = self.spec.warmup
            raise ValueError(
                f"{doing} needs tables that are final: they are provisional until {n} rows have come, or learn_unknown "
                "is called"
            )
        self._require_map(doing)
        return self.learner

    def _require_map(self, doing: str) -> None:
        if self.spec.rules.table_count != "map":
            raise ValueError(NEEDS_MAP.format(doing))

    # Events

    def novelty_p(self) -> Float:
        """Return, for each row of the last batch, the probability that an earlier row was as unexpected: (n,)."""
        assert self.batch is not None
        self.learner.wants_p = True
        return self.batch.novelty_p

    def events(self) -> list[Event]:
        """Return the events of the last batch, in order, and of the latest 65,536 edits since then."""
        found = [] if self.batch is None else self._events(self.batch)
        names = self.learner.names.of
        edits = (event._replace(name=names.get(event.table)) for event in self._edits)
        if self.learner.kept is None:
            edits = (event._replace(cluster=self.cluster_of.get(event.table)) for event in edits)
        return [*found, *edits]

    @changing
    def set_alarm_rate(self, alarm_rate: float) -> None:
        """Raise alarms at this rate from now on. The sketch of past novelty is kept."""
        rate = check_rate("alarm_rate", alarm_rate)
        self.spec = replace(self.spec, alarm_rate=rate, params={**self.spec.params, "alarm_rate": rate})
        self.learner.keep_sketch()

    def set_surge_rate(self, surge_rate: float) -> None:
        """Tell surges at this rate from now on. Counts of earlier rows are kept, if there are any."""
        rate = check_rate("surge_rate", surge_rate)
        self.spec = replace(self.spec, surge_rate=rate, params={**self.spec.params, "surge_rate": rate})
        self.learner.set_surge_rate(rate)

    def _events(self, batch: Batch) -> list[Event]:
        learner = self.learner
        modes, names = learner.engine.model.modes, learner.names.of
        return events_of(batch, modes, learner.clock, names, self.cluster_of, self.spec.alarm_rate)

    def _note(self, kind: str, table: int, what: dict[str, Any]) -> None:
        """Record an edit as an event, and report it."""
        learner = self.learner
        time, row = as_time(learner.engine.time, learner.clock), learner.engine.n_observations - 1
        kept = learner.kept
        cluster = self.cluster_of.get(table) if kept is None else int(kept.resolve([table])[0])
        event = Event(kind, row, time, table, learner.names.of.get(table), cluster, what)
        self._edits.append(event)
        self.untold.append(event)

    def _note_moves(self) -> None:
        """Record what an edit did to the clusters that are kept."""
        for move in [move for joining in self.learner.joinings for move in joining.moves]:
            self._note("parted" if move.parted else "joined", move.tables[0], move.what)

    def _report(self, *batches: Batch) -> None:
        """Let ``tell`` call ``on_event`` with the events of batches."""
        if self.on_event is None:
            return
        if len(batches) > 1:  # names are looked up as they are now: those of the first batch may have changed since
            renamed = tuple(change for batch in batches for change in batch.renamed)
            batches = tuple(replace(batch, renamed=renamed) for batch in batches)
        self.untold += [event for batch in batches for event in self._events(batch)]

    def tell(self) -> None:
        """Call ``on_event`` with the events that it has not been told."""
        while self.untold:
            event = self.untold.pop(0)
            if self.on_event is not None:
                self.on_event(event)


def _merge(learner: Learner, one: int, other: int) -> tuple[int, bool]:
    """Merge two open tables; return the id of the result, and whether rows at both centres would join it."""
    engine = learner.engine
    places = np.flatnonzero(np.isin(engine.ids, [one, other]))
    # The centre of documents is not a document, and would be dense.
    centers = None if learner.family.sparse else engine.model.family.centers(engine.state.stats[places])
    kept = learner.merge(one, other)
    return kept, centers is None or _covers(learner, kept, centers)


def _covers(learner: Learner, table: int, centers: Float) -> bool:
    """Return whether rows at these centres (n, D) would join a table now; True if they are not valid rows."""
    engine = learner.engine
    try:
        rows = check_rows(engine.model.family, np.ascontiguousarray(centers))
    except ValueError:
        return True
    return bool(np.all(engine.predict(rows, np.full(len(rows), engine.time)) == table))


def _rename(learner: Learner, table: int, name: str) -> str | None:
    """Give a table a name that no other table has, "" for none; return its previous name."""
    names, text = learner.names, "" if name == "" else check_name(name)
    if text and names.find(text) not in (None, table):
        raise ValueError(f"table {names.find(text)} is called {text!r} already: merge the two, if they are one")
    before = names.of.get(table)
    names.give(table, text)
    return before


def _require_whole_tables(learner: Learner) -> None:
    """Raise ``ValueError`` if tables forget their rows."""
    memory = learner.engine.model.memory
    if memory < math.inf:
        raise ValueError(f"split needs memory=inf: with memory={memory:g} the table has forgotten rows")


def _split(learner: Learner, table: int, rows: Rows, times: ArrayLike | None) -> int:
    """Move rows (n, D), learned at times (n,), from a table to a new one; return its id."""
    engine = learner.engine
    if times is None:
        if np.any(engine.model.modes.rates != 0.0):
            raise ValueError(f"split needs the times of the rows: {learner.dynamics!r} forgets with time")
        return learner.split(table, rows, np.full(len(rows), engine.time))
    t = as_times(times, n=len(rows), ordered=False)
    late = np.flatnonzero(t > engine.time)
    if len(late):
        raise ValueError(f"the times of learned rows must not be after {engine.time:g}, got {t[late[0]]:g}")
    return learner.split(table, rows, t)

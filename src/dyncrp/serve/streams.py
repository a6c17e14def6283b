"""A stream: its model, and what is done to it, in order. Given the same operations it is the same, to the bit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import LATEST_DATE, BadRow, BadTime, Clock, as_times
from dyncrp.estimator import DynamicalMixture
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import LOG, NUMBER, quote
from dyncrp.jobs.model_text import brief_model
from dyncrp.serve.bodies import Batch, Float
from dyncrp.serve.journal import Operation
from dyncrp.serve.limits import RequestError
from dyncrp.serve.rows import TIMES, Form, Rows, pack_with, unpack_with
from dyncrp.serve.settings import feature_names, make_served_model, text_column
from dyncrp.stream.events import Event
from dyncrp.stream.examples import Rows as Examples
from dyncrp.views.describe import describe_tables
from dyncrp.views.explain import Odds
from dyncrp.views.groups import Groups, join

ROWS, MERGE, RENAME = "rows", "merge", "rename"  # kinds of operations
ROWS_OF_TIMELINE = 2_000


@dataclass(frozen=True)
class Segment:
    """Consecutive rows and what became of them: times, tables, novelty and its p-value, (n,) each. clock: of the times.

    >>> line = Segment(5, np.arange(3.0), np.array([0, 1, 0]), np.ones(3), np.ones(3), "index")
    >>> line.last(2).first_row, line.then(line.last(1)).tables
    (6, array([0, 1, 0, 0]))
    """

    first_row: int
    times: Float
    tables: NDArray[np.int64]
    novelty: Float
    p: Float
    clock: str

    PARTS: ClassVar = ("times", "tables", "novelty", "p")

    def __len__(self) -> int:
        return len(self.tables)

    def last(self, n: int) -> Segment:
        """Return the last n rows."""
        cut = max(0, len(self) - n)
        parts = {name: getattr(self, name)[cut:] for name in self.PARTS}
        return replace(self, first_row=self.first_row + cut, **parts)

    def then(self, other: Segment) -> Segment:
        """Return these rows and those that come next."""
        parts: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.PARTS
        }
        return replace(self, **parts)


@dataclass
class Outcome:
    """What something that was done to a stream did. content: the answer. alarms: how many there were."""

    content: dict[str, Any]
    events: list[tuple[int, str]] = field(default_factory=list)
    segment: Segment | None = None
    n_rows: int = 0
    changed: bool = False


class ServedStream:
    """A model with a name, at work on its stream. defaults: of settings that are not given.

    >>> known = {"family": "gaussian", "set": {"variance": 1.0, "prior_variance": 100.0}, "dynamics": "stationary()"}
    >>> stream = ServedStream("doors", known | {"alpha": 1.0}, {})
    >>> _, outcome = stream.learn(Batch(3, numbers=np.array([[0.0], [9.0], [0.1]])))
    >>> outcome.content["labels"], stream.n_rows
    ([0, 1, 0], 3)
    """

    def __init__(self, name: str, settings: dict[str, Any], defaults: dict[str, Any]) -> None:
        self.name, self.settings, self.defaults = name, settings, defaults
        self.features, self.text = feature_names(settings), text_column(settings)
        self.selects = self.features is not None
        self._take(make_served_model(settings, defaults))
        self.timeline: Segment | None = None
        self.n_rows = self.last_event = self.version = 0
        self.n_since_checkpoint = self.bytes_since_checkpoint = self.checkpoint_bytes = 0

    def _take(self, model: DynamicalMixture) -> None:
        self._events: list[Event] = []
        model.on_event = self._events.append
        self.model = model

    @property
    def fitted(self) -> bool:
        """Whether a row has come."""
        return self.n_rows > 0

    @property
    def learned(self) -> bool:
        """Whether hyperparameters, tables and ids are final."""
        return self.fitted and self.model.learned_

    @property
    def form(self) -> Form:
        """What its rows look like."""
        if not self.fitted:
            return Form(self.features, selects=self.selects, text=self.text)
        model, clock = self.model, Clock(self.model.clock_)
        return Form(self.features, model.encoding_, model.n_features_in_, clock, self.selects, self.text)

    def _rows(self, rows: Rows) -> Any:
        """Return rows as the model takes them: texts, an array, or a DataFrame."""
        return rows.X if self.text is None else rows.columns[0]

    # What changes it

    def learn(self, batch: Batch) -> tuple[Operation, Outcome]:
        """Learn from rows; return what the journal needs to repeat it, and what it did."""
        rows = self.form.resolve(batch)
        outcome = self._learn(rows)
        return self._noted(Operation(ROWS, rows.to_bytes())), outcome

    def merge(self, tables: Any) -> tuple[Operation, Outcome]:
        """Make one table of two, ids or names."""
        if not isinstance(tables, list) or len(tables) != 2 or not all(_is_table(table) for table in tables):
            raise RequestError(400, f"tables must be two ids or names, got {quote(tables)}")
        return self._edit(MERGE, tables)

    def rename(self, table: Any, name: Any) -> tuple[Operation, Outcome]:
        """Give a table a name; "" takes it away."""
        if not _is_table(table):
            raise RequestError(400, f"table must be an id or a name, got {quote(table)}")
        if not isinstance(name, str):
            raise RequestError(400, f"name must be a text, got {quote(name)}")
        return self._edit(RENAME, [table, name])

    def repeat(self, operation: Operation) -> Outcome:
        """Do again what the journal says was done."""
        self._noted(operation)
        if operation.kind == ROWS:
            return self._learn(Rows.from_bytes(operation.payload))
        return self._change(operation.kind, json.loads(operation.payload))

    def _noted(self, operation: Operation) -> Operation:
        """Count what the journal has, and the last checkpoint has not."""
        self.bytes_since_checkpoint += len(operation.payload)
        return operation

    def _learn(self, rows: Rows) -> Outcome:
        model, first = self.model, self.n_rows
        with self._refusing(rows.names):
            model.partial_fit(self._rows(rows), times=rows.times, labels=rows.labels, cannot_link=rows.cannot_link)
        self.features = rows.names
        self.n_rows = model.n_observations_
        self.n_since_checkpoint += self.n_rows - first
        self.version += 1
        labels, novelty = model.labels_, model.novelty_
        # Without alarms, a checkpoint does not keep what p is made of.
        p = np.full(len(labels), np.nan) if model.alarm_rate is None else model.novelty_p_
        shares = model.responsibilities_
        content: dict[str, Any] = {"first_row": first, "labels": labels.tolist()}
        names = model.names_
        if names:
            content["names"] = [names.get(label) for label in content["labels"]]
        content["probabilities"] = as_numbers(np.maximum.reduceat(shares.data, shares.indptr[:-1]))
        content |= {"novelty": as_numbers(novelty), "novelty_p": as_numbers(p)}
        outcome = Outcome(content, n_rows=len(labels))
        self._collect(outcome)
        content["learned"] = model.learned_
        if model.learned_:
            index = np.arange(first, self.n_rows, dtype=np.float64)
            times = index if rows.times is None else as_times(rows.times)
            outcome.segment = Segment(first, times, labels, novelty, p, model.clock_)
            before = self.timeline
            together = outcome.segment if before is None else before.then(outcome.segment)
            self.timeline = together.last(ROWS_OF_TIMELINE)
        return outcome

    def _edit(self, kind: str, told: list[Any]) -> tuple[Operation, Outcome]:
        if not self.learned:
            raise RequestError(
                409, "the tables of this stream are provisional: their ids are final once it has learned"
            )
        outcome = self._change(kind, told)
        return self._noted(Operation(kind, json.dumps(told).encode())), outcome

    def _change(self, kind: str, told: list[Any]) -> Outcome:
        model = self.model
        if kind == MERGE:
            content: dict[str, Any] = {"table": model.merge(*told)}
        else:
            model.rename(*told)
            table = self._events[-1].table
            content = {"table": table, "name": model.names_.get(table)}
        self.n_since_checkpoint += 1
        self.version += 1
        outcome = Outcome(content, changed=True)
        self._collect(outcome)
        return outcome

    def _collect(self, outcome: Outcome) -> None:
        """Give the events that came an id each."""
        told = []
        for event in self._events:
            self.last_event += 1
            plain = as_plain(event, self.last_event)
            told.append(plain)
            outcome.events.append((self.last_event, dump(plain)))
        self._events.clear()
        outcome.content["events"] = told

    # What it is kept as

    def is_due(self, n_rows: int) -> bool:
        """Tell whether a checkpoint should follow, after so many rows, or more if it is larger than these.

        The first follows as soon as the model is final, so that no restart repeats a search. Before, the journal has
        all of its rows, and ``to_bytes`` would end a search that is under way.
        """
        if not self.learned or not self.n_since_checkpoint:
            return False
        many = self.n_since_checkpoint >= n_rows and self.bytes_since_checkpoint > self.checkpoint_bytes
        return many or n_rows == 1 or not self.checkpoint_bytes

    def checkpoint(self) -> tuple[bytes, bytes]:
        """Return the model, which must be final, and what else there is, as bytes."""
        beside = {"features": self.features, "rows": self.n_rows, "last_event": self.last_event}
        line = self.timeline
        arrays: dict[str, Any] = {}
        if line is not None:
            arrays = {name: np.ascontiguousarray(getattr(line, name)) for name in line.PARTS}
            arrays["first_row"] = np.array(line.first_row)
        model = self.model.to_bytes()
        self.n_since_checkpoint = self.bytes_since_checkpoint = 0
        self.checkpoint_bytes = len(model)
        return model, pack_with(beside, arrays)

    def file(self) -> bytes:
        """Return the model as a file, with the names of its features, for use elsewhere."""
        return self.model.to_bytes()

    def restore(self, model: bytes, beside: bytes) -> None:
        """Go on from a checkpoint."""
        self._take(DynamicalMixture.from_bytes(model))
        told, arrays = unpack_with(beside)
        self.features = None if told["features"] is None else tuple(told["features"])
        self.n_rows, self.last_event = told["rows"], told["last_event"]
        if arrays:
            first = int(arrays.pop("first_row"))
            self.timeline = Segment(first, **arrays, clock=self.model.clock_)
        self.checkpoint_bytes = len(model)

    # What it can tell

    def summary(self) -> dict[str, Any]:
        """Return what a list of streams says of it."""
        clock = Clock.INDEX.value if not self.fitted else self.model.clock_
        n_tables = self.model.n_tables_ if self.fitted else 0
        features = None if self.features is None else list(self.features)
        told = {"name": self.name, "rows": self.n_rows, "tables": n_tables, "learned": self.learned}
        return told | {"clock": clock, "features": features}

    def describe(self) -> dict[str, Any]:
        """Return what is known of it."""
        model = self.model
        fitted: dict[str, Any] = {"opened": 0, "model": None, "latest_time": None}
        if self.fitted:
            latest = as_time(model.engine_.time, model.clock_)
            fitted = {"opened": model.n_opened_, "model": brief_model(model), "latest_time": latest}
        return self.summary() | fitted | {"alarm_rate": model.alarm_rate, "settings": self.settings}

    def tables(self) -> Callable[[Groups | None], list[dict[str, Any]]]:
        """Return what makes the list of the open tables from here on, without the stream; with groups or without."""
        if not self.fitted:
            return lambda groups: []
        model = self.model
        features = self.features if model.vocabulary_ is None else model.vocabulary_.words
        names, clock, encoding = dict(model.names_), model.clock_, model.encoding_
        ids, occupancies = model.table_ids_, model.occupancies_
        columns = describe_tables(model.engine_, features, Clock.NUMBERS, None, encoding)

        def make(groups: Groups | None) -> list[dict[str, Any]]:
            group_of = (
                {} if groups is None else dict(zip(groups.table_ids.tolist(), groups.group_of.tolist(), strict=True))
            )
            told = {name: np.asarray(column).tolist() for name, column in columns.items()}
            own = ("rows", "share", "first_seen", "last_seen")
            describes = {name: column for name, column in told.items() if name not in own}
            found = []
            for at, table in enumerate(ids.tolist()):
                entry = {"id": table, "name": names.get(table), "rows": told["rows"][at], "share": told["share"][at]}
                entry |= {name: as_time(told[name][at], clock) for name in ("first_seen", "last_seen")}
                entry |= {"occupancy": as_number(occupancies[at]), "group": group_of.get(table)}
                cells = {name: as_number(column[at]) for name, column in describes.items()}
                found.append(entry | {"describes": cells})
            return found

        return make

    def grouping(self) -> Callable[[int | None], Groups] | None:
        """Return what joins the tables, as they are now, into groups; on copies, so that any thread may do it.

        None if there are no tables, or tables of words, which would have to be dense.
        """
        if not self.fitted or not self.model.n_tables_ or self.text is not None:
            return None
        engine = self.model.engine_
        state, family, memory = engine.state, engine.model.family, engine.model.memory
        return lambda n: join(family, state.stats, state.squares, state.ids, n, memory)

    def latest(self, n: int) -> dict[str, Any]:
        """Return the latest rows, with the ids that their tables have now."""
        line = self.timeline
        if line is None:
            empty = np.zeros(0)
            return as_segment(Segment(self.n_rows, empty, empty.astype(np.int64), empty, empty, Clock.INDEX))
        line = line.last(n)
        return as_segment(replace(line, tables=self.model.resolve(line.tables)))

    def explain(self, batch: Batch) -> dict[str, Any]:
        """Return why a row would be at its table: log odds, feature by feature."""
        if not self.fitted:
            raise RequestError(409, "this stream has no rows yet")
        rows = self.form.resolve(batch)
        with self._refusing(rows.names):
            x = self._rows(rows)
            found = self.model.explain(x if self.text is None else x[0], None if rows.times is None else rows.times[0])
        own = self.model.encoding_ is not None or self.features is None or self.text is not None
        names = found.names if own else self.features or ()

        def tell(odds: Odds | None) -> dict[str, Any] | None:
            if odds is None:
                return None
            features = dict(zip(names, as_numbers(odds.features), strict=True))
            return {"prior": as_number(odds.prior), "features": features, "total": as_number(odds.total)}

        told = {"table": found.table, "name": self.model.names_.get(found.table), "runner_up": found.runner_up}
        values = dict(zip(names, found.values, strict=True))
        odds = {"against_runner_up": tell(found.against_runner_up), "against_new": tell(found.against_new)}
        return told | odds | {"values": values}

    def table(self, table: int | str) -> dict[str, Any]:
        """Return the id of a table, and the rows that are kept as examples of it, if any are."""
        if not self.fitted:
            raise RequestError(404, "this stream has no rows yet")
        model = self.model
        found = int(model.resolve([table])[0])
        if not model.n_examples:
            return {"id": found, "examples": None}
        kept = model.examples(found)
        told = {"typical": self._as_examples(kept.typical), "latest": self._as_examples(kept.latest)}
        return {"id": found, "examples": told}

    def _as_examples(self, rows: Examples) -> list[dict[str, Any]]:
        clock, encoding = self.model.clock_, self.model.encoding_
        names = encoding.features if encoding is not None else self.features
        found = []
        if self.text is not None:
            for counts, number, time in zip(rows.X, rows.numbers.tolist(), rows.times.tolist(), strict=True):
                words = " ".join(word for word, n in counts.items() for _ in range(n))
                found.append({"row": number, "time": as_time(time, clock), "values": {self.text: words}})
            return found
        for x, number, time in zip(rows.X, rows.numbers.tolist(), rows.times.tolist(), strict=True):
            named = zip(names or (f"x{d}" for d in range(len(x))), x.tolist(), strict=True)
            values = {name: as_cell(encoding, name, value) for name, value in named}
            found.append({"row": number, "time": as_time(time, clock), "values": values})
        return found

    @contextmanager
    def _refusing(self, names: tuple[str, ...] | None) -> Iterator[None]:
        """Let rows that the model refuses be named as the request has them."""
        try:
            yield
        except BadTime as bad:
            raise RequestError(400, f"{bad.reason}, at row {bad.row}", row=bad.row, column=TIMES) from None
        except BadRow as bad:
            name = None if bad.column is None else Form(names).name(bad.column)
            where = f"row {bad.row}" if name is None else f"row {bad.row}, column {name!r}"
            raise RequestError(400, f"{bad.reason}, at {where}", row=bad.row, column=name) from None


def as_cell(encoding: Encoding | None, name: str, value: float) -> Any:
    """Return what a feature of a row holds, in terms of the data: a number, a word, or None if it is missing.

    >>> from dyncrp.input.entries import Entry
    >>> as_cell(Encoding((Entry("bytes", "log"),)), "bytes", np.log1p(99.0)), as_cell(None, "x", 0.5)
    (99.0, 0.5)
    """
    if encoding is None or not math.isfinite(value) or encoding[name].kind == NUMBER:
        return as_number(value)
    if encoding[name].kind == LOG:
        return float(f"{math.copysign(math.expm1(abs(value)), value):.12g}")
    return encoding.label(name, value)


def as_number(value: Any) -> Any:
    """Return a number as JSON has it, None for what is not finite; texts as they are."""
    if isinstance(value, str) or value is None:
        return value
    number = value.item() if isinstance(value, np.generic) else value
    return number if math.isfinite(number) else None


def as_numbers(values: Float) -> list[Any]:
    """Return numbers as JSON has them, None for what is not finite.

    >>> as_numbers(np.array([0.5, np.nan]))
    [0.5, None]
    """
    found: list[Any] = values.tolist()
    return found if np.all(np.isfinite(values)) else [value if math.isfinite(value) else None for value in found]


def as_time(seconds: float, clock: str) -> float | str | None:
    """Return a time as JSON has it: a number, or a date in ISO 8601.

    >>> as_time(1.5, "numbers"), as_time(1.5, "dates")
    (1.5, '1970-01-01T00:00:01.500Z')
    """
    if clock != Clock.DATES:
        return as_number(seconds)
    if abs(seconds) >= LATEST_DATE:
        return f"{np.datetime64(round(seconds), 's')}Z"
    micro = round(seconds * 1e6)
    return f"{np.datetime64(micro, 'us') if micro % 1000 else np.datetime64(micro // 1000, 'ms')}Z"


def as_plain(event: Event, number: int) -> dict[str, Any]:
    """Return an event as JSON has it, with its id."""
    plain: dict[str, Any] = {"id": number, **event._asdict()}
    time = plain["time"]
    if isinstance(time, np.datetime64):
        plain["time"] = as_time(float(as_times([time])[0]), Clock.DATES)
    else:
        plain["time"] = as_number(time)
    plain["what"] = {name: as_number(value) for name, value in plain["what"].items()}
    return plain


def as_segment(segment: Segment) -> dict[str, Any]:
    """Return rows and what became of them as JSON has it."""
    times = [as_time(time, segment.clock) for time in segment.times.tolist()]
    told = {"first_row": segment.first_row, "rows": list(range(segment.first_row, segment.first_row + len(segment)))}
    told |= {"times": times, "tables": segment.tables.tolist()}
    return told | {"novelty": as_numbers(segment.novelty), "novelty_p": as_numbers(segment.p)}


def dump(value: Any) -> str:
    """Return JSON, in which nothing is that JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _is_table(value: Any) -> bool:
    return type(value) is int or isinstance(value, str)

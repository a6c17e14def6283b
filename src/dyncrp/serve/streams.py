"""A stream behind a name. The same operations in the same order give the same stream, to the bit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadRow, BadTime, Clock
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import LOG, NUMBER, quote
from dyncrp.jobs.model_text import brief_model
from dyncrp.serve.bodies import Batch, Float
from dyncrp.serve.journal import Operation
from dyncrp.serve.limits import RequestError
from dyncrp.serve.rows import TIMES, Form, Rows, pack_with, unpack_with
from dyncrp.serve.settings import feature_names, make_stream, text_column
from dyncrp.stream import events
from dyncrp.stream.events import Event
from dyncrp.stream.examples import Rows as Examples
from dyncrp.stream.stream import Stream
from dyncrp.views.describe import describe_tables
from dyncrp.views.examples import examples_of
from dyncrp.views.explain import Odds, explain
from dyncrp.views.groups import Groups, join

ROWS, MERGE, RENAME = "rows", "merge", "rename"  # kinds of operations
ROWS_OF_TIMELINE = 2_000


@dataclass(frozen=True)
class Segment:
    """The results of consecutive rows: times, tables, novelty and its p-value, (n,) each. clock: the kind of times.

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
    """The result of an operation.

    content: the answer. events: the id and the JSON of each. segment: the rows that were learned, once ids are final.
    n_rows: how many rows were learned. changed: whether tables were edited.
    """

    content: dict[str, Any]
    events: list[tuple[int, str]] = field(default_factory=list)
    segment: Segment | None = None
    n_rows: int = 0
    changed: bool = False


class ServedStream:
    """A stream with a name and settings. defaults: the values of settings that are not given.

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
        self._take(make_stream(settings, defaults))
        self.timeline: Segment | None = None
        self.last_event = self.version = 0
        self.n_since_checkpoint = self.bytes_since_checkpoint = self.checkpoint_bytes = 0

    def _take(self, stream: Stream) -> None:
        self._events: list[Event] = []
        stream.on_event = self._events.append
        self.stream = stream

    @property
    def n_rows(self) -> int:
        """How many rows have come."""
        return self.stream.n_rows

    @property
    def learned(self) -> bool:
        """Whether hyperparameters, tables and ids are final."""
        return self.stream.learned

    @property
    def form(self) -> Form:
        """What its rows look like."""
        stream = self.stream
        if not stream.started:
            return Form(self.features, selects=self.selects, text=self.text)
        return Form(self.features, stream.input.encoding, stream.n_columns, stream.clock, self.selects, self.text)

    def _rows(self, rows: Rows) -> Any:
        """Return rows as a stream takes them: texts, an array, or a DataFrame."""
        return rows.X if self.text is None else rows.columns[0]

    # Operations

    def learn(self, batch: Batch) -> tuple[Operation, Outcome]:
        """Learn from rows. Return what the journal needs to repeat it, and its outcome."""
        rows = self.form.resolve(batch)
        outcome = self._learn(rows)
        return self._noted(Operation(ROWS, rows.to_bytes())), outcome

    def merge(self, tables: Any) -> tuple[Operation, Outcome]:
        """Merge two tables, given by ids or names."""
        if not isinstance(tables, list) or len(tables) != 2 or not all(_is_table(table) for table in tables):
            raise RequestError(400, f"tables must be two ids or names, got {quote(tables)}")
        return self._edit(MERGE, tables)

    def rename(self, table: Any, name: Any) -> tuple[Operation, Outcome]:
        """Give a table a name; "" removes it."""
        if not _is_table(table):
            raise RequestError(400, f"table must be an id or a name, got {quote(table)}")
        if not isinstance(name, str):
            raise RequestError(400, f"name must be a text, got {quote(name)}")
        return self._edit(RENAME, [table, name])

    def repeat(self, operation: Operation) -> Outcome:
        """Repeat an operation of the journal."""
        self._noted(operation)
        if operation.kind == ROWS:
            return self._learn(Rows.from_bytes(operation.payload))
        return self._change(operation.kind, json.loads(operation.payload))

    def _noted(self, operation: Operation) -> Operation:
        """Count the bytes of operations since the last checkpoint."""
        self.bytes_since_checkpoint += len(operation.payload)
        return operation

    def _learn(self, rows: Rows) -> Outcome:
        stream, first = self.stream, self.n_rows
        with self._refusing(rows.names):
            stream.learn(self._rows(rows), rows.times, labels=rows.labels, cannot_link=rows.cannot_link)
        assert stream.batch is not None
        trace, learned = stream.batch.trace, stream.learned
        self.features = rows.names
        self.n_since_checkpoint += self.n_rows - first
        self.version += 1
        labels, novelty = trace.labels, -trace.log_evidence
        # Without alarms, a checkpoint does not keep what p is made of.
        p = np.full(len(labels), np.nan) if stream.spec.alarm_rate is None else stream.novelty_p()
        content: dict[str, Any] = {"first_row": first, "labels": labels.tolist()}
        names = stream.names
        if names:
            content["names"] = [names.get(label) for label in content["labels"]]
        content["probabilities"] = as_numbers(trace.probability)
        content |= {"novelty": as_numbers(novelty), "novelty_p": as_numbers(p)}
        outcome = Outcome(content, n_rows=len(labels))
        self._collect(outcome)
        content["learned"] = learned
        if learned:
            outcome.segment = Segment(first, stream.batch.times, labels, novelty, p, stream.clock)
            before = self.timeline
            together = outcome.segment if before is None else before.then(outcome.segment)
            self.timeline = together.last(ROWS_OF_TIMELINE)
        return outcome

    def _edit(self, kind: str, told: list[Any]) -> tuple[Operation, Outcome]:
        if not self.learned:
            raise RequestError(
                409, "the tables of this stream are provisional: their ids are final once the warm-up is over"
            )
        outcome = self._change(kind, told)
        return self._noted(Operation(kind, json.dumps(told).encode())), outcome

    def _change(self, kind: str, told: list[Any]) -> Outcome:
        stream = self.stream
        if kind == MERGE:
            content: dict[str, Any] = {"table": stream.merge(*told)}
        else:
            stream.rename(*told)
            table = self._events[-1].table
            content = {"table": table, "name": stream.names.get(table)}
        self.n_since_checkpoint += 1
        self.version += 1
        outcome = Outcome(content, changed=True)
        self._collect(outcome)
        return outcome

    def _collect(self, outcome: Outcome) -> None:
        """Give each new event an id, and add the events to an outcome."""
        told = []
        for event in self._events:
            self.last_event += 1
            plain = as_plain(event, self.last_event)
            told.append(plain)
            outcome.events.append((self.last_event, dump(plain)))
        self._events.clear()
        outcome.content["events"] = told

    # Checkpoints

    def is_due(self, n_rows: int) -> bool:
        """Return whether to write a checkpoint: after n_rows, or more if the rows take fewer bytes than a checkpoint.

        The first one is due as soon as the warm-up is over, so that no restart repeats the search. Until then the
        journal keeps all rows, and ``to_bytes`` would end a search in progress.
        """
        if not self.learned or not self.n_since_checkpoint:
            return False
        many = self.n_since_checkpoint >= n_rows and self.bytes_since_checkpoint > self.checkpoint_bytes
        return many or n_rows == 1 or not self.checkpoint_bytes

    def checkpoint(self) -> tuple[bytes, bytes]:
        """Return the model, whose warm-up must be over, and everything else, as bytes."""
        beside = {"features": self.features, "rows": self.n_rows, "last_event": self.last_event}
        line = self.timeline
        arrays: dict[str, Any] = {}
        if line is not None:
            arrays = {name: np.ascontiguousarray(getattr(line, name)) for name in line.PARTS}
            arrays["first_row"] = np.array(line.first_row)
        model = self.stream.to_bytes()
        self.n_since_checkpoint = self.bytes_since_checkpoint = 0
        self.checkpoint_bytes = len(model)
        return model, pack_with(beside, arrays)

    def restore(self, model: bytes, beside: bytes) -> None:
        """Continue from a checkpoint."""
        self._take(Stream.from_bytes(model))
        told, arrays = unpack_with(beside)
        self.features = None if told["features"] is None else tuple(told["features"])
        self.last_event = told["last_event"]
        if arrays:
            first = int(arrays.pop("first_row"))
            self.timeline = Segment(first, **arrays, clock=self.stream.clock)
        self.checkpoint_bytes = len(model)

    # Answers that change nothing

    def summary(self) -> dict[str, Any]:
        """Return its line in a list of streams."""
        started = self.stream.started
        return {
            "name": self.name,
            "rows": self.n_rows,
            "tables": self.stream.engine.n_tables if started else 0,
            "learned": self.learned,
            "clock": self.stream.clock if started else Clock.INDEX,
            "features": self.features,
        }

    def describe(self) -> dict[str, Any]:
        """Return what is known of it."""
        stream = self.stream
        fitted: dict[str, Any] = {"opened": 0, "model": None, "latest_time": None}
        if stream.started:
            latest = as_time(stream.engine.time, stream.clock)
            fitted = {"opened": stream.engine.n_opened, "model": brief_model(stream), "latest_time": latest}
        return self.summary() | fitted | {"alarm_rate": stream.spec.alarm_rate, "settings": self.settings}

    def tables(self) -> Callable[[Groups | None], list[dict[str, Any]]]:
        """Return a function that lists the open tables as they are now, given their groups; any thread may call it."""
        stream = self.stream
        if not stream.started:
            return lambda groups: []
        input, names, clock, ids = stream.input, stream.names, stream.clock, stream.engine.ids.tolist()
        features = self.features if input.vocabulary is None else input.vocabulary.words
        columns = describe_tables(stream.engine, features, Clock.NUMBERS, None, input.encoding)
        occupancies = stream.occupancies

        def make(groups: Groups | None) -> list[dict[str, Any]]:
            told = {name: np.asarray(column).tolist() for name, column in columns.items()}
            pairs = () if groups is None else zip(groups.table_ids.tolist(), groups.group_of.tolist(), strict=True)
            group_of = dict(pairs)
            rows, share, first, last = (told.pop(name) for name in ("rows", "share", "first_seen", "last_seen"))
            return [
                {
                    "id": table,
                    "name": names.get(table),
                    "rows": rows[at],
                    "share": share[at],
                    "first_seen": as_time(first[at], clock),
                    "last_seen": as_time(last[at], clock),
                    "occupancy": as_number(occupancies[at]),
                    "group": group_of.get(table),
                    "describes": {name: as_number(column[at]) for name, column in told.items()},
                }
                for at, table in enumerate(ids)
            ]

        return make

    def grouping(self) -> Callable[[int | None], Groups] | None:
        """Return a function that joins the tables as they are now into groups; any thread may call it.

        None if there are no tables, or if they are of words: joining those would need dense arrays.
        """
        if not self.stream.started or not self.stream.engine.n_tables or self.text is not None:
            return None
        engine = self.stream.engine
        state, family, memory = engine.state, engine.model.family, engine.model.memory
        return lambda n: join(family, state.stats, state.squares, state.ids, n, memory)

    def latest(self, n: int) -> dict[str, Any]:
        """Return the latest rows, with the ids that their tables have now."""
        line = self.timeline
        if line is None:
            empty = np.zeros(0)
            return as_segment(Segment(self.n_rows, empty, empty.astype(np.int64), empty, empty, Clock.INDEX))
        line = line.last(n)
        return as_segment(replace(line, tables=self.stream.resolve(line.tables)))

    def explain(self, batch: Batch) -> dict[str, Any]:
        """Return why a row would be at its table: log odds, feature by feature."""
        if not self.stream.started:
            raise RequestError(409, "this stream has no rows yet")
        rows = self.form.resolve(batch)
        with self._refusing(rows.names):
            x = self._rows(rows)
            t = None if rows.times is None else rows.times[0]
            found = explain(self.stream, x if self.text is None else x[0], t)

        def tell(odds: Odds | None) -> dict[str, Any] | None:
            if odds is None:
                return None
            features = dict(zip(found.names, as_numbers(odds.features), strict=True))
            return {"prior": as_number(odds.prior), "features": features, "total": as_number(odds.total)}

        return {
            "table": found.table,
            "name": found.table_names.get(found.table),
            "runner_up": found.runner_up,
            "against_runner_up": tell(found.against_runner_up),
            "against_new": tell(found.against_new),
            "values": dict(zip(found.names, found.values, strict=True)),
        }

    def table(self, table: int | str) -> dict[str, Any]:
        """Return the id of a table, and the rows that are kept as examples of it, None if none are kept."""
        if not self.stream.started:
            raise RequestError(404, "this stream has no rows yet")
        found = int(self.stream.resolve([table])[0])
        if not self.stream.spec.n_examples:
            return {"id": found, "examples": None}
        kept = examples_of(self.stream, found)
        told = {"typical": self._as_examples(kept.typical), "latest": self._as_examples(kept.latest)}
        return {"id": found, "examples": told}

    def _as_examples(self, rows: Examples) -> list[dict[str, Any]]:
        return [
            {"row": number, "time": as_time(time, self.stream.clock), "values": self._values(x)}
            for x, number, time in zip(rows.X, rows.numbers.tolist(), rows.times.tolist(), strict=True)
        ]

    def _values(self, x: Any) -> dict[str, Any]:
        """Return an example by the names of its features; of a text, its words."""
        if self.text is not None:
            return {self.text: " ".join(word for word, n in x.items() for _ in range(n))}
        encoding = self.stream.input.encoding
        names = encoding.features if encoding is not None else self.features or [f"x{d}" for d in range(len(x))]
        return {name: as_cell(encoding, name, value) for name, value in zip(names, x.tolist(), strict=True)}

    @contextmanager
    def _refusing(self, names: tuple[str, ...] | None) -> Iterator[None]:
        """Name bad rows and columns as the request does."""
        try:
            yield
        except BadTime as bad:
            raise RequestError.at(bad.row, bad.reason, TIMES) from None
        except BadRow as bad:
            name = None if bad.column is None else Form(names).name(bad.column)
            where = f"row {bad.row}" if name is None else f"row {bad.row}, column {name!r}"
            raise RequestError(400, f"{bad.reason}, at {where}", row=bad.row, column=name) from None


def as_cell(encoding: Encoding | None, name: str, value: float) -> Any:
    """Return the value of a feature as the data have it: a number, a word, or None if it is missing.

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
    """Return a number for JSON, None if it is not finite; a text as it is."""
    if isinstance(value, str) or value is None:
        return value
    number = value.item() if isinstance(value, np.generic) else value
    return number if math.isfinite(number) else None


def as_numbers(values: Float) -> list[Any]:
    """Return numbers for JSON, None for those that are not finite.

    >>> as_numbers(np.array([0.5, np.nan]))
    [0.5, None]
    """
    found: list[Any] = values.tolist()
    return found if np.all(np.isfinite(values)) else [value if math.isfinite(value) else None for value in found]


def as_time(seconds: float, clock: str) -> float | str | None:
    """Return a time for JSON: a number, or a date in ISO 8601.

    >>> as_time(1.5, "numbers"), as_time(1.5, "dates")
    (1.5, '1970-01-01T00:00:01.500Z')
    """
    return _as_time(events.as_time(seconds, Clock(clock)))


def _as_time(time: Any) -> float | str | None:
    if not isinstance(time, np.datetime64):
        number: float | None = as_number(time)
        return number
    in_milliseconds = np.datetime_data(time.dtype)[0] == "us" and time.view(np.int64) % 1000 == 0
    return f"{time.astype('M8[ms]') if in_milliseconds else time}Z"


def as_plain(event: Event, number: int) -> dict[str, Any]:
    """Return an event for JSON, with its id."""
    what = {name: as_number(value) for name, value in event.what.items()}
    return {"id": number, **event._asdict(), "time": _as_time(event.time), "what": what}


def as_segment(segment: Segment) -> dict[str, Any]:
    """Return the results of rows for JSON."""
    return {
        "first_row": segment.first_row,
        "rows": list(range(segment.first_row, segment.first_row + len(segment))),
        "times": [as_time(time, segment.clock) for time in segment.times.tolist()],
        "tables": segment.tables.tolist(),
        "novelty": as_numbers(segment.novelty),
        "novelty_p": as_numbers(segment.p),
    }


def dump(value: Any) -> str:
    """Return a value as compact JSON; NaN and infinity raise ``ValueError``."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _is_table(value: Any) -> bool:
    return type(value) is int or isinstance(value, str)

"""A stream behind a name. The same operations in the same order give the same stream, to the bit."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dyncrp.arrays.checks import BadRow, BadTime, Clock
from dyncrp.input.entries import quote
from dyncrp.jobs.model_text import brief_model
from dyncrp.serve.bodies import Batch
from dyncrp.serve.compare import compare
from dyncrp.serve.journal import Operation
from dyncrp.serve.limits import RequestError
from dyncrp.serve.lists import list_clusters, list_tables
from dyncrp.serve.notes import ACKNOWLEDGE, JOIN, PART, Notes, check_alarms, join_by_hand
from dyncrp.serve.plain import as_cell, as_explanation, as_numbers, as_plain, as_time, dump
from dyncrp.serve.rows import Form, Rows, pack_with, unpack_with
from dyncrp.serve.segments import Segment, as_segment
from dyncrp.serve.settings import feature_names, make_stream, text_column
from dyncrp.serve.sizes import check_room
from dyncrp.serve.times import TIMES
from dyncrp.serve.undo import Undo
from dyncrp.serve.warming import Warming, read_seconds
from dyncrp.stream import events
from dyncrp.stream.events import Batch as Seated
from dyncrp.stream.events import Event
from dyncrp.stream.examples import Rows as Examples
from dyncrp.stream.stream import Stream
from dyncrp.stream.warmup import Warmup
from dyncrp.views.clusters import Clusters, join
from dyncrp.views.examples import examples_of
from dyncrp.views.explain import explain

ROWS, MERGE, RENAME, END_WARMUP, SEARCHED = "rows", "merge", "rename", "end-warmup", "searched"  # kinds of operations
UNDO, UNMERGED = "undo", "unmerged"  # an operation and its event
ROWS_OF_TIMELINE = 2_000


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
        self._recent: list[tuple[int, Rows]] = []  # rows of which alarms may still come, after the number of the first
        self.warming = Warming(read_seconds(settings, defaults))
        self.timeline: Segment | None = None
        self.notes = Notes()
        self.undo: Undo | None = None
        self.pattern: str | None = None
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
    def unknown(self) -> bool:
        """Whether hyperparameters are learned from its first rows."""
        return self.stream.spec.given is None

    @property
    def form(self) -> Form:
        """What its rows look like."""
        stream = self.stream
        if not stream.started:
            return Form(self.features, selects=self.selects, text=self.text)
        latest = round(stream.engine.time * 1e6) if stream.clock is Clock.DATES else None
        known = stream.input.encoding, stream.n_columns, stream.clock
        return Form(self.features, *known, self.selects, self.text, latest, self.pattern)

    def _rows(self, rows: Rows) -> Any:
        """Return rows as a stream takes them: texts, an array, or a DataFrame."""
        return rows.X if self.text is None else rows.columns[0]

    # Operations

    def learn(self, batch: Batch) -> tuple[Operation, Outcome]:
        """Learn from rows. Return what the journal needs to repeat it, and its outcome."""
        if self.warming.is_full(self.stream):
            raise RequestError(503, "the hyperparameters of this stream are being learned: try again later")
        rows = self.form.resolve(batch)
        check_room(self.stream, batch.n, len(rows.columns) if rows.numbers is None else rows.numbers.shape[1])
        outcome = self._learn(rows)
        return self._noted(Operation(ROWS, rows.to_bytes())), outcome

    def merge(self, tables: Any) -> tuple[Operation, Outcome]:
        """Merge two tables, given by ids or names."""
        return self._edit(MERGE, _check_two(tables))

    def undo_merge(self) -> tuple[Operation, Outcome]:
        """Undo the last merge, and learn again what came since."""
        return self._edit(UNDO, [])

    def join(self, tables: Any, *, apart: bool = False) -> tuple[Operation, Outcome]:
        """Put two tables into one cluster whatever the evidence says, or leave it to the evidence again."""
        return self._edit(PART if apart else JOIN, self.stream.resolve(_check_two(tables)).tolist())

    def acknowledge(self, alarms: Any) -> tuple[Operation, Outcome]:
        """Note that alarms were seen, given by the ids of their events."""
        return self._edit(ACKNOWLEDGE, check_alarms(alarms, self.last_event))

    def rename(self, table: Any, name: Any) -> tuple[Operation, Outcome]:
        """Give a table a name; "" removes it."""
        if not _is_table(table):
            raise RequestError(400, f"table must be an id or a name, got {quote(table)}")
        if not isinstance(name, str):
            raise RequestError(400, f"name must be a text, got {quote(name)}")
        return self._edit(RENAME, [table, name])

    def end_warmup(self) -> tuple[Operation, Outcome]:
        """End the warm-up with the rows so far: now if requests do the search, else once ``search`` has done it."""
        if self.n_rows < 2 and not self.learned:
            raise RequestError(409, f"the warm-up needs at least 2 rows to learn from, got {self.n_rows} so far")
        return Operation(END_WARMUP, b""), self._end_warmup()

    def search(self) -> tuple[Operation, Outcome] | None:
        """Do a piece of the search that is due; return what the journal needs, and its outcome, if that ended it.

        The rows of a search decide its result, and the journal says after which rows it was used.
        """
        warmup = self.stream.warmup
        assert warmup is not None
        before = warmup.n_learned_from
        try:
            self.stream.finish_search(piece=True)
        except Exception as error:
            traceback.print_exc()
            self.warming.error = f"the hyperparameters could not be learned: {error}"
        return None if warmup.n_learned_from == before else (Operation(SEARCHED, b""), self._searched(warmup))

    @property
    def is_searching(self) -> bool:
        """Whether there is a search for ``search`` to do."""
        warmup, warming = self.stream.warmup, self.warming
        return warmup is not None and warming.seconds is not None and warming.error is None and warmup.is_due

    @property
    def is_late(self) -> bool:
        """Whether time ends its warm-up now."""
        return self.stream.warmup is not None and self.warming.is_over(self.stream)

    def _end_warmup(self) -> Outcome:
        warmup = self.stream.warmup
        if warmup is None:
            return Outcome({"learned": self.learned, "events": []})
        warmup.shorten(self.n_rows)
        if self.warming.seconds is None:
            self.stream.finish_search()
        return self._searched(warmup)

    def _searched(self, warmup: Warmup | None) -> Outcome:
        """Return what has become of the rows so far. warmup: that in which the search was."""
        self.version += 1
        outcome = Outcome({"learned": self.learned, "warmup": self.warmup()})
        self._collect(outcome)
        if self.learned:
            self._show(outcome, warmup)
        return outcome

    def repeat(self, operation: Operation) -> Outcome:
        """Repeat an operation of the journal."""
        self._noted(operation)
        if operation.kind == ROWS:
            return self._learn(Rows.from_bytes(operation.payload))
        if operation.kind == END_WARMUP:
            return self._end_warmup()
        if operation.kind == SEARCHED:
            warmup = self.stream.warmup
            self.stream.finish_search()
            return self._searched(warmup)
        return self._change(operation.kind, json.loads(operation.payload))

    def _noted(self, operation: Operation) -> Operation:
        """Count the bytes of operations since the last checkpoint."""
        self.bytes_since_checkpoint += len(operation.payload)
        if self.undo is not None and operation.kind in (ROWS, RENAME) and not self.undo.note(operation):
            self.undo = None
        return operation

    def _learn(self, rows: Rows) -> Outcome:
        stream, first, final, warmup = self.stream, self.n_rows, self.learned, self.stream.warmup
        with self._refusing(rows.names):
            labels, marks, weights = rows.labels, rows.cannot_link, rows.weights
            stream.learn(self._rows(rows), rows.times, labels=labels, cannot_link=marks, sample_weight=weights)
        assert stream.batch is not None
        probabilities, learned = stream.batch.trace.probability, stream.learned
        self._recent = [*([] if final else self._recent), (first, rows)]
        self.warming.begin()
        self.features, self.pattern = rows.names, rows.pattern
        self.n_since_checkpoint += self.n_rows - first
        self.version += 1
        segment = self._segment()
        content: dict[str, Any] = {"first_row": first, "labels": segment.tables.tolist()}
        names = stream.names
        if names:
            content["names"] = [names.get(label) for label in content["labels"]]
        content["probabilities"] = as_numbers(probabilities)
        content |= {"novelty": as_numbers(segment.novelty), "novelty_p": as_numbers(segment.p)}
        outcome = Outcome(content, n_rows=len(segment))
        self._collect(outcome)
        content |= {"learned": learned, "warmup": self.warmup()}
        if learned:
            self._show(outcome, warmup, segment)
        return outcome

    def _segment(self) -> Segment:
        """Return the rows of the last request, as they are seated now."""
        batch = self.stream.batch
        assert batch is not None
        if self.stream.spec.alarm_rate is not None:
            self.stream.novelty_p()  # so that it is counted as rows are learned
        return self._seated(batch)

    def _seated(self, batch: Seated) -> Segment:
        return Segment.of(batch, self.stream.clock, has_p=self.stream.spec.alarm_rate is not None)

    def _show(self, outcome: Outcome, warmup: Warmup | None, segment: Segment | None = None) -> None:
        """Add rows, whose ids are final, to the timeline: all rows of a warm-up that is over, or those given."""
        if warmup is not None and warmup.over and warmup.history:
            segment = self._seated(Seated.of_parts(warmup.history))
        outcome.segment = segment = segment or self._segment()
        together = segment if self.timeline is None else self.timeline.then(segment)
        self.timeline = together.last(ROWS_OF_TIMELINE)

    def _edit(self, kind: str, told: list[Any]) -> tuple[Operation, Outcome]:
        if not self.learned:
            raise RequestError(
                409, "the tables of this stream are provisional: their ids are final once the warm-up is over"
            )
        outcome = self._change(kind, told)
        return self._noted(Operation(kind, json.dumps(told).encode())), outcome

    def _change(self, kind: str, told: list[Any]) -> Outcome:
        stream = self.stream
        content: dict[str, Any]
        if kind == MERGE:
            before = stream.to_bytes()
            content = {"table": stream.merge(*told)}
            merged = next(event for event in reversed(self._events) if event.kind == "merged")
            self.undo = Undo(before, self.timeline, content["table"], merged.what["merged"])
        elif kind == UNDO:
            content = self._undo()
        elif kind == ACKNOWLEDGE:
            content = self.notes.acknowledge(told)
        elif kind == JOIN:
            content = self.notes.join(*told)
        elif kind == PART:
            content = self.notes.part(told)
        else:
            stream.rename(*told)
            table = self._events[-1].table
            content = {"table": table, "name": stream.names.get(table)}
        self.n_since_checkpoint += 1
        self.version += 1
        outcome = Outcome(content, changed=True)
        self._collect(outcome)
        return outcome

    def _undo(self) -> dict[str, Any]:
        undo, now = self.undo, (self.stream, self._events, self.timeline, self.last_event)
        if undo is None:
            raise RequestError(409, "there is no merge to undo: too much has come since, or the server was restarted")
        self.undo = None
        self._take(Stream.from_bytes(undo.model))
        self.timeline = undo.timeline
        try:
            for operation in undo.operations:
                self.repeat(operation)
        except (ValueError, RequestError) as error:  # such as a name that is another's now
            (self.stream, self._events, self.timeline, self.last_event), self.undo = now, undo
            raise RequestError(409, f"what was done since does not go with undoing the merge: {error}") from None
        self.last_event = now[-1]  # the events of these rows were told before
        stream, kept = self.stream, undo.kept
        time = events.as_time(stream.engine.time, stream.clock)
        what = {"merged": undo.gone}
        self._events.append(Event(UNMERGED, self.n_rows - 1, time, kept, stream.names.get(kept), None, what))
        return {"tables": [kept, undo.gone]}

    def _collect(self, outcome: Outcome) -> None:
        """Give each new event an id, and the row to an alarm, and add the events to an outcome."""
        told = []
        for event in self._events:
            self.last_event += 1
            plain = as_plain(event, self.last_event)
            if event.kind == "alarm":
                first, rows = next(part for part in reversed(self._recent) if part[0] <= event.row)
                plain["what"]["values"] = rows.row(event.row - first)
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
        if not self.learned or not self.n_since_checkpoint or (self.undo is not None and n_rows > 1):
            return False  # a checkpoint does not keep what is needed to undo a merge
        many = self.n_since_checkpoint >= n_rows and self.bytes_since_checkpoint > self.checkpoint_bytes
        return many or n_rows == 1 or not self.checkpoint_bytes

    def checkpoint(self) -> tuple[bytes, bytes]:
        """Return the model, whose warm-up must be over, and everything else, as bytes.

        A model that could not be read again raises ``ValueError``; the next checkpoint is then due as after any other.
        """
        beside: dict[str, Any] = {"features": self.features, "rows": self.n_rows, "last_event": self.last_event}
        beside |= {"notes": self.notes.as_plain(), "pattern": self.pattern}
        line = self.timeline
        arrays: dict[str, Any] = {}
        if line is not None:
            arrays = {name: np.ascontiguousarray(getattr(line, name)) for name in line.PARTS}
            arrays["first_row"] = np.array(line.first_row)
        self.n_since_checkpoint = self.bytes_since_checkpoint = 0
        model = self.stream.to_bytes()
        self.checkpoint_bytes = len(model)
        Stream.from_bytes(model)
        return model, pack_with(beside, arrays)

    def restore(self, model: bytes, beside: bytes) -> None:
        """Continue from a checkpoint."""
        self._take(Stream.from_bytes(model))
        told, arrays = unpack_with(beside)
        self.features = None if told["features"] is None else tuple(told["features"])
        self.last_event, self.notes = told["last_event"], Notes.from_plain(told.get("notes"))
        self.pattern = told.get("pattern")
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
            "warmup": self.warmup(),
            "clock": self.stream.clock if started else Clock.INDEX,
            "features": self.features,
        }

    def warmup(self) -> dict[str, Any] | None:
        """Return how far its warm-up is, None if there is none or if it is over."""
        return None if self.stream.warmup is None else self.warming.describe(self.stream.warmup)

    def describe(self) -> dict[str, Any]:
        """Return what is known of it."""
        stream = self.stream
        fitted: dict[str, Any] = {"opened": 0, "model": None, "latest_time": None}
        if stream.started:
            latest = as_time(stream.engine.time, stream.clock)
            fitted = {"opened": stream.engine.n_opened, "model": brief_model(stream), "latest_time": latest}
        undo = None if self.undo is None else {"table": self.undo.kept, "merged": self.undo.gone}
        rates = {"alarm_rate": stream.spec.alarm_rate, "surge_rate": stream.spec.surge_rate}
        return self.summary() | fitted | rates | {"undo": undo, "settings": self.settings}

    def tables(self) -> Callable[[Clusters | None], list[dict[str, Any]]]:
        """Return a function that lists the open tables as they are, given their clusters; any thread may call it."""
        return list_tables(self.stream, self.features) if self.stream.started else lambda clusters: []

    def clusters(self, clusters: Clusters) -> list[dict[str, Any]]:
        """Return clusters for JSON, the largest first."""
        return list_clusters(self.stream, clusters, self.notes.joined(clusters, self.stream.resolve))

    def joining(self) -> Callable[[int | None], Clusters] | None:
        """Return a function that joins the tables as they are now into clusters; any thread may call it.

        None if there are no tables, or if they are of words: joining those would need dense arrays.
        """
        if not self.stream.started or not self.stream.engine.n_tables or self.text is not None:
            return None
        engine = self.stream.engine
        model, state, pairs = engine.model, engine.state, self.notes.pairs(self.stream.resolve)
        return lambda n: join_by_hand(join(model, state, n), pairs)

    def compare(self, tables: Any) -> dict[str, Any]:
        """Return how far apart two tables are."""
        if not self.learned:
            raise RequestError(409, "the tables of this stream are provisional until the warm-up is over")
        return compare(self.stream, *self.stream.resolve(_check_two(tables)).tolist())

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
            return as_explanation(explain(self.stream, x if self.text is None else x[0], t))

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


def _check_two(tables: Any) -> list[Any]:
    if not isinstance(tables, list) or len(tables) != 2 or not all(_is_table(table) for table in tables):
        raise RequestError(400, f"tables must be two ids or names, got {quote(tables)}")
    return tables


def _is_table(value: Any) -> bool:
    return type(value) is int or isinstance(value, str)

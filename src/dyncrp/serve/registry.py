"""All streams of a data folder and their journal. Only one thread calls it."""

from __future__ import annotations

import json
import traceback
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from dyncrp.serve.journal import (
    LARGEST_VALUE,
    MOST_CLIENTS,
    MOST_EVENTS,
    Answer,
    Journal,
    JournalError,
    Made,
    Operation,
)
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.plain import dump
from dyncrp.serve.settings import as_text, check_limits, check_name, default_settings
from dyncrp.serve.streams import Outcome, ServedStream
from dyncrp.serve.work import ROWS_PER_CHECKPOINT

Action = Callable[[ServedStream], tuple[Operation, Outcome]]


class Key(NamedTuple):
    """Identifies a request, so that a retry is harmless: its client, its number, and a digest of its content."""

    client: str
    sequence: int
    digest: bytes


class Notice(NamedTuple):
    """What happened to a stream, for its readers. outcome: None if the stream was deleted."""

    name: str
    outcome: Outcome | None


def perform(stream: ServedStream, action: Action) -> tuple[Operation, Outcome]:
    """Carry out an operation on a stream; what is wrong with it raises ``RequestError``."""
    try:
        return action(stream)
    except RequestError:
        raise
    except ValueError as error:
        raise RequestError(400, str(error)) from None


class Registry:
    """Streams by name. The operations of a group of requests take effect with ``commit``, or not at all.

    unreadable: why streams could not be restored, by name. The journal keeps all they have, and the others are served.

    >>> import tempfile, numpy as np
    >>> from dyncrp.serve.bodies import Batch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     registry = Registry(Path(folder), Limits())
    ...     made = registry.put("doors", {})
    ...     answer = registry.do("doors", lambda stream: stream.learn(Batch(2, numbers=np.eye(2))))
    ...     notices = registry.commit()
    ...     registry.close()
    >>> answer[:30]
    b'{"first_row":0,"labels":[0,0],'
    """

    def __init__(self, folder: Path, limits: Limits, *, sync: bool = True) -> None:
        self.limits = limits
        self.journal = Journal(folder, sync=sync)
        self.broken: str | None = None  # why the server needs a restart
        self._touched: set[str] = set()
        self._notices: list[Notice] = []
        self._ids: dict[str, int] = {}
        self._warming: deque[str] = deque()  # streams that may be in their warm-up, the next to be looked at first
        self.streams: dict[str, ServedStream] = {}
        self.unreadable: dict[str, str] = {}
        self.away: dict[str, dict[str, Any]] = {}  # summaries of streams that another thread works on
        for made in self.journal.streams():
            try:
                self._restore(made)
            except Exception as error:  # even of the journal: the pages of others may be whole
                self._leave_out(made, error)

    def _leave_out(self, made: Made, error: Exception) -> None:
        """Note that a stream cannot be restored. The journal keeps what it has of it."""
        traceback.print_exc()
        self.unreadable[made.name] = str(error) or type(error).__name__
        self._ids[made.name] = made.id

    def _restore(self, made: Made) -> None:
        """Restore a stream from its checkpoint and the operations since."""
        stream = ServedStream(made.name, json.loads(made.settings), json.loads(made.defaults))
        kept = self.journal.checkpoint(made.id)
        if kept is not None:
            stream.restore(*kept)
        for operation in self.journal.operations(made.id):
            stream.repeat(operation)
        self._add(stream, made.id)

    def _add(self, stream: ServedStream, number: int) -> None:
        self.streams[stream.name], self._ids[stream.name] = stream, number
        if not stream.learned and stream.name not in self._warming:
            self._warming.append(stream.name)

    def stream(self, name: str) -> ServedStream:
        """Return a stream by its name."""
        found = self.streams.get(name)
        if found is None and name in self.unreadable:
            raise RequestError(500, self._told_unreadable(name))
        if found is None:
            raise RequestError(404, f"there is no stream {check_name(name)!r}: PUT /streams/{name} makes one")
        return found

    def _told_unreadable(self, name: str) -> str:
        return f"the stream {name!r} cannot be read, and the journal keeps all it has: {self.unreadable[name]}"

    def summaries(self) -> list[dict[str, Any]]:
        """Return the summaries of all streams."""
        return [self.away.get(name) or stream.summary() for name, stream in self.streams.items()]

    def put(self, name: str, settings: dict[str, Any]) -> bool:
        """Make a stream. Return False if there is one with the same name and settings already."""
        check_name(name)
        text = as_text(settings)
        there = self.streams.get(name)
        if there is not None:
            if as_text(there.settings) != text:
                raise RequestError(409, f"there is a stream {name!r} with other settings: {as_text(there.settings)}")
            return False
        if name in self.unreadable:
            raise RequestError(409, f"{self._told_unreadable(name)}; DELETE /streams/{name} removes it for good")
        n_streams = len(self.streams) + len(self.unreadable)
        if n_streams >= self.limits.streams:
            raise RequestError(
                429, f"there are {n_streams:,} streams, the most that this server takes: see --max-streams"
            )
        check_limits(settings, self.limits)
        stream = ServedStream(name, json.loads(text), default_settings(self.limits, settings))
        self._touched.add(name)
        self._add(stream, self.journal.add_stream(name, text, as_text(stream.defaults)))
        return True

    def delete(self, name: str) -> None:
        """Delete a stream and all of its rows."""
        if name not in self.unreadable:
            self.stream(name)
        self._touched.add(name)
        self.journal.remove_stream(self._ids.pop(name))
        self.streams.pop(name, None)
        self.unreadable.pop(name, None)
        self._notices.append(Notice(name, None))

    def do(self, name: str, action: Action, key: Key | None = None) -> bytes:
        """Carry out an operation on a stream, once for each key, and return the answer."""
        before = self.answered(name, key)
        if before is not None:
            return before
        stream = self.stream(name)
        return self.finish(stream, perform(stream, action), key)

    def answered(self, name: str, key: Key | None) -> bytes | None:
        """Return the earlier answer to a request, None if it is to be carried out."""
        self.stream(name)
        return None if key is None else self._answered(self._ids[name], key)

    def finish(self, stream: ServedStream, done: tuple[Operation, Outcome], key: Key | None = None) -> bytes:
        """Add an operation that was carried out on a stream to the journal, and return the answer."""
        name, (operation, outcome) = stream.name, done
        if self.streams.get(name) is not stream:  # it was restored from the journal meanwhile
            raise RequestError(503, "nothing was changed: try again")
        self._touched.add(name)
        answer = dump(outcome.content).encode()
        self._note(name, operation, outcome)
        if key is not None:
            self.journal.add_answer(self._ids[name], key.client, key.sequence, Answer(key.digest, answer))
        return answer

    def _note(self, name: str, operation: Operation, outcome: Outcome) -> None:
        """Add what was done to the journal."""
        self._touched.add(name)
        self.journal.add_operation(self._ids[name], operation)
        self.journal.add_events(self._ids[name], outcome.events)
        self._notices.append(Notice(name, outcome))

    def carry_on(self) -> bool:
        """End warm-ups whose time is over, and do a piece of one search. Return whether there is more to do."""
        stream = self.next_search()
        if stream is None:
            return False
        found = stream.search()
        if found is not None:
            self.finish(stream, found)
        return True

    def next_search(self, busy: Collection[str] = ()) -> ServedStream | None:
        """End warm-ups whose time is over; return the next stream with a search to do. busy: names to leave out."""
        due = None
        for _ in range(len(self._warming)):
            name = self._warming.popleft()
            stream = self.streams.get(name)
            if stream is None or stream.learned:
                continue
            self._warming.append(name)
            if name in busy:
                continue
            if stream.is_late:
                self.do(name, ServedStream.end_warmup)
            if due is None and stream.is_searching:
                due = stream
        if due is not None:  # others come first the next time
            self._warming.remove(due.name)
            self._warming.append(due.name)
        return due

    def _answered(self, number: int, key: Key) -> bytes | None:
        """Return the earlier answer to a request, None if the request is new."""
        last = self.journal.last_sequence(number, key.client)
        if last is None and self.journal.n_clients(number) >= MOST_CLIENTS:
            told = f"{MOST_CLIENTS:,} clients have sent to this stream, the most that it tells apart"
            raise RequestError(429, f"{told}: count on from the last number of one of them")
        if last is None or key.sequence > last:
            return None
        found = self.journal.answer(number, key.client, key.sequence)
        if found is not None and found.digest != key.digest:
            told = f"sequence {key.sequence} of client {key.client!r} was another request"
            raise RequestError(409, f"{told}: its last one was {last}, so count on from {last + 1}")
        if found is None or found.content is None:
            told = f"sequence {key.sequence} of client {key.client!r} was answered before"
            told += "" if found is not None else ", or left out"
            raise RequestError(409, f"{told}; its last one was {last}, and the answer is no longer kept")
        return found.content

    def events(self, name: str, after: int, most: int) -> list[str]:
        """Return events of a stream as JSON, see ``Journal.events``."""
        self.stream(name)
        return self.journal.events(self._ids[name], after, most)

    def alarms(self, name: str, most: int) -> tuple[list[dict[str, Any]], int]:
        """Return the latest alarms, with whether they were acknowledged, and how many of all that are kept were not."""
        seen = self.stream(name).notes.seen
        # In JSON the quotes of a name are escaped, so that only alarms have this text.
        texts = [text for text in self.events(name, -1, MOST_EVENTS) if '"kind":"alarm"' in text]
        told = [event | {"acknowledged": event["id"] in seen} for event in map(json.loads, texts[-most:])]
        return told, sum(_id_of(text) not in seen for text in texts)

    def commit(self) -> list[Notice]:
        """Make the operations since the last commit permanent; return the notices for the readers."""
        for name in sorted((self._touched & self.streams.keys()) - self.away.keys()):
            if self.streams[name].is_due(ROWS_PER_CHECKPOINT):
                self._checkpoint(name)
        self.journal.commit()
        notices, self._notices = self._notices, []
        self._touched.clear()
        return notices

    def abort(self) -> None:
        """Undo the operations since the last commit."""
        touched, self._touched = self._touched, set()
        self._notices = []
        try:
            self.journal.rollback()
            for name in touched:
                self.reload(name)
        except Exception as error:
            self.broken = f"the journal failed, and its streams could not be read again: {error}"
            raise

    def reload(self, name: str) -> None:
        """Restore a stream from the journal, or drop it if the journal does not have it."""
        self.streams.pop(name, None)
        self.unreadable.pop(name, None)
        self._ids.pop(name, None)
        for made in self.journal.streams():
            if made.name == name:
                try:
                    self._restore(made)
                except JournalError:
                    raise
                except Exception as error:
                    self._leave_out(made, error)

    def make_checkpoint(self, stream: ServedStream) -> tuple[bytes, bytes] | None:
        """Return a checkpoint of a stream, None if it could not be read again: the journal then keeps the rows."""
        try:
            kept = stream.checkpoint()
            n = len(kept[0])
            if n > LARGEST_VALUE:
                raise ValueError(f"the model of {stream.name!r} has {n:,} bytes: SQLite takes {LARGEST_VALUE:,}")
        except ValueError:
            traceback.print_exc()
            return None
        return kept

    def keep_checkpoint(self, stream: ServedStream, kept: tuple[bytes, bytes]) -> None:
        """Store a checkpoint of a stream, which has all that the journal has of it."""
        self._touched.add(stream.name)
        self.journal.set_checkpoint(self._ids[stream.name], *kept)

    def _checkpoint(self, name: str) -> None:
        """Store a checkpoint of a stream as it is now, if it could be read again."""
        stream = self.streams[name]
        kept = self.make_checkpoint(stream)
        if kept is not None:
            self.keep_checkpoint(stream, kept)

    def close(self) -> None:
        """Write a checkpoint of every stream, and close the journal."""
        try:
            for name, stream in self.streams.items():
                if self.broken is None and name not in self.away and stream.is_due(1):
                    self._checkpoint(name)
            self.journal.commit()
        except JournalError:
            pass  # such as a full disk: the journal has the operations to restore the streams from
        finally:
            self.journal.close()


def _id_of(event: str) -> int:
    """Return the id of an event, with which its JSON begins: to read all of thousands would take long.

    >>> _id_of('{"id":12,"kind":"alarm","row":3}')
    12
    """
    return int(event[len('{"id":') : event.index(",")])

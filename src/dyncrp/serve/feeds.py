"""The events and the live feed of a stream, as server-sent events.

Nothing is queued for a reader. Each reader has a position in the stream, takes what came since, and waits for more. So
a slow reader delays nobody and costs no memory: it reads the events that it has missed from the journal, and skips rows
that it has missed.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dyncrp.serve.plain import dump
from dyncrp.serve.pulse import Pulse
from dyncrp.serve.registry import Notice
from dyncrp.serve.segments import Segment, as_segment

SECONDS_PER_COMMENT = 15.0  # so that no proxy closes an idle connection
SECONDS_PER_BEAT = 2.0  # at most, from one word to a page to the next, so that it knows when the server is frozen
SECONDS_PER_MESSAGE = 0.05  # at least, from one message of rows to the next
ROWS_PER_MESSAGE, ROWS_KEPT = 200, 4_000
EVENTS_PER_MESSAGE = 500
FetchEvents = Callable[[int], Awaitable[list[str]]]


class Feed:
    """The latest rows and changes of one stream.

    last_event: the id of the latest event. n_changes: how often tables were edited or became final. learned: whether
    tables are final. pulse: how often rows come. over: whether the stream was deleted or the server is stopping.
    """

    def __init__(self, last_event: int, *, learned: bool, pulse: Pulse | None = None) -> None:
        self.pulse = Pulse() if pulse is None else pulse
        self.segments: deque[Segment] = deque()
        self.n_kept = self.n_changes = 0
        self.last_event = last_event
        self.next_row: int | None = None
        self.over, self.learned = False, learned
        self._news = asyncio.Event()

    def publish(self, notice: Notice) -> None:
        """Add what has happened, and wake the readers."""
        outcome = notice.outcome
        if outcome is None:
            self.over = True
        else:
            if outcome.events:
                self.last_event = outcome.events[-1][0]
            if outcome.segment is not None:
                self._keep(outcome.segment)
                self.n_changes += not self.learned
                self.learned = True
            self.n_changes += outcome.changed
        self.wake()

    def wake(self) -> None:
        """Wake the readers."""
        self._news.set()
        self._news = asyncio.Event()

    async def wait(self, seconds: float) -> bool:
        """Wait for news, at most so long, and return whether there are any."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _keep(self, segment: Segment) -> None:
        segment = segment.last(ROWS_KEPT)
        self.segments.append(segment)
        self.n_kept += len(segment)
        self.next_row = segment.first_row + len(segment)
        while self.n_kept - len(self.segments[0]) >= ROWS_KEPT:
            self.n_kept -= len(self.segments.popleft())

    def rows_since(self, row: int) -> Segment | None:
        """Return the rows that are kept, from the given one on; None if there are none."""
        found = None
        for segment in reversed(self.segments):
            end = segment.first_row + len(segment)
            if end <= row:
                break
            part = segment.last(end - row)
            if found is not None and end != found.first_row:
                break
            found = part if found is None else part.then(found)
        return found


async def watch_events(feed: Feed, after: int, fetch: FetchEvents) -> AsyncIterator[str]:
    """Yield the events after the id ``after`` as server-sent events. fetch: reads events from the journal."""
    yield ":\n\n"
    while not feed.over:
        seen = feed.last_event
        found = await fetch(after)
        if found:
            texts = []
            for text in found:
                event = json.loads(text)
                after = event["id"]
                texts.append(f"id: {after}\nevent: {event['kind']}\ndata: {text}\n\n")
            yield "".join(texts)
        elif feed.last_event == seen and not await feed.wait(SECONDS_PER_COMMENT):
            yield ":\n\n"


async def watch_rows(feed: Feed, after: int, fetch: FetchEvents) -> AsyncIterator[str]:
    """Yield what the page draws: new rows, events, changes, and often enough how many rows come."""
    yield ":\n\n"
    loop = asyncio.get_running_loop()
    beat = loop.time()
    row, n_changes = feed.next_row or 0, feed.n_changes
    while not feed.over:
        texts = []
        segment = feed.rows_since(row)
        if segment is not None:
            row = segment.first_row + len(segment)
            texts.append(f"event: rows\ndata: {dump(thin(segment))}\n\n")
        if feed.last_event > after:
            for text in await fetch(after):
                after = json.loads(text)["id"]
                texts.append(f"id: {after}\nevent: event\ndata: {text}\n\n")
        if feed.n_changes != n_changes:
            n_changes = feed.n_changes
            texts.append("event: changed\ndata: {}\n\n")
        if loop.time() >= beat:
            beat = loop.time() + SECONDS_PER_BEAT
            texts.append(f"event: beat\ndata: {dump(feed.pulse.tell())}\n\n")
        if texts:
            yield "".join(texts)
            await asyncio.sleep(SECONDS_PER_MESSAGE)
        else:
            await feed.wait(max(0.0, beat - loop.time()))


def thin(segment: Segment) -> dict[str, Any]:
    """Return rows for JSON; of many rows, a few hundred at even distances, including the last."""
    n = len(segment)
    if n <= ROWS_PER_MESSAGE:
        return as_segment(segment)
    at = np.linspace(0, n - 1, ROWS_PER_MESSAGE).round().astype(np.int64)
    told = as_segment(replace(segment, **{name: getattr(segment, name)[at] for name in segment.PARTS}))
    return told | {"rows": (segment.first_row + at).tolist()}

"""Readers of events miss none of them, whenever these come; readers of rows get the latest."""

import asyncio
import json

import numpy as np

from cases import PATIENCE
from dyncrp.serve import feeds
from dyncrp.serve.feeds import Feed, watch_events, watch_rows
from dyncrp.serve.limits import RequestError
from dyncrp.serve.registry import Notice
from dyncrp.serve.sending import EventStream
from dyncrp.serve.streams import Outcome, Segment


def event(number):
    return number, json.dumps({"id": number, "kind": "opened"})


def segment(first, n):
    return Segment(
        first, np.arange(first, first + n, dtype=float), np.zeros(n, np.int64), np.ones(n), np.ones(n), "index"
    )


def test_an_event_that_comes_while_others_are_read_is_not_missed():
    async def read():
        feed, kept = Feed(0, learned=True), []

        async def fetch(after):
            found = [text for number, text in kept if number > after]
            if len(kept) < 3:  # one comes after the journal was looked at, and before anybody waits
                kept.append(event(len(kept) + 1))
                feed.publish(Notice("s", Outcome({}, [kept[-1]])))
            return found

        lines = []
        async with asyncio.timeout(PATIENCE):
            async for text in watch_events(feed, 0, fetch):
                lines += [line for line in text.splitlines() if line.startswith("id:")]
                feed.over = len(lines) == 3
        return lines

    assert asyncio.run(read()) == ["id: 1", "id: 2", "id: 3"]


def test_a_reader_that_is_left_alone_is_told_that_the_line_is_open(monkeypatch):
    monkeypatch.setattr(feeds, "SECONDS_PER_COMMENT", 0.01)
    monkeypatch.setattr(feeds, "SECONDS_PER_BEAT", 0.01)

    async def first(watch, n):
        found = []
        async for text in watch:
            found.append(text)
            if len(found) == n:
                return found

    async def nothing(after):
        return []

    async def run():
        feed = Feed(0, learned=True)
        return await first(watch_events(feed, 0, nothing), 3), await first(watch_rows(feed, 0, nothing), 3)

    comments, (first_word, *beats) = asyncio.run(run())
    assert comments == [":\n\n"] * 3
    assert first_word == ":\n\n"
    assert [text.splitlines()[0] for text in beats] == ["event: beat"] * 2


def test_rows_since():
    feed = Feed(0, learned=True)
    assert feed.rows_since(0) is None
    for first in range(0, 10_000, 1000):
        feed.publish(Notice("s", Outcome({}, segment=segment(first, 1000))))
    assert feed.n_kept == feeds.ROWS_KEPT
    found = feed.rows_since(9_500)
    assert (found.first_row, len(found)) == (9_500, 500)
    assert feed.rows_since(10_000) is None
    assert feed.rows_since(0).first_row == 6_000  # what is older is skipped
    np.testing.assert_array_equal(feed.rows_since(7_500).times, np.arange(7_500, 10_000))


def test_one_long_stretch_is_cut():
    feed = Feed(0, learned=True)
    feed.publish(Notice("s", Outcome({}, segment=segment(0, 50_000))))
    assert feed.rows_since(0).first_row == 46_000


def test_tables_that_become_final_are_a_change():
    feed = Feed(0, learned=False)
    feed.publish(Notice("s", Outcome({})))
    assert feed.n_changes == 0
    for first in (0, 5):
        feed.publish(Notice("s", Outcome({}, segment=segment(first, 5))))
    assert feed.n_changes == 1


def test_a_feed_that_cannot_go_on_ends_as_an_answer_does():
    class Service:
        n_readers = 0

    async def watch():
        yield ":\n\n"
        raise RequestError(404, "there is no stream 's'")

    async def run():
        sent, never = [], asyncio.Event()

        async def receive():
            await never.wait()

        async def send(message):
            sent.append(message)

        async with asyncio.timeout(PATIENCE):
            await EventStream(Service(), watch)({"type": "http"}, receive, send)
        return sent

    start, *parts = asyncio.run(run())
    assert start["status"] == 200
    assert [(part["body"], part.get("more_body", False)) for part in parts] == [(b":\n\n", True), (b"", False)]

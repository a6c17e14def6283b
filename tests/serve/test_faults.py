"""Faults that were found by trying to break a server, one by one."""

import asyncio
import json
import stat

import pytest

from dyncrp.serve import feeds
from dyncrp.serve.feeds import Feed, watch_events
from dyncrp.serve.journal import FILE, Journal
from serving import KNOWN, post, serving


@pytest.mark.parametrize("number", ["1e400", "-1e400", "[1e400]"])
def test_a_number_that_is_too_large_is_no_setting(tmp_path, number):
    with serving(tmp_path) as (client, _):
        for key in ("memory", "alpha", "prune_below", "set"):
            value = f'{{"variance": {number}}}' if key == "set" else number
            refused = client.put("/streams/s", content=f'{{"{key}": {value}}}')
            assert (refused.status_code, "is too large" in refused.json()["error"]) == (400, True)
        assert client.get("/streams").json()["streams"] == []


@pytest.mark.parametrize(
    ("cells", "row", "told"),
    [
        ([1.5, None, "oops", 2], 2, "'oops' after numbers"),
        ([True, True, 2.5], 2, "2.5 after booleans"),
        (["x", False], 1, "False after texts"),
    ],
)
def test_the_first_cell_of_another_kind_is_named(tmp_path, cells, row, told):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json={"warmup": 50})
        rows = [{"b": "left", "a": cell} for cell in cells]
        answer = client.post("/streams/s/rows", json={"rows": rows})
        assert answer.status_code == 400
        assert (answer.json()["row"], answer.json()["column"]) == (row, "a")
        assert told in answer.json()["error"]


def test_another_address_of_this_machine(tmp_path):
    with serving(tmp_path, host="127.0.0.2") as (client, _):
        for host, code in (("127.0.0.2:8000", 200), ("127.0.0.1", 200), ("127.0.0.3", 403), ("example.org", 403)):
            assert client.get("/health", headers={"host": host}).status_code == code


def test_only_its_owner_reads_a_journal(tmp_path):
    with Journal(tmp_path) as journal:
        journal.add_stream("s", "{}")
        journal.commit()
        files = sorted(tmp_path.iterdir())
        assert [file.name for file in files] == [FILE, f"{FILE}-wal"]
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]


def test_a_reader_of_events_that_are_not_there_waits(monkeypatch):
    """A feed may know of events that the journal does not have, such as those of a stream that was made again."""
    monkeypatch.setattr(feeds, "SECONDS_PER_COMMENT", 0.01)
    asked = []

    async def fetch(after):
        asked.append(after)
        return []

    async def read():
        found = []
        async for text in watch_events(Feed(40, learned=True), 3, fetch):
            found.append(text)
            if len(found) == 4:
                return found

    assert asyncio.run(read()) == [":\n\n"] * 4
    assert len(asked) == 3  # once for each comment after the first


def test_events_that_come_while_a_reader_looks_are_not_missed():
    feed = Feed(0, learned=True)

    async def fetch(after):
        if after == 0 and feed.last_event == 0:
            feed.last_event = 1  # it came just after the journal was read
            return []
        return [json.dumps({"id": 1, "kind": "opened"})] if after == 0 else []

    async def read():
        async with asyncio.timeout(5.0):
            return [text async for text, _ in _first(watch_events(feed, 0, fetch), 2)]

    assert "id: 1" in asyncio.run(read())[1]


async def _first(texts, n):
    at = 0
    async for text in texts:
        yield text, at
        at += 1
        if at == n:
            return


def test_a_reader_of_a_stream_that_was_deleted_meanwhile_ends(tmp_path, monkeypatch):
    with serving(tmp_path) as (client, service):
        client.put("/streams/s", json=KNOWN)
        post(client, [[0.0], [9.0]])
        read = service._read

        async def read_and_delete(request, look):
            found = await read(request, look)
            await service.worker.call(lambda registry: registry.delete("s"), "s", changes=True)
            await service.worker.call(lambda registry: registry.put("s", KNOWN), "s", changes=True)
            return found

        with monkeypatch.context() as patch:
            patch.setattr(service, "_read", read_and_delete)
            answer = client.get("/streams/s/events", headers={"accept": "text/event-stream"})
        assert answer.text == ":\n\n"
        assert service.feeds == {}

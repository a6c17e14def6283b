"""A stream in its warm-up is worked on aside: others do not wait for it, and its own requests keep their order."""

import threading
import time
from contextlib import suppress
from functools import partial

import httpx
import numpy as np
import pytest

from cases import PATIENCE
from dyncrp.serve import server, warming, worker
from dyncrp.serve.streams import ServedStream
from serving import KNOWN, post, serving

UNKNOWN = {"warmup": 40}
X = (np.array([0.0, 20.0])[np.random.default_rng(0).integers(2, size=60)] + np.random.default_rng(1).normal(size=60))[
    :, None
]


@pytest.fixture
def slow(monkeypatch):
    """Let operations on unknown streams wait for ``slow.go_on``; ``slow.begun`` says that one began."""

    class Slow:
        begun, go_on = threading.Event(), threading.Event()

    def held(method):
        def wait(stream, *args):
            if stream.unknown:
                Slow.begun.set()
                assert Slow.go_on.wait(PATIENCE)
            return method(stream, *args)

        return wait

    for name in ("learn", "search"):
        monkeypatch.setattr(ServedStream, name, held(getattr(ServedStream, name)))
    yield Slow
    Slow.go_on.set()


def aside(call):
    """Call a function in another thread; return a function that waits for what it returns."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()

    def wait():
        thread.join(PATIENCE)
        return found[0]

    return wait


def test_others_do_not_wait(tmp_path, slow):
    with serving(tmp_path) as (client, _):
        client.put("/streams/known", json=KNOWN)
        client.put("/streams/s", json=UNKNOWN)
        address = "/streams/s/rows?sequence=1"
        answers = [aside(lambda: client.post(address, json={"rows": X[:20].tolist()})) for _ in range(2)]
        assert slow.begun.wait(PATIENCE)
        answers.append(aside(lambda: client.get("/streams/s")))
        assert post(client, [[0.0]], "known")["labels"] == [0]
        assert [stream["rows"] for stream in client.get("/streams").json()["streams"]] == [1, 0]
        assert 'dyncrp_stream_rows{stream="s"} 0' in client.get("/metrics").text
        slow.go_on.set()
        first, retry, told = (answer() for answer in answers)
        assert (first.status_code, first.content) == (200, retry.content)  # it was learned once
        assert told.json()["name"] == "s"
        assert client.get("/streams/s").json()["rows"] == 20


def test_long_answers_are_made_one_at_a_time(tmp_path, monkeypatch):
    """Threads of Python take turns: the event loop would wait for all of them."""
    now, most = 0, 0

    def make(clusters):
        nonlocal now, most
        now += 1
        most = max(most, now)
        time.sleep(0.02)
        now -= 1
        return [{"id": 0}]

    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        post(client, [[0.0]])
        monkeypatch.setattr(ServedStream, "tables", lambda stream: make)
        addresses = ["/streams/s/tables", "/streams/s/tables/0"] * 3
        answers = [aside(partial(client.get, address)) for address in addresses]
        assert [answer().status_code for answer in answers] == [200] * 6
    assert most == 1


def test_a_stream_is_deleted_after_what_came_before(tmp_path, slow):
    with serving(tmp_path) as (client, service):
        client.put("/streams/s", json=UNKNOWN)
        learned = aside(lambda: post(client, X[:20].tolist()))
        assert slow.begun.wait(PATIENCE)
        deleted = aside(lambda: client.delete("/streams/s"))
        while not service.worker.n_waiting:
            assert client.get("/health").status_code == 200
        again = aside(lambda: client.put("/streams/s", json=KNOWN))
        slow.go_on.set()
        assert learned()["first_row"] == 0
        assert deleted().status_code == 204
        assert again().status_code in (201, 409)  # it may have come first
        client.put("/streams/s", json=KNOWN)
        assert client.get("/streams/s").json()["rows"] == 0


def test_what_fails_aside_changes_nothing(tmp_path, monkeypatch, capfd):
    learn = ServedStream.learn

    def fail(stream, batch):
        done = learn(stream, batch)
        if stream.n_rows == 30:
            raise RuntimeError("no such luck")
        return done

    monkeypatch.setattr(ServedStream, "learn", fail)
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=UNKNOWN)
        post(client, X[:20].tolist())
        assert client.post("/streams/s/rows", json={"rows": [["x"]]}).status_code == 400
        assert client.post("/streams/s/rows", json={"rows": X[20:30].tolist()}).status_code == 500
        assert "no such luck" in capfd.readouterr().err
        assert client.get("/streams/s").json()["rows"] == 20
        assert post(client, X[20:60].tolist())["first_row"] == 20


def test_the_server_stops_though_a_computation_does_not(tmp_path, slow, monkeypatch):
    monkeypatch.setattr(worker, "SECONDS_TO_END", 0.1)
    monkeypatch.setattr(server, "SECONDS_TO_ANSWER", 0)
    with serving(tmp_path) as (client, service):
        client.put("/streams/s", json=UNKNOWN)

        def send():
            with suppress(httpx.HTTPError):  # it is not answered
                client.post("/streams/s/rows", json={"rows": X.tolist()})

        sent = aside(send)
        assert slow.begun.wait(PATIENCE)
    assert service.stuck
    sent()
    slow.go_on.set()
    service.worker.join(PATIENCE)  # so that nothing of it outlives the test


def test_rows_that_a_search_does_not_need_are_refused_when_there_are_many(tmp_path, slow, monkeypatch):
    monkeypatch.setattr(warming, "MOST_ROWS", 50)
    stream = ServedStream("s", UNKNOWN | {"warmup_seconds": 30}, {})
    slow.go_on.set()
    assert not stream.warming.is_full(stream.stream)
    for part in np.split(X, 6):
        stream.stream.learn(part)
    assert stream.warming.is_full(stream.stream)
    while stream.is_searching:
        stream.search()
    assert not stream.warming.is_full(stream.stream)


def test_many_cells_end_a_warm_up(monkeypatch):
    monkeypatch.setattr(warming, "MOST_CELLS", 25)
    stream = ServedStream("s", UNKNOWN | {"warmup_seconds": 3600}, {})
    stream.stream.learn(X[:20])
    assert not stream.is_late
    stream.stream.learn(X[20:30])
    assert stream.is_late

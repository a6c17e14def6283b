"""Clients that hold connections without using them, send too much, or do not read."""

import resource
import socket
import threading

import httpx
import pytest

from cases import PATIENCE
from dyncrp.serve import connections
from dyncrp.serve.limits import Limits
from serving import KNOWN, post, serving

HEAD = b"POST /streams/s/rows HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n7A1200\r\n"


@pytest.fixture
def connect():
    """Return a function that opens a connection and sends something."""
    opened = []

    def connect(client, content=b""):
        found = socket.create_connection(("127.0.0.1", client.base_url.port), PATIENCE)
        opened.append(found)
        found.sendall(content)
        return found

    yield connect
    for one in opened:
        one.close()


def is_closed(connection):
    connection.settimeout(PATIENCE)
    try:
        while connection.recv(10_000):
            pass
        return True
    except ConnectionResetError:
        return True


def test_idle_connections_make_room_for_others(tmp_path, connect):
    limits = Limits(requests=5)  # and so 10 connections
    with serving(tmp_path, limits, token="x" * 32) as (client, _):
        client.put("/streams/s", json=KNOWN)
        silent = [connect(client, b"" if at % 2 else HEAD) for at in range(25)]
        with httpx.Client(base_url=client.base_url, headers=client.headers) as other:
            assert post(other, [[0.0]])["labels"] == [0]
        assert all(is_closed(one) for one in silent[:10])


@pytest.mark.parametrize("content", [b"", HEAD])
def test_headers_must_come_in_time(tmp_path, connect, monkeypatch, content):
    monkeypatch.setattr(connections, "SECONDS_FOR_HEADERS", 0.05)
    with serving(tmp_path) as (client, _):
        assert is_closed(connect(client, content))


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
@pytest.mark.parametrize(
    "length", [b"Content-Length: 8000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n7A1200\r\n"]
)
def test_who_sends_too_much_sees_why(tmp_path, connect, close, length):
    with serving(tmp_path, Limits(body=1000)) as (client, _):
        client.put("/streams/s", json=KNOWN)
        connection = connect(client, HEAD + close + length + b"[" * 8_000_000)  # it reads only after that
        assert connection.recv(10_000).startswith(b"HTTP/1.1 413")


def test_a_body_that_drips_after_its_refusal(tmp_path, connect, monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_TO_LINGER", 0.05)
    with serving(tmp_path, token="x" * 32) as (client, _):
        connection = connect(client, HEAD + b"Content-Length: 1000\r\n\r\n")
        assert connection.recv(10_000).startswith(b"HTTP/1.1 401")
        assert is_closed(connection)


def test_answers_must_be_taken(tmp_path, connect, monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_PER_LOOK", 0.05)
    stopped, stop = threading.Event(), connections.Connection.stop
    monkeypatch.setattr(connections.Connection, "stop", lambda self: (stop(self), stopped.set()))
    with serving(tmp_path) as (client, service):
        client.put("/streams/s", json=KNOWN | {"set": {"variance": 1.0, "prior_variance": 1e8}})
        post(client, [[20.0 * at] for at in range(2_000)])
        ask = b"GET /streams/s/tables HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection = connect(client)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        monkeypatch.setattr(service, "_clusters_of", no_clusters)
        connection.sendall(20 * ask)
        assert stopped.wait(PATIENCE)


async def no_clusters(request, n):
    return None


def test_room_for_connections(monkeypatch):
    told = []
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: told.append(limits))
    for soft, hard, room in ((1024, 4096, 2_000), (256, 1024, 874), (100, 100, 1), (10**6, 10**6, 2_000)):
        monkeypatch.setattr(resource, "getrlimit", lambda which, soft=soft, hard=hard: (soft, hard))
        assert connections.room_for_connections(2_000) == room
    assert told == [(2150, 4096), (1024, 1024), (100, 100)]

"""Runs a service with uvicorn on one address, until a signal asks it to stop."""

from __future__ import annotations

import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn

from dyncrp.serve.app import Service
from dyncrp.serve.connections import ACCEPTED_AT_ONCE, Connection, room_for_connections

LONGEST_TOKEN, SHORTEST_TOKEN = 1_000, 16
SECONDS_TO_ANSWER = 10  # what is under way when the server stops
BACKLOG = 1024  # connections that wait to be accepted


def check_address(host: str, token: str | None) -> None:
    """Raise if the server would listen to other machines without a token, or with one that is too short.

    >>> check_address("0.0.0.0", None)
    Traceback (most recent call last):
        ...
    ValueError: --host 0.0.0.0 listens to other machines, which needs a token: set DYNCRP_TOKEN, or --token
    """
    if token is not None and not (SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN and token.isascii()):
        raise ValueError(f"a token has {SHORTEST_TOKEN} to {LONGEST_TOKEN} ASCII characters, this one has {len(token)}")
    if token is None and not is_loopback(host):
        raise ValueError(f"--host {host} listens to other machines, which needs a token: set DYNCRP_TOKEN, or --token")


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("example.org")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Server(uvicorn.Server):
    """A uvicorn server that ends the feeds of readers when it is asked to stop. started: called when it listens."""

    def __init__(self, service: Service, started: Callable[[], None]) -> None:
        most = room_for_connections(2 * service.limits.requests)
        protocol: Any = partial(Connection, idle={}, most=most)
        config = uvicorn.Config(
            service.app,
            http=protocol,
            backlog=ACCEPTED_AT_ONCE,
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=most + 1,
            timeout_graceful_shutdown=SECONDS_TO_ANSWER,
        )
        super().__init__(config)
        self._service, self._started = service, started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Treat SIGINT and SIGTERM as a request to stop. Unlike uvicorn's own method, do not raise them again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        for bound in sockets or ():
            bound.listen(BACKLOG)  # the system may hold more than asyncio accepts at once
        if self.started:
            self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests in progress, and stop."""
        self._service.end_feeds()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 stands for any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Given the protocol, asyncio sets TCP_NODELAY; otherwise an answer may wait 40 ms for an ACK.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return bound

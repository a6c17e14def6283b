"""A connection of the server: it ends if its client is too slow, or to make room for others.

A client may open a connection and send nothing, or headers and bodies byte by byte, or not read its answer. None of
that needs a token. So a connection has a time to send the headers of a request, answers must be taken, and when there
are too many connections, the one that has been without a request for longest is closed.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_FOR_HEADERS = 10.0
SECONDS_TO_LINGER = 30.0  # for the rest of a body that is refused
SECONDS_PER_LOOK = 30.0  # in which a client must have taken something of its answer
ACCEPTED_AT_ONCE = 20  # in one turn of the event loop; it takes some turns to close others
FILES_BESIDE = 150  # that the process may have open beside connections, or until they are closed


def room_for_connections(wanted: int) -> int:
    """Return for how many connections there may be files, up to the number wanted; let the process open so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, min(wanted, soft - FILES_BESIDE))
    return wanted


class Lingering:
    """A transport that, when it is closed before a body has arrived, takes the rest of it and throws it away.

    Otherwise the system would reset the connection, and a client that sends all before it reads would not see why it
    was refused.
    """

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self.transport, self._connection = transport, connection
        self.lingers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def is_closing(self) -> bool:
        """Return whether nothing more is to be sent."""
        return self.lingers or self.transport.is_closing()

    def close(self) -> None:
        """Close the connection, once the rest of the body has come if there is any; at once if called again."""
        if self.is_closing() or not self._connection.expects_more or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.lingers = True
        self.transport.write_eof()
        self.transport.resume_reading()
        self._connection.wait(SECONDS_TO_LINGER)


class Connection(H11Protocol):
    """A connection. idle: all that have no request, the one that has waited for longest first. most: how many to keep.

    A request begins when all of its headers have come.
    """

    def __init__(self, *args: Any, idle: dict[Connection, None], most: int, **named: Any) -> None:
        super().__init__(*args, **named)
        self._idle, self._most = idle, most
        self._deadline: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None

    @property
    def expects_more(self) -> bool:
        """Whether a body has begun to come and not ended."""
        return self.conn.their_state is h11.SEND_BODY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; close another connection if there are too many."""
        self._lingering = Lingering(transport, self)
        super().connection_made(self._lingering)  # type: ignore[arg-type]
        self.wait(SECONDS_FOR_HEADERS)
        while len(self.connections) > self._most and next(iter(self._idle)) is not self:
            oldest = next(iter(self._idle))
            oldest.stop()
            self.connections.discard(oldest)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._begin()
        self._forget_look()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        if self._lingering.lingers:
            return
        super().data_received(data)
        if self._deadline is not None and self.cycle is not None and not self.cycle.response_complete:
            self._begin()

    def eof_received(self) -> None:
        """Close a connection that only waited for its client."""
        if self._lingering.lingers:
            self._lingering.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            # The rest of a body that was refused may still come.
            self.wait(SECONDS_TO_LINGER if self.expects_more else self.timeout_keep_alive + SECONDS_FOR_HEADERS)

    def pause_writing(self) -> None:
        """Begin to look whether the client takes its answer."""
        super().pause_writing()
        self._see(-1)

    def resume_writing(self) -> None:
        """End to look."""
        self._forget_look()
        super().resume_writing()

    def wait(self, seconds: float) -> None:
        """Wait for the client at most so long."""
        self._begin()
        self._idle[self] = None
        self._deadline = self.loop.call_later(seconds, self.stop)

    def stop(self) -> None:
        """Close the connection at once."""
        self._begin()
        self._lingering.transport.abort()

    def _begin(self) -> None:
        """End to wait."""
        self._idle.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _see(self, before: int) -> None:
        """Close the connection if nothing was taken since there were so many bytes to send."""
        self._forget_look()
        left = self._lingering.transport.get_write_buffer_size()
        if left == before:
            self.stop()
        else:
            self._look = self.loop.call_later(SECONDS_PER_LOOK, self._see, left)

    def _forget_look(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

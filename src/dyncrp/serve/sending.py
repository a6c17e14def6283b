"""Sends server-sent events to a reader, as an answer that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from starlette.responses import Response

from dyncrp.serve.limits import RequestError
from dyncrp.serve.middleware import Receive, Scope, Send

SECONDS_PER_SEND = 30.0  # for a reader of events to take something


class Readers(Protocol):
    """Counts the readers of events."""

    n_readers: int


class EventStream(Response):
    """Server-sent events, until the reader disconnects, takes too long, or the stream ends."""

    def __init__(self, readers: Readers, watch: Callable[[], AsyncIterator[str]]) -> None:
        super().__init__()
        self._readers, self._watch = readers, watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is."""
        kind = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
        gone = asyncio.ensure_future(_wait_for_the_end(receive))
        self._readers.n_readers += 1
        sending = asyncio.ensure_future(self._send(kind, send))
        try:
            await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._readers.n_readers -= 1
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)

    async def _send(self, headers: list[tuple[bytes, bytes]], send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async for text in self._watch():
                async with asyncio.timeout(SECONDS_PER_SEND):
                    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        except RequestError:  # the stream was deleted, or the server stops
            pass
        except TimeoutError:
            return  # the reader can come back with Last-Event-ID
        await send({"type": "http.response.body", "body": b""})


async def _wait_for_the_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

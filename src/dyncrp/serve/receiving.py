"""Receives the bodies of requests, and bounds how much of them is in memory, as bytes and as Python's values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from starlette.requests import ClientDisconnect, Request

from dyncrp.serve.bodies import check_json, read_object
from dyncrp.serve.limits import Limits, RequestError

P = ParamSpec("P")
T = TypeVar("T")
BODIES_AT_ONCE = 8  # of the largest size, in memory
PARSED_AT_ONCE = 64 * 2**10  # bytes; a larger body is parsed in a thread, so that others are served meanwhile
LARGEST_OBJECT = 4 * 2**20  # bytes of a body that holds no rows: 10,000 columns with long names fit


class Bodies:
    """The bodies of all requests under way. n_bytes: how many bytes they have."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.n_bytes = self._n_open = 0
        self._turn, self._freed = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def read(self, request: Request, most: int | None = None) -> AsyncIterator[bytes]:
        """Yield the body of a request; raise if it has more than ``most`` bytes or takes too long to arrive."""
        limits, told = self._limits, request.headers.get("content-length", "0")
        longest = limits.body if most is None else min(limits.body, most)
        see = "send several, or see --max-body" if most is None else "only rows may take more"
        too_long = RequestError(413, f"a body may have {longest:,} bytes: {see}")
        if not told.isdecimal() or int(told[:20]) > longest:
            raise too_long
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RequestError(415, "a body must not be compressed")
        parts, n = [], 0
        try:
            async with asyncio.timeout(limits.seconds):
                async for part in request.stream():
                    n += len(part)
                    self.n_bytes += len(part)
                    if n > longest:
                        raise too_long
                    if self.n_bytes > BODIES_AT_ONCE * limits.body:
                        raise RequestError(503, "the server is busy with the bodies of other requests: try again later")
                    parts.append(part)
            yield b"".join(parts)
        except TimeoutError:
            raise RequestError(408, f"the body took longer than {limits.seconds:g} s") from None
        except ClientDisconnect:
            raise RequestError(400, "the body ended too early") from None
        finally:
            self.n_bytes -= n

    @asynccontextmanager
    async def open(self, content: bytes) -> AsyncIterator[None]:
        """Wait until there is room for the values of a body, which may take many times its bytes.

        All that are open at the same time have as many bytes as one body may have. Small ones need not wait.
        """
        n = len(content) if len(content) > PARSED_AT_ONCE else 0
        if n:
            async with self._turn:  # so that no large one waits for ever
                while self._n_open and self._n_open + n > self._limits.body:
                    self._freed.clear()
                    await self._freed.wait()
                self._n_open += n
        try:
            yield
        finally:
            self._n_open -= n
            self._freed.set()

    async def parse(self, content: bytes, parse: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what a function makes of a body; a long one is given to another thread."""
        if len(content) <= PARSED_AT_ONCE:
            return parse(*args, **named)
        return await asyncio.to_thread(parse, *args, **named)

    @asynccontextmanager
    async def read_object(
        self, request: Request, allowed: tuple[str, ...], *, cells: bool = False, optional: bool = False
    ) -> AsyncIterator[tuple[dict[str, Any], bytes]]:
        """Yield the JSON object that a body holds, and the body. optional: whether an empty body stands for {}."""

        def parse() -> dict[str, Any]:
            check_json(content, self._limits)
            return read_object(content, allowed, cells=cells)

        async with self.read(request, LARGEST_OBJECT) as content, self.open(content):
            if optional and not content.strip():
                yield {}, content
            else:
                yield await self.parse(content, parse), content

"""Checks the origin and the token of every request, and counts the answers."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from dyncrp.serve.endpoints import ENDPOINTS
from dyncrp.serve.limits import RequestError
from dyncrp.serve.plain import dump

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
OPEN = {"/favicon.ico"} | {endpoint.path for endpoint in ENDPOINTS if endpoint.open}  # these need no token
READING = ("GET", "HEAD", "OPTIONS")
# Pages load nothing from other sites, cannot be embedded in other sites, and send no referrer.
HEADERS = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
ASK_AGAIN = (b"cache-control", b"no-cache")  # or browsers mix the page of this version with files of the one before
CLOSE = {"connection": "close"}  # the rest of the body is thrown away
HEADERS_OF = {401: {"www-authenticate": "Bearer"}, 408: CLOSE, 413: CLOSE, 503: {"retry-after": "1"}}


@dataclass
class Middleware:
    """Passes the requests that are allowed to ``app``, and counts the status codes of the answers.

    token: the token that requests must bring, which pages of other sites do not know. With None the server listens only
    to this machine. Then it takes only requests addressed to localhost, since the domain of another site may resolve to
    this machine, and pages of other origins may not write. names: those by which it may be addressed.
    """

    app: App
    token: str | None = None
    names: tuple[str, ...] = LOOPBACK
    codes: Counter[int] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.codes[message["status"]] += 1
                own = message.get("headers", [])
                kept = any(name == b"cache-control" for name, _ in own)
                message["headers"] = [*own, *HEADERS, *([] if kept else [ASK_AGAIN])]
            await send(message)

        try:
            self._check(scope)
        except RequestError as refused:
            await refusal(refused)(scope, receive, answer)
            return
        await self.app(scope, receive, answer)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self.token is None:
            if name.lower() not in self.names:
                raise RequestError(403, f"this server answers to {', '.join(self.names)}, not to {host!r}")
            origin = headers.get(b"origin", b"").decode("latin-1")
            if origin and scope["method"] not in READING and origin.partition("://")[2].lower() != host.lower():
                raise RequestError(403, f"a page of {origin!r} may not write here")
            return
        path = scope["path"]
        if path in OPEN or path.startswith("/static/"):
            return
        given = headers.get(b"authorization", b"")
        kind, _, token = given.partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.token.encode()):
            raise RequestError(401, "a token is needed: the header Authorization: Bearer TOKEN")


def names_of(host: str | None) -> tuple[str, ...]:
    """Return the names by which a server of this machine is addressed, which listens at ``host``.

    >>> names_of("127.0.0.2")
    ('localhost', '127.0.0.1', '[::1]', '127.0.0.2')
    """
    name = None if host is None else f"[{host}]" if ":" in host else host
    return LOOPBACK if name is None or name in LOOPBACK else (*LOOPBACK, name)


def refusal(refused: RequestError) -> Response:
    """Return the answer to a request that is refused."""
    content, headers = dump(refused.content), HEADERS_OF.get(refused.status)
    return Response(content, refused.status, headers, "application/json")

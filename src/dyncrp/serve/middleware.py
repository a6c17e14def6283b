"""Checks the origin and the token of every request, and counts the answers."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from dyncrp.serve.endpoints import ENDPOINTS
from dyncrp.serve.limits import RequestError
from dyncrp.serve.streams import dump

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


@dataclass
class Middleware:
    """Passes the requests that are allowed to ``app``, and counts the status codes of the answers.

    token: the token that requests must bring, which pages of other sites do not know. With None the server listens only
    to this machine. Then it takes only requests addressed to localhost, since the domain of another site may resolve to
    this machine, and pages of other origins may not write.
    """

    app: App
    token: str | None = None
    codes: Counter[int] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.codes[message["status"]] += 1
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            self._check(scope)
        except RequestError as refused:
            await answer_refused(refused, answer)
            return
        await self.app(scope, receive, answer)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self.token is None:
            if name.lower() not in LOOPBACK:
                raise RequestError(403, f"this server answers to {', '.join(LOOPBACK)}, not to {host!r}")
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


async def answer_refused(refused: RequestError, send: Send) -> None:
    """Answer with an error."""
    content = dump(refused.content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.status in (408, 413):
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    if refused.status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})

"""What the query and the path of a request say, checked."""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any

from starlette.requests import Request

from dyncrp.serve.bodies import JSON
from dyncrp.serve.limits import RequestError
from dyncrp.serve.registry import Key
from dyncrp.serve.settings import check_name

CLIENT = re.compile(r"[A-Za-z0-9._:-]{1,100}")
LARGEST_SEQUENCE = 2**63 - 1
MOST_DIGITS = 18  # of an integer


def retry_key(request: Request, content: bytes) -> Key | None:
    """Return what identifies a retry of this request, if it has a sequence number."""
    given = request.query_params
    text, client = given.get("sequence"), given.get("client", "-")
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 19 or int(text) > LARGEST_SEQUENCE:
        raise RequestError(400, f"sequence must be an integer from 0 to {LARGEST_SEQUENCE}, got {text!r}")
    if not CLIENT.fullmatch(client):
        raise RequestError(400, "client must be 1 to 100 letters, digits and . _ : -")
    asked = [request.url.path, request.headers.get("content-type", JSON), *sorted(map(repr, given.multi_items()))]
    digest = hashlib.blake2b("\0".join(asked).encode() + b"\0" + content, digest_size=16).digest()
    return Key(client, int(text), digest)


def stream_name(request: Request) -> str:
    """Return the name of the stream in the path."""
    return check_name(request.path_params["name"])


def whole(request: Request, name: str, default: Any, least: int, most: int = 10**9) -> Any:
    """Return an integer of the query."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not is_whole(text) or not least <= int(text) <= most:
        raise RequestError(400, f"{name} must be an integer from {least} to {most:,}, got {text!r}")
    return int(text)


def _seconds(request: Request, name: str, default: Any) -> Any:
    """Return a number of seconds of the query."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        number = float(text[:40])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RequestError(400, f"{name} must be a number of seconds, got {text[:40]!r}")
    return number


def stretch(request: Request) -> tuple[float, float, float | None]:
    """Return the begin, the end and the span of a history, in seconds."""
    known = ("begin", "end", "span")
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is not None:
        raise RequestError(400, f"unknown parameter {unknown[:40]!r}; the parameters are {', '.join(known)}")
    begin, end = _seconds(request, "begin", -math.inf), _seconds(request, "end", math.inf)
    span = _seconds(request, "span", None)
    if span is not None and span <= 0.0:
        raise RequestError(400, f"span must be above 0 seconds, got {span:g}")
    if begin > end:
        raise RequestError(400, f"begin must not be after end, got {begin:.15g} and {end:.15g}")
    return begin, end, span


def is_whole(text: str) -> bool:
    """Return whether a text is an integer, and not too long a one."""
    return text.isdecimal() and len(text) <= MOST_DIGITS


def after_event(request: Request, default: int) -> int:
    """Return the id of the event after which to continue."""
    text = request.headers.get("last-event-id", "")
    found: int = int(text) if is_whole(text) else whole(request, "after", default, 0, 10**18)
    return found

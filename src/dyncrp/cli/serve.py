"""``dyncrp serve``: streams over HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from dyncrp.cli.errors import refuse, report_errors, say
from dyncrp.io.files import FileError
from dyncrp.serve import demo as built_in
from dyncrp.serve.app import Service
from dyncrp.serve.journal import JournalError
from dyncrp.serve.limits import Limits
from dyncrp.serve.server import Server, check_address, listen

TOKEN = "DYNCRP_TOKEN"
# One thread talks to clients and one learns. They switch several times per request, and with Python's default interval
# of 5 ms, each would mostly wait for the other.
SECONDS_PER_TURN = 0.0005


def serve_folder(
    folder: Path | None, host: str, port: int, token: str | None, limits: Limits, *, sync: bool, demo: bool
) -> None:
    """Serve the streams of a data folder until a signal comes."""
    with report_errors(), ExitStack() as stack:
        token = token or os.environ.get(TOKEN) or None
        check_address(host, token)
        sys.setswitchinterval(SECONDS_PER_TURN)
        if folder is None:
            if not demo:
                refuse("serve needs a DATA_FOLDER for its streams; --demo needs none")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dyncrp-serve-")))
        with listen(host, port) as bound:
            try:
                service = Service(folder, limits, token=token, sync=sync, host=host)
            except JournalError as error:
                raise FileError(str(error)) from None
            name = f"[{host}]" if ":" in host else host
            address = f"http://{name}:{bound.getsockname()[1]}"
            asyncio.run(_serve(service, bound, address, demo=demo))


async def _serve(service: Service, bound: socket.socket, address: str, *, demo: bool) -> None:
    feeding: list[asyncio.Task[None]] = []

    def started() -> None:
        for name, error in service.registry.unreadable.items():
            say(f"the stream {name!r} cannot be read, and is left as it is: {error}")
        say(f"serving {service.registry.journal.path.parent} at {address}")
        if demo:
            feeding.append(asyncio.ensure_future(built_in.feed(service)))
            feeding[0].add_done_callback(_report)

    await Server(service, started).serve([bound])
    for task in feeding:
        task.cancel()
    if service.stuck:
        say("stopped in the midst of a computation, and nothing that was answered is lost")


def _report(feeding: asyncio.Task[None]) -> None:
    if not feeding.cancelled() and feeding.exception() is not None:
        say(f"the built-in stream has ended: {feeding.exception()}")

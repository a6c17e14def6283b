"""Signals as requests to stop between two chunks."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Self


class Stopped(KeyboardInterrupt):
    """A signal asked the program to stop; its number is the argument."""


class Stop:
    """Treat SIGINT and SIGTERM as a request to stop after the current chunk. A second one stops at once.

    While the program waits for a pipe, there is no current chunk, and it stops at once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.waiting = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._request) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        twice, self.signal = self.signal is not None, number
        if twice or self.waiting:
            raise Stopped(number)

"""Signals as requests to stop between two chunks."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Self


class Stopped(KeyboardInterrupt):
    """A signal, whose number is the argument, asked for the end."""


class Stop:
    """Takes SIGINT and SIGTERM as a request to stop after the current chunk; a second one does not wait.

    While a pipe is waited for, there is no current chunk, and the request is granted at once.
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

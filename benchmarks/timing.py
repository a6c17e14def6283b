"""Clocks: repeat, interleave, keep the best; stop what takes too long.

Everything runs on one thread, so its CPU time is its duration on an idle machine; it is what ``Feeder`` reads,
because other work on the machine disturbs it less than a clock on the wall.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, process_time
from types import FrameType
from typing import Any


class TooLong(Exception):
    """A call outlasted its time limit."""


@contextmanager
def limit(seconds: float, *, cpu: bool = False) -> Iterator[None]:
    """Raise ``TooLong`` inside the block (between two Python instructions) once ``seconds`` of time have passed.

    By the clock on the wall, or of this process's CPU time if ``cpu``.
    """
    timer, alarm = (signal.ITIMER_PROF, signal.SIGPROF) if cpu else (signal.ITIMER_REAL, signal.SIGALRM)

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    previous = signal.signal(alarm, stop)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0.0)
        signal.signal(alarm, previous)


class Feeder:
    """Feeds a pool of rows, in batches and round and round, to ``take``, and times it."""

    def __init__(self, take: Callable[[Any], object], pool: Sequence[Any], batch: int) -> None:
        self.take = take
        self.pool = pool
        self.batch = min(batch, len(pool))
        self.position = 0
        self.fed = 0
        self.rate = 0.0  # the best so far

    def once(self, seconds: float, least: int = 0) -> None:
        """Feed the pool once, or for as long as ``seconds`` but at least ``least`` rows; counts as no measurement."""
        self._feed(seconds, len(self.pool), least)

    def measure(self, seconds: float) -> None:
        """Feed for about ``seconds`` and keep the rate, in rows a second, if it is the best so far."""
        rows, elapsed = self._feed(seconds, None)
        self.rate = max(self.rate, rows / elapsed)

    def _feed(self, seconds: float, most: int | None, least: int = 0) -> tuple[int, float]:
        rows, start = 0, process_time()
        while True:
            if self.position + self.batch > len(self.pool):
                self.position = 0
            self.take(self.pool[self.position : self.position + self.batch])
            self.position += self.batch
            rows += self.batch
            self.fed += self.batch
            elapsed = process_time() - start
            if (elapsed >= seconds and rows >= least) or (most is not None and rows >= most):
                return rows, elapsed


def interleave(feeders: Sequence[Feeder], rounds: int, seconds: float) -> None:
    """Measure every feeder once a round, so that a slow spell of the machine meets all of them."""
    for _ in range(rounds):
        for feeder in feeders:
            feeder.measure(seconds)


def best_seconds(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the shortest duration of each call, by the clock on the wall, interleaved."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start = perf_counter()
            call()
            best[i] = min(best[i], perf_counter() - start)
    return best

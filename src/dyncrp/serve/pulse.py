"""How often rows and alarms come to a stream, by the clock of the server."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

SECONDS, HOUR, MINUTE = 10.0, 3600.0, 60.0


class _Counter:
    """Sums of what came in the last ``span`` seconds, kept in buckets of ``width`` seconds."""

    def __init__(self, span: float, width: float) -> None:
        self._span, self._width = span, width
        self._buckets: deque[tuple[float, list[int]]] = deque()

    def __len__(self) -> int:
        return len(self._buckets)

    def add(self, now: float, rows: int, alarms: int) -> None:
        begin = now - now % self._width
        if not self._buckets or self._buckets[-1][0] != begin:
            self._buckets.append((begin, [0, 0]))
            self._forget(now)
        counts = self._buckets[-1][1]
        counts[0] += rows
        counts[1] += alarms

    def sums(self, now: float) -> tuple[int, int]:
        self._forget(now)
        return sum(counts[0] for _, counts in self._buckets), sum(counts[1] for _, counts in self._buckets)

    def _forget(self, now: float) -> None:
        while self._buckets and self._buckets[0][0] <= now - self._span:
            self._buckets.popleft()


class Pulse:
    """Counts of rows and alarms: those of the last 10 seconds and of the last hour. clock: gives seconds.

    >>> seconds = iter([100.0, 105.0, 108.0, 111.0])
    >>> pulse = Pulse(lambda: next(seconds))
    >>> pulse.add(40, 1)
    >>> pulse.add(40, 0)
    >>> pulse.tell()
    {'age': 3.0, 'rows_a_second': 8.0, 'hour': {'seconds': 11.0, 'rows': 80, 'alarms': 1}}
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._begin = clock, clock()
        self._last: float | None = None
        self.counters = self._lately, self._hour = _Counter(SECONDS, 1.0), _Counter(HOUR, MINUTE)

    def add(self, rows: int, alarms: int) -> None:
        """Count rows that came now, and alarms that were told now: those of a warm-up are told after its rows."""
        if rows or alarms:
            now = self._clock()
            self._last = now if rows else self._last
            self._lately.add(now, rows, alarms)
            self._hour.add(now, rows, alarms)

    def tell(self) -> dict[str, Any]:
        """Return the age of the last row in seconds (None if none has come), rows a second, and the last hour."""
        now = self._clock()
        age = None if self._last is None else round(now - self._last, 3)
        rows, alarms = self._hour.sums(now)
        hour = {"seconds": round(min(now - self._begin, HOUR), 1), "rows": rows, "alarms": alarms}
        return {"age": age, "rows_a_second": self._lately.sums(now)[0] / SECONDS, "hour": hour}

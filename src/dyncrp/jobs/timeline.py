"""A timeline of a stream in bounded memory: every s-th row, where s grows with the stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_ROWS_KEPT = 8192


class Timeline:
    """Every ``step``-th row of a stream: its time and table, and the highest novelty from it to the next.

    The step doubles when more than 8192 rows are kept. The result does not depend on how the stream is divided into
    calls.

    >>> timeline = Timeline()
    >>> timeline.add(np.arange(20_000.0), np.zeros(20_000, dtype=np.int64), np.ones(20_000))
    >>> timeline.step, timeline.times[:3], len(timeline.times)
    (4, array([0., 4., 8.]), 5000)
    """

    def __init__(self) -> None:
        self.step, self.n = 1, 0
        self.times: NDArray[np.float64] = np.empty(0)
        self.tables: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.novelty: NDArray[np.float64] = np.empty(0)

    def add(self, times: NDArray[np.float64], tables: NDArray[np.int64], novelty: NDArray[np.float64]) -> None:
        """Add rows: times (n,), tables (n,), novelty (n,)."""
        first = -self.n % self.step
        self.n += len(times)
        if len(novelty[:first]):
            self.novelty[-1] = max(self.novelty[-1], np.max(novelty[:first]))
        self.times = np.concatenate([self.times, times[first :: self.step]])
        self.tables = np.concatenate([self.tables, tables[first :: self.step]])
        self.novelty = np.concatenate([self.novelty, _highest(novelty[first:], self.step)])
        while len(self.times) > MOST_ROWS_KEPT:
            self.step *= 2
            self.times, self.tables, self.novelty = self.times[::2], self.tables[::2], _highest(self.novelty, 2)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything as arrays that can be saved."""
        counts = np.array([self.step, self.n])
        return {"counts": counts, "times": self.times, "tables": self.tables, "novelty": self.novelty}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restore what ``arrays`` returned."""
        counts = arrays["counts"]
        lines = arrays["times"], arrays["tables"], arrays["novelty"]
        kinds = [array.dtype.kind for array in (counts, *lines)]
        shapes = [array.shape for array in (counts, *lines)]
        if kinds != ["i", "f", "i", "f"] or shapes != [(2,), *[(lines[0].size,)] * 3] or counts[0] < 1 or counts[1] < 0:
            raise ValueError("its timeline is damaged")
        self.step, self.n = counts.tolist()
        self.times, self.tables, self.novelty = lines


def _highest(values: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Return the highest of each ``step`` consecutive values, (ceil(n / step),)."""
    return np.maximum.reduceat(values, np.arange(0, len(values), step)) if len(values) else values

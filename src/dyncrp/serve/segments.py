"""The results of consecutive rows of a stream, as the page draws them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dyncrp.serve.bodies import Float
from dyncrp.serve.plain import as_numbers, as_time
from dyncrp.stream.events import Batch


@dataclass(frozen=True)
class Segment:
    """The results of consecutive rows: times, tables, novelty and its p-value, (n,) each. clock: the kind of times.

    >>> line = Segment(5, np.arange(3.0), np.array([0, 1, 0]), np.ones(3), np.ones(3), "index")
    >>> line.last(2).first_row, line.then(line.last(1)).tables
    (6, array([0, 1, 0, 0]))
    >>> [(part.first_row, len(part)) for part in line.part(1)]
    [(5, 1), (6, 2)]
    """

    first_row: int
    times: Float
    tables: NDArray[np.int64]
    novelty: Float
    p: Float
    clock: str

    PARTS: ClassVar = ("times", "tables", "novelty", "p")

    @classmethod
    def of(cls, batch: Batch, clock: str, *, has_p: bool) -> Segment:
        """Return the results of rows as they were seated. has_p: without alarms, a checkpoint does not keep p."""
        labels, novelty = batch.trace.labels, -batch.trace.log_evidence
        p = batch.novelty_p if has_p else np.full(len(labels), np.nan)
        return cls(batch.first_row, batch.times, labels, novelty, p, clock)

    def __len__(self) -> int:
        return len(self.tables)

    def last(self, n: int) -> Segment:
        """Return the last n rows."""
        cut = max(0, len(self) - n)
        parts = {name: getattr(self, name)[cut:] for name in self.PARTS}
        return replace(self, first_row=self.first_row + cut, **parts)

    def part(self, n: int) -> tuple[Segment, Segment]:
        """Return the first n rows and the others."""
        first = {name: getattr(self, name)[:n] for name in self.PARTS}
        return replace(self, **first), self.last(len(self) - n)

    def then(self, other: Segment) -> Segment:
        """Return these rows and those that come next."""
        parts: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.PARTS
        }
        return replace(self, **parts)


def as_segment(segment: Segment) -> dict[str, Any]:
    """Return the results of rows for JSON."""
    return {
        "first_row": segment.first_row,
        "rows": list(range(segment.first_row, segment.first_row + len(segment))),
        "times": [as_time(time, segment.clock) for time in segment.times.tolist()],
        "tables": segment.tables.tolist(),
        "novelty": as_numbers(segment.novelty),
        "novelty_p": as_numbers(segment.p),
    }

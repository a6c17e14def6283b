"""The warm-up of a served stream: when time ends it, and how far it is."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from dyncrp.arrays.checks import real
from dyncrp.input.entries import quote
from dyncrp.serve.limits import RequestError
from dyncrp.stream.stream import Stream
from dyncrp.stream.warmup import Warmup

SECONDS = "warmup_seconds"  # the setting
FEWEST_ROWS = 100  # with fewer, time does not end a warm-up: what it learns is final
MOST_CELLS, MOST_ROWS = 10_000_000, 500_000  # of a warm-up: the rows are kept until it is over
LEAST_SHARE = 10  # nor with less than a tenth of the rows that were asked for, as for texts


@dataclass
class Warming:
    """When the warm-up of a stream ends.

    seconds: how long after its first row, None if time has no part in it: then requests do the search piece by piece,
    and what they are answered depends on nothing else. began: when the first row came, by ``time.monotonic``; a restart
    counts anew. error: why the hyperparameters could not be learned.
    """

    seconds: float | None
    began: float | None = None
    error: str | None = None

    def begin(self) -> None:
        """Note that a row has come."""
        if self.began is None:
            self.began = time.monotonic()

    def seconds_left(self) -> float:
        """Return in how many seconds time ends the warm-up; infinite if it does not."""
        if self.seconds is None or self.began is None:
            return math.inf
        return max(0.0, self.began + self.seconds - time.monotonic())

    def is_over(self, stream: Stream) -> bool:
        """Return whether time ends the warm-up now, or that there is no room for more rows."""
        warmup = stream.warmup
        if warmup is None or self.seconds is None or not 1 < warmup.n_rows < warmup.needed:
            return False
        return n_cells(stream) > MOST_CELLS or (least_rows(warmup) <= warmup.n_rows and not self.seconds_left())

    def is_full(self, stream: Stream) -> bool:
        """Return whether a search goes on for which there are rows enough, and no room for more rows."""
        warmup = stream.warmup
        if warmup is None or self.seconds is None or self.error is not None or warmup.n_rows < warmup.needed:
            return False
        return warmup.n_rows > MOST_ROWS or n_cells(stream) > 2 * MOST_CELLS

    def describe(self, warmup: Warmup) -> dict[str, Any]:
        """Return how far a warm-up is, for JSON."""
        searching = warmup.n_rows >= warmup.needed
        left = self.seconds_left()
        told = {
            "rows": warmup.n_rows,
            "needed": warmup.needed,
            "least_rows": least_rows(warmup),
            "seconds_left": None if left == math.inf else 0 if searching else math.ceil(left),
            "searching": searching,
        }
        return told if self.error is None else told | {"error": self.error}


def n_cells(stream: Stream) -> int:
    """Return how many cells the rows of a warm-up have, all of which are kept; of texts, how many rows."""
    return stream.n_rows * (1 if stream.input.vocabulary is not None else stream.n_columns)


def least_rows(warmup: Warmup) -> int:
    """Return with how many rows time may end a warm-up."""
    return min(warmup.needed, max(FEWEST_ROWS, warmup.spec.warmup // LEAST_SHARE))


def read_seconds(settings: dict[str, Any], defaults: dict[str, Any]) -> float | None:
    """Return after how many seconds settings end the warm-up, None if never.

    >>> read_seconds({}, {"warmup_seconds": 30.0}), read_seconds({"warmup_seconds": None}, {"warmup_seconds": 30.0})
    (30.0, None)
    """
    given = settings.get(SECONDS, defaults.get(SECONDS))
    number = real(given)
    if given is not None and (number is None or not 0.0 <= number < math.inf):
        raise RequestError(
            400, f"{SECONDS} must be a number of seconds, or null for no end by time, got {quote(given)}"
        )
    return number

"""What a server takes at most, and how it refuses the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LONGEST_NAME = 200  # characters, of a column


@dataclass(frozen=True)
class Limits:
    """The most that a server takes; whatever is more is refused, and changes nothing.

    body: bytes of a request. rows: of a request. cells: rows times columns of a request. streams: that there are.
    features: columns of a stream. tables: that a stream may have open; those with the least occupancy close. warmup:
    rows from which a stream may learn what is unknown. requests: that wait at the same time. readers: of events and of
    the live feed. seconds: for the body of a request to arrive.
    """

    body: int = 32 * 2**20
    rows: int = 100_000
    cells: int = 10_000_000
    streams: int = 1_000
    features: int = 10_000
    tables: int = 10_000
    warmup: int = 100_000
    requests: int = 1_000
    readers: int = 100
    seconds: float = 30.0


class RequestError(Exception):
    """A request is refused with an HTTP status. row, column: where the fault is, if it is in the rows.

    >>> RequestError(400, "column 'x' must hold numbers, got 'a'", row=3, column="x").content
    {'error': "column 'x' must hold numbers, got 'a'", 'row': 3, 'column': 'x'}
    """

    def __init__(self, status: int, error: str, row: int | None = None, column: str | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.row, self.column = status, error, row, column

    @property
    def content(self) -> dict[str, Any]:
        """What the answer says."""
        where = {"row": self.row, "column": self.column}
        return {"error": self.error} | {name: value for name, value in where.items() if value is not None}

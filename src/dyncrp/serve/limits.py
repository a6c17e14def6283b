"""The limits of a server, and the error for requests that it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LONGEST_NAME = 200  # characters, of a column
LONGEST_TEXT = 2**17  # characters, of a cell: as in CSV; nothing else can be done while a longer one is cut into words


@dataclass(frozen=True)
class Limits:
    """The limits of a server. A request that exceeds one is refused, and changes nothing.

    body: bytes of a request. rows: rows of a request. cells: rows times columns of a request. streams: number of
    streams. features: columns of a stream. tables: open tables of a stream; when one more opens, the one with the least
    occupancy closes. warmup: rows from which a stream learns unknown hyperparameters. requests: requests that wait at
    the same time. readers: readers of events and of live feeds. seconds: time for the body of a request to arrive.
    warmup_seconds: time after which the warm-up of a stream ends, unless its settings say another; None for never.
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
    warmup_seconds: float | None = 30.0


class RequestError(Exception):
    """The request is refused with an HTTP status. row, column: the place of a fault in the rows.

    >>> RequestError(400, "column 'x' must hold numbers, got 'a'", row=3, column="x").content
    {'error': "column 'x' must hold numbers, got 'a'", 'row': 3, 'column': 'x'}
    """

    def __init__(self, status: int, error: str, row: int | None = None, column: str | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.row, self.column = status, error, row, column

    @classmethod
    def at(cls, row: int, error: str, column: str | None = None) -> RequestError:
        """Return the error for a fault in a row."""
        return cls(400, f"{error}, at row {row}", row, column)

    @property
    def content(self) -> dict[str, Any]:
        """The content of the answer."""
        where = {"row": self.row, "column": self.column}
        return {"error": self.error} | {name: value for name, value in where.items() if value is not None}

"""Some rows of a file: as read, and as a model takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column

Place = dict[str, Any]  # where to continue reading: plain values, including "row"


@dataclass(frozen=True)
class Chunk:
    """n rows for a model.

    rows: (n,) their indices in the input. X: (n, D), encoded, with NaN for missing cells; or (n,) texts, as objects.
    times: (n,) numbers or datetime64, if there is a time column. kept: the columns to copy, unchanged. where: returns
    the position of a row in the input, by its index. place: where the next chunk begins. bad: what was wrong with rows
    that were skipped. told: ``labels``, ``cannot_link`` and ``sample_weight`` of the rows, each (n,).
    """

    rows: NDArray[np.int64]
    X: NDArray[Any]
    times: NDArray[Any] | None
    kept: dict[str, Column]
    where: Callable[[int], str]
    place: Place
    bad: list[str] = field(default_factory=list)
    told: dict[str, list[Any]] = field(default_factory=dict)

    def after(self, row: int) -> Chunk:
        """Return the rows from an index on, without the messages about rows before it."""
        return self.select(self.rows >= row, self.bad if not len(self.rows) or self.rows[0] >= row else [])

    def select(self, mask: NDArray[np.bool_], bad: list[str]) -> Chunk:
        """Return the rows that a mask (n,) selects."""
        return replace(
            self,
            rows=self.rows[mask],
            X=self.X[mask],
            times=None if self.times is None else self.times[mask],
            kept={name: cells.select(column, mask) for name, column in self.kept.items()},
            bad=bad,
            told={name: cells.select(column, mask) for name, column in self.told.items()},
        )


class Rows(NamedTuple):
    """n rows as read: features and columns to copy by name, and what is wrong with whole rows, by index."""

    n: int
    features: dict[str, Column]
    times: Column | None
    kept: dict[str, Column]
    where: Callable[[int], str]  # the position of the i-th of these rows
    broken: dict[int, str] = {}  # noqa: RUF012 - never changed
    told: dict[str, Column] = {}  # noqa: RUF012 - constraints, by argument
    indices: NDArray[np.int64] | None = None  # of the rows in the input, None if they follow the rows before

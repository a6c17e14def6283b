"""All rows of an input, sorted by their times."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from dyncrp.io.files import FileError
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column
from dyncrp.io.readers.chunk import Place, Rows
from dyncrp.io.readers.dates import DateFormat
from dyncrp.io.readers.formats import Format
from dyncrp.io.readers.times import Times

UNSORTABLE = "dates without a year cannot be sorted: write their years, or sort the file"


class SortedRows:
    """Rows that are held in memory. Those of equal times keep their order; invalid times come first, to be named.

    whole: all rows as one, in the order of the input. order: (n,) their indices, in the order of their times.
    """

    def __init__(self, whole: Rows, order: NDArray[np.int64]) -> None:
        self.whole, self.order = whole, order

    @classmethod
    def read(
        cls, parts: Iterable[Rows], written: Format | None, error: Callable[[str], FileError] = FileError
    ) -> SortedRows:
        """Return the rows of an input. written: how its times are written, None for plain numbers and ISO 8601."""
        held, keys = list[Rows](), list[NDArray[np.float64] | NDArray[np.int64]]()
        times = Times()
        for rows in parts:
            bad = np.zeros(rows.n, dtype=bool)
            bad[list(rows.broken)] = True
            found, untimely = times.read(rows.times, bad, written)
            ticks = found.astype("M8[us]").view(np.int64) if found.dtype.kind == "M" else found
            bad |= untimely
            if not bad.all():
                times.last = ticks[~bad][-1].item()  # dates without a year follow it
            keys.append(np.where(bad, np.iinfo(np.int64).min if found.dtype.kind == "M" else -np.inf, ticks))
            held.append(rows)
        order = np.argsort(np.concatenate(keys), kind="stable") if keys else np.empty(0, np.int64)
        if _is_yearless(written) and np.any(np.diff(order) < 0):
            raise error(f": {UNSORTABLE}")
        return cls(_join(held), order)

    def rows(self, most: int, place: Place | None, error: Callable[[str], FileError]) -> Iterator[tuple[Rows, Place]]:
        """Yield at most so many rows at a time, from a place on, and the place after them.

        A place has the digest of the indices of the rows before it, so that rows that were added to the input before it
        raise an error.
        """
        begin = 0 if place is None else place["row"]
        digest = hashlib.sha256(self.order[:begin].astype("<i8").tobytes())
        if place is not None and (begin > len(self.order) or place.get("order") != digest.hexdigest()):
            raise error(" is not the same as before: --sort-by-time would put other rows before those that are left")
        for first in range(begin, len(self.order), most):
            indices = self.order[first : first + most]
            digest.update(indices.astype("<i8").tobytes())
            yield self._take(indices), {"order": digest.hexdigest()}

    def _take(self, indices: NDArray[np.int64]) -> Rows:
        whole, at = self.whole, indices.tolist()

        def take(columns: dict[str, Column]) -> dict[str, Column]:
            return {name: cells.take(column, indices) for name, column in columns.items()}

        return Rows(
            len(at),
            take(whole.features),
            cells.take(whole.times, indices),
            take(whole.kept),
            lambda i: whole.where(at[i]),
            {i: whole.broken[index] for i, index in enumerate(at) if index in whole.broken},
            take(whole.told),
            indices,
        )


def name_remedy(written: Format | None) -> str:
    """Return what helps if times run backwards. written: how they are written.

    >>> name_remedy(DateFormat("%b %d %H:%M:%S"))
    'dates without a year cannot be sorted: write their years, or sort the file'
    """
    return UNSORTABLE if _is_yearless(written) else "--sort-by-time sorts the rows"


def _is_yearless(written: Format | None) -> bool:
    return isinstance(written, DateFormat) and written.yearless


def _join(parts: list[Rows]) -> Rows:
    """Return several rows as one."""
    if not parts:
        return Rows(0, {}, [], {}, str)
    starts, places = np.cumsum([0, *(rows.n for rows in parts)]), [rows.where for rows in parts]

    def where(i: int) -> str:
        part = int(np.searchsorted(starts, i, side="right")) - 1
        return places[part](i - int(starts[part]))

    def join(of: Callable[[Rows], dict[str, Column]]) -> dict[str, Column]:
        return {name: cells.join([of(rows)[name] for rows in parts]) for name in of(parts[0])}

    return Rows(
        int(starts[-1]),
        join(lambda rows: rows.features),
        cells.join([rows.times for rows in parts]),
        join(lambda rows: rows.kept),
        where,
        {int(start) + i: fault for start, rows in zip(starts, parts, strict=False) for i, fault in rows.broken.items()},
        join(lambda rows: rows.told),
    )

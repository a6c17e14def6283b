"""Columns that are told beside the features: labels, marks and weights, by the names of the arguments of ``learn``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.input.constraints import as_table
from dyncrp.input.entries import quote
from dyncrp.input.weights import MOST_WEIGHT
from dyncrp.io.readers import cells
from dyncrp.io.readers.cells import Column, MissingCells
from dyncrp.io.readers.formats import PLAIN, NumberFormat

NO_MARK = ("-1", "-1.0")  # stand for no mark, as missing cells do


class Told:
    """Reads such columns. decimal: the decimal mark of weights that are texts.

    >>> Told(MissingCells(()), ".").read("sample_weight", ["2", "0.5", "-1"], bad := np.zeros(3, bool)), bad
    ([2.0, 0.5, 1.0], array([False, False,  True]))
    """

    def __init__(self, is_missing: MissingCells, decimal: str) -> None:
        self._is_missing, self._format = is_missing, NumberFormat(decimal)

    def read(self, name: str, column: Column, bad: NDArray[np.bool_]) -> list[Any]:
        """Return what ``learn`` takes, None if it is unknown; mark invalid rows in ``bad``."""
        plain = self._plain_weights(column) if name == "sample_weight" else None
        found: list[Any] = []
        for i, cell in enumerate(column.tolist() if isinstance(column, np.ndarray) else column):
            if plain is not None and plain[i] >= 0.0:
                found.append(plain[i])
                continue
            try:
                found.append(self._one(name, cell))
            except ValueError:
                found.append(1.0 if name == "sample_weight" else None)
                bad[i] = True
        return found

    def _plain_weights(self, column: Column) -> list[float] | None:
        """Return the weights that are plain numbers, −1 where a cell has to be looked at by itself. None if all do."""
        if self._format != PLAIN or (isinstance(column, np.ndarray) and column.dtype.kind not in "iuf"):
            return None
        numbers = cells.as_numbers(column)
        clear = (numbers >= 0.0) & (numbers <= MOST_WEIGHT) & ~np.isin(numbers, self._is_missing.numbers)
        weights: list[float] = np.where(clear, numbers, -1.0).tolist()
        return weights

    def fault(self, name: str, cell: object) -> str | None:
        """Return what is wrong with a cell, None if nothing is."""
        try:
            self._one(name, cell)
        except ValueError as error:
            return str(error)
        return None

    def _one(self, name: str, cell: object) -> Any:
        if name == "sample_weight":
            return self._weight(cell)
        if name == "labels":
            return None if self._is_missing(cell) else as_table(cell)
        mark = None if self._is_missing(cell) else str(cell).strip()
        return None if mark in NO_MARK else mark

    def _weight(self, cell: object) -> float:
        if self._is_missing(cell):
            raise ValueError("the weight is missing; 0 lets a row teach nothing")
        weight = float(cells.as_numbers(self._format.read([cell]))[0])
        if not 0.0 <= weight <= MOST_WEIGHT:
            raise ValueError(f"{quote(cell)} is not a weight, which is a number from 0 to {MOST_WEIGHT:g}")
        return weight

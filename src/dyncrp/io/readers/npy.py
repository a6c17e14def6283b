""".npy files: one array of numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from dyncrp.io.readers.base import Reader
from dyncrp.io.readers.cells import as_numbers
from dyncrp.io.readers.chunk import Place, Rows
from dyncrp.io.readers.selection import Selection
from dyncrp.io.readers.source import BLOCK

LONGEST_ROW = 1 << 26  # bytes


class NpyReader(Reader):
    """An array (N, D), or (N,) as one column; the columns are called 0, 1, 2, …"""

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        super().__init__(file, name, selection, most_rows)
        try:
            # Version 3 is for names of fields, but an array with fields does not hold rows of numbers.
            old = np.lib.format.read_magic(file) == (1, 0)
            read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
            shape, transposed, dtype = read(file)
        except Exception as error:  # damaged bytes make the parsers of the header raise almost anything
            raise self.error(f" is not a readable .npy file: {error}") from error
        rows = 1 <= len(shape) <= 2 and 0 not in shape[1:] and all(type(n) is int and n >= 0 for n in shape)
        if dtype.kind not in "biuf" or dtype.hasobject or not rows:
            raise self.error(f" must hold rows of numbers, but holds an array of {dtype} with shape {shape}")
        if selection.text is not None:
            raise self.error(" holds numbers, but --text names a column of texts")
        self.n, self.width, self.dtype = shape[0], (shape[1] if len(shape) == 2 else 1), dtype
        self.row_size = self.width * dtype.itemsize
        self._check_row()
        self._resolve([str(at) for at in range(self.width)])
        if not self._remember():
            self._decide([], plain=True)
        self._by_columns: Any = None
        if transposed and self.width > 1:
            if not self.seekable:
                raise self.error(" is stored column by column, which can be read from a file but not from a pipe")
            self._by_columns = self._map()
        self.start = file.tell() if self.seekable else 0

    def _check_row(self) -> None:
        """Raise ``FileError`` if the file is shorter than one row, before the names of columns are made."""
        if self.row_size > LONGEST_ROW:
            raise self.error(f" has {self.width} columns: a row is longer than {LONGEST_ROW >> 20} MiB")
        if self.n and self.seekable and self._bytes_left() < self.row_size:
            raise self._truncation()

    def _bytes_left(self) -> int:
        return os.fstat(self.file.fileno()).st_size - self.file.tell()

    def _map(self) -> Any:
        if self._bytes_left() < self.n * self.row_size:
            raise self._truncation()
        if not self.n:
            return np.empty((0, self.width), self.dtype)
        return np.memmap(self.file, self.dtype, "r", self.file.tell(), (self.n, self.width), "F")

    def _truncation(self) -> Exception:
        return self.error(f" is truncated: its header says {self.n} rows, but it has fewer")

    def _progress(self, place: Place) -> float:
        """Return the share of the rows before a place."""
        return place["row"] / max(self.n, 1)

    def kept_type(self, name: str) -> Any:
        """Return the Arrow type of the array, at most float64."""
        import pyarrow as pa

        return pa.float64() if self.dtype.itemsize > 8 else pa.from_numpy_dtype(self.dtype.newbyteorder("="))

    def _rows(self, place: Place | None) -> Iterator[tuple[Rows, Place]]:
        at = 0 if place is None else place["row"]
        if at > self.n:
            raise self.error(f" is not the same as before: it has {self.n} rows, but {at} were read")
        if self.seekable:
            self.file.seek(self.start + at * self.row_size)
        step = max(1, min(self.most_rows, BLOCK // self.row_size))
        while at < self.n:
            count = min(step, self.n - at)
            if self._by_columns is not None:
                rows = np.array(self._by_columns[at : at + count])
            else:
                content = self.file.read(count * self.row_size)
                if len(content) < count * self.row_size:
                    raise self._truncation()
                rows = np.frombuffer(content, self.dtype).reshape(count, self.width)
            first = at
            features = {name: rows[:, int(name)] for name in self.columns}
            # JSON and Arrow have no numbers longer than float64.
            kept = {name: rows[:, int(name)] for name in self.kept}
            if self.dtype.itemsize > 8:
                kept = {name: as_numbers(column) for name, column in kept.items()}
            times = None if self.selection.time_column is None else kept[self.selection.time_column]
            told = {name: rows[:, int(column)] for name, column in self.selection.told.items()}
            yield Rows(count, features, times, kept, lambda i, first=first: f"row {first + i}", told=told), {}  # type: ignore[misc]
            at += count

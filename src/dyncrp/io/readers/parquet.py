"""Parquet files, read with Arrow."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dyncrp.input.entries import CATEGORY, LEFT_OUT, TIMES, Entry
from dyncrp.io.files import FileError
from dyncrp.io.readers.base import MOST_CELLS_IN_SAMPLE, Reader
from dyncrp.io.readers.chunk import Place, Rows
from dyncrp.io.readers.columns import read_cells
from dyncrp.io.readers.formats import Format, NumberFormat, YesNo
from dyncrp.io.readers.selection import Selection
from dyncrp.io.readers.source import BLOCK

MOST_BYTES_OF_TEXT = 8 * BLOCK  # of a piece


class ParquetReader(Reader):
    """Columns of Parquet. A pipe is copied to a temporary file, since the index is at the end of the file."""

    def __init__(self, file: BinaryIO, name: str, selection: Selection, most_rows: int) -> None:
        super().__init__(file, name, selection, most_rows)
        self.parquet = self._open()
        schema = self.parquet.schema_arrow
        self._resolve(schema.names, self._list_width)
        kinds = {column: _value_type(schema.field(column).type) for column in self._columns_read}
        if not self._remember():
            self._find_kinds(kinds)
        self.types = {column: kinds[column] for column in self._columns_read}
        self._texts = [column for column, kind in self.types.items() if _is_text(kind)]

    def _find_kinds(self, types: dict[str, Any]) -> None:
        """Infer what the columns hold, from their types and their first rows."""
        text = self.selection.text
        if text is not None:
            if not _is_text(types[text]):
                raise self.error(f", column {text!r}: it holds {types[text]}, not texts")
            return
        names = [column for column in self.columns if self.widths[column] is None]
        first = self._first = self._sample(names)
        contents, others = [], {}
        for column in names:
            cells = [cell for cell in first[column] if not self._is_missing(cell)]
            format, other = _format(types[column])
            content = read_cells(column, format, cells)
            refused = other or (content.kind == CATEGORY and CATEGORY not in self.selection.takes)
            if self.selection.columns is not None and refused and column not in self._categorical:
                raise self.error(f", column {column!r}: it holds {types[column]}, not numbers")
            if other:
                others[column] = Entry(column, LEFT_OUT, (), other)
            else:
                contents.append(content)
        for column in self.columns:
            if column not in names and not _is_number(types[column].value_type):
                raise self.error(f", column {column!r}: it holds {types[column]}, not numbers")
        plain = all(isinstance(_format(types[column])[0], NumberFormat) for column in names)
        self._decide(contents, plain=plain, others=others)

    def _sample(self, names: list[str]) -> dict[str, list[Any]]:
        """Return the first cells of each column."""
        if not names:
            return {}
        n = max(1, min(self.selection.n_first, MOST_CELLS_IN_SAMPLE // len(names)))
        try:
            batch = next(self.parquet.iter_batches(n, columns=names, use_threads=False), None)
            return {name: [] if batch is None else batch.column(name).to_pylist() for name in names}
        except Exception as error:  # damaged bytes make the reader raise almost anything
            raise self._read_error(error) from error

    def _open(self, dictionaries: list[str] | None = None) -> Any:
        """Open the file. dictionaries: columns of texts that stay dictionaries, since few texts may be many rows."""
        try:
            from pyarrow import parquet
        except ModuleNotFoundError:
            raise FileError("Parquet needs pyarrow: pip install 'dyncrp[cli]'") from None
        if not self.seekable:
            copy = tempfile.TemporaryFile()  # noqa: SIM115 - the reader closes it
            shutil.copyfileobj(self.file, copy)
            self.file = copy
            self.seekable, self.live = True, False
        try:
            opened = parquet.ParquetFile(self.file, read_dictionary=dictionaries)
            metadata = opened.metadata
            n = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
        except Exception as error:  # damaged bytes make the reader raise almost anything
            raise self._read_error(error) from error
        if n != metadata.num_rows:  # then it is unclear which row a place is at
            raise self.error(f" is damaged: it has {metadata.num_rows} rows, but its row groups have {n}")
        return opened

    def _list_width(self, name: str) -> int | None:
        """Return the length of the lists of a column, from its type or its first row; None if it has no lists."""
        kind = _value_type(self.parquet.schema_arrow.field(name).type)
        if not hasattr(kind, "value_type") or not hasattr(kind, "value_field"):
            return None
        if hasattr(kind, "list_size"):
            return int(kind.list_size)
        try:
            batch = next(self.parquet.iter_batches(1, columns=[name], use_threads=False), None)
            first = None if batch is None else batch.column(0).to_pylist()[0]
        except Exception as error:  # damaged bytes make the reader raise almost anything
            raise self._read_error(error) from error
        return len(first) if first else 1

    def _read_error(self, error: Exception) -> Exception:
        return self.error(f" is not a readable Parquet file: {' '.join(str(error).split())}")

    def _progress(self, place: Place) -> float:
        """Return the share of the rows before a place."""
        return place["row"] / max(self.parquet.metadata.num_rows, 1)

    def kept_type(self, name: str) -> Any:
        """Return the Arrow type of the column."""
        return self.types[name]

    def _rows(self, place: Place | None) -> Iterator[tuple[Rows, Place]]:
        begin = 0 if place is None else place["row"]
        metadata = self.parquet.metadata
        if begin > metadata.num_rows:
            raise self.error(f" is not the same as before: it has {metadata.num_rows} rows, but {begin} were read")
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        group = skipped = 0
        while group < len(sizes) and skipped + sizes[group] <= begin:
            skipped += sizes[group]
            group += 1
        groups = list(range(group, len(sizes)))
        step = max(1, min(self.most_rows, BLOCK // (8 * (len(self.features) + len(self.kept)))))
        file = self._open(self._texts) if self._texts else self.parquet
        batches = self._batches(
            file.iter_batches(step, row_groups=groups, columns=list(self._columns_read), use_threads=False)
        )
        at = skipped
        while groups:
            try:
                batch = next(batches, None)
                if batch is None:
                    return
                if at + batch.num_rows <= begin:
                    at += batch.num_rows
                    continue
                batch = batch.slice(max(begin - at, 0))
                cells = {name: batch.column(name).cast(kind) for name, kind in self.types.items()}
                words = {name for name in self.columns if name == self.selection.text or self._is_category(name)}
                features = {
                    name: cells[name].to_pylist() if name in words else _features(cells[name], width)
                    for name, width in self.widths.items()
                }
                kept = {name: cells[name] for name in self.kept}
                times = None if self.selection.time_column is None else _times(kept[self.selection.time_column])
                told = {name: cells[column].to_pylist() for name, column in self.selection.told.items()}
            except Exception as error:  # damaged bytes make the reader raise almost anything
                raise self._read_error(error) from error
            first = max(at, begin)
            at = first + batch.num_rows
            rows = Rows(batch.num_rows, features, times, kept, lambda i, first=first: f"row {first + i}", told=told)  # type: ignore[misc]
            yield rows, {}

    def _batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Cut batches so that the texts of each take few bytes, if it has more than one row."""
        for batch in batches:
            ends = np.cumsum(sum((_text_sizes(batch.column(name)) for name in self._texts), np.zeros(batch.num_rows)))
            begin = 0
            while begin < batch.num_rows:
                read = ends[begin - 1] if begin else 0
                end = max(begin + 1, int(np.searchsorted(ends, read + MOST_BYTES_OF_TEXT, side="right")))
                yield batch.slice(begin, end - begin)
                begin = end


def _text_sizes(column: Any) -> NDArray[np.float64]:
    """Return how many bytes each text takes once it is spelled out, (n,)."""
    from pyarrow import compute

    if hasattr(column.type, "index_type"):
        sizes = compute.take(compute.binary_length(column.dictionary), column.indices)
    else:
        sizes = compute.binary_length(column)
    found: NDArray[np.float64] = compute.fill_null(sizes, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _value_type(kind: Any) -> Any:
    """Return the type of a column without its dictionary, if it has one, since each batch may have another."""
    return kind.value_type if hasattr(kind, "index_type") else kind


def _is_number(kind: Any) -> bool:
    """Return whether a type is one of numbers."""
    from pyarrow import types

    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean))


def _is_text(kind: Any) -> bool:
    """Return whether a type is one of texts."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _format(kind: Any) -> tuple[Format | None, str]:
    """Return the format of a type, None for text; and why a column of this type is left out, if it is."""
    from pyarrow import types

    if types.is_boolean(kind):
        return YesNo("true", "false"), ""
    if _is_number(kind):
        return NumberFormat(), ""
    if types.is_timestamp(kind) or types.is_date(kind):
        return None, TIMES
    return None, "" if _is_text(kind) else f"it holds {kind}"


def _features(column: Any, width: int | None) -> Any:
    """Return numbers as float64 (n,), lists of equal length as (n, width), and other lists unchanged."""
    if width is None:
        return _numbers(column)
    if column.null_count or not all(length == width for length in column.value_lengths().to_pylist()):
        return column.to_pylist()
    return _numbers(column.flatten()).reshape(len(column), width)


def _numbers(column: Any) -> Any:
    """Return numbers as float64, with NaN for missing cells."""
    return column.cast("double", safe=False).to_numpy(zero_copy_only=False)


def _times(column: Any) -> Any:
    """Return dates as datetime64, numbers as float64, and anything else unchanged."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_timestamp(kind) or types.is_date(kind):
        unit = kind.unit if types.is_timestamp(kind) else "ms"
        return column.cast(pa.timestamp(unit)).to_numpy(zero_copy_only=False)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _numbers(column)
    return column.to_pylist()

"""Labelled rows as CSV and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from dyncrp.io.readers.cells import Column
from dyncrp.io.writers.base import Writer, plain_values

QUOTED = frozenset(',"\r\n')  # characters for which a cell of CSV needs quotes


class CsvWriter(Writer):
    """CSV with a header."""

    def _head(self) -> bytes:
        return _to_bytes(",".join(map(_format_cell, self.names)) + "\n")

    def _encode(self, columns: list[Column]) -> bytes:
        return _format_rows(",".join(["%s"] * len(columns)) + "\n", columns, _format_cell)


class JsonLinesWriter(Writer):
    """An object on each line."""

    def _head(self) -> bytes:
        return b""

    def _encode(self, columns: list[Column]) -> bytes:
        entries = ", ".join(json.dumps(name).replace("%", "%%") + ": %s" for name in self.names)
        return _format_rows("{" + entries + "}\n", columns, _format_json)


def _format_rows(template: str, columns: list[Column], format: Callable[[Any], str]) -> bytes:
    """Return a line for each row. Finite numbers are formatted by ``repr``, other values by ``format``."""
    texts = [map(repr if _is_numeric(column) else format, plain_values(column)) for column in columns]
    return _to_bytes("".join([template % values for values in zip(*texts, strict=True)]))


def _is_numeric(column: Column) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "iuf" and bool(np.all(np.isfinite(column)))


def _format_json(value: Any) -> str:
    """Return a value as JSON, with null for NaN and inf."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value))


def _finite(value: Any) -> Any:
    """Return a value with None in place of NaN and inf."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list) else value


def _format_cell(value: Any) -> str:
    """Return a value as a cell of CSV, in quotes if it needs them."""
    if not isinstance(value, str):
        value = "" if value is None else json.dumps(value)
    if not QUOTED.isdisjoint(value):
        return '"' + value.replace('"', '""') + '"'
    return value


def _to_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # restores bytes that were not valid UTF-8
    except UnicodeEncodeError:  # a lone surrogate, which JSON allows
        return text.encode("utf-8", "replace")

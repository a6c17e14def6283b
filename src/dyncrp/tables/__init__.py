"""Tables that may be larger than memory: read a chunk at a time, and labelled rows written as they come.

One file for each kind of input, ``output.py`` for what is written. An error names the file, the line and the column.
"""

from __future__ import annotations

import sys

from dyncrp.tables.base import NUMBERS, Chunk, Place, Selection, Table, TableError
from dyncrp.tables.csv import CsvTable
from dyncrp.tables.jsonl import JsonLinesTable
from dyncrp.tables.npy import NpyTable
from dyncrp.tables.output import OUTPUTS, Output
from dyncrp.tables.parquet import ParquetTable

TABLES: dict[str, type[Table]] = {
    "csv": CsvTable,
    "jsonl": JsonLinesTable,
    "parquet": ParquetTable,
    "npy": NpyTable,
}
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
}

__all__ = [
    "NUMBERS",
    "OUTPUTS",
    "SUFFIXES",
    "TABLES",
    "Chunk",
    "Output",
    "Place",
    "Selection",
    "Table",
    "TableError",
    "open_table",
]


def open_table(path: str, format: str, selection: Selection, most_rows: int) -> Table:
    """Open a file, or standard input if the path is "-", in one of the formats in ``TABLES``.

    most_rows: how many rows a chunk may have.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rooms.csv")
    ...     _ = path.write_text("t,x,y\\n1,0.5,2\\n2,0.25,4\\n")
    ...     with open_table(str(path), "csv", Selection(time_column="t"), 100) as table:
    ...         table.columns, next(table.chunks()).X.tolist()
    (('x', 'y'), [[0.5, 2.0], [0.25, 4.0]])
    """
    if path == "-":
        if sys.stdin is None:
            raise TableError("standard input is closed")
        return TABLES[format](sys.stdin.buffer, "standard input", selection, most_rows)
    file = open(path, "rb")  # noqa: SIM115 - the table closes it
    try:
        return TABLES[format](file, path, selection, most_rows)
    except BaseException:
        file.close()
        raise

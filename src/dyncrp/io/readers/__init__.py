"""Readers of files that may be larger than memory, a chunk at a time; one module for each format.

Errors name the file, the line and the column.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dyncrp.io.files import FileError
from dyncrp.io.readers.base import Reader
from dyncrp.io.readers.chunk import Chunk, Place
from dyncrp.io.readers.columns import OnlyTextError
from dyncrp.io.readers.csv import CsvReader
from dyncrp.io.readers.dates import is_pattern
from dyncrp.io.readers.jsonl import JsonLinesReader
from dyncrp.io.readers.lines import LinesReader
from dyncrp.io.readers.npy import NpyReader
from dyncrp.io.readers.parquet import ParquetReader
from dyncrp.io.readers.quotes import WHITESPACE
from dyncrp.io.readers.selection import Selection
from dyncrp.io.readers.source import COMPRESSIONS, SPREADSHEET, Source, find_compression, find_member

READERS: dict[str, type[Reader]] = {"csv": CsvReader, "jsonl": JsonLinesReader, "json": JsonLinesReader}
READERS |= {"parquet": ParquetReader, "npy": NpyReader}
SUFFIXES = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"}
SUFFIXES |= {".parquet": "parquet", ".pq": "parquet", ".npy": "npy"}
REFUSED = dict.fromkeys((".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers"), SPREADSHEET)
REFUSED |= dict.fromkeys(
    (".feather", ".arrow"), "is not read: save it as Parquet, with pandas.read_feather(path).to_parquet('rows.parquet')"
)
STARTS = {b"PAR1": "parquet", b"\x93NUMPY": "npy"}
JSON_START = re.compile(rb"(\xef\xbb\xbf)?\s*(\[\s*[\[{]|\{\s*[\"}])")

__all__ = [
    "READERS",
    "SUFFIXES",
    "WHITESPACE",
    "Chunk",
    "OnlyTextError",
    "Place",
    "Reader",
    "Selection",
    "find_format",
    "find_suffix",
    "is_pattern",
    "open_reader",
]


def find_suffix(path: str) -> str:
    """Return the suffix of a path in lower case, without the suffix of a compression.

    >>> find_suffix("Rooms.CSV.gz"), find_suffix("rooms")
    ('.csv', '')
    """
    name = Path(path.lower())
    return (name.with_suffix("") if name.suffix in COMPRESSIONS else name).suffix


def find_format(path: str) -> str | None:
    """Return the format of a file, by its suffix or else by how it begins; None if it is not known.

    Raises ``FileError`` for a format that is known and not read. A text that is not JSON is CSV.
    """
    suffix = find_suffix(path)
    if suffix in REFUSED:
        raise FileError(f"{path} {REFUSED[suffix]}")
    if suffix in SUFFIXES and suffix != ".txt":
        return SUFFIXES[suffix]
    if not Path(path).is_file():
        return SUFFIXES.get(suffix)
    with open(path, "rb") as file:
        head = file.peek(16)
        if head.startswith((b"PK\x03\x04", b"PK\x05\x06")) and not suffix:
            inside = find_suffix(find_member(file, path)[1])
            if inside in SUFFIXES:
                return SUFFIXES[inside]
            file.seek(0)
        found = next((format for start, format in STARTS.items() if head.startswith(start)), None)
        if found is not None:
            return found
        content = Source(file, path).read()
    if not content or b"\0" in content:
        return SUFFIXES.get(suffix)
    return "json" if JSON_START.match(content) else "csv"


def open_reader(path: str, format: str, selection: Selection, most_rows: int) -> Reader:
    """Open a file, or standard input if the path is "-", in one of the formats in ``READERS``.

    most_rows: how many rows a chunk may have.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rooms.csv")
    ...     _ = path.write_text("t,x,y\\n1,0.5,2\\n2,0.25,4\\n")
    ...     with open_reader(str(path), "csv", Selection(time_column="t"), 100) as reader:
    ...         reader.columns, next(reader.chunks()).X.tolist()
    (('x', 'y'), [[0.5, 2.0], [0.25, 4.0]])
    """
    if path == "-":
        if sys.stdin is None:
            raise FileError("standard input is closed")
        return READERS[format](sys.stdin.buffer, "standard input", selection, most_rows)
    file = open(path, "rb")  # noqa: SIM115 - the reader closes it
    try:
        if not issubclass(READERS[format], LinesReader) and find_compression(file.peek(16)):
            raise FileError(f"{path} is compressed, which only CSV and JSON may be: decompress it first")
        return READERS[format](file, path, selection, most_rows)
    except BaseException:
        file.close()
        raise

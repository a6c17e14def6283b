"""Writers of labelled rows, one file for each kind of format: rows are written as they come."""

from dyncrp.io.writers.base import Writer
from dyncrp.io.writers.parquet import ParquetWriter
from dyncrp.io.writers.text import CsvWriter, JsonLinesWriter

WRITERS: dict[str, type[Writer]] = {"csv": CsvWriter, "jsonl": JsonLinesWriter, "parquet": ParquetWriter}

__all__ = ["WRITERS", "Writer"]

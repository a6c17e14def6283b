"""What tests of readers share: rows in every format, and a way to read them."""

import json

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dyncrp.io.readers import Selection, open_reader

ROWS = [["2024-01-01T00:00:00", 'a "b", c', 1.5, -2.0], ["2024-01-01T00:00:07", "x\ny", 1e-300, 3.0]]
ROWS += [[f"2024-01-01T00:01:{i:02}", f"n{i}", i / 7, 1e300 * i] for i in range(30)]
NAMES = ["when", "name", "x", "y"]


def write_rows(folder, format):
    """Write the rows in a format and return the path."""
    path = folder / f"rows.{format}"
    if format == "csv":
        quoted = [[t, '"' + name.replace('"', '""') + '"', repr(x), repr(y)] for t, name, x, y in ROWS]
        path.write_text("\n".join(",".join(row) for row in [NAMES, *quoted]), newline="")
    elif format == "jsonl":
        path.write_text("\n\n".join(json.dumps(dict(zip(NAMES, row, strict=True))) for row in ROWS) + "\n")
    elif format == "json":
        path.write_text(json.dumps([dict(zip(NAMES, row, strict=True)) for row in ROWS], indent=1))
    elif format == "parquet":
        columns = dict(zip(NAMES, zip(*ROWS, strict=True), strict=True))
        columns["when"] = np.array(columns["when"], dtype="M8[us]")
        parquet.write_table(pa.table(columns), path, row_group_size=10)
    else:
        seconds = [(np.datetime64(row[0]) - np.datetime64("2024-01-01")).astype(float) for row in ROWS]
        np.save(path, np.array([[t, x, y] for t, (_, _, x, y) in zip(seconds, ROWS, strict=True)]))
    return path


def selection(format, **changes):
    """Return what is to be read of such a file."""
    if format == "npy":
        return Selection(columns=("1", "2"), time_column="0", keep=("1",), **changes)
    return Selection(columns=("x", "y"), time_column="when", keep=("name",), **changes)


def read(path, format="csv", most_rows=100, **changes):
    """Return the chunks of a file, for a selection that differs from the default by so much."""
    with open_reader(str(path), format, Selection(**changes), most_rows) as reader:
        return list(reader.chunks())

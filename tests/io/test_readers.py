"""Rows come out the same in every format and in chunks of every size; what is wrong with an input is named."""

import bz2
import csv
import gzip
import io
import json
import os
import random
import re
import signal
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dyncrp.input.entries import KINDS as KINDS_OF_COLUMNS
from dyncrp.io.files import FileError
from dyncrp.io.readers import READERS, Selection, jsonl, lines, open_reader, source
from dyncrp.io.readers import csv as csv_reader
from dyncrp.io.readers.csv import CsvReader
from reading import ROWS, read, selection, write_rows


@pytest.mark.parametrize("format", READERS)
@pytest.mark.parametrize("most_rows", [1, 7, 1000])
def test_every_format_gives_the_same_rows(tmp_path, format, most_rows):
    with open_reader(str(write_rows(tmp_path, format)), format, selection(format), most_rows) as reader:
        chunks = list(reader.chunks())
        X = np.concatenate([chunk.X for chunk in chunks])
        np.testing.assert_array_equal(X, [row[2:] for row in ROWS])
        np.testing.assert_array_equal(np.concatenate([chunk.rows for chunk in chunks]), range(len(ROWS)))
        times = np.concatenate([chunk.times for chunk in chunks])
        wanted = np.array([row[0] for row in ROWS], dtype="M8[us]")
        if format == "npy":
            np.testing.assert_array_equal(times, (wanted - np.datetime64("2024-01-01")) / np.timedelta64(1, "s"))
        else:
            np.testing.assert_array_equal(times, wanted)
            names = [cell for chunk in chunks for cell in list(chunk.kept["name"])]
            assert [getattr(name, "as_py", lambda name=name: name)() for name in names] == [row[1] for row in ROWS]
        assert reader.progress(chunks[-1].place) == 1.0
        assert max(len(chunk.rows) for chunk in chunks) <= most_rows + 1
        # and from the place after any chunk, the rest
        assert reader.seekable == (format != "json")
        for at in (0, len(chunks) // 2, len(chunks) - 1) if reader.seekable else ():
            rest = list(reader.chunks(dict(chunks[at].place)))
            np.testing.assert_array_equal(
                np.concatenate([np.empty((0, 2)), *(chunk.X for chunk in rest)]), X[chunks[at].place["row"] :]
            )


def test_arrow_and_python_read_csv_alike(tmp_path, monkeypatch):
    path = str(write_rows(tmp_path, "csv"))
    with open_reader(path, "csv", selection("csv"), 9) as reader:
        fast = list(reader.chunks())
    monkeypatch.setattr(CsvReader, "_arrow", lambda self, width: None)
    with open_reader(path, "csv", selection("csv"), 9) as reader:
        slow = list(reader.chunks())
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        assert (one.kept, one.place) == (other.kept, other.place)
        assert [one.where(i) for i in one.rows] == [other.where(i) for i in other.rows]


def test_a_pipe_is_read_as_a_file_is(tmp_path, monkeypatch):
    for format in READERS:
        content = write_rows(tmp_path, format).read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        with open_reader("-", format, selection(format), 9) as reader:
            X = np.concatenate([chunk.X for chunk in reader.chunks()])
        np.testing.assert_array_equal(X, [row[2:] for row in ROWS])


BAD = [
    ("csv", "x,y\n1,2\n\n3,*\n", {}, "line 4, column 'y': '*' is not a number"),
    ("csv", "x,y\n1,2\n3,abc\n", {}, "line 3, column 'y': 'abc' is not a number"),
    ("csv", "x,y\n1,2\n3,inf\n", {}, "line 3, column 'y': 'inf' is not a finite number"),
    ("csv", "x,y\n1,2\n3,1e999\n", {}, "line 3, column 'y': '1e999' is not a finite number"),
    ("csv", "x,y\n1,2\n3,1_0\n", {}, "line 3, column 'y': '1_0' is not a number"),
    ("csv", 'x,y\n"1\n",2\n3,*\n', {}, "line 4, column 'y': '*' is not a number"),
    ("csv", "x,y\n1,2\n3\n", {}, "line 3: the row has 1 cell, but the first line has 2"),
    ("csv", "x,y\n1,2\n3,4,5\n", {}, "line 3: the row has 3 cells, but the first line has 2"),
    ("csv", 'x,y\n1,2\n3,"4\n', {}, "line 3: unexpected end of data"),
    ("csv", 'x,y\n1,2\n3,"4"5\n', {}, "line 3, column 'y': '\"4\"5' is not a number; --missing"),
    ("csv", "x,y\n1,2\r3,4\n", {}, "line 2: a carriage return without a line feed; lines must end in a line feed"),
    ("csv", "1,2\n3,4\n", {}, "line 1: the header has only numbers; use --no-header"),
    ("csv", "", {}, " is empty"),
    ("csv", "\n\n", {}, " is empty"),
    ("csv", "x,y\n", {"columns": ("z",)}, " has no column 'z'; it has 'x', 'y'"),
    ("csv", "x,x\n", {"columns": ("x",)}, " has 2 columns called 'x'"),
    ("csv", "t\n1\n", {"time_column": "t"}, " has no columns to cluster"),
    (
        "csv",
        "t,x\n1,2\n3,4\n2,5\n",
        {"time_column": "t"},
        "line 4, column 't': times must not run backwards: 2.0 is earlier than 3.0, the time before it",
    ),
    (
        "csv",
        "t,x\n1,2\nsoon,4\n",
        {"time_column": "t"},
        "line 3, column 't': 'soon' is not a time; the times are numbers",
    ),
    (
        "csv",
        "t,x\n2024-01-01,2\n7,4\n",
        {"time_column": "t"},
        "'7' is not a time; the times are dates without a time zone",
    ),
    (
        "csv",
        "t,x\n2024-01-01T00:00Z,2\n2024-01-02,4\n",
        {"time_column": "t"},
        "line 3, column 't': '2024-01-02' is not a time; the times are dates with a time zone",
    ),
    (
        "csv",
        "t,x\n2024-01-01T00:00+01:00,2\n2024-01-01T00:00+02:00,4\n",
        {"time_column": "t"},
        "2023-12-31T22:00:00.000000 is earlier than 2023-12-31T23:00:00.000000",
    ),
    (
        "csv",
        "t,x\n0001-01-01T00:00:00+05:00,2\n",
        {"time_column": "t"},
        "line 2, column 't': '0001-01-01T00:00:00+05:00' is not a time",
    ),
    ("jsonl", '{"x": 1}\n{"x": "two"}\n', {}, "line 2, column 'x': 'two' is not a number"),
    ("jsonl", '{"x": 1}\n{"x": true}\n', {}, "line 2, column 'x': True is not a number"),
    ("jsonl", '{"x": 1}\n\n{"x": Infinity}\n', {}, "line 3, column 'x': inf is not a finite number"),
    ("jsonl", '{"x": 1}\n{"x": 1' + "0" * 400 + "}\n", {}, "line 2, column 'x': 1000"),
    ("jsonl", '{"x": 1}\n{"x": \n', {}, "line 2: not JSON: Expecting value"),
    ("jsonl", '{"x": 1}\n[1]\n', {}, 'line 2: a row must be an object, such as {"x": 1.5}'),
    ("jsonl", "[" * 100_000 + "\n", {}, "row 0: not JSON: maximum recursion depth"),
    ("jsonl", "\n", {}, " is empty"),
]


@pytest.mark.parametrize(("format", "content", "changes", "message"), BAD, ids=range(len(BAD)))
def test_what_is_wrong_is_named(tmp_path, format, content, changes, message):
    path = tmp_path / "bad"
    path.write_text(content, newline="")
    with pytest.raises(FileError) as error:
        read(path, format, **changes)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_time_runs_on_from_chunk_to_chunk(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("t,x\n1,2\n3,4\n2,5\n")
    with pytest.raises(FileError, match=r"line 4, column 't': times must not run backwards: 2\.0 is earlier than 3\.0"):
        read(path, most_rows=1, time_column="t")


def test_bad_rows_are_left_out_and_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("t,x\n1,1\n2,*\n3,3,3\nlate,4\n5,5\n")
    (chunk,) = read(path, skip_bad=True, time_column="t", keep=None)
    assert chunk.rows.tolist() == [0, 4]
    assert chunk.X.tolist() == [[1.0], [5.0]]
    assert chunk.times.tolist() == [1.0, 5.0]
    assert chunk.kept == {"t": ["1", "5"], "x": ["1", "5"]}
    assert [fault.partition(":")[0] for fault in chunk.bad] == ["line 3, column 'x'", "line 4", "line 5, column 't'"]


def test_no_header_a_mark_and_a_tab(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\xef\xbb\xbf1\t2\r\n3\t4")
    chunks = read(path, header=False, delimiter="\t", columns=("1", "0"))
    assert [row for chunk in chunks for row in chunk.X.tolist()] == [[2.0, 1.0], [4.0, 3.0]]
    path.write_bytes(b"\xef\xbb\xbfx\n1")
    assert read(path, columns=("x",))[0].X.tolist() == [[1.0]]


@pytest.mark.parametrize("fast", [True, False])
def test_a_long_cell_is_read(tmp_path, monkeypatch, fast):
    csv.field_size_limit(131_072)  # Python's own, as of a fresh process
    if not fast:
        monkeypatch.setattr("dyncrp.io.readers.csv.MOST_COLUMNS_FOR_ARROW", 0)
    path = tmp_path / "long.csv"
    path.write_text("x,note\n1," + "a" * 200_000 + "\n")
    (chunk,) = read(path, columns=("x",), keep=("note",))
    assert len(chunk.kept["note"][0]) == 200_000


TEXT = {"csv": "größe,x\n1,2\n3,4\n", "jsonl": '{"größe": 1, "x": 2}\n{"größe": 3, "x": 4}\n'}


@pytest.mark.parametrize("format", TEXT)
@pytest.mark.parametrize("most_rows", [1, 100])
@pytest.mark.parametrize(
    ("coding", "mark", "encoding"),
    [
        ("utf-8", "", None),
        ("utf-8", "\ufeff", None),
        ("utf-8", "\ufeff", "utf-8"),
        ("utf-16-le", "\ufeff", None),
        ("utf-16-be", "\ufeff", None),
        ("utf-16-be", "\ufeff", "utf-16"),
        ("utf-16-le", "", "utf-16-le"),
        ("latin-1", "", "latin-1"),
        ("cp1252", "", "cp1252"),
    ],
)
def test_text_in_any_encoding(tmp_path, monkeypatch, format, most_rows, coding, mark, encoding):
    path = tmp_path / "rows"
    path.write_text(mark + TEXT[format], encoding=coding)
    for block in (3, 1 << 20):  # characters of several bytes fall apart
        monkeypatch.setattr("dyncrp.io.readers.source.BLOCK", block)
        with open_reader(str(path), format, Selection(encoding=encoding), most_rows) as reader:
            assert reader.columns == ("größe", "x")
            assert np.concatenate([chunk.X for chunk in reader.chunks()]).tolist() == [[1, 2], [3, 4]]


def test_half_of_a_mark(tmp_path, monkeypatch):
    content = io.BufferedReader(io.BytesIO("\ufeffx\n1\n".encode("utf-16-le")), buffer_size=1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    with open_reader("-", "csv", Selection(), 9) as reader:
        assert next(reader.chunks()).X.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (b"x,n\n1,a\n2,b\n3,\xe9\n", "utf-8", "line 4: the bytes e9 are not a character of utf-8; --encoding names"),
        (b"x,n\n1,\x81\n", "cp1252", "line 2: the bytes 81 are not a character of cp1252; --encoding names"),
        (
            "x,n\n1,a\n".encode("utf-16") + b"\x00\xd8\x20\x00",
            None,
            "line 3: the bytes 00 d8 are not a character of utf-16",
        ),
        ("x,n\n1,a\n".encode("utf-16")[:-1], None, "line 2: the bytes 0a are not a character of utf-16"),
        (b"x,n\n1,a\n", "utf-16", "line 1: "),
    ],
)
def test_bytes_that_do_not_decode_are_named(tmp_path, monkeypatch, content, encoding, message):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    for block in (3, 1 << 20):
        monkeypatch.setattr("dyncrp.io.readers.source.BLOCK", block)
        with pytest.raises(FileError, match=re.escape(f"{path}, {message}")) as error:
            read(path, columns=("x",), encoding=encoding)
        assert "--encoding" in str(error.value)


def test_without_an_encoding_other_bytes_are_copied_and_hinted_at(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("größe,n\n1,é\n".encode("latin-1"))
    (chunk,) = read(path, columns=(b"gr\xf6\xdfe".decode("utf-8", "surrogateescape"),), keep=("n",))
    assert chunk.kept["n"][0].encode("utf-8", "surrogateescape") == b"\xe9"
    for options in ({"columns": ("größe",)}, {"columns": ("n",), "takes": ("number",)}):
        with pytest.raises(FileError, match="it is not in UTF-8: --encoding names the encoding, such as latin-1"):
            read(path, **options)


def test_a_line_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dyncrp.io.readers.lines.LONGEST_LINE", 1 << 21)
    path = tmp_path / "long.csv"
    path.write_text("x\n" + "1" * (1 << 22))
    with pytest.raises(FileError, match="line 2: a line, or a cell in quotes, is longer than 2 MiB"):
        read(path)
    path.write_text('x\n"' + "1\n" * (1 << 21))
    with pytest.raises(FileError, match="line 2: a line, or a cell in quotes, is longer"):
        read(path)


@pytest.mark.slow
def test_20_000_columns(tmp_path):
    path = tmp_path / "wide.csv"
    rows = np.arange(60_000.0).reshape(3, -1)
    with path.open("w") as file:
        file.write(",".join(f"c{i}" for i in range(20_000)) + "\n")
        np.savetxt(file, rows, delimiter=",", fmt="%g")
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in read(path)]), rows)


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i2", "u8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_any_kind(tmp_path, dtype, order):
    rows = np.arange(12).reshape(4, 3).astype(dtype, order=order)
    np.save(tmp_path / "rows.npy", rows)
    np.testing.assert_array_equal(
        np.concatenate([chunk.X for chunk in read(tmp_path / "rows.npy", "npy", 3)]), rows.astype(float)
    )


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(["a"]), "must hold rows of numbers"),
        (np.zeros((2, 2, 2)), "must hold rows of numbers"),
        (np.zeros((2, 0)), "must hold rows of numbers"),
        (np.array([[1.0], [np.inf]]), "row 1, column '0': inf is not a finite number"),
        (np.zeros(1, dtype=[("a", "f8")]), "must hold rows of numbers"),
        (np.array([object()]), "must hold rows of numbers"),
    ],
    ids=range(6),
)
def test_npy_without_rows_of_numbers(tmp_path, array, message):
    np.save(tmp_path / "rows.npy", array, allow_pickle=True)
    with pytest.raises(FileError, match=message):
        read(tmp_path / "rows.npy", "npy")


def npy(head, body=b""):
    """Return an .npy file whose header says this."""
    text = head.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


@pytest.mark.parametrize("order", ["False", "True"])
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(3, 1000000000)", "a row is longer than 64 MiB"),  # a name for each column would fill the memory
        ("(3, 1000000)", "truncated: its header says 3 rows"),
        ("(-1, 2)", "must hold rows of numbers"),
        ("(True, 2)", "must hold rows of numbers"),
        ("(4611686018427387904, 4)", "truncated: its header says 4611686018427387904 rows"),
    ],
)
def test_npy_that_promises_what_it_cannot_hold(tmp_path, shape, order, message):
    head = f"{{'descr': '<f8', 'fortran_order': {order}, 'shape': {shape}, }}"
    (tmp_path / "rows.npy").write_bytes(npy(head, bytes(64)))
    with pytest.raises(FileError, match=message):
        read(tmp_path / "rows.npy", "npy", 30)


@pytest.mark.parametrize(("one", "nan"), [(np.float16(1.0), 0x7C01), (np.float64(1.0), 0x7FF0_0000_0000_0001)])
def test_npy_with_a_nan_that_signals(tmp_path, one, nan):
    rows = np.array([[one], [one]])
    rows.view(f"u{rows.itemsize}")[0] = nan
    np.save(tmp_path / "rows.npy", rows)
    (chunk,) = read(tmp_path / "rows.npy", "npy")
    np.testing.assert_array_equal(chunk.X + 1.0, [[np.nan], [2.0]])


@pytest.mark.parametrize("rest", ["0\n", "\n"])
def test_lines_that_are_no_rows_are_not_all_read_before_the_first(tmp_path, rest):
    (tmp_path / "rows.jsonl").write_text('{"x": 1.5}\n' + rest * 5_000_000)
    with open_reader(str(tmp_path / "rows.jsonl"), "jsonl", Selection(), 1000) as reader:
        held = sum(len(piece.content) for piece in reader._held)
        assert held < 100_000
        assert rest == "\n" or reader.file.tell() < 3_000_000


def test_json_lines_of_spaces_beyond_ascii_are_empty(tmp_path):
    (tmp_path / "rows.jsonl").write_text("\x85\n\u2003\n")
    with pytest.raises(FileError, match="is empty"):
        read(tmp_path / "rows.jsonl", "jsonl")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_beyond_all_dates_is_named(tmp_path, unit):
    (tmp_path / "rows.jsonl").write_text('{"t": 1700000000, "x": 1}\n{"t": 1e305, "x": 1}\n')
    with pytest.raises(FileError, match=r"line 2, column 't': 1e\+305 is not a time"):
        read(tmp_path / "rows.jsonl", "jsonl", time_column="t", time_format=unit)


def test_a_list_in_which_a_number_stands_for_missing_is_named(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"e": [1.5, 2.5]}\n{"e": [1.5, -999]}\n')
    with pytest.raises(FileError, match="line 2, column 'e': the cell is empty"):
        read(tmp_path / "rows.jsonl", "jsonl", missing=("-999",))


def test_numbers_too_large_to_have_a_skewness_are_read_without_a_warning(tmp_path):
    rows = [f"{10.0 ** (i % 7)}\n" for i in range(30)]
    (tmp_path / "rows.csv").write_text("x\n" + "".join([*rows, "1e300\n"]))
    assert sum(len(chunk.rows) for chunk in read(tmp_path / "rows.csv")) == 31


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_that_is_truncated(tmp_path, order):
    np.save(tmp_path / "rows.npy", np.zeros((100, 3), order=order))
    content = (tmp_path / "rows.npy").read_bytes()
    (tmp_path / "rows.npy").write_bytes(content[:-4])
    with pytest.raises(FileError, match="truncated: its header says 100 rows"):
        read(tmp_path / "rows.npy", "npy", 30)


def test_parquet_columns_that_hold_no_features(tmp_path):
    parquet.write_table(pa.table({"x": ["a"], "t": np.array(["2024-01-01"], dtype="M8[ms]")}), tmp_path / "a.parquet")
    for name, kind, takes in (("x", "string", ("number",)), ("t", "timestamp", KINDS_OF_COLUMNS)):
        with pytest.raises(FileError, match=f"column '{name}': it holds {kind}.*, not numbers"):
            read(tmp_path / "a.parquet", "parquet", columns=(name,), takes=takes)
    with pytest.raises(FileError, match=r"has no columns to cluster: left out: x \(category\), t \(times\)$"):
        read(tmp_path / "a.parquet", "parquet", takes=("number",))
    assert read(tmp_path / "a.parquet", "parquet")[0].X.tolist() == [[0.0]]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_text_that_many_rows_of_parquet_share_is_spelled_out_a_few_rows_at_a_time(kind, tmp_path):
    """A file of 2 kB may have texts of 20 GB: all of a piece at once would be 6.5 GB."""
    texts = pa.DictionaryArray.from_arrays([0, None, 1] * 200, pa.array(["x" * 200_000, "y"], kind))
    parquet.write_table(pa.table({"x": np.arange(600.0), "s": texts}), tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 20_000
    with open_reader(str(tmp_path / "a.parquet"), "parquet", Selection(columns=("x",), keep=("s",)), 1000) as reader:
        chunks = list(reader.chunks())
    assert max(len(chunk.rows) for chunk in chunks) <= 126  # 42 long texts are 8 MB
    assert np.concatenate([chunk.X for chunk in chunks]).ravel().tolist() == list(range(600))
    kept = [text for chunk in chunks for text in chunk.kept["s"].to_pylist()]
    assert kept == ["x" * 200_000, None, "y"] * 200


def test_parquet_with_nothing_in_a_cell(tmp_path):
    parquet.write_table(pa.table({"x": [1, 2, None], "w": [None, "a", "b"]}), tmp_path / "a.parquet")
    (chunk,) = read(tmp_path / "a.parquet", "parquet")
    np.testing.assert_array_equal(chunk.X, [[1.0, np.nan], [2.0, 0.0], [np.nan, 1.0]])


VECTORS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.5], [0.0, -1.0, 1e-300]]


def write_lists(path, format, vectors, kind=None):
    if format == "jsonl":
        path.write_text("".join(json.dumps({"e": e, "x": i}) + "\n" for i, e in enumerate(vectors)))
    else:
        column = pa.array(vectors, kind or pa.list_(pa.float64()))
        parquet.write_table(pa.table({"e": column, "x": np.arange(len(vectors))}), path, row_group_size=3)


@pytest.mark.parametrize("most_rows", [1, 2, 100])
@pytest.mark.parametrize(
    ("format", "kind"),
    [
        ("jsonl", None),
        ("parquet", pa.list_(pa.float64())),
        ("parquet", pa.large_list(pa.float64())),
        ("parquet", pa.list_(pa.float64(), 3)),
    ],
)
def test_a_column_of_lists_is_several_features(tmp_path, format, kind, most_rows):
    path = tmp_path / "rows"
    write_lists(path, format, VECTORS, kind)
    with open_reader(str(path), format, Selection(columns=("x", "e")), most_rows) as reader:
        X = np.concatenate([chunk.X for chunk in reader.chunks()])
        assert reader.features == ("x", "e[0]", "e[1]", "e[2]")
    np.testing.assert_array_equal(X, np.column_stack([range(4), VECTORS]))


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([1.0], "[1.0] is not a list of 3 numbers, as in the first row"),
        (None, "None is not a list of 3 numbers, as in the first row"),
        ([1.0, float("nan"), 2.0], "nan is not a finite number"),
        ([1.0, float("inf"), 2.0], "inf is not a finite number"),
    ],
)
def test_a_list_that_is_not_like_the_first_is_named(tmp_path, format, bad, message):
    path = tmp_path / "rows"
    write_lists(path, format, [*VECTORS, bad, VECTORS[0]])
    where = "line 5" if format == "jsonl" else "row 4"
    with (
        open_reader(str(path), format, Selection(columns=("e",)), 100) as reader,
        pytest.raises(FileError, match=re.escape(f"{where}, column 'e': {message}")),
    ):
        list(reader.chunks())
    with open_reader(str(path), format, Selection(columns=("e",), skip_bad=True), 100) as reader:
        chunks = list(reader.chunks())
    assert np.concatenate([chunk.rows for chunk in chunks]).tolist() == [0, 1, 2, 3, 5]
    assert [fault.endswith(message) for chunk in chunks for fault in chunk.bad] == [True]


def test_parquet_lists_of_text_are_no_features(tmp_path):
    write_lists(tmp_path / "rows", "parquet", [["a"]], pa.list_(pa.string()))
    with pytest.raises(FileError, match="column 'e': it holds list<element: string>, not numbers"):
        open_reader(str(tmp_path / "rows"), "parquet", Selection(columns=("e",)), 100)


def test_reading_continues_only_after_the_same_rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x\n1\n2\n3\n4")
    place = read(path, most_rows=2)[-1].place

    def rest(content):
        path.write_text(content)
        with open_reader(str(path), "csv", Selection(), 10) as reader:
            return [(chunk.X.tolist(), chunk.where(int(chunk.rows[0]))) for chunk in reader.chunks(dict(place))]

    assert rest("x\n1\n2\n3\n4") == []
    assert rest("x\n1\n2\n3\n4\n5\n") == [([[5.0]], "line 6")]
    for changed in ("x\n1\n2\n3", "x\n1\n2\n9\n4\n"):
        with pytest.raises(FileError, match="not the same as before"):
            rest(changed)
    with pytest.raises(FileError, match="line 5: the line has been continued"):
        rest("x\n1\n2\n3\n44\n")


def never_a_surprise(path, format, **changes):
    """Read it; the only error may be a FileError of one line that names the file."""
    message = f"{path} is fine"
    try:
        for chunk in read(path, format, most_rows=5, **changes):
            assert not np.any(np.isinf(chunk.X))
    except FileError as error:
        message = str(error)
    assert message.startswith(str(path))
    assert len(message.splitlines()) == 1


CELL = st.sampled_from(
    ["1", "-2.5", "", '"', '""', '"a\nb"', "nan", "x", " 3 ", "1e999", "\x00", "\r", "é", "2024-01-01"]
)
LINE = st.lists(CELL, max_size=4).map(",".join)
no_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)


def test_a_chunk_of_csv_is_read_again_only_once_however_many_rows_are_bad(tmp_path, monkeypatch):
    path = tmp_path / "in.csv"
    path.write_text("t,x\n" + "".join(f"{'' if i % 2 else i},{i}\n" for i in range(40)))
    pieces = []
    again = CsvReader._plain_rows
    monkeypatch.setattr(CsvReader, "_plain_rows", lambda self, piece: pieces.append(piece) or again(self, piece))
    (chunk,) = read(path, skip_bad=True, time_column="t", keep=None)
    assert chunk.rows.tolist() == list(range(0, 40, 2))
    assert [fault.split(":")[0] for fault in chunk.bad] == [f"line {i + 2}, column 't'" for i in range(1, 40, 2)]
    assert len(pieces) == len({id(piece) for piece in pieces}) <= 2  # the first rows, and the rows themselves


@no_fixture
@given(lines=st.lists(LINE, max_size=6), skip_bad=st.booleans(), timed=st.booleans())
def test_no_csv_is_a_surprise(tmp_path, lines, skip_bad, timed):
    path = tmp_path / "any.csv"
    path.write_text("\n".join(["x,y,t", *lines]), newline="")
    never_a_surprise(path, "csv", skip_bad=skip_bad, time_column="t" if timed else None, keep=None)


@no_fixture
@given(content=st.binary(max_size=80), format=st.sampled_from(list(READERS)), skip_bad=st.booleans())
def test_no_bytes_are_a_surprise(tmp_path, content, format, skip_bad):
    path = tmp_path / "any"
    path.write_bytes(content)
    never_a_surprise(path, format, skip_bad=skip_bad)


@no_fixture
@given(
    lines=st.lists(
        st.sampled_from(['{"x": 1}', '{"x": []}', "{", "null", '{"x": 1, "t": "2024-01-01"}', '{"t": 3}', " "])
    ),
    skip_bad=st.booleans(),
    timed=st.booleans(),
)
def test_no_json_is_a_surprise(tmp_path, lines, skip_bad, timed):
    path = tmp_path / "any.jsonl"
    path.write_text("\n".join(lines))
    never_a_surprise(path, "jsonl", skip_bad=skip_bad, time_column="t" if timed else None, keep=None)


@no_fixture
@given(at=st.integers(0, 2000), byte=st.integers(0, 255), cut=st.none() | st.integers(0, 2000), data=st.data())
def test_no_damage_is_a_surprise(tmp_path, at, byte, cut, data):
    format = data.draw(st.sampled_from(["npy", "parquet"]))
    content = bytearray(write_rows(tmp_path, format).read_bytes())
    content[at % len(content)] = byte
    path = tmp_path / "damaged"
    path.write_bytes(content[: cut or len(content)])
    never_a_surprise(path, format, columns=("1", "2") if format == "npy" else ("x", "y"), keep=None)


COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("most_rows", [7, 1000])
def test_a_compressed_file_is_read_as_if_it_were_not(tmp_path, monkeypatch, format, suffix, most_rows):
    plain = write_rows(tmp_path, format)
    content = plain.read_bytes()
    half = content.index(b"\n", len(content) // 2) + 1
    path = tmp_path / f"rows.{format}{suffix}"
    path.write_bytes(COMPRESS[suffix](content[:half]) + COMPRESS[suffix](content[half:]))  # as after an append
    with open_reader(str(plain), format, selection(format), most_rows) as reader:
        wanted = list(reader.chunks())
    with open_reader(str(path), format, selection(format), most_rows) as reader:
        assert (reader.seekable, reader.live) == (False, False)
        chunks = list(reader.chunks())
        assert reader.progress(chunks[-1].place) == 1.0
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), [row[2:] for row in ROWS])
    assert chunks[-1].place == wanted[-1].place  # so that a run may be resumed after the file was compressed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    with open_reader("-", format, selection(format), most_rows) as reader:
        assert (reader.seekable, reader.live) == (False, True)
        np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in reader.chunks()]), [row[2:] for row in ROWS])


@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_first_bytes_tell_what_is_compressed(tmp_path, suffix):
    (tmp_path / f"rows.csv{suffix}").write_text("x\n1\n")
    assert read(tmp_path / f"rows.csv{suffix}")[0].X.tolist() == [[1.0]]
    (tmp_path / "rows.csv").write_bytes(COMPRESS[suffix](b"x\n2\n"))
    assert read(tmp_path / "rows.csv")[0].X.tolist() == [[2.0]]
    (tmp_path / "rows.csv").write_bytes(COMPRESS[suffix](b""))
    with pytest.raises(FileError, match=r"rows\.csv is empty"):
        read(tmp_path / "rows.csv")


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_that_is_damaged_is_named(tmp_path, suffix):
    path = tmp_path / f"rows.csv{suffix}"
    content = COMPRESS[suffix](b"x\n" + b"".join(b"%d\n" % (i * i) for i in range(10_000)))
    name = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}[suffix]
    for damaged in (content[:-9], content[:-40] + b"?" * 40):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=f"rows.csv{suffix} is not a readable {name} file: ") as error:
            read(path)
        assert "\n" not in str(error.value)


def test_zstd_without_arrow_is_named(tmp_path, monkeypatch):
    (tmp_path / "rows.csv.zst").write_bytes(COMPRESS[".zst"](b"x\n1\n"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError, match="zstd needs pyarrow"):
        read(tmp_path / "rows.csv.zst")


@pytest.mark.parametrize("format", ["npy", "parquet"])
def test_a_format_that_is_no_text_is_not_decompressed(tmp_path, format):
    path = tmp_path / f"rows.{format}.gz"
    path.write_bytes(gzip.compress(write_rows(tmp_path, format).read_bytes()))
    with pytest.raises(FileError, match="is compressed, which only CSV and JSON may be: decompress it first"):
        read(path, format)


def test_signals_are_for_the_run_and_not_for_arrow(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("x,y\n" + "1.25,-3.5\n" * 200_000)
    heard, over = [], threading.Event()
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))

    def send():
        while not over.wait(0.001):
            os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with open_reader(str(path), "csv", Selection(), 1 << 16) as reader:
            assert sum(len(chunk.rows) for chunk in reader.chunks()) == 200_000
    finally:
        over.set()
        sender.join()
        signal.signal(signal.SIGTERM, before)
    assert heard


TEXTS = ["a, b", 'say "hi"', "", "two\nlines", "größe", "NA", "3,5", " padded "] * 5


def write_texts(folder, format, texts=TEXTS):
    path, columns = folder / f"texts.{format}", {"when": list(range(len(texts))), "message": texts}
    rows = list(zip(*columns.values(), strict=True))
    if format == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([list(columns), *rows])
    elif format == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    else:
        parquet.write_table(pa.table(columns), path, row_group_size=7)
    return path


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("most_rows", [1, 7, 1000])
def test_texts_come_as_they_are(tmp_path, format, most_rows):
    chosen = Selection(text="message", time_column="when", keep=("message",))
    with open_reader(str(write_texts(tmp_path, format)), format, chosen, most_rows) as reader:
        assert reader.features == ("message",)
        assert reader.encoding is None
        chunks = list(reader.chunks())
        assert [text for chunk in chunks for text in chunk.X] == TEXTS
        assert all(chunk.X.dtype == object and chunk.X.shape == chunk.rows.shape for chunk in chunks)
        np.testing.assert_array_equal(np.concatenate([chunk.times for chunk in chunks]), range(len(TEXTS)))
        rest = list(reader.chunks(dict(chunks[0].place)))
        assert [text for chunk in rest for text in chunk.X] == TEXTS[chunks[0].place["row"] :]


def test_texts_without_quotes_are_read_by_arrow_alike(tmp_path, monkeypatch):
    path = tmp_path / "plain.csv"
    path.write_text("when,message\n" + "".join(f"{i},größe {i} NA\n" for i in range(9)) + "9,\n")
    monkeypatch.setattr(CsvReader, "_plain_rows", lambda *_: pytest.fail("Arrow can read this"))
    with open_reader(str(path), "csv", Selection(text="message"), 4) as reader:
        assert [text for chunk in reader.chunks() for text in chunk.X] == [f"größe {i} NA" for i in range(9)] + [""]


def test_what_is_no_text_is_named(tmp_path):
    path = write_texts(tmp_path, "jsonl", ["a", None, 3, "b"])
    with (
        open_reader(str(path), "jsonl", Selection(text="message"), 10) as reader,
        pytest.raises(FileError, match=r"line 2, column 'message': None is not a text"),
    ):
        list(reader.chunks())
    with open_reader(str(path), "jsonl", Selection(text="message", skip_bad=True), 10) as reader:
        (chunk,) = reader.chunks()
        assert chunk.X.tolist() == ["a", "b"]
        assert chunk.bad[1] == "line 3, column 'message': 3 is not a text"
    path = tmp_path / "latin.csv"
    path.write_bytes("n,message\n1,größe\n".encode("latin-1"))
    with (
        open_reader(str(path), "csv", Selection(text="message"), 10) as reader,
        pytest.raises(FileError, match="is not in UTF-8: --encoding names the encoding"),
    ):
        list(reader.chunks())
    for format, text, fault in [
        ("csv", "nothing", "no column 'nothing'"),
        ("parquet", "when", "holds int64, not texts"),
    ]:
        with (
            pytest.raises(FileError, match=fault),
            open_reader(str(write_texts(tmp_path, format)), format, Selection(text=text), 10),
        ):
            pass
    np.save(tmp_path / "rows.npy", np.zeros((2, 2)))
    with (
        pytest.raises(FileError, match="holds numbers, but --text names"),
        open_reader(str(tmp_path / "rows.npy"), "npy", Selection(text="0"), 10),
    ):
        pass


@pytest.mark.parametrize("seed", range(20))
def test_rows_with_quotes_are_cut_where_csv_cuts_them(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    cells = ["a", '5" pipe', '"', '""', "x y", "line\nend", 'he said "no",\n"yes"', "", "a,b", 'tab\t"x', ' "y"']

    def write(cell):
        if '"' in cell and not cell.startswith('"') and "," not in cell and "\n" not in cell and rng.random() < 0.7:
            return cell  # as it is: a quote within a cell that does not begin with one
        quoted = cell.replace('"', '""')
        return f'"{quoted}"' if set(cell) & set('",\n') or rng.random() < 0.2 else cell

    expected = [rng.choice(cells) for _ in range(60)]
    text = "x,y,note\n" + "".join(f"{i},{i % 7},{write(cell)}\n" for i, cell in enumerate(expected))
    assert [row[2] for row in csv.reader(io.StringIO(text, newline=""), strict=True)][1:] == expected
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    monkeypatch.setattr(source, "BLOCK", rng.choice([3, 20, 1000]))
    for most_rows in (1, 3, 1000):
        with open_reader(str(path), "csv", Selection(columns=("x", "y"), keep=("note",)), most_rows) as reader:
            chunks = list(reader.chunks())
        assert [cell for chunk in chunks for cell in chunk.kept["note"]] == expected
        assert all(len(chunk.rows) <= most_rows for chunk in chunks)


def test_lines_whose_quotes_are_characters_are_read_in_linear_time(tmp_path, monkeypatch):
    class Text(io.StringIO):
        looked_at = 0

        def getvalue(self):
            Text.looked_at += 1
            return super().getvalue()

    path = tmp_path / "x.csv"
    path.write_text("x,note\n" + "".join(f'{at},"a" {at}\n' for at in range(1_000)))
    monkeypatch.setattr(csv_reader.io, "StringIO", Text)
    with open_reader(str(path), "csv", Selection(columns=("x",), keep=("note",)), 65_536) as reader:
        notes = [note for chunk in reader.chunks() for note in chunk.kept["note"]]
    assert notes == [f'"a" {at}' for at in range(1_000)]
    assert Text.looked_at < 10


def test_a_quote_that_does_not_end_is_looked_for_in_linear_time(tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr(lines, "MUCH", 1 << 12)
    monkeypatch.setattr(source, "BLOCK", 1 << 10)
    end = lines.LinesReader._end
    monkeypatch.setattr(lines.LinesReader, "_end", lambda self, data: looked.append(len(data)) or end(self, data))
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n1,2\n" + '3,"' + "4,5\n" * 50_000)
    with pytest.raises(FileError, match="line 3: unexpected end of data"):
        open_reader(str(path), "csv", Selection(columns=("x",)), 100)
    assert sum(looked) < 10 * path.stat().st_size


def test_blank_lines_are_not_kept_and_hold_up_nothing(tmp_path, monkeypatch):
    """A small compressed file may hold millions of them, between the rows that decide what columns hold."""
    path = tmp_path / "in.csv"
    path.write_text("x,y\n1,2\n" + "\n" * 300_000 + "3,4\n" + "\n" * 10 + "5,6\n")
    monkeypatch.setattr(source, "BLOCK", 4096)
    monkeypatch.setattr(csv_reader, "LONGEST_GAP", 1000)
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert reader.file.tell() < 200_000
        chunks = list(reader.chunks())
    assert np.concatenate([chunk.X for chunk in chunks]).tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert np.concatenate([chunk.X for chunk in reader.chunks(chunks[5].place)]).tolist() == [
            [3.0, 4.0],
            [5.0, 6.0],
        ]


def test_a_row_of_empty_cells_between_tabs_is_no_blank_line(tmp_path):
    path = tmp_path / "in.tsv"
    path.write_text("x\ty\n1\t2\n\t\n3\t4\n")
    with open_reader(str(path), "csv", Selection(), 1) as reader:
        X = np.concatenate([chunk.X for chunk in reader.chunks()])
    np.testing.assert_array_equal(X, [[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0]])


def test_an_object_is_not_looked_for_for_ever(tmp_path, monkeypatch):
    path = tmp_path / "in.jsonl"
    path.write_text("\n" * 5000 + '{"x": 1}\n')
    monkeypatch.setattr(jsonl, "LONGEST_GAP", 1000)
    with open_reader(str(path), "jsonl", Selection(skip_bad=True), 10) as reader:  # blank lines are no faults
        assert [len(chunk.rows) for chunk in reader.chunks()] == [1]
    path.write_text("0\n" * 5000 + '{"x": 1}\n')
    with pytest.raises(FileError, match="line 1: a row must be an object"):
        open_reader(str(path), "jsonl", Selection(skip_bad=True), 10)

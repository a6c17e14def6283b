"""Arrays of JSON, zip archives, columns between blanks, and what is refused with a remedy."""

import io
import json
import re
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dyncrp.io.files import FileError
from dyncrp.io.readers import Selection, find_format, json_values, open_reader
from reading import read

OBJECTS = [{"x": i / 7, "ö": "ü\n]},{[" * (i % 3), "e": [i, 2.5]} for i in range(50)]
TEXTS = [
    json.dumps(OBJECTS),
    json.dumps(OBJECTS, indent=2, ensure_ascii=False),
    "\ufeff \n" + json.dumps(OBJECTS, ensure_ascii=False, separators=(",", ":")) + "\r\n \n",
    "\n".join(json.dumps(row, indent=1) for row in OBJECTS),  # one after the other
    "\n".join(map(json.dumps, OBJECTS)),
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_objects_of_json_in_every_form(tmp_path, monkeypatch, text, block):
    path = tmp_path / "rows.json"
    path.write_text(text, encoding="utf-8")
    if block < 1 << 20 and text == TEXTS[-1]:
        return  # lines are not split
    monkeypatch.setattr("dyncrp.io.readers.source.BLOCK", max(block, 2 if text.startswith("\ufeff") else 1))
    chunks = read(path, "json", 9, columns=("x", "e"), keep=("ö",))
    X = np.concatenate([chunk.X for chunk in chunks])
    np.testing.assert_array_equal(X, [[row["x"], *row["e"]] for row in OBJECTS])
    assert [cell for chunk in chunks for cell in chunk.kept["ö"]] == [row["ö"] for row in OBJECTS]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"x": 1}, {"x": 2]', "row 1: not JSON: Expecting ',' delimiter"),
        ('[{"x": 1} {"x": 2}]', "row 1: a comma or ] must follow a row, got '{'"),
        ('[{"x": 1}, {"x": 2}', "row 2: not JSON: the text ends within the array"),
        ('[{"x": 1}] {"x": 2}', "'{\"x\": 2}' follows the array"),
        ("[1, 2]", "row 0: a row must be an object"),
        ("[]", " is empty"),
        ("[", "row 0: not JSON: the text ends within the array"),
        ('[{"x": 1}, {"x": "no"}]', "row 1, column 'x': 'no' is not a number"),
        ('{"x": {"0": 1, "1": 2}, "y": {"0": 3, "2": 4}}', "it has the columns one after the other"),
        ('{"columns": ["x"], "data": [[1], [2, 3]]}', "it has the columns one after the other"),
        ('{"a": [{"x": 1}], "b": [{"x": 2}]}', "the rows are within 'a': write them as an array"),
    ],
)
def test_what_is_no_array_of_objects_is_said(tmp_path, text, message):
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(FileError, match=re.escape(message)):
        read(tmp_path / "rows.json", "json", takes=("number",))


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('{"n": 2, "data": [{"x": 1, "y": 3}, {"x": 2, "y": 4}]}', "the rows are those within 'data'"),
        ('{"x": {"a": 1, "b": 2}, "y": {"a": 3, "b": 4}}', "its columns are made rows"),
        ('{"columns": ["x", "y"], "index": [0, 1], "data": [[1, 3], [2, 4]]}', "the rows are those within 'data'"),
        (
            '{"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {"x": 1, "y": 3}}, '
            '{"type": "Feature", "properties": {"x": 2, "y": 4}}]}',
            "the rows are the properties of its features",
        ),
    ],
)
def test_a_table_that_is_one_object_is_read(tmp_path, text, note):
    path = tmp_path / "rows.json"
    for written in (text, text.replace(",", ",\n")):
        path.write_text(written)
        with open_reader(str(path), "json", Selection(), 1) as reader:
            assert reader.notes == [note]
            assert [chunk.X.tolist() for chunk in reader.chunks()] == [[[1.0, 3.0]], [[2.0, 4.0]]]


def test_lists_of_words_are_no_numbers(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"x": i * i % 7 / 7, "tags": ["a", "b"][: 1 + i % 2]} for i in range(40)]
    path.write_text("\n".join(map(json.dumps, rows)))
    with open_reader(str(path), "jsonl", Selection(takes=("number", "category")), 100) as reader:
        assert reader.encoding.describe() == "numbers: 1; categories: tags"
        assert next(reader.chunks()).X[:2].tolist() == [[0.0, 0.0], [1 / 7, 1.0]]


def test_a_text_file_may_hold_json(tmp_path):
    (tmp_path / "rows.txt").write_text('{"x": 1}\n{"x": 2}\n')
    (tmp_path / "words.txt").write_text("{x}\n1\n")
    found = [find_format(str(tmp_path / name)) for name in ("rows.txt", "words.txt", "none.txt")]
    assert found == ["json", "csv", "csv"]


def test_one_object_is_a_row(tmp_path):
    (tmp_path / "rows.json").write_text('{\n "x": 1,\n "y": 2\n}')
    assert read(tmp_path / "rows.json", "json")[0].X.tolist() == [[1.0, 2.0]]


def test_an_array_is_not_held_in_memory(tmp_path, monkeypatch):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(OBJECTS * 100))
    monkeypatch.setattr("dyncrp.io.readers.source.BLOCK", 1000)
    monkeypatch.setattr(json_values, "BLOCK", 1000)
    monkeypatch.setattr(json_values, "LONGEST_VALUE", 2000)
    assert sum(len(chunk.rows) for chunk in read(path, "json", 9, columns=("x",))) == 5000


def write_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_zip_with_one_file_is_read(tmp_path, monkeypatch):
    path = write_zip(tmp_path / "rows.zip", {"data/": "", "data/rows.tsv": "x\ty\n1\t2\n", "__MACOSX/data/._rows": "m"})
    assert find_format(str(path)) == "csv"
    assert read(path)[0].X.tolist() == [[1.0, 2.0]]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    with open_reader("-", "csv", Selection(), 10) as reader:
        assert next(reader.chunks()).X.tolist() == [[1.0, 2.0]]
    assert find_format(str(write_zip(tmp_path / "a.zip", {"rows.jsonl": '{"x": 1}'}))) == "jsonl"
    assert find_format(str(write_zip(tmp_path / "a.zip", {"rows": "x,y\n1,2\n"}))) == "csv"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": "x\n1\n", "b.csv": "x\n2\n"}, "rows.zip holds 2 files: a.csv, b.csv; unpack it and name one"),
        ({}, "rows.zip holds no file; unpack it"),
        ({"[Content_Types].xml": "", "xl/workbook.xml": ""}, "rows.zip is a spreadsheet, which is not read: save the"),
    ],
)
def test_other_zips_are_refused(tmp_path, files, message):
    path = write_zip(tmp_path / "rows.zip", files)
    with pytest.raises(FileError, match=re.escape(message)):
        read(path)


def test_a_damaged_zip_is_named(tmp_path):
    path = write_zip(tmp_path / "rows.zip", {"rows.csv": "x,y\n" + "1,2\n" * 1000})
    content = bytearray(path.read_bytes())
    content[60] ^= 255
    for damaged in (bytes(content), bytes(content[:80])):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=r"rows\.zip is not a readable zip file"):
            read(path)


BLANKS = '  t   x    name\n  1   0.5  a\n 10\t-2.25 "b c"  \n\n100   3    [d e]\n'


@pytest.mark.parametrize("delimiter", [None, "whitespace"])
@pytest.mark.parametrize("most_rows", [1, 100])
def test_columns_between_blanks(tmp_path, delimiter, most_rows):
    path = tmp_path / "rows.txt"
    text = BLANKS if delimiter else BLANKS.replace('"b c"', "b").replace("[d e]", "d")
    path.write_text(text)
    with open_reader(str(path), "csv", Selection(("t", "x"), keep=("name",), delimiter=delimiter), most_rows) as reader:
        chunks = list(reader.chunks())
        assert reader.delimiter == "whitespace"
        assert reader.notes[:1] == ([] if delimiter else ["the delimiter is white space"])
    assert np.concatenate([chunk.X for chunk in chunks]).tolist() == [[1.0, 0.5], [10.0, -2.25], [100.0, 3.0]]
    names = [cell for chunk in chunks for cell in chunk.kept["name"]]
    assert names == (["a", "b c", "[d e]"] if delimiter else ["a", "b", "d"])
    place, findings = chunks[0].place, chunks[0].place["findings"]
    chosen = Selection(("t", "x"), keep=("name",), delimiter=delimiter, findings=findings)
    with open_reader(str(path), "csv", chosen, most_rows) as reader:
        assert sum(len(chunk.rows) for chunk in reader.chunks(place)) == 3 - len(chunks[0].rows)


@pytest.mark.parametrize("text", ["full name\nJohn Smith\n", "my x\n1\n2\n", "a b,c\n1 2,3\n", "one two\n1 2\n1 2 3\n"])
def test_blanks_within_cells_are_no_delimiters(tmp_path, text):
    (tmp_path / "rows.txt").write_text(text)
    with open_reader(str(tmp_path / "rows.txt"), "csv", Selection(), 10) as reader:
        assert reader.delimiter == ","


@pytest.mark.parametrize("suffix", [".dat", ".data", ".log", ""])
def test_other_files_are_known_by_their_contents(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    np.save(tmp_path / "rows.npy", np.ones((3, 2)))
    contents = {"csv": b"x,y\n1,2\n", "json": b' [ {"x": 1}]', "npy": (tmp_path / "rows.npy").read_bytes()}
    contents |= {None: b"\0\1\2"}
    for format, content in contents.items():
        path.write_bytes(content)
        assert find_format(str(path)) == format
    path.write_bytes(b"[01/Mar/2026:00:00:06 +0000] 5\n")
    assert find_format(str(path)) == "csv"
    assert find_format(str(tmp_path / "absent.xyz")) is None


@pytest.mark.parametrize("name", ["rows.xlsx", "rows.xls", "rows.ods"])
def test_spreadsheets_are_refused_with_a_remedy(name):
    with pytest.raises(
        FileError, match=rf"{re.escape(name)} is a spreadsheet, which is not read: save the sheet as CSV"
    ):
        find_format(name)
    with pytest.raises(FileError, match=r"save it as Parquet"):
        find_format("rows.feather")


def test_row_groups_that_have_other_rows_than_the_file_are_refused(tmp_path):
    path = tmp_path / "in.parquet"
    parquet.write_table(pa.table({"x": np.arange(100.0)}), path, row_group_size=50)
    content = path.read_bytes()
    before, number, after = content.rpartition(b"\x16\x64")  # of the last row group: field 3, 2 · 50
    path.write_bytes(before + b"\x16\x62" + after)
    assert number
    with pytest.raises(FileError, match="is damaged: it has 100 rows, but its row groups have 99"):
        open_reader(str(path), "parquet", Selection(), 10)

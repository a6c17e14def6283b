"""What is written says all that was found, in every format, and can be cut back."""

import csv
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dyncrp.io.files import FileError
from dyncrp.io.readers import Selection, open_reader
from dyncrp.io.writers import WRITERS

CONTENT = (
    '{"t": "2024-01-01", "x": 1, "note, %s": "a \\"b\\", c"}\n{"t": "2024-01-02", "x": 2.5, "note, %s": [1, null]}\n'
)


def results(n):
    return np.arange(n), np.arange(n) % 2, np.full(n, 1 / 3), np.linspace(-1.0, 1e-300, n)


def make(tmp_path, format, name="out"):
    (tmp_path / "in.jsonl").write_text(CONTENT)
    with open_reader(str(tmp_path / "in.jsonl"), "jsonl", Selection(("x",), "t", ("note, %s", "x")), 10) as reader:
        return WRITERS[format](str(tmp_path / f"{name}.{format}"), reader), next(reader.chunks())


def test_csv(tmp_path):
    writer, chunk = make(tmp_path, "csv")
    writer.start()
    writer.write(chunk.kept, *results(2))
    writer.close()
    assert (tmp_path / "out.csv").read_text() == (
        'row,t,"note, %s",x,table,probability,novelty\n'
        '0,2024-01-01,"a ""b"", c",1,0,0.3333333333333333,-1.0\n'
        '1,2024-01-02,"[1, null]",2.5,1,0.3333333333333333,1e-300\n'
    )


def test_json_lines(tmp_path):
    writer, chunk = make(tmp_path, "jsonl")
    writer.start()
    writer.write(chunk.kept, *results(2))
    writer.close()
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert list(first) == ["row", "t", "note, %s", "x", "table", "probability", "novelty"]
    assert first["note, %s"] == 'a "b", c'
    assert second == {
        "row": 1,
        "t": "2024-01-02",
        "note, %s": [1, None],
        "x": 2.5,
        "table": 1,
        "probability": 1 / 3,
        "novelty": 1e-300,
    }


def test_parquet(tmp_path):
    writer, chunk = make(tmp_path, "parquet")
    writer.start()
    writer.write(chunk.kept, *results(2))
    writer.finish()
    writer.settle()
    writer.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.parquet"]
    found = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert found["note, %s"] == ['a "b", c', "[1, null]"]
    assert found["novelty"] == [-1.0, 1e-300]
    assert found["table"] == [0, 1]


def test_columns_of_parquet_keep_their_type(tmp_path):
    stamps = pa.array([1, None, 3_000_000_001], pa.timestamp("ns", "UTC"))
    columns = {
        "when": stamps,
        "id": pa.array([1, 2, None], pa.int16()),
        "x": [0.5, 1.0, 2.0],
        "list": [[1], None, [2, 3]],
    }
    parquet.write_table(pa.table(columns), tmp_path / "in.parquet")
    for format in WRITERS:
        with open_reader(str(tmp_path / "in.parquet"), "parquet", Selection(("x",), None, None), 10) as reader:
            writer = WRITERS[format](str(tmp_path / f"out.{format}"), reader)
            writer.start()
            writer.write(next(reader.chunks()).kept, *results(3))
            writer.finish()
            writer.close()
    assert parquet.read_table(tmp_path / "out.parquet").select(list(columns)).equals(pa.table(columns))
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert rows[1].startswith("0,1970-01-01T00:00:00.000000001Z,1,0.5,[1],")
    assert rows[2].startswith("1,,2,1.0,,")
    assert rows[3].startswith('2,1970-01-01T00:00:03.000000001Z,,2.0,"[2, 3]",')
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[2])["list"] == [2, 3]


def copy(tmp_path, reader, format):
    """Copy all columns of an input; return where to."""
    path = tmp_path / f"out.{format}"
    writer = WRITERS[format](str(path), reader)
    writer.start()
    for chunk in reader.chunks():
        writer.write(chunk.kept, *results(len(chunk.rows)))
    writer.finish()
    writer.close()
    return path


def test_dictionaries_are_written_out(tmp_path):
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    columns = {"x": [0.5, 1.0, 2.0], "word": words, "number": pa.array([7, 8, 7]).dictionary_encode()}
    for size in (3, 1):  # in one group of rows, and in several with dictionaries of their own
        parquet.write_table(pa.table(columns), tmp_path / "in.parquet", row_group_size=size)
        selection = Selection(("x", "number"), None, None)
        with open_reader(str(tmp_path / "in.parquet"), "parquet", selection, 10) as reader:
            found = parquet.read_table(copy(tmp_path, reader, "parquet")).to_pydict()
        assert found["word"] == ["a", "b", "a"]
        assert found["number"] == [7, 8, 7]


@pytest.mark.parametrize("format", ["npy", "jsonl", "parquet"])
def test_json_has_no_nan(tmp_path, format):
    path, bad = tmp_path / f"in.{format}", [float("nan"), float("inf"), 1.5]
    if format == "npy":
        np.save(path, np.column_stack([bad, np.ones(3)]))
    elif format == "jsonl":
        path.write_text("".join(f'{{"0": {json.dumps(cell)}, "1": 1, "2": [{json.dumps(cell)}]}}\n' for cell in bad))
    else:
        parquet.write_table(pa.table({"0": bad, "1": np.ones(3), "2": [[cell] for cell in bad]}), path)
    with open_reader(str(path), format, Selection(("1",), None, None), 10) as reader:
        lines = copy(tmp_path, reader, "jsonl").read_text().splitlines()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [row["0"] for row in rows] == [None, None, 1.5]
    assert [row.get("2", [row["0"]]) for row in rows] == [[None], [None], [1.5]]


@pytest.mark.parametrize("format", WRITERS)
def test_a_longdouble_is_copied_as_float64(tmp_path, format):
    np.save(tmp_path / "in.npy", np.array([[1.5], [0.1]], dtype=np.longdouble))
    with open_reader(str(tmp_path / "in.npy"), "npy", Selection(("0",), None, None), 10) as reader:
        path = copy(tmp_path, reader, format)
    if format == "parquet":
        assert parquet.read_table(path).to_pydict()["0"] == [1.5, 0.1]
    else:
        assert "0.1" in path.read_text()
        assert "longdouble" not in path.read_text()


def test_bytes_that_are_no_text_are_copied_as_they_were(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"x,\xff\n1,\xe9\xfe\n")
    with open_reader(str(tmp_path / "in.csv"), "csv", Selection(("x",), None, None), 10) as reader:
        chunk = next(reader.chunks())
        for format in WRITERS:
            writer = WRITERS[format](str(tmp_path / f"out.{format}"), reader)
            writer.start()
            writer.write(chunk.kept, *results(1))
            writer.finish()
            writer.close()
    assert parquet.read_table(tmp_path / "out.parquet").to_pydict()["?"] == ["??"]
    assert (
        tmp_path / "out.csv"
    ).read_bytes() == b"row,x,\xff,table,probability,novelty\n0,1,\xe9\xfe,0,0.3333333333333333,-1.0\n"


@pytest.mark.parametrize("format", WRITERS)
def test_an_output_is_resumed_from_any_length_it_had(tmp_path, format):
    whole, chunk = make(tmp_path, format, "whole")
    whole.start()
    for _ in range(3):
        whole.write(chunk.kept, *results(2))
    whole.finish()
    whole.close()
    cut, _ = make(tmp_path, format, "cut")
    cut.start()
    cut.write(chunk.kept, *results(2))
    cut.sync()
    length, tail = cut.length, cut.tail()
    cut.write(chunk.kept, *results(2))
    cut.file.append(b"half a row, and much else" * 1000)
    cut.close()
    again, _ = make(tmp_path, format, "cut")
    again.resume(length, tail, finished=False)
    for _ in range(2):
        again.write(chunk.kept, *results(2))
    again.finish()
    again.close()
    assert (tmp_path / f"cut.{format}").read_bytes() == (tmp_path / f"whole.{format}").read_bytes()


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_an_output_that_changed_is_refused(tmp_path, format):
    writer, chunk = make(tmp_path, format)
    writer.start()
    writer.write(chunk.kept, *results(2))
    length, tail = writer.length, writer.tail()
    writer.close()
    path = tmp_path / f"out.{format}"
    content = path.read_bytes()
    for changed in (content[:-1], b"X" + content[1:]):
        path.write_bytes(changed)
        with pytest.raises(FileError, match="has changed since the checkpoint"):
            make(tmp_path, format)[0].resume(length, tail, finished=False)
        assert path.read_bytes() == changed
    path.unlink()
    with pytest.raises(FileError, match="is missing"):
        make(tmp_path, format)[0].resume(length, tail, finished=False)


@pytest.mark.parametrize("format", WRITERS)
def test_two_runs_cannot_write_one_output(tmp_path, format):
    first, chunk = make(tmp_path, format)
    first.start()
    first.write(chunk.kept, *results(2))
    before = (tmp_path / first.file.path).read_bytes()
    for begin in (lambda other: other.start(), lambda other: other.resume(first.length, first.tail(), False)):
        with pytest.raises(FileError, match="is being written by another run"):
            begin(make(tmp_path, format)[0])
    assert (tmp_path / first.file.path).read_bytes() == before
    first.finish()
    first.close()
    again = make(tmp_path, format)[0]
    again.resume(first.length, first.tail(), finished=True)
    with pytest.raises(FileError, match="is being written by another run"):
        make(tmp_path, format)[0].resume(first.length, first.tail(), finished=True)
    again.close()


def test_a_column_called_as_one_of_the_result_is_refused(tmp_path):
    (tmp_path / "in.csv").write_text("x,table\n1,2\n")
    with (
        open_reader(str(tmp_path / "in.csv"), "csv", Selection(("x",), None, None), 10) as reader,
        pytest.raises(FileError, match="has 'table' among its columns, as the output has: do not keep them"),
    ):
        WRITERS["csv"](str(tmp_path / "out.csv"), reader)


def test_a_time_column_called_as_one_of_the_result_must_be_renamed(tmp_path):
    (tmp_path / "in.csv").write_text("x,row\n1,2\n")
    with (
        open_reader(str(tmp_path / "in.csv"), "csv", Selection(("x",), "row"), 10) as reader,
        pytest.raises(FileError, match="has 'row' among its columns, as the output has: rename them"),
    ):
        WRITERS["csv"](str(tmp_path / "out.csv"), reader)


HARD_NAMES = ["plain", 'a "b", c', "", None, '"', 'two\nlines, "quoted"', ',5,"', "é, %d", '"table": 7, ']


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("format", WRITERS)
def test_clusters_are_a_column_that_can_be_taken_back(tmp_path, monkeypatch, format, named):
    monkeypatch.setattr("dyncrp.io.writers.parquet.ROWS_IN_GROUP", 2)
    monkeypatch.setattr("dyncrp.io.writers.text.BLOCK", 37)  # records are cut anywhere
    n = len(HARD_NAMES)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"x": 1, "note": name}) + "\n" for name in HARD_NAMES))
    path, more = tmp_path / f"out.{format}", {"name": HARD_NAMES[::-1]} if named else {}
    with open_reader(str(tmp_path / "in.jsonl"), "jsonl", Selection(("x",), None, ("note",)), 100) as reader:
        kept = next(reader.chunks()).kept
        writer = WRITERS[format](str(path), reader, joined=True, more=more)
        writer.start()
        for first in (4, 40):
            writer.write(kept, np.arange(n), np.arange(first, first + n), np.ones(n), np.ones(n), **more)
        rows = read_all(path) if format != "parquet" else None
        writer.finish(lambda tables: tables // 5 - 1)
        writer.settle()
        writer.close()
        tables = [*range(4, 4 + n), *range(40, 40 + n)]
        found = read_all(path)
        assert list(found)[-1] == "cluster"
        assert [int(cluster) for cluster in found["cluster"]] == [table // 5 - 1 for table in tables]
        assert [name or None for name in found["note"]] == [name or None for name in HARD_NAMES * 2]
        if rows is not None:
            assert rows == {name: column for name, column in found.items() if name != "cluster"}
        assert sorted(file.name for file in tmp_path.iterdir()) == ["in.jsonl", path.name]
        again = WRITERS[format](str(path), reader, joined=True, more=more)
        again.resume(writer.length, writer.tail(), finished=True)
        assert read_all(path) == found  # the checkpoint refers to it until the next one
        again.settle()
        if rows is not None:
            assert read_all(path) == rows
        again.write(kept, np.arange(n), np.arange(n), np.ones(n), np.ones(n), **more)
        again.finish(lambda tables: -tables)
        again.settle()
        again.close()
    assert [int(cluster) for cluster in read_all(path)["cluster"]] == [-table for table in [*tables, *range(n)]]


def read_all(path):
    """Return the columns of an output."""
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pydict()
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file)) if path.suffix == ".csv" else list(map(json.loads, file))
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_what_a_kill_left_beside_is_put_in_its_place(tmp_path, format):
    writer, chunk = make_joined(tmp_path, format)
    writer.start()
    writer.write(chunk.kept, *results(2))
    before = writer.length, writer.tail()
    writer.finish(lambda tables: tables)
    after = writer.length, writer.tail()
    assert after != before
    writer.close()  # killed before it could settle
    path = tmp_path / f"out.{format}"
    for length_and_tail, clusters in ((before, False), (after, True), (after, True)):
        again, _ = make_joined(tmp_path, format)
        again.recover(*length_and_tail)
        assert (b"cluster" in path.read_bytes()) == clusters
    assert not (tmp_path / f"out.{format}.new").exists()


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_link_and_its_mode_are_kept(tmp_path, format):
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "real", tmp_path / f"out.{format}"
    real.touch(mode=0o640)
    real.chmod(0o640)
    link.symlink_to(real)
    writer, chunk = make_joined(tmp_path, format)
    writer.start()
    writer.write(chunk.kept, *results(2))
    writer.finish(lambda tables: tables)
    writer.settle()
    writer.close()
    assert link.is_symlink()
    assert b"cluster" in real.read_bytes()
    assert real.stat().st_mode & 0o777 == 0o640


def make_joined(tmp_path, format):
    (tmp_path / "in.jsonl").write_text(CONTENT)
    with open_reader(str(tmp_path / "in.jsonl"), "jsonl", Selection(("x",), "t"), 10) as reader:
        return WRITERS[format](str(tmp_path / f"out.{format}"), reader, joined=True), next(reader.chunks())


@pytest.mark.parametrize("format", WRITERS)
def test_a_column_called_cluster_is_refused(tmp_path, format):
    (tmp_path / "in.csv").write_text("cluster,x\nmine,1\n")
    path = str(tmp_path / f"out.{format}")
    with open_reader(str(tmp_path / "in.csv"), "csv", Selection(("x",), None, ("cluster",)), 10) as reader:
        WRITERS[format](path, reader)
        with pytest.raises(
            FileError,
            match="has 'cluster' among its columns, as the output has: do not keep them, or use --clusters none",
        ):
            WRITERS[format](path, reader, joined=True)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("format", WRITERS)
def test_an_output_is_known_by_its_columns(tmp_path, format, joined):
    path = tmp_path / f"out.{format}"
    assert not WRITERS[format].wrote(str(path))
    (tmp_path / "in.jsonl").write_text(CONTENT)
    with open_reader(str(tmp_path / "in.jsonl"), "jsonl", Selection(("x",), "t"), 10) as reader:
        writer = WRITERS[format](str(path), reader, joined=joined, more=["name", "novelty_p"])
        writer.start()
        writer.write(next(reader.chunks()).kept, *results(2), name=["a", "b"], novelty_p=np.ones(2))
        writer.finish((lambda tables: tables) if joined else None)
        writer.settle()
        writer.close()
    assert WRITERS[format].wrote(str(path))
    for other in (b"", b"row,x\n1,2\n", b'{"row": 1, "x": 2}\n', b"\xff" * 99, b"x,table,probability,novelty\n"):
        path.write_bytes(other)
        assert not WRITERS[format].wrote(str(path))


def test_groups_of_rows_in_parquet_do_not_depend_on_how_they_came(tmp_path, monkeypatch):
    monkeypatch.setattr("dyncrp.io.writers.parquet.ROWS_IN_GROUP", 10)
    (tmp_path / "in.csv").write_text("x\n1\n")
    files = []
    for sizes in ([25], [3] * 8 + [1], [10, 10, 5]):
        with open_reader(str(tmp_path / "in.csv"), "csv", Selection(("x",)), 10) as reader:
            writer = WRITERS["parquet"](str(tmp_path / "out.parquet"), reader)
            writer.start()
            for size in sizes:
                writer.write({}, np.arange(size), np.zeros(size, dtype=int), np.ones(size), np.ones(size))
            writer.finish()
            writer.close()
        files.append(parquet.ParquetFile(tmp_path / "out.parquet").metadata)
    groups = [[file.row_group(i).num_rows for i in range(file.num_row_groups)] for file in files]
    assert groups == [[10, 10, 5]] * 3


@pytest.mark.parametrize("format", WRITERS)
def test_names_and_p_values_are_columns_on_request(tmp_path, format):
    (tmp_path / "in.jsonl").write_text(CONTENT)
    with open_reader(str(tmp_path / "in.jsonl"), "jsonl", Selection(("x",)), 10) as reader:
        path = tmp_path / f"out.{format}"
        writer = WRITERS[format](str(path), reader, more=["novelty_p", "name"])
        writer.start()
        writer.write({}, *results(2), name=['a "b", c', None], novelty_p=np.array([1.0, 1e-9]))
        writer.finish()
        writer.close()
    if format == "csv":
        assert path.read_text().splitlines() == [
            "row,table,name,probability,novelty,novelty_p",
            '0,0,"a ""b"", c",0.3333333333333333,-1.0,1.0',
            "1,1,,0.3333333333333333,1e-300,1e-09",
        ]
        return
    lines = path.read_text().splitlines() if format == "jsonl" else []
    rows = list(map(json.loads, lines)) or parquet.read_table(path).to_pylist()
    assert list(rows[0]) == ["row", "table", "name", "probability", "novelty", "novelty_p"]
    assert [(row["name"], row["novelty_p"]) for row in rows] == [('a "b", c', 1.0), (None, 1e-9)]

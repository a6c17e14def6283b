"""Result tables survive whatever stops a run."""

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pyarrow as pa
from experiments.store import Table

SCHEMA = pa.schema({"stream": pa.int16(), "system": pa.string(), "ami": pa.float64()})


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path / "results" / "some.parquet", SCHEMA, ["stream", "system"])


def row(stream, ami=0.5):
    return {"stream": stream, "system": "D-CRP", "ami": ami}


def test_an_empty_table_has_its_columns(table):
    assert list(table.read().columns) == SCHEMA.names
    assert table.read().empty


def test_parts_become_one_file_in_the_order_of_keys(table):
    with table.writing():
        table.append([row(2), row(1)])
        table.append([row(0)])
        assert not table.path.exists()
        assert table.read()["stream"].tolist() == [0, 1, 2]
    assert table.path.exists()
    assert not list(table.parts.glob("*.parquet"))
    assert table.read()["stream"].tolist() == [0, 1, 2]


def test_what_was_stored_before_a_failure_stays(table):
    def work():
        with table.writing():
            table.append([row(0)])
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        work()
    (table.parts / "000001.parquet.tmp").write_bytes(b"torn")
    assert table.read()["stream"].tolist() == [0]
    with table.writing():
        assert not list(table.parts.glob("*.tmp"))
        table.append([row(1)])
    assert table.read()["stream"].tolist() == [0, 1]


def test_a_part_that_is_in_the_file_already_does_not_count_twice(table):
    with table.writing():
        table.append([row(0, ami=0.25)])
    table.append([row(0, ami=0.75), row(1)])  # as if the run had died before it removed the part
    assert table.read()["ami"].tolist() == [0.25, 0.5]


def test_two_runs_do_not_write_to_one_table(table):
    other = Table(table.path, SCHEMA, table.key)
    with table.writing(), pytest.raises(SystemExit, match="another run is writing"), other.writing():
        pass


def test_a_file_of_the_same_rows_has_the_same_bytes(table, tmp_path):
    other = Table(tmp_path / "other.parquet", SCHEMA, table.key)
    with table.writing():
        table.append([row(0), row(1)])
    with other.writing():
        other.append([row(1)])
        other.append([row(0)])
    assert table.path.read_bytes() == other.path.read_bytes()

"""Rows come in four formats, and mean the same in each; what is wrong is named, and nothing else happens."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest

from dyncrp.serve.bodies import ARROW, CSV, JSON, NDJSON, Roles, read_batch, read_json
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.rows import Form, Rows

LIMITS = Limits(rows=50, features=20, cells=200)


def arrow(table, **options):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def read(content, kind, roles=None):
    content = content.encode() if isinstance(content, str) else content
    return read_batch(content, kind, roles or Roles(), LIMITS)


TABLE = pa.table({"when": [0.5, 2.0], "x": [1, None], "colour": ["red", None], "who": pa.array([3, None])})
BODIES = {
    NDJSON: '{"when": 0.5, "x": 1, "colour": "red", "who": 3}\n\n{"when": 2.0, "x": null, "colour": null}\n',
    CSV: "when,x,colour,who\n0.5,1,red,3\n2.0,,NA,\n",
    ARROW: arrow(TABLE),
    JSON: '{"rows": [{"when": 0.5, "x": 1, "colour": "red", "who": 3}, {"when": 2.0}]}',
}


@pytest.mark.parametrize("kind", BODIES)
def test_every_format_gives_the_same_rows(kind):
    batch = read(BODIES[kind], kind, Roles("when", "who"))
    rows = Form().resolve(batch)
    assert rows.names == ("x", "colour")
    np.testing.assert_array_equal(rows.columns[0], [1.0, np.nan])
    assert rows.columns[1] == ["red", None]
    np.testing.assert_array_equal(rows.times, [0.5, 2.0])
    assert rows.labels == [3, None]


@pytest.mark.parametrize("kind", BODIES)
def test_rows_are_the_same_after_the_journal(kind):
    rows = Form().resolve(read(BODIES[kind], kind, Roles("when", "who")))
    again = Rows.from_bytes(rows.to_bytes())
    assert again.to_bytes() == rows.to_bytes()
    assert again.X.equals(rows.X)
    assert list(again.X.dtypes) == list(rows.X.dtypes)


def test_lists_of_numbers_are_an_array():
    batch = read('{"rows": [[1, 2.5], [3, -4]]}', JSON)
    np.testing.assert_array_equal(batch.numbers, [[1.0, 2.5], [3.0, -4.0]])
    assert Form().resolve(batch).X is batch.numbers


@pytest.mark.parametrize(
    "times", ['["2024-01-01T00:00:00Z", "2024-01-01T02:00:00+01:00"]', '["2024-01-01", "2024-01-01T01:00"]']
)
def test_times_may_be_dates(times):
    rows = Form().resolve(read(f'{{"rows": [[1], [2]], "times": {times}}}', JSON))
    assert rows.times.tolist() == np.array(["2024-01-01T00", "2024-01-01T01"], "M8[us]").tolist()


def test_dates_of_arrow_are_times():
    table = pa.table({"t": pa.array([0, 10**6], pa.timestamp("us", tz="Europe/Paris")), "x": [1.0, 2.0]})
    rows = Form().resolve(read(arrow(table), ARROW, Roles("t")))
    assert rows.times.tolist() == np.array([0, 10**6], "M8[us]").tolist()


@pytest.mark.parametrize(
    ("content", "kind", "message", "where"),
    [
        ('{"rows": [[1], [Infinity]]}', JSON, "'x0' must hold finite numbers", {"row": 1, "column": "x0"}),
        ('{"x": 1}\n{"x": -Infinity}', NDJSON, "'x' must hold finite numbers", {"row": 1, "column": "x"}),
        ("x\n1\ninf\n", CSV, "'x' must hold finite numbers", {"row": 1, "column": "x"}),
        (arrow(pa.table({"x": [1.0, float("inf")]})), ARROW, "'x' must hold finite numbers", {"row": 1, "column": "x"}),
        ('{"rows": [[1]], "times": [Infinity]}', JSON, "a time must be finite", {"row": 0, "column": "times"}),
        ('{"rows": [[1], [2]], "times": [1, NaN]}', JSON, "the time is missing", {"row": 1, "column": "times"}),
        ('{"rows": [{"a": 1}, {"a": 1e999}]}', JSON, "'a' must hold finite numbers", {"row": 1, "column": "a"}),
        ('{"rows": [[' + "9" * 5000 + "]]}", JSON, "this is not JSON", {}),
        ('{"rows": [[1], [' + "9" * 400 + "]]}", JSON, "must hold finite numbers", {"row": 1, "column": "x0"}),
        ('{"rows": [[1]], "rows": [[2]]}', JSON, "an object has a key twice", {}),
        ('{"rows": [[1]], "label": [2]}', JSON, "unknown key 'label'", {}),
        ("[[1]]", JSON, "must be a JSON object", {}),
        ('{"rows": []}', JSON, "there are no rows", {}),
        ('{"rows": [[]]}', JSON, "at least one column", {}),
        ('{"rows": [[1, 2], [3]]}', JSON, "row 1 has 1 cells, and row 0 has 2", {"row": 1}),
        ('{"rows": [[1], {"x": 2}]}', JSON, "must be a list, as row 0 is", {"row": 1}),
        ('{"rows": [1, 2]}', JSON, "must be a list or an object", {"row": 0}),
        ('{"rows": [[1], [[2]]]}', JSON, "a cell must be a number, a text", {"row": 1, "column": "x0"}),
        ('{"rows": [[1], [2]], "times": [1]}', JSON, "times must be a list with one entry for each of the 2 rows", {}),
        ('{"rows": [[1], [2]], "times": [1, "noon"]}', JSON, "a time must be", {"row": 0, "column": "times"}),
        ('{"rows": [[1]], "labels": [1.5]}', JSON, "labels must hold an integer", {"row": 0, "column": "labels"}),
        ('{"rows": [[1]], "labels": [[1]]}', JSON, "labels must hold an integer", {"row": 0}),
        ("\xff\xfe", JSON, "this is not JSON", {}),
        ('{"x": 1}\n{"x": }', NDJSON, "row 1: this is not JSON", {"row": 1}),
        ("x,y\n1,2\n3\n", CSV, "row 1 has 1 cells, and the header has 2", {"row": 1}),
        ("x,x\n1,2\n", CSV, "two columns 'x'", {"column": "x"}),
        (json.dumps({"rows": [{"x" * 201: 1}]}), JSON, "the name of a column has at most 200 characters", {}),
        ("x\n", CSV, "there are no rows", {}),
        ("", CSV, "there are no rows", {}),
        ('x\n"1\n', CSV, "this is not CSV", {"row": 0}),
        (b"x\n\xff\n", CSV, "this CSV is not UTF-8", {}),
        (b"nothing", ARROW, "this is not an Arrow stream", {}),
        (arrow(pa.table({"x": [[1.0]]})), ARROW, "column 'x' must hold numbers", {"column": "x"}),
        (arrow(TABLE, compression="zstd"), ARROW, "is compressed", {}),
    ],
)
def test_what_is_wrong_is_named(content, kind, message, where):
    with pytest.raises(RequestError, match=message) as caught:
        Form().resolve(read(content, kind))
    assert caught.value.status == 400
    assert {name: caught.value.content.get(name) for name in where} == where


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_dictionary_is_seen_too(codec):
    table = pa.table({"x": pa.array(["a", "b"] * 10).dictionary_encode()})
    assert read(arrow(table), ARROW).columns[0] == ["a", "b"] * 10
    with pytest.raises(RequestError, match="is compressed"):
        read(arrow(table, compression=codec), ARROW)


@pytest.mark.parametrize("cut", [1, 5, 50, 200, 300])
def test_a_damaged_arrow_stream_is_refused(cut):
    content = arrow(TABLE)
    with pytest.raises(RequestError, match=r"Arrow|there are no rows"):
        read(content[: len(content) - cut], ARROW)


def test_any_byte_of_an_arrow_stream_may_be_wrong():
    content = arrow(pa.table({"x": [1.0, 2.0], "word": ["a", "bc"]}))
    for at in range(len(content)):
        broken = bytearray(content)
        broken[at] ^= 0xFF
        try:
            batch = read(bytes(broken), ARROW)
        except RequestError:
            continue
        assert batch.n <= LIMITS.rows


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (json.dumps({"rows": [[1]] * 51}), JSON, "50 rows, got 51"),
        ("x\n" + "1\n" * 60, CSV, "50 rows, got 51"),
        (json.dumps({"rows": [list(range(21))]}), JSON, "20 columns, got 21"),
        # Few bytes, many cells: each row has a name of its own.
        ("\n".join(json.dumps({f"x{i}": 1}) for i in range(20)), NDJSON, "200 cells, got 400"),
        (arrow(pa.table({"x": pa.nulls(10**9)})), ARROW, "50 rows"),
    ],
)
def test_too_much_is_refused(content, kind, message):
    with pytest.raises(RequestError, match=message) as caught:
        read(content, kind)
    assert caught.value.status == 413


@pytest.mark.parametrize("begin", ["", "a,b\n", '"x",', 'x" y,', 'a,b\n1,"q\nend",', 'a,"b\nc",'])
def test_a_line_of_csv_with_too_many_cells_is_refused_before_it_is_read(begin):
    """All cells of a line are made at once: those of 32 MB are half a gigabyte, and nothing else is done meanwhile."""
    with pytest.raises(RequestError, match="10,000 columns, got 10,001"):  # and not 100,001
        read_batch((begin + "," * 100_000).encode(), CSV, Roles(), Limits())


def test_texts_of_csv_may_have_many_commas():
    text = "a, " * 40_000
    batch = read_batch(f'x,y\n1,"{text}"\n2,"b\n{text}"\n'.encode(), CSV, Roles(), Limits())
    assert batch.columns == (["1", "2"], [text, "b\n" + text])


def test_another_kind_of_body():
    with pytest.raises(RequestError, match="rows come as application/json") as caught:
        read("x=1", "application/x-www-form-urlencoded")
    assert caught.value.status == 415


@pytest.mark.parametrize(
    ("roles", "message"), [(Roles("t"), "no column 't'"), (Roles(cannot_link="x"), "at least one column to cluster")]
)
def test_columns_that_should_be_there(roles, message):
    with pytest.raises(RequestError, match=message):
        read('{"rows": [{"x": 1}]}', JSON, roles)


def test_times_come_once():
    with pytest.raises(RequestError, match="the times come twice"):
        read('{"rows": [{"x": 1, "t": 2}], "times": [1]}', JSON, Roles("t"))


def test_json_is_read_as_utf8():
    assert read_json('{"größe": 1}'.encode()) == {"größe": 1}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ('{"rows": [{"x": 1}, {"x": NaN}, {"x": "NA"}, {"x": null}]}', JSON),
        ('{"x": 1}\n{"x": NaN}\n{"x": "n/a"}\n{"x": null}\n', NDJSON),
        ('x\n1\nNaN\nNA\n""\n', CSV),
        (arrow(pa.table({"x": [1.0, float("nan"), None, None]})), ARROW),
    ],
)
def test_nan_and_words_for_it_are_missing_cells(content, kind):
    rows = Form().resolve(read(content, kind))
    np.testing.assert_array_equal(rows.numbers, [[1.0], [np.nan], [np.nan], [np.nan]])

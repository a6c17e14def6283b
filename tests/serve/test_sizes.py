"""What a body stands for is bounded before it is made."""

import asyncio
import io
import tracemalloc

import pyarrow as pa
import pytest

from dyncrp.serve import receiving, sizes
from dyncrp.serve.bodies import ARROW, CSV, JSON, NDJSON, Roles, check_json, read_batch, read_json
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.sizes import check_room
from dyncrp.serve.streams import ServedStream
from serving import KNOWN, post, serving

LIMITS = Limits(rows=1_000, cells=5_000, body=100_000)


def arrow(*batches):
    file = io.BytesIO()
    with pa.ipc.new_stream(file, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return file.getvalue()


def text(n, length, *, packed):
    cells = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int8()), pa.array(["x" * length]))
    return cells if packed else cells.cast(pa.string())


def refused(content, kind, limits=LIMITS):
    """See that a body is refused and how much memory that took, in bytes."""
    tracemalloc.start()
    try:
        with pytest.raises(RequestError) as caught:
            read_batch(content, kind, Roles(), limits)
        assert caught.value.status == 413
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        (b"{},", JSON),
        (b'{"a":1},', JSON),
        (b"[[]],", JSON),
        (b"[0.5],", JSON),
        (b"[]\n", NDJSON),
        (b"[[[]]]\n", NDJSON),
    ],
)
def test_rows_are_counted_before_they_are_made(unit, kind):
    unit = unit * 100_000
    content = b'{"rows":[' + unit[:-1] + b"]}" if kind == JSON else unit
    assert refused(content, kind) < 3 * len(content)  # objects would take 50 times as much


@pytest.mark.parametrize(
    ("content", "kind"), [(b'{"rows":[[' + b"12345," * 9_999 + b"1]]}", JSON), (b"x,y\n" + b"12,13\n" * 9_999, CSV)]
)
def test_cells_are_counted_before_they_are_made(content, kind):
    assert refused(content, kind, Limits(rows=20_000, cells=5_000)) < 1_000_000


def test_brackets_and_commas_in_texts_do_not_count():
    cell = b'"' + b'[{,\\"' * 2_000 + b'"'
    check_json(b'{"rows":[[' + cell + b"]]}", LIMITS)
    check_json(b'"' + b'\\"[' * 2_000, LIMITS)  # without an end, which is left to the parser
    with pytest.raises(RequestError, match="1,041 lists"):
        check_json(b'{"rows":[' + cell + b"," + b"[]," * 1_038 + b"[]]}", LIMITS)


def test_nesting():
    with pytest.raises(RequestError, match="nested too deeply"):
        read_json(b"[" * 100_000 + b"]" * 100_000)


@pytest.mark.parametrize("packed", [True, False])
def test_texts_of_arrow_are_counted_as_often_as_they_come(packed):
    limits = Limits(rows=1_000, body=100_000)
    batch = read_batch(arrow(pa.record_batch([text(100, 1_000, packed=packed)], ["a"])), ARROW, Roles(), limits)
    assert batch.columns == (["x" * 1_000] * 100,)
    packed_twice = pa.record_batch([text(60, 1_000, packed=packed)] * 2, ["a", "b"])
    for some in ([packed_twice], [pa.record_batch([text(60, 1_000, packed=packed)], ["a"])] * 2):
        assert refused(arrow(*some), ARROW, limits) < 100_000


def test_dictionaries_of_arrow():
    words = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["left", None]))
    flags = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array([True, False]))
    batch = pa.record_batch([words, flags], ["door", "open"])
    found = read_batch(arrow(batch, batch), ARROW, Roles(), LIMITS)
    assert found.columns == ([None, None, "left"] * 2, [False, None, True] * 2)


def test_a_body_without_rows_is_short(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        long = b'{"table": [' + b"1," * 2_500_000 + b"1]}"
        for path in ("rename", "explain", "merge", "acknowledge"):
            answer = client.post(f"/streams/s/{path}", content=long)
            assert (answer.status_code, "only rows" in answer.json()["error"]) == (413, True)
        wide = {"features": [f"{at:0199d}" for at in range(5_000)]}  # parsed in another thread
        assert client.put("/streams/wide", json=KNOWN | wide).status_code == 201


def test_large_bodies_are_opened_one_after_the_other(monkeypatch):
    monkeypatch.setattr(receiving, "PARSED_AT_ONCE", 10)
    now, most = 0, 0

    async def hold(bodies, n):
        nonlocal now, most
        async with bodies.open(b"x" * n):
            now += n
            most = max(most, now)
            await asyncio.sleep(0)
            now -= n

    async def all_of_them():
        bodies = receiving.Bodies(Limits(body=100))
        await asyncio.gather(*(hold(bodies, n) for n in (100, 60, 30, 60, 100, 11, 11)))
        async with asyncio.timeout(1.0), bodies.open(b"x" * 100), bodies.open(b"x" * 5):
            pass

    asyncio.run(all_of_them())
    assert most <= 100


@pytest.mark.parametrize(
    "settings",
    [
        {"concentration": [0.01] * 500, "n_codes": 10_000},
        {"n_codes": 10_000},
        {"n_codes": 10_000, "concentration": 0.01, "assignment": "variational"},
    ],
)
def test_codes_are_counted_if_hyperparameters_are_learned_or_each_column_has_its_own(tmp_path, settings):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json={"family": "categorical", "alpha": 1.0, "set": settings})
        answer = client.post("/streams/s/rows", json={"rows": [list(range(500))]})
        assert (answer.status_code, "would have 5,000,501 numbers" in answer.json()["error"]) == (413, True)


@pytest.mark.parametrize("settings", [{}, {"prior_mean": [0.0] * 5_000}, {"variance": [1.0] * 5_000}])
def test_pairs_of_columns_are_counted_before_they_are_made(settings):
    stream = ServedStream("s", {"family": "normal_wishart", "set": settings}, {})
    tracemalloc.start()
    with pytest.raises(RequestError, match=r"would have 12,507,501 numbers"):
        check_room(stream.stream, 1, 5_000)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_tables_of_learned_columns_are_counted(tmp_path, monkeypatch):
    rows = [{"x": at % 7, "door": "abc"[at % 3]} for at in range(50)]
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json={"warmup": 50})
        while not post(client, rows)["learned"]:
            pass
        monkeypatch.setattr(sizes, "MOST_BYTES", 8 * 60 * 20)  # some 60 numbers a table
        answer = client.post("/streams/s/rows", json={"rows": rows})
        assert (answer.status_code, "send fewer rows" in answer.json()["error"]) == (413, True)
        assert post(client, rows[:2])["learned"]


def test_tables_that_would_take_gigabytes_are_refused(tmp_path, monkeypatch):
    wide = {"family": "categorical", "dynamics": "stationary()", "alpha": 1.0}
    wide |= {"set": {"concentration": 0.01, "n_codes": 10_000}}
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=wide)
        answer = client.post("/streams/s/rows", json={"rows": [list(range(500))]})
        assert answer.status_code == 413
        assert "would have 5,000,501 numbers" in answer.json()["error"]
        monkeypatch.setattr(sizes, "MOST_BYTES", 8 * 20_003 * 2)
        assert post(client, [[1, 2]])["labels"] == [0]
        answer = client.post("/streams/s/rows", json={"rows": [[1, 2], [3, 4]]})
        assert (answer.status_code, "there is room for 2:" in answer.json()["error"]) == (413, True)
        assert post(client, [[1, 2]])["labels"] == [0]

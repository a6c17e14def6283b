"""Rows are read in the light of what their stream holds."""

import numpy as np
import pytest

from dyncrp.arrays.checks import Clock
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import Entry
from dyncrp.serve.bodies import CSV, JSON, Batch, Roles, read_batch
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.rows import Form, Rows, pack_with

PLAIN = Form(("x", "y"), None, 2, Clock.INDEX)
MIXED = Form(
    ("size", "kind", "on", "bit"),
    Encoding(
        (
            Entry("size", "number"),
            Entry("kind", "category", ("door",)),
            Entry("on", "boolean", ("True", "False")),
            Entry("bit", "boolean", ("1", "0")),
        )
    ),
    4,
    Clock.DATES,
)


def batch(text, kind=JSON, roles=None):
    return read_batch(text.encode(), kind, roles or Roles(), Limits())


def test_weights_are_kept_in_the_journal():
    rows = PLAIN.resolve(batch('{"rows": [{"y": 2, "x": 1}, {"y": 3}], "sample_weight": [0.5, 3]}'))
    assert Rows.from_bytes(rows.to_bytes()).weights.tolist() == [0.5, 3.0]
    old = pack_with([["x"], [None], ["a"], None], {"0": np.zeros(1)})  # of a journal before patterns and weights
    assert (Rows.from_bytes(old).labels, Rows.from_bytes(old).weights) == (["a"], None)


def test_columns_come_in_any_order_and_may_be_missing():
    rows = PLAIN.resolve(batch('{"rows": [{"y": 2, "x": 1}, {"y": 3}]}'))
    np.testing.assert_array_equal(rows.numbers, [[1.0, 2.0], [np.nan, 3.0]])
    rows = PLAIN.resolve(batch('{"rows": [{"y": 2}]}'))
    np.testing.assert_array_equal(rows.numbers, [[np.nan, 2.0]])


def test_lists_come_in_the_order_of_the_names():
    np.testing.assert_array_equal(PLAIN.resolve(batch('{"rows": [[1, 2]]}')).numbers, [[1.0, 2.0]])


def test_a_stream_without_names_takes_no_names():
    with pytest.raises(RequestError, match="lists of 2 cells without names"):
        Form(None, None, 2, Clock.INDEX).resolve(batch('{"rows": [{"x": 1, "y": 2}]}'))


def test_words_of_csv_are_read_as_the_columns_say():
    rows = MIXED.resolve(batch("kind,size,on,bit\n007,1,true,1\n,NA,,0\n3,2.5,False,\n", CSV))
    size, kind, on, bit = rows.columns
    np.testing.assert_array_equal(size, [1.0, np.nan, 2.5])
    assert kind == ["007", None, "3"]  # words, though they look like numbers
    assert on == ["true", None, "False"]
    np.testing.assert_array_equal(bit, [1.0, 0.0, np.nan])
    X, longer = MIXED.encoding.encode(rows.X)
    np.testing.assert_array_equal(X[:, 2], [1.0, np.nan, 0.0])
    assert longer["kind"].words == ("door", "007", "3")


def test_numbers_in_lists_become_columns_where_there_are_others():
    rows = MIXED.resolve(Batch(2, numbers=np.array([[1.0, 3.0, 1.0, 0.0], [2.0, 4.0, 0.0, 1.0]])))
    assert rows.numbers is None
    assert rows.X["kind"].tolist() == [3.0, 4.0]


def test_a_year_is_a_date_where_times_are_dates():
    text, roles = "when,x,y\n20240101,1,2\n", Roles("when")
    assert MIXED.clock is Clock.DATES
    assert Form(("x", "y"), None, 2, Clock.DATES).resolve(batch(text, CSV, roles)).times.dtype.kind == "M"
    assert PLAIN.resolve(batch(text, CSV, roles)).times.tolist() == [20240101.0]


def test_words_where_there_are_numbers_are_named():
    with pytest.raises(RequestError, match="column 'y' must hold numbers, got 'b', at row 1") as caught:
        PLAIN.resolve(batch("x,y\n1,2\n3,b\n", CSV))
    assert (caught.value.row, caught.value.column) == (1, "y")
    with pytest.raises(RequestError, match="column 'size' must hold numbers, got True, at row 0"):
        MIXED.resolve(batch('{"rows": [{"size": true}]}'))


def test_a_row_is_shown_in_few_letters_however_many_texts_it_has():
    names = tuple(f"x{at}" for at in range(100))
    assert Rows(("a",), None, (["y" * 1_000],)).row(0) == {"a": "y" * 400}
    shown = Rows(names, None, (["y" * 1_000],) * 100).row(0)
    assert len(shown) == 40
    assert sum(map(len, shown.values())) == 2_000

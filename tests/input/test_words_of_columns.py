"""Rows with ever-new categories: the codes are the same, and old words are not read again."""

import copy
import pickle

import numpy as np
import pytest

from dyncrp.input import encoding as module
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import CATEGORY, Entry


def codes(encoding, *cells):
    X, encoding = encoding.encode({"door": list(cells)})
    return X[:, 0].tolist(), encoding


def test_codes_count_on():
    start = Encoding((Entry("door", CATEGORY, ("a", "b")),))
    found, one = codes(start, "b", "c", "a", "c")
    assert found == [1.0, 2.0, 0.0, 2.0]
    assert one.entries[0].words == ("a", "b", "c")
    assert codes(one, "c", "d") == ([2.0, 3.0], Encoding((Entry("door", CATEGORY, ("a", "b", "c", "d")),)))
    one = codes(one, "b")[1]
    assert codes(one, "a")[1] is one


def test_words_of_rows_that_were_refused_are_forgotten():
    """The encoding before them is used again, though they share what is known of words."""
    one = codes(Encoding((Entry("door", CATEGORY, ("a",)),)), "b")[1]
    refused = codes(one, "x", "y")[1]
    found, again = codes(one, "y", "b")
    assert (found, again.entries[0].words) == ([2.0, 1.0], ("a", "b", "y"))
    assert codes(again, "x", "y") == ([3.0, 2.0], Encoding((Entry("door", CATEGORY, ("a", "b", "y", "x")),)))
    assert codes(refused, "x", "y", "b")[0] == [2.0, 3.0, 1.0]


def test_old_words_are_not_read_again(monkeypatch):
    one = codes(Encoding((Entry("door", CATEGORY, tuple(map(str, range(1_000)))),)), "5")[1]
    looked = []
    monkeypatch.setattr(module, "as_word", lambda cell: looked.append(cell) or str(cell))
    monkeypatch.setattr(module, "enumerate", lambda words: pytest.fail("all words are read"), raising=False)
    part, words = module._encode(one.entries[0], ["7", "new", "7"], 0, lambda cell: False)
    assert (part.tolist(), len(words), looked) == ([7.0, 1000.0, 7.0], 1_001, ["new"])


@pytest.mark.parametrize("make", [lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy])
def test_a_copy_goes_on(make):
    one = codes(Encoding((Entry("door", CATEGORY, ("a",)),)), "b")[1]
    other = make(one)
    assert other == one
    assert codes(other, "c", "b", np.nan)[0][:2] == [2.0, 1.0]

"""What arrays that no family was given for are taken for."""

import warnings

import numpy as np
import pandas as pd
import pytest

from dyncrp import Bernoulli, DynamicalMixture

FLAGS = np.random.default_rng(0).integers(2, size=(40, 3))


@pytest.mark.parametrize(
    "X",
    [
        FLAGS,
        FLAGS > 0,
        FLAGS.astype(float),
        FLAGS.tolist(),
        np.vstack([FLAGS, FLAGS]),
        pd.DataFrame(FLAGS, columns=list("abc")),
    ],
)
def test_zeros_and_ones_that_are_taken_for_numbers_are_told_with_the_remedy(X):
    with pytest.warns(UserWarning, match=r"all 0 or 1, .*: Bernoulli\(\) takes them for booleans"):
        DynamicalMixture().fit(X)


@pytest.mark.parametrize(
    "X",
    [
        FLAGS[:9],
        FLAGS[:, :1],
        np.vstack([FLAGS, [[0, 2, 0]]]),
        np.zeros((40, 3)),
        pd.DataFrame(FLAGS > 0)[[0]].add_prefix("x"),
    ],
)
def test_other_rows_are_taken_without_a_word(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DynamicalMixture().fit(X)
        DynamicalMixture(Bernoulli()).fit(FLAGS)


@pytest.mark.parametrize("word", ["", "?", "NA"])
def test_a_word_for_a_missing_cell_among_numbers_of_a_frame_is_one(word):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + 9.0 * rng.integers(3, size=(60, 1))
    X[[0, 17], 0] = np.nan
    words = pd.DataFrame({"a": [word if np.isnan(a) else a for a in X[:, 0]], "b": X[:, 1]})
    expected = DynamicalMixture().fit(pd.DataFrame(X, columns=["a", "b"])).labels_
    assert DynamicalMixture().fit(words).labels_.tolist() == expected.tolist()
    row_by_row = DynamicalMixture(warmup=40)
    for row in range(60):
        row_by_row.partial_fit(words[row : row + 1])
    assert row_by_row.predict(words).tolist() == DynamicalMixture(warmup=40).fit(words).predict(words).tolist()


@pytest.mark.parametrize("X", [np.array(5.0), {"a": [1.0, 2.0]}, None, np.zeros(40), [{"a": 1.0}] * 40, "words"])
def test_what_has_no_rows_and_columns_is_refused_in_words(X):
    with pytest.raises(ValueError, match="X must be two-dimensional"):
        DynamicalMixture().fit(X)

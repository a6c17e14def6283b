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

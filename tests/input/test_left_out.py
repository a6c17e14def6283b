"""Which columns are no features: the kinds that real files have, and their look-alikes that are features."""

import re

import numpy as np
import pandas as pd
import pytest

from dyncrp import DynamicalMixture, Multinomial
from dyncrp.input.left_out import why_left_out

RNG = np.random.default_rng(0)
N = 200
WORDS = [f"w{i}" for i in range(N)]
SENTENCES = [f"the door of room {i} does not close any more" for i in range(N)]

# The name, the kind, the cells and the reason.
COLUMNS = {
    "an index": ("x", "number", np.arange(N) + 7.0, "counts the rows"),
    "an index that falls": ("x", "number", 500.0 - np.arange(N), "counts the rows"),
    "an index with gaps": ("x", "number", np.flatnonzero(RNG.random(2 * N) < 0.6)[:N] + 0.0, "counts the rows"),
    "even steps": ("t", "number", 0.1 * np.arange(N), "counts the rows"),
    "years, each once": ("year", "number", 1900.0 + np.arange(100), "counts the rows"),
    "times since 1970": ("x", "number", 1.7e9 + np.sort(RNG.integers(0, 9000, N)), "times"),
    "an id in no order": ("PassengerId", "number", RNG.permutation(N) + 100.0, "every row differs"),
    "an id with large gaps": ("user_id", "number", np.cumsum(RNG.integers(1, 50, N)) + 0.0, "every row differs"),
    "an id, now and then twice": ("Id", "number", np.r_[RNG.permutation(N - 9), :9] + 100.0, "nearly all different"),
    "an index of pandas in no order": ("Unnamed: 0", "number", RNG.permutation(N) + 0.0, "every row differs"),
    "an index of R": ("", "category", WORDS, "every row differs"),
    "names": ("name", "category", [*WORDS[:-3], "w1", "w2", "w3"], "nearly all different"),
    "sentences": ("comment", "category", SENTENCES, "sentences"),
    "a constant": ("x", "number", np.full(N, 3.0), "constant"),
    "a constant category": ("currency", "category", ["EUR"] * N, "constant"),
    "a constant boolean": ("on", "boolean", ["true"] * N, "constant"),
    "nothing": ("x", "number", np.empty(0), "empty"),
    # features
    "a sensor that rises": ("energy", "number", np.cumsum(RNG.integers(1, 50, N)) + 0.0, ""),
    "speeds in order": ("x", "number", np.sort(RNG.choice(30000, N, replace=False)) + 0.0, ""),
    "a sum that rises": ("id", "number", np.cumsum(RNG.exponential(1.0, N)), ""),
    "a visitor who comes again": ("user_id", "number", np.repeat(np.arange(N / 2), 2), ""),
    "a word that ends in id": ("paid", "number", RNG.permutation(N) + 0.0, ""),
    "states, twice each": ("state", "category", WORDS[:100] * 2, ""),
    "a few rows": ("id", "number", np.arange(19.0), ""),
    "a few names": ("name", "category", WORDS[:19], ""),
    "sentences to choose from": ("answer", "category", SENTENCES[:50] * 4, ""),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_what_is_no_feature(case):
    name, kind, cells, reason = COLUMNS[case]
    assert why_left_out(name, kind, cells) == reason


def test_a_frame_of_sentences_alone_is_refused_with_a_call_that_works():
    frame = pd.DataFrame({"id": [f"v{i}" for i in range(N)], "my review": SENTENCES})
    with pytest.raises(ValueError, match="no columns to cluster") as refused:
        DynamicalMixture().fit(frame)
    call = re.search(r"; (DynamicalMixture\(.*\)) clusters the sentences by their words", str(refused.value)).group(1)
    model = eval(call, {"DynamicalMixture": DynamicalMixture, "Multinomial": Multinomial, "X": frame})
    assert len(model.labels_) == N

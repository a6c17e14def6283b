"""Typical rows of a table, and its latest rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dyncrp.arrays.counts import Counts
from dyncrp.stream.examples import Examples, choose
from dyncrp.stream.stream import Stream
from dyncrp.views.explain import within_words


def examples_of(stream: Stream, table: int | str) -> Examples:
    """Return examples of an open table, given by id or name; see ``DynamicalMixture.examples``."""
    with stream.turn.to_copy():
        return _examples_of(stream, table)


def _examples_of(stream: Stream, table: int | str) -> Examples:
    found, learner = stream.find(table), stream.learner
    if learner.examples is None:
        raise ValueError("no rows are kept as examples: give n_examples, such as DynamicalMixture(n_examples=5)")
    engine, kept = learner.engine, learner.examples.of(found)
    place = engine.ids.tolist().index(found)
    if not isinstance(kept.sample.X, Counts):
        return choose(engine.model.family, engine.state.stats[place], kept)
    columns = np.unique(kept.sample.X.indices)
    family, stats = within_words(engine, columns)
    chosen = choose(family, stats[place], kept, columns)
    return Examples(*(rows._replace(X=_as_documents(stream, rows.X)) for rows in chosen))


def _as_documents(stream: Stream, rows: Counts) -> Any:
    """Return rows as dictionaries of counts, or as a sparse array if words have no names."""
    vocabulary = stream.input.vocabulary
    if vocabulary is None:
        return csr_array((rows.data, rows.indices, rows.indptr), shape=(len(rows), stream.n_columns))
    words = np.array(vocabulary.words, dtype=object)[rows.indices]
    cells = list(zip(words.tolist(), rows.data.astype(np.int64).tolist(), strict=True))
    return [dict(cells[begin:end]) for begin, end in pairwise(rows.indptr.tolist())]

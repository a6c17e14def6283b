"""The engine in C++ for counts of words: hands sparse rows to the loop, and its state in and out as plain arrays.

It computes what ``reference.run`` computes, with an index from words to the tables that have them: see
``cpp/multinomial.hpp``. Rows are ``Counts``, and a dense array (n, D) will do. Columns are words, and may grow in
number.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dyncrp.arrays.counts import Counts, WordCounts, as_counts
from dyncrp.engine import schema
from dyncrp.engine.native import LoopEngine, modes_of, rules_of
from dyncrp.engine.types import (
    MOST_DENSE,
    Arrays,
    Float,
    Int,
    LazyTrace,
    Model,
    State,
    TableConstraints,
    Trace,
    state_of,
)
from dyncrp.families import Family, Multinomial, protocols

WORDS = ("words_indptr", "words_indices", "words_counts")  # by the schema, the parts of Counts


def has_code_for(family: Family) -> bool:
    """Whether the loop computes this family."""
    return type(family) is Multinomial


class TextEngine(LoopEngine):
    """Streaming inference for one model and one stream of documents. n_features: columns seen so far."""

    def __init__(self, model: Model, n_features: int) -> None:
        family = model.family
        if not isinstance(family, Multinomial) or not has_code_for(family) or family.concentration is None:
            raise ValueError(f"there is no engine for counts of {family!r}")
        super().__init__(*protocols.settings(family, 0), modes_of(model), rules_of(model))
        self.model = model
        self.n_features = n_features

    def run(self, X: Counts | Float, times: Float, told: TableConstraints | None = None) -> Trace:
        """Learn from a segment of the stream: rows X at times (n,), valid and in order; see ``reference.run``."""
        rows = as_counts(X)
        self.n_features = max(self.n_features, rows.n_columns)
        return LazyTrace(partial(getattr, self._learn_sparse(rows.csr, times, *(told or ()))))

    def run_one(self, x: Counts | Float, t: float) -> tuple[int, float]:
        """Learn from one document, Counts of one row or (D,); return its label and its log evidence."""
        row = _one(x)
        self.n_features = max(self.n_features, row.n_columns)
        return self._run_one_sparse(row.csr, t)

    def predict_one(self, x: Counts | Float, t: float) -> tuple[int, float]:
        """Return the label that a document would get at time t, and its log evidence; changes nothing."""
        return self._predict_one_sparse(_one(x).csr, t)

    def predict(self, X: Counts | Float, times: Float) -> Int:
        """Return the label that each row by itself would get, (n,); changes nothing."""
        return self._predict_sparse(as_counts(X).csr, times)

    def responsibilities(self, X: Counts | Float, times: Float) -> Float:
        """Return softmax(scores) of each row by itself, (n, K + 1), the last for a new table; changes nothing."""
        return self._responsibilities_sparse(as_counts(X).csr, times)

    def log_density(self, X: Counts | Float, times: Float) -> Float:
        """Return log p(x | everything so far) of each row by itself, (n,); changes nothing."""
        return self._log_density_sparse(as_counts(X).csr, times)

    def word_counts(self, table: int) -> WordCounts:
        """Return the words that an open table has, and how often."""
        if table not in self.ids:
            raise ValueError(f"there is no open table {table!r}")
        return WordCounts(*self._words_of(int(table)))

    def word_totals(self) -> WordCounts:
        """Return the words that some open table has, and how often all of them together do."""
        return WordCounts(*self._all_words())

    def word_stats(self, columns: Int) -> Float:
        """Return what open tables know, (K, 2 + m): rows, counts in columns (m,) that count up, those in all others."""
        arrays = self.arrays()
        indptr, indices, counts = (arrays[name] for name in WORDS)
        K, m = len(arrays["sizes"]), len(columns)
        tables = np.repeat(np.arange(K), np.diff(indptr))
        at = np.searchsorted(columns, indices)
        places = np.where(np.append(columns, -1)[at] == indices, at, m)
        found = np.zeros((K, 2 + m))
        found[:, 0] = arrays["sizes"]
        np.add.at(found, (tables, 1 + places), counts)
        return found

    def widen(self, n_features: int) -> TextEngine:
        """Return an engine of more columns: this one, to which they make no difference."""
        self.n_features = max(self.n_features, n_features)
        return self

    @property
    def state(self) -> State:
        """A copy of the state, as the reference has it; for few tables and words, since it is dense."""
        arrays = self.arrays()
        K, D = len(arrays["table_ids"]), self.n_features
        if K * D > MOST_DENSE:
            raise ValueError(
                f"{K} tables of {D} words are too many for a dense array: ask the engine for word_counts of a table"
            )
        indptr, indices, data = (arrays[name] for name in WORDS)
        rows = Counts(indptr, indices, data, D).toarray()
        stats = np.hstack([arrays["sizes"][:, None].astype(np.float64), rows])
        return state_of(arrays, self.model.modes, stats)

    @property
    def seating(self) -> State:
        """A copy of the state without what tables know of words: stats are (K, 0)."""
        arrays = self.arrays()
        return state_of(arrays, self.model.modes, np.zeros((len(arrays["table_ids"]), 0)))

    def restore(self, arrays: Arrays) -> None:
        """Continue from what ``arrays`` of this or another engine returned; anything else is a ``ValueError``."""
        if "stats" in arrays:
            arrays = _from_dense(arrays)
        sizes = {"M": len(self.model.modes.rates)}
        found = schema.check_state(arrays, schema.OF_COUNTS, sizes, self.model.family)
        rows = Counts.checked((found[name] for name in WORDS), len(found["table_ids"]))
        lengths = np.unique(np.add.reduceat(np.append(rows.data, 0.0), rows.indptr[:-1]) * (np.diff(rows.indptr) > 0))
        schema.check(found, {"mode_sums": schema.WORDS["mode_sums"]}, sizes | {"L": len(lengths)})
        self.go_on(found)
        self.n_features = max(self.n_features, rows.n_columns)


def _one(x: Counts | Float) -> Counts:
    return x if isinstance(x, Counts) else as_counts(x[None, :])


def _from_dense(arrays: Arrays) -> Arrays:
    """Return the arrays of the reference with sparse ones in place of stats."""
    stats = schema.check(arrays, {"stats": schema.STATS["stats"]})["stats"]
    return arrays | dict(zip(WORDS, as_counts(stats[:, 1:], "its array 'stats'").csr, strict=True))

"""The engine in C++: hands a model and rows to the loop in ``cpp/``, and its state in and out as plain arrays.

One engine belongs to one stream and is changed in place. It computes what ``reference.run`` computes; the tests compare
the two on generated streams. Rows are learned without the interpreter's lock: several threads may predict at once,
those who come while one learns wait, and a second one that would learn is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dyncrp.arrays.counts import Counts, WordCounts
from dyncrp.engine import loop, schema
from dyncrp.engine.types import (
    GRAIN,
    MOST_DENSE,
    Arrays,
    Complex,
    Engine,
    Float,
    Int,
    LazyTrace,
    Model,
    Rows,
    State,
    TableConstraints,
    Trace,
    state_of,
)
from dyncrp.families import Columns, Family, protocols
from dyncrp.families.protocols import Compiled, is_compiled

LARGEST_COUNT = 1 << 62  # that the loop's integers hold
WORDS = ("words_indptr", "words_indices", "words_counts")  # by the schema, the parts of Counts


def has_code_for(family: Family) -> bool:
    """Whether the loop computes this family; of others, and of those derived from ours, only the reference knows."""
    if type(family) is Columns:
        return all(is_compiled(part) and type(part).__name__ in loop.PARTS for _, part in family.parts)
    return is_compiled(family)


def engine_for(model: Model, n_features: int) -> NativeEngine:
    """Return an engine for rows of the model's kind."""
    return (TextEngine if model.family.rows is Counts else NativeEngine)(model, n_features)


class NativeEngine(loop.Engine):
    """Streaming inference for one model and one stream of D features."""

    def __init__(self, model: Model, n_features: int) -> None:
        if not has_code_for(model.family):
            raise ValueError(f"there is no native engine for {model.family!r}")
        told = protocols.settings(model.family, n_features)
        super().__init__(*told, modes_of(model), rules_of(model), model.family.safe_norm)
        self.model = model
        self.n_features = n_features

    def run(self, X: Rows, times: Float, told: TableConstraints | None = None) -> Trace:
        """Learn from a segment of the stream: rows X at times (n,), valid and in order; see ``reference.run``."""
        return LazyTrace(self._learn(X, times, *(told or ())).__getattribute__)

    @property
    def latest(self) -> Trace:
        """What the rows of the latest ``run`` did, as far as it came."""
        return LazyTrace(self._latest.__getattribute__)

    def set_alpha(self, alpha: float) -> None:
        """Let alpha be this from the next observation on."""
        model = replace(self.model, alpha=alpha)
        self._set_rules(rules_of(model))
        self.model = model

    @property
    def seating(self) -> State:
        """The state."""
        return self.state

    @property
    def state(self) -> State:
        """A copy of the state, as the reference has it."""
        arrays = self.arrays()
        return state_of(arrays, self.model.modes, arrays["stats"], arrays.get("squares"))

    def arrays(self) -> Arrays:
        """Return all that the next step needs, to the bit, as plain arrays."""
        found: Arrays = {name: np.asarray(value) for name, value in self._snapshot().items()}
        for name in {"mode_states", "mode_total", "mode_sums"} & found.keys():
            found[name] = found[name].view(np.complex128)
        if self._cells.any():
            found["squares"] = np.ascontiguousarray(found["cells"][:, self._cells])
        return found

    def go_on(self, arrays: Arrays) -> None:
        """Continue from arrays that are checked: the loop wants numbers as such, and complex ones as pairs."""
        given: dict[str, Any] = dict(arrays)
        for name, array in arrays.items():
            if array.shape == ():
                given[name] = array.item()
            elif array.dtype == np.complex128:
                given[name] = np.ascontiguousarray(array).view(np.float64)
        self._restore(given)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), self.model, self.n_features, self.arrays())

    def restore(self, arrays: Arrays) -> None:
        """Continue from what ``arrays`` of this or another engine returned; anything else is a ``ValueError``."""
        found = schema.check_state(arrays, schema.OF_ROWS, self._sizes, self.model.family)
        if len(self._cells):
            K = len(found["stats"])
            found["cells"] = np.array(found.get("cells", np.full((K, len(self._cells)), np.nan)))  # NaN: not recorded
            if "squares" in found:
                found["cells"][:, self._cells] = found["squares"]
        self.go_on(found)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The sizes that the schema has symbols for; restoring a state must not take the time to find out."""
        family, D = self.model.family, self.n_features
        S, P = family.empty(D).shape[1], protocols.squares(family, np.zeros((1, D))).shape[1]
        sizes = {"S": S, "P": P, "M": len(self.model.modes.rates), "D": D, "R": _extra_width(family, D) or D}
        return sizes | ({"B": len(self._cells)} if len(self._cells) else {})

    @cached_property
    def _cells(self) -> NDArray[np.bool_]:
        """Of the numbers in ``cells``, which are squares; none unless the family is Columns."""
        family = self.model.family
        if not isinstance(family, Columns):
            return np.zeros(0, dtype=bool)
        kinds = (
            [True] * (p.squares.stop - p.squares.start) or [False] * _extra_width(p.family, len(p.at))
            for p in family.pieces
        )
        return np.array([is_square for some in kinds for is_square in some], dtype=bool)

    def widen(self, n_features: int) -> NativeEngine:
        """Return an engine of more features, as if every observation so far had had 0 in the new ones."""
        family = self.model.family
        arrays = self.arrays()
        stats = arrays["stats"]
        arrays["stats"] = protocols.widen(family, stats, n_features)
        if "squares" in arrays:
            arrays["squares"] = protocols.widen_squares(family, stats, arrays["squares"], n_features)
        if isinstance(family, Compiled) and family.extra is not None:
            added = family.widen_extra(stats, n_features - self.n_features)
            arrays[family.extra] = np.hstack([arrays[family.extra], added])
        wider = NativeEngine(self.model, n_features)
        wider.restore(arrays)
        return wider


class TextEngine(NativeEngine):
    """The same for rows that are Counts of words, with an index from words to the tables that have them.

    See ``cpp/multinomial.hpp``. A dense array (n, D) will do. n_features: columns seen so far; there may be more.
    """

    def run(self, X: Rows, times: Float, told: TableConstraints | None = None) -> Trace:
        """Learn from a segment of the stream: rows X at times (n,), valid and in order; see ``reference.run``."""
        self.widen(X.shape[1])
        return super().run(X, times, told)

    def run_one(self, x: Rows, t: float) -> tuple[int, float]:
        """Learn from one document, Counts of one row or (D,); return its label and its log evidence."""
        self.n_features = max(self.n_features, x.n_columns if isinstance(x, Counts) else len(x))
        return self._run_one_of_words(x, t)

    def predict_one(self, x: Rows, t: float) -> tuple[int, float]:
        """Return the label that a document would get at time t, and its log evidence; changes nothing."""
        return self._predict_one_of_words(x, t)

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
        if "stats" in arrays:  # of the reference
            stats = schema.check(arrays, {"stats": schema.STATS["stats"]})["stats"]
            words = csr_array(stats[:, 1:])
            csr = words.indptr.astype(np.int64), words.indices.astype(np.int64), words.data
            arrays = arrays | dict(zip(WORDS, csr, strict=True))
        sizes = {"M": len(self.model.modes.rates)}
        found = schema.check_state(arrays, schema.OF_COUNTS, sizes, self.model.family)
        rows = Counts.checked((found[name] for name in WORDS), len(found["table_ids"]), GRAIN)
        if np.sum(rows.data) > GRAIN * 2.0**53:  # lengths of tables are rounded, and so is which of them are equal
            found.pop("mode_sums", None)
        lengths = np.unique(np.add.reduceat(np.append(rows.data, 0.0), rows.indptr[:-1]) * (np.diff(rows.indptr) > 0))
        schema.check(found, {"mode_sums": schema.WORDS["mode_sums"]}, sizes | {"L": len(lengths)})
        self.go_on(found)
        self.widen(rows.n_columns)


def rebuild(kind: Callable[[Model, int], Engine], model: Model, n_features: int, arrays: Arrays) -> Engine:
    """Return an engine that goes on from these arrays: a copy, or what was pickled."""
    engine = kind(model, n_features)
    if len(arrays["table_ids"]):
        engine.restore(arrays)
    return engine


def _extra_width(family: Family, n_features: int) -> int:
    """Return how many numbers the loop keeps for each table beside ``stats``, 0 if none."""
    return family.extra_width(n_features) if isinstance(family, Compiled) and family.extra is not None else 0


def _pairs(numbers: Complex) -> list[tuple[float, float]]:
    return [(number.real, number.imag) for number in numbers.tolist()]


def modes_of(model: Model) -> list[loop.Mode]:
    """Return the modes of the dynamics, as the loop wants them."""
    amplitudes, rates = model.modes
    return [loop.Mode(a, rate) for a, rate in zip(_pairs(amplitudes), _pairs(rates), strict=True)]


def rules_of(model: Model) -> loop.Rules:
    """Return how observations are assigned, as the loop wants it."""
    rules = model.rules
    return loop.Rules(
        alpha=model.alpha,
        variational=rules.assignment == "variational",
        posterior=rules.table_count == "posterior",
        n_iter=min(int(rules.n_iter), LARGEST_COUNT),
        new_table_threshold=float(rules.new_table_threshold),
        max_tables=min(int(rules.max_tables or 0), LARGEST_COUNT),
        prune_below=float(rules.prune_below),
        clip=model.clip,
        memory=float(model.memory),
    )

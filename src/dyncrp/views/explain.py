"""Why a row joins its table: its log odds, feature by feature; ``DynamicalMixture.explain``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from dyncrp.arrays.counts import Counts
from dyncrp.engine.reference import advance, prior_weights
from dyncrp.engine.types import Engine, Float, Int, Rows, WordEngine
from dyncrp.families import Family, protocols
from dyncrp.input.encoding import Encoding, is_frame
from dyncrp.input.entries import join_columns
from dyncrp.input.input import NamedRows
from dyncrp.stream.stream import Stream

MISSING = "missing"  # the value of a missing cell
MOST_LISTED = 15  # features
LONGEST_LABEL = 48  # characters for a feature and its value


class Odds(NamedTuple):
    """The log odds of one table against another for a row, in nats: ``prior`` and ``features`` add up to ``total``.

    rival: the id of the other table, −1 for a new one.
    prior: the log of the ratio of the prior weights.
    features: (D,) the term of each feature, log p(x_d) at the table minus log p(x_d) at the other; 0 if missing.
    """

    rival: int
    prior: float
    features: Float

    @property
    def total(self) -> float:
        """The log odds: 0 is a tie, log 9 is nine to one."""
        return self.prior + float(np.sum(self.features))


class Explanation(NamedTuple):
    """Why a row joins a table: the log odds of that table against the best other one, and against a new one.

    table: the table that the row would join, −1 for a new one.
    against_runner_up: the odds against the best open table, other than ``table``; None if none has any weight.
    against_new: the odds against a new table; None if the row opens one.
    names: (D,) the names of the features.
    values: (D,) the values of the row as texts; "missing" for a missing cell.
    table_names: the names of tables by id.
    words: whether features are the words of a document, and values their counts.

    ``str`` returns a list of the features, those with the largest terms first.
    """

    table: int
    against_runner_up: Odds | None
    against_new: Odds | None
    names: tuple[str, ...]
    values: tuple[str, ...]
    table_names: Mapping[int, str]
    words: bool = False

    @property
    def runner_up(self) -> int | None:
        """The best open table other than ``table``, None if there is none."""
        return None if self.against_runner_up is None else self.against_runner_up.rival

    @property
    def odds(self) -> tuple[Odds, ...]:
        """The odds against the runner-up and against a new table, without those that are None."""
        return tuple(odds for odds in (self.against_runner_up, self.against_new) if odds is not None)

    def call(self, table: int) -> str:
        """Return a table in words, with its id and its name; −1 is a new one."""
        name = self.table_names.get(table)
        return "a new table" if table < 0 else f"table {table}" + (f" ({name})" if name else "")

    def ranked(self, most: int = MOST_LISTED) -> tuple[list[int], list[int]]:
        """Return the features with the largest terms in any of the odds, at most ``most``, and the others in order.

        There is never a single other one, which would take as much space as the line that stands for it.
        """
        D = len(self.names)
        size = np.max(np.abs([odds.features for odds in self.odds] or np.zeros((1, D))), axis=0)
        order = np.argsort(-size, kind="stable").tolist()
        n = D if D - most <= 1 else most
        return order[:n], sorted(order[n:])

    def label(self, d: int) -> str:
        """Return a feature and its value, such as "bytes = 120", "bytes missing" or "storm × 2", shortened if long."""
        name, value = self.names[d], self.values[d]
        if self.words:
            text = name if value == "1" else f"{name} × {value}"
        else:
            text = f"{name} missing" if value == MISSING else f"{name} = {value}"
        return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"

    def label_rest(self, n: int) -> str:
        """Return the label of the line for n other features."""
        return f"{n} other {'words' if self.words else 'features'}"

    def __str__(self) -> str:
        """Return the terms as lines, the largest ones first."""
        if not self.odds:
            return f"{self.call(self.table)}: no other table has any weight"
        first, others = self.ranked()
        lines = [["log odds in nats", *(f"against {self.call(odds.rival)}" for odds in self.odds)]]
        lines.append(["prior weight", *(signed(odds.prior) for odds in self.odds)])
        lines += [[self.label(d), *(signed(odds.features[d]) for odds in self.odds)] for d in first]
        if others:
            sums = (signed(np.sum(odds.features[others])) for odds in self.odds)
            lines.append([self.label_rest(len(others)), *sums])
        lines.append(["total", *(signed(odds.total) for odds in self.odds)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = [
            "  ".join(
                [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
            )
            for line in lines
        ]
        return "\n".join([self.call(self.table), *shown])


def signed(nats: float) -> str:
    """Return a number with its sign and two decimals.

    >>> signed(2.5), signed(-0.001)
    ('+2.50', '+0.00')
    """
    return f"{round(float(nats), 2) + 0.0:+.2f}"  # −0 becomes 0


def explain(stream: Stream, x: Any, t: Any = None) -> Explanation:
    """Return why one row x would join its table at time t; see ``DynamicalMixture.explain``."""
    vocabulary, encoding = stream.input.vocabulary, stream.input.encoding
    names: Any = stream.input.names
    if vocabulary is not None and stream.input.holds_words([x], stream.family):
        X, names = [x], vocabulary.names(vocabulary.read([x]))
    elif hasattr(x, "tocsr") or isinstance(x, NamedRows):
        X = x
    else:
        X, encoding = as_row(x, names, encoding)
    engine, rows, times = stream.read(X, None if t is None else [t])
    row = Counts.one(rows) if isinstance(rows, Counts) else rows[0]
    return explain_row(engine, row, float(times[0]), names, encoding, stream.names)


def explain_row(
    engine: Engine,
    x: Rows,
    t: float,
    names: Sequence[str | None] | None = None,
    encoding: Encoding | None = None,
    table_names: Mapping[int, str] | None = None,
) -> Explanation:
    """Return why a row x (D,), checked by the family, would join its table at time t.

    x may be Counts of one row; then its features are the words that it has. names: of the columns.

    The score of a table is log weight + log p(x | its data). With ``assignment="variational"`` this is close to the
    score that decides, but not equal.

    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.0], [9.0, 0.0], [0.0, 0.0]])
    >>> found = explain_row(model.engine_, np.array([8.0, 3.0]), 3.0, ["height", "width"])
    >>> found.table, found.runner_up, found.against_runner_up.total > 0.0
    (1, 0, True)
    """
    model = engine.model
    state = advance(engine.seating, t, model.modes)
    if isinstance(x, Counts):
        X, (family, tables) = np.append(x.data, 0.0)[None], within_words(engine, x.indices)
    else:
        X, family, tables = x[None], model.family, state.stats
    tables = np.vstack([tables, np.zeros(tables.shape[1])])
    ids = np.append(state.ids, -1)
    with np.errstate(divide="ignore"):
        log_weights = np.log(prior_weights(state, model))
    scores = log_weights + family.log_predictive(X, tables)[0]
    table = engine.predict_one(x, t)[0]
    place = int(np.flatnonzero(ids == table)[0])
    others = np.where(ids == table, -np.inf, scores)[:-1]
    rivals = [int(np.argmax(others)) if len(others) else place, len(ids) - 1]
    # A table without weight is not a rival, since the log odds against it are infinite.
    rivals = [rival if rival != place and log_weights[rival] > -np.inf else -1 for rival in rivals]
    terms = protocols.log_predictive_terms(family, X, tables[[place, *rivals]])[0]
    if isinstance(x, Counts):
        terms = terms[:, :-1]
    against_runner_up, against_new = (
        None if rival < 0 else Odds(int(ids[rival]), float(log_weights[place] - log_weights[rival]), terms[0] - term)
        for rival, term in zip(rivals, terms[1:], strict=True)
    )
    odds, called = (against_runner_up, against_new), dict(table_names or {})
    if isinstance(x, Counts):
        named = dict(enumerate(() if names is None else names))
        listed = [f"x{d}" if named.get(d) is None else str(named[d]) for d in x.indices.tolist()]
        return Explanation(table, *odds, tuple(listed), tuple(f"{n:.0f}" for n in x.data), called, words=True)
    if encoding is not None:
        names = encoding.features
    elif names is None:
        names = [f"x{d}" for d in range(len(x))]
    return Explanation(table, *odds, tuple(map(str, names)), _values(x, encoding), called)


def within_words(engine: Engine, columns: Int) -> tuple[Family, Float]:
    """Return the present family and the stats of open tables, (K, 2 + m), over m words and one more for all others.

    columns: (m,) the words, ascending; some may be new.
    """
    counted = cast(WordEngine, engine)
    known, totals = counted.word_totals()
    stats = np.zeros((1, 2 + max(int(np.max(columns, initial=0)), int(np.max(known, initial=0)))))
    stats[0, 1 + known] = totals
    return engine.model.family.given(stats, columns), counted.word_stats(columns)


def as_row(x: Any, names: Sequence[str] | None, encoding: Encoding | None) -> tuple[Any, Encoding | None]:
    """Return an array or a DataFrame with one row, and the encoding with the new words of this row.

    x: numbers (D,) or (1, D); a DataFrame of one row; or a mapping or Series from the names of the features.

    >>> as_row({"b": 2.0, "a": 1.0}, ["a", "b"], None)[0]
    array([[1., 2.]])
    """
    if getattr(x, "ndim", 0) == 1 and hasattr(x, "to_dict") and names is not None:
        x = x.to_dict()
    named = isinstance(x, Mapping)
    if named:
        if names is None:
            raise ValueError("x has names, but this model learned from arrays without names: give the numbers in order")
        wanted = list(names if encoding is None else encoding.features)
        absent = [str(name) for name in wanted if name not in x]
        if absent:
            raise ValueError(f"x must have every feature, but has no {join_columns(absent)}; NaN is a missing cell")
        x = {name: [x[name]] for name in wanted}
    if encoding is not None and (named or is_frame(x)):
        x, encoding = encoding.encode(x)
    elif named:
        x = np.array(list(x.values())).T
    elif not is_frame(x) and np.ndim(x) == 1:
        x = np.asarray(x)[None]
    if np.ndim(x) == 2 and len(x) != 1:
        raise ValueError(f"x must be one row, got {len(x)}; predict_proba takes many")
    return x, encoding


def _values(x: Float, encoding: Encoding | None) -> tuple[str, ...]:
    """Return the values of a row (D,) as texts."""
    if encoding is None:
        return tuple(MISSING if np.isnan(value) else f"{value:.6g}" for value in x.tolist())
    cells = zip(encoding.features, x.tolist(), strict=True)
    return tuple(MISSING if np.isnan(value) else encoding.label(name, value) for name, value in cells)

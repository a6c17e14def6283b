"""What is missing in a row, given the cells that are there: ``DynamicalMixture.fill`` and ``predict_cells``.

The predictive of a cell is a mixture over the tables and a new one. The weight of a table is its prior weight at the
time of the row, times the density of the cells that are there: see ``families/conditional.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from dyncrp.arrays.exchange import readable
from dyncrp.engine.reference import advance, prior_weights
from dyncrp.engine.types import Engine, Float
from dyncrp.families.cells import Cell, Codes, Number, mixture_quantile
from dyncrp.families.conditional import cells_given, log_present
from dyncrp.input.encoding import is_frame
from dyncrp.input.entries import BOOLEAN, CATEGORY, LEFT_OUT, LOG, Entry, as_cells, as_word, is_empty
from dyncrp.stream.stream import Stream
from dyncrp.views.filled import put_into_array, put_into_frame

ANOTHER = "another"  # the name of all categories that the model has not seen
MOST_NUMBERS = 2**22  # in a temporary array


@dataclass(frozen=True, eq=False)
class PredictedNumbers:
    """How a column of numbers is distributed in each of n rows, given their other cells: a mixture over K + 1 tables.

    Attributes
    ----------
    column : str
        The name of the column.
    weights : ndarray of shape (n, K + 1)
        The probability of each table given the other cells, in the order of ``table_ids_``; the last is a new one.
    cell : dyncrp.families.cells.Number
        How the column is distributed at each of these tables; the logarithm of the column, if that is modelled.
    log : bool
        Whether the column is modelled by z = sign(x) log(1 + \\|x\\|).

    Examples
    --------
    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 5.0], [9.0, 1.0], [0.2, 5.2]])
    >>> found = model.predict_cells([[0.1, float("nan")]], "x1")
    >>> found.mean.round(1), [end.round(1) for end in found.interval(0.9)]
    (array([4.8]), [array([2.5]), array([7.2])])
    """

    column: str
    weights: Float
    cell: Number
    log: bool = False

    @property
    def mean(self) -> Float:
        """The mean, (n,). If logarithms are modelled, the number whose logarithm is the mean one: about the median.

        A table with Student's t of one degree of freedom or less counts by its centre, since it has no mean.
        """
        return self._number(self._mean)

    @property
    def _mean(self) -> Float:
        return np.sum(self.weights * self.cell.center, axis=1)

    @property
    def std(self) -> Float:
        """The standard deviation, (n,). It is NaN if logarithms are modelled: use ``interval``.

        It is infinite if a table has Student's t of at most two degrees of freedom, as a new one of ``NormalGamma``
        with ``degrees`` up to 2, however small its weight is.
        """
        if self.log:
            return np.full(len(self.weights), np.nan)
        with np.errstate(invalid="ignore"):
            each = self.weights * (self.cell.variance + (self.cell.center - self._mean[:, None]) ** 2)
        return np.sqrt(np.sum(np.where(self.weights > 0.0, each, 0.0), axis=1))

    def quantile(self, q: float) -> Float:
        """Return the number that is not exceeded with probability q, 0 < q < 1: (n,)."""
        _check_share("q", q)
        return self._number(mixture_quantile(self.cell, self.weights, float(q)))

    def interval(self, level: float = 0.9) -> tuple[Float, Float]:
        """Return the ends of the interval with this probability, and as much below as above it: both (n,)."""
        _check_share("level", level)
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)

    def log_density(self, values: ArrayLike) -> Float:
        """Return log p of a value for each row, or of the same value for all: (n,). It is NaN where the value is."""
        given = np.asarray(readable(values, "values"), dtype=np.float64)
        if given.shape not in ((), self._mean.shape):
            raise ValueError(f"values must be a number, or {len(self.weights)} of them, got shape {given.shape}")
        x = np.broadcast_to(given, len(self.weights))
        z = np.sign(x) * np.log1p(np.abs(x)) if self.log else x
        found = logsumexp(self.cell.log_density(z), b=self.weights, axis=1)
        found = found - np.log1p(np.abs(x)) if self.log else found
        return np.where(np.isnan(x), np.nan, found)

    def _number(self, z: Float) -> Float:
        return np.sign(z) * np.expm1(np.abs(z)) if self.log else z


@dataclass(frozen=True, eq=False)
class PredictedCategories:
    """How a column of categories or booleans is distributed in each of n rows, given their other cells.

    Attributes
    ----------
    column : str
        The name of the column.
    categories : tuple
        Words, or codes if the model learned from arrays. The last one of categories is "another", for all that were
        never seen; for booleans there is none.
    probabilities : ndarray of shape (n, C)
        The probability of each category.
    weights : ndarray of shape (n, K + 1)
        The probability of each table given the other cells, in the order of ``table_ids_``; the last is a new one.
    """

    column: str
    categories: tuple[Any, ...]
    probabilities: Float
    weights: Float

    @property
    def likeliest(self) -> NDArray[Any]:
        """The likeliest category of each row that was seen, (n,)."""
        seen = len(self.categories) - (self.categories[-1:] == (ANOTHER,))
        codes = np.argmax(self.probabilities[:, :seen], axis=1)
        return np.array(self.categories[:seen], dtype=object)[codes]

    def log_density(self, values: Any) -> Float:
        """Return the log probability of a category for each row, or of the same for all: (n,).

        Categories are written as in the rows that were learned. One that was never seen is "another"; it is NaN where
        the value is missing.
        """
        n, last = len(self.weights), len(self.categories) - 1
        cells = [values] * n if np.ndim(values) == 0 else as_cells(values)
        named = self.categories[:last] if self.categories[last] == ANOTHER else self.categories
        places = {as_word(category): at for at, category in enumerate(named)}
        words = [as_word(cell) for cell in cells]
        if len(named) == len(self.categories):  # there is no other one: booleans
            words, last = [word if word in places else word.lower() for word in words], -1
        at = np.array([places.get(word, last) for word in words], dtype=np.int64)
        empty = np.fromiter(map(is_empty, cells), bool, len(cells))
        if len(at) != n or np.any((at < 0) & ~empty):
            raise ValueError(f"values must be {n} of the categories {self.categories}, got {values!r}")
        with np.errstate(divide="ignore"):
            return np.where(empty, np.nan, np.log(self.probabilities[np.arange(n), at]))


def _check_share(name: str, value: object) -> None:
    if not (isinstance(value, Real) and 0.0 < float(value) < 1.0):
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}")


def fill(stream: Stream, X: Any, times: ArrayLike | None = None) -> Any:
    """Return X with its missing cells filled in; see ``DynamicalMixture.fill``."""
    engine, rows, t = stream.read_cells(X, times)
    missing = np.isnan(rows)
    cells: dict[int, NDArray[Any]] = {
        d: np.empty(len(rows), dtype=object if _has_words(stream, d) else np.float64)
        for d in np.flatnonzero(np.any(missing, axis=0)).tolist()
    }
    size = max(1, MOST_NUMBERS // ((engine.n_tables + 1) * rows.shape[1]))
    partly = np.flatnonzero(np.any(missing, axis=1))
    for start in range(0, len(partly), size):
        some = partly[start : start + size]
        weights = _weights(engine, rows[some], t[some])
        wanted = np.flatnonzero(np.any(missing[some], axis=0)).tolist()
        for d, cell in cells_given(engine.model.family, rows[some], _tables(engine), wanted).items():
            at = missing[some, d]
            cells[d][some[at]] = _expected(_predicted(stream, cell, weights, d), stream, d)[at]
    return (put_into_frame if is_frame(X) else put_into_array)(X, missing, cells, stream.input)


def _expected(found: PredictedNumbers | PredictedCategories, stream: Stream, d: int) -> NDArray[Any]:
    """Return the value to fill in for each row: (n,)."""
    if isinstance(found, PredictedCategories):
        return found.likeliest
    if not _has_words(stream, d):
        return found.mean
    assert stream.input.encoding is not None  # a boolean that the family takes for a number
    return np.array([stream.input.encoding.label(found.column, mean) for mean in found.mean], dtype=object)


def predict_cells(
    stream: Stream, X: Any, column: int | str, times: ArrayLike | None = None
) -> PredictedNumbers | PredictedCategories:
    """Return how a column is distributed in each row; see ``DynamicalMixture.predict_cells``."""
    d = find_column(stream, column)
    engine, rows, t = stream.read_cells(X, times)
    rows = rows.copy()
    rows[:, d] = np.nan
    size = max(1, MOST_NUMBERS // ((engine.n_tables + 1) * rows.shape[1]))
    weights = [_weights(engine, rows[i : i + size], t[i : i + size]) for i in range(0, len(rows), size)]
    cell = cells_given(engine.model.family, rows, _tables(engine), [d])[d]
    return _predicted(stream, cell, np.concatenate(weights), d)


def find_column(stream: Stream, column: int | str) -> int:
    """Return the position in a row of a column, given by name or by position; raise ``ValueError`` if there is none."""
    encoding, names = stream.input.encoding, stream.input.names
    D = stream.engine.n_features
    if encoding is not None:
        names = tuple(encoding.names)
    every = [f"x{d}" for d in range(D)] if names is None else list(names)
    if isinstance(column, str):
        if column not in every:
            raise ValueError(f"there is no column {column!r}, only {every}")
        at = every.index(column)
    elif isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < len(every):
        at = int(column)
    else:
        raise ValueError(f"column must be a name or a position from 0 to {len(every) - 1}, got {column!r}")
    if encoding is None:
        return at
    entry = encoding.entries[at]
    if entry.kind == LEFT_OUT:
        raise ValueError(f"the model knows nothing of column {entry.name!r}, which it left out ({entry.reason})")
    return encoding.features.index(entry.name)


def _weights(engine: Engine, rows: Float, times: Float) -> Float:
    """Return the probability of each table and of a new one, given the cells that are there: (n, K + 1)."""
    model, state = engine.model, engine.seating
    logs = log_present(model.family, rows, _tables(engine))
    every, which = np.unique(times, return_inverse=True)
    with np.errstate(divide="ignore"):
        priors = np.log([prior_weights(advance(state, float(t), model.modes), model) for t in every])
    logs += priors[which]
    found: Float = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    return found


def _predicted(stream: Stream, cell: Cell, weights: Float, d: int) -> PredictedNumbers | PredictedCategories:
    """Return how cell d is distributed, given that at each table, and the weights of tables (n, K + 1)."""
    entry, names = _entry(stream, d), stream.input.names
    name = entry.name if entry is not None else f"x{d}" if names is None else names[d]
    if isinstance(cell, Codes):
        return _categories(cell, weights, entry, name)
    return PredictedNumbers(name, weights, cell, entry is not None and entry.kind == LOG)


def _categories(cell: Codes, weights: Float, entry: Entry | None, name: str) -> PredictedCategories:
    named: tuple[Any, ...] = tuple(range(cell.probabilities.shape[1]))
    if entry is not None and entry.kind == BOOLEAN:
        named = entry.words[::-1]  # those for 0 and for 1
    elif entry is not None and entry.kind == CATEGORY:
        named = entry.words
    found = weights @ cell.first(len(named))
    if np.any(cell.rest > 0.0):
        named = (*named, ANOTHER)
        found = np.hstack([found, np.maximum(1.0 - np.sum(found, axis=1, keepdims=True), 0.0)])
    return PredictedCategories(name, named, found, weights)


def _tables(engine: Engine) -> Float:
    """Return the statistics of the open tables, and of a new one: (K + 1, S)."""
    stats = engine.seating.stats
    return np.vstack([stats, np.zeros(stats.shape[1])])


def _entry(stream: Stream, d: int) -> Entry | None:
    """Return what column d of a row holds, None if there are only numbers."""
    encoding = stream.input.encoding
    return None if encoding is None else encoding[encoding.features[d]]


def _has_words(stream: Stream, d: int) -> bool:
    entry = _entry(stream, d)
    return entry is not None and entry.kind in (BOOLEAN, CATEGORY)

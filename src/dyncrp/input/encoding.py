"""Encoding: how named columns of numbers, categories and booleans become rows of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadRow
from dyncrp.families import Bernoulli, Categorical, Columns, Family, Gaussian, NormalGamma

Float = NDArray[np.float64]
NUMBER, LOG, BOOLEAN, CATEGORY, LEFT_OUT = KINDS = "number", "log", "boolean", "category", "left out"
IN_FILES = {BOOLEAN: "yes/no"}  # what version 1 of the model file calls a kind, where that differs
TIMES, COUNTER, CONSTANT, DIFFERS, EMPTY = "times", "counts the rows", "constant", "every row differs", "empty"
ROWS_TO_INFER = 1000  # the first ones decide what a column holds
FEW_ROWS = 20  # too few to tell from them that a column is constant, or counts the rows
MOST_NAMED = 20  # columns in a list of a message
LONGEST_QUOTE = 60  # characters of a cell in a message
EPOCHS = {"s": 1e0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # how many make a second
FIRST_SECOND, LAST_SECOND = 1e9, 3e9  # since 1970: the years 2001 to 2064
# What is asked of log1p(x) to be learned in place of x: nats a row, skewness of x, and clusters to be allowed for.
LEAST_GAIN, LEAST_SKEW, MOST_CLUSTERS = 0.3, 1.0, 4
FEWEST_VALUES = 10  # a column with fewer that are positive holds steps, whose density means nothing
NARROWEST = 0.05  # a cluster, as a share of the standard deviation: values may be rounded
N_STEPS = 30  # of expectation and maximisation


class Entry(NamedTuple):
    """What one column holds.

    words: of a boolean, the word for 1 and the one for 0; of a category, its categories in order of their codes.
    reason: why a column is left out.
    """

    name: str
    kind: str
    words: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Encoding:
    """How a set of named columns becomes rows X (n, D): an ``Entry`` for each column, in order.

    A number stays as it is; "log" is learned as sign(x) log(1 + \\|x\\|); yes is 1 and no is 0; a category is its code,
    0, 1, 2, … in order of appearance. What is missing is NaN. A column that is left out has no place in X, so D is the
    number of the others. An encoding never changes: ``encode`` returns the one that knows the new categories.

    >>> encoding = Encoding((Entry("x", "number"), Entry("flag", "category", ("SF",)), Entry("id", "left out")))
    >>> X, longer = encoding.encode({"x": [0.5, None], "flag": ["REJ", "SF"], "id": [1, 2]})
    >>> X
    array([[0.5, 1. ],
           [nan, 0. ]])
    >>> longer["flag"].words, encoding["flag"].words
    (('SF', 'REJ'), ('SF',))
    """

    entries: tuple[Entry, ...]

    _by_name: ClassVar[dict[str, Entry]]

    def __post_init__(self) -> None:
        counts = Counter(entry.name for entry in self.entries)
        object.__setattr__(self, "_by_name", {entry.name: entry for entry in self.entries})
        for entry in self.entries:
            if entry.kind not in KINDS:
                raise ValueError(f"column {entry.name!r} must be one of {', '.join(KINDS)}, got {entry.kind!r}")
            if counts[entry.name] > 1:
                raise ValueError(f"an encoding has each column once, but {entry.name!r} several times")
            if entry.kind == BOOLEAN and len(entry.words) != 2:
                raise ValueError(f"column {entry.name!r} needs a word for yes and one for no, got {entry.words!r}")

    def __getitem__(self, name: str) -> Entry:
        """Return what a column holds."""
        return self._by_name[name]

    @property
    def plain(self) -> bool:
        """Whether every column holds numbers that stay as they are."""
        return all(entry.kind == NUMBER for entry in self.entries)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [entry.name for entry in self.entries]

    @property
    def kinds(self) -> list[str]:
        """What each of them holds."""
        return [entry.kind for entry in self.entries]

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that have a place in X, in its order."""
        return tuple(entry.name for entry in self.entries if entry.kind != LEFT_OUT)

    @classmethod
    def infer(cls, columns: Any, names: Sequence[str] | None = None, *, by_type: bool = False) -> Encoding:
        """Return what columns hold, by their types and their first 1,000 cells.

        columns: a DataFrame of pandas or polars, or anything with ``columns[name]``. names: of its columns, if it does
        not list them as ``columns.columns`` or as a mapping does. by_type: whether only types count, for a family that
        was chosen for the columns: nothing is left out, and a number is a number.

        >>> Encoding.infer({"x": [0.5, 2.0, 1.5], "on": [True, False, None], "kind": ["a", "b", "a"]}).describe()
        'numbers: 1; categories: kind; booleans: 1'
        """
        if names is None:
            names = list(columns.columns if hasattr(columns, "columns") else columns)
        return cls(tuple(_infer(str(name), columns[name], by_type) for name in names))

    def encode(self, columns: Any, missing: Callable[[Any], bool] | None = None) -> tuple[Float, Encoding]:
        """Return rows X (n, D), and this encoding with the categories that are new in these rows appended.

        columns: a DataFrame or a mapping, with a sequence of n cells for each column that is not left out. A cell that
        does not fit raises ``BadRow``, whose column is counted in ``entries``. missing: tells whether a cell of a
        category is missing; by default None, NaN and blank text are.
        """
        parts, entries, n = [], [], None
        known = getattr(columns, "columns", columns)
        for at, entry in enumerate(self.entries):
            if entry.kind != LEFT_OUT:
                if entry.name not in known:
                    raise ValueError(f"there is no column {entry.name!r}, which the model was learned on")
                column = columns[entry.name]
                part, words = _encode(entry, column, at, missing or is_empty)
                if n is not None and len(part) != n:
                    raise ValueError(f"column {entry.name!r} has {len(part)} rows, but the one before has {n}")
                n = len(part)
                parts.append(part)
                entry = entry._replace(words=words)
            entries.append(entry)
        X = np.column_stack(parts) if parts else np.empty((0, 0))
        return np.ascontiguousarray(X), self if tuple(entries) == self.entries else Encoding(tuple(entries))

    def decode(self, X: Float) -> Float:
        """Return rows X (n, D) with log1p undone, such as centres.

        >>> Encoding((Entry("bytes", "log"),)).decode(np.log1p([[0.0], [99.0]])).round(9)
        array([[ 0.],
               [99.]])
        """
        logs = np.array([self[name].kind == LOG for name in self.features], dtype=bool)
        found = np.array(X)
        found[:, logs] = np.sign(X[:, logs]) * np.expm1(np.abs(X[:, logs]))
        return found

    def label(self, name: str, code: float) -> str:
        """Return what a value of a column in X stands for.

        >>> encoding = Encoding((Entry("on", "boolean", ("true", "false")), Entry("flag", "category", ("SF",))))
        >>> encoding.label("on", 1.0), encoding.label("flag", 0.0), encoding.label("flag", 7.0)
        ('true', 'SF', 'another')
        """
        entry = self[name]
        if entry.kind == BOOLEAN:
            return entry.words[0] if code >= 0.5 else entry.words[1]
        if entry.kind == CATEGORY:
            return entry.words[int(code)] if 0 <= code < len(entry.words) else "another"
        return f"{np.sign(code) * np.expm1(abs(code)) if entry.kind == LOG else code:.6g}"

    def families(self) -> tuple[Columns, ...]:
        """Return families with a part for each kind, to choose from by evidence; none if all columns are numbers.

        Tables have one width in each number in the first of them, and widths of their own in the second.
        """
        kinds = [self[name].kind for name in self.features]
        if all(kind in (NUMBER, LOG) for kind in kinds):
            return ()
        found = []
        for numbers in (Gaussian(), NormalGamma(degrees=1.0)):
            each = (numbers, (NUMBER, LOG)), (Bernoulli(), (BOOLEAN,)), (Categorical(), (CATEGORY,))
            places = [(tuple(at for at, kind in enumerate(kinds) if kind in those), family) for family, those in each]
            found.append(Columns([(at, family) for at, family in places if at]))
        return tuple(dict.fromkeys(found))

    def check_family(self, family: Family) -> None:
        """Refuse a family for numbers where there are categories.

        >>> Encoding((Entry("flag", "category"),)).check_family(NormalGamma())
        Traceback (most recent call last):
            ...
        ValueError: column 'flag' holds categories, and NormalGamma takes numbers: leave out the column; or leave out
        the family, or give one of Columns
        """
        numbers = family.continuous(len(self.features))
        for at, name in enumerate(self.features):
            if self[name].kind == CATEGORY and numbers[at]:
                raise ValueError(
                    f"column {name!r} holds categories, and {type(family).__name__} takes numbers: leave out the "
                    "column; or leave out the family, or give one of Columns"
                )

    def describe(self) -> str:
        """Return one line: how many columns hold what, and which are left out, and why.

        >>> Encoding((Entry("b", "log"), Entry("p", "category"), Entry("id", "left out", (), "constant"))).describe()
        'numbers: 1 (log1p: b); categories: p; left out: id (constant)'
        """
        named = {kind: [entry.name for entry in self.entries if entry.kind == kind] for kind in KINDS}
        n_numbers, n_booleans = len(named[NUMBER]) + len(named[LOG]), len(named[BOOLEAN])
        logs = f" (log1p: {join_columns(named[LOG])})" if named[LOG] else ""
        others = [f"{entry.name} ({entry.reason})" for entry in self.entries if entry.kind == LEFT_OUT]
        parts = {
            "numbers": f"{n_numbers}{logs}" if n_numbers else "",
            "categories": join_columns(named[CATEGORY]),
            "booleans": str(n_booleans or ""),
            "left out": join_columns(others),
        }
        return "; ".join(f"{name}: {text}" for name, text in parts.items() if text)

    def to_plain(self) -> list[list[Any]]:
        """Return lists of text, for files."""
        return [
            [entry.name, IN_FILES.get(entry.kind, entry.kind), list(entry.words), entry.reason]
            for entry in self.entries
        ]

    @classmethod
    def from_plain(cls, plain: Any) -> Encoding:
        """Return the encoding that ``to_plain`` described; anything else is a ``ValueError``.

        >>> encoding = Encoding((Entry("flag", "category", ("SF", "REJ")),))
        >>> Encoding.from_plain(encoding.to_plain()) == encoding
        True
        """
        try:
            kinds = {code: kind for kind, code in IN_FILES.items()}
            entries = tuple(
                Entry(name, kinds.get(kind, kind), tuple(words), reason) for name, kind, words, reason in plain
            )
        except (TypeError, ValueError):
            raise ValueError(f"an encoding is a list of [name, kind, words, reason], got {plain!r}") from None
        for entry in entries:
            if not all(type(text) is str for text in (entry.name, entry.kind, entry.reason, *entry.words)):
                raise ValueError(f"an encoding is made of text, got {list(entry)!r}")
            if len(set(entry.words)) < len(entry.words):
                raise ValueError(f"column {entry.name!r} has the same word twice")
        return cls(entries)


def infer_entry(
    name: str, kind: str, column: Sequence[Any] | NDArray[Any], words: tuple[str, ...] = (), *, keep: bool = False
) -> Entry:
    """Return the entry of a column of a certain kind, given its first cells, without those that are missing.

    kind: "number" (the column is float64), "boolean", "category" or "times". A column that says nothing is left out,
    unless it is to be kept. Numbers that are all 0 or 1 are booleans.

    >>> infer_entry("protocol", "category", ["tcp", "udp", "tcp"]).kind
    'category'
    >>> infer_entry("zero", "number", np.zeros(50)).reason
    'constant'
    """
    n = len(column)
    different = len(np.unique(column)) if kind == NUMBER else len(set(column))
    reason = ""
    if not n:
        reason = EMPTY
    elif kind == TIMES or (kind == NUMBER and n >= FEW_ROWS and _are_times(np.asarray(column))):
        reason = TIMES
    elif kind != CATEGORY and n >= FEW_ROWS and different == 1:
        reason = CONSTANT  # of a category, others may come
    elif kind == CATEGORY and n >= FEW_ROWS and different == n:
        reason = DIFFERS
    elif kind == NUMBER and counts_rows(column):
        reason = COUNTER
    if reason and (not keep or kind == TIMES):
        return Entry(name, LEFT_OUT, (), reason)
    if kind == NUMBER:
        if n >= FEW_ROWS and different == 2 and np.isin(column, (0.0, 1.0)).all():
            return Entry(name, BOOLEAN, ("1", "0"))
        return Entry(name, LOG if prefers_log(np.asarray(column)) else NUMBER)
    return Entry(name, kind, words)


def counts_rows(column: Sequence[float] | Float) -> bool:
    """Tell whether each number of a column is the one before plus 1, as those of an id or an index are."""
    with np.errstate(over="ignore"):  # numbers near 1e308 differ by more than there are
        return len(column) >= FEW_ROWS and bool(np.all(np.diff(column) == 1.0))


def find_epoch(numbers: Float) -> str | None:
    """Return the unit in which numbers may count the time since 1970, if they lie in the years 2001 to 2064.

    >>> find_epoch(np.array([1763287200000.0])), find_epoch(np.array([12.0, 13.0]))
    ('ms', None)
    """
    for unit, scale in EPOCHS.items():
        if len(numbers) and np.all((numbers >= FIRST_SECOND * scale) & (numbers < LAST_SECOND * scale)):
            return unit
    return None


def _are_times(numbers: Float) -> bool:
    """Tell whether numbers look like times since 1970: in its units, and in order."""
    return find_epoch(numbers) is not None and bool(np.all(np.diff(numbers) >= 0))


def prefers_log(column: Float) -> bool:
    """Tell whether log1p of a column that is never negative is learned better than the column.

    It must be skew, twice as much as its log1p, and more probable by 0.3 nats a row: the log density of the positive
    values under a mixture of up to four normal clusters of one width, with log(1 + x) in place of x and the Jacobian
    −log(1 + x). Zeros are as probable either way.

    >>> rng = np.random.default_rng(0)
    >>> prefers_log(rng.lognormal(5.0, 2.0, 500)), prefers_log(rng.normal(100.0, 15.0, 500))
    (True, False)
    """
    x = column[column > 0]
    if len(x) < FEW_ROWS or np.any(column < 0) or len(np.unique(x)) < FEWEST_VALUES:
        return False
    y = np.log1p(x)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers so large that there is no skewness: a NaN
        skew, skew_of_log = _skewness(x), _skewness(y)
    if not skew > LEAST_SKEW or not 2.0 * abs(skew_of_log) < skew:
        return False
    return bool(_log_density(y) - np.mean(y) - _log_density(x) >= LEAST_GAIN)


def _skewness(x: Float) -> float:
    """Return the mean cube of x, standardised; 0 if it is constant."""
    scale = float(np.std(x))
    return float(np.mean(((x - np.mean(x)) / scale) ** 3)) if scale else 0.0


def _log_density(x: Float) -> float:
    """Return the mean log density of x under the best mixture of a few normal clusters of one width, by its BIC."""
    scale = float(np.std(x))
    if not scale:
        return np.inf
    z, n = (x - np.mean(x)) / scale, len(x)
    best = -np.inf
    for k in range(1, MOST_CLUSTERS + 1):
        means, variance, shares = np.quantile(z, (np.arange(k) + 0.5) / k), 1.0 / k**2, np.full(k, 1.0 / k)
        for _ in range(N_STEPS):
            logs = np.log(shares) - 0.5 * (z[:, None] - means) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
            most = np.max(logs, axis=1, keepdims=True)
            weights = np.exp(logs - most)
            total = np.sum(weights, axis=1, keepdims=True)
            evidence = float(np.mean(most + np.log(total)))
            weights /= total
            counts = np.maximum(np.sum(weights, axis=0), 1e-9)
            means = weights.T @ z / counts
            variance = max(float(np.sum(weights * (z[:, None] - means) ** 2)) / n, NARROWEST**2)
            shares = counts / np.sum(counts)
        best = max(best, evidence - k * np.log(n) / n)  # 2k parameters
    return best - np.log(scale)


def join_columns(names: Sequence[str]) -> str:
    """Return names between commas, the first 20 of many."""
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def quote(cell: object) -> str:
    """Return a cell as a message shows it: on one line, and not too long."""
    text = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "…" + text[-1]


def is_empty(cell: object) -> bool:
    """Tell whether a cell holds nothing: None, NaN, a missing value of pandas or NumPy, or blank text."""
    if cell is None or cell is np.ma.masked:
        return True
    if isinstance(cell, str):
        return not cell or cell.isspace()
    same = cell == cell  # NaN and NaT are not equal to themselves, and what pandas.NA is equal to is not known
    return not isinstance(same, (bool, np.bool_)) or not same


def _infer(name: str, column: Any, by_type: bool) -> Entry:
    """Return the entry of a column by its type, or by its cells if that says nothing."""
    first = column[:ROWS_TO_INFER]
    numbers = _plain_numbers(first)
    if numbers is not None:
        return Entry(name, NUMBER) if by_type else infer_entry(name, NUMBER, numbers[~np.isnan(numbers)])
    cells = [cell for cell in _cells(first) if not is_empty(cell)]
    kind = str(getattr(column, "dtype", "")).lower()
    holds = {_kind_of(cell) for cell in cells}
    if kind.startswith(("category", "categorical", "enum")) and holds <= {CATEGORY, NUMBER, BOOLEAN}:
        holds = {CATEGORY}
    if holds == {BOOLEAN} or (not holds and kind.startswith("bool")):
        return infer_entry(name, BOOLEAN, cells, ("true", "false"), keep=by_type)
    if not holds and kind.startswith(("str", "object", "utf8", "category", "categorical", "enum")):
        return infer_entry(name, CATEGORY, [], keep=by_type)
    if holds <= {NUMBER}:
        numbers = np.array([float(cell) for cell in cells])
        return Entry(name, NUMBER) if by_type else infer_entry(name, NUMBER, numbers)
    if holds == {CATEGORY}:
        return infer_entry(name, CATEGORY, [_word(cell) for cell in cells], keep=by_type)
    if holds == {TIMES}:
        return infer_entry(name, TIMES, cells)
    different = {type(cell).__name__: cell for cell in cells}
    examples = " and ".join(f"{quote(cell)} ({kind})" for kind, cell in list(different.items())[:2])
    raise ValueError(
        f"column {name!r} must hold numbers, text, booleans or dates, and one of these only; it holds {examples}"
    )


def _kind_of(cell: object) -> str | None:
    """Return what a cell that is not missing holds, None if that is nothing that we know."""
    if isinstance(cell, (bool, np.bool_)):
        return BOOLEAN
    if isinstance(cell, str):
        return CATEGORY
    if isinstance(cell, (date, np.datetime64)):
        return TIMES
    return NUMBER if isinstance(cell, (int, float, np.integer, np.floating, Decimal)) else None


def _cells(column: Any) -> list[Any]:
    """Return a column as a list of Python's own objects."""
    if hasattr(column, "to_list"):
        return list(column.to_list())
    return list(column.tolist() if isinstance(column, np.ndarray) else column)


def _plain_numbers(column: Any) -> Float | None:
    """Return a column of numbers by its type as float64, NaN for what is missing; None if its type is another."""
    array = column if isinstance(column, np.ndarray) else None
    if array is None and hasattr(column, "to_numpy") and hasattr(column, "dtype"):
        kind = str(column.dtype).lower()
        if not kind.startswith(("int", "uint", "float", "double")):
            return None
        # Nullable types of pandas would become objects; polars has NaN for what is missing by itself.
        array = column.to_numpy(np.float64, na_value=np.nan) if hasattr(column, "iloc") else column.to_numpy()
    if array is None or array.dtype.kind not in "iuf":
        return None
    with np.errstate(over="ignore"):  # of a longdouble
        numbers: Float = np.ma.filled(array.astype(np.float64), np.nan)
    return numbers


def _encode(entry: Entry, column: Any, at: int, missing: Callable[[Any], bool]) -> tuple[Float, tuple[str, ...]]:
    """Return a column as numbers (n,), and the words that are known now. at: its index."""
    if entry.kind == CATEGORY:
        cells = _cells(column)
        codes = _Codes(entry.words, missing)
        return np.fromiter(map(codes.__getitem__, cells), np.float64, len(cells)), tuple(codes.words)
    numbers = _plain_numbers(column)
    if entry.kind == BOOLEAN:
        if numbers is None:
            of_numbers = entry.words == ("1", "0")
            numbers = _each(entry, at, _cells(column), _number if of_numbers else lambda cell: _yes_or_no(entry, cell))
        return np.where(np.isnan(numbers), np.nan, numbers != 0.0), entry.words  # more than 1 is yes, too
    if numbers is None:
        numbers = _each(entry, at, _cells(column), _number)
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        value = numbers[infinite[0]]
        raise BadRow(f"column {entry.name!r} must hold finite numbers, got {value}", infinite[0], at)
    if entry.kind == LOG:
        numbers = np.sign(numbers) * np.log1p(np.abs(numbers))
    return numbers, entry.words


def _each(entry: Entry, at: int, cells: list[Any], read: Callable[[Any], float | None]) -> Float:
    """Return a number for each cell, NaN for what is missing; a cell that has none raises ``BadRow``."""
    numbers = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        if not is_empty(cell):
            number = read(cell)
            if number is None:
                wanted = "numbers" if entry.kind != BOOLEAN else " or ".join(map(repr, entry.words))
                raise BadRow(f"column {entry.name!r} must hold {wanted}, got {quote(cell)}", row, at)
            numbers[row] = number
    return numbers


def _number(cell: object) -> float | None:
    if _kind_of(cell) not in (NUMBER, BOOLEAN):
        return None
    try:
        return float(cell)  # type: ignore[arg-type]
    except (OverflowError, ValueError):
        return np.inf


def _yes_or_no(entry: Entry, cell: object) -> float | None:
    word = str(cell).strip().lower()
    return float(word == entry.words[0].lower()) if word in (text.lower() for text in entry.words) else None


class _Codes(dict[Any, float]):
    """The code of each word that came; a new one has the next. A cell is looked up before it is turned into a word."""

    def __init__(self, words: Iterable[str], missing: Callable[[Any], bool]) -> None:
        super().__init__((word, float(code)) for code, word in enumerate(words))
        self.words, self.is_missing = list(words), missing

    def __missing__(self, cell: Any) -> float:
        if self.is_missing(cell):
            return np.nan
        word = _word(cell)
        if word not in self.keys():
            self[word] = float(len(self.words))
            self.words.append(word)
        code = self[word]
        if isinstance(cell, str):
            self[cell] = code
        return code


def _word(cell: object) -> str:
    """Return the category that a cell names: 3.0 is the same as 3, since missing cells turn integers to floats."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def stack(frames: Sequence[Any], names: Sequence[str]) -> Any:
    """Return the rows of DataFrames, all of pandas or all of polars, as one with these columns; others are missing.

    >>> import pandas as pd
    >>> stack([pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [3], "a": [2]})], ["a", "b"])["a"].tolist()
    [1, 2]
    """
    if hasattr(frames[0], "to_dicts"):
        import polars as pl

        return pl.concat(frames, how="diagonal_relaxed").select(names)
    import pandas as pd

    return pd.concat([frame.reindex(columns=names) for frame in frames], ignore_index=True)


def is_frame(X: Any) -> bool:
    """Tell whether X is a DataFrame of pandas or polars."""
    return all(hasattr(type(X), name) for name in ("columns", "dtypes", "shape"))

"""Encoding: how named columns of numbers, categories and booleans become rows of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar

import numpy as np

from dyncrp.arrays.checks import BadRow
from dyncrp.families import Bernoulli, Categorical, Columns, Family, Gaussian, NormalGamma, protocols
from dyncrp.input.entries import (
    BOOLEAN,
    CATEGORY,
    KINDS,
    LEFT_OUT,
    LOG,
    NUMBER,
    Float,
    as_cells,
    as_number,
    as_word,
    is_empty,
    join_columns,
    kind_of,
    plain_numbers,
    quote,
)
from dyncrp.input.entries import Entry as Entry
from dyncrp.input.infer import infer_entries, infer_entry, read_content

IN_FILES = {BOOLEAN: "yes/no"}  # what version 1 of the model file calls a kind, where that differs
MOST_CATEGORIES = 10_000  # words of a column that are remembered


@dataclass(frozen=True)
class Encoding:
    """How a set of named columns becomes rows X (n, D): an ``Entry`` for each column, in order.

    Numbers are unchanged; "log" becomes sign(x) log(1 + \\|x\\|); a boolean becomes 1 or 0; a category becomes its
    code, 0, 1, 2, … in order of appearance. Missing cells become NaN. Columns that are left out are not in X, so D is
    the number of the others. An encoding is immutable: ``encode`` returns another one with the new categories.

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
                raise ValueError(f"an encoding must have each column once, but has {entry.name!r} several times")
            if entry.kind == BOOLEAN and len(entry.words) != 2:
                raise ValueError(f"column {entry.name!r} needs a word for yes and one for no, got {entry.words!r}")

    def __getitem__(self, name: str) -> Entry:
        """Return what a column holds."""
        return self._by_name[name]

    @property
    def plain(self) -> bool:
        """Whether every column holds numbers that are not transformed."""
        return all(entry.kind == NUMBER for entry in self.entries)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [entry.name for entry in self.entries]

    @property
    def kinds(self) -> list[str]:
        """The kind of each column."""
        return [entry.kind for entry in self.entries]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns in X, in order."""
        return tuple(entry.name for entry in self.entries if entry.kind != LEFT_OUT)

    @classmethod
    def infer(cls, columns: Any, names: Sequence[str] | None = None, *, by_type: bool = False) -> Encoding:
        """Return an encoding for columns, inferred from their types and their first 1,000 cells.

        columns: a DataFrame of pandas or polars, or anything with ``columns[name]``. names: the names of the columns,
        if it is neither a DataFrame nor a mapping. by_type: whether to use only the types, for a family that was chosen
        for these columns: nothing is left out or transformed.

        >>> Encoding.infer({"x": [0.5, 2.0, 1.5], "on": [True, False, None], "kind": ["a", "b", "a"]}).describe()
        'numbers: 1; categories: kind; booleans: 1'
        """
        if names is None:
            names = list(columns.columns if hasattr(columns, "columns") else columns)
        contents = [read_content(str(name), columns[name], by_type=by_type) for name in names]
        if not by_type:
            return cls(infer_entries(contents))
        entries = [infer_entry(*content[:-1], keep=True) for content in contents if content.kind != NUMBER]
        of = {entry.name: entry for entry in entries}
        return cls(tuple(of.get(content.name, Entry(content.name, NUMBER)) for content in contents))

    def encode(self, columns: Any, missing: Callable[[Any], bool] | None = None) -> tuple[Float, Encoding]:
        """Return rows X (n, D), and this encoding with the new categories of these rows appended.

        columns: a DataFrame or a mapping, with n cells for each column that is not left out. An invalid cell raises
        ``BadRow`` with the index of its column in ``entries``. missing: returns whether a cell of a category is
        missing; by default, None, NaN and blank text are.
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
        same = all(new.words is old.words for new, old in zip(entries, self.entries, strict=True))
        return np.ascontiguousarray(X), self if same else Encoding(tuple(entries))

    def select(self, X: Any) -> Any:
        """Return rows X (n, D) of an array. If it has all columns, those that are left out are dropped.

        Categories and booleans must be encoded already, so this holds if the others are numbers.

        >>> Encoding((Entry("id", "left out"), Entry("x", "number"))).select(np.array([[1.0, 0.5], [2.0, 0.7]]))
        array([[0.5],
               [0.7]])
        """
        shape = np.shape(X)
        if len(shape) != 2 or shape[1] != len(self.entries) or not set(self.kinds) <= {NUMBER, LEFT_OUT}:
            return X
        return np.asarray(X)[:, [entry.kind == NUMBER for entry in self.entries]]

    def decode(self, X: Float) -> Float:
        """Return rows X (n, D), such as centres, with logarithms undone.

        >>> Encoding((Entry("bytes", "log"),)).decode(np.log1p([[0.0], [99.0]])).round(9)
        array([[ 0.],
               [99.]])
        """
        logs = np.array([self[name].kind == LOG for name in self.features], dtype=bool)
        found = np.array(X)
        found[:, logs] = np.sign(X[:, logs]) * np.expm1(np.abs(X[:, logs]))
        return found

    def label(self, name: str, code: float) -> str:
        """Return the meaning of a value of a column of X, as text.

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
        """Return families for these columns, to choose from by evidence; none if all columns hold numbers.

        In the first family all tables share their widths in the numbers; in the second, each table has its own.
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
        """Raise ``ValueError`` if a family takes numbers where there are categories.

        >>> Encoding((Entry("flag", "category"),)).check_family(NormalGamma())
        Traceback (most recent call last):
            ...
        ValueError: column 'flag' holds categories, and NormalGamma takes numbers: leave out the column; or leave out
        the family, or give one of Columns
        """
        numbers = protocols.continuous(family, len(self.features))
        for at, name in enumerate(self.features):
            if self[name].kind == CATEGORY and numbers[at]:
                raise ValueError(
                    f"column {name!r} holds categories, and {type(family).__name__} takes numbers: leave out the "
                    "column; or leave out the family, or give one of Columns"
                )

    def describe(self) -> str:
        """Return one line about what the columns hold, and which are left out and why.

        >>> Encoding((Entry("b", "log"), Entry("p", "category"), Entry("id", "left out", (), "constant"))).describe()
        'numbers: 1 (log1p: b); categories: p; left out: id (constant)'
        """
        named = {kind: [entry.name for entry in self.entries if entry.kind == kind] for kind in KINDS}
        n_numbers, n_booleans = len(named[NUMBER]) + len(named[LOG]), len(named[BOOLEAN])
        logs = f" (log1p: {join_columns(named[LOG])})" if named[LOG] else ""
        others = [f"{entry.name or repr('')} ({entry.reason})" for entry in self.entries if entry.kind == LEFT_OUT]
        parts = {
            "numbers": f"{n_numbers}{logs}" if n_numbers else "",
            "categories": join_columns(named[CATEGORY]),
            "booleans": str(n_booleans or ""),
            "left out": join_columns(others),
        }
        return "; ".join(f"{name}: {text}" for name, text in parts.items() if text)

    def to_plain(self) -> list[list[Any]]:
        """Return lists of texts, for files."""
        return [
            [entry.name, IN_FILES.get(entry.kind, entry.kind), list(entry.words), entry.reason]
            for entry in self.entries
        ]

    @classmethod
    def from_plain(cls, plain: Any) -> Encoding:
        """Return the encoding that ``to_plain`` described; raise ``ValueError`` if it is invalid.

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


def _encode(entry: Entry, column: Any, at: int, missing: Callable[[Any], bool]) -> tuple[Float, tuple[str, ...]]:
    """Return a column as numbers (n,), and its words including new ones. at: the index of the column."""
    if entry.kind == CATEGORY:
        cells = as_cells(column)
        codes = _Codes(entry.words, missing)
        try:
            return np.fromiter(map(codes.__getitem__, cells), np.float64, len(cells)), codes.all_words()
        except TypeError:  # a list, a dictionary or an array cannot be looked up
            row = next(row for row, cell in enumerate(cells) if getattr(type(cell), "__hash__", None) is None)
            raise BadRow(f"column {entry.name!r} must hold categories, got {quote(cells[row])}", row, at) from None
    numbers = plain_numbers(column)
    if entry.kind == BOOLEAN:
        if numbers is None:
            of_numbers = entry.words == ("1", "0")
            numbers = _each(
                entry, at, as_cells(column), _number if of_numbers else lambda cell: _yes_or_no(entry, cell)
            )
        return np.where(np.isnan(numbers), np.nan, numbers != 0.0), entry.words  # any other number is true
    if numbers is None:
        numbers = _each(entry, at, as_cells(column), _number)
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        value = numbers[infinite[0]]
        raise BadRow(f"column {entry.name!r} must hold finite numbers, got {value}", infinite[0], at)
    if entry.kind == LOG:
        numbers = np.sign(numbers) * np.log1p(np.abs(numbers))
    return numbers, entry.words


def _each(entry: Entry, at: int, cells: list[Any], read: Callable[[Any], float | None]) -> Float:
    """Return a number for each cell, NaN if it is missing; raise ``BadRow`` for an invalid one."""
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
    if isinstance(cell, str):
        return as_number(cell)
    if kind_of(cell) not in (NUMBER, BOOLEAN):
        return None
    try:
        return float(cell)  # type: ignore[arg-type]
    except (OverflowError, ValueError):
        return np.inf


def _yes_or_no(entry: Entry, cell: object) -> float | None:
    word = str(cell).strip().lower()
    return float(word == entry.words[0].lower()) if word in (text.lower() for text in entry.words) else None


TAKING_OVER = Lock()  # of the codes of words by others


class _Words(tuple[str, ...]):
    """Words with their codes, so that the next rows need not look at all words; with more words it is another one.

    The first words that continue these take over the codes, in which there are then more than these.
    """

    codes: dict[str, int]

    @classmethod
    def of(cls, words: tuple[str, ...]) -> _Words:
        """Return words that have codes of their own, unless others have taken them over."""
        if isinstance(words, cls) and len(words.codes) == len(words):
            return words
        found = cls(words)
        found.codes = {word: code for code, word in enumerate(words)}
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


class _Codes(dict[Any, float]):
    """The codes of words; a new word gets the next code. Cells are cached, so that each is converted once.

    Beyond the first 10,000 words, all others share one code and are not remembered, so that a column of ever-new words
    takes no more memory. No table counts more codes one by one.
    """

    def __init__(self, words: tuple[str, ...], missing: Callable[[Any], bool]) -> None:
        super().__init__()
        self.words, self.is_missing = _Words.of(words), missing
        self.new: dict[str, int] = {}

    def __missing__(self, cell: Any) -> float:
        code = self._find(cell) if isinstance(cell, str) else None
        if code is None:
            if self.is_missing(cell):
                return np.nan
            word = as_word(cell)
            code = self._find(word)
            if code is None:
                code = self.new.get(word)
            if code is None:
                code = len(self.words) + len(self.new)
                if code >= MOST_CATEGORIES:
                    return float(code)
                self.new[word] = code
        if isinstance(cell, str):
            self[cell] = float(code)
        return float(code)

    def _find(self, word: str) -> int | None:
        """Return the code of a word that is known, None of another."""
        code = self.words.codes.get(word)
        # Another thread may have added words meanwhile.
        return code if code is not None and code < len(self.words) else None

    def all_words(self) -> tuple[str, ...]:
        """Return the words, with the new ones."""
        if not self.new:
            return self.words
        found = _Words((*self.words, *self.new))
        with TAKING_OVER:
            found.codes = _Words.of(self.words).codes
            found.codes.update(self.new)
        return found


def stack(frames: Sequence[Any], names: Sequence[str]) -> Any:
    """Return the rows of DataFrames, all of pandas or all of polars, as one DataFrame with the given columns.

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
    """Return whether X is a DataFrame of pandas or polars."""
    return all(hasattr(type(X), name) for name in ("columns", "dtypes", "shape"))

"""Input: the one place where arrays, data frames and documents become rows.

The first rows of a stream decide what its columns hold; later rows are read in the same way. Reading has no side
effects: ``read`` returns the rows together with an input that has the new categories, and ``Vocabulary.encode`` the
rows together with the new words. A stream keeps these once it has learned the rows, so that invalid rows change
nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dyncrp.arrays.checks import as_observations
from dyncrp.arrays.counts import Counts
from dyncrp.arrays.rows import type_of
from dyncrp.engine.types import Rows
from dyncrp.families import Columns, Family
from dyncrp.families.base import check_rows
from dyncrp.input.encoding import Encoding, is_frame, stack
from dyncrp.input.entries import SENTENCES, as_cells, plain_numbers
from dyncrp.input.left_out import FEW_ROWS
from dyncrp.input.words import Documents, Vocabulary, holds_documents
from dyncrp.search.spec import ModelSpec

NEEDS_WORDS = "the model was learned on words: give texts, lists of tokens or dictionaries of counts"
ARE_THEY_BOOLEANS = "the first rows are all 0 or 1, and are taken for numbers: Bernoulli() takes them for booleans"
NEEDS_COUNTS = "the model was learned on counts of words that have no names: give it counts, not words"


class NamedRows(NamedTuple):
    """Rows of numbers (n, D) that a reader has encoded already, with the names of their columns.

    names: of all columns, including those that the encoding leaves out. encoding: how the columns became numbers, None
    if they were numbers.
    """

    numbers: Any
    names: Sequence[str] | None
    encoding: Encoding | None = None


@dataclass(frozen=True)
class Input:
    """How arrays, data frames and documents become rows. An input is immutable, except for its vocabulary.

    Attributes:
        names: the names of the columns, None if they have none.
        encoding: how columns of numbers, categories and booleans become numbers, None if all hold numbers.
        vocabulary: the columns of words, None unless rows are documents.

    >>> import pandas as pd
    >>> from dyncrp.search.spec import ModelSpec
    >>> frame = pd.DataFrame({"ms": [1.0, 2.0], "page": ["home", "cart"]})
    >>> input, spec = Input().begin(frame, ModelSpec.resolve())
    >>> rows, _ = input.read(frame, spec.family)
    >>> rows, input.names
    (array([[1., 0.],
           [2., 1.]]), ('ms', 'page'))
    """

    names: tuple[str, ...] | None = None
    encoding: Encoding | None = None
    vocabulary: Vocabulary | None = None
    # The frames of the warm-up, if columns were inferred from them: later frames may change what is inferred.
    frames: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def begin(self, X: Any, spec: ModelSpec) -> tuple[Input, ModelSpec]:
        """Return what a stream that begins with X needs.

        Parameters
        ----------
        X : array-like of shape (n, D), DataFrame, list of documents, or NamedRows
            The first rows.
        spec : ModelSpec
            The parameters of the model.

        Returns
        -------
        tuple of Input and ModelSpec
            An input for the columns of X, which keeps the encoding or vocabulary of this one, and the parameters in
            terms of these columns.
        """
        if isinstance(X, NamedRows):
            encoding = self.encoding if X.encoding is None else X.encoding
            names = None if X.names is None else tuple(map(str, X.names))
            return replace(self, encoding=encoding, names=names), _for_columns(spec, encoding, names)
        if self.holds_words(X, spec.family):
            vocabulary = Vocabulary() if self.vocabulary is None else self.vocabulary
            return replace(self, vocabulary=vocabulary), spec
        encoding, frames = self.encoding, tuple[Any, ...]()
        if encoding is None and is_frame(X):
            encoding = encoding_of(X, spec)
            decides = encoding is not None or (spec.chooses_family and names_of(X) is not None)
            frames = (X,) if decides else ()
        if encoding is None and spec.chooses_family and holds_zeros_and_ones(X):
            warnings.warn(ARE_THEY_BOOLEANS, stacklevel=2)
        names = names_of(X) if encoding is None else tuple(encoding.names)
        return Input(names, encoding, None, frames), _for_columns(
            spec, encoding, list(X.columns) if is_frame(X) else None
        )

    def read(self, X: Any, family: Family) -> tuple[Rows, Input]:
        """Return rows, and an input that has their new categories.

        Parameters
        ----------
        X : array-like of shape (n, D), DataFrame, or NamedRows
            The rows. For documents, see ``read_documents``.
        family : Family
            The family, which decides whether rows are sparse.

        Returns
        -------
        tuple of rows and Input
            Rows (n, D) as the family sees them, and the input.
        """
        if isinstance(X, NamedRows):
            rows = as_observations(X.numbers, missing=True)
            return rows, self if X.encoding in (None, self.encoding) else replace(self, encoding=X.encoding)
        if self.vocabulary is not None:
            raise ValueError(NEEDS_WORDS)
        if family.sparse and self.encoding is not None and is_frame(X):
            raise ValueError(
                f"{type(family).__name__} takes counts of words, or texts: give the column of texts by itself, such as "
                f"X[{str(self.encoding.names[0])!r}]"
            )
        if self.encoding is not None and not is_frame(X):
            X = self.encoding.select(X)
        if self.encoding is None or not is_frame(X):
            if self.names is not None and names_of(X) not in (None, self.names):
                raise ValueError(f"the columns must be {list(self.names)!r}, in this order, got {list(X.columns)!r}")
            return family.rows.read(X), self
        rows, longer = self.encoding.encode(X)
        if not len(rows):
            raise ValueError(f"X must not be empty: found array with 0 sample(s) (shape={X.shape})")
        return rows, self if longer is self.encoding else replace(self, encoding=longer)

    @staticmethod
    def holds_words(X: Any, family: Family) -> bool:
        """Return whether X holds documents, and the family counts words."""
        return family.sparse and not isinstance(X, (NamedRows, Counts)) and holds_documents(X)

    def read_documents(self, X: Any) -> Documents:
        """Return checked documents, at least one."""
        if self.vocabulary is None:
            raise ValueError(NEEDS_COUNTS)
        found = self.vocabulary.read(X)
        if not found.n:
            raise ValueError("X must not be empty: found 0 sample(s), a minimum of 1 document is required")
        return found

    def read_to_predict(self, X: Any, family: Family, n_features: int) -> Rows:
        """Return checked rows (n, D) that are not learned. New words get columns after all others."""
        if self.holds_words(X, family):
            documents = self.read_documents(X)
            assert self.vocabulary is not None
            return self.vocabulary.encode(documents, grow=False).rows
        rows, _ = self.read(X, family)
        require_width(rows, n_features)
        return check_rows(family, rows)

    # During the warm-up

    def with_frame(self, X: Any) -> Input:
        """Return an input that also keeps frame X, if this one keeps frames; none if X is not such a frame."""
        return replace(self, frames=(self.stack(X),) if self._can_stack(X) else ()) if self.frames else self

    def _can_stack(self, X: Any) -> bool:
        return type(X) is type(self.frames[0])

    def without_frames(self) -> Input:
        """Return an input without frames: what columns hold is final."""
        return replace(self, frames=()) if self.frames else self

    def looks_different(self, X: Any, spec: ModelSpec) -> bool:
        """Return whether the frames so far and X together show that columns hold something else."""
        if not self.frames or not self._can_stack(X):
            return False
        found = encoding_of(self.stack(X), spec)
        return (found and found.kinds) != (self.encoding and self.encoding.kinds)

    def stack(self, X: Any) -> Any:
        """Return the frames of the warm-up and X as one."""
        return stack([*self.frames, X], self.names or ())

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, for the header of a file."""
        plain: dict[str, Any] = {"feature_names": None if self.names is None else list(self.names)}
        if self.encoding is not None:
            plain["encoding"] = self.encoding.to_plain()
        if self.vocabulary is not None:
            plain["vocabulary"] = self.vocabulary.to_plain()
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Input:
        """Return the input that ``to_plain`` described; raise ``ValueError`` if it is invalid."""
        encoding = None if plain.get("encoding") is None else Encoding.from_plain(plain["encoding"])
        vocabulary = Vocabulary.from_plain(plain["vocabulary"]) if "vocabulary" in plain else None
        names = plain["feature_names"]
        if names is not None and (type(names) is not list or not all(type(entry) is str for entry in names)):
            raise ValueError(f"its feature_names are {names!r}")
        return cls(None if names is None else tuple(names), encoding, vocabulary)

    def check_features(self, n_features: int) -> None:
        """Raise ``ValueError`` unless this input, which comes from a file, is for n_features."""
        if self.encoding is not None and len(self.encoding.features) != n_features:
            raise ValueError(f"its encoding has {len(self.encoding.features)} features")
        width = n_features if self.encoding is None else len(self.encoding.entries)
        if self.names is not None and len(self.names) != width:
            raise ValueError(f"its feature_names are {list(self.names)!r}, for {width} features")

    def in_columns(self, spec: ModelSpec) -> ModelSpec:
        """Return the parameters in terms of the columns of this input."""
        return _for_columns(spec, self.encoding, self.names)


def require_width(rows: Rows, n_features: int) -> None:
    """Raise ``ValueError`` if rows have another number of features. The number of words may grow."""
    if rows.shape[1] != n_features and not type_of(rows).grows:
        raise ValueError(
            f"X has {rows.shape[1]} features, but DynamicalMixture is expecting {n_features} features as input"
        )


def encoding_of(frame: Any, spec: ModelSpec) -> Encoding | None:
    """Return the encoding of a frame, inferred from the rows of the warm-up.

    None if all columns hold numbers, and no words for missing cells.
    """
    names = list(frame.columns)
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        try:
            as_observations(frame, missing=True)
        except ValueError as error:
            wanted = "columns that are not all numbers need distinct names, which are texts"
            raise ValueError(f"{wanted}, got {names!r}") from error
        return None
    first = frame.head(spec.warmup)
    encoding = Encoding.infer(first, by_type=not spec.chooses_family)
    if encoding.plain and not any(_holds_words(first[name]) for name in names):
        return None
    if not encoding.features:
        problem = f"X has no columns to cluster; {encoding.describe()}"
        texts = [entry.name for entry in encoding.entries if entry.reason == SENTENCES]
        if texts:
            problem += f"; DynamicalMixture(Multinomial()).fit(X[{texts[0]!r}]) clusters the sentences by their words"
        raise ValueError(problem)
    return encoding


def holds_zeros_and_ones(X: Any) -> bool:
    """Return whether the first rows hold zeros and ones, and nothing else; False of a few rows, or of one column.

    >>> holds_zeros_and_ones([[0, 1], [1, 1]] * 20), holds_zeros_and_ones([[0, 1], [1, 2]] * 20)
    (True, False)
    """
    try:
        first = as_observations(X[:1000], missing=True)
    except (TypeError, ValueError, LookupError, NotImplementedError):  # whoever reads the rows says it better
        return False
    return len(first) >= FEW_ROWS and first.shape[1] > 1 and np.array_equal(np.unique(first), [0.0, 1.0])


def _holds_words(column: Any) -> bool:
    return plain_numbers(column) is None and any(isinstance(cell, str) for cell in as_cells(column))


def names_of(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a frame, None if there are none; raise ``TypeError`` if some are not texts."""
    if not is_frame(X):
        return None
    names = list(X.columns)
    texts = [isinstance(name, str) for name in names]
    if any(texts) and not all(texts):
        kinds = sorted({type(name).__name__ for name in names})
        raise TypeError(
            f"Feature names are only supported if all input features have string names, but your input has {kinds} as "
            "feature name / column name types. Convert them with X.columns = X.columns.astype(str)"
        )
    return tuple(names) if names and all(texts) else None


def _for_columns(spec: ModelSpec, encoding: Encoding | None, names: Any) -> ModelSpec:
    """Return the parameters in terms of columns: the families of the encoding, and positions instead of names."""
    if encoding is not None:
        families = encoding.families() if spec.chooses_family else ()
        if families:
            spec = replace(spec, family=families[0], other_families=families[1:])
        names = encoding.features
    if isinstance(spec.family, Columns):
        spec = replace(spec, family=spec.family.at(names))
    if encoding is not None:
        encoding.check_family(spec.family)
    return spec

"""Input: the one place where what people have becomes rows.

Arrays, data frames, documents and rows that a reader has encoded already all come through ``Input``. The first rows of
a stream decide what its columns hold; later rows are read in the same way. Reading changes nothing: ``read`` returns
the rows together with an input that knows the new categories, and ``Vocabulary.encode`` the rows together with the new
words. A stream keeps these once it has learned the rows. So rows that are refused leave no trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dyncrp.arrays.checks import as_observations
from dyncrp.arrays.counts import Counts
from dyncrp.arrays.rows import type_of
from dyncrp.engine.types import Rows
from dyncrp.families import Columns, Family
from dyncrp.families.base import check_rows
from dyncrp.input.encoding import Encoding, is_frame, stack
from dyncrp.input.words import Documents, Vocabulary, holds_documents
from dyncrp.search.spec import ModelSpec

NEEDS_WORDS = "the model was learned on words: give texts, lists of tokens or dictionaries of counts"
NEEDS_COUNTS = "the model was learned on counts of words that have no names: give it counts, not words"


class NamedRows(NamedTuple):
    """Rows of numbers (n, D) with the names of their columns, encoded by whoever read them.

    names: of all columns; of those that the encoding leaves out too. encoding: how columns became numbers, None if
    they were numbers.
    """

    numbers: Any
    names: Sequence[str] | None
    encoding: Encoding | None = None


@dataclass(frozen=True)
class Input:
    """How what people have becomes rows.

    Attributes:
        names: the names of the columns, None if they have none.
        encoding: how columns of numbers, categories and booleans become numbers, None if all are numbers.
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
    # The frames of the warm-up, if they decided what columns hold: more of them may show something else.
    frames: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def begin(self, X: Any, spec: ModelSpec) -> tuple[Input, ModelSpec]:
        """Return an input for a stream that begins with X, and what is asked for, in terms of its columns.

        An encoding or a vocabulary that this input has already is kept.
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
            frames = () if encoding is None else (X,)
        names = names_of(X) if encoding is None else tuple(encoding.names)
        return Input(names, encoding, None, frames), _for_columns(
            spec, encoding, list(X.columns) if is_frame(X) else None
        )

    def read(self, X: Any, family: Family) -> tuple[Rows, Input]:
        """Return rows (n, D) as the family sees them, and an input that knows what is new in them.

        X: anything but documents, of which ``read_documents`` makes rows.
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
        """Whether X holds documents, for a family that counts words."""
        return family.sparse and not isinstance(X, (NamedRows, Counts)) and holds_documents(X)

    def read_documents(self, X: Any) -> Documents:
        """Return documents, at least one, checked."""
        if self.vocabulary is None:
            raise ValueError(NEEDS_COUNTS)
        found = self.vocabulary.read(X)
        if not found.n:
            raise ValueError("X must not be empty: found 0 sample(s), a minimum of 1 document is required")
        return found

    def read_to_predict(self, X: Any, family: Family, n_features: int) -> Rows:
        """Return rows (n, D) that are not learned, checked: words that are new have columns after all others."""
        if self.holds_words(X, family):
            documents = self.read_documents(X)
            assert self.vocabulary is not None
            return self.vocabulary.encode(documents, grow=False).rows
        rows, _ = self.read(X, family)
        require_width(rows, n_features)
        return check_rows(family, rows)

    # Of the warm-up

    def with_frame(self, X: Any) -> Input:
        """Return an input that keeps this frame too, if it keeps any; none once rows come that cannot join them."""
        return replace(self, frames=(*self.frames, X) if self._can_stack(X) else ()) if self.frames else self

    def _can_stack(self, X: Any) -> bool:
        return type(X) is type(self.frames[0])

    def without_frames(self) -> Input:
        """Return an input for which it is final what columns hold."""
        return replace(self, frames=()) if self.frames else self

    def looks_different(self, X: Any, spec: ModelSpec) -> bool:
        """Whether the first rows, now that those of X have come too, show that columns hold something else."""
        if not self.frames or not self._can_stack(X) or self.encoding is None:
            return False
        found = encoding_of(self.stack(X), spec)
        return found is not None and found.kinds != self.encoding.kinds

    def stack(self, X: Any) -> Any:
        """Return the frames of the warm-up and X as one."""
        return stack([*self.frames, X], [] if self.encoding is None else self.encoding.names)

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
        """Return the input that ``to_plain`` described; anything else is a ``ValueError``."""
        encoding = None if plain.get("encoding") is None else Encoding.from_plain(plain["encoding"])
        vocabulary = Vocabulary.from_plain(plain["vocabulary"]) if "vocabulary" in plain else None
        names = plain["feature_names"]
        if names is not None and (type(names) is not list or not all(type(entry) is str for entry in names)):
            raise ValueError(f"its feature_names are {names!r}")
        return cls(None if names is None else tuple(names), encoding, vocabulary)

    def check_features(self, n_features: int) -> None:
        """Refuse an input from a file that is not for so many features."""
        if self.encoding is not None and len(self.encoding.features) != n_features:
            raise ValueError(f"its encoding has {len(self.encoding.features)} features")
        width = n_features if self.encoding is None else len(self.encoding.entries)
        if self.names is not None and len(self.names) != width:
            raise ValueError(f"its feature_names are {list(self.names)!r}, for {width} features")

    def in_columns(self, spec: ModelSpec) -> ModelSpec:
        """Return what is asked for in terms of the columns of this input."""
        return _for_columns(spec, self.encoding, self.names)


def require_width(rows: Rows, n_features: int) -> None:
    """Refuse rows of another number of features, unless there may be more at any time."""
    if rows.shape[1] != n_features and not type_of(rows).grows:
        raise ValueError(
            f"X has {rows.shape[1]} features, but DynamicalMixture is expecting {n_features} features as input"
        )


def encoding_of(frame: Any, spec: ModelSpec) -> Encoding | None:
    """Return how a frame is encoded, by the rows that hyperparameters are learned from; None if all are numbers."""
    names = list(frame.columns)
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        try:
            as_observations(frame, missing=True)
        except ValueError as error:
            wanted = "columns that are not all numbers need names, texts that differ"
            raise ValueError(f"{wanted}, got {names!r}") from error
        return None
    if Encoding.infer(frame, by_type=True).plain:
        return None
    encoding = Encoding.infer(frame.head(spec.warmup), by_type=not spec.chooses_family)
    if not encoding.features:
        raise ValueError(f"X has no columns to cluster; {encoding.describe()}")
    return encoding


def names_of(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a frame, None if there are none; some of them alone are a ``TypeError``."""
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
    """Return what is asked for in terms of columns: the families of the encoding, and positions in place of names."""
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

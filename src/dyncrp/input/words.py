"""Texts as counts of words: a plain tokenizer, and ``Vocabulary``, which gives each word a column.

A document is a text, a list of tokens, or a dictionary of counts. ``read_documents`` checks a batch of documents.
``Vocabulary.encode`` then turns them into the rows of a sparse matrix.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Set, Sized
from functools import cache
from itertools import chain
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadRow, real
from dyncrp.arrays.counts import LARGEST_COUNT, Counts
from dyncrp.input.encoding import is_frame
from dyncrp.input.entries import quote

Float = NDArray[np.float64]
Int = NDArray[np.int64]
URL, NUMBER = MASKS = "<url>", "<number>"
ADDRESS = re.compile(r"(?:https?://|www\.)\S+")
MARKS_UP_TO = 0x20000  # code points; beyond this, no letter has marks
# Scripts without spaces between words. Each sign is a token, as in the word boundaries of the Unicode standard.
SIGNS = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
STOP_WORDS = frozenset(
    """a about after again all also am an and any are as at be because been before being but by can could did do does
    down during each few for from further had has have having he her here hers him his how i if in into is it its itself
    just me more most my no nor not now of off on once only or other our out over own same she should so some such than
    that the their them then there these they this those through to too under until up very was we were what when where
    which while who whom why will with would you your yours i'm it's don't can't that's""".split()  # noqa: SIM905
)  # of English
# What is left out of texts: by whether stop words are, and whether masks are kept.
LEFT_OUT = {(False, True): frozenset[str](), (True, True): STOP_WORDS}
LEFT_OUT |= {(False, False): frozenset(MASKS), (True, False): STOP_WORDS | {*MASKS}}
ROWS_TO_FORGET = 1 << 14  # words are forgotten every so many rows
LONG = 64  # words of a text; the words of longer ones are kept once, since each would take some 60 bytes


PLAIN_TOKENS = re.compile(rf"{URL}|\d+(?:[.,:/]\d+)+|[a-z0-9]+(?:'[a-z0-9]+)*")  # for texts in ASCII


@cache
def _tokens() -> re.Pattern[str]:
    """Return the pattern of a token. Compiled on first use, since finding the combining marks takes some 10 ms."""
    marks = [code for code in range(MARKS_UP_TO) if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    breaks = np.flatnonzero(np.diff(marks) > 1).tolist()
    pairs = zip([0, *(at + 1 for at in breaks)], [*breaks, len(marks) - 1], strict=True)
    ranges = "".join(f"{chr(marks[first])}-{chr(marks[last])}" for first, last in pairs)
    letter = rf"[^\W_{SIGNS}]"
    word = rf"{letter}+(?:[{ranges}]+{letter}*)*"
    return re.compile(rf"{URL}|\d+(?:[.,:/]\d+)+|{word}(?:'{word})*|[{SIGNS}]")


def tokenize(text: str, stop_words: Collection[str] = ()) -> list[str]:
    """Return the words of a text, in order: in lower case, without punctuation, with masks for URLs and numbers.

    A word consists of letters and digits with their marks, and may have apostrophes inside; digits alone are a number.
    Letters that look the same are the same (NFKC). Each Chinese or Hiragana sign is a word. Words among stop_words are
    left out.

    >>> tokenize("Don't panic: 3.5 % at https://example.org/x?y=1, says CAFÉ_42!")
    ["don't", 'panic', '<number>', 'at', '<url>', 'says', 'café', '<number>']
    >>> tokenize("The cat sat on the mat", STOP_WORDS)
    ['cat', 'sat', 'mat']
    """
    text, tokens = text.lower(), PLAIN_TOKENS
    if not text.isascii():
        tokens = _tokens()
        text = unicodedata.normalize("NFKC", text.replace("’", "'"))
    if "://" in text or "www." in text:
        text = ADDRESS.sub(f" {URL} ", text)
    found = [word if word.isalpha() or any(map(str.isalpha, word)) else NUMBER for word in tokens.findall(text)]
    return [word for word in found if word not in stop_words] if stop_words else found


class Documents(NamedTuple):
    """Checked documents: the words of all of them in sequence, and how many words each has.

    counts: how often each word is in its document; None if words are repeated instead.
    """

    words: list[str]
    counts: Float | None
    lengths: Int

    @property
    def n(self) -> int:
        """How many documents."""
        return len(self.lengths)

    def part(self, begin: int, end: int) -> Documents:
        """Return some of the documents."""
        ends = np.concatenate([[0], np.cumsum(self.lengths)])
        words = slice(int(ends[begin]), int(ends[min(end, self.n)]))
        return Documents(
            self.words[words], None if self.counts is None else self.counts[words], self.lengths[begin:end]
        )


def holds_documents(X: Any) -> bool:
    """Return whether X is a batch of texts, token lists or dictionaries of counts, judging by the first nonempty one.

    An iterator counts as one, since looking at it would consume documents. So does anything that is neither text nor a
    row of numbers, such as bytes: ``read_documents`` then raises the error.

    >>> holds_documents(["a text"]), holds_documents([["two", "tokens"]]), holds_documents([[1.0, 2.0]])
    (True, True, False)
    """
    if hasattr(X, "tocsr") or getattr(X, "ndim", 1) != 1 or is_frame(X):
        return False
    if getattr(getattr(X, "dtype", None), "kind", "O") in "biufc":
        return False
    if isinstance(X, (str, bytes, Mapping, Iterator)):
        return True
    if not isinstance(X, Iterable):
        return False
    for document in X:
        if isinstance(document, (str, bytes, Mapping, Set)):
            return True
        if hasattr(document, "tocsr") or (isinstance(document, Number) and document == document):
            return False
        if isinstance(document, Sized) and getattr(document, "ndim", 1) != 0 and len(document):
            return isinstance(next(iter(document)), str)  # type: ignore[call-overload]
    return True


def read_documents(X: Any, stop_words: Collection[str] = ()) -> Documents:
    """Return n documents, each a text, which is tokenized, a list of tokens, or a dictionary of counts.

    X: a list, a Series of pandas or polars, or a one-dimensional array. Tokens and keys are used as they are. A tuple
    of texts, which river uses for several words, is one word. Anything else raises ``BadRow``.

    >>> read_documents(["A cat, a mat", {"cat": 2}]).words
    ['a', 'cat', 'a', 'mat', 'cat']
    """
    if isinstance(X, (str, bytes, Mapping)):
        raise ValueError(f"X must be a list of documents, such as [{quote(X)}], got a single document")
    if isinstance(X, Set):
        raise ValueError("X must be a list of documents, got a set, which has no order")
    words: list[list[Any]] = []
    counts: dict[int, list[float]] = {}  # by row, for those with counts
    once: dict[str, str] = {}
    for row, document in enumerate(X):
        if hasattr(document, "tolist"):  # an array of NumPy
            document = document.tolist()
        elif hasattr(document, "to_list"):  # a Series of polars
            document = document.to_list()
        if isinstance(document, str):
            found: list[Any] = tokenize(document, stop_words)
            if len(found) > LONG:
                found = list(map(once.setdefault, found, found))
        elif isinstance(document, (Mapping, list, tuple)):
            found = list(document)
            if not all(type(word) is str for word in found):
                found = [_as_word(word, row) for word in found]
        else:
            raise BadRow(
                f"a document must be a text, a list of tokens or a dictionary of counts, got {quote(document)}", row
            )
        if isinstance(document, Mapping):
            counts[row] = [_as_count(count, word, row) for word, count in document.items()]
        words.append(found)
    flat = list(chain.from_iterable(words))
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    if not counts:
        return Documents(flat, None, lengths)
    each, ends = np.ones(len(flat)), np.cumsum(lengths)
    for row, told in counts.items():
        each[ends[row] - lengths[row] : ends[row]] = told
    return Documents(flat, each, lengths)


def _as_word(word: object, row: int) -> str:
    if isinstance(word, tuple) and word and all(isinstance(part, str) for part in word):
        return " ".join(word)
    if not isinstance(word, str):
        raise BadRow(f"a word must be a text, got {quote(word)}", row)
    return str(word)


def _as_count(count: object, word: object, row: int) -> float:
    number = real(count)
    if number is None or not 0.0 <= number <= LARGEST_COUNT or number != int(number):
        raise BadRow(f"the count of {quote(word)} must be an integer from 0 to 2**31, got {quote(count)}", row)
    return number


class Encoded(NamedTuple):
    """Documents as rows of counts, and the columns of their new words."""

    rows: Counts
    added: dict[str, int]


class Vocabulary:
    """The columns of words: 0, 1, 2, … in order of appearance.

    A word that no open table has is forgotten. A new word takes the lowest free column. ``forget`` is called every
    16,384 rows, always at the same rows however a stream is divided into calls.

    When a text is tokenized, stop_words says whether to leave out the most common words of English, and masks whether
    to keep the masks of URLs and numbers: any topic has some. Models of earlier versions keep them.

    >>> vocabulary = Vocabulary()
    >>> rows, added = vocabulary.encode(read_documents(["the cat", "the the mat"]))
    >>> rows.toarray(), added
    (array([[1., 1., 0.],
           [2., 0., 1.]]), {'the': 0, 'cat': 1, 'mat': 2})
    >>> vocabulary.add(added)
    >>> vocabulary.forget(np.array([0, 2]))  # no table has "cat" any more
    >>> vocabulary.encode(read_documents(["a cat"])).added
    {'a': 1, 'cat': 3}
    """

    def __init__(self, *, stop_words: bool = False, masks: bool = False) -> None:
        self.stop_words, self.masks = bool(stop_words), bool(masks)
        self.words: list[str | None] = []  # by column; None where it is free
        self._columns: dict[str, int] = {}
        self._free: list[int] = []  # descending

    def __len__(self) -> int:
        """How many words are known."""
        return len(self._columns)

    def __contains__(self, word: object) -> bool:
        return word in self._columns

    def __getitem__(self, word: str) -> int:
        """Return the column of a word."""
        return self._columns[word]

    @property
    def n_columns(self) -> int:
        """The largest number of columns so far."""
        return len(self.words)

    def read(self, X: Any) -> Documents:
        """Return checked documents. The vocabulary does not change."""
        return read_documents(X, LEFT_OUT[self.stop_words, self.masks])

    def names(self, documents: Documents) -> list[str | None]:
        """Return the words by column, as used by ``encode`` for these documents with grow=False."""
        return [*self.words, *dict.fromkeys(word for word in documents.words if word not in self)]

    def encode(self, documents: Documents, *, grow: bool = True) -> Encoded:
        """Return documents as rows of counts, and the new words, which ``add`` can then add to the vocabulary.

        A new word takes the lowest free column. grow: whether new words will be added; if not, their columns come after
        all others.
        """
        words, n = documents.words, len(self.words)
        found: list[Any] = list(map(self._columns.get, words))
        added: dict[str, int] = {}
        if None in found:
            free = self._free[::-1] if grow else []
            for at, column in enumerate(found):
                if column is None:
                    word = words[at]
                    if word not in added:
                        i = len(added)
                        added[word] = free[i] if i < len(free) else n + i - len(free)
                    found[at] = added[word]
        if documents.n == 1:
            csr = _single_row(found, documents.counts)
        else:
            csr = _canonical(np.array(found, dtype=np.int64), documents.counts, documents.lengths)
        width = 1 + max(added.values(), default=-1)
        return Encoded(Counts(*csr, max(n, width, 1 + max(found, default=0))), added)

    def add(self, added: Mapping[str, int]) -> None:
        """Add new words, with the columns that ``encode`` gave them."""
        for word, column in added.items():
            if column < len(self.words):
                self.words[column] = word
                self._free.pop()
            else:
                self.words.append(word)
            self._columns[word] = column

    def forget(self, known: Int) -> None:
        """Keep only the words of these columns."""
        is_gone = np.zeros(len(self.words), dtype=bool)
        is_gone[np.fromiter(self._columns.values(), np.int64, len(self))] = True
        is_gone[known[known < len(is_gone)]] = False
        gone = np.flatnonzero(is_gone)  # faster than a set of all words
        for column in gone.tolist():
            word = self.words[column]
            assert word is not None
            del self._columns[word]
            self.words[column] = None
        self._free = sorted({*self._free, *gone.tolist()}, reverse=True)

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, for files."""
        plain = {"stop_words": self.stop_words, "words": self.words}
        return plain if self.masks else plain | {"masks": False}

    @classmethod
    def from_plain(cls, plain: Any) -> Vocabulary:
        """Return the vocabulary that ``to_plain`` described; raise ``ValueError`` if it is invalid."""
        words = plain.get("words") if isinstance(plain, dict) else None
        if not isinstance(words, list) or not all(word is None or type(word) is str for word in words):
            raise ValueError(f"a vocabulary must be a list of words, got {quote(plain)}")
        found = cls(stop_words=plain.get("stop_words") is True, masks=plain.get("masks") is not False)
        found.words = words
        found._columns = {word: at for at, word in enumerate(words) if word is not None}
        found._free = [at for at, word in enumerate(words) if word is None][::-1]
        if len(found) + len(found._free) < len(words):
            raise ValueError("a vocabulary must have each word once")
        return found


def pieces(before: int, n: int) -> list[int]:
    """Return where to divide n rows that follow ``before`` others, so that words are forgotten at fixed rows.

    >>> pieces(16000, 20000)
    [0, 384, 16768, 20000]
    """
    return [0, *range(ROWS_TO_FORGET - before % ROWS_TO_FORGET, n, ROWS_TO_FORGET), n]


def forgets_after(n_rows: int) -> bool:
    """Return whether words are forgotten after n_rows of a stream: at the ends of ``pieces``."""
    return n_rows % ROWS_TO_FORGET == 0


def _canonical(columns: Int, counts: Float | None, lengths: Int) -> tuple[Int, Int, Float]:
    """Return rows with each column once, in ascending order, without counts of 0."""
    n, width = len(lengths), 1 + int(np.max(columns, initial=0))
    places = np.repeat(np.arange(n), lengths) * width + columns
    if counts is None:
        cells, times = np.unique(places, return_counts=True)
        data = times.astype(np.float64)
    else:
        cells, inverse = np.unique(places, return_inverse=True)
        data = np.bincount(inverse, counts, len(cells))
        cells, data = cells[data > 0.0], data[data > 0.0]
    rows, indices = np.divmod(cells, width)
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]), indices, data


def _single_row(columns: list[int], counts: Float | None) -> tuple[Int, Int, Float]:
    """Return the same for one row, faster."""
    total = dict.fromkeys(sorted(columns), 0.0)
    for column, count in zip(columns, [1.0] * len(columns) if counts is None else counts.tolist(), strict=True):
        total[column] += count
    found = {column: count for column, count in total.items() if count > 0.0}
    n = len(found)
    return np.array([0, n]), np.fromiter(found, np.int64, n), np.fromiter(found.values(), np.float64, n)

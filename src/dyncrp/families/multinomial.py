"""Counts of words: a multinomial with a Dirichlet prior, over a vocabulary that grows with the stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from dyncrp.arrays.checks import BadRow, Seed, real
from dyncrp.arrays.counts import LARGEST_COUNT
from dyncrp.families.base import Family, Float
from dyncrp.families.gamma import log_rising
from dyncrp.families.protocols import SCALES, Compiled, Explains, HasCodes, HasShape, Proposes, Settings, Shapes, Widens

LEAST, MOST = 1e-6, 1e9  # the range of a hyperparameter
CONCENTRATIONS = (1000.0, 300.0, 100.0, 30.0, 10.0)
LENGTH = 10  # words in a sampled document


@dataclass(frozen=True, eq=False)
class Multinomial(Family, Proposes, HasShape, Widens, Explains, HasCodes, Compiled):
    """x_w counts word w in a document of L = Σ_w x_w words, drawn from the word probabilities φ ~ Dirichlet(β).

    T(x) = (1, x). With s the counts of a table and n = Σ_w s_w, and with B = Σ_w β_w, the predictive is

        p(x) = L!/Π_w x_w! · Π_w (s_w + β_w)_{x_w} / (n + B)_L,   (z)_k = z (z + 1) ⋯ (z + k − 1),

    the probability of the counts, given the length. Outside a stream, with D columns, β_w = B/D.

    **In a stream** the vocabulary grows, and β is computed for each document from the open tables (``given``). The V
    words that some open table has are known, and one more word stands for all unknown words:

        β_w = B/(V + 1),   or with a background s   β_w = B (N_w + s)/(N + s(V + 1)),

    where N_w is the count of word w in all open tables, N = Σ_w N_w, and N_w = 0 for the extra word, whose mass is β_0.
    So new words are accounted for, as one unknown word, before a document is scored. Tables then draw from a Dirichlet
    process whose atoms are the known words, with a mass β_0 without atoms. Any number of new words may come, and a new
    word has no identity. A document is its counts of known words and the counts k_1, …, k_m of its new words, in no
    order. If a_k of these equal k,

        p(x) = L!/(Π_w x_w! Π_j k_j! Π_k a_k!) · β_0^m Π_j (k_j − 1)! · Π_w (s_w + β_w)_{x_w} / (n + B)_L.

    This is the product of Pólya's urns summed over the orders of the words. It sums to 1 over all documents of one
    length, for any tables, because β is known before the document comes. The first factor and the factors of the new
    words are the same for all tables and cancel between them. But (n + B)_L makes a new word count against tables that
    have many words.

    When all tables with a word have closed, the word and N_w are forgotten, and it is new if it comes again. So memory
    is bounded if the number of tables is, and p is still a probability, given the open tables.

    Documents are ``sparse``: each is seated wholly at its most probable table, which may be a new one. If documents
    were divided among tables, every table would have a share of every word. Responsibilities of at least 0.01 are
    reported, and always that of the document's own table.

    Parameters
    ----------
    concentration : float or None
        B, the number of words that the prior is worth, from 1e-6 to 1e9. None to learn it.
    background : float or None
        s, from 1e-6 to 1e9. With it, words that are common everywhere say less about a table, and no list of stop words
        is needed. With None, all words are treated alike; a large s has nearly the same effect.

    Examples
    --------
    >>> family = Multinomial(concentration=4.0)
    >>> stats = family.statistics(np.array([[2.0, 1.0, 0.0, 0.0]]))
    >>> np.exp(family.log_predictive(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]), stats)).round(3)
    array([[0.429],
           [0.143]])
    >>> now = family.given(stats)  # two words are known, and the others are new: β is 4/3 for each of the two
    >>> np.exp(now.log_predictive(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]), stats)).round(3)
    array([[0.476],
           [0.19 ]])
    """

    concentration: float | None = None
    background: float | None = None

    def __post_init__(self) -> None:
        for name in ("concentration", "background"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _checked(name, getattr(self, name)))

    @property
    def known(self) -> bool:
        """Whether the concentration has a value. The background is never learned."""
        return self.concentration is not None

    @property
    def sparse(self) -> bool:
        """True."""
        return True

    def given(self, stats: Float, columns: NDArray[np.int64] | None = None) -> Multinomial:
        """Return the family for the next document, given the open tables (K, 1 + D). columns: see ``Family``.

        >>> stats = np.array([[1.0, 2.0, 1.0, 0.0, 1.0]])
        >>> some = Multinomial(3.0).given(stats, np.array([1, 2]))  # the last column is all others
        >>> whole = Multinomial(3.0).given(stats).log_predictive(np.array([[0.0, 2.0, 1.0, 0.0]]), stats)
        >>> part = some.log_predictive(np.array([[2.0, 1.0, 0.0]]), np.array([[1.0, 1.0, 0.0, 3.0]]))
        >>> bool(np.isclose(whole, part))
        True
        """
        counts = np.sum(stats[:, 1:], axis=0)
        weight = (counts > 0.0) * (1.0 if self.background is None else counts + self.background)
        unseen = 1.0 if self.background is None else self.background
        total = np.sum(weight) + unseen
        shares = weight / total
        if columns is not None:
            shares = np.append(shares[columns], np.sum(np.delete(shares, columns)))
        return _AtThisMoment(self.concentration, self.background, _read_only(shares), unseen / total)

    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return candidates for the concentration. Labels are not used."""
        if self.known:
            return [self]
        return [] if labels is not None else [Multinomial(strength, self.background) for strength in CONCENTRATIONS]

    def continuous(self, n_features: int) -> NDArray[np.bool_]:
        """Return False for every feature."""
        return np.zeros(n_features, dtype=bool)

    @property
    def can_widen(self) -> bool:
        """True if the concentration is known, as a vocabulary grows."""
        return self.known

    def widen(self, stats: Float, n_features: int) -> Float:
        """Return stats (K, 1 + D) with zeros for words that were added."""
        return np.pad(stats, ((0, 0), (0, 1 + n_features - stats.shape[1])))

    def check(self, X: Float) -> Float:
        """Check for integers from 0 to 2³¹."""
        bad = np.argwhere(~((X >= 0) & (X <= LARGEST_COUNT) & (np.floor(X) == X)))
        if bad.size:
            row, column = bad[0]
            raise BadRow(NOT_A_COUNT.format(value=X[row, column]), row, column)
        return X

    @property
    def _strength(self) -> float:
        self.require_known()
        return float(self.concentration)  # type: ignore[arg-type]

    def _prior(self, n_features: int) -> Float:
        """Return β_w of each column; 0 if the word is unknown: (D,)."""
        return np.full(n_features, self._strength / n_features)

    def _log_unseen(self, X: Float) -> Float:
        """Return log β_0 (x_w − 1)! in columns of unknown words that a document has, and 0 in others: (n, D)."""
        return np.zeros(X.shape)

    def log_base_measure(self, X: Float) -> Float:
        """Return log L!/Π_w x_w!. In a stream, subtract Σ_k log a_k!, as new words have no order."""
        return gammaln(np.sum(X, axis=1) + 1.0) - np.sum(gammaln(X + 1.0), axis=1)

    def log_partition(self, stats: Float) -> Float:
        """Return Σ_w log (β_w)_{s_w} − log (B)_n; for an unknown word, (β_w)_{s_w} is β_0 (s_w − 1)!."""
        s = stats[:, 1:]
        each = _log_rising(self._prior(s.shape[1]), s) + self._log_unseen(s)
        return np.sum(each, axis=1) - log_rising(self._strength, np.sum(s, axis=1))

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return the log of p(x) above."""
        s, x = stats[None, :, 1:], X[:, None, :]
        each = _log_rising(self._prior(X.shape[1]) + s, x) + np.where(s > 0.0, 0.0, self._log_unseen(x))
        total = log_rising(self._strength + np.sum(s, axis=2), np.sum(x, axis=2))
        return np.sum(each, axis=2) - total + self.log_base_measure(X)[:, None]

    def log_predictive_terms(self, X: Float, stats: Float) -> Float:
        """Return terms by word: its own factor, and its share x_w/L of log (n + B)_L and log h(x).

        Without log h(x), the term of a word is the log of its probability given the words before it in the document,
        averaged over all orders of the words. A word that is absent has the term 0.
        """
        s, x = stats[None, :, 1:], X[:, None, :]
        own = _log_rising(self._prior(X.shape[1]) + s, x) + np.where(s > 0.0, 0.0, self._log_unseen(x))
        length = np.sum(X, axis=1)[:, None]
        common = self.log_base_measure(X)[:, None] - log_rising(self._strength + np.sum(s, axis=2), length)
        return own + (common / np.maximum(length, 1.0))[:, :, None] * x

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return Σ_w x_w (ψ(β_w + s_w) − ψ(B + n)) + log h(x). In a stream it is undefined: new words have no φ_w."""
        s = stats[:, 1:]
        logs = digamma(self._prior(s.shape[1]) + s) - digamma(self._strength + np.sum(s, axis=1, keepdims=True))
        return X @ logs.T + self.log_base_measure(X)[:, None]

    def centers(self, stats: Float) -> Float:
        """Return the expected counts of a document of the table's mean length."""
        rows, s = stats[:, :1], stats[:, 1:]
        n = np.sum(s, axis=1, keepdims=True)
        length = np.divide(n, rows, out=np.zeros_like(n), where=rows > 0.0)
        return length * (self._prior(s.shape[1]) + s) / (self._strength + n)

    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return shapes in 2√x, in which a count of any mean has about unit variance."""
        return Shapes(stats[:, 0], 2.0 * np.sqrt(self.centers(stats)), np.ones(len(stats)), 1.0, np.ones(1))

    def settings(self, n_features: int) -> Settings:
        """Return the settings of ``Multinomial`` in C++."""
        return Settings("Multinomial", {"concentration": self._strength, "background": self.background or 0.0}, {})

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw φ ~ Dirichlet(β): (n_tables, n_features)."""
        prior, rng = self._prior(n_features), np.random.default_rng(seed)
        # The gammas of a Dirichlet, as logarithms: with a small concentration, all of them would underflow.
        logs = np.log(rng.standard_gamma(prior + 1.0, (n_tables, n_features)))
        logs += np.log1p(-rng.random(logs.shape)) / prior
        draws = np.exp(logs - np.max(logs, axis=1, keepdims=True, initial=-np.inf))
        return draws / np.sum(draws, axis=1, keepdims=True)

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw the counts of ten words from each row of probabilities: (n, D) to (n, D)."""
        self.require_known()
        return np.random.default_rng(seed).multinomial(LENGTH, parameters).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _AtThisMoment(Multinomial):
    """The family for the next document. shares: of the known words in B, 0 for others, and then of all others."""

    shares: Float = None  # type: ignore[assignment]
    unseen: float = 0.0

    def _prior(self, n_features: int) -> Float:
        return self._strength * self.shares

    def _log_unseen(self, X: Float) -> Float:
        is_new = (self.shares == 0.0) & (X > 0.0)
        return np.where(is_new, np.log(self._strength * self.unseen) + gammaln(np.where(is_new, X, 1.0)), 0.0)

    def log_base_measure(self, X: Float) -> Float:
        new = np.where(self.shares == 0.0, X, 0.0)
        orders = [np.sum(gammaln(np.unique(row[row > 0.0], return_counts=True)[1] + 1.0)) for row in new]
        return super().log_base_measure(X) - np.array(orders)

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        raise ValueError("Multinomial needs assignment='predictive': a new word has no expected log probability")


NOT_A_COUNT = "Multinomial takes counts of words, integers from 0 to 2**31, got {value}"


def _log_rising(a: Float, s: Float) -> Float:
    """Return log (a)_s, or 0 where a is 0."""
    return np.where(a > 0.0, log_rising(np.where(a > 0.0, a, 1.0), s), 0.0)


def _checked(name: str, value: object) -> float:
    number = real(value)
    if number is None or not LEAST <= number <= MOST:
        raise ValueError(f"{name} must be a number from {LEAST:g} to {MOST:g}, or None, got {value!r}")
    return number


def _read_only(array: Float) -> Float:
    array.flags.writeable = False
    return array

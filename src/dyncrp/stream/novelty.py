"""How often an earlier row was as unexpected: a sketch of past novelty scores that is bounded and forgets.

A score is −log p(x_n | x_<n) in nats, any real number; its zero does not matter. The p-value of a score s is the share
of earlier scores s_i that are as high, with weights w_i that fall with age:

    p = Σ_i w_i [s_i ≥ s] / (1 + Σ_i w_i).

If scores come in random order, P(p ≤ a) = a whatever their distribution: the next score is equally likely to lie in
each of the gaps between earlier ones. In a gap 1/p is linear, which keeps P(p ≤ a) = a if the tail is exponential.
Above the score u that one row reaches, a generalised Pareto tail goes on,

    p = (1 + ξ (s − u)/σ)^(−1/ξ) / (1 + Σ_i w_i),

with ξ and σ fitted to the highest 96 rows by probability-weighted moments (Hosking and Wallis 1987).

**Near ties.** Equal rows, such as rows of a few booleans, have nearly the same score, which may rise slowly as the
model learns: each would be the highest so far. So a high score s counts as s − 0.1, and p is multiplied by exp(−0.1),
since the share above falls by the factor e per nat if the density is right. Where the highest 96 rows exceed the lowest
of them by h > 1 nats on average, the factor is exp(−0.1/h).

**Memory.** The first rows of a stream are unusual, since most tables open among them. So the memory grows with the
stream: the score of row i has weight (i/n)² at row n, and about 0.4 n rows count. From row 131,072 on, weights fall by
the factor e in 65,536 rows.

Scores are added in blocks, and kept in bins, see ``dyncrp.stream.bins``.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.engine.schema import NOVELTY, check
from dyncrp.engine.types import Float
from dyncrp.stream.bins import MOST_HIGH, NEGLIGIBLE, Bins, make_bins

MOST_UNREAD = 16_384  # scores that are stored before they are processed
LARGEST = 1e300  # scores are clipped to this, so that differences stay finite


class NoveltySketch:
    """The scores of a stream so far, in bounded memory; see the module for the definition.

    The results do not depend on how the scores are divided into calls. The first 32 have p = 1.

    >>> import numpy as np
    >>> scores = np.random.default_rng(0).exponential(size=100_000)
    >>> sketch = NoveltySketch()
    >>> sketch.add(scores)
    >>> sketch.p_values(np.array([0.0, 1.0, 5.0])).round(4)  # in truth exp(−s): 1, 0.3679, 0.0067
    array([1.    , 0.3833, 0.0067])
    >>> int(np.sum(NoveltySketch().p_values(scores)[2000:] <= 0.001))  # 98 are expected
    100
    """

    def __init__(self) -> None:
        self._bins = make_bins()  # shared by copies: it is replaced, never changed
        # Scores that are not processed yet, with opposite sign: it is faster to process many together. Copies share
        # the array, to which scores are appended; each knows how many of its entries belong to it.
        self._unread = array("d")
        self._n_unread = 0
        self.ahead: NoveltySketch | None = None  # with the scores of the last call of ``p_values`` added

    @property
    def n(self) -> int:
        """The number of scores added."""
        return self._bins.n + self._n_unread

    def add(self, scores: Float) -> None:
        """Add the next scores, (n,)."""
        self.add_evidence((-_checked(scores)).tobytes())

    def add_evidence(self, log_evidence: bytes, *, wait: bool = False) -> None:
        """Add the next scores, given as log evidence, −score, in the bytes of float64. They are processed later.

        wait: whether to store any number of them, since ``p_values`` or ``read`` is called after these rows anyway.
        """
        unread = self._unread
        if len(unread) != self._n_unread:
            unread = self._unread = unread[: self._n_unread]
        unread.frombytes(log_evidence)
        self._n_unread = len(unread)
        if self._n_unread >= MOST_UNREAD and not wait:
            self.read()

    def add_one(self, score: float) -> None:
        """Add one score, faster than ``add``."""
        if not -LARGEST <= score <= LARGEST:
            self.add(np.array([score]))
            return
        unread = self._unread
        if len(unread) != self._n_unread:
            unread = self._unread = unread[: self._n_unread]
        unread.append(-score)
        self._n_unread += 1
        if self._n_unread >= MOST_UNREAD:
            self.read()

    def read(self) -> None:
        """Process all scores so far. Call this before copying, if several copies will compute p-values."""
        if self._n_unread:
            other = self.copy()
            scores = -np.frombuffer(other._unread[: other._n_unread])
            other._unread, other._n_unread = array("d"), 0
            other._take(_checked(scores), None)
            self.__dict__.update(other.__dict__)  # in one step, so that an interruption changes nothing

    def p_values(self, scores: Float, most: float = 1.0) -> Float:
        """Return p, (n,), of scores that would come next, in this order. The sketch does not change.

        most: above this, p may be given as 1, which is faster.
        """
        scores = _checked(scores)
        p = np.ones(len(scores))
        self.read()
        ahead = self.copy()
        ahead._take(scores, p, most)
        self.ahead = ahead
        return p

    def add_with_p(self, scores: Float, most: float = 1.0) -> Float:
        """Add the next scores, and return their p, (n,). most: above this, p may be given as 1, which is faster."""
        scores = _checked(scores)
        p = np.ones(len(scores))
        self.read()
        self._take(scores, p, most)
        return p

    def _take(self, scores: Float, p: Float | None, most: float = 1.0) -> None:
        """Add scores, and write the p-value of each into ``p`` if it is given and at most ``most``."""
        bins = self._bins.copy()
        bins.take(scores, p, most)
        self._bins = bins

    def copy(self) -> NoveltySketch:
        """Return an independent copy."""
        other = object.__new__(NoveltySketch)
        other.__dict__ = self.__dict__.copy()
        other.ahead = None
        return other

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file, from which the sketch continues to the bit."""
        self.read()
        n, start, *rest = _parts(self._bins)
        return dict(zip(NOVELTY, (np.array([n, start]), *rest), strict=True))

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]]) -> NoveltySketch:
        """Return the sketch that ``arrays`` described; raise ``ValueError`` if they are invalid."""
        counts, values, weights, high, low = check(arrays, NOVELTY).values()
        if not 0 <= counts[1] <= counts[0]:
            raise ValueError(f"its counts of past novelty are {counts.tolist()}")
        if np.any(np.diff(values) <= 0.0) or not np.all(weights >= NEGLIGIBLE):
            raise ValueError("its bins of past novelty are not increasing values with positive weights")
        if any(np.any(np.abs(scores) > LARGEST) for scores in (values, high, low)):
            raise ValueError(f"its scores of past novelty must be from {-LARGEST:g} to {LARGEST:g}")
        if np.sum(weights) > counts[1] * (1.0 + 1e-9):
            raise ValueError(f"its bins of past novelty weigh {np.sum(weights)}, more than {counts[1]} rows")
        n, start = counts.tolist()
        if (start > 0) != (len(values) > 0):
            raise ValueError(f"its {start} rows of past novelty are in {len(values)} bins")
        bins = make_bins(n, start, values, weights, high, low)
        of_one_block = n < bins.end and len(high) < MOST_HIGH and len(high) + len(low) <= n - start
        if not (of_one_block and np.all(high >= bins.border) and np.all(low < bins.border)):
            raise ValueError("its unsorted scores of past novelty are not those of one block")
        sketch = cls()
        sketch._bins = bins
        return sketch

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (_parts(self._bins), self._unread[: self._n_unread])


def _parts(bins: Bins) -> tuple[int, int, Float, Float, Float, Float]:
    """Return what ``make_bins`` needs to go on from there."""
    scores = (np.array(part, dtype=np.float64) for part in (bins.values, bins.weights, bins.high, bins.low))
    return bins.n, bins.start, *scores  # type: ignore[return-value]


def _rebuild(parts: tuple[int, int, Float, Float, Float, Float], unread: Any) -> NoveltySketch:
    """Return the sketch that was copied or pickled."""
    sketch = NoveltySketch()
    sketch._bins = make_bins(*parts)
    sketch._unread, sketch._n_unread = unread, len(unread)
    return sketch


def _checked(scores: Float) -> Float:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"scores must be one number for each row, got shape {scores.shape}")
    if len(scores) and not (scores.min() >= -LARGEST and scores.max() <= LARGEST):
        wrong = np.flatnonzero(~np.isfinite(scores))
        if len(wrong):
            raise ValueError(f"scores must be finite, got {scores[wrong[0]]} in row {wrong[0]}")
        scores = np.clip(scores, -LARGEST, LARGEST)
    return scores

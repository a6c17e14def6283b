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

**Blocks.** Scores are added in blocks of a quarter of the rows before, from 32 to 16,384. High scores count at once for
the scores after them; others wait until the block is full, and of many only some are kept. Where a block ends depends
on the scores only, not on calls.

**Bins.** Added scores are kept as bins: a score, and the weight of the scores around it. A bin has a 45th of the weight
above it, and at least a quarter of a row. About 440 bins are enough, however long the stream is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Mapping
from functools import lru_cache
from math import exp, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.engine.schema import NOVELTY, check

Float = NDArray[np.float64]

LEAST_BLOCK, MOST_BLOCK = 32, 16_384  # rows
BLOCK_SHARE = 4  # in between, a block has this part of the rows before it
POWER = 2.0  # of the weights while the memory grows
MEMORY = 65_536  # rows in which weights fall by the factor e in the long run
BINS = 45.0  # while the weight above them grows by the factor e
LEAST_BIN = 0.25  # rows
HIGH_SHARE, LEAST_HIGH = 64.0, 24.0  # the highest 64th of the memory is high, and at least 24 rows
NEAR = 0.1  # nats: a high score does not count as higher than those that are this near
MOST_HIGH = 512  # a block ends early after this many high scores
MOST_LOW = 512  # other scores that are kept of a block
GOLDEN = (5.0**0.5 - 1.0) / 2.0  # its multiples are spread evenly between integers
TAIL = 96.0  # the tail is fitted to this many of the highest rows
MOST_SHAPE = 0.9  # of ξ; the moments exist below 1
PRIOR_SHAPE, PRIOR_ROWS = 0.5, 10.0  # the prior of ξ, and how many rows it counts
MOST_UNREAD = 16_384  # scores that are stored before they are processed
LARGEST = 1e300  # scores are clipped to this, so that differences stay finite
SMALLEST_P = 1e-300
NEGLIGIBLE = 1e-9  # rows: a bin with less weight is dropped


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
        self._n = 0
        self._start = 0  # rows before this block
        self._values: Float = np.empty(0)  # of the bins, increasing
        self._weights: Float = np.empty(0)
        self._high: list[float] = []  # of this block, in order of arrival
        self._low: list[float] = []
        # Scores that are not processed yet, with opposite sign: it is faster to process many together. Copies share
        # the array, to which scores are appended; each knows how many of its entries belong to it.
        self._unread = array("d")
        self._n_unread = 0
        self.ahead: NoveltySketch | None = None  # with the scores of the last call of ``p_values`` added
        self._start_block()

    @property
    def n(self) -> int:
        """The number of scores added."""
        return self._n + self._n_unread

    def _start_block(self) -> None:
        """Compute from the bins what the rows of the next block need."""
        size = min(max(self._start // BLOCK_SHARE, LEAST_BLOCK), MOST_BLOCK)
        self._end, self._picks = self._start + size, _picks(size)
        self._border, self._total = -inf, 1.0
        values, weights = self._values, self._weights
        if not len(values):
            return
        above = np.cumsum(weights[::-1])[::-1]
        W = float(above[0])
        self._total = 1.0 + W
        self._shares = 1.0 / above
        if W > LEAST_HIGH:
            n_low = int(np.count_nonzero(above > max(W / HIGH_SHARE, LEAST_HIGH)))
            self._border = float(values[n_low] if n_low < len(values) else np.nextafter(values[-1], inf))
        self._tail = _Tail(values, weights, above)

    def add(self, scores: Float) -> None:
        """Add the next scores, (n,)."""
        self.add_evidence((-_checked(scores)).tobytes())

    def add_evidence(self, log_evidence: bytes) -> None:
        """Add the next scores, given as log evidence, −score, in the bytes of float64. They are processed later."""
        unread = self._unread
        if len(unread) != self._n_unread:
            unread = self._unread = unread[: self._n_unread]
        unread.frombytes(log_evidence)
        self._n_unread = len(unread)
        if self._n_unread >= MOST_UNREAD:
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
        begin = 0
        while begin < len(scores):
            done = self._n - self._start
            part = scores[begin : begin + self._end - self._n]
            at = (part >= self._border).nonzero()[0]
            room = MOST_HIGH - len(self._high)
            if len(at) >= room:
                at = at[:room]
                part = part[: at[-1] + 1]
            high = part[at].tolist()
            if p is not None:
                p[begin : begin + len(part)] = self._p(part, at, high, most)
            self._high = self._high + high  # a new list, since copies share the old one
            first, last = bisect_left(self._picks, done), bisect_left(self._picks, done + len(part))
            low = part[self._picks[first:last] - done]
            self._low = self._low + low[low < self._border].tolist()
            self._n += len(part)
            begin += len(part)
            if self._n == self._end or len(self._high) == MOST_HIGH:
                self._end_block()

    def _p(self, scores: Float, at: NDArray[np.intp], high: list[float], most: float) -> Float:
        """Return p of scores of one block, 1 if it is above ``most``; at: the indices of the high ones."""
        p = np.ones(len(scores))
        if not len(self._values):
            return p
        # 1/p rises with the score, so only those above the last bin whose p is higher than ``most`` are looked at.
        last = int(np.searchsorted(self._shares, 1.0 / (self._total * most))) - 1
        some = slice(None) if last < 0 or most >= 1.0 else (scores > self._values[last]).nonzero()[0]
        p[some] = 1.0 / (self._total * np.interp(scores[some], self._values, self._shares))
        if not high:
            return np.maximum(p, SMALLEST_P, out=p)
        near = scores[at] - NEAR
        above = 1.0 / np.interp(near, self._values, self._shares)
        beyond = np.flatnonzero(near > self._tail.start)
        if len(beyond):
            above[beyond] = self._tail.above(near[beyond])
        # High scores count at once within the block, so that many of them in a row soon stop being unexpected.
        waiting = sorted(self._high)
        for i, (score, least) in enumerate(zip(high, near.tolist(), strict=True)):
            above[i] += len(waiting) - bisect_left(waiting, least)
            insort(waiting, score)
        p[at] = exp(-NEAR / self._tail.excess) * above / (self._total + (self._n - self._start) + at)
        return np.maximum(p, SMALLEST_P, out=p)

    def _end_block(self) -> None:
        """Add the scores of the block to the bins."""
        rows, n_high = self._n - self._start, len(self._high)
        growing = self._n <= 2 * MEMORY
        kept = (self._start / self._n) ** POWER if growing else exp(-rows / MEMORY)
        waiting = np.array(self._high + self._low)
        weights = np.ones(len(waiting))
        if self._low:
            weights[n_high:] = (rows - n_high) / len(self._low)
        values = np.concatenate([self._values, waiting])
        self._values, self._weights = _bins(values, np.concatenate([kept * self._weights, weights]))
        self._start, self._high, self._low = self._n, [], []
        self._start_block()

    def copy(self) -> NoveltySketch:
        """Return an independent copy."""
        other = object.__new__(NoveltySketch)
        other.__dict__ = self.__dict__.copy()  # arrays and lists are replaced, never changed
        other.ahead = None
        return other

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file, from which the sketch continues to the bit."""
        self.read()
        counts, bins = np.array([self._n, self._start]), (self._values.copy(), self._weights.copy())
        return dict(zip(NOVELTY, (counts, *bins, np.array(self._high), np.array(self._low)), strict=True))

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
        sketch = cls()
        sketch._n, sketch._start = counts.tolist()
        if (sketch._start > 0) != (len(values) > 0):
            raise ValueError(f"its {sketch._start} rows of past novelty are in {len(values)} bins")
        sketch._values, sketch._weights = values.copy(), weights.copy()
        sketch._start_block()
        rows = sketch._n - sketch._start
        of_one_block = rows < sketch._end - sketch._start and len(high) < MOST_HIGH and len(high) + len(low) <= rows
        if not (of_one_block and np.all(high >= sketch._border) and np.all(low < sketch._border)):
            raise ValueError("its unsorted scores of past novelty are not those of one block")
        sketch._high, sketch._low = high.tolist(), low.tolist()
        return sketch


class _Tail:
    """How many rows are as high as a score s: c (1 + ξ (s − u)/σ)^(−1/ξ), above the score u that c rows reach."""

    def __init__(self, values: Float, weights: Float, above: Float) -> None:
        """Fit the tail to the highest of these bins."""
        self.rows = min(1.0, float(above[0]))
        self.start = float(np.interp(1.0 / self.rows, 1.0 / above, values))
        self.shape = self.scale = 0.0
        self.excess = 1.0  # the mean excess of the highest scores over the lowest of them, at least 1 nat
        first = max(int(np.count_nonzero(above > TAIL)), 1)
        excess, weights, above = values[first:] - values[first - 1], weights[first:], above[first:]
        if len(excess) < 2:
            return
        # E[Y] and E[Y (1 − F(Y))]: the weight above a score over that of all others is an unbiased 1 − F.
        mean = float(weights @ excess) / above[0]
        self.excess = max(mean, 1.0)
        weighted = float(weights @ (excess / mean * ((above - weights) / (above[0] - weights)))) / above[0]
        shape = min(max(2.0 - 1.0 / (1.0 - 2.0 * min(weighted, 0.4)), 0.0), MOST_SHAPE)
        self.shape = (above[0] * shape + PRIOR_ROWS * PRIOR_SHAPE) / (above[0] + PRIOR_ROWS)
        self.scale = mean * (1.0 - self.shape) + self.shape * max(self.start - float(values[first - 1]), 0.0)

    def above(self, scores: Float) -> Float:
        """Return how many rows are as high as each of these scores, which must be above ``start``."""
        if self.scale == 0.0:  # too few bins to fit the tail
            return np.full(len(scores), self.rows)
        with np.errstate(over="ignore", under="ignore"):  # p is clipped at the smallest value
            z = (scores - self.start) / self.scale
            return self.rows * np.exp(-np.log1p(self.shape * z) / self.shape)


@lru_cache(maxsize=4)
def _picks(size: int) -> NDArray[np.int64]:
    """Return the rows of a block that are kept if they are low.

    They are spread evenly but irregularly: equally spaced rows would be alike if the stream has a period.
    """
    stride = -(-size // MOST_LOW)
    k = np.arange(size // stride)
    return stride * k + (stride * (GOLDEN * k % 1.0)).astype(np.int64)


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


def _bins(values: Float, weights: Float) -> tuple[Float, Float]:
    """Return bins for weighted scores in any order: increasing values and their weights.

    A score with c rows above it has the number 4c if this is below 45, and 45 (1 + log(4c/45)) otherwise. Scores whose
    numbers have the same integer part share a bin. Its value is their median, which is one of them, so ties stay ties.
    """
    order = np.argsort(-values, kind="stable")
    values, weights = values[order], weights[order]
    at = _changes(values)
    values, weights = values[at], np.add.reduceat(weights, at)
    above = np.cumsum(weights)
    middle = above - 0.5 * weights
    share = middle / (BINS * LEAST_BIN)
    at = _changes(np.floor(BINS * (np.minimum(share, 1.0) + np.log(np.maximum(share, 1.0)))))
    weights = np.add.reduceat(weights, at)
    last = np.append(at[1:], len(values)) - 1
    median = np.searchsorted(above, above[last] - 0.5 * weights)
    counts = weights >= NEGLIGIBLE
    return values[median][counts][::-1].copy(), weights[counts][::-1].copy()


def _changes(values: Float) -> NDArray[np.intp]:
    """Return 0 and the places where values (n,) differ from the one before."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))

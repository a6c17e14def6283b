"""Past scores in bins: blocks of scores are added to them, and tell how many earlier scores were as high.

``NoveltySketch`` says what for. This is its reference in NumPy; ``engine/cpp/bins.hpp`` computes the same, faster.

**Blocks.** Scores are added in blocks of a quarter of the rows before, from 32 to 16,384. High scores count at once for
the scores after them; others wait until the block is full, and of many only some are kept. Where a block ends depends
on the scores only, not on calls.

**Bins.** Added scores are kept as bins: a score, and the weight of the scores around it. A bin has a 45th of the weight
above it, and at least a quarter of a row. About 440 bins are enough, however long the stream is.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from functools import lru_cache
from math import exp, inf
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.engine import has_extension
from dyncrp.engine.types import Float

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
SMALLEST_P = 1e-300
NEGLIGIBLE = 1e-9  # rows: a bin with less weight is dropped
EMPTY: Float = np.empty(0)


class Bins(Protocol):
    """The scores of a stream so far."""

    @property
    def n(self) -> int:
        """Scores so far."""

    @property
    def start(self) -> int:
        """Scores before this block."""

    @property
    def end(self) -> int:
        """Scores where this block ends at the latest."""

    @property
    def border(self) -> float:
        """From which score on one is high."""

    @property
    def values(self) -> ArrayLike:
        """Of the bins, increasing."""

    @property
    def weights(self) -> ArrayLike:
        """Of the bins."""

    @property
    def high(self) -> list[float]:
        """High scores of this block, in order."""

    @property
    def low(self) -> list[float]:
        """Other scores of this block that are kept, in order."""

    def take(self, scores: Float, p: Float | None = None, most: float = 1.0) -> None:
        """Add scores, and write the p-value of each into ``p``, or 1 if it is above ``most``."""

    def copy(self) -> Self:
        """Return an independent copy."""


def make_bins(
    n: int = 0, start: int = 0, values: Float = EMPTY, weights: Float = EMPTY, high: Float = EMPTY, low: Float = EMPTY
) -> Bins:
    """Return bins that go on from there, in C++ if it is installed."""
    if not has_extension():
        return SlowBins(n, start, values, weights, high, low)
    from dyncrp.engine import loop

    return loop.Bins(n, start, values, weights, high, low)


class SlowBins:
    """The bins in NumPy."""

    def __init__(
        self,
        n: int = 0,
        start: int = 0,
        values: Float = EMPTY,
        weights: Float = EMPTY,
        high: Float = EMPTY,
        low: Float = EMPTY,
    ) -> None:
        self.n, self.start = n, start
        self.values, self.weights = values, weights
        self.high: list[float] = high.tolist()
        self.low: list[float] = low.tolist()
        self._start_block()

    def _start_block(self) -> None:
        """Compute from the bins what the rows of the next block need."""
        size = min(max(self.start // BLOCK_SHARE, LEAST_BLOCK), MOST_BLOCK)
        self.end, self._picks = self.start + size, _picks(size)
        self.border, self._total = -inf, 1.0
        values, weights = self.values, self.weights
        if not len(values):
            return
        above = np.cumsum(weights[::-1])[::-1]
        W = float(above[0])
        self._total = 1.0 + W
        self._shares = 1.0 / above
        if W > LEAST_HIGH:
            n_low = int(np.count_nonzero(above > max(W / HIGH_SHARE, LEAST_HIGH)))
            self.border = float(values[n_low] if n_low < len(values) else np.nextafter(values[-1], inf))
        self._tail = Tail(values, weights, above)

    def take(self, scores: Float, p: Float | None = None, most: float = 1.0) -> None:
        """Add scores, and write the p-value of each into ``p`` if it is given and at most ``most``."""
        begin = 0
        while begin < len(scores):
            done = self.n - self.start
            part = scores[begin : begin + self.end - self.n]
            at = (part >= self.border).nonzero()[0]
            room = MOST_HIGH - len(self.high)
            if len(at) >= room:
                at = at[:room]
                part = part[: at[-1] + 1]
            high = part[at].tolist()
            if p is not None:
                p[begin : begin + len(part)] = self._p(part, at, high, most)
            self.high = self.high + high  # a new list, since copies share the old one
            first, last = bisect_left(self._picks, done), bisect_left(self._picks, done + len(part))
            low = part[self._picks[first:last] - done]
            self.low = self.low + low[low < self.border].tolist()
            self.n += len(part)
            begin += len(part)
            if self.n == self.end or len(self.high) == MOST_HIGH:
                self._end_block()

    def _p(self, scores: Float, at: NDArray[np.intp], high: list[float], most: float) -> Float:
        """Return p of scores of one block, 1 if it is above ``most``; at: the indices of the high ones."""
        p = np.ones(len(scores))
        if not len(self.values):
            return p
        # 1/p rises with the score, so only those above the last bin whose p is higher than ``most`` are looked at.
        last = int(np.searchsorted(self._shares, 1.0 / (self._total * most))) - 1
        some = slice(None) if last < 0 or most >= 1.0 else (scores > self.values[last]).nonzero()[0]
        p[some] = 1.0 / (self._total * np.interp(scores[some], self.values, self._shares))
        if not high:
            return np.maximum(p, SMALLEST_P, out=p)
        near = scores[at] - NEAR
        above = 1.0 / np.interp(near, self.values, self._shares)
        beyond = np.flatnonzero(near > self._tail.start)
        if len(beyond):
            above[beyond] = self._tail.above(near[beyond])
        # High scores count at once within the block, so that many of them in a row soon stop being unexpected.
        waiting = sorted(self.high)
        for i, (score, least) in enumerate(zip(high, near.tolist(), strict=True)):
            above[i] += len(waiting) - bisect_left(waiting, least)
            insort(waiting, score)
        p[at] = exp(-NEAR / self._tail.excess) * above / (self._total + (self.n - self.start) + at)
        return np.maximum(p, SMALLEST_P, out=p)

    def _end_block(self) -> None:
        """Add the scores of the block to the bins."""
        rows, n_high = self.n - self.start, len(self.high)
        growing = self.n <= 2 * MEMORY
        kept = (self.start / self.n) ** POWER if growing else exp(-rows / MEMORY)
        waiting = np.array(self.high + self.low)
        weights = np.ones(len(waiting))
        if self.low:
            weights[n_high:] = (rows - n_high) / len(self.low)
        values = np.concatenate([self.values, waiting])
        self.values, self.weights = _bins(values, np.concatenate([kept * self.weights, weights]))
        self.start, self.high, self.low = self.n, [], []
        self._start_block()

    def copy(self) -> Self:
        """Return an independent copy: arrays and lists are replaced, never changed."""
        other = object.__new__(type(self))
        other.__dict__ = self.__dict__.copy()
        return other


class Tail:
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
        mean = float(np.cumsum(weights * excess)[-1]) / above[0]
        self.excess = max(mean, 1.0)
        parts = weights * (excess / mean * ((above - weights) / (above[0] - weights)))
        weighted = float(np.cumsum(parts)[-1]) / above[0]
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


def _bins(values: Float, weights: Float) -> tuple[Float, Float]:
    """Return bins for weighted scores in any order: increasing values and their weights.

    A score with c rows above it has the number 4c if this is below 45, and 45 (1 + log(4c/45)) otherwise. Scores whose
    numbers have the same integer part share a bin. Its value is their median, which is one of them, so ties stay ties.
    """
    order = np.argsort(-values, kind="stable")
    values, weights = values[order], weights[order]
    at = _changes(values)
    values, weights = values[at], _sums(weights, at)
    above = np.cumsum(weights)
    middle = above - 0.5 * weights
    share = middle / (BINS * LEAST_BIN)
    at = _changes(np.floor(BINS * (np.minimum(share, 1.0) + np.log(np.maximum(share, 1.0)))))
    weights = _sums(weights, at)
    last = np.append(at[1:], len(values)) - 1
    median = np.searchsorted(above, above[last] - 0.5 * weights)
    counts = weights >= NEGLIGIBLE
    return values[median][counts][::-1].copy(), weights[counts][::-1].copy()


def _sums(values: Float, at: NDArray[np.intp]) -> Float:
    """Return the sums of values (n,) from each of these places to the next, added up in order, as a loop does."""
    which = np.zeros(len(values), dtype=np.int64)
    which[at[1:]] = 1
    return np.bincount(np.cumsum(which), values, len(at)).astype(np.float64, copy=False)


def _changes(values: Float) -> NDArray[np.intp]:
    """Return 0 and the places where values (n,) differ from the one before."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))

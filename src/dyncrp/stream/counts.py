"""How surprising the counts of clusters in windows of rows are, each against its own past.

Windows are numbered from 0 and have the same number of rows. A cluster comes n_i times in window i. Its rate λ per
window has a conjugate posterior that forgets, a gamma distribution:

    λ | n_1, …, n_i ~ Gamma(S_i + ½, E_i),   S_i = κ S_{i−1} + n_i,   E_i = κ E_{i−1} + 1,   κ = 1 − 1/32,

so that the next count is negative binomial with mean m = (S + ½)/E and variance m (1 + 1/E). Rows of most streams come
in runs, so counts vary by more than that. The variance is therefore multiplied by an index of dispersion,

    φ = max(1, π/2 ε²),   ε = (Σ κ^(age) |n − m|/√(m (1 + 1/E)) + 2 √(2/π)) / (Σ κ^(age) + 2),

of the windows up to three before, so that a change does not hide itself. The predictive is the negative binomial of
this mean and variance. The surprise of a count is −log P(N ≥ n), or −log P(N ≤ n) if it is low. Counts are integers,
and ties among surprises would be many; so a count n is n + u with u between 0 and 1, and the distribution is continued
by the incomplete beta function, which is its own at integers. Within 1.5 standard deviations of the mean the normal
distribution takes its place, which is faster.

S adds up: that of a cluster is the sum of those of its tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, log_ndtr

from dyncrp.engine import has_extension
from dyncrp.engine.types import Float, Int

Bool = NDArray[np.bool_]
KEPT = 1.0 - 1.0 / 32.0  # κ
LEAST_WINDOWS = 4  # a past of fewer windows says too little
LEAST_EXPECTED = 8.0  # a cluster of which fewer rows are expected in a window is looked at in longer windows only
RUN = 3  # a rise or a fall lasts so many windows
SUDDEN = 3.0  # nats: a count is not suddenly high if the one before surprised by this
LOWEST = 1.5  # standard deviations: a count can only be called low if 0 would be so far below the mean
AFRESH = 6.0  # nats: if all windows of a run surprise by this, the past begins anew
PRIOR = 2.0  # windows that φ = 1 counts
USUAL = math.sqrt(2.0 / math.pi)  # the mean absolute error of a normal distribution, in standard deviations
NEAR = 1.5  # standard deviations
SMALLEST = 1e-300
NOT_SEEN = -1.0  # the surprise of a window that was not looked at


def _exposures() -> Float:
    found = [0.0]
    while len(found) < 2048:
        found.append(KEPT * found[-1] + 1.0)
    return np.array(found)


EXPOSURES = _exposures()  # E after 0, 1, … windows


@dataclass
class Past:
    """What is known of the past of C clusters of K tables, in windows of one length.

    sums: S of each table, (K,). windows: how many windows it has been there for, (K,). errors: the two sums of ε before
    each of the last three windows, oldest first, and now, (RUN + 1, 2, C). recent: the surprises of the last two
    windows, high and low, (2, RUN − 1, C).
    """

    sums: Float
    windows: Int
    errors: Float
    recent: Float

    @classmethod
    def none(cls, n_tables: int) -> Past:
        """Return the past of tables that just opened, each a cluster."""
        return cls(
            np.zeros(n_tables),
            np.zeros(n_tables, dtype=np.int64),
            np.zeros((RUN + 1, 2, n_tables)),
            np.full((2, RUN - 1, n_tables), NOT_SEEN),
        )

    def put(self, other: Past, tables: Int, cluster: int) -> None:
        """Replace the past of one cluster, which has these tables."""
        self.sums[tables], self.windows[tables] = other.sums, other.windows
        self.errors[:, :, cluster], self.recent[:, :, cluster] = other.errors[:, :, 0], other.recent[:, :, 0]


@dataclass
class Seen:
    """The counts of C clusters in w windows.

    counts: as they are, (w, C). expected: m, (w, C). surprises: high and low, (2, w, C), ``NOT_SEEN`` where a cluster
    was not looked at. runs: the least surprises of the last three windows, (2, w, C). looked: where to look for a
    sudden rise, a lasting one, and a lasting fall, (3, w, C).
    """

    counts: Float
    expected: Float
    surprises: Float
    runs: Float
    looked: Bool

    def put(self, other: Seen, begin: int, cluster: int) -> None:
        """Replace one cluster from window ``begin`` on by what ``other`` has of it alone."""
        self.counts[begin:, [cluster]], self.expected[begin:, [cluster]] = other.counts, other.expected
        self.surprises[:, begin:, [cluster]], self.runs[:, begin:, [cluster]] = other.surprises, other.runs
        self.looked[:, begin:, [cluster]] = other.looked


def count_rows(labels: Int, ids: Int, before: int, length: int) -> Int | None:
    """Return how many rows of each table there are in each window, (w, K); None if one is of another table.

    labels: of consecutive rows, (n,); below 0 if a row has no table. ids: of the tables, (K,), increasing. before: how
    many rows the first window had before. length: of the windows, in rows.

    >>> count_rows(np.array([5, 7, 7, -1, 7]), np.array([5, 7]), 1, 2)
    array([[1, 0],
           [0, 2],
           [0, 1]])
    """
    counts = np.zeros((-(-(before + len(labels)) // length), len(ids)), dtype=np.int64)
    if has_extension():
        from dyncrp.engine import loop

        return counts if loop.count_rows(labels, ids, before, length, counts) else None
    rows = np.flatnonzero(labels >= 0)
    labels = labels[rows]
    if not np.all(np.isin(labels, ids)):
        return None
    np.add.at(counts, ((before + rows) // length, np.searchsorted(ids, labels)), 1)
    return counts


def add_up(sums: Float) -> None:
    """Add to each row of sums (w, K), in C order, what is left of the one before: κ times that.

    >>> sums = np.array([[32.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> add_up(sums)
    >>> sums
    array([[32.     ,  0.     ],
           [32.     ,  1.     ],
           [31.     ,  0.96875]])
    """
    if has_extension():
        from dyncrp.engine import loop

        loop.add_up(sums, KEPT)
        return
    left = np.empty_like(sums[0])
    for before, after in pairwise(sums):
        np.multiply(before, KEPT, out=left)
        after += left


def surprise(counts: Float, mean: Float, variance: Float) -> tuple[Float, Float]:
    """Return −log P(N ≥ n) and −log P(N ≤ n) for counts n + u, with 0 < u < 1; see the module.

    >>> high, low = surprise(np.array([9.0, 3.5]), np.array([3.0, 3.0]), np.array([4.0, 4.0]))
    >>> np.exp(-high)  # P(N ≥ 9), and about 1/2
    array([0.01238478, 0.5       ])
    """
    z = (counts - 0.5 - mean) / np.sqrt(variance)
    high, low = -log_ndtr(-z), -log_ndtr(z)
    for found, side in ((high, z > NEAR), (low, z < -NEAR)):
        at = side.nonzero()
        n, m, v = counts[at], mean[at], variance[at]
        size = m * m / (v - m)
        tail = betainc(n, size, m / (size + m)) if found is high else betainc(size, n, size / (size + m))
        found[at] = -np.log(np.maximum(tail, SMALLEST))
    return high, low


def follow(past: Past, counts: Float, full: Bool, ends_run: Bool, shift: Float, lead: Int | None = None) -> Seen:
    """Look at the counts (w, K) of tables in the next w windows, and take them into the past.

    full: whether a table is there for a whole window, (w, K): it opened before, and did not close. ends_run: whether a
    window is the last of a run, (w,); runs do not overlap. shift: u, (w, C). lead: the cluster of each table, 0 to
    C − 1, by default each its own.
    """
    w, C = shift.shape
    n = np.where(full, counts, 0.0)
    sums = np.empty((w + 1, n.shape[1]))
    sums[0], sums[1:] = past.sums, n
    add_up(sums)
    ages = np.minimum(past.windows + np.cumsum(full, axis=0) - full, len(EXPOSURES) - 1)
    past.sums, sums = sums[w], sums[:w]
    if lead is not None:
        n, sums = _together(n, lead, C), _together(np.where(full, sums, 0.0), lead, C)
        ages = _oldest(ages, lead, C)
    E = EXPOSURES[np.maximum(ages, 1)]
    m, wider = (sums + 0.5) / E, 1.0 + 1.0 / E
    looked = (ages >= LEAST_WINDOWS) & (m >= LEAST_EXPECTED)
    looked &= full if lead is None else _oldest(full, lead, C)
    past.windows = np.minimum(past.windows + full.sum(axis=0), len(EXPOSURES) - 1)
    at = looked.ravel().nonzero()[0]
    variance = m * wider
    errors = np.zeros((RUN + 1 + w, 2, C))
    errors[: RUN + 1] = past.errors
    both = np.full((2, w + RUN - 1, C), NOT_SEEN)
    both[:, : RUN - 1] = past.recent
    now = both[:, RUN - 1 :]
    if len(at):
        np.multiply(np.abs(n - m) / np.sqrt(variance), looked, out=errors[RUN + 1 :, 0])
        errors[RUN + 1 :, 1] = looked
    add_up(errors[RUN:].reshape(w + 1, -1))
    if not len(at):  # as in short windows if there are many clusters
        past.errors, past.recent = errors[w:].copy(), both[:, w:].copy()
        return Seen(n, m, now, now, np.zeros((3, w, C), dtype=np.bool_))
    spread = (errors[:w, 0] + PRIOR * USUAL) / (errors[:w, 1] + PRIOR)
    variance *= np.maximum(spread * spread / USUAL**2, 1.0)
    high, low = now[0].reshape(-1), now[1].reshape(-1)
    high[at], low[at] = surprise((n + shift).ravel()[at], m.ravel()[at], variance.ravel()[at])
    runs = both[:, :w].copy()
    for i in range(1, RUN):
        np.minimum(runs, both[:, i : i + w], out=runs)
    past.errors, past.recent = errors[w:].copy(), both[:, w:].copy()
    lasting = (runs[0] > NOT_SEEN) & ends_run[:, None]
    sudden = looked & (both[0, RUN - 2 : -1] < SUDDEN)
    seen = Seen(n, m, now, runs, np.stack([sudden, lasting, lasting & (m * m >= LOWEST**2 * variance)]))
    anew = (runs >= AFRESH).any(axis=0) & ends_run[:, None]
    for cluster in np.flatnonzero(anew.any(axis=0)).tolist():
        after = int(np.argmax(anew[:, cluster])) + 1
        tables = np.array([cluster]) if lead is None else np.flatnonzero(lead == cluster)
        begun = Past(
            np.where(full, counts, 0.0)[after - 1, tables],
            full[after - 1, tables].astype(np.int64),
            np.repeat(errors[after, None, :, cluster, None], RUN + 1, axis=0),  # as they were before the run
            np.full((2, RUN - 1, 1), NOT_SEEN),
        )
        if after < w:
            one = None if lead is None else np.zeros(len(tables), dtype=np.int64)
            rest = follow(
                begun, counts[after:, tables], full[after:, tables], ends_run[after:], shift[after:, [cluster]], one
            )
            seen.put(rest, after, cluster)
        past.put(begun, tables, cluster)
    return seen


def _together(values: Float, lead: Int, C: int) -> Float:
    """Return the sums (w, C) of values (w, K) over the tables of clusters."""
    found = np.zeros((len(values), C))
    np.add.at(found.T, lead, values.T)
    return found


def _oldest(ages: NDArray[Any], lead: Int, C: int) -> NDArray[Any]:
    """Return the greatest of values (w, K) from 0 over the tables of clusters, (w, C)."""
    found = np.zeros((len(ages), C), dtype=ages.dtype)
    np.maximum.at(found.T, lead, ages.T)
    return found

"""The compiled loop over a stream that every family shares: weigh, screen, score, assign, update.

It computes what ``law.step`` computes, and differs in how much of it: a block of rows is *screened* against
all tables at once, by matrix products in single precision that give each table's log likelihood within a known
slack. Only the tables that can still hold a responsibility of note are then *scored*, exactly and in double
precision. A table is dropped if even the total weight of all tables would leave its responsibility below
exp(−MARGIN). Time lives in a co-moving frame: a mode state is stored as it would be at the frame's origin, so that
only the tables an observation touches are written.

A family plugs in six compiled functions; see ``gaussian.py`` for one that needs them all:

    prepare(Y, i, b, K, learn, tables, work)      screen the b rows from i against tables 0 … K−1
    screen(y, m, b, K0, K, tables, work)          fill work.screened and work.best for row m; return the slack
    score(y, c, tables, fresh) -> (log likelihood, aux), exactly, of table c or of an empty one
    rescore(y, c, aux, r, tables)                 the same once table c has taken in r of y (variational only)
    open_table(m, b, c, K0, tables, work)         make table c an empty one
    touch(y, m, b, c, w, K0, tables, work)        let table c take in w of row m, and correct the block's screening
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dyncrp.engine.types import DROPPED, NEGLIGIBLE, TIE

Float = NDArray[np.float64]
Int = NDArray[np.int64]

MARGIN = 32.0  # nats: exp(−32) ≈ 1e-14
BLUNT = 4.0  # nats of slack at which screening begins to let too many tables through
REBASE_AT = 500.0  # the frame moves when exp of this would be its largest factor
FAST = {"reassoc", "contract", "nsz", "arcp"}
NO_NAN = {*FAST, "nnan"}  # lets the largest of many be found in parallel
UNIT = 6.0e-8  # unit roundoff of single precision
LARGEST_BLOCK = 128
CHUNK = 64  # tables whose best screened value is kept, so that most are never looked at again


class Seats(NamedTuple):
    """Who sits where: state of the process, for at most ``len(posterior) − 1`` tables.

    real, imag: (capacity, M) mode states in the frame. total: (2, M) their sums over tables.
    posterior: (capacity + 1,) q(C = k). clock: [frame origin, latest time, log evidence so far].
    ids: (capacity,) of the tables. n: [K, place of the latest observation's table, observations so far, tables ever
    opened].
    """

    real: Float
    imag: Float
    total: Float
    posterior: Float
    clock: Float
    ids: Int
    n: Int


class Constants(NamedTuple):
    """The model in arrays: modes as rows [a.real, a.imag, rate.real, rate.imag] (4, M); numbers; switches."""

    modes: Float
    numbers: Float  # alpha, new_table_threshold, prune_below
    switches: Int  # variational, posterior, n_iter, clip, learn, max_tables (0: any number)


class Work(NamedTuple):
    """Scratch space of a block; nothing in it outlives the call."""

    rows: NDArray[np.float32]  # (B, width) the block's rows as they are screened
    flat: NDArray[np.float32]  # matrix products of the block with the tables
    gram: NDArray[np.float32]  # (B, B) of the block with itself
    opened: NDArray[np.float32]  # (B, B) with tables opened in the block
    origin: Float  # (B, 2) row by row, whatever a family needs
    screened: NDArray[np.float32]  # (capacity,) log likelihood within the slack
    best: NDArray[np.float32]  # best of each chunk of CHUNK tables
    touched: Int  # [how many, which …] tables touched in the block
    frame: Float  # (4, M) factors of the present time
    candidates: Int
    scores: Float  # (4, capacity + 1): log weight, log likelihood, aux, responsibility
    occupancy: Float
    blunt: Int  # [how many rows were screened with a slack beyond BLUNT]
    closing: Int  # [how many, which …] tables that the caller must close before the next row


class Record(NamedTuple):
    """What happened, row by row: labels, log evidence, and responsibilities as CSR.

    Tables go by their ids if rows are learnt, otherwise by their places.
    """

    labels: Int
    log_evidence: Float
    indptr: Int
    indices: Int
    data: Float

    def after(self, begin: int) -> Record:
        """Return the part from row ``begin`` on; it shares memory with the whole."""
        return Record(self.labels[begin:], self.log_evidence[begin:], self.indptr[begin:], self.indices, self.data)

    def copy(self) -> Record:
        """Return the same in memory of its own."""
        return Record._make(array.copy() for array in self)

    def longer(self, size: int) -> Record:
        """Return the same with room for ``size`` responsibilities."""
        return self._replace(indices=np.resize(self.indices, size), data=np.resize(self.data, size))


class Job(NamedTuple):
    """All that the loop is given: rows Y (n, D) at times t (n,), a family's tables, and the rest.

    offset: (n,) or longer, the log density of whatever the rows Y leave out; it is the same for all tables.
    """

    Y: Float
    t: Float
    offset: Float
    tables: Any
    seats: Seats
    constants: Constants
    work: Work
    record: Record


@njit(fastmath=NO_NAN, forceinline=True)
def best_of_chunks(K: int, work: Work) -> None:
    """Fill work.best from work.screened."""
    for j in range((K + CHUNK - 1) // CHUNK):
        best = -np.float32(np.inf)
        for c in range(j * CHUNK, min(K, (j + 1) * CHUNK)):
            best = max(best, work.screened[c])
        work.best[j] = best


@njit(forceinline=True)
def remember_touched(c: int, work: Work) -> None:
    """Add table c to the list of those that the block has touched."""
    for j in range(work.touched[0]):
        if work.touched[1 + j] == c:
            return
    work.touched[1 + work.touched[0]] = c
    work.touched[0] += 1


@njit(forceinline=True)
def _set_frame(t: float, constants: Constants, seats: Seats, work: Work) -> None:
    """Compute readout a exp(−rate Δ) (rows 0, 1) and growth exp(rate Δ) (rows 2, 3) of time t in the frame.

    Always from Δ, never from the factors of the row before, so that no bit depends on how a stream is cut.
    """
    delta = t - seats.clock[0]
    modes, frame = constants.modes, work.frame
    for m in range(modes.shape[1]):
        decay = math.exp(-modes[2, m] * delta)
        grow = 1.0 / max(decay, 1e-300)
        if modes[3, m] == 0.0:
            frame[0, m], frame[1, m], frame[2, m], frame[3, m] = decay * modes[0, m], 0.0, grow, 0.0
        else:
            c, s = math.cos(modes[3, m] * delta), -math.sin(modes[3, m] * delta)
            frame[0, m] = decay * (modes[0, m] * c - modes[1, m] * s)
            frame[1, m] = decay * (modes[0, m] * s + modes[1, m] * c)
            frame[2, m] = grow * c
            frame[3, m] = -grow * s


@njit(forceinline=True)
def _rebase(t: float, K: int, constants: Constants, seats: Seats) -> None:
    """Move the frame's origin to t: multiply every mode state by exp(−rate Δ).

    In two halves: after a silence exp(−rate Δ) may be too small for a float, and its product with a state not.
    """
    half = 0.5 * (t - seats.clock[0])
    seats.clock[0] = t
    for m in range(constants.modes.shape[1]):
        decay = math.exp(-constants.modes[2, m] * half)
        c, s = math.cos(constants.modes[3, m] * half), -math.sin(constants.modes[3, m] * half)
        for _ in range(2):
            for k in range(K):
                a, b = seats.real[k, m] * decay, seats.imag[k, m] * decay
                seats.real[k, m], seats.imag[k, m] = a * c - b * s, a * s + b * c
            a, b = seats.total[0, m] * decay, seats.total[1, m] * decay
            seats.total[0, m], seats.total[1, m] = a * c - b * s, a * s + b * c


@njit(forceinline=True)
def _occupancy(c: int, seats: Seats, work: Work) -> float:
    value = 0.0
    for m in range(seats.real.shape[1]):
        value += work.frame[0, m] * seats.real[c, m] - work.frame[1, m] * seats.imag[c, m]
    return value if value > NEGLIGIBLE else 0.0


@njit(forceinline=True)
def _log_weight(c: int, constants: Constants, seats: Seats, work: Work) -> float:
    """Return log(occupancy + alpha q(C = c)) of table c < K."""
    weight = work.occupancy[c] if constants.switches[3] else _occupancy(c, seats, work)
    if constants.switches[1]:
        weight += constants.numbers[0] * seats.posterior[c]
    return math.log(weight) if weight > 0.0 else -math.inf


@njit(forceinline=True)
def _update_count(K: int, n_kept: int, seats: Seats, work: Work) -> None:
    """q_n(k) = q(k) S_k + q(k−1)(1 − S_{k−1}), S_k the responsibility of the first k tables; K tables are open now."""
    count = seats.posterior
    seated = 0.0
    carried = count[0]  # q(k−1)(1 − S_{k−1}), from k − 1 = 0
    count[0] = 0.0
    j = 0
    for k in range(1, K + 1):
        if j < n_kept and work.candidates[j] == k - 1:
            seated += work.scores[3, j]
            j += 1
        share = 1.0 if k == K else min(seated, 1.0)
        q = count[k]
        count[k] = q * share + carried
        carried = q * (1.0 - share)


@njit(forceinline=True)
def _find_closing(K: int, latest: int, constants: Constants, seats: Seats, work: Work) -> float:
    """List the tables that must close in work.closing, see ``law.closing``; return the least occupancy of all."""
    prune_below, max_tables = constants.numbers[2] * (1.0 - TIE), constants.switches[5]
    closing = work.closing
    closing[0] = 0
    least_of_all, largest = math.inf, 0.0
    for c in range(K):
        work.occupancy[c] = _occupancy(c, seats, work)
        least_of_all = min(least_of_all, work.occupancy[c])
        largest = max(largest, work.occupancy[c])
    slack = TIE * largest if constants.switches[3] else 0.0
    work.occupancy[latest] = math.inf
    for c in range(K):
        if work.occupancy[c] < prune_below:
            closing[0] += 1
            closing[closing[0]] = c
            work.occupancy[c] = -1.0
    while 0 < max_tables < K - closing[0]:
        least = math.inf
        for c in range(K):
            if work.occupancy[c] >= 0.0:
                least = min(least, work.occupancy[c])
        for c in range(K):
            if 0.0 <= work.occupancy[c] <= least * (1.0 + TIE) + slack:
                work.occupancy[c] = -1.0
                # the list stays in order
                j = closing[0]
                while j > 0 and closing[j] > c:
                    closing[j + 1] = closing[j]
                    j -= 1
                closing[j + 1] = c
                closing[0] += 1
                break
    return least_of_all


@njit(forceinline=True)
def _quiet_until(now: float, least: float, constants: Constants) -> float:
    """Return the time before which no occupancy, the least of which is ``least``, can fall below ``prune_below``.

    A sum of positive modes, none of which waves, falls no faster than its fastest mode.
    """
    fastest = 0.0
    for m in range(constants.modes.shape[1]):
        if constants.modes[0, m] < 0.0 or constants.modes[1, m] != 0.0 or constants.modes[3, m] != 0.0:
            return now
        fastest = max(fastest, constants.modes[2, m])
    if least <= constants.numbers[2]:
        return now
    return now + 0.999 * math.log(least / constants.numbers[2]) / fastest if fastest > 0.0 else math.inf


@njit(forceinline=True)  # so that the six functions leave no pointers behind, which no cache can keep
def run(
    prepare: Any,
    screen: Any,
    score: Any,
    rescore: Any,
    open_table: Any,
    touch: Any,
    job: Job,
    B: int,
    start: int,
) -> int:
    """Take in rows ``start`` … of a job, at most B to a block; return the first row not taken in.

    Stops early when ``record`` could not hold another row, or the tables another block, or when tables must close:
    the caller grows or closes them and calls again. With ``learn`` off, every row is scored under the present state
    and nothing is changed.
    """
    Y, t, offset, tables, seats, constants, work, record = job
    N = Y.shape[0]
    alpha, threshold = constants.numbers[0], constants.numbers[1]
    variational, posterior, n_iter = constants.switches[0], constants.switches[1], constants.switches[2]
    clip, learn, max_tables = constants.switches[3], constants.switches[4], constants.switches[5]
    prunes, quiet_until = constants.numbers[2] > 0.0, -math.inf
    log_alpha = math.log(alpha)
    fastest = 0.0
    for m in range(constants.modes.shape[1]):
        fastest = max(fastest, constants.modes[2, m])
    K, label = seats.n[0], seats.n[1]
    capacity = seats.posterior.shape[0] - 1
    nnz = record.indptr[start]
    i = start
    while i < N:
        b = min(B, N - i)
        if learn and K + b > capacity:
            break
        work.touched[0] = 0
        K0 = K
        prepare(Y, i, b, K, learn, tables, work)
        stops = False
        for m in range(b):
            if nnz + K + 1 > record.data.shape[0]:
                stops = True
                break
            y = Y[i]
            now = t[i]
            # 1. time
            if learn and K == 0:
                seats.clock[0] = now
            elif learn and fastest * (now - seats.clock[0]) > REBASE_AT:
                _rebase(now, K, constants, seats)
            if m == 0 or now != t[i - 1]:
                _set_frame(now, constants, seats, work)
            # 2. prior weights
            total = 0.0
            if clip:
                for c in range(K):
                    work.occupancy[c] = _occupancy(c, seats, work)
                    total += work.occupancy[c]
            elif K > 0:
                for j in range(seats.total.shape[1]):
                    total += work.frame[0, j] * seats.total[0, j] - work.frame[1, j] * seats.total[1, j]
                total = max(total, 0.0)
            log_total = math.log(total + alpha)
            fresh = score(y, K, tables, True)[0] + log_alpha
            if posterior:
                fresh += math.log(seats.posterior[K]) if seats.posterior[K] > 0.0 else -math.inf
            # 3. screen all tables, score those that matter
            n_kept = 0
            best = -math.inf
            slack = 0.0
            n_screened = K
            if K > 0:
                slack = screen(y, m, b, K0, K, tables, work)
                if learn and slack > BLUNT:
                    work.blunt[0] += 1
                n_chunks = (K + CHUNK - 1) // CHUNK
                top, where = -np.float32(np.inf), 0
                for j in range(n_chunks):
                    if work.best[j] > top:
                        top, where = work.best[j], j
                if not (fresh > top + log_total + slack + MARGIN):
                    # The best of them sets the bar; if time has all but forgotten it, the latest table may.
                    first = where * CHUNK
                    for c in range(where * CHUNK, min(K, (where + 1) * CHUNK)):
                        if work.screened[c] == top:
                            first = c
                            break
                    first_weight = _log_weight(first, constants, seats, work)
                    first_value, first_aux = score(y, first, tables, False)
                    best = first_weight + first_value
                    if 0 <= label < K and label != first and work.screened[label] + log_total + slack > best:
                        best = max(best, _log_weight(label, constants, seats, work) + score(y, label, tables, False)[0])
                    cutoff = best - MARGIN - log_total - slack
                    for j in range(n_chunks):
                        if work.best[j] < cutoff:
                            continue
                        for c in range(j * CHUNK, min(K, (j + 1) * CHUNK)):
                            if work.screened[c] < cutoff:
                                continue
                            log_weight, value, aux = first_weight, first_value, first_aux
                            if c != first:
                                log_weight = _log_weight(c, constants, seats, work)
                                value, aux = score(y, c, tables, False) if log_weight > -math.inf else (0.0, 0.0)
                            if log_weight == -math.inf:
                                continue
                            if log_weight + value < best - MARGIN:
                                continue
                            if log_weight + value > best:
                                best = log_weight + value
                                cutoff = best - MARGIN - log_total - slack
                            work.candidates[n_kept] = c
                            work.scores[0, n_kept] = log_weight
                            work.scores[1, n_kept] = value
                            work.scores[2, n_kept] = aux
                            n_kept += 1
                    # Who is kept depends on exact scores alone, not on how the screening went.
                    bar = math.inf if best < fresh - MARGIN else best - MARGIN
                    found, n_kept = n_kept, 0
                    for j in range(found):
                        if work.scores[0, j] + work.scores[1, j] >= bar:
                            work.candidates[n_kept] = work.candidates[j]
                            for row in range(3):
                                work.scores[row, n_kept] = work.scores[row, j]
                            n_kept += 1
            # 4. responsibilities
            iterations = n_iter if variational else 1
            top_score = fresh
            norm = 1.0
            for iteration in range(iterations):
                top_score = fresh
                for j in range(n_kept):
                    if iteration > 0:
                        r = work.scores[3, j] / norm
                        work.scores[1, j] = rescore(y, work.candidates[j], work.scores[2, j], r, tables)
                    top_score = max(top_score, work.scores[0, j] + work.scores[1, j])
                norm = math.exp(fresh - top_score)
                for j in range(n_kept):
                    work.scores[3, j] = math.exp(work.scores[0, j] + work.scores[1, j] - top_score)
                    norm += work.scores[3, j]
            record.log_evidence[i] = top_score + math.log(norm) - log_total + offset[i]
            fresh_share = math.exp(fresh - top_score) / norm
            passes = K == 0 or fresh_share >= threshold * (1.0 - TIE)
            opens = learn and passes
            if learn and not opens:
                # renormalised among the open tables, whose best may lie far below the new one
                top_score = -math.inf
                for j in range(n_kept):
                    top_score = max(top_score, work.scores[0, j] + work.scores[1, j])
                norm = 0.0
                for j in range(n_kept):
                    work.scores[3, j] = math.exp(work.scores[0, j] + work.scores[1, j] - top_score)
                    norm += work.scores[3, j]
            if opens:
                open_table(m, b, K, K0, tables, work)
                for j in range(seats.real.shape[1]):
                    seats.real[K, j] = 0.0
                    seats.imag[K, j] = 0.0
                seats.posterior[K + 1] = 0.0
                seats.ids[K] = seats.n[3]
                seats.n[3] += 1
            if opens or not learn:
                work.candidates[n_kept] = K
                work.scores[3, n_kept] = fresh_share * norm
                n_kept += 1
            if opens:
                K += 1
            # 5. update
            largest = 0.0
            for j in range(n_kept):
                work.scores[3, j] /= norm
                if passes or work.candidates[j] < K:
                    largest = max(largest, work.scores[3, j])
            label = -1
            kept = 0
            blind = slack == math.inf
            seated = 0.0
            for j in range(n_kept):
                r = work.scores[3, j]
                if label < 0 and r >= largest * (1.0 - TIE):
                    label = work.candidates[j]
                if r < DROPPED:
                    continue
                c = work.candidates[j]
                work.candidates[kept] = c
                work.scores[3, kept] = r
                kept += 1
                record.indices[nnz] = seats.ids[c] if learn else c
                record.data[nnz] = r
                nnz += 1
                if learn:
                    blind = blind or (c < n_screened and work.screened[c] == np.float32(np.inf))
                    touch(y, m, b, c, r, K0, tables, work)
                    for mode in range(seats.real.shape[1]):
                        seats.real[c, mode] += r * work.frame[2, mode]
                        seats.imag[c, mode] += r * work.frame[3, mode]
                    seated += r
            if learn:
                for mode in range(seats.real.shape[1]):
                    seats.total[0, mode] += seated * work.frame[2, mode]
                    seats.total[1, mode] += seated * work.frame[3, mode]
                seats.clock[1] = now
                seats.clock[2] += record.log_evidence[i]
                seats.n[2] += 1
                if posterior:
                    _update_count(K, kept, seats, work)
            record.labels[i] = seats.ids[label] if learn else label
            i += 1
            record.indptr[i] = nnz
            if learn and ((prunes and (opens or now >= quiet_until)) or 0 < max_tables < K):
                least = _find_closing(K, K - 1 if opens else label, constants, seats, work)
                if work.closing[0] > 0:
                    stops = True
                    break
                quiet_until = _quiet_until(now, least, constants) if prunes else math.inf
            if learn and blind:
                break  # a row or table that cannot be screened cannot correct the screening of the rows after it
        if stops:
            break
    if learn:
        seats.n[0], seats.n[1] = K, label
    return i

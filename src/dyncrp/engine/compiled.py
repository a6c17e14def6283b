"""The compiled engine's face: arrays that live between calls, grown as tables open, exchanged with the law's State.

One engine belongs to one stream and is changed in place. It computes what ``law.run`` computes; the tests
compare the two on generated streams. A family's arithmetic lives in a file of its own beside this one.
"""

from __future__ import annotations

from dataclasses import replace
from threading import local
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.engine import bernoulli, gaussian, gaussian_diagonal, normal_gamma, von_mises_fisher
from dyncrp.engine.jit import Box, boxed
from dyncrp.engine.projection import Projection
from dyncrp.engine.stream import CHUNK, LARGEST_BLOCK, REBASE_AT, Constants, Float, Job, Record, Seats, Work
from dyncrp.engine.types import Arrays, Model, State, Trace, check_arrays, check_ids
from dyncrp.families import Bernoulli, Gaussian, NormalGamma, VonMisesFisher

FIRST_CAPACITY = 64
SCRATCH = 1 << 21  # entries of a block's product with the tables
BLUNT_ROWS = 256  # after so many rows of dull screening, a new reference point is worth its price
PIECE = 1 << 12  # rows turned into the family's coordinates at a time
NO_OFFSET = np.zeros(PIECE)
NONE = np.zeros(0, dtype=np.int64)
LARGEST_COUNT = 1 << 62  # that the loop's integers hold
SHARED = ("reference", "hyper", "bessel")  # what belongs to no table of its own


def code_for(model: Model) -> ModuleType | None:
    """Return the module that computes this family, or None if only the law can."""
    family = model.family
    if type(family) is Gaussian:
        ratio = np.asarray(family.variance / family.prior_variance)
        if np.all(ratio == ratio.flat[0]):
            return gaussian
        return gaussian_diagonal
    return {
        NormalGamma: normal_gamma,
        Bernoulli: bernoulli,
        VonMisesFisher: von_mises_fisher,
    }.get(type(family))


def block_size(K: int, capacity: int) -> int:
    """Return how many rows to screen at once: more tables pay for more rows."""
    wanted = 32 if K <= 32 else 64 if K <= 512 else LARGEST_BLOCK
    return max(4, min(wanted, SCRATCH // capacity))


class CompiledEngine:
    """Streaming inference for one model and one stream of D features."""

    _singles: local  # for one row at a time, by whether it is learnt: those who only judge may be several threads

    def __init__(self, model: Model, n_features: int) -> None:
        code = code_for(model)
        if code is None:
            raise ValueError(f"there is no compiled engine for {model.family!r}")
        self.model = model
        self.n_features = n_features
        self._code = code
        self._learning, self._judging = _constants(model, learn=True), _constants(model, learn=False)
        self._project, self._width = None, n_features
        if isinstance(model.family, Gaussian) and model.family.directions is not None:
            self._project, self._width = Projection(model.family), len(model.family.directions)
        self._shift, self._scale = code.coordinates(model.family, self._width)
        self._fastest = float(np.max(model.modes.rates.real))
        self._moved = bool(np.any(self._shift != 0) or np.any(self._scale != 1))
        self._allocate(FIRST_CAPACITY)

    @property
    def n_tables(self) -> int:
        """Number of open tables."""
        return int(self._seats.n[0])

    @property
    def n_opened(self) -> int:
        """Number of tables ever opened."""
        return int(self._seats.n[3])

    @property
    def ids(self) -> NDArray[np.int64]:
        """Ids of the open tables, (K,)."""
        return self._seats.ids[: self.n_tables].copy()

    @property
    def n_observations(self) -> int:
        """Number of observations taken in."""
        return int(self._seats.n[2])

    @property
    def log_evidence(self) -> float:
        """Sum of their log evidence, added up in order of arrival."""
        return float(self._seats.clock[2])

    @property
    def time(self) -> float:
        """Time of the latest observation."""
        return float(self._seats.clock[1])

    def run(self, X: Float, times: Float) -> Trace:
        """Take in a stretch of the stream: X (n, D) at times (n,), valid and in order."""
        if self.n_tables == 0:
            self._tables.reference[:] = self._rows(X[:1])[0][0]
        return self._stretch(X, times, self._learning)

    def set_alpha(self, alpha: float) -> None:
        """Let alpha be this from the next observation on."""
        self.model = replace(self.model, alpha=alpha)
        self._learning, self._judging = _constants(self.model, learn=True), _constants(self.model, learn=False)
        self._singles = local()

    def run_one(self, x: Float, t: float) -> tuple[int, float]:
        """Take in one valid observation x (D,) at time t; return its label and log evidence. For loops."""
        return self._one(x, t, True)

    def judge_one(self, x: Float, t: float) -> tuple[int, float]:
        """Return the place of the table that a valid x (D,) would join at time t, K for a new one, and log evidence.

        Changes nothing. For loops.
        """
        return self._one(x, t, False)

    def _one(self, x: Float, t: float, learn: bool) -> tuple[int, float]:
        done = self._run_single(x, t, learn)
        if done is not None:
            return done[0].labels.item(0), done[0].log_evidence.item(0)
        X, times = x[None, :], np.array([t])
        trace = self.run(X, times) if learn else self._stretch(X, times, self._judging)
        return trace.labels.item(0), trace.log_evidence.item(0)

    def _run_single(self, x: Float, t: float, learn: bool) -> tuple[Record, NDArray[np.int64]] | None:
        """Hand one row to the loop in a job that is kept for the purpose.

        Returns the record, which the next row overwrites, and the ids of the tables that closed; or None, having done
        nothing, if the row needs more than that: the first one, one for which there is no room, one far in the future.
        """
        K, work = self._seats.n.item(0), self._work
        late = self._fastest * (t - self._seats.clock.item(0)) > REBASE_AT
        if K == 0 or work.closing.item(0) or (late and not learn):
            return None
        single: _Single | None = getattr(self._singles, "learning" if learn else "judging", None)
        if single is None or len(single.record.data) <= K:
            Y, t1, offset, record = np.empty((1, self._width)), np.empty(1), np.zeros(1), _record(1, 2 * K + 16)
            constants = self._learning if learn else self._judging
            job = boxed(Job(Y, t1, offset, self._tables, self._seats, constants, work, record))
            single = _Single(Y, t1, offset, record, job)
            setattr(self._singles, "learning" if learn else "judging", single)
        if self._project is not None:
            rows, offset = self._rows(x[None, :])
            single.Y[0], single.offset[0] = rows[0], offset[0]
        else:
            single.Y[0] = (x - self._shift) / self._scale if self._moved else x
        single.t[0] = t
        closed = NONE
        try:
            if not self._code.run(single.job, 1, 0):
                return None
        finally:  # also when an interruption, which waits for the loop to end, comes before anything else
            if learn and work.closing.item(0):
                closed = self._close()
        if learn and work.blunt.item(0) >= BLUNT_ROWS:
            self._recentre(single.Y[0])
        return single.record, closed

    def shares(self, X: Float, times: Float) -> Float:
        """Return softmax(scores) of each row by itself, (n, K + 1), the last for a new table; changes nothing."""
        trace = self._stretch(X, times, self._judging)
        shares = np.zeros((len(X), trace.n_columns))
        shares[np.repeat(np.arange(len(X)), np.diff(trace.indptr)), trace.indices] = trace.data
        return shares

    def places(self, X: Float, times: Float) -> NDArray[np.int64]:
        """Return the place of the table that each row by itself would join, (n,), K for a new one; changes nothing."""
        return self._stretch(X, times, self._judging).labels

    def log_density(self, X: Float, times: Float) -> Float:
        """Return log p(x | everything so far) of each row by itself, (n,); changes nothing."""
        if self.model.rules.assignment == "predictive":
            return self._stretch(X, times, self._judging).log_evidence
        tables = self._code.make_tables(self.model.family, self._width, len(self._tables.counts), False)
        for name in (*self._code.STATISTICS, "reference"):
            getattr(tables, name)[...] = getattr(self._tables, name)
        self._code.refresh_all(self.n_tables, tables)
        return self._stretch(X, times, _constants(self.model, learn=False, predictive=True), tables).log_evidence

    def _seats_for(self, times: Float) -> Seats:
        """Return seats whose frame can be read at ``times``: the engine's own, or a copy that starts at the latest."""
        seats, rates = self._seats, self.model.modes.rates
        if self._fastest * (np.max(times) - seats.clock[0]) <= REBASE_AT:
            return seats
        half = np.exp(-0.5 * rates * (seats.clock[1] - seats.clock[0]))
        states = (seats.real + 1j * seats.imag) * half * half
        total = (seats.total[0] + 1j * seats.total[1]) * half * half
        return seats._replace(
            real=states.real.copy(),
            imag=states.imag.copy(),
            total=np.array([total.real, total.imag]),
            clock=seats.clock[[1, 1, 2]],
        )

    def _recentre(self, y: Float) -> None:
        """Screen about y from now on: the data have moved away from the old reference point."""
        self._work.blunt[0] = 0
        if self._code.RECENTRES:
            self._tables.reference[:] = y
            self._code.refresh_all(self.n_tables, self._tables)

    def _close(self) -> NDArray[np.int64]:
        """Close the tables that the loop listed and return their ids; the tables after them move up."""
        K, closing, seats = self.n_tables, self._work.closing, self._seats
        places = closing[1 : 1 + closing[0]].copy()
        closed = seats.ids[places]
        first = places[0]
        stay: Any = np.delete(np.arange(first, K), places - first) if len(places) > 1 else slice(first + 1, K)
        left = K - len(places)
        moving = {name: array for name, array in self._tables._asdict().items() if name not in SHARED}
        for array in (*moving.values(), seats.real, seats.imag, seats.ids):
            array[first:left] = array[stay]
        # Summed anew, so that what the closed ones held leaves no rounding behind.
        seats.total[0], seats.total[1] = seats.real[:left].sum(axis=0), seats.imag[:left].sum(axis=0)
        seats.n[0] = left
        seats.n[1] -= np.searchsorted(places, seats.n[1])
        closing[0] = 0
        return closed

    def _rows(self, X: Float) -> tuple[Float, Float]:
        """Return at most PIECE rows in the family's coordinates, and the log density that these leave out, (n,)."""
        offset = NO_OFFSET
        if self._project is not None:
            X, offset = self._project(_plain(X))
        return (X - self._shift) / self._scale if self._moved else _plain(X), offset

    def _stretch(self, X: Float, times: Float, constants: Constants, tables: Any = None) -> Trace:
        """Hand rows to the loop piece by piece, making room for tables and for the record when it asks."""
        n, learn = len(X), constants.switches.item(4)
        if n == 1 and tables is None:
            done_at_once = self._run_single(X[0], times.item(0), bool(learn))
            if done_at_once is not None:
                return self._trace(done_at_once[0].copy(), learn, [done_at_once[1]])
        record = _record(n, (self.n_tables + 1) if n == 1 else 2 * n + self.n_tables + 16)
        begin = 0
        # An earlier call may have been interrupted between its last row and the closing after it.
        closed = [self._close() if learn and self._work.closing[0] else NONE]
        while begin < n:
            Y, offset = self._rows(X[begin : begin + PIECE])
            t = _plain(times[begin : begin + PIECE])
            piece = record if n <= PIECE else record.after(begin)
            done, job = 0, None
            while True:
                K, capacity = self.n_tables, len(self._seats.posterior) - 1
                block = block_size(K, capacity)
                if job is None:
                    live = self._tables if tables is None else tables
                    seats = self._seats if learn else self._seats_for(times)
                    job = boxed(Job(Y, t, offset, live, seats, constants, self._work, piece))
                try:
                    done = self._code.run(job, block, done)
                finally:  # also when an interruption, which waits for the loop to end, comes before anything else
                    if learn and self._work.closing[0]:
                        closed.append(self._close())
                if learn and self._work.blunt[0] >= BLUNT_ROWS:
                    self._recentre(Y[done - 1])
                if done == len(Y):
                    break
                if self.n_tables + block > capacity:
                    self._grow()
                    job = None
                if piece.indptr[done] + self.n_tables + block >= len(record.data):
                    record = record.longer(2 * len(record.data) + self.n_tables + block)
                    piece = record.after(begin)
                    job = None
            begin += len(Y)
        return self._trace(record, learn, closed)

    def _trace(self, record: Record, learn: int, closed: list[NDArray[np.int64]]) -> Trace:
        nnz = record.indptr[-1]
        return Trace(
            record.labels,
            record.log_evidence,
            record.indptr,
            record.indices[:nnz],
            record.data[:nnz],
            self.n_opened if learn else self.n_tables + 1,
            np.concatenate(closed),
        )

    @property
    def state(self) -> State:
        """A copy of the state, as the law has it."""
        K, seats = self.n_tables, self._seats
        rates = self.model.modes.rates
        decay = np.exp(-rates * (seats.clock[1] - seats.clock[0])) if K else np.ones_like(rates)
        count = seats.posterior[: K + 1].copy()
        if self.model.rules.table_count == "map":
            count[:] = 0.0
            count[K] = 1.0
        stats = [self._tables.counts[:K, None], self._tables.sums[:K] * self._scale]
        if hasattr(self._code, "squares"):  # T(x) has a second power
            stats.append(self._code.squares(self._tables, K) * self._scale**2)
        return State(
            stats=np.hstack(stats),
            mode_states=(seats.real[:K] + 1j * seats.imag[:K]) * decay,
            time=self.time,
            n_tables_posterior=count,
            ids=self.ids,
            n_opened=self.n_opened,
        )

    def arrays(self) -> Arrays:
        """Return all that the next step needs, to the bit, as plain arrays."""
        K, seats = self.n_tables, self._seats
        kept = {name: getattr(self._tables, name)[:K].copy() for name in self._code.STATISTICS}
        return kept | {
            "mode_states": seats.real[:K] + 1j * seats.imag[:K],
            "mode_total": seats.total[0] + 1j * seats.total[1],
            "mode_time": np.array(seats.clock[0]),
            "n_tables_posterior": seats.posterior[: K + 1].copy(),
            "time": np.array(seats.clock[1]),
            "table_ids": seats.ids[:K].copy(),
            "latest_place": np.array(seats.n[1]),
            "n_opened": np.array(seats.n[3]),
            "n_observations": np.array(seats.n[2]),
            "log_evidence": np.array(seats.clock[2]),
            "screening_point": self._tables.reference.copy(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Continue from what ``arrays`` returned; anything of another shape or kind is a ``ValueError``."""
        K, D, M = len(arrays["counts"]), self._width, len(self.model.modes.rates)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(self._code.STATISTICS, (K, D))
        shapes |= {"counts": (K,), "mode_states": (K, M), "mode_total": (M,), "table_ids": (K,)}
        shapes |= {"n_tables_posterior": (K + 1,), "screening_point": (D,)}
        shapes |= dict.fromkeys(("mode_time", "time", "log_evidence"), ())
        shapes |= dict.fromkeys(("latest_place", "n_opened", "n_observations"), ())
        check_arrays(arrays, shapes)
        n_opened, n_observations = int(arrays["n_opened"]), int(arrays["n_observations"])
        if not K <= n_opened <= n_observations:
            raise ValueError(f"it holds {K} tables of {n_opened} ever opened by {n_observations} observations")
        check_ids(arrays["table_ids"], n_opened)
        self._allocate(max(FIRST_CAPACITY, 2 * K))
        seats = self._seats
        for name in self._code.STATISTICS:
            getattr(self._tables, name)[:K] = arrays[name]
        self._tables.reference[:] = arrays["screening_point"]
        seats.real[:K], seats.imag[:K] = arrays["mode_states"].real, arrays["mode_states"].imag
        seats.total[0], seats.total[1] = arrays["mode_total"].real, arrays["mode_total"].imag
        seats.clock[:] = arrays["mode_time"], arrays["time"], arrays["log_evidence"]
        seats.posterior[: K + 1], seats.ids[:K] = arrays["n_tables_posterior"], arrays["table_ids"]
        seats.n[:] = K, arrays["latest_place"], n_observations, n_opened
        self._code.refresh_all(K, self._tables)

    def widen(self, n_features: int) -> CompiledEngine:
        """Return an engine of more features, as if every observation so far had had 0 in the new ones."""
        wider, D = CompiledEngine(self.model, n_features), self.n_features
        arrays = self.arrays()
        n = arrays["counts"][:, None]
        zero = (0.0 - wider._shift[D:]) / wider._scale[D:]  # in the family's coordinates
        new = {"sums": n * zero, "misses": n * (1.0 - zero)}
        if "scatter" in arrays:
            p = np.asarray(self.model.family.variance / self.model.family.prior_variance)  # type: ignore[attr-defined]
            new["scatter"] = n * (p / (p + n)) * zero**2
        arrays |= {name: np.hstack([arrays[name], new[name]]) for name in new if name in arrays}
        arrays["screening_point"] = np.append(arrays["screening_point"], zero)
        wider.restore(arrays)
        return wider

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "n_features": self.n_features, "arrays": self.arrays()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__init__(saved["model"], saved["n_features"])  # type: ignore[misc]
        if len(saved["arrays"]["counts"]):
            self.restore(saved["arrays"])

    def _allocate(self, capacity: int) -> None:
        model = self.model
        M = len(model.modes.rates)
        variational = model.rules.assignment == "variational"
        self._tables = self._code.make_tables(model.family, self._width, capacity, variational)
        self._seats = Seats(
            real=np.zeros((capacity, M)),
            imag=np.zeros((capacity, M)),
            total=np.zeros((2, M)),
            posterior=np.append(1.0, np.zeros(capacity)),
            clock=np.array([0.0, -np.inf, 0.0]),
            ids=np.zeros(capacity, dtype=np.int64),
            n=np.array([0, -1, 0, 0], dtype=np.int64),
        )
        self._work = _work(capacity, self._code.screen_width(self._width), M)
        self._singles = local()

    def _grow(self) -> None:
        """Double the room for tables."""
        capacity = 2 * len(self._tables.counts)
        self._tables = self._tables._replace(
            **{name: _longer(array, capacity) for name, array in self._tables._asdict().items() if name not in SHARED}
        )
        self._seats = self._seats._replace(
            real=_longer(self._seats.real, capacity),
            imag=_longer(self._seats.imag, capacity),
            posterior=_longer(self._seats.posterior, capacity + 1),
            ids=_longer(self._seats.ids, capacity),
        )
        self._work = _work(capacity, self._work.rows.shape[1], self._seats.real.shape[1])
        self._singles = local()


class _Single(NamedTuple):
    """Buffers for one row, and the job made of them."""

    Y: Float
    t: Float
    offset: Float
    record: Record
    job: Box


def _constants(model: Model, *, learn: bool, predictive: bool = False) -> Constants:
    amplitudes, rates = model.modes
    rules = model.rules
    variational = rules.assignment == "variational" and not predictive
    return Constants(
        modes=np.array([amplitudes.real, amplitudes.imag, rates.real, rates.imag]),
        numbers=np.array([model.alpha, rules.new_table_threshold, rules.prune_below], dtype=np.float64),
        switches=np.array(
            [
                variational,
                rules.table_count == "posterior",
                min(rules.n_iter, LARGEST_COUNT),
                model.clip,
                learn,
                min(rules.max_tables or 0, LARGEST_COUNT),
            ],
            dtype=np.int64,
        ),
    )


def _work(capacity: int, width: int, M: int) -> Work:
    B = LARGEST_BLOCK
    single = np.float32
    return Work(
        rows=np.empty((B, width), single),
        flat=np.empty(max(SCRATCH, 4 * capacity) if capacity * B > SCRATCH else capacity * B, single),
        gram=np.empty(B * B, single),
        opened=np.empty((B, B), single),
        origin=np.empty((B, 2)),
        screened=np.empty(capacity, single),
        best=np.empty(capacity // CHUNK + 1, single),
        touched=np.empty(capacity + 1, dtype=np.int64),
        frame=np.empty((4, M)),
        candidates=np.empty(capacity + 1, dtype=np.int64),
        scores=np.empty((4, capacity + 1)),
        occupancy=np.empty(capacity),
        blunt=np.zeros(1, dtype=np.int64),
        closing=np.zeros(capacity + 1, dtype=np.int64),
    )


def _record(n: int, size: int) -> Record:
    return Record(
        labels=np.empty(n, dtype=np.int64),
        log_evidence=np.empty(n),
        indptr=np.zeros(n + 1, dtype=np.int64),
        indices=np.empty(size, dtype=np.int64),
        data=np.empty(size),
    )


def _plain(array: Any) -> Any:
    """Return an array of the one kind that code is compiled for: C-ordered and writeable."""
    return array if array.flags.c_contiguous and array.flags.writeable else array.copy()


def _longer(array: Any, length: int) -> Any:
    """Return a copy of ``array`` with room for ``length`` entries along its first axis, the new ones 0."""
    longer = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer

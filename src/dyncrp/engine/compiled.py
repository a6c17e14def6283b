"""The compiled engine's face: arrays that live between calls, grown as tables open, exchanged with the law's State.

One engine belongs to one stream and is changed in place. It computes what ``reference.run`` computes; the tests
compare the two on generated streams. A family's arithmetic lives in a file of its own beside this one.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.engine import bernoulli, gaussian, gaussian_diagonal, gaussian_unknown_variance, von_mises_fisher
from dyncrp.engine.projection import Projection
from dyncrp.engine.reference import Model, State, Trace, check_arrays
from dyncrp.engine.stream import CHUNK, LARGEST_BLOCK, REBASE_AT, Float, Job, Law, Record, Seats, Work
from dyncrp.families import Bernoulli, Gaussian, GaussianUnknownVariance, VonMisesFisher

FIRST_CAPACITY = 64
SCRATCH = 1 << 21  # entries of a block's product with the tables
BLUNT_ROWS = 256  # after so many rows of dull screening, a new reference point is worth its price
PIECE = 1 << 12  # rows turned into the family's coordinates at a time
NO_OFFSET = np.zeros(PIECE)


def kernel_for(model: Model) -> ModuleType | None:
    """Return the module that computes this family, or None if only the reference can."""
    family = model.family
    if type(family) is Gaussian:
        ratio = np.asarray(family.variance / family.prior_variance)
        if np.all(ratio == ratio.flat[0]):
            return gaussian
        return gaussian_diagonal
    return {
        GaussianUnknownVariance: gaussian_unknown_variance,
        Bernoulli: bernoulli,
        VonMisesFisher: von_mises_fisher,
    }.get(type(family))


def block_size(K: int, capacity: int) -> int:
    """Return how many rows to screen at once: more tables pay for more rows."""
    wanted = 32 if K <= 32 else 64 if K <= 512 else LARGEST_BLOCK
    return max(4, min(wanted, SCRATCH // capacity))


class CompiledEngine:
    """Streaming inference for one model and one stream of D features."""

    _one: tuple[Float, Float, Record] | None  # buffers of run_one

    def __init__(self, model: Model, n_features: int) -> None:
        kernel = kernel_for(model)
        if kernel is None:
            raise ValueError(f"there is no compiled engine for {model.family!r}")
        self.model = model
        self.n_features = n_features
        self._kernel = kernel
        self._learning = _law(model, learn=True)
        self._project, self._width = None, n_features
        if isinstance(model.family, Gaussian) and model.family.directions is not None:
            self._project, self._width = Projection(model.family), len(model.family.directions)
        self._shift, self._scale = kernel.coordinates(model.family, self._width)
        self._moved = bool(np.any(self._shift != 0) or np.any(self._scale != 1))
        self._allocate(FIRST_CAPACITY)

    @property
    def n_tables(self) -> int:
        """Number of open tables."""
        return int(self._seats.n[0])

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
        self._learning = _law(self.model, learn=True)

    def run_one(self, x: Float, t: float) -> tuple[int, float]:
        """Take in one valid observation x (D,) at time t; return its label and log evidence. For loops."""
        if self._one is None or len(self._one[2].data) <= self.n_tables:
            self._one = np.empty((1, self._width)), np.empty(1), _record(1, 2 * self.n_tables + 16)
        Y, times, record = self._one
        offset = NO_OFFSET
        if self._project is None:
            Y[0] = (x - self._shift) / self._scale if self._moved else x
        else:
            Y, offset = self._rows(x[None, :])
        times[0] = t
        job = Job(Y, times, offset, self._tables, self._seats, self._learning, self._work, record)
        if self.n_tables == 0 or not self._kernel.run(job, 1, 0):
            trace = self.run(x[None, :], times)
            return int(trace.labels[0]), float(trace.log_evidence[0])
        if self._work.blunt[0] >= BLUNT_ROWS:
            self._recentre(Y[0])
        return int(record.labels[0]), float(record.log_evidence[0])

    def shares(self, X: Float, times: Float) -> Float:
        """Return softmax(scores) of each row by itself, (n, K + 1), the last for a new table; changes nothing."""
        trace = self._stretch(X, times, _law(self.model, learn=False))
        shares = np.zeros((len(X), trace.n_columns))
        shares[np.repeat(np.arange(len(X)), np.diff(trace.indptr)), trace.indices] = trace.data
        return shares

    def labels(self, X: Float, times: Float) -> NDArray[np.int64]:
        """Return the label that each row by itself would get, (n,), K if that were a new table's; changes nothing."""
        return self._stretch(X, times, _law(self.model, learn=False)).labels

    def log_density(self, X: Float, times: Float) -> Float:
        """Return log p(x | everything so far) of each row by itself, (n,); changes nothing."""
        tables = self._tables
        if self.model.rules.assignment == "variational":
            tables = self._kernel.make_tables(self.model.family, self._width, len(tables.counts), False)
            for name in (*self._kernel.STATISTICS, "reference"):
                getattr(tables, name)[...] = getattr(self._tables, name)
            self._kernel.refresh_all(self.n_tables, tables)
        return self._stretch(X, times, _law(self.model, learn=False, predictive=True), tables).log_evidence

    def _seats_for(self, times: Float) -> Seats:
        """Return seats whose frame can be read at ``times``: the engine's own, or a copy that starts at the latest."""
        seats, rates = self._seats, self.model.modes.rates
        if np.max(rates.real) * (np.max(times) - seats.clock[0]) <= REBASE_AT:
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
        if self._kernel.RECENTRES:
            self._tables.reference[:] = y
            self._kernel.refresh_all(self.n_tables, self._tables)

    def _rows(self, X: Float) -> tuple[Float, Float]:
        """Return at most PIECE rows in the kernel's coordinates, and the log density that these leave out, (n,)."""
        offset = NO_OFFSET
        if self._project is not None:
            X, offset = self._project(_plain(X))
        return (X - self._shift) / self._scale if self._moved else _plain(X), offset

    def _stretch(self, X: Float, times: Float, law: Law, tables: Any = None) -> Trace:
        """Hand rows to the kernel piece by piece, making room for tables and for the record when it asks."""
        n = len(X)
        record = _record(n, (self.n_tables + 1) if n == 1 else 2 * n + self.n_tables + 16)
        begin = 0
        while begin < n:
            Y, offset = self._rows(X[begin : begin + PIECE])
            t = _plain(times[begin : begin + PIECE])
            piece = record if n <= PIECE else record.after(begin)
            done = 0
            while True:
                K, capacity = self.n_tables, len(self._seats.posterior) - 1
                block = block_size(K, capacity)
                live = self._tables if tables is None else tables
                seats = self._seats if law.switches[4] else self._seats_for(times)
                done = self._kernel.run(Job(Y, t, offset, live, seats, law, self._work, piece), block, done)
                if self._work.blunt[0] >= BLUNT_ROWS and law.switches[4]:
                    self._recentre(Y[done - 1])
                if done == len(Y):
                    break
                if self.n_tables + block > capacity:
                    self._grow()
                if piece.indptr[done] + self.n_tables + block >= len(record.data):
                    record = record.longer(2 * len(record.data) + self.n_tables + block)
                    piece = record.after(begin)
            begin += len(Y)
        nnz = int(record.indptr[n])
        columns = self.n_tables + (0 if law.switches[4] else 1)
        return Trace(
            record.labels, record.log_evidence, record.indptr, record.indices[:nnz], record.data[:nnz], columns
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
        if hasattr(self._kernel, "squares"):  # T(x) has a second power
            stats.append(self._kernel.squares(self._tables, K) * self._scale**2)
        return State(
            stats=np.hstack(stats),
            mode_states=(seats.real[:K] + 1j * seats.imag[:K]) * decay,
            time=self.time,
            n_tables_posterior=count,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that the next step needs, to the bit, as plain arrays."""
        K = self.n_tables
        kept = {name: getattr(self._tables, name)[:K].copy() for name in self._kernel.STATISTICS}
        kept |= {name: getattr(self._seats, name)[:K].copy() for name in ("real", "imag")}
        kept |= {name: getattr(self._seats, name).copy() for name in ("total", "clock", "n")}
        posterior = self._seats.posterior[: K + 1].copy()
        return kept | {"posterior": posterior, "reference": self._tables.reference.copy()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from what ``arrays`` returned; anything of another shape or kind is a ``ValueError``."""
        K, D, M = len(arrays["counts"]), self._width, len(self.model.modes.rates)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(self._kernel.STATISTICS, (K, D))
        shapes |= {"counts": (K,), "real": (K, M), "imag": (K, M)}
        shapes |= {"total": (2, M), "clock": (3,), "n": (3,), "posterior": (K + 1,), "reference": (D,)}
        check_arrays(arrays, shapes)
        if arrays["n"].dtype != np.int64 or arrays["n"][0] != K or arrays["n"][2] < K:
            raise ValueError(f"it counts {arrays['n']} tables and observations, but holds {K} tables")
        self._allocate(max(FIRST_CAPACITY, 2 * K))
        for owner in (self._tables, self._seats):
            for name in set(shapes) & set(owner._fields):
                getattr(owner, name)[: len(arrays[name])] = arrays[name]
        self._kernel.refresh_all(K, self._tables)

    def widened(self, n_features: int) -> CompiledEngine:
        """Return an engine of more features, as if every observation so far had had 0 in the new ones."""
        wider, D = CompiledEngine(self.model, n_features), self.n_features
        arrays = self.arrays()
        n = arrays["counts"][:, None]
        zero = (0.0 - wider._shift[D:]) / wider._scale[D:]  # in the kernel's coordinates
        new = {"sums": n * zero, "misses": n * (1.0 - zero)}
        if "scatter" in arrays:
            p = np.asarray(self.model.family.variance / self.model.family.prior_variance)  # type: ignore[attr-defined]
            new["scatter"] = n * (p / (p + n)) * zero**2
        arrays |= {name: np.hstack([arrays[name], new[name]]) for name in new if name in arrays}
        arrays["reference"] = np.append(arrays["reference"], zero)
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
        self._tables = self._kernel.make_tables(model.family, self._width, capacity, variational)
        self._seats = Seats(
            real=np.zeros((capacity, M)),
            imag=np.zeros((capacity, M)),
            total=np.zeros((2, M)),
            posterior=np.append(1.0, np.zeros(capacity)),
            clock=np.array([0.0, -np.inf, 0.0]),
            n=np.array([0, -1, 0], dtype=np.int64),
        )
        self._work = _work(capacity, self._kernel.screen_width(self._width), M)
        self._one = None

    def _grow(self) -> None:
        """Double the room for tables."""
        capacity = 2 * len(self._tables.counts)
        shared = ("reference", "hyper", "bessel")
        self._tables = self._tables._replace(
            **{name: _longer(array, capacity) for name, array in self._tables._asdict().items() if name not in shared}
        )
        self._seats = self._seats._replace(
            real=_longer(self._seats.real, capacity),
            imag=_longer(self._seats.imag, capacity),
            posterior=_longer(self._seats.posterior, capacity + 1),
        )
        self._work = _work(capacity, self._work.rows.shape[1], self._seats.real.shape[1])


def _law(model: Model, *, learn: bool, predictive: bool = False) -> Law:
    amplitudes, rates = model.modes
    rules = model.rules
    variational = rules.assignment == "variational" and not predictive
    return Law(
        modes=np.array([amplitudes.real, amplitudes.imag, rates.real, rates.imag]),
        numbers=np.array([model.alpha, rules.new_table_threshold], dtype=np.float64),
        switches=np.array(
            [variational, rules.table_count == "posterior", rules.n_iter, model.clip, learn], dtype=np.int64
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

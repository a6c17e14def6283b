"""``dyncrp.combine``: turn models learned on shards of one stream into one model.

Statistics are sums, so tables of different shards can be joined without their rows. They are joined if that makes the
partition and the data more probable. In the Chinese restaurant process, a partition into tables of n_c members has a
probability ∝ Π_c α Γ(n_c), hence

    gain = log p(data of both | one table) − log p(data of both | two)
           + log Γ(n₁ + n₂) − log Γ(n₁) − log Γ(n₂) − log α.

If nothing is forgotten, this is exact. Otherwise, the probability of a seating depends on the occupancies at the time
of each customer, which are no longer known. Counts are used in their place: if both tables were visited at constant
rates, occupancies and counts have the same ratio, and each customer is more probable by (n₁ + n₂)/n at a joined table,
as in the formula. The occupancy at the end is a worse substitute, since it depends on which shard ended last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.neighbors import NearestNeighbors

from dyncrp.arrays.checks import Clock
from dyncrp.engine.missing import for_missing, takes_missing
from dyncrp.engine.reference import closing, occupancy
from dyncrp.engine.types import Arrays, Engine, Float, Int
from dyncrp.estimator import DynamicalMixture
from dyncrp.families import Family, protocols
from dyncrp.families.base import Tables
from dyncrp.stream.stream import Stream

# The arrays of a state (docs/files.md) that belong to the family.
OF_TABLES = ("stats", "squares", "scatter", "misses")
# The arrays about the rows with each label, how to join them, and their values for no rows.
OF_ROWS = {"sizes": (np.add, 0), "first_times": (np.minimum, np.inf), "last_times": (np.maximum, -np.inf)}
NEAREST = 32  # nearest tables that each is first compared with; what is left is then compared with all
KEPT = 32  # best partners remembered for a table; when all of them have joined others, it searches again
BLOCK = 1 << 20  # numbers in the statistics of tables that are compared at once
HINT = (
    "Learn hyperparameters once, with dyncrp.tune from a sample of all rows, or give family_, dynamics_, alpha_ and "
    "memory_ of one model to the others before they are fitted"
)


class Combined(NamedTuple):
    """The result of ``combine``.

    Attributes:
        model: the combined model.
        id_maps: for each of the given models, an array that maps its ids to ids of the combined model. Closed tables
            become −1. The id −1, which ``predict`` returns for rows that belong to no table, stays −1.
    """

    model: DynamicalMixture
    id_maps: list[NDArray[np.int64]]


def combine(models: Iterable[DynamicalMixture]) -> Combined:
    """Return one model from models that were fitted to shards of the same stream.

    Tables that are probably the same cluster are joined, the most probable first, and their statistics and occupancies
    are added. Two tables of one model are never joined. The combined model can learn, predict and be saved like any
    other. Tables of the first model keep their ids; others get the next ones. ``n_observations_`` and ``log_evidence_``
    are sums: each row was predicted from the earlier ones of its own shard. Names are kept; if the members of a joined
    table have several, it takes that of the first model. ``labels_`` and similar attributes, which describe the last
    batch, are set by the next one.

    The models must agree in their hyperparameters, rules, features and kind of times, and may not have
    ``table_count="posterior"`` or ``learn_alpha``. If the dynamics forget, they must have been fitted with ``times``;
    occupancies are those at the latest time of all. With ``max_tables`` or ``prune_below``, the tables with the lowest
    occupancy close, as in a stream. With a finite memory, a joined table remembers what each of its members did, and
    forgets it as rows come.

    Args:
        models: fitted models, each of one shard.

    Returns:
        The combined model, and the new ids of the tables of each model.

    >>> import numpy as np
    >>> import dyncrp
    >>> centers = np.repeat([[0.0, 0.0], [9.0, 9.0], [0.0, 9.0]], 200, axis=0)
    >>> X = centers + np.random.default_rng(0).normal(size=(600, 2))
    >>> shards = X[::2], X[1:400:2]
    >>> family = dyncrp.Gaussian(variance=1.0, prior_variance=100.0)
    >>> models = [dyncrp.DynamicalMixture(family).fit(shard) for shard in shards]
    >>> [model.n_tables_ for model in models]
    [3, 2]
    >>> combined = dyncrp.combine(models)
    >>> combined.model.n_tables_, combined.model.n_observations_
    (3, 500)
    >>> labels = [combined.model.predict(shard) for shard in shards]
    >>> combined.id_maps[1]  # tables 0 and 1 of the second model
    array([ 0,  1, -1])
    """
    streams = _checked(models)
    engines = [stream.engine for stream in streams]
    if any(map(takes_missing, engines)):
        engines = [for_missing(engine) for engine in engines]
    told = engines[0].model
    if told.family.sparse:
        raise ValueError(f"models of counts of words cannot be combined: {told.family!r}")
    parts = [engine.arrays() for engine in engines]
    shards = np.repeat(np.arange(len(parts)), [len(part["stats"]) for part in parts])
    names = [name for name in OF_TABLES if all(name in part for part in parts)]
    joining = Joining(told.family, _stack(parts, names), shards, told.alpha)
    joining.run()
    places, tables = joining.result()
    # The tables of the first model come first and are all there, since no two of them were joined.
    K, n_opened = len(tables["stats"]), int(parts[0]["n_opened"])
    n_new = K - len(parts[0]["stats"])
    ids = np.append(parts[0]["table_ids"], np.arange(n_opened, n_opened + n_new))
    arrays: Arrays = tables | _modes(parts, places, K, told.modes.rates)
    arrays |= {name: np.sum([part[name] for part in parts], axis=0) for name in ("n_observations", "log_evidence")}
    arrays |= _rows_seen(parts, places, K)
    arrays |= {"table_ids": ids, "n_opened": np.array(n_opened + n_new)}
    if told.rules.closes and len(parts) > 1:
        arrays = _close(arrays, engines[0])
    arrays["n_tables_posterior"] = np.append(np.zeros(len(arrays["table_ids"])), 1.0)
    maps = _id_maps(parts, shards, ids[places], arrays["table_ids"])
    combined = Stream.of_arrays(streams[0], engines[0], arrays)
    for stream, id_map in zip(streams, maps, strict=True):
        id_map[:-1] = id_map[stream.resolve(np.arange(len(id_map) - 1))]  # merged ids, too
        for table, name in stream.names.items():
            taken = combined.names
            if id_map[table] >= 0 and id_map[table] not in taken and name not in taken.values():
                combined.rename(id_map[table], name)
    return Combined(DynamicalMixture.from_stream(combined), maps)


class Joining:
    """Join tables of several shards, the largest gain first, as long as there is a gain.

    tables: arrays of N tables, such as ``stats`` (N, S). shards: (N,) the shard of each table. A joined table gets the
    next free place, and its arrays are the family's sums. It belongs to the shards of both tables. Two tables that have
    a shard in common are not joined.
    """

    def __init__(self, family: Family, tables: Tables, shards: Int, alpha: float) -> None:
        N = len(shards)
        self.family, self.log_alpha = family, float(np.log(alpha))
        self.tables = {name: np.concatenate([array, np.zeros_like(array[1:])]) for name, array in tables.items()}
        self.n_given = self.n_made = N
        self.is_open = np.arange(2 * N - 1) < N
        self.joined_to = np.arange(2 * N - 1)
        self._of_shard = np.zeros((2 * N - 1, int(np.max(shards)) + 1), dtype=bool)
        self._of_shard[np.arange(N), shards] = True
        self._near: list[set[int]] | None = None  # the open tables that each is compared with; None for all
        self._partners: dict[int, list[tuple[float, int]]] = {}  # earlier tables, the best last
        self._has_more: dict[int, bool] = {}  # whether there are more partners than those
        self._best: list[tuple[float, int, int]] = []  # a heap of −gain, a table, and its best partner at the time

    def run(self) -> None:
        """Join all tables with a gain: first near ones, which is fast, then compare the rest with all."""
        if self.n_given > NEAREST + 1:
            self._near = self._nearest()
            self._join_all()
            self._near = None
        self._join_all()

    def result(self) -> tuple[Int, dict[str, Float]]:
        """Return the new table of each given one (N,), and the arrays of the new tables, in order of first members."""
        final = self.joined_to[: self.n_made].copy()
        for place in range(self.n_made - 1, -1, -1):  # a joined table comes after its members
            final[place] = final[final[place]]
        kept, first = np.unique(final[: self.n_given], return_index=True)
        order = kept[np.argsort(first)]
        rank = np.empty(self.n_made, dtype=np.int64)
        rank[order] = np.arange(len(order))
        return rank[final[: self.n_given]], {name: array[order] for name, array in self.tables.items()}

    def gains(self, place: int, others: Int) -> Float:
        """Return the gain in log probability from joining a table to each of the others: (len(others),)."""
        one = self._rows(slice(place, place + 1))
        step = max(1, BLOCK // self.tables["stats"].shape[1])
        blocks = [others[begin : begin + step] for begin in range(0, len(others), step)]
        factors = [self.family.log_bayes_factor(self._rows(block), one) for block in blocks]
        n1, n2 = self.tables["stats"][others, 0], self.tables["stats"][place, 0]
        return np.concatenate(factors) + _log_gamma(n1 + n2) - _log_gamma(n1) - _log_gamma(n2) - self.log_alpha

    def _rows(self, places: Any) -> dict[str, Float]:
        return {name: array[places] for name, array in self.tables.items()}

    def _nearest(self) -> list[set[int]]:
        """Return the near tables of each table, symmetrically, in coordinates in which clusters are round."""
        stats = self.tables["stats"][: self.n_given]
        squares = self.tables.get("squares", np.zeros((2 * self.n_given - 1, 0)))[: self.n_given]
        centers = protocols.shapes(self.family, stats, squares).centers
        search = NearestNeighbors(n_neighbors=NEAREST).fit(centers)
        near = [set(row) for row in search.kneighbors(return_distance=False).tolist()]
        for place, others in enumerate(near[:]):
            for other in list(others):
                near[other].add(place)
        return near

    def _join_all(self) -> None:
        """Join as long as there is a gain.

        Each table has the pairs with earlier tables. The heap has one entry per table, which is never below the gain of
        its best pair now. So the highest entry whose tables are both open is the best pair of all.
        """
        for place in np.flatnonzero(self.is_open).tolist():
            self._look(place)
        while self._best:
            _, one, other = heappop(self._best)
            if self.is_open[one] and self.is_open[other]:
                self._look(self._join(one, other))
            elif self.is_open[one]:
                self._offer(one)

    def _look(self, place: int) -> None:
        """Find the partners of a table among the earlier ones."""
        if self._near is None:
            others = np.flatnonzero(self.is_open[:place])
        else:
            others = np.array(sorted(other for other in self._near[place] if other < place), dtype=np.int64)
        others = others[~np.any(self._of_shard[others] & self._of_shard[place], axis=1)]
        if not len(others):
            return
        gains = self.gains(place, others)
        good = np.flatnonzero(gains > 0.0)
        best = good[np.argsort(-gains[good], kind="stable")[:KEPT]][::-1]
        self._partners[place] = list(zip(gains[best].tolist(), others[best].tolist(), strict=True))
        self._has_more[place] = len(good) > KEPT
        self._offer(place)

    def _offer(self, place: int) -> None:
        """Put the best pair of a table on the heap."""
        if self._partners[place]:
            gain, other = self._partners[place].pop()
            heappush(self._best, (-gain, place, other))
        elif self._has_more[place]:
            self._look(place)

    def _join(self, one: int, other: int) -> int:
        """Join two tables and return the place of the joined table."""
        place = self.n_made
        total = self.family.add(self._rows(slice(other, other + 1)), self._rows(slice(one, one + 1)))
        for name, array in total.items():
            self.tables[name][place] = array[0]
        self._of_shard[place] = self._of_shard[one] | self._of_shard[other]
        self.is_open[[one, other]], self.is_open[place] = False, True
        self.joined_to[[one, other]] = place
        self.n_made += 1
        if self._near is not None:
            near = (self._near[one] | self._near[other]) - {one, other}
            for neighbour in near:
                self._near[neighbour] -= {one, other}
                self._near[neighbour].add(place)
            self._near.append(near)
        return place


def _log_gamma(n: Any) -> Any:
    """Return log Γ(n), with n at least 1: a table has at least one customer, even if its responsibility is less."""
    return gammaln(np.maximum(n, 1.0))


def _stack(parts: list[Arrays], names: Iterable[str]) -> dict[str, Float]:
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _modes(parts: list[Arrays], places: Int, K: int, rates: Any) -> Arrays:
    """Return the arrays of the occupancies, with all modes advanced to one time and summed."""
    mode_time = max(float(part["mode_time"]) for part in parts)
    decays = [np.exp(-rates * (mode_time - float(part["mode_time"]))) for part in parts]
    mode_states = np.zeros((K, len(rates)), dtype=np.complex128)
    moved = [part["mode_states"] * decay for part, decay in zip(parts, decays, strict=True)]
    np.add.at(mode_states, places, np.concatenate(moved))
    arrays = {"mode_states": mode_states, "mode_time": np.array(mode_time)}
    arrays["time"] = np.array(max(float(part["time"]) for part in parts))
    if all("mode_total" in part for part in parts):
        totals = [part["mode_total"] * decay for part, decay in zip(parts, decays, strict=True)]
        arrays["mode_total"] = np.sum(totals, axis=0)
    return arrays


def _rows_seen(parts: list[Arrays], places: Int, K: int) -> Arrays:
    """Return how many rows have the label of each joined table, and the times of the first and the last one."""
    given = _stack(parts, OF_ROWS)
    joined = {name: np.full(K, none) for name, (_, none) in OF_ROWS.items()}
    for name, (join, _) in OF_ROWS.items():
        join.at(joined[name], places, given[name])
    return joined


def _close(arrays: Arrays, engine: Engine) -> Arrays:
    """Return the arrays without the tables that the rules close. The table with the highest occupancy always stays."""
    modes = engine.model.modes
    decay = np.exp(-modes.rates * float(arrays["time"] - arrays["mode_time"]))
    state = replace(engine.state, mode_states=arrays["mode_states"] * decay)
    closed = closing(state, int(np.argmax(occupancy(state, modes))), engine.model)
    rows = {*OF_TABLES, *OF_ROWS, "mode_states", "table_ids"}
    left = {name: np.delete(array, closed, axis=0) if name in rows else array for name, array in arrays.items()}
    if len(closed):
        left.pop("mode_total", None)  # an engine sums those that are left
    return left


def _id_maps(parts: list[Arrays], shards: Int, ids: Int, still_open: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Return the new ids of each part's tables. ids: (N,) those of the tables of all parts that are still open."""
    ids = np.where(np.isin(ids, still_open), ids, -1)
    maps = []
    for shard, part in enumerate(parts):
        maps.append(np.full(int(part["n_opened"]) + 1, -1))
        maps[-1][part["table_ids"]] = ids[shards == shard]
    return maps


def _checked(models: Iterable[DynamicalMixture]) -> list[Stream]:
    """Return the streams of the models; raise if they cannot be combined."""
    if not isinstance(models, Iterable):
        raise ValueError(f"models must be a list of DynamicalMixture, got {models!r}")
    models = list(models)
    if not models:
        raise ValueError("models must have at least one DynamicalMixture, got none")
    if len({id(model) for model in models}) < len(models):
        raise ValueError("models has the same model twice, whose rows would count twice")
    streams: list[Stream] = []
    for i, model in enumerate(models):
        if not isinstance(model, DynamicalMixture):
            raise ValueError(f"models[{i}] must be a DynamicalMixture, got {model!r}")
        if not model.__sklearn_is_fitted__():
            raise ValueError(f"models[{i}] is not fitted")
        stream = model.stream_
        streams.append(stream)
        if not stream.learned:
            raise ValueError(f"models[{i}] has not learned its hyperparameters yet. {HINT}")
        if stream.spec.learn_alpha:
            raise ValueError(f"models[{i}] has learn_alpha=True: its alpha is for its own shard. Give all the same one")
        if stream.spec.rules.table_count != "map":
            raise ValueError(
                f"models[{i}] has table_count='posterior', but the numbers of tables of the shards do not determine "
                "the number of tables of them all: use table_count='map'"
            )
        for (name, mine), others in zip(_traits(streams[0]).items(), _traits(stream).values(), strict=True):
            if mine != others:
                hint = f". {HINT}" if name in ("family", "dynamics", "alpha", "memory") else ""
                raise ValueError(
                    f"models[{i}] has {name} {others!r} and models[0] has {mine!r}: all must have the same{hint}"
                )
    first = streams[0]
    modes = first.dynamics.modes()
    for i, stream in enumerate(streams):
        its = stream.engine.model.modes
        if len(its.rates) != len(modes.rates) or not np.allclose(its.rates, modes.rates, rtol=1e-9, atol=0.0):
            raise ValueError(
                f"models[{i}] was saved where {stream.dynamics!r} was a sum of other exponentials. It can continue, "
                "but not be combined: fit all models with the same version of SciPy"
            )
    if len(streams) > 1 and first.clock is Clock.INDEX and np.any(first.engine.model.modes.rates != 0.0):
        raise ValueError(
            f"the models were fitted without times, so the first rows of all shards have time 0, but "
            f"{first.dynamics!r} forgets with time: pass times to fit"
        )
    return streams


def _traits(stream: Stream) -> dict[str, Any]:
    """Return what the models must have in common, by name."""
    model, input = stream.engine.model, stream.input
    return {
        "family": stream.family,
        "dynamics": stream.dynamics,
        "alpha": model.alpha,
        "memory": model.memory,
        **asdict(model.rules),
        "n_features_in_": stream.n_columns,
        "feature_names_in_": None if input.names is None else list(input.names),
        "encoding_": input.encoding,
        "clock_": stream.clock.value,
    }

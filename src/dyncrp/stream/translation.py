"""A change of encoder: the tables of a stream are learned anew in another space, and keep their ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dyncrp.arrays.checks import as_observations
from dyncrp.arrays.counts import Counts
from dyncrp.arrays.partitions import as_partition
from dyncrp.arrays.rows import Dense
from dyncrp.engine import make_engine
from dyncrp.engine.joint import log_likelihood
from dyncrp.engine.schema import EXAMPLE_ROWS, EXAMPLES, EXTRAS, NOVELTY, OF_EXAMPLES, SEEN, STATS, WORDS
from dyncrp.engine.types import NEW, UNKNOWN, Arrays, Float, Int, Model, Rows, TableConstraints
from dyncrp.families import Family, protocols
from dyncrp.families.base import check_rows
from dyncrp.input.constraints import Constraints, no_such_table
from dyncrp.input.input import Input, names_of
from dyncrp.io import model_file
from dyncrp.search.spec import as_family
from dyncrp.stream.stream import Stream

UNMATCHED = ("error", "close")


def translate(
    stream: Stream,
    old: Any,
    new: Any,
    *,
    labels: Iterable[Any] | None = None,
    family: Family | None = None,
    unmatched: str = "error",
) -> Stream:
    """Return a stream with the tables of another one in another space; see ``DynamicalMixture.translate``.

    The new stream is made as a file is read, so that all of it is checked. The other one does not change.
    """
    if not stream.learned:
        raise ValueError("translate needs tables that are final: call learn_unknown first")
    if unmatched not in UNMATCHED:
        raise ValueError(f"unmatched must be one of {UNMATCHED}, got {unmatched!r}")
    kind = _kind(stream) if family is None else as_family(family)
    if kind.sparse:
        raise ValueError(f"new must be rows of numbers, and {type(kind).__name__} counts words: give another family")
    Y, names = check_rows(kind, as_observations(new, "new")), names_of(new)
    rows, engine = None, stream.engine
    if old is not None:
        _, rows, _ = stream.read(old)
        if len(rows) != len(Y):
            raise ValueError(f"old and new must be the same rows in both spaces, got {len(rows)} and {len(Y)} rows")
    elif labels is None:
        raise ValueError("translate needs the rows in the old space, or labels, to know the table of each row")
    kept = _kept(stream, rows)
    tables = np.full(len(Y), UNKNOWN) if old is None else stream.predict(old)
    tables[kept[1]] = kept[0]["example_tables"] if len(kept[1]) else UNKNOWN
    if labels is not None:
        told = _told(stream, labels, len(Y))
        tables = np.where(told == UNKNOWN, tables, told)
    ids = engine.ids
    missing = ids[~np.isin(ids, tables)]
    if len(missing) and (unmatched == "error" or len(missing) == len(ids)):
        raise ValueError(
            f"no row belongs to {_listed(missing)} of {len(ids)} tables: give rows of each, "
            'or unmatched="close" to close these tables'
        )
    used = np.flatnonzero(np.isin(tables, ids))
    found = _family(stream, kind, Y[used], as_partition(tables[used], len(used)))
    arrays = _arrays(stream, found, Y, tables) | _examples(kept, Y)
    known = {"family": found, "dynamics": stream.dynamics, "alpha": stream.alpha, "memory": stream.memory}
    config = stream.learner.config()
    config |= {"hyperparameters": config["hyperparameters"] | {"family": found}, "n_features": Y.shape[1]}
    params = {**stream.spec.params, **known, "resolution": 1.0}
    content = model_file.dumps({"params": params, **Input(names).to_plain(), **config}, arrays)
    made = Stream.from_bytes(content, "the translated model")
    made.candidates = []  # nothing was unknown
    return made


def _told(stream: Stream, labels: Iterable[Any], n: int) -> Int:
    """Return the tables of rows by id, −1 where they are unknown."""
    constraints = Constraints.read(labels, None, n)
    if constraints is None:
        return np.full(n, UNKNOWN)
    n_opened = stream.engine.n_opened
    if constraints.check_ids(n_opened, 0):
        wrong = int(np.flatnonzero(constraints.tables >= n_opened)[0])
        raise no_such_table(int(constraints.tables[wrong]), n_opened, wrong)
    tables = stream.learner.names.find_all(constraints.tables)
    for row in np.flatnonzero(tables <= NEW):
        tables[row] = stream.find(constraints.names[NEW - tables[row]], closed=True)
    return tables


def _kept(stream: Stream, rows: Rows | None) -> tuple[Arrays, Int]:
    """Return the arrays of the kept examples that are among the rows, and where each is in them."""
    reservoir = stream.learner.examples
    if reservoir is None or rows is None or isinstance(rows, Counts):
        return {}, np.zeros(0, dtype=np.int64)
    arrays = dict(zip((*EXAMPLES, "X"), reservoir.arrays().values(), strict=True))
    place = {row.tobytes(): at for at, row in enumerate(np.ascontiguousarray(rows))}
    at = np.array([place.get(row.tobytes(), -1) for row in arrays["X"]], dtype=np.int64)
    return {name: array[at >= 0] for name, array in arrays.items()}, at[at >= 0]


def _examples(kept: tuple[Arrays, Int], Y: Float) -> Arrays:
    """Return the arrays of the examples in the new space: those whose rows were given."""
    arrays, at = kept
    if not len(at):
        return {}
    (name,) = EXAMPLE_ROWS[Dense]
    return {own: arrays[own] for own in EXAMPLES} | {name: Y[at]}


def _kind(stream: Stream) -> Family:
    """Return a family with unknown hyperparameters, of the kind that the stream has."""
    before, kinds = stream.family, (stream.spec.family, *stream.spec.other_families)
    for kind in kinds:
        if type(kind) is type(before) and not kind.known:
            return kind
    try:
        return type(before)()
    except (TypeError, ValueError):
        told = f"{type(before).__name__} has no default; Gaussian() is learned from the rows"
        raise ValueError(f"give the family of the new space: {told}") from None


def _family(stream: Stream, family: Family, Y: Float, tables: Int) -> Family:
    """Return the family in the new space: as given, or that under which rows Y (n, D) with these tables are likeliest.

    tables: (n,) numbers from 0. What is unknown is chosen among the proposals of the family.
    """
    before, candidates = stream.family, list[Family]()
    if type(family) is type(before) and before.width in (None, Y.shape[1]):
        candidates.append(before)
    if family.known:
        return family
    for view in protocols.views(family, Y):
        kind = view.family or family
        for labels in (tables, None):
            candidates += [view.lift(one) for one in protocols.proposals(kind, view.rows, labels)]
    scores = [log_likelihood(one, Y, tables) for one in candidates]
    return candidates[int(np.argmax(scores))]


def _arrays(stream: Stream, family: Family, Y: Float, tables: Int) -> Arrays:
    """Return the arrays of the stream with the statistics of its tables in the new space. Other tables are closed."""
    before = stream.learner.arrays()
    stays = np.isin(before["table_ids"], tables)
    of_tables = {*STATS, *EXTRAS, *WORDS}
    found = {name: array for name, array in before.items() if name not in {*of_tables, *NOVELTY, *OF_EXAMPLES}}
    for name in {*SEEN, "mode_states", "table_ids"} & found.keys():
        found[name] = found[name][stays]
    if not np.all(stays):
        found["n_tables_posterior"] = np.append(np.zeros(int(np.sum(stays))), 1.0)
    return found | _learn(stream, family, Y, tables, found["table_ids"])


def _learn(stream: Stream, family: Family, Y: Float, tables: Int, ids: Int) -> Arrays:
    """Return the statistics of tables, in the order of their ids, that are told to have these rows."""
    engine = make_engine(Model(family, stream.dynamics, stream.alpha, stream.memory), Y.shape[1])
    places = np.searchsorted(ids, tables)
    places = np.where(ids[np.minimum(places, len(ids) - 1)] == tables, places, UNKNOWN)
    order = np.argsort(places, kind="stable")
    order = order[places[order] >= 0]
    seats = places[order]
    opens = np.append(True, seats[1:] != seats[:-1])
    told = TableConstraints(np.where(opens, NEW, seats), np.full(len(order), UNKNOWN))
    engine.run(np.ascontiguousarray(Y[order]), np.zeros(len(order)), told)
    return {name: array for name, array in engine.arrays().items() if name in {*STATS, *EXTRAS}}


def _listed(tables: Int) -> str:
    """Name up to ten tables.

    >>> _listed(np.arange(2)), _listed(np.arange(12))
    ('tables 0, 1', 'tables 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more')
    """
    more = f" and {len(tables) - 10} more" if len(tables) > 10 else ""
    return f"tables {', '.join(map(str, tables[:10]))}{more}" if len(tables) > 1 else f"table {tables[0]}"

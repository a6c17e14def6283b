"""Merging and splitting tables. This works on the arrays of a state (docs/files.md), so it is the same for any engine.

Statistics and modes add up. So a merged table is the table that would be there if the rows of both had been seated
together, and a split subtracts what some rows had added.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from scipy.sparse import csr_array, vstack

from dyncrp.arrays.counts import Counts
from dyncrp.dynamics import Modes
from dyncrp.engine.schema import EXTRAS, SEEN, STATS
from dyncrp.engine.types import Arrays, Engine, Float, Rows
from dyncrp.families import Family, protocols

OF_TABLES = (*STATS, *EXTRAS)  # arrays with a row for each table


def merge(engine: Engine, kept: int, other: int) -> None:
    """Merge two open tables into one, which has the id ``kept``."""
    arrays, family = engine.arrays(), engine.model.family
    ids = arrays["table_ids"].tolist()
    place, gone = ids.index(kept), ids.index(other)
    tables = {name: arrays[name] for name in OF_TABLES if name in arrays}
    both = ({name: array[[at]] for name, array in tables.items()} for at in (place, gone))
    found: Arrays = {name: array.copy() for name, array in arrays.items()}
    added = family.add(*both)
    for name, total in added.items():
        found[name][place] = total[0]
    found["mode_states"][place] += arrays["mode_states"][gone]
    found["sizes"][place] += arrays["sizes"][gone]
    rows = [at for at in (place, gone) if arrays["sizes"][at] > 0] or [place]
    found["first_times"][place] = min(arrays["first_times"][at] for at in rows)
    found["last_times"][place] = max(arrays["last_times"][at] for at in rows)
    for name in {*OF_TABLES, *SEEN, "mode_states", "table_ids"} & found.keys():
        found[name] = np.delete(found[name], gone, axis=0)
    if "words_counts" in found:
        to = np.arange(len(ids)) - (np.arange(len(ids)) > gone)
        to[gone] = place - (gone < place)
        joins = csr_array((np.ones(len(ids)), (to, np.arange(len(ids)))), shape=(len(ids) - 1, len(ids)))
        _set_words(found, joins @ _words(found))
    found["n_tables_posterior"] = np.append(np.zeros(len(ids) - 1), 1.0)
    if "taken" in found:
        found["taken"][found["taken"] == other] = kept
    _restore(engine, found, [place - (gone < place)], (EXTRAS.keys() & found.keys()) - added.keys())


def split(engine: Engine, table: int, X: Rows, times: Float) -> int:
    """Move rows X (n, D), learned at times (n,), from an open table to a new one; return its id.

    Raises ``ValueError`` if the rest cannot be a table, because rows were not seated at it, or only in part.
    """
    arrays, family, modes = engine.arrays(), engine.model.family, engine.model.modes
    place, new_id = arrays["table_ids"].tolist().index(table), int(arrays["n_opened"])
    if isinstance(X, Counts) and "stats" in arrays:
        X = X.toarray(engine.n_features)
    moved: Arrays = {}
    if not isinstance(X, Counts):
        moved = {"stats": np.sum(family.statistics(X), axis=0), "squares": np.sum(protocols.squares(family, X), axis=0)}
    moved["mode_states"] = np.sum(np.exp(modes.rates * (times[:, None] - float(arrays["mode_time"]))), axis=0)
    found: Arrays = {name: array.copy() for name, array in arrays.items()}
    for name, part in moved.items():
        if name in found:
            found[name][place] -= part
            found[name] = np.vstack([found[name], part])
    rest = _split_words(found, place, X) if isinstance(X, Counts) else found["stats"][[place]]
    if not _is_possible(family, rest, found["mode_states"][place], modes, arrays):
        raise ValueError(
            f"table {table} has {arrays['sizes'][place]} rows, and the rest without these {len(X)} is not a table: "
            "give only rows that were seated at it, with the times at which they came"
        )
    found["sizes"][place] = max(0, int(arrays["sizes"][place]) - len(X))
    for name, value in (("sizes", len(X)), ("first_times", times.min()), ("last_times", times.max())):
        found[name] = np.append(found[name], np.array(value, dtype=found[name].dtype))
    found["table_ids"] = np.append(found["table_ids"], new_id)
    found["n_opened"] = np.array(new_id + 1)
    found["n_tables_posterior"] = np.append(np.zeros(len(found["table_ids"])), 1.0)
    own = EXTRAS.keys() & found.keys()
    for name in own:
        found[name] = np.vstack([found[name], np.zeros_like(found[name][:1])])
    _restore(engine, found, [place, len(found["table_ids"]) - 1], own)
    return new_id


def _words(arrays: Arrays, n_columns: int = 0) -> csr_array:
    """Return the words of tables as a sparse array (K, D)."""
    indptr, indices, data = (arrays[name] for name in ("words_indptr", "words_indices", "words_counts"))
    width = max(n_columns, int(indices.max(initial=0)) + 1)
    return csr_array((data, indices, indptr), shape=(len(indptr) - 1, width))


def _set_words(arrays: Arrays, words: csr_array) -> None:
    """Set the words of tables (K, D). Arrays that follow from them are removed, to be computed again."""
    words.sum_duplicates()
    words.eliminate_zeros()
    arrays["words_indptr"], arrays["words_indices"] = (
        array.astype(np.int64) for array in (words.indptr, words.indices)
    )
    arrays["words_counts"] = words.data
    arrays.pop("mode_sums", None)


def _split_words(arrays: Arrays, place: int, X: Counts) -> Float:
    """Move the words of rows from a table to a new last one; return the stats of the rest, over its words: (1, S)."""
    words = _words(arrays, X.n_columns)
    moved = csr_array((X.data, (np.full(len(X.data), place), X.indices)), shape=words.shape)
    rest = words - moved
    left = rest[[place]].data
    _set_words(arrays, vstack([rest, moved[[place]]]).tocsr())
    n_rows = float(arrays["sizes"][place] - len(X)) if np.all(left >= 0.0) else -1.0
    return np.append(n_rows, left)[None, :]


def _is_possible(family: Family, stats: Float, mode_state: Arrays, modes: Modes, arrays: Arrays) -> bool:
    """Return whether the rest of a table, (1, S), can be the stats of rows."""
    now = np.exp(-modes.rates * float(arrays["time"] - arrays["mode_time"]))
    occupancy = float((mode_state * now @ modes.amplitudes).real)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = family.log_partition(stats)[0]
    # At least a half, not 1: counts of rows that tables share are not exact integers.
    return bool(stats[0, 0] >= 0.5 and np.isfinite(value) and occupancy > -1e-9 * len(arrays["table_ids"]))


def _restore(engine: Engine, arrays: Arrays, changed: list[int], own: Collection[str]) -> None:
    """Restore the engine from arrays. own: arrays that it computes itself, here only for the tables that changed."""
    if own:
        engine.restore({name: array for name, array in arrays.items() if name not in own})
        anew = engine.arrays()
        for name in own:
            arrays[name][changed] = anew[name][changed]
    engine.restore(arrays)

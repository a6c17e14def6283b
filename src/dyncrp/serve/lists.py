"""The open tables and the clusters of a stream as lists for JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyncrp.arrays.checks import Clock
from dyncrp.serve.plain import as_number, as_plain_time, as_time
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters
from dyncrp.views.describe import describe_tables
from dyncrp.views.profile import profile

TABLES_DESCRIBED = 1_000  # of more, the clusters are listed without what is typical of them
MOST_TRAITS = 8


def list_tables(stream: Stream, features: Sequence[str] | None) -> Callable[[Clusters | None], list[dict[str, Any]]]:
    """Return a function that lists the open tables as they are, given their clusters; any thread may call it."""
    input, names, clock, ids = stream.input, stream.names, stream.clock, stream.engine.ids.tolist()
    shown = features if input.vocabulary is None else input.vocabulary.words
    columns = describe_tables(stream.engine, shown, Clock.NUMBERS, None, input.encoding)
    occupancies = stream.occupancies

    def make(clusters: Clusters | None) -> list[dict[str, Any]]:
        told = {name: np.asarray(column).tolist() for name, column in columns.items()}
        pairs = () if clusters is None else zip(clusters.table_ids.tolist(), clusters.cluster_of.tolist(), strict=True)
        cluster_of = dict(pairs)
        rows, share, first, last = (told.pop(name) for name in ("rows", "share", "first_seen", "last_seen"))
        return [
            {
                "id": table,
                "name": names.get(table),
                "rows": rows[at],
                "share": share[at],
                "first_seen": as_time(first[at], clock),
                "last_seen": as_time(last[at], clock),
                "occupancy": as_number(occupancies[at]),
                "cluster": cluster_of.get(table),
                "describes": {name: as_number(column[at]) for name, column in told.items()},
            }
            for at, table in enumerate(ids)
        ]

    return make


def list_clusters(stream: Stream, clusters: Clusters, by_hand: dict[int, list[list[int]]]) -> list[dict[str, Any]]:
    """Return clusters, the largest first: their tables, and what is typical of each, if there are not too many.

    by_hand: for each cluster, the pairs of tables that somebody has joined. typical: the column, its text, and by how
    many standard deviations of all rows it is high or low, None for what is no number.
    """
    found: dict[int, dict[str, Any]] = {}
    state = stream.engine.seating
    counts, total = dict(zip(state.ids.tolist(), state.sizes.tolist(), strict=True)), max(1, int(np.sum(state.sizes)))
    for cluster in clusters.ids.tolist():
        tables = clusters.table_ids[clusters.cluster_of == cluster].tolist()
        rows = sum(counts.get(table, 0) for table in tables)  # some may have closed since
        found[cluster] = {
            "cluster": cluster,
            "tables": tables,
            "rows": rows,
            "share": rows / total,
            "by_hand": by_hand.get(cluster, []),
        }
    for one in profile(stream, clusters) if len(clusters.table_ids) <= TABLES_DESCRIBED else ():
        typical = [[trait.column, trait.text, as_number(trait.deviation)] for trait in one.typical[:MOST_TRAITS]]
        if one.id in found:
            found[one.id] |= {"rows": one.rows, "share": one.share, "names": list(one.names), "typical": typical}
            found[one.id] |= {"first_seen": as_plain_time(one.first_seen), "last_seen": as_plain_time(one.last_seen)}
    return sorted(found.values(), key=lambda one: (-one["rows"], one["cluster"]))

"""What people note of a stream beside its model: alarms that they have seen, and tables that they join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dyncrp.engine.types import Int
from dyncrp.input.entries import quote
from dyncrp.serve.limits import RequestError
from dyncrp.views.clusters import Clusters

ACKNOWLEDGE, JOIN, PART = "acknowledge", "join", "part"  # kinds of operations
MOST_JOINS = 1_000
MOST_SEEN = 10_000  # as many events as the journal keeps


@dataclass
class Notes:
    """seen: the ids of alarms that were acknowledged. joins: pairs of tables that are in one cluster by hand."""

    seen: set[int] = field(default_factory=set)
    joins: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def from_plain(cls, told: Any) -> Notes:
        """Return what ``as_plain`` returned; no notes for None."""
        return cls() if told is None else cls(set(told["seen"]), [(a, b) for a, b in told["joins"]])

    def as_plain(self) -> dict[str, Any]:
        """Return the notes for JSON.

        >>> Notes({3, 1}, [(0, 4)]).as_plain()
        {'seen': [1, 3], 'joins': [[0, 4]]}
        """
        return {"seen": sorted(self.seen), "joins": [list(pair) for pair in self.joins]}

    def acknowledge(self, alarms: list[int]) -> dict[str, Any]:
        """Note that alarms were seen, by the ids of their events."""
        self.seen.update(alarms)
        if len(self.seen) > MOST_SEEN:
            self.seen = set(sorted(self.seen)[-MOST_SEEN:])
        return {"acknowledged": len(alarms)}

    def join(self, a: int, b: int) -> dict[str, Any]:
        """Put two tables into one cluster."""
        if a == b:
            raise RequestError(400, f"join takes two tables, got {a} twice")
        pair = (min(a, b), max(a, b))
        if pair not in self.joins:
            if len(self.joins) >= MOST_JOINS:
                raise RequestError(409, f"{MOST_JOINS:,} pairs of tables are joined by hand, which is the most")
            self.joins.append(pair)
        return {"tables": list(pair)}

    def part(self, tables: list[int]) -> dict[str, Any]:
        """Forget all joins by hand of some tables."""
        self.joins = [pair for pair in self.joins if not set(pair) & set(tables)]
        return {"tables": tables}

    def pairs(self, resolve: Callable[[list[int]], Int]) -> list[Int]:
        """Return the pairs with the ids that their tables have now. resolve: gives ids after merges."""
        return [np.unique(resolve(list(pair))) for pair in self.joins]

    def joined(self, clusters: Clusters, resolve: Callable[[list[int]], Int]) -> dict[int, list[list[int]]]:
        """Return, by cluster, the pairs of open tables that are in it by hand."""
        found: dict[int, list[list[int]]] = {}
        for tables in self.pairs(resolve):
            of = np.unique(clusters.cluster_of[np.isin(clusters.table_ids, tables)])
            if len(tables) == 2 and len(of) == 1:
                found.setdefault(int(of[0]), []).append(tables.tolist())
        return found


def join_by_hand(clusters: Clusters, pairs: Sequence[Int]) -> Clusters:
    """Return clusters in which the tables of each pair are in one.

    >>> ids = np.array([0, 1, 2])
    >>> join_by_hand(Clusters(ids, ids, np.ones(3), np.zeros((0, 4)), "any"), [np.array([0, 2])]).cluster_of
    array([0, 1, 0])
    """
    cluster_of = clusters.cluster_of.copy()
    for tables in pairs:
        found = np.unique(cluster_of[np.isin(clusters.table_ids, tables)])
        if len(found) == 2:
            cluster_of[cluster_of == found[1]] = found[0]
    return replace(clusters, cluster_of=cluster_of)


def check_alarms(told: Any, last_event: int) -> list[int]:
    """Return ids of events, given as a list of integers.

    >>> check_alarms([3, 5], 9)
    [3, 5]
    """
    fits = isinstance(told, list) and all(type(one) is int and 0 < one <= last_event for one in told)
    if not fits or len(told) > MOST_SEEN:
        raise RequestError(400, f"alarms must be a list of up to {MOST_SEEN:,} ids of events, got {quote(told)}")
    return list(told)

"""How far apart two tables are, before somebody merges them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dyncrp.serve.plain import as_number
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters
from dyncrp.views.profile import profile

MOST_COLUMNS = 8


def compare(stream: Stream, a: int, b: int) -> dict[str, Any]:
    """Return whether one table could cover two, and the columns in which they differ most.

    apart: the difference of their means in standard deviations of all rows, None for what is no number. far_apart:
    whether rows at both centres would not join the merged table. The stream is unchanged.
    """
    copy = Stream.from_bytes(stream.to_bytes())
    copy.merge(a, b)
    far_apart = bool(copy.events()[-1].what.get("far_apart", False))
    ids = stream.engine.ids
    others = ids[~np.isin(ids, [a, b])]
    apart = np.where(np.isin(ids, [a, b]), ids, others[0] if len(others) else a)  # the others are as one
    alone = Clusters(ids, apart, np.ones(len(ids)), np.zeros((0, 4)), "elliptical")
    traits = {one.id: {trait.column or trait.text: trait for trait in one.typical} for one in profile(stream, alone)}
    columns = []
    for name in dict.fromkeys([*traits[a], *traits[b]]):
        of = [traits[table].get(name) for table in (a, b)]
        gap = math.nan if None in of else abs(of[0].deviation - of[1].deviation)  # type: ignore[union-attr]
        texts = [None if trait is None else trait.text for trait in of]
        columns.append({"column": name, "values": texts, "apart": as_number(gap)})
    columns.sort(key=lambda one: -(one["apart"] if one["apart"] is not None else 0.5))
    return {"tables": [a, b], "far_apart": far_apart, "columns": columns[:MOST_COLUMNS]}

"""What the reference notes of single rows: those with the label of each table, and the weight of each.

A row of weight w is seated as it would be without a weight. Then it teaches its tables as w rows that are equal to it
and come at the same time, each with the same responsibilities. So an integer weight is that many equal rows, exactly,
wherever copies of a row would be seated alike: if its table is given, or if no other table shares the row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.engine.types import State, TableConstraints


def given_weight(told: TableConstraints | None, row: int) -> float:
    """Return the weight of a row, 1 if none is given."""
    return 1.0 if told is None or told.weights is None else float(told.weights[row])


def seen_rows(state: State, label: int, K: int) -> dict[str, NDArray[Any]]:
    """Return the sizes and times of K tables, the last of which may be new, after a row with this label."""
    sizes = np.append(state.sizes, 0)[:K]
    first_times, last_times = (np.append(times, state.time)[:K] for times in (state.first_times, state.last_times))
    if sizes[label] == 0:
        first_times[label] = state.time
    last_times[label] = state.time
    sizes[label] += 1
    return {"sizes": sizes, "first_times": first_times, "last_times": last_times}


def absence(before: State, place: int, t: float) -> float:
    """Return the time from the last row of the table at this index to t, 0 if it had no row."""
    had = place < len(before.sizes) and before.sizes[place] > 0
    return t - float(before.last_times[place]) if had else 0.0

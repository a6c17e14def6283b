"""Edits of the tables of a stream: what is checked before, and found after, a merge, a new name or a split."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dyncrp.arrays.checks import as_times
from dyncrp.engine.types import Float, Rows
from dyncrp.families.base import check_rows
from dyncrp.input.constraints import check_name
from dyncrp.stream.learner import Learner


def merge(learner: Learner, one: int, other: int) -> tuple[int, bool]:
    """Let two open tables be one; return its id, and whether rows at the centres of both would join it."""
    engine = learner.engine
    places = np.flatnonzero(np.isin(engine.ids, [one, other]))
    # The centre of documents is no document, and would be dense.
    centers = None if learner.family.sparse else engine.model.family.centers(engine.state.stats[places])
    kept = learner.merge(one, other)
    return kept, centers is None or _covers(learner, kept, centers)


def _covers(learner: Learner, table: int, centers: Float) -> bool:
    """Whether rows at these centres (n, D) would join a table now; True if the family takes no such rows."""
    engine = learner.engine
    try:
        rows = check_rows(engine.model.family, np.ascontiguousarray(centers))
    except ValueError:
        return True
    return bool(np.all(engine.predict(rows, np.full(len(rows), engine.time)) == table))


def rename(learner: Learner, table: int, name: str) -> str | None:
    """Give a table a name that no other one has, "" for none; return the name that it had."""
    names, text = learner.names, "" if name == "" else check_name(name)
    if text and names.find(text) not in (None, table):
        raise ValueError(f"table {names.find(text)} is called {text!r} already: merge the two, if they are one")
    before = names.of.get(table)
    names.give(table, text)
    return before


def require_whole_tables(learner: Learner) -> None:
    """Refuse to split tables that forget their rows."""
    memory = learner.engine.model.memory
    if memory < math.inf:
        raise ValueError(f"split needs memory=inf: with memory={memory:g} the table has forgotten rows")


def split(learner: Learner, table: int, rows: Rows, times: ArrayLike | None) -> int:
    """Take rows (n, D), which came at times (n,), out of a table; return the id of theirs."""
    engine = learner.engine
    if times is None:
        if np.any(engine.model.modes.rates != 0.0):
            raise ValueError(f"split needs the times of the rows: {learner.dynamics!r} forgets with time")
        return learner.split(table, rows, np.full(len(rows), engine.time))
    t = as_times(times, n=len(rows), ordered=False)
    late = np.flatnonzero(t > engine.time)
    if len(late):
        raise ValueError(f"the times of rows that have come are not after {engine.time:g}, got {t[late[0]]:g}")
    return learner.split(table, rows, t)

"""The joint log probability of rows and a given partition of them: no inference, only the model."""

from __future__ import annotations

import math

import numpy as np

from dyncrp.arrays.counts import Counts
from dyncrp.arrays.partitions import scan
from dyncrp.engine.reference import update
from dyncrp.engine.types import Float, Int, Model, Rows
from dyncrp.families import Columns, Family
from dyncrp.families.base import first_missing
from dyncrp.process import DynamicalCRP

BLOCK = 16  # rows that are scored together, each at its own table


def log_joint(model: Model, X: Rows, t: Float, tables: Int) -> float:
    """Return Σ_n log P(c_n | c_<n) + Σ_n log p(x_n | the earlier rows of its table).

    X: (n, D) rows, checked by the family; t: (n,) times; tables: (n,) their tables, numbers from 0 in order of opening.
    """
    prior: float = DynamicalCRP(model.alpha, model.dynamics).log_prob(tables, t)
    return prior + log_likelihood(model.family, X, tables, model.memory)


def log_likelihood(family: Family, X: Rows, tables: Int, memory: float = math.inf) -> float:
    """Return Σ_n log p(x_n | the earlier rows of its table), of which the table remembers ``memory``.

    With an infinite memory the order within a table does not matter: the sum is that of the tables' log marginals.
    """
    if isinstance(X, Counts):
        return _of_documents(family, X, tables)
    if first_missing(X) < len(X) and not isinstance(family, Columns):
        family = Columns.of(family, X.shape[1])
    if type(family).given is not Family.given:
        return _one_by_one(family, X, tables, memory)
    if memory < math.inf:
        return _of_short_memory(family, X, tables, memory)
    order = np.argsort(tables, kind="stable")
    begins = np.flatnonzero(np.append(True, tables[order][1:] != tables[order][:-1]))
    stats = np.add.reduceat(family.statistics(X)[order], begins, axis=0)
    return float(np.sum(family.log_partition(stats)) + np.sum(family.log_base_measure(X)))


def _of_short_memory(family: Family, X: Float, tables: Int, memory: float) -> float:
    """Do the same for tables that forget: score blocks of rows, sorted by table, each given its own table."""
    order = np.argsort(tables, kind="stable")
    joins = np.append(False, tables[order][1:] == tables[order][:-1])[:, None]
    carried = np.zeros((1, family.empty(X.shape[1]).shape[1]))  # the table of the last row of the block before
    found = 0.0
    for begin in range(0, len(X), BLOCK):
        rows, joined = X[order[begin : begin + BLOCK]], joins[begin : begin + BLOCK]
        T, seen = family.statistics(rows), family.observed(rows)[0]
        factors = np.broadcast_to(np.where(joined, 1.0 - seen / memory, 0.0), T.shape)
        T[0] += factors[0] * carried[0]
        after = scan(factors, T)
        before = np.where(joined, np.vstack([carried, after[:-1]]), 0.0)
        found += float(np.sum(np.diagonal(family.log_predictive(rows, before))))
        carried = after[-1:]
    return found


def _one_by_one(family: Family, X: Float, tables: Int, memory: float) -> float:
    """Do the same for a family whose prior adapts to all tables, in the order of the rows."""
    stats, found = family.empty(X.shape[1]), 0.0
    for n, table in enumerate(tables):
        now = family.given(stats)
        if table == len(stats):
            stats = np.vstack([stats, np.zeros_like(stats, shape=(1, stats.shape[1]))])
        found += float(now.log_predictive(X[n : n + 1], stats[table : table + 1])[0, 0])
        seated = (np.arange(len(stats)) == table).astype(np.float64)
        stats = update(stats, seated, now.statistics(X[n : n + 1]), memory, now.observed(X[n : n + 1])[0])
    return found


def _of_documents(family: Family, X: Counts, tables: Int) -> float:
    """Do the same for counts of words. Their prior adapts to the sum of all tables; only the words of a row matter."""
    found, total = 0.0, np.zeros((1, 1 + X.n_columns))
    words: dict[int, dict[int, float]] = {}  # the counts of each table by column, and at −1 their sum
    for n, table in enumerate(tables.tolist()):
        own = words.setdefault(table, {})
        at = slice(X.indptr[n], X.indptr[n + 1])
        columns, counts = X.indices[at].astype(np.int64), X.data[at]
        here = np.array([own.get(column, 0.0) for column in columns.tolist()])
        length = own.get(-1, 0.0)
        stats = np.concatenate([[0.0], here, [length - np.sum(here)]])[None, :]  # how many rows does not matter
        row = np.append(counts, 0.0)[None, :]
        found += float(family.given(total, columns).log_predictive(row, stats)[0, 0])
        total[0, 1 + columns] += counts
        own[-1] = length + float(np.sum(counts))
        own.update(zip(columns.tolist(), (here + counts).tolist(), strict=True))
    return found

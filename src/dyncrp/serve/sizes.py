"""How much memory the tables of a stream may take: a few rows may ask for gigabytes, such as those of many codes."""

from __future__ import annotations

from dyncrp.serve.limits import RequestError
from dyncrp.stream.stream import Stream

MOST_NUMBERS = 500_000  # of a table
MOST_BYTES = 400_000_000  # of all tables; a file may have twice as much, and SQLite takes values of up to 10^9 bytes
BYTES_OF_NUMBER = 8


def numbers_per_table(stream: Stream, width: int) -> int:
    """Return how many numbers a table has if rows have ``width`` columns. No array of that size is made."""
    if stream.started:
        return stream.learner.family.n_statistics(stream.engine.n_features)
    family = stream.spec.family
    return family.n_statistics(width if family.width is None else family.width)


def check_room(stream: Stream, n: int, width: int) -> None:
    """Refuse n rows of so many columns if the tables that they may open would take too much memory.

    It does not matter whether hyperparameters are given, for all columns or for each, or are learned.
    """
    family = stream.learner.family if stream.started else stream.spec.family
    if family.sparse:
        return  # a table has what its rows had
    size, most = numbers_per_table(stream, width), stream.spec.rules.max_tables
    if size > MOST_NUMBERS and not stream.started:  # columns of many codes are only found in the warm-up
        told = f"a table of {width:,} columns would have {size:,} numbers, and may have {MOST_NUMBERS:,}"
        raise RequestError(413, f"{told}: this family needs fewer columns, or fewer codes for each")
    there = stream.engine.n_tables if stream.started else 0
    n_tables = there + n if most is None else min(there + n, most)
    room = MOST_BYTES // (BYTES_OF_NUMBER * size)
    if n_tables > max(room, 1):
        told = f"{there:,} tables of {size:,} numbers each are open, and there is room for {room:,}"
        raise RequestError(413, f"{told}: send fewer rows at once, or make a stream with max_tables up to {room:,}")

"""How much memory the tables of a stream may take: a few rows may ask for gigabytes, such as those of many codes."""

from __future__ import annotations

from functools import lru_cache

from dyncrp.families import Family
from dyncrp.serve.limits import RequestError
from dyncrp.stream.stream import Stream

MOST_NUMBERS = 500_000  # of a table
MOST_BYTES = 400_000_000  # of all tables; a file may have twice as much, and SQLite takes values of up to 10^9 bytes
BYTES_OF_NUMBER = 8


@lru_cache(maxsize=1_000)  # each request asks
def numbers_per_table(family: Family, width: int) -> int:
    """Return how many numbers a table of ``width`` columns has: some, some for each column, and some for each pair.

    No array of that size is made.

    >>> from dyncrp import Categorical, Gaussian
    >>> numbers_per_table(Categorical(1.0, n_codes=10_000), 500), numbers_per_table(Gaussian(1.0, 1.0), 500)
    (5000501, 501)
    """
    one, two, three = (family.empty(n).shape[1] for n in (1, 2, 3))
    pairs, single = three - 2 * two + one, two - one
    return int(one + (width - 1) * single + (width - 1) * (width - 2) // 2 * pairs)


def check_room(stream: Stream, n: int, width: int) -> None:
    """Refuse n rows of so many columns if the tables that they may open would take too much memory."""
    family = stream.learner.family if stream.started else stream.spec.family
    if family.sparse or family.width is not None or not family.known:
        return  # of which a table has what its rows had, or a few numbers for each column
    size, most = numbers_per_table(family, width), stream.spec.rules.max_tables
    if size > MOST_NUMBERS:
        told = f"a table of {width:,} columns would have {size:,} numbers, and may have {MOST_NUMBERS:,}"
        raise RequestError(413, f"{told}: this family needs fewer columns, or fewer codes for each")
    there = stream.engine.n_tables if stream.started else 0
    n_tables = there + n if most is None else min(there + n, most)
    room = MOST_BYTES // (BYTES_OF_NUMBER * size)
    if n_tables > max(room, 1):
        told = f"{there:,} tables of {size:,} numbers each are open, and there is room for {room:,}"
        raise RequestError(413, f"{told}: send fewer rows at once, or make a stream with max_tables up to {room:,}")

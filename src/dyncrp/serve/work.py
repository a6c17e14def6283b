"""How much work a request is. Much of it is done in another thread, so that other streams do not wait.

Work is counted in numbers that are looked at, of which a core does some 10⁹ a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyncrp.joining.kept import MOST_TABLES
from dyncrp.serve.bodies import Batch
from dyncrp.serve.sizes import numbers_per_table
from dyncrp.stream.keeping import KeepingLearner
from dyncrp.stream.stream import Stream

if TYPE_CHECKING:
    from dyncrp.serve.streams import ServedStream

ROWS_PER_CHECKPOINT = 10_000
HEAVY = 10**8  # some tenth of a second
PER_BYTE = 50  # of a body that is kept, or of a model that is written or read
PER_LETTER = 1_000  # of a text that is cut into words
PER_CELL = 1_000  # that is a value of Python
PER_LABEL = 100_000  # that may be the name of a new table
PER_TAKEN = 50  # of a table and a row with a mark, which may not share it
PER_PAIR = 100  # of tables, for each of their numbers, when clusters are joined
LETTERS_PER_WORD = 5


def is_heavy(stream: ServedStream, batch: Batch | None = None, n_bytes: int = 0) -> bool:
    """Return whether learning a batch, a body of ``n_bytes``, is much work; without one, whether it is to go
    through the whole model.
    """
    return (_of_model(stream) if batch is None else _of_rows(stream, batch, n_bytes)) > HEAVY


def _of_model(stream: ServedStream) -> float:
    size = stream.checkpoint_bytes + stream.bytes_since_checkpoint
    own = stream.stream
    return PER_BYTE * size + (_of_joining(own, own.engine.n_tables) if own.started else 0.0)


def _of_rows(stream: ServedStream, batch: Batch, n_bytes: int) -> float:
    """Return an upper bound: each row might open a table."""
    n, own, rules = batch.n, stream.stream, stream.stream.spec.rules
    there = own.engine.n_tables if own.started else 0
    most = there + n if rules.max_tables is None else max(there, min(there + n, rules.max_tables))
    steps = rules.n_iter if rules.assignment == "variational" else 1
    if stream.text is not None:
        each = n_bytes / LETTERS_PER_WORD / n
        work = float(PER_LETTER * n_bytes)
    else:
        each = numbers_per_table(own, batch.width)
        work = n * float(each) ** 1.5  # those of pairs of columns are a matrix, which a row factorises
        work += 0.0 if batch.numbers is not None else PER_CELL * n * batch.width
    if batch.cannot_link is not None:
        each += PER_TAKEN
    work += n * each * (there + most) / 2 * steps + PER_BYTE * n_bytes
    if batch.labels is not None:
        work += PER_LABEL * n
    if stream.n_since_checkpoint + n >= ROWS_PER_CHECKPOINT:
        work += PER_BYTE * (stream.checkpoint_bytes + stream.bytes_since_checkpoint)
    if (
        own.started
        and isinstance(own.learner, KeepingLearner)
        and own.engine.n_observations + n >= own.learner.kept.due
    ):
        work += _of_joining(own, most)
    return work


def _of_joining(stream: Stream, n_tables: int) -> float:
    """Return the work of joining so many tables into clusters anew, if that is done: all pairs are looked at."""
    if not isinstance(stream.learner, KeepingLearner):
        return 0.0
    return PER_PAIR * min(n_tables, MOST_TABLES) ** 2 * (2 + numbers_per_table(stream, 0))

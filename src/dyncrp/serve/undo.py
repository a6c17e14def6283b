"""What is needed to undo the last merge of a stream: the model before it, and what was learned since."""

from __future__ import annotations

from dataclasses import dataclass, field

from dyncrp.serve.journal import Operation
from dyncrp.serve.segments import Segment

MOST_OPERATIONS, MOST_BYTES = 2_000, 2**20  # since the merge, after which it can no longer be undone


@dataclass
class Undo:
    """The model before a merge as bytes, its latest rows, which table stayed and which went, and what was done since.

    What may be undone depends on the operations alone, so that the journal can repeat it.
    """

    model: bytes
    timeline: Segment | None
    kept: int
    gone: int
    operations: list[Operation] = field(default_factory=list)
    n_bytes: int = 0

    def note(self, operation: Operation) -> bool:
        """Take in what was done since; return whether the merge can still be undone."""
        self.operations.append(operation)
        self.n_bytes += len(operation.payload)
        return len(self.operations) <= MOST_OPERATIONS and self.n_bytes <= MOST_BYTES

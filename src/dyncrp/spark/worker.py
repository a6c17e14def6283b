"""``Processor``: what Spark's workers do with the rows of a bucket in one batch.

Nothing here imports the estimator, so that workers start fast.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from dyncrp.spark.bucket import Bucket
from dyncrp.spark.packing import GUARD, from_bytes


class Processor(StatefulProcessor):  # type: ignore[misc]
    """A bucket in Spark, which keeps its state in one value.

    told: named values that must be the same whenever a checkpoint is continued. The bucket ``GUARD`` keeps them, and
    raises in the first batch in which one differs.
    """

    def __init__(self, bucket: Bucket, told: dict[str, str]) -> None:
        self.bucket, self.told = bucket, told

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get the values of state."""
        self.models = handle.getValueState("models", "models binary", self.bucket.ttl)
        self.start = handle.getValueState("start", "told string")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Learn the rows of a bucket in one batch."""
        if key[0] == GUARD:
            for _ in rows:
                pass
            self._check()
            return
        kept = self.models.get()
        now = timerValues.getCurrentProcessingTimeInMs()
        table = from_bytes([content for part in rows for content in part["rows"]])
        models, labels = self.bucket.learn(None if kept is None else bytes(kept[0]), table, now)
        self.models.update((models,))
        yield labels.to_pandas()

    def _check(self) -> None:
        before = self.start.get()
        if before is None:
            self.start.update((json.dumps(self.told),))
            return
        then = json.loads(before[0])
        for name in then | self.told:
            if then.get(name) != self.told.get(name):
                raise ValueError(
                    f"the checkpoint was begun with another {name}: {then.get(name)} then, {self.told.get(name)} now. "
                    "Continue with the same, or start again with another checkpoint"
                )

    def close(self) -> None:
        """Do nothing, as nothing is open."""

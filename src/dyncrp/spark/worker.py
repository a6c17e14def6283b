"""``Processor``: what Spark's workers do with the rows of a bucket in one batch.

Nothing here imports the estimator, so that workers start fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from dyncrp.spark.bucket import Bucket
from dyncrp.spark.packing import from_bytes


class Processor(StatefulProcessor):  # type: ignore[misc]
    """A bucket at work: Spark keeps what it keeps, in one value."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Ask for the value."""
        self.models = handle.getValueState("models", "models binary", self.bucket.ttl)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Learn the rows of a bucket in one batch."""
        kept = self.models.get()
        now = timerValues.getCurrentProcessingTimeInMs()
        table = from_bytes([content for part in rows for content in part["rows"]])
        models, labels = self.bucket.learn(None if kept is None else bytes(kept[0]), table, now)
        self.models.update((models,))
        yield labels.to_pandas()

    def close(self) -> None:
        """Nothing is open."""

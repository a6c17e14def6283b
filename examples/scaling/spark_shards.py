"""
Shards on Spark
===============

Cluster partitions of a Parquet file with Spark's mapInPandas:
``spark-submit examples/scaling/spark_shards.py``

Without a cluster, ``python examples/scaling/spark_shards.py`` starts Spark here
(``pip install 'dyncrp[spark]'``).
"""

# sphinx_gallery_thumbnail_path = "images/program-spark_shards.png"
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import shards
from pyspark.sql import SparkSession

import dyncrp
from dyncrp.spark import session


def fit_all(path: str, n_shards: int, parameters: dict[str, Any]) -> Iterator[bytes]:
    """Fit a model to each partition, as Spark divides the file."""
    names = shards.features(path)

    def fit(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        model, n = dyncrp.DynamicalMixture(**parameters), 0
        for frame in frames:
            n += len(model.partial_fit(frame.to_numpy()).labels_)
        if n:
            yield pd.DataFrame({"model": [model.to_bytes()]})

    found = spark().read.parquet(path).select(names).mapInPandas(fit, "model binary")
    return (bytes(row.model) for row in found.toLocalIterator(prefetchPartitions=True))


def relabel_all(path: str, n_shards: int, model: bytes, output: str) -> None:
    """Write the table of each row under the combined model, and what else is known of
    it."""
    names, data = shards.features(path), spark().read.parquet(path)

    def relabel(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        combined = dyncrp.DynamicalMixture.from_bytes(model)
        for frame in frames:
            yield frame.drop(columns=names).assign(
                table=combined.predict(frame[names].to_numpy())
            )

    schema = data.drop(*names).schema.add("table", "long")
    data.mapInPandas(relabel, schema).write.parquet(output)


def spark() -> SparkSession:
    """Return the session: that of the cluster, or one here."""
    return SparkSession.getActiveSession() or session()


if __name__ == "__main__":
    shards.main(__doc__, fit_all, relabel_all)
    spark().stop()

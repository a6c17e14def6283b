"""
A model for every sensor on Spark
=================================

A folder of Parquet files in, a folder of labels out::

    $ pip install 'dyncrp[spark]'
    # simulated readings of 1,000 sensors
    $ python examples/scaling/spark_sensors.py
    # goes on when more files have come
    $ python examples/scaling/spark_sensors.py --input readings --output labels

The input has the columns sensor, row, time and numbers. Stop it at any moment, with
Ctrl-C or kill -9, and start it again: it goes on from its checkpoint, and no row is
lost or labelled twice. Read the labels with Spark, as at the end of this file: a killed
run may leave unfinished files in the folder, which only Spark's own log of it leaves
out.
"""

# sphinx_gallery_thumbnail_path = "images/program-spark_sensors.png"
import argparse
import json
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from dyncrp import DynamicalMixture, Exponential, Gaussian
from dyncrp.spark import cluster, session

ROWS = 50_000  # in a file


def simulate(folder: Path, n_files: int, n_sensors: int, seed: int = 0) -> None:
    """Write files of readings: each sensor has five states of its own, and stays in
    one for a while."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    states = rng.normal(scale=10.0, size=(n_sensors, 5, 3))
    now = rng.integers(0, 5, n_sensors)
    for i in range(n_files):
        sensors = rng.integers(0, n_sensors, ROWS)
        changes = rng.random(n_sensors) < 0.5
        now[changes] = rng.integers(0, 5, np.count_nonzero(changes))
        readings = states[sensors, now[sensors]] + rng.normal(size=(ROWS, 3))
        rows = i * ROWS + np.arange(ROWS)
        columns = {
            "sensor": [f"sensor {sensor}" for sensor in sensors],
            "row": rows,
            "time": np.datetime64("2026-01-01", "us") + rows * np.timedelta64(20, "ms"),
            "temperature": readings[:, 0],
            "pressure": readings[:, 1],
            "humidity": readings[:, 2],
        }
        pq.write_table(pa.table(columns), folder / f"{i:05d}.parquet")


def main() -> None:
    """Cluster all files that there are, one in each batch."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1].rstrip(":"))
    parser.add_argument(
        "--input",
        type=Path,
        default=Path("readings"),
        help="a folder; made if it does not exist",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("labels"),
        help="a folder; its checkpoint lies beside it",
    )
    parser.add_argument(
        "--files", type=int, default=20, help=f"how many files of {ROWS:,} rows to make"
    )
    parser.add_argument("--sensors", type=int, default=1_000)
    parser.add_argument(
        "--master",
        default="local[*]",
        help="such as local[2], or the address of a cluster",
    )
    told = parser.parse_args()
    if not told.input.exists():
        simulate(told.input, told.files, told.sensors)

    spark = session(told.master)
    schema = spark.read.parquet(str(told.input)).schema
    readings = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(told.input))
    )
    model = DynamicalMixture(
        Gaussian(1.0, 100.0), Exponential(timedelta(minutes=10)), alpha=0.1
    )
    features = [
        field.name for field in schema if field.name not in ("sensor", "row", "time")
    ]
    labels = cluster(
        readings, model, key="sensor", features=features, time="time", row="row"
    )
    query = (
        labels.writeStream.format("parquet")
        .option("path", str(told.output))
        .option("checkpointLocation", f"{told.output}.checkpoint")
        .trigger(
            availableNow=True
        )  # without it, the query waits for more files for ever
        .start()
    )
    seen = -1
    while query.isActive:
        time.sleep(0.2)
        for progress in query.recentProgress:
            batch = json.loads(progress.json)
            if batch["batchId"] > seen and batch["numInputRows"]:
                seen = batch["batchId"]
                print(
                    f"batch {seen}: {batch['numInputRows']:,} rows, "
                    f"{batch['processedRowsPerSecond']:,.0f} a second"
                )
    query.awaitTermination()  # raises what went wrong

    found = spark.read.parquet(str(told.output))
    tables = found.groupBy("sensor").agg(F.countDistinct("table").alias("tables"))
    n_sensors, mean = tables.agg(F.count("*"), F.avg("tables")).first()
    print(
        f"{found.count():,} rows of {n_sensors:,} sensors in {told.output}, "
        f"{mean:.1f} tables each"
    )
    spark.stop()


if __name__ == "__main__":
    main()

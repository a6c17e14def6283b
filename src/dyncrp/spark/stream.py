"""``cluster``: a model for each key of a Spark DataFrame, as a step of a Structured Streaming query.

This is the part of the driver. It checks the input and plans the two steps of the workers, ``packing.pack`` and
``worker.Processor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dyncrp.arrays.checks import Clock, integer
from dyncrp.estimator import DynamicalMixture
from dyncrp.search.spec import ModelSpec
from dyncrp.spark.bucket import LATE, Bucket
from dyncrp.spark.local import PROVIDER, ROCKS_DB
from dyncrp.spark.packing import pack
from dyncrp.spark.worker import Processor
from dyncrp.stream.states import digest

BUCKETS = 32
FOUND = ("table", "probability", "novelty")
KEYS = (T.StringType, T.IntegralType, T.BinaryType, T.DateType)
ROWS = (T.StringType, T.IntegralType, T.TimestampType, T.TimestampNTZType, T.DateType)
DATES = (T.TimestampType, T.TimestampNTZType, T.DateType)
NUMBERS = (T.NumericType, T.BooleanType)


def cluster(
    rows: DataFrame,
    model: DynamicalMixture,
    *,
    key: str,
    features: str | Sequence[str],
    time: str | None = None,
    row: str | None = None,
    weight: str | None = None,
    late: str = "mark",
    ttl: float | timedelta | None = None,
    buckets: int | None = None,
) -> DataFrame:
    """Return rows with the table that each joins, using a separate model for each key.

    Without late rows and ``ttl``, the result is bit for bit that of one process that learns the rows of a key once, in
    order of time, even if Spark stops in the middle of a batch and resumes from its checkpoint. Rows of the same time
    are learned in order of batch and row. Rows are not buffered: a row is late if an earlier batch had a later row of
    its key.

    Args:
        rows: a DataFrame, streaming or not, in a session with the RocksDB state store, such as that of ``session``.
        model: a ``DynamicalMixture``, whose parameters are used; all hyperparameters must be given.
        key: the column of keys: text, integers or dates.
        features: the columns of numbers to cluster by, or one column of arrays of numbers.
        time: a column of times, numbers or dates; with None, times count the rows of each key.
        row: a column of integers, text or dates that identifies rows. It orders rows of the same time and batch, or all
            rows if there is no time. It is returned, so that labels can be joined to the rows.
        weight: a column of numbers from 0 to 1e9, how many rows each row counts as, see ``sample_weight`` of
            ``DynamicalMixture.partial_fit``. Rows of weight 0 before the first other row of a key are marked.
        late: what to do with a row that is earlier than the latest of its key in an earlier batch. "mark" gives it
            table −1 and does not learn it, "now" learns it as if it had the time of the latest, "raise" stops.
        ttl: seconds, or a ``timedelta``, of wall-clock time after which a key without rows is forgotten; None for
            never. In a session of your own, set spark.sql.streaming.noDataMicroBatches.enabled to false, or Spark runs
            batches without rows forever.
        buckets: how many values of state the keys share, by default 32. It must be the same when a query is restarted.

    Returns:
        A DataFrame with the columns ``key``, ``row`` and ``time`` as they were, and ``table``, ``probability`` (of that
        table) and ``novelty`` (−log p of the row given all before). The last two are null for marked rows.
    """
    if late not in LATE:
        raise ValueError(f"late must be one of {LATE}, got {late!r}")
    if time is None and row is None:
        raise ValueError("pass time=, row= or both: Spark does not keep the order of rows, and models learn in order")
    n_buckets = BUCKETS if buckets is None else integer("buckets", buckets, 1)
    chosen = _columns(rows, key, features, time, row, weight)
    clock = _clock(rows, time)
    spec, known = _parameters(model, clock)
    bucket = Bucket(spec, clock, late, _milliseconds(ttl))
    if rows.isStreaming and rows.sparkSession.conf.get(PROVIDER) != ROCKS_DB:
        raise ValueError(
            f"a model for each key needs Spark's RocksDB state store: set {PROVIDER} to {ROCKS_DB}, or use the session "
            "that dyncrp.spark.session() returns"
        )
    names = {name: column for name, column in (("key", key), ("row", row), ("time", time)) if column is not None}
    if len({*map(str.lower, names.values()), *FOUND}) < len(names) + len(FOUND):
        raise ValueError(f"key, row and time must be different columns with other names than {FOUND}, got {names}")
    told = {name: rows.schema[column].dataType.simpleString() for name, column in names.items()}
    told |= {} if weight is None else {"weight": weight}
    told |= {"features": ", ".join([features] if isinstance(features, str) else features), "buckets": str(n_buckets)}
    mark = digest((known.family, known.dynamics, known.alpha, known.memory), spec.rules, spec.learn_alpha).hex()
    told["model"] = f"{known.family!r}, {known.dynamics!r}, alpha {known.alpha:g} ({mark})"
    kept = [T.StructField(name, rows.schema[column].dataType) for name, column in names.items()]
    bucket_of = F.pmod(F.xxhash64(_quoted(key)), F.lit(n_buckets)).cast("int").alias("bucket")
    packed = rows.select(bucket_of, *chosen).mapInArrow(pack, "bucket int, rows binary")
    labels = packed.groupBy("bucket").transformWithStateInPandas(
        statefulProcessor=Processor(bucket, told),
        outputStructType=T.StructType(kept).add("table", "long").add("probability", "double").add("novelty", "double"),
        outputMode="Append",
        timeMode="None" if ttl is None else "ProcessingTime",
    )
    return labels.toDF(*names.values(), *FOUND)


def _parameters(model: DynamicalMixture, clock: Clock) -> tuple[ModelSpec, Any]:
    """Return the parameters of a model without unknown hyperparameters."""
    if not isinstance(model, DynamicalMixture):
        raise ValueError(f"model must be a DynamicalMixture, got {model!r}")
    spec = ModelSpec.resolve(**model.get_params(deep=False))
    if spec.given is None:
        raise ValueError(
            "all hyperparameters must be given, since what a key would learn depends on the batches: learn them once "
            "from a sample with dyncrp.tune, and give DynamicalMixture the family, dynamics and alpha that it finds"
        )
    spec.check_clock(clock)
    return spec, spec.given


def _columns(
    rows: DataFrame, key: str, features: str | Sequence[str], time: str | None, row: str | None, weight: str | None
) -> list[Any]:
    """Return the columns that a bucket needs; raise if they are of the wrong type."""
    schema = rows.schema

    def kind(name: str, role: str) -> T.DataType:
        if not isinstance(name, str) or name not in schema.names:
            raise ValueError(f"{role} must be one of the columns {schema.names}, got {name!r}")
        return schema[name].dataType

    def check(name: str, role: str, kinds: tuple[type[T.DataType], ...]) -> Any:
        if not isinstance(kind(name, role), kinds):
            allowed = ", ".join(one.__name__.removesuffix("Type").lower() for one in kinds)
            raise ValueError(f"the {role} {name!r} is {schema[name].dataType.simpleString()}, but must be {allowed}")
        return F.col(_quoted(name))

    chosen = [check(key, "key", KEYS).alias("key")]
    if row is not None:
        chosen.append(check(row, "row", ROWS).alias("row"))
    if time is not None:
        chosen.append(check(time, "time", (*DATES, T.IntegralType, T.FloatType, T.DoubleType)).alias("time"))
    if weight is not None:
        chosen.append(check(weight, "weight", NUMBERS).cast("double").alias("weight"))
    if isinstance(features, str) and isinstance(kind(features, "feature"), T.ArrayType):
        if not isinstance(schema[features].dataType.elementType, NUMBERS):
            raise ValueError(
                f"the feature {features!r} is {schema[features].dataType.simpleString()}, not an array of numbers"
            )
        chosen.append(F.col(_quoted(features)).cast("array<double>").alias("features"))
        return chosen
    names = [features] if isinstance(features, str) else list(features or ())
    if not names:
        raise ValueError(f"features must name at least one column, got {features!r}")
    numbers = [check(name, "feature", NUMBERS).cast("double") for name in names]
    chosen.append(F.array(*numbers).alias("features"))
    return chosen


def _quoted(name: str) -> str:
    """Return a name quoted for Spark, which would otherwise interpret dots and spaces."""
    return "`" + name.replace("`", "``") + "`"


def _clock(rows: DataFrame, time: str | None) -> Clock:
    if time is None:
        return Clock.INDEX
    return Clock.DATES if isinstance(rows.schema[time].dataType, DATES) else Clock.NUMBERS


def _milliseconds(ttl: float | timedelta | None) -> int | None:
    if ttl is None:
        return None
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.001 <= seconds < 1e12:
        raise ValueError(f"ttl must be a number of seconds from 0.001, a timedelta or None, got {ttl!r}")
    return round(seconds * 1000)

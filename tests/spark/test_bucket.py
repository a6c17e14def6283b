"""A bucket of keys against one process for each key; no Spark is needed."""

import numpy as np
import pyarrow as pa
import pytest

from dyncrp import DynamicalMixture, Exponential, Gaussian
from dyncrp.arrays.checks import Clock
from dyncrp.search.spec import ModelSpec
from dyncrp.spark.bucket import Bucket
from dyncrp.spark.packing import from_bytes, to_bytes

PARAMS = {"family": Gaussian(1.0, 100.0), "dynamics": Exponential(30.0), "alpha": 0.5}
DAY = 86_400_000


def make(clock=Clock.NUMBERS, late="mark", ttl=None, **params):
    spec = ModelSpec.resolve(**PARAMS | params)
    return Bucket(spec, clock, late, ttl)


def stream(n=400, keys=7, seed=0):
    """Rows of several keys with times that repeat, in order of time and row."""
    rng = np.random.default_rng(seed)
    key = rng.integers(0, keys, n)
    X = 6.0 * rng.integers(0, 4, (n, 1)) + key[:, None] + rng.normal(size=(n, 2))
    return pa.table(
        {
            "key": [f"sensor {k}" for k in key],
            "row": np.arange(n),
            "time": np.sort(rng.integers(0, n // 3, n)).astype(float),
            "features": X.tolist(),
        }
    )


def run(bucket, batches, kept=None, now=0):
    """Learn batch after batch; return all labels in order of row, and what is kept."""
    labels = []
    for batch in batches:
        kept, found = bucket.learn(kept, batch, now)
        labels.append(found)
    labels = pa.concat_tables(labels)
    return (labels.sort_by("row") if "row" in labels.column_names else labels), kept


def one_by_one(rows, timed=True, **params):
    """The same by an estimator for each key, which learns all its rows at once."""
    n = len(rows)
    table, probability, novelty = np.empty(n, int), np.empty(n), np.empty(n)
    keys = np.array(rows["key"].to_pylist())
    X = np.array(rows["features"].to_pylist())
    times = np.asarray(rows["time"])
    for key in np.unique(keys):
        own = keys == key
        model = DynamicalMixture(**PARAMS | params).fit(X[own], times=times[own] if timed else None)
        table[own], novelty[own] = model.labels_, model.novelty_
        probability[own] = model.responsibilities_.max(axis=1).toarray().ravel()
    return table, probability, novelty


def check(labels, wanted):
    for name, values in zip(("table", "probability", "novelty"), wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(labels[name]), values)


def test_rows_have_weights():
    rows = stream()
    weights = np.random.default_rng(3).choice([0.0, 0.5, 1.0, 4.0], 400)
    labels, _ = run(
        make(),
        [
            rows.slice(0, 170).append_column("weight", pa.array(weights[:170])),
            rows.slice(170).append_column("weight", pa.array(weights[170:])),
        ],
    )
    assert labels.column_names == ["key", "row", "time", "table", "probability", "novelty"]
    keys, X, times = np.array(rows["key"].to_pylist()), np.array(rows["features"].to_pylist()), np.asarray(rows["time"])
    table, novelty = np.asarray(labels["table"]), np.asarray(labels["novelty"].to_pylist(), dtype=float)
    for key in np.unique(keys):
        own = np.flatnonzero(keys == key)
        n_before = np.argmax(weights[own] > 0)  # rows before the first of a weight
        assert np.all(table[own[:n_before]] == -1)
        assert np.all(np.isnan(novelty[own[:n_before]]))
        own = own[n_before:]
        model = DynamicalMixture(**PARAMS).fit(X[own], times=times[own], sample_weight=weights[own])
        assert table[own].tolist() == model.labels_.tolist()
        assert novelty[own].tolist() == model.novelty_.tolist()
    for bad, message in ((-1.0, "from 0 to 1e\\+09, got -1.0"), (None, "its weight is null")):
        some = rows.slice(0, 3).append_column("weight", pa.array([1.0, 1.0, bad]))
        with pytest.raises(ValueError, match=f"row 2.*cannot be learned: .*{message}"):
            make().learn(None, some, 0)


@pytest.mark.parametrize("cuts", [[], [200], [1, 2, 3, 250, 390], range(1, 400, 7)], ids=str)
def test_every_key_is_learned_as_by_a_process_of_its_own(cuts):
    rows = stream()
    begins, ends = [0, *cuts], [*cuts, 400]
    batches = [rows.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True)]
    labels, _ = run(make(), batches)
    check(labels, one_by_one(rows))
    assert len(set(labels["table"].to_pylist())) > 3


@pytest.mark.parametrize(
    "params",
    [{"learn_alpha": True}, {"max_tables": 3}, {"table_count": "posterior"}, {"memory": 20.0}, {"resolution": 2.0}],
    ids=str,
)
def test_other_parameters(params):
    rows = stream(1500, keys=3)
    labels, _ = run(make(**params), [rows.slice(at, 130) for at in range(0, 1500, 130)])
    check(labels, one_by_one(rows, **params))


def test_rows_of_a_batch_may_come_in_any_order():
    rows = stream()
    rng = np.random.default_rng(1)
    shuffled = [rows.slice(at, 100).take(rng.permutation(100)) for at in (0, 100, 200, 300)]
    labels, _ = run(make(), shuffled)
    check(labels, one_by_one(rows))


def test_ties_do_not_depend_on_the_order_of_arrival():
    rows = stream().drop_columns("row")
    first = make().learn(None, rows, 0)
    again = make().learn(None, rows.take(np.random.default_rng(2).permutation(400)), 0)
    assert first == again


def test_dates_and_keys_of_other_types():
    rows = stream()
    dates = pa.array((np.asarray(rows["time"]) * 1e6).astype("M8[us]"))
    numbers = pa.array([int(key[-1]) - 3 for key in rows["key"].to_pylist()])
    dated = rows.set_column(2, "time", dates.cast(pa.timestamp("us", "Europe/Paris"))).set_column(0, "key", numbers)
    labels, _ = run(make(Clock.DATES), [dated.slice(0, 150), dated.slice(150)])
    check(labels, one_by_one(rows))
    assert labels.schema.field("time").type == pa.timestamp("us", "Europe/Paris")


def test_rows_are_the_order_where_there_is_no_time():
    rows = stream()
    untimed = rows.drop_columns("time")
    labels, kept = run(make(Clock.INDEX), [untimed.slice(0, 150), untimed.slice(150)])
    check(labels, one_by_one(rows, timed=False))
    _, late = make(Clock.INDEX).learn(kept, untimed.slice(0, 5), 0)
    assert late["table"].to_pylist() == [-1] * 5


def late_rows():
    """Two batches, of which the second has rows before the end of the first."""
    rows = stream()
    order = np.arange(400)
    second = (order >= 300) | (order % 50 == 0)
    return rows, rows.filter(~second), rows.filter(second)


def test_late_rows_are_marked_and_not_learned():
    rows, first, second = late_rows()
    labels, _ = run(make(), [first, second])
    marked = np.asarray(labels["table"]) < 0
    assert np.flatnonzero(marked).tolist() == [0, 50, 100, 150, 200, 250]
    assert labels["novelty"].null_count == labels["probability"].null_count == 6
    check(labels.filter(~marked), one_by_one(rows.filter(~marked)))


def test_late_rows_are_learned_as_if_on_time():
    rows, first, second = late_rows()
    labels, _ = run(make(late="now"), [first, second])
    latest = dict(zip(first["key"].to_pylist(), first["time"].to_pylist(), strict=True))
    times = [
        max(time, latest[key]) if row in second["row"].to_pylist() else time
        for key, row, time in zip(*(rows[name].to_pylist() for name in ("key", "row", "time")), strict=True)
    ]
    learned = pa.concat_tables([first, second])
    learned = learned.set_column(2, "time", pa.array(np.array(times)[np.asarray(learned["row"])]))
    table, probability, novelty = one_by_one(learned)
    order = np.argsort(np.asarray(learned["row"]))
    check(labels, (table[order], probability[order], novelty[order]))
    assert labels["time"].to_pylist() == rows["time"].to_pylist()


def test_late_rows_can_be_refused():
    _, first, second = late_rows()
    _, kept = run(make(), [first])
    with pytest.raises(ValueError, match=r"the row with key 'sensor \d', row \d+, time .*late='mark'"):
        make(late="raise").learn(kept, second, 0)


def test_idle_keys_are_forgotten():
    rows = stream(keys=2)
    one = rows.filter([key == "sensor 1" for key in rows["key"].to_pylist()])
    bucket = make(ttl=DAY)
    _, kept = run(bucket, [rows.slice(0, 200)])
    _, kept = run(bucket, [one.slice(len(one) - 2, 1)], kept, now=DAY // 2)
    assert len(from_bytes([kept])) == 2
    _, kept = run(bucket, [one.slice(len(one) - 1, 1)], kept, now=DAY + 1)
    assert from_bytes([kept])["key"].to_pylist() == ["sensor 1"]
    labels, _ = run(bucket, [rows.slice(0, 50)], kept, now=3 * DAY)
    assert min(labels["table"].to_pylist()) == 0  # nothing is late: all keys begin anew


def test_what_is_kept_belongs_to_the_model():
    _, kept = run(make(), [stream()])
    with pytest.raises(ValueError, match="of a model with other parameters"):
        make(alpha=0.6).learn(kept, stream(), 0)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("key", ["a", None], "the row with key None, row 1, time 1.0 cannot be learned: its key is null"),
        ("time", [1.0, None], "the row with key 'b', row 1, time None cannot be learned: its time is null"),
        ("time", [1.0, np.nan], "the row with key 'b', row 1, time nan cannot be learned: times must be finite"),
        ("row", [None, 1], "the row with key 'a', row None, time 0.0 cannot be learned: its row is null"),
        ("features", [[0.0, 1.0], [2.0]], "the row with key 'b', row 1, .* has 1 features, others have 2"),
        ("features", [[0.0, 1.0], [2.0, np.inf]], "the row with key 'b', row 1, time 1.0 cannot be learned"),
    ],
)
def test_bad_rows_are_named(column, values, message):
    rows = pa.table({"key": ["a", "b"], "row": [0, 1], "time": [0.0, 1.0], "features": [[0.0, 1.0], [1.0, 1.0]]})
    rows = rows.set_column(rows.column_names.index(column), column, [values])
    with pytest.raises(ValueError, match=message):
        make().learn(None, rows, 0)


def test_missing_cells_are_learned_however_rows_are_cut():
    rows = stream()
    features = [
        [None if (i + j) % 5 == 0 else x for j, x in enumerate(row)]
        for i, row in enumerate(rows["features"].to_pylist())
    ]
    holed = rows.set_column(rows.column_names.index("features"), "features", [features])
    whole, _ = run(make(), [holed])
    cut, _ = run(make(), [holed.slice(0, 150), holed.slice(150)])
    assert cut["table"].to_pylist() == whole["table"].to_pylist()
    assert cut["novelty"].to_pylist() == whole["novelty"].to_pylist()


def test_tables_as_bytes():
    rows = stream()
    assert from_bytes([to_bytes(rows.slice(0, 100)), to_bytes(rows.slice(100))]) == rows


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: kept[: len(kept) // 2],
        lambda kept: kept[:40] + bytes(40) + kept[80:],
        lambda kept: to_bytes(from_bytes([kept]).replace_schema_metadata(None)),
        lambda kept: to_bytes(from_bytes([kept]).drop_columns("seen")),
    ],
    ids=["cut", "zeros", "no version", "no column"],
)
def test_a_state_that_is_damaged_is_refused_in_words(damage):
    rows = stream()
    kept, _ = make().learn(None, rows, 0)
    with pytest.raises(ValueError, match="the checkpoint has a state that is damaged: "):
        make().learn(damage(kept), rows, 0)


def test_what_the_benchmark_takes_from_the_examples_is_there():
    pytest.importorskip("pyspark")
    from benchmarks import spark

    assert spark.ROWS

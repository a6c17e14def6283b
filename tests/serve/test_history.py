"""The history of a stream: what is kept adds up, is bounded, and is as fine as it is new."""

from itertools import pairwise

import numpy as np
import pytest

from dyncrp.serve.history import MOST_TABLES, N_BUCKETS, SPANS, History
from dyncrp.serve.segments import Segment
from serving import KNOWN, post, serving


def segment(times, tables=None, novelty=None, p=None, clock="dates"):
    times = np.asarray(times, dtype=float)
    n = len(times)
    of = lambda given, other: np.full(n, other) if given is None else np.asarray(given)  # noqa: E731
    return Segment(0, times, of(tables, 0).astype(np.int64), of(novelty, 1.0), of(p, 0.5), clock)


def test_every_row_is_in_the_history_of_everything_however_it_was_cut():
    rng = np.random.default_rng(0)
    times = 1.7e9 + np.cumsum(rng.exponential(30.0, 20_000))
    tables, p = rng.integers(0, 5, 20_000), rng.uniform(size=20_000)
    told = []
    for cuts in ([0, 20_000], [0, 3, 4, 9_000, 15_500, 20_000]):
        history = History(0.01, "dates")
        for begin, end in pairwise(cuts):
            history.add(segment(times[begin:end], tables[begin:end], p=p[begin:end]))
        told.append(history.tell())
        assert sum(told[-1]["rows"]) == 20_000
        assert sum(told[-1]["alarms"]) == np.count_nonzero(p <= 0.01)
        for table in range(5):
            assert sum(n for _, n in told[-1]["tables"][table]) == np.count_nonzero(tables == table)
    assert {"width", "rows", "tables"} <= told[0].keys()
    assert told[0] == told[1]


@pytest.mark.parametrize("span", SPANS)
def test_a_span_is_what_it_says(span):
    times = 1.7e9 + np.arange(0.0, 30 * 86_400.0, 60.0)
    history = History(None, "dates")
    history.add(segment(times))
    told = history.tell(begin=history.now() - span)
    wanted = np.count_nonzero(times >= times[-1] - span)
    assert 0 <= sum(told["rows"]) - wanted <= told["width"] / 60.0
    assert N_BUCKETS / 12 <= len(told["begins"]) <= N_BUCKETS + 1
    assert told["width"] == span / N_BUCKETS


def test_an_old_stretch_is_told_as_fine_as_it_is_kept():
    history = History(None, "dates")
    history.add(segment(1.7e9 + np.arange(0.0, 86_400.0, 10.0)))
    now = history.now()
    assert history.tell(now - 600.0, now)["width"] == 5.0
    assert history.tell(now - 3_000.0, now - 2_000.0)["width"] == 20.0
    assert history.tell(now - 50_000.0, now - 49_000.0)["width"] == 480.0


def test_memory_is_bounded():
    rng = np.random.default_rng(0)
    history = History(0.01, "dates")
    for day in range(300):
        times = 1.7e9 + 86_400.0 * day + np.sort(rng.uniform(0, 86_400.0, 500))
        history.add(segment(times, rng.integers(0, 1000, 500)))
    history.tell()
    assert sum(len(level.buckets) for level in history.levels) <= 6 * (N_BUCKETS + 1)
    widest = max(len(bucket.tables) for level in history.levels for _, bucket in level.buckets)
    assert widest <= MOST_TABLES + 1  # the others are counted together
    assert sum(history.tell()["rows"]) == 300 * 500


def test_rows_without_dates_are_told_by_when_they_came():
    now = [1.7e9]
    history = History(None, "index", clock=lambda: now[0])
    history.add(segment([0.0, 1.0], clock="index"))
    now[0] += 100.0
    history.add(segment([2.0], [1], clock="index"))
    now[0] += 50.0
    told = history.tell(begin=history.now() - 900.0)
    assert not told["dated"]
    assert told["rows"] == [2, 1]
    assert told["now"] == now[0]
    assert told["begins"][1] - told["begins"][0] == 100.0


def test_while_a_clock_that_was_set_back_is_behind_time_goes_on():
    passed, wrong, found = [0.0], [0.0], []
    clocks = {"clock": lambda: 1.7e9 + passed[0] + wrong[0], "steady": lambda: passed[0]}
    history = History(None, "index", **clocks)
    for wrong[0] in (0.0, 0.0, -7200.0, -7200.0, -7200.0, 0.0, 0.0):
        passed[0] += 100.0
        history.add(segment([0.0], clock="index"))
        found.append(history.latest - 1.7e9)
    assert found == [100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0]
    assert history.tell(begin=1.7e9)["rows"] == [1] * 7


def test_novelty_that_is_no_number_is_left_out():
    history = History(None, "dates")
    history.add(segment([0.0, 0.1], novelty=[np.nan, np.inf]))
    assert history.tell()["novelty"] == [None]


def test_the_service_tells_it_with_the_ids_of_now(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        assert client.get("/streams/s/history").json()["rows"] == []
        times = [f"2026-03-02T07:{m:02d}:00Z" for m in range(30)]
        post(client, [[0.0]] * 10 + [[30.0]] * 10 + [[60.0]] * 10, times=times)
        told = client.get("/streams/s/history", params={"span": 900}).json()
        assert sum(told["rows"]) == 16
        assert set(told["tables"]) == {"1", "2"}
        client.post("/streams/s/merge", json={"tables": [0, 2]})
        told = client.get("/streams/s/history").json()
        assert {table: sum(n for _, n in pairs) for table, pairs in told["tables"].items()} == {"0": 20, "1": 10}
        assert client.get("/streams/s/history", params={"span": "long"}).status_code == 400
    with serving(tmp_path) as (client, _):  # a restart keeps what the timeline keeps
        assert sum(client.get("/streams/s/history").json()["rows"]) == 30


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"span": -1}, "span must be above 0 seconds, got -1"),
        ({"span": 0}, "span must be above 0"),
        ({"begin": 1772319607, "end": 1772319606}, "begin must not be after end, got 1772319607 and 1772319606"),
        ({"since": 5}, "unknown parameter 'since'; the parameters are begin, end, span"),
    ],
)
def test_a_stretch_that_makes_no_sense_is_refused(tmp_path, asked, error):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        answer = client.get("/streams/s/history", params=asked)
    assert answer.status_code == 400
    assert error in answer.json()["error"]

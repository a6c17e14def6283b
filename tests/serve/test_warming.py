"""The warm-up of a served stream ends by rows, by time or by request, and a restart repeats it to the bit."""

import itertools
import json
import time

import numpy as np
import pytest

from cases import PATIENCE
from dyncrp import DynamicalMixture
from dyncrp.serve import worker
from dyncrp.serve.bodies import Batch
from dyncrp.serve.journal import JournalError
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.registry import Notice, Registry
from dyncrp.serve.streams import ServedStream
from dyncrp.serve.watching import Watch
from serving import KNOWN, post, serving

NEVER = {"warmup_seconds": None}


def blobs(n, seed=1):
    rng = np.random.default_rng(seed)
    return np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])[rng.integers(3, size=n)] + rng.normal(size=(n, 2))


def learn(registry, X, name="s"):
    return json.loads(registry.do(name, lambda stream: stream.learn(Batch(len(X), numbers=X))))


def wait(client, name="s"):
    """Return what a stream tells once its warm-up is over."""
    end = time.monotonic() + PATIENCE
    while not (told := client.get(f"/streams/{name}").json())["learned"]:
        assert time.monotonic() < end
        time.sleep(0.01)
    return told


def labels(X, warmup):
    """Return the labels of a stream that is told how many rows to learn from."""
    return DynamicalMixture(warmup=warmup).partial_fit(X[:warmup]).partial_fit(X[warmup:]).labels_.tolist()


def test_a_search_goes_on_without_requests(tmp_path):
    X = blobs(200)
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json={"warmup": 150})
        for at in range(0, 150, 50):
            answer = post(client, X[at : at + 50].tolist())
            assert answer["learned"] is False
        assert answer["warmup"] == {"rows": 150, "needed": 150, "least_rows": 100, "seconds_left": 0, "searching": True}
        assert wait(client)["warmup"] is None
        line = client.get("/streams/s/timeline").json()
        model = DynamicalMixture(warmup=150, alarm_rate=0.001).fit(X[:150])
        assert (line["first_row"], line["tables"]) == (0, model.labels_.tolist())  # of all requests
        assert line["novelty_p"] == model.novelty_p_.tolist()
        opened = [event["row"] for event in client.get("/streams/s/events").json()["events"]]
        assert len(opened) == 3
        answer = post(client, X[150:].tolist())
        assert (answer["labels"], answer["warmup"]) == (labels(X, 150), None)


@pytest.mark.parametrize("settings", [{}, NEVER])
@pytest.mark.parametrize("dated", [False, True])
def test_the_history_has_all_rows_of_a_warm_up(tmp_path, settings, dated):
    X = blobs(60)
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=settings)
        for at in range(0, 60, 10):
            times = {"times": [f"2026-03-02T07:{m:02d}:00Z" for m in range(at, at + 10)]} if dated else {}
            post(client, X[at : at + 10].tolist(), **times)
        assert client.get("/streams/s/history").json()["rows"] == []  # tables are provisional
        client.post("/streams/s/end-warmup")
        post(client, X[:5].tolist(), **({"times": ["2026-03-02T08:00:00Z"] * 5} if dated else {}))
        told = client.get("/streams/s/history").json()
    counts = sorted(sum(n for _, n in pairs) for pairs in told["tables"].values())
    model = DynamicalMixture(warmup=60).fit(np.vstack([X, X[:5]]))
    assert sum(told["rows"]) == 65
    assert counts == sorted(np.unique(model.labels_, return_counts=True)[1].tolist())


def test_rows_of_a_warm_up_without_dates_are_where_they_came(monkeypatch):
    now = [1.7e9]
    monkeypatch.setattr(time, "time", lambda: now[0])
    watch, stream = Watch([]), ServedStream("s", {}, {"warmup_seconds": 3600.0})
    for part in np.split(blobs(90), 3):
        _, outcome = stream.learn(Batch(30, numbers=part))
        watch.publish(Notice("s", outcome), 0.001)
        now[0] += 100.0
    stream.end_warmup()
    while stream.is_searching:
        found = stream.search()
    watch.publish(Notice("s", found[1]), 0.001)
    told = watch.history("s", 0.0, 2e9, None)
    assert (told["begins"], told["rows"]) == ([1.7e9, 1.7e9 + 100.0, 1.7e9 + 200.0], [30, 30, 30])


def test_time_ends_a_warm_up(tmp_path):
    X = blobs(160)
    with serving(tmp_path, Limits(warmup_seconds=0.0)) as (client, service):
        client.put("/streams/s", json={})
        answer = post(client, X[:60].tolist())
        assert answer["warmup"] == {
            "rows": 60,
            "needed": 1000,
            "least_rows": 100,
            "seconds_left": 0,
            "searching": False,
        }
        assert not service.registry.streams["s"].is_late  # with so few rows
        post(client, X[60:120].tolist())
        assert wait(client)["model"] is not None
        assert post(client, X[120:].tolist())["labels"] == labels(X, 120)


def test_when_time_ends_it(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = ServedStream("s", {"warmup": 150, "warmup_seconds": 30}, {})
    assert stream.summary()["warmup"] is None  # there are no rows yet
    now[0] = 200.0
    stream.learn(Batch(110, numbers=blobs(110)))
    assert stream.warmup()["seconds_left"] == 30
    now[0] = 229.5
    assert (stream.warmup()["seconds_left"], stream.is_late) == (1, False)
    now[0] = 230.0
    assert (stream.warmup()["seconds_left"], stream.is_late) == (0, True)
    stream.end_warmup()
    assert (stream.is_late, stream.is_searching, stream.learned) == (False, True, False)
    assert (stream.warmup()["needed"], stream.warmup()["searching"]) == (110, True)


def test_texts_need_more_rows():
    stream = ServedStream("s", {"text": "message", "warmup_seconds": 0}, {})
    stream.learn(Batch(2, ("message",), columns=(["a b", "c d"],)))
    assert stream.warmup()["least_rows"] == 1000  # of 10,000


def test_without_seconds_only_requests_carry_it_on():
    stream = ServedStream("s", {"warmup": 120} | NEVER, {"warmup_seconds": 0.0})
    for part in np.split(blobs(120), 3):
        stream.learn(Batch(40, numbers=part))
    assert stream.warmup()["seconds_left"] is None
    assert not stream.is_searching
    assert not stream.is_late


@pytest.mark.parametrize("settings", [{}, NEVER, {"warmup": 1000}])
def test_a_warm_up_is_ended_by_request(tmp_path, settings):
    X = blobs(90)
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=settings)
        for n in range(2):
            refused = client.post("/streams/s/end-warmup")
            assert refused.status_code == 409
            assert f"at least 2 rows to learn from, got {n}" in refused.json()["error"]
            post(client, X[n : n + 1].tolist())
        post(client, X[2:60].tolist())
        answers = [client.post("/streams/s/end-warmup?sequence=1") for _ in range(2)]
        answers.append(client.post("/streams/s/end-warmup"))  # it is over, which is what was asked for
        for answer in answers:
            told = answer.json()
            assert (answer.status_code, told["learned"], told["warmup"], told["rows"]) == (200, True, None, 60)
        assert client.get("/streams/s/timeline").json()["rows"] == list(range(60))
        assert post(client, X[60:].tolist())["labels"] == labels(X, 60)


def test_there_is_nothing_to_end_where_all_is_known(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        assert post(client, [[0.0], [9.0]])["warmup"] is None
        assert client.post("/streams/s/end-warmup").json()["learned"] is True
        assert client.post("/streams/none/end-warmup").status_code == 404


@pytest.mark.parametrize("seconds", [-1, "soon", True, [30]])
def test_seconds_that_are_none(seconds):
    with pytest.raises(RequestError, match="warmup_seconds must be a number of seconds, or null"):
        ServedStream("s", {"warmup_seconds": seconds}, {})


def state(registry, name="s"):
    """Return everything of a stream that a restart must restore."""
    stream = registry.streams[name]
    seated = [stream.stream.engine.ids.tolist(), stream.stream.occupancies.tolist(), stream.stream.batch.trace.labels]
    events = registry.events(name, 0, 999)
    return str([seated, events, stream.last_event, stream.latest(999), stream.n_rows, stream.learned, stream.form])


@pytest.mark.parametrize("how", ["by rows", "by time", "by request"])
def test_a_kill_at_any_moment_of_a_warm_up_changes_nothing(tmp_path, how):
    """The journal has what was done since the last commit, but no checkpoint, so that all is repeated."""
    X, kills = blobs(260), itertools.count()
    registry = Registry(tmp_path, Limits())
    registry.put("s", {"warmup": 160 if how == "by rows" else 200, "warmup_seconds": 3600.0})

    def kill(registry):
        registry.journal.commit()
        before = state(registry)
        registry.journal.close()
        found = Registry(tmp_path, Limits())
        assert state(found) == before
        next(kills)
        return found

    learn(registry, X[:40])
    for at in range(40, 180, 20):
        learn(registry, X[at : at + 20])
        n_known = registry.streams["s"].stream.warmup.n_learned_from
        for _ in range(5):  # pieces that the journal does not have
            registry.carry_on()
        if registry.streams["s"].stream.warmup.n_learned_from != n_known:
            registry = kill(registry)
        if at == 140 and how == "by request":
            registry.do("s", ServedStream.end_warmup)
        if at == 140 and how == "by time":
            registry.streams["s"].warming.began -= 3600.0
            registry.carry_on()
        if at == 140:
            registry = kill(registry)
    assert registry.streams["s"].warmup()["searching"] is True
    registry.carry_on()
    registry = kill(registry)
    while registry.carry_on():
        pass
    registry = kill(registry)
    assert registry.streams["s"].learned
    assert learn(registry, X[180:])["labels"] == DynamicalMixture(warmup=160).partial_fit(X).labels_[180:].tolist()
    registry = kill(registry)
    assert next(kills) >= 4
    registry.close()


def test_all_streams_get_their_turn(tmp_path):
    registry = Registry(tmp_path, Limits())
    for name in "abc":
        registry.put(name, {"warmup": 60})
        for part in np.split(blobs(60), 3):
            learn(registry, part, name)
    registry.delete("b")
    turns = 0
    while registry.carry_on():
        turns += 1
        assert turns < 10_000
    assert [stream.learned for stream in registry.streams.values()] == [True, True]
    assert registry.carry_on() is False
    registry.close()


def test_hyperparameters_that_cannot_be_learned_are_told(tmp_path, monkeypatch, capfd):
    def fail(*_):
        raise ValueError("no such luck")

    registry = Registry(tmp_path, Limits())
    registry.put("s", {"warmup": 60})
    for part in np.split(blobs(60), 3):
        learn(registry, part)
    with monkeypatch.context() as patch:
        patch.setattr("dyncrp.search.search.Search.advance", fail)
        registry.carry_on()
    assert registry.carry_on() is False  # it is not tried for ever
    assert "no such luck" in learn(registry, blobs(5))["warmup"]["error"]
    assert "no such luck" in capfd.readouterr().err
    registry.close()


def test_an_end_that_the_disk_does_not_take_comes_later(tmp_path, monkeypatch):
    X = blobs(120)
    with serving(tmp_path) as (client, service):
        client.put("/streams/s", json={"warmup": 120, "warmup_seconds": 3600})
        journal, failures = service.registry.journal, []
        add = journal.add_operation

        def full(stream, operation):
            if operation.kind == "searched" and len(failures) < 2:
                failures.append(operation)
                raise JournalError("no room")
            add(stream, operation)

        monkeypatch.setattr(journal, "add_operation", full)
        monkeypatch.setattr(worker, "SECONDS_PER_SYNC", 0.01)
        for part in np.split(X, 3):
            post(client, part.tolist())
        assert wait(client)["rows"] == 120
        assert len(failures) == 2

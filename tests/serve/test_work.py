"""A request that is much work is carried out aside: others do not wait for it, and what is learned is the same."""

import re
import threading
from dataclasses import replace

import numpy as np
import pytest

from cases import PATIENCE
from dyncrp import DynamicalMixture
from dyncrp.serve import compare, registry, work
from dyncrp.serve.bodies import Batch
from dyncrp.serve.limits import LONGEST_TEXT, Limits
from dyncrp.serve.settings import default_settings, make_stream
from dyncrp.serve.streams import ServedStream
from dyncrp.serve.work import is_heavy
from serving import KNOWN, post, serving

TEXTS = {"text": "message", "dynamics": "stationary()", "alpha": 1.0, "set": {"concentration": 50.0}}
WIDE = KNOWN | {"set": {"variance": 1.0, "prior_variance": 1e8}}
FULL = KNOWN | {"family": "normal_wishart", "set": {"degrees": 500, "variance": 1.0, "prior_variance": 100.0}}
X = np.repeat(20.0 * np.arange(5), 10)[:, None] + np.random.default_rng(0).normal(size=(50, 1))


def stream_of(settings, n_tables=0, width=1):
    stream = ServedStream("s", settings, default_settings(Limits(), settings))
    if n_tables:
        stream.learn(Batch(n_tables, numbers=1000.0 * np.arange(n_tables)[:, None] * np.ones(width)))
    return stream


def batch_of(n, width):
    return Batch(n, numbers=np.zeros((n, width)))


@pytest.mark.parametrize(
    ("settings", "n_tables", "batch", "n_bytes", "heavy"),
    [
        (KNOWN, 0, batch_of(1_000, 4), 40_000, False),
        (KNOWN, 10, batch_of(100, 1), 1_000, False),
        (KNOWN | {"max_tables": 20}, 20, batch_of(100_000, 1), 10**5, False),
        (KNOWN, 0, batch_of(20_000, 50), 10**6, True),  # each row may open a table
        (WIDE | {"max_tables": 900}, 900, batch_of(60_000, 10), 10**6, True),
        (KNOWN | {"max_tables": 20}, 20, Batch(60_000, columns=([None] * 60_000, [0.5] * 60_000)), 10**6, True),
        (FULL, 0, batch_of(5, 400), 10**4, True),  # each row factorises a matrix
        (TEXTS, 0, Batch(10, ("message",), columns=(["a storm"] * 10,)), 100, False),
        (TEXTS, 0, Batch(10, ("message",), columns=(["a storm"] * 10,)), 10**6, True),
    ],
)
def test_what_is_much_work(settings, n_tables, batch, n_bytes, heavy):
    assert is_heavy(stream_of(settings, n_tables, batch.width), batch, n_bytes) == heavy


def test_iterations_and_joining_clusters_are_work():
    known = WIDE | {"keep_clusters": False, "max_tables": 100}
    batch = batch_of(2_000, 10)
    assert not is_heavy(stream_of(known, 100, 10), batch)
    steps = WIDE["set"] | {"assignment": "variational", "n_iter": 1000}
    assert is_heavy(stream_of(known | {"set": steps}, 100, 10), batch)
    many = stream_of(WIDE, 700, 3)
    assert not is_heavy(many, batch_of(1, 3))
    assert is_heavy(many, batch_of(700, 3))  # clusters are looked at after an eighth more rows
    assert is_heavy(many)  # as an edit does


def test_labels_marks_and_long_bodies_are_work():
    marks = ["m"] * 5_000
    assert not is_heavy(stream_of(WIDE), batch_of(5_000, 1), 10**5)
    assert is_heavy(stream_of(WIDE), replace(batch_of(5_000, 1), cannot_link=marks), 10**5)
    assert is_heavy(stream_of(WIDE), replace(batch_of(5_000, 1), labels=marks), 10**5)
    assert is_heavy(stream_of(WIDE), batch_of(3, 1), 10**7)


def test_a_large_model_is_work_for_those_who_go_through_it():
    stream = stream_of(KNOWN, 10)
    assert not is_heavy(stream)
    stream.checkpoint_bytes = 5_000_000
    assert is_heavy(stream)
    assert not is_heavy(stream, batch_of(10, 1))
    stream.n_since_checkpoint = work.ROWS_PER_CHECKPOINT - 10
    assert is_heavy(stream, batch_of(10, 1))  # a checkpoint is due


@pytest.fixture
def all_heavy(monkeypatch):
    monkeypatch.setattr(work, "HEAVY", -1)


def test_others_do_not_wait(tmp_path, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def held(method):
        def wait(stream, *args):
            if stream.name != "s":
                (begun if stream.name == "big" else threading.Event()).set()
                assert go_on.wait(PATIENCE)
            return method(stream, *args)

        return wait

    monkeypatch.setattr(ServedStream, "learn", held(ServedStream.learn))
    monkeypatch.setattr(work, "HEAVY", 10**4)
    answers = []
    with serving(tmp_path) as (client, _):
        for name in ("s", "big"):
            client.put(f"/streams/{name}", json=KNOWN)
        client.put("/streams/new", json={"warmup": 40})

        def send(name):
            answers.append(post(client, 30 * X.tolist(), name))

        threads = [threading.Thread(target=send, args=(name,)) for name in ("new", "big")]
        for thread in threads:
            thread.start()
        assert begun.wait(PATIENCE)  # though another stream is in its warm-up
        assert post(client, [[0.0]])["labels"] == [0]
        assert {stream["rows"] for stream in client.get("/streams").json()["streams"]} == {0, 1}
        go_on.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert [len(answer["labels"]) for answer in answers] == [1500, 1500]


def test_what_is_learned_aside_is_the_same(tmp_path, all_heavy):
    model = DynamicalMixture.from_stream(make_stream(KNOWN, default_settings(Limits(), KNOWN))).partial_fit(X)
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        bodies = [{"rows": X[begin : begin + 10].tolist()} for begin in range(0, 50, 10)]
        answers = [client.post(f"/streams/s/rows?sequence={at}", json=body) for at, body in enumerate(bodies)]
        labels = [label for answer in answers for label in answer.json()["labels"]]
        assert labels == model.labels_.tolist()
        assert client.post("/streams/s/rows?sequence=4", json=bodies[4]).content == answers[4].content
        assert client.post("/streams/s/rows", json={"rows": [["x"]]}).status_code == 400
        assert client.get("/streams/s/model").content == model.to_bytes()
        tables = client.get("/streams/s/tables").json()
        assert client.post("/streams/s/merge", json={"tables": [0, 1]}).status_code == 200
        assert client.post("/streams/s/undo", json={}).status_code == 200
        assert client.get("/streams/s/tables").json() == tables
        assert re.search(r"dyncrp_aside_seconds_total 0\.0*[1-9]", client.get("/metrics").text)
        assert client.delete("/streams/s").status_code == 204
        assert client.get("/streams/s/model").status_code == 404


def test_a_checkpoint_is_made_aside(tmp_path, monkeypatch, all_heavy):
    threads = []
    checkpoint = ServedStream.checkpoint

    def note(stream):
        threads.append(threading.current_thread().name)
        return checkpoint(stream)

    monkeypatch.setattr(ServedStream, "checkpoint", note)
    with serving(tmp_path) as (client, service):
        client.put("/streams/s", json=KNOWN)
        post(client, 200 * X.tolist())
        assert threads == ["dyncrp-heavy"]  # the first, which is due at once
        post(client, 201 * X.tolist())
        assert threads == ["dyncrp-heavy"] * 2
        before = client.get("/streams/s/model").content
        post(client, X.tolist())
        monkeypatch.setattr(service.registry, "close", service.registry.journal.close)  # as a kill
    with serving(tmp_path) as (client, _):
        assert client.get("/streams/s").json()["rows"] == 20_100
        assert client.get("/streams/s/model").content != before
        model = DynamicalMixture.from_stream(make_stream(KNOWN, default_settings(Limits(), KNOWN)))
        for part in (200 * X.tolist(), 201 * X.tolist(), X.tolist()):
            model.partial_fit(part)
        assert client.get("/streams/s/model").content == model.to_bytes()


def test_a_checkpoint_that_fails_changes_nothing(tmp_path, monkeypatch, all_heavy, capfd):
    checkpoint = ServedStream.checkpoint

    def fail(stream):
        if stream.n_rows == 20:
            raise RuntimeError("no such luck")
        return checkpoint(stream)

    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        monkeypatch.setattr(ServedStream, "checkpoint", fail)
        assert client.post("/streams/s/rows", json={"rows": X[:20].tolist()}).status_code == 503
        assert "no such luck" in capfd.readouterr().err
        assert client.get("/streams/s").json()["rows"] == 0
        assert post(client, X[:10].tolist())["first_row"] == 0


def test_a_mistake_in_the_worker_leaves_the_stream_as_it_was(tmp_path, monkeypatch, all_heavy, capfd):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        post(client, X[:10].tolist())
        with monkeypatch.context() as patched:
            patched.setattr(registry, "dump", lambda _: 1 / 0)  # after the model has learned
            assert client.post("/streams/s/rows", json={"rows": X[10:20].tolist()}).status_code == 500
        assert "ZeroDivisionError" in capfd.readouterr().err
        assert post(client, X[10:20].tolist())["first_row"] == 10


def test_two_tables_are_compared_without_the_others(monkeypatch):
    seen, profile = [], compare.profile
    monkeypatch.setattr(
        compare, "profile", lambda stream, clusters: seen.append(len(clusters)) or profile(stream, clusters)
    )
    stream = stream_of(WIDE, 40)
    assert stream.compare([3, 7])["tables"] == [3, 7]
    assert seen == [3]


def test_long_texts_are_refused(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=TEXTS)
        client.put("/streams/mixed", json={})
        assert post(client, [{"message": "ab " * (LONGEST_TEXT // 3)}])["labels"] == [0]
        for name, row in (("s", {"message": "x" * (LONGEST_TEXT + 1)}), ("mixed", {"a": "x" * (LONGEST_TEXT + 1)})):
            answer = client.post(f"/streams/{name}/rows", json={"rows": [row]})
            assert answer.status_code == 413
            assert f"texts of {LONGEST_TEXT:,} characters, got one of {LONGEST_TEXT + 1:,}" in answer.json()["error"]
            assert answer.json()["row"] == 0


def test_settings_with_too_many_numbers_are_refused(tmp_path):
    directions = np.eye(400).tolist()
    settings = {"family": "gaussian", "set": {"variance": 1.0, "prior_variance": 1.0, "directions": directions}}
    with serving(tmp_path) as (client, _):
        answer = client.put("/streams/s", json=settings)
    assert answer.status_code == 413
    assert answer.json()["error"] == "directions may have 100,000 numbers on this server, got 160,000"


def test_texts_keep_no_clusters_unless_they_are_told_to():
    assert not stream_of(TEXTS).stream.spec.keep_clusters
    assert stream_of(TEXTS | {"keep_clusters": True}).stream.spec.keep_clusters
    assert stream_of(KNOWN).stream.spec.keep_clusters

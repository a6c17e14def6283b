"""The HTTP interface, over a real connection."""

import asyncio
import io
import json
import socket
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from cases import PATIENCE
from dyncrp import DynamicalMixture
from dyncrp.serve import app as app_module
from dyncrp.serve import feeds, lists, receiving, registry, sending
from dyncrp.serve import journal as journal_module
from dyncrp.serve.journal import Journal, JournalError
from dyncrp.serve.limits import Limits
from dyncrp.serve.openapi import openapi
from dyncrp.serve.settings import default_settings, make_stream
from serving import KNOWN, post, serving

ROWS = [[0.0, 0.1], [9.0, 9.2], [0.2, 0.0], [9.1, 9.0]]
TOKEN = "a-token-of-enough-length"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("shared")) as (client, service):
        yield client, service


@pytest.fixture
def client(shared):
    """A client of a server whose stream "s" is new."""
    client, _ = shared
    client.delete("/streams/s")
    assert client.put("/streams/s", json=KNOWN).status_code == 201
    return client


def model_bytes(client, name="s"):
    answer = client.get(f"/streams/{name}/model")
    assert answer.status_code == 200, answer.text
    return answer.content


def test_rows_are_learned_as_the_model_learns_them(client):
    answer = post(client, ROWS)
    model = DynamicalMixture.from_stream(make_stream(KNOWN, default_settings(Limits(), KNOWN))).partial_fit(
        np.array(ROWS)
    )
    assert answer["labels"] == model.labels_.tolist()
    assert answer["first_row"] == 0
    assert answer["learned"] is True
    assert answer["novelty"] == model.novelty_.tolist()
    assert answer["novelty_p"] == model.novelty_p_.tolist()
    assert answer["probabilities"] == model.responsibilities_.max(axis=1).toarray().ravel().tolist()
    assert [(event["kind"], event["row"], event["table"]) for event in answer["events"]] == [
        ("opened", 0, 0),
        ("opened", 1, 1),
    ]
    assert [event["id"] for event in answer["events"]] == [1, 2]
    assert model_bytes(client) == model.to_bytes()
    assert DynamicalMixture.from_bytes(model_bytes(client)).n_tables_ == 2
    assert post(client, ROWS[:1])["first_row"] == 4


def test_rows_have_weights(client):
    far = [[70.0, 70.0]]
    answer = post(client, ROWS + far, sample_weight=[2, 0.5, 1, 0, 0])
    model = DynamicalMixture.from_stream(make_stream(KNOWN, default_settings(Limits(), KNOWN)))
    model.partial_fit(np.array(ROWS + far), sample_weight=[2, 0.5, 1, 0, 0])
    assert answer["labels"] == model.labels_.tolist() == [0, 1, 0, 1, -1]
    assert model_bytes(client) == model.to_bytes()
    body = b"x0,x1,n\n0.1,0.2,3\n9.0,9.1,0\n"
    client.delete("/streams/s")
    client.put("/streams/s", json=KNOWN)
    done = client.post("/streams/s/rows?weight_column=n", content=body, headers={"content-type": "text/csv"})
    assert done.json()["labels"] == [0, -1]
    for bad in ([1, -1], [1, None], [1, "2"], [1, 1e300], [1, True]):
        answer = client.post("/streams/s/rows", json={"rows": [{"x0": 1, "x1": 2}] * 2, "sample_weight": bad})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"].startswith("sample_weight must hold numbers from 0 to 1e+09, got ")
    answer = client.post("/streams/s/rows", json={"rows": [{"x0": 1, "x1": 2}], "sample_weight": [1, 2]})
    assert "sample_weight must be a list with one entry for each of the 1 rows" in answer.json()["error"]


@pytest.mark.parametrize("most", [1, 1000])
def test_clusters_count_rows_whatever_their_weights(client, monkeypatch, most):
    monkeypatch.setattr(lists, "TABLES_DESCRIBED", most)
    post(client, [*ROWS, [40.0, 40.0]], sample_weight=[7, 0.5, 200, 0, 1])
    clusters = client.get("/streams/s/clusters").json()["clusters"]
    told = [(one["cluster"], one["rows"], one["share"]) for one in clusters]
    assert told == [(0, 2, 0.5), (1, 1, 0.25), (2, 1, 0.25)]
    assert ["typical" in one for one in clusters] == [most == 1000] * 3


def test_a_stream_tells_what_it_is(client):
    post(client, [{"x": 0.0, "y": 1.0}, {"y": 9.0, "x": 8.0}], times=["2024-01-01", "2024-01-02"])
    told = client.get("/streams/s").json()
    assert (told["rows"], told["tables"], told["opened"], told["learned"]) == (2, 2, 2, True)
    assert (told["clock"], told["features"]) == ("dates", ["x", "y"])
    assert told["latest_time"] == "2024-01-02T00:00:00.000Z"
    assert told["model"].startswith("Gaussian(variance=1.0")
    assert told["alarm_rate"] == 0.001
    listed = client.get("/streams").json()["streams"]
    assert listed == [{key: told[key] for key in ("name", "rows", "tables", "learned", "warmup", "clock", "features")}]


def test_putting_a_stream_twice(client):
    assert client.put("/streams/s", json=KNOWN).status_code == 200
    refused = client.put("/streams/s", json=KNOWN | {"alpha": 2.0})
    assert refused.status_code == 409
    assert "with other settings" in refused.json()["error"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "gauss"}, "unknown family"),
        ({"family": 3}, "family must be a text"),
        ({"dynamics": "weekly()"}, "these settings make no model"),
        ({"dynamics": 3}, "dynamics must be a text"),
        ({"alpha": -1}, "alpha"),
        ({"alpha": [1]}, "alpha"),
        ({"memory": "long"}, "memory must be a number"),
        ({"memory": 1}, "memory"),
        ({"set": {"varience": 1}}, "unknown setting 'varience'"),
        ({"set": [1]}, "set must be an object"),
        ({"set": {"n_jobs": 4}}, "n_jobs cannot be set on a server"),
        ({"set": {"warmup": 5}, "warmup": 6}, "warmup is set twice"),
        ({"set": {"variance": {"a": 1}}}, "these settings make no model"),
        ({"warmup": 10**9}, "warmup may be"),
        ({"features": ["x", "x"]}, "features must be a list of texts of up to 200 characters"),
        ({"features": "x"}, "features must be a list"),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"alarm_rate": 2}, "alarm_rate"),
        ({"surge_rate": 2}, "surge_rate"),
    ],
)
def test_settings_that_make_no_model(client, settings, message):
    answer = client.put("/streams/bad", json=settings)
    assert answer.status_code in (400, 413)
    assert message in answer.json()["error"]
    assert client.get("/streams/bad").status_code == 404


@pytest.mark.parametrize("name", [".hidden", "a b", "ü", "x" * 101, "a%2Fb", "-"])
def test_names_are_checked(client, name):
    assert client.put(f"/streams/{name}", json={}).status_code in (400, 404)
    assert [stream["name"] for stream in client.get("/streams").json()["streams"]] == ["s"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"rows": [[0.0, 0.0], [1.0, "x"]], "times": [4.0, 5.0]}, {"row": 1, "column": "y"}),
        ({"rows": [[0.0, 0.0], [1.0, 1e999]], "times": [4.0, 5.0]}, {"row": 1, "column": "y"}),
        ({"rows": [{"x": 1.0, "z": 2.0}], "times": [5.0]}, {"column": "z"}),
        ({"rows": [[0.0, 0.0, 0.0]], "times": [5.0]}, {"row": 0}),
        ({"rows": [[0.0, 0.0], [1.0, 1.0]], "times": [5.0, 4.0]}, {"row": 1, "column": "times"}),
        ({"rows": [[0.0, 0.0]], "times": [1.0]}, {"row": 0, "column": "times"}),
        ({"rows": [[0.0, 0.0]], "times": ["2024-01-01"]}, {}),
        ({"rows": [[0.0, 0.0]]}, {}),
        ({"rows": [[0.0, 0.0]], "times": [5.0], "labels": [77]}, {"row": 0}),
        ({"rows": [[0.0, 0.0]], "times": [5.0], "labels": ["7"]}, {"row": 0}),
    ],
)
def test_bad_rows_change_nothing(client, body, where):
    post(client, [{"x": 0.0, "y": 0.1}, {"x": 9.0, "y": 9.2}], times=[1.0, 3.0])
    before, events = model_bytes(client), client.get("/streams/s/events").json()
    headers = {"content-type": "application/json"}
    answer = client.post("/streams/s/rows", content=json.dumps(body).replace("Infinity", "1e999"), headers=headers)
    assert answer.status_code == 400, answer.text
    told = answer.json()
    assert {key: value for key, value in told.items() if key != "error"} == where
    assert model_bytes(client) == before
    assert client.get("/streams/s/events").json() == events
    assert post(client, [[0.1, 0.1]], times=[3.0])["first_row"] == 2


def test_rows_in_every_format_do_the_same(client):
    table = pa.table({"t": [1.0, 2.0, 3.0], "x": [0.0, 9.0, 0.1], "who": ["left", None, None]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    lines = "\n".join(json.dumps(row) for row in table.to_pylist())
    bodies = {
        "application/json": json.dumps({"rows": table.to_pylist()}),
        "application/x-ndjson": lines,
        "text/csv; charset=utf-8": "t,x,who\n1,0,left\n2,9,\n3,0.1,\n",
        "application/vnd.apache.arrow.stream": sink.getvalue(),
    }
    models, answers = set(), set()
    for at, (kind, body) in enumerate(bodies.items()):
        client.put(f"/streams/format{at}", json=KNOWN)
        where = f"/streams/format{at}/rows?time_column=t&label_column=who"
        answer = client.post(where, content=body, headers={"content-type": kind})
        assert answer.status_code == 200, answer.text
        answers.add(answer.text)
        models.add(model_bytes(client, f"format{at}"))
        client.delete(f"/streams/format{at}")
    assert len(models) == len(answers) == 1
    assert json.loads(answers.pop())["names"] == ["left", None, "left"]


def test_columns_of_words_and_missing_cells(client):
    rng = np.random.default_rng(0)
    client.put("/streams/mixed", json={"warmup": 60})
    for _ in range(30):
        cluster = rng.integers(2, size=10)
        rows = [
            {"size": None if rng.random() < 0.05 else float(c * 9 + rng.normal()), "kind": ["door", "lamp"][c]}
            for c in cluster
        ]
        answer = post(client, rows, "mixed")
    assert answer["learned"] is True
    assert len({label for label, c in zip(answer["labels"], cluster, strict=True) if c}) == 1
    table = client.get("/streams/mixed/tables").json()["tables"][0]
    assert set(table["describes"]) == {"size", "kind"}
    assert "%" in table["describes"]["kind"]
    refused = client.post("/streams/mixed/rows", json={"rows": [{"size": "big", "kind": "door"}]})
    assert (refused.status_code, refused.json()["row"], refused.json()["column"]) == (400, 0, "size")
    explained = client.post("/streams/mixed/explain", json={"row": {"size": 9.0, "kind": "lamp"}}).json()
    assert set(explained["against_new"]["features"]) == {"size", "kind"}
    assert explained["values"]["kind"] == "lamp"
    client.delete("/streams/mixed")


def test_a_retry_gets_the_same_answer_and_changes_nothing(client):
    where = "/streams/s/rows?sequence=7&client=me"
    first = client.post(where, json={"rows": ROWS})
    before = model_bytes(client)
    again = client.post(where, json={"rows": ROWS})
    assert (again.status_code, again.content) == (200, first.content)
    other = client.post(where, json={"rows": ROWS[:1]})
    assert (other.status_code, "was another request" in other.text) == (409, True)
    earlier = client.post("/streams/s/rows?sequence=6&client=me", json={"rows": ROWS})
    assert (earlier.status_code, "its last one was 7" in earlier.text) == (409, True)
    assert model_bytes(client) == before
    assert client.post("/streams/s/rows?sequence=6&client=you", json={"rows": ROWS}).json()["first_row"] == 4
    assert client.post("/streams/s/rows?sequence=8&client=me", json={"rows": ROWS}).json()["first_row"] == 8


@pytest.mark.parametrize(
    "query", ["sequence=-1", "sequence=x", "sequence=99999999999999999999", "sequence=1&client=a b"]
)
def test_a_sequence_that_is_none(client, query):
    assert client.post(f"/streams/s/rows?{query}", json={"rows": ROWS}).status_code == 400


def test_a_refused_request_does_not_use_its_number(client):
    where = "/streams/s/rows?sequence=1"
    assert client.post(where, json={"rows": [["x", "y", "z"], [1]]}).status_code == 400
    assert client.post(where, json={"rows": ROWS}).status_code == 200


def test_tables_are_merged_and_renamed(client):
    post(client, ROWS)
    renamed = client.post("/streams/s/rename", json={"table": 1, "name": " door "}).json()
    assert (renamed["table"], renamed["name"], renamed["events"][0]["kind"]) == (1, "door", "renamed")
    assert post(client, ROWS[1:2])["names"] == ["door"]
    tables = client.get("/streams/s/tables").json()["tables"]
    assert [(table["id"], table["name"], table["rows"]) for table in tables] == [(0, None, 2), (1, "door", 3)]
    merged = client.post("/streams/s/merge?sequence=1", json={"tables": ["door", 0]})
    assert merged.json()["table"] == 0
    assert merged.json()["events"][0]["what"] == {"merged": 1, "far_apart": True}
    assert client.post("/streams/s/merge?sequence=1", json={"tables": ["door", 0]}).content == merged.content
    assert set(client.get("/streams/s/timeline").json()["tables"]) == {0}
    for path, body, status in (
        ("merge", {"tables": [0, 1]}, 400),
        ("merge", {"tables": [0]}, 400),
        ("merge", {"tables": [0, None]}, 400),
        ("rename", {"table": 99, "name": "x"}, 400),
        ("rename", {"table": 0, "name": 3}, 400),
        ("rename", {"table": 0, "name": "x" * 300}, 400),
        ("rename", {"table": 0, "to": "x"}, 400),
    ):
        assert client.post(f"/streams/s/{path}", json=body).status_code == status


def test_provisional_tables_cannot_be_changed(client):
    client.put("/streams/new", json={})
    post(client, ROWS, "new")
    assert client.post("/streams/new/merge", json={"tables": [0, 1]}).status_code == 409
    assert client.get("/streams/new/model").status_code == 409
    assert client.get("/streams/new/timeline").json()["tables"] == []
    client.delete("/streams/new")


def test_tables_clusters_and_timeline(client):
    assert client.get("/streams/s/tables").json() == {"tables": []}
    assert client.get("/streams/s/clusters").json() == {"clusters": []}
    post(client, [{"x": a, "y": b} for a, b in ROWS * 10])
    first = client.get("/streams/s/tables").json()["tables"][0]
    assert first.pop("describes").keys() == {"x", "y"}
    assert (first["id"], first["rows"], first["share"], first["last_seen"]) == (0, 20, 0.5, 38.0)
    assert first["cluster"] == 0
    clusters = client.get("/streams/s/clusters").json()["clusters"]
    assert [(one["cluster"], one["tables"], one["rows"]) for one in clusters] == [(0, [0], 20), (1, [1], 20)]
    assert {column for column, _, _ in clusters[0]["typical"]} == {"x", "y"}
    (one,) = client.get("/streams/s/clusters?n=1").json()["clusters"]
    assert (one["cluster"], one["tables"], one["rows"]) == (0, [0, 1], 40)
    assert client.get("/streams/s/clusters?n=9").status_code == 400
    assert client.get("/streams/s/clusters?n=x").status_code == 400
    line = client.get("/streams/s/timeline?last=2").json()
    assert (line["first_row"], line["rows"], line["tables"], line["times"]) == (38, [38, 39], [0, 1], [38.0, 39.0])
    assert client.get("/streams/s/tables/1").json()["id"] == 1
    assert client.get("/streams/s/tables/9").status_code in (400, 404)


def test_clusters_follow_the_stream(client):
    post(client, ROWS * 10)
    assert len(client.get("/streams/s/clusters").json()["clusters"]) == 2
    post(client, [[50.0, -50.0]] * 10)
    assert len(client.get("/streams/s/clusters").json()["clusters"]) == 3


def test_examples_of_a_table(client):
    client.put("/streams/kept", json=KNOWN | {"n_examples": 2, "features": ["x", "y"]})
    post(client, ROWS, "kept")
    examples = client.get("/streams/kept/tables/0").json()["examples"]
    assert [row["row"] for row in examples["latest"]] == [2, 0]
    assert examples["latest"][0] == {"row": 2, "time": 2.0, "values": {"x": 0.2, "y": 0.0}}
    assert len(examples["typical"]) == 2
    client.delete("/streams/kept")


def test_a_row_is_explained(client):
    assert client.post("/streams/s/explain", json={"row": [1, 2]}).status_code == 409
    post(client, [{"x": a, "y": b} for a, b in ROWS])
    before = model_bytes(client)
    told = client.post("/streams/s/explain", json={"row": {"x": 8.0, "y": 8.0}}).json()
    assert (told["table"], told["runner_up"]) == (1, 0)
    odds = told["against_runner_up"]
    assert set(odds["features"]) == {"x", "y"}
    assert odds["total"] == pytest.approx(odds["prior"] + sum(odds["features"].values()))
    assert client.post("/streams/s/explain", json={"row": [8.0]}).status_code == 400
    assert client.post("/streams/s/explain", json={}).status_code == 400
    for body in (b'{"row": [1e999, 2.0]}', b'{"row": [1.0, 2.0], "time": -1e999}'):  # which JSON reads as infinite
        assert client.post("/streams/s/explain", content=body).status_code == 400
    assert model_bytes(client) == before


def test_events_are_listed(client):
    post(client, ROWS)
    post(client, [[-50.0, 50.0]])
    events = client.get("/streams/s/events").json()["events"]
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    assert [event["id"] for event in client.get("/streams/s/events?after=1&limit=1").json()["events"]] == [2]
    assert client.get("/streams/s/events?limit=1").json()["events"] == events[-1:]
    assert client.get("/streams/s/events?limit=0").status_code == 400


def lines_of(client, path, done, headers=None):
    """Return what a feed of server-sent events says until something is done."""
    with client.stream(
        "GET", path, headers={"accept": "text/event-stream", **(headers or {})}, timeout=PATIENCE
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = []
        for line in answer.iter_lines():
            found.append(line)
            if done(found):
                return found
    return found


def test_events_as_they_come(client):
    post(client, ROWS)
    sender = threading.Timer(0.3, lambda: client.post("/streams/s/rows", json={"rows": [[50.0, -50.0]]}))
    sender.start()
    found = lines_of(
        client, "/streams/s/events?after=1", lambda lines: sum(line.startswith("id:") for line in lines) > 1
    )
    sender.join()
    assert [line for line in found if line.startswith(("id:", "event:"))][:2] == ["id: 2", "event: opened"]
    again = lines_of(client, "/streams/s/events", lambda lines: "id: 2" in lines, {"last-event-id": "1"})
    assert "id: 1" not in again


def test_the_live_feed(client):
    post(client, ROWS)

    def act():
        post(client, [[9.0, 9.0]] * 500)
        client.post("/streams/s/rename", json={"table": 0, "name": "left"})

    sender = threading.Timer(0.3, act)
    sender.start()
    found = lines_of(client, "/streams/s/live", lambda lines: "event: changed" in lines)
    sender.join()
    told = json.loads(found[found.index("event: rows") + 1].removeprefix("data: "))
    assert told["first_row"] == 4
    assert len(told["rows"]) == feeds.ROWS_PER_MESSAGE  # thinned out
    assert (told["rows"][0], told["rows"][-1]) == (4, 503)
    assert {len(told[key]) for key in ("rows", "times", "tables", "novelty", "novelty_p")} == {200}
    assert json.loads(found[found.index("event: event") + 1].removeprefix("data: "))["kind"] == "renamed"


def test_the_live_feed_goes_on_where_a_reader_stopped(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        post(client, ROWS)
        found = lines_of(client, "/streams/s/live", lambda lines: "id: 2" in lines, {"last-event-id": "1"})
        assert "id: 1" not in found


def test_bodies_of_all_requests_share_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(receiving, "BODIES_AT_ONCE", 1)
    with serving(tmp_path, Limits(body=1000)) as (client, service):
        client.put("/streams/s", json=KNOWN)
        with socket.create_connection(("127.0.0.1", client.base_url.port)) as slow:
            head = b"POST /streams/s/rows HTTP/1.1\r\nhost: localhost\r\ncontent-length: 990\r\n\r\n"
            slow.sendall(head + b"x" * 980)
            while not service.bodies.n_bytes:
                time.sleep(0.01)
            assert client.post("/streams/s/rows", json={"rows": [[1.0, 2.0]] * 5}).status_code == 503
        while service.bodies.n_bytes:
            time.sleep(0.01)
        assert post(client, [[1.0, 2.0]])["first_row"] == 0


def test_a_request_is_learned_once_however_many_clients_came_since(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "MOST_ANSWER_BYTES", 2_000)
    monkeypatch.setattr(registry, "MOST_CLIENTS", 40)

    def send(client, name, rows=((0.0, 0.1),)):
        answer = client.post(f"/streams/s/rows?client={name}&sequence=1", json={"rows": rows})
        return answer.status_code, answer.text

    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        first = send(client, "first")
        assert send(client, "first") == first
        for at in range(39):
            assert send(client, f"client-{at}")[0] == 200
    with serving(tmp_path) as (client, _):  # the checkpoint has thinned out the answers
        code, told = send(client, "first")
        assert code == 409
        assert "was answered before; its last one was 1" in told
        assert "was another request" in send(client, "first", [[1.0, 1.0]])[1]
        assert client.get("/streams/s").json()["rows"] == 40
        assert send(client, "client-38")[0] == 200  # whose answer is kept
        assert send(client, "one-more")[0] == 429  # rather than to forget one of them


def test_a_deleted_stream_ends_its_feeds(client):
    post(client, ROWS)
    remover = threading.Timer(0.3, lambda: client.delete("/streams/s"))
    remover.start()
    lines_of(client, "/streams/s/events", lambda lines: False)  # ends by itself
    remover.join()


def test_a_reader_that_does_not_read_holds_up_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "SECONDS_PER_SEND", 0.5)
    with serving(tmp_path) as (client, service):
        client.put("/streams/s", json=KNOWN | {"alpha": 1e6, "max_tables": 50})  # every row opens a table
        port = client.base_url.port
        slow = socket.create_connection(("127.0.0.1", port))
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        for path in ("events", "live"):
            slow.sendall(
                f"GET /streams/s/{path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n".encode()
            )
        rng = np.random.default_rng(0)
        end = time.monotonic() + PATIENCE
        while service.n_readers == 0:
            time.sleep(0.01)
        while service.n_readers:  # until it has been let go, because it takes nothing
            post(client, rng.normal(0.0, 50.0, (200, 2)).tolist())
            assert time.monotonic() < end
        slow.close()
        assert client.get("/streams/s").json()["rows"] > 200


def test_requests_that_come_together_share_a_commit(tmp_path, monkeypatch):
    monkeypatch.setattr("dyncrp.serve.worker.SECONDS_TOGETHER", np.inf)  # however busy the machine is
    with serving(tmp_path) as (client, service):
        client.put("/streams/s", json=KNOWN)
        worker, journal = service.worker, service.registry.journal
        before = journal.n_commits
        gate = threading.Event()

        async def together():
            first = asyncio.ensure_future(worker.call(lambda registry: gate.wait()))
            batch = app_module.read_batch(b'{"rows": [[1, 2]]}', "application/json", app_module.Roles(), service.limits)
            rest = [
                asyncio.ensure_future(worker.call(lambda registry: registry.do("s", lambda s: s.learn(batch)), "s"))
                for _ in range(20)
            ]
            await asyncio.sleep(0.05)
            assert not any(one.done() for one in rest)
            gate.set()
            await first
            return await asyncio.gather(*rest)

        answers = asyncio.run_coroutine_threadsafe(together(), worker.loop).result(20)
        assert [json.loads(answer)["first_row"] for answer in answers] == list(range(20))
        assert journal.n_commits == before + 1


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        post(client, ROWS)
        before = model_bytes(client)
        for broken in ("commit", "add_operation"):
            with monkeypatch.context() as patched:
                patched.setattr(Journal, broken, lambda *_: (_ for _ in ()).throw(JournalError("the disk is full")))
                answer = client.post("/streams/s/rows", json={"rows": [[5.0, 5.0]]})
                assert (answer.status_code, "the disk is full" in answer.text) == (507, True)
                if broken == "commit":
                    assert client.put("/streams/t", json={}).status_code == 507
            assert model_bytes(client) == before
            assert [stream["name"] for stream in client.get("/streams").json()["streams"]] == ["s"]
        assert post(client, [[5.0, 5.0]])["first_row"] == 4


def test_a_mistake_of_ours_leaves_the_stream_as_it_was(tmp_path, monkeypatch, capfd):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        post(client, ROWS)
        before = model_bytes(client)
        with monkeypatch.context() as patched:
            patched.setattr(registry, "dump", lambda _: 1 / 0)  # after the model has learned
            assert client.post("/streams/s/rows", json={"rows": [[5.0, 5.0]]}).status_code == 500
        assert "ZeroDivisionError" in capfd.readouterr().err
        assert model_bytes(client) == before
        assert post(client, [[5.0, 5.0]])["first_row"] == 4


def test_a_restart_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "ROWS_PER_CHECKPOINT", 3)
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        client.put("/streams/gone", json=KNOWN)
        first = client.post("/streams/s/rows?sequence=1", json={"rows": ROWS}).content
        client.post("/streams/s/rename", json={"table": 0, "name": "left"})
        client.delete("/streams/gone")
        before = model_bytes(client), client.get("/streams/s/events").json(), client.get("/streams/s/timeline").json()
    with serving(tmp_path) as (client, _):
        after = model_bytes(client), client.get("/streams/s/events").json(), client.get("/streams/s/timeline").json()
        assert before == after
        assert client.post("/streams/s/rows?sequence=1", json={"rows": ROWS}).content == first
        assert post(client, ROWS[:1])["names"] == ["left"]
        assert client.get("/streams/gone").status_code == 404


def test_a_stream_keeps_its_defaults_where_limits_change(tmp_path):
    with serving(tmp_path, Limits(tables=3)) as (client, _):
        client.put("/streams/s", json=KNOWN)
        client.put("/streams/t", json=KNOWN | {"max_tables": 3, "features": ["x"]})
        post(client, [[0.0]])
        before = model_bytes(client)
    with serving(tmp_path, Limits(tables=1, streams=1)) as (client, _):
        assert model_bytes(client) == before
        assert client.put("/streams/s", json=KNOWN).status_code == 200
        post(client, [[50.0], [-50.0], [99.0]])
        assert client.get("/streams/s").json()["tables"] == 3


def test_limits(tmp_path):
    limits = Limits(body=2000, rows=5, streams=1, features=3, tables=2, readers=0, seconds=0.5)
    with serving(tmp_path, limits) as (client, _):
        assert client.put("/streams/s", json=KNOWN).status_code == 201
        assert client.put("/streams/t", json=KNOWN).status_code == 429
        assert client.post("/streams/s/rows", json={"rows": [[1.0]] * 6}).status_code == 413
        assert client.post("/streams/s/rows", json={"rows": [[1.0] * 4]}).status_code == 413
        assert client.post("/streams/s/rows", json={"rows": ["x" * 2000]}).status_code == 413
        # Without a length, it is cut off while it is read.
        assert client.post("/streams/s/rows", content=(b"x" * 500 for _ in range(9))).status_code == 413
        compressed = client.post("/streams/s/rows", content=b"{}", headers={"content-encoding": "gzip"})
        assert compressed.status_code == 415
        assert client.get("/streams/s/live").status_code == 503
        assert post(client, [[0.0], [50.0], [-50.0]])["labels"] == [0, 1, 2]
        assert client.get("/streams/s").json()["tables"] == 2
        assert client.put("/streams/s", json={"max_tables": 3}).status_code in (409, 413)
        with socket.create_connection(("127.0.0.1", client.base_url.port)) as slow:
            slow.sendall(b"POST /streams/s/rows HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_a_token_is_asked_for(tmp_path):
    with serving(tmp_path, token=TOKEN) as (client, _):
        assert client.put("/streams/s", json=KNOWN).status_code == 201
        for given in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}"):
            answer = client.get("/streams", headers={"authorization": given})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert client.get("/metrics", headers={"authorization": given}).status_code == 401
            assert client.get("/docs", headers={"authorization": given}).status_code == 200
            assert client.get("/health", headers={"authorization": given}).status_code == 200
        # A token is enough: no page of others has it.
        assert client.get("/streams", headers={"host": "example.org"}).status_code == 200
        assert client.put("/streams/s", json=KNOWN, headers={"origin": "https://example.org"}).status_code == 200


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1.example.org", "localhost.example.org:80", "", "[::2]:1"])
def test_a_name_that_only_leads_here_is_refused(client, host):
    assert client.get("/streams", headers={"host": host}).status_code in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:80", "[::1]", "LOCALHOST"])
def test_names_of_this_machine(client, host):
    assert client.get("/streams", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://example.org", "null", "http://127.0.0.1:1", "file://"])
def test_other_pages_cannot_write(client, origin):
    assert client.post("/streams/s/rows", json={"rows": ROWS}, headers={"origin": origin}).status_code == 403
    assert client.delete("/streams/s", headers={"origin": origin}).status_code == 403
    own = f"http://127.0.0.1:{client.base_url.port}"
    assert client.post("/streams/s/rows", json={"rows": ROWS}, headers={"origin": own}).status_code == 200


def test_every_answer_forbids_what_a_page_need_not_do(client):
    for path in ("/docs", "/streams", "/nothing", "/static/docs.js"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"


def test_browsers_ask_for_the_page_again_after_an_upgrade(client):
    for path in ("/", "/docs", "/static/page.js", "/static/style.css", "/streams"):
        assert client.get(path).headers.get_list("cache-control") == ["no-cache"]
    unchanged = client.get("/static/page.js", headers={"if-none-match": client.get("/static/page.js").headers["etag"]})
    assert unchanged.status_code == 304


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"])
def test_nothing_but_the_page_is_served(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("PATCH", "/streams/s", 405)])
def test_errors_are_json(client, method, path, status):
    answer = client.request(method, path)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])


def test_metrics(client):
    post(client, ROWS)
    text = client.get("/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines['dyncrp_stream_rows{stream="s"}'] == "4"
    assert lines['dyncrp_stream_tables{stream="s"}'] == "2"
    assert int(lines["dyncrp_rows_total"]) >= 4
    assert int(lines['dyncrp_requests_total{code="200"}']) > 0
    assert float(lines["dyncrp_learning_seconds_total"]) > 0.0
    assert int(lines["dyncrp_journal_bytes"]) > 1000
    assert text.count("# TYPE") == text.count("# HELP") == len({line.split("{")[0].split()[0] for line in lines})


def test_the_description_has_every_path(client, shared):
    routes = {
        (route.path, method.lower())
        for route in shared[1].app.app.routes
        if hasattr(route, "methods")
        for method in route.methods - {"HEAD"}
    }
    pages = {("/", "get"), ("/docs", "get"), ("/openapi.json", "get")}
    told = {(path, method) for path, methods in openapi()["paths"].items() for method in methods}
    assert told == routes - pages
    assert client.get("/openapi.json").json() == json.loads(json.dumps(openapi()))
    assert "/openapi.json" in client.get("/docs").text


def test_features_that_were_chosen_select_columns(client):
    client.delete("/streams/chosen")
    assert client.put("/streams/chosen", json=KNOWN | {"features": ["y", "x"]}).status_code == 201
    table = "machine,x,y\nA,0.1,0.0\nB,9.2,9.0\n"
    answer = client.post("/streams/chosen/rows", content=table, headers={"Content-Type": "text/csv"})
    assert answer.status_code == 200, answer.text
    model = DynamicalMixture.from_bytes(model_bytes(client, "chosen"))
    assert model.feature_names_in_.tolist() == ["y", "x"]  # so that it refuses other columns
    np.testing.assert_allclose(model.centers_.round(0), [[0.0, 0.0], [9.0, 9.0]])
    none = client.post("/streams/chosen/rows", json={"rows": [{"z": 1.0}]})
    assert none.status_code == 400
    assert "none of the columns y, x" in none.json()["error"]
    client.post("/streams/s/rows", json={"rows": [{"x": 1.0, "y": 2.0}]})
    other = client.post("/streams/s/rows", json={"rows": [{"x": 1.0, "z": 2.0}]})
    assert other.status_code == 400
    assert "features" in other.json()["error"]


def test_a_number_that_was_used_says_where_to_count_on(client):
    for sequence in (1, 2):
        assert client.post(f"/streams/s/rows?client=me&sequence={sequence}", json={"rows": ROWS}).status_code == 200
    again = client.post("/streams/s/rows?client=me&sequence=1", json={"rows": ROWS[:1]})
    assert again.status_code == 409
    assert "count on from 3" in again.json()["error"]


@pytest.mark.parametrize("half", [b'"\\ud800"', b'"\xed\xa0\x80"'], ids=["escaped", "encoded"])
def test_half_a_character_is_refused(client, half):
    for path, body in [
        ("rows", b'{"rows": [{%s: 1.0}]}' % half),
        ("rows", b'{"rows": [{"x": %s}]}' % half),
        ("explain", b'{"row": {%s: 1.0}}' % half),
    ]:
        answer = client.post(f"/streams/s/{path}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400, answer.text
        assert "this is not JSON" in answer.json()["error"]
    for settings in (b'{"features": [%s]}' % half, b'{"dynamics": %s}' % half):
        assert client.put("/streams/half", content=settings).status_code == 400
    post(client, [{"\U0001f600": 1.0}])
    assert client.get("/streams").status_code == client.get("/streams/s").status_code == 200

"""Streams of the service keep their clusters: events say what joined, after a restart too; merges can be undone."""

import numpy as np

from dyncrp import DynamicalMixture
from dyncrp.serve.limits import Limits
from dyncrp.serve.settings import default_settings, make_stream
from serving import KNOWN, post, serving


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(np.array([[0, 0], [20, 0], [0, 20]])[rng.integers(3, size=n)], [3, 1]).tolist()


def test_clusters_join_as_from_python_also_after_a_restart(tmp_path):
    X = rows(600)
    model = DynamicalMixture.from_stream(make_stream(KNOWN, default_settings(Limits(), KNOWN)))
    assert model.keep_clusters
    wanted = []
    model.on_event = lambda event: wanted.append((event.kind, event.row, event.table, event.cluster))
    model.partial_fit(X)
    assert "joined" in {kind for kind, *_ in wanted}
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        post(client, X[:150])
    with serving(tmp_path) as (client, _):
        post(client, X[150:])
        events = client.get("/streams/s/events").json()["events"]
        assert client.get("/streams/s/model").content == model.to_bytes()
    assert [(event["kind"], event["row"], event["table"], event["cluster"]) for event in events] == wanted
    joined = [event for event in events if event["kind"] == "joined"]
    assert all(event["table"] in event["what"]["tables"] for event in joined)


def test_a_merge_that_parts_clusters_is_undone(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        post(client, rows(300))
        before = client.get("/streams/s/model").content
        tables = DynamicalMixture.from_bytes(before)
        clusters = tables.resolve(tables.table_ids_, level="cluster")
        one, other = (int(tables.table_ids_[clusters == cluster][0]) for cluster in np.unique(clusters)[:2])
        answer = client.post("/streams/s/merge", json={"tables": [one, other]}).json()
        assert answer["events"][0]["kind"] == "merged"
        undone = client.post("/streams/s/undo").json()
        assert undone["tables"] == [one, other]
        assert client.get("/streams/s/model").content == before


def test_a_stream_may_do_without(tmp_path):
    with serving(tmp_path) as (client, _):
        assert client.put("/streams/s", json=KNOWN | {"keep_clusters": False}).status_code == 201
        told = post(client, rows(300))["events"]
        assert {event["kind"] for event in told} <= {"opened", "alarm"}
        assert client.put("/streams/t", json=KNOWN | {"keep_clusters": "no"}).status_code == 400

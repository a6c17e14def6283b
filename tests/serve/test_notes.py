"""Alarms that were seen, tables joined by hand, and merges undone: told to all, and kept over restarts."""

import json

import numpy as np
import pytest

from dyncrp.serve import registry
from serving import KNOWN, post, serving

FAR = [[0.0]] * 20 + [[30.0]] * 20 + [[33.0]] * 20


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN | {"alarm_rate": 0.01})
        yield client


def tables(client):
    return {table["id"]: table["rows"] for table in client.get("/streams/s/tables").json()["tables"]}


def clusters(client):
    return {one["cluster"]: one for one in client.get("/streams/s/clusters").json()["clusters"]}


class TestAlarms:
    def test_an_alarm_tells_its_row_and_is_acknowledged_for_good(self, tmp_path):
        with serving(tmp_path) as (client, _):
            client.put("/streams/s", json=KNOWN | {"alarm_rate": 0.01, "features": ["width"]})
            rng = np.random.default_rng(0)
            post(client, rng.normal(size=(300, 1)).tolist())
            before = client.get("/streams/s/alarms").json()["unacknowledged"]
            post(client, [[0.0], [55.5]])
            told = client.get("/streams/s/alarms").json()
            assert told["unacknowledged"] == before + 1
            newest = told["alarms"][-1]
            assert newest["what"]["values"] == {"width": 55.5}
            assert newest["row"] == 301
            assert not newest["acknowledged"]
            answer = client.post("/streams/s/acknowledge", json={"alarms": [newest["id"]]})
            assert answer.json()["acknowledged"] == 1
        with serving(tmp_path) as (client, _):
            told = client.get("/streams/s/alarms").json()
            assert told["unacknowledged"] == before
            assert told["alarms"][-1]["acknowledged"]

    def test_only_the_alarms_that_are_shown_are_read(self, client, monkeypatch):
        rng = np.random.default_rng(0)
        post(client, rng.normal(size=(300, 1)).tolist() + (100.0 * rng.normal(size=(20, 1))).tolist())
        everything = client.get("/streams/s/alarms").json()
        assert len(everything["alarms"]) == everything["unacknowledged"] > 3
        client.post("/streams/s/acknowledge", json={"alarms": [everything["alarms"][0]["id"]]})
        read, loads = [], json.loads
        monkeypatch.setattr(registry.json, "loads", lambda text: read.append(text) or loads(text))
        told = json.JSONDecoder().decode(client.get("/streams/s/alarms?limit=3").text)
        assert (told["alarms"], told["unacknowledged"]) == (everything["alarms"][-3:], everything["unacknowledged"] - 1)
        assert len(read) == 3

    @pytest.mark.parametrize("alarms", [None, "1", [1.5], [True], [10**9], [-1]])
    def test_other_than_ids_is_refused(self, client, alarms):
        post(client, [[0.0]])
        answer = client.post("/streams/s/acknowledge", json={"alarms": alarms})
        assert answer.status_code == 400
        assert "ids of events" in answer.json()["error"]


class TestJoins:
    def test_tables_are_one_cluster_by_hand_until_they_are_parted(self, client):
        post(client, FAR)
        assert set(tables(client)) == {0, 1, 2} or len(tables(client)) == 2
        a, b = 0, max(tables(client))
        before = clusters(client)
        client.post("/streams/s/join", json={"tables": [a, b]})
        joined = clusters(client)[0]
        assert {a, b} <= set(joined["tables"])
        assert joined["by_hand"] == [[a, b]]
        assert next(t for t in client.get("/streams/s/tables").json()["tables"] if t["id"] == b)["cluster"] == 0
        client.post("/streams/s/part", json={"tables": [a, b]})
        assert clusters(client) == before

    def test_one_table_twice_is_refused(self, client):
        post(client, FAR)
        assert client.post("/streams/s/join", json={"tables": [0, 0]}).status_code == 400


class TestCompare:
    def test_it_tells_how_far_apart_and_changes_nothing(self, client):
        post(client, FAR)
        before = client.get("/streams/s/model").content
        told = client.post("/streams/s/compare", json={"tables": [0, 1]}).json()
        assert told["far_apart"]
        assert told["columns"][0]["column"] == "x0"
        assert told["columns"][0]["apart"] > 1.0
        assert client.get("/streams/s/model").content == before


class TestUndo:
    def test_the_stream_is_as_if_the_merge_had_not_been(self, client):
        post(client, FAR)
        client.put("/streams/t", json=KNOWN | {"alarm_rate": 0.01})
        post(client, FAR, name="t")
        client.post("/streams/s/merge", json={"tables": [0, 1]})
        assert client.get("/streams/s").json()["undo"] == {"table": 0, "merged": 1}
        for name in "st":
            post(client, [[0.5], [30.5], [70.0]], name=name)
        answer = client.post("/streams/s/undo", json={}).json()
        assert answer["tables"] == [0, 1]
        assert [event["kind"] for event in answer["events"]] == ["unmerged"]
        assert client.get("/streams/s/model").content == client.get("/streams/t/model").content
        assert client.get("/streams/s/timeline").json() == client.get("/streams/t/timeline").json()
        assert client.get("/streams/s").json()["undo"] is None
        assert client.post("/streams/s/undo", json={}).status_code == 409

    def test_a_kill_changes_nothing_of_it(self, tmp_path):
        from dyncrp.serve.limits import Limits
        from dyncrp.serve.registry import Registry

        kept = []
        for name in ("one", "two"):
            registry = Registry(tmp_path / name, Limits())
            registry.put("s", KNOWN)
            learn = lambda rows: registry.do("s", lambda stream: stream.learn(rows))  # noqa: B023, E731
            from dyncrp.serve.bodies import Batch

            learn(Batch(60, numbers=np.array(FAR)))
            registry.commit()
            registry.do("s", lambda stream: stream.merge([0, 1]))
            learn(Batch(2, numbers=np.array([[0.5], [31.0]])))
            registry.commit()
            if name == "two":  # as a kill would leave it
                registry.journal.close()
                registry = Registry(tmp_path / name, Limits())
            registry.do("s", lambda stream: stream.undo_merge())
            registry.commit()
            registry.journal.close()
            registry = Registry(tmp_path / name, Limits())
            kept.append((registry.stream("s").stream.to_bytes(), registry.events("s", -1, 100)))
            registry.close()
        assert kept[0] == kept[1]

    def test_too_much_since_closes_the_door(self, client):
        post(client, FAR)
        client.post("/streams/s/merge", json={"tables": [0, 1]})
        for _ in range(2):
            post(client, np.random.default_rng(0).normal(size=(70_000, 1)).tolist())
        assert client.get("/streams/s").json()["undo"] is None
        answer = client.post("/streams/s/undo", json={})
        assert answer.status_code == 409
        assert "too much has come since" in answer.json()["error"]

    def test_what_does_not_go_with_it_is_refused_and_changes_nothing(self, client):
        post(client, FAR)
        client.post("/streams/s/rename", json={"table": 1, "name": "warm"})
        client.post("/streams/s/merge", json={"tables": [0, 1]})
        client.post("/streams/s/rename", json={"table": 2, "name": "warm"})
        before = client.get("/streams/s/model").content
        answer = client.post("/streams/s/undo", json={})
        if answer.status_code == 409:
            assert "does not go with" in answer.json()["error"]
            assert client.get("/streams/s/model").content == before


def test_undo_needs_no_body(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        for body in (None, b"", b"{}"):
            post(client, [[0.0], [30.0]])
            client.post("/streams/s/merge", json={"tables": [0, 1]})
            answer = client.post("/streams/s/undo", content=body)
            assert answer.status_code == 200, answer.text
        assert client.post("/streams/s/undo", content=b'{"table": 1}').status_code == 400

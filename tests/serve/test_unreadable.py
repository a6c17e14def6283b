"""A stream that cannot be restored: the others are served, and nothing of it is lost."""

import sqlite3

import numpy as np
import pytest

from dyncrp import Stationary
from dyncrp.search.alpha import AlphaPosterior
from dyncrp.serve import registry
from dyncrp.serve.journal import FILE
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.registry import Registry
from dyncrp.stream.stream import Stream
from serving import KNOWN, post, serving

WIDE = KNOWN | {"set": {"variance": 1.0, "prior_variance": 1e6}}


def spoil(folder, name):
    with sqlite3.connect(folder / FILE) as file:
        file.execute(
            "UPDATE checkpoints SET model = x'00' WHERE stream = (SELECT id FROM streams WHERE name = ?)", (name,)
        )
    file.close()


def test_the_others_are_served(tmp_path):
    with serving(tmp_path) as (client, _):
        for name in ("good", "bad"):
            client.put(f"/streams/{name}", json=KNOWN)
            post(client, [[0.0], [9.0]], name)
    spoil(tmp_path, "bad")
    with serving(tmp_path) as (client, _):
        assert post(client, [[0.1]], "good")["labels"] == [0]
        told = client.get("/streams").json()
        assert [stream["name"] for stream in told["streams"]] == ["good"]
        assert [stream["name"] for stream in told["unreadable"]] == ["bad"]
        assert "dyncrp_unreadable_streams 1\n" in client.get("/metrics").text
        answer = client.post("/streams/bad/rows", json={"rows": [[0.0]]})
        assert answer.status_code == 500
        assert "'bad' cannot be read" in answer.json()["error"]
        assert client.put("/streams/bad", json=KNOWN).status_code == 409
    with serving(tmp_path) as (client, _):  # nothing was removed
        assert len(client.get("/streams").json()["unreadable"]) == 1
        assert client.delete("/streams/bad").status_code == 204
        assert client.get("/streams").json()["unreadable"] == []
        assert client.put("/streams/bad", json=KNOWN).status_code == 201
    with serving(tmp_path) as (client, _):
        assert client.get("/streams/bad").json()["rows"] == 0


def test_settings_that_a_later_version_refuses(tmp_path, monkeypatch):
    first = Registry(tmp_path, Limits())
    first.put("good", KNOWN)
    first.put("bad", WIDE)
    first.commit()
    first.close()
    made = registry.ServedStream

    def strict(name, settings, defaults):
        if settings["set"]["prior_variance"] > 1e3:
            raise RequestError(400, "prior_variance may be 1,000")
        return made(name, settings, defaults)

    monkeypatch.setattr(registry, "ServedStream", strict)
    second = Registry(tmp_path, Limits())
    assert (list(second.streams), second.unreadable) == (["good"], {"bad": "prior_variance may be 1,000"})
    second.close()


def test_alpha_stays_in_the_range_that_a_file_may_have(tmp_path):
    for mean in (1e250, 1e-250):
        posterior = AlphaPosterior(mean, Stationary().modes())
        posterior.update(np.arange(100.0))
        assert all(1e-250 <= posterior.mean(n) <= 1e250 for n in (1, 100))
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=WIDE | {"alpha": 1e250, "set": WIDE["set"] | {"learn_alpha": True}})
        post(client, [[20.0 * at] for at in range(100)])
    with serving(tmp_path) as (client, _):
        assert client.get("/streams/s").json()["rows"] == 100


@pytest.fixture
def refused(monkeypatch):
    """Let no model be read."""

    def refuse(content, name="this"):
        raise ValueError("no")

    monkeypatch.setattr(Stream, "from_bytes", refuse)


def test_a_checkpoint_that_could_not_be_read_is_not_kept(tmp_path, refused, monkeypatch):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        post(client, [[0.0], [9.0]])
    monkeypatch.undo()
    with serving(tmp_path) as (client, _):
        assert post(client, [[9.1]])["labels"] == [1]


def test_a_checkpoint_that_is_too_large_fails_nobody(tmp_path, monkeypatch, capfd):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        monkeypatch.setattr(registry, "LARGEST_VALUE", 10)
        assert post(client, [[0.0], [9.0]])["labels"] == [0, 1]
        assert "SQLite takes 10" in capfd.readouterr().err
    with serving(tmp_path) as (client, _):
        assert post(client, [[9.1]])["labels"] == [1]

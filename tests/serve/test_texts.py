"""Streams of texts behind HTTP: the same tables as from Python, also after a restart."""

import io

import pyarrow as pa
import pytest

from dyncrp import DynamicalMixture
from dyncrp.serve.limits import Limits
from dyncrp.serve.settings import default_settings, make_stream
from serving import post, serving

TEXTS = {"text": "message", "dynamics": "exponential(50)", "alpha": 0.3, "set": {"concentration": 3.0}}
MESSAGES = ["Storm hits the coast", "Polls open in the city", "Storm off the coast", "", "The polls close in the city"]
ROWS = [{"message": message, "other": i} for i, message in enumerate(MESSAGES)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("texts")) as (client, _):
        yield client


@pytest.fixture
def client(shared):
    shared.delete("/streams/s")
    assert shared.put("/streams/s", json=TEXTS | {"n_examples": 2}).status_code == 201
    return shared


def expected(messages=MESSAGES, **more):
    stream = make_stream(TEXTS | {"n_examples": 2} | more, default_settings(Limits(), TEXTS))
    return DynamicalMixture.from_stream(stream).partial_fit(messages)


def test_texts_are_learned_as_the_model_learns_them(client):
    answer = post(client, ROWS)
    model = expected()
    assert answer["labels"] == model.labels_.tolist()
    assert answer["novelty"] == model.novelty_.tolist()
    assert client.get("/streams/s/model").content == model.to_bytes()
    loaded = DynamicalMixture.from_bytes(client.get("/streams/s/model").content)
    assert loaded.predict(["storm at the coast"])[0] == answer["labels"][0]
    told = client.get("/streams/s").json()
    assert (told["rows"], told["features"]) == (5, ["message"])
    tables = client.get("/streams/s/tables").json()["tables"]
    assert [table["describes"]["words"] for table in tables] == model.describe()["words"].tolist()
    assert {table["cluster"] for table in tables} == {None}
    assert client.get("/streams/s/clusters").json() == {"clusters": []}


def test_every_format_brings_the_same_texts(client):
    table = pa.table({"message": MESSAGES, "other": range(5)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    csv = "message,other\n" + "".join(f'"{message}",{i}\n' for i, message in enumerate(MESSAGES))
    bodies = {"text/csv": csv.encode(), "application/vnd.apache.arrow.stream": sink.getvalue()}
    for kind, body in bodies.items():
        client.delete("/streams/s")
        client.put("/streams/s", json=TEXTS | {"n_examples": 2})
        answer = client.post("/streams/s/rows", content=body, headers={"content-type": kind})
        assert answer.status_code == 200, answer.text
        assert client.get("/streams/s/model").content == expected().to_bytes()
    client.delete("/streams/s")
    client.put("/streams/s", json=TEXTS | {"n_examples": 2})
    post(client, [[message] for message in MESSAGES])
    assert client.get("/streams/s/model").content == expected().to_bytes()


def test_what_is_asked_of_texts_is_answered_in_words(client):
    post(client, ROWS)
    model = expected()
    told = client.post("/streams/s/explain", json={"row": {"message": "Storm, storm in Rome"}}).json()
    found = model.explain("storm storm in rome")
    assert (told["table"], told["runner_up"]) == (found.table, found.runner_up)
    assert told["values"] == {"storm": "2", "in": "1", "rome": "1"}
    assert list(told["against_new"]["features"].values()) == found.against_new.features.tolist()
    examples = client.get("/streams/s/tables/0").json()["examples"]
    assert examples["latest"][-1]["values"] == {"message": "storm the coast off"}
    assert len(examples["typical"]) == 2


def test_a_restart_goes_on_with_the_words(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=TEXTS | {"stop_words": True})
        post(client, ROWS[:3])
    with serving(tmp_path) as (client, _):
        post(client, ROWS[3:])
        model = DynamicalMixture.from_stream(
            make_stream(TEXTS | {"stop_words": True}, default_settings(Limits(), TEXTS))
        )
        model.partial_fit(MESSAGES)
        assert client.get("/streams/s/model").content == model.to_bytes()
        assert "the" not in model.vocabulary_


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([{"message": "fine"}, {"message": None}], "column 'message' must hold texts, got None, at row 1"),
        ([{"message": 3}], "column 'message' must hold texts, got 3, at row 0"),
        ([{"message": ["a", "b"]}], "must hold texts, got ['a', 'b'], at row 0"),
        ([{"other": "fine"}], "the rows have no column 'message', which should hold the texts"),
        ([["a", "b"]], "the rows have no column 'message'"),
        ([[3.5]], "must hold texts, got"),
    ],
)
def test_rows_without_texts_are_refused_and_nothing_is_learned(client, rows, fault):
    post(client, ROWS)
    answer = client.post("/streams/s/rows", json={"rows": rows})
    assert answer.status_code == 400
    assert fault in answer.json()["error"]
    assert answer.json()["column"] == "message"
    assert client.get("/streams/s/model").content == expected().to_bytes()


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (TEXTS | {"text": 3}, "text must be the name of a column"),
        (TEXTS | {"text": ""}, "text must be the name of a column"),
        (TEXTS | {"features": ["x"]}, "leave out features"),
        (TEXTS | {"family": "gaussian"}, "texts need the family multinomial, got 'gaussian'"),
        (TEXTS | {"stop_words": 1}, "stop_words must be true or false"),
        ({"stop_words": True}, "stop_words needs text"),
        ({"family": "multinomial"}, 'name their column, such as {"text": "message"}'),
    ],
)
def test_settings_that_do_not_go_together(client, settings, fault):
    answer = client.put("/streams/other", json=settings)
    assert answer.status_code == 400
    assert fault in answer.json()["error"]

"""The endpoints of the HTTP interface, each declared once: the routes and the OpenAPI document come from here."""

from __future__ import annotations

from typing import Any, NamedTuple

from dyncrp.serve.bodies import ARROW, CSV, JSON, NDJSON

Schema = dict[str, Any]

TIME = {"description": "A number, or a date in ISO 8601 if the stream's times are dates.", "type": ["number", "string"]}
TABLE = {"description": "The id or the name of a table.", "type": ["integer", "string"]}
NUMBERS = {"type": "array", "items": {"type": ["number", "null"]}}
INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
EVENT = {
    "type": "object",
    "properties": {
        "id": INTEGER,
        "kind": {"enum": ["opened", "returned", "closed", "merged", "renamed", "alarm"]},
        "row": INTEGER,
        "time": TIME,
        "table": INTEGER,
        "name": {"type": ["string", "null"]},
        "group": {"type": ["integer", "null"]},
        "what": {"type": "object"},
    },
}
SETTINGS = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "family": {"type": "string", "description": "Such as gaussian; learned by default."},
        "dynamics": {
            "type": ["string", "array"],
            "description": 'Such as "exponential(20)", or a list to choose from.',
        },
        "alpha": {"type": "number"},
        "memory": {"type": ["number", "string"], "description": 'A number ≥ 2, "inf", or "auto" to learn it.'},
        "alarm_rate": {"type": "number", "description": "The share of rows that may raise a false alarm."},
        "n_examples": {"type": "integer", "description": "How many rows of each table to keep as examples."},
        "warmup": {"type": "integer", "description": "From how many rows to learn what is unknown."},
        "max_tables": INTEGER,
        "prune_below": {"type": "number"},
        "set": {"type": "object", "description": "Other parameters of the family or the model, by name."},
        "features": {"type": "array", "items": TEXT, "description": "Names of the columns."},
        "text": {
            "type": "string",
            "description": "The column of texts, if rows are texts; they are clustered by their words.",
        },
        "stop_words": {"type": "boolean", "description": "Whether to ignore the most common English words."},
    },
}
ROWS = {
    "type": "object",
    "required": ["rows"],
    "additionalProperties": False,
    "properties": {
        "rows": {"type": "array", "items": {"type": ["array", "object"]}, "description": "Lists, or objects."},
        "times": {"type": "array", "items": TIME},
        "labels": {"type": "array", "items": {"type": ["integer", "string", "null"]}},
        "cannot_link": {"type": "array", "items": {"type": ["integer", "string", "null"]}},
    },
}
LEARNED = {
    "type": "object",
    "properties": {
        "first_row": INTEGER,
        "labels": {"type": "array", "items": INTEGER},
        "names": {"type": "array", "items": {"type": ["string", "null"]}},
        "probabilities": NUMBERS,
        "novelty": NUMBERS,
        "novelty_p": NUMBERS,
        "events": {"type": "array", "items": EVENT},
        "learned": {"type": "boolean"},
    },
}
NAME: Schema = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 100}}
RETRY = [
    {
        "name": "sequence",
        "in": "query",
        "schema": INTEGER,
        "description": "A number that counts up, so that a retry is harmless.",
    },
    {"name": "client", "in": "query", "schema": TEXT, "description": "The name of the client that counts."},
]


def _query(name: str, schema: Schema, text: str) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


COLUMNS = [_query(f"{role}_column", TEXT, f"The column that holds the {role}.") for role in ("time", "label")]
COLUMNS.append(_query("cannot_link_column", TEXT, "The column of marks: rows with the same mark share no table."))
AFTER = _query("after", INTEGER, "Only events after the one with this id.")
STREAM = "/streams/{name}"


class Endpoint(NamedTuple):
    """A path and a method.

    handler: the name of the method of ``Service`` that answers. summary: what it does; empty for pages, which are not
    in the OpenAPI document. parameters: those of the path and the query, for OpenAPI. bodies: the schema of a request
    by its media type. answer: the schema of the answer. codes: the status codes of success and conflict. open: whether
    it needs no token.
    """

    method: str
    path: str
    handler: str
    summary: str = ""
    parameters: tuple[Schema, ...] = ()
    bodies: dict[str, Schema] | None = None
    answer: Schema | None = None
    codes: tuple[str, ...] = ("200",)
    open: bool = False


ENDPOINTS = (
    Endpoint("GET", "/streams", "list_streams", "List the streams"),
    Endpoint("PUT", STREAM, "put_stream", "Make a stream", (NAME,), {JSON: SETTINGS}, codes=("200", "201", "409")),
    Endpoint("GET", STREAM, "get_stream", "Describe a stream", (NAME,)),
    Endpoint("DELETE", STREAM, "delete_stream", "Delete a stream and its rows", (NAME,), codes=("204",)),
    Endpoint(
        "POST",
        f"{STREAM}/rows",
        "post_rows",
        "Learn from rows",
        (NAME, *RETRY, *COLUMNS),
        {JSON: ROWS, NDJSON: {}, CSV: {}, ARROW: {}},
        LEARNED,
        ("200", "409"),
    ),
    Endpoint(
        "POST",
        f"{STREAM}/merge",
        "post_merge",
        "Merge two tables",
        (NAME, *RETRY),
        {JSON: _object(tables={"type": "array", "items": TABLE, "minItems": 2})},
        codes=("200", "409"),
    ),
    Endpoint(
        "POST",
        f"{STREAM}/rename",
        "post_rename",
        "Give a table a name",
        (NAME, *RETRY),
        {JSON: _object(table=TABLE, name=TEXT)},
        codes=("200", "409"),
    ),
    Endpoint(
        "POST",
        f"{STREAM}/explain",
        "post_explain",
        "Explain why a row would join its table",
        (NAME,),
        {JSON: _object(row={"type": ["array", "object"]}, time=TIME)},
    ),
    Endpoint("GET", f"{STREAM}/tables", "get_tables", "List the open tables", (NAME,)),
    Endpoint(
        "GET",
        f"{STREAM}/tables/{{table}}",
        "get_table",
        "Show a table and its examples",
        (NAME, {"name": "table", "in": "path", "required": True, "schema": TABLE}),
    ),
    Endpoint(
        "GET",
        f"{STREAM}/groups",
        "get_groups",
        "Join the tables into groups",
        (NAME, _query("n", INTEGER, "How many groups; by default, as many as stand out.")),
    ),
    Endpoint(
        "GET",
        f"{STREAM}/timeline",
        "get_timeline",
        "Show the latest rows",
        (NAME, _query("last", INTEGER, "How many rows, up to 2,000.")),
    ),
    Endpoint(
        "GET",
        f"{STREAM}/events",
        "get_events",
        "List events; with Accept: text/event-stream, follow them",
        (NAME, AFTER, _query("limit", INTEGER, "How many events at most.")),
    ),
    Endpoint("GET", f"{STREAM}/live", "get_live", "Follow rows and events, as server-sent events", (NAME, AFTER)),
    Endpoint("GET", f"{STREAM}/model", "get_model", "Download the model, for DynamicalMixture.load", (NAME,)),
    Endpoint("GET", "/metrics", "get_metrics", "Counters in Prometheus' text format"),
    Endpoint("GET", "/health", "get_health", "Check that the server works", open=True),
    Endpoint("GET", "/openapi.json", "get_openapi", open=True),
    Endpoint("GET", "/docs", "get_docs", open=True),
    Endpoint("GET", "/", "get_page", open=True),
)

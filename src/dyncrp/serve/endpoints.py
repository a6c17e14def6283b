"""The endpoints of the HTTP interface, each declared once: the routes and the OpenAPI document come from here."""

from __future__ import annotations

from typing import Any, NamedTuple

from dyncrp.serve.bodies import ARROW, CSV, JSON, NDJSON

Schema = dict[str, Any]

TIME = {"description": "A number, or a date in ISO 8601 if the stream's times are dates.", "type": ["number", "string"]}
TABLE = {"description": "The id or the name of a table.", "type": ["integer", "string"]}
NUMBERS = {"type": "array", "items": {"type": ["number", "null"]}}
WHOLE, TEXT = {"type": "integer"}, {"type": "string"}
EVENT = {
    "type": "object",
    "properties": {
        "id": WHOLE,
        "kind": {"enum": ["opened", "returned", "closed", "merged", "renamed", "alarm"]},
        "row": WHOLE,
        "time": TIME,
        "table": WHOLE,
        "name": {"type": ["string", "null"]},
        "group": {"type": ["integer", "null"]},
        "what": {"type": "object"},
    },
}
SETTINGS = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "family": {"type": "string", "description": "Such as gaussian; learned if it is not given."},
        "dynamics": {"type": ["string", "array"], "description": 'Such as "exponential(20)", or several.'},
        "alpha": {"type": "number"},
        "memory": {"type": ["number", "string"], "description": 'A number ≥ 2, "inf", or "auto" to learn it.'},
        "alarm_rate": {"type": "number", "description": "The share of rows that may raise a false alarm."},
        "n_examples": {"type": "integer", "description": "Rows that are kept of each table, to look at."},
        "warmup": {"type": "integer", "description": "Rows from which what is unknown is learned."},
        "max_tables": WHOLE,
        "prune_below": {"type": "number"},
        "set": {"type": "object", "description": "Other parameters of the family or the model, by name."},
        "features": {"type": "array", "items": TEXT, "description": "Names of the columns."},
        "text": {"type": "string", "description": "The column of texts, if rows are texts, clustered by their words."},
        "stop_words": {"type": "boolean", "description": "Whether to leave out the commonest words of English."},
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
LEARNT = {
    "type": "object",
    "properties": {
        "first_row": WHOLE,
        "labels": {"type": "array", "items": WHOLE},
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
    {"name": "sequence", "in": "query", "schema": WHOLE, "description": "With it, a retry is harmless; it counts up."},
    {"name": "client", "in": "query", "schema": TEXT, "description": "Whose sequence it is."},
]


def _query(name: str, schema: Schema, text: str) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


COLUMNS = [_query(f"{role}_column", TEXT, f"The column that holds the {role}.") for role in ("time", "label")]
COLUMNS.append(_query("cannot_link_column", TEXT, "The column of marks: rows of one mark share no table."))
AFTER = _query("after", WHOLE, "Only events after the one with this id.")
STREAM = "/streams/{name}"


class Endpoint(NamedTuple):
    """One path and method.

    handler: the name of the method of ``Service`` that answers. summary: what it does; a page for people, which the
    document leaves out, has none. parameters: of the path and the query, as OpenAPI has them. bodies: the schema of
    what a request may bring, by its type. answer: the schema of what is answered. codes: of the answers, but refusals.
    open: whether its path needs no token.
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
    Endpoint("GET", STREAM, "get_stream", "Tell what is known of a stream", (NAME,)),
    Endpoint("DELETE", STREAM, "delete_stream", "Forget a stream and its rows", (NAME,), codes=("204",)),
    Endpoint(
        "POST",
        f"{STREAM}/rows",
        "post_rows",
        "Learn from rows",
        (NAME, *RETRY, *COLUMNS),
        {JSON: ROWS, NDJSON: {}, CSV: {}, ARROW: {}},
        LEARNT,
        ("200", "409"),
    ),
    Endpoint(
        "POST",
        f"{STREAM}/merge",
        "post_merge",
        "Make one table of two",
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
        "Tell why a row would join its table",
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
        (NAME, _query("n", WHOLE, "How many; by default, as many as stand out.")),
    ),
    Endpoint(
        "GET",
        f"{STREAM}/timeline",
        "get_timeline",
        "Show the latest rows",
        (NAME, _query("last", WHOLE, "How many, up to 2,000.")),
    ),
    Endpoint(
        "GET",
        f"{STREAM}/events",
        "get_events",
        "List events; with Accept: text/event-stream, as they come",
        (NAME, AFTER, _query("limit", WHOLE, "At most so many.")),
    ),
    Endpoint("GET", f"{STREAM}/live", "get_live", "Follow rows and events, as server-sent events", (NAME, AFTER)),
    Endpoint(
        "GET",
        f"{STREAM}/model",
        "get_model",
        "Take the model with you, as DynamicalMixture.load reads it",
        (NAME,),
    ),
    Endpoint("GET", "/metrics", "get_metrics", "Counters in Prometheus' text format"),
    Endpoint("GET", "/health", "get_health", "Tell whether the server works", open=True),
    Endpoint("GET", "/openapi.json", "get_openapi", open=True),
    Endpoint("GET", "/docs", "get_docs", open=True),
    Endpoint("GET", "/", "get_page", open=True),
)

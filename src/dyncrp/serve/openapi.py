"""The description of the HTTP interface, as OpenAPI has it."""

from __future__ import annotations

from typing import Any

import dyncrp
from dyncrp.serve.bodies import ARROW, CSV, JSON, NDJSON

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}, "row": {"type": "integer"}, "column": {"type": "string"}},
}
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
NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 100}}
RETRY = [
    {"name": "sequence", "in": "query", "schema": WHOLE, "description": "With it, a retry is harmless; it counts up."},
    {"name": "client", "in": "query", "schema": TEXT, "description": "Whose sequence it is."},
]


def openapi() -> dict[str, Any]:
    """Return the description, as JSON has it.

    >>> sorted(openapi()["paths"]["/streams/{name}"])
    ['delete', 'get', 'put']
    """
    stream = "/streams/{name}"
    columns = [_query(f"{role}_column", TEXT, f"The column that holds the {role}.") for role in ("time", "label")]
    columns.append(_query("cannot_link_column", TEXT, "The column of marks: rows of one mark share no table."))
    after = _query("after", WHOLE, "Only events after the one with this id.")
    rows: dict[str, Any] = {kind: {} for kind in (NDJSON, CSV, ARROW)}
    named = {"type": "object", "properties": {"table": TABLE, "name": TEXT}}
    tables = {"type": "object", "properties": {"tables": {"type": "array", "items": TABLE, "minItems": 2}}}
    row = {"type": "object", "properties": {"row": {"type": ["array", "object"]}, "time": TIME}}
    paths: dict[str, dict[str, Any]] = {
        "/streams": {"get": _operation("List the streams")},
        stream: {
            "put": _operation("Make a stream", [NAME], {JSON: SETTINGS}, codes=("200", "201", "409")),
            "get": _operation("Tell what is known of a stream", [NAME]),
            "delete": _operation("Forget a stream and its rows", [NAME], codes=("204",)),
        },
        f"{stream}/rows": {
            "post": _operation(
                "Learn from rows", [NAME, *RETRY, *columns], {JSON: ROWS, **rows}, LEARNT, ("200", "409")
            )
        },
        f"{stream}/merge": {
            "post": _operation("Make one table of two", [NAME, *RETRY], {JSON: tables}, codes=("200", "409"))
        },
        f"{stream}/rename": {
            "post": _operation("Give a table a name", [NAME, *RETRY], {JSON: named}, codes=("200", "409"))
        },
        f"{stream}/explain": {"post": _operation("Tell why a row would join its table", [NAME], {JSON: row})},
        f"{stream}/tables": {"get": _operation("List the open tables", [NAME])},
        f"{stream}/tables/{{table}}": {
            "get": _operation(
                "Show a table and its examples",
                [NAME, {"name": "table", "in": "path", "required": True, "schema": TABLE}],
            )
        },
        f"{stream}/groups": {
            "get": _operation(
                "Join the tables into groups", [NAME, _query("n", WHOLE, "How many; by default, as many as stand out.")]
            )
        },
        f"{stream}/timeline": {
            "get": _operation("Show the latest rows", [NAME, _query("last", WHOLE, "How many, up to 2,000.")])
        },
        f"{stream}/events": {
            "get": _operation(
                "List events; with Accept: text/event-stream, as they come",
                [NAME, after, _query("limit", WHOLE, "At most so many.")],
            )
        },
        f"{stream}/live": {"get": _operation("Follow rows and events, as server-sent events", [NAME, after])},
        f"{stream}/model": {"get": _operation("Take the model with you, as DynamicalMixture.load reads it", [NAME])},
        "/metrics": {"get": _operation("Counters in Prometheus' text format")},
        "/health": {"get": _operation("Tell whether the server works")},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "dyncrp serve", "version": dyncrp.__version__},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _query(name: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _operation(
    summary: str,
    parameters: list[dict[str, Any]] | None = None,
    bodies: dict[str, dict[str, Any]] | None = None,
    answer: dict[str, Any] | None = None,
    codes: tuple[str, ...] = ("200",),
) -> dict[str, Any]:
    texts = {"200": "Done", "201": "Made", "204": "Gone", "409": "Conflicts with what is there"}
    refusal = {
        "description": "RequestError; nothing was changed",
        "content": _schema({JSON: {"$ref": "#/components/schemas/Error"}}),
    }
    responses: dict[str, Any] = {code: {"description": texts[code]} for code in codes}
    if answer is not None:
        responses["200"]["content"] = _schema({JSON: answer})
    found: dict[str, Any] = {"summary": summary, "responses": responses | {"4XX": refusal}}
    if parameters:
        found["parameters"] = parameters
    if bodies:
        found["requestBody"] = {"content": _schema(bodies)}
    return found


def _schema(bodies: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind, schema in bodies.items()}

"""The endpoints of the HTTP interface, each declared once: the routes and the OpenAPI document come from here."""

from __future__ import annotations

from typing import Any, NamedTuple

from dyncrp.serve.bodies import ARROW, CSV, JSON, NDJSON

Schema = dict[str, Any]

TIME = {"description": "A number, or a date in ISO 8601 if the stream's times are dates.", "type": ["number", "string"]}
TABLE = {"description": "The id or the name of a table.", "type": ["integer", "string"]}
INTEGER, NUMBER, TEXT, BOOLEAN = ({"type": name} for name in ("integer", "number", "string", "boolean"))
ANY_ROW = {"type": ["array", "object"]}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _optional(*types: str) -> Schema:
    return {"type": [*types, "null"]}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def _query(name: str, schema: Schema, text: str) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": text}


EVENT = _object(
    id=INTEGER,
    kind={
        "enum": [
            *("opened", "returned", "closed", "merged", "renamed", "unmerged", "joined", "parted"),
            *("alarm", "surge", "growing", "fading"),
        ]
    },
    row=INTEGER,
    time=TIME,
    table=INTEGER,
    name=_optional("string"),
    cluster=_optional("integer"),
    what={"type": "object"},
)
SETTINGS = _object(
    family={**TEXT, "description": "Such as gaussian; learned by default."},
    dynamics={"type": ["string", "array"], "description": 'Such as "exponential(20)", or a list to choose from.'},
    alpha=NUMBER,
    memory={"type": ["number", "string"], "description": 'A number ≥ 2, "inf", or "auto" to learn it.'},
    alarm_rate={**NUMBER, "description": "The share of rows that may raise a false alarm."},
    surge_rate={**NUMBER, "description": "The share of rows that may report a false surge, rise or fall of a table."},
    n_examples={**INTEGER, "description": "How many rows of each table to keep as examples."},
    keep_clusters={**BOOLEAN, "description": "Whether clusters are kept as rows come; true by default."},
    warmup={**INTEGER, "description": "From how many rows to learn what is unknown."},
    warmup_seconds={
        **_optional("number"),
        "description": "After how many seconds to learn it from fewer rows; null for never.",
    },
    max_tables=INTEGER,
    prune_below=NUMBER,
    set={"type": "object", "description": "Other parameters of the family or the model, by name."},
    features=_list(TEXT, description="Names of the columns."),
    text={**TEXT, "description": "The column of texts, if rows are texts; they are clustered by their words."},
    stop_words={**BOOLEAN, "description": "Whether to ignore the most common English words."},
) | {"additionalProperties": False}
ROWS = _object(
    rows=_list(ANY_ROW, description="Lists, or objects."),
    times=_list(TIME),
    labels=_list(_optional("integer", "string")),
    cannot_link=_list(_optional("integer", "string")),
    sample_weight=_list(NUMBER, description="How many rows each counts as; a row of weight 0 only gets a label."),
) | {"required": ["rows"], "additionalProperties": False}
WARMUP = _object(
    rows={**INTEGER, "description": "How many rows have come."},
    needed={**INTEGER, "description": "From how many rows the hyperparameters are learned."},
    least_rows={**INTEGER, "description": "How many rows there must be for time to end it sooner."},
    seconds_left={**_optional("integer"), "description": "When time ends it; null if time does not."},
    searching={**BOOLEAN, "description": "Whether there are rows enough, and the last search goes on."},
    error={**TEXT, "description": "Why the hyperparameters could not be learned."},
) | {"type": ["object", "null"], "description": "How far the warm-up is; null if there is none or if it is over."}
RESULTS = _object(
    first_row=INTEGER,
    labels=_list(INTEGER),
    names=_list(_optional("string")),
    probabilities=_list(_optional("number")),
    novelty=_list(_optional("number")),
    novelty_p=_list(_optional("number")),
    events=_list(EVENT),
    learned=BOOLEAN,
    warmup=WARMUP,
)
TWO = _object(tables=_list(TABLE, minItems=2, maxItems=2))
SEEN = _object(alarms=_list(INTEGER, description="The ids of the events."))
RENAME = _object(table=TABLE, name=TEXT)
EXPLAIN = _object(row=ANY_ROW, time=TIME)
IN_PATH = {"name": {**TEXT, "maxLength": 100}, "table": TABLE}  # the schemas of the parameters of paths
RETRY = (
    _query("sequence", INTEGER, "A number that counts up, so that a retry is harmless."),
    _query("client", TEXT, "The name of the client that counts."),
)
COLUMNS = (
    _query("time_column", TEXT, "The column that holds the time."),
    _query("label_column", TEXT, "The column that holds the label."),
    _query("cannot_link_column", TEXT, "The column of marks: rows with the same mark share no table."),
    _query("weight_column", TEXT, "The column of weights: how many rows each counts as."),
)
AFTER = _query("after", INTEGER, "Only events after the one with this id.")
LIMIT = _query("limit", INTEGER, "How many events at most.")
N_CLUSTERS = _query("n", INTEGER, "How many clusters; by default, as many as stand out.")
LAST = _query("last", INTEGER, "How many rows, up to 2,000.")
SECONDS = (
    _query("span", NUMBER, "The last so many seconds."),
    _query("begin", NUMBER, "From when, in seconds since 1970."),
    _query("end", NUMBER, "Until when."),
)
STREAM = "/streams/{name}"
CHANGES = ("200", "409")  # the codes of an operation


class Endpoint(NamedTuple):
    """A path and a method.

    handler: the name of the method of ``Service`` that answers. summary: what it does; empty for pages, which are not
    in the OpenAPI document. query: the parameters of the query, for OpenAPI. bodies: the schema of a request by its
    media type. answer: the schema of the answer. codes: the status codes of success and conflict. open: whether it
    needs no token.
    """

    method: str
    path: str
    handler: str
    summary: str = ""
    query: tuple[Schema, ...] = ()
    bodies: dict[str, Schema] | None = None
    answer: Schema | None = None
    codes: tuple[str, ...] = ("200",)
    open: bool = False


ROWS_QUERY = (*RETRY, *COLUMNS)
ROWS_BODIES: dict[str, Schema] = {JSON: ROWS, NDJSON: {}, CSV: {}, ARROW: {}}
ENDPOINTS = (
    Endpoint("GET", "/streams", "list_streams", "List the streams"),
    Endpoint("PUT", STREAM, "put_stream", "Make a stream", (), {JSON: SETTINGS}, codes=("200", "201", "409")),
    Endpoint("GET", STREAM, "get_stream", "Describe a stream"),
    Endpoint("DELETE", STREAM, "delete_stream", "Delete a stream and its rows", codes=("204",)),
    Endpoint("POST", f"{STREAM}/rows", "post_rows", "Learn from rows", ROWS_QUERY, ROWS_BODIES, RESULTS, CHANGES),
    Endpoint("POST", f"{STREAM}/merge", "post_merge", "Merge two tables", RETRY, {JSON: TWO}, codes=CHANGES),
    Endpoint("POST", f"{STREAM}/undo", "post_undo", "Undo the last merge", RETRY, codes=CHANGES),
    Endpoint("POST", f"{STREAM}/compare", "post_compare", "Tell how far apart two tables are", (), {JSON: TWO}),
    Endpoint("POST", f"{STREAM}/join", "post_join", "Join two tables in a cluster", RETRY, {JSON: TWO}, codes=CHANGES),
    Endpoint("POST", f"{STREAM}/part", "post_part", "Undo joining two tables", RETRY, {JSON: TWO}, codes=CHANGES),
    Endpoint("POST", f"{STREAM}/rename", "post_rename", "Give a table a name", RETRY, {JSON: RENAME}, codes=CHANGES),
    Endpoint(
        "POST", f"{STREAM}/end-warmup", "post_end_warmup", "End the warm-up with the rows so far", RETRY, codes=CHANGES
    ),
    Endpoint("POST", f"{STREAM}/explain", "post_explain", "Explain the table of a row", (), {JSON: EXPLAIN}),
    Endpoint("GET", f"{STREAM}/tables", "get_tables", "List the open tables"),
    Endpoint("GET", f"{STREAM}/tables/{{table}}", "get_table", "Show a table and its examples"),
    Endpoint("GET", f"{STREAM}/clusters", "get_clusters", "Join the tables into clusters", (N_CLUSTERS,)),
    Endpoint("GET", f"{STREAM}/timeline", "get_timeline", "Show the latest rows", (LAST,)),
    Endpoint("GET", f"{STREAM}/history", "get_history", "Show what came when, thinned", SECONDS),
    Endpoint("GET", f"{STREAM}/alarms", "get_alarms", "List the latest alarms and their rows", (LIMIT,)),
    Endpoint(
        "POST",
        f"{STREAM}/acknowledge",
        "post_acknowledge",
        "Acknowledge alarms",
        RETRY,
        {JSON: SEEN},
        codes=CHANGES,
    ),
    Endpoint("GET", f"{STREAM}/events", "get_events", "List events, or follow them as a stream", (AFTER, LIMIT)),
    Endpoint("GET", f"{STREAM}/live", "get_live", "Follow rows and events as server-sent events", (AFTER,)),
    Endpoint("GET", f"{STREAM}/model", "get_model", "Download the model, for DynamicalMixture.load"),
    Endpoint("GET", "/metrics", "get_metrics", "Counters in Prometheus' text format"),
    Endpoint("GET", "/health", "get_health", "Check that the server works", open=True),
    Endpoint("GET", "/openapi.json", "get_openapi", open=True),
    Endpoint("GET", "/docs", "get_docs", open=True),
    Endpoint("GET", "/", "get_page", open=True),
)

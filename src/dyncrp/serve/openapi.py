"""The OpenAPI document of the HTTP interface."""

from __future__ import annotations

from typing import Any

import dyncrp
from dyncrp.serve.bodies import JSON
from dyncrp.serve.endpoints import ENDPOINTS, IN_PATH, Endpoint

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}, "row": {"type": "integer"}, "column": {"type": "string"}},
}
REFUSAL = {
    "description": "The request is refused; nothing was changed",
    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
}
CODES = {"200": "Done", "201": "Made", "204": "Deleted", "409": "Conflicts with the present state"}


def openapi() -> dict[str, Any]:
    """Return the document, for JSON.

    >>> sorted(openapi()["paths"]["/streams/{name}"])
    ['delete', 'get', 'put']
    """
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        if endpoint.summary:
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "dyncrp serve", "version": dyncrp.__version__},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {code: {"description": CODES[code]} for code in endpoint.codes}
    if endpoint.answer is not None:
        responses["200"]["content"] = {JSON: {"schema": endpoint.answer}}
    found: dict[str, Any] = {"summary": endpoint.summary, "responses": responses | {"4XX": REFUSAL}}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in IN_PATH.items()
        if f"{{{name}}}" in endpoint.path
    ]
    if in_path or endpoint.query:
        found["parameters"] = [*in_path, *endpoint.query]
    if endpoint.bodies:
        found["requestBody"] = {"content": {kind: {"schema": schema} for kind, schema in endpoint.bodies.items()}}
    return found

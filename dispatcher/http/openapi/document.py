"""The OpenAPI document, made of the declarations of the endpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.base.values import traceparent
from dispatcher.base.version import VERSION
from dispatcher.http.endpoints import RAW, Endpoint
from dispatcher.http.problems import (
    BROKEN,
    CONFLICT,
    CROWDED,
    ERASED,
    FAULTY,
    FORBIDDEN,
    HEAD_TOO_LARGE,
    KEY_REUSED,
    MEDIA_TYPE,
    MISDIRECTED,
    MOVING,
    SLOW,
    TIMED_OUT,
    TOO_LARGE,
    TOO_MANY,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNSUPPORTED,
    Document,
    Kind,
    Problem,
    Refused,
)
from dispatcher.http.roles import Role, roles_with

JSON = "application/json"
_REFUSED = msgspec.to_builtins(Refused(error="Missing required fields: order"))
_SCHEMAS = "#/components/schemas/{name}"
_REFUSED_ALWAYS = FAULTY, UNAUTHENTICATED, FORBIDDEN, TIMED_OUT, MISDIRECTED, TOO_MANY, HEAD_TOO_LARGE
_ALWAYS = (*_REFUSED_ALWAYS, BROKEN, CROWDED, MOVING, UNAVAILABLE, SLOW)
_WITH_BODY = (TOO_LARGE, UNSUPPORTED)
_IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key with the same request has the same answer for a day; with another one it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "The ETag that it has to have still; it is refused (412) where it has another one by now.",
    "schema": {"type": "string"},
}
_TRACEPARENT = {
    "name": "traceparent",
    "in": "header",
    "description": "The trace of the caller (W3C), which the calls of what is written here go on with.",
    "schema": {"type": "string", "pattern": traceparent.PATTERN, "not": {"pattern": traceparent.ZEROS}},
}
_OF_RAW: dict[str, dict[str, Any]] = {RAW: {"schema": {"type": "string", "format": "binary"}}}
_TEXT = {"type": "string"}
_REQUEST_ID = {"X-Request-Id": {"description": "What this request is called in the log.", "schema": _TEXT}}
_ETAG = {"ETag": {"description": "What it is now, for If-Match.", "required": True, "schema": _TEXT}}
_REPLAYED_WORDS = "It is the answer that the Idempotency-Key had before."
_REPLAYED = {"Idempotency-Replayed": {"description": _REPLAYED_WORDS, "schema": {**_TEXT, "enum": ["true"]}}}
_RETRY_AFTER = {"Retry-After": {"description": "After so many seconds.", "schema": {"type": "integer", "minimum": 1}}}
_CHALLENGE = {"WWW-Authenticate": {"description": "How a key is shown.", "required": True, "schema": _TEXT}}
_OF_STATUS: Mapping[int, dict[str, Any]] = {
    UNAUTHENTICATED.status: _CHALLENGE,
    CONFLICT.status: _RETRY_AFTER,
    TOO_MANY.status: _RETRY_AFTER,
    UNAVAILABLE.status: _RETRY_AFTER,
}
_DESCRIPTION = (
    "Every request shows a key (`dispatcher keys create`), which is good for one workspace and has a role. "
    "What is in another workspace is not found. Errors are problem documents (RFC 9457) with every fault and its path. "
    "No text may have a NUL character or half of a surrogate pair: Postgres keeps neither."
)


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    models = [model for one in endpoints for model in (one.given, one.answer, one.query) if model is not None]
    models += [model for one in endpoints for pair in one.enveloped for model in pair]
    models += [Document, Refused]
    schemas, components = msgspec.json.schema_components(models, ref_template=_SCHEMAS)
    schema_of = dict(zip(models, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        made = _operation(one, schema_of, components)
        paths.setdefault(one.path, {})[one.method.lower()] = made
        if one.makes is not None:
            for status in {200, one.status}:
                made["responses"][str(status)]["links"] = _links(*one.makes, one, endpoints)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dispatcher", "version": VERSION, "description": _DESCRIPTION},
        "security": [{"key": []}],
        "tags": [{"name": name} for name in dict.fromkeys(one.tag for one in endpoints)],
        "paths": paths,
        "components": {
            "schemas": components | {name: schema for one in endpoints for name, schema in one.schemas.items()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def example_of(one: Endpoint) -> Any:  # noqa: ANN401 - as JSON has it
    """Return the example of an answer, in JSON."""
    return msgspec.json.decode(msgspec.json.encode(one.answered))


def _operation(one: Endpoint, schema_of: Mapping[Any, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    roles = ", ".join(role.value for role in (Role if one.right is None else roles_with(one.right)))
    made: dict[str, Any] = {
        "operationId": one.operation,
        "tags": [one.tag],
        "summary": one.summary,
        "description": f"{one.description}\n\nRoles: {roles}.".strip(),
        "parameters": [*_of_path(one), *_of_query(one, components), *_of_header(one)],
        "responses": _responses(one, schema_of),
    }
    if one.given is not None:
        takes = schema_of[one.given]
        if one.enveloped:
            takes = {"oneOf": [schema_of[given] for given, _ in one.enveloped]}
        content = {JSON: {"schema": takes, "example": one.example}} | (_OF_RAW if one.raw else {})
        made["requestBody"] = {"required": True, "content": content}
    return made


def _enveloped(one: Endpoint, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the schema of the older interface's success."""
    data = {"anyOf": [schema_of[answer] for _, answer in one.enveloped]}
    properties = {"success": {"const": True}, "data": data}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _links(name: str, field: str, maker: Endpoint, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the operations that take what was made. A name is that of one kind of thing, an id is of any."""
    return {
        one.operation: {"operationId": one.operation, "parameters": {name: f"$response.body#/{field}"}}
        for one in endpoints
        if one.names == [name] and (name.endswith("_id") or one.tag == maker.tag) and one is not maker
    }


def _of_header(one: Endpoint) -> list[dict[str, Any]]:
    told = (one.method == "POST", _IDEMPOTENCY), (one.heeds_if_match, _IF_MATCH), (one.traced, _TRACEPARENT)
    return [parameter for is_heeded, parameter in told if is_heeded]


def _of_path(one: Endpoint) -> list[dict[str, Any]]:
    number = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": number if name.endswith("_id") else {"type": "string"}}
        for name in one.names
    ]


def _of_query(one: Endpoint, components: Mapping[str, Any]) -> list[dict[str, Any]]:
    properties = components[one.query.__name__].get("properties", {})
    return [
        {"name": name, "in": "query", "description": schema.get("description", ""), "schema": _without_null(schema)}
        for name, schema in properties.items()
    ]


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without null: an absent parameter is left out."""
    made = {name: value for name, value in schema.items() if name not in ("description", "default")}
    others = [inner for inner in made.pop("anyOf", []) if inner != {"type": "null"}]
    return {**made, **others[0]} if len(others) == 1 else made | ({"anyOf": others} if others else {})


def _responses(one: Endpoint, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    schema = _enveloped(one, schema_of) if one.enveloped else schema_of[one.answer]
    content = {"schema": schema, "example": example_of(one)}
    headers = (
        _REQUEST_ID
        | (_ETAG if one.tagged and one.method != "DELETE" else {})
        | (_REPLAYED if one.method == "POST" else {})
    )
    made = {
        status: {"description": one.summary, "headers": headers, "content": {JSON: content}}
        for status in ("200", str(one.status))
    }
    kinds = [
        *_ALWAYS,
        *one.problems,
        *(_WITH_BODY if one.given is not None else ()),
        *((KEY_REUSED, ERASED) if one.method == "POST" else ()),
        *((CONFLICT,) if one.shown_once and CONFLICT not in one.problems else ()),
    ]
    for status in sorted({kind.status for kind in kinds}):
        of_status = [kind for kind in kinds if kind.status == status]
        made[str(status)] = {
            "description": "; or: ".join(kind.title for kind in of_status),
            "headers": _REQUEST_ID | _OF_STATUS.get(status, {}),
            # Errors before the body is read are problem documents in the older interface, too.
            "content": _problem(of_status, schema_of)
            | ({JSON: {"schema": schema_of[Refused], "example": _REFUSED}} if one.enveloped else {}),
        }
    return made


def _problem(kinds: Sequence[Kind], schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        MEDIA_TYPE: {
            "schema": schema_of[Document],
            "examples": {kind.name: {"value": msgspec.json.decode(_example(kind))} for kind in kinds},
        }
    }


def _example(kind: Kind) -> bytes:
    faults = [Fault("$.reason", "is required")] if kind is FAULTY else []
    return Problem(kind, kind.title, faults).document("7d0f2c6a5b3e4f19")

"""The OpenAPI document, made from what the endpoints promise and from nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from agent.api.answers import ErrorAnswer
from agent.api.endpoint import Endpoint, Gives, Listing, Media, Promise
from agent.version import VERSION

Mode = Literal["validation", "serialization"]
REF = "#/components/schemas/{model}"
WORDS = re.compile(r"`(\w+)(?:=\w+)?`: (.*?)(?=\s`\w+(?:=\w+)?`: |$)")
PARAMETER = re.compile(r"\{(\w+)\}")
EVERYWHERE = {
    400: "The request is off: no HTTP, or a query that does not fit",
    405: "The path has no such method; `Allow` says which it has",
    421: "Over TCP: asked under a name that is not this host's",
    429: "Over TCP: asked too often; `Retry-After` says how many seconds to wait",
}
GUARDED = {401: "Over TCP: without a token or a certificate"}
CHANGING = {403: "Over TCP: a page of another site asks"}
WITH_BODY = {408: "The body did not come in time", 413: "The body is too large", 422: "The body does not fit"}
ITS_OWN = {
    400: "Words that mean nothing here",
    404: "There is none of that name",
    409: "Refused, and why",
    422: "What was sent cannot be read as what it should be",
    502: "A source or the runtime said no",
    503: "The runtime does not answer",
    504: "The runtime did not answer in time",
}
ABOUT = (
    "What runs on this host, why, and what can be asked of it. On the unix socket everything is answered; over TCP "
    "what is marked as open, and the rest with a token (`listen.token_file`) or a client certificate "
    "(`listen.tls.client_ca`). An error is always the same object."
)


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "recipe-agent", "version": VERSION, "description": ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas(endpoints),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "certificate": {"type": "mutualTLS"},
            },
        },
    }


class Written:
    """The document as it is sent; made when it is first asked for."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints

    @cached_property
    def text(self) -> bytes:
        return json.dumps(document(self._endpoints), ensure_ascii=False).encode()


def operation(one: Endpoint) -> dict[str, Any]:
    promise = one.promise
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": " ".join((one.handler.__doc__ or "").split()),
        "tags": [tag(one.path)],
        "security": [] if promise.open else [{"token": []}, {"certificate": []}],
        "parameters": [*path_parameters(one.path), *query_parameters(promise.query)],
        "responses": dict(answers_of(one)),
    }
    if promise.body is not None:
        schema = {"application/json": {"schema": reference(promise.body)}}
        found["requestBody"] = {"content": schema, "required": bool(required(promise.body))}
    return found


def tag(path: str) -> str:
    parts = path.split("/")
    return parts[2] if parts[1] == "v1" else "agent"


def required(body: type[BaseModel]) -> list[str]:
    return [name for name, field in body.model_fields.items() if field.is_required()]


def path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for name in PARAMETER.findall(path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def query_parameters(query: type[BaseModel] | None) -> Iterator[dict[str, Any]]:
    """One parameter a field. A query has no null: what may be left out is left out."""
    if query is None:
        return
    schema = query.model_json_schema(ref_template=REF)
    about = {name.strip(): words for name, words in described(query)}
    for name, inner in schema.get("properties", {}).items():
        options = [one for one in inner.get("anyOf", [inner]) if one.get("type") != "null"]
        shown = {key: value for key, value in options[0].items() if key != "title"}
        yield {"name": name, "in": "query", "required": False, "description": about.get(name, ""), "schema": shown}


def described(query: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Words about each field, from the docstrings: "`after`: those with a greater `seq`."."""
    for model in query.__mro__:
        for match in re.finditer(
            r"`(\w+)(?:=\w+)?`: (.*?)(?=\s`\w+(?:=\w+)?`: |$)", " ".join((model.__doc__ or "").split())
        ):
            yield match[1], match[2]


def answers_of(one: Endpoint) -> Iterator[tuple[str, Any]]:
    """Every status that it may answer, by its number."""
    promise = one.promise
    found = {status: good(status, gives, promise) for status, gives in promise.gives.items()}
    failing = dict(EVERYWHERE)
    failing |= {} if promise.open else GUARDED
    failing |= CHANGING if one.method not in ("GET", "HEAD") else {}
    failing |= WITH_BODY if promise.body is not None else {}
    failing |= {status: ITS_OWN[status] for status in promise.fails}
    for status, about in failing.items():
        found.setdefault(status, {"description": about, "content": json_content(reference(ErrorAnswer))})
    for status in sorted(found):
        yield str(status), found[status]


def good(status: int, gives: Gives, promise: Promise) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "As asked" if status < 300 else "Not so"}
    content: dict[str, Any] = {}
    for one in gives if isinstance(gives, tuple) else (gives,):
        content |= content_of(one)
    answer["content"] = content
    if promise.located:
        answer["headers"] = {
            "Location": {"description": "Where its progress is", "required": True, "schema": {"type": "string"}}
        }
    return answer


def content_of(one: Gives) -> dict[str, Any]:
    if isinstance(one, Media):
        return {one.kind: {"schema": {"type": "string", "description": one.about}}}
    if isinstance(one, Listing):
        return json_content({"type": "array", "items": reference(one.item)})
    assert isinstance(one, type)  # noqa: S101 - for the type checker
    return json_content(reference(one))


def json_content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def reference(shape: type) -> dict[str, Any]:
    if issubclass(shape, BaseModel):
        return {"$ref": REF.format(model=shape.__name__)}
    return TypeAdapter(shape).json_schema()


def schemas(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Every shape by its name: bodies as they are read, answers as they are written."""
    bodies = {one.promise.body for one in endpoints if one.promise.body is not None}
    given: set[type[BaseModel]] = {ErrorAnswer}
    given |= {shape for one in endpoints for gives in one.promise.gives.values() for shape in shapes_of(gives)}
    wanted: list[tuple[type[BaseModel], Mode]] = [(shape, "validation") for shape in bodies]
    wanted += [(shape, "serialization") for shape in given]
    wanted.sort(key=by_name)
    _, made = models_json_schema(wanted, ref_template=REF)
    found: dict[str, Any] = made["$defs"]
    return found


def by_name(pair: tuple[type[BaseModel], Mode]) -> str:
    return pair[0].__name__


def shapes_of(gives: Gives) -> Iterator[type[BaseModel]]:
    for one in gives if isinstance(gives, tuple) else (gives,):
        item = one.item if isinstance(one, Listing) else one
        if isinstance(item, type) and issubclass(item, BaseModel):
            yield item

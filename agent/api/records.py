"""The agent itself: is it well, what it measured, what it kept, what its host is, what it can be asked."""

from __future__ import annotations

from aiohttp import web
from pydantic import ConfigDict, JsonValue

from agent.api import answers
from agent.api.endpoint import Endpoints, Listing, Media, Promise, query_of, reply
from agent.api.openapi import Written
from agent.api.planned import Host
from agent.api.routes import DESK
from agent.api.shapes import OfOne

records = Endpoints()
DOCUMENT = web.AppKey("document", Written)
WORD = Media("text/plain", "One line")
EXPOSITION = Media("text/plain", "Prometheus text, version 0.0.4")
ARCHIVE = Media("application/gzip", "The evidence as .tar.gz")


class Document(answers.Answer):
    """An OpenAPI 3.1 document."""

    model_config = ConfigDict(frozen=True, extra="allow")
    openapi: str
    info: dict[str, JsonValue]
    paths: dict[str, JsonValue]


@records.add("GET", "/healthz", Promise({200: WORD}, open=True))
async def healthz(_: web.Request) -> web.Response:
    """The process answers."""
    return web.Response(text="ok\n")


@records.add("GET", "/readyz", Promise({200: WORD, 503: WORD}, open=True))
async def readyz(request: web.Request) -> web.Response:
    """Every loop turns; 503 says which one does not."""
    why = request.app[DESK].ready()
    return web.Response(text="ok\n") if why is None else web.Response(text=f"{why}\n", status=503)


@records.add("GET", "/metrics", Promise({200: EXPOSITION}, open=True))
async def metrics(request: web.Request) -> web.Response:
    """Everything measured, for Prometheus."""
    body = request.app[DESK].metrics()
    return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


@records.add("GET", "/openapi.json", Promise({200: Document}, open=True))
async def openapi(request: web.Request) -> web.Response:
    """This document."""
    return web.Response(body=request.app[DOCUMENT].text, content_type="application/json")


@records.add("GET", "/v1/incidents", Promise({200: Listing(answers.Incident)}, query=OfOne))
async def incidents(request: web.Request) -> web.Response:
    """Kept incidents, the oldest first."""
    found = await request.app[DESK].incidents(query_of(request, OfOne).slug)
    return reply([answers.Incident.model_validate(one) for one in found])


@records.add("GET", "/v1/incidents/{id}", Promise({200: answers.WholeIncident}, fails=(404,)))
async def incident(request: web.Request) -> web.Response:
    """One incident."""
    return reply(answers.WholeIncident.model_validate(await request.app[DESK].incident(request.match_info["id"])))


@records.add("GET", "/v1/incidents/{id}/export", Promise({200: ARCHIVE}, fails=(404,)))
async def export(request: web.Request) -> web.Response:
    """One incident as a .tar.gz."""
    body = await request.app[DESK].incident_archive(request.match_info["id"])
    return web.Response(body=body, content_type="application/gzip")


@records.add("GET", "/v1/host", Promise({200: Host}))
async def host(request: web.Request) -> web.Response:
    """What this host is."""
    return reply(Host.model_validate(await request.app[DESK].host()))

"""What is asked of one client about containers and images; everything here blocks and runs in a thread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from docker import APIClient
from docker.errors import APIError, ImageNotFound

from agent.adapters import docker_views as views
from agent.adapters.docker_errors import DockerGone, DockerRejected, DockerStillRuns, has_ended, is_going, is_gone
from agent.adapters.docker_vantage import Vantage
from agent.container.port import LABEL_RECIPE, ContainerSpec, ContainerView, ImageFacts, RunState
from agent.launch.api_keys import unknown_keys
from agent.logger import logger

LOOK_S = 0.1
"""How often it is looked whether a container that is being removed is gone."""

_LIVE = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.RESTARTING})


def inspect(client: APIClient, name_or_id: str) -> Mapping[str, Any] | None:
    """GET /containers/…/json; None where there is none."""
    if not name_or_id:
        return None
    try:
        document: Mapping[str, Any] = client.inspect_container(name_or_id)
    except APIError as error:
        if is_gone(error):
            return None
        raise
    return document


def lacks(client: APIClient, vantage: Vantage) -> str:
    """What the agent's own container does not have of the host."""
    return vantage.lacks(partial(inspect, client))


def view(client: APIClient, name_or_id: str, vantage: Vantage) -> tuple[Mapping[str, Any] | None, ContainerView | None]:
    """The Engine's document and ours of it, as it is seen from where the agent is; None where there is none."""
    document = inspect(client, name_or_id)
    found = views.view_of(document) if document is not None else None
    return document, vantage.seen(found, lacks(client, vantage)) if found is not None else None


def ours(client: APIClient, vantage: Vantage, slug: str | None = None) -> tuple[ContainerView, ...]:
    """All of ours, or those of one deployment; one that vanishes between the list and the look is left out."""
    found = client.containers(all=True, filters={"label": LABEL_RECIPE if slug is None else f"{LABEL_RECIPE}={slug}"})
    documents = (inspect(client, item["Id"]) for item in found)
    looks = (views.view_of(document) for document in documents if document is not None)
    lacking = lacks(client, vantage) if found else ""
    return tuple(vantage.seen(view, lacking) for view in looks if view is not None)


def create(client: APIClient, spec: ContainerSpec) -> str:
    """Post the body as it is; refused where the Engine would drop a part of it without a word."""
    if unknown := unknown_keys(spec.body, client.api_version):
        raise DockerRejected(
            action=f"create {spec.name}",
            why=f"this Engine (API {client.api_version}) does not know {', '.join(unknown)}",
            advice="a newer Docker Engine knows it; without it the launch would not be what its author wrote",
        )
    answer = client.create_container_from_config(  # type: ignore[no-untyped-call]
        dict(spec.body), name=spec.name, platform=spec.platform
    )
    for warning in answer.get("Warnings") or ():
        logger().warning("docker warns at create", container=spec.name, warning=warning)
    return str(answer["Id"])


def start(client: APIClient, container_id: str) -> None:
    """Start what was created; what has run before is not run again, since each start is a new generation."""
    document = inspect(client, container_id)
    if document is None:
        raise DockerGone(action="start it", container=container_id)
    name, status = views.name_of(document), (document.get("State") or {}).get("Status")
    if status != RunState.CREATED:
        advice = "each start is a new generation: create the next one"
        raise DockerRejected(action=f"start {name}", why=f"it was started before (it is {status})", advice=advice)
    try:
        client.start(container_id)
    except APIError as error:
        if is_gone(error):
            raise DockerGone(action="start it", container=container_id) from error
        raise


def signal(client: APIClient, container_id: str, name: str) -> None:
    """To its first process; one that is not there or does not run is no error."""
    if not container_id:
        return
    try:
        client.kill(container_id, f"SIG{name.removeprefix('SIG')}")
    except APIError as error:
        if not is_gone(error) and not has_ended(error):
            raise


def remove(client: APIClient, container_id: str, deadline: float) -> None:
    """Remove it with its anonymous volumes, as `--rm` would, and wait until its name is free.

    TimeoutError at `deadline` (monotonic seconds).
    """
    document = inspect(client, container_id)
    if document is None:
        return
    name = views.name_of(document)
    if (document.get("State") or {}).get("Status") in _LIVE:
        raise DockerStillRuns(action=f"remove {name}")
    try:
        client.remove_container(container_id, v=True, force=True)
    except APIError as error:
        if not is_gone(error) and not is_going(error):
            raise
    while _holds(client, container_id, name):
        if time.monotonic() + LOOK_S > deadline:
            raise TimeoutError
        time.sleep(LOOK_S)


def _holds(client: APIClient, container_id: str, name: str) -> bool:
    """Whether it is there still, by its id or by its name."""
    if inspect(client, container_id) is not None:
        return True
    holder = inspect(client, name)
    return holder is not None and holder["Id"] == container_id


def image(client: APIClient, reference: str) -> ImageFacts | None:
    """GET /images/…/json; None where there is none."""
    try:
        return views.image_of(client.inspect_image(reference))  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return None

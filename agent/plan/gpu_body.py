"""How a launch names its cards, and the chosen ones in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.plan.gpus import Choice

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"


def asks(body: Mapping[str, Any]) -> bool:
    """Whether a launch asks for NVIDIA's cards in any of the usual ways."""
    host = body.get("HostConfig") or {}
    return bool(host.get("DeviceRequests")) or host.get("Runtime") == "nvidia" or bool(env_value(body, VISIBLE))


def asked_count(body: Mapping[str, Any]) -> int | None:
    """How many cards `--gpus` names; None for all, or where it says nothing."""
    for request in (body.get("HostConfig") or {}).get("DeviceRequests") or ():
        ids, count = request.get("DeviceIDs"), request.get("Count")
        if ids:
            return None if _all(ids) else len(ids)
        if isinstance(count, int) and count > 0:
            return count
    return None


def in_body(body: Mapping[str, Any], choice: Choice) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body with the chosen cards in place of the author's, and what that changed.

    What asks for all cards stays where the chosen ones are all that the host has.
    """
    changed = dict(body)
    if choice.ids:
        changed = _requests(_variables(changed, choice), choice)
    if changed == body:
        return dict(body), ()
    return changed, (f"the launch's cards are replaced by the chosen ones: {', '.join(choice.ids)}",)


def _requests(body: dict[str, Any], choice: Choice) -> dict[str, Any]:
    host = body.get("HostConfig") or {}
    requests = [_request(request, choice) for request in host.get("DeviceRequests") or ()]
    return {**body, "HostConfig": {**host, "DeviceRequests": requests}} if requests else body


def _request(request: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    ids, count = request.get("DeviceIDs"), request.get("Count") or 0
    everything = _all(ids) if ids else count == -1 or count == len(choice.ids)
    if choice.whole and everything:
        return dict(request)
    named = [f"nvidia.com/gpu={one}" for one in choice.ids] if request.get("Driver") == "cdi" else list(choice.ids)
    return {**request, "Count": 0, "DeviceIDs": named}


def _variables(body: dict[str, Any], choice: Choice) -> dict[str, Any]:
    env = body.get("Env")
    if env_value(body, VISIBLE) and not (choice.whole and env_value(body, VISIBLE) == "all"):
        env = _with(env or (), VISIBLE, ",".join(choice.ids))
    if env_value(body, CUDA):  # indices within the container, whatever the cards are outside
        env = _with(env or (), CUDA, ",".join(str(at) for at in range(len(choice.ids))))
    return {**body, "Env": env} if env is not None else body


def _all(ids: Sequence[str]) -> bool:
    return any(str(one) == "all" or str(one).endswith("=all") for one in ids)


def env_value(body: Mapping[str, Any], name: str) -> str:
    """A variable that the body sets, empty where it does not."""
    return next((word.partition("=")[2] for word in body.get("Env") or () if word.startswith(f"{name}=")), "")


def _with(env: Sequence[str], name: str, value: str) -> list[str]:
    return [f"{name}={value}" if word.startswith(f"{name}=") else word for word in env]

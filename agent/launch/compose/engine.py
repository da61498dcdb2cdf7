"""Which services of a compose file serve a model: by what they run, by their image, by the GPUs they reserve."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.launch.compose.values import texts, words
from agent.launch.programs import serves

_IMAGES = re.compile(
    r"vllm|sglang|llama[._-]?cpp|llama-server|ollama|tensorrt-?llm|trtllm|text-generation-inference|local-?ai\b|lmdeploy|"
    r"tabby(?:api|ml)|exllama|koboldcpp|/nim/|infinity\b|text-embeddings-inference|tritonserver|aphrodite|mlc-llm|ktransformers",
    re.IGNORECASE,
)

_GPU_DEVICES = re.compile(r"nvidia\.com/gpu|amd\.com/gpu|/dev/nvidia|/dev/kfd")


def is_engine(service: Mapping[str, Any]) -> bool:
    """Whether a service is one. A helper that only shares an engine's image (its entrypoint is a shell) is none."""
    if has_gpu(service):
        return True
    entrypoint, command = words(service.get("entrypoint")), words(service.get("command"))
    if serves([*(entrypoint or []), *(command or [])]):
        return True
    return not entrypoint and bool(_IMAGES.search(str(service.get("image") or "")))


def has_gpu(service: Mapping[str, Any]) -> bool:
    """Whether GPUs are asked for, in any of the ways there are."""
    reserved = _below(service, "deploy", "resources", "reservations", "devices")
    devices = reserved if isinstance(reserved, list) else []
    for device in devices:
        capabilities = device.get("capabilities") if isinstance(device, Mapping) else None
        if "gpu" in texts(capabilities):
            return True
    named = any(_GPU_DEVICES.match(device) for device in texts(service.get("devices")))
    return bool(service.get("gpus")) or service.get("runtime") == "nvidia" or named


def _below(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value

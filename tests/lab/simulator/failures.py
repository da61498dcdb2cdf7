"""The classes of failed starts: where each is raised, and the exception's last line, as the libraries word it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Where = Literal["command line", "server", "core", "worker"]


@dataclass(frozen=True, slots=True)
class Class:
    """One class of failure: where it is raised, and the exception's last line."""

    where: Where
    error: str


CLASSES: dict[str, Class] = {
    "bad_flag": Class("command line", ""),
    "port": Class("server", "OSError: [Errno 98] Address already in use"),
    "bad_path": Class(
        "server",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
        "{model!r}. Use `repo_type` argument if needed.",
    ),
    "missing_model": Class(
        "server",
        "OSError: {model} is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'",
    ),
    "auth": Class(
        "server",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-0-0)\nCannot access gated repo "
        "for url https://huggingface.co/{model}/resolve/main/config.json.",
    ),
    "driver": Class(
        "core",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU "
        "driver.",
    ),
    "arch": Class(
        "core", "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"
    ),
    "gpu_busy": Class(
        "core",
        "ValueError: Free memory on device cuda:0 (21.4/63.6 GiB) on startup is less than desired GPU memory "
        "utilization ({utilization}, {desired:.2f} GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.",
    ),
    "kv_too_small": Class(
        "core",
        "ValueError: To serve at least one request with the models's max seq len ({longest}), ({need:.2f} GiB KV cache "
        "is needed, which is larger than the available KV cache memory ({have:.2f} GiB). Based on the available "
        "memory, the estimated maximum model length is {tokens}. Try increasing `gpu_memory_utilization` or decreasing "
        "`max_model_len` when initializing the engine.",
    ),
    "oom": Class(
        "worker",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 63.61 "
        "GiB of which 1.12 GiB is free.",
    ),
    "truncated_weights": Class(
        "worker",
        "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file "
        "not fully covered",
    ),
    "missing_weights": Class(
        "worker",
        "FileNotFoundError: No such file or directory: '{model}/model-00002-of-00008.safetensors'",
    ),
}  # fmt: skip

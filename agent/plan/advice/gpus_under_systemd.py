"""`--gpus` alone: with systemd's cgroups a `systemctl daemon-reload` takes the cards away from running containers.

Devices that are part of the container's own configuration (the nvidia runtime, CDI names) stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule


def look(case: Case) -> Iterator[tuple[str, str]]:
    requests = case.host.get("DeviceRequests") or ()
    by_flag = any(request.get("Driver") != "cdi" for request in requests)
    if case.contained and by_flag and case.host.get("Runtime") != "nvidia":
        yield (
            "a systemctl daemon-reload can take the cards away from a container that has them by --gpus",
            "make nvidia the default runtime, or use --device nvidia.com/gpu=all in launch.line",
        )


RULE = Rule("gpus.systemd", "NVIDIA/nvidia-container-toolkit#48", look)

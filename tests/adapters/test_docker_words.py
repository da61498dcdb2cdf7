"""What Docker and NVIDIA's container runtime refuse a start with, and what their own words advise."""

from __future__ import annotations

import pytest
import requests
from docker.errors import APIError

from agent.adapters.docker_errors import DockerFailed, DockerPortTaken, DockerRejected, said

HOOK = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: error running prestart hook #0: exit status 1, "
    "stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: "
)


def refused(words: str) -> APIError:
    response = requests.Response()
    response.status_code = 500
    return APIError("500 Server Error", response, explanation=words)


@pytest.mark.parametrize(
    ("words", "kind", "advice"),
    [
        (
            HOOK + "initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no "
            "such file or directory: unknown",
            DockerRejected,
            "driver's libraries",
        ),
        (HOOK + "initialization error: nvml error: driver not loaded: unknown", DockerRejected, "modprobe nvidia"),
        (
            HOOK + "initialization error: nvml error: driver/library version mismatch: unknown",
            DockerRejected,
            "since an upgrade",
        ),
        (
            HOOK + "requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version",
            DockerRejected,
            "older than the image asks for",
        ),
        (HOOK + "device error: 4: unknown device: unknown", DockerRejected, "a chosen GPU is not there"),
        (
            HOOK + "ldcache error: open failed: /sbin/ldconfig.real: no such file or directory: unknown",
            DockerRejected,
            "config.toml",
        ),
        (
            HOOK + "container error: cgroup subsystem devices not found: unknown",
            DockerRejected,
            "toolkit is too old",
        ),
        ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all", DockerRejected, "nvidia-ctk cdi"),
        (
            "failed to discover GPU vendor from CDI: no known GPU vendor found",
            DockerRejected,
            "nvidia-ctk cdi",
        ),
        ('could not select device driver "" with capabilities: [[gpu]]', DockerRejected, "nvidia-container-toolkit"),
        (
            "failed to create task for container: exec: no such file or directory: unknown",
            DockerRejected,
            "no such program",
        ),
        ("failed to set up container networking: port is already allocated", DockerPortTaken, "ss -ltnp"),
        ("write /var/lib/docker/x: no space left on device", DockerFailed, "docker system df"),
    ],
)
def test_the_advice_fits_the_words(words, kind, advice):
    found = said(refused(words), "start engine")
    assert type(found) is kind
    assert advice in found.advice

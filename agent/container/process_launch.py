"""What of a container body a plain process can keep, and what it cannot (pure).

A plain process shares the host's files, network, users and devices. What the body asks for falls into three parts:
what means the same there, what is only a comfort or a limit and is named as a note (Docker itself discards limits that
its kernel lacks with a warning), and what the launch relies on or what protects the host: that is refused in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProcessLaunch:
    """A command line, what is added to its environment, and where it runs (None: the runtime's choice)."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None


def process_launch(body: Mapping[str, Any]) -> ProcessLaunch:
    """The command line in a body: entrypoint, then command. GPU ids become `CUDA_VISIBLE_DEVICES`."""
    env = dict(_assignment(entry) for entry in body.get("Env") or () if "=" in entry)
    return ProcessLaunch(_argv(body), _gpu_env(_host(body)) | env, body.get("WorkingDir") or None)


def process_problems(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Why this body cannot be run as a plain process: one sentence each, empty where it can."""
    host = _host(body)
    found = [*_command_problems(body), *_gpu_problems(host), *_port_problems(host), *_network_problems(body)]
    found += [f"it sets {words}" for key, words in _TOP_REFUSED.items() if _says(body.get(key))]
    found += [f"it sets {words}" for key, words in _HOST_REFUSED.items() if _says(host.get(key))]
    found += [f"it shares {words} of another container" for key, words in _SHARED.items() if _of_other(host.get(key))]
    if any(not _loosens(option) for option in host.get("SecurityOpt") or ()):
        found.append("it sets security options (--security-opt), which only a container can keep")
    found += [f"it sets {key}, which a plain process has nothing for" for key in _unknown(body, host)]
    return tuple(found)


def process_notes(body: Mapping[str, Any]) -> tuple[str, ...]:
    """What of the body is left away without harm: one sentence each."""
    host = _host(body)
    notes = [f"{words} not applied to a plain process" for key, words in _NOTED.items() if _says(host.get(key))]
    if body.get("Image"):
        notes.append(f"the image {body['Image']} is not used: the program is the host's own")
    return tuple(notes)


_TOP_REFUSED = {
    "User": "a user (--user): a plain process runs as the agent's own",
    "Volumes": "volumes",
    "MacAddress": "a MAC address",
    "NetworkDisabled": "no network",
}
_HOST_REFUSED = {
    "Binds": "mounts (-v): a plain process sees the host's own paths",
    "Mounts": "mounts (--mount): a plain process sees the host's own paths",
    "Tmpfs": "tmpfs mounts",
    "VolumesFrom": "volumes of another container",
    "Privileged": "--privileged",
    "CapAdd": "capabilities (--cap-add)",
    "CapDrop": "dropped capabilities (--cap-drop), which would not be dropped",
    "Devices": "devices (--device)",
    "DeviceCgroupRules": "device rules",
    "ReadonlyRootfs": "a read-only root file system, which would not be read-only",
    "Links": "links",
    "ExtraHosts": "host names of its own (--add-host)",
    "Dns": "name servers of its own (--dns)",
    "DnsSearch": "search domains of its own",
    "DnsOptions": "resolver options of its own",
    "Sysctls": "kernel parameters of its own (--sysctl)",
    "GroupAdd": "groups (--group-add)",
    "StorageOpt": "storage options",
}
_SHARED = {"IpcMode": "the IPC space", "PidMode": "the processes", "NetworkMode": "the network"}
_NOTED = {
    "Ulimits": "limits (--ulimit) are",
    "ShmSize": "the size of /dev/shm is",
    "Memory": "the memory limit is",
    "MemoryReservation": "the memory reservation is",
    "MemorySwap": "the swap limit is",
    "MemorySwappiness": "the swappiness is",
    "KernelMemory": "the kernel memory limit is",
    "NanoCpus": "the CPU limit is",
    "CpuShares": "CPU shares are",
    "CpuPeriod": "the CPU period is",
    "CpuQuota": "the CPU quota is",
    "CpuRealtimePeriod": "the real-time CPU period is",
    "CpuRealtimeRuntime": "the real-time CPU share is",
    "CpusetCpus": "the choice of CPUs is",
    "CpusetMems": "the choice of memory nodes is",
    "PidsLimit": "the limit of processes is",
    "BlkioWeight": "the block I/O weight is",
    "BlkioWeightDevice": "block I/O weights are",
    "BlkioDeviceReadBps": "block I/O limits are",
    "BlkioDeviceWriteBps": "block I/O limits are",
    "BlkioDeviceReadIOps": "block I/O limits are",
    "BlkioDeviceWriteIOps": "block I/O limits are",
    "OomScoreAdj": "the OOM score is",
    "OomKillDisable": "the OOM exemption is",
    "CgroupParent": "the parent cgroup is",
    "Runtime": "the OCI runtime is",
    "Annotations": "annotations are",
    "PublishAllPorts": "the publishing of all ports is",
}
_TOP_PLAIN = frozenset(
    {
        "Hostname",
        "Domainname",
        "Env",
        "Cmd",
        "Entrypoint",
        "Image",
        "WorkingDir",
        "Labels",
        "ExposedPorts",
        "Healthcheck",
        "StopSignal",
        "StopTimeout",
        "AttachStdin",
        "AttachStdout",
        "AttachStderr",
        "Tty",
        "OpenStdin",
        "StdinOnce",
        "Shell",
        "OnBuild",
        "ArgsEscaped",
        "HostConfig",
        "NetworkingConfig",
    }
)
_HOST_PLAIN = frozenset(
    {
        "NetworkMode",
        "PortBindings",
        "RestartPolicy",
        "AutoRemove",
        "LogConfig",
        "DeviceRequests",
        "IpcMode",
        "PidMode",
        "UTSMode",
        "UsernsMode",
        "CgroupnsMode",
        "Cgroup",
        "SecurityOpt",
        "Init",
        "ConsoleSize",
        "Isolation",
        "ContainerIDFile",
        "VolumeDriver",
        "MaskedPaths",
        "ReadonlyPaths",
        "IOMaximumBandwidth",
        "IOMaximumIOps",
        "CpuCount",
        "CpuPercent",
    }
)


def _unknown(body: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    yield from (key for key in body if _says(body[key]) and key not in _TOP_PLAIN | _TOP_REFUSED.keys())
    known = _HOST_PLAIN | _HOST_REFUSED.keys() | _NOTED.keys()
    yield from (f"HostConfig.{key}" for key in host if _says(host[key]) and key not in known)


def _says(value: Any) -> bool:
    """Whether a value asks for anything: the CLI sends every key with its zero, and -1 for "no limit"."""
    return bool(value) and value != -1


def _command_problems(body: Mapping[str, Any]) -> Iterator[str]:
    argv = _argv(body)
    if not argv:
        yield "it names no program: what would run stands only in its image"
    elif argv[0].startswith("-"):
        yield f"it names no program: {argv[0]} is an argument for the program of its image"
    if any("\0" in word for word in argv):
        yield "a word of its command line holds a NUL byte"


def _gpu_problems(host: Mapping[str, Any]) -> Iterator[str]:
    requests = host.get("DeviceRequests") or ()
    if len(requests) > 1:
        yield "it asks for devices more than once (--gpus)"
    for request in requests:
        capabilities = {name for group in request.get("Capabilities") or () for name in group}
        if request.get("Driver") not in (None, "", "nvidia") or "gpu" not in capabilities:
            yield f"it asks for devices of the driver {request.get('Driver') or 'of another kind'}"
        elif request.get("DeviceIDs") and request.get("Count"):
            yield "it asks for a count of GPUs and for named ones at once"


def _port_problems(host: Mapping[str, Any]) -> Iterator[str]:
    for inner, bindings in (host.get("PortBindings") or {}).items():
        number, _, protocol = inner.partition("/")
        for binding in bindings or ():
            outer, address = binding.get("HostPort") or number, binding.get("HostIp") or ""
            if outer != number:
                yield f"it publishes port {number} as {outer}: a plain process listens where its own arguments say"
            if address not in _ANY_ADDRESS:
                yield f"it publishes port {number} on {address} alone: a plain process listens where its arguments say"
            if protocol not in ("", "tcp", "udp"):
                yield f"it publishes port {inner}"


_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, never listened on


def _network_problems(body: Mapping[str, Any]) -> Iterator[str]:
    mode = _host(body).get("NetworkMode") or "default"
    endpoints = (body.get("NetworkingConfig") or {}).get("EndpointsConfig") or {}
    if mode not in ("default", "bridge", "host") and not _of_other(mode):
        yield f"it joins the network {mode}"
    for name, endpoint in endpoints.items():
        if any(_says(value) for value in (endpoint or {}).values()):
            yield f"it sets its place in the network {name}"
        elif name not in ("default", "bridge", "host", mode):
            yield f"it joins the network {name}"


def _loosens(option: str) -> bool:
    """`unconfined` and `disable` ask for fewer fences, and a plain process has none."""
    return option.replace(":", "=").endswith(("=unconfined", "=disable"))


def _of_other(mode: Any) -> bool:
    return isinstance(mode, str) and mode.startswith("container:")


def _argv(body: Mapping[str, Any]) -> tuple[str, ...]:
    return (*_words(body.get("Entrypoint")), *_words(body.get("Cmd")))


def _words(value: Any) -> tuple[str, ...]:
    """A list of words; one string is one word, as the Engine reads it; `[""]` resets an entrypoint."""
    words = (value,) if isinstance(value, str) else tuple(value or ())
    return () if words == ("",) else words


def _gpu_env(host: Mapping[str, Any]) -> dict[str, str]:
    """The choice of GPUs as CUDA reads it; by the order of the bus, which is how NVML and the toolkit count."""
    for request in host.get("DeviceRequests") or ():
        ids, count = request.get("DeviceIDs") or (), request.get("Count") or 0
        chosen = [str(item) for item in ids] or [str(index) for index in range(max(count, 0))]
        if chosen:
            return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(chosen)}
    return {}


def _host(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return body.get("HostConfig") or {}


def _assignment(entry: str) -> tuple[str, str]:
    name, _, value = entry.partition("=")
    return name, value

"""The host's half of a create body: mounts, ports, devices, limits, namespaces."""

from __future__ import annotations

from typing import Any

from agent.launch.cli import CommandLine
from agent.launch.flags import devices, networks, resources, security, volumes
from agent.launch.flags.kinds import Given, pairs, refuse
from agent.launch.flags.ports import Published
from agent.launch.model import Context


def host_config(line: CommandLine, context: Context, published: list[Published]) -> dict[str, Any]:
    """`HostConfig`. Raises Malformed, FileUnread, UnknownDirectory."""
    given = line.given
    binds, _ = volumes.split(given.list("volume"), context)
    options, opened = security.options(given["security-opt"], context)
    swappiness = given.number("memory-swappiness")
    in_range = swappiness == -1 or 0 <= swappiness <= 100
    refuse(not in_range, f"invalid value: {swappiness}. Valid memory swappiness range is 0-100")
    config: dict[str, Any] = {
        "Binds": binds or None,
        "ContainerIDFile": given["cidfile"],
        "LogConfig": _log_config(given),
        "NetworkMode": networks.mode(given),
        "PortBindings": _bindings(published),
        "RestartPolicy": _restart(given),
        "AutoRemove": given["rm"],
        "VolumeDriver": given["volume-driver"],
        "VolumesFrom": given["volumes-from"] or None,
        "ConsoleSize": [0, 0],
        "Annotations": pairs(given["annotation"]),
        "CapAdd": security.capabilities(given["cap-add"]),
        "CapDrop": security.capabilities(given["cap-drop"]),
        "GroupAdd": given["group-add"] or None,
        "Cgroup": "",
        "OomScoreAdj": given["oom-score-adj"],
        "Privileged": given["privileged"],
        "PublishAllPorts": given["publish-all"],
        "ReadonlyRootfs": given["read-only"],
        "SecurityOpt": options,
        "StorageOpt": _storage(given),
        "Tmpfs": _tmpfs(given),
        "ShmSize": given["shm-size"],
        "Sysctls": pairs(given["sysctl"]),
        "Runtime": given["runtime"],
        "Isolation": given["isolation"],
        **_namespaces(given),
        **_names(given),
        **_resources(given),
        "MemorySwappiness": swappiness,
        "Mounts": given["mount"],
        **security.masked(opened),
        "Init": given["init"] if "init" in given.changed else None,
    }
    for key in ("Annotations", "StorageOpt", "Tmpfs", "Sysctls", "Runtime", "Mounts", "Init"):
        if config[key] is None or config[key] in ({}, "", []):
            del config[key]
    return config


def _namespaces(given: Given) -> dict[str, str]:
    return {
        "CgroupnsMode": security.cgroupns(given["cgroupns"]),
        "IpcMode": given["ipc"],
        "PidMode": security.pid(given["pid"]),
        "UTSMode": security.uts(given["uts"]),
        "UsernsMode": security.userns(given["userns"]),
    }


def _names(given: Given) -> dict[str, Any]:
    """How the container finds others by name."""
    return {
        "Dns": given["dns"],
        "DnsOptions": given["dns-option"],
        "DnsSearch": given["dns-search"],
        "ExtraHosts": given["add-host"] or None,
        "Links": given["link"] or None,
    }


def _bindings(published: list[Published]) -> dict[str, list[dict[str, str]]]:
    bindings: dict[str, list[dict[str, str]]] = {}
    for port in published:
        bindings.setdefault(port.container, []).append({"HostIp": port.address, "HostPort": port.port})
    return bindings


def _log_config(given: Given) -> dict[str, Any]:
    driver, options = given["log-driver"], given["log-opt"]
    refuse(driver == "none" and bool(options), "invalid logging opts for driver none")
    return {"Type": driver, "Config": pairs(options)}


def _storage(given: Given) -> dict[str, str]:
    options: list[str] = given["storage-opt"]
    refuse(any("=" not in option for option in options), "invalid storage option")
    return pairs(options)


def _device_requests(given: Given) -> list[dict[str, Any]] | None:
    requests = list(given["gpus"])
    cdi = [name for name in given["device"] if devices.is_cdi(name)]
    if cdi:
        requests.append({"Driver": "cdi", "Count": 0, "DeviceIDs": cdi, "Capabilities": None, "Options": None})
    return requests or None


def _tmpfs(given: Given) -> dict[str, str]:
    """The path ends at the first colon."""
    return {path: options for path, _, options in (spec.partition(":") for spec in given["tmpfs"])}


def _restart(given: Given) -> dict[str, Any]:
    policy = resources.restart(given["restart"])
    conflict = given.on("rm") and policy["Name"] not in ("", "no")
    refuse(conflict, "conflicting options: cannot specify both --restart and --rm")
    return policy


def _resources(given: Given) -> dict[str, Any]:
    return {
        "CpuShares": given["cpu-shares"],
        "Memory": given["memory"],
        "NanoCpus": given["cpus"],
        "CgroupParent": given["cgroup-parent"],
        "BlkioWeight": given["blkio-weight"],
        "BlkioWeightDevice": given["blkio-weight-device"],
        "BlkioDeviceReadBps": given["device-read-bps"],
        "BlkioDeviceWriteBps": given["device-write-bps"],
        "BlkioDeviceReadIOps": given["device-read-iops"],
        "BlkioDeviceWriteIOps": given["device-write-iops"],
        "CpuPeriod": given["cpu-period"],
        "CpuQuota": given["cpu-quota"],
        "CpuRealtimePeriod": given["cpu-rt-period"],
        "CpuRealtimeRuntime": given["cpu-rt-runtime"],
        "CpusetCpus": given["cpuset-cpus"],
        "CpusetMems": given["cpuset-mems"],
        "Devices": [devices.mapping(name) for name in given["device"] if not devices.is_cdi(name)],
        "DeviceCgroupRules": given["device-cgroup-rule"] or None,
        "DeviceRequests": _device_requests(given),
        "MemoryReservation": given["memory-reservation"],
        "MemorySwap": given["memory-swap"],
        "OomKillDisable": given["oom-kill-disable"],
        "PidsLimit": given["pids-limit"],
        "Ulimits": resources.sorted_ulimits(given["ulimit"]),
        "CpuCount": 0,
        "CpuPercent": 0,
        "IOMaximumIOps": 0,
        "IOMaximumBandwidth": 0,
    }

"""Everything of a body that one flag says by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from agent.launch.writing.record import record

_TEXTS = {
    "Hostname": "--hostname",
    "Domainname": "--domainname",
    "User": "--user",
    "WorkingDir": "--workdir",
    "StopSignal": "--stop-signal",
}
_HOST_TEXTS = {
    "VolumeDriver": "--volume-driver",
    "CgroupnsMode": "--cgroupns",
    "IpcMode": "--ipc",
    "PidMode": "--pid",
    "UTSMode": "--uts",
    "UsernsMode": "--userns",
    "Isolation": "--isolation",
    "CgroupParent": "--cgroup-parent",
    "CpusetCpus": "--cpuset-cpus",
    "CpusetMems": "--cpuset-mems",
    "Runtime": "--runtime",
}
_HOST_NUMBERS = {
    "ShmSize": "--shm-size",
    "Memory": "--memory",
    "MemoryReservation": "--memory-reservation",
    "MemorySwap": "--memory-swap",
    "CpuShares": "--cpu-shares",
    "CpuPeriod": "--cpu-period",
    "CpuQuota": "--cpu-quota",
    "CpuRealtimePeriod": "--cpu-rt-period",
    "CpuRealtimeRuntime": "--cpu-rt-runtime",
    "BlkioWeight": "--blkio-weight",
    "OomScoreAdj": "--oom-score-adj",
    "PidsLimit": "--pids-limit",
}
_HOST_SWITCHES = {
    "Privileged": "--privileged",
    "PublishAllPorts": "--publish-all",
    "ReadonlyRootfs": "--read-only",
    "OomKillDisable": "--oom-kill-disable",
}
_HOST_LISTS = {
    "Binds": "-v",
    "VolumesFrom": "--volumes-from",
    "CapAdd": "--cap-add",
    "CapDrop": "--cap-drop",
    "GroupAdd": "--group-add",
    "SecurityOpt": "--security-opt",
}
_HOST_MAPS = {"Annotations": "--annotation", "StorageOpt": "--storage-opt", "Sysctls": "--sysctl"}


def flags(body: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    """Texts, numbers, switches, lists and maps, in a fixed order."""
    for source, table in ((body, _TEXTS), (host, _HOST_TEXTS), (host, _HOST_NUMBERS)):
        for key, flag in table.items():
            if source.get(key):
                yield from (flag, str(source[key]))
    yield from (flag for key, flag in _HOST_SWITCHES.items() if host.get(key))
    for key, flag in _HOST_LISTS.items():
        for value in host.get(key) or []:
            yield from (flag, str(value))
    for key, flag in _HOST_MAPS.items():
        for name, value in (host.get(key) or {}).items():
            yield from (flag, f"{name}={value}")
    yield from _special(body, host)
    yield from _health(body.get("Healthcheck") or {})


def _special(body: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    for path in body.get("Volumes") or {}:
        yield from ("-v", path)
    for name, value in (body.get("Labels") or {}).items():
        yield from ("-l", f"{name}={value}")
    if body.get("StopTimeout") is not None:
        yield from ("--stop-timeout", str(body["StopTimeout"]))
    if host.get("Init") is not None:
        yield "--init" if host["Init"] else "--init=false"
    if host.get("NanoCpus"):
        yield from ("--cpus", format(Decimal(host["NanoCpus"]).scaleb(-9).normalize(), "f"))
    if host.get("MemorySwappiness") not in (None, -1):
        yield from ("--memory-swappiness", str(host["MemorySwappiness"]))
    if host.get("MaskedPaths") == [] or host.get("ReadonlyPaths") == []:
        yield from ("--security-opt", "systempaths=unconfined")
    yield from _restart(host.get("RestartPolicy") or {})
    yield from _logs(host.get("LogConfig") or {})
    for path, options in (host.get("Tmpfs") or {}).items():
        yield from ("--tmpfs", f"{path}:{options}" if options else path)
    for limit in host.get("Ulimits") or []:
        soft, hard = limit["Soft"], limit["Hard"]
        yield from ("--ulimit", f"{limit['Name']}={soft}" if soft == hard else f"{limit['Name']}={soft}:{hard}")
    for mount in host.get("Mounts") or []:
        yield from ("--mount", record(_mount(mount)))


def _restart(policy: Mapping[str, Any]) -> Iterator[str]:
    name, count = policy.get("Name", ""), policy.get("MaximumRetryCount") or 0
    if name != "no" or count:
        yield from ("--restart", f"{name}:{count}" if count else name)


def _logs(config: Mapping[str, Any]) -> Iterator[str]:
    if config.get("Type"):
        yield from ("--log-driver", config["Type"])
    for name, value in (config.get("Config") or {}).items():
        yield from ("--log-opt", f"{name}={value}")


def _health(check: Mapping[str, Any]) -> Iterator[str]:
    test = check.get("Test") or []
    if test[:1] == ["NONE"]:
        yield "--no-healthcheck"
        return
    if len(test) == 2 and test[0] == "CMD-SHELL":
        yield from ("--health-cmd", test[1])
    for key, flag in _HEALTH_TIMES.items():
        if check.get(key):
            yield from (flag, f"{check[key]}ns")
    if check.get("Retries"):
        yield from ("--health-retries", str(check["Retries"]))


_HEALTH_TIMES = {
    "Interval": "--health-interval",
    "Timeout": "--health-timeout",
    "StartPeriod": "--health-start-period",
    "StartInterval": "--health-start-interval",
}


def _mount(mount: Mapping[str, Any]) -> Iterator[str]:
    yield f"type={mount.get('Type', 'volume')}"
    for key, name in (("Source", "source"), ("Target", "target"), ("Consistency", "consistency")):
        if mount.get(key):
            yield f"{name}={mount[key]}"
    if mount.get("ReadOnly"):
        yield "readonly"
    yield from _bind(mount.get("BindOptions") or {})
    yield from _volume(mount.get("VolumeOptions") or {})
    if (mount.get("ImageOptions") or {}).get("Subpath"):
        yield f"image-subpath={mount['ImageOptions']['Subpath']}"
    tmpfs = mount.get("TmpfsOptions") or {}
    if tmpfs.get("SizeBytes"):
        yield f"tmpfs-size={tmpfs['SizeBytes']}"
    if tmpfs.get("Mode"):
        yield f"tmpfs-mode={tmpfs['Mode']:o}"


def _bind(options: Mapping[str, Any]) -> Iterator[str]:
    if options.get("Propagation"):
        yield f"bind-propagation={options['Propagation']}"
    for key, word in (
        ("NonRecursive", "disabled"),
        ("ReadOnlyNonRecursive", "writable"),
        ("ReadOnlyForceRecursive", "readonly"),
    ):
        if options.get(key):
            yield f"bind-recursive={word}"


def _volume(options: Mapping[str, Any]) -> Iterator[str]:
    if options.get("NoCopy"):
        yield "volume-nocopy"
    if options.get("Subpath"):
        yield f"volume-subpath={options['Subpath']}"
    for name, value in (options.get("Labels") or {}).items():
        yield f"volume-label={name}={value}"
    driver = options.get("DriverConfig") or {}
    if driver.get("Name"):
        yield f"volume-driver={driver['Name']}"
    for name, value in (driver.get("Options") or {}).items():
        yield f"volume-opt={name}={value}"

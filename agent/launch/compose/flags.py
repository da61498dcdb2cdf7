"""A service's keys in the docker CLI's own words, so that the CLI's rules and checks hold for them too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.launch import golang
from agent.launch.compose.values import duration, items, pairs, text
from agent.launch.refusal import BadCompose

Service = Mapping[str, Any]

TEXTS = {
    "user": "--user",
    "working_dir": "--workdir",
    "hostname": "--hostname",
    "domainname": "--domainname",
    "ipc": "--ipc",
    "pid": "--pid",
    "uts": "--uts",
    "userns_mode": "--userns",
    "cgroup": "--cgroupns",
    "cgroup_parent": "--cgroup-parent",
    "shm_size": "--shm-size",
    "mem_limit": "--memory",
    "mem_reservation": "--memory-reservation",
    "memswap_limit": "--memory-swap",
    "mem_swappiness": "--memory-swappiness",
    "cpus": "--cpus",
    "cpu_shares": "--cpu-shares",
    "cpu_quota": "--cpu-quota",
    "cpu_period": "--cpu-period",
    "cpu_rt_period": "--cpu-rt-period",
    "cpu_rt_runtime": "--cpu-rt-runtime",
    "cpuset": "--cpuset-cpus",
    "pids_limit": "--pids-limit",
    "oom_score_adj": "--oom-score-adj",
    "stop_signal": "--stop-signal",
    "restart": "--restart",
    "runtime": "--runtime",
    "platform": "--platform",
    "isolation": "--isolation",
    "mac_address": "--mac-address",
}
SWITCHES = {
    "privileged": "--privileged",
    "read_only": "--read-only",
    "oom_kill_disable": "--oom-kill-disable",
    "stdin_open": "--interactive",
    "tty": "--tty",
    "init": "--init",
}
LISTS = {
    "cap_add": "--cap-add",
    "cap_drop": "--cap-drop",
    "security_opt": "--security-opt",
    "group_add": "--group-add",
    "devices": "--device",
    "device_cgroup_rules": "--device-cgroup-rule",
    "dns": "--dns",
    "dns_search": "--dns-search",
    "dns_opt": "--dns-option",
    "tmpfs": "--tmpfs",
    "expose": "--expose",
    "volumes_from": "--volumes-from",
}
MAPS = {"sysctls": "--sysctl", "annotations": "--annotation", "storage_opt": "--storage-opt", "labels": "--label"}


def flags(service: Service) -> Iterator[str]:
    """The flags of everything that one flag says. Raises BadCompose."""
    for key, flag in TEXTS.items():
        if service.get(key) is not None:
            yield from (flag, text(service[key], key))
    for key, flag in SWITCHES.items():
        if service.get(key) is not None:
            yield f"{flag}={text(service[key], key)}"
    for key, flag in LISTS.items():
        for item in items(service.get(key), key):
            yield from (flag, _device(item) if key == "devices" and isinstance(item, Mapping) else text(item, key))
    for key, flag in MAPS.items():
        for name, value in pairs(service.get(key), key).items():
            yield from (flag, f"{name}={value or ''}")
    for special in (_ulimits, _hosts, _logging, _ports, _stop, _limits):
        yield from special(service)


def _device(device: Mapping[str, Any]) -> str:
    """The long notation of a device."""
    source = text(device.get("source"), "devices")
    parts = [source, text(device.get("target")) or source, text(device.get("permissions"))]
    return ":".join(part for part in parts if part)


def _ulimits(service: Service) -> Iterator[str]:
    limits = service.get("ulimits") or {}
    if not isinstance(limits, Mapping):
        raise BadCompose(where="ulimits", why="a map is expected", how="write memlock: -1")
    for name, limit in limits.items():
        if isinstance(limit, Mapping):
            yield from ("--ulimit", f"{name}={text(limit.get('soft'))}:{text(limit.get('hard'))}")
        else:
            yield from ("--ulimit", f"{name}={text(limit)}")


def _hosts(service: Service) -> Iterator[str]:
    value = service.get("extra_hosts")
    if isinstance(value, Mapping):
        for name, address in value.items():
            yield from ("--add-host", f"{name}={text(address)}")
        return
    for item in items(value, "extra_hosts"):
        yield from ("--add-host", text(item, "extra_hosts"))


def _logging(service: Service) -> Iterator[str]:
    logging = service.get("logging") or {}
    if not isinstance(logging, Mapping):
        raise BadCompose(where="logging", why="a map is expected", how="write driver: json-file below it")
    if logging.get("driver"):
        yield from ("--log-driver", text(logging["driver"], "logging"))
    for name, value in pairs(logging.get("options"), "logging.options").items():
        yield from ("--log-opt", f"{name}={value or ''}")


def _ports(service: Service) -> Iterator[str]:
    for item in items(service.get("ports"), "ports"):
        yield from ("-p", _port(item) if isinstance(item, Mapping) else text(item, "ports"))


def _port(port: Mapping[str, Any]) -> str:
    """The long notation; its `name` and `app_protocol` say nothing to an engine."""
    if port.get("mode") not in (None, "host", "ingress") or port.get("target") is None:
        raise BadCompose(where="ports", why=f"{dict(port)} names no target", how="write target: 8000")
    published = text(port.get("published"))
    target = f"{text(port['target'])}/{text(port.get('protocol')) or 'tcp'}"
    if port.get("host_ip"):
        address = text(port["host_ip"])
        return f"{f'[{address}]' if ':' in address else address}:{published}:{target}"
    return f"{published}:{target}" if published else target


def _stop(service: Service) -> Iterator[str]:
    if service.get("stop_grace_period") is not None:
        given = duration(service["stop_grace_period"], "stop_grace_period")
        whole = golang.duration(given) // 1_000_000_000
        yield from ("--stop-timeout", str(whole))


def _limits(service: Service) -> Iterator[str]:
    """`deploy.resources`, which compose applies to a single host too."""
    deploy = service.get("deploy") or {}
    resources = (deploy.get("resources") if isinstance(deploy, Mapping) else None) or {}
    limits, reservations = (resources.get("limits") or {}), (resources.get("reservations") or {})
    for key, flag in (("cpus", "--cpus"), ("memory", "--memory"), ("pids", "--pids-limit")):
        if limits.get(key) is not None:
            yield from (flag, text(limits[key], f"deploy.resources.limits.{key}"))
    if reservations.get("memory") is not None:
        yield from ("--memory-reservation", text(reservations["memory"], "deploy.resources.reservations.memory"))
    policy = deploy.get("restart_policy") if isinstance(deploy, Mapping) else None
    if isinstance(policy, Mapping) and service.get("restart") is None:
        yield from ("--restart", _policy(policy))


def _policy(policy: Mapping[str, Any]) -> str:
    words = {"any": "always", "on-failure": "on-failure", "none": "no"}
    condition = text(policy.get("condition")) or "any"
    if condition not in words:
        raise BadCompose(
            where="deploy.restart_policy", why=f"{condition!r} is no condition", how="any, on-failure or none"
        )
    tries = text(policy.get("max_attempts"))
    return f"{words[condition]}:{tries}" if tries and words[condition] == "on-failure" else words[condition]

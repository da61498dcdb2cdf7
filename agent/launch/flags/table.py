"""The table of flags: every one of `docker run` and `docker create` in CLI 28, its hidden spellings too."""

from __future__ import annotations

from typing import Any

from agent.launch.flags import devices, environment, gpus, kinds, mounts, networks, resources
from agent.launch.flags.kinds import Flag, Reader, refuse
from agent.launch.model import Context

RUN = ("run",)


def _many(name: str, read: Reader = kinds.text, short: str = "", **more: Any) -> Flag:
    return Flag(name, read, short, many=True, **more)


def _text(name: str, short: str = "", default: str = "", **more: Any) -> Flag:
    return Flag(name, kinds.text, short, default=default, **more)


def _switch(name: str, short: str = "", *, default: bool = False, **more: Any) -> Flag:
    return Flag(name, kinds.switch, short, switch=True, default=default, **more)


def _number(name: str, read: Reader = kinds.integer, short: str = "", *, default: int = 0, **more: Any) -> Flag:
    return Flag(name, read, short, default=default, **more)


def _stream(value: str, _: Context) -> str:
    stream = value.lower()
    refuse(stream not in ("stdin", "stdout", "stderr"), "valid streams are STDIN, STDOUT and STDERR")
    return stream


def _sysctl(value: str, _: Context) -> str:
    """`name=value` with a namespaced name."""
    name, equals, _content = value.partition("=")
    known = name in _SYSCTLS or name.startswith(("net.", "fs.mqueue."))
    refuse(not equals or not known, f"sysctl '{value}' is not allowed")
    return value


_SYSCTLS = frozenset(
    (
        "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem", "kernel.shmall", "kernel.shmmax",
        "kernel.shmmni", "kernel.shm_rmid_forced",
    )
)  # fmt: skip

FLAGS: tuple[Flag, ...] = (
    _many("add-host", networks.extra_host),
    _many("annotation"),
    _many("attach", _stream, "a"),
    _number("blkio-weight", resources.weight),
    _many("blkio-weight-device", devices.weight),
    _many("cap-add"),
    _many("cap-drop"),
    _text("cgroup-parent"),
    _text("cgroupns"),
    _text("cidfile"),
    _number("cpu-count", windows=True),
    _number("cpu-percent", windows=True),
    _number("cpu-period"),
    _number("cpu-quota"),
    _number("cpu-rt-period"),
    _number("cpu-rt-runtime"),
    _number("cpu-shares", short="c"),
    _number("cpus", resources.cpus),
    _text("cpuset-cpus"),
    _text("cpuset-mems"),
    _switch("detach", "d", on=RUN),
    _text("detach-keys", on=RUN),
    _many("device"),
    _many("device-cgroup-rule", devices.cgroup_rule),
    _many("device-read-bps", devices.rate_bytes),
    _many("device-read-iops", devices.rate_operations),
    _many("device-write-bps", devices.rate_bytes),
    _many("device-write-iops", devices.rate_operations),
    _switch("disable-content-trust", default=True),
    _many("dns", networks.address),
    _many("dns-opt", same_as="dns-option"),
    _many("dns-option"),
    _many("dns-search", networks.search_domain),
    _text("domainname"),
    _text("entrypoint"),
    _many("env", environment.variable, "e"),
    _many("env-file"),
    _many("expose"),
    _many("gpus", gpus.read),
    _many("group-add"),
    _text("health-cmd"),
    _number("health-interval", kinds.duration),
    _number("health-retries"),
    _number("health-start-interval", kinds.duration),
    _number("health-start-period", kinds.duration),
    _number("health-timeout", kinds.duration),
    _switch("help"),
    _text("hostname", "h"),
    _switch("init"),
    _switch("interactive", "i"),
    _number("io-maxbandwidth", kinds.size, windows=True),
    _number("io-maxiops", windows=True),
    _text("ip"),
    _text("ip6"),
    _text("ipc"),
    _text("isolation"),
    _number("kernel-memory", kinds.size),
    _many("label", environment.label, "l"),
    _many("label-file"),
    _many("link", networks.link),
    _many("link-local-ip"),
    _text("log-driver"),
    _many("log-opt"),
    _text("mac-address"),
    _number("memory", kinds.size, "m"),
    _number("memory-reservation", kinds.size),
    _number("memory-swap", resources.swap),
    _number("memory-swappiness", default=-1),
    _many("mount", mounts.read),
    _text("name"),
    _many("net", networks.read, same_as="network"),
    _many("net-alias", same_as="network-alias"),
    _many("network", networks.read),
    _many("network-alias"),
    _switch("no-healthcheck"),
    _switch("oom-kill-disable"),
    _number("oom-score-adj"),
    _text("pid"),
    _number("pids-limit"),
    _text("platform"),
    _switch("privileged"),
    _many("publish", short="p"),
    _switch("publish-all", "P"),
    _text("pull", default="missing"),
    _switch("quiet", "q"),
    _switch("read-only"),
    _text("restart", default="no"),
    _switch("rm"),
    _text("runtime"),
    _many("security-opt"),
    _number("shm-size", kinds.size),
    _switch("sig-proxy", default=True, on=RUN),
    _text("stop-signal"),
    _number("stop-timeout"),
    _many("storage-opt"),
    _many("sysctl", _sysctl),
    _many("tmpfs"),
    _switch("tty", "t"),
    _many("ulimit", resources.ulimit),
    _switch("use-api-socket"),
    _text("user", "u"),
    _text("userns"),
    _text("uts"),
    _many("volume", short="v"),
    _text("volume-driver"),
    _many("volumes-from"),
    _text("workdir", "w"),
)


def flags_of(verb: str) -> tuple[dict[str, Flag], dict[str, Flag]]:
    """The flags of `run` or `create`, by name and by letter."""
    known = [flag for flag in FLAGS if verb in flag.on]
    return {flag.name: flag for flag in known}, {flag.short: flag for flag in known if flag.short}

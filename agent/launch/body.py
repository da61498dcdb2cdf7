"""A command line, read, into the body of `POST /containers/create`, key for key as CLI 28 sends it."""

from __future__ import annotations

from typing import Any

from agent.launch.cli import CommandLine
from agent.launch.flags import devices, environment, gpus, health, networks, ports, resources, security, volumes
from agent.launch.flags.kinds import Given, pairs, refuse
from agent.launch.flags.ports import Published
from agent.launch.flags.table import FLAGS
from agent.launch.golang import Malformed
from agent.launch.model import ClientFlags, ContainerLaunch, Context, LaunchWarning
from agent.launch.notice import notices
from agent.launch.platform import normal_platform
from agent.launch.reference import check_reference, is_identifier
from agent.launch.refusal import CliRejects, NotCarried

MOST_PORTS = 2 * 65536
"""Every port in two protocols: more is a slip of the pen."""


def launch_of(line: CommandLine, context: Context) -> ContainerLaunch:
    """The container that the CLI would ask for. Raises CliRejects, NotCarried and what files raise."""
    try:
        return _launch(line, context)
    except Malformed as error:
        raise CliRejects(word=_culprit(line, str(error)), why=str(error)) from error


def _launch(line: CommandLine, context: Context) -> ContainerLaunch:
    given = line.given
    _refuse_uncarried(line)
    refuse(given["pull"] not in ("always", "missing", "never", ""), f"invalid pull option: '{given['pull']}'")
    published = _published(given)
    body = _config(line, context, published) | {"HostConfig": _host_config(line, context, published)}
    body["NetworkingConfig"] = {"EndpointsConfig": networks.endpoints(given)}
    detached = given.on("detach")
    refuse(detached and bool(given["attach"]), "conflicting options: cannot specify both --attach and --detach")
    check_reference(line.image)
    refuse(given["pull"] == "always" and is_identifier(line.image), f"an image id cannot be pulled: {line.image}")
    return ContainerLaunch(
        name=given.text("name") or None,
        platform=_platform(given),
        body=body,
        client=_client(line),
        warnings=tuple(_warnings(line)),
        tool=line.tool,
    )


def _refuse_uncarried(line: CommandLine) -> None:
    given = line.given
    for flag in FLAGS:
        why = "it is only supported on a Docker daemon running on Windows"
        refuse(flag.windows and flag.key in given.changed, f'"--{flag.name}": {why}')
    if given.on("use-api-socket"):
        why = "it hands the container this client's registry credentials, which no container body carries"
        raise NotCarried(word="--use-api-socket", why=why, how="mount what the container needs by name")
    if not given.on("disable-content-trust"):
        why = "the CLI would ask a notary server for the image's signature"
        raise NotCarried(word="--disable-content-trust=false", why=why, how="name the image by its digest")


def _platform(given: Given) -> str | None:
    text = given.text("platform")
    if not text:
        return None
    try:
        return normal_platform(text)
    except Malformed as error:
        raise Malformed(f"error parsing specified platform: {error}") from error


def _config(line: CommandLine, context: Context, published: list[Published]) -> dict[str, Any]:
    given = line.given
    _, anonymous = volumes.split(given.list("volume"), context)
    attach = _attached(line)
    config: dict[str, Any] = {
        "Hostname": given["hostname"],
        "Domainname": given["domainname"],
        "User": given["user"],
        **attach,
        "ExposedPorts": _exposed(given, published),
        "Tty": given["tty"],
        "OpenStdin": given["interactive"],
        "StdinOnce": given["interactive"] and attach["AttachStdin"],
        "Env": _env(given, context) or None,
        "Cmd": list(line.command) or None,
        "Healthcheck": health.check(given),
        "Image": line.image,
        "Volumes": anonymous,
        "WorkingDir": given["workdir"],
        "Entrypoint": [given["entrypoint"]] if "entrypoint" in given.changed else None,
        "OnBuild": None,
        "Labels": pairs([*environment.from_files(given["label-file"], "--label-file", context, None), *given["label"]]),
        "StopSignal": given["stop-signal"],
        "StopTimeout": given["stop-timeout"] if "stop-timeout" in given.changed else None,
    }
    for key in ("ExposedPorts", "Healthcheck", "StopSignal", "StopTimeout"):
        if config[key] is None or config[key] in ({}, ""):
            del config[key]
    return config


def _attached(line: CommandLine) -> dict[str, bool]:
    """Which streams the client would have attached to: all but stdin, unless it was told otherwise."""
    given = line.given
    streams = given.list("attach")
    if line.verb == "run" and given.on("detach"):
        return {"AttachStdin": False, "AttachStdout": False, "AttachStderr": False}
    attach = {name: stream in streams for name, stream in _STREAMS.items()}
    if not streams:
        attach |= {"AttachStdout": True, "AttachStderr": True}
    if given.on("interactive"):
        attach["AttachStdin"] = True
    return attach


_STREAMS = {"AttachStdin": "stdin", "AttachStdout": "stdout", "AttachStderr": "stderr"}


def _published(given: Given) -> list[Published]:
    """Every port that is published. Raises NotCarried for more than there are."""
    out: list[Published] = []
    for spec in given["publish"]:
        out.extend(ports.publish(spec))
        if len(out) > MOST_PORTS:
            raise NotCarried(word=f"-p {spec}", why="there are not as many ports", how="publish the ports that serve")
    return out


def _exposed(given: Given, published: list[Published]) -> dict[str, dict[str, str]]:
    exposed = {port.container for port in published}
    for spec in given["expose"]:
        exposed.update(ports.expose(spec))
    return {port: {} for port in sorted(exposed)}


def _env(given: Given, context: Context) -> list[str]:
    files = environment.from_files(given["env-file"], "--env-file", context, context.lookup)
    return [*files, *environment.last_wins(given["env"])]


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


def _host_config(line: CommandLine, context: Context, published: list[Published]) -> dict[str, Any]:
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
        "CgroupnsMode": security.cgroupns(given["cgroupns"]),
        "Dns": given["dns"],
        "DnsOptions": given["dns-option"],
        "DnsSearch": given["dns-search"],
        "ExtraHosts": given["add-host"] or None,
        "GroupAdd": given["group-add"] or None,
        "IpcMode": given["ipc"],
        "Cgroup": "",
        "Links": given["link"] or None,
        "OomScoreAdj": given["oom-score-adj"],
        "PidMode": security.pid(given["pid"]),
        "Privileged": given["privileged"],
        "PublishAllPorts": given["publish-all"],
        "ReadonlyRootfs": given["read-only"],
        "SecurityOpt": options,
        "StorageOpt": _storage(given),
        "Tmpfs": _tmpfs(given),
        "UTSMode": security.uts(given["uts"]),
        "UsernsMode": security.userns(given["userns"]),
        "ShmSize": given["shm-size"],
        "Sysctls": pairs(given["sysctl"]),
        "Runtime": given["runtime"],
        "Isolation": given["isolation"],
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


def _client(line: CommandLine) -> ClientFlags:
    given = line.given
    return ClientFlags(
        detach=given.on("detach"),
        rm=given.on("rm"),
        interactive=given.on("interactive"),
        tty=given.on("tty"),
        attach=tuple(given["attach"]),
        pull=given.text("pull") or "missing",
        quiet=given.on("quiet"),
        sig_proxy=given.on("sig-proxy"),
        detach_keys=given.text("detach-keys"),
        cidfile=given.text("cidfile"),
        verb=line.verb,
    )


def _warnings(line: CommandLine) -> list[LaunchWarning]:
    found = gpus.warnings(line.written.get("gpus", []))
    found += volumes.warnings(line.written.get("volume", []))
    return found + notices(line)


def _culprit(line: CommandLine, why: str) -> str:
    """The word that the reason is about: the longest value that it quotes, else the image."""
    values = {text: flag for flag, texts in line.written.items() for text in texts if text and text in why}
    if values:
        text = max(values, key=len)
        return f"--{values[text]} {text}"
    flags = [flag for flag in line.written if f"--{flag}" in why]
    return f"--{flags[0]}" if flags else line.image

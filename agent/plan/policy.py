"""What a launch, which is data from strangers, asks of this host, held against what the site allows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from agent.plan.mounts import driver_of, mounts_of, refuse_mounts
from agent.plan.trouble import PolicyRefused
from agent.settings.model import Policy

_GPU_DEVICE = re.compile(r"/dev/(?:nvidia[\w-]*|dri(?:/.*)?|kfd|nvidia-caps/.*)")
_GPU_CDI = re.compile(r"(?:nvidia\.com/(?:gpu|mig|pgpu)|amd\.com/gpu|intel\.com/gpu|gpu\.intel\.com/\w+)=")
_HARMLESS_SECURITY = ("label=disable", "label:disable", "no-new-privileges", "no-new-privileges:true")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One flag, what it would let the container do, and the line of agent.yaml that allows it."""

    flag: str
    risk: str
    line: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a plan asks of a host: a body, the references that are fetched, and the commands of its build.

    `sockets`: where this host's container engine listens.
    """

    body: Mapping[str, Any]
    images: Sequence[str] = ()
    commands: Sequence[str] = ()
    sockets: Sequence[str] = ()


def check(slug: str, asked: Asked, policy: Policy, roots: Sequence[str]) -> None:
    """Raises PolicyRefused with every refusal where the site does not allow something."""
    found = list(refusals(asked, policy, roots))
    if not found:
        return
    raise PolicyRefused(
        slug=slug,
        flags=", ".join(refusal.flag for refusal in found),
        risk="; ".join(dict.fromkeys(refusal.risk for refusal in found)),
        line="; ".join(dict.fromkeys(refusal.line for refusal in found)),
        refusals=[{"flag": one.flag, "risk": one.risk, "line": one.line} for one in found],
    )


def refusals(asked: Asked, policy: Policy, roots: Sequence[str]) -> Iterator[Refusal]:
    """All that the site does not allow, in a fixed order. `roots` are the folders that may be mounted."""
    host = asked.body.get("HostConfig") or {}
    yield from _namespaces(host, policy)
    yield from _rights(host, policy)
    yield from _rare(host, policy)
    yield from _volumes(host, policy)
    for mount in refuse_mounts(mounts_of(asked.body), roots, policy.docker_socket, asked.sockets):
        yield Refusal(mount.flag, mount.risk, mount.line)
    for reference in asked.images:
        yield from _image(reference, policy)
    if asked.commands and not policy.build_commands:
        risk = "scripts of its sources would run while the image is built"
        yield Refusal(f"the build step {asked.commands[0]}", risk, "policy: {build_commands: true}")


def _namespaces(host: Mapping[str, Any], policy: Policy) -> Iterator[Refusal]:
    if host.get("IpcMode") == "host" and not policy.host_ipc:
        risk = "it could read and change the shared memory of every process of this host"
        yield Refusal("--ipc=host", risk, "policy: {host_ipc: true}")
    if host.get("NetworkMode") == "host" and not policy.host_network:
        risk = "it could listen on every address of this host and reach what listens on loopback alone"
        yield Refusal("--network host", risk, "policy: {host_network: true}")
    if host.get("PidMode") == "host" and not policy.host_pid:
        risk = "it could see and signal every process of this host"
        yield Refusal("--pid host", risk, "policy: {host_pid: true}")
    for key, flag in (("IpcMode", "--ipc"), ("NetworkMode", "--network"), ("PidMode", "--pid")):
        mode = str(host.get(key) or "")
        if mode.startswith("container:"):
            yield from _unless(f"{flag}={mode}", "it would share that of a container that is none of its own", policy)
    for key, flag in (("UTSMode", "--uts"), ("UsernsMode", "--userns"), ("CgroupnsMode", "--cgroupns")):
        if host.get(key) == "host":
            yield from _unless(f"{flag}=host", "it would leave one of the walls between container and host out", policy)


def _rights(host: Mapping[str, Any], policy: Policy) -> Iterator[Refusal]:
    if host.get("Privileged") and not policy.privileged:
        yield Refusal("--privileged", "it would own this host", "policy: {privileged: true}")
    allowed = {_capability(name) for name in policy.capabilities}
    for name in host.get("CapAdd") or ():
        if _capability(name) not in allowed and "ALL" not in allowed:
            short = _capability(name)
            risk = f"the capability {short} lets it do what a container cannot"
            yield Refusal(f"--cap-add {short}", risk, f"policy: {{capabilities: [{short}]}}")
    for device in host.get("Devices") or ():
        path = normpath(str(device.get("PathOnHost") or "/"))
        if not _GPU_DEVICE.fullmatch(path) and path not in policy.devices:
            risk = f"it could use {path} past every file system and driver of the host"
            yield Refusal(f"--device {path}", risk, f"policy: {{devices: [{path}]}}")
    for request in host.get("DeviceRequests") or ():
        for name in request.get("DeviceIDs") or () if request.get("Driver") == "cdi" else ():
            if not _GPU_CDI.match(name) and name not in policy.devices:
                risk = f"it could use {name}, whatever the host says that this is"
                yield Refusal(f"--device {name}", risk, f"policy: {{devices: [{name}]}}")
    options = list(host.get("SecurityOpt") or ())
    if host.get("MaskedPaths") == [] or host.get("ReadonlyPaths") == []:
        options.append("systempaths=unconfined")
    for option in options:
        if option not in _HARMLESS_SECURITY and option not in policy.security_options:
            short = option if len(option) < 80 else f"{option[:77]}…"
            risk = "it would take away what keeps a container's system calls in bounds"
            yield Refusal(f"--security-opt {short}", risk, f"policy: {{security_options: [{short!r}]}}")


def _capability(name: str) -> str:
    return str(name).upper().removeprefix("CAP_")


def _rare(host: Mapping[str, Any], policy: Policy) -> Iterator[Refusal]:
    for name in host.get("VolumesFrom") or ():
        yield from _unless(f"--volumes-from={name}", "it would get every mount of that container", policy)
    for rule in host.get("DeviceCgroupRules") or ():
        yield from _unless(f"--device-cgroup-rule={rule}", "it could make and open devices of that kind", policy)
    for key, value in (host.get("Sysctls") or {}).items():
        if not key.startswith("net.") or host.get("NetworkMode") == "host":
            yield from _unless(f"--sysctl={key}={value}", "it would change a setting of the kernel", policy)
    if host.get("CgroupParent"):
        risk = "it would leave the group that its memory and processor are counted in"
        yield from _unless(f"--cgroup-parent={host['CgroupParent']}", risk, policy)
    if host.get("Runtime") not in (None, "", "runc", "nvidia"):
        yield from _unless(f"--runtime={host['Runtime']}", "another program would make the container", policy)
    if host.get("VolumeDriver") not in (None, "", "local"):
        yield from _unless(f"--volume-driver={host['VolumeDriver']}", "a plugin would reach into the host", policy)
    for name in host.get("Links") or ():
        yield from _unless(f"--link={name}", "it would get the variables of that container, secrets among them", policy)
    for name, value in (host.get("Annotations") or {}).items():
        yield from _unless(f"--annotation={name}={value}", "it would tell the program that makes containers", policy)
    if (host.get("OomScoreAdj") or 0) < 0:
        risk = "short of memory, the kernel would end others of this host instead of it"
        yield from _unless(f"--oom-score-adj={host['OomScoreAdj']}", risk, policy)
    if host.get("OomKillDisable"):
        yield from _unless("--oom-kill-disable", "short of memory, it would hang and take others with it", policy)
    if host.get("CpuRealtimeRuntime"):
        risk = "it could keep a processor from everything else"
        yield from _unless(f"--cpu-rt-runtime={host['CpuRealtimeRuntime']}", risk, policy)


def _volumes(host: Mapping[str, Any], policy: Policy) -> Iterator[Refusal]:
    """Volumes whose driver mounts something; a bind of a whole path is held against the folders like any mount."""
    for mount in host.get("Mounts") or ():
        driver, options = driver_of(mount)
        kind, device = str(options.get("type") or "none"), str(options.get("device") or "")
        bound = {"bind", "rbind"} & set(str(options.get("o") or "").split(","))
        if driver != "local":
            yield from _unless(f"--mount=volume-driver={driver}", "a plugin would reach into the host", policy)
        elif options and kind != "tmpfs" and not (bound and device.startswith("/")):
            risk = f"the host would mount {kind if kind != 'none' else device} for it"
            yield from _unless(f"--mount=volume-opt=type={kind}", risk, policy)


def _unless(flag: str, risk: str, policy: Policy) -> Iterator[Refusal]:
    """Flags that have no key of their own are allowed word by word."""
    if flag not in policy.allow and flag.partition("=")[0] not in policy.allow:
        yield Refusal(flag, risk, f"policy: {{allow: [{flag!r}]}}")


def _image(reference: str, policy: Policy) -> Iterator[Refusal]:
    registry = registry_of(reference)
    if policy.registries and registry not in policy.registries:
        risk = f"{registry} is not among the registries that images may come from"
        yield Refusal(f"the image {reference}", risk, f"policy: {{registries: [{registry}]}}")
    if policy.require_digest and "@sha256:" not in reference:
        risk = "a tag can mean another image tomorrow"
        yield Refusal(f"the image {reference} without a digest", risk, "policy: {require_digest: false}")


def registry_of(reference: str) -> str:
    """The registry of an image's reference; `docker.io` where none is named."""
    first, slash, _ = reference.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"

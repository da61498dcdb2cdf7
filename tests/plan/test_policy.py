"""What a launch asks of the host is refused unless the site allows it, with the risk and the line that would."""

from __future__ import annotations

from typing import Any

import pytest

from agent.plan.mounts import Mount, refuse_mounts, roots_of
from agent.plan.policy import Asked, refusals, registry_of
from agent.plan.trouble import PolicyRefused
from agent.settings.model import Policy
from tests.plan.build import bare, plan, settings


def refused(host: dict[str, Any], policy: dict[str, Any] | None = None, **asked: Any) -> list[str]:
    body = {"HostConfig": host}
    return [one.flag for one in refusals(Asked(body, **asked), Policy.model_validate(policy or {}), ("/srv/models",))]


def volume(options: dict[str, str], driver: str | None = None) -> dict[str, Any]:
    """A mount of a volume that its driver makes of `options`."""
    made = {"Options": options} | ({"Name": driver} if driver else {})
    return {"Mounts": [{"Type": "volume", "Target": "/x", "VolumeOptions": {"DriverConfig": made}}]}


@pytest.mark.parametrize(
    ("host", "flag", "allowing"),
    [
        ({"Privileged": True}, "--privileged", {"privileged": True}),
        ({"NetworkMode": "host"}, "--network host", {"host_network": True}),
        ({"PidMode": "host"}, "--pid host", {"host_pid": True}),
        ({"CapAdd": ["CAP_SYS_ADMIN"]}, "--cap-add SYS_ADMIN", {"capabilities": ["SYS_ADMIN"]}),
        ({"CapAdd": ["sys_nice"]}, "--cap-add SYS_NICE", {"capabilities": ["CAP_SYS_NICE"]}),
        ({"CapAdd": ["IPC_LOCK"]}, "--cap-add IPC_LOCK", {"capabilities": ["ALL"]}),
        ({"Devices": [{"PathOnHost": "/dev/mem"}]}, "--device /dev/mem", {"devices": ["/dev/mem"]}),
        (
            {"SecurityOpt": ["seccomp=unconfined"]},
            "--security-opt seccomp=unconfined",
            {"security_options": ["seccomp=unconfined"]},
        ),
        ({"VolumesFrom": ["other"]}, "--volumes-from=other", {"allow": ["--volumes-from"]}),
        ({"UTSMode": "host"}, "--uts=host", {"allow": ["--uts=host"]}),
        ({"UsernsMode": "host"}, "--userns=host", {"allow": ["--userns"]}),
        ({"IpcMode": "container:db"}, "--ipc=container:db", {"allow": ["--ipc=container:db"]}),
        ({"Sysctls": {"kernel.shmmax": "1"}}, "--sysctl=kernel.shmmax=1", {"allow": ["--sysctl"]}),
        ({"Runtime": "sysbox"}, "--runtime=sysbox", {"allow": ["--runtime=sysbox"]}),
        ({"CgroupParent": "/"}, "--cgroup-parent=/", {"allow": ["--cgroup-parent"]}),
        ({"DeviceCgroupRules": ["c 1:1 r"]}, "--device-cgroup-rule=c 1:1 r", {"allow": ["--device-cgroup-rule"]}),
        ({"Binds": ["/etc:/x:ro"]}, "-v /etc:/x:ro", {"mount_roots": ["/etc"]}),
        (
            {"Mounts": [{"Type": "bind", "Source": "/etc", "Target": "/x"}]},
            "--mount source=/etc,target=/x",
            {"mount_roots": ["/etc"]},
        ),
        ({"Binds": ["/run/docker.sock:/s"]}, "-v /run/docker.sock:/s", {"docker_socket": True}),
        ({"Binds": ["/srv/models/docker.sock:/s"]}, "-v /srv/models/docker.sock:/s", {"docker_socket": True}),
        ({"Binds": ["/srv/models/../../etc:/x"]}, "-v /srv/models/../../etc:/x", {"mount_roots": ["/etc"]}),
        ({"Devices": [{"PathOnHost": "/dev/dri/../sda"}]}, "--device /dev/sda", {"devices": ["/dev/sda"]}),
        (
            {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["vendor.com/net=all", "nvidia.com/gpu=0"]}]},
            "--device vendor.com/net=all",
            {"devices": ["vendor.com/net=all"]},
        ),
        (
            {"MaskedPaths": [], "ReadonlyPaths": []},
            "--security-opt systempaths=unconfined",
            {"security_options": ["systempaths=unconfined"]},
        ),
        ({"Links": ["db:db"]}, "--link=db:db", {"allow": ["--link"]}),
        ({"Annotations": {"a": "b"}}, "--annotation=a=b", {"allow": ["--annotation"]}),
        ({"OomScoreAdj": -1000}, "--oom-score-adj=-1000", {"allow": ["--oom-score-adj"]}),
        ({"OomKillDisable": True}, "--oom-kill-disable", {"allow": ["--oom-kill-disable"]}),
        ({"CpuRealtimeRuntime": 950000}, "--cpu-rt-runtime=950000", {"allow": ["--cpu-rt-runtime"]}),
        (
            volume({"type": "overlay", "device": "/srv/models", "o": "lowerdir=/etc"}),
            "--mount=volume-opt=type=overlay",
            {"allow": ["--mount=volume-opt=type=overlay"], "mount_roots": ["/srv/models"]},
        ),
        (
            volume({"type": "none", "device": "etc", "o": "bind"}),
            "--mount=volume-opt=type=none",
            {"allow": ["--mount"]},
        ),
        (
            volume({"mountpoint": "/etc"}, driver="local-persist"),
            "--mount=volume-driver=local-persist",
            {"allow": ["--mount=volume-driver=local-persist"]},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_right_is_refused_until_the_site_gives_it(host: dict[str, Any], flag: str, allowing: dict[str, Any]) -> None:
    assert refused(host) == [flag]
    policy = Policy.model_validate(allowing)
    roots = roots_of(policy.mount_roots, {})
    assert list(refusals(Asked({"HostConfig": host}), policy, roots)) == []


@pytest.mark.parametrize(
    "host",
    [
        {"IpcMode": "host"},
        {"Ulimits": [{"Name": "memlock", "Hard": -1, "Soft": -1}]},
        {"ShmSize": 1 << 34},
        {"Binds": ["/srv/models:/models:ro", "/srv/models/a/b:/x", "named-volume:/cache"]},
        {"Devices": [{"PathOnHost": "/dev/nvidia0"}, {"PathOnHost": "/dev/dri/renderD128"}]},
        {"Runtime": "nvidia", "SecurityOpt": ["no-new-privileges"]},
        {"Sysctls": {"net.core.somaxconn": "1"}},
        {"CapAdd": None, "Binds": None, "Mounts": None},
        {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}], "OomScoreAdj": 500},
        {"DeviceRequests": [{"Driver": "", "DeviceIDs": ["GPU-1"]}], "MaskedPaths": None, "ReadonlyPaths": None},
        volume({"type": "tmpfs", "device": "tmpfs"}),
    ],
)
def test_what_engines_usually_need_is_allowed(host: dict[str, Any]) -> None:
    assert refused(host) == []


def test_the_socket_of_the_sites_own_engine_is_one_by_any_name() -> None:
    launch = ["docker", "run", "-v", "/srv/models/engine:/x", "vllm/vllm-openai:v1", "--model", "m"]
    host = {"host": "unix:///srv/models/engine"}
    with pytest.raises(PolicyRefused, match="engine's socket"):
        plan(bare(launch), settings=settings(docker=host))
    made = plan(bare(launch), settings=settings(docker=host, policy={"docker_socket": True}))
    assert "/srv/models/engine" in made.mount_roots


def test_host_ipc_can_be_taken_away() -> None:
    assert refused({"IpcMode": "host"}, {"host_ipc": False}) == ["--ipc=host"]


def test_a_volume_that_is_a_bind_in_disguise_is_one() -> None:
    options = {"DriverConfig": {"Options": {"type": "none", "o": "bind", "device": "/etc"}}}
    assert refused({"Mounts": [{"Type": "volume", "Target": "/x", "VolumeOptions": options}]}) == [
        "--mount source=/etc,target=/x"
    ]


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("/srv/models", True),
        ("/srv/models/", True),
        ("/srv/models/deep/er", True),
        ("/srv/models-of-others", False),
        ("/srv", False),
        ("/", False),
        ("/home/op/models", True),
        ("/home/op", False),
        ("/home/op/.ssh", False),
        ("/home/op/.cache/huggingface", True),
        ("/home/op/.config/x", False),
        ("$GRAFT/x", True),
        ("/srv//models/./x/", True),
        ("/srv/models/..", False),
        ("/srv/models/../../etc", False),
        ("//etc", False),
        ("/home/op/.", False),
        ("/home/op/a/../.ssh", False),
        ("/home/op/../../root", False),
    ],
)
def test_mounts_are_held_against_whole_folders(source: str, allowed: bool) -> None:
    """A variable without a value is missing, not refused; HOME opens what is below it and no secrets."""
    roots = roots_of(["/srv/models"], {"HOME": "/home/op", "N": "5"})
    assert (list(refuse_mounts([Mount(source, f"-v {source}:/x")], roots, False)) == []) is allowed


@pytest.mark.parametrize("value", ["/", "/etc", "/usr/", "/var", "relative", "", "/srv/..", "//etc", "/etc/."])
def test_a_variable_cannot_open_the_host(value: str) -> None:
    assert roots_of([], {"X": value}) == ()


@pytest.mark.parametrize(
    ("reference", "registry"),
    [
        ("vllm/vllm-openai:v1", "docker.io"),
        ("busybox", "docker.io"),
        ("ghcr.io/a/b", "ghcr.io"),
        ("localhost/a", "localhost"),
        ("10.0.0.1:5000/a/b@sha256:" + "0" * 64, "10.0.0.1:5000"),
    ],
)
def test_an_image_belongs_to_its_registry(reference: str, registry: str) -> None:
    assert registry_of(reference) == registry
    assert refused({}, {"registries": ["other.example"]}, images=[reference]) == [f"the image {reference}"]
    assert refused({}, {"registries": [registry]}, images=[reference]) == []


def test_a_digest_can_be_asked_for() -> None:
    policy = {"require_digest": True}
    assert refused({}, policy, images=["a/b:v1"]) == ["the image a/b:v1 without a digest"]
    assert refused({}, policy, images=["a/b@sha256:" + "0" * 64]) == []


def test_commands_of_a_build_can_be_forbidden() -> None:
    assert refused({}, commands=["run"]) == []
    assert refused({}, {"build_commands": False}, commands=["run"]) == ["the build step run"]


def test_a_refusal_names_every_flag_the_risk_and_the_line() -> None:
    launch = ["docker", "run", "--privileged", "-v", "/etc:/x", "vllm/vllm-openai:v1", "--model", "m"]
    with pytest.raises(PolicyRefused) as caught:
        plan(bare(launch))
    error = caught.value
    assert error.text == (
        "cannot plan bare: --privileged, -v /etc:/x is not allowed here: it would own this host; "
        "it could read /etc, and write to it"
    )
    assert "policy: {privileged: true}; policy: {mount_roots: [/etc]}" in error.advice
    assert [entry["flag"] for entry in error.details["refusals"]] == ["--privileged", "-v /etc:/x"]
    assert error.exit_code == 3


def test_a_local_image_is_held_against_no_registry() -> None:
    from agent.plan.inputs import LocalImage

    strict = settings(policy={"registries": ["ghcr.io"]})
    with pytest.raises(PolicyRefused):
        plan(settings=strict, images={"registry.example/small:v1": None})
    assert plan(settings=strict, images={"registry.example/small:v1": LocalImage()}).image is not None

"""Each service of a compose file that serves a model becomes a container."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from agent.launch.model import ContainerLaunch, Context
from agent.launch.read import read_compose
from agent.launch.refusal import BadCompose, CliRejects, LaunchRefused, NoLaunch, UnknownDirectory, UnknownVariable

SITE = Context(
    {"HOME": "/home/a", "TAG": "v1", "EMPTY": ""},
    cwd="/srv/My.Project",
    env_files={"vars.env": "export A='single $TAG'\nB=\"dq\\n$TAG\"\nC=plain # note\n\n# c\nTAG\n"},
)


def engines(text: str, context: Context = SITE) -> tuple[ContainerLaunch, ...]:
    return read_compose(textwrap.dedent(text), context)


def service(lines: str, context: Context = SITE, top: str = "") -> ContainerLaunch:
    """The one engine of a file whose service has these lines."""
    body = textwrap.indent(textwrap.dedent(lines), "    ")
    return engines(f"{top}services:\n  llm:\n    image: vllm/vllm-openai:v1\n{body}", context)[0]


HOST: list[tuple[str, dict[str, Any]]] = [
    ("shm_size: 16gb", {"ShmSize": 17179869184}),
    ("ipc: host\npid: host\nprivileged: true\nread_only: true", {"IpcMode": "host", "PidMode": "host",
    "Privileged": True}),
    ("ulimits: {memlock: -1, nofile: {soft: 1, hard: 2}}",
     {"Ulimits": [{"Name": "memlock", "Hard": -1, "Soft": -1}, {"Name": "nofile", "Hard": 2, "Soft": 1}]}),
    ("restart: no", {"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}}),
    ("deploy: {restart_policy: {condition: on-failure, max_attempts: 3}}",
     {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}}),
    ("ports: [22:22, '127.0.0.1:80:81', {target: 9, published: 8, protocol: udp, host_ip: '::1'}]",
     {"PortBindings": {"22/tcp": [{"HostIp": "", "HostPort": "22"}], "81/tcp": [{"HostIp": "127.0.0.1",
     "HostPort": "80"}],
                       "9/udp": [{"HostIp": "::1", "HostPort": "8"}]}}),
    ("volumes: [./m:/m:ro, ~/c:/c, cache:/d, {type: bind, source: ../x, target: /x, read_only: true}]",
     {"Binds": ["/srv/My.Project/m:/m:ro", "/home/a/c:/c", "myproject_cache:/d", "/srv/x:/x:ro"]}),
    ("volumes: [{type: bind, source: /a, target: /b, read_only: true, bind: {create_host_path: false}},"
     " {type: bind, source: /c, target: /d, bind: {create_host_path: true}}]",
     {"Binds": ["/c:/d"], "Mounts": [{"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": True}]}),
    ("volumes: [{type: tmpfs, target: /t, tmpfs: {size: 64, mode: 511}}]",
     {"Mounts": [{"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"SizeBytes": 64, "Mode": 511}}]}),
    ("deploy: {resources: {limits: {cpus: '1.5', memory: 1g, pids: 9}, reservations: {memory: 1m}}}",
     {"NanoCpus": 1500000000, "Memory": 1 << 30, "PidsLimit": 9, "MemoryReservation": 1 << 20}),
    ("extra_hosts: {a: 1.2.3.4}\ncap_add: [SYS_NICE]\nsecurity_opt: ['seccomp:unconfined']",
     {"ExtraHosts": ["a:1.2.3.4"], "CapAdd": ["CAP_SYS_NICE"], "SecurityOpt": ["seccomp:unconfined"]}),
    ("devices: [/dev/kfd, {source: /dev/a, target: /dev/b, permissions: r}]",
     {"Devices": [{"PathOnHost": "/dev/kfd", "PathInContainer": "/dev/kfd", "CgroupPermissions": "rwm"},
                  {"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "r"}]}),
    ("network_mode: host", {"NetworkMode": "host"}),
    ("logging: {driver: json-file, options: {max-size: 10m}}",
     {"LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}}}),
    ("tmpfs: /run\nsysctls: {net.core.somaxconn: 1}\ninit: true",
     {"Tmpfs": {"/run": ""}, "Sysctls": {"net.core.somaxconn": "1"}, "Init": True}),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "wanted"), HOST, ids=[lines.split("\n")[0] for lines, _ in HOST])
def test_host_config(lines: str, wanted: dict[str, Any]):
    """A service's keys in the host's part of the body."""
    got = service(lines).body["HostConfig"]
    assert {key: got[key] for key in wanted} == wanted


GPUS = [
    ("deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}",
     {"Driver": "nvidia", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}),
    ("deploy: {resources: {reservations: {devices: [{count: '2', capabilities: [gpu, utility]}]}}}",
     {"Driver": "", "Count": 2, "Capabilities": [["gpu", "utility"]]}),
    ("deploy: {resources: {reservations: {devices: [{device_ids: ['0', '3'], capabilities: [gpu]}]}}}",
     {"Count": 0, "DeviceIDs": ["0", "3"]}),
    ("gpus: all", {"Count": -1, "Capabilities": [["gpu"]]}),
    ("gpus: [{driver: nvidia, count: 1}]", {"Driver": "nvidia", "Count": 1, "Capabilities": [["gpu"]]}),
    ("devices: [nvidia.com/gpu=all]", {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "wanted"), GPUS, ids=[lines for lines, _ in GPUS])
def test_gpus(lines: str, wanted: dict[str, Any]):
    """Every way a compose file asks for cards."""
    (request,) = service(lines).body["HostConfig"]["DeviceRequests"]
    assert {key: request[key] for key in wanted} == wanted


CONFIG: list[tuple[str, dict[str, Any]]] = [
    ("command: serve 'a b' --x=$$HOME", {"Cmd": ["serve", "a b", "--x=$HOME"]}),
    ("command: >\n  serve m\n  --port 8000 # not a comment", {"Cmd": ["serve", "m", "--port", "8000", "#", "not",
    "a", "comment"]}),
    ("command: [serve, 8000, true]", {"Cmd": ["serve", "8000", "true"]}),
    ("entrypoint: [python3, -m, vllm.x]", {"Entrypoint": ["python3", "-m", "vllm.x"]}),
    ("environment: {A: 1, B: 'x y', C: true, D: }", {"Env": ["A=1", "B=x y", "C=true"]}),
    ("environment: [A=1, TAG, NO]", {"Env": ["A=1", "TAG=v1"]}),
    ("env_file: vars.env\nenvironment: {C: mine}", {"Env": ["A=single $TAG", "B=dq\nv1", "C=mine", "TAG=v1"]}),
    ("env_file: [{path: nowhere, required: false}]", {"Env": None}),
    ("healthcheck: {test: [CMD, curl, x], interval: 1m30s, retries: 3, start_period: 1d}",
     {"Healthcheck": {"Test": ["CMD", "curl", "x"], "Interval": 90 * 10**9, "StartPeriod": 86400 * 10**9,
     "Retries": 3}}),
    ("healthcheck: {test: curl x || exit 1}", {"Healthcheck": {"Test": ["CMD-SHELL", "curl x || exit 1"]}}),
    ("healthcheck: {disable: true}", {"Healthcheck": {"Test": ["NONE"]}}),
    ("user: 1000:1000\nworking_dir: /w\nhostname: h\nstop_grace_period: 2m", {"User": "1000:1000",
    "StopTimeout": 120}),
    ("labels: [a=b, c]", {"Labels": {"a": "b", "c": ""}}),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "wanted"), CONFIG, ids=[lines.split("\n")[0] for lines, _ in CONFIG])
def test_config(lines: str, wanted: dict[str, Any]):
    """A service's keys in the container's own part."""
    got = service(lines).body
    assert {key: got[key] for key in wanted} == wanted


INTERPOLATED = [
    ("${TAG}", "v1"), ("$TAG-x", "v1-x"), ("${NO:-d}", "d"), ("${EMPTY:-d}", "d"), ("${EMPTY-d}", ""),
    ("${TAG:+set}", "set"),
    ("${NO:+set}", ""), ("${NO:-${TAG}}", "v1"), ("${NO:-${NO2:-x}y}", "xy"), ("$$TAG", "$TAG"),
    ("${TAG:?why}", "v1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), INTERPOLATED)
def test_interpolation(text: str, value: str):
    """Compose's rules for variables."""
    assert service(f"environment: {{A: '{text}'}}").body["Env"] == [f"A={value}"]


def test_all_missing_variables_are_named():
    """Of one service, in the order they stand."""
    with pytest.raises(UnknownVariable) as caught:
        service("environment: {A: $NO, B: '${WHY:?because}', C: '${NO3:-fine}'}")
    assert caught.value.details["missing"] == ["NO", "WHY"]


def test_which_services_are_engines():
    """By what they run, their image, the cards they ask for; not their helpers."""
    text = """
        services:
          web: {image: nginx}
          vllm: {image: 'vllm/vllm-openai'}
          pull: {image: ollama/ollama, entrypoint: [sh, -c], command: [ollama pull m]}
          own: {image: me/thing, command: vllm serve m}
          gpu: {image: me/other, gpus: all}
          build: {build: ., deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}}
    """
    found = engines(text)
    assert [launch.name for launch in found] == [f"myproject-{name}-1" for name in ("vllm", "own", "gpu", "build")]
    assert found[-1].body["Image"] == "myproject-build"
    assert "compose.build" in [warning.code for warning in found[-1].warnings]


def test_anchors_and_merges():
    """`<<` brings what is shared, and what a service says itself wins."""
    text = """
        x-common: &common {shm_size: 1g, restart: always}
        services:
          a: {<<: *common, image: vllm/a, restart: unless-stopped}
    """
    host = engines(text)[0].body["HostConfig"]
    assert (host["ShmSize"], host["RestartPolicy"]["Name"]) == (1 << 30, "unless-stopped")


def test_networks_keep_the_names_of_the_project():
    """A network that the file names is joined under compose's name for it, with the service's own."""
    top = "networks:\n  back: {}\n  out: {external: true}\n  default: {name: chat}\n"
    launch = service("networks: {back: {aliases: [Engine]}, out: , default: }", top=top)
    endpoints = launch.body["NetworkingConfig"]["EndpointsConfig"]
    assert list(endpoints) == ["myproject_back", "out", "chat"]
    assert endpoints["myproject_back"]["Aliases"] == ["llm", "Engine"]
    assert launch.body["HostConfig"]["NetworkMode"] == "myproject_back"
    assert "compose.network_exists" in [warning.code for warning in launch.warnings]
    assert service("tty: true", top=top).body["HostConfig"]["NetworkMode"] == "chat"


@pytest.mark.parametrize(
    ("declared", "how"),
    [
        ("{driver_opts: {type: nfs, device: ':/m'}}", "--opt type=nfs --opt device=:/m"),
        ("{driver: other}", "--driver other"),
        ("{driver: local}", ""),
        ("{external: true, driver: other}", ""),
        ("", ""),
    ],
)
def test_a_volume_that_compose_makes_specially_is_told(declared: str, how: str):
    """The container's body is the same; the volume would not be."""
    top = f"volumes:\n  models: {declared}"
    warnings = [w for w in service("volumes: ['models:/m']", top=f"{top}\n").warnings if w.code == "compose.volume"]
    assert len(warnings) == bool(how)
    assert all(f"docker volume create {how} myproject_models" in w.text for w in warnings)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("depends_on: [db]", "compose.depends_on"),
        ("deploy: {replicas: 2}", "compose.replicas"),
        ("volumes: [nowhere:/x]", "compose.undeclared"),
        ("environment: [NO]", "env.no_value"),
        ("tty: false", "compose.network"),
    ],
)
def test_what_is_lost_beside_the_project(lines: str, code: str):
    """What one container cannot have of a project is said."""
    assert code in [warning.code for warning in service(lines).warnings]


REFUSED: list[tuple[str, type[LaunchRefused], str]] = [
    ("secrets: [x]", BadCompose, "secrets"),
    ("extends: {service: y}", BadCompose, "extends"),
    ("comand: x", BadCompose, "comand"),
    ("network_mode: service:y", BadCompose, "another service"),
    ("environment: {A: '$(date)'}", BadCompose, "no variable"),
    ("environment: {A: '${A'}", BadCompose, "variable"),
    ("healthcheck: {test: [curl, x]}", BadCompose, "CMD"),
    ("healthcheck: {interval: 5}", BadCompose, "duration"),
    ("ports: ['70000:1']", CliRejects, "hostPort"),
    ("volumes: ['aa:bb:cc:dd']", BadCompose, "colons"),
    ("shm_size: 16x", CliRejects, "suffix"),
    ("deploy: {resources: {reservations: {devices: [{count: 1, device_ids: ['0'], capabilities: [gpu]}]}}}",
    BadCompose, "exclude"),
    ("ulimits: [memlock]", BadCompose, "map"),
    ("command: \"a 'b\"", LaunchRefused, "never closed"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "kind", "word"), REFUSED, ids=[lines for lines, _, _ in REFUSED])
def test_refusals(lines: str, kind: type[LaunchRefused], word: str):
    """What no container body says, or no compose would take, is refused in words."""
    with pytest.raises(kind) as caught:
        service(lines)
    assert word in caught.value.text
    assert caught.value.advice


FILES = [
    ("services: {web: {image: nginx}}", NoLaunch), ("a: 1", BadCompose), ("services: [a]", BadCompose),
    ("", BadCompose),
    ("services:\n  a: {image: x}\n  a: {image: y}", BadCompose), ("services: &a {x: *a}", LaunchRefused),
    ("a: &a {x: 1}\nb: &b {<<: [*a]}\nservices: !!python/object:x {}", BadCompose), ("[" * 5000, BadCompose),
    ("x: '", BadCompose),
    ("services: {a: {image: vllm/a}}\n" + "#" * 200_000, NoLaunch),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), FILES, ids=[text[:20] for text, _ in FILES])
def test_files_that_are_none(text: str, kind: type[LaunchRefused]):
    """No traceback for what is no compose file."""
    with pytest.raises(kind):
        read_compose(text, SITE)


def test_without_a_folder_there_is_no_project():
    """The project's name and its relative paths come from a folder that somebody names."""
    with pytest.raises(UnknownDirectory):
        service("tty: true", Context({"HOME": "/h"}))
    assert service("tty: true", Context({"COMPOSE_PROJECT_NAME": "p"})).name == "p-llm-1"


@pytest.mark.parametrize(
    "text", ["services:\n  [a]: x\n", "services: {{a: b}: x}", "? {a: b}\n: x\n", "services: {? !!set {a}: b}"]
)
def test_a_key_that_is_no_text_is_refused(text: str):
    with pytest.raises(BadCompose, match="a key is text"):
        engines(text)

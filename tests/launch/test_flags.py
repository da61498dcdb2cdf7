"""Single flags of the CLI: what each value asks for, and which values it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from agent.launch.flags.table import FLAGS, flags_of
from agent.launch.model import ContainerLaunch, Context
from agent.launch.read import read_argv
from agent.launch.refusal import CliRejects, FileUnread, NotCarried, UnknownDirectory, UnknownFlag

SITE = Context(
    {"HOME": "/home/a", "USER": "a"},
    cwd="/srv/work",
    env_files={
        "env": "# c\n\nA=1\nUSER\nNOT_SET\nB='q'\n",
        "/srv/work/abs": "C=3\n",
        "labels": "a=b\nc\n",
        "bad": "A B=1\n",
        "none": "=1\n",
        "seccomp.json": '{ "a b": [1, "x \\" y"] }\n',
        "broken.json": "{",
    },
)


def container(*words: str, verb: str = "run") -> ContainerLaunch:
    launch = read_argv(["docker", verb, *words], SITE)
    assert isinstance(launch, ContainerLaunch)
    return launch


def host(*words: str) -> dict[str, Any]:
    body: dict[str, Any] = container(*words, "img").body["HostConfig"]
    return body


def config(*words: str) -> dict[str, Any]:
    return container(*words, "img").body


HOST = [
    (["--shm-size", "10.24gb"], {"ShmSize": 10995116277}),
    (["-m", "16g", "--memory-swap", "-1"], {"Memory": 17179869184, "MemorySwap": -1}),
    (["--cpus", "1.5"], {"NanoCpus": 1500000000}),
    (["--cpu-shares", "0x10"], {"CpuShares": 16}),
    (["--ulimit", "stack=1", "--ulimit", "core=0", "--ulimit", "stack=2:3"],
     {"Ulimits": [{"Name": "core", "Hard": 0, "Soft": 0}, {"Name": "stack", "Hard": 3, "Soft": 2}]}),
    (["--device", "/dev/a/../b:/dev/c:r"], {"Devices": [{"PathOnHost": "/dev/a/../b", "PathInContainer": "/dev/c",
                                                        "CgroupPermissions": "r"}]}),
    (["--cap-add", "sys_nice", "--cap-add", "ALL"], {"CapAdd": ["ALL", "CAP_SYS_NICE"]}),
    (["--security-opt", "systempaths=unconfined"], {"SecurityOpt": [], "MaskedPaths": [], "ReadonlyPaths": []}),
    (["--security-opt", "seccomp=seccomp.json"], {"SecurityOpt": ['seccomp={"a b":[1,"x \\" y"]}']}),
    (["--restart", "on-failure:3"], {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}}),
    (["-v", "./a:/b:ro", "-v", "vol:/c", "-v", "vol:/c"], {"Binds": ["/srv/work/a:/b:ro", "vol:/c"]}),
    (["--mount", "type=bind,src=.,dst=/b,ro"], {"Mounts": [{"Type": "bind", "Source": "/srv/work", "Target": "/b",
                                                            "ReadOnly": True}]}),
    (["--network", "name=n,alias=a"], {"NetworkMode": "n"}),
    (["--add-host", "a=[::1]"], {"ExtraHosts": ["a:::1"]}),
    (["-p", "[::1]:80-81:90-91/udp"], {"PortBindings": {"90/udp": [{"HostIp": "::1", "HostPort": "80"}],
                                                        "91/udp": [{"HostIp": "::1", "HostPort": "81"}]}}),
    (["--tmpfs", "/t:size=1g,mode=7"], {"Tmpfs": {"/t": "size=1g,mode=7"}}),
    (["--log-opt", "max-size=1m"], {"LogConfig": {"Type": "", "Config": {"max-size": "1m"}}}),
    (["--init=false"], {"Init": False}),
    (["-itdP", "--rm"], {"PublishAllPorts": True, "AutoRemove": True}),
    (["--device-read-bps", "/dev/a:1kb"], {"BlkioDeviceReadBps": [{"Path": "/dev/a", "Rate": 1024}]}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "wanted"), HOST, ids=[" ".join(words) for words, _ in HOST])
def test_host_config(words: list[str], wanted: dict[str, Any]):
    """The part of the body that is the host's."""
    got = host(*words)
    assert {key: got[key] for key in wanted} == wanted


GPUS = [
    ("all", {"Count": -1, "DeviceIDs": None}, []),
    ("2", {"Count": 2, "DeviceIDs": None}, []),
    ("device=1", {"Count": 0, "DeviceIDs": ["1"]}, []),
    ('"device=0,GPU-a"', {"Count": 0, "DeviceIDs": ["0", "GPU-a"]}, []),
    ("device=0,1", {"Count": 1, "DeviceIDs": ["0"]}, ["gpus.ids_lost"]),
    ("0,1", {"Count": 1, "DeviceIDs": None}, ["gpus.count_of_list"]),
    ("0", {"Count": 0, "DeviceIDs": None}, ["gpus.count_zero"]),
    ("all,capabilities=utility", {"Count": -1, "Capabilities": [["utility", "gpu"]]}, []),
    ("driver=nvidia,count=all", {"Count": -1, "Driver": "nvidia"}, []),
]


@pytest.mark.parametrize(("value", "wanted", "codes"), GPUS, ids=[value for value, _, _ in GPUS])
def test_gpus_and_what_their_author_meant(value: str, wanted: dict[str, Any], codes: list[str]):
    """As the CLI reads them, with a warning and the meant spelling where that is plainly another."""
    launch = container("--gpus", value, "img")
    request = launch.body["HostConfig"]["DeviceRequests"][0]
    assert {key: request[key] for key in wanted} == wanted
    assert [warning.code for warning in launch.warnings] == codes
    assert all(warning.instead in str(warning) and "device=" in warning.instead for warning in launch.warnings)


def test_cdi_devices_are_requests():
    """`--device nvidia.com/gpu=all` is no path."""
    requests = host("--gpus", "all", "--device", "nvidia.com/gpu=0", "--device", "/dev/x")["DeviceRequests"]
    assert requests[1] == {
        "Driver": "cdi", "Count": 0, "DeviceIDs": ["nvidia.com/gpu=0"], "Capabilities": None, "Options": None,
    }  # fmt: skip


CONFIG = [
    (["--entrypoint", ""], {"Entrypoint": [""]}),
    (["-e", "A=1", "-e", "USER", "-e", "A=2", "-e", "NOPE"], {"Env": ["A=2", "USER=a", "NOPE"]}),
    (["--env-file", "env", "--env-file", "abs"], {"Env": ["A=1", "USER=a", "B='q'", "C=3"]}),
    (["--label-file", "labels", "-l", "x"], {"Labels": {"a": "b", "x": ""}}),
    (["-v", "/data", "-v", "c:/m"], {"Volumes": {"/data": {}, "c:/m": {}}}),
    (["--expose", "80-81"], {"ExposedPorts": {"80/tcp": {}, "81/tcp": {}}}),
    (["--health-cmd", "x", "--health-interval", "1m30s"],
     {"Healthcheck": {"Test": ["CMD-SHELL", "x"], "Interval": 90_000_000_000}}),
    (["--no-healthcheck"], {"Healthcheck": {"Test": ["NONE"]}}),
    (["--stop-timeout", "0"], {"StopTimeout": 0}),
    (["-it"], {"Tty": True, "OpenStdin": True, "StdinOnce": True, "AttachStdin": True, "AttachStdout": True}),
    (["-itd"], {"OpenStdin": True, "StdinOnce": False, "AttachStdin": False, "AttachStdout": False}),
    (["-a", "STDERR"], {"AttachStdout": False, "AttachStderr": True}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "wanted"), CONFIG, ids=[" ".join(words) for words, _ in CONFIG])
def test_config(words: list[str], wanted: dict[str, Any]):
    """The part of the body that is the container's own."""
    got = config(*words)
    assert {key: got[key] for key in wanted} == wanted


SPELLINGS = [["-p", "1:2"], ["-p1:2"], ["-p=1:2"], ["--publish", "1:2"], ["--publish=1:2"], ["-dp", "1:2"], ["-itp1:2"]]


@pytest.mark.parametrize("words", SPELLINGS, ids=[" ".join(words) for words in SPELLINGS])
def test_every_spelling_is_the_same_flag(words: list[str]):
    """With a space, an equals sign, glued, bundled."""
    assert host(*words)["PortBindings"] == {"2/tcp": [{"HostIp": "", "HostPort": "1"}]}


def test_the_client_keeps_what_is_its_own():
    """Flags that only the client acts on are facts beside the body."""
    client = container("-d", "--rm", "--pull", "always", "--sig-proxy=false", "--cidfile", "/c", "img").client
    assert (client.detach, client.rm, client.pull, client.sig_proxy, client.cidfile) == (
        True,
        True,
        "always",
        False,
        "/c",
    )
    launch = container("--name", "n", "--platform", "arm64", "--", "img", "-x")
    assert (launch.name, launch.platform, launch.body["Cmd"]) == ("n", "linux/arm64", ["-x"])


REJECTED = [
    ["--gpus", "none"], ["--gpus", ""], ["--shm-size", "16x"], ["--shm-size", "-1"], ["--cpus", "1e-10"],
    ["--cpu-shares", "08"], ["--blkio-weight", "70000"], ["--ulimit", "nofile=2:1"], ["--ulimit", "as=1"],
    ["-v", "/a:/b:ro:x"], ["-v", ":/b"], ["--mount", "type=bind,source=/a"],
    ["--mount", "type=bind,dst=/b,tmpfs-size=1"],
    ["-p", "70000:80"], ["-p", "1-2:3-5"], ["-p", "localhost:1:2"], ["-p", "80/foo"], ["--expose", "1:2"],
    ["-e", "=x"], ["-e", ""], ["-l", ""], ["--env-file", "bad"], ["--env-file", "none"], ["--device", "kfd"],
    ["--device", "/dev/a:/dev/b:xyz"], ["--device", "a/b=c"], ["--network", "host,alias=x"], ["--network", ""],
    ["--network", "a", "--network", "a"], ["--network", "host", "--network", "a"], ["--network-alias", "a"],
    ["--add-host", "a:notip"], ["--dns", "x"], ["--dns-search", "1.2"], ["--link", ""], ["--mac-address", "x"],
    ["--pid", "private"], ["--userns", "keep-id"], ["--uts", "x"], ["--cgroupns", "x"], ["--security-opt", "x"],
    ["--security-opt", "seccomp=broken.json"], ["--restart", "on-failure:x"], ["--rm", "--restart", "always"],
    ["--health-interval", "30"], ["--health-cmd", "x", "--no-healthcheck"],
    ["--log-driver", "none", "--log-opt", "a=b"],
    ["--storage-opt", "a"], ["--sysctl", "kernel.foo=1"], ["--memory-swappiness", "101"], ["--platform", "bogus"],
    ["--pull", "bogus"], ["-d", "-a", "stdin"], ["-a", "x"], ["--privileged=maybe"], ["--cpu-count", "1"], ["--help"],
    ["--device-cgroup-rule", "c 1:1"], ["--blkio-weight-device", "/dev/a:5"], ["---x"], ["--=x"],
]  # fmt: skip


@pytest.mark.parametrize("words", REJECTED, ids=[" ".join(words) for words in REJECTED])
def test_what_the_cli_rejects(words: list[str]):
    """Refused with the CLI's reason."""
    with pytest.raises(CliRejects) as caught:
        container(*words, "img")
    assert caught.value.code in ("convert.cli_rejects", "convert.unknown_flag")
    assert caught.value.advice


IMAGES = ["", "a b", "a:b:c", "a/", "UPPER", "ghcr.io/A/b", "a@sha256:abc", "http://a/b", "a___b", "[docker"]


@pytest.mark.parametrize("image", IMAGES)
def test_images_that_are_none(image: str):
    """The grammar of references."""
    with pytest.raises(CliRejects):
        container(image)


@pytest.mark.parametrize(
    "image", ["a:T", "reg:5000/a/b:c", "UPPER/a", "a@sha256:" + "0" * 64, "f" * 64, "[::1]:5000/a"]
)
def test_images(image: str):
    """Taken as they are written."""
    assert container(image).body["Image"] == image


def test_files_that_were_not_given():
    """A file of the client's is named, with the flag that wants it."""
    with pytest.raises(FileUnread) as caught:
        container("--env-file", "nowhere", "img")
    assert "nowhere" in caught.value.text
    assert "--env-file" in caught.value.text


def test_a_relative_path_needs_a_directory():
    """Nobody's working directory is guessed."""
    with pytest.raises(UnknownDirectory):
        read_argv(["docker", "run", "-v", "./a:/b", "img"], Context())


@pytest.mark.parametrize(
    "words",
    [["--use-api-socket"], ["--disable-content-trust=false"], ["-p", "1-65535", "-p", "1-65535", "-p", "1-9999"]],
)
def test_what_no_body_carries(words: list[str]):
    """The CLI takes it, and yet no container body says it."""
    with pytest.raises(NotCarried) as caught:
        container(*words, "img")
    assert caught.value.advice


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        (["docker", "create", "-d", "img"], UnknownFlag),
        (["docker", "-H", "tcp://h", "run", "img"], NotCarried),
        (["docker", "--log-level", "loud", "run", "img"], CliRejects),
        (["docker", "--nope", "run", "img"], UnknownFlag),
        (["docker", "run"], CliRejects),
        (["docker", "run", "--name"], CliRejects),
    ],
)
def test_the_words_around_the_flags(argv: list[str], kind: type[Exception]):
    """The client's own flags, the verb, and what is missing."""
    with pytest.raises(kind):
        read_argv(argv, SITE)


def test_the_clients_own_flags_are_set_aside():
    """`-D`, `--log-level` and the longer verb change nothing of the container."""
    launch = read_argv(["/usr/bin/docker", "-D", "--log-level=debug", "container", "run", "img"], SITE)
    assert isinstance(launch, ContainerLaunch)
    assert (launch.body["Image"], launch.tool) == ("img", "docker")


NOTICED = [
    (["img", "--gpus", "all"], "flags.after_image"),
    (["--network", "host", "-p", "1:1", "img"], "ports.host_network"),
    (["-e", "TOKEN", "img"], "env.no_value"),
    (["-e", "A=<token>", "img"], "word.placeholder"),
    (["--privileged", "true", "img"], "flags.switch_value"),
    (["--restart", "sometimes", "img"], "restart.unknown"),
    (["-v", "~/a:/b", "img"], "volume.tilde"),
    (["-v", "m:/model", "img"], "volume.drive_letter"),
]


@pytest.mark.parametrize(("words", "code"), NOTICED, ids=[code for _, code in NOTICED])
def test_what_an_author_cannot_have_meant(words: list[str], code: str):
    """Accepted as the CLI does, with a warning that has a name."""
    assert code in [warning.code for warning in container(*words).warnings]


def test_the_table_knows_every_flag_once():
    """Names and letters are unique; `create` lacks what only `run` has."""
    assert len({flag.name for flag in FLAGS}) == len(FLAGS)
    letters = [flag.short for flag in FLAGS if flag.short]
    assert len(set(letters)) == len(letters)
    names, _ = flags_of("create")
    assert {"detach", "sig-proxy", "detach-keys"}.isdisjoint(names)

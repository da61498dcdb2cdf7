"""What of a container body a plain process keeps, and what is refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from agent.container.process_launch import ProcessLaunch, process_launch, process_notes, process_problems

CMD = {"Cmd": ["vllm", "serve"]}

CLI_ZEROS: dict[str, Any] = {
    "Hostname": "",
    "User": "",
    "AttachStdout": True,
    "ExposedPorts": {"8000/tcp": {}},
    "Volumes": {},
    "Entrypoint": None,
    "Labels": {},
    "HostConfig": {
        "Binds": None,
        "NetworkMode": "default",
        "PortBindings": {},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "ConsoleSize": [0, 0],
        "CapAdd": None,
        "Dns": [],
        "GroupAdd": None,
        "IpcMode": "",
        "Privileged": False,
        "SecurityOpt": None,
        "ShmSize": 0,
        "PidsLimit": 0,
        "MemorySwappiness": -1,
        "OomKillDisable": False,
        "Ulimits": [],
        "MaskedPaths": None,
    },
    "NetworkingConfig": {"EndpointsConfig": {}},
}
"""What the docker CLI sends for a `docker run` with hardly an option."""


@pytest.mark.parametrize(
    ("body", "argv"),
    [
        ({"Cmd": ["vllm", "serve"]}, ("vllm", "serve")),
        ({"Entrypoint": ["python", "-m"], "Cmd": ["x"]}, ("python", "-m", "x")),
        ({"Entrypoint": "python", "Cmd": ["x y"]}, ("python", "x y")),
        ({"Entrypoint": [""], "Cmd": ["x"]}, ("x",)),
        ({"Entrypoint": ["x"], "Cmd": None}, ("x",)),
    ],
)
def test_the_command_line_is_entrypoint_and_command(body: dict[str, Any], argv: tuple[str, ...]) -> None:
    assert process_launch(body) == ProcessLaunch(argv, {}, None)
    assert process_problems(body) == ()


@pytest.mark.parametrize(
    ("request_", "env"),
    [
        ({"Count": -1}, {}),
        ({"DeviceIDs": ["0", "2"]}, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,2"}),
        ({"DeviceIDs": ["GPU-a"]}, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-a"}),
        ({"Count": 2}, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1"}),
    ],
)
def test_chosen_gpus_are_said_as_cuda_reads_it(request_: dict[str, Any], env: dict[str, str]) -> None:
    request = {"Driver": "", "Capabilities": [["gpu"]]} | request_
    body = CMD | {"HostConfig": {"DeviceRequests": [request]}}
    assert process_launch(body).env == env
    assert process_problems(body) == ()


def test_what_the_launch_says_itself_about_cuda_wins() -> None:
    request = {"DeviceIDs": ["0"], "Capabilities": [["gpu"]]}
    body = CMD | {"Env": ["CUDA_VISIBLE_DEVICES=3", "A"], "HostConfig": {"DeviceRequests": [request]}}
    assert process_launch(body).env["CUDA_VISIBLE_DEVICES"] == "3"


def test_the_zeros_that_the_cli_sends_ask_for_nothing() -> None:
    assert process_problems(CLI_ZEROS | CMD) == ()


@pytest.mark.parametrize(
    "host",
    [
        {"IpcMode": "host"},
        {"PidMode": "host"},
        {"NetworkMode": "host"},
        {"NetworkMode": "bridge"},
        {"PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": "8000"}]}},
        {"PortBindings": {"8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": ""}]}},
        {"SecurityOpt": ["seccomp=unconfined", "label:disable"]},
        {"Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}]},
        {"ShmSize": 1 << 34},
        {"Memory": 1 << 40},
        {"Runtime": "nvidia"},
        {"AutoRemove": True},
        {"LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}}},
    ],
)
def test_what_means_the_same_or_is_a_comfort_is_no_problem(host: dict[str, Any]) -> None:
    assert process_problems(CMD | {"HostConfig": host}) == ()


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"Cmd": []}, "names no program"),
        ({"Image": "vllm/vllm-openai", "Cmd": ["--model", "m"]}, "--model is an argument for the program of its image"),
        (CMD | {"User": "1000:1000"}, "--user"),
        (CMD | {"Volumes": {"/data": {}}}, "volumes"),
        (CMD | {"NetworkDisabled": True}, "no network"),
        (CMD | {"Something": "new"}, "Something"),
        (CMD | {"HostConfig": {"Something": "new"}}, "HostConfig.Something"),
        (CMD | {"HostConfig": {"Binds": ["/a:/b"]}}, "mounts (-v)"),
        (CMD | {"HostConfig": {"Mounts": [{"Type": "bind"}]}}, "mounts (--mount)"),
        (CMD | {"HostConfig": {"Tmpfs": {"/x": ""}}}, "tmpfs"),
        (CMD | {"HostConfig": {"Privileged": True}}, "--privileged"),
        (CMD | {"HostConfig": {"CapAdd": ["SYS_NICE"]}}, "--cap-add"),
        (CMD | {"HostConfig": {"CapDrop": ["ALL"]}}, "--cap-drop"),
        (CMD | {"HostConfig": {"ReadonlyRootfs": True}}, "read-only"),
        (CMD | {"HostConfig": {"Devices": [{"PathOnHost": "/dev/fuse"}]}}, "--device"),
        (CMD | {"HostConfig": {"SecurityOpt": ["no-new-privileges"]}}, "--security-opt"),
        (CMD | {"HostConfig": {"IpcMode": "container:a"}}, "IPC space of another container"),
        (CMD | {"HostConfig": {"NetworkMode": "container:a"}}, "network of another container"),
        (CMD | {"HostConfig": {"NetworkMode": "none"}}, "joins the network none"),
        (CMD | {"HostConfig": {"NetworkMode": "models"}}, "joins the network models"),
        (CMD | {"HostConfig": {"ExtraHosts": ["a:1.2.3.4"]}}, "--add-host"),
        (
            CMD | {"NetworkingConfig": {"EndpointsConfig": {"default": {"Aliases": ["a"]}}}},
            "place in",
        ),
        (CMD | {"HostConfig": {"PortBindings": {"80/tcp": [{"HostPort": "8080"}]}}}, "publishes port 80 as 8080"),
        (
            CMD | {"HostConfig": {"PortBindings": {"80/tcp": [{"HostPort": "80", "HostIp": "127.0.0.1"}]}}},
            "on 127.0.0.1 alone",
        ),
        (CMD | {"HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["v/c=0"]}]}}, "driver cdi"),
        (
            CMD | {"HostConfig": {"DeviceRequests": [{"Count": 1, "DeviceIDs": ["0"], "Capabilities": [["gpu"]]}]}},
            "a count of GPUs and",
        ),
    ],
)
def test_what_a_launch_relies_on_is_refused_in_words(body: dict[str, Any], word: str) -> None:
    problems = process_problems(body)
    assert len(problems) == 1
    assert word in problems[0]


def test_what_is_left_away_is_named() -> None:
    body = CMD | {"Image": "vllm/vllm-openai:v1", "HostConfig": {"ShmSize": 1 << 34, "Memory": 1 << 40, "CpuShares": 0}}
    assert process_notes(body) == (
        "the size of /dev/shm is not applied to a plain process",
        "the memory limit is not applied to a plain process",
        "the image vllm/vllm-openai:v1 is not used: the program is the host's own",
    )

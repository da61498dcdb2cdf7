"""Files of /proc, as they are and as they can be."""

from __future__ import annotations

import pytest

from agent.adapters.procfs import Cgroups, TcpRow, parse_cgroups, parse_kernel_module, parse_keys, parse_stat, parse_tcp

A, B = "a" * 64, "b" * 64


def stat_line(name: str, flags: int = 4194560) -> str:
    return f"4711 ({name}) S 12 4711 4711 0 -1 {flags} 100 0 0 0 300 40 5 6 20 0 9 0 123456 1000000 200 1844674\n"


@pytest.mark.parametrize("name", ["python3", "VLLM::Worker", "a b) R 1 (c", "((", ""])
def test_a_name_with_brackets_does_not_shift_the_fields(name: str) -> None:
    stat = parse_stat(stat_line(name))
    assert (stat.pid, stat.name, stat.state, stat.ppid) == (4711, name, "S", 12)
    assert (stat.cpu_ticks, stat.threads, stat.start_ticks, stat.kernel_thread) == (340, 9, 123456, False)


def test_a_kernel_thread_is_known_by_its_flag() -> None:
    assert parse_stat(stat_line("kworker/0:1", 69238880)).kernel_thread


@pytest.mark.parametrize(
    ("text", "path", "containers"),
    [
        pytest.param(f"0::/system.slice/docker-{A}.scope\n", f"/system.slice/docker-{A}.scope", (A,), id="v2, systemd"),
        pytest.param(f"0::/docker/{A}\n", f"/docker/{A}", (A,), id="v2, cgroupfs"),
        pytest.param(f"9:name=systemd:/docker/{A}\n4:memory:/docker/{A}\n0::/\n", f"/docker/{A}", (A,), id="v1"),
        pytest.param(f"0::/docker/{A}/docker/{B}\n", f"/docker/{A}/docker/{B}", (A, B), id="one inside another"),
        pytest.param(f"0::/machine.slice/libpod-{A}.scope/container\n", None, (A,), id="podman"),
        pytest.param("0::/user.slice/user-1000.slice\n", "/user.slice/user-1000.slice", (), id="no container"),
        pytest.param("0::/\n", "/", (), id="a namespace of its own"),
        pytest.param("4:memory:/process_api/4172beb4c07f7bc8b28e525e3339f39d\n", None, (), id="32 digits are no id"),
    ],
)
def test_a_cgroup_names_its_container(text: str, path: str | None, containers: tuple[str, ...]) -> None:
    cgroups = parse_cgroups(text)
    assert cgroups.containers == containers
    assert path is None or cgroups.path == path


def test_v1_controllers_that_share_a_hierarchy_share_its_path() -> None:
    assert parse_cgroups("2:cpu,cpuacct:/x\n") == Cgroups(None, {"cpu": "/x", "cpuacct": "/x"})


def test_both_forms_of_key_files_are_read() -> None:
    assert parse_keys("MemTotal:       263 kB\noom_kill 4\n\nUid:\t0\t1000\t0\t0\n") == {
        "MemTotal": "263 kB",
        "oom_kill": "4",
        "Uid": "0 1000 0 0",
    }


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 00000000 100 0 0 10 0
   1: 010011AC:1F90 020011AC:D431 01 00000000:00000000 02:00000400 00000000     0        0 0 1 00000000 20 4 30 10 -1
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 77 1 0 100 0 0 10 0
   1: 0000000000000000FFFF0000010011AC:1F90 0000000000000000FFFF0000020011AC:D431 08 0:0 00:0 0 0 0 78 1 0 20 4 30 10 -1
"""


def test_rows_of_both_tables_are_read() -> None:
    assert parse_tcp(TCP, 8080) == [TcpRow("127.0.0.1", 8080, 0x0A, 4242), TcpRow("172.17.0.1", 8080, 0x01, 0)]
    assert parse_tcp(TCP6, 8080) == [TcpRow("::1", 8080, 0x0A, 77), TcpRow("::ffff:172.17.0.1", 8080, 0x08, 78)]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\nGCC version:  gcc 12",
            "535.129.03",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (root@x)  Mon",
            "580.159.04",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.142  Release Build  (u@h)", "580.142"),
        ("NVRM version: something else\n", None),
    ],
)
def test_both_kinds_of_kernel_module_tell_their_version(text: str, version: str | None) -> None:
    assert parse_kernel_module(text) == version

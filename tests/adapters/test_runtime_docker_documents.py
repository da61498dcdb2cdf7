"""The Engine's documents become our values: times, states, addresses, stops, log frames, the progress of a pull."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from agent.adapters.docker_logs import frames, lines
from agent.adapters.docker_pull import START, fold
from agent.adapters.docker_views import address_of, evidence_of, facts_of, image_of, seconds_of, stop_of, view_of
from agent.container.labels import Identity, labels_for
from agent.container.port import RunState, StopRequest

ZERO = "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("1970-01-01T00:00:01.000000001Z", 1.000000001),
        ("1970-01-01T02:00:01.25+02:00", 1.25),
        ("2026-11-30T07:01:01.228321657Z", 1796022061.228321657),
        (ZERO, None),
        ("", None),
        (None, None),
        ("yesterday", None),
    ],
)
def test_times_are_seconds_since_the_epoch(text: str | None, seconds: float | None) -> None:
    assert seconds_of(text) == (None if seconds is None else pytest.approx(seconds, abs=1e-6))


def document(**state: Any) -> dict[str, Any]:
    return {
        "Id": "abc",
        "Name": "/engine",
        "Image": "sha256:1",
        "Config": {"Labels": labels_for(Identity("r", "p", 2, 8000)), "Env": ["A=1"]},
        "State": {"Status": "created", "Pid": 0, "ExitCode": 0, "StartedAt": ZERO, "FinishedAt": ZERO, **state},
    }


def test_what_never_ran_has_no_times_no_pid_and_no_code() -> None:
    view = view_of(document())
    assert view is not None
    assert (view.id, view.name, view.slug, view.plan_id, view.generation) == ("abc", "engine", "r", "p", 2)
    assert (view.state, view.pid, view.exit_code) == (RunState.CREATED, None, None)
    assert (view.started_at, view.finished_at, view.address) == (None, None, None)


def test_a_failed_start_is_created_with_its_reason_and_no_code() -> None:
    view = view_of(document(ExitCode=127, Error="no such program"))
    assert view is not None
    assert (view.exit_code, view.error) == (None, "no such program")


def test_an_end_has_code_time_and_whether_memory_was_short() -> None:
    start, end = "1970-01-01T00:00:01Z", "1970-01-01T00:00:05Z"
    view = view_of(document(Status="exited", ExitCode=137, OOMKilled=True, StartedAt=start, FinishedAt=end))
    assert view is not None
    assert (view.exit_code, view.oom_killed, view.started_at, view.finished_at) == (137, True, 1.0, 5.0)


def test_an_end_is_never_before_its_start() -> None:
    start, end = "1970-01-01T00:00:05.2Z", "1970-01-01T00:00:05.1Z"
    view = view_of(document(Status="exited", StartedAt=start, FinishedAt=end))
    assert view is not None
    assert view.finished_at == view.started_at == 5.2


def test_what_runs_again_has_no_end() -> None:
    view = view_of(document(Status="running", Pid=7, FinishedAt="1970-01-01T00:00:05Z"))
    assert view is not None
    assert (view.pid, view.finished_at, view.exit_code) == (7, None, None)


def test_what_is_not_labelled_is_not_ours() -> None:
    assert view_of(document() | {"Config": {"Labels": None}}) is None
    assert view_of(document() | {"Config": {"Labels": {"recipe-agent.recipe": "r"}}}) is None


def test_evidence_keeps_everything_but_secrets() -> None:
    labels = labels_for(Identity("r", "p", 2), ["B"])
    shown = evidence_of(document() | {"Config": {"Labels": labels, "Env": ["A=1", "B=2"], "Cmd": ["x"]}})
    assert shown["Config"]["Env"] == ["A=1", "B=(secret)"]
    assert shown["Config"]["Cmd"] == ["x"]
    assert shown["State"] == document()["State"]


def published(*bindings: tuple[str, str], port: str = "8000/tcp") -> dict[str, Any]:
    found = [{"HostIp": address, "HostPort": number} for address, number in bindings]
    return {"NetworkSettings": {"Ports": {port: found or None}, "IPAddress": "172.17.0.2"}}


@pytest.mark.parametrize(
    ("document", "port", "address"),
    [
        (published(("0.0.0.0", "18000"), ("::", "18000")), 8000, ("127.0.0.1", 18000)),
        (published(("::", "18000")), 8000, ("::1", 18000)),
        (published(("127.0.0.1", "18000")), 8000, ("127.0.0.1", 18000)),
        (published(("10.0.0.5", "18000")), 8000, ("10.0.0.5", 18000)),
        (published(("10.0.0.5", "1"), ("0.0.0.0", "2")), 8000, ("127.0.0.1", 2)),
        (published(("", "18000")), 8000, ("127.0.0.1", 18000)),
        (published(), 8000, ("172.17.0.2", 8000)),
        (published(("0.0.0.0", "9"), port="9000/tcp"), 8000, ("172.17.0.2", 8000)),
        (published(("0.0.0.0", "18000")), None, ("127.0.0.1", 18000)),
        (published(), None, None),
        ({"HostConfig": {"NetworkMode": "host"}, "NetworkSettings": {}}, 8000, ("127.0.0.1", 8000)),
        ({"HostConfig": {"NetworkMode": "none"}, "NetworkSettings": {"IPAddress": ""}}, 8000, None),
        (
            {"NetworkSettings": {"IPAddress": "", "Networks": {"models": {"IPAddress": "172.20.0.3"}}}},
            8000,
            ("172.20.0.3", 8000),
        ),
        (
            {"NetworkSettings": {"Networks": {"six": {"IPAddress": "", "GlobalIPv6Address": "fd00::2"}}}},
            8000,
            ("fd00::2", 8000),
        ),
        ({}, 8000, None),
    ],
)
def test_the_address_is_where_this_host_reaches_the_engine(
    document: dict[str, Any], port: int | None, address: tuple[str, int] | None
) -> None:
    assert address_of(document, port) == address


def event(action: str, at: float, signal: str | None = None) -> dict[str, Any]:
    attributes = {"signal": signal} if signal else {}
    return {"Action": action, "timeNano": int(at * 1e9), "Actor": {"Attributes": attributes}}


@pytest.mark.parametrize(
    ("events", "stop"),
    [
        ([], None),
        ([event("kill", 1, "15"), event("die", 2), event("stop", 3)], StopRequest(1.0, "TERM")),
        ([event("kill", 1, "15"), event("kill", 11, "9"), event("stop", 12)], StopRequest(11.0, "KILL")),
        ([event("kill", 1, "10")], None),
        ([event("kill", 1, "2"), event("kill", 2, "10")], StopRequest(1.0, "INT")),
        ([event("stop", 3)], StopRequest(3.0, "TERM")),
        ([{"status": "kill", "time": 4, "Actor": {"Attributes": {"signal": "15"}}}], StopRequest(4.0, "TERM")),
    ],
)
def test_a_stop_is_the_last_signal_that_asks_for_an_end(events: list[dict[str, Any]], stop: StopRequest | None) -> None:
    assert stop_of(events) == stop


def test_an_image_says_how_it_starts() -> None:
    facts = image_of(
        {
            "Id": "sha256:1",
            "RepoDigests": ["r/i@sha256:2"],
            "Size": 5,
            "Architecture": "amd64",
            "Config": {"Entrypoint": ["vllm"], "Cmd": None, "Env": ["A=b=c"], "User": "1000"},
        }
    )
    assert (facts.digests, facts.size, facts.entrypoint, facts.command) == (("r/i@sha256:2",), 5, ("vllm",), ())
    assert (facts.env, facts.user, facts.architecture) == ({"A": "b=c"}, "1000", "amd64")
    assert image_of({"Id": "x", "Config": None}).env == {}


def test_facts_tell_podman_and_rootless() -> None:
    version = {"Version": "5.4", "ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}]}
    info = {"SecurityOptions": ["name=seccomp", "name=rootless"], "Runtimes": {"runc": {}, "nvidia": {}}, "Driver": "o"}
    facts = facts_of(version, info)
    assert (facts.name, facts.rootless, facts.runtimes, facts.live_restore) == (
        "podman",
        True,
        ("nvidia", "runc"),
        None,
    )


def frame(text: bytes, stream: int = 1) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(text).to_bytes(4, "big") + text


STAMP = [f"1970-01-01T00:00:0{number}.000000001Z ".encode() for number in range(10)]


def test_frames_may_be_cut_anywhere() -> None:
    data = frame(b"one") + frame(b"", 2) + frame(b"two" * 100, 2)
    for size in (1, 3, 7, 8, 9, 1000):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert list(frames(pieces)) == [(1, b"one"), (2, b""), (2, b"two" * 100)]
    assert list(frames([data[:-1]])) == [(1, b"one"), (2, b"")]


def test_a_long_line_is_put_together_while_the_other_stream_talks() -> None:
    data = [
        frame(STAMP[1] + b"a" * 16384),
        frame(STAMP[2] + b"meanwhile\n", 2),
        frame(STAMP[3] + "ü".encode()[:1]),
        frame(STAMP[4] + "ü".encode()[1:] + b"end\n"),
        frame(STAMP[5] + b"no end"),
    ]
    found = list(lines(data))
    assert [line.text for line in found] == ["meanwhile", "a" * 16384 + "üend", "no end"]
    assert [round(line.at or 0) for line in found] == [2, 4, 5]


def test_a_line_that_never_ends_is_given_out_in_bounded_pieces() -> None:
    found = list(lines(frame(STAMP[1] + b"x" * 16384) for _ in range(200)))
    assert sum(len(line.text) for line in found) == 200 * 16384
    assert max(len(line.text) for line in found) <= (1 << 20) + 16384


def test_progress_bars_become_lines_with_the_time_of_their_entry() -> None:
    found = list(lines([frame(STAMP[3] + b"10%\r20%\r\x1b[32m30%\x1b[0m\n")]))
    assert [(line.text, round(line.at or 0)) for line in found] == [("10%", 3), ("20%", 3), ("30%", 3)]


def loading(layer: str, current: int, total: int | None = 100) -> dict[str, Any]:
    detail = {"current": current} | ({"total": total} if total else {})
    return {"id": layer, "status": "Downloading", "progressDetail": detail}


def test_a_pull_s_figures_never_go_back() -> None:
    messages = [
        {"status": "Pulling from team/engine", "id": "latest"},
        {"id": "a", "status": "Pulling fs layer", "progressDetail": {}},
        {"id": "b", "status": "Already exists", "progressDetail": {}},
        {"id": "c", "status": "Waiting"},
        loading("a", 10),
        loading("a", 60),
        {"id": "a", "status": "Retrying in 5 seconds"},
        loading("a", 5),
        loading("c", 40, 900),
        {"id": "a", "status": "Verifying Checksum"},
        {"id": "a", "status": "Download complete"},
        {"id": "a", "status": "Extracting", "progressDetail": {"current": 1, "total": 100}},
        {"id": "a", "status": "Extracting", "progressDetail": {"current": 3, "units": "s"}},
        {"id": "a", "status": "Pull complete"},
        loading("c", 900, 900),
        {"id": "c", "status": "Pull complete"},
        {"status": "Digest: sha256:1"},
        {"status": "Status: Downloaded newer image for team/engine:latest"},
    ]
    pull, seen = START, []
    for message in messages:
        pull = fold(pull, message)
        seen.append(pull.progress())
    for earlier, later in itertools.pairwise(seen):
        assert later.done >= earlier.done
        assert later.layers_done >= earlier.layers_done
        assert later.layers >= earlier.layers
        assert (later.total or 0) >= (earlier.total or 0)
    assert seen[3].total is None
    assert (seen[5].done, seen[5].total) == (60, 100)
    assert (seen[7].done, seen[7].total) == (60, 100)
    last = seen[-1]
    assert (last.done, last.total, last.layers_done, last.layers) == (1000, 1000, 3, 3)
    assert last.text == "Status: Downloaded newer image for team/engine:latest"


def test_a_layer_of_unknown_size_counts_what_came() -> None:
    progress = fold(START, loading("a", 10, None)).progress()
    assert (progress.done, progress.total) == (10, None)

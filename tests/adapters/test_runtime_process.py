"""What is the process runtime's own: the wrapper, the tree, records on disk, the log's bounds."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.adapters import process_follow, process_launcher, process_start
from agent.adapters import process_records as records
from agent.adapters import process_table as processes
from agent.adapters.process_runtime import ProcessRuntime
from agent.adapters.process_start import LogRotation
from agent.container.labels import Identity, labels_for
from agent.container.port import ContainerSpec, RunState
from agent.container.trouble import RuntimeRejected, RuntimeSilent, StillRuns
from tests.adapters.processes import end_all
from tests.container.contract import logged, until, view_in
from tests.lab import systemd
from tests.lab.engine import Engine
from tests.lab.procs import stop

WAITS = "import time\nprint('up', flush=True)\ntime.sleep(600)"
BURROWS = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        print('worker', os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
print('up', flush=True)
time.sleep(600)
"""
"""A worker that left the session and whose parent is gone: the shape of an engine core that outlives its server."""


class Bench:
    """A runtime with one folder."""

    def __init__(self, root: Path, max_bytes: int = 0, files: int = 3) -> None:
        self.root = root
        self.runtime = ProcessRuntime(root, LogRotation(max_bytes, files), timeout_s=10)

    async def create(self, script: str, **more: Any) -> str:
        env = list(more.pop("env", ()))
        hidden = [entry.partition("=")[0] for entry in env if entry.startswith("HF_TOKEN=")] + ["Cmd[3]"]
        labels = labels_for(Identity("some-recipe", "plan-1", 1), hidden)
        body = {"Cmd": [sys.executable, "-c", script, "sk-in-a-word"], "Labels": labels, "Env": env, **more}
        return await self.runtime.create(ContainerSpec("some-recipe", "plan-1", 1, "engine", body))

    async def start(self, script: str, **more: Any) -> str:
        container_id = await self.create(script, **more)
        await self.runtime.start(container_id)
        return container_id

    def marks(self, container_id: str) -> records.Started:
        found = records.started(records.read(self.root / container_id))
        assert found is not None
        return found


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path / "processes")
    yield bench
    end_all(bench.root)


async def gone(mark: processes.Mark) -> None:
    async def seen() -> bool:
        return not processes.alive(mark)

    await until(seen, f"{mark} ends")


async def worker_of(bench: Bench, container_id: str) -> processes.Mark:
    pids: list[int] = []

    async def seen() -> bool:
        lines = [line.text.split() for line in await bench.runtime.tail(container_id, 10)]
        pids.extend(int(words[1]) for words in lines if words[0] == "worker")
        return bool(pids) and ["up"] in lines

    await until(seen, "the worker's pid")
    found = processes.process(pids[0])
    assert found is not None
    return found.mark


async def test_it_runs_in_a_session_of_its_own_with_no_input(bench: Bench) -> None:
    container_id = await bench.start("import os\nprint(os.getsid(0) == os.getpid(), repr(os.read(0, 1)))")
    await view_in(bench.runtime, container_id, RunState.EXITED)
    assert [line.text for line in await bench.runtime.tail(container_id, 9)] == ["True b''"]
    assert os.getsid(0) != bench.marks(container_id).main.pid


async def test_it_gets_its_own_environment_and_folder_and_nothing_of_the_agent_s(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "the agent's")
    monkeypatch.setenv("NOBODY_ASKED", "for this")
    script = "import os\nprint(os.getcwd(), sorted(set(os.environ) - {'LC_CTYPE'}), os.environ['MODEL'])"
    gpus = {"DeviceRequests": [{"Driver": "", "DeviceIDs": ["GPU-1"], "Capabilities": [["gpu"]]}]}
    container_id = await bench.start(script, env=["MODEL=a=b"], WorkingDir=str(tmp_path), HostConfig=gpus)
    await view_in(bench.runtime, container_id, RunState.EXITED)
    line = (await bench.runtime.tail(container_id, 1))[0].text
    assert line.startswith(f"{tmp_path} [")
    assert line.endswith("] a=b")
    assert "'CUDA_VISIBLE_DEVICES'" in line
    assert "'PATH'" in line
    assert "HF_TOKEN" not in line
    assert "NOBODY_ASKED" not in line


async def test_a_secret_lies_on_the_disk_only_until_the_start(bench: Bench) -> None:
    container_id = await bench.create(WAITS, env=["HF_TOKEN=hunter2hunter2"])
    folder = bench.root / container_id

    def holding() -> list[tuple[str, int]]:
        found = [path for path in folder.iterdir() if re.search(b"hunter2hunter2|sk-in-a-word", path.read_bytes())]
        return sorted((path.name, path.stat().st_mode & 0o777) for path in found)

    assert holding() == [("argv", 0o600), ("environ", 0o600)]
    await bench.runtime.start(container_id)
    assert holding() == []
    word = str(await bench.runtime.inspect(container_id))
    assert "hunter2hunter2" not in word
    assert "sk-in-a-word" not in word


async def test_the_whole_tree_ends_with_kill_also_what_left_the_session(bench: Bench) -> None:
    container_id = await bench.start(BURROWS)
    worker = await worker_of(bench, container_id)
    await bench.runtime.signal(container_id, "KILL")
    await view_in(bench.runtime, container_id, RunState.EXITED)
    await gone(worker)
    await gone(bench.marks(container_id).wrapper)


async def test_the_end_of_the_first_process_ends_the_rest(bench: Bench) -> None:
    container_id = await bench.start(BURROWS)
    worker = await worker_of(bench, container_id)
    processes.send(bench.marks(container_id).main, signal.SIGTERM)
    assert (await view_in(bench.runtime, container_id, RunState.EXITED)).exit_code == 143
    await gone(worker)


async def test_without_its_wrapper_an_engine_lives_on_and_can_be_ended_whole(bench: Bench) -> None:
    container_id = await bench.start(BURROWS)
    worker = await worker_of(bench, container_id)
    marks = bench.marks(container_id)
    processes.send(marks.wrapper, signal.SIGKILL)
    await gone(marks.wrapper)
    again = ProcessRuntime(bench.root, LogRotation(0, 3))
    view = await view_in(again, container_id, RunState.RUNNING)
    assert view.pid == marks.main.pid
    await again.signal(container_id, "KILL")
    await gone(marks.main)
    await gone(worker)
    ended = await view_in(again, container_id, RunState.EXITED)
    assert ended.exit_code is None
    assert "nobody knows how" in ended.error


async def test_orphans_of_a_lost_wrapper_are_found_and_hold_the_record(bench: Bench) -> None:
    container_id = await bench.start(BURROWS)
    worker = await worker_of(bench, container_id)
    marks = bench.marks(container_id)
    for mark in (marks.wrapper, marks.main):
        processes.send(mark, signal.SIGKILL)
        await gone(mark)
    again = ProcessRuntime(bench.root, LogRotation(0, 3))
    with pytest.raises(StillRuns) as caught:
        await again.remove(container_id)
    assert f"pid {worker.pid}" in caught.value.text
    await again.signal(container_id, "KILL")
    await gone(worker)
    await again.remove(container_id)
    assert await again.list() == ()


async def test_what_is_in_its_control_group_is_its_own_as_long_as_the_group_is_the_same(
    bench: Bench, tmp_path: Path
) -> None:
    """Also what is no descendant. A group of that name in another folder is a later unit's, and another engine's."""
    container_id = await bench.start(WAITS)
    stranger = await asyncio.create_subprocess_exec("/bin/sleep", "600", start_new_session=True)
    try:
        group = tmp_path / "recipe-agent-engine@0-1-2.service"
        group.mkdir()
        (group / "cgroup.procs").write_text(f"{bench.marks(container_id).wrapper.pid}\n{stranger.pid}\n0\n")
        path = bench.root / container_id / "started"
        document = json.loads(path.read_text()) | {"group": str(group)}

        async def tree(inode: int) -> set[int]:
            path.write_text(json.dumps(document | {"group_inode": inode}))
            word = await bench.runtime.inspect(container_id)
            assert word is not None
            assert word["Process"]["Unit"] == group.name
            return {one["Pid"] for one in word["Process"]["Tree"]}

        assert stranger.pid not in await tree(group.stat().st_ino + 1)
        assert stranger.pid in await tree(group.stat().st_ino)
        await bench.runtime.signal(container_id, "KILL")
        assert await asyncio.wait_for(stranger.wait(), 10) == -signal.SIGKILL
        shutil.rmtree(group)
        await view_in(bench.runtime, container_id, RunState.EXITED)
        await bench.runtime.remove(container_id)
    finally:
        if stranger.returncode is None:
            stranger.kill()
            await stranger.wait()


@pytest.mark.parametrize(("counted", "killed"), [("null", False), ("0", False), ("2", True)])
async def test_a_kill_for_memory_is_what_the_kernel_counted(bench: Bench, counted: str, killed: bool) -> None:
    """In the engine's own control group; where it has none nobody counts, and nothing is claimed."""
    container_id = await bench.start("pass")
    await view_in(bench.runtime, container_id, RunState.EXITED)
    path = bench.root / container_id / "exited"
    assert json.loads(path.read_text())["oom_kills"] is None
    path.write_text(path.read_text().replace("null", counted))
    view = await bench.runtime.view(container_id)
    assert view is not None
    assert view.oom_killed is killed


async def test_a_zombie_has_ended(bench: Bench) -> None:
    container_id = await bench.start(WAITS)
    marks = bench.marks(container_id)
    stop(marks.wrapper.pid)  # nobody reaps now
    processes.send(marks.main, signal.SIGKILL)

    async def seen() -> bool:
        found = processes.find(marks.main)
        return found is not None and found.state == "Z"

    await until(seen, "a zombie")
    view = await bench.runtime.view(container_id)
    assert view is not None
    assert (view.state, view.exit_code) == (RunState.EXITED, None)
    assert "has not noted how" in view.error
    os.kill(marks.wrapper.pid, signal.SIGCONT)

    async def known() -> bool:
        view = await bench.runtime.view(container_id)
        return view is not None and view.exit_code == 137

    await until(known, "its exit code")


async def test_a_pid_that_was_used_again_fools_nobody(bench: Bench) -> None:
    container_id = await bench.start("pass")
    await view_in(bench.runtime, container_id, RunState.EXITED)
    stranger = await asyncio.create_subprocess_exec("/bin/sleep", "600")
    try:
        found = processes.process(stranger.pid)
        assert found is not None
        path = bench.root / container_id / "started"
        document = json.loads(path.read_text())
        document |= {"pid": stranger.pid, "start": found.mark.start - 1, "wrapper": stranger.pid, "wrapper_start": 1}
        path.write_text(json.dumps(document))
        view = await bench.runtime.view(container_id)
        assert view is not None
        assert view.state is RunState.EXITED
        await bench.runtime.signal(container_id, "KILL")
        await bench.runtime.remove(container_id)
        assert processes.alive(found.mark)
    finally:
        stranger.kill()
        await stranger.wait()


async def test_after_a_reboot_nothing_runs_whatever_has_the_pid(bench: Bench) -> None:
    container_id = await bench.start(WAITS)
    marks = bench.marks(container_id)
    path = bench.root / container_id / "started"
    true = path.read_text()
    path.write_text(true.replace(marks.boot, "00000000-0000-0000-0000-000000000000"))
    view = await bench.runtime.view(container_id)
    assert view is not None
    assert (view.state, view.exit_code, view.error) == (RunState.EXITED, None, "the host was started again")
    await bench.runtime.signal(container_id, "KILL")
    assert processes.alive(marks.main)
    path.write_text(true)


async def test_a_torn_or_foreign_record_costs_only_itself(bench: Bench) -> None:
    container_id = await bench.start(WAITS)
    (bench.root / "torn").mkdir()
    (bench.root / "torn" / "record.json").write_text('{"form": 1, "id": "to')
    (bench.root / "foreign").mkdir()
    (bench.root / "foreign" / "record.json").write_text("[]")
    (bench.root / "stray-file").write_text("?")
    (bench.root / ".new-left-behind").mkdir()
    assert [view.id for view in await bench.runtime.list()] == [container_id]
    assert await bench.runtime.name_holder("nobody") is None


async def test_a_kill_of_the_agent_between_create_and_start_loses_nothing(bench: Bench) -> None:
    container_id = await bench.create(WAITS, env=["MODEL=x"])
    again = ProcessRuntime(bench.root, LogRotation(0, 3))
    await again.start(container_id)
    assert (await view_in(bench.runtime, container_id, RunState.RUNNING)).pid


async def test_a_launch_that_needs_a_container_is_refused_in_words(bench: Bench) -> None:
    with pytest.raises(RuntimeRejected) as caught:
        await bench.create(WAITS, HostConfig={"Binds": ["/models:/models"], "Privileged": True})
    assert "mounts (-v)" in caught.value.text
    assert "--privileged" in caught.value.text
    assert await bench.runtime.list() == ()


async def test_a_person_s_kill_of_the_engine_itself_is_a_stop(bench: Bench) -> None:
    container_id = await bench.start(WAITS)
    await logged(bench.runtime, container_id, "up")
    os.kill(bench.marks(container_id).main.pid, signal.SIGTERM)
    await view_in(bench.runtime, container_id, RunState.EXITED)
    request = await bench.runtime.stop_requested(container_id, 0.0)
    assert request is not None
    assert request.signal == "TERM"


async def test_the_log_is_bounded_and_followed_while_it_forgets(tmp_path: Path) -> None:
    """Every line once, in order, though what was read is forgotten again and again meanwhile."""
    bench = Bench(tmp_path / "processes", max_bytes=2000, files=5)
    try:
        script = "import time\nfor n in range(400):\n print(f'line {n:04} ' + 'x' * 30, flush=True)\n time.sleep(0.01)"
        container_id = await bench.start(script)
        lines = [line async for line in bench.runtime.follow(container_id, None)]
        numbers = [int(line.text.split()[1]) for line in lines]
        assert numbers == list(range(400))
        assert (bench.root / container_id / "log").stat().st_blocks * 512 <= 5 * 2000 + 2 * 4096
        target = tmp_path / "saved.log"
        await bench.runtime.save_log(container_id, target)
        saved = target.read_text().splitlines()
        assert saved[-1].startswith("line 0399")
        assert saved == [f"line {number:04} " + "x" * 30 for number in numbers[-len(saved) :]]
        assert [line.text for line in await bench.runtime.tail(container_id, len(saved))] == saved
    finally:
        end_all(bench.root)


async def test_no_line_is_lost_where_an_engine_writes_as_fast_as_it_can(tmp_path: Path) -> None:
    """What is kept is whole from its first line to the last, and takes no more room than it may."""
    bench = Bench(tmp_path / "processes", max_bytes=200_000)
    script = (
        "import os, time\nend, n = time.monotonic() + 2, 0\nwhile time.monotonic() < end:\n"
        " os.write(1, b''.join(b'line %09d %s\\n' % (n + i, b'x' * 80) for i in range(20)))\n n += 20\n"
    )
    try:
        container_id = await bench.start(script)
        await view_in(bench.runtime, container_id, RunState.EXITED)
        target = tmp_path / "saved.log"
        assert await bench.runtime.save_log(container_id, target) == target.stat().st_size
        numbers = [int(line.split()[1]) for line in target.read_text().splitlines()]
        assert numbers[0] > 0
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert [int(line.text.split()[1]) for line in await bench.runtime.tail(container_id, 50)] == numbers[-50:]
        assert (bench.root / container_id / "log").stat().st_blocks * 512 <= 3 * 200_000 + 2 * 4096
    finally:
        end_all(bench.root)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
async def test_an_engine_gets_none_of_the_agent_s_capabilities(tmp_path: Path) -> None:
    """A unit gives them as ambient ones, which would go on to whatever is started."""
    (tmp_path / "argv").write_bytes(b"/bin/grep\0Cap\0/proc/self/status\0")
    (tmp_path / "environ").write_bytes(b"")
    as_unit = ("setpriv", "--securebits", "+noroot", "--inh-caps", "+kill", "--ambient-caps", "+kill", "--")
    stub = (sys.executable, "-I", "-S", str(process_launcher.STUB), str(tmp_path), "/", "0", "1", "shared")
    probe = await asyncio.create_subprocess_exec(*as_unit, "grep", "CapAmb", "/proc/self/status", stdout=-1)
    assert (await probe.communicate())[0].split()[1] != b"0" * 16, "the probe has one"
    wrapper = await asyncio.create_subprocess_exec(*as_unit, *stub)
    assert await wrapper.wait() == 0
    held = dict(line.split(":\t") for line in (tmp_path / "log").read_text().splitlines())
    assert (held["CapEff"], held["CapPrm"], held["CapAmb"]) == ("0" * 16,) * 3


@pytest.mark.docker
@pytest.mark.systemd
def test_where_systemd_runs_an_engine_has_a_scope_of_its_own(
    lab_engine: Engine, systemd_tools: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_start, "_systemd_run", lambda: "systemd-run")
    with systemd.booted(lab_engine, "scopes") as machine:
        told = machine.run(*process_start.scope("engine 1"), "cat", "/proc/self/cgroup")
    assert re.search(r"/run-[^/]+\.scope$", told, re.MULTILINE)


async def test_the_wrapper_survives_the_end_of_the_agent(tmp_path: Path) -> None:
    """Started from another process that ends at once, an engine runs on and its exit code is learned."""
    root = tmp_path / "processes"
    starter = f"""
import asyncio
from pathlib import Path
from agent.adapters.process_runtime import ProcessRuntime
from agent.adapters.process_start import LogRotation
from agent.container.labels import Identity, labels_for
from agent.container.port import ContainerSpec

async def main():
    runtime = ProcessRuntime(Path({str(root)!r}), LogRotation(0, 3))
    body = {{"Cmd": ["/bin/sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done"],
             "Labels": labels_for(Identity("some-recipe", "plan-1", 1))}}
    await runtime.start(await runtime.create(ContainerSpec("some-recipe", "plan-1", 1, "engine", body)))

asyncio.run(main())
"""
    try:
        agent = await asyncio.create_subprocess_exec(sys.executable, "-c", starter, cwd=Path(__file__).parents[2])
        assert await agent.wait() == 0
        runtime = ProcessRuntime(root, LogRotation(0, 3))
        (view,) = await runtime.list()
        assert view.running
        await logged(runtime, view.id, "up")  # the shell has set its trap
        await runtime.signal(view.id, "TERM")
        assert (await view_in(runtime, view.id, RunState.EXITED)).exit_code == 7
    finally:
        end_all(root)


async def test_a_disk_that_hangs_costs_a_call_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(records, "folders", lambda root: release.wait(30) and iter(()))
    runtime = ProcessRuntime(tmp_path, LogRotation(0, 3), timeout_s=1.0)
    beats = 0
    asking = asyncio.ensure_future(runtime.list())
    while not asking.done():
        await asyncio.sleep(0.01)
        beats += 1
    with pytest.raises(RuntimeSilent):
        asking.result()
    assert beats > 5
    release.set()


async def test_the_end_of_a_silent_engine_is_heard_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log is asked for changes no more than once an hour here, so only the kernel's word can tell."""
    for name in ("CALM_S", "LIVELY_S", "ANYWAY_S", "ANYWAY_HEARD_S"):
        monkeypatch.setattr(process_follow, name, 3600.0)
    found = await bench.start("import sys, time\nprint('up', flush=True)\ntime.sleep(1.5)\nsys.exit(3)")
    async with asyncio.timeout(30):
        assert [line.text async for line in bench.runtime.follow(found, None)] == ["up"]
    view = await bench.runtime.view(found)
    assert view is not None
    assert view.exit_code == 3

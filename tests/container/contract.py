"""What every runtime promises. One suite, run on the fake, on plain processes and on a Docker Engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from agent.container.labels import Identity, labels_for
from agent.container.port import ContainerSpec, ContainerView, LogLine, RunState, Runtime
from agent.container.trouble import ContainerGone, NameTaken, RuntimeRejected, StillRuns
from agent.errors import RuntimeTrouble
from tests.container.programs import RUNS, Program

PORT = 18123
WITHIN = 40.0


class World(Protocol):
    """Where the contract is tried."""

    @property
    def runtime(self) -> Runtime: ...

    def again(self) -> Runtime:
        """Another agent that looks at the same engines."""
        ...

    def body(self, program: Program) -> dict[str, Any]:
        """A body that runs this program."""
        ...

    async def person_stops(self, view: ContainerView) -> None:
        """Somebody stops it, past the agent, in the way that the runtime offers."""
        ...

    async def vanish(self, view: ContainerView) -> None:
        """Somebody removes it, past the agent."""
        ...


def spec_for(
    world: World, program: Program, *, name: str = "engine", generation: int = 1, env: tuple[str, ...] = ()
) -> ContainerSpec:
    """A spec with our labels; a variable named SECRET counts as a secret."""
    identity = Identity("some-recipe", "plan-1", generation, PORT)
    labels = labels_for(identity, ["SECRET"] if any(entry.startswith("SECRET=") for entry in env) else [])
    body = world.body(program) | {"Labels": labels, "Env": list(env)}
    return ContainerSpec(identity.slug, identity.plan_id, generation, name, body)


async def until(seen: Callable[[], Awaitable[bool]], what: str) -> None:
    """Look until it is so; a runtime tells nothing by itself that may not be missed."""
    end = time.monotonic() + WITHIN
    while not await seen():
        assert time.monotonic() < end, f"not within {WITHIN:g} s: {what}"
        await asyncio.sleep(0.05)


async def view_in(runtime: Runtime, container_id: str, state: RunState) -> ContainerView:
    """The view once it is in `state`."""
    found: list[ContainerView] = []

    async def seen() -> bool:
        view = await runtime.view(container_id)
        assert view is not None
        found.append(view)
        return view.state is state

    await until(seen, f"state {state}")
    return found[-1]


async def logged(runtime: Runtime, container_id: str, text: str) -> None:
    """Once a line of its log is `text`."""

    async def seen() -> bool:
        return any(line.text == text for line in await runtime.tail(container_id, 100))

    await until(seen, f"log line {text!r}")


async def started(world: World, program: Program, **more: Any) -> str:
    container_id = await world.runtime.create(spec_for(world, program, **more))
    await world.runtime.start(container_id)
    return container_id


async def collect(lines: Any) -> list[LogLine]:
    async with asyncio.timeout(WITHIN):
        return [line async for line in lines]


class RuntimeContract:
    """Subclasses bring a fixture `world`."""

    async def test_a_created_container_is_ours_and_does_not_run(self, world: World) -> None:
        container_id = await world.runtime.create(spec_for(world, RUNS, generation=7))
        view = await world.runtime.view(container_id)
        assert view is not None
        assert (view.name, view.slug, view.plan_id, view.generation) == ("engine", "some-recipe", "plan-1", 7)
        assert (view.state, view.pid, view.exit_code, view.started_at) == (RunState.CREATED, None, None, None)
        assert view.address is None
        assert await world.runtime.list() == (view,)
        assert await world.runtime.list(view.slug) == (view,)
        assert await world.runtime.list(f"{view.slug}-of-another") == ()

    async def test_a_started_one_runs_with_pid_time_and_address(self, world: World) -> None:
        before = time.time()
        container_id = await started(world, RUNS)
        view = await view_in(world.runtime, container_id, RunState.RUNNING)
        assert view.pid
        assert view.started_at is not None
        assert before - 1 <= view.started_at <= time.time() + 1
        assert view.address is not None
        assert view.address[1] == PORT
        assert (view.exit_code, view.finished_at) == (None, None)

    @pytest.mark.parametrize("code", [0, 3, 137])
    async def test_an_end_has_its_code_and_time(self, world: World, code: int) -> None:
        container_id = await started(world, Program(code=code))
        view = await view_in(world.runtime, container_id, RunState.EXITED)
        assert (view.exit_code, view.pid, view.address) == (code, None, None)
        assert view.started_at is not None
        assert view.finished_at is not None
        assert view.finished_at >= view.started_at

    async def test_a_container_is_started_only_once(self, world: World) -> None:
        container_id = await started(world, Program(code=0))
        await view_in(world.runtime, container_id, RunState.EXITED)
        with pytest.raises(RuntimeRejected):
            await world.runtime.start(container_id)

    async def test_a_program_that_is_not_there_is_said_at_the_start(self, world: World) -> None:
        spec = spec_for(world, RUNS)
        body = dict(spec.body) | {"Cmd": ["/no/such/program"]}
        container_id = await world.runtime.create(ContainerSpec("some-recipe", "plan-1", 1, "engine", body))
        with pytest.raises(RuntimeRejected) as caught:
            await world.runtime.start(container_id)
        assert "/no/such/program" in caught.value.text
        view = await world.runtime.view(container_id)
        assert view is not None
        assert (view.state, view.exit_code) == (RunState.CREATED, None)
        assert "/no/such/program" in view.error
        await world.runtime.remove(container_id)
        assert await world.runtime.list() == ()

    async def test_a_name_is_given_once(self, world: World) -> None:
        first = await world.runtime.create(spec_for(world, RUNS))
        with pytest.raises(NameTaken):
            await world.runtime.create(spec_for(world, RUNS, generation=2))
        holder = await world.runtime.name_holder("engine")
        assert isinstance(holder, ContainerView)
        assert holder.id == first
        assert await world.runtime.name_holder("another") is None

    async def test_of_many_that_want_one_name_one_gets_it(self, world: World) -> None:
        specs = [spec_for(world, RUNS, generation=number) for number in range(1, 9)]
        results = await asyncio.gather(*map(world.runtime.create, specs), return_exceptions=True)
        assert sum(isinstance(result, str) for result in results) == 1
        assert all(isinstance(result, str | NameTaken) for result in results)
        assert len(await world.runtime.list()) == 1

    async def test_remove_frees_the_name_and_may_be_repeated(self, world: World) -> None:
        container_id = await started(world, Program(code=0))
        await view_in(world.runtime, container_id, RunState.EXITED)
        await world.runtime.remove(container_id)
        assert await world.runtime.view(container_id) is None
        assert await world.runtime.name_holder("engine") is None
        await world.runtime.remove(container_id)
        assert await world.runtime.create(spec_for(world, RUNS, generation=2)) != container_id

    async def test_what_runs_is_not_removed(self, world: World) -> None:
        container_id = await started(world, RUNS)
        with pytest.raises(StillRuns):
            await world.runtime.remove(container_id)
        await view_in(world.runtime, container_id, RunState.RUNNING)

    async def test_term_asks_and_kill_ends(self, world: World) -> None:
        polite = await started(world, Program(output="up\n"))
        rude = await started(world, Program(output="up\n", ignores_term=True), name="rude")
        for container_id in (polite, rude):
            await logged(world.runtime, container_id, "up")
            await world.runtime.signal(container_id, "TERM")
        assert (await view_in(world.runtime, polite, RunState.EXITED)).exit_code == 0
        assert (await view_in(world.runtime, rude, RunState.RUNNING)).pid
        await world.runtime.signal(rude, "KILL")
        assert (await view_in(world.runtime, rude, RunState.EXITED)).exit_code == 137

    async def test_a_signal_to_what_has_ended_or_is_gone_is_no_error(self, world: World) -> None:
        container_id = await started(world, Program(code=1))
        await view_in(world.runtime, container_id, RunState.EXITED)
        for name in ("TERM", "KILL"):
            await world.runtime.signal(container_id, name)
            await world.runtime.signal("0" * 64, name)
        view = await world.runtime.view(container_id)
        assert view is not None
        assert view.exit_code == 1

    async def test_the_tail_is_clean_lines(self, world: World) -> None:
        output = "first\n\x1b[32mgreen\x1b[0m\n10%\r20%\r\nümlaut\n\nlast without an end"
        container_id = await started(world, Program(output=output, code=0))
        await view_in(world.runtime, container_id, RunState.EXITED)
        await logged(world.runtime, container_id, "last without an end")
        lines = [line.text for line in await world.runtime.tail(container_id, 100)]
        assert lines == ["first", "green", "10%", "20%", "ümlaut", "last without an end"]
        assert [line.text for line in await world.runtime.tail(container_id, 2)] == lines[-2:]

    async def test_following_gives_every_line_and_ends_with_the_container(self, world: World) -> None:
        before = time.time()
        container_id = await started(world, Program(output="one\ntwo\nthree\n", code=0))
        lines = await collect(world.runtime.follow(container_id, None))
        assert [line.text for line in lines] == ["one", "two", "three"]
        assert all(line.at is not None and before - 1 <= line.at <= time.time() + 1 for line in lines)

    async def test_following_again_goes_on_behind_the_last_line(self, world: World) -> None:
        container_id = await started(world, Program(output="one\ntwo\n"))
        follower = world.runtime.follow(container_id, None)
        async with asyncio.timeout(WITHIN):
            seen = [await anext(follower), await anext(follower)]
        await follower.aclose()  # type: ignore[attr-defined]
        await world.runtime.signal(container_id, "KILL")
        again = await collect(world.again().follow(container_id, seen[-1].at))
        assert [line.text for line in seen] == ["one", "two"]
        assert again == []

    async def test_a_whole_log_is_saved_or_none(self, world: World, tmp_path: Path) -> None:
        text = "".join(f"line {number}\n" for number in range(5000))
        container_id = await started(world, Program(output=text, code=0))
        await view_in(world.runtime, container_id, RunState.EXITED)
        await logged(world.runtime, container_id, "line 4999")
        folder = tmp_path / "saved"
        folder.mkdir()
        target = folder / "engine.log"
        assert await world.runtime.save_log(container_id, target) == len(text)
        assert target.read_text() == text
        assert [path.name for path in folder.iterdir()] == ["engine.log"]
        with pytest.raises(RuntimeTrouble):
            await world.runtime.save_log(container_id, folder / "no" / "folder.log")
        with pytest.raises(ContainerGone):
            await world.runtime.save_log("0" * 64, folder / "nothing.log")
        assert [path.name for path in folder.iterdir()] == ["engine.log"]

    async def test_another_agent_finds_the_same(self, world: World) -> None:
        await started(world, RUNS)
        ended = await started(world, Program(code=4), name="ended")
        await world.runtime.create(spec_for(world, RUNS, name="created", generation=2))
        await view_in(world.runtime, ended, RunState.EXITED)
        mine, other = await world.runtime.list(), await world.again().list()
        assert {view.id: view for view in mine} == {view.id: view for view in other}
        assert sorted(view.state for view in other) == [RunState.CREATED, RunState.EXITED, RunState.RUNNING]

    async def test_a_person_s_stop_is_told_from_an_end_of_its_own(self, world: World) -> None:
        before = time.time()
        stopped = await started(world, Program(output="up\n"))
        alone = await started(world, Program(code=0), name="alone")
        await logged(world.runtime, stopped, "up")
        view = await view_in(world.runtime, stopped, RunState.RUNNING)
        await world.person_stops(view)
        assert (await view_in(world.runtime, stopped, RunState.EXITED)).exit_code == 0
        await view_in(world.runtime, alone, RunState.EXITED)
        request = await world.runtime.stop_requested(stopped, before)
        assert request is not None
        assert request.signal == "TERM"
        assert before - 1 <= request.at <= time.time() + 1
        assert await world.runtime.stop_requested(alone, before) is None
        assert await world.runtime.stop_requested(stopped, request.at + 0.5) is None

    async def test_our_own_stop_is_told_as_well(self, world: World) -> None:
        before = time.time()
        container_id = await started(world, Program(output="up\n", ignores_term=True))
        await logged(world.runtime, container_id, "up")
        await world.runtime.signal(container_id, "TERM")
        await world.runtime.signal(container_id, "KILL")
        await view_in(world.runtime, container_id, RunState.EXITED)
        request = await world.runtime.stop_requested(container_id, before)
        assert request is not None
        assert request.signal == "KILL"

    async def test_what_vanishes_is_nothing_and_no_error(self, world: World) -> None:
        container_id = await started(world, Program(output="up\n"))
        await logged(world.runtime, container_id, "up")
        await world.vanish(await view_in(world.runtime, container_id, RunState.RUNNING))
        assert await world.runtime.view(container_id) is None
        assert await world.runtime.inspect(container_id) is None
        assert await world.runtime.list() == ()
        assert await world.runtime.tail(container_id, 10) == ()
        assert await collect(world.runtime.follow(container_id, None)) == []
        await world.runtime.remove(container_id)
        with pytest.raises(ContainerGone):
            await world.runtime.start(container_id)

    async def test_many_calls_at_once_are_all_answered(self, world: World) -> None:
        container_id = await started(world, RUNS)
        await view_in(world.runtime, container_id, RunState.RUNNING)
        views = await asyncio.gather(*(world.runtime.view(container_id) for _ in range(50)))
        assert {view.id for view in views if view is not None} == {container_id}
        assert len(views) == 50

    async def test_events_name_the_slug_of_what_changed(self, world: World) -> None:
        events = world.runtime.events()
        waiting = asyncio.ensure_future(anext(events))
        async with asyncio.timeout(WITHIN):
            for number in count(1):  # what happens before the stream is open is for the poll
                await started(world, Program(code=0), name=f"engine-{number}")
                if (await asyncio.wait([waiting], timeout=1.0))[0]:
                    break
        assert await waiting == "some-recipe"
        await events.aclose()  # type: ignore[attr-defined]

    async def test_evidence_shows_no_secret(self, world: World) -> None:
        spec = spec_for(world, RUNS, env=("SECRET=hunter2hunter2", "OPEN=shown"))
        container_id = await world.runtime.create(spec)
        found = await world.runtime.inspect(container_id)
        assert found is not None
        assert found["Id"] == container_id
        word = str(found)
        assert "OPEN=shown" in word
        assert "hunter2hunter2" not in word
        assert "hunter2hunter2" not in repr(spec)

    async def test_an_image_that_is_not_there_is_none(self, world: World) -> None:
        assert await world.runtime.image("no-such-image:at-all") is None

    async def test_it_says_what_it_is(self, world: World) -> None:
        facts = await world.runtime.facts()
        assert facts.name
        assert facts.version

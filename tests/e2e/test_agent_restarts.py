"""The agent may die at any moment and the host may be restarted: one container, one state, nothing lost."""

from __future__ import annotations

import ctypes
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e import recipes, traffic
from tests.e2e.rig import Rig, deployed, wait_for
from tests.lab.children import free_port
from tests.lab.engine import Engine
from tests.lab.init import mount

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(240)]
BIND = 0x1000
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SEED = 20261130
# From a start to the next, each at some instant of its own.
MOMENTS = ("starting", "ready", "stalled", "stopping", "starting", "suspect", "stalled", "releasing",
           "starting", "stopping", "starting", "ready")  # fmt: skip


class Watcher:
    """Looks at `docker ps -a` all the time, and remembers the most containers of a slug that were there at once."""

    def __init__(self, rig: Rig, slug: str) -> None:
        self.most = 0
        self.ids: list[str] = []
        self._rig, self._slug = rig, slug
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._end.is_set():
            found = [line.split()[0] for line in self._rig.containers(self._slug)]
            self.most = max(self.most, len(found))
            self.ids += [one for one in found if one not in self.ids]
            self._end.wait(0.05)

    @contextmanager
    def looking(self) -> Iterator[Watcher]:
        self._thread.start()
        try:
            yield self
        finally:
            self._end.set()
            self._thread.join()


def test_an_agent_that_is_killed_finds_the_same_engine_again(rig: Rig) -> None:
    """SIGKILL and a new start: same container, same state, no incident; a stop by SIGTERM leaves the engine as well."""
    slug = "survives"
    port = deployed(rig, slug)
    before = rig.status(slug)
    with Watcher(rig, slug).looking() as watcher, traffic.client(port):
        rig.until(slug, "busy")
        for end in (rig.kill, rig.terminate, rig.kill):
            end()
            assert traffic.get(port, "/health")[0] == 200
            print(f"adopted {rig.start():.2f} s after the start of the agent")
            rig.until(slug, "busy")
    after = rig.until(slug, "ready")
    for key in ("container", "generation", "plan_id", "restarts", "supervision", "endpoint"):
        assert after[key] == before[key], key
    assert (watcher.most, watcher.ids) == (1, [before["container"]])
    assert not rig.incidents(slug)
    assert rig.path(slug).count("starting") == 1


def test_kills_at_random_moments_lose_nothing(rig: Rig) -> None:
    """Killed again and again while an engine starts, stalls, is kept as evidence and taken down: never a second
    container at a time, no generation twice, each restart counted, no incident lost."""
    slug, chance, port = "killed", random.Random(SEED), free_port()
    windows = {"stall": 2, "suspect": 0.8, "canary_timeout": 0.8, "term_clients": 0.7, "budget": 30, "backoff": [0.3]}
    rig.publish(recipes.recipe(slug, port, env={"SIM_START_S": "10", "SIM_BOOT_S": "1"}), recipes.profile(**windows))
    with Watcher(rig, slug).looking() as watcher:
        rig.ok("deploy", slug, "--yes")
        stalled, met = 0, []
        for moment in MOMENTS:
            stalled = live_until(rig, slug, port, stalled, moment)
            time.sleep(chance.uniform(0, 0.4))
            met.append(rig.status(slug)["state"])
            rig.kill()
            rig.start()
        print(f"killed in: {', '.join(met)}")
        one = rig.until(slug, "ready", "busy", "suspect", within=30)
    assert watcher.most == 1
    assert len(watcher.ids) == one["generation"]
    assert one["generation"] == 1 + one["restarts"]
    assert one["restarts"] >= 2, met
    assert len(set(met)) >= 4, met
    kept = {incident["generation"] for incident in rig.incidents(slug)}
    assert kept >= set(range(1, one["generation"]))
    logs = list((rig.folder / "state" / "logs" / slug).iterdir())
    assert len(logs) == one["restarts"]


def live_until(rig: Rig, slug: str, port: int, stalled: int, state: str) -> int:
    """Lets it live, with one stall a generation, until it is in `state`; the newest generation that has its stall."""
    end = time.monotonic() + 12
    while rig.status(slug)["state"] != state and time.monotonic() < end:
        stalled = stall_once(rig, slug, port, stalled)
        time.sleep(0.01)
    return stalled


def stall_once(rig: Rig, slug: str, port: int, stalled: int) -> int:
    """Gives a generation that serves a request that stalls, once; the newest generation that has one."""
    one = rig.status(slug)
    if one["state"] != "ready" or one["generation"] == stalled:
        return stalled
    threading.Thread(target=hold, args=(port,), daemon=True).start()
    time.sleep(0.2)
    traffic.fault(port, "stall")
    return int(one["generation"])


def hold(port: int) -> None:
    """A client that keeps its connection until the engine ends it."""
    with traffic.client(port) as connection:
        connection.settimeout(60)
        try:
            while connection.recv(1 << 16):
                pass
        except OSError:
            pass


def test_a_budget_that_is_spent_stays_spent(rig: Rig) -> None:
    """A restart that was counted is still counted after a SIGKILL, and so is a person's stop."""
    slug = "counted"
    port = deployed(rig, slug)
    traffic.fault(port, "exit", "3")
    rig.until(slug, "ready", generation=2)
    rig.kill()
    rig.start()
    one = rig.until(slug, "ready")
    assert (one["generation"], one["restarts"], one["restart_budget"]) == (2, 1, 2)
    assert rig.value("recipe_agent_restarts_total", recipe=slug, reason="exit") == 1
    rig.ok("stop", slug)
    rig.kill()
    rig.start()
    rig.never(slug, "starting", "ready", "pending", seconds=2)
    assert rig.status(slug)["state"] == "stopped"


def test_an_engine_that_died_while_nobody_looked_is_dealt_with_at_the_next_start(rig: Rig) -> None:
    """Evidence first, then the restart, as if it had been seen."""
    slug = "unseen"
    port = deployed(rig, slug)
    rig.kill()
    traffic.fault(port, "exit", "1")
    rig.start()
    one = rig.until(slug, "ready", generation=2)
    assert one["restarts"] == 1
    assert [incident["kind"] for incident in rig.incidents(slug)] == ["exit"]


def test_a_second_daemon_on_the_same_state_is_refused(rig: Rig) -> None:
    """It says who has it, ends non-zero, and takes nothing from the first: not even its socket."""
    second = Rig(rig.folder, rig.engine)
    process = second.launch()
    code = process.wait(20)
    second.daemon = None
    assert code != 0
    words = rig.log.read_text()
    assert "error: cannot" in words
    assert str(rig.folder / "state") in words
    assert rig.answers()


@contextmanager
def other_boot(folder: Path) -> Iterator[None]:
    """The kernel's boot id as another boot would have it, for every program in these namespaces."""
    fake = folder / "boot_id"
    fake.write_text("11111111-2222-3333-4444-555555555555\n")
    mount(str(fake), BOOT_ID, None, BIND)
    try:
        yield
    finally:
        wait_for(lambda: unmounted(BOOT_ID), "the boot id to be the kernel's again")


def unmounted(path: Path) -> bool:
    return bool(ctypes.CDLL(None, use_errno=True).umount2(str(path).encode(), 0) == 0)


def test_after_a_reboot_what_should_run_is_started_with_no_incident(rig: Rig) -> None:
    """Containers have exited or are gone, and the boot id is new: started again, no incident, no budget spent; and what
    a person had stopped stays down."""
    exited, gone, stopped = "reboot-exited", "reboot-gone", "reboot-stopped"
    for slug in (exited, gone, stopped):
        deployed(rig, slug, wait=False)
    for slug in (exited, gone):
        rig.until(slug, "ready")
    rig.ok("stop", stopped)
    engine: Engine | None = rig.engine
    assert engine is not None
    rig.kill()
    engine.docker("kill", exited)
    engine.docker("rm", "--force", gone)
    with other_boot(rig.folder):
        rig.start()
        for slug in (exited, gone):
            one = rig.until(slug, "ready", generation=2)
            assert (one["restarts"], one["restart_budget"]) == (0, 3)
            assert not rig.incidents(slug)
            assert len(rig.containers(slug)) == 1
            assert rig.value("recipe_agent_restarts_total", recipe=slug, reason="exit") == 0
        assert rig.status(stopped)["state"] == "stopped"
        assert not rig.containers(stopped)

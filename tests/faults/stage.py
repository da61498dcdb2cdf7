"""One row of the fault matrix in real time: a simulated engine in a container, the real agent, and what is looked for.

Many plays run side by side under one agent, each with a deployment of its own.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal

from agent.adapters.agent_client import ApiError, Client, Target
from tests.e2e import recipes, traffic
from tests.e2e.rig import Rig
from tests.lab.children import free_port
from tests.lab.nvml.hosts import XID_EVENTS, cmp170hx, without
from tests.lab.nvml.standin import StandIn

LOOK_S = 0.25
READY_S = 60.0
SIDE_BY_SIDE = 12
"""Plays at a time: each is an agent's loop and an engine of two to four processes."""
SLACK_S = 10.0
"""What a machine that others use may add to a bound."""
COMING = frozenset({"pending", "preflight", "image", "starting", "ready", "unobservable"})
"""What every deployment goes through, and what a scrape looks like that this machine was too busy to answer in time;
nothing follows from it."""
WINDOWS = {**recipes.WINDOWS, "unobservable": 20}
PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "vllm": ("vllm", ("serve", "sim", "--max-model-len", "524288", "--max-num-batched-tokens", "8192")),
    "sglang": ("python3", ("-m", "sglang.launch_server", "--model-path", "sim", "--host", "0.0.0.0",
                           "--context-length", "524288")),
    "llamacpp": ("llama-server", ("-m", "sim.gguf", "--alias", "sim", "--host", "0.0.0.0", "-c", "1048576",
                                  "-np", "2")),
}  # fmt: skip
"""How each engine is started in a container: its program, and its words."""

Then = Literal["restarted", "failed", "quarantined", "stopped", "aborted"]


@dataclass(frozen=True)
class Found:
    """The row must fire: this state and kind of incident, within so many seconds, and what comes of it."""

    state: str
    kind: str
    within: float
    then: Then = "restarted"
    says: str = ""
    """Words of the sentence."""
    restarts: int = 1


@dataclass(frozen=True)
class Left:
    """The row must not fire: for so many seconds nothing but these states, the same container, no incident."""

    seconds: float
    may: frozenset[str]
    ends: str
    also: Callable[[On], bool] = lambda on: True


@dataclass(frozen=True)
class Play:
    """One row, or a variant of it. `windows` are those of `tests/e2e/recipes.py` changed; times are real seconds."""

    row: str
    says: str
    cause: Callable[[On], None]
    ends: Found | Left
    engine: str = "vllm"
    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    windows: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    """Further flags of `docker run`."""
    card: bool = False
    """It has a card of the stand-in driver."""
    derived: bool = False
    """Its windows are those that the agent derives from the recipe, `windows` alone excepted."""
    starting: bool = False
    """The row is about the start: its time begins with the deployment."""
    long: bool = False
    """Left to `make test-long`."""

    @property
    def id(self) -> str:
        return f"{self.row} {self.says}"


class Cards:
    """A host of sixteen cards, shown by the stand-in driver; each play takes one, and plays run side by side."""

    def __init__(self, standin: StandIn) -> None:
        self._standin = standin
        self._lock = Lock()
        self._host = cmp170hx(16)
        self._free = list(range(16))
        standin.show(self._host)

    def take(self) -> int:
        return self._free.pop(0)

    def restore(self, card: int) -> None:
        """A sound card again."""
        self.change(card, **cmp170hx(card + 1)["cards"][card])

    def change(self, card: int, **readings: Any) -> None:
        """Readings of one card from now on."""
        with self._lock:
            self._host["cards"][card] |= readings
            self._standin.show(self._host)

    def lose(self, card: int, *readings: str) -> None:
        """The driver knows these of one card no longer: NOT_SUPPORTED."""
        with self._lock:
            self._host["cards"][card] = without(self._host["cards"][card], *readings)
            self._standin.show(self._host)

    def xid(self, card: int, *numbers: int) -> None:
        """The driver reports these on one card."""
        with self._lock:
            self._host["events"] += [{"card": card, "type": XID_EVENTS, "data": number} for number in numbers]
            self._standin.show(self._host)


class On:
    """What a play acts on."""

    def __init__(self, play: Play, number: int, rig: Rig, cards: Cards, stack: ExitStack) -> None:
        self.play, self.rig, self.cards = play, rig, cards
        self.slug = f"{play.row.lower()}-{number}"
        self.port = free_port()
        self.card = cards.take() if play.card else -1
        self.began = time.monotonic()
        self.whys: set[str] = set()
        """Every sentence that its status had."""
        self._stack = stack

    # -- what a play does ---------------------------------------------------------------------------------------------

    def client(self, count: int = 1, **body: Any) -> list[socket.socket]:
        """Clients that hold their connections until the play is over; returns when the agent has seen work."""
        made = [self._stack.enter_context(traffic.client(self.port, **body)) for _ in range(count)]
        self.until("busy", within=30)
        return made

    def wait_clients(self, count: int = 1) -> None:
        """Clients whose requests nobody will see."""
        for _ in range(count):
            self._stack.enter_context(traffic.client(self.port))

    def stay(self) -> socket.socket:
        """A connection that asks for nothing."""
        return self._stack.enter_context(closing(socket.create_connection(("127.0.0.1", self.port), timeout=10)))

    def fault(self, kind: str, arg: str = "", for_s: float | None = None) -> None:
        traffic.fault(self.port, kind, arg, for_s)

    def post(self, path: str) -> int:
        """A POST to the engine; its status."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request("POST", path)
            return connection.getresponse().status

    def signal(self, name: str, number: signal.Signals, at: int = 0) -> None:
        """A signal to the `at`-th process of this name in the container, by its pid."""
        assert self.rig.engine is not None
        lines = self.rig.engine.docker("top", self.slug, "-eo", "pid,args").splitlines()[1:]
        pids = sorted(int(line.split()[0]) for line in lines if name in line)
        os.kill(pids[at], number)

    def now(self) -> None:
        """The fault begins here."""
        self.began = time.monotonic()

    def later(self, seconds: float) -> None:
        """Until so many seconds after the fault began."""
        time.sleep(max(0.0, self.began + seconds - time.monotonic()))

    # -- what is seen -------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        return self.rig.status(self.slug)

    def until(self, *states: str, within: float, generation: int | None = None) -> dict[str, Any]:
        return self.rig.until(self.slug, *states, within=within, generation=generation)

    def value(self, name: str, **labels: str) -> float | None:
        return self.rig.value(f"recipe_agent_{name}", recipe=self.slug, **labels)

    def told(self) -> list[str]:
        """Every sentence of its events."""
        return [event["text"] for event in self.rig.events(self.slug)]


def document(play: Play, on: On) -> dict[str, Any]:
    """The recipe of a play, in the engine's own launch."""
    program, words = PROGRAMS[play.engine]
    variables = {**recipes.SIMULATED, **play.env}
    options = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    options += ["--gpus", f'"device={on.card}"'] if play.card else []
    launch = ["docker", "run", "-d", "--name", on.slug, *options, *play.options, "-p", f"{on.port}:{on.port}",
              "--entrypoint", program, recipes.IMAGE, *words, "--port", str(on.port), *play.flags]  # fmt: skip
    return {**recipes.recipe(on.slug, on.port), "title": play.id, "config": {"launch": launch}}


def deploy(on: On) -> None:
    """Through the API, as `agentctl deploy --yes` does it."""
    windows = on.play.windows if on.play.derived else {**WINDOWS, **on.play.windows}
    on.rig.publish(document(on.play, on), json.dumps({"watch": dict(windows)}))
    client = Client(Target(str(on.rig.folder / "agent.sock")), 60.0)
    asked = {"slug": on.slug, "sets": {"gpus": str(on.card)} if on.play.card else {}}
    plan = client.call("POST", "/v1/plans", asked)
    more = {"plan_id": plan["plan_id"], "accept": ["weights"]}
    operation = client.call("POST", "/v1/deployments", {**asked, **more})
    end = time.monotonic() + READY_S
    while operation["state"] == "running" and time.monotonic() < end:
        operation = client.get(f"/v1/operations/{operation['id']}?wait=10")
    assert not operation["error"], operation["error"]


def perform(play: Play, number: int, rig: Rig, cards: Cards) -> float:
    """Plays the row; the seconds from the fault to the verdict, or those for which nothing was done."""
    with ExitStack() as stack:
        on = On(play, number, rig, cards, stack)
        try:
            deploy(on)
            if not play.starting:
                on.until("ready", within=READY_S)
            on.now()
            play.cause(on)
            return (expect_found if isinstance(play.ends, Found) else expect_left)(on)
        finally:
            remove(on)


def remove(on: On) -> None:
    """The deployment, and what was wrong with its card."""
    with suppress(ApiError):
        Client(Target(str(on.rig.folder / "agent.sock")), 60.0).call("POST", f"/v1/deployments/{on.slug}/remove", {})
    if on.play.card:
        on.cards.restore(on.card)


def expect_found(on: On) -> float:
    """Found as what it is, in time, not before; then what must come of it, once."""
    wanted = on.play.ends
    assert isinstance(wanted, Found)
    end = on.began + wanted.within + SLACK_S
    while wanted.state not in on.rig.path(on.slug):
        assert time.monotonic() < end, f"not {wanted.state} within {wanted.within:.0f} s: {story(on)}"
        time.sleep(LOOK_S)
    took = time.monotonic() - on.began
    AFTERWARDS[wanted.then](on, wanted)
    incidents = on.rig.incidents(on.slug)
    assert {one["kind"] for one in incidents} == {wanted.kind}, story(on)
    assert wanted.says in " ".join(on.told()), story(on)
    return took


def restarted(on: On, wanted: Found) -> None:
    """A new container serves, after as many restarts as the row allows."""
    one = on.until("ready", "busy", within=READY_S, generation=1 + wanted.restarts)
    assert one["restarts"] == wanted.restarts, story(on)


def failed(on: On, wanted: Found) -> None:
    given_up(on, wanted, "failed")


def quarantined(on: On, wanted: Found) -> None:
    given_up(on, wanted, "quarantined")


def stopped(on: On, wanted: Found) -> None:
    given_up(on, wanted, "stopped")


def given_up(on: On, wanted: Found, state: str) -> None:
    """It rests there: nothing is started again."""
    one = on.until(state, within=READY_S)
    assert one["restarts"] == wanted.restarts, story(on)
    on.rig.never(on.slug, "starting", "ready", seconds=2)


def aborted(on: On, wanted: Found) -> None:
    """The same container serves on."""
    assert on.until("ready", "busy", within=READY_S)["generation"] == 1, story(on)


AFTERWARDS: dict[Then, Callable[[On, Found], None]] = {
    "restarted": restarted,
    "failed": failed,
    "quarantined": quarantined,
    "stopped": stopped,
    "aborted": aborted,
}


def expect_left(on: On) -> float:
    """Nothing is done, whatever is shown meanwhile."""
    wanted = on.play.ends
    assert isinstance(wanted, Left)
    end = on.began + wanted.seconds
    while time.monotonic() < end:
        alone(on, wanted)
        time.sleep(LOOK_S)
    on.until(wanted.ends, within=30)
    alone(on, wanted)
    assert wanted.also(on), story(on)
    return time.monotonic() - on.began


def alone(on: On, wanted: Left) -> None:
    """The first container, no incident, and only states that may be."""
    one = on.status()
    on.whys.add(one["why"])
    seen = set(on.rig.path(on.slug)) | {one["state"]}
    assert seen <= wanted.may | COMING | {wanted.ends}, f"{sorted(seen)}: {story(on)}"
    assert one["generation"] == 1, story(on)
    assert not on.rig.incidents(on.slug), story(on)


def story(on: On) -> str:
    """What happened, for a person."""
    one = on.status()
    return "\n".join([f"{on.play.id}: {one['state']}: {one['why']}", *on.told()[-25:]])


def length(play: Play) -> float:
    """Roughly how long it takes: long ones begin first. Broken cards come last, since they hold up who starts beside
    them."""
    if play.card and isinstance(play.ends, Found) and play.ends.then == "quarantined":
        return 0.0
    return play.ends.within if isinstance(play.ends, Found) else play.ends.seconds


class Season:
    """All plays of a run, side by side; each result is waited for by its own test."""

    def __init__(self, rig: Rig, cards: Cards, plays: list[Play]) -> None:
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)
        numbered = enumerate(sorted(plays, key=length, reverse=True), 1)
        self.results: dict[str, Future[float]] = {
            play.id: self._pool.submit(perform, play, number, rig, cards) for number, play in numbered
        }

    def close(self) -> None:
        """Those that have not begun do not."""
        self._pool.shutdown(wait=True, cancel_futures=True)

"""The way down of one container: drain, TERM, KILL, gone, released (pure; part of the decision)."""

from __future__ import annotations

from agent.action.model import (
    BringBack,
    EndOrphans,
    Forget,
    Nothing,
    Released,
    Remove,
    Settle,
    Signal,
    Step,
    Stuck,
    Sweep,
)
from agent.action.record import Deployment, Reason, State, Takedown
from agent.action.seen import Seen
from agent.container.port import ContainerView, RunState
from agent.quantity import counted

NAMED = 5
ASK_AGAIN_S = 60.0
"""How often a removal that hangs is asked for again: an Engine that was restarted has forgotten the first one."""
ALIVE = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.RESTARTING})


def take_down(record: Deployment, down: Takedown, seen: Seen) -> Step:
    """The next step of a take-down."""
    if seen.container is not None:
        return end_container(down, seen.container, seen)
    if seen.leftovers:
        return end_leftover(down, seen.leftovers[0], seen)
    if seen.survivors:
        return end_survivors(down, seen)
    if seen.swept and not down.swept:
        names = ", ".join(name for name, _ in seen.swept[:NAMED])
        more = f" and {len(seen.swept) - NAMED} more" if len(seen.swept) > NAMED else ""
        return Sweep(seen.swept, f"removes what the container left in /dev/shm: {names}{more}")
    return prove_release(record, down, seen)


def end_container(down: Takedown, container: ContainerView, seen: Seen) -> Step:
    """From running to removed."""
    if container.state is RunState.REMOVING:
        return wait_for_removal(down, container, seen)
    if container.state not in ALIVE:
        if seen.survivors:
            return end_survivors(down, seen)
        why = f"generation {container.generation} has exited: saves its log and removes it"
        return remove(down, container, seen, why)
    if (waits := drains(down, seen)) is not None:
        return waits
    return end_process(down, container, seen)


def begun(down: Takedown, seen: Seen) -> float:
    return down.begun if down.begun is not None else seen.now.mono


def drains(down: Takedown, seen: Seen) -> Step | None:
    """Bounded patience for clients; it says for how many."""
    left = (down.drain_s or 0.0) - (seen.now.mono - begun(down, seen))
    if down.term_at is not None or left <= 0 or seen.clients == 0:
        return None
    clients = "an unknown number of client connections" if seen.clients is None else connections(seen.clients)
    return Nothing(f"drains: waits up to {left:.0f} s more for {clients}")


def connections(count: int) -> str:
    return counted(count, "client connection")


def end_process(down: Takedown, container: ContainerView, seen: Seen) -> Step:
    """TERM, a bounded wait, KILL, a bounded wait, and then a person."""
    now, watch = seen.now.mono, seen.watch
    if down.term_at is None:
        cut = f"; cuts {connections(seen.clients)}" if seen.clients else ""
        return Signal(container.id, "TERM", f"asks generation {container.generation} to end{cut}: {down.why}")
    # vLLM never exits on TERM while a client holds its socket, SGLang drains without end: the wait is bounded
    patience = watch.term_clients if down.cut else watch.term
    if down.kill_at is None:
        left = patience.value - (now - down.term_at)
        if left > 0:
            return Nothing(f"waits {left:.0f} s more for the exit after TERM")
        return Signal(container.id, "KILL", f"did not exit within {patience.value:.0f} s of TERM")
    left = watch.kill.value - (now - down.kill_at)
    if down.unsent:
        return kill_again(down, container, seen)
    if left > 0:
        return Nothing(f"waits {left:.0f} s more for the exit after KILL")
    return Settle(
        State.QUARANTINED,
        f"pid {container.pid} did not end within {watch.kill.value:.0f} s of KILL: it is stuck in the kernel; "
        "look at dmesg and reboot the host",
    )


def kill_again(down: Takedown, container: ContainerView, seen: Seen) -> Step:
    """A KILL that could not be sent says nothing about the process; it is sent again, and then now and then."""
    now = seen.now.mono
    tried = now - (down.kill_at if down.kill_at is not None else now)
    if tried < seen.watch.kill.value or (down.stuck and now - (down.asked_at or now) >= ASK_AGAIN_S):
        return Signal(container.id, "KILL", f"sends KILL again: {down.unsent}")
    return hangs(
        down,
        f"KILL could not be sent to {container.name} for {tried:.0f} s ({down.unsent}); nothing is started beside it, "
        f"and it goes on by itself once it can be: journalctl -u docker, restart Docker, or end pid {container.pid}",
    )


def wait_for_removal(down: Takedown, container: ContainerView, seen: Seen) -> Step:
    """`docker rm` can hang: bounded, then a person."""
    since = down.remove_at if down.remove_at is not None else begun(down, seen)
    left = seen.watch.release.value - (seen.now.mono - since)
    if left > 0:
        return Nothing(f"waits {left:.0f} s more for the removal of {container.name}")
    return hangs(down, stuck_removal(container, seen.now.mono - since))


def remove(down: Takedown, container: ContainerView, seen: Seen, why: str) -> Step:
    """Asked for again and again for as long as a release may take, then now and then."""
    now = seen.now.mono
    if down.remove_at is None or now - down.remove_at < seen.watch.release.value:
        return Remove(container.id, why)
    if down.stuck and (down.asked_at is None or now - down.asked_at >= ASK_AGAIN_S):
        return Remove(container.id, f"asks again for the removal of {container.name}, which hangs")
    return hangs(down, stuck_removal(container, now - down.remove_at))


def hangs(down: Takedown, why: str) -> Step:
    """Told once; nothing is started meanwhile, and when it comes back the take-down goes on."""
    return Nothing(why) if down.stuck else Stuck(why)


def stuck_removal(container: ContainerView, seconds: float) -> str:
    return (
        f"the removal of {container.name} (docker rm) has not been answered for {seconds:.0f} s; nothing is started "
        "beside it, and it goes on by itself once that is gone: look at dmesg and journalctl -u docker, restart Docker "
        "or reboot the host"
    )


def unseen(down: Takedown, trouble: str, seen: Seen) -> Step:
    """The runtime does not let it be looked at: an Engine that hangs over one container answers for the others."""
    seconds = seen.now.mono - (down.unseen_at if down.unseen_at is not None else seen.now.mono)
    if seconds < seen.watch.release.value:
        return Nothing(f"cannot look for {seconds:.0f} s while it is taken down: {trouble}")
    why = (
        f"its container could not be looked at for {seconds:.0f} s while it is taken down ({trouble}); nothing is "
        "started beside it, and it goes on by itself once it can be: journalctl -u docker, restart Docker or reboot "
        "the host"
    )
    return hangs(down, why)


def end_leftover(down: Takedown, leftover: ContainerView, seen: Seen) -> Step:
    """An older generation of the same deployment that a kill of the agent left behind."""
    if leftover.state not in ALIVE:
        return remove(down, leftover, seen, f"removes the leftover of generation {leftover.generation}")
    if down.kill_at is None or seen.now.mono - down.kill_at < seen.watch.kill.value:
        return Signal(leftover.id, "KILL", f"ends the leftover of generation {leftover.generation}")
    return Settle(State.QUARANTINED, f"the leftover {leftover.name} cannot be ended: look at dmesg and reboot the host")


def end_survivors(down: Takedown, seen: Seen) -> Step:
    """Workers that outlived their container hold its GPU memory."""
    stuck = [f"pid {one.pid} ({one.command})" for one in seen.survivors]
    if down.orphans_ended_at is None:
        return EndOrphans(f"ends what outlived the container: {', '.join(stuck)}")
    if seen.now.mono - down.orphans_ended_at < seen.watch.kill.value:
        return Nothing(f"waits for {', '.join(stuck)} to end")
    return Settle(State.QUARANTINED, f"{', '.join(stuck)} cannot be ended: stuck in the kernel; reboot the host")


def prove_release(record: Deployment, down: Takedown, seen: Seen) -> Step:
    """Nothing is started onto what is still held."""
    release = seen.release
    if release is None:
        return Nothing("looks whether everything is released")
    waited = seen.now.mono - (down.removed_at or begun(down, seen))
    if release.held or (release.late and waited < seen.watch.release.value):
        held = "; ".join((*release.held, *release.late))
        if waited < seen.watch.release.value:
            return Nothing(f"waits for the release ({waited:.0f} of {seen.watch.release.value:.0f} s): {held}")
        return Settle(
            State.QUARANTINED,
            f"not released within {seen.watch.release.value:.0f} s: {held}; end what holds it or reboot the host",
        )
    told = [f"not looked at: {'; '.join(release.unknown)}"] if release.unknown else []
    told += [f"not back: {'; '.join(release.late)}"] if release.late else []
    unseen = f" ({'; '.join(told)})" if told else ""
    return finish(record, down, unseen)


def finish(record: Deployment, down: Takedown, unseen: str) -> Step:
    """What a take-down was for."""
    match down.reason:
        case Reason.REMOVE:
            return Forget(f"removed{unseen}")
        case Reason.GIVE_BACK if record.give_back is not None:
            return BringBack(record.give_back, f"{down.why}: starts {record.give_back} again")
        case Reason.STOP | Reason.GIVE_BACK:
            return Settle(State.STOPPED, down.why)
        case _:
            return Released(f"generation {record.generation} is gone and what it held is free{unseen}")

"""Has the engine exited, and whose doing was it?"""

from __future__ import annotations

from agent.container.port import ContainerView, RunState
from agent.engines.model import FailureClass, LogEvent
from agent.samples.model import Activity
from agent.verdict.case import Case
from agent.verdict.failure import WORDS, remedy_of, root_cause
from agent.verdict.kinds import Kind
from agent.verdict.model import Judged, Remedy, Verdict
from agent.verdict.xid import RESTART_APP

GONE = frozenset(
    {
        FailureClass.ENGINE_DEAD,
        FailureClass.WORKER_DIED,
        FailureClass.START_FAILED,
        FailureClass.NCCL,
        FailureClass.UNKNOWN,
    }
)
"""What is left to be said of a process that is gone: by its parent, and by the ranks that lost a peer."""
NOT_THERE = {
    126: "its program cannot be run",
    127: "its program is not in the image",
    132: "its program is built for another processor than this host's",
}
SIGNALS = {132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}


def stopped(case: Case) -> Verdict | None:
    """A person stopped it: nothing is done, whatever the code.

    `docker stop` and an exit by itself look the same in `inspect`, so the runtime's events are asked first. One that is
    being removed is judged when it is gone: `docker rm --force` kills as `docker kill` does.
    """
    container, stop = case.container, case.last.stop
    if container is None or container.running or container.state is RunState.REMOVING or stop is None:
        return None
    return Verdict(
        Judged.STOPPED,
        f"stopped by a person ({stop.signal}), exit code {container.exit_code}",
        evidence=(f"the runtime was asked to stop it at {stop.at:.0f}",),
    )


def judge(case: Case) -> Verdict | None:
    """An exit that nobody asked for is a failure whatever the code: vLLM ends with 0 when its core dies."""
    container = case.container
    if container is None or container.running:
        return None
    cause = root_cause(case.window.failures)
    if out_of_memory(case, container, cause):
        return host_oom(case, container)
    failure = cause.failure if cause is not None else FailureClass.UNKNOWN
    started = case.window.ready is not None
    remedy = remedy_of(failure, started=started)
    missing = NOT_THERE.get(container.exit_code or 0, "") if not started and cause is None else ""
    return Verdict(
        Judged.DEAD,
        sentence(container, missing or WORDS[failure or FailureClass.UNKNOWN], started),
        kind=Kind.EXIT,
        remedy=Remedy.GIVE_UP if missing else remedy,
        failure=failure,
        evidence=evidence(case, cause),
    )


def out_of_memory(case: Case, container: ContainerView, cause: LogEvent | None) -> bool:
    """The kernel killed for memory: its first process (the runtime says so), or another, which ends in exit 0.

    A kill somewhere on this host at the same time is believed where the log names no cause but a process that is gone.
    """
    if container.oom_killed or case.marks.oom_kills:
        return True
    return case.marks.host_oom and (cause is None or cause.failure in GONE)


def host_oom(case: Case, container: ContainerView) -> Verdict:
    return Verdict(
        Judged.DEAD,
        sentence(container, WORDS[FailureClass.HOST_OOM], case.window.ready is not None),
        kind=Kind.HOST_OOM,
        remedy=Remedy.RESTART,
        failure=FailureClass.HOST_OOM,
        evidence=(f"the kernel killed {case.marks.oom_kills or 1} of its processes for memory", *evidence(case, None)),
    )


def sentence(container: ContainerView, why: str, started: bool) -> str:
    code = container.exit_code
    signal = f" ({SIGNALS[code]})" if code in SIGNALS else ""
    when = "" if started else " while it started"
    said = "no exit code" if code is None else f"exit code {code}{signal}"
    return f"exited{when} with {said}, unasked: {why}"


def evidence(case: Case, cause: LogEvent | None) -> tuple[str, ...]:
    """The cause's own line, the runtime's word, what outlived the container, Xids that go with it."""
    container, activity = case.container, case.last.activity
    found = [cause.text if cause is not None else "", container.error if container is not None else ""]
    if isinstance(activity, Activity) and activity.count:
        found.append(f"{activity.count} of its processes outlived it")
    found += [f"Xid {xid.number} on {xid.uuid}" for xid in case.marks.xids if xid.number in RESTART_APP]
    return tuple(line for line in found if line)

"""What the cards do, by load against power: a spinning kernel is 100 % busy at idle power."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from agent.samples.fold import cards, cpu_cores
from agent.samples.model import GpuSample
from agent.verdict.case import Case

SPIN_LOAD = 0.95
SPIN_POWER = 1.15
WORK_POWER = 1.3
STILL_LOAD = 0.01
QUIET_CORES = 0.05
LOOK_S = 30.0
"""So long a pattern must hold; the driver's own load figure is an average over up to a second."""


def idle_power(case: Case, uuid: str) -> float | None:
    """Watts of this card with nothing to do, as seen on this host."""
    return case.marks.effort.idle_power.get(uuid)


def working(case: Case) -> bool:
    """Some card was under load and drew clearly more than idle in the last half minute: known, not assumed.

    One look at a card may fall between two steps.
    """
    return any(works(case, gpu) for sample in case.window.tail(LOOK_S) for gpu in cards(sample))


def works(case: Case, gpu: GpuSample) -> bool:
    return (
        gpu.power_w is not None
        and (gpu.utilization or 0.0) > STILL_LOAD
        and (idle := idle_power(case, gpu.uuid)) is not None
        and gpu.power_w >= WORK_POWER * idle
    )


def spinning(case: Case) -> bool:
    """Every card is fully busy at idle power."""

    def spins(gpu: GpuSample) -> bool:
        idle = idle_power(case, gpu.uuid)
        if gpu.utilization is None or gpu.power_w is None or idle is None:
            return False
        return gpu.utilization >= SPIN_LOAD and gpu.power_w <= SPIN_POWER * idle

    return throughout(case, spins)


def still(case: Case) -> bool:
    """No card does anything."""
    return throughout(case, lambda gpu: gpu.utilization is not None and gpu.utilization <= STILL_LOAD)


def throughout(case: Case, holds: Callable[[GpuSample], bool]) -> bool:
    """It holds for all cards in every sample of the last half minute that looked at them, two at least."""
    looks = [cards(sample) for sample in case.window.tail(LOOK_S, least=2) if cards(sample)]
    return len(looks) >= 2 and all(holds(gpu) for look in looks for gpu in look)


def quiet(case: Case) -> bool:
    """The container's processes use no processor time worth the word, known over the last half minute."""
    tail = case.window.tail(LOOK_S, least=2)
    rates = [cpu_cores(first, second) for first, second in pairwise(tail)]
    return bool(rates) and all(rate is not None and rate < QUIET_CORES for rate in rates)

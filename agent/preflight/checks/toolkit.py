"""Can the container engine hand GPUs to a container, and do they stay there?"""

from __future__ import annotations

from agent.host.reading import Unknown
from agent.preflight.case import Case, asks_for_gpus
from agent.preflight.check import Answer, Check, bad, doubtful, good, unknown
from agent.preflight.facts import ContainerEngine, Toolkit

ID = "toolkit"
INSTALL = "install nvidia-container-toolkit, run `nvidia-ctk runtime configure --runtime=docker`, restart Docker"
RELOAD = (
    "`systemctl daemon-reload` can take the GPUs away from containers that got them by the hook "
    '(NVIDIA/nvidia-container-toolkit#48): use CDI or --runtime=nvidia, or "exec-opts": '
    '["native.cgroupdriver=cgroupfs"] in /etc/docker/daemon.json'
)


async def look(case: Case) -> Answer:
    engine = await case.facts.container_engine()
    if isinstance(engine, Unknown):
        return unknown(engine.reason)
    reading = await case.facts.toolkit()
    if isinstance(reading, Unknown):
        return unknown(reading.reason, hint=INSTALL)
    runs, kit = engine.value, reading.value
    ways = ways_in(kit, runs)
    details = {"hook": kit.hook, "cdi": list(kit.cdi), "runtimes": list(runs.runtimes)}
    if not ways:
        said = "neither hook, runtime nor CDI specification of NVIDIA's is found"
        hidden = "" if kit.complete else ", and Docker's own search path may not be read"
        return (bad if kit.complete else unknown)(said + hidden, hint=INSTALL, details=details)
    if ways == ["hook"] and exposed(runs, case):
        return doubtful("the hook alone, under systemd's cgroups", hint=RELOAD, details=details)
    return good(", ".join(ways), details=details)


def ways_in(kit: Toolkit, engine: ContainerEngine) -> list[str]:
    """By which ways a GPU can get into a container here."""
    ways = ["hook"] if kit.hook else []
    if "nvidia" in engine.runtimes:
        ways.append("runtime nvidia")
    return ways + (["CDI"] if kit.cdi else [])


def exposed(engine: ContainerEngine, case: Case) -> bool:
    """Whether systemd owns the device rules of the container and does not know of the hook's additions."""
    return engine.cgroup_driver == "systemd" and not case.host_config.get("Runtime")


def applies(case: Case) -> bool:
    requests = case.host_config.get("DeviceRequests") or ()
    return case.in_container and any(asks_for_gpus(request) for request in requests)


CHECK = Check(ID, "GPUs can be handed to containers", look, applies)

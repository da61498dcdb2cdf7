"""Pipeline parallel in one container: gloo goes over Docker's bridge unless it is told to stay on loopback.

535 ms a send were seen; decode at 524K context was 35.8 tok/s instead of 54.7. Over several machines `lo` is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule


def look(case: Case) -> Iterator[tuple[str, str]]:
    engine, interface = case.engine, case.env.get("GLOO_SOCKET_IFNAME")
    if engine is None or engine.pipeline_parallel < 2 or not case.contained:
        return
    nodes = case.flag("--nnodes")
    if nodes is not None and nodes.isdecimal() and int(nodes) > 1:
        if interface == "lo":
            yield (
                "GLOO_SOCKET_IFNAME=lo cannot reach the other machines",
                "--set env.GLOO_SOCKET_IFNAME=the network card between them",
            )
    elif interface is None and case.host.get("NetworkMode") != "host":
        yield (
            "the pipeline's stages talk over the container bridge, which has taken half a second a message",
            "--set env.GLOO_SOCKET_IFNAME=lo",
        )


RULE = Rule("gloo.interface", "vllm-project/vllm#59109", look)

"""Compiled kernels inside the container: each new container compiles them again.

Nine minutes to ready instead of seven and a half were measured with TileLang's cache alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.engines.model import EngineKind
from agent.plan.advice.rule import Case, Rule

_TRITON = ("Triton", "/root/.triton", "TRITON_CACHE_DIR")
_CACHES = {
    EngineKind.VLLM: (("torch.compile", "/root/.cache/vllm", "VLLM_CACHE_ROOT"), _TRITON),
    EngineKind.SGLANG: (("DeepGEMM", "/root/.deep_gemm", "SGLANG_DG_CACHE_DIR"), _TRITON),
}


def look(case: Case) -> Iterator[tuple[str, str]]:
    engine = case.serves(*_CACHES)
    if engine is None or not case.contained:
        return
    placed = [(name, case.env.get(variable) or place) for name, place, variable in _CACHES[engine.kind]]
    lost = [(name, place) for name, place in placed if not case.mounted(place)]
    if lost:
        names = " and ".join(name for name, _ in lost)
        mounts = ", ".join(f"/path/{place.rpartition('/')[2].lstrip('.')}:{place}" for _, place in lost)
        text = f"compiled kernels ({names}) are lost with every container, and starts take minutes longer"
        yield text, f"mounts: [{mounts}]"


RULE = Rule("jit.caches", "kaka86mm/dsv41-flash-pp4-170hx", look)

"""What bounds the rates of one deployment: its cards, and what its model says of itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.host.port import GpuSource
from agent.plan.model import Plan
from agent.preflight.exl3 import CONFIG, MOST_CONFIG
from agent.preflight.mounts import binds_of, on_host
from agent.verify.active import NotCounted, counted
from agent.verify.plausible import Limits, Model, limits_of

OTHER_WEIGHTS = ("--quantization", "-q", "--load-format", "--load_format", "--hf-overrides")
"""Words of a launch after which the weights in memory need not be those that config.json tells of."""
GUESSING = ("specul", "draft", "mtp")
HOW = "serving.active_parameters in a profile states it"


async def limits_for(plan: Plan, gpus: GpuSource) -> Limits:
    """A profile's word first, then the model's name, then the model's own config.json."""
    last = gpus.last()
    names = tuple(gpu.name for gpu in last.value if gpu.uuid in plan.gpus) if last is not None else ()
    return limits_of(names, await asyncio.to_thread(model_of, plan))


def model_of(plan: Plan) -> Model:
    engine = plan.engine
    steps = 1 + ((engine.speculative_tokens or 0) if engine else 0)
    stated = plan.active_parameters
    try:
        found = counted(config_of(plan))
    except (NotCounted, OSError) as error:
        why = f"the model's active parameters: {error}; {HOW}"
        return Model(stated.count, stated.origin, steps=steps) if stated else Model(why_unknown=why, steps=steps)
    bits = None if unsure(plan) else found.bits
    if stated is not None:
        return Model(stated.count, stated.origin, bits=bits, steps=steps)
    return Model(found.parameters, f"config.json: {found.how}", bits=bits, steps=steps)


def unsure(plan: Plan) -> bool:
    """Whether the launch may load the weights in another form, or make more than one token a pass and not say how
    many."""
    words = [*plan.argv, *((plan.container.body.get("Cmd") or ()) if plan.container else ())]
    if any(word.partition("=")[0] in OTHER_WEIGHTS for word in words):
        return True
    guesses = any(mark in word for word in words if word.startswith("--") for mark in GUESSING)
    return guesses and (plan.engine is None or plan.engine.speculative_tokens is None)


def config_of(plan: Plan) -> bytes:
    """Raises NotCounted where there is none to be read, and OSError."""
    model = plan.engine.model if plan.engine else None
    if model is None:
        raise NotCounted("its launch names no model")
    if not model.startswith("/"):
        raise NotCounted(f"{model} is no folder of this host")
    place = model if plan.runtime == "process" else on_host(model, binds_of(plan))
    if place is None:
        raise NotCounted(f"{model} lies in the image, where nothing is read")
    file = Path(place) / CONFIG
    if not file.is_file():
        raise NotCounted(f"there is no {file}")
    with file.open("rb") as opened:
        return opened.read(MOST_CONFIG)

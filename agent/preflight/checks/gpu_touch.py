"""Does every chosen card do as it is told? A wedged driver still lists its cards, and fails at the first real use.

Asked for with `--touch` alone: it takes 64 MiB of each card for a moment. It runs inside the image, with the cards as
the launch gets them; where the image is not here or has no Python, on the host itself.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent.host.gpu import Gpu
from agent.host.reading import Known, Unknown, value_of
from agent.preflight.case import Case, asks_for_gpus, uuids
from agent.preflight.check import Answer, Check, bad, doubtful, good, unknown
from agent.preflight.checks.image_arguments import env_of
from agent.preflight.inside import touch
from agent.preflight.trial import NOT_FOUND, Ran, Trial
from agent.quantity import Bytes

ID = "gpu.touch"
CARD_S = 30.0
"""For one card; the first CUDA context of a driver without persistence mode takes some seconds."""
FULL = "CUDA_ERROR_OUT_OF_MEMORY"
REBOOT = "its process hangs in the driver: look for Xid lines in the kernel's log; a reset or a reboot frees the card"
BROKEN = "look for Xid lines in the kernel's log (`dmesg`), then `nvidia-smi --gpu-reset` with nothing on it, or reboot"
WALLS = "do the container's cards reach it? `docker run --rm --gpus all … nvidia-smi -L` must list them"


async def look(case: Case) -> Answer:
    cards = value_of(await case.cards()) or ()
    inside, where = await tried(case)
    if isinstance(inside, Unknown):
        return unknown(f"nothing could be tried {where}: {inside.reason}")
    answers = documents(inside.value.out)
    if not answers:
        return unknown(f"the program that touches cards said nothing {where}: {inside.value.last_words}")
    return judge(case, cards, answers, where)


async def tried(case: Case) -> tuple[Known[Ran] | Unknown, str]:
    """In the image; on the host where that has no Python or is not here."""
    trial = trial_of(case)
    reading = await case.facts.image(case.plan.image.reference) if case.in_container and case.plan.image else None
    if isinstance(reading, Known) and reading.value is not None:
        ran = await case.facts.try_out(replace(trial, image=reading.value.id))
        if isinstance(ran, Unknown) or ran.value.code != NOT_FOUND:
            return ran, "inside the image"
    # DeviceRequests mean nothing there: CUDA goes by its own variable
    chosen = {"CUDA_VISIBLE_DEVICES": ",".join(case.plan.gpus)} if case.plan.gpus else {}
    return await case.facts.try_out(replace(trial, gpus=(), runtime="", env=chosen)), "from the host"


def trial_of(case: Case) -> Trial:
    requests = case.host_config.get("DeviceRequests") or ()
    return Trial(
        words=("python3", "-c", inspect.getsource(touch), f"{CARD_S:g}"),
        env=env_of(case),
        gpus=tuple(request for request in requests if asks_for_gpus(request)),
        runtime=str(case.host_config.get("Runtime") or ""),
        seconds=2 * CARD_S + 15.0,
        memory=Bytes.gib(8),
    )


def documents(out: str) -> list[Mapping[str, Any]]:
    """The lines that are the program's own."""
    found: list[Mapping[str, Any]] = []
    for line in out.splitlines():
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            found.append(document)
    return found


def judge(case: Case, cards: Sequence[Gpu], answers: Sequence[Mapping[str, Any]], where: str) -> Answer:
    details = {"where": where, "cards": list(answers)}
    failed = [one for one in answers if "failed" in one]
    wedged = [one for one in failed if FULL not in one["failed"]]
    said = "; ".join(f"{name(one, cards)}: {one['failed']}" for one in failed)
    if wedged:
        hangs = any(one.get("hangs") for one in wedged)
        none_asked = all("card" not in one for one in wedged)
        hint = REBOOT if hangs else WALLS if none_asked and where == "inside the image" else BROKEN
        return bad(f"{said} ({where})", need="every card answers", hint=hint, details=details)
    if len(answers) < len(case.plan.gpus):
        said = f"{len(answers)} of the {len(case.plan.gpus)} chosen cards are to be seen {where}"
        return bad(said, need="every chosen card", hint=WALLS, details=details)
    if failed:
        return doubtful(f"{said} ({where})", hint="no 64 MiB are free: see gpu.busy for who has them", details=details)
    slowest = max(float(one.get("ms", 0.0)) for one in answers)
    return good(f"{len(answers)} took and gave back 64 MiB {where}, the slowest in {slowest:.0f} ms", details=details)


def name(answer: Mapping[str, Any], cards: Sequence[Gpu]) -> str:
    """`card 2` by the host's own numbers where the UUID tells, else as CUDA counts."""
    for gpu in cards:
        if answer.get("uuid") in uuids(gpu):
            return f"card {gpu.index}"
    if len(cards) == 1:
        return f"card {cards[0].index}"
    return f"card {answer['card']} as CUDA counts them" if "card" in answer else "CUDA"


CHECK = Check(ID, "every chosen card does as it is told", look, lambda c: c.uses_gpus, True, deadline_s=200.0)

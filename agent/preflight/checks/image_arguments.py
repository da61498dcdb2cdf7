"""Does the engine's own parser take the launch's arguments?

It is run inside the image, without cards, network or rights, until it has read the words: an unknown flag is found in
seconds instead of after the old engine was stopped. What the launch mounts over the image's own Python (PYTHONPATH,
site-packages) is mounted here too, read-only, since it may bring flags of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from agent.engines.model import Command
from agent.engines.parser import PARSED, own_words
from agent.host.reading import Unknown
from agent.preflight.case import Case
from agent.preflight.check import Answer, Check, bad, good, unknown
from agent.preflight.facts import Image
from agent.preflight.inside import parse
from agent.preflight.mounts import Bind, binds_of
from agent.preflight.trial import NOT_FOUND, Ran, Trial
from agent.quantity import counted

ID = "image.arguments"
REFUSED = 2
"""argparse's exit status for words that it does not take."""
SECONDS = 30.0
"""vLLM's parser takes 9 to 13 s on two slow cores, most of it imports; a program without one is left to itself then."""
PYTHON_PARTS = ("site-packages", "dist-packages")
HINT = "correct or drop the flag (profile `launch.args`), or take the version of the engine that knows it"
UNRUN = "the engine may still take them; deploy goes on without this check"
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1", "HOME": "/tmp"}  # noqa: S108


async def look(case: Case) -> Answer:
    if silent := await case.no_engine():
        return unknown(silent.reason)
    plan, engine = case.plan.image, case.plan.engine
    assert plan is not None and engine is not None  # noqa: S101, PT018  (`applies` asked)
    reading = await case.facts.image(plan.reference)
    if isinstance(reading, Unknown):
        return unknown(reading.reason)
    if reading.value is None:
        return good(f"{plan.reference} is not here yet; it is asked once it is")
    words = own_words(engine.kind, command_of(case, reading.value))
    if words is None:
        return unknown("the launch starts its engine in a way that cannot be followed", hint=UNRUN)
    ran = await case.facts.try_out(trial_of(case, reading.value, words))
    if isinstance(ran, Unknown):
        return unknown(f"the engine's parser could not be run: {ran.reason}", hint=UNRUN)
    return judge(ran.value, words)


def judge(ran: Ran, words: Sequence[str]) -> Answer:
    details = {"program": list(words[:2]), "status": ran.code, "said": ran.last_words}
    if ran.code == 0 and parse.ACCEPTED in ran.out:
        took = "its one word" if len(words) == 3 else f"all {counted(len(words) - 2, 'word')}"
        return good(f"the image's own parser takes {took}", details=details)
    if ran.code == REFUSED:
        return bad(f"the image's own parser says: {ran.last_words}", hint=HINT, details=details)
    if ran.code == NOT_FOUND:
        return unknown(f"the parser could not be run: {ran.last_words}", hint=UNRUN, details=details)
    said = f"the engine's program ended with {ran.code} before it had read them: {ran.last_words}"
    return unknown(said, hint=UNRUN, details=details)


def command_of(case: Case, image: Image) -> Command:
    """What the container will run, the image's own entrypoint in front where the launch names none."""
    first = case.body.get("Entrypoint") or image.entrypoint
    words = (*first, *(case.body.get("Cmd") or ()))
    return Command(tuple(map(str, words)), env_of(case), case.plan.image.reference if case.plan.image else None)


def env_of(case: Case) -> Mapping[str, str]:
    """The launch's environment less its secrets, which no parser needs."""
    pairs = (str(entry).partition("=") for entry in case.body.get("Env") or ())
    return {key: value for key, _, value in pairs if not value.startswith("secret:")}


def trial_of(case: Case, image: Image, words: Sequence[str]) -> Trial:
    env = env_of(case)
    return Trial(
        words=("python3", "-c", inspect.getsource(parse), *words),
        image=image.id,
        env={**env, **QUIET},
        binds=tuple((bind.source, bind.target) for bind in binds_of(case.plan) if brings_code(bind, env)),
        seconds=SECONDS,
    )


def brings_code(bind: Bind, env: Mapping[str, str]) -> bool:
    """Whether it lies where Python looks for modules: `/overlay` of PYTHONPATH, `…/python3.12/sitecustomize.py`."""
    target = PurePosixPath(bind.target)
    roots = [PurePosixPath(entry) for entry in env.get("PYTHONPATH", "").split(":") if entry.startswith("/")]
    named = any(part in PYTHON_PARTS or part.startswith("python3") for part in target.parts)
    return named or any(root.is_relative_to(target) or target.is_relative_to(root) for root in roots)


def applies(case: Case) -> bool:
    engine = case.plan.engine
    return case.in_container and case.plan.image is not None and engine is not None and engine.kind in PARSED


CHECK = Check(ID, "the engine's own parser takes the arguments", look, applies, deadline_s=SECONDS + 30.0)

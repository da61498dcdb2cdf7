"""The engine's own parser: what is run, in which walls, and what its answers come to."""

from __future__ import annotations

from typing import Any

import pytest

from agent.engines.model import Command, EngineKind, EngineLaunch
from agent.engines.parser import own_words
from agent.host.reading import Unknown
from agent.preflight.checks import image_arguments
from agent.preflight.facts import Image
from agent.preflight.inside import parse
from agent.preflight.model import Level
from agent.preflight.trial import NOT_FOUND, Ran
from tests.preflight.build import FakeFacts, case, known

VLLM, SGLANG, LLAMA = EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMACPP


@pytest.mark.parametrize(
    ("kind", "words", "found"),
    [
        (VLLM, ("vllm", "serve", "m", "--port", "1"), ("vllm", "serve", "m", "--port", "1")),
        (VLLM, ("/opt/venv/bin/vllm", "serve", "m"), ("vllm", "serve", "m")),
        (VLLM, ("--model", "m"), ("vllm", "serve", "--model", "m")),
        (
            VLLM,
            ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"),
            ("-m", "vllm.entrypoints.openai.api_server", "--model", "m"),
        ),
        (VLLM, ("bash", "-c", "ulimit -n 9 && exec vllm serve $M"), ("vllm", "serve", "/m")),
        (SGLANG, ("python3", "-m", "sglang.launch_server", "--tp", "2"), ("-m", "sglang.launch_server", "--tp", "2")),
        (VLLM, ("sleep", "5"), None),
        (LLAMA, ("llama-server", "-m", "x.gguf"), None),
    ],
)
def test_the_program_and_its_words(kind: EngineKind, words: tuple[str, ...], found: Any) -> None:
    assert own_words(kind, Command(words, {"M": "/m"})) == found


BODY = {"Entrypoint": ["vllm"], "Cmd": ["serve", "/m", "--frob"], "Env": ["HF_TOKEN=secret:HF_TOKEN", "VLLM_PLUGINS=x"]}


@pytest.mark.parametrize(
    ("ran", "level", "says"),
    [
        (Ran(0, f"INFO hello\n{parse.ACCEPTED}\n"), Level.PASS, "takes all 2 words"),
        (
            Ran(2, "", "usage: vllm …\nvllm: error: unrecognized arguments: --frob\n"),
            Level.FAIL,
            "says: vllm: error: unrecognized arguments: --frob",
        ),
        (Ran(NOT_FOUND, "", "the image has no python3"), Level.UNKNOWN, "the image has no python3"),
        (Ran(1, "", "ImportError: libcuda.so.1"), Level.UNKNOWN, "ended with 1 before it had read them: ImportError"),
        (Ran(0, "0.32.0\n"), Level.UNKNOWN, "ended with 0"),  # it never came to its parser
        (Ran(137, "", ""), Level.UNKNOWN, "status 137"),
        (Unknown("no end within 90 s"), Level.UNKNOWN, "no end within 90 s"),
    ],
)
async def test_what_the_parser_says(ran: Any, level: Level, says: str) -> None:
    facts = FakeFacts(ran=[ran if isinstance(ran, Unknown) else known(ran)])
    answer = await image_arguments.look(case(facts, body=BODY))
    assert answer.level is level, answer
    assert says in answer.found


async def test_it_gets_the_launch_without_its_secrets_and_only_the_mounts_that_bring_code() -> None:
    facts = FakeFacts()
    host = {
        "Binds": [
            "/srv/models:/models:ro",
            "/srv/overlay:/overlay:ro",
            "/srv/custom.py:/usr/lib/python3.12/sitecustomize.py:ro",
            "/srv/cache:/root/.cache",
            "/srv/vllm:/opt/site-packages/vllm",
        ]
    }
    body = BODY | {"Env": ["HF_TOKEN=secret:HF_TOKEN", "PYTHONPATH=/overlay/src:/other", "VLLM_PLUGINS=x"]}
    await image_arguments.look(case(facts, host=host, body=body))
    (trial,) = facts.tried
    assert trial.words[3:] == ("vllm", "serve", "/m", "--frob")
    assert "HF_TOKEN" not in trial.env
    assert trial.env["VLLM_PLUGINS"] == "x"
    assert [source for source, _ in trial.binds] == ["/srv/overlay", "/srv/custom.py", "/srv/vllm"]
    assert trial.gpus == ()


async def test_an_image_that_is_not_here_yet_is_not_asked() -> None:
    facts = FakeFacts(images=known(None))
    answer = await image_arguments.look(case(facts, body=BODY))
    assert answer.level is Level.PASS
    assert facts.tried == []


def test_it_is_asked_of_engines_that_have_a_parser_apart_from_themselves() -> None:
    assert image_arguments.CHECK.applies(case(body=BODY))
    assert not image_arguments.CHECK.applies(case(body=BODY, engine=EngineLaunch(LLAMA)))
    assert not image_arguments.CHECK.applies(case(body=BODY, runtime="process"))


async def test_the_images_own_entrypoint_stands_in_front() -> None:
    image = Image("sha256:" + "b" * 64, entrypoint=("vllm", "serve"))
    facts = FakeFacts(images=known(image))
    await image_arguments.look(case(facts, body={"Cmd": ["--model", "m"]}))
    assert facts.tried[0].words[3:] == ("vllm", "serve", "--model", "m")

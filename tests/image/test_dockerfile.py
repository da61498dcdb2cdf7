"""Steps become a Dockerfile that a person can read, and nothing of a step can become anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.image.buildplan import BuildPlan, read
from agent.image.dockerfile import Base, Content, Dockerfile, Known, PathFact, places_in, write
from agent.image.trouble import BuildIncomplete
from agent.plan.model import ImagePlan

COMMIT = "1234567890" * 4
BASE = Base(
    "reg.example/vllm:1",
    "reg.example/vllm@sha256:" + "a" * 64,
    places={"{site_packages}": "/py/site-packages", "{package:vllm}": "/py/site-packages/vllm"},
)
GOLDEN = Path(__file__).parent / "golden"


def source(name: str, **more: Any) -> dict[str, Any]:
    """A source's entry of a plan."""
    return {"source": {"name": name, "git": f"https://git.example/{name}", "commit": COMMIT, **more}}


def build_plan(*entries: dict[str, Any], base: str | None = "reg.example/vllm:1") -> BuildPlan:
    return read(ImagePlan("tiny:v1", "build", base=base, steps=entries), "tiny")


def made(*entries: dict[str, Any], known: Known | None = None, base: Base = BASE) -> Dockerfile:
    return write(build_plan(*entries), base, known)


def test_every_kind_of_step_in_one_dockerfile() -> None:
    """The golden file is what `agentctl build --print` shows."""
    dockerfile = made(
        source("overlay", license="Apache-2.0"),
        source("recipe"),
        {"source": {"name": "ext", "git": "https://git.example/ext", "tag": "v1.5.0"}},
        {"source": {"name": "wheel", "archive": "https://a.example/w-1-py3-none-any.whl", "sha256": "b" * 64}},
        {"copy": {"source": "overlay", "path": "overlay/vllm", "to": "{package:vllm}", "files": 54}},
        {"copy": {"source": "overlay", "path": "one.py", "to": "{site_packages}/one.py"}},
        {"run": {"source": "recipe", "script": "patches/a.py", "idempotent": True}},
        {"run": {"source": "recipe", "script": "patches/b.sh", "arguments": ["it's", "$HOME"]}},
        {"run": {"source": "recipe", "script": "patches/c.py", "before": {"overlay": "94c29ba"}}},
        {"apply": {"source": "recipe", "patches": ["p/0.patch", "p/1.patch"], "onto": "ext"}},
        {"apply": {"source": "recipe", "patches": ["p/2.patch"], "onto": "{package:vllm}"}},
        {"pip": {"source": "overlay", "no_deps": True}},
        {"pip": {"source": "wheel"}},
        {"pip": {"requirement": f"tiny==1.0 --hash=sha256:{'c' * 64}"}},
        {"extension": {"source": "ext", "arch": "8.0"}},
        {"env": {"MODE": 'a "b" $c'}},
        {"files": {"exist": ["{package:vllm}/ampere"], "imports": ["vllm", "ext.core"]}},
        known=Known(commits={"ext": "e" * 40}, left_out={5: "overlay at 1234567 has 94c29ba"}),
    )
    assert dockerfile.text == (GOLDEN / "Dockerfile").read_text()
    assert dockerfile.texts == {"steps/10/requirements.txt": f"tiny==1.0 --hash=sha256:{'c' * 64}\n"}
    instructions = [line for line in dockerfile.text.splitlines() if line and not line.startswith("#")]
    assert len(instructions) == len(dockerfile.steps)
    assert dockerfile.steps[instructions.index("COPY steps/01/ /py/site-packages/vllm/")] == 1


def test_a_script_that_changed_leaves_what_was_done_before_it() -> None:
    """The author's checkout comes without the scripts, each of them just before it is run."""
    steps = [{"run": {"source": "recipe", "script": f"patches/{name}.py"}} for name in "ab"]
    contents = made(source("recipe"), *steps).contents
    scripts = frozenset({"patches/a.py", "patches/b.py"})
    assert contents == (
        Content(1, "sources/recipe", "recipe", 0, without=scripts),
        Content(1, "steps/01", "recipe", 0, "patches/a.py", executable=True),
        Content(2, "steps/02", "recipe", 0, "patches/b.py", executable=True),
    )


def test_patches_of_a_source_come_before_what_is_made_of_it_later() -> None:
    """A tree that was used before its patch stays what it was."""
    apply = {"apply": {"source": "fix", "patches": ["0.patch"], "onto": "vllm"}}
    dockerfile = made(source("fix"), source("vllm"), {"pip": {"source": "vllm"}}, apply, {"pip": {"source": "vllm"}})
    assert [(one.into, one.revision) for one in dockerfile.contents] == [("sources/vllm", 0), ("sources/vllm.1", 1)]


def test_a_base_with_a_user_of_its_own_gets_it_back() -> None:
    """Steps write where only root may."""
    text = made({"env": {"A": "b"}}, base=Base("b:1", "b:1", user="vllm")).text
    assert text.index("USER root") < text.index("ENV") < text.index("USER vllm")


def test_places_that_are_not_known_yet_stay_to_be_read() -> None:
    """`--print` works without the base image."""
    step = {"copy": {"source": "s", "path": "d", "to": "{package:vllm}/x"}}
    assert "COPY steps/01/ {package:vllm}/x/\n" in made(source("s"), step, base=Base("b:1", "b:1")).text
    assert places_in(build_plan(source("s"), step)) == ("{package:vllm}",)


def test_a_shebang_is_obeyed() -> None:
    """Where a script says what runs it, that runs it."""
    step = {"run": {"source": "s", "script": "a.py"}}
    assert "&& python3 ./a.py\n" in made(source("s"), step).text
    shebang = Known(paths={("s", "a.py"): PathFact(folder=False, shebang=True)})
    assert "&& ./a.py\n" in made(source("s"), step, known=shebang).text


@pytest.mark.parametrize(
    "step",
    [
        {"copy": {"source": "s", "path": "a", "to": "relative"}},
        {"copy": {"source": "s", "path": "a", "to": "/x/../../etc"}},
        {"copy": {"source": "s", "path": "a", "to": "/x\nRUN evil"}},
        {"copy": {"source": "s", "path": "a b.py", "to": "/x"}},
        {"run": {"source": "s", "script": "../a.py"}},
        {"run": {"source": "s", "script": "/a.py"}},
        {"run": {"source": "s", "script": "a.py; evil"}},
        {"run": {"source": "s", "script": "a.py", "arguments": ["a\nRUN evil"]}},
        {"pip": {"requirement": "tiny==1.0"}},
        {"pip": {"requirement": "--index-url=http://x tiny --hash=sha256:1"}},
        {"env": {"A B": "c"}},
        {"env": {"A": "c\nRUN evil"}},
        {"files": {"imports": ["os; evil"]}},
        {"files": {"exist": ["a"]}},
    ],
)
def test_what_has_no_place_in_a_dockerfile_is_refused(step: dict[str, Any]) -> None:
    """With the step's number; nothing is quoted into something else."""
    with pytest.raises(BuildIncomplete, match="step 1: "):
        made(source("s"), step)


def test_words_of_a_source_stay_in_their_comment() -> None:
    """A license or an address with a line end starts no instruction."""
    text = made(source("s", license="MIT\nRUN evil")).text
    assert "RUN" not in [line.split(" ")[0] for line in text.splitlines()]
    with pytest.raises(BuildIncomplete, match="is no image"):
        made(base=Base("x", "x\nRUN evil"))


@pytest.mark.parametrize(
    ("entries", "base", "why"),
    [
        ((), None, "no base image is stated"),
        (({"source": {"name": "s", "git": "https://x/s"}},), "b", "nothing says which state of s is meant"),
        (({"pip": {"source": "t"}},), "b", r"step 1 \(pip\) names the source t"),
        (({"apply": {"source": "a", "patches": "p", "onto": "b"}},), "b", "the source a.*the source b"),
        ((source("s"), {"extension": {"source": "s"}}), "b", r"step 1 \(extension\) has no arch"),
        (({"walk": {}},), "b", "step walk"),
        (({"source": {"name": "s", "git": "x", "commit": "main"}},), "b", "source s: commit"),
        (({"source": {"name": "s", "archive": "x", "sha256": "12"}},), "b", "source s: sha256"),
    ],
)
def test_what_a_build_lacks_is_said_before_it_begins(entries: tuple[Any, ...], base: str | None, why: str) -> None:
    """A branch where a commit is expected, an archive without its hash, a source that nobody stated."""
    with pytest.raises(BuildIncomplete, match=why):
        build_plan(*entries, base=base)


def test_what_is_lacking_is_a_refusal() -> None:
    """The plan misses something, as at `deploy`."""
    assert BuildIncomplete.exit_code == 3


WORDS = st.text(max_size=12) | st.sampled_from(
    ["a", "/x", "{package:vllm}", "a\nRUN evil", "$(x)", "`x`", "<<EOF", "\\", '"']
)
ANY_STEP = st.one_of(
    st.fixed_dictionaries({"copy": st.fixed_dictionaries({"source": st.just("s"), "path": WORDS, "to": WORDS})}),
    st.fixed_dictionaries(
        {
            "run": st.fixed_dictionaries(
                {"source": st.just("s"), "script": WORDS, "arguments": st.lists(WORDS, max_size=3)}
            )
        }
    ),
    st.fixed_dictionaries({"pip": st.fixed_dictionaries({"requirement": WORDS.map(lambda text: f"{text} --hash=x")})}),
    st.fixed_dictionaries({"env": st.dictionaries(st.just("NAME"), WORDS, max_size=1)}),
    st.fixed_dictionaries({"files": st.fixed_dictionaries({"exist": st.lists(WORDS), "imports": st.lists(WORDS)})}),
    st.fixed_dictionaries({"extension": st.fixed_dictionaries({"source": st.just("s"), "arch": WORDS})}),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ANY_STEP, max_size=4), WORDS, WORDS)
def test_no_words_become_an_instruction_of_their_own(steps: list[dict[str, Any]], licence: str, url: str) -> None:
    """A refusal, or as many instructions as were meant, each of a kind that was meant."""
    try:
        dockerfile = made(source("s", license=licence, git=url), *steps)
    except BuildIncomplete:
        return
    lines = [line for line in dockerfile.text.split("\n") if line and not line.startswith("#")]
    assert len(lines) == len(dockerfile.steps)
    assert {line.partition(" ")[0] for line in lines} <= {"FROM", "LABEL", "ARG", "COPY", "RUN", "ENV"}
    assert not any(line.endswith("\\") for line in lines)

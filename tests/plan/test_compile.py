"""A plan is complete, explained and reproducible; what is not known is listed and never guessed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.launch.refusal import CliRejects
from agent.plan.compile import compile_plan, image_references
from agent.plan.gaps import has_value
from agent.plan.inputs import Inputs, LocalImage
from agent.plan.model import Plan
from agent.plan.show import show
from agent.plan.tojson import to_json
from agent.plan.trouble import NoProcess, NotMeant, PolicyRefused, SecretSet
from agent.profile.layers import from_sets
from agent.profile.load import load
from agent.profile.trouble import BadSet
from agent.recipe.read import read_recipe
from tests.lab.pace import cost, second
from tests.plan.build import FIXTURES, bare, cards, host_config, plan, recipe, settings, small

IMAGE = "registry.example/small:v1"


def golden() -> Plan:
    """The small recipe with its profile on a host with its two cards and its image."""
    folder = load(FIXTURES, "small-model-on-2x-card-64")
    assert folder is not None
    return compile_plan(
        Inputs(
            recipe(),
            settings(),
            folder,
            gpus=cards(2),
            images={IMAGE: LocalImage("sha256:" + "1" * 64)},
            runtimes=frozenset({"docker", "process"}),
        )
    )


@pytest.mark.parametrize("name", ["small.plan.json", "small.plan.txt"])
def test_the_small_recipe_is_planned_as_it_was_written_down(name: str) -> None:
    """RECIPE_AGENT_GOLDEN=write writes the files anew; look at the difference before it is kept."""
    made = golden()
    text = json.dumps(to_json(made), indent=1, ensure_ascii=False) + "\n" if name.endswith("json") else show(made)
    path = FIXTURES / name
    if os.environ.get("RECIPE_AGENT_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_a_plan_fits_on_a_screen() -> None:
    lines = show(golden()).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_what_is_cut_is_said_and_can_be_seen_whole() -> None:
    long = replace(golden(), warnings=(" ".join(f"word{number}" for number in range(200)),))
    cut, whole = show(long), show(long, whole=True)
    assert "word199" not in cut
    assert cut.splitlines()[-1] == "cut         where a line ends in … (-v shows all of it)"
    assert "word199" in whole
    assert "-v shows" not in whole + show(golden())


def test_the_order_of_keys_changes_nothing() -> None:
    document = small()
    shuffled = {key: document[key] for key in reversed(document)}
    shuffled["config"] = dict(reversed(document["config"].items()))
    variables = {"CACHE": "/srv/cache", "MODELS": "/srv/models"}
    turned = plan(recipe(**shuffled), settings=settings(variables=variables), gpus=cards(2))
    assert turned.plan_id == plan(gpus=cards(2)).plan_id


@pytest.mark.parametrize(
    "changes",
    [
        {"votes": 99},
        {"updated_at": "2026-11-01"},
        {"aa": {"aa_index": 40}},
        {"summary": "Other words."},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_decides_nothing_leaves_the_plan_as_it_is(changes: dict[str, Any]) -> None:
    assert plan(recipe(**changes)).plan_id == plan().plan_id


@pytest.mark.parametrize(
    "inputs",
    [
        {"settings": settings(variables={"MODELS": "/other", "CACHE": "/srv/cache"})},
        {"sets": {"port": "8001"}},
        {"sets": {"env.A": "2"}},
        {"site": {"requirements": {"memory_available": "1GiB"}}},
        {"site": {"watch": {"stall": "90s"}}},
        {"gpus": cards(2)},
        {"settings": settings(budget={"restarts": 5})},
        {"sets": {"runtime": "docker"}},
    ],
    ids=["variable", "port", "env", "requirement", "window", "cards", "budget", "runtime"],
)
def test_whatever_decides_something_makes_another_plan(inputs: dict[str, Any]) -> None:
    assert plan(**inputs).plan_id != plan().plan_id


def test_an_image_that_happens_to_be_here_makes_no_other_plan() -> None:
    made = plan(images={IMAGE: LocalImage()})
    assert (made.image and made.image.how, plan().image and plan().image.how) == ("local", "pull")  # type: ignore[union-attr]
    assert made.plan_id == plan(images={IMAGE: None}).plan_id == plan().plan_id


def test_the_host_is_asked_for_the_image_that_the_launch_names() -> None:
    assert image_references(Inputs(recipe(), settings())) == (IMAGE,)
    assert image_references(Inputs(bare(["vllm", "serve", "m"]), settings())) == ()


def test_variables_without_a_value_are_missing_and_stand_for_themselves() -> None:
    made = plan(settings=settings(variables={}))
    assert [entry.key for entry in made.missing] == ["variables.MODELS", "variables.CACHE"]
    assert made.missing[0].how == "variables: {MODELS: …} in agent.yaml, or --set variables.MODELS=…"
    assert host_config(made)["Binds"] == ["$MODELS:/models:ro", "$CACHE/triton:/root/.triton"]


@pytest.mark.parametrize(
    "launch",
    [
        ["docker", "run", "-p", "$PORT:$PORT", "-v", "$MODELS:/m", "img", "--port", "$PORT"],
        "docker run -p $PORT:$PORT -v $MODELS:/m img --port $PORT",
        ["docker", "run", "-p", "$PORT:8000", "--memory", "$MODELS", "img"],
    ],
    ids=["words", "line", "several"],
)
def test_a_variable_that_must_be_a_number_is_missing_and_nothing_else_is_said(launch: Any) -> None:
    """A launch that cannot be read without its variables is no launch that is wrong."""
    made = plan(bare(launch), settings=settings(variables={}))
    assert {entry.key for entry in made.missing} == {"variables.PORT", "variables.MODELS"}
    assert made.container is None
    assert "missing-variable" not in json.dumps(to_json(made))


def test_a_missing_key_can_be_set() -> None:
    first = plan(settings=settings(variables={}))
    sets = {entry.key: "/srv/x" for entry in first.missing}
    made = plan(settings=settings(variables={}), sets=sets)
    assert made.missing == ()
    assert made.origins["variables.MODELS"] == "--set variables.MODELS"


def test_the_environment_of_this_process_is_never_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELS", "/from/the/environment")
    assert "variables.MODELS" in [entry.key for entry in plan(settings=settings(variables={})).missing]


def test_every_value_knows_whose_word_it_is() -> None:
    made = plan(
        shipped={"requirements": {"driver": {"value": "580.10", "from": "engine_source.install_note", "words": "x"}}},
        site={"requirements": {"memory_available": "1GiB"}},
        sets={"port": "8001"},
    )
    assert made.origins["requirements.driver"] == "profile requirements.driver (recipe engine_source.install_note: x)"
    assert made.origins["requirements.memory_available"] == "site profile requirements.memory_available"
    assert made.origins["port"] == "--set port"
    assert made.origins["variables.MODELS"] == "agent.yaml variables.MODELS"
    assert made.origins["launch"] == "recipe config.launch"


def test_needs_come_from_the_profile_then_the_document_then_the_launch() -> None:
    needs = {need.id: need for need in plan(site={"requirements": {"gpu_memory": "48GB"}}).requirements}
    assert (needs["gpu.memory"].need, needs["gpu.memory"].origin) == (
        48 * 10**9,
        "site profile requirements.gpu_memory",
    )
    assert (needs["gpu.count"].need, needs["gpu.count"].origin) == (2, "recipe hardware[0].device_count")
    sized = {need.id: need for need in plan(recipe(hardware=[])).requirements}
    assert sized["gpu.count"].origin == "launch: tensor × pipeline × data parallel = 2 × 1 × 1"


def test_claims_are_the_union_without_unknowns_and_fillers() -> None:
    facts = [(claim.metric, claim.value, claim.concurrency, claim.context, claim.aggregate) for claim in plan().claims]
    assert facts == [
        ("decode_tok_s", 54.7, 1, 32768, False),
        ("decode_tok_s", 200.6, 8, None, True),
        ("prefill_tok_s", 3276.8, 1, 32768, False),
        ("ttft_ms", 10000, 1, 32768, False),
    ]


def test_windows_rest_on_the_claims_and_the_launch() -> None:
    watch = plan().watch
    assert watch.derived
    assert watch.stall.seconds == 180
    assert "32,768 tokens, 10 s to the first token" in watch.stall.how
    assert watch.start_limit.seconds == 600


def test_what_is_left_out_of_the_authors_command_is_said() -> None:
    made = plan()
    assert "--rm is left out: the container runs detached and its log is kept" in made.warnings
    host = host_config(made)
    assert (host["AutoRemove"], host["RestartPolicy"]["Name"]) == (False, "no")
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "50000000", "max-file": "4"}}


def test_a_host_port_changes_outside_alone() -> None:
    made = plan(sets={"port": "18000"})
    assert host_config(made)["PortBindings"] == {"8000/tcp": [{"HostIp": "", "HostPort": "18000"}]}
    assert made.engine is not None
    assert made.engine.port == 8000


def test_a_port_can_be_kept_to_this_host() -> None:
    made = plan(sets={"address": "127.0.0.1"})
    assert host_config(made)["PortBindings"] == {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8000"}]}
    assert plan(bare(["vllm", "serve", "m"]), sets={"address": "127.0.0.1"}).argv[-2:] == ("--host", "127.0.0.1")


def test_on_the_hosts_network_the_port_is_the_engines_own() -> None:
    of = bare("docker run --network host vllm/vllm-openai:v1 --model m")
    made = plan(of, settings=settings(policy={"host_network": True}), sets={"port": "8300"})
    assert made.container is not None
    assert made.container.body["Cmd"][-2:] == ["--port", "8300"]
    assert not host_config(made)["PortBindings"]
    assert made.engine is not None
    assert made.engine.port == 8300


def test_a_profile_adds_mounts_and_room_within_what_the_site_allows() -> None:
    site = {"mounts": ["/srv/cache/vllm:/root/.cache/vllm"], "shm_size": "16GiB"}
    host = host_config(plan(site=site))
    assert host["Binds"][-1] == "/srv/cache/vllm:/root/.cache/vllm"
    assert host["ShmSize"] == 16 * 2**30
    with pytest.raises(PolicyRefused):
        plan(site={"mounts": ["/etc:/x"]})


def test_a_profile_adds_variables_and_arguments_at_the_end() -> None:
    made = plan(site={"env": {"A": "2", "B": "3"}, "launch": {"arguments": [{"argv": ["--port", "9000"]}]}})
    assert made.container is not None
    assert made.container.body["Env"] == ["VLLM_ENGINE_READY_TIMEOUT_S=600", "A=2", "B=3"]
    assert made.container.body["Cmd"][-2:] == ["--port", "9000"]
    assert made.engine is not None
    assert made.engine.port == 9000


def test_a_document_with_a_launch_and_nothing_else_plans() -> None:
    made = plan(bare(["docker", "run", "--gpus", "all", "-p", "8000:8000", "vllm/vllm-openai:v1", "--model", "org/m"]))
    assert made.missing == ()
    assert made.engine is not None
    assert (made.engine.kind, made.engine.model) == ("vllm", "org/m")
    assert made.container is not None
    assert made.container.name == "bare"


def test_an_engine_that_its_launch_does_not_name_is_read_by_the_word_of_the_recipe() -> None:
    launch = ["docker", "run", "own/image:v1", "serve", "/models/m", "--port", "9001", "-tp", "4"]
    assert [entry.key for entry in plan(bare(launch)).missing] == ["engine.kind"]
    for made in (plan(bare(launch), sets={"engine.kind": "vllm"}), plan(recipe(launch))):
        assert made.engine is not None
        assert (made.engine.kind, made.engine.port, made.engine.tensor_parallel) == ("vllm", 9001, 4)


def test_a_profile_corrects_what_the_launch_says() -> None:
    made = plan(sets={"engine.port": "9002", "engine.served_model": "mine"})
    assert made.engine is not None
    assert (made.engine.port, made.engine.served_model) == (9002, "mine")


def test_a_bare_command_is_a_process() -> None:
    made = plan(bare(["vllm", "serve", "org/m", "--port", "8123"]), runtimes=frozenset({"docker", "process"}))
    assert (made.runtime, made.argv) == ("process", ("vllm", "serve", "org/m", "--port", "8123"))
    assert (made.image, made.missing) == (None, ())


def test_shell_lines_are_read_and_their_environment_is_kept() -> None:
    made = plan(bare(["# start it", "export HF_HOME=/data/hf", "CUDA_LAUNCH_BLOCKING=1 vllm serve org/m --port 8123"]))
    assert made.argv == ("vllm", "serve", "org/m", "--port", "8123")
    assert made.container is not None
    assert set(made.container.body["Env"]) == {"HF_HOME=/data/hf", "CUDA_LAUNCH_BLOCKING=1"}


def test_a_process_takes_another_port_by_its_own_flag() -> None:
    made = plan(bare(["vllm", "serve", "org/m"]), sets={"port": "8200"})
    assert made.argv[-2:] == ("--port", "8200")
    assert made.engine is not None
    assert made.engine.port == 8200


def test_a_bare_command_with_an_image_is_a_container_on_loopback() -> None:
    made = plan(bare(["vllm", "serve", "org/m", "--port", "8123"]), sets={"image.reference": "vllm/vllm-openai:v1"})
    assert made.runtime == "docker"
    assert made.container is not None
    body, host = made.container.body, host_config(made)
    assert (body["Entrypoint"], body["Cmd"][0], body["Image"]) == (["vllm"], "serve", "vllm/vllm-openai:v1")
    assert host["PortBindings"] == {"8123/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8123"}]}
    assert host["DeviceRequests"][0]["Count"] == -1


def test_a_command_that_was_read_is_not_expanded_again() -> None:
    made = plan(
        bare(["vllm", "serve", "org/m", "--served-model-name", "$NAME"]),
        settings=settings(variables={"NAME": "a$HOME`x`"}),
        sets={"image.reference": "vllm/vllm-openai:v1"},
    )
    assert made.container is not None
    assert made.container.body["Cmd"][-1] == "a$HOME`x`"


def test_a_bare_command_for_docker_without_an_image_says_what_it_lacks() -> None:
    made = plan(bare(["vllm", "serve", "org/m"]), settings=settings(runtime="docker"))
    assert [entry.key for entry in made.missing] == ["image.reference"]
    assert made.engine is not None
    assert made.container is None


def test_a_container_without_mounts_runs_as_a_process_where_no_engine_answers() -> None:
    launch = ["docker", "run", "-e", "A=1", "--entrypoint", "vllm", "img", "serve", "org/m"]
    made = plan(bare(launch), runtimes=frozenset({"process"}))
    assert (made.runtime, made.argv) == ("process", ("vllm", "serve", "org/m"))
    assert made.container is not None
    assert made.container.body["Env"] == ["A=1"]


def test_a_container_that_cannot_be_a_process_is_planned_where_no_engine_answers_yet() -> None:
    made = plan(runtimes=frozenset({"process"}))
    assert made.runtime == "docker"
    assert "no container engine answers on this host yet" in made.origins["runtime"]
    assert made.plan_id == plan().plan_id


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        (["docker", "run", "-v", "/m:/m", "--entrypoint", "vllm", "img", "serve", "m"], "its launch mounts /m:/m"),
        (["docker", "run", "vllm/vllm-openai:v1", "--model", "m"], "only the image vllm/vllm-openai:v1 says"),
    ],
)
def test_a_container_that_is_more_than_its_command_is_refused_as_a_process(launch: list[str], why: str) -> None:
    with pytest.raises(NoProcess) as caught:
        plan(bare(launch), settings=settings(runtime="process"))
    assert why in caught.value.text
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        (["git clone https://git.example/x", "cd x"], "its lines prepare things and start no engine"),
        (["vllm serve a --port 1\nvllm serve b --port 2"], "the recipe holds 2 launches: vllm"),
        ([], "states none"),
    ],
)
def test_a_recipe_without_one_launch_lacks_it(launch: list[str], why: str) -> None:
    made = plan(bare(launch))
    missing = {entry.key: entry for entry in made.missing}
    assert why in missing["launch.line"].why
    assert "engine.kind" in missing
    assert made.container is None


def test_of_several_containers_the_one_with_an_engine_is_meant() -> None:
    lines = ["docker run -d redis:7", "docker run -d --gpus all vllm/vllm-openai:v1 --model org/m"]
    made = plan(bare(lines))
    assert made.container is not None
    assert made.container.body["Image"] == "vllm/vllm-openai:v1"


def test_a_command_substitution_is_missing_until_somebody_says_what_it_prints() -> None:
    of = bare(["docker", "run", "--user", "$(id -u)", "vllm/vllm-openai:v1", "--model", "m"])
    assert [entry.key for entry in plan(of).missing] == ["substitutions.id -u"]
    made = plan(of, sets={"substitutions.id -u": "1000"})
    assert made.missing == ()
    assert made.container is not None
    assert made.container.body["User"] == "1000"


def test_a_file_of_the_authors_is_missing_until_its_text_is_stated() -> None:
    of = bare(["docker", "run", "--env-file", "/home/a/.env", "vllm/vllm-openai:v1", "--model", "m"])
    assert [entry.key for entry in plan(of).missing] == ["files./home/a/.env"]
    made = plan(of, site={"files": {"/home/a/.env": "A=1\n# note\nB=2"}})
    assert made.missing == ()
    assert made.container is not None
    assert set(made.container.body["Env"]) == {"A=1", "B=2"}


def test_a_relative_mount_wants_the_folder_that_it_is_meant_from() -> None:
    of = bare("docker run -v ./models:/models vllm/vllm-openai:v1 --model /models/m")
    assert [entry.key for entry in plan(of).missing] == ["variables.PWD"]
    made = plan(of, sets={"PWD": "/srv/work"})
    assert host_config(made)["Binds"] == ["/srv/work/models:/models"]


@pytest.mark.parametrize(
    ("launch", "error"),
    [
        (["docker", "run", "--no-such-flag", "img"], CliRejects),
        (["docker", "run", "--volume"], CliRejects),
    ],
)
def test_a_launch_that_has_no_meaning_is_refused(launch: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        plan(bare(launch))


def test_a_launch_that_was_not_meant_is_refused_with_what_was() -> None:
    launch = ["docker", "run", "--gpus", "device=0,1", "vllm/vllm-openai:v1", "--model", "m", "-tp", "2"]
    with pytest.raises(NotMeant) as caught:
        plan(bare(launch))
    assert """--gpus '"device=0,1"'""" in caught.value.advice
    made = plan(bare(launch), sets={"gpus": "0,1"}, gpus=cards(2))
    assert made.gpus == ("GPU-0000", "GPU-0001")


def test_a_launch_can_be_set_as_a_line_of_text() -> None:
    made = plan(bare([]), sets={"launch.line": "vllm serve org/m --port 8123"})
    assert (made.argv, made.missing) == (("vllm", "serve", "org/m", "--port", "8123"), ())
    assert made.origins["launch.line[0]"] == "--set launch.line[0]"


def test_every_key_that_can_be_missing_can_be_set() -> None:
    values = {
        "gpus": "0,1",
        "launch.line": "vllm serve m",
        "launch.service": "engine",
        "engine.kind": "vllm",
        "image.reference": "img:v1",
        "image.base": "img:v1",
        "image.sources.plugin.commit": "94c29ba",
        "image.sources.plugin.sha256": "0" * 64,
        "requirements.hosts": "1",
        "variables.PWD": "/srv",
        "substitutions.id -u": "1000",
        "secrets.HF_TOKEN": "/run/hf",
        "files./a/.env": "A=1",
        "env.NODES": "1",
    }
    made = from_sets(values)
    assert all(has_value(made, key) for key in values)


def test_a_set_that_fits_nowhere_is_a_usage_error() -> None:
    with pytest.raises(BadSet):
        plan(sets={"requirements.drver": "1"})


def test_a_secret_is_not_taken_from_a_command_line() -> None:
    for key in ("variables.HF_TOKEN", "HF_TOKEN", "env.HF_TOKEN"):
        with pytest.raises(SecretSet, match="HF_TOKEN"):
            plan(sets={key: "hf_x"})
    named = plan(sets={"env.HF_TOKEN": "secret:HF_TOKEN", "secrets.HF_TOKEN": "/run/hf"})
    assert named.secrets == {"HF_TOKEN": "/run/hf"}


def test_a_profile_for_another_state_of_the_recipe_warns_with_the_words_that_are_gone() -> None:
    profile = {
        "recipe": {"slug": "small-model-on-2x-card-64", "content_hash": "ff" * 20},
        "requirements": {"driver": {"value": "1.2", "from": "engine_source.install_note", "words": "driver 570"}},
    }
    warning = next(text for text in plan(shipped=profile).warnings if "was written for" in text)
    assert warning == (
        "the profile was written for content_hash ffffffffffff, the recipe has 5a5a5a5a5a5a: "
        "engine_source.install_note no longer says 'driver 570'"
    )


def test_flags_that_are_not_what_the_recipe_says_in_words_are_told() -> None:
    profile = {"serving": {"tensor_parallel": {"value": 4, "from": "title", "words": "TP4"}}}
    warnings = plan(shipped=profile).warnings
    assert any("the launch's tensor parallel is 2" in text and "says 4" in text for text in warnings)


def test_variables_listed_beside_the_launch_are_held_against_it() -> None:
    config = small()["config"]
    config["runtime"]["env"] = "A=2 | C=3"
    warnings = plan(recipe(config=config)).warnings
    assert "config.runtime.env lists A=2 and the launch sets '1': --set env.A=2 would" in warnings
    assert "config.runtime.env lists C=3 and the launch does not set it: --set env.C=3 would" in warnings


def test_an_engine_that_no_port_leads_to_is_told() -> None:
    made = plan(bare(["docker", "run", "vllm/vllm-openai:v1", "--model", "m"]))
    assert any("no port of this host leads to the engine's 8000" in text for text in made.warnings)


def test_several_machines_are_more_than_this_agent_runs() -> None:
    profile = {"requirements": {"hosts": {"value": 4, "from": "title", "words": "4x"}}}
    assert [entry.key for entry in plan(shipped=profile).missing] == ["requirements.hosts"]
    assert plan(shipped=profile, sets={"requirements.hosts": "1"}).missing == ()


def test_what_a_build_lacks_is_missing_only_where_one_is_made() -> None:
    profile = {
        "image": {
            "sources": {"plugin": {"git": "https://git.example/p"}},
            "steps": [{"pip": {"source": "plugin"}}],
        },
        "missing": [{"key": "image.base", "only_for": "build", "why": "no base is named", "how": "name one"}],
    }
    keys = [entry.key for entry in plan(shipped=profile, images={IMAGE: None}).missing]
    assert keys == ["image.base", "image.sources.plugin.commit"]
    assert plan(shipped=profile, images={IMAGE: LocalImage()}).missing == ()
    forced = settings(image="build")
    assert plan(shipped=profile, images={IMAGE: LocalImage()}, settings=forced).missing != ()


def test_an_extension_is_compiled_for_the_chosen_cards() -> None:
    source = {"kernels": {"git": "https://git.example/k", "commit": "94c29ba"}}
    profile = {"image": {"base": "b", "sources": source, "steps": [{"extension": {"source": "kernels"}}]}}
    made = plan(shipped=profile, gpus=cards(2))
    assert made.image is not None
    assert made.image.steps[-1] == {"extension": {"source": "kernels", "arch": "8.0"}}


def test_expendable_and_acceptance_come_from_a_profile() -> None:
    made = plan(site={"expendable": True, "acceptance": {"stream_tokens": 768, "log_lines": ["ready"]}})
    assert made.expendable
    assert (made.acceptance.stream_tokens, made.acceptance.log_lines) == (768, ("ready",))


def test_planning_takes_milliseconds() -> None:
    golden()
    assert cost(golden) < 0.25 * second()


def test_no_path_of_this_machine_is_in_the_golden_files() -> None:
    for name in ("small.plan.json", "small.plan.txt"):
        assert str(Path.cwd()) not in (FIXTURES / name).read_text()


def test_without_cards_an_extension_is_compiled_for_what_is_stated_or_somebody_is_asked() -> None:
    source = {"kernels": {"git": "https://host/k.git", "commit": "0" * 40}}
    image = {"base": "b", "sources": source, "steps": [{"extension": {"source": "kernels"}}]}
    unasked = plan(shipped={"image": image})
    assert "requirements.compute_capability" in [entry.key for entry in unasked.missing]
    for stated, arch in (("8.0", "8.0"), ("9.0 8.0", "8.0 9.0")):
        made = plan(shipped={"image": image}, sets={"requirements.compute_capability": stated})
        assert "requirements.compute_capability" not in [entry.key for entry in made.missing]
        assert made.image is not None
        assert made.image.steps[-1] == {"extension": {"source": "kernels", "arch": arch}}


def test_an_image_that_is_built_makes_no_process_where_docker_is_not_there_yet() -> None:
    """Its patches would be left out, and what is installed on the host would serve instead."""
    source = {"engine": {"git": "https://host/e.git", "commit": "0" * 40}}
    profile = {"image": {"base": "b", "sources": source, "steps": [{"pip": {"source": "engine"}}]}}
    launch = bare(["vllm", "serve", "org/m"])
    made = plan(launch, shipped=profile, runtimes=frozenset({"process"}))
    assert made.runtime == "docker"
    assert "no container engine answers" in made.origins["runtime"]
    assert made.image is not None
    assert made.image.how == "build"
    asked = plan(launch, shipped=profile, sets={"runtime": "process"})
    assert asked.runtime == "process"
    assert any("unpatched" in warning for warning in asked.warnings)


def test_a_choice_among_services_asks_for_nothing_else() -> None:
    """Each of them says which engine it is."""
    service = "{image: vllm/vllm-openai:v1, command: --model m}"
    made = plan(read_recipe(f"services:\n  a: {service}\n  b: {service}\n".encode(), "/srv/pair.yaml"))
    assert [entry.key for entry in made.missing] == ["launch.service"]


def test_a_variable_that_the_launch_does_not_use_is_told_where_it_is_set_by_hand() -> None:
    for key in ("variables.MODELZ", "MODELZ"):
        assert f"{key} is set, and the launch uses no MODELZ: did you mean MODELS?" in plan(sets={key: "/x"}).warnings
    assert not [text for text in plan(sets={"variables.MODELS": "/x"}).warnings if "is set" in text]

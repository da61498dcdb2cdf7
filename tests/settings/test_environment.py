"""The environment is the last layer: every variable is a setting, or an error that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import AgentError
from agent.settings.load import load
from agent.settings.model import Settings


def loaded(tmp_path: Path, **environ: str) -> tuple[Settings, dict[str, str]]:
    site = tmp_path / "agent.yaml"
    site.write_text("listen: {port: 1234}\nruntime: docker\n")
    found = load(site, environ)
    return found.settings, {key: origin for key, _, origin in found.rows()}


def test_a_variable_wins_over_the_file_and_is_named_as_the_origin(tmp_path: Path) -> None:
    settings, origins = loaded(
        tmp_path,
        RECIPE_AGENT_LISTEN__PORT="0",
        RECIPE_AGENT_LISTEN__TLS__CERTIFICATE="/c.pem",
        RECIPE_AGENT_LISTEN__TLS__KEY="/k.pem",
        RECIPE_AGENT_RUNTIME="process",
        RECIPE_AGENT_GPUS="[0, GPU-1]",
        RECIPE_AGENT_FETCHING__TIMEOUT_S="1m",
    )
    assert settings.listen.port == 0
    assert settings.listen.tls.key == Path("/k.pem")
    assert settings.runtime == "process"
    assert settings.gpus == ("0", "GPU-1")
    assert settings.fetching.timeout_s == 60
    assert origins["listen.port"] == "environment RECIPE_AGENT_LISTEN__PORT"
    assert origins["listen.address"] == "default"


def test_names_of_the_operators_own_stay_as_they_are_written(tmp_path: Path) -> None:
    settings, _ = loaded(tmp_path, RECIPE_AGENT_SECRETS__hf_Token="/run/hf")
    assert settings.secrets == {"hf_Token": Path("/run/hf")}


def test_other_programs_variables_are_none_of_ours(tmp_path: Path) -> None:
    settings, _ = loaded(tmp_path, RECIPE_AGENT_TOKEN="x", RECIPE_AGENT_SHARED="/x", PATH="/bin", X__Y="1")
    assert settings.listen.port == 1234


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("RECIPE_AGENT_LISTEN__PROT", "0", "unknown key 'listen.prot', did you mean 'port'?"),
        ("RECIPE_AGENT_LISTNE__PORT", "0", "unknown key 'listne', did you mean 'listen'?"),
        ("RECIPE_AGENT_VARIABLES__HOME", "/root", "come from the site file and --set alone"),
        ("RECIPE_AGENT_LISTEN__PORT", "many", "listen.port should be a valid integer"),
        ("RECIPE_AGENT_LISTEN__PORT__X", "1", "listen.port"),
        ("RECIPE_AGENT_GPUS", "[0", "did not find expected"),
    ],
)
def test_a_variable_that_means_nothing_is_an_error_that_names_it(
    tmp_path: Path, name: str, value: str, why: str
) -> None:
    with pytest.raises(AgentError, match=name) as caught:
        loaded(tmp_path, **{name: value})
    assert why in caught.value.text


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("hf_token", "${CREDENTIALS_DIRECTORY}/hf_token"),
        ("${CREDENTIALS_DIRECTORY}/hf_token", "${CREDENTIALS_DIRECTORY}/hf_token"),
        ("/etc/hf", "/etc/hf"),
    ],
)
def test_a_secret_may_be_a_credential_of_the_unit(tmp_path: Path, text: str, path: str) -> None:
    site = tmp_path / "agent.yaml"
    site.write_text(f"secrets: {{HF_TOKEN: '{text}'}}\n")
    assert load(site).settings.secrets == {"HF_TOKEN": Path(path)}


@pytest.mark.parametrize("text", ["../etc/shadow", "a/b", "..", "${HOME}/x", "${CREDENTIALS_DIRECTORY}/../x"])
def test_a_relative_path_is_no_credential(tmp_path: Path, text: str) -> None:
    site = tmp_path / "agent.yaml"
    site.write_text(f"secrets: {{HF_TOKEN: '{text}'}}\n")
    with pytest.raises(AgentError, match="neither a whole path"):
        load(site)


@pytest.mark.parametrize(
    ("tls", "why"),
    [
        ("{certificate: /c}", "one of them is missing"),
        ("{client_ca: /ca}", "client_ca wants a certificate"),
    ],
)
def test_half_of_tls_is_an_error(tmp_path: Path, tls: str, why: str) -> None:
    site = tmp_path / "agent.yaml"
    site.write_text(f"listen: {{tls: {tls}}}\n")
    with pytest.raises(AgentError, match=why):
        load(site)

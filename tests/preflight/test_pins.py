"""What is stated about the bytes of weights, and of their form."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from agent.preflight import exl3, pins
from agent.preflight.checks import weights, weights_hash
from agent.preflight.model import Level
from agent.preflight.pins import Pin
from agent.quantity import Bytes
from tests.preflight.build import FakeFacts, case, file, folder, known, need
from tests.preflight.test_shards import header

SUM = hashlib.sha256(b"weights").hexdigest()
FOLDER = "/srv/models/tiny"
SHARD = f"{FOLDER}/model.safetensors"
COMMIT = "2cba9e42aa026125f3ed06c6d98c1db82f7ca027"
METADATA = f"{FOLDER}/.cache/huggingface/download/model.safetensors.metadata"


def test_the_hubs_own_word_on_a_large_file() -> None:
    assert pins.of_metadata(f"{COMMIT}\n{SUM}\n1700000000.0\n") == Pin(SUM, "the Hub, when it was fetched", COMMIT)


@pytest.mark.parametrize("text", ["", "one line", f"{COMMIT}\n{'a' * 40}\n1.0"])
def test_a_small_file_has_no_sha256_there(text: str) -> None:
    assert pins.of_metadata(text) is None


def test_the_cache_names_a_file_by_its_hash() -> None:
    assert pins.of_blob(f"/root/.cache/huggingface/hub/models--a--b/blobs/{SUM}") is not None
    assert pins.of_blob("/srv/models/blobs/model.gguf") is None
    assert pins.of_blob(f"/srv/{SUM}") is None


def test_a_list_of_sums() -> None:
    found = pins.of_sums(f"{SUM}  ./a.gguf\n{SUM} *b c.gguf\n# no sum\nshort  d.gguf\n")
    assert set(found) == {"a.gguf", "b c.gguf"}


def host(**contents: bytes) -> FakeFacts:
    return FakeFacts(
        paths={FOLDER: known(folder(FOLDER))},
        folders={FOLDER: (file(SHARD, size=Bytes(7)),)},
        contents={SHARD: b"weights", **{name.replace("_", "/"): data for name, data in contents.items()}},
    )


BIND = {"Binds": ["/srv/models:/models:ro"]}


@pytest.mark.parametrize(
    ("stated", "pinned", "level", "says"),
    [
        ({METADATA: f"{COMMIT}\n{SUM}\n1.0"}, (), Level.PASS, "1 file is what its source stated"),
        ({METADATA: f"{COMMIT}\n{'0' * 64}\n1.0"}, (), Level.FAIL, f"{SHARD} is not what was stated (the Hub"),
        ({f"{FOLDER}/SHA256SUMS": f"{SUM}  model.safetensors"}, (), Level.PASS, "1 file is"),
        ({f"{FOLDER}/SHA256SUMS": f"{'0' * 64}  model.safetensors"}, (), Level.FAIL, "(SHA256SUMS)"),
        ({METADATA: f"{COMMIT}\n{SUM}\n1.0"}, (need("weights", f"a/b@{COMMIT}"),), Level.PASS, "1 file is"),
        ({METADATA: f"{COMMIT}\n{SUM}\n1.0"}, (need("weights", f"a/b@{'1' * 40}"),), Level.FAIL, f"of commit {COMMIT}"),
        ({}, (), Level.UNKNOWN, "no hash of any"),
    ],
)
async def test_weights_against_their_pin(stated: Any, pinned: Any, level: Level, says: str) -> None:
    facts = host()
    facts.contents |= {name: text.encode() for name, text in stated.items()}
    answer = await weights_hash.look(case(facts, *pinned, host=BIND, model="/models/tiny"))
    assert answer.level is level, answer
    assert says in answer.found


async def test_a_file_that_cannot_be_read_is_unknown() -> None:
    facts = host()
    facts.contents = {METADATA: f"{COMMIT}\n{SUM}\n1.0".encode()}
    answer = await weights_hash.look(case(facts, host=BIND, model="/models/tiny"))
    assert answer.level is Level.UNKNOWN


EXL3 = b'{"quantization_config": {"quant_method": "exl3", "bits": 2.0}}'


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (EXL3, "exl3, 2 bits"),
        (b'{"quantization_config": {"quant_method": "fp8"}}', "fp8"),
        (b'{"quantization_config": {"quant_method": "awq", "bits": true}}', "awq"),
        (b"{}", None),
        (b"[]", None),
        (b"{", None),
    ],
)
def test_the_form_that_a_configuration_states(config: bytes, said: str | None) -> None:
    found = exl3.stated(config)
    assert (str(found) if found else None) == said


@pytest.mark.parametrize(
    ("tensor", "level", "says"),
    [("model.layers.0.q.trellis", Level.PASS, "whole"), ("model.layers.0.q.weight", Level.FAIL, "says exl3, 2 bits")],
)
async def test_an_exl3_pack_holds_tensors_of_that_form(tensor: str, level: Level, says: str) -> None:
    text = header(**{tensor: (0, 2)})
    data = len(text).to_bytes(8, "little") + text + b"xx"
    facts = host()
    config = f"{FOLDER}/config.json"
    facts.folders = {FOLDER: (file(SHARD, size=Bytes(len(data))), file(config, size=Bytes(len(EXL3))))}
    facts.contents = {SHARD: data, config: EXL3}
    answer = await weights.look(case(facts, host=BIND, model="/models/tiny"))
    assert answer.level is level, answer
    assert says in answer.found
    assert answer.details["pack"] == "exl3, 2 bits"

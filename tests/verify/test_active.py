"""Active parameters by a model's own configuration, against what its makers publish."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.verify.active import NotCounted, counted

QWEN3_30B_A3B = {
    "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "hidden_act": "silu", "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
    "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "torch_dtype": "bfloat16",
    "vocab_size": 151936,
}  # fmt: skip
MIXTRAL_8X7B = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_act": "silu", "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
    "torch_dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK_V3 = {
    "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "hidden_act": "silu", "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8", "fmt": "e4m3"},
}  # fmt: skip
LLAMA3_8B = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_act": "silu", "intermediate_size": 14336, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "beside", "published", "bits"),
    [
        # beside: embeddings and output layer, which the makers count and a prompt's token does not pass
        (QWEN3_30B_A3B, 2 * 151936 * 2048, 3.3e9, 16.0),
        (MIXTRAL_8X7B, 2 * 32000 * 4096, 12.9e9, 16.0),
        (DEEPSEEK_V3, 129280 * 7168, 37e9, 8.0),
        (LLAMA3_8B, 2 * 128256 * 4096, 8.03e9, 16.0),
    ],
    ids=["Qwen3-30B-A3B", "Mixtral-8x7B", "DeepSeek-V3", "Llama-3-8B"],
)
def test_the_count_is_the_published_one(config: dict[str, Any], beside: int, published: float, bits: float) -> None:
    found = counted(json.dumps(config).encode())
    assert found.parameters + beside == pytest.approx(published, rel=0.02)
    assert found.parameters < published, "a floor, so that no true rate is called an error"
    assert found.bits == bits


def test_the_arithmetic_is_shown() -> None:
    how = counted(json.dumps(QWEN3_30B_A3B).encode()).how
    assert how == (
        "48 layers x 18.9e6 of attention + 48 x 38.0e6 (8 of 128 experts) = 2.73e9, without embeddings and output layer"
    )


def test_a_model_that_also_sees_is_counted_by_its_language_model() -> None:
    whole = {"text_config": LLAMA3_8B, "vision_config": {"hidden_size": 1280}, "torch_dtype": "bfloat16"}
    assert counted(json.dumps(whole).encode()).parameters == counted(json.dumps(LLAMA3_8B).encode()).parameters


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "no num_hidden_layers"),
        ({**QWEN3_30B_A3B, "num_experts_per_tok": None}, "does not say how many experts"),
        ({**LLAMA3_8B, "mamba_d_state": 128}, "not all of one kind"),
        ({**LLAMA3_8B, "layer_types": ["full_attention", "linear_attention"]}, "not all of one kind"),
        ({**LLAMA3_8B, "intermediate_size": "large"}, "no intermediate_size"),
    ],
)
def test_what_a_configuration_does_not_state_is_unknown(config: dict[str, Any], why: str) -> None:
    with pytest.raises(NotCounted, match=why):
        counted(json.dumps(config).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff"])
def test_a_file_that_is_no_configuration_is_unknown(text: bytes) -> None:
    with pytest.raises(NotCounted):
        counted(text)


MIXTURE = MIXTRAL_8X7B | {"num_hidden_layers": 4}


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "config",
    [
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        json.dumps(LLAMA3_8B | {"hidden_size": 10**400}).encode(),
        json.dumps(MIXTURE | {"num_hidden_layers": 10**12}).encode(),
        json.dumps(MIXTURE | {"num_experts_per_tok": 10**30}).encode(),
        json.dumps(MIXTURE | {"mlp_only_layers": 5}).encode(),
        json.dumps(MIXTURE | {"mlp_only_layers": "ab"}).encode(),
        json.dumps(MIXTURE | {"mlp_only_layers": list(range(5))}).encode(),
        b"\xff\xfe\x00",
        b'{"hidden_size": ' + b"9" * 5000 + b"}",
    ],
    ids=["deep", "size", "layers", "experts", "number", "text", "too many", "bytes", "digits"],
)
def test_what_no_model_states_is_not_counted(config: bytes) -> None:
    """The file is a stranger's: it holds nobody up and breaks nothing."""
    with pytest.raises(NotCounted):
        counted(config)


@pytest.mark.parametrize("bits", [float("inf"), float("nan"), 1e-300, 10**400, -4, True])
def test_bits_that_no_weight_has_are_not_known(bits: float) -> None:
    stated = LLAMA3_8B | {"torch_dtype": None, "quantization_config": {"bits": bits}}
    assert counted(json.dumps(stated).encode()).bits is None


@pytest.mark.parametrize("word", [["silu"], {"a": 1}, 7, None])
def test_an_activation_that_is_no_word_is_not_a_gated_one(word: object) -> None:
    plain = counted(json.dumps(LLAMA3_8B | {"hidden_act": "relu"}).encode())
    assert counted(json.dumps(LLAMA3_8B | {"hidden_act": word}).encode()).parameters == plain.parameters

"""Parameters that one token passes, counted from a model's `config.json` as the Hugging Face Hub has it (pure).

Only the matrices that every token passes in every layer are counted: attention, the experts that are chosen, the
shared ones, the router, or the dense block. Embeddings and the output layer are left out, since a prompt's tokens need
neither: the count is a floor, and a limit that is made from it errs on the side of believing. Checked against the
published numbers: Qwen3-30B-A3B 2.7e9 (3.3e9 with embeddings), Mixtral 8x7B 12.6e9 (12.9e9), DeepSeek-V3 35.7e9 (37e9).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GATED = frozenset({"silu", "swish", "gelu_pytorch_tanh"})
"""Activations whose block has three matrices (gate, up, down); any other is counted with two."""
UNEVEN = ("mamba", "ssm", "linear_", "hybrid", "full_attention_interval", "expert_layer_", "attn_layer_", "block_types")
"""Beginnings of keys that say that layers differ in kind: then none is counted."""
SAME = frozenset({"full_attention", "sliding_attention", "chunked_attention"})


LAYERS = "num_hidden_layers"
MOST_LAYERS, MOST = 10_000, 10_000_000
"""Of layers and of any other number: far beyond every model, and far below what would keep anybody busy. The file is a
stranger's."""
LEAST_BITS, MOST_BITS = 1, 64
"""A weight."""


class NotCounted(ValueError):
    """Why a configuration does not state enough, in words."""


@dataclass(frozen=True, slots=True)
class Counted:
    """`how` is the arithmetic; `bits` a weight, None where the configuration does not say."""

    parameters: float
    how: str
    bits: float | None = None


def counted(config: bytes) -> Counted:
    """Raises NotCounted."""
    try:
        whole = json.loads(config)
    except (ValueError, RecursionError) as error:
        raise NotCounted("its config.json cannot be read") from error
    if not isinstance(whole, dict):
        raise NotCounted("its config.json is no object")
    text = whole.get("text_config")  # a model that also sees keeps its language model there
    shape = Shape(text if isinstance(text, dict) else whole)
    total, how = shape.total()
    return Counted(total, how, bits_of(whole) or bits_of(shape.of))


def bits_of(config: Mapping[str, Any]) -> float | None:
    """Bits a weight; of a quantised model those that it states."""
    own = config.get("quantization_config")
    if isinstance(own, dict):
        bits = own.get("bits", own.get("num_bits"))
        if isinstance(bits, int | float) and not isinstance(bits, bool) and LEAST_BITS <= bits <= MOST_BITS:
            return float(bits)
        return 8.0 if own.get("quant_method") == "fp8" else None
    kind = str(config.get("torch_dtype") or config.get("dtype") or "")
    return {"bfloat16": 16.0, "float16": 16.0, "float32": 32.0}.get(kind)


class Shape:
    """One configuration's numbers."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.of = config
        self._refuse_uneven()

    def _refuse_uneven(self) -> None:
        odd = [key for key, value in self.of.items() if key.startswith(UNEVEN) and value]
        kinds = self.of.get("layer_types")
        if isinstance(kinds, list) and not SAME.issuperset(map(str, kinds)):
            odd.append("layer_types")
        if self.of.get("interleave_moe_layer_step") not in (None, 1):
            odd.append("interleave_moe_layer_step")
        if odd:
            raise NotCounted(f"its layers are not all of one kind ({', '.join(sorted(odd)[:3])})")

    def need(self, *keys: str) -> int:
        """The first of these that is a positive whole number."""
        found = self.may(*keys)
        if found is None:
            raise NotCounted(f"its config.json has no {' or '.join(keys)}")
        return found

    def may(self, *keys: str) -> int | None:
        for key in keys:
            value = self.of.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                if value > (MOST_LAYERS if key == LAYERS else MOST):
                    raise NotCounted(f"no model has such a {key} as its config.json states")
                return value
        return None

    def total(self) -> tuple[float, str]:
        layers, attention = self.need(LAYERS), self.attention()
        sparse = self.sparse_layers(layers)
        parts, total = [f"{layers} layers x {_short(attention)} of attention"], float(layers * attention)
        if sparse:
            block, words = self.experts()
            parts.append(f"{sparse} x {_short(block)} ({words})")
            total += sparse * block
        if layers > sparse:
            block = self.block(self.need("intermediate_size"))
            parts.append(f"{layers - sparse} x {_short(block)} of dense blocks")
            total += (layers - sparse) * block
        return total, f"{' + '.join(parts)} = {_short(total)}, without embeddings and output layer"

    def attention(self) -> int:
        hidden, heads = self.need("hidden_size"), self.need("num_attention_heads")
        if (latent := self.may("kv_lora_rank")) is not None:
            return self._latent(hidden, heads, latent)
        width = self.may("head_dim") or hidden // heads
        kv_heads = self.may("num_key_value_heads") or heads
        return 2 * hidden * heads * width + 2 * hidden * kv_heads * width

    def _latent(self, hidden: int, heads: int, latent: int) -> int:
        """Multi-head latent attention (DeepSeek-V2, section 2.1)."""
        rope, plain = self.need("qk_rope_head_dim"), self.need("qk_nope_head_dim")
        value, rank = self.need("v_head_dim"), self.may("q_lora_rank")
        queries = heads * (plain + rope)
        asks = hidden * queries if rank is None else hidden * rank + rank * queries
        return asks + hidden * (latent + rope) + latent * heads * (plain + value) + heads * value * hidden

    def sparse_layers(self, layers: int) -> int:
        """How many layers choose experts."""
        if self.may("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk") is None:
            if self.may("num_experts", "n_routed_experts", "num_local_experts") is not None:
                raise NotCounted("its config.json does not say how many experts a token passes")
            return 0
        dense = self.of.get("mlp_only_layers") or []
        if not isinstance(dense, list) or len(dense) > layers:
            raise NotCounted("mlp_only_layers in its config.json is no list of layers")
        first = self.may("first_k_dense_replace") or 0
        step = self.may("decoder_sparse_step", "moe_layer_freq") or 1
        return sum(at >= first and at not in dense and (at + 1) % step == 0 for at in range(layers))

    def experts(self) -> tuple[int, str]:
        """What a token passes in a layer of experts."""
        chosen = self.need("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk")
        of = self.need("num_experts", "n_routed_experts", "num_local_experts")
        width = self.need("moe_intermediate_size", "intermediate_size")
        shared = self.may("n_shared_experts", "num_shared_experts") or 0
        block = (chosen + shared) * self.block(width) + self.need("hidden_size") * of
        if (beside := self.may("shared_expert_intermediate_size")) is not None and not shared:
            block += self.block(beside)
        return block, f"{chosen} of {of} experts" + (f" and {shared} shared" if shared else "")

    def block(self, width: int) -> int:
        gated = str(self.of.get("hidden_act")) in GATED
        return (3 if gated else 2) * self.need("hidden_size") * width


def _short(count: float) -> str:
    return f"{count / 1e9:.2f}e9" if count >= 1e9 else f"{count / 1e6:.1f}e6"

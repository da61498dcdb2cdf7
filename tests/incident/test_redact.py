"""Secrets leave evidence; what explains a fault stays."""

from __future__ import annotations

import pytest

from agent.incident.redact import HIDDEN, redact, redact_text


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN=hf_abcdefgh12345678",
        "export OPENAI_API_KEY='topsecretvalue'",
        "vllm serve m --api-key topsecretvalue --port 8000",
        '["--api-key", "topsecretvalue"]',
        "Authorization: Bearer topsecretvalue",
        "https://user:topsecretvalue@host/path",
        '{"password": "topsecretvalue"}',
        "dbPassword=topsecretvalue",
    ],
)
def test_a_secret_leaves_a_line(text: str) -> None:
    """Whatever form it stands in, the value is gone and the name stays."""
    clean = redact_text(text)
    assert "topsecretvalue" not in clean
    assert "hf_abcdefgh12345678" not in clean
    assert HIDDEN in clean


@pytest.mark.parametrize(
    "text",
    [
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs",
        "Decode batch, #running-req: 1, #token: 4096, token usage: 0.02",
        "max_tokens=128 eos_token=</s> tokenizer_mode=auto",
        "--max-num-batched-tokens 8192 --tokenizer-mode deepseek_v41",
        "GLOO_SOCKET_IFNAME=lo VLLM_PLUGINS=vllm_exl3",
    ],
)
def test_what_explains_a_fault_stays(text: str) -> None:
    """Figures and flags of engines are no secrets."""
    assert redact_text(text) == text


def test_json_is_cleaned_by_key_entry_and_flag() -> None:
    """Environment entries, keys and the word after a flag lose their values; references to secrets stay."""
    cleaned = redact(
        {
            "Env": ["HF_TOKEN=hf_abcdefgh12345678", "PORT=8000", "OTHER_TOKEN=secret:OTHER_TOKEN"],
            "Cmd": ["serve", "--api-key", "letmein", "--port", "8000"],
            "password": "letmein",
            "count": 3,
        }
    )
    assert cleaned == {
        "Env": [f"HF_TOKEN={HIDDEN}", "PORT=8000", "OTHER_TOKEN=secret:OTHER_TOKEN"],
        "Cmd": ["serve", "--api-key", HIDDEN, "--port", "8000"],
        "password": HIDDEN,
        "count": 3,
    }

"""Secrets out of evidence: by the name of a variable, a flag or a key, and by the form of well-known tokens (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "[removed]"

SECRET_NAME = re.compile(
    r"(^|[_-])(TOKEN|KEYS?|PASSWORDS?|PASSWD|PASS|SECRETS?|CREDENTIALS?|AUTH|AUTHORIZATION|COOKIES?)($|[_-](ID|FILE)?$)",
    re.IGNORECASE,
)
NOT_SECRET = re.compile(r"(^|[_-])(MAX|NUM|PAD|EOS|BOS)[_-]?|TOKENS?[_-](PER|LEN|COUNT)|TOKENIZER", re.IGNORECASE)

# public forms of tokens: Hugging Face hf_, OpenAI-style sk-, GitHub ghp_/github_pat_, Slack xox?-, JSON Web Tokens
FORMS = re.compile(
    r"\b(hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}"
    r"|xox[abpros]-[A-Za-z0-9-]{8,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"
)
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}")
ASSIGNED = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_-]{2,60})(?P<by>['\"]?\s*[=:]\s*['\"]?)(?P<value>[^\s'\",;}\]]{3,})"
)
FLAG = re.compile(r"(?P<flag>--[a-z][a-z0-9-]*)(?P<by>[ =]|['\"], ?['\"])(?P<value>[^\s'\",\]]{3,})")
NUMBER = re.compile(r"[\d.,]+")
URL_LOGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<login>[^\s/@:]+:[^\s/@]+)@")


def secret_name(name: str) -> bool:
    """Whether a variable, flag or key of this name holds a secret (`HF_TOKEN`, `--api-key`, `dbPassword`)."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-"))
    return bool(SECRET_NAME.search(parts)) and not NOT_SECRET.search(parts)


def redact_text(text: str) -> str:
    """`text` without what looks like a secret. Meant to remove too much rather than too little."""
    text = URL_LOGIN.sub(lambda m: f"{m['scheme']}{HIDDEN}@", text)
    text = BEARER.sub(lambda m: f"{m[1]} {HIDDEN}", text)
    text = FLAG.sub(lambda m: _hide(m, m["flag"]), text)
    text = ASSIGNED.sub(lambda m: _hide(m, m["name"]), text)
    return FORMS.sub(HIDDEN, text)


def _hide(match: re.Match[str], name: str) -> str:
    plain = match["value"].startswith(("secret:", HIDDEN)) or NUMBER.fullmatch(match["value"])  # "#token: 4096"
    if plain or not secret_name(name):
        return match[0]
    return match[0][: match.start("value") - match.start()] + HIDDEN


def redact(value: Any, name: str = "") -> Any:
    """The same for JSON: by key, by `NAME=value` entries, by the flag in front in an argument list, by form."""
    if isinstance(value, Mapping):
        return {key: redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, _flag_before(value, index)) for index, item in enumerate(value)]
    if isinstance(value, str):
        if name and secret_name(name) and value and not value.startswith("secret:"):
            return HIDDEN
        return redact_text(value)
    return value


def _flag_before(values: list[Any] | tuple[Any, ...], index: int) -> str:
    before = values[index - 1] if index else ""
    return before if isinstance(before, str) and before.startswith("--") and "=" not in before else ""

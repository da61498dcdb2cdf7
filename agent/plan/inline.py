"""Secrets within a text: in a URL, in JSON, behind a flag of a script, in a header, or by the form of known tokens."""

from __future__ import annotations

import re
from collections.abc import Callable

from agent.plan.secrets import FLAG, PREFIX, as_name, is_secret, is_value

Name = Callable[[str, str], str]
"""The name of a secret, by what it might be called and its value."""

# user:password@host, and a lone user of a web address, which is a token wherever one is used
_LOGIN = re.compile(r"(?P<lead>[a-z][a-z0-9+.-]{0,20}://[^\s/@:'\"]*:)(?P<value>[^\s/@'\"]+)@(?P<host>[^\s/:'\"?#]+)")
_LONE = re.compile(r"(?P<lead>https?://)(?P<value>[^\s/@:'\"]+)@(?P<host>[^\s/:'\"?#]+)")
_JSON = re.compile(r"(?P<lead>\\?\"(?P<name>[A-Za-z][\w-]*)\\?\"\s*:\s*\\?\")(?P<value>[^\"\\]+)")
_FLAGGED = re.compile(r"(?P<lead>(?<![\w-])(?P<name>--?[A-Za-z][\w-]*)(?:=|[ \t]+)['\"]?)(?P<value>[^\s'\"-][^\s'\"]*)")
_SET = re.compile(r"(?P<lead>(?<![\w-])(?P<name>[A-Za-z_][A-Za-z0-9_]*)=['\"]?)(?P<value>[^\s'\"|;,&]+)")
_HEADER = re.compile(r"(?i)(?P<lead>(?<![\w-])(?P<name>x-[\w-]*(?:key|token|secret))\s*:\s*)(?P<value>[^\s'\"]+)")
_BEARER = re.compile(r"(?i)(?P<lead>\b(?:bearer|basic)\s+)(?P<value>(?=[\w.~+/=-]*\d)[\w.~+/=-]{8,})")
_VALUE = re.compile(r"(?=\D*\d)\S{6,}|\S{20,}")
_FORMS = (
    ("HF_TOKEN", re.compile(r"(?<![\w-])(?P<value>hf_[A-Za-z0-9]{20,})")),
    ("API_KEY", re.compile(r"(?<![\w-])(?P<value>sk-(?=[\w-]*\d)[\w-]{20,})")),
    ("GITHUB_TOKEN", re.compile(r"(?<![\w-])(?P<value>(?:gh[pousr]|github_pat)_\w{16,})")),
    ("NGC_API_KEY", re.compile(r"(?<![\w-])(?P<value>nvapi-[\w-]{20,})")),
    ("AWS_ACCESS_KEY_ID", re.compile(r"(?<![\w-])(?P<value>AKIA[0-9A-Z]{16})\b")),
    ("TOKEN", re.compile(r"(?<![\w-])(?P<value>eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})")),
)
"""Public forms: Hugging Face, OpenAI and its like, GitHub, NVIDIA, AWS, JSON Web Tokens."""

_ANY = re.compile(r"[=\"-]|://|(?i:bearer|basic)\s|hf_|gh[pousr]_|github_pat_|AKIA|eyJ")
"""What every one of them has some of; most texts have nothing."""


def hide_within(text: str, name: Name, *, prose: bool = False) -> str:
    """`text` with references in place of its secrets. A shell's own variables (`$KEY`) are none."""
    if not _ANY.search(text):
        return text
    if "://" in text:
        text = _LOGIN.sub(lambda found: _put(found, _of_host(found, "PASSWORD"), name, "@"), text)
        text = _LONE.sub(lambda found: _put(found, _of_host(found, "TOKEN"), name, "@"), text)
    if '"' in text:
        text = _JSON.sub(lambda found: _named(found, name), text)
    if "-" in text:
        text = _FLAGGED.sub(lambda found: _flagged(found, name, prose), text)
        text = _HEADER.sub(lambda found: _put(found, as_name(found["name"]), name), text)
    if "=" in text:
        text = _SET.sub(lambda found: _named(found, name), text)
    text = _BEARER.sub(lambda found: _put(found, "AUTHORIZATION", name), text)
    for kind, form in _FORMS:
        text = form.sub(lambda found, kind=kind: _put(found, kind, name), text)  # type: ignore[misc]
    return text


def _of_host(found: re.Match[str], what: str) -> str:
    return re.sub(r"\W+", "_", f"{found['host']}_{what}").upper()


def _named(found: re.Match[str], name: Name) -> str:
    plain = found["name"].replace("-", "_")
    return _put(found, plain, name) if is_secret(plain) else found[0]


def _flagged(found: re.Match[str], name: Name, prose: bool) -> str:
    """Prose speaks of flags ("give it --api-key by a file"): there, only what looks like a value is one."""
    spoken = prose and found["lead"].endswith((" ", "\t")) and not _VALUE.fullmatch(found["value"])
    return _put(found, as_name(found["name"]), name) if FLAG.fullmatch(found["name"]) and not spoken else found[0]


def _put(found: re.Match[str], called: str, name: Name, end: str = "") -> str:
    if PREFIX in found[0] or found["value"].startswith(("$", "`")) or not is_value(found["value"]):
        return found[0]
    lead = found.groupdict().get("lead") or ""
    rest = f"{end}{found['host']}" if end else ""
    return f"{lead}{PREFIX}{name(called, found['value'])}{rest}"

"""Who asked, and from where: for the audit line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Caller:
    """One client. On the unix socket its uid and pid as the kernel tells them; over TCP its address and what it
    showed: a token, by the first digits of its SHA-256, or a certificate, by its subject."""

    door: str
    """`unix` or `tcp`."""
    address: str = ""
    uid: int | None = None
    pid: int | None = None
    user: str = ""
    token: str = ""
    certificate: str = ""

    @property
    def text(self) -> str:
        """In words."""
        if self.door == "unix":
            who = f"{self.user or 'uid'} ({self.uid})" if self.user else f"uid {self.uid}"
            return f"{who}, pid {self.pid}, on the unix socket" if self.uid is not None else "the unix socket"
        shown = [f"token {self.token}"] if self.token else []
        shown += [f"certificate {self.certificate}"] if self.certificate else []
        return f"{self.address} with {' and '.join(shown)}" if shown else self.address

    def to_json(self) -> dict[str, Any]:
        """What is known of it."""
        return {key: value for key, value in asdict(self).items() if value not in ("", None)}

"""The progress of a pull, folded from what the Engine says of each layer (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.container.port import PullProgress

_DONE = frozenset({"Pull complete", "Already exists", "Download complete, already exists"})
_FETCHED = frozenset({"Verifying Checksum", "Download complete", "Extracting", *_DONE})


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; bytes as they travel, compressed."""

    fetched: int = 0
    total: int | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull so far. Its figures never go back: a layer that is tried again keeps what it had."""

    layers: Mapping[str, Layer]
    text: str = ""

    def progress(self) -> PullProgress:
        """The sum over the layers known so far; the total grows as the registry names the sizes of more of them."""
        totals = [layer.total for layer in self.layers.values() if layer.total is not None]
        return PullProgress(
            done=sum(layer.fetched for layer in self.layers.values()),
            total=sum(totals) if totals else None,
            layers_done=sum(layer.done for layer in self.layers.values()),
            layers=len(self.layers),
            text=self.text,
        )


START = Pull({})


def fold(pull: Pull, message: Mapping[str, Any]) -> Pull:
    """`pull` after one message of the stream of POST /images/create."""
    status, layer_id = str(message.get("status") or ""), str(message.get("id") or "")
    if not layer_id or status.startswith("Pulling from"):
        return replace(pull, text=status or pull.text)
    layer = _after(pull.layers.get(layer_id, Layer()), status, message.get("progressDetail") or {})
    return Pull({**pull.layers, layer_id: layer}, f"{status} {layer_id}")


def _after(layer: Layer, status: str, detail: Mapping[str, Any]) -> Layer:
    current, total = detail.get("current"), detail.get("total")
    # While it extracts, the same fields count other bytes, or seconds.
    if status == "Downloading" and isinstance(current, int):
        layer = replace(layer, fetched=max(layer.fetched, current))
        if isinstance(total, int) and total > 0:
            layer = replace(layer, total=max(layer.total or 0, total))
    if status in _FETCHED and layer.total is not None:
        layer = replace(layer, fetched=layer.total)
    return replace(layer, done=layer.done or status in _DONE)

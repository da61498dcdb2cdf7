"""The KV cache: blocks that requests hold, and blocks that outlive them until somebody needs the room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class BlockPool:
    """`usable` blocks. A block with a hash can be shared; one that nobody holds counts as free, yet can be hit.

    vLLM keeps one block back as its null block, so the gauge is used ÷ (blocks − 1), 0 when nothing runs.
    """

    usable: int
    used: int = 0
    _holders: dict[int, int] = field(default_factory=dict)
    _idle: OrderedDict[int, None] = field(default_factory=OrderedDict)

    @property
    def free(self) -> int:
        """Blocks that can be had, those with cached content among them."""
        return self.usable - self.used

    @property
    def idle(self) -> int:
        """Blocks that nobody holds, with content that can be hit."""
        return len(self._idle)

    @property
    def usage(self) -> float:
        """The share of blocks that requests hold, 0 to 1."""
        return self.used / self.usable

    def cached(self, hashes: Sequence[int]) -> int:
        """How many of the leading hashes are in the cache."""
        for count, key in enumerate(hashes):
            if key not in self._holders and key not in self._idle:
                return count
        return len(hashes)

    def share(self, key: int) -> None:
        """Hold a cached block once more."""
        if key in self._idle:
            del self._idle[key]
            self.used += 1
        self._holders[key] = self._holders.get(key, 0) + 1

    def take(self, count: int) -> None:
        """Take blocks with no content; the oldest idle content goes when there is no other room."""
        self.used += count
        while self._idle and self.used + len(self._idle) > self.usable:
            self._idle.popitem(last=False)

    def publish(self, key: int) -> bool:
        """Give a block that its owner has filled its hash; False where another block has it already."""
        if key in self._holders or key in self._idle:
            return False
        self._holders[key] = 1
        return True

    def give_back(self, private: int, shared: Sequence[int]) -> None:
        """A request lets go: private blocks are free, shared ones stay cached when nobody else holds them."""
        self.used -= private
        for key in reversed(shared):
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                self._idle[key] = None
                self.used -= 1

    def forget(self) -> None:
        """Drop everything that is cached and held by nobody."""
        self._idle.clear()

"""How often one address may ask: a bucket each, the number of buckets bounded. Time is an argument."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

MOST = 1024
"""Addresses remembered; the one that asked longest ago is forgotten first, and begins anew with a full bucket."""


@dataclass(slots=True)
class Bucket:
    left: float
    at: float


class Rate:
    """`burst` requests at once, then `per_s` a second."""

    def __init__(self, per_s: float, burst: int) -> None:
        self.per_s = per_s
        self.burst = burst
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def wait(self, who: str, now: float, cost: float = 1.0) -> float:
        """Seconds until `who` may ask again; 0 where this request is within the limit, which it then is charged."""
        bucket = self._buckets.pop(who, None) or Bucket(float(self.burst), now)
        self._buckets[who] = bucket
        if len(self._buckets) > MOST:
            self._buckets.popitem(last=False)
        bucket.left = min(float(self.burst), bucket.left + max(0.0, now - bucket.at) * self.per_s)
        bucket.at = now
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self.per_s
        bucket.left -= cost
        return 0.0


def neighbourhood(address: str) -> str:
    """Who shares a bucket: an IPv4 address, or the /64 that one IPv6 host has to itself."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped) if found.ipv4_mapped else found.exploded[:19]
    return str(found)

"""The rate of one address: a burst, then a steady pace, and never more memory than is bounded."""

from __future__ import annotations

import pytest

from agent.api.rate import MOST, Rate, neighbourhood


def test_a_burst_passes_then_the_pace_counts() -> None:
    rate = Rate(per_s=2.0, burst=3)
    assert [rate.wait("a", 0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert rate.wait("a", 0.0) == pytest.approx(0.5)
    assert rate.wait("b", 0.0) == 0.0, "another address has a bucket of its own"
    assert rate.wait("a", 0.5) == 0.0


def test_rest_fills_the_bucket_and_no_more() -> None:
    rate = Rate(per_s=1.0, burst=2)
    rate.wait("a", 0.0)
    assert [rate.wait("a", 1000.0) for _ in range(3)][:2] == [0.0, 0.0]
    assert rate.wait("a", 1000.0) > 0


def test_a_costly_request_is_paid_off_later() -> None:
    rate = Rate(per_s=1.0, burst=2)
    assert rate.wait("a", 0.0, cost=10.0) == 0.0
    assert rate.wait("a", 5.0) > 0
    assert rate.wait("a", 9.5) == 0.0


def test_a_clock_that_stands_still_gives_nothing() -> None:
    rate = Rate(per_s=1.0, burst=1)
    assert rate.wait("a", 5.0) == 0.0
    assert rate.wait("a", 4.0) > 0


def test_addresses_are_remembered_up_to_a_bound() -> None:
    rate = Rate(per_s=1.0, burst=1)
    for number in range(3 * MOST):
        rate.wait(str(number), 0.0)
    assert len(rate._buckets) == MOST


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1::1", "2001:0db8:0000:0001"),
        ("2001:db8:0:1:ffff::9", "2001:0db8:0000:0001"),
        ("fe80::1%eth0", "fe80:0000:0000:0000"),
        ("", ""),
    ],
)
def test_one_ipv6_host_has_one_bucket(address: str, key: str) -> None:
    assert neighbourhood(address) == key

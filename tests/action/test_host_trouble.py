"""What no start can mend is told before the next start fails, and only to those that it concerns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.action.host_trouble import HostTrouble, forgiven, looked, noted
from agent.host.gpu import Gpu, Identity, Mig, MigInstance, RecoveryAction
from agent.host.model import Driver
from agent.host.reading import Known, Unknown
from tests.plan.build import NOW, card

NONE = Unknown("not asked")


def driver(kernel: str, library: str) -> Driver:
    return Driver(version=NONE, kernel_module=Known(kernel, NOW), userland=Known(library, NOW), cuda=NONE)


def sliced(index: int, *uuids: str) -> Gpu:
    slices = tuple(MigInstance(uuid, number, 0, NONE, NONE) for number, uuid in enumerate(uuids))
    return replace(card(index), mig=Known(Mig(enabled=True, pending=True, instances=slices), NOW))


def lost(index: int) -> Gpu:
    return Gpu.gone(Identity(index, f"GPU-{index:04d}", "00000000:01:00.0", "CARD"), "GPU is lost")


def test_a_skewed_driver_concerns_all_that_use_cards_and_can_be_overruled() -> None:
    seen = looked(HostTrouble(), [card(0)], driver("610.57.04", "610.60"))
    assert "610.60" in seen.of(["GPU-0000"])
    assert seen.of([]) == ""
    assert seen.of(["GPU-0000"], ["driver.skew"]) == ""
    assert looked(seen, [card(0)], driver("610.60", "610.60")).of(["GPU-0000"]) == ""


def test_a_driver_that_cannot_be_read_is_no_trouble() -> None:
    unknown = Driver(version=NONE, kernel_module=NONE, userland=NONE, cuda=NONE)
    assert looked(HostTrouble(), [card(0)], unknown).told == {}


@pytest.mark.parametrize(
    ("xid", "tells"), [(79, True), (48, True), (119, True), (13, False), (43, False), (154, False)]
)
def test_only_an_xid_of_the_reset_or_reboot_kind_counts(xid: int, tells: bool) -> None:
    seen = noted(HostTrouble(), "GPU-0000", xid)
    assert bool(seen.of(["GPU-0000"])) is tells
    assert seen.of(["GPU-0001"]) == ""


def test_an_xid_stays_until_a_person_has_dealt_with_it() -> None:
    """A card that looks well again after Xid 79 is not trusted by itself."""
    seen = looked(noted(HostTrouble(), "GPU-0000", 79), [card(0)], None)
    assert "fallen off the bus" in seen.of(["GPU-0000"])
    assert forgiven(seen, ["GPU-0000"]).of(["GPU-0000"]) == ""


def test_the_drivers_recovery_action_counts_as_long_as_it_is_asked_for() -> None:
    asks = replace(card(0), recovery_action=Known(RecoveryAction(1), NOW))
    seen = looked(HostTrouble(), [asks], None)
    assert "reset the card" in seen.of(["GPU-0000"])
    assert looked(forgiven(seen, ["GPU-0000"]), [asks], None).of(["GPU-0000"]) != ""
    assert looked(seen, [card(0)], None).told == {}


def test_what_ails_a_card_ails_its_slices_and_a_slice_forgives_for_its_card() -> None:
    """A deployment on a MIG slice names the slice; Xids and the driver name the card."""
    cards = [sliced(0, "MIG-a", "MIG-b"), card(1)]
    seen = noted(looked(HostTrouble(), cards, None), "GPU-0000", 79)
    assert "fallen off the bus" in seen.of(["MIG-a"])
    assert seen.of(["MIG-a", "MIG-b"]).count("Xid 79") == 1
    assert seen.of(["GPU-0001", "MIG-elsewhere"]) == ""
    gone = looked(looked(seen, [lost(0), card(1)], None), [lost(0), card(1)], None)
    assert "lost GPU-0000" in gone.of(["MIG-b"]), "a lost card no longer tells its slices"
    assert forgiven(seen, ["MIG-b"]).of(["MIG-a"]) == ""
    assert looked(seen, [card(0), card(1)], None).of(["MIG-a"]) == "", "it is whole now"


def test_a_card_is_lost_after_two_looks_not_after_one() -> None:
    once = looked(HostTrouble(), [lost(0), card(1)], None)
    assert once.told == {}
    assert "lost GPU-0000" in looked(once, [lost(0), card(1)], None).of(["GPU-0000"])
    assert looked(looked(once, [card(0)], None), [lost(0)], None).told == {}

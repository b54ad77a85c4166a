"""
Births that meet trouble: a mother who has ended, a launcher that cannot be told, a request that was taken in half.
"""

from __future__ import annotations

import errno
import os
import types
from typing import Any

import pytest

from fastness._linux import plan
from fastness._native import birth, box


def _born(**more: Any) -> Any:
    """What a guest process has of its birth, with a launcher that takes what it is given."""
    calls = plan.Plan()
    calls.add("getpid", result=plan.ANY)
    fields: dict[str, Any] = {"gaps": [], "layers": {"denials_recorded": "all"}, "said": b"greeting", "record": True}
    return types.SimpleNamespace(**{**fields, "filter": calls, "hand_over": calls, "last": calls, **more})


class _Crowded:
    """A message with a descriptor that finds no place, for so many tries."""

    def __init__(self, tries: int) -> None:
        self.tries = tries

    def run(self) -> int:
        if self.tries:
            self.tries -= 1
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))
        return 0


def _awaiting(told: int) -> birth.Birth:
    """A birth in `isolated` that has come to where it waits for the mother, and has nothing to do afterwards."""
    config = {"tier": "isolated", "kind": "python", "profile": "guest/isolated", "record": False}
    made = birth.Birth(config, None, os.getpid(), own_users=False)
    made.awaits.put(0, told)
    made.arrange = plan.Plan()
    made.steps, made.early = plan.Plans([made.arrange, made.awaits]), plan.Plans([made.arrange])
    made.rest, made.end = made.steps.from_on(1), made.steps.end
    return made


def test_a_mother_who_has_ended_is_said() -> None:
    """A guest that she cannot be asked for reads the end of its pipe; one of whom she has bad news reads that."""
    told, telling = os.pipe()
    os.close(telling)
    with pytest.raises(OSError, match="mounting the guest's folders: the mother has ended"):
        box.confine(_awaiting(told))
    with pytest.raises(OSError, match="read: Bad file descriptor"):
        box.confine(_awaiting(1 << 20))
    os.close(told)
    told, telling = os.pipe()
    os.write(telling, box.BAD_NEWS + b"no space")
    with pytest.raises(OSError, match="mounting the guest's folders: no space"):
        box.confine(_awaiting(told))
    os.write(telling, b"+")
    box.confine(_awaiting(told))  # control
    os.close(told)
    os.close(telling)


@pytest.mark.parametrize(("news", "greeted"), [(b"+", True), (box.BAD_NEWS + b"no space", False), (b"", False)])
def test_a_guest_that_cannot_wait_knows_whether_it_was_greeted_for(
    monkeypatch: pytest.MonkeyPatch, news: bytes, greeted: bool
) -> None:
    """Its first call has failed, and what it has to say of that comes after the mother's greeting or in its place."""
    monkeypatch.setattr(box, "_NEWS_S", 0.05)
    told, telling = os.pipe()
    made = _awaiting(told)
    made.arrange.add("close", 1 << 20)
    made.steps, made.early = plan.Plans([made.arrange, made.awaits]), plan.Plans([])
    made.rest, made.end = made.steps.from_on(0), made.steps.end
    os.write(telling, news)
    with pytest.raises(OSError, match="close: Bad file descriptor"):
        box.confine(made)
    assert (made.arranged, made.greeted) == (False, greeted)
    os.close(told)
    os.close(telling)


def test_packages_have_their_turn_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where some were imported, the fork makes none of a guest's calls; else all of them, or those before the mother's."""
    request = {
        "ahead": False, "calls": False, "entrances": 0, "into_group": False, "files": 1, "file_bytes": 1,
        "limits": [], "writable": ["/work", "/tmp"],
    }  # fmt: skip
    for tier, foreign, count in (
        ("confined", False, 6),
        ("isolated", False, 1),
        ("confined", True, 0),
        ("isolated", True, 0),
    ):
        config = {"tier": tier, "kind": "python", "profile": f"guest/{tier}", "record": False, "foreign": foreign}
        made = birth.Birth(config, None, os.getpid(), own_users=False)
        made.suit(request, "no rules")
        assert (tier, foreign, len(made.early.plans)) == (tier, foreign, count)
        assert made.rest == made.steps.from_on(count)


def test_refusals_that_nobody_can_be_told_of_are_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others keep so many descriptors in sockets that the launcher gets none: results say ``partial``, and why."""
    monkeypatch.setattr(box, "_RECORDED_S", 0.01)
    told = _born(hand_over=_Crowded(2))
    box._recorded(told)
    assert (told.layers["denials_recorded"], told.gaps, told.said) == ("all", [], b"greeting")  # control
    never = _born(hand_over=_Crowded(10_000))
    box._recorded(never)
    assert never.layers["denials_recorded"] == "partial"
    assert never.gaps == [("denials_recorded", os.strerror(errno.ETOOMANYREFS))]
    # What was prepared says something else, so it is put together anew.
    assert never.said == b""


def test_no_guest_is_born_whose_greeting_finds_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What gives the caller a guest's process is no such thing that there can be a guest without."""
    monkeypatch.setattr(box, "_CROWDED_S", 0.01)
    with pytest.raises(OSError, match=os.strerror(errno.ETOOMANYREFS)):
        box._sent(_Crowded(10_000).run, 0.01)
    with pytest.raises(OSError, match="gone"):
        box._sent(lambda: (_ for _ in ()).throw(OSError(errno.EPIPE, "gone")))


def test_a_birth_that_was_prepared_in_half_is_prepared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next request is of the same kind, and must not find half of its calls."""
    config = {"tier": "confined", "kind": "python", "profile": "guest/confined", "record": False}
    made = birth.Birth(config, None, os.getpid(), own_users=False)
    request = {
        "work": "/work", "temporary": "/tmp", "writable": ["/work", "/tmp"], "ahead": False,
        "calls": False, "entrances": 0, "into_group": False, "files": 1, "file_bytes": 1,
        "limits": [(7, 64)],
    }  # fmt: skip
    whole: list[int] = []
    build = birth.Birth._build

    def failing(self: birth.Birth, *kind: Any) -> None:
        build(self, *kind)
        if not whole:
            whole.append(len(self.give_up))
            self.give_up = plan.Plan()
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(birth.Birth, "_build", failing)
    with pytest.raises(OSError, match=os.strerror(errno.ENOMEM)):
        made.suit(request, "no rules")
    made.suit(request, "no rules")
    assert len(made.give_up) == whole[0] > 0

"""
What a zygote does where it cannot make the rules of its next guest.
"""

from __future__ import annotations

import errno
import os

import pytest

from fastness._linux import landlock
from fastness._native import rules


def _made(monkeypatch: pytest.MonkeyPatch, number: int, *, isolated: bool) -> rules.Rules:
    def fail(beneath: object) -> landlock.Rulesets:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(rules.landlock, "Rulesets", fail)
    return rules.Rules([], programs=False, isolated=isolated)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_passes_is_no_reason_for_guests_without_a_wall(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """No guest is born of it, and the zygote does not take the kernel for one without Landlock from then on."""
    made = _made(monkeypatch, number, isolated=True)
    with pytest.raises(OSError, match=os.strerror(number)):
        made.make()
    assert made.why_none == ""


def test_a_kernel_without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is the second wall, guests are told of as without it; where it is the first, there are none."""
    made = _made(monkeypatch, errno.ENOSYS, isolated=True)
    made.make()
    assert made.why_none
    assert made.rulesets is None
    with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
        _made(monkeypatch, errno.ENOSYS, isolated=False).make()

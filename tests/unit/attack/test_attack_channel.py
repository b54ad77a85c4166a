"""The careless host, before which attempts on the channel are shown to work."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fastness.attack import channel, engines, registry
from fastness.attack.arena import Arena
from fastness.attack.channel import Harm

#: The attacks that are tried before it.
TRIED = (
    "deep_answer",
    "descriptors",
    "flood",
    "forged_result",
    "giant_blob",
    "giant_length",
    "two_results",
    "wrong_order",
)
#: One attempt for each harm, as small as it can be.
SMALLEST = {
    Harm.RESERVED: "send(frame(0x48, b'', blob_size=2**32 - 1)); import time; time.sleep(9)",
    Harm.COLLECTED: "send(frame(0x48, {}, b'x' * (33 << 20)))",
    Harm.HOARDED: "for _ in range(10): send(frame(0x46, {'name': 'claims'}, b'x' * (4 << 20)))",
    Harm.FELL: "send(frame(0x48, {'id': 1}, b'[' * 100000))",
    Harm.FILED: "send(frame(0x48, {'id': 7}, b'1'))",
    Harm.OBEYED: "send(frame(0x41, {}))",
    Harm.GIVEN: "import socket; socket.send_fds(socket.socket(fileno=3), [b'x'], [0])",
}


def believed(harm: Harm, *codes: str) -> bool:
    with Arena("confined", None) as arena:  # type: ignore[arg-type]  # a control uses no sandbox
        return channel.believed(arena, harm, *codes).happened


@pytest.mark.parametrize("name", TRIED)
def test_a_control_needs_the_attack(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each comes to the harm that its attack names, and to none where the attack's own code does nothing."""
    (attack,) = registry.select((f"channel.{name}",))
    with Arena("confined", None) as arena:  # type: ignore[arg-type]  # as above
        assert attack.control(arena).happened
    module = f"fastness.attack.corpus.channel.{name}"
    if name == "deep_answer":
        monkeypatch.setattr(f"{module}.CODES", ("pass", "pass"))
    else:
        monkeypatch.setattr(f"{module}.CODE", "pass")
    with Arena("confined", None) as arena:  # type: ignore[arg-type]  # as above
        assert not attack.control(arena).happened


@pytest.mark.parametrize("harm", list(Harm))
def test_each_harm_has_a_word_of_its_own(harm: Harm) -> None:
    """A control for one harm does not succeed by any other."""
    assert believed(harm, SMALLEST[harm])
    for other in set(Harm) - {harm, Harm.RESERVED, Harm.COLLECTED}:
        assert not believed(harm, SMALLEST[other])


def test_every_code_must_do_it() -> None:
    """One code among several that does no harm is an attempt that does not work."""
    assert not believed(Harm.OBEYED, SMALLEST[Harm.OBEYED], "pass")
    assert not believed(Harm.OBEYED, SMALLEST[Harm.OBEYED], "raise ValueError")


def test_no_guest_says_the_word_itself() -> None:
    """What it prints is not what the host has seen."""
    assert not believed(Harm.FILED, "print('FILED', flush=True)")


def test_it_ends_whatever_the_guest_does() -> None:
    """A guest that goes on for ever is ended, in a bounded time."""
    began = time.monotonic()
    assert not believed(Harm.FILED, f"import time; MARK = {os.getpid()}; time.sleep(60)")
    assert time.monotonic() - began < 8


def test_the_host_that_is_measured_is_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process has needed for a moment shows in its peak."""
    before = channel._peak_from_now()
    held = bytearray(b"x") * (80 << 20)
    del held
    assert (engines.peak() or 0) - before > 64 << 20
    assert engines.peak(2**22) is None
    if os.access("/proc/self/clear_refs", os.W_OK):
        assert channel._peak_from_now() < before + (64 << 20)
    monkeypatch.setattr(Path, "write_text", lambda *args: (_ for _ in ()).throw(PermissionError()))
    assert channel._peak_from_now() > 0

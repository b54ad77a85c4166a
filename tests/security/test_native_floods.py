"""Guests that talk without end, stop to listen, or hoard what the kernel counts for their user."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

import fastness
import house
from fastness import runtime
from fastness.runs import OutcomeKind

TIERS = ("isolated", "confined")

FLOOD = """
import json, socket, struct, time
head = json.dumps({"name": "claims"}).encode()
frame = struct.pack(">BBHII", 1, 0x46, 0, len(head), 0) + head
talk = socket.socket(fileno=3)
end = time.monotonic() + 10
while time.monotonic() < end:
    talk.sendall(frame * 1000)
"""

DEAF = """
import json, socket, struct, time
payload = b'{"kind":"ok"}'
head = json.dumps({"id": 1, "ending": "returned", "payload_len": len(payload), "session_state": "kept"}).encode()
talk = socket.socket(fileno=3)
talk.sendall(struct.pack(">BBHII", 1, 0x48, 0, len(head), len(payload)) + head + payload)
time.sleep(20)
"""

NOISE = """
import os, threading, time
def noise():
    while True:
        os.write(1, b"x")
threading.Thread(target=noise, daemon=True).start()
for number in range(64):
    with open(f"f{number}", "wb") as file:
        file.write(b"x" * (1 << 20))
    time.sleep(0.02)
"""

PARK = """
import array, os, socket
a, b = socket.socketpair()
fd = os.open("/dev/null", os.O_RDONLY)
sent = 0
try:
    for _ in range(4):
        a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd] * 100))])
        sent += 100
except OSError:
    pass
sent
"""


@pytest.mark.parametrize("tier", TIERS)
def test_a_flood_of_frames_is_no_way_round_the_clock(tier: str) -> None:
    """The run ends long before the guest does, and other tasks of the caller's loop go on meanwhile."""
    house.require(f"{tier} tier")

    async def go() -> tuple[OutcomeKind, float, float]:
        async with fastness.AsyncSandbox(tier=tier) as box:
            await box.run("1")

            async def beats() -> float:
                worst = 0.0
                for _ in range(20):
                    began = time.monotonic()
                    await asyncio.sleep(0.02)
                    worst = max(worst, time.monotonic() - began)
                return worst

            beating = asyncio.create_task(beats())
            began = time.monotonic()
            result = await box.run(FLOOD, timeout=1)
            return result.outcome.kind, time.monotonic() - began, await beating

    kind, took, worst = asyncio.run(go())
    assert kind in (OutcomeKind.PROTOCOL, OutcomeKind.TIMEOUT)
    assert took < 5
    assert worst < 2


@pytest.mark.parametrize("tier", TIERS)
def test_a_guest_that_does_not_listen_is_timed(tier: str) -> None:
    """What it is sent is larger than a socket holds, and it reads none of it."""
    house.require(f"{tier} tier")
    with fastness.Sandbox(tier=tier) as box, box.session() as session:
        assert session.execute(DEAF, timeout=10).state == "kept"
        began = time.monotonic()
        result = session.execute("#" * (3 << 20), timeout=1)
        assert result.outcome.kind is OutcomeKind.TIMEOUT
        assert result.state == "lost"
        assert time.monotonic() - began < 8


def test_noise_does_not_keep_the_watch_from_looking() -> None:
    """Steady output, and files past their limit all the while."""
    house.require("confined tier")
    with fastness.Sandbox(tier="confined") as box:
        result = box.run(NOISE, limits={"file_bytes": 2 << 20}, timeout=20)
    assert result.outcome.kind is OutcomeKind.DISK


@pytest.mark.parametrize("tier", TIERS)
def test_no_descriptors_in_flight(tier: str) -> None:
    """The kernel counts them for the user, and past a number no newer guest could hand over its own."""
    house.require(f"{tier} tier")
    with fastness.Sandbox(tier=tier) as box:
        result = box.run(PARK)
    assert result.value == 0
    assert any(row.operation == "sendmsg" for row in result.denials)


@pytest.mark.parametrize("tier", TIERS)
def test_refusals_past_the_cap_are_told_as_unrecorded(tier: str) -> None:
    """The result does not say that all are recorded where they are not."""
    house.require(f"{tier} tier")
    many = "import os\nfor _ in range(4200):\n  try: os.setsid()\n  except OSError: pass"
    with fastness.Sandbox(tier=tier) as box:
        result = box.run(many, timeout=30)
        assert result.layers["DENIALS_RECORDED"] == "partial"
        assert box.run("1").layers["DENIALS_RECORDED"] == "all"


@pytest.mark.parametrize(
    "path", ["/", "/tmp", "/tmp/x", "relative/0123456789abcdef", "/a/0123456789abcdef/../../b", ""]
)
def test_only_folders_of_owners_are_removed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that lies below no owner's folder is refused before anything is looked at."""

    def opened(*_: object, **__: object) -> int:
        raise AssertionError("it was going to be removed")

    with monkeypatch.context() as patch:
        # If the refusal is ever lost, it is not the loss of this machine's files that shows it.
        patch.setattr(os, "open", opened)
        with pytest.raises(OSError, match="not below a folder of an owner"):
            runtime.remove_tree(path)

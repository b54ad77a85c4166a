"""Requests for guests that go wrong in the middle: what comes after them is what was asked for, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from wasm_support import eventually

import fastness
import house
from fastness._native import datagrams

TIERS = ("confined", "isolated")
Sending = Callable[[Callable[..., None]], None]
_LIMITS = "import resource; [resource.getrlimit(n)[0] for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)]"
_ROOM = "import os; v = os.statvfs('/work'); v.f_blocks * v.f_frsize"


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sending]:
    """Has requests sent by something else, which is given what sends them."""
    real = datagrams.send_raw

    def use(send: Callable[..., None]) -> None:
        monkeypatch.setattr(datagrams, "send_raw", lambda sock, data, fds=(): send(real, sock, data, list(fds)))

    yield use
    monkeypatch.undo()


@pytest.mark.parametrize("tier", TIERS)
def test_a_request_of_another_kind_that_is_cut_short(tier: str, sending: Sending) -> None:
    """It fails alone: guests after it make the calls of their own birth, and all of them."""
    house.require(f"{tier} tier")
    lost: list[int] = []

    def send(real: Callable[..., None], sock: Any, data: bytes, fds: list[int]) -> None:
        if fds and not lost:
            lost.append(fds.pop())
        real(sock, data, fds)

    with fastness.Sandbox(tier=tier) as box:
        for _ in range(3):
            assert box.run("1").value == 1
            # Time for one that is made ahead, whose birth has other calls than that of one that somebody waits for.
            assert eventually(lambda: bool(_family(box)._ready.values()), 10)
        zygote = _family(box)._zygote
        sending(send)
        with pytest.raises(fastness.BackendError, match="without some of its descriptors"):
            box.run("2", limits={"file_bytes": 8 << 20})
        assert lost
        for number in range(8):
            result = box.run(str(number), limits={"file_bytes": 8 << 20})
            assert result.value == number
            assert result.layers["SYSCALL_FILTERED"] == "seccomp"
        # It is the same zygote that went on.
        assert _family(box)._zygote is zygote


def _family(box: fastness.Sandbox) -> Any:
    (backend,) = box._inner._runner._backends.values()
    (family,) = backend._families.values()  # type: ignore[attr-defined]  # of the native tiers
    return family


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("sent", [True, False])
def test_whoever_is_interrupted_while_it_asks_changes_nothing_for_others(
    tier: str, sent: bool, sending: Sending
) -> None:
    """The zygote may have heard of it or not; the next ones get what they want, and not what that one wanted."""
    house.require(f"{tier} tier")
    interrupted: list[bool] = []

    def send(real: Callable[..., None], sock: Any, data: bytes, fds: list[int]) -> None:
        if sent or interrupted or not fds:
            real(sock, data, fds)
        if fds and not interrupted:
            interrupted.append(True)
            # As Ctrl-C within sendmsg(2).
            raise KeyboardInterrupt

    small = {"fds": 32, "file_bytes": 4 << 20}
    with fastness.Sandbox(tier=tier, pool=0) as box:
        for _ in range(2):
            assert box.run(_LIMITS, limits=small).value[0] == 32
        sending(send)
        with pytest.raises(KeyboardInterrupt):
            box.run("1", limits={"fds": 500, "file_bytes": 64 << 20})
        assert interrupted
        for _ in range(3):
            assert box.run(_LIMITS, limits=small).value[0] == 32
            if tier == "isolated":
                assert box.run(_ROOM, limits=small).value == 4 << 20


@pytest.mark.parametrize("tier", TIERS)
def test_many_threads_that_want_different_guests(tier: str) -> None:
    """Each has its own limits, however their requests follow each other."""
    house.require(f"{tier} tier")
    wrong: list[object] = []
    with fastness.Sandbox(tier=tier, pool=0, timeout=60) as box:

        def ask(fds: int) -> None:
            for number in range(25):
                found = box.run(_LIMITS, limits={"fds": fds + number % 3}).value[0]
                if found != fds + number % 3:
                    wrong.append((fds, number, found))

        threads = [threading.Thread(target=ask, args=(fds,)) for fds in (40, 80, 120)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong

"""The pool of warm guests: one user at a time, never more than allowed, nothing lost and nothing ended twice."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.looping import LoopWaiting
from fastness.runner.pool import Pool
from fastness.waiting import ThreadWaiting, drive


class Guest:
    """Something to hand out."""

    def __init__(self) -> None:
        self.good = True
        self.ended = 0


class World:
    """A pool with a record of what it made and ended."""

    def __init__(self, size: int, waiting: Any = None) -> None:
        self.made: list[Guest] = []
        self.fail = False
        self.most = 0
        slots = (waiting or ThreadWaiting()).slots(size)
        self.pool: Pool[Guest] = Pool(self._make, lambda guest: guest.good, self._end, slots)

    async def _make(self) -> Guest:
        if self.fail:
            raise OSError("no more")
        guest = Guest()
        self.made.append(guest)
        self.most = max(self.most, sum(not one.ended for one in self.made))
        return guest

    def _end(self, guest: Guest) -> None:
        guest.ended += 1

    def take(self) -> Guest:
        return drive(self.pool.acquire())


def test_the_last_one_used_is_the_next() -> None:
    """A warm guest is used again, the latest first, so that others grow cold and go."""
    world = World(3)
    a, b = world.take(), world.take()
    world.pool.release(a, True)
    world.pool.release(b, True)
    assert world.take() is b
    assert world.take() is a
    assert len(world.made) == 2


def test_what_is_not_reusable_is_ended() -> None:
    """By its user's word, or because it does not look usable any more; once each."""
    world = World(3)
    a = world.take()
    world.pool.release(a, False)
    assert a.ended == 1
    b = world.take()
    assert b is not a
    b.good = False
    world.pool.release(b, True)
    assert b.ended == 1
    c = world.take()
    world.pool.release(c, True)
    c.good = False
    d = world.take()
    assert d is not c
    assert (c.ended, d.ended) == (1, 0)


def test_cold_ones_go() -> None:
    """A guest at the cold end that is no longer usable goes when another comes back."""
    world = World(3)
    a, b = world.take(), world.take()
    world.pool.release(a, True)
    a.good = False
    world.pool.release(b, True)
    assert (a.ended, b.ended) == (1, 0)
    assert world.pool.waiting == [b]


def test_a_failure_to_start_gives_the_slot_back() -> None:
    """An error comes out, and the next user can try again."""
    world = World(1)
    world.fail = True
    for _ in range(3):
        with pytest.raises(OSError):
            world.take()
    world.fail = False
    assert world.take().ended == 0


def test_warming_and_closing() -> None:
    """So many wait after warming; closing ends them all; a retired pool takes nothing back."""
    world = World(4)
    drive(world.pool.warm(3))
    assert len(world.pool.waiting) == len(world.made) == 3
    used = world.take()
    world.pool.close()
    assert [guest.ended for guest in world.made if guest is not used] == [1, 1]
    world.pool.release(used, True)
    assert used.ended == 0, "closing the waiting ones is no reason to end one that comes back"
    used = world.take()
    world.pool.retire()
    world.pool.release(used, True)
    assert used.ended == 1
    assert world.pool.waiting == []


def test_threads_never_have_too_many() -> None:
    """Under any interleaving no guest has two users, and no more exist than there are slots."""
    world = World(3)
    busy: set[int] = set()
    faults: list[str] = []

    def use(number: int) -> None:
        for turn in range(200):
            guest = world.take()
            if id(guest) in busy or guest.ended:
                faults.append("shared or ended")
            busy.add(id(guest))
            if turn % 17 == 0:
                time.sleep(0)
            busy.discard(id(guest))
            world.pool.release(guest, (turn + number) % 7 != 0)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert world.most <= 3
    assert sum(not guest.ended for guest in world.made) == len(world.pool.waiting) <= 3


def test_a_slot_is_free_only_after_its_guest() -> None:
    """Who waits for a slot finds the guest that was given back, or its end, and starts none beside it."""
    order: list[str] = []

    class Slots:
        async def acquire(self) -> None:
            return None

        def release(self) -> None:
            order.append(f"slot free, {len(pool.waiting)} waiting, {order.count('ended')} ended")

    async def make() -> Guest:
        return Guest()

    pool: Pool[Guest] = Pool(make, lambda guest: guest.good, lambda guest: order.append("ended"), Slots())
    pool.release(drive(pool.acquire()), True)
    pool.release(drive(pool.acquire()), False)
    assert order == ["slot free, 1 waiting, 0 ended", "ended", "slot free, 0 waiting, 1 ended"]


def test_cancelled_while_waiting() -> None:
    """A task that is cancelled in the queue takes nothing with it."""

    async def main() -> None:
        world = World(1, LoopWaiting())
        guest = await world.pool.acquire()
        with anyio.move_on_after(0.05) as scope:
            await world.pool.acquire()
        assert scope.cancelled_caught
        world.pool.release(guest, True)
        with anyio.fail_after(5):
            assert await world.pool.acquire() is guest

    anyio.run(main)


@given(st.lists(st.sampled_from(["take", "good", "bad", "rot", "close"]), max_size=60))
def test_any_sequence(steps: list[str]) -> None:
    """After any sequence each guest is used, waiting or ended, and exactly one of them."""
    world = World(4)
    used: list[Guest] = []
    for step in steps:
        if step == "take" and len(used) < 4:
            used.append(world.take())
        elif step in ("good", "bad") and used:
            world.pool.release(used.pop(0), step == "good")
        elif step == "rot" and world.pool.waiting:
            world.pool.waiting[0].good = False
        elif step == "close":
            world.pool.close()
        places = [*used, *world.pool.waiting, *(guest for guest in world.made if guest.ended)]
        assert sorted(map(id, places)) == sorted(map(id, world.made))
        assert all(guest.ended <= 1 for guest in world.made)
        assert not any(guest.ended for guest in used)

"""
Several lanes at once, each a process of its own: attacks have an environment, a home and guests that no other changes.

What the whole machine shares is not theirs, so attacks that look at it come last, when one lane is left.  What was void
or not stopped as stated is tried once more then, by itself: it may have been the others' doing.  What escaped has
escaped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

import msgspec

from fastness.attack.arena import remove_left
from fastness.attack.lane import LONGEST, PROGRAM, Came, Ended, Job, Lane
from fastness.attack.model import Attack, Outcome, Verdict

#: Verdicts that may be the doing of what else this machine did just then.
_DOUBTFUL = frozenset({Verdict.VOID, Verdict.UNEXPECTED})
#: Seconds after which a lane that says nothing is ended; an attack has twenty, and so has its control.
SILENCE_S = 180.0
#: Seconds that a lane gets to end its guests.
_END_S = 10.0
#: Tries of a tier for each lane that are worth the start of another one.
_WORTH = 30
#: The most lanes, however many processors there are: each has guests of every tier.
MOST = 8

#: An attack with the module that it is in, and the tiers that it is to be tried in.
Task = tuple[Attack, str, tuple[str, ...]]
_MESSAGE = msgspec.json.Decoder(Came | Ended)


class Silent(Exception):
    """A lane has ended, or says nothing any more; the message is what is known."""


class Process:
    """A lane in another process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C is for this process, which says then what is to become of the others.
            start_new_session=True,
        )
        self._pending = b""

    def tried(self, attack: Attack, module: str, tiers: tuple[str, ...]) -> Iterator[Outcome]:
        """As :meth:`Lane.tried`.  Raises Silent."""
        job = msgspec.json.encode(Job(module, attack.id, tiers)) + b"\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(job)
        except OSError as error:
            raise Silent(f"{error.strerror}{self._status()}") from None
        while not isinstance(message := self._message(), Ended):
            try:
                outcome = message.outcome(attack)
            except ValueError as error:
                raise Silent(f"it said what it was not asked: {error}") from None
            yield outcome

    def _message(self) -> Came | Ended:
        while b"\n" not in self._pending:
            if len(self._pending) > LONGEST:
                raise Silent("it said more than any outcome has")
            assert self._process.stdout is not None
            poller = select.poll()
            poller.register(self._process.stdout, select.POLLIN)
            if not poller.poll(int(SILENCE_S * 1000)):
                raise Silent(f"nothing came of it for {SILENCE_S:.0f} s")
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(1.0)
                raise Silent(f"the process that tried it ended{self._status()}")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            return _MESSAGE.decode(line)
        except msgspec.MsgspecError as error:
            raise Silent(f"what it said is no outcome: {error}") from None

    def _status(self) -> str:
        status = self._process.poll()
        return "" if status is None else f" with status {status}"

    def interrupt(self) -> None:
        """Have it end what it does.  Returns at once."""
        # Not reaped yet, so that nobody else has its number.
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End it with its guests, and wait for that."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        if self._process.returncode:
            remove_left(self._process.pid)


def how_many(tasks: Sequence[Task], asked: int | None) -> int:
    """
    How many lanes to have: those asked for, else twice as many as this process has processors, as attacks wait a lot.

    There are never more than tries are worth, nor than ``MOST``.
    """
    wanted = asked if asked is not None else min(2 * len(os.sched_getaffinity(0)), MOST)
    tries = sum(len(tiers) for attack, _, tiers in tasks if not attack.alone)
    return max(1, min(wanted, tries // _WORTH if asked is None else wanted))


def run(
    tasks: Sequence[Task],
    lane: Lane,
    count: int,
    each: Callable[[Outcome], None],
    start: Callable[[], Process] = Process,
) -> list[Outcome]:
    """
    Try all of it in ``count`` lanes; with one, in ``lane``, which is this process's.

    ``each`` is called with outcomes as they come, in this thread; one that is tried once more comes only then.
    Returns them by attack, in the order of ``tasks``.
    """
    # What takes long is begun first, so that no lane is left alone with it.
    beside = sorted((task for task in tasks if not task[0].alone), key=lambda task: not task[0].slow)
    found: dict[tuple[str, str], Outcome] = {}
    doubtful: dict[str, list[Outcome]] = {}

    def take(outcome: Outcome) -> None:
        if outcome.verdict in _DOUBTFUL:
            doubtful.setdefault(outcome.attack.id, []).append(outcome)
        else:
            found[outcome.attack.id, outcome.tier] = outcome
            each(outcome)

    alone = [task for task in tasks if task[0].alone]
    if count > 1:
        _beside(beside, count, take, start)
        beside = []
    with contextlib.closing(_Hands(start)) as last:

        def tried(attack: Attack, module: str, tiers: tuple[str, ...]) -> Iterator[Outcome]:
            return lane.tried(attack, tiers) if count == 1 else last.tried(attack, module, tiers)

        for task in (*beside, *alone):
            for outcome in tried(*task):
                take(outcome)
        for attack, module, _ in tasks:
            first = {outcome.tier: outcome for outcome in doubtful.get(attack.id, ())}
            for outcome in tried(attack, module, tuple(first)) if first else ():
                before = first[outcome.tier]
                again = dataclasses.replace(outcome, before=f"{before.verdict.value}: {before.detail}")
                found[attack.id, outcome.tier] = again
                each(again)
    return [found[attack.id, tier] for attack, _, tiers in tasks for tier in tiers]


class _Hands:
    """A lane that is started when it is needed, and anew after it has ended."""

    def __init__(self, start: Callable[[], Process]) -> None:
        self._start = start
        self._process: Process | None = None

    def tried(self, attack: Attack, module: str, tiers: tuple[str, ...]) -> Iterator[Outcome]:
        """As :meth:`Lane.tried`; where the lane ended, what had not come by then has not been stopped as stated."""
        left = list(tiers)
        if self._process is None:
            self._process = self._start()
        try:
            for outcome in self._process.tried(attack, module, tiers):
                left.remove(outcome.tier)
                yield outcome
        except Silent as silent:
            self._process.interrupt()
            self.close()
            why = str(silent)
        else:
            why = "nothing came of it"
        for tier in left:
            yield Outcome(attack, tier, Verdict.UNEXPECTED, detail=f"it could not be tried: {why}")

    def interrupt(self) -> None:
        """As :meth:`Process.interrupt`."""
        if self._process is not None:
            self._process.interrupt()

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.close()
            self._process = None


def _beside(tasks: Sequence[Task], count: int, take: Callable[[Outcome], None], start: Callable[[], Process]) -> None:
    """All of these in ``count`` lanes at once.  Raises what went wrong in any of them."""
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    came: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    stop = threading.Event()
    hands = [_Hands(start) for _ in range(count)]

    def work(own: _Hands) -> None:
        try:
            with contextlib.closing(own):
                while not stop.is_set():
                    try:
                        task = waiting.get_nowait()
                    except queue.Empty:
                        break
                    for outcome in own.tried(*task):
                        came.put(outcome)
        except BaseException as error:  # noqa: BLE001  # raised where the lanes are waited for
            came.put(error)
        came.put(None)

    threads = [threading.Thread(target=work, args=(own,), name="attack-lane", daemon=True) for own in hands]
    for thread in threads:
        thread.start()
    left = count
    try:
        while left:
            one = came.get()
            if one is None:
                left -= 1
            elif isinstance(one, BaseException):
                raise one
            else:
                take(one)
    except BaseException:
        stop.set()
        for own in hands:
            own.interrupt()
        raise
    finally:
        for thread in threads:
            thread.join()

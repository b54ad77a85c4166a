"""
What a zygote is asked for: a guest like the last one, mostly, which takes it nothing but a list of calls.

A request has a name and a user; and what it wants besides only where that is not what the last one has wanted.  So the
kernel writes name and user right where the calls of a birth find them, the same list puts the descriptors there that
have come too, and after the fork another one closes them.  All else a zygote does would be done in pages that are
copied for it after each fork.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket

from fastness._linux import cloning, machine_code, plan
from fastness._linux.syscalls import CLONE_THREAD
from fastness._native import box, datagrams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness._native.birth import Birth
    from fastness._native.rules import Rules

#: Bytes of what all requests have: the guest's name, and its user as an int.
HEAD = datagrams.NAME + 4
#: Bytes of the rest: a few numbers and paths.
_REST = 1 << 15
#: More bytes than a request has: what is due while there is no birth that suits.
_NEVER = 1 << 32
_FLAGS = int(socket.MSG_CMSG_CLOEXEC)
#: What is before the descriptors of a message (``struct cmsghdr``).
_RIGHTS = 16
#: As json.loads, for a text of the caller's, with nothing around its value.
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not documented


class Asked:
    """The requests that come over the socket ``control``, each for a :class:`Birth` that is made to suit it."""

    def __init__(self, control: int, birth: Birth, rules: Rules, fork: cloning.Fork) -> None:
        self._control = control
        self._birth = birth
        self._rules = rules
        self._fork = fork
        self._rest = plan.memory(_REST)
        #: What the last one has wanted: the folder of its guest, where each has another, and all else.
        self._folder = b""
        self._wanted: dict[str, Any] = {}
        #: A pipe for the mother's answer.
        self._ends = plan.numbers(2)
        #: 1 once this process has done what is due as soon as there is a guest.
        self.done = plan.number()
        #: The name of the guest that was asked for last.
        self.name = plan.bytes_at(birth.name_at, datagrams.NAME)
        self._receive = plan.Plan()
        parts = [(birth.name_at, datagrams.NAME), (birth.user_at, 4), (plan.address(self._rest), _REST)]
        self._receipt, header, self._rights, birth.received = self._receive.add_receipt(
            control, parts, datagrams.DESCRIPTORS, _FLAGS, result=_NEVER
        )
        self._whole = plan.Plan()
        self._whole.load(plan.address(header, 6 * 8), result=_FLAGS)
        self._count = self._whole.load(plan.address(self._rights))
        self._whole.load(plan.address(plan.ZERO), plan.address(self.done))
        # In a process of more than one thread this is refused; in any other it does nothing.
        self._alone = plan.Plan()
        self._alone.add("unshare", CLONE_THREAD)
        self._pipe = plan.Plan()
        if birth.isolated:
            self._pipe.add("pipe2", self._ends, os.O_CLOEXEC)
        self._ready = plan.Plan()
        #: The birth's calls for which these are, all that takes a request, and what is done once there is a guest.
        self._steps: plan.Plans | None = None
        self._all = self.then = plan.Plans([self._receive])
        #: For :func:`machine_code.make`, and what it returns where a request was like the last one.
        self.address, self.end = self._all.address, self._all.end

    def go_on(self, reached: int) -> None:
        """
        Take the rest of a request with which the calls have come to this one only.

        Raises ``OSError`` where there can be no such guest.
        """
        while reached != self.end:
            number = self._mend(*self._all.at(reached))
            # Which may have made another list of it all.
            reached = machine_code.make(self._all.from_on(number))

    def _mend(self, number: int, index: int) -> int:
        """Deal with a call that was answered otherwise than was due; returns which list to go on with."""
        failed = self._all.plans[number]
        if failed is self._receive:
            size = failed.answer(index)
            if size == -errno.EINTR:
                return number
            self._read(size)
        elif failed is self._alone:
            # Filters of containers refuse it.
            if not cloning.single_threaded():
                raise OSError(errno.EAGAIN, "the zygote has more than one thread")
        elif failed is self._ready:
            self._rules.make()
            self._suit()
        elif failed is self._whole:
            raise OSError(errno.EMFILE, "a request has come without some of its descriptors")
        else:
            raise failed.failed(index)
        return number + 1

    def _read(self, size: int) -> None:
        """Look at what a request wants that is not what the last one has wanted.  Raises ``OSError``."""
        if size == 0:
            os._exit(0)
        if size < HEAD:
            raise RuntimeError(f"a request: {size}")
        text = plan.content(self._rest, size - HEAD)
        if len(text) == _REST:
            raise RuntimeError("a request is larger than any of ours")
        if text:
            # Before all of it has been looked at nothing suits, or a guest would be born as the last one was.
            self._receive.due(self._receipt, _NEVER)
            folder, rest = text.split(b"\0", 1)
            self._folder = folder or self._folder
            if rest:
                self._wanted = _scan(rest.decode(), 0)[0]
        self._rules.make()
        self._suit()

    def _suit(self) -> None:
        birth = self._birth
        if self._folder:
            birth.live_in(self._folder)
        birth.suit(self._wanted, self._rules.why_none)
        if self._steps is not birth.steps:
            self._build()
            self._steps = birth.steps
        self._whole.due(self._count, _RIGHTS + 4 * birth.ends)
        self._receive.due(self._receipt, HEAD)

    def _build(self) -> None:
        """What puts the numbers of a request in their places, and closes them once there is a guest."""
        birth, rulesets = self._birth, self._rules.rulesets
        closes = plan.Plan()
        places = [plan.address(birth.received, 4 * index) for index in range(birth.ends)]
        places += [plan.address(self._ends), plan.address(self._ends, 4)] if birth.isolated else []
        places += [plan.address(rulesets.made)] if rulesets else []
        for _ in places:
            closes.add("close", 0)
        closes.load(plan.address(plan.ZERO), plan.address(self._rights))
        for end in (0, 4):
            closes.load(plan.address(plan.NONE), plan.address(self._ends, end))
        if rulesets:
            closes.load(plan.address(plan.ZERO), plan.address(rulesets.whole))
            closes.load(plan.address(plan.NONE), plan.address(rulesets.made))
        closes.load(plan.address(plan.ONE), plan.address(self.done))
        ready, takes = plan.Plan(), plan.Plan()
        for calls in (closes, ready, takes):
            # They point into it.
            calls.hold(rulesets)
        if rulesets:
            ready.load(plan.address(rulesets.whole), result=1)
        for index, place in enumerate(places):
            takes.load(place, closes.argument_at(index, 1))
        group = self._fork.enter(group=birth.into_group)
        birth.take(takes, self._ends, plan.address(rulesets.made) if rulesets else 0, group)
        everything = [self._receive, self._whole, self._alone, self._pipe, ready, takes]
        self._ready, self._all, self.then = ready, plan.Plans(everything), plan.Plans([*birth.next, closes])
        self.address, self.end = self._all.address, self._all.end

    def refuse(self) -> None:
        """Have no guest of the last request; the next one is looked at, whatever it wants."""
        self._receive.due(self._receipt, _NEVER)
        self.close()

    def close(self) -> None:
        """Close what has come with a request, and what was opened for it."""
        count = max(0, self._rights[0] - _RIGHTS) // 4
        for fd in [*self._birth.received[:count], *self._ends]:
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._rights[0] = 0
        self._ends[:] = [-1, -1]

    def mend(self) -> None:
        """See to what was not done as soon as there was a guest, once there is one."""
        birth = self._birth
        if birth.isolated and birth.ask.answer(0) < 0:
            # It was not taken at once.  Where she cannot be asked, the guest finds the end of its pipe and says so.
            with contextlib.suppress(OSError):
                box.ask_mother(birth)
            birth.ask.forget_answer(0)
        self.close()
        if self._rules.rulesets is not None:
            with contextlib.suppress(OSError):
                self._rules.rulesets.drop()

    def rehearse(self, back: socket.socket, forth: socket.socket) -> None:
        """
        Go through the last request once more, in a conversation with itself: what this writes to is copied by then.

        Raises ``OSError``.
        """
        if self._steps is None:
            return
        head = self.name.raw + plan.bytes_at(self._birth.user_at, 4).raw
        datagrams.send_raw(back, head, [0] * self._birth.ends)
        self._receive.put(self._receipt, forth.fileno())
        try:
            machine_code.make(self.address)
        finally:
            self._receive.put(self._receipt, self._control)
            self.close()

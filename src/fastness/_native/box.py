"""
The first steps of a guest: from its birth as a copy of the zygote to the wall behind which foreign code may run.

Each page that is touched here for the first time is copied by the kernel, which costs more than most calls: what can
be done in the zygote is done there (:mod:`fastness._native.birth` has the order of all calls, and why it is that one).
"""

from __future__ import annotations

import array
import errno
import json
import os
import select
import socket
import struct
import time

from fastness._linux import profiles, seccomp
from fastness._linux.syscalls import MACHINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fastness._linux import plan
    from fastness._native.birth import Birth

#: The descriptor of the conversation with the caller, in every guest; before that, in the zygote, one of nothing.
TALK = 3
#: Where the zygote keeps what guests need at their birth; its folders follow.
MOTHERS = 4
FOLDERS = 5
#: Where it keeps its way to the launcher.  A guest may send descriptors on this number alone, once, for its limit of
#: open descriptors keeps it from having this number again.
RECORDING = 1020
#: The filters that guests live under.
PROFILES = ("guest/isolated", "guest/confined", "guest/confined_old", "command/run")
#: Seconds for descriptors of many guests that are born at once to be taken out of their sockets.
_CROWDED_S = 10.0
#: The same for what tells of refusals, without which a guest can be born.
_RECORDED_S = 1.0
#: Seconds in which a mother has done her part, or will not.
_NEWS_S = 2.0
#: What bad news of a mother begin with; good news are one byte.
BAD_NEWS = b"no: "
#: Births that are gone through before the first one.
_PRACTISE = 24
_HEADER = struct.Struct(">BBHII")
_ERROR = 0x49
#: What the mother is told of a guest: its user, files, bytes, and whether it needs a user map; with the guest's
#: process, the end of a pipe for her answer, and the guest's conversation.
WANTED = struct.Struct("=IIQI")


def serve(born: Birth) -> None:
    """Become the guest, and serve it until the caller is done.  Never returns."""
    work = _become(born)
    work[0](*work[1:])


def _become(born: Birth) -> tuple[Any, ...]:
    """Give up everything and greet the caller; returns what serves the guest, and what that is given."""
    said = b""
    try:
        # As `confine`, which for most has nothing to do.
        if (reached := born.reached or born.make(born.rest)) != born.end:
            _go_on(born, reached)
        if born.ahead or not born.said:
            said = born.said or born.boot.greeting(born.layers, born.gaps)
    except OSError as error:
        refuse(born, error)
        os._exit(1)
    return born.boot.serve, TALK, born.work, born.temporary, said, born.ahead, born.calls


def practise(born: Birth) -> None:
    """
    In the zygote: go through a birth whose calls are all left out, so that the interpreter knows this code by heart.

    It makes code quicker as it is run, and a guest's first steps are run in each guest for the first time.  What looks
    for an attribute the slow way writes to the attribute's name, too.
    """
    if born.boot is None:
        return
    born.leave_out_calls()
    for _ in range(_PRACTISE):
        _become(born)


def refuse(born: Birth, error: OSError) -> None:
    """Tell the caller why there will be no guest."""
    head = json.dumps({"id": 0, "where": "confine", "message": f"{error.strerror or error}"[:500]}).encode()
    greeting = b"" if born.greeted else b"!"
    try:
        os.write(TALK if born.arranged else born.talk, greeting + _HEADER.pack(1, _ERROR, 0, len(head), 0) + head)
    except OSError:
        pass


def confine(born: Birth) -> None:
    """
    Give up everything.  Raises ``OSError`` where a wall cannot stand.

    The fork has made some or all of the calls for that, or come to one that was answered otherwise than was due.
    """
    _go_on(born, born.reached or born.make(born.rest))


def _go_on(born: Birth, reached: int) -> None:
    while reached != born.end:
        reached = _mend(born, *born.steps.at(reached))


def _mend(born: Birth, number: int, index: int) -> int:
    """Deal with a call that was answered otherwise than was due, and go on; returns how far.  Raises ``OSError``."""
    steps = born.steps
    failed = steps.plans[number]
    error = failed.failed(index)
    greets = born.awaits if born.isolated else born.say_hello
    born.arranged, born.greeted = number > 0, number > steps.plans.index(greets)
    if born.isolated and not born.arranged:
        born.greeted = _mother_has_greeted(born)
    if failed is born.awaits:
        raise _bad_news(born, error)
    if failed is born.say_hello:
        _sent(failed.run)
    elif born.record and (failed is born.filter or failed is born.hand_over):
        if not (_filter_otherwise(born, error) if failed is born.filter else _recorded(born)):
            # What would greet the caller says that refusals are recorded.
            born.last.run()
            return born.end
        number = steps.plans.index(born.hand_over)
    else:
        raise error
    return born.make(steps.from_on(number + 1))


def greet(talk: int, process: int, work: int, calls: plan.Plan | None = None) -> None:
    """
    Give the caller the process and the work folder of a guest, by ``calls`` where that was planned.

    Raises ``OSError`` if it is gone.
    """
    if calls is not None:
        _sent(calls.run)
        return
    # Told what it is, or to make this object would ask the kernel three times.
    conversation = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, talk)
    try:
        _hand_over(conversation, b"+", process, work)
    finally:
        conversation.detach()


def _hand_over(sock: socket.socket, message: bytes, *fds: int) -> None:
    """Send a message with descriptors.  Raises ``OSError``."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    _sent(lambda: sock.sendmsg([message], rights))


def _sent(send: Callable[[], object], seconds: float = _CROWDED_S) -> None:
    end = 0.0
    while True:
        try:
            send()
        except OSError as error:
            # So many of this user's descriptors wait in sockets (unix(7)): they are taken out as fast as may be.
            if error.errno != errno.ETOOMANYREFS:
                raise
            now = time.monotonic()
            end = end or now + seconds
            if now > end:
                raise
            time.sleep(0.002)
        else:
            return


def ask_mother(born: Birth) -> None:
    """
    Have a guest's folders mounted, and its user mapped where that is needed; in the zygote.

    With what is wanted go the guest's process, the end of the pipe that tells the guest, and its conversation, in which
    the mother greets the caller for it.
    """
    _sent(born.ask.run)


def _mother_has_greeted(born: Birth) -> bool:
    """Whether the caller has heard of this guest, which cannot go on and has to say so in the right place."""
    told = born.awaits.words(0)[1]
    return bool(select.select([told], [], [], _NEWS_S)[0]) and os.read(told, len(BAD_NEWS)) == b"+"


def _bad_news(born: Birth, error: OSError) -> OSError:
    """What to raise where the mother has told something else than that all is well."""
    answer = born.awaits.answer(0)
    if answer < 0:
        return error
    why = born.news.raw[:answer].decode("utf-8", "replace").removeprefix(BAD_NEWS.decode())
    return OSError(errno.EIO, f"mounting the guest's folders: {why or 'the mother has ended'}")


def _recorded(born: Birth) -> bool:
    """
    Let the launcher have what tells of refusals; without it they are refused by the kernel alone, and results say so.

    Others of this user may keep so many descriptors in sockets that this one finds no place, and shall not keep guests
    from being born by that.
    """
    try:
        _sent(born.hand_over.run, _RECORDED_S)
    except OSError as why:
        _unrecorded(born, why)
        return False
    return True


def _unrecorded(born: Birth, why: OSError) -> None:
    born.gaps.append(("denials_recorded", why.strerror or str(why)))
    born.layers["denials_recorded"] = "partial"
    born.said = b""


def _filter_otherwise(born: Birth, error: OSError) -> bool:
    """
    The same where the filter could not be installed as planned: by an older way, or without a supervisor.

    Returns whether one can be told of refusals, and has been.
    """
    me = os.getpid()
    try:
        if error.errno != errno.EINVAL:
            raise error
        # Either the program is wrong, which this finds too, or the kernel does not know a flag.
        program = profiles.program(MACHINE, born.profile + "_notify", self_pid=me)
        born.told_by[0] = seccomp.install_with_listener(program)
    except OSError as why:
        _unrecorded(born, why)
        seccomp.install(profiles.program(MACHINE, born.profile, self_pid=me))
        return False
    return _recorded(born)

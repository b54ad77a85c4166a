"""
Requests to a zygote: one like the last is taken by a list of calls, any other is looked at, and none is half taken.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastness._linux import cloning, landlock, machine_code, plan
from fastness._native import asked, birth, datagrams, endings, rules

pytestmark = pytest.mark.usefixtures("maker")

_REQUEST: dict[str, Any] = {
    "ahead": False, "calls": False, "entrances": 0, "into_group": False, "files": 7, "file_bytes": 4096,
    "limits": [(resource.RLIMIT_NOFILE, 64)], "writable": ["/work", "/tmp"],
}  # fmt: skip


class Zygote:
    """What takes requests of one tier, and the caller's end of its conversation."""

    def __init__(self, tier: str, own_users: bool = True) -> None:
        config = {"tier": tier, "kind": "python", "profile": f"guest/{tier}", "record": True, "foreign": False}
        self.caller, self.control = datagrams.pair()
        self.birth = birth.Birth(config, None, os.getpid(), own_users=own_users)
        self.rules = rules.Rules([], programs=False, isolated=tier == "isolated")
        self.fork = cloning.Fork(0, self.birth.process)
        self.asked = asked.Asked(self.control.fileno(), self.birth, self.rules, self.fork)
        # Other tests have threads in this process: none is asked about where that is not what is tried.
        self.asked._alone.put(0, 0)
        #: Whether the last request was taken by calls alone.
        self.alone = False

    def ask(self, name: str = "b1", uid: int = 1234, folder: str = "", fds: int = 3, **more: Any) -> None:
        """Ask for a guest, for one like the last one where nothing is said of it."""
        data = struct.pack(datagrams.ASKED, name.encode().ljust(datagrams.NAME, b"-"), uid)
        if folder or more:
            rest = json.dumps(_REQUEST | more).encode() if more else b""
            data += folder.encode() + b"\0" + rest
        datagrams.send_raw(self.caller, data, [2] * fds)

    def take(self) -> None:
        """Take what was asked for.  Raises ``OSError``."""
        reached = machine_code.make(self.asked.address)
        self.alone = reached == self.asked.end
        if not self.alone:
            self.asked.go_on(reached)

    def over(self) -> bool:
        """Do what is done once there is a guest; whether all of it could be."""
        machine_code.make(self.asked.then.address)
        return self.asked.done.value == 1


def _open() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


Making = Callable[[str], Zygote]


@pytest.fixture
def making() -> Iterator[Making]:
    """Makes zygotes, whose conversations are closed afterwards."""
    with contextlib.ExitStack() as held:

        def make(tier: str) -> Zygote:
            made = Zygote(tier)
            held.enter_context(made.caller)
            held.enter_context(made.control)
            return made

        yield make


@pytest.fixture(params=["isolated", "confined"])
def zygote(request: pytest.FixtureRequest, making: Making) -> Zygote:
    """A zygote that was asked for one guest, which is over."""
    made = making(request.param)
    folder = "/nowhere/1" if request.param == "confined" else ""
    made.ask(folder=folder, ahead=False)
    made.take()
    made.asked.close()
    made.rules.make()
    return made


def test_one_like_the_last_is_taken_by_calls_alone(zygote: Zygote) -> None:
    """Its descriptors, its name and its user are where the birth's calls find them, and are its own."""
    before = _open()
    zygote.ask("b2", 4321)
    zygote.take()
    assert zygote.alone
    assert zygote.asked.name.raw == b"b2----------"
    ends, came = zygote.birth.arrange, list(zygote.birth.received[:3])
    first = len(ends) - 3
    assert [ends.words(first + index)[1] for index in range(3)] == came
    assert zygote.birth.talk == came[0]
    assert all(os.path.sameopenfile(fd, 2) for fd in came)
    assert b'"box": "b2----------"' in zygote.birth._message.raw
    if zygote.birth.isolated:
        told, telling = zygote.birth.awaits.words(0)[1], ends.words(0)[1]
        os.write(telling, b"x")
        assert os.read(told, 1) == b"x"
        assert list(zygote.birth.rights)[1:] == [telling, came[0]]
        assert birth.WANTED.unpack(zygote.birth._wanted.raw) == (4321, 7, 4096, 0)
        for call in ("setresgid", "setresuid"):
            assert zygote.birth.give_up.words(zygote.birth._places[call])[1:4] == [4321] * 3
    zygote.asked.close()
    zygote.rules.rulesets.drop() if zygote.rules.rulesets else None
    assert _open() <= before


def test_nothing_stays_open_once_there_is_a_guest(making: Making) -> None:
    """What came with the request, the pipe and the rules are the guest's; the next one has new ones."""
    zygote = making("confined")
    zygote.ask(folder="/nowhere/1", ahead=False)
    zygote.take()
    assert zygote.over()
    before = _open()
    for number in range(5):
        zygote.rules.make()
        zygote.ask(f"b{number}")
        zygote.take()
        assert zygote.alone
        assert zygote.over()
        assert _open() == before
    zygote.asked.close()
    assert _open() == before


def test_rules_that_are_not_made_yet_are_made(zygote: Zygote) -> None:
    """No guest has those of the last one, and none is born without."""
    if not landlock.abi():
        pytest.skip("this kernel has no Landlock")
    assert zygote.rules.rulesets is not None
    zygote.rules.rulesets.drop()
    zygote.ask("b2")
    zygote.take()
    assert not zygote.alone
    assert zygote.rules.rulesets.whole.value == 1
    place = zygote.birth._places["rules"]
    assert zygote.birth._rules.words(place)[1] == zygote.rules.rulesets.made.value >= 0
    zygote.asked.close()


def test_other_limits_are_looked_at(zygote: Zygote) -> None:
    """And the ones after that have them too."""
    for limit in (64, 32):
        zygote.ask("b2", limits=[(resource.RLIMIT_NOFILE, limit)])
        zygote.take()
        assert not zygote.alone
        assert list(zygote.birth._limits[0]) == [limit, limit]
        zygote.asked.close()
        zygote.ask("b3")
        zygote.take()
        assert zygote.alone
        assert list(zygote.birth._limits[0]) == [limit, limit]
        zygote.asked.close()


def test_what_does_not_suit_is_not_taken_for_the_last_one(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that is refused and asks for the same again must not get a guest with the limits of another one."""
    build = birth.Birth._build

    def fail(self: birth.Birth, *kind: Any) -> None:
        build(self, *kind)
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(birth.Birth, "_build", fail)
    zygote.ask("b2", limits=[(resource.RLIMIT_FSIZE, 64)])
    for name in ("b3", "b4"):
        with pytest.raises(OSError, match=os.strerror(errno.ENOMEM)):
            zygote.take()
        zygote.asked.close()
        zygote.ask(name)
    monkeypatch.undo()
    zygote.take()
    assert not zygote.alone
    assert list(zygote.birth._limits[0]) == [64, 64]
    zygote.asked.close()


def test_a_folder_that_is_refused_is_not_the_last_one(making: Making) -> None:
    """The next guest, which is said to have the same, is refused too, and does not get another one's folder."""
    zygote = making("confined")
    zygote.ask(folder="/nowhere/1", ahead=False)
    zygote.take()
    zygote.asked.close()
    zygote.ask(folder="/" + "x" * 5000)
    for name in ("b2", "b3"):
        with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
            zygote.take()
        zygote.asked.close()
        zygote.ask(name)
    with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
        zygote.take()
    zygote.asked.close()
    zygote.ask("b4", folder="/nowhere/2")
    zygote.take()
    assert zygote.birth._work.value == b"/nowhere/2/work"
    zygote.asked.close()


@pytest.mark.parametrize("fds", [0, 2, 4])
def test_a_request_with_other_descriptors_than_it_should_have(zygote: Zygote, fds: int) -> None:
    """There is no guest of it, and what has come is closed."""
    before = _open()
    zygote.ask("b2", fds=fds)
    with pytest.raises(OSError, match="without some of its descriptors"):
        zygote.take()
    zygote.asked.close()
    assert _open() <= before
    zygote.ask("b3")
    zygote.take()  # control
    zygote.asked.close()


def test_a_request_whose_descriptors_find_no_place(zygote: Zygote) -> None:
    """The kernel leaves out what goes beyond the limit, and says so in the message."""
    before = _open()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    zygote.ask("b2")
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, hard))
    try:
        with pytest.raises(OSError, match="without some of its descriptors"):
            zygote.take()
        zygote.asked.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert _open() <= before


def test_a_zygote_with_a_second_thread_makes_no_guests(zygote: Zygote) -> None:
    """It would be missing in them, with whatever it holds."""
    zygote.asked._alone.put(0, cloning.CLONE_THREAD)
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        zygote.ask("b2")
        with pytest.raises(OSError, match="more than one thread"):
            zygote.take()
        zygote.asked.close()
    finally:
        end.set()
        thread.join()
    # Control: a process that was just forked has one.
    zygote.ask("b3")
    pid = os.fork()
    if pid == 0:
        try:
            zygote.take()
            os._exit(3 if zygote.alone else 4)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


def test_where_the_kernel_may_not_be_asked_for_threads(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters of containers refuse that call; then it is asked otherwise, each time."""
    zygote.asked._alone.put(0, -1)
    answers = [True, False]
    monkeypatch.setattr(cloning, "single_threaded", lambda: answers.pop(0))
    zygote.ask("b2")
    zygote.take()
    assert not zygote.alone
    zygote.asked.close()
    zygote.ask("b3")
    with pytest.raises(OSError, match="more than one thread"):
        zygote.take()
    zygote.asked.close()


def test_a_mother_who_takes_no_more_is_asked_again(making: Making) -> None:
    """A guest whose mother was not asked at once would wait for her for ever."""
    zygote = making("isolated")
    mothers, hers = datagrams.pair()
    # The number that zygotes have her at is this process's own.
    zygote.birth.ask.put(0, mothers.fileno())
    zygote.ask(ahead=False)
    zygote.take()
    zygote.birth.process.value = os.pidfd_open(os.getpid())
    with mothers, hers:
        mothers.setblocking(False)
        sent = 0
        while True:
            try:
                mothers.send(b"x")
            except BlockingIOError:
                break
            sent += 1
        assert not zygote.over()
        for _ in range(sent):
            hers.recv(10)
        zygote.asked.mend()
        data, fds = datagrams.receive_raw(hers)
        assert birth.WANTED.unpack(data) == (1234, 7, 4096, 0)
        assert len(fds) == 3
        for fd in fds:
            os.close(fd)
        # What was told of the first try does not make the next one be done twice.
        zygote.rules.make()
        zygote.ask("b2")
        zygote.take()
        assert zygote.over()
        for fd in datagrams.receive_raw(hers)[1]:
            os.close(fd)
        zygote.asked.mend()
        hers.setblocking(False)
        with pytest.raises(BlockingIOError):
            hers.recv(10)
    os.close(zygote.birth.process.value)


def test_a_rehearsal_leaves_nothing_behind(zygote: Zygote) -> None:
    """No descriptor, no other user; the next request is the caller's."""
    zygote.ask("b2", 77)
    zygote.take()
    zygote.asked.close()
    zygote.rules.make()
    back, forth = datagrams.pair()
    before = _open()
    with back, forth:
        for _ in range(3):
            zygote.asked.rehearse(back, forth)
        assert _open() == before
        forth.setblocking(False)
        with pytest.raises(BlockingIOError):
            forth.recv(1)
    zygote.ask("b3", 78)
    zygote.take()
    assert zygote.alone
    assert zygote.asked.name.raw.startswith(b"b3-")
    zygote.asked.close()


def test_a_request_that_is_none_ends_the_zygote(zygote: Zygote) -> None:
    """The caller believes that it was told, so that no later one could be believed."""
    zygote.caller.send(b"short")
    with pytest.raises(RuntimeError, match="a request: 5"):
        zygote.take()
    zygote.caller.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    zygote.caller.send(bytes(asked.HEAD) + b"x" * (1 << 16))
    with pytest.raises(RuntimeError, match="larger than any"):
        zygote.take()


def test_a_caller_that_is_gone_ends_the_zygote(zygote: Zygote, making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, whatever it was asked for before."""

    class Ended(Exception):
        pass

    def end(code: int) -> None:
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    zygote.caller.close()
    with pytest.raises(Ended):
        zygote.take()
    fresh = making("confined")
    fresh.caller.close()
    with pytest.raises(Ended):
        fresh.take()


def test_a_guest_is_born_in_the_group_that_came_with_it(zygote: Zygote) -> None:
    """Groups of version 2 take a process at its birth; the one of the last guest has another."""
    zygote.ask("b2", fds=4, into_group=True)
    zygote.take()
    arguments = zygote.fork._arguments
    assert arguments[10] == zygote.birth.received[3]
    assert arguments[0] & cloning.CLONE_INTO_CGROUP
    ends = zygote.birth.arrange
    assert [ends.words(len(ends) - 3 + index)[1] for index in range(3)] == list(zygote.birth.received[:3])
    zygote.asked.close()
    zygote.ask("b3", fds=3, entrances=0)
    zygote.take()
    assert not arguments[0] & cloning.CLONE_INTO_CGROUP
    assert arguments[10] == 0
    zygote.asked.close()
    # Where a fork knows no group there is no guest outside of it.
    assert zygote.fork.over(zygote.fork.begin() and -errno.ENOSYS) == 0
    zygote.ask("b4", fds=4, into_group=True)
    with pytest.raises(OSError, match="clone3"):
        zygote.take()
    zygote.asked.refuse()


def test_a_child_is_told_of_with_what_it_used() -> None:
    """Its name, its status, the most memory, the processor time; and the descriptor of its process is closed."""
    caller, control = datagrams.pair()
    with caller, control:
        _tell(caller, endings.Endings(control.fileno()))


def _tell(caller: socket.socket, made: endings.Endings) -> None:
    before = _open()
    for status in (0, 3):
        pid = os.fork()
        if pid == 0:
            held = bytearray(64 << 20)
            held[::4096] = bytes(len(held[::4096]))
            while os.times().user < 0.05:
                sum(range(1000))
            os._exit(status)
        process = os.pidfd_open(pid)
        made.live[process] = pid, b"b%011d" % status
        made.tell(process)
        assert not made.live
        nothing, name, found, *used = struct.unpack(datagrams.ENDED, caller.recv(1000))
        assert (nothing, name) == (0, b"b%011d" % status)
        assert os.waitstatus_to_exitcode(found) == status
        assert used[4] > 64 << 10
        assert 50_000 <= (used[0] + used[2]) * 1_000_000 + used[1] + used[3] < 5_000_000
        assert _open() == before
    made.live[1 << 20] = os.getpid(), b"x" * 12
    with pytest.raises(OSError, match="wait4: No child processes"):
        made.tell(1 << 20)


def test_an_end_is_told_also_where_signals_come_meanwhile() -> None:
    """A package may have a handler for one, and the caller's end may be full just then."""
    caller, control = datagrams.pair()
    with caller, control:
        made = endings.Endings(control.fileno())
        control.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                control.send(b"x" * 100)
                sent += 1
        control.setblocking(True)
        came: list[int] = []
        before = signal.signal(signal.SIGALRM, lambda number, frame: came.append(number))
        pid = os.fork()
        if pid == 0:
            os._exit(5)
        process = os.pidfd_open(pid)
        made.live[process] = pid, b"b00000000001"
        room = threading.Timer(0.3, lambda: [caller.recv(1000) for _ in range(sent)])
        room.start()
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        try:
            made.tell(process)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            room.join()
        assert came
        _, name, status, *_ = struct.unpack(datagrams.ENDED, caller.recv(1000))
        assert (name, os.waitstatus_to_exitcode(status)) == (b"b00000000001", 5)


def test_quiet_is_waited_for() -> None:
    """So long, however often; what has come ends it at once."""
    read, write = os.pipe()
    calls = plan.Plans([plan.quiet(read, 0.01)])
    for _ in range(2):
        assert machine_code.make(calls.address) == calls.end
    os.write(write, b"x")
    for _ in range(2):
        assert calls.at(machine_code.make(calls.address)) == (0, 1)
        assert calls.plans[0].answer(1) == 1
    os.read(read, 1)
    assert machine_code.make(calls.address) == calls.end
    for fd in (read, write):
        os.close(fd)

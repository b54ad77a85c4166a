"""Lists of calls by machine code and by Python: both do the same, and the machine code is what its listing says."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import house
from fastness._linux import cloning, machine_code, memory, plan, syscalls

X86 = pytest.mark.skipif(syscalls.MACHINE != "x86_64", reason="the machine code is for x86_64")


def _plans(*rows: tuple[str, tuple[int | bytes, ...], int]) -> plan.Plans:
    calls = plan.Plan()
    for name, arguments, result in rows:
        calls.add(name, *arguments, result=result)
    return plan.Plans([calls])


@X86
def test_the_code_is_what_its_listing_says(tmp_path: Path) -> None:
    """The assembler makes of the listing what is in the module, and `fork` begins where it is said to."""
    if not (shutil.which("as") and shutil.which("objcopy")):
        house.lacks("no assembler: apt-get install binutils")
    source, made, flat = tmp_path / "lists.s", tmp_path / "lists.o", tmp_path / "lists.bin"
    source.write_text(machine_code.LISTING)
    subprocess.run(["as", source, "-o", made], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", made, flat], check=True)
    assert flat.read_bytes() == machine_code._CODE["x86_64"]
    symbols = subprocess.run(["nm", made], check=True, capture_output=True, text=True).stdout
    assert f"{machine_code._FORK_AT:016x} t fork" in symbols
    assert f"{0:016x} t make" in symbols


def test_all_are_made_in_their_order(maker: str) -> None:
    """Of several lists, one of them empty; and an answer is put where it was asked for."""
    read, write = os.pipe()
    try:
        first, nothing, last = plan.Plan(), plan.Plan(), plan.Plan()
        first.add("write", write, b"one ", 4, result=4)
        place = plan.words(1)
        last.add("write", write, b"two", 3, result=3, put_at=plan.address(place, 4))
        made = plan.Plans([first, nothing, last])
        assert machine_code.make(made.address) == made.end
        assert os.read(read, 100) == b"one two"
        # An int, in the second half of the word.
        assert place[0] == 3 << 32
        assert machine_code.make(made.from_on(1)) == made.end
        assert os.read(read, 100) == b"two"
        assert machine_code.make(made.from_on(3)) == made.end
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("result", [0, plan.ANY])
def test_an_error_ends_it(maker: str, tmp_path: Path, result: int) -> None:
    """Also the one whose number is 1, which is 18446744073709551615 to a processor, and where any answer will do."""
    for name, arguments, number in (
        ("close", (1 << 20,), errno.EBADF),
        ("mkdirat", (-100, b"/", 0o700), errno.EEXIST),
        ("setpgid", (1, 1), errno.ESRCH if os.geteuid() else None),
    ):
        made = _plans((name, arguments, result), ("mkdirat", (-100, os.fsencode(tmp_path / "made"), 0o700), 0))
        reached = machine_code.make(made.address)
        assert made.at(reached) == (0, 0)
        if number is not None:
            assert made.plans[0].answer(0) == -number
        assert made.plans[0].answer(0) < 0
        assert not (tmp_path / "made").exists()


def test_operation_not_permitted_is_an_error(maker: str) -> None:
    """`EPERM` is number 1: as an answer it has all bits set, as "any answer" may have nothing of."""
    made = _plans(("setsid", (), plan.ANY))
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            # The leader of a session cannot begin another.
            ended = machine_code.make(made.address)
            os._exit(int(made.at(ended) != (0, 0) or made.plans[0].answer(0) != -errno.EPERM))
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_another_answer_than_is_due_ends_it(maker: str) -> None:
    """It is told which call that was, and what was answered."""
    made = _plans(("getpid", (), plan.ANY), ("getppid", (), os.getppid() + 1), ("close", (1 << 20,), 0))
    assert made.at(machine_code.make(made.address)) == (0, 1)
    assert made.plans[0].answer(1) == os.getppid()


@pytest.mark.parametrize("number", [0, 1, 17, (1 << 31) - 1, -1, -1000])
def test_an_int_is_loaded_in_the_place_of_a_call(maker: str, number: int) -> None:
    """It is put where it is wanted, is no error below zero, and ends the list where another one is due."""
    source, place = plan.numbers(3), plan.words(2)
    source[1] = number
    calls = plan.Plan()
    calls.load(plan.address(source, 4), plan.address(place, 8))
    calls.add("close", 1 << 20)
    made = plan.Plans([calls])
    assert made.at(machine_code.make(made.address)) == (0, 1)
    # Four bytes of it, and nothing before or behind.
    assert list(place) == [0, number & 0xFFFFFFFF]
    for due in (number & 0xFFFFFFFF, 5):
        calls = plan.Plan()
        calls.load(plan.address(source, 4), result=due)
        made = plan.Plans([calls])
        reached = machine_code.make(made.address)
        assert (reached == made.end) == (due != 5)
    assert calls.answer(0) == number & 0xFFFFFFFF
    assert "a number: answered" in str(calls.failed(0))


def test_what_is_loaded_is_an_argument_of_the_next_call(maker: str) -> None:
    """As a zygote gives its guests the descriptors that have come with a request."""
    read, write = os.pipe()
    fd = plan.number()
    calls = plan.Plan()
    load = calls.load(plan.address(fd))
    call = calls.add("write", 0, b"here", 4, result=4)
    calls.put_answer_at(load, calls.argument_at(call, 1))
    fd.value = write
    made = plan.Plans([calls])
    assert machine_code.make(made.address) == made.end
    assert os.read(read, 10) == b"here"
    for one in (read, write):
        os.close(one)


def test_a_fork_makes_the_calls_of_both(maker: str) -> None:
    """The child's before anything else, the parent's as soon as there is a child."""
    read, write = os.pipe()
    theirs, ours = plan.Plan(), plan.Plan()
    theirs.add("write", write, b"child ", 6, result=6)
    theirs.add("getppid", result=os.getpid())
    ours.add("write", write, b"parent ", 7, result=7)
    steps = plan.Plans([theirs])
    fork = cloning.Fork(0)
    parents = plan.Plans([ours])
    pid = fork.make(fork.begin(), steps.address, parents.address)
    if pid < cloning.LEAST_ERROR:
        fork.after()
        os._exit(7 if ~pid == steps.end else 8)
    child = fork.over(pid)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sorted(os.read(read, 100).split()) == [b"child", b"parent"]
    assert ours.answer(0) == 0
    for fd in (read, write, fork.process.value):
        os.close(fd)


def test_what_the_parent_is_answered_otherwise_is_told(maker: str) -> None:
    """There is a child all the same, and what comes after that call is left out."""
    ours = plan.Plan()
    ours.add("close", 1 << 20)
    ours.add("close", 1 << 21)
    parents, steps = plan.Plans([ours]), plan.Plans(())
    fork = cloning.Fork(0)
    pid = fork.make(fork.begin(), steps.address, parents.address)
    if pid < cloning.LEAST_ERROR:
        fork.after()
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(fork.over(pid), 0)[1]) == 3
    assert (ours.answer(0), ours.answer(1)) == (-errno.EBADF, 0)
    ours.forget_answer(0)
    assert ours.answer(0) == 0
    os.close(fork.process.value)


def test_a_child_says_how_far_it_has_come(maker: str) -> None:
    """What failed in it is in its own copy of the list, and it goes on in Python."""
    theirs = plan.Plan()
    theirs.add("getpid", result=plan.ANY)
    theirs.add("close", 1 << 20)
    steps = plan.Plans([theirs])
    fork = cloning.Fork(0)
    pid = fork.make(fork.begin(), steps.address, steps.from_on(len(steps.plans)))
    if pid < cloning.LEAST_ERROR:
        fork.after()
        well = steps.at(~pid) == (0, 1) and theirs.failed(1).errno == errno.EBADF
        os._exit(0 if well else 1)
    child = fork.over(pid)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert theirs.answer(1) == 0
    os.close(fork.process.value)


def test_a_fork_that_fails_is_an_error(maker: str) -> None:
    """In the parent, with its number; the parent's call is not made."""
    read, write = os.pipe()
    ours = plan.Plan()
    ours.add("write", write, b"never", 5, result=5)
    fork = cloning.Fork(syscalls.CLONE_NEWNS | 0x200)  # CLONE_FS does not go with a mount namespace
    steps = plan.Plans(())
    parents = plan.Plans([ours])
    pid = fork.make(fork.begin(), steps.address, parents.address)
    assert pid == -errno.EINVAL
    with pytest.raises(OSError, match="clone3: Invalid argument"):
        fork.over(pid)
    os.set_blocking(read, False)
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    os.close(read)
    os.close(write)


def test_an_older_call_is_tried_where_the_newer_is_missing(maker: str) -> None:
    """Filters of containers answer that there is no `clone3`."""
    fork = cloning.Fork(0)
    assert fork.over(fork.begin() and -errno.ENOSYS) == 0
    steps = plan.Plans(())
    pid = fork.make(fork.begin(), steps.address, steps.from_on(len(steps.plans)))
    if pid < cloning.LEAST_ERROR:
        fork.after()
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(fork.over(pid), 0)[1]) == 5
    os.close(fork.process.value)
    with pytest.raises(OSError, match="clone3"):
        fork.over(fork.begin() and -errno.ENOSYS)


def test_an_interpreter_stays_prepared_for_forks(maker: str) -> None:
    """One who is told of none need not be prepared anew for each; children are as after any fork."""
    fork = cloning.Fork(0)
    steps = plan.Plans(())
    for number in range(3):
        pid = fork.make(fork.begin(), steps.address, steps.from_on(0))
        if pid < cloning.LEAST_ERROR:
            fork.after()
            # What is imported for the first time takes the lock that is held in the parent.
            import this  # noqa: F401  # nothing else has

            os._exit(number)
        assert os.waitstatus_to_exitcode(os.waitpid(fork.over(pid, again=True), 0)[1]) == number
        os.close(fork.process.value)
    pid = fork.make(fork.begin(), steps.address, steps.from_on(0))
    if pid < cloning.LEAST_ERROR:
        fork.after()
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(fork.over(pid), 0)[1]) == 9
    os.close(fork.process.value)


@X86
@pytest.mark.parametrize("step", ["raw", "protect"])
def test_where_no_memory_may_be_executed(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Then Python makes the calls, and what was mapped is given back."""
    monkeypatch.setattr(machine_code, "make", machine_code.in_python)
    monkeypatch.setattr(machine_code, "fork", None)
    given_back: list[int] = []
    unmap: Callable[[int, int], None] = memory.unmap

    def refuse(*arguments: object) -> int:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(syscalls if step == "raw" else memory, step, refuse)
    monkeypatch.setattr(memory, "unmap", lambda place, size: given_back.append(place) or unmap(place, size))
    assert not machine_code.prepare()
    assert machine_code.make is machine_code.in_python
    assert machine_code.fork is None
    assert len(given_back) == (step == "protect")


@pytest.mark.parametrize("machine", ["aarch64", ""])
def test_another_processor_has_none(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    monkeypatch.setattr(machine_code, "fork", None)
    monkeypatch.setattr(syscalls, "MACHINE", machine)
    assert not machine_code.prepare()

"""Users that are given away belong to nobody: not in the password file, not in others' ranges, not among the living."""

from __future__ import annotations

import errno
import io
import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fastness._linux import uids

#: A range of this test's own, far from the default one and from any user of this machine.
LOW = 0x60000000


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder for the locks, with three blocks to have."""
    monkeypatch.setenv(uids.VARIABLE, f"{LOW}-{LOW + 3 * uids.BLOCK - 1}")
    return str(tmp_path / "locks")


def test_the_configured_range_is_used_and_no_block_is_shared(locks: str) -> None:
    """Each claim has a block of its own, in the range that was set; one that was given back is given again."""
    blocks = [uids.claim(locks) for _ in range(3)]
    assert [block.base for block in blocks] == [LOW, LOW + uids.BLOCK, LOW + 2 * uids.BLOCK]
    assert {block.count for block in blocks} == {uids.BLOCK}
    with pytest.raises(OSError, match=uids.VARIABLE) as caught:
        uids.claim(locks)
    assert caught.value.errno == errno.EAGAIN
    blocks[1].release()
    blocks[1].release()
    again = uids.claim(locks)
    assert again.base == LOW + uids.BLOCK
    for block in (blocks[0], blocks[2], again):
        block.release()


def first(locks: str) -> int:
    """The block that is given, counted from the first of the range."""
    block = uids.claim(locks)
    block.release()
    return (block.base - LOW) // uids.BLOCK


@pytest.mark.parametrize("offset", [0, uids.BLOCK - 1])
def test_a_block_with_somebody_of_the_password_file_is_passed_over(
    locks: str, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever it is and wherever in the block."""
    somebody = pwd.struct_passwd(("somebody", "x", LOW + offset, 100, "", "/", "/bin/sh"))
    monkeypatch.setattr(uids.pwd, "getpwall", lambda: [somebody])
    assert first(locks) == 1


@pytest.mark.parametrize(
    ("line", "block"),
    [
        (f"somebody:{LOW}:1", 1),
        (f"somebody:{LOW - 10}:11", 1),
        (f"somebody:{LOW - 10}:10", 0),
        (f"somebody:{LOW + uids.BLOCK - 1}:2", 2),
        (f"somebody:{LOW}:many", 0),
        ("# not a range", 0),
    ],
)
def test_a_block_that_was_given_to_others_is_passed_over(
    locks: str, line: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ``/etc/subuid`` says is another's, by a single number too (subuid(5)); lines that say nothing are no one's."""

    def opened(path: str, *arguments: Any, **options: Any) -> Any:
        return io.StringIO(line + "\n") if path == "/etc/subuid" else open(path, *arguments, **options)

    monkeypatch.setattr(uids, "open", opened, raising=False)
    assert first(locks) == block


def test_a_block_with_a_living_process_is_passed_over(locks: str) -> None:
    """A process of such a user may be what a host that was killed has left."""
    if os.geteuid():
        pytest.skip("only root starts processes of other users")
    assert first(locks) == 0
    process = subprocess.Popen(["/bin/sleep", "60"], user=LOW + 3)
    try:
        assert first(locks) == 1
    finally:
        process.kill()
        process.wait()
    assert first(locks) == 0


def test_a_block_that_is_known_to_be_lived_in_is_not_looked_at_again(
    locks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look tells of all blocks; the block that is given was looked at while its lock was held."""
    looks: list[int] = []

    def living() -> set[int]:
        looks.append(len(os.listdir(locks)))
        return {LOW + 3, LOW + uids.BLOCK}

    monkeypatch.setattr(uids, "_living", living)
    assert first(locks) == 2
    # The locks of the first and of the last were there.
    assert looks == [1, 2]


def test_a_want_of_descriptors_does_not_make_a_block_free(locks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be looked at for want of them may live; what has ended meanwhile does not."""
    real = os.open

    def opened(path: str, *arguments: Any, **options: Any) -> int:
        if path.startswith("/proc/"):
            raise OSError(number, os.strerror(number))
        return real(path, *arguments, **options)

    monkeypatch.setattr(uids.os, "open", opened)
    number = errno.ESRCH
    assert first(locks) == 0
    number = errno.EMFILE
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        uids.claim(locks)


def test_locks_that_others_could_change_are_not_believed(locks: str) -> None:
    """A folder that somebody else may write to says nothing of who has a block."""
    os.mkdir(locks)
    os.chmod(locks, 0o777)
    with pytest.raises(OSError, match="somebody else"):
        uids.claim(locks)


@pytest.mark.parametrize("text", ["x", "1-5", "65535-2000000", "2000000-65536", "2000000-2000001", "0x10000-0x20000"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    """It must be written in digits, lie where users may be given away, and hold a block."""
    with pytest.raises(ValueError, match=uids.VARIABLE):
        uids.configured(text)
    assert uids.configured(None) == uids.configured("") == uids.DEFAULT_RANGE

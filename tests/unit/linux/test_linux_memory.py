"""Mappings, memory files and the timer."""

from __future__ import annotations

import ctypes as C
import errno
import os
import select
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fastness._linux import memory, syscalls, timerfd

LENGTH = 1 << 16


@pytest.fixture
def file() -> Iterator[int]:
    fd = memory.memory_file(LENGTH)
    os.pwrite(fd, b"image" * 10, 0)
    yield fd
    os.close(fd)


def test_image_is_copied_on_write(file: int) -> None:
    """A write to the mapping changes neither the file nor another mapping, and laying the image again undoes it."""
    one, two = memory.map_readonly(LENGTH, file), memory.map_readonly(LENGTH, file)
    memory.map_image(one, LENGTH, file)
    C.memmove(one, b"guest", 5)
    assert (C.string_at(one, 5), C.string_at(two, 5), os.pread(file, 5, 0)) == (b"guest", b"image", b"image")
    memory.map_image(one, LENGTH, file)
    assert C.string_at(one, 5) == b"image"
    C.memmove(one, b"guest", 5)
    memory.copy(one, two, 5)
    assert C.string_at(one, 5) == b"image"
    memory.map_zeros(one, LENGTH)
    assert C.string_at(one, 5) == bytes(5)
    memory.unmap(one, LENGTH)
    memory.unmap(two, LENGTH)


def test_mapping_errors_name_the_call(file: int) -> None:
    """What the kernel refuses is an OSError with its number and the call's name."""
    with pytest.raises(OSError, match="mmap") as caught:
        memory.map_readonly(LENGTH, 9999)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(OSError, match="madvise"):
        memory.advise(1, 1, memory.MADV_DONTNEED)


def test_sealed_file_cannot_change(file: int) -> None:
    """After sealing neither content nor size nor seals change any more."""
    memory.seal(file)
    assert memory.seals_of(file) & memory.SEALED == memory.SEALED
    for change in (
        lambda: os.pwrite(file, b"x", 0),
        lambda: os.ftruncate(file, 1),
        lambda: os.ftruncate(file, 2 * LENGTH),
        lambda: memory.seal(file, memory.F_SEAL_WRITE),
    ):
        with pytest.raises(PermissionError):
            change()


def test_memory_file_is_not_inherited_and_not_executable(file: int) -> None:
    """Close-on-exec is set and, on kernels that can, no execute permission can be had."""
    assert not os.get_inheritable(file)
    if memory.seals_of(file) & 0x20:  # F_SEAL_EXEC
        assert os.fstat(file).st_mode & 0o111 == 0


def test_memory_file_on_kernels_without_noexec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the flag is unknown the file is made without it; other errors are not swallowed."""
    flags = []

    def old_kernel(name: str, *arguments: int) -> int:
        if name == "memfd_create":
            flags.append(arguments[1])
            if arguments[1] & memory.MFD_NOEXEC_SEAL:
                raise syscalls.oserror(name, errno.EINVAL)
        return syscalls.raw(name, *arguments)

    monkeypatch.setattr(memory, "raw", old_kernel)
    os.close(memory.memory_file())
    assert flags == [11, 3]

    def full(name: str, *arguments: int) -> int:
        raise syscalls.oserror(name, errno.EMFILE)

    monkeypatch.setattr(memory, "raw", full)
    with pytest.raises(OSError, match="memfd_create"):
        memory.memory_file()


def test_failed_sizing_leaves_no_descriptor_behind() -> None:
    """A length that cannot be had is an error and closes the file again."""
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError):  # the kernel's text for a negative length is its own affair
        memory.memory_file(-1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_raw_transfer(file: int) -> None:
    """Memory goes to a file and back without passing through Python."""
    source = C.create_string_buffer(b"0123456789", 10)
    target = C.create_string_buffer(10)
    memory.write_at(file, C.addressof(source), 10, 100)
    memory.read_at(file, C.addressof(target), 10, 100)
    assert target.raw == b"0123456789"
    with pytest.raises(OSError, match="ends too early"):
        memory.read_at(file, C.addressof(target), 10, LENGTH - 5)
    with pytest.raises(OSError, match="pwrite64"):
        memory.write_at(file, 1, 10, 0)


def test_protect(file: int) -> None:
    """Access can be taken away and given back."""
    address = memory.map_readonly(LENGTH, file)
    memory.protect(address, LENGTH, memory.PROT_READ | memory.PROT_WRITE)
    C.memmove(address, b"x", 1)
    memory.unmap(address, LENGTH)


def test_unknown_call_is_enosys() -> None:
    """A name without a number on this machine fails as a kernel without the call would."""
    with pytest.raises(OSError, match="not known") as caught:
        syscalls.raw("no_such_call")
    assert caught.value.errno == errno.ENOSYS


def test_timer_expires_once_and_can_be_disarmed() -> None:
    """An armed timer turns readable, a disarmed or re-armed one forgets what was before."""
    timer = timerfd.Timer()
    poller = select.poll()
    poller.register(timer.fd, select.POLLIN)
    timer.arm(0)
    assert poller.poll(5000)
    assert os.read(timer.fd, 8) == (1).to_bytes(8, "little")
    assert not poller.poll(0)
    timer.arm(0)
    assert poller.poll(5000)
    timer.disarm()
    assert not poller.poll(0)
    timer.arm(3600.5)
    assert not poller.poll(0)
    timer.arm(0.001)
    assert poller.poll(5000)
    os.close(timer.fd)


_DRAINED = """
import ctypes as C, os, random, sys
sys.path.insert(0, sys.argv[1])
from fastness._linux import memory
library = C.CDLL(None)
library.malloc.restype, library.malloc.argtypes = C.c_size_t, [C.c_size_t]
library.free.argtypes = [C.c_size_t]
library.sbrk.restype, library.sbrk.argtypes = C.c_size_t, [C.c_ssize_t]
sizes = [24, 40, 120, 200, 520, 1000, 4000]
# What is taken and given back all over the heap leaves pieces there, most of which are used again.
held = [library.malloc(random.choice(sizes)) for _ in range(20000)]
random.shuffle(held)
for place in held[:15000]:
    library.free(place)
def old(end):
    return sum(library.malloc(size) < end - 4096 for size in sizes for _ in range(5))
memory.trim()
before = old(library.sbrk(0))
memory.trim()
end = library.sbrk(0)
memory.drain()
print(before, old(end))
"""


def test_what_is_allocated_after_a_drain_is_at_the_end_of_the_heap() -> None:
    """Before it pieces between others were used again, and after it none is."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(memory.__file__)))
    done = subprocess.run([sys.executable, "-c", _DRAINED, root], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 20
    # What the interpreter itself gives back in between is the only exception.
    assert after <= 7

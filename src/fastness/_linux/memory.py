"""
Mappings at chosen addresses, memory files and their seals.

Python's ``mmap`` module cannot map at an address, advise on memory that it does not own or name a sealed memory
file, and a memory image needs all three.  Addresses and lengths are in bytes; every call raises ``OSError``.
"""

from __future__ import annotations

import ctypes as C
import errno
import os

from fastness._linux.syscalls import oserror, raw

PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC = 0, 1, 2, 4

MAP_PRIVATE = 0x02
MAP_FIXED = 0x10
MAP_ANONYMOUS = 0x20
MAP_NORESERVE = 0x4000

MADV_DONTNEED = 4
MADV_FREE = 8
MADV_HUGEPAGE = 14
MADV_NOHUGEPAGE = 15
MADV_POPULATE_READ = 22
MADV_POPULATE_WRITE = 23

MFD_CLOEXEC = 1
MFD_ALLOW_SEALING = 2
MFD_NOEXEC_SEAL = 8

F_ADD_SEALS = 1033
F_GET_SEALS = 1034
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE = 1, 2, 4, 8

#: No one can change the content, the size or the seals of a memory file any more.
SEALED = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

#: ``M_TRIM_THRESHOLD`` and ``M_MMAP_THRESHOLD`` of mallopt(3), and what they are set to.
_TRIM, _TRIM_BYTES = -1, 2 << 20
_MAPPED, _MAPPED_BYTES = -3, 4 << 20


def give_back() -> None:
    """
    Have the C library give free memory at the end of a heap back to the kernel, whatever was allocated before.

    By itself glibc keeps more the larger a block it has ever freed, up to 64 MiB (mallopt(3), under
    ``M_MMAP_THRESHOLD``).  Other C libraries have no such setting, and keep less.
    """
    try:
        mallopt = C.CDLL(None).mallopt
    except AttributeError:
        return
    # SAFETY: integers only.  Both are set, since setting either stops the library from adjusting the other.
    mallopt(_TRIM, _TRIM_BYTES)
    mallopt(_MAPPED, _MAPPED_BYTES)


def trim() -> None:
    """Give all free pages of the C library's heaps back to the kernel (malloc_trim(3)), where the library can."""
    try:
        malloc_trim = C.CDLL(None).malloc_trim
    except AttributeError:
        return
    # SAFETY: one integer.
    malloc_trim(0)


#: Bytes of pieces that :func:`drain` takes, the largest first; the library keeps lists of all sizes of the second part.
_PIECES = (1 << 16, 1 << 14, 1 << 12, *range(1032, 23, -16))
#: How many it takes of one size at most.
_PIECES_MOST = 4096


def drain() -> None:
    """
    Take all free pieces inside the C library's heap for good, so that what is allocated next is at its end, together.

    A piece that was freed is written to when it is used again, and they are all over the heap.  After :func:`trim`.
    """
    try:
        library = C.CDLL(None)
        malloc, sbrk = library.malloc, library.sbrk
    except AttributeError:
        return
    malloc.restype, malloc.argtypes = C.c_size_t, [C.c_size_t]
    sbrk.restype, sbrk.argtypes = C.c_size_t, [C.c_ssize_t]
    # SAFETY: asks where the heap ends, and moves nothing.
    end = sbrk(0)
    for size in _PIECES:
        for _ in range(_PIECES_MOST):
            # SAFETY: nothing is written to what this returns, and it is never freed.
            place = malloc(size)
            if not place or not end - _PAGE > place:
                break


def map_image(address: int, length: int, fd: int, offset: int = 0) -> None:
    """
    Lay ``length`` bytes of ``fd`` over the memory at ``address``: readable, writable, copied on write.

    The range must belong to the caller: whatever is mapped there is replaced.  ``length`` must not pass the end of
    the file, for touching a page beyond it is a ``SIGBUS``; the rest of a larger memory stays as it is.
    """
    # SAFETY: MAP_FIXED replaces what the caller owns, by contract; MAP_PRIVATE never writes to the file.
    got = raw("mmap", address, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, offset)
    if got != address:
        raise OSError(errno.EFAULT, "mmap: the kernel chose another address")


def map_zeros(address: int, length: int) -> None:
    """Replace the caller's own memory at ``address`` by fresh zero pages, readable and writable."""
    flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE
    # SAFETY: as in `map_image`, the range is the caller's.
    if raw("mmap", address, length, PROT_READ | PROT_WRITE, flags, -1, 0) != address:
        raise OSError(errno.EFAULT, "mmap: the kernel chose another address")


def map_readonly(length: int, fd: int, offset: int = 0) -> int:
    """Map ``length`` bytes of ``fd`` privately and read-only, anywhere; returns the address."""
    # SAFETY: without MAP_FIXED no existing mapping is touched.
    return raw("mmap", 0, length, PROT_READ, MAP_PRIVATE, fd, offset)


def unmap(address: int, length: int) -> None:
    """``munmap(2)`` of the caller's own range."""
    # SAFETY: the caller owns the range and holds no view of it any more.
    raw("munmap", address, length)


def protect(address: int, length: int, protection: int) -> None:
    """``mprotect(2)`` of the caller's own range."""
    # SAFETY: changes access only; the caller owns the range.
    raw("mprotect", address, length, protection)


def advise(address: int, length: int, advice: int) -> None:
    """``madvise(2)``.  ``MADV_DONTNEED`` on a private file mapping gives the file's content back."""
    # SAFETY: the caller owns the range; discarded pages are refilled by the kernel.
    raw("madvise", address, length, advice)


def copy(target: int, source: int, length: int) -> None:
    """``memmove(3)`` between two ranges that the caller owns."""
    # SAFETY: the caller vouches for both ranges.
    C.memmove(target, source, length)


def write_at(fd: int, address: int, length: int, offset: int) -> None:
    """Write ``length`` bytes from memory to ``fd`` at ``offset``, without a copy in Python (``pwrite64(2)``)."""
    done = 0
    while done < length:
        # SAFETY: reads the caller's own memory; the kernel checks it and answers EFAULT where it is not mapped.
        count = raw("pwrite64", fd, address + done, length - done, offset + done)
        if count == 0:
            raise oserror("pwrite64", errno.EIO)
        done += count


def read_at(fd: int, address: int, length: int, offset: int) -> None:
    """Read exactly ``length`` bytes of ``fd`` at ``offset`` to memory (``pread64(2)``)."""
    done = 0
    while done < length:
        # SAFETY: writes into the caller's own writable memory only.
        count = raw("pread64", fd, address + done, length - done, offset + done)
        if count == 0:
            raise OSError(errno.EIO, "pread64: the file ends too early")
        done += count


_name = C.create_string_buffer(b"fastness")


def memory_file(length: int = 0) -> int:
    """
    A new close-on-exec memory file of ``length`` zero bytes that can be sealed and never be executed.

    Kernels before 6.3 cannot forbid execution of a memory file; there the flag is left out.
    """
    flags = MFD_CLOEXEC | MFD_ALLOW_SEALING
    try:
        # SAFETY: the name is a static, zero-terminated buffer.
        fd = raw("memfd_create", C.addressof(_name), flags | MFD_NOEXEC_SEAL)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # SAFETY: as above.
        fd = raw("memfd_create", C.addressof(_name), flags)
    try:
        if length:
            os.ftruncate(fd, length)
    except BaseException:
        os.close(fd)
        raise
    return fd


def seal(fd: int, seals: int = SEALED) -> None:
    """Add ``seals`` to a memory file.  ``EBUSY`` while a writable shared mapping of it exists."""
    # SAFETY: integers only.
    raw("fcntl", fd, F_ADD_SEALS, seals)


def seals_of(fd: int) -> int:
    """The seals that ``fd`` carries; ``OSError`` ``EINVAL`` where it is not a memory file."""
    # SAFETY: integers only.
    return raw("fcntl", fd, F_GET_SEALS, 0)

"""
Which pages of a private mapping has this process written?

A memory image is mapped ``MAP_PRIVATE``: pages that were only read still belong to the file, pages that were
written are private copies.  To put an instance back to its image only the copies need mending, so we ask the
kernel for them: ``ioctl(PAGEMAP_SCAN)`` on ``/proc/self/pagemap`` (Linux 6.7, see ``Documentation/admin-guide/
mm/pagemap.rst``), or, on older kernels, by reading the map's 64-bit entries.

Both answer the same question, "in memory or in swap, and not of a file".  Swapped pages must count: a written page
that was swapped out is still a written page, and forgetting it would leak one guest's data to the next.
In anonymous memory beyond the image, a page that was merely read may be reported as well: more than needed, never less.
"""

from __future__ import annotations

import ctypes as C
import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: ``_IOWR('f', 16, struct pm_scan_arg)``; a seccomp profile compares the request with this number.
PAGEMAP_SCAN = 0xC0606610

#: Bytes per page.  Both kernel interfaces count in pages of the base size.
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

# Page categories of the scan.
_FILE = 1 << 2
_PRESENT = 1 << 3
_SWAPPED = 1 << 4

# Offsets of the fields of `struct pm_scan_arg`, counted in 64-bit words.
_START, _END = 2, 3

#: Regions per call; further ones take another call.
_REGIONS = 2048

#: Bytes of the map read at once by the fallback: 8 bytes for each page, so 128 MiB of memory.
_CHUNK = 256 << 10

# Top byte of a pagemap entry: bit 63 present, bit 62 swapped, bit 61 file page or shared.
_WRITTEN_BY_TOP_BYTE = bytes(1 if top & 0xC0 and not top & 0x20 else 0 for top in range(256))

_ioctl: Any = None
if sys.platform.startswith("linux"):
    # SAFETY: the C library that this interpreter already runs on.
    _ioctl = C.CDLL(None, use_errno=True).ioctl
    _ioctl.restype = C.c_int
    _ioctl.argtypes = [C.c_int, C.c_ulong, C.c_void_p]


def open_pagemap() -> int:
    """A read-only descriptor of this process's own page map.  Open it before the process is confined."""
    return os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)


class Scanner:
    """
    A page map with its buffers, made once and used for every run.

    One thread at a time.  The first scan finds out whether the kernel has ``PAGEMAP_SCAN``.
    """

    __slots__ = ("_address", "_fields", "_keep", "_regions", "fd", "has_scan")

    def __init__(self, fd: int) -> None:
        vector = (C.c_uint64 * (3 * _REGIONS))()
        argument = (C.c_uint64 * 12)(
            96, 0, 0, 0, 0, C.addressof(vector), _REGIONS, 0, _FILE, _FILE, _PRESENT | _SWAPPED, _FILE
        )  # size flags start end walk_end vec vec_len max_pages inverted mask anyof return_mask
        self.fd = fd
        self.has_scan: bool | None = None
        self._keep = (vector, argument)
        self._address = C.addressof(argument)
        self._fields = memoryview(argument).cast("B").cast("Q")
        self._regions = memoryview(vector).cast("B").cast("Q")

    def dirty(self, start: int, end: int) -> list[tuple[int, int]]:
        """
        The written ranges of ``[start, end)`` as ascending ``(start, end)`` addresses, page aligned.

        Raises ``OSError`` where the map cannot be read.
        """
        if self.has_scan is None:
            try:
                found = self.scan(start, end)
            except OSError as error:
                if error.errno not in (errno.ENOTTY, errno.EINVAL):
                    raise
                self.has_scan = False
            else:
                self.has_scan = True
                return found
        return self.scan(start, end) if self.has_scan else dirty_by_reading(self.fd, start, end)

    def scan(self, start: int, end: int) -> list[tuple[int, int]]:
        """As :meth:`dirty`, by ``PAGEMAP_SCAN`` only.  Raises ``OSError`` ``ENOTTY`` on kernels before 6.7."""
        found: list[tuple[int, int]] = []
        fields = self._fields
        while start < end:
            fields[_START], fields[_END] = start, end
            # SAFETY: the argument block and the vector it points to live as long as `self`; the kernel writes at
            # most `vec_len` regions, and the block's `walk_end`.
            count = _ioctl(self.fd, PAGEMAP_SCAN, self._address)
            if count < 0:
                number = C.get_errno()
                raise OSError(number, "ioctl(PAGEMAP_SCAN): " + os.strerror(number))
            words = self._regions[: 3 * count].tolist()
            if found and words and found[-1][1] == words[0]:
                # The last call's regions filled the vector in the middle of this range.
                words[0] = found.pop()[0]
            found += zip(words[::3], words[1::3], strict=True)
            if count < _REGIONS:
                break
            # The vector was full.  Go on where the last region ended, not at `walk_end`: after a walk of several
            # internal steps the kernel may leave an earlier address there, and ranges would be found twice.
            start = words[-2]
        return found


def dirty_by_reading(fd: int, start: int, end: int) -> list[tuple[int, int]]:
    """As :meth:`Scanner.dirty`, from the entries of ``/proc/self/pagemap``; works on every kernel since 4.2."""
    found: list[tuple[int, int]] = []
    page = PAGE
    position, stop = start // page * 8, -(-end // page) * 8
    opened = -1  # start of a range that a chunk's end left open
    while position < stop:
        entries = os.pread(fd, min(_CHUNK, stop - position), position)
        if not entries or len(entries) % 8:
            raise OSError(errno.EIO, "/proc/self/pagemap: short read")
        # One byte for each page, 1 where written; then `find` jumps from edge to edge.
        written = entries[7::8].translate(_WRITTEN_BY_TOP_BYTE)
        base = position // 8
        at = 0
        while True:
            if opened < 0:
                at = written.find(1, at)
                if at < 0:
                    break
                opened = (base + at) * page
            at = written.find(0, at)
            if at < 0:
                break
            found.append((opened, (base + at) * page))
            opened = -1
        position += len(entries)
    if opened >= 0:
        found.append((opened, stop // 8 * page))
    return found


_scanners: dict[int, Scanner] = {}


def dirty_ranges(fd: int, start: int, end: int) -> list[tuple[int, int]]:
    """
    The written ranges of ``[start, end)``, by ``PAGEMAP_SCAN`` on the page map ``fd``.

    A :class:`Scanner` is kept for each descriptor, so one thread at a time for each.
    Raises ``OSError``: ``ENOTTY`` where the kernel has no such request.
    """
    scanner = _scanners.get(fd)
    if scanner is None:
        scanner = _scanners[fd] = Scanner(fd)
    return scanner.scan(start, end)

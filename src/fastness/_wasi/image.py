"""
Memory images: a warm guest's linear memory in a file, mapped copy-on-write over a fresh instance's.

Why this is sound.  Between export calls a guest's whole state is its linear memory, its descriptors and file tree
(ours), and mutable globals.  The guests that we ship have one mutable global, the stack pointer, which is back at
its start after every export call that returned; their tables never change.  So memory alone makes an instance, and
an instance whose last call *returned* is made clean by giving it the image's memory again.  After a trap, an exit
or a growth the instance is dropped instead.
"""

from __future__ import annotations

import ctypes
import os

from fastness._linux import memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fastness._linux.pagemap import Scanner
    from fastness._wasi.binding import Instance

PAGE = 65536
#: Words of a Mersenne Twister's state, and the index that says "all words used up".
_MT_WORDS = 624
#: How many bytes of written pages a reset copies back one by one; above it all but the hot pages are dropped.
_HOT_SLACK = 1.4
#: Bytes of clean pages between two written ranges that are copied along.
_BRIDGE = 4096


class Image:
    """
    One image: ``fd`` (read-only, at least ``size`` bytes), what was open when it was made, where its generators are.

    ``saved`` are open descriptors as (number, label, path, offset, flags); ``generators`` are addresses of
    (state words) pairs; ``state`` are the driver's own numbers, such as a context pointer.
    """

    __slots__ = ("fd", "generators", "hot", "hot_bytes", "read_only", "saved", "size", "state")

    def __init__(
        self, fd: int, size: int, saved: list[Any], generators: list[tuple[int, int]], state: dict[str, int]
    ) -> None:
        self.fd = fd
        self.size = size
        self.saved = saved
        self.generators = generators
        self.state = state
        self.hot: list[tuple[int, int]] = []
        self.hot_bytes = 0
        self.read_only = memory.map_readonly(size, fd)


def restore(instance: Instance, image: Image) -> None:
    """
    Give a fresh instance the image's memory.

    Raises ``WasmtimeError`` where the store's memory limit is below the image's size, ``OSError`` where mapping fails.
    """
    missing = image.size - instance.size()
    if missing > 0:
        instance.grow((missing + PAGE - 1) // PAGE)
    # SAFETY: [base, base+size) lies inside the instance's own linear memory, which was grown to hold it; the file is
    # at least `size` long, so no access past its end can raise SIGBUS; the mapping is private, so writes stay here.
    memory.map_image(instance.base(), image.size, image.fd)


def reset(instance: Instance, image: Image, scanner: Scanner) -> bool:
    """
    Put the image's bytes back over every page that was written since.  False where the instance cannot be reused.
    """
    if instance.size() != image.size:
        return False
    base = instance.base()
    ranges = scanner.dirty(base, base + image.size)
    total = 0
    for start, end in ranges:
        total += end - start
    source = image.read_only - base
    if image.hot and total > image.hot_bytes * _HOT_SLACK + (256 << 10):
        # A large run: pages outside the hot list go back to the kernel, so that one big run does not make the
        # engine keep (and copy) its pages for ever.
        at = base
        for start, end in [*image.hot, (image.size, image.size)]:
            if base + start > at:
                # SAFETY: the range is inside our private mapping; its pages read as the image again afterwards.
                memory.advise(at, base + start - at, memory.MADV_DONTNEED)
            at = base + end
            if end > start:
                ctypes.memmove(base + start, image.read_only + start, end - start)
        return True
    last = len(ranges) - 1
    begin = -1
    for i, (start, end) in enumerate(ranges):
        if begin < 0:
            begin = start
        if i < last and ranges[i + 1][0] - end <= _BRIDGE:
            # A call costs more than copying a few pages that were clean; from the next time on they count as written.
            continue
        # SAFETY: the kernel reported these pages inside [base, base+size), and the image covers all of it.
        ctypes.memmove(begin, source + begin, end - begin)
        begin = -1
    return True


def learn_hot(instance: Instance, image: Image, scanner: Scanner, most: int = 64 << 20) -> None:
    """Remember which pages a small run writes, where that is ``most`` bytes: those are copied back, never dropped."""
    base = instance.base()
    if instance.size() != image.size:
        return
    ranges = scanner.dirty(base, base + image.size)
    total = sum(end - start for start, end in ranges)
    if total <= most:
        image.hot = [(start - base, end - base) for start, end in ranges]
        image.hot_bytes = total


def same(instance: Instance, image: Image) -> bool:
    """Whether the instance's memory is byte for byte the image's."""
    if instance.size() != image.size:
        return False
    base = instance.base()
    step = 1 << 20
    for at in range(0, image.size, step):
        length = min(step, image.size - at)
        # SAFETY: reads inside two mappings of at least `size` bytes.
        if ctypes.string_at(base + at, length) != ctypes.string_at(image.read_only + at, length):
            return False
    return True


def reseed(base: int, image: Image, random: Callable[[int], bytes]) -> None:
    """
    Fill every Mersenne Twister of the image with new words.

    All 624 words are random and the index says that they are used up, so the next draw regenerates; this costs
    microseconds where seeding from inside the guest costs half a millisecond.
    """
    for words, index in image.generators:
        # SAFETY: both addresses were checked to lie inside the image when it was loaded.
        ctypes.memmove(base + words, random(4 * _MT_WORDS), 4 * _MT_WORDS)
        ctypes.memmove(base + index, _MT_WORDS.to_bytes(4, "little"), 4)


def find_generator(memory: bytes, start: int, first_words: list[int]) -> tuple[int, int] | None:
    """
    Offsets of (state words, index) of a Mersenne Twister in ``memory``, a copy of the object at ``start``.

    CPython keeps the index before the words, numpy behind them; an index is a number of at most 624.
    """
    needle = b"".join(word.to_bytes(4, "little") for word in first_words)
    at = memory.find(needle)
    if at < 0 or at % 4 or memory.find(needle, at + 1) >= 0 or at + 4 * _MT_WORDS > len(memory):
        return None
    after = at + 4 * _MT_WORDS
    for index in (after, at - 4):
        if 0 <= index <= len(memory) - 4 and 0 < int.from_bytes(memory[index : index + 4], "little") <= _MT_WORDS:
            return start + at, start + index
    return None


def save(instance: Instance, fd: int) -> int:
    """Write the instance's whole linear memory to ``fd`` and return its size.  Raises ``OSError``."""
    size, base = instance.size(), instance.base()
    done = 0
    while done < size:
        # SAFETY: reads only inside the instance's own linear memory.
        piece = ctypes.string_at(base + done, min(size - done, 4 << 20))
        done += os.pwrite(fd, piece, done)
    return size

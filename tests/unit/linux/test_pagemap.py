"""Which pages were written: both interfaces agree with what was done, and nothing that was written is missed."""

from __future__ import annotations

import ctypes as C
import errno
import os
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import house
from fastness._linux import memory, pagemap

PAGE = pagemap.PAGE
PAGES = 6000


class Image:
    """A private mapping of a sealed memory file, as an instance's memory is."""

    def __init__(self, pages: int) -> None:
        self.length = pages * PAGE
        self.file = memory.memory_file(self.length)
        os.pwrite(self.file, random.Random(1).randbytes(self.length), 0)
        memory.seal(self.file)
        self.base = memory.map_readonly(self.length, self.file)
        self.reset()

    def reset(self) -> None:
        memory.map_image(self.base, self.length, self.file)

    def write(self, page: int) -> None:
        C.c_char.from_address(self.base + page * PAGE + 7).value = b"w"

    def read(self, page: int) -> None:
        assert C.c_char.from_address(self.base + page * PAGE).value is not None

    def pages(self, ranges: list[tuple[int, int]]) -> list[int]:
        """The page numbers in ``ranges``, in order, with repetitions if there are any."""
        return [page for start, end in ranges for page in range((start - self.base) // PAGE, (end - self.base) // PAGE)]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    made = Image(PAGES)
    yield made
    memory.unmap(made.base, made.length)
    os.close(made.file)


@pytest.fixture(scope="module")
def fd() -> Iterator[int]:
    opened = pagemap.open_pagemap()
    yield opened
    os.close(opened)


def has_scan(fd: int) -> bool:
    scanner = pagemap.Scanner(fd)
    scanner.dirty(0, PAGE)
    return bool(scanner.has_scan)


def all_ways(fd: int, start: int, end: int) -> list[list[tuple[int, int]]]:
    """What each interface that this kernel has says."""
    found = [pagemap.Scanner(fd).dirty(start, end), pagemap.dirty_by_reading(fd, start, end)]
    if has_scan(fd):
        found += [pagemap.Scanner(fd).scan(start, end), pagemap.dirty_ranges(fd, start, end)]
    return found


@given(st.sets(st.integers(0, PAGES - 1), max_size=200), st.sets(st.integers(0, PAGES - 1), max_size=50))
@settings(deadline=None, max_examples=house.examples(40))
def test_exactly_the_written_pages_are_found(image: Image, fd: int, written: set[int], read: set[int]) -> None:
    """Pages that were only read belong to the file and are not reported."""
    image.reset()
    for page in read:
        image.read(page)
    for page in written:
        image.write(page)
    for ranges in all_ways(fd, image.base, image.base + image.length):
        assert image.pages(ranges) == sorted(written)
        assert all(end < start for (_, end), (start, _) in pairwise(ranges))


def test_more_ranges_than_fit_one_call(image: Image, fd: int) -> None:
    """Thousands of scattered pages are found once each, although the kernel answers in several portions."""
    image.reset()
    written = list(range(0, PAGES, 2))
    for page in written:
        image.write(page)
    for ranges in all_ways(fd, image.base, image.base + image.length):
        assert image.pages(ranges) == written


def test_everything_written_is_one_range(image: Image, fd: int) -> None:
    """Neighbouring pages are joined, also across the portions that the map is read in."""
    image.reset()
    for page in range(PAGES):
        image.write(page)
    for ranges in all_ways(fd, image.base, image.base + image.length):
        assert ranges == [(image.base, image.base + image.length)]


def test_ranges_are_joined_across_small_portions(image: Image, fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where portions end in the middle of a range, it is still one range."""
    monkeypatch.setattr(pagemap, "_CHUNK", 8 * 16)
    monkeypatch.setattr(pagemap, "_REGIONS", 3)
    image.reset()
    written = [page for page in range(400) if page % 7 < 4 or 100 <= page < 150]
    for page in written:
        image.write(page)
    for ranges in all_ways(fd, image.base, image.base + image.length):
        assert image.pages(ranges) == written
        assert all(end < start for (_, end), (start, _) in pairwise(ranges))


def test_only_the_asked_for_part_is_reported(image: Image, fd: int) -> None:
    """Ranges are cut at the ends of what was asked for."""
    image.reset()
    for page in range(10, 30):
        image.write(page)
    for ranges in all_ways(fd, image.base + 15 * PAGE, image.base + 20 * PAGE):
        assert image.pages(ranges) == [15, 16, 17, 18, 19]
    for ranges in all_ways(fd, image.base, image.base):
        assert ranges == []


def test_memory_given_back_is_clean_again(image: Image, fd: int) -> None:
    """After MADV_DONTNEED a page shows the file again and is not reported."""
    image.reset()
    image.write(3)
    image.write(4)
    memory.advise(image.base + 3 * PAGE, PAGE, memory.MADV_DONTNEED)
    for ranges in all_ways(fd, image.base, image.base + image.length):
        assert image.pages(ranges) == [4]


def test_anonymous_memory_beyond_the_image_is_reported_when_written(image: Image, fd: int) -> None:
    """Memory that a guest grew is not of the file, and its written pages are found as well."""
    image.reset()
    memory.map_zeros(image.base + 100 * PAGE, 10 * PAGE)
    image.write(103)
    for ranges in all_ways(fd, image.base, image.base + image.length):
        assert image.pages(ranges) == [103]


def test_swapped_pages_count_as_written(image: Image, fd: int) -> None:
    """A written page that went to swap is still a written page."""
    with open("/proc/swaps", "rb") as file:
        if len(file.read().splitlines()) < 2:
            pytest.skip("this host has no swap")
    image.reset()
    for page in range(0, 300, 3):
        image.write(page)
    memory.advise(image.base, image.length, 21)  # MADV_PAGEOUT
    for ranges in all_ways(fd, image.base, image.base + image.length):
        assert image.pages(ranges) == list(range(0, 300, 3))


def test_entry_bits() -> None:
    """Present or swapped, and not of a file: every combination of the three bits, whatever the others say."""
    for top in range(256):
        present, swapped, of_file = top >> 7 & 1, top >> 6 & 1, top >> 5 & 1
        assert pagemap._WRITTEN_BY_TOP_BYTE[top] == ((present or swapped) and not of_file)


def test_old_kernels_are_served_by_reading(image: Image, fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the request is unknown the scanner reads the map, and asks the kernel only once."""
    asked = []

    def refuse(*arguments: object) -> int:
        asked.append(arguments)
        C.set_errno(errno.ENOTTY)
        return -1

    monkeypatch.setattr(pagemap, "_ioctl", refuse)
    image.reset()
    image.write(5)
    scanner = pagemap.Scanner(fd)
    for _ in range(3):
        assert image.pages(scanner.dirty(image.base, image.base + image.length)) == [5]
    assert len(asked) == 1
    with pytest.raises(OSError, match="PAGEMAP_SCAN") as caught:
        scanner.scan(image.base, image.base + image.length)
    assert caught.value.errno == errno.ENOTTY


def test_other_failures_are_not_taken_for_an_old_kernel(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an unknown request selects the other way; anything else is an error."""

    def refuse(*arguments: object) -> int:
        C.set_errno(errno.EFAULT)
        return -1

    monkeypatch.setattr(pagemap, "_ioctl", refuse)
    with pytest.raises(OSError, match="PAGEMAP_SCAN"):
        pagemap.Scanner(fd).dirty(0, PAGE)


def test_short_read_is_an_error(tmp_path: os.PathLike[str]) -> None:
    """A map that ends early would hide written pages."""
    path = os.path.join(tmp_path, "map")
    with open(path, "wb") as file:
        file.write(bytes(12))
    with open(path, "rb") as file:
        for start in (0, 8):
            with pytest.raises(OSError, match="short read"):
                pagemap.dirty_by_reading(file.fileno(), start * PAGE, (start + 9) * PAGE)

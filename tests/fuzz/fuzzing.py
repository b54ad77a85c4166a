"""
What every fuzz target is made of: choices read out of bytes, and bounds that hold for each input.

A target says what must hold for any bytes at all; see ``Target``.  It needs nothing but the package, so the same
targets run under a coverage-guided fuzzer (``run.py``) and under hypothesis, here and in the ordinary suite.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds of processor time that one input may take; the largest are a few kilobytes.
CPU_S = 5.0
#: Of so many blocks whose memory is bounded, one is measured: that takes longer than most blocks.  A long run sets it.
measured_each = 1
_blocks = itertools.count()


@dataclass(frozen=True)
class Target:
    """
    One parser under test.

    ``one`` raises for bytes with which something does not hold that ``says`` promises.  ``seeds`` makes inputs to begin
    with, ``words`` are pieces of the language, and no input is longer than ``most`` bytes.
    """

    name: str
    says: str
    one: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()
    most: int = 1024

    def judge(self, data: bytes) -> None:
        """One input, and the time it takes."""
        before = time.process_time()
        self.one(data)
        spent = time.process_time() - before
        assert spent < CPU_S, f"{len(data)} bytes took {spent:.1f} s of processor time"


class Source:
    """Reads choices out of bytes; where there are none left, every choice is the first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, count: int) -> int:
        """A number from 0 on, ``count`` of which there are, at most 256."""
        return self.byte() % count

    def pick(self, choices: Any) -> Any:
        return choices[self.below(len(choices))]

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def number(self, size: int) -> int:
        """A number of so many bytes."""
        return int.from_bytes(self.take(size), "little")

    def rest(self) -> bytes:
        return self.take(len(self._data))


def text_of(data: bytes) -> str:
    """Bytes as text: UTF-8 that also has lone surrogates, and Latin-1 where they are not even that."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


@contextmanager
def memory(most: int) -> Iterator[None]:
    """Fails where the block holds more than ``most`` bytes at any time beyond what there was before it."""
    if next(_blocks) % measured_each:
        yield
        return
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak <= most, f"{peak} bytes of memory were held, where {most} are the bound"


def descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd"))


#: The folder for all places, where a long run gives one.
above: Path | None = None
_places: list[Path] = []
_kept: dict[type[Any], Any] = {}


def kept(what: type[T]) -> T:
    """The one of its kind: what takes longer to make than an input takes is made once."""
    if what not in _kept:
        _kept[what] = what()
    made: T = _kept[what]
    return made


def place(name: str) -> Path:
    """A folder for a target's files: in memory where there is such a place, so that nothing waits for a disk."""
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None
    _places.append(Path(tempfile.mkdtemp(prefix=f"fastness-fuzz{name}-{os.getpid()}-", dir=above or in_memory)))
    return _places[-1]


@atexit.register
def clear() -> None:
    """Remove what targets have made; it is made again when it is needed."""
    _kept.clear()
    while _places:
        shutil.rmtree(_places.pop(), ignore_errors=True)


def mutated(target: Target) -> Any:
    """A hypothesis strategy: any bytes, and seeds with bytes changed, cut out, doubled or put in."""
    from hypothesis import strategies as st

    seeds = target.seeds()

    @st.composite
    def changed(draw: st.DrawFn) -> bytes:
        data = bytearray(draw(st.sampled_from(seeds)))
        for _ in range(draw(st.integers(0, 6))):
            at = draw(st.integers(0, len(data)))
            match draw(st.integers(0, 4)):
                case 0 if at < len(data):
                    data[at] = draw(st.integers(0, 255))
                case 1:
                    del data[at : at + draw(st.integers(1, 20))]
                case 2:
                    data[at:at] = data[at : at + draw(st.integers(1, 40))]
                case 3 if target.words:
                    data[at:at] = draw(st.sampled_from(target.words))
                case _:
                    data[at:at] = draw(st.binary(max_size=8))
        return bytes(data[: target.most])

    return st.binary(max_size=min(target.most, 200)) | changed()

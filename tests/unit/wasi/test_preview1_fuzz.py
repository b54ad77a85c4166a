"""Random calls with random arguments: no exception, no write outside memory, no cap passed, always an errno."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st
from preview1_world import MAX_FDS, QUOTA_BYTES, Caller, FakeMemory, World

import house
from fastness._wasi import memfs_tree, preview1
from fastness._wasi.preview1_abi import ERRNO_MAX
from fastness._wasi.preview1_memory import MAX_TRANSFER
from fastness._wasi.preview1_misc import RANDOM_CHUNK

PATHS = [
    b"hello.txt",
    b"full",
    b"full/inner.txt",
    b"empty",
    b"new",
    b"..",
    b".",
    b"lib/file.txt",
    b"/",
    b"a/",
    b"\xff",
    b"\0",
]

small = st.integers(0, 8)
address = st.integers(0, 0x10000) | st.sampled_from([0x200, 0x400, 0x800, 0x1000, 0xFFFF, 0xFFF0])
edge = st.sampled_from([0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF8, 0x10000])
i32 = small | address | edge | st.integers(0, 2**32 - 1)
i64 = i32 | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**30 - 1]) | st.integers(0, 2**64 - 1)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[int]]:
    """An import and arguments for it; paths often point at something that makes sense."""
    name = draw(st.sampled_from(sorted(preview1.SIGNATURES)))
    arguments = [draw(i32 if kind == "i" else i64) for kind in preview1.SIGNATURES[name]]
    if name.startswith(("path_", "fd_", "sock_")) and draw(st.booleans()):
        arguments[0] = draw(st.integers(0, 7))
    if name.startswith("path_") and draw(st.booleans()):
        which = draw(st.integers(0, len(PATHS) - 1))
        at = 2 if name in ("path_open", "path_filestat_get", "path_filestat_set_times", "path_link") else 1
        arguments[at : at + 2] = [0x1000 + 0x40 * which, len(PATHS[which])]
        if name == "path_open" and draw(st.booleans()):
            arguments[4:9] = [draw(st.integers(0, 15)), 2**30 - 1 - 64 * draw(st.integers(0, 1)), 2**30 - 1, 0, 0x100]
    return name, arguments


def furnished() -> FakeMemory:
    """A memory with paths at 0x1000, buffer lists at 0x200, subscriptions at 0x400 and noise."""
    memory = FakeMemory()
    memory.put(0, bytes(range(256)))
    for index, path in enumerate(PATHS):
        memory.put(0x1000 + 0x40 * index, path)
    memory.put(0x200, struct.pack("<8I", 0x2000, 16, 0x2100, 0, 0x1000, 0x8000, 0, 0x10000))
    for tag in range(4):
        memory.put(0x400 + 48 * tag, struct.pack("<QB7xIxxxxQQH6x", tag, tag, tag, 10, 0, 0))
    return memory


@settings(max_examples=house.examples(400), deadline=None)
@given(st.lists(calls(), min_size=1, max_size=30))
def test_random_calls(sequence: list[tuple[str, list[int]]]) -> None:
    """Whatever a guest calls in whatever order, host memory stays within the caps and every answer is an errno."""
    world = World()
    caller = Caller(world, furnished())
    for name, arguments in sequence:
        errno = caller(name, *arguments)
        if errno == -1:
            assert name == "proc_exit"
            assert isinstance(world.host.exc, preview1.ProcExit)
            world.host.exc = None
        else:
            assert 0 <= errno <= ERRNO_MAX, name
        assert world.host.exc is None, name
        assert len(world.host.fds) <= MAX_FDS
        assert world.quota.bytes <= QUOTA_BYTES
    assert caller.memory.guards_intact()
    assert all(size <= RANDOM_CHUNK for size in world.random_sizes)
    assert sum(len(data) for _, data in world.output) <= MAX_TRANSFER * len(sequence)
    assert len(world.denials.rows()) <= 64
    world.host.close_all()
    files = list(memfs_tree.walk(world.work))
    assert world.quota.bytes == sum(len(node.data) for _, node in files)


@settings(max_examples=house.examples(200), deadline=None)
@given(st.binary(max_size=300))
def test_random_paths(raw: bytes) -> None:
    """Any bytes as a path end with an errno, and never lead to a node outside the descriptor's tree."""
    world = World()
    caller = Caller(world)
    address, length = caller.path(raw)
    inside = {id(world.work)} | {id(node) for node in _nodes(world.work)}
    for oflags in (0, 1):
        errno = caller("path_open", 4, 0, address, length, oflags, 2, 0, 0, 0x100)
        assert 0 <= errno <= ERRNO_MAX
        if errno == 0:
            node = world.host.fds[caller.memory.u32(0x100)].node
            assert id(node) in inside | {id(node) for node in _nodes(world.work)}
    assert caller.memory.guards_intact()


def _nodes(top: object) -> list[object]:
    children = list(getattr(top, "entries", {}).values())
    return children + [node for child in children for node in _nodes(child)]

"""What the host promises to the engine around the calls: waiting, stopping, caps, denials, descriptors of our own."""

from __future__ import annotations

import ctypes
import gc
import inspect
import mmap
import struct
import weakref

import pytest
from preview1_world import Caller, FakeMemory, StopRun, World

from fastness._wasi import memfs_tree, preview1
from fastness._wasi.memfs import Dir, File, Quota
from fastness._wasi.preview1_abi import FAULT, MFILE, NOENT, NOSPC
from fastness._wasi.preview1_calls import SHAPES
from fastness._wasi.preview1_denials import ROWS_MAX, TARGET_MAX, DenialLog, printable
from fastness._wasi.preview1_memory import MAX_IOVECS, MAX_TRANSFER, stream


class SparseMemory(FakeMemory):
    """A large memory of zeros that takes no space until it is written."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._map = mmap.mmap(-1, size)
        self._view = ctypes.c_char.from_buffer(self._map)

    def base(self) -> int:
        """Address of byte 0."""
        return ctypes.addressof(self._view)


class LeapingClock(preview1.Clock):
    """Three thousand seconds pass between two looks."""

    __slots__ = ("_looks",)

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0

    def monotonic(self) -> int:
        """The next leap."""
        self._looks += 1
        return self._looks * 3000 * 10**9


def test_methods_take_what_the_signatures_say() -> None:
    """Every import is a method with as many parameters as its signature, and every shape has a callback."""
    for name, kinds in preview1.SIGNATURES.items():
        assert len(inspect.signature(getattr(preview1.Host, name)).parameters) == len(kinds) + 1, name
    assert set(SHAPES) == set(preview1.SIGNATURES.values())


def test_no_call_before_a_run_or_after_it() -> None:
    """Without a host nothing raises into native code: what needs one traps, the rest is an errno."""
    callbacks = preview1.callbacks([None], lambda: 7)
    slots = (ctypes.c_uint32 * 64)()
    harmless = {name for name, call in callbacks.items() if call(None, None, slots, 16) != 7}
    assert harmless == {"poll_oneoff", "sched_yield"}


def test_a_bug_of_ours_ends_the_guest_and_is_kept() -> None:
    """An unexpected exception becomes a trap; the first one stays."""
    world = World()
    caller = Caller(world)
    world.host.clock = None  # type: ignore[assignment]  # breaks the host on purpose
    assert caller("clock_time_get", 0, 0, 0) == -1
    first = world.host.exc
    assert isinstance(first, AttributeError)
    assert first.__traceback__ is None
    assert world.host.where.startswith("_now:")
    assert caller("clock_time_get", 1, 0, 0) == -1
    assert world.host.exc is first


def test_a_sleep_waits_until_its_time_is_over() -> None:
    """With a real clock the engine's wait is called until the clock says so, with the rest each time."""
    world = World(LeapingClock())
    caller = Caller(world)
    caller.memory.put(0x400, struct.pack("<QB7xI4xQQH6x", 1, 0, 1, 10_000 * 10**9, 0, 0))
    assert caller("poll_oneoff", 0x400, 0x800, 1, 0x100) == 0
    assert world.waits == [3600.0, 3600.0, 1000.0]


def test_the_deadline_ends_a_sleep() -> None:
    """``wait`` raises at the deadline; the guest ends with that."""
    world = World(preview1.Clock())
    caller = Caller(world)
    caller.memory.put(0x400, struct.pack("<QB7xI4xQQH6x", 1, 0, 0, 2**64 - 1, 0, 0))

    def stop(seconds: float) -> None:
        raise StopRun

    world.on_wait = stop
    assert caller("poll_oneoff", 0x400, 0x800, 1, 0x100) == -1
    assert isinstance(world.host.exc, StopRun)


def test_the_deadline_ends_a_huge_request_for_randomness() -> None:
    """Randomness comes in chunks, and between megabytes the run can be stopped."""
    world = World()
    world.host.random = bytes
    caller = Caller(world, SparseMemory(64 << 20))
    assert caller("random_get", 0, 8 << 20) == 0
    assert world.waits == [0.0] * 7

    def stop(seconds: float) -> None:
        raise StopRun

    world.on_wait = stop
    assert caller("random_get", 0, 64 << 20) == -1
    assert isinstance(world.host.exc, StopRun)


def test_a_generator_that_gives_too_little_is_a_bug_not_a_loop() -> None:
    """The engine's generator must give what it is asked for."""
    world = World()
    world.host.random = lambda count: b""
    assert Caller(world)("random_get", 0, 8) == -1
    assert isinstance(world.host.exc, RuntimeError)


class Traced(bytearray):
    """Content whose end can be seen: a plain bytearray takes no weak reference."""


def test_a_run_is_freed_without_the_cycle_collector() -> None:
    """After ``close_all`` and ``discard`` nothing refers to a run's files, even where it ended by an exception."""
    gc.disable()
    try:
        world = World()
        caller = Caller(world)
        number = caller.open("full/big", 1, 66)[1]
        node = world.host.fds[number].node
        assert isinstance(node, File)
        node.data = Traced()
        assert caller.write(number, b"x" * 1000) == (0, 1000)
        assert caller("proc_exit", 3) == -1
        content = weakref.ref(node.data)
        host, root = world.host, world.root
        del caller, world, node
        assert content() is not None
        host.close_all()
        memfs_tree.discard(root)
        assert content() is None
    finally:
        gc.enable()


def test_one_call_moves_a_bounded_number_of_bytes() -> None:
    """A thousand buffers that are all the same 32 MiB do not become 32 GiB here: the transfer is short."""
    world = World()
    caller = Caller(world, SparseMemory(64 << 20))
    caller.memory.put(0x1000, struct.pack("<II", 0x100000, MAX_TRANSFER) * MAX_IOVECS)
    assert caller("fd_write", 1, 0x1000, MAX_IOVECS, 0x100) == 0
    assert caller.memory.u32(0x100) == MAX_TRANSFER
    assert [len(data) for _, data in world.output] == [MAX_TRANSFER]
    assert caller("fd_write", 1, 0x1000, 1, 0x100) == 0
    caller.memory.put(0x1000, struct.pack("<II", 0x100000, 64 << 20))
    assert caller("fd_write", 1, 0x1000, 1, 0x100) == FAULT
    caller.memory.put(0x1000, struct.pack("<II", 0, 64 << 20))
    assert caller("fd_write", 1, 0x1000, 1, 0x100) == 0
    assert caller.memory.u32(0x100) == MAX_TRANSFER


def test_memory_that_has_grown_is_seen() -> None:
    """The cached size is renewed when an address lies beyond it."""
    world = World()
    memory = FakeMemory()
    caller = Caller(world, memory)
    world.host.size = 16
    assert caller("clock_time_get", 0, 0, 1000) == 0
    assert world.host.size == memory.size()


def test_a_module_without_memory_gets_fault() -> None:
    """Nothing is read from address zero of the process."""
    world = World()
    callbacks = preview1.callbacks([world.host], lambda: 7)
    slots = (ctypes.c_uint32 * 64)()
    callbacks["args_sizes_get"](None, None, slots, 16)
    assert slots[0] == FAULT


def test_the_file_count_is_a_quota() -> None:
    """Past the cap on files, nothing more is made and a denial says so."""
    world = World(max_files=6)
    caller = Caller(world)
    assert [caller.open(name, 1)[0] for name in ("one", "two", "three")] == [0, 0, NOSPC]
    assert world.denied() == {("path_open", "/work/three", "quota")}


def test_descriptors_are_capped_and_their_numbers_used_again() -> None:
    """MFILE at the cap; closing makes the lowest number free."""
    world = World()
    caller = Caller(world)
    opened = []
    while True:
        errno, number = caller.open("hello.txt")
        if errno:
            break
        opened.append(number)
    assert errno == MFILE
    assert opened == list(range(5, 32))
    assert caller("fd_close", 9) == 0
    assert caller("fd_close", 7) == 0
    assert [caller.open("hello.txt") for _ in range(2)] == [(0, 7), (0, 9)]


def test_a_file_lives_as_long_as_its_descriptor() -> None:
    """Unlinked and written to: charged; closed: given back."""
    world = World()
    caller = Caller(world)
    before = world.quota.bytes, world.quota.files
    number = caller.open("temporary", 1, 66)[1]
    assert caller.write(number, b"12345") == (0, 5)
    assert caller("path_unlink_file", 4, *caller.path("temporary")) == 0
    assert caller.write(number, b"678") == (0, 3)
    assert world.quota.bytes == before[0] + 8
    assert caller("fd_close", number) == 0
    assert (world.quota.bytes, world.quota.files) == before


def test_close_all_gives_back_unlinked_files() -> None:
    """At the end of a run nothing is charged but what has a name."""
    world = World()
    caller = Caller(world)
    number = caller.open("temporary", 1, 66)[1]
    caller.write(number, b"12345")
    caller("path_unlink_file", 4, *caller.path("temporary"))
    world.host.close_all()
    assert world.quota.bytes == 12
    assert world.host.fds == {}


def test_a_channel_is_a_descriptor_with_two_ends() -> None:
    """The engine's channel reads what was put in and hands out what is written."""
    world = World()
    caller = Caller(world)
    got: list[bytes] = []
    world.host.install(1000, stream(b"request", got.append))
    assert caller.read(1000, 4) == (0, b"requ")
    assert caller.read(1000, 40) == (0, b"est")
    assert caller.read(1000, 40) == (0, b"")
    assert caller.write(1000, b"answer") == (0, 6)
    assert got == [b"answer"]
    assert caller.open("hello.txt") == (0, 5)
    world.host.install(1000, stream(b"", None))
    assert caller.write(1000, b"answer")[0] == 8


def test_descriptors_are_restored_with_an_image() -> None:
    """Number, node, offset and flags come back; a read-only file without the right to write."""
    world = World()
    caller = Caller(world)
    node = world.library.entries["file.txt"]
    world.host.restore_fd(7, node, 3, 0)
    assert world.host.open_files() == [(7, node, 3, 0)]
    assert caller.read(7, 10) == (0, b"rary")
    assert caller.write(7, b"x")[0] == 8
    assert [caller.open("hello.txt")[1] for _ in range(3)] == [5, 6, 8]
    for number, offset in ((7, 0), (2, 0), (1 << 16, 0), (9, -1)):
        with pytest.raises(ValueError, match="restored"):
            world.host.restore_fd(number, node, offset, 0)


def test_standard_input_is_renewed_for_a_next_turn() -> None:
    """``set_stdin`` replaces what is left, unless the guest closed it."""
    world = World()
    caller = Caller(world)
    caller.read(0, 3)
    world.host.set_stdin(b"more")
    assert caller.read(0, 100) == (0, b"more")
    caller("fd_close", 0)
    world.host.set_stdin(b"lost")
    assert caller.read(0, 100)[0] == 8


def test_absent_is_reported_for_the_root_only() -> None:
    """What the root lacks is a denial; what is missing deeper, or below another preopen, is an ordinary error."""
    world = World()
    caller = Caller(world)
    for path in ("etc/passwd", "home/x/.ssh/id_rsa", "work/../proc/self/environ", "lib/nope", "etc"):
        assert caller.open(path, number=3)[0] == NOENT
    assert caller.open("etc/passwd", number=4)[0] == NOENT
    assert {(target, code) for _, target, code in world.denied()} == {
        ("/etc/passwd", "absent"),
        ("/home/x/.ssh/id_rsa", "absent"),
        ("/work/../proc/self/environ", "absent"),
        ("/etc", "absent"),
    }


def test_absent_is_not_reported_when_it_is_off() -> None:
    """Any other WASI program gets plain errors."""
    world = World()
    world.host.root = None
    assert Caller(world).open("etc/passwd", number=3)[0] == NOENT
    assert world.denied() == set()


def test_a_fixed_clock_moves_only_by_sleeping() -> None:
    """Times of new files, and both clocks, are the same in every run."""
    times = []
    for _ in range(2):
        world = World()
        caller = Caller(world)
        caller.memory.put(0x400, struct.pack("<QB7xI4xQQH6x", 1, 0, 0, 5_000_000_000, 0, 0))
        caller("poll_oneoff", 0x400, 0x800, 1, 0x100)
        caller.open("new", 1)
        caller("path_filestat_get", 4, 0, *caller.path("new"), 0x200)
        times.append(caller.memory.get(0x200, 64))
    assert times[0] == times[1]
    assert struct.unpack_from("<Q", times[0], 48) == (1_700_000_005_000_000_000,)


def test_a_real_clock_starts_with_the_run() -> None:
    """The monotonic clock tells nothing of the host's uptime, is never zero, and does not go back."""
    clock = preview1.Clock()
    first = clock.monotonic()
    assert 10**9 <= first < 61 * 10**9
    assert first <= clock.monotonic()
    assert clock.cpu() >= 0


def test_standard_output_is_a_terminal_only_if_asked() -> None:
    """``tty`` decides the file type of 1 and 2."""
    root = Dir(Quota())
    for tty, filetype in ((True, 2), (False, 0)):
        host = preview1.Host(
            [],
            [],
            [(b"/", root)],
            b"",
            lambda fd, data: None,
            preview1.Clock(0),
            bytes,
            DenialLog(),
            lambda s: None,
            tty=tty,
        )
        assert [host.fds[n].filetype for n in (0, 1, 2, 3)] == [0, filetype, filetype, 3]


def test_inode_numbers_are_equal_in_equal_runs() -> None:
    """Nothing a guest can see depends on what ran before."""
    assert [node.ino for node in _files(World())] == [node.ino for node in _files(World())]


def _files(world: World) -> list[File]:
    return [node for node in world.work.entries.values() if isinstance(node, File)]


def test_denials_are_merged_and_capped() -> None:
    """Equal rows count up, distinct ones past the cap are dropped and counted, the log stays small."""
    log = DenialLog()
    for i in range(200):
        log.add("path_open", f"/{i}" + "x" * 1000, "absent")
        log.add("sock_send", "fd 1", "wasi_refused")
    rows = log.rows()
    assert len(rows) == ROWS_MAX
    assert log.dropped == 200 - (ROWS_MAX - 1)
    assert rows[1] == ("sock_send", "fd 1", "wasi_refused", "wasi", 200)
    assert all(len(target) <= TARGET_MAX for _, target, _, _, _ in rows)


def test_denials_show_no_control_characters() -> None:
    """A target can neither move the cursor nor change colours nor hide in reading direction."""
    assert printable("a\x1b[31mb\n\u202e\x00") == "a\\x1b[31mb\\n\\u202e\\x00"
    assert printable("naïve/путь") == "naïve/путь"
    assert len(printable("\x1b" * 1000)) == TARGET_MAX
    for code in (*range(0x20), *range(0x7F, 0xA1), 0x2028, 0xD800, 0xE0001):
        assert printable(chr(code)) == chr(code).encode("unicode_escape").decode()

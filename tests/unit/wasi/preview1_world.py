"""The world that the preview 1 tests' guests see, and a way to run a small WebAssembly text program in it."""

from __future__ import annotations

import ctypes
import itertools
import pathlib
import struct
import tempfile
from collections.abc import Callable

from fastness._wasi import binding, memfs_tree, preview1
from fastness._wasi.memfs import Dir, Quota

PROGRAMS = pathlib.Path(__file__).parents[2] / "guests" / "preview1"
FIXED_TIME = 1_700_000_000 * 10**9
STAGED_TIME = 1_600_000_000 * 10**9
QUOTA_BYTES = 1 << 20
MAX_FDS = 32


class StopRun(Exception):
    """What the engine raises in ``wait`` when a run must end."""


def library() -> Dir:
    """A shared read-only tree."""
    return memfs_tree.build_tree({"file.txt": b"library", "sub/deep.txt": b"deep"}, read_only=True, now=STAGED_TIME)


class World:
    """
    A host with arguments, environment, standard input, ``/`` (read-only, with ``lib`` and ``work``) as descriptor 3
    and ``/work`` (writable) as 4, a fixed clock, counting random bytes and a quota of 1 MiB.
    """

    def __init__(self, clock: preview1.Clock | None = None, max_files: int = 100) -> None:
        self.quota = Quota(max_bytes=QUOTA_BYTES, max_files=max_files)
        self.work = Dir(self.quota, False, STAGED_TIME)
        memfs_tree.add(self.work, "hello.txt", b"hello world", STAGED_TIME)
        memfs_tree.add(self.work, "full/inner.txt", b"x", STAGED_TIME)
        memfs_tree.add(self.work, "empty", None, STAGED_TIME)
        for node in (self.work, *self.work.entries.values()):
            node.atim = node.mtim = node.ctim = STAGED_TIME
        self.library = library()
        self.root = Dir(self.quota, True, STAGED_TIME)
        memfs_tree.mount(self.root, "lib", self.library)
        memfs_tree.mount(self.root, "work", self.work)
        self.output: list[tuple[int, bytes]] = []
        self.waits: list[float] = []
        self.random_sizes: list[int] = []
        self.denials = preview1.DenialLog()
        counter = itertools.count()

        def random(count: int) -> bytes:
            self.random_sizes.append(count)
            return bytes(next(counter) & 0xFF for _ in range(count))

        self.host = preview1.Host(
            args=[b"prog", b"one", b""],
            env=[b"A=1", b"B="],
            preopens=[(b"/", self.root), (b"/work", self.work)],
            stdin=b"input bytes",
            write_out=lambda fd, data: self.output.append((fd, data)),
            clock=clock if clock is not None else preview1.Clock(FIXED_TIME),
            random=random,
            denials=self.denials,
            wait=self._wait,
            max_fds=MAX_FDS,
            report_absent=True,
        )
        self.on_wait: Callable[[float], None] = lambda seconds: None

    def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.on_wait(seconds)

    def denied(self) -> set[tuple[str, str, str]]:
        """(operation, target, code) of each recorded denial."""
        return {(operation, target, code) for operation, target, code, _, _ in self.denials.rows()}


class Machine:
    """One wasmtime engine with our imports; every program runs in it one after another."""

    def __init__(self) -> None:
        self.library = binding.load(binding.find_library())
        self.engine = binding.Engine(self.library, binding.EngineConfig(user_module=True, parallel=False))
        self.linker = binding.Linker(self.engine)
        self.current: list[preview1.Host | None] = [None]
        preview1.register(self.linker, self.current)

    def run(self, text: str, world: World, name: bytes = b"test") -> int:
        """Assemble, instantiate and call the program.  Raises ``binding.Trap``."""
        code = binding.compile_module(self.engine, binding.wat2wasm(self.library, text))
        with tempfile.NamedTemporaryFile() as file:
            file.write(code)
            file.flush()
            module = binding.Module.deserialize_file(self.engine, file.name)
        instance = binding.Instance(self.engine, self.linker.instantiate_pre(module), 1 << 20)
        try:
            world.host.bind(instance)
            self.current[0] = world.host
            return instance.call(name)
        finally:
            self.current[0] = None
            instance.close()


class FakeMemory:
    """A linear memory in a ctypes buffer, between two guard zones that nothing may ever touch."""

    GUARD = 4096

    def __init__(self, size: int = 1 << 16) -> None:
        self._size = size
        self._buffer = ctypes.create_string_buffer(b"\xa5" * self.GUARD + bytes(size) + b"\xa5" * self.GUARD)

    def base(self) -> int:
        """Address of byte 0."""
        return ctypes.addressof(self._buffer) + self.GUARD

    def size(self) -> int:
        """Bytes."""
        return self._size

    def put(self, address: int, data: bytes) -> tuple[int, int]:
        """Store ``data``; returns its address and length, as most calls take them."""
        assert address + len(data) <= self._size
        ctypes.memmove(self.base() + address, data, len(data))
        return address, len(data)

    def get(self, address: int, count: int) -> bytes:
        """Load bytes."""
        return ctypes.string_at(self.base() + address, count)

    def u32(self, address: int) -> int:
        """Load 32 bits."""
        return int.from_bytes(self.get(address, 4), "little")

    def guards_intact(self) -> bool:
        """Whether nothing was written outside."""
        raw = self._buffer.raw
        end = self.GUARD + self._size
        return raw[: self.GUARD] == raw[end : end + self.GUARD] == b"\xa5" * self.GUARD


class Caller:
    """Calls imports as a guest would, through the raw callbacks."""

    TRAP = 0x7EA9

    def __init__(self, world: World, memory: FakeMemory | None = None) -> None:
        self.memory = memory if memory is not None else FakeMemory()
        self.world = world
        world.host.bind(self.memory)
        self._callbacks = preview1.callbacks([world.host], lambda: self.TRAP)
        self._slots = (ctypes.c_uint32 * 64)()

    def __call__(self, name: str, *args: int) -> int:
        """The errno; -1 where the guest ended with a trap."""
        for i, value in enumerate(args):
            self._slots[4 * i] = value & 0xFFFFFFFF
            self._slots[4 * i + 1] = (value >> 32) & 0xFFFFFFFF
        result = self._callbacks[name](None, None, self._slots, 16)
        if result is not None:
            assert result == self.TRAP
            return -1
        return self._slots[0]

    def path(self, text: str | bytes, at: int = 0x4000) -> tuple[int, int]:
        """Put a path into memory."""
        return self.memory.put(at, text if isinstance(text, bytes) else text.encode())

    def open(self, path: str, oflags: int = 0, rights: int = 2, flags: int = 0, number: int = 4) -> tuple[int, int]:
        """(errno, descriptor) of ``path_open``."""
        errno = self("path_open", number, 0, *self.path(path), oflags, rights, 0, flags, 0x100)
        return errno, self.memory.u32(0x100)

    def write(self, number: int, data: bytes) -> tuple[int, int]:
        """(errno, bytes written) of ``fd_write``."""
        self.memory.put(0x110, struct.pack("<II", *self.memory.put(0x5000, data)))
        errno = self("fd_write", number, 0x110, 1, 0x100)
        return errno, self.memory.u32(0x100)

    def read(self, number: int, count: int) -> tuple[int, bytes]:
        """(errno, bytes) of ``fd_read``."""
        self.memory.put(0x110, struct.pack("<II", 0x5000, count))
        errno = self("fd_read", number, 0x110, 1, 0x100)
        return errno, self.memory.get(0x5000, self.memory.u32(0x100)) if not errno else b""

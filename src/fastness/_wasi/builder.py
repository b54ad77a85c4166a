"""
Makes a guest ready: verified artefacts, native code from the cache or freshly compiled, opened and checked.

The first use of a guest that has a quick module compiles only that, so that a result comes within seconds, while a
process in the background compiles the whole; whoever asks next gets the whole.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from fastness._wasi import guests, keys, stamps
from fastness._wasi.cache import Cache, DamagedEntry
from fastness.errors import BackendError, ConfigurationError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from typing import Self

    from fastness._wasi.binding import EngineConfig
    from fastness._wasi.guests import Guest


class Progress(NamedTuple):
    """
    How far a build is.

    ``stage`` is ``verify``, ``wait`` (another process builds the same), ``quick``, ``full``, ``image`` or ``ready``.
    ``done`` of ``total`` are seconds of the stage by estimate; ``elapsed_s`` and ``estimate_s`` are of this stage;
    ``disk_bytes`` is what it will take in the cache.
    """

    stage: str
    done: float
    total: float
    elapsed_s: float
    estimate_s: float
    disk_bytes: int
    message: str


class LibraryFile(NamedTuple):
    """An archive of a guest's library: ``fd`` is a verified read-only descriptor, ``path`` is a label only."""

    path: str
    fd: int
    size: int
    sha256: str


class Artefact:
    """
    A guest that is ready to load.  The descriptors belong to the holder: :meth:`close` it, or use it as a context.

    ``fd`` has the native code and was checked through itself; load it with ``settings`` from
    ``/proc/self/fd/N``.  ``name`` is its entry's name, for messages.
    """

    __slots__ = ("digest", "fd", "guest", "library", "name", "settings", "size", "variant")

    def __init__(
        self,
        guest: Guest,
        variant: str,
        name: str,
        fd: int,
        size: int,
        digest: str,
        library: tuple[LibraryFile, ...],
    ) -> None:
        self.guest = guest
        self.variant = variant
        self.name = name
        self.fd = fd
        self.size = size
        self.digest = digest
        self.settings: EngineConfig = keys.settings_for(variant)
        self.library = library

    def close(self) -> None:
        """Close every descriptor.  Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            for file in self.library:
                os.close(file.fd)
            self.library = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def ensure(
    name: str,
    want: str = "any",
    progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
    cache: Cache | None = None,
    background_build: bool = True,
) -> Artefact:
    """
    The guest ``name``, ready to load; builds what is missing and shows it through ``progress``.

    ``want`` is ``"any"`` (the quick module will do; the whole is then built in the background) or ``"full"``.
    ``progress`` may raise to give up: nothing half-made stays.

    Raises :class:`~fastness.errors.ConfigurationError` for an unknown guest or an unsafe cache folder,
    :class:`~fastness.errors.BackendError` where artefacts are missing or the build fails,
    :class:`~fastness._wasi.compiler.Cancelled` once ``cancel`` is set.
    """
    guest = guests.get(name)
    if want not in ("any", "full"):
        raise ConfigurationError("want", want, "any or full")
    build = _Build(guest, cache or Cache(), progress, cancel)
    variants = ("full", "quick") if want == "any" and guest.quick else ("full",)
    opened = next((found for found in map(build.open, variants) if found is not None), None)
    if opened is None:
        opened = build.make(variants[-1])
    variant, entry_name, fd, size, digest = opened
    try:
        library = _open_library(guest, build.cache)
    except BaseException:
        os.close(fd)
        raise
    artefact = Artefact(guest, variant, entry_name, fd, size, digest, library)
    if variant == "quick" and background_build:
        from fastness._wasi import background

        # The result does not depend on it: a failure to start shows again, and is tried again, at the next use.
        with contextlib.suppress(BackendError, OSError):
            background.start(guest, build.cache)
    build.say("ready", 0.0, 0.0, 0, f"{guest.name} is ready ({variant})")
    return artefact


def full_ready(name: str, cache: Cache | None = None) -> bool:
    """Whether the whole module's code is there; cheap enough to ask before a run."""
    return (cache or Cache()).lookup(keys.code_name(guests.get(name), "full")) is not None


def _open_library(guest: Guest, cache: Cache) -> tuple[LibraryFile, ...]:
    opened: list[LibraryFile] = []
    try:
        for file in guest.library:
            fd = stamps.open_verified(guest, file, cache.path)
            opened.append(LibraryFile(os.path.basename(file.path), fd, file.size, file.sha256))
    except BaseException:
        for library_file in opened:
            os.close(library_file.fd)
        raise
    return tuple(opened)


def cost(name: str) -> tuple[float, float, int]:
    """
    What building the guest ``name`` costs, by estimate: seconds to a first result, seconds to the whole, bytes on disk.

    Raises :class:`~fastness.errors.ConfigurationError` for an unknown guest.
    """
    guest = guests.get(name)
    first = guest.quick_cpu_s if guest.quick else guest.full_cpu_s
    return estimate_s(first), estimate_s(guest.full_cpu_s), guest.code_bytes


def estimate_s(cpu_s: float) -> float:
    """Seconds that ``cpu_s`` seconds of compilation take on the cores that this process may use, busy as they are."""
    cores = max(1, len(os.sched_getaffinity(0)))
    try:
        busy = os.getloadavg()[0]
    except OSError:
        busy = 0.0
    # Its threads share all cores with whoever else wants to run (proc_loadavg(5)).
    return cpu_s / (0.93 * cores) * max(1.0, (busy + cores) / (os.cpu_count() or cores))


_Opened = tuple[str, str, int, int, str]


class _Build:
    """One call of :func:`ensure`."""

    def __init__(
        self,
        guest: Guest,
        cache: Cache,
        progress: Callable[[Progress], None] | None,
        cancel: threading.Event | None,
    ) -> None:
        self.guest = guest
        self.cache = cache
        self._progress = progress
        self._cancel = cancel

    def say(self, stage: str, elapsed: float, estimate: float, disk: int, message: str) -> None:
        if self._progress is not None:
            self._progress(Progress(stage, min(elapsed, estimate), estimate, elapsed, estimate, disk, message))

    def open(self, variant: str) -> _Opened | None:
        """The variant's code, checked; None where it must be made (again)."""
        name = keys.code_name(self.guest, variant)
        try:
            fd = self.cache.open_checked(name)
        except FileNotFoundError:
            return None
        except DamagedEntry as error:
            self.say("verify", 0.0, 0.0, 0, f"the compiled code was damaged and is made again: {error.why}")
            return None
        entry = self.cache.lookup(name)
        size = os.fstat(fd).st_size
        return variant, name, fd, size, entry.digest if entry is not None else ""

    def make(self, variant: str) -> _Opened:
        """Compile the variant, or wait for the process that does."""
        name = keys.code_name(self.guest, variant)
        with self.cache.lock(name, self._waiting):
            opened = self.open(variant)
            if opened is None:
                compile_guest(self.guest, variant, self.cache, self.say, self._cancel)
                opened = self.open(variant)
        if opened is None:
            raise BackendError(
                f"opening {name}", "it was damaged as soon as it was written", "check the disk that holds the cache"
            )
        if variant == "full":
            drop_superseded(self.guest, self.cache)
        return opened

    def _waiting(self, waited: float) -> None:
        from fastness._wasi import background
        from fastness._wasi.compiler import Cancelled

        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled
        state = background.read_status(self.guest, self.cache)
        estimate = state.estimate_s if state is not None else estimate_s(self.guest.full_cpu_s)
        started = time.time() - state.started if state is not None else waited
        self.say("wait", max(0.0, started), estimate, 0, f"another process is building {self.guest.name}")


def compile_guest(
    guest: Guest,
    variant: str,
    cache: Cache,
    say: Callable[[str, float, float, int, str], None],
    cancel: threading.Event | None = None,
    source: int = -1,
) -> None:
    """
    Compile into the cache; the caller holds the entry's lock.  ``source`` is an open artefact, or -1 to find it.

    Raises :class:`~fastness.errors.BackendError` and what :class:`~fastness._wasi.compiler.Compilation` raises.
    """
    # Not needed where everything is built, and so not imported by every start.
    from fastness._wasi.compiler import GUEST_CODE_BYTES, GUEST_COMPILE_S, Compilation
    from fastness._wasi.wasmbin import InvalidModule

    quick = variant == "quick"
    estimate = estimate_s(guest.quick_cpu_s if quick else guest.full_cpu_s)
    disk = guest.quick_bytes if quick else guest.code_bytes
    what = "the interpreter and its standard library" if quick else "the whole module"
    message = f"compiling {guest.name}: {what}"
    say(variant, 0.0, estimate, disk, message)
    _require_space(cache, disk)
    found = source if source >= 0 else guests.open_file(guest, guest.code)
    start = time.monotonic()

    def write(target: int) -> None:
        compilation = Compilation(
            found,
            target,
            keys.settings_for(variant),
            sha256=guest.code.sha256,
            transform="quick" if quick else "strip",
            exports=guest.exports,
            slim=True,
            most=GUEST_CODE_BYTES,
        )
        try:
            compilation.wait(GUEST_COMPILE_S, cancel, lambda elapsed: say(variant, elapsed, estimate, disk, message))
        except InvalidModule as error:
            raise BackendError(
                f"compiling {guest.name}", error, f"pip install --force-reinstall {guest.distribution}=={guest.version}"
            ) from error
        except TimeoutError:
            raise BackendError(
                f"compiling {guest.name}", f"it took more than {GUEST_COMPILE_S:g} s", "use a faster machine"
            ) from None

    try:
        info = {"guest": guest.name, "version": guest.version, "variant": variant, "wasmtime": keys.wasmtime()[0]}
        cache.put(keys.code_name(guest, variant), write, info)
    finally:
        if source < 0:
            os.close(found)
    say(variant, time.monotonic() - start, estimate, disk, f"compiled {guest.name}")


def _require_space(cache: Cache, disk: int) -> None:
    """Fail before minutes of work rather than after."""
    status = os.statvfs(cache.path)
    free = status.f_bavail * status.f_frsize
    if free < disk:
        raise BackendError(
            f"compiling into {cache.path}",
            f"{disk >> 20} MiB are needed and {free >> 20} MiB are free",
            "free disk space, or set FASTNESS_HOME to a folder on a disk that has room",
        )


def drop_superseded(guest: Guest, cache: Cache) -> int:
    """Once the whole module is there, remove the quick one and code of other versions; returns the bytes freed."""
    full = keys.code_name(guest, "full")
    if cache.lookup(full) is None:
        return 0
    freed = 0
    for entry in cache.entries():
        if entry.name.startswith("code-") and entry.name != full and entry.info.get("guest") == guest.name:
            freed += cache.remove(entry.name)
    return freed

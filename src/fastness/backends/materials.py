"""
What an engine of one guest is made of: native code, library archives and a memory image, as checked descriptors.

Descriptors stay open for the life of this process, so that each file is verified once and every engine maps exactly
the bytes that were verified.  Making an image uses an engine too, in a mode in which it may write one descriptor.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable
from typing import Any

from fastness._wasi import builder, guests, inventory, keys, library
from fastness._wasi.cache import Cache, DamagedEntry
from fastness._wasi.guest_javascript import SOURCES as JAVASCRIPT_SOURCES
from fastness._wasi.guest_python import SOURCES as PYTHON_SOURCES
from fastness.backends import own_files
from fastness.backends.engine_process import EngineLost, EngineProcess
from fastness.errors import BackendError, ConfigurationError
from fastness.waiting import ThreadWaiting, Waiting, drive
from fastness.wire import messages as m

#: What a warm Python guest has imported where nobody says otherwise.
DEFAULT_PRELOAD = ("numpy", "pandas", "matplotlib")
_MODULE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_PRELOAD_MAX = 64
#: Seconds that making an image may take; measured: 2 s for the default preload on a quiet machine.
_IMAGE_S = 240.0

Progress = Callable[[builder.Progress], None]


class Said:
    """
    Tells about long builds through the logger ``fastness`` where a caller has not asked for progress.

    A first use may take minutes; without a word it would look like a hang.  One line for each stage.
    """

    def __init__(self) -> None:
        self._stage = ""

    def __call__(self, progress: builder.Progress) -> None:
        """Take one step of a builder's progress."""
        if progress.stage != self._stage and progress.estimate_s > 3 and progress.elapsed_s > 1:
            self._stage = progress.stage
            import logging

            logging.getLogger("fastness").warning(
                "%s, once: about %.0f s (`fastness guest build` does it ahead)", progress.message, progress.estimate_s
            )


class StubMet(Exception):
    """The quick module lacks what was asked for; the whole one has it."""


class Materials:
    """Everything that engines of one (runtime, preload) need.  ``variant`` is ``quick``, ``full`` or ``user``."""

    def __init__(self, runtime: str, variant: str, preload: tuple[str, ...], module_fd: int, settings: Any) -> None:
        self.runtime = runtime
        self.variant = variant
        self.preload = preload
        self.module_fd = module_fd
        self.settings = settings
        self.library_fd = -1
        self.bundle_fd = -1
        self.image_fd = -1
        self.image_meta = ""

    def descriptors(self) -> list[int]:
        """What an engine inherits."""
        return [fd for fd in (self.module_fd, self.library_fd, self.bundle_fd, self.image_fd) if fd >= 0]

    def options(self, mode: str, image_fd: int = -1) -> dict[str, Any]:
        """The engine's start options."""
        options: dict[str, Any] = {
            "mode": mode,
            "variant": self.variant,
            "library": keys.wasmtime()[1],
            "stack": self.settings.stack,
            "opt_level": self.settings.opt_level,
            "regalloc": self.settings.regalloc,
            "user_module": self.settings.user_module,
            "module_fd": self.module_fd,
        }
        if self.library_fd >= 0:
            options["library_fd"] = self.library_fd
        if self.bundle_fd >= 0:
            options["bundle_fd"] = self.bundle_fd
        if mode == "image":
            options["image_fd"] = image_fd
        elif self.image_fd >= 0:
            options["image_fd"] = self.image_fd
            options["image"] = self.image_meta
        return options


def check_preload(preload: tuple[Any, ...]) -> tuple[str, ...]:
    """Module names in the order given, without repeats.  Raises ConfigurationError."""
    if len(preload) > _PRELOAD_MAX:
        raise ConfigurationError("preload", f"{len(preload)} modules", f"at most {_PRELOAD_MAX}")
    for name in preload:
        if not isinstance(name, str) or len(name) > 200 or not _MODULE_NAME.fullmatch(name):
            raise ConfigurationError("preload", name, "dotted module names")
    return tuple(dict.fromkeys(preload))


_lock = threading.Lock()
_known: dict[tuple[str, str, tuple[str, ...], str], Materials] = {}


def full_ready(runtime: str) -> bool:
    """Whether the whole module of a guest is compiled; cheap."""
    return builder.full_ready(runtime)


def takeover_ready(runtime: str, preload: tuple[str, ...]) -> bool:
    """
    Whether engines on the whole module can be had without a wait: its code is there, and nobody is at its image.
    """
    if not full_ready(runtime):
        return False
    cache = Cache()
    name = _image_name(runtime, preload)
    return cache.lookup(name) is not None or not cache.is_locked(name)


def prepare_default(cache: Cache) -> None:
    """Make the default Python image in ``cache``, for a builder in the background."""
    get("python", DEFAULT_PRELOAD, "full", background=False, cache=cache)
    # The image without modules served while there was only the quick module; who asks for it makes it in a second.
    cache.remove(_image_name("python", ()))


def get(
    runtime: str,
    preload: tuple[str, ...],
    want: str,
    progress: Progress | None = None,
    background: bool = True,
    cache: Cache | None = None,
) -> Materials:
    """
    Materials of a language guest, building what is missing.  Blocks; call it on a worker thread.

    ``want`` is ``any`` (a quick module will do, then without preload) or ``full``.  Raises ConfigurationError where a
    preload module does not exist, BackendError where a build fails.
    """
    with _lock:
        cache = cache or Cache()
        for variant in ("full", "quick") if want == "any" else ("full",):
            wanted = preload if variant == "full" else ()
            found = _known.get((runtime, variant, wanted, cache.path))
            if found is not None and (variant == "full" or not takeover_ready(runtime, preload)):
                return found
        artefact = builder.ensure(runtime, want, progress, cache=cache, background_build=background)
        wanted = preload if artefact.variant == "full" else ()
        materials = Materials(runtime, artefact.variant, wanted, artefact.fd, artefact.settings)
        for file in artefact.library:
            materials.library_fd = file.fd
        if runtime == "python":
            materials.bundle_fd = _bundle(artefact, cache)
        _attach_image(materials, cache, progress)
        _known[(runtime, materials.variant, wanted, cache.path)] = materials
        return materials


def _bundle(artefact: builder.Artefact, cache: Cache) -> int:
    """Matplotlib's data files as one mapped file, unpacked once."""
    file = artefact.library[0]
    name = "bundle-" + hashlib.sha256(b"bundle 1 " + file.sha256.encode()).hexdigest()[:32]

    def write(fd: int) -> None:
        _write_all(fd, library.pack_bundle(library.matplotlib_data(f"/proc/self/fd/{file.fd}")))

    return _open_or_make(cache, name, write, {"guest": "python", "holds": "matplotlib data"})


def _open_or_make(cache: Cache, name: str, write: Callable[[int], None], info: dict[str, str]) -> int:
    for _ in range(2):
        try:
            return cache.open_checked(name)
        except (FileNotFoundError, DamagedEntry):
            with cache.lock(name):
                if cache.lookup(name) is None:
                    cache.put(name, write, info)
    return cache.open_checked(name)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def boot_sources(runtime: str) -> tuple[str, str]:
    """The texts that run inside a guest while its image is made: (encoder, boot code)."""
    if runtime == "python":
        names = [f"{name}.py" for name, _ in PYTHON_SOURCES]
    else:
        names = [f"{name}.js" for name in JAVASCRIPT_SOURCES]
    texts = [own_files.text("guest", name) for name in names]
    return texts[0], "\0".join(texts[1:])


def _boot_digest(runtime: str) -> str:
    """A digest of all code of ours that decides what is in an image."""
    encode, boot = boot_sources(runtime)
    return hashlib.sha256(f"{encode}\0{boot}\0{_driver_source(runtime)}".encode()).hexdigest()


def _image_name(runtime: str, preload: tuple[str, ...]) -> str:
    return keys.image_name(guests.get(runtime), _boot_digest(runtime), preload)


def _attach_image(materials: Materials, cache: Cache, progress: Progress | None) -> None:
    encode, boot = boot_sources(materials.runtime)
    name = _image_name(materials.runtime, materials.preload)
    for _ in range(3):
        try:
            fd = cache.open_checked(name)
        except (FileNotFoundError, DamagedEntry):
            with cache.lock(name):
                if cache.lookup(name) is None:
                    _make_image(materials, cache, name, encode, boot, progress)
            continue
        entry = cache.lookup(name)
        if entry is None:
            os.close(fd)
            continue
        materials.image_fd = fd
        materials.image_meta = entry.info["image"]
        return
    raise BackendError("opening the memory image", "it was damaged as soon as it was written", "check the disk")


def _driver_source(runtime: str) -> str:
    """The driver decides the tree and the preopens, which are part of every image."""
    names = ["image.py", "library.py", f"guest_{runtime}.py", *(["quickjs.py"] if runtime == "javascript" else [])]
    return "\0".join(own_files.text("_wasi", name) for name in names)


def _make_image(
    materials: Materials, cache: Cache, name: str, encode: str, boot: str, progress: Progress | None
) -> None:
    """Warm one guest up inside a confined engine and keep its memory."""
    estimate = 1.0 + 3.0 * len(materials.preload)
    shown = ", ".join(materials.preload) or "no modules"
    if progress is not None:
        disk = (3 if materials.runtime == "javascript" else 110 if materials.preload else 40) << 20
        progress(builder.Progress("image", 0, estimate, 0, estimate, disk, f"memory image with {shown}"))
    meta: list[str] = []
    guest = guests.get(materials.runtime)
    made_by = _boot_digest(materials.runtime)
    info = {
        "guest": guest.name, "preload": ",".join(materials.preload), "boot": made_by, "sha256": guest.code.sha256,
    }  # fmt: skip

    def write(fd: int) -> None:
        meta.append(drive(_record(materials, fd, encode, boot, ThreadWaiting())))
        # The record is written after the file, from this same dictionary.
        info["image"] = meta[0]

    cache.put(name, write, info)
    if progress is not None:
        progress(builder.Progress("ready", 0.0, 0.0, 0.0, 0.0, 0, f"{guest.name} is ready"))
    # What other boot code made will not be asked for again.
    inventory.prune_images(cache, guest, made_by)


async def _record(materials: Materials, fd: int, encode: str, boot: str, waiting: Waiting) -> str:
    engine = EngineProcess.spawn([*[d for d in materials.descriptors() if d != materials.image_fd], fd], waiting)
    try:
        await engine.start(materials.runtime, materials.options("image", fd))
        code, stdin = encode.encode(), boot.encode()
        head = m.Invoke(
            id=engine.next_id(),
            op="image",
            code_len=len(code),
            stdin_len=len(stdin),
            preload=materials.preload,
        )
        await engine.invoke(head, code + stdin)
        meta = ""
        with waiting.limit(_IMAGE_S):
            while True:
                message, blob = await engine.receive()
                if isinstance(message, m.Event) and message.name == "image":
                    meta = blob.decode()
                elif isinstance(message, m.Error):
                    if message.where == "stub":
                        raise StubMet(message.message)
                    raise _image_error(materials, message.message)
                elif isinstance(message, m.Result):
                    break
        json.loads(meta)
        return meta
    except EngineLost as lost:
        raise BackendError("making a memory image", lost.why, "run: fastness doctor") from None
    except TimeoutError:
        raise BackendError("making a memory image", f"not done after {_IMAGE_S:g} s", "preload fewer modules") from None
    finally:
        engine.close()


def _image_error(materials: Materials, text: str) -> Exception:
    last = text.strip().splitlines()[-1] if text.strip() else "no reason given"
    if "ModuleNotFoundError" in text or "ImportError" in text:
        return ConfigurationError("preload", ", ".join(materials.preload), f"modules of the guest ({last})")
    return BackendError("making a memory image", last, "preload other modules, or report this")


def installed(runtime: str) -> bool:
    """Whether the artefacts of a language guest are installed."""
    try:
        guest = guests.get(runtime)
        os.close(guests.open_file(guest, guest.code))
    except (ConfigurationError, BackendError):
        return False
    return True

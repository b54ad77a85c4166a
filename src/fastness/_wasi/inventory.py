"""
What guests are built, what they take on disk, and the removal of what is not used any more.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from fastness._wasi import background, guests, keys
from fastness._wasi.cache import Cache, DamagedEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastness._wasi.cache import Entry
    from fastness._wasi.guests import Guest

#: All memory images together take at most this many bytes; the least recently used go first.
IMAGES_CAP = 200 << 20


class ImageInfo(NamedTuple):
    """One memory image: which modules are imported in it, and its size in bytes."""

    name: str
    preload: tuple[str, ...]
    size_bytes: int


class GuestInfo(NamedTuple):
    """
    One guest as ``fastness guest list`` shows it.

    ``variant`` is ``full``, ``quick`` or empty; ``digest`` is the SHA-256 of its artefact; ``size_bytes`` is what its
    native code takes, ``package_bytes`` the installed package that the artefact comes from; ``state`` is ``ready``,
    ``building``, ``absent`` or ``damaged``; ``note`` says more.
    """

    name: str
    version: str
    variant: str
    digest: str
    size_bytes: int
    wasmtime: str
    state: str
    images: tuple[ImageInfo, ...]
    note: str
    package_bytes: int = 0


def list_guests(cache: Cache | None = None) -> list[GuestInfo]:
    """Every guest of the catalogue.  Reads records only: see :func:`verify` for contents."""
    cache = cache or Cache()
    return [_describe(guest, cache, frozenset()) for guest in guests.GUESTS.values()]


def verify(cache: Cache | None = None) -> list[GuestInfo]:
    """
    Check every byte of every entry, and of every installed artefact that an entry was made from.

    A damaged entry is removed, to be made again at the next use, and its guest's state is ``damaged``.
    Raises :class:`~fastness.errors.BackendError` where an installed artefact is missing or not the catalogue's.
    """
    cache = cache or Cache()
    damaged: dict[str, str] = {}
    for entry in cache.entries():
        try:
            os.close(cache.open_checked(entry.name))
        except DamagedEntry as error:
            damaged[entry.info.get("guest", "")] = str(error)
        except FileNotFoundError:
            pass
    for guest in guests.GUESTS.values():
        if cache.lookup(keys.code_name(guest, "full")) or cache.lookup(keys.code_name(guest, "quick")):
            for file in (guest.code, *guest.library):
                os.close(guests.open_verified(guest, file))
    found = []
    for guest in guests.GUESTS.values():
        info = _describe(guest, cache, frozenset(damaged))
        found.append(info._replace(note=damaged[guest.name]) if guest.name in damaged else info)
    return found


def _describe(guest: Guest, cache: Cache, damaged: frozenset[str]) -> GuestInfo:
    variant, size, note = "", 0, ""
    for candidate in ("full", "quick"):
        entry = cache.lookup(keys.code_name(guest, candidate))
        if entry is not None:
            variant, size = candidate, entry.size
            break
    building = background.is_building(guest, cache)
    if guest.name in damaged:
        state = "damaged"
    elif building:
        state = "building"
    else:
        state = "ready" if variant else "absent"
    if variant != "full":
        status = background.read_status(guest, cache)
        if status is not None and (building or status.stage == "failed"):
            note = status.message
    images = tuple(
        ImageInfo(e.name, _preload(e), e.size)
        for e in cache.entries()
        if e.name.startswith("image-") and e.info.get("guest") == guest.name
    )
    version, _ = keys.wasmtime()
    return GuestInfo(
        guest.name, guest.version, variant, guest.code.sha256, size, version, state, images, note, _package_bytes(guest)
    )


def _preload(entry: Entry) -> tuple[str, ...]:
    return tuple(part for part in entry.info.get("preload", "").split(",") if part)


def put_image(
    guest: Guest,
    boot: str,
    preload: tuple[str, ...],
    writer: Callable[[int], None],
    info: dict[str, str],
    cache: Cache,
    extra: str = "",
) -> Entry:
    """
    Store a memory image made by a trusted warm-up, and drop images that it makes useless.

    ``writer`` gets a read-write descriptor of an empty file.  ``info`` is kept beside the image and comes back in
    the entry's ``info``, whose values are texts.  ``boot`` and ``extra`` are as in
    :func:`~fastness._wasi.keys.image_name`; the caller holds that name's lock.  Raises
    :class:`~fastness.errors.BackendError` as :meth:`~fastness._wasi.cache.Cache.put` does.
    """
    name = keys.image_name(guest, boot, preload, extra)
    record = {**info, "guest": guest.name, "sha256": guest.code.sha256, "boot": boot, "preload": ",".join(preload)}
    entry = cache.put(name, writer, record)
    prune_images(cache, guest, boot)
    return entry


def open_image(
    guest: Guest, boot: str, preload: tuple[str, ...], cache: Cache, extra: str = ""
) -> tuple[int, Entry] | None:
    """
    A checked read-only descriptor of an image and its record; None where it must be made (again).

    The caller closes the descriptor.
    """
    name = keys.image_name(guest, boot, preload, extra)
    entry = cache.lookup(name)
    if entry is None:
        return None
    try:
        fd = cache.open_checked(name)
    except (FileNotFoundError, DamagedEntry):
        return None
    # The time of last use decides which image goes first when there are too many.
    os.utime(fd)
    return fd, entry


def prune_images(cache: Cache, guest: Guest, boot: str) -> int:
    """Remove images of ``guest`` made by other boot code or from another artefact, and those over the cap."""
    freed = 0
    left: list[tuple[float, Entry]] = []
    for entry in cache.entries():
        if not entry.name.startswith("image-"):
            continue
        if entry.info.get("guest") == guest.name and (
            entry.info.get("boot") != boot or entry.info.get("sha256") != guest.code.sha256
        ):
            freed += cache.remove(entry.name)
            continue
        try:
            left.append((os.stat(os.path.join(cache.path, entry.name)).st_mtime, entry))
        except FileNotFoundError:
            freed += cache.remove(entry.name)
    left.sort(key=lambda item: item[0], reverse=True)
    total = 0
    for place, (_, entry) in enumerate(left):
        total += entry.size
        if place and total > IMAGES_CAP:
            freed += cache.remove(entry.name)
    return freed


def unused(cache: Cache) -> list[Entry]:
    """What no guest of this version uses: native code and images of other versions, artefacts and runtimes."""
    keep: set[str] = set()
    digests = set()
    for guest in guests.GUESTS.values():
        full, quick = keys.code_name(guest, "full"), keys.code_name(guest, "quick")
        digests.add(guest.code.sha256)
        keep.add(full)
        if guest.quick and cache.lookup(full) is None:
            keep.add(quick)
    return [
        entry
        for entry in cache.entries()
        if entry.name not in keep
        and (entry.name.startswith("code-") or entry.info.get("sha256") not in (*digests, None))
    ]


def prune(everything: bool = False, cache: Cache | None = None) -> int:
    """
    Remove what no guest of this version uses, or everything; returns the bytes freed.

    Entries that a process is making now are left alone.  Engines that have an entry open keep it until they end.
    """
    cache = cache or Cache()
    freed = sum(cache.remove(entry.name) for entry in (cache.entries() if everything else unused(cache)))
    if everything:
        for guest in guests.GUESTS.values():
            if not background.is_building(guest, cache):
                background.clear_status(guest, cache)
    return freed + cache.sweep()


def _package_bytes(guest: Guest) -> int:
    """What the installed package takes on disk; 0 where it is not installed."""
    top = guest.code.path.split("/")[0]
    for root in sys.path:
        folder = os.path.join(root, top)
        if os.path.isabs(root) and os.path.isdir(folder):
            return sum(
                os.lstat(os.path.join(here, name)).st_size for here, _, names in os.walk(folder) for name in names
            )
    return 0

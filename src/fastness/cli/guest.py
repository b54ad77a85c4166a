"""
``fastness guest``: what the guests are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fastness.cli import exits
from fastness.cli.console import err, say, size, stdout_console, table
from fastness.cli.progress import BuildProgress
from fastness.errors import ConfigurationError

if TYPE_CHECKING:
    from fastness._wasi.inventory import GuestInfo


def list_guests(*, as_json: bool) -> int:
    """Show every guest."""
    from fastness._wasi import inventory

    _show(inventory.list_guests(), as_json=as_json)
    return exits.OK


def verify(*, as_json: bool) -> int:
    """Check every byte."""
    from fastness._wasi import inventory

    found = inventory.verify()
    _show(found, as_json=as_json)
    damaged = [guest.name for guest in found if guest.state == "damaged"]
    if damaged:
        err(f"damaged and removed: {', '.join(damaged)}.  Fix: fastness guest build {' '.join(damaged)}")
        return exits.FAILED
    return exits.OK


def prune(*, everything: bool) -> int:
    """Remove what is not used."""
    from fastness._wasi import inventory

    freed = inventory.prune(everything)
    say(f"{size(freed)} freed")
    return exits.OK


def build(names: tuple[str, ...], preload: str | None) -> int:
    """Build guests whole, with their memory image."""
    from fastness._wasi import builder, guests
    from fastness.backends import materials

    modules: tuple[str, ...] = materials.DEFAULT_PRELOAD
    if preload is not None:
        modules = materials.check_preload(tuple(name for name in preload.split(",") if name))
    for name in names:
        if name not in guests.GUESTS:
            raise ConfigurationError("guest", name, ", ".join(guests.GUESTS))
    for name in names:
        with BuildProgress() as building:

            def progress(step: builder.Progress, show: BuildProgress = building) -> None:
                show(step._asdict())

            chosen = modules if name == "python" else ()
            materials.get(name, chosen, "full", progress, False)
        err(f"{name} is ready")
    return exits.OK


def _show(found: list[GuestInfo], *, as_json: bool) -> None:
    if as_json:
        rows = [{**one._asdict(), "images": [image._asdict() for image in one.images]} for one in found]
        say(msgspec.json.encode({"schema": 1, "guests": rows}).decode())
        return
    shown = table(
        "guest",
        "version",
        "state",
        "package",
        "code",
        "images",
        "on disk",
        "wasmtime",
        "note",
        wrap=("images", "note"),
    )
    for guest in found:
        images = ", ".join(f"{'+'.join(image.preload) or 'bare'} {size(image.size_bytes)}" for image in guest.images)
        code = f"{guest.variant} {size(guest.size_bytes)}" if guest.variant else ""
        shown.add_row(
            guest.name,
            guest.version,
            guest.state,
            size(guest.package_bytes),
            code,
            images,
            size(guest.package_bytes + guest.size_bytes + sum(image.size_bytes for image in guest.images)),
            guest.wasmtime,
            guest.note,
        )
    stdout_console().print(shown)

"""
``fastness image``: images of the tier ``container``, made on this machine without a registry.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from fastness.cli import exits
from fastness.cli.console import err, say, size, stdout_console, table
from fastness.cli.visible import one_line
from fastness.errors import BackendError, TierUnavailable
from fastness.tier import ProbeFailure, Tier

if TYPE_CHECKING:
    from fastness._container.probe import Engine

_REPOSITORY = "localhost/fastness/python"


def build(*, source: str, packages: str | None, name: str | None) -> int:
    """Make an image and hand it to the engine."""
    from fastness._container import image, image_debian, image_host
    from fastness._container.faults import EngineFault

    wanted = [one.strip() for one in (packages or "").split(",") if one.strip()]
    # Without a name it is the one that runs use which name none.
    names = (name,) if name else (f"{_REPOSITORY}:{source}", image.DEFAULT)
    try:
        engine = _engine()
        layer = (image_host if source == "host" else image_debian).build(wanted)
        flavour = "+".join((source, *wanted))[:60]
        made = image.load(engine.client(), layer, names, flavour)
    except EngineFault as fault:
        raise BackendError("making an image", fault.cause, fault.remedy or "run: fastness doctor") from None
    except OSError as error:
        raise BackendError("making an image", error.strerror or error, "free some disk, and try again") from None
    err(f"{', '.join(names)}: {len(layer)} files, handed to {engine.kind} at {engine.endpoint}")
    say(f"sha256:{made}")
    return exits.OK


def list_images(*, as_json: bool) -> int:
    """Show the images that have this package's label."""
    from fastness._container import image, inside
    from fastness._container.deadline import Deadline
    from fastness._container.faults import EngineFault
    from fastness._container.probe import PROBE_S

    try:
        engine = _engine()
        found = image.list_ours(engine.client(), Deadline(PROBE_S, "listing images"))
    except EngineFault as fault:
        raise BackendError("listing images", fault.cause, fault.remedy or "run: fastness doctor") from None
    if as_json:
        rows = [
            {"name": one.name, "id": one.id, "size": one.size, "made": one.flavour, "current": _is_current(one.guest)}
            for one in found
        ]
        say(msgspec.json.encode({"schema": 1, "engine": engine.kind, "images": rows}).decode())
        return exits.OK
    shown = table("image", "made of", "id", "size", "note", wrap=("image", "note"))
    for one in found:
        note = "" if one.guest == inside.digest() else "of another version: it works, and starts more slowly"
        # A label is what an image says of itself, whoever made it.
        shown.add_row(one_line(one.name), one_line(one.flavour), one.id[:12], size(one.size), note)
    stdout_console().print(shown)
    return exits.OK


def _is_current(guest: str) -> bool:
    from fastness._container import inside

    return guest == inside.digest()


def _engine() -> Engine:
    """The engine.  Raises TierUnavailable."""
    from fastness._container.faults import EngineFault
    from fastness._container.probe import reach

    try:
        return reach(os.environ)
    except EngineFault as fault:
        failure = ProbeFailure(guarantee="all", cause=fault.cause, remedy=fault.remedy or "run: fastness doctor")
        raise TierUnavailable(Tier.CONTAINER.value, (failure,)) from None

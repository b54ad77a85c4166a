"""
``fastness plugin memory``: what plugins noted for an owner, printed or erased.
"""

from __future__ import annotations

import json
import sys

from fastness.cli import exits
from fastness.cli.console import asked, err, say
from fastness.cli.plugin_host import plugin_host
from fastness.cli.plugin_screen import write_json
from fastness.cli.visible import spelled_out


def export(*, owner: str, plugin: str | None) -> int:
    """Every note, a line of JSON each."""
    with plugin_host() as host:
        notes = host.export_memory(owner, plugin=plugin)
    for note in notes:
        # ASCII only: in a terminal the words of strangers stay text.
        sys.stdout.write(json.dumps(note, allow_nan=False).replace("\x7f", "\\u007f") + "\n")
    if not notes:
        err(f"nothing is noted for the owner {spelled_out(owner)}")
    return exits.OK


def erase(*, owner: str, plugin: str | None, yes: bool, as_json: bool) -> int:
    """Forget it; with ``yes``, or where somebody at a terminal says so."""
    whose = f"the owner {spelled_out(owner)}" + (f" by {spelled_out(plugin)}" if plugin is not None else "")
    if not yes:
        if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            err(f"nobody can be asked here whether all notes for {whose} are erased: say so with --yes")
            return exits.USAGE
        agreed = asked(f"Erase all notes that are kept for {whose}?")
        if not agreed:
            say("nothing was erased")
            return exits.CANCELLED if agreed is None else exits.OK
    with plugin_host() as host:
        count = host.erase_memory(owner, plugin=plugin)
    if as_json:
        write_json({"erased": count})
    else:
        say(f"erased for {whose}: {count} note{'' if count == 1 else 's'}")
    return exits.OK

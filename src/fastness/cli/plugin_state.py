"""
What an operator does with an installed plugin: ``enable``, ``disable``, ``quarantine``, ``remove``, ``tier``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from fastness.cli import exits
from fastness.cli.console import asked, err, say
from fastness.cli.plugin_host import plugin_host
from fastness.cli.plugin_screen import state_of, write_json
from fastness.cli.visible import spelled_out

if TYPE_CHECKING:
    from fastness.plugins.states import Known


def enable(plugin: str, *, as_json: bool) -> int:
    """Let a disabled plugin be called again."""
    with plugin_host() as host:
        return _told(host.enable(plugin), as_json=as_json)


def disable(plugin: str, *, as_json: bool) -> int:
    """Let nobody call it; grants are kept."""
    with plugin_host() as host:
        return _told(host.disable(plugin), as_json=as_json)


def quarantine(plugin: str, *, why: str, as_json: bool) -> int:
    """Let nobody call it, and keep it for somebody to look at."""
    with plugin_host() as host:
        return _told(host.quarantine(plugin, why), as_json=as_json)


def remove(plugin: str, *, yes: bool, as_json: bool) -> int:
    """End it, every grant of it, and what was kept for it; with ``yes``, or where somebody at a terminal says so."""
    with plugin_host() as host:
        if not yes:
            known = next((one for one in host.plugins() if one.id == plugin), None)
            if known is None:
                # It says so itself.
                host.show(plugin)
            if as_json or known is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
                err(f"nobody can be asked here whether {plugin} goes, with all that it kept: say so with --yes")
                return exits.USAGE
            agreed = asked(f"Remove {known.id} {known.version}, its grants, and all files and values that it kept?")
            if not agreed:
                say(f"{known.id} stays as it is")
                return exits.CANCELLED if agreed is None else exits.OK
        return _told(host.remove(plugin), as_json=as_json)


def tier(plugin: str, name: str, *, trust: str, as_json: bool) -> int:
    """Choose the tier of its next calls."""
    with plugin_host() as host:
        known = host.set_tier(plugin, "" if name == "default" else name, trust)
    if as_json:
        write_json({"plugin": msgspec.to_builtins(known)})
    else:
        say(
            f"{known.id} runs in {f'the tier {known.tier}' if known.tier else 'its default tier'} from its next call on"
        )
    return exits.OK


def _told(known: Known, *, as_json: bool) -> int:
    if as_json:
        write_json({"plugin": msgspec.to_builtins(known)})
    else:
        why = f": {spelled_out(known.why)}" if known.why else ""
        say(f"{known.id} {known.version} is {state_of(known.state)}{why}")
    return exits.OK

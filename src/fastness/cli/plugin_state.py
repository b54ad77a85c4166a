"""
What an operator does with an installed plugin: ``enable``, ``disable``, ``quarantine``, ``remove``, ``tier``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from fastness.cli import exits
from fastness.cli.console import say
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
    """End it, every grant of it, and what was kept for it; at a terminal, asked for once more."""
    with plugin_host() as host:
        if not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
            import click

            known = host.show(plugin).known
            what = f"Remove {known.id} {known.version}, its grants, and all files and values that it kept?"
            if not click.confirm(what, default=False, err=True):
                say(f"{known.id} stays as it is")
                return exits.OK
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

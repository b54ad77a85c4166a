"""
``fastness plugin install``: a copy of a plugin that waits for a grant, and the question whether to give it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli import exits
from fastness.cli.plugin_check import refuse
from fastness.cli.plugin_grant import grant_screen
from fastness.cli.plugin_host import grant_all, known_specs, plugin_host, standing, this_user
from fastness.cli.plugin_list import described, facts_of
from fastness.cli.plugin_screen import Screen, asks_screen, manifest_screen, write_json
from fastness.cli.visible import spelled_out
from fastness.errors import ConfigurationError, ManifestError

if TYPE_CHECKING:
    from fastness.grant import Grant
    from fastness.plugins.blocking import PluginHost


def install(path: str, *, source: str, upgrade: bool, yes: bool, owner: str, as_json: bool) -> int:
    """Copy a plugin, show what it asks for, and ask whether to grant it."""
    known = known_specs()
    with plugin_host() as host:
        try:
            plugin = host.install(path, source=source, upgrade=upgrade).known.id
        except ManifestError as error:
            return refuse(error.problems, as_json=as_json)
        except ConfigurationError as error:
            if "upgrade" in error.allowed and not upgrade:
                raise ConfigurationError(
                    error.field, error.value, "an id that no other plugin has, or --upgrade for a new version"
                ) from None
            raise
        shown = host.show(plugin)
        stands = standing(shown.grants, owner, shown.known.digest) is not None
        wanted = grant_all(plugin, owner)
        if as_json:
            made = _give(host, plugin, owner) if yes else None
            told = described(host.show(plugin) if yes else shown, known)
            given = None if made is None else msgspec.to_builtins(made)
            write_json({"ok": True, "problems": [], **told, "granted": given, "grant_command": wanted})
            return exits.OK
        screen = Screen()
        manifest_screen(screen, shown.manifest, facts_of(shown))
        asks_screen(screen, shown.manifest, known, refused=[one.kind for one in shown.wants if not one.permitted])
        screen.line()
        for whose, new in shown.new.items():
            if new:
                screen.line(f"More than the owner {spelled_out(whose)} granted before", "bold")
            for words in new:
                screen.line(f"+ {spelled_out(words)}", "yellow", indent=2)
            if new:
                screen.line()
        if stands and not yes:
            whose = spelled_out(owner)
            screen.line(f"It asks for nothing new: what the owner {whose} granted stands, for these files.")
            return exits.OK
        agreed, code = (True, exits.OK) if yes else _ask(plugin, owner, bool(shown.asks))
        if agreed:
            made = _give(host, plugin, owner)
            grant_screen(screen, shown.manifest, made, host.show(plugin).known.state.value)
            return code
        screen.line("Installed, and nothing is granted: it cannot be called. To grant all that it asks:")
        screen.exact(f"  {wanted}")
        return code


def _give(host: PluginHost, plugin: str, owner: str) -> Grant:
    made: Grant = host.grant(plugin, owner=owner, all=True, granted_by=this_user())
    return made


def _ask(plugin: str, owner: str, asks: bool) -> tuple[bool, int]:
    """Whether somebody at a terminal agrees; nobody there is a no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False, exits.OK
    import click

    what = "all of this" if asks else "to be called, and nothing else,"
    try:
        agreed: Any = click.confirm(
            f"Grant {plugin} {what} for the owner {spelled_out(owner)}?", default=False, err=True
        )
    except click.Abort:
        # The question's own line goes on.
        click.echo(err=True)
        return False, exits.CANCELLED
    return bool(agreed), exits.OK

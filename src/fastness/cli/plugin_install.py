"""
``fastness plugin install``: a copy of a plugin that waits for a grant, and the question whether to give it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli import exits
from fastness.cli.console import asked
from fastness.cli.plugin_check import refuse
from fastness.cli.plugin_grant import grant_screen
from fastness.cli.plugin_host import command, grant_all, known_specs, plugin_host, standing, this_user
from fastness.cli.plugin_list import all_words, described, wants_screen
from fastness.cli.plugin_screen import Screen, write_json
from fastness.cli.visible import spelled_out
from fastness.errors import ConfigurationError, ManifestError

if TYPE_CHECKING:
    from fastness.grant import Grant
    from fastness.plugins.blocking import PluginHost
    from fastness.plugins.shown import Shown
    from fastness.plugins.states import Known


def install(path: str, *, source: str, upgrade: bool, yes: bool, owner: str, as_json: bool) -> int:
    """Copy a plugin, show what it asks for, and ask whether to grant it."""
    known = known_specs()
    with plugin_host() as host:
        before = {one.id: one for one in host.plugins()}
        try:
            shown = host.install(path, source=source, upgrade=upgrade)
        except ManifestError as error:
            return refuse(error.problems, as_json=as_json)
        except ConfigurationError as error:
            if "upgrade" in error.allowed and not upgrade:
                raise ConfigurationError(
                    error.field, error.value, "an id that no other plugin has, or --upgrade for a new version"
                ) from None
            raise
        plugin = shown.id
        stands = standing(shown.grants, owner, shown.known.digest) is not None
        wanted = grant_all(plugin, owner)
        replaced = before.get(plugin) if upgrade else None
        if as_json:
            made = _give(host, shown, owner) if yes else None
            told = described(host.show(plugin) if yes else shown, known)
            given = None if made is None else msgspec.to_builtins(made)
            old = None if replaced is None else _described(replaced)
            write_json({"ok": True, "problems": [], **told, "granted": given, "grant_command": wanted, "replaced": old})
            return exits.OK
        screen = Screen()
        if replaced is not None:
            screen.line(*place_words(replaced, shown.known))
            for words in tier_words(replaced, shown):
                screen.line(words, "bold yellow")
            screen.line()
        wants_screen(screen, shown, known, host.ceiling, owner)
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
        what = all_words(shown, host.ceiling, known)
        agreed, code = (True, exits.OK) if yes else _ask(plugin, owner, what if shown.asks else "")
        if agreed:
            made = _give(host, shown, owner)
            grant_screen(screen, shown.manifest, made, host.show(plugin).known.state.value)
            return code
        screen.line(f"Installed, and nothing is granted: it cannot be called. To grant {what}:")
        screen.exact(f"  {wanted}")
        return code


def _give(host: PluginHost, shown: Shown, owner: str) -> Grant:
    # For the files that were shown: somebody else may have installed others while this one was looked at.
    made: Grant = host.grant(shown.id, owner=owner, all=True, granted_by=this_user(), digest=shown.known.digest)
    return made


def place_words(old: Known, new: Known) -> tuple[str, str]:
    """What an upgrade takes the place of, and how that is written: an older version may have faults of its own."""
    if old.digest == new.digest:
        return f"This is {old.version} as it is installed: its files are the same.", ""
    if old.version == new.version:
        return f"It takes the place of the same version, {old.version}, with other files.", "bold yellow"
    if _order(new.version) < _order(old.version):
        return f"It takes the place of {old.version}, which is newer: this goes back to an older one.", "bold yellow"
    return f"It takes the place of {old.version}.", ""


def tier_words(old: Known, new: Shown) -> list[str]:
    """What an upgrade does to the tier that the operator chose: what was reviewed were other files."""
    if not old.trust or new.known.trust:
        return []
    if new.known.tier == old.tier:
        return ["The files before it were reviewed, and these are not."]
    return [
        f"The tier {old.tier} was for the files before it, which were reviewed: these run in {new.tier}.",
        "Where somebody has reviewed them too:",
        f"  {command('tier', new.id, old.tier, '--trust', 'reviewed')}",
    ]


def _described(old: Known) -> dict[str, str]:
    return {"version": old.version, "digest": old.digest, "tier": old.tier, "trust": old.trust}


def _order(version: str) -> tuple[Any, ...]:
    """What versions are ordered by: https://semver.org, section 11."""
    numbers, _, early = version.partition("+")[0].partition("-")
    parts = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in early.split("."))
    return (*(int(part) for part in numbers.split(".")), not early, parts if early else ())


def _ask(plugin: str, owner: str, what: str) -> tuple[bool, int]:
    """Whether somebody at a terminal agrees; nobody there is a no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False, exits.OK
    words = what.replace("all that it asks", "all of this") or "to be called, and nothing else"
    words += "," if "," in words else ""
    agreed = asked(f"Grant {plugin} {words} for the owner {spelled_out(owner)}?")
    return bool(agreed), exits.CANCELLED if agreed is None else exits.OK

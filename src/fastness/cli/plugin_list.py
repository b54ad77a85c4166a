"""
``fastness plugin list`` and ``show``: what is installed, and what one plugin asks for and may do.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli import exits
from fastness.cli.console import err, table
from fastness.cli.plugin_grant import granted_rows
from fastness.cli.plugin_hints import tier_lines
from fastness.cli.plugin_host import OWNER, grant_all, known_specs, plugin_host
from fastness.cli.plugin_screen import (
    Screen,
    asks_screen,
    code_of,
    manifest_screen,
    operator_words,
    state_of,
    with_risks,
    write_json,
)
from fastness.cli.visible import one_line, spelled_out
from fastness.errors import FastnessError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastness.capability import Spec
    from fastness.grant import Ceiling, Grant
    from fastness.plugins.blocking import PluginHost
    from fastness.plugins.shown import Shown
    from fastness.plugins.states import Known


def show_all(*, as_json: bool) -> int:
    """List what is installed."""
    with plugin_host() as host:
        known = host.plugins()
        tiers = {} if as_json else {one.id: _tier_of(host, one) for one in known}
    if as_json:
        write_json({"plugins": [msgspec.to_builtins(one) for one in known]})
        return exits.OK
    if not known:
        err("no plugin is installed: fastness plugin install DIR")
        return exits.OK
    made = table("plugin", "version", "state", "tier", "from", wrap=("plugin", "version"))
    for one in known:
        made.add_row(one.id, one.version, state_of(one.state), tiers[one.id], one.source.value)
    screen = Screen()
    screen.table(made)
    for one in known:
        if one.why:
            screen.line(f"{one.id}: {one_line(one.why, 400)}")
    return exits.OK


def _tier_of(host: PluginHost, known: Known) -> str:
    """Where it runs; a manifest that cannot be read is a matter of ``show``."""
    if known.tier:
        return known.tier
    try:
        shown = host.show(known.id)
    except FastnessError:
        return "?"
    return "none" if shown.manifest.runtime == "data" else shown.tier


def show(plugin: str, *, owner: str | None, as_json: bool) -> int:
    """Everything about one plugin; with ``owner`` the grant of that one alone."""
    known = known_specs()
    with plugin_host() as host:
        shown = host.show(plugin)
        ceiling = host.ceiling
    if owner is not None:
        shown = msgspec.structs.replace(
            shown,
            grants=tuple(one for one in shown.grants if one.owner == owner),
            new={whose: new for whose, new in shown.new.items() if whose == owner},
        )
    if as_json:
        write_json(described(shown, known))
        return exits.OK
    screen = Screen()
    wants_screen(screen, shown, known, ceiling, owner or OWNER)
    screen.line()
    if not shown.grants:
        whose = "Nobody has" if owner is None else f"The owner {spelled_out(owner)} has not"
        screen.line(f"{whose} granted it anything. To grant {all_words(shown, ceiling, known)}:", "bold")
        screen.exact(f"  {grant_all(plugin, owner or OWNER)}")
    for grant in shown.grants:
        screen.line(f"Granted by the owner {spelled_out(grant.owner)}{_of(grant, shown.known)}", "bold")
        rows = granted_rows(grant) or [("", "compute, and nothing else", "")]
        if grant.scope("fs") is not None:
            rows.append(("fs folder", spelled_out(folder_of(plugin, grant.owner)), ""))
        screen.rows(rows)
    return exits.OK


def wants_screen(screen: Screen, shown: Shown, specs: Mapping[str, Spec], ceiling: Ceiling, owner: str) -> None:
    """What an installed plugin is, all that it asks for, and what the operator and this command line say to that."""
    manifest_screen(screen, shown.manifest, facts_of(shown))
    asks_screen(
        screen,
        shown.manifest,
        specs,
        operator=operator_words(shown, ceiling, specs),
        lacking=[one.kind for one in shown.wants if not one.offered],
        limits=shown.limits,
        folder=folder_of(shown.id, owner),
    )
    for words, *commands in tier_lines(shown, ceiling):
        screen.line()
        screen.line(words, "bold red")
        for one in commands:
            screen.exact(f"  {one}")


def all_words(shown: Shown, ceiling: Ceiling, specs: Mapping[str, Spec]) -> str:
    """What a grant of everything is."""
    cut = operator_words(shown, ceiling, specs)
    return "all that it asks, as far as the operator permits it" if cut else "all that it asks"


def folder_of(plugin: str, owner: str) -> str:
    """Where on this machine the files are that a plugin gets to see for an owner."""
    from fastness import config
    from fastness._wasi.home import place
    from fastness.plugins.adapters import owner_word

    return config.load().fs_root or place("data", "files", plugin, owner_word(owner))


def _of(grant: Grant, known: Known) -> str:
    if grant.package_digest != known.digest:
        return ", for files that are not installed any more: it allows nothing"
    if grant.expired(time.time()):
        return ", and over: it allows nothing any more"
    return ""


def facts_of(shown: Shown) -> list[tuple[str, str]]:
    """What the host knows of an installed plugin."""
    known = shown.known
    rows = [("state", f"{state_of(known.state)}; source {known.source.value}")]
    if known.why:
        rows.append(("", spelled_out(known.why)))
    rows.append(code_of(shown.manifest, shown.tier))
    if known.trust:
        rows.append(("", f"the operator chose this tier: {known.trust}"))
    rows.append(("package", known.digest))
    return rows


def described(shown: Shown, specs: Mapping[str, Spec]) -> dict[str, Any]:
    """What ``--json`` prints of an installed plugin."""
    return {
        "plugin": msgspec.to_builtins(shown.known),
        "manifest": with_risks(shown.manifest, specs),
        "tier": shown.tier,
        "grants": [msgspec.to_builtins(one) for one in shown.grants],
        "new": shown.new,
    }

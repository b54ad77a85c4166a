"""
``fastness plugin grant`` and ``revoke``: what an owner allows a plugin, and the end of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli import exits
from fastness.cli.console import detail, err
from fastness.cli.plugin_hints import tell, tier_lines
from fastness.cli.plugin_host import command, known_specs, plugin_host, standing, this_user, until, when
from fastness.cli.plugin_screen import Screen, for_a_program, settings, write_json
from fastness.cli.visible import one_line, spelled_out
from fastness.errors import ConfigurationError

if TYPE_CHECKING:
    from fastness.capability import Scope, Spec
    from fastness.grant import Grant
    from fastness.manifest import Manifest


def grant(
    plugin: str,
    *,
    owner: str,
    everything: bool,
    allow: tuple[str, ...],
    provide: tuple[str, ...],
    lookup: tuple[str, ...],
    declare: tuple[str, ...],
    expires: str | None,
    as_json: bool,
) -> int:
    """Let a plugin do what is named, on behalf of one owner."""
    named = bool(allow or provide or lookup or declare)
    if everything and named:
        raise ConfigurationError("--all", "with other options", "--all alone, or each thing by --allow and its like")
    ends = None if expires is None else until(expires)
    known = known_specs()
    with plugin_host() as host:
        shown = host.show(plugin)
        asks = bool(shown.manifest.capabilities) or any(
            getattr(shown.manifest, one) for one in ("provides", "lookups", "declares")
        )
        if asks and not everything and not named:
            kinds = ", ".join(request.kind for request in shown.manifest.capabilities)
            err(f"say what is granted: --all, or --allow KIND; it asks for {kinds or 'names only'}")
            return exits.USAGE
        before = standing(shown.grants, owner, shown.known.digest)
        if everything:
            made = host.grant(
                plugin, owner=owner, all=True, expires=ends, granted_by=this_user(), digest=shown.known.digest
            )
        else:
            made = host.grant(
                plugin,
                owner=owner,
                allowed=[_scope(text, shown.manifest, known) for text in allow],
                provides=provide,
                lookups=lookup,
                declares=declare,
                expires=ends,
                granted_by=this_user(),
                digest=shown.known.digest,
            )
        after = host.show(plugin)
        state, unmet = after.known.state.value, tier_lines(after, host.ceiling)
    lost = [] if before is None else [_kind(scope) for scope in before.allowed if made.scope(_kind(scope)) is None]
    if as_json:
        write_json({"grant": msgspec.to_builtins(made), "state": state, "no_longer": lost})
        return exits.OK
    grant_screen(Screen(), shown.manifest, made, state)
    tell(unmet)
    if lost:
        err(f"this takes the place of the grant before it: no longer granted: {', '.join(lost)}")
    return exits.OK


def _kind(scope: Scope) -> str:
    from fastness.grant import kind_of

    return kind_of(scope)


def _scope(text: str, manifest: Manifest, specs: Any) -> Scope | str:
    """What ``KIND`` or ``KIND:{...}`` of ``--allow`` names; fields that are not given are as the plugin asks."""
    kind, separator, given = text.partition(":")
    if not separator:
        return kind
    asked = manifest.scope(kind)
    if asked is None:
        # The host says what there is.
        return kind
    spec: Spec = specs[kind]
    try:
        fields = msgspec.json.decode(given, type=dict[str, Any])
        return msgspec.convert({**msgspec.to_builtins(asked), **fields, "kind": kind}, spec.scope, strict=True)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigurationError(
            f"--allow {kind}", given, f"an object of fields such as the plugin's ({error})"
        ) from None


def grant_screen(screen: Screen, manifest: Manifest, made: Grant, state: str) -> None:
    """What a new grant allows, and what of the plugin's wishes it does not."""
    screen.line(f"{manifest.id} {manifest.version} may do this for the owner {spelled_out(made.owner)}", "bold")
    screen.rows(granted_rows(made) or [("", "compute, and nothing else", "")])
    if loaded := for_a_program(manifest):
        screen.line(loaded)
    left = [one.kind for one in manifest.capabilities if made.scope(one.kind) is None]
    if left:
        screen.line(f"Asked for and not granted: {', '.join(left)}")
    if state != "enabled":
        screen.line(f"It is {state}, and nobody can call it. To let it be called:")
        if state == "quarantined":
            screen.exact(f"  {command('disable', manifest.id)}")
        screen.exact(f"  {command('enable', manifest.id)}")
    screen.line("To end this:")
    screen.exact(f"  {command('revoke', manifest.id, '--owner', made.owner)}")


def granted_rows(made: Grant) -> list[tuple[str, str, str]]:
    """Rows of what a grant allows."""
    rows = [
        (_kind(scope), "; ".join(f"{name} {value}" for name, value in settings(scope)) or "yes", "")
        for scope in made.allowed
    ]
    for field in ("provides", "lookups", "declares"):
        patterns = getattr(made, field)
        if patterns:
            rows.append((field, ", ".join(patterns), ""))
    if rows and made.expires is not None:
        rows.append(("until", when(made.expires), ""))
    return rows


def revoke(plugin: str, *, owner: str, everyone: bool, as_json: bool) -> int:
    """End the grant of an owner, or of all."""
    with plugin_host() as host:
        ended = host.revoke(plugin, owner=None if everyone else owner)
        owners = [one.owner for one in host.show(plugin).grants]
    # An owner that granted nothing may be a slip of whoever means another one.
    code = exits.OK if ended.ended or everyone else exits.USAGE
    if as_json:
        running = [msgspec.to_builtins(one) for one in ended.in_flight]
        write_json({"ended": ended.ended, "in_flight": running, "still_granted_to": owners})
        return code
    whose = "everybody" if everyone else f"the owner {one_line(owner)}"
    if ended.ended:
        Screen().line(f"{plugin}: {ended.ended} grant{'s' if ended.ended != 1 else ''} of {whose} ended")
    else:
        err(f"{plugin}: there was no grant of {whose} to end")
    if owners:
        err(f"it is still granted to {', '.join(one_line(one) for one in owners)}; --everyone ends all")
    if ended.in_flight:
        err("calls that were under way, and that may have had their effect or have it still:")
    for one in ended.in_flight:
        detail(f"{one.capability}.{one.operation} {one_line(one.target)} for {one_line(one.owner)}, run {one.run}")
    return code

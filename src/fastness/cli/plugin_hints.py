"""
What ``fastness plugin call`` tells beside a result: why nothing ran, and the command that grants what was refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastness.cli.plugin_host import command, grant_all, grant_command, known_specs, standing
from fastness.cli.visible import one_line
from fastness.errors import ConfigurationError, GrantError, PolicyError
from fastness.plugins.states import State
from fastness.runs import DenialCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastness.capability import Spec
    from fastness.grant import Ceiling, Grant
    from fastness.plugins.shown import Shown
    from fastness.plugins.states import Known
    from fastness.runs import RunResult

#: Refusals of what the policy does not list, and those that a wider one may lift.
_SCOPE = frozenset({DenialCode.NOT_GRANTED, DenialCode.READ_ONLY, DenialCode.HOST, DenialCode.REDIRECT})
_MORE = _SCOPE | {DenialCode.QUOTA, DenialCode.TOO_LARGE}


def why_not(host: Any, plugin: str, owner: str, error: ConfigurationError) -> list[tuple[str, ...]]:
    """Why a call did not run, with the commands that help; nothing where the error itself says it all."""
    if isinstance(error, (GrantError, PolicyError)):
        if error.field not in ("grant", "plugin"):
            return []
        words = _why(host.show(plugin), owner) or one_line(str(error.value))
        what = "what it asks for, and why, and then the command that grants all of it:"
        return [(f"nothing ran: {words}",), (what, command("show", plugin), grant_all(plugin, owner))]
    if error.field == "plugin" and plugin in (one.id for one in host.plugins()):
        known = host.show(plugin).known
        if known.state in (State.DISABLED, State.QUARANTINED):
            why = f": {one_line(known.why)}" if known.why else ""
            words = f"nothing ran: {plugin} is {known.state.value}{why}"
            return [(words,), ("to look at what it did, and to let it be called again:", *_ways_out(known))]
    return []


def _why(shown: Shown, owner: str) -> str:
    """Why an owner's grant does not do, or nothing where it is not for that."""
    found = next((one for one in shown.grants if one.owner == owner), None)
    if found is None:
        return f"the owner {one_line(owner)} has granted {shown.id} nothing"
    if found.package_digest != shown.known.digest:
        return f"what the owner {one_line(owner)} granted was for other files than those of {shown.known.version}"
    return "" if standing([found], owner, shown.known.digest) else f"the grant of the owner {one_line(owner)} has ended"


def hints(host: Any, plugin: str, owner: str, result: RunResult) -> list[tuple[str, ...]]:
    """
    After a call that did not go well: what would grant what was refused, or that nothing can; and quarantine.

    Each is a sentence and commands.
    """
    known = known_specs()
    shown = host.show(plugin)
    grant = standing(shown.grants, owner, shown.known.digest)
    missing = _missing(shown, grant, host.ceiling, known)
    refused = {row.capability for row in result.denials if not row.claimed and row.code in _MORE}
    asked_for = {row.capability for row in result.denials if not row.claimed and row.code in _SCOPE}
    if not result.ok:
        # A capability that was not granted is absent, and whoever does not look for that fails there.
        refused |= {kind for kind in missing if grant is None or grant.scope(kind) is None}
    found: list[tuple[str, ...]] = []
    wanted = [kind for kind in missing if kind in refused]
    if wanted:
        line = grant_command(shown.manifest, grant, owner, wanted, known)
        found.append(
            (f"it asks for more of {', '.join(wanted)} than the owner {one_line(owner)} granted; to grant it:", line)
        )
    beyond = sorted(one.kind for one in shown.wants if one.kind in asked_for and one.kind not in missing)
    if beyond:
        words = f"all that it asks of {', '.join(beyond)}, and the operator permits, is granted"
        found.append((f"{words}: what was refused is beyond that, and no grant gives it",))
    if shown.known.state is State.QUARANTINED:
        words = f"{plugin} is quarantined now, and nobody can call it: {one_line(shown.known.why)}"
        found.append((f"{words}; to look at what it did, and to let it be called again:", *_ways_out(shown.known)))
    return found


def _ways_out(known: Known) -> list[str]:
    ways = [f"fastness audit --plugin {known.id}"]
    if known.state is State.QUARANTINED:
        ways.append(command("disable", known.id))
    return [*ways, command("enable", known.id)]


def _missing(shown: Shown, grant: Grant | None, ceiling: Ceiling, specs: Mapping[str, Spec]) -> list[str]:
    """Kinds of which a plugin asks for more than a grant allows and the operator permits."""
    found = []
    for want in shown.wants:
        spec, bound = specs[want.kind], ceiling.scope(want.kind)
        most = want.scope if bound is None else spec.meet(want.scope, bound)
        had = None if grant is None else grant.scope(want.kind)
        if want.permitted and most is not None and (had is None or spec.exceeds(most, had)):
            found.append(want.kind)
    return found

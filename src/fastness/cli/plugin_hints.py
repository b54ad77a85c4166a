"""
What ``fastness plugin call`` tells beside a result: why nothing ran, and the command that grants what was refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fastness.cli.console import detail, err
from fastness.cli.plugin_host import command, grant_all, grant_command, known_specs, standing
from fastness.cli.plugin_screen import of_a_program
from fastness.cli.visible import one_line, spelled_out
from fastness.errors import ConfigurationError, GrantError, PolicyError
from fastness.limits import SIZES, in_words
from fastness.plugins.states import State
from fastness.runs import DenialCode, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastness.capability import Spec
    from fastness.grant import Ceiling, Grant
    from fastness.plugins.shown import Shown, Want
    from fastness.plugins.states import Known
    from fastness.runs import RunResult

#: Refusals of what the policy does not list, and those that a wider one may lift.
_SCOPE = frozenset({DenialCode.NOT_GRANTED, DenialCode.READ_ONLY, DenialCode.HOST, DenialCode.REDIRECT})
_MORE = _SCOPE | {DenialCode.QUOTA, DenialCode.TOO_LARGE}
#: What an error says that was raised where something of ctx, or of nothing, was looked for: in Python, in JavaScript.
_ON_CTX = re.compile(r"'Context' object has no attribute '([a-z_]\w*)'")
_ON_NOTHING = re.compile(
    r"'NoneType' object has no attribute '(\w+)'|cannot read property '(\w+)' of (?:undefined|null)"
)
#: The limit that an outcome is of.
_LIMIT_OF = {
    OutcomeKind.TIMEOUT: "wall_s",
    OutcomeKind.CPU: "cpu_s",
    OutcomeKind.MEMORY: "memory",
    OutcomeKind.OUTPUT_LIMIT: "output_total_bytes",
    OutcomeKind.CALL_LIMIT: "calls",
    OutcomeKind.DISK: "file_bytes",
}


def tell(lines: Iterable[tuple[str, ...]]) -> None:
    """Print a sentence each, and commands below it."""
    for words, *commands in lines:
        err(words)
        for one in commands:
            detail(one)


def why_not(host: Any, plugin: str, owner: str, error: ConfigurationError) -> list[tuple[str, ...]]:
    """Why a call did not run, with the commands that help; nothing where the error itself says it all."""
    if isinstance(error, PolicyError) and error.field == "tier":
        shown = host.show(plugin)
        return tier_lines(shown, host.ceiling)
    if isinstance(error, (GrantError, PolicyError)):
        if error.field not in ("grant", "plugin"):
            return []
        shown = host.show(plugin)
        words = _why(shown, owner) or one_line(str(error.value))
        what = "what it asks for, and why, and then the command that grants all of it:"
        more = [f"+ {spelled_out(one)}" for one in shown.new.get(owner, ())]
        return [
            (f"nothing ran: {words}", *more),
            (what, command("show", plugin, "--owner", owner), grant_all(plugin, owner)),
        ]
    if error.field == "plugin" and plugin in (one.id for one in host.plugins()):
        known = host.show(plugin).known
        if known.state in (State.DISABLED, State.QUARANTINED):
            why = f": {one_line(known.why)}" if known.why else ""
            words = f"nothing ran: {plugin} is {known.state.value}{why}"
            return [(words,), ("to look at what it did, and to let it be called again:", *_ways_out(known))]
    if error.field == "timeout":
        shown = host.show(plugin)
        most, wished = shown.limits.wall_s, shown.manifest.limits.wall_s
        where = f"[ceiling.limits] of {_config()}" if most < wished else "[limits] of its plugin.toml"
        return [(f"nothing ran: --timeout is at most {most:g} seconds: wall_s in {where}",)]
    return []


def tier_lines(shown: Shown, ceiling: Ceiling) -> list[tuple[str, ...]]:
    """Where the operator permits no plugin in the tier of this one: that, and the commands that move it."""
    if shown.manifest.runtime == "data" or shown.tier in ceiling.tiers:
        return []
    words = f"{shown.id} cannot be called: it runs in the tier {shown.tier}, and the operator permits "
    words += f"{', '.join(ceiling.tiers) or 'no tier'} ([ceiling] in {_config()})"
    ways = [command("tier", shown.id, tier) for tier in ceiling.tiers if _may_move(shown, tier)]
    return [(f"{words}; to have it run there:", *ways)] if ways else [(words,)]


def _may_move(shown: Shown, tier: str) -> bool:
    from fastness.plugins.core import check_source
    from fastness.policy import check_tier

    try:
        check_source(shown.known, check_tier(shown.manifest, tier))
    except ConfigurationError:
        return False
    return True


def _why(shown: Shown, owner: str) -> str:
    """Why an owner's grant does not do, or nothing where it is not for that."""
    whose = f"the owner {one_line(owner)}"
    found = next((one for one in shown.grants if one.owner == owner), None)
    if found is None:
        return f"{whose} has granted {shown.id} nothing"
    if found.package_digest != shown.known.digest:
        if shown.new.get(owner):
            return f"{shown.id} {shown.known.version} asks for more than {whose} granted to the version before:"
        return f"what {whose} granted was for other files than those of {shown.known.version}"
    return "" if standing([found], owner, shown.known.digest) else f"the grant of {whose} has ended"


def hints(host: Any, plugin: str, owner: str, result: RunResult) -> list[tuple[str, ...]]:
    """
    After a call that did not go well: what would grant what was refused, or that nothing can; and quarantine.

    Each is a sentence and commands.
    """
    known = known_specs()
    shown = host.show(plugin)
    grant = standing(shown.grants, owner, shown.known.digest)
    missing = missing_of(shown, grant, host.ceiling, known)
    rows = [row for row in result.denials if not row.claimed]
    refused = {row.capability for row in rows if row.code in _MORE}
    asked_for = {row.capability for row in rows if row.code in _SCOPE}
    # A capability that was not granted is absent, and whoever does not look for that fails there.
    looked_for = _looked_for(shown, grant, result, known)
    found: list[tuple[str, ...]] = []
    wants = {one.kind: one for one in shown.wants}
    wanted = [kind for kind in missing if kind in refused | looked_for and wants[kind].offered]
    if wanted:
        line = grant_command(shown.manifest, grant, owner, wanted, known)
        found.append(
            (f"it asks for more of {', '.join(wanted)} than the owner {one_line(owner)} granted; to grant it:", line)
        )
    found += [_absent(wants[kind]) for kind in sorted(looked_for - set(wanted))]
    beyond = sorted(kind for kind in wants if kind in asked_for and kind not in missing)
    if beyond:
        words = f"all that it asks of {', '.join(beyond)}, and the operator permits, is granted"
        found.append((f"{words}: what was refused is beyond that, and no grant gives it",))
    if any(row.code is DenialCode.ADDRESS for row in rows):
        words = "an address that is none of the public internet is reached only where the operator allows it"
        found.append((f"{words}: [[net.allow]] with its host, address and port, in {_config()}",))
    if shown.known.state is State.QUARANTINED:
        words = f"{plugin} is quarantined now, and nobody can call it: {one_line(shown.known.why)}"
        found.append((f"{words}; to look at what it did, and to let it be called again:", *_ways_out(shown.known)))
    return found


def _looked_for(shown: Shown, grant: Grant | None, result: RunResult, specs: Mapping[str, Spec]) -> set[str]:
    """Kinds that a plugin asks for, has not, and by its own error looked for.  Its word, which is enough for a hint."""
    if result.outcome.kind is not OutcomeKind.GUEST_ERROR:
        return set()
    detail = result.outcome.detail
    named, part = _ON_CTX.search(detail), _ON_NOTHING.search(detail)
    found: set[str] = set()
    for want in shown.wants:
        if want.permitted and want.offered and grant is not None and grant.scope(want.kind) is not None:
            continue
        names = getattr(want.scope, "names", None) or [
            one.name.partition(".")[0] for one in specs[want.kind].operations
        ]
        if (named is not None and named[1] == want.kind) or (part is not None and (part[1] or part[2]) in names):
            found.add(want.kind)
    return found


def _absent(want: Want) -> tuple[str, ...]:
    """Why a capability is absent that no grant brings."""
    if not want.permitted:
        return (f"ctx.{want.kind} is absent: the operator permits it to no plugin ([ceiling] in {_config()})",)
    if not want.offered:
        return (f"ctx.{want.kind} is absent: {of_a_program(want.kind)}",)
    return (f"ctx.{want.kind} is absent: the operator permits nothing of what it asks ([ceiling] in {_config()})",)


def limit_hint(shown: Shown, result: RunResult, timeout: float | None) -> str | None:
    """What lifts a limit that a call met: there are no options for it but the seconds of one call."""
    field = _LIMIT_OF.get(result.outcome.kind)
    if field is None or (result.outcome.kind is OutcomeKind.MEMORY and " threads, with " in result.outcome.detail):
        return None
    most = getattr(shown.limits, field)
    if field == "wall_s" and timeout is not None and timeout < most:
        return f"Raise it with --timeout SECONDS, at most {most:g}."
    shows = f"{most:g} s" if field.endswith("_s") else in_words(most) if field in SIZES else str(most)
    if most < getattr(shown.manifest.limits, field):
        return f"The operator permits no more than {shows}: {field} in [ceiling.limits] of {_config()}."
    return f"Its plugin.toml asks for no more than {shows}: {field} in [limits]."


def _config() -> str:
    from fastness._wasi.home import place

    return place("config", "config.toml")


def _ways_out(known: Known) -> list[str]:
    ways = [f"fastness audit --plugin {known.id}"]
    if known.state is State.QUARANTINED:
        ways.append(command("disable", known.id))
    return [*ways, command("enable", known.id)]


def missing_of(shown: Shown, grant: Grant | None, ceiling: Ceiling, specs: Mapping[str, Spec]) -> list[str]:
    """Kinds of which a plugin asks for more than a grant allows and the operator permits."""
    found = []
    for want in shown.wants:
        spec, bound = specs[want.kind], ceiling.scope(want.kind)
        most = want.scope if bound is None else spec.meet(want.scope, bound)
        had = None if grant is None else grant.scope(want.kind)
        if want.permitted and most is not None and (had is None or spec.exceeds(most, had)):
            found.append(want.kind)
    return found

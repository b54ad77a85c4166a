"""
``fastness plugin call``: one method of an installed plugin, and for what was refused the command that would grant it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli import exits
from fastness.cli.console import denial_table, detail, err, outcome_line, say, size, stderr_console
from fastness.cli.output import Output
from fastness.cli.plugin_host import command, grant_all, grant_command, known_specs, plugin_host, standing
from fastness.cli.progress import BuildProgress
from fastness.cli.visible import one_line, visible
from fastness.errors import ConfigurationError, GrantError, PolicyError
from fastness.runs import DenialCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastness.capability import Spec
    from fastness.grant import Ceiling, Grant
    from fastness.plugins.shown import Shown
    from fastness.runs import RunResult

#: Bytes of ``--args -``, from standard input.
_ARGUMENTS_CAP = 16 << 20
#: Refusals of what the policy does not list, and those that a wider one may lift.
_SCOPE = frozenset({DenialCode.NOT_GRANTED, DenialCode.READ_ONLY, DenialCode.HOST, DenialCode.REDIRECT})
_MORE = _SCOPE | {DenialCode.QUOTA, DenialCode.TOO_LARGE}
#: Characters of a value that stays on one line.
_LINE = 100


def call(
    plugin: str,
    method: str,
    *,
    arg: tuple[str, ...],
    args: str | None,
    owner: str,
    timeout: float | None,
    raw: bool,
    as_json: bool,
) -> int:
    """Call a method and print what it returns."""
    given = arguments(arg, args)
    output = Output(raw=raw)
    with plugin_host() as host, BuildProgress() as building:

        def on_event(name: str, data: Any) -> None:
            if name in ("stdout", "stderr") and not as_json:
                output.write(name, data)
            elif name == "log" and not as_json:
                # By write() as the output is, so that lines come in the order in which they were made.
                line = f"{one_line(data['level'], 20)}: {one_line(data['text'], 4096)}\n"
                output.write("stderr", line.encode())
            elif name == "progress":
                building(data)

        try:
            result = host.invoke(plugin, method, given, owner=owner, timeout=timeout, on_event=on_event)
        except (GrantError, PolicyError) as error:
            if error.field not in ("grant", "plugin"):
                raise
            err(f"nothing ran: {_why(host.show(plugin), owner) or one_line(str(error.value))}")
            err("what it asks for, and why, and then the command that grants all of it:")
            detail(command("show", plugin))
            detail(grant_all(plugin, owner))
            return exits.USAGE
        finally:
            output.close()
        hints = [] if result.ok and not result.denials else _hints(host, plugin, owner, result)
    if as_json:
        say(result.to_json())
        return exits.of_outcome(result.outcome.kind)
    if result.ok:
        _print_value(result, raw=raw)
    if result.denials or result.usage.denials_dropped:
        stderr_console().print(denial_table(result.denials, result.usage.denials_dropped))
    for words, line in hints:
        err(words)
        if line:
            detail(line)
    if result.outcome.dropped_bytes:
        err(f"{size(result.outcome.dropped_bytes)} of output were shown and not kept in the result")
    if not result.sandboxed:
        err("this call was NOT sandboxed")
    if not result.ok:
        err(outcome_line(result))
    return exits.of_outcome(result.outcome.kind)


def _why(shown: Shown, owner: str) -> str:
    """Why an owner's grant does not do, or nothing where it is not for that."""
    found = next((one for one in shown.grants if one.owner == owner), None)
    if found is None:
        return f"the owner {one_line(owner)} has granted {shown.id} nothing"
    if found.package_digest != shown.known.digest:
        return f"what the owner {one_line(owner)} granted was for other files than those of {shown.known.version}"
    return "" if standing([found], owner, shown.known.digest) else f"the grant of the owner {one_line(owner)} has ended"


def arguments(pairs: Iterable[str], text: str | None) -> dict[str, Any]:
    """The arguments by name, of ``--args`` and every ``--arg``.  Raises ConfigurationError."""
    found: dict[str, Any] = {}
    if text is not None:
        if text == "-":
            text = sys.stdin.read(_ARGUMENTS_CAP + 1)
            if len(text) > _ARGUMENTS_CAP:
                raise ConfigurationError("--args", "standard input", f"at most {size(_ARGUMENTS_CAP)}")
        found = _decoded("--args", text)
        if not isinstance(found, dict):
            raise ConfigurationError("--args", text, "a JSON object: each argument by its name")
    for pair in pairs:
        name, separator, value = pair.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if not separator or not name:
            raise ConfigurationError("--arg", pair, "NAME=TEXT, or NAME:=JSON")
        if name in found:
            raise ConfigurationError("--arg", pair, f"each argument once; {name} is there before")
        found[name] = _decoded(f"--arg {name}", value) if is_json else value
    return found


def _decoded(option: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogateescape"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigurationError(option, text, f"JSON ({error})") from None


def _print_value(result: RunResult, *, raw: bool) -> None:
    """The value on standard output: a text as it is, nothing for None, everything else as JSON."""
    value = result.value
    if value is None:
        if result.value_repr is not None:
            err(f"what it returned is no plain data, or larger than 1 MiB: {one_line(result.value_repr, 100)}")
        return
    if not isinstance(value, str):
        import json

        plain = result.to_dict()["value"]
        value = json.dumps(plain)
        if len(value) > _LINE:
            value = json.dumps(plain, indent=2)
    say(value if raw else visible(value))


def _hints(host: Any, plugin: str, owner: str, result: RunResult) -> list[tuple[str, str]]:
    """For what was refused: the command that grants it, or that no grant can."""
    known = known_specs()
    shown = host.show(plugin)
    grant = standing(shown.grants, owner, shown.known.digest)
    missing = _missing(shown, grant, host.ceiling, known)
    refused = {row.capability for row in result.denials if not row.claimed and row.code in _MORE}
    asked_for = {row.capability for row in result.denials if not row.claimed and row.code in _SCOPE}
    if not result.ok:
        # A capability that was not granted is absent, and whoever does not look for that fails there.
        refused |= {kind for kind in missing if grant is None or grant.scope(kind) is None}
    hints = []
    wanted = [kind for kind in missing if kind in refused]
    if wanted:
        line = grant_command(shown.manifest, grant, owner, wanted, known)
        hints.append(
            (f"it asks for more of {', '.join(wanted)} than the owner {one_line(owner)} granted; to grant it:", line)
        )
    beyond = sorted(one.kind for one in shown.wants if one.kind in asked_for and one.kind not in missing)
    if beyond:
        words = f"all that it asks of {', '.join(beyond)}, and the operator permits, is granted"
        hints.append((f"{words}: what was refused is beyond that, and no grant gives it", ""))
    return hints


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

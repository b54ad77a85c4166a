"""
``fastness plugin try``: a plugin's whole life in a guest, under a policy of the command line, each decision shown.

The host around it is made for the trial and goes with it: nothing is installed, and nothing is granted beyond it.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from fastness.cli import exits
from fastness.cli.console import detail, err, say, stdout_console, table
from fastness.cli.plugin_learn import Learner
from fastness.cli.visible import one_line, spelled_out
from fastness.errors import PluginTimeout
from fastness.wildcard import pattern_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastness.plugins.isolated import IsolatedPlugin
    from fastness.plugins.ledger import Decision
    from fastness.plugins.lifecycle import DefaultPluginHost, PluginFault

_OPTION = {"lookup": "--allow-lookup", "provide": "--allow-provide", "declare_capability": "--allow-declare"}
_LIMITS = frozenset({"timeout", "memory", "cpu", "output_limit", "call_limit", "disk"})
#: Bytes of a guest's own output that are shown.
_SHOWN = 4000


def try_plugin(
    path: str,
    *,
    lookups: Sequence[str],
    provides: Sequence[str],
    declares: Sequence[str],
    values: Sequence[str],
    tier: str | None,
    timeout: float | None,
    memory: str | None,
    network: bool,
    read_root: str | None,
    learn: bool,
    calls: Sequence[str],
    as_json: bool,
) -> int:
    """Set a plugin up, start it and stop it; print what it did."""
    from fastness.limits import size_of
    from fastness.plugins.isolated import IsolatedPlugin
    from fastness.plugins.lifecycle import DefaultPluginHost

    if calls and not learn:
        raise click.UsageError("--call goes with --learn; a method that is granted something is called with: call")
    if learn and network:
        raise click.UsageError("--learn refuses every capability, and --allow-network allows one")

    known = dict(_value(text) for text in values)
    everything = ("*",)
    rules = {
        "lookup": everything if learn else tuple(lookups),
        "provide": everything if learn else tuple(provides),
        "declare": everything if learn else tuple(declares),
    }
    times: dict[str, Any] = (
        {} if timeout is None else {f"{phase}_timeout": timeout for phase in ("setup", "start", "stop")}
    )
    limits = None if memory is None else {"memory": size_of("memory", memory, "--memory")}
    how: dict[str, Any] = {
        "policy": rules,
        "limits": limits,
        "tier": tier,
        "read_root": read_root,
        "allow_network": network,
        **times,
    }
    learner = Learner(path, how) if learn else None
    plugin = IsolatedPlugin.load(path, **how) if learner is None else learner.load()
    methods = [_method(plugin, text) for text in calls]
    logs: list[tuple[str, str]] = []
    with DefaultPluginHost(on_log=lambda _, level, text: logs.append((level, text))) as host:
        for name, value in known.items():
            host.provide(name, value)
        host.register(plugin)
        host.start()
        provided = {name: host.lookup(name) for name, owner in host.provided().items() if owner}
        declared = sorted(host.declared())
    code = _code(plugin, host)
    if learner is not None:
        code = max(code, learner.call(methods, lambda level, text: logs.append((level, text))), key=_severity)
    if as_json:
        shown = _described(plugin, host, logs, provided, declared, code, learn)
        if learner is not None:
            shown |= learner.described()
        sys.stdout.write(json.dumps(shown, allow_nan=False).replace("\x7f", "\\u007f") + "\n")
    else:
        _show(plugin, host, logs, provided, declared, network, learn)
    if learner is not None and not as_json:
        learner.show()
        _show_learned(plugin)
    return code


def _method(plugin: IsolatedPlugin, text: str) -> tuple[str, dict[str, Any]]:
    """``METHOD`` or ``METHOD=JSON``.  Raises UsageError."""
    name, sign, data = text.partition("=")
    if name not in plugin.manifest.methods:
        known = ", ".join(plugin.manifest.methods) or "none"
        raise click.UsageError(f"--call {one_line(name, 80)}: the plugin's methods are: {known}")
    try:
        found = json.loads(data) if sign else {}
    except (ValueError, RecursionError) as error:
        raise click.UsageError(
            f"--call {name}: {one_line(data, 80)} is not JSON ({one_line(str(error), 80)})"
        ) from None
    if not isinstance(found, dict) or not all(isinstance(key, str) and key.isidentifier() for key in found):
        raise click.UsageError(f"""--call {name}: arguments by name, such as '{name}={{"city": "Rome"}}'""")
    return name, found


def _severity(code: int) -> int:
    """What is told of two trials: a limit, then what was denied, then what failed."""
    return {exits.OK: 0, exits.FAILED: 1, exits.DENIED: 2, exits.LIMIT: 3}.get(code, 4)


def _value(text: str) -> tuple[str, Any]:
    """``NAME=JSON``.  Raises UsageError."""
    name, sign, data = text.partition("=")
    if not sign or not name:
        raise click.UsageError(f"--lookup-value takes NAME=JSON, such as cache:ttl=60; got {one_line(text, 80)}")
    try:
        return name, json.loads(data)
    except (ValueError, RecursionError) as error:
        what = f"{one_line(data, 80)} is not JSON ({one_line(str(error), 80)})"
        raise click.UsageError(
            f"""--lookup-value {one_line(name, 80)}: {what}; a text is written '"like this"'"""
        ) from None


def _code(plugin: IsolatedPlugin, host: DefaultPluginHost) -> int:
    faults = host.errors()
    ended = {result.outcome.kind.value for result in plugin.results.values()}
    if any(isinstance(fault.error, PluginTimeout) for fault in faults) or ended & _LIMITS:
        return exits.LIMIT
    if _denied(plugin) or any(row.layer in ("broker", "answer") for row in _refused(plugin)):
        return exits.DENIED
    if not faults:
        return exits.OK
    from fastness.errors import FastnessError, PluginError

    odd = next((fault.error for fault in faults if not isinstance(fault.error, PluginError)), None)
    return exits.of_error(odd) if isinstance(odd, FastnessError) else exits.FAILED


def _denied(plugin: IsolatedPlugin) -> list[Decision]:
    return [row for row in plugin.audit() if row.decision == "denied"]


def _refused(plugin: IsolatedPlugin) -> list[Any]:
    """What was refused below ctx: requests of its network, system calls; of claims of the guest's own, those too."""
    rows = [row for result in plugin.results.values() for row in result.denials]
    return [row for row in rows if row.capability != "ctx"]


def _described(
    plugin: IsolatedPlugin,
    host: DefaultPluginHost,
    logs: list[tuple[str, str]],
    provided: dict[str, Any],
    declared: list[str],
    code: int,
    learn: bool,
) -> dict[str, Any]:
    import msgspec

    from fastness.wire.values import to_json

    return {
        "schema": 1,
        "plugin": plugin.id,
        "version": plugin.manifest.version,
        "tier": plugin.tier.value,
        "state": host.state(plugin.id).value,
        "exit_code": code,
        "phases": {
            phase: {"outcome": result.outcome.kind.value, "detail": _safe(result.outcome.detail)}
            for phase, result in plugin.results.items()
        },
        "errors": [_fault(fault) for fault in host.errors()],
        "audit": [{**msgspec.to_builtins(row), "target": _safe(row.target)} for row in plugin.audit()],
        "denials": [msgspec.to_builtins(row) for row in _refused(plugin)],
        "provided": {_safe(name): to_json(value) for name, value in provided.items()},
        "declared": [_safe(tag) for tag in declared],
        "logs": [{"level": level, "text": _safe(text)} for level, text in logs],
        "needs": _needs(plugin, learn=learn),
        "no_option": _beyond(plugin, learn=learn),
        "left_out": [_safe(line) for line in plugin.left_out],
    }


def _fault(fault: PluginFault) -> dict[str, str]:
    return {"phase": fault.phase, "kind": type(fault.error).__name__, "error": _safe(str(fault.error))}


def _safe(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _needs(plugin: IsolatedPlugin, *, learn: bool) -> list[str]:
    """The options that allow exactly what it was denied, or with ``learn`` all that it did, each name once."""
    return [f"{option} {_quoted(target)}" for option, target in _used(plugin, learn=learn) if _alone(target)]


def _beyond(plugin: IsolatedPlugin, *, learn: bool) -> list[str]:
    """What no option allows by itself: a pattern of that text would allow other names too, or is none."""
    return [f"{option[8:]} {_quoted(target)}" for option, target in _used(plugin, learn=learn) if not _alone(target)]


def _used(plugin: IsolatedPlugin, *, learn: bool) -> list[tuple[str, str]]:
    rows = plugin.audit() if learn else _denied(plugin)
    return sorted({(_OPTION[row.operation], row.target) for row in rows if row.operation in _OPTION})


def _alone(target: str) -> bool:
    """Whether a pattern of this text allows this name and no other: whoever chose it may have chosen a wildcard."""
    return not pattern_problem(target) and not set(target) & set("*?")


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(spelled_out(text))


def _show(
    plugin: IsolatedPlugin,
    host: DefaultPluginHost,
    logs: list[tuple[str, str]],
    provided: dict[str, Any],
    declared: list[str],
    network: bool,
    learn: bool,
) -> None:
    console = stdout_console()
    state = host.state(plugin.id).value
    console.print(f"{plugin.id} {plugin.manifest.version} in the tier {plugin.tier.value}: {state}")
    phases = table("phase", "ended as", "took", "", wrap=("",))
    for phase, result in plugin.results.items():
        took = f"{result.usage.wall_s * 1000:.0f} ms"
        phases.add_row(phase, result.outcome.kind.value, took, one_line(result.outcome.detail))
    console.print(phases)
    console.print()
    rows = plugin.audit()
    if rows:
        shown = table("decision", "operation", "target", "reason", wrap=("target", "reason"))
        for row in rows:
            shown.add_row(row.decision, row.operation, one_line(spelled_out(row.target)), one_line(row.reason))
        console.print(shown)
        console.print()
    else:
        console.print("It asked its host for nothing.")
    for name, value in provided.items():
        console.print(f"provides {one_line(spelled_out(name))}: {one_line(repr(value))}")
    for tag in declared:
        console.print(f"declares {one_line(spelled_out(tag))}")
    for level, text in logs:
        console.print(f"log {level}: {one_line(text)}")
    for row in _refused(plugin):
        by = "the guest says so itself" if row.claimed else row.layer
        console.print(f"refused {one_line(row.operation)} {one_line(row.target)}: {row.code.value} ({by})")
    asked = [one.kind for one in plugin.manifest.capabilities if not (one.kind == "net" and network)]
    asked = [] if learn else asked
    if asked:
        console.print(f"asks for {', '.join(asked)}, which a trial does not give it")
    for line in plugin.left_out:
        console.print(f"not given to it: {one_line(line)}")
    for fault in host.errors():
        err(one_line(str(fault.error), 500))
        found = plugin.results.get(fault.phase)
        for line in ("" if found is None else found.stderr[-_SHOWN:]).splitlines()[-20:]:
            detail(line)
    if _denied(plugin):
        needs = _needs(plugin, learn=False)
        said = ".  Each of these options allows one:" if needs else ""
        err(f"it was denied {len(_denied(plugin))} of {len(rows)} operations{said}")
        for line in needs:
            detail(line)
        _show_beyond(plugin, learn=False)


def _show_learned(plugin: IsolatedPlugin) -> None:
    needs = _needs(plugin, learn=True)
    nothing = "No option allows just those." if _beyond(plugin, learn=True) else "It used none."
    say("Every name was allowed, to learn which it uses.  " + ("As options of a trial:" if needs else nothing))
    for line in needs:
        say(f"  {line}")
    _show_beyond(plugin, learn=True)


def _show_beyond(plugin: IsolatedPlugin, *, learn: bool) -> None:
    found = _beyond(plugin, learn=learn)
    if found:
        err("no option allows these alone, as no pattern stands for such a name and for no other:")
    for line in found:
        detail(line)

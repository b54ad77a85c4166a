"""
``fastness plugin call``: one method of an installed plugin, and for what was refused the command that would grant it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli import exits
from fastness.cli.console import denial_table, err, outcome_line, say, size, stderr_console
from fastness.cli.output import Output
from fastness.cli.plugin_hints import hints, limit_hint, tell, why_not
from fastness.cli.plugin_host import plugin_host
from fastness.cli.progress import BuildProgress
from fastness.cli.visible import one_line, visible
from fastness.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastness.runs import RunResult

#: Bytes of ``--args -``, from standard input.
_ARGUMENTS_CAP = 16 << 20
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
        except ConfigurationError as error:
            lines = why_not(host, plugin, owner, error)
            if not lines:
                raise
            tell(lines)
            return exits.USAGE
        finally:
            output.close()
        lines = [] if result.ok and not result.denials else hints(host, plugin, owner, result)
        most = None if result.ok else limit_hint(host.show(plugin), result, timeout)
    if as_json:
        say(result.to_json())
        return exits.of_outcome(result.outcome.kind)
    if result.ok:
        _print_value(result, raw=raw)
    if result.denials or result.usage.denials_dropped:
        stderr_console().print(denial_table(result.denials, result.usage.denials_dropped))
    if result.outcome.dropped_bytes:
        err(f"{size(result.outcome.dropped_bytes)} of output were shown and not kept in the result")
    if not result.sandboxed:
        err("this call was NOT sandboxed")
    if not result.ok:
        err(outcome_line(result, most))
    tell(lines)
    return exits.of_outcome(result.outcome.kind)


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

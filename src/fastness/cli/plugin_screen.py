"""
The screen that an owner decides by: what a plugin is, what it asks for, its own reasons, and the risk in plain words.

A reason is the plugin's own text, verbatim but for what could not be seen, which is written out.  Risks are ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli.console import size
from fastness.cli.visible import spelled_out

if TYPE_CHECKING:
    from fastness.capability import Spec
    from fastness.grant import Ceiling
    from fastness.limits import Limits
    from fastness.manifest import Manifest
    from fastness.plugins.shown import Shown
    from fastness.plugins.states import State

#: Columns of the names on the left, and the most that a line of words takes.
_LEFT = 12
_WIDTH = 100
_NONE: Mapping[str, str] = MappingProxyType({})
_NAMES = (
    ("provides", "names that it registers for other plugins of its host"),
    ("lookups", "names that it reads of what those register"),
    ("declares", "tags that it announces to them"),
)


def write_json(shown: Mapping[str, Any]) -> None:
    """One object on standard output."""
    # ASCII only, as with the results of runs: words of strangers stay text in any terminal.
    sys.stdout.write(json.dumps({"schema": 1, **shown}, allow_nan=False).replace("\x7f", "\\u007f") + "\n")


def with_risks(manifest: Manifest, specs: Mapping[str, Spec]) -> dict[str, Any]:
    """A manifest as plain data, each capability with its risk."""
    from fastness.manifest import to_plain

    plain = to_plain(manifest)
    for request, asked in zip(manifest.capabilities, plain["capabilities"], strict=True):
        asked["risk"] = specs[request.kind].risk(request.scope)
    return plain


class Screen:
    """Lines and small tables on standard output, wrapped to the terminal.  Text is never read as markup."""

    def __init__(self) -> None:
        from fastness.cli.console import stdout_console

        self._console = stdout_console()
        self._width = min(self._console.width, _WIDTH)

    def line(self, text: str = "", style: str = "", *, indent: int = 0) -> None:
        """One line, wrapped between words."""
        from rich.text import Text

        for line in Text(text, style=style).wrap(self._console, self._width - indent):
            line.rstrip()
            self._console.print(Text.assemble(" " * indent, line), soft_wrap=True)

    def rows(self, rows: Iterable[tuple[str, str, str]], indent: int = 2) -> None:
        """Rows of a name, a text and its style; a long text goes on below itself."""
        from rich.text import Text

        for name, text, style in rows:
            lines = Text(text, style=style).wrap(self._console, self._width - indent - _LEFT, overflow="fold")
            for number, line in enumerate(lines):
                line.rstrip()
                left = (("" if number else name).ljust(_LEFT), "dim")
                self._console.print(Text.assemble(" " * indent, left, line), soft_wrap=True)

    def exact(self, text: str) -> None:
        """A line that somebody copies: never wrapped."""
        from rich.text import Text

        self._console.print(Text(text), soft_wrap=True)

    def table(self, made: Any) -> None:
        """A table of the house's."""
        self._console.print(made)


def manifest_screen(screen: Screen, manifest: Manifest, facts: Iterable[tuple[str, str]]) -> None:
    """What a plugin is; ``facts`` are what only the caller knows of it."""
    title = f", which calls itself {spelled_out(manifest.name)}" if manifest.name else ""
    screen.line(f"{manifest.id} {manifest.version}{title}", "bold")
    if manifest.description:
        screen.line(f'It says: "{spelled_out(manifest.description)}"')
    rows = [(name, text, "") for name, text in facts]
    if manifest.methods:
        rows.append(("methods", ", ".join(manifest.methods), ""))
    screen.rows(rows)
    screen.line()


def asks_screen(
    screen: Screen,
    manifest: Manifest,
    specs: Mapping[str, Spec],
    *,
    operator: Mapping[str, str] = _NONE,
    lacking: Collection[str] = ("host",),
    limits: Limits | None = None,
    folder: str = "",
) -> None:
    """
    Everything that a plugin asks for.

    ``operator`` is what the operator says to a kind, ``lacking`` are kinds that nobody here does the work of,
    ``limits`` what its runs get of those that it asks for, and ``folder`` the one that it sees by ``fs``.
    """
    if not manifest.capabilities:
        screen.line("It asks for no capability: it can compute, and nothing else.")
    for number, request in enumerate(manifest.capabilities):
        if number:
            screen.line()
        screen.line(f"It asks for {request.kind}", "bold")
        rows = [(name, value, "") for name, value in settings(request.scope)]
        rows.append(("its reason", f'"{spelled_out(request.reason)}"', "cyan"))
        rows.append(("at worst", spelled_out(specs[request.kind].risk(request.scope)), "yellow"))
        if request.kind == "fs" and folder:
            rows.append(("its folder", spelled_out(folder), ""))
        if request.kind in operator:
            rows.append(("operator", spelled_out(operator[request.kind]), "bold red"))
        if request.kind in lacking:
            rows.append(("here", f"absent whatever is granted: {of_a_program(request.kind)}", "bold red"))
        screen.rows(rows)
    others = [("limits", ", ".join(_limits(manifest.limits, limits)), "")]
    for names, what in _NAMES:
        patterns = getattr(manifest, names)
        others.append((names, f"{', '.join(patterns)} ({what})" if patterns else "", ""))
    others = [row for row in others if row[1]]
    if others:
        screen.line()
        screen.line("Beside that it wants", "bold")
        screen.rows(others)
    if loaded := for_a_program(manifest):
        screen.line()
        screen.line(loaded)


def for_a_program(manifest: Manifest) -> str:
    """What of a plugin is for a program that loads it for long, and of no use to whoever calls its methods."""
    what = "a program loads it, with fastness.IsolatedPlugin, and fastness plugin try tries it"
    if manifest.runtime != "data" and not manifest.methods:
        return f"It has no methods, so there is nothing to call: {what}."
    names = [name for name, _ in _NAMES if getattr(manifest, name)]
    return f"A method that is called has no {' and no '.join(names)}: those are for when {what}." if names else ""


def _limits(asked: Limits, given: Limits | None) -> list[str]:
    cut = {} if given is None else dict(settings(given))
    found = []
    for name, value in settings(asked):
        less = given is not None and getattr(given, name) < getattr(asked, name)
        found.append(f"{name} {value}" + (f" (cut to {cut.get(name, 'the default')})" if less else ""))
    return found


def operator_words(shown: Shown, ceiling: Ceiling, specs: Mapping[str, Spec]) -> dict[str, str]:
    """What the operator says to kinds that a plugin asks for: those that are not permitted, or not all of it."""
    found = {}
    for want in shown.wants:
        bound = ceiling.scope(want.kind)
        if not want.permitted:
            found[want.kind] = "does not permit it: it stays absent whatever is granted"
        elif bound is not None and (more := specs[want.kind].exceeds(want.scope, bound)):
            found[want.kind] = f"does not permit: {'; '.join(more)}"
    return found


def of_a_program(kind: str) -> str:
    """Why something is not there on the command line: it is a program's to give."""
    if kind == "host":
        return "its functions are those of a program that runs the plugin, with fastness.PluginHost(functions=...)"
    if kind == "llm":
        return "this machine's operator has named no models: a table [llm] of config/config.toml does"
    if kind == "integrations":
        return "this machine's operator has not said how all of it is done: [integrations] of config/config.toml does"
    return "it is there only in a program that brings it, with fastness.PluginHost(adapters=...)"


def code_of(manifest: Manifest, tier: str) -> tuple[str, str]:
    """The row that says what runs, and where."""
    if manifest.runtime == "data":
        return ("code", "none: it is data, and nothing of it runs")
    return ("code", f"{manifest.runtime}, starts with {manifest.entry}, runs in the tier {tier}")


def settings(scope: Any) -> list[tuple[str, str]]:
    """The fields of a scope, or of limits, that are not as they are by default, in words."""
    default = type(scope)()
    found = []
    for field in msgspec.structs.fields(type(scope)):
        value = getattr(scope, field.name)
        if value == getattr(default, field.name):
            continue
        values = value if isinstance(value, (tuple, list)) else (value,)
        shown = ", ".join(spelled_out(_text(field.name, item)) for item in values)
        found.append((field.encode_name, shown))
    return found


def state_of(state: State) -> str:
    """Where a plugin stands, in words."""
    return {"awaiting_grant": "waiting for a grant"}.get(state.value, state.value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and (name in ("memory", "quota") or name.endswith("_bytes")):
        return size(value)
    if isinstance(value, (str, int, float)):
        return str(value)
    return msgspec.json.encode(value).decode("utf-8", "replace")

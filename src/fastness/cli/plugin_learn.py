"""
``fastness plugin try --learn``: what a plugin asked for while all of it was refused, as the smallest manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastness.cli import exits
from fastness.cli.console import detail, err, say
from fastness.cli.plugin_host import known_specs
from fastness.cli.visible import one_line, spelled_out
from fastness.wildcard import pattern_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastness.plugins.learning import Asked, LearningPlugin, Proposal

_FIELD = {"lookup": "lookups", "provide": "provides", "declare_capability": "declares"}
_LIMITS = frozenset({"timeout", "memory", "cpu", "output_limit", "call_limit", "disk"})
_SHOWN = 2000


class Learner:
    """One trial of the plugin at ``path``, loaded as ``how`` says; several guests of it, all of which are refused."""

    def __init__(self, path: str, how: dict[str, Any]) -> None:
        from fastness.plugins.learning import Asked

        self._path = path
        self._how = how
        self._asked: Asked = Asked()
        self._first: LearningPlugin | None = None
        self._methods: dict[str, tuple[str, str]] = {}

    def load(self) -> LearningPlugin:
        """The plugin, in a guest of its own."""
        from fastness.plugins.learning import LearningPlugin

        made = LearningPlugin.load(self._path, **self._how)
        assert isinstance(made, LearningPlugin)
        made.asked = self._asked
        self._first = self._first or made
        return made

    def call(self, methods: Iterable[tuple[str, dict[str, Any]]], log: Callable[[str, str], None]) -> int:
        """Call methods, each in a guest of its own; an exit code."""
        from fastness.errors import PluginError

        code = exits.OK
        for name, arguments in methods:
            plugin = self.load()
            try:
                plugin.method(name, arguments, _Ctx(log))
            except PluginError as error:
                err(one_line(str(error), 500))
                for line in plugin.results[name].stderr[-_SHOWN:].splitlines()[-20:] if name in plugin.results else ():
                    detail(line)
            found = plugin.results.get(name)
            outcome = "timeout" if found is None else found.outcome.kind.value
            text = "" if found is None else found.outcome.detail
            if found is not None and found.ok and found.value is False:
                outcome, text = "guest_error", "there is no such function"
            self._methods[name] = outcome, text
            ended = exits.LIMIT if outcome in _LIMITS else exits.OK if outcome == "ok" else exits.FAILED
            code = exits.LIMIT if exits.LIMIT in (code, ended) else max(code, ended)
        return exits.DENIED if self._asked.kinds() and code != exits.LIMIT else code

    def _proposal(self) -> Proposal:
        from fastness.plugins.learning import proposed

        assert self._first is not None
        names: dict[str, list[str]] = {field: [] for field in _FIELD.values()}
        for row in self._first.audit():
            # What reads as a pattern would allow other names too.
            if row.operation in _FIELD and not pattern_problem(row.target) and not set(row.target) & set("*?"):
                names[_FIELD[row.operation]].append(row.target)
        return proposed(self._first.manifest, self._asked, names, known_specs())

    def described(self) -> dict[str, Any]:
        """What ``--json`` prints of it."""
        from fastness.manifest import to_plain
        from fastness.plugins.learning import toml_of

        found = self._proposal()
        return {
            "asked": {kind: list(self._asked.operations(kind)) for kind in self._asked.kinds()},
            "methods": {name: {"outcome": kind, "detail": detail} for name, (kind, detail) in self._methods.items()},
            "manifest": to_plain(found.manifest),
            "toml": toml_of(found.manifest),
            "beyond": list(found.beyond),
            "unused": list(found.unused),
            "unknown": {kind: list(operations) for kind, operations in found.unknown.items()},
            "dropped": self._asked.dropped,
        }

    def show(self) -> None:
        """Print the manifest, and what it and the plugin's own have that the other has not."""
        from fastness.plugins.learning import toml_of

        found = self._proposal()
        for name, (kind, text) in self._methods.items():
            say(f"called {name}: {kind}" + (f" ({one_line(text)})" if text else ""))
        say("Every capability was there and refused.  This is the smallest manifest that asks for what it asked for:")
        say("")
        for line in toml_of(found.manifest).splitlines():
            say(f"  {line}".rstrip())
        say("")
        for kind, operations in found.unknown.items():
            say(f"how far {kind} must reach for {', '.join(operations)} cannot be told from calls: see to it yourself")
        if found.beyond or found.unused:
            say("Beside the manifest that it comes with:")
            for line in found.beyond:
                say(f"  + {spelled_out(line)}")
            for line in found.unused:
                say(f"  - {spelled_out(line)}")
        else:
            say("It is the manifest that it comes with.")
        say("What it would do with an answer was not seen: let it have that, and look again.")
        assert self._first is not None
        missing = [name for name in self._first.manifest.methods if name not in self._methods]
        if missing:
            say(f"Not called: {', '.join(missing)} (--call METHOD, or --call 'METHOD={{\"name\": value}}').")


class _Ctx:
    """The ctx of a method: it has a log, and no names of a host's."""

    def __init__(self, log: Callable[[str, str], None]) -> None:
        self.log = log

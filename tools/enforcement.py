#!/usr/bin/env python3
"""
Makes docs/plugins/enforcement.md of the capabilities themselves: what may be called, what holds, and what attacks it.

    python tools/enforcement.py            write the page
    python tools/enforcement.py --check    exit with 1 where the page is not what would be written

It needs Fastness itself, as in .venv after tools/dev.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fastness.attack import registry as attacks
from fastness.broker.functions import Functions
from fastness.capabilities.registry import BUILT_IN, specs
from fastness.capability import Operation, Spec

PAGE = Path(__file__).resolve().parent.parent / "docs" / "plugins" / "enforcement.md"
_HEAD = """\
# What each capability enforces

Made by `python tools/enforcement.py` from the capabilities themselves; do not edit.
A capability that was not granted is not there: `ctx` has no attribute of its name.
Every call is checked against the policy and recorded by the host before anything happens, whatever the guest says.
[The audit trail](../audit.md) says what a record holds.

| capability | what it is | calls | recorded on disk first |
|------------|------------|-------|------------------------|
"""
_KNOWN = {
    "fs": "files below one folder",
    "integrations": "effects elsewhere with credentials of the host: mail, and what the operator adds",
    "host": "functions of the host's own program",
    "llm": "questions to models, by price tier",
    "memory": "notes for an owner, found by their words",
    "net": "requests of HTTP",
    "process": "programs, each in a fresh box",
    "schedule": "methods of its own, called later",
    "signals": "what plugins of an owner tell each other, by topics",
    "storage": "keys and values of plugin and owner",
}


def page() -> str:
    """The text of the page."""
    known = specs()
    every = [known[kind] for kind in sorted(BUILT_IN)]
    every.insert(1, Functions({}).spec)
    return "\n".join([_HEAD + "\n".join(map(_row, every)), "", *(line for spec in every for line in _section(spec))])


def _row(spec: Spec) -> str:
    calls = ", ".join(f"`{one.name}`" for one in spec.operations) or "those that are registered"
    first = [one.name for one in spec.operations if one.leaves]
    when = "yes" if first and len(first) == len(spec.operations) else ", ".join(f"`{one}`" for one in first) or "no"
    if not spec.operations:
        when = "those that are registered with `leaves`"
    return f"| [`{spec.kind}`](#{spec.kind}) | {_KNOWN.get(spec.kind, '')} | {calls} | {when} |"


def _section(spec: Spec) -> Iterator[str]:
    yield f"## `{spec.kind}`"
    yield ""
    if spec.operations:
        yield "| call | what it does |"
        yield "|------|--------------|"
        for one in spec.operations:
            yield f"| `ctx.{spec.kind}.{_signature(one)}` | {one.summary} |"
        yield ""
    yield "| field of the scope | unless given |"
    yield "|--------------------|--------------|"
    scope = spec.scope()
    for field in msgspec.structs.fields(spec.scope):
        yield f"| `{field.encode_name}` | {_default(getattr(scope, field.name))} |"
    yield ""
    yield "What holds:"
    yield ""
    yield from (f"- {sentence}" for sentence in spec.enforced)
    yield ""
    found = sorted(_attacks(spec.kind))
    if found:
        yield "Attacked by, each with a control that succeeds where nothing stops it (`fastness attack --only ID`):"
        yield ""
        yield "| attack | what is claimed | tiers |"
        yield "|--------|-----------------|-------|"
        for name, says, tiers in found:
            yield f"| `{name}` | {says} | {tiers} |"
        yield ""


def _signature(one: Operation) -> str:
    parts = []
    for field in msgspec.structs.fields(one.arguments):
        if field.required:
            parts.append(field.encode_name)
        else:
            made = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
            parts.append(f"{field.encode_name}={made!r}")
    return f"{one.name}({', '.join(parts)})"


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "no" if not value else "yes"
    if isinstance(value, (tuple, list)):
        return ", ".join(f"`{item}`" for item in value) or "nothing"
    return f"{value:,}" if isinstance(value, int) else f"{value}"


def _attacks(kind: str) -> Iterator[tuple[str, str, str]]:
    """Shipped attacks on this capability: those of which a word of the id is its kind."""
    for attack in attacks.load():
        family, _, name = attack.id.partition(".")
        if family not in ("broker", "plugins") or kind not in name.split("_"):
            continue
        yield attack.id, attack.claim.says, ", ".join(sorted(str(tier) for tier in attack.tiers))


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    text = page()
    if arguments == ["--check"]:
        if PAGE.read_text("utf-8") != text:
            print(f"{PAGE.name} is stale; run: python tools/enforcement.py", file=sys.stderr)
            return 1
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""
What a plugin needs, learned by refusing it: every capability is there, each call is recorded, and nothing happens.

What a plugin would do with an answer is not seen.  So what is proposed is what it asked for, and no less and no more.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fastness.capabilities import registry
from fastness.capability import Adapter, CallContext, Scope, Spec, size_of
from fastness.errors import CapabilityError, Denied
from fastness.manifest import Manifest, parse, to_plain
from fastness.plugins import loading
from fastness.plugins.isolated import IsolatedPlugin
from fastness.policy import diff
from fastness.runs import DenialCode

__all__ = ["Asked", "LearningPlugin", "Proposal", "proposed", "toml_of"]

#: Bytes of arguments that are kept; calls beyond are counted.
_BYTES_MAX = 64 << 20
#: The reason of what a plugin gave none for.
REASON = "Say here why it needs this."


class Asked:
    """What was asked of every capability that the registry knows.  Any thread may use it."""

    def __init__(self) -> None:
        found = registry.specs()
        # Of those whose operations are granted one by one each is there.
        self.specs: Mapping[str, Spec] = {kind: msgspec.structs.replace(found[kind], offered=None) for kind in found}
        self.scopes: dict[str, Scope] = {kind: spec.scope() for kind, spec in self.specs.items()}
        self.adapters: dict[str, Adapter] = {kind: _Refusing(self, spec) for kind, spec in self.specs.items()}
        self._calls: dict[str, list[tuple[str, Any]]] = {}
        self._bytes = 0
        self._lock = threading.Lock()
        #: Calls that were not kept, as there were too many.
        self.dropped = 0
        #: Kinds of which more was asked than any scope has bounds for.
        self.cut: set[str] = set()

    def note(self, kind: str, operation: str, arguments: msgspec.Struct) -> None:
        """A call was made."""
        with self._lock:
            self._bytes += size_of(arguments) + 256
            if self._bytes > _BYTES_MAX:
                self.dropped += 1
            else:
                self._calls.setdefault(kind, []).append((operation, arguments))

    def kinds(self) -> tuple[str, ...]:
        """What was asked of at all, by kind."""
        with self._lock:
            return tuple(sorted(self._calls))

    def operations(self, kind: str) -> tuple[str, ...]:
        """The operations of a kind that were asked for, by name."""
        with self._lock:
            return tuple(sorted({operation for operation, _ in self._calls.get(kind, ())}))

    def scope(self, kind: str) -> Scope | None:
        """The least scope under which what was asked may be done, as far as any allows it; None where none is known."""
        learn = self.specs[kind].learn or _LEARN.get(kind)
        if learn is None:
            return None
        with self._lock:
            calls = list(self._calls.get(kind, ()))

        def known(some: list[tuple[str, Any]]) -> Scope | None:
            try:
                found = learn(some)
                # Whoever makes one by hand may pass the bounds of its fields, which a manifest does not.
                return msgspec.convert(msgspec.to_builtins(found), type(found), strict=True)
            except msgspec.ValidationError:
                self.cut.add(kind)
                return None
            except (CapabilityError, ValueError):
                return None

        if (found := known(calls)) is not None:
            return found
        # One that no scope allows does not hide the others.
        each = [one for one in calls if known([one]) is not None]
        if (found := known(each)) is not None:
            return found
        # Together they are more than any allows: as many as there is one for, from the first on.
        self.cut.add(kind)
        fits, least = 0, None
        step = 1 << len(each).bit_length()
        while step := step // 2:
            found = known(each[: fits + step])
            if fits + step <= len(each) and found is not None:
                fits, least = fits + step, found
        return least


class _Refusing:
    """The adapter of a kind that notes each call, and refuses it."""

    def __init__(self, asked: Asked, spec: Spec) -> None:
        self.spec = spec
        self._asked = asked

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Refuse it."""
        self._asked.note(self.spec.kind, operation, arguments)
        found = self.spec.operation(operation)
        raise Denied(DenialCode.NOT_GRANTED, "" if found is None else found.target(arguments)[:200])

    async def aclose(self) -> None:
        """Nothing is held."""


class LearningPlugin(IsolatedPlugin):
    """A plugin in a guest that has every capability, each of which refuses.  ``asked`` is set before it runs."""

    asked: Asked
    _arguments: dict[str, Any] | None = None

    def method(self, name: str, arguments: dict[str, Any], ctx: Any) -> None:
        """Call a method of it, in this guest and as the first thing there.  Raises PluginError."""
        self._arguments = arguments
        self._seconds[name] = self._seconds["start"]
        try:
            self._phase(name, ctx)
        finally:
            self.close()

    def _code(self, phase: str) -> str:
        return loading.code_of(self.manifest.runtime, self._loaded.entry, phase, self._arguments)

    def _has(self) -> tuple[dict[str, Scope], dict[str, Spec], dict[str, Adapter]]:
        # A method has no names of a host's.
        scopes, specs, adapters = super()._has() if self._arguments is None else ({}, {}, {})
        asked = self.asked
        return {**scopes, **asked.scopes}, {**specs, **asked.specs}, {**adapters, **asked.adapters}


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """
    The ``manifest`` that asks for what was asked and no more.

    ``beyond`` is what that has beyond the one that was shipped, and ``unused`` what the shipped one asks beyond it, in
    words.  ``unknown`` are kinds of which nobody can tell how far is enough, with the calls that were made.
    """

    manifest: Manifest
    beyond: tuple[str, ...]
    unused: tuple[str, ...]
    unknown: dict[str, tuple[str, ...]]


def proposed(
    shipped: Manifest, asked: Asked, names: Mapping[str, Iterable[str]], specs: Mapping[str, Spec]
) -> Proposal:
    """
    What to write in place of a manifest, for what was asked.

    ``names`` are those that it used, by the field of a manifest; ``specs`` are those of manifests.
    """
    capabilities, unknown = [], {}
    for kind in asked.kinds():
        scope, had = asked.scope(kind), shipped.request(kind)
        if scope is None:
            unknown[kind] = asked.operations(kind)
            scope = specs[kind].scope() if had is None else had.scope
        elif blind := tuple(name for name in asked.operations(kind) if name in _BLIND.get(kind, {})):
            # Of those calls say nothing: what they need is as it was.
            unknown[kind] = blind
            fields = {field for name in blind for field in _BLIND[kind][name]}
            if had is not None:
                scope = msgspec.structs.replace(scope, **{field: getattr(had.scope, field) for field in fields})
        elif kind in asked.cut:
            unknown[kind] = asked.operations(kind)
        if had is not None and kind in _UNSEEN:
            kept, what = _unseen(kind, had.scope)
            scope = msgspec.structs.replace(scope, **kept)
            unknown |= {kind: tuple(sorted({*unknown.get(kind, ()), what}))} if kept else {}
        reason = REASON if had is None else had.reason
        capabilities.append({**msgspec.to_builtins(scope), "kind": kind, "reason": reason})
    for kind in sorted(set(_UNSEEN) - set(asked.kinds())):
        had = shipped.request(kind)
        kept, what = ({}, "") if had is None else _unseen(kind, had.scope)
        if had is not None and kept:
            unknown[kind] = (what,)
            scope = msgspec.structs.replace(specs[kind].scope(), **kept)
            capabilities.append({**msgspec.to_builtins(scope), "kind": kind, "reason": had.reason})
    plain = {**to_plain(shipped), **{name: sorted(set(found)) for name, found in names.items()}}
    # Functions are the program's own that runs it: none was there to be asked.
    others = [one for one in to_plain(shipped)["capabilities"] if one["kind"] not in asked.specs]
    made = parse({**plain, "capabilities": [*capabilities, *others]}, specs)
    return Proposal(
        manifest=made,
        beyond=tuple(diff(made, shipped, specs)),
        unused=tuple(diff(shipped, made, specs)),
        unknown=unknown,
    )


def toml_of(manifest: Manifest) -> str:
    """A manifest as a ``plugin.toml``: what is as it is by default is left out."""
    default = Manifest(id="", version="")
    lines = []
    for name in ("id", "version", "api", "runtime", "entry", "name", "description", "methods", *_NAMES):
        value = getattr(manifest, name)
        if value != getattr(default, name) or name in ("api", "runtime"):
            lines.append(f"{name} = {_toml(value)}")
    for request in manifest.capabilities:
        least = type(request.scope)()
        lines += ["", "[[capabilities]]", f"kind = {_toml(request.kind)}"]
        for field in msgspec.structs.fields(type(request.scope)):
            value = getattr(request.scope, field.name)
            if value != getattr(least, field.name):
                lines.append(f"{field.encode_name} = {_toml(msgspec.to_builtins(value))}")
        lines.append(f"reason = {_toml(request.reason)}")
    changed = {
        name: getattr(manifest.limits, name)
        for name in manifest.limits.__struct_fields__
        if getattr(manifest.limits, name) != getattr(default.limits, name)
    }
    if changed:
        lines += ["", "[limits]", *(f"{name} = {_toml(value)}" for name, value in changed.items())]
    return "\n".join(lines) + "\n"


_NAMES = ("provides", "lookups", "declares")


def _signals(calls: Sequence[tuple[str, Any]]) -> Scope:
    """The least scope of ``signals``: topics that were published, each as it is."""
    from fastness.capabilities.signals import SignalsScope
    from fastness.wire import values

    told = [given for operation, given in calls if operation == "publish"]
    sizes = [len(values.encode(given.data, values.MAX_BYTES)) for given in told]
    return SignalsScope(
        publish=tuple(dict.fromkeys(given.topic for given in told)),
        signal_bytes=max(sizes, default=1),
        queue=1,
    )


#: For kinds whose spec does not say it.
_LEARN: dict[str, Callable[[Sequence[tuple[str, Any]]], Scope]] = {"signals": _signals}
#: Operations whose calls do not show what they need, and the fields that say it.
_BLIND: dict[str, dict[str, tuple[str, ...]]] = {"signals": {"take": ("subscribe", "handlers", "queue")}}
#: What brings a plugin calls that it does not ask for, so that no trial has them, and the fields that are of it.
_UNSEEN: dict[str, tuple[str, tuple[str, ...]]] = {"signals": ("handlers", ("subscribe", "handlers", "queue"))}


def _unseen(kind: str, scope: Scope) -> tuple[dict[str, Any], str]:
    """What a shipped scope has of that, as it is, and what it is called."""
    what, fields = _UNSEEN[kind]
    return ({field: getattr(scope, field) for field in fields} if getattr(scope, what) else {}), what


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if not isinstance(value, str):
        return json.dumps(value)
    # A text of JSON is one of TOML (toml.io, 1.0.0), but for DEL, and for what JSON writes as two halves.
    return "".join(map(_letter, json.dumps(value, ensure_ascii=False)))


def _letter(one: str) -> str:
    if one.isprintable() and one.isascii():
        return one
    return f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}"

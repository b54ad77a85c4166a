"""
Which capabilities there are: those of this package, and those of other distributions by entry point.

Nothing is imported before it is asked for: a plugin that only stores things costs no HTTP client.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

import msgspec

from fastness.capability import Spec
from fastness.errors import ConfigurationError

__all__ = ["GROUP", "Specs", "specs"]

#: Entry points of other distributions: the kind as the name, ``package.module:SPEC`` as the value.
GROUP = "fastness.capabilities"

#: Kinds of this package, and the module that has each one's ``SPEC``.
BUILT_IN: dict[str, str] = {
    "fs": "fastness.capabilities.fs",
    "integrations": "fastness.capabilities.integrations",
    "llm": "fastness.capabilities.llm",
    "memory": "fastness.capabilities.memory",
    "net": "fastness.capabilities.net",
    "process": "fastness.capabilities.process",
    "schedule": "fastness.capabilities.schedule",
    "signals": "fastness.capabilities.signals",
    "storage": "fastness.capabilities.storage",
}
#: Names that a request has beside the fields of its scope.
_TAKEN = ("kind", "reason")


class Specs(Mapping[str, Spec]):
    """
    Every :class:`~fastness.capability.Spec` by its kind.  Looking one up imports its
    module, listing kinds imports none.

    ``more`` are specs that only this host has, such as that of its own functions.  A kind of this package cannot be
    taken by anybody else.  Looking up raises ConfigurationError for a module that does not hold what it should.
    """

    def __init__(self, more: Mapping[str, Spec] | None = None) -> None:
        self._loaded: dict[str, Spec] = {}
        self._others: dict[str, str] | None = None
        for kind, spec in (more or {}).items():
            if kind in BUILT_IN:
                raise ConfigurationError("capability", kind, "a kind that Fastness itself does not have")
            self._loaded[kind] = _checked(kind, spec, "this host")

    def __getitem__(self, kind: str) -> Spec:
        found = self._loaded.get(kind)
        if found is None:
            found = self._loaded[kind] = self._load(kind)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from sorted({*BUILT_IN, *self._loaded, *self._entries()})

    def __len__(self) -> int:
        return len({*BUILT_IN, *self._loaded, *self._entries()})

    def __contains__(self, kind: object) -> bool:
        return kind in self._loaded or kind in BUILT_IN or kind in self._entries()

    def _load(self, kind: str) -> Spec:
        module = BUILT_IN.get(kind)
        if module is not None:
            return _checked(kind, getattr(importlib.import_module(module), "SPEC", None), module)
        value = self._entries().get(kind)
        if value is None:
            raise KeyError(kind)
        name, _, attribute = value.partition(":")
        try:
            found = getattr(importlib.import_module(name), attribute or "SPEC", None)
        except Exception as error:  # code of another distribution may fail in any way
            raise ConfigurationError(
                "capability",
                kind,
                f"an entry point that can be imported; {value} failed: {type(error).__name__}: {error}",
            ) from error
        return _checked(kind, found, value)

    def _entries(self) -> dict[str, str]:
        if self._others is None:
            import importlib.metadata

            found: dict[str, str] = {}
            for entry in importlib.metadata.entry_points(group=GROUP):
                if entry.name in BUILT_IN or found.setdefault(entry.name, entry.value) != entry.value:
                    raise ConfigurationError("capability", entry.name, f"each kind from one place; see {entry.value}")
            self._others = found
        return self._others


def specs(more: Mapping[str, Spec] | None = None) -> Specs:
    """All capabilities that there are here, and ``more`` that only this host has."""
    return Specs(more)


def _checked(kind: str, spec: object, where: str) -> Spec:
    if not isinstance(spec, Spec) or spec.kind != kind:
        raise ConfigurationError("capability", where, f"a module with SPEC = Spec(kind={kind!r}, ...)")
    tag = spec.scope.__struct_config__.tag
    fields = [field.encode_name for field in msgspec.structs.fields(spec.scope)]
    if tag != kind or any(name in _TAKEN for name in fields):
        raise ConfigurationError(
            "capability", where, f"a scope that is tagged {kind!r} and has no field called {' or '.join(_TAKEN)}"
        )
    try:
        spec.scope()
    except Exception as error:
        raise ConfigurationError("capability", where, "a scope whose fields all have defaults") from error
    return spec

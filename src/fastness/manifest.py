"""
What a plugin asks for, as frozen data, and the check that finds every fault of a manifest at once.

A manifest grants nothing.  It is written by whoever wrote the plugin, so each text of it is bounded, identifiers are of
ASCII alone, and what an owner will read is shown with everything invisible made visible.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fastness.capability import Scope, Spec
from fastness.errors import ConfigurationError, ManifestError, meant
from fastness.limits import RANGES, SIZES, Limits, parse_size
from fastness.manifest_text import DEPTH_MAX
from fastness.manifest_words import (
    display_problem,
    entry_problem,
    id_problem,
    name_of,
    reason_problem,
    shown,
    version_problem,
)
from fastness.wildcard import pattern_problem

__all__ = ["API", "CODE_RUNTIMES", "RUNTIMES", "Manifest", "Request", "parse", "to_plain"]

#: The version of the interface between plugins and hosts that this is.
API = 1
#: Runtimes of plugins that are code, and the endings of their entries.
CODE_RUNTIMES: dict[str, tuple[str, ...]] = {"python": (".py",), "javascript": (".js", ".mjs"), "wasi": (".wasm",)}
#: All: a plugin of ``data`` is read by its host and runs nothing of its own.
RUNTIMES = (*CODE_RUNTIMES, "data")
#: Entries of one list, and problems that are told of one manifest.
LIST_MAX = 64
PROBLEMS_MAX = 100
_VALUES_MAX = 10_000
_TEXT_MAX = 4096
#: Names that the host calls by itself.
PHASES = ("setup", "start", "stop")
_LISTS = ("provides", "lookups", "declares")


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One capability that is asked for: its ``kind``, how far it should reach, and the plugin's own ``reason``."""

    kind: str
    scope: Scope
    reason: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What a plugin is and asks for.  Made by :func:`parse`.

    ``id`` and ``version`` name it; ``name`` and ``description`` are for people and prove nothing.  ``entry`` is the
    path of its code below the package, empty only for ``data``.  ``methods`` may be called by the host's user.
    ``capabilities`` holds each kind at most once.  ``limits`` are what it needs of a run.  ``provides``, ``lookups``
    and ``declares`` are patterns of names (see :mod:`fastness.wildcard`) that it wants to register, read and announce.
    """

    id: str
    version: str
    api: int = API
    runtime: str = "python"
    entry: str = ""
    name: str = ""
    description: str = ""
    methods: tuple[str, ...] = ()
    capabilities: tuple[Request, ...] = ()
    limits: Limits = Limits()
    provides: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()

    def request(self, kind: str) -> Request | None:
        """What is asked of this kind, or None."""
        return next((one for one in self.capabilities if one.kind == kind), None)

    def scope(self, kind: str) -> Scope | None:
        """How far this kind is asked for, or None."""
        found = self.request(kind)
        return None if found is None else found.scope


_FIELDS = tuple(field.name for field in msgspec.structs.fields(Manifest))


def to_plain(manifest: Manifest) -> dict[str, Any]:
    """The manifest as plain data, from which :func:`parse` makes an equal one."""
    plain: dict[str, Any] = msgspec.to_builtins(manifest)
    plain["capabilities"] = [
        {**msgspec.to_builtins(one.scope), "kind": one.kind, "reason": one.reason} for one in manifest.capabilities
    ]
    return plain


def parse(plain: object, specs: Mapping[str, Spec], *, defaults: Mapping[str, Any] | None = None) -> Manifest:
    """
    The manifest that plain data describes; ``specs`` are the capabilities that there are, by kind.

    ``defaults`` stand in for fields that are not there: of a single file, its own name as the entry.
    Raises ManifestError with *all* problems, each with the path of what it is about: ``capabilities[1].hosts[0]``.
    """
    reader = _Reader(specs)
    if isinstance(plain, Mapping):
        plain = {**(defaults or {}), **plain}
    made = reader.manifest(plain)
    if reader.problems or made is None:
        raise ManifestError(reader.problems)
    return made


class _Reader:
    """One reading of one manifest; ``problems`` grows as it goes."""

    def __init__(self, specs: Mapping[str, Spec]) -> None:
        self.specs = specs
        self.problems: list[str] = []

    def add(self, path: str, why: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(f"{path}: {why}" if path else why)
        elif len(self.problems) == PROBLEMS_MAX:
            self.problems.append("and more problems than are listed")

    def manifest(self, plain: object) -> Manifest | None:
        if not isinstance(plain, Mapping):
            self.add("", f"a manifest must be a table, not {type(plain).__name__}")
            return None
        if not self._bounded(plain):
            return None
        for key in plain:
            if key not in _FIELDS:
                self.add(name_of(key), f"unknown field{meant(key, _FIELDS)}")
        runtime = self._choice(plain, "runtime", RUNTIMES)
        fields: dict[str, Any] = {
            "id": self._text(plain, "id", id_problem),
            "version": self._text(plain, "version", version_problem),
            "api": self._api(plain),
            "runtime": runtime,
            "entry": self._entry(plain, runtime),
            "name": self._text(plain, "name", display_problem, needed=False),
            "description": self._text(plain, "description", display_problem, needed=False),
            "methods": self._methods(plain, runtime),
            "capabilities": self._capabilities(plain.get("capabilities", ())),
            "limits": self._limits(plain.get("limits", {})),
            **{name: self._patterns(plain, name, runtime) for name in _LISTS},
        }
        self._called(fields["capabilities"], fields["methods"])
        return None if self.problems else Manifest(**fields)

    # single fields

    def _bounded(self, plain: Mapping[Any, Any]) -> bool:
        """Whether this is plain data of reasonable size; walked without recursion, as nobody has looked at it yet."""
        stack: list[tuple[str, Any, int]] = [("", plain, 0)]
        count = 0
        while stack:
            path, value, depth = stack.pop()
            count += 1
            if count > _VALUES_MAX or depth > DEPTH_MAX:
                what = f"nested more than {DEPTH_MAX} deep" if depth > DEPTH_MAX else f"more than {_VALUES_MAX} values"
                self.add(path[:200], f"it holds {what}" if depth <= DEPTH_MAX else f"it is {what}")
                return False
            if isinstance(value, Mapping):
                for key, inner in value.items():
                    if not isinstance(key, str):
                        self.add(path, f"a key must be text, not {shown(key)}")
                        continue
                    stack.append((f"{path}.{name_of(key)}" if path else name_of(key), inner, depth + 1))
            elif isinstance(value, (list, tuple)):
                stack.extend((f"{path}[{index}]", inner, depth + 1) for index, inner in enumerate(value))
            elif isinstance(value, str):
                if len(value) > _TEXT_MAX:
                    self.add(path, f"is longer than {_TEXT_MAX} characters")
                elif not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
                    self.add(path, "holds half of a surrogate pair, which is no character")
            elif isinstance(value, int):
                if abs(value) >= 1 << 63:
                    self.add(path, "is larger than 64 bits hold")
            elif not isinstance(value, float):
                self.add(path, f"must be text, a number, true, false, a list or a table, not {type(value).__name__}")
        return not self.problems

    def _text(self, plain: Mapping[str, Any], field: str, problem: Any, *, needed: bool = True) -> str:
        if field not in plain:
            if needed:
                self.add(field, "is missing")
            return ""
        why = problem(plain[field])
        if why:
            self.add(field, why)
            return ""
        return str(plain[field])

    def _choice(self, plain: Mapping[str, Any], field: str, allowed: tuple[str, ...]) -> str:
        value = plain.get(field)
        if value is None:
            self.add(field, f"is missing; one of {', '.join(allowed)}")
        elif not isinstance(value, str) or value not in allowed:
            self.add(field, f"{shown(value)} is none of {', '.join(allowed)}{meant(value, allowed)}")
        else:
            return value
        return ""

    def _api(self, plain: Mapping[str, Any]) -> int:
        value = plain.get("api")
        if value is None:
            self.add("api", f"is missing; this version of Fastness speaks {API}")
        elif isinstance(value, bool) or not isinstance(value, int) or value != API:
            self.add("api", f"{shown(value)} is not supported; this version of Fastness speaks {API}")
        return API

    def _entry(self, plain: Mapping[str, Any], runtime: str) -> str:
        value = plain.get("entry")
        if value is None or value == "":
            if runtime in CODE_RUNTIMES:
                self.add("entry", "is missing: the path of the plugin's code below its folder, such as main.py")
            return ""
        why = entry_problem(value)
        endings = CODE_RUNTIMES.get(runtime, ())
        if not why and endings and not str(value).endswith(endings):
            why = f"{shown(value)} must end in {' or '.join(endings)}, as the runtime is {runtime}"
        if why:
            self.add("entry", why)
            return ""
        return str(value)

    def _list(self, value: object, path: str, most: int = LIST_MAX) -> Iterator[tuple[str, Any]]:
        if not isinstance(value, (list, tuple)):
            self.add(path, f"must be a list, not {shown(value)}")
            return
        if len(value) > most:
            self.add(path, f"holds {len(value)} entries; at most {most}")
            return
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item

    def _methods(self, plain: Mapping[str, Any], runtime: str) -> tuple[str, ...]:
        found: list[str] = []
        for path, item in self._list(plain.get("methods", ()), "methods"):
            if not isinstance(item, str) or re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", item) is None:
                self.add(path, f"{shown(item)} is no name: ASCII letters, digits and _, a letter first")
            elif keyword.iskeyword(item) or item in PHASES:
                self.add(path, f"{shown(item)} is taken: it is a word of the language, or a phase of every plugin")
            elif item in found:
                self.add(path, f"{shown(item)} is there twice")
            else:
                found.append(item)
        if found and runtime == "data":
            self.add("methods", "a plugin of data has no code, so no methods")
        return tuple(found)

    def _patterns(self, plain: Mapping[str, Any], field: str, runtime: str) -> tuple[str, ...]:
        found: list[str] = []
        for path, item in self._list(plain.get(field, ()), field):
            why = pattern_problem(item)
            if why:
                self.add(path, why)
            elif item not in found:
                found.append(item)
        if found and runtime == "data":
            self.add(field, "a plugin of data has no code that could")
        return tuple(found)

    def _limits(self, plain: object) -> Limits:
        if not isinstance(plain, Mapping):
            self.add("limits", f"must be a table, not {shown(plain)}")
            return Limits()
        good: dict[str, Any] = {}
        for key, given in plain.items():
            path = f"limits.{name_of(key)}"
            if key not in RANGES:
                self.add(path, f"unknown field{meant(key, RANGES)}")
                continue
            try:
                value = parse_size(given, path) if key in SIZES and isinstance(given, str) else given
                Limits(**{key: value})
            except ConfigurationError as error:
                self.add(path, f"{shown(given)} is not accepted; allowed: {error.allowed}")
            else:
                good[key] = value
        return Limits(**good)

    # capabilities

    def _capabilities(self, plain: object) -> tuple[Request, ...]:
        found: dict[str, Request] = {}
        for path, item in self._list(plain, "capabilities"):
            if not isinstance(item, Mapping):
                self.add(path, f"must be a table, not {shown(item)}")
                continue
            why = reason_problem(item.get("reason"))
            if why:
                self.add(f"{path}.reason", why)
            kind = item.get("kind")
            spec = self.specs.get(kind) if isinstance(kind, str) else None
            if spec is None:
                known = sorted(self.specs)
                words = "is missing" if kind is None else f"{shown(kind)} is no capability"
                self.add(f"{path}.kind", f"{words}; there are {', '.join(known) or 'none'}{meant(kind, known)}")
                continue
            if spec.kind in found:
                self.add(f"{path}.kind", f"{shown(kind)} is asked for twice; put both into one")
            scope = _ScopeReader(spec, path, self).read({k: v for k, v in item.items() if k not in ("kind", "reason")})
            if scope is not None and not why:
                found.setdefault(spec.kind, Request(kind=spec.kind, scope=scope, reason=str(item["reason"])))
        return tuple(found.values())

    def _called(self, capabilities: tuple[Request, ...], methods: tuple[str, ...]) -> None:
        """Whether each method that a scope names is one."""
        for one in capabilities:
            for name in self.specs[one.kind].methods(one.scope):
                if name not in methods:
                    self.add(
                        "capabilities",
                        f"{one.kind} names {shown(name)}, which is none of its methods{meant(name, methods)}",
                    )


class _ScopeReader:
    """Reads one scope, field by field and entry by entry, so that one fault does not hide the next."""

    def __init__(self, spec: Spec, path: str, reader: _Reader) -> None:
        self.spec = spec
        self.path = path
        self.reader = reader

    def read(self, plain: dict[str, Any]) -> Scope | None:
        known = [field.encode_name for field in msgspec.structs.fields(self.spec.scope)]
        before = len(self.reader.problems)
        for key in plain:
            if key not in known:
                self.reader.add(f"{self.path}.{name_of(key)}", f"unknown field{meant(key, [*known, 'reason'])}")
        plain = {key: value for key, value in plain.items() if key in known}
        made, whole = self._make(plain)
        if whole:
            parts = [line for key, value in plain.items() for line in self._field(key, value)]
            for line in parts or whole:
                self.reader.add("", line)
        return made if len(self.reader.problems) == before else None

    def _make(self, plain: dict[str, Any]) -> tuple[Scope | None, list[str]]:
        """The scope, or what is wrong with it."""
        try:
            return msgspec.convert({"kind": self.spec.kind, **plain}, self.spec.scope, strict=True), []
        except msgspec.ValidationError as error:
            words, _, place = str(error).partition(" - at `$")
            if place:
                return None, [f"{self.path}{place.rstrip('`')}: {words[:1].lower()}{words[1:]}"]
            return None, [self._placed(words, plain)]
        except ManifestError as error:
            return None, [self._placed(line, plain) for line in error.problems]
        except ConfigurationError as error:
            words = f"{shown(error.value)} is not accepted" + (f"; allowed: {error.allowed}" if error.allowed else "")
            return None, [self._placed(f"{error.field}: {words}", plain)]

    def _placed(self, words: str, plain: dict[str, Any]) -> str:
        """A message of the scope's own, behind the path that it begins with or behind that of the scope."""
        begins = re.match(r"[a-z_]+", words)
        inside = begins is not None and begins[0] in plain and words[begins.end() :][:1] in (":", "[", ".")
        return f"{self.path}.{words}" if inside else f"{self.path}: {words}"

    def _field(self, key: str, value: Any) -> list[str]:
        """What is wrong with one field where the others are as they are by default; of a list, with each entry."""
        _, whole = self._make({key: value})
        if not whole or not isinstance(value, (list, tuple)) or len(value) < 2:
            return whole
        if len(value) > _VALUES_MAX // 10:
            return whole
        found: list[str] = []
        place = f"{self.path}.{key}"
        for index, item in enumerate(value):
            _, lines = self._make({key: [item]})
            found += [
                line.replace(f"{place}[0]", f"{place}[{index}]", 1)
                if line.startswith(f"{place}[0]")
                else f"{place}[{index}]: {line.removeprefix(f'{place}: ').removeprefix(f'{self.path}: ')}"
                for line in lines
            ]
        return found or whole

"""
Functions of the host as text: their signatures and documentation in Python and JavaScript, for guests and for prompts.

A type is shown as what a guest gives: a class of the host's with fields is an object with keys, since that is what its
arguments are decoded from.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import textwrap
import types
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["javascript", "python", "signature"]

#: Classes with fields inside each other that are written out.
_DEPTH = 3
_DEFAULT_MAX = 100
_JAVASCRIPT = {
    bool: "boolean", int: "number", float: "number", str: "string", bytes: "Uint8Array", dict: "object", list: "Array",
    type(None): "null",
}  # fmt: skip
_OTHERS = (tuple, set, frozenset)


def signature(function: inspect.Signature, hints: Mapping[str, Any]) -> str:
    """Parameters and what comes back, as Python writes them: ``(a: int, b: int = 2) -> int``."""
    parts: list[str] = []
    for parameter in function.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        text = f"{parameter.name}: {_python(hints[parameter.name], 0)}"
        parts.append(text if parameter.default is parameter.empty else f"{text} = {_default(parameter.default)}")
    returns = f" -> {_python(hints['return'], 0)}" if "return" in hints else ""
    return f"({', '.join(parts)}){returns}"


def python(name: str, text: str, documentation: str) -> str:
    """A stub: ``text`` is its signature."""
    lines = [f"def {name}{text}:"]
    if documentation:
        safe = documentation.replace("\\", "\\\\")
        if '"""' in safe or safe.endswith('"'):
            safe = safe.replace('"', '\\"')
        quoted = f'"""{safe}"""' if "\n" not in safe else f'"""\n{safe}\n"""'
        lines.append(textwrap.indent(quoted, "    ", lambda line: bool(line.strip())))
    lines.append("    ...")
    return "\n".join(lines) + "\n"


def javascript(name: str, function: inspect.Signature, hints: Mapping[str, Any], documentation: str) -> str:
    """A stub with its types in a comment, as tools of the language read them."""
    lines = [*documentation.replace("*/", "*\\/").splitlines()]
    told: list[str] = []
    names: list[str] = []
    for parameter in function.parameters.values():
        kind = _script(hints[parameter.name], 0)
        given = parameter.name
        if parameter.default is not parameter.empty:
            given = f"[{parameter.name}={_script_default(parameter.default)}]".replace("=]", "]")
        told.append(f"@param {{{kind}}} {given}")
        names.append(parameter.name)
    told.append(f"@returns {{Promise<{_script(hints.get('return', Any), 0)}>}}")
    lines = [*lines, "", *told] if lines else told
    comment = "\n".join(f" * {line}".rstrip() for line in lines)
    return f"/**\n{comment}\n */\nasync function {name}({', '.join(names)}) {{}}\n"


def _fields(hint: Any) -> dict[str, tuple[Any, bool]] | None:
    """Of a class whose instances are decoded from objects: its keys, with the type and whether it must be there."""
    if not isinstance(hint, type):
        return None
    if issubclass(hint, msgspec.Struct):
        return {field.encode_name: (field.type, field.required) for field in msgspec.structs.fields(hint)}
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        missing = dataclasses.MISSING
        return {
            field.name: (hints[field.name], field.default is missing and field.default_factory is missing)
            for field in dataclasses.fields(hint)
        }
    if typing.is_typeddict(hint):
        required: frozenset[str] = getattr(hint, "__required_keys__", frozenset())
        said = typing.get_type_hints(hint, include_extras=True)
        return {
            name: (kind, _needed(said[name], name in required)) for name, kind in typing.get_type_hints(hint).items()
        }
    return None


def _needed(hint: Any, otherwise: bool) -> bool:
    """Whether a key must be there: the class does not know what annotations say that are texts (PEP 655)."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _needed(typing.get_args(hint)[0], otherwise)
    return origin is typing.Required if origin in (typing.Required, typing.NotRequired) else otherwise


def _parts(hint: Any) -> tuple[str, Any, tuple[Any, ...]]:
    """What a type is (``any``, ``plain``, ``union``, ``literal`` or ``of``), its origin, and its arguments."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _parts(typing.get_args(hint)[0])
    if hint is None:
        return "plain", type(None), ()
    if hint is Any or hint is object or isinstance(hint, typing.TypeVar):
        return "any", hint, ()
    if origin is typing.Union or origin is types.UnionType:
        return "union", origin, typing.get_args(hint)
    if origin is typing.Literal:
        return "literal", origin, typing.get_args(hint)
    return ("plain", hint, ()) if origin is None else ("of", origin, typing.get_args(hint))


def _python(hint: Any, depth: int) -> str:
    what, origin, arguments = _parts(hint)
    if what == "any":
        return "Any"
    if what == "literal":
        return f"Literal[{', '.join(map(repr, arguments))}]"
    inside = [_python(one, depth) for one in arguments if one is not Ellipsis]
    if what == "union":
        return " | ".join(inside)
    if what == "of":
        more = ", ..." if Ellipsis in arguments else ""
        return f"{_name(origin)}[{', '.join(inside)}{more}]"
    if origin is type(None):
        return "None"
    fields = _fields(origin)
    if fields is None:
        return _name(origin)
    if depth >= _DEPTH:
        return "dict"
    return "{" + ", ".join(f'"{name}": {_python(kind, depth + 1)}' for name, (kind, _) in fields.items()) + "}"


def _script(hint: Any, depth: int) -> str:
    what, origin, arguments = _parts(hint)
    if what == "any":
        return "*"
    if what == "literal":
        return "|".join(json.dumps(one) for one in arguments)
    if what == "union":
        return "|".join(dict.fromkeys(_script(one, depth) for one in arguments))
    if what == "of" and isinstance(origin, type):
        if issubclass(origin, dict) or origin.__name__ in ("Mapping", "MutableMapping"):
            return f"Object<{', '.join(_script(one, depth) for one in arguments)}>"
        return f"Array<{'|'.join(dict.fromkeys(_script(one, depth) for one in arguments if one is not Ellipsis))}>"
    fields = _fields(origin)
    if fields is None:
        found: Any = origin
        return _JAVASCRIPT.get(found, "Array" if found in _OTHERS else "string" if isinstance(found, type) else "*")
    if depth >= _DEPTH:
        return "object"
    inside = (f"{name}{'' if needed else '?'}: {_script(kind, depth + 1)}" for name, (kind, needed) in fields.items())
    return "{" + ", ".join(inside) + "}"


def _name(found: Any) -> str:
    return str(getattr(found, "__name__", None) or str(found).removeprefix("typing."))


def _default(value: Any) -> str:
    text = repr(value) if type(value) in (bool, int, float, str, bytes, list, dict, tuple, type(None)) else "..."
    try:
        ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        # It, or something inside it, is written in a way that is no expression, or by a name that no stub has.
        return "..."
    return text if len(text) <= _DEFAULT_MAX else "..."


def _script_default(value: Any) -> str:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return ""
    # A bracket would end the notation that it stands in.
    return text if len(text) <= _DEFAULT_MAX and "]" not in text and "*/" not in text else ""

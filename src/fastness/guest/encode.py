"""
Plain data to tagged JSON, inside a Python guest.

The host's module of wire values documents the format and restores it; this is the writer alone, put into the
guest under the name ``_fastness_encode``.  It asks for exact types, so it runs no method of user code, and its
limits are only there so that the host does not have to refuse the whole answer.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_EXACT = 2**53
_DEPTH = 200
_CONTAINERS = 250_000
_TAGGED = '{"$":["%s","%s"]}'
# Taken now: user code may replace the names in builtins later.
_repr_int = int.__repr__
_repr_float = float.__repr__
_isfinite = math.isfinite
_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)} | {34: '\\"', 92: "\\\\"}


class _NotPlain(Exception):
    pass


def encode(value: object, max_bytes: int) -> bytes | None:
    """The JSON of ``value`` in UTF-8, or None where it is not plain data, nested too deep or too large."""
    out: list[str] = []
    try:
        _write(value, out.append, 0, [_CONTAINERS, max_bytes])
    except (_NotPlain, RecursionError):  # user code may have set any recursion limit
        return None
    data = "".join(out).encode()
    return data if len(data) <= max_bytes else None


def _write(value: Any, put: Callable[[str], None], depth: int, left: list[int]) -> None:
    kind = type(value)
    if kind is str:
        put(_text(value, left))
    elif kind is int:
        if -_EXACT < value < _EXACT:
            put(_repr_int(value))
        else:
            _take(left, 2, value.bit_length() // 4)
            put(_TAGGED % ("int", f"{value:x}"))
    elif value is None:
        put("null")
    elif kind is bool:
        put("true" if value else "false")
    elif kind is float:
        if _isfinite(value):
            put(_repr_float(value))
        else:
            _take(left, 2, 0)
            put(_TAGGED % ("float", _repr_float(value)))
    elif kind is bytes:
        _take(left, 2, len(value))
        put(_TAGGED % ("bytes", _base64(value)))
    elif depth >= _DEPTH:
        raise _NotPlain
    elif kind is list or kind is tuple:
        _take(left, 1, 2 * len(value))
        comma = "["
        for item in value:
            put(comma)
            _write(item, put, depth + 1, left)
            comma = ","
        put("[]" if comma == "[" else "]")
    elif kind is dict:
        _take(left, 1, 2 * len(value))
        keys = {}
        odd = False
        for key in value:
            if type(key) is not str:
                raise _NotPlain
            text = keys[key] = _text(key, left)
            odd = odd or key == "$" or text[0] == "{"
        if odd:
            _take(left, 1, 0)
            put('{"$":["dict"')
        comma, colon, end = (",", ",", "]}") if odd else ("{", ":", "}")
        for key, text in keys.items():
            put(comma + text + colon)
            _write(value[key], put, depth + 1, left)
            comma = ","
        put("{}" if comma == "{" else end)
    else:
        raise _NotPlain


def _take(left: list[int], containers: int, size: int) -> None:
    # A value that holds one part many times over must be given up before it is written out.
    left[0] -= containers
    left[1] -= size
    if left[0] < 0 or left[1] < 0:
        raise _NotPlain


def _text(text: str, left: list[int]) -> str:
    left[1] -= len(text)
    if left[1] < 0:
        raise _NotPlain
    if text.isprintable():
        # No control characters and no surrogates.
        if '"' not in text and "\\" not in text:
            return '"' + text + '"'
    elif not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            _take(left, 2, 0)
            return _TAGGED % ("str", _base64(text.encode("utf-8", "surrogatepass")))
    return '"' + text.translate(_ESCAPES) + '"'


def _base64(data: bytes) -> str:
    import binascii

    return binascii.b2a_base64(data, newline=False).decode()


def offending(arguments: dict[str, object], large: str = "the arguments are too large, or nested too deep") -> str:
    """Why arguments cannot be encoded, with the place of what it is; ``large`` where there is none."""
    found = _find(arguments, "", 0)
    if found is None:
        return large
    path, kind = found
    return f"{path.lstrip('.')} is {kind}, which cannot be given to the host: only plain data can"


def _find(value: Any, path: str, depth: int) -> tuple[str, str] | None:
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes):
        return None
    if depth >= _DEPTH:
        return path, "nested too deep"
    if kind in (list, tuple):
        for index, item in enumerate(value):
            found = _find(item, f"{path}[{index}]", depth + 1)
            if found:
                return found
        return None
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                return path, f"a dict with a key of type {type(key).__name__}"
            found = _find(item, f"{path}.{key}", depth + 1)
            if found:
                return found
        return None
    return path, f"of type {kind.__name__}"

"""
Plain data as tagged JSON.  What JSON has, is JSON; the rest is an object whose only key is ``$``:

    float      1.5 -0.0 1e+16    always with "." or "e"; -0.0 keeps its sign
               {"$":["float","nan"]}    and "inf", "-inf"
    int        12    below 2**53 in size; else {"$":["int","-1f..."]}: lower-case hex, "-" for negative, no leading 0
    str        "text"    in UTF-8; with lone surrogates {"$":["str",BASE64]}: base64 of its UTF-8, surrogates as 3 bytes
    bytes      {"$":["bytes",BASE64]}    standard alphabet, padded
    list       [...]    a tuple is sent as a list
    dict       {...}    keys are str; with a key "$" or a key with lone surrogates {"$":["dict",k1,v1,k2,v2,...]}
    null true false    as they are

No more than 200 lists and dicts deep; no more than 250,000 JSON arrays and objects in all, those of the tags included.
Nothing else is plain: instances of subclasses are not,
since looking into them would run their code.  ``guest/encode.py`` and ``guest/boot.js`` write the same format.
"""

from __future__ import annotations

import binascii
import math
import re
from typing import Any, Final, NoReturn

import msgspec

from fastness.errors import GuestProtocolError

#: Lists and dicts inside each other.
MAX_DEPTH: Final = 200
#: JSON arrays and objects of one value; a tag is two.  One takes 3 bytes on the wire and hundreds here, so the size
#: alone would be no bound on memory.
MAX_CONTAINERS: Final = 250_000
#: Bytes of an encoded value.
MAX_BYTES: Final = 4 << 20

#: Integers of this size and more are tagged: JSON readers that use doubles would round them.
_EXACT: Final = 2**53
#: Integers of more bits are shown in hex: CPython refuses to print more than 4300 decimal digits.
_DECIMAL_BITS: Final = 10_000

_FLOATS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
#: Pieces between quotes that are looked at together.
_PIECES: Final = 8192
_HEX: Final = re.compile(r"-?[1-9a-f][0-9a-f]*|0").fullmatch
# The class's own slot: `cls.__name__` would ask the metaclass, which may be the caller's code.
_type_name = type.__dict__["__name__"].__get__


class NotPlain(TypeError):
    """
    A value cannot cross.

    ``path`` is where in it, such as ``$.rows[3].fn``; ``type_name`` is the type found there, or the limit passed.
    """

    def __init__(self, path: str, type_name: str) -> None:
        self.path = path if len(path) <= 200 else path[:197] + "..."
        self.type_name = type_name[:100]
        super().__init__(f"{self.path} is not plain data: {self.type_name}")


class _Found(Exception):
    """Carries the path of the offending value outwards, innermost step first, and what was found."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.steps: list[str] = []


def encode(value: object, max_bytes: int = MAX_BYTES) -> bytes:
    """The tagged JSON of plain data.  Raises :class:`NotPlain`; runs no code of the value's types."""
    try:
        plain = value is None or (type(value) is str and value.isascii() and len(value) <= max_bytes)
        data = msgspec.json.encode(value if plain else _Tagger(max_bytes).tag(value, 0))
    except _Found as found:
        raise NotPlain("$" + "".join(reversed(found.steps)), found.what) from None
    if len(data) > max_bytes:
        raise NotPlain("$", f"more than {max_bytes} bytes")
    return data


class _Tagger:
    """One pass over a value that builds what JSON can carry."""

    __slots__ = ("_budget", "_containers")

    def __init__(self, max_bytes: int) -> None:
        self._containers = 0
        # Counts down by what each part needs at least, so that a value which refers to one part many times over
        # is given up before it is unfolded.
        self._budget = max_bytes

    def tag(self, value: Any, depth: int) -> Any:
        kind = type(value)
        self._budget -= 1
        if kind is str:
            return self._text(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -_EXACT < value < _EXACT else self._integer(value)
        if kind is float:
            return value if math.isfinite(value) else self._tagged("float", repr(value))
        if kind is bytes:
            self._spend(len(value))
            return self._tagged("bytes", binascii.b2a_base64(value, newline=False).decode())
        if kind is not list and kind is not tuple and kind is not dict:
            raise _Found(_type_name(kind))
        if depth >= MAX_DEPTH:
            raise _Found(f"nested more than {MAX_DEPTH} deep")
        self._spend(1)
        self._count(1)
        if kind is dict:
            return self._mapping(value, depth + 1)
        out: list[Any] = []
        try:
            for item in value:
                out.append(self.tag(item, depth + 1))  # noqa: PERF401  # a failure reads how far it came
        except _Found as found:
            found.steps.append(f"[{len(out)}]")
            raise
        return out

    def _mapping(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        key: Any = None
        odd = False
        try:
            for key, item in value.items():
                if type(key) is not str:
                    raise _Found(f"a key of type {_type_name(type(key))}")
                odd = odd or key == "$" or _has_surrogates(key)
                self._spend(len(key))
                out[key] = self.tag(item, depth)
        except _Found as found:
            found.steps.append(step(key))
            raise
        if not odd:
            return out
        self._count(1)
        flat: list[Any] = ["dict"]
        for key, item in out.items():
            flat += (self._text(key), item)
        return {"$": flat}

    def _text(self, value: str) -> Any:
        self._spend(len(value))
        if _has_surrogates(value):
            data = value.encode("utf-8", "surrogatepass")
            return self._tagged("str", binascii.b2a_base64(data, newline=False).decode())
        return value

    def _integer(self, value: int) -> Any:
        self._spend(value.bit_length() // 4)
        return self._tagged("int", format(value, "x"))

    def _tagged(self, name: str, text: str) -> dict[str, list[str]]:
        self._count(2)
        return {"$": [name, text]}

    def _count(self, amount: int) -> None:
        self._containers += amount
        if self._containers > MAX_CONTAINERS:
            raise _Found("too many lists and dicts in all")

    def _spend(self, amount: int) -> None:
        self._budget -= amount
        if self._budget < 0:
            raise _Found("too many bytes in all")


def _has_surrogates(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def step(key: object) -> str:
    """One step of a path for a dict's key: ``.name``, or ``["other text"]``, or ``[...]`` for a key that is no str."""
    if type(key) is not str:
        return "[...]"
    key = key[:40]
    return f".{key}" if key.isascii() and key.isidentifier() else f"[{key!a}]"


def decode(data: bytes, max_bytes: int = MAX_BYTES) -> Any:
    """
    The value that tagged JSON from a guest stands for.

    Raises GuestProtocolError for anything that the format does not have.
    """
    if len(data) > max_bytes:
        raise GuestProtocolError(f"a value of {len(data)} bytes; at most {max_bytes} are taken")
    # Each takes a bracket.
    if len(data) > MAX_CONTAINERS:
        check_containers(data)
    try:
        tree = msgspec.json.decode(data)
    except RecursionError:
        raise GuestProtocolError("a value is nested too deeply") from None
    except ValueError as error:  # all of msgspec's errors are one
        raise GuestProtocolError(f"a value is not valid: {str(error)[:300]}") from None
    return restore(tree)


def check_containers(data: bytes, extra: int = 0) -> None:
    """
    Refuse JSON that would become too many lists and dicts, before any is made.

    ``extra`` is how many the message around the value may have of its own.  Raises GuestProtocolError.
    """
    cap = MAX_CONTAINERS + extra
    if data.count(b"[") + data.count(b"{") <= cap:
        return
    # Brackets inside strings are none; a text full of them must not be refused.
    # Escaped backslashes first, from left to right: what then still looks like an escaped quote is one.
    if _brackets_outside_strings(data.replace(b"\\\\", b"").replace(b'\\"', b"")) > cap:
        raise GuestProtocolError(f"a value holds more than {MAX_CONTAINERS} lists and dicts")


def _brackets_outside_strings(bare: bytes) -> int:
    """Opening brackets that no pair of quotes encloses; some thousand pieces are held at a time."""
    found, inside = 0, False
    while bare:
        pieces = bare.split(b'"', _PIECES)
        bare = pieces.pop() if len(pieces) > _PIECES else b""
        outside = b"".join(pieces[inside::2])
        found += outside.count(b"[") + outside.count(b"{")
        inside ^= bool(len(pieces) & 1)
    return found


def restore(tree: Any) -> Any:
    """
    Replace the tags in decoded JSON, in place where it can; returns the value.

    Raises GuestProtocolError for a tag that does not exist or is malformed, an untagged integer that should be
    tagged, and nesting past ``MAX_DEPTH``.
    """
    try:
        return _restore(tree, 0)
    except RecursionError:
        raise GuestProtocolError("a value is nested too deeply") from None


def _restore(tree: Any, depth: int) -> Any:
    kind = type(tree)
    if kind is list:
        if depth >= MAX_DEPTH:
            _bad(f"nested more than {MAX_DEPTH} deep")
        for index, item in enumerate(tree):
            inner = type(item)
            if inner is dict or inner is list or inner is int:
                tree[index] = _restore(item, depth + 1)
        return tree
    if kind is dict:
        if "$" in tree:
            return _untag(tree, depth)
        if depth >= MAX_DEPTH:
            _bad(f"nested more than {MAX_DEPTH} deep")
        for key, item in tree.items():
            inner = type(item)
            if inner is dict or inner is list or inner is int:
                # Setting an existing key does not disturb the iteration.
                tree[key] = _restore(item, depth + 1)
        return tree
    if kind is int and not -_EXACT < tree < _EXACT:
        _bad("an integer of 2**53 or more without its tag")
    return tree


def _untag(tree: dict[str, Any], depth: int) -> Any:
    body = tree["$"]
    if len(tree) != 1 or type(body) is not list or not body:
        _bad("an object with the key $ that is no tag")
    if body[0] == "dict":
        return _untag_dict(body, depth)
    if len(body) != 2 or type(body[1]) is not str:
        _bad("a tag without its text")
    name, text = body
    if name == "bytes":
        return _base64(text)
    if name == "str":
        try:
            return _base64(text).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            _bad("a tagged text that is not UTF-8")
    if name == "int":
        if not _HEX(text):
            _bad("a tagged integer that is not hex")
        return int(text, 16)
    if name == "float" and text in _FLOATS:
        return _FLOATS[text]
    return _bad("an unknown tag")


def _untag_dict(body: list[Any], depth: int) -> dict[str, Any]:
    if depth >= MAX_DEPTH:
        _bad(f"nested more than {MAX_DEPTH} deep")
    if len(body) % 2 == 0:
        _bad("a tagged dict with a key that has no value")
    out: dict[str, Any] = {}
    for index in range(1, len(body), 2):
        key = _restore(body[index], depth + 1)
        if type(key) is not str or key in out:
            _bad("a tagged dict whose keys are not different texts")
        out[key] = _restore(body[index + 1], depth + 1)
    return out


def _base64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        _bad("a tag whose text is not base64")


def _bad(why: str) -> NoReturn:
    raise GuestProtocolError(f"a value is not valid: {why}")


def to_json(value: Any) -> Any:
    r"""
    A restored value as plain JSON can carry it, for ``--json``: what has no JSON of its own becomes a string.

    NaN and infinities become ``"nan"``, ``"inf"``, ``"-inf"``; integers that are tagged on the wire become decimal
    text (hex where very long); bytes become text with ``\xff`` escapes; lone surrogates become ``\udcff`` escapes.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if kind is float:
        return value if math.isfinite(value) else repr(value)
    if kind is int:
        if -_EXACT < value < _EXACT:
            return value
        return str(value) if value.bit_length() < _DECIMAL_BITS else hex(value)
    if kind is bytes:
        return repr(value)[2:-1]
    if kind is list or kind is tuple:
        return [to_json(item) for item in value]
    if kind is dict:
        return {to_json(key): to_json(item) for key, item in value.items()}
    return value

"""
Credentials that a host adds to a guest's requests, so that the guest never holds them, and their removal from answers.

A credential belongs to one exact origin, to methods and to a path.  What comes back is searched for it as it is and in
the forms that servers echo: base64, percent-encoded, quoted-printable, hexadecimal, and escaped as JSON, JavaScript and
HTML do.  An endpoint that transforms it in another way (hashes it, cuts it in two, compresses it) can hand it to the
guest: bind a credential to endpoints that do not.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from urllib.parse import unquote_to_bytes

import msgspec

from fastness import unseen
from fastness.capabilities._headers import BadHeader, checked
from fastness.capabilities._urls import BadUrl, Url, url_of

__all__ = ["REDACTED", "Redactor", "Secret"]

#: What stands where a credential stood.
REDACTED = b"[redacted]"
#: A shorter one could not be searched for: it would be found in texts that have nothing to do with it.
SHORTEST = 8
LONGEST = 4_096
#: Characters that begin an escape.  Each can be read in two ways, and a search would try all ways together.
_MOST_MARKS = 8
_VALUE = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PREFIX = re.compile(r"/(?:[A-Za-z0-9._~!$&'()+,=:@-]+(?:/[A-Za-z0-9._~!$&'()+,=:@-]+)*/?)?")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Secret(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    A credential and what it is bound to.  Every part must hold for it to be sent.

    ``name``: how a scope names it.
    ``origin``: scheme, host and port, such as ``https://api.example.com``; never a pattern.  ``http`` sends it readable
    to everybody in between, so that needs ``plain_http``.
    ``methods``: the methods that it goes with; none by default.
    ``path``: it goes with this path and what lies below it: ``/v1`` is ``/v1`` and ``/v1/...``, never ``/v1x``.
    ``value``: the credential, 8 to 4,096 visible ASCII characters, at most 8 of them backslashes, percent signs,
    ampersands and equals signs.
    ``header`` and ``form``: the field that carries it, and its value with ``{}`` in the credential's place.
    ``user``: where given, the credential is a password and the field is that of Basic authentication (RFC 7617).

    Raises ValueError, which never quotes the credential.
    """

    name: str
    origin: str
    methods: tuple[str, ...] = ()
    path: str = "/"
    value: str
    header: str = "authorization"
    form: str = "Bearer {}"
    user: str | None = None
    plain_http: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError("name of a secret: letters, digits, dots, hyphens and underscores")
        if not SHORTEST <= len(self.value) <= LONGEST or not _VALUE.fullmatch(self.value):
            raise ValueError(f"value of a secret: {SHORTEST} to {LONGEST} visible ASCII characters, no spaces")
        if sum(self.value.count(mark) for mark in "\\%&=") > _MOST_MARKS:
            marks = "backslashes, percent signs, ampersands and equals signs"
            raise ValueError(f"value of a secret: at most {_MOST_MARKS} {marks}")
        try:
            url = url_of(self.origin)
        except BadUrl as error:
            raise ValueError(f"origin of a secret: {error}") from None
        if url.target != "/" or "?" in self.origin or self.origin.rstrip("/").count("/") != 2:
            raise ValueError("origin of a secret: scheme, host and port, and nothing after them")
        if url.scheme != "https" and not self.plain_http:
            raise ValueError("origin of a secret: https, or plain_http = true")
        if not set(self.methods) <= _METHODS:
            raise ValueError(f"methods of a secret: {', '.join(sorted(_METHODS))}")
        if not _PREFIX.fullmatch(self.path) or any(part in (".", "..") for part in self.path.split("/")):
            raise ValueError("path of a secret: plain, from the root, such as /v1")
        if self.form.count("{}") != 1 or (self.user is not None and (":" in self.user or not self.user.isascii())):
            raise ValueError("form of a secret: one {}; user: ASCII without a colon")
        if self.header.lower() != "authorization":
            try:
                checked({self.header: self.form.replace("{}", "x")})
            except BadHeader as error:
                raise ValueError(f"header of a secret: {error}") from None
        elif not re.fullmatch(r"[ -~]+", self.form):
            raise ValueError("form of a secret: plain text")
        msgspec.structs.force_setattr(self, "origin", url.origin)
        msgspec.structs.force_setattr(self, "header", self.header.lower())

    def __repr__(self) -> str:
        return f"Secret(name={self.name!r}, origin={self.origin!r}, path={self.path!r}, value=...)"

    __str__ = __repr__

    @property
    def field(self) -> tuple[str, str]:
        """The header field to send."""
        if self.user is not None:
            pair = base64.b64encode(f"{self.user}:{self.value}".encode()).decode()
            return self.header, f"Basic {pair}"
        return self.header, self.form.replace("{}", self.value)

    def goes_with(self, method: str, url: Url) -> bool:
        """Whether this request is one that the credential is for."""
        return method in self.methods and url.origin == self.origin and self._lies_below(url.path)

    def _lies_below(self, path: str) -> bool:
        # The path has no dot segments any more.  A server may decode once more, cut parameters off, or read what looks
        # like a dot or a slash as one: what would lead elsewhere for any of them is elsewhere.
        if not _is_below(path, self.path):
            return False
        decoded = path.encode("utf-8", "surrogatepass")
        for _ in range(8):
            before, decoded = decoded, unquote_to_bytes(decoded)
            if decoded == before:
                break
        else:
            return False
        if _ODD_BYTES.search(decoded):
            return False
        readings = [decoded.decode("latin-1")]
        if not decoded.isascii():
            # As somebody reads it who takes it for UTF-8, drops what is drawn as nothing, and has one dot of many.
            seen = _UNDRAWN.sub("", decoded.decode("utf-8", "replace"))
            readings.append(unicodedata.normalize("NFKC", seen).translate(_SLASHES))
        return all(_stays_below(reading, self.path) for reading in readings)


#: Never in a path that a credential goes with, however often it was decoded: controls, backslashes, escapes that some
#: servers know beside those of RFC 3986, and characters in more bytes of UTF-8 than they need (RFC 3629, 3).
_ODD_BYTES = re.compile(
    rb"[\x00-\x1f\x7f\\]|%[uU]|[\xc0\xc1]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]|\xf8[\x80-\x87]|\xfc[\x80-\x83]"
)
_UNDRAWN = re.compile(f"[{unseen.UNDRAWN}]")
#: Strokes that some take for a slash or a backslash, and that are none in any form of Unicode's.
_SLASHES = dict.fromkeys(map(ord, "\u2044\u2215\u29f8"), "/") | dict.fromkeys(map(ord, "\u2216\u29f5"), "\\")


def _stays_below(path: str, prefix: str) -> bool:
    parts = path.split("/")
    dots = any(part.partition(";")[0].strip() in (".", "..") for part in parts)
    return _is_below(path, prefix) and "\\" not in path and not dots


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix if prefix.endswith("/") else f"{prefix}/")


class Redactor:
    """Removes credentials, in every form that is looked for, from whole texts: nothing is judged in pieces."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._forms = [form for secret in secrets for form in _forms(secret.value.encode("ascii"))]

    def __bool__(self) -> bool:
        return bool(self._forms)

    def found(self, data: bytes) -> bool:
        """Whether there is one in it."""
        return any(True for form in self._forms for _ in form.spans(data))

    def clean(self, data: bytes) -> bytes:
        """The same without them."""
        spans = sorted(_whole(data, *span) for form in self._forms for span in form.spans(data))
        if not spans:
            return data
        kept, end = [], 0
        for start, stop in spans:
            if start >= end:
                kept += [data[end:start], REDACTED]
            end = max(end, stop)
        return b"".join((*kept, data[end:]))


_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")


def _whole(data: bytes, start: int, end: int) -> tuple[int, int]:
    """With the character on each side that base64 shares between neighbours: it may hold bits of the credential."""
    return (
        start - (start > 0 and data[start - 1] in _BASE64),
        end + (end < len(data) and data[end] in _BASE64),
    )


#: Items of one pattern: compiling takes 0.6 ms an item, and a credential is rarely longer.
_PIECE = 48
#: Bytes that are searched at once.  The engine lets no other thread of the host run meanwhile.
_WINDOW = 256 << 10


class _Form:
    """One way to write a credential: a pattern of its beginning, and patterns of what follows, made when needed."""

    def __init__(self, first: bytes, units: list[bytes], flags: bytes, widest: int, whole: bytes = b"") -> None:
        # A piece does not end in a unit that may be read in two ways: the engine tries both within a piece only.
        self._pieces: list[bytes] = []
        start = 0
        while start < len(units):
            end = min(start + _PIECE, len(units))
            while end < len(units) and whole[end - 1 : end] in (b"%", b"&", b"\\", b"="):
                end += 1
            self._pieces.append(b"(?" + flags + b":" + b"".join(units[max(start, 1) : end]) + b")")
            start = end
        self._start = re.compile(first + self._pieces[0])
        self._rest: list[re.Pattern[bytes]] | None = None
        self._reach = len(units) * widest

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where it stands."""
        place = 0
        for window in range(0, len(data), _WINDOW):
            limit = window + _WINDOW
            place = max(place, window)
            while place < limit and (found := self._start.search(data, place, limit + self._reach)):
                if found.start() >= limit:
                    break
                end = self._end(data, found.end())
                place = found.start() + 1 if end is None else end
                if end is not None:
                    yield found.start(), end

    def _end(self, data: bytes, place: int) -> int | None:
        if self._rest is None:
            self._rest = [re.compile(piece) for piece in self._pieces[1:]]
        for piece in self._rest:
            found = piece.match(data, place)
            if found is None:
                return None
            place = found.end()
        return place


# Every pattern begins with a set of single bytes, in which the engine searches fast, and decides there what it found.


@lru_cache(maxsize=64)
def _forms(value: bytes) -> tuple[_Form, ...]:
    own = _either(value[0])
    start = own[:-1] + rb"%&=\\](?i:(?<=" + own + rb")|" + rb"|".join(_escapes(value[0], after=True)) + rb")"
    digits = [f"{byte:02x}".encode() for byte in value]
    # Dumps put separators between bytes, and a sign before each that it is hexadecimal.
    pairs = [rb"[\s:,;\"'-]{0,4}(?:0x)?" + digit for digit in digits]
    high, low = (_either(digit) for digit in digits[0])
    in_base64 = []
    for offset in range(3):
        # The characters that depend on the credential alone, where it begins so far into a group of three.
        whole = base64.b64encode(bytes(offset) + value)
        inner = whole[-(-8 * offset // 6) : (8 * (offset + len(value))) // 6]
        units = [_LINE_END + _OF_ALPHABET.get(character, re.escape(bytes((character,)))) for character in inner]
        in_base64.append(_Form(_OF_ALPHABET.get(inner[0], re.escape(inner[:1])), units, b"-i", 8))
    return (
        _Form(start, [_spelled(byte) for byte in value], b"i", 24, value),
        _Form(high + low, pairs, b"i", 8),
        *in_base64,
    )


def _either(byte: int) -> bytes:
    """A class of one byte, in both cases where it has two."""
    both = {bytes((byte,)).lower(), bytes((byte,)).upper()}
    return b"[" + b"".join(re.escape(one) for one in sorted(both)) + b"]"


def _escapes(byte: int, *, after: bool = False) -> tuple[bytes, ...]:
    """
    A byte percent-encoded, quoted-printable (RFC 2045, 6.7), or escaped as JSON, JavaScript and HTML do, JSON within
    JSON too; ``after`` the escape's first character.
    """
    own, code = re.escape(bytes((byte,))), f"{byte:02x}".encode()
    percent, equals, backslash, ampersand = (
        (rb"(?<=%)", rb"(?<==)", rb"(?<=\\)", rb"(?<=&)") if after else (rb"%", rb"=", rb"\\", rb"&")
    )
    # In JSON within JSON there are up to three.  A backslash itself is looked for once escaped, as a row of them would
    # have too many readings; and at the start it is the last one that counts.
    more = rb"" if byte == 0x5C or after else rb"\\{0,2}"
    names = b"".join(rb"|" + name for name in _html().get(byte, ()))
    return (
        percent + rb"(?:25){0,3}" + code,
        # A soft line break may stand before it.
        equals + rb"(?:" + code + rb"|\r?\n(?:=" + code + rb"|" + own + rb"))",
        backslash + more + rb"(?:u00" + code + rb"|x" + code + rb"|" + own + rb")",
        ampersand + rb"(?:#(?:0{0,5}" + str(byte).encode() + rb"|x0{0,5}" + code + rb")" + names + rb");",
    )


def _spelled(byte: int) -> bytes:
    own, escapes = re.escape(bytes((byte,))), _escapes(byte)
    # Two readings where the byte itself begins an escape: the longer one first, and the engine tries the other.
    return rb"(?:" + rb"|".join((*escapes, own) if byte in b"%&=\\" else (own, *escapes)) + rb")"


@cache
def _html() -> dict[int, tuple[bytes, ...]]:
    """Names that HTML has for single characters of ASCII (HTML, 13.5)."""
    from html.entities import html5

    found: dict[int, set[bytes]] = {}
    for name, letter in html5.items():
        if name.endswith(";") and len(letter) == 1 and "!" <= letter <= "~":
            found.setdefault(ord(letter), set()).add(re.escape(name[:-1].lower().encode()))
    return {byte: tuple(sorted(names)) for byte, names in found.items()}


#: Encoders break lines.
_LINE_END = rb"[\r\n]{0,2}"
#: Characters that differ between the alphabets (RFC 4648, 4 and 5), also as JSON or a URL carries them.
_OF_ALPHABET = {
    0x2B: rb"[+%\\-](?:(?<=[+-])|(?<=%)2[bB]|(?<=\\)u002[bB])",
    0x2F: rb"[/_%\\](?:(?<=[/_])|(?<=%)2[fF]|(?<=\\)/)",
}

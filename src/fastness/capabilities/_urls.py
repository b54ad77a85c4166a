"""
URLs, read once and strictly: what this module returns is what is judged, and what is sent.

Programs disagree about backslashes, user names, tabs, odd ports and dots in paths (RFC 3986 against the URL standard of
browsers).  Whatever they could read in two ways is refused, or brought into one form before anything looks at it.
"""

from __future__ import annotations

import re

import msgspec

from fastness.capabilities._hosts import BadHost, Host, host_of

__all__ = ["DEFAULT_PORTS", "BadUrl", "Url", "follow", "url_of"]

DEFAULT_PORTS = {"http": 80, "https": 443}
#: Characters of a URL; RFC 9110 asks for 8,000 at least.
LONGEST = 8_192

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\[\]@/]*\]|[^\[\]:@]*)(?::([0-9]{1,5}))?")
#: What never stands in a URL: controls, spaces, and the backslash, which browsers read as a slash.
_NEVER = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ufeff]")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
#: What stands as it is in a path or a query (RFC 3986, 3.3 and 3.4), and brackets, which are sent bare in practice.
_BARE = re.compile(r"[^A-Za-z0-9._~!$&'()*+,;=:@%/?\[\]-]")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class BadUrl(ValueError):
    """A text that is no URL of HTTP, or one that programs read differently.  The message says why."""


class Url(msgspec.Struct, frozen=True):
    """
    A URL of HTTP in one form: ``path`` has no dot segments and begins with a slash; ``query`` has no question mark.

    A fragment is never sent, so there is none.
    """

    scheme: str
    host: Host
    port: int
    path: str
    query: str | None = None

    @property
    def origin(self) -> str:
        """Scheme, host and port in text; the port is left out where it is the scheme's own (RFC 6454)."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """What the Host field says (RFC 9110, 7.2)."""
        return self.host.in_url if self.port == DEFAULT_PORTS[self.scheme] else f"{self.host.in_url}:{self.port}"

    @property
    def target(self) -> str:
        """What the request line says: path and query (RFC 9112, 3.2.1)."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    def __str__(self) -> str:
        return self.origin + self.target


def url_of(text: str) -> Url:
    """Read an absolute URL.  Raises BadUrl."""
    scheme, rest = _split(_checked(text))
    if not rest.startswith("//") or rest.startswith("///"):
        raise BadUrl("a URL without a host")
    authority, slash, tail = _cut(rest[2:])
    path, query = _path_and_query(slash + tail)
    host, port = _authority(authority, scheme)
    return Url(scheme, host, port, path, query)


def follow(base: Url, location: str) -> Url:
    """The URL that a Location field names, seen from ``base`` (RFC 3986, 5.2).  Raises BadUrl."""
    text = _checked(location)
    if not text:
        raise BadUrl("an empty location")
    if _SCHEME.fullmatch(text):
        return url_of(text)
    if text.startswith("//"):
        return url_of(f"{base.scheme}:{text}")
    if text.startswith("#"):
        return base
    if text.startswith("?"):
        path, query = _path_and_query(base.path + text)
    elif text.startswith("/"):
        path, query = _path_and_query(text)
    else:
        path, query = _path_and_query(base.path.rpartition("/")[0] + "/" + text)
    return Url(base.scheme, base.host, base.port, path, query)


def _checked(text: str) -> str:
    if len(text) > LONGEST:
        raise BadUrl("a URL that is too long")
    if _NEVER.search(text):
        raise BadUrl("a URL with a space, a control character or a backslash")
    return text.partition("#")[0] if text[:1] != "#" else text


def _split(text: str) -> tuple[str, str]:
    found = _SCHEME.fullmatch(text)
    scheme = found[1].lower() if found else ""
    if found is None or scheme not in DEFAULT_PORTS:
        raise BadUrl("a URL that does not begin with http:// or https://")
    return scheme, found[2]


def _cut(text: str) -> tuple[str, str, str]:
    """Authority, and what follows it with the character that ended it."""
    for place, character in enumerate(text):
        if character in "/?":
            return text[:place], character, text[place + 1 :]
    return text, "", ""


def _authority(text: str, scheme: str) -> tuple[Host, int]:
    if "@" in text:
        raise BadUrl("a URL with a user name")
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise BadUrl("a URL whose host or port cannot be read")
    if found[2] is None:
        port = DEFAULT_PORTS[scheme]
    elif found[2][0] == "0" or int(found[2]) > 65_535:
        raise BadUrl("a port that is not 1 to 65535 in plain digits")
    else:
        port = int(found[2])
    try:
        return host_of(found[1]), port
    except BadHost as error:
        raise BadUrl(str(error)) from None


def _path_and_query(text: str) -> tuple[str, str | None]:
    path, mark, query = text.partition("?")
    return _path(path), _escaped(query) if mark else None


def _escaped(text: str) -> str:
    if _BAD_PERCENT.search(text):
        raise BadUrl("a URL with a percent sign that stands for nothing")
    try:
        return _BARE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8")), text)
    except UnicodeEncodeError:
        raise BadUrl("a URL with half a character") from None


def _path(text: str) -> str:
    """One form of a path: nothing escaped that need not be (RFC 3986, 6.2.2), and no dot segments (5.2.4)."""
    plain = _PERCENT.sub(_unescaped, _escaped(text))
    kept: list[str] = []
    segments = plain.split("/")
    for segment in segments[1:]:
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", "..") and len(segments) > 1:
        kept.append("")
    return "/" + "/".join(kept)


def _unescaped(found: re.Match[str]) -> str:
    byte = int(found[1], 16)
    return chr(byte) if byte in _UNRESERVED else f"%{byte:02X}"

"""
Header fields of brokered requests: what a guest may set, what it gets to see, and what goes with a redirect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

__all__ = ["CUTTING", "BadHeader", "checked", "for_guest", "kept_on_redirect"]

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")  # RFC 9110, 5.1
#: Visible ASCII with spaces and tabs inside.  Other bytes are opaque at best (RFC 9110, 5.5), so nobody may send them.
_VALUE = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")
_MOST_FIELDS = 64
_MOST_BYTES = 16 << 10

#: Said by the host, or by a hop for itself (RFC 9110, 7.6.1): a guest that sets them speaks for somebody else, or
#: shifts where a message ends.
_HOSTS_OWN = frozenset(
    (
        "accept-encoding", "connection", "content-length", "cookie", "cookie2", "expect", "host", "http2-settings",
        "keep-alive", "authorization", "te", "trailer", "transfer-encoding", "upgrade", "via", "max-forwards",
    )
)  # fmt: skip
#: Words by which servers learn on whose behalf a request comes.
_ON_BEHALF = frozenset(
    (
        "forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip",
        "fastly-client-ip", "x-host", "x-remote-user", "remote-user",
    )
)  # fmt: skip
#: Words by which servers take another method or path than the request line's: they would pass what was judged.
_INSTEAD = frozenset(("x-http-method", "x-http-method-override", "x-method-override", "x-rewrite-url"))
#: Words that metadata services ask for, so that a request forged by others is none of theirs.
_METADATA = frozenset(("metadata", "metadata-flavor"))
_FORBIDDEN = _HOSTS_OWN | _ON_BEHALF | _INSTEAD | _METADATA
_FORBIDDEN_STARTS = ("proxy-", "x-forwarded-", "x-original-", "x-aws-ec2-metadata-", "sec-")

#: Fields by which a client has an answer cut, or told as the difference to another (RFC 9110, 14; RFC 3229): a piece
#: of a credential is not found in a piece of an answer.  Names are judged with underscores read as hyphens.
CUTTING = frozenset(("range", "if-range", "request-range", "x-range", "unless-modified-since", "a-im", "im"))

#: Fields that go to another origin with a redirect: none of them proves who asks (RFC 9110, 15.4).
_GOES_ALONG = frozenset(("accept", "accept-language", "content-type", "content-language", "range", "user-agent"))
#: Fields that are about a body, and go where the body goes.
_OF_BODY = frozenset(("content-type", "content-language", "content-encoding", "content-location", "digest"))

#: Never shown: cookies, and what is about one connection only.
_NOT_SHOWN = frozenset(
    ("set-cookie", "set-cookie2", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")
)


class BadHeader(ValueError):
    """A field that a guest may not set, or that is none.  The message names it where it can be named."""


def checked(headers: Mapping[str, str]) -> dict[str, str]:
    """
    A guest's fields with names in lower case.

    Names are judged with underscores read as hyphens, as gateways do, and so are duplicates.  Raises BadHeader.
    """
    if len(headers) > _MOST_FIELDS:
        raise BadHeader("too many fields")
    seen: set[str] = set()
    found: dict[str, str] = {}
    size = 0
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise BadHeader("a field without a proper name")
        lower = name.lower()
        judged = lower.replace("_", "-")
        if judged in _FORBIDDEN or judged.startswith(_FORBIDDEN_STARTS):
            raise BadHeader(lower)
        if judged in seen:
            raise BadHeader(f"{lower} twice")
        if not _VALUE.fullmatch(value):
            raise BadHeader(f"{lower} with a value that is not plain text")
        size += len(name) + len(value) + 4
        if size > _MOST_BYTES:
            raise BadHeader("fields that are too long together")
        seen.add(judged)
        found[lower] = value
    return found


def kept_on_redirect(headers: dict[str, str], *, same_origin: bool, body: bool) -> dict[str, str]:
    """Which of a request's fields go with it to where it was redirected, with or without its body."""
    return {
        name: value
        for name, value in headers.items()
        if (same_origin or name in _GOES_ALONG) and (body or name not in _OF_BODY)
    }


def for_guest(headers: Iterable[tuple[bytes, bytes]], *, without: frozenset[str] = frozenset()) -> dict[str, str]:
    """
    The fields of an answer as a guest sees them: lower case, repeated ones joined by commas (RFC 9110, 5.3).

    Cookies are left out, and so is what is about the connection.
    """
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if name in _NOT_SHOWN or name in without or name.startswith("proxy-"):
            continue
        value = raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found

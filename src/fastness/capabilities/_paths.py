"""
The paths that a guest may name below its root: relative, in one spelling, of plain names.

What is refused here would mostly be harmless, since names are opened one by one below a folder that is held open; but
a path that means one thing here and another to whoever reads it later is refused all the same.
"""

from __future__ import annotations

import re
import unicodedata

from fastness.errors import Denied
from fastness.runs import DenialCode

__all__ = ["LONGEST", "RESERVED", "addressable", "parts_of", "shown"]

#: Characters of a path, bytes of a name, names of a path.
LONGEST = 1024
_NAME_BYTES = 255
_DEEPEST = 64
#: Names that begin so are ours: files on their way to their own name.
RESERVED = ".fastness-"

#: A dot, slash, backslash or NUL in percent signs, however often encoded, and what overlong UTF-8 begins with.
_ENCODED = re.compile(r"%(?:25)*(?:2e|2f|5c|00|c0|c1|e0%(?:25)*80|f0%(?:25)*80|u00(?:2e|2f|5c|00))", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")


def shown(path: str) -> str:
    """A path for the audit trail."""
    return path if len(path) <= 200 else path[:197] + "..."


def parts_of(path: str) -> tuple[str, ...]:
    """
    The names of a path, from the root on; none of the root itself, which is ``""`` or ``"."``.

    ``.`` and doubled or trailing slashes are left out.  Raises Denied: ``escape`` for an absolute path, a drive, a
    backslash, a NUL, and every spelling of ``..``; ``too_large`` for what is too long or too deep; ``unsupported`` for
    text that is not UTF-8, for control characters, and for names that are ours.
    """
    if len(path) > LONGEST:
        raise Denied(DenialCode.TOO_LARGE, shown(path))
    if path.startswith("/") or "\\" in path or "\0" in path or _ENCODED.search(path):
        raise Denied(DenialCode.ESCAPE, shown(path))
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    for part in parts:
        if _is_upwards(part) or _DRIVE.fullmatch(part):
            # Where there are drives, a part that is one begins anew, wherever in a path it comes.
            raise Denied(DenialCode.ESCAPE, shown(path))
        if not _is_plain(part):
            raise Denied(DenialCode.UNSUPPORTED, shown(path))
        if len(part.encode()) > _NAME_BYTES:
            raise Denied(DenialCode.TOO_LARGE, shown(path))
    if len(parts) > _DEEPEST:
        raise Denied(DenialCode.TOO_LARGE, shown(path))
    return parts


def _is_upwards(name: str) -> bool:
    """Whether some system would take a name for ``..``, or for more than one name."""
    # Compatibility forms (UAX 15) of dots and slashes, such as the full-width ones.
    plain = name if name.isascii() else unicodedata.normalize("NFKC", name)
    # Windows drops spaces and dots at the end of a name.
    return not plain.strip(". \u00a0") or "/" in plain or "\\" in plain


def addressable(name: str) -> bool:
    """Whether a guest may name this entry of a folder: others are not listed either."""
    if "\\" in name or _ENCODED.search(name) or _DRIVE.fullmatch(name):
        return False
    return _is_plain(name) and not _is_upwards(name)


def _is_plain(name: str) -> bool:
    if name.startswith(RESERVED):
        return False
    if name.isascii():
        return name.isprintable()
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return not any(unicodedata.category(letter) == "Cc" for letter in name)

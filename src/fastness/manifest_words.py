"""
The grammar of a manifest's words: each function says what is wrong with one of them, or nothing.

Two words that look alike and are not the same are how a plugin takes another's place, so what names something is of
ASCII alone.  What is for people may be in any script, but nothing in it may be invisible or turn the text around.
"""

from __future__ import annotations

import re
import unicodedata

from fastness import unseen

__all__ = [
    "display_problem",
    "entry_problem",
    "id_problem",
    "name_of",
    "reason_problem",
    "shown",
    "version_problem",
]

ID_MAX = 64
VERSION_MAX = 64
REASON_MAX = 300
DISPLAY_MAX = 200
ENTRY_MAX = 200

_ID = re.compile(r"[a-z][a-z0-9]*(?:[-.][a-z0-9]+)*")
# semver.org, 2.0.0: three numbers without leading zeros, then what comes before and what is beside a release.
_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_PRE = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE}(?:\.{_PRE})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Ids that would read as if they were ours.
_RESERVED = ("fastness", "host")


def shown(value: object) -> str:
    """A value of a manifest as a problem may quote it: ASCII, and short."""
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of many digits"
    if isinstance(value, (str, int, float)) or value is None:
        text = ascii(value[:100] if isinstance(value, str) else value)
        return text if len(text) <= 80 else text[:77] + "..."
    return f"a {type(value).__name__}"


def name_of(key: object) -> str:
    """A key as part of a path."""
    if isinstance(key, str) and _KEY.fullmatch(key) is not None:
        return key
    return shown(key)


def _foreign(text: str) -> str:
    """The first character that is not ASCII, by its number and name: it may look like one that is."""
    letter = next((one for one in text if not one.isascii()), "")
    if not letter:
        return ""
    return f"; it holds U+{ord(letter):04X} {unicodedata.name(letter, 'without a name')}"


def id_problem(value: object) -> str:
    """An id: lower-case ASCII words and digits, joined by ``-`` or ``.``, a letter first, at most 64 characters."""
    if not isinstance(value, str):
        return f"must be text, not {shown(value)}"
    if len(value) > ID_MAX:
        return f"is longer than {ID_MAX} characters"
    if _ID.fullmatch(value) is None:
        return (
            f"{shown(value)} is no id: lower-case ASCII letters and digits, joined by - or ., a letter first"
            f"{_foreign(value)}"
        )
    if value.split(".")[0].split("-")[0] in _RESERVED:
        return f"{shown(value)} is kept for Fastness itself"
    return ""


def version_problem(value: object) -> str:
    """A version as semver.org has it: ``1.2.3``, ``1.2.3-rc.1``, ``1.2.3+build.5``."""
    if not isinstance(value, str):
        return f"must be text, not {shown(value)}"
    if len(value) > VERSION_MAX:
        return f"is longer than {VERSION_MAX} characters"
    if _VERSION.fullmatch(value) is None:
        return f"{shown(value)} is no version: three numbers such as 1.2.3, perhaps with -rc.1 behind{_foreign(value)}"
    return ""


def entry_problem(value: object) -> str:
    """The path of a file below the package: plain ASCII names joined by ``/``, none beginning with a dot."""
    if not isinstance(value, str):
        return f"must be text, not {shown(value)}"
    if len(value) > ENTRY_MAX:
        return f"is longer than {ENTRY_MAX} characters"
    parts = value.split("/")
    if not all(_PART.fullmatch(part) for part in parts):
        return (
            f"{shown(value)} is no path below the plugin's folder: ASCII names joined by /, none with a dot first"
            f"{_foreign(value)}"
        )
    return ""


def display_problem(value: object) -> str:
    """A name or a sentence for people: one line, nothing invisible, no scripts mixed to look like another."""
    if not isinstance(value, str):
        return f"must be text, not {shown(value)}"
    if len(value) > DISPLAY_MAX:
        return f"is longer than {DISPLAY_MAX} characters"
    if not value:
        return ""
    letter = unseen.first(value)
    if letter:
        return f"holds U+{ord(letter):04X}, which is invisible or changes how a text is read"
    if not readable(value) or value != value.strip():
        return "must be a text that can be read, without spaces around it"
    if value != unicodedata.normalize("NFC", value):
        return "must be in Unicode's composed form (NFC)"
    scripts = unseen.alike(value)
    if scripts:
        return f"mixes Latin letters with {', '.join(scripts).title()} ones, which look like them"
    return ""


def reason_problem(value: object) -> str:
    """
    A reason: a text of at most 300 characters that can be read.

    It is shown as it is, with what is invisible in it made visible, so that an owner sees a trick for what it is.
    """
    if value is None:
        return "is missing: say in a sentence what the plugin needs this for; its owner is shown it"
    if not isinstance(value, str):
        return f"must be text, not {shown(value)}"
    if len(value) > REASON_MAX:
        return f"is longer than {REASON_MAX} characters"
    if not readable(value):
        return "must be a text that can be read"
    return ""


def readable(text: str) -> bool:
    """Whether there is a letter or a digit that is drawn as something."""
    return any(letter.isalnum() and not unseen.is_unseen(letter) for letter in text)

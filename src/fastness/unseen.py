"""
Characters that a reader does not see, or not as what they are: one list, for names that are refused because of them and
for texts in which they are written out.

They are what Unicode calls default ignorable (UAX 44), control, format, private or unassigned, what is drawn as a
blank, and spaces that are not the usual one.
"""

from __future__ import annotations

import re

__all__ = ["JOINS", "UNDRAWN", "alike", "escaped", "first", "is_unseen", "spelled_out"]

#: What may stand behind a character to say how it is drawn: joiners, and variation selectors.
JOINS = "\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
#: All that is drawn as nothing or as a blank, or that turns the direction of writing, as it stands in a set of ``re``.
UNDRAWN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_UNDRAWN = re.compile(f"[{UNDRAWN}]")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
#: Scripts whose letters look like those of the Latin one; together with it in one text they are a disguise.
_ALIKE = frozenset({"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"})


def is_unseen(letter: str) -> bool:
    """Whether a reader would not see this character as what it is.  The space is seen; a line end and a tab are not."""
    if letter.isascii():
        return not letter.isprintable()
    # The tables are of the interpreter's Unicode, and take a while to load: most names are ASCII.
    import unicodedata

    return unicodedata.category(letter) in _UNSEEN or _UNDRAWN.match(letter) is not None


def first(text: str) -> str:
    """The first such character of a text, or an empty one."""
    if text.isascii() and text.isprintable():
        return ""
    return next(filter(is_unseen, text), "")


def escaped(letter: str) -> str:
    r"""A character as its number: ``\u200b``."""
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


def spelled_out(text: str) -> str:
    """A text with all such characters written out, and so on one line."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(escaped(letter) if is_unseen(letter) else letter for letter in text)


def alike(text: str) -> tuple[str, ...]:
    """Scripts of a text that stand beside Latin letters in it and look like them."""
    if text.isascii():
        return ()
    import unicodedata

    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in text if letter.isalpha()}
    return tuple(sorted(scripts & _ALIKE)) if "LATIN" in scripts else ()

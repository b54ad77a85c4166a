"""
From what a guest looks for to a query of the full-text index, and back to what is told of each note.

The index has a language of its own (SQLite's FTS5).  Nothing of a guest's is read as that: words are taken out of its
text, and each is quoted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

__all__ = ["best", "coded", "decoded", "excerpt", "match_of", "words_of"]

#: Words of one search; further ones are left out.
MOST_WORDS = 16
#: Characters of a note that are looked at for its place among others, and of it that are shown.
LOOKED_AT = 8192
_SHOWN = 300
_BEFORE = 80
#: What is between words: neither a letter or digit nor a mark, which belongs to the letter before it.
_BETWEEN = re.compile(r"[\W_]")


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text in lower case, each once."""
    # Letters and their accents as one, as far as there is such a letter: the index takes them for the same.
    text = unicodedata.normalize("NFC", text)
    found: dict[str, None] = {}
    for word in _BETWEEN.sub(_or_mark, text).split():
        # A mark that stands alone is in no word of the index.
        if not all(map(_is_mark, word)):
            found[word.lower()] = None
        if len(found) == MOST_WORDS:
            break
    return tuple(found)


def _or_mark(match: re.Match[str]) -> str:
    return match[0] if _is_mark(match[0]) else " "


def _is_mark(letter: str) -> bool:
    return unicodedata.category(letter).startswith("M")


def match_of(words: Sequence[str], tags: Iterable[str], *, either: bool) -> str:
    """The query for notes with all of the words, or with ``either`` any of them, that have all of the tags."""
    joined = (" OR " if either else " AND ").join(map(_either_way, words))
    parts = [f"({joined})"] if words else []
    parts += [f"tags : {_quoted(coded(tag))}" for tag in tags]
    return " AND ".join(parts)


def _either_way(word: str) -> str:
    """A word as the index folds it, or written without what has no other case: with ss for \u00df."""
    forms = dict.fromkeys((word, word.casefold()))
    return (
        f"({' OR '.join(f'text : {_quoted(form)}' for form in forms)})" if len(forms) > 1 else f"text : {_quoted(word)}"
    )


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def coded(tag: str) -> str:
    """A tag as one word of the index, whatever is in it."""
    return "x" + tag.encode("utf-8", "surrogatepass").hex()


def decoded(words: str) -> list[str]:
    """The tags of which the index has these words."""
    return [bytes.fromhex(word[1:]).decode("utf-8", "surrogatepass") for word in words.split()]


def best(texts: Sequence[str], words: Sequence[str], most: int) -> list[int]:
    """
    The places of the texts with most of the words, the best first; of two as good, the one before.

    A word counts less the more often it is there, and in a long text.
    """
    words = [word.casefold() for word in words]

    def worth(text: str) -> float:
        folded = text.casefold()
        length = 1 + len(folded) / 2000
        return sum(count / (count + length) for count in map(folded.count, words))

    worths = [worth(text) for text in texts]
    return sorted(range(len(texts)), key=lambda place: -worths[place])[:most]


def excerpt(text: str, words: Sequence[str]) -> str:
    """So much of a text as is shown: from a little before the first of the words on."""
    folded = text.casefold()
    # Folding may change how long a text is; then it is a little beside.
    places = [place for place in (folded.find(word.casefold()) for word in words) if place >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    if start:
        # Not in the middle of a word.
        space = text.find(" ", start, start + _BEFORE)
        start = space + 1 if space >= 0 else start
    shown = text[start : start + _SHOWN]
    return ("..." if start else "") + shown + ("..." if start + _SHOWN < len(text) else "")

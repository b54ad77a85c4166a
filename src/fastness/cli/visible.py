"""
Guest text made safe to show: what a terminal would act on, or a reader would not see, is written out instead.

A guest that could send control characters could move the cursor over our own lines, change the window's title, or
make the terminal answer as if its user had typed.  C0 but for line feed and tab, DEL, C1 (ECMA-48), the characters that
reorder text (Unicode, UAX 9) and those that are drawn as nothing are therefore shown as escapes.
"""

from __future__ import annotations

import codecs
import re

from fastness.unseen import JOINS, UNDRAWN, escaped, spelled_out

__all__ = ["VisibleStream", "one_line", "spelled_out", "visible"]

_TABLE = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
#: Joiners that may follow a character: emoji, and scripts whose letters join, are written with one or two.
_JOINS_MAX = 2
_SEEN = f"[^\x00-\x9f{UNDRAWN}]"
_JOINED = re.compile(f"({_SEEN}[{JOINS}]{{1,{_JOINS_MAX}}})|[{UNDRAWN}]")
_LEADING = re.compile(f"[{JOINS}]*")
_ENDING = re.compile(f"{_SEEN}([{JOINS}]{{0,{_JOINS_MAX}}})\\Z")


def visible(text: str) -> str:
    """
    ``text`` with every character written out that a terminal would act on or that is drawn as nothing.

    Line feed and tab stay, and so do one or two joiners behind a character that is not ASCII, which say how that is
    drawn.
    """
    shown = text.translate(_TABLE)
    if text.isascii():
        return shown
    return _JOINED.sub(lambda found: found[1] or _written(found[0]), shown).encode("utf-8", "backslashreplace").decode()


def _written(letter: str) -> str:
    return escaped(letter) if letter > "\xff" else f"\\x{ord(letter):02x}"


def one_line(text: str, width: int = 200) -> str:
    """As :func:`visible`, on one line and at most ``width`` characters, with nothing left that is not seen."""
    shown = spelled_out(text[: width * 4].translate(_TABLE).replace("\n", "\\n").replace("\t", "\\t"))
    return shown if len(shown) <= width else shown[: width - 3] + "..."


class VisibleStream:
    r"""
    Turns a stream of guest bytes into safe text, piece by piece: a character split between two pieces stays whole.

    Bytes that are not UTF-8 are shown as ``\xNN``.  A line ending of carriage return and line feed becomes a line
    feed, so that programs for other systems read well.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._held = ""
        #: Joiners that may still follow what was shown last.
        self._joins = 0

    def feed(self, data: bytes) -> str:
        """Safe text for the next piece."""
        return self._show(self._held + self._decoder.decode(data), final=False)

    def close(self) -> str:
        """Safe text for what was still held back."""
        return self._show(self._held + self._decoder.decode(b"", final=True), final=True)

    def _show(self, text: str, *, final: bool) -> str:
        self._held = ""
        if text.endswith("\r") and not final:
            text, self._held = text[:-1], "\r"
        return self._joined(text.replace("\r\n", "\n"))

    def _joined(self, text: str) -> str:
        led = _LEADING.match(text)
        kept = min(self._joins, led.end() if led is not None else 0)
        rest = text[kept:]
        if rest:
            ends = _ENDING.search(rest)
            self._joins = 0 if ends is None else _JOINS_MAX - len(ends[1])
        else:
            self._joins -= kept
        return text[:kept] + visible(rest)

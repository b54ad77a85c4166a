"""
Guest text made safe to show: what a terminal would act on is written out instead.

A guest that could send control characters could move the cursor over our own lines, change the window's title, or
make the terminal answer as if its user had typed.  C0 but for line feed and tab, DEL, C1 (ECMA-48), and the
characters that reorder text (Unicode, UAX 9) are therefore shown as escapes.
"""

from __future__ import annotations

import codecs

_REORDER = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_TABLE = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *_REORDER, 0x2028, 0x2029)
    if code not in (0x09, 0x0A)
}
#: Categories of Unicode whose characters are not drawn, or not as themselves.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
#: Letters and marks that are drawn as nothing.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")


def visible(text: str) -> str:
    """``text`` with every character that a terminal would act on written out; line feed and tab stay."""
    return text.translate(_TABLE).encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str, width: int = 200) -> str:
    """As :func:`visible`, on one line and at most ``width`` characters."""
    shown = visible(text[: width * 4]).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= width else shown[: width - 3] + "..."


def spelled_out(text: str) -> str:
    """
    ``text`` on one line, with everything written out that a reader would not see as what it is.

    For words of strangers that somebody decides by: beside what :func:`visible` writes out, all that Unicode calls
    format, private or unassigned (zero-width characters, tags, soft hyphens), spaces that are not the usual one, and
    letters that are drawn as nothing.
    """
    import unicodedata

    return "".join(
        letter
        if letter == " " or (unicodedata.category(letter) not in _UNSEEN and letter not in _BLANK)
        else f"\\u{ord(letter):04x}"
        if ord(letter) < 0x10000
        else f"\\U{ord(letter):08x}"
        for letter in text
    )


class VisibleStream:
    r"""
    Turns a stream of guest bytes into safe text, piece by piece: a character split between two pieces stays whole.

    Bytes that are not UTF-8 are shown as ``\xNN``.  A line ending of carriage return and line feed becomes a line
    feed, so that programs for other systems read well.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._held = ""

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
        return visible(text.replace("\r\n", "\n"))

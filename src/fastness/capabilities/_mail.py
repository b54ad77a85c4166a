"""
A mail as bytes: header fields that no text can add to, and bodies that no text can end.

Every byte is ASCII and every line ends in CRLF; but for a long address none has more than 78 characters (RFC 5322,
2.1.1).  What is not plain goes as encoded words (RFC 2047) and quoted-printable (RFC 2045, 6.7).
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import time
import unicodedata
from collections.abc import Sequence

import msgspec

from fastness.capabilities._recipients import Recipient
from fastness.errors import HostBug

__all__ = ["BadMail", "Mail", "data_of", "dotted"]

#: Bytes of a text in one encoded word: 75 characters at most, of which 12 are not base64.
_WORD = 45
#: Characters of a subject that stands as it is, and what would be taken for an encoded word.
_PLAIN = re.compile(r"[ -~]{0,60}")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LINE_ENDS = re.compile(r"\r\n|\r")
#: A line end that is not CRLF: servers differ in what they make of one, and so in where a mail ends.
_LONE = re.compile(rb"\r(?!\n)|(?<!\r)\n")
#: Characters of these categories end or hide a line for somebody: controls, and separators of lines and paragraphs.
_CONTROLS = frozenset(("Cc", "Zl", "Zp", "Cs"))


class BadMail(ValueError):
    """A text that cannot stand where it is to stand.  The message says why; ``header`` where it is one of a header."""

    def __init__(self, why: str, *, header: bool = False) -> None:
        super().__init__(why)
        self.header = header


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent: ``sender`` with the ``name`` beside it, who gets it, and the texts as they were given."""

    sender: Recipient
    to: Sequence[Recipient]
    subject: str
    text: str
    name: str = ""
    cc: Sequence[Recipient] = ()
    html: str = ""


def data_of(mail: Mail, id: str, at: float) -> bytes:
    """The mail as it is, with the message id ``id`` (RFC 5322, 3.6.4), at a time in seconds since 1970.

    Raises BadMail.
    """
    head = [
        f"From: {_mailbox(mail.name, mail.sender)}",
        f"To: {_addresses(mail.to)}",
        *([f"Cc: {_addresses(mail.cc)}"] if mail.cc else []),
        f"Subject: {_words(mail.subject)}",
        f"Date: {_date(at)}",
        f"Message-ID: <{id}>",
        "MIME-Version: 1.0",
        # RFC 3834, 5: so that robots do not answer it.
        "Auto-Submitted: auto-generated",
    ]
    plain = _part("plain", mail.text)
    if not mail.html:
        lines = [*head, *plain]
    else:
        # In quoted-printable no equals sign stands before an underscore, so no text has such a line.
        boundary = f"=_{os.urandom(16).hex()}"
        lines = [*head, f'Content-Type: multipart/alternative;\r\n boundary="{boundary}"', ""]
        for part in (plain, _part("html", mail.html)):
            lines += [f"--{boundary}", *part]
        lines += [f"--{boundary}--", ""]
    data = "\r\n".join(lines).encode("ascii")
    if _LONE.search(data) or max(map(len, data.split(b"\r\n"))) > 998:
        raise HostBug("a mail was made with a line that is none")
    return data


def dotted(data: bytes) -> bytes:
    """A mail as it follows DATA: dots doubled where a line begins with one, and a line of one dot at its end.

    RFC 5321, 4.5.2.
    """
    whole = data if data.endswith(b"\r\n") else data + b"\r\n"
    return re.sub(rb"(\A|\r\n)\.", rb"\1..", whole) + b".\r\n"


def _part(kind: str, text: str) -> list[str]:
    try:
        data = _LINE_ENDS.sub("\n", text).encode("utf-8")
    except UnicodeEncodeError:
        raise BadMail("a text that UTF-8 does not have") from None
    # Of text it keeps line ends and encodes what else is not printable, spaces at the end of a line too.
    encoded = binascii.b2a_qp(data, quotetabs=False, istext=True, header=False).decode("ascii")
    return [
        f"Content-Type: text/{kind}; charset=utf-8",
        "Content-Transfer-Encoding: quoted-printable",
        "",
        encoded.replace("\n", "\r\n"),
    ]


def _words(text: str) -> str:
    """A text in a header field: as it is where it is short and plain, else as encoded words."""
    if any(unicodedata.category(letter) in _CONTROLS for letter in text):
        raise BadMail("a line end or a control character in a header", header=True)
    # With spaces around it a text would change on its way, and what looks like an encoded word would be read as one.
    if _PLAIN.fullmatch(text) and "=?" not in text and text == text.strip():
        return text
    chunks, size = [""], 0
    for letter in text:
        width = len(letter.encode())
        if size + width > _WORD:
            chunks.append("")
            size = 0
        chunks[-1] += letter
        size += width
    return "\r\n ".join(f"=?utf-8?B?{base64.b64encode(chunk.encode()).decode()}?=" for chunk in chunks)


def _mailbox(name: str, address: Recipient) -> str:
    if not name:
        return str(address)
    words = _words(name)
    if words == name:
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        words = f'"{escaped}"'
    return f"{words}\r\n <{address}>"


def _addresses(some: Sequence[Recipient]) -> str:
    return ",\r\n ".join(map(str, some))


def _date(at: float) -> str:
    # Not strftime, whose words are those of a locale.
    now = time.gmtime(at)
    clock = f"{now.tm_hour:02}:{now.tm_min:02}:{now.tm_sec:02}"
    return f"{_DAYS[now.tm_wday]}, {now.tm_mday:02} {_MONTHS[now.tm_mon - 1]} {now.tm_year:04} {clock} +0000"

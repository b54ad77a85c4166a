"""Counting the lists and dicts of a JSON text without reading it."""

from __future__ import annotations

import random

from fastness.wire import values


def counted(data: bytes) -> int:
    """What the check counts, whatever the cap."""
    return values._brackets_outside_strings(data.replace(b"\\\\", b"").replace(b'\\"', b""))


def really(data: bytes) -> int:
    """The same, byte by byte."""
    found, at, inside = 0, 0, False
    while at < len(data):
        byte = data[at]
        if inside:
            if byte == ord("\\"):
                at += 1
            elif byte == ord('"'):
                inside = False
        elif byte == ord('"'):
            inside = True
        elif byte in b"[{":
            found += 1
        at += 1
    return found


def test_count_equals_a_byte_by_byte_reading() -> None:
    """
    For every text in which backslashes stand in strings only, as in all valid JSON.

    On every Python: possessive repeats of groups go wrong in early releases of 3.11, so none is used.
    """
    draw = random.Random(7)
    for _ in range(20_000):
        parts = []
        for _ in range(draw.randrange(6)):
            parts.append(bytes(draw.choice(b"[{]},:1") for _ in range(draw.randrange(5))))
            inner = b"".join(
                draw.choice((b"[", b"{", b"a", b"\\\\", b'\\"', b"\\u0041")) for _ in range(draw.randrange(6))
            )
            parts.append(b'"' + inner + b'"')
        data = b"".join(parts)
        assert counted(data) == really(data), data

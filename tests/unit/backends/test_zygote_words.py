"""What a zygote tells is taken as what it is, or not at all: typed, bounded, and only of guests that were asked for."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness._native import datagrams
from fastness.backends import zygote_words
from fastness.backends.zygote_words import Told


def word(**fields: Any) -> zygote_words.Word:
    return zygote_words.decode(json.dumps(fields).encode())


def ending(name: bytes = b"b00000000001", status: int = 0, user: int = 0, more: int = 0, resident: int = 0) -> bytes:
    """How a zygote tells the end of a guest: in the words of the kernel."""
    return struct.pack(datagrams.ENDED, 0, name, status, user, more, 0, 0, resident, *[0] * 13)


def test_an_end_in_the_words_of_the_kernel() -> None:
    """The status as wait(2) has it, the time of both kinds together, and the most memory."""
    told = zygote_words.decode(
        struct.pack(datagrams.ENDED, 0, b"b00000000001", 9, 1, 250_000, 2, 500_000, 1234, *[7] * 13)
    )
    assert (told.exit, told.status, told.rss, told.cpu) == ("b00000000001", 9, 1234, 3.75)


@pytest.mark.parametrize(
    "data",
    [
        b"\0", ending()[:-1], ending() + b"\0", ending(status=-1), ending(status=65536), ending(user=-1),
        ending(user=1 << 62), ending(more=-1), ending(resident=-1), ending(resident=1 << 60),
        ending(name=b"\xff" * 12), b"\0" * 4096,
    ],
)  # fmt: skip
def test_what_is_no_end(data: bytes) -> None:
    """It is refused as a whole."""
    with pytest.raises(ValueError, match=r"."):
        zygote_words.decode(data)


@given(st.binary(max_size=200) | st.binary(min_size=164, max_size=164))
def test_any_bytes_are_an_end_or_refused(data: bytes) -> None:
    """What is taken is within bounds, whoever wrote it."""
    try:
        told = zygote_words.decode(b"\0" + data[1:])
    except ValueError:
        return
    assert told.exit is not None
    assert 0 <= told.status <= 0xFFFF
    assert told.rss >= 0
    assert 0 <= told.cpu <= 1e9


def test_all_that_ours_say() -> None:
    """The messages of the launcher and of the zygote come through whole."""
    told = Told()
    told.ask("b1")
    told.ask("b2")
    told.take(word(denial="b1", operation="socket", target="AF_INET", count=3))
    told.take(word(denial="b1", operation="socket", target="AF_INET", count=5))
    told.take(word(denial="b1", operation="kill", target="signal 9", count=1))
    told.take(word(unrecorded="b1"))
    told.take(word(exit="b1", status=9, rss=1234, cpu=0.25))
    told.take(word(unborn="b2", why="[Errno 11] no room", errno=11))
    assert told.records("b1") == [
        {"operation": "socket", "target": "AF_INET", "count": 5},
        {"operation": "kill", "target": "signal 9", "count": 1},
    ]
    assert told.unrecorded("b1")
    assert told.exit_of("b1") == {"status": 9, "rss": 1234, "cpu": 0.25}
    assert told.exit_of("b2") == {"why": "[Errno 11] no room"}
    assert word(ready=12).ready == 12
    assert word(importing="numpy").importing == "numpy"
    failed = word(failed="ImportError: no \udcff", preload="x", errno=2)
    assert (failed.failed, failed.preload) == ("ImportError: no \udcff", "x")


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"1", b"null", b"\xff\xfe", b'"exit"', b"[" * 100_000,
        b'{"exit": ["x"]}', b'{"exit": 1}', b'{"exit": "b", "status": "0"}', b'{"exit": "b", "status": -1}',
        b'{"exit": "b", "status": 65536}', b'{"exit": "b", "cpu": NaN}', b'{"exit": "b", "cpu": 1e999}',
        b'{"exit": "b", "cpu": -1}', b'{"exit": "b", "rss": 1.5}', b'{"denial": "b", "count": -1}',
        b'{"denial": "b", "operation": {}}', b'{"ready": "1"}', b'{"failed": 3}', b'{"importing": []}',
        json.dumps({"exit": "x" * 201}).encode(), json.dumps({"failed": "x" * 20_000}).encode(),
        b'{"ready": ' + b"9" * 6000 + b"}",
    ],
)  # fmt: skip
def test_what_is_no_message(data: bytes) -> None:
    """It is refused as a whole."""
    with pytest.raises(ValueError, match=r"."):
        zygote_words.decode(data)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*zygote_words.Word.__struct_fields__, "errno", "x"]), _json, max_size=4))
def test_any_message_is_taken_or_refused(fields: dict[str, Any]) -> None:
    """Nothing else comes of it, and nothing is kept of a guest that nobody asked for."""
    told = Told()
    told.ask("b1")
    try:
        told.take(zygote_words.decode(json.dumps(fields).encode()))
    except ValueError:
        return
    assert set(told._exits) | set(told._records) | told._unrecorded <= {"b1"}


def test_guests_that_nobody_asked_for_or_that_are_forgotten() -> None:
    """Whatever is said of them is dropped."""
    told = Told()
    told.ask("b1")
    told.take(word(exit="b1", status=0))
    told.forget("b1")
    for name in ("b1", "b2"):
        told.take(word(exit=name, status=0))
        told.take(word(unborn=name))
        told.take(word(denial=name))
        told.take(word(unrecorded=name))
        assert (told.exit_of(name), told.records(name), told.unrecorded(name)) == (None, [], False)
        assert not told.asked(name)


def test_an_end_is_told_once() -> None:
    """What was told first stays."""
    told = Told()
    told.ask("b1")
    told.take(word(exit="b1", status=9))
    told.take(word(exit="b1", status=0))
    told.take(word(unborn="b1", why="never"))
    assert told.exit_of("b1") == {"status": 9, "rss": 0, "cpu": 0.0}


def test_records_of_one_guest_are_bounded() -> None:
    """As its launcher bounds them."""
    told = Told()
    told.ask("b1")
    for number in range(1000):
        told.take(word(denial="b1", operation=f"call{number}", count=1))
    assert len(told.records("b1")) == 64

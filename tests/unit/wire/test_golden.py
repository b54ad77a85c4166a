"""The bytes of protocol version 1 are fixed: what is on disk is what is written and what is read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from fastness.errors import ProtocolError
from fastness.wire import frames
from fastness.wire import messages as m
from fastness.wire.payload import decode_payload
from fastness.wire.session import GuestSession, HostSession, State

FOLDER = Path(__file__).parents[2] / "wire" / "golden"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_regenerate", FOLDER / "regenerate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden = load()
NAMES = sorted(golden.CONVERSATIONS)


def read(name: str) -> list[tuple[str, bytes]]:
    lines = (FOLDER / f"{name}.hex").read_text("utf-8").splitlines()
    return [(line[0], bytes.fromhex(line[2:])) for line in lines]


@pytest.mark.parametrize("name", NAMES)
def test_encoding_gives_the_bytes_on_disk(name: str) -> None:
    """A change of the wire format fails here until it is made deliberately."""
    raw, shown = golden.lines(golden.CONVERSATIONS[name])
    assert (FOLDER / f"{name}.hex").read_text("utf-8") == raw
    assert (FOLDER / f"{name}.txt").read_text("utf-8") == shown


@pytest.mark.parametrize("name", NAMES)
def test_decoding_gives_the_messages(name: str) -> None:
    """Each frame on disk reads as the message it was written from."""
    for (mark, data), (message, blob) in zip(read(name), golden.CONVERSATIONS[name], strict=True):
        parser = frames.from_host() if mark == ">" else frames.from_guest()
        parser.feed(data)
        frame = parser.next()
        assert frame is not None
        assert (m.decode(frame), frame.blob) == (message, blob)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_conversation_is_a_conversation(name: str) -> None:
    """Both sides go through it: each takes what the other sends, and it ends as it should."""
    host, guest = HostSession(), GuestSession()
    for (mark, data), (message, blob) in zip(read(name), golden.CONVERSATIONS[name], strict=True):
        sender, receiver = (host, guest) if mark == ">" else (guest, host)
        assert sender.send(message, blob) == data
        receiver.receive(data)
        assert receiver.next_message() == (message, blob)
        assert receiver.next_message() is None
    assert host.state is State.OVER
    assert host.eof()


def test_the_golden_files_cover_every_message() -> None:
    """No type of frame is without an example."""
    seen = {type(message) for steps in golden.CONVERSATIONS.values() for message, _ in steps}
    assert seen == set(m.TYPE_OF)


def test_the_value_of_the_run_comes_back() -> None:
    """The payload inside a golden result restores every tag."""
    result, blob = golden.CONVERSATIONS["run"][4]
    payload = decode_payload(blob[result.stdout_len + result.stderr_len :])
    want = golden.ODD_VALUE
    assert list(payload.value) == list(want)
    assert repr(payload.value) == repr(want)


def test_cutting_a_conversation_short_is_never_an_error_of_the_protocol() -> None:
    """A guest that dies anywhere leaves a session that waits, then says that it was lost."""
    for name in NAMES:
        steps = read(name)
        sent = b"".join(data for mark, data in steps if mark == "<")
        first = next(len(data) for mark, data in steps if mark == "<")
        for cut in range(first):
            host = HostSession()
            host.receive(sent[:cut])
            try:
                assert host.next_message() is None
            except ProtocolError as error:  # pragma: no cover  # the failure under test
                pytest.fail(f"{name} cut at {cut}: {error}")
            assert not host.eof()

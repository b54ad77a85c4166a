"""What is read of a guest's socket at a time."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fastness.backends.inbox import Inbox


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_all_of_a_stream_comes_in_its_order(ends: tuple[socket.socket, socket.socket]) -> None:
    """Small pieces and large ones; it is dry only after a read that found less than it asked for."""
    ours, theirs = ends
    inbox = Inbox(ours)
    sent = bytes(range(256)) * 128
    theirs.sendall(sent[:100])
    assert inbox.read() == sent[:100]
    assert inbox.dry
    theirs.sendall(sent[100:])
    got = sent[:100]
    while len(got) < len(sent):
        piece = inbox.read()
        got += piece
        # Where more is left, it does not say that there is none.
        assert not inbox.dry or len(got) == len(sent)
    assert got == sent
    with pytest.raises(BlockingIOError):
        inbox.read()


def test_the_end_is_nothing(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.close()
    assert Inbox(ours).read() == b""

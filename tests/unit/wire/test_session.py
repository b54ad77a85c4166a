"""Sessions: the order of messages is strict, late ones are let pass, and everything else is named."""

from __future__ import annotations

import pytest

from fastness.errors import GuestProtocolError, HostProtocolError
from fastness.wire import frames
from fastness.wire import messages as m
from fastness.wire.session import STAGE_PIECE, GuestSession, HostSession, State

RESULT = m.Result(id=1, ending="returned")


def feed(host: HostSession, message: m.Message, blob: bytes = b"") -> m.Message | None:
    """Put one frame in, whatever the guest's side would say to it; the message that comes out."""
    host.receive(m.encode(message, blob))
    got = host.next_message()
    return got[0] if got else None


def at(state: State, **options: int) -> HostSession:
    """A host's side that got as far as ``state``."""
    host = HostSession(**options)
    if state > State.HELLO:
        feed(host, m.Hello(1, "fake"))
    if state > State.START:
        host.send(m.Start("python"))
    if state > State.READY:
        feed(host, m.Ready())
    if state > State.IDLE:
        host.send(m.Invoke(id=1, op="run"))
    if state > State.INVOKED:
        feed(host, RESULT)
        feed(host, m.Bye())
    assert host.state is state
    return host


GUEST_MESSAGES: dict[str, m.Message] = {
    "hello": m.Hello(1, "fake"),
    "ready": m.Ready(),
    "call": m.Call(1, "fs", "read"),
    "log": m.Log("info", "x"),
    "event": m.Event("stdout"),
    "artefact": m.Artefact(1, "x", 0),
    "result": RESULT,
    "error": m.Error(1, "run", "x"),
    "last word": m.Error(0, "engine", "x"),
    "bye": m.Bye(),
}
ALLOWED = {
    State.HELLO: {"hello", "last word"},
    State.START: {"last word"},
    State.READY: {"ready", "last word"},
    State.IDLE: {"bye", "last word"},
    State.INVOKED: {"call", "log", "event", "artefact", "result", "error", "last word"},
    State.OVER: set[str](),
}


@pytest.mark.parametrize("state", list(ALLOWED))
@pytest.mark.parametrize("name", list(GUEST_MESSAGES))
def test_only_what_is_expected_is_taken(state: State, name: str) -> None:
    """For each state and message: it passes, or the error says what came and in which state."""
    host = at(state)
    if name in ALLOWED[state]:
        assert feed(host, GUEST_MESSAGES[name]) == GUEST_MESSAGES[name]
        return
    word = name.replace("last word", "error")
    with pytest.raises(GuestProtocolError, match=word):
        feed(host, GUEST_MESSAGES[name])
    assert host.state is State.BROKEN
    with pytest.raises(GuestProtocolError, match=word):
        host.next_message()
    with pytest.raises(GuestProtocolError, match=word):
        host.receive(b"")


def test_the_error_says_what_was_expected() -> None:
    """A reader of the error learns what came, when, and what should have."""
    with pytest.raises(GuestProtocolError, match="ready came while the conversation is hello; expected hello or error"):
        feed(at(State.HELLO), m.Ready())


@pytest.mark.parametrize("state", [State.HELLO, State.START, State.READY, State.IDLE, State.INVOKED])
def test_an_error_without_an_invoke_is_the_last_word(state: State) -> None:
    """Error 0 ends the conversation wherever it stands; an error of some invoke needs that invoke in flight."""
    host = at(state)
    assert feed(host, m.Error(0, "image", "none"))
    assert host.state is State.OVER
    assert host.eof()
    if state is not State.INVOKED:
        with pytest.raises(GuestProtocolError, match="no invoke in flight"):
            feed(at(state), m.Error(1, "image", "none"))


def test_another_version_is_refused() -> None:
    """Hello names the version that the heads are written in."""
    with pytest.raises(GuestProtocolError, match="version 2"):
        feed(HostSession(), m.Hello(2, "fake"))


@pytest.mark.parametrize("message", [m.Result(id=2, ending="returned"), m.Error(2, "x")])
def test_an_answer_names_the_invoke_in_flight(message: m.Message) -> None:
    """A result of another invoke is not taken for this one's."""
    with pytest.raises(GuestProtocolError, match="expected invoke 1"):
        feed(at(State.INVOKED), message)


def test_one_result_an_invoke() -> None:
    """A second result is out of place."""
    host = at(State.INVOKED)
    feed(host, RESULT)
    with pytest.raises(GuestProtocolError, match="result came while the conversation is idle; expected bye or error"):
        feed(host, RESULT)


def test_call_ids_rise() -> None:
    """No call is asked twice, also not after it was answered or after another invoke."""
    host = at(State.INVOKED)
    feed(host, m.Call(5, "fs", "read"))
    assert host.send(m.Reply(5), b"1")
    for id in (5, 4):
        fresh = at(State.INVOKED)
        feed(fresh, m.Call(5, "fs", "read"))
        fresh.send(m.Reply(5))
        feed(fresh, RESULT)
        fresh.send(m.Invoke(id=2, op="run"))
        with pytest.raises(GuestProtocolError, match="ids must rise"):
            feed(fresh, m.Call(id, "fs", "read"))


def test_the_host_stops_reading_at_the_cap_of_calls() -> None:
    """With the cap reached nothing is handed out, not even what has arrived; an answer opens it again."""
    host = at(State.INVOKED, calls_in_flight=2)
    feed(host, m.Call(1, "fs", "read"))
    feed(host, m.Call(2, "fs", "read"))
    assert host.paused
    assert feed(host, m.Call(3, "fs", "read")) is None
    assert host.open_calls == (1, 2)
    host.send(m.Fault(1, "absent"))
    got = host.next_message()
    assert got is not None and got[0] == m.Call(3, "fs", "read")
    assert host.paused


def test_a_dropped_call_counts_until_it_is_settled() -> None:
    """A guest cannot have more work going on than the cap by dropping what it asked for."""
    host = at(State.INVOKED, calls_in_flight=2)
    feed(host, m.Call(1, "fs", "read"))
    assert feed(host, m.Drop(1)) == m.Drop(1)
    assert host.open_calls == (1,)
    assert host.send(m.Reply(1), b"late") == b""
    assert not host.open_calls


def test_a_drop_that_crossed_the_answer_is_let_pass() -> None:
    """It means nothing any more; a drop of no call, or a second one, is nonsense."""
    host = at(State.INVOKED)
    feed(host, m.Call(1, "fs", "read"))
    host.send(m.Reply(1))
    assert feed(host, m.Drop(1)) is None
    with pytest.raises(GuestProtocolError, match="no such call"):
        feed(host, m.Drop(2))
    host = at(State.INVOKED)
    feed(host, m.Call(1, "fs", "read"))
    feed(host, m.Drop(1))
    with pytest.raises(GuestProtocolError, match="twice"):
        feed(host, m.Drop(1))


def test_calls_left_open_by_a_result_get_no_answer() -> None:
    """Their guest is gone, but they are settled all the same."""
    host = at(State.INVOKED)
    feed(host, m.Call(1, "fs", "read"))
    feed(host, RESULT)
    host.send(m.Invoke(id=2, op="run"))
    assert host.open_calls == (1,)
    assert host.send(m.Reply(1), b"1") == b""
    with pytest.raises(HostProtocolError, match="not open"):
        host.send(m.Reply(1))


def test_work_that_ends_after_a_broken_guest_is_settled_in_silence() -> None:
    """An adapter that answers too late must not look like a bug of ours."""
    host = at(State.INVOKED)
    feed(host, m.Call(1, "fs", "read"))
    with pytest.raises(GuestProtocolError):
        feed(host, m.Ready())
    assert host.send(m.Fault(1, "cancelled")) == b""
    assert host.send(m.Cancel(1)) == b""


def test_cancel_is_said_once_and_not_too_late() -> None:
    """A second cancel, or one that crosses the result, is nothing to send."""
    host = at(State.INVOKED)
    assert host.send(m.Cancel(1))
    assert host.send(m.Cancel(1)) == b""
    feed(host, m.Result(id=1, ending="cancelled"))
    assert host.send(m.Interrupt(1)) == b""
    host.send(m.Invoke(id=2, op="run"))
    assert host.send(m.Cancel(1)) == b""
    assert host.send(m.Interrupt(2)) and host.send(m.Interrupt(2))
    with pytest.raises(HostProtocolError, match="no invoke 3"):
        host.send(m.Cancel(3))


@pytest.mark.parametrize(
    ("pieces", "wrong"),
    [
        ([("a", 4, True, b"12"), ("b", 4, True, b"12")], "another file"),
        ([("a", 4, True, b"12"), ("a", 5, True, b"12")], "another file"),
        ([("a", 4, True, b"12"), ("a", 4, False, b"123")], "1 bytes more"),
        ([("a", 4, False, b"12")], "2 bytes missing"),
        ([("a", 4, True, b"")], "empty piece"),
        ([("a", 0, False, b"1")], "1 bytes more"),
    ],
)
def test_an_artefact_is_what_it_announced(pieces: list[tuple[str, int, bool, bytes]], wrong: str) -> None:
    """Pieces follow each other and add up, else the conversation ends."""
    host = at(State.INVOKED)
    with pytest.raises(GuestProtocolError, match=wrong):
        for path, size, more, blob in pieces:
            feed(host, m.Artefact(1, path, size, more), blob)


def test_a_result_may_not_cut_an_artefact_short_but_an_error_may() -> None:
    """A result vouches for its files; an error vouches for nothing."""
    for answer in (RESULT, m.Error(1, "run")):
        host = at(State.INVOKED)
        feed(host, m.Artefact(1, "a", 4, True), b"12")
        if answer is RESULT:
            with pytest.raises(GuestProtocolError, match="before the last piece"):
                feed(host, answer)
        else:
            assert feed(host, answer) == answer
            assert host.state is State.IDLE
            assert host.eof()


@pytest.mark.parametrize("size", [0, 1, STAGE_PIECE, STAGE_PIECE + 1, 2 * STAGE_PIECE])
def test_staging_cuts_a_file_into_pieces(size: int) -> None:
    """The guest gets the file whole, in frames below the cap."""
    host, guest = at(State.IDLE), GuestSession()
    guest.send(m.Hello(1, "fake"))
    guest.receive(m.encode(m.Start("python")))
    guest.next_message()
    guest.send(m.Ready())
    data = bytes(size)
    got = b""
    for frame in host.stage("in.bin", data):
        guest.receive(frame)
        message = guest.next_message()
        assert message is not None and isinstance(message[0], m.Stage)
        got += message[1]
        assert message[0].last == (len(got) == size)
    assert got == data


def test_what_the_host_may_not_send() -> None:
    """Our own mistakes are HostProtocolError and leave the conversation as it was."""
    with pytest.raises(HostProtocolError, match="invoke cannot be sent while the conversation is hello"):
        at(State.HELLO).send(m.Invoke(id=1, op="run"))
    host = at(State.INVOKED)
    with pytest.raises(HostProtocolError, match="possible: interrupt"):
        host.send(m.Invoke(id=2, op="run"))
    feed(host, RESULT)
    with pytest.raises(HostProtocolError, match="ids must rise"):
        host.send(m.Invoke(id=1, op="run"))
    with pytest.raises(HostProtocolError, match="too large"):
        host.send(m.Invoke(id=2, op="run", args=("x" * frames.HOST_MAX_HEAD,)))
    with pytest.raises(HostProtocolError, match="another blob"):
        host.send(m.Invoke(id=2, op="run", code_len=3), b"12")
    host.send(m.Stage("a", 4, False), b"12")
    with pytest.raises(HostProtocolError, match="before the last piece of a"):
        host.send(m.Invoke(id=2, op="run"))
    with pytest.raises(HostProtocolError, match="missing"):
        host.send(m.Stage("a", 4, True), b"")
    assert host.state is State.IDLE


def test_the_end_of_the_stream() -> None:
    """It is fine when nothing is owed; else the guest was lost, which is no breach of the protocol."""
    assert at(State.IDLE).eof()
    assert at(State.OVER).eof()
    for state in (State.HELLO, State.START, State.READY, State.INVOKED):
        host = at(state)
        assert not host.eof()
        assert host.state is State.OVER
    host = at(State.IDLE)
    host.receive(m.encode(m.Bye())[:-1])
    assert host.next_message() is None
    assert not host.eof()


def test_a_bad_frame_breaks_the_session() -> None:
    """Faults of the framing and of the heads come out as the one error."""
    for data in (b"\x02" * 12, frames.encode(frames.EVENT, b"{}"), frames.encode(frames.EVENT, b"\xff")):
        host = at(State.INVOKED)
        host.receive(data)
        with pytest.raises(GuestProtocolError, match="the guest broke the wire protocol"):
            host.next_message()
        assert host.state is State.BROKEN


def test_the_frame_cap_is_the_policys() -> None:
    """A smaller ``frame_bytes`` is enforced on the header."""
    host = at(State.INVOKED, max_blob=1024)
    with pytest.raises(GuestProtocolError, match="at most 1024"):
        feed(host, m.Event("stdout"), bytes(1025))


def test_the_repr_shows_where_it_stands() -> None:
    """State and open calls are in sight of whoever debugs."""
    host = at(State.INVOKED)
    feed(host, m.Call(1, "fs", "read"))
    assert repr(host) == "<HostSession invoked invoke=1 calls=1>"


def test_the_guests_side_is_as_strict() -> None:
    """A fake guest notices when the host's messages are out of order."""
    for data, wrong in (
        (m.encode(m.Invoke(id=1, op="run")), "expected start"),
        (b"\x02" * 12, "version"),
        (frames.encode(frames.START, b"{}"), "runtime"),
    ):
        guest = GuestSession()
        guest.send(m.Hello(1, "fake"))
        guest.receive(data)
        with pytest.raises(HostProtocolError, match=wrong):
            guest.next_message()
    with pytest.raises(GuestProtocolError, match="ready cannot be sent"):
        GuestSession().send(m.Ready())

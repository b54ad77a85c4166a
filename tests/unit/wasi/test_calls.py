"""
The engine's end of a guest's calls: whatever a guest writes, the parent reads good frames or the guest is ended.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness._wasi.calls import QUEUE_BYTES, CallChannel, CallsFd
from fastness._wasi.stop import Stop
from fastness.errors import GuestProtocolError
from fastness.wire import frames
from fastness.wire import messages as m
from fastness.wire.session import HostSession, State

CALL, DROP, LOG, REPLY, FAULT = frames.CALL, frames.DROP, frames.LOG, frames.REPLY, frames.FAULT


class Talk:
    """The conversation with a parent that the test plays."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, dict[str, Any], bytes]] = []
        self.coming: deque[frames.Frame] = deque()
        self.raw = bytearray()

    def send(self, kind: int, head: bytes, blob: bytes = b"") -> None:
        self.sent.append((kind, json.loads(head), blob))
        self.raw += frames.encode(kind, head, blob)

    def received(self) -> frames.Frame | None:
        return self.coming.popleft() if self.coming else None

    def read_some(self) -> None:
        raise AssertionError("there was nothing to read")

    def reply(self, number: int, blob: bytes = b"1") -> None:
        self.coming.append(frames.Frame(REPLY, b'{"id":%d}' % number, blob))


class Watch:
    """A watch that ends the run where it would wait for ever."""

    def __init__(self) -> None:
        self.waits: list[tuple[float | None, bool]] = []
        self.told = False

    def check(self) -> None:
        if self.told:
            raise Stop("deadline")

    def wait_for_parent(self, seconds: float | None, deaf: bool = False) -> bool:
        self.waits.append((seconds, deaf))
        if seconds is None:
            raise Stop("deadline")
        return False


class Scene:
    def __init__(self, numbers: list[int] | None = None, **limits: int) -> None:
        self.talk = Talk()
        self.watch = Watch()
        talk: Any = self.talk
        watch: Any = self.watch
        self.channel = CallChannel(talk, watch, numbers if numbers is not None else [0])
        self.limits = {"calls_in_flight": 4, "log_bytes": 1 << 20, **limits}
        self.channel.begin(self.limits)

    def call(self, id: int, blob: bytes = b"{}") -> None:
        self.channel.write(call(id, blob))


def frame(kind: int, head: Any, blob: bytes = b"") -> bytes:
    return frames.encode(kind, head if isinstance(head, bytes) else json.dumps(head).encode(), blob)


def call(id: Any, blob: bytes = b"{}", **fields: Any) -> bytes:
    return frame(CALL, {"id": id, "capability": "fs", "operation": "read", **fields}, blob)


def parents_view(raw: bytes, in_flight: int) -> list[Any]:
    """What a parent makes of the bytes; raises where it would end the engine."""
    session = HostSession(calls_in_flight=in_flight + 1)
    session.state = State.INVOKED
    session.invoke_id = 1
    session.receive(raw)
    found = []
    while (message := session.next_message()) is not None:
        found.append(message)
    assert not session.paused
    assert not session.parser.pending()
    return found


def test_a_call_and_its_answer_are_numbered_anew() -> None:
    """The guest's ids are its own; the parent sees numbers that no other guest of this engine had."""
    numbers = [41]
    scene = Scene(numbers)
    scene.call(7, b'{"path":"x"}')
    assert scene.talk.sent == [(CALL, {"id": 42, "capability": "fs", "operation": "read"}, b'{"path":"x"}')]
    assert scene.channel.ready() == -1
    scene.talk.reply(42, b'"text"')
    assert scene.channel.take() == (REPLY, b'{"id":7}', b'"text"')
    assert scene.channel.take() is None, "none will come, so nobody waits"
    assert not scene.channel.waiting


def test_a_fault_keeps_its_words() -> None:
    """Code and message pass as they are."""
    scene = Scene()
    scene.call(1)
    scene.talk.coming.append(frames.Frame(FAULT, b'{"id":1,"code":"outside","message":"zw\xc3\xb6lf"}'))
    found = scene.channel.take()
    assert found is not None
    assert json.loads(found[1]) == {"id": 1, "code": "outside", "message": "zwölf"}


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_any_bytes(data: bytes, cuts: list[int]) -> None:
    """Bytes in any pieces end the guest, or are calls that a parent takes."""
    scene = Scene()
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    at = 0
    try:
        for end in ends:
            scene.channel.write(data[at:end])
            at = end
    except Stop as stop:
        assert stop.reason in ("calls", "deadline")
    parents_view(bytes(scene.talk.raw), 4)


_HEADS = st.one_of(
    st.fixed_dictionaries(
        {
            "id": st.one_of(
                st.integers(-2, 8), st.just(2**53), st.just(2**53 + 1), st.booleans(), st.floats(), st.none()
            ),
            "capability": st.one_of(st.text(max_size=70), st.just("fs"), st.integers()),
            "operation": st.one_of(st.text(max_size=70), st.just("read"), st.lists(st.none())),
        },
        optional={"owner": st.text()},
    ),
    st.fixed_dictionaries({"id": st.integers(-1, 8)}),
    st.fixed_dictionaries(
        {
            "level": st.sampled_from(["debug", "info", "warning", "error", "loud", 1]),
            "text": st.one_of(st.text(), st.integers()),
        }
    ),
    st.recursive(st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
)


@given(
    st.lists(
        st.tuples(st.sampled_from([CALL, CALL, CALL, DROP, LOG]), _HEADS, st.binary(max_size=20), st.booleans()),
        max_size=12,
    )
)
def test_any_heads(written: list[tuple[int, Any, bytes, bool]]) -> None:
    """Heads of any JSON end the guest, or become messages that a parent takes; no more than the limit are open."""
    scene = Scene()
    try:
        for kind, head, blob, answer in written:
            scene.channel.write(frame(kind, head, blob if kind == CALL else b""))
            if answer and scene.channel._open:
                scene.talk.reply(next(iter(scene.channel._open)))
                scene.channel.take()
            assert len(scene.channel._open) <= 4
    except Stop as stop:
        assert stop.reason in ("calls", "deadline")
    for kind, head, blob in scene.talk.sent:
        decoded = m.decode(frames.Frame(kind, json.dumps(head).encode(), blob))
        assert isinstance(decoded, (m.Call, m.Drop, m.Log))


@given(st.binary(max_size=60))
def test_any_head_bytes(head: bytes) -> None:
    """Heads that are no JSON end the guest, and nothing is passed on."""
    for kind in (CALL, DROP, LOG):
        scene = Scene()
        try:
            json.loads(head)
        except ValueError:
            with pytest.raises(Stop):
                scene.channel.write(frame(kind, head))
            assert scene.talk.sent == []


@pytest.mark.parametrize(
    "data",
    [
        frame(frames.RESULT, {"id": 1}),
        frame(frames.EVENT, {"name": "stdout"}, b"x"),
        frame(frames.ARTEFACT, {"id": 1, "path": "x", "size": 0}),
        frame(frames.HELLO, {"protocol": 1, "guest": "x"}),
        frame(frames.ERROR, {"id": 0, "where": "x"}),
        frame(frames.REPLY, {"id": 1}),
        frame(frames.CANCEL, {"id": 1}),
    ],
)
def test_other_frames_do_not_pass(data: bytes) -> None:
    """A guest cannot speak for the engine: only calls, drops and lines of the log leave."""
    scene = Scene()
    with pytest.raises(Stop, match="calls"):
        scene.channel.write(data)
    assert scene.talk.sent == []


def test_a_header_over_the_caps_costs_nothing() -> None:
    """It is refused before a byte of its body is kept."""
    for head, blob in ((frames.GUEST_MAX_HEAD + 1, 0), (1, frames.GUEST_MAX_BLOB + 1), (2**32 - 1, 2**32 - 1)):
        scene = Scene()
        header = frames._HEADER.pack(1, CALL, 0, head, blob)
        with pytest.raises(Stop, match="calls"):
            scene.channel.write(header)
    scene = Scene()
    scene.channel.write(frames._HEADER.pack(1, CALL, 0, 80, frames.GUEST_MAX_BLOB))
    assert scene.channel._parser.pending() == frames.HEADER_SIZE, "a good header reserves nothing either"


def test_deep_heads_end_the_guest() -> None:
    """Nesting is no way into this process's stack."""
    for head in (b"[" * 60_000, b'{"id":' * 10_000, b'{"id":1,"capability":' + b"[" * 60_000):
        with pytest.raises(Stop):
            Scene().channel.write(frame(CALL, head))


def test_calls_past_the_limit_wait() -> None:
    """The fifth waits in the write, and is sent when an answer has come."""
    scene = Scene()
    for id in range(1, 5):
        scene.call(id)
    with pytest.raises(Stop, match="deadline"):
        scene.call(5)
    assert len(scene.talk.sent) == 4

    scene = Scene()
    for id in range(1, 5):
        scene.call(id)
    scene.talk.reply(2)
    scene.call(5)
    assert scene.talk.sent[-1][1]["id"] == 5
    found = scene.channel.take()
    assert found is not None
    assert found[1] == b'{"id":2}'


def test_a_drop_makes_room_and_takes_the_late_answer() -> None:
    """What was dropped is not answered, even where the two crossed; a second drop goes nowhere."""
    scene = Scene(calls_in_flight=1)
    scene.call(1)
    scene.channel.write(frame(DROP, {"id": 1}) * 3)
    assert [kind for kind, _, _ in scene.talk.sent] == [CALL, DROP]
    scene.call(2)
    scene.talk.reply(1, b'"late"')
    scene.talk.reply(2, b'"mine"')
    assert scene.channel.take() == (REPLY, b'{"id":2}', b'"mine"')


def test_answers_that_are_not_read_are_bounded() -> None:
    """Past the cap this process takes in no more, and the guest waits."""
    scene = Scene()
    large = b"x" * (QUEUE_BYTES // 2 + 1)
    for id in range(1, 5):
        scene.call(id)
    for number in range(1, 5):
        scene.talk.reply(number, large)
    scene.call(5)
    scene.call(6)
    with pytest.raises(Stop):
        scene.call(7)
    assert scene.watch.waits[-1] == (None, True), "a deaf wait, which only the end of the run ends"
    assert len(scene.talk.coming) == 2


def test_nothing_of_one_invoke_is_left_for_the_next() -> None:
    """Half a frame, queued answers, open calls: gone; late answers belong to nobody; ids go on rising."""
    scene = Scene()
    scene.call(1)
    scene.call(2)
    scene.talk.reply(1, b'"old"')
    assert scene.channel.wait(0.0)
    scene.channel.write(call(3)[:20])
    scene.channel.end()
    scene.channel.begin(scene.limits)
    assert scene.channel.take() is None
    scene.call(4)
    scene.talk.reply(2, b'"late"')
    scene.talk.reply(3, b'"new"')
    assert scene.channel.take() == (REPLY, b'{"id":4}', b'"new"')
    with pytest.raises(Stop, match="calls"):
        scene.call(4)


def test_another_guest_has_other_numbers() -> None:
    """An answer to the guest before is none of the next one's, though both called their first call 1."""
    numbers = [0]
    first = Scene(numbers)
    first.call(1)
    second = Scene(numbers)
    second.call(1)
    second.talk.reply(1, b'"of the first"')
    second.talk.reply(2, b'"of the second"')
    assert second.channel.take() == (REPLY, b'{"id":1}', b'"of the second"')


def test_refusals_that_are_not_read_are_bounded() -> None:
    """A guest that sends what is too large for ever waits as any that does not read."""
    scene = Scene(call_bytes=10)
    with pytest.raises(Stop, match="deadline"):
        for id in range(1, 200_000):
            scene.call(id, b"x" * 11)
    assert scene.talk.sent == []
    assert scene.channel._queued < QUEUE_BYTES + 1000


def test_log_lines_are_bounded() -> None:
    """Empty lines count too; past the limit they go nowhere and harm nobody."""
    scene = Scene(log_bytes=500)
    scene.channel.write(frame(LOG, {"level": "info", "text": ""}) * 1000)
    assert 0 < len(scene.talk.sent) < 20
    scene = Scene()
    scene.channel.write(frame(LOG, {"level": "info", "text": "\ud800" * 9000}))
    (line,) = parents_view(bytes(scene.talk.raw), 4)
    assert len(line[0].text) == 8192


def test_the_clock_is_looked_at_between_frames() -> None:
    """One write may hold any number of frames."""
    scene = Scene()
    scene.watch.told = True
    with pytest.raises(Stop, match="deadline"):
        scene.channel.write(frame(LOG, {"level": "info", "text": ""}) * 1000)
    assert scene.talk.sent == []


def test_a_descriptor_gives_one_frame_at_a_time() -> None:
    """Reads cut a frame anywhere and never join two; readiness tells what a read would give."""
    scene = Scene()
    fd = CallsFd(scene.channel)
    assert fd.ready() == 0
    scene.call(1)
    scene.call(2)
    assert fd.ready() == -1
    scene.talk.reply(1, b'"a"')
    scene.talk.reply(2, b'"b"')
    for id, blob in ((1, b'"a"'), (2, b'"b"')):
        whole = frames.encode(REPLY, b'{"id":%d}' % id, blob)
        assert fd.ready() == len(whole)
        assert fd.content()[fd.pos :] == whole
        fd.pos += 5
        assert (fd.ready(), fd.content()[fd.pos :]) == (len(whole) - 5, whole[5:])
        fd.pos += len(whole) - 5
    assert fd.content()[fd.pos :] == b""


def test_a_parent_that_says_anything_else_is_a_fault_of_ours() -> None:
    """While a guest runs only answers come."""
    scene = Scene()
    scene.call(1)
    scene.talk.coming.append(frames.Frame(frames.INVOKE, b"{}"))
    with pytest.raises(RuntimeError):
        scene.channel.take()


def test_the_parent_would_end_an_engine_that_let_more_through() -> None:
    """The control: ids that do not rise, passed on as they are, break the conversation."""
    with pytest.raises(GuestProtocolError):
        parents_view(call(2) + call(1), 4)
